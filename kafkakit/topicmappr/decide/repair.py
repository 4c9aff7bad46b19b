"""`topicmappr repair` as a pure function: only replicas that are offline are replaced, with the fewest copies.

A replica is offline when its broker is not alive, or when the log dir that it is in has failed. A broker with a failed
dir keeps what its other dirs hold, and may take copies in them; not one in place of what it has lost, since Kafka
makes no second copy of a replica on its own broker.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from kafkakit.core.errors import UsageError
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.core.plan import StorageFacts
from kafkakit.core.text import few_of
from kafkakit.placement.broker_disks import failed_copies
from kafkakit.placement.group_rooms import Grouping
from kafkakit.placement.group_rule import NONE_CLOSED, ClosedBrokers, SpreadRule, racks_to_spread
from kafkakit.placement.openings import BrokerPool, pool_of
from kafkakit.placement.problem import PlannedPartition, set_stranded_apart
from kafkakit.placement.watch import UNWATCHED, SearchWatch, with_budget
from kafkakit.topicmappr.decide.assembly import PlannedChange
from kafkakit.topicmappr.decide.dirs import fit_dirs
from kafkakit.topicmappr.decide.drain import DrainProblem, place_leaving
from kafkakit.topicmappr.decide.plain_requests import RepairRequest
from kafkakit.topicmappr.decide.rebalance_goal import RECEIVERS, named_brokers
from kafkakit.topicmappr.decide.scope import Scope, TopicScope, pinned_indices, scope_of


def decide_repair(
    snapshot: ClusterSnapshot,
    request: RepairRequest,
    facts: StorageFacts | None = None,
    watch: SearchWatch = UNWATCHED,
) -> PlannedChange:
    """Decide who takes the replicas that are offline; every other replica stays where it is.

    Each partition ends with as many replicas as it lists. One without a live copy in sync is left, with a warning. See
    `decide_drain` for what comes out even, what a budget leaves, and the cost.
    """
    watch = with_budget(watch)
    return fit_dirs(
        snapshot,
        lambda closed: place_leaving(snapshot, request, repair_problem(snapshot, request, closed), facts, watch),
        watch,
    )


def repair_problem(
    snapshot: ClusterSnapshot, request: RepairRequest, closed: ClosedBrokers = NONE_CLOSED
) -> DrainProblem:
    """Find the replicas to replace; raises `UsageError` for unknown brokers and where none is left to receive."""
    pool = pool_of(snapshot).without(named_brokers(snapshot, RECEIVERS, request.exclude_receivers))
    scope = scope_of(snapshot, TopicScope(topics=request.topics, topics_exclude=request.topics_exclude))
    holding = frozenset(b for p in scope.partitions for b in p.current)
    named = named_brokers(snapshot, "--brokers", request.brokers, holding) if request.brokers else None
    offline = _offline_replicas(snapshot, scope, pool)
    wanted = offline if named is None else {i: gone & named for i, gone in offline.items() if gone & named}
    if wanted and not pool.open:
        raise UsageError("no live broker takes new replicas", hint="start brokers, or uncordon log dirs")
    pinned = frozenset(pinned_indices(scope.partitions, request.pinned, ()))
    due = {i: gone for i, gone in wanted.items() if i not in pinned}
    _, stranded = set_stranded_apart(tuple(scope.partitions[i] for i in due), pool.live)
    apart = {p.key for p in stranded}
    openings = {
        i: tuple(b for b in scope.partitions[i].current if b not in gone)
        for i, gone in due.items()
        if scope.partitions[i].key not in apart
    }
    keys = [p.key for p in scope.partitions]
    receivers = pool.receiving()
    rule = SpreadRule(
        request.min_rack_ids,
        racks_to_spread(receivers, pool.racks) if request.spread else (),
        request.constraints.on(snapshot, scope.selection.selected),
        replace(closed, failed={keys[i]: gone for i, gone in offline.items()}),
    )
    where = _where_text(scope.partitions, wanted, pool)
    return DrainProblem(
        scope=scope,
        pool=pool,
        grouping=Grouping.of(rule, pool.racks, receivers, [key.topic for key in keys], keys),
        leaving=frozenset(),
        receivers=receivers,
        openings=openings,
        stranded=stranded,
        pinned=tuple(keys[i] for i in sorted(pinned)),
        standing=tuple(scope.partitions[i] for i in sorted(pinned & wanted.keys())),
        title=f"Replace the offline replicas{f' of brokers {few_of(sorted(named))}' if named else ''}",
        origin=where,
        nothing="its broker, since none is offline",
    )


def _offline_replicas(snapshot: ClusterSnapshot, scope: Scope, pool: BrokerPool) -> dict[int, frozenset[int]]:
    """By partition the brokers whose replica is offline."""
    failed = failed_copies(snapshot)
    none: frozenset[int] = frozenset()
    found: dict[int, frozenset[int]] = {}
    for i, p in enumerate(scope.partitions):
        gone = frozenset(b for b in p.current if b not in pool.live) | failed.get(TopicPartition(*p.key), none)
        if gone:
            found[i] = gone.intersection(p.current)
    return found


def _where_text(
    partitions: tuple[PlannedPartition, ...], wanted: Mapping[int, frozenset[int]], pool: BrokerPool
) -> str:
    """Where the offline replicas were: dead brokers, and failed log dirs of live ones."""
    count = Counter(b for i, gone in wanted.items() for b in partitions[i].current if b in gone)
    dead, alive = (sorted(b for b in count if (b in pool.live) is is_live) for is_live in (False, True))
    parts = [
        *([f"{'dead broker' if len(dead) == 1 else 'dead brokers'} {few_of(dead)}"] if dead else []),
        *([f"failed log dirs of {'broker' if len(alive) == 1 else 'brokers'} {few_of(alive)}"] if alive else []),
    ]
    return " and ".join(parts) or "failed log dirs"
