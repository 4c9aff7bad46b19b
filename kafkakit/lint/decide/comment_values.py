"""Comments that say another time or size than the value beside them (KKV014)."""

import re
from collections.abc import Iterable, Iterator

from kafkakit.core.quantities import format_bytes, format_span
from kafkakit.lint.decide.documents.tree import Comment, Document, Entry, Node, Scalar, Sequence
from kafkakit.lint.decide.pieces import FileProblem
from kafkakit.rules.effective import to_int

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


RULE = "KKV014"
TOLERANCE = 0.01

_MS = {"ms": 1, "millis": 1, "s": 1_000, "sec": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "hr": 3_600_000,
       "hrs": 3_600_000, "d": 86_400_000, "w": 604_800_000}  # fmt: skip
_LONG_MS = {"millisecond": 1, "second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000,
            "week": 604_800_000, "year": 31_536_000_000}  # fmt: skip
_MS |= {word + end: ms for word, ms in _LONG_MS.items() for end in ("", "s")}
_MS |= {"secs": 1_000, "mins": 60_000}
_POWERS = {"b": 0, "byte": 0, "bytes": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
_QUANTITY = re.compile(r"(?<![\w.,])(\d+(?:[.,]\d+)?)\s*([A-Za-z]+)\b")
# What a key's last word makes of its number, in milliseconds.
_KEY_MS = {".ms": 1, ".minutes": 60_000, ".hours": 3_600_000, ".seconds": 1_000}


def comment_problems(document: Document) -> Iterator[FileProblem]:
    """The comments at the end of a line that name one time or size, and not that of the key on the line.

    Linear in the file's entries; nothing is compared where a comment holds no quantity, or more than one.
    """
    trailing = {comment.line: comment for comment in document.comments if not comment.own_line}
    if not trailing:
        return
    for entry in _entries(document.roots):
        key = entry.key.text
        if not key.endswith((*_KEY_MS, ".bytes")) or not isinstance(entry.value, Scalar):
            continue
        place = document.place(entry.key.start)
        comment, number = trailing.get(place.line), to_int(entry.value.text)
        if comment is None or number is None or number < 0:
            continue
        said = _said(key, comment)
        if said and not any(_is_near(number, value) for value in said):
            yield FileProblem(
                rule=RULE,
                message=f"the comment says {comment.text.lstrip('# ').strip()!r:.60}, but {key} is {number}, "
                f"which is {_shown(key, number)}",
                place=place,
                key=key,
            )


def _entries(nodes: Iterable[Node]) -> Iterator[Entry]:
    """All entries of some trees; nodes that aliases share are visited once."""
    waiting, seen = list(nodes), set[int]()
    while waiting:
        node = waiting.pop()
        if isinstance(node, Scalar) or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Sequence):
            waiting.extend(node.items)
            continue
        yield from node.entries.values()
        waiting.extend(entry.value for entry in node.entries.values())


def _said(key: str, comment: Comment) -> tuple[float, ...]:
    """What the comment's one quantity may mean in the key's unit; none when it has none, or several."""
    is_size = key.endswith(".bytes")
    readings = [_size(*found) if is_size else _time(key, *found) for found in _QUANTITY.findall(comment.text)]
    known = [reading for reading in readings if reading]
    return known[0] if len(known) == 1 else ()


def _time(key: str, number: str, unit: str) -> tuple[float, ...]:
    ms = _unit(_MS, unit)
    factor = next(ms_ for end, ms_ in _KEY_MS.items() if key.endswith(end))
    return () if ms is None else (float(number.replace(",", ".")) * ms / factor,)


def _size(number: str, unit: str) -> tuple[float, ...]:
    power = _POWERS.get(unit.lower())
    if power is None:
        stem = unit.lower().removesuffix("b").removesuffix("i")
        power = _POWERS.get(stem) if len(stem) == 1 else None
    if power is None:
        return ()
    amount = float(number.replace(",", "."))
    return (amount * 1000**power, amount * 1024**power)


def _unit(units: dict[str, int], unit: str) -> int | None:
    return units.get(unit if len(unit) == 1 else unit.lower())


def _is_near(number: int, said: float) -> bool:
    return abs(number - said) <= TOLERANCE * max(abs(said), 1)


def _shown(key: str, number: int) -> str:
    if key.endswith(".bytes"):
        return format_bytes(number)
    factor = next(ms for end, ms in _KEY_MS.items() if key.endswith(end))
    return format_span(number * factor / 1000)
