"""Throttles that runs of other plans, or a pacer, left on a cluster: they must go before a new run sets its own.

Otherwise the new run would take the old run's rate for the value to restore.
"""

from collections.abc import Iterator, Sequence

from kafkakit.core.errors import RefusedError
from kafkakit.core.quantities import counted
from kafkakit.execution.act.journal_file import DiskFile, LineFile
from kafkakit.execution.act.kept_plans import existing_journal, plan_of
from kafkakit.execution.act.log_dir_moves import LogDirs
from kafkakit.execution.act.recovery import find_lost
from kafkakit.execution.act.retrier import Retrier
from kafkakit.execution.act.run_journal import RunJournal
from kafkakit.execution.act.throttles import Throttles
from kafkakit.execution.decide.journal_state import ConfigKey, RateHold, RunState
from kafkakit.execution.decide.outcome import Commands, Direction
from kafkakit.execution.decide.precheck import Live, listed
from kafkakit.execution.decide.runs import moves_sent, moves_under
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.ports.reporter import Reporter


class Leftovers:
    """The journals of this cluster's other plans, and of its pacer, whose throttles may still be set."""

    def __init__(
        self, files: Sequence[LineFile], admin: ClusterAdmin, clock: Clock, reporter: Reporter, commands: Commands
    ) -> None:
        self._admin, self._clock, self._reporter, self._commands = admin, clock, reporter, commands
        self._all = [existing_journal(file, clock) for file in files]
        self._journals = [j for j in self._all if j.state.throttled or j.state.salvaged]
        self._plans = {
            journal.name: plan_of(file.path, journal.state)
            for file, journal in zip(files, self._all, strict=True)
            if journal.state.salvaged and isinstance(file, DiskFile)
        }

    @property
    def link_bytes_per_s(self) -> float | None:
        """The most that a broker reached in a run of another plan without throttle; None where none was measured."""
        return max((j.state.link_bytes_per_s for j in self._all if j.state.link_bytes_per_s), default=None)

    def rates(self, live: Live, retry_limit_s: float) -> frozenset[ConfigKey]:
        """The rates of brokers that runs of other plans still have set, by their journals or by their plans."""
        retrier = Retrier(self._clock, self._reporter, retry_limit_s)
        found = [key for journal in self._journals for key in journal.state.rates]
        for journal in self._journals:
            if (plan := self._plans.get(journal.name)) is not None:
                lost = find_lost(self._admin, self._clock, retrier, plan, live, journal.state, is_lost=True)
                found += lost.rates
        return frozenset(found)

    def kept(self, live: Live) -> dict[ConfigKey, RateHold]:
        """The rates under which moves of other processes run: the pacer's, which `lift` leaves as they are."""
        journals = [j for j in self._journals if moves_under(j.state, live)]
        return {key: hold for journal in journals for key, hold in journal.state.rates.items()}

    def unfinished(self, verb: str) -> str:
        """A hint with the commands for unfinished runs of other plans; empty when there are none."""
        states = [j.state for j in self._all if j.state.unsettled]
        lines = [f"{self._commands.program} reassign {verb} --run {s.run_id}" for s in states]
        return "\n".join([f"unfinished here: {listed([s.name for s in states])}:", *lines]) if states else ""

    def require_none_in_flight(self, live: Live, direction: Direction, retry_limit_s: float) -> None:
        """Raise `RefusedError` while moves that a run of another plan sent are in flight."""
        for state, running in self._running(self._all, live, retry_limit_s):
            raise RefusedError(
                f"nothing of this plan is in flight, but {counted(running, 'move')} of {state.name}",
                hint=f"{self._commands.program} reassign {direction} --run {state.run_id}",
            )

    def require_idle(self, live: Live, retry_limit_s: float) -> None:
        """Raise `RefusedError` while moves of another plan still run under that plan's throttle."""
        for state, running in self._running(self._journals, live, retry_limit_s):
            other = Commands(program=self._commands.program, plan=f"--run {state.run_id}")
            raise RefusedError(
                f"a run of another plan is not finished: {running} moves of {state.plan_path} run under its throttle",
                hint=f"finish it, or undo it:\n{other.line('resume', '--yes')}\n{other.line('rollback', '--yes')}",
            )

    def _running(
        self, journals: Sequence[RunJournal], live: Live, retry_limit_s: float
    ) -> Iterator[tuple[RunState, int]]:
        """The runs with moves in flight, and how many."""
        retrier = Retrier(self._clock, self._reporter, retry_limit_s)
        for journal in journals:
            state = journal.state
            running = len(moves_sent(state, live))
            if state.dirs_sent:
                running += len(LogDirs(self._admin, journal, self._reporter, retrier).on_the_way(state.dirs_sent, live))
            if running:
                yield state, running

    def lift(self, live: Live, retry_limit_s: float) -> None:
        """Take away what the others left; what cannot be removed now stays in their journals and is warned about.

        Throttles of the pacer stay while moves run under them.
        """
        retrier = Retrier(self._clock, self._reporter, retry_limit_s)
        for journal in self._journals:
            if moves_under(journal.state, live):
                continue
            if (plan := self._plans.get(journal.name)) is not None:
                lost = find_lost(self._admin, self._clock, retrier, plan, live, journal.state, is_lost=True)
                journal.adopt(lost, journal.state.plan_path)
            owed = Throttles(self._admin, self._clock, journal, self._reporter, retrier).lift(live)
            for line in owed:
                self._reporter.warn(f"left by {journal.state.plan_path or journal.state.fingerprint}: {line}")
