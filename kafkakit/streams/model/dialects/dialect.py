"""A dialect of commit metadata as one record: how it is recognised, read, written, explained, and what endangers it.

Everything that differs from one dialect to the next is a field here, so that no other module asks which dialect a
commit is in. A dialect is made by one file of this folder and listed in its registry. `CommitFacts` is one commit as it
was found: what its metadata holds, and what the cluster reports beside it; a `Hazard` is one thing that is wrong with
it, or may go wrong, and the command that repairs it. `MetadataText` is its text without trailing NULs, with its size
and base64 read strictly.
"""

from binascii import Error, a2b_base64, b2a_base64
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from kafkakit.core.cluster_facts import CommittedOffset, GroupMember, LogSpan
from kafkakit.core.findings import Severity
from kafkakit.core.model import TopicPartition
from kafkakit.core.text import ShellCommand
from kafkakit.streams.model.commit import CommitIdentity, CommitState, PayloadProblem, Reading
from kafkakit.streams.model.kkm1.text import utf16_units


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodeRequest:
    """A state to commit in at most `limit_chars` characters.

    `form` is one of the dialect's `forms`; "" writes what stands best in place of `replaces`, which was read as
    `replaced`. `stream_time_ms` and `processor` are for dialects that hold record times instead of offsets.
    """

    state: CommitState
    limit_chars: int
    identity: CommitIdentity | None = None
    form: str = ""
    replaces: CommittedOffset | None = None
    replaced: Reading | None = None
    stream_time_ms: int | None = None
    processor: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedMetadata:
    """Metadata to commit; `fits` is False where no metadata within the limit holds the state.

    `forgotten` acknowledgements and the parts `left_out` of the state were dropped so that the rest fits.
    """

    text: str
    fits: bool = True
    forgotten: int = 0
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """The checksum that binds a payload to its commit, and the bytes that it covers beside the identity."""

    checksum: int
    signed: bytes


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
        """The command line that calls a verb of `streams commits` for this very commit; GROUP where it is not known."""
        made = ShellCommand(f"streams commits {verb}", ("GROUP",), program=self.program, typed=words)
        if self.key is None or self.group is None:
            return str(made)
        where = (("--topic", self.key.topic), ("--partition", str(self.key.partition)))
        return str(replace(made, arguments=(self.group,), options=where))


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """What is wrong, with its consequence; `hint` is what to do, empty where there is nothing to do."""

    rule: str
    severity: Severity
    message: str
    hint: str = ""


def no_hazards(facts: CommitFacts) -> Iterable[Hazard]:
    """The hazards of a dialect that has none of its own."""
    del facts
    return ()


def no_effect(facts: CommitFacts) -> str:
    """The words of a dialect to whose reader nothing happens."""
    del facts
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataText:
    """Metadata, and the offset and identity it was committed with (None: unknown).

    `text` is without trailing NULs, `chars` counts them.
    """

    text: str
    chars: int
    offset: int
    identity: CommitIdentity | None = None

    @classmethod
    def of(cls, metadata: str, offset: int, identity: CommitIdentity | None = None) -> "MetadataText":
        """The text as its writer meant it: librdkafka's clients store one NUL more than they were given."""
        return cls(text=metadata.rstrip("\0"), chars=utf16_units(metadata), offset=offset, identity=identity)

    def opaque(self, reason: str = "") -> Reading:
        """A reading of text that no client known here writes; `reason` names what it nearly was."""
        return Reading(dialect=OPAQUE_NAME, state=CommitState(base=self.offset), chars=self.chars, reason=reason)

    def unusable(self, dialect: str, problem: PayloadProblem, reason: str, encoding: str, size: int) -> Reading:
        """A reading of a payload whose writer is known, of which nothing may be relied upon."""
        return Reading(
            dialect=dialect,
            state=CommitState(base=self.offset),
            chars=self.chars,
            problem=problem,
            reason=reason,
            encoding=encoding,
            raw_bytes=size,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dialect:
    """One kind of commit metadata; two records are equal when they are the same one.

    `name` is its word in documents and tables. A text that begins with `mark`, or base64 of bytes that begin with one
    of `first_bytes`, is its own: `decode` gets the text, and the bytes behind base64 (none for a mark), and reads it
    whatever else it holds. No two dialects claim the same beginning.

    `encode` writes a state. `word` names the dialect where commits are edited ("": edits write no such metadata of
    their own accord), `forms` are its words for `encode --as`, with `about_forms` in the help of that option.
    `client_limit_chars` is what its client accepts whatever the brokers allow, `spare_chars` what its writer leaves
    free; `when_too_large` is the advice for a state that does not fit.

    `reader` names the client that reads it, `noun` one piece of it, and `why_one_offset` says why its client cannot
    change to another dialect.

    `effect_of_size` and `effect_of_nul` say what its client does when the metadata is near the limit, and when it ends
    with a NUL ("": nothing); `hazards` are those that other dialects do not have.
    """

    name: str
    decode: Callable[[MetadataText, bytes], Reading]
    encode: Callable[[EncodeRequest], EncodedMetadata]
    mark: str = ""
    first_bytes: frozenset[int] = frozenset()
    word: str = ""
    forms: tuple[str, ...] = ()
    about_forms: str = ""
    client_limit_chars: int | None = None
    spare_chars: int = 0
    ends_with_nul: bool = False
    """True where its client reads with librdkafka's Python binding, which goes on behind a text that has no NUL at its
    end: what lies there in memory is taken for a part of it, or is not Unicode and raises."""
    when_too_large: str = ""
    reader: str
    noun: str
    why_one_offset: str = ""
    has_payload: bool = True
    """False for a commit without metadata, which clients of every dialect make."""
    is_understood: bool = True
    """False where it is unknown what the metadata says above the committed offset."""
    holds_done: bool = False
    """True when it holds which offsets above the committed one are done."""
    holds_details: bool = False
    """True when it holds every other part of a `CommitState` too."""
    counts_from_offset: bool = False
    """True when it is relative to the offset that it is committed with, so that a copy to another offset shifts it."""
    newer_problems: frozenset[PayloadProblem] = frozenset()
    """Problems which say that a newer version of the writer made the payload."""
    find_binding: Callable[[str], Binding | None] | None = None
    """The binding of a payload (None for a text that has none); no function where the dialect is bound to nothing."""
    effect_of_size: Callable[[CommitFacts], str] = no_effect
    effect_of_nul: Callable[[CommitFacts], str] = no_effect
    hazards: Callable[[CommitFacts], Iterable[Hazard]] = no_hazards

    def stored(self, text: str) -> str:
        """A text as it is committed."""
        return text + NUL if text and self.ends_with_nul else text

    @property
    def is_bound(self) -> bool:
        """True when payloads are bound to cluster, topic, partition and group."""
        return self.find_binding is not None


OPAQUE_NAME = "opaque"
"""The dialect of text that no client known here writes."""


def canonical_base64(text: str) -> bytes | None:
    """The bytes behind standard base64 exactly as encoders write it (RFC 4648 section 4, padded); None for all else."""
    if not text.isascii() or len(text) % 4:
        return None
    try:
        data = a2b_base64(text)
    except Error:
        return None
    # Decoding passes over what is no base64, so only the way back tells.
    return data if to_base64(data) == text else None


def to_base64(data: bytes) -> str:
    """Standard base64, padded, on one line."""
    return b2a_base64(data, newline=False).decode("ascii")
