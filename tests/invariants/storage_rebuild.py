"""What a rebuild by storage must keep to; works on JSON and shares no code with the planners."""

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from math import ceil
from typing import Any


def verify_storage_rebuild(plan: Mapping[str, Any], snapshot: Mapping[str, Any]) -> None:
    """Assert that reservations fit, that what need not change keeps its order, and that free bytes add up."""
    request = plan["request"]
    assert request.get("placement") == "storage"
    factor = Fraction(request.get("partition-size-factor", "1"))
    sizes = {
        (t["name"], p["partition"]): max([*(p.get("replica_bytes") or {}).values(), p.get("size_bytes") or 0])
        for t in snapshot["topics"]
        for p in t["partitions"]
    }
    free: Counter[int] = Counter({b["id"]: _free(b) for b in snapshot["brokers"]})
    targets = {b["id"] for b in plan["brokers"]}
    receiving = set()
    for move in plan["moves"]:
        old, new = move["before"], move["after"]
        size = sizes[move["topic"], move["partition"]]
        for broker in set(old) - set(new):
            free[broker] += size
        for broker in set(new) - set(old):
            assert broker in targets, f"{broker} is no target"
            free[broker] -= ceil(size * factor)
            receiving.add(broker)
        _verify_order(move, request, targets)
    for broker in receiving:
        assert free[broker] >= 0, f"broker {broker} has {free[broker]} bytes free after its reservations"
    assert plan["certificate"]["unit"] == "bytes"
    if request.get("force-rebuild") == "true" and are_leaders_even(request):
        verify_even_leaders(plan)


def are_leaders_even(request: Mapping[str, str]) -> bool:
    """True where leaders come out even: in a forced rebuild unless free bytes alone are looked at, or on request."""
    forced = request.get("force-rebuild") == "true" and request.get("optimize") != "storage"
    return forced or request.get("optimize-leadership") == "true"


def verify_even_leaders(plan: Mapping[str, Any]) -> None:
    """Assert that no chain of lists passes a leadership on to a broker with at least two less.

    Partitions that are pinned keep their leader, and it counts.
    """
    targets = {b["id"] for b in plan["brokers"]}
    after = {(m["topic"], m["partition"]): m["after"] for m in plan["moves"]}
    pinned = {tuple(key) for key in plan["rules"]["pinned"]}
    rows = {(e["topic"], e["partition"]): e["replicas"] for e in plan["scope"]} | after
    led = Counter(row[0] for row in rows.values() if row)
    steps: dict[int, set[int]] = {}
    for key, row in rows.items():
        if key not in pinned:
            steps.setdefault(row[0], set()).update(targets.intersection(row))
    for start in targets:
        reached, ends = {start}, [start]
        while ends:
            ends = sorted({b for end in ends for b in steps.get(end, ())} - reached)
            reached.update(ends)
        assert all(led[start] - led[b] < 2 for b in reached), f"{start} leads {led[start]}: {dict(led)}"


def _free(broker: Mapping[str, Any]) -> int:
    known: int | None = broker.get("storage_free_bytes")
    if known is not None:
        return known
    return sum(d.get("usable_bytes") or 0 for d in broker.get("log_dirs", []) if not d.get("error"))


def _verify_order(move: Mapping[str, Any], request: Mapping[str, str], targets: set[int]) -> None:
    """A list whose brokers stay changes only where leaders are asked for (kafka-kit shuffles them)."""
    if set(move["before"]) == set(move["after"]):
        leaders = "leader-evac-brokers" in request or are_leaders_even(request)
        assert leaders, f"{move['topic']}/{move['partition']}: only the order changes"
    if request.get("force-rebuild") != "true" and "optimize-leadership" not in request:
        # A partition that loses its leader may get any of its replicas in front.
        settled = move["after"] if move["before"][:1] == move["after"][:1] else move["after"][1:]
        stay = [b for b in move["before"] if b in settled]
        assert [b for b in settled if b in stay] == stay, f"{move}: replicas that stay change their order"
