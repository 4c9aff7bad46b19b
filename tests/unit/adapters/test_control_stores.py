"""The contract of control stores on the fake and on files, and what is special about files."""

from pathlib import Path

import pytest

from kafkakit.adapters.control_file import FileControl
from kafkakit.adapters.files import write_file
from kafkakit.core.errors import InputError, OperationFailedError
from kafkakit.ports.stores import ControlStore
from tests.contracts.control import ControlContract
from tests.fakes.control import FakeControlStore


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
    assert FileControl(tmp_path / "file" / "control", write_file).get("a") is None
