"""Where sizes and free bytes come from, how old they are, and what a planner may know of each broker's disks.

Sizes come from the brokers' log dirs (in the snapshot), or from what a metrics collector stored; `with_metrics` puts
the latter into the snapshot, so that planners only look at the snapshot. `storage_of` is their one call.

The block on free storage that `rebuild`, `rebalance` and `scale` print has kafka-kit's words and formulas; what it
prints as GB are GiB. Why replicas could not be placed is said in words that name what to add.
"""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from kafkakit.core.cluster_facts import StorageReading
from kafkakit.core.errors import InfeasibleError, InputError, TryLaterError, UsageError
from kafkakit.core.model import Broker, ClusterSnapshot, Partition, TopicPartition
from kafkakit.core.placement_statistics import BrokerStorage
from kafkakit.core.plan import StorageFacts
from kafkakit.core.quantities import format_bytes
from kafkakit.core.text import shell_command
from kafkakit.placement.broker_disks import DirStorage, broker_disks
from kafkakit.placement.problem import PlacementProblem, PlannedPartition

DEFAULT_AGE_MINUTES = 60
SHOWN = 3
MOST_BYTES = 1 << 59


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What is known of sizes and disks, all in bytes.

    `partition_bytes` is the largest known copy of each partition asked for, `brokers` has every broker,
    `log_dirs` those that told their log dirs, `facts` go into the plan, `warnings` to the operator. `cordoned` brokers
    have a mark.
    """

    partition_bytes: Mapping[TopicPartition, int]
    brokers: Mapping[int, BrokerStorage]
    log_dirs: Mapping[int, tuple[DirStorage, ...]]
    facts: StorageFacts
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    cordoned: frozenset[int] = frozenset()


def storage_facts(snapshot: ClusterSnapshot, reading: StorageReading | None = None) -> StorageFacts:
    """Say where the sizes come from and how old they are, against the snapshot's time.

    That age belongs into the plan, which must not depend on when it is made; `refuse_old` uses the clock.
    """
    if reading is None:
        source = "brokers" if any(b.log_dirs for b in snapshot.brokers) else "snapshot file"
        return StorageFacts(source=source, taken_at=snapshot.taken_at, age_s=0)
    age = int((snapshot.taken_at - reading.taken_at).total_seconds())
    return StorageFacts(source=reading.source, taken_at=reading.taken_at, age_s=max(0, age))


def refuse_old(taken_at: datetime, *, now: datetime, max_age_minutes: int) -> None:
    """Raise `TryLaterError` in kafka-kit's words when the data are older than allowed."""
    age = int((now - taken_at).total_seconds())
    if age > max_age_minutes * 60:
        raise TryLaterError(
            f"Metrics metadata is older than allowed: {_as_go_prints(age)} (allowed: {max_age_minutes} minutes)",
            hint="collect sizes again with metricsfetcher, allow more with --metrics-age, or take a new snapshot: "
            f"{shell_command('snapshot', output_file='snapshot.json')}",
        )


def with_metrics(snapshot: ClusterSnapshot, reading: StorageReading) -> ClusterSnapshot:
    """The cluster with the collected sizes in place of the brokers' own; O(partitions).

    A partition or broker that the collector does not know becomes unknown, as nothing else was asked for.
    """
    sizes, free = reading.sizes.bytes_of, reading.free.bytes_of
    return replace(
        snapshot,
        brokers=tuple(_with_free(b, free.get(b.id)) for b in snapshot.brokers),
        topics=tuple(
            replace(t, partitions=tuple(_with_size(t.name, p, sizes) for p in t.partitions)) for t in snapshot.topics
        ),
        sizes_taken=True,
        unanswered_brokers={},
    )


def _with_free(broker: Broker, free: int | None) -> Broker:
    if free is None:  # the broker's own figures must not stand in for the collector's
        return replace(
            broker,
            storage_free_bytes=None,
            log_dirs=tuple(replace(d, total_bytes=None, usable_bytes=None) for d in broker.log_dirs),
        )
    return replace(broker, storage_free_bytes=free)


def _with_size(topic: str, p: Partition, sizes: Mapping[TopicPartition, int]) -> Partition:
    # The copies' own sizes must not stand in for the collector's.
    return replace(p, size_bytes=sizes.get(TopicPartition(topic, p.partition)), replica_bytes={})


def storage_of(
    snapshot: ClusterSnapshot,
    facts: StorageFacts | None = None,
    *,
    brokers: Collection[int] | None = None,
    partitions: Collection[TopicPartition] | None = None,
) -> Sizes:
    """What is known of sizes and disks; stops when something that the request touches is unknown.

    `brokers` are those whose disks must be known (None: all live ones), `partitions` those whose size must be
    (None: all); others may stay unknown. `facts` as `observe_storage` gave them; None takes the snapshot's own.
    Raises `TryLaterError` naming what did not answer, `UsageError` when sizes were never asked for, and
    `InputError` for a size that no disk of the cluster could hold. O(replicas), 0.5 s for 600,000.
    """
    facts = facts or storage_facts(snapshot)
    disks = broker_disks(snapshot)
    requested = [b for b in snapshot.brokers if (b.is_alive if brokers is None else b.id in brokers)]
    wanted = None if partitions is None else frozenset(partitions)
    known: dict[TopicPartition, int] = {}
    unknown: list[TopicPartition] = []
    for name, p in snapshot.partitions():
        key = TopicPartition(name, p.partition)
        if wanted is None or key in wanted:
            size = p.known_bytes
            if size is None:
                unknown.append(key)
            else:
                known[key] = size
    if unknown:
        _refuse_unknown_sizes(snapshot, facts, sorted(unknown))
    _refuse_unknown_disks(snapshot, facts, requested, disks.brokers)
    _refuse_impossible(snapshot, facts, known)
    _refuse_beyond_exact(snapshot, facts, disks.brokers)
    return Sizes(
        partition_bytes=known,
        brokers=disks.brokers,
        log_dirs=disks.log_dirs,
        facts=facts,
        notes=disks.notes_on(frozenset(b.id for b in requested)),
        warnings=disks.warnings_on(frozenset(b.id for b in requested)),
        cordoned=frozenset(snapshot.cordoned),
    )


def _refuse_unknown_sizes(snapshot: ClusterSnapshot, facts: StorageFacts, unknown: Sequence[TopicPartition]) -> None:
    if not snapshot.sizes_taken:
        raise UsageError(
            f"the snapshot was taken without sizes, and {_join(unknown)} need one",
            hint=f"take one with sizes: {shell_command('snapshot', output_file='snapshot.json')}",
        )
    silent = _silent_text(snapshot)
    raise TryLaterError(
        f"no size is known for {_join(unknown)}{f'; {silent}' if silent else ''} (sizes from {facts.source})",
        hint="try again when all brokers answer, leave these topics out with --topics-exclude, or take sizes "
        "from elsewhere with --sizes-from",
    )


def _refuse_unknown_disks(
    snapshot: ClusterSnapshot,
    facts: StorageFacts,
    requested: Sequence[Broker],
    storage: Mapping[int, BrokerStorage],
) -> None:
    lacking = [b for b in requested if None in (storage[b.id].used_bytes, storage[b.id].free_bytes)]
    if not lacking:
        return
    silent = [b for b in lacking if b.id in snapshot.unanswered_brokers or b.log_dirs_error]
    if silent:
        raise TryLaterError(
            f"used and free bytes are not known of every broker: {_silent_text(snapshot, silent)}",
            hint="try again when they answer, or leave these brokers out",
        )
    if not snapshot.sizes_taken:
        raise UsageError(
            f"the snapshot was taken without sizes, so nothing is known of the disks of broker {_join(_ids(lacking))}",
            hint=f"take one with sizes: {shell_command('snapshot', output_file='snapshot.json')}",
        )
    # kafka-kit's words; here only for brokers that the request touches.
    raise TryLaterError(
        f"Metrics not found for broker {_join(_ids(lacking))} (sizes from {facts.source})",
        hint="brokers report disk sizes since Kafka 3.3; otherwise collect them and use --sizes-from zookeeper",
    )


def _refuse_impossible(snapshot: ClusterSnapshot, facts: StorageFacts, known: Mapping[TopicPartition, int]) -> None:
    if not known:
        return
    source = f"sizes from {facts.source}"
    disks = [d.total_bytes for b in snapshot.brokers for d in b.log_dirs if d.total_bytes is not None]
    largest, limit = max(known.values()), max(disks, default=None)
    if limit is not None and largest > limit:
        key = min(k for k, size in known.items() if size == largest)
        size = format_bytes(largest)
        raise InputError(source, f"{key} has {size}, more than the largest disk of the cluster ({format_bytes(limit)})")
    if min(known.values()) < 0:
        key = min(k for k, size in known.items() if size < 0)
        raise InputError(source, f"{key} has {known[key]} bytes, which is less than none")


def _refuse_beyond_exact(snapshot: ClusterSnapshot, facts: StorageFacts, storage: Mapping[int, BrokerStorage]) -> None:
    """Sums and differences of all bytes must fit 64 bits with room to spare; no cluster is near that."""
    disks = sum(max(s.capacity_bytes or 0, s.free_bytes or 0) for s in storage.values())
    total = disks + sum(s.used_bytes or 0 for s in storage.values())
    if total > MOST_BYTES:
        raise InputError(
            f"sizes from {facts.source}",
            f"copies and disks have {format_bytes(total)} together, and no more than {format_bytes(MOST_BYTES)} "
            "can be handled",
        )


def _silent_text(snapshot: ClusterSnapshot, brokers: Sequence[Broker] | None = None) -> str:
    """The brokers that gave no answer, each with its reason; empty when all did."""
    reasons = {b.id: b.log_dirs_error for b in snapshot.brokers if b.log_dirs_error} | dict(snapshot.unanswered_brokers)
    chosen = sorted(reasons) if brokers is None else [b.id for b in brokers]
    lines = [f"broker {b} gave no answer ({reasons.get(b) or 'no reason known'})" for b in chosen[:SHOWN]]
    return ", ".join(lines) + (f" and {len(chosen) - SHOWN} more" if len(chosen) > SHOWN else "")


def _ids(brokers: Sequence[Broker]) -> list[int]:
    return [b.id for b in brokers]


def _join(items: Sequence[object]) -> str:
    more = f" and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return ", ".join(map(str, items[:SHOWN])) + more


def _as_go_prints(seconds: int) -> str:
    """A duration in the form that kafka-kit prints: `1h2m3s`, `2m0s`, `5s`."""
    hours, rest = divmod(seconds, 3600)
    minutes, left = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes}m{left}s"
    return f"{minutes}m{left}s" if minutes else f"{left}s"


GIB = 1 << 30
RANGE_INCREASED = "broker free storage range increased"


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeChange:
    """Free bytes by broker, before and after; brokers whose disks are unknown are in neither.

    `holding` are the brokers that hold replicas before (the summary's left side counts these), `replaced` those
    marked for replacement (its right side counts all others). `factor` is what sizes were multiplied by.
    """

    before: Mapping[int, int]
    after: Mapping[int, int]
    holding: Collection[int]
    replaced: Collection[int] = ()
    factor: float = 1.0

    @property
    def summaries(self) -> tuple["FreeSummary", "FreeSummary"]:
        """The summaries of both sides."""
        return (
            summary_of([f for b, f in sorted(self.before.items()) if b in self.holding]),
            summary_of([f for b, f in sorted(self.after.items()) if b not in self.replaced]),
        )

    @property
    def range_increased(self) -> bool:
        """True when the range of free bytes grows; an overridable warning."""
        left, right = self.summaries
        return right.range > left.range


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeSummary:
    """Smallest and largest free bytes of some brokers, and the standard deviation over all of them."""

    low: int
    high: int
    deviation: float

    @property
    def range(self) -> int:
        """Largest less smallest."""
        return self.high - self.low

    @property
    def spread(self) -> float:
        """The range in percent of the smallest; infinite (or not a number) when that is 0, as Go divides."""
        if self.low == 0:
            return math.inf if self.range else math.nan
        return self.range / self.low * 100


def summary_of(free: Sequence[int]) -> FreeSummary:
    """Summarise free bytes; all zero for no brokers."""
    if not free:
        return FreeSummary(low=0, high=0, deviation=0.0)
    # n times the sum of squares less the square of the sum is exact in integers.
    count, total = len(free), sum(free)
    variance = max(0, count * sum(f * f for f in free) - total * total)
    return FreeSummary(low=min(free), high=max(free), deviation=math.sqrt(variance) / count)


def free_change_lines(change: FreeChange) -> list[str]:
    """The block's lines, its heading first, without the empty line before it."""
    left, right = change.summaries
    lines = ["Storage free change estimations:"]
    if change.factor != 1.0:
        lines.append(f"  Partition size factor of {change.factor:.2f} applied")
    lines += [
        f"  range: {_gb(left.range)} -> {_gb(right.range)}",
        f"  range spread: {_number(left.spread)}% -> {_number(right.spread)}%",
        f"  std. deviation: {_gb(left.deviation)} -> {_gb(right.deviation)}",
        f"  min-max: {_gb(left.low)}, {_gb(left.high)} -> {_gb(right.low)}, {_gb(right.high)}",
        "  -",
    ]
    for broker in sorted(change.before.keys() & change.after.keys()):
        before, after = change.before[broker], change.after[broker]
        mark = "*marked for replacement" if broker in change.replaced else ""
        lines.append(
            f"  Broker {broker}: {before / GIB:.2f} -> {after / GIB:.2f} "
            f"({(after - before) / GIB:+.2f}GB, {_number(_percent(after - before, before))}%) {mark}"
        )
    return lines


def free_change_data(change: FreeChange) -> dict[str, object]:
    """The change of free space as JSON fields, in bytes."""
    left, right = change.summaries
    return {
        "partition_size_factor": change.factor,
        "range_bytes": {"before": left.range, "after": right.range},
        "standard_deviation_bytes": {"before": round(left.deviation), "after": round(right.deviation)},
        "smallest_bytes": {"before": left.low, "after": right.low},
        "largest_bytes": {"before": left.high, "after": right.high},
        "brokers": [
            {
                "broker": b,
                "free_bytes_before": change.before[b],
                "free_bytes_after": change.after[b],
                "replaced": b in change.replaced,
            }
            for b in sorted(change.before.keys() & change.after.keys())
        ],
    }


def _percent(part: int, whole: int) -> float:
    if whole == 0:
        return math.copysign(math.inf, part) if part else math.nan
    return part / whole * 100 if part else 0.0


def _gb(count: float) -> str:
    return f"{count / GIB:.2f}GB"


def _number(value: float) -> str:
    """As Go prints it: `NaN`, `+Inf`, or two digits."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return f"{value:.2f}"


_NAMED = 5


def explain_unplaced(
    problem: PlacementProblem, unplaced: tuple[int, ...], live: Mapping[int, str | None]
) -> tuple[str, ...]:
    """One reason a kind of shortage, with the topics it hits; `live` maps every broker that may receive to its rack."""
    topics: dict[str, set[str]] = defaultdict(set)
    for partition, missing in zip(problem.partitions, unplaced, strict=True):
        if missing:
            topics[_reason(problem, partition, live) + problem.closed_words].add(partition.key.topic)
    return tuple(sorted(f"{_diagnosed_named(names)} {_agree_verb(reason, names)}" for reason, names in topics.items()))


def infeasible_error(shortages: tuple[str, ...], unplaced: tuple[int, ...], left: int = 0) -> InfeasibleError:
    """The error of a request that no placement satisfies: why, and what writing the plan all the same would mean.

    So many of the partitions are `left` as they are.
    """
    count = sum(1 for n in unplaced if n) - left
    fates = [f"{count} partition(s) would end with fewer replicas"] * bool(count or not left)
    fates += [f"{left} partition(s) would stay as they are"] * bool(left)
    return InfeasibleError(
        f"no plan fits: {'; '.join(shortages)}",
        reasons=shortages if len(shortages) > 1 else (),
        hint=f"{' and '.join(fates)}; --ignore-warns writes that plan anyway",
    )


def _reason(problem: PlacementProblem, p: PlannedPartition, live: Mapping[int, str | None]) -> str:
    able = [b for b in problem.targets if b not in problem.closed or b in p.current]
    racks = sorted({r for b in able if (r := problem.rack_of(b))})
    rackless = sum(1 for b in able if not problem.rack_of(b))
    if len(able) < p.wanted:
        spare = [b for b in sorted(live) if b not in problem.targets]
        add = f"add brokers (live and not listed: {_diagnosed_ids(spare)})" if spare else "start more brokers"
        return f"wants {p.wanted} replicas, the list has {len(able)} live brokers; {add}"
    if words := problem.rule.closed.explain(p.key, p.size_bytes, {*problem.taking} - {*p.current}):
        return f"finds no place for all replicas: {words}; free space there or add a broker"
    rules = problem.rule.tags
    if rules is not None and rules.most(p.key.topic, able, p.wanted) < p.wanted:
        words = rules.words(p.key.topic, able, p.wanted)
        return f"wants {p.wanted} replicas, and constraints leave too few of the {len(able)} brokers: {words}"
    needed = min(p.wanted, problem.rule.most_spanned)
    if len(racks) + rackless < needed:
        have = f"{len(racks)} ({', '.join(racks[:_NAMED])}{', ...' if len(racks) > _NAMED else ''})" if racks else "0"
        return (
            f"needs {needed} racks, the listed brokers have {have}; {_more_racks(racks, live)}"
            f"use --min-rack-ids {max(1, len(racks))}"
        )
    stay = [b for b in p.current if b in able and (rules is None or rules.may_hold(p.key.topic, b))]
    tags = "" if rules is None else f" ({rules.words(p.key.topic, able, p.wanted)})"
    where = ", ".join(f"{b} in rack {problem.rack_of(b) or 'none'}" for b in stay) or "nothing"
    return (
        f"p{p.key.partition} keeps {where} and no listed broker fits beside{tags}; add a broker in another "
        "rack, raise or lower --min-rack-ids, or use --force-rebuild"
    )


def _more_racks(racks: list[str], live: Mapping[int, str | None]) -> str:
    others = defaultdict(list)
    for broker, rack in sorted(live.items()):
        if rack and rack not in racks:
            others[rack].append(broker)
    if not others:
        return "add a broker in another rack or "
    rack = min(others)
    return f"add a broker in rack {rack} ({_diagnosed_ids(others[rack])}) or "


def _agree_verb(reason: str, names: set[str]) -> str:
    verb, _, rest = reason.partition(" ")
    return f"{verb.removesuffix('s')} {rest}" if len(names) > 1 and verb in ("wants", "needs") else reason


def _diagnosed_named(names: set[str]) -> str:
    ordered = sorted(names)
    more = f" and {len(ordered) - _NAMED} more" if len(ordered) > _NAMED else ""
    return f"topic{'s' if len(ordered) > 1 else ''} {', '.join(ordered[:_NAMED])}{more}"


def _diagnosed_ids(brokers: list[int]) -> str:
    return ", ".join(map(str, brokers[:_NAMED])) + (", ..." if len(brokers) > _NAMED else "")
