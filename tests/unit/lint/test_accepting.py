"""Suppressions and the baseline: what is accepted, and what is said of acceptances that are no good."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.core.errors import InputError
from kafkakit.lint.decide import acceptance
from kafkakit.lint.decide.acceptance import decode_baseline, encode_baseline, prune_baseline
from kafkakit.lint.decide.kinds import operators, topics_as_code
from kafkakit.rules.catalogue import all_rules
from kafkakit.rules.engine import RuleFinding
from tests.rigs.lint_runs import codes, linted

TOPIC = "kafkakit: cluster\ntopics:\n- name: a\n  config:\n    retention.ms: '0'{comment}\n"
ZERO = ["KKT002", "KKT001"]


def found(comment: str = "", head: str = "", **changed: object) -> list[str]:
    return sorted(codes(linted(head + TOPIC.format(comment=comment), **changed)))


def test_without_a_suppression_both_rules_find_something() -> None:
    assert found() == sorted(ZERO)


@pytest.mark.parametrize(
    ("comment", "left"),
    [
        ('  # kafkakit: ignore[KKT001, segments-of-a-day] reason="a test"', []),
        ('  # kafkakit: ignore[KKT] reason="a test"', []),
        ('  # kafkakit: ignore[KKT001] until=2026-11-22 reason="a test"', ["KKT002"]),
        ('  # kafkakit: ignore[KKT001] until=2026-11-21 reason="a test"', ["KKL003", "KKT001", "KKT002"]),
        ("  # kafkakit: ignore[KKT001]", ["KKL002", "KKT002"]),
        ('  # kafkakit: ignore[KKT001] until=soon reason="x"', ["KKL003", "KKT002"]),
        ('  # kafkakit: ignore[KKT999] reason="a test"', ["KKL004", "KKT001", "KKT002"]),
        ('  # kafkakit: ignore[] reason="a test"', ["KKL004", "KKT001", "KKT002"]),
        ('  # kafkakit: ignore[KKL006] reason="a test"', ["KKL001", "KKT001", "KKT002"]),
        ("  # kafkakit is a fine tool", sorted(ZERO)),
    ],
)
def test_a_comment_accepts_findings_of_its_line(comment: str, left: list[str]) -> None:
    assert found(comment) == left


def test_a_comment_on_its_own_line_is_about_the_next_line_that_is_none() -> None:
    text = TOPIC.format(comment="").replace(
        "    retention",
        '    # kafkakit: ignore[KKT001] reason="a"\n    # kafkakit: ignore[KKT002] reason="b"\n    retention',
    )
    assert codes(linted(text)) == []


def test_a_file_is_accepted_as_a_whole_and_resources_by_annotation() -> None:
    assert found(head='# kafkakit: file-ignore[KKT001] reason="old"\n') == ["KKT002"]
    annotated = TOPIC.format(comment="") + "  lint: {ignore: {KKT002: because}}\n"
    assert codes(linted(annotated)) == ["KKT001"]
    assert linted(annotated).result.suppressed == 1


POOLS = """apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {name: pool, namespace: a, labels: {strimzi.io/cluster: main}}
spec: {replicas: 3, roles: [broker]}
---
apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata: {name: main, namespace: a, annotations: {%s}}
spec:
  kafka:
    version: 4.1.0
    listeners: [{name: a, port: 9093, type: internal, tls: false}]
    config: {log.dirs: /data}
"""
CONNECT = """apiVersion: kafka.strimzi.io/v1
kind: %s
metadata: {name: pg, labels: {strimzi.io/cluster: connect}, annotations: {%s}}
spec: {class: io.debezium.connector.mysql.MySqlConnector, config: {%s}}
"""


def found_in(text: str, *codes_: str) -> tuple[list[str], int]:
    rules = tuple(rule for rule in all_rules() if rule.code in (*codes_, "KKL001"))
    run = linted(text, rules=rules, known=all_rules())
    return sorted(codes(run)), run.result.suppressed


@pytest.mark.parametrize("code", ["KKS801", "KKS805", "KKL009"])
def test_annotations_at_a_kafka_accept_what_stands_in_it(code: str) -> None:
    assert found_in(POOLS % "", code) == ([code], 0)
    assert found_in(POOLS % f"ignore.kafkakit/{code}: mesh", code) == ([], 1)
    assert found_in(POOLS % "ignore.kafkakit/KKD101: mesh", code, "KKD101") == (["KKL001", code], 0)


@pytest.mark.parametrize(
    ("kind", "code", "config"),
    [
        ("KafkaConnector", "KKE004", "topic.prefix: x, snapshot.mode: always"),
        ("KafkaConnect", "KKE017", "producer.acks: 1"),
    ],
)
def test_annotations_at_connectors_and_workers_accept_their_findings(kind: str, code: str, config: str) -> None:
    accepted = f"ignore.kafkakit/{code}: rebuilt each time"
    assert found_in(CONNECT % (kind, "", config), code) == ([code], 0)
    assert found_in(CONNECT % (kind, accepted, config), code) == ([], 1)
    both = CONNECT % (kind, accepted, config) + "---\n" + CONNECT % (kind, "", config)
    assert found_in(both, code) == ([code], 1)


def test_a_finding_is_not_compared_with_the_annotations_of_all_resources(monkeypatch: pytest.MonkeyPatch) -> None:
    covers, compared = acceptance._covers, []

    def counted(suppression: acceptance.Suppression, item: RuleFinding) -> bool:
        compared.append(suppression)
        return covers(suppression, item)

    monkeypatch.setattr(acceptance, "_covers", counted)
    one = CONNECT % ("KafkaConnector", "ignore.kafkakit/KKE004: rebuilt", "topic.prefix: x, snapshot.mode: always")
    assert found_in("---\n".join([one] * 50), "KKE004") == ([], 50)
    assert len(compared) == 50


STRIMZI, CONFLUENT, KOPERATOR = "kafka.strimzi.io/v1", "platform.confluent.io/v1beta1", "kafka.banzaicloud.io/v1beta1"
OF_MAIN = "labels: {strimzi.io/cluster: main}"
CHECK = """'{"kafka_consumer": {"instances": [{"kafka_connect_str": "k"}]}}'"""
RESOURCES = {
    "Kafka": (STRIMZI, "", "spec: {kafka: {listeners: [], config: {auto.create.topics.enable: true}}}", "KKD121"),
    "KafkaNodePool": (STRIMZI, OF_MAIN, "spec: {replicas: many}", "KKL006"),
    "KafkaTopic": (STRIMZI, OF_MAIN, "spec: {partitions: 1, replicas: 1}", "KKD104"),
    "KafkaConnect": (STRIMZI, "", "spec: {config: {producer.acks: 1}}", "KKE017"),
    "KafkaConnector": (STRIMZI, "", "spec: {class: x, config: {errors.tolerance: all}}", "KKE014"),
    "KafkaMirrorMaker2": (
        STRIMZI,
        "",
        "spec: {connectCluster: a, clusters: [{alias: a, config: {config.storage.replication.factor: 1}}]}",
        "KKE021",
    ),
    "KafkaUser": (STRIMZI, OF_MAIN, "spec: {acls: []}", "KKL011"),
    "KafkaRebalance": (STRIMZI, OF_MAIN, "spec: {goals: [None]}", "KKL006"),
    "Kafka of Confluent": (
        CONFLUENT,
        "",
        "spec: {replicas: 3, configOverrides: {server: [unclean.leader.election.enable=true]}}",
        "KKD106",
    ),
    "KRaftController": (CONFLUENT, "", "spec: {configOverrides: {server: [node.idd=1]}}", "KKV001"),
    "KafkaTopic of Confluent": (CONFLUENT, "", "spec: {partitionCount: 1, replicas: 1}", "KKD104"),
    "Connector": (CONFLUENT, "", "spec: {class: x, configs: {errors.tolerance: all}}", "KKE014"),
    "KafkaCluster": (
        KOPERATOR,
        "",
        "spec: {readOnlyConfig: unclean.leader.election.enable=true, brokers: [{id: 0}]}",
        "KKD106",
    ),
    "KafkaTopic of koperator": (KOPERATOR, "", "spec: {partitions: 1, replicationFactor: 1}", "KKD104"),
    "KafkaTopic of jikkou": ("kafka.jikkou.io/v1", "", "spec: {partitions: 1, replicas: 1}", "KKD104"),
    "KafkaConnector of jikkou": ("kafka.jikkou.io/v1", "", "spec: {config: {errors.tolerance: all}}", "KKE014"),
    "StatefulSet": (
        "apps/v1",
        "",
        "spec: {template: {spec: {containers: [{image: apache/kafka, env: "
        "[{name: KAFKA_UNCLEAN_LEADER_ELECTION_ENABLE, value: 'true'}]}]}}}",
        "KKD106",
    ),
    "ConfigMap": ("v1", "", 'data: {server.properties: "node.id=1\\nunclean.leader.election.enable=true"}', "KKD106"),
    "Deployment": (
        "apps/v1",
        "",
        f"spec: {{template: {{metadata: {{annotations: {{ad.datadoghq.com/x.checks: {CHECK}}}}}}}}}",
        "KKA952",
    ),
    "DatadogAgent": (
        "datadoghq.com/v2alpha1",
        "",
        "spec: {override: {nodeAgent: {extraConfd: {configDataMap: {kafka_consumer.yaml: "
        "'instances: [{kafka_connect_str: k}]'}}}}}",
        "KKA952",
    ),
}


@pytest.mark.parametrize("name", RESOURCES)
def test_annotations_accept_findings_of_every_kind_of_resource(name: str) -> None:
    api, labels, body, code = RESOURCES[name]

    def resource(annotations: str) -> str:
        metadata = ", ".join(part for part in ("name: main", labels, f"annotations: {{{annotations}}}") if part)
        return f"apiVersion: {api}\nkind: {name.partition(' of ')[0]}\nmetadata: {{{metadata}}}\n{body}\n"

    without, accepted = resource(""), resource(f"ignore.kafkakit/{code}: reviewed")
    assert found_in(without, code) == ([code], 0)
    assert found_in(accepted, code) == ([], 1)
    other = resource("").replace("name: main", "name: other")
    assert found_in(f"{accepted}---\n{other}", code) == ([code], 1)
    assert found_in(f"{other}---\n{accepted}", code) == ([code], 1)
    assert found_in(resource("ignore.kafkakit/KKC301: reviewed"), code, "KKC301") == (sorted(["KKL001", code]), 0)
    assert found_in(resource(f"ignore.kafkakit/{code}: ''"), code, "KKL002") == (["KKL002"], 1)


def test_every_resource_that_is_read_is_tried_with_an_annotation() -> None:
    kinds = {(api.partition("/")[0], name.partition(" of ")[0]) for name, (api, *_) in RESOURCES.items()}
    read = {("kafka.strimzi.io", kind) for kind in operators._READERS}
    for kind in (topics_as_code.CONFLUENT_KIND, topics_as_code.KOPERATOR_KIND):
        told = kind.recognise.keywords  # type: ignore[attr-defined]
        read |= {(told["group"], name) for name in told["kinds"]}
    assert read <= kinds


@pytest.mark.parametrize("roles", ["[broker]", "[controller]", "[broker, controller]"])
def test_a_node_accepts_findings_of_its_own(roles: str) -> None:
    node = f"kafkakit: cluster\nbrokers:\n- id: 7\n  roles: {roles}\n  config: {{retention.msx: '1'}}\n"
    rules = tuple(rule for rule in all_rules() if rule.code == "KKV001")
    assert codes(linted(node, rules=rules, known=rules)) == ["KKV001"]
    accepted = linted(node + "  lint: {ignore: {KKV001: a plugin reads it}}\n", rules=rules, known=rules)
    assert (codes(accepted), accepted.result.suppressed) == ([], 1)


def test_a_suppression_of_a_rule_that_did_not_run_is_not_unused() -> None:
    run = linted(TOPIC.format(comment='  # kafkakit: ignore[KKT002] reason="a"'), rules=())
    assert codes(run) == []


def test_the_baseline_accepts_what_was_there_and_reports_what_is_new_or_gone() -> None:
    two = TOPIC.format(comment="") + "- name: b\n  config: {retention.ms: '0'}\n"
    baseline = decode_baseline(encode_baseline(linted(TOPIC.format(comment="")).unaccepted), "b.json")
    run = linted(two, baseline=baseline, baseline_path="b.json")
    assert [(c.rule.code, c.finding.where) for c in run.result.checked] == [
        ("KKT001", "topic b"),
        ("KKT002", "topic b"),
    ]
    assert run.result.baselined == 2
    gone = linted("kafkakit: cluster\ntopics: []\n", baseline=baseline, baseline_path="b.json")
    assert codes(gone) == ["KKL005", "KKL005"]
    assert {c.finding.place.path for c in gone.result.checked if c.finding.place} == {"b.json"}
    pruned = decode_baseline(prune_baseline(baseline, gone.unaccepted), "b.json")
    assert pruned.findings == []


def test_a_baseline_survives_lines_that_move_and_values_that_change() -> None:
    before = decode_baseline(encode_baseline(linted(TOPIC.format(comment="")).unaccepted), "b")
    after = "# a comment\n\n" + TOPIC.format(comment="").replace("'0'", '"0"')
    assert codes(linted(after, baseline=before)) == []


@given(st.binary(max_size=200))
def test_a_file_that_is_no_baseline_is_refused(data: bytes) -> None:
    with pytest.raises(InputError):
        decode_baseline(data, "b.json")


def test_a_baseline_is_the_same_bytes_for_the_same_findings_with_one_entry_a_line() -> None:
    data = encode_baseline(linted(TOPIC.format(comment="")).unaccepted)
    assert data == encode_baseline(tuple(reversed(linted(TOPIC.format(comment="")).unaccepted)))
    assert data.count(b"\n") == 4
