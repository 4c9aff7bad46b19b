"""M: rules of message size, of the kind of timestamps, of compression, and of what batches on disk show.

Which zstd batches librdkafka can read is a port of the loop in `rdkafka_zstd.c` that guesses the size of the output.
The buffer begins with the content size of the frame, or with twice the compressed size if the frame has none, and grows
to three times its size (by 4,000 bytes at least) until the batch fits or `receive.message.max.bytes` is passed. A batch
that no size on the way fits is reported as BAD_COMPRESSION, at every attempt: the partition stalls.
"""

from collections.abc import Iterator

from kafkakit.core.findings import shorten
from kafkakit.core.quantities import count_of, format_bytes, format_rate, format_span
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
    set_to,
    topic_rule,
)
from kafkakit.rules.subjects import LintCluster, LintTopic, require_known

KEY = "max.message.bytes"
FETCH_FACTOR = 4
"""How many times a soft fetch limit a batch may be before it is worth a note: the defaults are 1.00001 of theirs."""


@topic_rule("KKM401", ERROR, CORE, fix=Fix.UNSAFE, of_defaults=("socket.request.max.bytes",))
def batch_above_socket_limit(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """`max.message.bytes` is above `socket.request.max.bytes`, the largest request that a broker receives.

    Why: a produce request is larger than the batch in it. A broker closes the connection of a request above
    socket.request.max.bytes (100 MiB by default), so no batch of the allowed size can ever be written.
    Source: Kafka documentation, `socket.request.max.bytes`; `NetworkReceive`.

    Bad:
        config: {socket.request.max.bytes: "1048576"}
        brokers: [{id: 1}]
        topics:
          - {name: images, config: {max.message.bytes: "2097152"}}

    Good:
        config: {socket.request.max.bytes: "104857600"}
        brokers: [{id: 1}]
        topics:
          - {name: images, config: {max.message.bytes: "2097152"}}
    """
    batch = topic.config.sure_number(KEY)
    socket = topic.config.broker.given().number("socket.request.max.bytes")
    if batch is not None and socket is not None and batch > socket:
        yield Violation(
            message=f"batches of up to {format_bytes(batch)} are allowed, but brokers receive no request above "
            f"{format_bytes(socket)} (socket.request.max.bytes)",
            key=KEY,
            expected=f"at most {socket}",
            edits=(Edit(KEY, str(socket)),),
        )


@topic_rule("KKM402", NOTE, CORE, fix=Fix.UNSAFE, of_defaults=("replica.fetch.max.bytes",))
def batch_vs_replica_fetch(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A batch may be far larger than what followers ask for in one fetch.

    Why: since KIP-74 a fetch returns its first batch whatever its size, so replication works, and being a little
    above replica.fetch.max.bytes is harmless (Kafka's own defaults are: 1,048,588 against 1,048,576). A batch above
    replica.fetch.response.max.bytes (10 MiB) or above 4 times replica.fetch.max.bytes makes every such fetch a
    single batch of a single partition: followers of the other partitions wait.
    Source: KIP-74; Kafka documentation, `replica.fetch.max.bytes`.

    Bad:
        config: {replica.fetch.max.bytes: "1048576"}
        brokers: [{id: 1}]
        topics:
          - {name: images, config: {max.message.bytes: "8388608"}}

    Good:
        config: {replica.fetch.max.bytes: "8388608"}
        brokers: [{id: 1}]
        topics:
          - {name: images, config: {max.message.bytes: "8388608"}}
    """
    batch = topic.config.sure_number(KEY)
    broker = topic.config.broker.given()
    response = broker.number("replica.fetch.response.max.bytes")
    fetch = broker.number("replica.fetch.max.bytes")
    if batch is None or response is None or fetch is None:
        return
    if batch > response:
        limit, name = response, "replica.fetch.response.max.bytes"
    elif batch > FETCH_FACTOR * fetch:
        limit, name = FETCH_FACTOR * fetch, f"{FETCH_FACTOR} times replica.fetch.max.bytes"
    else:
        return
    yield Violation(
        message=f"batches of up to {format_bytes(batch)} are allowed, above {format_bytes(limit)} ({name}): "
        "followers still copy them, one batch of one partition a fetch",
        key=KEY,
        expected=f"at most {limit}",
        edits=(Edit(KEY, str(min(response, FETCH_FACTOR * fetch))),),
    )


@topic_rule("KKM403", NOTE, STRICT)
def batch_vs_consumer_fetch(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A batch may be far larger than what consumers ask for in one fetch.

    Why: since KIP-74 consumers still make progress, one batch a fetch, but each takes the memory of a whole batch for
    a partition, where its settings promise a quarter of that or less. The plain comparison with
    max.partition.fetch.bytes would report Kafka's own defaults.
    Source: KIP-74; Kafka documentation, consumer `fetch.max.bytes` and `max.partition.fetch.bytes`.
    Options: consumer_fetch_bytes (52428800), consumer_partition_fetch_bytes (1048576).

    Bad:
        topics:
          - {name: images, config: {max.message.bytes: "8388608"}}

    Good:
        topics:
          - {name: images, config: {max.message.bytes: "2097152"}}
    """
    batch = topic.config.sure_number(KEY)
    limit = min(limits.consumer_fetch_bytes, FETCH_FACTOR * limits.consumer_partition_fetch_bytes)
    if batch is not None and batch > limit:
        yield Violation(
            message=f"batches of up to {format_bytes(batch)} are allowed, above {format_bytes(limit)}, "
            "what consumers plan for (fetch.max.bytes, 4 times max.partition.fetch.bytes)",
            key=KEY,
            expected=f"at most {limit}",
        )


@topic_rule("KKM404", WARNING, STRICT)
def large_message_topic(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A topic allows very large batches.

    Why: brokers and clients hold whole batches in their heap, and one of 10 MiB takes the place of 2,500 pages of
    other topics in the page cache. Large objects belong in an object store, with a reference in the record.
    Source: Kafka documentation, `max.message.bytes`; utilitywarehouse tflint ruleset (3 MiB).
    Options: large_message_bytes (10485760).

    Bad:
        topics:
          - {name: images, config: {max.message.bytes: "20971520"}}

    Good:
        topics:
          - {name: images, config: {max.message.bytes: "3145728"}}
    """
    batch = topic.config.sure_number(KEY)
    if batch is not None and batch > limits.large_message_bytes:
        yield Violation(
            message=f"batches of up to {format_bytes(batch)} are allowed, above "
            f"{format_bytes(limits.large_message_bytes)}",
            key=KEY,
            expected=f"at most {limits.large_message_bytes}",
        )


@topic_rule("KKM405", ERROR, CORE, Needs.FILE, Needs.PLAN)
def size_rollout_order(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A change raises `max.message.bytes` above what followers or consumers are known to fetch.

    Why: the order of such a change is consumers, then brokers, then the topic and its producers. When the topic is
    first, clients meet batches that they were not sized for; some (librdkafka with a small
    receive.message.max.bytes) stop at the first one.
    Source: Datadog, "Lessons learned from running Kafka" (2019).
    Options: consumer_partition_fetch_bytes (1048576), consumer_fetch_bytes (52428800), receive_message_bytes
    (100000000): raise them once the consumers have been rolled out.

    Bad:
        topics:
          - name: images
            config: {max.message.bytes: "4194304"}
            observed: {current: {max.message.bytes: "1048576"}}

    Good:
        topics:
          - name: images
            config: {max.message.bytes: "1048576"}
            observed: {current: {max.message.bytes: "524288"}}
    """
    current = require_known(topic.current, "a change to compare with")
    wanted = topic.config.sure_number(KEY)
    before = current[KEY] if KEY in current else topic.config.broker.given().text("message.max.bytes")
    if wanted is None or not before.isdigit() or wanted <= int(before):
        return
    known_limits = [
        ("max.partition.fetch.bytes of consumers", limits.consumer_partition_fetch_bytes),
        ("fetch.max.bytes of consumers", limits.consumer_fetch_bytes),
        ("receive.message.max.bytes of librdkafka", limits.receive_message_bytes),
    ]
    if topic.config.broker.is_known:
        followers = topic.config.broker.number("replica.fetch.max.bytes")
        known_limits += [("replica.fetch.max.bytes of brokers", followers)] if followers is not None else []
    passed = [f"{name} ({format_bytes(limit)})" for name, limit in known_limits if wanted > limit]
    if passed:
        yield Violation(
            message=f"the change raises batches from {format_bytes(int(before))} to {format_bytes(wanted)}, above "
            f"{', '.join(passed)}: consumers and brokers have to be changed first",
            key=KEY,
            hint="roll out consumers, then brokers, then this topic, then producers",
        )


@topic_rule("KKM412", NOTE, STRICT)
def log_append_time_on_event_topic(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A topic labelled `event_time` lets brokers overwrite the time of events.

    Why: with `message.timestamp.type=LogAppendTime` the broker replaces each record's timestamp by the time of its
    arrival: windows, joins and replays by event time count wrongly, without an error.
    Source: Kafka documentation, `message.timestamp.type`.

    Bad:
        topics:
          - {name: clicks, labels: [event_time], config: {message.timestamp.type: LogAppendTime}}

    Good:
        topics:
          - {name: clicks, labels: [event_time], config: {message.timestamp.type: CreateTime}}
    """
    key = "message.timestamp.type"
    if "event_time" in topic.labels and topic.config.sure_text(key) == "LogAppendTime":
        yield Violation(
            message="the topic is labelled event_time, but brokers replace each event's time by its arrival time",
            key=key,
            expected="CreateTime",
        )


COMPRESSION = "compression.type"
HOT_BYTES_S = 1e6
HOT_ZSTD_LEVEL = 12
HOT_GZIP_LEVEL = 9
ASSUMED_RATIO = 20.0


@topic_rule("KKM406", WARNING, STRICT, Needs.FILE, Needs.LIVE, fix=Fix.UNSAFE)
def broker_recompression(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """Brokers compress again what producers have compressed with another codec.

    Why: if the topic's codec is not the producer's, the leader decompresses and compresses every batch on its
    request threads, and no batch is copied as it came.
    Source: Kafka, `LogValidator`; documentation, `compression.type`.

    Bad:
        topics:
          - {name: clicks, config: {compression.type: zstd}, observed: {codec: lz4}}

    Good:
        topics:
          - {name: clicks, config: {compression.type: producer}, observed: {codec: lz4}}
    """
    wanted = topic.config.sure_text(COMPRESSION)
    if wanted in ("producer", ""):
        return
    codec = require_known(topic.facts.codec, "the codec of producers")
    if codec != wanted.replace("uncompressed", "none"):
        yield set_to(
            COMPRESSION, "producer", f"producers send {codec} batches, which brokers decompress and write as {wanted}"
        )


@topic_rule("KKM407", NOTE, STRICT, fix=Fix.UNSAFE)
def compression_level_hot(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """Brokers compress a topic at a very high level.

    Why: the level matters if brokers compress themselves. zstd above level 12, and gzip at level 9, take several
    times the processor time of the default level for a few percent of size, on the request threads of the leader.
    Source: KIP-390; zstd's published benchmark.

    Bad:
        topics:
          - {name: clicks, config: {compression.type: zstd, compression.zstd.level: "19"}}

    Good:
        topics:
          - {name: clicks, config: {compression.type: zstd, compression.zstd.level: "3"}}
    """
    codec = topic.config.sure_text(COMPRESSION)
    if codec == "zstd":
        key, hot, usual = "compression.zstd.level", HOT_ZSTD_LEVEL, "3"
    elif codec == "gzip":
        key, hot, usual = "compression.gzip.level", HOT_GZIP_LEVEL - 1, "-1"
    else:
        return
    level = topic.config.sure_number(key)
    if level is not None and level > hot:
        yield set_to(
            key,
            usual,
            f"brokers compress with {codec} at level {level}, several times the processor time of the default",
        )


@topic_rule("KKM408", NOTE, STRICT, Needs.LIVE, Needs.METRICS, Needs.SEGMENTS)
def uncompressed_volume(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A topic of more than 1 MB/s holds uncompressed batches.

    Why: every byte is sent over the network once for each replica and each group, and kept on each replica's disk;
    text and JSON compress to a fifth or less.
    Source: superstream Kafka analyzer.

    Bad:
        topics:
          - name: clicks
            observed:
              codec: none
              partitions: [{partition: 0, replicas: [1], bytes_s: 5000000.0}]

    Good:
        topics:
          - name: clicks
            observed:
              codec: lz4
              partitions: [{partition: 0, replicas: [1], bytes_s: 5000000.0}]
    """
    if require_known(topic.facts.codec, "the codec of producers") != "none":
        return
    require_known(topic.rates_bytes_s(), "append rates")
    rate = sum(p.bytes_s or 0.0 for p in topic.partition_facts or ())
    if rate > HOT_BYTES_S:
        replicas = max((len(p.replicas) for p in topic.partition_facts or ()), default=1)
        yield Violation(
            message=f"{format_rate(rate)} are written uncompressed, and kept by {count_of(replicas, 'replica')}",
            hint="set compression.type of the producers, lz4 or zstd",
        )


@topic_rule("KKM409", WARNING, CORE, Needs.FILE, Needs.SEGMENTS)
def decompression_budget(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """One batch may decompress to more than a consumer's memory.

    Why: `max.message.bytes` limits compressed bytes. One record of 64 MiB of a single value is a batch of 2,137
    bytes, 31,000 times smaller. Without an audit of segments a ratio of 20 is assumed.
    Source: measured; Kafka, `CompressionRatioEstimator` has no floor.
    Options: consumer_memory_bytes (268435456).

    Bad:
        topics:
          - name: clicks
            config: {max.message.bytes: "10485760"}
            observed: {compression_ratio: 40.0}

    Good:
        topics:
          - name: clicks
            config: {max.message.bytes: "1048588"}
            observed: {compression_ratio: 40.0}
    """
    batch = topic.config.sure_number("max.message.bytes")
    if batch is None:
        return
    seen = topic.facts.compression_ratio
    ratio = ASSUMED_RATIO if seen is None else seen
    if batch * ratio > limits.consumer_memory_bytes:
        basis = "assumed" if seen is None else "seen in 999 of 1,000 batches at most"
        yield Violation(
            message=f"a batch of {format_bytes(batch)} may decompress to {format_bytes(int(batch * ratio))} "
            f"(ratio {ratio:g}, {basis}), above a consumer's {format_bytes(limits.consumer_memory_bytes)}",
            key="max.message.bytes",
            expected=f"at most {int(limits.consumer_memory_bytes / ratio)}",
        )


@topic_rule("KKM410", ERROR, CORE, Needs.SEGMENTS)
def rdkafka_undecodable_batch(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A zstd batch cannot be read by clients built on librdkafka.

    Why: librdkafka tries output buffers of 2, 6, 18, 54 ... times the compressed size (or of the frame's content size)
    up to receive.message.max.bytes. A batch between two sizes of which the second is above the limit is never
    decoded, even if it is below the limit: the client reports BAD_COMPRESSION and the partition stalls. With 1 MB
    compressed and the default limit of 100 MB, everything above 54 MB stalls.
    Source: librdkafka, `rdkafka_zstd.c`; issues 3950, 5260, 5595.
    Options: receive_message_bytes (100000000).

    Bad:
        topics:
          - name: clicks
            observed:
              batches: [{partition: 3, offset: 71, compressed_bytes: 1000000, decompressed_bytes: 60000000}]

    Good:
        topics:
          - name: clicks
            observed:
              batches: [{partition: 3, offset: 71, compressed_bytes: 1000000, decompressed_bytes: 54000000}]
    """
    batches = require_known(topic.facts.batches, "a segment audit")
    limit = limits.receive_message_bytes
    unread = [
        b
        for b in batches
        if b.codec == "zstd" and not is_decodable(b.compressed_bytes, b.decompressed_bytes, b.content_size, limit)
    ]
    if not unread:
        return
    worst = max(unread, key=lambda b: b.decompressed_bytes)
    most = largest_output(worst.compressed_bytes, worst.content_size, limit)
    tried = f"tries at most {most:,} bytes" if most is not None else "tries nothing"
    yield Violation(
        message=f"librdkafka cannot read {count_of(len(unread), 'batch', 'batches')} "
        f"({shorten([f'partition {b.partition} offset {b.offset}' for b in unread])}): the largest decompresses from "
        f"{worst.compressed_bytes:,} to {worst.decompressed_bytes:,} bytes, and librdkafka {tried} "
        f"(receive.message.max.bytes {limit:,})",
        hint="raise receive.message.max.bytes of the clients, and lower batch.size of the producer",
    )


@topic_rule("KKM411", WARNING, STRICT, Needs.SEGMENTS)
def timestamp_skew(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """Timestamps of records are far from the time at which they were appended.

    Why: retention, the rolling of segments, the search of offsets by time and lag in seconds all go by the records'
    own timestamps: with skewed ones data is deleted early or late, and lag is wrong.
    Source: Kafka, `LogSegment.largestTimestamp`, `TimeIndex`.
    Options: timestamp_skew_s (3600).

    Bad:
        topics:
          - {name: clicks, observed: {timestamp_skew_s: 90000.0}}

    Good:
        topics:
          - {name: clicks, observed: {timestamp_skew_s: 12.0}}
    """
    skew = abs(require_known(topic.facts.timestamp_skew_s, "a segment audit"))
    if skew > limits.timestamp_skew_s:
        yield Violation(
            message=f"records are stamped up to {format_span(skew)} away from when they were appended, "
            f"more than {format_span(limits.timestamp_skew_s)}",
            hint="correct the clocks or the clients, or set message.timestamp.before.max.ms and .after.max.ms",
        )


RECEIVE_MESSAGE_MAX_BYTES = 100_000_000
"""librdkafka's default of `receive.message.max.bytes`."""
_LEAST_GROWTH = 4_000


def output_sizes(compressed_bytes: int, content_size: int | None, limit: int) -> Iterator[int]:
    """The sizes in bytes that librdkafka tries, at most `limit`, smallest first; at most about 60."""
    size = 2 * compressed_bytes if content_size is None else content_size
    while size <= limit:
        yield size
        size += max(2 * size, _LEAST_GROWTH)


def largest_output(compressed_bytes: int, content_size: int | None, limit: int) -> int | None:
    """The most bytes that a batch may decompress to and be read; None where no size is tried at all."""
    return max(output_sizes(compressed_bytes, content_size, limit), default=None)


def is_decodable(
    compressed_bytes: int, decompressed_bytes: int, content_size: int | None, limit: int = RECEIVE_MESSAGE_MAX_BYTES
) -> bool:
    """True when librdkafka reads a zstd batch with these sizes in bytes."""
    return any(size >= decompressed_bytes for size in output_sizes(compressed_bytes, content_size, limit))
