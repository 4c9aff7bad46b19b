"""The report of a rebalance in kafka-kit's words, and as rows and data."""

from collections.abc import Iterator, Sequence

from kafkakit.core.percent import format_percent
from kafkakit.core.placement_statistics import degree_of
from kafkakit.core.quantities import counted, format_bytes
from kafkakit.placement.bytes.balance_goal import PPM, Bands
from kafkakit.topicmappr.decide.map_files import SavedMap
from kafkakit.topicmappr.decide.rebalance.decision import Rebalance
from kafkakit.topicmappr.decide.rebalance.relocations import Relocation, relocations_of, smallest_tolerance
from kafkakit.topicmappr.decide.rebalance.request import MIB, RebalanceRequest
from kafkakit.topicmappr.decide.storage_words import GIB, free_change_data, free_change_lines
from kafkakit.topicmappr.show.rebuild import certificate_data, ids, what_changed

INDENT = "  "
COLUMNS = ("topic", "partition", "source", "destination", "bytes")
SHOWN_TRIES = 10


def report_head(decided: Rebalance, request: RebalanceRequest, *, verbose: bool) -> str:
    """Everything kafka-kit prints before the WARN section."""
    relocations = relocations_of(decided)
    lines = [*_selection(decided), *_brokers(decided, relocations), *_parameters(decided, request, relocations)]
    if verbose:
        lines += _tries(decided)
    lines += [*_relocations(decided, relocations), *_changes(decided), "", *free_change_lines(decided.free)]
    return "\n".join(lines) + "\n"


def _selection(decided: Rebalance) -> Iterator[str]:
    selection = decided.scope.selection
    yield from ("", "Topics:", *(INDENT + t for t in selection.selected))
    if selection.excluded:
        yield from ("", "Topics excluded:", *(INDENT + t for t in selection.excluded))


def _brokers(decided: Rebalance, relocations: Sequence[Relocation]) -> Iterator[str]:
    change = decided.change
    messages = change.messages()
    yield from ("", "Validating broker list:", *(INDENT + line for line in messages))
    if messages:
        yield INDENT + "-"
    if change.new:
        yield from (f"{INDENT}{len(change.new)} additional brokers added", INDENT + "-")
    yield INDENT + "OK"
    chosen_by = decided.sources.chosen_by if decided.sources.brokers is not None else "(whatever the goal needs)"
    yield from ("", f"Brokers targeted for partition offloading {chosen_by}:")
    yield from (INDENT + str(b) for b in _givers(decided, relocations) or ["[none]"])


def _givers(decided: Rebalance, relocations: Sequence[Relocation]) -> tuple[int, ...]:
    """The sources, or, where any broker may give, those that do; by free bytes before."""
    if decided.sources.brokers is not None:
        return decided.sources.brokers
    return tuple(sorted({r.source for r in relocations}, key=lambda b: (decided.free.before.get(b, 0), b)))


def _parameters(decided: Rebalance, request: RebalanceRequest, relocations: Sequence[Relocation]) -> Iterator[str]:
    sources = decided.sources
    yield from ("", "Reassignment parameters:")
    yield f"{INDENT}Ignoring partitions smaller than {request.smallest_bytes // MIB}MB"
    yield f"{INDENT}Free storage mean, harmonic mean: {_gb(sources.mean)}, {_gb(sources.harmonic_mean)}"
    if request.goal.given:
        yield f"{INDENT}Goal: {decided.aim.words}{_budget(request)}"
        yield f"{INDENT}Reached: {decided.aim.shown(decided.reached)}"
        return
    tolerance = tolerance_of(decided, request, relocations)
    yield f"{INDENT}Broker free storage limits (with a {tolerance * 100:.2f}% tolerance from mean):"
    yield f"{INDENT * 2}Sources limited to <= {_gb(sources.mean * (1 + tolerance))}"
    yield f"{INDENT * 2}Destinations limited to >= {_gb(sources.mean * (1 - tolerance))}"


def tolerance_of(decided: Rebalance, request: RebalanceRequest, relocations: Sequence[Relocation]) -> float:
    """The tolerance asked for, or the smallest whole percent within which sources and destinations end."""
    if request.tolerance:
        return request.tolerance
    return smallest_tolerance(
        decided.sources.mean,
        decided.free.after,
        {r.source for r in relocations},
        {r.destination for r in relocations},
    )


def _budget(request: RebalanceRequest) -> str:
    goal = request.goal
    parts = []
    if goal.max_moved_bytes is not None:
        parts.append(f"at most {format_bytes(goal.max_moved_bytes)}")
    if goal.max_moves is not None:
        parts.append(f"at most {counted(goal.max_moves, 'copy', 'copies')}")
    return f" ({', '.join(parts)})" if parts else ""


def _tries(decided: Rebalance) -> Iterator[str]:
    """The goals tried, tightest result first and ten at most, in place of kafka-kit's tolerances."""
    ranked = sorted(decided.tried, key=lambda t: (t.outside > 0, t.reached, t.cost, t.sought))[:SHOWN_TRIES]
    yield from (INDENT + "-", f"Top {SHOWN_TRIES} reassignment map results")
    what = "band" if isinstance(decided.aim.family, Bands) else "range"
    for t in ranked:
        missed = f", {format_bytes(t.outside)} outside" if t.outside else ""
        yield (
            f"{INDENT}goal: {_measured(decided, t.sought)} -> {what}: {_measured(decided, t.reached)}, "
            f"{_gb(t.cost)} in {counted(t.moves, 'relocation')}{missed}"
        )


def _measured(decided: Rebalance, tightness: int) -> str:
    return format_percent(tightness / PPM) if isinstance(decided.aim.family, Bands) else _gb(tightness)


def _relocations(decided: Rebalance, relocations: Sequence[Relocation]) -> Iterator[str]:
    moving: dict[int, list[Relocation]] = {}
    for r in relocations:
        moving.setdefault(r.source, []).append(r)
    for source in _givers(decided, relocations):
        yield from ("", f"Broker {source} relocations planned:")
        for r in moving.get(source, []):
            yield f"{INDENT}[{_gb(r.size)}] {r.key.topic} p{r.key.partition} -> {r.destination}"
        if source not in moving:
            yield INDENT + "[none]"
    yield from (INDENT + "-", f"{INDENT}Total relocation volume: {_gb(sum(r.size for r in relocations))}")


def _changes(decided: Rebalance) -> Iterator[str]:
    yield from ("", "Partition map changes:")
    for p, old, new in zip(decided.scope.partitions, decided.before, decided.after, strict=True):
        yield f"{INDENT}{p.key.topic} p{p.key.partition}: {ids(old)} -> {ids(new)} {what_changed(old, new)}"
    yield from ("", "Broker distribution:")
    yield f"{INDENT}degree [min/max/avg]: {degree_of(decided.before)} -> {degree_of(decided.after)}"
    yield INDENT + "-"
    for load in decided.plan.after.brokers:
        if load.replicas:
            yield (
                f"{INDENT}Broker {load.broker} - leader: {load.leaders}, "
                f"follower: {load.replicas - load.leaders}, total: {load.replicas}"
            )


def _gb(count: float) -> str:
    return f"{count / GIB:.2f}GB"


def relocation_rows(decided: Rebalance) -> tuple[tuple[object, ...], ...]:
    """One row a relocation, the largest first."""
    return tuple((r.key.topic, r.key.partition, r.source, r.destination, r.size) for r in relocations_of(decided))


def rebalance_data(decided: Rebalance, request: RebalanceRequest, maps: Sequence[SavedMap]) -> dict[str, object]:
    """The result for JSON and YAML: who gives, the goal asked and reached, every move, brokers, proof, files."""
    plan, relocations = decided.plan, relocations_of(decided)
    return {
        "cluster_id": plan.cluster_id,
        "topics": decided.scope.selection.selected,
        "topics_excluded": decided.scope.selection.excluded,
        "brokers": {"targets": decided.change.targets, "new": decided.change.new,
                    "without_rack": decided.change.rack_missing},
        "sources": {
            "brokers": _givers(decided, relocations),
            "chosen_by": decided.sources.chosen_by or None,
            "free_mean_bytes": round(decided.sources.mean),
            "free_harmonic_mean_bytes": round(decided.sources.harmonic_mean),
        },
        "goal": _goal_data(decided, request, relocations),
        "smallest_partition_bytes": request.smallest_bytes,
        "relocations": [
            {"topic": r.key.topic, "partition": r.key.partition, "source": r.source,
             "destination": r.destination, "bytes": r.size}
            for r in relocations
        ],
        "relocated_bytes": sum(r.size for r in relocations),
        "changes": [
            {"topic": m.topic, "partition": m.partition, "before": m.before, "after": m.after,
             "bytes_moved": m.bytes_moved, "change": what_changed(m.before, m.after)}
            for m in plan.moves
        ],
        "before": plan.before,
        "after": plan.after,
        "storage_free": free_change_data(decided.free),
        "certificate": certificate_data(plan.certificate),
        "sizes": plan.storage,
        "stopped_early": decided.stopped,
        "notes": plan.notes,
        "warnings": plan.warnings,
        "map_files": [saved.path for saved in sorted(maps, key=lambda saved: not saved.combined)],
    }  # fmt: skip


def _goal_data(decided: Rebalance, request: RebalanceRequest, relocations: Sequence[Relocation]) -> dict[str, object]:
    """What was asked for and what is reached: a band in parts of one, a range in bytes, a tolerance as a fraction."""
    goal, reached = request.goal, decided.reached
    band = isinstance(decided.aim.family, Bands)
    data: dict[str, object] = {
        "kind": "band" if band else "free-range" if goal.given else "tolerance",
        "asked": float(goal.band) if goal.band is not None else goal.free_range_bytes,
        "reached": reached / PPM if band else reached,
        "max_moved_bytes": goal.max_moved_bytes,
        "max_moves": goal.max_moves,
        "minimize": request.minimize.value,
    }
    if not goal.given:
        data |= {"asked": request.tolerance or None, "tolerance": tolerance_of(decided, request, relocations)}
    return data
