"""How far a translated offset may be from the true one: recorded syncs, refusals, what is read, and any sequence."""

import json
from collections.abc import Mapping, Sequence
from struct import pack
from typing import Any

import msgspec
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.registry.act.local_calls import translate_with_intervals
from kafkakit.registry.decide.offsets import end_of, read_sync, sync_topic, with_intervals
from kafkakit.registry.decide.v2_calls import TranslateOffsetsRequest
from kafkakit.streams.model.mirrormaker import OffsetSync
from tests.fakes.topics import MemoryTopics
from tests.places import ROOT

RECORDED = json.loads((ROOT / "tests/cases/streams/mirrormaker.json").read_text(encoding="utf-8"))["offset_syncs"]


def sync(upstream: int, downstream: int, topic: str = "logs", partition: int = 3) -> OffsetSync:
    return OffsetSync(topic=topic, partition=partition, upstream_offset=upstream, downstream_offset=downstream)


SYNCS = (sync(100, 90), sync(200, 150))


@pytest.mark.parametrize(
    ("upstream", "local", "found"),
    [
        (100, 90, (90, False)),  # a sync of this very offset
        (101, 91, (91, True)),  # the one after it: nothing lies between
        (130, 91, (120, True)),  # by the distance from the sync before
        (199, 91, (150, False)),  # by the sync after
        (200, 150, (150, False)),
        (250, 151, (200, True)),  # after the last sync
        (50, 40, (90, False)),  # before the first one that is known
        (130, 125, (None, False)),  # a checkpoint that these syncs do not explain
    ],
)
def test_where_an_offset_ends(upstream: int, local: int, found: tuple[int | None, bool]) -> None:
    assert end_of(upstream, local, SYNCS) == found


def test_nothing_is_known_without_syncs_nor_from_those_of_an_earlier_copy() -> None:
    assert end_of(7, 5, ()) == (None, False)
    made_again = (sync(100, 90), sync(200, 10), sync(300, 100))
    assert end_of(150, 91, made_again) == (None, False)
    assert end_of(250, 11, made_again) == (60, True)


def test_a_copy_with_records_of_its_own_is_known_by_syncs_alone() -> None:
    own = (sync(100, 90), sync(110, 105), sync(200, 195))
    assert end_of(105, 91, own) == (105, False)
    assert end_of(150, 106, own) == (195, False)
    assert end_of(250, 196, own) == (None, False)


def test_recorded_syncs_are_read_and_damaged_ones_named() -> None:
    for case in RECORDED:
        key, value = bytes.fromhex(case["key"]), bytes.fromhex(case["value"])
        record = Record(partition=TopicPartition("s", 0), offset=9, value=value, key=key)
        if "read" in case:
            assert read_sync(record) == OffsetSync(**case["read"])
            continue
        with pytest.raises(RpcError, match="the offset sync at offset 9 is damaged: ") as caught:
            read_sync(record)
        assert caught.value.code is RpcCode.INTERNAL


def test_a_copy_is_named_behind_the_alias_or_like_its_source() -> None:
    offsets = {"west.logs:3": (130, 91), "plain:3": (130, 91), "west.both:3": (130, 91), "west.none:3": (130, 91)}
    syncs = [sync(100, 90, name) for name in ("logs", "plain", "both", "west.both")]
    found = {o.topic: o.local_end_offset for o in with_intervals(offsets, syncs, "west").offsets}
    assert found == {
        "plain": 120, "west.both": msgspec.UNSET, "west.logs": 120, "west.none": msgspec.UNSET
    }  # fmt: skip


def text(words: str) -> bytes:
    return pack(">h", len(words)) + words.encode()


def checkpoint(topic: str, upstream: int, local: int) -> tuple[bytes, bytes]:
    return text("g") + text(topic) + pack(">i", 3), pack(">hqq", 0, upstream, local) + text("")


def read(records: Mapping[str, Sequence[tuple[bytes, bytes]]], alias: str = "west") -> Any:
    data: Any = MemoryTopics(records)
    found = translate_with_intervals(data, TranslateOffsetsRequest(alias=alias, group="g"), 5.0)
    return list(msgspec.to_builtins(found.offsets))


def test_checkpoints_and_syncs_are_read() -> None:
    checkpoints = {"west.checkpoints.internal": [checkpoint("west.logs", 130, 91), checkpoint("west.at", 7, 7)]}
    syncs = [(text("logs") + pack(">i", 3), pack(">qq", up, down)) for up, down in ((100, 90), (200, 110))]
    syncs += [(text("at") + pack(">i", 3), pack(">qq", 7, 7))]
    assert sync_topic("") == "mm2-offset-syncs.source.internal"
    assert read(checkpoints | {"mm2-offset-syncs.west.internal": syncs}) == [
        {"topic": "west.at", "partition": 3, "upstream_offset": 7, "local_offset": 7, "local_end_offset": 7,
         "exact": True, "may_repeat": 0, "assumes_no_own_records": False},
        {"topic": "west.logs", "partition": 3, "upstream_offset": 130, "local_offset": 91, "local_end_offset": 110,
         "exact": False, "may_repeat": 19, "assumes_no_own_records": False},
    ]  # fmt: skip
    for without in (checkpoints, checkpoints | {"mm2-offset-syncs.west.internal": []}):
        assert "local_end_offset" not in read(without)[1]
        assert read(without)[1]["exact"] is False
    assert read({"west.checkpoints.internal": []}) == []
    with pytest.raises(RpcError) as caught:
        read(checkpoints, alias="east")
    assert caught.value.code is RpcCode.NOT_FOUND
    with pytest.raises(RpcError, match="GroupId field must be specified"):
        translate_with_intervals(MemoryTopics(checkpoints), TranslateOffsetsRequest(alias="west"), 5.0)  # type: ignore[arg-type]


@given(st.data())
def test_the_true_offset_is_in_the_interval_whatever_the_syncs(data: st.DataObject) -> None:
    """A source with gaps and a copy of it, with markers of transactions or without, and any syncs of its records."""
    gaps = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=30))
    markers = data.draw(st.booleans())
    upstream, downstream, source, copy = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 5)), [], []
    for gap in gaps:
        upstream, downstream = upstream + gap, downstream + (data.draw(st.integers(0, 3)) if markers else 0)
        source.append(upstream)
        copy.append(downstream)
        upstream, downstream = upstream + 1, downstream + 1
    pairs = list(zip(source, copy, strict=True))
    at = data.draw(st.integers(source[0], source[-1] + 1))
    true = next((down for up, down in pairs if up >= at), copy[-1] + 1)
    chosen = st.lists(st.sampled_from(pairs), unique=True).map(sorted)
    known = [sync(*pair) for pair in data.draw(chosen)]
    # MirrorMaker has syncs of its own, perhaps fewer, perhaps more than those that its topic still holds.
    before = [pair for pair in data.draw(chosen) if pair[0] <= at] or [pairs[0]]
    local = before[-1][1] + (at > before[-1][0])
    (found,) = with_intervals({"logs:3": (at, local)}, known, "").offsets
    assert found.local_offset <= true
    end = found.local_end_offset
    event("unknown" if end is msgspec.UNSET else "exact" if found.exact else "interval")
    if end is msgspec.UNSET:
        assert (found.exact, found.may_repeat) == (False, msgspec.UNSET)
        return
    if not (markers and found.assumes_no_own_records):
        assert true <= end
        assert not found.exact or true == local
    assert found.may_repeat == end - local
