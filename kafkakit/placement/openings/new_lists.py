"""New replica lists of partitions some of whose replicas leave: places, and who leads."""

from collections import Counter
from collections.abc import Mapping, Sequence

from kafkakit.placement.leaders import pass_leaders
from kafkakit.placement.openings.broker_pool import BrokerPool
from kafkakit.placement.problem import PlannedPartition

Row = tuple[int, ...]


def replace_replicas(
    partitions: Sequence[PlannedPartition], kept: Mapping[int, Row], chosen: Mapping[int, Row], pool: BrokerPool
) -> list[Row]:
    """All lists, those of partition i with `chosen[i]` in place of what is not in `kept[i]`; the others stay.

    Staying replicas keep their places and new ones take those that come free. A leadership passes on only when its
    broker leaves: to a staying replica that lives and is in sync, so that it need not wait for the copy, or where
    none is, to a live or a new one. Among those the counts of leaders come out as even as can be, all other
    leaderships fixed.
    """
    passing = [i for i in sorted(chosen) if partitions[i].current[0] not in kept[i]]
    led = Counter(pool.leaders)
    led.subtract(partitions[i].current[0] for i in passing)
    candidates = [_candidates(partitions[i], kept[i], chosen[i], pool) for i in passing]
    leaders = dict(zip(passing, pass_leaders(candidates, led), strict=True))
    lists = [p.current for p in partitions]
    for i, new in chosen.items():
        supply = iter(new)
        places = [b if b in kept[i] else next(supply) for b in lists[i]]
        if i in leaders:
            # The new leader and the copy in the leader's old place are swapped, so that no other copy moves.
            at = places.index(leaders[i])
            places[0], places[at] = places[at], places[0]
        lists[i] = tuple(places)
    return lists


def _candidates(partition: PlannedPartition, kept: Row, new: Row, pool: BrokerPool) -> Row:
    alive = tuple(b for b in kept if b in pool.live)
    in_sync = partition.in_sync
    ready = alive if in_sync is None else tuple(b for b in alive if b in in_sync)
    return ready or alive or new
