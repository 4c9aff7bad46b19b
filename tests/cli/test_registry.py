"""`kafkakit registry` as operators and scripts run it: the same over a server and on the store of tags."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from struct import pack
from typing import Any
from unittest import mock

import pytest
import yaml

from kafkakit import wiring
from kafkakit.adapters.control_file import FileControl
from kafkakit.adapters.files import write_file
from kafkakit.adapters.host import SystemClock, life_of, this_holder
from kafkakit.adapters.read_only import ReadOnlyAdmin
from kafkakit.cli.command_classes import CliContext
from kafkakit.core.errors import TryLaterError
from kafkakit.execution.act.leases import Lease
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.registry.act.tag_store import TagStore
from kafkakit.registry.decide.offsets import with_intervals
from kafkakit.registry.decide.requests import OffsetsReply
from kafkakit.registry.decide.tags import ObjectKind
from tests.fakes.control import FakeControlStore
from tests.fakes.topics import MemoryTopics
from tests.rigs.command_line import Home, Ran
from tests.rigs.registry import Registry, serving, small_cluster

ROOT = "clusters/fake-cluster/registry"


class Harness:
    """A host with a profile, a cluster, and a store of tags; with `registry` a server stands before both."""

    def __init__(self, folder: Path, *, is_served: bool) -> None:
        self.home = Home(folder)
        self.home.write_config("bootstrap_server: fake:1\n", "profiles.d/p.yaml")
        self.cluster = small_cluster()
        self.stack = ExitStack()
        self.registry: Registry | None = None
        self.znodes, self.topic = FakeControlStore(), FakeControlStore()
        self.store: Any = FileControl(self.home.state / "control", write_file)
        self.tags = TagStore(self.store, ROOT)
        if is_served:
            self.store = FakeControlStore()
            self.tags = TagStore(self.store, "registry")
            given = {"west.logs:3": (130, 91)}
            self.registry = self.stack.enter_context(
                serving(
                    folder,
                    self.cluster,
                    self.store,
                    translate=lambda request, deadline_s: OffsetsReply(offsets=given),
                    translate_v2=lambda request, deadline_s: with_intervals(given, (), request.alias),
                )
            )

    def open_admin(self, settings: Any, *, read_only: bool = False, **_: Any) -> ClusterAdmin:
        return ReadOnlyAdmin(self.cluster) if read_only else self.cluster

    def run(self, *words: str, stdin: str = "") -> Ran:
        if self.registry is None:
            return self.home.run("--profile", "p", "registry", *words, stdin=stdin)
        self.registry.refresh()
        return self.home.run(
            "registry", *words, env={"REGISTRY_SERVER": f"http://{self.registry.addresses['HTTP']}"}, stdin=stdin
        )

    @contextmanager
    def home_context(self) -> Iterator[None]:
        with mock.patch.dict(os.environ, self.home.environment(), clear=True):
            yield

    def file(self, name: str, content: object) -> str:
        self.home.work.mkdir(parents=True, exist_ok=True)
        (self.home.work / name).write_text(content if isinstance(content, str) else json.dumps(content))
        return name


@pytest.fixture(params=["store", "server"])
def desk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    desk = Harness(tmp_path, is_served=request.param == "server")
    monkeypatch.setattr(wiring, "open_admin", desk.open_admin)
    with desk.stack:
        yield desk


def test_a_tag_is_set_listed_queried_and_deleted(desk: Harness) -> None:
    ran = desk.run("tag", "--topics", "test1,test2", "--brokers", "1001", "team:pay", "tier:hot")
    assert (ran.code, ran.stdout.splitlines()[-1]) == (0, "3 of 3 objects changed")
    assert desk.tags.all(ObjectKind.TOPIC, []) == {n: {"team": "pay", "tier": "hot"} for n in ("test1", "test2")}
    assert desk.run("untag", "--topics", "test2", "tier").code == 0
    found = desk.run("topics", "where tier = hot and partitions >= 2", "-o", "json").json
    assert [(t["name"], t["tags"]) for t in found["topics"]] == [("test1", {"team": "pay", "tier": "hot"})]
    listed = desk.run("brokers", "where exists(team)", "-o", "tsv").stdout
    assert listed == "1001\t127.0.0.1\t9092\ta\tteam:pay,tier:hot\n"
    table = desk.run("topics").stdout.splitlines()
    assert table[-2:] == [
        "test1           2            2  team:pay,tier:hot",
        "test2           2            2  team:pay",
    ]


def test_what_is_there_already_is_no_change(desk: Harness) -> None:
    desk.run("tag", "--brokers", "1001", "tier:hot")
    ran = desk.run("tag", "--brokers", "1001", "tier:hot")
    assert (ran.code, ran.stdout.splitlines()[-1]) == (0, "nothing to change")


def test_a_dry_run_changes_nothing(desk: Harness) -> None:
    ran = desk.run("tag", "--topics", "test1", "a:1", "--dry-run")
    assert (ran.code, ran.stdout.splitlines()[-3:]) == (0, ["topic test1", "  + a: 1", "1 topic to change"])
    created = desk.run("create", "new", "--partitions", "2", "--replication", "2", "--dry-run")
    assert (created.code, "would create topic new: 2 partitions" in created.stdout) == (0, True)
    deleted = desk.run("delete", "test1", "--dry-run")
    assert (deleted.code, "would delete topic test1" in deleted.stdout) == (0, True)
    assert desk.tags.all(ObjectKind.TOPIC, []) == {}
    assert desk.cluster.calls == []


def test_a_new_topic_names_brokers_that_have_no_rack(desk: Harness) -> None:
    words = ("--partitions", "2", "--replication", "2")
    for more in (("--dry-run",), ()):
        ran = desk.run("create", "two", *words, *more)
        assert "1007 have no rack, others have one: copies there may share a rack with any other" in ran.stdout
    targeted = desk.run("create", "three", "--partitions", "1", "--replication", "1", "--target-brokers", "1001")
    assert (targeted.code, "no rack" in targeted.stdout) == (0, False), targeted.stderr


def test_a_broker_that_is_down_is_tagged_where_it_is_known(desk: Harness) -> None:
    """1009 holds a replica, 1010 was tagged when it lived, and 1011 was never there."""
    desk.cluster.add_topic("test3", {0: (1001, 1009)})
    desk.tags.put(ObjectKind.BROKER, "1010", {"tier": "cold"})
    ran = desk.run("tag", "--brokers", "1009,1010,1001", "tier:hot")
    assert (ran.code, ran.stdout.splitlines()[-1]) == (0, "3 of 3 brokers changed")
    assert "brokers 1009, 1010 are not live" in ran.stderr
    assert {name: desk.tags.get(ObjectKind.BROKER, name) for name in ("1009", "1010")} == {
        "1009": {"tier": "hot"},
        "1010": {"tier": "hot"},
    }
    assert desk.run("brokers", "where tier = hot", "-o", "tsv").stdout.count("\n") == 1
    ran = desk.run("untag", "--brokers", "1010", "tier")
    assert (ran.code, desk.tags.get(ObjectKind.BROKER, "1010")) == (0, {})
    assert "broker 1010 is not live" in ran.stderr
    ran = desk.run("tag", "--brokers", "1009,1011", "tier:x")
    assert (ran.code, "there is no live broker 1011" in ran.stderr) == (2, True)
    assert desk.tags.get(ObjectKind.BROKER, "1009") == {"tier": "hot"}

    rules = "brokers: [{names: [1001, 1009], tags: {size: 4}}, {where: tier = hot, tags: {seen: 'yes'}}]"
    ran = desk.run("apply", desk.file("tags.yaml", rules), "--prune", "ti", "--yes")
    assert (ran.code, "broker 1009 is not live" in ran.stderr) == (0, True)
    assert desk.tags.get(ObjectKind.BROKER, "1009") == {"size": "4"}
    assert desk.tags.get(ObjectKind.BROKER, "1001") == {"seen": "yes", "size": "4"}


def test_patterns_and_all_brokers_are_named_as_in_planning(desk: Harness) -> None:
    for words in (("tag", "--topics", "test[12]", "a:1"), ("tag", "--brokers", "-2", "a:1")):
        assert desk.run(*words).code == 2  # more may be meant than is written, so it asks
        assert desk.run(*words, "--yes").code == 0
    assert {t["name"] for t in desk.run("topics", "test.*", "-o", "json").json["topics"]} >= {"test1", "test2"}
    assert desk.run("brokers", "--", "-2").stdout == desk.run("brokers").stdout
    refused = desk.run("brokers", "--", "-1")
    assert (refused.code, "which brokers hold replicas" in refused.stderr) == (2, True)
    assert "there is no topic te.st" in desk.run("tag", "--topics", "te.st", "a:1").stderr


def test_a_query_that_chooses_is_confirmed(desk: Harness) -> None:
    words = ("tag", "--brokers", "where rack = a", "tier:hot")
    refused = desk.run(*words)
    assert (refused.code, desk.tags.all(ObjectKind.BROKER, [])) == (2, {})
    assert "pass --yes" in refused.stderr
    assert desk.run(*words, "--yes").code == 0
    assert set(desk.tags.all(ObjectKind.BROKER, [])) == {"1001", "1004"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("tag", "--topics", "tset1", "a:1"), "there is no topic tset1; did you mean test1?"),
        (("tag", "--brokers", "1009", "a:1"), "there is no live broker 1009; did you mean 1007?"),
        (("tag", "--topics", "test1", "a"), "'a' is not a tag"),
        (("tag", "--topics", "test1", "a:b:c"), "'a:b:c' is not a tag"),
        (("tag", "--topics", "test1", ":c"), "':c' is not a tag"),
        (("create", "new", "--target-tag", "tier=hot"), "'tier=hot' is not a tag"),
        (("tag", "--topics", "test1", "name:x"), "tag 'name' is a reserved tag"),
        (("tag", "a:1"), "no topics or brokers given"),
        (("tag", "--topics", "where nmae = x", "a:1"), "nothing here has nmae"),
        (("topics", "where bytes > 1GB"), "the registry does not know bytes"),
        (("topics", "where ("), "query, column 2: found the end"),
        (("topics", "where team = x"), "no topic matches 'where team = x'"),
        (("mappings", "--topic", "nope"), "topic nope does not exist"),
        (("mappings",), "give either --topic or --broker"),
        (("create", "test1", "--replication", "1"), "topic test1 exists already"),
        (("create", "new", "--replication", "9"), "6 brokers may hold the topic: too few for 9 replicas"),
        (("create", "new", "--target-brokers", "1001,77"), "not alive, or without the tags: broker 77"),
        (("create", "a b"), "topic 'a b' is"),
        (("delete", "test3", "--yes"), "there is no topic test3; did you mean test2?"),
    ],
)
def test_a_refusal_is_one_line(desk: Harness, words: tuple[str, ...], message: str) -> None:
    ran = desk.run(*words)
    errors = [line for line in ran.stderr.splitlines() if line.startswith("error: ")]
    assert ran.code in (1, 2)
    assert len(errors) == 1
    assert message in errors[0]
    assert desk.cluster.calls == []


def test_a_topic_of_one_partition_is_told_in_good_english(desk: Harness) -> None:
    ran = desk.run("create", "one", "--partitions", "1", "--replication", "2", "--dry-run")
    assert "would create topic one: 1 partition, 2 replicas of each" in ran.stdout.splitlines()


def test_topics_come_and_go(desk: Harness) -> None:
    desk.run("tag", "--brokers", "1001,1002", "tier:hot")
    ran = desk.run(
        "create", "new", "--partitions", "3", "--replication", "2", "--tag", "team:a", "--target-tag", "tier:hot",
        "--topic-config", "retention.ms=1000", "-o", "json",
    )  # fmt: skip
    assert (ran.code, ran.json["state"]) == (0, "created")
    assert desk.tags.get(ObjectKind.TOPIC, "new") == {"team": "a"}
    (found,) = desk.run("topics", "new", "--with-replicas", "-o", "json").json["topics"]
    assert found["configs"] == {"retention.ms": "1000"}
    assert {tuple(sorted(ids)) for ids in found["replicas"].values()} == {(1001, 1002)}
    assert desk.run("mappings", "--topic", "new", "-o", "tsv").stdout == "1001\n1002\n"
    assert "new\n" in desk.run("mappings", "--broker", "1001").stdout
    assert desk.run("unmapped", "-o", "json").json["brokers"] == [1004, 1005, 1007]
    assert desk.run("delete", "new").code == 2
    assert desk.run("delete", "new", "--yes").code == 0
    assert "new" not in desk.cluster.topics


TAGS = """
topics:
  - where: name like "test*"
    tags: {team: pay, "k8s.app": x}
  - names: [test1]
    tags: {tier: hot}
brokers:
  - names: [1001, 1002]
    tags: {size: 4}
"""


def test_apply_shows_makes_and_repeats_nothing(desk: Harness) -> None:
    desk.tags.put(ObjectKind.TOPIC, "test1", {"k8s.old": "1", "kept": "1", "tier": "cold"})
    file = desk.file("tags.yaml", TAGS)
    assert desk.run("apply", file).code == 2
    dry = desk.run("apply", file, "--prune", "k8s.", "--dry-run").stdout
    assert "topic test1\n  + k8s.app: x\n  - k8s.old: 1\n  + team: pay\n  ~ tier: cold -> hot\n" in dry
    assert desk.tags.get(ObjectKind.TOPIC, "test2") is None
    ran = desk.run("apply", file, "--prune", "k8s.", "--yes", "-o", "json")
    assert (ran.code, ran.json["counts"]) == (0, {"done": 4})
    assert desk.tags.get(ObjectKind.TOPIC, "test1") == {"k8s.app": "x", "kept": "1", "team": "pay", "tier": "hot"}
    assert desk.tags.get(ObjectKind.BROKER, "1002") == {"size": "4"}
    again = desk.run("apply", "-", "--prune", "k8s.", "--yes", stdin=TAGS)
    assert (again.code, again.stdout.splitlines()[-1]) == (0, "nothing to change")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topics: [{names: [test1], where: x = 1, tags: {a: 1}}]", "rule 1 of topics needs either names or where"),
        ("topics: [{names: [tst1], tags: {a: 1}}]", "rule 1 of topics: there is no topic tst1; did you mean test1?"),
        ("topics: [{names: [test1], tags: {name: x}}]", "rule 1 of topics: tag 'name' is a reserved tag"),
        (
            "brokers: [{names: [1001], tags: {a: 1}}, {names: [1001], tags: {a: 2}}]",
            "rule 1 of brokers and rule 2 of brokers ask for different values of a of broker 1001",
        ),
        ("topics: 1", "is not a tags file"),
        ("{}", "names neither topics nor brokers"),
        (
            "topics: [{names: [test1], tags: {a: 1}, typo: 2}]",
            "is not a tags file: Object contains unknown",
        ),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(desk: Harness, text: str, message: str) -> None:
    ran = desk.run("apply", desk.file("tags.yaml", text), "--yes")
    assert ran.code == 2
    assert re.search(rf"tags\.yaml(:1:\d+)?: {re.escape(message)}", ran.stderr)
    assert desk.tags.all(ObjectKind.TOPIC, []) == {}


def test_a_change_of_another_process_meanwhile_is_reported_and_kept(
    desk: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, tags = desk.file("tags.yaml", TAGS), desk.tags
    plan_desired = "kafkakit.registry.decide.desired_tags.plan_desired"
    from kafkakit.registry.decide.desired_tags import plan_desired as real

    def meanwhile(*words: Any) -> Any:
        planned = real(*words)
        tags.put(ObjectKind.TOPIC, "test1", {"team": "other"})
        if desk.registry is not None:
            desk.registry.refresh()
        return planned

    monkeypatch.setattr(plan_desired, meanwhile)
    ran = desk.run("apply", file, "--yes", "-o", "json")
    assert (ran.code, ran.json["counts"]) == (1, {"conflict": 1, "done": 3})
    assert tags.get(ObjectKind.TOPIC, "test1") == {"team": "other"}
    assert "give the same command again" in ran.stderr


def test_a_store_that_is_away_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    desk, store = Harness(tmp_path, is_served=False), FakeControlStore()
    monkeypatch.setattr(wiring, "open_admin", desk.open_admin)
    monkeypatch.setattr(wiring, "open_control", lambda settings: store)
    store.away = True
    ran = desk.run("tag", "--topics", "test1", "a:1")
    assert (ran.code, "the control store is away" in ran.stderr) == (75, True)
    store.away = False
    file = desk.file("tags.yaml", TAGS)
    real = store.cas

    def second_is_lost(path: str, value: bytes, expected: int | None) -> int:
        if path == f"{ROOT}/topic/test2":
            raise TryLaterError("the control store did not answer")
        return real(path, value, expected)

    monkeypatch.setattr(store, "cas", second_is_lost)
    ran = desk.run("apply", file, "--yes", "-o", "json")
    assert (ran.code, ran.json["counts"]) == (75, {"done": 1, "unknown": 1, "left": 2})


def test_labels_become_a_file_that_apply_takes(desk: Harness) -> None:
    pods = [
        {
            "kind": "Pod",
            "metadata": {"name": f"kafka-{n}", "labels": {"pool": "hot"}},
            "spec": {"nodeName": f"n{n % 2}"},
        }
        for n in range(3)
    ]
    nodes = [{"kind": "Node", "metadata": {"name": f"n{n}", "labels": {"zone": f"z{n}"}}} for n in range(2)]
    file = desk.file("pods.json", {"kind": "List", "items": [*pods, *nodes]})
    words = ("import-labels", file, "--map", "zone=rack-zone", "--map", "pool", "--first-id", "1001")
    printed = desk.run(*words)
    assert printed.code == 0
    assert yaml.safe_load(printed.stdout) == {
        "brokers": [
            {"names": [1001, 1003], "tags": {"pool": "hot", "rack-zone": "z0"}},
            {"names": [1002], "tags": {"pool": "hot", "rack-zone": "z1"}},
        ]
    }
    assert desk.run("apply", "-", "--yes", stdin=printed.stdout).code == 0
    assert desk.tags.get(ObjectKind.BROKER, "1002") == {"pool": "hot", "rack-zone": "z1"}
    again = desk.run(*words, "--apply", "--yes")
    assert (again.code, again.stdout.splitlines()[-1]) == (0, "nothing to change")


def test_completion_offers_the_tags_in_use(desk: Harness) -> None:
    from kafkakit.cli.completion import complete_broker_ids
    from kafkakit.cli.root import build_root
    from kafkakit.registry.commands.client_options import complete_tag_keys, complete_tags

    desk.tags.put(ObjectKind.TOPIC, "test1", {"team": "pay", "tier": "hot"})
    server = ("--server", f"http://{desk.registry.addresses['HTTP']}") if desk.registry else ()
    if desk.registry:
        desk.registry.refresh()
    root = build_root()

    def completed(complete: Any, incomplete: str, command: str) -> list[str]:
        with desk.home_context():
            cli = CliContext()
            with root.make_context("kafkakit", ["--profile", "p", "registry", command], obj=cli) as top:
                _, group, rest = root.resolve_command(top, ["registry", command])
                with group.make_context("registry", rest, parent=top) as middle:
                    words = [*server, "--topics", "test1", "x:y"]
                    with group.commands[command].make_context(command, words, parent=middle) as ctx:
                        found: list[str] = complete(ctx, incomplete)
                        return found

    assert completed(complete_tags, "t", "tag") == ["team:pay", "tier:hot"]
    assert completed(complete_tag_keys, "ti", "untag") == ["tier"]
    assert completed(complete_broker_ids, "100", "tag") == ["1001", "1002", "1003", "1004", "1005", "1007"]


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Harness:
    """A host without a server; its znodes and its control stores of other kinds are in memory."""
    desk = Harness(tmp_path, is_served=False)
    desk.store = FakeControlStore()
    desk.tags = TagStore(desk.store, ROOT)
    monkeypatch.setattr(wiring, "open_admin", desk.open_admin)
    monkeypatch.setattr(wiring, "open_control", lambda settings, kind="": desk.topic if kind else desk.store)
    monkeypatch.setattr(wiring, "open_znodes", lambda settings: desk.znodes)
    return desk


def test_cleanup_marks_then_deletes_under_its_lease(stored: Harness) -> None:
    stored.tags.put(ObjectKind.TOPIC, "gone", {"a": "1"})
    stored.tags.put(ObjectKind.TOPIC, "old", {"a": "1", "tagMarkedForDeletionTime": "1"})
    stored.tags.put(ObjectKind.TOPIC, "test1", {"a": "1"})
    dry = stored.run("cleanup", "--dry-run", "-o", "json")
    assert (dry.code, dry.json["actions"]) == (
        0,
        [{"action": "mark", "kind": "topic", "name": "gone"}, {"action": "delete", "kind": "topic", "name": "old"}],
    )
    assert stored.tags.get(ObjectKind.TOPIC, "gone") == {"a": "1"}
    lease = open_lease_of_another(stored)
    held = stored.run("cleanup")
    assert (held.code, "registry serve" in held.stderr) == (75, True)
    lease.release()
    ran = stored.run("cleanup")
    assert (ran.code, ran.stdout.splitlines()[-1]) == (0, "1 deleted, 1 marked")
    assert set(stored.tags.all(ObjectKind.TOPIC, [])) == {"gone", "test1"}
    assert stored.run("cleanup").stdout.splitlines()[-1] == "nothing to do; marked earlier, not old enough yet: 1"


def open_lease_of_another(desk: Harness) -> Lease:
    holder = this_holder("registry serve")
    lease = Lease(
        desk.store, SystemClock(), f"{ROOT}/cleanup-lease", holder, what="it", life_of=life_of, say=lambda _: None
    )
    lease.acquire()
    return lease


def test_cleanup_refuses_what_cannot_be_meant(stored: Harness) -> None:
    for number in range(5):
        stored.tags.put(ObjectKind.TOPIC, f"gone{number}", {"a": "1"})
    ran = stored.run("cleanup")
    assert (ran.code, "5 of 5 tagged topics are gone (100%), more than 3" in ran.stderr) == (1, True)
    assert all("tagMarkedForDeletionTime" not in tags for tags in stored.tags.all(ObjectKind.TOPIC, []).values())
    refused = stored.run("cleanup", "--force")
    assert (refused.code, "Change 5 records of tags? Cluster fake-cluster" in refused.stderr) == (2, True)
    assert "\n5 marked\n" in stored.run("cleanup", "--force", "--yes").stdout


def test_cleanup_asks_on_a_terminal_and_no_timer(stored: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    stored.tags.put(ObjectKind.TOPIC, "gone", {"a": "1"})
    with monkeypatch.context() as at_terminal:
        at_terminal.setattr(CliContext, "input_allowed", True)
        declined = stored.run("cleanup", stdin="no\n")
        assert (declined.code, "would do: 1 mark" in declined.stdout) == (0, True)
        assert 0 <= declined.stderr.index("would do: 1 mark") < declined.stderr.index("Change 1 record of tags?")
        assert stored.tags.get(ObjectKind.TOPIC, "gone") == {"a": "1"}
    assert "1 marked" in stored.run("cleanup").stdout


def test_serve_shows_in_a_dry_run_what_its_first_cleanup_does(stored: Harness) -> None:
    stored.tags.put(ObjectKind.TOPIC, "gone", {"a": "1"})
    ran = stored.run("serve", "--dry-run", "-o", "json")
    assert (ran.code, ran.json["kafkakit"]["command"]) == (0, "registry serve"), ran.stderr
    assert ran.json["actions"] == [{"action": "mark", "kind": "topic", "name": "gone"}]
    assert stored.tags.get(ObjectKind.TOPIC, "gone") == {"a": "1"}
    assert stored.run("serve", "--dry-run", "--tag-cleanup-frequency", "0", "-o", "json").json["actions"] == []
    assert stored.run("serve", "--dry-run", "--token-file", "none").code == 2


def test_migrate_copies_checks_and_continues(stored: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    source = TagStore(stored.znodes, "registry")
    for number in range(5):
        source.put(ObjectKind.TOPIC, f"t{number}", {"n": str(number)})
    source.put(ObjectKind.BROKER, "1001", {"tier": "hot"})
    stored.znodes.cas("registry/topic/emptied", b"{}", None)
    source.put(ObjectKind.TOPIC, "gone", {"n": "1"})
    source.drop(ObjectKind.TOPIC, "gone", lambda _: True)
    words = ("migrate", "--from", "zookeeper", "--zk-addr", "zk:2181", "--to", "kafka")
    target, real = TagStore(stored.topic, ROOT), stored.topic.cas
    before = {path: stored.znodes.get(path) for path in ("registry/topic/t0", "registry/broker/1001")}
    dry = stored.run(*words, "--dry-run", "-o", "json")
    assert (dry.code, dry.json["to_copy"], stored.topic.writes) == (0, 6, 0)

    def breaks(path: str, value: bytes, expected: int | None) -> int:
        if path.endswith("topic/t2"):
            raise TryLaterError("the control store did not answer")
        return real(path, value, expected)

    monkeypatch.setattr(stored.topic, "cas", breaks)
    assert stored.run(*words, "--yes").code == 75
    assert set(target.all(ObjectKind.TOPIC, [])) == {"t0", "t1"}
    monkeypatch.setattr(stored.topic, "cas", real)
    refused = stored.run(*words)
    assert (refused.code, refused.stdout, set(target.all(ObjectKind.TOPIC, []))) == (2, "", {"t0", "t1"})
    assert refused.stderr.index("would copy") < refused.stderr.index("Copy the tags of 3 objects to kafka? Cluster")
    ran = stored.run(*words, "--yes", "-o", "json")
    assert (ran.code, ran.json["copied"], ran.json["already_there"], ran.json["histories"]) == (0, 3, 3, 7)
    (ours, theirs) = ran.json["stores"]
    assert (ours["brokers"], ours["topics"], ours["sha256"]) == (1, 5, theirs["sha256"])
    assert target.all(ObjectKind.TOPIC, []) == {f"t{n}": {"n": str(n)} for n in range(5)}
    assert before == {path: stored.znodes.get(path) for path in before}
    again = stored.run(*words)
    summary = "copied the tags of 0 objects; 6 were there already; copied the history of 0; both hold the same"
    assert (again.code, summary in again.stdout) == (0, True)
    assert [entry.by for entry in target.history.of(ObjectKind.TOPIC, "t0").made] == ["kafkakit", "migration"]
    assert len(target.history.of(ObjectKind.TOPIC, "gone").made) == 2
    assert (dry.json["histories"], dry.json["state"]) == (7, "planned")


def test_migrate_refuses_a_target_with_other_tags(stored: Harness) -> None:
    TagStore(stored.znodes, "registry").put(ObjectKind.TOPIC, "t", {"a": "1"})
    stored.tags.put(ObjectKind.TOPIC, "t", {"a": "2", "b": "2"})
    stored.tags.put(ObjectKind.BROKER, "7", {"a": "2"})
    words = ("migrate", "--from", "zookeeper", "--zk-addr", "zk:2181", "--to", "profile")
    ran = stored.run(*words)
    assert (ran.code, "the target has other tags already: broker 7, topic t" in ran.stderr) == (2, True)
    assert stored.run(*words, "--merge", "--yes").code == 0
    assert stored.tags.get(ObjectKind.TOPIC, "t") == {"a": "1", "b": "2"}
    assert stored.tags.get(ObjectKind.BROKER, "7") == {"a": "2"}
    assert stored.run("migrate", "--from", "file", "--to", "profile").code == 2
    assert stored.run("migrate", "--from", "file", "--to", "file").code == 2


def test_history_tells_who_changed_what_and_keeps_it(desk: Harness) -> None:
    desk.run("tag", "--topics", "test1,test2", "team:a")
    desk.run("tag", "--topics", "test1", "team:b")
    desk.run("untag", "--topics", "test1", "team")
    found = desk.run("history", "--topic", "test1", "-o", "json").json["entries"]
    assert [entry["changes"] for entry in found] == [
        [{"key": "team", "old": "b"}],
        [{"key": "team", "old": "a", "new": "b"}],
        [{"key": "team", "new": "a"}],
    ]
    assert len({entry["by"] for entry in found}) == 1
    assert found[0]["by"] not in ("", "another program")
    text = desk.run("history").stdout
    assert ("-team:b" in text, "team:a->b" in text, "test2" in text) == (True, True, True)
    assert desk.run("history", "--limit", "1", "-o", "tsv").stdout.count("\n") == 1
    assert desk.run("history", "--topic", "test2", "--since", "1ms", "-o", "json").json["entries"] == []
    for words, says in ((("--topic", "tset1"), "there is no topic tset1"), (("--broker", "9999"), "live broker 9999")):
        ran = desk.run("history", *words)
        assert (ran.code, says in ran.stderr) == (2, True), ran.stderr


def test_a_record_that_holds_no_tags_is_named_and_left_alone(stored: Harness) -> None:
    stored.store.cas(f"{ROOT}/topic/test1", b"[]", None)
    ran = stored.run("topics")
    assert (ran.code, f"1 records hold no tags, such as {ROOT}/topic/test1" in ran.stderr) == (0, True)
    changed = stored.run("tag", "--topics", "test1", "a:1")
    assert (changed.code, "holds no tags" in changed.stdout) == (1, True)
    stored.cluster.delete_topic("test1")
    assert stored.run("cleanup").stdout.splitlines()[-1] == "nothing to do"
    moved = stored.run("migrate", "--from", "profile", "--to", "kafka")
    assert (moved.code, "holds no tags, one of 1 such records" in moved.stderr) == (2, True)
    assert stored.topic.writes == 0


def sync(up: int, down: int) -> tuple[bytes, bytes]:
    return pack(">h", 4) + b"logs" + pack(">i", 3), pack(">qq", up, down)


def test_offsets_are_translated_with_intervals(desk: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    key = pack(">h", 1) + b"g" + pack(">h", 9) + b"west.logs" + pack(">i", 3)
    here = MemoryTopics({"west.checkpoints.internal": [(key, pack(">hqqh", 0, 130, 91, 0))]})
    upstream = MemoryTopics({"mm2-offset-syncs.dr.internal": [sync(100, 90), sync(200, 110)]})
    desk.home.write_config("bootstrap_server: up:1\n", "profiles.d/up.yaml")
    monkeypatch.setattr(wiring, "open_data", lambda s: upstream if s.bootstrap_servers == "up:1" else here)
    words = ("translate-offsets", "g", "--alias", "west", "-o", "json")
    ran = desk.run(*words, "--upstream", "up", "--local-alias", "dr")
    assert ran.code == 0, ran.stderr
    (found,) = ran.json["offsets"]
    assert found == {
        "partition": "west.logs:3", "upstream_offset": 130, "local_offset": 91, "local_end_offset": 110,
        "exact": False, "may_repeat": 19, "assumes_no_own_records": False,
    }  # fmt: skip
    (plain,) = desk.run(*words).json["offsets"]
    assert (plain["local_offset"], plain["local_end_offset"], plain["may_repeat"]) == (91, None, None)
    for wrong, said in (
        (("--upstream", "up"), "--upstream and --local-alias belong together"),
        (
            ("--upstream", "up", "--local-alias", "x"),
            "the cluster of profile up has no topic mm2-offset-syncs.x.internal",
        ),
    ):
        ran = desk.run(*words, *wrong)
        assert (ran.code, said in ran.stderr) == (2, True)
