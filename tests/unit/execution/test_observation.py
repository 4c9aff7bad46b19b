"""From looks at a cluster to tasks and disks, and which steps may start by what brokers report."""

from dataclasses import replace

from kafkakit.core.cluster_facts import BrokerLogDirs, LiveReplica, PartitionState
from kafkakit.core.model import LogDir, Reassignment, TopicPartition
from kafkakit.execution.decide.plan_state import LiveState, MoveGoal
from kafkakit.execution.decide.progress import Context, RoundState, begin, may_start, settle
from kafkakit.execution.decide.run_rules import ScheduleLimits
from kafkakit.execution.decide.schedule.forecast import Intake, free_choice, intake_of, scene_of, share_of
from kafkakit.execution.decide.schedule.work import Disk, LogDirPlace, Schedule, ScheduleStep, StepKind
from tests.fakes.admin import FakeCluster

KEY, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
DIR = LogDirPlace(3, "/d")


def live_of(*running: Reassignment) -> LiveState:
    cluster = FakeCluster({1: "a", 2: "b", 3: "c"})
    state = PartitionState(replicas=(1, 2), isr=(1,), leader=1)
    return LiveState(
        cluster_id="x",
        brokers={b.id: b for b in cluster.cluster().brokers},
        states={KEY: state, OTHER: state},
        running={TopicPartition(r.topic, r.partition): r for r in running},
    )


def dirs_of(usable: int, **copies: int) -> dict[int, BrokerLogDirs]:
    """Broker 1 holds the source, broker 3 what there is of the copy, both in `/d` of 100 bytes."""
    names = {"source": 1, "copy": 3}
    return {
        broker: BrokerLogDirs(
            broker=broker,
            log_dirs=(LogDir(path="/d", total_bytes=100, usable_bytes=usable),),
            replicas={KEY: LiveReplica(size_bytes=copies[name], log_dir="/d")} if name in copies else {},
        )
        for name, broker in names.items()
    }


def test_growth_is_what_is_left_of_shrinking_room_without_what_moves_bring() -> None:
    goal = MoveGoal(key=KEY, target=(1, 3), holders=(1, 2), running=True)
    found = intake_of([goal], dirs_of(90, source=10, copy=2), dirs_of(70, source=20, copy=12), 10.0)
    assert found.of_partition == {KEY: 1.0}
    assert found.of_dir == {LogDirPlace(1, "/d"): 2.0, DIR: 1.0}
    shrunk = intake_of([goal], dirs_of(50, source=20), dirs_of(90, source=10), 10.0)
    assert shrunk.of_partition == {KEY: 0.0}
    assert set(shrunk.of_dir.values()) == {0.0}
    assert intake_of([goal], {}, dirs_of(90, source=10), 0.0) == Intake()


def test_tasks_say_what_is_there_what_is_under_way_and_what_is_urgent() -> None:
    moving = Reassignment(topic="t", partition=0, replicas=(1, 3, 2), adding=(3,), removing=(2,))
    goal = MoveGoal(key=KEY, target=(3, 1), holders=(1, 2), via=(1, 3), dirs={3: "/elsewhere"})
    scene = scene_of([goal], (), live_of(moving), dirs_of(90, source=20, copy=5), intake=Intake(), min_isr={"t": 2})
    (task,) = scene.tasks
    assert (task.target, task.running, task.copied_bytes, task.size_bytes) == ((1, 3), True, 5, 20)
    assert (task.wanted_dirs, task.dirs, task.leader, task.urgent) == ({3: "/d"}, {1: "/d"}, 1, True)
    assert free_choice(scene, [KEY]) is scene
    fresh = replace(scene, tasks=(replace(task, running=False),))
    assert free_choice(fresh, [KEY]).tasks[0].wanted_dirs == {}
    assert free_choice(fresh, [OTHER]) is fresh


def test_a_minimum_above_the_copies_that_are_wanted_makes_nothing_urgent() -> None:
    live = live_of(Reassignment(topic="t", partition=0, replicas=(1, 2), adding=(), removing=(1,)))
    urgent = {}
    for target in ((2,), (2, 3), (2, 3, 4)):
        goal = MoveGoal(key=KEY, target=target, holders=(1, 2))
        scene = scene_of([goal], (), live, dirs_of(90, source=20), intake=Intake(), min_isr={"t": 3})
        urgent[len(target)] = scene.tasks[0].urgent
    in_sync = len(live.states[KEY].isr)
    assert urgent == {size: in_sync < size for size in urgent}
    assert len(set(urgent.values())) == 2


def test_half_copies_that_are_about_to_be_cancelled_count_as_gone() -> None:
    moving = Reassignment(topic="t", partition=0, replicas=(3, 1, 2), adding=(3,), removing=(2,))
    back = MoveGoal(key=KEY, target=(1, 2), holders=(1, 2))
    scene = scene_of([back], (), live_of(moving), dirs_of(60, source=20, copy=15), intake=Intake(), min_isr={})
    assert {d.place: d.usable_bytes for d in scene.disks} == {LogDirPlace(1, "/d"): 60, DIR: 75}


def test_the_slowest_broker_gives_the_share_of_a_throttle() -> None:
    quick = {"replication.quota.window.num": "3", "replica.fetch.backoff.ms": "100"}
    assert share_of({1: quick}) > share_of({1: quick, 2: {}}) == share_of({})


def step(key: TopicPartition, size: int, after: int | None = None) -> ScheduleStep:
    return ScheduleStep(
        key=key,
        kind=StepKind.MOVE,
        target=(1, 3),
        leader=1,
        adding=(DIR,),
        removing=(LogDirPlace(2, "/d"),),
        size_bytes=size,
        start_s=0.0,
        end_s=1.0,
        after=after,
    )


def board_of(*steps: ScheduleStep) -> RoundState:
    goals = [MoveGoal(key=s.key, target=s.target, holders=(1, 2)) for s in steps]
    disks = [
        Disk(place=p, total_bytes=100, usable_bytes=100) for p in (DIR, LogDirPlace(3, "/e"), LogDirPlace(1, "/d"))
    ]
    return begin(Schedule(steps=steps, makespan_s=1.0, bound_s=1.0), goals, disks)


def test_what_is_on_its_way_into_a_dir_keeps_its_room() -> None:
    context = Context(limits=ScheduleLimits(), totals={DIR: 100}, ours={})
    round_state = board_of(step(KEY, 60), step(OTHER, 30), step(TopicPartition("t", 2), 10))
    assert may_start(round_state, live_of(), dirs_of(100, source=60), context) == (0, 1)
    flying = replace(round_state, moves={0: round_state.goals[KEY]})
    assert may_start(flying, live_of(), dirs_of(80, source=60, copy=20), context) == (1,)
    assert may_start(flying, live_of(), dirs_of(50, source=60, copy=20), context) == ()
    assert may_start(settle(flying, done=[0]), live_of(), dirs_of(40, source=60, copy=60), context) == (1,)


def test_moves_without_progress_keep_their_room_but_not_their_places() -> None:
    context = Context(limits=ScheduleLimits(into_each=1), totals={DIR: 100}, ours={})
    round_state = board_of(step(KEY, 60), step(OTHER, 30))
    flying = replace(round_state, moves={0: round_state.goals[KEY]})
    assert may_start(flying, live_of(), dirs_of(100, source=60), context) == ()
    assert may_start(flying, live_of(), dirs_of(100, source=60), context, hopeless=[KEY]) == (1,)
    assert may_start(flying, live_of(), dirs_of(80, source=60), context, hopeless=[KEY]) == ()
    foreign = Reassignment(topic="z", partition=0, replicas=(3, 1), adding=(3,), removing=(1,))
    assert may_start(round_state, live_of(foreign), dirs_of(100, source=60), context) == ()


def test_giving_up_a_partition_gives_up_all_that_follows() -> None:
    round_state = board_of(step(KEY, 10), step(KEY, 10, after=0), step(OTHER, 10))
    assert settle(round_state, keys={KEY}).dropped == {0, 1}
    assert settle(round_state, dropped=[0]).dropped == {0, 1}
    assert settle(settle(round_state, done=[0]), keys={KEY}).dropped == {1}
    assert settle(round_state) is round_state
    assert settle(round_state, done=[0, 1, 2]).is_over
    assert round_state.several == {3}
