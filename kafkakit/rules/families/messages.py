"""M: rules of message size and of the kind of timestamps."""

from kafkakit.core.quantities import format_bytes
from kafkakit.rules.rule import CORE, ERROR, NOTE, STRICT, WARNING, Fix, Limits, Needs, topic_rule
from kafkakit.rules.subjects import LintCluster, LintTopic, known
from kafkakit.rules.violation import Edit, Violation, Violations

KEY = "max.message.bytes"
FETCH_FACTOR = 4
"""How many times a soft fetch limit a batch may be before it is worth a note: the defaults are 1.00001 of theirs."""


@topic_rule("KKM401", ERROR, CORE, fix=Fix.UNSAFE)
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


@topic_rule("KKM402", NOTE, CORE, fix=Fix.UNSAFE)
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
    current = known(topic.current, "a change to compare with")
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
            message="the topic is labelled event_time, but brokers replace each event's time by that of its arrival",
            key=key,
            expected="CreateTime",
        )
