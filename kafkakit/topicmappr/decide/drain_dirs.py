"""`topicmappr drain --log-dir` as a pure function: every replica leaves some log dirs of a broker.

Replicas go to the other open dirs of their broker as far as these have space; what does not fit there is replaced on
other brokers, as by a drain. Nothing can be moved out of a dir that has failed: what was in it is for `repair`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kafkakit.core.errors import UsageError
from kafkakit.core.model import ClusterSnapshot, TopicPartition
from kafkakit.core.plan import DirMove, Proof, ProofKind, StorageFacts, certificate
from kafkakit.core.quantities import count_of
from kafkakit.core.text import few_of
from kafkakit.placement.by_size.exact import LARGEST
from kafkakit.placement.group_rooms import Grouping
from kafkakit.placement.group_rule import ClosedBrokers, SpreadRule, racks_to_spread
from kafkakit.placement.log_dirs_balance import BrokerDirState, choose_destinations, dir_states_of
from kafkakit.placement.openings import BrokerPool, pool_of
from kafkakit.placement.problem import set_stranded_apart
from kafkakit.placement.watch import UNWATCHED, SearchWatch, with_budget
from kafkakit.topicmappr.decide.assembly import PlanDecision, PlannedChange
from kafkakit.topicmappr.decide.dirs import APPLIED, fit_dirs
from kafkakit.topicmappr.decide.drain import DrainProblem, place_leaving, receivers_of
from kafkakit.topicmappr.decide.plain_requests import DrainRequest
from kafkakit.topicmappr.decide.rebalance_goal import RECEIVERS, named_brokers
from kafkakit.topicmappr.decide.scope import Scope, TopicScope, pinned_indices, scope_of
from kafkakit.topicmappr.decide.storage import Sizes, storage_of

FLAG = "--log-dir"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptiedDirs:
    """What leaves the dirs of one broker: `inside` has (bytes, partition index, from, to) by dir index.

    `outside` are the partitions whose copy fits in no other dir of the broker; at least `least` do not, whichever stay.
    """

    state: BrokerDirState
    inside: tuple[tuple[int, int, int, int], ...]
    outside: tuple[int, ...]
    least: int


def decide_drain_dirs(
    snapshot: ClusterSnapshot,
    request: DrainRequest,
    facts: StorageFacts | None = None,
    watch: SearchWatch = UNWATCHED,
) -> PlannedChange:
    """Decide where the replicas in `request.log_dirs` of the brokers `request.leaving` go.

    As many as fit go to other dirs of their broker; `request` says who takes the others, and how. Raises `UsageError`
    for brokers and dirs that are not there or have failed, and what `storage_of` raises for unknown sizes.
    """
    watch, log_dirs = with_budget(watch), request.log_dirs
    named = tuple(sorted(request.leaving.ids))
    scope = scope_of(snapshot, TopicScope(topics=request.topics, topics_exclude=request.topics_exclude))
    copies = _copies(snapshot, scope, named, _known_dirs(snapshot, request, named, log_dirs))
    keys = [scope.partitions[i].key for _, i, _ in copies]
    sizes = storage_of(snapshot, facts, brokers=named, partitions=keys)
    pinned = frozenset(pinned_indices(scope.partitions, request.pinned, ()))
    found = _empty_dirs(snapshot, scope, sizes, named, log_dirs, [c for c in copies if c[1] not in pinned], watch)
    standing = sorted({i for _, i, _ in copies if i in pinned})

    def problem(closed: ClosedBrokers) -> DrainProblem:
        return _problem(snapshot, request, scope, found, log_dirs, standing, closed)

    def finish(rest: DrainProblem, decision: PlanDecision) -> PlanDecision:
        return _with_inside(rest, decision, found)

    return fit_dirs(
        snapshot, lambda closed: place_leaving(snapshot, request, problem(closed), facts, watch, finish), watch
    )


def _known_dirs(
    snapshot: ClusterSnapshot, request: DrainRequest, named: Sequence[int], log_dirs: Sequence[str]
) -> frozenset[str]:
    """The dirs; `UsageError` for what is not there, or has failed."""
    brokers = snapshot.broker_by_id()
    for b in named:
        broker = brokers.get(b)
        if broker is None or not broker.is_alive:
            known = "is not alive" if broker is not None else "is not in this cluster"
            raise UsageError(f"--brokers: broker {b} {known}, so nothing can be moved between its log dirs")
        own = {d.path: d for d in broker.log_dirs}
        for path in log_dirs:
            if path not in own:
                known = f"its log dirs are {few_of(sorted(own))}" if own else "it reports no log dirs"
                raise UsageError(f"{FLAG}: broker {b} has no log dir {path}", hint=known)
            if own[path].error is not None:
                raise UsageError(
                    f"{FLAG}: log dir {path} of broker {b} is offline, nothing can be moved out of it",
                    hint=f"replace what was in it: {request.repair(b)}",
                )
    return frozenset(log_dirs)


def _copies(
    snapshot: ClusterSnapshot, scope: Scope, named: Sequence[int], log_dirs: frozenset[str]
) -> list[tuple[int, int, int]]:
    """(bytes, partition index, broker) of the copies that are in these dirs."""
    index = {p.key: i for i, p in enumerate(scope.partitions)}
    chosen = {key.topic for key in index}
    brokers, found = frozenset(named), list[tuple[int, int, int]]()
    for topic in snapshot.topics:
        for p in topic.partitions if topic.name in chosen else ():
            for b in brokers.intersection(p.replicas):
                if p.replica_dirs.get(b) in log_dirs:
                    size = p.replica_bytes.get(b, p.known_bytes or 0)
                    found.append((size, index[TopicPartition(topic.name, p.partition)], b))
    return sorted(found)


def _empty_dirs(
    snapshot: ClusterSnapshot,
    scope: Scope,
    sizes: Sizes,
    named: Sequence[int],
    log_dirs: Sequence[str],
    copies: Sequence[tuple[int, int, int]],
    watch: SearchWatch,
) -> tuple[EmptiedDirs, ...]:
    """Fill the other dirs of each broker, the largest copies first."""
    shut = {
        b: [replace(d, cordoned=d.cordoned or d.path in log_dirs) for d in sizes.log_dirs.get(b, ())] for b in named
    }
    lists = [p.current for p in scope.partitions]
    found = []
    for state in dir_states_of(snapshot, scope.partitions, lists, shut, APPLIED, least=1):
        mine = [(size, i) for size, i, b in copies if b == state.broker]
        state.arrivals = mine
        chosen = choose_destinations(state, watch, search=len(mine) * len(state.dirs) <= LARGEST).chosen
        where = {d.path: n for n, d in enumerate(state.dirs)}
        at = _places(snapshot, scope, state.broker)
        found.append(
            EmptiedDirs(
                state=state,
                inside=tuple((size, i, where[at[i]], chosen[i]) for size, i in mine if i in chosen),
                outside=tuple(i for _, i in mine if i not in chosen),
                least=_least_outside([size for size, _ in mine], state),
            )
        )
    return tuple(found)


def _places(snapshot: ClusterSnapshot, scope: Scope, broker: int) -> dict[int, str]:
    """The dir of each partition's copy on the broker, by index."""
    facts = {(topic, p.partition): p for topic, p in snapshot.partitions()}
    return {
        i: path
        for i, p in enumerate(scope.partitions)
        if (path := facts[p.key.topic, p.key.partition].replica_dirs.get(broker)) is not None
    }


def _least_outside(sizes: Sequence[int], state: BrokerDirState) -> int:
    """How many copies fit in no dir whichever stay: the too large ones, and the largest beyond all the space."""
    rooms = [r for r, takes in zip(state.room, state.open, strict=True) if takes]
    beyond, count = sum(sizes) - sum(rooms), 0
    for size in sorted(sizes, reverse=True):
        if beyond <= 0:
            break
        beyond, count = beyond - size, count + 1
    return max(count, sum(1 for size in sizes if size > max(rooms, default=-1)))


def _problem(
    snapshot: ClusterSnapshot,
    request: DrainRequest,
    scope: Scope,
    found: Sequence[EmptiedDirs],
    log_dirs: Sequence[str],
    standing: Sequence[int],
    closed: ClosedBrokers,
) -> DrainProblem:
    """What must go to other brokers; these brokers take nothing, since their dirs are being filled."""
    pool = pool_of(snapshot).without(named_brokers(snapshot, RECEIVERS, request.exclude_receivers))
    named = frozenset(request.leaving.ids)
    gone: dict[int, set[int]] = {}
    for broker in found:
        for i in broker.outside:
            gone.setdefault(i, set()).add(broker.state.broker)
    _, stranded = set_stranded_apart(tuple(scope.partitions[i] for i in gone), pool.live)
    apart = {p.key for p in stranded}
    able = pool.open - named or request.receiving is not None
    receivers = receivers_of(pool, named, request.receiving) if gone and able else ()
    spread = racks_to_spread(pool.open - named, pool.racks) if request.spread and receivers else ()
    rule = SpreadRule(request.min_rack_ids, spread, request.constraints.on(snapshot, scope.selection.selected), closed)
    keys = [p.key for p in scope.partitions]
    which = f"{'log dir' if len(log_dirs) == 1 else 'log dirs'} {few_of(sorted(log_dirs))} of {_brokers(named)}"
    return DrainProblem(
        scope=scope,
        pool=pool,
        grouping=Grouping.of(rule, pool.racks, receivers, [key.topic for key in keys], keys),
        leaving=frozenset(),
        receivers=receivers,
        openings={
            i: tuple(b for b in scope.partitions[i].current if b not in brokers)
            for i, brokers in gone.items()
            if keys[i] not in apart
        },
        stranded=stranded,
        pinned=tuple(keys[i] for i in pinned_indices(scope.partitions, request.pinned, ())),
        standing=tuple(scope.partitions[i] for i in standing),
        title=f"Empty {which}",
        origin=which,
        nothing=f"{_brokers(named)} for that",
        notes=_notes(snapshot, pool, named, log_dirs),
    )


def _brokers(named: frozenset[int]) -> str:
    return f"{'broker' if len(named) == 1 else 'brokers'} {few_of(sorted(named))}"


def _notes(
    snapshot: ClusterSnapshot, pool: BrokerPool, named: frozenset[int], log_dirs: Sequence[str]
) -> tuple[str, ...]:
    """A dir that is not cordoned may get new partitions while it is emptied."""
    open_dirs = [
        f"{b.id}:{d.path}"
        for b in snapshot.brokers
        if b.id in named & pool.live
        for d in b.log_dirs
        if d.path in log_dirs and not d.cordoned
    ]
    if not open_dirs:
        return ()
    are = "is" if len(open_dirs) == 1 else "are"
    return (
        f"{few_of(open_dirs)} {are} not cordoned, so new partitions may still go there: set cordoned.log.dirs "
        "(Kafka 4.3 and later)",
    )


def _with_inside(problem: DrainProblem, decision: PlanDecision, found: Sequence[EmptiedDirs]) -> PlanDecision:
    """The decision with the moves inside brokers, what dirs hold after them, and a certificate for what leaves."""
    partitions = problem.scope.partitions
    delta: dict[tuple[int, str], int] = {}
    moves: list[DirMove] = []
    for broker in found:
        for size, i, source, target in broker.inside:
            key, (old, new) = partitions[i].key, (broker.state.dirs[n].path for n in (source, target))
            b = broker.state.broker
            delta[b, old] = delta.get((b, old), 0) - size
            delta[b, new] = delta.get((b, new), 0) + size
            moves.append(
                DirMove(
                    topic=key.topic,
                    partition=key.partition,
                    broker=b,
                    source_dir=old,
                    target_dir=new,
                    size_bytes=size,
                )
            )
    outside = decision.certificate.objective
    least = min(outside, sum(broker.least for broker in found))
    leave = count_of(len(moves) + sum(len(broker.outside) for broker in found), "replica")
    words = f"{leave} leave {problem.origin}, and in any plan {least} of them fit in no other log dir there"
    if not outside and not problem.openings:
        words = f"{leave} leave {problem.origin} for other log dirs there: nothing is copied to another broker"
    return replace(
        decision,
        certificate=certificate("replicas", outside, least, words, Proof(kind=ProofKind.COUNTING)),
        dir_moves=tuple(sorted(moves, key=lambda m: (m.topic, m.partition, m.broker))),
        dir_table=tuple(
            replace(row, used_after_bytes=row.used_after_bytes + delta.get((row.broker, row.path), 0))
            for row in decision.dir_table
        ),
    )
