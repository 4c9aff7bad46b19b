"""Around the scheduler: what it is asked, from what a cluster shows, and what its schedule promises.

Tasks, disks and what the logs take in meanwhile come from observation. The catch-up test finds copies that never end,
since their log takes in more than the throttle lets through. A forecast says which rates were assumed and which
measured, and between which times the run should end. A schedule is described by its time, why it is not faster, and
its detours.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafkakit.core.cluster_facts import BrokerLogDirs
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import count_of, format_bytes, format_rate
from kafkakit.execution.decide.plan_state import DirWork, LiveState, MoveGoal, look_at_dirs
from kafkakit.execution.decide.progress import has_source, source_bytes
from kafkakit.execution.decide.run_rules import ScheduleLimits
from kafkakit.execution.decide.schedule.work import (
    Bottleneck,
    BrokerRates,
    DirTask,
    Disk,
    LogDirPlace,
    PartitionTask,
    Schedule,
    ScheduleStep,
    Speeds,
    StepKind,
)
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
    of_dir: Mapping[LogDirPlace, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleInput:
    """One observation, ready for the scheduler."""

    tasks: tuple[PartitionTask, ...]
    dir_tasks: tuple[DirTask, ...]
    disks: tuple[Disk, ...]

    @property
    def total_bytes(self) -> int:
        """What is to be copied in all, between brokers and inside them."""
        moved = sum(t.size_bytes * len(t.adding) for t in self.tasks)
        return moved + sum(t.size_bytes for t in self.dir_tasks)


def intake_of(goals: Sequence[MoveGoal], before: Dirs, after: Dirs, seconds: float) -> Intake:
    """Compare two looks, `seconds` apart: growth of logs, and shrinking free space of log dirs less what moves bring.

    What was deleted in between counts as no growth. Dirs that share a file system each show the whole of it.
    """
    if seconds <= 0:
        return Intake()
    grown: dict[TopicPartition, float] = {}
    arriving: dict[LogDirPlace, int] = {}
    for goal in goals:
        grown[goal.key] = max([0, *(_gain(before, after, b, goal.key) for b in goal.holders)]) / seconds
        for broker in goal.adding:
            copy = after[broker].replicas.get(goal.key) if broker in after else None
            if copy is not None:
                place = LogDirPlace(broker, copy.log_dir)
                arriving[place] = arriving.get(place, 0) + max(0, _gain(before, after, broker, goal.key))
    shrunk: dict[LogDirPlace, float] = {}
    for broker, answer in after.items():
        earlier = {d.path: d.usable_bytes for d in before[broker].log_dirs} if broker in before else {}
        for found in answer.log_dirs:
            was = earlier.get(found.path)
            if was is not None and found.usable_bytes is not None:
                place = LogDirPlace(broker, found.path)
                shrunk[place] = max(0, was - found.usable_bytes - arriving.get(place, 0)) / seconds
    return Intake(of_partition=grown, of_dir=shrunk)


def scene_of(
    goals: Sequence[MoveGoal],
    inside: Sequence[DirWork],
    live: LiveState,
    dirs: Dirs,
    *,
    intake: Intake,
    min_isr: Mapping[str, int],
) -> ScheduleInput:
    """Tasks and disks of one look; `min_isr` is each topic's, where known.

    Half copies of moves that go the wrong way count as gone: the run cancels these before anything else.
    """
    leaving = _leaving_bytes(goals, live, dirs)
    return ScheduleInput(
        tasks=tuple(_task(g, live, dirs, intake, min_isr) for g in goals),
        dir_tasks=_dir_tasks(inside, dirs),
        disks=tuple(
            Disk(
                place=LogDirPlace(broker, found.path),
                total_bytes=found.total_bytes,
                usable_bytes=_plus(found.usable_bytes, leaving.get(LogDirPlace(broker, found.path), 0)),
                growth_bytes_per_s=intake.of_dir.get(LogDirPlace(broker, found.path), 0.0),
                closed=found.cordoned or found.error is not None,
            )
            for broker, answer in sorted(dirs.items())
            if not answer.error
            for found in sorted(answer.log_dirs, key=lambda d: d.path)
        ),
    )


def _leaving_bytes(goals: Sequence[MoveGoal], live: LiveState, dirs: Dirs) -> dict[LogDirPlace, int]:
    """Bytes of copies that are about to be cancelled, by log dir."""
    found: dict[LogDirPlace, int] = {}
    for goal in goals:
        running = live.running.get(goal.key)
        if running is None or goal.running or goal.via is not None:
            continue
        for broker in running.adding:
            place = LogDirPlace(broker, _dir_of(dirs, broker, goal.key))
            found[place] = found.get(place, 0) + _bytes_of(dirs, broker, goal.key)
    return found


def _plus(usable: int | None, more: int) -> int | None:
    return None if usable is None else usable + more


def free_choice(scene: ScheduleInput, keys: Collection[TopicPartition]) -> ScheduleInput:
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


def _task(goal: MoveGoal, live: LiveState, dirs: Dirs, intake: Intake, min_isr: Mapping[str, int]) -> PartitionTask:
    state = live.states[goal.key]
    target = goal.via or goal.target
    on_the_way = goal.running or goal.via is not None
    fresh = {b: _dir_of(dirs, b, goal.key) for b in target if b not in goal.holders} if on_the_way else {}
    wanted = {**goal.dirs, **{b: path for b, path in fresh.items() if path}}
    return PartitionTask(
        key=goal.key,
        holders=goal.holders,
        target=target,
        leader=state.leader if has_source(state, live) else None,
        size_bytes=source_bytes(goal, dirs),
        dirs={b: path for b in goal.holders if (path := _dir_of(dirs, b, goal.key))},
        wanted_dirs={b: path for b, path in sorted(wanted.items()) if b in target and b not in goal.holders},
        ingest_bytes_per_s=intake.of_partition.get(goal.key, 0.0),
        urgent=len(state.isr) < min(min_isr.get(goal.key.topic, 1), len(goal.target)),
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


THIN_S = 30.0
"""Shorter runs are made of fetchers that start, looks, elections, and bursts that a throttle lets through at first."""
THIN_ERROR_S = 10.0
ASSUMED_FACTOR = 4.0
MEASURED_FACTOR = 1.5
SUGGESTED_SHARE = 0.25
LEAST_SUGGESTED = 10_000_000
MEASURABLE_BYTES = 50_000_000
MEASURABLE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationForecast:
    """Seconds that a run takes at least and at most, equal where its basis is good; `basis` tells rates that are not
    a throttle's."""

    least_s: float
    most_s: float
    basis: tuple[str, ...] = ()

    @property
    def is_interval(self) -> bool:
        """True where one number would say more than is known."""
        return self.least_s < self.most_s


def speeds_of(efficiency: float, disks: Iterable[Disk], link_bytes_per_s: float | None) -> Speeds:
    """The speeds to plan with: a link does what a run without throttle measured, else what is assumed.

    Brokers whose logs take in more than that at this moment raise it: their links carry it.
    """
    traffic: dict[int, float] = {}
    for disk in disks:
        traffic[disk.place.broker] = traffic.get(disk.place.broker, 0.0) + disk.growth_bytes_per_s
    line = link_bytes_per_s or Speeds().line_bytes_per_s
    seen = max(traffic.values(), default=0.0)
    measured = link_bytes_per_s is not None or seen > line
    return Speeds(line_bytes_per_s=max(line, seen), is_measured=measured, efficiency=efficiency)


def forecast_of(schedule: Schedule, rates: BrokerRates, speeds: Speeds) -> DurationForecast:
    """Judge the times of a schedule by where its rates come from; O(steps).

    A rate that is assumed may be wrong by a factor of 4, one that earlier copies reached by half; a run of less than
    30 s by 10 s besides.
    """
    copying = [s for s in schedule.steps if s.adding and s.size_bytes]
    free = any(_is_free(s, rates) for s in copying if s.kind is not StepKind.INSIDE)
    free_inside = rates.inside is None and any(s.kind is StepKind.INSIDE for s in copying)
    basis, factor = [], 1.0
    if free:
        origin, factor = ("measured", MEASURED_FACTOR) if speeds.is_measured else ("assumed", ASSUMED_FACTOR)
        basis.append(f"{origin}, since no throttle limits it: {format_rate(speeds.line_bytes_per_s)} a broker")
    if free_inside:
        factor = ASSUMED_FACTOR
        basis.append(f"assumed, since no throttle limits it: {format_rate(speeds.disk_bytes_per_s)} inside a broker")
    total = schedule.makespan_s
    spare = THIN_ERROR_S if copying and (factor > 1 or total < THIN_S) else 0.0
    return DurationForecast(
        least_s=total / factor if factor > 1 else max(total - spare, total / ASSUMED_FACTOR),
        most_s=total * factor + spare,
        basis=tuple(basis),
    )


def suggested_throttle(tasks: Sequence[PartitionTask], limits: ScheduleLimits, speeds: Speeds) -> int:
    """A rate that leaves three quarters of a broker's link to clients, and still catches up with what logs take in."""
    rate = max(LEAST_SUGGESTED, readable_rate(speeds.line_bytes_per_s * SUGGESTED_SHARE))
    return catch_up(tasks, limits, BrokerRates(into=rate, out=rate), speeds).smallest or rate


def is_free(steps: Iterable[ScheduleStep], rates: BrokerRates) -> bool:
    """True when a copy between brokers goes without any throttle."""
    return any(_is_free(s, rates) for s in steps if s.adding and s.size_bytes and s.kind is not StepKind.INSIDE)


def measured_link(schedule: Schedule, rates: BrokerRates, seconds: float) -> float | None:
    """Bytes a second that the busiest broker reached in a run without throttle; None where that says little."""
    found = schedule.bottleneck
    if found is None or found.direction == "inside" or found.bytes < MEASURABLE_BYTES or seconds < MEASURABLE_S:
        return None
    limit = rates.into_broker(found.broker) if found.direction == "into" else rates.out_of_broker(found.broker)
    return found.bytes / seconds if limit is None else None


def _is_free(step: ScheduleStep, rates: BrokerRates) -> bool:
    out = None if step.leader is None else rates.out_of_broker(step.leader)
    return out is None and any(rates.into_broker(place.broker) is None for place in step.adding)


MARGIN = 1.1  # above what comes in, so that copies do not only keep up


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """A broker whose throttle is too low: bytes per second that come in, that get through, and that would do.

    `direction` is `into` or `out`; `partitions` are those that may be in flight together there, the busiest first.
    """

    broker: int
    direction: str
    ingest_bytes_per_s: float
    throttle: int
    reached_bytes_per_s: float
    smallest: int
    partitions: tuple[TopicPartition, ...]

    def __str__(self) -> str:
        verb = "take in" if self.direction == "into" else "send"
        names = ", ".join(map(str, self.partitions[:3])) + (" ..." if len(self.partitions) > 3 else "")
        together = count_of(len(self.partitions), "partition")
        return (
            f"broker {self.broker} may {verb} {format_rate(self.throttle)} for moves, of which it reaches "
            f"{format_rate(self.reached_bytes_per_s)}, but the logs of {together} that may be in flight there at a "
            f"time grow by {format_rate(self.ingest_bytes_per_s)} ({names}): they would never catch up"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """The answer: throttles that are too low, and the smallest rate for all brokers that works (None: all is well)."""

    shortfalls: tuple[Shortfall, ...] = ()
    smallest: int | None = None


def catch_up(tasks: Sequence[PartitionTask], limits: ScheduleLimits, rates: BrokerRates, speeds: Speeds) -> CatchUp:
    """Hold each broker's throttles against the growth of the copies that it may have in flight at a time.

    The worst case counts: the copies with most ingest that the limits on concurrency allow together. The smallest rate
    has a margin of 10 % and is rounded up to two digits. Directions without a throttle pass. O(copies log copies).
    """
    demands: dict[tuple[int, str], list[tuple[float, int, TopicPartition]]] = {}
    for task in tasks:
        adding = task.adding
        if not adding or task.leader is None or task.ingest_bytes_per_s <= 0:
            continue
        at_once = 1 if limits.one_replica_at_a_time and not task.running else len(adding)
        for broker in adding:
            demands.setdefault((broker, "into"), []).append((task.ingest_bytes_per_s, 1, task.key))
        demands.setdefault((task.leader, "out"), []).append((task.ingest_bytes_per_s, at_once, task.key))
    found = []
    for (broker, direction), copies in sorted(demands.items()):
        throttle = rates.into_broker(broker) if direction == "into" else rates.out_of_broker(broker)
        if throttle is None:
            continue
        ingest, keys = _largest_together(copies, limits.into_each if direction == "into" else limits.out_each)
        reached = throttle * speeds.efficiency
        if reached <= ingest:
            smallest = readable_rate(ingest * MARGIN / speeds.efficiency)
            found.append(
                Shortfall(
                    broker=broker,
                    direction=direction,
                    ingest_bytes_per_s=ingest,
                    throttle=throttle,
                    reached_bytes_per_s=reached,
                    smallest=smallest,
                    partitions=keys,
                )
            )
    if not found:
        return CatchUp()
    found.sort(key=lambda s: (-s.smallest, s.broker, s.direction))
    return CatchUp(shortfalls=tuple(found), smallest=found[0].smallest)


def _largest_together(
    copies: list[tuple[float, int, TopicPartition]], slots: int
) -> tuple[float, tuple[TopicPartition, ...]]:
    """The most ingest that can be in flight at a time, and whose; one that fills more than the slots goes alone."""
    ordered = sorted(copies, key=lambda c: (-c[0] * c[1], c[2]))
    ingest, used, keys = 0.0, 0, []
    for each, count, key in sorted(copies, key=lambda c: (-c[0], c[2])):
        fits = min(count, slots - used)
        if fits <= 0:
            break
        ingest += each * fits
        used += fits
        keys.append(key)
    alone, count, key = ordered[0]
    if alone * count > ingest:
        return alone * count, (key,)
    return ingest, tuple(keys)


def readable_rate(rate: float) -> int:
    """The rate rounded up to two digits."""
    step = 1
    while rate / step > 100:
        step *= 10
    return -int(-rate // step) * step


SHOWN_STEPS = 10
SHOWN_IMMOVABLE = 5


def format_span(seconds: float) -> str:
    """A span of time as people say it: `45 s`, `3 min 20 s`, `3 h 05 min`, `2 d 4 h`."""
    total = max(0, round(seconds))
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60} min {total % 60:02} s"
    minutes = round(total / 60)
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02} min"
    return f"{minutes // 1440} d {minutes % 1440 // 60} h"


def eta_line(schedule: Schedule, forecast: DurationForecast | None = None) -> str:
    """The one line that is said before the first byte: a time, or an interval where the basis is thin."""
    eta, bound = format_span(schedule.makespan_s), f" ({format_span(schedule.bound_s)} is the theoretical minimum)"
    if forecast is not None and forecast.is_interval:
        eta = f"{format_span(forecast.least_s)} to {format_span(forecast.most_s)}"
        # It holds for known rates, and not for short runs: brokers let 10 s of a throttle through at once.
        bound = "" if forecast.basis or forecast.least_s < schedule.bound_s else bound
    line = f"ETA {eta}{bound}"
    return f"{line}, bottleneck {bottleneck_words(schedule.bottleneck)}" if schedule.bottleneck else line


def bottleneck_words(found: Bottleneck) -> str:
    """Which broker, which way, how much at which rate."""
    return f"broker {found.broker} {found.direction}: {format_bytes(found.bytes)} at {format_rate(found.bytes_per_s)}"


def schedule_lines(
    schedule: Schedule, forecast: DurationForecast | None = None, *, shown: int = SHOWN_STEPS
) -> list[str]:
    """The schedule for people: the ETA, detours and other steps that are no plain moves, first steps, what cannot move.

    Times of steps are from the start of the run.
    """
    lines = [eta_line(schedule, forecast), *(f"  {b}" for b in (forecast.basis if forecast else ()))]
    extra = [s for s in schedule.steps if s.why and s.kind in (StepKind.DETOUR, StepKind.INSIDE)]
    if extra:
        bytes_twice = sum(s.size_bytes for s in extra)
        lines.append(f"{count_of(len(extra), 'detour')} past full dirs, {format_bytes(bytes_twice)} copied twice:")
        lines += [f"  {s.why}" for s in extra[:shown]]
        lines += _more_lines(len(extra), shown)
    if schedule.steps:
        lines.append(f"{count_of(len(schedule.steps), 'step')}, the first:")
        lines += [f"  {step_words(s)}" for s in schedule.steps[:shown]]
        lines += _more_lines(len(schedule.steps), shown)
    if schedule.immovable:
        lines.append(f"{count_of(len(schedule.immovable), 'partition')} that no order brings to the target:")
        lines += [f"  {key}: {reason}" for key, reason in list(schedule.immovable.items())[:SHOWN_IMMOVABLE]]
        lines += _more_lines(len(schedule.immovable), SHOWN_IMMOVABLE)
    return [*lines, *(f"note: {n}" for n in schedule.notes)]


def step_words(step: ScheduleStep) -> str:
    """One step in a line: when, which partition, where to."""
    when = f"{format_span(step.start_s)} to {format_span(step.end_s)}"
    size = format_bytes(step.size_bytes)
    if step.kind is StepKind.INSIDE:
        (came,), (gone,) = step.adding, step.removing
        return f"{when}: {step.key} on broker {came.broker} from {gone.log_dir} to {came.log_dir} ({size})"
    what = f"{step.key} to [{','.join(map(str, step.target))}]"
    if not step.adding:
        return f"{when}: {what} (nothing to copy)"
    copies = " and ".join(_place(p) for p in step.adding)
    kind = "" if step.kind is StepKind.MOVE else f", {step.kind.value}"
    under_way = ", under way" if step.running else ""
    return f"{when}: {what} ({size} from {step.leader} to {copies}{kind}{under_way})"


def _place(place: LogDirPlace) -> str:
    return f"{place.broker}:{place.log_dir}" if place.log_dir else str(place.broker)


def _more_lines(count: int, shown: int) -> list[str]:
    return [f"  and {count - shown} more"] if count > shown else []
