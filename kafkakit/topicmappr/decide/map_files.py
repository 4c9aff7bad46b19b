"""The files of a plan: maps under kafka-kit's names, one a topic and, on request, one for all, and the plan itself."""

import re
from dataclasses import dataclass

from kafkakit.core.documents import decode_partition_map, encode_partition_map
from kafkakit.core.errors import ExitCode, InputError, UsageError
from kafkakit.core.model import PartitionAssignment, PartitionMap
from kafkakit.core.plan import Plan
from kafkakit.core.shell_words import quote
from kafkakit.core.snapshot_rules import check_partition_map

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedMap:
    """A map file that was written; `phase` is its map's place in a series."""

    path: str
    combined: bool
    phase: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPlan:
    """What was written of a plan, the command that carries it out, and the code that the planning command ends with.

    `maps` is None for commands that write no map files, `path` and `next_command` where the plan was not saved.
    """

    maps: tuple[SavedMap, ...] | None = None
    path: str | None = None
    next_command: str | None = None
    code: ExitCode = ExitCode.DONE


def apply_command(program: str, plan: Plan, path: str | None) -> str | None:
    """The command that carries out a plan saved at `path`; None when there is nothing to carry out."""
    if not path or not (plan.moves or plan.dir_moves):
        return None
    return f"{program} reassign apply {quote(path)}"


def read_map_string(text: str) -> PartitionMap:
    """Read `--map-string`; raises `InputError` with kafka-kit's words in front."""
    source = "Error parsing partition map"
    partition_map = decode_partition_map(text.encode("utf-8", "surrogatepass"), source)
    check_partition_map(partition_map, source)
    return partition_map


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
