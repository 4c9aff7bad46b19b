"""Settings of brokers and topics as columns, without any secret."""

from collections.abc import Mapping, Sequence
from typing import Any

from kafkakit.core.cluster_facts import ConfigLayer, LayeredValue
from kafkakit.core.model import ClusterSnapshot
from kafkakit.fleet.decide.snapshot_columns import columns_of
from kafkakit.fleet.decide.stored_values import storable

SOURCES: Mapping[ConfigLayer, str] = {
    ConfigLayer.STATIC: "static",
    ConfigLayer.DYNAMIC_BROKER: "dynamic-broker",
    ConfigLayer.DYNAMIC_DEFAULT: "dynamic-default",
    ConfigLayer.DEFAULT: "default",
}


def broker_config_columns(configs: Mapping[int, Mapping[str, LayeredValue]]) -> Mapping[str, Sequence[Any]]:
    """The table `broker_configs`; `is_sensitive` also where the value was left out because it looks like a secret."""
    rows = []
    for broker, values in sorted(configs.items()):
        for key, given in values.items():
            value = None if given.is_sensitive else storable(key, given.value, is_known=True)
            is_secret = given.is_sensitive or (value is None and given.value is not None)
            rows.append((broker, key, value, SOURCES[given.layer], given.is_read_only, is_secret))
    return columns_of(("broker", "key", "value", "source", "is_read_only", "is_sensitive"), rows)


def topic_config_columns(snapshot: ClusterSnapshot) -> Mapping[str, Sequence[Any]]:
    """The table `topic_configs`: settings made for a topic itself."""
    rows = []
    for topic in snapshot.topics:
        for key, given in sorted(topic.configs.items()):
            value = storable(key, given, is_known=False)
            rows.append((topic.name, key, value, "topic", value is None))
    return columns_of(("topic", "key", "value", "source", "is_sensitive"), rows)
