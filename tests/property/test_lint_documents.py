"""Texts of any kind are read without an exception, positions are where values stand, safe fixes change no subject."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkakit.core.yaml_json import Document, Mapping, Node, Scalar, read_json, read_yaml
from kafkakit.lint.decide.files import KINDS, read_document, read_properties, read_text
from kafkakit.lint.decide.fixes import fix_all
from kafkakit.lint.decide.pieces import AssemblyOptions, assemble
from kafkakit.rules.catalogue import all_rules
from tests.rigs.lint_runs import request

PATHS = ("a.yaml", "b.json", "server.properties", "stdin", "kafka.d/conf.yaml", "plan.tfplan.json")
SNIPPETS = (
    "a: ", "- ", "\n", "  ", "{", "}", "[", "]", '"', "'", ": ", ", ", "#", "&a ", "*a", "<<: ", "|", ">", "!!str ",
    "---\n", "\t", "\\", "\\u12", "=", "topics: ", "name: ", "kafkakit: cluster\n", "config: ", "null", "1", "true",
    '"topics":', "\r\n", "\ufeff", "\x85", "\u2028", "apiVersion: kafka.strimzi.io/v1\n", "kind: Kafka\n", "spec:\n",
    "instances:\n", "kafka_connect_str: ", '"connector.class":', '"config":', "brokers: ", "observed: ", "é😀",
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=200), st.lists(st.sampled_from(SNIPPETS), max_size=40).map("".join))
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=12)
TREES = st.recursive(
    st.one_of(WORDS, st.integers(), st.booleans(), st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=4)),
    max_leaves=20,
)


@given(st.sampled_from(PATHS), TEXTS, st.sampled_from((None, *KINDS)))
@settings(max_examples=400, deadline=None)
@example("a.yaml", "topics: &a [*a]", None)
@example("a.yaml", "a\ud800", None)
@example("b.json", '{"a": "\\ud800"}', None)
def test_any_text_is_read_as_any_kind(path: str, text: str, kind: str | None) -> None:
    reading = read_text(path, text, kind, is_named=True)
    assemble([reading.pieces], AssemblyOptions())
    lines = text.count("\n") + text.count("\r") + 1
    for problem in reading.pieces.problems:
        assert 1 <= problem.place.line <= lines
        assert problem.place.column >= 1
    for comment in reading.document.comments:
        at = reading.document.offset(comment.line, comment.column)
        assert text.startswith(comment.text, at)


@given(TREES)
@settings(max_examples=150, deadline=None)
def test_a_tree_of_json_is_read_with_its_positions(tree: object) -> None:
    for text in (json.dumps(tree), json.dumps(tree, indent=2, ensure_ascii=False)):
        document = read_json("a.json", text)
        assert not document.problems
        assert _plain(document.roots[0]) == tree
        for scalar in _scalars(document):
            raw = text[scalar.start : scalar.end]
            assert raw == scalar.text if scalar.is_plain else json.loads(raw) == scalar.text


@given(TREES, st.booleans())
@settings(max_examples=150, deadline=None)
def test_a_tree_of_yaml_is_read_with_its_positions(tree: object, flow: bool) -> None:
    text = yaml.safe_dump(tree, default_flow_style=flow, allow_unicode=True, width=30)
    document = read_yaml("a.yaml", text)
    assert not document.problems
    for scalar in _scalars(document):
        raw = text[scalar.start : scalar.end]
        if scalar.is_plain and "\n" not in raw:
            assert raw == scalar.text
        place = document.place(scalar.start)
        assert document.offset(place.line, place.column) == scalar.start
        assert yaml.safe_load(raw) in (scalar.text, yaml.safe_load(scalar.text) if scalar.is_plain else None)


@given(st.dictionaries(st.text("ab.c", min_size=1, max_size=6), st.text("xyz 1=:#!é", max_size=8), max_size=6))
@settings(max_examples=150, deadline=None)
def test_properties_are_read_with_their_positions(values: dict[str, str]) -> None:
    text = "# first\r\n" + "".join(f"  {key} = {value.strip()}\r\n" for key, value in values.items())
    document = read_properties("a.properties", text)
    root = document.roots[0]
    assert isinstance(root, Mapping)
    assert {key: entry.value.text for key, entry in root.entries.items() if isinstance(entry.value, Scalar)} == {
        key: value.strip() for key, value in values.items()
    }
    for number, entry in enumerate(root.entries.values(), start=2):
        assert document.place(entry.key.start)[1:] == (number, 3)
        assert text[entry.key.start : entry.key.end] == entry.key.text
        assert isinstance(entry.value, Scalar)
        assert text[entry.value.start : entry.value.end] == entry.value.text


@given(st.sampled_from(PATHS), TEXTS)
@settings(max_examples=100, deadline=None)
def test_every_offset_has_one_place(path: str, text: str) -> None:
    document = read_document(path, text)
    for offset in range(len(text) + 1):
        place = document.place(offset)
        assert document.offset(place.line, place.column) == offset


def _scalars(document: Document) -> Iterator[Scalar]:
    queue: list[Node] = list(document.roots)
    while queue:
        node = queue.pop()
        if isinstance(node, Scalar):
            yield node
        elif isinstance(node, Mapping):
            for entry in node.entries.values():
                yield entry.key
                queue.append(entry.value)
        else:
            queue += node.items


def _plain(node: Node) -> object:
    if isinstance(node, Scalar):
        return json.loads(node.text) if node.is_plain else node.text
    if isinstance(node, Mapping):
        return {key: _plain(entry.value) for key, entry in node.entries.items()}
    return [_plain(item) for item in node.items]


KAFKA_KEYS = ("cleanup.policy", "retention.ms", "retention.bytes", "segment.ms", "x.y")
KAFKA_VALUES = ("compact", "delete", "compact,delete", "compact,compact", "5", "604800000")
OVERRIDES = st.dictionaries(st.sampled_from(KAFKA_KEYS), st.sampled_from(KAFKA_VALUES), max_size=4)
WANTED = replace(request(), rules=all_rules(), known=all_rules(), assemble=AssemblyOptions(kafka_version="4.3"))


def safely_fixed(path: str, text: str) -> str:
    run = fix_all([read_text(path, text, is_named=True)], (), WANTED, None, unsafe=False)
    return run.changed[0].after.text if run.changed else text


def live_settings(config: dict[str, str]) -> dict[str, object]:
    """What a topic's settings do, by Kafka's documentation: retention is not read if the topic is only compacted."""
    kept: dict[str, object] = {key: set(text.split(",")) for key, text in config.items()}
    if kept.get("cleanup.policy") == {"compact"}:
        kept = {key: value for key, value in kept.items() if not key.startswith("retention.")}
    return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A form of YAML with a mapping of settings for each subject: `path` leads to that of the subject N, `{n}`."""

    head: str
    item: str
    key: str
    path: tuple[str, ...]


FORMS_OF_TOPICS = {
    "kafkakit": Form(
        head="kafkakit: cluster\ntopics:\n", item="- name: t{n}\n", key="  config", path=("topics", "{n}", "config")
    ),
    "jikkou": Form(
        head="apiVersion: kafka.jikkou.io/v1\nkind: KafkaTopicList\nitems:\n",
        item="- metadata: {{name: t{n}}}\n  spec:\n    partitions: 3\n    replicas: 3\n",
        key="    configs",
        path=("items", "{n}", "spec", "configs"),
    ),
    "strimzi": Form(
        head="apiVersion: v1\nkind: List\nitems:\n",
        item="- apiVersion: kafka.strimzi.io/v1\n  kind: KafkaTopic\n  metadata: {{name: t{n}}}\n"
        "  spec:\n    partitions: 3\n    replicas: 3\n",
        key="    config",
        path=("items", "{n}", "spec", "config"),
    ),
    "helm-values": Form(
        head="provisioning:\n  topics:\n",
        item="  - name: t{n}\n    partitions: 3\n",
        key="    config",
        path=("provisioning", "topics", "{n}", "config"),
    ),
}
FORMS_OF_BROKERS = {
    "kafkakit": Form(
        head="kafkakit: cluster\nversion: '4.3'\nbrokers:\n",
        item="- id: {n}\n",
        key="  config",
        path=("brokers", "{n}", "config"),
    ),
    "compose": Form(
        head="services:\n",
        item="  k{n}:\n    image: apache/kafka:4.1.0\n",
        key="    environment",
        path=("services", "k{n}", "environment"),
    ),
}
ANCHORING = st.sampled_from(("", "&", "<<", "*"))


def anchored(form: Form, subjects: list[tuple[dict[str, str], str]], as_flow: bool) -> str:
    """A file in a form: the mapping of a subject is its own, is anchored, merges the last anchored one, or is that."""
    lines, anchors = [form.head], 0
    for number, (config, how) in enumerate(subjects):
        lines.append(form.item.format(n=number))
        members = [f"{key}: '{value}'" for key, value in config.items()]
        anchor = ""
        if how == "*" and anchors:
            lines.append(f"{form.key}: *a{anchors}\n")
            continue
        if how == "<<" and anchors:
            members.insert(0, f"<<: *a{anchors}")
        if how == "&":
            anchors += 1
            anchor = f" &a{anchors}"
        if as_flow or not members:
            lines.append(f"{form.key}:{anchor} {{{', '.join(members)}}}\n")
        else:
            inner = " " * (len(form.key) - len(form.key.lstrip()) + 2)
            lines += [f"{form.key}:{anchor}\n", *(f"{inner}{member}\n" for member in members)]
    return "".join(lines)


def settings_in(form: Form, text: str, number: int) -> dict[str, str]:
    """What YAML alone says of the settings of a subject."""
    node = yaml.safe_load(text)
    for step in form.path:
        node = node[number] if step == "{n}" else node[step.format(n=number)]
    return node or {}


@pytest.mark.parametrize("name", FORMS_OF_TOPICS)
@given(subjects=st.lists(st.tuples(OVERRIDES, ANCHORING), min_size=1, max_size=4), as_flow=st.booleans())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_safe_fixes_of_yaml_keep_what_topics_do(
    name: str, subjects: list[tuple[dict[str, str], str]], as_flow: bool
) -> None:
    form = FORMS_OF_TOPICS[name]
    text = anchored(form, subjects, as_flow)
    after = safely_fixed("a.yaml", text)
    for number in range(len(subjects)):
        assert live_settings(settings_in(form, text, number)) == live_settings(settings_in(form, after, number))


def as_variables(config: dict[str, str]) -> dict[str, str]:
    """Settings of a broker as variables of Kafka's own image, with what a node must have."""
    needed = {"process.roles": "broker", "node.id": "1"}
    return {f"KAFKA_{key.upper().replace('.', '_')}": value for key, value in (needed | config).items()}


def as_settings(variables: dict[str, str]) -> dict[str, str]:
    return {name.removeprefix("KAFKA_").lower().replace("_", "."): value for name, value in variables.items()}


BROKER_KEYS = (
    "log.retention.ms",
    "log.retention.hours",
    "log.roll.hours",
    "log.dirs",
    "log.dir",
    "zookeeper.connect",
    "x",
)
OF_BROKERS = st.dictionaries(st.sampled_from(BROKER_KEYS), st.sampled_from(("5", "7", "/a,/b")), max_size=5)


@pytest.mark.parametrize("name", FORMS_OF_BROKERS)
@given(subjects=st.lists(st.tuples(OF_BROKERS, ANCHORING), min_size=1, max_size=4), as_flow=st.booleans())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_safe_fixes_of_yaml_keep_what_brokers_do(
    name: str, subjects: list[tuple[dict[str, str], str]], as_flow: bool
) -> None:
    form = FORMS_OF_BROKERS[name]
    given_ = [(as_variables(c) if name == "compose" else c, how) for c, how in subjects]
    text = anchored(form, given_, as_flow)
    after = safely_fixed("docker-compose.yaml", text)
    for number in range(len(subjects)):
        before, fixed = (as_settings(settings_in(form, one, number)) for one in (text, after))
        assert live_broker_settings(fixed) == live_broker_settings(before)


@pytest.mark.parametrize("form", [*FORMS_OF_TOPICS.values(), FORMS_OF_BROKERS["kafkakit"]])
def test_what_is_dead_goes_in_every_form_but_not_from_what_others_share(form: Form) -> None:
    dead, config = "retention.ms", {"cleanup.policy": "compact", "retention.ms": "5"}
    if form in FORMS_OF_BROKERS.values():
        dead, config = "log.retention.hours", {"log.retention.ms": "5", "log.retention.hours": "7"}
    alone = safely_fixed("a.yaml", anchored(form, [(config, "")], as_flow=False))
    assert settings_in(form, alone, 0) == {name: value for name, value in config.items() if name != dead}
    shared = anchored(form, [(config, "&"), (config, "*"), ({}, "<<")], as_flow=False)
    assert safely_fixed("a.yaml", shared) == shared


@given(st.lists(OVERRIDES, min_size=1, max_size=4), st.sampled_from((None, 2)))
@settings(max_examples=80, deadline=None)
def test_safe_fixes_of_json_keep_what_topics_do(topics: list[dict[str, str]], indent: int | None) -> None:
    tree = {"kafkakit": "cluster", "topics": [{"name": f"t{n}", "config": c} for n, c in enumerate(topics)]}
    after = json.loads(safely_fixed("a.json", json.dumps(tree, indent=indent)))
    found = [live_settings(topic["config"]) for topic in after["topics"]]
    assert found == [live_settings(config) for config in topics]


def read_as_java(text: str) -> dict[str, str]:
    """Properties as Java reads them, for texts without escapes but continued lines."""
    found = {}
    for line in re.sub(r"\\\n[ \t]*", "", text).splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            key, _, value = line.partition("=")
            found[key.strip()] = value.lstrip()
    return found


def live_broker_settings(found: dict[str, str]) -> dict[str, str]:
    kept = {key: value for key, value in found.items() if not key.startswith("zookeeper.")}
    for finer, coarser in (("log.retention.ms", "log.retention.hours"), ("log.dirs", "log.dir")):
        if finer in kept:
            kept.pop(coarser, None)
    return kept


@given(
    st.lists(st.tuples(st.sampled_from(BROKER_KEYS), st.sampled_from(("5", "7,\\\n  8", "/a,\\\n\t/b"))), max_size=7),
    st.sampled_from(("", "# a comment\n", "\n")),
)
@settings(max_examples=150, deadline=None)
def test_safe_fixes_of_properties_keep_what_brokers_do(pairs: list[tuple[str, str]], between: str) -> None:
    text = "process.roles=broker\nnode.id=1\n" + "".join(f"{key}={value}\n{between}" for key, value in pairs)
    after = safely_fixed("server.properties", text)
    assert live_broker_settings(read_as_java(after)) == live_broker_settings(read_as_java(text))
