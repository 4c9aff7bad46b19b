"""Files as the version before the package was redrawn (commit 8960927) wrote them, over clusters in memory."""

from pathlib import Path

from tests.places import ROOT

FOLDER = ROOT / "tests" / "cases" / "compat"
CLUSTER = "fake-cluster"


def recorded(pattern: str) -> list[Path]:
    found = sorted(path for path in FOLDER.glob(pattern) if path.is_file())
    assert found, f"no recorded file matches {pattern}"
    return found


def name_of(path: Path) -> str:
    return str(path.relative_to(FOLDER))
