"""New replica lists of partitions some of whose replicas leave: places, and who leads."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from kafkakit.placement.leaders import pass_leaders
from kafkakit.placement.openings.broker_pool import BrokerPool
from kafkakit.placement.problem import PlannedPartition


@dataclass(frozen=True, slots=True)
class Replaced:
    """A partition, the replicas that stay (in their order), and the brokers that take the other places."""

    partition: PlannedPartition
    kept: tuple[int, ...]
    new: tuple[int, ...]


def replace_replicas(rows: Sequence[Replaced], pool: BrokerPool) -> list[tuple[int, ...]]:
    """The new list of each row: staying replicas keep their places and new ones take those that come free.

    A leadership passes on only when its broker leaves: to a staying replica that lives and is in sync, so
    that it need not wait for the copy, or where none is, to a live or a new one. Among those the counts of
    leaders come out as even as can be, all other leaderships fixed.
    """
    passing = [n for n, row in enumerate(rows) if row.partition.current[0] not in row.kept]
    led = Counter(dict(pool.leaders))
    led.subtract(rows[n].partition.current[0] for n in passing)
    leaders = dict(zip(passing, pass_leaders([_candidates(rows[n], pool) for n in passing], led), strict=True))
    return [_list(row, leaders.get(n)) for n, row in enumerate(rows)]


def _candidates(row: Replaced, pool: BrokerPool) -> tuple[int, ...]:
    alive = tuple(b for b in row.kept if b in pool.live)
    in_sync = row.partition.in_sync
    ready = alive if in_sync is None else tuple(b for b in alive if b in in_sync)
    return ready or alive or row.new


def _list(row: Replaced, leader: int | None) -> tuple[int, ...]:
    supply = iter(row.new)
    places = [b if b in row.kept else next(supply) for b in row.partition.current]
    if leader is None or places[0] == leader:
        return tuple(places)
    # The new leader and the copy in the leader's old place are swapped, so that no other copy moves.
    at = places.index(leader)
    places[0], places[at] = places[at], places[0]
    return tuple(places)
