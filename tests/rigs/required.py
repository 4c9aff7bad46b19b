"""Parts of the machine that a test needs: it skips without them, or fails where `KAFKAKIT_REQUIRE` names them."""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from tests.places import ROOT


def missing(part: str, reason: str) -> NoReturn:
    """Skip for want of a part, or fail when it is required."""
    if part in os.environ.get("KAFKAKIT_REQUIRE", "").split(","):
        pytest.fail(f"{part} is required: {reason}")
    pytest.skip(f"{part}: {reason}")


def need_sail() -> None:
    """Skip, or fail, without the packages of the engine that needs no JVM."""
    for name in ("pyspark", "pysail"):
        if importlib.util.find_spec(name) is None:
            missing("sail", f"no {name}; try: pip install 'kafkakit[audit]'")


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


def require_sound_units(units: Mapping[str, str], folder: Path) -> None:
    """Fail where systemd finds anything wrong with unit files (name: text), which are written to the folder."""
    for name, text in units.items():
        (folder / name).write_text(text, encoding="utf-8")
    command = [part("systemd-analyze"), "verify", "--man=no", *(str(folder / name) for name in units)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert not [name for name in units if name in ran.stderr], ran.stderr
