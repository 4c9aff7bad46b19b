"""`kafkakit` in a process that is killed with SIGKILL once a rollout's journal has so many lines.

Run: python -m tests.rigs.rollout_killed LINES WORD... with the words of a command line.
"""

import os
import signal
import sys
from typing import Any

from kafkakit.__main__ import main
from kafkakit.rollout.act.writing import RolloutJournal


def kill_after(lines: int) -> None:
    """Let this process end right after it has written that line."""
    real = RolloutJournal._write

    def write(self: RolloutJournal, *words: Any) -> Any:
        line = real(self, *words)
        if line.seq + 1 == lines:
            os.kill(os.getpid(), signal.SIGKILL)
        return line

    setattr(RolloutJournal, "_write", write)  # noqa: B010


if __name__ == "__main__":
    kill_after(int(sys.argv[1]))
    sys.argv[1:] = sys.argv[2:]
    sys.exit(main())
