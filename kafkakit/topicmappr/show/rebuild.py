"""The report of a rebuild in kafka-kit's words, and as rows and data."""

from collections.abc import Iterator, Sequence

from kafkakit.report.blocks import attributes, records, section, text_of
from kafkakit.report.report import Report
from kafkakit.topicmappr.decide.diagnose import infeasible
from kafkakit.topicmappr.decide.map_files import SavedMap, SavedPlan
from kafkakit.topicmappr.decide.rebuild.decision import Rebuild
from kafkakit.topicmappr.decide.rebuild.request import RebuildRequest
from kafkakit.topicmappr.decide.storage_words import free_change_data, free_change_lines
from kafkakit.topicmappr.show import plan_blocks as blocks

COMMAND = "topicmappr rebuild"
COLUMNS = ("topic", "partition", "before", "after", "change")


def rebuild_report(rebuild: Rebuild, request: RebuildRequest, saved: SavedPlan | None) -> Report:
    """Everything kafka-kit prints, and the plan; `saved` is None when warnings forbade to write it."""
    plan = rebuild.plan
    head = [*_head(rebuild, request), *(_chunks(rebuild, request.chunk_step) if request.chunk_step else ())]
    text = text_of(head) + blocks.warn_section(plan.warnings)
    if saved is None:
        short = infeasible(rebuild.shortages, rebuild.unplaced) if rebuild.shortages else None
        return blocks.refused(
            COMMAND, f"{text}\n  {blocks.MAPS_REFUSED}\n", short or blocks.refusal(plan, (), 0, what="map")
        )
    rows = tuple(
        (*p.key, old, new, blocks.what_changed(old, new))
        for p, old, new in zip(rebuild.scope.partitions, rebuild.before, rebuild.after, strict=True)
        if not (request.skip_no_ops and old == new)
    )
    return Report(
        command=COMMAND,
        data={
            "cluster_id": plan.cluster_id,
            "topics": rebuild.scope.selection.selected,
            "topics_excluded": rebuild.scope.selection.excluded,
            "brokers": _brokers_data(rebuild),
            "partitions": records(COLUMNS, rows),
            "certificate": blocks.certificate_data(plan.certificate),
            "distribution": [attributes(b, "broker rack replicas leaders bytes") for b in plan.after.brokers],
            **({"storage": free_change_data(rebuild.free)} if rebuild.free is not None else {}),
            **blocks.remarks_data(plan),
            "map_files": [m.path for m in saved.maps or ()],
            "maps": _series_data(rebuild, saved.maps or ()),
        },
        text=text + blocks.files_section(saved.maps) + blocks.plan_section(plan, saved),
        columns=COLUMNS,
        rows=rows,
        code=saved.code,
    )


def _head(rebuild: Rebuild, request: RebuildRequest) -> Iterator[str]:
    change = rebuild.change
    yield from blocks.topics_sections(rebuild.scope.selection)
    messages = change.messages()
    affinities = [f"Substitution affinity: {a}" for a in rebuild.affinities]
    parts = [*messages, *(["-"] if messages else []), *affinities, *(["-"] if affinities else []), change.summary()]
    yield from section("Broker change summary:", parts)
    actions = change.actions(
        force_rebuild=request.force_rebuild,
        replication=request.replication,
        optimize_leadership=request.optimize_leadership,
    )
    yield from section("Action:", actions or ["no-op"])
    yield from blocks.map_changes(rebuild.scope, rebuild.before, rebuild.after)
    yield from blocks.distribution(rebuild.plan, rebuild.before, rebuild.after)
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
        changes = sorted(chunk.changes.items())
        keys = rebuild.scope.partitions
        yield from section(
            "Partition map changes:", [blocks.change_line(*keys[i].key, now[i], new) for i, new in changes]
        )
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
