"""The Datadog agent's `kafka_consumer.d/conf.yaml` and `kafka.d/conf.yaml` (JMX): one subject for each instance."""

from functools import partial

from kafkakit.core.findings import Place
from kafkakit.lint.decide.documents.tree import Document, Mapping, Node, Scalar, Sequence
from kafkakit.lint.decide.kinds.kind import Kind, of_each
from kafkakit.lint.decide.kinds.values import Reader, without_secret
from kafkakit.lint.decide.pieces import Pieces
from kafkakit.rules.effective import Declared, Source, to_int
from kafkakit.rules.subjects import LintAgent

CONSUMER, JMX = "kafka_consumer", "kafka"
_TELLING = ("kafka_connect_str", "consumer_groups", "consumer_groups_regex", "monitor_unlisted_consumer_groups")


def _instances(root: Node) -> list[Mapping]:
    items = root.sequence("instances") if isinstance(root, Mapping) else ()
    return [item for item in items if isinstance(item, Mapping)]


def _is_consumer(root: Node) -> bool:
    return any(not item.entries.keys().isdisjoint(_TELLING) for item in _instances(root))


def _is_jmx(root: Node) -> bool:
    options = root.mapping("init_config") if isinstance(root, Mapping) else None
    if options is None or options.text("is_jmx") is None:
        return False
    beans = [part.mapping("include") for part in options.sequence("conf") if isinstance(part, Mapping)]
    texts = [bean.text(key) or "" for bean in beans if bean is not None for key in ("domain", "bean")]
    return any(text.strip("'\"").startswith("kafka.") for text in texts)


def _read_one(document: Document, root: Mapping, kind: str) -> Pieces:
    reader = Reader(document)
    agents = tuple(_agent(reader, node, kind, index) for index, node in enumerate(reader.mappings(root, "instances")))
    return Pieces(agents=agents, problems=tuple(reader.problems))


def _agent(reader: Reader, node: Mapping, kind: str, index: int) -> LintAgent:
    groups = node.get("consumer_groups")
    return LintAgent(
        settings={entry.key.text: _setting(reader, entry.key, entry.value) for entry in node.entries.values()},
        groups=_groups(reader, groups) if isinstance(groups, Mapping) else None,
        places=_places(reader, groups) if isinstance(groups, Mapping) else {},
        kind=kind,
        index=index,
        place=reader.place(node),
    )


def _setting(reader: Reader, key: Scalar, value: Node) -> Declared:
    """A scalar, the items of a list, or the keys of a mapping, joined with commas."""
    match value:
        case Scalar():
            text = "" if value.is_null else value.text
        case Sequence():
            text = ",".join(item.text for item in value.items if isinstance(item, Scalar))
        case _:
            text = ",".join(value.entries)
    return Declared(without_secret(key.text, text), Source.STATIC, reader.place(key))


def _groups(reader: Reader, node: Mapping) -> dict[str, dict[str, tuple[int, ...]]]:
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for group, entry in node.entries.items():
        topics = entry.value
        if isinstance(topics, Mapping):
            found[group] = {topic: _partitions(reader, item.value) for topic, item in topics.entries.items()}
        elif isinstance(topics, Sequence):
            found[group] = {item.text: () for item in topics.items if isinstance(item, Scalar)}
        else:
            found[group] = {}
    return found


def _places(reader: Reader, node: Mapping) -> dict[tuple[str, ...], Place]:
    found: dict[tuple[str, ...], Place] = {}
    for group, entry in node.entries.items():
        found[(group,)] = reader.place(entry.key)
        if isinstance(entry.value, Mapping):
            topics = entry.value.entries.items()
            found.update(((group, topic), reader.place(item.key)) for topic, item in topics)
    return found


def _partitions(reader: Reader, node: Node) -> tuple[int, ...]:
    items = node.items if isinstance(node, Sequence) else []
    numbers = [to_int(item.text) if isinstance(item, Scalar) else None for item in items]
    if any(number is None for number in numbers):
        reader.problem(node, "partitions must be a list of whole numbers", "consumer_groups")
    return tuple(number for number in numbers if number is not None)


CONSUMER_KIND = Kind(
    name="datadog-kafka-consumer",
    about="the Datadog agent's kafka_consumer.d/conf.yaml",
    formats=("yaml", "json"),
    recognise=_is_consumer,
    read=of_each(partial(_read_one, kind=CONSUMER)),
    patterns=("kafka_consumer.d/*.yaml", "kafka_consumer.d/*.yml", "kafka_consumer.yaml"),
)
JMX_KIND = Kind(
    name="datadog-kafka",
    about="the Datadog agent's kafka.d/conf.yaml",
    formats=("yaml", "json"),
    recognise=_is_jmx,
    read=of_each(partial(_read_one, kind=JMX)),
    patterns=("kafka.d/*.yaml", "kafka.d/*.yml", "conf.d/kafka.yaml"),
)
