"""One tick of the pacer: look at the moves, let a law decide the rates, and set them, or request them from a run.

It throttles moves that another tool began. A run of kafkakit that changes the cluster has throttles of its own, and
gets the rates as a control request; they are known from its journal. All that the pacer sets, and what was set
before, stands in the pacer's journal in the control store first.

Each tick looks once, and twice if there is no look before to compare with; it asks a metrics service for the traffic
of brokers. Overrides are kept in a document of the control store, or in kafka-kit's znodes. Notes of a tick are kept
until its summary line.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from kafkakit.autothrottle.decide.law import Law, Memory, RateDecision, rates_of
from kafkakit.autothrottle.decide.measurements import (
    HostQueriesAsked,
    HostTags,
    SeenMoves,
    TrafficObservation,
    TrafficQueries,
    for_run,
    goals_of,
    hosts_of,
    measured_by_host,
    measured_of,
    observed_of,
    override_goals,
    own_rates,
    read_tags,
)
from kafkakit.autothrottle.decide.pacer import (
    MAX_BROKERS,
    OVERRIDES_DOCUMENT,
    Override,
    Overrides,
    SavedTick,
    Tick,
    decode_tick,
    decode_znode,
    encode_tick,
    encode_znode,
    memory_of,
    memory_rest,
    memory_rows,
    rates_data,
    reasons_data,
)
from kafkakit.core.cluster_facts import ConfigChange, ConfigOp, MetricSample, ResourceKind
from kafkakit.core.errors import ConflictError, InputError, KafkakitError, TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import count_of, epoch_ms
from kafkakit.core.rights import THROTTLED
from kafkakit.execution.act.control_requests import ControlRequests
from kafkakit.execution.act.journal_files import MemoryLines, pacer_lines
from kafkakit.execution.act.leases import (
    ClusterAccess,
    GuardedAdmin,
    HeldClock,
    Lease,
    OpenAccess,
    access_or_busy,
    held_lease,
)
from kafkakit.execution.act.retrier import Retrier, RetryingReader, read_usual_min_isr
from kafkakit.execution.act.run_journal import RunJournal
from kafkakit.execution.act.throttles import Throttles
from kafkakit.execution.decide.journal import ConfigKey, JournalSubject, RunState, change_to_data
from kafkakit.execution.decide.plan_state import LiveState, MoveGoal
from kafkakit.execution.decide.schedule.work import BrokerRates, is_unlimited, rates_to_data
from kafkakit.execution.decide.status_looks import health_of
from kafkakit.execution.decide.throttle import Configs, wanted_rates
from kafkakit.ports.acting import Clock, pause
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.services import HostQueries, RequestLimits, SampleQueries
from kafkakit.ports.stores import ControlStore

OBSERVE_TIMEOUT_S = 30.0
LEASE_PIECE_S = 1.0
Measure = Callable[[], TrafficObservation]
"""Asks a metrics source; what could not be read is among `problems`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PacerOptions:
    """`sample_s`: the time between two looks where there is none from before. `answer_s`: how long a run may take to
    answer a request for rates. `take_over`: rates that another process set are replaced, and come back at the end."""

    law: Law
    law_name: str
    by: str
    sample_s: float = 5.0
    answer_s: float = 0.0
    take_over: bool = False


class OverrideStore(Protocol):
    """Reads and changes overrides; raises `TryLaterError` while the store does not answer."""

    def read(self) -> Overrides:
        """All overrides; raises `InputError` for a document that is none."""
        ...

    def put(self, broker: int | None, override: Override | None) -> None:
        """Set one, or remove it; `broker` None is the one for all."""
        ...

    def settle(self) -> None:
        """Called once removals are in effect."""
        ...


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
    rates_of_run: Callable[[int], BrokerRates | None] = lambda _: None


class Pacer:
    """The pacer of one cluster. `lead` is its lead over other pacers, None for one that only looks."""

    def __init__(self, cluster_id: str, ports: PacerPorts, lead: Lease | None, options: PacerOptions) -> None:
        self._cluster_id, self._ports, self._lead, self._options = cluster_id, ports, lead, options
        self._clock: Clock = (
            ports.clock if lead is None else HeldClock(ports.clock, lead, LEASE_PIECE_S, OBSERVE_TIMEOUT_S)
        )
        self._state_path = state_path(cluster_id)
        self._notes = Notes()
        retrier = Retrier(self._clock, self._notes, OBSERVE_TIMEOUT_S)
        self._reader = RetryingReader(ports.admin, self._clock, retrier)
        self._moves = MoveLooks(ports.admin, self._clock, self._reader, options.sample_s)
        self._writes = 0

    def decide(self) -> tuple[SeenMoves, Overrides, RateDecision]:
        """Look and decide, and change nothing."""
        saved = read_saved(self._ports.store, self._cluster_id)
        before, look = self._moves.look()
        overrides = self._overrides(look)
        if not look.goals:
            return look, overrides, RateDecision(rates=None, memory=memory_of(None))
        observed = self._moves.with_health(self._observed(before, look), look)
        decision = self._options.law(observed, memory_of(saved))
        return look, overrides, replace(decision, warnings=(*observed.problems, *decision.warnings))

    def _overrides(self, look: SeenMoves) -> Overrides:
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

    def observe(self) -> TrafficObservation:
        """What a law is told of traffic and flows now; changes nothing."""
        return self._observed(*self._moves.look())

    def _observed(self, before: SeenMoves, look: SeenMoves) -> TrafficObservation:
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
        # A line shows the first ones only: what the rates follow from goes before what others have set.
        notes = tuple(dict.fromkeys((*decision.warnings, *self._notes.lines)))
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
        tick = self._seen(look, overrides, decision, rates)
        state = open_journal(self._ports.store, self._clock, self._cluster_id).state
        if not look.goals and not overrides.of and (left := len(state.rates) + len(state.entries)):
            words = f"no moves run: {count_of(left, 'throttle setting')} of the pacer would be removed"
            return replace(tick, notes=(words,))
        lease = held_lease(self._ports.store, self._cluster_id) if rates is not None else None
        if rates is None or (lease is not None and lease.holder is not None):  # a run would be asked for all of them
            return tick
        own, notes = self._own_rates(look.goals, rates, look.live, self._ports.admin, state)
        return replace(tick.with_settings(wanted_rates(look.goals, own)), notes=notes)

    def _own_rates(
        self, goals: Collection[MoveGoal], rates: BrokerRates, live: LiveState, admin: ClusterAdmin, state: RunState
    ) -> tuple[BrokerRates, tuple[str, ...]]:
        """The rates that may be set, and what is to be said of those that others have set; see `own_rates`."""
        now = _settings(admin, wanted_rates(goals, rates), live)
        return own_rates(goals, rates, state.rates, now, take_over=self._options.take_over)

    def has_other_moves(self) -> bool:
        """True when other moves run than at the last look; one request."""
        return self._moves.has_others()

    def _seen(self, look: SeenMoves, overrides: Overrides, decision: RateDecision, rates: BrokerRates | None) -> Tick:
        return Tick(
            moves=len(look.goals),
            decision=decision,
            rates=rates,
            left_bytes=look.left_bytes,
            topics=tuple(sorted({g.key.topic for g in look.goals})),
            brokers=look.brokers,
            overrides=overrides,
        )

    def _act(self, tick: Tick, look: SeenMoves, goals: tuple[MoveGoal, ...], law: BrokerRates | None) -> Tick:
        with ExitStack() as stack:
            access = access_or_busy(stack, self._ports.open_access)
            if isinstance(access, TryLaterError):
                return self._request(tick, access)
            return self._set(tick, look, goals, law, access)

    def _set(
        self, tick: Tick, look: SeenMoves, goals: tuple[MoveGoal, ...], law: BrokerRates | None, access: ClusterAccess
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
            rates, theirs = self._own_rates(goals, tick.rates, live, access.admin, journal.state)
            for words in theirs:
                self._notes.warn(words)
            if law is not None and law != journal.state.wanted:
                journal.check(JournalSubject.RATES, {"rates": rates_to_data(law)})
            wanted = {g.key for g in goals}
            held = {TopicPartition(k.name, int(e.split(":")[0])) for k, es in journal.state.entries.items() for e in es}
            ended = [MoveGoal(key=k, target=(), holders=()) for k in sorted(held - wanted)]
            if ended:
                throttles.lift_entries(ended)
            owed = throttles.change(rates, live, goals)
            wanted_now = wanted_rates(goals, rates)
            found = _settings(access.admin, wanted_now, live)
            shown = {k: r for k, r in wanted_now.items() if found.get(k.name, {}).get(k.key) == str(r)}
            held_by_dead = {k: r for k, r in wanted_now.items() if k.name not in found and k in journal.state.rates}
            tick = replace(tick.with_settings(shown), applied={**shown, **held_by_dead})
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
        clock = (
            access.clock
            if self._lead is None
            else HeldClock(access.clock, self._lead, LEASE_PIECE_S, OBSERVE_TIMEOUT_S)
        )
        admin = GuardedAdmin(access.admin, self._count)
        journal = open_journal(self._ports.store, clock, self._cluster_id)
        return journal, Throttles(admin, clock, journal, self._notes, Retrier(clock, self._notes, OBSERVE_TIMEOUT_S))

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


def _settings(admin: ClusterAdmin, keys: Collection[ConfigKey], live: LiveState) -> Configs:
    """What is set now on those of the brokers that are alive."""
    alive = sorted({k.name for k in keys if live.is_alive(int(k.name))})
    return admin.dynamic_configs(ResourceKind.BROKER, alive) if alive else {}


def _in_force(decision: RateDecision, state: RunState) -> BrokerRates | None:
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


STALE_LOOK_S = 900.0


class MoveLooks:
    """The looks of one pacer; `sample_s` is the least time between two that are compared."""

    def __init__(self, admin: ClusterAdmin, clock: Clock, reader: RetryingReader, sample_s: float) -> None:
        self._admin, self._clock, self._reader, self._sample_s = admin, clock, reader, sample_s
        self._before: SeenMoves | None = None

    def look(self) -> tuple[SeenMoves, SeenMoves]:
        """The look before and the one of now; the same twice where nothing moves."""
        look = self._once()
        if look.goals and not self._is_comparable(look):
            self._before = look
            pause(self._clock, self._sample_s)
            look = self._once()
        before, self._before = self._before or look, look
        return before, look

    def has_others(self) -> bool:
        """True when other moves run than at the last look; one request."""
        running = {TopicPartition(r.topic, r.partition) for r in self._admin.reassignments() if r.adding}
        return self._before is None or running != {k for k, r in self._before.live.running.items() if r.adding}

    def with_health(self, observed: TrafficObservation, look: SeenMoves) -> TrafficObservation:
        """Add counts over the partitions that do not move; reads the metadata of the whole cluster."""
        snapshot = self._admin.snapshot(now=self._clock.now(), sizes=False)
        alive = sorted(b.id for b in snapshot.brokers if b.is_alive)
        still = tuple(
            replace(t, partitions=tuple(p for p in t.partitions if (t.name, p.partition) not in look.live.running))
            for t in snapshot.topics
        )
        health = health_of(replace(snapshot, topics=still), read_usual_min_isr(self._admin, alive))
        return replace(observed, under_replicated=health.under_replicated, under_min_isr=health.under_min_isr)

    def standing(self, look: SeenMoves, overridden: Collection[int]) -> tuple[MoveGoal, ...]:
        """Goals for copies of brokers with an override that do not move; reads the metadata of the whole cluster."""
        idle = [b for b in overridden if b not in look.brokers and look.live.is_alive(b)]
        if not idle:
            return ()
        snapshot = self._admin.snapshot(now=self._clock.now(), sizes=False)
        replicas = {
            TopicPartition(t.name, p.partition): p.replicas
            for t in snapshot.topics
            for p in t.partitions
            if TopicPartition(t.name, p.partition) not in look.live.running
        }
        return override_goals(idle, replicas)

    def _once(self) -> SeenMoves:
        live = self._reader.live(())
        live = self._reader.with_states(live, live.running)
        goals = goals_of(live)
        at_ms = epoch_ms(self._clock.now())
        return SeenMoves(at_ms=at_ms, live=live, goals=goals, dirs=self._reader.dirs(goals, live))

    def _is_comparable(self, look: SeenMoves) -> bool:
        before = self._before
        if before is None:
            return False
        seconds = (look.at_ms - before.at_ms) / 1000
        known = {g.key for g in before.goals}
        return self._sample_s <= seconds <= STALE_LOOK_S and any(g.key in known for g in look.goals)


ASKED_ONCE = RequestLimits(timeout_s=5.0, attempts=1)
"""What a tick waits for one answer: the next tick asks again, and the lead over other pacers runs on meanwhile."""
LOOK_UP_S = 20.0
"""How long one look may ask for tags; the rest is asked for at the next one."""
MAX_HOSTS = 2000


def measure_with(service: SampleQueries, clock: Clock, queries: TrafficQueries) -> Callable[[], TrafficObservation]:
    """A look at the service; a query that fails is among `problems`, and the law decides without its values."""

    def measure() -> TrafficObservation:
        at = clock.now()
        answers, problems = _ask(service, queries.texts(), at)
        return measured_of(answers, queries, epoch_ms(at), queries.window_s, problems)

    return measure


def measure_hosts(
    service: HostQueries, clock: Clock, asked: HostQueriesAsked, *, with_type: bool
) -> Callable[[], TrafficObservation]:
    """A look at a service with a series for each host; complete tags are looked up once, one request a host.

    `with_type`: instance types are needed, so that a host without one is asked for again.
    """
    kept: dict[str, HostTags] = {}

    def measure() -> TrafficObservation:
        at = clock.now()
        answers, problems = _ask(service, asked.texts(), at)
        hosts, now, end_s = hosts_of(answers)[:MAX_HOSTS], dict(kept), clock.monotonic() + LOOK_UP_S
        for position, host in enumerate(unknown := [h for h in hosts if h not in kept]):
            try:
                if clock.monotonic() >= end_s:
                    raise TryLaterError(f"not asked for within {LOOK_UP_S:g} s")
                now[host] = read_tags(service.host_tags(host), asked)
            except KafkakitError as error:
                rest = len(unknown) - position - 1 if isinstance(error, TryLaterError) else 0
                others = f" and {rest} more" if rest else ""
                problems = (*problems, f"tags of host {host}{others}: {error.message}")
                if rest:
                    break  # a service that is away is not asked for each host
        kept.update({h: tags for h, tags in now.items() if tags.is_complete(with_type=with_type)})
        found = measured_by_host(answers, now, asked, at)
        return replace(found, problems=(*problems, *found.problems))

    return measure


def _ask(
    service: SampleQueries, texts: Mapping[str, str], at: datetime
) -> tuple[dict[str, tuple[MetricSample, ...]], tuple[str, ...]]:
    """What the service answers, and which queries failed."""
    answers: dict[str, tuple[MetricSample, ...]] = {}
    problems: list[str] = []
    late = 0
    for name, text in texts.items():
        try:
            answers[name] = service.query(text, at)
        except KafkakitError as error:
            problems.append(f"{name}: {error.message}")
            late += isinstance(error, TryLaterError)
            if late > min(1, len(answers)):
                break  # a service that is away, or that went away, is not asked six times
    return answers, tuple(problems)


ATTEMPTS = 20


class ControlOverrides:
    """One document; changes of several processes at a time are all kept."""

    def __init__(self, store: ControlStore, cluster_id: str) -> None:
        self._store, self._path = store, f"clusters/{cluster_id}/autothrottle/overrides"

    def read(self) -> Overrides:
        """See `OverrideStore`; one read."""
        found = self._store.get(self._path)
        return Overrides() if found is None else OVERRIDES_DOCUMENT.decode(found.value, self._path)

    def put(self, broker: int | None, override: Override | None) -> None:
        def change() -> None:
            found = self._store.get(self._path)
            before = Overrides() if found is None else OVERRIDES_DOCUMENT.decode(found.value, self._path)
            after = before.with_one(broker, override)
            if len(after.of) > MAX_BROKERS:
                raise InputError("the overrides", f"are for more than {MAX_BROKERS} brokers")
            if after != before:
                self._store.cas(self._path, OVERRIDES_DOCUMENT.encode(after), None if found is None else found.version)

        _until_no_conflict(change)

    def settle(self) -> None:
        """Nothing is left behind."""


class ZnodeOverrides:
    """kafka-kit's znodes: `override_rate` below the prefix for all brokers, a child of it for each single one."""

    def __init__(self, store: ControlStore, prefix: str) -> None:
        self._store, self._path = store, "/".join((*filter(None, prefix.split("/")), "override_rate"))

    def read(self) -> Overrides:
        """See `OverrideStore`; children that are no broker ids are ignored, as kafka-kit's API could make `all`."""
        of = {int(name): self._one(self._path_of(int(name))) for name in self._names()}
        return Overrides(every=self._one(self._path), of={b: o for b, o in sorted(of.items()) if o is not None})

    def put(self, broker: int | None, override: Override | None) -> None:
        """See `OverrideStore`; a removal is a rate of 0, which the pacer takes away once it is in effect."""

        def change() -> None:
            found = self._store.get(path)
            if found is not None or override is not None:
                self._store.cas(path, encode_znode(override), None if found is None else found.version)

        path = self._path if broker is None else self._path_of(broker)
        _until_no_conflict(change)

    def settle(self) -> None:
        """Delete the znodes of brokers whose rate is 0."""
        for name in self._names():
            path = self._path_of(int(name))
            found = self._store.get(path)
            # One that changed meanwhile, or cannot be read, stays.
            with suppress(ConflictError, InputError):
                if found is not None and decode_znode(found.value, path) is None:
                    self._store.delete(path, found.version)

    def _names(self) -> tuple[str, ...]:
        return tuple(n for n in self._store.children(self._path) if n.isascii() and n.isdigit() and len(n) <= 10)

    def _path_of(self, broker: int) -> str:
        return f"{self._path}/{broker}"

    def _one(self, path: str) -> Override | None:
        found = self._store.get(path)
        return None if found is None else decode_znode(found.value, f"znode /{path}")


def _until_no_conflict(change: Callable[[], None]) -> None:
    for left in reversed(range(ATTEMPTS)):
        try:
            change()
        except ConflictError:
            if not left:
                raise
        else:
            return


def request_rates(
    requests: ControlRequests, token: int, by: str, rates: BrokerRates, earlier: BrokerRates | None, wait_s: float
) -> tuple[int, str]:
    """Request the rates of the run with a fencing token, unless they are requested; wait `wait_s` for its answer.

    `earlier` are the rates that it was asked for. Returns the number of requests made, and what is to be said of it.
    """
    found = requests.read(token)
    present = None if found is None else found.request.rates
    wanted = for_run(rates, (present or earlier or BrokerRates()).inside)
    writes = 0
    if found is not None and present == wanted:
        version = found.version
    else:
        version, writes = requests.request(token, by, rates=wanted), 1
    answer = requests.wait_for_answer(token, version, wait_s)
    if answer is None:
        return writes, "the rates are requested of the run, which has not taken them up yet"
    return writes, f"the run refuses the rates: {answer.refused}" if answer.refused else ""


IDENTITY = "autothrottle"
COMPACT_BYTES = 200_000
LINE_CHANGES = 200


def open_journal(store: ControlStore, clock: Clock, cluster_id: str) -> RunJournal:
    """The journal as it stands; raises `InputError` for a damaged one, `TryLaterError` while the store is away."""
    return RunJournal(pacer_lines(store, cluster_id), clock, cluster_id=cluster_id, fingerprint=IDENTITY)


def compact(store: ControlStore, clock: Clock, cluster_id: str) -> None:
    """Keep only what the journal means: nothing where no throttle of ours is left, a few lines where it grew long."""
    lines = pacer_lines(store, cluster_id)
    size = len(lines.read())
    if not size:
        return
    state = open_journal(store, clock, cluster_id).state
    if not state.throttled:
        lines.replace(b"")
    elif size > COMPACT_BYTES:
        lines.replace(_shortest_memory(state, clock, cluster_id, lines.name))


def _shortest_memory(state: RunState, clock: Clock, cluster_id: str, name: str) -> bytes:
    memory = MemoryLines(name)
    journal = RunJournal(memory, clock, cluster_id=cluster_id, fingerprint=IDENTITY)
    changes = [
        change_to_data(_change(key.kind, key.name, key.key, ConfigOp.SET, value), hold.earlier)
        for key, hold in sorted(state.rates.items())
        for value in sorted(hold.ours)
    ]
    for key, entries in sorted(state.entries.items()):
        for at in range(0, max(1, len(entries)), LINE_CHANGES):
            value = ",".join(entries[at : at + LINE_CHANGES])
            changes.append(change_to_data(_change(key.kind, key.name, key.key, ConfigOp.APPEND, value)))
    for at in range(0, len(changes), LINE_CHANGES):
        # An intent without an effect: the same as of a process that was killed at it.
        journal.intent(JournalSubject.THROTTLE, {"changes": changes[at : at + LINE_CHANGES]})
    if state.wanted is not None:
        journal.check(JournalSubject.RATES, {"rates": rates_to_data(state.wanted)})
    return memory.data


def _change(kind: ResourceKind, name: str, key: str, op: ConfigOp, value: str) -> ConfigChange:
    return ConfigChange(kind=kind, name=name, key=key, op=op, value=value)


class Notes:
    """Implements `ports.Reporter`; only warnings are kept."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def clear(self) -> None:
        """Forget what was noted."""
        self.lines.clear()

    def say(self, line: str) -> None:
        """Ignore progress."""

    def warn(self, line: str) -> None:
        """Keep a warning."""
        self.lines.append(line)

    def update(self, done: float, total: float, note: str = "") -> None:
        """Ignore progress."""

    @contextmanager
    def progress(self, label: str) -> Iterator["Notes"]:
        del label
        yield self
