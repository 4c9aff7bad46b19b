"""The report of a rebalance in kafka-kit's words, rows and data, and the blocks that reports of plans share.

The blocks are lists and what changed, warnings, the outcome with its proof, data, and log dirs: use before and after,
new copies by dir, and what moves inside brokers.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kafkakit.core.errors import InfeasibleError, KafkakitError, OperationFailedError
from kafkakit.core.placement_statistics import degree_of
from kafkakit.core.plan import Certificate, Plan, PlanDir, StorageFacts
from kafkakit.core.quantities import count_of, format_bytes, format_percent, format_rough_time
from kafkakit.core.selection import TopicSelection
from kafkakit.placement.by_size.lp_relaxation import PPM, BandGoal
from kafkakit.report.report import (
    INDENT,
    DeferredItems,
    NextCommands,
    Part,
    Remarks,
    Report,
    ResultTable,
    Section,
    attributes,
    gap_text,
    records,
)
from kafkakit.topicmappr.decide.assembly import SavedMap, SavedPlan
from kafkakit.topicmappr.decide.rebalance import Rebalance, Relocation, relocations_of, smallest_tolerance
from kafkakit.topicmappr.decide.requests import MIB, RebalanceRequest
from kafkakit.topicmappr.decide.scope import Scope
from kafkakit.topicmappr.decide.storage import GIB, free_change_data, free_change_lines

COLUMNS = ("topic", "partition", "source", "destination", "bytes")
SHOWN_TRIES = 10


def rebalance_report(
    command: str, decided: Rebalance, request: RebalanceRequest, saved: SavedPlan | None, *, verbose: bool
) -> Report:
    """Everything kafka-kit prints, and the plan; `saved` is None when warnings forbade to write it."""
    plan, relocations = decided.plan, relocations_of(decided)
    head = (*_head(decided, request, relocations, verbose=verbose), warn_section(plan.warnings))
    if saved is None:
        return refused_report(command, (*head, *MAPS_REFUSED), refusal(plan, (), 0, what="map"))
    return Report(
        command=command,
        data=_data(decided, request, relocations, saved),
        sections=(*head, *files_section(saved.maps), *plan_section(plan, saved)),
        table=ResultTable(COLUMNS, _rows(relocations)),
        code=saved.code,
    )


def _rows(relocations: Sequence[Relocation]) -> tuple[tuple[object, ...], ...]:
    return tuple((*r.key, r.source, r.destination, r.size) for r in relocations)


def _head(
    decided: Rebalance, request: RebalanceRequest, relocations: Sequence[Relocation], *, verbose: bool
) -> Iterator[Part]:
    yield from topics_sections(decided.scope.selection)
    yield from _brokers(decided, relocations)
    yield _parameters(decided, request, relocations)
    if verbose:
        yield from _tries(decided)
    yield from _relocations(decided, relocations)
    yield map_changes(decided.scope, decided.before, decided.after)
    yield distribution(decided.plan, decided.before, decided.after)
    yield from ("", *free_change_lines(decided.free))


def _brokers(decided: Rebalance, relocations: Sequence[Relocation]) -> Iterator[Part]:
    change = decided.change
    messages = change.messages()
    added = [f"{len(change.new)} additional brokers added", "-"] if change.new else []
    yield Section("Validating broker list:", [*messages, *(["-"] if messages else []), *added, "OK"])
    chosen_by = decided.sources.chosen_by if decided.sources.brokers is not None else "(whatever the goal needs)"
    givers = map(str, _givers(decided, relocations) or ["[none]"])
    yield Section(f"Brokers targeted for partition offloading {chosen_by}:", givers)


def _givers(decided: Rebalance, relocations: Sequence[Relocation]) -> tuple[int, ...]:
    """The sources, or, where any broker may give, those that do; by free bytes before."""
    if decided.sources.brokers is not None:
        return decided.sources.brokers
    return tuple(sorted({r.source for r in relocations}, key=lambda b: (decided.free.before.get(b, 0), b)))


def _parameters(decided: Rebalance, request: RebalanceRequest, relocations: Sequence[Relocation]) -> Section:
    sources = decided.sources
    lines = [
        f"Ignoring partitions smaller than {request.smallest_bytes // MIB}MB",
        f"Free storage mean, harmonic mean: {_gb(sources.mean)}, {_gb(sources.harmonic_mean)}",
    ]
    if request.goal.given:
        lines.append(f"Goal: {decided.aim.words}{_budget(request)}")
        lines.append(f"Reached: {decided.aim.shown(decided.reached)}")
    else:
        tolerance = tolerance_of(decided, request, relocations)
        lines.append(f"Broker free storage limits (with a {tolerance * 100:.2f}% tolerance from mean):")
        lines.append(f"{INDENT}Sources limited to <= {_gb(sources.mean * (1 + tolerance))}")
        lines.append(f"{INDENT}Destinations limited to >= {_gb(sources.mean * (1 - tolerance))}")
    return Section("Reassignment parameters:", lines)


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
        parts.append(f"at most {count_of(goal.max_moves, 'copy', 'copies')}")
    return f" ({', '.join(parts)})" if parts else ""


def _tries(decided: Rebalance) -> Iterator[str]:
    """The goals tried, tightest result first and ten at most, in place of kafka-kit's tolerances."""
    ranked = sorted(decided.tried, key=lambda t: (t.outside > 0, t.reached, t.cost, t.sought))[:SHOWN_TRIES]
    yield from (INDENT + "-", f"Top {SHOWN_TRIES} reassignment map results")
    what = "band" if isinstance(decided.aim.balance, BandGoal) else "range"
    for t in ranked:
        missed = f", {format_bytes(t.outside)} outside" if t.outside else ""
        yield (
            f"{INDENT}goal: {_deviation_text(decided, t.sought)} -> {what}: {_deviation_text(decided, t.reached)}, "
            f"{_gb(t.cost)} in {count_of(t.moves, 'relocation')}{missed}"
        )


def _deviation_text(decided: Rebalance, max_deviation: int) -> str:
    return format_percent(max_deviation / PPM) if isinstance(decided.aim.balance, BandGoal) else _gb(max_deviation)


def _relocations(decided: Rebalance, relocations: Sequence[Relocation]) -> Iterator[Part]:
    moving: dict[int, list[Relocation]] = {}
    for r in relocations:
        moving.setdefault(r.source, []).append(r)
    for source in _givers(decided, relocations):
        lines = [f"[{_gb(r.size)}] {r.key.topic} p{r.key.partition} -> {r.destination}" for r in moving.get(source, [])]
        yield Section(f"Broker {source} relocations planned:", lines or ["[none]"])
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
        "relocations": DeferredItems(lambda: records(COLUMNS, _rows(relocations))),
        "relocated_bytes": sum(r.size for r in relocations),
        "changes": moves_data(plan),
        **attributes(plan, "before after"),
        "storage_free": free_change_data(decided.free),
        "certificate": certificate_data(plan.certificate),
        "sizes": plan.storage,
        "stopped_early": decided.stopped,
        **remarks_data(plan),
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
        **attributes(goal, "max_moved_bytes max_moves"),
        "minimize": request.minimize.value,
    }
    if not goal.given:
        data |= {"asked": request.tolerance or None, "tolerance": tolerance_of(decided, request, relocations)}
    return data


Row = tuple[int, ...]
SHOWN_CHANGES = 40
MAPS_REFUSED = ("", f"{INDENT}Warnings encountered, partition map not created. Override with --ignore-warns.")
NOT_SAVED = SavedPlan()


def ids(replicas: Sequence[int]) -> str:
    """A replica list as kafka-kit prints it: `[1001 1002]`."""
    return f"[{' '.join(map(str, replicas))}]"


def what_changed(old: Row, new: Row) -> str:
    """The words behind a partition's line: `no-op`, `preferred leader`, `replaced broker`, ..."""
    words = []
    if len(old) != len(new):
        words.append("decreased replication" if len(old) > len(new) else "increased replication")
        shared = min(len(old), len(new))
        old, new = old[:shared], new[:shared]
    elif old == new:
        return "no-op"
    if old != new:
        words.append("preferred leader" if sorted(old) == sorted(new) else "replaced broker")
    return ", ".join(words)


def change_line(topic: str, partition: int, old: Row, new: Row) -> str:
    """One partition's lists before and after."""
    return f"{topic} p{partition}: {ids(old)} -> {ids(new)} {what_changed(old, new)}"


def topics_sections(selection: TopicSelection) -> tuple[Part, ...]:
    """The topics chosen, and those left out, as kafka-kit lists them."""
    return "", "Topics:", *(INDENT + t for t in selection.selected), Section("Topics excluded:", selection.excluded)


def map_changes(scope: Scope, before: Sequence[Row], after: Sequence[Row]) -> Section:
    """kafka-kit's section on partitions' lists; where many stay as they are, those become one line."""
    rows = list(zip(scope.partitions, before, after, strict=True))
    changed = [row for row in rows if row[1] != row[2]]
    same = len(rows) - len(changed)
    shown, rest = (rows, []) if same <= SHOWN_CHANGES else (changed, [f"{count_of(same, 'partition')} unchanged"])
    return Section("Partition map changes:", [*(change_line(*p.key, old, new) for p, old, new in shown), *rest])


def distribution(plan: Plan, before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> Section:
    """kafka-kit's section on what each broker leads and follows, with those that were empty and stay so."""
    emptied = {load.broker for load in plan.before.brokers if load.replicas}
    loads = [load for load in plan.after.brokers if load.replicas or load.broker not in emptied]
    return Section(
        "Broker distribution:",
        [
            f"degree [min/max/avg]: {degree_of(before)} -> {degree_of(after)}",
            "-",
            *(
                f"Broker {b.broker} - leader: {b.leaders}, follower: {b.replicas - b.leaders}, total: {b.replicas}"
                for b in loads
            ),
        ],
    )


def broker_table(plan: Plan) -> ResultTable:
    """The section on replicas and preferred leaders of each broker before and after, within the plan's topics."""
    before = {load.broker: load for load in plan.before.brokers}
    after = {load.broker: load for load in plan.after.brokers}
    rows = []
    for broker in sorted({*before, *after}):
        old, new = before.get(broker), after.get(broker)
        counts = (old.replicas if old else 0, new.replicas if new else 0, old.leaders if old else 0)
        rows.append((broker, (new or before[broker]).rack, *counts, new.leaders if new else 0))
    return ResultTable(("broker", "rack", "replicas", "after", "leaders", "after"), rows, "Brokers:")


def sizes_words(storage: StorageFacts) -> str:
    """Where sizes come from, and their age where they have one."""
    age = f", {format_rough_time(storage.age_s)} old" if storage.age_s else ""
    return f"sizes from {storage.source}{age}"


def warn_section(warnings: Sequence[str]) -> Section:
    """The WARN section, sorted by text."""
    return Section("WARN:", sorted(warnings) or ["[none]"])


def files_section(maps: Sequence[SavedMap] | None) -> tuple[Part, ...]:
    """The list of written maps, the combined ones first; nothing where no maps are wanted."""
    if maps is not None and not maps:
        return "", "No partition reassignments, skipping map generation"
    ordered = sorted(maps or (), key=lambda saved: not saved.combined)
    return (Section("New partition maps:", (f"{m.path}{' [combined map]' if m.combined else ''}" for m in ordered)),)


def plan_section(plan: Plan, saved: SavedPlan = NOT_SAVED) -> tuple[Section, Section]:
    """What the plan costs and why nothing cheaper exists, and the exact next command on its own line."""
    return dirs_section(plan), outcome(plan, cost_line(plan), saved)


def outcome(plan: Plan, cost: str, saved: SavedPlan) -> Section:
    """The section on a plan's cost and proof, with its file and the command that carries it out."""
    file = [f"saved to: {saved.path}"] if saved.path else []
    command = [saved.next_command] if saved.next_command else []
    proof = f"why: {plan.certificate.argument}"
    return Section("Plan:", (cost, proof, Remarks("note", plan.notes), *file, NextCommands(command)))


def cost_line(plan: Plan) -> str:
    """One line: partitions, copies, bytes where known, bound and gap."""
    c = plan.certificate
    copies = sum(len(m.adding) for m in plan.moves)
    sizes = [m.bytes_moved for m in plan.moves]
    known = f" ({format_bytes(sum(s for s in sizes if s is not None))})" if copies and None not in sizes else ""
    noun = "leader change" if c.unit == "leaders" else "replica"
    bound = format_bytes(c.lower_bound) if c.unit == "bytes" else count_of(c.lower_bound, noun)
    return (
        f"{count_of(len(plan.moves), 'partition')} to change, {count_of(copies, 'replica')} to copy{known}; "
        f"lower bound {bound}, gap {gap_text(c.gap)} ({c.status})"
    )


def refusal(plan: Plan, reasons: tuple[str, ...], left_alone: int, *, what: str = "plan") -> KafkakitError:
    """Why nothing was written: partitions that cannot be served, else other warnings."""
    if reasons:
        return InfeasibleError(
            f"no plan fits: {'; '.join(reasons)}",
            reasons=reasons if len(reasons) > 1 else (),
            hint=f"--ignore-warns plans the rest and leaves {left_alone} partition(s) as they are",
        )
    return OperationFailedError(
        f"no {what} written because of warnings: {'; '.join(plan.warnings)}",
        hint="--ignore-warns writes it anyway",
    )


def refusal_lines(left_alone: int) -> tuple[str, str]:
    """The last lines when warnings stop a plan."""
    left = f"; {count_of(left_alone, 'partition')} cannot be served" if left_alone else ""
    return "", f"{INDENT}No plan written because of the warnings above{left}. --ignore-warns writes it without them."


def refused_report(command: str, sections: Iterable[Part], failure: KafkakitError) -> Report:
    """The report of a plan that was not written."""
    return Report(command=command, data={}, sections=sections, failure=failure, refused=True)


def moves_data(plan: Plan) -> DeferredItems:
    """Every partition that changes, for JSON and YAML."""
    return DeferredItems(
        lambda: (
            {"topic": m.topic, "partition": m.partition, "before": m.before, "after": m.after,
             "bytes_moved": m.bytes_moved, "change": what_changed(m.before, m.after)}
            for m in plan.moves
        )
    )  # fmt: skip


def certificate_data(certificate: Certificate) -> dict[str, object]:
    """The certificate as JSON fields."""
    return attributes(certificate, "unit objective lower_bound gap status argument")


def remarks_data(plan: Plan) -> Mapping[str, object]:
    """Notes and warnings."""
    return {"notes": plan.notes, "warnings": plan.warnings}


SHOWN_BROKERS = 40


def dirs_section(plan: Plan) -> Section:
    """The section "Log dirs:", without lines where the plan has nothing to do with log dirs.

    One line a dir of each broker with several of them on which something changes, at most 40 brokers.
    """
    arriving = _count_arriving(plan)
    if not arriving and not plan.dir_moves:
        return Section("Log dirs:", ())
    moved_in = Counter((m.broker, m.target_dir) for m in plan.dir_moves)
    moved_out = Counter((m.broker, m.source_dir) for m in plan.dir_moves)
    brokers: dict[int, list[PlanDir]] = {}
    for d in plan.dirs:
        brokers.setdefault(d.broker, []).append(d)
    touched = {b for b, _ in (*arriving, *moved_in)}
    shown = [b for b in brokers if b in touched]
    moved = sum(m.size_bytes or 0 for m in plan.dir_moves)

    lines = []
    for b in shown[:SHOWN_BROKERS]:
        lines += [f"Broker {b}", *(INDENT + _line(d, arriving, moved_in, moved_out) for d in brokers[b])]
    if len(shown) > SHOWN_BROKERS:
        lines.append(f"... and {len(shown) - SHOWN_BROKERS} more (all of them in the plan file)")
    lines.append(f"inside brokers: {count_of(len(plan.dir_moves), 'copy', 'copies')}, {format_bytes(moved)}")
    return Section("Log dirs:", lines)


def _count_arriving(plan: Plan) -> Counter[tuple[int, str]]:
    return Counter((b, path) for m in plan.moves for b, path in m.dirs.items())


def _line(
    d: PlanDir,
    arriving: Mapping[tuple[int, str], int],
    moved_in: Mapping[tuple[int, str], int],
    moved_out: Mapping[tuple[int, str], int],
) -> str:
    key = (d.broker, d.path)
    words = [f"{_use(d, d.used_before_bytes)} -> {_use(d, d.used_after_bytes)}"]
    words += [f"{count_of(arriving[key], 'new copy', 'new copies')}"] if arriving.get(key) else []
    words += [f"{moved_in[key]} from other dirs"] if moved_in.get(key) else []
    words += [f"{moved_out[key]} to other dirs"] if moved_out.get(key) else []
    words += [] if d.is_open else ["takes no new copies"]
    return f"{d.path}: {', '.join(words)}"


def _use(d: PlanDir, used: int) -> str:
    if not d.capacity_bytes:
        return format_bytes(used)
    return f"{format_bytes(used)} ({format_percent(used / d.capacity_bytes)})"


def dirs_data(plan: Plan) -> dict[str, object]:
    """Log dirs for JSON and YAML: each dir, each destination of a new copy, each move inside a broker."""
    return {
        "log_dirs": plan.dirs,
        "destinations": [
            {"topic": m.topic, "partition": m.partition, "broker": b, "dir": path}
            for m in plan.moves
            for b, path in sorted(m.dirs.items())
        ],
        "dir_moves": plan.dir_moves,
    }


def dir_move_rows(plan: Plan) -> tuple[tuple[object, ...], ...]:
    """One row a move inside a broker, in `DIR_MOVE_COLUMNS`."""
    return tuple((m.topic, m.partition, m.broker, m.source_dir, m.target_dir, m.size_bytes) for m in plan.dir_moves)


DIR_MOVE_COLUMNS = ("topic", "partition", "broker", "from", "to", "bytes")
