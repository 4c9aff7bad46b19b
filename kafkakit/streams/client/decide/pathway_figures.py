"""What pathways through a service came to, as metrics: sums since the start, and quantiles of the last minute."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from kafkakit.report.metrics_text import Labels, MetricFamily, gauge
from kafkakit.streams.model.pathways import FOLDED_TAGS, Bucket, DDSketch, EdgeKey, EdgeSums, merged_edges

T = TypeVar("T")
PREFIX = "kafkakit_pathway_"
MOST_EDGES = 1000
"""Edges that are kept apart since the start; further ones are summed up as one."""
WINDOW = 6
"""Quantiles are those of so many takes of buckets."""
_QUANTILES = (("0.5", 0.5), ("0.95", 0.95), ("0.99", 0.99), ("1", 1.0))
_SKETCHES: tuple[tuple[str, str, Callable[[EdgeSums], DDSketch]], ...] = (
    ("latency_seconds", "Time since the first checkpoint of the pathway.", lambda sums: sums.pathway_s),
    ("edge_latency_seconds", "Time since the checkpoint before.", lambda sums: sums.edge_s),
    ("payload_bytes", "Keys, values and headers.", lambda sums: sums.payload_bytes),
)


@dataclass(frozen=True, slots=True)
class _Sum:
    count: int = 0
    total: float = 0.0

    def plus(self, sketch: DDSketch) -> "_Sum":
        return _Sum(self.count + sketch.count, self.total + sketch.total)


class PathwayTotals:
    """Adds up what was taken of `PathwayBuckets`; for one thread at a time.

    `unsent_buckets` are those that an agent did not get.
    """

    def __init__(self) -> None:
        self.unsent_buckets = 0
        self._window: deque[tuple[Bucket, ...]] = deque(maxlen=WINDOW)
        self._sums: dict[EdgeKey, tuple[_Sum, ...]] = {}
        self._left_out = {"folded": 0, "dropped": 0, "skewed": 0}

    def add(self, taken: Sequence[Bucket], *, folded: int, dropped: int, skewed: int) -> None:
        """Add what one take gave, maybe nothing, and what was counted apart until then."""
        self._left_out = {"folded": folded, "dropped": dropped, "skewed": skewed}
        self._window.append(tuple(taken))
        for key, sums in merged_edges(taken).items():
            kept = key if key in self._sums or len(self._sums) < MOST_EDGES else (FOLDED_TAGS, 0, 0)
            before = self._sums.get(kept, (_Sum(),) * len(_SKETCHES))
            self._sums[kept] = tuple(one.plus(of(sums)) for one, (_, _, of) in zip(before, _SKETCHES, strict=True))

    def families(self) -> tuple[MetricFamily, ...]:
        """Summaries by stream, direction, group and pathway, and gauges of what is not in them."""
        recent, left_out = _sorted(merged_edges(chain.from_iterable(self._window))), self._left_out
        sums = _sorted(self._sums)
        return (
            *(
                MetricFamily(
                    name=name,
                    help=about,
                    samples=tuple(chain.from_iterable(_quantiles(key, of(edge)) for key, edge in recent)),
                    totals=tuple((_labels(key), each[at].count, each[at].total) for key, each in sums),
                )
                for at, (name, about, of) in enumerate(_SKETCHES)
            ),
            gauge("folded_points", "Checkpoints summed up as one edge for want of space.", ((), left_out["folded"])),
            gauge("dropped_points", "Checkpoints and offsets that were left out.", ((), left_out["dropped"])),
            gauge("skewed_points", "Checkpoints with a time below 0: clocks differ.", ((), left_out["skewed"])),
            gauge("unsent_buckets", "Buckets of 10 s that the agent did not get.", ((), self.unsent_buckets)),
        )


def _sorted(edges: Mapping[EdgeKey, T]) -> list[tuple[EdgeKey, T]]:
    return sorted(edges.items(), key=lambda item: item[0])


def _quantiles(key: EdgeKey, sketch: DDSketch) -> list[tuple[Labels, float]]:
    labels = _labels(key)
    return [((*labels, ("quantile", word)), sketch.quantile(share) or 0.0) for word, share in _QUANTILES]


def _labels(key: EdgeKey) -> Labels:
    tags, hash_, _ = key
    found = dict(tag.split(":", 1) for tag in tags)
    return (
        ("stream", found.get("topic", "others")),
        ("direction", found.get("direction", "")),
        ("group", found.get("group", "")),
        ("pathway", str(hash_)),
    )
