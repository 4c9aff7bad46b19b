"""What the plans of single verbs must keep to; works on JSON and shares no code with the planners."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.invariants.budget import spared_by
from tests.rigs.certificate_checks import Key, Racks, verify_spread

Lists = Mapping[Key, list[int]]


def verify_verb(plan: Mapping[str, Any], snapshot: Mapping[str, Any], scope: Lists, after: Lists) -> None:
    """Assert what the plan's own verb promises; `after` are all partitions of the scope, moved or not."""
    command = plan["request"]["command"]
    receivers = set(plan["rules"]["receivers"])
    alive = {b["id"] for b in snapshot["brokers"] if b.get("state", "alive") == "alive"}
    assert receivers <= alive
    for key, new in after.items():
        old = scope[key]
        assert len(new) == len(old), f"{key}: {old} became {new}"
        assert len(set(new)) == len(new), f"{key}: {new} names a broker twice"
        assert set(new) - set(old) <= receivers, f"{key}: {new} uses brokers that may not receive"
    if command == "topicmappr drain":
        _verify_drain(plan, scope, after, {b["id"]: b.get("rack") or None for b in snapshot["brokers"]})
    else:
        _verify_fix_racks(plan, snapshot, scope, after)


def _verify_drain(plan: Mapping[str, Any], scope: Lists, after: Lists, racks: Racks) -> None:
    leaving = set(map(int, plan["request"]["brokers"].split(",")))
    copies = 0
    spared = spared_by(plan, scope)
    for key, new in after.items():
        old = scope[key]
        if new == old:
            assert plan["warnings"] or key in spared or not leaving & set(old), f"{key} stays on {leaving & set(old)}"
            continue
        assert not leaving & set(new), f"{key}: {new} still uses a leaving broker"
        stay = [b for b in old if b not in leaving]
        assert set(stay) <= set(new), f"{key}: {set(stay) - set(new)} could have stayed"
        if plan["rules"].get("spread_over"):
            verify_spread(key, old, new, racks, plan["rules"]["spread_over"])
        if old[0] not in leaving:
            assert new[0] == old[0], f"{key}: the leader lost its place"
        copies += len(old) - len(stay)
    assert plan["certificate"]["lower_bound"] == plan["certificate"]["objective"] == copies


def _verify_fix_racks(plan: Mapping[str, Any], snapshot: Mapping[str, Any], scope: Lists, after: Lists) -> None:
    racks = {b["id"]: b.get("rack") or None for b in snapshot["brokers"]}
    spread = plan["request"].get("spread") == "true"
    minimum = int(plan["request"].get("min-rack-ids", "0"))
    names = {racks[b] for b in plan["rules"]["receivers"]} - {None}
    broken = []
    spared = spared_by(plan, scope)
    for key, new in after.items():
        if key in spared:
            continue
        count = Counter(r for b in new if (r := racks[b]))
        if spread:
            inside = [count[r] for r in names]
            wrong = bool(inside) and max(inside) - min(inside) > 1
        else:
            wrong = sum(count.values()) > len(count) and (minimum == 0 or len(count) < minimum)
        if wrong:
            broken.append(key)
            assert new == scope[key], f"{key} was touched and still breaks the rule"
    assert bool(broken) <= bool(plan["warnings"]), f"{broken} break the rule and nothing is said of it"
