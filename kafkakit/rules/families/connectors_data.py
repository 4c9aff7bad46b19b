"""E: rules of what connectors write, drop and keep: deletes, decimals, errors, exactly once, secrets, topics.

Also of what Debezium's connectors refuse when they are created or start, and of misspelt keys.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache

from kafkakit.core.findings import shorten
from kafkakit.core.quantities import format_span
from kafkakit.rules.config_defs import ConnectorKey, connect_keys, debezium_keys
from kafkakit.rules.effective import InputMissing, to_int, to_items
from kafkakit.rules.families import connectors
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
    connector_rule,
    estate_rule,
    set_to,
)
from kafkakit.rules.subjects import Estate, LintConnector
from kafkakit.rules.values import (
    HIDDEN,
    holds_literal_secret,
    holds_placeholder,
    holds_secret_in_address,
    is_secret_key,
    literal_jaas_options,
)

DROPPING = ("skip", "warn", "ignore")
FAILURE_MODES = ("event.processing.failure.handling.mode", "event.converting.failure.handling.mode")
CREATED = "topic.creation.default."
SLOT_NAME = re.compile("[a-z0-9_]{1,63}")
WITH_HISTORY = ("mysql", "mariadb", "oracle", "sqlserver", "db2")
CAPTURING = (*WITH_HISTORY, "postgresql", "mongodb.MongoDbConnector")
"""Debezium's sources whose checks are known, behind the common part of their class."""
SNAPSHOT_MODES = frozenset(
    ("always", "initial", "initial_only", "no_data", "never", "when_needed", "recovery", "schema_only",
     "schema_only_recovery", "configuration_based", "custom", "exported")
)  # fmt: skip
"""Of all of Debezium's databases and versions."""
EARLIER: Mapping[str, Iterable[str]] = {
    "snapshot.mode": SNAPSHOT_MODES,
    "snapshot.locking.mode": ("exclusive", "extended", "minimal", "minimal_percona", "none", "shared"),
    "plugin.name": ("wal2json", "wal2json_rds", "wal2json_streaming", "wal2json_rds_streaming"),
    "capture.mode": ("oplog",),
    "database.sslmode": ("verify_ca", "verify_full"),
}
"""Words that other versions of Debezium take."""
_OF_ALL = {"snapshot.mode": ConnectorKey(("initial",))}
_NO_LEAST = -(2**63)
RENAMED = {
    "database.server.name": "topic.prefix", "mongodb.name": "topic.prefix",
    "database.history": "schema.history.internal",
    "database.history.kafka.topic": "schema.history.internal.kafka.topic",
    "database.history.kafka.bootstrap.servers": "schema.history.internal.kafka.bootstrap.servers",
    "database.whitelist": "database.include.list", "database.blacklist": "database.exclude.list",
    "schema.whitelist": "schema.include.list", "schema.blacklist": "schema.exclude.list",
    "table.whitelist": "table.include.list", "table.blacklist": "table.exclude.list",
    "column.whitelist": "column.include.list", "column.blacklist": "column.exclude.list",
    "collection.whitelist": "collection.include.list", "collection.blacklist": "collection.exclude.list",
}  # fmt: skip
"""What Debezium 2 calls the keys of Debezium 1."""
DEFAULT_QUEUE, DEFAULT_BATCH = 8_192, 2_048


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
    if not connectors.is_debezium(connector) or connectors.read_word(connector, key) != "false":
        return
    created = connector.text(f"{CREATED}cleanup.policy")
    compacted = [t.name for t in connectors.topics_of(connector) if "compact" in t.policies]
    if created is None and not compacted and not any(True for _ in connectors.topics_of(connector)):
        raise InputMissing("topics of the connector")
    if compacted or "compact" in to_items(created or ""):
        yield set_to(
            key, "true", "deleted keys stay in the compacted topics" + (f" {shorten(compacted)}" if compacted else "")
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
        mode = connectors.read_word(connector, key, "precise")
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
    if connectors.read_word(connector, "errors.tolerance") == "all" and not kept:
        yield Violation("records that fail are dropped without an error", "errors.tolerance", expected="none")
    for key in FAILURE_MODES if connectors.is_debezium(connector) else ():
        if connectors.read_word(connector, key) in DROPPING:
            yield Violation(
                message=f"changes that fail are dropped ({connectors.read_word(connector, key)})",
                key=key,
                expected="fail",
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
        if connector.is_worker or connector.runs_alone:
            continue
        if connectors.read_word(connector, "exactly.once.support") != "required":
            continue
        boundary = connectors.read_word(connector, "transaction.boundary", "poll")
        if boundary != "poll":
            yield _not_once(
                connector, "transaction.boundary", f"transactions end at {boundary}, not at each poll", "poll"
            )
        try:
            workers = connectors.workers_of(estate, connector)
        except InputMissing as why:
            missing = why
            continue
        lacking = [
            w for w in workers if connectors.read_word(w, "exactly.once.source.support", "disabled") != "enabled"
        ]
        if len(lacking) == len(workers):
            names = shorten([w.name for w in lacking])
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
    acks = connectors.read_word(connector, key, "all")
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
        if connector.runs_alone and connectors.read_word(connector, "debezium.sink.type") != "kafka":
            continue
        try:
            codec = connector.text(key)
            if codec is None and not connector.runs_alone:
                codec = connectors.worker_text(estate, connector, "producer.compression.type")
        except InputMissing as why:
            missing = why
            continue
        if (codec or "none").strip().lower() == "none":
            yield Violation("records are written uncompressed", key, expected="lz4 or zstd", about=connector)
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
            message=f"rows that do not change are deleted from {shorten(expiring)} after retention.ms",
            subject="topics",
            expected="cleanup.policy=compact",
        )


@connector_rule("KKE024", ERROR, CORE)
def refused_connector(connector: LintConnector, limits: Limits) -> Violations:
    """A connector of Debezium is refused when it is created, or fails when it starts.

    Why: each key is checked at the start: topic.prefix is required, the name of a replication slot has small letters,
    digits and underscores only, snapshot.mode and other modes are one of a few words, numbers have a least, the queue
    holds more than a batch, and connectors for databases without a history of schemas need a topic to keep it in.
    Debezium 2 has other names for some keys of
    Debezium 1, and does not read the old ones.
    Source: Debezium, `CommonConnectorConfig`, `PostgresConnectorConfig`, `KafkaSchemaHistory`; release notes of 2.0.

    Bad:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "topic.prefix": "shop", "slot.name": "My-Slot"}}

    Good:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "topic.prefix": "shop", "slot.name": "my_slot"}}
    """
    if not connectors.is_debezium(connector) or not _class(connector).startswith(CAPTURING):
        return
    old = [key for key in RENAMED if connector.text(key) is not None and connector.text(RENAMED[key]) is None]
    for key in old:
        yield Violation(
            message=f"{key} is a name of Debezium 1: Debezium 2 and later read {RENAMED[key]} instead",
            key=key,
            expected=RENAMED[key],
            edits=(Edit(key, rename=RENAMED[key]),),
        )
    if connector.text("topic.prefix") is None and not {"database.server.name", "mongodb.name"} & set(old):
        yield Violation("topic.prefix is not set: the connector is refused", "topic.prefix")
    slot = connector.text("slot.name")
    if slot is not None and _is_literal(slot) and connectors.is_postgres(connector) and not SLOT_NAME.fullmatch(slot):
        yield Violation(
            message=f"{slot!r:.80} cannot be the name of a replication slot: the connector is refused",
            key="slot.name",
            expected="at most 63 of a to z, 0 to 9 and _",
        )
    yield from _value_faults(connector)
    yield from _queue_faults(connector)
    yield from _history_faults(connector)


def _class(connector: LintConnector) -> str:
    """The class without what Debezium's have in common."""
    return (connector.text("connector.class") or "").removeprefix("io.debezium.connector.")


def _is_literal(text: str) -> bool:
    """True for a value without references or placeholders."""
    return not holds_placeholder(text) and not any(mark in text for mark in ("%%", "<"))


def _value_faults(connector: LintConnector) -> Violations:
    checks = debezium_keys().get(_class(connector).rpartition(".")[2], _OF_ALL)
    for key, check in checks.items():
        text = connector.text(key)
        if text is None or not text.strip() or not _is_literal(text):
            continue
        words = (*check.one_of, *EARLIER.get(key, ()))
        number = to_int(text) if text == text.strip() else None  # Debezium takes no blanks around numbers
        custom = f"{key}.custom.name"
        if text.lower() == "custom" and custom in checks and _is_unset(connector, custom):
            yield Violation(f"{custom} is not set, but {key} is custom: the connector is refused", custom)
        elif check.one_of and text.strip().lower() not in words:
            yield Violation(
                message=f"{text!r:.80} is not a {key}: the connector is refused",
                key=key,
                expected=_nearest_name(text.strip().lower(), sorted(words)) or ", ".join(check.one_of),
            )
        elif check.least is not None and (number is None or (number < check.least and key != "max.queue.size")):
            yield Violation(
                message=f"{key} is {text!r:.80}: the connector is refused",
                key=key,
                expected="a whole number" + (f", at least {check.least}" if check.least > _NO_LEAST else ""),
            )


def _is_unset(connector: LintConnector, custom: str) -> bool:
    named = (connector.text(custom), connector.text("snapshot.custom.class"))  # the latter of Debezium 1
    return not any(named)


def _queue_faults(connector: LintConnector) -> Violations:
    queue_key, batch_key = "max.queue.size", "max.batch.size"
    if connector.text(queue_key) is None and connector.text(batch_key) is None:
        return
    queue = DEFAULT_QUEUE if connector.text(queue_key) is None else connectors.number(connector, queue_key)
    batch = DEFAULT_BATCH if connector.text(batch_key) is None else connectors.number(connector, batch_key)
    if queue is not None and batch is not None and queue <= batch:
        yield Violation(
            message=f"{queue_key} ({queue}) is not above {batch_key} ({batch}): the connector is refused",
            key=queue_key if connector.text(queue_key) is not None else batch_key,
            expected=f"{queue_key} above {batch_key}",
        )


def _history_faults(connector: LintConnector) -> Violations:
    if not _class(connector).startswith(WITH_HISTORY):
        return
    store = connector.text("schema.history.internal") or "KafkaSchemaHistory"
    if not store.endswith("KafkaSchemaHistory"):
        return
    for part in ("topic", "bootstrap.servers"):
        key = f"schema.history.internal.kafka.{part}"
        if connector.text(key) is None and connector.text(f"database.history.kafka.{part}") is None:
            yield Violation(f"{key} is not set: the connector does not start", key)


@connector_rule("KKE025", WARNING, CORE, fix=Fix.UNSAFE)
def misspelt_connector_key(connector: LintConnector, limits: Limits) -> Violations:
    """A key of a connector is almost one that exists.

    Known are the keys of Debezium's connectors, of MirrorMaker's and of the others that come with Kafka.

    Why: Connect passes every key on and nobody complains about one that is not read: with hearbeat.interval.ms there
    are no heartbeats. Keys that resemble none are left alone: converters and transformations bring their own.
    Source: Debezium documentation, properties of the connectors; the connectors' own `ConfigDef`.

    Bad:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "topic.prefix": "shop", "hearbeat.interval.ms": "10000"}}

    Good:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "topic.prefix": "shop", "heartbeat.interval.ms": "10000"}}
    """
    if connector.is_worker:
        return
    if connectors.is_debezium(connector):
        others = (*OTHERS_KEYS, *SERVER_KEYS) if connector.runs_alone else OTHERS_KEYS
        own = [key for key in connector.config if key not in RENAMED and not key.startswith(others)]
        yield from _misspelt(connector, own, _debezium_keys(), "the connector")
    elif (name := (connector.text("connector.class") or "").rpartition(".")[2]) in OF_KAFKA:
        own = [key for key in connector.config if not key.startswith((*OTHERS_KEYS, *_OF_CLIENTS))]
        yield from _misspelt(connector, own, _keys_of(name, *_EVERY_CONNECTOR), "the connector")


@cache
def _keys_of(*names: str) -> frozenset[str]:
    found = connect_keys()
    return frozenset(key for name in names for key in found[name])


def _misspelt(connector: LintConnector, keys: Iterable[str], known: frozenset[str], reader: str) -> Violations:
    for key in keys:
        meant = None if key in known else _near_key(key, known)
        if meant is not None and connector.text(meant) is None:
            yield Violation(
                message=f"{key} is not read by {reader}; {meant} was probably meant",
                key=key,
                expected=meant,
                edits=(Edit(key, rename=meant),),
            )


@connector_rule("KKE026", WARNING, CORE, fix=Fix.UNSAFE)
def misspelt_worker_key(connector: LintConnector, limits: Limits) -> Violations:
    """A key of a Connect worker, or of its clients, is almost one that exists.

    Why: a worker only logs a key that it does not know, among hundreds of lines, and goes on with the default. Keys
    that resemble none are left alone: converters, interceptors and extensions bring their own.
    Source: `DistributedConfig`, `StandaloneConfig`, and the configurations of producers, consumers and admin clients.

    Bad:
        --- connect-distributed.properties
        bootstrap.servers=b1:9092
        group.id=connect
        config.storage.topic=connect-configs
        offset.flush.intervall.ms=5000

    Good:
        --- connect-distributed.properties
        bootstrap.servers=b1:9092
        group.id=connect
        config.storage.topic=connect-configs
        offset.flush.interval.ms=5000
    """
    if not connector.is_worker:
        return
    known = _keys_of(*_WORKERS, *_CLIENTS.values())
    plain = [key for key in connector.config if not key.startswith((*OTHERS_KEYS, *_CLIENTS, *_OF_PLUGINS))]
    yield from _misspelt(connector, plain, known, "the worker")
    for prefix, name in _CLIENTS.items():
        prefixed = frozenset(prefix + key for key in _keys_of(name))
        own = [key for key in connector.config if key.startswith(prefix) and key not in known]
        yield from _misspelt(connector, own, prefixed, f"the worker's {_CLIENT_WORDS[prefix]}")


OF_KAFKA = frozenset(
    ("FileStreamSourceConnector", "FileStreamSinkConnector", "MirrorSourceConnector", "MirrorCheckpointConnector",
     "MirrorHeartbeatConnector")
)  # fmt: skip
"""The connectors that come with Kafka."""
_EVERY_CONNECTOR = ("SourceConnectorConfig", "SinkConnectorConfig")
_WORKERS = ("DistributedConfig", "StandaloneConfig")
_CLIENTS = {"producer.": "ProducerConfig", "consumer.": "ConsumerConfig", "admin.": "AdminClientConfig"}
_CLIENT_WORDS = {"producer.": "producers", "consumer.": "consumers", "admin.": "admin clients"}
_OF_CLIENTS = ("source.", "target.", *_CLIENTS)
_OF_PLUGINS = ("config.providers.", "listeners.https.", "listener.name.", "metrics.context.", "rest.extension.")


OTHERS_KEYS = (
    "transforms.", "predicates.", "key.converter.", "value.converter.", "header.converter.", "producer.override.",
    "consumer.override.", "admin.override.", "column.mask.", "column.truncate.", "topic.creation.", "internal.",
    "schema.history.internal.producer.",
    "schema.history.internal.consumer.", "signal.consumer.", "driver.", "database.ssl", "openlineage.",
)  # fmt: skip
SERVER_KEYS = ("offset.", "debezium.", "record.processing.")
"""Keys of Debezium Server, which keeps the offsets itself."""
_OTHER_KEYS = """topic.delimiter topic.cache.size topic.heartbeat.prefix topic.transaction database.connectionTimeZone
    database.encrypt database.url database.pdb.name database.connection.adapter capture.scope capture.target
    snapshot.database.errors.max.retries snapshot.new.tables field.name.adjustment.mode
    schema.history.internal.kafka.topic schema.history.internal.kafka.bootstrap.servers
    schema.history.internal.kafka.query.timeout.ms schema.history.internal.kafka.create.timeout.ms
    schema.history.internal.kafka.recovery.attempts schema.history.internal.kafka.recovery.poll.interval.ms
    schema.history.internal.prefer.ddl schema.history.internal.file.filename money.fraction.digits
    event.converting.failure.handling.mode signal.kafka.topic signal.kafka.groupId signal.kafka.bootstrap.servers
    signal.kafka.poll.timeout.ms signal.file read.only offset.mismatch.strategy log.mining.strategy
    log.mining.batch.size.default log.mining.batch.size.min log.mining.batch.size.max log.mining.buffer.type
    lob.enabled rac.nodes mongodb.connection.mode mongodb.name mongodb.hosts mongodb.members.auto.discover
    cursor.oversize.handling.mode cursor.oversize.skip.threshold cursor.pipeline cursor.pipeline.order
    source.timestamp.mode"""
"""Of Debezium's other connectors, of stores of the history of schemas, of signals, and of earlier versions."""


@cache
def _debezium_keys() -> frozenset[str]:
    own = frozenset(key for keys in debezium_keys().values() for key in keys)
    return own | _keys_of(*_EVERY_CONNECTOR) | frozenset(_OTHER_KEYS.split())


_LIKENESS = 0.92


@cache
def _near_key(key: str, choice: frozenset[str]) -> str | None:
    return _nearest_name(key, sorted(choice), _LIKENESS)


def _nearest_name(text: str, known: list[str], likeness: float = 0.7) -> str | None:
    from difflib import get_close_matches

    found = get_close_matches(text, known, 1, likeness)
    return found[0] if found else None


def _not_once(connector: LintConnector, key: str, why: str, expected: str | None) -> Violation:
    return Violation(f"exactly-once delivery is required, but {why}", key, expected=expected, about=connector)
