"""Journals of commit edits, saved commits and the monitor's saved state, all written by the version before."""

import json
import shutil
from pathlib import Path

import pytest

from kafkakit.core.cluster_facts import CommittedOffset
from kafkakit.core.journal_lines import decode_lines, replay_lines
from kafkakit.core.model import TopicPartition
from kafkakit.streams.commits.decide.documents import read_commit, read_shown
from kafkakit.streams.commits.decide.editing.edit import GRAMMAR, EditRecord, EditVerdict, fold
from kafkakit.streams.lag.decide.saved_state import check_state, decode_state
from kafkakit.streams.model.commit import CommitState, OffsetRanges
from kafkakit.streams.model.dialects.registry import read_metadata
from tests.cli.test_streams_commits import CommitsDesk
from tests.compat.recorded import CLUSTER, FOLDER, recorded
from tests.invariants.edit_journal import verify_edit_journal
from tests.rigs.lag import Rig

ORDERS, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
WATERMARKED = "~bEJ8GtPUBBTxkAAFjAgmgsZbLtzPwigw"
# folder/verb: offsets before and after, as (partition 0, partition 1), and how the edit came out
Offsets = tuple[int | None, ...]
EDITS: dict[str, tuple[Offsets, Offsets, EditVerdict]] = {
    "every-verb/reject": ((60,), (59,), EditVerdict.COMPLETE),
    "every-verb/replay": ((59,), (10,), EditVerdict.COMPLETE),
    "every-verb/reset": ((10, None), (0, 0), EditVerdict.COMPLETE),
    "every-verb/translate": ((0, 0), (0, 0), EditVerdict.COMPLETE),
    "every-verb/unack": ((59,), (59,), EditVerdict.COMPLETE),
    "interrupted/skip": ((60,), (160,), EditVerdict.OPEN),
    "refused/reset": ((60, 0), (200, 0), EditVerdict.INCOMPLETE),
    "skip-and-undo/skip": ((60,), (160,), EditVerdict.UNDONE),
    "skip-and-undo/undo": ((160,), (60,), EditVerdict.COMPLETE),
}


def edit_of(path: Path) -> EditRecord:
    record = replay_lines(decode_lines(path.read_bytes(), path.name, GRAMMAR).records, path.name, None, fold)
    assert record is not None
    return record


def path_of(name: str) -> Path:
    folder, verb = name.split("/")
    (path,) = recorded(f"commit-edit/{folder}/*-{verb}-*.journal")
    return path


def offset_of(commit: CommittedOffset | None) -> int | None:
    return None if commit is None else commit.offset


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_holds_every_commit_before_and_after(name: str) -> None:
    path = path_of(name)
    verify_edit_journal(path.read_bytes())
    record = edit_of(path)
    changes = [record.changes[key] for key in (ORDERS, OTHER) if key in record.changes]
    found = (tuple(offset_of(c.old) for c in changes), tuple(offset_of(c.new) for c in changes), record.verdict)
    assert found == EDITS[name]
    opening = record.opening
    assert (opening.cluster_id, opening.group, opening.verb, opening.who) == (
        CLUSTER,
        "pay",
        name.split("/")[1],
        "operator@ops-1",
    )


def test_every_edit_is_expected() -> None:
    assert len(recorded("commit-edit/*/*")) == len(EDITS)


def test_words_of_an_edit_come_back() -> None:
    assert edit_of(path_of("skip-and-undo/skip")).opening.reason == "ticket 4711"
    assert edit_of(path_of("every-verb/replay")).opening.request_id == 1767268803000
    assert edit_of(path_of("refused/reset")).answers == {ORDERS: "RebalanceInProgressError", OTHER: None}
    text = edit_of(path_of("refused/reset")).changes[OTHER].old
    assert text is not None
    assert text.metadata == "text of somebody é \0 end"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommitsDesk:
    desk = CommitsDesk(tmp_path)
    desk.groups.add_topic("orders", 2)
    desk.sit(monkeypatch)
    return desk


def put(desk: CommitsDesk, folder: str, name: str, *, new: bool) -> None:
    """The host's journals, and the group's commits from before or after one of them."""
    shutil.copytree(FOLDER / "commit-edit" / folder, desk.home.state / "commit-edits" / CLUSTER)
    for key, change in edit_of(path_of(f"{folder}/{name}")).changes.items():
        commit = change.new if new else change.old
        if commit is not None:
            desk.groups.seed("pay", key, commit.offset, commit.metadata)
    desk.clock.advance(60)


def held(desk: CommitsDesk) -> dict[TopicPartition, CommittedOffset]:
    found = desk.groups.committed("pay")
    return {key: commit for key, commit in found.items() if isinstance(commit, CommittedOffset)}


@pytest.mark.parametrize(("verb", "new", "offset"), [("finish", False, 160), ("undo", True, 60), ("finish", True, 160)])
def test_an_interrupted_edit_is_finished_or_undone(desk: CommitsDesk, verb: str, new: bool, offset: int) -> None:
    put(desk, "interrupted", "skip", new=new)
    refused = desk.run("skip", "pay", "--topic", "orders", "--partition", "0", "--offsets", "60", "--apply", "--yes")
    assert (refused.code, "was interrupted" in refused.stderr) == (2, True)
    ran = desk.run(verb, "last" if verb == "finish" else path_of("interrupted/skip").name, "--apply", "--yes")
    assert ran.code == 0, ran.stderr
    assert held(desk)[ORDERS].offset == offset
    if verb == "undo":
        assert held(desk)[ORDERS].metadata == WATERMARKED


def test_the_newest_edit_is_undone_to_the_last_character(desk: CommitsDesk) -> None:
    put(desk, "every-verb", "translate", new=True)
    ran = desk.run("undo", "last", "--apply", "--yes")
    assert ran.code == 0, ran.stderr
    changes = edit_of(path_of("every-verb/translate")).changes
    assert held(desk) == {key: change.old for key, change in changes.items()}


def test_an_edit_that_was_undone_is_not_undone_again(desk: CommitsDesk) -> None:
    put(desk, "skip-and-undo", "undo", new=True)
    ran = desk.run("undo", "last")
    assert (ran.code, "no edit is on record" in ran.stderr) == (2, True)


def test_saved_commits_are_read_and_compared(desk: CommitsDesk, tmp_path: Path) -> None:
    shown = read_shown((FOLDER / "commit" / "show.json").read_bytes(), "show")
    assert [(c.topic, c.partition, c.offset, c.dialect) for c in shown.commits] == [
        ("orders", 0, 60, "kkm1"),
        ("orders", 1, 4, "opaque"),
    ]
    one = read_commit((FOLDER / "commit" / "decode.json").read_bytes(), "decode")
    assert (one.offset, [tuple(pair) for pair in one.state.done]) == (60, [(61, 160)])
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    document = json.loads((FOLDER / "commit" / "show.json").read_bytes())
    before.write_text(json.dumps(document))
    document["commits"][0]["state"]["done"] = [[61, 150]]
    after.write_text(json.dumps(document))
    assert desk.run("diff", str(before), str(before), "-o", "tsv").stdout == ""
    ran = desk.run("diff", str(before), str(after), "-o", "json")
    assert "150" in ran.stdout, ran.stderr


def test_recorded_metadata_means_the_same_commit() -> None:
    text = (FOLDER / "commit" / "metadata.txt").read_text()
    state: CommitState = read_metadata(text, 60).state
    assert text == WATERMARKED
    assert (state.base, state.done) == (60, OffsetRanges(((61, 160),)))


def test_the_monitor_continues_from_the_saved_state() -> None:
    """The rig's log is that of the recorded run: 10 commits of `h`, one of `g`, one of `g` in a transaction."""
    state = decode_state((FOLDER / "lag-state" / "c1.state").read_bytes(), "c1.state")
    check_state(state, "c1.state")
    assert (state.cluster_id, state.texts["topic.name"]) == ("c1", [b"orders"])
    rig = Rig()
    rig.produce(100)
    rig.produce(40, 1)
    rig.commit("g", 10, metadata="kkm1:not one")
    for offset in range(11, 21):
        rig.commit("h", offset)
    rig.commit("h", 7, 1)
    rig.clock.advance(64)
    again = rig.new_monitor()
    again.adopt(state)
    rows = {key: row.committed for key, row in rig.rows(again).items()}
    assert rows == {("g", "orders", 0): 10, ("h", "orders", 0): 20, ("h", "orders", 1): 7}
    rig.run(2, again)
    assert {key: row.lag for key, row in rig.rows(again).items()} == {
        ("g", "orders", 0): 90,
        ("h", "orders", 0): 80,
        ("h", "orders", 1): 33,
    }
