"""The journals of rollouts: one file a rollout, below the state folder."""

from collections.abc import Iterable, Sequence
from glob import escape
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
PROGRAM = "kafkakit"
LOST_HINT = (
    "what it set is not known any more: look for it with `kafkakit config diff`, then move the file out of its folder"
)


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

    @property
    def run(self) -> str:
        """What the rollout is called."""
        return Path(self.name).stem

    def salvage(self) -> str:
        """Record that lines are lost, and return why; whatever the plan sets counts as set from then on."""
        if damage := self.damage:
            self.check(RolloutWord.SALVAGED, {"problem": damage})
        return damage

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
    """The rollouts of one cluster on this host, or of all where `cluster_id` is None, which are only read.

    `program` begins the commands that hints print.
    """

    def __init__(self, state_dir: Path, cluster_id: str | None, clock: Clock, program: str = PROGRAM) -> None:
        self._root, self._cluster_id, self._clock, self._program = (
            state_dir / "config-rollouts", cluster_id, clock, program
        )  # fmt: skip

    def of_plan(self, plan: ConfigPlan) -> RolloutJournal:
        """The journal of a plan's rollout: a new one, or the one that is open.

        Raises `RefusedError` while the rollout of another plan is open. A plan whose rollout ended can be rolled out
        again: its values are compared first.
        """
        for path, state in self.states():
            if state.end is None and state.plan.hash != plan.hash:
                raise self._is_open(path.stem, state)
            if state.end is None:
                return self._open(path)
        number = sum(1 for path in self._paths() if path.stem.startswith(plan.run_id))
        name = plan.run_id if number == 0 else f"{plan.run_id}.{number}"
        return self._open(self._root / (self._cluster_id or plan.cluster_id) / f"{name}{SUFFIX}")

    def named(self, name: str) -> RolloutJournal:
        """The rollout of that id; `UsageError` when there is none."""
        for path in self._paths():
            if path.stem == name:
                return self._open(path)
        where = "any" if self._cluster_id is None else "this"
        raise UsageError(f"there is no rollout {name!r:.60} of {where} cluster on this host", hint=HINT)

    def only_open(self) -> RolloutJournal:
        """The rollout that is open; `UsageError` when there is none."""
        for path, state in self.states():
            if state.end is None:
                return self._open(path)
        raise UsageError("no rollout of this cluster is open on this host", hint=HINT)

    def to_roll_back(self, name: str | None) -> RolloutJournal:
        """The rollout of that id, or the newest whose values are in force; `UsageError` when there is none.

        Raises `RefusedError` while another one is open, as one is whose rollback was cut.
        """
        for path, state in self.states():
            if state.end is None and path.stem != name:
                raise self._is_open(path.stem, state)
        return self.last_applied() if name is None else self.named(name)

    def to_abort(self, name: str | None) -> RolloutJournal:
        """The open rollout, or the one of that id; `RefusedError` for one that was applied."""
        found = self.only_open() if name is None else self.named(name)
        if found.rollout.end in (RolloutEnd.APPLIED, RolloutEnd.INCOMPLETE):
            raise RefusedError(
                f"rollout {found.run} is {found.rollout.words}, not open",
                hint=f"to take it back:\n{self._program} config rollback {found.run}",
            )
        return found

    def _is_open(self, name: str, state: RolloutState) -> RefusedError:
        lines = (f"{self._program} config {word} --yes" for word in ("resume", "abort"))
        return RefusedError(
            f"rollout {name} is {state.words}", hint="\n".join(("finish it, or take it back, first:", *lines))
        )

    def last_applied(self) -> RolloutJournal:
        """The newest rollout whose values are in force; `UsageError` when there is none."""
        for path, state in reversed(self.states()):
            if state.end in (RolloutEnd.APPLIED, RolloutEnd.INCOMPLETE):
                return self._open(path)
        raise UsageError("no rollout of this cluster can be rolled back", hint=HINT)

    def states(self) -> tuple[tuple[Path, RolloutState], ...]:
        """Every rollout, oldest first; empty journals are left out.

        Of a damaged journal the sound beginning counts. Raises `InputError` where nothing of it is sound.
        """
        found = [(path, self._open(path)) for path in self._paths()]
        for _, journal in found:
            if journal.state is None and journal.damage:
                raise InputError(journal.name, "its first line cannot be read", hint=LOST_HINT)
        begun = [(path, journal.state) for path, journal in found if journal.state is not None]
        return tuple(sorted(begun, key=lambda item: item[1].began_at))

    def damages(self) -> tuple[str, ...]:
        """What is wrong with journals."""
        return tuple(damage for path in self._paths() if (damage := self._open(path).damage))

    def _paths(self) -> list[Path]:
        return sorted(self._root.glob(f"{'*' if self._cluster_id is None else escape(self._cluster_id)}/*{SUFFIX}"))

    def _open(self, path: Path) -> RolloutJournal:
        return RolloutJournal(DiskFile(path), self._clock)
