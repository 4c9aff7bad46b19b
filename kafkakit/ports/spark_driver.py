"""What submitting a Spark job needs of the machine: an installation of Spark, the code to ship, processes."""

from contextlib import AbstractContextManager
from typing import Protocol

from kafkakit.core.lease import Holder, Life
from kafkakit.core.programs import Launch, SparkTools


class RunLock(Protocol):
    """A held lock, as an open file that a driver inherits: the run stays locked until the last of them has ended."""

    def fileno(self) -> int:
        """The descriptor of the locked file."""
        ...


class SparkDrivers(Protocol):
    """Starts, recognises and stops drivers of Spark on this host."""

    def tools(self) -> SparkTools:
        """Find Spark and Java; `MissingExtraError` or `UsageError` says what to install."""
        ...

    def code_folder(self) -> str:
        """The folder of `spark/main.py` and of the job code."""
        ...

    def write_code(self, path: str, *, whole_package: bool) -> None:
        """Write the zip that executors get: the same bytes for the same code.

        With `whole_package` all of kafkakit, else only what needs Spark, Arrow, numpy and the standard library.
        """
        ...

    def lock(self, folder: str, what: str) -> AbstractContextManager[RunLock]:
        """Take the lock of a run's folder; `TryLaterError` names the process that has it."""
        ...

    def start(self, launch: Launch, log: str, lock: RunLock, name: str) -> Holder:
        """Start a driver in a session of its own, its output appended to `log`."""
        ...

    def exit_code(self, driver: Holder) -> int | None:
        """The exit code of a driver that this object started; None while it runs, negative for a signal."""
        ...

    def life(self, driver: Holder) -> Life:
        """Whether a driver runs, as far as this host can know."""
        ...

    def stop(self, driver: Holder) -> bool:
        """Stop a driver with all its processes, after 10 s by force; False when it does not run on this host."""
        ...
