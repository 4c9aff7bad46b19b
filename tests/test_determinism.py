"""Same input, same bytes: across processes, hash seeds and Python versions.

Other Pythons (`python3.12`, `python3.13` on the PATH or installed by pyenv) get an environment of their own in the
cache folder, with the same versions of the packages that planning needs. `KAFKAKIT_REQUIRE=pythons` turns the
skip for want of one into a failure.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.places import ROOT
from tests.rigs.required import missing

SCRIPT = ["-m", "tests.rigs.determinism_script"]
PACKAGES = ("numpy", "ortools", "msgspec", "google-re2")


def plans(python: str | Path, **environment: str) -> bytes:
    """What the script prints under this interpreter."""
    ran = subprocess.run(
        [python, "-B", *SCRIPT],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"} | environment,
        capture_output=True,
        timeout=280,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()[-2000:]
    return ran.stdout


@pytest.fixture(scope="module")
def ours() -> bytes:
    found = plans(sys.executable, PYTHONHASHSEED="0")
    assert found.count(b"\n") == 8
    assert all(b'"moves":[]' not in line for line in found.splitlines()), "a plan without moves compares nothing"
    return found


@pytest.mark.parametrize("seed", ["1", "4711", "random"])
def test_hash_seeds_do_not_matter(ours: bytes, seed: str) -> None:
    assert plans(sys.executable, PYTHONHASHSEED=seed) == ours


@pytest.mark.network
@pytest.mark.parametrize("name", ["python3.12", "python3.13"])
def test_python_versions_do_not_matter(ours: bytes, name: str) -> None:
    python = find_python(name)
    if python is None:
        missing("pythons", f"there is no {name} that runs")
    assert plans(environment_of(python, name), PYTHONHASHSEED="7") == ours


def find_python(name: str) -> Path | None:
    """A Python of this name that really runs; pyenv's shims answer for versions that are not chosen, and fail."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    number = name.removeprefix("python")
    folders = sorted(pyenv.glob(f"{number}.*/bin"), reverse=True)
    found = [shutil.which(name), *(str(folder / name) for folder in folders)]
    for path in found:
        if path is not None and Path(path).exists():
            code = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
            ran = subprocess.run([path, "-c", code], capture_output=True, text=True, timeout=60, check=False)
            if ran.returncode == 0 and ran.stdout.strip() == number:
                return Path(path)
    return None


def environment_of(python: Path, name: str) -> Path:
    """The interpreter of an environment with the packages that planning needs, made once."""
    pins = [f"{package}=={version(package)}" for package in PACKAGES]
    mark = hashlib.sha256(" ".join([str(python), *pins]).encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafkakit" / "test-pythons"
    folder = cache / f"{name}-{mark}"
    done = folder / "complete"
    if not done.exists():
        shutil.rmtree(folder, ignore_errors=True)
        run_or_lack([python, "-m", "venv", folder], "making the environment")
        pip: list[str | Path] = [
            folder / "bin" / "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        run_or_lack([*pip, *pins], "installing the packages")
        done.touch()
    return folder / "bin" / "python"


def run_or_lack(command: list[str | Path], what: str) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    if ran.returncode:
        missing("pythons", f"{what} failed: {ran.stderr.strip()[-500:]}")
