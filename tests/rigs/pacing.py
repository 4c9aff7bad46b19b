"""Seeded scenarios of moves beside client traffic; directions are in the order (out, into)."""

import numpy as np

from kafkakit.autothrottle.decide.scenario import Floats, Scenario, remaining_rates

MB = 1e6
P99_OBJECTIVE_MS = 250.0
WHOLE_WINDOW_S = 11
CLASSES = ("steady", "diurnal", "bursts", "slow", "lost", "stale", "unlike", "drain")


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
        broker_ids=tuple(range(brokers)),
        line=line,
        real=real,
        clients=clients,
        alive=alive,
        source=source,
        target=target,
        left=left,
        ingest=ingest,
        partitions=dice.integers(1, 12, len(pairs)),
        starts_s=np.arange(seconds),
        seconds=seconds,
        idle_ms=4.0,
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


def _scale(scenario: Scenario, wanted: int) -> float:
    """The factor for sizes with which `least_seconds` is about `wanted`."""
    free = remaining_rates(scenario, 0.1)[:, :, :wanted].sum(axis=2)
    brokers = scenario.line.shape[1]
    ratios = []
    for side, ends in enumerate((scenario.source, scenario.target)):
        sizes = np.bincount(ends, scenario.left, brokers)
        grown = np.bincount(ends, scenario.ingest, brokers) * wanted
        busy = sizes > 0
        ratios.append(((free[side] - grown)[busy] / sizes[busy]).min())
    return float(max(min(ratios), 1e6))
