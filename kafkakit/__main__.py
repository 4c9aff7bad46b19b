"""`python -m kafkakit` and the console script."""

import sys
import time

STARTED_S = time.monotonic()


def main() -> int:
    """Run the command line and give the exit code."""
    try:
        from kafkakit.cli.root import run

        return run(sys.argv[1:], started_s=STARTED_S)
    except KeyboardInterrupt:  # before the run could take care of it
        return 130


if __name__ == "__main__":
    sys.exit(main())
