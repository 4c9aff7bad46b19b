"""The history beside the tags; tags of vanished objects."""

import json
import threading
import time
from collections.abc import Callable, Mapping
from fractions import Fraction

import pytest

from kafkakit.core.errors import LeaseLostError, OperationFailedError, TryLaterError
from kafkakit.core.lease import Holder, Life
from kafkakit.core.rpc import RpcError
from kafkakit.execution.act.leases import Lease
from kafkakit.registry.act import v2
from kafkakit.registry.act.tag_store import Compaction, TagHistory, TagStore
from kafkakit.registry.act.upkeep import CleanupPorts, PeriodicCleanup, clean_up, plan_cleanups
from kafkakit.registry.decide.inventory import ChangedObject
from kafkakit.registry.decide.tags import (
    ANOTHER_PROGRAM,
    MARK,
    MAX_AGE_S,
    MAX_BYTES,
    MAX_ENTRIES,
    CleanupRules,
    HistoryDocument,
    ObjectKind,
    announce_change,
    encode_history,
    encode_tags,
    plan_cleanup,
    read_history,
    settle_document,
)
from tests.fakes.admin import FakeClock, FakeCluster
from tests.fakes.control import FakeControlStore
from tests.rigs.registry import small_cluster
from tests.rigs.waiting import until

PATH = "r/topic/t"


class EndedError(Exception):
    """The program ended here."""


class EndingStore(FakeControlStore):
    """Ends the program before or after its n-th write."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None
        self.is_after = False

    def cas(self, path: str, value: bytes, expected: int | None) -> int:
        if self.left == 0 and not self.is_after:
            raise EndedError
        version = super().cas(path, value, expected)
        if self.left is not None:
            if self.left == 0:
                raise EndedError
            self.left -= 1
        return version


def shown(history: TagHistory) -> list[tuple[str, dict[str, tuple[str | None, str | None]]]]:
    made = history.of(ObjectKind.TOPIC, "t").made
    return [(entry.by, {each.key: (each.old, each.new) for each in entry.changes}) for entry in made]


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_program_that_ends_anywhere_leaves_old_or_new_and_the_history_of_it(at: int, is_after: bool) -> None:
    store = EndingStore()
    tags = TagStore(store, "r")
    tags.acting_for("a").put(ObjectKind.TOPIC, "t", {"k": "1"})
    store.left, store.is_after = at, is_after
    with pytest.raises(EndedError):
        tags.acting_for("b").put(ObjectKind.TOPIC, "t", {"k": "2"})
    store.left = None
    present = tags.get(ObjectKind.TOPIC, "t")
    first, second = ("a", {"k": (None, "1")}), ("b", {"k": ("1", "2")})
    assert present in ({"k": "1"}, {"k": "2"})
    assert shown(tags.history) == ([first, second] if present == {"k": "2"} else [first])
    tags.acting_for("c").put(ObjectKind.TOPIC, "t", {"k": "3"})
    third = ("c", {"k": (present["k"], "3")})
    assert shown(tags.history) == ([first, second, third] if present == {"k": "2"} else [first, third])
    assert not any(entry.is_pending for entry in tags.history.of(ObjectKind.TOPIC, "t").entries)


@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_answer_that_is_lost_loses_no_entry(at: int) -> None:
    store = FakeControlStore()
    tags = TagStore(store, "r")
    tags.put(ObjectKind.TOPIC, "t", {"k": "1"})
    original, seen = store.cas, list[str]()

    def losing(path: str, value: bytes, expected: int | None) -> int:
        seen.append(path)
        if len(seen) == at:
            store.lose_answers = 1
        return original(path, value, expected)

    store.cas = losing  # type: ignore[method-assign]
    try:
        tags.put(ObjectKind.TOPIC, "t", {"k": "2"})
    except TryLaterError:
        assert at < 3
    store.cas = original  # type: ignore[method-assign]
    tags.put(ObjectKind.TOPIC, "t", {"k": "2"})
    assert [changes for _, changes in shown(tags.history)] == [{"k": (None, "1")}, {"k": ("1", "2")}]


def foreign(store: FakeControlStore, tags: dict[str, str]) -> None:
    """What kafka-kit's program does."""
    found = store.get(PATH)
    store.cas(PATH, encode_tags(tags), None if found is None else found.version)


def test_another_program_is_seen_at_the_next_write_and_reading() -> None:
    store = FakeControlStore()
    tags = TagStore(store, "r", by="a")
    tags.put(ObjectKind.TOPIC, "t", {"k": "1"})
    foreign(store, {"k": "x", "z": "1"})
    seen = (ANOTHER_PROGRAM, {"k": ("1", "x"), "z": (None, "1")})
    assert shown(tags.history)[1:] == [seen]
    assert tags.put(ObjectKind.TOPIC, "t", {"k": "2"}) == {"k": "2", "z": "1"}
    assert shown(tags.history)[1:] == [seen, ("a", {"k": ("x", "2")})]


def test_a_change_by_another_program_is_entered_once() -> None:
    store = FakeControlStore()
    tags = TagStore(store, "r")
    foreign(store, {"k": "1"})
    foreign(store, {"k": "2"})
    assert tags.history.notice(ObjectKind.TOPIC, "t", {"k": "1"})
    assert not tags.history.notice(ObjectKind.TOPIC, "t", {"k": "1"})
    assert shown(tags.history) == [(ANOTHER_PROGRAM, {"k": ("1", "2")})]
    tags.acting_for("a").put(ObjectKind.TOPIC, "t", {"k": "3"})
    assert not tags.history.notice(ObjectKind.TOPIC, "t", {"k": "2"})
    assert len(shown(tags.history)) == 2


def test_a_change_that_came_too_late_is_in_no_history() -> None:
    """Two servers announce a change of the same version; one of them makes it."""
    store = FakeControlStore()
    tags = TagStore(store, "r", by="a")
    tags.put(ObjectKind.TOPIC, "t", {"k": "1"})
    slow = tags.history.read(ObjectKind.TOPIC, "t")
    found = store.get(PATH)
    assert found is not None
    slow.announce({"k": "1"}, found.version, {"k": "slow"}, "slow")
    tags.acting_for("b").put(ObjectKind.TOPIC, "t", {"k": "2"})
    assert [by for by, _ in shown(tags.history)] == ["a", "b"]
    slow.confirm({"k": "slow"}, 99)
    assert [by for by, _ in shown(tags.history)] == ["a", "b"]


def test_a_value_that_comes_back_is_a_change_of_its_own() -> None:
    store = FakeControlStore()
    tags = TagStore(store, "r", by="a")
    tags.put(ObjectKind.TOPIC, "t", {"k": "1"})
    tags.put(ObjectKind.TOPIC, "t", {"k": "2"})
    foreign(store, {"k": "1"})
    assert shown(tags.history)[2:] == [(ANOTHER_PROGRAM, {"k": ("2", "1")})]


def test_what_was_announced_and_never_made_is_taken_for_no_later_change() -> None:
    store = FakeControlStore()
    tags = TagStore(store, "r", by="a")
    tags.put(ObjectKind.TOPIC, "t", {"k": "1"})
    found = store.get(PATH)
    assert found is not None
    tags.history.read(ObjectKind.TOPIC, "t").announce({"k": "1"}, found.version, {"k": "slow"}, "slow")
    for value in ("x", "slow"):
        foreign(store, {"k": value})
        assert tags.history.notice(ObjectKind.TOPIC, "t", {})
    assert [by for by, _ in shown(tags.history)] == ["a", ANOTHER_PROGRAM, ANOTHER_PROGRAM]


def test_a_deletion_has_an_entry_and_a_new_record_begins_after_it() -> None:
    store = FakeControlStore()
    tags = TagStore(store, "r", by="a")
    tags.put(ObjectKind.TOPIC, "t", {"k": "1"})
    assert tags.acting_for("cleanup").drop(ObjectKind.TOPIC, "t", lambda present: True)
    tags.put(ObjectKind.TOPIC, "t", {"k": "2"})
    assert shown(tags.history) == [
        ("a", {"k": (None, "1")}), ("cleanup", {"k": ("1", None)}), ("a", {"k": (None, "2")}),
    ]  # fmt: skip


def test_what_changes_nothing_has_no_entry() -> None:
    store = FakeControlStore()
    tags = TagStore(store, "r")
    tags.put(ObjectKind.TOPIC, "t", {"k": "1"})
    writes = store.writes
    tags.put(ObjectKind.TOPIC, "t", {"k": "1"})
    tags.change(ObjectKind.TOPIC, "never", lambda present: present)
    assert store.writes == writes
    with pytest.raises(RpcError):
        tags.remove(ObjectKind.TOPIC, "never", frozenset({"k"}))
    assert store.writes == writes


def grown(count: int, make: Callable[[int], dict[str, str]], step_s: float = 0) -> HistoryDocument:
    document = settle_document(None, {}, None, 0)
    before: dict[str, str] = {}
    for number in range(1, count + 1):
        after = make(number)
        document = settle_document(
            announce_change(document, before, after, "a", number * step_s), after, number, number * step_s
        )
        before = after
    return document


def kept(document: HistoryDocument, now_s: float = 0) -> HistoryDocument:
    data = encode_history(document, now_s)
    assert len(data) <= MAX_BYTES
    found = read_history(data, "x")
    assert found is not None
    return found


def test_a_document_is_bounded_in_entries_age_and_size() -> None:
    many = kept(grown(3 * MAX_ENTRIES, lambda n: {"k": str(n)}))
    assert [entry.number for entry in many.made][:: MAX_ENTRIES - 1] == [2 * MAX_ENTRIES + 1, 3 * MAX_ENTRIES]
    old = kept(grown(10, lambda n: {"k": str(n)}, step_s=MAX_AGE_S / 5), now_s=2 * MAX_AGE_S)
    assert [entry.number for entry in old.made] == [5, 6, 7, 8, 9, 10]
    wide = kept(grown(50, lambda n: {f"k{i}": str(n) * 500 for i in range(100)}))
    assert wide.made[-1].number == 50
    assert wide.tags is None
    huge = kept(grown(3, lambda n: {"\U0001f600" * 120 + str(i): "\U0001f600" * 1000 + str(n) for i in range(100)}))
    assert huge.made[-1].number == 3


def test_compaction_drops_what_is_too_old() -> None:
    store, now_s = FakeControlStore(), [time.time()]
    tags = TagStore(store, "r", now_s=lambda: now_s[0])
    tags.put(ObjectKind.TOPIC, "t", {"k": "1"})
    assert tags.history.compact().changed == 0
    now_s[0] += MAX_AGE_S / 2
    tags.put(ObjectKind.TOPIC, "u", {"k": "1"})
    now_s[0] += MAX_AGE_S * 0.6
    assert tags.history.compact().changed == 1
    assert [name for _, name, _ in tags.history.all()] == ["u"]
    assert tags.get(ObjectKind.TOPIC, "t") == {"k": "1"}
    tags.put(ObjectKind.TOPIC, "t", {"k": "2"})
    assert shown(tags.history)[-1] == ("kafkakit", {"k": ("1", "2")})


def test_compaction_passes_a_history_over_that_it_cannot_read() -> None:
    store, now_s = FakeControlStore(), [time.time()]
    tags = TagStore(store, "r", now_s=lambda: now_s[0])
    for name in ("a", "b", "c"):
        tags.put(ObjectKind.TOPIC, name, {"k": "1"})
    found = store.get("r/history/topic/b")
    assert found is not None
    store.cas("r/history/topic/b", b"[1]", found.version)
    now_s[0] += MAX_AGE_S * 1.1
    assert tags.history.compact() == Compaction(changed=2, unreadable=("r/history/topic/b",))
    assert sorted(store.values("r/history/topic")) == ["b"]


@pytest.mark.parametrize("is_after", [False, True])
def test_a_change_that_was_made_and_not_confirmed_is_copied_and_one_that_was_not_made_is_not(is_after: bool) -> None:
    store, other = EndingStore(), FakeControlStore()
    source, target = TagStore(store, "r"), TagStore(other, "x/r")
    source.acting_for("a").put(ObjectKind.TOPIC, "t", {"k": "1"})
    store.left, store.is_after = 1, is_after
    with pytest.raises(EndedError):
        source.acting_for("b").put(ObjectKind.TOPIC, "t", {"k": "2"})
    store.left = None
    source_writes = store.writes
    ((kind, name, made),) = source.history.made()
    assert [entry.by for entry in made] == (["a", "b"] if is_after else ["a"])
    assert target.history.adopt(kind, name, made, dry_run=True)
    assert other.writes == 0
    assert target.history.adopt(kind, name, made, dry_run=False)
    assert not target.history.adopt(kind, name, made, dry_run=False)
    assert shown(target.history) == shown(source.history)
    assert store.writes == source_writes


def test_a_change_that_is_under_way_in_the_target_is_confirmed_among_those_that_were_copied() -> None:
    now_s = [1000.0]
    source = TagStore(FakeControlStore(), "r", by="a", now_s=lambda: now_s[0])
    target = TagStore(FakeControlStore(), "r", by="b", now_s=lambda: now_s[0])
    source.put(ObjectKind.TOPIC, "t", {"k": "1"})
    now_s[0] += 1
    target.put(ObjectKind.TOPIC, "t", {"k": "2"})

    other, original = target.history, target._store.cas
    paths = list[str]()

    def copied_before_the_tags(path: str, value: bytes, expected: int | None) -> int:
        paths.append(path)
        if path == PATH and paths.count(PATH) == 1:
            ((kind, name, made),) = source.history.made()
            assert other.adopt(kind, name, made, dry_run=False)
        return original(path, value, expected)

    target._store.cas = copied_before_the_tags  # type: ignore[method-assign]
    now_s[0] += 1
    target.put(ObjectKind.TOPIC, "t", {"k": "4"})
    found = other.of(ObjectKind.TOPIC, "t")
    assert [(entry.by, entry.at, entry.is_pending) for entry in found.entries] == [
        ("a", 1000, False),
        ("b", 1001, False),
        ("b", 1002, False),
    ]
    assert len({entry.number for entry in found.entries}) == 3


def test_of_too_many_copied_changes_the_oldest_are_left() -> None:
    now_s = [1000.0]
    source, target = (TagStore(FakeControlStore(), "r", now_s=lambda: now_s[0]) for _ in range(2))
    for number in range(MAX_ENTRIES):
        for store in (source, target):
            now_s[0] += 1
            store.put(ObjectKind.TOPIC, "t", {"k": f"{number}"})
    ((kind, name, made),) = source.history.made()
    assert target.history.adopt(kind, name, made, dry_run=False)
    assert not target.history.adopt(kind, name, made, dry_run=False)
    found = target.history.of(ObjectKind.TOPIC, "t").made
    assert [entry.at for entry in found] == [now_s[0] - MAX_ENTRIES + 1 + n for n in range(MAX_ENTRIES)]


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
    (entry,) = [e for e in rig.ports.tags.history.of(ObjectKind.TOPIC, "gone").made if e.changes[0].new is None]
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
    plan = plan_cleanup(ObjectKind.TOPIC, {"gone": {"a": "1", MARK: mark}, "t": {}}, {"t"}, NOW_S, RULES)
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
    plan = plan_cleanup(ObjectKind.TOPIC, table, existing, NOW_S, CleanupRules(max_share=Fraction(share)))
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


def test_a_defect_ends_no_cleanup_and_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rig, lines, tries = Rig(), list[str](), list[int]()
    rig.put("topic", "gone", '{"a":"1"}')
    monkeypatch.setattr("kafkakit.registry.act.upkeep.POLL_S", 0.001)

    def ports() -> CleanupPorts:
        tries.append(1)
        if len(tries) < 4:
            raise RuntimeError("of a client library")
        return rig.ports

    cleanup = PeriodicCleanup(ports, lambda: open_lease(rig, 1), RULES, 1e9, lines.append)
    cleanup.start()
    until(lambda: len(lines) > 1)
    cleanup.stop()
    assert lines == [
        "tags of vanished objects are not cleaned up: RuntimeError: of a client library",
        "cleanup: marked the tags of topic gone",
    ]


class StalledHistory(TagHistory):
    """Its first entry lasts until `goes_on`; the second raises what no store should."""

    def __init__(self) -> None:
        super().__init__(FakeControlStore(), "r", lambda: 0.0)
        self.begun, self.goes_on = threading.Event(), threading.Event()
        self.noticed = list[str]()

    def notice(self, kind: ObjectKind, name: str, old: Mapping[str, str]) -> bool:
        self.noticed.append(name)
        self.begun.set()
        assert self.goes_on.wait(120)
        if len(self.noticed) == 2:
            raise RuntimeError("a defect")
        return True


def changed(*names: str) -> list[ChangedObject]:
    return [ChangedObject(kind=ObjectKind.TOPIC, name=name, old_tags={"a": "1"}) for name in names]


def history_thread() -> threading.Thread:
    return next(thread for thread in threading.enumerate() if thread.name == "history")


def test_notices_end_also_if_their_queue_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(v2, "MAX_WAITING", 3)
    history, defects = StalledHistory(), list[Exception]()
    notices = v2.Notices(history, defects.append, print)
    notices.take(changed("first"))
    assert history.begun.wait(120)
    notices.take(changed("b", "c", "d", "e"))
    thread = history_thread()
    notices.stop()
    notices.take(changed("late"))
    history.goes_on.set()
    thread.join(120)
    assert not thread.is_alive()
    assert history.noticed == ["first"]
    assert defects == []


def test_notices_go_on_after_a_defect_which_is_reported() -> None:
    history, defects = StalledHistory(), list[Exception]()
    history.goes_on.set()
    notices = v2.Notices(history, defects.append, print)
    notices.take(changed("a", "b", "c"))
    until(lambda: history.noticed == ["a", "b", "c"])
    thread = history_thread()
    notices.stop()
    thread.join(120)
    assert not thread.is_alive()
    assert [str(error) for error in defects] == ["a defect"]


def test_a_history_that_is_not_kept_is_told_once_a_reason() -> None:
    lines: list[str] = []
    told = [TryLaterError("no answer"), TryLaterError("no answer"), None, OperationFailedError("refused")]
    noticed: list[str] = []

    class Refusing(StalledHistory):
        def notice(self, kind: ObjectKind, name: str, old: Mapping[str, str]) -> bool:
            noticed.append(name)
            if (error := told.pop(0)) is not None:
                raise error
            return True

    notices = v2.Notices(Refusing(), lambda error: error, lines.append)
    notices.take(changed("a", "b", "c", "d"))
    until(lambda: len(noticed) == 4 and len(lines) == 2)
    notices.stop()
    assert lines == [f"the history of tags is not kept: {why}" for why in ("no answer", "refused")]


def test_a_history_that_cannot_be_read_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, found = list[str](), [("p",), ("p",), (), ("p",)]
    monkeypatch.setattr(v2, "COMPACT_EVERY_S", 0.0)
    monkeypatch.setattr(v2, "_LOOK_S", 0.001)

    class Unreadable(StalledHistory):
        def notice(self, kind: ObjectKind, name: str, old: Mapping[str, str]) -> bool:
            return True

        def compact(self) -> Compaction:
            return Compaction(changed=0, unreadable=found.pop(0) if found else ("p",))

    notices = v2.Notices(Unreadable(), lambda error: error, lines.append)
    notices.take(changed("a"))
    until(lambda: not found)
    notices.stop()
    assert lines == ["histories of tags that cannot be read stay as they are: p"] * 2
