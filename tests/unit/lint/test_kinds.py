"""Each kind of file is recognised by its content and read into pieces with places.

Comments at the end of a line against the value on it.
"""

import json

import pytest

from kafkakit.core.errors import UsageError
from kafkakit.core.findings import Place
from kafkakit.lint.decide.files import KINDS, comment_problems, read_document, read_text, suffix_of
from kafkakit.lint.decide.pieces import Pieces, TopicPiece
from kafkakit.rules.effective import Configs, ValueSource
from kafkakit.rules.subjects import LogDirFacts
from tests.rigs.lint_examples import outcome_of

STRIMZI = """apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata:
  name: orders
  labels: {environment: staging}
spec:
  kafka:
    version: 4.1.0
    listeners:
      - {name: plain, port: 9092, type: internal, tls: false}
      - {name: ext, port: 9094, type: route, tls: true, authentication: {type: scram-sha-512}}
    authorization: {type: simple, superUsers: [CN=admin]}
    config: {min.insync.replicas: 2}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {name: brokers, labels: {strimzi.io/cluster: orders, team: platform}}
spec:
  replicas: 3
  roles: [broker]
  storage: {type: jbod, volumes: [{id: 0, type: persistent-claim, size: 100Gi}, {id: 1, size: 1T}]}
  resources: {requests: {memory: 8Gi}}
  jvmOptions: {-Xmx: 4g}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaTopic
metadata:
  name: payments-topic
  labels: {strimzi.io/cluster: orders}
  annotations: {ignore.kafkakit/KKR201: audited, owner: payments}
spec: {topicName: payments, partitions: 6, replicas: 3, config: {retention.ms: 3600000}}
"""
CONNECT = """apiVersion: kafka.strimzi.io/v1
kind: KafkaConnect
metadata: {name: cdc}
spec: {bootstrapServers: "k:9092", groupId: cdc, configStorageTopic: cdc-configs, config: {offset.flush.interval.ms: 1}}
---
apiVersion: kafka.strimzi.io/v1
kind: KafkaConnector
metadata: {name: shop, labels: {strimzi.io/cluster: cdc}}
spec: {class: io.debezium.connector.postgresql.PostgresConnector, tasksMax: 1, config: {database.password: hunter2}}
"""
TOPICCTL = """meta:
  name: clicks
  cluster: web
  region: us-west-2
  environment: production
  labels: {team: web}
spec:
  partitions: 2
  replicationFactor: 3
  retentionMinutes: 90
  placement: {strategy: static, staticAssignments: [[1, 2, 3], [2, 3, 1]]}
  settings:
    cleanup.policy: [delete, compact]
    max.message.bytes: 5542880
"""
PLAN = {
    "format_version": "1.2",
    "terraform_version": "1.9.0",
    "planned_values": {
        "root_module": {
            "resources": [
                {
                    "address": "confluent_kafka_topic.a",
                    "mode": "managed",
                    "type": "confluent_kafka_topic",
                    "values": {
                        "topic_name": "a",
                        "partitions_count": 4,
                        "config": {"retention.ms": "1"},
                        "kafka_cluster": [{"id": "lkc-1"}],
                    },
                },
                {"address": "null.x", "mode": "managed", "type": "null_resource", "values": {}},
            ],
            "child_modules": [
                {
                    "resources": [
                        {
                            "address": "module.m.kafka_topic.b",
                            "mode": "managed",
                            "type": "kafka_topic",
                            "values": {"name": "b", "partitions": 8, "replication_factor": -1, "config": {"x.y": "2"}},
                        }
                    ]
                }
            ],
        }
    },
    "resource_changes": [
        {"address": "module.m.kafka_topic.b", "change": {"before": {"config": {"x.y": "1"}}, "after": {}}}
    ],
}
SNAPSHOT = {
    "kafkakit": {"kind": "cluster-snapshot", "schema": 1},
    "cluster_id": "abc",
    "taken_at": "2026-01-01T00:00:00Z",
    "source": "test",
    "kafka_version": "4.1",
    "brokers": [{"id": 1, "rack": "a", "log_dirs": [{"path": "/d", "total_bytes": 9, "usable_bytes": 4}]}],
    "topics": [
        {
            "name": "t",
            "partitions": [{"partition": 0, "replicas": [1], "isr": [1], "leader": 1}],
            "configs": {"a.b": "1"},
        }
    ],
    "reassignments": [{"topic": "t", "partition": 0, "replicas": [1]}],
}


def pieces_of(path: str, text: str, kind: str) -> Pieces:
    reading = read_text(path, text, is_named=True)
    assert reading.kinds == (kind,)
    assert reading.pieces.problems == ()
    return reading.pieces


def texts(configs: Configs) -> dict[str, str]:
    return {key: declared.text for key, declared in configs.items()}


def only_topic(pieces: Pieces) -> TopicPiece:
    (topic,) = pieces.topics
    return topic


def test_a_kafkakit_file_in_all_its_parts() -> None:
    text = """kafkakit: cluster
cluster: orders
version: 4.3
env: dev
labels: [x, y]
owner: all
config: {a.b: 1}
defaults: {log.retention.ms: 5}
brokers: [{id: 1, rack: a, dynamic: {c.d: true}, alive: false, version: "4.2", lint: {ignore: {KKS801: why}}}]
topics: [{name: t, config: {cleanup.policy: [compact, delete], n: null}, observed: {current: {x: 1}, age_s: 2.5}}]
observed: {groups: [{name: g, time_lag_s: {t: 3}}], features: {f: 1}, peers: {k: [1, "2"]}, moves_running: false}
"""
    pieces = pieces_of("a.yaml", text, "kafkakit")
    (cluster,), (broker,), topic = pieces.clusters, pieces.brokers, only_topic(pieces)
    assert (cluster.name, cluster.version, cluster.env, cluster.labels) == ("orders", "4.3", "dev", frozenset("xy"))
    assert cluster.static is not None
    assert (texts(cluster.static), texts(cluster.dynamic_default)) == ({"a.b": "1"}, {"log.retention.ms": "5"})
    assert cluster.groups is not None
    assert (cluster.groups[0].time_lag_s, cluster.features, cluster.peers) == ({"t": 3.0}, {"f": 1}, {"k": ("1", "2")})
    assert cluster.moves_running is False
    assert (broker.id, broker.rack, broker.is_alive, broker.version, broker.owner) == (1, "a", False, "4.2", "all")
    assert (texts(broker.dynamic), broker.ignored, broker.is_known) == ({"c.d": "true"}, {"KKS801": "why"}, False)
    assert texts(topic.configs) == {"cleanup.policy": "compact,delete"}
    assert topic.configs["cleanup.policy"][1:] == (ValueSource.TOPIC, Place("a.yaml", 10, 29))
    assert (topic.current, topic.facts.age_s, topic.owner) == ({"x": "1"}, 2.5, "all")


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("kafkakit: cluster\ntopic: []\n", (2, 1), "a cluster has no field 'topic'"),
        ("kafkakit: cluster\nversion: new\n", (2, 10), "version must be a Kafka version, such as 4.3"),
        ("kafkakit: cluster\nenv: live\n", (2, 6), "env must be one of prod, staging, dev"),
        ("topics: [{partitions: 3}]", (1, 10), "a topic needs a name"),
        ("topics: [{name: a, partitions: 0}]", (1, 32), "partitions must be a whole number, 1 or more"),
        ("kafkakit: cluster\ntopics: {a: 1}\n", (2, 9), "topics must be a list"),
        ("kafkakit: cluster\ntopics: [a]\n", (2, 10), "an item of topics must be a mapping of keys to values"),
        ("topics: [{name: a, config: [x]}]", (1, 28), "config must be a mapping of keys to values"),
        ("topics: [{name: a, config: {b: {c: 1}}}]", (1, 32), "the value of b must be a text or a number"),
        ("topics: [{name: [a]}]", (1, 17), "name must be a text"),
        ("brokers: [{id: 1, host: {heap_bytes: x}}]", (1, 38), "heap_bytes must be a whole number, 0 or more"),
        ("topics: [{name: a, observed: {age_s: old}}]", (1, 38), "age_s must be a number"),
    ],
)
def test_a_wrong_shape_is_a_problem_at_its_place(text: str, place: tuple[int, int], message: str) -> None:
    problems = read_text("a.yaml", text, is_named=True).pieces.problems
    assert (problems[0].rule, problems[0].place[1:], problems[0].message) == ("KKL006", place, message)


def test_a_kraft_node_is_a_broker_with_its_roles() -> None:
    text = "process.roles=broker,controller\nnode.id=7\nbroker.rack=r1\nlog.dirs=/a,/b\nssl.key.password=hunter2\n"
    (broker,) = pieces_of("x.properties", text, "server-properties").brokers
    assert (broker.id, broker.rack, broker.roles, broker.count) == (7, "r1", ("broker", "controller"), 0)
    assert [part.path for part in broker.log_dirs] == ["/a", "/b"]
    assert broker.static["log.dirs"].place == ("x.properties", 4, 1)
    assert "hunter2" not in str(broker)


def test_strimzi_says_what_its_operator_sets() -> None:
    pieces = pieces_of("k.yaml", STRIMZI, "strimzi")
    (cluster,), (pool,), topic = pieces.clusters, pieces.brokers, only_topic(pieces)
    assert (cluster.name, cluster.version, cluster.env) == ("orders", "4.1.0", "staging")
    static = texts(cluster.static or {})
    assert static["min.insync.replicas"] == "2"
    assert static["authorizer.class.name"].endswith("StandardAuthorizer")
    assert static["super.users"] == "User:CN=admin"
    assert "PLAIN-9092:PLAINTEXT,EXT-9094:SASL_SSL" in static["listener.security.protocol.map"]
    assert static["listener.name.ext-9094.sasl.enabled.mechanisms"] == "SCRAM-SHA-512"
    assert (pool.cluster, pool.count, pool.roles, pool.owner) == ("orders", 3, ("broker",), "platform")
    assert pool.log_dirs == (
        LogDirFacts(path="/var/lib/kafka/data-0/kafka-log0", total_bytes=100 * 2**30),
        LogDirFacts(path="/var/lib/kafka/data-1/kafka-log0", total_bytes=10**12),
    )
    assert (pool.host.memory_bytes, pool.host.heap_bytes) == (8 * 2**30, 4 * 2**30)
    assert (topic.name, topic.cluster, topic.partitions, topic.replication_factor) == ("payments", "orders", 6, 3)
    assert topic.owner == "payments"
    (accepted,) = pieces.accepted
    assert (accepted.ignored, accepted.place, accepted.end) == ({"KKR201": "audited"}, Place("k.yaml", 25), None)
    assert topic.configs["retention.ms"].place == ("k.yaml", 31, 66)


def test_a_list_of_kubectl_has_its_resources() -> None:
    metadata = "{name: t, labels: {strimzi.io/cluster: main}}"
    topic = f"{{apiVersion: kafka.strimzi.io/v1, kind: KafkaTopic, metadata: {metadata}, spec: {{}}}}"
    text = f"apiVersion: v1\nkind: List\nitems: [{topic}, {{apiVersion: v1, kind: Secret}}]\n"
    assert only_topic(pieces_of("l.yaml", text, "strimzi")).name == "t"


@pytest.mark.parametrize(
    ("metadata", "spec", "told"),
    [
        ("{name: t, labels: {strimzi.io/cluster: main}}", "{partitions: 3, replicas: 3, topicName: x, config: {}}", []),
        ("{name: t}", "{partitions: 3}", ["without the label strimzi.io/cluster no operator reads it"]),
        ("{name: t, labels: {app: x}}", "{}", ["without the label strimzi.io/cluster no operator reads it"]),
        ("{name: t, labels: {strimzi.io/cluster: main}}", "{partition: 3}", ["a KafkaTopic has no field 'partition'"]),
    ],
)
def test_topics_that_no_operator_reads_are_told(metadata: str, spec: str, told: list[str]) -> None:
    text = f"apiVersion: kafka.strimzi.io/v1\nkind: KafkaTopic\nmetadata: {metadata}\nspec: {spec}\n"
    found = read_text("t.yaml", text).pieces.problems
    assert [(p.rule, p.message.partition(",")[0].partition(":")[0]) for p in found] == [("KKL011", one) for one in told]


@pytest.mark.parametrize(
    ("kafka", "spec", "code"),
    [
        ("", "storage: {type: ephemeral}", "KKB516"),
        ("", "storage: {type: jbod, volumes: [{id: 0, type: ephemeral}]}", "KKB516"),
        ("", "jvmOptions: {'-Xmx': 8g}, resources: {limits: {memory: 4Gi}}", "KKB517"),
        ("config: {offsets.topic.replication.factor: 3}", "", "KKD125"),
        ("config: {default.replication.factor: 2, min.insync.replicas: 2}", "", "KKD102"),
    ],
)
def test_mistakes_in_resources_of_strimzi(kafka: str, spec: str, code: str) -> None:
    parts = ", ".join(part for part in ("replicas: 1, roles: [broker]", spec) if part)
    head = "apiVersion: kafka.strimzi.io/v1\n"
    listed = ", ".join(
        part for part in ("listeners: [{name: a, port: 9093, type: internal, tls: true}]", kafka) if part
    )
    text = (
        f"{head}kind: KafkaNodePool\nmetadata: {{name: p, labels: {{strimzi.io/cluster: m}}}}\nspec: {{{parts}}}\n"
        f"---\n{head}kind: Kafka\nmetadata: {{name: m}}\nspec: {{kafka: {{{listed}}}}}\n"
    )
    found = {c.rule.code for c in outcome_of({"k.yaml": text}).checked}
    assert found & {"KKB516", "KKB517", "KKD125", "KKD102"} == {code}


def test_tiered_storage_of_strimzi_is_known() -> None:
    text = (
        "apiVersion: kafka.strimzi.io/v1\nkind: Kafka\nmetadata: {name: m}\n"
        "spec: {kafka: {listeners: [], tieredStorage: {type: custom}}}\n"
    )
    (cluster,) = read_text("k.yaml", text).pieces.clusters
    assert (cluster.static or {})["remote.log.storage.system.enable"].text == "true"


def test_strimzi_connect_has_workers_and_connectors() -> None:
    worker, connector = pieces_of("c.yaml", CONNECT, "strimzi").connectors
    assert (worker.name, worker.is_worker, worker.text("config.storage.topic")) == ("cdc", True, "cdc-configs")
    assert (connector.name, connector.is_worker, connector.text("tasks.max")) == ("shop", False, "1")
    assert (connector.text("connector.class") or "").startswith("io.debezium")
    assert "hunter2" not in str(connector)


def test_what_strimzi_drops_of_a_worker_is_told_and_not_read() -> None:
    config = "{listeners: 'http://:1', ssl.protocol: TLSv1.3, rest.port: 1, offset.flush.interval.ms: 1}"
    text = f"apiVersion: kafka.strimzi.io/v1\nkind: KafkaConnect\nmetadata: {{name: c}}\nspec: {{config: {config}}}\n"
    pieces = read_text("c.yaml", text).pieces
    assert sorted(pieces.connectors[0].config) == ["offset.flush.interval.ms", "ssl.protocol"]
    assert [(p.rule, p.key, p.place.line) for p in pieces.problems] == [
        ("KKL009", "listeners", 4),
        ("KKL009", "rest.port", 4),
    ]


def test_topicctl_topics_and_clusters() -> None:
    pieces = pieces_of("t.yaml", TOPICCTL, "topicctl")
    topic = only_topic(pieces)
    assert (topic.name, topic.cluster, topic.owner) == ("clicks", "web (production, us-west-2)", "web")
    assert texts(topic.configs) == {
        "retention.ms": "5400000",
        "cleanup.policy": "delete,compact",
        "max.message.bytes": "5542880",
    }
    assert topic.configs["retention.ms"].place == ("t.yaml", 10, 3)
    assert [(a.partition, a.replicas) for a in pieces.assignments] == [(0, (1, 2, 3)), (1, (2, 3, 1))]
    cluster = "meta: {name: web, region: us-west-2, environment: production}\nspec: {bootstrapAddrs: [a:9092]}\n"
    assert pieces_of("c.yaml", cluster, "topicctl").clusters[0].name == topic.cluster
    assert pieces.clusters[0].env == "prod"


def test_a_terraform_plan_has_the_topics_of_all_modules() -> None:
    text = json.dumps(PLAN)
    first, second = pieces_of("plan.json", text, "terraform-plan").topics
    assert (first.name, first.cluster, first.partitions, first.current) == ("a", "lkc-1", 4, None)
    assert (second.name, second.replication_factor, second.current) == ("b", None, {"x.y": "1"})
    place = second.configs["x.y"].place
    assert place is not None
    assert text[place.column - 1 :].startswith('"x.y": "2"')


def test_a_reassignment_has_targets() -> None:
    text = '{"version": 1, "partitions": [{"topic": "t", "partition": 3, "replicas": [5, 6]}]}'
    (found,) = pieces_of("r.json", text, "reassignment").assignments
    assert (found.topic, found.partition, found.replicas, found.place[1:]) == ("t", 3, (5, 6), (1, 31))


def test_agents_have_an_instance_each() -> None:
    text = """init_config:
instances:
  - kafka_connect_str: [a:9092, b:9092]
    consumer_groups: {g: {t: [0, 1], u: }, h: , i: [v]}
    consumer_groups_regex: {"x.*": {}}
    sasl_plain_password: hunter2
  - {kafka_connect_str: c:9092, monitor_unlisted_consumer_groups: true}
"""
    first, second = pieces_of("any.yaml", text, "datadog-kafka-consumer").agents
    assert first.groups == {"g": {"t": (0, 1), "u": ()}, "h": {}, "i": {"v": ()}}
    assert texts(first.settings) == {
        "kafka_connect_str": "a:9092,b:9092",
        "consumer_groups": "g,h,i",
        "consumer_groups_regex": "x.*",
        "sasl_plain_password": "[hidden secret]",
    }
    assert (second.index, second.groups, second.place) == (1, None, ("any.yaml", 7, 5))


def test_the_jmx_agent_is_known_by_name_or_beans() -> None:
    (agent,) = pieces_of("conf.d/kafka.d/conf.yaml", "instances: [{host: h, port: 9999}]", "datadog-kafka").agents
    assert (agent.kind, texts(agent.settings)) == ("kafka", {"host": "h", "port": "9999"})
    text = "init_config: {is_jmx: true, conf: [{include: {domain: kafka.server}}]}\ninstances: [{host: h, port: 1}]\n"
    assert pieces_of("x.yaml", text, "datadog-kafka").agents


CHECK = '{"kafka_consumer": {"instances": [{"kafka_connect_str": "k-1", "monitor_unlisted_consumer_groups": true}]}}'
INSTANCES = '[{"kafka_connect_str": "k-1", "monitor_unlisted_consumer_groups": true}]'
CONFD = "init_config:\ninstances:\n- kafka_connect_str: k-1\n  monitor_unlisted_consumer_groups: true\n"
POD = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations:\n"
AGENT = (
    "apiVersion: datadoghq.com/v2alpha1\nkind: DatadogAgent\nspec:\n  override:\n    nodeAgent:\n      extraConfd:\n"
)


def _block(text: str, spaces: int) -> str:
    return "".join(f"{' ' * spaces}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (POD + f"    ad.datadoghq.com/app.checks: '{CHECK}'\n", 6),
        (POD + f"    ad.datadoghq.com/app.checks: |\n      {CHECK}\n", 7),
        (POD + f"    ad.datadoghq.com/app.checks: {json.dumps(CHECK)}\n", 6),
        (
            POD + f"    ad.datadoghq.com/app.check_names: '[\"x\", \"kafka_consumer\"]'\n"
            f"    ad.datadoghq.com/app.instances: '[{{}}, {INSTANCES[1:]}'\n",
            7,
        ),
        (f"services:\n  a:\n    labels:\n      com.datadoghq.ad.checks: '{CHECK}'\n", 4),
        (f"services:\n  a:\n    labels:\n    - 'com.datadoghq.ad.checks={CHECK}'\n", 4),
        ("datadog:\n  confd:\n    kafka_consumer.yaml: |-\n" + _block(CONFD, 6), 6),
        ("datadog:\n  confd:\n    kafka_consumer.yaml: >-\n" + _block(CONFD.replace("\n", "\n\n"), 6), 8),
        (f"{AGENT}        configDataMap:\n          kafka_consumer.yaml: |\n" + _block(CONFD, 12), 11),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  conf.yaml: |\n" + _block(CONFD, 4), 8),
        ("datadog_checks:\n  kafka_consumer:\n" + _block(CONFD, 4), 5),
    ],
)  # fmt: skip
def test_checks_of_the_agent_are_read_where_people_keep_them(text: str, line: int) -> None:
    reading = read_text("a.yaml", text)
    assert reading.kinds == ("datadog-kafka-consumer",)
    ((agent,), problems) = (reading.pieces.agents, reading.pieces.problems)
    assert problems == ()
    assert agent.settings["kafka_connect_str"].text == "k-1"
    at = agent.settings["kafka_connect_str"].place
    assert at is not None
    assert at.line == line
    assert text.splitlines()[line - 1][at.column - 1 :].lstrip('"\\').startswith("kafka_connect_str")
    found = [item for item in outcome_of({"a.yaml": text}).checked if item.rule.code == "KKA957"]
    assert [item.finding.place for item in found] == [at]


def test_a_workload_of_kafka_that_carries_a_check_is_of_both_kinds_and_accepts_once() -> None:
    text = (
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: kafka, annotations: {ignore.kafkakit/KKA957: mesh}}\n"
        "spec:\n  template:\n    metadata:\n      annotations:\n"
        f"        ad.datadoghq.com/kafka.checks: '{CHECK}'\n"
        "    spec:\n      containers:\n      - image: apache/kafka:4.1.0\n        name: kafka\n"
        "        env:\n        - {name: KAFKA_PROCESS_ROLES, value: broker}\n"
    )
    reading = read_text("a.yaml", text)
    assert reading.kinds == ("kubernetes", "datadog-kafka-consumer")
    assert (len(reading.pieces.brokers), len(reading.pieces.agents), len(reading.pieces.accepted)) == (1, 1, 1)
    found = {item.rule.code for item in outcome_of({"a.yaml": text}).checked}
    assert not found & {"KKA957", "KKL001"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (POD + "    ad.datadoghq.com/app.checks: '{\"kafka_consumer\": {,}}'\n", ["KKL006"]),
        (POD + "    ad.datadoghq.com/app.checks: '{\"kafka_consumer\": {{ .Values.check }}}'\n", []),
        (POD + "    ad.datadoghq.com/app.checks: '{\"nginx\": {,}}'\n", None),
        (POD + '    ad.datadoghq.com/app.instances: \'[{"kafka_connect_str": "k"}]\'\n', None),
        ("data:\n  kafka.yaml: |\n    brokers: [{id: 1}]\n", None),
        ("data:\n  kafka.yaml: |\n    instances: [{id: 1, password: x}]\n", None),
        ("kafka: {instances: [1, 2]}\ndatadog_checks: {}\n", None),
    ],
)
def test_what_is_no_check_of_kafka_is_left_alone(text: str, told: list[str] | None) -> None:
    reading = read_text("a.yaml", text)
    assert [problem.rule for problem in reading.pieces.problems] == (told or [])
    assert bool(reading.kinds) == (told is not None)


def test_aliases_in_texts_repeat_no_more_instances_than_a_file_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkakit.lint.decide.kinds.datadog.MOST_INSTANCES", 20)
    bomb = "x: &x {kafka_connect_str: k}\na: &a [*x, *x, *x]\ninstances: [*a, *a, *a]\n"
    text = "confd:\n" + "".join(f"  {number}:\n    kafka_consumer.yaml: |\n" + _block(bomb, 6) for number in range(3))
    pieces = read_text("values.yaml", text).pieces
    assert (len(pieces.agents), [problem.rule for problem in pieces.problems]) == (20, ["KKL006"])


def test_a_jmx_check_in_a_chart_is_read_with_its_secret() -> None:
    text = "confd:\n  kafka.yaml: |-\n    init_config: {is_jmx: true}\n    instances:\n    - password: x\n"
    reading = read_text("values.yaml", text)
    assert reading.kinds == ("datadog-kafka",)
    assert {item.rule.code for item in outcome_of({"values.yaml": text}).checked} == {"KKA956"}


@pytest.mark.parametrize(
    ("path", "text", "name"),
    [
        ("a.json", '{"name": "c", "config": {"connector.class": "X", "tasks.max": 1}}', "c"),
        ("a.json", '{"name": "c", "connector.class": "X", "tasks.max": "1"}', "c"),
        ("a.json", '[{"name": "c", "config": {"connector.class": "X", "tasks.max": 1}}]', "c"),
        ("a.properties", "name=c\nconnector.class=X\ntasks.max=1\n", "c"),
        ("dir/c.json", '{"connector.class": "X", "tasks.max": 1}', "c"),
        ("dir/c.properties", "connector.class=X\ntasks.max=1\n", "c"),
    ],
)
def test_connectors_in_their_forms(path: str, text: str, name: str) -> None:
    (connector,) = pieces_of(path, text, "connector").connectors
    assert (connector.name, connector.text("connector.class"), connector.text("tasks.max")) == (name, "X", "1")


def test_a_connect_worker_is_known_by_its_storage_topics() -> None:
    text = "bootstrap.servers=a:9092\ngroup.id=g\nconfig.storage.topic=c\n"
    (worker,) = pieces_of("w.properties", text, "connect-worker").connectors
    assert (worker.name, worker.is_worker) == ("g", True)


@pytest.mark.parametrize("indent", [None, 2])
def test_a_snapshot_shows_a_cluster_as_it_is(indent: int | None) -> None:
    text = json.dumps(SNAPSHOT, indent=indent)
    pieces = pieces_of("s.json", text, "cluster-snapshot")
    (cluster,), (broker,), topic = pieces.clusters, pieces.brokers, only_topic(pieces)
    assert (cluster.name, cluster.is_live, cluster.moves_running, cluster.version) == ("abc", True, True, "4.1")
    assert (broker.id, broker.rack, broker.is_known) == (1, "a", False)
    assert topic.partition_facts is not None
    assert (topic.partition_facts[0].replicas, topic.replication_factor) == ((1,), 1)
    place = topic.configs["a.b"].place
    assert place is not None
    assert text.splitlines()[place.line - 1][place.column - 1 :].startswith('"a.b": "1"')


def test_a_broken_snapshot_is_a_problem() -> None:
    (problem,) = read_text("s.json", '{"kafkakit":{"kind":"cluster-snapshot","schema":1}}').pieces.problems
    assert problem.rule == "KKL006"
    assert "cluster_id" in problem.message


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("values.yaml", "topics:\n  - name: a\n    retention: 5\n"),
        ("ci.yaml", "version: 2\nconfig: {image: x}\n"),
        ("app.properties", "spring.name=x\n"),
        ("package.json", '{"name": "x", "version": "1", "config": {"port": 1}}'),
        ("list.yaml", "- 1\n"),
        ("empty.yaml", ""),
        ("chart.yaml", "a: {{ .Values.x }}\nb: [\n"),
        ("game/server.properties", "motd=hello\nserver-port=25565\nserver-port=1\n"),
        ("mq/broker.properties", "broker.name=mq\n"),
        ("artemis/broker.properties", "maxDiskUsage=90\nglobalMaxSize=1GiB\nlisteners=tcp://0.0.0.0:61616\n"),
        ("topic.properties", "retention.ms=1\nmin.insync.replicas=2\n"),
        ("etc/node.properties", "node.environment=production\nnode.id=ffff\n"),
        ("kraft/client.properties", "bootstrap.servers=b1:9093\nsecurity.protocol=SASL_SSL\n"),
        ("config/consumer.properties", "zookeeper.connect=z:2181\ngroup.id=g\n"),
        ("config/server.properties", "# nothing yet\n"),
        ("config/zookeeper.properties", "dataDir=/tmp/zookeeper\nclientPort=2181\nmaxClientCnxns=0\n"),
        ("config/log4j.properties", "log4j.rootLogger=INFO\nlog.dir=/var/log\n"),
        ("cruisecontrol.properties", "bootstrap.servers=b:9092\nzookeeper.connect=z:2181\nnum.metric.fetchers=1\n"),
        ("schema-registry.properties", "listeners=http://0.0.0.0:8081\nkafkastore.topic=_schemas\n"),
        ("connect-distributed.properties", "a=1\n"),
        ("messages_de.properties", "a=\\u12\na=2\n"),
        ("connector.json", '{"name": "usb", "config": {"pins": 4}}'),
        ("tsconfig.json", '{\n  // strict\n  "compilerOptions": {"strict": true}\n}\n'),
        ("plan.tfplan.json", '{"steps": []}'),
        ("kafka.d/conf.yaml", "colour: blue\n"),
        ("ci.yaml", "name: x\nstep: 1\nstep: 2\n"),
        ("service.yaml", "apiVersion: v1\nkind: Service\nmetadata:\n  name: {{ .Release.Name }}\n"),
        ("compose.yaml", "services: {app: {image: 'shop:1', environment: {KAFKA_BOOTSTRAP_SERVERS: 'k:9092'}}}\n"),
        ("compose.yml", "services: {ui: {image: kafka-ui, environment: [KAFKA_CLUSTERS_0_NAME=a]}}\n"),
        ("values.yaml", "config: |\n  a=1\ncontroller: {kind: Deployment}\nprovisioning: {topics: [x]}\nkafka: {}\n"),
        ("cm.yaml", "kind: ConfigMap\ndata: {app.properties: 'spring.name=x'}\n"),
    ],
)
def test_files_of_other_tools_are_left_alone(path: str, text: str) -> None:
    assert read_text(path, text).kinds == ()
    assert read_text(path, text).pieces.problems == ()
    assert {p.rule for p in read_text(path, text, is_named=True).pieces.problems} == {"KKL007"}


@pytest.mark.parametrize(
    ("path", "text", "kind"),
    [
        ("x.properties", "unclean.leader.election.enable=true\n", "server-properties"),
        ("server.properties", "listeners=PLAINTEXT://:9092\n", "server-properties"),
        ("x.properties", "zookeeper.connect=z:2181\nnum.partitions=1\n", "server-properties"),
        ("connect-standalone.properties", "bootstrap.servers=b:9092\n", "connect-worker"),
        ("kafka_consumer.d/conf.yaml", "instances: [{tags: [x]}]\n", "datadog-kafka-consumer"),
    ],
)
def test_a_name_decides_only_about_what_the_content_allows(path: str, text: str, kind: str) -> None:
    assert read_text(path, text).kinds == (kind,)


@pytest.mark.parametrize(
    ("text", "speaks"),
    [
        ("services: {app: {environment: {KAFKA_BOOTSTRAP_SERVERS: 'k:9092'}}}\n", True),
        ("apiVersion: kafka.strimzi.io/v1\nkind: KafkaBridge\n", True),
        ("apiVersion: platform.confluent.io/v1beta1\nkind: SchemaRegistry\n", True),
        ("apiVersion: kafka.jikkou.io/v1beta2\nkind: KafkaClientQuotaList\n", True),
        ("apiVersion: kafka.banzaicloud.io/v1beta1\nkind: CruiseControlOperation\n", True),
        ("kind: Deployment\nmetadata: {name: shop}\n", False),
        ("# about kafka\na: 1\n", False),
    ],
)
def test_a_file_that_is_not_read_may_speak_of_kafka(text: str, speaks: bool) -> None:
    assert read_text("a.yaml", text).speaks == speaks
    assert read_text("a.yaml", text).kinds == ()


def test_a_broken_file_that_would_be_of_a_kind_is_reported() -> None:
    assert read_text("a.yaml", "kafkakit: cluster\ntopics: [\n").pieces.problems[0].place == ("a.yaml", 3, 1)
    assert read_text("kafka_consumer.d/conf.yaml", "instances: [\n").pieces.problems
    assert not read_text("other.yaml", "instances: [\n").pieces.problems


def test_a_kind_can_be_forced() -> None:
    reading = read_text("settings.conf", "any.key=1\n", "server-properties")
    assert texts(reading.pieces.brokers[0].static) == {"any.key": "1"}
    with pytest.raises(UsageError, match="unknown kind of file: 'nothing'"):
        read_text("a", "", "nothing")
    for kind in KINDS:
        assert read_text("a.yaml", "[]", kind).kinds == (kind,)


def test_documents_of_several_kinds_in_one_file() -> None:
    reading = read_text("a.yaml", f"{TOPICCTL}---\n{STRIMZI}")
    assert set(reading.kinds) == {"topicctl", "strimzi"}
    assert [topic.name for topic in reading.pieces.topics] == ["clicks", "payments"]


ENVIRONMENT = """services:
  one:
    image: %s
    environment: &env
      KAFKA_NODE_ID: 1
      KAFKA_PROCESS_ROLES: broker
      %s: "1"
      KAFKA_HEAP_OPTS: -Xmx1g
      KAFKA_SSL_KEY_PASSWORD: hunter2
      CLUSTER_ID: c1
  two:
    image: %s
    environment:
      <<: *env
      KAFKA_NODE_ID: "2"
  ui: {image: provectuslabs/kafka-ui, environment: [KAFKA_CLUSTERS_0_NAME=x]}
"""


@pytest.mark.parametrize(
    ("image", "variable", "key", "version"),
    [
        ("apache/kafka:4.1.0", "KAFKA_LOG_RETENTION_MS", "log.retention.ms", "4.1"),
        ("apache/kafka-native:3.9.1", "KAFKA_A__B___C", "a_b-c", "3.9"),
        ("confluentinc/cp-kafka:7.6.1", "KAFKA_A__B___C", "a-b_c", "3.6"),
        ("registry.corp:5000/confluentinc/cp-server:8.1.0", "KAFKA_NUM_PARTITIONS", "num.partitions", "4.1"),
        ("quay.io/debezium/kafka:3.0", "KAFKA_NUM_PARTITIONS", "num.partitions", None),
        ("wurstmeister/kafka:2.13-2.8.1", "KAFKA_NUM_PARTITIONS", "num.partitions", "2.8"),
        ("mycorp/kafka@sha256:0", "KAFKA_NUM_PARTITIONS", "num.partitions", None),
        ("apache/kafka:latest", "KAFKA_NUM_PARTITIONS", "num.partitions", None),
    ],
)
def test_variables_become_settings_by_the_rules_of_the_image(
    image: str, variable: str, key: str, version: str | None
) -> None:
    pieces = pieces_of("docker-compose.yml", ENVIRONMENT % (image, variable, image), "compose")
    one, two = pieces.brokers
    assert (one.id, two.id, one.roles, one.version, one.assumed_env) == (1, 2, ("broker",), version, "dev")
    assert one.static[key] == ("1", ValueSource.STATIC, Place("docker-compose.yml", 7, 7))
    assert two.static["node.id"].place == Place("docker-compose.yml", 15, 7)
    assert not {"heap.opts", "cluster.id"} & one.static.keys()
    assert "hunter2" not in str(pieces)
    assert one.node is not None
    assert one.node.cluster_id == "c1"


def test_the_image_of_bitnami_has_a_prefix_of_its_own_and_strimzis_none() -> None:
    text = (
        "services:\n  k:\n    image: bitnami/kafka:3.9\n    environment:\n      - KAFKA_CFG_NODE_ID=0\n"
        "      - KAFKA_CFG_LISTENER_NAME_A_SASL_ENABLED_MECHANISMS=PLAIN\n      - KAFKA_CLIENT_PASSWORDS=hunter2\n"
        "      - KAFKA_CFG_LISTENERS=A://:$${PORT}\n"
    )
    (broker,) = pieces_of("compose.yaml", text, "compose").brokers
    assert texts(broker.static) == {
        "node.id": "0",
        "listener.name.a.sasl.enabled.mechanisms": "PLAIN",
        "listeners": "A://:${PORT}",
        "log.dirs": "/bitnami/kafka/data",
    }
    assert broker.static["node.id"].place == Place("compose.yaml", 5, 9)
    strimzi = text.replace("bitnami/kafka:3.9", "quay.io/strimzi/kafka:0.45.0-kafka-3.9.0").replace("CFG_", "")
    assert read_text("compose.yaml", strimzi).kinds == ()


@pytest.mark.parametrize(
    "more",
    ["env_file: [x.env]", "extends: {service: base}", "volumes: ['./s.properties:/mnt/shared/config/s.properties']"],
)
def test_a_service_whose_settings_are_not_all_there_lacks_none(more: str) -> None:
    text = f"services:\n  k:\n    image: apache/kafka:4.1.0\n    {more}\n    environment: {{KAFKA_NODE_ID: 1}}\n"
    (broker,) = pieces_of("compose.yaml", text, "compose").brokers
    assert (broker.is_known, "log.dirs" in broker.static) == (False, False)


WORKLOAD = """apiVersion: apps/v1
kind: StatefulSet
metadata: {name: kafka, namespace: data, labels: {team: platform}}
spec:
  replicas: 3
  template:
    spec:
      containers:
        - name: kafka
          image: confluentinc/cp-kafka:7.9.0
          env:
            - name: KAFKA_PROCESS_ROLES
              value: broker
            - name: KAFKA_LOG_RETENTION_MS
              value: "60000"
            - name: KAFKA_NODE_ID
              valueFrom: {fieldRef: {fieldPath: metadata.name}}
        - {name: exporter, image: danielqsj/kafka-exporter, env: [{name: KAFKA_SERVER, value: a}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
data:
  log4j.properties: "log4j.rootLogger=INFO"
  server.properties: |
    # the broker
    process.roles=broker

      log.dirs=/data
    ssl.key.password=hunter2
"""


def test_workloads_and_config_maps_of_kubernetes() -> None:
    pieces = pieces_of("k.yaml", WORKLOAD, "kubernetes")
    pod, mapped = pieces.brokers
    assert (pod.count, pod.id, pod.version, pod.owner, pod.is_known) == (3, None, "3.9", "platform", True)
    assert pod.static["log.retention.ms"] == ("60000", ValueSource.STATIC, Place("k.yaml", 14, 15))
    assert pod.static["node.id"].text == "${KAFKA_NODE_ID}"
    assert {key: declared.place for key, declared in mapped.static.items()} == {
        "process.roles": Place("k.yaml", 27, 5),
        "log.dirs": Place("k.yaml", 29, 7),
        "ssl.key.password": Place("k.yaml", 30, 5),
    }
    assert "hunter2" not in str(pieces)
    listed = "kind: List\nitems: [{kind: ConfigMap, data: {server.properties: 'process.roles=broker'}}]\n"
    (broker,) = pieces_of("l.yaml", listed, "kubernetes").brokers
    assert broker.static["process.roles"].place == Place("l.yaml", 2, 54)


BITNAMI = """image: {repository: bitnami/kafka, tag: 3.9.0-debian-12-r4}
extraConfig: |
  unclean.leader.election.enable=true
controller:
  replicaCount: 3
  overrideConfiguration:
    num.io.threads: 0
provisioning:
  topics:
    - {name: orders, partitions: 3, replicationFactor: 2, config: {retention.ms: 100}}
"""


def test_values_of_helm_charts() -> None:
    pieces = pieces_of("charts/kafka/values-prod.yaml", BITNAMI, "helm-values")
    first, second = pieces.brokers
    topic = only_topic(pieces)
    assert {first.cluster, second.cluster, topic.cluster} == {"charts/kafka/values-prod.yaml"}
    assert (first.version, first.is_known, first.is_partial) == ("3.9", False, True)
    assert first.static["unclean.leader.election.enable"].place == Place("charts/kafka/values-prod.yaml", 3, 3)
    assert second.static["num.io.threads"] == ("0", ValueSource.STATIC, Place("charts/kafka/values-prod.yaml", 7, 5))
    assert (topic.partitions, topic.replication_factor, texts(topic.configs)) == (3, 2, {"retention.ms": "100"})
    confluent = "cp-kafka:\n  image: confluentinc/cp-enterprise-kafka\n  imageTag: 7.6.0\n  configurationOverrides:\n"
    confluent += '    "offsets.topic.replication.factor": "3"\n'
    (broker,) = pieces_of("values.yaml", confluent, "helm-values").brokers
    assert (broker.version, texts(broker.static)) == ("3.6", {"offsets.topic.replication.factor": "3"})


CONFLUENT = """apiVersion: platform.confluent.io/v1beta1
kind: Kafka
metadata: {name: kafka, namespace: confluent, annotations: {ignore.kafkakit/KKD106: loss is accepted}}
spec:
  replicas: 3
  image: {application: confluentinc/cp-server:7.9.0}
  configOverrides:
    server: [unclean.leader.election.enable=true, ssl.key.password=hunter2]
---
apiVersion: platform.confluent.io/v1beta1
kind: KafkaTopic
metadata: {name: orders, namespace: confluent}
spec: {replicas: 3, partitionCount: 4, kafkaClusterRef: {name: kafka}, configs: {min.insync.replicas: "3"}}
---
apiVersion: platform.confluent.io/v1beta1
kind: Connector
metadata: {name: pg, namespace: confluent}
spec: {class: X, taskMax: 2, configs: {a.b: "1"}}
"""


def test_resources_of_confluent_for_kubernetes() -> None:
    pieces = pieces_of("cfk.yaml", CONFLUENT, "confluent-operator")
    (cluster,), (nodes,), topic, (connector,) = pieces.clusters, pieces.brokers, only_topic(pieces), pieces.connectors
    assert {(p.cluster, p.namespace) for p in (nodes, topic)} == {("kafka", "confluent")}
    assert (cluster.name, cluster.is_whole, nodes.count, nodes.version, nodes.is_partial) == (
        ("kafka", True, 3, "3.9", True)
    )
    assert nodes.static["unclean.leader.election.enable"] == ("true", ValueSource.STATIC, Place("cfk.yaml", 8, 14))
    assert (topic.partitions, topic.replication_factor) == (4, 3)
    assert texts(connector.config) == {"a.b": "1", "connector.class": "X", "tasks.max": "2"}
    assert [part.ignored for part in pieces.accepted] == [{"KKD106": "loss is accepted"}]
    assert "hunter2" not in str(pieces)


@pytest.mark.parametrize(
    ("text", "kind", "cluster"),
    [
        (
            "apiVersion: kafka.banzaicloud.io/v1alpha1\nkind: KafkaTopic\nmetadata: {name: x}\n"
            "spec: {clusterRef: {name: kafka}, name: t, partitions: 3, replicationFactor: 2, "
            "config: {retention.ms: 9}}\n",
            "koperator",
            "kafka",
        ),
        (
            "apiVersion: kafka.jikkou.io/v1beta2\nkind: KafkaTopic\nmetadata: {name: t}\n"
            "spec: {partitions: 3, replicas: 2, configs: {retention.ms: 9}}\n",
            "jikkou",
            None,
        ),
        (
            "apiVersion: kafka.jikkou.io/v1beta2\nkind: KafkaTopicList\nitems:\n"
            "- metadata: {name: t}\n  spec: {partitions: 3, replicas: 2, configs: {retention.ms: 9}}\n",
            "jikkou",
            None,
        ),
        (
            "apiVersion: kafka.jikkou.io/v1beta2\nkind: KafkaTopicList\nmetadata: {labels: {}}\nspec:\n  topics:\n"
            "  - {name: t, partitions: 3, replication_factor: 2, configs: {retention.ms: 9}}\n",
            "jikkou",
            None,
        ),
        (
            "apiVersion: kafka.jikkou.io/v1\nkind: KafkaTopic\nmetadata: {name: t}\n"
            "spec: {partitions: 3, replicas: 2, configMapRefs: [shared, elsewhere]}\n---\n"
            "apiVersion: core.jikkou.io/v1\nkind: ConfigMap\nmetadata: {name: shared}\ndata: {retention.ms: 9}\n",
            "jikkou",
            None,
        ),
        (
            "topics:\n  t: {partitions: 3, replication: 2, configs: {retention.ms: 9}}\nservices: {}\n",
            "kafka-gitops",
            None,
        ),
        (
            "settings: {topics: {defaults: {replication: 2}}}\n"
            "topics:\n  t: {partitions: 3, configs: {retention.ms: 9}}\n",
            "kafka-gitops",
            None,
        ),
        (
            "projects:\n- name: ''\n  topics:\n  - name: t\n    config: {num.partitions: '3', replication.factor: '2', "
            "retention.ms: '9'}\n",
            "julieops",
            None,
        ),
    ],
)
def test_topics_as_code(text: str, kind: str, cluster: str | None) -> None:
    topic = only_topic(pieces_of("t.yaml", text, kind))
    assert (topic.name, topic.cluster, topic.partitions, topic.replication_factor) == ("t", cluster, 3, 2)
    assert texts(topic.configs) == {"retention.ms": "9"}


JULIE = """---
context: shop
source: orders
projects:
- name: checkout
  consumers:
  - principal: User:App0
  topics:
  - name: placed
    metadata: {owner: team-checkout}
    config:
      replication.factor: "3"
      num.partitions: "12"
      retention.ms: "3600000"
  - {name: paid, dataType: avro, plan: gold}
special_topics:
- {name: audit, config: {num.partitions: 1}}
platform: {schema_registry: {}}
"""


def test_a_descriptor_of_julieops_names_its_topics_by_context_and_project() -> None:
    pieces = pieces_of("descriptor.yaml", JULIE, "julieops")
    assert {(topic.name, topic.partitions, topic.replication_factor, topic.owner) for topic in pieces.topics} == {
        ("shop.orders.checkout.placed", 12, 3, "team-checkout"),
        ("shop.orders.checkout.paid.avro", None, None, None),
        ("audit", 1, None, None),
    }
    placed = next(topic for topic in pieces.topics if topic.name.endswith("placed"))
    assert placed.configs == {"retention.ms": ("3600000", ValueSource.TOPIC, Place("descriptor.yaml", 14, 7))}


def test_a_connector_of_jikkou() -> None:
    text = (
        "apiVersion: kafka.jikkou.io/v1\nkind: KafkaConnector\nmetadata: {name: sink}\n"
        "spec: {connectorClass: FileStreamSink, tasksMax: 2, config: {topics: t}, state: RUNNING}\n"
    )
    (connector,) = pieces_of("c.yaml", text, "jikkou").connectors
    assert texts(connector.config) == {"connector.class": "FileStreamSink", "tasks.max": "2", "topics": "t"}


KOPERATOR = """apiVersion: kafka.banzaicloud.io/v1beta1
kind: KafkaCluster
metadata: {name: main, namespace: kafka, labels: {team: platform}}
spec:
  zkAddresses: ["zk-0:2181", "zk-1:2181"]
  clusterImage: ghcr.io/banzaicloud/kafka:2.13-3.9.1
  readOnlyConfig: |
    # what needs a restart
    auto.create.topics.enable=false
    unclean.leader.election.enable=false
  clusterWideConfig: |
    log.retention.ms=86400000
  brokerConfigGroups:
    large:
      config: |
        num.io.threads=16
      storageConfigs:
      - mountPath: /kafka-logs
        pvcSpec: {resources: {requests: {storage: 10Gi}}}
  brokers:
  - {id: 0, brokerConfigGroup: large}
  - id: 1
    brokerConfigGroup: large
    readOnlyConfig: |
      unclean.leader.election.enable=true
    brokerConfig:
      config: |
        num.io.threads=0
"""


def test_a_cluster_of_koperator() -> None:
    pieces = pieces_of("k.yaml", KOPERATOR, "koperator")
    (cluster,), (first, second) = pieces.clusters, pieces.brokers
    assert (cluster.name, cluster.namespace, texts(cluster.dynamic_default)) == (
        ("main", "kafka", {"log.retention.ms": "86400000"})
    )
    assert {(b.cluster, b.namespace, b.version, b.owner, b.is_partial) for b in (first, second)} == (
        {("main", "kafka", "3.9", "platform", True)}
    )
    assert texts(first.static) == {
        "zookeeper.connect": "zk-0:2181,zk-1:2181",
        "auto.create.topics.enable": "false",
        "unclean.leader.election.enable": "false",
    }
    assert first.log_dirs == (LogDirFacts(path="/kafka-logs/kafka", total_bytes=10 * 2**30),)
    assert second.static["unclean.leader.election.enable"].place == Place("k.yaml", 25, 7)
    assert second.dynamic == {"num.io.threads": ("0", ValueSource.DYNAMIC_BROKER, Place("k.yaml", 28, 9))}
    found = {item.rule.code: item.finding.place for item in outcome_of({"k.yaml": KOPERATOR}).checked}
    assert {code: place and place.line for code, place in found.items()} == {"KKD106": 25, "KKV003": 28, "KKB507": 28}
    wrong = "apiVersion: kafka.banzaicloud.io/v1\nkind: KafkaCluster\nspec: {readOnlyConfig: {}, brokers: [{id: 0}]}\n"
    assert [problem.rule for problem in read_text("k.yaml", wrong).pieces.problems] == ["KKL006"]


@pytest.mark.parametrize(
    "text",
    [
        "projects:\n- {name: a, topics: [x, y]}\n",
        "projects:\n- {name: a, topics: [{name: x, config: {color: red}}]}\n",
        "context: a\nprojects: [{name: a}]\n",
        "topics: {a: {partitions: 1}}\ncolor: red\n",
        "topics: {a: {color: red}}\n",
        "services: {a: {type: application}}\n",
        "apiVersion: core.kubernetes.io/v1\nkind: ConfigMap\ndata: {a: b}\n",
    ],
)
def test_what_only_looks_like_topics_as_code_is_left_alone(text: str) -> None:
    assert read_text("a.yaml", text).kinds == ()


MIRRORS_OF_OLD = """apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {name: mirror}
spec:
  version: 3.9.0
  connectCluster: west
  clusters:
  - alias: east
    bootstrapServers: east-kafka-bootstrap:9092
  - alias: west
    bootstrapServers: west-kafka-bootstrap:9092
    config:
      config.storage.replication.factor: 1
      ssl.keystore.location: /x
  mirrors:
  - sourceCluster: east
    targetCluster: west
    sourceConnector:
      tasksMax: 2
      config:
        errors.tolerance: all
    checkpointConnector: {config: {sync.group.offsets.enabled: true}}
    heartbeatConnector: {}
    topicsPattern: orders.*
    groupsPattern: ".*"
"""
MIRRORS = """apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
metadata: {name: mirror}
spec:
  version: 4.1.0
  target:
    alias: west
    bootstrapServers: west-kafka-bootstrap:9092
    groupId: mirror
    configStorageTopic: mirror-configs
    offsetStorageTopic: mirror-offsets
    statusStorageTopic: mirror-status
  mirrors:
  - source: {alias: east, bootstrapServers: "east-kafka-bootstrap:9092"}
    sourceConnector: {tasksMax: 2}
    topicsPattern: orders.*
"""


def test_a_mirror_maker_is_a_worker_with_the_connectors_of_its_mirrors() -> None:
    worker, source, checkpoint, heartbeat = read_text("m.yaml", MIRRORS_OF_OLD).pieces.connectors
    assert (worker.is_worker, worker.name, worker.text("bootstrap.servers")) == (
        (True, "mirror", "west-kafka-bootstrap:9092")
    )
    assert (source.name, texts(source.config)) == (
        "east->west.MirrorSourceConnector",
        {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "errors.tolerance": "all",
            "source.cluster.alias": "east",
            "source.cluster.bootstrap.servers": "east-kafka-bootstrap:9092",
            "target.cluster.alias": "west",
            "target.cluster.bootstrap.servers": "west-kafka-bootstrap:9092",
            "tasks.max": "2",
            "topics": "orders.*",
        },
    )
    assert source.config["errors.tolerance"].place == Place("m.yaml", 21, 9)
    assert checkpoint.text("groups") == ".*"
    assert heartbeat.text("connector.class") == "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"
    found = {item.rule.code: item.finding.place for item in outcome_of({"m.yaml": MIRRORS_OF_OLD}).checked}
    lines = {code: place and place.line for code, place in found.items() if code not in ("KKE018",)}
    assert lines == {"KKE021": 13, "KKL009": 14, "KKE014": 21}
    worker, source = pieces_of("m.yaml", MIRRORS, "strimzi").connectors
    assert texts(worker.config) == {
        "bootstrap.servers": "west-kafka-bootstrap:9092",
        "group.id": "mirror",
        "config.storage.topic": "mirror-configs",
        "offset.storage.topic": "mirror-offsets",
        "status.storage.topic": "mirror-status",
    }
    assert (source.name, source.text("source.cluster.alias")) == ("east->west.MirrorSourceConnector", "east")


LABELLED = (
    "apiVersion: kafka.strimzi.io/v1\nkind: %s\nmetadata: {name: a, labels: {strimzi.io/cluster: main}}\nspec: %s\n"
)
RULE = (
    "{authorization: {type: simple, acls: [{resource: {type: topic, name: t, patternType: literal}, "
    "operations: [Read, Describe]}]}}"
)


@pytest.mark.parametrize(
    ("kind", "spec", "told"),
    [
        ("KafkaUser", "{}", []),
        ("KafkaUser", RULE.replace("{auth", "{authentication: {type: tls}, auth", 1), []),
        ("KafkaUser", "{authentication: {type: scram-sha-512, password: {valueFrom: {secretKeyRef: {}}}}}", []),
        ("KafkaUser", "{quotas: {producerByteRate: 1048576, requestPercentage: 55, controllerMutationRate: 10}}", []),
        ("KafkaUser", "{authorization: {type: simple, acls: [{resource: {type: cluster}, operations: [All]}]}}", []),
        (
            "KafkaUser",
            "{authorization: {type: simple, acls: [{resource: {type: topic}, operations: [All]}]}}",
            ["KKL006"],
        ),
        ("KafkaUser", "{authorization: {type: simple, acls: [{resource: {type: cluster}}]}}", ["KKL006"]),
        ("KafkaUser", "{authorization: {type: simple, acls: [{operations: [Read]}]}}", ["KKL006"]),
        ("KafkaUser", "{authorization: {type: opa, acls: []}}", ["KKL006"]),
        ("KafkaUser", RULE.replace("Read,", "Reed,"), ["KKL006"]),
        ("KafkaUser", RULE.replace("literal", "regex"), ["KKL006"]),
        ("KafkaUser", "{authentication: {type: scram-sha-256}}", ["KKL006"]),
        ("KafkaUser", "{authentication: {type: '{{ .Values.type }}'}}", []),
        ("KafkaUser", "{quotas: {producerByteRate: 1MB, controllerMutationRate: x}}", ["KKL006", "KKL006"]),
        ("KafkaUser", "{acls: []}", ["KKL011"]),
        ("KafkaRebalance", "{}", []),
        ("KafkaRebalance", "{goals: [RackAwareGoal, DiskCapacityGoal, com.acme.MyGoal]}", []),
        ("KafkaRebalance", "{mode: add-brokers, brokers: [3, 4], concurrentLeaderMovements: 100}", []),
        ("KafkaRebalance", "{mode: remove-disks, moveReplicasOffVolumes: [{brokerId: 0, volumeIds: [1]}]}", []),
        ("KafkaRebalance", "{mode: add-brokers}", ["KKL006"]),
        ("KafkaRebalance", "{mode: half}", ["KKL006"]),
        ("KafkaRebalance", "{goals: [RackAware]}", ["KKL006"]),
        ("KafkaRebalance", "{replicationThrottle: 10MB}", ["KKL006"]),
        ("KafkaRebalance", "{brokers: [a]}", ["KKL006"]),
        ("KafkaRebalance", "{concurrency: 5}", ["KKL011"]),
        ("KafkaMirrorMaker2", "{connectCluster: x, clusters: [{alias: y}]}", ["KKL006"]),
        (
            "KafkaMirrorMaker2",
            "{connectCluster: x, clusters: [{alias: x}, {alias: y}], mirrors: [{sourceCluster: z, targetCluster: y}]}",
            ["KKL006", "KKL006"],
        ),
    ],
)
def test_what_operators_refuse_or_do_not_read_of_users_rebalances_and_mirrors(
    kind: str, spec: str, told: list[str]
) -> None:
    reading = read_text("a.yaml", LABELLED % (kind, spec))
    assert reading.kinds == ("strimzi",)
    assert sorted(problem.rule for problem in reading.pieces.problems) == told


def test_a_user_and_a_rebalance_without_a_cluster_are_read_by_no_operator_but_a_template_is() -> None:
    def told(kind: str, metadata: str) -> list[str]:
        text = f"apiVersion: kafka.strimzi.io/v1\nkind: {kind}\nmetadata: {{name: {metadata}}}\nspec: {{}}\n"
        return [problem.rule for problem in read_text("a.yaml", text).pieces.problems]

    assert told("KafkaUser", "a") == told("KafkaRebalance", "a") == ["KKL011"]
    assert told("KafkaRebalance", "a, annotations: {strimzi.io/rebalance-template: 'true'}") == []
    long = LABELLED.replace("name: a,", f"name: {'a' * 65},") % ("KafkaUser", "{authentication: {type: tls}}")
    assert [problem.rule for problem in read_text("a.yaml", long).pieces.problems] == ["KKL006"]


@pytest.mark.parametrize("end", [".j2", ".ERB", ".tmpl", ".tpl"])
def test_a_template_is_of_the_kind_that_its_result_will_be(end: str) -> None:
    text = "{% if x %}\nprocess.roles=broker\n{% endif %}\nnode.id={{ id }}\nlog.dirs={{ dirs | join(',') }}\n"
    (broker,) = pieces_of(f"roles/kafka/templates/server.properties{end}", text, "server-properties").brokers
    assert texts(broker.static) == {
        "process.roles": "broker",
        "node.id": "{{ id }}",
        "log.dirs": "{{ dirs | join(',') }}",
    }
    assert broker.id is None
    assert suffix_of(f"a.properties{end}") == ".properties"
    assert (suffix_of(f"a{end}"), suffix_of("a.b.YAML"), suffix_of("a.b")) == (end.lower(), ".yaml", ".b")


def problems(line: str, path: str = "a.yaml") -> list[str]:
    return [problem.message for problem in comment_problems(read_document(path, f"config:\n  {line}\n"))]


@pytest.mark.parametrize(
    "line",
    [
        "retention.ms: 604800000  # 7 days",
        "retention.ms: 604800000  # 7d, agreed with the auditors",
        "retention.ms: 604800000  # 1 week",
        "retention.ms: 5400000  # 1.5 h",
        "retention.ms: 5400000  # 90 min",
        "segment.bytes: 1073741824  # 1 GiB",
        "segment.bytes: 1073741824  # 1 GB",
        "segment.bytes: 1000000000  # 1GB",
        "log.retention.hours: 168  # 7 days",
        "retention.ms: 604800000  # 7 days, not 3 days",
        "retention.ms: 604800000  # see JIRA 7",
        "retention.ms: 604800000  # replicas 3 of 5",
        "retention.ms: -1  # 7 days",
        "partitions: 12  # 7 days",
        "retention.ms: 604800000",
        "# 3 days",
    ],
)
def test_comments_that_agree_or_say_nothing(line: str) -> None:
    assert problems(line) == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("retention.ms: 86400000  # 7 days", "'7 days', but retention.ms is 86400000, which is 24 h"),
        ("segment.bytes: 104857600  # 1 GB", "'1 GB', but segment.bytes is 104857600, which is 100 MiB"),
        ("log.retention.hours: 24  # 7 days", "'7 days', but log.retention.hours is 24"),
    ],
)
def test_comments_that_say_another_value(line: str, said: str) -> None:
    (message,) = problems(line)
    assert said in message


def test_a_document_of_aliases_is_walked_once() -> None:
    text = "a: &a\n  retention.ms: 86400000  # 7 days\nb: *a\nc: *a\n"
    assert len(list(comment_problems(read_document("a.yaml", text)))) == 1
