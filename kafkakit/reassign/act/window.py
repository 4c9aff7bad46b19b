"""The rolling window: each tick looks at what is in flight, folds in what arrived, and sends what may start now."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kafkakit.core.cluster_facts import BrokerLogDirs
from kafkakit.core.errors import OperationFailedError
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import counted
from kafkakit.execution.act.received_requests import ReceivedRequests
from kafkakit.execution.act.retrier import RunReporter, why
from kafkakit.execution.decide.log_dir_moves import DirLook, look_at_dirs
from kafkakit.execution.decide.precheck import Live, listed
from kafkakit.execution.decide.progress import (
    DEAD_GRACE_S,
    Decision,
    Look,
    Watch,
    follow,
    look,
    poll_interval_s,
    source_bytes,
)
from kafkakit.execution.decide.rates import rate_words
from kafkakit.execution.decide.run_state import Context, RoundState, settle
from kafkakit.execution.decide.schedule.work import Rates
from kafkakit.reassign.act.parts import RunParts
from kafkakit.reassign.act.sending import Sending

ELECT_GROUP = 50
ROOM_EVERY_S = 5.0  # how often is looked whether disks or brokers came free, when nothing ended

Dirs = Mapping[int, BrokerLogDirs]


@dataclass(slots=True)
class _Tick:
    """What the loop remembers from one tick to the next."""

    watch: Watch
    last_event_s: float
    sent_at_s: float | None = None
    idle_since_s: float | None = None
    finished_bytes: int = 0
    elect: dict[TopicPartition, None] = field(default_factory=dict)
    resent: dict[int, int] = field(default_factory=dict)

    def is_due(self, now_s: float) -> bool:
        """True when something may have become startable: a step ended, or disks may have been freed."""
        return self.sent_at_s is None or self.last_event_s > self.sent_at_s or now_s - self.sent_at_s >= ROOM_EVERY_S


class AbortRequestedError(Exception):
    """This run was requested to abort."""


class Window:
    """Carries schedules out; `problems` collects what went wrong with single partitions."""

    def __init__(self, parts: RunParts, requests: ReceivedRequests) -> None:
        self._clock, self._reporter, self._request = parts.clock, parts.reporter, parts.request
        self._reader, self._moves, self._throttles, self._dirs = parts.reader, parts.moves, parts.throttles, parts.dirs
        self._requests, self.problems = requests, parts.problems
        self._run_reporter = RunReporter(parts.reporter)
        self._sending = Sending(parts)
        self.copied_bytes = 0
        self.dirs_moved = 0
        self.rates: Rates | None = None
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
        memory = _Tick(watch=Watch(changed_at_s=now), last_event_s=now)
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
                memory.watch = follow(memory.watch, counted_all, now, stall_timeout_s=self._request.stall_timeout_s)
                self.copied_bytes = copied_before + counted_all.copied_bytes
                round_state = self._fold(round_state, seen, inside, live, dirs, memory)
                self._heed(round_state, live, memory)
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
                self._require_hope(round_state, seen, memory, sent, now)
                self._clock.sleep(poll_interval_s(now - memory.last_event_s))

    def _look(self, round_state: RoundState) -> tuple[Live, Dirs]:
        """One light look: what runs, the state of the topics in flight, the log dirs of brokers in flight."""
        live = self._reader.live({g.key.topic for g in round_state.moves.values()})
        brokers = {b for g in round_state.moves.values() if g.adding for b in (*g.holders, *g.adding)}
        brokers |= {w.replica.broker for w in round_state.inside.values()}
        keys = {g.key for g in round_state.moves.values()} | {w.key for w in round_state.inside.values()}
        return live, self._reader.dirs_of(brokers, keys, live)

    def _free_space(self, round_state: RoundState, live: Live, known: Dirs) -> Dirs:
        """The free space of brokers that waiting steps go to; only capacities, and only when something may be sent."""
        brokers = {p.broker for n in round_state.waiting for p in round_state.schedule.steps[n].adding}
        return self._reader.dirs_of(brokers - known.keys(), (), live)

    def _judge(self, round_state: RoundState, live: Live, dirs: Dirs, before: frozenset[str]) -> tuple[Look, DirLook]:
        inside = look_at_dirs(list(round_state.inside.values()), dirs)
        seen = look(list(round_state.moves.values()), live, dirs, offline_before=before)
        on_the_way = frozenset(w.replica for w in (*inside.moving, *inside.idle))
        return replace(seen, inside=on_the_way, copied_bytes=seen.copied_bytes + inside.copied_bytes), inside

    def _fold(
        self, round_state: RoundState, seen: Look, inside: DirLook, live: Live, dirs: Dirs, memory: _Tick
    ) -> RoundState:
        """Take off what arrived, vanished, or was taken away by another process; lift the throttle of what arrived."""
        arrived = {n: g for n, g in round_state.moves.items() if g.key in seen.done}
        lost = [g.key for g in round_state.moves.values() if g.key in seen.gone]
        withdrawn = [g.key for g in round_state.moves.values() if g.key in memory.watch.withdrawn]
        if lost:
            self.problems.append(f"deleted during the run: {listed([str(k) for k in sorted(lost)])}")
        if withdrawn:
            names = listed([str(k) for k in sorted(withdrawn)])
            self.problems.append(f"cancelled or changed by another process during the run: {names}")
        moved = {n: w for n, w in round_state.inside.items() if w in inside.done}
        failed = {n: w for n, w in round_state.inside.items() if w in inside.lost}
        for work in failed.values():
            self.problems.append(f"not moved between log dirs: {work}: {inside.lost[work]}")
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

    def _heed(self, round_state: RoundState, live: Live, memory: _Tick) -> None:
        """Do what is requested: pause, continue, other rates, abort."""
        request = self._requests.read()
        if request is None:
            return
        if request.abort:
            self._requests.answer()
            raise AbortRequestedError
        if request.paused != self._paused:
            self._paused, self.was_changed = request.paused, True
            memory.last_event_s = self._clock.monotonic()
            self._moves.note_pause(paused=request.paused, by=request.by)
            flying = counted(len(round_state.moves) + len(round_state.inside), "step")
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

    def _require_hope(self, round_state: RoundState, seen: Look, memory: _Tick, sent: int, now: float) -> None:
        """Raise `OperationFailedError` when nothing in flight will end, or nothing that waits will ever start."""
        decision = memory.watch.decision
        if decision is Decision.DISK or (not sent and decision in (Decision.BLOCKED, Decision.STALLED)):
            raise OperationFailedError(why(seen, memory.watch, self._request.stall_timeout_s))
        quiet = not (round_state.flying or sent or self._paused or memory.elect or self._sending.waits_for_others)
        memory.idle_since_s = (memory.idle_since_s if memory.idle_since_s is not None else now) if quiet else None
        if memory.idle_since_s is None:
            return
        words = self._sending.held_words()
        wait_limit_s = DEAD_GRACE_S if words else self._request.stall_timeout_s
        if now - memory.idle_since_s >= wait_limit_s:
            lack = "the disks of their targets lack free space"
            if self._sending.others:
                lack = f"moves that are not ours ({listed([str(k) for k in self._sending.others])}) take their places"
            names = listed([str(round_state.schedule.steps[n].key) for n in round_state.waiting])
            reasons = words or [f"{counted(len(round_state.waiting), 'step')} cannot start: {lack}: {names}"]
            self.problems += reasons[1:]
            raise OperationFailedError(reasons[0])
