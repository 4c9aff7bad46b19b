"""The replica lists of a new topic: spread over brokers, racks and leaders first, then levelling the cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kafkakit.placement.leaders import candidates_of, choose_leaders, in_front
from kafkakit.placement.openings.fill import Alike, fill_openings
from kafkakit.placement.openings.ties import TieBreak

Row = tuple[int, ...]


def place_new_topic(
    rooms: Sequence[Alike], racks: Mapping[int, str | None], carried: Mapping[int, int], led: Mapping[int, int]
) -> list[Row]:
    """The list of each partition, the leader first; `rooms` are those of all of them (by index, from 0).

    The topic's replicas come out as even over the brokers of `carried` as the rooms allow, then as even over racks,
    then next to what brokers carry; its leaders as even as the sets allow, then next to the leaderships in `led`.
    Raises nothing. Costs two flows over rooms times brokers, and one over partitions times replicas.
    """
    chosen, _ = fill_openings(rooms, dict.fromkeys(carried, 0), ties=TieBreak(racks, carried))
    return _with_leaders([chosen[i] for i in range(len(chosen))], led)


def _with_leaders(sets: Sequence[Row], led: Mapping[int, int]) -> list[Row]:
    import numpy as np

    brokers = sorted({b for row in sets for b in row})
    who = candidates_of(sets, brokers)
    others = np.array([led.get(b, 0) for b in brokers], dtype=np.int64)
    others -= others.min(initial=0)
    # A chain of changes passes each broker once, so that it changes the sum of the places in lists by less than this.
    place_price = len(brokers) * max(map(len, sets), default=1) + 1
    priced = replace(who, cost=who.cost + place_price * others[who.broker])
    chosen = choose_leaders(priced, level_price=place_price * (int(others.max(initial=0)) + 2))
    return in_front(sets, who, chosen, brokers)
