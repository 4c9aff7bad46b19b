"""A sound production cluster with Kafka's defaults has no finding of a core rule, on any version."""

import pytest

from kafkakit.rules.catalogue import all_rules
from kafkakit.rules.config_defs import MINORS
from kafkakit.rules.rule import Limits
from tests.rigs.lint_examples import codes_of, outcome_of

CORE = tuple(rule for rule in all_rules() if rule.is_core)
# Rules about defaults that are unsafe in production, with the settings that answer them; KKR218 is about 3.9 alone.
UNSAFE_DEFAULTS = {
    "KKB505": "log.dirs: /var/lib/kafka",
    "KKD108": 'default.replication.factor: "3"',
    "KKD121": 'auto.create.topics.enable: "false"',
    "KKS801": "listeners: 'SSL://:9092'",
    "KKS805": "authorizer.class.name: org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}
LIMITED_TIMES = 'log.message.timestamp.after.max.ms: "3600000"'
VOTERS = "'11@c1:9093,12@c2:9093,13@c3:9093'"


def broker(number: int, rack: str, version: str, settings: list[str]) -> str:
    own = [
        "process.roles: broker",
        f'node.id: "{number}"',
        f"broker.rack: {rack}",
        f"controller.quorum.voters: {VOTERS}",
        "controller.listener.names: CONTROLLER",
        "listener.security.protocol.map: 'SSL:SSL,CONTROLLER:SSL'",
        "security.inter.broker.protocol: SSL",
        'min.insync.replicas: "2"',
        *settings,
    ]
    if version == "3.9":
        own.append(LIMITED_TIMES)
    # From 4.3 on the controllers' default counts, and brokers warn of their own.
    kept = [s for s in own if version < "4.3" or not s.startswith("default.replication.factor")]
    return f"  - {{id: {number}, rack: {rack}, config: {{{', '.join(kept)}}}}}\n"


def controller(number: int) -> str:
    return (
        f"  - {{id: {number}, roles: [controller], config: {{process.roles: controller, node.id: '{number}', "
        f"controller.quorum.voters: {VOTERS}, controller.listener.names: CONTROLLER, "
        "listeners: 'CONTROLLER://:9093', listener.security.protocol.map: 'CONTROLLER:SSL', "
        "authorizer.class.name: org.apache.kafka.metadata.authorizer.StandardAuthorizer, "
        "log.dirs: /var/lib/kafka, default.replication.factor: '3', min.insync.replicas: '2'}}\n"
    )


TOPICS = """
topics:
  - {name: orders, partitions: 12, replication_factor: 3}
  - {name: payments, partitions: 6, replication_factor: 3, config: {min.insync.replicas: "2"}}
  - {name: __consumer_offsets, partitions: 50, replication_factor: 3, config: {cleanup.policy: compact}}
"""


def cluster(version: str, left_out: str = "") -> str:
    settings = [text for code, text in UNSAFE_DEFAULTS.items() if code != left_out]
    brokers = "".join(broker(n, rack, version, settings) for n, rack in enumerate("abc", 1))
    return (
        f'kafkakit: cluster\ncluster: prod\nversion: "{version}"\nbrokers:\n{brokers}'
        + "".join(controller(n) for n in (11, 12, 13))
        + TOPICS
    )


LIVE = """
topics:
  - name: orders
    config: {min.insync.replicas: "2"}
    observed:
      age_s: 864000
      idle_s: 1
      partitions:
        - {partition: 0, replicas: [1, 2, 3], isr: [1, 2, 3], leader: 1, bytes: {1: 9000, 2: 9000, 3: 9000}, bytes_s: 1}
        - {partition: 1, replicas: [2, 3, 1], isr: [1, 2, 3], leader: 2, bytes: {1: 9000, 2: 9000, 3: 9000}, bytes_s: 1}
        - {partition: 2, replicas: [3, 1, 2], isr: [1, 2, 3], leader: 3, bytes: {1: 9000, 2: 9000, 3: 9000}, bytes_s: 1}
observed:
  live: true
  moves_running: false
  metadata_behind_days: 0
  features: {metadata.version: 25}
  groups: [{name: billing, topics: [orders], members: 3, time_lag_s: {orders: 5}, byte_lag: {orders: 5}}]
"""


def told(text: str) -> list[str]:
    found = outcome_of({"prod.yaml": text}, rules=CORE, limits=Limits())
    return [f"{c.rule.code} {c.finding.where}: {c.finding.message}" for c in found.checked]


@pytest.mark.parametrize("version", MINORS)
def test_a_sound_cluster_has_no_finding(version: str) -> None:
    assert told(cluster(version)) == []


@pytest.mark.parametrize("version", MINORS)
def test_a_sound_live_cluster_has_no_finding(version: str) -> None:
    assert told(cluster(version).replace(TOPICS, LIVE)) == []


@pytest.mark.parametrize("code", UNSAFE_DEFAULTS)
def test_an_unsafe_default_alone_is_one_rule(code: str) -> None:
    found = outcome_of({"prod.yaml": cluster("4.2", left_out=code)}, rules=CORE)
    assert codes_of(found) - {"KKQ854"} == {code}


def test_the_unbounded_timestamps_of_3_9_are_one_rule() -> None:
    text = cluster("3.9").replace(f", {LIMITED_TIMES}", "")
    assert codes_of(outcome_of({"prod.yaml": text}, rules=CORE)) == {"KKR218"}
