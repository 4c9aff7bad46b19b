"""Records as the producer takes them: what is refused and why, the headers that each gets, and where they go.

`kafkakit-id` names the record wherever it is copied to (`streams/model/record_identity.py`). `kafkakit-ingested-ms` is
when it was handed to the producer, ms of UTC in decimal digits. A record that has them, as a replayed one, keeps them.
The records of a lane go where the route says, once that place is the one that the route means.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kafkakit.core.errors import InfeasibleError, OperationFailedError, RefusedError, TryLaterError, UsageError
from kafkakit.core.records import BatchLimits, Headers, OutgoingRecord, TopicIdentity
from kafkakit.core.text import shell_command
from kafkakit.streams.model.commit import is_other_topic, topic_id_bytes, topic_id_text
from kafkakit.streams.model.record_identity import HEADER, decode_record_id
from kafkakit.streams.model.route import Route, Segment, SegmentState

INGESTED_HEADER = "kafkakit-ingested-ms"
MAX_HEADERS = 1_000
HEADER_NAME_BYTES = 32_767
MAX_TIME_MS = (1 << 63) - 1
MAX_PARTITION = (1 << 31) - 1
_RECORD_FIELDS_BYTES = 36
"""At most: length, attributes, deltas of time and offset, lengths of key and value, number of headers."""
_HEADER_FIELDS_BYTES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerLimits:
    """What a producer may hold and how long it waits.

    `batch_bytes` bounds records and batches before compression, so consumers never see a larger batch. `lane_bytes` and
    `lane_records` bound what a lane holds without acknowledgement, each lane by itself. A record that has no
    acknowledgement after `delivery_s` fails. After a change of the route, records that are on their way to the old
    segment have `drain_s` to be acknowledged there before they are sent to the new one. A record that a broker refuses
    is tried again for `refused_s`, as it may be refused because the route is changing.
    """

    batch_bytes: int = 16 << 20
    lane_bytes: int = 64 << 20
    lane_records: int = 100_000
    delivery_s: float = 120.0
    drain_s: float = 1.0
    refused_s: float = 5.0
    linger_ms: int = 5
    compression: str = "zstd"

    def __post_init__(self) -> None:
        if not 1_000 <= self.batch_bytes <= 900_000_000 or self.lane_bytes < self.batch_bytes:
            raise UsageError("batch_bytes is 1,000 to 900,000,000, and lane_bytes not less")
        if not 1 <= self.lane_records <= 10_000_000 or self.lane_bytes > 1 << 36:
            raise UsageError("lane_records is 1 to 10,000,000, and lane_bytes at most 64 GiB")
        if not 0.1 <= self.delivery_s <= 86_400 or not 0 <= self.drain_s <= 60 or not 0 <= self.refused_s <= 60:
            raise UsageError("delivery_s is 0.1 to 86,400, drain_s and refused_s are 0 to 60")
        if not 0 <= self.linger_ms <= 1_000 or self.linger_ms >= self.delivery_s * 1_000:
            raise UsageError("linger_ms is 0 to 1,000, and less than delivery_s")
        if self.compression not in ("none", "gzip", "snappy", "lz4", "zstd"):
            raise UsageError(f"{self.compression!r} is not a compression type", hint="none, gzip, snappy, lz4 or zstd")

    @property
    def of_connection(self) -> BatchLimits:
        """The limits of one Kafka producer, which holds at most a lane's records."""
        return BatchLimits(
            record_bytes=self.batch_bytes,
            linger_ms=self.linger_ms,
            delivery_timeout_ms=int(self.delivery_s * 1_000),
            queue_bytes=2 * self.lane_bytes,
            queue_records=2 * self.lane_records,
            compression=self.compression,
        )


def check_record(record: OutgoingRecord) -> None:
    """`RecordRefusedError` unless every part but the headers has a type and a range that Kafka takes."""
    value, key, _, at_ms, partition = record
    if value is not None and type(value) is not bytes:
        wrong, hint = type(value).__name__, "encode it, or give RecordHooks a value_serializer"
        raise RecordRefusedError(f"a record's value is bytes or None, not {wrong}", hint=hint)
    if key is not None and type(key) is not bytes:
        wrong, hint = type(key).__name__, "encode it, or give RecordHooks a key_serializer"
        raise RecordRefusedError(f"a record's key is bytes or None, not {wrong}", hint=hint)
    if at_ms is not None and not (type(at_ms) is int and 0 <= at_ms <= MAX_TIME_MS):
        raise RecordRefusedError("a record's time is a number of ms since 1970, or None")
    if partition is not None and not (type(partition) is int and 0 <= partition <= MAX_PARTITION):
        raise RecordRefusedError("a partition is a number from 0, or None for the partitioner's choice")


def checked_headers(headers: Iterable[tuple[str, bytes | None]]) -> Headers:
    """The headers as a record holds them; `RecordRefusedError` for what Kafka or its client does not take."""
    try:
        pairs = tuple((name, content) for name, content in headers)
    except (TypeError, ValueError):
        raise RecordRefusedError("headers are pairs of a name and bytes or None") from None
    if len(pairs) > MAX_HEADERS:
        raise RecordRefusedError(f"headers are at most {MAX_HEADERS:,} pairs of a name and bytes or None")
    for name, content in pairs:
        _check_header(name, content)
    return pairs


def complete(headers: Headers, own: Headers) -> Headers:
    """Headers with those of the producer's own that they lack, last. An id that cannot be read is replaced."""
    kept = tuple(header for header in headers if not _is_damaged_id(header))
    names = {name for name, _ in kept}
    return (*kept, *(header for header in own if header[0] not in names))


def record_bytes(record: OutgoingRecord) -> int:
    """The most bytes that a record takes in a batch before compression."""
    size = _RECORD_FIELDS_BYTES + len(record.value or b"") + len(record.key or b"")
    for name, value in record.headers:
        size += _HEADER_FIELDS_BYTES + len(name if name.isascii() else name.encode()) + (len(value) if value else 0)
    return size


class RecordRefusedError(UsageError):
    """A record that cannot be written as it is: a wrong type, name, time, partition or lane."""


class RecordTooLargeError(RecordRefusedError):
    """A record above the stream's limit of decompressed bytes."""


def too_large(size: int, limit_bytes: int) -> RecordTooLargeError:
    """The error for a record whose bytes are above the limit."""
    return RecordTooLargeError(
        f"a record has {size:,} bytes, and batches of the stream at most {limit_bytes:,} before compression",
        hint="keep large values elsewhere and write a reference, or raise batch_bytes for all its clients",
    )


def _check_header(name: object, value: object) -> None:
    # The binding of librdkafka crashes on names of another type, and on text that is not UTF-8; NUL would end a name.
    if type(name) is not str or not name or "\0" in name:
        raise RecordRefusedError("a header's name is text of one character or more, without NUL")
    try:
        encoded = name.encode()
    except UnicodeEncodeError:
        raise RecordRefusedError("a header's name is text that UTF-8 can hold") from None
    if len(encoded) > HEADER_NAME_BYTES:
        raise RecordRefusedError(f"a header's name has {len(encoded):,} bytes, at most {HEADER_NAME_BYTES:,}")
    if value is not None and type(value) is not bytes:
        raise RecordRefusedError(f"the value of header {name[:80]!r} is bytes or None, not {type(value).__name__}")


def _is_damaged_id(header: tuple[str, bytes | None]) -> bool:
    return header[0] == HEADER and (header[1] is None or decode_record_id(header[1]) is None)


class ProducerClosedError(UsageError):
    """The producer was closed before the record was acknowledged; it may be written or not."""


class BackPressureError(TryLaterError):
    """The lane holds as much as it may, and nothing was acknowledged in time; the record was not taken."""


class NotAcknowledgedError(OperationFailedError):
    """A record was given up; `may_be_written` False means that it certainly was not written."""

    def __init__(self, message: str, *, may_be_written: bool, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.may_be_written = may_be_written


class LanePausedError(NotAcknowledgedError):
    """The lane took no writes until the record's time limit ended."""


class DualWriteError(NotAcknowledgedError):
    """One or both sides of a dual write failed; each is None where that side has the record."""

    def __init__(self, primary: BaseException | None, secondary: BaseException | None) -> None:
        sides = (("primary", primary), ("secondary", secondary))
        texts = [f"the {name}: {error}" for name, error in sides if error is not None]
        has_one = primary is None or secondary is None
        may_be_written = has_one or any(
            not isinstance(error, NotAcknowledgedError) or error.may_be_written for _, error in sides
        )
        super().__init__(f"not written twice: {'; '.join(texts)}", may_be_written=may_be_written)
        self.primary, self.secondary = primary, secondary


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTarget:
    """The segment that takes a lane's writes, None while none does, and why not.

    `next_segments` are those that may take them after a change of the route, and are connected to in advance.
    """

    epoch: int
    segment: Segment | None
    next_segments: tuple[Segment, ...] = ()
    reason: str = ""


def lane_target(route: Route, name: str) -> LaneTarget:
    """Where the records of a lane go."""
    lane = route.lane(name)
    if lane is None:
        return LaneTarget(
            epoch=route.epoch, segment=None, reason=f"epoch {route.epoch} of the route has no lane {name}"
        )
    opened = tuple(segment for segment in lane.segments if segment.state is SegmentState.OPENED)
    if lane.is_paused or lane.active is None:
        reason = f"lane {name} is paused in epoch {route.epoch} of the route"
        return LaneTarget(epoch=route.epoch, segment=None, next_segments=opened, reason=reason)
    return LaneTarget(epoch=route.epoch, segment=lane.active, next_segments=opened)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformPlace:
    """Where a transform reads and writes: the segments of both streams that it began with."""

    source: Segment
    target: Segment


def transform_place(source: Route, lane: str, target: Route, target_lane: str) -> TransformPlace:
    """The segments of a transform; `InfeasibleError` where no transaction holds what it reads and what it writes.

    A transaction is of one cluster. `TryLaterError` while the lane to be written is paused.
    """
    read = source.lane(lane)
    if read is None:
        raise UsageError(f"stream {source.stream} has no lane {lane}")
    if target.lane(target_lane) is None:
        raise UsageError(f"stream {target.stream} has no lane {target_lane}")
    if (source.stream, lane) == (target.stream, target_lane):
        raise UsageError(f"a transform of lane {lane} of {source.stream} into itself would never end")
    if read.is_paused:
        raise TryLaterError(f"lane {lane} is paused in epoch {source.epoch} of the route")
    segments = read.readable
    if len(segments) != 1:
        facts = ", ".join(f"segment {each.id} ({each.state}) on {each.cluster}" for each in segments) or "none"
        raise InfeasibleError(
            f"a transform reads one segment, and lane {lane} of {source.stream} has {facts} in epoch {source.epoch}",
            hint="wait until the older ones are drained, or use a consumer and a producer, which are at least once",
        )
    found = lane_target(target, target_lane)
    if found.segment is None:
        raise TryLaterError(found.reason)
    if found.segment.cluster_id != segments[0].cluster_id:
        raise InfeasibleError(
            f"a transaction is of one cluster, and {source.stream} is read on {segments[0].cluster} while "
            f"{target.stream} is written on {found.segment.cluster}",
            hint="move one of the streams, or use a consumer and a producer, which are at least once",
        )
    return TransformPlace(source=segments[0], target=found.segment)


def check_unmoved(began: TransformPlace, now: TransformPlace) -> None:
    """`InfeasibleError` where a route has moved on, so that a transform writes no more."""
    for name, old, new in (("read", began.source, now.source), ("written", began.target, now.target)):
        if old.id != new.id:
            raise InfeasibleError(
                f"the transform began with segment {old.id} ({old.topic}) to be {name}, and it is segment {new.id} "
                f"({new.topic}) now",
                hint="start it again: it continues from what it committed, with the new segments",
            )


class MissingTopicError(TryLaterError):
    """A segment's topic is not there, at least not yet: brokers learn of a new one at different times."""


def check_place(stream: str, lane: str, segment: Segment, found: TopicIdentity) -> None:
    """`RefusedError` unless cluster and topic are those of a lane's segment; an address and a name prove nothing.

    `MissingTopicError` for a topic that is not there.
    """
    if found.cluster_id != segment.cluster_id:
        raise RefusedError(
            f"segment {segment.id} is on cluster {segment.cluster_id}, but the address of profile {segment.cluster} "
            f"answers as cluster {found.cluster_id}",
            hint="check the profile's address",
        )
    if not found.partitions:
        raise MissingTopicError(f"cluster {found.cluster_id} has no topic {segment.topic}")
    check_topic(stream, lane, segment, found)


def check_topic(stream: str, lane: str, segment: Segment, found: TopicIdentity) -> None:
    """`RefusedError` if the topic that a lane's segment has on its cluster is another one of the same name."""
    if is_other_topic(segment.topic_id, found.topic_id):
        link = shell_command("streams link", stream, topic=segment.topic, lane=lane, cluster=segment.cluster)
        raise RefusedError(
            f"segment {segment.id} is topic {segment.topic} with the id {_id_text(segment.topic_id)}, but the topic of "
            f"that name has the id {_id_text(found.topic_id)}: it was deleted and created again",
            hint=f"once nobody needs what the old topic held, put the new one in its place: {link}",
        )


def _id_text(topic_id: str) -> str:
    return topic_id_text(topic_id_bytes(topic_id))
