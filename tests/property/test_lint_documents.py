"""Texts of any kind are read without an exception, and positions are where the values stand."""

import json
from collections.abc import Iterator

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkakit.lint.decide.documents import Document, Mapping, Node, Scalar, read_json, read_yaml
from kafkakit.lint.decide.files import KINDS, read_document, read_properties, read_text
from kafkakit.lint.decide.pieces import AssemblyOptions, assemble

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
