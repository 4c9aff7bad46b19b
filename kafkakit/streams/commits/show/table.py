"""Commits as rows: one a partition, for tables and TSV."""

from collections.abc import Sequence

from kafkakit.core.findings import Severity
from kafkakit.core.quantities import format_rough_time
from kafkakit.core.tables import text_table
from kafkakit.streams.commits.decide.hazards.every import hazards_of
from kafkakit.streams.commits.decide.tally import tally_of
from kafkakit.streams.model.dialects.dialect import CommitFacts

COMMIT_COLUMNS = (
    "topic",
    "partition",
    "offset",
    "dialect",
    "done_above",
    "pending",
    "retrying",
    "rejected",
    "backlog",
    "oldest_pending",
    "oldest_age_s",
    "chars",
    "limit_chars",
    "problem",
    "hazards",
)
_SHOWN = ("topic", "partition", "committed", "dialect", "done above", "pending", "backlog", "oldest", "full", "hazards")


def commit_row(facts: CommitFacts) -> tuple[object, ...]:
    """The cells of `COMMIT_COLUMNS`; the age is the lower bound, which is sure."""
    tally = tally_of(facts.state, None if facts.span is None else facts.span.end)
    age = oldest_age_s(facts)
    return (
        None if facts.key is None else facts.key.topic,
        None if facts.key is None else facts.key.partition,
        facts.offset,
        facts.reading.dialect,
        tally.done + tally.rejected + tally.skipped,
        tally.pending + tally.retrying + tally.deferred,
        tally.retrying,
        tally.rejected,
        tally.untouched,
        facts.first_pending if facts.has_pending else None,
        None if age is None else round(age, 3),
        facts.chars,
        facts.limit_chars,
        facts.reading.problem,
        [hazard.rule for hazard in hazards_of(facts)],
    )


def commit_table(commits: Sequence[CommitFacts]) -> str:
    """A table for people, one line a commit."""
    return text_table(_SHOWN, [_shown(facts) for facts in commits])


def oldest_age_s(facts: CommitFacts) -> float | None:
    """How old the oldest pending record is at least; None where nothing is pending or no time is known."""
    if facts.at_ms is None or not facts.has_pending or facts.oldest_time is None:
        return None
    return max(0.0, (facts.at_ms - facts.oldest_time.high_ms) / 1000)


def _shown(facts: CommitFacts) -> tuple[object, ...]:
    tally = tally_of(facts.state, None if facts.span is None else facts.span.end)
    age = oldest_age_s(facts)
    words = [hazard.rule for hazard in hazards_of(facts) if hazard.severity is not Severity.NOTE]
    return (
        None if facts.key is None else facts.key.topic,
        None if facts.key is None else facts.key.partition,
        facts.offset,
        facts.reading.dialect,
        tally.done + tally.rejected + tally.skipped,
        tally.pending + tally.retrying + tally.deferred,
        tally.untouched,
        None if age is None else format_rough_time(age),
        f"{facts.fill:.0%}" if facts.chars else None,
        words,
    )
