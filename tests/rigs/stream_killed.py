"""`kafkakit` in a process that gets a signal at a named effect of a failover, before it or right after it.

Run: python -m tests.rigs.stream_killed SIGKILL|SIGINT before|after EFFECT WORD... with the words of a command line.
Effects: create, seed, certificate, letters, delete, and the changes of the route: open, route, seal, retire.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from kafkakit.__main__ import main
from kafkakit.streams.failover.act.letters import OldRecords
from kafkakit.streams.failover.act.run import Effects, OperationJournals, OperationRun

METHODS: dict[str, tuple[type, str]] = {
    "create": (Effects, "create"),
    "seed": (Effects, "seed"),
    "certificate": (OperationJournals, "write_certificate"),
    "delete": (Effects, "delete"),
    "letters": (OldRecords, "copy"),
}


def kill_at(number: str, when: str, effect: str) -> None:
    """Let this process get a signal at an effect."""
    owner, name = METHODS.get(effect, (OperationRun, "_change_route"))
    real: Callable[..., Any] = getattr(owner, name)

    def change(self: Any, *words: Any, **more: Any) -> Any:
        is_it = name != "_change_route" or words[0].edit == effect
        if is_it and when == "before":
            os.kill(os.getpid(), signal.Signals[number])
        result = real(self, *words, **more)
        if is_it:
            os.kill(os.getpid(), signal.Signals[number])
        return result

    setattr(owner, name, change)


if __name__ == "__main__":
    kill_at(*sys.argv[1:4])
    sys.argv[1:] = sys.argv[4:]
    sys.exit(main())
