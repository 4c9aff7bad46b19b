"""The history beside the tags: what a program that ends in between leaves, and what other programs did."""

import time
from collections.abc import Callable

import pytest

from kafkakit.core.errors import TryLaterError
from kafkakit.core.rpc import RpcError
from kafkakit.registry.act.tag_store import TagHistory, TagStore
from kafkakit.registry.decide.tags import (
    ANOTHER_PROGRAM,
    MAX_AGE_S,
    MAX_BYTES,
    MAX_ENTRIES,
    HistoryDocument,
    Kind,
    announced,
    encode_history,
    encode_tags,
    read_history,
    settled,
)
from tests.fakes.control import FakeControlStore

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
    made = history.of(Kind.TOPIC, "t").made
    return [(entry.by, {each.key: (each.old, each.new) for each in entry.changes}) for entry in made]


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_program_that_ends_anywhere_leaves_old_or_new_and_the_history_of_it(at: int, is_after: bool) -> None:
    store = EndingStore()
    tags = TagStore(store, "r")
    tags.acting_for("a").put(Kind.TOPIC, "t", {"k": "1"})
    store.left, store.is_after = at, is_after
    with pytest.raises(EndedError):
        tags.acting_for("b").put(Kind.TOPIC, "t", {"k": "2"})
    store.left = None
    present = tags.get(Kind.TOPIC, "t")
    first, second = ("a", {"k": (None, "1")}), ("b", {"k": ("1", "2")})
    assert present in ({"k": "1"}, {"k": "2"})
    assert shown(tags.history) == ([first, second] if present == {"k": "2"} else [first])
    tags.acting_for("c").put(Kind.TOPIC, "t", {"k": "3"})
    third = ("c", {"k": (present["k"], "3")})
    assert shown(tags.history) == ([first, second, third] if present == {"k": "2"} else [first, third])
    assert not any(entry.is_pending for entry in tags.history.of(Kind.TOPIC, "t").entries)


@pytest.mark.parametrize("at", [1, 2, 3])
def test_an_answer_that_is_lost_loses_no_entry(at: int) -> None:
    store = FakeControlStore()
    tags = TagStore(store, "r")
    tags.put(Kind.TOPIC, "t", {"k": "1"})
    original, seen = store.cas, list[str]()

    def losing(path: str, value: bytes, expected: int | None) -> int:
        seen.append(path)
        if len(seen) == at:
            store.lose_answers = 1
        return original(path, value, expected)

    store.cas = losing  # type: ignore[method-assign]
    try:
        tags.put(Kind.TOPIC, "t", {"k": "2"})
    except TryLaterError:
        assert at < 3
    store.cas = original  # type: ignore[method-assign]
    tags.put(Kind.TOPIC, "t", {"k": "2"})
    assert [changes for _, changes in shown(tags.history)] == [{"k": (None, "1")}, {"k": ("1", "2")}]


def foreign(store: FakeControlStore, tags: dict[str, str]) -> None:
    """What kafka-kit's program does."""
    found = store.get(PATH)
    store.cas(PATH, encode_tags(tags), None if found is None else found.version)


def test_another_program_is_seen_at_the_next_write_and_reading() -> None:
    store = FakeControlStore()
    tags = TagStore(store, "r", by="a")
    tags.put(Kind.TOPIC, "t", {"k": "1"})
    foreign(store, {"k": "x", "z": "1"})
    seen = (ANOTHER_PROGRAM, {"k": ("1", "x"), "z": (None, "1")})
    assert shown(tags.history)[1:] == [seen]
    assert tags.put(Kind.TOPIC, "t", {"k": "2"}) == {"k": "2", "z": "1"}
    assert shown(tags.history)[1:] == [seen, ("a", {"k": ("x", "2")})]


def test_a_change_by_another_program_is_entered_once() -> None:
    store = FakeControlStore()
    tags = TagStore(store, "r")
    foreign(store, {"k": "1"})
    foreign(store, {"k": "2"})
    assert tags.history.notice(Kind.TOPIC, "t", {"k": "1"})
    assert not tags.history.notice(Kind.TOPIC, "t", {"k": "1"})
    assert shown(tags.history) == [(ANOTHER_PROGRAM, {"k": ("1", "2")})]
    tags.acting_for("a").put(Kind.TOPIC, "t", {"k": "3"})
    assert not tags.history.notice(Kind.TOPIC, "t", {"k": "2"})
    assert len(shown(tags.history)) == 2


def test_a_change_that_came_too_late_is_in_no_history() -> None:
    """Two servers announce a change of the same version; one of them makes it."""
    store = FakeControlStore()
    tags = TagStore(store, "r", by="a")
    tags.put(Kind.TOPIC, "t", {"k": "1"})
    slow = tags.history.read(Kind.TOPIC, "t")
    found = store.get(PATH)
    assert found is not None
    slow.announce({"k": "1"}, found.version, {"k": "slow"}, "slow")
    tags.acting_for("b").put(Kind.TOPIC, "t", {"k": "2"})
    assert [by for by, _ in shown(tags.history)] == ["a", "b"]
    slow.confirm({"k": "slow"}, 99)
    assert [by for by, _ in shown(tags.history)] == ["a", "b"]


def test_a_value_that_comes_back_is_a_change_of_its_own() -> None:
    store = FakeControlStore()
    tags = TagStore(store, "r", by="a")
    tags.put(Kind.TOPIC, "t", {"k": "1"})
    tags.put(Kind.TOPIC, "t", {"k": "2"})
    foreign(store, {"k": "1"})
    assert shown(tags.history)[2:] == [(ANOTHER_PROGRAM, {"k": ("2", "1")})]


def test_what_was_announced_and_never_made_is_taken_for_no_later_change() -> None:
    store = FakeControlStore()
    tags = TagStore(store, "r", by="a")
    tags.put(Kind.TOPIC, "t", {"k": "1"})
    found = store.get(PATH)
    assert found is not None
    tags.history.read(Kind.TOPIC, "t").announce({"k": "1"}, found.version, {"k": "slow"}, "slow")
    for value in ("x", "slow"):
        foreign(store, {"k": value})
        assert tags.history.notice(Kind.TOPIC, "t", {})
    assert [by for by, _ in shown(tags.history)] == ["a", ANOTHER_PROGRAM, ANOTHER_PROGRAM]


def test_a_deletion_has_an_entry_and_a_new_record_begins_after_it() -> None:
    store = FakeControlStore()
    tags = TagStore(store, "r", by="a")
    tags.put(Kind.TOPIC, "t", {"k": "1"})
    assert tags.acting_for("cleanup").drop(Kind.TOPIC, "t", lambda present: True)
    tags.put(Kind.TOPIC, "t", {"k": "2"})
    assert shown(tags.history) == [
        ("a", {"k": (None, "1")}), ("cleanup", {"k": ("1", None)}), ("a", {"k": (None, "2")}),
    ]  # fmt: skip


def test_what_changes_nothing_has_no_entry() -> None:
    store = FakeControlStore()
    tags = TagStore(store, "r")
    tags.put(Kind.TOPIC, "t", {"k": "1"})
    writes = store.writes
    tags.put(Kind.TOPIC, "t", {"k": "1"})
    tags.change(Kind.TOPIC, "never", lambda present: present)
    assert store.writes == writes
    with pytest.raises(RpcError):
        tags.remove(Kind.TOPIC, "never", frozenset({"k"}))
    assert store.writes == writes


def grown(count: int, make: Callable[[int], dict[str, str]], step_s: float = 0) -> HistoryDocument:
    document = settled(None, {}, None, 0)
    before: dict[str, str] = {}
    for number in range(1, count + 1):
        after = make(number)
        document = settled(announced(document, before, after, "a", number * step_s), after, number, number * step_s)
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
    tags.put(Kind.TOPIC, "t", {"k": "1"})
    assert tags.history.compact() == 0
    now_s[0] += MAX_AGE_S / 2
    tags.put(Kind.TOPIC, "u", {"k": "1"})
    now_s[0] += MAX_AGE_S * 0.6
    assert tags.history.compact() == 1
    assert [name for _, name, _ in tags.history.all()] == ["u"]
    assert tags.get(Kind.TOPIC, "t") == {"k": "1"}
    tags.put(Kind.TOPIC, "t", {"k": "2"})
    assert shown(tags.history)[-1] == ("kafkakit", {"k": ("1", "2")})


@pytest.mark.parametrize("is_after", [False, True])
def test_a_change_that_was_made_and_not_confirmed_is_copied_and_one_that_was_not_made_is_not(is_after: bool) -> None:
    store, other = EndingStore(), FakeControlStore()
    source, target = TagStore(store, "r"), TagStore(other, "x/r")
    source.acting_for("a").put(Kind.TOPIC, "t", {"k": "1"})
    store.left, store.is_after = 1, is_after
    with pytest.raises(EndedError):
        source.acting_for("b").put(Kind.TOPIC, "t", {"k": "2"})
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
    source.put(Kind.TOPIC, "t", {"k": "1"})
    now_s[0] += 1
    target.put(Kind.TOPIC, "t", {"k": "2"})

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
    target.put(Kind.TOPIC, "t", {"k": "4"})
    found = other.of(Kind.TOPIC, "t")
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
            store.put(Kind.TOPIC, "t", {"k": f"{number}"})
    ((kind, name, made),) = source.history.made()
    assert target.history.adopt(kind, name, made, dry_run=False)
    assert not target.history.adopt(kind, name, made, dry_run=False)
    found = target.history.of(Kind.TOPIC, "t").made
    assert [entry.at for entry in found] == [now_s[0] - MAX_ENTRIES + 1 + n for n in range(MAX_ENTRIES)]
