"""The report of a rebuild in kafka-kit's words, and as rows and data."""

from collections.abc import Iterator, Sequence

from kafkakit.core.certificate import Certificate
from kafkakit.core.placement_statistics import degree_of
from kafkakit.core.plan import Plan
from kafkakit.core.quantities import counted, format_bytes
from kafkakit.topicmappr.decide.map_files import SavedMap
from kafkakit.topicmappr.decide.rebuild.decision import Rebuild
from kafkakit.topicmappr.decide.rebuild.request import RebuildRequest
from kafkakit.topicmappr.decide.storage_words import free_change_data, free_change_lines
from kafkakit.topicmappr.show.log_dirs import dirs_section

INDENT = "  "
COLUMNS = ("topic", "partition", "before", "after", "change")


def ids(replicas: Sequence[int]) -> str:
    """A replica list as kafka-kit prints it: `[1001 1002]`."""
    return f"[{' '.join(map(str, replicas))}]"


def what_changed(old: Sequence[int], new: Sequence[int]) -> str:
    """The words behind a partition's line: `no-op`, `preferred leader`, `replaced broker`, ..."""
    words = []
    if len(old) != len(new):
        words.append("decreased replication" if len(old) > len(new) else "increased replication")
    elif list(old) == list(new):
        return "no-op"
    shared = min(len(old), len(new))
    left, right = list(old[:shared]), list(new[:shared])
    if left != right:
        words.append("preferred leader" if sorted(left) == sorted(right) else "replaced broker")
    return ", ".join(words)


def report_head(rebuild: Rebuild, request: RebuildRequest) -> str:
    """Everything kafka-kit prints before the WARN section."""
    lines = [*_head(rebuild, request)]
    if request.chunk_step:
        lines += _chunks(rebuild, request.chunk_step)
    return "\n".join(lines) + "\n"


def _head(rebuild: Rebuild, request: RebuildRequest) -> Iterator[str]:
    selection, change = rebuild.scope.selection, rebuild.change
    yield from ("", "Topics:", *(INDENT + t for t in selection.selected))
    if selection.excluded:
        yield from ("", "Topics excluded:", *(INDENT + t for t in selection.excluded))
    yield from ("", "Broker change summary:")
    messages = change.messages()
    yield from (INDENT + line for line in messages)
    if messages:
        yield INDENT + "-"
    if rebuild.affinities:
        yield from (f"{INDENT}Substitution affinity: {a}" for a in rebuild.affinities)
        yield INDENT + "-"
    yield INDENT + change.summary()
    yield from ("", "Action:")
    actions = change.actions(
        force_rebuild=request.force_rebuild,
        replication=request.replication,
        optimize_leadership=request.optimize_leadership,
    )
    yield from (INDENT + line for line in actions or ["no-op"])
    yield from ("", "Partition map changes:")
    for p, old, new in zip(rebuild.scope.partitions, rebuild.before, rebuild.after, strict=True):
        yield f"{INDENT}{p.key.topic} p{p.key.partition}: {ids(old)} -> {ids(new)} {what_changed(old, new)}"
    yield from ("", "Broker distribution:")
    yield f"{INDENT}degree [min/max/avg]: {degree_of(rebuild.before)} -> {degree_of(rebuild.after)}"
    yield INDENT + "-"
    for load in rebuild.plan.after.brokers:
        if load.replicas:
            followers = load.replicas - load.leaders
            yield (
                f"{INDENT}Broker {load.broker} - leader: {load.leaders}, follower: {followers}, total: {load.replicas}"
            )
    if rebuild.free is not None:
        yield from ("", *free_change_lines(rebuild.free))


def _chunks(rebuild: Rebuild, step: int) -> Iterator[str]:
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
        yield from ("", "Partition map changes:")
        for i, new in sorted(chunk.changes.items()):
            key = rebuild.scope.partitions[i].key
            yield f"{INDENT}{key.topic} p{key.partition}: {ids(now[i])} -> {ids(new)} {what_changed(now[i], new)}"
            now[i] = new
        number += 1


def warn_section(warnings: Sequence[str]) -> str:
    """The WARN section, sorted by text."""
    return "\n".join(["", "WARN:", *(INDENT + w for w in sorted(warnings) or ["[none]"])]) + "\n"


def files_section(maps: Sequence[SavedMap]) -> str:
    """The list of written maps, the combined ones first."""
    if not maps:
        return "\nNo partition reassignments, skipping map generation\n"
    ordered = sorted(maps, key=lambda saved: not saved.combined)
    lines = [f"{INDENT}{saved.path}{' [combined map]' if saved.combined else ''}" for saved in ordered]
    return "\n".join(["", "New partition maps:", *lines]) + "\n"


def plan_section(plan: Plan, saved_to: str | None, next_command: str | None) -> str:
    """What the plan costs and why nothing cheaper exists, and the exact next command on its own line."""
    lines = [
        *dirs_section(plan),
        "",
        "Plan:",
        INDENT + certificate_line(plan),
        f"{INDENT}why: {plan.certificate.argument}",
    ]
    lines += [f"{INDENT}note: {note}" for note in plan.notes]
    if saved_to:
        lines.append(f"{INDENT}saved to: {saved_to}")
    if next_command:
        lines += [f"{INDENT}next:", next_command]
    return "\n".join(lines) + "\n"


def certificate_line(plan: Plan) -> str:
    """One line: partitions, copies, bytes where known, bound and gap."""
    c = plan.certificate
    copies = sum(len(m.adding) for m in plan.moves)
    sizes = [m.bytes_moved for m in plan.moves]
    known = f" ({format_bytes(sum(s for s in sizes if s is not None))})" if copies and None not in sizes else ""
    noun = "leader change" if c.unit == "leaders" else "replica"
    bound = format_bytes(c.lower_bound) if c.unit == "bytes" else counted(c.lower_bound, noun)
    return (
        f"{counted(len(plan.moves), 'partition')} to change, {counted(copies, 'replica')} to copy{known}; "
        f"lower bound {bound}, gap {gap_text(c)} ({c.status})"
    )


def gap_text(certificate: Certificate) -> str:
    """The gap as text: `0` only when it is exactly nothing."""
    return "0" if certificate.gap == 0 else f"{certificate.gap * 100:.3g} %"


def change_rows(rebuild: Rebuild, *, skip_no_ops: bool) -> tuple[tuple[object, ...], ...]:
    """One row a partition: topic, partition, before, after, change."""
    return tuple(
        (p.key.topic, p.key.partition, ",".join(map(str, old)), ",".join(map(str, new)), what_changed(old, new))
        for p, old, new in zip(rebuild.scope.partitions, rebuild.before, rebuild.after, strict=True)
        if not (skip_no_ops and old == new)
    )


def rebuild_data(rebuild: Rebuild, maps: Sequence[SavedMap], *, skip_no_ops: bool) -> dict[str, object]:
    """The result for JSON and YAML: the change of brokers, every partition's lists, counts, proof, files."""
    plan, change = rebuild.plan, rebuild.change
    return {
        "cluster_id": plan.cluster_id,
        "topics": rebuild.scope.selection.selected,
        "topics_excluded": rebuild.scope.selection.excluded,
        "brokers": {
            "targets": change.targets,
            "replaced": change.replace,
            "new": change.new,
            "missing": sorted({*change.missing, *change.old_missing}),
            "without_rack": change.rack_missing,
            "affinities": [{"old": a.old, "new": a.new, "inferred": a.inferred} for a in rebuild.affinities],
        },
        "partitions": [
            {"topic": p.key.topic, "partition": p.key.partition, "before": old, "after": new,
             "change": what_changed(old, new)}
            for p, old, new in zip(rebuild.scope.partitions, rebuild.before, rebuild.after, strict=True)
            if not (skip_no_ops and old == new)
        ],
        "certificate": certificate_data(plan.certificate),
        "distribution": [
            {"broker": b.broker, "rack": b.rack, "replicas": b.replicas, "leaders": b.leaders, "bytes": b.bytes}
            for b in plan.after.brokers
        ],
        **({"storage": free_change_data(rebuild.free)} if rebuild.free is not None else {}),
        "notes": plan.notes,
        "warnings": plan.warnings,
        "map_files": [saved.path for saved in maps],
        "maps": _series_data(rebuild, maps),
    }  # fmt: skip


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


def certificate_data(certificate: Certificate) -> dict[str, object]:
    """The certificate as JSON fields."""
    return {
        "unit": certificate.unit,
        "objective": certificate.objective,
        "lower_bound": certificate.lower_bound,
        "gap": certificate.gap,
        "status": certificate.status.value,
        "argument": certificate.argument,
    }
