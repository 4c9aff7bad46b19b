"""One commit as it was found: what its metadata says, and what the cluster says beside it."""

from dataclasses import dataclass

from kafkakit.core.group_facts import GroupMember
from kafkakit.core.log_reads import LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.streams.formats.commit import CommitState, MarkState, Reading
from kafkakit.streams.formats.identity import CommitIdentity
from kafkakit.streams.formats.kkm1.text import utf16_units
from kafkakit.streams.formats.offset_ranges import OffsetRanges

KAFKA_LIMIT = 4096  # Kafka's default of offset.metadata.max.bytes; it counts UTF-16 units, not bytes
BURROW_BYTES = 127  # from here on Burrow reads a wrong time out of the records of Kafka 4.1 and later
NUL = "\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSpan:
    """A time that is known to lie between two bounds, both in milliseconds; equal where it is exact.

    `record_offset` is where the record stands whose time it is, None where that is not known: compaction and markers
    leave offsets without a record.
    """

    low_ms: int
    high_ms: int
    source: str
    record_offset: int | None = None

    @property
    def is_exact(self) -> bool:
        """True when both bounds are one time."""
        return self.low_ms == self.high_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedFrom:
    """A checkpoint of MirrorMaker 2 says that it carried this commit over: from which topic, and from which offset.

    `place_low` and `place_high` bound where that offset truly stands in this log, None where no offset sync tells.
    """

    source: str
    upstream_offset: int
    place_low: int | None = None
    place_high: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFacts:
    """One commit and all that is known about it; None stands for what was not asked or not told.

    `metadata` is as the broker stores it. `limit_chars` is the strictest `offset.metadata.max.bytes` of the brokers.
    `pending_time` is the time of the record at the first pending offset, as the log has it. `owner` tells whose
    payload it is where it is not bound to `identity`. `is_unstable` marks a commit that an open transaction is about
    to replace. `at_ms` is when all this was true, `program` how to call kafkakit for this cluster.
    """

    offset: int
    metadata: str
    reading: Reading
    at_ms: int | None = None
    key: TopicPartition | None = None
    group: str | None = None
    identity: CommitIdentity | None = None
    leader_epoch: int | None = None
    limit_chars: int = KAFKA_LIMIT
    is_limit_known: bool = False
    kafka_version: str | None = None
    span: LogSpan | None = None
    topic_exists: bool = True
    is_unstable: bool = False
    pending_time: TimeSpan | None = None
    holder: GroupMember | None = None
    owner: str | None = None
    copied_from: CopiedFrom | None = None
    program: str = "kafkakit"

    @property
    def state(self) -> CommitState:
        """What may be relied upon."""
        return self.reading.state

    @property
    def chars(self) -> int:
        """The size that the brokers hold against the limit: UTF-16 units, a NUL at the end included."""
        return utf16_units(self.metadata)

    @property
    def stored_bytes(self) -> int:
        """The size in the offsets topic."""
        return len(self.metadata.encode("utf-8", "surrogatepass"))

    @property
    def fill(self) -> float:
        """The share of the limit that is used."""
        return self.chars / self.limit_chars if self.limit_chars > 0 else float(self.chars > 0)

    @property
    def has_nul(self) -> bool:
        """True when the metadata ends with the NUL that librdkafka's Python client appends."""
        return self.metadata.endswith(NUL)

    @property
    def first_pending(self) -> int:
        """The oldest offset that is not done: the committed one."""
        return self.state.base

    @property
    def oldest_time(self) -> TimeSpan | None:
        """When the oldest pending record was written: by the payload's watermark, else by the log."""
        mark = self.state.watermark
        if mark is not None:
            return TimeSpan(low_ms=mark.oldest_ms, high_ms=mark.oldest_ms, source="the payload's watermark")
        return self.pending_time

    @property
    def has_pending(self) -> bool:
        """False when nothing waits: no holes, and the log ends at the committed offset where its end is known."""
        if self.state.end > self.state.base:
            return True
        return self.span is None or self.span.end > self.state.base


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many offsets are in each state, from the committed one up to the highest done one.

    `done` leaves out rejected and skipped ones, `pending` retrying and deferred ones. `untouched` counts offsets from
    there to the end of the log, None where that is not known.
    """

    done: int = 0
    rejected: int = 0
    skipped: int = 0
    pending: int = 0
    retrying: int = 0
    deferred: int = 0
    untouched: int | None = None

    @property
    def span(self) -> int:
        """All offsets that the payload speaks of."""
        return self.done + self.rejected + self.skipped + self.pending + self.retrying + self.deferred


def tally_of(state: CommitState, log_end: int | None = None) -> Tally:
    """Count a state's offsets; marks above the highest done offset count too, and shift where `untouched` begins."""
    marked = dict.fromkeys(MarkState, 0)
    for mark in state.marks:
        marked[mark.state] += mark.end - mark.start
    reach = reach_of(state)
    done = state.done.count
    pending = reach - state.base - done
    return Tally(
        done=max(0, done - marked[MarkState.REJECTED] - marked[MarkState.SKIPPED]),
        rejected=marked[MarkState.REJECTED],
        skipped=marked[MarkState.SKIPPED],
        pending=max(0, pending - marked[MarkState.RETRYING] - marked[MarkState.DEFERRED]),
        retrying=marked[MarkState.RETRYING],
        deferred=marked[MarkState.DEFERRED],
        untouched=None if log_end is None else max(0, log_end - reach),
    )


def reach_of(state: CommitState) -> int:
    """One past the highest offset that the payload says anything about."""
    return max([state.end, *(mark.end for mark in state.marks)])


def marked(state: CommitState, kind: MarkState) -> OffsetRanges:
    """The offsets that carry this mark."""
    return OffsetRanges.of((mark.start, mark.end) for mark in state.marks if mark.state is kind)


def dialect_words(reading: Reading) -> str:
    """The dialect with its packing, for people: `kkm1, runs, alphabet b`."""
    words = [reading.dialect.value]
    if reading.encoding:
        words.append(reading.encoding)
    if reading.alphabet:
        words.append(f"alphabet {reading.alphabet}")
    if reading.is_compressed:
        words.append("zstd")
    if reading.is_lossy:
        words.append("coarsened")
    return ", ".join(words)
