"""B: rules of file descriptors and memory maps, now and after a change."""

from collections.abc import Iterator

from kafkakit.core.findings import shown
from kafkakit.rules.effective import InputMissing
from kafkakit.rules.retention import descriptors, maps
from kafkakit.rules.rule import CORE, ERROR, WARNING, Limits, Needs, broker_rule
from kafkakit.rules.segment_growth import UNCOUNTED, changed_topics, segments_after, segments_before
from kafkakit.rules.subjects import HostFacts, LintBroker, LintCluster, known
from kafkakit.rules.violation import Violation, Violations

FULL_SHARE = 0.8
LEAST_OPEN_FILES = 100_000


@broker_rule("KKB501", ERROR, CORE, Needs.LIVE, Needs.HOST)
def fd_budget(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A broker needs more file descriptors than its limit (above 80 % of it, or a limit below 100,000, is a warning).

    Why: a broker keeps one descriptor open for each segment, closed ones included, one for each transaction index, and
    one for each connection; with 1,000 for its own files. Out of descriptors it takes its log dirs offline. Segments
    are those counted in log dirs, else the most that retention leaves.
    Source: Kafka documentation, "Hardware and OS" (start at 100,000); `FileRecords`.

    Bad:
        config: {log.retention.ms: "86400000"}
        brokers: [{id: 1, host: {open_files: 16384, connections: 2000}}]
        topics: [{name: orders, partitions: 4000, replication_factor: 1, config: {segment.ms: "43200000"}}]

    Good:
        config: {log.retention.ms: "86400000"}
        brokers: [{id: 1, host: {open_files: 200000, connections: 2000}}]
        topics: [{name: orders, partitions: 4000, replication_factor: 1, config: {segment.ms: "43200000"}}]
    """
    if not broker.is_broker:
        return
    limit = known(broker.host.open_files, "limits of hosts")
    if limit < LEAST_OPEN_FILES:
        yield Violation(
            message=f"the limit of open files is {limit:,}, below {LEAST_OPEN_FILES:,}",
            severity=WARNING,
            subject="limit",
            hint="raise LimitNOFILE of the service (or nofile in limits.conf)",
        )
    totals = segments_after(cluster)
    segments, connections = totals.of(broker.id), broker.host.connections or 0
    needed = descriptors(segments, connections)
    if needed > FULL_SHARE * limit:
        yield Violation(
            message=f"{segments:,} segments, {connections:,} connections and 1,000 other files need "
            f"{needed:,} descriptors, {_share(needed, limit)}",
            severity=None if needed > limit else WARNING,
            subject="use",
            hint="raise the limit, or lengthen segment.ms of topics with many partitions",
        )
    elif not totals.is_complete(broker.id):
        raise InputMissing(UNCOUNTED)


@broker_rule("KKB502", ERROR, CORE, Needs.LIVE, Needs.HOST)
def mmap_budget(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A broker needs more memory maps than `vm.max_map_count` (above 80 % of it is a warning).

    Why: both indexes of each segment are mapped, so a broker needs 2 maps a segment and about 1,000 for the JVM. At the
    limit it stops with "OutOfMemoryError: Map failed", whatever memory is free. 4,000 partitions of 12 segments need
    97,000; Linux allows 65,530.
    Source: Kafka documentation, "Hardware and OS" (50,000 partitions, 100,000 maps); `AbstractIndex`.

    Bad:
        config: {log.retention.ms: "86400000"}
        brokers: [{id: 1, host: {max_map_count: 65530}}]
        topics: [{name: orders, partitions: 4000, replication_factor: 1, config: {segment.ms: "8400000"}}]

    Good:
        config: {log.retention.ms: "86400000"}
        brokers: [{id: 1, host: {max_map_count: 262144}}]
        topics: [{name: orders, partitions: 4000, replication_factor: 1, config: {segment.ms: "8400000"}}]
    """
    if not broker.is_broker:
        return
    limit = known(broker.host.max_map_count, "limits of hosts")
    totals = segments_after(cluster)
    segments = totals.of(broker.id)
    needed = maps(segments)
    if needed > FULL_SHARE * limit:
        yield Violation(
            message=f"{segments:,} segments and the JVM need {needed:,} memory maps, {_share(needed, limit)} "
            "(vm.max_map_count)",
            severity=None if needed > limit else WARNING,
            hint="raise vm.max_map_count to 262144 or more, or lengthen segment.ms of topics with many partitions",
        )
    elif not totals.is_complete(broker.id):
        raise InputMissing(UNCOUNTED)


@broker_rule("KKB503", ERROR, CORE, Needs.FILE, Needs.PLAN, Needs.METRICS, Needs.HOST)
def segment_growth_of_change(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A change of topics brings a broker above its file descriptors or memory maps (above 80 % is a warning).

    Why: shorter segments are the price of data that goes on time: halving segment.ms of all topics may double the
    segments of every broker. The limit is reached hours later, when the segments have been rolled.
    Source: KKB501, KKB502; Datadog, open handles after changes of segment.ms.

    Bad:
        config: {log.retention.ms: "86400000"}
        brokers: [{id: 1, host: {max_map_count: 65530}}]
        topics:
          - name: orders
            partitions: 4000
            replication_factor: 1
            config: {segment.ms: "3600000"}
            observed: {current: {segment.ms: "43200000"}}

    Good:
        config: {log.retention.ms: "86400000"}
        brokers: [{id: 1, host: {max_map_count: 262144}}]
        topics:
          - name: orders
            partitions: 4000
            replication_factor: 1
            config: {segment.ms: "14400000"}
            observed: {current: {segment.ms: "43200000"}}
    """
    if not broker.is_broker:
        return
    if all(t.current is None for t in cluster.topics):
        raise InputMissing("a change to compare with")
    if broker.host.open_files is None and broker.host.max_map_count is None:
        raise InputMissing("limits of hosts")
    before, after = segments_before(cluster).of(broker.id), segments_after(cluster).of(broker.id)
    if after <= before:
        return
    topics = shown(changed_topics(cluster))
    for what, was, needed, limit in _budgets(broker.host, before, after):
        full = needed > limit
        if was > limit or needed <= FULL_SHARE * limit or (not full and was > FULL_SHARE * limit):
            continue
        yield Violation(
            message=f"changing {topics} raises segments from {before:,} to {after:,}: that takes {needed:,} {what}, "
            f"{_share(needed, limit)}",
            severity=None if full else WARNING,
            subject=what,
            hint="raise the limit first, or change fewer topics",
        )


def _budgets(host: HostFacts, before: int, after: int) -> Iterator[tuple[str, int, int, int]]:
    """What is needed of each limit that is known: its name, before, after, limit."""
    if host.open_files is not None:
        connections = host.connections or 0
        yield "descriptors", descriptors(before, connections), descriptors(after, connections), host.open_files
    if host.max_map_count is not None:
        yield "memory maps", maps(before), maps(after), host.max_map_count


def _share(needed: int, limit: int) -> str:
    return f"{needed / limit:.0%} of {limit:,}" if limit > 0 else f"with a limit of {limit}"
