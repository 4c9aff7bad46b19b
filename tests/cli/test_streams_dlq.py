"""`streams dlq` and `streams lane route` as an operator runs them, over fakes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafkakit.core.model import TopicPartition
from kafkakit.streams.lanes.act import dead_letters as reconciling
from kafkakit.streams.model.record_identity import HEADER, RecordId, encode_record_id, format_record_id
from kafkakit.streams.model.route import LaneRule, Route, encode_route, route_path
from tests.rigs.command_line import Desk
from tests.rigs.lanes import LaneWorld, failure


class LanesDesk(Desk):
    command = ("streams",)

    def __init__(self, folder: Path) -> None:
        self.world = LaneWorld(rules=(LaneRule(lane="retry", where="tenant = slowpoke"),))
        super().__init__(folder, self.world.clock)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LanesDesk:
    desk = LanesDesk(tmp_path)
    world = desk.world
    return desk.sit(
        monkeypatch, open_log=world.log, open_data=world.data, open_admin=world.admin, open_groups=world.groups,
        open_control=world.store,
    )  # fmt: skip


def test_copies_and_references_are_listed_with_what_is_known(desk: LanesDesk) -> None:
    desk.world.put("live", b"still there")
    desk.world.reject(0)
    desk.world.kill(b"v", of=failure(reason="boom\x1b[2J", error_class="ValueError", tries=3))
    desk.world.put("dlq", b"by hand", key=b"\xff")
    ran = desk.run("dlq", "list", "orders")
    assert (ran.code, ran.stderr) == (0, "")
    assert "stream orders: 3 rejected records" in ran.stdout
    assert "\x1b" not in ran.stdout
    assert "orders.live.1/0@0  reference" in ran.stdout
    found = desk.run("dlq", "list", "orders", "-o", "json").json
    assert (found["matching"], found["unreadable_references"]) == (3, 0)
    assert found["by_reason"] == {"boom\x1b[2J": 1, "no readable provenance": 1, "poison": 1}
    reference, copied, bare = found["records"]
    assert (reference["held"], reference["place"]) == ("reference", "orders.live.1/0@0")
    assert copied["provenance"]["error_class"] == "ValueError"
    assert (bare["provenance"], bare["key"]["base64"]) == (None, "/w==")


@pytest.mark.parametrize(
    ("where", "places"),
    [
        ("reason = poison", ["orders.dlq.1/0@0"]),
        ("reason != poison", ["orders.dlq.1/0@1"]),
        ("tries >= 2 and group like 'b*'", ["orders.dlq.1/0@1"]),
        ("held = reference", []),
        ("replayed = false and key = k", ["orders.dlq.1/0@0", "orders.dlq.1/0@1"]),
        ("header.trace = 1 and lane = live and age_s > 10", ["orders.dlq.1/0@0", "orders.dlq.1/0@1"]),
    ],
)
def test_a_query_chooses(desk: LanesDesk, where: str, places: list[str]) -> None:
    desk.world.kill(b"a")
    desk.world.kill(b"b", of=failure(reason="timeout", tries=2))
    found = desk.run("dlq", "list", "orders", "--where", where, "-o", "json").json
    assert [record["place"] for record in found["records"]] == places


def test_one_record_is_shown_and_written_nowhere_else(desk: LanesDesk) -> None:
    desk.world.put("live", b"ref-secret")
    desk.world.reject(0)
    desk.world.kill(b"copy-secret", of=failure(error_text="bad\nline", tries=2))
    for place, secret in (("orders.dlq.1/0@0", "copy-secret"), ("orders.live.1/0@0", "ref-secret")):
        ran = desk.run("dlq", "show", "orders", place)
        assert (ran.code, ran.stderr) == (0, "")
        assert secret in ran.stdout
        assert "reason       poison, after " in ran.stdout
    files = [path for path in desk.home.folder.rglob("*") if path.is_file()]
    assert not [path for path in files if b"secret" in path.read_bytes()]
    assert desk.run("dlq", "show", "orders", "orders.live.1/0@1").code == 2
    assert desk.run("dlq", "show", "orders", "orders.dlq.1/0@9").code == 1
    desk.world.log.trim(TopicPartition("orders.live.1", 0), 1)
    ran = desk.run("dlq", "show", "orders", "orders.live.1/0@0", "-o", "json")
    assert (ran.code, ran.json["problem"]) == (1, "deleted: the log starts at 1")
    desk.world.add_topic("orders.live.1", 2)
    desk.world.put("live", b"of another topic")
    ran = desk.run("dlq", "show", "orders", "orders.live.1/0@0")
    assert (ran.code, ran.stdout) == (1, "")
    assert "was deleted since" in ran.stderr


SPRING = (
    ("kafka_dlt-original-topic", b"payments"),
    ("kafka_dlt-original-partition", (1).to_bytes(4, "big")),
    ("kafka_dlt-original-offset", (42).to_bytes(8, "big")),
    ("kafka_dlt-original-timestamp", (1_700_000_000_000).to_bytes(8, "big")),
    ("kafka_dlt-original-consumer-group", b"billing"),
    ("kafka_dlt-exception-fqcn", b"java.net.SocketTimeoutException"),
    ("kafka_dlt-exception-message", b"read timed out"),
    ("trace", b"7"),
)
CONNECT = (
    ("__connect.errors.topic", b"payments"),
    ("__connect.errors.partition", b"0"),
    ("__connect.errors.offset", b"17"),
    ("__connect.errors.connector.name", b"sink"),
    ("__connect.errors.exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
    ("__connect.errors.exception.message", b"no schema"),
)
STREAMS = (
    ("__streams.errors.topic", b"payments"),
    ("__streams.errors.partition", b"1"),
    ("__streams.errors.offset", b"3"),
    ("__streams.errors.exception", b"org.apache.kafka.common.errors.SerializationException"),
    ("__streams.errors.message", b"bad"),
)


def put_letters(desk: LanesDesk, topic: str, *letters: Any) -> None:
    """Dead letters of others in a topic, and topic `payments` of two partitions, from which they came."""
    for name, partitions in ((topic, 1), ("payments", 2)):
        if not desk.world.log.places([name]).get(name):
            desk.world.add_topic(name, partitions)
    producer = desk.world.data.producer()
    for number, headers in enumerate(letters):
        producer.send(TopicPartition(topic, 0), b"%d" % number, b"k%d" % number, headers)


def records(desk: LanesDesk, topic: str, partition: int) -> list[Any]:
    return desk.world.data.records(TopicPartition(topic, partition))


def test_dead_letters_of_other_frameworks_are_listed_with_their_origin(desk: LanesDesk) -> None:
    put_letters(desk, "pay.DLT", SPRING, CONNECT, STREAMS, ())
    found = desk.run("dlq", "list", "pay.DLT", "-o", "json").json
    origins = [r["provenance"] and (r["provenance"]["topic"], r["provenance"]["offset"]) for r in found["records"]]
    assert origins == [("payments", 42), ("payments", 17), ("payments", 3), None]
    assert found["records"][0]["provenance"]["group"] == "billing"
    assert found["records"][0]["provenance"]["error_text"] == "read timed out"
    assert found["by_reason"]["SocketTimeoutException"] == 1
    ran = desk.run("dlq", "list", "pay.DLT", "--where", "error_class like '*DataException'")
    assert (ran.code, ran.stdout.splitlines()[0]) == (0, "topic pay.DLT: 1 rejected record")


def test_dead_letters_of_other_frameworks_go_back_where_they_came_from(desk: LanesDesk) -> None:
    put_letters(desk, "pay.DLT", SPRING, CONNECT, STREAMS, ())
    plan = desk.run("dlq", "replay", "pay.DLT", "--dry-run", "-o", "json").json
    assert (plan["matching"], plan["replayed"], plan["targets"]) == (4, 3, {"payments": 3})
    assert (sum(plan["stayed"].values()), records(desk, "payments", 0), records(desk, "payments", 1)) == (1, [], [])
    assert desk.run("dlq", "replay", "pay.DLT", "--yes").code == 0
    assert [record.value for record in records(desk, "payments", 1)] == [b"0", b"2"]
    (again,) = records(desk, "payments", 0)
    assert (again.key, again.value, tuple(again.headers)) == (b"k1", b"1", CONNECT)
    assert tuple(records(desk, "payments", 1)[0].headers) == SPRING
    assert desk.run("dlq", "replay", "pay.DLT", "--yes", "-o", "json").json["replayed"] == 0, "each once"
    assert desk.run("dlq", "replay", "pay.DLT", "--to", "payments", "--yes").code == 0
    assert len(records(desk, "payments", 0)) == 2
    assert "pay.DLT" not in desk.world.store.children("streams")


def test_the_header_of_another_program_is_named(desk: LanesDesk) -> None:
    put_letters(desk, "dead", (("my-topic", b"payments"), ("my-partition", b"1")), SPRING)
    assert "2 no readable provenance" not in desk.run("dlq", "list", "dead").stdout
    ran = desk.run("dlq", "replay", "dead", "--topic-header", "my-topic", "--yes", "-o", "json")
    assert (ran.code, ran.json["targets"], ran.json["matching"]) == (0, {"payments": 1}, 2)
    assert [record.value for record in records(desk, "payments", 1)] == [b"0"]


def test_an_origin_shows_what_the_headers_tell_of_it(desk: LanesDesk) -> None:
    named = ("x-original-topic", b"payments")
    put_letters(desk, "dead", (named,), (named, ("x-original-partition", b"1")), SPRING)
    told = desk.run("dlq", "list", "dead").stdout
    assert ("-1" in told, "payments/1@42" in told) == (False, True)
    assert [line.split().count("payments") for line in told.splitlines() if line.startswith("dead/0@0")] == [1]


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        (b"nope", "topic nope does not exist"),
        (b"__consumer_offsets", "is internal"),
        (b"dead", "of the dead letter topic itself"),
        (b"../x", "is not a topic's name"),
    ],
)
def test_a_header_never_leads_elsewhere(desk: LanesDesk, topic: bytes, words: str) -> None:
    desk.world.add_topic("__consumer_offsets", 1)
    put_letters(desk, "dead", (("x-original-topic", topic),))
    ran = desk.run("dlq", "replay", "dead", "--yes")
    assert (ran.code, "stayed: 1 " in ran.stdout, words in ran.stdout) == (0, True, True)
    assert len(records(desk, "dead", 0)) == 1
    refused = desk.run("dlq", "replay", "dead", "--to", topic.decode(), "--yes")
    assert (refused.code, words in refused.stderr) == (2, True)


def test_what_is_neither_a_stream_nor_a_topic_is_said(desk: LanesDesk) -> None:
    for command in ("list", "replay"):
        ran = desk.run("dlq", command, "nothing", *(("--dry-run",) if command == "replay" else ()))
        assert (ran.code, "there is neither a stream nor a topic nothing" in ran.stderr) == (2, True)


def test_a_replay_asks_and_then_writes_once(desk: LanesDesk) -> None:
    desk.world.kill(b"a", b"b")
    ran = desk.run("dlq", "replay", "orders")
    assert (ran.code, desk.world.values("live")) == (2, [])
    assert "--yes" in ran.stderr
    ran = desk.run("dlq", "replay", "orders", "--dry-run", "-o", "json")
    assert (ran.code, ran.json["is_plan"], ran.json["matching"]) == (0, True, 2)
    assert (desk.world.values("live"), desk.world.store.children("streams/orders")) == ([], ("route",))
    ran = desk.run("dlq", "replay", "orders", "--yes")
    assert ran.code == 0
    assert "replayed 2" in ran.stdout
    assert desk.run("dlq", "replay", "orders", "--yes", "-o", "json").json["replayed"] == 0
    assert desk.world.values("live") == [b"a", b"b"]


def test_two_replays_of_a_stream_do_not_run_at_once(desk: LanesDesk) -> None:
    from kafkakit.wiring import open_lease

    desk.world.kill(b"a")
    lease = open_lease(
        desk.world.store, desk.world.clock, "C1", "other", print, "streams/orders/lease-replay", "replay"
    )
    lease.acquire()
    ran = desk.run("dlq", "replay", "orders", "--yes")
    assert (ran.code, desk.world.values("live")) == (75, [])
    lease.release()
    assert desk.run("dlq", "replay", "orders", "--yes").code == 0


def test_a_purge_deletes_what_matches_from_the_beginning_and_references(desk: LanesDesk) -> None:
    desk.world.put("live", b"x")
    desk.world.reject(0)
    desk.world.kill(b"a", b"b", of=failure(reason="old"))
    desk.world.kill(b"c")
    desk.world.kill(b"d", of=failure(reason="old"))
    assert desk.run("dlq", "purge", "orders", "--yes").code == 2
    plan = desk.run("dlq", "purge", "orders", "--where", "reason = old", "--dry-run")
    assert plan.code == 0
    assert "purge 2 records and 0 references for good" in plan.stdout
    assert "1 matching record stay" in plan.stdout
    assert len(desk.world.values("dlq")) == 4
    assert desk.run("dlq", "purge", "orders", "--where", "reason = old", "--yes").code == 0
    assert desk.world.values("dlq") == [b"c", b"d"]
    assert len(desk.world.ledger.read()[0]) == 1
    assert desk.run("dlq", "purge", "orders", "--all", "--yes").code == 0
    assert (desk.world.values("dlq"), desk.world.ledger.read()) == ([], ({}, 0))


def test_references_are_copied_and_what_is_lost_fails(desk: LanesDesk) -> None:
    desk.world.put("live", b"a", b"b", b"c")
    desk.world.reject(1, 2)
    desk.world.log.trim(TopicPartition("orders.live.1", 0), 2)
    planned = desk.run("dlq", "copy", "orders", "--all", "--dry-run", "-o", "json")
    assert (planned.code, json.loads(planned.stdout)["copied"], desk.world.values("dlq")) == (1, 1, [])
    assert "would copy 1 record" in desk.run("dlq", "copy", "orders", "--all", "--dry-run").stdout
    assert len(desk.world.ledger.read()[0]) == 2
    ran = desk.run("dlq", "copy", "orders", "--once", "--all", "-o", "json")
    assert ran.code == 1
    document = json.loads(ran.stdout)
    assert (document["copied"], document["waiting"]) == (1, 0)
    assert document["lost"] == {"orders.live.1/0@1 of group billing": "deleted: the log starts at 2"}
    assert desk.world.values("dlq") == [b"c"]
    assert desk.run("dlq", "copy", "orders", "--every", "20h").code == 2


def test_what_cannot_be_meant_is_a_usage_error(desk: LanesDesk) -> None:
    for words in (
        ("dlq", "list", "none"),
        ("dlq", "list", "or/ders"),
        ("dlq", "list", "orders", "--where", "reasn = x"),
        ("dlq", "list", "orders", "--where", "tries = many"),
        ("dlq", "list", "orders", "--where", "reason ="),
        ("dlq", "show", "orders", "x"),
        ("dlq", "replay", "orders", "--to", "nowhere", "--yes"),
        ("dlq", "replay", "orders", "--to", "dlq", "--yes"),
        ("dlq", "replay", "orders", "--rate", "0", "--yes"),
        ("dlq", "purge", "orders", "--all", "--where", "tries = 1", "--yes"),
        ("lane", "route", "--sample", "-"),
        ("lane", "route", "--sample", "-", "--rules", "-"),
    ):
        ran = desk.run(*words)
        assert (ran.code, ran.stdout) == (2, ""), words
        assert "Traceback" not in ran.stderr


SAMPLE = (
    '{"key": {"text": "eu-1", "bytes": 4}, "value": {"text": "x", "bytes": 500000, "truncated": true}, "headers": []}\n'
    '{"records": [{"key": null, "value": null, "headers": [{"name": "tenant", "value": {"text": "slowpoke"}}]},'
    ' {"value": {"base64": "/w=="}, "timestamp_ms": 1}]}\n'
)


def test_sampled_records_are_counted_by_lane_and_rule(desk: LanesDesk) -> None:
    rules = desk.home.folder / "rules.yaml"
    rules.write_text("- lane: slow\n  where: bytes > 100kB\n- lane: retry\n  where: age_s > 60 and not exists(key)\n")
    ran = desk.run("lane", "route", "--rules", str(rules), "--sample", "-", "-o", "json", stdin=SAMPLE)
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.json["lanes"] == {"slow": 1, "retry": 1, "live": 1}
    assert [share["records"] for share in ran.json["by_rule"]] == [1, 1, 1]
    ran = desk.run("lane", "route", "--stream", "orders", "--sample", "-", stdin=SAMPLE)
    assert ran.stdout.startswith("3 records by the rules of stream orders")
    assert "retry  1           1  33.3%  tenant = slowpoke" in ran.stdout


def test_what_records_show_prints_is_a_sample(desk: LanesDesk) -> None:
    desk.world.put("live", b"a", b"b", headers=(("tenant", b"slowpoke"),))
    desk.world.put("live", b"c")
    shown = desk.run("records", "show", "orders.live.1/0@0", "--count", "3", "-o", "json").stdout
    ran = desk.run("lane", "route", "--stream", "orders", "--sample", "-", "-o", "json", stdin=SAMPLE + 2 * shown)
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.json["lanes"] == {"retry": 5, "live": 4}


def test_rules_are_shown_and_replaced(desk: LanesDesk) -> None:
    rules = desk.home.folder / "rules.yaml"
    rules.write_text("- lane: dlq\n  where: bytes > 100kB\n- lane: retry\n  where: exists(key)\n")
    ran = desk.run("lane", "rules", "orders", "-o", "json")
    assert (ran.code, ran.stderr) == (0, "")
    assert [rule["lane"] for rule in ran.json["rules"]] == ["retry"]
    first, replace = ran.json["epoch"], ("lane", "rules", "orders", str(rules))
    ran = desk.run(*replace, "--dry-run")
    assert ran.code == 0, ran.stderr
    assert "not replaced; these would be the rules" in ran.stdout
    assert desk.run(*replace).code == 2, "not without consent"
    ran = desk.run(*replace, "--yes", "-o", "json")
    assert (ran.code, ran.json["changed"], ran.json["epoch"] > first) == (0, True, True)
    ran = desk.run("lane", "rules", "orders")
    assert "2 rules, as they are" in ran.stdout
    assert "bytes > 100kB" in ran.stdout
    ran = desk.run("lane", "route", "--stream", "orders", "--sample", "-", "-o", "json", stdin=SAMPLE)
    assert ran.json["lanes"] == {"dlq": 1, "retry": 0, "live": 2}
    ran = desk.run(*replace, "--yes", "-o", "json")
    assert (ran.code, ran.json["changed"]) == (0, False)
    rules.write_text("- lane: nowhere\n  where: bytes > 1\n")
    ran = desk.run(*replace, "--yes")
    assert (ran.code, ran.stdout) == (2, "")
    assert "there is no lane 'nowhere'" in ran.stderr
    ran = desk.run("lane", "rules", "orders", "none", "--yes")
    assert "No rules: every record goes to lane live." in ran.stdout


def test_bad_rules_and_samples_name_their_place(desk: LanesDesk) -> None:
    rules = desk.home.folder / "rules.yaml"
    for text, words in (
        ("- lane: slow\n  where: bytes >\n", "rule 1 (lane slow): query, column 8"),
        ("- lane: slow\n  where: tenent = 1\n", "did you mean tenant?"),
        ("- lane: slow\n", "a rule has a lane and a query"),
        ("- lane: slow\n  when: x\n", ":2: unknown key 'when'"),
        ("[]", "holds 0 rules"),
    ):
        rules.write_text(text)
        ran = desk.run("lane", "route", "--rules", str(rules), "--sample", "-")
        assert (ran.code, ran.stdout) == (2, "")
        assert words in ran.stderr.replace("\n  hint", "; hint")
    rules.write_text("- lane: slow\n  where: bytes > 1\n")
    for sample in (
        "{",
        "[]",
        '{"value": {"base64": "x"}}',
        '{"value": {"text": "\\ud800"}}',
        '{"value": {"bytes": -1}}',
    ):
        ran = desk.run("lane", "route", "--rules", str(rules), "--sample", "-", stdin="{}\n" + sample)
        assert (ran.code, ran.stdout) == (2, ""), sample
        assert "-:2: " in ran.stderr


def dual(
    desk: LanesDesk, lane: str, at_ms: int, number: int, *, key: bytes = b"k", to: str = "both", partition: int = 0
) -> None:
    """Write a record as a dual producer does; the secondary keeps its own in lane `retry` of the same cluster."""
    identity = RecordId(at_ms=at_ms, session=7, sequence=number)
    headers = ((HEADER, encode_record_id(identity)),)
    desk.world.data.now_ms = at_ms
    if to in ("both", "primary"):
        desk.world.put(lane, b"v", key=b"k", headers=headers, partition=partition)
    if to in ("both", "secondary"):
        desk.world.put("retry", b"v", key=key, headers=headers, partition=partition)


@pytest.fixture
def copied(desk: LanesDesk) -> LanesDesk:
    """Stream `copies` is lane retry of the world; `orders` keeps live and dlq."""
    live, retry, dlq = desk.world.route.lanes
    store = desk.world.store
    held = store.get(route_path("orders"))
    assert held is not None
    store.cas(route_path("orders"), encode_route(replace(desk.world.route, lanes=(live, dlq), rules=())), held.version)
    copies = Route(stream="copies", epoch=1, next_segment=9, lanes=(replace(retry, name="live"),))
    store.cas(route_path("copies"), encode_route(copies), None)
    return desk


def test_two_streams_of_a_dual_write_are_compared(copied: LanesDesk) -> None:
    now = copied.world.now_ms
    for number in range(20):
        dual(copied, "live", now - 60_000 * (30 - number), number, partition=number % 2)
    command = ("reconcile", "orders", "copies")
    ran = copied.run(*command)
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout.splitlines()[0] == "no difference"
    dual(copied, "live", now - 300_000, 20, to="primary")
    dual(copied, "live", now - 300_000, 21, to="secondary", partition=1)
    dual(copied, "live", now - 300_000, 22, key=b"other")
    dual(copied, "dlq", now - 300_000, 23, to="primary")
    copied.world.put("live", b"by hand")
    ran = copied.run(*command, "-o", "json")
    found = ran.json
    assert (ran.code, found["is_equal"], found["both"], found["other_key"]) == (1, False, 21, 1)
    assert (found["only_in_primary"], found["only_in_secondary"]) == (1, 1)
    identity = format_record_id(RecordId(at_ms=now - 300_000, session=7, sequence=20))
    assert found["examples"]["only_in_primary"] == [identity]
    assert found["primary"]["records"] == 22
    assert "1 record of stream orders without an id: not compared" in ran.stderr
    earlier = copied.run(*command, "--since", "-1h", "--until", "-6m", "--margin", "1s", "-o", "json")
    assert (earlier.code, earlier.json["both"], earlier.json["primary"]["without_identity"]) == (0, 20, 0)
    some = copied.run(*command, "--since", "-20m", "--until", "-12m", "-o", "json")
    assert (some.code, some.json["both"]) == (0, 8)


def test_a_comparison_is_refused_for_bad_ranges_streams_and_too_many_records(
    copied: LanesDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in (("orders", "none"), ("orders", "orders"), ("orders", "copies", "--since", "-1m", "--until", "-1h")):
        assert copied.run("reconcile", *words).code == 2
    for number in range(4):
        dual(copied, "live", copied.world.now_ms - 120_000, number)
    monkeypatch.setattr(reconciling, "MOST_RECORDS", 3)
    ran = copied.run("reconcile", "orders", "copies")
    assert (ran.code, "stream orders has more than 3 records" in ran.stderr) == (2, True), ran.stderr
    copied.world.log.unreachable = True
    assert copied.run("reconcile", "orders", "copies").code == 75
