"""What lint says a broker refuses is what brokers refuse, in both directions; the tables are those of real brokers.

Brokers are asked with validate-only, so that nothing changes: every topic of a version in few CreateTopics requests,
every dynamic broker configuration in a request of its own, because a request may name a broker once. Read-only keys
are tried by real starts of a broker without data, which ends once its configuration is read; and, many more, by the
code of Kafka's jars in one process, which also knows topics of a cluster with tiered storage. The storage tool is
asked about new nodes, and Debezium's connectors about their own settings.
"""

import base64
import itertools
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kafkakit.adapters.kafka.session import KafkaSession
from kafkakit.config.client_properties import parse_properties
from kafkakit.ports.services import Machine
from kafkakit.rules.catalogue import all_rules
from kafkakit.rules.config_defs import MINORS, NEWEST, ConfigTable, config_table, debezium_keys, minor_key, minor_of
from kafkakit.rules.effective import BrokerConfig, Configs, DeclaredValue, TopicConfig, ValueSource
from kafkakit.rules.engine import check_estate
from kafkakit.rules.rule import Limits, Subject
from kafkakit.rules.subjects import Estate, LintBroker, LintCluster, LintConnector, LintTopic
from kafkakit.sandbox.decide.processes import JavaLaunch, properties_file
from kafkakit.sandbox.lifecycle import find_launch
from tests.integration.conftest import SandboxCluster, StartCluster
from tests.places import ROOT
from tests.rigs.config_tables import COMPLETE, DEBEZIUM, PATCHES, asked, debezium_jars
from tests.rigs.kraft_random import KRAFT, random_nodes, random_storage
from tests.rigs.lint_random import random_connectors, random_dynamic, random_static, random_topics
from tests.rigs.required import missing

VERSIONS = ("3.9.2", "4.4.0")
TOPICS = 1_000
BROKERS = 1_000
NODES = 900
"""Of the code of each version; topics and files are a quarter of it each."""
FORMATTED = 200
CONNECTORS = 300
WITH_STORAGE_TOOL = ("3.7.2", "3.9.2", "4.0.2", "4.2.2", "4.4.0")
TOPIC, BROKER = 2, 4
UNKNOWN_TOPIC = 3
# Values that a broker works out from others.
COMPUTED = ("advertised.listeners", "broker.id", "node.id")
ELR_VERSIONS = MINORS[MINORS.index("4.1") :]
TIERING = (3, 6)
STARTS = 10
RIG = ROOT / "tests" / "rigs" / "CheckConfigs.java"
TIERED = {
    "process.roles": "broker",
    "node.id": "1",
    "controller.quorum.voters": "9@localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://localhost:9092",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "log.dirs": "/nowhere/kafka-logs",
    "remote.log.storage.system.enable": "true",
}
WITH_ZOOKEEPER = {
    "zookeeper.connect": "localhost:2181",
    "broker.id": "1",
    "listeners": "PLAINTEXT://localhost:9092",
    "log.dirs": "/nowhere/kafka-logs",
}
STARTED = TIERED | {"remote.log.storage.system.enable": "false"}
RULES = [rule for rule in all_rules() if rule.subject in (Subject.TOPIC, Subject.BROKER, Subject.CONFIG)]

pytestmark = pytest.mark.kafka


@dataclass(frozen=True)
class Target:
    cluster: SandboxCluster
    session: KafkaSession
    table: ConfigTable
    static: Mapping[str, str]

    @property
    def broker(self) -> int:
        return self.cluster.broker_ids[0]


@pytest.fixture(scope="module", params=VERSIONS)
def target(request: pytest.FixtureRequest, sandbox_cluster: StartCluster) -> Iterator[Target]:
    cluster = sandbox_cluster(brokers=1, racks=1, log_dirs=(1,), kafka=request.param)
    session = KafkaSession(cluster.bootstrap_servers, cluster.security, 120.0, 120.0)
    try:
        table = config_table(minor_of(request.param))
        yield Target(cluster, session, table, static_properties(cluster))
    finally:
        session.close()
        cluster.down()


def static_properties(cluster: SandboxCluster) -> dict[str, str]:
    file = properties_file(cluster.state.layout.brokers[0])
    data = cluster.store.read_text(file).encode()
    return {found.name: found.value for found in parse_properties(data, file)}


def declared(values: Mapping[str, str], source: ValueSource) -> Configs:
    return {key: DeclaredValue(value, source) for key, value in values.items()}


def test_the_tables_are_those_of_a_broker(target: Target) -> None:
    name = "tables"
    assert create_topics(target, {name: {}}, validate_only=False) == {name: None}
    shown = described(target, TOPIC, name)
    assert {d.name for d in target.table.topic.values() if not d.internal} == set(shown)
    for key, (value, synonyms) in shown.items():
        definition = target.table.topic[key]
        if not any(s in target.static for s in definition.synonyms):
            assert value == definition.default, key
        assert set(synonyms) <= {key, *definition.synonyms}, key
    shown = described(target, BROKER, str(target.broker))
    own = {d.name for d in target.table.broker.values() if not d.internal and "dynamic-only" not in d.rules}
    assert own - set(shown) == set()
    for key, (value, _) in shown.items():
        found = target.table.broker.get(key)
        assert found is not None or key in target.static, key
        if found is not None and key not in target.static and not found.is_sensitive and key not in COMPUTED:
            assert value == found.default, key


def test_topics_are_refused_as_lint_says(target: Target) -> None:
    random = Random(f"topics {target.table.version}")
    configs = {f"t-{i}": c for i, c in enumerate(random_topics(target.table, TOPICS, random, tiered=0.1))}
    brokers_say = create_topics(target, configs, validate_only=True)
    broker = BrokerConfig(target.table, static=declared(target.static, ValueSource.STATIC))
    topics = tuple(
        LintTopic(
            name=name,
            config=TopicConfig(declared(config, ValueSource.TOPIC), broker),
            partitions=1,
            replication_factor=1,
        )
        for name, config in configs.items()
    )
    lint_says = refused_by_lint(LintCluster(name="", table=target.table, topics=topics))
    compare(configs, brokers_say, {name: lint_says.get(f"topic {name}", ()) for name in configs})


def test_dynamic_broker_configurations_are_refused_as_lint_says(target: Target) -> None:
    random = Random(f"brokers {target.table.version}")
    current = {key: value or "" for key, (value, _) in described(target, BROKER, str(target.broker)).items()}
    cases = random_dynamic(target.table, BROKERS, random, current)
    brokers_say: dict[str, str | None] = {}
    lint_says: dict[str, tuple[str, ...]] = {}
    configs: dict[str, dict[str, str]] = {}
    for number, (is_default, config) in enumerate(cases):
        name = f"{'default' if is_default else 'broker'} {number}"
        configs[name] = config
        brokers_say[name] = alter_broker(target, "" if is_default else str(target.broker), config)
        lint_says[name] = refused_dynamic(target, config, is_default, current)
    compare(configs, brokers_say, lint_says)


@pytest.mark.parametrize("version", VERSIONS)
def test_starting_brokers_refuse_what_lint_says(version: str, machine: Machine, tmp_path: Path) -> None:
    table = config_table(minor_of(version))
    launch = launch_of(machine, version)
    configs = [{**STARTED, **config} for config in random_static(table, 200, Random(f"start {version}"))]
    cases = [(config, refused_static(table, config)) for config in configs]
    chosen = [case for case in cases if case[1]][: STARTS // 2] + [case for case in cases if not case[1]][: STARTS // 2]
    with ThreadPoolExecutor(2) as pool:
        started = list(pool.map(lambda case: start_broker(launch, tmp_path, case[0]), chosen))
    names = [str(number) for number in range(len(chosen))]
    compare(
        {name: config for name, (config, _) in zip(names, chosen, strict=True)},
        dict(zip(names, started, strict=True)),
        {name: lint_says for name, (_, lint_says) in zip(names, chosen, strict=True)},
    )


@pytest.mark.parametrize("version", PATCHES.values())
def test_the_code_of_kafka_refuses_what_lint_says(version: str, machine: Machine, checker: Path) -> None:
    compare_with_code(version, machine, checker, Random(f"code {version}"), NODES)


@pytest.mark.parametrize("version", WITH_STORAGE_TOOL)
def test_the_storage_tool_refuses_what_lint_says(version: str, machine: Machine, checker: Path, tmp_path: Path) -> None:
    compare_with_storage(version, machine, checker, tmp_path, Random(f"storage {version}"), FORMATTED)


def compare_with_storage(
    version: str, machine: Machine, checker: Path, folder: Path, random: Random, number: int
) -> None:
    table = config_table(minor_of(version))
    cases = {
        f"{'standalone' if is_alone else 'format'} {n}": node
        for n, (is_alone, node) in enumerate(random_storage(table, number, random, str(folder)))
    }
    answers = answers_of_code(launch_of(machine, version), checker, STARTED, cases, folder)
    lint_says = {n: refused_static(table, node, is_whole=True, is_new=True) for n, node in cases.items()}
    compare(cases, answers, lint_says)


def compare_with_code(version: str, machine: Machine, checker: Path, random: Random, number: int) -> None:
    table = config_table(minor_of(version))
    minor = minor_key(table.version)
    base = TIERED if minor >= TIERING else STARTED if minor >= KRAFT else WITH_ZOOKEEPER
    topics = random_topics(table, number // 4, random, tiered=0.6 if minor >= TIERING else 0.0)
    files, nodes = random_static(table, number // 4, random), random_nodes(table, number, random)
    cases = {f"topic {number}": config for number, config in enumerate(topics)}
    cases |= {f"broker {number}": config for number, config in enumerate(files)}
    cases |= {f"node {number}": config for number, config in enumerate(nodes)}
    answers = answers_of_code(launch_of(machine, version), checker, base, cases)
    broker = BrokerConfig(table, static=declared(base, ValueSource.STATIC))
    of_topics = refused_by_lint(
        LintCluster(
            name="",
            table=table,
            topics=tuple(
                LintTopic(name=str(number), config=TopicConfig(declared(config, ValueSource.TOPIC), broker))
                for number, config in enumerate(topics)
            ),
        )
    )
    lint_says = {name: of_topics.get(name, ()) for name in cases}
    lint_says |= {f"broker {n}": refused_static(table, {**base, **config}) for n, config in enumerate(files)}
    lint_says |= {f"node {n}": refused_static(table, config, is_whole=True) for n, config in enumerate(nodes)}
    compare(cases, answers, lint_says)


@pytest.mark.usefixtures("checker")  # without a JDK there is none
@pytest.mark.parametrize("name", DEBEZIUM)
def test_connectors_of_debezium_refuse_what_lint_says(name: str) -> None:
    compare_connectors(name, Random(f"debezium {name}"), CONNECTORS)


def compare_connectors(name: str, random: Random, number: int) -> None:
    try:
        jars = debezium_jars(name, Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafkakit")
    except Exception as error:  # jgo has no class of its own for what cannot be had
        missing("debezium", str(error))
    keys = debezium_keys()[name.rpartition(".")[2]]
    found = random_connectors(keys, number, random)
    cases = {str(n): {**COMPLETE, **given} for n, given in enumerate(found)}
    answers = asked(jars, [(name, case) for case in cases.values()])
    connectors = tuple(
        LintConnector(name=n, config=declared({"connector.class": name, **case}, ValueSource.STATIC))
        for n, case in cases.items()
    )
    rules = [rule for rule in all_rules() if rule.code == "KKE024"]
    says: dict[str, tuple[str, ...]] = {}
    for checked in check_estate(Estate(clusters=(), connectors=connectors), rules, Limits()).checked:
        about = checked.finding.where.removeprefix("connector ")
        says[about] = (*says.get(about, ()), checked.finding.message)
    compare(
        dict(zip(cases, found, strict=True)),
        {n: None if said == "accepted" else said for n, said in zip(cases, answers, strict=True)},
        {n: says.get(n, ()) for n in cases},
    )


def refused_static(
    table: ConfigTable, config: Mapping[str, str], *, is_whole: bool = False, is_new: bool = False
) -> tuple[str, ...]:
    """What lint holds against a broker's file, but for what brokers check once their log dirs are open.

    What the storage tool alone refuses counts only for a node that is new.
    """
    own = BrokerConfig(table, static=declared(config, ValueSource.STATIC), is_whole=is_whole)
    broker = LintBroker(config=own, id=1, roles=tuple(config.get("process.roles", "broker").split(",")))
    found = refused_by_lint(LintCluster(name="", table=table, brokers=(broker,)))
    messages = (m for m in itertools.chain.from_iterable(found.values()) if not m.startswith(("KKC303", "KKT902")))
    return tuple(m for m in messages if is_new or "kafka-storage" not in m)


def launch_of(machine: Machine, version: str) -> JavaLaunch:
    java = machine.find_java()
    return find_launch(machine, version, java.path, machine.jars.class_path(version, lambda _: None))


def start_broker(launch: JavaLaunch, folder: Path, config: Mapping[str, str]) -> str | None:
    """Start a broker without data: None when it got as far as missing its data, else why it ended."""
    file = Path(tempfile.mkdtemp(dir=folder)) / "server.properties"
    # KafkaConfig reads blanks and line ends at the edges only where they are escaped.
    lines = [f"{key}={escaped(value)}" for key, value in config.items()]
    file.write_text("\n".join(lines), encoding="ascii")
    options = (*launch.options(""), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    command = [launch.java, *options, "-cp", os.pathsep.join(launch.class_path), "kafka.Kafka", str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert ran.returncode == 1, ran.stdout[-1000:]
    reasons = [line for line in (ran.stdout + ran.stderr).splitlines() if "Exception" in line]
    if any("meta.properties" in line for line in reasons):
        return None
    return reasons[0] if reasons else ran.stderr[-500:]


def escaped(value: str) -> str:
    return "".join(c if c.isascii() and c.isprintable() and c not in " \\" else f"\\u{ord(c):04x}" for c in value)


@pytest.fixture(scope="module")
def checker(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the compiled program that asks the code of Kafka; the same for all versions."""
    launch, folder = launch_of(machine, PATCHES[NEWEST]), tmp_path_factory.mktemp("checker")
    modules = subprocess.run([launch.java, "--list-modules"], capture_output=True, text=True, timeout=400, check=True)
    if "jdk.compiler" not in modules.stdout:
        missing("jdk", f"{launch.java} has no compiler")
    command = [launch.java, "-XX:TieredStopAtLevel=1", "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    path = os.pathsep.join(launch.class_path)
    subprocess.run([*command, "-cp", path, "-d", str(folder), str(RIG)], timeout=400, check=True)
    return folder


def answers_of_code(
    launch: JavaLaunch,
    checker: Path,
    base: Mapping[str, str],
    cases: Mapping[str, Mapping[str, str]],
    folder: Path | None = None,
) -> dict[str, str | None]:
    """What the code of the jars says of configurations, each named by its kind: `topic 1`, `broker 1`, `node 1`.

    Directories are formatted below `folder`, which is emptied each time.
    """
    lines = [
        " ".join([name.split()[0], *(encoded(word) for pair in config.items() for word in pair)])
        for name, config in cases.items()
    ]
    quiet = ("-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off")
    ran = subprocess.run(
        [
            launch.java,
            *quiet,
            "-cp",
            os.pathsep.join((*launch.class_path, str(checker))),
            RIG.stem,
            *(f"{k}={v}" for k, v in base.items()),
        ],
        input="\n".join(lines) + "\n",
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    answers = [None if answer == "accepted" else answer for answer in ran.stdout.splitlines()]
    return dict(zip(cases, answers, strict=True))


def encoded(word: str) -> str:
    return "_" + base64.b64encode(word.encode()).decode()


def refused_dynamic(
    target: Target, config: Mapping[str, str], is_default: bool, current: Mapping[str, str]
) -> tuple[str, ...]:
    own = BrokerConfig(
        target.table,
        static=declared(target.static, ValueSource.STATIC),
        dynamic_default=declared(config, ValueSource.DYNAMIC_DEFAULT) if is_default else {},
        dynamic={} if is_default else declared(config, ValueSource.DYNAMIC_BROKER),
    )
    broker = LintBroker(config=own, id=target.broker, current=current)
    # Clusters that were made with 4.1 or later keep eligible leader replicas.
    elr = int(target.table.version in ELR_VERSIONS)
    features = {"eligible.leader.replicas.version": elr}
    cluster = LintCluster(name="", table=target.table, brokers=(broker,), features=features)
    return tuple(itertools.chain.from_iterable(refused_by_lint(cluster).values()))


def refused_by_lint(cluster: LintCluster) -> dict[str, tuple[str, ...]]:
    """The messages of the findings that mean a refusal, by what they are about."""
    found: dict[str, tuple[str, ...]] = {}
    for checked in check_estate(Estate(clusters=(cluster,)), RULES, Limits()).checked:
        if checked.refused:
            about = found.get(checked.finding.where, ())
            found[checked.finding.where] = (*about, f"{checked.rule.code} {checked.finding.message}")
    return found


def compare(
    configs: Mapping[str, Mapping[str, str]],
    brokers_say: Mapping[str, str | None],
    lint_says: Mapping[str, tuple[str, ...]],
) -> None:
    wrong = [
        f"{name} {dict(config)}:\n  broker: {brokers_say[name]}\n  lint: {lint_says[name]}"
        for name, config in configs.items()
        if (brokers_say[name] is not None) != bool(lint_says[name])
    ]
    assert not wrong, f"{len(wrong)} of {len(configs)} differ\n" + "\n".join(wrong[:25])
    refused = sum(answer is not None for answer in brokers_say.values())
    assert len(configs) * 0.2 < refused < len(configs) * 0.8, "the random configurations are one-sided"


def create_topics(
    target: Target, configs: Mapping[str, Mapping[str, str]], *, validate_only: bool
) -> dict[str, str | None]:
    from kafka.protocol.admin import CreateTopicsRequest as Request

    answers: dict[str, str | None] = {}
    for names in batched(list(configs), 200):
        topics = [
            Request.CreatableTopic(
                name=name,
                num_partitions=1,
                replication_factor=1,
                assignments=[],
                configs=[
                    Request.CreatableTopic.CreatableTopicConfig(name=k, value=v) for k, v in configs[name].items()
                ],
            )
            for name in names
        ]
        request = Request(topics=topics, timeout_ms=100_000, validate_only=validate_only)
        for topic in target.session.request("create topics", request).topics:
            answers[topic.name] = None if topic.error_code == 0 else f"{topic.error_code} {topic.error_message}"
    return answers


def alter_broker(target: Target, name: str, config: Mapping[str, str]) -> str | None:
    from kafka.protocol.admin import IncrementalAlterConfigsRequest as Request

    changes = [(key, 0, value) for key, value in config.items()]
    request = Request(resources=[(BROKER, name, changes)], validate_only=True)
    answer = target.session.request_brokers({target.broker: request})[target.broker]
    assert not isinstance(answer, Exception), answer
    (result,) = answer.responses
    return None if result.error_code == 0 else f"{result.error_code} {result.error_message}"


def described(target: Target, kind: int, name: str) -> dict[str, tuple[str | None, tuple[str, ...]]]:
    """The value of each key of a resource, and the names of its synonyms."""
    from kafka.protocol.admin import DescribeConfigsRequest

    request = DescribeConfigsRequest(resources=[(kind, name, None)], include_synonyms=True)
    end_s = time.monotonic() + 120
    while True:
        answer: Any = target.session.request_brokers({target.broker: request})[target.broker]
        assert not isinstance(answer, Exception), answer
        (result,) = answer.results
        if result.error_code != UNKNOWN_TOPIC or time.monotonic() > end_s:
            break
        time.sleep(0.1)  # the broker has not heard of the new topic yet
    assert result.error_code == 0, result.error_message
    return {entry.name: (entry.value, tuple(s.name for s in entry.synonyms)) for entry in result.configs}


def batched(items: list[str], size: int) -> Iterator[list[str]]:
    return (items[start : start + size] for start in range(0, len(items), size))
