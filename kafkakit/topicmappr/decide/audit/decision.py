"""`topicmappr audit` as a pure function: a map and a cluster in, measures, bounds and findings out."""

from dataclasses import dataclass, replace

from kafkakit.core.errors import InputError, TryLaterError, UsageError
from kafkakit.core.findings import Finding, Severity, in_order
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.placement_statistics import placement_stats
from kafkakit.core.plan import PlacementStats, StorageFacts
from kafkakit.core.quantities import format_bytes, format_percent
from kafkakit.placement.by_size.layout import Disks, bytes_now, counts_now, held_by
from kafkakit.placement.by_size.lp_relaxation import PPM
from kafkakit.placement.group_rule import GroupRule, racks_to_spread
from kafkakit.placement.problem import UNWATCHED, Watch
from kafkakit.topicmappr.decide.audit.case import AuditCase, case_of, disk_issues
from kafkakit.topicmappr.decide.audit.catalogue import BY_NAME, Issue, findings_of
from kafkakit.topicmappr.decide.audit.cost import AuditInputs, Yardstick, compare, measure
from kafkakit.topicmappr.decide.audit.lists import list_issues, map_issues
from kafkakit.topicmappr.decide.audit.reading import MapReading
from kafkakit.topicmappr.decide.audit.request import AuditRequest
from kafkakit.topicmappr.decide.size_source import Sizes, storage_facts, storage_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
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
    tally: Tally
    before: PlacementStats
    after: PlacementStats
    used_range: tuple[int, int] | None
    free_range: tuple[int, int] | None
    band: tuple[int, int] | None
    banded: bool
    by_bytes: Yardstick | None
    by_count: Yardstick | None
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]


def audit_map(
    snapshot: ClusterSnapshot,
    reading: MapReading,
    request: AuditRequest,
    facts: StorageFacts | None = None,
    watch: Watch = UNWATCHED,
) -> Audit:
    """Judge a map without running it.

    Raises `UsageError` for topic patterns that match nothing, and for an even spread where no broker has a rack.
    Whatever is wrong with the map is a finding, and unknown sizes are a note. Cost: about two plans, and seven more
    for what the same bytes could reach.
    """
    case = case_of(snapshot, reading, request)
    tags = request.constraints.on(snapshot, {row.topic.name for row in case.rows})
    rule = GroupRule(request.min_rack_ids, racks_to_spread(case.even, case.racks) if request.spread else (), tags)
    sizes, notes = _sizes(snapshot, case, facts)
    issues = [*map_issues(reading, case), *list_issues(case, rule)]
    valid = not any(BY_NAME[i.rule].severity is Severity.ERROR for i in issues)
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
            issues += _missed(by_bytes, request)
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
        findings=in_order(findings_of(issues)),
        notes=tuple(notes),
    )


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
        return None, [f"judged by counts alone: {error}"]
    return sizes, [*sizes.notes, *sizes.warnings]


def _inputs(case: AuditCase, rule: GroupRule, weights: list[int]) -> AuditInputs:
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


def _disks(sizes: Sizes, request: AuditRequest) -> Disks:
    return Disks(storage=sizes.brokers, log_dirs=sizes.log_dirs, max_use=request.max_disk_use)


def _ranges(
    inputs: AuditInputs, sizes: Sizes, request: AuditRequest
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


def _by_bytes(inputs: AuditInputs, sizes: Sizes, request: AuditRequest, valid: bool, watch: Watch) -> Yardstick:
    held = held_by(inputs.before, inputs.weights)
    banded = request.band is not None
    now = bytes_now(held, _disks(sizes, request), inputs.brokers, by_free=not banded)
    goal = int(request.band * PPM) if request.band is not None else request.free_range_bytes
    return compare(inputs, now, goal=goal, banded=banded, valid=valid, by_bytes=True, watch=watch)


def _missed(found: Yardstick, request: AuditRequest) -> list[Issue]:
    if request.band is not None and found.reached > request.band * PPM:
        words = f"a band of {format_percent(request.band)} was wanted, and {found.reached / PPM * 100:.4g}% is reached"
    elif request.free_range_bytes is not None and found.reached > request.free_range_bytes:
        wanted = format_bytes(request.free_range_bytes)
        words = f"a range of {wanted} was wanted, and {format_bytes(found.reached)} is reached"
    else:
        return []
    return [Issue("goal-missed", "map", words)]


def _tally(case: AuditCase, reading: MapReading) -> Tally:
    changed = [row for row in case.rows if set(row.after) != set(row.before)]
    reordered = sum(1 for row in case.rows if row.after != row.before) - len(changed)
    sizes = [(row.partition.known_bytes, len(row.adding)) for row in changed]
    known = all(size is not None for size, copies in sizes if copies)
    return Tally(
        entries=len(reading.entries) + len(reading.unread) + len(reading.twice),
        changed=len(changed),
        reordered=reordered,
        unchanged=sum(1 for row in case.rows if row.entry is not None and row.after == row.before),
        copies=sum(copies for _, copies in sizes),
        removed=sum(1 for row in changed for b in row.before if b not in row.after),
        bytes_moved=sum((size or 0) * copies for size, copies in sizes) if known else None,
        leaders_moved=sum(1 for row in case.rows if row.before[:1] != row.after[:1]),
    )
