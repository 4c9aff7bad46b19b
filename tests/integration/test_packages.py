"""Each package that `make dist` builds is installed and used as docs/install.md says, where nothing else of ours is."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kafkakit.core.documents import encode_snapshot
from kafkakit.core.model import Broker, ClusterSnapshot, Partition, Topic
from tests.places import ROOT
from tests.rigs.clean_root import CleanRoot, make_clean_root
from tests.rigs.image_layout import start_in_image, unpack_layout
from tests.rigs.required import missing, require_sound_units

# The first test waits for the packages, which take minutes to fetch, compress and unpack.
pytestmark = [pytest.mark.network, pytest.mark.timeout(1200)]

Shell = Callable[[str], subprocess.CompletedProcess[str]]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
PAGE = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")


def shell_lines(heading: str) -> str:
    """The shell lines of a section of the page."""
    (section,) = (part for part in re.split(r"^## ", PAGE, flags=re.MULTILINE) if part.startswith(f"{heading}\n"))
    return "".join(BLOCK.findall(section))


def shell_in(folder: Path, *, limit_s: float = 280, **variables: str) -> Shell:
    """Runs lines in a folder, with an environment that has nothing of this one but the Python on the PATH."""
    path = f"{Path(sys.executable).resolve().parent}:/usr/bin:/bin"

    def run(script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euc", script],
            cwd=folder,
            env={"PATH": path, "HOME": str(folder / "home"), **variables},
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )

    return run


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages") / "dist"
    build(folder, "Build")
    return folder


def build(folder: Path, section: str) -> None:
    """Run the lines of a section in the checkout; skips, or fails, where they cannot fetch what they need."""
    shared = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "HOME", "XDG_"))}
    python = str(Path(sys.executable).resolve())
    ran = shell_in(ROOT, limit_s=840, **{**shared, "DIST": str(folder), "PYTHON": python})(shell_lines(section))
    if ran.returncode:
        missing("network", f"{section} failed: {ran.stderr.strip()[-500:]}")


def put_inputs(folder: Path) -> None:
    """A snapshot of a cluster, whose rounds of restarts a solver has to find, and a file of settings with a mistake."""
    pairs = [(1001 + i, 1001 + (i + 1) % 5) for i in range(5)]
    minimum = {"min.insync.replicas": "1"}
    all_three = (1001, 1002, 1003)
    orders = Partition(partition=0, replicas=all_three, isr=all_three, leader=1001)
    ring = tuple(Partition(partition=n, replicas=pair, isr=pair, leader=pair[0]) for n, pair in enumerate(pairs))
    snapshot = ClusterSnapshot(
        cluster_id="c1",
        taken_at=datetime(2026, 1, 1, tzinfo=UTC),
        source="a test",
        brokers=tuple(Broker(id=1000 + i, rack="abc"[i % 3]) for i in range(1, 6)),
        topics=(
            Topic(name="orders", partitions=(orders,), configs=minimum),
            Topic(name="ring", partitions=ring, configs=minimum),
        ),
    )
    (folder / "cluster.json").write_bytes(encode_snapshot(snapshot))
    settings = "process.roles=broker\nnode.id=1\nmin.insync.replica=2\n"
    (folder / "server.properties").write_text(settings, encoding="utf-8")


def require_working(shell: Shell, program: str, folder: Path, *, extra: str) -> None:
    """The program starts, reads files, plans, and names the packages of its extra that it was installed with."""
    put_inputs(folder)
    ran = shell(f"{program} version -o json")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [name for name, version in json.loads(ran.stdout)["packages"].items() if version is None] == []
    ran = shell(f"{program} --help")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "topicmappr" in ran.stdout
    ran = shell(f"{program} lint server.properties -o json")
    assert ran.returncode in (0, 1), ran.stderr
    assert "min.insync.replica" in ran.stdout
    plan = "topicmappr rebuild --snapshot cluster.json --topics orders --brokers 1004,1002,1003 --plan plan.json"
    ran = shell(f"{program} {plan}")
    assert ran.returncode == 0, ran.stderr
    moved = json.loads((folder / "plan.json").read_text())["reassignment"]["partitions"]
    assert [(p["topic"], sorted(p["replicas"])) for p in moved] == [("orders", [1002, 1003, 1004])]
    in_rounds = "broker restart-plan --snapshot cluster.json --all --at-once 5 -o json"
    ran = shell(f"{program} {in_rounds}")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert len(json.loads(ran.stdout)["rounds"]) == 3, ran.stdout
    ran = shell(f"{program} -B 127.0.0.1:1 --timeout 5s streams lag serve --listen 127.0.0.1:0")
    assert ("kafkakit[serve]" in ran.stderr) is (extra == ""), ran.stderr
    assert "Traceback" not in ran.stderr


def test_wheels_are_installed_without_a_registry(dist: Path, tmp_path: Path) -> None:
    # What is not compiled at once is compiled when it is used, which takes a third of the time here.
    shell = shell_in(tmp_path, PIP_CONFIG_FILE="/dev/null", PIP_INDEX_URL="file:///nonexistent", PIP_NO_COMPILE="1")
    (tmp_path / "dist").symlink_to(dist)
    ran = shell(shell_lines("Wheels, without a registry"))
    assert ran.returncode == 0, ran.stderr
    assert "kafkakit 0." in ran.stdout
    require_working(shell, "home/kafkakit/bin/kafkakit", tmp_path, extra="")


def test_the_source_archive_builds_the_same_wheel(dist: Path, tmp_path: Path) -> None:
    (archive,) = dist.glob("kafkakit-*.tar.gz")
    shutil.unpack_archive(archive, tmp_path, filter="data")
    (sources,) = tmp_path.glob("kafkakit-*")
    hatchling = ROOT / f".venv-dist-{PYTHON}" / "bin" / "hatchling"
    built = [str(hatchling), "build", "-t", "wheel", "-d", str(tmp_path)]
    (first,) = dist.glob("kafkakit-*.whl")
    subprocess.run(built, cwd=sources, check=True, capture_output=True, env={"PATH": "/usr/bin:/bin"})
    assert names_in(tmp_path / first.name) == names_in(first)


def names_in(wheel: Path) -> list[str]:
    from zipfile import ZipFile

    return sorted(f"{info.filename} {info.CRC}" for info in ZipFile(wheel).infolist() if "RECORD" not in info.filename)


def test_one_file_runs_and_unpacks_once(dist: Path, tmp_path: Path) -> None:
    shell = shell_in(tmp_path)
    (tmp_path / "dist").symlink_to(dist)
    ran = shell(shell_lines("One file"))
    assert ran.returncode == 0, ran.stderr
    assert "kafkakit 0." in ran.stdout
    require_working(shell, "./kafkakit.pyz", tmp_path, extra="serve")
    (unpacked,) = (tmp_path / "home/.cache/kafkakit/program").glob("0.*")
    assert (unpacked / "kafkakit" / "__pycache__").is_dir(), "what was compiled is kept"


@pytest.fixture(scope="module")
def clean_root(tmp_path_factory: pytest.TempPathFactory) -> CleanRoot:
    return make_clean_root(tmp_path_factory.mktemp("clean"))


def test_the_debian_package_in_a_clean_root(dist: Path, clean_root: CleanRoot, tmp_path: Path) -> None:
    (package,) = dist.glob("kafkakit_*.deb")
    home = clean_root.folder / "root"
    (home / "dist").mkdir()
    shutil.copy(package, home / "dist")
    ran = clean_root.run(shell_lines("Debian package"))
    assert ran.returncode == 0, ran.stderr
    assert "kafkakit 0." in ran.stdout
    assert "dependency problems" not in ran.stderr
    require_working(clean_root.run, "kafkakit", home, extra="registry")
    ran = clean_root.run("kafkakit registry serve --no-token --dry-run -B 127.0.0.1:1 --timeout 2s")
    assert "is not installed" not in ran.stderr
    usr = clean_root.folder / "usr"
    units = sorted((usr / "lib/systemd/system").glob("kafkakit-*"))
    require_sound_units(
        {unit.name: unit.read_text().replace("/usr/bin/kafkakit", "/bin/true") for unit in units}, tmp_path
    )
    assert [unit.stem.removeprefix("kafkakit-") for unit in units] == [
        "assigner",
        "autothrottle",
        "lag",
        "registry",
        "ui",
    ]
    assert not list((clean_root.folder / "etc").rglob("kafkakit*")), "no unit is enabled"
    for shell, place in (("bash", "bash-completion/completions/kafkakit"), ("zsh", "zsh/vendor-completions/_kafkakit")):
        printed = clean_root.run(f"kafkakit completion {shell}").stdout
        assert (usr / "share" / place).read_text() == printed != ""
    removed = clean_root.run("dpkg -r kafkakit && test ! -e /usr/lib/kafkakit && test ! -e /usr/bin/kafkakit")
    assert removed.returncode == 0, removed.stdout + removed.stderr


def test_the_image_runs_from_a_read_only_root(dist: Path, tmp_path: Path) -> None:
    build(dist, "Image")
    root, files = tmp_path / "root", tmp_path / "files"
    config = unpack_layout(dist / "image", root)
    assert sorted(path.name for path in (root / "usr/bin").iterdir()) == ["kafkakit", f"python{PYTHON}"], "no shell"
    files.mkdir()
    put_inputs(files)

    def ran(*words: str) -> tuple[int, str, str]:
        process = start_in_image(root, config, *words, files=files)
        out, err = process.communicate(timeout=280)
        return process.returncode, out, err

    code, out, err = ran("version", "-o", "json")
    assert (code, err) == (0, "")
    assert [name for name, version in json.loads(out)["packages"].items() if version is None] == []
    plan = (
        "topicmappr rebuild --snapshot /var/lib/kafkakit/cluster.json --topics orders --brokers 1004,1002,1003 -o json"
    )
    code, out, err = ran(*plan.split())
    assert code == 0, err
    assert '"replicas"' in out
    code, _, err = ran(*plan.split(), "--plan", "/usr/plan.json")
    assert (code != 0, "Read-only file system" in err) == (True, True), err
    words = "-B 127.0.0.1:1 streams lag serve --listen 0.0.0.0:0"
    with start_in_image(root, config, *words.split(), files=files) as process:
        assert process.stderr is not None
        assert any("serving http" in line for line in iter(process.stderr.readline, ""))
        process.terminate()
        assert "stopped (SIGTERM)" in process.communicate(timeout=120)[1]
        assert process.returncode == 143
