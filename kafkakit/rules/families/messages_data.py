"""M: rules of compression, and of what batches and timestamps on disk show."""

from kafkakit.core.findings import shown
from kafkakit.core.quantities import counted, format_bytes, format_rate, format_span
from kafkakit.rules.rdkafka import is_decodable, largest_output
from kafkakit.rules.rule import CORE, ERROR, NOTE, STRICT, WARNING, Fix, Limits, Needs, topic_rule
from kafkakit.rules.subjects import LintCluster, LintTopic, known
from kafkakit.rules.violation import Violation, Violations, set_to

COMPRESSION = "compression.type"
HOT_BYTES_S = 1e6
HOT_ZSTD_LEVEL = 12
HOT_GZIP_LEVEL = 9
ASSUMED_RATIO = 20.0


@topic_rule("KKM406", WARNING, STRICT, Needs.FILE, Needs.LIVE, fix=Fix.UNSAFE)
def broker_recompression(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """Brokers compress again what producers have compressed with another codec.

    Why: where the topic's codec is not the producer's, the leader decompresses and compresses every batch on its
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
    codec = known(topic.facts.codec, "the codec of producers")
    if codec != wanted.replace("uncompressed", "none"):
        yield set_to(
            COMPRESSION, "producer", f"producers send {codec} batches, which brokers decompress and write as {wanted}"
        )


@topic_rule("KKM407", NOTE, STRICT, fix=Fix.UNSAFE)
def compression_level_hot(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """Brokers compress a topic at a very high level.

    Why: the level counts where brokers compress themselves. zstd above level 12, and gzip at level 9, take several
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
    if known(topic.facts.codec, "the codec of producers") != "none":
        return
    known(topic.rates_bytes_s(), "append rates")
    rate = sum(p.bytes_s or 0.0 for p in topic.partition_facts or ())
    if rate > HOT_BYTES_S:
        replicas = max((len(p.replicas) for p in topic.partition_facts or ()), default=1)
        yield Violation(
            message=f"{format_rate(rate)} are written uncompressed, and kept by {counted(replicas, 'replica')}",
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
    decoded, even where it is below the limit: the client reports BAD_COMPRESSION and the partition stalls. With 1 MB
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
    batches = known(topic.facts.batches, "a segment audit")
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
        message=f"librdkafka cannot read {counted(len(unread), 'batch', 'batches')} "
        f"({shown([f'partition {b.partition} offset {b.offset}' for b in unread])}): the largest decompresses from "
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
    skew = abs(known(topic.facts.timestamp_skew_s, "a segment audit"))
    if skew > limits.timestamp_skew_s:
        yield Violation(
            message=f"records are stamped up to {format_span(skew)} away from when they were appended, "
            f"more than {format_span(limits.timestamp_skew_s)}",
            hint="correct the clocks or the clients, or set message.timestamp.before.max.ms and .after.max.ms",
        )
