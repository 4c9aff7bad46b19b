"""Dealing a group's flow out to its partitions: who exactly gets which new broker.

Units are laid in a row and dealt like cards: unit j goes to member j mod n. As no broker has more than n
units and they lie side by side, no member gets a broker twice; the same holds for racks with at most n
units, and the units of repeated racks are spread as evenly as they can be.
"""

from collections.abc import Sequence
from math import gcd

Flow = tuple[str | None, int, int]


def deal_units(
    members: Sequence[int],
    flows: Sequence[Flow],
    fresh: frozenset[str],
    *,
    charged: frozenset[str | None],
) -> dict[int, tuple[int, ...]]:
    """Give each member equally many brokers; `flows` are (rack, broker, units) in multiples of the members.

    Racks in `charged` use the allowance for repeats with every unit, `fresh` ones from their second unit
    in a member on; both lie first, so that each member's repeats stay within one of the average.
    """
    n = len(members)
    by_rack: dict[str | None, int] = {}
    for rack, _, amount in flows:
        by_rack[rack] = by_rack.get(rack, 0) + amount

    def rank(flow: Flow) -> tuple[int, bool, str, int]:
        rack, broker, _ = flow
        crowded = rack in fresh and by_rack[rack] > n
        return (0 if rack in charged else 1 if crowded else 2, rack is not None, rack or "", broker)

    row = [broker for _, broker, amount in sorted(flows, key=rank) for _ in range(amount)]
    order = scatter(n)
    dealt: dict[int, list[int]] = {m: [] for m in members}
    for j, broker in enumerate(row):
        dealt[members[order[j % n]]].append(broker)
    return {m: _rotated(sorted(brokers), m) for m, brokers in dealt.items()}


def _rotated(brokers: list[int], turn: int) -> tuple[int, ...]:
    """Take turns at the front, so that no broker always gets the leader's place."""
    turn %= max(1, len(brokers))
    return (*brokers[turn:], *brokers[:turn])


def scatter(n: int) -> list[int]:
    """A permutation of 0..n-1 that puts neighbours far apart (a golden-ratio stride).

    Neighbouring partitions belong to one topic; blocks of units of one broker are thereby spread over topics.
    """
    stride = max(1, round(n * 0.6180339887498949))
    while gcd(stride, n) != 1:
        stride += 1
    return [(j * stride) % n for j in range(n)]
