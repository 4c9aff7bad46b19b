"""Finding the files to lint: paths as given, folders walked in a fixed order, without loops and without end."""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kafkakit.core.errors import UsageError
from kafkakit.lint.decide.documents.formats import SUFFIXES, suffix_of

STDIN = "-"
MAX_FILES = 100_000
MAX_DEPTH = 64
SKIPPED_FOLDERS = frozenset({"node_modules", "__pycache__", "venv", "target", "site-packages"})


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to lint; `is_named` is True where it was given by its own name. `problem` is why it cannot be read."""

    path: str
    is_named: bool
    problem: str | None = None


@dataclass(slots=True)
class _Walk:
    folders: set[tuple[int, int]] = field(default_factory=set)
    files: set[tuple[int, int]] = field(default_factory=set)
    found: int = 0


def find_files(paths: Sequence[str]) -> tuple[FoundFile, ...]:
    """The files below some paths, each once: named ones as they are, in folders those with a known suffix.

    Hidden files and folders are skipped, a folder that several links lead to is walked once. Raises `UsageError` for a
    path that does not exist, too many files and folders too deep.
    """
    walk = _Walk()
    found: dict[str, FoundFile] = {}
    for path in paths:
        for file in _below(path, walk):
            known = found.get(file.path)
            if known is None or (file.is_named and not known.is_named):
                found[file.path] = file
    return tuple(found.values())


def _below(path: str, walk: _Walk) -> Iterator[FoundFile]:
    if path == STDIN:
        yield FoundFile(STDIN, is_named=True)
        return
    try:
        status = os.stat(path)
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file or folder") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path!r:.300}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    clean = os.path.normpath(path)
    if not stat.S_ISDIR(status.st_mode):
        yield FoundFile(clean, is_named=True)
        return
    walk.folders.add((status.st_dev, status.st_ino))
    yield from _in_folder("" if clean == "." else clean, walk, 1)


def _in_folder(folder: str, walk: _Walk, depth: int) -> Iterator[FoundFile]:
    if depth > MAX_DEPTH:
        raise UsageError(f"{folder:.300}: folders are nested deeper than {MAX_DEPTH} levels")
    try:
        with os.scandir(folder or ".") as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        yield FoundFile(folder or ".", is_named=False, problem=f"cannot be listed: {error.strerror}")
        return
    for entry in listed:
        if entry.name.startswith("."):
            continue
        path = os.path.join(folder, entry.name)
        try:
            status = entry.stat()
        except OSError:
            continue  # a link that leads nowhere
        identity = (status.st_dev, status.st_ino)
        if stat.S_ISDIR(status.st_mode):
            if entry.name not in SKIPPED_FOLDERS and identity not in walk.folders:
                walk.folders.add(identity)
                yield from _in_folder(path, walk, depth + 1)
        elif stat.S_ISREG(status.st_mode) and suffix_of(entry.name) in SUFFIXES and identity not in walk.files:
            if status.st_nlink > 1 or entry.is_symlink():
                walk.files.add(identity)
            walk.found += 1
            if walk.found > MAX_FILES:
                raise UsageError(f"more than {MAX_FILES:,} files to lint", hint="name the folders that hold the files")
            yield FoundFile(path, is_named=False)
