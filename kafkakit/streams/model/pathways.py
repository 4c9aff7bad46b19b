"""Pathways of records as tracers of Data Streams Monitoring write them: hashes, context, checkpoints, payload.

    node    = FNV-1(utf8(service) + utf8(env) + extra + utf8(tag) for each tag in order)
    pathway = FNV-1(LE64(node) + LE64(parent)), the parent is 0 at the start

Tags are sorted and all are hashed, as dd-trace-py does it. Go and Java hash other tags in other orders, so one node has
two hashes in two languages: the hash of another hop cannot be computed again.

Context: `dd-pathway-ctx-base64` is standard base64, with padding, of the binary form: 8 bytes of hash, little endian;
then the start of the pathway and the start of the edge, each in ms of unix time, signed (zigzag), as a varint of at
most 9 bytes of which the ninth carries 8 bits. `dd-pathway-ctx`, the older name, holds the binary form, or base64 of
it. Present-day times take 6 bytes each: 20 in all, 28 characters.

Checkpoints: an application keeps one `PathwayNode`, and for each record: `checkpoint_in` with the headers of what it
consumed, then `checkpoint_out` with the context from there (None for a record that begins a pathway), whose headers go
with the record that it produces. The points go to `PathwayBuckets`: 10 s each, by tags, hash and parent. Times are
arguments, in ms of unix time. Two checkpoints in a row with one direction do not lengthen the pathway: the second takes
as its parent the hash before the first; where that is 0, the pathway begins anew. This is the rule of dd-trace-py and
dd-trace-java. The edge of the second is measured from its parent, as dd-trace-rb does it; dd-trace-py measures it from
the first.

DDSketch counts values in bins whose bounds grow by a factor, so that quantiles have a bounded relative error: bin `i`
holds the values v with floor(ln v / ln gamma + offset) = i. Gamma and offset are those with which the Go and Java
tracers write: an error of at most 0.775 %. The lowest bins are joined once they would be more than 2,048, which takes
values that differ by 13 powers of ten. Source: Masson, Rim, Lee: DDSketch, VLDB 2019; ddsketch.proto of
https://github.com/DataDog/sketches-go.

Payload: an agent of Datadog takes buckets at `POST /v0.1/pipeline_stats`, as a map of msgpack, compressed with gzip,
and hands the body on without reading it. Its answer to an agent older than 7.34 is 404.
"""

import gzip
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from math import exp, floor, log
from struct import pack
from typing import NamedTuple

import msgspec

from kafkakit.streams.model.binary import uvarint, zigzag

OFFSET_BASIS = 0xCBF29CE484222325
PRIME = 0x100000001B3
_MASK = (1 << 64) - 1
_CACHED = 4096

OUT, IN = "direction:out", "direction:in"


def fnv1_64(data: bytes) -> int:
    """FNV-1 of 64 bits: multiply, then xor. Costs about 0.1 us a byte."""
    value = OFFSET_BASIS
    for byte in data:
        value = (value * PRIME & _MASK) ^ byte
    return value


@lru_cache(_CACHED)
def node_hash(service: str, env: str, tags: tuple[str, ...], extra: bytes = b"") -> int:
    """The hash of one service at one edge; `tags` are in the order in which they count.

    `extra` is what some tracers put before the tags: 8 bytes of their process tags. It makes the hash depend on the
    folder in which a program is started, so kafkakit writes none.
    """
    return fnv1_64(service.encode() + env.encode() + extra + "".join(tags).encode())


@lru_cache(_CACHED)
def pathway_hash(node: int, parent: int) -> int:
    """The hash of a pathway that has come to a node; both numbers have 64 bits."""
    return fnv1_64(node.to_bytes(8, "little") + parent.to_bytes(8, "little"))


def produce_tags(topic: str, cluster_id: str = "") -> tuple[str, ...]:
    """The tags of an edge into a topic, sorted; `cluster_id` is left out where it is not known.

    The topic is the stream's name, where it has one: with the names of lanes and of failover targets in its place,
    each of them would begin a pathway of its own.
    """
    return _sorted_tags(OUT, topic, cluster_id)


def consume_tags(topic: str, group: str, cluster_id: str = "") -> tuple[str, ...]:
    """The tags of an edge from a topic to a consumer group, sorted; see `produce_tags`."""
    return _sorted_tags(IN, topic, cluster_id, f"group:{group}")


def _sorted_tags(direction: str, topic: str, cluster_id: str, *more: str) -> tuple[str, ...]:
    known = (f"kafka_cluster_id:{cluster_id}",) if cluster_id else ()
    return tuple(sorted((direction, f"topic:{topic}", "type:kafka", *more, *known)))


HEADER = "dd-pathway-ctx-base64"
OLD_HEADER = "dd-pathway-ctx"
MOST_BYTES = 26
"""The largest binary form: a hash and two varints of 9 bytes."""

EARLIEST_MS = 1_420_070_400_000
"""2015-01-01: older times are damage."""

MOST_AHEAD_MS = 86_400_000
"""How far a time may lie ahead of the reader's clock: a day."""

_MOST_TEXT = 36  # characters of base64 that 26 bytes take
_VARINT_BYTES = 9

Headers = Iterable[tuple[str, bytes | None]]


class PathwayContext(NamedTuple):  # one is made for each record: a frozen dataclass takes three times as long
    """Where a pathway has come to: its hash, when it began, and when its last checkpoint was, in ms of unix time.

    The hash has 64 bits; it is 0 for a pathway that begins. Times are signed and have 64 bits. The rest stays in the
    process: the direction of the last checkpoint, and hash and edge start before the first of those checkpoints in a
    row that have this direction.
    """

    hash: int
    start_ms: int
    edge_ms: int
    direction: str = ""
    opposite_hash: int = 0
    opposite_edge_ms: int = 0


@dataclass(frozen=True, slots=True)
class ContextFault:
    """Why a header holds no pathway context that can be used."""

    reason: str


def encode_binary(context: PathwayContext) -> bytes:
    """The binary form, 10 to 26 bytes."""
    return context.hash.to_bytes(8, "little") + _varint(context.start_ms) + _varint(context.edge_ms)


def encode_header(context: PathwayContext) -> bytes:
    """The value of the header `dd-pathway-ctx-base64`."""
    return b2a_base64(encode_binary(context), newline=False)


def decode_binary(data: bytes) -> PathwayContext | ContextFault:
    """Read the binary form; what follows the two times is left alone, as other readers do. Never raises.

    Times may be any: see `context_of`.
    """
    if len(data) > MOST_BYTES:
        return ContextFault(f"{len(data)} bytes, at most {MOST_BYTES} are read")
    start_ms, at = _read_varint(data, 8)
    edge_ms, at = _read_varint(data, at)
    if at < 0:
        return ContextFault("it ends too early")
    return PathwayContext(int.from_bytes(data[:8], "little"), start_ms, edge_ms)


def decode_header(value: bytes) -> PathwayContext | ContextFault:
    """Read the value of the header `dd-pathway-ctx-base64`; as `decode_binary`."""
    if len(value) > _MOST_TEXT:
        return ContextFault(f"{len(value)} characters, at most {_MOST_TEXT} are read")
    try:
        return decode_binary(a2b_base64(value, strict_mode=True))
    except ValueError:
        return ContextFault("not base64")


def context_of(headers: Headers, now_ms: int) -> PathwayContext | ContextFault | None:
    """The pathway context of a record, None where it has no such header. Never raises.

    The newer header counts, then the older; of several with one name the last. A hash of 0 and times before 2015 or
    more than a day ahead of `now_ms` are faults: a checkpoint begins a new pathway then.
    """
    new: bytes | None = None
    old: bytes | None = None
    for name, value in headers:
        if name == HEADER:
            new = value
        elif name == OLD_HEADER:
            old = value
    if new is not None:
        return _require_usable(decode_header(new), now_ms)
    if old is None:
        return None
    found = decode_binary(old)
    if isinstance(found, ContextFault) or not found.hash:
        found = decode_header(old)
    return _require_usable(found, now_ms)


def _require_usable(found: PathwayContext | ContextFault, now_ms: int) -> PathwayContext | ContextFault:
    if isinstance(found, ContextFault):
        return found
    if not found.hash:
        return ContextFault("its hash is 0")
    latest = now_ms + MOST_AHEAD_MS
    if not (EARLIEST_MS <= found.start_ms <= latest and EARLIEST_MS <= found.edge_ms <= latest):
        return ContextFault("its times are before 2015 or more than a day ahead")
    return found


def _varint(value: int) -> bytes:
    left = (value << 1 ^ value >> 63) & _MASK
    out = bytearray()
    while left > 127 and len(out) < _VARINT_BYTES - 1:
        out.append(left & 127 | 128)
        left >>= 7
    out.append(left)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A signed number at `at` and where it ends: -1 where the bytes end first, or `at` is -1."""
    value = 0
    if at >= 0:
        for i, byte in enumerate(data[at : at + _VARINT_BYTES]):
            is_ninth = i == _VARINT_BYTES - 1
            value |= (byte if is_ninth else byte & 127) << 7 * i
            if byte < 128 or is_ninth:
                return value >> 1 ^ -(value & 1), at + i + 1
    return 0, -1


@dataclass(frozen=True, slots=True)
class PathwayNode:
    """A service as it appears in pathways; an environment that is not set is `none`."""

    service: str
    env: str = "none"


class PathwayPoint(NamedTuple):  # one is made for each record, as with PathwayContext
    """What one checkpoint measured: latencies in ms, since the start of the pathway and since the last checkpoint.

    Both are at least 0; `is_skewed` says that one was below, so clocks of hosts differ.
    """

    at_ms: int
    tags: tuple[str, ...]
    hash: int
    parent: int
    pathway_ms: int
    edge_ms: int
    payload_bytes: int
    is_skewed: bool


def checkpoint_out(
    node: PathwayNode, context: PathwayContext | None, tags: Iterable[str], now_ms: int, payload_bytes: int = 0
) -> tuple[tuple[tuple[str, bytes], ...], PathwayContext, PathwayPoint]:
    """Set a checkpoint before a record is produced: the headers to add to it, where the pathway has come to, the point.

    `context` is that of the record from which this one is made, None for none; `tags` are those of `produce_tags`,
    in any order; `payload_bytes` are key, value and headers. A header of that name that the record has already must be
    taken out. `ValueError` for tags that are no Unicode.
    """
    after, point = _checkpoint(node, context, OUT, tags, now_ms, payload_bytes)
    return ((HEADER, encode_header(after)),), after, point


def checkpoint_in(
    node: PathwayNode, headers: Headers, tags: Iterable[str], now_ms: int, payload_bytes: int = 0
) -> tuple[PathwayContext, PathwayPoint]:
    """Set a checkpoint after a record was consumed: where the pathway has come to, and the point.

    A record without a context that can be used begins a pathway; no header makes it raise. `tags` are those of
    `consume_tags`, see `checkpoint_out`.
    """
    found = context_of(headers, now_ms)
    return _checkpoint(node, found if isinstance(found, PathwayContext) else None, IN, tags, now_ms, payload_bytes)


def _checkpoint(
    node: PathwayNode,
    before: PathwayContext | None,
    direction: str,
    tags: Iterable[str],
    now_ms: int,
    payload_bytes: int,
) -> tuple[PathwayContext, PathwayPoint]:
    before = before or PathwayContext(0, now_ms, now_ms)
    start_ms, edge_ms, parent = before.start_ms, before.edge_ms, before.hash
    opposite_hash, opposite_edge_ms = parent, edge_ms
    if before.direction == direction:
        opposite_hash, opposite_edge_ms = before.opposite_hash, before.opposite_edge_ms
        parent, edge_ms = opposite_hash, opposite_edge_ms
        if not parent:
            start_ms = edge_ms = now_ms
    ordered = tuple(sorted(tags))
    grown = pathway_hash(node_hash(node.service, node.env, ordered), parent)
    whole_ms, part_ms = now_ms - start_ms, now_ms - edge_ms
    skewed = whole_ms < 0 or part_ms < 0
    point = PathwayPoint(
        now_ms, ordered, grown, parent, max(whole_ms, 0), max(part_ms, 0), payload_bytes, is_skewed=skewed
    )
    return PathwayContext(grown, start_ms, now_ms, direction, opposite_hash, opposite_edge_ms), point


GAMMA = 1.015625
OFFSET = 1.8761281912861705
MOST_BINS = 2048
_PER_LOG = 1 / log(GAMMA)
_MIDDLE = 2 * GAMMA / (1 + GAMMA)
"""What the lower bound of a bin is multiplied with for the value that is within the error of all others in it."""

_MAPPING, _POSITIVE, _GAMMA, _OFFSET, _COUNTS = b"\x0a", b"\x12", b"\x09", b"\x11", b"\x12"
_FIRST_INDEX, _ZEROS = b"\x18", b"\x21"
"""Tags of the fields in ddsketch.proto: number and wire type."""


class DDSketch:
    """Counts of finite values, and their `total`; those of 0 and below count as 0. At most 2,048 bins.

    Sketches merge exactly: the merged one is equal to that of all values, in whatever order they came, but for the
    rounding of `total`.
    """

    __slots__ = ("_bins", "_lowest", "_top", "count", "largest", "total", "zeros")

    def __init__(self) -> None:
        self.count = self.zeros = 0
        self.largest = self.total = 0.0
        self._bins: dict[int, int] = {}
        self._top = self._lowest = 0

    def add(self, value: float) -> None:
        """Count one value."""
        self.count += 1
        if value <= 0:
            self.zeros += 1
            return
        self.largest = max(self.largest, value)
        self.total += value
        self._put(floor(log(value) * _PER_LOG + OFFSET), 1)

    def merge(self, other: "DDSketch") -> None:
        """Count all values of another sketch, too."""
        self.count += other.count
        self.zeros += other.zeros
        self.largest = max(self.largest, other.largest)
        self.total += other.total
        for index, number in other._bins.items():
            self._put(index, number)

    def quantile(self, share: float) -> float | None:
        """The value with the rank `share * (count - 1)`, rounded down, within 0.775 %; None for an empty sketch.

        The highest is exact.
        """
        if not self.count:
            return None
        rank = int(share * (self.count - 1))
        if rank == self.count - 1:
            return self.largest
        if rank < self.zeros:
            return 0.0
        passed, value = self.zeros, 0.0
        for index in sorted(self._bins):
            passed += self._bins[index]
            value = exp((index - OFFSET) / _PER_LOG) * _MIDDLE
            if rank < passed:
                break
        return min(value, self.largest)

    def encode(self) -> bytes:
        """The DDSketch message of protobuf, its bins dense from the lowest to the highest: at most 16.5 KB."""
        mapping = _GAMMA + pack("<d", GAMMA) + _OFFSET + pack("<d", OFFSET)
        out = _MAPPING + uvarint(len(mapping)) + mapping
        if self._bins:
            span = range(self._lowest, self._top + 1)
            counts = pack(f"<{len(span)}d", *(self._bins.get(index, 0) for index in span))
            store = _COUNTS + uvarint(len(counts)) + counts + _FIRST_INDEX + uvarint(zigzag(self._lowest))
            out += _POSITIVE + uvarint(len(store)) + store
        return out + (_ZEROS + pack("<d", self.zeros) if self.zeros else b"")

    def _put(self, index: int, number: int) -> None:
        bins = self._bins
        if not bins:
            self._top = self._lowest = index
        if index > self._top:
            self._top = index
            floor_index = index - MOST_BINS + 1
            if self._lowest < floor_index:
                joined = sum(bins.pop(low) for low in [low for low in bins if low < floor_index])
                bins[floor_index] = bins.get(floor_index, 0) + joined
                self._lowest = floor_index
        index = max(index, self._top - MOST_BINS + 1)
        self._lowest = min(self._lowest, index)
        bins[index] = bins.get(index, 0) + number


BUCKET_MS = 10_000
FOLDED_TAGS = ("overflow:true", "type:kafka")
"""The tags of what is summed up together for want of space; its hash and parent are 0."""

EdgeKey = tuple[tuple[str, ...], int, int]
"""Tags, hash and parent."""


@dataclass(slots=True)
class EdgeSums:
    """Latencies in seconds and sizes in bytes of one edge in one bucket."""

    pathway_s: DDSketch = field(default_factory=DDSketch)
    edge_s: DDSketch = field(default_factory=DDSketch)
    payload_bytes: DDSketch = field(default_factory=DDSketch)

    def merge(self, other: "EdgeSums") -> None:
        """Count all of other sums, too."""
        self.pathway_s.merge(other.pathway_s)
        self.edge_s.merge(other.edge_s)
        self.payload_bytes.merge(other.payload_bytes)


@dataclass(slots=True)
class Bucket:
    """10 s from `start_ms` on: edges, and by its tags the highest offset that was produced or committed."""

    start_ms: int
    edges: dict[EdgeKey, EdgeSums] = field(default_factory=dict)
    offsets: dict[tuple[str, ...], int] = field(default_factory=dict)


class PathwayBuckets:
    """Sums up points; for one thread. At most `max_pathways` edges, and as many offsets, in a bucket.

    Edges beyond that are summed up as one and counted in `folded`; offsets beyond it are left out. There are at most
    `max_buckets` at a time: while they are not taken, points of further ones are left out. What is left out is counted
    in `dropped`. `skewed` counts the points with a time below 0.
    """

    def __init__(self, *, max_pathways: int = 1000, max_buckets: int = 60) -> None:
        self._max_pathways, self._max_buckets = max_pathways, max_buckets
        self._buckets: dict[int, Bucket] = {}
        self.folded = self.dropped = self.skewed = 0

    def add(self, point: PathwayPoint) -> None:
        """Count one point in the bucket of its time."""
        self.skewed += point.is_skewed
        bucket = self._bucket(point.at_ms)
        if bucket is None:
            return
        key: EdgeKey = (point.tags, point.hash, point.parent)
        sums = bucket.edges.get(key)
        if sums is None:
            if len(bucket.edges) >= self._max_pathways:
                self.folded += 1
                key = (FOLDED_TAGS, 0, 0)
            sums = bucket.edges.setdefault(key, EdgeSums())
        sums.pathway_s.add(point.pathway_ms / 1000)
        sums.edge_s.add(point.edge_ms / 1000)
        sums.payload_bytes.add(point.payload_bytes)

    def note_offset(self, tags: Iterable[str], offset: int, at_ms: int) -> None:
        """Keep the highest offset of a bucket for these tags, see `produced_tags` and `committed_tags`."""
        bucket = self._bucket(at_ms)
        if bucket is None:
            return
        key = tuple(sorted(tags))
        if key not in bucket.offsets and len(bucket.offsets) >= self._max_pathways:
            self.dropped += 1
            return
        bucket.offsets[key] = max(offset, bucket.offsets.get(key, offset))

    def take(self, now_ms: int | None = None) -> tuple[Bucket, ...]:
        """The buckets that have ended at `now_ms` (None: all of them), oldest first; they are let go of."""
        return tuple(self._taken(now_ms))

    def _taken(self, now_ms: int | None) -> Iterator[Bucket]:
        for start_ms in sorted(self._buckets):
            if now_ms is None or start_ms + BUCKET_MS <= now_ms:
                yield self._buckets.pop(start_ms)

    def _bucket(self, at_ms: int) -> Bucket | None:
        start_ms = at_ms - at_ms % BUCKET_MS
        bucket = self._buckets.get(start_ms)
        if bucket is None:
            if len(self._buckets) >= self._max_buckets:
                self.dropped += 1
                return None
            bucket = self._buckets[start_ms] = Bucket(start_ms)
        return bucket


def merged_edges(buckets: Iterable[Bucket]) -> dict[EdgeKey, EdgeSums]:
    """The edges of several buckets, summed up in new sums."""
    found: dict[EdgeKey, EdgeSums] = {}
    for bucket in buckets:
        for key, sums in bucket.edges.items():
            found.setdefault(key, EdgeSums()).merge(sums)
    return found


def produced_tags(topic: str, partition: int, cluster_id: str = "") -> tuple[str, ...]:
    """The tags of the last offset written to a partition."""
    return _offset_tags("kafka_produce", topic, partition, cluster_id)


def committed_tags(group: str, topic: str, partition: int, cluster_id: str = "") -> tuple[str, ...]:
    """The tags of the next offset that a group reads of a partition; lag is produced + 1 - committed."""
    return _offset_tags("kafka_commit", topic, partition, cluster_id, f"consumer_group:{group}")


def _offset_tags(kind: str, topic: str, partition: int, cluster_id: str, *more: str) -> tuple[str, ...]:
    known = (f"kafka_cluster_id:{cluster_id}",) if cluster_id else ()
    return tuple(sorted((f"type:{kind}", f"topic:{topic}", f"partition:{partition}", *more, *known)))


PATH = "/v0.1/pipeline_stats"
_NS_PER_MS = 1_000_000
_LEVEL = 1  # of gzip, as tracers have it


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadSender:
    """Who sends buckets: the service, and the version of kafkakit; what is empty is left out."""

    node: PathwayNode
    tracer_version: str
    version: str = ""
    hostname: str = ""


def payload_headers(sender: PayloadSender) -> dict[str, str]:
    """The headers that go with `encode_payload`."""
    return {
        "Content-Type": "application/msgpack",
        "Content-Encoding": "gzip",
        "Datadog-Meta-Lang": "python",
        "Datadog-Meta-Tracer-Version": sender.tracer_version,
    }


def encode_payload(sender: PayloadSender, buckets: Iterable[Bucket]) -> bytes:
    """The body: the same bytes for the same buckets, whatever the order in which their points came."""
    known = {"Version": sender.version, "Hostname": sender.hostname}
    body = {
        "Service": sender.node.service,
        "Env": sender.node.env,
        **{name: value for name, value in known.items() if value},
        "Lang": "python",
        "TracerVersion": sender.tracer_version,
        "Stats": [_bucket(bucket) for bucket in buckets],
    }
    return gzip.compress(msgspec.msgpack.encode(body), _LEVEL, mtime=0)


def _bucket(bucket: Bucket) -> dict[str, object]:
    return {
        "Start": bucket.start_ms * _NS_PER_MS,
        "Duration": BUCKET_MS * _NS_PER_MS,
        "Stats": [
            {
                "EdgeTags": tags,
                "Hash": hash_,
                "ParentHash": parent,
                "PathwayLatency": sums.pathway_s.encode(),
                "EdgeLatency": sums.edge_s.encode(),
                "PayloadSize": sums.payload_bytes.encode(),
            }
            for (tags, hash_, parent), sums in sorted(bucket.edges.items(), key=lambda item: item[0])
        ],
        "Backlogs": [{"Tags": tags, "Value": offset} for tags, offset in sorted(bucket.offsets.items())],
    }
