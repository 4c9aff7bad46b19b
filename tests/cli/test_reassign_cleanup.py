"""`reassign cleanup` as an operator runs it; `kafkakit reassign simulate` over a snapshot file."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafkakit.adapters.lock import FileLock
from kafkakit.core.cluster_facts import ConfigChange, ConfigOp, ItemError, ResourceKind
from kafkakit.core.documents import encode_plan, encode_snapshot
from kafkakit.core.model import TopicPartition
from kafkakit.execution.act.run_journal import lock_path
from kafkakit.execution.decide.throttle import FOLLOWER_LIST, FOLLOWER_RATE, LEADER_LIST, LEADER_RATE
from tests.clusters.plans import MADE_AT, make_plan
from tests.fakes.admin import FakeCluster
from tests.invariants.journal import verify_effects, verify_journal
from tests.rigs.command_line import ClusterDesk, Home, Ran
from tests.rigs.printed_repairs import commands_in

MB = 1_000_000


class CleanupDesk(ClusterDesk):
    """An operator's host after a run that was cut while its move was under way."""

    command = ("reassign",)

    def __init__(self, folder: Path, *, line_rate: float = 10 * MB) -> None:
        super().__init__(folder, FakeCluster({1: "a", 2: "b", 3: "c"}, line_rate=line_rate))
        self.cluster.add_topic("t", {0: (1, 2), 1: (2, 1)}, size_bytes=20 * MB, configs={FOLLOWER_LIST: "1:7"})
        self.cluster.brokers[1].configs[LEADER_RATE] = "777"
        self.path = folder / "p.json"
        self.path.write_bytes(encode_plan(make_plan(self.cluster, {("t", 0): (3, 2)})))
        self.before = self.configs()

    def press_in_flight(self) -> None:
        """Ctrl-C at the first pause at which something moves."""
        self.press(self.cluster.reassignments)

    def cut(self) -> None:
        """A run that is stopped at its first pause after the move was sent."""
        self.press_in_flight()
        assert self.run("apply", str(self.path), "--yes", "--join", "--throttle", "5MB").code == 130
        assert self.configs() != self.before

    def configs(self) -> dict[str, dict[str, str]]:
        return self.cluster.configs()

    def lists(self) -> list[tuple[int, ...]]:
        return [tuple(p.replicas) for t in self.cluster.topics.values() for p in t.partitions.values()]

    def journal(self) -> Path:
        (path,) = self.home.state.rglob("*.journal")
        return path


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CleanupDesk:
    return CleanupDesk(tmp_path).sit(monkeypatch)


def test_nothing_of_ours_is_nothing_to_do_and_strangers_are_shown(desk: CleanupDesk) -> None:
    ran = desk.run("cleanup", "--yes")
    assert (ran.code, desk.cluster.calls) == (0, [])
    assert ran.stdout == (
        "cluster fake-cluster (profile p): no throttle of a run on this host is set\n"
        "not removed: set by another tool or another host; remove them: kafkakit --profile p reassign cleanup --all\n"
        "  broker 1 leader.replication.throttled.rate: 777 B/s\n"
        "  topic t follower.replication.throttled.replicas: 1 entry\n"
    )


def test_leaderships_are_in_place_although_a_follower_was_dead_before(desk: CleanupDesk) -> None:
    desk.cluster.add_topic("l", {0: (1, 2, 3)}, size_bytes=MB)
    desk.cluster.kill(3)
    desk.path.write_bytes(encode_plan(make_plan(desk.cluster, {("l", 0): (2, 1, 3)})))
    ran = desk.run("apply", str(desk.path), "--yes")
    assert (ran.code, desk.cluster.topics["l"].partitions[0].leader) == (0, 2), ran.stderr
    assert "applied: 1 of 1 planned partitions are in place and in sync" in ran.stdout
    assert "note: 1 old copy on broker 3 (not alive) not in sync: l-0" in ran.stdout


def test_status_names_the_command_that_removes_what_others_left(desk: CleanupDesk) -> None:
    desk.cluster.topics["t"].configs[LEADER_LIST] = "0:1"
    (line,) = [line for line in desk.run("status", "--window", "0").stdout.splitlines() if "leftover throttle" in line]
    (words,) = commands_in(line)
    assert desk.home.run(*words, "--yes").code == 0
    assert all(not configs for configs in desk.configs().values())
    assert "leftover throttle" not in desk.run("status", "--window", "0").stdout


def test_it_shows_first_and_cleans_with_yes_also_without_the_plan(desk: CleanupDesk) -> None:
    desk.cut()
    desk.cluster.advance(60)
    desk.path.unlink()
    calls = len(desk.cluster.calls)
    shown = desk.run("cleanup")
    assert shown.code == 1
    assert "broker 1 leader.replication.throttled.rate: 5 MB/s, back to 777 B/s" in shown.stdout
    assert "topic t follower.replication.throttled.replicas: 1 entry of ours, entries go" in shown.stdout
    assert "hint: kafkakit --profile p reassign cleanup --yes" in shown.stderr
    dry = desk.run("cleanup", "--dry-run", "--yes", "-o", "json")
    assert (dry.code, dry.json["verdict"], dry.json["complete"]) == (1, "planned", False)
    assert len(desk.cluster.calls) == calls
    done = desk.run("cleanup", "--yes", "-o", "json")
    assert (done.code, done.json["verdict"], done.json["left"]) == (0, "cleaned", [])
    (run,) = done.json["runs"]
    assert {(r["broker"], r["value"], r["back_to"]) for r in run["rates"]} == {
        (1, "5000000", "777"),
        (2, "5000000", None),
        (3, "5000000", None),
    }
    assert desk.configs() == desk.before
    verify_effects(verify_journal(desk.journal().read_bytes()), desk.cluster.calls)
    again = desk.run("cleanup", "--yes", "-o", "tsv")
    assert (again.code, again.stderr) == (0, "")
    assert {line.split("\t")[5] for line in again.stdout.splitlines()} == {"other"}


def test_throttles_of_moves_that_run_stay_unless_asked_for(desk: CleanupDesk) -> None:
    desk.cut()
    during = desk.configs()
    kept = desk.run("cleanup", "--yes")
    assert (kept.code, desk.configs()) == (1, during)
    assert "1 move still run under them: t-0" in kept.stdout
    assert "they stay; --unthrottle-running" in kept.stdout
    lifted = desk.run("cleanup", "--yes", "--unthrottle-running")
    assert (lifted.code, desk.configs()) == (0, desk.before)
    assert desk.cluster.reassignments()


def test_what_others_changed_since_is_left_alone_and_told(desk: CleanupDesk) -> None:
    desk.cut()
    desk.cluster.advance(60)
    desk.cluster.brokers[3].configs[FOLLOWER_RATE] = "123"
    desk.cluster.topics["t"].configs[LEADER_LIST] = "*"
    ran = desk.run("cleanup", "--yes")
    assert ran.code == 0
    assert "broker 3 follower.replication.throttled.rate: changed by another client since, not reverted" in ran.stdout
    assert "topic t leader.replication.throttled.replicas: all replicas (*)" in ran.stdout
    assert desk.cluster.brokers[3].configs == {FOLLOWER_RATE: "123"}
    assert desk.cluster.topics["t"].configs == {FOLLOWER_LIST: "1:7", LEADER_LIST: "*"}
    assert desk.run("cleanup", "--yes").stdout.startswith("cluster fake-cluster (profile p): no throttle of a run")


def test_a_dead_broker_is_owed_until_it_is_back(desk: CleanupDesk) -> None:
    desk.cut()
    desk.cluster.advance(60)
    desk.cluster.kill(3)
    owed = desk.run("cleanup", "--yes", "-o", "json")
    assert (owed.code, owed.json["verdict"]) == (1, "incomplete")
    assert "broker 3, which is not alive" in owed.json["left"][0]
    assert "broker 3" in owed.stderr
    desk.cluster.revive(3)
    assert desk.run("cleanup", "--yes").code == 0
    assert desk.configs() == desk.before


def test_a_refusal_is_named_with_its_reason(desk: CleanupDesk) -> None:
    desk.cut()
    desk.cluster.advance(60)
    taken = ConfigChange(kind=ResourceKind.BROKER, name="2", key=LEADER_RATE, op=ConfigOp.DELETE)
    desk.cluster.fail_item("alter_configs", taken, ItemError(name="ClusterAuthorizationFailedError"))
    ran = desk.run("cleanup", "--yes")
    assert ran.code == 1
    assert "left: the replication rate on broker 2 (ClusterAuthorizationFailedError)" in ran.stdout
    assert desk.run("cleanup", "--yes").code == 0


def test_it_waits_for_nobody_who_changes_the_cluster(desk: CleanupDesk) -> None:
    desk.cut()
    desk.cluster.advance(60)
    with FileLock(lock_path(desk.home.state, "fake-cluster"), "test", "a test"):
        busy = desk.run("cleanup", "--yes")
    assert (busy.code, busy.stdout) == (75, "")
    assert desk.configs() != desk.before


def test_a_damaged_journal_is_named_and_the_others_are_cleaned(desk: CleanupDesk) -> None:
    desk.cut()
    desk.cluster.advance(60)
    bad = desk.journal().with_name("bad.journal")
    bad.write_bytes(b"{}\n{}\n")
    ran = desk.run("cleanup", "--yes")
    assert (ran.code, desk.configs()) == (1, desk.before)
    assert f"not read: {bad}: journal line 1 cannot be read" in ran.stdout
    assert "Traceback" not in ran.stderr


def test_a_topic_that_is_gone_owes_nothing(desk: CleanupDesk) -> None:
    desk.cut()
    desk.cluster.delete_topic("t")
    assert desk.run("cleanup", "--yes").code == 0
    assert desk.configs() == {k: v for k, v in desk.before.items() if k != "topic t"}


def test_a_foreign_move_on_a_partition_that_we_throttle_counts_as_running(desk: CleanupDesk) -> None:
    desk.cut()
    desk.cluster.cancel([TopicPartition("t", 0)])
    desk.cluster.reassign({TopicPartition("t", 0): (2, 3)})
    assert desk.run("cleanup", "--yes").code == 1


def lose(desk: CleanupDesk, kept: int) -> str:
    """Cut the journal to its first lines, or remove it; returns the run's id as the status then tells it."""
    journal = desk.journal()
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.unlink()
    if kept:
        journal.write_bytes(b"".join(lines[:kept]))
    told = desk.run("status", "--window", "0")
    assert "the lines of the last run are missing" in told.stdout
    return told.stdout.partition("\nrun ")[2][:8]


@pytest.mark.parametrize("kept", [0, 1])
@pytest.mark.parametrize("verb", ["resume", "rollback", "abort", "cleanup"])
def test_a_run_whose_journal_is_gone_is_ended_all_the_same(desk: CleanupDesk, verb: str, kept: int) -> None:
    desk.cut()
    run = lose(desk, kept)
    if verb == "cleanup":
        desk.cluster.advance(60)
    ended = desk.run(verb, "--run", run, "--yes")
    assert ended.code == 0, ended.stderr
    assert desk.configs() == desk.before
    found = desk.cluster.partition_states(["t"])[TopicPartition("t", 0)].replicas
    assert found == ((3, 2) if verb in ("resume", "cleanup") else (1, 2))


def test_a_journal_that_ends_with_an_earlier_run_is_not_believed(desk: CleanupDesk) -> None:
    assert desk.run("apply", str(desk.path), "--yes").code == 0
    lines = desk.journal().read_bytes().count(b"\n")

    desk.press_in_flight()
    assert desk.run("rollback", str(desk.path), "--yes", "--throttle", "5MB").code == 130
    run = lose(desk, lines)
    resumed = desk.run("resume", "--run", run, "--yes")
    assert resumed.code == 0, resumed.stderr
    assert "rolled back" in resumed.stdout
    assert desk.configs() == desk.before
    journal = desk.journal()
    journal.unlink()
    assert "lines of the last run" not in desk.run("status", "--window", "0").stdout, "it has ended"


@pytest.mark.parametrize("how", ["cut", "flipped", "last line"])
def test_a_journal_that_is_damaged_after_its_run_ended_does_not_begin_it_again(desk: CleanupDesk, how: str) -> None:
    """The defect: it looked like a run that was interrupted, and `resume` carried out what had been taken back."""
    assert desk.run("apply", str(desk.path), "--yes", "--throttle", "5MB", "--join").code == 0
    assert desk.run("rollback", str(desk.path), "--yes").code == 0
    before, journal = desk.lists(), desk.journal()
    lines = journal.read_bytes().splitlines(keepends=True)
    if how == "cut":
        journal.write_bytes(b"".join(lines[:5]))
    elif how == "flipped":
        journal.write_bytes(b"".join([*lines[:5], b"!" + lines[5][1:], *lines[6:]]))
    else:
        journal.write_bytes(b"".join(lines)[:-30])
    assert "resume with" not in desk.run("status", "--window", "0").stdout
    run = journal.stem[:8]
    for words in (("resume", "--yes"), ("resume", "--run", run, "--yes")):
        ran = desk.run(*words)
        assert ran.code == 2, ran.stdout
    assert "has ended, there is nothing to resume" in ran.stderr
    assert (desk.lists(), desk.configs()) == (before, desk.before)
    again = desk.run("apply", "--run", run, "--yes", "--join")
    assert again.code == 0, again.stderr
    assert desk.lists() != before
    assert desk.run("rollback", "--run", run, "--yes").code == 0
    assert (desk.lists(), desk.configs()) == (before, desk.before)


def test_a_run_in_flight_is_not_taken_for_one_that_ended_where_copies_are_gone(desk: CleanupDesk) -> None:
    desk.press_in_flight()
    assert desk.run("apply", str(desk.path), "--yes", "--throttle", "5MB", "--join").code == 130
    (begun,) = desk.home.state.rglob("*.begun")
    kept = begun.with_suffix(".json")
    saved = begun.read_bytes()
    begun.write_bytes(saved[:-40])
    assert "resume with" in desk.run("status", "--window", "0").stdout, "a copy that is damaged proves nothing"
    begun.unlink()
    kept.rename(kept.with_suffix(".gone"))
    assert "resume with" in desk.run("status", "--window", "0").stdout, "nor does a folder that was emptied"
    assert desk.run("resume", str(desk.path), "--yes", "--join").code == 0
    assert desk.configs() == desk.before


class ReassignSimulateDesk:
    """A folder with `plan.json` and `cluster.json`: ten partitions of 9 MB each on brokers 1 and 2 change places."""

    def __init__(self, folder: Path, dir_bytes: int) -> None:
        self.home = Home(folder)
        self.home.work.mkdir(parents=True)
        cluster = FakeCluster({1: "a", 2: "b", 3: "c"}, dir_bytes=dir_bytes)
        cluster.add_topic("left", dict.fromkeys(range(10), (1,)), size_bytes=9 * MB)
        cluster.add_topic("right", dict.fromkeys(range(10), (2,)), size_bytes=9 * MB)
        moves = {("left", n): (2,) for n in range(10)} | {("right", n): (1,) for n in range(10)}
        (self.home.work / "plan.json").write_bytes(encode_plan(make_plan(cluster, moves)))
        (self.home.work / "cluster.json").write_bytes(encode_snapshot(cluster.snapshot(now=MADE_AT)))

    def run(self, *words: str) -> Ran:
        return self.home.run("reassign", "simulate", "plan.json", "--snapshot", "cluster.json", *words)


@pytest.fixture
def roomy(tmp_path: Path) -> ReassignSimulateDesk:
    return ReassignSimulateDesk(tmp_path, 1000 * MB)


@pytest.fixture
def tight(tmp_path: Path) -> ReassignSimulateDesk:
    return ReassignSimulateDesk(tmp_path, 100 * MB)


def test_the_schedule_swaps_two_full_brokers_where_naive_orders_fill_their_disks(tight: ReassignSimulateDesk) -> None:
    orders = ("--order", "schedule", "--order", "plan", "--order", "all-at-once")
    ran = tight.run("--throttle", "5MB", *orders, "-o", "json")
    assert ran.code == 0, ran.stderr
    found = {c["order"]: c for c in ran.json["cases"]}
    filled = {
        order: [d["broker"] for d in case["log_dirs"] if d["filled_at_seconds"] is not None]
        for order, case in found.items()
    }
    assert filled == {"schedule": [], "plan": [1, 2], "all-at-once": [1, 2]}
    assert {order: case["done"] for order, case in found.items()} == {
        "schedule": True,
        "plan": False,
        "all-at-once": False,
    }
    assert max(d["peak_bytes"] for d in found["schedule"]["log_dirs"]) <= 95 * MB
    assert found["schedule"]["seconds"] >= found["schedule"]["bound_seconds"]
    assert found["plan"]["hanging"]
    assert found["plan"]["offline_partition_seconds"] > 0
    assert found["schedule"]["offline_partition_seconds"] == 0


def test_throttles_are_compared_in_a_table_and_drawn(roomy: ReassignSimulateDesk) -> None:
    ran = roomy.run("--throttle", "1MB", "--throttle", "4MB", "--throttle", "none")
    assert ran.code == 0, ran.stderr
    cluster, head, *rows = ran.stdout.split("\n\n")[0].splitlines()
    assert cluster == "cluster fake-cluster"
    assert head.split() == ["ORDER", "THROTTLE", "TAKES", "ETA", "BOUND", "COPIED", "FULLEST-DIR", "ENDS"]
    assert [row.split()[1] for row in rows] == ["1", "4", "none"]
    assert all(row.split()[-1] == "done" for row in rows)
    assert "schedule, throttle 4 MB/s; the most work:" in ran.stdout
    assert "│█" in ran.stdout
    data = roomy.run("--throttle", "1MB", "--throttle", "4MB", "--throttle", "none", "-o", "json").json
    seconds = [c["seconds"] for c in data["cases"]]
    assert seconds == sorted(seconds, reverse=True)
    assert len(set(seconds)) == 3
    assert all(c["copied_bytes"] == pytest.approx(180 * MB) for c in data["cases"])
    assert data["cases"][0]["seconds"] == pytest.approx(data["cases"][0]["eta_seconds"], rel=0.15)
    assert data["cases"][0]["samples"][0]["bytes_per_s"] > 0


def test_a_dead_broker_holds_a_run_up_and_its_return_lets_it_end(roomy: ReassignSimulateDesk) -> None:
    calm = roomy.run("--throttle", "1MB", "-o", "json").json["cases"][0]
    words = ("--throttle", "1MB", "--kill", "2@30s")
    hanging = roomy.run(*words, "-o", "json").json["cases"][0]
    assert not hanging["done"]
    assert hanging["hanging"]
    back = roomy.run(*words, "--revive", "2@10m", "-o", "json").json["cases"][0]
    assert back["done"]
    assert back["seconds"] > calm["seconds"] + 400
    text = roomy.run(*words).stdout
    assert "hangs" in text
    assert "not in place at the end" in text


def test_ingest_makes_a_run_longer(roomy: ReassignSimulateDesk) -> None:
    calm = roomy.run("--throttle", "1MB", "-o", "json").json["cases"][0]
    busy = roomy.run("--throttle", "1MB", "--ingest", "500kB", "-o", "json").json["cases"][0]
    assert busy["seconds"] > calm["seconds"]
    assert busy["copied_bytes"] > calm["copied_bytes"]


def test_the_limits_are_those_that_apply_takes(tight: ReassignSimulateDesk) -> None:
    usual = tight.run("--throttle", "5MB", "-o", "json")
    fuller = tight.run("--throttle", "5MB", "--max-disk-use", "99.5%", "--disk-headroom", "0", "-o", "json")
    peaks = [max(d["peak_bytes"] for d in ran.json["cases"][0]["log_dirs"]) for ran in (usual, fuller)]
    assert peaks[0] <= 95 * MB < peaks[1] <= 99.5 * MB
    singly = tight.run("--throttle", "5MB", "--max-moves-in-flight", "1", "-o", "json")
    assert singly.json["cases"][0]["seconds"] > usual.json["cases"][0]["seconds"]
    refused = tight.run("--max-disk-use", "95")
    assert (refused.code, refused.stdout) == (2, "")
    assert "write it like 5% or 2.5%" in refused.stderr


def test_tsv_has_a_line_a_case(roomy: ReassignSimulateDesk) -> None:
    ran = roomy.run("--order", "plan", "--order", "schedule", "-o", "tsv")
    assert [line.split("\t")[:3] for line in ran.stdout.splitlines()] == [
        ["plan", "none", "yes"],
        ["schedule", "none", "yes"],
    ]


def test_the_same_input_gives_the_same_bytes(roomy: ReassignSimulateDesk) -> None:
    words = ("--throttle", "3MB", "--kill", "2@20s", "--revive", "2@60s", "-o", "json")
    assert roomy.run(*words).stdout == roomy.run(*words).stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--throttle", "fast"), "is not a rate"),
        (("--order", "best"), "--order: 'best' is none of schedule, plan, all-at-once"),
        (("--kill", "2"), "is not a broker and a time"),
        (("--kill", "99@1m"), "broker 99 is not in the cluster"),
        (("--revive", "2@soon"), "is not a duration"),
        (("--efficiency", "0%"), "nothing would ever move"),
        (tuple(w for n in range(1, 26) for w in ("--throttle", f"{n}MB")), "25 cases are more than 24"),
    ],
)
def test_words_that_cannot_be_meant_are_refused(
    roomy: ReassignSimulateDesk, words: tuple[str, ...], message: str
) -> None:
    ran = roomy.run(*words)
    assert ran.code == 2
    assert ran.stdout == ""
    assert message in ran.stderr


def test_a_snapshot_of_another_cluster_is_refused(roomy: ReassignSimulateDesk) -> None:
    other = FakeCluster({1: "a"}, cluster_id="other")
    (roomy.home.work / "cluster.json").write_bytes(encode_snapshot(other.snapshot(now=MADE_AT)))
    ran = roomy.run()
    assert ran.code == 2
    assert "the plan is for cluster fake-cluster, the snapshot is of other" in ran.stderr


def test_a_plan_that_is_done_takes_no_time(tmp_path: Path) -> None:
    desk = ReassignSimulateDesk(tmp_path, 1000 * MB)
    cluster = FakeCluster({1: "a", 2: "b", 3: "c"})
    cluster.add_topic("left", dict.fromkeys(range(10), (2,)), size_bytes=9 * MB)
    cluster.add_topic("right", dict.fromkeys(range(10), (1,)), size_bytes=9 * MB)
    (desk.home.work / "cluster.json").write_bytes(encode_snapshot(cluster.snapshot(now=MADE_AT)))
    ran = desk.run()
    assert ran.code == 0, ran.stderr
    assert "note: 20 moves of the plan done already" in ran.stdout


def test_moves_between_dirs_of_a_broker_are_played_too(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.work.mkdir(parents=True)
    cluster = FakeCluster({1: "a", 2: "b"}, dirs_per_broker=3, dir_bytes=1000 * MB)
    cluster.add_topic("t", dict.fromkeys(range(9), (1,)), size_bytes=30 * MB)
    for partition in cluster.topics["t"].partitions.values():
        partition.dirs[1] = "/data/1/0"
    (home.work / "cluster.json").write_bytes(encode_snapshot(cluster.snapshot(now=MADE_AT)))
    planned = home.run("topicmappr", "rebalance-dirs", "--snapshot", "cluster.json", "--plan", "plan.json")
    assert planned.code == 0, planned.stderr
    words = ("reassign", "simulate", "plan.json", "--snapshot", "cluster.json", "--throttle", "5MB", "-o", "json")
    ran = home.run(*words, "--order", "schedule", "--order", "all-at-once")
    assert ran.code == 0, ran.stderr
    for case in ran.json["cases"]:
        assert case["done"]
        assert case["seconds"] == pytest.approx(6 * 30 / 4, abs=3)
        assert case["log_dirs"][1]["peak_bytes"] == pytest.approx(90 * MB, rel=0.01)
    killed = home.run(*words, "--kill", "1@10s").json["cases"][0]
    assert not killed["done"]
    assert killed["hanging"]


MOVED = TopicPartition("t", 0)
MAP = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,3]}]}'


def begin_foreign(desk: CleanupDesk, *, dead: bool = True) -> Path:
    """A move that another tool began, with its throttle; returns its map."""
    desk.cluster.reassign({MOVED: (1, 3)})
    desk.cluster.topics["t"].configs |= {LEADER_LIST: "0:1,0:2", FOLLOWER_LIST: "1:7,0:3"}
    desk.cluster.brokers[3].configs[FOLLOWER_RATE] = "100"
    if dead:
        desk.cluster.kill(3)
    desk.cluster.calls.clear()
    path = desk.path.with_name("map.json")
    path.write_text(MAP)
    return path


def verify_foreign_journal(desk: CleanupDesk) -> list[dict[str, Any]]:
    (path,) = (desk.home.state / "foreign").rglob("*.journal")
    lines = verify_journal(path.read_bytes(), foreign=True)
    verify_effects(lines, desk.cluster.calls)
    return lines


@pytest.mark.parametrize("how", [["MAP"], ["--topic", "t"], ["--partition", "t-0"], ["--partition=t:0"], ["--all"]])
def test_a_foreign_move_is_shown_and_cancelled(desk: CleanupDesk, how: list[str]) -> None:
    path = begin_foreign(desk)
    words = [str(path) if word == "MAP" else word for word in how]
    dry = desk.run("abort", *words, "--dry-run", "-o", "json")
    assert (dry.code, dry.json["verdict"], desk.cluster.calls) == (0, "planned", [])
    assert dry.json["moves"][0]["waits_for"] == [3]
    asked = desk.run("abort", *words)
    assert (asked.code, desk.cluster.calls) == (2, [])
    assert "t-0: to [1,3], adding [3]; broker 3 is not alive" in asked.stderr
    done = desk.run("abort", *words, "--yes", "-o", "json")
    assert (done.code, done.json["verdict"]) == (0, "cancelled"), done.stderr
    assert (desk.cluster.reassignments(), desk.lists()[0]) == ((), (1, 2))
    (noted,) = [line["data"] for line in verify_foreign_journal(desk) if line["what"] == "foreign"]
    assert noted == {"moves": [["t", 0, [1, 3], [3], [2]]]}
    (command,) = done.json["next_commands"]
    assert command.startswith("kafkakit --profile p reassign cleanup ")
    assert desk.run(*command.split()[4:], "--yes").code == 0
    assert LEADER_LIST not in desk.cluster.topics["t"].configs
    assert desk.run("abort", *words, "--yes").code == 0, "nothing is left to abort"


def test_abort_without_a_run_names_the_command_for_foreign_moves(desk: CleanupDesk) -> None:
    begin_foreign(desk)
    ran = desk.run("abort", "--yes")
    assert (ran.code, desk.cluster.calls) == (2, [])
    assert "kafkakit --profile p reassign abort --all" in ran.stderr


def test_moves_of_an_unfinished_run_are_not_foreign(desk: CleanupDesk) -> None:
    desk.cut()
    calls = list(desk.cluster.calls)
    named = desk.run("abort", "--partition", "t-0", "--yes")
    assert named.code == 2
    command = named.stderr.partition("hint: ")[2].strip()
    every = desk.run("abort", "--all", "--yes")
    assert (every.code, desk.cluster.calls) == (0, calls)
    assert command in every.stdout
    assert desk.run(*command.split()[4:], "--yes").code == 0
    assert desk.configs() == desk.before


def test_a_move_that_goes_elsewhere_by_now_is_not_cancelled(desk: CleanupDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    begin_foreign(desk, dead=False)

    def answer(*_: Any) -> bool:
        desk.cluster.cancel([MOVED])
        desk.cluster.reassign({MOVED: (3, 2)})
        desk.cluster.calls.clear()
        return True

    monkeypatch.setattr("kafkakit.cli.run_options.Consent.confirm", answer)
    ran = desk.run("abort", "--all")
    assert (ran.code, desk.cluster.calls) == (1, [])
    assert "t-0 goes to [3,2] by now, and is not cancelled" in ran.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--topic", "nosuch"], "topic nosuch does not exist"),
        (["--partition", "t-9"], "partition t-9 does not exist"),
        (["--partition", "t"], "'t' is not a partition"),
        (["--partition", "t-x"], "'t-x' is not a partition"),
        (["--all", "--topic", "t"], "--all excludes"),
        (["MAP", "--all"], "cannot be combined"),
    ],
)
@pytest.mark.parametrize("verb", ["abort", "cleanup"])
def test_what_does_not_exist_is_refused_before_the_question(
    desk: CleanupDesk, verb: str, words: list[str], told: str
) -> None:
    path = begin_foreign(desk)
    ran = desk.run(verb, *[str(path) if word == "MAP" else word for word in words])
    assert (ran.code, desk.cluster.calls) == (2, [])
    assert told in ran.stderr


def test_cleanup_all_removes_what_others_set(desk: CleanupDesk) -> None:
    shown = desk.run("cleanup", "--all")
    assert (shown.code, desk.configs(), desk.cluster.calls) == (1, desk.before, [])
    assert "broker 1 leader.replication.throttled.rate: 777 B/s, is removed" in shown.stdout
    assert "kafkakit --profile p reassign cleanup --all --yes" in shown.stderr
    done = desk.run("cleanup", "--all", "--yes", "-o", "json")
    assert (done.code, done.json["verdict"], done.json["left_alone"]) == (0, "cleaned", [])
    assert not any(desk.configs().values())
    changes = [line["data"].get("changes", []) for line in verify_foreign_journal(desk) if line["kind"] == "intent"]
    assert {(c["key"], c["earlier"]) for c in changes[0]} == {(LEADER_RATE, "777"), (FOLLOWER_LIST, "1:7")}
    assert desk.run("cleanup", "--all", "--yes", "-o", "json").json["verdict"] == "clean"


def test_cleanup_all_after_a_run_removes_the_rate_that_comes_back(desk: CleanupDesk) -> None:
    desk.cut()
    desk.cluster.advance(60)
    done = desk.run("cleanup", "--all", "--yes")
    assert done.code == 0, done.stderr
    assert not any(desk.configs().values())
    verify_journal(next(p for p in desk.home.state.rglob("*.journal") if p.parts[-3] == "journals").read_bytes())


def test_a_wildcard_that_another_tool_set_is_removed(desk: CleanupDesk) -> None:
    desk.cluster.topics["t"].configs[LEADER_LIST] = "*"
    assert desk.run("cleanup", "--partition", "t-0", "--yes").code == 0
    assert desk.cluster.topics["t"].configs[LEADER_LIST] == "*", "it is about all partitions"
    assert desk.run("cleanup", "--topic", "t", "--yes").code == 0
    assert desk.cluster.topics["t"].configs == {}


def test_cleanup_by_partition_keeps_rates_that_other_lists_need(desk: CleanupDesk) -> None:
    desk.cluster.topics["t"].configs = {LEADER_LIST: "0:1,1:1", FOLLOWER_LIST: "0:3"}
    desk.cluster.brokers[3].configs[FOLLOWER_RATE] = "5"
    done = desk.run("cleanup", "--partition", "t-0", "--yes")
    assert done.code == 0, done.stderr
    assert desk.cluster.topics["t"].configs == {LEADER_LIST: "1:1"}
    assert [b.configs for b in desk.cluster.brokers.values()] == [{LEADER_RATE: "777"}, {}, {}]
    assert desk.run("cleanup", "--partition", "t-1", "--yes").code == 0
    assert not any(desk.configs().values())


def test_foreign_throttles_of_running_moves_stay_unless_asked_for(desk: CleanupDesk) -> None:
    path = begin_foreign(desk, dead=False)
    before = desk.configs()
    kept = desk.run("cleanup", str(path), "--yes")
    assert (kept.code, desk.configs()) == (1, before)
    assert "stays, a running move needs it" in kept.stdout
    lifted = desk.run("cleanup", str(path), "--yes", "--unthrottle-running")
    assert lifted.code == 0, lifted.stderr
    assert desk.configs()["topic t"] == {FOLLOWER_LIST: "1:7"}
    assert desk.cluster.brokers[3].configs == {}
    assert desk.cluster.reassignments()


def test_a_foreign_throttle_that_changed_since_it_was_shown_stays(
    desk: CleanupDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(*_: Any) -> bool:
        desk.cluster.brokers[1].configs[LEADER_RATE] = "888"
        desk.cluster.topics["t"].configs[FOLLOWER_LIST] = "1:7,0:2"
        return True

    monkeypatch.setattr("kafkakit.cli.output.Output.ask_typed", answer)
    monkeypatch.setattr("kafkakit.cli.context.CliContext.input_allowed", True)
    ran = desk.run("cleanup", "--all")
    assert ran.code == 1
    assert f"broker 1: {LEADER_RATE} was changed meanwhile" in ran.stdout
    assert desk.cluster.brokers[1].configs == {LEADER_RATE: "888"}
    assert desk.cluster.topics["t"].configs == {FOLLOWER_LIST: "0:2"}


def test_a_plan_is_also_taken_as_an_argument_of_cleanup(desk: CleanupDesk) -> None:
    desk.cut()
    desk.cluster.advance(60)
    desk.journal().unlink()
    assert desk.run("cleanup", str(desk.path), "--plan", str(desk.path)).code == 2
    done = desk.run("cleanup", str(desk.path), "--yes")
    assert done.code == 0, done.stderr
    assert desk.cluster.brokers[3].configs == {}


@dataclass(frozen=True)
class Printed:
    """A command that does not go through, or leaves something: what it prints, which of it is followed, what then is.

    `follow` is the verb of the printed command that is carried out, which `has` these words; `again` says that the
    first one then goes through.
    """

    name: str
    before: Callable[[CleanupDesk], object]
    words: tuple[str, ...]
    follow: str
    again: bool = True
    has: tuple[str, ...] = ()
    gone: Callable[[CleanupDesk], bool] = lambda desk: True


def _no_rates(desk: CleanupDesk) -> None:
    """Without what other tools set."""
    desk.cluster.brokers[1].configs.clear()
    desk.cluster.topics["t"].configs.clear()


def _other_move(desk: CleanupDesk, topic: str, partition: int, target: tuple[int, ...], *, dead: bool) -> None:
    _no_rates(desk)
    desk.cluster.add_broker(4, "d")
    desk.cluster.add_topic("u", {0: (1, 2)}, size_bytes=MB)
    desk.cluster.reassign({TopicPartition(topic, partition): target})
    if dead:
        desk.cluster.kill(4)
    desk.cluster.calls.clear()


def _cut(desk: CleanupDesk) -> None:
    _no_rates(desk)
    desk.press_in_flight()
    assert desk.run("apply", str(desk.path), "--yes", "--throttle", "5MB").code == 130


def _cut_beside_a_plan(desk: CleanupDesk) -> None:
    """The run of a plan was cut, and another plan is to be carried out."""
    desk.cluster.add_topic("u", {0: (1, 2)}, size_bytes=MB)
    desk.path.with_name("q.json").write_bytes(encode_plan(make_plan(desk.cluster, {("u", 0): (2, 3)})))
    _cut(desk)


def _ended_but_for_throttles(desk: CleanupDesk) -> None:
    _cut(desk)
    desk.cluster.advance(60)


def _without_journal(desk: CleanupDesk) -> None:
    _ended_but_for_throttles(desk)
    desk.journal().unlink()


def _drain_cut(desk: CleanupDesk) -> None:
    _no_rates(desk)
    desk.cluster.add_topic("u", {0: (1, 2)}, size_bytes=20 * MB)
    desk.press_in_flight()
    assert desk.home.run("--profile", "p", "broker", "drain", "1", "--yes").code == 130


def _drain_cut_then_deleted(desk: CleanupDesk) -> None:
    _drain_cut(desk)
    desk.cluster.delete_topic("u")


def _drained(desk: CleanupDesk) -> None:
    _no_rates(desk)
    assert desk.home.run("--profile", "p", "broker", "drain", "1", "--yes").code == 0


def _empty(desk: CleanupDesk) -> bool:
    return not any(1 in row for row in desk.lists())


def _still(desk: CleanupDesk) -> bool:
    return not desk.cluster.reassignments() and not any(desk.configs().values())


APPLY = ("apply", "PLAN", "--yes", "--throttle", "5MB")
PRINTED = [
    Printed("apply beside rates of another tool", lambda desk: None, APPLY, "cleanup", gone=_still),
    *(
        Printed(f"apply beside a move of {topic}-{partition}, {dead=}",
                partial(_other_move, topic=topic, partition=partition, target=target, dead=dead), APPLY, "abort")
        for topic, partition, target, dead in (
            ("t", 0, (1, 4), False), ("t", 0, (1, 4), True), ("t", 1, (2, 4), True), ("u", 0, (1, 4), True)
        )
    ),
    Printed("apply of a second plan, resumed", _cut_beside_a_plan, ("apply", "PLAN2", "--yes"), "resume"),
    Printed("apply of a second plan, rolled back", _cut_beside_a_plan, ("apply", "PLAN2", "--yes"), "rollback"),
    Printed("abort without a run", lambda d: _other_move(d, "t", 1, (2, 4), dead=True), ("abort", "--yes"), "abort",
            again=False, gone=lambda d: not d.cluster.reassignments()),
    Printed("abort of a foreign move, shown", lambda d: _other_move(d, "t", 1, (2, 4), dead=True),
            ("abort", "--partition", "t-1", "--dry-run"), "abort", gone=lambda d: not d.cluster.reassignments()),
    Printed("cleanup, shown", _ended_but_for_throttles, ("cleanup",), "cleanup", gone=_still),
    Printed("cleanup of what others set", lambda desk: None, ("cleanup", "--yes"), "cleanup", gone=_still),
    Printed("cleanup of what others set, shown", lambda desk: None, ("cleanup", "--all"), "cleanup", gone=_still),
    Printed("cleanup of a plan without a journal", _without_journal, ("cleanup", "PLAN"), "cleanup", gone=_still),
    Printed("drain of a broker after a topic was deleted", _drain_cut_then_deleted, ("broker", "drain", "1", "--yes"),
            "broker drain", has=("--replan",), gone=_empty),
    Printed("drain of a broker, taken back", _drained, ("broker", "drain", "1", "--yes"), "broker rejoin", again=False,
            has=("--restore",), gone=lambda d: all(1 in row for row in d.lists())),
    Printed("pause without a run", _no_rates, ("pause", "PLAN"), "apply", again=False, gone=_still),
    Printed("resume without a run", _no_rates, ("resume", "PLAN", "--yes"), "apply", again=False, gone=_still),
    Printed("status of a run that was stopped, resumed", _cut, ("status",), "resume", gone=_still),
    Printed("close of a run in flight, aborted", _cut, ("close", "PLAN"), "abort", again=False, gone=_still),
    Printed("close of a run in flight, rolled back", _cut, ("close", "PLAN"), "rollback", again=False,
            gone=_still),
    Printed("continue of a run that was stopped", _cut, ("continue", "PLAN"), "resume", again=False, gone=_still),
]  # fmt: skip


def _lines(ran: Ran) -> list[list[str]]:
    return [words for text in (ran.stderr, ran.stdout) for words in commands_in(text)]


@pytest.mark.parametrize("case", PRINTED, ids=lambda case: case.name.replace(" ", "-"))
def test_what_a_command_prints_is_carried_out(desk: CleanupDesk, case: Printed) -> None:
    def run(*words: str) -> Ran:
        files = {"PLAN": str(desk.path), "PLAN2": str(desk.path.with_name("q.json"))}
        group = () if words[0] == "broker" else ("reassign",)
        return desk.home.run("--profile", "p", *group, *(files.get(word, word) for word in words))

    case.before(desk)
    first = run(*case.words)
    group, verb = case.follow.split() if " " in case.follow else ("reassign", case.follow)
    printed = [words for words in _lines(first) if words[2:4] == [group, verb] and set(case.has) <= set(words)]
    assert printed, f"{first.code}: {first.stdout}{first.stderr}"
    words = printed[0]
    assert words[:2] == ["--profile", "p"]
    mutes = verb in ("apply", "abort", "cleanup", "resume", "rollback", "close") and "--yes" not in words
    done = desk.home.run(*words, *(["--yes"] if mutes else []))
    assert done.code == 0, f"{words}: {done.stdout}{done.stderr}"
    assert case.gone(desk), desk.configs()
    if case.again:
        ran = run(*case.words)
        assert ran.code == 0, f"{words}: {ran.stdout}{ran.stderr}"
        assert words not in _lines(ran), "it is printed no more"
