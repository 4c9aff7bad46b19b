"""The feed of `__consumer_offsets`; numbers of keys."""

from struct import pack

import pytest

from kafkakit.streams.model.offsets_log import feed as transactions
from kafkakit.streams.model.offsets_log import rows
from kafkakit.streams.model.offsets_log.commits import (
    TOMBSTONE,
    CommitColumns,
    CommitKey,
    FeedFacts,
    KeysFull,
    KeyTable,
    PendingCommit,
    PendingTransaction,
)
from kafkakit.streams.model.offsets_log.entries import CommittedValue, UndecodableEntry
from kafkakit.streams.model.offsets_log.feed import HELD, OffsetsFeed, TransactionBatch, Transactions
from tests.clusters.streams_batches import Rec, batch, commit, group_key, marker, offset_key, offset_value, tombstone

MS = 1_758_335_260_726
PRODUCER = (7, 0)


class Fed:
    """A feed with what came out of it, by key."""

    def __init__(self, table: KeyTable | None = None) -> None:
        self.table = KeyTable() if table is None else table
        self.feed = OffsetsFeed(5, self.table)
        self.offsets: dict[CommitKey, int] = {}

    def take(self, *batches: bytes) -> FeedFacts:
        columns, facts = self.feed.feed(b"".join(batches))
        self.last = columns
        for row in columns.rows():
            key = self.table.key_of(row.key)
            if row.offset == TOMBSTONE:
                self.offsets.pop(key, None)
            else:
                self.offsets[key] = row.offset
        return facts

    def of(self, group: str, topic: str = "t", partition: int = 0) -> int | None:
        return self.offsets.get(CommitKey(group, topic, partition))


def in_transaction(offset: int, *records: Rec, producer: tuple[int, int] = PRODUCER, base_ms: int = MS) -> bytes:
    return batch(offset, records, transactional=True, producer=producer, base_ms=base_ms)


def test_the_newest_commit_of_each_key_comes_out_once() -> None:
    fed = Fed()
    facts = fed.take(
        batch(0, [commit("g", "t", 0, 5), commit("g", "t", 1, 6, metadata="old", leader_epoch=3)]),
        batch(2, [commit("g", "t", 1, 9, version=4, metadata="~bé\0", topic_id=bytes(range(16)), leader_epoch=4)]),
    )
    assert [(r.key, r.offset, r.at, r.metadata) for r in fed.last.rows()] == [
        (0, 5, 0, b""),
        (1, 9, 2, "~bé\0".encode()),
    ]
    row = fed.last.rows()[1]
    assert (row.committed_ms, row.leader_epoch, row.topic_id) == (MS, 4, bytes(range(16)))
    assert fed.table.key_of(1) == CommitKey("g", "t", 1)
    assert (facts.partition, facts.next_offset, facts.counts.batches, facts.counts.records) == (5, 3, 2, 3)
    assert (facts.counts.by_type, facts.counts.first_reason) == ({1: 3}, "")


def test_nothing_gives_empty_columns() -> None:
    columns, facts = OffsetsFeed(0, KeyTable()).feed(b"")
    assert (len(columns), columns.topic_id.shape, facts.next_offset) == (0, (0, 16), 0)
    assert CommitColumns.of([]).rows() == []


def test_a_buffer_may_begin_early_end_cut_and_come_twice() -> None:
    fed = Fed()
    first = batch(0, [commit("g", "t", 0, 5), commit("g", "t", 0, 6), commit("g", "t", 0, 7)])
    fed.feed.next_offset = 2
    facts = fed.take(first, first[:70])
    assert (facts.counts.records, fed.of("g"), facts.next_offset) == (1, 7, 3)
    again = fed.take(first)
    assert (again.counts.records, again.counts.batches, len(fed.last), again.next_offset) == (0, 0, 0, 3)


def test_holes_of_compaction_and_times_out_of_order_are_nothing_special() -> None:
    fed = Fed()
    late = Rec(offset_key("g", "t", 0), offset_value(8, committed_ms=MS - 99), delta_ms=-99, offset_delta=4)
    facts = fed.take(
        batch(10, [commit("g", "t", 0, 9, committed_ms=MS), late], last_offset_delta=9),
        batch(90, [], last_offset_delta=3),
    )
    assert (fed.of("g"), facts.next_offset, facts.counts.batches) == (8, 94, 2)
    assert fed.last.at.tolist() == [14]


def test_key_type_0_names_the_same_offset() -> None:
    fed = Fed()
    legacy = Rec(offset_key("g", "t", 0, kind=0), offset_value(5, version=0))
    facts = fed.take(batch(0, [commit("g", "t", 0, 4), legacy]))
    assert (fed.of("g"), len(fed.table), facts.counts.by_type) == (5, 1, {0: 1, 1: 1})


def test_an_open_transaction_hides_no_commit_of_another_group() -> None:
    fed = Fed()
    facts = fed.take(
        in_transaction(0, commit("streams", "t", 0, 5), commit("streams", "t", 1, 6), base_ms=MS - 60_000),
        batch(2, [commit("plain", "t", 0, 7)]),
    )
    assert (fed.of("streams"), fed.of("plain")) == (None, 7)
    assert (facts.held_back, facts.open_transaction_count) == (2, 1)
    told = PendingTransaction(
        producer_id=7, producer_epoch=0, since_offset=0, since_ms=MS - 60_000, commits=2, groups=("streams",)
    )
    assert facts.open_transactions == (told,)
    assert fed.feed.resume_offset == 0
    facts = fed.take(marker(3, PRODUCER, commits=True))
    assert (fed.of("streams"), fed.of("streams", partition=1)) == (5, 6)
    assert (facts.held_back, facts.open_transactions) == (0, ())
    assert fed.feed.resume_offset == 4


@pytest.mark.parametrize("is_split", [True, False])
def test_an_aborted_commit_never_shows(is_split: bool) -> None:
    fed = Fed()
    parts = [
        batch(0, [commit("g", "t", 0, 3)]),
        in_transaction(1, commit("g", "t", 0, 5)),
        marker(2, PRODUCER, commits=False),
    ]
    facts = [fed.take(part) for part in parts][-1] if is_split else fed.take(*parts)
    assert (fed.of("g"), facts.counts.dropped_commits) == (3, 1)


def test_a_transactional_tombstone_waits_too() -> None:
    fed = Fed()
    fed.take(batch(0, [commit("g", "t", 0, 3)]), in_transaction(1, tombstone("g", "t", 0)))
    assert fed.of("g") == 3
    fed.take(marker(2, PRODUCER, commits=True))
    assert fed.of("g") is None


@pytest.mark.parametrize("is_split", [True, False])
@pytest.mark.parametrize("is_removal", [True, False])
def test_a_later_record_overtakes_a_pending_one_as_on_the_broker(is_split: bool, is_removal: bool) -> None:
    fed = Fed()
    parts = [
        in_transaction(0, commit("g", "t", 0, 5)),
        batch(1, [tombstone("g", "t", 0) if is_removal else commit("g", "t", 0, 9)]),
        marker(2, PRODUCER, commits=True),
    ]
    if is_split:
        for part in parts:
            fed.take(part)
    else:
        fed.take(*parts)
    assert fed.of("g") == (None if is_removal else 9)


def test_a_newer_epoch_of_the_producer_drops_what_the_older_one_left() -> None:
    fed = Fed()
    fed.take(in_transaction(0, commit("g", "t", 0, 5)))
    facts = fed.take(in_transaction(1, commit("g", "t", 1, 6), producer=(7, 1)))
    assert (facts.counts.dropped_commits, facts.held_back) == (1, 1)
    fed.take(in_transaction(2, commit("g", "t", 2, 7), producer=(7, 0)), marker(3, (7, 0), commits=True))
    assert fed.offsets == {}
    # The marker of a transaction that expired, or of KIP-890, has a higher epoch than its data.
    fed.take(marker(4, (7, 2), commits=True))
    assert fed.offsets == {CommitKey("g", "t", 1): 6}


def test_a_commit_of_an_unusual_shape_keeps_its_place_in_its_transaction() -> None:
    fed = Fed()
    newer = Rec(offset_key("g", "t", 0), offset_value(5, version=5))
    fed.take(in_transaction(0, newer, tombstone("g", "t", 0), newer, commit("g", "t", 0, 8)))
    fed.take(marker(4, PRODUCER, commits=True))
    assert fed.of("g") == 8


def test_what_transactions_may_hold_back_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    held = Transactions(max_held_bytes=1_000)
    import numpy as np

    fate = np.full(1, -1, np.int64)
    held.settle([TransactionBatch(0, 10, MS, 7, 0, None)], fate)
    assert fate.tolist() == [HELD]
    many = [
        PendingCommit(key=offset_key("g", "t", p), at=10 + p, visible_at=10 + p, value=CommittedValue(offset=p))
        for p in range(3)
    ]
    assert [held.hold(0, row) for row in many] == [True, True, False]
    assert held.hold(0, many[0])
    assert held.held == 2
    released = held.settle([TransactionBatch(0, 20, MS, 7, 0, True)], fate).released
    assert [(r.value.offset, r.visible_at) for r in released] == [(1, 20), (0, 20)]
    held.settle([TransactionBatch(0, 30, MS, 7, 0, None)], fate)
    assert held.hold(0, many[2])
    monkeypatch.setattr(transactions, "MAX_LISTED", 1)
    held.settle([TransactionBatch(0, 40, MS, 8, 0, None)], fate)
    assert [t.producer_id for t in held.listed()] == [7]
    assert (len(held), held.since_offset) == (2, 30)


def test_after_a_restart_open_transactions_are_known_and_nothing_old_comes_again() -> None:
    parts = [
        batch(0, [commit("g", "t", 0, 1)]),
        in_transaction(1, commit("s", "t", 0, 5)),
        batch(2, [commit("g", "t", 0, 2)]),
    ]
    fed = Fed()
    fed.take(*parts)
    again = OffsetsFeed(5, fed.table, next_offset=fed.feed.resume_offset, known_to=fed.feed.next_offset)
    columns, facts = again.feed(b"".join(parts))
    assert (len(columns), facts.held_back, again.resume_offset) == (0, 1, 1)
    columns, _ = again.feed(marker(3, PRODUCER, commits=True) + batch(4, [commit("g", "t", 0, 3)]))
    assert [(r.at, r.offset) for r in columns.rows()] == [(1, 5), (4, 3)]


def test_an_unusual_commit_that_becomes_visible_after_the_restart_comes_out() -> None:
    unusual = Rec(offset_key("s", "t", 0), offset_value(5, version=5))
    again = OffsetsFeed(5, KeyTable(), next_offset=1, known_to=3)
    columns, _ = again.feed(
        in_transaction(1, unusual) + batch(2, [commit("g", "t", 0, 2)]) + marker(3, PRODUCER, commits=True)
    )
    assert [(r.at, r.offset) for r in columns.rows()] == [(1, 5)]


def test_rows_of_several_pieces_come_in_the_order_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "PIECE_BYTES", 1)
    fed = Fed()
    fed.take(in_transaction(0, commit("s", "t", 0, 5)))
    fed.take(batch(1, [commit("g", "t", 0, 2)]), batch(2, [commit("g", "t", 0, 3)]), marker(3, PRODUCER, commits=True))
    assert [(r.at, r.offset) for r in fed.last.rows()] == [(0, 5), (2, 3)]


def test_a_full_table_and_long_keys_leave_commits_out_and_count_them() -> None:
    fed = Fed(KeyTable(max_keys=1, max_key_bytes=100))
    facts = fed.take(
        batch(0, [commit("g", "t", 0, 1), commit("g", "t", 1, 2), commit("x" * 100, "t", 0, 3), tombstone("y", "t", 0)])
    )
    assert (len(fed.last), facts.counts.keys_left_out, facts.counts.undecodable) == (1, 2, 0)
    fed.take(batch(4, [tombstone("g", "t", 0)]))
    fed.table.release(fed.last.key.tolist())
    facts = fed.take(batch(5, [commit("g", "t", 1, 2)]))
    assert (fed.of("g", partition=1), facts.counts.keys_left_out, fed.last.key.tolist()) == (2, 0, [0])


def test_four_megabytes_of_key_do_no_harm() -> None:
    fed = Fed()
    junk = [Rec(offset_key("g", "t", 0) + bytes(4 << 20), offset_value(1)), Rec(b"\0\2\x7f\xff" + bytes(4 << 20), b"")]
    facts = fed.take(batch(0, [*junk, commit("g", "t", 0, 1)]))
    assert (fed.of("g"), facts.counts.undecodable, facts.counts.keys_left_out) == (1, 0, 1)


def test_what_cannot_be_read_is_counted_and_named() -> None:
    fed = Fed()
    facts = fed.take(
        batch(
            0,
            [
                Rec(offset_key("g", "t", 0), b"\0\3"),
                Rec(None, b""),
                Rec(group_key(19, "g"), b""),
                commit("g", "t", 0, 4),
            ],
        ),
        batch(4, [commit("g", "t", 0, 5)], codec="lz4"),
        pack(">qiIbb", 5, 20, 0, 1, 0) + bytes(14),
    )
    assert (facts.counts.undecodable, facts.counts.opaque, facts.counts.unreadable_batches) == (2, 1, 2)
    assert facts.counts.first_reason == "message format 1"
    assert (fed.of("g"), facts.next_offset) == (4, 6)
    assert fed.take(batch(6, [commit("g", "t", 0, 5)], codec="lz4")).counts.first_reason == "compressed with lz4"


def test_bytes_that_are_no_batch_stop_the_chunk_with_their_reason() -> None:
    fed = Fed()
    bad = bytearray(batch(1, [commit("g", "t", 0, 5)]))
    bad[8:12] = pack(">i", 7)
    facts = fed.take(batch(0, [commit("g", "t", 0, 4)]), bytes(bad))
    assert (fed.of("g"), facts.next_offset, facts.stopped) == (4, 1, "a batch length of 7")


def test_records_of_groups_are_counted_by_type_and_not_read() -> None:
    fed = Fed()
    junk = [Rec(group_key(number, "g"), b"junk") for number in (2, 3, 5, 17, 24, 18, 25)]
    facts = fed.take(batch(0, [*junk, Rec(group_key(2, "g"), None), commit("g", "t", 0, 5)]))
    assert (facts.counts.undecodable, facts.counts.opaque, facts.counts.tombstones, fed.of("g")) == (0, 2, 1, 5)
    assert facts.counts.by_type == {1: 1, 2: 2, 3: 1, 5: 1, 17: 1, 18: 1, 24: 1, 25: 1}


def test_a_feed_of_every_event_gives_each_visible_commit_in_the_order_of_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rows, "PIECE_BYTES", 100)
    table = KeyTable()
    data = b"".join(
        (
            batch(0, [commit("g", "t", 0, 1), commit("g", "t", 0, 2), commit("h", "t", 0, 9)]),
            batch(3, [tombstone("g", "t", 0), tombstone("gone", "t", 0)]),
            in_transaction(5, commit("g", "t", 0, 3)),
            batch(6, [commit("g", "t", 0, 4)]),
            marker(7, PRODUCER, commits=True),
            in_transaction(8, commit("g", "t", 0, 5)),
            marker(9, PRODUCER, commits=False),
        )
    )
    columns, _ = OffsetsFeed(5, table, every=True).feed(data)
    found = [(row.at, table.key_of(row.key).group, row.offset) for row in columns.rows()]
    assert sorted(found) == [
        (0, "g", 1), (1, "g", 2), (2, "h", 9), (3, "g", TOMBSTONE), (4, "gone", TOMBSTONE), (5, "g", 3), (6, "g", 4)
    ]  # fmt: skip
    assert [at for at, *_ in found] == sorted(at for at, *_ in found)


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
    assert table.intern(group_key(2, "g")) == UndecodableEntry("a key of something else than an offset")
    assert isinstance(table.intern(b"\0\1\0"), UndecodableEntry)
    assert table.intern(offset_key("g" * 50, "t", 0)) == KeysFull("a key of 61 bytes")
    assert table.intern(offset_key("g", "t", 0)) == 0
    assert table.intern(offset_key("g", "t", 1)) == KeysFull("1 keys are held")
    assert table.intern(offset_key("g", "t", 0)) == 0
    assert len(table.groups) == 1
