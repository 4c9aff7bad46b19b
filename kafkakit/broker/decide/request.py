"""What a command on brokers is asked to do, and whom it lets carry its plans out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kafkakit.broker.decide.operation import Kind, Leg, Operation
from kafkakit.broker.decide.plans import OperationGoal
from kafkakit.core.plan import Plan
from kafkakit.execution.decide.outcome import Direction, Outcome


class PlanRunner(Protocol):
    """Carries plans out as `reassign apply`, `abort` and `rollback` do, under their lease and with their journals."""

    def preview(self, plan: Plan, record: Operation | None) -> Outcome:
        """Every check of an apply, with its schedule said, and nothing changed; `record` is what it continues with."""
        ...

    def run(self, operation: Operation, leg: Leg, direction: Direction, *, dry_run: bool = False) -> Outcome:
        """Carry one plan of the operation out, without asking; raises what `reassign.act.Run` raises."""
        ...

    def begun(self, leg: Leg) -> bool:
        """True when the plan's journal tells of a run: it may have changed the cluster."""
        ...

    def ended(self, leg: Leg, direction: Direction) -> bool:
        """True when the plan's last run was in that direction and is complete, whichever command finished it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRequest:
    """One `drain`, `replace` or `decommission`.

    `asks`: the command asks for confirmation first. `again` is the command line that continues, `undo_of` the
    one that takes an operation back, `cleanup` the one that removes throttles which a run could not remove.
    `bootstrap` is the address for commands to paste.
    """

    kind: Kind
    goal: OperationGoal
    again: str
    undo_of: Callable[[Operation], str]
    cleanup: str
    confirm: Callable[[str], bool]
    asks: bool = True
    bootstrap: str = ""
    dry_run: bool = False
    replan: bool = False
    ignore_warns: bool = False
    retry_limit_s: float = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RejoinRequest:
    """One `rejoin`; `wait_s` is how long is waited for the brokers and their copies, each.

    `asks` says that a person is asked before anything is done.
    """

    brokers: tuple[int, ...]
    again: str
    confirm: Callable[[str], bool]
    wait_s: float
    asks: bool = True
    dry_run: bool = False
    retry_limit_s: float = 90.0
