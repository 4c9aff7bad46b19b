"""Lines of several processes in one log of the control store."""

import pytest

from kafkakit.core.errors import ConflictError, TryLaterError
from kafkakit.execution.act import journal_files as store_lines
from kafkakit.execution.act.journal_files import CHUNK_BYTES, SharedStoreLines
from tests.fakes.control import FakeControlStore


def test_lines_of_two_processes_come_whole_and_none_is_lost() -> None:
    store = FakeControlStore()
    one, other = SharedStoreLines(store, "log"), SharedStoreLines(store, "log")
    wanted = []
    for number in range(40):
        line = b"%d:" % number + b"x" * (CHUNK_BYTES // 7) + b"\n"
        (one if number % 3 else other).append(line)
        wanted.append(line)
    assert SharedStoreLines(store, "log").read().splitlines(keepends=True) == wanted
    # No line lies in two documents, which a crash between them would tear.
    pieces = [store.get(f"log/0/{name}") for name in store.children("log/0")]
    assert all(piece is not None and piece.value.endswith(b"\n") for piece in pieces)


def test_a_log_that_grows_keeps_its_newer_half(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_lines, "MOST_PIECES", 4)
    store = FakeControlStore()
    log, written = SharedStoreLines(store, "log"), []
    for number in range(60):
        written.append(b"%d:" % number + b"x" * (CHUNK_BYTES // 3) + b"\n")
        log.append(written[-1])
        kept = SharedStoreLines(store, "log").read().splitlines(keepends=True)
        assert kept == written[-len(kept) :]
        assert len(kept) <= 5 * 3
    assert len(kept) >= 4


def test_a_log_that_others_write_all_the_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    store = FakeControlStore()

    def conflict(path: str, value: bytes, expected: int | None) -> int:
        raise ConflictError("another process was first")

    monkeypatch.setattr(store, "cas", conflict)
    with pytest.raises(TryLaterError, match="again and again"):
        SharedStoreLines(store, "log").append(b"line\n")
