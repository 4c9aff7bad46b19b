"""Preferred leaders: one replica of each partition, spread as evenly as the replicas allow, with the fewest changes."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from kafkakit.placement.counts.levels import solve_levels
from kafkakit.placement.network import FlowNetwork

Array = Any  # numpy array
Lists = Sequence[tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Who may lead what: `broker[offsets[r]:offsets[r + 1]]` are the candidates of row r, as broker positions.

    `rows` maps rows to partitions; partitions without a candidate have no row. `present` marks the candidate that
    leads now. `count` is the number of brokers that may lead at all.
    """

    count: int
    rows: Array
    offsets: Array
    broker: Array
    present: Array


def candidates_of(current: Lists, lists: Lists, brokers: Sequence[int], barred: Collection[int] = ()) -> Candidates:
    """Every replica in `lists` that is on one of `brokers` may lead, but for the slots in `barred`.

    `barred` numbers replicas through all lists. The present leader is the first of `current`.
    """
    import numpy as np

    ids = np.array(sorted(brokers), dtype=np.int64)
    sizes = np.array([len(row) for row in lists], dtype=np.int64)
    replica = np.array([b for row in lists for b in row], dtype=np.int64)
    part = np.repeat(np.arange(len(lists)), sizes)
    leader = np.array([row[0] if row else -1 for row in current], dtype=np.int64)
    position = np.searchsorted(ids, replica)
    known = position < len(ids)
    known[known] &= ids[position[known]] == replica[known]
    if barred:
        known[np.array(sorted(barred), dtype=np.int64)] = False
    rows, starts = np.unique(part[known], return_index=True)
    return Candidates(
        count=len(ids),
        rows=rows,
        offsets=np.append(starts, int(known.sum())),
        broker=position[known],
        present=replica[known] == leader[part[known]],
    )


def choose_leaders(who: Candidates, base: Sequence[int] | None = None) -> Array:
    """The leader of each row, as a broker position: loads decreasingly minimal, then fewest changes.

    `base` says how many other partitions each broker leads already. Exact: a change costs 1 and a level more than
    any chain of changes through all brokers can, so evenness comes first. 0.1 s for 20,000 partitions on 100 brokers,
    3 s for 200,000 on 600.
    """
    import numpy as np

    count = len(who.rows)
    if not count:
        return np.zeros(0, dtype=np.int64)
    row = np.repeat(np.arange(count), np.diff(who.offsets))
    arcs: list[int] = []

    def build(network: FlowNetwork) -> int:
        first = network.nodes(who.count)
        source = network.nodes(count)
        network.supply(source + np.arange(count), 1)
        arcs[:] = [network.arcs(source + row, first + who.broker, 1, np.where(who.present, 0, 1))]
        return first

    most = np.bincount(who.broker, minlength=who.count)
    held = np.zeros(who.count, dtype=np.int64) if base is None else np.array(base, dtype=np.int64)
    network, _ = solve_levels(build, held, count, scale=2 * who.count + 2, most=most)
    return who.broker[network.flow(arcs[0]) > 0]


def balance_leaders(current: Lists, lists: Lists, brokers: Sequence[int], barred: Collection[int] = ()) -> Lists:
    """Put each list's leader in front, the others staying in order; a list without a candidate stays as it is."""
    who = candidates_of(current, lists, brokers, barred)
    return in_front(lists, who, choose_leaders(who), brokers)


def in_front(lists: Lists, who: Candidates, chosen: Array, brokers: Sequence[int]) -> list[tuple[int, ...]]:
    """The lists with their chosen leaders first."""
    ids = sorted(brokers)
    ordered = list(lists)
    for i, leader in zip(who.rows.tolist(), chosen.tolist(), strict=True):
        replicas = ordered[i]
        if replicas[0] != ids[leader]:
            ordered[i] = (ids[leader], *(b for b in replicas if b != ids[leader]))
    return ordered


def keep_order(current: Lists, chosen: Lists) -> list[tuple[int, ...]]:
    """Each chosen set with the replicas that stay first, in their old order, then the new ones by id."""
    ordered = []
    for now, new in zip(current, chosen, strict=True):
        stay = [b for b in now if b in new]
        ordered.append((*stay, *sorted(b for b in new if b not in stay)))
    return ordered
