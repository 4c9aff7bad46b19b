"""An independent check of any plan: works on the plan file's JSON and shares no code with the planners."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tests.verb_invariants import verify_verb

Racks = Mapping[int, str | None]
Key = tuple[str, int]


def verify_plan(plan: Mapping[str, Any], snapshot: Mapping[str, Any], *, allow_unplaced: bool = False) -> None:
    """Assert that the plan fits the snapshot and its own request, and that its proof adds up.

    `plan` and `snapshot` are the decoded JSON files. With `allow_unplaced` partitions may end with fewer
    replicas than wanted (a plan written with --ignore-warns).
    """
    racks = {b["id"]: b.get("rack") or None for b in snapshot["brokers"]}
    alive = {b["id"] for b in snapshot["brokers"] if b.get("state", "alive") == "alive"}
    request = plan["request"]
    scope = {(e["topic"], e["partition"]): e["replicas"] for e in plan["scope"]}
    assert len(scope) == len(plan["scope"]), "a partition stands twice in the scope"
    _verify_scope(scope, snapshot, from_map="map-string" in request)
    targets = {b["id"] for b in plan["brokers"]}
    assert targets <= alive, f"targets that are not alive: {sorted(targets - alive)}"
    after = dict(scope)
    moves = {(m["topic"], m["partition"]): m for m in plan["moves"]}
    for key, move in moves.items():
        assert move["before"] == scope[key], f"{key}: the move starts elsewhere"
        assert move["after"] != move["before"], f"{key}: a move that changes nothing"
        after[key] = move["after"]
    forced = request.get("force-rebuild") == "true"
    minimum_racks = int(request.get("min-rack-ids", "0"))
    stranded = _stranded(snapshot, scope, alive)
    assert not stranded & set(moves), "a partition without a live copy in sync is moved"
    verb = request.get("command") in ("topicmappr drain", "topicmappr fix-racks")
    if verb:
        verify_verb(plan, snapshot, scope, after)
    for key, new in after.items():
        if verb or key in stranded:
            continue
        wanted = int(request.get("replication", "0")) or len(scope[key])
        _verify_set(key, scope[key], new, wanted, targets, racks, minimum_racks, forced, allow_unplaced)
    assert _as_map(plan["reassignment"]) == {k: m["after"] for k, m in moves.items()}, "reassignment map differs"
    assert _as_map(plan["rollback"]) == {k: m["before"] for k, m in moves.items()}, "rollback map differs"
    placed = {key: new for key, new in after.items() if key not in stranded}
    _verify_certificate(plan, scope, placed, targets, forced, _sizes(snapshot))
    _verify_counts(plan["before"], scope.values(), targets)
    _verify_counts(plan["after"], after.values(), targets)
    assert plan["fingerprint"] == _fingerprint(plan), "the fingerprint is not that of the scope"


def _stranded(snapshot: Mapping[str, Any], scope: dict[Key, list[int]], alive: set[int]) -> set[Key]:
    """Partitions whose every copy in sync (every copy, where that is unknown) is on a broker that is not alive."""
    in_sync = {(t["name"], p["partition"]): p.get("isr") for t in snapshot["topics"] for p in t["partitions"]}
    found = set()
    for key, replicas in scope.items():
        known = in_sync.get(key)
        sources = replicas if known is None else known
        if replicas and not alive & set(sources):
            found.add(key)
    return found


def breaks_rack_rule(replicas: Sequence[int], racks: Racks, minimum: int) -> bool:
    """True when a rack repeats although all must differ, or although fewer than `minimum` are used."""
    used = [racks.get(b) for b in replicas if racks.get(b)]
    return len(used) > len(set(used)) and (minimum == 0 or len(set(used)) < minimum)


def _verify_scope(scope: dict[Key, list[int]], snapshot: Mapping[str, Any], *, from_map: bool) -> None:
    if from_map:
        return
    names = {topic for topic, _ in scope}
    live = {
        (t["name"], p["partition"]): p["replicas"]
        for t in snapshot["topics"]
        if t["name"] in names
        for p in t["partitions"]
    }
    assert scope == live, "the scope is not what the snapshot says of these topics"


def _verify_set(
    key: Key,
    old: list[int],
    new: list[int],
    wanted: int,
    targets: set[int],
    racks: Racks,
    minimum_racks: int,
    forced: bool,
    allow_unplaced: bool,
) -> None:
    assert len(set(new)) == len(new), f"{key}: a broker stands twice in {new}"
    assert set(new) <= targets, f"{key}: {new} uses brokers outside the targets"
    assert len(new) <= wanted, f"{key}: {new} is longer than the {wanted} wanted"
    assert allow_unplaced or len(new) == wanted, f"{key}: {new} is shorter than the {wanted} wanted"
    stay = [b for b in old if b in targets]
    if forced:
        assert not breaks_rack_rule(new, racks, minimum_racks), f"{key}: {new} breaks the rack rule"
        return
    if len(stay) <= wanted:
        assert set(stay) <= set(new), f"{key}: {sorted(set(stay) - set(new))} could have stayed"
        if breaks_rack_rule(new, racks, minimum_racks):
            assert breaks_rack_rule(stay, racks, minimum_racks), f"{key}: {new} breaks the rack rule anew"
            fresh = [racks.get(b) for b in new if b not in stay and racks.get(b)]
            standing = {racks.get(b) for b in stay}
            assert minimum_racks or not any(r in standing for r in fresh), f"{key}: {new} makes it worse"
    else:
        assert set(new) <= set(stay), f"{key}: {new} adds copies where the factor shrinks"
    if old and old[0] in targets and new:
        assert new[0] == old[0], f"{key}: the leader {old[0]} lost its place in {new}"


def _as_map(partition_map: Mapping[str, Any]) -> dict[Key, list[int]]:
    assert partition_map["version"] == 1
    keys = [(p["topic"], p["partition"]) for p in partition_map["partitions"]]
    assert keys == sorted(set(keys)), "map entries are not sorted or not unique"
    return {(p["topic"], p["partition"]): p["replicas"] for p in partition_map["partitions"]}


def _sizes(snapshot: Mapping[str, Any]) -> dict[Key, int | None]:
    sizes: dict[Key, int | None] = {}
    for topic in snapshot["topics"]:
        for p in topic["partitions"]:
            copies = p.get("replica_bytes") or {}
            sizes[topic["name"], p["partition"]] = max(copies.values()) if copies else p.get("size_bytes")
    return sizes


def _verify_certificate(
    plan: Mapping[str, Any],
    scope: dict[Key, list[int]],
    after: dict[Key, list[int]],
    targets: set[int],
    forced: bool,
    sizes: dict[Key, int | None],
) -> None:
    proof = plan["certificate"]

    def weight(key: Key) -> int:
        return 1 if proof["unit"] == "replicas" else sizes[key] or 0

    copies = {key: [b for b in new if b not in scope[key]] for key, new in after.items()}
    objective = sum(len(c) * weight(key) for key, c in copies.items())
    assert proof["objective"] == objective, f"objective {proof['objective']} is really {objective}"
    assert 0 <= proof["lower_bound"] <= objective, "the bound lies above the plan"
    gap = (objective - proof["lower_bound"]) / objective if objective else 0.0
    assert abs(proof["gap"] - gap) < 1e-12
    assert (proof["gap"] == 0) == (proof["lower_bound"] == objective)
    assert (proof["status"] == "optimal") == (proof["gap"] == 0), "optimal is said only when proven"
    if forced or plan["request"].get("command") in ("topicmappr drain", "topicmappr fix-racks"):
        return
    needed = 0
    for key, new in after.items():
        stay = len([b for b in scope[key] if b in targets])
        needed += max(0, len(new) - stay) * weight(key)
    assert proof["lower_bound"] == needed, f"the bound is {proof['lower_bound']}, counting gives {needed}"


def _verify_counts(stats: Mapping[str, Any], lists: Any, targets: set[int]) -> None:
    rows = list(lists)
    replicas = Counter(b for row in rows for b in row)
    leaders = Counter(row[0] for row in rows if row)
    listed = {b["broker"]: b for b in stats["brokers"]}
    assert set(listed) == targets | set(replicas), "brokers are missing from the statistics"
    for broker, row in listed.items():
        assert (row["replicas"], row["leaders"]) == (replicas[broker], leaders[broker])
    assert stats["replicas_min"] == min((replicas[b] for b in targets), default=0)
    assert stats["replicas_max"] == max((replicas[b] for b in targets), default=0)
    assert stats["leaders_min"] == min((leaders[b] for b in targets), default=0)
    assert stats["leaders_max"] == max((leaders[b] for b in targets), default=0)


def _fingerprint(plan: Mapping[str, Any]) -> str:
    head = [plan["cluster_id"], sorted([b["id"], b.get("rack") or ""] for b in plan["brokers"])]
    rows = sorted([e["topic"], e.get("topic_id") or "", e["partition"], e["replicas"]] for e in plan["scope"])
    rows.sort(key=lambda r: (r[0], r[2]))
    text = "".join(json.dumps(part, separators=(",", ":")) for part in [head, *rows])
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
