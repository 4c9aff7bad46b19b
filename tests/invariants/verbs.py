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
    if command in ("topicmappr drain", "topicmappr repair"):
        leaving = _leaving(plan, snapshot, scope)
        _verify_drain(plan, scope, after, {b["id"]: b.get("rack") or None for b in snapshot["brokers"]}, leaving)
    else:
        _verify_fix_racks(plan, snapshot, scope, after)


def _leaving(plan: Mapping[str, Any], snapshot: Mapping[str, Any], scope: Lists) -> dict[Key, set[int]]:
    """The brokers that each partition has to leave."""
    words = plan["request"]
    named = (
        set(map(int, words["brokers"].split(","))) if words.get("brokers") else {b for r in scope.values() for b in r}
    )
    if words["command"] == "topicmappr drain" and "log-dir" not in words:
        return {key: named & {*row} for key, row in scope.items()}
    copies = {(t["name"], p["partition"]): p for t in snapshot["topics"] for p in t["partitions"]}
    found, leads = {}, leaders_told(snapshot)
    for key, row in scope.items():
        dirs = {int(b): path for b, path in copies[key]["replica_dirs"].items()}
        if words["command"] == "topicmappr repair":
            found[key] = {b for b in named & {*row} if _is_offline(snapshot, copies[key], b, leads=leads)}
        else:
            inside = {m["broker"] for m in plan["dir_moves"] if (m["topic"], m["partition"]) == key}
            found[key] = {b for b in named & {*row} if dirs.get(b) in words["log-dir"].split(",")} - inside
    return found


def _is_offline(snapshot: Mapping[str, Any], copy: Mapping[str, Any], broker: int, *, leads: bool) -> bool:
    """On a dead broker, in a failed dir, or in none that works where one has failed."""
    state = {b["id"]: b for b in snapshot["brokers"]}.get(broker)
    if state is None or state["state"] != "alive":
        return True
    failed = {d["path"] for d in state["log_dirs"] if d["error"] is not None}
    return is_lost(copy, broker, failed, leads)


def leaders_told(snapshot: Mapping[str, Any]) -> bool:
    """Without any leader in a snapshot leaders are not known."""
    return any(p.get("leader") is not None for t in snapshot["topics"] for p in t["partitions"])


def is_lost(copy: Mapping[str, Any], broker: int, failed: set[str], leads: bool) -> bool:
    """In a failed dir; one that its broker does not list was there, unless the partition is led with it in sync."""
    path = (copy.get("replica_dirs") or {}).get(str(broker))
    if path is not None or not failed:
        return path in failed
    listed = str(broker) in (copy.get("replica_bytes") or {}) or broker in (copy.get("adding") or ())
    return not listed and ((leads and copy.get("leader") is None) or broker not in (copy.get("isr") or ()))


def _verify_drain(
    plan: Mapping[str, Any], scope: Lists, after: Lists, racks: Racks, leaves: Mapping[Key, set[int]]
) -> None:
    copies = 0
    spared = spared_by(plan, scope)
    for key, new in after.items():
        old, leaving = scope[key], leaves[key]
        if new == old:
            assert plan["warnings"] or key in spared or not leaving & set(old), f"{key} stays on {leaving & set(old)}"
            continue
        assert not leaving & set(new), f"{key}: {new} still uses a leaving broker"
        stay = [b for b in old if b not in leaving]
        assert set(stay) <= set(new), f"{key}: {set(stay) - set(new)} could have stayed"
        if plan["rules"].get("spread_over"):
            verify_spread(key, old, new, racks, plan["rules"]["spread_over"])
        if old[0] not in leaving and not {"max-leaders", "max-topic-leaders"} & {*plan["request"]}:
            assert new[0] == old[0], f"{key}: the leader lost its place"
        copies += len(old) - len(stay)
    certificate = plan["certificate"]
    assert certificate["objective"] == copies >= certificate["lower_bound"]
    assert "log-dir" in plan["request"] or certificate["lower_bound"] == copies


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
