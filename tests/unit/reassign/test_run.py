"""Journals that were damaged, cut short or lost while a run was in flight."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib import resources

import pytest
from jsonschema import Draft202012Validator

from kafkakit.core.cluster_facts import ConfigChange, ConfigOp, ItemError, ResourceKind
from kafkakit.core.errors import InfeasibleError, InterruptedRunError, OperationFailedError, RefusedError, TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.runs import Commands
from kafkakit.execution.decide.schedule.work import BrokerRates
from kafkakit.execution.decide.throttle import FOLLOWER_LIST, FOLLOWER_RATE, LEADER_LIST, LEADER_RATE
from tests.clusters.plans import make_plan
from tests.fakes.admin import FakeCluster
from tests.invariants.journal import verify_effects, verify_journal
from tests.rigs.reassign import Harness, Killed

MB = 1_000_000
TARGETS = {("t", 0): (4, 2, 3), ("t", 1): (4, 2, 3), ("u", 0): (3, 4)}


def make_cluster(line_rate: float = 100 * MB) -> FakeCluster:
    cluster = FakeCluster({1: "a", 2: "b", 3: "c", 4: "a"}, line_rate=line_rate)
    cluster.add_topic("t", {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}, size_bytes=50 * MB)
    cluster.add_topic("u", {0: (3, 1)}, size_bytes=10 * MB)
    return cluster


def make_bench(line_rate: float = 100 * MB) -> Harness:
    cluster = make_cluster(line_rate)
    return Harness(cluster, make_plan(cluster, TARGETS))


def at(bench: Harness, second: float, action: Callable[[], object]) -> None:
    """Do something once, as soon as the clock is past that second."""

    def check(_: float) -> None:
        if bench.clock.elapsed > second:
            bench.clock.on_sleep.remove(check)
            action()

    bench.clock.on_sleep.append(check)


def test_apply_moves_replicas_elects_leaders_and_leaves_no_throttle() -> None:
    bench = make_bench()
    before = bench.configs()
    outcome = bench.apply(rate=20 * MB)
    assert outcome.verdict == "applied"
    assert outcome.ok
    assert {k: v for k, v in bench.lists().items() if k in TARGETS} == TARGETS
    assert bench.cluster.topics["t"].partitions[0].leader == 4
    assert bench.configs() == before
    assert outcome.copied_bytes == 110 * MB
    lines = verify_journal(bench.file.data)
    verify_effects(lines, bench.cluster.calls)


def test_second_apply_changes_nothing() -> None:
    bench = make_bench()
    bench.apply(rate=20 * MB)
    calls, journal = list(bench.cluster.calls), bench.file.data
    outcome = bench.apply(rate=20 * MB)
    assert outcome.verdict == "already applied"
    assert outcome.ok
    assert bench.cluster.calls == calls
    assert bench.file.data == journal


def test_throttle_is_exact_and_set_before_the_move_and_earlier_values_come_back() -> None:
    bench = make_bench()
    bench.cluster.brokers[1].configs[LEADER_RATE] = "777"
    bench.cluster.topics["t"].configs[FOLLOWER_LIST] = "2:9,0:4"
    before = bench.configs()
    seen: list[dict[str, dict[str, str]]] = []
    bench.cluster.before_call.append(lambda name, _: seen.append(bench.configs()) if name == "reassign" else None)
    bench.apply(rate=20 * MB, join=True)
    assert seen[0]["topic t"] == {
        LEADER_LIST: "0:1,0:2,0:3,1:2,1:3,1:1",
        FOLLOWER_LIST: "2:9,0:4,1:4",
    }
    assert seen[0]["broker 4"] == {FOLLOWER_RATE: "20000000"}
    assert seen[0]["broker 1"] == {LEADER_RATE: "20000000"}
    assert bench.configs() == before


def test_no_throttle_asked_for_means_no_configuration_is_touched() -> None:
    bench = make_bench()
    bench.apply()
    assert {name for name, _ in bench.cluster.calls} == {"reassign", "elect_preferred_leaders"}


def test_batches_move_one_after_the_other_and_each_topic_list_is_cleaned_in_between() -> None:
    bench = make_bench()
    outcome = bench.apply(rate=20 * MB, batch_size=1)
    assert outcome.ok
    sent = [argument for name, argument in bench.cluster.calls if name == "reassign"]
    assert [len(a) for a in sent] == [1, 1, 1]
    assert bench.configs() == {k: {} for k in bench.configs()}


def test_dry_run_and_declined_write_nothing() -> None:
    for options in ({"dry_run": True}, {"confirm": lambda: False}):
        bench = make_bench()
        bench.apply(rate=20 * MB, **options)
        assert bench.cluster.calls == []
        assert bench.file.data == b""


def test_other_cluster_changed_list_and_foreign_move_are_refused() -> None:
    bench = make_bench()
    bench.cluster.cluster_id = "another"
    with pytest.raises(RefusedError, match="plan is for cluster"):
        bench.apply()
    bench = make_bench()
    with pytest.raises(RefusedError, match="pinned"):
        bench.apply(pinned_cluster_id="pinned")
    bench = make_bench()
    bench.cluster.reassign({TopicPartition("t", 2): (3, 1, 4)})
    bench.cluster.advance(10)
    with pytest.raises(RefusedError, match=r"t-2 was \[3,1,2\], is \[3,1,4\]"):
        bench.apply()
    assert bench.apply(allow_drift=True).ok
    bench = make_bench()
    bench.cluster.reassign({TopicPartition("t", 0): (1, 2, 4)})
    bench.cluster.advance(10)
    with pytest.raises(RefusedError, match="t-0"):
        bench.apply(allow_drift=True)
    bench = make_bench(line_rate=1.0)
    bench.cluster.reassign({bench.plan.moves[0].key: (2, 3, 4)})
    with pytest.raises(RefusedError, match="other moves run") as refused:
        bench.apply(allow_drift=True)
    assert refused.value.hint == "wait for them, or cancel them:\nkafkakit --profile p reassign abort --partition t-0"


def test_a_foreign_move_to_a_dead_broker_is_not_waited_for() -> None:
    for key, words in (
        (TopicPartition("t", 0), "other moves run"),
        (TopicPartition("w", 0), "not started by this run"),
    ):
        bench = make_bench()
        bench.cluster.add_topic("w", {0: (1, 2, 3)}, size_bytes=MB)
        bench.cluster.add_broker(9)
        bench.cluster.reassign({key: (1, 2, 9)})
        bench.cluster.kill(9)
        with pytest.raises(RefusedError, match=words) as refused:
            bench.apply()
        assert str(refused.value.hint).rpartition("\n")[2] == f"kafkakit --profile p reassign abort --partition {key}"
        with pytest.raises(RefusedError, match="cannot end while broker 9 is not alive") as waited:
            bench.apply(wait_for_others=True, stall_timeout_s=60.0)
        assert waited.value.hint == f"kafkakit --profile p reassign abort --partition {key}"
        assert [name for name, _ in bench.cluster.calls] == ["reassign"]


def test_a_foreign_rate_is_refused_with_the_command_that_removes_it() -> None:
    bench = make_bench()
    bench.cluster.brokers[4].configs[FOLLOWER_RATE] = "1000"
    with pytest.raises(RefusedError, match="brokers already have replication throttles") as refused:
        bench.apply(rate=20 * MB)
    assert str(refused.value.hint).rpartition("\n")[2] == "kafkakit --profile p reassign cleanup --all"


def test_dead_destination_is_refused_by_name_and_dead_source_is_not() -> None:
    bench = make_bench()
    bench.cluster.kill(4)
    with pytest.raises(RefusedError, match="broker 4, which is not alive"):
        bench.apply()
    bench = make_bench()
    bench.cluster.kill(1)
    outcome = bench.apply(rate=20 * MB)
    assert outcome.problems == ()
    assert outcome.ok


def test_a_topic_that_is_deleted_during_a_run_is_noted_and_the_rest_is_done() -> None:
    bench = make_bench(line_rate=5 * MB)
    bench.clock.on_sleep.append(lambda _: bench.cluster.topics.pop("u", None))
    outcome = bench.apply(rate=20 * MB)
    assert (outcome.ok, outcome.verdict, outcome.next_commands) == (True, "applied", ())
    assert outcome.notes == ("left out, 1 topic deleted since the plan was made: u-0",)
    assert bench.lists()["t", 0] == (4, 2, 3)
    state = bench.journal().state
    assert (state.throttled, state.unsettled) == (False, False)
    verify_journal(bench.file.data)
    again = bench.apply()
    assert (again.ok, again.verdict, again.notes) == (True, "already applied", outcome.notes)


def test_a_topic_that_is_deleted_before_the_run_is_drift() -> None:
    bench = make_bench()
    bench.cluster.topics.pop("u")
    with pytest.raises(RefusedError, match="u-0 is gone") as refused:
        bench.apply()
    assert refused.value.hint == "continue with --allow-drift, or make a new plan"
    commands = Commands(program="kafkakit", plan="p.json", operation="kafkakit broker drain 1 --yes")
    with pytest.raises(RefusedError, match="u-0 is gone") as refused:
        bench.apply(commands=commands)
    assert str(refused.value.hint).endswith("plan the rest anew:\nkafkakit broker drain 1 --yes --replan")
    done = bench.apply(allow_drift=True)
    assert (done.ok, done.notes) == (True, ("left out, 1 topic deleted since the plan was made: u-0",))


def test_a_topic_that_is_made_anew_leads_to_the_close_of_the_run() -> None:
    """The hint was the command that had just failed, in a circle."""
    bench = make_bench(line_rate=5 * MB)

    def make_anew(_: float) -> None:
        bench.clock.on_sleep.remove(make_anew)
        bench.cluster.topics.pop("u")
        bench.cluster.add_topic("u", {0: (1, 2, 3)}, size_bytes=MB)

    bench.clock.on_sleep.append(make_anew)
    outcome = bench.apply(rate=20 * MB)
    assert "topic recreated" in outcome.problems[0]
    assert outcome.next_commands == (f"kafkakit --profile p reassign close --run {bench.journal().state.run_id}",)
    again = bench.apply(allow_drift=True)
    assert again.next_commands == outcome.next_commands
    assert bench.journal().state.unsettled, "so that it can be closed"


def test_destination_killed_mid_move_stops_the_run_lifts_throttles_and_rollback_works() -> None:
    bench = make_bench(line_rate=1 * MB)
    before = bench.lists()
    at(bench, 3, lambda: bench.cluster.kill(4))
    outcome = bench.apply(rate=20 * MB)
    assert not outcome.ok
    assert "broker 4 is not alive" in outcome.problems[0]
    assert "broker 4" in outcome.owed[0]
    assert any("broker 4 is not alive" in w for w in bench.reporter.warned)
    assert all(LEADER_RATE not in b.configs for b in bench.cluster.brokers.values())
    assert all(not t.configs for t in bench.cluster.topics.values())
    assert len(bench.cluster.reassignments()) == 3
    undone = bench.rollback()
    assert bench.lists() == before
    assert undone.problems == ()
    assert undone.owed
    bench.cluster.revive(4)
    last = bench.rollback()
    assert last.ok
    assert not bench.cluster.brokers[4].configs
    verify_effects(verify_journal(bench.file.data), bench.cluster.calls)


def test_stall_stops_the_run() -> None:
    bench = make_bench(line_rate=0.0)
    outcome = bench.apply(stall_timeout_s=30)
    assert "no progress for 30s" in outcome.problems[0]
    assert outcome.problems[1] == "moves that stay on the cluster and continue without a throttle: 3"
    assert bench.clock.elapsed < 60


def test_offline_log_dir_on_a_destination_stops_the_run() -> None:
    bench = make_bench(line_rate=1 * MB)
    at(bench, 2, lambda: bench.cluster.fail_dir(4, "/data/4/0"))
    outcome = bench.apply(rate=20 * MB)
    assert "log dir went offline on a destination: 4:/data/4/0" in outcome.problems[0]
    assert not bench.journal().state.throttled


def test_short_troubles_are_waited_out_and_long_ones_end_with_try_later() -> None:
    bench = make_bench()
    bench.cluster.fail_next("reassign", TryLaterError("controller moved"), times=2, after_effect=True)
    bench.cluster.fail_next("partition_states", TryLaterError("no answer"), times=3)
    bench.cluster.fail_next("alter_configs", TryLaterError("no answer"), times=2)
    assert bench.apply(rate=20 * MB).ok
    bench = make_bench()
    bench.cluster.fail_next("reassign", TryLaterError("nobody home"), times=1000)
    with pytest.raises(TryLaterError, match="throttles may still be set") as caught:
        bench.apply(rate=20 * MB)
    assert caught.value.hint is not None
    assert "reassign apply p.json --yes" in caught.value.hint


def test_ctrl_c_keeps_the_throttle_while_moves_run_and_the_next_run_takes_over() -> None:
    bench = make_bench(line_rate=1 * MB)

    def press(_: float) -> None:
        if bench.clock.elapsed > 5:
            bench.clock.on_sleep.remove(press)
            raise KeyboardInterrupt

    bench.clock.on_sleep.append(press)
    with pytest.raises(InterruptedRunError) as caught:
        bench.apply(rate=20 * MB)
    assert "3 of 3 moves still run" in caught.value.message
    assert "20 MB/s stays set on brokers 1, 2, 3, 4" in caught.value.message
    assert "kafkakit --profile p reassign apply p.json --yes" in (caught.value.hint or "")
    assert bench.cluster.brokers[4].configs == {FOLLOWER_RATE: "20000000"}
    outcome = bench.apply()
    assert outcome.ok
    assert outcome.rates == BrokerRates(into=20 * MB, out=20 * MB)
    assert bench.configs() == {k: {} for k in bench.configs()}


def test_throttle_none_drops_the_throttle_of_an_interrupted_run_first() -> None:
    bench = make_bench(line_rate=1 * MB)

    def press(_: float) -> None:
        bench.clock.on_sleep.remove(press)
        raise KeyboardInterrupt

    bench.clock.on_sleep.append(press)
    with pytest.raises(InterruptedRunError):
        bench.apply(rate=20 * MB)
    seen: list[bool] = []
    bench.clock.on_sleep.append(lambda _: seen.append(any(bench.configs().values())))
    assert bench.apply(throttle_off=True).ok
    assert not any(seen[1:])


def test_value_changed_by_somebody_else_meanwhile_is_left_alone() -> None:
    bench = make_bench(line_rate=1 * MB)

    def meddle(_: float) -> None:
        bench.cluster.brokers[2].configs[LEADER_RATE] = "5000000"

    bench.clock.on_sleep.append(meddle)
    outcome = bench.apply(rate=20 * MB)
    assert outcome.ok
    assert bench.cluster.brokers[2].configs == {LEADER_RATE: "5000000"}
    assert any("another process changed" in w for w in bench.reporter.warned)


def test_move_cancelled_by_somebody_else_is_reported() -> None:
    bench = make_bench(line_rate=1 * MB)
    key = bench.plan.moves[0].key
    bench.clock.on_sleep.append(lambda _: bench.clock.elapsed > 3 and bench.cluster.cancel([key]))
    outcome = bench.apply()
    assert "cancelled or changed by another process" in outcome.problems[0]
    assert not outcome.ok


def test_refused_move_is_a_problem_and_the_others_go_on() -> None:
    bench = make_bench()
    bench.cluster.fail_item("reassign", bench.plan.moves[0].key, ItemError(name="PolicyViolationError"))
    outcome = bench.apply(rate=20 * MB)
    assert outcome.problems[0].startswith("t-0 was not accepted: PolicyViolationError")
    assert bench.lists()["u", 0] == (3, 4)
    assert not any(bench.configs().values())


def test_broker_that_refuses_the_throttle_stops_the_run_before_any_move() -> None:
    bench = make_bench()
    change = ConfigChange(kind=ResourceKind.BROKER, name="4", key=FOLLOWER_RATE, op=ConfigOp.SET, value=str(20 * MB))
    bench.cluster.fail_item("alter_configs", change, ItemError(name="ClusterAuthorizationFailedError"))
    outcome = bench.apply(rate=20 * MB)
    assert "does not take the throttle" in outcome.problems[0]
    assert all(name != "reassign" for name, _ in bench.cluster.calls)
    assert not any(bench.configs().values())


def test_rollback_of_a_finished_plan_puts_lists_and_leaders_back() -> None:
    bench = make_bench()
    before = bench.lists()
    bench.apply(rate=20 * MB)
    outcome = bench.rollback(rate=20 * MB)
    assert outcome.verdict == "rolled back"
    assert outcome.ok
    assert bench.lists() == before
    assert bench.cluster.topics["t"].partitions[0].leader == 1
    assert bench.rollback().verdict == "nothing to roll back"
    assert bench.apply().ok


def test_rollback_of_a_plan_that_never_ran_does_nothing() -> None:
    bench = make_bench()
    assert bench.rollback().verdict == "nothing to roll back"
    assert bench.cluster.calls == []
    assert bench.file.data == b""


def test_rollback_does_not_copy_onto_a_dead_broker_but_undoes_the_rest() -> None:
    bench = make_bench()
    bench.apply()
    bench.cluster.kill(1)
    outcome = bench.rollback()
    assert not outcome.ok
    assert "t-0 stays as it is" in outcome.problems[0]
    assert bench.lists()["t", 0] == (4, 2, 3)


def test_no_room_on_the_destination_is_refused() -> None:
    cluster = FakeCluster({1: "a", 2: "b", 4: "a"}, dir_bytes=60 * MB)
    cluster.add_topic("t", {0: (1, 2)}, size_bytes=50 * MB)
    cluster.add_topic("fill", {0: (4,)}, size_bytes=20 * MB)
    bench = Harness(cluster, make_plan(cluster, {("t", 0): (4, 2)}))
    with pytest.raises(InfeasibleError, match=r"t-0: 4:/data/4/0 lacks .* under its limit for a copy of") as caught:
        bench.apply()
    assert caught.value.exit_code == 4
    assert not cluster.calls


def test_another_plans_unfinished_run_is_in_the_way_and_its_leftovers_are_removed_first() -> None:
    first = make_bench(line_rate=1 * MB)
    at(first, 2, stop_pressed)
    with pytest.raises(InterruptedRunError):
        first.apply(rate=20 * MB, plan_path="/plans/my p.json")
    second = Harness(first.cluster, make_plan(first.cluster, {("t", 2): (4, 1, 2)}, topics=["t"]))
    second.others.append(first.file)
    with pytest.raises(RefusedError, match=r"3 moves of /plans/my p\.json run under its throttle") as caught:
        second.apply(rate=5 * MB, allow_drift=True)
    run = first.journal().state.run_id
    assert f"\nkafkakit --profile p reassign rollback --run {run} --yes" in (caught.value.hint or "")
    first.cluster.advance(1000)
    assert second.apply(rate=5 * MB, allow_drift=True).ok
    assert not any(first.configs().values())
    verify_journal(first.file.data)


def stop_pressed() -> None:
    raise KeyboardInterrupt


def test_another_rate_on_resume_still_restores_the_value_before_the_first_run() -> None:
    bench = make_bench(line_rate=1 * MB)
    bench.cluster.brokers[1].configs[LEADER_RATE] = "777"
    before = bench.configs()
    at(bench, 2, stop_pressed)
    with pytest.raises(InterruptedRunError):
        bench.apply(rate=20 * MB, join=True)
    assert bench.apply(rate=30 * MB).ok
    assert bench.configs() == before
    verify_journal(bench.file.data)


def test_a_stop_in_the_middle_of_a_journal_write_loses_nothing() -> None:
    bench = make_bench()
    bench.apply(rate=20 * MB)
    for number in range(1, bench.file.writes):
        bench = make_bench()
        before = bench.configs()
        bench.file.stop_at = number
        try:
            bench.apply(rate=20 * MB)
            stopped = False
        except InterruptedRunError:
            stopped = True
            bench.apply()
        assert stopped
        assert bench.configs() == before
        assert {k: v for k, v in bench.lists().items() if k in TARGETS} == TARGETS
        verify_effects(verify_journal(bench.file.data), bench.cluster.calls)


def test_journal_lines_fit_their_schema() -> None:
    text = resources.files("kafkakit").joinpath("core", "schemas", "journal.schema.json").read_text(encoding="utf-8")
    validator = Draft202012Validator(json.loads(text))
    bench = make_bench()
    bench.apply(rate=20 * MB)
    bench.rollback(rate=20 * MB)
    lines = [json.loads(line) for line in bench.file.data.splitlines()]
    assert {line["what"] for line in lines} >= {"open", "start", "throttle", "reassign", "elect", "restore", "end"}
    for line in lines:
        validator.validate(line)
    assert not validator.is_valid({k: v for k, v in lines[0].items() if k != "kafkakit"})
    intent = next(line for line in lines if line["kind"] == "intent")
    assert not validator.is_valid(intent | {"kind": "effect"})


def test_a_rate_that_could_not_be_read_is_never_taken_for_unset() -> None:
    bench = make_bench()
    bench.cluster.brokers[1].configs[LEADER_RATE] = "777"
    before = bench.configs()
    read = bench.cluster.dynamic_configs
    hidden = iter([True, True])

    def forgetful(kind: ResourceKind, names: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        found = dict(read(kind, names))
        if "1" in names and next(hidden, False):
            del found["1"]  # the broker was slow, its answer is not there
        return found

    bench.cluster.dynamic_configs = forgetful  # type: ignore[method-assign]
    assert bench.apply(rate=20 * MB).ok
    assert next(hidden, None) is None
    assert bench.configs() == before
    verify_journal(bench.file.data)


def test_a_broker_that_stays_silent_stops_the_run_before_any_move() -> None:
    bench = make_bench()
    bench.cluster.hang(1)
    outcome = bench.apply(rate=20 * MB)
    assert "broker 1 does not answer, its throttle cannot be set" in outcome.problems[0]
    assert all(name != "reassign" for name, _ in bench.cluster.calls)


def leaderless_bench() -> Harness:
    """Partition t-0 has its only in-sync copy on broker 1, which dies; t-1 and u-0 can move."""
    cluster = make_cluster()
    cluster.topics["t"].partitions[0].isr = [1]
    cluster.topics["t"].partitions[0].copied.update({2: 0, 3: 0})
    bench = Harness(cluster, make_plan(cluster, TARGETS))
    cluster.kill(1)
    assert cluster.topics["t"].partitions[0].leader is None
    return bench


def test_a_partition_without_a_live_source_is_named_and_does_not_hold_up_the_others() -> None:
    bench = leaderless_bench()
    outcome = bench.apply(rate=20 * MB, batch_size=1)
    assert outcome.problems[0] == ("no live source, nothing can be copied: t-0 (waits for broker 1)")
    assert any("t-0 (waits for broker 1)" in w for w in bench.reporter.warned)
    assert bench.lists()["t", 0] == (1, 2, 3)
    assert bench.lists()["t", 1] == (4, 2, 3)
    assert bench.lists()["u", 0] == (3, 4)
    assert bench.clock.elapsed < 60
    bench.cluster.revive(1)
    bench.cluster.advance(100)
    assert bench.apply().ok
    assert not any(bench.configs().values())
    verify_effects(verify_journal(bench.file.data), bench.cluster.calls)


def test_a_source_lost_mid_move_stops_the_run_after_a_short_grace() -> None:
    cluster = FakeCluster({1: "a", 2: "b", 3: "c"}, line_rate=1 * MB)
    cluster.add_topic("t", {0: (1,)}, size_bytes=50 * MB)
    bench = Harness(cluster, make_plan(cluster, {("t", 0): (3,)}))
    at(bench, 3, lambda: cluster.kill(1))
    outcome = bench.apply(rate=20 * MB)
    assert "no live source, nothing is copied: t-0 (waits for broker 1)" in outcome.problems[0]
    assert bench.clock.elapsed < 60
    assert any("no live source, waiting for one" in w for w in bench.reporter.warned)
    cluster.revive(1)
    assert bench.apply().ok
    assert not any(bench.configs().values())


def test_a_journal_write_that_fails_halfway_does_not_spoil_the_journal() -> None:
    bench = make_bench()
    append = bench.file.append

    def full_disk(line: bytes) -> None:
        if bench.file.writes == 6:
            bench.file.writes += 1
            bench.file.data += line[:20]
            raise OperationFailedError("the journal cannot be written: No space left on device")
        append(line)

    bench.file.append = full_disk  # type: ignore[method-assign]
    outcome = bench.apply(rate=20 * MB)
    assert "No space left" in outcome.problems[0]
    verify_effects(verify_journal(bench.file.data), bench.cluster.calls)
    assert bench.apply().ok
    assert not any(bench.configs().values())


def test_a_disk_that_stays_full_ends_the_run_with_the_command_that_goes_on() -> None:
    bench = make_bench()
    append = bench.file.append

    def full_disk(line: bytes) -> None:
        if bench.file.writes >= 6:
            raise OperationFailedError("the journal cannot be written: No space left on device")
        append(line)

    bench.file.append = full_disk  # type: ignore[method-assign]
    with pytest.raises(OperationFailedError, match="its throttles may be set") as caught:
        bench.apply(rate=20 * MB)
    assert "reassign apply p.json --yes" in (caught.value.hint or "")


def test_a_second_ctrl_c_still_says_how_to_go_on() -> None:
    bench = make_bench(line_rate=1 * MB)

    def press(_: float) -> None:
        bench.clock.on_sleep.remove(press)
        bench.cluster.fail_next("cluster", KeyboardInterrupt())
        raise KeyboardInterrupt

    bench.clock.on_sleep.append(press)
    with pytest.raises(InterruptedRunError, match="moves may still run") as caught:
        bench.apply(rate=20 * MB)
    assert "reassign apply p.json --yes" in (caught.value.hint or "")


def test_when_only_a_throttle_on_a_dead_broker_is_left_nothing_that_undoes_the_moves_is_proposed() -> None:
    bench = make_bench(line_rate=20 * MB)
    at(bench, 1, lambda: bench.cluster.kill(1))
    outcome = bench.apply(rate=20 * MB)
    assert (outcome.verdict, outcome.problems) == ("applied", ())
    assert "broker 1, which is not alive" in outcome.owed[0]
    assert outcome.next_commands == ("kafkakit --profile p reassign verify p.json",)


def test_a_move_that_cannot_be_cancelled_does_not_hold_up_the_rest_of_a_rollback() -> None:
    bench = make_bench(line_rate=1 * MB)
    before = bench.lists()
    at(bench, 3, stop_pressed)
    with pytest.raises(InterruptedRunError):
        bench.apply(rate=20 * MB)
    key = bench.plan.moves[0].key
    bench.cluster.fail_item("cancel", key, ItemError(name="InvalidReplicationAssignmentError", message="unclean"))
    outcome = bench.rollback()
    assert outcome.problems[0] == "t-0 cannot be cancelled now: InvalidReplicationAssignmentError: unclean"
    assert [r.partition for r in bench.cluster.reassignments()] == [0]
    assert {k: v for k, v in bench.lists().items() if k != ("t", 0)} == {
        k: v for k, v in before.items() if k != ("t", 0)
    }
    assert bench.rollback().ok
    assert bench.lists() == before
    assert not any(bench.configs().values())


def test_bytes_copied_before_a_fault_are_counted() -> None:
    cluster = FakeCluster({1: "a", 2: "b", 3: "c"}, line_rate=1 * MB)
    cluster.add_topic("t", {0: (1,), 1: (2,)}, size_bytes=5 * MB)
    bench = Harness(cluster, make_plan(cluster, {("t", 0): (3,), ("t", 1): (3,)}))
    at(bench, 3, lambda: cluster.kill(1))
    outcome = bench.apply()
    assert not outcome.ok
    assert 5 * MB <= outcome.copied_bytes < 10 * MB


def test_a_run_does_not_begin_beside_moves_of_others_until_it_is_told() -> None:
    bench = make_bench(line_rate=4 * MB)
    bench.cluster.add_topic("others", {0: (1,)}, size_bytes=40 * MB)
    bench.cluster.reassign({TopicPartition("others", 0): (3,)})
    calls = len(bench.cluster.calls)
    for dry_run in (True, False):
        with pytest.raises(RefusedError, match=r"1 move not started by this run is in flight: others-0") as caught:
            bench.apply(dry_run=dry_run)
        assert "--wait-for-others" in (caught.value.hint or "")
        assert "--join" in (caught.value.hint or "")
    assert len(bench.cluster.calls) == calls
    assert bench.apply(wait_for_others=True).ok
    assert any("waiting for the end of it: others-0" in line for line in bench.reporter.warned)
    assert bench.cluster.topics["others"].partitions[0].replicas == [3]


def test_a_run_does_not_set_rates_over_those_of_others_until_it_is_told() -> None:
    bench = make_bench()
    bench.cluster.brokers[1].configs[LEADER_RATE] = "777"
    before = bench.configs()
    with pytest.raises(RefusedError, match=f"{LEADER_RATE} on broker 1 is 777"):
        bench.apply(rate=20 * MB)
    assert bench.cluster.calls == []
    assert bench.apply(rate=20 * MB, join=True).ok
    assert bench.configs() == before


def test_rates_of_others_are_no_matter_to_a_run_without_a_throttle() -> None:
    bench = make_bench()
    bench.cluster.brokers[1].configs[LEADER_RATE] = "777"
    assert bench.apply().ok


def test_an_undo_is_never_refused_because_of_others() -> None:
    bench = make_bench(line_rate=1 * MB)
    at(bench, 2, stop_pressed)
    with pytest.raises(InterruptedRunError):
        bench.apply(rate=20 * MB)
    bench.cluster.add_topic("others", {0: (1,)}, size_bytes=400 * MB)
    bench.cluster.reassign({TopicPartition("others", 0): (3,)})
    assert bench.rollback().ok


TARGETS_LOST_JOURNAL = {("t", 0): (4, 2), ("t", 1): (4, 3), ("u", 0): (4, 1)}


def make_bench_lost_journal() -> Harness:
    """Others have a rate that the run replaces, and an entry in a list that it adds to."""
    cluster = FakeCluster({1: "a", 2: "b", 3: "c", 4: "d"}, line_rate=20 * MB)
    cluster.add_topic("t", {0: (1, 2), 1: (2, 3), 2: (3, 1)}, size_bytes=40 * MB, configs={FOLLOWER_LIST: "2:9"})
    cluster.add_topic("u", {0: (3, 1)}, size_bytes=40 * MB)
    cluster.brokers[1].configs[LEADER_RATE] = "777"
    return Harness(cluster, make_plan(cluster, TARGETS_LOST_JOURNAL))


def killed_in_flight() -> Harness:
    bench = make_bench_lost_journal()

    def kill(_: float) -> None:
        if bench.clock.elapsed > 3:
            bench.clock.on_sleep.remove(kill)
            raise Killed

    bench.clock.on_sleep.append(kill)
    with pytest.raises(Killed):
        bench.apply(rate=5 * MB)
    assert bench.cluster.reassignments()
    return bench


def flipped(data: bytes) -> Iterator[bytes]:
    """One bit of each line is another one."""
    starts = [0, *(n + 1 for n, byte in enumerate(data[:-1]) if byte == ord("\n"))]
    for start in starts:
        place = start + (data.find(b"\n", start) - start) * 3 // 4
        yield data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def cut_short(data: bytes) -> Iterator[bytes]:
    """Whole lines are gone at the end, or all of them."""
    lines = data.splitlines(keepends=True)
    yield from (b"".join(lines[:count]) for count in range(len(lines)))


@pytest.mark.parametrize("damage", [flipped, cut_short])
@pytest.mark.parametrize("verb", ["apply", "rollback", "abort"])
def test_whatever_became_of_the_journal_the_next_run_leaves_no_throttle(
    damage: Callable[[bytes], Iterator[bytes]], verb: str
) -> None:
    whole = killed_in_flight().file.data
    cases = list(damage(whole))
    assert len(cases) == whole.count(b"\n")
    for number, data in enumerate(cases):
        bench = killed_in_flight()
        lists, before = make_bench_lost_journal().lists(), make_bench_lost_journal().configs()
        bench.file.data = data
        known = bench.journal().state.baseline is not None
        outcome = bench.run().carry_out(verb)
        told = f"{verb} after damage {number}: {outcome.problems} {outcome.owed} {bench.reporter.warned}"
        assert outcome.ok, told
        assert not bench.cluster.reassignments(), told
        assert bench.lists() == (lists | TARGETS_LOST_JOURNAL if verb == "apply" else lists), told
        now = bench.configs()
        if not known:  # what stood before the run is lost with the line that said it
            assert now["broker 1"].pop(LEADER_RATE, "777") == "777", told
            before["broker 1"].pop(LEADER_RATE)
        assert now == before, told
        verify_journal(bench.file.data)


def test_what_stood_before_the_run_is_never_taken_for_its_own() -> None:
    bench = make_bench_lost_journal()
    bench.cluster.topics["t"].configs[FOLLOWER_LIST] = "0:4,2:9"
    bench.cluster.brokers[4].configs[FOLLOWER_RATE] = "8880000"
    before = bench.configs()

    def kill(_: float) -> None:
        if bench.clock.elapsed > 3:
            bench.clock.on_sleep.remove(kill)
            raise Killed

    bench.clock.on_sleep.append(kill)
    with pytest.raises(Killed):
        bench.apply(rate=5 * MB)
    bench.file.data = b"".join(bench.file.data.splitlines(keepends=True)[:2])  # the start, with what it found
    assert bench.rollback().ok
    assert bench.configs() == before


def test_a_move_between_the_same_brokers_is_not_the_plans_where_no_run_was_begun() -> None:
    cluster = FakeCluster({1: "a", 2: "b", 3: "c", 4: "d"}, line_rate=2 * MB)
    cluster.add_topic("t", {0: (1, 2)}, size_bytes=40 * MB, configs={FOLLOWER_LIST: "0:4"})
    cluster.brokers[4].configs[FOLLOWER_RATE] = "1000000"
    bench = Harness(cluster, make_plan(cluster, {("t", 0): (4, 2)}))
    theirs = TopicPartition("t", 0)
    assert cluster.reassign({theirs: (1, 4, 2)}) == {theirs: None}
    with pytest.raises(RefusedError, match=r"other moves run on planned partitions: t-0 to \[1,4,2\]"):
        bench.apply(rate=5 * MB)
    assert [m.target for m in cluster.reassignments()] == [(1, 4, 2)]
