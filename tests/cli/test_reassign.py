"""`kafkakit reassign` over a cluster in memory: stdout, stderr and exit code of each command."""

import errno
import re
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from kafkakit.adapters.control_file import FileControl
from kafkakit.adapters.files import write_file
from kafkakit.adapters.lock import FileLock
from kafkakit.core.documents import encode_plan
from kafkakit.core.errors import OperationFailedError, UsageError
from kafkakit.core.lease import Holder, Life
from kafkakit.core.model import TopicPartition
from kafkakit.core.plan import Plan, identity_of
from kafkakit.execution.act.leases import Lease, lease_path
from kafkakit.execution.act.run_journal import lock_path
from kafkakit.execution.decide.journal import RunState
from kafkakit.execution.decide.runs import choose_run
from kafkakit.execution.decide.throttle import FOLLOWER_LIST, FOLLOWER_RATE
from tests.clusters.plans import make_plan, plan_of
from tests.fakes.admin import FakeCluster
from tests.invariants.journal import verify_effects, verify_journal
from tests.rigs.command_line import ClusterDesk, Ran

MB = 1_000_000


class ReassignDesk(ClusterDesk):
    """An operator's host: a home, a plan file, and a cluster behind profile `p`."""

    command = ("reassign",)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, FakeCluster({1: "a", 2: "b", 3: "c"}, line_rate=10 * MB))
        self.cluster.add_topic("t", {0: (1, 2), 1: (2, 1)}, size_bytes=20 * MB)
        self.plan = make_plan(self.cluster, {("t", 0): (3, 2)})
        self.path = folder / "my plan.json"
        self.write(self.plan)

    def write(self, plan: Plan) -> None:
        self.path.write_bytes(encode_plan(plan))

    def run(self, *words: str, stdin: str = "", env: Mapping[str, str] | None = None) -> Ran:
        verb, *more = words
        plan = () if verb == "status" else (str(self.path),)
        if verb in ("apply", "rollback", "resume") and "--ingest-sample" not in words:
            more = ["--ingest-sample", "0", *more]  # nothing sleeps before a run begins
        return super().run(verb, *plan, *more, stdin=stdin, env=env)

    def run_without_plan(self, *words: str) -> Ran:
        return super().run(*words)

    def lists(self) -> list[tuple[int, ...]]:
        return [tuple(p.replicas) for p in self.cluster.topics["t"].partitions.values()]

    def journals(self) -> list[Path]:
        return sorted(self.home.state.rglob("*.journal"))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReassignDesk:
    return ReassignDesk(tmp_path).sit(monkeypatch)


def test_apply_verify_and_apply_again(desk: ReassignDesk) -> None:
    ran = desk.run("apply", "--yes", "--throttle", "5MB")
    assert ran.code == 0
    assert ran.stdout.splitlines() == [
        "applied: 1 of 1 planned partitions are in place and in sync",
        ran.stdout.splitlines()[1],
        "throttles: all removed",
    ]
    assert "t-0: [1,2] -> [3,2]" in ran.stderr
    assert "throttle: 5 MB/s per broker" in ran.stderr
    assert desk.lists() == [(3, 2), (2, 1)]
    (journal,) = desk.journals()
    assert journal.stat().st_mode & 0o777 == 0o600
    verify_effects(verify_journal(journal.read_bytes()), desk.cluster.calls)
    calls = len(desk.cluster.calls)
    again = desk.run("apply", "--yes", "-o", "json")
    assert (again.code, again.json["verdict"], again.json["kafkakit"]["command"]) == (
        0,
        "already applied",
        "reassign apply",
    )
    assert len(desk.cluster.calls) == calls
    verified = desk.run("verify", "-o", "tsv")
    assert (verified.code, verified.stdout) == (0, "t\t0\tdone\t3,2\t3,2\t3\t-\n")


def test_dry_run_shows_the_changes_and_leaves_no_trace(desk: ReassignDesk) -> None:
    ran = desk.run("apply", "--dry-run", "--throttle", "5MB", "-o", "json")
    assert (ran.code, ran.json["verdict"]) == (0, "planned")
    assert "t-0: [1,2] -> [3,2]" in ran.stderr
    assert desk.cluster.calls == []
    assert desk.journals() == []
    assert desk.run("rollback", "--dry-run").code == 0


def test_without_yes_and_terminal_nothing_happens(desk: ReassignDesk) -> None:
    ran = desk.run("apply", stdin="yes\n")
    assert (ran.code, ran.stdout) == (2, "")
    assert "--yes" in ran.stderr
    assert desk.cluster.calls == []
    assert desk.journals() == []


def test_rollback_undoes_and_verify_then_fails(desk: ReassignDesk) -> None:
    assert desk.run("rollback", "--yes").stdout.startswith("nothing to roll back")
    assert desk.run("apply", "--yes").code == 0
    ran = desk.run("rollback", "--yes")
    assert (ran.code, desk.lists()) == (0, [(1, 2), (2, 1)])
    assert ran.stdout.startswith("rolled back: 1 of 1")
    verified = desk.run("verify")
    assert verified.code == 1
    assert "1 partition is not started: t-0 is [1,2], wanted [3,2]" in verified.stdout
    assert "hint: kafkakit --profile p reassign apply '" in verified.stderr


def test_refusals_exit_with_2_and_one_line(desk: ReassignDesk) -> None:
    desk.write(plan_of("elsewhere", desk.plan.brokers, desk.plan.scope, desk.plan.moves))
    other = desk.run("apply", "--yes")
    desk.write(desk.plan)
    desk.cluster.kill(3)
    dead = desk.run("apply", "--yes", "-o", "json")
    bad_rate = desk.run("apply", "--yes", "--throttle", "fast")
    bad_time = desk.run("apply", "--yes", "--stall-timeout", "soon")
    assert [other.code, dead.code, bad_rate.code, bad_time.code] == [2, 2, 2, 2]
    assert other.stderr.startswith("error: the plan is for cluster elsewhere, this is fake-cluster\n")
    assert dead.json["error"]["message"] == "the plan adds copies on broker 3, which is not alive"
    assert bad_rate.stderr.startswith("error: 'fast' is not a rate\n")
    assert "--stall-timeout" in bad_time.stderr
    assert desk.cluster.calls == []


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 10_000,
        b'{"kafkakit": {"kind": "plan", "schema": 9}}',
        b'{"kafkakit": {"kind": "journal", "schema": 1}}',
        b'{"kafkakit": {"kind": "plan", "schema": 1}, "cluster_id": 1' + b"0" * 5000 + b"}",
    ],
)
def test_bad_plan_files_exit_with_2_and_name_the_file(desk: ReassignDesk, text: bytes) -> None:
    desk.path.write_bytes(text)
    for verb in ("apply", "verify", "rollback"):
        ran = desk.run(verb)
        assert ran.code == 2
        assert ran.stdout == ""
        assert ran.stderr.startswith(f"error: {desk.path}: ")
        assert "Traceback" not in ran.stderr


def test_forged_plan_and_missing_plan_are_refused(desk: ReassignDesk) -> None:
    desk.path.write_bytes(desk.path.read_bytes().replace(b'"partition":1', b'"partition":7'))
    forged = desk.run("apply", "--yes")
    desk.path.unlink()
    missing = desk.run("apply", "--yes")
    assert (forged.code, missing.code) == (2, 2)
    assert "fingerprint does not match" in forged.stderr


def test_status_shows_moves_throttles_and_unfinished_runs(desk: ReassignDesk) -> None:
    idle = desk.run("status")
    assert idle.stdout.startswith("cluster fake-cluster (profile p): 0 moves running\nthrottles: none set\n")
    desk.press()
    stopped = desk.run("apply", "--yes", "--throttle", "5MB")
    assert (stopped.code, stopped.stdout) == (130, "")
    assert "1 of 1 moves still run on the cluster, the throttle of 5 MB/s stays set" in stopped.stderr
    assert f"kafkakit --profile p reassign apply '{desk.path}' --yes" in stopped.stderr
    busy = desk.run("status", "-o", "json", "--window", "0").json
    assert [(m["topic"], m["target"], m["adding"]) for m in busy["moves"]] == [("t", [3, 2], [3])]
    assert busy["broker_rates"]["3"] == {"follower.replication.throttled.rate": "5000000"}
    assert busy["topic_lists"]["t"] == {
        "leader.replication.throttled.replicas": 2,
        "follower.replication.throttled.replicas": 1,
    }
    assert busy["unfinished"] == [f"apply of {desk.path}"]
    assert "apply of" in desk.run("status", "--window", "0").stdout
    unverified = desk.run("verify")
    assert unverified.code == 1
    assert "1 partition is in progress" in unverified.stdout
    watched = desk.run("status", "--watch", "-o", "tsv")
    assert (watched.code, watched.stdout) == (0, "")
    # All moves are complete now, so verify takes the throttle away.
    verified = desk.run("verify")
    assert verified.code == 0
    assert "were removed" in verified.stderr
    assert not any(b.configs for b in desk.cluster.brokers.values())
    assert not desk.cluster.topics["t"].configs


def test_the_lock_keeps_a_second_run_out_but_not_a_look(desk: ReassignDesk) -> None:
    with FileLock(lock_path(desk.home.state, "fake-cluster"), "test", "a test"):
        ran = desk.run("apply", "--yes")
        assert (ran.code, ran.stdout) == (75, "")
        assert "another kafkakit process is running: a test, since " in ran.stderr
        assert desk.run("verify").code == 1
        assert desk.run("status").code == 0
    assert desk.run("apply", "--yes").code == 0


def test_the_commands_after_ctrl_c_stand_alone_on_their_lines_and_do_not_contradict_each_other(
    desk: ReassignDesk,
) -> None:
    """Each printed line is run as it is; the one without a throttle has lost the throttle that the run was given."""
    desk.press()
    assert desk.run("apply", "--yes", "--throttle", "5MB").code == 130
    desk.cluster.advance(60)
    desk.press()
    rates = ("--throttle", "1MB", "--throttle-broker", "3:in=2MB")
    stopped = desk.run("rollback", "--yes", *rates)
    assert stopped.code == 130
    hint, *lines = stopped.stderr.splitlines()[-3:]
    base = f"kafkakit --profile p reassign rollback '{desk.path}' --yes --ingest-sample 0"
    assert hint == "hint: to resume, to resume without the throttle:"
    assert lines == [f"{base} --throttle 1MB --throttle-broker 3:in=2MB", f"{base} --throttle none"]
    ran = desk.home.run(*shlex.split(lines[1])[1:])
    assert (ran.code, desk.lists()) == (0, [(1, 2), (2, 1)]), ran.stderr
    assert not any(desk.cluster.configs().values())


def test_of_a_damaged_journal_the_sound_beginning_is_used_and_the_file_is_kept(desk: ReassignDesk) -> None:
    desk.run("apply", "--yes", "--throttle", "5MB")
    (journal,) = desk.journals()
    damaged = journal.read_bytes().replace(b'"direction":"apply"', b'"direction":"apple"')
    journal.write_bytes(damaged)
    calls = len(desk.cluster.calls)
    shown = desk.run("rollback", "--dry-run")
    assert (shown.code, len(desk.cluster.calls), journal.read_bytes()) == (0, calls, damaged)
    assert f"warning: a part of the journal is lost: {journal}: journal line 2 cannot be read" in shown.stderr
    unknown = desk.run("resume", "--yes")
    assert unknown.code == 2
    assert "error: what the run was doing is not known: " in unknown.stderr
    assert f"\nkafkakit --profile p reassign rollback '{desk.path}' --yes" in unknown.stderr
    ran = desk.run("rollback", "--yes")
    assert (ran.code, desk.lists()) == (0, [(1, 2), (2, 1)])
    assert journal.with_name(f"{journal.name}.damaged").read_bytes() == damaged
    verify_journal(journal.read_bytes())


@pytest.mark.parametrize("loss", ["flipped", "emptied", "deleted", "all state deleted"])
@pytest.mark.parametrize("finish", ["apply", "rollback", "abort", "verify", "cleanup"])
def test_with_its_journal_lost_a_run_leaves_no_throttle(desk: ReassignDesk, loss: str, finish: str) -> None:
    before = desk.cluster.configs()
    desk.press()
    assert desk.run("apply", "--yes", "--throttle", "5MB").code == 130
    assert desk.cluster.configs() != before
    (journal,) = desk.journals()
    data = journal.read_bytes()
    if loss == "all state deleted":
        shutil.rmtree(desk.home.state)
    elif loss == "deleted":
        journal.unlink()
    else:
        journal.write_bytes(b"" if loss == "emptied" else data.replace(b'"what":"throttle"', b'"what":"thruttle"'))
    if finish == "verify":
        desk.cluster.advance(60)
        ran = desk.run("verify")
    elif finish == "cleanup":
        running = desk.run_without_plan("cleanup", "--plan", str(desk.path), "--yes")
        assert (running.code, "1 move still run under them: t-0" in running.stdout) == (1, True)
        desk.cluster.advance(60)
        ran = desk.run_without_plan("cleanup", "--plan", str(desk.path), "--yes")
    else:
        ran = desk.run(finish, "--yes")
        if finish == "apply":
            assert "throttle: 5 MB/s per broker" in ran.stderr
            assert "taken for this run's, since they name exactly its replicas" in ran.stderr or loss == "flipped"
    assert (ran.code, desk.cluster.configs()) == (0, before), ran.stdout + ran.stderr
    assert desk.lists()[0] == ((1, 2) if finish in ("rollback", "abort") else (3, 2))
    for kept in desk.journals():
        verify_journal(kept.read_bytes())
    assert desk.run("apply", "--yes").code == 0
    assert desk.cluster.configs() == before


def test_the_throttle_of_another_run_of_which_only_the_plan_is_left_goes_first(desk: ReassignDesk) -> None:
    before = desk.cluster.configs()
    run = stopped_and_overwritten(desk)
    (journal,) = desk.journals()
    journal.write_bytes(journal.read_bytes()[5:])
    desk.cluster.advance(60)
    assert desk.run("apply", "--yes", "--throttle", "7MB", "--allow-drift").code == 0
    assert desk.cluster.configs() == before
    assert run in desk.run("status", "--window", "0").stdout
    assert desk.run_without_plan("close", "--run", run).code == 0


def test_what_no_run_set_is_not_taken_for_a_lost_one(desk: ReassignDesk) -> None:
    topic, broker = desk.cluster.topics["t"].configs, desk.cluster.brokers[3].configs
    topic[FOLLOWER_LIST], broker[FOLLOWER_RATE] = "0:3,1:9", "1000000000"
    ran = desk.run("apply", "--yes", "--join", "--throttle", "5MB")
    assert (ran.code, topic[FOLLOWER_LIST], broker[FOLLOWER_RATE]) == (0, "0:3,1:9", "1000000000")
    assert (
        "warning: throttles cover replicas of the plan, not set by a run that is recorded here: topics t; "
        in ran.stderr
    )
    assert f"reassign cleanup --plan '{desk.path}' --yes" in ran.stderr
    cleaned = desk.run_without_plan("cleanup", "--plan", str(desk.path), "--yes")
    assert (cleaned.code, topic[FOLLOWER_LIST], broker) == (0, "1:9", {})
    elsewhere = plan_of("elsewhere", desk.plan.brokers, desk.plan.scope, desk.plan.moves)
    desk.write(elsewhere)
    refused = desk.run_without_plan("cleanup", "--plan", str(desk.path), "--yes")
    assert (refused.code, "the plan is for cluster elsewhere" in refused.stderr) == (2, True)


def test_journal_folder_that_cannot_be_written_stops_before_any_effect(desk: ReassignDesk) -> None:
    desk.home.state.mkdir(parents=True, exist_ok=True)
    (desk.home.state / "journals").write_text("in the way")
    ran = desk.run("apply", "--yes")
    assert ran.code in (1, 2)
    assert "Traceback" not in ran.stderr
    assert desk.cluster.calls == []


def test_the_command_that_resumes_has_the_options_that_the_run_needs(desk: ReassignDesk) -> None:
    desk.cluster.add_topic("more", {0: (1, 2)})
    desk.write(make_plan(desk.cluster, {("t", 0): (3, 2)}, topics=["t", "more"]))
    desk.cluster.reassign({TopicPartition("more", 0): (2, 1)})
    desk.press()
    stopped = desk.run("apply", "--yes", "--allow-drift", "--batch-size", "7", "--stall-timeout", "9m")
    assert stopped.code == 130
    options = "--yes --allow-drift --max-moves-in-flight 7 --ingest-sample 0 --stall-timeout 9m"
    undo = f"kafkakit --profile p reassign rollback '{desk.path}' {options}"
    resume = f"kafkakit --profile p reassign apply '{desk.path}' {options}"
    assert stopped.stderr.splitlines()[-3:] == ["hint: to resume, to undo:", resume, undo]
    assert desk.run("apply", "--yes").code == 2
    assert desk.run("apply", "--yes", "--allow-drift", "--batch-size", "7", "--stall-timeout", "9m").code == 0


def test_a_lock_file_that_cannot_be_locked_is_no_other_kafkakit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("kafkakit.adapters.lock.fcntl.flock", no_locks)
    with (
        pytest.raises(OperationFailedError, match="cannot be taken: No locks available"),
        FileLock(tmp_path / "l", "x", "a test"),
    ):
        pass


def test_two_plans_from_one_snapshot_do_not_share_a_journal(desk: ReassignDesk) -> None:
    other = make_plan(desk.cluster, {("t", 1): (3, 1)})
    assert other.fingerprint == desk.plan.fingerprint
    desk.cluster.replication.line_rate = 0.0
    desk.press()
    assert desk.run("apply", "--yes", "--throttle", "5MB").code == 130
    desk.write(other)
    refused = desk.run("apply", "--yes", "--allow-drift")
    assert refused.code == 2
    assert "1 moves of" in refused.stderr
    assert "run under its throttle" in refused.stderr
    assert desk.cluster.brokers[3].configs


def test_the_eta_and_the_first_steps_are_shown_before_anything_is_done(desk: ReassignDesk) -> None:
    ran = desk.run("apply", "--dry-run", "--throttle", "5MB", "--ingest-sample", "5s")
    assert ran.code == 0
    assert "bottleneck broker 3 into: 19.1 MiB at 4.3 MB/s" in ran.stderr
    assert "t-0 to [3,2] (19.1 MiB from 1 to 3:/data/3/0)" in ran.stderr
    assert desk.cluster.calls == []
    done = desk.run("apply", "--yes", "--throttle", "5MB", "-o", "json")
    assert (done.code, done.json["promised_seconds"], done.json["throttle"]["into"]) == (0, 5.151, 5 * MB)


def test_a_plan_that_fills_a_disk_in_any_order_exits_with_4(desk: ReassignDesk) -> None:
    ran = desk.run("apply", "--yes", "--disk-headroom", "999999MB")
    assert (ran.code, ran.stdout, desk.cluster.calls) == (4, "", [])
    assert ran.stderr.splitlines()[-2].startswith(
        "error: 1 of 1 move cannot be made in any order: t-0: 3:/data/3/0 lacks"
    )
    assert "--max-disk-use" in ran.stderr.splitlines()[-1]
    assert desk.journals() == []


def test_a_throttle_that_never_catches_up_exits_with_4_and_names_one_that_does(desk: ReassignDesk) -> None:
    desk.clock.on_sleep.append(lambda s: desk.cluster.write("t", 0, int(s * 2 * MB)))
    ran = desk.run("apply", "--yes", "--throttle", "1MB", "--ingest-sample", "5s")
    assert (ran.code, desk.cluster.calls) == (4, [])
    assert "would never catch up" in ran.stderr
    assert ran.stderr.splitlines()[-1] == "hint: the smallest rate that works for all brokers: --throttle 2600000"


def test_resume_pause_continue_and_abort_without_a_run_at_work(desk: ReassignDesk) -> None:
    for verb in ("resume", "pause", "continue"):
        ran = desk.run(verb)
        assert (ran.code, ran.stdout) == (2, "")
        assert "was started on this host" in ran.stderr
        assert f"hint: start one: kafkakit --profile p reassign apply '{desk.path}'" in ran.stderr
    desk.press()
    assert desk.run("apply", "--yes", "--throttle", "5MB").code == 130
    planned = desk.run("pause", "--dry-run", "-o", "json")
    assert (planned.code, planned.json["is_plan"], planned.json["paused"]) == (0, True, None)
    assert "nothing to continue" in desk.run("continue", "--dry-run").stdout
    paused = desk.run("pause", "-o", "json")
    assert (paused.code, paused.json["paused"], paused.json["run"]) == (0, True, "")
    refused = desk.run("resume", "--yes")
    assert refused.code == 2
    assert f"hint: to continue it: kafkakit --profile p reassign continue '{desk.path}'" in refused.stderr
    assert desk.run_without_plan("continue").stdout.startswith("cluster fake-cluster (profile p)\nno longer paused")
    assert desk.run_without_plan("pause").stdout.startswith(
        "cluster fake-cluster (profile p)\npaused: no run is active"
    )
    going = desk.run("continue")
    assert (going.code, going.stdout.splitlines()[-1]) == (
        0,
        f"kafkakit --profile p reassign resume '{desk.path}' --yes",
    )
    desk.press()
    assert desk.run("resume", "--yes").code == 130
    aborted = desk.run("abort", "--yes", "-o", "json")
    assert (aborted.code, aborted.json["verdict"], desk.lists()) == (0, "aborted", [(1, 2), (2, 1)])
    assert not desk.cluster.reassignments()
    assert not any(b.configs for b in desk.cluster.brokers.values())
    assert desk.run("abort", "--yes").stdout.startswith("nothing to abort")
    assert desk.run("apply", "--yes").code == 0
    (journal,) = desk.journals()
    verify_effects(verify_journal(journal.read_bytes()), desk.cluster.calls)


def test_pause_without_a_plan_needs_one_run_that_can_be_meant(desk: ReassignDesk) -> None:
    none = desk.run_without_plan("pause")
    assert (none.code, none.stdout) == (2, "")
    assert none.stderr == (
        "error: no unfinished run was started on this host\n"
        "hint: name the plan file: kafkakit --profile p reassign pause PLAN\n"
    )
    state = RunState(runs=1, unsettled=True, fingerprint="sha256:aa11", direction="apply", plan_path="/a", token=3)
    state = replace(state, began_at=desk.clock.now())
    desk.clock.sleep(1)
    other = replace(state, fingerprint="sha256:aa22", plan_path="/b", token=4, began_at=desk.clock.now())
    assert choose_run([state, other], "", 4, "") is other
    assert choose_run([state, replace(other, unsettled=False)], "", None, "") is state
    assert choose_run([state, replace(other, unsettled=False)], "aa2", 3, "") == replace(other, unsettled=False)
    for wanted, problem in (
        ("", "2 runs are unfinished: run aa11 (apply of /a); run aa22 (apply of /b)"),
        ("aa", "2 runs have the id aa"),
        ("b", "no run on this host has the id b"),
    ):
        with pytest.raises(UsageError) as refused:
            choose_run([state, other], wanted, 5, "kafkakit reassign pause")
        assert refused.value.message == problem
        assert "kafkakit reassign pause --run aa" in (refused.value.hint or "")


def stopped_and_overwritten(desk: ReassignDesk) -> str:
    """A run that was stopped with a move in flight, its plan file overwritten with another plan; its id."""
    desk.press()
    assert desk.run("apply", "--yes", "--throttle", "5MB").code == 130
    assert desk.cluster.reassignments()
    first = identity_of(desk.plan)
    desk.write(make_plan(desk.cluster, {("t", 1): (2, 3)}))
    return first.removeprefix("sha256:")[:8]


def test_a_run_outlives_its_plan_file(desk: ReassignDesk) -> None:
    run = stopped_and_overwritten(desk)
    resumed = desk.run("resume", "--yes")
    assert resumed.code == 2
    assert f"\nkafkakit --profile p reassign resume --run {run}\n" in resumed.stderr
    for verb in ("rollback", "abort"):
        refused = desk.run(verb, "--yes")
        assert (refused.code, refused.stdout) == (2, "")
        assert f"error: nothing of this plan is in flight, but 1 move of run {run} (apply of " in refused.stderr
        assert f"hint: kafkakit --profile p reassign {verb} --run {run}\n" in refused.stderr
    status = desk.run("status", "--window", "0")
    assert f"run {run}: apply of {desk.path}: 1 move in flight" in status.stdout
    assert f"resume with: kafkakit --profile p reassign resume --run {run}\n" in status.stdout
    assert desk.run_without_plan("pause").code == 0
    assert desk.run_without_plan("continue", "--run", run).code == 0
    back = desk.run_without_plan("rollback", "--yes")
    assert (back.code, desk.lists()) == (0, [(1, 2), (2, 1)])
    assert not desk.cluster.reassignments()
    again = desk.run_without_plan("apply", "--run", run[:4], "--yes", "--ingest-sample", "0")
    assert (again.code, desk.lists()) == (0, [(3, 2), (2, 1)])
    assert desk.run_without_plan("verify", "--run", run).code == 0


def test_resume_and_abort_without_a_file_take_the_only_unfinished_run(desk: ReassignDesk) -> None:
    stopped_and_overwritten(desk)
    assert desk.run_without_plan("abort", "--yes").code == 0
    assert not desk.cluster.reassignments()
    run = desk.run_without_plan("resume", "--yes")
    assert run.code == 2
    assert "error: no unfinished run was started on this host\nhint: the last one was run " in run.stderr
    assert run.stderr.endswith("; it is finished\n"), "no command for a run that cannot be resumed"
    back = desk.run_without_plan("rollback", "--yes")
    assert re.search(r"the last one was run (\w+) .*:\nkafkakit --profile p reassign rollback --run \1\n", back.stderr)
    other = desk.run_without_plan("resume", "--run", "dead", "--yes")
    assert other.stderr.startswith("error: no run on this host has the id dead\nhint: the last one was run ")
    assert other.stderr.endswith("; it is finished\n")
    both = desk.run("verify", "--run", "ab")
    assert (both.code, both.stderr.splitlines()[0]) == (2, "error: a plan file and --run exclude each other")


def test_a_run_is_closed_once_nothing_of_it_is_on_the_cluster(desk: ReassignDesk) -> None:
    run = stopped_and_overwritten(desk)
    flying = desk.run_without_plan("close")
    assert flying.code == 2
    assert f"error: 1 move of run {run} (apply of {desk.path}) still run on the cluster\n" in flying.stderr
    desk.cluster.advance(60)
    throttled = desk.run_without_plan("close")
    assert (throttled.code, "throttles of run" in throttled.stderr) == (2, True)
    assert desk.run_without_plan("cleanup", "--yes").code == 0
    named = desk.run("status", "--window", "0").stdout
    assert f"  if it is not to be finished, close it: kafkakit --profile p reassign close --run {run}\n" in named
    planned = desk.run_without_plan("close", "--run", run, "--dry-run")
    assert (planned.code, planned.stdout.splitlines()[1].startswith(f"would close run {run} ")) == (0, True)
    assert run in desk.run("status", "--window", "0").stdout
    closed = desk.run_without_plan("close", "--run", run)
    assert (closed.code, closed.stdout.splitlines()[1].startswith(f"closed: run {run} ")) == (0, True)
    assert run not in desk.run("status", "--window", "0").stdout
    assert "there is nothing to close" in desk.run_without_plan("close", "--run", run).stderr
    assert desk.run_without_plan("rollback", "--run", run, "--yes").code == 0


def test_a_plan_of_stdin_is_continued_by_its_run(desk: ReassignDesk) -> None:
    desk.press()
    words = ("reassign", "apply", "-", "--yes", "--throttle", "5MB", "--ingest-sample", "0")
    stopped = desk.home.run("--profile", "p", *words, stdin=desk.path.read_text())
    run = identity_of(desk.plan).removeprefix("sha256:")[:8]
    resume = f"kafkakit --profile p reassign apply --run {run} --yes --ingest-sample 0"
    assert (stopped.code, stopped.stderr.splitlines()[-3:-1]) == (130, [resume, f"{resume} --throttle none"])
    assert desk.run_without_plan("resume", "--yes").code == 0
    assert desk.lists() == [(3, 2), (2, 1)]


def test_planning_does_not_overwrite_the_plan_of_an_unfinished_run(desk: ReassignDesk) -> None:
    desk.press()
    assert desk.run("apply", "--yes", "--throttle", "5MB").code == 130
    before = desk.path.read_bytes()
    words = ("topicmappr", "rebuild", "--topics", "t", "--brokers", "1,2,3", "--plan", str(desk.path))
    refused = desk.home.run("--profile", "p", *words)
    assert (refused.code, desk.path.read_bytes()) == (2, before)
    run = identity_of(desk.plan).removeprefix("sha256:")[:8]
    assert f"is the plan of an unfinished run, {run}, and is not overwritten\n" in refused.stderr
    assert f"\nkafkakit --profile p reassign abort --run {run}\n" in refused.stderr
    assert desk.run("abort", "--yes").code == 0
    assert desk.home.run("--profile", "p", *words, "--out-path", str(desk.path.parent)).code == 0
    assert desk.path.read_bytes() != before


def test_a_plan_that_was_not_kept_is_said_and_its_run_can_be_closed(desk: ReassignDesk) -> None:
    run = stopped_and_overwritten(desk)
    (kept,) = desk.home.state.rglob("plans/*/*.json")
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.write_bytes(kept.read_bytes().replace(b'"t"', b'"u"'))
    refused = desk.run_without_plan("resume", "--yes")
    assert (refused.code, f"error: the plan of run {run} " in refused.stderr) == (2, True)
    desk.write(desk.plan)
    assert desk.run_without_plan("resume", "--yes").code == 0


def test_the_hint_after_a_dead_broker_says_to_start_it(desk: ReassignDesk) -> None:
    assert desk.run("apply", "--yes").code == 0
    desk.cluster.kill(2)
    ran = desk.run("verify")
    assert ran.code == 1
    assert "t-0 lacks 2 (not alive)" in ran.stderr
    assert "hint: start the brokers that are not alive, then: kafkakit --profile p reassign apply" in ran.stderr


def test_a_rate_of_an_unknown_broker_and_a_bare_small_rate_are_refused(desk: ReassignDesk) -> None:
    unknown = desk.run("apply", "--yes", "--throttle-broker", "99:5MB")
    assert (unknown.code, desk.cluster.calls) == (2, [])
    assert "error: --throttle-broker: broker 99 is not in the cluster\n" in unknown.stderr
    bare = desk.run("apply", "--yes", "--throttle", "10")
    assert (bare.code, desk.cluster.calls) == (2, [])
    assert bare.stderr == (
        "error: the rate 10 has no unit, and 10 bytes a second would stop all copies\n"
        "hint: write 10MB, or 10B if you mean bytes\n"
    )


def test_a_lease_held_elsewhere_keeps_a_run_out_and_says_who_has_it(desk: ReassignDesk) -> None:
    store = FileControl(desk.home.state / "control", write_file)
    elsewhere = Holder(host="far", user="bo", command="reassign apply", pid=42)
    lease = Lease(
        store,
        desk.clock,
        lease_path("fake-cluster"),
        elsewhere,
        what="cluster fake-cluster",
        life_of=lambda _: Life.UNKNOWN,
        say=lambda _: None,
    )
    lease.acquire()
    desk.clock.on_sleep.append(lambda _: lease.require_held())
    for verb in ("apply", "rollback", "abort"):
        ran = desk.run(verb, "--yes")
        assert (ran.code, ran.stdout) == (75, "")
        assert "cluster fake-cluster is locked: held by process 42 of bo on far (reassign apply)" in ran.stderr
    assert desk.run("pause").code == 75
    assert desk.cluster.calls == []
    lease.release()
    desk.clock.on_sleep.pop()
    assert desk.run("apply", "--yes").code == 0
