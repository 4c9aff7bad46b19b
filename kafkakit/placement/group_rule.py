"""The rack rule: how many replicas of a partition may share a rack.

With `min_rack_ids` 0 every racked replica needs a rack of its own. With N > 0 racks may repeat once the set
spans at least N of them. Brokers without a rack never conflict, and never count as a rack (kafka-kit's rule).

Even spread is the other form: over the racks named, the numbers of replicas differ by at most one. Replicas on
other racks and on brokers without a rack are not counted. A set that is not even may stay so, but no rack that
holds more than its share (the replicas over the racks, rounded up) gets more. With no more replicas than racks
this is "all racks differ" again.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafkakit.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class RackRule:
    """The rule for one request; with `spread_over` the even spread over those racks, and `min_rack_ids` is 0."""

    min_rack_ids: int = 0
    spread_over: tuple[str, ...] = ()

    def violates(self, racks: Iterable[str | None], openings: int = 0) -> bool:
        """True when a replica set on these racks breaks the rule, wherever its `openings` copies to come may go.

        Only even spread asks for those.
        """
        used = [r for r in racks if r]
        if self.spread_over:
            count = Counter(used)
            level = max(count[r] for r in self.spread_over) - 1
            return sum(max(0, level - count[r]) for r in self.spread_over) > openings
        distinct = len(set(used))
        if distinct == len(used):
            return False
        return self.min_rack_ids == 0 or distinct < self.min_rack_ids

    def share(self, replicas: int) -> int:
        """The most that a rack may hold of a set of `replicas` that is spread evenly, all of them on racks."""
        return -(-replicas // len(self.spread_over))

    def crowds(self, before: Sequence[str | None], after: Sequence[str | None]) -> bool:
        """True when a rack of the even spread holds more than its share and more than `before`."""
        share = self.share(len(after))
        return any(after.count(r) > max(share, before.count(r)) for r in self.spread_over)

    def repeats_allowed(self, replicas: int) -> int:
        """How many replicas may sit in an already used rack, in a set of `replicas` on racked brokers."""
        return max(0, replicas - self.min_rack_ids) if self.min_rack_ids else 0


def refuse_both_rules(min_rack_ids: int, spread: bool) -> None:
    """Raise `UsageError` where a request names both forms of the rule."""
    if spread and min_rack_ids:
        raise UsageError("--spread and --min-rack-ids are two different rules, give one of them")


def racks_to_spread(brokers: Iterable[int], racks: Mapping[int, str | None]) -> tuple[str, ...]:
    """The racks that an even spread looks at, those of `brokers`; raises `UsageError` where none has a rack."""
    names = tuple(sorted({r for b in brokers if (r := racks.get(b))}))
    if not names:
        raise UsageError("--spread: no broker that could take replicas has a rack", hint="set broker.rack")
    return names


@dataclass(frozen=True, slots=True)
class FillRoom:
    """Room for new replicas of one partition (or of many alike).

    `units` new replicas fit. `repeats` is how many of them may repeat a rack, and `rackless_repeats` says
    that rackless ones are charged to the same allowance. `is_stricter` tells that the rule allows sets which
    this room leaves out.
    """

    units: int
    repeats: int
    rackless_repeats: bool
    is_stricter: bool = False


def fill_room(
    rule: RackRule, kept_racks: Sequence[str | None], free: Mapping[str, int], rackless: int, wanted: int
) -> FillRoom:
    """How many of `wanted - kept` new replicas fit, and how many of those may repeat a rack.

    `free` maps each rack to its usable brokers (those that hold no kept replica). Sets that mix rackless
    brokers and repeated racks are counted strictly: the set must span `min_rack_ids` real racks.
    """
    kept = Counter(r for r in kept_racks if r)
    kept_repeats = sum(n - 1 for n in kept.values())
    kept_rackless = len(kept_racks) - sum(kept.values())
    fresh = sum(1 for rack, n in free.items() if n and rack not in kept)
    again = sum(free.values()) - fresh
    for units in range(max(0, wanted - len(kept_racks)), -1, -1):
        if units <= fresh + rackless:
            # No repeat is needed: forbid repeats when rackless brokers could hide a rack too few.
            repeats = min(_repeats(rule, len(kept_racks) + units, kept_repeats, 0), again, units)
            mixed = rule.min_rack_ids > 1 and bool(rackless or kept_rackless)
            return FillRoom(units, 0 if mixed else repeats, False, is_stricter=mixed and repeats > 0)
        repeats = _repeats(rule, len(kept_racks) + units, kept_repeats, kept_rackless)
        if rule.min_rack_ids > 1:
            # Rackless brokers do not count as racks, so each is charged like a repeat.
            if units <= fresh + min(repeats, again + rackless):
                return FillRoom(units, repeats, True)
        elif units <= fresh + rackless + min(repeats, again):
            return FillRoom(units, repeats, False)
    return FillRoom(0, 0, False)


def _repeats(rule: RackRule, replicas: int, kept_repeats: int, kept_rackless: int) -> int:
    return max(0, rule.repeats_allowed(replicas) - kept_repeats - kept_rackless)
