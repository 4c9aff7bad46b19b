"""From what a cluster shows to what the scheduler asks for: tasks, disks, and what the logs take in meanwhile."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafkakit.core.cluster_facts import BrokerLogDirs
from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.goals import Goal
from kafkakit.execution.decide.log_dir_moves import DirWork, look_at_dirs
from kafkakit.execution.decide.precheck import Live
from kafkakit.execution.decide.progress import has_source, source_bytes
from kafkakit.execution.decide.schedule.work import DirTask, Disk, Place, Task
from kafkakit.simulator.cluster import efficiency_of

DEFAULT_WINDOW = 11
DEFAULT_BACKOFF_MS = 1000
SMALL_BATCH_BYTES = 16_000  # a producer's default; such logs reach 93 % at Kafka's defaults
LARGE_BATCH_BYTES = 900_000  # those that reached 80 %


def throttle_share(window_num: int | None = None, backoff_ms: int | None = None) -> float:
    """The share of a throttle that a move reaches, to two digits; by the formula that the simulator has.

    Halfway between small batches and large ones: a log may hold either, and so a forecast misses both by least.
    `window_num` is the brokers' `replication.quota.window.num`, `backoff_ms` their `replica.fetch.backoff.ms`; None
    means Kafka's default.
    """
    window = DEFAULT_WINDOW if window_num is None else max(1, window_num)
    backoff = DEFAULT_BACKOFF_MS if backoff_ms is None else backoff_ms
    shares = [efficiency_of(window, backoff, size) for size in (SMALL_BATCH_BYTES, LARGE_BATCH_BYTES)]
    return round(sum(shares) / len(shares), 2)


WINDOW_KEY = "replication.quota.window.num"
BACKOFF_KEY = "replica.fetch.backoff.ms"
SHARE_KEYS = (WINDOW_KEY, BACKOFF_KEY)

Dirs = Mapping[int, BrokerLogDirs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """What logs take in, in bytes/s: each partition's, and what all copies in a log dir do together."""

    of_partition: Mapping[TopicPartition, float] = field(default_factory=dict)
    of_dir: Mapping[Place, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One observation, ready for the scheduler."""

    tasks: tuple[Task, ...]
    dir_tasks: tuple[DirTask, ...]
    disks: tuple[Disk, ...]

    @property
    def total_bytes(self) -> int:
        """What is to be copied in all, between brokers and inside them."""
        moved = sum(t.size_bytes * len(t.adding) for t in self.tasks)
        return moved + sum(t.size_bytes for t in self.dir_tasks)


def intake_of(goals: Sequence[Goal], before: Dirs, after: Dirs, seconds: float) -> Intake:
    """Compare two looks, `seconds` apart: growth of logs, and shrinking free space of log dirs less what moves bring.

    What was deleted in between counts as no growth. Dirs that share a file system each show the whole of it.
    """
    if seconds <= 0:
        return Intake()
    grown: dict[TopicPartition, float] = {}
    arriving: dict[Place, int] = {}
    for goal in goals:
        grown[goal.key] = max([0, *(_gain(before, after, b, goal.key) for b in goal.holders)]) / seconds
        for broker in goal.adding:
            copy = after[broker].replicas.get(goal.key) if broker in after else None
            if copy is not None:
                place = Place(broker, copy.log_dir)
                arriving[place] = arriving.get(place, 0) + max(0, _gain(before, after, broker, goal.key))
    shrunk: dict[Place, float] = {}
    for broker, answer in after.items():
        earlier = {d.path: d.usable_bytes for d in before[broker].log_dirs} if broker in before else {}
        for found in answer.log_dirs:
            was = earlier.get(found.path)
            if was is not None and found.usable_bytes is not None:
                place = Place(broker, found.path)
                shrunk[place] = max(0, was - found.usable_bytes - arriving.get(place, 0)) / seconds
    return Intake(of_partition=grown, of_dir=shrunk)


def scene_of(
    goals: Sequence[Goal],
    inside: Sequence[DirWork],
    live: Live,
    dirs: Dirs,
    *,
    intake: Intake,
    min_isr: Mapping[str, int],
) -> Scene:
    """Tasks and disks of one look; `min_isr` is each topic's, where known.

    Half copies of moves that go the wrong way count as gone: the run cancels these before anything else.
    """
    leaving = _leaving(goals, live, dirs)
    return Scene(
        tasks=tuple(_task(g, live, dirs, intake, min_isr) for g in goals),
        dir_tasks=_dir_tasks(inside, dirs),
        disks=tuple(
            Disk(
                place=Place(broker, found.path),
                total_bytes=found.total_bytes,
                usable_bytes=_plus(found.usable_bytes, leaving.get(Place(broker, found.path), 0)),
                growth_bytes_per_s=intake.of_dir.get(Place(broker, found.path), 0.0),
                closed=found.cordoned or found.error is not None,
            )
            for broker, answer in sorted(dirs.items())
            if not answer.error
            for found in sorted(answer.log_dirs, key=lambda d: d.path)
        ),
    )


def _leaving(goals: Sequence[Goal], live: Live, dirs: Dirs) -> dict[Place, int]:
    """Bytes of copies that are about to be cancelled, by log dir."""
    found: dict[Place, int] = {}
    for goal in goals:
        running = live.running.get(goal.key)
        if running is None or goal.running or goal.via is not None:
            continue
        for broker in running.adding:
            place = Place(broker, _dir_of(dirs, broker, goal.key))
            found[place] = found.get(place, 0) + _bytes_of(dirs, broker, goal.key)
    return found


def _plus(usable: int | None, more: int) -> int | None:
    return None if usable is None else usable + more


def free_choice(scene: Scene, keys: Collection[TopicPartition]) -> Scene:
    """The scene in which new copies of these partitions may go to any log dir; itself when none named one."""
    bound = {t.key for t in scene.tasks if t.key in keys and t.wanted_dirs and not t.running}
    if not bound:
        return scene
    return replace(scene, tasks=tuple(replace(t, wanted_dirs={}) if t.key in bound else t for t in scene.tasks))


def share_of(settings: Mapping[int, Mapping[str, str]]) -> float:
    """The share of a throttle that the slowest of these brokers reaches; Kafka's defaults where they tell nothing."""
    shares = [throttle_share(_number(s.get(WINDOW_KEY)), _number(s.get(BACKOFF_KEY))) for s in settings.values()]
    return min(shares, default=throttle_share())


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


def _task(goal: Goal, live: Live, dirs: Dirs, intake: Intake, min_isr: Mapping[str, int]) -> Task:
    state = live.states[goal.key]
    target = goal.via or goal.target
    on_the_way = goal.running or goal.via is not None
    fresh = {b: _dir_of(dirs, b, goal.key) for b in target if b not in goal.holders} if on_the_way else {}
    wanted = {**goal.dirs, **{b: path for b, path in fresh.items() if path}}
    return Task(
        key=goal.key,
        holders=goal.holders,
        target=target,
        leader=state.leader if has_source(state, live) else None,
        size_bytes=source_bytes(goal, dirs),
        dirs={b: path for b in goal.holders if (path := _dir_of(dirs, b, goal.key))},
        wanted_dirs={b: path for b, path in sorted(wanted.items()) if b in target and b not in goal.holders},
        ingest_bytes_per_s=intake.of_partition.get(goal.key, 0.0),
        urgent=len(state.isr) < min_isr.get(goal.key.topic, 1),
        running=on_the_way,
        copied_bytes=sum(_bytes_of(dirs, b, goal.key) for b in fresh),
    )


def _dir_tasks(inside: Sequence[DirWork], dirs: Dirs) -> tuple[DirTask, ...]:
    seen = look_at_dirs(inside, dirs)
    tasks = []
    for item in (*seen.moving, *seen.idle):
        answer = dirs[item.replica.broker]
        future = answer.futures.get(item.key) if item in seen.moving else None
        tasks.append(
            DirTask(
                key=item.key,
                broker=item.replica.broker,
                source_dir=answer.replicas[item.key].log_dir,
                target_dir=item.target,
                size_bytes=answer.replicas[item.key].size_bytes,
                running=future is not None,
                copied_bytes=future.size_bytes if future else 0,
            )
        )
    return tuple(tasks)


def _gain(before: Dirs, after: Dirs, broker: int, key: TopicPartition) -> int:
    return _bytes_of(after, broker, key) - _bytes_of(before, broker, key) if broker in before else 0


def _bytes_of(dirs: Dirs, broker: int, key: TopicPartition) -> int:
    copy = dirs[broker].replicas.get(key) if broker in dirs else None
    return copy.size_bytes if copy else 0


def _dir_of(dirs: Dirs, broker: int, key: TopicPartition) -> str:
    copy = dirs[broker].replicas.get(key) if broker in dirs else None
    return copy.log_dir if copy else ""
