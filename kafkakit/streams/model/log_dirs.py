"""The directories of partitions below a folder: log dirs of brokers, and trees that were copied from them.

What each directory and each file of a partition is follows from its name. The small text files of a log dir are offset
checkpoints, leader epochs and properties.
"""

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, BinaryIO

_PIECE_BYTES = 1 << 16
_BLOCK_BYTES = 512
"""Of `st_blocks`, whatever the file system's own are (stat(2))."""


@dataclass(frozen=True, slots=True)
class SeenFile:
    """An entry of a directory, as it was listed; `changed_ms` is when it was last written or renamed.

    `holes_bytes` of a file take no room on the disk: a broker makes each index of an open segment 10 MiB long.
    """

    name: str
    size_bytes: int
    mtime_ms: int
    is_dir: bool = False
    changed_ms: int = 0
    holes_bytes: int = 0

    @property
    def held_bytes(self) -> int:
        """The bytes that take room on the disk."""
        return self.size_bytes - self.holes_bytes


@dataclass(frozen=True, slots=True)
class FileReader:
    """How a tree is read. All of them raise `OSError` for what is gone or unreadable.

    `listing` gives the entries of a directory in any order; `mapped` maps the first bytes of a log, as many as were
    listed, or reads those of one that may shrink meanwhile: touching a mapped page that is gone ends the process
    (SIGBUS). `content` reads a small file, and may leave out what follows a page of zeros.
    """

    listing: Callable[[str], Sequence[SeenFile]]
    mapped: Callable[[str, int, bool], AbstractContextManager[memoryview]]
    content: Callable[[str], bytes]


def seen_files(entries: Iterable[Any]) -> list[SeenFile]:
    """The entries of a directory as `os.scandir` gives them, without those that are gone by now."""
    found = []
    for entry in entries:
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            continue
        is_dir = entry.is_dir(follow_symlinks=False)
        times = (status.st_mtime_ns // 1_000_000, status.st_ctime_ns // 1_000_000)
        holes = max(0, status.st_size - _BLOCK_BYTES * status.st_blocks)
        found.append(SeenFile(entry.name, status.st_size, times[0], is_dir, times[1], holes))
    return found


def content_before_zeros(stream: BinaryIO) -> bytes:
    """A file up to its first 64 KiB of zeros: active indexes are 10 MiB of them."""
    found = []
    while (piece := stream.read(_PIECE_BYTES)) and piece.count(0) < len(piece):
        found.append(piece)
    return b"".join(found)


class DirState(StrEnum):
    """What a broker does with a partition's directory; its name ends with all but the first."""

    LIVE = "live"
    FUTURE = "future"
    """Being filled, to replace the one in another log dir."""
    DELETE = "delete"
    """Of a deleted topic, until `file.delete.delay.ms` has passed."""
    STRAY = "stray"
    """Left behind: its broker is no replica of the partition any more."""


@dataclass(frozen=True, slots=True)
class PartitionName:
    """The partition that a directory is of."""

    topic: str
    partition: int
    state: DirState = DirState.LIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFiles:
    """A directory of a partition: where it lies, whose it is, and its files, by name.

    `log_start`, `recovery_point` and `cleaned_to` are those of the log dir's checkpoints, `broker` and `cluster` those
    of its `meta.properties`. `fault` says why a directory cannot be listed; `name` is None for one that is not a
    partition's. `is_in_use` is True in a log dir that a broker has locked, and not in a copy of one. `mtime_ms` is the
    directory's.
    """

    log_dir: str
    path: str
    name: PartitionName | None
    files: Sequence[SeenFile] = ()
    broker: int | None = None
    cluster: str | None = None
    log_start: int | None = None
    recovery_point: int | None = None
    cleaned_to: int | None = None
    is_in_use: bool = False
    mtime_ms: int | None = None
    fault: str = ""

    @property
    def is_foreign(self) -> bool:
        """True for a directory in a log dir that is no partition's, and that can be listed."""
        return self.name is None and not self.fault

    @property
    def oldest_ms(self) -> int | None:
        """When the oldest of its files was written last: the directory was there by then. None if no time is known."""
        return min((f.mtime_ms for f in self.files), default=self.mtime_ms)

    @property
    def log_bytes(self) -> int:
        """Bytes of all files that take room on the disk."""
        return sum(file.held_bytes for file in self.files)

    def listed(self, reader: FileReader) -> "PartitionFiles":
        """List the directory again: with the files that it has now."""
        if self.is_foreign:
            return self
        try:
            return self.with_files(reader.listing(self.path))
        except OSError as error:
            return replace(self, fault=f"cannot be listed: {error.strerror}")

    def with_files(self, entries: Iterable[SeenFile]) -> "PartitionFiles":
        """With the files among the entries of the directory."""
        return replace(self, files=tuple(sorted((f for f in entries if not f.is_dir), key=lambda f: f.name)))


def partitions_below(root: str, reader: FileReader) -> Iterator[PartitionFiles]:
    """The directories of partitions below a folder, or the folder itself where it is one, in the order of paths.

    A folder below that cannot be listed comes with its fault; `OSError` where the root cannot. What lies in a log dir
    and is no partition's comes without a name, as foreign: names of bytes that are not UTF-8 are never partitions'.
    """
    name = partition_name(root.rstrip("/").rpartition("/")[2])
    entries = reader.listing(root)
    if name is not None and any(segment_file_name(entry.name) for entry in entries):
        parent = root.rstrip("/").rpartition("/")[0] or "/"
        yield _facts_of(parent, reader).directory(root.rstrip("/"), name).with_files(entries)
        return
    yield from _partitions_below(root.rstrip("/") or "/", entries, reader)


def _partitions_below(folder: str, entries: Sequence[SeenFile], reader: FileReader) -> Iterator[PartitionFiles]:
    facts = _facts_of(folder, reader)
    listed = [(entry, _list_folder(f"{folder}/{entry.name}", reader)) for entry in _directories(entries)]
    is_log_dir = any(entry.name == META_PROPERTIES for entry in entries)
    has_partitions = is_log_dir or any(_partition_of(entry.name, files) for entry, files in listed)
    for entry, files in listed:
        path, name = f"{folder}/{entry.name}", _partition_of(entry.name, files)
        found = replace(facts.directory(path, name), mtime_ms=entry.mtime_ms)
        if isinstance(files, OSError):
            yield replace(found, fault=f"cannot be listed: {files.strerror}")
        elif name is not None:
            yield found.with_files(files)
        else:
            below = list(_partitions_below(path, files, reader))
            is_foreign = has_partitions and entry.name not in _OF_KAFKA
            if is_foreign and not any(_is_of_broker(part) if is_log_dir else part for part in below):
                yield found.with_files(_all_files(path, files, reader))
            else:
                yield from below


def _is_of_broker(part: PartitionFiles) -> bool:
    """True for what lies in a log dir that names its broker."""
    return part.broker is not None


def _directories(entries: Iterable[SeenFile]) -> list[SeenFile]:
    return sorted((entry for entry in entries if entry.is_dir), key=lambda entry: entry.name)


def _list_folder(path: str, reader: FileReader) -> Sequence[SeenFile] | OSError:
    try:
        return reader.listing(path)
    except OSError as error:
        return error


def _partition_of(name: str, files: Sequence[SeenFile] | OSError) -> "PartitionName | None":
    """The partition of a directory; None where it holds further ones, as a folder `broker-1` of log dirs does."""
    entries = () if isinstance(files, OSError) else files
    has_more = any(entry.is_dir or entry.name == META_PROPERTIES for entry in entries)
    return None if has_more and not any(segment_file_name(entry.name) for entry in entries) else partition_name(name)


def _all_files(path: str, entries: Iterable[SeenFile], reader: FileReader) -> list[SeenFile]:
    """The files of a directory and of all below it, by their paths from there."""
    found: list[SeenFile] = []
    for entry in entries:
        files = _list_folder(f"{path}/{entry.name}", reader) if entry.is_dir else ()
        if not entry.is_dir:
            found.append(entry)
        elif not isinstance(files, OSError):
            below = _all_files(f"{path}/{entry.name}", files, reader)
            found += [replace(file, name=f"{entry.name}/{file.name}") for file in below]
    return found


Checkpoint = Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class _LogDir:
    path: str
    broker: int | None
    cluster: str | None
    log_starts: Checkpoint
    recovery_points: Checkpoint
    cleaned: Checkpoint | None
    is_in_use: bool

    def directory(self, path: str, name: PartitionName | None) -> PartitionFiles:
        key = (name.topic, name.partition) if name is not None else ("", -1)
        return PartitionFiles(
            log_dir=self.path, path=path, name=name, broker=self.broker, cluster=self.cluster,
            log_start=self.log_starts.get(key), recovery_point=self.recovery_points.get(key),
            # A log that the cleaner has not touched yet has no entry.
            cleaned_to=None if self.cleaned is None or name is None else self.cleaned.get(key, 0),
            is_in_use=self.is_in_use,
        )  # fmt: skip


def _facts_of(path: str, reader: FileReader) -> _LogDir:
    found: dict[str, bytes] = {}
    for name in (META_PROPERTIES, LOG_STARTS, RECOVERY_POINTS, CLEANED, LOCK):
        with suppress(OSError):  # a copied tree may have the partitions alone
            found[name] = reader.content(f"{path}/{name}")
    meta: Mapping[str, str] = properties(found.get(META_PROPERTIES, b""))
    starts, points = (offset_checkpoint(found.get(name, b"")) for name in (LOG_STARTS, RECOVERY_POINTS))
    # The cleaner makes its checkpoint when it has compacted a first log.
    cleaned = offset_checkpoint(found.get(CLEANED, b"")) if found.keys() & {CLEANED, META_PROPERTIES} else None
    return _LogDir(path, broker_id(meta), meta.get("cluster.id"), starts, points, cleaned, LOCK in found)


_PARTITION = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,9})")
_RENAMED = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,9})\.[0-9a-zA-Z_-]{1,36}-(delete|future|stray)")
_SEGMENT_FILE = re.compile(r"(\d{20})\.(log|index|timeindex|txnindex|snapshot)(?:\.(deleted|swap|cleaned))?")
_OTHERS = re.compile(
    r"leader-epoch-checkpoint|partition\.metadata|quorum-state|\.kafka_cleanshutdown|\d{20}-\d{10}\.checkpoint"
    r"|\d{20}-[0-9a-zA-Z_-]+\.(?:deleted|snapshot|checkpoint)(?:\.deleted)?"
)
_TOPIC_ID = re.compile(rb"^topic_id:\s*([A-Za-z0-9_-]{22})\s*$", re.MULTILINE)
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
LOCK = ".lock"
_OF_KAFKA = frozenset({"remote-log-index-cache"})
"""Directories in a log dir that are Kafka's and no partition's."""


def partition_name(name: str) -> PartitionName | None:
    """What a directory's name says; None for one that is no partition's."""
    found = _RENAMED.fullmatch(name)
    if found is not None:
        return PartitionName(found[1], int(found[2]), DirState(found[3]))
    found = _PARTITION.fullmatch(name)
    return PartitionName(found[1], int(found[2])) if found is not None else None


@dataclass(frozen=True, slots=True)
class SegmentFileName:
    """A file of a segment: its kind is the extension, `mark` is `deleted`, `swap`, `cleaned` or empty."""

    base_offset: int
    kind: str
    mark: str = ""


def segment_file_name(name: str) -> SegmentFileName | None:
    """What a file's name in a partition's directory says; None for one that is of no segment."""
    found = _SEGMENT_FILE.fullmatch(name)
    if found is None or int(found[1]) >= 1 << 63:
        return None
    return SegmentFileName(int(found[1]), found[2], found[3] or "")


def is_foreign(name: str) -> bool:
    """True for a file that Kafka does not put into a partition's directory."""
    return segment_file_name(name) is None and _OTHERS.fullmatch(name.removesuffix(".tmp")) is None


def _lines(data: bytes) -> Iterator[list[str]]:
    """The fields of each entry; ends at the first line that is damaged."""
    lines = data.decode("utf-8", "replace").splitlines()
    if len(lines) < 2 or lines[0].strip() != "0" or not lines[1].strip().isdecimal():
        return
    for line in lines[2 : 2 + int(lines[1])]:
        yield line.split()


def offset_checkpoint(data: bytes) -> Checkpoint:
    """The offsets of `recovery-point-offset-checkpoint` and its like, by topic and partition; without damaged lines."""
    found = {}
    for fields in _lines(data):
        if len(fields) == 3 and fields[1].isdecimal() and fields[2].isdecimal():
            found[fields[0], int(fields[1])] = int(fields[2])
    return found


def leader_epochs(data: bytes) -> tuple[tuple[int, int], ...]:
    """The (epoch, start offset) entries of a `leader-epoch-checkpoint`, oldest first; empty for a damaged file."""
    entries = [tuple(map(int, f)) for f in _lines(data) if len(f) == 2 and f[0].isdecimal() and f[1].isdecimal()]
    found = tuple((epoch, start) for epoch, start in entries)
    return found if found == tuple(sorted(found)) else ()


def properties(data: bytes) -> Mapping[str, str]:
    """The entries of `meta.properties`; of an older version the id of the broker is `broker.id`."""
    pairs = (
        line.split("=", 1) for line in data.decode("utf-8", "replace").splitlines() if not line.lstrip().startswith("#")
    )
    return {pair[0].strip(): pair[1].strip() for pair in pairs if len(pair) == 2}


def topic_id(data: bytes) -> str | None:
    """The id of the topic in `partition.metadata`, as a UUID; None if there is none that can be read."""
    found = _TOPIC_ID.search(data)
    number = b64decode(found[1] + b"==", b"-_") if found is not None else b""
    return "-".join(number[a:b].hex() for a, b in ((0, 4), (4, 6), (6, 8), (8, 10), (10, 16))) if any(number) else None


def readable_name(path: str) -> str:
    """A path as text that can be stored and printed: bytes that are not UTF-8 become `\\xff`."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def broker_id(found: Mapping[str, str]) -> int | None:
    """The id that `meta.properties` gives to its broker."""
    text = found.get("node.id", found.get("broker.id", ""))
    return int(text) if text.isdecimal() else None
