"""One cluster in other forms and in other files has the same findings; settings in the files of other tools."""

import json
import subprocess
import sys
from unittest.mock import patch

import pytest
import yaml

from kafkakit.core.findings import Place
from kafkakit.lint.decide import acceptance
from kafkakit.lint.decide.files import read_text
from kafkakit.lint.decide.pieces import AssemblyOptions, Pieces
from kafkakit.rules.effective import Configs
from tests.places import ROOT
from tests.rigs.lint_examples import codes_of, estate_of, outcome_of

BROKER = {
    "process.roles": "broker",
    "node.id": "0",
    "broker.rack": "a",
    "log.dirs": "/tmp/kafka",
    "listeners": "PLAINTEXT://h:9092",
    "controller.quorum.bootstrap.servers": "c:9093",
    "controller.listener.names": "CONTROLLER",
    "default.replication.factor": "1",
    "log.retention.hours": "24",
    "log.retention.ms": "3600000",
    "num.io.threads": "many",
    "log.cleaner.enable": "false",
    "unclean.leader.election.enable": "true",
    "offsets.retention.minutes": "60",
    "no.such.key": "1",
    "ssl.key.password": "hunter2",
}
TOPICS = {
    "orders": {"min.insync.replicas": "4", "retention.ms": "86400000", "segment.bytes": "1024"},
    "clicks": {"cleanup.policy": "compact", "retention.bytes": "5", "max.message.bytes": "x"},
    "plain": {},
}


def brokers() -> list[dict[str, str]]:
    return [{**BROKER, "node.id": str(n), "broker.rack": rack} for n, rack in ((1, "a"), (2, "b"), (3, "c"))]


def as_kafkakit() -> dict[str, object]:
    return {
        "brokers": [{"config": config} for config in brokers()],
        "topics": [
            {"name": name, "partitions": 6, "replication_factor": 3, "config": config}
            for name, config in TOPICS.items()
        ],
    }


def as_plan() -> dict[str, object]:
    resources = [
        {
            "address": f"kafka_topic.{name}",
            "mode": "managed",
            "type": "kafka_topic",
            "values": {"name": name, "partitions": 6, "replication_factor": 3, "config": config},
        }
        for name, config in TOPICS.items()
    ]
    return {"format_version": "1.2", "planned_values": {"root_module": {"resources": resources}}}


def found(texts: dict[str, str]) -> list[tuple[str, str, str, str]]:
    outcome = outcome_of(texts)
    return sorted(
        (f.rule, f.where, f.setting.key if f.setting else "", f.message) for f in (c.finding for c in outcome.checked)
    )


def test_the_findings_are_many() -> None:
    rules = {rule for rule, *_ in found({"a.yaml": yaml.safe_dump(as_kafkakit())})}
    assert len(rules) >= 15


def test_properties_and_plans_have_the_findings_of_kafkakit_files() -> None:
    files = {
        f"server-{number}.properties": "".join(f"{key} = {value}\n" for key, value in config.items())
        for number, config in enumerate(brokers())
    }
    files["plan.json"] = json.dumps(as_plan())
    assert found(files) == found({"a.yaml": yaml.safe_dump(as_kafkakit())})


def test_json_block_and_flow_have_the_same_findings() -> None:
    whole = as_kafkakit()
    block = found({"a.yaml": yaml.safe_dump(whole, default_flow_style=False)})
    assert found({"a.json": json.dumps(whole)}) == block
    assert found({"a.yaml": yaml.safe_dump(whole, default_flow_style=True)}) == block


def test_a_file_that_is_split_has_the_findings_of_the_whole() -> None:
    whole = as_kafkakit()
    parts: list[dict[str, object]] = [{key: [item]} for key, items in whole.items() for item in items]  # type: ignore[attr-defined]
    files = {f"{number}.yaml": yaml.safe_dump(part) for number, part in enumerate(parts)}
    assert found(files) == found({"a.yaml": yaml.safe_dump(whole)})
    documents = "---\n".join(yaml.safe_dump(part) for part in parts)
    assert found({"a.yaml": documents}) == found({"a.yaml": yaml.safe_dump(whole)})


# As cp-ansible's inventories are: variables of all hosts, of a group, of one host.
INVENTORY = """---
all:
  vars:
    ansible_user: ec2-user
    confluent_package_version: 7.9.5
    kafka_broker_custom_properties:
      default.replication.factor: 3
      min.insync.replicas: 2
      auto.create.topics.enable: no
      log.retention.hours: "{{ retention_hours }}"
    kafka_controller_custom_properties:
      num.io.threads: 16
    kafka_connect_custom_properties:
      bootstrap.servers: "{{ bootstrap }}"
zookeeper:
  hosts:
    zk1:
kafka_controller:
  hosts:
    c1: {node_id: 9991}
kafka_broker:
  vars:
    ssl_enabled: true
  hosts:
    b1: {broker_id: 1}
    b2: {broker_id: 2}
    b3:
      broker_id: 3
      kafka_broker_custom_properties:
        broker.rack: c
        num.io.threads: many
"""
ROLE = """---
kafka_version: "3.7.1"
kafka_log_dir: /var/log/kafka
kafka_log_dirs:
  - /data/1
  - /data/2
kafka_num_io_threads: 8
kafka_default_replication_factor: "{{ factor }}"
kafka_auto_create_topics_enable: yes
kafka_socket_request_max_bytes: 104_857_600
kafka_heap_opts: -Xmx4g
"""
PLAY = """- hosts: kafka
  vars:
    kafka_server_properties: |
      # of all brokers
      log.dirs=/data
      log.retention.ms=abc
    kafka:
      version: 3.9.0
      home: /opt/kafka
      broker:
        config:
          num.network.threads: 0
          unclean.leader.election.enable: yes
  roles:
    - role: kafka
      kafka_extra_config: ["num.replica.fetchers=4", "log.segment.bytes={{ segment }}"]
  tasks:
    - name: topics
      block:
        - kafka_topic:
            name: clicks
            partitions: 3
            replica_factor: 3
            options: {retention.ms: 1}
        - kafka_lib: {resource: acl, name: User:a, partitions: 1}
        - kafka_topics:
            topics:
              - {name: gone, partitions: 3, replica_factor: 3, state: absent}
              - {name: "{{ env }}.x", partitions: "{{ n }}", replica_factor: -1, options: {cleanup_policy: compact}}
"""
TOPIC_VARIABLES = """kafka_topics:
  - name: orders
    partitions: 12
    replication_factor: 2
    retention_ms: 60000
    config: {min.insync.replicas: 3}
  - {name: notes}
"""


def pieces_of(path: str, text: str, kind: str) -> Pieces:
    reading = read_text(path, text, is_named=True)
    assert reading.kinds == (kind,)
    return reading.pieces


def texts(configs: Configs) -> dict[str, str]:
    return {key: value.text for key, value in configs.items()}


def test_an_inventory_gives_each_broker_what_all_groups_and_itself_set() -> None:
    controller, one, two, three = pieces_of("hosts.yml", INVENTORY, "ansible").brokers
    shared = {
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "auto.create.topics.enable": "false",
        "log.retention.hours": "{{ retention_hours }}",
    }
    assert (controller.id, controller.roles, texts(controller.static)) == (
        9991,
        ("controller",),
        {"num.io.threads": "16"},
    )
    assert [(b.id, b.roles, b.count, b.version) for b in (one, two)] == [(n, ("broker",), 1, "3.9") for n in (1, 2)]
    assert texts(one.static) == texts(two.static) == shared
    assert texts(three.static) == {"broker.rack": "c", "num.io.threads": "many"}
    assert (three.id, three.rack) == (3, "c")
    assert one.static["min.insync.replicas"].place == Place("hosts.yml", 8, 7)
    assert three.static["num.io.threads"].place == Place("hosts.yml", 31, 9)
    assert [(rule, where) for rule, where, *_ in found({"hosts.yml": INVENTORY}) if rule == "KKV002"] == [
        ("KKV002", "broker 3 of hosts.yml")
    ]


def test_hosts_without_ids_that_set_the_same_are_counted() -> None:
    hosts = "kafka:\n  vars: {kafka_config: {log.retention.hours: 5}}\n  hosts: {k1: , k2: }\n"
    (broker,) = pieces_of("hosts.yml", hosts, "ansible").brokers
    assert (broker.id, broker.count, broker.static["log.retention.hours"].text) == (None, 2, "5")
    (broker,) = pieces_of("hosts.yml", hosts.replace("k2", '"k[2:9]"'), "ansible").brokers
    assert broker.count == 0


def test_variables_of_a_role_that_are_called_like_settings() -> None:
    (broker,) = pieces_of("roles/kafka/defaults/main.yml", ROLE, "ansible").brokers
    assert texts(broker.static) == {
        "log.dirs": "/data/1,/data/2",
        "num.io.threads": "8",
        "default.replication.factor": "{{ factor }}",
        "auto.create.topics.enable": "true",
        "socket.request.max.bytes": "104857600",
    }
    assert (broker.version, broker.is_partial, broker.is_known, broker.count) == ("3.7.1", True, False, 0)
    assert broker.static["num.io.threads"].place == Place("roles/kafka/defaults/main.yml", 7, 1)
    # A version without a table is no reason to refuse the file: it only tells what runs there.
    assert outcome_of({"roles/kafka/defaults/main.yml": ROLE}).checked


def test_a_playbook_with_settings_in_texts_mappings_and_lists_and_with_topics() -> None:
    pieces = pieces_of("play.yml", PLAY, "ansible")
    of_play, of_role = pieces.brokers
    assert texts(of_play.static) == {
        "log.dirs": "/data",
        "log.retention.ms": "abc",
        "num.network.threads": "0",
        "unclean.leader.election.enable": "true",
    }
    assert of_play.static["log.retention.ms"].place == Place("play.yml", 6, 7)
    assert texts(of_role.static) == {"num.replica.fetchers": "4", "log.segment.bytes": "{{ segment }}"}
    clicks, filled = pieces.topics
    assert (clicks.name, clicks.partitions, clicks.replication_factor, texts(clicks.configs)) == (
        "clicks",
        3,
        3,
        {"retention.ms": "1"},
    )
    assert clicks.configs["retention.ms"].place == Place("play.yml", 24, 23)
    assert (filled.name, filled.partitions, filled.replication_factor) == ("{{ env }}.x", None, None)
    assert texts(filled.configs) == {"cleanup.policy": "compact"}
    rules = {rule for rule, *_ in found({"play.yml": PLAY})}
    assert {"KKV002", "KKV003"} <= rules
    assert "KKV015" not in rules  # nothing is known of a name that a template fills in


def test_lists_of_topics_are_read_where_ansible_keeps_variables() -> None:
    path = "group_vars/kafka/topics.yml"
    (topic,) = pieces_of(path, TOPIC_VARIABLES, "ansible").topics
    assert (topic.name, topic.partitions, topic.replication_factor) == ("orders", 12, 2)
    assert texts(topic.configs) == {"min.insync.replicas": "3", "retention.ms": "60000"}
    assert topic.place == Place(path, 2, 5)
    assert read_text("settings.yml", TOPIC_VARIABLES).kinds == ()


@pytest.mark.parametrize(
    "text",
    [
        "kafka: {bootstrap.servers: 'k:9092', group.id: a, enable.auto.commit: false}\n",
        "kafka_consumer_config: {min.insync.replicas: 1, log.dirs: a}\n",
        "kafka_topics: [a, b]\nkafka_num_partitions: 3\n",
        "- hosts: web\n  roles: [nginx]\n  tasks: [{name: a, copy: {src: a}}]\n",
        "web: {hosts: {a: , b: }, vars: {x: 1}}\n",
        "kafka: {hosts: {a: , b: }}\n",
        "- {name: a, partitions: 3}\n",
        "kafka_log_retention_hours: 3\n",
    ],
)
def test_files_of_others_are_no_files_of_ansible(text: str) -> None:
    assert read_text("vars.yml", text).kinds == ()


def test_what_an_authorizer_and_the_environment_tell_without_a_cluster() -> None:
    # It kept its rules in ZooKeeper; a node without roles that has it does not run 4.0.
    authorizer = "kafka_broker_custom_properties: {authorizer.class.name: kafka.security.authorizer.AclAuthorizer}\n"
    assert [rule for rule, *_ in found({"a.yml": authorizer}) if rule == "KKS812"] == []
    (cluster,) = estate_of({"a.yml": authorizer}).clusters
    assert (cluster.table.version, cluster.version_because) == (
        "3.9",
        "AclAuthorizer without process.roles shows ZooKeeper (3.9 or earlier)",
    )
    connector = json.dumps(
        {
            "name": "shop",
            "config": {
                "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
                "snapshot.mode": "always",
            },
        }
    )
    for env, number in (("dev", 0), ("prod", 1), (None, 1)):
        outcome = outcome_of({"shop.json": connector}, options=AssemblyOptions(env=env))
        assert [c.rule.code for c in outcome.checked].count("KKE004") == number


TERRAFORM = """terraform {
  required_providers { kafka = { source = "Mongey/kafka" } }
}
variable "rf" { default = 3 }
locals {
  day_ms = 24 * 60 * 60 * 1000 // a day
  topics = {
    orders = { partitions = 12, days = 7, config = { "cleanup.policy" = "delete" } }
    clicks = { partitions = 3 }
  }
  listed = [{ name = "one", n = 1 }, { name = "two", n = 2 }]
  loop   = local.loop
}
resource "aws_s3_bucket" "b" { bucket = "x" }
resource "kafka_topic" "logs" {
  name               = "logs"
  replication_factor = 2
  partitions         = 100
  config = {
    # kafkakit: ignore[KKV003] reason="kept by hand"
    "cleanup.policy"      = "compat"
    "min.insync.replicas" = 3
    "retention.ms"        = var.retention
    "segment.ms"          = local.loop
    (var.key)             = 1
  }
}
"""
EACH = """
resource "kafka_topic" "each" {
  for_each           = local.topics
  name               = "${each.key}.v1"
  partitions         = each.value.partitions
  replication_factor = var.rf
  config = merge({
    "retention.ms" = try(each.value.days, 2) * local.day_ms
    "retention.bytes" = -(1)
  }, lookup(each.value, "config", {}))
}
resource "kafka_topic" "for" {
  for_each   = { for t in local.listed : t.name => t }
  name       = "${var.env}-${each.key}"
  partitions = each.value["n"]
}
resource "kafka_topic" "unknown" {
  for_each   = var.topics
  name       = each.key
  partitions = length(var.topics) > 1 ? 3 : 1
  dynamic "x" {
    for_each = [1]
    content { y = 1 }
  }
}
resource "kafka_topic" "none" {
  count = 0
  name  = "none"
}
resource "confluent_kafka_topic" "paid" {
  kafka_cluster { id = confluent_kafka_cluster.main.id }
  topic_name       = "paid"
  partitions_count = 6
  config           = { "retention.ms" = "604800000" }
}
"""
MSK = """
resource "aws_msk_configuration" "this" {
  kafka_versions    = ["2.8.1", var.version]
  name              = "${var.name}-config"
  server_properties = <<-PROPERTIES
    auto.create.topics.enable = true
    num.io.threads=many

    log.retention.hours = ${var.hours}
  PROPERTIES
}
resource "aws_msk_cluster" "main" {
  cluster_name           = "main"
  kafka_version          = "3.8.x"
  number_of_broker_nodes = 3
  broker_node_group_info { instance_type = "kafka.m5.large" }
  configuration_info {
    arn      = aws_msk_configuration.this[0].arn
    revision = 1
  }
}
"""


def test_topics_of_terraform_have_their_literal_values_and_places() -> None:
    pieces = pieces_of("topics.tf", TERRAFORM + EACH, "terraform")
    by_name = {topic.name: topic for topic in pieces.topics}
    logs, orders, clicks = (by_name[name] for name in ("logs", "orders.v1", "clicks.v1"))
    assert (logs.name, logs.partitions, logs.replication_factor, logs.place) == (
        "logs",
        100,
        2,
        Place("topics.tf", 15, 1),
    )
    assert texts(logs.configs) == {
        "cleanup.policy": "compat",
        "min.insync.replicas": "3",
        "retention.ms": "${var.retention}",
        "segment.ms": "${local.loop}",
    }
    assert logs.configs["cleanup.policy"].place == Place("topics.tf", 21, 5)
    assert (orders.partitions, clicks.partitions, orders.replication_factor) == (12, 3, None)
    assert texts(orders.configs) == {
        "retention.ms": "604800000",
        "retention.bytes": "-1",
        "cleanup.policy": "delete",
    }
    assert clicks.configs["retention.ms"].text == "172800000"
    assert orders.configs["cleanup.policy"].place == Place("topics.tf", 8, 54)
    assert {name: topic.partitions for name, topic in by_name.items()} == {
        "logs": 100,
        "orders.v1": 12,
        "clicks.v1": 3,
        "${var.env}-one": 1,
        "${var.env}-two": 2,
        "${kafka_topic.unknown}": None,
        "paid": 6,
    }
    outcome = outcome_of({"topics.tf": TERRAFORM + EACH})
    rules = {c.rule.code for c in outcome.checked}
    assert "KKD101" in rules
    assert not rules & {"KKV015", "KKV003", "KKL001"}  # accepted by the comment; names that are filled in


def test_a_configuration_of_msk_is_a_cluster_with_its_properties() -> None:
    (broker,) = pieces_of("msk.tf", MSK, "terraform").brokers
    assert texts(broker.static) == {
        "auto.create.topics.enable": "true",
        "num.io.threads": "many",
        "log.retention.hours": "${var.hours}",
    }
    assert broker.static["num.io.threads"].place == Place("msk.tf", 7, 5)
    assert (broker.version, broker.count, broker.host.platform) == ("3.8", 3, "msk:kafka.m5.large")
    (broker,) = pieces_of("msk.tf", MSK.partition('resource "aws_msk_cluster"')[0], "terraform").brokers
    assert (broker.version, broker.count, broker.host.platform) == ("2.8", 0, None)
    problems = [(rule, where) for rule, where, *_ in found({"msk.tf": MSK}) if rule == "KKV002"]
    assert problems == [("KKV002", "brokers of aws_msk_configuration.this")]


def test_files_of_terraform_that_lint_does_not_know_or_cannot_read() -> None:
    foreign = 'resource "aws_s3_bucket" "b" {\n  bucket = "x"\n}\n'
    assert read_text("s3.tf", foreign).pieces == Pieces()
    # Nothing of them is parsed, however they are written.
    assert read_text("s3.tf", foreign + "a = (\n").pieces == Pieces()
    broken = read_text("a.tf", TERRAFORM.replace("= 100", "= = 100"))
    (problem,) = broken.pieces.problems
    assert (problem.rule, problem.message, problem.place) == ("KKL006", "not valid HCL", Place("a.tf", 18, 24))
    deep = 'resource "kafka_topic" "a" {\n  name = ' + "(" * 5000 + "1" + ")" * 5000 + "\n}\n"
    assert [topic.partitions for topic in read_text("a.tf", deep).pieces.topics] == [None]
    large = f'resource "kafka_topic" "a" {{}}\n{"# x" * 1_000_000}'
    (problem,) = read_text("a.tf", large).pieces.problems
    assert problem.message == "more than 2,097,152 characters of Terraform"


def test_help_and_other_files_load_no_parser_of_terraform() -> None:
    code = (
        "import sys\nfrom kafkakit.lint.decide.files import read_text\n"
        "read_text('a.yaml', 'a: 1')\nread_text('a.tf', 'resource \"x\" \"y\" {}')\n"
        "print('hcl2' in sys.modules or 'lark' in sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


SERVER = """debezium.sink.type=kafka
debezium.sink.kafka.producer.bootstrap.servers=kafka:9092
debezium.sink.kafka.producer.acks=1
debezium.source.connector.class=io.debezium.connector.postgresql.PostgresConnector
debezium.source.offset.storage=org.apache.kafka.connect.storage.KafkaOffsetBackingStore
debezium.source.offset.storage.topic=offsets
debezium.source.offset.flush.interval.ms=0
debezium.source.database.hostname=postgres
debezium.source.database.password=${DB_PASSWORD}
debezium.source.plugin.name=pgoutput
debezium.source.topic.prefix=shop
debezium.source.snapshot.mode=always
debezium.source.slot.name=My-Slot
debezium.source.hearbeat.interval.ms=1000
debezium.format.value=json
debezium.format.value.schemas.enable=false
debezium.transforms=unwrap
debezium.transforms.unwrap.type=io.debezium.transforms.ExtractNewRecordState
quarkus.log.level=INFO
"""
SERVER_RULES = {"KKE004", "KKE013", "KKE017", "KKE024", "KKE025"}


def rules_of(texts: dict[str, str]) -> dict[str, Place | None]:
    """The rules of connectors that find something, with the place of each."""
    outcome = outcome_of(texts)
    return {c.rule.code: c.finding.place for c in outcome.checked if c.rule.code.startswith("KKE")}


def test_the_source_of_debezium_server_is_judged_as_a_connector() -> None:
    path = "cdc/conf/application.properties"
    (connector,) = pieces_of(path, SERVER, "debezium-server").connectors
    assert (connector.name, connector.runs_alone) == ("cdc/conf/application", True)
    assert connector.text("producer.override.acks") == "1"
    assert connector.config["snapshot.mode"].place == Place(path, 12, 1)
    places = rules_of({path: SERVER})
    assert places.keys() >= SERVER_RULES
    assert places["KKE004"] == Place(path, 12, 1)
    assert places["KKE017"] == Place(path, 3, 1)
    # The topic of the offsets is Debezium Server's, and no misspelt key of a connector.
    assert places["KKE025"] == Place(path, 14, 1)
    assert read_text("application.properties", "quarkus.http.port=8080\nkafka.topic=a\n").kinds == ()
    # Without the connector's class it speaks of Debezium Server, but is not read.
    part = "debezium.source.snapshot.mode=always\n"
    assert (read_text(path, part).kinds, read_text(path, part).speaks) == ((), True)


def variables(text: str) -> dict[str, str]:
    pairs = (line.partition("=")[::2] for line in text.splitlines() if line.startswith("debezium"))
    return {key.upper().replace(".", "_"): value for key, value in pairs}


def test_debezium_server_in_containers_and_config_maps() -> None:
    service = {"image": "quay.io/debezium/server:3.2", "environment": variables(SERVER.replace("${", "$${"))}
    compose = yaml.safe_dump({"services": {"cdc": service}})
    (connector,) = pieces_of("compose.yaml", compose, "compose").connectors
    assert (connector.name, connector.env, connector.text("snapshot.mode")) == ("cdc", "dev", "always")
    # compose files are of no production, in which a snapshot at each start would be an error
    assert rules_of({"compose.yaml": compose}).keys() >= SERVER_RULES - {"KKE004"}
    assert "KKE004" not in rules_of({"compose.yaml": compose})
    for more in ({"env_file": ".env"}, {"volumes": ["./conf:/debezium/conf"]}):
        incomplete = yaml.safe_dump({"services": {"cdc": {**service, **more}}})
        assert read_text("compose.yaml", incomplete).pieces.connectors == ()
    indented = "".join(f"    {line}\n" for line in SERVER.splitlines())
    config_map = (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: cdc}}\ndata:\n  application.properties: |\n{indented}"
    )
    (connector,) = pieces_of("cdc.yaml", config_map, "kubernetes").connectors
    assert (connector.name, connector.config["snapshot.mode"].place) == ("cdc", Place("cdc.yaml", 17, 5))
    assert rules_of({"cdc.yaml": config_map}).keys() >= SERVER_RULES


VARIABLES = """apiVersion: v1
kind: ConfigMap
metadata:
  name: kafka-env
  namespace: prod
  annotations: {ignore.kafkakit/KKV003: "a test of limits"}
data:
  KAFKA_PROCESS_ROLES: broker
  KAFKA_NUM_IO_THREADS: many
  KAFKA_NUM_NETWORK_THREADS: "0"
  KAFKA_LOG_DIRS: /data
  KAFKA_HEAP_OPTS: -Xmx4g
"""
STATEFUL_SET = """---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: kafka, namespace: prod}
spec:
  replicas: 3
  template:
    spec:
      containers:
        - image: apache/kafka:4.1.0
          envFrom:
            - configMapRef: {name: kafka-env}
          env:
            - {name: KAFKA_LOG_DIRS, value: /other}
            - name: KAFKA_BROKER_RACK
              valueFrom: {configMapKeyRef: {name: kafka-env, key: KAFKA_LOG_DIRS}}
"""


def test_variables_of_config_maps_are_those_of_the_containers_that_take_them() -> None:
    (broker,) = pieces_of("kafka.yaml", VARIABLES + STATEFUL_SET, "kubernetes").brokers
    assert texts(broker.static) == {
        "process.roles": "broker",
        "num.io.threads": "many",
        "num.network.threads": "0",
        "log.dirs": "/other",
        "broker.rack": "/data",
    }
    assert (broker.count, broker.is_partial, broker.version) == (3, False, "4.1")
    assert broker.static["num.io.threads"].place == Place("kafka.yaml", 9, 3)
    rules = {rule for rule, *_ in found({"kafka.yaml": VARIABLES + STATEFUL_SET})}
    assert "KKV002" in rules
    assert "KKV003" not in rules  # accepted by the annotation of the ConfigMap
    # A ConfigMap that no container of its file takes is a part of a broker's settings.
    (broker,) = pieces_of("env.yaml", VARIABLES, "kubernetes").brokers
    assert (broker.count, broker.is_partial, broker.static["log.dirs"].text) == (0, True, "/data")
    for other in (STATEFUL_SET.replace("configMapRef", "secretRef"), STATEFUL_SET.replace("kafka-env", "other")):
        one, two = pieces_of("kafka.yaml", VARIABLES + other, "kubernetes").brokers
        assert (one.is_partial, two.is_partial) == (True, True)
    application = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {KAFKA_BOOTSTRAP_SERVERS: 'k:9092'}\n"
    assert read_text("a.yaml", application).kinds == ()


def test_what_thousands_of_annotations_accept_is_looked_up_and_not_searched_for() -> None:
    # The work grows with the resources: each finding is compared with the suppressions of its own resource only.
    topic = (
        "apiVersion: kafka.strimzi.io/v1\nkind: KafkaTopic\n"
        "metadata: {name: t%d, annotations: {ignore.kafkakit/KKV003: audited}, labels: {strimzi.io/cluster: c}}\n"
        "spec: {partitions: 3, replicas: 3, config: {cleanup.policy: compat}}\n---\n"
    )
    with patch.object(acceptance, "_covers", wraps=acceptance._covers) as covers:
        outcome = outcome_of({"topics.yaml": "".join(topic % number for number in range(300))})
    assert "KKV003" not in codes_of(outcome)
    assert covers.call_count <= 2 * 300


FORMS = ROOT / "tests" / "cases" / "lint" / "forms"


def test_files_as_other_projects_have_them_have_the_findings_that_were_judged() -> None:
    wanted = yaml.safe_load((FORMS.parent / "forms.findings.yaml").read_text())
    actual: dict[str, list[tuple[int, str]]] = {}
    for path in sorted(path for path in FORMS.rglob("*") if path.is_file()):
        name = path.relative_to(FORMS).as_posix()
        outcome = outcome_of({name: path.read_text()})
        rows = sorted((c.finding.place.line if c.finding.place else 0, c.rule.code) for c in outcome.checked)
        if rows:
            actual[name] = rows
        assert read_text(name, path.read_text(), is_named=True).kinds
    assert actual == {name: sorted((line, rule) for line, rule, _ in rows) for name, rows in wanted.items()}
