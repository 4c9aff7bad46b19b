"""From decided replica lists to a `Plan`, its files, and what a report adds to it. Every planning command ends here.

The files are maps under kafka-kit's names, one a topic and, on request, one for all, and the plan itself.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kafkakit.core.documents import encode_partition_map
from kafkakit.core.errors import ExitCode, InfeasibleError, InputError, UsageError
from kafkakit.core.model import ClusterSnapshot, PartitionAssignment, PartitionMap, TopicPartition
from kafkakit.core.placement_statistics import BrokerStorage, placement_stats
from kafkakit.core.plan import (
    Certificate,
    DirMove,
    Move,
    PlacementRules,
    Plan,
    PlanBroker,
    PlanDir,
    ScopeEntry,
    StorageFacts,
    certificate,
    fingerprint_of,
)
from kafkakit.core.quantities import count_of
from kafkakit.core.text import few_of, shell_command
from kafkakit.placement.group_rule import TagRules, binding_notes
from kafkakit.placement.leaders import NO_LEADER, LeaderLimits, leaders_within
from kafkakit.placement.log_dirs_balance import HomelessCopy
from kafkakit.placement.openings import BrokerPool, pool_of
from kafkakit.placement.problem import PlannedPartition
from kafkakit.topicmappr.decide.budget import NOTHING_LEFT, LeftForLater
from kafkakit.topicmappr.decide.rebalance_soft_goals import topic_numbers
from kafkakit.topicmappr.decide.request_fields import MAX_LEADERS, MAX_REPLICAS, NO_CEILINGS, Ceilings
from kafkakit.topicmappr.decide.scope import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChange:
    """A decided request. `title` is its summary; `reasons` are why some partitions cannot be served.

    `left_alone` counts those partitions. The plan serves all others, and is written with them left out
    only when the operator asks for that. `later` is what a budget left for another run.
    """

    title: str
    topics: tuple[str, ...]
    topics_excluded: tuple[str, ...]
    plan: Plan
    reasons: tuple[str, ...] = ()
    left_alone: int = 0
    later: LeftForLater = NOTHING_LEFT


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDecision:
    """What a planner decided: replica lists in the order of the scope's partitions, and what goes with them.

    `targets` are the brokers the plan relies on, `storage` what each broker's disks hold and can hold,
    `dirs` the log dirs chosen for new copies, by partition index and broker, `dir_table` all dirs before and after,
    `homeless` the new copies that no dir of their broker has space for.
    """

    replicas: Sequence[tuple[int, ...]]
    certificate: Certificate
    targets: Sequence[int]
    rules: PlacementRules | None = None
    tags: TagRules | None = None
    storage: Mapping[int, BrokerStorage] = field(default_factory=dict)
    storage_facts: StorageFacts | None = None
    dirs: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    dir_moves: tuple[DirMove, ...] = ()
    dir_table: tuple[PlanDir, ...] = ()
    homeless: tuple[HomelessCopy, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingTask:
    """Planned `lists` of a scope to be held under ceilings, on brokers (`targets`) that may hold and lead.

    `staying` partitions keep their leader, `barred` brokers lead no partition of a topic. `is_exact` says that no other
    lists have a lower greatest count.
    """

    scope: Scope
    lists: Sequence[tuple[int, ...]]
    targets: Collection[int]
    staying: Collection[TopicPartition] = ()
    barred: Mapping[str, Collection[int]] = field(default_factory=dict)
    is_exact: bool = False


def within_ceilings(snapshot: ClusterSnapshot, task: CeilingTask, ceilings: Ceilings) -> list[tuple[int, ...]]:
    """The lists, with as few leaders changed as the ceilings ask for.

    Raises `InfeasibleError` with the numbers where a broker would end with more. O(replicas), and a flow over leaders.
    """
    if ceilings == NO_CEILINGS:
        return list(task.lists)
    pool, partitions = pool_of(snapshot), task.scope.partitions
    if (most := ceilings.max_replicas) is not None:
        held = Counter(pool.replicas)
        held.subtract(b for p in partitions for b in p.current)
        held.update(b for row in task.lists for b in row)
        _refuse_above(most, {b: held[b] for b in sorted(task.targets)}, task)
    return _led_within(pool, task, ceilings) if ceilings.on_leaders else list(task.lists)


def _refuse_above(most: int, held: Mapping[int, int], task: CeilingTask) -> None:
    over = [b for b, n in held.items() if n > most]
    if not over:
        return
    fullest, least = max(held.values()), -(-sum(held.values()) // len(held))
    words = f"{MAX_REPLICAS} {most} cannot be kept: "
    if least > most and not task.is_exact:
        words += f"{count_of(len(held), 'broker')} end with {sum(held.values())} replicas, {least} on one at least"
        raise InfeasibleError(words, hint=f"no less than {MAX_REPLICAS} {least} may be; add brokers")
    if task.is_exact:
        words += f"brokers {few_of(over)} end with more, and no plan with as few copies has less than {fullest} on one"
        raise InfeasibleError(words, hint=f"the least that may be: {MAX_REPLICAS} {fullest}")
    raise InfeasibleError(
        f"no plan within {MAX_REPLICAS} {most} was found; it is not proven impossible: "
        f"brokers {few_of(over)} would end with more, {fullest} at most",
        hint=f"allow more ({MAX_REPLICAS} {fullest} can be kept), or let more brokers receive",
    )


def _led_within(pool: BrokerPool, task: CeilingTask, ceilings: Ceilings) -> list[tuple[int, ...]]:
    partitions, lists = task.scope.partitions, task.lists
    may = [_candidates(p, row, task) for p, row in zip(partitions, lists, strict=True)]
    brokers = sorted({b for row in lists for b in row} | set(task.targets))
    beside = Counter(pool.leaders)
    beside.subtract(p.current[0] for p in partitions if p.current)
    kept = [None if able else row for able, row in zip(may, lists, strict=True)]
    limits = leader_limits(ceilings, partitions, kept, brokers, task.targets, beside)
    refuse_crowded_leaders(limits, ceilings.max_leaders, brokers, task.targets)
    rows = [able or row for able, row in zip(may, lists, strict=True)]
    found = leaders_within(rows, lists, brokers, limits).tolist()
    lacking = sum(1 for i, able in zip(found, may, strict=True) if able and i == NO_LEADER)
    most = ceilings.max_topic_leaders
    if lacking or any(brokers[i] in task.targets and n > (most or n) for (_, i), n in limits.led.items()):
        who = f"{count_of(lacking, 'partition')} would have no leader" if lacking else "leaders that stay are more"
        raise InfeasibleError(
            f"no plan within {ceilings.leader_words} was found; it is not proven impossible: {who}",
            hint="allow more leaders, or let more brokers receive",
        )
    return [
        row if not able or row[0] == brokers[i] else (brokers[i], *(b for b in row if b != brokers[i]))
        for row, able, i in zip(lists, may, found, strict=True)
    ]


def leader_limits(
    ceilings: Ceilings,
    partitions: Sequence[PlannedPartition],
    kept: Sequence[tuple[int, ...] | None],
    brokers: Sequence[int],
    targets: Collection[int],
    beside: Mapping[int, int],
) -> LeaderLimits:
    """The ceilings on leaders for these brokers, of which `targets` may lead; `beside` counts leaders of other topics.

    `kept` has the list of each partition that keeps its leader, and None for those that choose one.
    """
    import numpy as np

    topic, place, standing = topic_numbers(partitions), {b: i for i, b in enumerate(brokers)}, Counter(beside)
    led = Counter((number, place[row[0]]) for number, row in zip(topic.tolist(), kept, strict=True) if row)
    standing.update(row[0] for row in kept if row)
    most = len(kept) if ceilings.max_leaders is None else ceilings.max_leaders
    taken = Counter[int]() if ceilings.max_leaders is None else standing
    return LeaderLimits(
        most=np.array([most - taken[b] if b in targets else 0 for b in brokers], dtype=np.int64),
        topic=topic,
        fixed=np.array([row is not None for row in kept], dtype=bool),
        of_topic=ceilings.max_topic_leaders,
        led=led,
    )


def refuse_crowded_leaders(
    limits: LeaderLimits, most: int | None, brokers: Sequence[int], targets: Collection[int]
) -> None:
    """Raise `InfeasibleError` where brokers are too few for all leaders, or where those that stay have too many."""
    if most is None:
        return
    room = {b: n for b, n in zip(brokers, limits.most.tolist(), strict=True) if b in targets}
    if over := [b for b, n in room.items() if n < 0]:
        raise InfeasibleError(
            f"{MAX_LEADERS} {most} cannot be kept: brokers {few_of(over)} lead more partitions that keep their leader",
            hint="name more topics in --topics, or allow more",
        )
    choosing, open_to = int((~limits.fixed).sum()), sum(room.values())
    if open_to < choosing:
        least = most - (open_to - choosing) // max(1, len(targets))
        raise InfeasibleError(
            f"{MAX_LEADERS} {most} cannot be kept: {count_of(choosing, 'partition')} need a leader, and "
            f"{count_of(len(targets), 'broker')} may lead {open_to}",
            hint=f"no less than {MAX_LEADERS} {least} may be",
        )


def _candidates(p: PlannedPartition, row: tuple[int, ...], task: CeilingTask) -> tuple[int, ...]:
    """The brokers of a list that may lead it: targets that are not barred, in sync or with a new copy."""
    if p.key in task.staying:
        return ()
    able = tuple(b for b in row if b in task.targets and b not in task.barred.get(p.key.topic, ()))
    ready = tuple(b for b in able if p.in_sync is None or b in p.in_sync or b not in p.current)
    return ready or able


def assemble(snapshot: ClusterSnapshot, words: Mapping[str, str], scope: Scope, decision: PlanDecision) -> Plan:
    """Make the plan of a decision; `words` are the operator's flags for the record. O(partitions).

    Raises `InfeasibleError` for lists that break a constraint by tags.
    """
    racks = {b.id: b.group for b in snapshot.brokers}
    moves = tuple(
        _move(p, new, scope.topic_ids.get(p.key.topic), decision.dirs.get(i, {}))
        for i, (p, new) in enumerate(zip(scope.partitions, decision.replicas, strict=True))
        if new != p.current
    )
    brokers = tuple(PlanBroker(id=b, rack=racks.get(b)) for b in decision.targets)
    entries = tuple(
        ScopeEntry(
            topic=p.key.topic,
            partition=p.key.partition,
            replicas=p.current,
            topic_id=scope.topic_ids.get(p.key.topic),
        )
        for p in scope.partitions
    )
    sizes = [p.size_bytes for p in scope.partitions]
    before = [p.current for p in scope.partitions]
    return Plan(
        cluster_id=snapshot.cluster_id,
        # The snapshot's time, not the clock's: the same snapshot and request give the same bytes.
        created_at=snapshot.taken_at,
        snapshot_taken_at=snapshot.taken_at,
        snapshot_source=snapshot.source,
        fingerprint=fingerprint_of(snapshot.cluster_id, brokers, entries),
        request=words,
        certificate=_of_the_moves(decision.certificate, moves),
        before=placement_stats(before, sizes, decision.targets, racks, decision.storage),
        after=placement_stats(decision.replicas, sizes, decision.targets, racks, _storage_after(decision, scope)),
        brokers=brokers,
        scope=entries,
        moves=moves,
        reassignment=_map(moves, after=True),
        rollback=_map(moves, after=False),
        notes=(*decision.notes, *_kept_constraints(decision, scope)),
        warnings=decision.warnings,
        rules=decision.rules,
        storage=decision.storage_facts,
        dir_moves=decision.dir_moves,
        dirs=decision.dir_table,
        constraints=() if decision.tags is None else decision.tags.constraints,
    )


def _kept_constraints(decision: PlanDecision, scope: Scope) -> tuple[str, ...]:
    """How each constraint by tags bound the new copies; `InfeasibleError` where one is broken."""
    tags = decision.tags
    if tags is None:
        return ()
    changed = [(p, new) for p, new in zip(scope.partitions, decision.replicas, strict=True) if new != p.current]
    broken = Counter(t for p, new in changed for t in tags.faults(p.key.topic, p.current, new, p.wanted))
    rows = [(p.key.topic, p.current, new) for p, new in changed]
    if broken:
        raise InfeasibleError(
            "no plan was found that keeps the constraints; it is not proven impossible",
            reasons=tuple(f"{text}: {count_of(n, 'partition')} would break it" for text, n in sorted(broken.items())),
            hint="leave more brokers open to these topics, or ask for less",
        )
    return binding_notes(tags, rows, decision.targets if decision.rules is None else decision.rules.receivers)


def _storage_after(decision: PlanDecision, scope: Scope) -> Mapping[int, BrokerStorage]:
    """What the disks hold after the moves: used and free bytes shift by the sizes that come and go."""
    if not decision.storage:
        return {}
    delta: dict[int, int] = dict.fromkeys(decision.storage, 0)
    for p, new in zip(scope.partitions, decision.replicas, strict=True):
        if new != p.current and p.size_bytes is not None:
            for b in p.current:
                delta[b] = delta.get(b, 0) - p.size_bytes
            for b in new:
                delta[b] = delta.get(b, 0) + p.size_bytes
    return {b: s.after(delta.get(b, 0)) for b, s in decision.storage.items()}


def _move(p: PlannedPartition, after: tuple[int, ...], topic_id: str | None, dirs: Mapping[int, str]) -> Move:
    copies = len(set(after).difference(p.current))
    return Move(
        topic=p.key.topic,
        partition=p.key.partition,
        before=p.current,
        after=after,
        size_bytes=p.size_bytes,
        bytes_moved=None if p.size_bytes is None and copies else copies * (p.size_bytes or 0),
        topic_id=topic_id,
        dirs=dirs,
    )


def _of_the_moves(found: Certificate, moves: Sequence[Move]) -> Certificate:
    """The certificate with the cost of these moves and no bound above it; moves between log dirs are not looked at."""
    if found.unit == "leaders":
        made = sum(m.before[:1] != m.after[:1] for m in moves)
    elif found.unit == "bytes":
        made = sum(m.bytes_moved or 0 for m in moves)
    else:
        made = sum(len(m.adding) for m in moves)
    if made == found.objective or not moves:
        return found
    return certificate(found.unit, made, found.lower_bound, found.argument, found.proof)


def _map(moves: Sequence[Move], *, after: bool) -> PartitionMap:
    return PartitionMap(
        partitions=tuple(
            PartitionAssignment(topic=m.topic, partition=m.partition, replicas=m.after if after else m.before)
            for m in moves
        )
    )


_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedMap:
    """A map file that was written; `phase` is its map's place in a series."""

    path: str
    combined: bool
    phase: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPlan:
    """What was written of a plan, the command that carries it out, and the code that the planning command ends with.

    `maps` is None for commands that write no map files, `path` and `next_command` where the plan was not saved.
    """

    maps: tuple[SavedMap, ...] | None = None
    path: str | None = None
    next_command: str | None = None
    code: ExitCode = ExitCode.DONE


def apply_command(program: str, plan: Plan, path: str | None) -> str | None:
    """The command that carries out a plan saved at `path`; None when there is nothing to carry out."""
    if not path or not (plan.moves or plan.dir_moves):
        return None
    return str(shell_command("reassign apply", path, program=program))


def map_files(partition_map: PartitionMap, out_file: str, suffix: str = "") -> list[tuple[str, bytes, bool]]:
    """(file name, bytes, combined?) of the files of one map: the combined one first, then topics by name.

    Names end in `suffix` (of a series: `-phase<n>`) and `.json`. Raises `InputError` for a topic that is no legal
    Kafka name, since it becomes a file name, and `UsageError` when `out_file` clashes with a topic's file or is no
    plain name.
    """
    topics: dict[str, list[PartitionAssignment]] = {}
    for entry in partition_map.partitions:
        topics.setdefault(entry.topic, []).append(entry)
    for topic in topics:
        if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
            raise InputError(repr(topic)[:80], "is not a legal topic name, so no map file can be named after it")
    files: list[tuple[str, bytes, bool]] = []
    if out_file:
        if "/" in out_file or "\0" in out_file or out_file in (".", ".."):
            raise UsageError(
                f"--out-file: {out_file!r:.80} is not a plain file name", hint="use --out-path for folders"
            )
        if out_file in topics:
            raise UsageError(f"--out-file {out_file} would overwrite the map of the topic of that name")
        files.append((f"{out_file}{suffix}.json", encode_partition_map(partition_map), True))
    files.extend(
        (f"{topic}{suffix}.json", encode_partition_map(PartitionMap(partitions=tuple(entries))), False)
        for topic, entries in sorted(topics.items())
    )
    return files
