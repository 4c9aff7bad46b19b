"""The audit `mirror` in plain Python: records of both sides one by one."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

Row = Mapping[str, Any]
Copy = tuple[bool, Row, int]


def windows(
    primary: Sequence[Row], copies: Sequence[Row], *, source: str, window_ms: int, round_ms: int
) -> dict[tuple[str, int], dict[str, int]]:
    """(topic, window) -> records of each side, and what each lacks or has twice."""
    ours = [(False, r, r["at_ms"]) for r in primary]
    theirs = [(True, {**r, "topic": r["topic"].removeprefix(f"{source}.")}, r["at_ms"]) for r in copies]
    shifts = {t: _shift([r for r in (*ours, *theirs) if r[1]["topic"] == t]) for t in {r[1]["topic"] for r in ours}}
    both = ours + [(m, r, at - shifts[r["topic"]]) for m, r, at in theirs if r["topic"] in shifts]
    mirrored = {r["topic"] for m, r, _ in both if m}
    times = {side: [at for m, _, at in both if m is side] for side in (False, True)}
    if not times[True] or not times[False]:
        return {}
    first = max(min(t) for t in times.values())
    end = min(max(t) for t in times.values())
    first, end = -(-first // window_ms) * window_ms, end // window_ms * window_ms
    found: dict[tuple[str, int], Counter[str]] = {}
    for topic in shifts:
        rows = [r for r in both if r[1]["topic"] == topic] if topic in mirrored else []
        named: dict[str, list[Copy]] = {}
        for row in rows:
            if row[1]["record_id"] is not None:
                named.setdefault(row[1]["record_id"], []).append(row)
        for group in named.values():
            here, there = (sum(1 for m, _, _ in group if m is side) for side in (False, True))
            at = min(at for _, _, at in group)
            lacks = {"mirror": int(there == 0), "primary": int(here == 0)}
            twice = {"twice_on_mirror": max(there - 1, 0), "twice_on_primary": max(here - 1, 0)}
            if first <= at < end:
                counts = {"primary_records": here, "mirror_records": there, **lacks, **twice}
                found.setdefault((topic, at // window_ms * window_ms), Counter()).update(counts)
        for at, here, there in _alike([r for r in rows if r[1]["record_id"] is None], round_ms):
            if first <= at < end:
                lacks = {"mirror": max(here - there, 0), "primary": max(there - here, 0)}
                counts = {"primary_records": here, "mirror_records": there, **lacks}
                found.setdefault((topic, at // window_ms * window_ms), Counter()).update(counts)
    names = ("primary_records", "mirror_records", "mirror", "primary", "twice_on_mirror", "twice_on_primary")
    return {key: {n: counts[n] for n in names} for key, counts in found.items()}


def _shift(rows: Sequence[Copy]) -> int:
    groups: dict[Any, dict[bool, list[int]]] = {}
    for is_mirror, r, at in rows:
        identity = r["record_id"] or (r["key_hash"], r["value_crc"])
        groups.setdefault(identity, {False: [], True: []})[is_mirror].append(at)
    apart = [g[True][0] - g[False][0] for g in groups.values() if len(g[True]) == len(g[False]) == 1]
    return int(median(apart)) if apart else 0


def _alike(rows: Sequence[Copy], round_ms: int) -> Iterable[tuple[int, int, int]]:
    """(time, records of the primary, of the mirror) of records with one key, value and time."""
    groups: dict[Any, dict[int, list[Copy]]] = {}
    for row in rows:
        content = (row[1]["key_hash"], row[1]["value_crc"])
        groups.setdefault(content, {}).setdefault(row[2] // round_ms, []).append(row)
    for ticks in groups.values():
        pending: list[Copy] = []
        last = None
        for tick in sorted(ticks):
            here = sum(1 for m, _, _ in ticks[tick] if not m)
            if 2 * here == len(ticks[tick]):
                yield min(at for _, _, at in ticks[tick]), here, here
                continue
            if pending and last != tick - 1:
                yield _sum(pending)
                pending = []
            pending, last = pending + ticks[tick], tick
        if pending:
            yield _sum(pending)


def _sum(rows: Sequence[Copy]) -> tuple[int, int, int]:
    there = sum(1 for m, _, _ in rows if m)
    return min(at for _, _, at in rows), len(rows) - there, there
