"""Errors and exit codes: every failure carries facts, a hint and the code that the process exits with."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every command; the table in README.md is tested against this one."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    CHANGES = 3
    INFEASIBLE = 4
    TRY_LATER = 75
    INTERRUPTED = 130
    TERMINATED = 143


EXIT_CODE_MEANING: dict[ExitCode, str] = {
    ExitCode.DONE: "done; nothing to do; no findings at or above the threshold",
    ExitCode.FAILED: "the operation failed, or any item of it failed; findings at or above the threshold",
    ExitCode.USAGE: "wrong usage, configuration or input; a name that does not exist; a refused login; no confirmation",
    ExitCode.CHANGES: "only with --exit-code: the plan contains changes",
    ExitCode.INFEASIBLE: "infeasible: no plan satisfies the request (the message names what to add)",
    ExitCode.TRY_LATER: "try again later: cluster unreachable, lock held elsewhere, data too old",
    ExitCode.INTERRUPTED: "interrupted by SIGINT (Ctrl-C)",
    ExitCode.TERMINATED: "terminated by SIGTERM",
}


class KafkakitError(Exception):
    """A failure told in one line, with an optional hint on what to do next.

    `message` holds the facts in one sentence without a final full stop; `hint` is a sentence or a
    command for the operator. The class decides the exit code.
    """

    exit_code: ExitCode = ExitCode.FAILED
    lines: tuple[str, ...] = ()
    """What is shown above the message, such as the place in a text that cannot be read."""
    reason: str = ""
    """A word for programs, where one condition is to be told from others of the same exit code."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class OperationFailedError(KafkakitError):
    """Something was tried and did not succeed, or succeeded only in part (exit 1)."""


class MissingRightError(OperationFailedError):
    """The caller lacks a right; `hint` says which."""


class TooOldError(OperationFailedError):
    """Kafka does not know the request (exit 1)."""


class StoreFailedError(OperationFailedError):
    """A store takes no more, such as a full disk (exit 1): what follows would fail alike."""


class UsageError(KafkakitError):
    """The request, the configuration or the confirmation is missing or wrong (exit 2)."""

    exit_code = ExitCode.USAGE


class InputError(UsageError):
    """A file or other input cannot be used (exit 2): `source` names it, `problem` says what is wrong."""

    def __init__(self, source: str, problem: str, *, hint: str | None = None) -> None:
        super().__init__(f"{source}: {problem}", hint=hint)
        self.source = source
        self.problem = problem


class MissingExtraError(UsageError):
    """A feature needs a package of an extra that is not installed (exit 2)."""

    def __init__(self, feature: str, extra: str, package: str) -> None:
        super().__init__(
            f"{feature} requires the package {package}, which is not installed",
            hint=f"install it with: pip install 'kafkakit[{extra}]'",
        )
        self.extra = extra


class RefusedError(UsageError):
    """A safety check refuses to act: another cluster, a changed cluster, no confirmation (exit 2)."""


class InfeasibleError(KafkakitError):
    """No plan satisfies the request (exit 4); `reasons` are facts, one a line, sorted."""

    exit_code = ExitCode.INFEASIBLE

    def __init__(self, message: str, *, reasons: tuple[str, ...] = (), hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.reasons = reasons


class TryLaterError(KafkakitError):
    """Nothing is wrong with the request, but it cannot be served now (exit 75)."""

    exit_code = ExitCode.TRY_LATER


class ConnectRefusedError(TryLaterError):
    """The cluster answers, but not to these settings: protocol, mechanism, certificate, login (exit 2).

    A `TryLaterError` for what runs for long: certificates and passwords are renewed, and it is to go on then.
    """

    exit_code = ExitCode.USAGE
    reason = "connect-refused"


class ConflictError(KafkakitError):
    """A document in a control store is not at the version that was expected; nothing was written (exit 75).

    No `TryLaterError`: after that one it is unknown whether a write happened, after this one it is known.
    """

    exit_code = ExitCode.TRY_LATER
    reason = "conflict"


class LeaseHeldError(TryLaterError):
    """Another process has the right to change the cluster."""

    reason = "lease-held"


class LeaseUnknownError(TryLaterError):
    """The control store does not answer, so it is not known whether another process holds the lease."""

    reason = "lease-unknown"


class LeaseLostError(TryLaterError):
    """The right to act was lost or could not be confirmed in time: stop before the next effect (exit 75)."""

    reason = "lease-lost"


class InterruptedRunError(KafkakitError):
    """The run was stopped by SIGINT; the hint holds the command that resumes (exit 130)."""

    exit_code = ExitCode.INTERRUPTED


class TerminatedRunError(KafkakitError):
    """The run was stopped by SIGTERM; the hint holds the command that resumes (exit 143)."""

    exit_code = ExitCode.TERMINATED


class StopRequested(KeyboardInterrupt):
    """A stop that is not Ctrl-C, raised in the main thread so that `finally` blocks run; the class gives the exit code.

    It is a `KeyboardInterrupt`, so that code which handles Ctrl-C handles it alike.
    """

    exit_code: ExitCode = ExitCode.TERMINATED
    signal_name: str = "SIGTERM"


class TerminationRequested(StopRequested):
    """SIGTERM or SIGHUP arrived (exit 143)."""


class DeadlineReached(StopRequested):
    """The time given by `--timeout` is over (exit 75)."""

    exit_code = ExitCode.TRY_LATER


def stopped_run(stop: KeyboardInterrupt, words: str, hint: str | None = None) -> KafkakitError:
    """What ends a run that a stop ended; `hint` is for Ctrl-C."""
    if isinstance(stop, TerminationRequested):
        return TerminatedRunError(f"terminated; {words}")
    if isinstance(stop, StopRequested):
        return TryLaterError(f"stopped at the time limit; {words}")
    return InterruptedRunError(f"interrupted; {words}", hint=hint)


class ServiceStoppedError(TerminatedRunError):
    """A service was stopped by a signal, as is usual: not a failure, and said at level info (exit 143, Ctrl-C 130)."""

    def __init__(self, stop: KeyboardInterrupt, note: str = "") -> None:
        is_signal = isinstance(stop, StopRequested)
        name = stop.signal_name if isinstance(stop, StopRequested) else "SIGINT"
        super().__init__(f"stopped ({name}); {note}" if note else f"stopped ({name})")
        self.signal_name = name
        self.exit_code = ExitCode.TERMINATED if is_signal else ExitCode.INTERRUPTED


@contextmanager
def ended_by_stop(end: Callable[[], str] = str, notify: Callable[[str], object] = str) -> Iterator[None]:
    """A service's work: SIGTERM and Ctrl-C end it with `ServiceStoppedError`, the time limit is passed on.

    `notify` tells the service manager that it stops; `end` does what a stop still needs, and says what stays behind.
    """
    try:
        yield
    except DeadlineReached:
        raise
    except KeyboardInterrupt as stop:
        notify("STOPPING=1")
        raise ServiceStoppedError(stop, end()) from None
