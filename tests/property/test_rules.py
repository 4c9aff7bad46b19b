"""No rule fails, or holds up a run, over values that brokers would refuse.

No rule raises, whatever its subjects hold.
"""

import random
from functools import cache
from random import Random
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.rules.catalogue import all_rules
from kafkakit.rules.config_defs import MINORS, config_table
from kafkakit.rules.effective import BrokerConfig, Configs, DeclaredValue, TopicConfig, ValueSource
from kafkakit.rules.engine import check_estate
from kafkakit.rules.rule import Limits
from kafkakit.rules.subjects import Estate, LintBroker, LintCluster, LintTopic, PartitionFacts
from tests.rigs.lint_examples import EXAMPLE_FILE, files_of, outcome_of, page_parts
from tests.rigs.lint_random import random_dynamic, random_static, random_topics

PARTITIONS = (
    PartitionFacts(partition=0, replicas=(1, 2), isr=(1,), leader=1, replica_bytes={1: 10, 2: 0}, bytes_s=0.0),
    PartitionFacts(partition=1, replicas=(2, 1), isr=(), leader=-1, bytes_s=1e9, segments=0),
)


def declared(values: dict[str, str], source: ValueSource) -> Configs:
    return {key: DeclaredValue(value, source) for key, value in values.items()}


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
                static=declared(config, ValueSource.STATIC),
                dynamic_default=declared(dynamic if is_default else {}, ValueSource.DYNAMIC_DEFAULT),
                dynamic=declared({} if is_default else dynamic, ValueSource.DYNAMIC_BROKER),
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
            config=TopicConfig(declared(config, ValueSource.TOPIC), brokers[0].config),
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


STRANGE = (
    "", "-1", "0", "-2", "9" * 19, "9" * 40, "x", "1e5", "NaN", "inf", "true", "  7 ", "a,b,,a", "${file:/a:b}", ".5",
    "-9223372036854775808", "2147483648", "é", "[hidden]", "PLAINTEXT://", "://:::", "1@", "@:", "SSL:SSL", "User:*;",
)  # fmt: skip


@cache
def examples() -> tuple[dict[str, Any], ...]:
    parts = [page_parts(rule.page) for rule in all_rules()]
    texts = [files_of(part[title]).get(EXAMPLE_FILE, "") for part in parts for title in ("Bad", "Good")]
    return tuple(document for text in texts for document in yaml.safe_load_all(text) if document)


@cache
def keys(of: str) -> tuple[str, ...]:
    items = [item for document in examples() for item in document.get(of, ())]
    return tuple(sorted({key for item in items for key in item.get("config") or {}}))


def changed(node: Any, source: random.Random) -> Any:
    if isinstance(node, dict):
        return {key: changed(value, source) for key, value in node.items() if source.random() > 0.03}
    if isinstance(node, list):
        return [changed(value, source) for value in node if source.random() > 0.03]
    return source.choice(STRANGE) if source.random() < 0.12 else node


@given(st.randoms(use_true_random=False), st.sampled_from(("3.9", "4.0", "4.3", "4.4")), st.booleans())
@settings(max_examples=120, deadline=None)
def test_no_rule_raises(source: random.Random, version: str, strict: bool) -> None:
    first, second = source.choice(examples()), source.choice(examples())
    document = changed({**second, **first}, source)
    for of in ("topics", "brokers"):
        for item in document.get(of, ()):
            if isinstance(item, dict) and isinstance(item.get("config", {}), dict):
                item.setdefault("config", {})[source.choice(keys(of))] = source.choice(STRANGE)
    text = yaml.safe_dump({"kafkakit": "cluster", **document, "version": version, "target_version": "4.4"})
    outcome_of({"a.yaml": text}, limits=Limits(strict=strict))
