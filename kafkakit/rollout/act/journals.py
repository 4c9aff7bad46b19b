"""The journals of rollouts: one file a rollout, below the state folder."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from kafkakit.core.errors import InputError, RefusedError, UsageError
from kafkakit.core.journal_lines import RecordKind
from kafkakit.execution.act.journal_file import DiskFile, LineFile
from kafkakit.execution.act.line_journal import LineJournal
from kafkakit.ports.clock import Clock
from kafkakit.rollout.decide.health import HealthLook
from kafkakit.rollout.decide.journal import (
    GRAMMAR,
    RolloutEnd,
    RolloutState,
    RolloutWord,
    WatchSettings,
    change_data,
    fold,
    opening,
)
from kafkakit.rollout.decide.plan import ConfigPlan
from kafkakit.rollout.decide.settings import SettingChange
from kafkakit.rollout.decide.verdict import HealthVerdict, baseline_of

SUFFIX = ".journal"
HINT = "kafkakit config history lists them"


class RolloutJournal(LineJournal[RolloutWord, RolloutState | None]):
    """One rollout's journal, open for writing."""

    def __init__(self, file: LineFile, clock: Clock) -> None:
        super().__init__(file, clock, GRAMMAR, fold, None)

    @property
    def rollout(self) -> RolloutState:
        """What the lines mean; the journal has begun."""
        if self.state is None:
            raise InputError(self.name, "holds no rollout: it was stopped before its first line was written")
        return self.state

    def begin(self, plan: ConfigPlan, watch: WatchSettings, by: str, rehearsal_of: str = "") -> None:
        """Record the plan; the first line."""
        self.check(RolloutWord.OPEN, opening(plan, watch, by, rehearsal_of))

    def intend(self, word: RolloutWord, changes: Iterable[SettingChange]) -> int:
        """Record what is about to be written; returns the number that `answered` refers to."""
        return self.intent(word, {"changes": [change_data(c) for c in changes]})

    def answered(self, intent: int, word: RolloutWord, errors: Sequence[str]) -> None:
        """Record what came of it."""
        self._write(RecordKind.EFFECT, word, {"errors": list(errors)}, intent)

    def usual(self, looks: Sequence[HealthLook]) -> None:
        """Record what was usual before the first step."""
        values = {signal.value: list(series) for signal, series in baseline_of(looks).items()}
        self.check(RolloutWord.BASELINE, {"values": values})

    def passed(self, step: int, verdict: HealthVerdict) -> None:
        """Record that a step was watched and found good."""
        rows = [[r.signal.value, r.seen, r.usual, r.limit] for r in verdict.rows]
        self.check(RolloutWord.PASSED, {"step": step, "looks": verdict.looks, "signals": rows})

    def turn_back(self, reasons: Sequence[str]) -> None:
        """Record that from now on values are taken back, and why."""
        self.check(RolloutWord.BACK, {"reasons": list(reasons)})

    def ended(self, end: RolloutEnd, left: Sequence[str] = ()) -> None:
        """Record how it ended."""
        self.check(RolloutWord.END, {"end": end.value, "left": list(left)})


class RolloutJournals:
    """The rollouts of one cluster on this host."""

    def __init__(self, state_dir: Path, cluster_id: str, clock: Clock) -> None:
        self._folder, self._clock = state_dir / "config-rollouts" / cluster_id, clock

    def of_plan(self, plan: ConfigPlan) -> RolloutJournal:
        """The journal of a plan's rollout: a new one, or the one that is open.

        Raises `RefusedError` while the rollout of another plan is open. A plan whose rollout ended can be rolled out
        again: its values are compared first.
        """
        for path, state in self.states():
            if state.end is None and state.plan.hash != plan.hash:
                raise RefusedError(
                    f"rollout {path.stem} is {state.words}", hint="kafkakit config resume | abort, then again"
                )
            if state.end is None:
                return self._open(path)
        number = sum(1 for path in self._paths() if path.stem.startswith(plan.run_id))
        name = plan.run_id if number == 0 else f"{plan.run_id}.{number}"
        return self._open(self._folder / f"{name}{SUFFIX}")

    def named(self, name: str) -> RolloutJournal:
        """The rollout of that id; `UsageError` when there is none."""
        for path in self._paths():
            if path.stem == name:
                return self._open(path)
        raise UsageError(f"there is no rollout {name!r:.60} of this cluster on this host", hint=HINT)

    def only_open(self) -> RolloutJournal:
        """The rollout that is open; `UsageError` when there is none."""
        for path, state in self.states():
            if state.end is None:
                return self._open(path)
        raise UsageError("no rollout of this cluster is open on this host", hint=HINT)

    def last_applied(self) -> RolloutJournal:
        """The newest rollout whose values are in force; `UsageError` when there is none."""
        for path, state in reversed(self.states()):
            if state.end in (RolloutEnd.APPLIED, RolloutEnd.INCOMPLETE):
                return self._open(path)
        raise UsageError("no rollout of this cluster can be rolled back", hint=HINT)

    def states(self) -> tuple[tuple[Path, RolloutState], ...]:
        """Every rollout, oldest first; empty journals are left out. Raises `InputError` for a damaged one."""
        found = [(path, self._open(path).state) for path in self._paths()]
        begun = [(path, state) for path, state in found if state is not None]
        return tuple(sorted(begun, key=lambda item: item[1].began_at))

    def _paths(self) -> list[Path]:
        return sorted(self._folder.glob(f"*{SUFFIX}")) if self._folder.is_dir() else []

    def _open(self, path: Path) -> RolloutJournal:
        return RolloutJournal(DiskFile(path), self._clock)
