"""`topicmappr audit` as a pure function: a map and a cluster in, measures, bounds and findings out.

A foreign map is measured by what an equal balance costs at least, and by what a plan of ours costs. As a plan, a judged
map has the map's lists, and the way back is what the cluster has now.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kafkakit.core.errors import InputError, RefusedError, TryLaterError, UsageError
from kafkakit.core.findings import Finding, Rule, Severity, in_order, usual_min_isr_words
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.placement_statistics import placement_stats
from kafkakit.core.plan import DirMove, PlacementStats, Plan, Proof, ProofKind, StorageFacts, certificate
from kafkakit.core.quantities import count_of, format_bytes, format_percent, percent_word
from kafkakit.core.selection import TopicSelection
from kafkakit.core.text import few_of, shell_command
from kafkakit.placement.by_size.layout import Disks, LoadsNow, bytes_now, counts_now, held_by
from kafkakit.placement.by_size.lp_relaxation import PPM, BalanceGoal, BalanceProblem, LoadWindow, RangeGoal
from kafkakit.placement.by_size.proof import argument_of, explain_infeasible
from kafkakit.placement.by_size.slots import SlotTable, make_table
from kafkakit.placement.by_size.tightening import SearchBudget, at_deviation, tightest
from kafkakit.placement.group_rule import SpreadRule, racks_to_spread
from kafkakit.placement.problem import PlannedPartition
from kafkakit.placement.watch import UNWATCHED, SearchWatch, with_budget
from kafkakit.topicmappr.decide.assembly import PlanDecision, assemble
from kafkakit.topicmappr.decide.audit_map import (
    AuditCase,
    AuditedPartition,
    AuditHints,
    Issue,
    MapReading,
    case_of,
    disk_issues,
    findings_of,
    list_issues,
    map_issues,
)
from kafkakit.topicmappr.decide.requests import MapAuditRequest
from kafkakit.topicmappr.decide.scope import Scope, refuse_endless
from kafkakit.topicmappr.decide.storage import Sizes, storage_facts, storage_of


@dataclass(frozen=True, slots=True, kw_only=True)
class MapTally:
    """What the map does, counted: `bytes_moved` is None when a size is unknown."""

    entries: int
    changed: int
    reordered: int
    unchanged: int
    copies: int
    removed: int
    bytes_moved: int | None
    leaders_moved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Yardstick:
    """What the balance of a map costs by other means, in one unit (bytes or copies).

    `spent` is what the map costs, `bound` what every valid plan to that balance costs at least, `best` the
    cheapest plan known (None: none found). `reached` is how tight the map's loads are (bytes, replicas, or
    millionths), `goal` the deviation that plans are held to. `argument` says why the bound holds, or why no valid
    plan gets there (`possible` is False then). `finest` is the tightest that a plan of ours reaches with `spent`.
    """

    spent: int
    bound: int
    best: int | None
    before: int
    reached: int
    goal: int
    argument: str
    possible: bool = True
    finest: int | None = None

    @property
    def gap(self) -> float | None:
        """The part of what was spent that lies above the bound; None where the map goes below what is valid."""
        if not self.possible or self.spent < self.bound:
            return None
        return (self.spent - self.bound) / self.spent if self.spent else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """A judged map: what it does, how even it leaves the brokers, what that must cost, and what is wrong with it.

    `by_bytes` and the ranges of bytes are None without sizes (`notes` say why). `band` is of used bytes, (before,
    after) in millionths of each broker's share; `used_range` is in bytes. `before` and `after` are of the scope.
    """

    cluster_id: str
    brokers: tuple[int, ...]
    topics: int
    partitions: int
    storage: StorageFacts
    tally: MapTally
    before: PlacementStats
    after: PlacementStats
    used_range: tuple[int, int] | None
    free_range: tuple[int, int] | None
    band: tuple[int, int] | None
    banded: bool
    by_bytes: Yardstick | None
    by_count: Yardstick | None
    findings: tuple[Finding, ...]
    rules: tuple[Rule, ...]
    notes: tuple[str, ...]


def audit_map(
    snapshot: ClusterSnapshot,
    reading: MapReading,
    request: MapAuditRequest,
    facts: StorageFacts | None = None,
    watch: SearchWatch = UNWATCHED,
) -> Audit:
    """Judge a map without running it.

    Raises `UsageError` for topic patterns that match nothing, and for an even spread where no broker has a rack.
    Whatever is wrong with the map is a finding, and unknown sizes are a note. Cost: about two plans, and seven more
    for what the same bytes could reach.
    """
    case = case_of(snapshot, reading, request)
    tags = request.constraints.on(snapshot, {row.topic.name for row in case.rows})
    rule = SpreadRule(request.min_rack_ids, racks_to_spread(case.even, case.racks) if request.spread else (), tags)
    sizes, notes = _sizes(snapshot, case, facts)
    issues = [*map_issues(reading, case), *list_issues(case, rule)]
    valid = not any(case.rules[i.rule].severity is Severity.ERROR for i in issues)
    known = {i: size for i, row in enumerate(case.rows) if (size := row.partition.known_bytes) is not None}
    inputs = _inputs(case, rule, [1] * len(case.rows))
    by_count = _by_count(inputs, valid) if case.even and request.compared else None
    by_bytes: Yardstick | None = None
    used = free = band = None
    if sizes is not None and case.even:
        issues += disk_issues(case, known, sizes.brokers, sizes.log_dirs, request.max_disk_use)
        valid = valid and not any(i.rule in ("disk-full", "disk-over-limit") for i in issues)
        weighed = replace(inputs, weights=[known.get(i, 0) for i in range(len(case.rows))])
        used, free, band = _ranges(weighed, sizes, request)
        if request.compared:
            by_bytes = _by_bytes(weighed, sizes, request, valid, watch)
            issues += _missed_goal(by_bytes, request)
    racks = case.racks
    lists = ([row.before for row in case.rows], [row.after for row in case.rows])
    weights = [row.partition.known_bytes for row in case.rows]
    return Audit(
        cluster_id=snapshot.cluster_id,
        brokers=case.even,
        topics=len({row.topic.name for row in case.rows}),
        partitions=len(case.rows),
        storage=facts or storage_facts(snapshot),
        tally=_tally(case, reading),
        before=placement_stats(lists[0], weights, case.even, racks),
        after=placement_stats(lists[1], weights, case.even, racks),
        used_range=used,
        free_range=free,
        band=band,
        banded=request.band is not None,
        by_bytes=by_bytes,
        by_count=by_count,
        findings=in_order(findings_of(issues, AuditHints(request, case, _goal(request, by_bytes), sizes is not None))),
        rules=tuple(case.rules.values()),
        notes=(*notes, *filter(None, [usual_min_isr_words(snapshot.min_isr)])),
    )


def _goal(request: MapAuditRequest, by_bytes: Yardstick | None) -> tuple[tuple[str, str | None], ...]:
    """The balance that was wanted, else the one that the map reaches, as options of a rebalance."""
    if request.band is not None:
        return (("--band", percent_word(request.band)),)
    if request.free_range_bytes is not None:
        return (("--free-range", f"{request.free_range_bytes}B"),)
    if by_bytes is None:
        return ()
    return (("--free-range", f"{by_bytes.reached}B"),)


def _sizes(snapshot: ClusterSnapshot, case: AuditCase, facts: StorageFacts | None) -> tuple[Sizes | None, list[str]]:
    if not case.rows:
        return None, ["no partition of the map exists, so there is nothing to weigh"]
    if not case.even:
        return None, ["no broker of these topics is alive, so no balance is judged"]
    moved = [row.key for row in case.rows]
    judged = {*case.even, *(b for row in case.rows for b in row.after if b in case.live)}
    try:
        sizes = storage_of(snapshot, facts, brokers=judged, partitions=moved)
    except (UsageError, TryLaterError, InputError) as error:
        return None, [f"judged only by counts: {error}"]
    return sizes, [*sizes.notes, *sizes.warnings]


Lists = Sequence[tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditInputs:
    """The lists before and after, by partition, with the load of one copy, and who may do what.

    `settled` are indices whose list another plan must take over from the map as it is (their replication changes):
    their copies count on both sides. `immovable` ones cannot move at all.
    """

    before: Lists
    after: Lists
    weights: Sequence[int]
    racks: Mapping[int, str | None]
    rule: SpreadRule
    receivers: frozenset[int]
    even: tuple[int, ...]
    settled: frozenset[int]
    immovable: frozenset[int]
    topics: tuple[str, ...] = ()

    @property
    def brokers(self) -> list[int]:
        """Every broker that anything is said of."""
        held = {b for lists in (self.before, self.after) for row in lists for b in row}
        return sorted(held | self.receivers | set(self.even))

    def table(self, lists: Lists, now: LoadsNow) -> SlotTable:
        """The arrays of these lists."""
        return make_table(
            lists,
            self.weights,
            self.racks,
            self.rule,
            receivers=self.receivers,
            pinned=sorted(self.settled | self.immovable),
            fixed=now.fixed,
            topics=self.topics,
        )

    def spent(self) -> tuple[int, int]:
        """What the map copies in all, and of that what settled partitions copy."""
        every = settled = 0
        for i, (old, new) in enumerate(zip(self.before, self.after, strict=True)):
            if old != new:
                cost = sum(1 for b in new if b not in old) * self.weights[i]
                every += cost
                settled += cost if i in self.settled else 0
        return every, settled


def _inputs(case: AuditCase, rule: SpreadRule, weights: list[int]) -> AuditInputs:
    settled = frozenset(i for i, row in enumerate(case.rows) if len(row.after) != len(row.before))
    immovable = frozenset(
        i
        for i, row in enumerate(case.rows)
        if not any(b in case.live for b in (row.partition.replicas if row.partition.isr is None else row.partition.isr))
    )
    return AuditInputs(
        before=[row.before for row in case.rows],
        after=[row.after for row in case.rows],
        weights=weights,
        racks=case.racks,
        rule=rule,
        receivers=frozenset(case.even),
        even=case.even,
        settled=settled,
        immovable=immovable,
        topics=tuple(row.topic.name for row in case.rows),
    )


def _by_count(inputs: AuditInputs, valid: bool) -> Yardstick:
    held = held_by(inputs.before, inputs.weights)
    now = counts_now(held, inputs.brokers, sum(len(row) for row in (*inputs.before, *inputs.after)))
    return compare(inputs, now, goal=None, banded=False, valid=valid, by_bytes=False)


def _disks(sizes: Sizes, request: MapAuditRequest) -> Disks:
    return Disks(storage=sizes.brokers, log_dirs=sizes.log_dirs, max_use=request.max_disk_use, shut=sizes.cordoned)


def _ranges(
    inputs: AuditInputs, sizes: Sizes, request: MapAuditRequest
) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    """Range of used bytes, range of free bytes, band of used bytes; each before and after."""
    held = held_by(inputs.before, inputs.weights)
    by_used, by_free = (
        bytes_now(held, _disks(sizes, request), inputs.brokers, by_free=by_free) for by_free in (False, True)
    )
    return (
        measure(inputs, by_used, banded=False),
        measure(inputs, by_free, banded=False),
        measure(inputs, by_used, banded=True),
    )


def _by_bytes(
    inputs: AuditInputs, sizes: Sizes, request: MapAuditRequest, valid: bool, watch: SearchWatch
) -> Yardstick:
    held = held_by(inputs.before, inputs.weights)
    banded = request.band is not None
    now = bytes_now(held, _disks(sizes, request), inputs.brokers, by_free=not banded)
    goal = int(request.band * PPM) if request.band is not None else request.free_range_bytes
    return compare(inputs, now, goal=goal, banded=banded, valid=valid, by_bytes=True, watch=watch)


def _missed_goal(found: Yardstick, request: MapAuditRequest) -> list[Issue]:
    if request.band is not None and found.reached > request.band * PPM:
        words = (
            f"a band of {format_percent(request.band)} was requested, but {found.reached / PPM * 100:.4g}% is reached"
        )
    elif request.free_range_bytes is not None and found.reached > request.free_range_bytes:
        wanted = format_bytes(request.free_range_bytes)
        words = f"a range of {wanted} was requested, but {format_bytes(found.reached)} is reached"
    else:
        return []
    return [Issue("goal-missed", "map", words)]


def _tally(case: AuditCase, reading: MapReading) -> MapTally:
    changed = [row for row in case.rows if set(row.after) != set(row.before)]
    reordered = sum(1 for row in case.rows if row.after != row.before) - len(changed)
    sizes = [(row.partition.known_bytes, len(row.adding)) for row in changed]
    known = all(size is not None for size, copies in sizes if copies)
    return MapTally(
        entries=len(reading.entries) + len(reading.unread) + len(reading.twice),
        changed=len(changed),
        reordered=reordered,
        unchanged=sum(1 for row in case.rows if row.entry is not None and row.after == row.before),
        copies=sum(copies for _, copies in sizes),
        removed=sum(1 for row in changed for b in row.before if b not in row.after),
        bytes_moved=sum((size or 0) * copies for size, copies in sizes) if known else None,
        leaders_moved=sum(1 for row in case.rows if row.before[:1] != row.after[:1]),
    )


def measure(inputs: AuditInputs, now: LoadsNow, *, banded: bool) -> tuple[int, int]:
    """How tight the loads are before and after; with `banded` in millionths of each broker's share."""
    old, new = (inputs.table(lists, now) for lists in (inputs.before, inputs.after))
    balance = _balance(inputs, now, new, {}, banded=banded)
    return balance.measure(old.loads(old.home)), balance.measure(new.loads(new.home))


def compare(
    inputs: AuditInputs,
    now: LoadsNow,
    *,
    goal: int | None,
    banded: bool,
    valid: bool,
    by_bytes: bool,
    watch: SearchWatch = UNWATCHED,
) -> Yardstick:
    """Hold the map against the bound and a plan of ours for the same balance.

    `goal` is the deviation that was wanted (None, or where the map misses it: the one it reaches). A `valid` map is
    a plan too, so the best is never above it. `by_bytes` the tightest that its cost buys is sought too. Cost: one
    plan, and by bytes up to seven more.
    """
    watch = with_budget(watch)
    old, new = (inputs.table(lists, now) for lists in (inputs.before, inputs.after))
    loads_after = dict(zip(new.brokers, new.loads(new.home).tolist(), strict=True))
    even = set(inputs.even)
    caps = {b: load for b, load in loads_after.items() if b not in even and load < now.load.get(b, 0)}
    lists = [a if i in inputs.settled else b for i, (b, a) in enumerate(zip(inputs.before, inputs.after, strict=True))]
    table = inputs.table(lists, now)
    balance = _balance(inputs, now, new, caps, banded=banded)
    problem = BalanceProblem.of(table, balance)
    before, reached = balance.measure(old.loads(old.home)), balance.measure(new.loads(new.home))
    spent, settled = inputs.spent()
    wanted = reached if goal is None or reached > goal else goal
    found = at_deviation(problem, wanted, watch=watch)
    if not found.window.possible:
        reason = explain_infeasible(table, problem.demand, found.window, inputs.racks)
        return Yardstick(spent=spent, bound=0, best=None, before=before, reached=reached, goal=wanted,
                         argument=f"no valid plan gets there: {reason}", possible=False)  # fmt: skip
    bound = settled + (found.cost if found.proven and not found.outside else found.window.bound.value)
    options = [settled + found.cost] * (not found.outside) + [spent] * (valid and reached <= wanted)
    argument = argument_of(table, found.window) if by_bytes else _count_words(table, found.window)
    if settled:
        argument += f"; what partitions copy whose replication changes counts as it is ({settled})"
    finest_reached: int | None = None
    if by_bytes:
        finest_reached, _ = tightest(problem, SearchBudget(moved_bytes=spent - settled), watch, is_cheapest=False)
        finest_reached = min(finest_reached, reached) if valid else finest_reached
    return Yardstick(
        spent=spent,
        bound=bound,
        best=min(options, default=None),
        before=before,
        reached=reached,
        goal=wanted,
        argument=argument,
        finest=finest_reached,
    )


def _count_words(table: SlotTable, window: LoadWindow) -> str:
    """The bound on copies in words."""
    loads = table.loads(table.home)
    over, under = loads - window.ceiling, window.floor - loads
    words = []
    for amounts, side, text in (
        (over, window.prices > 0, "{} with {} above the window"),
        (under, window.prices < 0, "{} lacking {} to reach it"),
    ):
        chosen = side & (amounts > 0)
        if chosen.any():
            replicas = count_of(int(amounts[chosen].sum()), "replica")
            words.append(text.format(count_of(int(chosen.sum()), "broker"), replicas))
    if not words:
        return "every broker is inside its limits already, so nothing has to move"
    return f"{' and '.join(words)}: at least {count_of(window.bound.value, 'copy', 'copies')}"


def _balance(
    inputs: AuditInputs, now: LoadsNow, table: SlotTable, caps: Mapping[int, int], *, banded: bool
) -> BalanceGoal:
    limits = now.limits(table, inputs.even, caps)
    if not banded:
        return RangeGoal(limits)
    return now.band(table, limits, int(table.loads(table.home)[limits.even].sum()))


def as_band(max_deviation: int) -> float:
    """Millionths as a percent."""
    return max_deviation / PPM * 100


MAP_DIGEST = "map-digest"
ANY_DIR = "any"
IMPOSSIBLE = frozenset(
    {
        "unreadable",
        "version",
        "listed-twice",
        "unknown-partition",
        "empty-list",
        "repeated-broker",
        "unknown-broker",
        "dead-broker",
        "closed-broker",
        "no-source",
        "log-dirs",
        "unknown-log-dir",
    }
)
"""What Kafka refuses or can never finish; a run would be incomplete."""
ARGUABLE = frozenset({"below-min-isr", "rack-rule-broken"})
"""Errors of a map that Kafka takes; full disks are not among them, since the schedule of a run keeps them free."""


def digest_of(reading: MapReading) -> str:
    """What tells this map from others, however its file is written: SHA-256 over its entries by partition, hex."""
    rows = sorted(f"{e.key.topic} {e.key.partition} {e.replicas} {e.dirs}" for e in reading.entries)
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def plan_of_map(
    snapshot: ClusterSnapshot,
    reading: MapReading,
    audit: Audit,
    words: Mapping[str, str],
    *,
    allow_findings: bool,
    map_file: str = "",
) -> Plan:
    """The plan that brings every partition of the map to its list there; its scope are these partitions.

    Raises `RefusedError` for findings that cannot be carried out, and without `allow_findings` for those that should
    not be; `TryLaterError` while a partition of the map is being reassigned. `map_file` is named in
    hints where there is one. O(partitions).
    """
    _refuse(audit, map_file, allow_findings=allow_findings)
    case = case_of(snapshot, reading, MapAuditRequest())
    rows = sorted((row for row in case.rows if row.entry is not None), key=lambda row: row.key)
    refuse_endless(snapshot, [row.key for row in rows if row.moving])
    if moving := [row.name for row in rows if row.moving]:
        raise TryLaterError(
            f"partitions of the map are being reassigned, there is no list to go back to: {few_of(moving)}",
            hint="wait for them: kafkakit reassign status --watch",
        )
    copies = sum(len(row.adding) for row in rows)
    argument = f"the map names every list, and the copies that are not there have to be made: {copies}"
    topics = tuple(sorted({row.topic.name for row in rows}))
    scope = Scope(
        tuple(
            PlannedPartition(row.key, row.before, len(row.after), size_bytes=row.partition.known_bytes) for row in rows
        ),
        {row.topic.name: row.topic.topic_id for row in rows},
        TopicSelection(topics, ()),
    )
    decision = PlanDecision(
        replicas=[row.after for row in rows],
        certificate=certificate("replicas", copies, copies, argument, Proof(kind=ProofKind.COUNTING)),
        targets=sorted({b for row in rows for b in row.after}),
        storage_facts=audit.storage,
        dirs={i: {b: path for b, path in _dirs(row).items() if b in row.adding} for i, row in enumerate(rows)},
        dir_moves=tuple(move for row in rows for move in _dir_moves(row)),
        notes=audit.notes,
    )
    return assemble(snapshot, words, scope, decision)


def _correct(map_file: str) -> str:
    made = str(shell_command("topicmappr audit", map_file)) if map_file else ""
    return f"correct the map; its audit names every entry{made and f': {made}'}"


def _refuse(audit: Audit, map_file: str, *, allow_findings: bool) -> None:
    broken = dict.fromkeys(f.rule for f in audit.findings)
    if impossible := [rule for rule in broken if rule in IMPOSSIBLE]:
        raise RefusedError(
            f"the map cannot be carried out, its audit found: {', '.join(impossible)}",
            hint=_correct(map_file),
        )
    arguable = [rule for rule in broken if rule in ARGUABLE]
    if arguable and not allow_findings:
        raise RefusedError(
            f"the audit of the map found errors: {', '.join(arguable)}",
            hint="correct the map, or carry it out as it is with --allow-findings",
        )


def _dirs(row: AuditedPartition) -> dict[int, str]:
    """The log dirs that the map names, by broker."""
    entry = row.entry
    named = zip(entry.replicas, entry.dirs, strict=True) if entry and entry.dirs else ()
    return {broker: path for broker, path in named if path != ANY_DIR}


def _dir_moves(row: AuditedPartition) -> list[DirMove]:
    """Copies that stay on their broker and change the log dir there."""
    moves = []
    for broker, path in _dirs(row).items():
        now = row.partition.replica_dirs.get(broker)
        if broker in row.adding or now == path:
            continue
        if now is None:
            raise RefusedError(
                f"the map names a log dir for {row.name} on broker {broker}, and where it is now is unknown",
                hint="write any in its place, or try again when the broker answers",
            )
        size = row.partition.replica_bytes.get(broker)
        moves.append(DirMove(topic=row.key.topic, partition=row.key.partition, broker=broker, source_dir=now,
                             target_dir=path, size_bytes=size))  # fmt: skip
    return moves
