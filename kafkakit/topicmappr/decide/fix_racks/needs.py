"""How many replicas of a partition must move so that it obeys the rack rule, and where to: by counting alone.

Under the rule with N racks, a set is lawful when no rack repeats, or when it spans N racks. One move mends at
most one repeat and adds at most one rack, so at least min(repeats, N - racks) moves are needed (all repeats
when N is 0), and moving repeats to unused racks achieves that. Under even spread, a rack of K may hold
floor(R/K) replicas, and R mod K of them one more; what lies above the best such share must move.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkakit.placement.openings.openings import RackRoom, Receivers, Room


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
    if spanning < repeats and spanning <= len(fresh):
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


def spread_need(replicas: Sequence[tuple[int, str]], loose: tuple[int, ...], receivers: Receivers) -> Need:
    """What the racked replicas (broker, rack) of a set need so that racks differ by at most one.

    Racks are those of the receivers; a replica elsewhere is not counted. `loose` are the receivers without a rack
    that do not hold the partition: a copy there is counted in no rack, which helps where racks are too small.
    None when the set is even already.
    """
    names = [rack for rack in receivers.by_rack if rack]
    count = Counter(dict.fromkeys(names, 0))
    count.update(rack for _, rack in replicas if rack in count)
    if not names or max(count.values()) - min(count.values()) <= 1:
        return None
    held = {b for b, _ in replicas}
    free = {rack: tuple(b for b in receivers.by_rack[rack] if b not in held) for rack in names}
    ways = (_spread(count, free, loose, out) for out in range(min(len(loose), count.total()) + 1))
    found = [way for way in ways if way is not None]
    if not found:
        return Unmendable(f"too few live brokers per rack to spread {count.total()} replicas over {len(names)} racks")
    return min(found, key=lambda way: way.moves)


def _spread(
    count: Mapping[str, int], free: Mapping[str, tuple[int, ...]], loose: tuple[int, ...], out: int
) -> Mending | None:
    """The fewest moves to an even spread with `out` replicas moved to brokers without a rack; None: no room."""
    replicas = sum(count.values()) - out
    floor, over = divmod(replicas, len(count))
    # The fullest racks may hold one more than the others: that keeps the most replicas in place.
    ranked = sorted(count, key=lambda rack: (-count[rack], rack))
    kept = {rack: min(count[rack], floor + (k < over)) for k, rack in enumerate(ranked)}
    offers: dict[str | None, RackRoom] = {}
    for rack in count:
        must = max(0, floor - kept[rack])
        if must > len(free[rack]):
            return None
        room = 1 if kept[rack] <= floor and len(free[rack]) > must else 0
        if must or room:
            offers[rack] = RackRoom(free[rack], must=must, free=room)
    inside = replicas - sum(kept.values())
    if sum(offer.must + offer.free for offer in offers.values()) < inside:
        return None
    if out:
        offers[None] = RackRoom(loose, must=out)
    slots = sum(1 for rack in count if kept[rack] > floor)
    return Mending(inside + out, floor, slots, 1, Room(inside + out, 0, offers))
