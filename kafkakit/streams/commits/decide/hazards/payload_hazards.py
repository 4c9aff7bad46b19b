"""Hazards of what a commit's metadata says: not used, coarse, large, or at odds with clocks and ledgers."""

from collections.abc import Iterator

from kafkakit.core.findings import Severity
from kafkakit.core.quantities import format_rough_time
from kafkakit.streams.commits.decide.duplicates import duplicates_of
from kafkakit.streams.commits.decide.facts import BURROW_BYTES, CommitFacts, marked, reach_of
from kafkakit.streams.commits.decide.hazards.hazard import Hazard, command_for
from kafkakit.streams.commits.decide.times import utc_text
from kafkakit.streams.formats.commit import Dialect, MarkState, Problem
from kafkakit.streams.formats.printable import amount

PAUSE_SHARE = 0.6  # where our own writer stops fetching anew
SPILL_SHARE = 0.8  # where it starts to get rid of records that fail again and again
SKEW_MS = 60_000  # clocks that differ by less are taken for the same
PC_PRESSURE_CHARS = 3072  # three quarters of what parallel-consumer takes for the limit
FIRST_COMPACT = (4, 1)  # from this version on brokers write the record format that Burrow misreads

_PROBLEM_RULES = {
    Problem.FOREIGN: ("foreign-payload", Severity.WARNING),
    Problem.BASE_MISMATCH: ("payload-of-another-offset", Severity.WARNING),
    Problem.UNKNOWN_VERSION: ("newer-payload", Severity.WARNING),
    Problem.UNKNOWN_SECTION: ("newer-payload", Severity.WARNING),
    Problem.TOO_LARGE: ("unreadable-payload", Severity.WARNING),
    Problem.BAD_TEXT: ("unreadable-payload", Severity.WARNING),
    Problem.BAD_BODY: ("unreadable-payload", Severity.WARNING),
}


def payload_hazards(facts: CommitFacts) -> Iterator[Hazard]:
    """All hazards of this kind."""
    yield from _problem(facts)
    yield from _coarsened(facts)
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
    told = f"; {facts.owner}" if facts.owner else ""
    again_words = (
        "an unknown number of done records" if again.high is None else f"up to {amount(again.high, 'done record')}"
    )
    reason = f" ({reading.reason})" if reading.reason else ""
    adopt = " --adopt" if rule == "newer-payload" else ""
    yield Hazard(
        rule=rule,
        severity=severity,
        message=f"the {reading.dialect.value} payload is not used: {reading.problem.value}{reason}{told}; a restart "
        f"begins at {facts.offset} and delivers {again_words} again",
        hint="the next commit by its own client clears it, and so does "
        + command_for(facts, "reset", f"--to {facts.offset}{adopt}"),
    )


def _coarsened(facts: CommitFacts) -> Iterator[Hazard]:
    if facts.reading.problem is None and facts.reading.is_lossy:
        again = duplicates_of(facts)
        number = f"{again.low:,} to {again.high:,} done records come"
        if again.is_exact:
            number = f"{amount(again.low, 'done record')} {'comes' if again.low == 1 else 'come'}"
        yield Hazard(
            rule="coarsened",
            severity=Severity.WARNING,
            message=f"the payload did not fit and was made coarser: {number} again after a restart",
            hint=f"close holes ({command_for(facts, 'reject', '--offsets N')}), let the group use alphabet w, or raise "
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
            hint=f"close holes, the oldest first ({command_for(facts, 'explain')}), or raise offset.metadata.max.bytes",
        )
    if facts.stored_bytes >= BURROW_BYTES and _is_compact(facts.kafka_version):
        live = facts.kafka_version is not None
        yield Hazard(
            rule="burrow-misreads",
            severity=Severity.WARNING if live else Severity.NOTE,
            message=f"{facts.stored_bytes:,} bytes of metadata: on Kafka 4.1 and later Burrow reads a wrong time from "
            f"commits with {BURROW_BYTES} bytes or more, without an error",
            hint=f"do not trust Burrow's status of this group; {facts.program} streams lag reads it right",
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
            hint="write it without the NUL: "
            + command_for(facts, "translate", "--to pc" if facts.state.done else "--to plain"),
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
                hint="the log was rewritten, the offset was moved by hand, or the writer has another clock",
            )


def _ledger(facts: CommitFacts) -> Iterator[Hazard]:
    rejected = marked(facts.state, MarkState.REJECTED).count
    if rejected and facts.state.spill is None:
        yield Hazard(
            rule="rejected-without-ledger",
            severity=Severity.NOTE,
            message=f"{amount(rejected, 'rejected offset')} known to this commit alone: once the committed offset is "
            "past, nothing tells that they were rejected",
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
