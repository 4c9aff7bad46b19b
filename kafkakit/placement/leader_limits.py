"""Leaders within ceilings: so many of a broker, and so many of one topic on a broker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.placement.counts.levels import solve_levels
from kafkakit.placement.leaders import Lists, candidates_of
from kafkakit.placement.network import FlowNetwork

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Bools, Ints

NO_LEADER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderLimits:
    """Brokers by position, partitions by number.

    Each broker may lead `most` of the partitions that choose a leader, the `fixed` ones not counted, and `of_topic` of
    one topic in all (None: any number). `topic` numbers the topic of each partition; `led` are leaders of fixed ones
    by (topic, broker).
    """

    most: "Ints"
    topic: "Ints"
    fixed: "Bools"
    of_topic: int | None = None
    led: Mapping[tuple[int, int], int]

    def topic_most(self, topic: int, broker: int) -> int:
        """How many partitions of the topic that choose a leader the broker may lead."""
        if self.of_topic is None:
            raise ValueError("there is no limit for each topic")
        return max(0, self.of_topic - self.led.get((topic, broker), 0))


def leaders_within(
    lists: Lists, current: Lists, brokers: Sequence[int], limits: LeaderLimits, *, even: bool = False
) -> "Ints":
    """The position of each list's leader among the sorted `brokers`, `NO_LEADER` where none is left within the limits.

    As few lists as can be are left without; then, with `even`, leaders are as even as can be, else as few as can be
    change of those that are in their list still, and the others are as even as that allows. Fixed lists keep their
    first. Exact. One flow, as `choose_leaders`.
    """
    import numpy as np

    fixed = limits.fixed.tolist()
    who = candidates_of([() if f else row for f, row in zip(fixed, lists, strict=True)], brokers, current)
    place = {b: i for i, b in enumerate(brokers)}
    found = np.array([place[row[0]] if f and row else NO_LEADER for f, row in zip(fixed, lists, strict=True)])
    rows = len(who.rows)
    if not rows:
        return found.astype(np.int64)
    sizes = np.diff(who.offsets)
    row = np.repeat(np.arange(rows), sizes)
    staying = np.bincount(row[who.present], minlength=rows) > 0
    later = np.arange(len(row)) != np.repeat(who.offsets[:-1], sizes)
    # A level outweighs all changes along a chain of brokers; a change that is not wanted outweighs all levels.
    level = 2 * who.count + 2
    change = 1 if even else level * (rows + 1)
    nowhere = 2 * change * (who.count + 1) + level * (rows + 2)
    cost = np.where(staying[row], change * ~who.present, later)
    arcs: list[int] = []

    def build(network: FlowNetwork) -> int:
        first, source = network.nodes(who.count + 1), network.nodes(rows)
        network.supply(source + np.arange(rows), 1)
        network.arcs(source + np.arange(rows), first + who.count, 1, nowhere)
        heads = first + who.broker
        if limits.of_topic is not None:
            cells, cell = np.unique(limits.topic[who.rows[row]] * who.count + who.broker, return_inverse=True)
            most = [limits.topic_most(*divmod(key, who.count)) for key in cells.tolist()]
            heads = network.nodes(len(cells)) + cell
            network.arcs(heads.min() + np.arange(len(cells)), first + cells % who.count, np.array(most), 0)
        arcs[:] = [network.arcs(source + row, heads, 1, cost)]
        return first

    base = np.append(np.bincount(found[found >= 0], minlength=who.count), 0)
    network, _ = solve_levels(build, base, rows, scale=level, most=np.append(np.maximum(limits.most, 0), rows))
    led = network.flow(arcs[0]) > 0
    found[who.rows[row[led]]] = who.broker[led]
    return found.astype(np.int64)
