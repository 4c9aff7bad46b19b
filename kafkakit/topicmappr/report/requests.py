"""The reports of a rebuild, a replanning, plain requests and a new topic: as text, rows and data.

A rebuild is reported in kafka-kit's words; a replanning with what drifted, what becomes of the moves, and the new plan;
plain requests and `rebalance-dirs` with what changes, before and after, and what it costs.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from kafkakit.core.plan import DirMove, Move, Plan
from kafkakit.core.quantities import count_of, format_bytes
from kafkakit.core.text import few_of, quote
from kafkakit.report.report import (
    INDENT,
    NextCommands,
    Part,
    Remarks,
    Report,
    ResultTable,
    Section,
    attributes,
    cap_lines,
    gap_text,
    records,
    text_of,
)
from kafkakit.topicmappr.decide.assembly import PlannedChange, SavedMap, SavedPlan
from kafkakit.topicmappr.decide.budget import left_data
from kafkakit.topicmappr.decide.place import NewTopic
from kafkakit.topicmappr.decide.rebuild import Rebuild
from kafkakit.topicmappr.decide.replan import MoveChange, Replan, ReplanChange
from kafkakit.topicmappr.decide.requests import RebuildRequest
from kafkakit.topicmappr.decide.storage import free_change_data, free_change_lines, infeasible_error
from kafkakit.topicmappr.report import balance
from kafkakit.topicmappr.report.balance import DIR_MOVE_COLUMNS, dir_move_rows, dirs_data, dirs_section, ids

REBUILD_COMMAND = "topicmappr rebuild"
REBUILD_COLUMNS = ("topic", "partition", "before", "after", "change")


def rebuild_report(rebuild: Rebuild, request: RebuildRequest, saved: SavedPlan | None) -> Report:
    """Everything kafka-kit prints, and the plan; `saved` is None when warnings forbade to write it."""
    plan = rebuild.plan
    head = [*_rebuild_head(rebuild, request), *(_chunks(rebuild, request.chunk_step) if request.chunk_step else ())]
    head.append(balance.warn_section(plan.warnings))
    if saved is None:
        short = infeasible_error(rebuild.shortages, rebuild.unplaced, rebuild.left_alone) if rebuild.shortages else None
        failure = short or balance.refusal(plan, (), 0, what="map")
        return balance.refused_report(REBUILD_COMMAND, (*head, *balance.MAPS_REFUSED), failure)
    rows = tuple(
        (*p.key, old, new, balance.what_changed(old, new))
        for p, old, new in zip(rebuild.scope.partitions, rebuild.before, rebuild.after, strict=True)
        if not (request.skip_no_ops and old == new)
    )
    return Report(
        command=REBUILD_COMMAND,
        data={
            "cluster_id": plan.cluster_id,
            "topics": rebuild.scope.selection.selected,
            "topics_excluded": rebuild.scope.selection.excluded,
            "brokers": _brokers_data(rebuild),
            "partitions": records(REBUILD_COLUMNS, rows),
            "certificate": balance.certificate_data(plan.certificate),
            "distribution": [attributes(b, "broker rack replicas leaders bytes") for b in plan.after.brokers],
            **({"storage": free_change_data(rebuild.free)} if rebuild.free is not None else {}),
            **balance.remarks_data(plan),
            "map_files": [m.path for m in saved.maps or ()],
            "maps": _series_data(rebuild, saved.maps or ()),
        },
        sections=(*head, *balance.files_section(saved.maps), *balance.plan_section(plan, saved)),
        table=ResultTable(REBUILD_COLUMNS, rows),
        code=saved.code,
    )


def _rebuild_head(rebuild: Rebuild, request: RebuildRequest) -> Iterator[Part]:
    change = rebuild.change
    yield from balance.topics_sections(rebuild.scope.selection)
    messages = change.messages()
    affinities = [f"Substitution affinity: {a}" for a in rebuild.affinities]
    parts = [*messages, *(["-"] if messages else []), *affinities, *(["-"] if affinities else []), change.summary()]
    yield Section("Broker change summary:", parts)
    actions = change.actions(
        force_rebuild=request.force_rebuild,
        replication=request.replication,
        optimize_leadership=request.optimize_leadership,
    )
    yield Section("Action:", actions or ["no-op"])
    yield balance.map_changes(rebuild.scope, rebuild.before, rebuild.after)
    yield balance.distribution(rebuild.plan, rebuild.before, rebuild.after)
    if rebuild.free is not None:
        yield from ("", *free_change_lines(rebuild.free))


def _chunks(rebuild: Rebuild, step: int) -> Iterator[Part]:
    """What each chunk changes; unlike kafka-kit only the partitions that do, since there may be hundreds of chunks."""
    yield from ("", "", f"Generating reassignments in chunks {step} brokers at a time: ", "")
    now = list(rebuild.before)
    number = 0
    for chunk in rebuild.steps:
        window = ",".join(map(str, chunk.brokers))
        if not chunk.changes:
            yield from ("", "", f"Skipping noop map output for brokers {window}")
            continue
        yield from ("", "", f"Changes for partition map chunk {number} for brokers {window}")
        changes = sorted(chunk.changes.items())
        keys = rebuild.scope.partitions
        yield Section("Partition map changes:", [balance.change_line(*keys[i].key, now[i], new) for i, new in changes])
        for i, new in changes:
            now[i] = new
        number += 1


def _brokers_data(rebuild: Rebuild) -> dict[str, object]:
    change = rebuild.change
    return {
        "targets": change.targets,
        "replaced": change.replace,
        "new": change.new,
        "missing": sorted({*change.missing, *change.old_missing}),
        "without_rack": change.rack_missing,
        "affinities": [{"old": a.old, "new": a.new, "inferred": a.inferred} for a in rebuild.affinities],
    }


def _series_data(rebuild: Rebuild, maps: Sequence[SavedMap]) -> list[dict[str, object]]:
    """The maps in the order they are to be carried out, each with its files and, for a chunk, its brokers."""
    steps = [step for step in rebuild.steps if step.changes or not step.brokers]
    return [
        {
            "phase": phase,
            "brokers": step.brokers,
            "partitions_changed": len(step.changes),
            "files": [saved.path for saved in maps if saved.phase == phase],
        }
        for phase, step in enumerate(steps)
    ]


REPLAN_COMMAND = "topicmappr replan"
REPLAN_COLUMNS = ("topic", "partition", "fate", "now", "old", "new")
_NAMES = {
    MoveChange.DONE: "done",
    MoveChange.RUNNING: "running",
    MoveChange.KEPT: "waiting, kept",
    MoveChange.CHANGED: "changed",
    MoveChange.DROPPED: "dropped",
    MoveChange.ADDED: "added",
}


def replan_report(replan: Replan, source: str, saved: SavedPlan | None, old_command: str | None) -> Report:
    """What drifted and what becomes of the moves; `saved` is None when warnings forbade to write the plan.

    `old_command` carries out the plan that was given, where that is a file.
    """
    plan = replan.plan
    head = (*_replan_head(replan, source), balance.warn_section(plan.warnings))
    if saved is None:
        failure = balance.refusal(plan, replan.reasons, replan.left_alone)
        return balance.refused_report(REPLAN_COMMAND, (*head, *balance.refusal_lines(replan.left_alone)), failure)
    rows = tuple((*c.key, c.fate.value, c.now, c.old, c.new) for c in replan.changes)
    return Report(
        command=REPLAN_COMMAND,
        data=_data(replan, rows),
        sections=(*head, *balance.plan_section(plan, saved), *_old_file(replan, saved, old_command)),
        table=ResultTable(REPLAN_COLUMNS, rows),
        code=saved.code,
    )


def _replan_head(replan: Replan, source: str) -> Iterator[Part]:
    plan = replan.plan
    yield f"Replan of {source} ({plan.request.get('command', 'plan')}) on cluster {plan.cluster_id}"
    yield f"{INDENT}goal: {replan.goal.words}"
    fates = Counter(change.fate for change in replan.changes)
    counts = [f"{fates[fate]} {name}" for fate, name in _NAMES.items() if fates[fate]]
    yield f"{INDENT}moves: {', '.join(counts) or 'none'}"
    yield Section("Drift:", replan.drift or ("none",))
    yield from ("", verdict(replan))
    changed = replan.having(MoveChange.CHANGED, MoveChange.DROPPED, MoveChange.ADDED)
    yield Section("Changes to the plan:", cap_lines(changed, _change, balance.SHOWN_CHANGES))
    yield balance.broker_table(plan)


def verdict(replan: Replan) -> str:
    """One sentence: whether the plan stays, and why."""
    left = count_of(len(replan.having(MoveChange.RUNNING, MoveChange.KEPT)), "move")
    leads = f"it leads to {replan.leads_to}" if replan.leads_to else "every move still has a valid place"
    if not replan.differs:
        if not replan.plan.moves:
            return "Nothing to change: the plan is done."
        if not replan.holds:
            return f"Nothing to change: {left} left, and nothing better is left to do."
        return f"Nothing to change: the plan still holds, {leads}; {left} left."
    if replan.holds:
        return f"The plan still holds, {leads}; only what is gone or overtaken leaves it."
    leads = (
        f"as it stands it would lead to {replan.leads_to}" if replan.leads_to else "some moves have lost their place"
    )
    fates = Counter(change.fate for change in replan.changes)
    return (
        f"The plan must change: {leads}; {fates[MoveChange.CHANGED]} moves changed, "
        f"{fates[MoveChange.DROPPED]} dropped, {fates[MoveChange.ADDED]} added, {left} kept."
    )


def _change(c: ReplanChange) -> str:
    where = f"{c.key.topic} p{c.key.partition} {balance.ids(c.now)}"
    if c.fate is MoveChange.DROPPED:
        return f"{where}: dropped, was to go to {balance.ids(c.old or ())}"
    if c.fate is MoveChange.ADDED:
        return f"{where}: added, goes to {balance.ids(c.new or ())}"
    return f"{where}: goes to {balance.ids(c.new or ())} instead of {balance.ids(c.old or ())}"


def _old_file(replan: Replan, saved: SavedPlan, old_command: str | None) -> tuple[Part, ...]:
    if replan.intact and old_command and replan.plan.moves and not saved.next_command:
        return "", NextCommands((old_command,), f"{INDENT}The old file still serves:")
    if replan.plan.moves and not saved.path:
        return "", f"{INDENT}The old file is refused for lists that have changed; --plan FILE writes the new plan."
    return ()


def _data(replan: Replan, rows: Sequence[Sequence[object]]) -> dict[str, object]:
    plan = replan.plan
    fates = Counter(change.fate.value for change in replan.changes)
    return {
        "cluster_id": plan.cluster_id,
        "goal": replan.goal.words,
        **attributes(replan, "holds differs intact"),
        "leads_to": replan.leads_to or None,
        "drift": replan.drift,
        "moves": {fate.value: fates[fate.value] for fate in MoveChange},
        "changes": records(REPLAN_COLUMNS, rows),
        "certificate": balance.certificate_data(plan.certificate),
        **attributes(plan, "before after"),
        "reasons": replan.reasons,
        **balance.remarks_data(plan),
    }


def change_report(command: str, change: PlannedChange, saved: SavedPlan | None) -> Report:
    """The report of a request; `saved` is None when warnings forbade to write its plan."""
    plan = change.plan
    if saved is None:
        sections = (*_change_head(change), *balance.refusal_lines(change.left_alone))
        return balance.refused_report(command, sections, balance.refusal(plan, change.reasons, change.left_alone))
    moves = ((m.topic, m.partition, m.before, m.after, balance.what_changed(m.before, m.after)) for m in plan.moves)
    rows: tuple[tuple[object, ...], ...] = (*moves, *_inside_rows(plan))
    return Report(
        command=command,
        data={
            **title_data(change),
            "changes": balance.moves_data(plan),
            "certificate": balance.certificate_data(plan.certificate),
            **attributes(plan, "before after"),
            "left_alone": change.left_alone,
            "left_for_later": left_data(change.later),
            "reasons": change.reasons,
            **(dirs_data(plan) if plan.dir_moves else {}),
            **balance.remarks_data(plan),
        },
        sections=(*_change_head(change), *balance.plan_section(plan, saved)),
        table=ResultTable(("topic", "partition", "before", "after", "change"), rows),
        code=saved.code,
    )


def _inside_rows(plan: Plan) -> Iterator[tuple[object, ...]]:
    """Copies that change log dirs, whose lists stay."""
    lists = {(e.topic, e.partition): e.replicas for e in plan.scope} if plan.dir_moves else {}
    for m in plan.dir_moves:
        row = lists[m.topic, m.partition]
        yield m.topic, m.partition, row, row, f"broker {m.broker}: {m.source_dir} -> {m.target_dir}"


def planned_change_text(change: PlannedChange) -> str:
    """The report's text for a plan that goes into no file."""
    return text_of((*_change_head(change), *balance.plan_section(change.plan)))


def _change_head(change: PlannedChange) -> tuple[Part, ...]:
    plan = change.plan
    changes = cap_lines(plan.moves, _move_line, balance.SHOWN_CHANGES)
    changes = [*changes, *cap_lines(plan.dir_moves, _dir_move_line, balance.SHOWN_CHANGES)] or ["none"]
    return (
        *title_lines(change),
        Section("Changes:", changes),
        balance.broker_table(plan),
        balance.warn_section(plan.warnings),
    )


def _move_line(move: Move) -> str:
    size = f" ({format_bytes(move.bytes_moved)})" if move.adding and move.bytes_moved is not None else ""
    return balance.change_line(move.topic, move.partition, move.before, move.after) + size


def title_lines(change: PlannedChange) -> Iterator[str]:
    """What was asked for, of which topics."""
    yield from (change.title, f"{INDENT}topics: {few_of(change.topics)}")
    if change.topics_excluded:
        yield f"{INDENT}topics excluded: {few_of(change.topics_excluded)}"


def title_data(change: PlannedChange) -> dict[str, object]:
    """The cluster, and what was asked for of which topics, for JSON and YAML."""
    return {
        "cluster_id": change.plan.cluster_id,
        **attributes(change, "title topics topics_excluded"),
    }


DIRS_COMMAND = "topicmappr rebalance-dirs"


def rebalance_dirs_report(change: PlannedChange, saved: SavedPlan | None) -> Report:
    """The report; `saved` is None when warnings forbade to write the plan."""
    plan, c = change.plan, change.plan.certificate
    moves = cap_lines(plan.dir_moves, _dir_move_line, balance.SHOWN_CHANGES) or ["none"]
    cost = (
        f"{count_of(len(plan.dir_moves), 'copy', 'copies')} to move inside brokers ({format_bytes(c.objective)}); "
        f"lower bound {format_bytes(c.lower_bound)}, gap {gap_text(c.gap)} ({c.status})"
    )
    sections: tuple[Part, ...] = (
        *title_lines(change),
        Section("Changes:", moves),
        dirs_section(plan),
        balance.warn_section(plan.warnings),
        balance.outcome(plan, cost, saved or balance.NOT_SAVED),
    )
    if saved is None:
        return balance.refused_report(DIRS_COMMAND, sections, balance.refusal(plan, (), 0))
    return Report(
        command=DIRS_COMMAND,
        data={
            **title_data(change),
            **dirs_data(plan),
            "certificate": balance.certificate_data(plan.certificate),
            **balance.remarks_data(plan),
        },
        sections=sections,
        table=ResultTable(DIR_MOVE_COLUMNS, dir_move_rows(plan)),
        code=saved.code,
    )


def _dir_move_line(m: DirMove) -> str:
    size = "" if m.size_bytes is None else f" ({format_bytes(m.size_bytes)})"
    return f"{m.topic} p{m.partition} on {m.broker}: {m.source_dir} -> {m.target_dir}{size}"


SHOWN_PARTITIONS = 40
REST = "... and {} more (all of them in the map file)"
# Linux refuses a single argument of 128 KiB or more (MAX_ARG_STRLEN in its binfmts.h).
MAX_ARGUMENT = 131_071


def place_report(placed: NewTopic, map_file: str, address: str | None) -> Report:
    """Lists, loads per broker, the map file and the command that creates the topic."""
    return Report(
        command="topicmappr place",
        data={
            "topic": placed.topic,
            "partitions": [{"partition": n, "replicas": row} for n, row in placed.numbered],
            "present_partitions": len(placed.present),
            "partition_bytes": placed.shape.partition_bytes,
            "replica_assignment": placed.argument,
            "brokers": placed.shares,
            "notes": placed.notes,
            "map_file": map_file,
        },
        sections=_place_sections(placed, map_file, address),
        table=ResultTable(
            ("topic", "partition", "replicas"), tuple((placed.topic, n, row) for n, row in placed.numbered)
        ),
    )


def _place_sections(placed: NewTopic, map_file: str, address: str | None) -> Iterator[Part]:
    shape = placed.shape
    size = f", about {format_bytes(shape.partition_bytes)} each" if shape.partition_bytes is not None else ""
    what = f"New topic {placed.topic}: {count_of(shape.partitions, 'partition')}"
    if placed.present:
        more = count_of(len(placed.lists), "more partition")
        what = f"Topic {placed.topic}: {more} beside the {len(placed.present)} that it has"
    yield f"{what}, replication {shape.replication}{size}"
    shown = cap_lines(placed.numbered, lambda row: f"p{row[0]}: {ids(row[1])}", SHOWN_PARTITIONS, REST)
    yield Section("Replicas:", shown)
    yield _broker_shares(placed)
    yield Remarks("note", placed.notes)
    yield from ("", f"New map: {map_file}")
    command = create_command(placed, address)
    if command is None:
        yield "The assignment is too long for one argument of kafka-topics; use the map file"
    else:
        yield NextCommands((command,), "Add the partitions with:" if placed.present else "Create the topic with:")


def _broker_shares(placed: NewTopic) -> ResultTable:
    by_bytes = placed.shape.partition_bytes is not None
    head = ("broker", "rack", "replicas", "new", "leaders", "new", *(("bytes", "new") if by_bytes else ()))
    rows = [
        (s.broker, s.rack, s.replicas, s.new_replicas, s.leaders, s.new_leaders)
        + ((format_bytes(s.bytes), format_bytes(s.new_bytes)) if by_bytes else ())
        for s in placed.shares
    ]
    return ResultTable(head, rows, "Brokers (all topics):")


def create_command(placed: NewTopic, address: str | None) -> str | None:
    """The command of Kafka's own tool; None when the assignment is longer than an argument may be."""
    if len(placed.argument) > MAX_ARGUMENT:
        return None
    server = quote(address) if address else "HOST:PORT"
    return (
        f"kafka-topics.sh --bootstrap-server {server} --create --topic {quote(placed.topic)} "
        f"--replica-assignment {placed.argument}"
        if not placed.present
        else f"kafka-topics.sh --bootstrap-server {server} --alter --topic {quote(placed.topic)} "
        f"--partitions {placed.shape.partitions} --replica-assignment {placed.argument}"
    )
