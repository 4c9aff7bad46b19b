"""Hazards of where a commit stands: outside its log, beyond what the log holds, or copied from elsewhere."""

from collections.abc import Iterator

from kafkakit.core.findings import Severity
from kafkakit.streams.model.commit import amount
from kafkakit.streams.model.dialects.dialect import CommitFacts, Hazard
from kafkakit.streams.model.dialects.registry import dialect_named


def log_hazards(facts: CommitFacts) -> Iterator[Hazard]:
    """All hazards of this kind."""
    yield from _outside_log(facts)
    yield from _beyond_end(facts)
    yield from dialect_named(facts.reading.dialect).hazards(facts)
    yield from _unstable(facts)
    yield from _gone(facts)


def _outside_log(facts: CommitFacts) -> Iterator[Hazard]:
    span = facts.span
    if span is None:
        return
    if not facts.topic_exists:
        return
    if facts.offset < span.start:
        lost = span.start - facts.offset
        yield Hazard(
            rule="committed-below-log-start",
            severity=Severity.ERROR,
            message=f"retention took {amount(lost, 'offset')} never done: committed {facts.offset}, "
            f"the log begins at {span.start}",
            hint=f"find out from another copy what was in them; then {facts.command('reset', '--to earliest')}",
        )
    if facts.offset > span.end:
        yield Hazard(
            rule="committed-beyond-log-end",
            severity=Severity.ERROR,
            message=f"committed {facts.offset}, but the log ends at {span.end}: the topic was recreated or its log was "
            "truncated, and consumers will start where auto.offset.reset says",
            hint="check whether the topic is the one that was consumed; then "
            f"{facts.command('reset', '--to earliest')}, or --to latest",
        )


def _beyond_end(facts: CommitFacts) -> Iterator[Hazard]:
    """Done offsets that the log does not hold, of metadata that was written for this very log."""
    state, span, beyond = facts.state, facts.span, facts.done_beyond_end
    if span is None or not beyond or dialect_named(facts.reading.dialect).counts_from_offset:
        return
    yield Hazard(
        rule="done-beyond-log-end",
        severity=Severity.ERROR,
        message=f"{amount(beyond, 'offset')} beyond the log's end ({span.end}) counted as done: the log lost its tail "
        "(an unclean leader election does that), and new records at these offsets would be skipped",
        hint=facts.command("unack", f"--offsets {span.end}-{state.end - 1} --allow-outside-log"),
    )


def _unstable(facts: CommitFacts) -> Iterator[Hazard]:
    if facts.is_unstable:
        yield Hazard(
            rule="open-transaction",
            severity=Severity.NOTE,
            message="a transaction that commits offsets is open: this is the commit before it",
            hint="look again when it has ended; one that hangs shows in kafka-transactions.sh find-hanging",
        )


def _gone(facts: CommitFacts) -> Iterator[Hazard]:
    if not facts.topic_exists:
        yield Hazard(
            rule="topic-gone",
            severity=Severity.NOTE,
            message="the topic does not exist any more; the commit stays until it expires",
            hint="it does no harm; kafka-consumer-groups.sh --delete-offsets removes it",
        )
