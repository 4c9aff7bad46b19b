"""Located trees of YAML, JSON and properties: values, places, comments, and a problem for each thing that is wrong."""

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.core import yaml_json as yaml_text
from kafkakit.core.documents import decode_tree
from kafkakit.core.errors import InputError
from kafkakit.core.yaml_json import (
    ANY_FILE,
    MAX_LINES,
    SETTINGS_FILE,
    Comment,
    Document,
    Mapping,
    Scalar,
    Sequence,
    TreeLimits,
    plain_value,
    read_json,
    read_yaml,
    sound_document,
)
from kafkakit.lint.decide.files import MAX_PROPERTIES_LINES, read_document, read_properties

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 10)}]\n" for n in range(8)
)


def root(document: Document) -> Mapping:
    found = document.roots[0]
    assert isinstance(found, Mapping)
    return found


def messages(document: Document) -> list[str]:
    return [f"{document.place(p.at).line}:{document.place(p.at).column} {p.message}" for p in document.problems]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:\n\tb: 1\n", "2:1 not valid YAML: a tab character, which YAML does not allow as indentation"),
        ("a: [1,\n", "2:1 not valid YAML: while parsing a flow node did not find expected node content"),
        ("a: b: c\n", "1:5 not valid YAML: mapping values are not allowed in this context"),
        ("é: *nope\n", "1:4 the alias has no anchor before it; a value that begins with * needs quotes"),
        ("a: &a [1, *a]\n", "1:11 the alias has no anchor before it; a value that begins with * needs quotes"),
        ("[" * 101, "1:101 nested deeper than 100 levels"),
        ("? [a]\n: 1\n", "1:3 a key that is itself a mapping or a list"),
        ("a: {<<: 1}\n", "1:5 the merge key << takes a mapping or a list of mappings"),
        ("a: \x07\n", "1:4 a character '\\x07' that YAML does not allow"),
        ("a: \x00\n", "1:4 a zero byte: this is not a text file"),
        (LAUGHS, "6:8 aliases repeat more than 200,000 values"),
    ],
)
def test_what_yaml_cannot_be_is_a_problem_with_its_place(text: str, message: str) -> None:
    assert messages(read_document("a.yaml", text)) == [message]


def test_a_repeated_key_counts_with_its_last_value() -> None:
    document = read_yaml("a.yaml", "x: {k: 1, k: 1}\ny: {k: 1, k: 2}\n")
    assert messages(document) == [
        "1:11 k is set more than once, with the same value",
        "2:11 k is set more than once, and the last value counts",
    ]
    assert [p.is_repeated_value for p in document.problems] == [True, False]
    second = root(document).mapping("y")
    assert second is not None
    assert second.text("k") == "2"


def test_aliases_and_merge_keys_are_what_they_stand_for() -> None:
    document = read_yaml("a.yaml", "base: &b {retention.ms: 1, x: 2}\nt: {<<: *b, x: 3}\nu: {<<: [*b, {z: 4}]}\n")
    assert not document.problems
    merged = root(document).mapping("t")
    assert merged is not None
    assert {key: merged.text(key) for key in merged.entries} == {"x": "3", "retention.ms": "1"}
    assert document.place(merged.entries["retention.ms"].key.start).line == 1
    several = root(document).mapping("u")
    assert several is not None
    assert set(several.entries) == {"retention.ms", "x", "z"}


def test_several_documents_byte_order_marks_and_line_ends() -> None:
    document = read_yaml("a.yaml", "a: 1\r\n---\r\nb: é2\r\n...\r\n")
    assert [list(r.entries) for r in document.roots if isinstance(r, Mapping)] == [["a"], ["b"]]
    assert document.place(document.roots[1].start) == ("a.yaml", 3, 1)


@pytest.mark.parametrize(
    ("text", "value", "raw"),
    [
        ("k: plain value # c\n", "plain value", "plain value"),
        ("k: 'single ''quoted'''\n", "single 'quoted'", "'single ''quoted'''"),
        ('k: "a\\tb"\n', "a\tb", '"a\\tb"'),
        ("k: !!str 12\n", "12", "12"),
        ("k: &anchor 12\n", "12", "12"),
        ("k:\n  two\n  lines\n", "two lines", "two\n  lines"),
        ("k: |\n  block\n", "block\n", "|\n  block\n"),
    ],
)
def test_the_range_of_a_scalar_is_that_of_its_text(text: str, value: str, raw: str) -> None:
    found = root(read_yaml("a.yaml", text)).entries["k"].value
    assert isinstance(found, Scalar)
    assert found.text == value
    assert text[found.start : found.end] == raw


def test_null_is_no_value_but_an_empty_text_is_one() -> None:
    mapping = root(read_yaml("a.yaml", "a:\nb: ~\nc: null\nd: ''\ne: 'null'\n"))
    assert [mapping.text(key) for key in "abcde"] == [None, None, None, "", "null"]


def test_comments_are_found_but_not_in_values() -> None:
    text = "# first\na: 1 # behind\nb: 'no # comment' # one\nc: no#comment\nd: | # two\n  # text\n  x\n# last"
    assert read_yaml("a.yaml", text).comments == (
        Comment("# first", 1, 1, True),
        Comment("# behind", 2, 6, False),
        Comment("# one", 3, 19, False),
        Comment("# two", 5, 6, False),
        Comment("# last", 8, 1, True),
    )
    assert read_properties("a.properties", "#a\n  ! b\nk=v # value\n").comments == (
        Comment("#a", 1, 1, True),
        Comment("! b", 2, 3, True),
    )


def test_the_parser_without_c_reads_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: &x {b: [1, 'two']}\nc: |\n  t # t\nd: *x # c\n"
    fast = read_yaml("a.yaml", text)
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    slow = yaml_text.read_yaml("a.yaml", text)
    assert slow.roots == fast.roots
    assert slow.comments == fast.comments
    assert messages(yaml_text.read_yaml("a.yaml", "a: [")) != []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1,\n "a": 1}', "2:2 a is set more than once, with the same value"),
        ('{"a": }', "1:7 not valid JSON: a value is missing before the brace"),
        ("[1, ]", "1:5 not valid JSON: a value is missing before the bracket"),
        ('{"a" 1}', "1:2 not valid JSON: a key in double quotes and a colon are expected here"),
        ("[1 2]", "1:4 not valid JSON: a comma or the end of the list or object is expected here"),
        ("{} {}", "1:4 not valid JSON: unexpected text after the end of the document"),
        ("[01]", "1:2 not valid JSON: this is not a JSON value"),
        ("['a']", "1:2 not valid JSON: strings must be in double quotes"),
        ('["a\n"]', "1:2 not valid JSON: an unterminated string, or one with a line break, a control character or "
         "a wrong escape"),
        ("", "1:1 not valid JSON: a value is missing"),
        ("[" * 101, "1:101 not valid JSON: nested deeper than 100 levels"),
    ],
)  # fmt: skip
def test_what_json_cannot_be_is_a_problem_with_its_place(text: str, message: str) -> None:
    assert messages(read_json("a.json", text)) == [message]


def test_json_has_the_text_of_its_values() -> None:
    mapping = root(read_json("a.json", '{"a": "\\u00e9\\n", "b": -1.5e3, "c": [true, null], "d": {}}'))
    assert (mapping.text("a"), mapping.text("b"), mapping.get("d")) == ("é\n", "-1.5e3", Mapping({}, 55, True))
    assert [item.text for item in mapping.sequence("c") if isinstance(item, Scalar)] == ["true", "null"]


def test_properties_have_the_places_of_names_and_values() -> None:
    text = "  log.dirs = /a,\\\n     /b\nempty=\nspaced : x y \n"
    document = read_properties("s.properties", text)
    entries = root(document).entries
    assert {key: e.value.text for key, e in entries.items() if isinstance(e.value, Scalar)} == {
        "log.dirs": "/a,/b",
        "empty": "",
        "spaced": "x y ",
    }
    dirs = entries["log.dirs"]
    assert isinstance(dirs.value, Scalar)
    assert text[dirs.value.start : dirs.value.end] == "/a,\\\n     /b"
    assert document.place(dirs.key.start) == ("s.properties", 1, 3)
    assert document.place(entries["spaced"].key.start) == ("s.properties", 4, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=1\na=2\n", "2:1 a is set more than once, and the last value counts"),
        ("a=\\u12\n", "1:1 not a valid property: \\u must be followed by four hexadecimal digits"),
        ("\n" * (MAX_PROPERTIES_LINES + 1), f"1:1 more than {MAX_PROPERTIES_LINES:,} lines"),
        ("a" * 9_000_000, "1:1 more than 8,388,608 characters of properties"),
    ],
)
def test_what_properties_cannot_be_is_a_problem_with_its_place(text: str, message: str) -> None:
    assert messages(read_document("s.properties", text)) == [message]


@pytest.mark.parametrize(
    ("path", "text", "form"),
    [
        ("a.yaml", "{}", "yaml"),
        ("A.JSON", "{}", "json"),
        ("stdin", ' {"a": 1}', "json"),
        ("stdin", "# c\nnode.id=1\n", "properties"),
        ("stdin", "# c\nnode.id: 1\n", "yaml"),
        ("config.v1", "", "yaml"),
    ],
)
def test_the_format_is_that_of_the_name_or_the_first_line(path: str, text: str, form: str) -> None:
    assert read_document(path, text).format == form


def test_a_known_kind_decides_the_format_of_a_strange_name() -> None:
    assert read_document("server.conf", "a b", ("properties",)).format == "properties"
    assert read_document("x.yaml", "a=b", ("properties",)).format == "properties"


def test_too_many_lines_are_refused() -> None:
    assert messages(read_document("a.yaml", "\n" * (MAX_LINES + 1))) == [f"1:1 more than {MAX_LINES:,} lines"]


def test_sequences_hold_their_items() -> None:
    found = root(read_yaml("a.yaml", "a:\n  - 1\n  - [2]\n")).get("a")
    assert isinstance(found, Sequence)
    assert len(found.items) == 2
    assert not found.is_flow


@pytest.mark.parametrize(
    ("text", "limits", "refusal"),
    [
        (b"a: \xff", ANY_FILE, "f: not valid UTF-8 text (byte 3)"),
        (b"\xef\xbb\xbfa: \xff", ANY_FILE, "f: not valid UTF-8 text (byte 6)"),
        (b"a: 1\nb: [\n", ANY_FILE, "f:3:1: not valid YAML: "),
        (b"a:\n\tb: 1\n", ANY_FILE, "f:2:1: not valid YAML: a tab character, which YAML does not allow as indentation"),
        (b"a: 1\nb:\n  c: 1\n  c: 1\n", ANY_FILE, "f:4:3: the key 'c' is given twice"),
        (b'{"a": 1,\n "a": 2}', ANY_FILE, "f:2:2: the key 'a' is given twice"),
        (b"a: 1\n---\nb: 1\n", ANY_FILE, "f:3:1: not valid YAML: expected a single document"),
        (LAUGHS.encode(), ANY_FILE, "f:6:8: aliases repeat more than 200,000 values"),
        (b"a: &x 1\n", SETTINGS_FILE, "f:1:4: anchors and aliases (& and *) are not supported: repeat the value"),
        (b"- 1\n- &x [1]\n", SETTINGS_FILE, "f:2:3: anchors and aliases"),
        (b"a: *x\n", SETTINGS_FILE, "f:1:4: anchors and aliases"),
        (b"[" * 101, ANY_FILE, "f:1:101: nested deeper than 100 levels"),
        (b"[1, 2, 3]", TreeLimits(values=3), "f:1:8: more than 3 values"),
        (b"a: 1", TreeLimits(size=3), "f: holds more than 3 bytes"),
    ],
)
def test_what_a_file_must_not_hold_is_refused_with_its_place(text: bytes, limits: TreeLimits, refusal: str) -> None:
    with pytest.raises(InputError) as caught:
        sound_document(text, "f", limits)
    assert caught.value.message.startswith(refusal)


def test_json_is_read_as_json_and_what_only_begins_like_it_as_yaml() -> None:
    assert plain_value(sound_document(b'{"a":\t[1e3, "\\/", null]}', "f")) == {"a": [1000.0, "/", None]}
    assert plain_value(sound_document(b"{a: no, b: 'no'}", "f")) == {"a": False, "b": "no"}
    assert plain_value(sound_document(b"", "f")) == {}


class _Item(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    size: int = 0
    labels: tuple[str, ...] = ()


class _Shape(msgspec.Struct, forbid_unknown_fields=True):
    items: tuple[_Item, ...] = ()
    tags: dict[str, str] = {}


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("items:\n- name: a\n  size: x\n", "f:3:9: p: Expected `int`, got `str` - at `$.items[0].size`"),
        ("items:\n- name: a\n  labels: [b, yes]\n", "f:3:15: p: Expected `str`, got `bool` - at "
         "`$.items[0].labels[1]`"),
        ("items:\n- name: a\n- size: 1\n", "f:3:3: p: Object missing required field `name` - at `$.items[1]`"),
        ("items:\n- name: a\n  sice: 1\n", "f:3:3: p: Object contains unknown field `sice` - at `$.items[0]`"),
        ("items: []\nitem: []\n", "f:2:1: p: Object contains unknown field `item`"),
        ("tags:\n  a: b\n  c: 2026-01-31\n", "f:2:3: p: Expected `str`, got `date` - at `$.tags[...]`"),
        ("tags:\n  1: b\n", "f:2:3: p: Expected `str`, got `int` - at `key` in `$.tags`"),
        ("- a\n", "f: p: Expected `object`, got `array`"),
        ("items:\n- name: 2026-13-31\n", "f:2:9: '2026-13-31' cannot be read: month must be in 1..12"),
        ("items: !!python/tuple []\n", "f:1:8: the tag is not supported; quote text that has a !"),
        ("items:\n- name: !mine a\n", "f:2:15: the tag is not supported; quote text that has a !"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused_with_its_place(text: str, refusal: str) -> None:
    with pytest.raises(InputError) as caught:
        decode_tree(sound_document(text.encode(), "f"), _Shape, prefix="p: ", hint="read the page")
    assert caught.value.message == refusal


def test_aliases_within_aliases_are_refused_before_they_are_too_deep() -> None:
    text = "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 5000))
    with pytest.raises(InputError):
        decode_tree(sound_document(text.encode(), "f", replace(ANY_FILE, aliased=2**31, values=2**31)), Any)


_words = st.sampled_from(
    ["no", "ON", "1:30", "0o7", "017", "1_000", "0x1f", "1e3", "1.5e+3", ".inf", "~", "2026-01-31",
     "2026-01-31T10:00:00Z", "x", "", "null", "-0", "+1", "0b11", "*", "'", "é"]
)  # fmt: skip
_scalars = _words | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False)
_trees = st.recursive(
    _scalars, lambda below: st.lists(below, max_size=3) | st.dictionaries(_words, below, max_size=3), max_leaves=8
)


@settings(max_examples=200)
@given(tree=_trees, style=st.sampled_from([None, True, False]))
def test_plain_values_are_those_of_pyyaml(tree: object, style: bool | None) -> None:
    text = yaml.safe_dump({"top": tree}, default_flow_style=style, allow_unicode=True)
    assert plain_value(sound_document(text.encode(), "f", ANY_FILE)) == {"top": tree}


@settings(max_examples=200)
@given(words=st.lists(_words.filter(lambda word: word not in ("*", "'")), max_size=6))
def test_words_without_quotes_mean_what_they_mean_to_pyyaml(words: list[str]) -> None:
    text = "".join(f"k{n}: {word}\n" for n, word in enumerate(words))
    assert plain_value(sound_document(text.encode(), "f")) == (yaml.safe_load(text) or {})


@given(tree=_trees)
def test_plain_values_of_json_are_those_of_json(tree: object) -> None:
    assert plain_value(sound_document(json.dumps([tree]).encode(), "f", ANY_FILE)) == [tree]
