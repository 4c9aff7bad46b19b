"""A: rules of the Datadog agent's `kafka_consumer.d/conf.yaml`, and of secrets in `kafka.d/conf.yaml` too."""

import re
from collections.abc import Iterator

from kafkakit.core.quantities import count_of
from kafkakit.rules.effective import FILLED_IN, InputMissing, to_items
from kafkakit.rules.rule import (
    CORE,
    ERROR,
    NOTE,
    STRICT,
    WARNING,
    Edit,
    Fix,
    Limits,
    Needs,
    Violation,
    Violations,
    agent_rule,
)
from kafkakit.rules.subjects import LintAgent, LintCluster, require_known
from kafkakit.rules.values import HIDDEN, holds_literal_secret, holds_placeholder, is_secret_key

KIND = "kafka_consumer"
CONNECT = "kafka_connect_str"
SELECTORS = (
    "consumer_groups",
    "consumer_groups_regex",
    "monitor_unlisted_consumer_groups",
    "enable_cluster_monitoring",
    "monitor_all_broker_highwatermarks",
)
PARTITION_LIMIT = 500
MECHANISMS = ("PLAIN", "GSSAPI", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
ZOOKEEPER_KEYS = ("zk_connect_str", "zk_prefix", "zk_timeout", "kafka_consumer_offsets", "zk_iteration_ival")
_PORT = re.compile(r":\d{1,5}$")


@agent_rule("KKA951", WARNING, CORE)
def default_connect_str(agent: LintAgent, limits: Limits) -> Violations:
    """The agent connects to `localhost:9092`, or to a single broker.

    Why: `localhost` is right only for an agent on a broker's own machine. With one endpoint the check fails whenever
    that broker restarts; the specification recommends several.
    Source: DataDog integrations-core, `kafka_consumer/assets/configuration/spec.yaml`.

    Bad:
        --- kafka_consumer.d/conf.yaml
        init_config: {}
        instances:
          - kafka_connect_str: localhost:9092
            monitor_unlisted_consumer_groups: true

    Good:
        --- kafka_consumer.d/conf.yaml
        init_config: {}
        instances:
          - kafka_connect_str: [kafka-1:9092, kafka-2:9092]
            monitor_unlisted_consumer_groups: true
    """
    if agent.kind != KIND:
        return
    declared = agent.settings.get(CONNECT)
    endpoints = to_items(declared.text) if declared is not None else ("localhost:9092",)
    if any("%%" in e for e in endpoints):
        return  # a template of the agent's autodiscovery
    local = [e for e in endpoints if e.rpartition(":")[0] in ("localhost", "127.0.0.1", "[::1]")]
    if local:
        where = f"connects to {local[0]}" + ("" if declared is not None else f", the default without {CONNECT}")
        yield Violation(message=f"the agent {where}: right only on a broker's own machine", key=CONNECT)
    elif len(endpoints) == 1:
        yield Violation(f"{endpoints[0]} is the only endpoint: nothing is collected while that broker is away", CONNECT)


@agent_rule("KKA952", ERROR, CORE)
def no_groups_selected(agent: LintAgent, limits: Limits) -> Violations:
    """The agent's instance selects no consumer groups, so it collects nothing.

    Why: one of consumer_groups, consumer_groups_regex, monitor_unlisted_consumer_groups and
    enable_cluster_monitoring is required; without one the check runs and sends no lag. An instance with
    monitor_all_broker_highwatermarks collects the offsets of partitions without any group.
    Source: DataDog integrations-core, `kafka_consumer/assets/configuration/spec.yaml`.

    Bad:
        --- kafka_consumer.d/conf.yaml
        instances:
          - kafka_connect_str: [kafka-1:9092, kafka-2:9092]

    Good:
        --- kafka_consumer.d/conf.yaml
        instances:
          - kafka_connect_str: [kafka-1:9092, kafka-2:9092]
            monitor_unlisted_consumer_groups: true
    """
    if agent.kind == KIND and not _lists_groups(agent) and not any(_is_true(agent, key) for key in SELECTORS[2:]):
        yield Violation(
            message=f"none of {', '.join(SELECTORS)} is set: nothing is collected",
            hint="set monitor_unlisted_consumer_groups: true, or list groups",
        )


@agent_rule("KKA957", ERROR, CORE)
def refused_agent_setting(agent: LintAgent, limits: Limits) -> Violations:
    """A setting of the agent's instance cannot work: an address without a port, a pattern that does not compile.

    Why: the check fails to start or to connect, and its metrics are missing. The keys of the days when groups were
    kept in ZooKeeper are not read any more.
    Source: DataDog integrations-core, `kafka_consumer/assets/configuration/spec.yaml`, `datadog_checks/kafka_consumer`.

    Bad:
        --- kafka_consumer.d/conf.yaml
        instances:
          - kafka_connect_str: [kafka-1, kafka-2]
            monitor_unlisted_consumer_groups: true

    Good:
        --- kafka_consumer.d/conf.yaml
        instances:
          - kafka_connect_str: [kafka-1:9092, kafka-2:9092]
            monitor_unlisted_consumer_groups: true
    """
    if agent.kind != KIND:
        return
    connect = agent.settings.get(CONNECT)
    for endpoint in to_items(connect.text) if connect is not None else ():
        if not holds_placeholder(endpoint) and "%%" not in endpoint and not _PORT.search(endpoint):
            yield Violation(f"{endpoint!r:.80} has no port", CONNECT, expected="HOST:PORT", subject=endpoint)
    regexes = agent.settings.get("consumer_groups_regex")
    # A comma may separate two patterns or be part of one.
    if regexes is not None and _compile_error(regexes.text):
        pattern = next((item for item in to_items(regexes.text) if _compile_error(item)), regexes.text)
        yield Violation(
            message=f"{pattern!r:.80} is not a regular expression: {_compile_error(pattern)}",
            key="consumer_groups_regex",
            subject=pattern,
        )
    mechanism = agent.settings.get("sasl_mechanism")
    named = mechanism.text.strip() if mechanism is not None else ""
    if mechanism is not None and named and named.upper() not in MECHANISMS and not holds_placeholder(named):
        yield Violation(
            message=f"{mechanism.text!r:.80} is not a SASL mechanism that the check knows",
            key="sasl_mechanism",
            expected=", ".join(MECHANISMS),
        )
    for key in ZOOKEEPER_KEYS:
        if key in agent.settings:
            yield Violation(
                message=f"{key} is not read any more: the check asks brokers for offsets, not ZooKeeper",
                key=key,
                severity=WARNING,
            )


def _compile_error(pattern: str) -> str:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return str(error) or "it is too large"
    return ""


@agent_rule("KKA953", WARNING, CORE, fix=Fix.SAFE)
def ignored_group_list(agent: LintAgent, limits: Limits) -> Violations:
    """Groups are listed beside `monitor_unlisted_consumer_groups: true`, which ignores the lists.

    Why: all groups are collected, up to the limit of 500 partitions, so the listed ones may be among those dropped.
    Source: DataDog integrations-core, `kafka_consumer/assets/configuration/spec.yaml`.

    Bad:
        --- kafka_consumer.d/conf.yaml
        instances:
          - kafka_connect_str: [kafka-1:9092, kafka-2:9092]
            monitor_unlisted_consumer_groups: true
            consumer_groups:
              billing:
                orders:
                  - 0

    Good:
        --- kafka_consumer.d/conf.yaml
        instances:
          - kafka_connect_str: [kafka-1:9092, kafka-2:9092]
            consumer_groups:
              billing:
                orders:
                  - 0
    """
    if agent.kind != KIND or not _is_true(agent, "monitor_unlisted_consumer_groups"):
        return
    lists = [key for key in SELECTORS[:2] if key in agent.settings]
    if agent.groups and "consumer_groups" not in lists:
        lists.insert(0, "consumer_groups")
    for key in lists:
        yield Violation(
            f"{key} is ignored: monitor_unlisted_consumer_groups is true", key, edits=(Edit(key, is_safe=True),)
        )


@agent_rule("KKA954", WARNING, CORE, Needs.FILE, Needs.LIVE)
def partition_limit(agent: LintAgent, limits: Limits) -> Violations:
    """The agent's instance asks for more than 500 partitions.

    Why: the check collects metrics for at most 500 partitions (each group counts its own) and drops the others,
    which ones is not defined.
    Source: Datadog documentation, "Kafka consumer", limits.

    Bad:
        --- cluster.yaml
        topics: [{name: orders, partitions: 300}]
        --- kafka_consumer.d/conf.yaml
        instances:
          - kafka_connect_str: [kafka-1:9092, kafka-2:9092]
            consumer_groups:
              billing: {orders: []}
              search: {orders: []}

    Good:
        --- cluster.yaml
        topics: [{name: orders, partitions: 100}]
        --- kafka_consumer.d/conf.yaml
        instances:
          - kafka_connect_str: [kafka-1:9092, kafka-2:9092]
            consumer_groups:
              billing: {orders: []}
              search: {orders: []}
    """
    if agent.kind != KIND:
        return
    own = agent.settings.get("max_partition_contexts")
    limit = int(own.text) if own is not None and own.text.isdigit() else PARTITION_LIMIT
    number = sum(_asked_for(agent))
    if number > limit:
        yield Violation(
            message=f"{count_of(number, 'partition')} are asked for, the agent collects {limit} and drops others",
            key=next((key for key in SELECTORS if key in agent.settings), None),
            hint="list the groups and topics that matter, or use several instances",
        )


@agent_rule("KKA955", NOTE, STRICT, Needs.FILE, Needs.LIVE, fix=Fix.SAFE)
def dead_group_reference(agent: LintAgent, limits: Limits) -> Violations:
    """A listed group, topic or partition is not in the cluster.

    Why: the agent asks for it at every run and sends nothing; an alert on its lag never fires.
    Source: DataDog integrations-core, `kafka_consumer`.

    Bad:
        --- cluster.yaml
        topics: [{name: orders, partitions: 3}]
        observed: {groups: [{name: billing, topics: [orders]}]}
        --- kafka_consumer.d/conf.yaml
        instances:
          - kafka_connect_str: [kafka-1:9092, kafka-2:9092]
            consumer_groups:
              biling: {orders: []}
              billing: {orders: []}

    Good:
        --- cluster.yaml
        topics: [{name: orders, partitions: 3}]
        observed: {groups: [{name: billing, topics: [orders]}]}
        --- kafka_consumer.d/conf.yaml
        instances:
          - kafka_connect_str: [kafka-1:9092, kafka-2:9092]
            consumer_groups:
              billing: {orders: []}
    """
    if agent.kind != KIND or not agent.groups:
        return
    cluster = require_known(agent.cluster, "the agent's cluster")
    for path, what in _find_missing(agent, cluster):
        yield Violation(
            message=f"{what} is listed, but not in the cluster",
            key=path[-1],
            place=agent.places.get(path),
            observed="",
            edits=(Edit(path[-1], is_safe=True),) if not what.startswith("partition ") else (),
            subject=what,
        )


def _find_missing(agent: LintAgent, cluster: LintCluster) -> Iterator[tuple[tuple[str, ...], str]]:
    """What is listed and does not exist: where it is listed, and what it is."""
    groups = {g.name for g in require_known(cluster.groups, "consumer groups")}
    topics = _partitions_of(cluster)
    for group, listed in (agent.groups or {}).items():
        if group not in groups:
            yield (group,), f"group {group}"
            continue
        for topic, partitions in listed.items():
            number = topics.get(topic)
            if topic not in topics:
                yield (group, topic), f"topic {topic}"
            elif number is not None:
                yield from (((group, topic), f"partition {topic}-{p}") for p in partitions if p >= number)


def _asked_for(agent: LintAgent) -> Iterator[int]:
    """The partitions that each part of an instance asks for; `InputMissing` where the cluster has to tell."""
    if _is_true(agent, "monitor_all_broker_highwatermarks"):
        yield sum(_known_partitions(require_known(agent.cluster, "the agent's cluster")).values())
    if _is_true(agent, "monitor_unlisted_consumer_groups"):
        cluster = require_known(agent.cluster, "the agent's cluster")
        numbers = _known_partitions(cluster)
        for group in require_known(cluster.groups, "consumer groups"):
            yield sum(numbers.get(name, 0) for name in group.topics)
        return
    if "consumer_groups_regex" in agent.settings and not agent.groups:
        raise InputMissing("groups that a pattern selects")
    for name, listed in (agent.groups or {}).items():
        if not listed:
            cluster = require_known(agent.cluster, "the agent's cluster")
            numbers = _known_partitions(cluster)
            read = next((g.topics for g in require_known(cluster.groups, "consumer groups") if g.name == name), ())
            yield sum(numbers.get(topic, 0) for topic in read)
        for topic, partitions in listed.items():
            if partitions:
                yield len(partitions)
            else:
                yield _known_partitions(require_known(agent.cluster, "the agent's cluster")).get(topic, 0)


def _partitions_of(cluster: LintCluster) -> dict[str, int | None]:
    return {t.name: t.partitions if t.partition_facts is None else len(t.partition_facts) for t in cluster.topics}


def _known_partitions(cluster: LintCluster) -> dict[str, int]:
    return {name: require_known(number, "partitions of topics") for name, number in _partitions_of(cluster).items()}


def _lists_groups(agent: LintAgent) -> bool:
    return bool(agent.groups) or any(key in agent.settings and agent.settings[key].text for key in SELECTORS[:2])


def _is_true(agent: LintAgent, key: str) -> bool:
    declared = agent.settings.get(key)
    if declared is not None and holds_placeholder(declared.text):
        raise InputMissing(FILLED_IN)
    return declared is not None and declared.text.strip().lower() in ("true", "yes", "on")


@agent_rule("KKA956", ERROR, CORE)
def agent_literal_secret(agent: LintAgent, limits: Limits) -> Violations:
    """A password of the agent's instance is written out.

    Why: a secret in a repository is known to all who ever cloned it. The agent reads it from a secrets backend
    (`ENC[...]`) or from its environment (`%%env_NAME%%`). The secret itself is printed in no report.
    Source: Datadog documentation, "Secrets Management".

    Bad:
        --- kafka_consumer.d/conf.yaml
        init_config: {}
        instances:
          - kafka_connect_str: [kafka-1:9092, kafka-2:9092]
            monitor_unlisted_consumer_groups: true
            sasl_plain_password: hunter2

    Good:
        --- kafka_consumer.d/conf.yaml
        init_config: {}
        instances:
          - kafka_connect_str: [kafka-1:9092, kafka-2:9092]
            monitor_unlisted_consumer_groups: true
            sasl_plain_password: ENC[kafka_password]
    """
    for key, declared in agent.settings.items():
        if is_secret_key(key) and holds_literal_secret(key, declared.text):
            yield Violation(
                message=f"{key} holds a secret in plain text",
                key=key,
                observed=HIDDEN,
                expected="ENC[name]",
                hint="replace the secret with a reference to a secrets backend, and rotate it: it is exposed",
            )
