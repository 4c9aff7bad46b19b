"""An independent check of any plan: works on the plan file's JSON and shares no code with the planners."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from tests.invariants.balance import verify_balance
from tests.invariants.budget import spared_by, verify_budget
from tests.invariants.constraints import open_to, verify_constraints
from tests.invariants.limits import verify_limits
from tests.invariants.log_dirs import verify_dir_levels, verify_dirs
from tests.invariants.verbs import is_lost, leaders_told, verify_verb
from tests.rigs.certificate_checks import Key, Racks, breaks_rack_rule, verify_certificate

__all__ = ["breaks_rack_rule", "verify_plan"]


def verify_plan(plan: Mapping[str, Any], snapshot: Mapping[str, Any], *, allow_unplaced: bool = False) -> None:
    """Assert that the plan fits the snapshot and its own request, and that its proof adds up.

    `plan` and `snapshot` are the decoded JSON files. With `allow_unplaced` partitions may end with fewer
    replicas than wanted (a plan written with --ignore-warns).
    """
    request = plan["request"]
    seen = request.get("use-meta") != "false"
    racks = {b["id"]: b.get("rack") or None for b in snapshot["brokers"]} if seen else {}
    alive = {b["id"] for b in snapshot["brokers"] if b.get("state", "alive") == "alive"}
    scope = {(e["topic"], e["partition"]): e["replicas"] for e in plan["scope"]}
    assert all(m["after"] for m in plan["moves"]), "a partition loses its last copy"
    assert len(scope) == len(plan["scope"]), "a partition stands twice in the scope"
    _verify_scope(scope, snapshot, from_map="map-string" in request)
    targets = {b["id"] for b in plan["brokers"]}
    assert not seen or targets <= alive, f"targets that are not alive: {sorted(targets - alive)}"
    after, moved = _verify_moves(plan, scope)
    _verify_spread_racks(plan, racks)
    verify_constraints(plan, scope, after)
    stranded = _stranded(snapshot, scope, alive) if seen else set()
    assert not stranded & moved, "a partition without a live copy in sync is moved"
    placed = {key: new for key, new in after.items() if key not in stranded}
    verify_budget(plan, scope, after, _sizes(snapshot), stranded)
    spared = spared_by(plan, scope)
    forced = request.get("force-rebuild") == "true"
    command = request.get("command")
    if command == "topicmappr leaders":
        _verify_orders(plan, scope, placed)
    elif command in ("topicmappr drain", "topicmappr repair", "topicmappr fix-racks"):
        verify_verb(plan, snapshot, scope, after)
        verify_limits(plan, snapshot, scope, after)
    elif command == "topicmappr rebalance-dirs":
        assert after == scope, "a replica changes brokers"
    elif command in ("topicmappr rebalance", "topicmappr scale", "topicmappr add-brokers"):
        verify_balance(plan, scope, after, racks, _sizes(snapshot))
        verify_limits(plan, snapshot, scope, after)
    else:
        verify_limits(plan, snapshot, scope, after)
        minimum_racks = int(request.get("min-rack-ids", "0"))
        placed = {key: new for key, new in placed.items() if key not in spared}
        for key, new in placed.items():
            wanted = int(request.get("replication", "0")) or len(scope[key])
            mine = {b for b in targets if open_to(plan, key[0], b)}
            if allow_unplaced and new == scope[key] and _is_left(plan, key):
                continue
            stray = [b for b in new if b not in mine and (b not in scope[key] or len(new) < len(scope[key]))]
            assert not stray, f"{key}: {stray} are closed to the topic"
            _verify_set(key, scope[key], new, wanted, mine, racks, minimum_racks, forced, allow_unplaced)
            _verify_leader(key, scope[key], new, request, mine, forced)
    if command == "topicmappr rebalance-dirs":
        verify_dir_levels(plan, snapshot)
    else:
        verify_certificate(plan, scope, placed, forced=forced, sizes=_sizes(snapshot), racks=racks)
    verify_dirs(plan, snapshot)
    _verify_counts(plan["before"], scope.values(), targets)
    _verify_counts(plan["after"], after.values(), targets)
    assert plan["fingerprint"] == _fingerprint(plan), "the fingerprint is not that of the scope"


def _is_left(plan: Mapping[str, Any], key: Key) -> bool:
    """True where a warning says that a partition stays as it is."""
    name = f"{key[0]} p{key[1]}: "
    return any(w.startswith(name) and w.endswith("left as it is") for w in plan["warnings"])


def _verify_moves(plan: Mapping[str, Any], scope: Mapping[Key, list[int]]) -> tuple[dict[Key, list[int]], set[Key]]:
    """Moves and both maps agree; returns every partition's list afterwards, and which change."""
    after = dict(scope)
    moves = {(m["topic"], m["partition"]): m for m in plan["moves"]}
    for key, move in moves.items():
        assert move["before"] == scope[key], f"{key}: the move starts elsewhere"
        assert move["after"] != move["before"], f"{key}: a move that changes nothing"
        after[key] = move["after"]
    assert _as_map(plan["reassignment"]) == {k: m["after"] for k, m in moves.items()}, "reassignment map differs"
    assert _as_map(plan["rollback"]) == {k: m["before"] for k, m in moves.items()}, "rollback map differs"
    return after, set(moves)


def _verify_spread_racks(plan: Mapping[str, Any], racks: Racks) -> None:
    """Even spread is recorded where it was asked for: over racks of targets, those of the receivers among them."""
    rules = plan.get("rules") or {}
    over = rules.get("spread_over", [])
    assert bool(over) == (plan["request"].get("spread") == "true"), "even spread is not what was asked for"
    if over:
        assert list(over) == sorted(set(over))
        assert not rules.get("min_rack_ids"), "two rack rules"
        receiving = {racks[b] for b in rules["receivers"]} - {None}
        assert receiving <= set(over) <= {racks[b["id"]] for b in plan["brokers"]}


def _verify_orders(plan: Mapping[str, Any], scope: Mapping[Key, list[int]], placed: Mapping[Key, list[int]]) -> None:
    """A plan of leaders changes the order alone, and brings one broker that may lead to the front."""
    may = set(plan["rules"]["receivers"])
    pinned = {(topic, partition) for topic, partition in plan["rules"].get("pinned", [])}
    spared = spared_by(plan, scope)
    for key, new in placed.items():
        if key in spared:
            continue
        if key in pinned:
            assert new == scope[key], f"{key}: pinned, and changed"
            assert not may & set(new), f"{key}: pinned, although {sorted(may & set(new))} may lead"
            continue
        assert new[0] in may, f"{key}: {new[0]} must not lead"
        assert new[1:] == [b for b in scope[key] if b != new[0]], f"{key}: followers changed their order in {new}"


def _verify_leader(
    key: Key, old: list[int], new: list[int], request: Mapping[str, str], targets: set[int], forced: bool
) -> None:
    """The leader keeps its place unless the request is about leaders; evacuated ones never lead."""
    evacuated = {int(b) for b in request.get("leader-evac-brokers", "").split(",") if b}
    topics = [t.strip() for t in request.get("leader-evac-topics", "").split(",")]
    if evacuated and new and (key[0] in topics or ".*" in topics):
        assert new[0] not in evacuated, f"{key}: {new[0]} was to lead no more"
    elif {"max-leaders", "max-topic-leaders"} & {*request}:
        return  # leaders pass on as ceilings ask for
    elif old and old[0] in targets and new and not forced and request.get("optimize-leadership") != "true":
        assert new[0] == old[0], f"{key}: the leader {old[0]} lost its place in {new}"


def _stranded(snapshot: Mapping[str, Any], scope: dict[Key, list[int]], alive: set[int]) -> set[Key]:
    """Partitions whose every copy in sync (every copy, if unknown) is on a dead broker or in a failed log dir."""
    states = {(t["name"], p["partition"]): p for t in snapshot["topics"] for p in t["partitions"]}
    failed = {b["id"]: {d["path"] for d in b.get("log_dirs") or () if d.get("error")} for b in snapshot["brokers"]}
    found, leads = set(), leaders_told(snapshot)
    for key, replicas in scope.items():
        state = states.get(key, {})
        known = state.get("isr")
        sources = alive & set(replicas if known is None else known)
        if replicas and not {b for b in sources if not is_lost(state, b, failed.get(b, set()), leads)}:
            found.add(key)
    return found


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
            assert breaks_rack_rule(stay, racks, minimum_racks), f"{key}: {new} newly breaks the rack rule"
            fresh = [racks.get(b) for b in new if b not in stay and racks.get(b)]
            standing = {racks.get(b) for b in stay}
            assert minimum_racks or not any(r in standing for r in fresh), f"{key}: {new} makes it worse"
    else:
        assert set(new) <= set(stay), f"{key}: {new} adds copies where the factor shrinks"


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
