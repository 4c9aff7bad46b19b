"""The lock that all users of a host share: one file, found by all, never followed, and readable for all."""

import os
import stat
from pathlib import Path

import pytest

from kafkakit.adapters.lock import FileLock, common_folder, locked_by
from kafkakit.core.errors import OperationFailedError, TryLaterError

ME = f"process {os.getpid()}"


def shared(path: Path, who: str = "someone") -> FileLock:
    return FileLock(path, "cluster c", who, shared=True)


def test_the_holder_is_named_and_the_file_can_be_read_by_all_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "kafkakit.c.lock"
    before = os.umask(0o077)
    try:
        with (
            shared(path, f"process {os.getpid()} of ann"),
            pytest.raises(TryLaterError, match=f"cluster c: another kafkakit process is running: {ME} of ann, since "),
            shared(path, "process 2 of bob"),
        ):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    with shared(path, "process 2 of bob"):
        assert "process 2 of bob" in path.read_text()


def test_a_file_that_may_only_be_read_locks_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kafkakit.c.lock"
    path.write_text("process 1 of ann\n")
    real = os.open

    def of_another_user(name: object, flags: int, *mode: int) -> int:
        if flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied")
        return real(name, flags, *mode)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", of_another_user)
    with shared(path):
        with pytest.raises(TryLaterError, match=f"another kafkakit process is running: {ME}"), shared(path):
            pass
        assert locked_by(path) == ME, "the text is of the user who made the file"
    assert path.read_text() == "process 1 of ann\n", "the text of another user's file stays"


def test_who_has_the_lock_is_told_without_taking_it(tmp_path: Path) -> None:
    path = tmp_path / "kafkakit.c.lock"
    assert locked_by(path) == ""
    with shared(path, f"{ME} of ann"):
        assert locked_by(path).startswith(f"{ME} of ann, since ")
    assert locked_by(path) == "", "the text stays, the lock does not"


def test_where_the_kernel_lists_no_locks_the_text_is_all_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kafkakit.c.lock"
    monkeypatch.setattr("kafkakit.adapters.lock._KERNEL_LOCKS", tmp_path / "none")
    with shared(path, "process 1 of ann"):
        with pytest.raises(TryLaterError, match="process 1 of ann"), shared(path):
            pass
        assert locked_by(path) == ""


@pytest.mark.parametrize("planted", ["link", "fifo", "folder"])
def test_what_another_user_planted_is_refused(tmp_path: Path, planted: str) -> None:
    path, victim = tmp_path / "kafkakit.c.lock", tmp_path / "victim"
    victim.write_text("kept")
    if planted == "link":
        path.symlink_to(victim)
    elif planted == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(OperationFailedError, match="lock"), shared(path):
        pass
    assert victim.read_text() == "kept"


def test_the_folder_of_the_host_is_one_that_all_may_write_to_and_none_may_clear() -> None:
    mode = common_folder().stat().st_mode
    assert mode & stat.S_ISVTX
    assert mode & stat.S_IWOTH
