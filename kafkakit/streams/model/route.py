"""The route of a stream: which topics on which clusters carry each of its lanes, and who must read them.

A route is a document of a control store; what makes one valid is checked where it is written and where it is read. Its
rules say which lane a record goes to; `LaneChooser` holds them compiled.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from kafkakit.core.documents import decode_document, encode_document
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import MAX_RATE
from kafkakit.core.query import Field, NumberField, TextField, compile_query, fields_of
from kafkakit.core.query_text import parse_query
from kafkakit.core.records import Headers, OutgoingRecord

LIVE, SLOW, RETRY, DLQ = "live", "slow", "retry", "dlq"
DEFAULT_LANES = (LIVE, SLOW, RETRY, DLQ)
GONE = "the topic does not exist"


class SegmentState(StrEnum):
    """What clients do with a segment; consumers read every segment of a route, whatever its state.

    OPENED is read and not written yet, ACTIVE takes the lane's writes, DRAINING takes none, STRANDED is DRAINING and
    its cluster could not be reached.
    """

    OPENED = "opened"
    ACTIVE = "active"
    DRAINING = "draining"
    STRANDED = "stranded"


class PartitionSeal(NamedTuple):
    """Where a partition ends that is written no more: its high watermark, its last stable offset, and the offset after
    its last record of data. Four numbers in a document, as a route may seal hundreds of partitions."""

    partition: int
    end: int
    stable_end: int
    effective_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """One topic of a lane. `id` is unique in the stream and never used again.

    `cluster` is the profile that clients reach the cluster with; what identifies the topic is `cluster_id` and
    `topic_id`, never an address or a name. `seal` has an entry for each partition, in order, once it is certain that
    the segment is written no more; the ends were read at `sealed_at_ms`. `settings` are the topic's own as the route
    learned of it, sorted by key: an emergency takes them for the next topic, without a look at this one.
    One that `is_held` is not read while its lane has a segment before it, so that what was written earlier is handled
    earlier.
    """

    id: int
    cluster: str
    cluster_id: str
    topic: str
    topic_id: str
    partitions: int
    state: SegmentState
    seal: tuple[PartitionSeal, ...] = ()
    sealed_at_ms: int = 0
    settings: tuple[tuple[str, str], ...] = ()
    is_held: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """A part of a stream with topics of its own; segments are in the order in which they became active.

    `weight` is the lane's share of a consumer's work beside the others'. Producers of a paused lane wait, its consumers
    read nothing. `quota_bytes_per_s` is what each broker takes from all producers of the lane together, None: all.
    `left` are segments that no client reads any more: sealed ones that references to rejected records lead into, and
    those whose topic was deleted and created again.
    """

    name: str
    segments: tuple[Segment, ...]
    weight: int = 1
    is_paused: bool = False
    quota_bytes_per_s: int | None = None
    left: tuple[Segment, ...] = ()

    @property
    def active(self) -> Segment | None:
        """The segment that is written; None where the lane is paused without one."""
        return next((s for s in self.segments if s.state is SegmentState.ACTIVE), None)

    @property
    def readable(self) -> tuple[Segment, ...]:
        """The segments that are read now: none of a paused lane, and a held one when it comes first."""
        if self.is_paused:
            return ()
        return tuple(segment for number, segment in enumerate(self.segments) if number == 0 or not segment.is_held)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRule:
    """Records for which the query `where` holds go to `lane`; the first rule that matches decides, else `live`."""

    lane: str
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRule:
    """A consumer group that must have read a segment before it may be retired."""

    name: str
    ack_epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteOperation:
    """What is under way with a stream: its id, its kind (`failover`, ...) and the step that it has reached."""

    id: str
    kind: str
    step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The route document. `epoch` grows with every change; clients ignore a document with a lower one.

    While `operation` is there, that operation alone changes the route.
    """

    stream: str
    epoch: int
    next_segment: int
    lanes: tuple[Lane, ...]
    rules: tuple[LaneRule, ...] = ()
    groups: tuple[GroupRule, ...] = ()
    operation: RouteOperation | None = None

    def lane(self, name: str) -> Lane | None:
        """The lane of this name."""
        return next((lane for lane in self.lanes if lane.name == name), None)

    def segments(self) -> Iterator[tuple[Lane, Segment]]:
        """Every segment with its lane, in the route's order; those that are left are not among them."""
        return ((lane, segment) for lane in self.lanes for segment in lane.segments)

    def left(self) -> Iterator[tuple[Lane, Segment]]:
        """Every segment that is only kept for references, with its lane."""
        return ((lane, segment) for lane in self.lanes for segment in lane.left)

    @property
    def clusters(self) -> dict[str, str]:
        """The profile of each cluster of the route, by cluster id."""
        return {segment.cluster_id: segment.cluster for _, segment in (*self.left(), *self.segments())}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTopic:
    """A topic of a cluster by its name: its id (None where the cluster gives none) and its partitions."""

    topic_id: str | None
    partitions: int


def segment_problem(segment: Segment, cluster_id: str, found: FoundTopic | None) -> str:
    """Why what the profile and the topic's name lead to is not the segment; empty where it is."""
    if cluster_id != segment.cluster_id:
        return f"profile {segment.cluster} reaches cluster {cluster_id}, not {segment.cluster_id}"
    if found is None:
        return GONE
    if found.topic_id != segment.topic_id:
        return f"the topic was created again (its id is {found.topic_id})"
    if found.partitions != segment.partitions:
        return f"the topic has {found.partitions} partitions, the route says {segment.partitions}"
    return ""


def partitions_of(segment: Segment) -> tuple[TopicPartition, ...]:
    """The partitions of a segment's topic."""
    return tuple(TopicPartition(segment.topic, number) for number in range(segment.partitions))


ROUTE_KIND = "stream-route"
# 4 KiB less than a control store takes: an entry of the history holds the route and more.
ROUTE_LIMIT_BYTES = 60 * 1024
MAX_LANES, MAX_SEGMENTS, MAX_RULES = 32, 64, 100
SHADOW = "kafkakit-rehearsal."
_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,200}")
_OPERATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LANE = re.compile(r"[a-z0-9][a-z0-9-]{0,30}")


def route_path(stream: str) -> str:
    """Where the route of a stream is kept; `UsageError` for a name that no stream can have."""
    return f"streams/{check_stream(stream)}/route"


def history_path(stream: str, epoch: int) -> str:
    """Where the change that led to an epoch is kept; names sort as epochs do."""
    return f"{history_folder(stream)}/{epoch:012d}"


def history_folder(stream: str) -> str:
    """Where the changes of a stream are kept."""
    return f"streams/{check_stream(stream)}/history"


def is_stream_name(name: str) -> bool:
    """Whether a stream may have this name."""
    return _NAME.fullmatch(name) is not None


def check_stream(name: str) -> str:
    """The name itself; `UsageError` unless it has 1 to 200 letters, digits, `.`, `_` and `-`."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name[:80]!r} is not a stream's name", hint="1 to 200 letters, digits, '.', '_' and '-'")
    return name


def refuse_reserved(name: str) -> None:
    """Raise `UsageError` for the name of a shadow, which a rehearsal makes and removes."""
    if name.startswith(SHADOW):
        raise UsageError(
            f"names that begin with {SHADOW} are for rehearsals: kafkakit streams failover rehearse STREAM --to CLUSTER"
        )


def check_lane(name: str) -> str:
    """The name itself; `UsageError` unless it has 1 to 31 small letters, digits and `-`."""
    if not _LANE.fullmatch(name):
        raise UsageError(f"{name[:80]!r} is not a lane's name", hint="1 to 31 small letters, digits and '-'")
    return name


def topic_name(stream: str, lane: str, epoch: int) -> str:
    """The topic that a lane gets for its segment of an epoch."""
    return f"{stream}.{lane}.{epoch}"


def lane_client_id(stream: str, lane: str) -> str:
    """The client id of the lane's producers, which its quota is set on."""
    return f"kafkakit.{stream}.{lane}"


def encode_route(route: Route) -> bytes:
    """The document; raises `UsageError` for a route that is not valid."""
    problem = problem_of(route)
    if problem:
        raise UsageError(f"stream {route.stream}: {problem}")
    data = encode_document(ROUTE_KIND, route)
    if len(data) > ROUTE_LIMIT_BYTES:
        raise UsageError(f"stream {route.stream}: its route has {len(data):,} bytes, at most {ROUTE_LIMIT_BYTES:,}")
    return data


def decode_route(data: bytes, source: str) -> Route:
    """The route in a document; `InputError` where it is another one, or not valid."""
    route = decode_document(data, ROUTE_KIND, Route, source)
    problem = problem_of(route)
    if problem:
        raise InputError(source, problem)
    return route


def problem_of(route: Route) -> str | None:
    """What is wrong with a route, in words; None for a valid one."""
    names = [lane.name for lane in route.lanes]
    segments = [segment for _, segment in (*route.segments(), *route.left())]
    ids = [segment.id for segment in segments]
    places = [(segment.cluster_id, segment.topic_id) for segment in segments]
    if not _NAME.fullmatch(route.stream) or not all(_LANE.fullmatch(name) for name in names):
        return "the name of the stream or of a lane has other characters than names may have"
    if route.epoch < 1 or not names or len(names) > MAX_LANES or len(segments) > MAX_SEGMENTS:
        return f"a route has an epoch of 1 or more, 1 to {MAX_LANES} lanes and at most {MAX_SEGMENTS} segments"
    if len(set(names)) < len(names) or len(set(ids)) < len(ids) or len(set(places)) < len(places):
        return "a lane, the id of a segment or a topic is there twice"
    if any(not 0 < segment.id < route.next_segment or segment.partitions < 1 for segment in segments):
        return f"the ids of segments are 1 to {route.next_segment - 1} here, and a segment has a partition or more"
    for lane in route.lanes:
        if problem := _lane_problem(lane):
            return f"lane {lane.name} has {problem}"
    for segment in segments:
        if not _is_sealed_soundly(segment):
            return f"the seal of segment {segment.id} has not one end for each of its partitions, or it is written"
    found = route.operation
    if found is not None and not all(_OPERATION.fullmatch(word) for word in (found.id, found.kind, found.step)):
        return "the id, the kind or the step of its operation has other characters than they may have"
    if len(route.rules) > MAX_RULES or any(rule.lane not in names for rule in route.rules):
        return f"a route has at most {MAX_RULES} rules, each for a lane of its own"
    return None


def _lane_problem(lane: Lane) -> str | None:
    active = sum(segment.state is SegmentState.ACTIVE for segment in lane.segments)
    if active > 1 or (active == 0 and not lane.is_paused):
        return f"{active} active segments: it needs one, or must be paused"
    if not 1 <= lane.weight <= 1000:
        return f"the weight {lane.weight}: 1 to 1000"
    if lane.quota_bytes_per_s is not None and not 1 <= lane.quota_bytes_per_s <= MAX_RATE:
        return f"the quota {lane.quota_bytes_per_s} bytes/s: 1 to {MAX_RATE}"
    return None


def _is_sealed_soundly(segment: Segment) -> bool:
    """Whether there is no seal, or one of a segment that is not written, in order of partitions and offsets."""
    if not segment.seal:
        return segment.sealed_at_ms == 0
    is_in_order = all(
        each.partition == number and 0 <= each.effective_end <= each.stable_end <= each.end
        for number, each in enumerate(segment.seal)
    )
    is_left = segment.state in (SegmentState.DRAINING, SegmentState.STRANDED)
    return is_left and is_in_order and len(segment.seal) == segment.partitions and segment.sealed_at_ms > 0


HEADER = "header."


@dataclass(slots=True)
class _Moment:
    record: OutgoingRecord
    now_ms: int


class LaneChooser:
    """The rules of a route. Queries see `key` and `header.NAME` (text, absent where it is no UTF-8), `tenant` (the
    header of this name), `bytes` (key, value and headers) and `age_s` (whole seconds, below 0 for a time to come).

    Raises `UsageError` that names the rule, with the column of a query that cannot be read.
    """

    def __init__(self, rules: Sequence[LaneRule], lanes: Collection[str]) -> None:
        self._tests = [(rule.lane, _test(number, rule, lanes)) for number, rule in enumerate(rules, 1)]

    def choose(self, record: OutgoingRecord, now_ms: int) -> str:
        """The lane of the first rule that matches, else `live`. Cost: the tests up to it, about 1 us each."""
        if not self._tests:
            return LIVE
        at = self.deciding(record, now_ms)
        return LIVE if at is None else self._tests[at][0]

    def deciding(self, record: OutgoingRecord, now_ms: int) -> int | None:
        """The place (from 0) of the rule that decides; None where no rule matches."""
        moment = _Moment(record, now_ms)
        for at, (_, matches) in enumerate(self._tests):
            if matches(moment):
                return at
        return None


def with_rules(route: Route, rules: Sequence[LaneRule]) -> Route:
    """The route with other rules; `UsageError` for one that names no lane of it, or a query that cannot be read."""
    LaneChooser(rules, [lane.name for lane in route.lanes])
    return replace(route, rules=tuple(rules))


def _test(number: int, rule: LaneRule, lanes: Collection[str]) -> Callable[[_Moment], bool]:
    if rule.lane not in lanes:
        raise UsageError(
            f"rule {number}: there is no lane {rule.lane[:40]!r}", hint=f"the lanes are {', '.join(sorted(lanes))}"
        )
    try:
        return compile_query(parse_query(rule.where), _field)
    except UsageError as error:
        failure = UsageError(f"rule {number} (lane {rule.lane}): {error.message}", hint=error.hint)
        failure.lines = error.lines
        raise failure from None


def text_of_bytes(data: bytes | None) -> str | None:
    """Bytes as text; None for none, and for what is no UTF-8."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def header_text(headers: Headers, name: str) -> str | None:
    """The last header of a name, as text; None where there is none, or it is null or no UTF-8."""
    found: bytes | None = None
    for own, value in headers:
        if own == name:
            found = value
    return text_of_bytes(found)


def _bytes(moment: _Moment) -> int:
    record = moment.record
    size = len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += len(name) + len(value or b"")
    return size


def _age_s(moment: _Moment) -> int:
    at_ms = moment.record.at_ms
    return 0 if at_ms is None else (moment.now_ms - at_ms) // 1000


def _header(name: str) -> Field[_Moment]:
    return TextField(lambda moment: header_text(moment.record.headers, name))


_KNOWN: Mapping[str, Field[_Moment]] = MappingProxyType(
    {
        "key": TextField(lambda moment: text_of_bytes(moment.record.key)),
        "tenant": _header("tenant"),
        "bytes": NumberField(_bytes),
        "age_s": NumberField(_age_s),
        "header.NAME": _header("NAME"),
    }
)
_known_field = fields_of(_KNOWN)


def _field(key: str) -> Field[_Moment] | None:
    return _header(key.removeprefix(HEADER)) if key.startswith(HEADER) else _known_field(key)
