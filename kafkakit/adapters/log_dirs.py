"""Reads the log dirs of brokers on this host, or copies of them: directories, mapped logs, small files."""

import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kafkakit.streams.formats.segment_files.log_tree import FileReader, SeenFile

_PIECE_BYTES = 1 << 16


def _listing(path: str) -> Sequence[SeenFile]:
    found = []
    with os.scandir(path) as entries:
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            is_dir = entry.is_dir(follow_symlinks=False)
            times = (status.st_mtime_ns // 1_000_000, status.st_ctime_ns // 1_000_000)
            found.append(SeenFile(entry.name, status.st_size, times[0], is_dir, times[1]))
    return found


@contextmanager
def _mapped(path: str, size: int) -> Iterator[memoryview]:
    """The first bytes of a file, fewer where it has become shorter."""
    with Path(path).open("rb") as stream:
        size = min(size, os.fstat(stream.fileno()).st_size)
        if not size:
            yield memoryview(b"")
            return
        with mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as buffer:
            yield buffer


def _content(path: str) -> bytes:
    """A file up to its first 64 KiB of zeros: active indexes are 10 MiB of them."""
    found = []
    with Path(path).open("rb") as stream:
        while (piece := stream.read(_PIECE_BYTES)) and piece.count(0) < len(piece):
            found.append(piece)
    return b"".join(found)


LOCAL_FILES = FileReader(_listing, _mapped, _content)
"""The files of this host."""
