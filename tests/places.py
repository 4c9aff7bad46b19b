"""Where things lie that tests read."""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Material beside the checkout: tests that need it skip where it is absent.
SHARED = ROOT.parent / "shared"
