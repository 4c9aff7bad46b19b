"""Files are read within limits and replaced as a whole or not at all.

The contract of control stores on the fake and on files, and what is special about files.
"""

import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkakit.adapters.control_file import FileControl
from kafkakit.adapters.files import read_input, write_file, write_files
from kafkakit.core.errors import InputError, OperationFailedError, RefusedError
from kafkakit.ports.stores import ControlStore
from tests.contracts.control import ControlContract
from tests.fakes.control import FakeControlStore


def test_a_file_is_read_up_to_the_limit_and_not_beyond(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"12345")
    assert read_input(path, 5) == b"12345"
    with pytest.raises(InputError, match="is larger than 4 bytes"):
        read_input(path, 4)


def test_stdin_is_read_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def stdin(data: bytes) -> io.TextIOWrapper:
        return io.TextIOWrapper(io.BytesIO(data))

    monkeypatch.setattr("sys.stdin", stdin(b"12345"))
    assert read_input("-", 5) == b"12345"
    monkeypatch.setattr("sys.stdin", stdin(b"12345"))
    with pytest.raises(InputError, match="stdin: is larger"):
        read_input("-", 4)
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="stdin: is closed"):
        read_input("-", 4)


def test_what_is_no_file_is_refused_without_waiting(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, Path("/dev/zero")):
        with pytest.raises(InputError, match="not a regular file"):
            read_input(path, 10)
    with pytest.raises(InputError, match="cannot be opened: No such file"):
        read_input(tmp_path / "absent", 10)
    with pytest.raises(InputError, match="not a possible file name"):
        read_input("a\0b", 10)


def test_a_written_file_has_its_content_and_mode_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    write_file(path, b"new", 0o600)
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["f"]


def test_the_umask_counts(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_file(tmp_path / "f", b"new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o600


def test_a_file_that_exists_can_keep_its_access(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    path.chmod(0o664)
    group = 100 if os.geteuid() == 0 else path.stat().st_gid
    os.chown(path, -1, group)
    before = os.umask(0o077)
    try:
        write_file(path, b"new", 0o600, keeps_access=True)
        write_file(tmp_path / "g", b"new", 0o644, keeps_access=True)
    finally:
        os.umask(before)
    status = path.stat()
    assert (path.read_bytes(), stat.S_IMODE(status.st_mode), status.st_gid) == (b"new", 0o664, group)
    assert stat.S_IMODE((tmp_path / "g").stat().st_mode) == 0o600


def test_a_file_whose_owner_would_change_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    found = os.fstat

    def of_another(descriptor: int) -> os.stat_result:
        status = list(found(descriptor))
        status[stat.ST_GID] += 1
        return os.stat_result(status)

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.fstat", of_another)
    monkeypatch.setattr("os.fchown", refuse)
    with pytest.raises(RefusedError, match="belongs to user"):
        write_file(path, b"new", keeps_access=True)
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"old", ["f"])
    write_file(path, b"new")


@pytest.mark.parametrize("step", ["os.fsync", "os.rename"])
def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(step, fail)
    with pytest.raises(OperationFailedError, match="No space left on device"):
        write_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


def test_a_link_is_written_through_and_a_folder_is_not_replaced(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    link.symlink_to(real)
    write_file(link, b"new")
    assert link.is_symlink()
    assert real.read_bytes() == b"new"
    with pytest.raises(InputError, match="not a regular file"):
        write_file(tmp_path, b"x")
    write_file(tmp_path / "new" / "folder" / "f", b"x")
    assert (tmp_path / "new" / "folder" / "f").read_bytes() == b"x"
    with pytest.raises(OperationFailedError, match="cannot make the folder"):
        write_file(real / "f", b"x")


def test_many_files_are_written_whole_and_leave_nothing_else(tmp_path: Path) -> None:
    wanted = {tmp_path / folder / f"f{n}": str(n).encode() for folder in ("a", "b/c") for n in range(100)}
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "f7").write_bytes(b"old")
    write_files(iter(wanted.items()))
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == wanted
    assert {stat.S_IMODE(p.stat().st_mode) for p in wanted} == {0o666 & ~_umask()}


def test_each_of_many_files_is_synced_before_the_first_is_renamed_and_its_folder_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, rename = os.fsync, os.rename

    def synced(descriptor: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{descriptor}")).name
        steps.append("folder" if name == tmp_path.name else f"sync {name[1]}")
        fsync(descriptor)

    def renamed(old: Path, new: Path) -> None:
        steps.append(f"rename {new.name}")
        rename(old, new)

    monkeypatch.setattr("os.fsync", synced)
    monkeypatch.setattr("os.rename", renamed)
    write_files((tmp_path / name, b"x") for name in "pqr")
    assert sorted(steps[:3]) == ["sync p", "sync q", "sync r"]
    assert steps[3:] == ["rename p", "rename q", "rename r", "folder"]


@pytest.mark.parametrize("step", ["os.fsync", "os.rename", "next"])
def test_of_many_files_those_beside_a_failed_one_stay_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    (tmp_path / "p").write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    def files() -> Iterator[tuple[Path, bytes]]:
        yield tmp_path / "p", b"new"
        yield (tmp_path if step == "next" else tmp_path / "q"), b"new"

    if step != "next":
        monkeypatch.setattr(step, fail)
    with pytest.raises((OperationFailedError, InputError)):
        write_files(files())
    assert (tmp_path / "p").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["p"]


def _umask() -> int:
    now = os.umask(0)
    os.umask(now)
    return now


class FakeRig:
    def __init__(self) -> None:
        self.store = FakeControlStore()

    def open(self) -> ControlStore:
        return self.store


class FileRig:
    def __init__(self, root: Path) -> None:
        self.root = root

    def open(self) -> ControlStore:
        return FileControl(self.root, write_file)


class TestFakeControlStore(ControlContract):
    @pytest.fixture
    def rig(self) -> FakeRig:
        return FakeRig()


class TestFileControl(ControlContract):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> FileRig:
        return FileRig(tmp_path / "state" / "control")


@pytest.mark.parametrize("data", [b"", b"7", b"x\nvalue", b"-1\nvalue", b"7" * 30 + b"\nvalue", b"7\n" + b"x" * 70_000])
def test_a_damaged_file_is_named(tmp_path: Path, data: bytes) -> None:
    store = FileControl(tmp_path, write_file)
    store.cas("a/b", b"one", None)
    (tmp_path / "a/b/@value").write_bytes(data)
    with pytest.raises(InputError, match="@value: is not a control store document"):
        store.get("a/b")


def test_files_are_for_their_owner_and_nothing_temporary_stays(tmp_path: Path) -> None:
    store = FileControl(tmp_path / "control", write_file)
    version = store.cas("a/b", b"one", None)
    store.cas("a/b", b"two", version)
    files = sorted(p for p in (tmp_path / "control").rglob("*") if p.is_file())
    assert [str(p.relative_to(tmp_path)) for p in files] == ["control/@lock", "control/a/b/@value"]
    assert {p.stat().st_mode & 0o77 for p in files} == {0}


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OperationFailedError, match="the control store cannot use"):
        FileControl(tmp_path / "file" / "control", write_file).cas("a", b"one", None)
    for root in (tmp_path / "file", tmp_path / "file" / "control"):
        with pytest.raises(OperationFailedError, match="Not a directory"):
            FileControl(root, write_file).get("a")
        with pytest.raises(OperationFailedError, match="Not a directory"):
            FileControl(root, write_file).children("")
