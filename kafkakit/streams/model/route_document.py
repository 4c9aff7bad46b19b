"""Routes as documents of a control store, and what makes one valid."""

import re

from kafkakit.core.documents import decode_document, encode_document
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.quantities import MAX_RATE
from kafkakit.streams.model.route import Lane, Route, Segment, SegmentState

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
        raise UsageError(f"names that begin with {SHADOW} are those of rehearsals: kafkakit streams failover rehearse")


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
    segments = [segment for _, segment in route.segments()]
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
