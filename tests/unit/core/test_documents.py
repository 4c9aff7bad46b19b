"""Text that is not UTF-8 is refused wherever it stands, in every reader of JSON and YAML."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.core.documents import (
    decode_partition_map,
    decode_snapshot,
    decoded_json,
    encode_snapshot,
)
from kafkakit.core.errors import InputError
from kafkakit.core.model import ClusterSnapshot, decode_tags
from kafkakit.fleet.decide.fleet_file import read_fleet
from kafkakit.registry.decide.access import read_access, read_jwt_rules
from kafkakit.registry.decide.desired import read_desired, read_objects
from kafkakit.registry.decide.tags import read_history

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
