"""Hazards of where a commit stands: outside its log, beyond what the log holds, or copied from elsewhere."""

from collections.abc import Iterator

from kafkakit.core.findings import Severity
from kafkakit.streams.commits.decide.facts import CommitFacts, CopiedFrom
from kafkakit.streams.commits.decide.hazards.hazard import Hazard, command_for
from kafkakit.streams.formats.commit import Dialect
from kafkakit.streams.formats.dialects.mirrormaker import skipped_by_copy
from kafkakit.streams.formats.printable import amount

WITHOUT_MAP = "before parallel-consumer starts here, drop the map, which gives duplicates and no loss: {}"
MOST_STEPS = 200_000  # work for the exact number of a copied map


def log_hazards(facts: CommitFacts) -> Iterator[Hazard]:
    """All hazards of this kind."""
    yield from _outside_log(facts)
    yield from _beyond_end(facts)
    yield from _copied(facts)
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
            hint=f"find out from another copy what was in them; then {command_for(facts, 'reset', '--to earliest')}",
        )
    if facts.offset > span.end:
        yield Hazard(
            rule="committed-beyond-log-end",
            severity=Severity.ERROR,
            message=f"committed {facts.offset}, but the log ends at {span.end}: the topic was recreated or its log was "
            "truncated, and consumers will start where auto.offset.reset says",
            hint="look whether the topic is the one that was consumed; then "
            f"{command_for(facts, 'reset', '--to earliest')}, or --to latest",
        )


def _beyond_end(facts: CommitFacts) -> Iterator[Hazard]:
    """Done offsets that no log holds: a shifted map, or a log that lost its tail."""
    state, span = facts.state, facts.span
    if span is None or facts.reading.problem is not None or state.end <= span.end or facts.offset > span.end:
        return
    beyond = state.end - span.end
    if facts.reading.dialect is Dialect.PARALLEL_CONSUMER:
        skipped = state.done.within(span.start, span.end).count
        yield Hazard(
            rule="shifted-map",
            severity=Severity.ERROR,
            message=f"the map calls {amount(beyond, 'offset')} beyond the log's end done, so it was written for other "
            f"offsets, and a copy by MirrorMaker 2 does that: parallel-consumer would skip up to "
            f"{amount(skipped, 'record')} never processed, and later ones as they come",
            hint=WITHOUT_MAP.format(command_for(facts, "translate", "--to plain")),
        )
        return
    yield Hazard(
        rule="done-beyond-log-end",
        severity=Severity.ERROR,
        message=f"{amount(beyond, 'offset')} beyond the log's end ({span.end}) counted as done: the log lost its tail "
        "(an unclean leader election does that), and new records at these offsets would be skipped",
        hint=command_for(facts, "unack", f"--offsets {span.end}-{state.end - 1} --allow-outside-log"),
    )


def _copied(facts: CommitFacts) -> Iterator[Hazard]:
    copy, reading = facts.copied_from, facts.reading
    if copy is None or reading.dialect is not Dialect.PARALLEL_CONSUMER or not reading.state.done:
        return
    most = skipped_at_most(facts, copy)
    if most:
        yield Hazard(
            rule="shifted-map",
            severity=Severity.ERROR,
            message=f"MirrorMaker 2 copied this map from offset {copy.upstream_offset} of {copy.source} onto offset "
            f"{facts.offset}, and it counts from the offset it is committed with: parallel-consumer would skip up to "
            f"{amount(most, 'record')} never processed",
            hint=WITHOUT_MAP.format(command_for(facts, "translate", "--to plain")),
        )


def skipped_at_most(facts: CommitFacts, copy: CopiedFrom) -> int:
    """How many pending records a copied map calls done: exact where an offset sync tells the true place, else the
    most that can be, which is all that the map calls done."""
    ceiling = facts.state.done.count
    if copy.place_low is None or copy.place_high is None:
        return ceiling
    places = range(copy.place_low, copy.place_high + 1)
    if len(places) * len(facts.state.done.ranges) > MOST_STEPS:
        return ceiling
    return min(ceiling, max(skipped_by_copy(facts.reading, place, facts.offset).count for place in places))


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
