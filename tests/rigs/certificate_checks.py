"""Adds a certificate's bound up again from the plan file and the snapshot alone; shares no code with the planners."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.invariants.constraints import open_to

Racks = Mapping[int, str | None]
Key = tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What a partition's set may be: plain sets of brokers, and the rack rule."""

    racks: Racks
    receivers: Collection[int]
    keepers: Collection[int]
    givers: Collection[int]
    min_rack_ids: int
    locality_scoped: bool
    spread_over: Collection[str] = ()

    def of_set(self, old: Sequence[int], replicas: int) -> "Rules":
        """The rules for one partition: what even spread says of the number of racks that its set must span.

        No more replicas than racks: all racks differ. More: every rack is used, unless the set may stay uneven.
        """
        if not self.spread_over or self.locality_scoped:
            return self
        span = len(self.spread_over) if replicas > len(self.spread_over) else 0
        if span and uneven(old, self.racks, self.spread_over):
            span = 1  # spans one rack, whatever it is
        return replace(self, min_rack_ids=span)


def verify_certificate(
    plan: Mapping[str, Any],
    scope: Mapping[Key, Sequence[int]],
    after: Mapping[Key, Sequence[int]],
    *,
    forced: bool,
    sizes: Mapping[Key, int | None],
    racks: Racks,
) -> None:
    """Assert that objective, gap and status are right and that the bound follows from the proof.

    `after` are the partitions that could be planned at all (no stranded ones).
    """
    certificate = plan["certificate"]
    objective = _objective(certificate["unit"], scope, after, sizes)
    bound = certificate["lower_bound"]
    assert certificate["objective"] == objective, f"objective {certificate['objective']} is really {objective}"
    assert 0 <= bound <= objective, "the bound lies above the plan"
    assert "above what the plan itself does" not in certificate["argument"], "a false bound was left out"
    gap = (objective - bound) / objective if objective else 0.0
    assert abs(certificate["gap"] - gap) < 1e-12
    assert (certificate["gap"] == 0) == (bound == objective)
    assert (certificate["status"] == "optimal") == (certificate["gap"] == 0), "optimal is said only when proven"
    proof = certificate.get("proof")
    kind = proof["kind"] if proof else ""
    if kind == "prices":
        priced = priced_bound(plan, scope, after, forced=forced, sizes=sizes, racks=racks)
        later = plan["rules"].get("later", [])
        # Leaders left for later are changes that the bound for all of them includes, and the limits are of the end.
        assert bound <= max(0, priced - len(later))
        if not later:
            _verify_limits(plan, after, sizes)
    elif kind == "counting":
        # See `tests/invariants/verbs.py` and `balance.py` there for these.
        apart = ("drain", "repair", "fix-racks", "rebalance", "scale", "add-brokers")
        if plan["request"].get("command") not in [f"topicmappr {name}" for name in apart]:
            _verify_counting(plan, scope, after, sizes)
    elif kind == "none":
        assert bound == 0, "a bound without a proof"


def _objective(
    unit: str, scope: Mapping[Key, Sequence[int]], after: Mapping[Key, Sequence[int]], sizes: Mapping[Key, int | None]
) -> int:
    if unit == "leaders":
        return sum(1 for key, new in after.items() if list(new[:1]) != list(scope[key][:1]))
    return sum(len(set(new) - set(scope[key])) * _cost(unit, sizes.get(key)) for key, new in after.items())


def _cost(unit: str, size: int | None) -> int:
    return (size or 0) if unit == "bytes" else 1


def _verify_counting(
    plan: Mapping[str, Any],
    scope: Mapping[Key, Sequence[int]],
    after: Mapping[Key, Sequence[int]],
    sizes: Mapping[Key, int | None],
) -> None:
    """Each replica beyond those that stand on target brokers needs a copy."""
    certificate = plan["certificate"]
    targets = {b["id"] for b in plan["brokers"]}
    needed = 0
    still = {(topic, partition) for topic, partition in plan["rules"].get("pinned", [])}
    for key, new in after.items():
        if key in still and list(new) == list(scope[key]):
            continue
        stay = sum(1 for b in scope[key] if b in targets and open_to(plan, key[0], b))
        needed += max(0, len(new) - stay) * _cost(certificate["unit"], sizes.get(key))
    bound = certificate["lower_bound"]
    assert bound <= needed, f"the bound is {bound}, counting gives {needed}"
    if plan["request"].get("command") == "topicmappr rebuild":
        assert bound == needed, f"the bound is {bound} although counting gives {needed}"


def priced_bound(
    plan: Mapping[str, Any],
    scope: Mapping[Key, Sequence[int]],
    after: Mapping[Key, Sequence[int]],
    *,
    forced: bool,
    sizes: Mapping[Key, int | None],
    racks: Racks,
) -> int:
    """The bound from the proof's prices, by plain loops."""
    certificate = plan["certificate"]
    proof, unit = certificate["proof"], certificate["unit"]
    prices = _prices(proof)
    apiece = defaultdict(int, {limit["broker"]: limit.get("price", 0) for limit in proof.get("counts", [])})
    price_unit: int = proof.get("price_unit", 1)
    every = _rules(plan, racks, scope)
    total = 0
    for key, new in _movable(plan, after, sizes).items():
        rules = under_constraints(every.of_set(scope[key], len(new)), plan, key[0])
        if proof["load"] == "leaders":
            may = _may_lead(plan, key, scope[key])
            total += min(prices[b] + (0 if scope[key][:1] == [b] else price_unit) for b in may)
            continue
        load = (sizes.get(key) or 0) if proof["load"] == "bytes" else 1
        standing = [b for b in scope[key] if b in rules.keepers]
        exempt = not forced and breaks_rack_rule(standing, racks, rules.min_rack_ids)
        new_copy = _cost(unit, sizes.get(key)) * price_unit
        priced = {b: load * prices[b] + apiece[b] for b in {*rules.receivers, *scope[key]}}
        if len(new) == len(scope[key]) and (rules.locality_scoped or (exempt and rules.min_rack_ids == 0)):
            total += cheapest_no_worse(scope[key], priced, new_copy, rules)
        else:
            least = cheapest_set(scope[key], len(new), priced, new_copy, rules, exempt=exempt)
            total += max(least, beyond_shares(plan, scope[key], rules.keepers, new) * new_copy) if forced else least
    total -= _worth(proof)
    return max(0, -(-total // price_unit))


def under_constraints(rules: Rules, plan: Mapping[str, Any], topic: str) -> Rules:
    """The rules for one topic: new copies go to brokers that are open to it, and a rebuild keeps none on others."""
    if not plan.get("constraints"):
        return rules
    able = {b for b in {*rules.receivers, *rules.keepers} if open_to(plan, topic, b)}
    leaves = plan["request"].get("command") == "topicmappr rebuild"
    keepers = able & set(rules.keepers) if leaves else rules.keepers
    return replace(rules, receivers=able & set(rules.receivers), keepers=keepers)


def beyond_shares(plan: Mapping[str, Any], old: Sequence[int], keepers: Collection[int], new: Sequence[int]) -> int:
    """How many replicas of a set placed anew must be new copies, since values hold more than their share."""
    able = [b for b in old if b in keepers]
    most = min(len(new), len(able))
    for constraint in plan.get("constraints", []):
        values = {int(b): v for b, v in constraint.get("values", {}).items()}
        if values:
            wanted = int(plan["request"].get("replication", 0)) or len(old)
            share = -(-max(wanted, len(new)) // len(set(values.values())))
            held = Counter(values[b] for b in able if b in values)
            most = min(most, len(able) - sum(max(0, n - share) for n in held.values()))
    return max(0, len(new) - most)


def _prices(proof: Mapping[str, Any]) -> Mapping[int, int]:
    prices: dict[int, int] = defaultdict(int)
    for limit in proof["limits"]:
        prices[limit["broker"]] += limit.get("price", 0)
    for group in proof.get("groups", []):
        for broker in group["brokers"]:
            prices[broker] += group.get("price", 0)
    return prices


def _worth(proof: Mapping[str, Any]) -> int:
    """What the limits are worth at their prices, less what load that stays pays anyhow."""
    if proof.get("slides"):
        sliding = sum(limit.get("price", 0) for limit in proof["limits"] if limit.get("slides", True))
        assert sliding == 0, "sliding limits, but prices do not cancel"
    fixed = {limit["broker"]: limit.get("fixed", 0) for limit in proof["limits"]}
    worth = 0
    for limit in [*proof["limits"], *proof.get("counts", []), *proof.get("groups", [])]:
        price = limit.get("price", 0)
        if price:
            end = limit.get("ceiling") if price > 0 else limit.get("floor")
            assert end is not None, f"a price without a limit: {limit}"
            untouched = sum(fixed.get(b, 0) for b in limit["brokers"]) if "brokers" in limit else limit.get("fixed", 0)
            worth += price * (end - untouched)
    return worth


def _rules(plan: Mapping[str, Any], racks: Racks, scope: Mapping[Key, Sequence[int]]) -> Rules:
    rules = plan["rules"]
    everyone = set(racks) | {b for row in scope.values() for b in row}
    targets = {b["id"] for b in plan["brokers"]}
    leaves = plan["request"].get("command", "topicmappr rebuild") == "topicmappr rebuild"
    givers = rules.get("givers")
    return Rules(
        racks=racks,
        receivers=set(rules["receivers"]),
        keepers=targets if leaves else everyone,
        givers=everyone if givers is None else set(givers),
        min_rack_ids=rules.get("min_rack_ids", 0),
        locality_scoped=rules.get("locality_scoped", False),
        spread_over=rules.get("spread_over", ()),
    )


def _movable(
    plan: Mapping[str, Any], after: Mapping[Key, Sequence[int]], sizes: Mapping[Key, int | None]
) -> dict[Key, Sequence[int]]:
    rules = plan["rules"]
    pinned = {(topic, partition) for topic, partition in rules.get("pinned", [])}
    smallest = rules.get("smallest_bytes", 0)
    return {key: new for key, new in after.items() if key not in pinned and (sizes.get(key) or 0) >= smallest}


def _may_lead(plan: Mapping[str, Any], key: Key, replicas: Sequence[int]) -> list[int]:
    may = set(plan["rules"]["receivers"])
    found = [b for b in replicas if b in may]
    assert found, f"{key}: none of {replicas} may lead"
    return found


def cheapest_set(
    current: Sequence[int],
    wanted: int,
    price: Mapping[int, int],
    new_copy: int,
    rules: Rules,
    *,
    exempt: bool = False,
) -> int:
    """What the cheapest legal set of `wanted` brokers costs; a new copy costs `new_copy` on top of its price."""
    cost = {b: price[b] + new_copy for b in rules.receivers}
    cost |= {b: price[b] for b in current if b in rules.keepers or b in rules.receivers}
    must = [b for b in current if b in rules.keepers and b not in rules.givers]
    if len(must) > wanted:
        must = []
    if rules.locality_scoped and len(current) == wanted:
        return sum(_cheapest_in_rack(b, cost, rules.racks) if b not in must else cost[b] for b in current)
    return _spanning(cost, must, wanted, rules, exempt)


def cheapest_no_worse(current: Sequence[int], price: Mapping[int, int], new_copy: int, rules: Rules) -> int:
    """What the cheapest set costs that breaks the rack rule no more than the present one does.

    No rack holds more copies than it does now, or one; with locality each rack holds as many as now. A broker
    without a rack is a rack of its own, but with locality all these are one. Taking the cheapest first is exact,
    since racks do not share brokers.
    """

    def rack(broker: int) -> object:
        return rules.racks.get(broker) or ("" if rules.locality_scoped else broker)

    cost = {b: price[b] + new_copy for b in rules.receivers} | {b: price[b] for b in current}
    before = Counter(map(rack, current))
    chosen = [b for b in current if b not in rules.givers]
    held = Counter(map(rack, chosen))
    for broker in sorted(cost, key=lambda b: (cost[b], b)):
        most = before[rack(broker)] if rules.locality_scoped else max(1, before[rack(broker)])
        if broker not in chosen and held[rack(broker)] < most and len(chosen) < len(current):
            chosen.append(broker)
            held[rack(broker)] += 1
    return sum(cost[b] for b in chosen)


def _cheapest_in_rack(broker: int, cost: Mapping[int, int], racks: Racks) -> int:
    return min((c for b, c in cost.items() if racks.get(b) == racks.get(broker)), default=0)


def _spanning(cost: Mapping[int, int], must: Sequence[int], wanted: int, rules: Rules, exempt: bool) -> int:
    def rack(broker: int) -> tuple[str, object]:
        name = rules.racks.get(broker)
        return ("rack", name) if name else ("broker", broker)

    chosen = list(must)
    span = min(wanted, rules.min_rack_ids) if rules.min_rack_ids else wanted
    used = {rack(b) for b in must}
    if exempt or (rules.min_rack_ids == 0 and len(used) < len(must)):
        span = 0
    best: dict[tuple[str, object], int] = {}
    for broker in sorted(cost, key=lambda b: (cost[b], b)):
        if rack(broker) not in used:
            best.setdefault(rack(broker), broker)
    apart = max(0, min(span - len(used), wanted - len(must)))
    chosen += sorted(best.values(), key=lambda b: (cost[b], b))[:apart]
    rest = sorted((b for b in cost if b not in chosen), key=lambda b: (cost[b], b))
    if rules.min_rack_ids or span == 0:
        chosen += rest[: wanted - len(chosen)]
    return sum(cost[b] for b in chosen)


def _verify_limits(
    plan: Mapping[str, Any], after: Mapping[Key, Sequence[int]], sizes: Mapping[Key, int | None]
) -> None:
    """The plan itself ends within the limits that its proof prices."""
    proof = plan["certificate"]["proof"]
    loads: Counter[int] = Counter()
    for key, new in _movable(plan, after, sizes).items():
        for broker in new[:1] if proof["load"] == "leaders" else new:
            loads[broker] += (sizes.get(key) or 0) if proof["load"] == "bytes" else 1
    for limit in proof["limits"]:
        loads[limit["broker"]] += limit.get("fixed", 0)
    sliding = [limit for limit in proof["limits"] if proof.get("slides") and limit.get("slides", True)]
    least, most = _least_and_most(sliding, loads)
    assert least + most >= 0, "no common shift of the limits fits the plan's loads"
    least, most = _least_and_most([limit for limit in proof["limits"] if limit not in sliding], loads)
    assert least >= 0, "a broker ends below its floor"
    assert most >= 0, "a broker ends above its ceiling"
    numbers = Counter(b for new in _movable(plan, after, sizes).values() for b in new)
    for limit in proof.get("counts", []):
        number = numbers[limit["broker"]] + limit.get("fixed", 0)
        assert limit["floor"] <= number <= limit["ceiling"], "a broker ends with too few or too many replicas"
    for group in proof.get("groups", []):
        load = sum(loads[b] for b in group["brokers"])
        assert group.get("floor") is None or load >= group["floor"], "a group ends below its floor"
        assert group.get("ceiling") is None or load <= group["ceiling"], "a group ends above its ceiling"


def _least_and_most(limits: Sequence[Mapping[str, Any]], loads: Mapping[int, int]) -> tuple[int, int]:
    """How far loads stay above the floors and below the ceilings, at the tightest place; very far where none is."""
    low = [loads[limit["broker"]] - limit["floor"] for limit in limits if limit.get("floor") is not None]
    high = [limit["ceiling"] - loads[limit["broker"]] for limit in limits if limit.get("ceiling") is not None]
    return min(low, default=1 << 62), min(high, default=1 << 62)


def uneven(replicas: Sequence[int], racks: Racks, over: Collection[str]) -> bool:
    """True when one of these racks holds two replicas more than another."""
    counts = [sum(racks.get(b) == rack for b in replicas) for rack in over]
    return max(counts) > min(counts) + 1


def verify_spread(key: Key, old: Sequence[int], new: Sequence[int], racks: Racks, over: Collection[str]) -> None:
    """An even set stays even; in another no rack gets more than a share, rounded up, or than it held before."""
    if not uneven(new, racks, over):
        return
    assert uneven(old, racks, over), f"{key}: {new} is no even spread over {over}, and {old} was"
    for rack in over:
        before, now = (sum(racks.get(b) == rack for b in row) for row in (old, new))
        assert now <= before or now * len(over) < len(new) + len(over), f"{key}: {new} crowds rack {rack} more"


def breaks_rack_rule(replicas: Sequence[int], racks: Racks, minimum: int) -> bool:
    """True when a rack repeats although all must differ, or although fewer than `minimum` are used."""
    used = [racks.get(b) for b in replicas if racks.get(b)]
    return len(used) > len(set(used)) and (minimum == 0 or len(set(used)) < minimum)
