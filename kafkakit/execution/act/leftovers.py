"""Throttles that runs of other plans left on the same cluster: they must go before a new run sets its own.

Otherwise the new run would take the old run's rate for the value to restore.
"""

from collections.abc import Sequence
from shlex import quote

from kafkakit.core.errors import RefusedError
from kafkakit.execution.act.journal_file import LineFile
from kafkakit.execution.act.log_dir_moves import LogDirs
from kafkakit.execution.act.retrier import Retrier
from kafkakit.execution.act.run_journal import RunJournal, existing_journal
from kafkakit.execution.act.throttles import Throttles
from kafkakit.execution.decide.outcome import Commands
from kafkakit.execution.decide.precheck import Live
from kafkakit.execution.decide.throttle import INSIDE_RATE
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.ports.reporter import Reporter


class Leftovers:
    """The journals of this cluster's other plans whose throttles may still be set."""

    def __init__(
        self, files: Sequence[LineFile], admin: ClusterAdmin, clock: Clock, reporter: Reporter, commands: Commands
    ) -> None:
        self._admin, self._clock, self._reporter, self._commands = admin, clock, reporter, commands
        self._journals: list[RunJournal] = []
        for file in files:
            journal = existing_journal(file, clock)
            if journal.state.throttled:
                self._journals.append(journal)

    def require_idle(self, live: Live, retry_limit_s: float) -> None:
        """Raise `RefusedError` while moves of another plan still run under that plan's throttle."""
        retrier = Retrier(self._clock, self._reporter, retry_limit_s)
        for journal in self._journals:
            state = journal.state
            running: list[object] = [
                k for k, target in state.submitted.items() if k in live.running and live.running[k].target == target
            ]
            if any(k.key == INSIDE_RATE for k in state.rates):
                dirs = LogDirs(self._admin, journal, self._reporter, retrier)
                running += dirs.on_the_way(state.dirs_sent, live)
            if running:
                other = Commands(program=self._commands.program, plan=quote(state.plan_path))
                raise RefusedError(
                    f"a run of another plan is not finished: {len(running)} moves of {state.plan_path} "
                    "run under its throttle",
                    hint=f"finish it: {other.line('apply', '--yes')}; or undo it: {other.line('rollback', '--yes')}",
                )

    def lift(self, live: Live, retry_limit_s: float) -> None:
        """Take away what the others left; what cannot be removed now stays in their journals and is warned about."""
        retrier = Retrier(self._clock, self._reporter, retry_limit_s)
        for journal in self._journals:
            owed = Throttles(self._admin, self._clock, journal, self._reporter, retrier).lift(live)
            for line in owed:
                self._reporter.warn(f"left by a run of {journal.state.plan_path}: {line}")
