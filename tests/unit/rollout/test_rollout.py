"""Rollouts on a cluster in memory; the robust test."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.core.cluster_facts import CLUSTER_DEFAULT, LayeredValue, PartitionState, ResourceKind
from kafkakit.core.errors import (
    InputError,
    LeaseHeldError,
    LeaseLostError,
    OperationFailedError,
    RefusedError,
    TryLaterError,
    UsageError,
)
from kafkakit.core.lease import Holder, Life
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.execution.act.control_requests import ControlRequests
from kafkakit.execution.act.leases import ClusterAccess, Lease, lease_path
from kafkakit.rollout.act import writing as journal_files
from kafkakit.rollout.act.rollouts import NamedState, PlanCheck, abort_or_request, is_applied, rehearse, usable_plan
from kafkakit.rollout.decide.plan import ConfigPlan, without_restarts
from kafkakit.rollout.decide.rollout import (
    HealthLook,
    PartitionView,
    RolloutEnd,
    Signal,
    WindowHealth,
    baseline_of,
    judge,
    lag_look,
    limit_of,
    look_between,
    looks_in,
    prometheus_queries,
)
from kafkakit.rollout.decide.settings import StepSize
from tests.fakes.admin import FakeClock, FakeCluster
from tests.fakes.control import FakeControlStore
from tests.fakes.groups import FakeGroups
from tests.fakes.log_reader import FakeLogReader
from tests.rigs.reassign import Killed
from tests.rigs.rollouts import WATCH, Dying, DyingCluster, DyingFile, FakeMetrics, Harness

DAY = "86400000"
TOPIC = ResourceKind.TOPIC


@pytest.fixture
def bench(tmp_path: Path) -> Harness:
    return Harness(tmp_path)


def retention(bench: Harness) -> ConfigPlan:
    return bench.plan(f"retention.ms={DAY}", topics="a,b,c")


def test_a_good_change_passes_step_by_step(bench: Harness) -> None:
    plan = retention(bench)
    done = bench.apply(plan)
    assert done.state.end is RolloutEnd.APPLIED
    assert [s.name for s in plan.steps] == ["topic a", "topics b, c"]
    assert done.state.passed == (0, 1)
    assert [line for line in bench.reporter.said if line.startswith("step")] == [
        "step 1 of 2: topic a",
        "step 2 of 2: topics b, c",
    ]
    assert {name: t.configs for name, t in bench.cluster.topics.items()} == {
        name: {"retention.ms": DAY} for name in "abc"
    }
    # Each step is watched for a whole window before the next.
    calls = [c for c in bench.cluster.calls if c[0] == "alter_configs"]
    assert [len(changes) for _, changes in calls] == [1, 2]
    assert bench.clock.elapsed >= WATCH.baseline_s + 2 * (WATCH.window_s - WATCH.every_s)


def test_what_is_set_already_is_not_done_again(bench: Harness) -> None:
    plan = retention(bench)
    bench.apply(plan)
    calls = len(bench.cluster.calls)
    assert bench.rollouts.apply(plan, WATCH, lambda: True) is None
    assert is_applied(plan, bench.configs)
    assert len(bench.cluster.calls) == calls


def test_without_consent_nothing_is_begun(bench: Harness) -> None:
    assert bench.rollouts.apply(retention(bench), WATCH, lambda: False) is None
    assert bench.cluster.calls == []
    assert bench.rollouts.journals.states() == ()


def test_a_default_is_tried_on_brokers_first_and_leaves_no_trial(bench: Harness) -> None:
    plan = bench.plan("log.cleaner.backoff.ms=20000", cluster_default=True)
    assert [s.name for s in plan.steps] == ["for a trial broker 1", "cluster default"]
    seen: list[dict[str, dict[str, str]]] = []
    bench.cluster.before_call.append(lambda *_: seen.append(bench.settings()))
    assert bench.apply(plan).state.end is RolloutEnd.APPLIED
    bench.cluster.before_call.clear()
    assert seen[1]["broker 1"] == {"log.cleaner.backoff.ms": "20000"}
    assert bench.settings()["default"] == {"log.cleaner.backoff.ms": "20000"}
    assert all(bench.settings()[f"broker {b}"] == {} for b in (1, 2, 3))


@pytest.mark.parametrize("second", [62, 75, 100])
def test_what_makes_the_cluster_worse_is_taken_back_within_two_windows(bench: Harness, second: float) -> None:
    bench.cluster.topics["b"].configs["retention.ms"] = "1000"
    before = bench.settings()
    plan = retention(bench)
    bench.after_seconds(second, lambda: bench.cluster.kill(3))
    done = bench.apply(plan)
    assert done.state.end is RolloutEnd.TAKEN_BACK
    assert "ISR shrinks: 9, usual 0, limit 3.5" in done.state.reasons[0]
    assert bench.settings() == before
    assert bench.clock.elapsed - second <= 2 * WATCH.window_s


def test_a_broker_that_has_not_heard_of_a_step_when_it_is_asked_first_hides_nothing(
    bench: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.cluster.kill(3)
    plan = bench.plan("min.insync.replicas=3", topics="a")
    real, late = bench.cluster.snapshot, list[ClusterSnapshot]()

    def snapshot(*, now: datetime, topics: Collection[str] | None = None, sizes: bool = True) -> ClusterSnapshot:
        found = real(now=now, topics=topics, sizes=sizes)
        if late or not any(call[0] == "alter_configs" for call in bench.cluster.calls):
            return found
        late.append(replace(found, topics=tuple(replace(topic, configs={}) for topic in found.topics)))
        return late[0]

    monkeypatch.setattr(bench.cluster, "snapshot", snapshot)
    done = bench.apply(plan)
    assert late
    assert done.state.end is RolloutEnd.TAKEN_BACK
    assert "partitions under min ISR" in done.state.reasons[0]


def test_a_min_isr_above_what_is_alive_is_taken_back(bench: Harness) -> None:
    bench.cluster.kill(3)
    plan = bench.plan("min.insync.replicas=3", topics="a")
    done = bench.apply(plan)
    assert done.state.end is RolloutEnd.TAKEN_BACK
    assert "partitions under min ISR: 3 (a-0, a-1, a-2), usual 0, limit 0" in done.state.reasons[0]
    assert bench.cluster.topics["a"].configs == {}


def test_a_key_that_another_process_changed_before_stops_the_rollout_and_is_left_alone(bench: Harness) -> None:
    plan = retention(bench)
    bench.after_seconds(65, lambda: bench.set_by_another("c", "retention.ms", "7"))
    done = bench.apply(plan)
    assert done.state.end is RolloutEnd.TAKEN_BACK
    assert done.state.reasons == ("topic c retention.ms is 7, and was not set: another process changed it",)
    assert {n: t.configs for n, t in bench.cluster.topics.items()} == {"a": {}, "b": {}, "c": {"retention.ms": "7"}}


def test_a_value_of_ours_that_another_process_changed_is_left_and_reported(bench: Harness) -> None:
    plan = retention(bench)
    bench.after_seconds(65, lambda: bench.set_by_another("a", "retention.ms", "7"))
    bench.after_seconds(70, lambda: bench.cluster.kill(3))
    done = bench.apply(plan)
    assert done.state.end is RolloutEnd.INCOMPLETE
    assert done.state.left == ("topic a retention.ms is 7 by now, which is not of this rollout",)
    assert bench.cluster.topics["a"].configs == {"retention.ms": "7"}


OURS = "topic a retention.ms is 7, and was set to 86400000: another process changed it"


@pytest.mark.parametrize("second", [75, 100])
def test_a_value_of_a_step_that_passed_is_read_back_before_the_rollout_counts_as_applied(
    bench: Harness, second: float
) -> None:
    """In the first step's own window, and in that of the last step, after which nothing else would look."""
    plan = retention(bench)
    bench.after_seconds(second, lambda: bench.set_by_another("a", "retention.ms", "7"))
    done = bench.apply(plan)
    assert (done.state.end, done.state.reasons) == (RolloutEnd.INCOMPLETE, (OURS,))
    assert done.state.left == ("topic a retention.ms is 7 by now, which is not of this rollout",)
    assert {n: t.configs for n, t in bench.cluster.topics.items()} == {"a": {"retention.ms": "7"}, "b": {}, "c": {}}
    again = bench.rollouts.take_back(bench.rollouts.journals.last_applied(), "again")
    assert (again.state.end, again.state.left) == (RolloutEnd.INCOMPLETE, done.state.left)
    assert bench.cluster.topics["a"].configs == {"retention.ms": "7"}


def test_a_rollout_that_goes_on_reads_back_what_passed_before(bench: Harness) -> None:
    """Before its next step, so that nothing more is set beside the other process."""
    plan = retention(bench)
    failing = iter([None, LeaseLostError("lost")])

    def fail_second(name: str, _: object) -> None:
        if name == "alter_configs" and (error := next(failing, None)) is not None:
            raise error

    bench.cluster.before_call.append(fail_second)
    with pytest.raises(LeaseLostError):
        bench.apply(plan)
    bench.set_by_another("a", "retention.ms", "7")
    bench.reporter.said.clear()
    done = bench.rollouts.proceed(bench.rollouts.journals.only_open())
    assert (done.state.end, done.state.reasons) == (RolloutEnd.INCOMPLETE, (OURS,))
    assert not [line for line in bench.reporter.said if line.startswith("step")]


def test_a_topic_of_a_step_that_passed_and_is_deleted_is_not_applied(bench: Harness) -> None:
    plan = retention(bench)
    bench.after_seconds(100, lambda: bench.cluster.topics.pop("a"))
    done = bench.apply(plan)
    said = "topic a retention.ms: the topic is gone, or the broker does not answer"
    assert (done.state.end, done.state.reasons, done.state.left) == (RolloutEnd.INCOMPLETE, (said,), (said,))
    assert {n: t.configs for n, t in bench.cluster.topics.items()} == {"b": {}, "c": {}}


@pytest.mark.parametrize(("scope", "left"), [({"all_brokers": True}, True), ({"cluster_default": True}, False)])
def test_a_broker_that_does_not_answer_at_the_end_is_not_known_to_run_with_the_value(
    bench: Harness, scope: dict[str, bool], left: bool
) -> None:
    """What was set on the broker itself cannot be taken back there; the default can."""
    plan = bench.plan("log.cleaner.backoff.ms=20000", size=StepSize.ALL, **scope)  # type: ignore[arg-type]
    read = bench.cluster.broker_configs

    def silent(brokers: Collection[int], *, defaults: bool = False) -> Mapping[int, Mapping[str, LayeredValue]]:
        return {b: v for b, v in read(brokers, defaults=defaults).items() if b != 2}

    own = bench.cluster.dynamic_configs

    def gone(kind: ResourceKind, names: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        return {name: values for name, values in own(kind, names).items() if name != "2"}

    bench.after_first_write(20, lambda: setattr(bench.cluster, "broker_configs", silent))
    bench.after_first_write(20, lambda: setattr(bench.cluster, "dynamic_configs", gone))
    done = bench.apply(plan)
    assert done.state.reasons == ("broker 2 does not answer, so that what it runs with is not known",)
    assert done.state.end is (RolloutEnd.INCOMPLETE if left else RolloutEnd.TAKEN_BACK)
    assert bench.clock.elapsed >= WATCH.baseline_s + 20 + 20  # it is waited for


def test_a_broker_that_answers_again_in_time_is_known(bench: Harness) -> None:
    plan = bench.plan("log.cleaner.backoff.ms=20000", brokers=(2,))
    read = bench.cluster.broker_configs
    bench.after_first_write(20, lambda: setattr(bench.cluster, "broker_configs", lambda *_, **__: {}))
    bench.after_first_write(40, lambda: setattr(bench.cluster, "broker_configs", read))
    assert bench.apply(plan).state.end is RolloutEnd.APPLIED


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_broker_that_is_silent_after_its_change_is_waited_for(bench: Harness, is_restarted: bool) -> None:
    plan = bench.plan("replica.fetch.max.bytes=5" if is_restarted else "log.cleaner.backoff.ms=20000", brokers=(2,))
    name = "broker_configs" if is_restarted else "dynamic_configs"
    read, silent = getattr(bench.cluster, name), [3]

    def answer(*asked: Any, **more: Any) -> Any:
        if silent[0] and (bench.restarts or bench.cluster.brokers[2].configs):
            silent[0] -= 1
            return {}
        return read(*asked, **more)

    setattr(bench.cluster, name, answer)
    assert bench.apply(plan).state.end is RolloutEnd.APPLIED
    assert silent == [0]


def test_the_cluster_default_is_read_back_on_each_broker(bench: Harness) -> None:
    bench.cluster.brokers[2].configs["log.cleaner.backoff.ms"] = "9"  # it hid the default before, and may go on
    plan = bench.plan("log.cleaner.backoff.ms=20000", cluster_default=True)
    assert bench.apply(plan).state.end is RolloutEnd.APPLIED
    bench.rollouts.take_back(bench.rollouts.journals.last_applied(), "no")
    begun = bench.clock.elapsed
    values = bench.cluster.brokers[3].configs
    bench.after_seconds(100, lambda: values.update({"log.cleaner.backoff.ms": "7"}))
    done = bench.apply(bench.plan("log.cleaner.backoff.ms=20000", cluster_default=True))
    assert bench.clock.elapsed > begun + 100
    said = "broker 3 log.cleaner.backoff.ms is 7, and was set to 20000: another process changed it"
    assert done.state.reasons == (said,)
    assert (values, bench.cluster.dynamic_default) == ({"log.cleaner.backoff.ms": "7"}, {})


def test_a_default_that_another_process_removes_or_tries_again_is_noticed(bench: Harness) -> None:
    values = bench.cluster.dynamic_default
    plan = bench.plan("log.cleaner.backoff.ms=20000", cluster_default=True)
    bench.after_seconds(100, values.clear)
    reason, *_ = bench.apply(plan).state.reasons
    assert (
        reason == "cluster default log.cleaner.backoff.ms is not set, and was set to 20000: another process changed it"
    )
    values["log.cleaner.backoff.ms"] = "5"
    plan = bench.plan(cluster_default=True, deleted=("log.cleaner.backoff.ms",))
    bench.after_first_write(5, lambda: values.update({"log.cleaner.backoff.ms": "6"}))
    reason, *_ = bench.apply(plan).state.reasons
    assert reason == "cluster default log.cleaner.backoff.ms is 6, and was removed: another process changed it"


def test_a_value_in_the_file_of_a_restarted_broker_is_read_back(bench: Harness) -> None:
    plan = bench.plan("replica.fetch.max.bytes=5", brokers=(1, 2))
    bench.after_seconds(110, lambda: bench.cluster.own_static[1].update({"replica.fetch.max.bytes": "6"}))
    done = bench.apply(plan)
    said = "broker 1 replica.fetch.max.bytes is 6, and was set to 5: another process changed it"
    assert (done.state.end, done.state.reasons) == (RolloutEnd.INCOMPLETE, (said,))
    assert bench.cluster.own_static == {1: {"replica.fetch.max.bytes": "6"}, 2: {}}


def test_a_journal_of_before_does_not_say_which_brokers_hid_the_default(bench: Harness) -> None:
    bench.cluster.brokers[2].configs["log.cleaner.backoff.ms"] = "9"
    plan = bench.plan("log.cleaner.backoff.ms=20000", cluster_default=True)
    bench.cluster.fail_next("alter_configs", LeaseLostError("lost"))
    with pytest.raises(LeaseLostError):
        bench.apply(plan)
    (path,) = bench.folder.glob("config-rollouts/*/*.journal")
    hiding = b',"hiding":[[2,"log.cleaner.backoff.ms"]]'
    first, *_ = path.read_bytes().splitlines(keepends=True)
    assert hiding in first
    # Lines of earlier versions have no checksum either.
    path.write_bytes(first.replace(hiding, b"").rpartition(b',"crc":')[0] + b"}\n")
    state = bench.rollouts.journals.only_open().rollout
    assert state.hiding is None
    assert bench.apply(plan).state.end is RolloutEnd.APPLIED


def test_what_is_changed_again_while_values_are_taken_back_is_named(bench: Harness) -> None:
    bench.apply(retention(bench))
    calls = iter((lambda: None, lambda: bench.set_by_another("c", "retention.ms", "7")))

    def meddle(name: str, _: object) -> None:
        if name == "alter_configs":
            next(calls, lambda: None)()

    bench.cluster.before_call.append(meddle)
    done = bench.rollouts.take_back(bench.rollouts.journals.last_applied(), "no")
    assert done.state.end is RolloutEnd.INCOMPLETE
    assert done.state.left == ("topic c retention.ms is 7 by now, which is not of this rollout",)


def test_brokers_are_asked_before_the_baseline_is_measured(bench: Harness) -> None:
    plan = retention(bench)
    bench.refuse(TOPIC, "c", "retention.ms", DAY, call="check_configs")
    with pytest.raises(OperationFailedError, match=r"would refuse the change: retention.ms of topic c: refused \(Inv"):
        bench.apply(plan)
    assert (bench.clock.elapsed, bench.cluster.calls, bench.rollouts.journals.states()) == (0, [], ())
    bench.refuse(TOPIC, "c", "retention.ms", DAY, call="check_configs")
    assert bench.rollouts.check(plan).refused == ("retention.ms of topic c: refused (InvalidRequestError: no)",)
    assert bench.rollouts.check(plan) == PlanCheck(notes=("nothing is done",))
    assert bench.apply(plan).state.end is RolloutEnd.APPLIED


def test_each_broker_that_will_run_with_a_default_is_asked(bench: Harness) -> None:
    bench.cluster.brokers[2].configs["log.cleaner.backoff.ms"] = "9"
    plan = bench.plan("log.cleaner.backoff.ms=20000", "min.insync.replicas=2", cluster_default=True)
    bench.rollouts.check(plan)
    (asked,) = bench.cluster.checked
    assert [(c.name, c.key) for c in asked] == [
        (CLUSTER_DEFAULT, "log.cleaner.backoff.ms"),
        (CLUSTER_DEFAULT, "min.insync.replicas"),
        ("1", "log.cleaner.backoff.ms"),
        ("3", "log.cleaner.backoff.ms"),
    ]


@pytest.mark.parametrize("scope", [{"brokers": (1, 3)}, {"all_brokers": True}, {"cluster_default": True}])
def test_a_broker_of_the_plan_that_died_is_waited_for_before_anything_is_done(
    bench: Harness, scope: dict[str, Any]
) -> None:
    bench.cluster.brokers[3].configs["log.retention.ms"] = "5"
    plan, topics = bench.plan("log.retention.ms=20000", "log.cleaner.backoff.ms=9", **scope), retention(bench)
    bench.cluster.kill(3)
    for call in (bench.rollouts.check, bench.apply):
        with pytest.raises(TryLaterError, match="broker 3 of the plan does not answer"):
            call(plan)
    assert (bench.clock.elapsed, bench.cluster.calls) == (0, [])
    assert bench.rollouts.check(topics) == PlanCheck(notes=("nothing is done",))
    bench.cluster.revive(3)
    assert bench.rollouts.check(plan) == PlanCheck(notes=("nothing is done",))


def test_what_is_read_at_start_is_not_asked_about(bench: Harness) -> None:
    plan = bench.plan("replica.fetch.max.bytes=5", f"log.retention.ms={DAY}", brokers=(1,))
    said = "no broker can be asked about replica.fetch.max.bytes: it checks its file when it starts"
    assert bench.rollouts.check(plan) == PlanCheck(notes=(said, "nothing is done"))
    assert [c.key for c in bench.cluster.checked[0]] == ["log.retention.ms"]


def test_a_rehearsal_asks_the_brokers_of_the_mirror(bench: Harness, tmp_path: Path) -> None:
    mirror, plan = mirror_of(tmp_path), bench.plan("log.cleaner.backoff.ms=20000", brokers=(2,))
    mirror.refuse(ResourceKind.BROKER, "12", "log.cleaner.backoff.ms", "20000", call="check_configs")
    with pytest.raises(OperationFailedError, match=r"log.cleaner.backoff.ms of broker 12: refused"):
        tried(bench, mirror, plan)
    assert (mirror.clock.elapsed, mirror.cluster.calls) == (0, [])


def test_an_accepted_value_that_does_not_show_is_a_change_of_another_process(bench: Harness) -> None:
    plan = bench.plan("retention.ms=5", topics="a")
    bench.cluster.before_call.append(lambda *_: None)
    original = bench.cluster.alter_configs

    def overwritten(changes):  # type: ignore[no-untyped-def]
        answers = original(changes)
        bench.set_by_another("a", "retention.ms", "9")
        return answers

    bench.cluster.alter_configs = overwritten  # type: ignore[method-assign]
    done = bench.apply(plan)
    assert done.state.reasons == ("topic a retention.ms was set to 5 and is 9: another process changed it",)
    assert done.state.end is RolloutEnd.INCOMPLETE
    assert bench.cluster.topics["a"].configs == {"retention.ms": "9"}


def test_a_broker_that_refuses_has_the_rest_taken_back(bench: Harness) -> None:
    plan = retention(bench)
    bench.refuse(TOPIC, "c", "retention.ms", DAY)
    done = bench.apply(plan)
    assert done.state.end is RolloutEnd.TAKEN_BACK
    assert done.state.reasons == ("topic c retention.ms: refused (InvalidRequestError: no)",)
    assert all(t.configs == {} for t in bench.cluster.topics.values())


def test_a_refusal_while_taking_back_is_left_for_rollback(bench: Harness) -> None:
    bench.cluster.topics["a"].configs["retention.ms"] = "1000"
    plan = retention(bench)
    bench.after_seconds(70, lambda: bench.cluster.kill(3))
    bench.refuse(TOPIC, "a", "retention.ms", "1000")
    done = bench.apply(plan)
    assert done.state.end is RolloutEnd.INCOMPLETE
    assert done.state.left == ("topic a retention.ms: refused (InvalidRequestError: no)",)
    bench.cluster.revive(3)
    again = bench.rollouts.take_back(bench.rollouts.journals.last_applied(), "again")
    assert again.state.end is RolloutEnd.TAKEN_BACK
    assert bench.cluster.topics["a"].configs == {"retention.ms": "1000"}


def test_a_topic_that_is_deleted_meanwhile_ends_the_rollout(bench: Harness) -> None:
    plan = retention(bench)
    bench.after_seconds(65, lambda: bench.cluster.topics.pop("b"))
    done = bench.apply(plan)
    assert done.state.end is RolloutEnd.TAKEN_BACK
    assert done.state.reasons[0].startswith("topic b retention.ms: the topic is gone")


def test_a_value_that_needs_a_restart_is_refused_without_a_way_to_restart(bench: Harness) -> None:
    plan = bench.plan("replica.fetch.max.bytes=1", f"log.retention.ms={DAY}", all_brokers=True)
    assert {c.name for c in plan.restarts} == {"1", "2", "3"}
    with pytest.raises(RefusedError, match=r"brokers 1, 2, 3 must restart for replica\.fetch\.max\.bytes"):
        usable_plan(plan, leave_restarts=False, can_restart=False)
    left = usable_plan(plan, leave_restarts=True, can_restart=False)
    assert left == without_restarts(plan)
    assert bench.apply(left).state.end is RolloutEnd.APPLIED
    assert bench.restarts == []
    with pytest.raises(RefusedError, match="every change of the plan needs a restart"):
        usable_plan(bench.plan("replica.fetch.max.bytes=1", all_brokers=True), leave_restarts=True, can_restart=False)


def test_brokers_are_restarted_one_at_a_time_and_watched(bench: Harness) -> None:
    plan = bench.plan("replica.fetch.max.bytes=5", all_brokers=True)
    done = bench.apply(plan)
    assert done.state.end is RolloutEnd.APPLIED
    assert bench.restarts == [1, 2, 3]
    assert bench.cluster.own_static == {b: {"replica.fetch.max.bytes": "5"} for b in (1, 2, 3)}
    assert bench.rollouts.take_back(bench.rollouts.journals.last_applied(), "no").state.end is RolloutEnd.TAKEN_BACK
    assert bench.restarts == [1, 2, 3, 3, 2, 1]
    assert bench.cluster.own_static == {1: {}, 2: {}, 3: {}}


def test_a_restart_that_fails_takes_back_what_was_restarted(bench: Harness) -> None:
    plan = bench.plan("replica.fetch.max.bytes=5", brokers=(1, 2))
    bench.after_seconds(80, lambda: setattr(bench, "restart_fails", "ended with 3"))
    bench.after_seconds(200, lambda: setattr(bench, "restart_fails", ""))
    done = bench.apply(plan)
    assert done.state.reasons[0] == "restart of broker 2: ended with 3"
    assert bench.rollouts.journals.last_applied().rollout.end is RolloutEnd.INCOMPLETE
    assert "restart of broker 1: ended with 3" in done.state.left
    bench.restart_fails = ""
    assert bench.rollouts.take_back(bench.rollouts.journals.last_applied(), "no").state.end is RolloutEnd.TAKEN_BACK
    assert all(not values for values in bench.cluster.own_static.values())


def test_a_broker_that_does_not_get_in_sync_after_its_restart_is_taken_back(bench: Harness) -> None:
    plan = bench.plan("replica.fetch.max.bytes=1", brokers=(2,))
    restart = bench.restart

    def starved(broker: int, values):  # type: ignore[no-untyped-def]
        said = restart(broker, values)
        if "replica.fetch.max.bytes" in bench.cluster.own_static[2]:
            for topic in bench.cluster.topics.values():
                for partition in topic.partitions.values():
                    partition.isr = [b for b in partition.isr if b != 2]
                    partition.copied[2] = -(10**15)
        else:
            for topic in bench.cluster.topics.values():
                for partition in topic.partitions.values():
                    partition.copied[2] = partition.size
        return said

    bench.restart = starved  # type: ignore[method-assign]
    done = bench.apply(plan)
    assert "broker 2 is not in sync again after 60 s: a-0, a-1" in done.state.reasons[0]
    assert done.state.end is RolloutEnd.TAKEN_BACK
    assert bench.restarts == [2, 2]


def watched(bench: Harness, values: dict[Signal, float]) -> FakeMetrics:
    queries = prometheus_queries("", WATCH.every_s)
    service = FakeMetrics(values, queries.texts)
    bench.service = (service, queries)
    return service


USUAL = {
    Signal.SHRINKS: 0.0,
    Signal.EXPANDS: 0.0,
    Signal.LEADER_CHANGES: 0.0,
    Signal.CLIENT_ERRORS: 0.01,
    Signal.REQUEST_MS: 20.0,
}


def test_client_errors_and_latency_of_a_metrics_service_take_values_back(bench: Harness) -> None:
    watch = replace(WATCH, source=FakeMetrics.source)
    service = watched(bench, USUAL)
    bench.after_seconds(5, lambda: service.values.update({Signal.CLIENT_ERRORS: 5.0}))
    done = bench.apply(retention(bench), watch)
    assert done.state.end is RolloutEnd.TAKEN_BACK
    assert "client errors" in done.state.reasons[0]
    service.values.update(USUAL)
    bench.after_seconds(6, lambda: service.values.update({Signal.REQUEST_MS: 90.0}))
    done = bench.apply(retention(bench), watch)
    assert "produce latency (p99): 90 ms, usual 20 ms, limit 25 ms" in done.state.reasons[0]
    assert all(t.configs == {} for t in bench.cluster.topics.values())


T0 = TopicPartition("t", 0)


def lagging(bench: Harness) -> tuple[FakeGroups, FakeLogReader]:
    """Group `g` is 100 records behind."""
    bench.lag = groups, log = FakeGroups(), FakeLogReader()
    log.add_topic("t")
    log.log(T0).end = 1100
    groups.seed("g", T0, 1000)
    return groups, log


OF_GROUP = replace(WATCH, groups=("g",))


def test_lag_of_a_group_that_grows_takes_values_back(bench: Harness) -> None:
    _, log = lagging(bench)
    bench.after_first_write(6, lambda: setattr(log.log(T0), "end", 5000))
    done = bench.apply(retention(bench), OF_GROUP)
    assert done.state.end is RolloutEnd.TAKEN_BACK
    assert done.state.reasons == ("after topic a: consumer lag in records: 4000, usual 100, limit 1100",)


def test_lag_that_stays_is_good_and_goes_on_with_the_same_groups(bench: Harness) -> None:
    """A step that was cut is watched for the same groups, whatever the command that continues it says."""
    _, log = lagging(bench)
    bench.cluster.fail_next("alter_configs", LeaseLostError("lost"))
    with pytest.raises(LeaseLostError):
        bench.apply(retention(bench), OF_GROUP)
    log.log(T0).end = 9999
    done = bench.rollouts.proceed(bench.rollouts.journals.only_open())
    assert "consumer lag" in done.state.reasons[0]
    log.log(T0).end = 1600
    assert bench.apply(retention(bench), OF_GROUP).state.end is RolloutEnd.APPLIED


def test_lag_is_watched_beside_a_metrics_service(bench: Harness) -> None:
    _, log = lagging(bench)
    watched(bench, USUAL)
    watch = replace(OF_GROUP, source=FakeMetrics.source)
    assert bench.apply(retention(bench), watch).state.end is RolloutEnd.APPLIED
    bench.after_first_write(6, lambda: setattr(log.log(T0), "end", 5000))
    done = bench.apply(bench.plan("segment.ms=600000", topics="a"), watch)
    assert "consumer lag in records: 4000" in done.state.reasons[0]


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("what", ["unknown", "lost", "log"])
def test_lag_that_is_not_known_from_the_start_changes_nothing(bench: Harness, what: str, beside: bool) -> None:
    groups, log = lagging(bench)
    watch = replace(OF_GROUP, groups=("g", "h") if what == "unknown" else ("g",))
    if beside:
        watched(bench, USUAL)
        watch = replace(watch, source=FakeMetrics.source)
    if what == "lost":
        groups.lost.add("g")
    if what == "log":
        log.log(T0).leader = None
    done = bench.apply(retention(bench), watch)
    assert (done.state.end, bench.cluster.calls) == (RolloutEnd.TAKEN_BACK, [])
    assert done.state.reasons[0].startswith("no baseline is available: no consumer lag in records: ")
    said = {"unknown": "group h has committed nothing", "lost": "does not answer", "log": "the end of t-0 is not known"}
    assert said[what] in done.state.reasons[0]


def test_lag_that_is_no_longer_told_takes_values_back(bench: Harness) -> None:
    groups, _ = lagging(bench)
    bench.after_first_write(6, lambda: groups.lost.add("g"))
    done = bench.apply(retention(bench), OF_GROUP)
    assert done.state.end is RolloutEnd.TAKEN_BACK
    assert "3 looks in a row without consumer lag in records: the coordinator of group g" in done.state.reasons[0]


def test_lag_of_groups_is_the_sum_of_what_each_has_not_committed() -> None:
    one, two = TopicPartition("t", 0), TopicPartition("t", 1)
    found = lag_look(5, {"g": {one: 3, two: 9}, "h": {one: 10}}, {one: 12, two: 7})
    assert (found.values, found.at_ms) == ({Signal.LAG: 9 + 0 + 2}, 5)
    assert lag_look(5, {"g": {one: 3}}, {}).problem == "the end of t-0 is not known"
    assert lag_look(5, {"g": {}}, {}).problem == "group g has committed nothing"


def test_metrics_that_stop_take_values_back(bench: Harness) -> None:
    watch = replace(WATCH, source=FakeMetrics.source)
    service = watched(bench, USUAL)
    now = bench.clock.now().replace(tzinfo=None)
    service.away_from = now + timedelta(seconds=12)
    done = bench.apply(retention(bench), watch)
    assert done.state.end is RolloutEnd.TAKEN_BACK
    assert "3 looks in a row without" in done.state.reasons[0]
    assert "fake metrics do not answer" in done.state.reasons[0]
    assert all(t.configs == {} for t in bench.cluster.topics.values())


def test_metrics_that_tell_nothing_from_the_start_change_nothing(bench: Harness) -> None:
    service = watched(bench, USUAL)
    service.away_from = datetime(2000, 1, 1)  # noqa: DTZ001
    done = bench.apply(retention(bench), replace(WATCH, source=FakeMetrics.source))
    assert done.state.end is RolloutEnd.TAKEN_BACK
    assert done.state.reasons[0].startswith("no baseline is available: ISR shrinks: fake metrics do not answer")
    assert [c for c in bench.cluster.calls if c[0] == "alter_configs"] == []


def test_one_signal_that_is_not_told_is_warned_of(bench: Harness) -> None:
    watched(bench, {s: v for s, v in USUAL.items() if s is not Signal.CLIENT_ERRORS})
    done = bench.apply(retention(bench), replace(WATCH, source=FakeMetrics.source))
    assert done.state.end is RolloutEnd.APPLIED
    assert "not watched, no series: client errors" in bench.reporter.warned


def test_a_cluster_that_does_not_answer_while_it_is_watched_is_taken_back_when_it_answers(bench: Harness) -> None:
    plan = retention(bench)
    bench.after_seconds(66, lambda: bench.cluster.fail_next("partition_states", TryLaterError("no answer"), 3))
    done = bench.apply(plan)
    assert done.state.end is RolloutEnd.TAKEN_BACK
    assert "no answer" in done.state.reasons[0]


def test_a_cluster_that_is_away_when_a_window_begins_is_looked_at_later(bench: Harness) -> None:
    plan = retention(bench)
    bench.cluster.before_call.append(
        lambda name, _: bench.cluster.fail_next("snapshot", TryLaterError("away")) if name == "alter_configs" else None
    )
    assert bench.apply(plan).state.end is RolloutEnd.APPLIED


def test_a_lost_lease_stops_without_another_write(bench: Harness) -> None:
    plan = retention(bench)
    bench.cluster.fail_next("alter_configs", LeaseLostError("lost"))
    with pytest.raises(LeaseLostError):
        bench.apply(plan)
    assert bench.rollouts.journals.only_open().rollout.is_back is False


def test_steps_that_passed_are_not_watched_again(bench: Harness) -> None:
    plan = retention(bench)
    failing = iter([None, LeaseLostError("lost")])

    def fail_second(name: str, _: object) -> None:
        if name == "alter_configs" and (error := next(failing, None)) is not None:
            raise error

    bench.cluster.before_call.append(fail_second)
    with pytest.raises(LeaseLostError):
        bench.apply(plan)
    bench.reporter.said.clear()
    assert bench.apply(plan).state.end is RolloutEnd.APPLIED
    assert [line for line in bench.reporter.said if line.startswith("step")] == ["step 2 of 2: topics b, c"]


def test_another_process_asks_for_an_abort_and_is_answered(bench: Harness) -> None:
    bench.control = FakeControlStore()
    requests = ControlRequests(bench.control, bench.clock, "fake-cluster")
    versions: list[int] = []
    bench.after_first_write(3, lambda: versions.append(requests.request(7, "you", abort=True)))
    done = bench.apply(retention(bench))
    assert done.state.end is RolloutEnd.TAKEN_BACK
    assert done.state.reasons == ("aborted by an operator: you",)
    assert all(t.configs == {} for t in bench.cluster.topics.values())
    answer = requests.wait_for_answer(7, versions[0], 0)
    assert answer is not None
    assert answer.refused == ""


def test_an_abort_is_asked_of_the_process_that_has_the_lease(bench: Harness) -> None:
    control, clock = FakeControlStore(), FakeClock()
    holder = Holder(host="h", user="u", command="config apply", pid=1)
    lease = Lease(control, clock, lease_path("c"), holder, what="c", life_of=lambda _: Life.ALIVE, say=lambda _: None)
    token = lease.acquire()

    @contextmanager
    def busy() -> Iterator[ClusterAccess]:
        raise LeaseHeldError("process 1 has it")
        yield bench.access

    def take_back(access: ClusterAccess) -> NamedState:
        raise AssertionError

    requests = ControlRequests(control, clock, "c")

    def answer(_: float) -> None:
        if (found := requests.read(token)) is not None and found.request.abort:
            requests.answer(token, found.version)

    def ask() -> object:
        return abort_or_request(busy, lambda: control, clock, "c", take_back, "me", 30)

    with pytest.raises(TryLaterError, match="did not answer within 30 s"):
        ask()
    clock.on_sleep.append(answer)
    assert ask() == str(holder)
    lease.release()
    with pytest.raises(LeaseHeldError):  # it ended meanwhile, or works on something else
        ask()


def test_a_second_plan_waits_for_the_open_rollout(bench: Harness) -> None:
    plan, other = retention(bench), bench.plan("segment.ms=600000", topics="a")
    bench.cluster.fail_next("alter_configs", LeaseLostError("lost"))
    with pytest.raises(LeaseLostError):
        bench.apply(plan)
    with pytest.raises(RefusedError, match="is open, 0 of 2 steps"):
        bench.apply(other)
    assert bench.apply(plan).state.end is RolloutEnd.APPLIED


def test_a_rollback_that_was_cut_is_finished_before_another(bench: Harness) -> None:
    first = bench.apply(bench.plan("segment.ms=600000", topics="a"))
    second = bench.apply(retention(bench))
    bench.cluster.fail_next("alter_configs", LeaseLostError("lost"))
    journals = bench.rollouts.journals
    with pytest.raises(LeaseLostError):
        bench.rollouts.take_back(journals.to_roll_back(None), "no")
    # Without the check the same command would take the first one back.
    for name in (None, first.name):
        with pytest.raises(RefusedError, match=f"rollout {second.name} is being taken back"):
            journals.to_roll_back(name)
    assert journals.to_roll_back(second.name).run == second.name
    assert bench.rollouts.take_back(journals.to_roll_back(second.name), "no").state.end is RolloutEnd.TAKEN_BACK
    assert journals.to_roll_back(None).run == first.name


def test_a_rollout_that_was_applied_is_rolled_back_and_not_aborted(bench: Harness) -> None:
    name = bench.apply(retention(bench)).name
    with pytest.raises(RefusedError, match=f"rollout {name} is applied, not open") as refused:
        bench.rollouts.take_back_open(name, "no")
    assert refused.value.hint == f"to take it back:\nkafkakit config rollback {name}"


def test_what_taking_back_would_do_is_told_before(bench: Harness) -> None:
    bench.cluster.topics["b"].configs["retention.ms"] = "1000"
    bench.apply(retention(bench))
    bench.set_by_another("c", "retention.ms", "7")
    del bench.cluster.topics["a"]
    assert bench.rollouts.undoing(bench.rollouts.journals.last_applied()).lines == (
        f"topic b retention.ms: {DAY} -> 1000",
        "left: topic c retention.ms is 7 by now, which is not of this rollout",
        "left: topic a retention.ms: the topic is gone, or the broker does not answer",
    )


@pytest.mark.parametrize("line", range(1, 8))
def test_a_damaged_journal_still_takes_everything_back(bench: Harness, line: int) -> None:
    """Its lines: plan, baseline, write, answer, passed, write, answer, passed, end; all of it was done."""
    bench.cluster.topics["b"].configs["retention.ms"] = "1000"
    before, name = bench.settings(), bench.apply(retention(bench)).name
    (path,) = bench.folder.glob("config-rollouts/*/*.journal")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join((*lines[:line], b"x" + lines[line], *lines[line + 1 :])))
    with pytest.raises(RefusedError, match="is open"):  # how it ended is not known any more
        bench.apply(bench.plan("segment.ms=600000", topics="a"))
    done = bench.rollouts.take_back_open(None, "no")
    assert (done.name, done.state.end, bench.settings()) == (name, RolloutEnd.TAKEN_BACK, before)
    assert any(f"journal line {line + 1} cannot be read" in said for said in bench.reporter.warned)
    assert bench.rollouts.journals.damages() == ()


def test_a_journal_without_a_sound_line_is_named(bench: Harness) -> None:
    bench.apply(retention(bench))
    (path,) = bench.folder.glob("config-rollouts/*/*.journal")
    path.write_bytes(b"x" + path.read_bytes())
    with pytest.raises(InputError, match="its first line cannot be read"):
        bench.apply(bench.plan("segment.ms=600000", topics="a"))


def test_a_plan_of_other_values_or_another_cluster_is_refused(bench: Harness) -> None:
    plan = retention(bench)
    bench.set_by_another("b", "retention.ms", "7")
    with pytest.raises(RefusedError, match=r"topic b retention\.ms is 7, the plan was made with not set"):
        bench.apply(plan)
    bench.cluster.cluster_id = "another"
    with pytest.raises(RefusedError, match="the plan is for cluster fake-cluster, this is another"):
        bench.apply(plan)


def test_a_rollout_is_continued_with_the_metrics_that_it_was_begun_with(bench: Harness) -> None:
    plan = retention(bench)
    bench.cluster.fail_next("alter_configs", LeaseLostError("lost"))
    with pytest.raises(LeaseLostError):
        bench.apply(plan)
    watched(bench, USUAL)
    with pytest.raises(UsageError, match="is watched with the brokers only"):
        bench.rollouts.proceed(bench.rollouts.journals.only_open())


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> Dying:
    found = Dying()
    monkeypatch.setattr(DyingFile, "dying", found)
    monkeypatch.setattr(DyingCluster, "dying", found)
    monkeypatch.setattr(journal_files, "DiskFile", DyingFile)
    return found


def make(bench: Harness, what: str) -> ConfigPlan:
    bench.cluster.topics["b"].configs["retention.ms"] = "1000"
    if what == "topics":
        return retention(bench)
    if what == "default":
        return bench.plan("log.cleaner.backoff.ms=20000", cluster_default=True)
    return bench.plan("replica.fetch.max.bytes=5", "log.cleaner.backoff.ms=20000", brokers=(1, 2))


@pytest.mark.parametrize("what", ["topics", "default", "restarts"])
@pytest.mark.parametrize("then", ["resume", "abort", "bad"])
def test_a_kill_at_every_effect_is_resumed_or_undone(tmp_path: Path, dying: Dying, what: str, then: str) -> None:
    usual = Harness(tmp_path / "usual")
    plan = make(usual, what)
    before = usual.settings()
    usual.apply(plan)
    after, total = usual.settings(), dying.count
    assert total > 10
    lives = 0
    for number in range(10 * total):
        dying.at, dying.count = None, 0
        bench = Harness(tmp_path / f"{then}-{number}")
        bench.cluster.topics["b"].configs["retention.ms"] = "1000"
        if then == "bad":
            bench.after_first_write(6, lambda bench=bench: bench.cluster.kill(3))  # type: ignore[misc]
        dying.at, dying.count = number, 0
        try:
            bench.apply(plan)
            dying.at = None
            lives += 1
        except Killed:
            dying.at = None
            states = bench.rollouts.journals.states()
            if not states:  # nothing is begun before the first line
                assert bench.settings() == before
                continue
            journal = bench.rollouts.journals.named(states[0][0].stem)
            if then == "abort":
                assert bench.rollouts.take_back(journal, "aborted").state.end is RolloutEnd.TAKEN_BACK
                assert _set(bench) == _kept(before), number
                continue
            bench.rollouts.proceed(journal)
        if then == "bad":
            state = bench.rollouts.journals.states()[-1][1]
            assert state.end is RolloutEnd.TAKEN_BACK, (number, state.left)
            assert _set(bench) == _kept(before), number
        elif then == "resume":
            assert _set(bench) == _kept(after), number
        if lives:
            break
    assert lives == 1


@pytest.mark.parametrize("then", ["resume", "abort"])
def test_ctrl_c_in_each_phase_leaves_a_rollout_that_goes_on_or_back(tmp_path: Path, then: str) -> None:
    """While the baseline is measured, in each window, while values are read back and while they are taken back."""
    ended = False
    for number in range(1, 200):
        bench = Harness(tmp_path / str(number))
        plan = bench.plan("min.insync.replicas=2", cluster_default=True, topics="a,b")
        left = iter(range(number))

        def interrupt(_: float, left: Iterator[int] = left, bench: Harness = bench) -> None:
            if next(left, None) is None:
                bench.clock.on_sleep.pop()
                raise KeyboardInterrupt

        bench.clock.on_sleep.append(interrupt)
        try:
            ended = bench.apply(plan).state.end is RolloutEnd.APPLIED
            break
        except KeyboardInterrupt:
            journal = bench.rollouts.journals.only_open()
        if then == "resume":
            assert bench.rollouts.proceed(journal).state.end is RolloutEnd.APPLIED, number
            assert is_applied(plan, bench.configs)
        else:
            assert bench.rollouts.take_back(journal, "no").state.end is RolloutEnd.TAKEN_BACK
            assert _set(bench) == {}
    assert ended


def test_ctrl_c_while_values_are_read_back_leaves_the_step_open(bench: Harness) -> None:
    plan = bench.plan("log.cleaner.backoff.ms=20000", brokers=(2,))
    read, stopped = bench.cluster.broker_configs, iter([True])

    def interrupted(brokers: Collection[int], *, defaults: bool = False) -> Mapping[int, Mapping[str, LayeredValue]]:
        if next(stopped, False):
            raise KeyboardInterrupt
        return read(brokers, defaults=defaults)

    bench.after_first_write(20, lambda: setattr(bench.cluster, "broker_configs", interrupted))
    with pytest.raises(KeyboardInterrupt):
        bench.apply(plan)
    assert bench.rollouts.journals.only_open().rollout.words == "open, 0 of 1 steps"
    assert bench.apply(plan).state.end is RolloutEnd.APPLIED


def _kept(settings: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
    return {name: values for name, values in settings.items() if values}


def _set(bench: Harness) -> dict[str, dict[str, str]]:
    return _kept(bench.settings())


def mirror_of(
    tmp_path: Path, ids: tuple[int, ...] = (11, 12, 13), topics: tuple[str, ...] = ("a", "b", "c")
) -> Harness:
    cluster = DyingCluster(dict(zip(ids, ("a", "b", "c"), strict=False)), cluster_id="mirror")
    for name in topics:
        lists = {n: (*ids[n:], *ids[:n]) for n in range(3)}
        cluster.add_topic(name, lists, size_bytes=1000)
    return Harness(tmp_path / "mirror", cluster)


def tried(bench: Harness, mirror: Harness, plan: ConfigPlan, *, accept: bool = False) -> object:
    return rehearse(plan, bench.configs, mirror.rollouts, mirror.access, WATCH, profile="mirror", accept_unlike=accept)


def test_a_rehearsal_rolls_out_on_the_mirrored_cluster_and_stays(bench: Harness, tmp_path: Path) -> None:
    mirror, plan = mirror_of(tmp_path), bench.plan("log.cleaner.backoff.ms=20000", brokers=(2,))
    assert tried(bench, mirror, plan) is not None
    assert mirror.cluster.brokers[12].configs == {"log.cleaner.backoff.ms": "20000"}
    assert bench.cluster.calls == []
    ((_, state),) = mirror.rollouts.journals.states()
    assert state.rehearsal_of == f"fake-cluster/{plan.run_id}"
    assert tried(bench, mirror, plan) is None  # what passed is there already


def test_a_rehearsal_that_was_cut_is_continued(bench: Harness, tmp_path: Path) -> None:
    mirror, plan = mirror_of(tmp_path), retention(bench)
    mirror.cluster.fail_next("alter_configs", LeaseLostError("lost"), after_effect=True)
    with pytest.raises(LeaseLostError):
        tried(bench, mirror, plan)
    assert tried(bench, mirror, plan) is not None
    assert [state.end for _, state in mirror.rollouts.journals.states()] == [RolloutEnd.APPLIED]
    assert {name: t.configs for name, t in mirror.cluster.topics.items()} == {
        name: {"retention.ms": DAY} for name in "abc"
    }


def test_a_rehearsal_that_is_taken_back_changes_nothing_here(bench: Harness, tmp_path: Path) -> None:
    mirror, plan = mirror_of(tmp_path), retention(bench)
    mirror.after_seconds(70, lambda: mirror.cluster.kill(13))
    with pytest.raises(OperationFailedError, match="the rehearsal on profile mirror was taken back: after topic a"):
        tried(bench, mirror, plan)
    assert bench.cluster.calls == []
    assert all(t.configs == {} for t in mirror.cluster.topics.values())


def test_a_rehearsal_on_an_unlike_cluster_is_refused_unless_accepted(bench: Harness, tmp_path: Path) -> None:
    mirror, plan = mirror_of(tmp_path, topics=("a", "b")), retention(bench)
    mirror.cluster.topics["b"].configs["retention.ms"] = "9"
    with pytest.raises(RefusedError, match=r"topic b retention\.ms is 9 there, not set here, topic c is not there"):
        tried(bench, mirror, plan)
    assert mirror.cluster.calls == []
    assert tried(bench, mirror, plan, accept=True) is not None
    assert mirror.cluster.topics["b"].configs == {"retention.ms": DAY}


def test_a_mirror_with_other_brokers_racks_or_shapes_is_unlike(bench: Harness, tmp_path: Path) -> None:
    smaller = Harness(tmp_path / "s", DyingCluster({1: "a", 2: "b"}, cluster_id="small"))
    with pytest.raises(RefusedError, match="2 brokers there, 3 here"):
        tried(bench, smaller, bench.plan("log.cleaner.backoff.ms=20000", brokers=(3,)))
    flat = DyingCluster({1: "a", 2: "a", 3: "a"}, cluster_id="flat")
    flat.add_topic("a", {0: (1, 2)})
    with pytest.raises(RefusedError, match=r"1 racks there, 3 here, topic a has 1 partitions of 2 there, 3 of 3 here"):
        tried(bench, Harness(tmp_path / "f", flat), bench.plan("retention.ms=5", topics="a"))
    assert isinstance(flat, FakeCluster)


NUMBERS = st.floats(0, 1e6, allow_nan=False)


def looks(*values: dict[Signal, float]) -> list[HealthLook]:
    return [HealthLook(at_ms=n, values=v) for n, v in enumerate(values)]


@pytest.mark.parametrize(("stops", "under"), [(True, 2), (False, 1)])
def test_min_isr_above_the_replicas_stops_writes_up_to_kafka_3_6(stops: bool, under: int) -> None:
    """From 3.7 on only the replicas that there are count (KAFKA-15583)."""
    states = {
        TopicPartition("t", 0): PartitionState(replicas=(1, 2), isr=(1, 2), leader=1),
        TopicPartition("t", 1): PartitionState(replicas=(1, 2), isr=(1,), leader=1),
    }
    view = PartitionView(at_ms=0, states=states, min_isr={"t": 3}, answer_ms=1, stops_above_replicas=stops)
    assert look_between(None, view).values[Signal.UNDER_MIN_ISR] == under


def test_the_limit_of_times_is_the_median_and_three_and_a_half_deviations() -> None:
    # Median 15; deviations 5, 3, 0, 2, 985: median 3; 15 + 3.5 * 1.4826 * 3 = 30.57.
    assert limit_of(Signal.REQUEST_MS, [10, 12, 15, 17, 1000], 3) == pytest.approx((15, 30.5673))


def test_times_that_never_varied_may_rise_by_a_quarter_or_five_ms() -> None:
    assert limit_of(Signal.REQUEST_MS, [100.0] * 9, 3) == (100, 125)
    assert limit_of(Signal.REQUEST_MS, [4.0] * 9, 3) == (4, 9)


def test_events_are_summed_over_windows_of_the_same_length() -> None:
    # Windows of two: 4, 6, 10, 9: median 7.5, deviations 3.5, 1.5, 2.5, 1.5: median 2.
    assert limit_of(Signal.SHRINKS, [1, 3, 3, 7, 2], 2) == pytest.approx((7.5, 7.5 + 3.5 * 1.4826 * 2))
    assert limit_of(Signal.SHRINKS, [0.0] * 9, 3) == (0, 3.5)
    # A shorter past is scaled.
    assert limit_of(Signal.SHRINKS, [1, 1], 4)[0] == 4


def test_gauges_have_no_floor() -> None:
    assert limit_of(Signal.OFFLINE, [0.0] * 9, 3) == (0, 0)


def test_a_gauge_above_its_limit_once_is_no_verdict_and_twice_is_bad() -> None:
    baseline = {Signal.OFFLINE: (0.0,) * 5}
    one, none = {Signal.OFFLINE: 1.0}, {Signal.OFFLINE: 0.0}
    assert judge(baseline, looks(one), 4).health is WindowHealth.OPEN
    assert judge(baseline, looks(one, none, one, none), 4).health is WindowHealth.GOOD
    bad = judge(baseline, looks(none, one, one), 4)
    assert bad.is_bad
    assert bad.reasons == ("offline partitions: 1, usual 0, limit 0",)


def test_events_count_as_soon_as_there_are_too_many() -> None:
    baseline = {Signal.SHRINKS: (0.0,) * 5}
    assert judge(baseline, looks({Signal.SHRINKS: 3}), 4).health is WindowHealth.OPEN
    assert judge(baseline, looks({Signal.SHRINKS: 3}, {Signal.SHRINKS: 1}), 4).health is WindowHealth.BAD


@pytest.mark.parametrize(
    ("usual", "seen", "health"), [(5, 5, WindowHealth.BAD), (4, 5, WindowHealth.GOOD), (5, 4, WindowHealth.GOOD)]
)
def test_answers_to_one_client_count_from_five_on(usual: int, seen: int, health: WindowHealth) -> None:
    found = judge({Signal.METADATA_MS: (10.0,) * usual}, looks(*[{Signal.METADATA_MS: 900.0}] * seen), seen)
    assert found.health is health


def test_times_count_at_the_end_of_a_window() -> None:
    baseline = {Signal.REQUEST_MS: (10.0,) * 5}
    slow = {Signal.REQUEST_MS: 90.0}
    assert judge(baseline, looks(slow, slow), 3).health is WindowHealth.OPEN
    assert judge(baseline, looks(slow, slow, slow), 3).health is WindowHealth.BAD
    assert judge(baseline, looks(slow, {Signal.REQUEST_MS: 10}, {Signal.REQUEST_MS: 9}), 3).health is WindowHealth.GOOD


def test_signals_that_stop_leave_a_window_unknown_and_that_is_bad() -> None:
    baseline = {Signal.REQUEST_MS: (10.0,) * 5}
    silent = [HealthLook(at_ms=0, problem="away")] * 3
    found = judge(baseline, silent, 9)
    assert (found.health, found.is_bad) == (WindowHealth.UNKNOWN, True)
    assert found.reasons == ("3 looks in a row without produce latency (p99): away",)
    mixed = looks({Signal.REQUEST_MS: 10}, {}, {}, {Signal.REQUEST_MS: 10}, {}, {})
    assert judge(baseline, mixed, 6).reasons == ("too few values of produce latency (p99) to judge",)


def test_a_signal_without_a_past_is_not_judged() -> None:
    assert judge({Signal.OFFLINE: (0.0,) * 4}, looks(*[{Signal.OFFLINE: 0.0, Signal.SHRINKS: 99.0}] * 3), 3).health is (
        WindowHealth.GOOD
    )


def test_a_series_with_too_many_gaps_is_no_past() -> None:
    found = baseline_of(looks({Signal.OFFLINE: 0}, {Signal.OFFLINE: 0, Signal.SHRINKS: 0}, {Signal.OFFLINE: 0}, {}, {}))
    assert set(found) == {Signal.OFFLINE}
    assert looks_in(60, 5) == 12
    assert looks_in(1, 5) == 2


@given(st.lists(NUMBERS, min_size=5, max_size=40), st.integers(1, 8), st.sampled_from(list(Signal)))
def test_what_repeats_the_past_exactly_is_within_the_limit(values: list[float], window: int, signal: Signal) -> None:
    usual, limit = limit_of(signal, values, window)
    assert usual <= limit


@given(st.lists(st.floats(0, 100), min_size=9, max_size=40), st.data())
def test_less_than_half_of_bad_moments_does_not_move_the_limit_beyond_the_rest(
    values: list[float], data: st.DataObject
) -> None:
    spoilt = data.draw(st.integers(0, (len(values) - 1) // 2))
    worse = [1e9] * spoilt + values[spoilt:]
    usual, limit = limit_of(Signal.REQUEST_MS, worse, 1)
    # The median is one of the sound values (or between two), and so is the median of the deviations.
    assert usual <= 100
    assert limit <= max(usual + 3.5 * 1.4826 * 100, usual + max(25.0, 5.0) + usual)


@given(st.lists(NUMBERS, min_size=3, max_size=30), st.lists(NUMBERS, min_size=4, max_size=4))
def test_more_is_never_better(values: list[float], seen: list[float]) -> None:
    baseline = {Signal.REQUEST_MS: tuple(values)}
    found = judge(baseline, looks(*({Signal.REQUEST_MS: v} for v in seen)), 4)
    higher = judge(baseline, looks(*({Signal.REQUEST_MS: v * 2 + 1} for v in seen)), 4)
    assert not (found.is_bad and not higher.is_bad)
    assert found.rows[0].seen == median(seen)
