"""The audit `lag` in plain Python: each commit by itself, each hour by itself."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from kafkakit.rules.audits import delivery as lag

Row = Mapping[str, Any]


class Timed(NamedTuple):
    group: str
    topic: str
    partition: int
    at_ms: int
    end: int | None
    offset_lag: int | None
    lag_ms: int | None
    produced_ms: int | None


def timed(commits: Sequence[Row], produced: Sequence[Row]) -> list[Timed]:
    """The lag of each commit of one cluster; rows of a topic that began anew are another life of it."""
    found = []
    logs = {(r["topic"], r["partition"]) for r in commits}
    for topic, partition in sorted(logs):
        lives = _lives([r for r in produced if (r["topic"], r["partition"]) == (topic, partition)])
        own = [r for r in commits if (r["topic"], r["partition"]) == (topic, partition)]
        found += [_timed(row, lives) for row in own if row["committed"] is not None]
    return found


def _lives(samples: Sequence[Row]) -> list[list[tuple[int, int]]]:
    """(offset, time) of each life of a log, by time."""
    lives: list[list[tuple[int, int]]] = [[]]
    for offset, at in sorted(((r["offset"], r["at_ms"]) for r in samples), key=lambda s: (s[1], s[0])):
        if lives[-1] and offset < lives[-1][-1][0] / 2:
            lives.append([])
        lives[-1].append((offset, at))
    return lives


def _timed(row: Row, lives: Sequence[Sequence[tuple[int, int]]]) -> Timed:
    at, committed = row["at_ms"], row["committed"]
    life = max((n for n, samples in enumerate(lives) if samples and samples[0][1] <= at), default=0)
    samples = lives[life]
    end = None
    before = [i for i, (_, t) in enumerate(samples) if t <= at]
    if before:
        (low, start), after = samples[before[-1]], samples[before[-1] + 1 :][:1]
        end = low
        if after and after[0][1] > start:
            end = low + _rounded((at - start) / (after[0][1] - start) * (after[0][0] - low))
    by_offset = sorted(samples)
    reached = [(o, max(t for p, t in by_offset[: i + 1])) for i, (o, _) in enumerate(by_offset)]
    below = [i for i, (o, _) in enumerate(reached) if o <= committed]
    moment = min((t for _, t in samples), default=None)
    if below:
        (low, moment), after = reached[below[-1]], reached[below[-1] + 1 :][:1]
        if after and after[0][0] > low:
            share = (committed - low) / (after[0][0] - low)
            moment = moment + _rounded(share * (after[0][1] - moment))
    offset_lag = None if end is None else max(end - committed, 0)
    lag_ms = None
    if offset_lag is not None and moment is not None:
        lag_ms = max(at - moment, 0) if offset_lag else 0
    return Timed(row["group"], row["topic"], row["partition"], at, end, offset_lag, lag_ms, moment)


def _rounded(value: float) -> int:
    return int((value + 0.5) // 1)


def hourly(rows: Iterable[Timed]) -> dict[tuple[str, str, int, int], tuple[int, Any, Any, Any, Any]]:
    """(group, topic, partition, hour) -> commits, greatest and median time lag, greatest and median offset lag."""
    groups: dict[tuple[str, str, int, int], list[Timed]] = {}
    for r in rows:
        groups.setdefault((r.group, r.topic, r.partition, r.at_ms // lag.HOUR_MS * lag.HOUR_MS), []).append(r)
    found = {}
    for key, group in groups.items():
        times = [r.lag_ms for r in group if r.lag_ms is not None]
        offsets = [r.offset_lag for r in group if r.offset_lag is not None]
        found[key] = (len(group), *_of(times), *_of(offsets))
    return found


def _of(values: Sequence[int]) -> tuple[int | None, float | None]:
    return (max(values), float(median(values))) if values else (None, None)


def by_group(hours: Mapping[tuple[str, str, int, int], tuple[Any, ...]]) -> dict[str, dict[int, float]]:
    """group -> hour -> the median of its worst partition, in seconds."""
    found: dict[str, dict[int, float]] = {}
    for (group, _, _, hour), values in hours.items():
        if values[2] is not None:
            own = found.setdefault(group, {})
            own[hour] = max(own.get(hour, 0.0), values[2] / 1000)
    return found


def missed(hours: Mapping[int, float]) -> bool:
    return sum(s <= lag.SLO_S for s in hours.values()) / len(hours) < lag.SLO_SHARE


def is_odd(hours: Mapping[int, float]) -> bool:
    last = max(hours)
    if hours[last] <= lag.SLO_S:
        return False
    ago = {(last - hour) // lag.HOUR_MS: s for hour, s in hours.items() if hour < last}
    same = [s for n, s in ago.items() if n % 24 == 0]
    recent = [s for n, s in ago.items() if n <= lag.RECENT_HOURS]
    known = [v for v, least in ((same, lag.LEAST_DAYS), (recent, lag.LEAST_HOURS)) if len(v) >= least]
    return bool(known) and all(_z(hours[last], v) > lag.Z_LIMIT for v in known)


def _z(value: float, others: Sequence[float]) -> float:
    middle = median(others)
    spread = max(median(abs(x - middle) for x in others) * lag.MAD_TO_DEVIATION, lag.LEAST_SPREAD_S)
    return (value - middle) / spread
