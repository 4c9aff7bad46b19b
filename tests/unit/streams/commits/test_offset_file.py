"""Offsets from the CSV of Kafka's own tool: what it writes, and every row that cannot be used, with its line."""

import pytest

from kafkakit.core.errors import InputError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.commits.decide.editing.edit import read_offset_file

LONG = "a-topic-with-a-name-that-is-quoted-for-its-length"


def offsets(text: str, group: str = "g", topic: str = "") -> dict[TopicPartition, int]:
    read = read_offset_file(text.encode(), "o.csv", group, topic)
    return {key: target.offset for key, target in read.items()}


def test_rows_of_one_group_as_kafka_exports_them() -> None:
    assert offsets(f'orders,0,15\norders,1,0\n"{LONG}",0,7\n') == {
        TopicPartition("orders", 0): 15,
        TopicPartition("orders", 1): 0,
        TopicPartition(LONG, 0): 7,
    }


def test_of_several_groups_those_of_the_named_one_are_taken() -> None:
    text = 'g,orders,0,15\nother,orders,0,-3\n"odd ""group"", x",orders,1,4\n'
    assert offsets(text) == {TopicPartition("orders", 0): 15}
    assert offsets(text, 'odd "group", x') == {TopicPartition("orders", 1): 4}
    with pytest.raises(InputError, match=r"o\.csv: it has no row of group none, only of g, odd \"group\", x, other"):
        offsets(text, "none")


def test_line_ends_of_windows_a_byte_order_mark_and_blank_lines_are_accepted() -> None:
    assert offsets("\ufefforders,0,15\r\n\r\norders,1, 3 \r\n") == {
        TopicPartition("orders", 0): 15,
        TopicPartition("orders", 1): 3,
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "o.csv: it has no rows"),
        ("topic,partition,offset\norders,0,1", "o.csv line 1: 'partition' is no partition"),
        ("orders,0,1\n\norders,0,2", "o.csv line 3: orders-0 is named before, in o.csv line 1"),
        ("orders,0,1\norders,1,-1", "o.csv line 2: offset -1 is negative"),
        ("orders,-1,1", "o.csv line 1: partition -1 is negative"),
        ("orders,2147483648,1", "o.csv line 1: 2147483648 is above the highest partition there can be"),
        ("orders,0,9223372036854775807", "above the highest offset there can be"),
        ("orders,0," + "9" * 5000, "above the highest offset there can be"),
        ("orders,0,1.5", "o.csv line 1: '1.5' is no offset"),
        ("orders,0,\u0663", "is no offset"),
        ("orders,0", "o.csv line 1: it has 2 fields"),
        ("orders,0,1\ng,orders,1,1", "o.csv line 2: it has 4 fields, not 3"),
        ('orders,0,1\n"orders,1,1', "o.csv line 2: it is not CSV"),
        ("orders,0,1\npay\x1b[2J,0,1", r"o.csv line 2: topic pay\x1b[2J is not orders"),
    ],
)
def test_a_row_that_cannot_be_used_is_one_line_with_its_number(text: str, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        offsets(text, topic="orders")
    assert problem in caught.value.message
    assert "\n" not in str(caught.value)


def test_bytes_that_are_no_text_name_their_line() -> None:
    with pytest.raises(InputError, match=r"o\.csv line 2: it is not UTF-8"):
        read_offset_file(b"orders,0,1\norders,1,\xff", "o.csv", "g")
