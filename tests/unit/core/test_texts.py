"""Texts of findings, rights and shells, records that become JSON, and documents that are read."""

import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkakit.core.documents import decode_partition_map, decode_snapshot, decoded_json, encode_snapshot
from kafkakit.core.errors import InputError
from kafkakit.core.findings import Rule, Severity
from kafkakit.core.model import ClusterSnapshot, decode_tags
from kafkakit.core.records import UNREADABLE_HEADER, headers_of
from kafkakit.core.rights import DUTIES, lacking_on_topics, lacking_rights
from kafkakit.core.text import quote
from kafkakit.fleet.decide import read_fleet
from kafkakit.kubernetes.objects import read_objects
from kafkakit.registry.decide.access import read_access, read_jwt_rules
from kafkakit.registry.decide.desired_tags import read_desired
from kafkakit.registry.decide.tags import read_history
from kafkakit.report.report import findings_sections, text_of
from tests.rigs.documents import acl_markdown

RULE = Rule(name="dir-share", severity=Severity.WARNING, about="dirs are even")


def repairs(*hints: str) -> list[str]:
    text = text_of(findings_sections([RULE.finding(f"broker {n}", "uneven", hint) for n, hint in enumerate(hints)]))
    return [line.strip() for line in text.partition("to repair:\n")[2].splitlines() if line.startswith("  ")]


@pytest.mark.parametrize(
    ("hints", "shown"),
    [
        (["level --brokers 1"], ["dir-share: level --brokers 1"]),
        (
            [f"level --brokers {n} --band 10%" for n in (3, 1, 3, 12, 7)],
            ["dir-share: level --brokers 3,1,12,7 --band 10%"],
        ),
        (
            ["start broker 1 again, or: drain --brokers 1", "start broker 2 again, or: drain --brokers 2"],
            ["dir-share: start broker 1,2 again, or: drain --brokers 1,2"],
        ),
        (["restart broker 1, or: x 1", "restart broker 2, or: x 2"], ["dir-share: restart broker 1,2, or: x 1,2"]),
        (["do a", "do b", "do c", "do d"], ["dir-share: do a", "dir-share: do b", "dir-share: do c"]),
        (["do 1", "do 1 2"], ["dir-share: do 1", "dir-share: do 1 2"]),
    ],
)
def test_hints_that_differ_in_ids_alone_are_one(hints: list[str], shown: list[str]) -> None:
    assert repairs(*hints) == shown


OPERATIONS = ("read", "write", "create", "delete", "alter", "describe", "describe_configs", "alter_configs")
SETS = st.frozensets(st.sampled_from(OPERATIONS))


def test_rights_that_others_imply_are_not_missing() -> None:
    assert lacking_rights({"describe", "describe_configs"}, {"alter", "alter_configs"}) == ()
    assert lacking_rights({"describe"}, {"describe_configs"}) == ("describe",)
    assert lacking_rights({"alter"}, {"describe"}) == ("alter",)
    assert lacking_rights({"alter"}, None) == (), "a cluster that does not tell is believed to allow it"
    assert lacking_on_topics({"describe", "alter_configs"}, {"b": {"read"}, "a": set(), "c": None}) == {
        "alter_configs": ["a", "b"],
        "describe": ["a"],
    }


@given(SETS, SETS, SETS)
def test_more_rights_never_lack_more(needed: frozenset[str], granted: frozenset[str], more: frozenset[str]) -> None:
    missing = set(lacking_rights(needed, granted))
    assert missing <= needed - granted
    assert set(lacking_rights(needed, granted | more)) <= missing
    assert lacking_rights(needed, granted | missing) == ()


def test_no_line_names_a_right_that_another_of_its_rights_implies() -> None:
    for duty in DUTIES:
        for operations in duty.rights.values():
            for operation in operations:
                assert lacking_rights({operation}, operations - {operation}) == (operation,), duty.name
        assert f"| {duty.name} |" in acl_markdown()


WORDS = [
    "plain",
    "two words",
    "it's",
    "a\nb",
    "a\tb",
    "\x1b[31mred",
    "\u202egnp.exe",
    "\\n",
    "é\n'\\",
    "-x",
    "",
    "$HOME\n",
]


def test_a_pasted_line_reaches_the_name_whatever_is_in_it() -> None:
    lines = "".join(f"printf '%s\\0' {quote(word)}\n" for word in WORDS)
    found = subprocess.run(["bash", "-c", lines], capture_output=True, check=True).stdout.decode().split("\0")
    assert found == [*WORDS, ""]


@given(st.text(st.characters(exclude_characters="\0")))
@example("a\nb")
def test_a_quoted_word_is_one_printable_line_and_ordinary_ones_are_as_ever(word: str) -> None:
    quoted = quote(word)
    assert quoted.isprintable()
    if word.isprintable():
        assert quoted == shlex.quote(word)


class BrokenMessage:
    """As confluent-kafka 2.16 for a name that is not UTF-8: an error once, then pairs that lack their names."""

    def __init__(self) -> None:
        self.is_asked = False
        self.kept: Sequence[tuple[object, ...]] = [("a", b"1"), (b"2",), ("c", None)]

    def headers(self) -> Sequence[tuple[object, ...]]:
        if not self.is_asked:
            self.is_asked = True
            raise SystemError("returned a result with an exception set")
        return self.kept

    def set_headers(self, headers: Sequence[tuple[object, ...]]) -> None:
        self.kept = headers


class PlainMessage:
    def headers(self) -> None:
        return None


def test_headers_that_can_be_read_are_kept_beside_one_that_cannot() -> None:
    message = BrokenMessage()
    expected = [("a", b"1"), (UNREADABLE_HEADER, b"2"), ("c", None)]
    assert headers_of(message) == expected
    assert message.headers() == expected, "later calls are safe"


def test_a_message_without_headers() -> None:
    assert headers_of(PlainMessage()) == ()


SNAPSHOT = encode_snapshot(
    ClusterSnapshot(
        cluster_id="c", taken_at=datetime(2026, 1, 1, tzinfo=UTC), source="test", brokers=(), topics=(), tags=None
    )
)
BAD = {"a byte that begins no character": b"\xff", "half a surrogate pair": b"\xed\xa0\x80", "cut short": b"\xc3"}
READERS: dict[str, tuple[Callable[[bytes, str], object], bytes]] = {
    "snapshot": (decode_snapshot, SNAPSHOT),
    "partition map": (decode_partition_map, b'{"version":1,"partitions":[]}'),
    "history of tags": (read_history, b'{"entries":[]}'),
    "pods": (read_objects, b'{"items":[],"kind":"List"}'),
    "pods as YAML": (read_objects, b"items: []\nkind: List\n"),
    "callers": (read_access, b"callers: []\n"),
    "rules for JWTs": (read_jwt_rules, b"issuer: i\naudience: a\njwks_file: f\ncallers: []\n"),
    "wanted tags": (read_desired, b"topics: []\n"),
    "tags": (decode_tags, b'{"team":"a"}'),
    "fleet": (read_fleet, b"clusters: []\n"),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("reader", READERS)
def test_an_unknown_key_with_such_bytes_is_refused(reader: str, bad: bytes) -> None:
    read, data = READERS[reader]
    key = b'"x' + bad + b'": 1'
    damaged = b"{" + key + b"," + data[1:] if data.startswith(b"{") else data + key + b"\n"
    with pytest.raises(InputError):
        read(damaged, "file")


def test_the_message_names_the_byte() -> None:
    damaged = SNAPSHOT.replace(b'"cluster_id"', b'"cluster\xff_id":0,"cluster_id"', 1)
    with pytest.raises(InputError, match=rf"not valid UTF-8 text \(byte {damaged.index(0xFF)}\)"):
        decode_snapshot(damaged, "file")


class _Shape(msgspec.Struct):
    known: int = 0


@given(st.text(max_size=30), st.sampled_from(sorted(BAD.values())), st.data())
def test_such_bytes_anywhere_are_refused(text: str, bad: bytes, data: st.DataObject) -> None:
    whole = msgspec.json.encode({"known": 1, "other": {text: text}})
    assert decoded_json(whole, _Shape).known == 1
    place = data.draw(st.integers(0, len(whole)))
    with pytest.raises(ValueError):
        decoded_json(whole[:place] + bad + whole[place:], _Shape)


def test_characters_across_the_parts_that_are_checked_are_read() -> None:
    for shift in range(4):
        whole = msgspec.json.encode({"other": "x" * shift + "\U0001f4c8" * 300_000})
        assert decoded_json(whole, _Shape).known == 0
        damaged = whole[:-3] + b"\xff" + whole[-3:]
        with pytest.raises(UnicodeDecodeError) as refused:
            decoded_json(damaged, _Shape)
        assert damaged[refused.value.start] >= 0x80


def test_json_is_decoded_in_one_place() -> None:
    root = Path(__file__).parents[3] / "kafkakit"
    modules = ((path, path.read_text(encoding="utf-8")) for path in root.rglob("*.py"))
    found = [str(path.relative_to(root)) for path, text in modules if re.search(r"msgspec\.json\.decode\(", text)]
    assert found == ["core/documents.py"]
