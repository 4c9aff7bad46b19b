"""How many partitions an assignment of the consumer protocol holds."""

import struct

from kafkakit.streams.formats.offsets_log.group_values import count_assignment


def assignment(*topics: tuple[bytes, list[int]]) -> bytes:
    parts = [struct.pack(">hi", 3, len(topics))]
    for name, partitions in topics:
        parts.append(struct.pack(">h", len(name)) + name + struct.pack(">i", len(partitions)))
        parts.append(struct.pack(f">{len(partitions)}i", *partitions))
    return b"".join(parts) + struct.pack(">i", -1)


def test_partitions_of_all_topics_are_counted_whatever_their_names() -> None:
    assert count_assignment(b"") == 0
    assert count_assignment(assignment()) == 0
    assert count_assignment(assignment((b"orders", [0, 1, 2]))) == 3
    assert count_assignment(assignment((b"orders", [7]), (b"\0\0\0\x02", [1, 2]), (b"x" * 249, []))) == 3


def test_bytes_of_another_protocol_have_no_count() -> None:
    whole = assignment((b"orders", [0, 1, 2]), (b"pay", [4]))
    for size in range(1, len(whole) - 4):
        assert count_assignment(whole[:size]) is None, size
    assert count_assignment(b"\xff") is None
