"""A drain placed by bytes: copies go where free bytes of the receiving brokers end closest together."""

from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction

from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan import StorageFacts
from kafkakit.placement.bytes.layout import Disks
from kafkakit.placement.bytes.tightening import Watch
from kafkakit.placement.problem import PlacementProblem
from kafkakit.placement.rebuild_bytes.shortage import explain_shortage
from kafkakit.placement.rebuild_bytes.task import Task, with_openings
from kafkakit.topicmappr.decide.drain.problem import DrainProblem
from kafkakit.topicmappr.decide.rebuild.by_bytes import place_task
from kafkakit.topicmappr.decide.size_source import Sizes, storage_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """New brokers by partition index; `cramped` partitions find no room for all their copies, `reasons` why."""

    chosen: dict[int, tuple[int, ...]]
    cramped: tuple[int, ...]
    reasons: tuple[str, ...]
    sizes: Sizes


def fill_by_bytes(
    snapshot: ClusterSnapshot,
    facts: StorageFacts | None,
    drain: DrainProblem,
    unfit: Collection[int],
    watch: Watch,
) -> Filled:
    """Choose receivers for all openings but those of `unfit` partitions, which no rack rule lets be filled.

    As many copies as fit, then the smallest range of free bytes. A partition that finds room for some of its
    copies only is left alone. Raises what `storage_of` raises where sizes or disks are unknown.
    """
    rows = [i for i in sorted(drain.openings) if i not in unfit]
    partitions = tuple(drain.scope.partitions[i] for i in rows)
    sizes = storage_of(snapshot, facts, brokers=drain.receivers, partitions=[p.key for p in partitions])
    disks = Disks(storage=sizes.brokers, log_dirs=sizes.log_dirs, max_use=Fraction(1))
    size = tuple(p.size_bytes or 0 for p in partitions)
    task = Task(
        problem=PlacementProblem(partitions, drain.receivers, drain.pool.racks, drain.grouping.rule),
        kept=tuple(drain.openings[i] for i in rows),
        rows=tuple(
            with_openings(p.current, drain.openings[i], p.wanted) for i, p in zip(rows, partitions, strict=True)
        ),
        size=size,
        reserve=size,
        free={b: sizes.brokers[b].free_bytes or 0 for b in drain.receivers},
        room={b: disks.room(b) for b in drain.receivers},
        receivers=frozenset(drain.receivers),
        forced=False,
    )
    lists, _, searched = place_task(task, watch)
    short = [k for k, (row, new) in enumerate(zip(task.rows, lists, strict=True)) if len(new) < len(row)]
    proven = searched is not None and searched.most_placed
    lacking = frozenset(short)
    return Filled(
        chosen={
            i: tuple(b for b in lists[k] if b not in drain.openings[i]) for k, i in enumerate(rows) if k not in lacking
        },
        cramped=tuple(rows[k] for k in short),
        reasons=explain_shortage(task, lists, short, Fraction(1), proven=proven) if short else (),
        sizes=sizes,
    )
