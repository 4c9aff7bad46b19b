"""From what is observed, or from a plan, to a scenario; and laws played against it, with what is worth showing."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from kafkakit.autothrottle.decide.law import Decision, Law, Memory, Side
from kafkakit.autothrottle.decide.observed import BrokerSeen, Flow, Load, Observed
from kafkakit.autothrottle.decide.simulate.playing import Played, play
from kafkakit.autothrottle.decide.simulate.scenario import Floats, Ints, Scenario, ideal_seconds, least_seconds
from kafkakit.core.errors import UsageError
from kafkakit.core.plan import Plan
from kafkakit.simulator.client_load import LoadedCopies

MAX_WORK = 100_000_000
"""Of a law: brokers and flows, and `_SECOND_WORK`, times seconds. About a minute of computing."""
_SECOND_WORK = 300
_FIRST_STEP_S, _MAX_SAMPLES = 15, 240
_SHOWN_WARNINGS = 5
SIDES = (Side.OUT, Side.INTO)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
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
    played: Played
    samples: tuple[RateSample, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """Laws on one scenario. No law that leaves clients what they need ends before `least_s`.

    `ideal_s` is what ideal rates take that keep `reserve`. `is_cut`: the scenario was cut to the limit of work.
    """

    scenario: Scenario
    reserve: float
    least_s: int
    ideal_s: int
    laws: tuple[SimulatedLaw, ...]
    is_cut: bool = False


def scenario_of(observed: Observed, stated: Stated, name: str, seconds: int) -> Scenario:
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
        alive=np.array([observed.brokers.get(b, BrokerSeen(broker=b)).is_alive for b in ids], dtype=bool)[:, None],
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
) -> Simulation:
    """Play each law alone against the scenario, or against as much of its time as `MAX_WORK` allows.

    Without flows nothing is played.
    """
    if not len(scenario.source):
        return Simulation(scenario=scenario, reserve=reserve, least_s=0, ideal_s=0, laws=())
    most_s = MAX_WORK // (_SECOND_WORK + len(scenario.broker_ids) + len(scenario.source))
    cut = replace(scenario, seconds=min(scenario.seconds, max(1, most_s)))
    return Simulation(
        scenario=cut,
        reserve=reserve,
        least_s=least_seconds(cut, 0.0),
        ideal_s=ideal_seconds(cut, reserve),
        laws=tuple(_simulated(cut, name, law, tick_s, window_s) for name, law in laws),
        is_cut=cut.seconds < scenario.seconds,
    )


def _simulated(scenario: Scenario, name: str, law: Law, tick_s: int, window_s: int) -> SimulatedLaw:
    warnings: dict[str, None] = {}

    def noted(observed: Observed, memory: Memory) -> Decision:
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
            self._found = merged(self._found, 2)
            self._step_s *= 2

    def samples(self) -> tuple[RateSample, ...]:
        """All of them."""
        return tuple(self._found)


def merged(samples: Iterable[RateSample], each: int) -> list[RateSample]:
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


def _load(observed: Observed, broker: int, side: Side) -> Load:
    seen = observed.brokers.get(broker, BrokerSeen(broker=broker))
    return seen.out if side is Side.OUT else seen.into


def _capacity(broker: int, load: Load, stated: Stated) -> float:
    found = stated.capacity_of.get(broker) or load.capacity or stated.capacity
    if found is None:
        raise UsageError(
            f"the capacity of broker {broker} is not known", hint="state it with --capacity or --broker-capacity"
        )
    return found


def _clients(broker: int, load: Load, stated: Stated) -> float:
    if load.total is not None:
        return max(0.0, load.total - (load.moved or 0.0))
    if stated.client_rate is None:
        raise UsageError(
            f"the client traffic of broker {broker} is not known",
            hint="measure it with --prometheus-url, or state it with --client-rate",
        )
    return stated.client_rate
