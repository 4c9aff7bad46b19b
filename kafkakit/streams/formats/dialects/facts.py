"""One commit as it was found: what its metadata holds, and what the cluster reports beside it."""

from dataclasses import dataclass

from kafkakit.core.group_facts import GroupMember
from kafkakit.core.log_reads import LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.core.shell_words import quote
from kafkakit.streams.formats.commit import CommitState, Reading
from kafkakit.streams.formats.identity import CommitIdentity
from kafkakit.streams.formats.kkm1.text import utf16_units

KAFKA_LIMIT = 4096  # Kafka's default of offset.metadata.max.bytes; it counts UTF-16 units, not bytes
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

    @property
    def done_beyond_end(self) -> int:
        """How many offsets past the end of the log count as done; 0 for a commit that is past it altogether."""
        if self.span is None or self.offset > self.span.end:
            return 0
        return max(0, self.state.end - self.span.end)

    def command(self, verb: str, *words: str) -> str:
        """The command line that calls a verb of `streams commits` for this very commit."""
        where: tuple[str, ...] = ()
        if self.key is not None and self.group is not None:
            where = (quote(self.group), "--topic", quote(self.key.topic), "--partition", str(self.key.partition))
        return " ".join((self.program, "streams", "commits", verb, *where, *words))
