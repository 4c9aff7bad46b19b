"""What a command on brokers came to, as text and as data."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kafkakit.broker.decide.operation import BrokerCounts, BrokerOperationKind
from kafkakit.core.errors import OperationFailedError
from kafkakit.core.quantities import count_of, format_bytes, format_rough_time
from kafkakit.core.text import few_of
from kafkakit.execution.decide.runs import RunOutcome
from kafkakit.report.report import NextCommands, Part, Remarks, Report, ResultTable, attributes

COLUMNS = ("broker", "state", "rack", "replicas", "leaders", "out_of_sync")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSummary:
    """What a plan that was made by this command comes to; `bytes` counts copies of known size."""

    partitions: int
    copies: int
    bytes: int
    leaders_first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOutcome:
    """The result of one command.

    `verdict` is one of `done`, `nothing to do`, `planned` (dry run), `declined`, `incomplete`, `not safe to stop`.
    `planned` is None where no plan was made. `brokers` are as last seen, `undo` is the command that takes the
    operation back. `steps` are left for a person. `record` is the operation's file, where it has one. The cluster has
    forgotten the `unregistered` brokers. The figures are those of this command: one that continues an operation does
    not add up what earlier ones did.
    """

    command: str
    verdict: str
    brokers: tuple[BrokerCounts, ...] = ()
    problems: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    record: str | None = None
    moves_sent: int = 0
    copied_bytes: int = 0
    leaders_passed: int = 0
    seconds: float = 0.0
    next_commands: tuple[str, ...] = ()
    undo: str | None = None
    planned: PlanSummary | None = None
    unregistered: tuple[int, ...] = ()

    @property
    def ok(self) -> bool:
        """True when the command may exit with 0."""
        return not self.problems

    def plus(self, run: RunOutcome) -> "BrokerOutcome":
        """With the figures of one more run of a plan."""
        return replace(
            self,
            moves_sent=self.moves_sent + run.submitted,
            copied_bytes=self.copied_bytes + run.copied_bytes,
            seconds=self.seconds + run.seconds,
        )


def outcome_report(outcome: BrokerOutcome) -> Report:
    """The result of a command; what is not whole fails."""
    failure = None
    if outcome.verdict == "declined":
        failure = OperationFailedError("not confirmed, nothing was changed")
    elif not outcome.ok:
        what = "not safe to stop" if outcome.verdict == "not safe to stop" else f"{outcome.command} is not complete"
        failure = OperationFailedError(f"{what}: {outcome.problems[0]}", hint=next(iter(outcome.next_commands), None))
    return Report(
        command=f"broker {outcome.command}",
        data=outcome_data(outcome),
        sections=outcome_sections(outcome),
        table=ResultTable(COLUMNS, outcome_rows(outcome)),
        failure=failure,
    )


def outcome_sections(outcome: BrokerOutcome) -> Iterator[Part]:
    """The result for people; commands to paste stand on lines of their own."""
    yield _headline(outcome)
    for facts in outcome.brokers:
        late = f", {facts.out_of_sync} not in sync" if facts.out_of_sync else ""
        held = f"{count_of(facts.replicas, 'replica')}, {count_of(facts.leaders, 'leadership')}"
        yield f"broker {facts.broker}: {facts.state}, {held}{late}"
    if outcome.planned is not None:
        plan = outcome.planned
        first = count_of(plan.leaders_first, "leader") if plan.leaders_first else "no leaders"
        yield (
            f"planned: {count_of(plan.partitions, 'partition')}, {count_of(plan.copies, 'copy', 'copies')} "
            f"({format_bytes(plan.bytes)}); {first} to move first"
        )
    if outcome.moves_sent or outcome.copied_bytes:
        sent = count_of(outcome.moves_sent, "request")
        time = format_rough_time(outcome.seconds)
        yield f"{sent} sent, {format_bytes(outcome.copied_bytes)} copied in {time}"
    if outcome.leaders_passed:
        yield f"{count_of(outcome.leaders_passed, 'leadership')} passed on by election"
    if outcome.unregistered:
        yield f"unregistered: broker {few_of(outcome.unregistered)}"
    yield Remarks("problem", outcome.problems)
    yield Remarks("caution", outcome.cautions)
    if outcome.record:
        yield f"record: {outcome.record}"
    yield NextCommands(outcome.steps, "left to do by hand:")
    yield NextCommands((outcome.undo,) if outcome.undo else (), "to move everything back:")
    yield NextCommands(outcome.next_commands)


def _headline(outcome: BrokerOutcome) -> str:
    brokers = few_of(b.broker for b in outcome.brokers)
    if outcome.verdict == "planned":
        return f"plan: {outcome.command} broker {brokers}"
    if outcome.verdict == "done":
        several = len(outcome.brokers) > 1
        what = "rejoined" if outcome.command == "rejoin" else f"been {BrokerOperationKind(outcome.command).participle}"
        return f"{'brokers' if several else 'broker'} {brokers} {'have' if several else 'has'} {what}"
    return f"{outcome.verdict}: {outcome.command} broker {brokers}"


def outcome_data(outcome: BrokerOutcome) -> dict[str, object]:
    """The result for programs."""
    return {
        "verdict": outcome.verdict,
        "brokers": [attributes(b, "broker rack state replicas leaders out_of_sync") for b in outcome.brokers],
        "planned": None
        if outcome.planned is None
        else attributes(outcome.planned, "partitions copies bytes leaders_first"),
        **attributes(outcome, "problems cautions steps record moves_sent unregistered"),
        "bytes_copied": outcome.copied_bytes,
        "leaders_passed": outcome.leaders_passed,
        "seconds": round(outcome.seconds, 3),
        "next_commands": list(outcome.next_commands),
        "undo_command": outcome.undo,
    }


def outcome_rows(outcome: BrokerOutcome) -> tuple[tuple[object, ...], ...]:
    """One row a broker, in `COLUMNS`."""
    return tuple((b.broker, b.state.value, b.rack, b.replicas, b.leaders, b.out_of_sync) for b in outcome.brokers)
