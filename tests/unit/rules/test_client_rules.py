"""Rules of connectors and workers at their boundaries.

Rules of groups and offsets at their boundaries. Rules of the Datadog agent's file at their boundaries.
"""

import json

import pytest

from kafkakit.core.findings import Place, Severity
from tests.rigs.rule_cases import SKIPPED, findings, verdict

POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"
SECRET = "hunter2-of-the-test"


def connector(name: str = "shop", *, cls: str = POSTGRES, **settings: str) -> dict[str, str]:
    config = {"connector.class": cls} | {key.replace("_", "."): value for key, value in settings.items()}
    return {f"{name}.json": json.dumps({"name": name, "config": config})}


def worker(name: str = "connect", **settings: str) -> dict[str, str]:
    given = {"bootstrap_servers": "k:9092", "group_id": name, "key_converter": "x"} | settings
    return {f"{name}.properties": "".join(f"{k.replace('_', '.')}={v}\n" for k, v in given.items())}


def cluster(text: str) -> dict[str, str]:
    return {"cluster.yaml": text}


DB = {"database_hostname": "db", "publication_name": "own", "plugin_name": "pgoutput"}
OTHER = {"database_hostname": "db", "publication_name": "own"}
PLUGIN = {"plugin_name": "pgoutput"}
BEAT = {"heartbeat_interval_ms": "1000", "publication_autocreate_mode": "filtered", **PLUGIN}
ADMIN = {"publication_autocreate_mode": "disabled", **PLUGIN}
QUERY = "INSERT INTO beat (at) VALUES (now())"
JSON = {"value_converter": "org.apache.kafka.connect.json.JsonConverter"}
BARE = {"value_converter_schemas_enable": "false"}
COMPACT = {"topic_creation_default_cleanup_policy": "compact"}
ENABLED = {"exactly_once_source_support": "enabled"}
ONCE = {"exactly_once_support": "required"}
SINK = {"cls": "x.Sink", "topics": "t", "errors_tolerance": "all"}
BOTH = "topics: [{name: offsets, config: {cleanup.policy: 'compact,delete'}}]"
STORE = {"offset_storage_topic": "offsets"}


LITERAL = ("vault", "p#{", "a<b>c", "__init__x", "env:", "**")
# References of secret stores, placeholders of templates, and what tools print instead of a secret.
ELSEWHERE = (
    "vault:secret/data/x#pw", "ref+awsssm://x", "op://vault/item/pw", "#{PW}#", "__PW__", "<PASSWORD>", "****",
    "[hidden]", "ref+vault://secret/x#/pw", "arn:aws:secretsmanager:eu-west-1:1:secret:x",
    "projects/p/secrets/s/versions/1",
    "@Microsoft.KeyVault(SecretUri=https://x)", "{{ pw }}", "{{ lookup('env', 'PW') }}", "<%= @pw %>", "$(PW)", "%PW%",
    "@PW@", "[[PW]]", "env:PW", "[redacted]", "$ANSIBLE_VAULT;1.1;AES256",
)  # fmt: skip


@pytest.mark.parametrize(
    ("code", "files", "expected"),
    [
        ("KKE001", connector(slot_name="a", **DB) | connector("b", slot_name="b", database_hostname="db"), 0),
        ("KKE001", connector(slot_name="a", **DB) | connector("b", slot_name="b", **DB), 1),
        ("KKE001", connector(slot_name="a", **OTHER) | connector("b", slot_name="b", **OTHER), 0),
        ("KKE001", connector(slot_name="a", **OTHER, **ADMIN) | connector("b", slot_name="b", **OTHER, **ADMIN), 0),
        ("KKE002", connector(slot_name="own"), 0),
        ("KKE002", connector(slot_name="own", **PLUGIN), 1),
        ("KKE008", connector(), 0),
        ("KKE008", connector(**PLUGIN), 1),
        ("KKE008", connector(plugin_name="decoderbufs"), 0),
        ("KKE001", connector(**DB) | connector("b", database_hostname="db"), 1),
        ("KKE001", connector(**DB) | connector("b", database_hostname="other"), 0),
        ("KKE001", connector(topic_prefix="p") | connector("b", topic_prefix="p"), 1),
        ("KKE002", connector(slot_name="debezium", publication_name="own"), 1),
        ("KKE002", connector(cls="io.debezium.connector.mysql.MySqlConnector"), 0),
        ("KKE003", connector(slot_drop_on_stop="true") | cluster("kafkakit: cluster\nenv: dev"), 0),
        ("KKE003", connector(slot_drop_on_stop="TRUE"), 1),
        ("KKE004", connector(snapshot_mode="always"), 1),
        ("KKE005", connector(heartbeat_interval_ms="0"), 1),
        ("KKE005", connector(heartbeat_interval_ms="1"), 0),
        ("KKE006", connector(heartbeat_interval_ms="1", heartbeat_action_query=QUERY), 0),
        ("KKE006", connector(heartbeat_interval_ms="0"), 0),
        ("KKE007", connector(heartbeat_action_query=QUERY, table_include_list="public.beat", **BEAT), 0),
        ("KKE007", connector(heartbeat_action_query=QUERY, table_include_list="public.b.*", **BEAT), 0),
        ("KKE007", connector(heartbeat_action_query=QUERY, table_include_list="public.beat2", **BEAT), 1),
        ("KKE007", connector(heartbeat_action_query=QUERY, **BEAT), 0),
        ("KKE007", connector(heartbeat_action_query=QUERY, table_exclude_list="public.beat", **BEAT), 1),
        ("KKE007", connector(heartbeat_action_query="SELECT f()", **BEAT), SKIPPED),
        (
            "KKE007",
            connector(
                heartbeat_action_query=QUERY, heartbeat_interval_ms="1", **ADMIN
            ),
            SKIPPED,
        ),
        ("KKE008", connector(publication_autocreate_mode="filtered", **PLUGIN), 0),
        ("KKE008", connector(publication_autocreate_mode="all_tables", **PLUGIN), 1),
        ("KKE009", connector(lsn_flush_mode="manual"), 1),
        ("KKE009", connector(lsn_flush_mode="connector"), 0),
        ("KKE010", connector(unavailable_value_placeholder="1234567"), 1),
        ("KKE010", connector(unavailable_value_placeholder="__absent"), 0),
        ("KKE011", connector(signal_enabled_channels="source,kafka"), 0),
        ("KKE012", connector(tombstones_on_delete="false"), SKIPPED),
        ("KKE012", connector(tombstones_on_delete="false", topic_creation_default_cleanup_policy="delete"), 0),
        (
            "KKE012",
            connector(tombstones_on_delete="false", topic_prefix="p")
            | cluster("topics: [{name: p.s.t, config: {cleanup.policy: 'compact,delete'}}]"),
            1,
        ),
        ("KKE013", connector(**JSON, **BARE), 1),
        ("KKE013", connector(**JSON), 0),
        ("KKE013", connector(), SKIPPED),
        ("KKE013", connector() | worker(**JSON, **BARE), 1),
        ("KKE013", connector() | worker(value_converter="io.confluent.connect.avro.AvroConverter"), 0),
        ("KKE013", connector(decimal_handling_mode="string"), 0),
        ("KKE013", connector() | worker(**JSON, **BARE) | worker("other", **JSON), SKIPPED),
        ("KKE014", connector(**SINK), 1),
        ("KKE014", connector(**SINK, errors_deadletterqueue_topic_name="dead"), 0),
        ("KKE014", connector(event_processing_failure_handling_mode="warn"), 1),
        ("KKE014", connector(event_processing_failure_handling_mode="fail"), 0),
        ("KKE015", connector(**ONCE), SKIPPED),
        ("KKE015", connector(), 0),
        ("KKE015", connector(**ONCE, transaction_boundary="interval") | worker(**ENABLED), 1),
        ("KKE015", connector(**ONCE) | worker(**ENABLED) | worker("w2"), SKIPPED),
        ("KKE016", connector(database_password=SECRET), 1),
        ("KKE016", connector(database_password="${env:X}"), 0),
        *(("KKE016", connector(database_password=text), 0) for text in ELSEWHERE),
        *(("KKE016", connector(database_password=text), 1) for text in LITERAL),
        ("KKE016", worker(ssl_key_password=SECRET), 1),
        ("KKE017", connector(producer_override_acks="-1"), 0),
        ("KKE017", worker(producer_acks="1"), 1),
        ("KKE018", connector(), SKIPPED),
        ("KKE018", connector() | worker(), 1),
        ("KKE018", connector() | worker(producer_compression_type="lz4"), 0),
        ("KKE018", connector(cls="x.Sink", topics="t"), 0),
        ("KKE019", connector(topic_creation_default_replication_factor="-1"), 0),
        ("KKE019", connector(topic_creation_orders_replication_factor="2"), 1),
        ("KKE020", connector(), SKIPPED),
        ("KKE020", connector(**COMPACT), 0),
        (
            "KKE020",
            connector(topic_creation_default_cleanup_policy="delete", topic_creation_default_retention_ms="-1"),
            0,
        ),
        ("KKE020", connector(topic_prefix="p") | cluster("topics: [{name: p.s.t, partitions: 1}]"), 1),
        ("KKE021", worker(config_storage_replication_factor="1", status_storage_replication_factor="2"), 2),
        ("KKE021", worker(config_storage_replication_factor="-1"), 0),
        ("KKE022", worker(**STORE), SKIPPED),
        ("KKE022", worker(), 0),
        ("KKE022", worker(**STORE) | cluster(BOTH), 1),
        ("KKE023", worker(**STORE) | worker("w2", **STORE), 1),
        ("KKE023", worker(**STORE) | worker("w2", bootstrap_servers="other:9092", **STORE), 0),
    ],
)  # fmt: skip
def test_boundaries(code: str, files: dict[str, str], expected: int | str) -> None:
    assert verdict(code, files) == expected


def test_floats_are_a_warning() -> None:
    (found,) = findings("KKE013", connector(decimal_handling_mode="double"))
    assert found.severity is Severity.WARNING


def test_a_secret_is_in_no_part_of_a_finding() -> None:
    (found,) = findings("KKE016", connector(database_password=SECRET))
    assert SECRET not in repr(found)


def test_a_shared_slot_names_the_other_connector() -> None:
    (found,) = findings("KKE001", connector(**DB) | connector("z", database_hostname="db"))
    assert found.message == "slot.name is debezium, already used by connector shop"
    assert (found.where, found.place and found.place.path) == ("connector z", "z.json")


def broker(config: str) -> str:
    return f"brokers: [{{id: 1, config: {{{config}}}}}]\n"


def read(retention: str, policy: str = "delete") -> str:
    return (
        f"topics: [{{name: t, config: {{retention.ms: '{retention}', cleanup.policy: '{policy}'}}}}]\n"
        "observed: {groups: [{name: g, topics: [t]}]}"
    )


def commits(size: int) -> str:
    return f"observed: {{groups: [{{name: g, metadata_p99_bytes: {size}}}]}}"


OFFSETS = "topics: [{name: __consumer_offsets, partitions: %s}]"
WEEK = broker("offsets.retention.minutes: '10080'")


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        ("KKG701", WEEK, 0),
        ("KKG701", broker("offsets.retention.minutes: '10079'"), 1),
        ("KKG701", broker("num.io.threads: '8'"), 0),
        ("KKG701", "brokers: [{id: 1}]", SKIPPED),
        ("KKG702", WEEK + read("604800000"), 0),
        ("KKG702", WEEK + read("604800001"), 1),
        ("KKG702", WEEK + read("604800001", "compact"), 0),
        ("KKG702", WEEK + read("-1"), 0),
        ("KKG702", WEEK + "topics: [{name: t}]", SKIPPED),
        ("KKG702", read("604800001"), SKIPPED),
        ("KKG703", broker("") + OFFSETS % 50, 0),
        ("KKG703", broker("") + OFFSETS % 51, 1),
        ("KKG703", broker(""), SKIPPED),
        ("KKG703", OFFSETS % 51, SKIPPED),
        ("KKG704", broker("offsets.topic.segment.bytes: '104857600'"), 0),
        ("KKG704", broker("transaction.state.log.segment.bytes: '104857601'"), 1),
        ("KKG705", broker("") + commits(3276), 0),
        ("KKG705", broker("") + commits(3277), 1),
        ("KKG705", broker(""), SKIPPED),
        ("KKG706", broker("producer.id.expiration.ms: '900000'"), 0),
        ("KKG706", broker("producer.id.expiration.ms: '899999'"), 1),
        ("KKG706", broker("producer.id.expiration.ms: '119999', transaction.max.timeout.ms: '1000'"), 1),
        ("KKG706", broker("producer.id.expiration.ms: '120000', transaction.max.timeout.ms: '1000'"), 0),
        ("KKG708", "version: '4.2'\n" + broker("group.coordinator.rebalance.protocols: classic"), 0),
        ("KKG708", "version: '4.3'\n" + broker("group.coordinator.rebalance.protocols: classic"), 1),
        ("KKG709", broker(""), 0),
        ("KKG709", "labels: [multi_tenant]\n" + broker(""), 1),
        ("KKG710", broker("group.initial.rebalance.delay.ms: '0'"), 1),
        ("KKG710", "env: dev\n" + broker("group.initial.rebalance.delay.ms: '0'"), 0),
    ],
)
def test_boundaries_groups(code: str, text: str, expected: int | str) -> None:
    assert verdict(code, text) == expected


@pytest.mark.parametrize(("minutes", "severity"), [(1439, Severity.ERROR), (1440, Severity.WARNING)])
def test_less_than_a_day_is_an_error(minutes: int, severity: Severity) -> None:
    (found,) = findings("KKG701", broker(f"offsets.retention.minutes: '{minutes}'"))
    assert found.severity is severity


def test_the_target_version_counts() -> None:
    text = "version: '4.0'\n" + broker("group.coordinator.rebalance.protocols: classic")
    assert len(findings("KKG708", text, target="4.4")) == 1
    assert not findings("KKG708", text, target="4.1")


def test_the_message_names_topic_group_and_times() -> None:
    (found,) = findings("KKG702", WEEK + read("2592000000"))
    assert found.message == (
        "offsets of an idle group are forgotten after 7 d, but topic t, which group g reads, keeps data for 30 d"
    )
    assert found.setting is not None
    assert found.setting.expected == "at least 43200"


FILE = "kafka_consumer.d/conf.yaml"
SERVERS = "kafka_connect_str: [a:9092, b:9092]"


def agent(settings: str, cluster: str = "") -> dict[str, str]:
    return {FILE: f"init_config: {{}}\ninstances: [{{{settings}}}]\n"} | ({"cluster.yaml": cluster} if cluster else {})


def asked(partitions: int, settings: str) -> dict[str, str]:
    topics = f"topics: [{{name: t, partitions: {partitions}}}]\nobserved: {{groups: [{{name: g, topics: [t]}}]}}"
    return agent(f"{SERVERS}, {settings}", topics)


ALL = "monitor_unlisted_consumer_groups: true"


@pytest.mark.parametrize(
    ("code", "files", "expected"),
    [
        ("KKA951", agent(f"{SERVERS}, {ALL}"), 0),
        ("KKA951", agent(f"kafka_connect_str: kafka-1:9092, {ALL}"), 1),
        ("KKA951", agent(f"kafka_connect_str: 'kafka-1:9092,kafka-2:9092', {ALL}"), 0),
        ("KKA951", agent(f"kafka_connect_str: [127.0.0.1:9092, b:9092], {ALL}"), 1),
        ("KKA951", agent(f"kafka_connect_str: '%%host%%:9092', {ALL}"), 0),
        ("KKA951", agent(ALL), 1),
        ("KKA952", agent(f"{SERVERS}, enable_cluster_monitoring: true"), 0),
        ("KKA952", agent(f"{SERVERS}, monitor_unlisted_consumer_groups: false"), 1),
        ("KKA952", agent(f"{SERVERS}, consumer_groups: {{}}"), 1),
        ("KKA952", agent(f"{SERVERS}, consumer_groups: {{g: {{}}}}"), 0),
        ("KKA952", agent(f"{SERVERS}, consumer_groups_regex: {{'g.*': {{}}}}"), 0),
        ("KKA953", agent(f"{SERVERS}, {ALL}, consumer_groups: {{g: {{}}}}"), 1),
        ("KKA953", agent(f"{SERVERS}, {ALL}, consumer_groups: {{g: {{}}}}, consumer_groups_regex: {{x: {{}}}}"), 2),
        ("KKA953", agent(f"{SERVERS}, {ALL}"), 0),
        ("KKA954", asked(500, "consumer_groups: {g: {t: []}}"), 0),
        ("KKA954", asked(501, "consumer_groups: {g: {t: []}}"), 1),
        ("KKA954", asked(501, "consumer_groups: {g: {}}"), 1),
        ("KKA954", asked(501, "consumer_groups: {g: {t: [0, 1]}}"), 0),
        ("KKA954", asked(501, ALL), 1),
        ("KKA954", asked(251, f"{ALL}, monitor_all_broker_highwatermarks: true"), 1),
        ("KKA954", asked(501, f"{ALL}, max_partition_contexts: 1000"), 0),
        ("KKA954", agent(f"{SERVERS}, consumer_groups: {{g: {{t: []}}}}"), SKIPPED),
        ("KKA954", agent(f"{SERVERS}, {ALL}"), SKIPPED),
        ("KKA954", agent(f"{SERVERS}, consumer_groups_regex: {{x: {{}}}}"), SKIPPED),
        ("KKA955", asked(2, "consumer_groups: {g: {t: [0, 1]}}"), 0),
        ("KKA955", asked(2, "consumer_groups: {g: {t: [2]}}"), 1),
        ("KKA955", asked(2, "consumer_groups: {g: {other: []}}"), 1),
        ("KKA955", agent(f"{SERVERS}, consumer_groups: {{g: {{t: []}}}}"), SKIPPED),
        ("KKA955", agent(f"{SERVERS}, {ALL}"), 0),
    ],
)
def test_boundaries_agent(code: str, files: dict[str, str], expected: int | str) -> None:
    assert verdict(code, files) == expected


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (agent(f"kafka_connect_str: [b1, 'b2:9092'], {ALL}"), "'b1' has no port"),
        (agent(f"kafka_connect_str: 'SSL://b1:9093', {ALL}"), ""),
        (agent(f"kafka_connect_str: ['%%host%%', b2:9092], {ALL}"), ""),
        (agent(f"{SERVERS}, consumer_groups_regex: {{'app-[': {{}}}}"), "'app-[' is not a regular expression: "),
        (agent(f"{SERVERS}, consumer_groups_regex: {{'ok': {{}}, '(x': {{}}}}"), "'(x' is not a regular expression: "),
        (agent(f"{SERVERS}, consumer_groups_regex: {{'(a|b){{1,2}}': {{}}}}"), ""),
        (agent(f"{SERVERS}, {ALL}, sasl_mechanism: FOO"), "'FOO' is not a SASL mechanism that the check knows"),
        (agent(f"{SERVERS}, {ALL}, sasl_mechanism: scram-sha-512"), ""),
        (agent(f"{SERVERS}, {ALL}, zk_connect_str: zk:2181"), "zk_connect_str is not read any more: "),
    ],
)
def test_what_an_agent_cannot_use_is_told(files: dict[str, str], message: str) -> None:
    found = findings("KKA957", files)
    assert [f.message.startswith(message) for f in found] == ([True] if message else [])


def test_offsets_without_groups_are_something_to_collect() -> None:
    assert verdict("KKA952", agent(f"{SERVERS}, monitor_all_broker_highwatermarks: true")) == 0


MYSQL = "io.debezium.connector.mysql.MySqlConnector"
HISTORY = {
    "schema_history_internal_kafka_topic": "h",
    "schema_history_internal_kafka_bootstrap_servers": "k:9092",
}
PREFIX = {"topic_prefix": "p"}


@pytest.mark.parametrize(
    ("files", "keys"),
    [
        (connector(), ["topic.prefix"]),
        (connector(**PREFIX), []),
        (connector(cls="io.debezium.connector.jdbc.JdbcSinkConnector", topics="t"), []),
        (connector(cls="org.example.Source"), []),
        (connector(cls="io.debezium.connector.spanner.SpannerConnector"), []),
        (connector(cls="io.debezium.connector.mongodb.MongoDbConnector", mongodb_name="m"), ["mongodb.name"]),
        (connector(database_server_name="b", table_whitelist="x"), ["database.server.name", "table.whitelist"]),
        (connector(**PREFIX, database_server_name="b"), []),
        (connector(**PREFIX, slot_name="My-Slot"), ["slot.name"]),
        (connector(**PREFIX, slot_name="a" * 64), ["slot.name"]),
        (connector(**PREFIX, slot_name="${file:/x:slot}"), []),
        (connector(**PREFIX, slot_name="my_slot_1"), []),
        (connector(**PREFIX, snapshot_mode="initail"), ["snapshot.mode"]),
        (connector(**PREFIX, snapshot_mode="WHEN_NEEDED"), []),
        (connector(**PREFIX, snapshot_mode="schema_only"), []),
        (connector(**PREFIX, snapshot_mode="custom"), ["snapshot.mode.custom.name"]),
        (connector(**PREFIX, snapshot_mode="custom", snapshot_custom_class="a.B"), []),
        (connector(**PREFIX, decimal_handling_mode="strings"), ["decimal.handling.mode"]),
        (connector(**PREFIX, decimal_handling_mode="${MODE}"), []),
        (connector(**PREFIX, plugin_name="wal2json"), []),
        (connector(**PREFIX, heartbeat_interval_ms="10s"), ["heartbeat.interval.ms"]),
        (connector(**PREFIX, heartbeat_interval_ms="${env:BEAT}"), []),
        (connector(**PREFIX, heartbeat_interval_ms="0"), []),
        (connector(**PREFIX, poll_interval_ms="0"), ["poll.interval.ms"]),
        (connector(**PREFIX, max_queue_size="0"), ["max.queue.size"]),
        (connector(cls="io.debezium.connector.oracle.OracleConnector", **PREFIX, **HISTORY, lob_enabled="x"), []),
        (connector(**PREFIX, max_batch_size="8192"), ["max.batch.size"]),
        (connector(**PREFIX, max_batch_size="20000", max_queue_size="20000"), ["max.queue.size"]),
        (connector(**PREFIX, max_queue_size="2049"), []),
        (connector(cls=MYSQL, **PREFIX, **HISTORY), []),
        (
            connector(cls=MYSQL, **PREFIX),
            ["schema.history.internal.kafka.bootstrap.servers", "schema.history.internal.kafka.topic"],
        ),
        (connector(cls=MYSQL, **PREFIX, schema_history_internal="io.debezium.storage.file.history.FileHistory"), []),
    ],
)
def test_what_debezium_refuses_is_told(files: dict[str, str], keys: list[str]) -> None:
    assert [f.setting.key for f in findings("KKE024", files) if f.setting] == keys


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("hearbeat.interval.ms", "heartbeat.interval.ms"),
        ("tables.include.list", "table.include.list"),
        ("snapshot.mode", None),
        ("transforms.unwrap.type", None),
        ("uuid.type", None),
        ("database.sslmodes", None),
        ("signal.data.colection", "signal.data.collection"),
        ("signal.kafka.topics", "signal.kafka.topic"),
        ("schema.history.internal.kafka.topics", "schema.history.internal.kafka.topic"),
        ("mongodb.heartbeat.frequenzy.ms", "mongodb.heartbeat.frequency.ms"),
        ("snapshot.max.threads.multiplyer", "snapshot.max.threads.multiplier"),
        ("column.mask.with.12.chars", None),
    ],
)
def test_misspelt_keys_of_connectors_are_found(key: str, meant: str | None) -> None:
    found = findings("KKE025", connector(**PREFIX, **{key.replace(".", "_"): "x"}))
    assert [f.setting.expected for f in found if f.setting] == ([meant] if meant else [])


MIRROR = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
FILE = "org.apache.kafka.connect.file.FileStreamSinkConnector"


@pytest.mark.parametrize(
    ("cls", "key", "meant"),
    [
        (MIRROR, "replication.polcy.class", "replication.policy.class"),
        (MIRROR, "sync.topic.acl.enabled", "sync.topic.acls.enabled"),
        (MIRROR, "refresh.topics.intervall.seconds", "refresh.topics.interval.seconds"),
        (MIRROR, "source.cluster.botstrap.servers", None),
        (MIRROR, "source.consumer.fetch.min.byte", None),
        (MIRROR, "offset.lag.max", None),
        (FILE, "errors.tolerence", "errors.tolerance"),
        (FILE, "file", None),
        ("com.example.Sink", "errors.tolerence", None),
    ],
)
def test_misspelt_keys_of_connectors_of_kafka_are_found(cls: str, key: str, meant: str | None) -> None:
    found = findings("KKE025", connector(cls=cls, **{key.replace(".", "_"): "x"}))
    assert [f.setting.expected for f in found if f.setting] == ([meant] if meant else [])


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("offset.flush.intervall.ms", "offset.flush.interval.ms"),
        ("plugin.paths", "plugin.path"),
        ("offset.storage.file.filname", "offset.storage.file.filename"),
        ("fetch.min.byte", "fetch.min.bytes"),
        ("producer.lingr.ms", "producer.linger.ms"),
        ("producer.linger.ms", None),
        ("producer.offset.flush.intervall.ms", None),
        ("consumer.max.poll.record", "consumer.max.poll.records"),
        ("admin.listeners", None),
        ("key.converter.schemas.enabel", None),
        ("config.providers.vault.class", None),
        ("some.interceptor.key", None),
    ],
)
def test_misspelt_keys_of_workers_are_found(key: str, meant: str | None) -> None:
    found = findings("KKE026", worker(**{key.replace(".", "_"): "x"}))
    assert [f.setting.expected for f in found if f.setting] == ([meant] if meant else [])


@pytest.mark.parametrize("code", ["KKE002", "KKE008"])
def test_only_pgoutput_has_a_publication(code: str) -> None:
    settings = {"slot_name": "s", "database_hostname": "db"}
    assert verdict(code, connector(**settings)) == 0
    assert verdict(code, connector(**settings, plugin_name="decoderbufs")) == 0
    assert verdict(code, connector(**settings, plugin_name="pgoutput")) == 1


def test_a_publication_that_others_made_may_be_shared() -> None:
    own = {"plugin_name": "pgoutput", "database_hostname": "db", "publication_name": "all"}
    made = {"publication_autocreate_mode": "filtered"}
    for more, number in ((made, 1), ({"publication_autocreate_mode": "disabled"}, 0)):
        files = connector("a", **own, **more, slot_name="a") | connector("b", **own, **more, slot_name="b")
        assert verdict("KKE001", files) == number


def test_dead_references_are_named() -> None:
    group, partition = findings("KKA955", asked(2, "consumer_groups: {gone: {}, g: {t: [0, 7]}}"))
    assert group.message == "group gone is listed, but not in the cluster"
    assert partition.message == "partition t-7 is listed, but not in the cluster"
    assert (group.place, partition.place) == (Place(FILE, 2, 69), Place(FILE, 2, 83))


@pytest.mark.parametrize("code", ["KKE005", "KKE013"])
def test_what_depends_on_unseen_tables_is_a_warning_with_its_condition(code: str) -> None:
    (found,) = findings(code, connector(**JSON, **BARE))
    assert found.severity is Severity.WARNING
    assert found.message.startswith("if ")
