"""Which format a text is in, by the name of its file, else by its first lines; and reading it."""

import re

from kafkakit.config.client_properties import locate_properties
from kafkakit.lint.decide.documents.json_text import read_json
from kafkakit.lint.decide.documents.tree import (
    MAX_LINES,
    UNPARSABLE,
    CommentAt,
    Document,
    Entry,
    Mapping,
    Problem,
    Scalar,
    duplicate_key,
)
from kafkakit.lint.decide.documents.yaml_text import read_yaml


def read_properties(path: str, text: str) -> Document:
    """Read a properties text; bad escapes are problems with their places, never exceptions."""
    located = locate_properties(text)
    root = Mapping({}, located.entries[0].name_at.start if located.entries else 0)
    problems = []
    for entry in located.entries:
        key = Scalar(entry.name, *entry.name_at)
        value = Scalar(entry.value, *entry.value_at, False)
        if entry.problem is not None:
            problems.append(Problem(UNPARSABLE, f"not a valid property: {entry.problem}", key.start, key.text))
        before = root.entries.get(entry.name)
        if before is not None:
            problems.append(duplicate_key(key, before.value, value))
        root.entries[entry.name] = Entry(key, value)
    comments = tuple(CommentAt(*comment) for comment in located.comments)
    return Document(path, text, "properties", (root,), tuple(problems), comments)


SUFFIXES = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".properties": "properties"}
MAX_PROPERTIES_LINES = 200_000
MAX_PROPERTIES_CHARACTERS = 8 * 2**20
LIMIT_BYTES = 64 * 2**20
"""The largest file that is read as a located tree."""
SNAPSHOT_LIMIT_BYTES = 512 * 2**20
"""The largest snapshot, which is decoded in one pass."""

_ASSIGNMENT = re.compile(r"[A-Za-z][\w.-]*[ \t]*=")
_FIRST_LINE = re.compile(r"^[ \t]*([^\s#!].*)$", re.MULTILINE)


def suffix_of(path: str) -> str:
    """The end of a file's name from its last point on, in lower case."""
    name = path.replace("\\", "/").rpartition("/")[2]
    _, point, suffix = name.rpartition(".")
    return (point + suffix).lower()


def read_document(path: str, text: str, formats: tuple[str, ...] = ()) -> Document:
    """Read a text as a located tree; never raises.

    Args:
        path: Names the file in places; its suffix tells the format.
        text: The content, decoded; a byte order mark is skipped by the one who decodes.
        formats: The formats that it may have where the kind of file is known, the likeliest first.
    """
    form = _format(path, text, formats)
    refused = _refused(text, form)
    if refused is not None:
        return Document(path, text, form, problems=(refused,))
    match form:
        case "json":
            return read_json(path, text)
        case "properties":
            return read_properties(path, text)
    return read_yaml(path, text)


def _refused(text: str, form: str) -> Problem | None:
    """Why a text is not read at all."""
    zero = text.find("\x00")
    if zero >= 0:
        return Problem(UNPARSABLE, "a zero byte: this is no text file", zero)
    conflict = text.find("<<<<<<< ")
    if conflict >= 0 and text[conflict - 1 : conflict] in ("", "\n") and "\n>>>>>>> " in text:
        return Problem(UNPARSABLE, "a merge conflict is not resolved: nothing of the file was checked", conflict)
    if len(text) > LIMIT_BYTES:
        return Problem(UNPARSABLE, f"is larger than {LIMIT_BYTES:,} bytes", 0)
    if form == "properties" and len(text) > MAX_PROPERTIES_CHARACTERS:
        return Problem(UNPARSABLE, f"more than {MAX_PROPERTIES_CHARACTERS:,} characters of properties", 0)
    most = MAX_PROPERTIES_LINES if form == "properties" else MAX_LINES
    if len(text) > most and _lines(text) > most:
        return Problem(UNPARSABLE, f"more than {most:,} lines", 0)
    return None


def _lines(text: str) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n")


def _format(path: str, text: str, formats: tuple[str, ...]) -> str:
    by_name = SUFFIXES.get(suffix_of(path))
    if by_name is not None and (not formats or by_name in formats):
        return by_name
    by_content = _format_of_content(text)
    return by_content if not formats or by_content in formats else formats[0]


def _format_of_content(text: str) -> str:
    found = _FIRST_LINE.search(text)
    first = found.group(1) if found else ""
    if first[:1] in ("{", "["):
        return "json"
    return "properties" if _ASSIGNMENT.match(first) else "yaml"
