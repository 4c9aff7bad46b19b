"""Rules of the Datadog agent's file at their boundaries."""

import pytest

from kafkakit.core.findings import Place
from tests.rigs.rule_cases import SKIPPED, findings, verdict

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
def test_boundaries(code: str, files: dict[str, str], expected: int | str) -> None:
    assert verdict(code, files) == expected


def test_dead_references_are_named() -> None:
    group, partition = findings("KKA955", asked(2, "consumer_groups: {gone: {}, g: {t: [0, 7]}}"))
    assert group.message == "group gone is listed, but not in the cluster"
    assert partition.message == "partition t-7 is listed, but not in the cluster"
    assert (group.place, partition.place) == (Place(FILE, 2, 69), Place(FILE, 2, 83))
