"""The pure parts of a run; one look at moves between log dirs."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from kafkakit.core.cluster_facts import BrokerLogDirs, ConfigOp, LiveReplica, ResourceKind
from kafkakit.core.errors import InputError, RefusedError
from kafkakit.core.model import BrokerState, LogDir, Reassignment, TopicPartition, TopicPartitionReplica
from kafkakit.core.plan import Plan
from kafkakit.core.rights import MOVE, THROTTLED
from kafkakit.execution.decide.journal import ConfigKey, RateHold, decode_journal
from kafkakit.execution.decide.plan_state import (
    DirWork,
    LiveState,
    MoveGoal,
    MoveState,
    assess,
    incomplete_verdicts,
    look_at_dirs,
    passed_over,
    require_applicable,
    require_rights,
)
from kafkakit.execution.decide.progress import (
    BatchObservation,
    BatchWatch,
    NextAction,
    RoundState,
    follow,
    observe,
    poll_interval_s,
)
from kafkakit.execution.decide.runs import Commands, Direction
from kafkakit.execution.decide.schedule.model import Job, PartitionRequest
from kafkakit.execution.decide.schedule.work import BrokerRates, StepKind
from kafkakit.execution.decide.throttle import (
    FOLLOWER_LIST,
    LEADER_LIST,
    LEADER_RATE,
    entry_changes,
    restore_changes,
    wanted_entries,
)
from tests.clusters.plans import make_plan
from tests.fakes.admin import FakeCluster
from tests.rigs.reassign import Harness

KEY = TopicPartition("t", 0)
RATES = BrokerRates(into=1, out=1)
GOAL = MoveGoal(key=KEY, target=(3, 2), holders=(1, 2), size_bytes=100)


def plan_and_live() -> tuple[Plan, LiveState]:
    cluster = FakeCluster({1: "a", 2: "b", 3: "c"})
    cluster.add_topic("t", {0: (1, 2), 1: (2, 1)}, size_bytes=100)
    plan = make_plan(cluster, {("t", 0): (3, 2)})
    live = LiveState(
        cluster_id=cluster.cluster_id,
        brokers={b.id: b for b in cluster.cluster().brokers},
        states=cluster.partition_states(["t"]),
        running={},
    )
    return plan, live


def with_state(
    live: LiveState, replicas: tuple[int, ...], running: Reassignment | None = None, **more: str
) -> LiveState:
    state = replace(live.states[KEY], replicas=replicas, **more)  # type: ignore[arg-type]
    return replace(live, states={**live.states, KEY: state}, running={KEY: running} if running else {})


def moving(*target: int) -> Reassignment:
    return Reassignment(topic="t", partition=0, replicas=(*target, 1), adding=(3,), removing=(1,))


@pytest.mark.parametrize(
    ("replicas", "running", "state", "matches"),
    [
        ((1, 2), None, MoveState.AT_BEFORE, True),
        ((3, 2), None, MoveState.AT_AFTER, True),
        ((3, 2, 1), moving(3, 2), MoveState.TO_AFTER, True),
        ((2, 3, 1), moving(2, 3), MoveState.DIVERTED, False),
        ((2, 1), None, MoveState.SHUFFLED, False),
        ((2, 3), None, MoveState.SHUFFLED, False),
        ((1, 3), None, MoveState.DRIFTED, False),
    ],
)
def test_where_a_move_stands(
    replicas: tuple[int, ...], running: Reassignment | None, state: MoveState, matches: bool
) -> None:
    plan, live = plan_and_live()
    found = assess(plan, with_state(live, replicas, running))
    assert found.statuses[0].state is state
    assert (found.differences == ()) is matches


@pytest.mark.parametrize(
    ("after", "isr", "dead", "is_complete", "notes"),
    [
        ((2, 1), (2,), 1, True, ("1 old copy on broker 1 (not alive) not in sync: t-0",)),
        ((2, 1), (2,), None, False, ()),  # it will catch up
        ((3, 2), (3,), 2, False, ()),  # a move that copies waits for every copy
        ((3, 2), (2,), 3, False, ()),
        ((3, 2), (3, 2), 1, True, ()),
    ],
)
def test_a_dead_follower_keeps_no_move_of_a_leadership_open(
    after: tuple[int, int], isr: tuple[int, ...], dead: int | None, is_complete: bool, notes: tuple[str, ...]
) -> None:
    _, live = plan_and_live()
    cluster = FakeCluster({1: "a", 2: "b", 3: "c"})
    cluster.add_topic("t", {0: (1, 2), 1: (2, 1)}, size_bytes=100)
    plan = make_plan(cluster, {("t", 0): after})
    live = with_state(live, after, isr=isr)  # type: ignore[arg-type]
    brokers = {b: replace(one, state=BrokerState.FENCED) if b == dead else one for b, one in live.brokers.items()}
    assessment = assess(plan, replace(live, brokers=brokers))
    assert incomplete_verdicts(assessment) == () if is_complete else len(incomplete_verdicts(assessment)) == 1
    assert passed_over(assessment) == notes


def test_an_order_lost_by_our_own_cancel_is_no_drift() -> None:
    plan, live = plan_and_live()
    assert assess(plan, with_state(live, (2, 1)), cancelled_by_us=True).differences == ()


def test_topic_gone_made_anew_and_racks_changed_are_told_apart() -> None:
    plan, live = plan_and_live()
    gone = replace(live, states={k: s for k, s in live.states.items() if k != KEY})
    assert assess(plan, gone).statuses[0].state is MoveState.GONE
    assert assess(plan, gone).differences == ("t-0 is gone",)
    again = assess(plan, with_state(live, (1, 2), topic_id="other"))
    assert again.statuses[0].state is MoveState.RECREATED
    assert "deleted and created again" in again.differences[0]
    racked = replace(live, brokers={**live.brokers, 3: replace(live.brokers[3], rack="z")})
    assert assess(plan, racked).differences == ("broker 3: rack c is now z",)
    with pytest.raises(RefusedError, match="rack c is now z"):
        require_applicable(assess(plan, racked), racked, allow_drift=False)
    require_applicable(assess(plan, racked), racked, allow_drift=True)


def test_a_broker_that_vanished_from_the_list_is_named_only_where_it_matters() -> None:
    plan, live = plan_and_live()
    for broker, refused in ((3, True), (1, False)):
        without = replace(live, brokers={b: v for b, v in live.brokers.items() if b != broker})
        found = assess(plan, without)
        assert found.differences == ()
        if refused:
            with pytest.raises(RefusedError, match="broker 3, which is not alive"):
                require_applicable(found, without, allow_drift=False)
        else:
            require_applicable(found, without, allow_drift=False)


def test_missing_rights_are_named_before_anything_is_done() -> None:
    _, live = plan_and_live()
    require_rights(THROTTLED, live)
    with pytest.raises(RefusedError, match="no right to alter_configs"):
        require_rights(THROTTLED, replace(live, operations=frozenset({"alter"})))
    require_rights(MOVE, replace(live, operations=frozenset({"alter"})))
    topics = {"t": frozenset({"describe"}), "u": frozenset({"describe", "alter_configs"}), "v": None}
    with pytest.raises(RefusedError, match="no right to alter_configs on topics: t;"):
        require_rights(THROTTLED, live, topics)
    require_rights(MOVE, live, {"t": frozenset({"read", "alter_configs"}), "v": None})


def test_entries_that_are_there_are_not_added_and_a_wildcard_is_left_alone() -> None:
    there = {"t": {LEADER_LIST: "0:1", FOLLOWER_LIST: "*"}}
    assert [(c.key, c.op, c.value) for c in entry_changes(wanted_entries([GOAL], RATES), there)] == [
        (LEADER_LIST, ConfigOp.APPEND, "0:2")
    ]
    assert entry_changes(wanted_entries([replace(GOAL, target=(2, 1))], RATES), {}) == []


def test_rates_go_back_to_what_they_were_and_others_values_stay() -> None:
    keys = [ConfigKey(ResourceKind.BROKER, str(b), LEADER_RATE) for b in (1, 2, 3, 4)]
    held = {
        keys[0]: RateHold(earlier=None, ours=frozenset({"5"})),
        keys[1]: RateHold(earlier="7", ours=frozenset({"5", "6"})),
        keys[2]: RateHold(earlier="7", ours=frozenset({"5"})),
        keys[3]: RateHold(earlier=None, ours=frozenset({"5"})),
    }
    now = {"1": {LEADER_RATE: "5"}, "2": {LEADER_RATE: "6"}, "3": {LEADER_RATE: "99"}}
    changes, settled, foreign = restore_changes(held, now)
    assert [(c.name, c.op, c.value) for c in changes] == [("1", ConfigOp.DELETE, None), ("2", ConfigOp.SET, "7")]
    assert (settled, foreign) == ([], [keys[2]])


def one_look(**changes: object) -> BatchObservation:
    nothing: frozenset[TopicPartition] = frozenset()
    base = BatchObservation(
        done=nothing, gone=nothing, pending=frozenset({KEY}), blocked={}, idle=nothing, copied_bytes=0, total_bytes=100
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def decide(*looks: tuple[float, BatchObservation]) -> BatchWatch:
    watch = BatchWatch(changed_at_s=0.0)
    for now, seen in looks:
        watch = follow(watch, seen, now, stall_timeout_s=300)
    return watch


def test_stalls_are_told_by_bytes_and_blocked_moves_after_a_short_grace() -> None:
    assert decide((0, one_look()), (299, one_look())).decision is NextAction.WAIT
    assert decide((0, one_look()), (300, one_look())).decision is NextAction.STALLED
    assert decide((0, one_look()), (299, one_look(copied_bytes=1)), (500, one_look(copied_bytes=1))).decision is (
        NextAction.WAIT
    )
    dead = one_look(blocked={KEY: 3})
    assert decide((0, dead), (9, dead)).decision is NextAction.WAIT
    assert decide((0, dead), (10, dead)).decision is NextAction.BLOCKED
    assert decide((0, dead), (9, one_look()), (11, dead)).decision is NextAction.WAIT
    other = frozenset({KEY, TopicPartition("t", 1)})
    still = one_look(blocked={KEY: 3}, pending=other)
    assert decide((0, still), (20, still)).decision is NextAction.WAIT


def test_idle_partitions_count_as_withdrawn_after_a_while() -> None:
    idle = one_look(pending=frozenset(), idle=frozenset({KEY}))
    assert decide((0, idle), (14, idle)).decision is NextAction.WAIT
    watch = decide((0, idle), (15, idle))
    assert (watch.decision, watch.withdrawn) == (NextAction.DONE, frozenset({KEY}))


def test_the_rate_is_taken_over_ten_seconds() -> None:
    looks = [(float(n), one_look(copied_bytes=n * 10)) for n in range(30)]
    watch = decide(*looks)
    assert watch.bytes_per_s == 10.0
    assert 10 <= watch.samples[-1][0] - watch.samples[0][0] <= 11
    assert [poll_interval_s(t) for t in (0, 20, 1000)] == [0.5, 1.0, 5.0]


def test_a_look_counts_what_was_copied_and_sees_new_offline_dirs() -> None:
    _, live = plan_and_live()
    live = with_state(live, (3, 2, 1), moving(3, 2))
    dirs = {
        1: BrokerLogDirs(broker=1, replicas={KEY: LiveReplica(size_bytes=100, log_dir="/d")}),
        3: BrokerLogDirs(
            broker=3,
            log_dirs=(LogDir(path="/d"), LogDir(path="/e", error="KafkaStorageError")),
            replicas={KEY: LiveReplica(size_bytes=40, log_dir="/d")},
        ),
    }
    seen = observe([GOAL], live, dirs)
    assert (seen.copied_bytes, seen.total_bytes, seen.offline_dirs) == (40, 100, ("3:/e",))
    assert observe([GOAL], live, dirs, offline_before={"3:/e"}).offline_dirs == ()


def test_lists_too_long_for_one_value_are_cut_into_batches() -> None:
    cluster = FakeCluster({100001: "a", 100002: "b", 100003: "c"})
    cluster.add_topic("t", dict.fromkeys(range(2000), (100001, 100002)))
    bench = Harness(cluster, make_plan(cluster, {("t", n): (100003, 100002) for n in range(2000)}))
    longest = 0

    def measure(name: str, _: object) -> None:
        nonlocal longest
        longest = max([longest, *(len(v) for v in cluster.topics["t"].configs.values())])

    cluster.before_call.append(measure)
    assert bench.apply(rate=10**6, batch_size=2000).ok
    assert 20_000 < longest < 32_767
    assert not cluster.topics["t"].configs
    assert sum(name == "reassign" for name, _ in cluster.calls) == 2


def test_a_damaged_line_in_the_middle_is_refused_and_a_torn_end_is_not() -> None:
    cluster = FakeCluster({1: "a", 2: "b"})
    cluster.add_topic("t", {0: (1,)})
    bench = Harness(cluster, make_plan(cluster, {("t", 0): (2,)}))
    bench.apply()
    good = bench.file.data
    assert len(decode_journal(good[:-5], "j").records) == len(decode_journal(good, "j").records) - 1
    with pytest.raises(InputError, match="journal line 2"):
        decode_journal(good.replace(b'"seq":1,', b'"seq":8,', 1), "j")


def test_a_rollback_to_paste_keeps_the_throttle_of_the_run() -> None:
    commands = Commands(
        program="kafkakit", plan="p.json", run_options=("--max-in 2",), throttle_options=("--throttle 20MB",)
    )
    rolled_back = "kafkakit reassign rollback p.json --yes --max-in 2 --throttle 20MB"
    assert commands.run(Direction.ROLLBACK) == rolled_back
    assert commands.run(Direction.APPLY) == "kafkakit reassign apply p.json --yes --max-in 2"
    assert commands.run(Direction.ABORT) == "kafkakit reassign abort p.json --yes"


def test_steps_in_flight_given_up_or_over_do_not_wait() -> None:
    steps = tuple(range(6))
    schedule = SimpleNamespace(steps=steps)
    state = RoundState(
        schedule=schedule,  # type: ignore[arg-type]
        goals={},
        done=frozenset({0}),
        moves={1: GOAL},
        inside={2: SimpleNamespace()},  # type: ignore[dict-item]
        dropped=frozenset({3}),
    )
    assert state.waiting == (4, 5)
    assert state.flying == {1, 2}
    assert not state.is_over
    assert replace(state, done=frozenset(steps) - {3}, moves={}, inside={}).is_over


def test_each_copy_that_arrives_has_its_dir() -> None:
    job = Job(key=KEY, current=(1, 2), target=(3, 2), where={1: "/a", 2: "/b"}, leader=1, size=1)
    leg = PartitionRequest(kind=StepKind.MOVE, target=(3, 2), adds=(3,), removes=(1,))
    with pytest.raises(ValueError, match="zip"):
        job.arrive(leg, ())
    job.arrive(leg, ("/c",))
    assert (job.where, job.current, job.leader, job.legs_done) == ({2: "/b", 3: "/c"}, (3, 2), 3, 1)


SOURCE, TARGET = "/d/0", "/d/1"


def work(partition: int, broker: int = 1, *, target: str = TARGET, sent: tuple[str, ...] = ()) -> DirWork:
    replica = TopicPartitionReplica("t", partition, broker)
    return DirWork(replica=replica, source=SOURCE, target=target, size_bytes=100, sent=sent)


def broker(replicas: dict[int, tuple[str, int]], futures: dict[int, tuple[str, int]] | None = None) -> BrokerLogDirs:
    def copies(found: dict[int, tuple[str, int]]) -> dict[TopicPartition, LiveReplica]:
        return {TopicPartition("t", n): LiveReplica(log_dir=path, size_bytes=size) for n, (path, size) in found.items()}

    dirs = (LogDir(path=SOURCE), LogDir(path=TARGET), LogDir(path="/d/2", error="offline"), LogDir(path="/d/3"))
    return BrokerLogDirs(broker=1, log_dirs=dirs, replicas=copies(replicas), futures=copies(futures or {}))


def test_every_move_is_looked_at_whatever_comes_before_it() -> None:
    gone, dark, third, done, moving, idle = work(0, 2), work(1, target="/d/2"), work(2), work(3), work(4), work(5)
    dirs = {
        1: broker(
            {1: (SOURCE, 1), 2: ("/d/3", 2), 3: (TARGET, 30), 4: (SOURCE, 40), 5: (SOURCE, 50)}, {4: (TARGET, 15)}
        )
    }
    look = look_at_dirs([gone, dark, third, done, moving, idle], dirs)
    assert (look.done, look.moving, look.idle) == ((done,), (moving,), (idle,))
    assert list(look.lost) == [gone, dark, third]
    assert "broker 2" in look.lost[gone]
    assert "/d/2" in look.lost[dark]
    assert "/d/3" in look.lost[third]
    assert (look.copied_bytes, look.total_bytes) == (30 + 15, 30 + 40 + 50)


def test_a_future_copy_counts_for_no_more_than_the_copy_and_only_on_its_way_to_the_target() -> None:
    dirs = {1: broker({0: (SOURCE, 10), 1: (TARGET, 20)}, {0: (TARGET, 99), 1: (SOURCE, 5)})}
    look = look_at_dirs([work(0), work(1)], dirs)
    assert (look.moving, look.idle, look.done) == ((work(0),), (work(1),), ())
    assert (look.copied_bytes, look.total_bytes) == (10, 30)


def test_a_copy_that_our_run_took_to_a_third_dir_is_not_lost() -> None:
    dirs = {1: broker({0: ("/d/3", 10)})}
    ours = work(0, sent=("/d/3",))
    assert look_at_dirs([ours], dirs).idle == (ours,)
    assert list(look_at_dirs([work(0)], dirs).lost) == [work(0)]
