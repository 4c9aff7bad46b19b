"""Reads the log dirs of brokers on this host, or copies of them: directories, mapped logs, small files."""

import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kafkakit.streams.model.log_dirs import FileReader, SeenFile, content_before_zeros, seen_files


def _listing(path: str) -> Sequence[SeenFile]:
    with os.scandir(path) as entries:
        return seen_files(entries)


@contextmanager
def _mapped(path: str, size: int, may_shrink: bool) -> Iterator[memoryview]:
    """The first bytes of a file, fewer where it has become shorter."""
    with Path(path).open("rb") as stream:
        size = min(size, os.fstat(stream.fileno()).st_size)
        if not size:
            yield memoryview(b"")
        elif may_shrink:
            yield memoryview(stream.read(size))
        else:
            with mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ) as mapped, memoryview(mapped) as buffer:
                yield buffer


def _content(path: str) -> bytes:
    with Path(path).open("rb") as stream:
        return content_before_zeros(stream)


LOCAL_FILES = FileReader(_listing, _mapped, _content)
"""The files of this host."""
