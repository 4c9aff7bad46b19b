"""Why replicas could not be placed, in words that name what to add."""

from collections import defaultdict
from collections.abc import Mapping

from kafkakit.core.errors import InfeasibleError
from kafkakit.placement.problem import PlacementProblem, PlannedPartition

_NAMED = 5


def explain_unplaced(
    problem: PlacementProblem, unplaced: tuple[int, ...], live: Mapping[int, str | None]
) -> tuple[str, ...]:
    """One reason a kind of shortage, with the topics it hits; `live` maps every live broker to its rack."""
    topics: dict[str, set[str]] = defaultdict(set)
    for partition, missing in zip(problem.partitions, unplaced, strict=True):
        if missing:
            topics[_reason(problem, partition, live)].add(partition.key.topic)
    return tuple(sorted(f"{_named(names)} {_agreeing(reason, names)}" for reason, names in topics.items()))


def infeasible(shortages: tuple[str, ...], unplaced: tuple[int, ...]) -> InfeasibleError:
    """The error of a request that no placement satisfies: why, and what writing the plan all the same would mean."""
    count = sum(1 for n in unplaced if n)
    return InfeasibleError(
        f"no plan fits: {'; '.join(shortages)}",
        reasons=shortages if len(shortages) > 1 else (),
        hint=f"{count} partition(s) would end with fewer replicas; --ignore-warns writes that plan anyway",
    )


def _reason(problem: PlacementProblem, p: PlannedPartition, live: Mapping[int, str | None]) -> str:
    racks = sorted({r for b in problem.targets if (r := problem.rack_of(b))})
    rackless = sum(1 for b in problem.targets if not problem.rack_of(b))
    if len(problem.targets) < p.wanted:
        spare = [b for b in sorted(live) if b not in problem.targets]
        add = f"add brokers (live and not listed: {_ids(spare)})" if spare else "start more brokers"
        return f"wants {p.wanted} replicas, the list has {len(problem.targets)} live brokers; {add}"
    rules = problem.rule.tags
    if rules is not None and rules.most(p.key.topic, problem.targets, p.wanted) < p.wanted:
        words = rules.words(p.key.topic, problem.targets, p.wanted)
        return (
            f"wants {p.wanted} replicas, and constraints leave too few of the {len(problem.targets)} brokers: {words}"
        )
    needed = min(p.wanted, problem.rule.most_spanned)
    if len(racks) + rackless < needed:
        have = f"{len(racks)} ({', '.join(racks[:_NAMED])}{', ...' if len(racks) > _NAMED else ''})" if racks else "0"
        return (
            f"needs {needed} racks, the listed brokers have {have}; {_more_racks(racks, live)}"
            f"use --min-rack-ids {max(1, len(racks))}"
        )
    targets = set(problem.targets)
    stay = [b for b in p.current if b in targets]
    tags = "" if problem.rule.tags is None else f" ({problem.rule.tags.words(p.key.topic, problem.targets, p.wanted)})"
    takes = f"(without {_ids(sorted(problem.closed))}) " if problem.closed else ""
    where = ", ".join(f"{b} in rack {problem.rack_of(b) or 'none'}" for b in stay) or "nothing"
    return (
        f"p{p.key.partition} keeps {where} and no listed broker {takes}fits beside{tags}; add a broker in another "
        "rack, raise or lower --min-rack-ids, or use --force-rebuild"
    )


def _more_racks(racks: list[str], live: Mapping[int, str | None]) -> str:
    others = defaultdict(list)
    for broker, rack in sorted(live.items()):
        if rack and rack not in racks:
            others[rack].append(broker)
    if not others:
        return "add a broker in another rack or "
    rack = min(others)
    return f"add a broker in rack {rack} ({_ids(others[rack])}) or "


def _agreeing(reason: str, names: set[str]) -> str:
    verb, _, rest = reason.partition(" ")
    return f"{verb.removesuffix('s')} {rest}" if len(names) > 1 and verb in ("wants", "needs") else reason


def _named(names: set[str]) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - _NAMED} more" if len(ordered) > _NAMED else ""
    return f"topic{'s' if len(ordered) > 1 else ''} {', '.join(ordered[:_NAMED])}{more}"


def _ids(brokers: list[int]) -> str:
    return ", ".join(map(str, brokers[:_NAMED])) + (", ..." if len(brokers) > _NAMED else "")
