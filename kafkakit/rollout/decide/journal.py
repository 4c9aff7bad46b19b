"""The journal of a rollout: what its lines are about, and what they mean together.

Live values decide what is still to be done; a line remembers what cannot be read again: the plan, what was usual before
the first step, which values are ours, which steps were watched, and why values are taken back.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from kafkakit.core.journal_lines import Grammar, Line, RecordKind, line_data, read_data
from kafkakit.execution.decide.journal_state import ConfigKey
from kafkakit.rollout.decide.health import Signal
from kafkakit.rollout.decide.plan import ConfigPlan
from kafkakit.rollout.decide.settings import SettingChange, is_same

HEADER = {"kind": "config-rollout", "schema": 1}
DAMAGED_HINT = "values that a rollout set are still there: compare the plan with `kafkakit config diff`"


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

    `source` is the metrics service in words, empty for the brokers alone. `settle_s` bounds the wait for a broker that
    was restarted.
    """

    window_s: float
    every_s: float
    baseline_s: float
    source: str = ""
    settle_s: float = 300.0
    restart_with: str = ""


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
    writes: tuple[tuple[datetime, SettingChange], ...] = field(default=())
    """Every change that was made or may have been, in order, for the values of an earlier time."""

    @property
    def words(self) -> str:
        """Where it stands, in words."""
        if self.end is not None:
            return self.end.value
        return "being taken back" if self.is_back else f"open, {len(self.passed)} of {len(self.plan.steps)} steps"


def opening(plan: ConfigPlan, watch: WatchSettings, by: str, rehearsal_of: str = "") -> dict[str, Any]:
    """The data of the first line."""
    return {"plan": line_data(plan), "watch": line_data(watch), "by": by, "rehearsal_of": rehearsal_of}


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
        )
    if line.kind is RecordKind.INTENT:
        return _intended(state, line)
    if line.kind is RecordKind.EFFECT:
        return state
    return _CHECKS[line.what](state, line)


def _intended(state: RolloutState, line: RolloutLine) -> RolloutState:
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


def _ended(state: RolloutState, line: RolloutLine) -> RolloutState:
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
    RolloutWord.END: _ended,
}
