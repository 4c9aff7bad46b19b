"""The report of a rebalance in kafka-kit's words, and as rows and data."""

from collections.abc import Iterator, Sequence

from kafkakit.core.quantities import counted, format_bytes, format_percent
from kafkakit.placement.by_size.lp_relaxation import PPM, BandGoal
from kafkakit.report.blocks import INDENT, Deferred, records, section, text_of
from kafkakit.report.report import Report
from kafkakit.topicmappr.decide.map_files import SavedPlan
from kafkakit.topicmappr.decide.rebalance.decision import Rebalance
from kafkakit.topicmappr.decide.rebalance.relocations import Relocation, relocations_of, smallest_tolerance
from kafkakit.topicmappr.decide.rebalance.request import MIB, RebalanceRequest
from kafkakit.topicmappr.decide.storage_words import GIB, free_change_data, free_change_lines
from kafkakit.topicmappr.show import plan_blocks as blocks

COLUMNS = ("topic", "partition", "source", "destination", "bytes")
SHOWN_TRIES = 10


def rebalance_report(
    command: str, decided: Rebalance, request: RebalanceRequest, saved: SavedPlan | None, *, verbose: bool
) -> Report:
    """Everything kafka-kit prints, and the plan; `saved` is None when warnings forbade to write it."""
    plan, relocations = decided.plan, relocations_of(decided)
    text = text_of(_head(decided, request, relocations, verbose=verbose)) + blocks.warn_section(plan.warnings)
    if saved is None:
        return blocks.refused(command, f"{text}\n  {blocks.MAPS_REFUSED}\n", blocks.refusal(plan, (), 0, what="map"))
    return Report(
        command=command,
        data=_data(decided, request, relocations, saved),
        text=text + blocks.files_section(saved.maps) + blocks.plan_section(plan, saved),
        columns=COLUMNS,
        rows=_rows(relocations),
        code=saved.code,
    )


def _rows(relocations: Sequence[Relocation]) -> tuple[tuple[object, ...], ...]:
    return tuple((*r.key, r.source, r.destination, r.size) for r in relocations)


def _head(
    decided: Rebalance, request: RebalanceRequest, relocations: Sequence[Relocation], *, verbose: bool
) -> Iterator[str]:
    yield from blocks.topics_sections(decided.scope.selection)
    yield from _brokers(decided, relocations)
    yield from _parameters(decided, request, relocations)
    if verbose:
        yield from _tries(decided)
    yield from _relocations(decided, relocations)
    yield from blocks.map_changes(decided.scope, decided.before, decided.after)
    yield from blocks.distribution(decided.plan, decided.before, decided.after)
    yield from ("", *free_change_lines(decided.free))


def _brokers(decided: Rebalance, relocations: Sequence[Relocation]) -> Iterator[str]:
    change = decided.change
    messages = change.messages()
    added = [f"{len(change.new)} additional brokers added", "-"] if change.new else []
    yield from section("Validating broker list:", [*messages, *(["-"] if messages else []), *added, "OK"])
    chosen_by = decided.sources.chosen_by if decided.sources.brokers is not None else "(whatever the goal needs)"
    givers = map(str, _givers(decided, relocations) or ["[none]"])
    yield from section(f"Brokers targeted for partition offloading {chosen_by}:", givers)


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
    what = "band" if isinstance(decided.aim.balance, BandGoal) else "range"
    for t in ranked:
        missed = f", {format_bytes(t.outside)} outside" if t.outside else ""
        yield (
            f"{INDENT}goal: {_measured(decided, t.sought)} -> {what}: {_measured(decided, t.reached)}, "
            f"{_gb(t.cost)} in {counted(t.moves, 'relocation')}{missed}"
        )


def _measured(decided: Rebalance, tightness: int) -> str:
    return format_percent(tightness / PPM) if isinstance(decided.aim.balance, BandGoal) else _gb(tightness)


def _relocations(decided: Rebalance, relocations: Sequence[Relocation]) -> Iterator[str]:
    moving: dict[int, list[Relocation]] = {}
    for r in relocations:
        moving.setdefault(r.source, []).append(r)
    for source in _givers(decided, relocations):
        lines = [f"[{_gb(r.size)}] {r.key.topic} p{r.key.partition} -> {r.destination}" for r in moving.get(source, [])]
        yield from section(f"Broker {source} relocations planned:", lines or ["[none]"])
    yield from (INDENT + "-", f"{INDENT}Total relocation volume: {_gb(sum(r.size for r in relocations))}")


def _gb(count: float) -> str:
    return f"{count / GIB:.2f}GB"


def _data(
    decided: Rebalance, request: RebalanceRequest, relocations: Sequence[Relocation], saved: SavedPlan
) -> dict[str, object]:
    """Which brokers give, the goal asked and reached, every move, brokers, proof, files."""
    plan, maps = decided.plan, sorted(saved.maps or (), key=lambda m: not m.combined)
    return {
        "cluster_id": plan.cluster_id,
        "topics": decided.scope.selection.selected,
        "topics_excluded": decided.scope.selection.excluded,
        "brokers": {
            "targets": decided.change.targets, "new": decided.change.new, "without_rack": decided.change.rack_missing
        },
        "sources": {
            "brokers": _givers(decided, relocations),
            "chosen_by": decided.sources.chosen_by or None,
            "free_mean_bytes": round(decided.sources.mean),
            "free_harmonic_mean_bytes": round(decided.sources.harmonic_mean),
        },
        "goal": _goal_data(decided, request, relocations),
        "smallest_partition_bytes": request.smallest_bytes,
        "relocations": Deferred(lambda: records(COLUMNS, _rows(relocations))),
        "relocated_bytes": sum(r.size for r in relocations),
        "changes": blocks.moves_data(plan),
        "before": plan.before,
        "after": plan.after,
        "storage_free": free_change_data(decided.free),
        "certificate": blocks.certificate_data(plan.certificate),
        "sizes": plan.storage,
        "stopped_early": decided.stopped,
        **blocks.remarks_data(plan),
        "map_files": [m.path for m in maps],
    }  # fmt: skip


def _goal_data(decided: Rebalance, request: RebalanceRequest, relocations: Sequence[Relocation]) -> dict[str, object]:
    """What was asked for and what is reached: a band in parts of one, a range in bytes, a tolerance as a fraction."""
    goal, reached = request.goal, decided.reached
    band = isinstance(decided.aim.balance, BandGoal)
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
