"""Scenarios of moves beside client traffic, and the loop that plays laws of rates against them.

All scenarios are played in one simulation: they share no broker. Directions are in the order (out, into).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kafkakit.autothrottle.decide.law import Law, Memory, Side
from kafkakit.autothrottle.decide.observed import BrokerSeen, Flow, Load, Observed
from kafkakit.simulator.client_load import LoadedCopies
from kafkakit.simulator.cluster import QuotaModel
from kafkakit.simulator.flows import share

Floats = NDArray[np.float64]
MB = 1e6
P99_OBJECTIVE_MS = 250.0
HISTORY_S = 256
WHOLE_WINDOW_S = 11
CLASSES = ("steady", "diurnal", "bursts", "slow", "lost", "stale", "unlike", "drain")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Brokers, flows and what happens by the second; `line` is the stated capacity, `real` what there is.

    `seen_until[t]` is the second up to which metrics reach that are there at second t, -1 for none.
    """

    name: str
    line: Floats
    real: Floats
    clients: Floats
    alive: NDArray[np.bool_]
    source: NDArray[np.intp]
    target: NDArray[np.intp]
    left: Floats
    ingest: Floats
    partitions: NDArray[np.intp]
    seen_until: NDArray[np.intp]

    @property
    def seconds(self) -> int:
        """How long it is described."""
        return int(self.clients.shape[2])


def make_scenario(kind: str, seed: int, *, duration_s: tuple[int, int] = (1200, 3000)) -> Scenario:
    """One scenario of a class; its sizes are such that ideal rates take about a time drawn from `duration_s`."""
    dice = np.random.default_rng([seed, CLASSES.index(kind)])
    brokers = int(dice.integers(3, 10))
    wanted = int(dice.integers(*duration_s))
    seconds = 3 * wanted + 600
    line = np.full((2, brokers), 125 * MB * dice.choice([1, 2.5, 10]))
    if kind == "unlike":
        line = np.broadcast_to(125 * MB * dice.choice([1.0, 2.5, 10.0], brokers), (2, brokers)).copy()
    clients = _clients(dice, kind, line, seconds)
    real = np.repeat(line[:, :, None], seconds, axis=2)
    alive = np.ones((brokers, seconds), dtype=bool)
    if kind == "slow":
        begin = int(dice.integers(100, wanted))
        real[:, dice.integers(brokers), begin:] *= dice.uniform(0.5, 0.7)
        clients = np.minimum(clients, 0.8 * real)
    if kind == "lost":
        begin, dead = int(dice.integers(100, wanted)), int(dice.integers(brokers))
        end = begin + int(dice.integers(120, 600))
        alive[dead, begin:end] = False
        others = np.arange(brokers) != dead
        given = clients[:, dead, begin:end] / (brokers - 1)
        clients[:, others, begin:end] = np.minimum(
            clients[:, others, begin:end] + given[:, None], 0.85 * line[:, others, None]
        )
        clients[:, dead, begin:end] = 0
    pairs = _pairs(dice, kind, brokers)
    source, target = np.array([s for s, _ in pairs]), np.array([t for _, t in pairs])
    left = dice.lognormal(0, 0.7, len(pairs))
    ingest = dice.choice([0.0, 0.2 * MB, 1 * MB], len(pairs)) * (line.min() / (125 * MB))
    seen = np.arange(seconds)
    if kind == "stale":
        seen = np.maximum(0, seen - int(dice.integers(15, 40)))
        for _ in range(3):
            begin = int(dice.integers(50, wanted))
            seen[begin : begin + int(dice.integers(60, 200))] = -1
    made = Scenario(
        name=kind,
        line=line,
        real=real,
        clients=clients,
        alive=alive,
        source=source,
        target=target,
        left=left,
        ingest=ingest,
        partitions=dice.integers(1, 12, len(pairs)),
        seen_until=seen,
    )
    left *= _scale(made, wanted)
    return made


def _clients(dice: np.random.Generator, kind: str, line: Floats, seconds: int) -> Floats:
    brokers = line.shape[1]
    base = dice.uniform(0.15, 0.55, (2, brokers, 1))
    t = np.arange(seconds)
    if kind in ("diurnal", "stale"):
        period = dice.uniform(2400, 7200)
        base = base + 0.2 * np.sin(2 * np.pi * (t / period + dice.uniform()))
    if kind == "bursts":
        base = np.repeat(base, seconds, axis=2)
        for broker in dice.choice(brokers, max(1, brokers // 2), replace=False):
            at = int(dice.integers(50, 300))
            while at < seconds:
                length = int(dice.integers(20, 120))
                base[:, broker, at : at + length] += dice.uniform(0.15, 0.4)
                at += length + int(dice.integers(200, 900))
    noise = dice.normal(0, 1, (2, brokers, seconds + 20))
    smooth = np.cumsum(noise, axis=2)
    smooth = (smooth[:, :, 20:] - smooth[:, :, :-20]) / np.sqrt(20)
    level: Floats = base + 0.015 * smooth + 0.005 * noise[:, :, 20:]
    return np.clip(level, 0.02, 0.9) * line[:, :, None]


def _pairs(dice: np.random.Generator, kind: str, brokers: int) -> list[tuple[int, int]]:
    everyone = [(s, t) for s in range(brokers) for t in range(brokers) if s != t]
    if kind == "drain":
        one = int(dice.integers(brokers))
        return [p for p in everyone if p[int(dice.integers(2))] == one] or everyone[:1]
    count = int(dice.integers(2, min(len(everyone), 3 * brokers)))
    return [everyone[n] for n in dice.choice(len(everyone), count, replace=False)]


def remaining(scenario: Scenario, reserve: float) -> Floats:
    """What clients leave of the real lines less the reserve, bytes by (direction, broker, second); 0 while dead."""
    left = (1 - reserve) * scenario.real - scenario.clients
    return np.maximum(0.0, left) * scenario.alive


def _scale(scenario: Scenario, wanted: int) -> float:
    """The factor for sizes with which `least_seconds` is about `wanted`."""
    free = remaining(scenario, 0.1)[:, :, :wanted].sum(axis=2)
    brokers = scenario.line.shape[1]
    ratios = []
    for side, ends in enumerate((scenario.source, scenario.target)):
        sizes = np.bincount(ends, scenario.left, brokers)
        grown = np.bincount(ends, scenario.ingest, brokers) * wanted
        busy = sizes > 0
        ratios.append(((free[side] - grown)[busy] / sizes[busy]).min())
    return float(max(min(ratios), 1e6))


def least_seconds(scenario: Scenario, reserve: float) -> int:
    """A lower bound on any law's time: no side, and no pair of brokers, can have passed its bytes earlier."""
    free = remaining(scenario, reserve)
    t = np.arange(1, scenario.seconds + 1)
    longest = 0
    sums = free.cumsum(axis=2)
    for side, ends in enumerate((scenario.source, scenario.target)):
        for broker in set(ends.tolist()):
            mine = ends == broker
            # Without what is written meanwhile, since a flow that has ended takes no more of it.
            longest = max(longest, _first(scenario.left[mine].sum() <= sums[side, broker] + 1))
    for s, d, size, grows in zip(scenario.source, scenario.target, scenario.left, scenario.ingest, strict=True):
        passed = np.minimum(free[0, s], free[1, d]).cumsum()
        longest = max(longest, _first(size + grows * t <= passed + 1))
    return longest


def _first(reached: NDArray[np.bool_]) -> int:
    return int(reached.argmax()) + 1 if reached.any() else len(reached)


def ideal_seconds(scenario: Scenario, reserve: float) -> int:
    """The time that ideal rates take: each second every side is set to exactly what clients leave in that second.

    Bytes are shared between flows as brokers share them; no quota window, no measurement, no delay.
    """
    free, left = remaining(scenario, reserve), scenario.left.copy()
    for t in range(scenario.seconds):
        left = np.where(left > 0.5, left + scenario.ingest, 0.0)
        left -= share(left, scenario.source, scenario.target, free[0, :, t], free[1, :, t])
        if not (left > 0.5).any():
            return t + 1
    return scenario.seconds


@dataclass(slots=True, kw_only=True)
class Played:
    """One scenario under one law: seconds until all had caught up, and seconds in which clients had to wait.

    A broker's direction is full in a second when what quotas let through does not fit beside clients that would fit
    alone; it breaches while bytes of clients wait longer than the objective, where copies and clients get the same
    share of what they ask for.
    `longest_s` is the longest breach without a pause.
    """

    seconds: int = 0
    finished: bool = False
    full_s: int = 0
    breach_s: int = 0
    longest_s: int = 0
    changes: int = 0
    history: list[tuple[int, dict[tuple[int, Side], int]]] = field(default_factory=list)


def play(
    scenarios: Sequence[Scenario],
    laws: Sequence[Law],
    *,
    tick_s: int,
    window_s: int,
    history: bool = False,
) -> list[Played]:
    """Play each scenario with its law, all at once; a law looks every `tick_s` at averages over `window_s`."""
    offset = np.cumsum([0, *(s.line.shape[1] for s in scenarios)])
    flow_at = np.cumsum([0, *(len(s.source) for s in scenarios)])
    brokers, longest = int(offset[-1]), max(s.seconds for s in scenarios)
    copies = LoadedCopies(
        np.concatenate([s.source + o for s, o in zip(scenarios, offset, strict=False)]),
        np.concatenate([s.target + o for s, o in zip(scenarios, offset, strict=False)]),
        np.concatenate([s.left for s in scenarios]),
        np.concatenate([s.ingest for s in scenarios]),
        brokers,
        QuotaModel(),
    )
    copies.partitions = np.concatenate([s.partitions for s in scenarios])
    clients = np.concatenate([_padded(s.clients, longest) for s in scenarios], axis=1)
    real = np.concatenate([_padded(s.real, longest) for s in scenarios], axis=1)
    alive = np.concatenate([_padded(s.alive, longest) for s in scenarios], axis=0)
    seen = np.zeros((HISTORY_S, 3, 2, brokers))  # by second modulo: all traffic, copies, latency
    seen[:, 0] = np.minimum(clients[:, :, 0], real[:, :, 0])
    memories = [Memory() for _ in scenarios]
    played = [Played() for _ in scenarios]
    run = np.zeros((2, brokers), dtype=int)
    worst, total, full = (np.zeros((2, brokers), dtype=int) for _ in range(3))
    waiting, alone = np.zeros((2, brokers)), np.zeros((2, brokers))  # bytes of clients, with copies and without
    for t in range(longest):
        if t % tick_s == 0:
            for n, scenario in enumerate(scenarios):
                if played[n].finished or t >= scenario.seconds:
                    continue
                looks = _look(scenario, copies, seen, t, window_s, int(offset[n]), slice(*flow_at[n : n + 2]))
                decision = laws[n](looks, memories[n])
                memories[n] = decision.memory
                if decision.rates is not None:
                    played[n].changes += 1
                    _apply(copies, decision.memory, int(offset[n]))
                if history:
                    played[n].history.append((t, {k: m.rate for k, m in memories[n].rates.items()}))
        now = clients[:, :, t]
        copies.second(now, real[:, :, t], alive[:, t])
        line = real[:, :, t]
        full += (now <= line) & (now + copies.demand > line) & (copies.demand > 0)
        alone = np.maximum(0.0, alone + now - line)
        asked = waiting + now
        served = np.minimum(asked, line * asked / np.maximum(asked + copies.demand, 1.0))
        waiting = asked - served
        over = (waiting - alone) / np.maximum(served, 1.0) > P99_OBJECTIVE_MS / 1000
        run = np.where(over, run + 1, 0)
        worst, total = np.maximum(worst, run), total + over
        use = np.minimum((now + copies.demand) / real[:, :, t], 0.99)
        row = seen[t % HISTORY_S]
        row[0], row[1], row[2] = np.minimum(now + copies.moved, real[:, :, t]), copies.moved, 4 / (1 - use)
        if t % 10 == 9 or t == longest - 1:
            open_flows = copies.left > 0.5
            for n in range(len(scenarios)):
                if not played[n].finished:
                    played[n].seconds = t + 1
                    played[n].finished = not open_flows[flow_at[n] : flow_at[n + 1]].any()
            if all(p.finished or t >= s.seconds for p, s in zip(played, scenarios, strict=True)):
                break
    for n, result in enumerate(played):
        part = slice(*offset[n : n + 2])
        result.full_s = int(full[:, part].sum())
        result.breach_s, result.longest_s = int(total[:, part].sum()), int(worst[:, part].max())
    return played


def _padded(values: NDArray[np.generic], longest: int) -> NDArray[np.generic]:
    return np.concatenate([values, np.repeat(values[..., -1:], longest - values.shape[-1], axis=-1)], axis=-1)


def _look(
    scenario: Scenario, copies: LoadedCopies, seen: Floats, t: int, window_s: int, offset: int, flows: slice
) -> Observed:
    until = int(scenario.seen_until[t])
    brokers = range(scenario.line.shape[1])
    mean = seen[np.arange(until - window_s, until) % HISTORY_S][..., offset : offset + len(brokers)].mean(axis=0)
    left = copies.left[flows]
    parts = [
        Flow(source=int(s), destination=int(d), partitions=int(p), left_bytes=int(b), ingest_per_s=float(g))
        for s, d, p, b, g in zip(
            scenario.source, scenario.target, scenario.partitions, left, scenario.ingest, strict=True
        )
        if b > 0.5
    ]
    found = {}
    for b in brokers:
        loads = [
            Load(total=float(mean[0, way, b]), moved=float(mean[1, way, b]), capacity=float(scenario.line[way, b]))
            for way in (0, 1)
        ]
        found[b] = BrokerSeen(
            broker=b,
            out=loads[0],
            into=loads[1],
            produce_p99_ms=float(mean[2, :, b].max()),
            is_alive=bool(scenario.alive[b, t]),
        )
    if until < 0:
        return Observed(at_ms=t * 1000, flows=tuple(parts), problems=("no metrics",))
    return Observed(
        at_ms=t * 1000, measured_ms=until * 1000, window_ms=window_s * 1000, brokers=found, flows=tuple(parts)
    )


def _apply(copies: LoadedCopies, memory: Memory, offset: int) -> None:
    for (broker, side), held in memory.rates.items():
        copies.rates[0 if side is Side.OUT else 1][offset + broker] = held.rate


def fixed_law(rate: int) -> Law:
    """One rate for all brokers, for ever, as `--throttle` gives."""
    from kafkakit.autothrottle.decide.headroom import HeadroomSettings, headroom_law

    blind = headroom_law(HeadroomSettings(min_rate=rate, failure_threshold=0))
    return lambda observed, memory: blind(Observed(at_ms=observed.at_ms, flows=observed.flows), memory)
