"""What a run is asked to do, whom it talks to, and what came out."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from kafkakit.execution.decide.journal_state import Promise
from kafkakit.execution.decide.rates import RateRequest
from kafkakit.execution.decide.schedule.work import Limits, Rates
from kafkakit.execution.decide.verdict import PartitionVerdict


class Direction(StrEnum):
    """Carry the plan out, undo it, or only look."""

    APPLY = "apply"
    ROLLBACK = "rollback"
    ABORT = "abort"
    VERIFY = "verify"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """Command lines to paste, for hints: the program with its connection options, and the plan file, quoted.

    `run_options` are those given to this run that a next run of the plan needs as well, `throttle_options` its
    throttles: the journal remembers them for a run that continues, not for one that takes a finished run back.
    `operation` is the line that continues the operation on brokers that the plan is part of, if it is.
    """

    program: str
    plan: str
    run_options: tuple[str, ...] = ()
    throttle_options: tuple[str, ...] = ()
    operation: str = ""

    def line(self, verb: str, *options: str) -> str:
        """`kafkakit ... reassign VERB PLAN OPTIONS`."""
        return " ".join([self.program, "reassign", verb, self.plan, *options])

    def run(self, direction: Direction, *options: str) -> str:
        """The line that runs the plan in that direction, unasked; an abort knows none of a run's options."""
        own = () if direction is Direction.ABORT else self.run_options
        throttle = self.throttle_options if direction is Direction.ROLLBACK else ()
        return self.line(direction.value, "--yes", *own, *throttle, *options)

    def cleanup(self) -> str:
        """The line that removes throttles of the plan, whether or not its journal is whole."""
        named = self.plan if self.plan.startswith("--run ") else f"--plan {self.plan}"
        return f"{self.program} reassign cleanup {named} --yes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """How to run; `rates` is laid over the throttles of an interrupted run, `limits` are those of the schedule.

    `wait_for_others`: wait until no other process moves partitions, instead of refusing; `join`: carry on beside such
    moves, and set rates over those that another process has set. `ingest_sample_s` is how long is measured what logs
    take in (0: not at all). `note_stop_words` is told what to say, and the hint, when the process is stopped too
    suddenly for the run to look: from the first effect on, None once it is over.
    """

    commands: Commands
    plan_path: str
    confirm: Callable[[], bool]
    pinned_cluster_id: str | None = None
    rates: RateRequest = field(default_factory=RateRequest)
    limits: Limits = field(default_factory=Limits)
    wait_for_others: bool = False
    join: bool = False
    ingest_sample_s: float = 0.0
    allow_drift: bool = False
    dry_run: bool = False
    stall_timeout_s: float = 300.0
    retry_limit_s: float = 90.0
    note_stop_words: Callable[[tuple[str, str] | None], None] = lambda words: None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run came to.

    `verdict` is one of `applied`, `already applied`, `rolled back`, `nothing to roll back`, `planned` (dry
    run), `aborted`, `nothing to abort`, `declined`, `incomplete`; from `verify`: `complete`, `incomplete`. `owed`
    names throttles of ours that could not be removed. `dirs_moved` counts copies that changed their log dir inside
    a broker. `promise` is what the run said before its first byte.
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
    rates: Rates | None = None
    promise: Promise | None = None
    next_commands: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """True when the command may exit with 0."""
        return not self.problems and not self.owed
