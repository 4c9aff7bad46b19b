"""One tick of the pacer: look at the moves, let a law decide the rates, and set them, or request them from a run.

It throttles moves that another tool began. Where a run of kafkakit changes the cluster, that run has throttles of its
own, and gets the rates as a control request. All that the pacer sets stands in its journal first.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

from kafkakit.autothrottle.act.journal import compact, open_journal
from kafkakit.autothrottle.act.move_looks import MoveLooks
from kafkakit.autothrottle.act.notes import Notes
from kafkakit.autothrottle.act.overrides import OverrideStore
from kafkakit.autothrottle.act.run_rates import request_rates
from kafkakit.autothrottle.decide.law import Decision, Law, Memory, rates_of
from kafkakit.autothrottle.decide.look import MovesSeen, observed_of, own_rates
from kafkakit.autothrottle.decide.observed import Observed
from kafkakit.autothrottle.decide.overrides import Overrides
from kafkakit.autothrottle.decide.saved import (
    SavedTick,
    decode_tick,
    encode_tick,
    memory_of,
    memory_rest,
    memory_rows,
    rates_data,
    reasons_data,
)
from kafkakit.autothrottle.decide.tick import Tick
from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.core.errors import InputError, KafkakitError, TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.core.rights import THROTTLED
from kafkakit.execution.act.cluster_access import ClusterAccess, OpenAccess, access_or_busy
from kafkakit.execution.act.control_requests import ControlRequests
from kafkakit.execution.act.lease_guard import GuardedAdmin, HeldClock
from kafkakit.execution.act.lease_reader import held_lease
from kafkakit.execution.act.leases import Lease
from kafkakit.execution.act.retrier import ClusterReader, Retrier
from kafkakit.execution.act.run_journal import RunJournal
from kafkakit.execution.act.throttles import Throttles
from kafkakit.execution.decide.goals import Goal
from kafkakit.execution.decide.journal import What
from kafkakit.execution.decide.journal_state import RunState
from kafkakit.execution.decide.rates import is_unlimited, rates_to_data
from kafkakit.execution.decide.schedule.work import Rates
from kafkakit.execution.decide.throttle import wanted_rates
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.ports.control import ControlStore

PATIENCE_S = 30.0
LEASE_PIECE_S = 1.0
Measure = Callable[[], Observed]
"""Asks a metrics source; what could not be read is among `problems`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PacerOptions:
    """`sample_s`: the time between two looks where there is none from before. `answer_s`: how long a run may take to
    answer a request for rates."""

    law: Law
    law_name: str
    by: str
    sample_s: float = 5.0
    answer_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PacerPorts:
    """What a pacer talks to; `admin` reads only, `open_access` gives the right to change the cluster for a moment.

    `rates_of_run` tells what the run with a fencing token was asked for, None where that is not known on this host.
    """

    admin: ClusterAdmin
    clock: Clock
    store: ControlStore
    overrides: OverrideStore
    open_access: OpenAccess
    measure: Measure | None = None
    rates_of_run: Callable[[int], Rates | None] = lambda _: None


class Pacer:
    """The pacer of one cluster. `lead` is its lead over other pacers, None for one that only looks."""

    def __init__(self, cluster_id: str, ports: PacerPorts, lead: Lease | None, options: PacerOptions) -> None:
        self._cluster_id, self._ports, self._lead, self._options = cluster_id, ports, lead, options
        self._clock: Clock = ports.clock if lead is None else HeldClock(ports.clock, lead, LEASE_PIECE_S, PATIENCE_S)
        self._state_path = state_path(cluster_id)
        self._notes = Notes()
        retrier = Retrier(self._clock, self._notes, PATIENCE_S)
        self._reader = ClusterReader(ports.admin, self._clock, retrier)
        self._moves = MoveLooks(ports.admin, self._clock, self._reader, options.sample_s)
        self._writes = 0

    def decide(self) -> tuple[MovesSeen, Overrides, Decision]:
        """Look and decide, and change nothing."""
        saved = read_saved(self._ports.store, self._cluster_id)
        before, look = self._moves.look()
        overrides = self._overrides(look)
        if not look.goals:
            return look, overrides, Decision(rates=None, memory=memory_of(None))
        observed = self._moves.with_health(self._observed(before, look), look)
        decision = self._options.law(observed, memory_of(saved))
        return look, overrides, replace(decision, warnings=(*observed.problems, *decision.warnings))

    def _overrides(self, look: MovesSeen) -> Overrides:
        """What an operator set; `InputError` where it cannot be read and moves run, whose rates stay then.

        Without moves it counts as nothing, so that no throttle stays because of it.
        """
        try:
            return self._ports.overrides.read()
        except InputError as error:
            if look.goals:
                raise
            self._notes.warn(f"{error.message}; without moves overrides that cannot be read count as none")
            return Overrides()

    def observe(self) -> Observed:
        """What a law is told of traffic and flows now; changes nothing."""
        return self._observed(*self._moves.look())

    def _observed(self, before: MovesSeen, look: MovesSeen) -> Observed:
        measured = None if self._ports.measure is None or not look.goals else self._ports.measure()
        return observed_of(before, look, measured)

    def tick(self) -> Tick:
        """Look, decide and act. Raises `LeaseLostError` when another pacer has the lead, and what reads raise."""
        self._notes.clear()
        look, overrides, decision = self.decide()
        goals = (*look.goals, *self._moves.standing(look, overrides.of))
        state = open_journal(self._ports.store, self._clock, self._cluster_id).state
        law = _in_force(decision, state) if look.goals else None
        brokers = {b for g in goals for b in (*g.holders, *g.adding)}
        rates = overrides.over(law, sorted(brokers)) if goals else None
        tick = self._seen(look, overrides, decision, rates)
        if state.throttled or (goals and rates is not None and not is_unlimited(rates)):
            tick = self._act(tick, look, goals, law)
        if not look.goals and (ended := overrides.ending_with_moves) and self._had_moves():
            for broker in ended:
                self._ports.overrides.put(broker, None)
                name = "all brokers" if broker is None else f"broker {broker}"
                self._notes.warn(f"the override for {name} is removed, as the moves have ended")
        if not tick.requested_from:
            self._ports.overrides.settle()
        notes = tuple(dict.fromkeys((*self._notes.lines, *decision.warnings)))
        saved = read_saved(self._ports.store, self._cluster_id)
        tick = replace(tick, notes=notes, news=tuple(n for n in notes if saved is None or n not in saved.notes))
        self._save(tick)
        return tick

    def remove_all(self) -> tuple[str, ...]:
        """Take every throttle of the pacer away; returns what could not be. Raises as `tick`."""
        with self._ports.open_access() as access:
            journal, throttles = self._writer(access)
            owed = throttles.lift(self._reader.live(())) if journal.state.throttled else ()
            compact(self._ports.store, self._clock, self._cluster_id)
        return owed

    def preview(self) -> Tick:
        """What a tick would find and set now; changes nothing."""
        look, overrides, decision = self.decide()
        rates = overrides.over(_in_force(decision, RunState()), look.brokers) if look.goals else None
        return self._seen(look, overrides, decision, rates)

    def has_other_moves(self) -> bool:
        """True when other moves run than at the last look; one request."""
        return self._moves.has_others()

    def _seen(self, look: MovesSeen, overrides: Overrides, decision: Decision, rates: Rates | None) -> Tick:
        return Tick(
            moves=len(look.goals),
            decision=decision,
            rates=rates,
            left_bytes=look.left_bytes,
            topics=tuple(sorted({g.key.topic for g in look.goals})),
            brokers=look.brokers,
            overrides=overrides,
        )

    def _act(self, tick: Tick, look: MovesSeen, goals: tuple[Goal, ...], law: Rates | None) -> Tick:
        with ExitStack() as stack:
            access = access_or_busy(stack, self._ports.open_access)
            if isinstance(access, TryLaterError):
                return self._request(tick, access)
            return self._set(tick, look, goals, law, access)

    def _set(
        self, tick: Tick, look: MovesSeen, goals: tuple[Goal, ...], law: Rates | None, access: ClusterAccess
    ) -> Tick:
        """Set the rates on exactly the copies that move; what is ours and not needed any more goes."""
        journal, throttles = self._writer(access)
        begun = journal.state
        topics = {g.key.topic for g in goals} | {k.name for k in begun.entries}
        self._reader.require_rights(THROTTLED, look.live, topics)
        # A move may have ended while the lease was taken; what is not running now is not throttled now.
        live = self._reader.with_states(self._reader.live(()), look.live.running)
        goals = tuple(g for g in goals if not g.running or g.key in live.running)
        if tick.rates is None or not goals:
            owed = throttles.lift(live) if journal.state.throttled else ()
            left = {k: max(map(int, hold.ours)) for k, hold in journal.state.rates.items() if hold.ours}
            tick = replace(tick, applied=left)
        else:
            names = sorted({k.name for k in wanted_rates(goals, tick.rates)})
            alive = [n for n in names if live.is_alive(int(n))]
            now = access.admin.dynamic_configs(ResourceKind.BROKER, alive) if alive else {}
            rates, theirs = own_rates(goals, tick.rates, journal.state.rates, now)
            for words in theirs:
                self._notes.warn(words)
            if law is not None and law != journal.state.wanted:
                journal.check(What.RATES, {"rates": rates_to_data(law)})
            wanted = {g.key for g in goals}
            held = {TopicPartition(k.name, int(e.split(":")[0])) for k, es in journal.state.entries.items() for e in es}
            ended = [Goal(key=k, target=(), holders=()) for k in sorted(held - wanted)]
            if ended:
                throttles.lift_entries(ended)
            owed = throttles.change(rates, live, goals)
            tick = replace(tick, rates=rates, applied=wanted_rates(goals, rates))
        compact(self._ports.store, self._clock, self._cluster_id)
        return replace(tick, owed=owed, writes=self._writes)

    def _request(self, tick: Tick, busy: TryLaterError) -> Tick:
        """Leave the rates for the run that changes the cluster; what the pacer itself set before stays as it is."""
        lease = held_lease(self._ports.store, self._cluster_id)
        if lease is None:
            raise busy
        tick = replace(tick, requested_from=str(lease.holder))
        if tick.rates is None or not tick.moves:
            return tick
        requests = ControlRequests(self._ports.store, self._clock, self._cluster_id)
        earlier = self._ports.rates_of_run(lease.token)
        writes, note = request_rates(
            requests, lease.token, self._options.by, tick.rates, earlier, self._options.answer_s
        )
        if note:
            self._notes.warn(note)
        return replace(tick, writes=writes)

    def _writer(self, access: ClusterAccess) -> tuple[RunJournal, Throttles]:
        """The journal and the throttles, guarded by the cluster's lease and by the lead."""
        self._writes = 0
        self._guard()
        clock = access.clock if self._lead is None else HeldClock(access.clock, self._lead, LEASE_PIECE_S, PATIENCE_S)
        admin = GuardedAdmin(access.admin, self._count)
        journal = open_journal(self._ports.store, clock, self._cluster_id)
        return journal, Throttles(admin, clock, journal, self._notes, Retrier(clock, self._notes, PATIENCE_S))

    def _guard(self) -> None:
        if self._lead is not None:
            self._lead.require_held()

    def _count(self) -> None:
        self._guard()
        self._writes += 1

    def _had_moves(self) -> bool:
        saved = read_saved(self._ports.store, self._cluster_id)
        return saved is not None and saved.moves > 0

    def _save(self, tick: Tick) -> None:
        record = SavedTick(
            at=self._clock.now(),
            by=self._options.by,
            law=self._options.law_name,
            token=0 if self._lead is None else self._lead.token,
            moves=tick.moves,
            rates=rates_data(tick.rates),
            reasons=reasons_data(tick.decision.reasons),
            notes=(*tick.notes, *tick.owed),
            learnt=memory_rest(tick.decision.memory),
            memory=memory_rows(tick.decision.memory),
        )
        found = self._ports.store.get(self._state_path)
        if (
            found is not None
            and decode_tick(found.value, self._state_path).moves == 0
            and tick.is_quiet
            and not tick.moves
        ):
            return  # an idle pacer writes nothing
        try:
            self._ports.store.cas(self._state_path, encode_tick(record), None if found is None else found.version)
        except KafkakitError as error:
            self._notes.warn(f"the state of the pacer could not be saved: {error.message}")


def _in_force(decision: Decision, state: RunState) -> Rates | None:
    """The rates that the law wants: those of now, else those that it remembers, else those that were set last."""
    return decision.rates or rates_of(decision.memory.rates, Memory()) or state.wanted


def state_path(cluster_id: str) -> str:
    """Where the last tick is kept."""
    return f"clusters/{cluster_id}/autothrottle/state"


def read_saved(store: ControlStore, cluster_id: str) -> SavedTick | None:
    """The last tick of any pacer of the cluster, None where there was none."""
    path = state_path(cluster_id)
    found = store.get(path)
    return None if found is None else decode_tick(found.value, path)
