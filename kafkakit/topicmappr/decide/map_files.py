"""Map files: one a topic and, on request, one for all, under kafka-kit's names."""

import re
from dataclasses import dataclass

from kafkakit.core.documents import encode_partition_map
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.model import PartitionAssignment, PartitionMap

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedMap:
    """A map file that was written; `phase` is its map's place in a series."""

    path: str
    combined: bool
    phase: int


def map_files(partition_map: PartitionMap, out_file: str, suffix: str = "") -> list[tuple[str, bytes, bool]]:
    """(file name, bytes, combined?) of the files of one map: the combined one first, then topics by name.

    Names end in `suffix` (of a series: `-phase<n>`) and `.json`. Raises `InputError` for a topic that is no legal
    Kafka name, since it becomes a file name, and `UsageError` when `out_file` clashes with a topic's file or is no
    plain name.
    """
    topics: dict[str, list[PartitionAssignment]] = {}
    for entry in partition_map.partitions:
        topics.setdefault(entry.topic, []).append(entry)
    for topic in topics:
        if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
            raise InputError(repr(topic)[:80], "is not a legal topic name, so no map file can be named after it")
    files: list[tuple[str, bytes, bool]] = []
    if out_file:
        if "/" in out_file or "\0" in out_file or out_file in (".", ".."):
            raise UsageError(
                f"--out-file: {out_file!r:.80} is not a plain file name", hint="use --out-path for folders"
            )
        if out_file in topics:
            raise UsageError(f"--out-file {out_file} would overwrite the map of the topic of that name")
        files.append((f"{out_file}{suffix}.json", encode_partition_map(partition_map), True))
    files.extend(
        (f"{topic}{suffix}.json", encode_partition_map(PartitionMap(partitions=tuple(entries))), False)
        for topic, entries in sorted(topics.items())
    )
    return files
