"""A rollout: its journal, what taking it back would set, and whether the cluster is worse than before.

Live values decide what is still to be done. A line of the journal remembers what cannot be read again: the plan, the
baseline before the first step, which values are ours, which steps were watched, and why values are taken back.

Health is what one look shows as numbers by signal, from brokers or from queries to metrics services. The verdict is a
robust test of each signal against its own past. The limit of a signal is `m + 3.5 * s`, with m the median of the
baseline and s = 1.4826 * MAD, where MAD is the median of the absolute deviations from m. 1.4826 makes s the standard
deviation for normal values; 3.5 is the cut-off that Iglewicz and Hoaglin recommend for the modified z-score 0.6745 *
(x - m) / MAD (How to Detect and Handle Outliers, ASQC 1993, also NIST/SEMATECH e-Handbook 1.3.5.17). Half of the
baseline may be bad without moving the limit far. If MAD is 0, as it is for counts that are mostly 0, the floors below
take its place.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from statistics import median
from typing import Any, TypeAlias

from kafkakit.core.cluster_facts import (
    CLUSTER_DEFAULT,
    ConfigLayer,
    LayeredValue,
    MetricSample,
    PartitionState,
    ResourceKind,
)
from kafkakit.core.findings import least_in_sync
from kafkakit.core.journal_lines import Grammar, Line, RecordKind, line_data, read_data
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import epoch_ms
from kafkakit.execution.decide.journal import ConfigKey
from kafkakit.rollout.decide.plan import ConfigPlan, show_value
from kafkakit.rollout.decide.settings import ClusterConfigs, PlannedStep, SettingChange, is_same, where_of

HEADER = {"kind": "config-rollout", "schema": 1}
DAMAGED_HINT = "values that a rollout set are still there: compare them with `kafkakit config diff FILE live`"


class RolloutWord(StrEnum):
    """What a line is about; the first three are effects, with an intent before each."""

    WRITE = "write"
    RESTART = "restart"
    RESTORE = "restore"
    SALVAGED = "salvaged"
    OPEN = "open"
    BASELINE = "baseline"
    PASSED = "passed"
    BACK = "back"
    END = "end"


class RolloutEnd(StrEnum):
    """How a rollout ended."""

    APPLIED = "applied"
    TAKEN_BACK = "taken back"
    INCOMPLETE = "incomplete"
    """Some values could not be taken back, or belong to another process by now."""


RolloutLine: TypeAlias = Line[RolloutWord]
GRAMMAR = Grammar(header=HEADER, words=RolloutWord, damaged_hint=DAMAGED_HINT, salvaged=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """How each step is watched: a look every `every_s`, judged after `window_s` against `baseline_s` before the change.

    `source` is the metrics service in words, empty for the brokers alone; `groups` are the consumer groups whose lag is
    watched. `settle_s` bounds the wait for a broker that
    was restarted.
    """

    window_s: float
    every_s: float
    baseline_s: float
    source: str = ""
    settle_s: float = 300.0
    restart_with: str = ""
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TouchedSetting:
    """A setting that the rollout wrote: what it had first, and every value that is ours."""

    key: ConfigKey
    original: str | None
    ours: frozenset[str | None]
    restart: bool = False

    def is_ours(self, value: str | None) -> bool:
        """True for a value that the rollout set or found."""
        return any(is_same(value, own) for own in (*self.ours, self.original))


class Signal(StrEnum):
    """What is watched; a look has those that its source tells."""

    OFFLINE = "offline partitions"
    UNDER_MIN_ISR = "partitions under min ISR"
    UNDER_REPLICATED = "under-replicated partitions"
    SHRINKS = "ISR shrinks"
    EXPANDS = "ISR expands"
    LEADER_CHANGES = "leader changes"
    CLIENT_ERRORS = "client errors"
    REQUEST_MS = "ms of produce requests (p99)"
    METADATA_MS = "ms of a metadata answer"
    LAG = "consumer lag in records"

    @property
    def label(self) -> str:
        """As reports call it; the value stands in journals and JSON."""
        return _LATENCIES.get(self, self.value)

    def number(self, value: float) -> str:
        """A value of it, with its unit."""
        return f"{value:.4g} ms" if self in _LATENCIES else f"{value:.4g}"


_LATENCIES = {Signal.REQUEST_MS: "produce latency (p99)", Signal.METADATA_MS: "metadata latency"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutState:
    """A journal folded up. `passed` are steps that were watched."""

    plan: ConfigPlan
    watch: WatchSettings
    by: str
    began_at: datetime
    rehearsal_of: str = ""
    baseline: Mapping[Signal, tuple[float, ...]] | None = None
    touched: tuple[TouchedSetting, ...] = ()
    passed: tuple[int, ...] = ()
    is_back: bool = False
    reasons: tuple[str, ...] = ()
    end: RolloutEnd | None = None
    left: tuple[str, ...] = ()
    ended_at: datetime | None = None
    hiding: frozenset[tuple[int, str]] | None = None
    """Brokers with keys of the cluster default that had values of their own at the beginning; None: not recorded."""
    writes: tuple[tuple[datetime, SettingChange], ...] = field(default=())
    """Every change that was made or may have been, in order, for the values of an earlier time."""

    @property
    def words(self) -> str:
        """Where it stands, in words."""
        if self.end is not None:
            return self.end.value
        return "being taken back" if self.is_back else f"open, {len(self.passed)} of {len(self.plan.steps)} steps"


def opening_data(
    plan: ConfigPlan, watch: WatchSettings, by: str, rehearsal_of: str, hiding: Iterable[tuple[int, str]]
) -> dict[str, Any]:
    """The data of the first line; `hiding` as in `RolloutState`."""
    return {"plan": line_data(plan), "watch": line_data(watch), "by": by, "rehearsal_of": rehearsal_of} | {
        "hiding": sorted(map(list, hiding))
    }


def hiding_default(plan: ConfigPlan, live: ClusterConfigs) -> frozenset[tuple[int, str]]:
    """The brokers with values of their own that hide a change of the cluster default, with the keys."""
    keys = {c.key for c in plan.changes if c.kind is ResourceKind.BROKER and c.name == CLUSTER_DEFAULT}
    return frozenset((broker, key) for broker, own in live.own.items() for key in keys & own.keys())


def change_data(change: SettingChange) -> dict[str, Any]:
    """A change as data of a line."""
    return {"kind": change.kind.value, "name": change.name, "key": change.key} | {
        "before": change.before,
        "after": change.after,
    }


def fold(state: RolloutState | None, line: RolloutLine) -> RolloutState:
    """Take one more line into account."""
    if (state is None) != (line.what is RolloutWord.OPEN):
        raise ValueError("a journal begins with its plan, and has one")
    if state is None:
        return RolloutState(
            plan=read_data(line.data["plan"], ConfigPlan),
            watch=read_data(line.data["watch"], WatchSettings),
            by=str(line.data["by"]),
            rehearsal_of=str(line.data.get("rehearsal_of", "")),
            began_at=line.time,
            hiding=_read_hiding(line.data.get("hiding")),
        )
    if line.kind is RecordKind.INTENT:
        return _add_intent(state, line)
    if line.kind is RecordKind.EFFECT:
        return state
    return _CHECKS[line.what](state, line)


def _read_hiding(rows: Any) -> frozenset[tuple[int, str]] | None:
    return None if rows is None else frozenset((int(broker), str(key)) for broker, key in rows)


def _add_intent(state: RolloutState, line: RolloutLine) -> RolloutState:
    touched = {t.key: t for t in state.touched}
    writes = list(state.writes)
    for body in line.data["changes"]:
        change: SettingChange = read_data(body, SettingChange)
        writes.append((line.time, change))
        key = ConfigKey(change.kind, change.name, change.key)
        known = touched.get(key)
        if known is None:
            known = TouchedSetting(
                key=key, original=change.before, ours=frozenset(), restart=line.what is RolloutWord.RESTART
            )
        touched[key] = replace(known, ours=known.ours | {change.after})
    return replace(state, touched=tuple(touched.values()), writes=tuple(writes))


def with_lost_lines(state: RolloutState) -> RolloutState:
    """The state where lines are lost: whatever the plan sets may have been set."""
    touched = {t.key: t for t in state.touched}
    for step in state.plan.steps:
        for change in step.changes:
            key = ConfigKey(change.kind, change.name, change.key)
            known = touched.get(key)
            if known is None:
                known = TouchedSetting(key=key, original=change.before, ours=frozenset(), restart=step.restart)
            touched[key] = replace(known, ours=known.ours | {change.after})
    return replace(state, touched=tuple(touched.values()), end=None)


def _add_end(state: RolloutState, line: RolloutLine) -> RolloutState:
    left = tuple(str(each) for each in line.data.get("left", ()))
    return replace(state, end=RolloutEnd(line.data["end"]), left=left, ended_at=line.time)


_CHECKS: Mapping[RolloutWord, Callable[[RolloutState, RolloutLine], RolloutState]] = {
    RolloutWord.BASELINE: lambda state, line: replace(
        state, baseline={Signal(name): tuple(map(float, values)) for name, values in line.data["values"].items()}
    ),
    RolloutWord.SALVAGED: lambda state, _: with_lost_lines(state),
    RolloutWord.PASSED: lambda state, line: replace(state, passed=(*state.passed, int(line.data["step"]))),
    RolloutWord.BACK: lambda state, line: replace(
        state, is_back=True, end=None, reasons=tuple(map(str, line.data["reasons"]))
    ),
    RolloutWord.END: _add_end,
}

GONE = "the topic is gone, or the broker does not answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoPlan:
    """The changes that take a rollout back, in order, and what is left, with why."""

    changes: tuple[SettingChange, ...] = ()
    left: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """All of it for people."""
        taken = (
            f"{c.where} {c.key}: {show_value(c.key, c.before)} -> {show_value(c.key, c.after)}" for c in self.changes
        )
        return (*taken, *(f"left: {each}" for each in self.left))


def plan_undo(touched: Iterable[TouchedSetting], live: ClusterConfigs) -> UndoPlan:
    """Compare what a rollout wrote with what is set now; the last setting first, as it is done."""
    changes: list[SettingChange] = []
    left: list[str] = []
    for each in reversed(tuple(touched)):
        kind, name, key = each.key
        if not _is_there(kind, name, live):
            left.append(f"{where_of(kind, name)} {key}: {GONE}")
            continue
        value = live.value(kind, name, key)
        if not each.is_ours(value):
            left.append(not_ours(each, value))
        elif not is_same(value, each.original):
            changes.append(SettingChange(kind=kind, name=name, key=key, before=value, after=each.original))
    return UndoPlan(changes=tuple(changes), left=tuple(left))


def not_ours(touched: TouchedSetting, value: str | None) -> str:
    """Why a setting is left as it is."""
    kind, name, key = touched.key
    return f"{where_of(kind, name)} {key} is {show_value(key, value)} by now, which is not of this rollout"


def _is_there(kind: ResourceKind, name: str, live: ClusterConfigs) -> bool:
    if kind is ResourceKind.TOPIC:
        return name in live.topics
    return name == CLUSTER_DEFAULT or int(name) in live.in_force


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack:
    """What is set now: of topics and the cluster default themselves, and what brokers run with, by layer.

    Topics that are gone and brokers that do not answer are absent.
    """

    own: Mapping[ConfigKey, str | None]
    running: Mapping[int, Mapping[str, LayeredValue]]


def describe_differences(
    steps: Sequence[PlannedStep], now: ReadBack, brokers: Iterable[int], hiding: Collection[tuple[int, str]] | None
) -> tuple[str, ...]:
    """Where a cluster has not what these steps set, in words; what is not known counts as another value.

    `brokers` are those that run with the cluster default, but where they are `hiding` it.
    """
    wanted: dict[ConfigKey, tuple[str | None, ConfigLayer]] = {}
    for step in steps:
        layer = ConfigLayer.STATIC if step.restart else ConfigLayer.DYNAMIC_BROKER
        wanted |= {ConfigKey(c.kind, c.name, c.key): (c.after, layer) for c in step.changes}
    ids = sorted(brokers)
    found: list[str] = []
    for key, (after, layer) in wanted.items():
        where = where_of(key.kind, key.name)
        if key.kind is ResourceKind.BROKER and key.name != CLUSTER_DEFAULT:
            found += _differing_on(int(key.name), key.key, after, layer, now)
        elif key not in now.own:
            found.append(f"{where} {key.key}: {GONE}")
        elif not is_same(now.own[key], after):
            found.append(_describe_change(where, key.key, now.own[key], after))
        elif key.kind is ResourceKind.BROKER:
            own = {b for b in ids if wanted.get(ConfigKey(key.kind, str(b), key.key), (None, layer))[0] is not None}
            for broker in (b for b in ids if b not in own):
                found += _differing_default(broker, key.key, after, now, hiding)
    return tuple(dict.fromkeys(found))


def passed_alone(state: RolloutState) -> tuple[PlannedStep, ...]:
    """The steps that passed, without what later steps change again: those may have been begun."""
    steps = tuple(enumerate(state.plan.steps))
    later = {ConfigKey(c.kind, c.name, c.key) for n, s in steps if n not in state.passed for c in s.changes}
    return tuple(
        replace(s, changes=tuple(c for c in s.changes if ConfigKey(c.kind, c.name, c.key) not in later))
        for n, s in steps
        if n in state.passed
    )


def _differing_on(broker: int, key: str, after: str | None, layer: ConfigLayer, now: ReadBack) -> list[str]:
    """The difference of a value that is set on the broker itself."""
    if broker not in now.running:
        return [_unknown(broker)]
    found = now.running[broker].get(key)
    value = None if found is None or found.layer is not layer else found.value
    return [] if is_same(value, after) else [_describe_change(f"broker {broker}", key, value, after)]


def _differing_default(
    broker: int, key: str, after: str | None, now: ReadBack, hiding: Collection[tuple[int, str]] | None
) -> list[str]:
    """The difference of what a broker runs with where the cluster default is set."""
    if broker not in now.running:
        return [_unknown(broker)]
    found = now.running[broker].get(key)
    is_own = found is not None and found.layer is ConfigLayer.DYNAMIC_BROKER
    if is_own and (hiding is None or (broker, key) in hiding):
        return []
    value = found.value if found is not None and (is_own or found.layer is ConfigLayer.DYNAMIC_DEFAULT) else None
    return [] if is_same(value, after) else [_describe_change(f"broker {broker}", key, value, after)]


def _describe_change(where: str, key: str, value: str | None, after: str | None) -> str:
    was = "removed" if after is None else f"set to {show_value(key, after)}"
    return f"{where} {key} is {show_value(key, value)}, and was {was}: another process changed it"


def _unknown(broker: int) -> str:
    return f"broker {broker} does not answer, so that what it runs with is not known"


GAUGES = frozenset({Signal.OFFLINE, Signal.UNDER_MIN_ISR, Signal.UNDER_REPLICATED})
EVENTS = frozenset({Signal.SHRINKS, Signal.EXPANDS, Signal.LEADER_CHANGES, Signal.CLIENT_ERRORS})


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLook:
    """One look: the signals that were told, events since the look before; `problem` says why some are missing."""

    at_ms: int
    values: Mapping[Signal, float] = field(default_factory=dict)
    problem: str = ""
    worst: tuple[str, ...] = ()
    """Partitions that are offline or under min ISR, a few of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """The partitions of a cluster at one moment, and how many copies of each topic must be in sync.

    With `stops_above_replicas` that is so where there are fewer copies as well, as up to Kafka 3.6.
    """

    at_ms: int
    states: Mapping[TopicPartition, PartitionState]
    min_isr: Mapping[str, int]
    answer_ms: float
    stops_above_replicas: bool = False

    def is_under_min_isr(self, key: TopicPartition) -> bool:
        """True where a write with acks=all fails because too few copies are in sync."""
        state, least = self.states[key], self.min_isr.get(key.topic, 1)
        return len(state.isr) < least_in_sync(least, len(state.replicas), stops=self.stops_above_replicas)


def look_between(before: PartitionView | None, now: PartitionView) -> HealthLook:
    """What the partitions show now, and what happened since the view before; O(partitions).

    Copies that come and go between two views are not seen.
    """
    offline = [key for key, s in now.states.items() if s.leader is None]
    under = [key for key, s in now.states.items() if s.leader is not None and now.is_under_min_isr(key)]
    lacking = sum(1 for s in now.states.values() if not set(s.replicas) <= set(s.isr))
    values: dict[Signal, float] = {
        Signal.OFFLINE: len(offline),
        Signal.UNDER_MIN_ISR: len(under),
        Signal.UNDER_REPLICATED: lacking,
        Signal.METADATA_MS: now.answer_ms,
    }
    if before is not None:
        both = [(before.states[key], s) for key, s in now.states.items() if key in before.states]
        values |= {
            Signal.SHRINKS: sum(len(set(old.isr) - set(new.isr)) for old, new in both),
            Signal.EXPANDS: sum(len(set(new.isr) - set(old.isr)) for old, new in both),
            Signal.LEADER_CHANGES: sum(1 for old, new in both if new.leader not in (old.leader, None)),
        }
    return HealthLook(at_ms=now.at_ms, values=values, worst=tuple(str(key) for key in (*offline, *under)[:8]))


def join_looks(of_brokers: HealthLook, *others: HealthLook | None) -> HealthLook:
    """One look from all sources; what a metrics service tells counts before what the brokers tell."""
    found = of_brokers
    for other in others:
        if other is not None:
            problem = "; ".join(filter(None, (found.problem, other.problem)))
            found = replace(found, values={**found.values, **other.values}, problem=problem)
    return found


def lag_look(
    at_ms: int,
    commits: Mapping[str, Mapping[TopicPartition, int]],
    ends: Mapping[TopicPartition, int],
    problems: Sequence[str] = (),
) -> HealthLook:
    """The lag of groups in records, by what they committed and the ends of the logs; none where one is not known."""
    said = [*problems, *(f"group {group} has committed nothing" for group, offsets in commits.items() if not offsets)]
    keys = sorted({key for offsets in commits.values() for key in offsets} - ends.keys())
    said += [f"the end of {key} is not known" for key in keys[:1]]
    if said:
        return HealthLook(at_ms=at_ms, problem="; ".join(said))
    lag = sum(max(0, ends[key] - offset) for offsets in commits.values() for key, offset in offsets.items())
    return HealthLook(at_ms=at_ms, values={Signal.LAG: lag})


def looks_in(window_s: float, every_s: float) -> int:
    """How many looks a window has."""
    return max(2, round(window_s / every_s))


def series(looks: Sequence[HealthLook], signal: Signal) -> tuple[float, ...]:
    """The values of one signal, in order of the looks that have it."""
    return tuple(look.values[signal] for look in looks if signal in look.values)


CUT_OFF = 3.5
MAD_TO_DEVIATION = 1.4826
LEAST_EVENT_DEVIATION = 1.0
"""Events a window: with none before, up to three are within the limit."""
LEAST_RISE: Mapping[Signal, tuple[float, float]] = {
    Signal.REQUEST_MS: (0.25, 5.0),
    # One answer to one client says less: a busy machine doubles it.
    Signal.METADATA_MS: (1.0, 250.0),
    # Between two commits of a group as much is behind as is written meanwhile.
    Signal.LAG: (1.0, 1000.0),
}
"""Of times and lag: the least share of the median, and the least number, by which a window must be above it."""
LEAST_ANSWERS = 5
"""Answers to one client on either side: the median of two or three is that of one pause of the machine."""
CONFIRMED_BY = 2
"""Looks in a row that show a gauge above its limit: one alone may be a broker that starts."""
MOST_SILENT = 3
"""Looks in a row without a signal that the baseline has."""
Baseline = Mapping[Signal, tuple[float, ...]]


class WindowHealth(StrEnum):
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

    health: WindowHealth
    reasons: tuple[str, ...] = ()
    rows: tuple[SignalRow, ...] = ()
    looks: int = 0

    @property
    def is_bad(self) -> bool:
        """True where values are to be taken back: a window that says nothing counts as bad."""
        return self.health in (WindowHealth.BAD, WindowHealth.UNKNOWN)


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
        return HealthVerdict(health=WindowHealth.BAD, reasons=bad, rows=rows, looks=len(looks))
    if silent:
        why = next((look.problem for look in reversed(looks) if look.problem), "no reason is known")
        said = f"{MOST_SILENT} looks in a row without {', '.join(s.label for s in silent)}: {why}"
        return HealthVerdict(health=WindowHealth.UNKNOWN, reasons=(said,), rows=rows, looks=len(looks))
    if len(looks) < window:
        return HealthVerdict(health=WindowHealth.OPEN, rows=rows, looks=len(looks))
    few = [s.label for s in baseline if 2 * len(series(looks, s)) < window]
    if few:
        said = f"too few values of {', '.join(few)} to judge"
        return HealthVerdict(health=WindowHealth.UNKNOWN, reasons=(said,), rows=rows, looks=len(looks))
    return HealthVerdict(health=WindowHealth.GOOD, rows=rows, looks=len(looks))


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
    label, number = row.signal.label, row.signal.number
    return f"{label}: {number(row.seen)}{which}, usual {number(row.usual)}, limit {number(row.limit)}"


def _deviation(values: Sequence[float], middle: float) -> float:
    return MAD_TO_DEVIATION * median(abs(value - middle) for value in values)


_RATE = "sum(rate({}{{SELECTOR}}[WINDOW]))"
_OF_ALL = 'sum(rate({}{{topic=""ALSO}}[WINDOW]))'
_MANAGER, _TOPICS = "kafka_server_replicamanager_", "kafka_server_brokertopicmetrics_"
PROMETHEUS: Mapping[Signal, str] = {
    Signal.SHRINKS: _RATE.format(f"{_MANAGER}isrshrinks_total"),
    Signal.EXPANDS: _RATE.format(f"{_MANAGER}isrexpands_total"),
    Signal.LEADER_CHANGES: _RATE.format("kafka_controller_controllerstats_leaderelectionrateandtimems_count"),
    Signal.CLIENT_ERRORS: f"{_OF_ALL.format(f'{_TOPICS}failedproducerequests_total')} + "
    f"{_OF_ALL.format(f'{_TOPICS}failedfetchrequests_total')}",
    Signal.REQUEST_MS: 'max(kafka_network_requestmetrics_totaltimems{request="Produce",quantile="0.99"ALSO})',
}
"""PromQL for the names of Kafka's example rules of the JMX exporter; of events their rate a second."""
DATADOG: Mapping[Signal, str] = {
    Signal.SHRINKS: "sum:kafka.replication.isr_shrinks.rate{SELECTOR}",
    Signal.EXPANDS: "sum:kafka.replication.isr_expands.rate{SELECTOR}",
    Signal.LEADER_CHANGES: "sum:kafka.replication.leader_elections.rate{SELECTOR}",
    Signal.CLIENT_ERRORS: "sum:kafka.request.produce.failed.rate{SELECTOR} + "
    "sum:kafka.request.fetch.failed.rate{SELECTOR}",
    Signal.REQUEST_MS: "max:kafka.request.produce.time.99percentile{SELECTOR}",
}
"""Metrics of Datadog's integration for Kafka brokers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthQueries:
    """Queries by signal, each with one series; events are rates a second, counted over the time between looks."""

    texts: Mapping[Signal, str]
    every_s: float
    stale_s: float
    """A sample that is older counts as missing."""


def prometheus_queries(selector: str, every_s: float) -> HealthQueries:
    """Those of a Prometheus server; `selector` are matchers, such as `namespace="kafka"`."""
    # A rate needs two scrapes, which are often 30 s or a minute apart.
    window_s = max(60, math.ceil(2 * every_s))
    also = f",{selector}" if selector else ""
    texts = {
        s: text.replace("SELECTOR", selector).replace("ALSO", also).replace("WINDOW", f"{window_s}s")
        for s, text in PROMETHEUS.items()
    }
    return HealthQueries(texts=texts, every_s=every_s, stale_s=window_s + every_s)


def datadog_queries(tags: str, every_s: float) -> HealthQueries:
    """Those of Datadog; `tags` choose the cluster, such as `kafka_cluster:prod`."""
    rollup = max(20, math.ceil(every_s))
    texts = {
        s: " + ".join(f"{part}.rollup(avg, {rollup})" for part in text.replace("SELECTOR", tags or "*").split(" + "))
        for s, text in DATADOG.items()
    }
    return HealthQueries(texts=texts, every_s=every_s, stale_s=3 * rollup + every_s)


def look_of(
    answers: Mapping[Signal, tuple[MetricSample, ...]],
    queries: HealthQueries,
    at: datetime,
    problems: tuple[str, ...] = (),
) -> HealthLook:
    """The answers as one look; series without a number and samples that are too old are left out and named."""
    values: dict[Signal, float] = {}
    said = list(problems)
    for signal, samples in answers.items():
        numbers = [s for s in samples if math.isfinite(s.value)]
        fresh = [s for s in numbers if at - s.time <= timedelta(seconds=queries.stale_s)]
        if not fresh:
            said.append(f"{signal.label}: {'the newest sample is too old' if numbers else 'no series'}")
            continue
        total = sum(s.value for s in fresh)
        values[signal] = total * queries.every_s if signal in EVENTS else max(s.value for s in fresh)
    return HealthLook(at_ms=epoch_ms(at), values=values, problem="; ".join(said))
