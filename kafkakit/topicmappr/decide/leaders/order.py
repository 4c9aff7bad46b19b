"""Which leaderships a run with a budget passes on first."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

Pair = tuple[int, int]
Urgency = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Passing:
    """One leadership to pass on, of the partition `index`, from one broker to another (-1: from one that must not)."""

    index: int
    giver: int
    taker: int


def first_passings(passings: Sequence[Passing], led: Mapping[int, int], most: int) -> frozenset[int]:
    """The indices of the `most` leaderships to pass on first; `led` counts what each broker leads now.

    First those on brokers that must not lead. Then always the one whose giver leads most above its taker at that
    moment, which lowers the sum of squares of the counts most; equals by broker ids, then in the order given.
    As part of a choice with the fewest changes, none of these steps makes the counts less even than they were.
    O(n log n), and as many entries more as brokers both get and give leaderships.
    """
    loads = defaultdict(int, led)
    waiting: dict[Pair, list[int]] = defaultdict(list)
    for passing in reversed(passings):
        waiting[passing.giver, passing.taker].append(passing.index)
    giving: dict[int, list[Pair]] = defaultdict(list)
    taking: dict[int, list[Pair]] = defaultdict(list)
    for pair in waiting:
        giving[pair[0]].append(pair)
        taking[pair[1]].append(pair)

    def urgency(pair: Pair) -> Urgency:
        giver, taker = pair
        return (0, loads[taker]) if giver < 0 else (1, loads[taker] - loads[giver])

    heap = [(urgency(pair), pair) for pair in waiting]
    heapify(heap)
    taken: set[int] = set()
    while heap and len(taken) < most:
        known, pair = heappop(heap)
        if not waiting[pair]:
            continue
        if known != urgency(pair):  # it has become less urgent: back into the queue
            heappush(heap, (urgency(pair), pair))
            continue
        taken.add(waiting[pair].pop())
        giver, taker = pair
        loads[giver] -= 1
        loads[taker] += 1
        # More urgent are those alone whose taker leads less now, or whose giver leads more.
        for other in (pair, *taking[giver], *giving[taker]):
            if waiting[other]:
                heappush(heap, (urgency(other), other))
    return frozenset(taken)
