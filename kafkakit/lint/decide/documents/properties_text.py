"""Java properties as located trees: one mapping of the entries."""

from kafkakit.config.java_properties import locate_properties
from kafkakit.lint.decide.documents.tree import (
    UNPARSABLE,
    CommentAt,
    Document,
    Entry,
    Mapping,
    Problem,
    Scalar,
    duplicate_key,
)


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
