"""Tags of vanished objects: marked, unmarked, deleted once; beside kafka-kit's own cleaner on the same znodes."""

import json
from collections.abc import Callable
from fractions import Fraction

import pytest

from kafkakit.core.errors import LeaseLostError, TryLaterError
from kafkakit.core.lease import Holder, Life
from kafkakit.execution.act.leases import Lease
from kafkakit.registry.act.tag_store import TagStore
from kafkakit.registry.act.upkeep import CleanupPorts, PeriodicCleanup, clean_up, plan_cleanups
from kafkakit.registry.decide.tags import MARK, CleanupRules, Kind, encode_tags, plan_cleanup
from tests.fakes.admin import FakeClock, FakeCluster
from tests.fakes.control import FakeControlStore
from tests.rigs.registry import small_cluster

RULES = CleanupRules(staleness_s=3600)
NOW_S = 1_000_000.0


class Rig:
    """kafka-kit's cluster, its znodes, and the two cleaners."""

    def __init__(self) -> None:
        self.cluster: FakeCluster = small_cluster()
        self.store, self.clock = FakeControlStore(), FakeClock()
        self.ports = CleanupPorts(admin=self.cluster, tags=TagStore(self.store, "registry"), clock=self.clock)

    def put(self, kind: str, name: str, text: str) -> None:
        path = f"registry/{kind}/{name}"
        found = self.store.get(path)
        self.store.cas(path, text.encode(), None if found is None else found.version)

    def records(self, kind: str) -> dict[str, dict[str, str]]:
        return {name: json.loads(found.value) for name, found in self.store.values(f"registry/{kind}").items()}

    @property
    def now(self) -> str:
        return str(int(self.clock.now().timestamp()))

    def ours(self, rules: CleanupRules = RULES) -> list[tuple[str, str]]:
        plans = plan_cleanups(self.ports, rules)
        return [(what, name) for what, _, name in clean_up(self.ports, rules, plans, lambda: None)]

    def kafka_kits(self) -> None:
        """kafka-kit's own: marks and unmarks, then empties what was marked for an hour; znodes stay."""
        live = {"broker": set(map(str, self.cluster.brokers)), "topic": set(self.cluster.topics)}
        for kind, names in live.items():
            for name, tags in self.records(kind).items():
                if name not in names and MARK not in tags:
                    self.put(kind, name, encode_tags({**tags, MARK: self.now}).decode())
                elif name in names and MARK in tags:
                    self.put(kind, name, encode_tags({k: v for k, v in tags.items() if k != MARK}).decode())
            for name, tags in self.records(kind).items():
                text = tags.get(MARK)
                if text is not None and int(self.now) - (int(text) if text.isdigit() else 0) > 3600:
                    self.put(kind, name, "{}")


def test_a_vanished_object_is_marked_then_deleted_with_its_record_and_never_again() -> None:
    rig = Rig()
    rig.put("topic", "gone", '{"team":"a"}')
    rig.put("topic", "test1", '{"team":"b"}')
    assert rig.ours() == [("marked", "gone")]
    assert rig.records("topic")["gone"] == {"team": "a", MARK: rig.now}
    rig.clock.advance(3600)
    assert rig.ours() == []
    rig.clock.advance(1)
    assert rig.ours() == [("deleted", "gone")]
    assert rig.records("topic") == {"test1": {"team": "b"}}
    rig.clock.advance(10_000)
    assert rig.ours() == []
    (entry,) = [e for e in rig.ports.tags.history.of(Kind.TOPIC, "gone").made if e.changes[0].new is None]
    assert {(c.key, c.old) for c in entry.changes} >= {("team", "a")}
    assert entry.by == "cleanup"


def test_an_object_that_is_back_loses_its_mark_and_keeps_its_tags() -> None:
    rig = Rig()
    rig.put("topic", "back", f'{{"team":"a","{MARK}":"1"}}')
    rig.cluster.add_topic("back", {0: (1001,)})
    assert rig.ours() == [("unmarked", "back")]
    assert rig.records("topic") == {"back": {"team": "a"}}


@pytest.mark.parametrize("mark", ["", "soon", "-5", "99999999999", "1e3"])
def test_a_mark_that_is_no_time_of_the_past_is_made_anew(mark: str) -> None:
    plan = plan_cleanup(Kind.TOPIC, {"gone": {"a": "1", MARK: mark}, "t": {}}, {"t"}, NOW_S, RULES)
    assert (plan.marks, plan.drops) == (("gone",), ())


def test_brokers_that_are_away_but_of_the_cluster_keep_their_tags() -> None:
    rig = Rig()
    rig.cluster.kill(1001)
    rig.cluster.unregister(1002)  # its replicas are still listed
    rig.cluster.unregister(1007)
    for broker in ("1001", "1002", "1007", "x-1"):
        rig.put("broker", broker, '{"a":"1"}')
    assert rig.ours() == [("marked", "1007")]


def test_a_topic_that_may_not_be_seen_keeps_its_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    rig.put("topic", "hidden", f'{{"a":"1","{MARK}":"1"}}')
    monkeypatch.setattr(rig.cluster, "topic_operations", lambda names: dict.fromkeys(names, frozenset()))
    assert rig.ours() == [("unmarked", "hidden")]


def test_nothing_is_done_where_too_many_are_gone_or_the_listing_is_incomplete() -> None:
    rig = Rig()
    for number in range(4):
        rig.put("topic", f"gone{number}", f'{{"{MARK}":"1"}}')
    rig.put("topic", "test1", '{"a":"1"}')
    plans = plan_cleanups(rig.ports, RULES)
    assert [plan.refused for plan in plans if plan.refused] == ["4 of 5 tagged topics are gone (80%), more than 3"]
    assert rig.ours() == []
    assert len(rig.ours(CleanupRules(force=True))) == 4
    for topic in list(rig.cluster.topics):
        rig.cluster.delete_topic(topic)
    assert rig.ours() == []
    assert "the cluster lists no topics at all" in plan_cleanups(rig.ports, RULES)[1].refused
    for broker in rig.cluster.brokers:
        rig.cluster.kill(broker)
    with pytest.raises(TryLaterError, match="no live broker"):
        plan_cleanups(rig.ports, CleanupRules(force=True))


@pytest.mark.parametrize(("gone", "share", "is_done"), [(3, "1/100", True), (4, "1/100", False), (25, "1/4", True)])
def test_the_share_is_of_the_tagged_objects(gone: int, share: str, is_done: bool) -> None:
    table = {**{f"gone{n}": {"a": "1"} for n in range(gone)}, **{f"t{n}": {"a": "1"} for n in range(100 - gone)}}
    existing = {name for name in table if name.startswith("t")}
    plan = plan_cleanup(Kind.TOPIC, table, existing, NOW_S, CleanupRules(max_share=Fraction(share)))
    assert (plan.refused == "", len(plan.marks)) == (is_done, gone if is_done else 0)


def test_kafka_kits_cleaner_beside_ours_loses_no_tag_of_what_exists_and_both_come_to_rest() -> None:
    rig = Rig()
    # As recorded from kafka-kit: a marked znode, one that its sweep emptied, and one that it never marked.
    rig.put("topic", "test1", '{"pci":"true","team":"a\\u0026b"}')
    rig.put("topic", "swept", "{}")
    rig.put("topic", "marked", f'{{"{MARK}":"{int(rig.clock.now().timestamp()) - 60}","team":"x"}}')
    rig.put("broker", "1009", '{"tier":"hot"}')
    for _ in range(6):
        rig.kafka_kits()
        rig.ours()
        rig.kafka_kits()
        rig.clock.advance(1200)
    assert rig.records("topic") == {"test1": {"pci": "true", "team": "a&b"}}
    assert rig.records("broker") == {}
    rig.store.writes = 0
    rig.kafka_kits()
    assert (rig.ours(), rig.store.writes) == ([], 0)


def test_what_changes_between_plan_and_act_is_looked_at_again() -> None:
    rig = Rig()
    rig.put("topic", "gone", f'{{"a":"1","{MARK}":"1"}}')
    plans = plan_cleanups(rig.ports, RULES)
    rig.put("topic", "gone", '{"a":"2"}')  # kafka-kit saw it again
    assert list(clean_up(rig.ports, RULES, plans, lambda: None)) == []
    assert rig.records("topic") == {"gone": {"a": "2"}}


def test_a_lost_lease_stops_before_the_next_change() -> None:
    rig = Rig()
    rig.put("topic", "gone1", '{"a":"1"}')
    rig.put("topic", "gone2", '{"a":"1"}')
    held = iter([True])

    def require_held() -> None:
        if not next(held, False):
            raise LeaseLostError("lost")

    with pytest.raises(LeaseLostError):
        list(clean_up(rig.ports, RULES, plan_cleanups(rig.ports, RULES), require_held))
    assert [MARK in tags for tags in rig.records("topic").values()] == [True, False]


def open_lease(rig: Rig, pid: int) -> Lease:
    holder = Holder(host="h", user="u", command=f"serve {pid}", pid=pid)
    life: Callable[[Holder], Life] = lambda _: Life.UNKNOWN  # noqa: E731
    return Lease(rig.store, rig.clock, "registry/cleanup-lease", holder, what="it", life_of=life, say=lambda _: None)


def test_of_two_programs_one_cleans_up_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, lines = Rig(), list[str]()
    rig.put("topic", "gone", '{"a":"1"}')
    monkeypatch.setattr("kafkakit.registry.act.upkeep.POLL_S", 0.01)

    def periodic(pid: int) -> PeriodicCleanup:
        return PeriodicCleanup(
            lambda: rig.ports, lambda: open_lease(rig, pid), RULES, 1e9, lambda line: lines.append(f"{pid} {line}")
        )

    first, second = periodic(1), periodic(2)
    first.start()
    until(lambda: bool(lines))
    second.start()
    until(lambda: rig.store.get("registry/cleanup-lease") is not None)
    rig.clock.advance(3601)
    first.stop()
    until(lambda: len(lines) > 1)
    second.stop()
    assert lines == ["1 cleanup: marked the tags of topic gone", "2 cleanup: deleted the tags of topic gone"]


def test_a_failure_that_stays_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, lines = Rig(), list[str]()
    rig.store.away = True
    monkeypatch.setattr("kafkakit.registry.act.upkeep.POLL_S", 0.001)
    tries = list[int]()

    def ports() -> CleanupPorts:
        tries.append(1)
        raise TryLaterError("the cluster is away")

    cleanup = PeriodicCleanup(ports, lambda: open_lease(rig, 1), RULES, 1, lines.append)
    cleanup.start()
    until(lambda: len(tries) > 3)
    cleanup.stop()
    assert lines == ["tags of vanished objects are not cleaned up: the cluster is away"]


def until(is_true: Callable[[], bool]) -> None:
    import time

    end = time.monotonic() + 120
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.005)
