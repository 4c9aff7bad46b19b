"""Which format a text is written in, and reading it: by the name of its file, else by its first lines."""

import re

from kafkakit.lint.decide.documents.json_text import read_json
from kafkakit.lint.decide.documents.properties_text import read_properties
from kafkakit.lint.decide.documents.tree import UNPARSABLE, Document, Problem
from kafkakit.lint.decide.documents.yaml_text import read_yaml

SUFFIXES = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".properties": "properties"}
LIMIT_BYTES = 64 * 2**20
"""The largest file that is read."""

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
    zero = text.find("\x00")
    if zero >= 0:
        return Document(path, text, "yaml", problems=(Problem(UNPARSABLE, "a zero byte: this is no text file", zero),))
    match _format(path, text, formats):
        case "json":
            return read_json(path, text)
        case "properties":
            return read_properties(path, text)
    return read_yaml(path, text)


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
