"""Files put together; a sound file gives no finding of `core`, alone as beside its neighbours."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.core.errors import UsageError
from kafkakit.lint.decide.pieces import AssemblyOptions
from kafkakit.rules.catalogue import all_rules
from kafkakit.rules.effective import InputMissing, ValueSource
from kafkakit.rules.subjects import LintCluster
from tests.rigs.lint_examples import estate_of, outcome_of
from tests.unit.lint.test_kinds import STRIMZI, TOPICCTL


def cluster_of(options: AssemblyOptions | None = None, **texts: str) -> LintCluster:
    (cluster,) = estate_of({name.replace("_", "."): text for name, text in texts.items()}, options).clusters
    return cluster


def test_parts_of_one_name_are_one_cluster() -> None:
    found = estate_of(
        {
            "a.yaml": "cluster: x\nversion: 4.1\nbrokers: [{id: 1}]\n",
            "b.yaml": "cluster: x\nconfig: {log.retention.ms: 7}\ntopics: [{name: t}]\n",
            "c.yaml": "cluster: y\ntopics: [{name: t}]\n",
        }
    )
    x, y = found.clusters
    assert (x.name, x.table.version, len(x.brokers), len(x.topics), y.name) == ("x", "4.1", 1, 1, "y")
    assert x.topics[0].config.value("retention.ms")[:2] == ("7", ValueSource.STATIC)
    assert y.topics[0].config.broker.is_known is False


def test_what_names_no_cluster_joins_the_only_one() -> None:
    topics = "topics: [{name: t}]\n"
    assert cluster_of(a_yaml="cluster: x\nbroker_count: 3\n", b_yaml=topics).broker_number == 3
    assert cluster_of(b_yaml=topics).name == ""
    assert cluster_of(AssemblyOptions(cluster="z"), b_yaml=topics).name == "z"
    several = estate_of(
        {"a.yaml": "cluster: x\nrack_count: 1\n", "b.yaml": "cluster: y\nrack_count: 1\n", "c.yaml": topics}
    )
    assert [c.name for c in several.clusters] == ["", "x", "y"]


def test_versions_come_from_files_then_options_then_the_newest() -> None:
    topics = "topics: [{name: t}]\n"
    options = AssemblyOptions(kafka_version="3.9", target_version="4.2", env="dev")
    assert cluster_of(a_yaml=topics).table.version == "4.4"
    cluster = cluster_of(options, a_yaml=topics)
    assert (cluster.table.version, cluster.target and cluster.target.version, cluster.env) == ("3.9", "4.2", "dev")
    named = cluster_of(options, a_yaml="version: 4.0.1\nenv: staging\n" + topics)
    assert (named.table.version, named.env) == ("4.0", "staging")
    with pytest.raises(UsageError, match="is not a Kafka version"):
        cluster_of(AssemblyOptions(kafka_version="new"), a_yaml=topics)


def test_shared_configuration_is_below_a_brokers_own() -> None:
    cluster = cluster_of(a_yaml="config: {a.b: 1, c.d: 1}\nbrokers: [{id: 1, config: {a.b: 2}}, {id: 2}]\n")
    assert [b.config.text("a.b") for b in cluster.brokers] == ["2", "1"]
    assert all(b.config.is_known and b.config.text("c.d") == "1" for b in cluster.brokers)


def test_configuration_without_brokers_makes_a_template_of_unknown_number() -> None:
    cluster = cluster_of(a_yaml="config: {log.retention.ms: 5}\ntopics: [{name: t}]\n")
    assert (cluster.brokers[0].id, cluster.brokers[0].count) == (None, 0)
    assert cluster.topics[0].config.sure_number("retention.ms") == 5
    with pytest.raises(InputMissing, match="the number of brokers"):
        _ = cluster.broker_number
    assert cluster_of(a_yaml="config: {log.dirs: /a}\nbroker_count: 4\n").broker_number == 4


def test_one_properties_file_does_not_tell_how_many_brokers_there_are() -> None:
    one = "process.roles=broker\nnode.id=1\nbroker.rack=a\n"
    two = "process.roles=broker\nnode.id=2\nbroker.rack=b\n"
    with pytest.raises(InputMissing):
        _ = cluster_of(a_properties=one).rack_number
    cluster = cluster_of(a_properties=one, b_properties=two)
    assert (cluster.broker_number, cluster.rack_number) == (2, 2)


def test_a_broker_in_two_files_is_one() -> None:
    facts = "brokers: [{id: 1, rack: a, host: {open_files: 5}}, {id: 2}]\n"
    cluster = cluster_of(a_properties="node.id=1\nlog.dirs=/a\n", b_yaml=facts)
    first, second = cluster.brokers
    assert (first.id, first.rack, first.host.open_files, first.config.text("log.dirs")) == (1, "a", 5, "/a")
    assert (first.config.is_known, second.config.is_known) == (True, False)


def test_strimzi_pools_have_the_configuration_of_their_cluster() -> None:
    cluster = cluster_of(a_yaml=STRIMZI)
    assert (cluster.broker_number, cluster.env, cluster.table.version) == (3, "staging", "4.1")
    (pool,) = cluster.brokers
    assert pool.config.text("min.insync.replicas") == "2"
    assert pool.config.text("log.dirs").startswith("/var/lib/kafka/data-0")
    assert cluster.topics[0].config.value("min.insync.replicas").source is ValueSource.STATIC


@pytest.mark.parametrize(
    ("roles", "listeners"), [("broker", "R,T"), ("controller", "C"), ("controller, broker", "R,T,C")]
)
def test_strimzi_controllers_have_a_listener_of_their_own(roles: str, listeners: str) -> None:
    names = {"C": "CONTROLPLANE-9090", "R": "REPLICATION-9091", "T": "TLS-9093"}
    text = (
        "apiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaNodePool\n"
        "metadata: {name: p, labels: {strimzi.io/cluster: prod}}\n"
        f"spec: {{replicas: 3, roles: [{roles}]}}\n---\n"
        "apiVersion: kafka.strimzi.io/v1beta2\nkind: Kafka\nmetadata: {name: prod}\n"
        "spec: {kafka: {listeners: [{name: tls, port: 9093, type: internal, tls: true}]}}\n"
    )
    pool = cluster_of(a_yaml=text).brokers[0]
    found = [item.partition("://")[0] for item in pool.config.items("listeners")]
    assert found == [names[letter] for letter in listeners.split(",")]


def test_a_snapshot_joins_the_files_of_the_only_cluster() -> None:
    snapshot = (
        '{"kafkakit":{"kind":"cluster-snapshot","schema":1},"cluster_id":"abc","taken_at":"2026-01-01T00:00:00Z",'
        '"source":"s","brokers":[{"id":1}],"topics":[{"name":"t","partitions":[{"partition":0,"replicas":[1]}],'
        '"configs":{"retention.ms":"9","segment.ms":"8"}}]}'
    )
    declared = "cluster: x\ntopics: [{name: t, config: {retention.ms: 5}}]\n"
    cluster = cluster_of(a_json=snapshot, b_yaml=declared)
    (topic,) = cluster.topics
    assert (cluster.name, cluster.is_live, topic.partitions, topic.replication_factor) == ("x", True, 1, 1)
    assert (topic.config.text("retention.ms"), topic.config.text("segment.ms")) == ("5", "8")
    assert topic.current == {"retention.ms": "9", "segment.ms": "8"}
    assert topic.place is not None
    assert topic.place.path == "b.yaml"


def test_a_reassignment_counts_as_done() -> None:
    target = (
        '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]},'
        '{"topic":"u","partition":4,"replicas":[3]}]}'
    )
    observed = "{partitions: [{partition: 0, replicas: [1], isr: [1]}]}"
    declared = f"topics: [{{name: t, replication_factor: 1, observed: {observed}}}]\n"
    known, unknown = cluster_of(a_json=target, b_yaml=declared).topics
    assert known.partition_facts is not None
    assert (known.replication_factor, known.partition_facts[0].replicas, known.partition_facts[0].isr) == (
        2,
        (1, 2),
        None,
    )
    assert (unknown.name, unknown.replication_factor, unknown.partitions) == ("u", 1, None)
    assert not unknown.config.is_sure("retention.ms")


def test_topics_of_a_cluster_share_what_they_inherit() -> None:
    cluster = cluster_of(a_yaml="cluster: x\ntopics: [{name: a}, {name: b}]\n")
    first, second = cluster.topics
    first.config.text("retention.ms")
    assert second.config.inherited is first.config.inherited
    assert "retention.ms" in second.config.inherited


def test_clusters_of_one_name_in_two_environments_are_two() -> None:
    other = TOPICCTL.replace("production", "staging")
    clusters = estate_of({"a.yaml": TOPICCTL, "b.yaml": other}).clusters
    assert [c.env for c in clusters] == ["prod", "staging"]


def test_agents_and_connectors_see_the_only_cluster() -> None:
    agent = "instances: [{kafka_connect_str: a}]\n"
    connector = '{"name": "c", "connector.class": "X"}'
    found = estate_of({"a.yaml": agent, "b.json": connector, "c.yaml": "cluster: x\ntopics: [{name: t}]\n"})
    assert found.agents[0].cluster is found.clusters[0] is found.connectors[0].cluster
    assert estate_of({"a.yaml": agent}).agents[0].cluster is None


NODE = """process.roles=broker
node.id={id}
controller.quorum.voters=9@{quorum}:9093
advertised.listeners=IN://{host}:9092
unclean.leader.election.enable={unclean}
"""


def node(number: int = 1, quorum: str = "c", host: str = "b", unclean: str = "false") -> str:
    return NODE.format(id=number, quorum=quorum, host=host, unclean=unclean)


def kafka(name: str = "main", namespace: str = "", tls: str = "true", more: str = "") -> str:
    space = f", namespace: {namespace}" if namespace else ""
    return (
        f"apiVersion: kafka.strimzi.io/v1\nkind: Kafka\nmetadata: {{name: {name}{space}}}\n"
        f"spec: {{kafka: {{version: 4.1.0, listeners: [{{name: a, port: 9093, tls: {tls}}}]}}{more}}}\n"
    )


def of_strimzi(kind: str, name: str, namespace: str = "", spec: str = "replicas: 3", cluster: str = "main") -> str:
    space = f", namespace: {namespace}" if namespace else ""
    return (
        f"apiVersion: kafka.strimzi.io/v1\nkind: {kind}\n"
        f"metadata: {{name: {name}{space}, labels: {{strimzi.io/cluster: {cluster}}}}}\nspec: {{{spec}}}\n"
    )


def clusters_of(files: dict[str, str]) -> dict[str, tuple[list[int | None], list[str]]]:
    """The ids of brokers and the names of topics of each cluster."""
    found = estate_of(files).clusters
    return {c.name: ([b.id for b in c.brokers], [t.name for t in c.topics]) for c in found}


def test_one_id_in_two_folders_is_two_brokers() -> None:
    files = {"prod/server.properties": node(), "test/server.properties": node(host="t", unclean="true")}
    assert clusters_of(files) == {"prod": ([1], []), "test": ([1], [])}


def test_nodes_of_one_quorum_in_folders_of_their_own_are_one_cluster() -> None:
    files = {f"hosts/b{n}/server.properties": node(n, host=f"b{n}") for n in (1, 2, 3)}
    assert clusters_of(files) == {"": ([1, 2, 3], [])}
    local = {path: text.replace("9@c:", "9@localhost:") for path, text in files.items()}
    assert len(clusters_of(local)) == 3
    other = files | {"hosts/b4/server.properties": node(4, "d")}
    assert sorted(clusters_of(other).values()) == [([1, 2, 3], []), ([4], [])]


def test_two_quorums_of_one_folder_are_two_clusters() -> None:
    files = {"a-1.properties": node(1, "a"), "a-2.properties": node(2, "a"), "b-1.properties": node(1, "b")}
    assert sorted(clusters_of(files).values()) == [([1], []), ([1, 2], [])]
    chroots = {
        f"{n}.properties": f"broker.id=1\nzookeeper.connect=zk1:2181,zk2:2181/{root}\n" for n, root in enumerate("ab")
    }
    assert len(clusters_of(chroots)) == 2


def test_two_addresses_with_one_id_in_a_folder_are_a_clash_told_with_both_places() -> None:
    files = {"server-1.properties": node(host="b1"), "server-2.properties": node(host="b2")}
    for turned in (files, dict(reversed(files.items()))):
        found = [c.finding for c in outcome_of(turned).checked if c.rule.code == "KKQ860"]
        assert [(f.place and (f.place.path, f.place.line), "server-1.properties:2" in f.message) for f in found] == [
            (("server-2.properties", 2), True)
        ]


def test_files_without_quorum_and_id_are_not_put_together() -> None:
    bare = "log.retention.hours={hours}\nnum.network.threads=3\n"
    files = {f"server-{env}.properties": bare.format(hours=hours) for env, hours in (("prod", 1), ("test", 2))}
    assert len(clusters_of(files)) == 2
    assert "KKX003" not in {c.rule.code for c in outcome_of(files).checked}
    numbered = {path: f"broker.id={n}\n{text}" for n, (path, text) in enumerate(files.items())}
    assert len(clusters_of(numbered)) == 1


def test_workloads_of_one_namespace_with_one_quorum_are_one_cluster() -> None:
    def workload(name: str, space: str) -> str:
        variables = (
            "[{name: KAFKA_PROCESS_ROLES, value: %s}, {name: KAFKA_CONTROLLER_QUORUM_VOTERS, value: '1@c:9093'}]"
        )
        pod = f"{{containers: [{{name: k, image: 'apache/kafka:4.1.0', env: {variables % name}}}]}}"
        spec = f"{{replicas: 3, template: {{spec: {pod}}}}}"
        return f"kind: StatefulSet\nmetadata: {{name: {name}, namespace: {space}}}\nspec: {spec}\n"

    files = {f"{name}.yaml": workload(name, "a") for name in ("broker", "controller")}
    (cluster,) = estate_of(files).clusters
    assert sorted(b.roles for b in cluster.brokers) == [("broker",), ("controller",)]
    apart = {**files, "b.yaml": workload("broker", "b")}
    assert sorted(len(c.brokers) for c in estate_of(apart).clusters) == [1, 2]


def test_variants_of_one_node_are_judged_each_on_its_own() -> None:
    """Kafka's own config folder: a node of both roles, and the same as two nodes."""
    both = node(1, "localhost", "localhost").replace("=broker", "=broker,controller")
    files = {
        "config/server.properties": both,
        "config/controller.properties": node(1, "localhost", "localhost").replace("=broker", "=controller"),
        "config/broker.properties": node(2, "localhost", "localhost"),
    }
    assert clusters_of(files) == {path: ([1 if "broker." not in path else 2], []) for path in files}
    assert not {"KKQ860", "KKX003"} & {c.rule.code for c in outcome_of(files).checked}


def test_nodes_join_the_cluster_that_a_file_of_their_folder_names() -> None:
    named = "cluster: orders\nversion: '4.1'\ntopics: [{name: t}]\n"
    assert clusters_of({"o/cluster.yaml": named, "o/brokers/1.properties": node()}) == {"orders": ([1], ["t"])}
    apart = clusters_of({"o/cluster.yaml": named, "p/1.properties": node()})
    assert apart == {"orders": ([], ["t"]), "": ([1], [])}
    both = {"cluster.yaml": named, "p/s.properties": node(), "q/s.properties": node(host="x")}
    assert len(clusters_of(both)) == 3


def test_a_node_is_never_part_of_a_strimzi_cluster() -> None:
    files = {"kafka.yaml": kafka() + "---\n" + of_strimzi("KafkaNodePool", "p"), "server.properties": node()}
    assert clusters_of(files) == {"main": ([None], []), "": ([1], [])}


def test_topics_without_a_cluster_belong_to_that_of_their_folder() -> None:
    files = {f"{part}/server.properties": node(host=part) for part in ("prod", "test")}
    files |= {f"{part}/topics/t.yaml": "topics: [{name: t, partitions: 1}]\n" for part in ("prod", "test")}
    assert clusters_of(files) == {"prod": ([1], ["t"]), "test": ([1], ["t"])}
    files = {path: text for path, text in files.items() if path.endswith(".yaml")}
    assert sorted(clusters_of(files).values()) == [([], ["t"]), ([], ["t"])]


def test_strimzi_clusters_are_those_of_a_namespace_and_a_name() -> None:
    one = [of_strimzi("KafkaTopic", "orders", space) for space in "ab"]
    files = {f"{n}.yaml": f"{kafka(namespace=space)}---\n{one[n]}" for n, space in enumerate("ab")}
    assert clusters_of(files) == {"a/main": ([None], ["orders"]), "b/main": ([None], ["orders"])}
    (topic,) = (c for c in estate_of({"a.yaml": kafka(namespace="a"), "t.yaml": one[1]}).clusters if c.topics)
    assert topic.brokers == ()
    watched = kafka(namespace="a", more=", entityOperator: {topicOperator: {watchedNamespace: b}}")
    assert clusters_of({"a.yaml": watched, "t.yaml": one[1]}) == {"main": ([None], ["orders"])}
    bare = of_strimzi("KafkaTopic", "orders")
    assert clusters_of({"a.yaml": kafka(namespace="a"), "t.yaml": bare}) == {"main": ([None], ["orders"])}


def test_a_cluster_whose_name_is_filled_in_is_one_without_a_name() -> None:
    text = kafka().replace("name: main", "name: '{{ .Release.Name }}'")
    assert list(clusters_of({"kafka.yaml": text})) == [""]
    assert set(clusters_of({"kafka.yaml": text, "server.properties": node()})) == {"kafka.yaml", "server.properties"}
    pool = of_strimzi("KafkaNodePool", "p").replace("cluster: main", "cluster: '{{ .Release.Name }}'")
    (kept, own) = estate_of({"kafka.yaml": kafka(), "x/kafka.yaml": text, "x/pool.yaml": pool}).clusters
    assert {kept.name, own.name} == {"main", ""}
    assert [b.place.path for c in (kept, own) if not c.name for b in c.brokers if b.place] == ["x/pool.yaml"]


def test_two_declarations_of_one_strimzi_cluster_are_two_clusters() -> None:
    files = {f"{env}/kafka.yaml": kafka() for env in ("prod", "staging")}
    files |= {f"{env}/topics/t.yaml": of_strimzi("KafkaTopic", f"t-{env}") for env in ("prod", "staging")}
    assert clusters_of(files) == {
        "main (prod)": ([None], ["t-prod"]),
        "main (staging)": ([None], ["t-staging"]),
    }
    examples = {f"kafka-{what}.yaml": kafka() + "---\n" + of_strimzi("KafkaNodePool", what) for what in "xy"}
    assert [len(c.brokers) for c in estate_of(examples).clusters] == [1, 1]
    patch = "apiVersion: kafka.strimzi.io/v1\nkind: Kafka\nmetadata: {name: main}\nspec: {kafka: {version: 4.2.0}}\n"
    assert list(clusters_of({"base/kafka.yaml": kafka(), "overlay/patch.yaml": patch})) == ["main"]


MIXED = {
    "prod/server.properties": node(unclean="true"),
    "test/server.properties": node(host="t", unclean="true"),
    "test/plan.json": '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,7]}]}',
    "clash/server-1.properties": node(3, "e", "b1"),
    "clash/server-2.properties": node(3, "e", "b2"),
    "k/a.yaml": kafka(namespace="a", tls="false") + "---\n" + of_strimzi("KafkaNodePool", "p", "a"),
    "k/b.yaml": kafka(namespace="b") + "---\n" + of_strimzi("KafkaTopic", "orders", "b", "replicas: 1"),
    "own/cluster.yaml": "cluster: own\nbrokers: [{id: 1, config: {num.io.threads: '0'}}]\n",
    "own/more.yaml": "cluster: own\nbrokers: [{id: 1, config: {num.io.threads: '-1', num.partitions: '0'}}]\n",
    "t.yaml": "topics: [{name: loose, partitions: 1, config: {retention.ms: '0'}}]\n",
    "c1.json": '{"name": "a", "config": {"connector.class": "io.debezium.connector.mysql.X", "topic.prefix": "p"}}',
    "c2.json": '{"name": "b", "config": {"connector.class": "io.debezium.connector.mysql.X", "topic.prefix": "p"}}',
    "compose.yaml": "services: {k: {image: 'apache/kafka:4.1.0', environment: {KAFKA_NODE_ID: 1}}}\n",
}


@given(st.permutations(list(MIXED)))
@settings(max_examples=25, deadline=None)
def test_the_order_of_files_changes_nothing(order: list[str]) -> None:
    assert found_in_order(order) == found_in_order(sorted(MIXED))


def found_in_order(order: list[str]) -> list[object]:
    found = outcome_of({path: MIXED[path] for path in order})
    return [[(c.finding, c.edits, c.anchor) for c in found.checked], found.skipped]


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
ssl.keystore.location=/etc/kafka/keystore.p12
security.inter.broker.protocol=SASL_SSL
sasl.enabled.mechanisms=SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
log.dirs=/data/1
default.replication.factor=3
min.insync.replicas=2
auto.create.topics.enable=false
"""
TOPICCTL_SOUND_FILES = """meta: {name: t, cluster: web, region: r, environment: production}
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
        {"topic.yaml": TOPICCTL_SOUND_FILES},
        {"move.json": MOVE},
        {"move.json": MOVE, "server.properties": BROKER},
        {"conf.yaml": AGENT},
    ],
    ids=" ".join,
)
def test_sound_files_have_no_findings(files: dict[str, str]) -> None:
    found = outcome_of(files, rules=CORE, options=AssemblyOptions(kafka_version="4.1"))
    assert [(c.finding.rule, c.finding.where, c.finding.message) for c in found.checked] == []


@pytest.mark.parametrize(
    ("text", "version", "because"),
    [
        ("broker.id=1\nzookeeper.connect=zk:2181\n", "3.9", "zookeeper.connect"),
        ("broker.id=1\nlog.dirs=/data\n", "3.9", "broker.id"),
        ("process.roles=controller\nnode.id=1\nzookeeper.metadata.migration.enable=true\n", "3.9", "a migration"),
        ("process.roles=broker\nbroker.id=1\n", "4.4", "the newest"),
        ("process.roles=broker\nnode.id=1\nzookeeper.metadata.migration.enable=false\n", "4.4", "the newest"),
    ],
)
def test_a_version_that_is_not_told_is_that_of_the_settings(text: str, version: str, because: str) -> None:
    found = cluster_of(server_properties=text)
    assert (found.table.version, found.is_version_known) == (version, False)
    assert because in found.version_because
    told = cluster_of(AssemblyOptions(kafka_version="4.1"), server_properties=text)
    assert (told.table.version, told.is_version_known, told.version_because) == ("4.1", True, "")


def test_the_nearest_version_tells_nothing_of_keys() -> None:
    text = "broker.id=1\nzookeeper.connect=zk:2181\nport=9092\nadvertised.host.name=b1\nnum.partions=3\n"
    for version in ("2.7", "3.4", "9.9"):
        options = AssemblyOptions(kafka_version=version, nearest_version=True)
        found = outcome_of({"server.properties": text}, rules=all_rules(), options=options)
        wrong = {"KKV001", "KKV004", "KKV005", "KKQ855"}
        assert not wrong.intersection(c.finding.rule for c in found.checked)
