"""Offsets in the CSV of Kafka's own tool: what `kafka-consumer-groups.sh --reset-offsets --export` writes.

A row is `topic,partition,offset`, or `group,topic,partition,offset` where several groups were exported. There is no
header; long names are quoted.
"""

import csv
from collections.abc import Iterator

from kafkakit.core.errors import InputError
from kafkakit.core.lists_in_words import some
from kafkakit.core.model import TopicPartition
from kafkakit.core.printable import printable
from kafkakit.streams.commits.decide.editing.offset_text import MAX_OFFSET
from kafkakit.streams.commits.decide.editing.request import FileTarget

MAX_BYTES = 16 << 20
MAX_PARTITION = (1 << 31) - 1
FORM = "a row is topic,partition,offset or group,topic,partition,offset, without a header line"


def read_offset_file(data: bytes, source: str, group: str, topic: str = "") -> dict[TopicPartition, FileTarget]:
    """The offsets of one group; with `topic` a row of another topic is refused.

    Raises `InputError` with the line for a row that cannot be used, and where the group has none.
    """
    targets: dict[TopicPartition, FileTarget] = {}
    others: set[str] = set()
    for where, row in _rows(data, source):
        if len(row) == 4 and row[0] != group:
            others.add(printable(row[0]))
            continue
        name = row[-3]
        key = TopicPartition(name, _number(row[-2], "partition", MAX_PARTITION, where))
        if topic and name != topic:
            raise InputError(where, f"topic {printable(name)} is not {printable(topic)}, the one of --topic")
        if key in targets:
            raise InputError(where, f"{printable(str(key))} is named before, in {targets[key].where}")
        targets[key] = FileTarget(offset=_number(row[-1], "offset", MAX_OFFSET, where), where=where)
    if not targets:
        held = f"no row of group {printable(group)}, only of {some(sorted(others))}" if others else "no rows"
        raise InputError(source, f"it has {held}", hint=FORM)
    return targets


def _rows(data: bytes, source: str) -> Iterator[tuple[str, list[str]]]:
    """Each row with its place; all have as many fields as the first one."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{source} line {data.count(10, 0, error.start) + 1}", "it is not UTF-8") from None
    width = 0
    for number, line in enumerate(text.split("\n"), 1):
        where = f"{source} line {number}"
        if not line.strip():
            continue
        try:
            row = next(csv.reader([line.removesuffix("\r")], strict=True))
        except csv.Error as error:
            raise InputError(where, f"it is not CSV ({error})", hint=FORM) from None
        if len(row) not in (3, 4) or len(row) != (width or len(row)):
            raise InputError(where, f"it has {len(row)} fields" + (f", not {width}" if width else ""), hint=FORM)
        width = len(row)
        yield where, row


def _number(text: str, what: str, most: int, where: str) -> int:
    plain = text.strip()
    if not plain.removeprefix("-").isdecimal() or not plain.isascii():
        raise InputError(where, f"{plain!r:.40} is no {what}", hint=FORM)
    if plain.startswith("-"):
        raise InputError(where, f"{what} {plain:.40} is negative")
    if len(plain) > 19 or int(plain) > most:
        raise InputError(where, f"{plain:.40} is above the highest {what} there can be")
    return int(plain)
