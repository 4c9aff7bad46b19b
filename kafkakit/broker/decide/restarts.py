"""May brokers go down together now, and in how few rounds can many of them be restarted?

The rule is that of Strimzi's operator, for sets of brokers. A partition with a replica on one of them, and as many
replicas as its `min.insync.replicas` or fewer, allows it: no order of restarts would do better. Otherwise it forbids it
while fewer replicas than that are in sync, or if fewer would be left. Copies that a move adds are not counted as
replicas. Running moves, offline log dirs and the quorum of controllers forbid it as well.

A plan rests on what is in sync now, so all brokers have to be back before the next round. Partitions are rows of
arrays; all of a kind are one condition of the plan.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from kafkakit.core.cluster_facts import Quorum
from kafkakit.core.columns import without_collector
from kafkakit.core.errors import ExitCode, OperationFailedError, TryLaterError, UsageError
from kafkakit.core.findings import MIN_ISR, min_isr_of, shorten, usual_min_isr_words
from kafkakit.core.model import Broker, ClusterSnapshot, Reassignment
from kafkakit.core.options import duration_option, option
from kafkakit.core.quantities import count_of, format_rough_time
from kafkakit.core.text import few_of, sanitize, shown_name
from kafkakit.placement.restart_rounds import RoundsProblem

if TYPE_CHECKING:
    from kafkakit.core.columns import Bools, Ints

LATE_VOTER_MS = 10_000
"""A controller that is further behind than this does not count as one that votes."""
SHOWN_KINDS = 3
_UNKNOWN = -1


class RestartAnswer(StrEnum):
    """Whether brokers may go down together now."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"

    @property
    def code(self) -> ExitCode:
        """What a command ends with."""
        return {"yes": ExitCode.DONE, "no": ExitCode.FAILED}.get(self, ExitCode.TRY_LATER)


class RestartObstacle(StrEnum):
    """Why a partition forbids it, worst first."""

    NONE_LEFT = "none left in sync"
    TOO_FEW_NOW = "too few in sync now"
    TOO_FEW_LEFT = "too few left in sync"


@dataclass(frozen=True, slots=True)
class RestartTable:
    """All partitions as arrays; brokers are places in `brokers`, the sorted ids.

    `replica_row` and `replica_at` have an entry for each replica, without those that a move adds; `isr_row` and
    `isr_at` one for each in sync. `minimum` is -1 where a partition's replicas, ISR or minimum are not known.
    """

    brokers: "Ints"
    topics: tuple[str, ...]
    topic: "Ints"
    number: "Ints"
    replica_row: "Ints"
    replica_at: "Ints"
    isr_row: "Ints"
    isr_at: "Ints"
    replicas: "Ints"
    in_sync: "Ints"
    minimum: "Ints"

    def mask(self, ids: Collection[int]) -> "Bools":
        """Which of the brokers these known ones are."""
        import numpy as np

        found = np.zeros(len(self.brokers), np.bool_)
        found[np.searchsorted(self.brokers, list(ids))] = True
        return found

    def counts(self, mask: "Bools") -> tuple["Ints", "Ints"]:
        """How many replicas of each partition are on these brokers, and how many of those in sync."""
        import numpy as np

        rows = len(self.number)
        held = np.bincount(self.replica_row[mask[self.replica_at]], minlength=rows)
        return held, np.bincount(self.isr_row[mask[self.isr_at]], minlength=rows)

    def name(self, row: int) -> str:
        """`topic/number`, printable."""
        return f"{shown_name(self.topics[int(self.topic[row])])}/{int(self.number[row])}"


@without_collector()
def restart_table(snapshot: ClusterSnapshot) -> RestartTable:
    """The arrays of a snapshot. O(replicas), 200,000 partitions take about half a second."""
    import numpy as np

    usual = snapshot.usual_min_isr if snapshot.min_isr else _UNKNOWN
    partitions = [p for t in snapshot.topics for p in t.partitions]
    lists = [p.replicas if not p.adding else tuple(b for b in p.replicas if b not in p.adding) for p in partitions]
    in_sync = [p.isr or () for p in partitions]
    replicas, isr, of_topic = (
        np.fromiter(map(len, each), np.int64, len(each))
        for each in (lists, in_sync, [t.partitions for t in snapshot.topics])
    )
    minimum = np.repeat(np.array([min_isr_of(t.configs, usual) for t in snapshot.topics], np.int64), of_topic)
    unread = np.fromiter((p.isr is None for p in partitions), np.bool_, len(partitions))
    minimum[unread | (replicas == 0)] = _UNKNOWN
    replica_ids = np.fromiter((b for each in lists for b in each), np.int64, int(replicas.sum()))
    isr_ids = np.fromiter((b for each in in_sync for b in each), np.int64, int(isr.sum()))
    adding = [b for p in partitions for b in p.adding]
    ids = np.unique(np.concatenate([replica_ids, isr_ids, np.array([*adding, *(b.id for b in snapshot.brokers)], int)]))
    rows = np.arange(len(partitions))
    return RestartTable(
        brokers=ids,
        topics=tuple(t.name for t in snapshot.topics),
        topic=np.repeat(np.arange(len(snapshot.topics)), of_topic),
        number=np.fromiter((p.partition for p in partitions), np.int64, len(partitions)),
        replica_row=np.repeat(rows, replicas),
        replica_at=np.searchsorted(ids, replica_ids),
        isr_row=np.repeat(rows, isr),
        isr_at=np.searchsorted(ids, isr_ids),
        replicas=replicas,
        in_sync=isr,
        minimum=minimum,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartFacts:
    """What a decision about restarts rests on.

    `quorum` is None where controllers do not vote. `controller` is the broker or controller that is active, None where
    that is not known. `age_s` is the age of a snapshot file, which has neither; None for the cluster as it is now,
    negative for a file of a host whose clock is ahead.
    """

    snapshot: ClusterSnapshot
    table: RestartTable
    quorum: Quorum | None = None
    controller: int | None = None
    age_s: float | None = None

    def require_known(self, ids: Collection[int]) -> None:
        """Raise `UsageError` for brokers that the cluster does not know."""
        known = self.table.brokers.tolist()
        unknown = sorted(set(ids) - set(known))
        if unknown:
            several = len(unknown) > 1
            raise UsageError(
                f"broker{'s' if several else ''} {few_of(unknown)} {'are' if several else 'is'} not in the cluster",
                hint=f"the brokers are {few_of(known)}",
            )

    @property
    def down(self) -> tuple[int, ...]:
        """The brokers that are not alive, registered or not."""
        alive = {b.id for b in self.snapshot.brokers if b.is_alive}
        return tuple(b for b in self.table.brokers.tolist() if b not in alive)

    def awaited(self, ids: Collection[int]) -> tuple[int, ...]:
        """The brokers that are down and have to be back: those with replicas, and these."""
        holding = set(self.table.brokers[self.table.replica_at].tolist())
        return tuple(b for b in self.down if b in holding or b in ids)

    @property
    def silent(self) -> frozenset[int]:
        """The brokers that count as alive but did not answer: they may have died a moment ago."""
        return frozenset(b.id for b in self.snapshot.brokers if b.is_alive and b.id in self.snapshot.unanswered_brokers)

    @property
    def voters(self) -> tuple[frozenset[int], frozenset[int]]:
        """The controllers with a vote, and those of them that keep up and whose broker, if any, is alive."""
        if self.quorum is None:
            return frozenset(), frozenset()
        down = set(self.down)
        told = any(v.behind_ms is not None for v in self.quorum.voters)
        late = {v.id for v in self.quorum.voters if told and (v.behind_ms is None or v.behind_ms > LATE_VOTER_MS)}
        return self.quorum.ids, frozenset(self.quorum.ids - late - down)

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of the reading itself."""
        told = ""
        if self.age_s is not None:
            age = format_rough_time(abs(self.age_s))
            what = f"is {age} old" if self.age_s >= 0 else f"was taken {age} ahead of this host's clock"
            told = f"the snapshot {what}; controllers, and what has changed since, are not checked"
        return tuple(filter(None, (told, usual_min_isr_words(self.snapshot.min_isr))))


@dataclass(frozen=True, slots=True, kw_only=True)
class ForbiddingPartition:
    """A partition that forbids it; `left` are its replicas in sync without the brokers."""

    topic: str
    partition: int
    obstacle: RestartObstacle
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    left: int
    min_isr: int

    @property
    def name(self) -> str:
        """As `RestartTable.name`."""
        return f"{shown_name(self.topic)}/{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartVerdict:
    """Whether brokers may go down together now.

    `partitions` forbid it, worst first, and so do the sentences `obstacles`; `unknown` says what is not known. Of the
    partitions that allow it since they have no more replicas than their minimum, `stalled` are those that acks=all
    cannot write to meanwhile, `leaderless` those without a leader.
    """

    brokers: tuple[int, ...]
    answer: RestartAnswer
    partitions: tuple[ForbiddingPartition, ...] = ()
    obstacles: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    moves: tuple[Reassignment, ...] = ()
    stalled: int = 0
    leaderless: int = 0
    checked: int = 0
    notes: tuple[str, ...] = ()

    @property
    def reason(self) -> str:
        """The first thing that keeps the answer from being yes, in one line; empty for yes."""
        if self.answer is RestartAnswer.UNKNOWN:
            return self.unknown[0]
        if self.partitions:
            names = shorten([p.name for p in self.partitions])
            return f"{count_of(len(self.partitions), 'partition')} would have too few replicas in sync: {names}"
        return next(iter(self.obstacles), "")


def judge_restart(facts: RestartFacts, ids: Collection[int], *, allow_offline_dirs: bool = False) -> RestartVerdict:
    """The answer for brokers that the cluster knows. O(replicas), in arrays."""
    import numpy as np

    table, mask = facts.table, facts.table.mask(ids)
    held, lost = table.counts(mask)
    left = table.in_sync - lost
    is_known = table.minimum >= 0
    forbids = (held > 0) & is_known & (table.replicas > table.minimum) & _breaks(table, lost)
    allowed = (held > 0) & is_known & (table.replicas <= table.minimum)
    moves = tuple(m for m, brokers in _moving(facts.snapshot) if not brokers.isdisjoint(ids))
    obstacles = [*_move_words(moves), *_quorum_words(facts, ids)]
    if not allow_offline_dirs:
        obstacles += _offline_words(facts.snapshot.brokers, ids)
    unknown = _partition_words(facts, (held > 0) & ~is_known, f"with an ISR or {MIN_ISR} that is not known")
    silent = sorted(facts.silent.difference(ids))
    if silent:
        rests = (held > 0) & is_known & (table.replicas > table.minimum) & ~forbids
        rests &= table.in_sync - table.counts(mask | table.mask(silent))[1] < table.minimum
        unknown += _partition_words(facts, rests, f"may rest on broker {few_of(silent)}, which does not answer")
    is_no = bool(forbids.any()) or bool(obstacles)
    return RestartVerdict(
        brokers=tuple(sorted(set(ids))),
        answer=RestartAnswer.NO if is_no else RestartAnswer.UNKNOWN if unknown else RestartAnswer.YES,
        partitions=_forbidding_partitions(facts, np.flatnonzero(forbids), left),
        obstacles=tuple(obstacles),
        unknown=tuple(unknown),
        moves=moves,
        stalled=int(allowed.sum()),
        leaderless=int((allowed & (left == 0)).sum()),
        checked=int((held > 0).sum()),
        notes=(*_own_notes(facts, ids), *facts.notes),
    )


def _breaks(table: RestartTable, lost: "Ints") -> "Bools":
    """Where replicas in sync are, or would be, fewer than the minimum, by how many of them go down."""
    return (table.in_sync < table.minimum) | ((lost > 0) & (table.in_sync - lost < table.minimum))


def _forbidding_partitions(facts: RestartFacts, rows: "Ints", left: "Ints") -> tuple[ForbiddingPartition, ...]:
    table = facts.table
    if not len(rows):
        return ()
    by_place = {int(t): facts.snapshot.topics[int(t)] for t in set(table.topic[rows].tolist())}
    first = {t: int(table.topic.searchsorted(t)) for t in by_place}
    found = []
    for row in rows.tolist():
        at = int(table.topic[row])
        partition = by_place[at].partitions[row - first[at]]
        minimum, remains = int(table.minimum[row]), int(left[row])
        obstacle = RestartObstacle.TOO_FEW_LEFT if table.in_sync[row] >= minimum else RestartObstacle.TOO_FEW_NOW
        found.append(
            ForbiddingPartition(
                topic=by_place[at].name,
                partition=partition.partition,
                obstacle=RestartObstacle.NONE_LEFT if remains == 0 else obstacle,
                replicas=tuple(b for b in partition.replicas if b not in partition.adding),
                isr=tuple(partition.isr or ()),
                left=remains,
                min_isr=minimum,
            )
        )
    worst = list(RestartObstacle)
    return tuple(sorted(found, key=lambda p: (worst.index(p.obstacle), p.left - p.min_isr, p.topic, p.partition)))


def _moving(snapshot: ClusterSnapshot) -> list[tuple[Reassignment, frozenset[int | None]]]:
    """The running moves with the brokers that each copies to, copies from (the leader) or takes the replica of."""
    wanted = {m.topic for m in snapshot.reassignments if m.adding}
    leaders = {(t.name, p.partition): p.leader for t in snapshot.topics if t.name in wanted for p in t.partitions}
    return [
        (m, frozenset({*m.adding, *m.removing, leaders.get((m.topic, m.partition))})) for m in snapshot.reassignments
    ]


def _move_words(moves: Sequence[Reassignment]) -> Iterator[str]:
    if moves:
        names = shorten([f"{shown_name(m.topic)}/{m.partition}" for m in moves])
        yield f"{count_of(len(moves), 'running move')} to or from what is to go down: {names}"


def _quorum_words(facts: RestartFacts, ids: Collection[int]) -> Iterator[str]:
    voters, up = facts.voters
    going = sorted(voters.intersection(ids))
    if not going:
        return
    if len(voters) <= 2:
        if len(set(ids)) > 1:
            yield f"controller {going[0]} has to go down with no other broker: {len(voters)} vote, and all are needed"
        return
    majority, left = len(voters) // 2 + 1, len(up.difference(ids))
    if left < majority:
        yield f"controllers {few_of(going)}: {left} of {len(voters)} would be left, a majority is {majority}"


def _offline_words(brokers: Sequence[Broker], ids: Collection[int]) -> Iterator[str]:
    for broker in brokers:
        paths = [shown_name(d.path) for d in broker.log_dirs if d.error]
        if broker.id in ids and paths:
            yield f"broker {broker.id} has an offline log dir and may not come back with its copies: {shorten(paths)}"


def _partition_words(facts: RestartFacts, rows: "Bools", words: str) -> list[str]:
    """A sentence about these partitions; none without any."""
    names = [facts.table.name(row) for row in rows.nonzero()[0][:SHOWN_KINDS].tolist()]
    count = int(rows.sum())
    return [f"{count_of(count, 'partition')} {words}: {shorten(names, count)}"] if names else []


def _own_notes(facts: RestartFacts, ids: Collection[int]) -> Iterator[str]:
    for broker in facts.snapshot.brokers:
        if broker.id in ids and broker.is_alive and not broker.log_dirs:
            why = broker.log_dirs_error or facts.snapshot.unanswered_brokers.get(broker.id, "not read")
            yield f"log dirs of broker {broker.id} are not known: {sanitize(why)}"
    down = facts.down
    if down:
        yield f"{'broker' if len(down) == 1 else 'brokers'} down now: {few_of(down)}"
    voters, _ = facts.voters
    going = sorted(voters.intersection(ids))
    if going and len(voters) <= 2:
        yield f"no controller while {few_of(going)} is down: leaders stay where they are, and nothing can be changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRound:
    """Brokers that may go down together; `rack` is that of all of them, None where they are of several."""

    brokers: tuple[int, ...]
    rack: str | None = None
    has_controller: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedBroker:
    """A broker that cannot be restarted now, and why; `is_unknown` where that is not known."""

    broker: int
    reason: str
    is_unknown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPlan:
    """Rounds of brokers that may go down together; no plan for these brokers has fewer than `bound`."""

    at_once: int
    rounds: tuple[RestartRound, ...]
    bound: int
    blocked: tuple[BlockedBroker, ...] = ()
    by_rack: bool = False
    notes: tuple[str, ...] = ()

    @property
    def code(self) -> ExitCode:
        """75 for brokers of which it is not known, else 1 for some that cannot be restarted now."""
        if any(b.is_unknown for b in self.blocked):
            return ExitCode.TRY_LATER
        return ExitCode.FAILED if self.blocked else ExitCode.DONE


def plan_restarts(
    facts: RestartFacts, ids: Collection[int], at_once: int, *, allow_offline_dirs: bool = False
) -> RestartPlan:
    """The fewest rounds that were found, rack by rack where that takes no more, with a bound that is proven.

    500 brokers with 200,000 partitions take a second or two. Equal facts give equal plans.
    """
    blocked = _find_blocked(facts, sorted(set(ids)), allow_offline_dirs=allow_offline_dirs)
    chosen = [b for b in sorted(set(ids)) if b not in blocked]
    problem = _problem(facts, chosen, at_once)
    racks = {b.id: b.group for b in facts.snapshot.brokers}
    names = sorted({racks.get(b) or "" for b in chosen})
    least = problem.least()
    by_rack = [
        r for name in names for r in problem.solve([n for n, b in enumerate(chosen) if (racks.get(b) or "") == name])[0]
    ]
    rounds, bound = by_rack, least
    if len(by_rack) > least:
        anywhere, bound = problem.solve(range(len(chosen)))
        rounds = anywhere if len(anywhere) < len(by_rack) else by_rack
    return RestartPlan(
        at_once=at_once,
        rounds=_in_order(facts, [[chosen[v] for v in each] for each in rounds], racks),
        bound=bound,
        blocked=tuple(blocked[b] for b in sorted(blocked)),
        by_rack=rounds is by_rack and len(names) > 1,
        notes=facts.notes,
    )


def _in_order(
    facts: RestartFacts, rounds: Sequence[Sequence[int]], racks: Mapping[int, str | None]
) -> tuple[RestartRound, ...]:
    """Brokers that are no controllers first, the active controller last."""
    voters, active = facts.quorum.ids if facts.quorum else frozenset(), facts.controller

    def key(brokers: Sequence[int]) -> tuple[bool, bool, str, int]:
        found = {racks.get(b) or "" for b in brokers}
        return active in brokers, not voters.isdisjoint(brokers), min(found) if len(found) == 1 else "", min(brokers)

    made = []
    for brokers in sorted(rounds, key=key):
        found = {racks.get(b) for b in brokers}
        rack = next(iter(found)) if len(found) == 1 else None
        made.append(RestartRound(brokers=tuple(sorted(brokers)), rack=rack, has_controller=active in brokers))
    return tuple(made)


def _find_blocked(facts: RestartFacts, ids: Sequence[int], *, allow_offline_dirs: bool) -> dict[int, BlockedBroker]:
    """The brokers that may not even go down alone, and those that are down already, with the first reason of each."""
    import numpy as np

    table, found = facts.table, dict[int, BlockedBroker]()
    down = set(facts.down)

    def block(broker: int, reason: str, *, is_unknown: bool = False) -> None:
        found.setdefault(broker, BlockedBroker(broker=broker, reason=reason, is_unknown=is_unknown))

    for broker in ids:
        if broker in down:
            block(broker, "it is down: start it first")
        elif broker in facts.silent:
            block(broker, "it does not answer", is_unknown=True)
    needs = (table.minimum >= 0) & (table.replicas > table.minimum)
    now, one_more = needs & (table.in_sync < table.minimum), needs & (table.in_sync == table.minimum)
    for rows, ats, mask, words in (
        (table.replica_row, table.replica_at, now, "has fewer in sync than its minimum"),
        (table.isr_row, table.isr_at, one_more, "would have fewer in sync than its minimum"),
        (table.replica_row, table.replica_at, table.minimum < 0, "has an ISR or a minimum that is not known"),
    ):
        places = np.flatnonzero(mask[rows])
        numbers, first, counts = np.unique(ats[places], return_index=True, return_counts=True)
        for at, place, count in zip(numbers.tolist(), first.tolist(), counts.tolist(), strict=True):
            others = f" (and {count - 1} more)" if count > 1 else ""
            reason = f"{table.name(int(rows[places[place]]))}{others} {words}"
            block(int(table.brokers[at]), reason, is_unknown=words.endswith("known"))
    moving = _moving(facts.snapshot)
    for broker in ids:
        moves = [move for move, brokers in moving if broker in brokers]
        reasons = [*_move_words(moves), *_quorum_words(facts, (broker,))]
        if not allow_offline_dirs:
            reasons += _offline_words(facts.snapshot.brokers, (broker,))
        if reasons:
            block(broker, reasons[0])
    return {broker: each for broker, each in found.items() if broker in set(ids)}


def _problem(facts: RestartFacts, chosen: Sequence[int], at_once: int) -> RoundsProblem:
    """The conditions of the partitions and of the quorum, each kind once."""
    import numpy as np

    table = facts.table
    number_of = np.full(len(table.brokers), -1, np.int64)
    number_of[np.searchsorted(table.brokers, np.array(chosen, np.int64))] = np.arange(len(chosen))
    conflicts = np.zeros((len(chosen), len(chosen)), np.bool_)
    needs = (table.minimum >= 0) & (table.replicas > table.minimum) & (table.in_sync > table.minimum)
    spare = table.in_sync - table.minimum
    at = number_of[table.isr_at]
    is_in = needs[table.isr_row] & (at >= 0)
    rows, at = table.isr_row[is_in], at[is_in]
    at = at[np.lexsort((at, rows))]  # rows are in order already
    sizes = np.bincount(rows, minlength=len(needs))
    starts = np.cumsum(sizes) - sizes
    limits: list[tuple[Ints, int]] = []
    for size, most in sorted({*zip(sizes[needs].tolist(), spare[needs].tolist(), strict=True)}):
        if most >= min(size, at_once):
            continue
        members = at[starts[(sizes == size) & (spare == most) & needs][:, None] + np.arange(size)]
        if most == 1:
            for a in range(size):
                for b in range(a):
                    conflicts[members[:, a], members[:, b]] = conflicts[members[:, b], members[:, a]] = True
        else:
            limits.append((np.unique(members, axis=0), most))
    voters, up = facts.voters
    places = [n for n, b in enumerate(chosen) if b in up]
    most = len(up) - (len(voters) // 2 + 1)
    if len(voters) <= 2:
        conflicts[places, :] = conflicts[:, places] = True
    elif most == 1:
        conflicts[np.ix_(places, places)] = True
    elif most < min(len(places), at_once):
        limits.append((np.array([places]), most))
    np.fill_diagonal(conflicts, val=False)
    return RoundsProblem(conflicts, limits, at_once)


def explain_absent(brokers: Sequence[int]) -> str:
    """Which brokers are not up, in one line; empty for none."""
    if not brokers:
        return ""
    several = len(brokers) > 1
    return f"broker{'s' if several else ''} {few_of(brokers)} {'are' if several else 'is'} not up"


def explain_trouble(facts: RestartFacts, ids: Collection[int]) -> str:
    """Why these brokers, which start, had better wait: what others lack, in one line; empty for nothing.

    Nothing is asked of the brokers themselves, and of partitions that wait for them.
    """
    missing = [b for b in facts.awaited(()) if b not in ids]
    if missing:
        return explain_absent(missing)
    known = [b for b in set(ids) if b in facts.table.brokers]
    table = facts.table
    own = table.counts(table.mask(known))[0] > 0
    late = ~own & (table.minimum >= 0) & (table.replicas > table.minimum) & (table.in_sync < table.minimum)
    return next(iter(_partition_words(facts, late, f"elsewhere with fewer in sync than {MIN_ISR}")), "")


class ScriptKind(StrEnum):
    """How Kubernetes replaces pods of a StatefulSet: those that are deleted, or all from an ordinal on."""

    ON_DELETE = "on-delete"
    PARTITION = "partition"

    @property
    def strategy(self) -> str:
        """The StatefulSet's `updateStrategy.type`."""
        return "OnDelete" if self is ScriptKind.ON_DELETE else "RollingUpdate"


_POD_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptRequest:
    """The StatefulSet that a script restarts; `kind` None: no script is asked for."""

    kind: ScriptKind | None = option(
        None, "--script", help="Print a shell script that restarts the pods of a StatefulSet of this update strategy."
    )
    statefulset: str = option("", "--statefulset", metavar="NAME", help="StatefulSet of the brokers, with --script.")
    namespace: str = option(
        "", "--namespace", metavar="NAME", help="Its namespace; if not given, the one kubectl uses."
    )
    first_id: int | None = option(
        None,
        "--first-id",
        min=0,
        metavar="ID",
        help="Broker in pod NAME-0; read from the brokers' host names (NAME-0.kafka.svc) if not given.",
    )
    wait_s: float = duration_option("30m", "--wait", help="How long each step of the script may wait.")

    def require_complete(self, *, from_file: bool) -> None:
        """Raise `UsageError` for options that do not fit together."""
        if self.kind is None:
            given = [f"--{k}" for k in ("statefulset", "namespace") if getattr(self, k)]
            if given or self.first_id is not None:
                raise UsageError(f"{next(iter(given), '--first-id')} goes with --script on-delete or partition")
            return
        if from_file:
            raise UsageError("--script needs the cluster, not a snapshot: its commands run against that")
        if not self.statefulset:
            raise UsageError("--script needs --statefulset NAME")
        for flag, name in (("--statefulset", self.statefulset), ("--namespace", self.namespace)):
            if name and not _POD_NAME.fullmatch(name):
                raise UsageError(f"{flag}: {name!r} is not a name in Kubernetes")

    def pods_of(self, facts: RestartFacts, ids: Collection[int]) -> dict[int, str]:
        """The pod of each broker; `UsageError` where ids and host names tell of another one, or of none."""
        hosts = {b.id: b.host.partition(".")[0] for b in facts.snapshot.brokers}
        of_host = {
            b: int(number)
            for b, host in hosts.items()
            if (number := host.removeprefix(f"{self.statefulset}-")) != host and number.isdecimal()
        }
        first = self.first_id
        if first is None:
            offsets = {b - n for b, n in of_host.items()}
            if len(offsets) != 1:
                hint = "host names do not tell which pod a broker runs in"
                raise UsageError(f"give --first-id ID, the broker in pod {self.statefulset}-0", hint=hint)
            first = offsets.pop()
        below = sorted(b for b in ids if b < first)
        if below:
            raise UsageError(f"no pod has broker {few_of(below)}: pod {self.statefulset}-0 has broker {first}")
        for broker, at in sorted(of_host.items()):
            if at != broker - first:
                raise UsageError(
                    f"broker {broker} runs in pod {self.statefulset}-{at}, not {self.statefulset}-{broker - first}",
                    hint=f"its host is {sanitize(hosts[broker])}; check --first-id",
                )
        return {b: f"{self.statefulset}-{b - first}" for b in sorted(ids)}


def script_rounds(
    facts: RestartFacts, plan: RestartPlan, request: ScriptRequest
) -> tuple[tuple[tuple[int, str], ...], ...]:
    """The brokers of each round of a script with their pods; for a partition one by one, from the last pod down.

    Raises `UsageError` if a partition would restart a broker that is not in the plan, since it restarts every pod from
    an ordinal on, and `OperationFailedError` or `TryLaterError` if a broker cannot be restarted now.
    """
    if plan.blocked:
        first = plan.blocked[0]
        error = TryLaterError if plan.code is ExitCode.TRY_LATER else OperationFailedError
        raise error(f"no script: broker {first.broker} cannot be restarted now: {first.reason}")
    planned = [b for r in plan.rounds for b in r.brokers]
    pods = request.pods_of(facts, planned)
    if request.kind is not ScriptKind.PARTITION:
        return tuple(tuple((b, pods[b]) for b in r.brokers) for r in plan.rounds)
    others = sorted(set(facts.table.brokers.tolist()) - set(planned))
    if others:
        raise UsageError(
            f"a partition restarts all pods from an ordinal on, and the plan is without broker {few_of(others)}",
            hint="give --all, or use the strategy OnDelete and --script on-delete",
        )
    return tuple(((b, pods[b]),) for b in sorted(planned, reverse=True))
