"""Waiting for what other processes and brokers bring about: any of them may pause, and any broker may answer."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

WAIT_S = 240.0
T = TypeVar("T")


def until(
    check: Callable[[], T | None], what: str = "", wait_s: float = WAIT_S, seen: Callable[[], object] = lambda: None
) -> T:
    """Wait until `check` holds, and return what it gave; fails with `what`, what it gave last, and what was `seen`."""
    deadline, pause_s = time.monotonic() + wait_s, 0.002
    while not (found := check()):
        assert time.monotonic() < deadline, (what, found, seen())
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.05)
    return found


def becomes(read: Callable[[], object], wanted: object, told: str = "") -> None:
    """Wait until a reading equals what is wanted: any broker may answer, and some hear of a change later."""
    found: list[object] = []

    def agrees() -> bool:
        found[:] = [read()]
        return found == [wanted]

    until(agrees, told, seen=lambda: (found, wanted))


class PassesTime(Protocol):
    """A rig of a contract: a fake's clock goes on, a real cluster is given a moment."""

    def pass_time(self) -> None: ...


def eventually(rig: PassesTime, holds: Callable[[], bool], tries: int = 3000) -> None:
    """Fail unless the condition comes true while the cluster works."""
    for _ in range(tries):
        if holds():
            return
        rig.pass_time()
    assert holds()


def stop_process(pid: int) -> None:
    """SIGSTOP a process, and wait until each of its threads stands still.

    The signal stops one thread at a time: a broker writes and acknowledges records for a moment after it was sent.
    """
    os.kill(pid, signal.SIGSTOP)
    until(lambda: set(_thread_states(pid)) <= set("TtZX"), f"process {pid} stands still")


def _thread_states(pid: int) -> Iterator[str]:
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            yield (thread / "stat").read_text(encoding="utf-8", errors="replace").rpartition(") ")[2][0]


def give_up_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ZooKeeper that refuses connections is tried for a moment, not for the ten seconds that operators give it."""
    from kafkakit.adapters import zookeeper

    start = zookeeper.start_client

    def start_soon(hosts: str, **given: Any) -> Any:
        return start(hosts, **{**given, "wait_s": 0.5})

    monkeypatch.setattr(zookeeper, "start_client", start_soon)
