"""Reads any tool's reassignment map entry by entry: what cannot be read becomes a fault, not a refusal."""

import re
from dataclasses import dataclass
from typing import Any

from kafkakit.core.documents import decode_json
from kafkakit.core.errors import InputError
from kafkakit.core.model import TopicPartition
from kafkakit.core.plan_rules import MAX_INT32, topic_problem

MAX_ENTRIES = 5_000_000
_UNSEEN = re.compile(r"[^ -~]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One partition of the map: its new list as written, and the log dirs that go with it (None: none named)."""

    key: TopicPartition
    replicas: tuple[int, ...]
    dirs: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MapReading:
    """What could be read: one entry a partition (the first of several), in the map's order.

    `unread` says of each entry that makes no sense what is wrong; `twice` are partitions listed again. `version`
    is None when it is not a whole number; a map without one counts as version 1.
    """

    entries: tuple[Entry, ...]
    unread: tuple[str, ...]
    twice: tuple[TopicPartition, ...]
    version: int | None


def read_map(data: bytes, source: str) -> MapReading:
    """Read Kafka's reassignment JSON as far as it goes.

    Raises `InputError` for text that is no JSON object with a list `partitions`, and for more than five million
    entries. O(entries).
    """
    decoded = decode_json(data, dict[str, Any], source)
    rows = decoded.get("partitions")
    if not isinstance(rows, list):
        raise InputError(source, 'not a reassignment map (no list "partitions")')
    if len(rows) > MAX_ENTRIES:
        raise InputError(source, f"{len(rows)} entries are more than {MAX_ENTRIES}")
    entries: dict[TopicPartition, Entry] = {}
    unread: list[str] = []
    twice: list[TopicPartition] = []
    for number, row in enumerate(rows, start=1):
        entry = _entry(row)
        if isinstance(entry, str):
            unread.append(f"entry {number}: {entry}")
        elif entry.key in entries:
            twice.append(entry.key)
        else:
            entries[entry.key] = entry
    version = decoded.get("version", 1)
    return MapReading(
        entries=tuple(entries.values()),
        unread=tuple(unread),
        twice=tuple(twice),
        version=version if type(version) is int else None,
    )


def _entry(row: object) -> Entry | str:
    """The entry, or what is wrong with it."""
    if not isinstance(row, dict):
        return f"{plain(row)} is not an object"
    topic, partition, replicas, dirs = (row.get(k) for k in ("topic", "partition", "replicas", "log_dirs"))
    if not isinstance(topic, str) or topic_problem(topic):
        return f"topic {plain(topic)} is not a topic name"
    if type(partition) is not int or not 0 <= partition <= MAX_INT32:
        return f"partition {plain(partition)} of {topic} is not a partition number"
    where = f"{topic}-{partition}"
    if not isinstance(replicas, list):
        return f"{where}: replicas are {plain(replicas)}, not a list"
    for broker in replicas:
        if type(broker) is not int or not 0 <= broker <= MAX_INT32:
            return f"{where}: {plain(broker)} is not a broker id"
    if dirs is not None and not (isinstance(dirs, list) and all(isinstance(d, str) for d in dirs)):
        return f"{where}: log_dirs are not a list of paths"
    return Entry(
        key=TopicPartition(topic, partition), replicas=tuple(replicas), dirs=None if dirs is None else tuple(dirs)
    )


def plain(value: object) -> str:
    """Anything as short text that is safe to show."""
    return _UNSEEN.sub("?", repr(value)[:60])
