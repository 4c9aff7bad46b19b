"""Reading the files to lint, with limits: what cannot be read is a finding of its file."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from kafkakit.core.errors import InputError
from kafkakit.lint.act.find_files import STDIN, FoundFile, find_files
from kafkakit.lint.decide.documents.formats import LIMIT_BYTES, SNAPSHOT_LIMIT_BYTES, suffix_of
from kafkakit.lint.decide.kinds.registry import FileReading, kind_named, looks_known, read_text, unreadable

ReadInput = Callable[[Path, int], bytes]


def read_files(
    paths: Sequence[str], kind: str | None, stdin_filename: str, read_input: ReadInput
) -> tuple[FileReading, ...]:
    """Find and read all files; those of folders that are no concern of lint are left out.

    Args:
        paths: Files, folders, and `-` for stdin.
        kind: The kind that every file must be read as, None to detect it.
        stdin_filename: The name that findings in stdin get, and that tells its format and kind.
        read_input: Reads a file with a limit in bytes.

    Raises `UsageError` for a path or a kind that does not exist.
    """
    if kind is not None:
        kind_named(kind)
    return tuple(_readings(find_files(paths), kind, stdin_filename, read_input))


def _readings(
    files: Sequence[FoundFile], kind: str | None, stdin_filename: str, read_input: ReadInput
) -> Iterator[FileReading]:
    for file in files:
        name = stdin_filename if file.path == STDIN else file.path.replace("\\", "/")
        reading = _read(file, name, kind, read_input)
        if reading is not None and (file.is_named or reading.kinds or reading.pieces.problems):
            yield reading


def _read(file: FoundFile, name: str, kind: str | None, read_input: ReadInput) -> FileReading | None:
    """The reading of a file; None for one of a folder that is plainly no concern of lint."""
    if file.problem is not None:
        return unreadable(name, file.problem)
    is_json = suffix_of(name) == ".json"
    try:
        data = read_input(Path(file.path), SNAPSHOT_LIMIT_BYTES if file.is_named and is_json else LIMIT_BYTES)
    except InputError as error:
        # Large JSON files of folders are the data of other tools.
        return None if is_json and not file.is_named and not looks_known(name, "") else unreadable(name, error.problem)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if not file.is_named and not looks_known(name, data.decode("utf-8", "replace")):
            return None
        before = error.object[: error.start].decode("utf-8", "replace")
        byte = len(data) - len(error.object) + error.start
        what = "a zero byte: this is no text file" if "\x00" in before else f"not valid UTF-8 text (byte {byte})"
        return unreadable(name, what, before)
    return read_text(name, text, kind, is_named=file.is_named)
