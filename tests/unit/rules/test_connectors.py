"""Rules of connectors and workers at their boundaries."""

import json

import pytest

from kafkakit.core.findings import Severity
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


DB = {"database_hostname": "db", "publication_name": "own"}
BEAT = {"heartbeat_interval_ms": "1000", "publication_autocreate_mode": "filtered"}
QUERY = "INSERT INTO beat (at) VALUES (now())"
JSON = {"value_converter": "org.apache.kafka.connect.json.JsonConverter"}
BARE = {"value_converter_schemas_enable": "false"}
COMPACT = {"topic_creation_default_cleanup_policy": "compact"}
ENABLED = {"exactly_once_source_support": "enabled"}
ONCE = {"exactly_once_support": "required"}
SINK = {"cls": "x.Sink", "topics": "t", "errors_tolerance": "all"}
BOTH = "topics: [{name: offsets, config: {cleanup.policy: 'compact,delete'}}]"
STORE = {"offset_storage_topic": "offsets"}


@pytest.mark.parametrize(
    ("code", "files", "expected"),
    [
        ("KKE001", connector(slot_name="a", **DB) | connector("b", slot_name="b", database_hostname="db"), 0),
        ("KKE001", connector(slot_name="a", **DB) | connector("b", slot_name="b", **DB), 1),
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
                heartbeat_action_query=QUERY, heartbeat_interval_ms="1", publication_autocreate_mode="disabled"
            ),
            SKIPPED,
        ),
        ("KKE008", connector(publication_autocreate_mode="filtered"), 0),
        ("KKE008", connector(publication_autocreate_mode="all_tables"), 1),
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
    (found,) = findings("KKE001", connector(**DB) | connector("b", database_hostname="db"))
    assert found.message == "slot.name is debezium, as that of connector shop"
    assert (found.where, found.place and found.place.path) == ("connector b", "b.json")
