"""What plans of `topicmappr rebalance` and `scale` must keep to; works on JSON and shares no code with the planners."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from itertools import accumulate
from typing import Any

from tests.rigs.certificate_checks import Key, Racks, breaks_rack_rule, verify_spread

Lists = Mapping[Key, list[int]]


def verify_balance(
    plan: Mapping[str, Any], scope: Lists, after: Lists, racks: Racks, sizes: Mapping[Key, int | None]
) -> None:
    """Assert that replica lists changed only as the plan's rules allow; `after` are all partitions of the scope."""
    rules = plan["rules"]
    receivers = set(rules["receivers"])
    givers = rules.get("givers")
    pinned = {(topic, partition) for topic, partition in rules.get("pinned", [])}
    if (plan["certificate"].get("proof") or {}).get("kind") == "counting":
        bound, fewest = (
            plan["certificate"]["lower_bound"],
            fewest_moves(plan["certificate"]["proof"], plan, scope, sizes),
        )
        assert bound <= fewest, f"the bound is {bound} copies, counting gives {fewest}"
    reordered = plan["request"].get("optimize-leadership") == "true"
    reordered |= bool({"max-leaders", "max-topic-leaders"}.intersection(plan["request"]))
    assert receivers <= {b["id"] for b in plan["brokers"]}, "receivers that are no targets"
    for key, new in after.items():
        old = scope[key]
        assert len(new) == len(old), f"{key}: {old} became {new}"
        assert len(set(new)) == len(new), f"{key}: {new} names a broker twice"
        gone, come = set(old) - set(new), set(new) - set(old)
        if key in pinned or (sizes.get(key) or 0) < rules.get("smallest_bytes", 0):
            assert not gone, f"{key}: pinned or small, and moved from {old} to {new}"
        assert come <= receivers, f"{key}: {sorted(come - receivers)} may not receive"
        assert givers is None or gone <= set(givers), f"{key}: {sorted(gone)} were not to give"
        verify_racks(key, old, new, racks, rules)
        if not reordered:
            verify_places(key, old, new, gone)


def verify_places(key: Key, old: list[int], new: list[int], gone: set[int]) -> None:
    """Replicas that stay keep their places; where the leader leaves any other may lead, the others in their order."""
    if old[0] in gone:
        stay = [b for b in old if b not in gone and b != new[0]]
        assert [b for b in new[1:] if b in old] == stay, f"{key}: {old} became {new}, followers in another order"
        return
    for before, now in zip(old, new, strict=True):
        assert now == before or before in gone, f"{key}: {before} stays and changes its place in {new}"


def verify_racks(key: Key, old: list[int], new: list[int], racks: Racks, rules: Mapping[str, Any]) -> None:
    """No set newly breaks the rack rule, and none that breaks it already gets worse."""
    if set(old) == set(new):
        return
    minimum = rules.get("min_rack_ids", 0)
    before, now = (Counter(r for b in row if (r := racks.get(b))) for row in (old, new))
    if rules.get("locality_scoped"):
        assert before == now, f"{key}: {old} to {new} crosses racks"
    elif rules.get("spread_over"):
        verify_spread(key, old, new, racks, rules["spread_over"])
    elif minimum == 0:
        for rack, count in now.items():
            assert count <= max(1, before[rack]), f"{key}: {count} copies in {rack}, before {before[rack]}"
    elif breaks_rack_rule(new, racks, minimum):
        assert breaks_rack_rule(old, racks, minimum), f"{key}: {new} newly breaks the rack rule"
        assert len(now) >= len(before), f"{key}: {new} spans fewer racks than {old}"


def fewest_moves(
    proof: Mapping[str, Any], plan: Mapping[str, Any], scope: Lists, sizes: Mapping[Key, int | None]
) -> int:
    """How many copies brokers above their ceilings must give, or those below their floors must get, at least.

    Where the limits slide: at the shift that needs fewest; only shifts at which a count changes need be looked at.
    """
    rules = plan["rules"]
    pinned = {(topic, partition) for topic, partition in rules.get("pinned", [])}
    givers = rules.get("givers")
    copies: dict[int, list[int]] = {limit["broker"]: [] for limit in proof["limits"]}
    load = {limit["broker"]: limit.get("fixed", 0) for limit in proof["limits"]}
    for key, old in scope.items():
        size = sizes.get(key) or 0
        if key in pinned or size < rules.get("smallest_bytes", 0):
            continue  # part of what is fixed
        for b in old:
            load[b] += size
            if givers is None or b in givers:
                copies[b].append(size)
    every = sorted((s for row in copies.values() for s in row), reverse=True)
    over = [(load[x["broker"]] - x["ceiling"], x, _sums(copies[x["broker"]])) for x in proof["limits"]]
    under = [(x["floor"] - load[x["broker"]], x, _sums(every)) for x in proof["limits"]]

    def needed(shift: int) -> int:
        give = sum(_count(sums, amount - shift * x.get("slides", True)) for amount, x, sums in over)
        get = sum(_count(sums, amount + shift * x.get("slides", True)) for amount, x, sums in under)
        return max(give, get)

    if not proof.get("slides"):
        return needed(0)
    shifts = {amount - s for amount, _, sums in over for s in (0, *sums)}
    shifts |= {s - amount for amount, _, sums in under for s in (0, *sums)}
    return min(needed(shift + near) for shift in shifts for near in (-1, 0, 1))


def _sums(sizes: list[int]) -> list[int]:
    return list(accumulate(sorted(sizes, reverse=True)))


def _count(sums: list[int], amount: int) -> int:
    """How many of the largest add up to `amount`; one more than there are where all are not enough."""
    return 0 if amount <= 0 else bisect_left(sums, amount) + 1
