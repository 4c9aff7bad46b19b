"""Waiting for what other processes and brokers bring about: any of them may pause, and any broker may answer."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

WAIT_S = 240.0


def becomes(
    what: str, check: Callable[[], object], wait_s: float = WAIT_S, seen: Callable[[], object] = lambda: None
) -> None:
    """Wait until `check` holds; fails with `what`, what it gave last, and what was `seen`."""
    deadline = time.monotonic() + wait_s
    while not (found := check()):
        assert time.monotonic() < deadline, (what, found, seen())
        time.sleep(0.05)


def stop_process(pid: int) -> None:
    """SIGSTOP a process, and wait until each of its threads stands still.

    The signal stops one thread at a time: a broker writes and acknowledges records for a moment after it was sent.
    """
    os.kill(pid, signal.SIGSTOP)
    becomes(f"process {pid} stands still", lambda: set(_thread_states(pid)) <= set("TtZX"))


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
