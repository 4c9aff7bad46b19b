"""E: rules of Kafka Connect workers: the topics that keep their configuration, offsets and status."""

from kafkakit.core.quantities import counted
from kafkakit.rules.connect_facts import number, same_cluster
from kafkakit.rules.effective import InputMissing
from kafkakit.rules.rule import CORE, ERROR, Fix, Limits, Needs, connector_rule, estate_rule
from kafkakit.rules.subjects import Estate, LintConnector
from kafkakit.rules.violation import Violation, Violations, set_to

STORES = ("config", "offset", "status")


@connector_rule("KKE021", ERROR, CORE, fix=Fix.UNSAFE)
def worker_storage_replication(connector: LintConnector, limits: Limits) -> Violations:
    """A worker's topics of configuration, offsets or status have fewer than 3 replicas.

    Why: with the offsets topic all connectors lose their positions: they take new snapshots, or skip changes.
    Source: Kafka documentation, `offset.storage.replication.factor`.
    Options: target_replication_factor (3).

    Bad:
        --- connect-distributed.properties
        bootstrap.servers=kafka-1:9092
        group.id=connect
        offset.storage.topic=connect-offsets
        offset.storage.replication.factor=1

    Good:
        --- connect-distributed.properties
        bootstrap.servers=kafka-1:9092
        group.id=connect
        offset.storage.topic=connect-offsets
        offset.storage.replication.factor=3
    """
    if not connector.is_worker:
        return
    for store in STORES:
        key = f"{store}.storage.replication.factor"
        replicas = number(connector, key)
        if replicas is not None and 0 < replicas < limits.target_replication_factor:
            yield set_to(
                key,
                str(limits.target_replication_factor),
                f"the topic of {_name(store)} is kept on {counted(replicas, 'broker')}",
            )


@connector_rule("KKE022", ERROR, CORE, Needs.FILE, Needs.LIVE)
def worker_storage_not_compacted(connector: LintConnector, limits: Limits) -> Violations:
    """A worker's topic of configuration, offsets or status is not compacted.

    Why: after retention.ms the position of a quiet connector is deleted: it takes a new snapshot, or skips changes
    (`snapshot.mode=no_data`). Workers refuse to start on such a topic since Kafka 2.8.
    Source: KAFKA-10340; Kafka documentation, "Connect, distributed mode".

    Bad:
        topics: [{name: connect-offsets, config: {cleanup.policy: delete}}]
        --- connect-distributed.properties
        bootstrap.servers=kafka-1:9092
        group.id=connect
        offset.storage.topic=connect-offsets

    Good:
        topics: [{name: connect-offsets, config: {cleanup.policy: compact}}]
        --- connect-distributed.properties
        bootstrap.servers=kafka-1:9092
        group.id=connect
        offset.storage.topic=connect-offsets
    """
    if not connector.is_worker:
        return
    topics = {t.name: t for t in connector.cluster.topics} if connector.cluster is not None else {}
    seen = False
    for store in STORES:
        key = f"{store}.storage.topic"
        topic = topics.get(connector.text(key) or "")
        if topic is None:
            continue
        seen = True
        if topic.policies != ("compact",):
            yield Violation(
                message=f"topic {topic.name} of {_name(store)} is not compacted alone (cleanup.policy "
                f"{','.join(topic.policies) or 'empty'}): what connectors have not written for a while is deleted",
                key=key,
                expected="cleanup.policy=compact",
            )
    if not seen and any(connector.text(f"{store}.storage.topic") for store in STORES):
        raise InputMissing("the topics of workers")


@estate_rule("KKE023", ERROR, CORE)
def worker_storage_shared(estate: Estate, limits: Limits) -> Violations:
    """Two groups of workers use one topic of configuration, offsets or status, or one group uses one for two of them.

    Why: each group reads the other's connectors, positions and states as its own: connectors run twice, and stop or
    start when the other group changes its own. Of two kinds of records in one topic, a worker cannot read one.
    Source: Kafka documentation, "Connect, distributed mode": the topics must be unique for each group.

    Bad:
        --- connect-a.properties
        bootstrap.servers=kafka-1:9092
        key.converter=org.apache.kafka.connect.json.JsonConverter
        group.id=connect-a
        offset.storage.topic=connect-offsets
        --- connect-b.properties
        bootstrap.servers=kafka-1:9092
        key.converter=org.apache.kafka.connect.json.JsonConverter
        group.id=connect-b
        offset.storage.topic=connect-offsets

    Good:
        --- connect-a.properties
        bootstrap.servers=kafka-1:9092
        key.converter=org.apache.kafka.connect.json.JsonConverter
        group.id=connect-a
        offset.storage.topic=connect-a-offsets
        --- connect-b.properties
        bootstrap.servers=kafka-1:9092
        key.converter=org.apache.kafka.connect.json.JsonConverter
        group.id=connect-b
        offset.storage.topic=connect-b-offsets
    """
    seen: list[tuple[str, str, LintConnector]] = []
    for worker in estate.connectors:
        if not worker.is_worker:
            continue
        for store in STORES:
            key = f"{store}.storage.topic"
            topic = worker.text(key)
            if not topic:
                continue
            other = next((w for k, t, w in seen if (k, t) == (key, topic) and _is_other_group(w, worker)), None)
            twice = next((s for s in STORES[: STORES.index(store)] if worker.text(f"{s}.storage.topic") == topic), None)
            seen.append((key, topic, worker))
            also = f"that of group {other.text('group.id')}" if other is not None else f"that of {_name(twice or '')}"
            if other is not None or twice is not None:
                yield Violation(f"the topic of {_name(store)}, {topic}, is also {also}", key, about=worker)


def _is_other_group(one: LintConnector, other: LintConnector) -> bool:
    return one.text("group.id") != other.text("group.id") and same_cluster(one, other)


def _name(store: str) -> str:
    return {"config": "configurations", "offset": "offsets", "status": "states"}.get(store, "")
