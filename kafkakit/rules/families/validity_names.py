"""V: rules of topic names and of files' own mistakes."""

from collections.abc import Iterator

from kafkakit.rules.rule import CORE, ERROR, NOTE, STRICT, Fix, Limits, cluster_rule, file_rule, topic_rule
from kafkakit.rules.subjects import LintCluster, LintTopic
from kafkakit.rules.violation import Violation, Violations

_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
_LONGEST = 249


@file_rule("KKV011", ERROR, CORE, fix=Fix.SAFE)
def duplicate_key() -> Violations:
    """A key stands twice in one file; the safe fix deletes one of two equal values.

    Why: in a properties file the last one wins in silence, and in YAML and JSON each program takes another.
    Source: `java.util.Properties.load`; the YAML specification, which forbids it.

    Bad:
        topics:
          - name: orders
            config:
              retention.ms: "86400000"
              retention.ms: "604800000"

    Good:
        topics:
          - name: orders
            config:
              retention.ms: "86400000"
    """
    yield from ()


@topic_rule("KKV015", ERROR, CORE)
def illegal_topic_name(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A topic has a name that Kafka does not allow.

    Why: brokers refuse to create it: names are 1 to 249 letters, digits, dots, underscores and hyphens, but neither
    . nor .. alone.
    Source: `org.apache.kafka.common.internals.Topic.validate`.

    Bad:
        topics:
          - {name: "orders:v1"}

    Good:
        topics:
          - {name: orders.v1}
    """
    problem = name_problem(topic.name)
    if problem is not None:
        yield Violation(message=f"the name {topic.name!r:.80} {problem}: brokers refuse the topic", refused=True)


def name_problem(name: str) -> str | None:
    """Why a topic cannot have this name, or None."""
    if not name:
        return "is empty"
    if name in (".", ".."):
        return "is a folder's"
    if len(name) > _LONGEST:
        return f"has {len(name)} characters, more than {_LONGEST}"
    wrong = sorted(set(name) - _LEGAL)
    return f"has {wrong[0]!r}, but letters, digits, '.', '_' and '-' alone are allowed" if wrong else None


@cluster_rule("KKV016", ERROR, STRICT)
def colliding_topic_names(cluster: LintCluster, limits: Limits) -> Violations:
    """Two topics differ only in dots and underscores.

    Why: both have one name in metrics, where dots become underscores, so brokers refuse to create the second one.
    Source: `Topic.hasCollision`; `ReplicationControlManager.validateNewTopicNames`.

    Bad:
        topics:
          - {name: orders.v1}
          - {name: orders_v1}

    Good:
        topics:
          - {name: orders.v1}
          - {name: orders.v2}
    """
    for first, second in _collisions(cluster.topics):
        yield Violation(
            message=f"topics {first.name} and {second.name} share one name in metrics: brokers refuse the second one",
            about=second,
            subject=first.name,
            refused=True,
        )


def _collisions(topics: tuple[LintTopic, ...]) -> Iterator[tuple[LintTopic, LintTopic]]:
    seen: dict[str, LintTopic] = {}
    for topic in topics:
        first = seen.setdefault(topic.name.replace(".", "_"), topic)
        if first.name != topic.name:
            yield first, topic


@file_rule("KKV014", NOTE, STRICT)
def value_comment_mismatch() -> Violations:
    """A comment beside a time or a size says another value than the key has.

    Why: people read the comment, brokers the number.
    Source: the idea is that of tflint-ruleset-kafka-config, which requires such comments.

    Bad:
        topics:
          - name: orders
            config:
              retention.ms: "86400000"  # 7 days

    Good:
        topics:
          - name: orders
            config:
              retention.ms: "604800000"  # 7 days
    """
    yield from ()
