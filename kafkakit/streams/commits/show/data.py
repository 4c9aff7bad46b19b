"""A commit and what is known about it as JSON fields, the same in every command; `document` reads them back."""

from kafkakit.report.blocks import attributes
from kafkakit.streams.commits.decide.duplicates import duplicates_of
from kafkakit.streams.commits.decide.hazards.every import hazards_of
from kafkakit.streams.commits.decide.tally import tally_of
from kafkakit.streams.model.commit import CommitIdentity, CommitState, topic_id_text, utc_text
from kafkakit.streams.model.dialects.dialect import CommitFacts, TimeSpan


def commit_data(facts: CommitFacts) -> dict[str, object]:
    """Everything about one commit; absent facts are null, times are both milliseconds and ISO 8601."""
    reading = facts.reading
    again = duplicates_of(facts)
    return {
        "group": facts.group,
        "topic": None if facts.key is None else facts.key.topic,
        "partition": None if facts.key is None else facts.key.partition,
        **attributes(facts, "offset leader_epoch metadata"),
        "dialect": reading.dialect,
        "encoding": reading.encoding or None,
        "alphabet": reading.alphabet or None,
        "chars": facts.chars,
        "bytes": facts.stored_bytes,
        "payload_bytes": reading.raw_bytes,
        "limit_chars": facts.limit_chars,
        "limit_known": facts.is_limit_known,
        "limit_share": round(facts.fill, 4),
        "lossy": reading.is_lossy,
        "compressed": reading.is_compressed,
        "problem": reading.problem,
        "reason": reading.reason or None,
        "bound": reading.is_bound,
        "owner": facts.owner,
        "identity": None if facts.identity is None else identity_data(facts.identity),
        "state": state_data(reading.state),
        "claimed": None if reading.claimed is None else state_data(reading.claimed),
        "counts": _counts(facts),
        "pending": [list(pair) for pair in reading.state.pending],
        "oldest_pending": _oldest(facts),
        "stream_time_ms": reading.stream_time_ms,
        "processor": dict(sorted(reading.processor.items())),
        "log": None
        if facts.span is None
        else {"start": facts.span.start, "stable": facts.span.stable, "end": facts.span.end},
        "topic_exists": facts.topic_exists,
        "holder": None if facts.holder is None else attributes(facts.holder, "member_id client_id host"),
        "copied_from": facts.copied_from,
        "duplicates": {
            **attributes(again, "reader low high"),
            "ignoring_metadata": again.ignoring,
            "why": again.why,
        },
        "hazards": [
            {"rule": h.rule, "severity": h.severity, "message": h.message, "hint": h.hint} for h in hazards_of(facts)
        ],
        "at": None if facts.at_ms is None else utc_text(facts.at_ms),
    }


def state_data(state: CommitState) -> dict[str, object]:
    """A state as `document.StateDocument` reads it."""
    spill = state.spill
    return {
        "base": state.base,
        "done": [list(pair) for pair in state.done],
        "watermark": state.watermark,
        "route": state.route,
        "marks": [
            {
                "start": mark.start,
                "end": mark.end,
                "state": mark.state.name.lower(),
                "count": mark.count,
                "deferred_s": mark.deferred_s,
            }
            for mark in state.marks
        ],
        "spill": None
        if spill is None
        else {"partition": spill.partition, "offset": spill.offset, "digest": spill.digest.hex()},
        **attributes(state, "writer replay forgotten"),
    }


def identity_data(identity: CommitIdentity) -> dict[str, object]:
    """An identity as `document.IdentityDocument` reads it."""
    return {
        "cluster_id": identity.cluster_id,
        "topic_id": topic_id_text(identity.topic_id),
        "partition": identity.partition,
        "group": identity.group,
    }


def time_data(span: TimeSpan | None, at_ms: int | None) -> dict[str, object] | None:
    """A time with its bounds, its source, and its age where now is known; the age is that of the later bound first."""
    if span is None:
        return None
    return {
        "low_ms": span.low_ms,
        "high_ms": span.high_ms,
        "low": utc_text(span.low_ms),
        "high": utc_text(span.high_ms),
        "source": span.source,
        "age_s": None if at_ms is None else [(at_ms - span.high_ms) / 1000, (at_ms - span.low_ms) / 1000],
    }


def _counts(facts: CommitFacts) -> dict[str, object]:
    tally = tally_of(facts.state, None if facts.span is None else facts.span.end)
    return attributes(tally, "done rejected skipped pending retrying deferred untouched")


def _oldest(facts: CommitFacts) -> dict[str, object] | None:
    if not facts.has_pending:
        return None
    return {"offset": facts.first_pending, "written": time_data(facts.oldest_time, facts.at_ms)}
