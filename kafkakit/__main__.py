"""`python -m kafkakit` and the console script."""

import sys


def main() -> int:
    """Run the command line and give the exit code."""
    from kafkakit.cli import run

    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
