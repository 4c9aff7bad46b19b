"""A sound file gives no finding of `core`, alone as beside its neighbours: what is not known is no mistake."""

import json

import pytest

from kafkakit.lint.decide.pieces import AssemblyOptions
from kafkakit.rules.catalogue import all_rules
from tests.rigs.lint_examples import outcome_of

CORE = tuple(rule for rule in all_rules() if rule.is_core)
KAFKA = """apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata: {name: sound}
spec:
  kafka:
    version: 4.1.0
    listeners:
      - {name: tls, port: 9093, type: internal, tls: true, authentication: {type: tls}}
    authorization: {type: simple}
    config: {auto.create.topics.enable: false, default.replication.factor: 3, min.insync.replicas: 2}
"""
ZOOKEEPER = KAFKA.replace(
    "  kafka:\n    version: 4.1.0", "  zookeeper: {replicas: 3}\n  kafka:\n    version: 3.9.0"
).replace("replicas: 2}", "replicas: 2, log.message.timestamp.after.max.ms: 3600000}")
POOLS = "---\n".join(
    f"""apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {{name: {role}s, labels: {{strimzi.io/cluster: sound}}}}
spec: {{replicas: 3, roles: [{role}], storage: {{type: jbod, volumes: [{{id: 0, size: 100Gi}}]}}}}
"""
    for role in ("controller", "broker")
)
TOPIC = """apiVersion: kafka.strimzi.io/v1
kind: KafkaTopic
metadata: {name: t, labels: {strimzi.io/cluster: sound}}
spec: {partitions: 12, replicas: 3, config: {retention.ms: 86400000, segment.ms: 21600000}}
"""
BROKER = """process.roles=broker
node.id=1
controller.quorum.bootstrap.servers=c:9093
controller.listener.names=CONTROLLER
listeners=SASL_SSL://:9092
advertised.listeners=SASL_SSL://b:9092
listener.security.protocol.map=CONTROLLER:SSL,SASL_SSL:SASL_SSL
security.inter.broker.protocol=SASL_SSL
sasl.enabled.mechanisms=SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
log.dirs=/data/1
default.replication.factor=3
min.insync.replicas=2
auto.create.topics.enable=false
"""
TOPICCTL = """meta: {name: t, cluster: web, region: r, environment: production}
spec: {partitions: 6, replicationFactor: 3, retentionMinutes: 1440, settings: {segment.ms: 21600000}}
"""
PLAN = json.dumps(
    {
        "format_version": "1.2",
        "planned_values": {
            "root_module": {
                "resources": [
                    {
                        "type": "kafka_topic",
                        "values": {
                            "name": "t",
                            "partitions": 6,
                            "replication_factor": 3,
                            "config": {"segment.ms": "1e0"},
                        },
                    }
                ]
            }
        },
    }
).replace("1e0", "21600000")
MOVE = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2,3]}]}'
AGENT = "instances: [{kafka_connect_str: [a:9092, b:9092, c:9092], consumer_groups: {g: {t: [0]}}}]\n"


@pytest.mark.parametrize(
    "files",
    [
        {"kafka.yaml": KAFKA},
        {"kafka.yaml": KAFKA, "topic.yaml": TOPIC},
        {"kafka.yaml": KAFKA, "topic.yaml": TOPIC, "pools.yaml": POOLS},
        {"kafka.yaml": ZOOKEEPER},
        {"pools.yaml": POOLS},
        {"topic.yaml": TOPIC},
        {"server.properties": BROKER},
        {"server.properties": BROKER, "plan.json": PLAN},
        {"plan.json": PLAN},
        {"topic.yaml": TOPICCTL},
        {"move.json": MOVE},
        {"move.json": MOVE, "server.properties": BROKER},
        {"conf.yaml": AGENT},
    ],
    ids=" ".join,
)
def test_sound_files_have_no_findings(files: dict[str, str]) -> None:
    found = outcome_of(files, rules=CORE, options=AssemblyOptions(kafka_version="4.1"))
    assert [(c.finding.rule, c.finding.where, c.finding.message) for c in found.checked] == []
