"""The state of a run, from what lies in its folder and from whether its driver runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from kafkakit.audit.decide.launch import Backend
from kafkakit.core.documents import DocumentKind
from kafkakit.core.errors import ExitCode
from kafkakit.core.findings import FailOn, Severity
from kafkakit.core.fleet_tables import JobResult
from kafkakit.core.lease import Holder, Life
from kafkakit.core.quantities import counted

LOG, STATE = "driver.log", "state.json"
_ORDER = tuple(Severity)


class RunPhase(StrEnum):
    """Where a run is; only `done` and `failed` with results have anything to read."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    SUBMITTED = "submitted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What `state.json` holds: who runs it since when, and how it was ended from outside."""

    run: str
    backend: Backend
    started_ms: int
    driver: Holder | None = None
    stopped: str = ""


RUN_DOCUMENT = DocumentKind("audit-run", RunRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """Where a run is, why, and what each job gave as far as that is known."""

    run: str
    location: str
    phase: RunPhase
    reason: str = ""
    results: tuple[JobResult, ...] = ()
    started_ms: int | None = None

    def exit_code(self, fail_on: FailOn) -> ExitCode:
        """0 done without findings to fail on, 75 while it runs, else 1."""
        if self.phase in (RunPhase.RUNNING, RunPhase.SUBMITTED, RunPhase.UNKNOWN):
            return ExitCode.TRY_LATER
        is_good = self.phase is RunPhase.DONE and not fails_on(self.results, fail_on)
        return ExitCode.DONE if is_good else ExitCode.FAILED


def fails_on(results: Sequence[JobResult], fail_on: FailOn) -> bool:
    """True when a job failed, or found something of that severity or worse."""
    if any(result.error for result in results):
        return True
    worst = _ORDER[: 0 if fail_on is FailOn.NEVER else _ORDER.index(Severity(fail_on.value)) + 1]
    return any(result.findings.get(severity.value) for result in results for severity in worst)


def state_of(
    location: str,
    run: str,
    results: tuple[JobResult, ...] | None,
    record: RunRecord | None,
    life: Life | None,
    log_tail: Sequence[str] = (),
) -> RunState:
    """The state of a run; `results` are those of its summary, None while there is none.

    The summary is what makes a run whole: without it a driver that has ended has failed, whatever it wrote.
    """
    started = record.started_ms if record is not None else None
    if results is not None:
        failed = [result.job for result in results if result.error]
        reason = f"{counted(len(failed), 'job')} failed: {', '.join(failed)}" if failed else ""
        phase, found = RunPhase.FAILED if failed else RunPhase.DONE, results
    else:
        (phase, reason), found = _unfinished(record, life, log_tail), ()
    return RunState(run=run, location=location, phase=phase, reason=reason, results=found, started_ms=started)


def _unfinished(record: RunRecord | None, life: Life | None, tail: Sequence[str]) -> tuple[RunPhase, str]:
    if record is None or record.driver is None:
        return RunPhase.SUBMITTED, "no driver was started from here; its result is not there yet"
    if life is Life.ALIVE:
        return RunPhase.RUNNING, tail[-1] if tail else "starting"
    if record.stopped:
        return RunPhase.STOPPED, record.stopped
    if life is Life.UNKNOWN:
        return RunPhase.UNKNOWN, f"its driver was started on {record.driver.host}: ask there"
    last = f"; the log ends: {' | '.join(tail)}" if tail else ""
    return RunPhase.FAILED, f"the driver (process {record.driver.pid}) ended without a result{last}"
