"""Taking a selector out of the comment that suppresses it."""

import re

from kafkakit.lint.decide.documents.tree import Document

_SUPPRESSION = re.compile(r"#\s*kafkakit:\s*(?:file-ignore|ignore)\s*\[([^\]]*)\][^#\r\n]*")


def without_selector(document: Document, offset: int, selector: str) -> tuple[int, int, str] | None:
    """The range of the text to replace, and by what; the comment goes with its last selector.

    None where no comment begins at the offset, or it holds something else too.
    """
    at = next((c for c in document.comments_at if c.start == offset), None)
    found = _SUPPRESSION.fullmatch(document.text, at.start, at.end) if at is not None else None
    if at is None or found is None:
        return None
    kept = [name for part in found[1].split(",") if (name := part.strip()) and name != selector]
    if kept:
        return found.start(1), found.end(1), ", ".join(kept)
    text = document.text
    line = document.place(at.start).line
    start = document.offset(line)
    if text[start : at.start].strip():
        return len(text[: at.start].rstrip(" \t")), at.end, ""
    is_last = line == len(document.line_starts)
    return start, len(text) if is_last else document.offset(line + 1), ""
