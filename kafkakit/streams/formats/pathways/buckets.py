"""Points of checkpoints, summed up in buckets of 10 s by tags, hash and parent, as tracers send them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kafkakit.streams.formats.pathways.checkpoints import PathwayPoint
from kafkakit.streams.formats.pathways.sketch import DDSketch

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
