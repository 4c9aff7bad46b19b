"""The directories of partitions below a folder: log dirs of brokers, and trees that were copied from them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

from kafkakit.streams.formats.segment_files.checkpoints import Checkpoint, broker_id, offset_checkpoint, properties
from kafkakit.streams.formats.segment_files.names import (
    LOCK,
    LOG_STARTS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    PartitionName,
    partition_name,
    segment_file_name,
)

_PIECE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class SeenFile:
    """An entry of a directory, as it was listed; `changed_ms` is when it was last written or renamed."""

    name: str
    size_bytes: int
    mtime_ms: int
    is_dir: bool = False
    changed_ms: int = 0


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
        found.append(SeenFile(entry.name, status.st_size, times[0], is_dir, times[1]))
    return found


def content_before_zeros(stream: BinaryIO) -> bytes:
    """A file up to its first 64 KiB of zeros: active indexes are 10 MiB of them."""
    found = []
    while (piece := stream.read(_PIECE_BYTES)) and piece.count(0) < len(piece):
        found.append(piece)
    return b"".join(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFiles:
    """A directory of a partition: where it lies, whose it is, and its files, by name.

    `log_start` and `recovery_point` are those of the log dir's checkpoints, `broker` and `cluster` those of its
    `meta.properties`. `fault` says why a directory cannot be listed; `name` is None for one that is no partition's.
    `is_in_use` is True in a log dir that a broker has locked, and not in a copy of one.
    """

    log_dir: str
    path: str
    name: PartitionName | None
    files: Sequence[SeenFile] = ()
    broker: int | None = None
    cluster: str | None = None
    log_start: int | None = None
    recovery_point: int | None = None
    is_in_use: bool = False
    fault: str = ""

    @property
    def log_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size_bytes for file in self.files)

    def listed(self, reader: FileReader) -> "PartitionFiles":
        """List the directory again: with the files that it has now."""
        try:
            files = sorted((f for f in reader.listing(self.path) if not f.is_dir), key=lambda f: f.name)
        except OSError as error:
            return replace(self, fault=f"cannot be listed: {error.strerror}")
        return replace(self, files=tuple(files))


def partitions_below(root: str, reader: FileReader) -> Iterator[PartitionFiles]:
    """The directories of partitions below a folder, or the folder itself where it is one, in the order of paths.

    A folder below that cannot be listed comes with its fault; `OSError` where the root cannot.
    """
    name = partition_name(root.rstrip("/").rpartition("/")[2])
    entries = reader.listing(root)
    if name is not None and any(segment_file_name(entry.name) for entry in entries):
        parent = root.rstrip("/").rpartition("/")[0] or "/"
        yield _facts_of(parent, reader).partition(root.rstrip("/"), name).listed(reader)
        return
    yield from _below(root.rstrip("/") or "/", entries, reader)


def _below(folder: str, entries: Sequence[SeenFile], reader: FileReader) -> Iterator[PartitionFiles]:
    facts: _LogDir | None = None
    for entry in sorted((e for e in entries if e.is_dir), key=lambda e: e.name):
        path, name = f"{folder}/{entry.name}", partition_name(entry.name)
        if name is not None:
            facts = facts or _facts_of(folder, reader)
            yield facts.partition(path, name).listed(reader)
            continue
        try:
            below = reader.listing(path)
        except OSError as error:
            yield PartitionFiles(log_dir=folder, path=path, name=None, fault=f"cannot be listed: {error.strerror}")
            continue
        yield from _below(path, below, reader)


@dataclass(frozen=True, slots=True)
class _LogDir:
    path: str
    broker: int | None
    cluster: str | None
    log_starts: Checkpoint
    recovery_points: Checkpoint
    is_in_use: bool

    def partition(self, path: str, name: PartitionName) -> PartitionFiles:
        key = (name.topic, name.partition)
        return PartitionFiles(
            log_dir=self.path, path=path, name=name, broker=self.broker, cluster=self.cluster,
            log_start=self.log_starts.get(key), recovery_point=self.recovery_points.get(key),
            is_in_use=self.is_in_use,
        )  # fmt: skip


def _facts_of(path: str, reader: FileReader) -> _LogDir:
    found: dict[str, bytes] = {}
    for name in (META_PROPERTIES, LOG_STARTS, RECOVERY_POINTS, LOCK):
        with suppress(OSError):  # a copied tree may have the partitions alone
            found[name] = reader.content(f"{path}/{name}")
    meta: Mapping[str, str] = properties(found.get(META_PROPERTIES, b""))
    starts, points = (offset_checkpoint(found.get(name, b"")) for name in (LOG_STARTS, RECOVERY_POINTS))
    return _LogDir(path, broker_id(meta), meta.get("cluster.id"), starts, points, LOCK in found)
