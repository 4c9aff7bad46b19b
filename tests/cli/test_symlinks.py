"""State, plan and output paths that are symbolic links: one run through two names, nothing lost, nothing misplaced."""

from pathlib import Path

import pytest

from kafkakit.adapters.lock import FileLock
from kafkakit.execution.act.run_journal import lock_path
from tests.cli.test_reassign import ReassignDesk


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReassignDesk:
    """A desk whose state directory is a link to a folder on another disk."""
    desk = ReassignDesk(tmp_path)
    real = tmp_path / "disk"
    real.mkdir()
    desk.home.state.parent.mkdir(parents=True, exist_ok=True)
    desk.home.state.symlink_to(real)
    return desk.sit(monkeypatch)


def test_a_run_is_the_same_through_a_linked_state_directory(desk: ReassignDesk, tmp_path: Path) -> None:
    desk.cluster.replication.line_rate = 0.0
    desk.press()
    assert desk.run("apply", "--yes", "--throttle", "5MB").code == 130
    real = tmp_path / "disk"
    assert len(list(real.rglob("*.journal"))) == 1
    direct = {"KAFKAKIT_STATE_DIR": str(real)}
    with FileLock(lock_path(real, "fake-cluster"), "test", "a test"):
        assert desk.run("resume", "--yes").code == 75
    desk.cluster.replication.line_rate = 10e6
    words = ("reassign", "resume", "--yes", "--ingest-sample", "0")
    ran = desk.home.run("--profile", "p", *words, env=direct)
    assert (ran.code, desk.lists()) == (0, [(3, 2), (2, 1)])
    assert not any(b.configs for b in desk.cluster.brokers.values())
    assert not list(real.rglob("*.part"))


def test_a_plan_behind_a_link_is_read_and_named_as_given(desk: ReassignDesk, tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(desk.path)
    desk.path = link
    desk.press()
    stopped = desk.run("apply", "--yes", "--throttle", "5MB")
    assert stopped.code == 130
    assert str(link) in stopped.stderr
    link.unlink()
    assert desk.run_without_plan("resume").code == 2  # needs --yes, and finds the run without its file
    assert desk.home.run("--profile", "p", "reassign", "resume", "--yes", "--ingest-sample", "0").code == 0


@pytest.mark.parametrize("kind", ["file", "missing", "loop", "folder"])
def test_an_output_file_behind_a_link_is_written_through_or_refused(
    desk: ReassignDesk, tmp_path: Path, kind: str
) -> None:
    link, target = tmp_path / "out.json", tmp_path / "elsewhere.json"
    link.symlink_to({"loop": link, "folder": tmp_path}.get(kind, target))
    if kind == "file":
        target.write_text("old", encoding="utf-8")
    words = ("--profile", "p", "reassign", "list", "-o", "json", "--output-file", str(link))
    ran = desk.home.run(*words)
    assert link.is_symlink()
    if kind in ("file", "missing"):
        assert ran.code == 0
        assert target.read_text(encoding="utf-8").startswith("{")
    else:
        assert (ran.code, ran.stderr.count("error: ")) in ((1, 1), (2, 1))
        assert "Traceback" not in ran.stderr
