"""One run's schedule: what is left to do, in which order and until when, and carrying it out in rounds.

A schedule is made from where copies and free space are, what the logs take in, and how brokers are set. Simulated cases
are played with their progress shown.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from kafkakit.core.cluster_facts import BrokerLogDirs, ResourceKind
from kafkakit.core.errors import InfeasibleError
from kafkakit.core.findings import min_isr_of
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import count_of, rate_option
from kafkakit.execution.act.retrier import Retrier, read_usual_min_isr
from kafkakit.execution.decide.journal import JournalSubject
from kafkakit.execution.decide.plan_state import DirWork, LiveState, MoveGoal, list_items
from kafkakit.execution.decide.progress import DEAD_GRACE_S, Context, begin, sources_told, without_source
from kafkakit.execution.decide.run_rules import SimulateRequest
from kafkakit.execution.decide.runs import Direction
from kafkakit.execution.decide.schedule.forecast import (
    SHARE_KEYS,
    Intake,
    ScheduleInput,
    catch_up,
    forecast_of,
    format_span,
    free_choice,
    intake_of,
    is_free,
    measured_link,
    scene_of,
    schedule_lines,
    share_of,
    speeds_of,
    suggested_throttle,
)
from kafkakit.execution.decide.schedule.scheduler import plan_schedule
from kafkakit.execution.decide.schedule.work import BrokerRates, Schedule, Speeds, is_unlimited, require_known
from kafkakit.ports.acting import Clock, Reporter, pause
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.reassign.act.window import MoveWindow, ReassignParts
from kafkakit.reassign.decide.simulate import Case, SimulationScene, play

SHOWN_STEPS = 5
FRESH_S = 60.0  # a schedule that was shown longer ago is made again before it is followed


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSchedule:
    """A schedule with what it was made from."""

    goals: tuple[MoveGoal, ...]
    inside: tuple[DirWork, ...]
    scene: ScheduleInput
    schedule: Schedule
    rates: BrokerRates

    @property
    def is_partial(self) -> bool:
        """True when another round must follow: steps that a cut run has on the cluster are waited for first."""
        return any(g.via is not None for g in self.goals)


class RoundScheduler:
    """Makes schedules, announces them, and carries them out in rounds."""

    def __init__(self, parts: ReassignParts, window: MoveWindow, link_bytes_per_s: float | None) -> None:
        self._plan, self._clock, self._journal, self._window = parts.plan, parts.clock, parts.journal, window
        self._plan_reader, self._reporter, self._request = parts.plan_reader, parts.reporter, parts.request
        self._inputs = ScheduleInputs(parts.admin, parts.clock, parts.retrier)
        self._speeds: Speeds | None = None
        self._link_bytes_per_s = parts.journal.state.link_bytes_per_s or link_bytes_per_s
        self.measured_bytes_per_s: float | None = None
        self._shown: RoundSchedule | None = None
        self._shown_at_s = 0.0

    def announce(
        self, goals: Sequence[MoveGoal], inside: Sequence[DirWork], live: LiveState, rates: BrokerRates
    ) -> RoundSchedule:
        """Order the work and say how long it will take, before the first byte.

        Raises `InfeasibleError` when some of it cannot be done in any order, `UsageError` for a rate of a broker that
        neither the cluster nor the plan knows.
        """
        planned = {b for move in self._plan.moves for b in (*move.before, *move.after)}
        require_known(self._request.rates, planned.union(live.brokers))
        round_schedule = self._plot(goals, inside, live, rates, sample_s=self._request.rules.ingest_sample_s)
        forecast = forecast_of(round_schedule.schedule, rates, self._speeds or Speeds())
        for line in schedule_lines(round_schedule.schedule, forecast, shown=SHOWN_STEPS):
            self._reporter.say(line)
        if not self._request.rules.ingest_sample_s:
            self._reporter.say("the growth of logs was not measured and is taken as zero")
        if not round_schedule.is_partial:
            _require_possible(round_schedule)
        self._require_catch_up(round_schedule)
        self._suggest_throttle(round_schedule)
        self._shown, self._shown_at_s = round_schedule, self._clock.monotonic()
        return round_schedule

    def _require_catch_up(self, round_schedule: RoundSchedule) -> None:
        """Raise `InfeasibleError` when a throttle is below what the logs take in, with the smallest that works."""
        answer = catch_up(
            round_schedule.scene.tasks, self._request.limits, round_schedule.rates, self._speeds or Speeds()
        )
        if answer.shortfalls:
            reasons = tuple(str(s) for s in answer.shortfalls)
            raise InfeasibleError(
                reasons[0],
                reasons=reasons if len(reasons) > 1 else (),
                hint=f"the smallest rate that works for all brokers: --throttle {answer.smallest}",
            )

    def _suggest_throttle(self, round_schedule: RoundSchedule) -> None:
        """Warn of copies that nothing limits, unless the operator asked for that."""
        if self._request.rates.given or not is_free(round_schedule.schedule.steps, round_schedule.rates):
            return
        speeds, found = self._speeds or Speeds(), round_schedule.schedule.bottleneck
        rate = suggested_throttle(round_schedule.scene.tasks, self._request.limits, speeds)
        takes = "" if found is None else f", about {format_span(found.bytes / (rate * speeds.efficiency))}"
        self._reporter.warn(
            "no throttle: copies will compete with clients for network and disk; set one "
            f"(--throttle {rate_option(rate)}{takes}), or pass --throttle none to silence this"
        )

    def rounds(self, direction: Direction, rates: BrokerRates, skip: Collection[TopicPartition] = ()) -> None:
        """Carry out what is left, and look again: for the rest of what a cut run had half done, and for new sources.

        See `MoveWindow.carry` for what is raised.
        """
        tried: set[object] = set(skip)
        deadline = self._clock.monotonic() + DEAD_GRACE_S
        while True:
            live, assessment = self._plan_reader.look(settle=True)
            goals, inside = self._plan_reader.left(direction, live, assessment)
            sourceless = without_source(goals, live)
            goals = tuple(g for g in goals if g.key not in tried and g.key not in sourceless)
            inside = tuple(w for w in inside if w.replica not in tried)
            if goals or inside:
                round_schedule = self._schedule_for(goals, inside, live, rates)
                self._carry(
                    round_schedule, f"{direction.value}: {count_of(len(round_schedule.schedule.steps), 'step')}"
                )
                later = round_schedule.schedule.immovable if round_schedule.is_partial else {}
                tried |= {g.key for g in goals if g.via is None and g.key not in later}
                tried |= {w.replica for w in inside if w.key not in later}
                rates = self._window.rates or BrokerRates()
            elif sourceless and self._clock.monotonic() < deadline:
                pause(self._clock, 1.0)
            else:
                if sourceless:
                    self._window.problems.append(f"no live source, nothing can be copied: {sources_told(sourceless)}")
                return

    def _schedule_for(
        self, goals: tuple[MoveGoal, ...], inside: tuple[DirWork, ...], live: LiveState, rates: BrokerRates
    ) -> RoundSchedule:
        """The schedule that was shown, while it is fresh; else a new one. What that leaves out becomes a problem."""
        shown, self._shown = self._shown, None
        if (
            shown is not None
            and self._clock.monotonic() - self._shown_at_s < FRESH_S
            and (shown.goals, shown.inside, shown.rates) == (goals, inside, rates)
        ):
            return shown
        round_schedule = self._plot(goals, inside, live, rates, sample_s=0.0)
        immovable = [] if round_schedule.is_partial else sorted(round_schedule.schedule.immovable.items())
        self._window.problems += [f"{key} is left as it is: {reason}" for key, reason in immovable]
        return round_schedule

    def _plot(
        self,
        goals: Sequence[MoveGoal],
        inside: Sequence[DirWork],
        live: LiveState,
        rates: BrokerRates,
        *,
        sample_s: float,
    ) -> RoundSchedule:
        scene = self._inputs.scene(goals, inside, live, sample_s=sample_s)
        if self._speeds is None:
            brokers = {b for g in goals for b in g.adding if live.is_alive(b)}
            self._speeds = speeds_of(
                share_of(self._inputs.settings(brokers, SHARE_KEYS)), scene.disks, self._link_bytes_per_s
            )
        schedule = self._schedule(scene, live, rates)
        freed = free_choice(scene, schedule.immovable)
        if freed is not scene:
            again = self._schedule(freed, live, rates)
            chosen = [f"{k}" for k in sorted(schedule.immovable) if k not in again.immovable]
            if chosen:
                self._reporter.warn(
                    f"no free space in the planned log dir now, another one is chosen: {list_items(chosen)}"
                )
            scene, schedule = freed, again
        return RoundSchedule(goals=tuple(goals), inside=tuple(inside), scene=scene, schedule=schedule, rates=rates)

    def _schedule(self, scene: ScheduleInput, live: LiveState, rates: BrokerRates) -> Schedule:
        return plan_schedule(
            scene.tasks,
            scene.dir_tasks,
            scene.disks,
            self._request.limits,
            rates,
            self._speeds or Speeds(),
            racks={b.id: b.group for b in live.brokers.values()},
        )

    def _carry(self, round_schedule: RoundSchedule, label: str) -> None:
        schedule = round_schedule.schedule
        forecast = forecast_of(schedule, round_schedule.rates, self._speeds or Speeds())
        between = {"least_s": round(forecast.least_s, 3), "most_s": round(forecast.most_s, 3)}
        self._journal.check(
            JournalSubject.SCHEDULE,
            {
                "promised_s": round(schedule.makespan_s, 3),
                "bound_s": round(schedule.bound_s, 3),
                "total_bytes": round_schedule.scene.total_bytes,
                "steps": len(schedule.steps),
                "detours": len(schedule.detours),
            }
            | (between if forecast.is_interval else {}),
        )
        context = Context(
            limits=self._request.limits,
            totals={d.place: d.total_bytes for d in round_schedule.scene.disks},
            ours=self._ours(schedule),
            rates=None if is_unlimited(round_schedule.rates) else round_schedule.rates,
        )
        started_s = self._clock.monotonic()
        self._window.carry(begin(schedule, round_schedule.goals, round_schedule.scene.disks), context, label)
        if not self._window.was_changed:
            seconds = self._clock.monotonic() - started_s
            self.measured_bytes_per_s = measured_link(schedule, round_schedule.rates, seconds)

    def _ours(self, schedule: Schedule) -> dict[TopicPartition, set[tuple[int, ...]]]:
        """Every list that this plan has asked for, or may ask for, by partition."""
        ours: dict[TopicPartition, set[tuple[int, ...]]] = {m.key: {m.before, m.after} for m in self._plan.moves}
        for key, lists in self._journal.state.trail.items():
            ours.setdefault(key, set()).update(lists)
        for step in schedule.steps:
            ours.setdefault(step.key, set()).add(step.target)
        return ours


def _require_possible(round_schedule: RoundSchedule) -> None:
    immovable = round_schedule.schedule.immovable
    if immovable:
        reasons = tuple(f"{key}: {reason}" for key, reason in sorted(immovable.items()))
        moves = len(round_schedule.scene.tasks) + len(round_schedule.scene.dir_tasks)
        raise InfeasibleError(
            f"{len(immovable)} of {count_of(moves, 'move')} cannot be made in any order: {reasons[0]}",
            reasons=reasons if len(reasons) > 1 else (),
            hint="free space, add a broker, or allow more with --max-disk-use; else make a new plan",
        )


DIRS_AT_ONCE = 200  # brokers a call; one that only tells its capacities answers in milliseconds


class ScheduleInputs:
    """Reads everything that the scheduler wants to know, once before a run."""

    def __init__(self, admin: ClusterAdmin, clock: Clock, retrier: Retrier) -> None:
        self._admin, self._clock, self._retrier = admin, clock, retrier
        self._intake = Intake()

    def scene(
        self, goals: Sequence[MoveGoal], inside: Sequence[DirWork], live: LiveState, *, sample_s: float
    ) -> ScheduleInput:
        """Tasks and disks now; with `sample_s` above 0 sizes are read twice, so many seconds apart.

        Without, what logs take in counts as measured before.
        """
        dirs = self._dirs(goals, inside, live)
        if sample_s > 0:
            started = self._clock.monotonic()
            pause(self._clock, sample_s)
            later = self._dirs(goals, inside, live)
            self._intake = intake_of(goals, dirs, later, self._clock.monotonic() - started)
            dirs = later
        return scene_of(goals, inside, live, dirs, intake=self._intake, min_isr=self._min_isr(goals, live))

    def settings(self, brokers: Collection[int], keys: Collection[str]) -> Mapping[int, Mapping[str, str]]:
        """The values in force of the named keys on brokers."""
        wanted = sorted(set(brokers))
        if not wanted:
            return {}
        return self._retrier.call("reading broker settings", lambda: self._admin.broker_settings(wanted, keys))

    def _dirs(self, goals: Sequence[MoveGoal], inside: Sequence[DirWork], live: LiveState) -> dict[int, BrokerLogDirs]:
        """Log dirs of every living broker: those without a part in it may serve as spares, and tell capacities only."""
        keys = sorted({g.key for g in goals} | {w.key for w in inside})
        involved = {b for g in goals for b in (*g.holders, *g.target, *(g.via or ()))}
        involved |= {w.replica.broker for w in inside}
        alive = {b for b in live.brokers if live.is_alive(b)}
        found = dict(self._read(sorted(involved & alive), keys))
        return found | dict(self._read(sorted(alive - involved), ()))

    def _read(self, brokers: Sequence[int], keys: Collection[TopicPartition]) -> dict[int, BrokerLogDirs]:
        found: dict[int, BrokerLogDirs] = {}
        for start in range(0, len(brokers), DIRS_AT_ONCE):
            part = brokers[start : start + DIRS_AT_ONCE]
            found |= self._retrier.call("reading log dirs", partial(self._admin.log_dirs, part, keys))
        return found

    def _min_isr(self, goals: Sequence[MoveGoal], live: LiveState) -> dict[str, int]:
        """Each topic's smallest ISR that takes writes: its own setting, or what brokers use without one."""
        topics = sorted({g.key.topic for g in goals})
        alive = [b for b in sorted(live.brokers) if live.is_alive(b)]
        usual = self._retrier.call("reading broker settings", lambda: read_usual_min_isr(self._admin, alive))
        own = self._retrier.call("reading topics", lambda: self._admin.dynamic_configs(ResourceKind.TOPIC, topics))
        return {t: min_isr_of(own.get(t, {}), usual) for t in topics}


def play_cases(scene: SimulationScene, request: SimulateRequest, reporter: Reporter) -> list[Case]:
    """Each throttle with each order, throttles first."""
    cases = []
    wanted = [(order, throttle) for throttle in request.throttles for order in request.orders]
    with reporter.progress("simulating") as bar:
        for number, (order, throttle) in enumerate(wanted):
            bar.update(number, len(wanted), order.value)
            cases.append(play(scene, request, order, throttle))
    return cases
