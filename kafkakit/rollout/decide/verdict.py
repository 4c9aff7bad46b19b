"""Whether a cluster is worse than before: a robust test of each signal against its own past.

The limit of a signal is `m + 3.5 * s`, with m the median of the baseline and s = 1.4826 * MAD, where MAD is the median
of the absolute deviations from m. 1.4826 makes s the standard deviation for normal values; 3.5 is the cut-off that
Iglewicz and Hoaglin recommend for the modified z-score 0.6745 * (x - m) / MAD (How to Detect and Handle Outliers,
ASQC 1993, also NIST/SEMATECH e-Handbook 1.3.5.17). Half of the baseline may be bad without moving the limit far. Where
MAD is 0, as it is for counts that are mostly 0, the floors below take its place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from kafkakit.rollout.decide.health import EVENTS, GAUGES, HealthLook, Signal, series

CUT_OFF = 3.5
MAD_TO_DEVIATION = 1.4826
LEAST_EVENT_DEVIATION = 1.0
"""Events a window: with none before, up to three are within the limit."""
LEAST_RISE: Mapping[Signal, tuple[float, float]] = {
    Signal.REQUEST_MS: (0.25, 5.0),
    # One answer to one client says less: a busy machine doubles it.
    Signal.METADATA_MS: (1.0, 250.0),
}
"""Of times: the least share of the median, and the least milliseconds, by which a window must be above it."""
LEAST_ANSWERS = 5
"""Answers to one client on either side: the median of two or three is that of one pause of the machine."""
CONFIRMED_BY = 2
"""Looks in a row that show a gauge above its limit: one alone may be a broker that starts."""
MOST_SILENT = 3
"""Looks in a row without a signal that the baseline has."""
Baseline = Mapping[Signal, tuple[float, ...]]


class Health(StrEnum):
    """What a window says."""

    GOOD = "good"
    BAD = "bad"
    UNKNOWN = "unknown"
    OPEN = "open"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignalRow:
    """One signal of a window: what was usual, the limit, and what was seen."""

    signal: Signal
    usual: float
    limit: float
    seen: float
    is_bad: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthVerdict:
    """The verdict of a window, why, and the signals it rests on. `looks` is how many looks there were."""

    health: Health
    reasons: tuple[str, ...] = ()
    rows: tuple[SignalRow, ...] = ()
    looks: int = 0

    @property
    def is_bad(self) -> bool:
        """True where values are to be taken back: a window that says nothing counts as bad."""
        return self.health in (Health.BAD, Health.UNKNOWN)


def baseline_of(looks: Sequence[HealthLook]) -> dict[Signal, tuple[float, ...]]:
    """The series of each signal that at least half of the looks have."""
    found = {signal: series(looks, signal) for signal in Signal}
    return {signal: values for signal, values in found.items() if 2 * len(values) >= max(1, len(looks) - 1)}


def limit_of(signal: Signal, values: Sequence[float], window: int) -> tuple[float, float]:
    """The usual value and the limit of a window of so many looks: of events its sum, of times its median."""
    if signal in EVENTS:
        span = min(window, len(values))
        sums = [sum(values[at : at + span]) * window / span for at in range(len(values) - span + 1)]
        usual = median(sums)
        return usual, usual + CUT_OFF * max(_deviation(sums, usual), LEAST_EVENT_DEVIATION)
    usual = median(values)
    limit = usual + CUT_OFF * _deviation(values, usual)
    if signal in LEAST_RISE:
        share, least = LEAST_RISE[signal]
        limit = max(limit, usual + max(share * usual, least))
    return usual, limit


def judge(baseline: Baseline, looks: Sequence[HealthLook], window: int) -> HealthVerdict:
    """What the looks of a window say so far; OPEN until there are `window` of them, unless it is known before.

    Gauges count from two looks in a row above the limit, events from their sum, times from a whole window's median.
    Signals that the baseline has and no longer come make the window UNKNOWN.
    """
    silent = [s for s in baseline if len(looks) >= MOST_SILENT and not series(looks[-MOST_SILENT:], s)]
    rows = tuple(_row(s, baseline[s], looks, window) for s in Signal if s in baseline and series(looks, s))
    bad = tuple(_reason(row, looks) for row in rows if row.is_bad)
    if bad:
        return HealthVerdict(health=Health.BAD, reasons=bad, rows=rows, looks=len(looks))
    if silent:
        why = next((look.problem for look in reversed(looks) if look.problem), "no reason is known")
        said = f"{MOST_SILENT} looks in a row without {', '.join(silent)}: {why}"
        return HealthVerdict(health=Health.UNKNOWN, reasons=(said,), rows=rows, looks=len(looks))
    if len(looks) < window:
        return HealthVerdict(health=Health.OPEN, rows=rows, looks=len(looks))
    few = [s.value for s in baseline if 2 * len(series(looks, s)) < window]
    if few:
        said = f"too few values of {', '.join(few)} to judge"
        return HealthVerdict(health=Health.UNKNOWN, reasons=(said,), rows=rows, looks=len(looks))
    return HealthVerdict(health=Health.GOOD, rows=rows, looks=len(looks))


def _row(signal: Signal, values: Sequence[float], looks: Sequence[HealthLook], window: int) -> SignalRow:
    usual, limit = limit_of(signal, values, window)
    seen = series(looks, signal)
    if signal in GAUGES:
        last = seen[-CONFIRMED_BY:]
        return SignalRow(
            signal=signal,
            usual=usual,
            limit=limit,
            seen=seen[-1],
            is_bad=len(last) >= CONFIRMED_BY and min(last) > limit,
        )
    if signal in EVENTS:
        return SignalRow(signal=signal, usual=usual, limit=limit, seen=sum(seen), is_bad=sum(seen) > limit)
    middle = median(seen)
    is_whole = len(looks) >= window and 2 * len(seen) >= window
    if signal is Signal.METADATA_MS:
        is_whole &= min(len(seen), len(values)) >= LEAST_ANSWERS
    return SignalRow(signal=signal, usual=usual, limit=limit, seen=middle, is_bad=is_whole and middle > limit)


def _reason(row: SignalRow, looks: Sequence[HealthLook]) -> str:
    named = looks[-1].worst if row.signal in (Signal.OFFLINE, Signal.UNDER_MIN_ISR) else ()
    which = f" ({', '.join(named[:4])})" if named else ""
    return f"{row.signal.value}: {row.seen:g}{which}, usual {row.usual:g}, limit {row.limit:.4g}"


def _deviation(values: Sequence[float], middle: float) -> float:
    return MAD_TO_DEVIATION * median(abs(value - middle) for value in values)
