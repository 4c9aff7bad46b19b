"""The Datadog agent's checks of Kafka: one subject for each instance, wherever people keep them.

A check stands in a file of its own (`kafka_consumer.d/conf.yaml`, `kafka.d/conf.yaml` for JMX), or inside a file of
another kind: in annotations of pods (`ad.datadoghq.com/CONTAINER.checks`, or `.check_names` with `.instances`), in
labels of docker (`com.datadoghq.ad.checks`), or as a text that is named like the file (`confd` in the values of
Datadog's chart, `extraConfd` of its operator, a ConfigMap). It is read by the same functions everywhere.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from kafkakit.core.findings import Place
from kafkakit.core.yaml_json import Document, Mapping, Node, Scalar, Sequence, read_json, read_yaml
from kafkakit.lint.decide.kinds.kind import (
    DocumentReader,
    FileKind,
    read_embedded,
    resources_in,
    with_accepted,
    without_secret,
)
from kafkakit.lint.decide.pieces import Pieces
from kafkakit.rules.effective import DeclaredValue, ValueSource, to_int
from kafkakit.rules.subjects import LintAgent
from kafkakit.rules.values import holds_placeholder

CONSUMER, JMX = "kafka_consumer", "kafka"
_CONSUMER_KEYS = ("kafka_connect_str", "consumer_groups", "consumer_groups_regex", "monitor_unlisted_consumer_groups")


def _instances(root: Node) -> list[Mapping]:
    items = root.sequence("instances") if isinstance(root, Mapping) else ()
    return [item for item in items if isinstance(item, Mapping)]


def _is_of_agent(root: Node) -> bool:
    """True for the shape that the files of all checks of the agent have."""
    return isinstance(root, Mapping) and isinstance(root.get("instances"), Sequence)


def _is_consumer(root: Node) -> bool:
    return any(not item.entries.keys().isdisjoint(_CONSUMER_KEYS) for item in _instances(root))


def _is_jmx(root: Node) -> bool:
    options = root.mapping("init_config") if isinstance(root, Mapping) else None
    if options is None or options.text("is_jmx") is None:
        return False
    beans = [part.mapping("include") for part in options.sequence("conf") if isinstance(part, Mapping)]
    texts = [bean.text(key) or "" for bean in beans if bean is not None for key in ("domain", "bean")]
    return any(text.strip("'\"").startswith("kafka.") for text in texts)


class _CarriedCheck(NamedTuple):
    """A check inside a file of another kind: `value` is its text, or its mapping.

    `names` are the checks that a list of instances is for, None where the text names them itself; `skipped` is how many
    characters of the text stand before the check.
    """

    check: str
    value: Node
    is_json: bool = False
    names: tuple[str, ...] | None = None
    skipped: int = 0


_LABEL = re.compile(r"(ad\.datadoghq\.com/[^/\s]+|com\.datadoghq\.ad)\.(checks|check_names|instances)")
_FILE = re.compile(r"(?:.*/)?(kafka_consumer|kafka)(?:\.d/[\w.-]+|\.d)?(?:\.ya?ml)?(?:\.default)?")
_YAML = re.compile(r"\.ya?ml$")
_INSTANCES = re.compile(r"^[ \t]*[\"']?instances[\"']?[ \t]*:", re.MULTILINE)
_ITEM = re.compile(r"([\w./-]+)=")
MARKS = ("datadoghq", "kafka_consumer", "kafka.yaml", "kafka.d", "kafka_connect_str", "datadog_checks")
"""Of these a file has one that carries a check."""
MOST_INSTANCES = 10_000
"""How many instances of a check are read in one file, however often aliases repeat them."""


def _find_carried(root: Node, check: str) -> Iterator[_CarriedCheck]:
    """What a document of another kind carries of a check, in the order of the text; nodes of aliases once."""
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if isinstance(node, Scalar) or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Sequence):
            yield from _of_labels(_listed_labels(node), check)
            waiting.extend(reversed(node.items))
            continue
        yield from _of_labels({key: (entry.value, 0) for key, entry in node.entries.items() if "datadog" in key}, check)
        for key, entry in node.entries.items():
            if _is_check(key, entry.value, check):
                yield _CarriedCheck(check, entry.value)
        waiting.extend(entry.value for entry in reversed(node.entries.values()))


def _is_check(key: str, value: Node, check: str) -> bool:
    named = _FILE.fullmatch(key)
    if isinstance(value, Mapping):
        return named is not None and named[1] == check and _is_of_agent(value) and "init_config" in value.entries
    if not isinstance(value, Scalar) or not _YAML.search(key) or not _INSTANCES.search(value.text):
        return False
    if named is not None:
        return named[1] == check and (check == CONSUMER or "init_config" in value.text)
    return check == CONSUMER and any(f"{word}:" in value.text for word in _CONSUMER_KEYS)


def _listed_labels(node: Sequence) -> dict[str, tuple[Node, int]]:
    """Labels of docker that are a list of `KEY=VALUE`: each with the number of characters before the value."""
    texts = [item for item in node.items if isinstance(item, Scalar) and item.text.startswith("com.datadoghq.")]
    found = [(item, match) for item in texts if (match := _ITEM.match(item.text)) is not None]
    return {match[1]: (item, match.end()) for item, match in found}


def _of_labels(labels: dict[str, tuple[Node, int]], check: str) -> Iterator[_CarriedCheck]:
    for key, (value, skipped) in labels.items():
        found = _LABEL.fullmatch(key)
        if found is None or not isinstance(value, Scalar):
            continue
        if found[2] == "checks" and f'"{check}"' in value.text:
            yield _CarriedCheck(check, value, is_json=True, skipped=skipped)
        if found[2] == "instances":
            listed, before = labels.get(f"{found[1]}.check_names", (None, 0))
            names = _names(listed.text[before:]) if isinstance(listed, Scalar) else ()
            if check in names:
                yield _CarriedCheck(check, value, is_json=True, names=names, skipped=skipped)


def _names(text: str) -> tuple[str, ...]:
    root = next(iter(read_json("", text).roots), None)
    items = root.items if isinstance(root, Sequence) else []
    return tuple(item.text for item in items if isinstance(item, Scalar))


def _carries(root: Node, check: str) -> bool:
    return next(_find_carried(root, check), None) is not None


@dataclass(slots=True)
class _Agents:
    """The instances of one check that a file holds, in order."""

    reader: DocumentReader
    kind: str
    found: list[LintAgent] = field(default_factory=list)
    is_full: bool = False

    def add(self, node: Node | None, *, is_nested: bool = False) -> None:
        """Read a list of instances, or of such lists."""
        for item in node.items if isinstance(node, Sequence) else []:
            if len(self.found) + len(self.reader.problems) >= MOST_INSTANCES:
                if not self.is_full:
                    told = f"more than {MOST_INSTANCES:,} instances: no more are read"
                    self.reader.problem(item, told, "instances")
                self.is_full = True
                return
            if isinstance(item, Mapping):
                self.found.append(_agent(self.reader, item, self.kind, len(self.found)))
            elif isinstance(item, Sequence) and not is_nested:
                self.add(item, is_nested=True)
            else:
                self.reader.problem(item, "an instance must be a mapping of keys to values", "instances")

    def add_carried(self, carried: _CarriedCheck) -> None:
        """Read what stands inside a file of another kind."""
        if not isinstance(carried.value, Scalar):
            self.add(carried.value.get("instances") if isinstance(carried.value, Mapping) else None)
            return
        document, text = self.reader.document, carried.value.text[carried.skipped :]
        inner = (read_json if carried.is_json else read_yaml)(document.path, text)
        roots, problems = read_embedded(document, carried.value, inner, carried.skipped)
        if not holds_placeholder(text):
            self.reader.problems += problems
        for root in roots:
            if carried.names is not None:
                listed = root.items if isinstance(root, Sequence) else []
                of_check = [item for name, item in zip(carried.names, listed, strict=False) if name == carried.check]
                self.add(Sequence(of_check, root.start))
            elif isinstance(root, Mapping):
                holder = root.mapping(carried.check) if carried.is_json else root
                self.add(holder.get("instances") if holder is not None else None)


def _read_agents(document: Document, roots: tuple[Node, ...], kind: str) -> Pieces:
    agents = _Agents(DocumentReader(document), kind)
    for root in roots:
        if _is_of_agent(root):
            agents.add(root.get("instances") if isinstance(root, Mapping) else None)
        for carried in _find_carried(root, kind):
            agents.add_carried(carried)
    pieces = Pieces(agents=tuple(agents.found), problems=tuple(agents.reader.problems))
    return with_accepted(document, list(resources_in(roots)), [pieces])


def _agent(reader: DocumentReader, node: Mapping, kind: str, index: int) -> LintAgent:
    groups = node.get("consumer_groups")
    return LintAgent(
        settings={entry.key.text: _setting_value(reader, entry.key, entry.value) for entry in node.entries.values()},
        groups=_groups(reader, groups) if isinstance(groups, Mapping) else None,
        places=_places(reader, groups) if isinstance(groups, Mapping) else {},
        kind=kind,
        index=index,
        place=reader.place(node),
    )


def _setting_value(reader: DocumentReader, key: Scalar, value: Node) -> DeclaredValue:
    """A scalar, the items of a list, or the keys of a mapping, joined with commas."""
    match value:
        case Scalar():
            text = "" if value.is_null else value.text
        case Sequence():
            text = ",".join(item.text for item in value.items if isinstance(item, Scalar))
        case _:
            text = ",".join(value.entries)
    return DeclaredValue(without_secret(key.text, text), ValueSource.STATIC, reader.place(key))


def _groups(reader: DocumentReader, node: Mapping) -> dict[str, dict[str, tuple[int, ...]]]:
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


def _places(reader: DocumentReader, node: Mapping) -> dict[tuple[str, ...], Place]:
    found: dict[tuple[str, ...], Place] = {}
    for group, entry in node.entries.items():
        found[(group,)] = reader.place(entry.key)
        if isinstance(entry.value, Mapping):
            topics = entry.value.entries.items()
            found.update(((group, topic), reader.place(item.key)) for topic, item in topics)
    return found


def _partitions(reader: DocumentReader, node: Node) -> tuple[int, ...]:
    items = node.items if isinstance(node, Sequence) else []
    numbers = [to_int(item.text) if isinstance(item, Scalar) else None for item in items]
    if any(number is None for number in numbers):
        reader.problem(node, "partitions must be a list of whole numbers", "consumer_groups")
    return tuple(number for number in numbers if number is not None)


CONSUMER_KIND = FileKind(
    name="datadog-kafka-consumer",
    about="the Datadog agent's check kafka_consumer: its conf.yaml, annotations, labels and confd",
    formats=("yaml", "json"),
    recognise=_is_consumer,
    read=partial(_read_agents, kind=CONSUMER),
    marks=MARKS,
    carries=partial(_carries, check=CONSUMER),
    patterns=("kafka_consumer.d/*.yaml", "kafka_consumer.d/*.yml", "kafka_consumer.yaml"),
    may_be=_is_of_agent,
)
JMX_KIND = FileKind(
    name="datadog-kafka",
    about="the Datadog agent's check kafka (JMX): its conf.yaml, annotations, labels and confd",
    formats=("yaml", "json"),
    recognise=_is_jmx,
    read=partial(_read_agents, kind=JMX),
    marks=MARKS,
    carries=partial(_carries, check=JMX),
    patterns=("kafka.d/*.yaml", "kafka.d/*.yml", "conf.d/kafka.yaml"),
    may_be=_is_of_agent,
)
