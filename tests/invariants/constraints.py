"""Constraints by tags, checked on the plan's JSON: every new copy keeps to them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

Key = tuple[str, int]


def verify_constraints(
    plan: Mapping[str, Any], scope: Mapping[Key, Sequence[int]], after: Mapping[Key, Sequence[int]]
) -> None:
    """Assert that no new copy breaks a constraint of the plan, and that each has a note."""
    for constraint in plan.get("constraints", []):
        assert any(n.startswith(f"{constraint['text']}: ") for n in plan["notes"]), f"no note on {constraint['text']}"
        for key, new in after.items():
            wanted = int(plan["request"].get("replication", 0)) or len(scope[key])
            problem = broken(constraint, key[0], scope[key], new, wanted)
            assert not problem, f"{key}: {scope[key]} -> {new}: {constraint['text']}: {problem}"


def broken(constraint: Mapping[str, Any], topic: str, old: Sequence[int], new: Sequence[int], wanted: int = 0) -> str:
    """How the new copies of a list break a constraint; empty when they do not. Not all `wanted` may have a place."""
    added = [b for b in new if b not in old]
    values = {int(b): v for b, v in constraint.get("values", {}).items()}
    if values:
        most = -(-max(wanted, len(new)) // len(set(values.values())))
        before, now = (Counter(values[b] for b in row if b in values) for row in (old, new))
        for b in added:
            if b in values and now[values[b]] > max(most, before[values[b]]):
                return f"{now[values[b]]} replicas on {values[b]}, {most} may be"
    closed = [b for b in added if not _open(constraint, topic, b)]
    return f"{closed} are closed to it" if closed else ""


def open_to(plan: Mapping[str, Any], topic: str, broker: int) -> bool:
    """True when the plan's constraints leave the broker to the topic."""
    return all(_open(c, topic, broker) for c in plan.get("constraints", []))


def _open(constraint: Mapping[str, Any], topic: str, broker: int) -> bool:
    if topic not in constraint["topics"]:
        return True
    only = constraint["only"]
    return broker not in constraint["never"] and (only is None or broker in only)
