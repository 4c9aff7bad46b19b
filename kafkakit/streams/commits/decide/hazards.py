"""What can go wrong with a commit: each hazard has a name, a consequence and what to do.

Hazards of the place: outside its log, beyond what the log holds, or copied from elsewhere. Hazards of the metadata: not
used, coarse, large, or at odds with clocks and ledgers. Which commits MirrorMaker 2 copied here, and where the copied
offsets truly stand, is read from its own checkpoints and offset syncs.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kafkakit.core.errors import InputError
from kafkakit.core.findings import Severity
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import format_rough_time
from kafkakit.core.text import shell_command
from kafkakit.streams.commits.decide.offset_states import duplicates_of, marked_offsets, reach_of
from kafkakit.streams.model.commit import MarkState, PayloadProblem, amount, utc_text
from kafkakit.streams.model.dialects.dialect import NUL, CommitFacts, CopiedFrom, Hazard
from kafkakit.streams.model.dialects.registry import dialect_named
from kafkakit.streams.model.kkm1.encode import CLOSE_HOLES_AT, PAUSE_AT
from kafkakit.streams.model.log_batches import Batch, LogRecord, batches_of, records_of
from kafkakit.streams.model.mirrormaker import (
    Checkpoint,
    OffsetSync,
    decode_checkpoint,
    decode_offset_sync,
    place_downstream,
)


def hazards_of(facts: CommitFacts) -> tuple[Hazard, ...]:
    """All hazards of one commit, in the order in which a person should read them: losses first."""
    order = tuple(Severity)
    found = (*log_hazards(facts), *payload_hazards(facts))
    return tuple(sorted(found, key=lambda hazard: order.index(hazard.severity)))


def log_hazards(facts: CommitFacts) -> Iterator[Hazard]:
    """All hazards of this kind."""
    yield from _outside_log(facts)
    yield from _beyond_end(facts)
    yield from dialect_named(facts.reading.dialect).hazards(facts)
    yield from _unstable(facts)
    yield from _find_gone(facts)


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
            hint="check whether the topic is the one that was consumed; then, from its first record (or --to latest): "
            + facts.command("reset", "--to earliest"),
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


def _find_gone(facts: CommitFacts) -> Iterator[Hazard]:
    if not facts.topic_exists:
        yield Hazard(
            rule="topic-gone",
            severity=Severity.NOTE,
            message="the topic does not exist any more; the commit stays until it expires",
            hint="it does no harm; brokers delete it only with all commits of its group: "
            + str(shell_command("streams commits delete", facts.group or "GROUP", program=facts.program, all=True)),
        )


BURROW_BYTES = 127  # from here on Burrow reads a wrong time out of the records of Kafka 4.1 and later
SKEW_MS = 60_000  # clocks that differ by less are taken for the same
FIRST_COMPACT = (4, 1)  # from this version on brokers write the record format that Burrow misreads

_PROBLEM_RULES = {
    PayloadProblem.FOREIGN: ("foreign-payload", Severity.WARNING),
    PayloadProblem.BASE_MISMATCH: ("payload-of-another-offset", Severity.WARNING),
    PayloadProblem.UNKNOWN_VERSION: ("newer-payload", Severity.WARNING),
    PayloadProblem.UNKNOWN_SECTION: ("newer-payload", Severity.WARNING),
    PayloadProblem.TOO_LARGE: ("unreadable-payload", Severity.WARNING),
    PayloadProblem.BAD_TEXT: ("unreadable-payload", Severity.WARNING),
    PayloadProblem.BAD_BODY: ("unreadable-payload", Severity.WARNING),
}


def payload_hazards(facts: CommitFacts) -> Iterator[Hazard]:
    """All hazards of this kind."""
    yield from _problem(facts)
    yield from _find_coarsened(facts)
    yield from _size(facts)
    yield from _nul(facts)
    yield from _clocks(facts)
    yield from _ledger(facts)
    yield from _reach(facts)


def _problem(facts: CommitFacts) -> Iterator[Hazard]:
    reading = facts.reading
    if reading.problem is None:
        return
    rule, severity = _PROBLEM_RULES[reading.problem]
    again = duplicates_of(facts)
    words = f"; {facts.owner}" if facts.owner else ""
    again_words = (
        "an unknown number of done records" if again.high is None else f"up to {amount(again.high, 'done record')}"
    )
    reason = f" ({reading.reason})" if reading.reason else ""
    adopt = " --adopt" if rule == "newer-payload" else ""
    yield Hazard(
        rule=rule,
        severity=severity,
        message=f"the {reading.dialect} payload is not used: {reading.problem.value}{reason}{words}; a restart "
        f"begins at {facts.offset} and delivers {again_words} again",
        hint="the next commit by its own client clears it, and so does "
        + facts.command("reset", f"--to {facts.offset}{adopt}"),
    )


def _find_coarsened(facts: CommitFacts) -> Iterator[Hazard]:
    if facts.reading.problem is None and facts.reading.is_lossy:
        again = duplicates_of(facts)
        number = f"{again.low:,} to {again.high:,} done records come"
        if again.is_exact:
            number = f"{amount(again.low, 'done record')} {'comes' if again.low == 1 else 'come'}"
        yield Hazard(
            rule="coarsened",
            severity=Severity.WARNING,
            message=f"the payload did not fit and was made coarser: {number} again after a restart",
            hint="let the group use alphabet w, raise offset.metadata.max.bytes, or close holes: "
            + facts.command("reject", "--offsets N"),
        )


def _size(facts: CommitFacts) -> Iterator[Hazard]:
    share = facts.fill
    if share >= PAUSE_AT:
        over = share > 1
        yield Hazard(
            rule="limit-near",
            severity=Severity.ERROR if over else Severity.WARNING if share >= CLOSE_HOLES_AT else Severity.NOTE,
            message=f"{facts.chars:,} of {facts.limit_chars:,} characters are used ({share:.0%})"
            + (
                "; the next commit of this size is refused"
                if over
                else dialect_named(facts.reading.dialect).effect_of_size(facts)
            ),
            hint="raise offset.metadata.max.bytes, or complete the oldest records: " + facts.command("explain"),
        )
    if facts.stored_bytes >= BURROW_BYTES and _is_compact(facts.kafka_version):
        live = facts.kafka_version is not None
        yield Hazard(
            rule="burrow-misreads",
            severity=Severity.WARNING if live else Severity.NOTE,
            message=f"{facts.stored_bytes:,} bytes of metadata: on Kafka 4.1 and later Burrow reads a wrong time from "
            f"commits with {BURROW_BYTES} bytes or more, without an error",
            hint="do not trust Burrow's status of this group; what reads it right: "
            + str(shell_command("streams lag once", *_as_glob(facts.group), program=facts.program)),
        )


def _as_glob(group: str | None) -> tuple[str, ...]:
    """The group as an argument of the lag commands, which read globs; nothing for one that they cannot name."""
    return () if not group or set(group) & set("*?[") else (group,)


def _is_compact(version: str | None) -> bool:
    """True where brokers write the newer record; unknown versions count as new."""
    if version is None:
        return True
    parts = version.split(".")
    try:
        return (int(parts[0]), int(parts[1])) >= FIRST_COMPACT
    except (ValueError, IndexError):
        return True


def _nul(facts: CommitFacts) -> Iterator[Hazard]:
    effect = dialect_named(facts.reading.dialect).effect_of_nul(facts) if facts.has_nul else ""
    if effect:
        is_shifted = facts.done_beyond_end or facts.copied_from is not None  # then the map is best not read at all
        yield Hazard(
            rule="nul-terminated",
            severity=Severity.WARNING,
            message=f"the metadata ends with a NUL, which confluent-kafka adds: {effect}",
            hint="write it without the NUL: "
            + facts.command("translate", "--to pc" if facts.state.done and not is_shifted else "--to plain"),
        )


def _clocks(facts: CommitFacts) -> Iterator[Hazard]:
    mark, now = facts.state.watermark, facts.at_ms
    if now is None:
        return
    words = (
        [] if mark is None else [("oldest pending record", mark.oldest_ms), ("newest done record", mark.newest_done_ms)]
    )
    if facts.reading.stream_time_ms is not None:
        words.append(("stream time", facts.reading.stream_time_ms))
    ahead = [(what, ms) for what, ms in words if ms > now + SKEW_MS]
    if ahead:
        what, ms = max(ahead, key=lambda pair: pair[1])
        yield Hazard(
            rule="time-in-the-future",
            severity=Severity.WARNING,
            message=f"the {what} is dated {utc_text(ms)}, {format_rough_time((ms - now) / 1000)} ahead: a producer's "
            "clock is wrong, or this machine's, and lag in time from it is too small",
            hint="compare the clocks of producers and brokers with NTP",
        )
    if mark is not None and facts.pending_time is not None:
        span = facts.pending_time
        if mark.oldest_ms < span.low_ms - SKEW_MS or mark.oldest_ms > span.high_ms + SKEW_MS:
            yield Hazard(
                rule="watermark-differs",
                severity=Severity.WARNING,
                message=f"the payload dates the record at {facts.first_pending} {utc_text(mark.oldest_ms)}, the log "
                f"{utc_text(span.low_ms)}: lag in time from the payload is wrong",
                hint="the log was rewritten, the offset was moved by hand, or the writer has another clock",
            )


def _ledger(facts: CommitFacts) -> Iterator[Hazard]:
    rejected = marked_offsets(facts.state, MarkState.REJECTED).count
    if rejected and facts.state.spill is None:
        yield Hazard(
            rule="rejected-without-ledger",
            severity=Severity.NOTE,
            message=f"{amount(rejected, 'rejected offset')} known only to this commit: once the committed offset is "
            "past, no record shows that they were rejected",
            hint="let the group keep a reject ledger or a dead letter lane before it moves on",
        )


def _reach(facts: CommitFacts) -> Iterator[Hazard]:
    replay, state = facts.state.replay, facts.state
    if replay is not None and reach_of(state) > replay.start:
        left = state.pending.within(replay.start, replay.end).count
        yield Hazard(
            rule="replay-open",
            severity=Severity.NOTE,
            message=f"request {replay.request_id} opened {replay.start} to {replay.end - 1} again; {left:,} of them "
            "are still to do",
        )


CHECKPOINTS = ".checkpoints.internal"
SYNCS = "mm2-offset-syncs."
INTERNAL = ".internal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """What one source cluster's checkpoints say, the newest of each group and partition; `source` is its alias."""

    source: str
    of_group: Mapping[tuple[str, TopicPartition], Checkpoint]


def checkpoint_topics(topics: Iterable[str]) -> dict[str, str]:
    """The topics of checkpoints by the alias of their source."""
    return {name.removesuffix(CHECKPOINTS): name for name in sorted(topics) if name.endswith(CHECKPOINTS)}


def sync_topics(topics: Iterable[str]) -> tuple[str, ...]:
    """The topics of offset syncs, which MirrorMaker keeps at the source unless it is told to keep them here."""
    return tuple(name for name in sorted(topics) if name.startswith(SYNCS) and name.endswith(INTERNAL))


def read_checkpoints(source: str, chunks: Iterable[bytes]) -> Checkpoints:
    """The newest checkpoint of each group and partition out of raw reads, in the order of the log."""
    found: dict[tuple[str, TopicPartition], Checkpoint] = {}
    for record in _records(chunks):
        try:
            checkpoint = decode_checkpoint(record.key or b"", record.value or b"")
        except InputError:  # a tombstone, or a version that is not known
            continue
        found[checkpoint.group, TopicPartition(checkpoint.topic, checkpoint.partition)] = checkpoint
    return Checkpoints(source=source, of_group=found)


def read_syncs(chunks: Iterable[bytes]) -> tuple[OffsetSync, ...]:
    """All offset syncs out of raw reads."""
    found: list[OffsetSync] = []
    for record in _records(chunks):
        try:
            found.append(decode_offset_sync(record.key or b"", record.value or b""))
        except InputError:
            continue
    return tuple(found)


def copied_from(
    facts: CommitFacts, all_checkpoints: Iterable[Checkpoints], syncs: Iterable[OffsetSync]
) -> CopiedFrom | None:
    """Which checkpoint put this very commit here: the same offset, and the same text."""
    if facts.key is None or facts.group is None:
        return None
    for checkpoints in all_checkpoints:
        checkpoint = checkpoints.of_group.get((facts.group, facts.key))
        if checkpoint is None or checkpoint.downstream_offset != facts.offset:
            continue
        if checkpoint.metadata.rstrip(NUL) != facts.metadata.rstrip(NUL):
            continue
        there = TopicPartition(upstream_topic(facts.key.topic, checkpoints.source), facts.key.partition)
        place = place_downstream(syncs, there, checkpoint.upstream_offset)
        return CopiedFrom(
            source=f"{there} in {checkpoints.source}",
            upstream_offset=checkpoint.upstream_offset,
            place_low=None if place is None else place[0],
            place_high=None if place is None else place[1],
        )
    return None


def upstream_topic(topic: str, source: str) -> str:
    """The topic's name at the source: without the alias that MirrorMaker puts before it, where it does."""
    return topic.removeprefix(f"{source}.")


def _records(chunks: Iterable[bytes]) -> Iterable[LogRecord]:
    for chunk in chunks:
        for batch in batches_of(chunk):
            if isinstance(batch, Batch) and not batch.is_control:
                yield from (record for record in records_of(chunk, batch) if isinstance(record, LogRecord))


def next_offset(records: bytes, offset: int) -> int:
    """Where to read on after these batches; the same offset when they hold nothing new."""
    ends = [batch.next_offset for batch in batches_of(records) if isinstance(batch, Batch)]
    return max([offset, *ends])
