"""Numbers of keys: given, looked up, released and given again."""

import pytest

from kafkakit.streams.model.offsets_log.commits import CommitKey, KeysFull, KeyTable
from kafkakit.streams.model.offsets_log.entries import Undecodable
from tests.clusters.streams_batches import group_key, offset_key


def test_numbers_count_up_and_back_to_their_keys() -> None:
    table = KeyTable()
    keys = [offset_key(f"g{n % 3}", f"t{n % 7}", n) for n in range(500)]
    assert [table.intern(k) for k in keys] == list(range(500))
    assert [table.intern(k) for k in keys] == list(range(500))
    assert (len(table), table.capacity, len(table.groups), len(table.topics)) == (500, 500, 3, 7)
    assert table.key_of(443) == CommitKey("g2", "t2", 443)
    assert table.bytes_of(443) == keys[443]
    assert table.number_of(keys[443]) == 443
    assert table.number_of(b"") is None
    assert (table.group_index[:6].tolist(), table.partition[499]) == ([0, 1, 2, 0, 1, 2], 499)


def test_released_numbers_and_names_are_used_again() -> None:
    table = KeyTable()
    for n in range(4):
        table.intern(offset_key("g", f"t{n}", n))
    table.release([1, 2, 2, 99, -1])
    assert (len(table), table.capacity, len(table.topics), len(table.groups)) == (2, 4, 2, 1)
    assert table.number_of(offset_key("g", "t1", 1)) is None
    assert (table.group_index[1], table.topic_index[1], table.partition[1]) == (-1, -1, -1)
    with pytest.raises(KeyError):
        table.key_of(1)
    assert {table.intern(offset_key("h", "u", 0)), table.intern(offset_key("h", "t3", 0))} == {1, 2}
    assert table.key_of(1).group == table.key_of(2).group == "h"
    assert (table.capacity, table.topics.capacity) == (4, 4)
    table.release([0, 1, 2, 3])
    assert (len(table.groups), len(table.topics)) == (0, 0)


def test_keys_that_are_no_offsets_or_too_many_are_refused() -> None:
    table = KeyTable(max_keys=1, max_key_bytes=50)
    assert table.intern(group_key(2, "g")) == Undecodable("a key of something else than an offset")
    assert isinstance(table.intern(b"\0\1\0"), Undecodable)
    assert table.intern(offset_key("g" * 50, "t", 0)) == KeysFull("a key of 61 bytes")
    assert table.intern(offset_key("g", "t", 0)) == 0
    assert table.intern(offset_key("g", "t", 1)) == KeysFull("1 keys are held")
    assert table.intern(offset_key("g", "t", 0)) == 0
    assert len(table.groups) == 1
