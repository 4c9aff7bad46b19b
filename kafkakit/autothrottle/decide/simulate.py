"""Laws of rates played against scenarios, second by second, and what is worth showing of it.

A scenario is made from what is observed, or from a plan. Several scenarios are played in one simulation: they share no
broker. Directions are in the order (out, into).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kafkakit.autothrottle.decide.law import Law, Memory, RateDecision, Side
from kafkakit.autothrottle.decide.measurements import Flow, NetworkLoad, SeenBroker, TrafficObservation
from kafkakit.autothrottle.decide.scenario import Floats, Ints, Scenario, ideal_seconds, least_seconds
from kafkakit.core.errors import UsageError
from kafkakit.core.plan import Plan
from kafkakit.execution.decide.schedule.work import BrokerRates
from kafkakit.simulator.cluster import QuotaModel
from kafkakit.simulator.flows import LoadedCopies

_CHUNK_S = 256
_LATE_S = 140  # metrics may be so old, and are still kept
CLIENT_DELAY_LIMIT_S = 0.25
"""The longest that bytes of clients may wait without a breach."""
_DONE = 0.5
_TOTAL, _MOVED, _WAIT = range(3)

Watch = Callable[[int, LoadedCopies], None]
"""Told of each second that was played."""


@dataclass(slots=True, kw_only=True)
class PlayedScenario:
    """One scenario under one law: seconds until all had caught up, and seconds in which clients had to wait.

    A broker's direction is full in a second when what quotas let through does not fit beside clients that would fit
    alone; it breaches while bytes of clients wait longer than 250 ms for that, where copies and clients get the same
    share of what they ask for. `full` and `waited` count these seconds by direction and broker, `longest` are the
    longest breaches without a pause. `left_bytes` is what was not copied.
    """

    seconds: int = 0
    finished: bool = False
    changes: int = 0
    left_bytes: float = 0.0
    full: Ints = field(default_factory=lambda: np.zeros((2, 0), dtype=np.intp))
    waited: Ints = field(default_factory=lambda: np.zeros((2, 0), dtype=np.intp))
    longest: Ints = field(default_factory=lambda: np.zeros((2, 0), dtype=np.intp))

    @property
    def full_s(self) -> int:
        """Full seconds of all brokers and directions."""
        return int(self.full.sum())

    @property
    def breach_s(self) -> int:
        """Breaches of all brokers and directions."""
        return int(self.waited.sum())

    @property
    def longest_s(self) -> int:
        """The longest breach without a pause."""
        return int(self.longest.max(initial=0))


def play(
    scenarios: Sequence[Scenario], laws: Sequence[Law], *, tick_s: int, window_s: int, watch: Watch | None = None
) -> list[PlayedScenario]:
    """Play each scenario with its law, all at once; a law looks every `tick_s` at averages over `window_s`."""
    players, copies = _players(scenarios, laws)
    brokers, longest_s = copies.moved.shape[1], max(s.seconds for s in scenarios)
    seen = np.zeros((window_s + _LATE_S, 3, 2, brokers))  # by second modulo
    waits = _ClientWaits(brokers)
    for t in range(longest_s):
        at = t % _CHUNK_S
        if at == 0:
            pieces = [s.pieces(t, _CHUNK_S) for s in scenarios]
            clients = np.concatenate([s.clients[..., p] for s, p in zip(scenarios, pieces, strict=True)], axis=1)
            real = np.concatenate([s.real[..., p] for s, p in zip(scenarios, pieces, strict=True)], axis=1)
            alive = np.concatenate([s.alive[..., p] for s, p in zip(scenarios, pieces, strict=True)], axis=0)
        if t == 0:
            seen[:, _TOTAL] = np.minimum(clients[..., 0], real[..., 0])
        if t % tick_s == 0:
            for player in players:
                if player.is_open(t):
                    player.decide(t, copies, seen, window_s)
        now, line = clients[..., at], real[..., at]
        copies.second(now, line, alive[:, at])
        waits.second(now, line, copies.demand)
        row = seen[t % len(seen)]
        row[_TOTAL], row[_MOVED] = np.minimum(now + copies.moved, line), copies.moved
        row[_WAIT] = 1 / (1 - np.minimum((now + copies.demand) / line, 0.99))
        if watch is not None:
            watch(t, copies)
        for player in players:
            if player.is_open(t):
                player.count(t, copies)
        if not any(player.is_open(t + 1) for player in players):
            break
    for player in players:
        mine = player.brokers
        player.played.full, player.played.waited = waits.full[:, mine], waits.waited[:, mine]
        player.played.longest = waits.longest[:, mine]
    return [player.played for player in players]


class _ClientWaits:
    """Counts, by direction and broker, the seconds in which clients wait."""

    def __init__(self, brokers: int) -> None:
        self.full, self.waited, self.longest, self._run = (np.zeros((2, brokers), dtype=np.intp) for _ in range(4))
        self._queued, self._alone = np.zeros((2, brokers)), np.zeros((2, brokers))  # bytes, with and without copies

    def second(self, now: Floats, line: Floats, demand: Floats) -> None:
        """Take one second into account: what clients and copies ask for, and what the line carries."""
        self.full += (now <= line) & (now + demand > line) & (demand > 0)
        self._alone = np.maximum(0.0, self._alone + now - line)
        asked = self._queued + now
        served = np.minimum(asked, line * asked / np.maximum(asked + demand, 1.0))
        self._queued = asked - served
        over = (self._queued - self._alone) / np.maximum(served, 1.0) > CLIENT_DELAY_LIMIT_S
        self._run = np.where(over, self._run + 1, 0)
        self.longest, self.waited = np.maximum(self.longest, self._run), self.waited + over


def _players(scenarios: Sequence[Scenario], laws: Sequence[Law]) -> "tuple[list[_Player], LoadedCopies]":
    """One for each scenario, with its part of the brokers and flows of the one simulation."""
    at = np.cumsum([0, *(len(s.broker_ids) for s in scenarios)])
    flow_at = np.cumsum([0, *(len(s.source) for s in scenarios)])
    copies = LoadedCopies(
        np.concatenate([s.source + o for s, o in zip(scenarios, at, strict=False)]),
        np.concatenate([s.target + o for s, o in zip(scenarios, at, strict=False)]),
        np.concatenate([s.left for s in scenarios]),
        np.concatenate([s.ingest for s in scenarios]),
        int(at[-1]),
        QuotaModel(),
    )
    copies.partitions = np.concatenate([s.partitions for s in scenarios])
    players = [
        _Player(s, law, slice(int(at[n]), int(at[n + 1])), slice(int(flow_at[n]), int(flow_at[n + 1])))
        for n, (s, law) in enumerate(zip(scenarios, laws, strict=True))
    ]
    return players, copies


class _Player:
    """A scenario under its law, and where its brokers and flows stand among all."""

    def __init__(self, scenario: Scenario, law: Law, brokers: slice, flows: slice) -> None:
        self.scenario, self.law, self.brokers, self.flows = scenario, law, brokers, flows
        self.memory, self.played = Memory(), PlayedScenario()

    def is_open(self, t: int) -> bool:
        """True while there is something to copy and time."""
        return not self.played.finished and t < self.scenario.seconds

    def count(self, t: int, copies: LoadedCopies) -> None:
        """See what is left at the end of second `t`."""
        left = copies.left[self.flows]
        self.played.seconds, self.played.finished = t + 1, not (left > _DONE).any()
        self.played.left_bytes = float(left[left > _DONE].sum())

    def decide(self, t: int, copies: LoadedCopies, seen: Floats, window_s: int) -> None:
        """Let the law look, and set its rates; all other brokers get the rate for all, or none."""
        decision = self.law(self._look(t, copies, seen, window_s), self.memory)
        self.memory = decision.memory
        if decision.rates is None:
            return
        before = [rates[self.brokers].copy() for rates in copies.rates]
        for rates, wanted in zip(copies.rates, _settings(decision.rates, self.scenario.broker_ids), strict=True):
            rates[self.brokers] = wanted
        self.played.changes += any((r[self.brokers] != b).any() for r, b in zip(copies.rates, before, strict=True))

    def _look(self, t: int, copies: LoadedCopies, seen: Floats, window_s: int) -> TrafficObservation:
        scenario, ids = self.scenario, self.scenario.broker_ids
        until = t if scenario.seen_until is None else int(scenario.seen_until[t])
        at_ms = scenario.at_ms + t * 1000
        left = copies.left[self.flows]
        flows = tuple(
            Flow(
                source=ids[scenario.source[n]],
                destination=ids[scenario.target[n]],
                partitions=int(scenario.partitions[n]),
                left_bytes=int(left[n]),
                ingest_per_s=float(scenario.ingest[n]),
            )
            for n in np.flatnonzero(left > _DONE).tolist()
        )
        if until < 0:
            return TrafficObservation(at_ms=at_ms, flows=flows, problems=("no metrics",))
        mean = seen[np.arange(until - window_s, until) % len(seen)][..., self.brokers].mean(axis=0)
        alive = scenario.alive[:, scenario.pieces(t, 1)[0]]
        return TrafficObservation(
            at_ms=at_ms,
            measured_ms=scenario.at_ms + until * 1000,
            window_ms=window_s * 1000,
            brokers={b: self._seen(b, n, mean[..., n], is_alive=bool(alive[n])) for n, b in enumerate(ids)},
            flows=flows,
        )

    def _seen(self, broker: int, n: int, mean: Floats, *, is_alive: bool) -> SeenBroker:
        scenario = self.scenario
        out, into = (
            NetworkLoad(
                total=float(mean[_TOTAL, way]) if scenario.is_measured else None,
                moved=float(mean[_MOVED, way]),
                capacity=float(scenario.line[way, n]) if scenario.is_measured else None,
            )
            for way in (0, 1)
        )
        wait = None if scenario.idle_ms is None else scenario.idle_ms * float(mean[_WAIT].max())
        return SeenBroker(broker=broker, out=out, into=into, produce_p99_ms=wait, is_alive=is_alive)


def _settings(rates: BrokerRates, brokers: Sequence[int]) -> tuple[list[float], list[float]]:
    unlimited = float("inf")
    out = [unlimited if (r := rates.out_of_broker(b)) is None else float(r) for b in brokers]
    into = [unlimited if (r := rates.into_broker(b)) is None else float(r) for b in brokers]
    return out, into


MAX_WORK = 100_000_000
"""Of a law: brokers and flows, and `_SECOND_WORK`, times seconds. About a minute of computing."""
_SECOND_WORK = 300
_FIRST_STEP_S, _MAX_SAMPLES = 15, 240
_SHOWN_WARNINGS = 5
SIDES = (Side.OUT, Side.INTO)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedRates:
    """What was stated of brokers, bytes/s: capacities, of all and of single ones, and what clients take."""

    capacity: float | None = None
    capacity_of: Mapping[int, float] = field(default_factory=dict)
    client_rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSample:
    """From `at_s` on: bytes/s that were copied, and the rates set at its beginning; (out, into) by broker."""

    at_s: int
    seconds: int
    copied: Floats
    rates: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedLaw:
    """What one law did; `warnings` are the first that it gave."""

    name: str
    played: PlayedScenario
    samples: tuple[RateSample, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationResult:
    """Laws on one scenario. No law that leaves clients what they need ends before `least_s`.

    `ideal_s` is what ideal rates take that keep `reserve`. `is_cut`: the scenario was cut to the limit of work.
    """

    scenario: Scenario
    reserve: float
    least_s: int
    ideal_s: int
    laws: tuple[SimulatedLaw, ...]
    is_cut: bool = False


def scenario_of(observed: TrafficObservation, stated: StatedRates, name: str, seconds: int) -> Scenario:
    """The observed moves beside constant client traffic, played for at most `seconds`.

    Raises `UsageError` for a broker whose capacity or client traffic is neither measured nor stated.
    """
    ids = sorted({b for f in observed.flows for b in (f.source, f.destination)})
    at = {broker: n for n, broker in enumerate(ids)}
    sides = [[(b, _load(observed, b, side)) for b in ids] for side in SIDES]
    line = np.array([[_capacity(b, load, stated) for b, load in row] for row in sides])
    clients = np.array([[_clients(b, load, stated) for b, load in row] for row in sides])
    return Scenario(
        name=name,
        broker_ids=tuple(ids),
        line=line,
        real=line[..., None],
        clients=clients[..., None],
        alive=np.array([observed.brokers.get(b, SeenBroker(broker=b)).is_alive for b in ids], dtype=bool)[:, None],
        source=np.array([at[f.source] for f in observed.flows], dtype=np.intp),
        target=np.array([at[f.destination] for f in observed.flows], dtype=np.intp),
        left=np.array([float(f.left_bytes) for f in observed.flows]),
        ingest=np.array([f.ingest_per_s for f in observed.flows]),
        partitions=np.array([f.partitions for f in observed.flows], dtype=np.intp),
        starts_s=np.zeros(1, dtype=np.intp),
        seconds=seconds,
        at_ms=observed.at_ms,
        is_measured=all(load.total is not None for row in sides for _, load in row),
    )


def plan_flows(plan: Plan) -> tuple[Flow, ...]:
    """The copies of a plan, from the first replica of each partition; `UsageError` where it knows no sizes."""
    found: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for move in plan.moves:
        for broker in sorted(set(move.after) - set(move.before)):
            if move.size_bytes is None:
                raise UsageError(
                    f"the plan does not know the size of {move.topic}-{move.partition}",
                    hint="make it with a snapshot that has sizes",
                )
            pair = found[move.before[0], broker]
            pair[0] += 1
            pair[1] += move.size_bytes
    return tuple(
        Flow(source=s, destination=d, partitions=count, left_bytes=size)
        for (s, d), (count, size) in sorted(found.items())
    )


def simulate(
    scenario: Scenario, laws: Iterable[tuple[str, Law]], *, reserve: float, tick_s: int, window_s: int
) -> SimulationResult:
    """Play each law alone against the scenario, or against as much of its time as `MAX_WORK` allows.

    Without flows nothing is played.
    """
    if not len(scenario.source):
        return SimulationResult(scenario=scenario, reserve=reserve, least_s=0, ideal_s=0, laws=())
    most_s = MAX_WORK // (_SECOND_WORK + len(scenario.broker_ids) + len(scenario.source))
    cut = replace(scenario, seconds=min(scenario.seconds, max(1, most_s)))
    return SimulationResult(
        scenario=cut,
        reserve=reserve,
        least_s=least_seconds(cut, 0.0),
        ideal_s=ideal_seconds(cut, reserve),
        laws=tuple(_simulate_law(cut, name, law, tick_s, window_s) for name, law in laws),
        is_cut=cut.seconds < scenario.seconds,
    )


def _simulate_law(scenario: Scenario, name: str, law: Law, tick_s: int, window_s: int) -> SimulatedLaw:
    warnings: dict[str, None] = {}

    def noted(observed: TrafficObservation, memory: Memory) -> RateDecision:
        decision = law(observed, memory)
        warnings.update(dict.fromkeys(decision.warnings))
        return decision

    recorder = _Recorder()
    played = play([scenario], [noted], tick_s=tick_s, window_s=window_s, watch=recorder.watch)[0]
    return SimulatedLaw(
        name=name, played=played, samples=recorder.samples(), warnings=tuple(warnings)[:_SHOWN_WARNINGS]
    )


class _Recorder:
    """Samples of evenly long times, at most `_MAX_SAMPLES`: where they become more, two neighbours become one."""

    def __init__(self) -> None:
        self._step_s, self._found = _FIRST_STEP_S, list[RateSample]()
        self._copied: Floats = np.zeros(0)
        self._rates: Floats = np.zeros(0)

    def watch(self, t: int, copies: LoadedCopies) -> None:
        """Count one second."""
        begin = t - t % self._step_s
        seconds = t - begin + 1
        if seconds == 1:
            self._copied, self._rates = np.zeros(copies.moved.shape), np.array(copies.rates)
            self._found.append(RateSample(at_s=begin, seconds=1, copied=self._copied, rates=self._rates))
        self._copied = self._copied + copies.moved
        self._found[-1] = RateSample(at_s=begin, seconds=seconds, copied=self._copied / seconds, rates=self._rates)
        if len(self._found) == _MAX_SAMPLES and seconds == self._step_s:
            self._found = merge_samples(self._found, 2)
            self._step_s *= 2

    def samples(self) -> tuple[RateSample, ...]:
        """All of them."""
        return tuple(self._found)


def merge_samples(samples: Iterable[RateSample], each: int) -> list[RateSample]:
    """Each `each` neighbours as one: the mean of what was copied, the first rates."""
    listed = list(samples)
    groups = [listed[n : n + each] for n in range(0, len(listed), each)]
    return [
        RateSample(
            at_s=group[0].at_s,
            seconds=sum(s.seconds for s in group),
            copied=np.average([s.copied for s in group], axis=0, weights=[s.seconds for s in group]),
            rates=group[0].rates,
        )
        for group in groups
    ]


def busiest(samples: Iterable[RateSample], most: int) -> list[tuple[int, int]]:
    """The directions (0 out, 1 into) and brokers that copied most, those that copied anything."""
    listed = list(samples)
    if not listed:
        return []
    total = np.sum([s.copied * s.seconds for s in listed], axis=0)
    order: Ints = np.argsort(-total, axis=None, kind="stable")[:most]
    return [(int(n) // total.shape[1], int(n) % total.shape[1]) for n in order if total.flat[n] > 0]


def _load(observed: TrafficObservation, broker: int, side: Side) -> NetworkLoad:
    seen = observed.brokers.get(broker, SeenBroker(broker=broker))
    return seen.out if side is Side.OUT else seen.into


def _capacity(broker: int, load: NetworkLoad, stated: StatedRates) -> float:
    found = stated.capacity_of.get(broker) or load.capacity or stated.capacity
    if found is None:
        raise UsageError(
            f"the capacity of broker {broker} is not known", hint="state it with --capacity or --broker-capacity"
        )
    return found


def _clients(broker: int, load: NetworkLoad, stated: StatedRates) -> float:
    if load.total is not None:
        return max(0.0, load.total - (load.moved or 0.0))
    if stated.client_rate is None:
        raise UsageError(
            f"the client traffic of broker {broker} is not known",
            hint="measure it with --prometheus-url, or state it with --client-rate",
        )
    return stated.client_rate
