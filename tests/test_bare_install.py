"""The base package alone, in a fresh environment: help, version and planning work, extras are named when missing."""

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kafkakit.core.documents import encode_snapshot
from kafkakit.core.model import Broker, ClusterSnapshot, Partition, Topic
from tests.places import ROOT
from tests.rigs.required import missing

pytestmark = pytest.mark.network

PIP: tuple[str | Path, ...] = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
Run = Callable[..., subprocess.CompletedProcess[str]]


def checked(command: list[str | Path], what: str) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    if ran.returncode == 0:
        return
    missing("network", f"{what} failed: {ran.stderr.strip()[-500:]} (needs the package registry)")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    checked([*PIP, "wheel", "--no-deps", "--wheel-dir", folder, ROOT], "building the wheel")
    (found,) = folder.glob("kafkakit-*.whl")
    return found


@pytest.fixture(scope="module")
def kafkakit(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs the `kafkakit` of an environment that holds the wheel and its base dependencies only."""
    folder = tmp_path_factory.mktemp("bare")
    checked([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], "making the environment")
    python = folder / "venv" / "bin" / "python"
    checked([*PIP, "--python", python, "install", "--no-compile", wheel], "installing the wheel")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder / "home")}
        return subprocess.run(
            [folder / "venv" / "bin" / "kafkakit", *arguments],
            capture_output=True,
            text=True,
            cwd=folder,
            env=environment,
            timeout=60,
            check=False,
        )

    return run


def test_help(kafkakit: Run) -> None:
    ran = kafkakit("--help")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "topicmappr" in ran.stdout


def test_version(kafkakit: Run) -> None:
    ran = kafkakit("version", "-o", "json")
    assert (ran.returncode, ran.stderr) == (0, "")
    packages = json.loads(ran.stdout)["packages"]
    assert [name for name, version in packages.items() if version is None] == []


def test_planning_from_a_snapshot(kafkakit: Run, tmp_path: Path) -> None:
    snapshot = ClusterSnapshot(
        cluster_id="c1",
        taken_at=datetime(2026, 1, 1, tzinfo=UTC),
        source="a test",
        brokers=tuple(Broker(id=1000 + i, rack="abc"[i % 3]) for i in range(1, 5)),
        topics=(Topic(name="orders", partitions=(Partition(partition=0, replicas=(1001, 1002, 1003)),)),),
    )
    path = tmp_path / "cluster.json"
    path.write_bytes(encode_snapshot(snapshot))
    plan = tmp_path / "plan.json"
    brokers = "1004,1002,1003"
    ran = kafkakit(
        "topicmappr", "rebuild", "--snapshot", str(path), "--topics", "orders", "--brokers", brokers,
        "--out-path", str(tmp_path), "--plan", str(plan), "--report", str(tmp_path / "plan.html"),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    moved = json.loads(plan.read_text())["reassignment"]["partitions"]
    assert [(p["topic"], sorted(p["replicas"])) for p in moved] == [("orders", [1002, 1003, 1004])]
    assert "<td>orders</td>" in (tmp_path / "plan.html").read_text("utf-8"), "templates are in the package"


def test_a_missing_extra_is_one_line_that_names_it(kafkakit: Run) -> None:
    ran = kafkakit("sandbox", "up")
    assert (ran.returncode, ran.stdout) == (2, "")
    lines = [line for line in ran.stderr.splitlines() if line.startswith(("error:", "hint:"))]
    assert "kafkakit[sandbox]" in " ".join(lines)
    assert "Traceback" not in ran.stderr


def test_the_wheel_ships_the_code_of_the_checkout_to_spark(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    script = (
        "import sys; from pathlib import Path;"
        "from kafkakit.adapters.spark import code_folder, write_code_zip;"
        "write_code_zip(Path(sys.argv[1]), whole_package=False); print(code_folder())"
    )
    code = tmp_path / "installed" / "kafkakit" / "spark_code"
    for place, folder in ((ROOT, ROOT / "spark"), (tmp_path / "installed", code)):
        ran = subprocess.run(
            [sys.executable, "-c", script, tmp_path / f"{len(str(place))}.zip"],
            capture_output=True, text=True, check=True, cwd=tmp_path, env={"PYTHONPATH": str(place)},
        )  # fmt: skip
        assert ran.stdout == f"{folder}\n"
    first, second = (path.read_bytes() for path in tmp_path.glob("*.zip"))
    assert first == second
    assert (code / "main.py").read_bytes() == (ROOT / "spark" / "main.py").read_bytes()


def test_audits_name_the_extra(kafkakit: Run) -> None:
    ran = kafkakit("audit", "drift", "--input", "a", "--output", "b")
    assert ran.returncode == 2
    assert ran.stderr.endswith("hint: install it with: pip install 'kafkakit[spark]'\n")
