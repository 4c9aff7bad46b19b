"""A journal in the control store: as long as it gets, cut anywhere, and written by one process alone."""

from contextlib import suppress

import pytest

from kafkakit.core.errors import LeaseLostError, OperationFailedError, TryLaterError
from kafkakit.execution.act import journal_files as store_lines
from kafkakit.execution.act.journal_files import StoreLines, pacer_lines
from tests.fakes.control import FakeControlStore
from tests.rigs.pacer import CLUSTER
from tests.rigs.reassign import Killed

LINES = [bytes([65 + n]) * 30 + b"\n" for n in range(9)]


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_lines, "CHUNK_BYTES", 70)


def lines_of(store: FakeControlStore) -> StoreLines:
    lines = pacer_lines(store, CLUSTER)
    lines.read()
    return lines


def filled(store: FakeControlStore) -> StoreLines:
    lines = lines_of(store)
    for line in LINES:
        lines.append(line)
    return lines


def test_lines_come_back_from_as_many_pieces_as_they_take() -> None:
    store = FakeControlStore()
    filled(store)
    again = lines_of(store)
    assert again.read() == b"".join(LINES)
    again.append(b"more\n")
    assert lines_of(store).read() == b"".join(LINES) + b"more\n"
    again.cut(31)
    assert lines_of(store).read() == LINES[0]


def test_a_process_that_lost_the_lead_cannot_write() -> None:
    store = FakeControlStore()
    old = filled(store)
    new = lines_of(store)
    new.append(b"new\n")
    with pytest.raises(LeaseLostError):
        old.append(b"old\n")
    with pytest.raises(LeaseLostError):
        old.append(b"old\n" * 100)
    assert lines_of(store).read() == b"".join(LINES) + b"new\n"


@pytest.mark.parametrize("write", range(16))
def test_a_kill_while_all_is_replaced_leaves_the_old_or_the_new(write: int, monkeypatch: pytest.MonkeyPatch) -> None:
    store, left = FakeControlStore(), [write]
    lines, replaced = filled(store), store._replace

    def replace(path: str, value: bytes, expected: int | None) -> int:
        if not left[0]:
            raise Killed
        left[0] -= 1
        return replaced(path, value, expected)

    monkeypatch.setattr(store, "_replace", replace)
    new = b"x" * 150 + b"\n"
    with suppress(Killed):
        lines.replace(new)
    monkeypatch.setattr(store, "_replace", replaced)
    found = lines_of(store).read()
    assert found == (b"".join(LINES) if write < 3 else new)
    lines_of(store).replace(b"z\n")
    assert lines_of(store).read() == b"z\n"
    assert len(store.children(f"clusters/{CLUSTER}/autothrottle/journal")) == 1


def test_a_piece_that_is_missing_is_not_passed_over() -> None:
    store = FakeControlStore()
    filled(store)
    path = f"clusters/{CLUSTER}/autothrottle/journal/0/2"
    found = store.get(path)
    assert found is not None
    store.delete(path, found.version)
    with pytest.raises(OperationFailedError, match="damaged"):
        lines_of(store).read()


def test_a_store_that_is_away_fails_the_write() -> None:
    store = FakeControlStore()
    lines = filled(store)
    store.away = True
    with pytest.raises(OperationFailedError, match="cannot be written"):
        lines.append(b"x\n")
    with pytest.raises(TryLaterError):
        lines.read()
