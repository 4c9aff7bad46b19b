"""Counts before and after: per broker, and kafka-kit's degree distribution."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import TYPE_CHECKING

from kafkakit.core.plan import BrokerLoad, PlacementStats

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# A table of all pairs of brokers is the fastest way to count partners; with more brokers it would grow too large.
_MOST_MARKED = 8192
_PAIRS_AT_ONCE = 4_000_000
_MOST_IN_TABLE = 1 << 20
_HALF_BITS = 32
_HALF_MASK = (1 << _HALF_BITS) - 1


APPLIED_USE = Fraction(95, 100)
"""How full `reassign apply` lets a log dir become unless it is told otherwise, and planners that have no limit."""


@dataclass(frozen=True, slots=True)
class Degree:
    """With how many other brokers each broker shares a replica set: minimum, maximum, average."""

    low: int
    high: int
    average: float

    def __str__(self) -> str:
        return f"{self.low:.0f}/{self.high:.0f}/{self.average:.2f}"


def degree_of(replica_lists: Iterable[Sequence[int]]) -> Degree:
    """The degree distribution over brokers that hold a replica; all zero for an empty map.

    0.2 s for 600,000 replicas.
    """
    import numpy as np

    lengths, flat = _columns(list(replica_lists))
    if not len(flat):
        return Degree(0, 0, 0.0)
    brokers, place = _positions(flat)
    count = len(brokers)
    starts = np.cumsum(lengths) - lengths
    meets = np.zeros(count * count if count <= _MOST_MARKED else 0, dtype=bool)
    pairs = [np.arange(count) * (count + 1)]
    for length in np.unique(lengths[lengths > 1]).tolist():
        sets = place[starts[lengths == length][:, None] + np.arange(length)]
        step = max(1, _PAIRS_AT_ONCE // length**2)
        for k in range(0, len(sets), step):
            some = sets[k : k + step]
            codes = (some[:, :, None] * count + some[:, None, :]).ravel()
            if len(meets):
                meets[codes] = True
            else:
                pairs.append(np.unique(codes))
    # Every broker meets itself; that one is taken off again.
    meets[:: count + 1] = True
    partners = np.nonzero(meets)[0] if len(meets) else np.unique(np.concatenate(pairs))
    degrees = np.bincount(partners // count, minlength=count) - 1
    return Degree(int(degrees.min()), int(degrees.max()), int(degrees.sum()) / count)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStorage:
    """What a broker's disks hold and can hold, all topics together, in bytes; None when unknown."""

    used_bytes: int | None = None
    free_bytes: int | None = None
    capacity_bytes: int | None = None

    def after(self, delta_bytes: int) -> "BrokerStorage":
        """The disks with this many more bytes on them."""
        return BrokerStorage(
            used_bytes=None if self.used_bytes is None else self.used_bytes + delta_bytes,
            free_bytes=None if self.free_bytes is None else self.free_bytes - delta_bytes,
            capacity_bytes=self.capacity_bytes,
        )


def _columns(rows: Sequence[Sequence[int]]) -> "tuple[NDArray[np.int64], NDArray[np.int64]]":
    """The length of each row, and all rows one after the other."""
    import numpy as np

    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    return lengths, np.fromiter(chain.from_iterable(rows), np.int64, int(lengths.sum()))


def _positions(ids: "NDArray[np.int64]") -> "tuple[NDArray[np.int64], NDArray[np.int64]]":
    """The ids that there are, sorted, and the position of each among them; by a table where it is small."""
    import numpy as np

    highest = int(ids.max(initial=0))
    if highest >= _MOST_IN_TABLE or ids.min(initial=0) < 0:
        return np.unique(ids, return_inverse=True)
    present = np.zeros(highest + 1, dtype=bool)
    present[ids] = True
    found = np.nonzero(present)[0]
    table = np.zeros(highest + 1, dtype=np.int64)
    table[found] = np.arange(len(found))
    return found, table[ids]


_UNKNOWN = BrokerStorage()
_NO_STORAGE: Mapping[int, BrokerStorage] = {}


def placement_stats(
    lists: Sequence[Sequence[int]],
    sizes: Sequence[int | None],
    brokers: Iterable[int],
    racks: Mapping[int, str | None],
    storage: Mapping[int, BrokerStorage] = _NO_STORAGE,
) -> PlacementStats:
    """Replicas, leaders and bytes of each broker that is named in `brokers` or holds a replica.

    The minima and maxima are over `brokers` (the targets). Bytes are None for a broker as soon as the
    size of one of its partitions is unknown.
    """
    import numpy as np

    lengths, flat = _columns(lists)
    held, place = _positions(flat)
    first = place[(np.cumsum(lengths) - lengths)[lengths > 0]]
    weights = np.fromiter((size or 0 for size in sizes), np.int64, len(lists)).repeat(lengths)
    is_unknown = np.fromiter((size is None for size in sizes), bool, len(lists)).repeat(lengths)
    # In two halves, each of which adds up within 64 bits whatever the sizes are.
    halves = np.zeros((2, len(held)), dtype=np.int64)
    np.add.at(halves[0], place, weights >> _HALF_BITS)
    np.add.at(halves[1], place, weights & _HALF_MASK)
    unknown = np.bincount(place[is_unknown], minlength=len(held)).tolist()
    ids = held.tolist()
    replicas = dict.fromkeys(brokers, 0)
    measured = list(replicas)
    replicas.update(zip(ids, np.bincount(place, minlength=len(held)).tolist(), strict=True))
    leaders = defaultdict(int, zip(ids, np.bincount(first, minlength=len(held)).tolist(), strict=True))
    stored: dict[int, int | None] = defaultdict(int)
    for broker, high, low, missing in zip(ids, *halves.tolist(), unknown, strict=True):
        stored[broker] = None if missing else (high << _HALF_BITS) + low
    counts = [replicas[b] for b in measured]
    leading = [leaders[b] for b in measured]
    return PlacementStats(
        brokers=tuple(
            _load(b, racks.get(b), n, leaders[b], stored[b], storage.get(b, _UNKNOWN))
            for b, n in sorted(replicas.items())
        ),
        replicas_min=min(counts, default=0),
        replicas_max=max(counts, default=0),
        leaders_min=min(leading, default=0),
        leaders_max=max(leading, default=0),
    )


def _load(
    broker: int, rack: str | None, replicas: int, leaders: int, stored: int | None, disks: BrokerStorage
) -> BrokerLoad:
    return BrokerLoad(
        broker=broker,
        rack=rack,
        replicas=replicas,
        leaders=leaders,
        bytes=stored,
        used_bytes=disks.used_bytes,
        free_bytes=disks.free_bytes,
        capacity_bytes=disks.capacity_bytes,
    )
