"""E: rules of what connectors write, drop and keep: deletes, decimals, errors, exactly once, secrets, topics."""

from kafkakit.core.findings import shown
from kafkakit.core.quantities import format_span
from kafkakit.rules.effective import InputMissing, to_items
from kafkakit.rules.families import connectors
from kafkakit.rules.rule import (
    CORE,
    ERROR,
    NOTE,
    STRICT,
    WARNING,
    Fix,
    Limits,
    Needs,
    Violation,
    Violations,
    connector_rule,
    estate_rule,
    set_to,
)
from kafkakit.rules.subjects import Estate, LintConnector
from kafkakit.rules.values import (
    HIDDEN,
    holds_literal_secret,
    holds_secret_in_address,
    is_secret_key,
    literal_jaas_options,
)

DROPPING = ("skip", "warn", "ignore")
FAILURE_MODES = ("event.processing.failure.handling.mode", "event.converting.failure.handling.mode")
CREATED = "topic.creation.default."


@connector_rule("KKE012", ERROR, CORE, fix=Fix.UNSAFE)
def deletes_never_compacted(connector: LintConnector, limits: Limits) -> Violations:
    """Deletes have no tombstone, but the topics are compacted.

    Why: compaction keeps the last record of each key, which is the delete event: deleted keys stay in the topic and
    in every table that is built from it.
    Source: Debezium documentation, `tombstones.on.delete`.

    Bad:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "topic.prefix": "shop", "tombstones.on.delete": "false", "topic.creation.default.cleanup.policy": "compact"}}

    Good:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "topic.prefix": "shop", "tombstones.on.delete": "true", "topic.creation.default.cleanup.policy": "compact"}}
    """
    key = "tombstones.on.delete"
    if not connectors.is_debezium(connector) or connectors.word(connector, key) != "false":
        return
    created = connector.text(f"{CREATED}cleanup.policy")
    compacted = [t.name for t in connectors.topics_of(connector) if "compact" in t.policies]
    if created is None and not compacted and not any(True for _ in connectors.topics_of(connector)):
        raise InputMissing("topics of the connector")
    if compacted or "compact" in to_items(created or ""):
        yield set_to(
            key, "true", "deleted keys stay in the compacted topics" + (f" {shown(compacted)}" if compacted else "")
        )


@estate_rule("KKE013", WARNING, CORE)
def unreadable_decimals(estate: Estate, limits: Limits) -> Violations:
    """Decimals, if a captured table has some, are written as bytes that readers of JSON cannot decode, or as floats.

    Why: decimal.handling.mode=precise (the default) writes the unscaled number as base64; without the schema in the
    message its scale is not known. `double` loses cents.
    Source: Debezium documentation, `decimal.handling.mode`; measured.

    Bad:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}}

    Good:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false",
          "decimal.handling.mode": "string"}}
    """
    key = "decimal.handling.mode"
    missing: InputMissing | None = None
    for connector in filter(connectors.is_debezium, estate.connectors):
        mode = connectors.word(connector, key, "precise")
        try:
            unreadable = mode == "precise" and connectors.is_schemaless_json(estate, connector)
        except InputMissing as why:
            missing = why
            continue
        if unreadable or mode == "double":
            yield Violation(
                message="if a captured table has decimals, they are written as base64 bytes without a schema: readers "
                "do not know their scale"
                if unreadable
                else "if a captured table has decimals, they are written as floats, which lose cents",
                key=key,
                observed=mode,
                expected="string",
                about=connector,
            )
    if missing is not None:
        raise missing


@connector_rule("KKE014", ERROR, CORE)
def silently_dropped_records(connector: LintConnector, limits: Limits) -> Violations:
    """Records that cannot be converted or applied are dropped.

    Why: `errors.tolerance=all` and a failure mode of `skip` or `warn` continue with the next record; the missing one is
    at best a line in a log. A sink with a dead letter queue keeps them and is not reported.
    Source: KIP-298; Debezium documentation, `event.processing.failure.handling.mode`.

    Bad:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "errors.tolerance": "all"}}

    Good:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "errors.tolerance": "none"}}
    """
    if connector.is_worker:
        return
    kept = connectors.is_sink(connector) and bool(connector.text("errors.deadletterqueue.topic.name"))
    if connectors.word(connector, "errors.tolerance") == "all" and not kept:
        yield Violation("records that fail are dropped without an error", "errors.tolerance", expected="none")
    for key in FAILURE_MODES if connectors.is_debezium(connector) else ():
        if connectors.word(connector, key) in DROPPING:
            yield Violation(
                message=f"changes that fail are dropped ({connectors.word(connector, key)})", key=key, expected="fail"
            )


@estate_rule("KKE015", ERROR, CORE)
def exactly_once_not_possible(estate: Estate, limits: Limits) -> Violations:
    """A connector requires exactly-once delivery that its worker, or its own transactions, cannot give.

    Why: with exactly.once.support=required and a worker that has it disabled the connector is refused; with another
    transaction boundary than `poll` offsets and records are not committed together.
    Source: KIP-618; Debezium documentation, exactly once.

    Bad:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "exactly.once.support": "required"}}
        --- connect-distributed.properties
        bootstrap.servers=kafka-1:9092
        group.id=connect
        key.converter=org.apache.kafka.connect.json.JsonConverter
        offset.storage.topic=connect-offsets

    Good:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "exactly.once.support": "required"}}
        --- connect-distributed.properties
        bootstrap.servers=kafka-1:9092
        group.id=connect
        key.converter=org.apache.kafka.connect.json.JsonConverter
        offset.storage.topic=connect-offsets
        exactly.once.source.support=enabled
    """
    missing: InputMissing | None = None
    for connector in estate.connectors:
        if connector.is_worker or connectors.word(connector, "exactly.once.support") != "required":
            continue
        boundary = connectors.word(connector, "transaction.boundary", "poll")
        if boundary != "poll":
            yield _not_once(
                connector, "transaction.boundary", f"transactions end at {boundary}, not at each poll", "poll"
            )
        try:
            workers = connectors.workers_of(estate, connector)
        except InputMissing as why:
            missing = why
            continue
        lacking = [w for w in workers if connectors.word(w, "exactly.once.source.support", "disabled") != "enabled"]
        if len(lacking) == len(workers):
            names = shown([w.name for w in lacking])
            yield _not_once(connector, "exactly.once.support", f"worker {names} does not support it", None)
        elif lacking:
            missing = InputMissing("which worker runs the connector")
    if missing is not None:
        raise missing


@connector_rule("KKE016", ERROR, CORE)
def connector_literal_secret(connector: LintConnector, limits: Limits) -> Violations:
    """A password or key of a connector or worker is written out.

    Why: a secret in a repository is known to all who ever cloned it; Connect's REST interface also shows it.
    Configuration providers keep it elsewhere: `${file:/run/secrets/shop.properties:password}`. The secret itself is
    printed in no report.
    Source: KIP-297.

    Bad:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "database.password": "hunter2"}}

    Good:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "database.password": "${file:/run/secrets/shop.properties:password}"}}
    """
    for key, declared in connector.config.items():
        is_secret = is_secret_key(key) and holds_literal_secret(key, declared.text)
        if is_secret or holds_secret_in_address(declared.text):
            options = literal_jaas_options(declared.text) if key.endswith("sasl.jaas.config") else ()
            where = ("the password of an address",) if not is_secret else options
            yield Violation(
                message=f"{key} holds a secret in plain text" + (f" ({', '.join(where)})" if where else ""),
                key=key,
                observed=HIDDEN,
                expected="${provider:path:key}",
                hint="replace the secret with a reference to a configuration provider, and rotate it: it is exposed",
            )


@connector_rule("KKE017", ERROR, CORE, fix=Fix.UNSAFE)
def weak_connector_acks(connector: LintConnector, limits: Limits) -> Violations:
    """A connector's or worker's producer does not wait for all replicas.

    Why: Connect commits the position in the source once the leader has the record; a leader that fails then
    has lost it for good, as the source is not read again.
    Source: Kafka documentation, producer `acks`; Connect's default is `all`.

    Bad:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "producer.override.acks": "1"}}

    Good:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "producer.override.acks": "all"}}
    """
    key = "producer.acks" if connector.is_worker else "producer.override.acks"
    acks = connectors.word(connector, key, "all")
    if acks not in ("all", "-1"):
        yield set_to(
            key,
            "all",
            f"{'nothing' if acks == '0' else 'only the leader'} acknowledges records, and the source is not read again",
        )


@estate_rule("KKE018", NOTE, STRICT)
def uncompressed_connector(estate: Estate, limits: Limits) -> Violations:
    """A source connector writes uncompressed batches.

    Why: change events repeat table and column names in each record and compress to a tenth.
    Source: Kafka documentation, producer `compression.type` (`none` by default).

    Bad:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "producer.override.compression.type": "none"}}

    Good:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "producer.override.compression.type": "lz4"}}
    """
    key = "producer.override.compression.type"
    missing: InputMissing | None = None
    for connector in estate.connectors:
        if connector.is_worker or connectors.is_sink(connector):
            continue
        try:
            codec = (
                connector.text(key) or connectors.worker_text(estate, connector, "producer.compression.type") or "none"
            )
        except InputMissing as why:
            missing = why
            continue
        if codec.strip().lower() == "none":
            yield Violation("change events are written uncompressed", key, expected="lz4 or zstd", about=connector)
    if missing is not None:
        raise missing


@connector_rule("KKE019", WARNING, CORE, fix=Fix.UNSAFE)
def table_topic_replication(connector: LintConnector, limits: Limits) -> Violations:
    """Topics that a connector creates have fewer replicas than wanted.

    Why: the topics of tables are made by the connector, so no review of topics sees them.
    Source: KIP-158.
    Options: target_replication_factor (3).

    Bad:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "topic.creation.default.replication.factor": "1", "topic.creation.default.partitions": "1"}}

    Good:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "topic.creation.default.replication.factor": "3", "topic.creation.default.partitions": "1"}}
    """
    if connector.is_worker:
        return
    for key in connector.config:
        if not key.startswith("topic.creation.") or not key.endswith(".replication.factor"):
            continue
        replicas = connectors.number(connector, key)
        if replicas is not None and 0 < replicas < limits.target_replication_factor:
            yield set_to(
                key,
                str(limits.target_replication_factor),
                f"topics are created with {replicas} of {limits.target_replication_factor} replicas",
            )


@connector_rule("KKE020", WARNING, CORE, Needs.FILE, Needs.LIVE)
def table_topic_expires(connector: LintConnector, limits: Limits) -> Violations:
    """Rows that do not change vanish from the topic of their table.

    Why: with `cleanup.policy=delete` a record is deleted after retention.ms, whether or not its row still exists; who
    reads the topic from the start then has a part of the table.
    Source: Debezium documentation, topic creation; Kafka documentation, `cleanup.policy`.

    Bad:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "topic.prefix": "shop", "topic.creation.default.cleanup.policy": "delete"}}

    Good:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "topic.prefix": "shop", "topic.creation.default.cleanup.policy": "compact"}}
    """
    if not connectors.is_debezium(connector):
        return
    key = f"{CREATED}cleanup.policy"
    created = connector.text(key)
    topics = [t for t in connectors.topics_of(connector) if t.name.count(".") > 1]
    if created is None and not topics:
        raise InputMissing("topics of the connector")
    if created is not None and "delete" in to_items(created):
        kept = connectors.number(connector, f"{CREATED}retention.ms")
        if kept != -1:
            after = f"after {format_span(kept / 1000)}" if kept else "after the retention of the brokers"
            yield Violation(message=f"rows that do not change are deleted {after}", key=key, expected="compact")
    expiring = [t.name for t in topics if "delete" in t.policies and t.config.number("retention.ms") != -1]
    if expiring:
        yield Violation(
            message=f"rows that do not change are deleted from {shown(expiring)} after retention.ms",
            subject="topics",
            expected="cleanup.policy=compact",
        )


def _not_once(connector: LintConnector, key: str, why: str, expected: str | None) -> Violation:
    return Violation(f"exactly-once delivery is required, but {why}", key, expected=expected, about=connector)
