"""L: rules of lint's own inputs: files as such, suppressions, the baseline and the lint configuration.

They have pages like all rules, but lint itself carries them out: the reader of files those of files, a run the others.
"""

from kafkakit.rules.rule import CORE, ERROR, NOTE, WARNING, Fix, Violations, file_rule


@file_rule("KKL001", WARNING, CORE, fix=Fix.SAFE)
def unused_suppression() -> Violations:
    """A suppression accepts no finding.

    Why: the mistake that it was written for is gone, or it stands in the wrong line. Left there, it hides the next
    mistake of its kind.
    Source: ruff RUF100.

    Bad:
        topics:
          # kafkakit: ignore[KKD101] reason="two replicas are enough here"
          - {name: orders, partitions: 6, replication_factor: 3, config: {min.insync.replicas: "2"}}

    Good:
        topics:
          # kafkakit: ignore[KKD101] reason="writes are stopped until the third broker is back"
          - {name: orders, partitions: 6, replication_factor: 2, config: {min.insync.replicas: "3"}}
    """
    yield from ()


@file_rule("KKL002", WARNING, CORE)
def suppression_without_reason() -> Violations:
    """A suppression gives no reason.

    Why: who finds it later cannot tell whether it still holds.
    Source: kube-linter, `ignore-check.kube-linter.io/<check>: "reason"`.

    Bad:
        topics:
          # kafkakit: ignore[KKD101]
          - {name: orders, partitions: 6, replication_factor: 2, config: {min.insync.replicas: "3"}}

    Good:
        topics:
          # kafkakit: ignore[KKD101] reason="writes are stopped until the third broker is back"
          - {name: orders, partitions: 6, replication_factor: 2, config: {min.insync.replicas: "3"}}
    """
    yield from ()


@file_rule("KKL003", ERROR, CORE)
def expired_suppression() -> Violations:
    """A suppression's last day has passed, or is not a date.

    Why: the finding was accepted until a day; from then on it is reported again, beside this one.
    Source: kafkakit; expiring ignores of trivy and snyk.

    Bad:
        topics:
          # kafkakit: ignore[KKD101] until=2020-01-31 reason="until the third broker is back"
          - {name: orders, partitions: 6, replication_factor: 2, config: {min.insync.replicas: "3"}}

    Good:
        topics:
          # kafkakit: ignore[KKD101] until=9999-12-31 reason="until the third broker is back"
          - {name: orders, partitions: 6, replication_factor: 2, config: {min.insync.replicas: "3"}}
    """
    yield from ()


@file_rule("KKL004", ERROR, CORE)
def unknown_rule_in_config() -> Violations:
    """A suppression or the lint configuration names a rule that does not exist.

    Why: a mistyped code accepts or selects nothing, and the finding that it was meant for stays.
    Source: ruff RUF102; kafkakit.

    Bad:
        topics:
          # kafkakit: ignore[KKD1O1] reason="writes are stopped until the third broker is back"
          - {name: orders, partitions: 6, replication_factor: 2, config: {min.insync.replicas: "3"}}

    Good:
        topics:
          # kafkakit: ignore[min-isr-above-rf] reason="writes are stopped until the third broker is back"
          - {name: orders, partitions: 6, replication_factor: 2, config: {min.insync.replicas: "3"}}
    """
    yield from ()


@file_rule("KKL005", WARNING, CORE)
def stale_baseline_entry() -> Violations:
    """The baseline accepts a finding that is not found any more.

    Why: the mistake was corrected. With the entry left there, it can come back without a word;
    `kafkakit lint --write-baseline` writes the file anew.
    Source: PHPStan and ESLint, bulk suppressions.

    Bad:
        topics:
          - {name: orders, partitions: 6, replication_factor: 3, config: {min.insync.replicas: "2"}}
        --- lint-baseline.json
        {"kafkakit": {"kind": "lint-baseline", "schema": 1},
         "findings": [{"fingerprint": "0123456789abcdef", "rule": "KKD101", "where": "topic orders"}]}

    Good:
        topics:
          - {name: orders, partitions: 6, replication_factor: 3, config: {min.insync.replicas: "2"}}
        --- lint-baseline.json
        {"kafkakit": {"kind": "lint-baseline", "schema": 1}, "findings": []}
    """
    yield from ()


@file_rule("KKL006", ERROR, CORE)
def unparsable_file() -> Violations:
    """A file, or a part of it, cannot be read as what it is.

    Why: what cannot be read is not checked, and other tools refuse the file or read something else out of it.
    Source: the YAML 1.1 and JSON (RFC 8259) specifications; `java.util.Properties`; `docs/lint.md` for kafkakit files.

    Bad:
        topics:
          - {name: orders, partitions: many}

    Good:
        topics:
          - {name: orders, partitions: 12}
    """
    yield from ()


@file_rule("KKL007", NOTE, CORE)
def unknown_kind() -> Violations:
    """A file that was given by its name is of no kind that lint knows, so nothing of it was checked.

    Why: a check that silently checks nothing looks like one that passed.
    Source: `docs/lint.md`, section Files; `--kind` names the kind if it is not detected.

    Bad:
        --- settings.yaml
        colour: blue

    Good:
        --- settings.yaml
        kafkakit: cluster
        cluster: orders
    """
    yield from ()


@file_rule("KKL010", WARNING, CORE)
def suppression_inside_value() -> Violations:
    """A suppression stands behind a value of a properties file, where it is a part of the value.

    Why: properties have comments on lines of their own only. The broker takes the text as part of its setting (of a
    path, a number that it refuses), and nothing is accepted.
    Source: `java.util.Properties.load`; `docs/lint.md`, section Accepting findings.

    Bad:
        --- server.properties
        process.roles=broker
        log.dirs=/data  # kafkakit: ignore[KKB505] reason="a test box"

    Good:
        --- server.properties
        process.roles=broker
        # kafkakit: ignore[KKB505] reason="a test box"
        log.dirs=/tmp/data
    """
    yield from ()


@file_rule("KKL009", WARNING, CORE)
def dropped_by_operator() -> Violations:
    """A setting stands in a resource, but the operator that applies the resource drops it.

    Why: the brokers run with the operator's own value, and whoever reads the file believes in the other one. Strimzi
    sets listeners, addresses, log dirs, ids, roles and security from other fields of its resources. Other rules judge
    the operator's value.
    Source: Strimzi, `KafkaClusterSpec.FORBIDDEN_PREFIXES` and that of `KafkaConnectSpec`.

    Bad:
        --- kafka.yaml
        apiVersion: kafka.strimzi.io/v1
        kind: Kafka
        metadata: {name: orders}
        spec:
          kafka:
            version: 4.1.0
            authorization: {type: simple}
            listeners: [{name: tls, port: 9093, type: internal, tls: true}]
            config: {auto.create.topics.enable: false, log.dirs: /data}

    Good:
        --- kafka.yaml
        apiVersion: kafka.strimzi.io/v1
        kind: Kafka
        metadata: {name: orders}
        spec:
          kafka:
            version: 4.1.0
            authorization: {type: simple}
            listeners: [{name: tls, port: 9093, type: internal, tls: true}]
            config: {auto.create.topics.enable: false}
    """
    yield from ()


@file_rule("KKL011", WARNING, CORE)
def unread_resource() -> Violations:
    """A Kubernetes resource, or a field of one, is read by no operator.

    Why: Strimzi's topic operator looks for the label strimzi.io/cluster, and Kubernetes drops fields that a resource
    does not have: the topic is not made, or not as written, and nothing says so.
    Source: Strimzi documentation, "Using the Topic Operator"; the schema of `KafkaTopic`.

    Bad:
        --- topic.yaml
        apiVersion: kafka.strimzi.io/v1
        kind: KafkaTopic
        metadata: {name: orders}
        spec: {partitions: 3, replicas: 3}

    Good:
        --- topic.yaml
        apiVersion: kafka.strimzi.io/v1
        kind: KafkaTopic
        metadata: {name: orders, labels: {strimzi.io/cluster: main}}
        spec: {partitions: 3, replicas: 3}
    """
    yield from ()


@file_rule("KKL012", ERROR, CORE)
def byte_order_mark() -> Violations:
    """A properties file begins with a byte order mark.

    Why: editors on Windows write one and show nothing of it. Java takes it as a part of the first key, so that this key
    is not set: with process.roles as the first one a node does not start.
    Source: Java, `Properties.load`; tried on Kafka 4.4.

    Bad:
        --- server.properties
        \ufeffprocess.roles=broker
        node.id=1

    Good:
        --- server.properties
        process.roles=broker
        node.id=1
    """
    yield from ()
