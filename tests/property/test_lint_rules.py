"""No rule fails, or holds up a run, over values that brokers would refuse: another rule reports these."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.rules.catalogue import all_rules
from kafkakit.rules.config_defs import MINORS, config_table
from kafkakit.rules.effective import BrokerConfig, Configs, Declared, Source, TopicConfig
from kafkakit.rules.engine import check_estate
from kafkakit.rules.rule import Limits
from kafkakit.rules.subjects import Estate, LintBroker, LintCluster, LintTopic, PartitionFacts
from tests.rigs.lint_random import random_dynamic, random_static, random_topics

PARTITIONS = (
    PartitionFacts(partition=0, replicas=(1, 2), isr=(1,), leader=1, replica_bytes={1: 10, 2: 0}, bytes_s=0.0),
    PartitionFacts(partition=1, replicas=(2, 1), isr=(), leader=-1, bytes_s=1e9, segments=0),
)


def declared(values: dict[str, str], source: Source) -> Configs:
    return {key: Declared(value, source) for key, value in values.items()}


@pytest.mark.parametrize("strict", [True, False])
@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(MINORS), st.sampled_from(MINORS))
def test_every_rule_takes_every_value(strict: bool, seed: int, minor: str, target: str) -> None:
    table, random = config_table(minor), Random(seed)
    static, (is_default, dynamic) = random_static(table, 8, random), random_dynamic(table, 1, random, {})[0]
    brokers = tuple(
        LintBroker(
            id=number,
            rack="ab"[number % 2],
            current={},
            config=BrokerConfig(
                table,
                static=declared(config, Source.STATIC),
                dynamic_default=declared(dynamic if is_default else {}, Source.DYNAMIC_DEFAULT),
                dynamic=declared({} if is_default else dynamic, Source.DYNAMIC_BROKER),
            ),
        )
        for number, config in enumerate(static, 1)
    )
    topics = tuple(
        LintTopic(
            name=f"t.{number}",
            partitions=2,
            replication_factor=2,
            partition_facts=PARTITIONS,
            current={},
            config=TopicConfig(declared(config, Source.TOPIC), brokers[0].config),
        )
        for number, config in enumerate(random_topics(table, 40, random, tiered=0.3))
    )
    cluster = LintCluster(name="c", table=table, target=config_table(target), brokers=brokers, topics=topics)
    found = check_estate(Estate(clusters=(cluster,)), all_rules(), Limits(strict=strict))
    assert found == check_estate(Estate(clusters=(cluster,)), all_rules(), Limits(strict=strict))
    for checked in found.checked:
        assert checked.finding.message
        assert "\n" not in checked.finding.message
        assert not checked.finding.message.endswith(".")
