"""E: rules of Debezium connectors for PostgreSQL and of Kafka Connect workers, and what both say of themselves.

Of connectors: slots, publications, snapshots, heartbeats. Of workers: the topics that keep their configuration, offsets
and status.
"""

import re
from collections.abc import Iterator

from kafkakit.core.quantities import count_of
from kafkakit.rules.effective import FILLED_IN, InputMissing, known_int, to_items
from kafkakit.rules.rule import (
    CORE,
    ERROR,
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
from kafkakit.rules.subjects import Estate, LintConnector, LintTopic
from kafkakit.rules.values import holds_placeholder

SHORTEST_PLACEHOLDER = 8
_WRITTEN_TABLE = re.compile(r"""\b(?:INTO|UPDATE)\s+(?:ONLY\s+)?([\w."$]+)""", re.IGNORECASE)


@estate_rule("KKE001", ERROR, CORE)
def shared_capture_name(estate: Estate, limits: Limits) -> Violations:
    """Two connectors have one replication slot, publication or topic prefix.

    Why: a slot serves one reader, so the second connector fails, or takes changes away from the first; with one prefix
    both write into the same topics and the same heartbeat.
    Source: Debezium documentation, PostgreSQL connector, `slot.name`, `publication.name`, `topic.prefix`.

    Bad:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "database.hostname": "db-1", "topic.prefix": "shop", "slot.name": "kafka"}}
        --- crm.json
        {"name": "crm", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "database.hostname": "db-1", "topic.prefix": "crm", "slot.name": "kafka"}}

    Good:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "database.hostname": "db-1", "topic.prefix": "shop", "slot.name": "shop", "publication.name": "shop"}}
        --- crm.json
        {"name": "crm", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "database.hostname": "db-1", "topic.prefix": "crm", "slot.name": "crm", "publication.name": "crm"}}
    """
    seen: dict[tuple[str, ...], LintConnector] = {}
    for connector in estate.connectors:
        if not is_debezium(connector):
            continue
        for key, name, identity in _capture_names(connector):
            first = seen.setdefault((key, *identity), connector)
            if first is connector or first.name == connector.name:
                continue
            if key == "topic.prefix" and not same_cluster(first, connector):
                continue
            yield Violation(
                f"{key} is {name}, already used by connector {first.name}", key, observed=name, about=connector
            )


@connector_rule("KKE002", WARNING, CORE)
def default_capture_name(connector: LintConnector, limits: Limits) -> Violations:
    """A connector uses the default name of slot (`debezium`) or, with `pgoutput`, publication (`dbz_publication`).

    Why: the next connector on that server takes the same names (see KKE001), and the slot does not tell which
    one it belongs to when it holds back the log.
    Source: Debezium documentation, PostgreSQL connector.

    Bad:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector"}}

    Good:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "slot.name": "shop", "publication.name": "shop"}}
    """
    if not is_postgres(connector):
        return
    names = (("slot.name", DEFAULT_SLOT), ("publication.name", DEFAULT_PUBLICATION))
    for key, default in names if has_publication(connector) else names[:1]:
        if (connector.text(key) or default) == default:
            yield Violation(message=f"{key} is {default}, the default of every connector", key=key)


@connector_rule("KKE003", ERROR, CORE, fix=Fix.UNSAFE)
def slot_dropped_on_stop(connector: LintConnector, limits: Limits) -> Violations:
    """The replication slot is dropped when the connector stops (production).

    Why: changes between stop and start are not in any slot: they are lost, at every restart of a task.
    Source: Debezium documentation, `slot.drop.on.stop`.

    Bad:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "slot.drop.on.stop": "true"}}

    Good:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "slot.drop.on.stop": "false"}}
    """
    key = "slot.drop.on.stop"
    if is_postgres(connector) and connector.is_prod and read_word(connector, key) == "true":
        yield set_to(key, "false", "changes that happen while the connector is stopped are lost")


@connector_rule("KKE004", ERROR, CORE)
def snapshot_always(connector: LintConnector, limits: Limits) -> Violations:
    """Every start of the connector takes a snapshot of all tables (production).

    Why: each restart reads every row again and writes it to Kafka. Rows that were deleted and keys that were changed
    in between stay in the topics for good, as a snapshot has no event for what is gone.
    Source: Debezium documentation, `snapshot.mode`; measured.

    Bad:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "snapshot.mode": "always"}}

    Good:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "snapshot.mode": "initial"}}
    """
    if is_debezium(connector) and connector.is_prod and read_word(connector, "snapshot.mode") == "always":
        yield Violation(
            message="each restart copies every table again, and rows deleted meanwhile stay in the topics",
            key="snapshot.mode",
            expected="initial",
        )


@connector_rule("KKE005", WARNING, CORE)
def no_heartbeat(connector: LintConnector, limits: Limits) -> Violations:
    """A connector for PostgreSQL sends no heartbeats.

    Why: if the captured tables are quiet and others on the server are busy, the slot's position stands still and
    the server keeps its log until the disk is full, or the slot is lost (max_slot_wal_keep_size). Lag of a quiet table
    cannot be told from a stopped connector either.
    Source: Debezium documentation, `heartbeat.interval.ms` (0 by default); measured.

    Bad:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector"}}

    Good:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "heartbeat.interval.ms": "10000"}}
    """
    key = "heartbeat.interval.ms"
    if is_postgres(connector) and number(connector, key) in (None, 0):
        yield Violation(
            "if the captured tables are quiet while others are busy, the server keeps its log, for want of heartbeats",
            key,
            expected="10000",
        )


@connector_rule("KKE006", WARNING, CORE)
def heartbeat_without_query(connector: LintConnector, limits: Limits) -> Violations:
    """Heartbeats write nothing to the database.

    Why: a heartbeat is only a record in Kafka. Only a change of a captured table moves the slot's confirmed position
    on a server where other databases are busy.
    Source: Debezium documentation, `heartbeat.action.query`; with it the slot stays 136 bytes behind, measured.

    Bad:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "heartbeat.interval.ms": "10000"}}

    Good:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "heartbeat.interval.ms": "10000",
          "heartbeat.action.query": "UPDATE public.heartbeat SET at = now()"}}
    """
    if is_postgres(connector) and number(connector, "heartbeat.interval.ms") and not _query(connector):
        yield Violation(
            message="heartbeats change no table, so the slot stands still on a busy server",
            key="heartbeat.interval.ms",
            hint="set heartbeat.action.query to an update of a table in the publication",
        )


@connector_rule("KKE007", ERROR, CORE)
def heartbeat_table_not_captured(connector: LintConnector, limits: Limits) -> Violations:
    """The table that heartbeats write is not in the publication that the connector makes.

    Why: with `publication.autocreate.mode=filtered` the publication holds the tables of table.include.list. Changes of
    another table never reach the slot, so the heartbeat moves nothing.
    Source: Debezium documentation, `publication.autocreate.mode`, `heartbeat.action.query`.

    Bad:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "plugin.name": "pgoutput", "publication.autocreate.mode": "filtered", "table.include.list": "public.orders",
          "heartbeat.interval.ms": "10000", "heartbeat.action.query": "UPDATE public.heartbeat SET at = now()"}}

    Good:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "plugin.name": "pgoutput", "publication.autocreate.mode": "filtered",
          "table.include.list": "public.orders,public.heartbeat",
          "heartbeat.interval.ms": "10000", "heartbeat.action.query": "UPDATE public.heartbeat SET at = now()"}}
    """
    query = _query(connector)
    if not has_publication(connector) or not query or not number(connector, "heartbeat.interval.ms"):
        return
    mode = read_word(connector, "publication.autocreate.mode", "all_tables")
    if mode == "all_tables":
        return
    if mode != "filtered":
        raise InputMissing("the tables of the publication")
    written = _WRITTEN_TABLE.search(query)
    if written is None:
        raise InputMissing("the table that the heartbeat writes")
    table = written[1].replace('"', "")
    table = table if "." in table else f"public.{table}"
    if not _is_captured(connector, table):
        yield Violation(
            message=f"heartbeats write {table}, which the connector does not capture: the slot stands still",
            key="heartbeat.action.query",
            observed=query,
            expected=f"{table} in table.include.list",
        )


@connector_rule("KKE008", WARNING, CORE)
def publication_of_all_tables(connector: LintConnector, limits: Limits) -> Violations:
    """The connector makes a publication of all tables.

    Only pgoutput reads a publication; the default of plugin.name is decoderbufs.

    Why: it needs a superuser, sends every table's changes to the connector to be thrown away, and makes PostgreSQL
    refuse the application's UPDATE and DELETE on each table without a key.
    Source: Debezium documentation, `publication.autocreate.mode` (`all_tables` by default); measured.

    Bad:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "plugin.name": "pgoutput"}}

    Good:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "plugin.name": "pgoutput", "publication.autocreate.mode": "disabled"}}
    """
    key = "publication.autocreate.mode"
    mode = read_word(connector, key, "all_tables")
    if has_publication(connector) and mode not in ("disabled", "filtered"):
        yield Violation(
            message=f"mode {mode}: the publication holds every table of the database, including tables without a key"
            if mode == "all_tables"
            else f"mode {mode}: the connector makes the publication itself",
            key=key,
            expected="disabled or filtered",
        )


@connector_rule("KKE009", ERROR, CORE, fix=Fix.UNSAFE)
def slot_position_lost(connector: LintConnector, limits: Limits) -> Violations:
    """The connector does not confirm its position in the log, or does not notice when the slot has another one.

    Why: `lsn.flush.mode=manual` never moves the slot unless another program does: the server keeps its log until the
    disk is full. With `connector_and_driver` the slot may be ahead of the connector's offset, and with
    `offset.mismatch.strategy=no_validation` (the default) the changes between are skipped without an error.
    Source: Debezium documentation, `lsn.flush.mode`, `offset.mismatch.strategy`.

    Bad:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "lsn.flush.mode": "connector_and_driver"}}

    Good:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "lsn.flush.mode": "connector_and_driver", "offset.mismatch.strategy": "trust_offset"}}
    """
    key = "lsn.flush.mode"
    mode = read_word(connector, key)
    if not is_postgres(connector):
        return
    if mode == "manual":
        yield set_to(key, "connector", "nothing confirms the slot's position, so the server keeps its log without end")
    elif mode == "connector_and_driver" and read_word(connector, "offset.mismatch.strategy", "no_validation") == (
        "no_validation"
    ):
        yield Violation(
            message="the driver may confirm more than the connector has written, and no strategy notices the gap",
            key=key,
            expected="connector, or offset.mismatch.strategy=trust_offset",
            edits=(Edit(key, "connector"),),
        )


@connector_rule("KKE010", WARNING, STRICT)
def weak_placeholder(connector: LintConnector, limits: Limits) -> Violations:
    """The placeholder for large values that were not sent looks like a value.

    Why: PostgreSQL leaves out unchanged large values. Readers can tell the placeholder from a value only if no row
    ever has it.
    Source: Debezium documentation, `unavailable.value.placeholder`.

    Bad:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "unavailable.value.placeholder": "null"}}

    Good:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector"}}
    """
    key = "unavailable.value.placeholder"
    placeholder = connector.text(key)
    if is_debezium(connector) and placeholder is not None and len(placeholder.strip()) < SHORTEST_PLACEHOLDER:
        yield Violation(
            f"the placeholder {placeholder!r} may also be the value of a row", key, expected=DEFAULT_PLACEHOLDER
        )


@connector_rule("KKE011", WARNING, STRICT)
def no_signal_table(connector: LintConnector, limits: Limits) -> Violations:
    """The connector takes no signals.

    Why: without a signal table no table can be read again while the connector runs: the only repair of a wrong or
    missing row is a new snapshot of everything.
    Source: Debezium documentation, `signal.data.collection`.

    Bad:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector"}}

    Good:
        --- shop.json
        {"name": "shop", "config": {"connector.class": "io.debezium.connector.postgresql.PostgresConnector",
          "signal.data.collection": "public.debezium_signal"}}
    """
    channels = to_items(connector.text("signal.enabled.channels") or "source")
    if is_debezium(connector) and not connector.text("signal.data.collection") and set(channels) <= {"source"}:
        yield Violation(
            "no table or channel of signals is set, so a single table cannot be read again", "signal.data.collection"
        )


def _capture_names(connector: LintConnector) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """The names that must be the connector's own: key, name, and what identifies it between connectors."""
    prefix = connector.text("topic.prefix")
    if prefix:
        yield "topic.prefix", prefix, (prefix,)
    if not is_postgres(connector):
        return
    host = connector.text("database.hostname")
    if host is None:
        return
    server = (host.lower(), connector.text("database.port") or "5432")
    slot = connector.text("slot.name") or DEFAULT_SLOT
    yield "slot.name", slot, (*server, slot)
    if not has_publication(connector) or read_word(connector, "publication.autocreate.mode") == "disabled":
        return  # a publication that somebody else made may serve many slots
    publication = connector.text("publication.name") or DEFAULT_PUBLICATION
    yield "publication.name", publication, (*server, connector.text("database.dbname") or "", publication)


def _query(connector: LintConnector) -> str:
    return (connector.text("heartbeat.action.query") or "").strip()


def _is_captured(connector: LintConnector, table: str) -> bool:
    included, excluded = connector.text("table.include.list"), connector.text("table.exclude.list")
    if included is not None:
        return _fits(included, table)
    return excluded is None or not _fits(excluded, table)


def _fits(patterns: str, table: str) -> bool:
    """True when one of the comma-separated expressions fits the whole name, as Debezium compares them."""
    for pattern in to_items(patterns):
        if holds_placeholder(pattern):
            raise InputMissing(FILLED_IN)
        try:
            if re.fullmatch(pattern, table, re.IGNORECASE):
                return True
        except re.error:
            continue
    return False


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
                f"the topic of {_name(store)} is kept on {count_of(replicas, 'broker')}",
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
                message=f"topic {topic.name} of {_name(store)} has cleanup.policy "
                f"{','.join(topic.policies) or 'empty'}, not only compact: what connectors "
                "have not written for a while is deleted",
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
            also = f"used by group {other.text('group.id')}" if other is not None else f"used for {_name(twice or '')}"
            if other is not None or twice is not None:
                yield Violation(f"the topic of {_name(store)}, {topic}, is also {also}", key, about=worker)


def _is_other_group(one: LintConnector, other: LintConnector) -> bool:
    return one.text("group.id") != other.text("group.id") and same_cluster(one, other)


def _name(store: str) -> str:
    return {"config": "configurations", "offset": "offsets", "status": "states"}.get(store, "")


DEBEZIUM = "io.debezium."
DEFAULT_SLOT = "debezium"
DEFAULT_PUBLICATION = "dbz_publication"
DEFAULT_PLACEHOLDER = "__debezium_unavailable_value"


def is_debezium(connector: LintConnector) -> bool:
    """True for a connector of Debezium."""
    return not connector.is_worker and (connector.text("connector.class") or "").startswith(DEBEZIUM)


def is_postgres(connector: LintConnector) -> bool:
    """True for Debezium's connector for PostgreSQL."""
    return is_debezium(connector) and "postgres" in (connector.text("connector.class") or "").lower()


def has_publication(connector: LintConnector) -> bool:
    """True for a connector for PostgreSQL that reads a publication: one whose plugin.name is pgoutput."""
    return is_postgres(connector) and read_word(connector, "plugin.name", "decoderbufs") == "pgoutput"


def is_sink(connector: LintConnector) -> bool:
    """True for a connector that reads topics; a mirror's source has patterns of topics as well."""
    has_topics = connector.text("topics") is not None or connector.text("topics.regex") is not None
    return has_topics and not (connector.text("connector.class") or "").endswith("MirrorSourceConnector")


def read_word(connector: LintConnector, key: str, default: str = "") -> str:
    """A value that is one of a few words, in small letters; `InputMissing` for one that is filled in elsewhere."""
    found = connector.text(key)
    if found is not None and holds_placeholder(found):
        raise InputMissing(FILLED_IN)
    return default if found is None else found.strip().lower()


def number(connector: LintConnector, key: str) -> int | None:
    """A value as a whole number, None where it is not set or is none."""
    found = connector.text(key)
    return None if found is None else known_int(found)


def workers_of(estate: Estate, connector: LintConnector) -> list[LintConnector]:
    """The workers that may run a connector: those of its cluster; `InputMissing` where none is known."""
    found = [w for w in estate.connectors if w.is_worker and same_cluster(w, connector)]
    if not found:
        raise InputMissing("worker properties")
    return found


def worker_text(estate: Estate, connector: LintConnector, key: str) -> str | None:
    """What the workers set for a key; `InputMissing` where no worker is known, or they differ."""
    values = {w.text(key) for w in workers_of(estate, connector)}
    if len(values) > 1:
        raise InputMissing("which worker runs the connector")
    return values.pop()


def same_cluster(one: LintConnector, other: LintConnector) -> bool:
    """True when two may use one Kafka cluster: their clusters or bootstrap servers are the same, or one's not known."""
    if one.cluster is not None and other.cluster is not None and one.cluster.name != other.cluster.name:
        return False
    first, second = one.text("bootstrap.servers"), other.text("bootstrap.servers")
    return first is None or second is None or not set(to_items(first)).isdisjoint(to_items(second))


def topics_of(connector: LintConnector) -> Iterator[LintTopic]:
    """The topics of tables in the connector's cluster: those below its prefix."""
    prefix = connector.text("topic.prefix")
    if prefix and connector.cluster is not None:
        yield from (t for t in connector.cluster.topics if t.name.startswith(f"{prefix}."))


def is_schemaless_json(estate: Estate, connector: LintConnector) -> bool:
    """True when values are written as JSON without schemas; `InputMissing` where the workers decide and are unknown."""
    own = connector.text("value.converter")
    converter = own if own is not None else worker_text(estate, connector, "value.converter")
    if converter is None or not converter.endswith("JsonConverter"):
        return False
    schemas = connector.text("value.converter.schemas.enable")
    if schemas is None and own is None:
        schemas = worker_text(estate, connector, "value.converter.schemas.enable")
    return (schemas or "true").strip().lower() == "false"
