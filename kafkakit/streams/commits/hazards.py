"""What can go wrong with a commit, each thing by name, with its consequence and what to do."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kafkakit.findings import Severity
from kafkakit.quantities import counted, format_rough_time
from kafkakit.streams.commit import Dialect, MarkState, Problem
from kafkakit.streams.commits.duplicates import duplicates_of
from kafkakit.streams.commits.facts import BURROW_BYTES, CommitFacts, CopiedFrom, marked, reach_of
from kafkakit.streams.commits.times import utc_text
from kafkakit.streams.dialects.mirrormaker import skipped_by_copy

PAUSE_SHARE = 0.6  # where our own writer stops fetching anew
SPILL_SHARE = 0.8  # where it starts to get rid of records that fail again and again
PC_PRESSURE_CHARS = 3072  # three quarters of what parallel-consumer takes for the limit
MOST_STEPS = 200_000  # work for the exact number of a copied map
SKEW_MS = 60_000  # clocks that differ by less are taken for the same
FIRST_COMPACT = (4, 1)  # from this version on brokers write the record format that Burrow misreads


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """One thing that is wrong or may go wrong; `hint` is what to do, empty where there is nothing to do."""

    rule: str
    severity: Severity
    message: str
    hint: str = ""


def hazards_of(facts: CommitFacts) -> tuple[Hazard, ...]:
    """All hazards of one commit, in the order in which a person should read them: losses first."""
    found = [hazard for look in _LOOKS for hazard in look(facts)]
    order = tuple(Severity)
    return tuple(sorted(found, key=lambda hazard: order.index(hazard.severity)))


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
            message=f"retention took {lost:,} offsets that were never done: committed {facts.offset}, "
            f"the log begins at {span.start}",
            hint="find out from another copy what was in them; then commit the log's start: "
            "kafkakit streams commits reset --to-earliest",
        )
    if facts.offset > span.end:
        yield Hazard(
            rule="committed-beyond-log-end",
            severity=Severity.ERROR,
            message=f"committed {facts.offset}, but the log ends at {span.end}: the topic was recreated or its log was "
            "truncated, and consumers will start where auto.offset.reset says",
            hint="look whether the topic is the one that was consumed, then reset the group",
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
            message=f"the map says that {beyond:,} offsets beyond the log's end are done, so it was written for other "
            f"offsets, and a copy by MirrorMaker 2 does that: parallel-consumer would skip up to {skipped:,} "
            f"records that were never processed, and later ones as they come",
            hint="before parallel-consumer starts: commit the same offset without metadata "
            "(kafkakit streams commits reset), which gives duplicates and no loss",
        )
        return
    yield Hazard(
        rule="done-beyond-log-end",
        severity=Severity.ERROR,
        message=f"{beyond:,} offsets beyond the log's end ({span.end}) count as done: the log lost its tail (an "
        "unclean leader election does that), and new records at these offsets would be skipped",
        hint="kafkakit streams commits unack the offsets from the log's end on",
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
            f"{most:,} records that were never processed",
            hint="before parallel-consumer starts here: commit the same offset without metadata "
            "(kafkakit streams commits reset), which gives duplicates and no loss",
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


_PROBLEM_RULES = {
    Problem.FOREIGN: ("foreign-payload", Severity.WARNING),
    Problem.BASE_MISMATCH: ("payload-of-another-offset", Severity.WARNING),
    Problem.UNKNOWN_VERSION: ("newer-payload", Severity.WARNING),
    Problem.UNKNOWN_SECTION: ("newer-payload", Severity.WARNING),
    Problem.TOO_LARGE: ("unreadable-payload", Severity.WARNING),
    Problem.BAD_TEXT: ("unreadable-payload", Severity.WARNING),
    Problem.BAD_BODY: ("unreadable-payload", Severity.WARNING),
}


def _problem(facts: CommitFacts) -> Iterator[Hazard]:
    reading = facts.reading
    if reading.problem is None:
        return
    rule, severity = _PROBLEM_RULES[reading.problem]
    again = duplicates_of(facts)
    told = f"; {facts.owner}" if facts.owner else ""
    amount = (
        "an unknown number of done records" if again.high is None else f"up to {counted(again.high, 'done record')}"
    )
    reason = f" ({reading.reason})" if reading.reason else ""
    yield Hazard(
        rule=rule,
        severity=severity,
        message=f"the {reading.dialect.value} payload is not used: {reading.problem.value}{reason}{told}; a restart "
        f"begins at {facts.offset} and delivers {amount} again",
        hint="a commit by its own client, or kafkakit streams commits reset to the same offset, clears it",
    )


def _coarsened(facts: CommitFacts) -> Iterator[Hazard]:
    if facts.reading.problem is None and facts.reading.is_lossy:
        again = duplicates_of(facts)
        number = f"{again.low:,}" if again.is_exact else f"{again.low:,} to {again.high:,}"
        yield Hazard(
            rule="coarsened",
            severity=Severity.WARNING,
            message=f"the payload did not fit and was made coarser: {number} done records come again after a restart",
            hint="close holes (kafkakit streams commits reject), let the group use alphabet w, or raise "
            "offset.metadata.max.bytes",
        )


def _size(facts: CommitFacts) -> Iterator[Hazard]:
    share = facts.fill
    if share >= PAUSE_SHARE:
        over = share > 1
        yield Hazard(
            rule="limit-near",
            severity=Severity.ERROR if over else Severity.WARNING if share >= SPILL_SHARE else Severity.NOTE,
            message=f"{facts.chars:,} of {facts.limit_chars:,} characters are used ({share:.0%})"
            + ("; the next commit of this size is refused" if over else _effect_of_size(facts)),
            hint="close holes, the oldest first (kafkakit streams commits explain names it), or raise "
            "offset.metadata.max.bytes",
        )
    if facts.stored_bytes >= BURROW_BYTES and _is_compact(facts.kafka_version):
        live = facts.kafka_version is not None
        yield Hazard(
            rule="burrow-misreads",
            severity=Severity.WARNING if live else Severity.NOTE,
            message=f"{facts.stored_bytes:,} bytes of metadata: on Kafka 4.1 and later Burrow reads a wrong time from "
            f"commits with {BURROW_BYTES} bytes or more, without an error",
            hint="do not trust Burrow's status of this group; kafkakit streams lag reads it right",
        )


def _effect_of_size(facts: CommitFacts) -> str:
    """What the writer of this dialect does when its metadata is this large."""
    if facts.reading.dialect is Dialect.KKM1:
        return (
            "; its writer gets rid of repeat offenders" if facts.fill >= SPILL_SHARE else "; its writer fetches no more"
        )
    if facts.reading.dialect is Dialect.PARALLEL_CONSUMER and facts.chars > PC_PRESSURE_CHARS:
        return "; parallel-consumer takes no new records of this partition, and above 4,096 it drops the whole map"
    return ""


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
    """Java clients cannot read base64 with the NUL that librdkafka adds; our own reader drops it."""
    effects = {
        Dialect.PARALLEL_CONSUMER: f"parallel-consumer cannot read the map, and processes all "
        f"{facts.state.done.count:,} done records again",
        Dialect.KAFKA_STREAMS: "Kafka Streams cannot read its stream time",
    }
    if facts.has_nul and facts.reading.dialect in effects:
        yield Hazard(
            rule="nul-terminated",
            severity=Severity.WARNING,
            message=f"the metadata ends with a NUL, which confluent-kafka adds: {effects[facts.reading.dialect]}",
            hint="let kafkakit write it without the NUL: kafkakit streams commits translate",
        )


def _clocks(facts: CommitFacts) -> Iterator[Hazard]:
    mark, now = facts.state.watermark, facts.at_ms
    if now is None:
        return
    told = (
        [] if mark is None else [("oldest pending record", mark.oldest_ms), ("newest done record", mark.newest_done_ms)]
    )
    if facts.reading.stream_time_ms is not None:
        told.append(("stream time", facts.reading.stream_time_ms))
    ahead = [(what, ms) for what, ms in told if ms > now + SKEW_MS]
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
                hint="the log was rewritten, or the writer dates records by another clock",
            )


def _ledger(facts: CommitFacts) -> Iterator[Hazard]:
    rejected = marked(facts.state, MarkState.REJECTED).count
    if rejected and facts.state.spill is None:
        yield Hazard(
            rule="rejected-without-ledger",
            severity=Severity.NOTE,
            message=f"{counted(rejected, 'rejected offset')} known to this commit alone: once the committed offset is "
            "past, nothing tells that they were rejected",
            hint="let the group keep a reject ledger or a dead letter lane before it moves on",
        )


def _gone(facts: CommitFacts) -> Iterator[Hazard]:
    if not facts.topic_exists:
        yield Hazard(
            rule="topic-gone",
            severity=Severity.NOTE,
            message="the topic does not exist any more; the commit stays until it expires",
            hint="kafka-consumer-groups.sh --delete-offsets removes it",
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


_LOOKS: tuple[Callable[[CommitFacts], Iterator[Hazard]], ...] = (
    _outside_log,
    _beyond_end,
    _copied,
    _unstable,
    _problem,
    _coarsened,
    _size,
    _nul,
    _clocks,
    _ledger,
    _gone,
    _reach,
)
