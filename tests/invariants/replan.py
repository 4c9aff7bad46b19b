"""Holds plans of `topicmappr replan` to the checker of all plans, with moves that run now taken out first."""

import copy
from collections.abc import Mapping
from typing import Any

from tests.invariants.plan import _fingerprint, verify_plan

Key = tuple[str, int]


def verify_replan(plan: Mapping[str, Any], snapshot: Mapping[str, Any], *, allow_unplaced: bool = False) -> None:
    """Assert that moves under way keep their target and that the rest of the plan is sound, proof included.

    Partitions that another process is moving must not be in the plan at all. What runs is then taken out of plan and
    snapshot, its copies off both sides of the certificate, and `verify_plan` looks at what is left.
    """
    mine, seen = copy.deepcopy(dict(plan)), copy.deepcopy(dict(snapshot))
    running = {(r["topic"], r["partition"]): r for r in snapshot.get("reassignments", [])}
    ours = {(t, p) for t, p in plan["rules"].get("under_way", [])}
    in_scope = {(e["topic"], e["partition"]) for e in plan["scope"]}
    hanging = (in_scope & set(running)) - ours
    alive = {b["id"] for b in snapshot["brokers"] if b.get("state", "alive") == "alive"}
    for key in hanging:
        assert set(running[key]["adding"]) - alive, f"{key} moves elsewhere and is in the plan"
    _take_out(mine, running, ours, seen)
    _settle(seen, running, ours, in_scope)
    verify_plan(mine, seen, allow_unplaced=allow_unplaced)


def _settle(snapshot: dict[str, Any], running: Mapping[Key, Any], ours: set[Key], in_scope: set[Key]) -> None:
    """Show moves that hang as not begun; leave out those that run, for us or for others."""
    for topic in snapshot["topics"]:
        kept = []
        for p in topic["partitions"]:
            key = (topic["name"], p["partition"])
            move = running.get(key)
            if move is not None and (key not in in_scope or key in ours):
                continue
            if move is not None:
                p["replicas"] = [b for b in p["replicas"] if b not in move["adding"]]
                p["adding"], p["removing"] = [], []
            kept.append(p)
        topic["partitions"] = kept


def _take_out(plan: dict[str, Any], running: Mapping[Key, Any], ours: set[Key], snapshot: dict[str, Any]) -> None:
    sizes = {(t["name"], p["partition"]): p for t in snapshot["topics"] for p in t["partitions"]}
    unit, forced = plan["certificate"]["unit"], 0
    moves = {(m["topic"], m["partition"]): m for m in plan["moves"]}
    for entry in plan["scope"]:
        key = (entry["topic"], entry["partition"])
        if key in running and key not in ours:  # it hangs: the order is not known
            move = running[key]
            assert set(entry["replicas"]) == set(move["replicas"]) - set(move["adding"])
            sizes[key]["replicas"] = [*entry["replicas"], *move["adding"]]
        if key not in ours:
            continue
        move = running[key]
        target = [b for b in move["replicas"] if b not in move["removing"]]
        assert moves[key]["after"] == target, f"{key} is under way to {target}, not to {moves[key]['after']}"
        assert set(entry["replicas"]) == set(move["replicas"]) - set(move["adding"])
        p = sizes[key]
        size = max(p["replica_bytes"].values()) if p.get("replica_bytes") else p.get("size_bytes") or 0
        forced += len(set(target) - set(entry["replicas"])) * (size if unit == "bytes" else 1)
        _uncount(plan["before"], entry["replicas"])
        _uncount(plan["after"], target)
    plan["scope"] = [e for e in plan["scope"] if (e["topic"], e["partition"]) not in ours]
    plan["moves"] = [m for k, m in moves.items() if k not in ours]
    for name in ("reassignment", "rollback"):
        rows = plan[name]["partitions"]
        plan[name]["partitions"] = [r for r in rows if (r["topic"], r["partition"]) not in ours]
    proof = plan["certificate"]
    bounded = proof.get("proof", {}).get("kind") != "none"
    proof["objective"] -= forced
    proof["lower_bound"] -= forced if bounded else 0
    gap = (proof["objective"] - proof["lower_bound"]) / proof["objective"] if proof["objective"] else 0.0
    proof["gap"], proof["status"] = gap, "optimal" if proof["objective"] == proof["lower_bound"] else "feasible"
    _remeasure(plan)
    plan["fingerprint"] = _fingerprint(plan)


def _uncount(stats: dict[str, Any], replicas: list[int]) -> None:
    rows = {b["broker"]: b for b in stats["brokers"]}
    for broker in replicas:
        rows[broker]["replicas"] -= 1
    rows[replicas[0]]["leaders"] -= 1


def _remeasure(plan: dict[str, Any]) -> None:
    """Drop brokers that hold nothing any more and are no target, and measure again."""
    targets = {b["id"] for b in plan["brokers"]}
    for stats in (plan["before"], plan["after"]):
        stats["brokers"] = [b for b in stats["brokers"] if b["replicas"] or b["broker"] in targets]
        inside = [b for b in stats["brokers"] if b["broker"] in targets]
        for name in ("replicas", "leaders"):
            stats[f"{name}_min"] = min((b[name] for b in inside), default=0)
            stats[f"{name}_max"] = max((b[name] for b in inside), default=0)
