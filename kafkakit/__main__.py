"""`python -m kafkakit` and the console script."""

import gc
import os
import signal
import sys
import time

STARTED_S = time.monotonic()
GARBAGE_AFTER = 50_000
"""Objects after which garbage is looked for: loading modules makes many, and looking among them takes a fifth of it."""


def _leave(number: int, frame: object) -> None:
    """End before anything was begun."""
    os.write(2, b"error: interrupted\n" if number == signal.SIGINT else b"error: terminated\n")
    os._exit(128 + number)


def main() -> int:
    """Run the command line and give the exit code."""
    try:
        gc.set_threshold(GARBAGE_AFTER)
        numbers = (signal.SIGINT, signal.SIGTERM)
        earlier = {number: signal.getsignal(number) for number in numbers}
        for number in (n for n in numbers if earlier[n] is not signal.SIG_IGN):
            signal.signal(number, _leave)
        from kafkakit.cli.root import run

        for number in numbers:
            signal.signal(number, earlier[number])
        code = run(sys.argv[1:], started_s=STARTED_S)
        for number in numbers:  # all is said and done, and the code stands
            signal.signal(number, signal.SIG_IGN)
        return code
    except KeyboardInterrupt:  # before the run could take care of it
        return 130


if __name__ == "__main__":
    sys.exit(main())
