"""What the operator asked `topicmappr fix-racks` for, validated, and the replicas that have to leave their racks."""

from collections.abc import Mapping
from dataclasses import dataclass

from kafkakit.core.errors import UsageError
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.placement.group_repairs import NoRepair, Repair, Repairs
from kafkakit.placement.group_rooms import Grouping
from kafkakit.placement.group_rule import GroupRule, refuse_both_rules
from kafkakit.placement.openings.broker_pool import BrokerPool, pool_of
from kafkakit.placement.openings.fill import LEVEL_PRICE, Alike
from kafkakit.placement.openings.surplus import Surplus
from kafkakit.placement.problem import Minimize, PlannedPartition, set_stranded_apart
from kafkakit.topicmappr.decide.budget import NO_BUDGET, Budget
from kafkakit.topicmappr.decide.constraints import NO_CONSTRAINTS, TagConstraints
from kafkakit.topicmappr.decide.scope import Scope, TopicScope, pinned_indices, scope_of


@dataclass(frozen=True, slots=True, kw_only=True)
class FixRacksRequest:
    """Repair the rack rule for the chosen topics.

    The rule is `min_rack_ids` as everywhere, or with `spread` that a partition's replicas per rack differ by
    at most one. `pinned` are topics or topic/partition that stay as they are, `budget` what one run may copy. `words`
    are the flags as given, for the plan's record.
    """

    topics: tuple[str, ...]
    topics_exclude: tuple[str, ...] = ()
    min_rack_ids: int = 0
    spread: bool = False
    minimize: Minimize = Minimize.MOVES
    pinned: tuple[str, ...] = ()
    budget: Budget = NO_BUDGET
    constraints: TagConstraints = NO_CONSTRAINTS
    words: Mapping[str, str]

    def __post_init__(self) -> None:
        if self.min_rack_ids < 0:
            raise UsageError(f"--min-rack-ids: {self.min_rack_ids} is below 0")
        refuse_both_rules(self.min_rack_ids, self.spread)


# Above what evenness can cost a single replica, see `fill.py`; below the leader's.
_STALE = 10**10
_LEADER = -(10**12)


@dataclass(frozen=True, slots=True, kw_only=True)
class RackProblem:
    """`repairs` and `beyond_repair` by partition index; `stranded` break the rule and cannot be copied.

    `pinned` partitions stay as they are, `standing` are those of them that break the rule.
    """

    scope: Scope
    pool: BrokerPool
    grouping: Grouping
    repairs: Mapping[int, Repair]
    beyond_repair: Mapping[int, NoRepair]
    stranded: tuple[PlannedPartition, ...]
    pinned: tuple[TopicPartition, ...] = ()
    standing: tuple[TopicPartition, ...] = ()

    def rooms(self) -> list[Alike]:
        """Partitions whose new copies may go to the same places."""
        found: dict[int, Alike] = {}
        for i, repair in self.repairs.items():
            # Equal needs are one object, see `Repairs`.
            found.setdefault(id(repair), Alike(repair.room)).members.append(i)
        return list(found.values())

    def surplus(self) -> list[Surplus]:
        """The sets that must give replicas up, for the flow that chooses which."""
        return [self._surplus(i, repair) for i, repair in self.repairs.items()]

    def _surplus(self, index: int, repair: Repair) -> Surplus:
        p = self.scope.partitions[index]
        fit = self.pool.live if p.in_sync is None else self.pool.live & p.in_sync
        return Surplus(
            index=index,
            replicas=p.current,
            prices=tuple(
                _STALE if b not in fit else min(k, LEVEL_PRICE - 1) if k else _LEADER for k, b in enumerate(p.current)
            ),
            groups=self.grouping.shared(p.current),
            stay=len(p.current) - repair.moves,
            base=repair.base,
            slots=repair.slots,
            extra=repair.extra,
        )


def rack_problem(snapshot: ClusterSnapshot, request: FixRacksRequest) -> RackProblem:
    """Look at every chosen partition; raises `UsageError` when the brokers have no racks at all. O(partitions)."""
    pool = pool_of(snapshot)
    names = tuple(sorted({r for b in pool.open if (r := pool.racks[b])}))
    if not names:
        raise UsageError("no live broker has a rack, so there is no rack rule to repair", hint="set broker.rack")
    sized = request.minimize is Minimize.BYTES
    scope = scope_of(snapshot, TopicScope(topics=request.topics, topics_exclude=request.topics_exclude, sized=sized))
    rule = GroupRule(request.min_rack_ids, names if request.spread else ())
    grouping = Grouping.of(rule, pool.racks, pool.open)
    repairs = Repairs(grouping)
    needs = ((i, repairs.need_of(p.current)) for i, p in enumerate(scope.partitions))
    wrong = {i: need for i, need in needs if need is not None}
    pinned = frozenset(pinned_indices(scope.partitions, request.pinned, ()))
    broken = {i: need for i, need in wrong.items() if i not in pinned}
    _, stranded = set_stranded_apart(tuple(scope.partitions[i] for i in broken), pool.live)
    apart = {p.key for p in stranded}
    movable = {i: need for i, need in broken.items() if scope.partitions[i].key not in apart}
    return RackProblem(
        scope=scope,
        pool=pool,
        grouping=grouping,
        repairs={i: need for i, need in movable.items() if isinstance(need, Repair)},
        beyond_repair={i: need for i, need in movable.items() if isinstance(need, NoRepair)},
        stranded=stranded,
        pinned=tuple(scope.partitions[i].key for i in sorted(pinned)),
        standing=tuple(scope.partitions[i].key for i in sorted(pinned & wrong.keys())),
    )
