"""`streams commits reset|skip|unack|reject|replay|translate|undo|finish` as an operator runs them, over fakes."""

import base64
import inspect
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

import pytest

from kafkakit import wiring
from kafkakit.adapters.host import SystemClock
from kafkakit.cli.context import CliContext
from kafkakit.core.cluster_facts import CommittedOffset, GroupType, ItemError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.commits.decide import hazards
from kafkakit.streams.commits.report import groups
from kafkakit.streams.model.commit import CommitIdentity, CommitState, OffsetRanges
from kafkakit.streams.model.dialects import parallel_consumer
from kafkakit.streams.model.dialects.parallel_consumer import write_parallel_consumer
from kafkakit.streams.model.dialects.registry import read_metadata
from kafkakit.streams.model.kkm1.encode import encode_commit
from tests.cli.test_streams_commits import CLUSTER, NOW, ORDERS, TOPIC_ID, CommitsDesk, ReadingDesk, pill
from tests.clusters.streams_batches import batch, commit
from tests.invariants.edit_journal import verify_edit_journal
from tests.rigs.printed_repairs import command_in, commands_in, hint_of

GROUP = "pay"
P0 = ("--topic", "orders", "--partition", "0")


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommitsDesk:
    desk = ReadingDesk(tmp_path)
    desk.groups.add_topic("orders", 2)
    return desk.sit(monkeypatch)


def stored(desk: CommitsDesk, group: str = GROUP) -> Mapping[TopicPartition, CommittedOffset | ItemError]:
    return desk.groups.committed(group)


def state(desk: CommitsDesk) -> CommitState:
    held = stored(desk)[ORDERS]
    assert isinstance(held, CommittedOffset)
    return read_metadata(held.metadata, held.offset).state


def journals(desk: CommitsDesk) -> list[Path]:
    return sorted((desk.home.state / "commit-edits" / "fake-cluster").glob("*.journal"))


def test_a_plan_shows_what_becomes_of_each_record_and_the_command_that_applies_it(desk: CommitsDesk) -> None:
    desk.seed(pill())
    ran = desk.run("skip", GROUP, *P0, "--offsets", "60", "--dry-run")
    assert (ran.code, ran.stderr) == (0, "")
    plan = re.search(r"--expect ([0-9a-f]{12})\n", ran.stdout)
    assert plan is not None
    assert ran.stdout == (
        "skip for group pay on cluster fake-cluster (profile p)\n"
        "  offsets 60\n"
        "\n"
        "orders-0\n"
        "  now    offset 60, kkm1, 33 characters, pending 60, done up to 159\n"
        "  after  offset 160, kkm1, 23 characters\n"
        "  not delivered any more: 60 (1 offset)\n"
        "\n"
        "Together: 1 of 1 commit changes, at most 0 records delivered again, 1 offset not delivered any more.\n"
        f"Plan {plan[1]}.\n"
        "Nothing is written yet. To apply exactly this plan:\n"
        "  kafkakit --profile p streams commits skip pay --offsets 60 --topic orders --partition 0 "
        f"--expect {plan[1]}\n"
    )


def test_a_log_without_a_leader_says_what_to_start(desk: CommitsDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.seed(pill())
    monkeypatch.setattr(
        desk.log, "spans", lambda keys: dict.fromkeys(keys, ItemError(name="LEADER_NOT_AVAILABLE", retriable=True))
    )
    for words in (("reset", GROUP, "--topic", "orders", "--to", "earliest"), ("delete", GROUP, "--topic", "orders")):
        ran = desk.run(*words, "--dry-run")
        assert (ran.code, ran.stderr.splitlines()[-2:]) == (
            75,
            ["error: the ends of orders-0 cannot be read: LEADER_NOT_AVAILABLE",
             "hint: start one of the brokers that hold its replicas"],
        )  # fmt: skip


def test_a_plan_alone_leaves_no_file_and_cannot_write(desk: CommitsDesk) -> None:
    desk.seed(pill())
    before = dict(stored(desk))
    for words in (
        ("skip", GROUP, *P0, "--offsets", "60"),
        ("unack", GROUP, *P0, "--offsets", "10"),
        ("reject", GROUP, *P0, "--offsets", "60"),
        ("reset", GROUP, "--topic", "orders", "--to", "earliest"),
        ("replay", GROUP, *P0, "--offsets", "10-20"),
        ("translate", GROUP, "--all-topics", "--to", "plain"),
    ):
        for more in ((), ("--apply",), ("--yes",)):  # a dry run is one, whatever else is given
            ran = desk.run(*words, "--dry-run", *more)
            assert (ran.code, ran.stderr) == (0, ""), words
            assert "Nothing is written yet" in ran.stdout
    assert dict(stored(desk)) == before
    assert not desk.home.state.exists()


@pytest.mark.parametrize("old", [(), ("--apply",)])
def test_an_edit_needs_somebody_to_ask_or_yes(desk: CommitsDesk, old: tuple[str, ...]) -> None:
    desk.seed(pill())
    words = ("skip", GROUP, *P0, "--offsets", "60", *old)
    ran = desk.run(*words)
    assert (ran.code, ran.stdout) == (2, "")
    assert "not delivered any more: 60" in ran.stderr, "the plan comes before the question"
    assert "pass --yes to do it, or --dry-run to see what would be done" in ran.stderr
    assert (desk.groups.commits, journals(desk)) == ([], [])
    assert "above the highest" in desk.run("skip", GROUP, *P0, "--offsets", "9" * 19, *old).stderr
    assert desk.run(*words, "--yes").code == 0
    assert state(desk).base == 160


def test_a_person_is_shown_the_plan_and_asked(desk: CommitsDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CliContext, "input_allowed", True)
    desk.seed(pill())
    no = desk.home.run("--profile", "p", "streams", "commits", "skip", GROUP, *P0, "--offsets", "60",
                       stdin="no\n")  # fmt: skip
    assert no.code == 1
    assert "not delivered any more: 60" in no.stderr
    assert "Write this to cluster fake-cluster?" in no.stderr
    assert no.stdout == "cluster fake-cluster (profile p)\nskip for group pay: not confirmed, nothing was changed\n"
    assert desk.groups.commits == []
    yes = desk.home.run("--profile", "p", "streams", "commits", "skip", GROUP, *P0, "--offsets", "60",
                        stdin="yes\n")  # fmt: skip
    assert yes.code == 0
    assert state(desk).base == 160


def test_skip_then_undo_restores_every_character(desk: CommitsDesk) -> None:
    desk.seed(pill())
    held = stored(desk)[ORDERS]
    assert isinstance(held, CommittedOffset)
    desk.groups.seed(GROUP, ORDERS, held.offset, held.metadata + "\0")
    before = dict(stored(desk))
    done = desk.run("skip", GROUP, *P0, "--offsets", "60", "--apply", "--yes", "--reason", "ticket 4711")
    assert done.code == 0
    (journal,) = journals(desk)
    assert f"Journal: {journal}\n" in done.stdout
    assert "To undo it:\n  kafkakit --profile p streams commits undo last --group pay\n" in done.stdout
    lines = verify_edit_journal(journal.read_bytes())
    assert lines[0]["data"]["reason"] == "ticket 4711"
    desk.clock.advance(1)
    plan = desk.run("undo", "last", "--dry-run")
    assert "now    offset 160" in plan.stdout
    assert "after  offset 60, kkm1, 34 characters" in plan.stdout
    back = desk.run("undo", "last", "--group", GROUP, "--apply", "--yes")
    assert back.code == 0, back.stderr
    assert dict(stored(desk)) == before
    again = desk.run("undo", "last", "--dry-run")
    assert (again.code, again.stdout) == (2, "")
    assert "no edit is on record" in again.stderr


def test_another_plan_than_expected_is_refused(desk: CommitsDesk) -> None:
    desk.seed(pill())
    plan = desk.run("skip", GROUP, *P0, "--offsets", "60", "-o", "json", "--dry-run").json["fingerprint"]
    desk.seed(pill(base=61))
    ran = desk.run("skip", GROUP, *P0, "--offsets", "61", "--apply", "--yes", "--expect", plan)
    assert ran.code == 2
    assert "the plan is" in ran.stderr
    assert desk.groups.commits == []


def test_the_plan_as_data(desk: CommitsDesk) -> None:
    desk.seed(pill())
    data = desk.run("replay", GROUP, *P0, "--offsets", "10-19", "-o", "json", "--dry-run").json
    assert data["kafkakit"] == {"command": "streams commits replay", "schema": 1}
    assert (data["delivered_again"], data["passed"], data["changes"]) == (10, 0, 1)
    (partition,) = data["partitions"]
    assert partition["after"]["replay"] == [10, 20, data["request_id"]]
    assert partition["after"]["done"] == [[20, 60], [61, 160]]
    assert partition["delivered_again"] == [[10, 20]]
    rows = desk.run("replay", GROUP, *P0, "--offsets", "10-19", "-o", "tsv", "--dry-run").stdout
    assert rows == "orders\t0\t60\t10\tkkm1\tkkm1\t10\t0\t0\tyes\t-\t-\n"


def test_a_live_group_is_refused(desk: CommitsDesk) -> None:
    desk.seed(pill())
    desk.groups.join(GROUP, ORDERS)
    ran = desk.run("skip", GROUP, *P0, "--offsets", "60", "--apply", "--yes", "-o", "json")
    assert ran.code == 2
    assert "group pay is live (stable, 1 member" in ran.stderr
    assert "is live" in ran.json["error"]["message"]


def test_an_open_transaction_is_for_later(desk: CommitsDesk) -> None:
    desk.seed(pill())
    desk.groups.open_transaction(GROUP, ORDERS, 90)
    ran = desk.run("reset", GROUP, *P0, "--to", "earliest", "--dry-run")
    assert ran.code == 75
    assert "open transaction" in ran.stderr


def test_replay_by_local_and_by_zoned_times_means_the_same_window(desk: CommitsDesk) -> None:
    desk.seed(pill())
    start = NOW - timedelta(minutes=9)
    first, last = start.astimezone(), (start + timedelta(seconds=30)).astimezone()
    local = desk.run(
        "replay", GROUP, *P0, "--from", f"{first:%H:%M:%S}", "--to", f"{last:%H:%M:%S}", "-o", "json", "--dry-run"
    )
    zoned = desk.run("replay", GROUP, *P0, "--from", start.isoformat(), "--to",
                     (start + timedelta(seconds=30)).astimezone(UTC).isoformat().replace("+00:00", "Z"),
                     "-o", "json", "--dry-run")  # fmt: skip
    assert local.code == zoned.code == 0, local.stderr + zoned.stderr
    assert local.json["fingerprint"] == zoned.json["fingerprint"]
    (partition,) = zoned.json["partitions"]
    assert partition["delivered_again"] == [[61, 90]]
    assert partition["after"]["replay"][:2] == [60, 90]
    assert "(local time)" in local.json["words"][0]
    assert "(local time)" not in zoned.json["words"][0]


@pytest.mark.parametrize(
    ("to", "offset"),
    [("earliest", 0), ("latest", 200), ("17", 17), ("-10", 50), ("+10", 70), ("11:55:00Z", None), ("-500", 0)],
)
def test_reset_goes_where_it_is_told(desk: CommitsDesk, to: str, offset: int | None) -> None:
    desk.seed(pill())
    ran = desk.run("reset", GROUP, *P0, "--to", to, "--apply", "--yes")
    if offset is None:
        assert ran.code == 2
        assert "is not a time" in ran.stderr
        return
    assert ran.code == 0, ran.stderr
    assert state(desk).base == offset


def test_reset_seeds_partitions_without_a_commit_and_undo_forgets_them(desk: CommitsDesk) -> None:
    ran = desk.run("reset", "fresh", "--topic", "orders", "--to", "earliest", "--apply", "--yes")
    assert ran.code == 0, ran.stderr
    assert {key: held.offset for key, held in stored(desk, "fresh").items() if isinstance(held, CommittedOffset)} == {
        ORDERS: 0,
        TopicPartition("orders", 1): 0,
    }
    desk.clock.advance(1)
    assert desk.run("undo", "last", "--apply", "--yes").code == 0
    assert stored(desk, "fresh") == {}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("skip", GROUP, "--topic", "orders", "--partition", "0,1", "--offsets", "60"),
            "offsets belong to one partition",
        ),
        (("skip", GROUP, "--partition", "0", "--offsets", "60"), "--partition goes with --topic"),
        (("skip", GROUP, *P0, "--offsets", "60-50"), "ends before it begins"),
        (("skip", GROUP, *P0, "--offsets", "x"), "is not a number or range"),
        (("skip", GROUP, *P0, "--offsets", "9999"), "does not hold 9999"),
        (("skip", GROUP, "--topic", "orders", "--partition", "9", "--offsets", "6"), "has no partition 9"),
        (("skip", GROUP, "--topic", "nope", "--partition", "0", "--offsets", "6"), "topic nope does not exist"),
        (("skip", "nobody", *P0, "--offsets", "6"), "the group committed nothing there"),
        (("reset", GROUP, "--to", "earliest"), "--topic NAME or --all-topics"),
        (("reset", GROUP, "--topic", "orders", "--all-topics", "--to", "earliest"), "--topic NAME or --all-topics"),
        (("reset", GROUP, *P0, "--to", "2026-01-01T13:00:00Z"), "is in the future"),
        (("reset", GROUP, *P0, "--to", "2026-01-01"), "no time of day"),
        (("replay", GROUP, *P0, "--from", "2026-01-01T10:00Z"), "a window is"),
        (("replay", GROUP, *P0, "--from", "2026-01-01T10:00Z", "--to", "2026-01-01T10:00Z"), "is not after"),
        (("replay", GROUP, *P0, "--offsets", "1-2,5-6"), "one window"),
        (("undo", "no-such"), "does not exist"),
        (("undo", "last"), "no edit is on record"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(desk: CommitsDesk, words: tuple[str, ...], said: str) -> None:
    desk.seed(pill())
    ran = desk.run(*words)
    assert ran.code == 2
    assert said in ran.stderr
    assert ran.stdout == ""
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("words", [(), ("--topic", "orders")])
def test_offsets_are_of_the_only_partition_that_the_group_committed_for(
    desk: CommitsDesk, words: tuple[str, ...]
) -> None:
    desk.seed(pill())
    ran = desk.run("skip", GROUP, *words, "--offsets", "60", "--apply", "--yes")
    assert ran.code == 0, ran.stderr
    assert state(desk).base == 160
    desk.groups.seed(GROUP, TopicPartition("orders", 1), 0)
    several = desk.run("skip", GROUP, *words, "--offsets", "160", "--dry-run")
    assert several.code == 2
    assert "offsets belong to one partition, and group pay committed for 2: orders-0, orders-1" in several.stderr


def test_a_partition_that_refuses_ends_with_exit_code_1(desk: CommitsDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.seed(pill())
    other = TopicPartition("orders", 1)
    desk.groups.seed(GROUP, other, 0)
    real = desk.groups.commit

    def refuse(group: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> Mapping[TopicPartition, object]:
        told = real(group, {key: held for key, held in offsets.items() if key != ORDERS})
        return {**told, ORDERS: ItemError(name="RebalanceInProgressError")}

    monkeypatch.setattr(desk.groups, "commit", refuse)
    desk.log.append(other, b"")
    ran = desk.run("translate", GROUP, "--topic", "orders", "--to", "pc", "--apply", "--yes", "-o", "json")
    assert ran.code == 1
    assert "orders-0: not written: RebalanceInProgressError" in ran.stderr
    assert ran.json["verdict"] == "nothing written"


def test_an_interrupted_edit_has_to_be_settled_first(desk: CommitsDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.seed(pill())

    def go_away(group: str, offsets: object) -> object:
        del group, offsets
        raise KeyboardInterrupt

    with monkeypatch.context() as cut_off:
        cut_off.setattr(desk.groups, "commit", go_away)
        cut = desk.run("skip", GROUP, *P0, "--offsets", "60", "--apply", "--yes")
    assert cut.code == 130
    lines = commands_in(cut.stderr)
    assert [words[:5] for words in lines] == [["--profile", "p", "streams", "commits", v] for v in ("finish", "undo")]
    refused = desk.run("skip", GROUP, *P0, "--offsets", "60", "--apply", "--yes")
    assert refused.code == 2
    assert "was interrupted" in refused.stderr
    warned = desk.run("skip", GROUP, *P0, "--offsets", "60", "--dry-run")
    assert warned.code == 0
    assert "was interrupted; finish it, or undo it:\n" in warned.stderr
    assert commands_in(warned.stderr) == commands_in(refused.stderr) == lines
    (journal,) = journals(desk)
    story = desk.run("finish", journal.name, "--dry-run")
    assert "the commits may be old or new" in story.stdout
    assert "finish" in story.stdout.splitlines()[-1]
    done = desk.home.run(*lines[0], "--yes")
    assert done.code == 0, done.stderr
    assert state(desk).base == 160
    assert len(journals(desk)) == 1
    verify_edit_journal(journal.read_bytes())
    desk.clock.advance(1)
    assert desk.home.run(*lines[1], "--yes").code == 0
    assert state(desk).base == 60


def test_an_undo_that_was_interrupted_is_repeated_and_then_nothing_is_open(
    desk: CommitsDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.seed(pill())
    before = dict(stored(desk))
    assert desk.run("skip", GROUP, *P0, "--offsets", "60", "--apply", "--yes").code == 0
    desk.clock.advance(1)

    def go_away(group: str, offsets: object) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as cut:
        cut.setattr(desk.groups, "commit", go_away)
        assert desk.run("undo", "last", "--apply", "--yes").code == 130
    desk.clock.advance(1)
    assert desk.run("undo", "last", "--apply", "--yes").code == 0
    assert dict(stored(desk)) == before
    again = desk.run("skip", GROUP, *P0, "--offsets", "60", "--apply", "--yes")
    assert again.code == 0, again.stderr


def test_undo_last_refuses_while_a_newer_edit_is_incomplete_or_cannot_be_read(
    desk: CommitsDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The defect: an undo of an older edit was cut, and `undo last` went for the edit between the two."""
    desk.seed(pill())
    assert desk.run("skip", GROUP, *P0, "--offsets", "60", "--apply", "--yes").code == 0
    desk.clock.advance(1)
    (first,) = journals(desk)
    assert desk.run("skip", GROUP, *P0, "--offsets", "160", "--apply", "--yes").code == 0
    desk.clock.advance(1)
    second = journals(desk)[-1]

    def go_away(group: str, offsets: object) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as cut:
        cut.setattr(desk.groups, "commit", go_away)
        assert desk.run("undo", first.name, "--even-if-changed", "--apply", "--yes").code == 130
    third, before = journals(desk)[-1], dict(stored(desk))
    for words in ((), ("--group", GROUP)):
        ran = desk.run("undo", "last", *words, "--apply", "--yes")
        assert ran.code == 2
        assert f"error: a newer edit is incomplete: {third}\n" in ran.stderr
        assert [words[4:] for words in commands_in(ran.stderr)] == [["finish", str(third)], ["undo", str(third)]]
    third.write_bytes(third.read_bytes().replace(b'"seq":1', b'"seq":7'))
    damaged = desk.run("undo", "last", "--group", GROUP, "--apply", "--yes")
    assert damaged.code == 2
    assert f"error: the journal of a newer edit is damaged: {third}\n" in damaged.stderr
    assert f"the last one that can be read is {second}" in damaged.stderr
    assert dict(stored(desk)) == before
    by_name = desk.run("undo", second.name, "--apply", "--yes")
    assert by_name.code == 0, by_name.stderr


def test_an_undo_of_an_undo_does_not_need_the_first_journal(desk: CommitsDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.seed(pill())
    assert desk.run("skip", GROUP, *P0, "--offsets", "60", "--apply", "--yes").code == 0
    skipped = dict(stored(desk))
    desk.clock.advance(1)
    (first,) = journals(desk)
    monkeypatch.chdir(first.parent)
    assert desk.run("undo", first.name, "--apply", "--yes").code == 0
    (_, second) = journals(desk)
    assert f'"undoes":"{first}"' in second.read_text()
    first.unlink()
    desk.clock.advance(1)
    ran = desk.run("undo", second.name, "--apply", "--yes")
    assert ran.code == 0, ran.stderr
    assert "the old commits are back, but an older journal cannot record it: journal '" in ran.stderr
    assert dict(stored(desk)) == skipped


def test_finish_last_finishes_an_undo_that_was_interrupted(desk: CommitsDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.seed(pill())
    before = dict(stored(desk))
    assert desk.run("finish", "last", "--dry-run").code == 2
    assert desk.run("skip", GROUP, *P0, "--offsets", "60", "--apply", "--yes").code == 0
    assert desk.run("finish", "last", "--dry-run").code == 2
    desk.clock.advance(1)

    def go_away(group: str, offsets: object) -> object:
        raise KeyboardInterrupt

    with monkeypatch.context() as cut:
        cut.setattr(desk.groups, "commit", go_away)
        assert desk.run("undo", "last", "--apply", "--yes").code == 130
    ran = desk.run("finish", "last", "--apply", "--yes")
    assert ran.code == 0, ran.stderr
    assert dict(stored(desk)) == before
    assert desk.run("finish", "last", "--dry-run").code == 2


def test_translate_to_plain_and_back_by_undo(desk: CommitsDesk) -> None:
    desk.seed(pill())
    before = dict(stored(desk))
    plan = desk.run("translate", GROUP, "--all-topics", "--to", "plain", "--dry-run")
    assert "lost: 99 acknowledgements above 60" in plan.stdout
    assert "delivered again: 61-159 (at most 99 records)" in plan.stdout
    assert desk.run("translate", GROUP, "--all-topics", "--to", "plain", "--apply", "--yes").code == 0
    assert stored(desk)[ORDERS] == CommittedOffset(offset=60)
    desk.clock.advance(1)
    assert desk.run("undo", "last", "--apply", "--yes").code == 0
    assert dict(stored(desk)) == before


def test_names_with_odd_characters_cannot_move_the_cursor(desk: CommitsDesk) -> None:
    name = "a\x1b[2Jb"
    desk.seed(CommitState(base=60, done=OffsetRanges(((61, 70),))), group=name)
    plan = desk.run("skip", name, *P0, "--offsets", "60", "--dry-run")
    done = desk.run("skip", name, *P0, "--offsets", "60", "--apply", "--yes")
    desk.groups.join(name, ORDERS, client_id="evil\x1b[1A")
    refused = desk.run("skip", name, *P0, "--offsets", "60", "--dry-run")
    for ran, code in ((plan, 0), (done, 0), (refused, 2)):
        assert ran.code == code, ran.stderr
        assert "\x1b" not in ran.stdout + ran.stderr
        assert "a\\x1b[2Jb" in ran.stdout + ran.stderr


def test_a_time_understood_is_said(desk: CommitsDesk) -> None:
    desk.seed(pill())
    at = datetime(2026, 1, 1, 11, 55, tzinfo=UTC)
    ran = desk.run("reset", GROUP, *P0, "--to", at.isoformat(), "--dry-run")
    assert ran.code == 0
    assert "to the first record at or after 2026-01-01T11:55:00+00:00" in ran.stdout


def csv_file(desk: CommitsDesk, text: str) -> str:
    path = desk.home.folder / "orders.csv"
    path.write_text(text)
    return str(path)


def test_reset_takes_the_offsets_of_a_file_and_undo_brings_the_old_ones_back(desk: CommitsDesk) -> None:
    desk.seed(pill())
    before = dict(stored(desk))
    path = csv_file(desk, "orders,0,90\r\n")
    plan = desk.run("reset", GROUP, "--from-csv", path, "--dry-run")
    assert plan.code == 0
    assert f"  to the offsets of {path}\n" in plan.stdout
    assert "  after  offset 90, kkm1" in plan.stdout
    assert dict(stored(desk)) == before
    assert desk.run("reset", GROUP, "--from-csv", path, "--topic", "orders", "--apply", "--yes").code == 0
    assert state(desk).base == 90
    desk.clock.advance(1)
    assert desk.run("undo", "last", "--apply", "--yes").code == 0
    assert dict(stored(desk)) == before


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        ("orders,0,90\nnone,0,1\n", "line 2: topic none does not exist"),
        ("orders,0,90\norders,9,1\n", "line 2: topic orders has no partition 9"),
        ("\norders,0,99999\n", "line 2: orders-0: offset 99999 is outside of the log (0 to "),
        ("pay,orders,0\n", "line 1: 'orders' is not a valid partition"),
    ],
)
def test_a_row_that_the_cluster_does_not_allow_is_refused_with_its_line(
    desk: CommitsDesk, rows: str, problem: str
) -> None:
    desk.seed(pill())
    ran = desk.run("reset", GROUP, "--from-csv", csv_file(desk, rows), "--apply", "--yes")
    assert (ran.code, ran.stdout) == (2, "")
    assert problem in ran.stderr
    assert desk.groups.commits == []


def test_reset_goes_to_one_place(desk: CommitsDesk) -> None:
    path = csv_file(desk, "orders,0,1\n")
    for words in (
        (), ("--to", "latest", "--from-csv", path), ("--from-csv", path, "--all-topics"),
        ("--from-csv", path, "--topic", "orders", "--partition", "0"), ("--from-csv", path, "--topic", "pay"),
        ("--from-csv", path + ".none"),
    ):  # fmt: skip
        assert desk.run("reset", GROUP, *words, "--dry-run").code == 2, words


def test_deleted_commits_come_back_by_undo_to_the_last_character(desk: CommitsDesk) -> None:
    desk.seed(pill())
    before = dict(stored(desk))
    plan = desk.run("delete", GROUP, "--topic", "orders", "--dry-run")
    assert plan.code == 0
    assert "  after  no commit\n" in plan.stdout
    assert "latest passes over 41 pending offsets" in plan.stdout
    assert dict(stored(desk)) == before
    done = desk.run("delete", GROUP, "--topic", "orders", "--apply", "--yes", "--reason", "old topic")
    assert done.code == 0, done.stderr
    assert "  orders-0: no commit any more\n" in done.stdout
    assert "To undo it:\n  kafkakit --profile p streams commits undo last --group pay\n" in done.stdout
    assert (stored(desk), desk.groups.deleted) == ({}, [])
    (journal,) = journals(desk)
    verify_edit_journal(journal.read_bytes())
    desk.clock.advance(1)
    assert desk.run("undo", "last", "--apply", "--yes").code == 0
    assert dict(stored(desk)) == before


def test_the_whole_group_is_deleted_and_created_again(desk: CommitsDesk) -> None:
    desk.seed(pill())
    before = dict(stored(desk))
    done = desk.run("delete", GROUP, "--all", "--apply", "--yes", "-o", "json")
    assert (done.code, done.json["group_deleted"]) == (0, True)
    assert desk.groups.deleted == [GROUP]
    desk.clock.advance(1)
    assert desk.run("undo", "last", "--apply", "--yes").code == 0
    assert dict(stored(desk)) == before


def test_a_live_group_keeps_its_commits(desk: CommitsDesk) -> None:
    desk.seed(pill())
    desk.groups.join(GROUP, ORDERS)
    for words in (("--topic", "orders"), ("--all",)):
        ran = desk.run("delete", GROUP, *words, "--apply", "--yes")
        assert ran.code == 2
        assert "group pay is live" in ran.stderr
        assert "stop its members first" in ran.stderr
    assert ORDERS in stored(desk)


def test_a_member_that_joins_meanwhile_is_named_as_the_reason(
    desk: CommitsDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.seed(pill())
    forget = desk.groups.forget

    def joined_first(group: str, keys: list[TopicPartition]) -> object:
        desk.groups.join(group, ORDERS)
        return forget(group, keys)

    monkeypatch.setattr(desk.groups, "forget", joined_first)
    ran = desk.run("delete", GROUP, "--topic", "orders", "--apply", "--yes")
    assert ran.code == 1
    assert "a member of the group is subscribed to the topic; stop the members first" in ran.stderr


@pytest.mark.parametrize("kind", ["classic", "consumer", "share", "streams"])
def test_a_group_without_commits_is_deleted(desk: CommitsDesk, kind: str) -> None:
    desk.groups.add_group(GROUP, kind=GroupType(kind))
    plan = desk.run("delete", GROUP, "--all", "--dry-run")
    assert (plan.code, desk.groups.deleted) == (0, [])
    assert "The group is deleted." in plan.stdout
    assert ("share group: its state for 0 partitions" in plan.stdout) == (kind == "share")
    done = desk.run("delete", GROUP, "--all", "--apply", "--yes", "-o", "json")
    assert (done.code, desk.groups.deleted, done.json["group_deleted"]) == (0, [GROUP], True), done.stderr
    verify_edit_journal(Path(done.json["journal"]).read_bytes())
    assert "no edit is on record" in desk.run("undo", "last", "--dry-run").stderr
    again = desk.run("delete", GROUP, "--all", "--apply", "--yes")
    assert (again.code, "group pay does not exist" in again.stderr) == (2, True)


@pytest.mark.parametrize("kind", ["classic", "consumer", "share", "streams"])
def test_a_group_that_has_members_is_not_deleted(desk: CommitsDesk, kind: str) -> None:
    desk.groups.add_group(GROUP, kind=GroupType(kind))
    desk.groups.join(GROUP)
    ran = desk.run("delete", GROUP, "--all", "--apply", "--yes")
    assert (ran.code, desk.groups.deleted) == (2, [])
    assert "Kafka deletes only groups without members" in ran.stderr


def test_a_group_that_cannot_be_deleted_says_why(desk: CommitsDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.groups.add_group(GROUP)
    monkeypatch.setattr(desk.groups, "delete", lambda group: ItemError(name="NonEmptyGroupError"))
    ran = desk.run("delete", GROUP, "--all", "--apply", "--yes")
    assert ran.code == 1
    assert "group pay is not deleted: NonEmptyGroupError: the group has members" in ran.stderr


OLD = TopicPartition("old", 0)


def test_a_live_group_loses_the_commits_of_a_topic_it_left(desk: CommitsDesk) -> None:
    desk.seed(pill())
    desk.log.add_topic("old", 1)
    desk.groups.seed(GROUP, OLD, 0)
    desk.groups.join(GROUP, ORDERS)
    desk.groups.open_transaction(GROUP, ORDERS, 70)
    plan = desk.run("delete", GROUP, "--topic", "old", "--dry-run")
    assert plan.code == 0, plan.stderr
    assert "the group is live (1 member): brokers refuse if a member is subscribed" in plan.stdout
    done = desk.run("delete", GROUP, "--topic", "old", "--apply", "--yes", "-o", "json")
    assert (done.code, set(stored(desk))) == (0, {ORDERS}), done.stderr
    desk.clock.advance(1)
    refused = desk.run("undo", "last", "--apply", "--yes")
    assert (refused.code, "group pay is live" in refused.stderr) == (2, True)
    desk.groups.leave(GROUP)
    desk.groups.end_transaction(GROUP, commit=False)
    assert desk.run("undo", "last", "--apply", "--yes").code == 0
    assert stored(desk)[OLD] == CommittedOffset(offset=0)


def test_a_member_that_is_subscribed_but_holds_nothing_is_told(
    desk: CommitsDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.log.add_topic("old", 1)
    desk.groups.seed(GROUP, OLD, 5)
    desk.groups.join(GROUP)
    subscribed = ItemError(name="GroupSubscribedToTopicError")
    monkeypatch.setattr(desk.groups, "forget", lambda group, partitions: dict.fromkeys(partitions, subscribed))
    ran = desk.run("delete", GROUP, "--topic", "old", "--apply", "--yes")
    assert ran.code == 1
    assert "a member of the group is subscribed to the topic; stop the members first" in ran.stderr
    assert OLD in stored(desk)


def test_only_deletions_by_topic_are_for_live_groups(desk: CommitsDesk) -> None:
    desk.seed(pill())
    desk.log.add_topic("old", 1)
    desk.groups.seed(GROUP, OLD, 5)
    desk.groups.join(GROUP, ORDERS)
    for words in (("reset", "--to", "0"), ("skip", "--offsets", "0"), ("translate", "--to", "plain")):
        ran = desk.run(words[0], GROUP, "--topic", "old", *words[1:], "--apply", "--yes")
        assert (ran.code, "group pay is live" in ran.stderr) == (2, True), words


def test_commits_of_a_deleted_topic_go_with_the_group(desk: CommitsDesk) -> None:
    desk.seed(pill())
    desk.groups.seed(GROUP, OLD, 5)
    desk.groups.seed(GROUP, TopicPartition("orders", 7), 9)
    one = desk.run("delete", GROUP, "--topic", "old", "--apply", "--yes")
    assert one.code == 2
    assert "topic old does not exist any more, and brokers delete single commits only" in one.stderr
    words = command_in(hint_of(one))
    assert words[4:] == ["delete", GROUP, "--all"]
    one = desk.run("delete", GROUP, "--topic", "orders", "--apply", "--yes")
    assert (one.code, ORDERS in stored(desk), len(stored(desk))) == (0, False, 2), one.stderr
    one = desk.run("delete", GROUP, "--topic", "orders", "--apply", "--yes")
    assert (one.code, "orders-7 does not exist any more" in one.stderr) == (2, True), one.stderr
    desk.clock.advance(1)
    done = desk.home.run(*words, "--yes", "-o", "json")
    assert (done.code, desk.groups.deleted, stored(desk)) == (0, [GROUP], {}), done.stderr


def test_commits_of_a_share_group_are_not_deleted_by_topic(desk: CommitsDesk) -> None:
    desk.groups.add_group(GROUP, kind=GroupType.SHARE)
    ran = desk.run("delete", GROUP, "--topic", "orders", "--apply", "--yes")
    assert ran.code == 2
    assert "group pay is a share group" in ran.stderr
    assert "kafka-share-groups.sh --delete-offsets" in ran.stderr


def test_last_of_the_empty_name_is_not_last_of_any_group(desk: CommitsDesk) -> None:
    desk.groups.seed("", OLD._replace(topic="orders"), 4)
    desk.seed(pill())
    assert desk.run("reset", "", "--topic", "orders", "--partition", "0", "--to", "2", "--apply", "--yes").code == 0
    desk.clock.advance(1)
    assert desk.run("skip", GROUP, *P0, "--offsets", "60", "--apply", "--yes").code == 0
    assert "reset of" in desk.run("undo", "last", "--group", "", "--dry-run").stdout
    assert "skip of" in desk.run("undo", "last", "--dry-run").stdout
    assert "of group ''" in desk.run("finish", "last", "--group", "", "--dry-run").stderr


def test_a_group_that_is_used_again_is_not_deleted(desk: CommitsDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.seed(pill())
    delete = desk.groups.delete

    def joined_first(group: str) -> ItemError | None:
        desk.groups.join(group, ORDERS)
        return delete(group)

    monkeypatch.setattr(desk.groups, "delete", joined_first)
    ran = desk.run("delete", GROUP, "--all", "--apply", "--yes")
    assert ran.code == 1
    assert "the group is not: NonEmptyGroupError: the group has members" in ran.stderr
    assert "the group is still there" in ran.stdout


def test_a_commit_that_came_meanwhile_keeps_the_group(desk: CommitsDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.seed(pill())
    forget, late = desk.groups.forget, TopicPartition("orders", 1)

    def committed_after(group: str, keys: list[TopicPartition]) -> object:
        told = forget(group, keys)
        desk.groups.seed(group, late, 7)
        return told

    monkeypatch.setattr(desk.groups, "forget", committed_after)
    ran = desk.run("delete", GROUP, "--all", "--apply", "--yes")
    assert ran.code == 1
    assert "the group is not: another process committed for it since" in ran.stderr
    assert (dict(stored(desk)), desk.groups.deleted) == ({late: CommittedOffset(offset=7)}, [])


def test_what_is_deleted_has_to_be_named(desk: CommitsDesk) -> None:
    desk.seed(pill())
    for words in ((), ("--all", "--topic", "orders"), ("--all", "--partition", "0")):
        ran = desk.run("delete", GROUP, *words, "--dry-run")
        assert ran.code == 2
    ran = desk.run("delete", GROUP, "--topic", "orders", "--partition", "0-1", "--dry-run")
    assert "has no commit, so there is nothing to delete" in ran.stdout


def test_the_group_with_the_empty_name_is_deleted_with_its_commits(
    desk: CommitsDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers refuse to delete single commits of it."""
    invalid = ItemError(name="InvalidGroupIdError")
    monkeypatch.setattr(desk.groups, "forget", lambda group, partitions: dict.fromkeys(partitions, invalid))
    desk.groups.seed("", TopicPartition("orders", 0), 4)
    desk.groups.seed("", TopicPartition("orders", 1), 0)
    one = desk.run("delete", "", "--topic", "orders", "--apply", "--yes")
    assert one.code == 2
    assert "--all in place of --topic" in one.stderr
    done = desk.run("delete", "", "--all", "--apply", "--yes")
    assert (done.code, desk.groups.deleted) == (0, [""])
    assert "delete for group '' on cluster" in done.stdout
    assert "the group is deleted" in done.stdout
    assert desk.run("undo", "last", "--group", "", "--apply", "--yes").code == 0
    assert stored(desk, "")[TopicPartition("orders", 0)] == CommittedOffset(offset=4)


@pytest.mark.parametrize("group", ["-x", "--all", "--", "-", "a-b", "", " "])
def test_the_printed_command_is_read_whatever_the_name_of_the_group(desk: CommitsDesk, group: str) -> None:
    desk.groups.seed(group, TopicPartition("orders", 0), 4)
    plan = desk.run("delete", "--all", "--dry-run", "-o", "json", "--", group)
    assert plan.code == 0
    words = shlex.split(plan.json["next"])
    done = desk.run(*words[words.index("delete") :], "--yes") if not group.startswith("-") else None
    if done is None:
        at = words.index("--")
        assert words[at:] == ["--", group]
        done = desk.run(*words[words.index("delete") : at], "--yes", *words[at:])
    assert (done.code, desk.groups.deleted) == (0, [group])


def newer(text: str) -> str:
    """A payload as a later version of its format would write it."""
    packed = base64.urlsafe_b64decode(text[2:] + "=" * (-len(text[2:]) % 4))
    return text[:2] + base64.urlsafe_b64encode(bytes([packed[0] + 16]) + packed[1:]).decode().rstrip("=")


def held_text(desk: CommitsDesk) -> str:
    held = stored(desk)[ORDERS]
    assert isinstance(held, CommittedOffset)
    return held.metadata


def coarse(desk: CommitsDesk) -> None:
    holes = CommitState(base=60, done=OffsetRanges(tuple((n, n + 1) for n in range(61, 190, 2))))
    identity = CommitIdentity(cluster_id=CLUSTER, topic_id=TOPIC_ID, partition=0, group=GROUP)
    desk.groups.seed(GROUP, ORDERS, 60, encode_commit(holes, identity, limit_chars=36).text)


@dataclass(frozen=True)
class Wrong:
    """A hazard: what brings it, the command that it is to name, and what a person writes into that."""

    arrange: Callable[[CommitsDesk], None]
    words: str
    given: str = ""
    stays: bool = False


def gone_from(desk: CommitsDesk) -> None:
    desk.seed(CommitState(base=150))
    desk.log.delete_topic("orders")


def trimmed(desk: CommitsDesk) -> None:
    desk.seed(CommitState(base=150))
    desk.log.trim(ORDERS, 190)


def large(desk: CommitsDesk) -> None:
    desk.groups.seed(GROUP, ORDERS, 60, "x" * 200)
    desk.log.add_topic("__consumer_offsets", 1)
    desk.log.append(TopicPartition("__consumer_offsets", 0), batch(0, [commit(GROUP, "orders", 0, 60)]))


def moved_by_hand(desk: CommitsDesk) -> None:
    desk.seed(pill())
    desk.groups.seed(GROUP, ORDERS, 61, held_text(desk))


def of_a_newer_version(desk: CommitsDesk) -> None:
    desk.seed(pill())
    desk.groups.seed(GROUP, ORDERS, 60, newer(held_text(desk)))


def with_a_nul(metadata: str, offset: int) -> Callable[[CommitsDesk], None]:
    return lambda desk: desk.groups.seed(GROUP, ORDERS, offset, metadata + "\0")


READABLE = write_parallel_consumer(CommitState(base=100, done=OffsetRanges.of([(101, 150)]))) or ""
AT = "pay --topic orders --partition 0"
WRONG = {
    "committed-below-log-start": Wrong(trimmed, f"reset {AT} --to earliest"),
    "committed-beyond-log-end": Wrong(lambda desk: desk.seed(CommitState(base=300)), f"reset {AT} --to earliest"),
    "done-beyond-log-end": Wrong(
        lambda desk: desk.seed(pill(60, 250)), f"unack {AT} --offsets 200-249 --allow-outside-log"
    ),
    "foreign-payload": Wrong(lambda desk: desk.seed(pill(), bound_to="other"), f"reset {AT} --to 60"),
    "payload-of-another-offset": Wrong(moved_by_hand, f"reset {AT} --to 61"),
    "newer-payload": Wrong(of_a_newer_version, f"reset {AT} --to 60 --adopt"),
    "unreadable-payload": Wrong(lambda desk: desk.groups.seed(GROUP, ORDERS, 60, "~b!!!"), f"reset {AT} --to 60"),
    "coarsened": Wrong(coarse, f"reject {AT} --offsets N", given="60-199"),
    "limit-near": Wrong(lambda desk: desk.groups.seed(GROUP, ORDERS, 60, "x" * 4000), f"explain {AT}", stays=True),
    "nul-terminated": Wrong(with_a_nul(READABLE, 100), f"translate {AT} --to pc"),
    "shifted-map": Wrong(lambda desk: desk.groups.seed(GROUP, ORDERS, 195, "bAAK5gMA"), f"translate {AT} --to plain"),
    "topic-gone": Wrong(gone_from, "delete pay --all"),
    "burrow-misreads": Wrong(large, "lag once pay", stays=True),
    "pending-too-long": Wrong(lambda desk: desk.seed(pill()), f"explain {AT}", stays=True),
}
# What no command of kafkakit ends: it passes, is for the cluster's own settings, or is looked at by a person.
WITHOUT_A_COMMAND = {
    "open-transaction", "time-in-the-future", "watermark-differs", "rejected-without-ledger", "replay-open",
    "limits-differ", "no-commit", "no-leader", "group-unread",
}  # fmt: skip


def wrong_of(desk: CommitsDesk) -> dict[str, str]:
    """The hints of what verify finds, by rule; nothing where the group is gone."""
    ran = desk.run("verify", GROUP, "--max-age", "5m", "--fail-on", "never", "-o", "json")
    if ran.code == 2:
        return {}
    assert ran.code == 0, ran.stderr
    return {found["rule"]: found["hint"] for found in ran.json["findings"]}


@pytest.mark.parametrize(
    ("rule", "case"),
    [*WRONG.items(), ("nul-terminated", Wrong(with_a_nul("AQAAAZlk8tg2", 100), f"translate {AT} --to plain"))],
    ids=[*WRONG, "nul-of-kafka-streams"],
)
def test_the_printed_command_ends_what_verify_found(desk: CommitsDesk, rule: str, case: Wrong) -> None:
    desk.groups.seed("other", TopicPartition("orders", 1), 0)
    case.arrange(desk)
    untouched = dict(stored(desk, "other"))
    hint = wrong_of(desk)[rule]
    words = command_in(hint)
    shown = desk.run("show", GROUP, "--width", "60").stdout
    assert rule == "pending-too-long" or words in commands_in(shown), "on one line, however narrow the terminal is"
    verb = case.words if case.words.startswith("lag ") else f"commits {case.words}"
    assert words == ["--profile", "p", "streams", *verb.split()]
    if case.stays:
        with mock.patch("kafkakit.wiring.system_clock", SystemClock):
            ran = desk.home.run(*words)
        assert (ran.code, GROUP in ran.stdout) == (0, True), ran.stderr
        return
    ran = desk.home.run(*(case.given if word == "N" else word for word in words), "--yes")
    assert ran.code == 0, ran.stderr
    assert rule not in wrong_of(desk)
    assert dict(stored(desk, "other")) == untouched


def test_every_rule_of_verify_has_a_case() -> None:
    sources = "".join(inspect.getsource(module) for module in (hazards, groups, parallel_consumer))
    named = set(re.findall(r'(?:rule=|_finding\(\s*|Problem\.\w+: \()"([a-z-]+)"', sources))
    assert named == set(WRONG) | WITHOUT_A_COMMAND


def outgrown(desk: CommitsDesk) -> None:
    desk.seed(CommitState(base=60, done=OffsetRanges(tuple((n, n + 1) for n in range(61, 190, 3)))))
    desk.cluster.static_settings["offset.metadata.max.bytes"] = "30"


def edited_and_moved_on(desk: CommitsDesk) -> None:
    desk.seed(pill())
    assert desk.run("skip", GROUP, *P0, "--offsets", "60", "--yes").code == 0
    desk.clock.advance(1)
    desk.groups.seed(GROUP, ORDERS, 170)


def edited_and_trimmed(desk: CommitsDesk) -> None:
    desk.seed(pill())
    assert desk.run("skip", GROUP, *P0, "--offsets", "60", "--yes").code == 0
    desk.clock.advance(1)
    desk.log.trim(ORDERS, 190)


def of_two_partitions(desk: CommitsDesk) -> None:
    desk.seed(pill())
    desk.groups.seed(GROUP, TopicPartition("orders", 1), 0)


@pytest.mark.parametrize(
    ("arrange", "line", "way"),
    [
        (lambda desk: desk.seed(pill()), f"reset {AT} --to 9999", "--allow-outside-log"),
        (of_a_newer_version, f"reset {AT} --to 60", "--adopt"),
        (of_a_newer_version, f"translate {AT} --to plain", "--adopt"),
        (outgrown, f"skip {AT} --offsets 62", "--allow-coarsening"),
        (edited_and_moved_on, "undo last", "--even-if-changed"),
        (edited_and_trimmed, "undo last", "--allow-outside-log"),
        (of_two_partitions, "skip pay --offsets 60", "--topic NAME --partition N"),
        (of_two_partitions, "explain pay", "--topic and --partition"),
    ],
)
def test_the_option_that_a_refused_edit_names_lets_it_through(
    desk: CommitsDesk, arrange: Callable[[CommitsDesk], None], line: str, way: str
) -> None:
    arrange(desk)
    words = [*line.split(), *([] if line.startswith("explain") else ["--yes"])]
    ran = desk.run(*words)
    assert ran.code == 2, ran.stdout
    assert way in hint_of(ran)
    ran = desk.run(*words, *(P0 if "--partition" in way else way.split()))
    assert ran.code == 0, ran.stderr


def test_the_commands_of_a_refusal_are_carried_out(desk: CommitsDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.seed(pill())
    ran = desk.home.run(*command_in(hint_of(desk.run("show", "pai"))))
    assert (ran.code, "pay" in ran.stdout) == (0, True)
    ran = desk.home.run(*command_in(hint_of(desk.run("diff", "5:~bnonsense x", "5:"))))
    assert (ran.code, "  not used      " in ran.stdout) == (0, True), ran.stdout
    desk.groups.add_group("shared", kind=GroupType.SHARE)
    monkeypatch.setattr(wiring, "open_admin", desk.open_admin)
    ran = desk.home.run(*command_in(hint_of(desk.run("show", "shared"))))
    assert (ran.code, "shared" in ran.stdout) == (0, True), ran.stderr
