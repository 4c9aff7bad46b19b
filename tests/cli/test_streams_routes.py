"""`kafkakit streams create|list|show|history|delete|link|topology|resolve|lane` over clusters in memory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml

from kafkakit import wiring
from kafkakit.cli.context import CliContext
from kafkakit.core.cluster_facts import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    GroupType,
    ItemError,
    QuotaEntity,
    ShareOffset,
)
from kafkakit.core.errors import TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.model.pathways import (
    HEADER,
    PathwayNode,
    checkpoint_in,
    checkpoint_out,
    consume_tags,
    encode_header,
    produce_tags,
)
from kafkakit.streams.model.route import RouteOperation, SegmentState, encode_route, route_path
from kafkakit.streams.model.route_edits import begin_operation
from kafkakit.streams.routes.api_act import RouteStore
from tests.clusters.streams_batches import Rec, batch
from tests.fakes.admin import FakeCluster
from tests.fakes.data import FakeData
from tests.rigs.printed_repairs import command_in
from tests.rigs.stream_desk import StreamDesk


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StreamDesk:
    return StreamDesk(tmp_path, monkeypatch)


def topics(desk: StreamDesk) -> dict[str, tuple[int, dict[str, str]]]:
    return {name: (len(topic.partitions), dict(topic.configs)) for name, topic in sorted(desk.cluster.topics.items())}


def create(desk: StreamDesk, *words: str) -> None:
    desk.done("create", "orders", "--lanes", "live,dlq", "--partitions", "2", "--yes", *words)


def test_a_stream_names_brokers_that_have_no_rack(desk: StreamDesk) -> None:
    words = ("create", "orders", "--partitions", "3", "--dry-run")
    assert "no rack" not in desk.done(*words).stdout
    desk.cluster.brokers[2].rack = None
    assert "\nnote: broker 2 has no rack, others have one: copies there may share" in desk.done(*words).stdout
    assert len(desk.done(*words, "-o", "json").json["notes"]) == 1


def test_a_stream_is_created_with_a_topic_for_each_lane(desk: StreamDesk) -> None:
    words = ("--partitions", "4,dlq=2", "--retention", "7d,dlq=-1", "--topics-config", "dlq:min.insync.replicas=2")
    dry = desk.done("create", "orders", *words, "--dry-run", "-o", "json")
    assert (desk.cluster.calls, desk.store.writes, dry.json["route"]) == ([], 0, None)
    ran = desk.done("create", "orders", *words, "--yes")
    assert topics(desk) == {
        "orders.dlq.1": (2, {"min.insync.replicas": "2", "retention.ms": "-1"}),
        "orders.live.1": (4, {"retention.ms": "604800000"}),
        "orders.retry.1": (4, {"retention.ms": "604800000"}),
        "orders.slow.1": (4, {"retention.ms": "604800000"}),
    }
    held = [b for t in desk.cluster.topics.values() for p in t.partitions.values() for b in p.replicas]
    assert {held.count(broker) for broker in (1, 2, 3)} == {14}
    leaders = [p.leader for t in desk.cluster.topics.values() for p in t.partitions.values()]
    assert max(leaders.count(b) for b in (1, 2, 3)) - min(leaders.count(b) for b in (1, 2, 3)) <= 1
    assert ran.stdout.splitlines()[:3] == ["stream orders on cluster p-id (profile p)", "done: 4 topics, epoch 1", ""]
    assert "orders.live.1" not in ran.stderr, "the table is in the report"
    assert ran.stdout.splitlines()[4].split() == [
        "live", "orders.live.1", "4", "3", "-", "retention.ms=604800000", "create",
    ]  # fmt: skip
    route = desk.route()
    assert [lane.name for lane in route.lanes] == ["live", "slow", "retry", "dlq"]
    for lane, segment in route.segments():
        made = desk.cluster.topics[segment.topic]
        assert (segment.cluster, segment.cluster_id, segment.topic_id) == ("p", "p-id", made.topic_id)
        assert (segment.partitions, segment.state) == (len(made.partitions), SegmentState.ACTIVE)
        assert segment.topic == f"orders.{lane.name}.1"
    assert [s.id for _, s in route.segments()] == [1, 2, 3, 4]
    again = desk.run("create", "orders", *words, "--yes")
    assert (again.code, "stream orders exists already" in again.stderr) == (2, True)


def test_the_lease_keeps_other_processes_from_the_cluster_and_is_given_back(desk: StreamDesk) -> None:
    create(desk)
    lease = desk.store.get("clusters/p-id/lease")
    assert lease is not None
    assert b'"holder":null' in lease.value
    assert [name for name, _ in desk.cluster.calls] == ["create_topic", "create_topic"]


def test_without_consent_nothing_is_done(desk: StreamDesk) -> None:
    for words in (
        ("create", "orders"),
        ("link", "orders", "--topic", "t"),
        ("delete", "orders"),
        ("lane", "pause", "orders", "live"),
        ("lane", "add", "orders", "bulk"),
        ("lane", "remove", "orders", "live"),
    ):
        ran = desk.run(*words)
        # What does not exist is said before consent is asked for.
        assert (ran.code, "pass --yes" in ran.stderr) == (2, words[0] == "create"), ran.stderr
    assert (desk.cluster.calls, desk.store.writes) == ([], 0)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(2))
def test_a_create_that_was_cut_is_continued_by_the_same_command(desk: StreamDesk, number: int, after: bool) -> None:
    count = iter(range(100))

    def cut(call: str, _: Any) -> None:
        if call == "create_topic" and next(count) == number + after:
            raise KeyboardInterrupt

    desk.cluster.before_call.append(cut)
    first = desk.run("create", "orders", "--lanes", "live,dlq", "--partitions", "2", "--yes")
    made = number + after
    if made < 2:
        assert first.code == 130
        assert RouteStore(desk.store).read("orders") is None
        assert len(desk.cluster.topics) == made
        ids = {name: topic.topic_id for name, topic in desk.cluster.topics.items()}
        desk.cluster.before_call.clear()
        ran = desk.done("create", "orders", "--lanes", "live,dlq", "--partitions", "2", "--yes", "-o", "json")
        assert [t["action"] for t in ran.json["topics"]] == ["adopt"] * made + ["create"] * (2 - made)
        assert all(desk.cluster.topics[name].topic_id == found for name, found in ids.items())
    assert {s.topic for _, s in desk.route().segments()} == {"orders.live.1", "orders.dlq.1"}


def test_a_create_that_was_cut_at_the_route_is_continued(desk: StreamDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    real = desk.store.cas

    def cas(path: str, value: bytes, expected: int | None) -> int:
        if path == route_path("orders"):
            raise KeyboardInterrupt
        return real(path, value, expected)

    with monkeypatch.context() as patch:
        patch.setattr(desk.store, "cas", cas)
        assert desk.run("create", "orders", "--lanes", "live", "--yes").code == 130
    ran = desk.done("create", "orders", "--lanes", "live", "--yes", "-o", "json")
    assert [topic["action"] for topic in ran.json["topics"]] == ["adopt"]
    assert (desk.route().epoch, list(desk.cluster.topics)) == (2, ["orders.live.1"])
    history = desk.done("history", "orders")
    assert "not in effect was cut" in history.stdout
    assert [line.split()[0] + line.split()[-1] for line in history.stdout.splitlines()[1:3]] == ["1no", "2yes"]


def test_a_lost_answer_of_the_cluster_is_settled_by_looking(desk: StreamDesk) -> None:
    desk.cluster.fail_next("create_topic", TryLaterError("no answer"), after_effect=True)
    create(desk)
    assert len(desk.cluster.topics) == 2
    desk.cluster.fail_next("create_topic", TryLaterError("no answer"), times=2)
    ran = desk.run("lane", "add", "orders", "bulk", "--yes")
    assert (ran.code, desk.route().lane("bulk")) == (75, None), ran.stderr
    desk.cluster.fail_next("create_topic", TryLaterError("no answer"))
    before_s = desk.clock.elapsed
    desk.done("lane", "add", "orders", "bulk", "--yes")
    assert desk.clock.elapsed == before_s
    assert "orders.bulk.2" in desk.cluster.topics


@pytest.mark.parametrize(
    ("lists", "configs", "problem"),
    [
        (dict.fromkeys(range(6), (1,)), {"a": "b"}, "has other configurations than planned"),
        ({0: (1,)}, {}, "has 1 partitions instead of 6"),
    ],
)
def test_a_topic_that_another_process_made_meanwhile_is_not_taken(
    desk: StreamDesk, lists: dict[int, tuple[int, ...]], configs: dict[str, str], problem: str
) -> None:
    def intrude(call: str, name: object) -> None:
        if call == "create_topic":
            desk.cluster.add_topic(str(name), lists, configs=configs)

    desk.cluster.before_call.append(intrude)
    ran = desk.run("create", "orders", "--lanes", "live", "--yes")
    assert (ran.code, "topic orders.live.1 is not created: TopicAlreadyExists" in ran.stderr) == (1, True)
    desk.cluster.topics.clear()
    desk.cluster.fail_next("create_topic", TryLaterError("no answer"))
    ran = desk.run("create", "orders", "--lanes", "live", "--yes")
    assert (ran.code, f"topic orders.live.1 {problem} after 30 s" in ran.stderr) == (1, True), ran.stderr
    assert RouteStore(desk.store).read("orders") is None


def test_a_cluster_that_gives_topics_no_ids_is_refused(desk: StreamDesk) -> None:
    desk.cluster.add_topic("old", {0: (1,)})
    desk.cluster.topics["old"].topic_id = None  # type: ignore[assignment]
    ran = desk.run("link", "orders", "--topic", "old", "--yes")
    assert (ran.code, "cluster p-id gives topics no ids" in ran.stderr) == (2, True)


def test_brokers_are_chosen_by_tags_and_those_that_are_being_emptied_get_nothing(desk: StreamDesk) -> None:
    def run(*words: str) -> None:
        ran = desk.home.run("--profile", "p", *words)
        assert ran.code == 0, ran.stderr

    def used(lane: str) -> set[int]:
        (topic,) = (topic for name, topic in desk.cluster.topics.items() if f".{lane}." in name)
        return {broker for partition in topic.partitions.values() for broker in partition.replicas}

    run("registry", "tag", "--brokers", "1,3", "disk:nvme")
    desk.done("create", "orders", "--lanes", "live", "--brokers", "where disk = nvme", "--replication", "2", "--yes")
    assert used("live") == {1, 3}
    ran = desk.run("lane", "add", "orders", "x", "--spread-by", "zone", "--yes")
    assert (ran.code, "--spread-by zone: none of the 3 live brokers has it" in ran.stderr) == (2, True), ran.stderr
    desk.clock.on_sleep.append(desk.cluster.advance)
    run("broker", "drain", "3", "--yes", "--ingest-sample", "0")
    desk.done("lane", "add", "orders", "bulk", "--yes")
    assert used("bulk") == {1, 2}


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda desk: desk.write("orders.live.1", 1, 1), "is not empty"),
        (lambda desk: desk.cluster.topics["orders.live.1"].configs.update({"a": "b"}), "has other configurations"),
        (lambda desk: desk.cluster.add_topic("orders.live.1", {0: (1, 2, 3)}), "has 1 partitions instead of 2"),
        (lambda desk: desk.cluster.add_topic("orders.live.1", {0: (1,), 1: (1,)}), "has 1 replicas instead of 3"),
    ],
)
def test_a_topic_that_is_not_like_the_one_wanted_is_refused(
    desk: StreamDesk, spoil: Callable[[StreamDesk], object], problem: str
) -> None:
    desk.cluster.add_topic("orders.live.1", {0: (1, 2, 3), 1: (1, 2, 3)})
    desk.logs["fake:1"].follow()
    spoil(desk)
    ran = desk.run("create", "orders", "--lanes", "dlq,live", "--partitions", "2", "--yes")
    assert ran.code == 2
    assert f"topic orders.live.1 exists already, and {problem}" in ran.stderr
    assert list(desk.cluster.topics) == ["orders.live.1"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("create", "a b"), "not a stream's name"),
        (("create", "x", "--lanes", "live,live"), "names a lane twice"),
        (("create", "x", "--lanes", "Live"), "not a lane's name"),
        (("create", "x", "--lanes", "dlq"), "lacks live"),
        (("create", "x", "--partitions", "0"), "--partitions: '0' is not between 1 and"),
        (("create", "x", "--partitions", "dlq=3"), "--partitions says nothing of lane live"),
        (("create", "x", "--partitions", "3,4"), "are both for all lanes"),
        (("create", "x", "--partitions", "3,bulk=4"), "there is no lane 'bulk'"),
        (("create", "x", "--partitions", "3,dlq=4,dlq=5"), "lane dlq is there twice"),
        (("create", "x", "--retention", "soon"), "--retention"),
        (("create", "x", "--topics-config", "a"), "is not KEY=VALUE"),
        (("create", "x", "--topics-config", "bulk:a=1"), "is not KEY=VALUE"),
        (("create", "x", "--topics-config", "retention.ms=1", "--retention", "1d"), "two values of retention.ms"),
        (("create", "x", "--cluster", "nowhere"), "nowhere"),
        (("create", "x", "--brokers", "9"), "9"),
        (("show", "x"), "there is no stream x in control store zookeeper"),
        (("history", "x"), "there is no stream x"),
        (("delete", "x", "--yes"), "there is no stream x"),
        (("resolve", "x"), "there is no stream x"),
        (("topology", "x"), "there is no stream x"),
        (("lane", "list", "x"), "there is no stream x"),
        (("lane", "add", "x", "bulk", "--yes"), "there is no stream x"),
        (("lane", "pause", "x", "live", "--yes"), "there is no stream x"),
        (("link", "x", "--topic", "none", "--yes"), "there is no topic none in cluster p-id"),
        (("link", "x", "--topic", "__consumer_offsets", "--yes"), "one of Kafka's own"),
        (("link", "x", "--topic", "t", "--lane", "a_b", "--yes"), "not a lane's name"),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(desk: StreamDesk, words: tuple[str, ...], said: str) -> None:
    more = ("--yes",) if words[0] == "create" else ()
    ran = desk.run(*words, *more)
    assert ran.code == 2, ran.stderr
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr
    assert [call for call, _ in desk.cluster.calls] == []
    assert RouteStore(desk.store).streams() == ()


def test_a_factor_that_the_brokers_cannot_hold_is_infeasible(desk: StreamDesk) -> None:
    ran = desk.run("create", "orders", "--replication", "4", "--yes")
    assert (ran.code, desk.cluster.calls) == (4, []), ran.stderr


def test_fewer_brokers_and_racks_are_taken_as_they_are(desk: StreamDesk) -> None:
    ran = desk.done("create", "orders", "--cluster", "q", "--lanes", "live", "--yes")
    assert ran.stdout.startswith("stream orders on cluster q-id (profile q)\n")
    assert [len(p.replicas) for p in desk.other.topics["orders.live.1"].partitions.values()] == [1] * 6
    assert desk.route().clusters == {"q-id": "q"}
    desk.cluster.brokers[3].rack = "b"
    desk.done("lane", "add", "orders", "bulk", "--yes")
    assert len(desk.cluster.topics["orders.bulk.2"].partitions[0].replicas) == 3


def test_without_a_profile_or_a_configured_store_the_command_says_so(desk: StreamDesk) -> None:
    ran = desk.home.run("-B", "fake:1", "-X", "control_store=file", "streams", "create", "orders", "--yes")
    assert (ran.code, "no profile is named" in ran.stderr) == (2, True)
    desk.home.write_config("bootstrap_server: fake:1\n", "profiles.d/bare.yaml")
    ran = desk.run("show", "orders", profile="bare")
    assert (ran.code, "there is no stream orders in control store file (this host only)" in ran.stderr) == (2, True)
    assert "this profile sets no control_store" in ran.stderr
    ran = desk.run("create", "orders", "--lanes", "live", "--yes", profile="bare")
    assert (ran.code, "no control_store is configured" in ran.stderr) == (0, True)


def test_a_store_that_is_away_exits_75(desk: StreamDesk) -> None:
    create(desk)
    desk.store.away = True
    for words in (("list",), ("show", "orders"), ("lane", "pause", "orders", "live", "--yes"), ("history", "orders")):
        assert desk.run(*words).code == 75


def test_streams_are_listed_and_a_damaged_one_is_named(desk: StreamDesk) -> None:
    assert "there are no streams" in desk.done("list").stdout
    create(desk)
    rows = desk.done("list", "-o", "json").json["streams"]
    assert rows == [
        {"stream": "orders", "epoch": 1, "lanes": ["live", "dlq"], "segments": 2, "clusters": ["p"], "problem": ""}
    ]
    desk.store.cas(route_path("bad"), b"{", None)
    newer = encode_route(desk.route()).replace(b'"schema":1', b'"schema":9').replace(b"orders", b"newer1")
    desk.store.cas(route_path("newer1"), newer, None)
    ran = desk.run("list", "-o", "json")
    assert ran.code == 1
    problems = {row["stream"]: row["problem"] for row in ran.json["streams"]}
    assert problems["orders"] == ""
    assert "not valid JSON" in problems["bad"]
    assert "has schema 9" in problems["newer1"]
    ran = desk.run("topology")
    assert (ran.code, "warning: stream bad:" in ran.stderr, "orders.live.1" in ran.stdout) == (0, True, True)
    assert desk.run("lane", "pause", "newer1", "live", "--yes").code == 2


def test_show_tells_records_readers_and_topics_that_are_not_those_of_the_route(desk: StreamDesk) -> None:
    create(desk)
    desk.write("orders.live.1", 0, 10)
    desk.write("orders.live.1", 1, 5)
    desk.commit("billing", "orders.live.1", 0, 4)
    desk.groups["fake:1"].join("watchers", TopicPartition("orders.live.1", 1), TopicPartition("else", 0))
    desk.commit("strangers", "else", 0, 4)
    ran = desk.done("show", "orders", "-o", "json")
    assert [(s["lane"], s["records"], s["problem"]) for s in ran.json["segments"]] == [("live", 15, ""), ("dlq", 0, "")]
    readers = [(r["segment"], r["group"], r["state"], r["members"], r["unread"]) for r in ran.json["readers"]]
    assert readers == [(1, "billing", "empty", 0, 11), (1, "watchers", "stable", 1, 15)]
    text = desk.done("show", "orders").stdout
    assert text.startswith("stream orders, epoch 1\n")
    desk.cluster.topics.pop("orders.live.1")
    desk.cluster.add_topic("orders.live.1", {0: (1,)})
    desk.cluster.topics.pop("orders.dlq.1")
    ran = desk.run("show", "orders", "-o", "json")
    new_id = desk.cluster.topics["orders.live.1"].topic_id
    assert [s["problem"] for s in ran.json["segments"]] == [
        f"the topic was created again (its id is {new_id})",
        "the topic does not exist",
    ]
    assert (ran.code, ran.json["readers"]) == (1, [])


def test_show_names_a_wrong_and_an_unreachable_cluster(desk: StreamDesk) -> None:
    create(desk)
    desk.done("lane", "add", "orders", "bulk", "--cluster", "q", "--yes")
    desk.other.fail_next("cluster", TryLaterError("cannot connect to fake:2"), 1)
    ran = desk.run("show", "orders", "-o", "json")
    assert [s["problem"] for s in ran.json["segments"]] == ["", "", "cannot connect to fake:2"]
    assert (ran.code, "warning: the groups are not known: profile q: cannot connect" in ran.stderr) == (1, True)
    desk.other.cluster_id = "moved"
    assert desk.run("show", "orders", "-o", "json").json["segments"][2]["problem"] == (
        "profile q reaches cluster moved, not q-id"
    )
    (desk.home.config / "profiles.d" / "q.yaml").unlink()
    ran = desk.run("show", "orders", "-o", "json")
    assert (ran.code, "q" in ran.json["segments"][2]["problem"]) == (1, True)


def test_an_existing_topic_becomes_a_stream_a_lane_and_a_segment(desk: StreamDesk) -> None:
    for name in ("pay", "pay-slow", "pay-2"):
        desk.cluster.add_topic(name, {0: (1, 2), 1: (2, 3)})
    ran = desk.run("link", "payments", "--topic", "pay-slow", "--lane", "slow", "--yes")
    assert (ran.code, "its first lane must be live" in ran.stderr) == (2, True)
    dry = desk.done("link", "payments", "--topic", "pay", "--dry-run")
    assert (dry.stdout.splitlines()[0], desk.store.writes) == ("nothing is done: topic pay of p is in lane live", 0)
    desk.done("link", "payments", "--topic", "pay", "--yes")
    desk.done("link", "payments", "--topic", "pay-slow", "--lane", "slow", "--yes")
    desk.done("link", "payments", "--topic", "pay-2", "--yes")
    found = [(lane.name, s.id, s.topic, s.state.value) for lane, s in desk.route("payments").segments()]
    assert found == [("live", 1, "pay", "active"), ("live", 3, "pay-2", "opened"), ("slow", 2, "pay-slow", "active")]
    assert desk.cluster.calls == []
    for stream in ("payments", "others"):
        ran = desk.run("link", stream, "--topic", "pay-2", "--yes")
        assert (ran.code, "is in lane live of stream payments already" in ran.stderr) == (2, True)


@pytest.mark.parametrize(
    "words",
    [
        ("lane", "add", "orders", "bulk"),
        ("lane", "remove", "orders", "dlq", "--force"),
        ("lane", "pause", "orders", "live"),
        ("lane", "resume", "orders", "live"),
        ("lane", "quota", "orders", "live", "5MB/s"),
        ("link", "orders", "--topic", "other"),
        ("delete", "orders"),
        ("delete", "orders", "--topics", "--force"),
    ],
)
def test_nothing_changes_a_stream_while_an_operation_is_open(desk: StreamDesk, words: tuple[str, ...]) -> None:
    create(desk)
    desk.cluster.add_topic("other", {0: (1,)})
    operation = RouteOperation(id="f-1", kind="failover", step="routed")
    RouteStore(desk.store).change(
        "orders", lambda found: begin_operation(found, operation), by="me", what="begin", at_ms=1
    )
    before, found = topics(desk), desk.route()
    ran = desk.run(*words, "--yes")
    assert (ran.code, desk.route(), topics(desk), desk.cluster.quotas) == (2, found, before, {})
    assert "stream orders: failover f-1 is open (step routed), and nothing else changes it" in ran.stderr
    assert "failover f-1 is open, step routed" in desk.run("show", "orders").stdout


def test_lanes_are_added_paused_resumed_and_removed(desk: StreamDesk) -> None:
    create(desk)
    desk.done("lane", "add", "orders", "bulk", "--partitions", "3", "--weight", "5", "--retention", "1h", "--yes")
    assert topics(desk)["orders.bulk.2"] == (3, {"retention.ms": "3600000"})
    assert desk.run("lane", "add", "orders", "bulk", "--yes").code == 2
    for more in ("--yes", "--dry-run"):
        assert desk.run("lane", "pause", "orders", "none", more).code == 2
    looked = desk.done("lane", "pause", "orders", "bulk", "--dry-run").stdout
    assert looked.startswith("nothing is done: lane bulk would be paused")
    ran = desk.done("lane", "pause", "orders", "bulk", "--yes")
    assert ran.stdout == "done: lane bulk is paused\nstream orders, epoch 3\n"
    assert desk.done("lane", "pause", "orders", "bulk", "--yes").stdout.startswith("nothing to do: lane bulk is paused")
    rows = desk.done("lane", "list", "orders", "-o", "json").json["lanes"]
    assert [(row["lane"], row["state"], row["weight"]) for row in rows] == [
        ("live", "open", 1), ("dlq", "open", 1), ("bulk", "paused", 5),
    ]  # fmt: skip
    desk.done("lane", "resume", "orders", "bulk", "--yes")
    desk.done("lane", "remove", "orders", "bulk", "--yes")
    assert [lane.name for lane in desk.route().lanes] == ["live", "dlq"]
    assert "orders.bulk.2" in topics(desk)
    ran = desk.run("lane", "remove", "orders", "live", "--yes")
    assert (ran.code, "pause it instead" in ran.stderr) == (2, True)
    ran = desk.done("lane", "add", "orders", "bulk", "--dry-run", "-o", "json")
    assert ran.json["leftovers"] == ["orders.bulk.2"]
    ran = desk.done("history", "orders", "-o", "json")
    assert [(c["epoch"], c["what"], c["in_effect"]) for c in ran.json["changes"]] == [
        (1, "create with lanes live, dlq", True),
        (2, "add lane bulk", True),
        (3, "pause lane bulk", True),
        (4, "resume lane bulk", True),
        (5, "remove lane bulk", True),
    ]


def quotas(cluster: FakeCluster) -> dict[str, float]:
    """What is set for producers, by client id."""
    return {str(e.client_id): values[PRODUCER_BYTE_RATE] for e, values in cluster.quotas.items()}


def test_quotas_of_lanes_come_change_and_go_with_them(desk: StreamDesk) -> None:
    create(desk, "--quota", "dlq=1MB/s")
    assert quotas(desk.cluster) == {"kafkakit.orders.dlq": 1e6}
    add = ("lane", "add", "orders", "bulk", "--cluster", "q", "--quota", "5MB/s")
    dry = desk.done(*add, "--dry-run", "-o", "json")
    assert (dry.json["topics"][0]["quota_bytes_per_s"], quotas(desk.other)) == (5_000_000, {})
    desk.done(*add, "--yes")
    assert quotas(desk.other) == {"kafkakit.orders.bulk": 5e6}
    listed = desk.done("lane", "list", "orders", "-o", "json").json["lanes"]
    assert [(row["lane"], row["quota_bytes_per_s"]) for row in listed] == [
        ("live", None), ("dlq", 1_000_000), ("bulk", 5_000_000),
    ]  # fmt: skip
    consumers = {CONSUMER_BYTE_RATE: 7.0}
    desk.other.quotas[QuotaEntity(client_id="kafkakit.orders.bulk")] |= consumers
    limit = ("lane", "quota", "orders", "bulk")
    desk.done(*limit, "2MB", "--dry-run")
    assert quotas(desk.other) == {"kafkakit.orders.bulk": 5e6}
    ran = desk.done(*limit, "2MB", "--yes")
    assert ran.stdout == "done: lane bulk has a quota of 2 MB/s a broker\nstream orders, epoch 3\n"
    assert (quotas(desk.other), desk.route().lanes[2].quota_bytes_per_s) == ({"kafkakit.orders.bulk": 2e6}, 2_000_000)
    desk.done(*limit, "none", "--yes")
    assert list(desk.other.quotas.values()) == [consumers]
    assert desk.route().lanes[2].quota_bytes_per_s is None
    desk.other.quotas.clear()
    desk.done(*limit, "3MB", "--yes")
    desk.done("lane", "remove", "orders", "bulk", "--yes", "--force")
    assert desk.other.quotas == {}
    desk.done("delete", "orders", "--yes")
    assert desk.cluster.quotas == {}


def test_a_quota_that_is_not_set_changes_no_route(desk: StreamDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    create(desk)
    for rate in ("0", "5", "x", "5Mb"):
        assert desk.run("lane", "quota", "orders", "live", rate, "--yes").code == 2
    assert desk.run("lane", "quota", "orders", "none", "5MB", "--yes").code == 2
    desk.cluster.fail_item("alter_client_quotas", QuotaEntity(client_id="kafkakit.orders.live"), ItemError(name="No"))
    ran = desk.run("lane", "quota", "orders", "live", "5MB", "--yes")
    assert (ran.code, "the quota of client id kafkakit.orders.live is not changed: No" in ran.stderr) == (1, True)
    monkeypatch.setattr(desk.cluster, "describe_client_quotas", dict)
    ran = desk.run("lane", "quota", "orders", "live", "5MB", "--yes")
    assert (ran.code, "cannot be seen after 30 s" in ran.stderr) == (1, True)
    assert desk.route().epoch == 1


def test_a_quota_that_cannot_be_removed_is_named(desk: StreamDesk) -> None:
    create(desk, "--quota", "1MB")
    desk.cluster.fail_next("alter_client_quotas", TryLaterError("no answer"))
    ran = desk.done("lane", "remove", "orders", "dlq", "--yes", "--force")
    assert "the quota of client id kafkakit.orders.dlq stays: no answer" in ran.stderr
    assert [lane.name for lane in desk.route().lanes] == ["live"]
    desk.cluster.cluster_id = "another"
    ran = desk.done("delete", "orders", "--yes")
    assert "kafkakit.orders.live stays: profile p reaches cluster another, not p-id" in ran.stderr


def test_a_linked_topic_of_another_cluster_has_no_quota_yet(desk: StreamDesk) -> None:
    create(desk, "--quota", "1MB")
    desk.other.add_topic("more", {0: (1,)})
    desk.cluster.add_topic("here", {0: (1,)})
    link = ("link", "orders", "--lane", "dlq", "--yes", "--topic")
    assert "quota" not in desk.done(*link, "here").stderr
    ran = desk.done(*link, "more", "--cluster", "q")
    words = command_in(ran.stderr[ran.stderr.index("set it with: ") :])
    assert "the quota of lane dlq is not set on cluster q-id yet; " in ran.stderr
    assert words == ["--profile", "p", "streams", "lane", "quota", "orders", "dlq", "1000000B"]
    assert desk.home.run(*words, "--yes").code == 0
    assert quotas(desk.other) == {"kafkakit.orders.dlq": 1e6}


def test_a_lane_with_unread_records_is_not_removed(desk: StreamDesk) -> None:
    create(desk)
    desk.write("orders.dlq.1", 0, 3)
    remove = ("lane", "remove", "orders", "dlq", "--yes")
    ran = desk.run(*remove)
    assert (ran.code, "orders.dlq.1: 3 records, and no group reads the stream" in ran.stderr) == (2, True), ran.stderr
    desk.commit("g", "orders.dlq.1", 0, 3)
    desk.commit("h", "orders.live.1", 0, 0)
    ran = desk.run(*remove)
    assert "orders.dlq.1: group h has not read 3 records" in ran.stderr
    assert "group g" not in ran.stderr
    desk.commit("h", "orders.dlq.1", 0, 2)
    assert "group h has not read 1 record\n" in desk.run(*remove).stderr
    desk.commit("h", "orders.dlq.1", 0, 3)
    desk.groups["fake:1"].lost = {"g"}
    assert desk.run(*remove).code == 2
    desk.groups["fake:1"].lost = set()
    desk.done(*remove)
    assert [lane.name for lane in desk.route().lanes] == ["live"]


def test_a_lane_is_removed_by_force(desk: StreamDesk) -> None:
    create(desk)
    desk.write("orders.dlq.1", 0, 3)
    desk.done("lane", "remove", "orders", "dlq", "--yes", "--force")
    assert [lane.name for lane in desk.route().lanes] == ["live"]


def test_a_stream_is_deleted_and_its_topics_only_when_asked_and_not_read(desk: StreamDesk) -> None:
    create(desk)
    desk.commit("others", "orders.live.1", 0, 0)
    desk.done("delete", "orders", "--yes")
    assert (RouteStore(desk.store).read("orders"), len(desk.cluster.topics)) == (None, 2)
    assert desk.done("history", "orders", "-o", "json").json["changes"][-1]["is_deletion"]
    create(desk)
    assert desk.route().epoch == 3
    desk.commit("billing", "orders.live.3", 0, 0)
    desk.groups["fake:1"].join("live-ones", TopicPartition("orders.dlq.3", 0))
    ran = desk.run("delete", "orders", "--topics", "--yes")
    assert ran.code == 2
    assert "orders.live.3: group billing (committed for it)" in ran.stderr
    assert "orders.dlq.3: group live-ones (1 member)" in ran.stderr
    assert len(desk.cluster.topics) == 4
    desk.cluster.topics.pop("orders.dlq.3")
    desk.cluster.add_topic("orders.dlq.3", {0: (1,)})
    ran = desk.done("delete", "orders", "--topics", "--force", "--yes", "-o", "json")
    assert [(t["topic"], t["result"]) for t in ran.json["topics"]] == [
        ("orders.live.3", "deleted"),
        ("orders.dlq.3", "kept: it was created again, under another id"),
    ]
    assert sorted(desk.cluster.topics) == ["orders.dlq.1", "orders.dlq.3", "orders.live.1"]
    assert RouteStore(desk.store).read("orders") is None


def test_a_deletion_that_was_cut_is_continued_by_the_same_command(desk: StreamDesk) -> None:
    create(desk)
    desk.cluster.fail_next("delete_topic", KeyboardInterrupt(), after_effect=True)
    assert desk.run("delete", "orders", "--topics", "--yes").code == 130
    assert (len(desk.cluster.topics), desk.route().epoch) == (1, 1)
    ran = desk.done("delete", "orders", "--topics", "--yes", "-o", "json")
    assert [t["result"] for t in ran.json["topics"]] == ["does not exist", "deleted"]


def test_a_topic_that_is_not_deleted_keeps_the_route(desk: StreamDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    create(desk)
    refused = ItemError(name="TopicDeletionDisabledError")
    monkeypatch.setattr(desk.cluster, "delete_topic", lambda name: refused)
    ran = desk.run("delete", "orders", "--topics", "--yes")
    assert (ran.code, "topic orders.live.1 is not deleted: TopicDeletionDisabledError" in ran.stderr) == (1, True)
    assert desk.route().epoch == 1


def test_topics_behind_a_profile_that_reaches_another_cluster_are_kept(desk: StreamDesk) -> None:
    create(desk)
    desk.cluster.cluster_id = "moved"
    ran = desk.done("delete", "orders", "--topics", "--force", "--yes", "-o", "json")
    assert {t["result"] for t in ran.json["topics"]} == {"kept: profile p reaches cluster moved"}
    assert len(desk.cluster.topics) == 2


def test_share_groups_are_readers_and_a_group_that_is_not_described_blocks(
    desk: StreamDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(desk)
    desk.write("orders.live.1", 0, 7)
    shared = ShareOffset(place=TopicPartition("orders.live.1", 0), start=4, lag=3)
    desk.groups["fake:1"].add_group("workers", kind=GroupType.SHARE).shares = (shared,)
    (reader,) = desk.done("show", "orders", "-o", "json").json["readers"]
    assert (reader["group"], reader["unread"]) == ("workers", 3)
    ran = desk.run("delete", "orders", "--topics", "--yes")
    assert (ran.code, "orders.live.1: group workers (committed for it)" in ran.stderr) == (2, True)
    desk.groups["fake:1"].delete("workers")
    desk.cluster.operations = frozenset({"create"})
    ran = desk.run("delete", "orders", "--topics", "--dry-run")
    assert (ran.code, "profile p: no right to list all groups" in ran.stderr) == (2, True)
    desk.cluster.operations = frozenset({"alter"})
    desk.done("delete", "orders", "--topics", "--dry-run")
    desk.groups["fake:1"].add_group("dark")
    dark = ItemError(name="CoordinatorNotAvailableError")
    monkeypatch.setattr(desk.groups["fake:1"], "describe", lambda groups: dict.fromkeys(groups, dark))
    ran = desk.run("delete", "orders", "--topics", "--yes")
    assert (ran.code, "group dark is not described: CoordinatorNotAvailableError" in ran.stderr) == (2, True)
    assert "CoordinatorNotAvailableError" in desk.run("show", "orders").stderr


def test_the_question_names_the_cluster_that_gets_the_topics(desk: StreamDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CliContext, "input_allowed", True)
    words = ("--profile", "p", "streams", "create", "orders", "--cluster", "q", "--lanes", "live")
    ran = desk.home.run(*words, stdin="no\n")
    assert (ran.code, desk.other.calls, RouteStore(desk.store).streams()) == (0, [], ())
    assert "Create 1 topic for stream orders on cluster q-id (profile q)? Type 'yes'" in ran.stderr
    assert "nothing is done: 1 topic planned" in ran.stdout
    desk.home.run(*words, stdin="yes\n")
    assert desk.route().clusters == {"q-id": "q"}


def test_a_deletion_is_confirmed_by_the_name_of_the_stream(desk: StreamDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    create(desk)
    monkeypatch.setattr(CliContext, "input_allowed", True)
    answers = iter(("yes\n", "orders\n"))
    for left in (1, 0):
        ran = desk.home.run("--profile", "p", "streams", "delete", "orders", stdin=next(answers))
        assert (ran.code, len(RouteStore(desk.store).streams())) == (0, left)
        assert "Type 'orders' to continue" in ran.stderr


def test_the_graph_is_a_table_or_a_mermaid_chart(desk: StreamDesk) -> None:
    create(desk)
    desk.done("lane", "add", "orders", "bulk", "--cluster", "q", "--yes")
    desk.done("lane", "pause", "orders", "bulk", "--yes")
    desk.commit('a "b"', "orders.live.1", 0, 0)
    rows = desk.done("topology", "orders", "-o", "json").json["edges"]
    assert [(r["lane"], r["cluster"], r["state"], r["group"]) for r in rows] == [
        ("live", "p", "active", 'a "b"'),
        ("dlq", "p", "active", None),
        ("bulk", "q", "active, paused", None),
    ]
    chart = desk.done("topology", "--mermaid").stdout
    assert chart.splitlines() == [
        "flowchart LR",
        '  subgraph k1["p"]',
        '    t1s1["orders.live.1"]',
        '    t1s2["orders.dlq.1"]',
        "  end",
        '  subgraph k2["q"]',
        '    t1s3["orders.bulk.2"]',
        "  end",
        '  r1(["orders"])',
        '  r1 -->|"live"| t1s1',
        '  r1 -->|"dlq"| t1s2',
        '  r1 -.->|"bulk"| t1s3',
        '  g1[/"a #34;b#34;"/]',
        "  t1s1 --> g1",
    ]


@pytest.mark.parametrize("is_drawn", [True, False])
def test_the_graph_is_drawn_on_a_page(
    desk: StreamDesk, tmp_path: Path, is_drawn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program in the place of Graphviz draws the labels that it is given, or is not there."""
    if is_drawn:
        program = tmp_path / "bin" / "dot"
        program.parent.mkdir()
        program.write_text(
            "#!/bin/sh\necho '<svg xmlns=\"http://www.w3.org/2000/svg\">'\n"
            "sed -n 's/<b>/\\&lt;b\\&gt;/g; s/.* label=\"\\(.*\\)\"\\]$/<text>\\1<\\/text>/p'\necho '</svg>'\n"
        )
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin" if is_drawn else str(tmp_path))
    create(desk)
    desk.commit("<b>", "orders.live.1", 0, 0)
    file = tmp_path / "streams.html"
    ran = desk.done("topology", "--html", str(file))
    assert ran.stdout.startswith("STREAM ")
    assert f"page: {file}" in ran.stderr
    page = file.read_text()
    assert page.count("orders.live.1") == 2, "a label and a row"
    assert ("<text>&lt;b&gt;</text>" in page) == ("flowchart LR" not in page) == is_drawn
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    desk.done("topology", "--html", str(file))
    assert file.read_text() == page


def pathway(desk: StreamDesk, topic: str, *hops: tuple[str, str, str]) -> None:
    """Write a record that passed these services, each out of a stream by a group and into another stream."""
    context = None
    for number, (source, service, target) in enumerate(hops):
        node = PathwayNode(service)
        if number and context is not None:
            headers = ((HEADER, encode_header(context)),)
            context, _ = checkpoint_in(node, headers, consume_tags(source, "billing"), desk.now_ms)
        _, context, _ = checkpoint_out(node, context, produce_tags(target), desk.now_ms)
    assert context is not None
    desk.logs["fake:1"].follow()
    record = Rec(b"k", b"v", headers=((HEADER.encode(), encode_header(context)),))
    desk.logs["fake:1"].append(TopicPartition(topic, 0), batch(0, [record], base_ms=desk.now_ms))


def test_edges_that_records_prove_are_in_the_graph(desk: StreamDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wiring, "open_data", lambda settings: FakeData(desk.logs[settings.bootstrap_servers]))
    create(desk)
    desk.done("create", "invoices", "--lanes", "live", "--partitions", "1", "--yes")
    first, second = ("", "shop", "orders"), ("orders", "billing", "invoices")
    for _ in range(3):
        pathway(desk, "orders.live.1", first)
    pathway(desk, "orders.dlq.1", first)
    pathway(desk, "invoices.live.1", first, second)
    pathway(desk, "invoices.live.1", first, ("orders", "unnamed", "invoices"))
    desk.commit("billing", "orders.live.1", 0, 3)
    assert desk.done("topology", "-o", "json").json["pathways"] is None
    assert desk.run("topology", "--service", "shop").code == 2
    command = ("topology", "orders", "invoices", "--pathways", "--service", "shop")
    ran = desk.done(*command, "-o", "json")
    assert [tuple(edge.values()) for edge in ran.json["pathways"]] == [
        ("", "", "shop", "orders", 4), ("orders", "billing", "billing", "invoices", 1),
    ]  # fmt: skip
    assert ran.json["unexplained_records"] == {"orders": 0, "invoices": 1}
    text = desk.done(*command).stdout
    assert "invoices: 1 record with a pathway of services that are not named" in text
    chart = desk.done(*command, "--mermaid").stdout.splitlines()
    assert chart[-2:] == ['  w1(("shop")) ==>|"shop"| r1', '  g1 ==>|"billing"| r2']
    alone = desk.done("topology", "invoices", "--pathways", "-o", "json")
    assert (alone.json["pathways"], alone.json["unexplained_records"]) == ([], {"invoices": 2})
    assert "no edge is proved" in desk.done("topology", "invoices", "--pathways").stdout


def test_topics_whose_records_cannot_be_read_are_named(desk: StreamDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    create(desk)
    problem = "no way to records"

    def away(settings: Any) -> NoReturn:
        raise TryLaterError(problem)

    monkeypatch.setattr(wiring, "open_data", away)
    ran = desk.done("topology", "--pathways")
    assert [f"warning: topic orders.{lane}.1: {problem}" in ran.stderr for lane in ("live", "dlq")] == [True, True]


def test_plain_clients_get_addresses_and_are_told_what_they_lose(desk: StreamDesk) -> None:
    create(desk)
    ran = desk.done("resolve", "orders")
    assert ran.stdout.splitlines() == [
        "# stream orders, epoch 1",
        "bootstrap.servers=fake:1",
        "security.protocol=PLAINTEXT",
        "stream.cluster.p.id=p-id",
        "stream.cluster.p.bootstrap.servers=fake:1",
        "stream.cluster.p.security.protocol=PLAINTEXT",
        "stream.name=orders",
        "stream.epoch=1",
        "stream.lanes=live,dlq",
        "stream.lane.live.write.cluster=p",
        "stream.lane.live.write.topic=orders.live.1",
        "stream.lane.live.read=p/orders.live.1",
        "stream.lane.dlq.write.cluster=p",
        "stream.lane.dlq.write.topic=orders.dlq.1",
        "stream.lane.dlq.read=p/orders.dlq.1",
    ]
    assert "warning: a plain client does not follow changes of the route" in ran.stderr
    desk.done("lane", "add", "orders", "bulk", "--cluster", "q", "--yes")
    desk.done("lane", "pause", "orders", "live", "--yes")
    data = desk.done("resolve", "orders", "-o", "json").json
    assert data["clusters"]["q"] == {
        "name": "q", "cluster_id": "q-id", "bootstrap_servers": "fake:2", "security_protocol": "PLAINTEXT",
        "is_checked": True,
    }  # fmt: skip
    assert data["lanes"]["live"] == {
        "is_paused": True, "write": None, "read": [{"cluster": "p", "topic": "orders.live.1"}],
    }  # fmt: skip
    assert "bootstrap.servers=fake:2\n" in desk.done("resolve", "orders", "--lane", "bulk").stdout
    assert desk.run("resolve", "orders", "--lane", "none").code == 2
    desk.other.fail_next("cluster", TryLaterError("cannot connect"))
    ran = desk.done("resolve", "orders")
    assert "warning: the address of q is not checked: cannot connect" in ran.stderr
    desk.other.cluster_id = "moved"
    ran = desk.run("resolve", "orders")
    assert (ran.code, "profile q reaches cluster moved, and the stream is on cluster q-id" in ran.stderr) == (2, True)
    assert ran.stdout == ""


SECURED = """\
bootstrap_server: fake:1
control_store: zookeeper
security:
  protocol: SASL_SSL
  tls: {ca_file: /run/k/ca.pem, cert_file: /run/k/me.pem, key_file: /run/k/me.key, key_password_env: KEY_PW,
        check_hostname: false}
  sasl: {mechanism: SCRAM-SHA-512, username: 'o"ps', password_file: /run/k/kafka.password}
"""


@pytest.mark.parametrize("client", ["librdkafka", "java", "spring"])
def test_settings_of_plain_consumers_name_their_secrets_and_never_hold_them(
    desk: StreamDesk, tmp_path: Path, client: str
) -> None:
    create(desk)
    for name in ("ca.pem", "me.pem", "me.key", "kafka.password"):
        (tmp_path / name).write_text("hunter2")
        (tmp_path / name).chmod(0o600)
    desk.home.write_config(SECURED.replace("/run/k", str(tmp_path)), "profiles.d/p.yaml")
    ran = desk.home.run("--profile", "p", "streams", "resolve", "orders", "-o", client, env={"KEY_PW": "hunter3"})
    assert (ran.code, "hunter" in ran.stdout + ran.stderr) == (0, False), ran.stderr
    assert "warning: a plain client does not follow changes of the route" in ran.stderr
    golden = Path(__file__).parents[1] / "cases" / "streams" / f"resolve.{client}"
    assert ran.stdout.replace(str(tmp_path), "/run/k") == golden.read_text()


SPRING = {
    "config.import", "kafka.bootstrap-servers", "kafka.consumer.auto-offset-reset", "kafka.consumer.isolation-level",
    "kafka.properties", "kafka.security.protocol", "kafka.ssl.bundle", "ssl.bundle.pem.kafka.keystore.certificate",
    "ssl.bundle.pem.kafka.keystore.private-key", "ssl.bundle.pem.kafka.keystore.private-key-password",
    "ssl.bundle.pem.kafka.truststore.certificate",
}  # fmt: skip
"""Of Spring Boot's reference of properties below `spring`."""
KAFKA = {"ssl.endpoint.identification.algorithm", "sasl.mechanism", "sasl.jaas.config"}


def flattened(value: object, prefix: str = "") -> dict[str, object]:
    if not isinstance(value, dict) or prefix == "kafka.properties.":
        return {prefix[:-1]: value}
    return {key: found for name in value for key, found in flattened(value[name], f"{prefix}{name}.").items()}


def test_settings_of_spring_have_the_names_of_its_reference(desk: StreamDesk, tmp_path: Path) -> None:
    """In brackets a key of a map keeps its dots. A file in the current folder is looked for there, not below `/`."""
    golden = yaml.safe_load((Path(__file__).parents[1] / "cases" / "streams" / "resolve.spring").read_text())
    found = flattened(golden["spring"])
    assert set(found) == SPRING
    properties = found["kafka.properties"]
    assert isinstance(properties, dict)
    assert set(properties) == {f"[{key}]" for key in KAFKA}
    assert (found["config.import"], golden["stream"]["topics"]) == (["configtree:/run/k/"], "orders.live.1")
    assert 'password="${kafka.password}";' in properties["[sasl.jaas.config]"]
    create(desk)
    security = "{protocol: SASL_PLAINTEXT, sasl: {mechanism: PLAIN, username: ops}}"
    desk.home.write_config(f"bootstrap_server: fake:1\nsecurity: {security}\n", "profiles.d/p.yaml")
    (desk.home.work / "kafka.password").write_text("hunter2")
    (desk.home.work / "kafka.password").chmod(0o600)
    override = "security.sasl.password_file=kafka.password"
    ran = desk.home.run("--profile", "p", "streams", "resolve", "orders", "-o", "spring", "-X", override)
    assert ran.code == 0, ran.stderr
    found = flattened(yaml.safe_load(ran.stdout)["spring"])
    assert found["config.import"] == ["configtree:./"]
    assert "Spring Boot 3.2" not in ran.stdout


def test_settings_of_a_plain_consumer_are_for_one_cluster(desk: StreamDesk) -> None:
    create(desk)
    desk.done("lane", "add", "orders", "bulk", "--cluster", "q", "--yes")
    both = desk.run("resolve", "orders", "-o", "java")
    assert (both.code, both.stdout) == (2, "")
    assert "stream orders is read on clusters p, q, and a consumer's settings are for one" in both.stderr
    assert "choose one with --cluster: p, q" in both.stderr
    there = desk.done("resolve", "orders", "-o", "java", "--cluster", "q").stdout.splitlines()
    assert there == [
        "# stream orders, epoch 2, cluster q: read all of these topics",
        "# topics: orders.bulk.2",
        "#group.id=GROUP",
        "bootstrap.servers=fake:2",
        "security.protocol=PLAINTEXT",
        "auto.offset.reset=earliest",
        "isolation.level=read_committed",
    ]
    letters = desk.done("resolve", "orders", "--lane", "dlq", "-o", "librdkafka").stdout
    assert "# one topic:  kcat -F FILE -C -t orders.dlq.1\n" in letters
    assert "has no segment on cluster x" in desk.run("resolve", "orders", "-o", "spring", "--cluster", "x").stderr
    assert "--cluster requires -o librdkafka, java or spring" in desk.run("resolve", "orders", "--cluster", "q").stderr
