"""The rolling window: each tick looks at what is in flight, folds in what arrived, and sends what may start now.

A step that may go is checked once more, throttled, given its dir, and submitted. Taking back what is in flight means
cancels, and putting right the order of lists that Kafka loses by them. The state of a plan on its cluster is read with
what the journal knows that we sent. The parts of one run share its plan, ports and journal, and what is built on them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafkakit.core.cluster_facts import BrokerLogDirs
from kafkakit.core.errors import OperationFailedError, RefusedError
from kafkakit.core.model import TopicPartition
from kafkakit.core.plan import Plan
from kafkakit.core.quantities import count_of
from kafkakit.core.text import abort_command
from kafkakit.execution.act.control_requests import ReceivedRequests
from kafkakit.execution.act.moves import LogDirs, Moves
from kafkakit.execution.act.retrier import Retrier, RetryingReader, RunReporter, stop_reason
from kafkakit.execution.act.run_journal import RunJournal
from kafkakit.execution.act.throttles import Throttles
from kafkakit.execution.decide.plan_state import (
    Assessment,
    DirLook,
    DirWork,
    LiveState,
    MoveGoal,
    MoveState,
    MoveStatus,
    apply_goals,
    assess,
    dead_targets,
    dir_work,
    foreign_reassignments,
    ids,
    list_items,
    look_at_dirs,
    reorder_goals,
    rollback_goals,
    waits_in_vain,
    wants_election,
)
from kafkakit.execution.decide.progress import (
    DEAD_GRACE_S,
    SETTLE_S,
    BatchObservation,
    BatchWatch,
    Context,
    Lists,
    NextAction,
    RoundState,
    follow,
    foreign_of,
    goal_of,
    is_deleted,
    may_start,
    observe,
    obstacle,
    poll_interval_s,
    settle,
    source_bytes,
    sources_told,
    without_source,
    work_of,
)
from kafkakit.execution.decide.runs import Direction, RecoveredThrottles, Request
from kafkakit.execution.decide.schedule.work import BrokerRates, StepKind, is_unlimited, rate_words
from kafkakit.ports.acting import Clock, Reporter, pace, pause, repeat_every, wait_until
from kafkakit.ports.admin import ClusterAdmin

ELECT_GROUP = 50
DISK_CHECK_EVERY_S = 5.0  # how often is looked whether disks or brokers came free, when nothing ended

Dirs = Mapping[int, BrokerLogDirs]


@dataclass(slots=True)
class _Tick:
    """What the loop remembers from one tick to the next."""

    watch: BatchWatch
    last_event_s: float
    sent_at_s: float | None = None
    idle_since_s: float | None = None
    finished_bytes: int = 0
    elect: dict[TopicPartition, None] = field(default_factory=dict)
    resent: dict[int, int] = field(default_factory=dict)

    def is_due(self, now_s: float) -> bool:
        """True when something may have become startable: a step ended, or disks may have been freed."""
        return (
            self.sent_at_s is None or self.last_event_s > self.sent_at_s or now_s - self.sent_at_s >= DISK_CHECK_EVERY_S
        )


class ReassignParts:
    """The parts of one run; `problems` collects what went wrong with single partitions."""

    def __init__(
        self, plan: Plan, admin: ClusterAdmin, clock: Clock, journal: RunJournal, reporter: Reporter, request: Request
    ) -> None:
        self.plan, self.admin, self.clock, self.journal = plan, admin, clock, journal
        self.reporter, self.request = reporter, request
        self.retrier = Retrier(clock, reporter, request.retry_limit_s)
        self.reader = RetryingReader(admin, clock, self.retrier)
        self.throttles = Throttles(admin, clock, journal, reporter, self.retrier)
        self.moves = Moves(admin, clock, journal, self.retrier, self.reader)
        self.dirs = LogDirs(admin, journal, reporter, self.retrier)
        self.plan_reader = PlanReader(plan, clock, self.reader, self.dirs, journal)
        self.problems: list[str] = []


class MoveWindow:
    """Carries schedules out; `problems` collects what went wrong with single partitions."""

    def __init__(self, parts: ReassignParts, requests: ReceivedRequests) -> None:
        self._clock, self._reporter, self._request = parts.clock, parts.reporter, parts.request
        self._reader, self._moves, self._throttles, self._dirs = parts.reader, parts.moves, parts.throttles, parts.dirs
        self._requests, self.problems = requests, parts.problems
        self._run_reporter = RunReporter(parts.reporter)
        self._sending = MoveSender(parts)
        self.copied_bytes = 0
        self.dirs_moved = 0
        self.rates: BrokerRates | None = None
        self._paused = False
        self.was_changed = False  # paused, or given other rates: how long it took says little of the link

    @property
    def submitted(self) -> int:
        """How many requests were sent."""
        return self._sending.submitted

    def carry(self, round_state: RoundState, context: Context, label: str) -> RoundState:
        """Do all steps; returns the state at the end.

        Raises `OperationFailedError` when waiting has no end: what is in flight waits for a dead broker or has no
        source, makes no progress for the stall timeout, or a destination's log dir went offline. The moves stay on
        the cluster then. Raises `AbortRequestedError` when a control request asks for that.
        """
        self.rates = context.rates
        now = self._clock.monotonic()
        memory = _Tick(watch=BatchWatch(changed_at_s=now), last_event_s=now)
        before = self._reader.offline({p.broker for s in round_state.schedule.steps for p in s.adding})
        copied_before = self.copied_bytes
        total = sum(s.size_bytes * len(s.adding) for s in round_state.schedule.steps)
        with self._reporter.progress(label) as bar:
            while True:
                live, dirs = self._look(round_state)
                if self.rates is not None:  # a broker that came back gets its rate, too
                    self._throttles.impose_rates(list(round_state.moves.values()), self.rates, live)
                seen, inside = self._judge(round_state, live, dirs, before)
                now = self._clock.monotonic()
                counted_all = replace(seen, copied_bytes=memory.finished_bytes + seen.copied_bytes)
                memory.watch = follow(
                    memory.watch, counted_all, now, stall_timeout_s=self._request.rules.stall_timeout_s
                )
                self.copied_bytes = copied_before + counted_all.copied_bytes
                round_state = self._fold(round_state, seen, inside, live, dirs, memory)
                self._apply_control_request(round_state, live, memory)
                sent = 0
                if memory.is_due(now) and not (self._paused or seen.offline_dirs):
                    dirs = {**self._free_space(round_state, live, dirs), **dirs}
                    round_state, sent = self._sending.send(
                        round_state, live, dirs, replace(context, rates=self.rates), seen
                    )
                    memory.sent_at_s = now
                if sent:
                    memory.last_event_s = now
                self._elect(memory)
                self._run_reporter.show(
                    bar, round_state, seen, memory.watch, done=self.copied_bytes - copied_before, total=total
                )
                self._run_reporter.tell(seen, memory.watch)
                if round_state.is_over and not memory.elect:
                    return round_state
                self._require_feasible(round_state, seen, memory, sent, now)
                pause(self._clock, poll_interval_s(now - memory.last_event_s))

    def _look(self, round_state: RoundState) -> tuple[LiveState, Dirs]:
        """One light look: what runs, the state of the topics in flight, the log dirs of brokers in flight."""
        topics = {g.key.topic for g in round_state.moves.values()} | {w.key.topic for w in round_state.inside.values()}
        live = self._reader.live(topics)
        brokers = {b for g in round_state.moves.values() if g.adding for b in (*g.holders, *g.adding)}
        brokers |= {w.replica.broker for w in round_state.inside.values()}
        keys = {g.key for g in round_state.moves.values()} | {w.key for w in round_state.inside.values()}
        return live, self._reader.dirs_of(brokers, keys, live)

    def _free_space(self, round_state: RoundState, live: LiveState, known: Dirs) -> Dirs:
        """The free space of brokers that waiting steps go to; only capacities, and only when something may be sent."""
        brokers = {p.broker for n in round_state.waiting for p in round_state.schedule.steps[n].adding}
        return self._reader.dirs_of(brokers - known.keys(), (), live)

    def _judge(
        self, round_state: RoundState, live: LiveState, dirs: Dirs, before: frozenset[str]
    ) -> tuple[BatchObservation, DirLook]:
        inside = look_at_dirs(list(round_state.inside.values()), dirs)
        seen = observe(list(round_state.moves.values()), live, dirs, offline_before=before)
        on_the_way = frozenset(w.replica for w in (*inside.moving, *inside.idle))
        return replace(seen, inside=on_the_way, copied_bytes=seen.copied_bytes + inside.copied_bytes), inside

    def _fold(
        self,
        round_state: RoundState,
        seen: BatchObservation,
        inside: DirLook,
        live: LiveState,
        dirs: Dirs,
        memory: _Tick,
    ) -> RoundState:
        """Take off what arrived, vanished, or was taken away by another process; lift the throttle of what arrived."""
        arrived = {n: g for n, g in round_state.moves.items() if g.key in seen.done}
        lost = [g.key for g in round_state.moves.values() if g.key in seen.gone]
        withdrawn = [g.key for g in round_state.moves.values() if g.key in memory.watch.withdrawn]
        if lost:
            self._reporter.warn(f"deleted during the run: {list_items([str(k) for k in sorted(lost)])}")
        if withdrawn:
            names = list_items([str(k) for k in sorted(withdrawn)])
            self.problems.append(f"cancelled or changed by another process during the run: {names}")
        moved = {n: w for n, w in round_state.inside.items() if w in inside.done}
        failed = {n: w for n, w in round_state.inside.items() if w in inside.lost}
        for work in failed.values():
            if work.key in live.states:
                self.problems.append(f"not moved between log dirs: {work}: {inside.lost[work]}")
            else:
                self._reporter.warn(f"deleted during the run: {work}")
        self._resend(round_state, inside, memory)
        memory.finished_bytes += sum(source_bytes(g, dirs) * len(g.adding) for g in arrived.values())
        memory.finished_bytes += sum(w.size_bytes for w in moved.values())
        self.dirs_moved += len(moved)
        if arrived or moved:
            memory.last_event_s = self._clock.monotonic()
        away = {*lost, *withdrawn}
        ended = [g for n, g in round_state.moves.items() if n in arrived or g.key in away]
        if ended:
            self._throttles.lift_entries(ended)
        for goal in arrived.values():
            state = live.states[goal.key]
            first = goal.target[0]
            if goal.target == round_state.goals[goal.key].target and state.leader != first and first in state.isr:
                memory.elect[goal.key] = None
        return settle(round_state, done=[*arrived, *moved], dropped=failed, keys=away)

    def _resend(self, round_state: RoundState, inside: DirLook, memory: _Tick) -> None:
        """Ask again for stalled copies: another move ended, or their broker came back."""
        for number, work in round_state.inside.items():
            if work in inside.idle:
                memory.resent[number] = memory.resent.get(number, 0) + 1
                if memory.resent[number] % 4 == 0:
                    self._dirs.send([work])

    def _apply_control_request(self, round_state: RoundState, live: LiveState, memory: _Tick) -> None:
        """Do what is requested: pause, continue, other rates, abort."""
        request = self._requests.read_or_abort()
        if request is None:
            return
        if request.paused != self._paused:
            self._paused, self.was_changed = request.paused, True
            memory.last_event_s = self._clock.monotonic()
            self._moves.note_pause(paused=request.paused, by=request.by)
            flying = count_of(len(round_state.moves) + len(round_state.inside), "step")
            word = (
                f"paused by {request.by}; {flying} in flight continue"
                if request.paused
                else f"continued by {request.by}"
            )
            self._reporter.warn(word)
        if request.rates is not None and request.rates != self.rates:
            self._moves.note_rates(request.rates)
            failed = self._throttles.change(request.rates, live, list(round_state.moves.values()))
            self.rates, self.was_changed = request.rates, True
            self._reporter.warn(f"rates changed by {request.by}: {rate_words(request.rates)}")
            for line in failed:
                self._reporter.warn(line)
            self._requests.answer("; ".join(failed))
            return
        self._requests.answer()

    def _elect(self, memory: _Tick) -> None:
        """Give leadership to the first replicas of some that arrived; a few at each tick, so that load moves slowly."""
        group = list(memory.elect)[:ELECT_GROUP]
        if group:
            for key, error in sorted(self._moves.elect(group).items()):
                self._reporter.warn(f"{key}: leader not elected: {error}")
        for key in group:
            del memory.elect[key]

    def _require_feasible(
        self, round_state: RoundState, seen: BatchObservation, memory: _Tick, sent: int, now: float
    ) -> None:
        """Raise `OperationFailedError` when nothing in flight will end, or nothing that waits will ever start."""
        decision = memory.watch.decision
        if decision is NextAction.DISK or (not sent and decision in (NextAction.BLOCKED, NextAction.STALLED)):
            raise OperationFailedError(stop_reason(seen, memory.watch, self._request.rules.stall_timeout_s))
        quiet = not (round_state.flying or sent or self._paused or memory.elect or self._sending.waits_for_others)
        memory.idle_since_s = (memory.idle_since_s if memory.idle_since_s is not None else now) if quiet else None
        if memory.idle_since_s is None:
            return
        words = self._sending.held_words()
        wait_limit_s = DEAD_GRACE_S if words else self._request.rules.stall_timeout_s
        if now - memory.idle_since_s >= wait_limit_s:
            lack = "the disks of their targets lack free space"
            if self._sending.others:
                lack = f"moves of other tools ({list_items([str(k) for k in self._sending.others])}) take their slots"
            names = list_items([str(round_state.schedule.steps[n].key) for n in round_state.waiting])
            reasons = words or [f"{count_of(len(round_state.waiting), 'step')} cannot start: {lack}: {names}"]
            self.problems += reasons[1:]
            raise OperationFailedError(reasons[0])


ROUNDS = 20  # times that what may start is asked for in one tick, while some of it is held back


class MoveSender:
    """Sends what may start; `held` are the steps that could start but for a reason of their own, by reason."""

    def __init__(self, parts: ReassignParts) -> None:
        self._reporter, self._reader, self._request = parts.reporter, parts.reader, parts.request
        self._problems, self._moves = parts.problems, parts.moves
        self._throttles, self._dirs = parts.throttles, parts.dirs
        self.submitted = 0
        self.held: dict[str, list[TopicPartition]] = {}
        self.waits_for_others = False
        self.others: tuple[TopicPartition, ...] = ()  # whose moves, not ours, take places that steps wait for
        self._sourceless: dict[TopicPartition, tuple[int, ...]] = {}
        self._told: set[str] = set()

    def send(
        self, round_state: RoundState, live: LiveState, dirs: Dirs, context: Context, seen: BatchObservation
    ) -> tuple[RoundState, int]:
        """Send all that may start now; returns the state after it, and how many steps were sent."""
        self.held, self.waits_for_others, self._sourceless = {}, False, {}
        round_state = self._handle_foreign_moves(round_state, live, context.ours)
        before = len(round_state.flying) + len(round_state.done)
        passed: set[int] = set()
        for _ in range(ROUNDS):
            numbers = may_start(round_state, live, dirs, context, hopeless=seen.hopeless, passed=passed)
            if not numbers:
                break
            live = self._reader.with_states(live, {round_state.schedule.steps[n].key for n in numbers})
            inside = [n for n in numbers if round_state.schedule.steps[n].kind is StepKind.INSIDE]
            round_state, goals = self._fit(round_state, [n for n in numbers if n not in set(inside)], live)
            round_state, goals = self._within_lists(round_state, goals, context.rates)
            round_state = self._submit(round_state, goals, context.rates, live)
            round_state = self._send_inside(round_state, inside, context.rates, live)
            # What is held back must not keep its places from others: ask again without it.
            held = round_state.waiting_set.intersection(numbers)
            if not held - passed:
                break
            passed |= held
        self._note_others(round_state, live)
        return round_state, len(round_state.flying) + len(round_state.done) - before

    def _handle_foreign_moves(self, round_state: RoundState, live: LiveState, ours: Lists) -> RoundState:
        """Moves of another process on partitions that wait: they are waited for, or these partitions are given up."""
        waiting = {
            round_state.schedule.steps[n].key for n in round_state.waiting if round_state.schedule.steps[n].target
        }
        waiting -= {g.key for g in round_state.moves.values()}
        foreign = foreign_of(live, waiting & live.running.keys(), ours)
        if not foreign:
            return round_state
        if self._request.rules.wait_for_others:
            self.waits_for_others = True
            for key in sorted(foreign):
                self._hold("waiting for the end of a move that another process makes", key)
            return round_state
        for key, target in sorted(foreign.items()):
            self._problems.append(f"{key} is being moved to {ids(target)} by another process; it is left alone")
        return settle(round_state, keys=foreign.keys())

    def _note_others(self, round_state: RoundState, live: LiveState) -> None:
        """Say it when nothing of ours is in flight, and moves of others are, to brokers that steps wait for."""
        wanted = {p.broker for n in round_state.waiting for p in round_state.schedule.steps[n].adding}
        busy = [k for k, r in sorted(live.running.items()) if not wanted.isdisjoint(r.adding)]
        self.others = () if round_state.flying else tuple(busy)
        if self.others:
            self._tell(f"moves of other tools keep the brokers busy: {list_items([str(k) for k in self.others])}")

    def held_words(self) -> list[str]:
        """Why steps that could start do not, one sentence a reason."""
        words = [f"{reason}: {list_items([str(k) for k in keys])}" for reason, keys in sorted(self.held.items())]
        if self._sourceless:
            words.append(f"no live source, nothing can be copied: {sources_told(self._sourceless)}")
        return words

    def _fit(
        self, round_state: RoundState, numbers: Iterable[int], live: LiveState
    ) -> tuple[RoundState, dict[int, MoveGoal]]:
        """The goals of those steps that nothing is against; others wait, or are given up with a problem."""
        goals: dict[int, MoveGoal] = {}
        dropped: set[TopicPartition] = set()
        for number in numbers:
            key = round_state.schedule.steps[number].key
            if is_deleted(round_state, number, live):
                self._reporter.warn(f"deleted during the run: {key}")
                dropped.add(key)
                continue
            problem = obstacle(round_state, number, live)
            if problem is not None:
                self._problems.append(problem)
                dropped.add(key)
                continue
            goal = goal_of(round_state, number, live)
            dead = [b for b in goal.adding if not live.is_alive(b)]
            sourceless = without_source([goal], live)
            if dead:
                self._hold(f"broker {dead[0]} is not alive; no more moves are sent to it", key)
            elif sourceless:
                self._sourceless |= sourceless
                self._tell(f"no live source, waiting for one: {sources_told(sourceless)}")
            else:
                goals[number] = goal
        return (settle(round_state, keys=dropped) if dropped else round_state), goals

    def _within_lists(
        self, round_state: RoundState, goals: Mapping[int, MoveGoal], rates: BrokerRates | None
    ) -> tuple[RoundState, dict[int, MoveGoal]]:
        """Those goals whose throttle entries fit into their topics' lists now."""
        if rates is None or is_unlimited(rates) or not goals:
            return round_state, dict(goals)
        capacity = self._throttles.list_capacity(list(goals.values()), rates)
        for key, reason in sorted(capacity.blocked.items()):
            self._problems.append(f"{key} cannot be throttled and is left alone: {reason}")
        fits = {g.key for g in capacity.fits}
        round_state = settle(round_state, keys=set(capacity.blocked)) if capacity.blocked else round_state
        return round_state, {n: g for n, g in goals.items() if g.key in fits}

    def _submit(
        self, round_state: RoundState, goals: Mapping[int, MoveGoal], rates: BrokerRates | None, live: LiveState
    ) -> RoundState:
        if not goals:
            return round_state
        if rates is not None:
            self._throttles.impose(list(goals.values()), rates, live)
        self._dirs.assign(list(goals.values()))
        refused = self._moves.submit(list(goals.values()))
        sent = {n: g for n, g in goals.items() if g.key not in refused}
        self.submitted += len(sent)
        self._problems += [f"{key} was not accepted: {error}" for key, error in sorted(refused.items())]
        if refused:
            self._throttles.lift_entries([g for g in goals.values() if g.key in refused])
            round_state = settle(round_state, keys=set(refused))
        return replace(round_state, moves={**round_state.moves, **sent})

    def _send_inside(
        self, round_state: RoundState, numbers: Sequence[int], rates: BrokerRates | None, live: LiveState
    ) -> RoundState:
        """Tell brokers to move copies between their dirs."""
        works: dict[int, DirWork] = {}
        for number in numbers:
            work = work_of(round_state.schedule.steps[number])
            if live.is_alive(work.replica.broker):
                works[number] = work
            else:
                self._hold(f"broker {work.replica.broker} is not alive; its copies stay in their log dirs", work.key)
        if not works:
            return round_state
        if rates is not None:
            self._throttles.impose_inside({w.replica.broker for w in works.values()}, rates, live)
        refused = self._dirs.send(list(works.values()))
        for replica, error in sorted(refused.items()):
            name = f"{replica.topic}-{replica.partition} on broker {replica.broker}"
            self._problems.append(f"log dir move refused: {name} ({error})")
        sent = {n: w for n, w in works.items() if w.replica not in refused}
        round_state = replace(round_state, inside={**round_state.inside, **sent})
        failed = [n for n in works if n not in sent]
        return settle(round_state, dropped=failed) if failed else round_state

    def _hold(self, reason: str, key: TopicPartition) -> None:
        self.held.setdefault(reason, []).append(key)
        if reason not in self._told:
            self._told.add(reason)
            self._reporter.warn(f"{reason}: {key}")

    def _tell(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            self._reporter.warn(line)


class Undo:
    """Cancels a plan's moves; those that do not let themselves be cancelled become problems."""

    def __init__(self, parts: ReassignParts) -> None:
        self._clock, self._journal, self._reporter = parts.clock, parts.journal, parts.reporter
        self._problems, self._reader, self._moves = parts.problems, parts.reader, parts.moves
        self._dirs, self._plan_reader = parts.dirs, parts.plan_reader

    def cancel_running(self, direction: Direction) -> frozenset[TopicPartition]:
        """Cancel what the plan has in flight; an abort then puts the order back that Kafka lost by it.

        Returns what could not be cancelled.
        """
        live, assessment = self._plan_reader.look()
        self._keep_in_dirs(direction, live)
        keys = [s.move.key for s in to_cancel(assessment, direction)]
        if not keys and direction is Direction.APPLY:
            return frozenset()
        refused = self._moves.cancel(keys)
        self._problems += [f"{key} cannot be cancelled now: {error}" for key, error in refused.items()]
        live, assessment = self._plan_reader.look(settle=True)
        if direction is Direction.ABORT:
            self._put_back(assessment)
        if direction is not Direction.ROLLBACK:
            return frozenset(refused)
        _, impossible = rollback_goals(assessment, live)
        for status in impossible:
            if status.move.key not in refused:
                lost = [str(b) for b in status.move.before if b not in status.holders and not live.is_alive(b)]
                self._problems.append(
                    f"{status.move.key} stays as it is: its old list needs a copy on broker {', '.join(lost)}, "
                    "not alive"
                )
        return frozenset(refused)

    def _keep_in_dirs(self, direction: Direction, live: LiveState) -> None:
        """Cancel moves inside brokers: an abort all of ours, others those of copies that are where they belong."""
        moving = self._dirs.on_the_way(self._journal.state.dirs_sent, live)
        if direction is not Direction.ABORT:
            wanted = {w.replica: w.target for w in self._plan_reader.inside(direction, live)}
            moving = {r: path for r, path in moving.items() if wanted.get(r) == path}
        if not moving:
            return
        for replica, error in sorted(self._dirs.stay(moving).items()):
            name = f"{replica.topic}-{replica.partition} on broker {replica.broker}"
            self._problems.append(f"the move of {name} to another log dir cannot be cancelled now: {error}")
        sent = self._journal.state.dirs_sent
        wait_until(self._clock, SETTLE_S, lambda: moving.keys().isdisjoint(self._dirs.on_the_way(sent, live)))

    def _put_back(self, assessment: Assessment) -> None:
        """Submit the recorded lists of partitions whose order a cancel of ours lost; no data moves."""
        goals = reorder_goals(assessment, self._journal.state.trail)
        if not goals:
            return
        refused = self._moves.submit(goals)
        self._problems += [f"{key}: its order could not be put back: {error}" for key, error in sorted(refused.items())]
        wanted = {g.key: g.target for g in goals if g.key not in refused}

        def is_back() -> bool:
            states = self._reader.live({k.topic for k in wanted}).states
            return all(states[k].replicas == target for k, target in wanted.items() if k in states)

        wait_until(self._clock, SETTLE_S, is_back)
        statuses = self._plan_reader.look()[1].statuses
        self.elect([s.move.key for s in statuses if s.move.key in wanted and s.live and wants_election(s.live)])

    def elect(self, keys: Sequence[TopicPartition]) -> None:
        """Give leadership to first replicas, in groups, so that load moves slowly."""
        for start in pace(self._clock, range(0, len(keys), ELECT_GROUP), 0.5):
            for key, error in sorted(self._moves.elect(keys[start : start + ELECT_GROUP]).items()):
                self._reporter.warn(f"{key}: leader not elected: {error}")


def in_flight(assessment: Assessment) -> tuple[MoveStatus, ...]:
    """The plan's partitions that move now, whichever process requested it."""
    return tuple(s for s in assessment.statuses if s.running is not None)


def to_cancel(assessment: Assessment, direction: Direction) -> tuple[MoveStatus, ...]:
    """What is in flight and goes the wrong way: an abort stops everything, others let what they would send be."""
    if direction is Direction.APPLY:
        return assessment.having(MoveState.TO_BEFORE)
    there = (MoveState.TO_AFTER, MoveState.TO_BETWEEN)
    return assessment.having(*there, *((MoveState.TO_BEFORE,) if direction is Direction.ABORT else ()))


OTHERS_LOOK_S = 2.0
LOOKS = 4


class PlanReader:
    """Looks at one plan's partitions; `recovered` is what was found of a run whose journal is not whole."""

    def __init__(self, plan: Plan, clock: Clock, reader: RetryingReader, dirs: LogDirs, journal: RunJournal) -> None:
        self._plan, self._clock, self._reader, self._dirs, self._journal = plan, clock, reader, dirs, journal
        self._topics = {e.topic for e in plan.scope}
        self.recovered = RecoveredThrottles()

    def live(self) -> LiveState:
        """The cluster with all topics of the plan."""
        return self._reader.live(self._topics)

    def assess(self, live: LiveState) -> Assessment:
        """Where each move stands."""
        state, lost = self._journal.state, self.recovered
        trail = state.trail if not lost.lists else {**state.trail, **{k: (v,) for k, v in lost.lists.items()}}
        cancelled = (state.cancelled and bool(state.submitted)) or state.is_lost or lost.throttled
        return assess(self._plan, live, trail=trail, cancelled_by_us=cancelled)

    def look(self, *, settle: bool = False) -> tuple[LiveState, Assessment]:
        """Observe and assess; `settle` looks again for a moment while lists seem changed (metadata may lag)."""
        for _ in pace(self._clock, range(LOOKS if settle else 1), 0.5):
            live = self.live()
            assessment = self.assess(live)
            if not assessment.having(MoveState.DRIFTED):
                break
        return live, assessment

    def left(
        self, direction: Direction, live: LiveState, assessment: Assessment
    ) -> tuple[tuple[MoveGoal, ...], tuple[DirWork, ...]]:
        """What the run still has to do: lists to reach, with their live sizes, and copies that change their dir."""
        undone = direction is Direction.ROLLBACK
        goals = rollback_goals(assessment, live)[0] if undone else apply_goals(assessment)
        return self._reader.sized(goals, live), self._dirs.left(self.inside(direction, live))

    def inside(self, direction: Direction, live: LiveState) -> tuple[DirWork, ...]:
        """The copies that change their log dir inside a broker, done or not."""
        undone = direction is Direction.ROLLBACK
        return dir_work(self._plan, live, undone=undone, sent=self._journal.state.dirs_sent)

    def after_others(
        self, reporter: Reporter, live: LiveState, assessment: Assessment, program: str, dead_after_s: float
    ) -> tuple[LiveState, Assessment]:
        """Wait until no other process moves partitions; returns the last look.

        Raises `RefusedError` with the command that cancels them once moves among them have waited for so long for a
        broker that is not alive.
        """
        announced = False
        dead_since_s: float | None = None
        for number, _ in enumerate(repeat_every(self._clock, OTHERS_LOOK_S)):
            if number:
                live, assessment = self.look(settle=True)
            diverted = [s.move.key for s in assessment.having(MoveState.DIVERTED)]
            others = (*diverted, *foreign_reassignments(self._plan, live))
            if not others:
                break
            if not announced:
                names = list_items([str(key) for key in others])
                what = "planned partitions" if diverted else "partitions"
                reporter.warn(f"another process moves {what}, waiting for the end of it: {names}")
                announced = True
            now_s, dead = self._clock.monotonic(), dead_targets(live, others)
            if dead and dead_since_s is None:
                reporter.warn(f"{waits_in_vain(dead)}; to cancel: {abort_command(program, dead)}")
            dead_since_s = None if not dead else now_s if dead_since_s is None else dead_since_s
            if dead_since_s is not None and now_s - dead_since_s >= dead_after_s:
                raise RefusedError(
                    f"moves of another process: {waits_in_vain(dead)}", hint=abort_command(program, dead)
                )
        return live, assessment
