"""Log dirs added to a decision about replica lists: what a planner of brokers calls before it makes its plan."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from kafkakit.core.model import ClusterSnapshot
from kafkakit.placement.broker_disks import DirStorage, broker_disks
from kafkakit.placement.log_dirs_balance import DirRules
from kafkakit.placement.problem import UNWATCHED, Watch
from kafkakit.topicmappr.decide.assembly import Decision
from kafkakit.topicmappr.decide.dirs.decision import plan_dirs
from kafkakit.topicmappr.decide.scope import Scope

WHOLE_DISK = DirRules(max_use=Fraction(1))
"""For planners that know no ceiling: a copy must fit on the disk, no more."""


def with_dirs(
    snapshot: ClusterSnapshot,
    scope: Scope,
    decision: Decision,
    log_dirs: Mapping[int, Sequence[DirStorage]],
    rules: DirRules,
    watch: Watch = UNWATCHED,
) -> Decision:
    """The decision with a log dir for each new copy on its targets, and, with a band, moves inside them.

    Nothing changes where no target tells of two log dirs. Pinned partitions keep their dirs. A `watch` that stops ends
    the moves inside brokers where they are. Cost: see `plan_dirs`.
    """
    if rules.band is not None:
        watch.phase("log dirs")
    found = plan_dirs(
        snapshot,
        scope.partitions,
        decision.replicas,
        {b: log_dirs[b] for b in decision.targets if b in log_dirs},
        rules,
        pinned=decision.rules.pinned if decision.rules else (),
        watch=watch,
    )
    return replace(
        decision,
        dirs=found.dirs,
        dir_moves=found.dir_moves,
        dir_table=found.table,
        notes=(*decision.notes, *found.notes),
        warnings=tuple(sorted((*decision.warnings, *found.warnings))),
    )


def with_destinations(snapshot: ClusterSnapshot, scope: Scope, decision: Decision) -> Decision:
    """For planners that place by counts: a dir for each new copy where dirs are known.

    A copy that fits in no dir is told of in a note, as the planner did not ask about sizes.
    """
    if all(len(b.log_dirs) <= 1 for b in snapshot.brokers):
        return decision
    disks = broker_disks(snapshot)
    placed = with_dirs(snapshot, scope, replace(decision, warnings=()), disks.log_dirs, WHOLE_DISK)
    alike = disks.notes_on(frozenset(b for chosen in placed.dirs.values() for b in chosen))
    return replace(placed, notes=(*placed.notes, *alike, *placed.warnings), warnings=decision.warnings)
