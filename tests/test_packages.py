"""Packages made of a tiny wheel: the same bytes each time, and how `kafkakit.pyz` unpacks and starts itself."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from deploy.packages import build
from deploy.packages.man_page import man_page
from kafkakit.cli.root import build_root, commands
from tests.rigs.required import missing
from tests.rigs.waiting import until

METADATA = "Metadata-Version: 2.1\nName: kafkakit\nVersion: 0.1.0\nProvides-Extra: serve\nProvides-Extra: registry\n"
PROGRAM = "import sys\ndef main():\n    print(__file__, *sys.argv[1:])\n    return 7\n"
WHEEL = {
    "kafkakit/__init__.py": "",
    "kafkakit/__main__.py": PROGRAM,
    "kafkakit/tests/test_it.py": "not packed",
    "kafkakit-0.1.0.dist-info/METADATA": METADATA,
    "kafkakit-0.1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "kafkakit-0.1.0.dist-info/RECORD": "",
}
Start = Callable[..., "subprocess.Popen[str]"]


def tiny_release(folder: Path) -> build.Release:
    release = build.Release(folder, "0.1.0", 1_700_000_000)
    release.wheels.mkdir(parents=True)
    with zipfile.ZipFile(release.wheels / "kafkakit-0.1.0-py3-none-any.whl", "w") as packed:
        for name, text in WHEEL.items():
            packed.writestr(name, text)
    return release


@pytest.fixture(autouse=True)
def wheels_are_chosen_without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is one; tests/integration/test_packages.py has pip choose."""

    def choose(folder: Path, _wanted: str, *options: str) -> None:
        shutil.copytree(options[-1], folder)

    monkeypatch.setattr(build, "pip_download", choose)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    (path,) = build.build_pyz(tiny_release(tmp_path / "dist"))
    return path


@pytest.fixture
def start(archive: Path, tmp_path: Path) -> Start:
    def run(*words: str) -> "subprocess.Popen[str]":
        env = {"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(tmp_path / "cache")}
        command = [sys.executable, str(archive), *words]
        return subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    return run


def programs(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "kafkakit" / "program"


def test_the_same_wheels_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("dpkg-deb") is None:
        missing("dpkg-deb", "none on the PATH")
    monkeypatch.setattr(build, "system_files", lambda library: {"usr/share/doc/kafkakit/a": "b"})
    built: list[list[bytes]] = []
    for name, mask in (("one", 0o022), ("two", 0o027)):
        earlier = os.umask(mask)
        try:
            release = tiny_release(tmp_path / name)
            with build.fixed_modes():
                paths = [*build.build_pyz(release), *build.build_deb(release)]
        finally:
            os.umask(earlier)
        built.append([path.read_bytes() for path in paths])
    assert built[0] == built[1]
    with zipfile.ZipFile(paths[0]) as packed:
        assert {info.date_time for info in packed.infolist()} == {(2023, 11, 14, 22, 13, 20)}
    listed = subprocess.run(["dpkg-deb", "-c", str(paths[1])], capture_output=True, text=True, check=True).stdout
    assert {line.split()[1] for line in listed.splitlines()} == {"root/root"}
    assert {line.split()[0] for line in listed.splitlines()} == {"drwxr-xr-x", "-rw-r--r--", "-rwxr-xr-x"}
    assert "test_it.py" not in listed


def wheel_of(folder: Path, name: str, *needs: str) -> None:
    lines = "".join(f"Requires-Dist: {need}\n" for need in needs)
    with zipfile.ZipFile(folder / f"{name}-1-py3-none-any.whl", "w") as packed:
        packed.writestr(f"{name}/__init__.py", "")
        packed.writestr(
            f"{name}-1.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\n{lines}\nRequires-Dist: no\n"
        )


def test_what_is_left_out_takes_only_its_own_with_it(tmp_path: Path) -> None:
    wheel_of(tmp_path, "kafkakit", "Or.Tools>=9", "served; extra == 'serve'", "other; extra == 'audit'")
    wheel_of(tmp_path, "or_tools", "pandas>=2", "shared (<3)", "docs; extra == 'docs'")
    wheel_of(tmp_path, "pandas", "shared", "tzdata; sys_platform == 'win32'", "dateutil>=2")
    for name in ("shared", "served", "other", "docs", "tzdata", "dateutil"):
        wheel_of(tmp_path, name)
    kept = [wheel.name.partition("-")[0] for wheel in build.needed_wheels(tmp_path, "serve")]
    assert kept == ["kafkakit", "or_tools", "served", "shared"]


def test_it_unpacks_once_for_the_user_alone(start: Start, tmp_path: Path) -> None:
    out, err = start("a", "b").communicate(timeout=60)
    (unpacked,) = programs(tmp_path).glob("0.1.0-*")
    assert (out, err) == (f"{unpacked}/kafkakit/__main__.py a b\n", "")
    compiled = {p for p in unpacked.rglob("*") if "__pycache__" in str(p)}
    assert {p.stat().st_mode & 0o077 for p in {unpacked, *unpacked.rglob("*")} - compiled} == {0}
    (unpacked / "kafkakit" / "__main__.py").write_text("def main():\n    return 9\n", encoding="utf-8")
    again = start()
    assert (again.communicate(timeout=60), again.returncode) == (("", ""), 9), "not unpacked again"


def test_starts_at_once_unpack_one_whole_folder(start: Start, tmp_path: Path) -> None:
    left = programs(tmp_path) / "killed.part"
    left.mkdir(parents=True, mode=0o700)
    started = [start() for _ in range(6)]
    ended = [(process.communicate(timeout=60), process.returncode) for process in started]
    (unpacked,) = (p for p in programs(tmp_path).iterdir() if p.name != ".lock")
    assert ended == [((f"{unpacked}/kafkakit/__main__.py\n", ""), 7)] * 6


def test_a_start_waits_for_one_that_unpacks_and_uses_its_folder(start: Start, archive: Path, tmp_path: Path) -> None:
    programs(tmp_path).mkdir(parents=True, mode=0o700)
    with zipfile.ZipFile(archive) as packed:
        facts = json.loads(packed.read("package.json"))
    part = programs(tmp_path) / "of-the-first.part"
    (part / "kafkakit").mkdir(parents=True, mode=0o700)
    (part / "kafkakit" / "__init__.py").touch()
    (part / "kafkakit" / "__main__.py").write_text("def main():\n    return 9\n", encoding="utf-8")
    with (programs(tmp_path) / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = start()
        until(lambda: second.poll() is not None or is_waiting(second.pid), "it waits for the lock")
        part.rename(programs(tmp_path) / f"0.1.0-{facts['hash'][:16]}")
    assert (second.communicate(timeout=60), second.returncode) == (("", ""), 9)


def is_waiting(pid: int) -> bool:
    """Whether a process waits for a lock of a file."""
    return re.search(rf"-> FLOCK .* {pid} ", Path("/proc/locks").read_text(encoding="utf-8")) is not None


def test_a_folder_that_others_may_change_is_refused(start: Start, tmp_path: Path) -> None:
    programs(tmp_path).mkdir(parents=True)
    programs(tmp_path).chmod(0o777)
    process = start()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert re.fullmatch(r"error: .*/program belongs to another user, or others may write to it\nhint: .+\n", err)


def test_another_python_ends_with_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "PYTHON", "3.99")
    (path,) = build.build_pyz(tiny_release(tmp_path / "dist"))
    ran = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, env={"PATH": "/bin"}, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert re.fullmatch(r"error: .*kafkakit.pyz is for Python 3.99 on .+\nhint: install python3.99\n", ran.stderr)
    other = tmp_path / "python3.99"
    other.write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
    other.chmod(0o755)
    found = subprocess.run(
        [sys.executable, str(path), "x"], capture_output=True, text=True, env={"PATH": f"{tmp_path}:/bin"}, check=True
    )
    assert found.stdout == f"{path} x\n"


def test_versions_before_a_release_are_sorted_before_it() -> None:
    versions = ("1.0", "1.0rc1", "1.0.dev3", "1.0b2")
    assert [build.debian_version(v) for v in versions] == ["1.0", "1.0~rc1", "1.0~dev3", "1.0~b2"]


def test_the_manual_page_has_each_command_and_man_reads_it(tmp_path: Path) -> None:
    page = man_page()
    for command in commands(build_root()):
        assert f'.SS "kafkakit {command.words}"'.replace("-", "\\-") in page
        assert all(name.replace("-", "\\-") in page for option in command.options for name in option.names)
    if shutil.which("man") is None:
        missing("man", "none on the PATH")
    (tmp_path / "kafkakit.1").write_text(page, encoding="utf-8")
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": "100"}
    command_line = ["man", "--warnings", "-l", str(tmp_path / "kafkakit.1")]
    ran = subprocess.run(command_line, capture_output=True, text=True, env=env, check=True)
    assert ran.stderr == ""
    assert re.search(r"^ *kafkakit --profile prod status$", ran.stdout, re.MULTILINE), "examples keep their lines"
