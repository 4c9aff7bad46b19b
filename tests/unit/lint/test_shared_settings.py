"""What brokers share is reported once, and what is unknown or meant for others is not reported at all."""

import pytest

from kafkakit.core.findings import Finding
from kafkakit.lint.decide.pieces import AssemblyOptions
from tests.rigs.lint_examples import estate_of, outcome_of
from tests.rigs.rule_cases import SKIPPED, findings, rule_of, verdict

SHARED = """kafkakit: cluster
cluster: orders
version: "4.2"
config: {auto.create.topics.enable: "true"}
brokers: [{id: 1}, {id: 2}, {id: 3}, {id: 4}]
"""


def of(code: str, *texts: str) -> tuple[Finding, ...]:
    files = {f"{number}.yaml": text for number, text in enumerate(texts)}
    return tuple(c.finding for c in outcome_of(files, rules=[rule_of(code)]).checked)


def test_brokers_that_share_a_mistake_are_one_finding() -> None:
    (finding,) = of("KKD121", SHARED)
    assert finding.where == "broker 1, broker 2, broker 3 and 1 more of orders"
    assert (finding.count, finding.subjects) == (4, ("broker 1", "broker 2", "broker 3", "broker 4"))
    assert finding.place is not None
    assert finding.place.line == 4


def test_brokers_that_lack_a_setting_of_their_shared_file_are_one_finding() -> None:
    (finding,) = of("KKS805", SHARED)
    assert (finding.count, finding.place and finding.place.line) == (4, 5)


def test_the_finding_without_brokers_that_accept_it_names_the_others() -> None:
    text = SHARED.replace("{id: 2}", "{id: 2, lint: {ignore: {KKD121: tests create topics there}}}")
    (finding,) = of("KKD121", text)
    assert finding.subjects == ("broker 1", "broker 3", "broker 4")


POOL = """apiVersion: kafka.strimzi.io/v1
kind: KafkaNodePool
metadata: {name: p%d, labels: {strimzi.io/cluster: main}}
spec: {replicas: 1, roles: [broker], storage: {type: jbod, volumes: [{id: 0, size: 1Gi}, {id: 1, size: 1Gi}]}}
---
"""
POOLS = "".join(POOL % number for number in range(4))
KAFKA = """apiVersion: kafka.strimzi.io/v1
kind: Kafka
metadata: {name: main}
spec:
  kafka:
    version: 4.1.0
    listeners: [{name: plain, port: 9092, type: internal, tls: false}]
"""


@pytest.mark.parametrize(("code", "line"), [("KKD121", 26), ("KKS805", 26), ("KKS801", 27)])
def test_pools_have_names_and_lack_a_setting_once_where_it_would_be(code: str, line: int) -> None:
    (finding,) = of(code, POOLS + KAFKA)
    assert (finding.where, finding.place and finding.place.line) == ("pools p0, p1, p2, p3 of main", line)
    assert finding.subjects == ("pool p0", "pool p1", "pool p2", "pool p3")


def test_what_each_pool_sets_is_missing_at_the_pool() -> None:
    assert [f.place and f.place.line for f in of("KKQ857", POOLS + KAFKA)] == [4, 9, 14, 19]


def test_the_fingerprint_of_a_pool_is_that_of_brokers_so_that_baselines_hold() -> None:
    (pool,), (brokers,) = of("KKS805", POOL % 0 + KAFKA), of("KKS805", KAFKA)
    assert (pool.where, brokers.where) == ("pool p0 of main", "brokers of main")
    assert pool.fingerprint == brokers.fingerprint


def test_what_strimzi_drops_is_told_and_its_own_value_judged() -> None:
    dropped = "listeners: 'PLAIN://:1', advertised.listeners: 'X://y:1', log.dirs: /tmp/k, zookeeper.connect: z"
    kept = "ssl.enabled.protocols: TLSv1.3, zookeeper.connection.timeout.ms: 6000, min.insync.replicas: 2"
    text = POOLS + KAFKA.replace("tls: false", "tls: true") + f"    config: {{{dropped}, {kept}}}\n"
    found = [c.finding for c in outcome_of({"k.yaml": text}).checked]
    keys = [f.message.partition(" drops ")[2].partition(" ")[0] for f in found if f.rule == "KKL009"]
    assert keys == ["listeners", "advertised.listeners", "log.dirs", "zookeeper.connect"]
    assert not {"KKQ854", "KKB505", "KKS801"} & {f.rule for f in found}


VALUES = "extraConfig: |\n  auto.create.topics.enable=%s\n  log.retention.hours=1\n"


@pytest.mark.parametrize(("value", "expected"), [("true", 1), ("false", 0)])
def test_of_settings_that_are_a_part_only_those_set_are_judged(value: str, expected: int) -> None:
    files = {"values.yaml": VALUES % value}
    assert verdict("KKD121", files) == expected
    assert {verdict(code, files) for code in ("KKS805", "KKS801", "KKB505")} == {SKIPPED}


def test_an_image_of_a_version_without_a_table_is_judged_as_the_nearest() -> None:
    values = "{KAFKA_CFG_NODE_ID: 1, KAFKA_CFG_NUM_PARTITIONS: 0}"
    text = f"services: {{k: {{image: 'bitnami/kafka:3.4.0', environment: {values}}}}}\n"
    (cluster,) = estate_of({"compose.yaml": text}).clusters
    assert (cluster.table.version, cluster.is_version_mapped) == ("3.3", True)
    assert len(findings("KKV003", {"compose.yaml": text})) == 1


def test_a_tmp_of_a_container_for_development_is_its_own() -> None:
    text = "services: {k: {image: 'apache/kafka:4.1.0', environment: {KAFKA_NODE_ID: 1, KAFKA_LOG_DIRS: /tmp/k}}}\n"
    assert verdict("KKB505", {"compose.yaml": text}) == 0
    (finding,) = outcome_of({"c.yaml": text}, rules=[rule_of("KKB505")], options=AssemblyOptions(env="prod")).checked
    assert finding.finding.where == "broker 1"


def test_brokers_with_settings_of_their_own_are_findings_of_their_own() -> None:
    own = "{id: 1, config: {auto.create.topics.enable: 'true'}}, {id: 2, config: {auto.create.topics.enable: 'true'}}"
    assert [f.where for f in of("KKD121", f"brokers: [{own}]\n")] == ["broker 1", "broker 2"]


def test_topics_inherit_what_most_brokers_have_in_whatever_order() -> None:
    files = [f"brokers: [{{id: {n}, config: {{log.roll.hours: '{h}'}}}}]\n" for n, h in ((1, 500), (2, 6), (3, 6))]
    topic = "topics: [{name: t, partitions: 1, config: {retention.ms: '86400000'}}]\n"
    assert of("KKR202", *files, topic) == of("KKR202", topic, *reversed(files)) == ()
    (finding,) = of("KKR202", files[0], topic)
    assert "20 d 20 h" in finding.message


def test_partitions_that_are_not_reassigned_keep_their_replicas() -> None:
    topic = "topics: [{name: t, partitions: %d, replication_factor: 1}]\n"
    move = '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2, 3]}]}'
    for partitions, expected in ((1, 0), (2, 1)):
        files = {"a.yaml": topic % partitions, "move.json": move}
        assert verdict("KKD104", files) == expected


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        ("KKV010", "config: {num.partitions: '6'}\nbrokers: [{id: 1}, {id: 9, roles: [controller]}]", 0),
        ("KKV010", "brokers: [{id: 1, config: {num.partitions: '6'}}, {id: 9, roles: [controller]}]", 1),
        ("KKD105", "brokers: [{id: 1}]\ntopics: [{name: t, partitions: 1, replication_factor: 1}]", 0),
        ("KKD105", "broker_count: 2\ntopics: [{name: t, partitions: 1, replication_factor: 1}]", 1),
        ("KKD105", "topics: [{name: t, partitions: 1, replication_factor: 1}]", 1),
        (
            "KKR204",
            "topics: [{name: x-repartition, partitions: 1, config: {retention.ms: '-1', retention.bytes: '-1'}}]",
            0,
        ),
        ("KKR204", "topics: [{name: x, partitions: 1, config: {retention.ms: '-1', retention.bytes: '-1'}}]", 1),
        (
            "KKD113",
            "brokers: [{id: 1, rack: a}, {id: 2, rack: b}, {id: 3}]\n"
            "topics: [{name: t, partitions: 1, replication_factor: 3, config: {min.insync.replicas: '2'}}]",
            SKIPPED,
        ),
        ("KKV005", "version: '4.0'\ntopics: [{name: t, config: {message.format.version: '2.8'}}]", 0),
        (
            "KKV005",
            "version: '3.9'\ntarget_version: '4.0'\ntopics: [{name: t, config: {message.format.version: x}}]",
            0,
        ),
        ("KKV005", "version: '3.9'\ntopics: [{name: t, config: {message.format.version: '2.8'}}]", 1),
    ],
)
def test_what_is_a_finding_and_what_is_not(code: str, text: str, expected: int | str) -> None:
    assert verdict(code, text) == expected


def test_defaults_of_tiered_storage_change_only_where_it_is_on() -> None:
    text = "version: '3.9'\ntarget_version: '4.0'\nbrokers: [{id: 1, config: {log.dirs: /data%s}}]"

    def keys(more: str) -> set[str]:
        return {f.setting.key for f in findings("KKV007", text % more) if f.setting is not None}

    on = keys(", remote.log.storage.system.enable: 'true'") - keys("")
    assert len(on) >= 3
    assert all(key.startswith("remote.") for key in on)


def test_secrets_of_agents_and_in_addresses_are_findings() -> None:
    sink = '{"name": "s", "connector.class": "Sink", "connection.url": "%s"}'
    urls = (
        ("https://u:%s@h/", 0), ("https://h/", 0), ("https://u:hunter2@h/", 1),
        ("jdbc:p://h/d?user=u&password=%s", 0), ("jdbc:p://h/d?user=u&ssl=true", 0),
        ("jdbc:p://h/d?user=u&password=hunter2&ssl=true", 1), ("jdbc:s://h;Password=hunter2", 1),
    )  # fmt: skip
    for url, expected in urls:
        found = findings("KKE016", {"s.json": sink % url.replace("%s", "${env:PW}")})
        assert len(found) == expected, url
        assert "hunter2" not in str(found)
    agent = "instances:\n  - kafka_connect_str: [a:1, b:1]\n    sasl_plain_password: '%s'\n"
    for secret, expected in (("hunter2", 1), ("ENC[pw]", 0), ("%%env_PW%%", 0), ("", 0)):
        assert verdict("KKA956", {"kafka_consumer.d/conf.yaml": agent % secret}) == expected


def test_a_worker_with_one_topic_for_two_stores() -> None:
    text = "group.id=g\nconfig.storage.topic=a\noffset.storage.topic=%s\nstatus.storage.topic=c\n"
    assert verdict("KKE023", {"connect-distributed.properties": text % "b"}) == 0
    (finding,) = findings("KKE023", {"connect-distributed.properties": text % "a"})
    assert finding.message == "the topic of offsets, a, is also used for configurations"


@pytest.mark.parametrize("name", ["a.yaml", "server.properties", "a.json"])
def test_a_merge_conflict_is_one_finding_at_its_first_marker(name: str) -> None:
    text = "kafkakit: cluster\nprocess.roles: broker\n<<<<<<< HEAD\na: 1\n=======\na: 2\n>>>>>>> other\n"
    (finding,) = (c.finding for c in outcome_of({name: text}).checked)
    assert (finding.rule, finding.place and finding.place.line) == ("KKL006", 3)
    assert "merge conflict" in finding.message


@pytest.mark.parametrize(
    "text", ["a: '<<<<<<< x'\n", "# <<<<<<< x\nkafkakit: cluster\n", "kafkakit: cluster\n<<<<<<< x: 1\n"]
)
def test_what_only_looks_like_a_merge_conflict_is_read(text: str) -> None:
    assert not any("conflict" in c.finding.message for c in outcome_of({"a.yaml": text}).checked)


def test_a_version_that_nothing_tells_is_not_the_newest_of_the_fleet() -> None:
    named = ["cluster: a\nversion: '3.9'\nbrokers: [{id: 1}]\n", "cluster: b\nversion: '%s'\nbrokers: [{id: 1}]\n"]
    assert len(of("KKX007", named[0], named[1] % "4.4")) == 1
    assert of("KKX007", named[0], "cluster: b\nbrokers: [{id: 1}]\n") == ()


def test_a_wait_that_is_too_long_is_found_where_it_is_set() -> None:
    text = "brokers:\n- id: 1\n  config:\n    replica.fetch.wait.max.ms: '60000'\n%s"
    lines = [of("KKD117", text % more)[0].place for more in ("", "    replica.socket.timeout.ms: '5000'\n")]
    assert [place and place.line for place in lines] == [4, 5]
