"""Parts of the machine that a test needs: it skips without them, or fails where `KAFKAKIT_REQUIRE` names them."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

from tests.places import ROOT


def missing(part: str, reason: str) -> NoReturn:
    """Skip for want of a part, or fail when it is required."""
    if part in os.environ.get("KAFKAKIT_REQUIRE", "").split(","):
        pytest.fail(f"{part} is required: {reason}")
    pytest.skip(f"{part}: {reason}")


def part(name: str) -> str:
    """The path of a program that `make parts` fetches."""
    found = shutil.which(name, path=f"{ROOT / '.parts/usr/bin'}:/usr/bin:/usr/local/bin")
    if found is None:
        missing(name, "none in .parts or on the PATH; make parts")
    return found


def promtool(*words: str | Path, cwd: Path = ROOT) -> str:
    """What promtool prints; fails where it does."""
    ran = subprocess.run([part("promtool"), *words], cwd=cwd, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout
