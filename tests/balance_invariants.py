"""What plans of `topicmappr rebalance` and `scale` must keep to; works on JSON and shares no code with the planners."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.certificates import Key, Racks, breaks_rack_rule

Lists = Mapping[Key, list[int]]


def verify_balance(
    plan: Mapping[str, Any], scope: Lists, after: Lists, racks: Racks, sizes: Mapping[Key, int | None]
) -> None:
    """Assert that replica lists changed only as the plan's rules allow; `after` are all partitions of the scope."""
    rules = plan["rules"]
    receivers = set(rules["receivers"])
    givers = rules.get("givers")
    pinned = {(topic, partition) for topic, partition in rules.get("pinned", [])}
    reordered = plan["request"].get("optimize-leadership") == "true"
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
            for before, now in zip(old, new, strict=True):
                assert now == before or before in gone, f"{key}: {before} stays and changes its place in {new}"


def verify_racks(key: Key, old: list[int], new: list[int], racks: Racks, rules: Mapping[str, Any]) -> None:
    """No set breaks the rack rule anew, and none that breaks it already gets worse."""
    if set(old) == set(new):
        return
    minimum = rules.get("min_rack_ids", 0)
    before, now = (Counter(r for b in row if (r := racks.get(b))) for row in (old, new))
    if rules.get("locality_scoped"):
        assert before == now, f"{key}: {old} to {new} crosses racks"
    elif minimum == 0:
        for rack, count in now.items():
            assert count <= max(1, before[rack]), f"{key}: {count} copies in {rack}, before {before[rack]}"
    elif breaks_rack_rule(new, racks, minimum):
        assert breaks_rack_rule(old, racks, minimum), f"{key}: {new} breaks the rack rule anew"
        assert len(now) >= len(before), f"{key}: {new} spans fewer racks than {old}"
