"""Effective settings of topics as Spark's columns are those of `rules.effective` and `rules.retention.settings_of`."""

import random
from typing import Any

from kafkakit.rules.config_defs import MINORS, NEWEST, config_table, minor_or_none
from kafkakit.rules.effective import UNLIMITED, BrokerConfig, DeclaredValue, TopicConfig, ValueSource, to_int
from kafkakit.rules.retention import settings_of
from kafkakit.rules.subjects import LintTopic
from tests.spark.conftest import StoreBuilder, spec_for

LAYERS = {"dynamic-broker": "dynamic", "dynamic-default": "dynamic_default", "static": "static"}
WORDS = {
    "dynamic-broker": ValueSource.DYNAMIC_BROKER,
    "dynamic-default": ValueSource.DYNAMIC_DEFAULT,
    "static": ValueSource.STATIC,
}
VALUES = (
    "1", " 86400000 ", "+5", "-1", "168", "0", "x", "", "1.5", "99999999999999999999", "9223372036854775807", "-7",
    None, "1" + "0" * 24, "1" + "0" * 25, "delete", "compact, delete", " compact", "delete,", "LogAppendTime", "true",
)  # fmt: skip
VERSIONS = ("3.9.1", "4.0", "v4.1.1", "4.3 or later", "4.2-SNAPSHOT", "5.1", "2.8", "", "4", "4.x", None)


NAMES = tuple(f"t{number}" for number in range(12))


def drawn(rng: random.Random, keys: list[str], share: float) -> dict[str, str | None]:
    return {key: rng.choice(VALUES) for key in keys if rng.random() < share}


def test_settings_are_those_of_the_rules(spark: Any, store: StoreBuilder) -> None:
    from kafkakit_spark import effective
    from kafkakit_spark.job import JobInput, SnapshotStore

    rng = random.Random(7)
    topic_keys = [*effective.KEYS.values(), "flush.ms"]
    broker_keys = sorted(
        {form for key in (*effective._BROKER_KEYS.values(), effective.CHECK_KEY) for form, _ in effective._forms(key)}
    )
    expected = {}
    for number in range(24):
        cluster, version = f"c{number}", VERSIONS[number % len(VERSIONS)]
        store.add("clusters", [{"cluster_id": cluster, "kafka_version": version}], cluster=cluster)
        store.add("brokers", [{"broker": b, "is_alive": b > 1 or number % 3 > 0} for b in (1, 2)], cluster=cluster)
        reference = 2 if number % 3 == 0 else 1
        layers = {
            (broker, layer): drawn(rng, broker_keys, 0.0 if number % 6 == 5 else 0.3)
            for broker in (1, 2)
            for layer in (*LAYERS, "default")
        }
        rows = [
            {"broker": broker, "key": key, "value": value, "source": layer, "is_sensitive": value is None}
            for (broker, layer), values in layers.items()
            for key, value in values.items()
        ]
        if rows:
            store.add("broker_configs", rows, cluster=cluster)
        given: Any = {
            LAYERS[layer]: {
                key: DeclaredValue(value, WORDS[layer])
                for key, value in layers[reference, layer].items()
                if value is not None
            }
            for layer in LAYERS
        }
        broker = BrokerConfig(config_table(minor_or_none(version or "") or NEWEST), is_known=bool(rows), **given)
        topic_rows: list[dict[str, Any]] = []
        for name in NAMES:
            own = drawn(rng, topic_keys, 0.25)
            topic_rows += [{"topic": name, "key": key, "value": value} for key, value in own.items()]
            overrides = {
                key: DeclaredValue(value, ValueSource.TOPIC) for key, value in own.items() if value is not None
            }
            expected[cluster, name] = LintTopic(name=name, config=TopicConfig(overrides, broker))
        store.add("topics", [{"topic": name} for name in NAMES], cluster=cluster)
        store.add("topic_configs", topic_rows, cluster=cluster)
    spec = spec_for(store.finish(), "retention")
    snapshots = SnapshotStore(spark, spec.input, spec.dates)
    inputs = JobInput(spark=spark, store=snapshots, spec=spec, job="retention", folder=f"{spec.output}/retention")
    found = effective.effective_topics(inputs).collect()
    assert len(found) == len(expected)
    for row in found:
        topic = expected[row["cluster"], row["topic"]]
        settings = settings_of(topic)
        assert row["minor"] in MINORS
        assert (row["minor"], row["is_broker_known"]) == (
            topic.config.broker.table.version,
            topic.config.broker.is_known,
        )
        for name, (key, otherwise) in effective.NUMBERS.items():
            parsed = to_int(topic.config.text(key))
            expected_number = otherwise if parsed is None else parsed
            assert row[name] == max(-UNLIMITED - 1, min(UNLIMITED, expected_number)), key
            if hasattr(settings, name):
                assert expected_number == getattr(settings, name)
        assert row["check_interval_ms"] == max(-UNLIMITED - 1, min(UNLIMITED, settings.check_interval_ms))
        assert {name: row[name] for name in effective.TEXTS} == {
            name: topic.config.text(key) for name, key in effective.TEXTS.items()
        }
        assert (tuple(row["policies"]), row["deletes"], row["compacts"]) == (
            topic.policies, settings.deletes, settings.compacts
        )  # fmt: skip
        values = {key: topic.config.value(key) for key in effective.KEYS.values()}
        assert {key: value["source"] for key, value in row["settings"].items()} == {
            key: value.source.value for key, value in values.items() if value.source is not ValueSource.DEFAULT
        }
