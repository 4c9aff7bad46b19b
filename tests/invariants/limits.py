"""What a plan's request says of brokers, added up from the plan's JSON: who takes or gives nothing, and ceilings."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

Key = tuple[str, int]
Lists = Mapping[Key, Sequence[int]]


def verify_limits(plan: Mapping[str, Any], snapshot: Mapping[str, Any], scope: Lists, after: Lists) -> None:
    """Assert that the brokers excluded take or give nothing, and that no target is above a ceiling."""
    request, targets = plan["request"], [b["id"] for b in plan["brokers"]]
    receivers, givers = (_ids(request.get(name, "")) for name in ("exclude-receivers", "exclude-givers"))
    for key, new in after.items():
        assert not receivers.intersection(new) - set(scope[key]), f"{key}: {scope[key]} -> {new}, to an excluded broker"
        assert not givers.intersection(scope[key]) - set(new), f"{key}: {scope[key]} -> {new}, from an excluded broker"
    lists = {(t["name"], p["partition"]): p["replicas"] for t in snapshot["topics"] for p in t["partitions"]}
    lists |= after
    held = Counter(b for row in lists.values() for b in row)
    led = Counter(row[0] for row in lists.values() if row)
    of_topic = Counter((topic, row[0]) for (topic, _), row in lists.items() if row)
    if most := request.get("max-replicas"):
        assert all(held[b] <= int(most) for b in targets), f"more than {most} replicas on a broker: {held}"
    if most := request.get("max-leaders"):
        assert all(led[b] <= int(most) for b in targets), f"more than {most} leaders on a broker: {led}"
    if most := request.get("max-topic-leaders"):
        topics = {topic for topic, _ in after}
        wrong = {k: n for k, n in of_topic.items() if k[0] in topics and k[1] in targets and n > int(most)}
        assert not wrong, f"more than {most} leaders of a topic on a broker: {wrong}"


def _ids(text: str) -> set[int]:
    return {int(word) for word in text.split(",") if word}
