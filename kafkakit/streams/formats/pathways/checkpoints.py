"""Checkpoints: how a pathway grows at each produce and consume, and what is measured there.

An application keeps one `PathwayNode`, and for each record: `checkpoint_in` with the headers of what it consumed, then
`checkpoint_out` with the context from there (None for a record that begins a pathway), whose headers go with the record
that it produces. The points go to `PathwayBuckets`. Times are arguments, in ms of unix time.

Two checkpoints in a row with one direction do not lengthen the pathway: the second takes as its parent the hash before
the first; where that is 0, the pathway begins anew. This is the rule of dd-trace-py and dd-trace-java. The edge of the
second is measured from its parent, as dd-trace-rb does it; dd-trace-py measures it from the first.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kafkakit.streams.formats.pathways.context import HEADER, Headers, PathwayContext, context_of, encode_header
from kafkakit.streams.formats.pathways.hashes import IN, OUT, node_hash, pathway_hash


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
