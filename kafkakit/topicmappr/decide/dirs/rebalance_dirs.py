"""`topicmappr rebalance-dirs` as a pure function: level log dirs inside brokers, with the fewest bytes."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kafkakit.core.broker_list import BrokerList
from kafkakit.core.certificate import Certificate, PlacementRules, certificate
from kafkakit.core.errors import UsageError
from kafkakit.core.lists_in_words import some
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan import StorageFacts
from kafkakit.core.quantities import counted, format_bytes, format_percent
from kafkakit.placement.log_dirs_balance import DirRules
from kafkakit.placement.problem import set_stranded_apart
from kafkakit.topicmappr.decide.assembly import Decision, PlannedChange, assemble
from kafkakit.topicmappr.decide.dirs.decision import DirPlan, plan_dirs
from kafkakit.topicmappr.decide.scope import Scope, TopicScope, pinned_indices, scope_of
from kafkakit.topicmappr.decide.size_source import Sizes, storage_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceDirsRequest:
    """Balance the log dirs of the chosen brokers with copies of the chosen topics; no replica changes brokers.

    `rules.band` is required. `pinned` are topics or topic/partition that stay as they are. `words` are the flags as
    given, for the plan's record.
    """

    brokers: BrokerList
    rules: DirRules
    topics: tuple[str, ...]
    topics_exclude: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    words: Mapping[str, str]

    def __post_init__(self) -> None:
        if self.rules.band is None:
            raise UsageError("must specify --band", hint="write it like 10%")
        if not self.topics:
            raise UsageError("must specify --topics")


TWO = 2


def decide_rebalance_dirs(
    snapshot: ClusterSnapshot,
    request: RebalanceDirsRequest,
    facts: StorageFacts | None = None,
) -> PlannedChange:
    """Decide which copies change dirs so that each dir ends within the band of its share, broker by broker.

    A band that cannot be had on a broker is told in the plan's warnings and the nearest is planned. Raises
    `UsageError` for brokers that are not there and `TryLaterError` for disks that are not known.
    """
    scope = scope_of(snapshot, TopicScope(topics=request.topics, topics_exclude=request.topics_exclude))
    live = frozenset(b.id for b in snapshot.brokers if b.is_alive)
    targets = _targets(request, scope, live)
    _, stranded = set_stranded_apart(scope.partitions, live)
    pinned = pinned_indices(scope.partitions, request.pinned, stranded)
    keys = tuple(scope.partitions[i].key for i in pinned)
    sizes = storage_of(snapshot, facts, brokers=targets, partitions=())
    lists = [p.current for p in scope.partitions]
    found = plan_dirs(
        snapshot,
        scope.partitions,
        lists,
        {b: sizes.log_dirs[b] for b in targets if b in sizes.log_dirs},
        request.rules,
        pinned=keys,
    )
    decision = Decision(
        replicas=lists,
        certificate=_certify(found),
        targets=targets,
        rules=PlacementRules(pinned=keys),
        storage={b: sizes.brokers[b] for b in targets},
        storage_facts=sizes.facts,
        dir_moves=found.dir_moves,
        dir_table=found.table,
        notes=(*sizes.notes, *found.notes, *_no_dirs_note(sizes, targets)),
        warnings=found.warnings,
    )
    band = format_percent(request.rules.band or 0)
    return PlannedChange(
        title=f"Level the log dirs of {counted(len(targets), 'broker')} to within {band} of each dir's share",
        topics=scope.selection.selected,
        topics_excluded=scope.selection.excluded,
        plan=assemble(snapshot, request.words, scope, decision),
    )


def _targets(request: RebalanceDirsRequest, scope: Scope, live: frozenset[int]) -> tuple[int, ...]:
    holding = frozenset(b for p in scope.partitions for b in p.current)
    named = request.brokers.resolve(holding, live)
    wrong = sorted(set(request.brokers.ids) - live)
    if wrong:
        raise UsageError(
            f"broker {some(wrong)} is not a live broker of this cluster", hint=f"live: {some(sorted(live))}"
        )
    targets = sorted(set(named) & live)
    if not targets:
        raise UsageError("no live broker holds these topics", hint="check --brokers and --topics")
    return tuple(targets)


def _certify(found: DirPlan) -> Certificate:
    """The sum of what each broker must move inside at least, set beside what the plan moves."""
    if not found.dir_moves:
        return certificate("bytes", 0, 0, "no copy has to change its log dir")
    brokers = len({m.broker for m in found.dir_moves})
    words = (
        f"on {counted(brokers, 'broker')} log dirs hold more than their band allows, or less: whatever the plan, "
        f"{format_bytes(found.lower_bound)} have to change dirs"
    )
    return certificate("bytes", found.moved_bytes, found.lower_bound, words)


def _no_dirs_note(sizes: Sizes, targets: Collection[int]) -> tuple[str, ...]:
    if any(len(sizes.log_dirs.get(b, ())) >= TWO for b in targets):
        return ()
    return ("none of these brokers has two log dirs, so there is nothing to level",)
