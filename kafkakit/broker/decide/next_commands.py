"""Command lines for hints: a plan of an operation is finished and taken back by the operation's own commands."""

from dataclasses import dataclass

from kafkakit.execution.decide.outcome import Commands, Direction


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCommands(Commands):
    """Hints of a run that is part of an operation, which `operation` continues; `undo` takes it back.

    Pausing and throttling are done by `reassign` with the plan's file, as for any run.
    """

    undo: str

    def line(self, verb: str, *options: str) -> str:
        """The line for a verb of `reassign`; what carries the plan on or back is the operation's own command."""
        if verb in ("apply", "resume", "verify"):
            return " ".join([self.operation, *options])
        if verb == Direction.ROLLBACK:
            return " ".join([self.undo, *options])
        return Commands.line(self, verb, *options)

    def run(self, direction: Direction, *options: str) -> str:
        """The line that runs the plan in that direction, unasked."""
        if direction is Direction.ABORT:
            return Commands.run(self, direction, *options)
        return self.line(direction.value, *options)
