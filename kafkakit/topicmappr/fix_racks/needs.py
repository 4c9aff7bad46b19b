"""How many replicas of a partition must move so that it obeys the rack rule, and where to: by counting alone.

Under the rule with N racks, a set is lawful when no rack repeats, or when it spans N racks. One move mends at
most one repeat and adds at most one rack, so at least min(repeats, N - racks) moves are needed (all repeats
when N is 0), and moving repeats to unused racks achieves that. Under even spread, a rack of K may hold
floor(R/K) replicas, and R mod K of them one more; what lies above the best such share must move.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkakit.topicmappr.refill.openings import RackRoom, Receivers, Room


@dataclass(frozen=True, slots=True)
class Mending:
    """`moves` replicas leave; in each rack `base` stay, `slots` more over all racks (at most `extra` in one).

    `room` is where the new copies go.
    """

    moves: int
    base: int
    slots: int
    extra: int
    room: Room


@dataclass(frozen=True, slots=True)
class Unmendable:
    """No placement on the receivers obeys the rule; `reason` says what is short."""

    reason: str


Need = Mending | Unmendable | None


def need_of(used: Mapping[str, int], loose: tuple[int, ...], receivers: Receivers, minimum: int) -> Need:
    """What a set with `used` replicas by rack needs under the rule of `minimum` racks; None when it is lawful.

    `loose` are the receivers without a rack that do not hold the partition.
    """
    replicas, racks = sum(used.values()), len(used)
    repeats = replicas - racks
    if not repeats or (minimum and racks >= minimum):
        return None
    fresh: dict[str | None, RackRoom] = {
        rack: RackRoom(ids, free=1) for rack, ids in receivers.by_rack.items() if rack and rack not in used
    }
    spanning = minimum - racks if minimum else repeats
    if minimum and spanning <= min(repeats, len(fresh)):
        return _mending(spanning, repeats, fresh)
    if repeats <= len(fresh) + len(loose):
        offers = dict(fresh)
        if loose:
            offers[None] = RackRoom(loose, free=min(len(loose), repeats))
        return _mending(repeats, repeats, offers)
    wanted = min(spanning, repeats)
    return Unmendable(
        f"{replicas} replicas in {racks} rack(s) need {wanted} more, and the live brokers have {len(fresh)} unused"
    )


def _mending(moves: int, repeats: int, offers: Mapping[str | None, RackRoom]) -> Mending:
    fresh = frozenset(rack for rack in offers if rack)
    return Mending(moves, 1, repeats - moves, repeats, Room(moves, 0, offers, fresh))


def spread_need(replicas: Sequence[tuple[int, str]], receivers: Receivers) -> Need:
    """What the racked replicas (broker, rack) of a set need so that racks differ by at most one.

    Racks are those of the receivers; a replica elsewhere is not counted. None when they are even already.
    """
    names = [rack for rack in receivers.by_rack if rack]
    inside = [(b, rack) for b, rack in replicas if rack in receivers.by_rack]
    count = Counter(dict.fromkeys(names, 0))
    count.update(rack for _, rack in inside)
    if not names or max(count.values()) - min(count.values()) <= 1:
        return None
    floor, over = divmod(len(inside), len(names))
    # The fullest racks may hold one more than the others: that keeps the most replicas in place.
    ranked = sorted(names, key=lambda rack: (-count[rack], rack))
    kept = {rack: min(count[rack], floor + (k < over)) for k, rack in enumerate(ranked)}
    moves = len(inside) - sum(kept.values())
    held = {b for b, _ in inside}
    slots = sum(1 for rack in names if kept[rack] > floor)
    offers: dict[str | None, RackRoom] = {}
    for rack in names:
        free = tuple(b for b in receivers.by_rack[rack] if b not in held)
        must = max(0, floor - kept[rack])
        if must > len(free):
            return Unmendable(f"rack {rack} has too few live brokers to hold {floor} of {len(inside)} replicas")
        room = 1 if kept[rack] <= floor and len(free) > must else 0
        if must or room:
            offers[rack] = RackRoom(free, must=must, free=room)
    if sum(offer.must + offer.free for offer in offers.values()) < moves:
        return Unmendable(f"too few live brokers per rack to spread {len(inside)} replicas over {len(names)} racks")
    return Mending(moves, floor, slots, 1, Room(moves, 0, offers))
