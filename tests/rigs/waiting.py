"""Waiting for what other processes and brokers bring about: any of them may pause, and any broker may answer."""

import time
from collections.abc import Callable

WAIT_S = 240.0


def becomes(what: str, check: Callable[[], object], wait_s: float = WAIT_S) -> None:
    """Wait until `check` holds; fails with `what` and what was found last."""
    deadline = time.monotonic() + wait_s
    while not (found := check()):
        assert time.monotonic() < deadline, (what, found)
        time.sleep(0.05)
