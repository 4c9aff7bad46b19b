"""What a run is asked to do, whom it talks to, and what came out."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from kafkakit.reassign.goals import DEFAULT_BATCH
from kafkakit.reassign.verdict import PartitionVerdict


class Direction(StrEnum):
    """Carry the plan out, undo it, or only look."""

    APPLY = "apply"
    ROLLBACK = "rollback"
    VERIFY = "verify"


class ProgressBar(Protocol):
    """Where a phase stands."""

    def update(self, done: float, total: float, note: str = "") -> None:
        """Show `done` of `total`, with a few words."""
        ...


class Voice(Protocol):
    """Speaks to the person at the terminal; nothing said here is the result."""

    def say(self, line: str) -> None:
        """Tell a fact."""
        ...

    def warn(self, line: str) -> None:
        """Tell a fact that needs attention."""
        ...

    def progress(self, label: str) -> AbstractContextManager[ProgressBar]:
        """Show progress while the block runs."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Command lines to paste, for hints: the program with its connection options, and the plan file, quoted.

    `run_options` are those given to this run that a next run of the plan needs as well.
    """

    program: str
    plan: str
    run_options: tuple[str, ...] = ()

    def line(self, verb: str, *options: str) -> str:
        """`kafkakit ... reassign VERB PLAN OPTIONS`."""
        return " ".join([self.program, "reassign", verb, self.plan, *options])

    def run(self, direction: Direction, *options: str) -> str:
        """The line that runs the plan in that direction, unasked."""
        return self.line(direction.value, "--yes", *self.run_options, *options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """How to run; `rate` in bytes/s a broker, None = keep the throttle of an interrupted run (or none)."""

    commands: Commands
    plan_path: str
    confirm: Callable[[], bool]
    pinned_cluster_id: str | None = None
    rate: int | None = None
    throttle_off: bool = False
    batch_size: int = DEFAULT_BATCH
    allow_drift: bool = False
    dry_run: bool = False
    stall_timeout_s: float = 300.0
    patience_s: float = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run came to.

    `verdict` is one of `applied`, `already applied`, `rolled back`, `nothing to roll back`, `planned` (dry
    run), `declined`, `incomplete`; from `verify`: `complete`, `incomplete`. `owed` names throttles of ours
    that could not be removed. `dirs_moved` counts copies that changed their log dir inside a broker.
    """

    direction: Direction
    verdict: str
    partitions: tuple[PartitionVerdict, ...]
    problems: tuple[str, ...] = ()
    owed: tuple[str, ...] = ()
    submitted: int = 0
    copied_bytes: int = 0
    dirs_moved: int = 0
    seconds: float = 0.0
    rate: int | None = None
    next_commands: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True when the command may exit with 0."""
        return not self.problems and not self.owed
