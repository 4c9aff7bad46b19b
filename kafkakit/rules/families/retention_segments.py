"""R: rules of segments: jitter, size, indexes, how many of them there are."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from kafkakit.core.findings import Severity
from kafkakit.core.quantities import count_of, format_bytes, format_span
from kafkakit.rules.cluster_facts import has_partitions, replicas_by_broker, set_values
from kafkakit.rules.effective import InputMissing
from kafkakit.rules.retention import (
    MAX_SEGMENTS_OF_PARTITION,
    SHORTEST_SENSIBLE_ROLL_MS,
    SMALLEST_SEGMENT_BYTES,
    TIME_ENTRY_BYTES,
    SegmentSettings,
    fits_int,
    mean_replicas,
    settings_of,
    time_index_bytes,
)
from kafkakit.rules.rule import (
    CORE,
    ERROR,
    NOTE,
    STRICT,
    WARNING,
    Edit,
    Fix,
    Limits,
    Needs,
    Violation,
    Violations,
    broker_rule,
    cluster_rule,
    set_to,
    topic_rule,
)
from kafkakit.rules.subjects import LintBroker, LintCluster, LintTopic, require_known

TOGETHER = 1_000
INDEX_SHARE = 0.1
DEFAULT_INDEX_BYTES = 10 * 2**20


@topic_rule("KKR208", WARNING, CORE, fix=Fix.UNSAFE, of_defaults=("segment.ms",))
def jitter_too_large(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """`segment.jitter.ms` takes away most of the time that a segment may stay open, or all of it.

    Why: each segment rolls a random time below the jitter earlier. At half of the roll time segments are half as
    long; from the roll time on some segments roll at their second append, which makes a file for each batch (an
    error).
    Source: Kafka, `LogConfig.randomSegmentJitter`, `LogSegment.shouldRoll`.

    Bad:
        topics:
          - {name: orders, config: {segment.ms: "3600000", segment.jitter.ms: "3600000"}}

    Good:
        topics:
          - {name: orders, config: {segment.ms: "3600000", segment.jitter.ms: "360000"}}
    """
    settings = settings_of(topic)
    jitter, roll = settings.jitter_ms, settings.roll_ms
    if jitter * 2 <= roll:
        return
    topic.config.sure_number("segment.ms")
    all_of_it = jitter >= roll
    yield set_to(
        "segment.jitter.ms",
        str(roll // 10),
        f"the jitter of up to {format_span(jitter / 1000)} takes {'all' if all_of_it else 'more than half'} of "
        f"the {format_span(roll / 1000)} after which segments roll"
        + (": some roll at their second append" if all_of_it else ""),
        severity=Severity.ERROR if all_of_it else None,
    )


@broker_rule("KKR209", NOTE, STRICT, Needs.FILE, Needs.LIVE, fix=Fix.UNSAFE)
def synchronised_rolls(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """More than a thousand partitions of a broker roll their segments at the same time.

    Why: after a restart, or when topics are made together, partitions with the same `segment.ms` and no jitter roll
    together again and again: thousands of files are made and as many are closed and flushed at once. A jitter of
    a tenth of segment.ms spreads them.
    Source: Kafka documentation, `segment.jitter.ms`.

    Bad:
        broker_count: 1
        brokers: [{id: 1, config: {log.roll.hours: "24"}}]
        topics:
          - {name: orders, partitions: 2000, replication_factor: 1}

    Good:
        broker_count: 1
        brokers: [{id: 1, config: {log.roll.hours: "24", log.roll.jitter.ms: "8640000"}}]
        topics:
          - {name: orders, partitions: 2000, replication_factor: 1}
    """
    if not broker.is_broker:
        return
    together = cluster.derive(_rolling_together)
    rolls = together.get(broker.id if has_partitions(cluster) else None, {})
    for roll, number in rolls.items():
        if number > TOGETHER:
            yield set_to(
                "log.roll.jitter.ms",
                str(roll // 10),
                f"{round(number):,} partitions of the broker roll their segments together every "
                f"{format_span(roll / 1000)}, without jitter",
                subject=str(roll),
            )
            return


def _rolling_together(cluster: LintCluster) -> Mapping[int | None, Mapping[int, float]]:
    """How many partitions without jitter share each roll time: by broker id, or of a mean broker at None."""
    found: dict[int | None, dict[int, float]] = {}
    placed = has_partitions(cluster)
    for topic in require_known(cluster.topics or None, "topics"):
        settings = settings_of(topic)
        if settings.jitter_ms:
            continue
        roll = settings.roll_ms
        if placed:
            holders: list[tuple[int | None, float]] = [
                (b, 1.0) for p in topic.partition_facts or () for b in p.replicas
            ]
        else:
            holders = [(None, mean_replicas(topic, cluster))]
        for holder, number in holders:
            of = found.setdefault(holder, {})
            of[roll] = of.get(roll, 0.0) + number
    return found


@topic_rule("KKR210", ERROR, CORE, fix=Fix.UNSAFE, of_defaults=("max.message.bytes",))
def segment_smaller_than_batch(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """`max.message.bytes` allows batches that are larger than a segment.

    Why: a batch above `segment.bytes` is refused with RecordBatchTooLargeException although it is within
    `max.message.bytes`.
    Source: Kafka, `UnifiedLog.append`: "exceeds the maximum configured segment size".

    Bad:
        topics:
          - {name: orders, config: {segment.bytes: "1048576", max.message.bytes: "10485760"}}

    Good:
        topics:
          - {name: orders, config: {segment.bytes: "104857600", max.message.bytes: "10485760"}}
    """
    overrides = topic.config.overrides
    if not ("segment.bytes" in overrides or "max.message.bytes" in overrides or topic.config.broker.is_known):
        return
    segment, batch = topic.config.sure_number("segment.bytes"), topic.config.sure_number("max.message.bytes")
    if segment is None or batch is None or batch <= segment:
        return
    wanted = -(-batch // SMALLEST_SEGMENT_BYTES) * SMALLEST_SEGMENT_BYTES
    yield Violation(
        message=f"batches of up to {format_bytes(batch)} are allowed ({batch} bytes), "
        f"but segments hold {format_bytes(segment)} ({segment} bytes): larger batches are refused",
        key="segment.bytes",
        expected=f"at least {batch}",
        edits=(Edit("segment.bytes", str(wanted)),) if fits_int(wanted) else (),
    )


@topic_rule("KKR211", WARNING, CORE, fix=Fix.UNSAFE, of_defaults=("segment.bytes", "index.interval.bytes"))
def time_index_rolls_first(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """The time index is full before the segment is, so that segments roll early.

    Why: an index entry is due for every index.interval.bytes + 1 bytes, takes 12 bytes in the time index, and a full
    index rolls the segment. A segment of 1 GiB with an interval of 1,024 needs 12.6 MB of index; with the default of
    10 MiB segments end at 83 % of their size, and there are more of them.
    Source: Kafka, `TimeIndex.isFull`, `LogSegment.append`: 12 * (ceil(S / (X + 1)) + 1) > I.

    Bad:
        topics:
          - name: orders
            config: {segment.bytes: "1073741824", index.interval.bytes: "1024", segment.index.bytes: "10485760"}

    Good:
        topics:
          - name: orders
            config: {segment.bytes: "1073741824", index.interval.bytes: "4096", segment.index.bytes: "10485760"}
    """
    settings = settings_of(topic)
    needed = time_index_bytes(settings.segment_bytes, settings.index_interval_bytes)
    if needed <= settings.index_bytes or settings.index_bytes < 2 * TIME_ENTRY_BYTES:
        return
    for key in ("segment.bytes", "index.interval.bytes", "segment.index.bytes"):
        topic.config.sure_number(key)
    yield Violation(
        message=f"the time index is full at {format_bytes(settings.capacity_bytes())} of "
        f"{format_bytes(settings.segment_bytes)} and rolls the segment: "
        f"it needs {needed} bytes and has {settings.index_bytes}",
        key="segment.index.bytes",
        expected=f"at least {needed}",
        edits=(Edit("segment.index.bytes", str(needed)),) if fits_int(needed) else (),
    )


@topic_rule("KKR212", ERROR, CORE, fix=Fix.UNSAFE)
def degenerate_index(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """`segment.index.bytes` holds no two entries, so that every append rolls the segment.

    Why: an index counts as full one entry before its last; below 24 bytes that is always, although Kafka accepts 4.
    Source: Kafka, `TimeIndex.isFull`: floor(I / 12) - 1 <= 0; KAFKA-6388.

    Bad:
        topics:
          - {name: orders, config: {segment.index.bytes: "20"}}

    Good:
        topics:
          - {name: orders, config: {segment.index.bytes: "10485760"}}
    """
    size = settings_of(topic).index_bytes
    if size < 2 * TIME_ENTRY_BYTES:
        yield set_to(
            "segment.index.bytes",
            str(DEFAULT_INDEX_BYTES),
            f"an index of {size} bytes is always full: every append rolls the segment",
        )


@topic_rule(
    "KKR213", WARNING, CORE, Needs.FILE, Needs.METRICS, fix=Fix.UNSAFE, of_defaults=("segment.bytes", "segment.ms")
)
def segment_churn(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """Segments roll more often than every ten minutes, or a partition has more than a thousand of them.

    Why: every segment costs a descriptor, two memory maps, and time when a broker starts or recovers; each roll
    makes and closes files on every replica.
    Source: Kafka, `LogSegment`, `AbstractIndex`; arithmetic of the number of segments.

    Bad:
        topics:
          - {name: orders, config: {segment.ms: "60000", retention.ms: "86400000"}}

    Good:
        topics:
          - {name: orders, config: {segment.ms: "3600000", retention.ms: "86400000"}}
    """
    settings = settings_of(topic)
    measured = max((p.segments for p in topic.partition_facts or () if p.segments is not None), default=0)
    rates = topic.rates_bytes_s()
    span = settings.span_ms(rates[1] if rates else None)
    number = measured or settings.segment_limit(rates[1] if rates else None) or 0
    if span < SHORTEST_SENSIBLE_ROLL_MS:
        topic.config.sure_number("segment.ms")
        yield Violation(
            message=f"the busiest partition rolls a segment every {format_span(span / 1000)}",
            key="segment.bytes" if span < settings.roll_ms else "segment.ms",
            subject="time",
            edits=_slower_rolls(settings, rates[1] if rates else None),
        )
    elif number > MAX_SEGMENTS_OF_PARTITION:
        topic.config.sure_number("segment.ms")
        yield Violation(
            message=f"a partition {'has' if measured else 'may have'} {count_of(number, 'segment')}",
            key="segment.ms",
            subject="number",
            edits=() if measured or rates else _fewer_segments(settings),
        )


def _fewer_segments(settings: SegmentSettings) -> tuple[Edit, ...]:
    """What keeps a partition within a thousand segments; nothing where one setting of each kind does not."""
    most = MAX_SEGMENTS_OF_PARTITION - 2
    changed: dict[str, int] = {}
    if settings.deletes_by_time:
        roll = -(-(settings.retention_ms + settings.check_interval_ms) // most) + settings.jitter_ms
        changed["segment_ms"] = max(roll, settings.segment_ms)
    if settings.deletes_by_size:
        changed["segment_bytes"] = max(-(-settings.retention_bytes // most), settings.segment_bytes)
    after = replace(settings, **changed)  # type: ignore[arg-type]  # both are whole numbers
    if (after.segment_limit() or 0) > MAX_SEGMENTS_OF_PARTITION or not fits_int(after.segment_bytes):
        return ()
    edits = {"segment.ms": after.segment_ms, "segment.bytes": after.segment_bytes}
    before = {"segment.ms": settings.segment_ms, "segment.bytes": settings.segment_bytes}
    return tuple(Edit(key, str(value)) for key, value in edits.items() if value != before[key])


def _slower_rolls(settings: SegmentSettings, rate: float | None) -> tuple[Edit, ...]:
    """What makes segments last ten minutes; nothing where the greatest segment does not."""
    changed: dict[str, int] = {}
    if settings.roll_ms < SHORTEST_SENSIBLE_ROLL_MS:
        if settings.segment_ms < SHORTEST_SENSIBLE_ROLL_MS:
            changed["segment.ms"] = SHORTEST_SENSIBLE_ROLL_MS
        if settings.compacts and settings.max_compaction_lag_ms < SHORTEST_SENSIBLE_ROLL_MS:
            changed["max.compaction.lag.ms"] = SHORTEST_SENSIBLE_ROLL_MS
    needed = round((rate or 0) * SHORTEST_SENSIBLE_ROLL_MS / 1000) + 1
    if needed > settings.segment_bytes:
        changed["segment.bytes"] = needed
    index = time_index_bytes(needed, settings.index_interval_bytes)
    if rate and index > settings.index_bytes:
        changed["segment.index.bytes"] = index
    if not all(map(fits_int, (changed.get("segment.bytes", 0), changed.get("segment.index.bytes", 0)))):
        return ()
    return tuple(Edit(key, str(value)) for key, value in changed.items())


@broker_rule("KKR214", NOTE, STRICT, Needs.LIVE, Needs.HOST)
def index_preallocation(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """The preallocated indexes of active segments would take more than a tenth of the broker's log dirs.

    Why: every active segment has two index files of `segment.index.bytes` (10 MiB) until it rolls: 20 MiB for
    a partition. A file system with sparse files stores only what is written of them; others, and backups, take all.
    Source: Kafka, `AbstractIndex.resize`; documentation, `segment.index.bytes`.

    Bad:
        brokers: [{id: 1, log_dirs: [{path: /data, total_bytes: 100000000}]}]
        topics:
          - {name: orders, observed: {partitions: [{partition: 0, replicas: [1]}]}}

    Good:
        brokers: [{id: 1, log_dirs: [{path: /data, total_bytes: 1000000000000}]}]
        topics:
          - {name: orders, observed: {partitions: [{partition: 0, replicas: [1]}]}}
    """
    if not broker.is_broker:
        return
    total = sum(
        require_known(d.total_bytes, "sizes of log dirs")
        for d in require_known(broker.log_dirs or None, "sizes of log dirs")
    )
    if not has_partitions(cluster):
        raise InputMissing("the live cluster's partitions")
    taken = cluster.derive(_index_bytes_by_broker).get(broker.id, 0)
    if total > 0 and taken > INDEX_SHARE * total:
        replicas = cluster.derive(replicas_by_broker)[broker.id or 0]
        yield Violation(
            message=f"the indexes of {count_of(replicas, 'active segment')} take {format_bytes(taken)} apparent size, "
            f"{taken / total:.0%} of the log dirs ({format_bytes(total)})",
            key="log.index.size.max.bytes",
        )


def _index_bytes_by_broker(cluster: LintCluster) -> Mapping[int | None, int]:
    found: Counter[int | None] = Counter()
    for topic in cluster.topics:
        each = 2 * settings_of(topic).index_bytes
        for partition in topic.partition_facts or ():
            for replica in partition.replicas:
                found[replica] += each
    return found


@cluster_rule("KKR215", NOTE, STRICT, fix=Fix.UNSAFE)
def preallocate_on(cluster: LintCluster, limits: Limits) -> Violations:
    """Segments are preallocated at their full size.

    Why: `preallocate` reserves segment.bytes (1 GiB) for each partition at once, on Linux without a gain; it was
    made for NTFS.
    Source: Kafka documentation, `preallocate`.

    Bad:
        topics:
          - {name: orders, partitions: 6, config: {preallocate: "true"}}

    Good:
        topics:
          - {name: orders, partitions: 6, config: {preallocate: "false"}}
    """
    for holder, key, declared in set_values(cluster, "preallocate", ("log.preallocate",)):
        if declared.text.strip().lower() != "true":
            continue
        reserved = ""
        if isinstance(holder, LintTopic) and holder.partitions is not None:
            reserved = f", {format_bytes(holder.partitions * settings_of(holder).segment_bytes)} a copy of the topic"
        yield set_to(key, "false", f"every segment reserves its full size up front{reserved}", about=holder)
