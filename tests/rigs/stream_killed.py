"""`kafkakit` in a process that is killed with SIGKILL at a named effect of a failover, before it or right after it.

Run: python -m tests.rigs.stream_killed before|after EFFECT WORD... with the words of a command line. Effects: create,
seed, certificate, delete, and the changes of the route: open, route, seal, retire.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from kafkakit.__main__ import main
from kafkakit.streams.failover.act.effects import Effects
from kafkakit.streams.failover.act.journals import OperationJournals
from kafkakit.streams.failover.act.run import OperationRun

METHODS: dict[str, tuple[type, str]] = {
    "create": (Effects, "create"),
    "seed": (Effects, "seed"),
    "certificate": (OperationJournals, "write_certificate"),
    "delete": (Effects, "delete"),
}


def kill_at(when: str, effect: str) -> None:
    """Let this process end at an effect."""
    owner, name = METHODS.get(effect, (OperationRun, "_change_route"))
    real: Callable[..., Any] = getattr(owner, name)

    def change(self: Any, *words: Any, **more: Any) -> Any:
        is_it = name != "_change_route" or words[0].edit == effect
        if is_it and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(self, *words, **more)
        if is_it:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, change)


if __name__ == "__main__":
    kill_at(*sys.argv[1:3])
    sys.argv[1:] = sys.argv[3:]
    sys.exit(main())
