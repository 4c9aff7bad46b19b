"""B: rules of brokers: partitions, log dirs, threads, throttles left behind, connections, file handles.

File descriptors and memory maps are checked as they are now and as they are after a change.
"""

from collections.abc import Iterator

from kafkakit.core.findings import Severity, shorten
from kafkakit.core.quantities import count_of, format_bytes, format_rate
from kafkakit.core.text import ShellCommand, shell_command
from kafkakit.rules.cluster_facts import declared_replicas, has_partitions, replicas_by_broker, with_brokers
from kafkakit.rules.effective import InputMissing
from kafkakit.rules.retention import UNCOUNTED, changed_topics, descriptors, maps, segments_after, segments_before
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
)
from kafkakit.rules.subjects import HostFacts, LintBroker, LintCluster, require_known

PARTITIONS_A_DIR = 2_000
CACHE_WINDOW_S = 30.0
NO_LIMIT = 2**31 - 1
CONNECTION_LIMITS = ("max.connections", "max.connections.per.ip", "max.connection.creation.rate")
MSK_CEILING = 1.5
MSK_PARTITIONS = {"small": 300, "medium": 1_000, "large": 1_000, "xlarge": 1_000, "2xlarge": 2_000}
"""Replicas a broker for the sizes of Amazon MSK; larger ones hold `MSK_LARGEST`."""
MSK_LARGEST = 4_000
THROTTLE_RATES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
THROTTLED_REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
MEAN_ADVICE = "add brokers, or give topics fewer partitions: other places for replicas do not change the mean"


def _limit_command(most: int) -> ShellCommand:
    """The command that leaves each broker at most so many replicas."""
    return shell_command(
        "topicmappr rebalance", topics=".*", brokers=-2, band="10%", max_replicas=most, best_effort=True
    )


@cluster_rule("KKB504", WARNING, CORE, Needs.LIVE)
def partitions_per_broker(cluster: LintCluster, limits: Limits) -> Violations:
    """A broker holds more replicas than it is known to bear.

    Why: above about 4,000 replicas a broker's restart, its leader elections and its metadata requests take minutes.
    Amazon MSK supports 300 replicas on small brokers, 1,000 on large and xlarge ones, 2,000 on 2xlarge and 4,000
    above; at 1.5 times that it refuses updates of brokers (reported as an error). Without the live cluster the mean
    of the declared replicas over the brokers is compared.
    Source: AWS, "Best practices for Standard brokers".
    Options: partitions_per_broker (4000), for brokers of no known platform.

    Bad:
        brokers: [{id: 1, host: {platform: "msk:kafka.t3.small"}}]
        topics:
          - {name: orders, partitions: 400, replication_factor: 1}

    Good:
        brokers: [{id: 1, host: {platform: "msk:kafka.m5.4xlarge"}}]
        topics:
          - {name: orders, observed: {partitions: [{partition: 0, replicas: [1]}]}}
    """
    if has_partitions(cluster):
        for broker, number in with_brokers(replicas_by_broker(cluster), cluster):
            most = _most_replicas(broker, limits)
            if number > most:
                yield Violation(
                    message=f"the broker holds {count_of(number, 'replica')}, {_above_text(broker, most)}",
                    severity=_severity_beyond(broker, number, most),
                    about=broker,
                    hint=f"add brokers, or move replicas with `{_limit_command(most)}`",
                )
        return
    mean = declared_replicas(cluster) / cluster.broker_number
    largest = max(cluster.data_brokers, key=lambda b: _most_replicas(b, limits), default=None)
    most = limits.partitions_per_broker if largest is None else _most_replicas(largest, limits)
    if mean <= most:
        raise InputMissing("the live cluster's partitions")
    yield Violation(
        message=f"the declared topics make {mean:,.0f} replicas a broker in the mean, "
        + (f"above {most:,}" if largest is None else _above_text(largest, most)),
        severity=None if largest is None else _severity_beyond(largest, mean, most),
        hint=MEAN_ADVICE,
    )


@broker_rule("KKB505", ERROR, CORE)
def log_dirs_in_tmp(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A broker keeps its data below `/tmp`, as it does when no log dir is set.

    Why: Kafka's default is log.dir=/tmp/kafka-logs. The system deletes files in /tmp at a restart or after days
    without access, and with them all partitions of the broker. A container for development has a /tmp of its own.
    Source: Kafka documentation, `log.dir`, `log.dirs`.

    Bad:
        brokers: [{id: 1, config: {num.io.threads: "8"}}]

    Good:
        brokers: [{id: 1, config: {log.dirs: "/var/lib/kafka/a,/var/lib/kafka/b"}}]
    """
    if not broker.is_broker or (broker.in_container and cluster.env == "dev"):
        return
    paths = log_dir_paths(broker)
    lost = [path for path in paths if path == "/tmp" or path.startswith("/tmp/")]
    if lost:
        key = "log.dirs" if broker.config.text("log.dirs") else "log.dir"
        is_set = broker.config.declared(key) is not None
        yield Violation(
            message=f"data is under {', '.join(lost)}, which is wiped at reboot"
            + ("" if is_set else " (Kafka's default, no log dir is set)"),
            key=key if is_set else "log.dirs",
            observed=",".join(paths),
            expected="a folder on a volume for data",
        )


@broker_rule("KKB516", ERROR, CORE)
def ephemeral_storage(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A node keeps its data on storage that goes with its pod (production).

    Why: each restart of the pod, also of a rolling update, empties the node: its replicas are copied again from other
    brokers, and what only this one had is lost. A controller loses the cluster's metadata with it.
    Source: Strimzi documentation, "Ephemeral storage".

    Bad:
        brokers: [{id: 1, log_dirs: [{path: /var/lib/kafka/data, is_ephemeral: true}]}]

    Good:
        brokers: [{id: 1, log_dirs: [{path: /var/lib/kafka/data}]}]
    """
    if cluster.is_prod and any(part.is_ephemeral for part in broker.log_dirs):
        yield Violation(
            message="the storage is ephemeral: each restart of a pod deletes all its replicas",
            subject="storage",
            expected="persistent-claim",
        )


@broker_rule("KKB517", ERROR, CORE)
def heap_above_memory(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """The heap may become as large as the memory that the machine or the pod has.

    Why: the system kills the process once the heap is used, and until then nothing is left for the page cache, which
    serves most reads of Kafka.
    Source: Kafka documentation, "Hardware and OS"; Kubernetes documentation, memory limits.

    Bad:
        brokers: [{id: 1, host: {memory_bytes: 4294967296, heap_bytes: 8589934592}}]

    Good:
        brokers: [{id: 1, host: {memory_bytes: 34359738368, heap_bytes: 6442450944}}]
    """
    memory, heap = broker.host.memory_bytes, broker.host.heap_bytes
    if memory is not None and heap is not None and heap >= memory:
        yield Violation(
            message=f"the heap may have {format_bytes(heap)} of {format_bytes(memory)} of memory: "
            "the broker is killed once it needs them",
            subject="heap",
            expected=f"a heap of at most {format_bytes(memory // 2)}",
        )


@cluster_rule("KKB506", NOTE, STRICT, Needs.FILE, Needs.LIVE, fix=Fix.UNSAFE)
def recovery_threads(cluster: LintCluster, limits: Limits) -> Violations:
    """Brokers with many partitions on a log dir recover them with one thread.

    Why: after an unclean stop the broker reads the last segments of every partition of a log dir before it serves,
    one after another for each thread. Kafka 4.0 raised the default of num.recovery.threads.per.data.dir from 1 to 2.
    Source: KIP-1030.

    Bad:
        brokers: [{id: 1, config: {num.recovery.threads.per.data.dir: "1", log.dirs: /data/kafka}}]
        topics: [{name: orders, partitions: 3000, replication_factor: 1}]

    Good:
        brokers: [{id: 1, config: {num.recovery.threads.per.data.dir: "4", log.dirs: /data/kafka}}]
        topics: [{name: orders, partitions: 3000, replication_factor: 1}]
    """
    key = "num.recovery.threads.per.data.dir"
    slow = [b for b in cluster.data_brokers if b.config.given().number(key) == 1]
    if not slow:
        return
    counts = replicas_by_broker(cluster) if has_partitions(cluster) else None
    mean = 0.0 if counts is not None else declared_replicas(cluster) / cluster.broker_number
    for broker in slow:
        number = mean if counts is None else float(counts[require_known(broker.id, "ids of brokers")])
        dirs = max(len(log_dir_paths(broker)), 1)
        if number <= PARTITIONS_A_DIR * dirs:
            continue
        yield set_to(
            key,
            "4",
            f"one thread a log dir recovers {number / dirs:,.0f} partitions after an unclean stop",
            about=broker,
        )


@broker_rule("KKB507", NOTE, STRICT, Needs.FILE, Needs.HOST, fix=Fix.UNSAFE)
def io_threads_vs_disks(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A broker has fewer I/O threads than log dirs.

    Why: each of num.io.threads works on one disk at a time, so some disks always wait.
    Source: kafkacfg; Strimzi, "Broker configuration tuning".

    Bad:
        brokers: [{id: 1, config: {num.io.threads: "2", log.dirs: "/d1,/d2,/d3"}}]

    Good:
        brokers: [{id: 1, config: {num.io.threads: "8", log.dirs: "/d1,/d2,/d3"}}]
    """
    if not broker.is_broker:
        return
    threads = broker.config.given().number("num.io.threads")
    dirs = len(log_dir_paths(broker))
    if threads is not None and threads < dirs:
        yield Violation(
            message=f"{count_of(threads, 'thread')} for input and output must serve {dirs} log dirs",
            key="num.io.threads",
            expected=f"at least {dirs}",
            edits=(Edit("num.io.threads", str(max(8, dirs))),),
        )


@cluster_rule("KKB510", WARNING, CORE, Needs.LIVE, fix=Fix.UNSAFE)
def leftover_throttle(cluster: LintCluster, limits: Limits) -> Violations:
    """A throttle of replication is set while no partition moves.

    Why: a throttle that a finished reassignment left behind slows every replica that has to catch up later, after a
    restart or a failed disk, and keeps partitions out of sync for hours.
    Source: topicctl, "throttles clear"; Kafka, KIP-73.

    Bad:
        brokers: [{id: 1, dynamic: {follower.replication.throttled.rate: "10000000"}}]
        observed: {moves_running: false}

    Good:
        brokers: [{id: 1, dynamic: {follower.replication.throttled.rate: "10000000"}}]
        observed: {moves_running: true}
    """
    if require_known(cluster.moves_running, "whether partitions move"):
        return
    hint = "remove it with `kafkakit reassign cleanup --all`"
    for broker in cluster.brokers:
        for key in THROTTLE_RATES:
            declared = broker.config.dynamic.get(key) or broker.config.dynamic_default.get(key)
            if declared is None or not declared.text.strip().isdigit():
                continue
            yield Violation(
                message=f"{key} is {format_rate(int(declared.text))}, and no partition moves",
                key=key,
                about=broker,
                hint=hint,
                edits=(Edit(key),),
            )
    for topic in cluster.topics:
        for key in THROTTLED_REPLICAS:
            override = topic.config.overrides.get(key)
            if override is None or not override.text.strip():
                continue
            yield Violation(f"{key} is set, and no partition moves", key, about=topic, hint=hint, edits=(Edit(key),))


@broker_rule("KKB511", NOTE, STRICT, Needs.METRICS, Needs.HOST)
def page_cache_window(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """A broker's page cache holds less than 30 seconds of its writes.

    Why: consumers that keep up read from the page cache. Memory beyond the heap should hold at least 30 s of what the
    broker writes, or they read from disk and disturb the writes.
    Source: Kafka documentation, "Hardware and OS".

    Bad:
        brokers: [{id: 1, host: {memory_bytes: 8000000000, heap_bytes: 6000000000, write_bytes_s: 200000000.0}}]

    Good:
        brokers: [{id: 1, host: {memory_bytes: 64000000000, heap_bytes: 6000000000, write_bytes_s: 200000000.0}}]
    """
    if not broker.is_broker:
        return
    memory = require_known(broker.host.memory_bytes, "memory of brokers")
    heap = require_known(broker.host.heap_bytes, "heap sizes of brokers")
    rate = require_known(broker.host.write_bytes_s, "write rates of brokers")
    if rate > 0 and memory - heap < CACHE_WINDOW_S * rate:
        yield Violation(
            message=f"{format_bytes(memory - heap)} beside the heap hold {(memory - heap) / rate:.0f} s of "
            f"{format_rate(rate)}, less than {CACHE_WINDOW_S:.0f} s",
            hint="give the broker more memory or fewer leaders; a heap above 6 GiB is seldom needed",
        )


@broker_rule("KKB512", NOTE, STRICT, fix=Fix.UNSAFE)
def unbounded_connections(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """Brokers of a cluster labelled `multi_tenant` accept connections without any limit.

    Why: one client that reconnects in a loop occupies the acceptor and the TLS handshakes of all tenants, and takes
    a file descriptor for each connection.
    Source: KIP-402, KIP-612.

    Bad:
        labels: [multi_tenant]
        brokers: [{id: 1, config: {max.connections: "2147483647"}}]

    Good:
        labels: [multi_tenant]
        brokers: [{id: 1, config: {max.connection.creation.rate: "100"}}]
    """
    if "multi_tenant" not in cluster.labels or not broker.is_broker:
        return
    config = broker.config.given()
    if all(config.number(key) == NO_LIMIT for key in CONNECTION_LIMITS):
        key = CONNECTION_LIMITS[-1]
        yield set_to(
            key,
            "100",
            "many tenants share the cluster, and neither the number of connections nor the rate of new ones "
            "has a limit",
        )


@cluster_rule("KKB513", NOTE, STRICT, Needs.FILE, Needs.METRICS, fix=Fix.UNSAFE)
def fetch_session_cache(cluster: LintCluster, limits: Limits) -> Violations:
    """The cache of fetch sessions is smaller than the number of followers and consumers.

    Why: a fetcher without a session sends all of its partitions in each request instead of what changed, and evicts
    the session of another one.
    Source: KIP-227.

    Bad:
        brokers:
          - {id: 1, config: {max.incremental.fetch.session.cache.slots: "100"}}
          - {id: 2, config: {max.incremental.fetch.session.cache.slots: "100"}}
        observed: {groups: [{name: billing, topics: [orders], members: 400}]}

    Good:
        brokers: [{id: 1, config: {max.incremental.fetch.session.cache.slots: "1000"}}]
        observed: {groups: [{name: billing, topics: [orders], members: 400}]}
    """
    key = "max.incremental.fetch.session.cache.slots"
    groups = require_known(cluster.groups, "consumer groups")
    consumers = sum(require_known(g.members, "members of groups") for g in groups)
    followers = cluster.broker_number - 1
    for broker in cluster.data_brokers:
        config = broker.config.given()
        slots, fetchers = config.number(key), config.number("num.replica.fetchers")
        if slots is None or fetchers is None or slots >= (needed := followers * fetchers + consumers):
            continue
        wanted = str(-(-needed // 1_000) * 1_000)
        yield Violation(
            message=f"{count_of(slots, 'fetch session')} for {count_of(followers * fetchers, 'fetcher')} of other "
            f"brokers and {count_of(consumers, 'consumer')}",
            key=key,
            expected=f"at least {needed}",
            about=broker,
            edits=(Edit(key, wanted),),
        )


def log_dir_paths(broker: LintBroker) -> tuple[str, ...]:
    """The broker's log dirs: as observed, else by its configuration; `InputMissing` where neither is known."""
    if broker.log_dirs:
        return tuple(d.path for d in broker.log_dirs)
    config = broker.config.given()
    return config.items("log.dirs") or config.items("log.dir")


def msk_partitions(platform: str | None) -> int | None:
    """The replicas that a broker of Amazon MSK bears (`msk:kafka.m5.large`); None for other platforms."""
    if platform is None or not platform.startswith("msk:"):
        return None
    return MSK_PARTITIONS.get(platform.rpartition(".")[2], MSK_LARGEST)


def _most_replicas(broker: LintBroker, limits: Limits) -> int:
    return msk_partitions(broker.host.platform) or limits.partitions_per_broker


def _severity_beyond(broker: LintBroker, number: float, most: int) -> Severity | None:
    return ERROR if msk_partitions(broker.host.platform) and number > MSK_CEILING * most else None


def _above_text(broker: LintBroker, most: int) -> str:
    platform = broker.host.platform if msk_partitions(broker.host.platform) else None
    return f"above {most:,}" + (f" of {platform}" if platform else "")


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
    limit = require_known(broker.host.open_files, "limits of hosts")
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
    limit = require_known(broker.host.max_map_count, "limits of hosts")
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
    topics = shorten(changed_topics(cluster))
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
