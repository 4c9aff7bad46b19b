"""The lines of every journal: one JSON object each, chained by SHA-256, written before and after each effect.

A line holds `seq`, `time`, `prev` (hash of the line before), `kind`, `what`, `of` (the intent an effect answers) and
`data`. Nothing in it is secret. The tool that writes a journal defines its words and what they mean (`fold`);
`execution/act/journal_files.py` writes the file.

The answer that approves a plan is also defined here: a line `approved SHA256`, with who approved it behind it if that
is wanted.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar, cast
from zlib import crc32

import msgspec

from kafkakit.core.errors import InputError, RefusedError

_CRC = b',"crc":"'
FIRST_PREV = hashlib.sha256(b"").hexdigest()

W = TypeVar("W", bound=StrEnum)
S = TypeVar("S")


class RecordKind(StrEnum):
    """`intent` is written before an effect, `effect` after it, `check` tells what was found."""

    INTENT = "intent"
    EFFECT = "effect"
    CHECK = "check"


@dataclass(frozen=True, kw_only=True)  # no slots: with them, Line[What](...) raises in Python 3.11
class Line(Generic[W]):
    """One journal line; `prev` is the hash of the line before it."""

    seq: int
    time: datetime
    prev: str
    kind: RecordKind
    what: W
    of: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)


def line_data(value: object) -> dict[str, Any]:
    """A value as the data of a line."""
    found: dict[str, Any] = msgspec.to_builtins(value, str_keys=True)
    return found


def read_data(data: object, shape: Any) -> Any:
    """The value of type `shape` in a line's data; `ValueError` for what is none."""
    try:
        return msgspec.convert(data, shape, str_keys=True)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinesText(Generic[W]):
    """A decoded journal: its lines, the hash to chain on, how many bytes of the file are whole lines, its damage."""

    records: tuple[Line[W], ...] = ()
    last_hash: str = FIRST_PREV
    whole_bytes: int = 0
    damage: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grammar(Generic[W]):
    """What one kind of journal is made of: the first line's header, its words, and what helps when it is damaged.

    Of a `salvaged` journal the sound beginning is used, and each line has a checksum, so that damage to the last one
    shows; any other damaged journal is refused.
    """

    header: Mapping[str, object]
    words: type[W]
    damaged_hint: str
    salvaged: bool = False


def encode_line(line: Line[W], grammar: Grammar[W]) -> bytes:
    """One line of ASCII with a final newline; a NUL in a string is escaped and comes back as it was."""
    body: dict[str, Any] = {"kafkakit": dict(grammar.header)} if line.seq == 0 else {}
    body |= {
        "seq": line.seq,
        "time": line.time.isoformat(),
        "prev": line.prev,
        "kind": line.kind.value,
        "what": line.what.value,
    }
    if line.of is not None:
        body["of"] = line.of
    body["data"] = dict(line.data)
    text = json.dumps(body, separators=(",", ":"), sort_keys=False).encode()
    if not grammar.salvaged:
        return text + b"\n"
    text = text[:-1]
    return text + _CRC + f'{crc32(text):08x}"}}\n'.encode()


def line_hash(line: bytes) -> str:
    """The hash that the next line carries as `prev`: SHA-256 of the line without its newline, hex."""
    return hashlib.sha256(line.rstrip(b"\n")).hexdigest()


def decode_lines(data: bytes, source: str, grammar: Grammar[W]) -> LinesText[W]:
    """Read a journal; a torn last line (crash while writing) is left out, any other damage is refused.

    A torn line is harmless: an intent is on disk as a whole before its effect is made. Raises `InputError`.
    """
    records: list[Line[W]] = []
    prev, whole = FIRST_PREV, 0
    lines = data.split(b"\n")
    for number, text in enumerate(lines[:-1]):  # what follows the last newline is torn or empty
        try:
            line = _decode(text, grammar)
        except (ValueError, KeyError, TypeError, RecursionError):
            if number == len(lines) - 2 and not lines[-1]:
                break
            raise InputError(source, f"journal line {number + 1} cannot be read", hint=grammar.damaged_hint) from None
        if line.seq != number or line.prev != prev:
            raise InputError(
                source, f"journal line {number + 1} does not continue the line before it", hint=grammar.damaged_hint
            )
        records.append(line)
        prev, whole = line_hash(text), whole + len(text) + 1
    return LinesText(records=tuple(records), last_hash=prev, whole_bytes=whole)


def replay_lines(
    lines: Iterable[Line[W]], source: str, start: S, fold: Callable[[S, Line[W]], S], hint: str | None = None
) -> S:
    """The state that the lines lead to, folded one by one; raises `InputError` for a line without its fields."""
    state = start
    for line in lines:
        try:
            state = fold(state, line)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            problem = f"journal line {line.seq + 1} is invalid: a field of its kind is missing or wrong"
            raise InputError(source, problem, hint=hint) from None
    return state


def read_lines(
    data: bytes, source: str, start: S, fold: Callable[[S, Line[W]], S], grammar: Grammar[W]
) -> tuple[LinesText[W], S]:
    """Decode a journal and fold it; of a damaged one that is `salvaged` the sound beginning, see `LinesText.damage`.

    A line whose hash is not what the next line carries is left out, too. Raises `InputError`. O(lines), of a damaged
    journal O(lines log lines).
    """

    def read(part: bytes) -> tuple[LinesText[W], S]:
        text = decode_lines(part, source, grammar)
        return text, replay_lines(text.records, source, start, fold, grammar.damaged_hint)

    try:
        text, state = read(data)
        if not grammar.salvaged or text.whole_bytes == len(data) or not data.endswith(b"\n"):
            return text, state
        # A crash while writing leaves no newline behind: a last line with one was whole, and is damaged.
        return replace(text, damage=f"{source}: journal line {len(text.records) + 1} cannot be read"), state
    except InputError as error:
        if not grammar.salvaged:
            raise
        damage = error.message
    lines = data.splitlines(keepends=True)
    sound, broken = 0, len(lines)
    while broken - sound > 1:
        middle = (sound + broken) // 2
        try:
            read(b"".join(lines[:middle]))
            sound = middle
        except InputError:
            broken = middle
    if "does not continue" in damage:
        sound = max(0, sound - 1)
    text, state = read(b"".join(lines[:sound]))
    return replace(text, damage=damage), state


def _decode(text: bytes, grammar: Grammar[W]) -> Line[W]:
    head, mark, crc = text.rpartition(_CRC)
    if mark and crc != f'{crc32(head):08x}"}}'.encode():  # lines of earlier versions have none
        raise ValueError
    body = json.loads(text)
    if not isinstance(body["data"], dict) or (body["seq"] == 0 and body["kafkakit"] != grammar.header):
        raise ValueError
    line: Line[W] = read_data(body, cast(Any, Line)[grammar.words])
    return line


WORD = "approved"
WHO_LIMIT = 200


def read_approval(answer: str, sha256: str) -> str:
    """Who or what approved the plan of this hash, in the words of the answer; `RefusedError` for any other answer.

    The first line that begins with `approved` counts, and must name the whole hash.
    """
    lines = (line.split(maxsplit=2) for line in answer.splitlines())
    found = next((words for words in lines if words and words[0].lower() == WORD), None)
    if found is None:
        raise RefusedError("the plan is not approved", hint=f"an approval is a line: {WORD} {sha256}")
    if len(found) < 2 or found[1].lower() != sha256:
        named = found[1][:64] if len(found) > 1 else "none"
        raise RefusedError(
            f"another plan is approved: the answer names {named}, this one is {sha256}",
            hint="the plan has changed since it was approved: look at it again",
        )
    return found[2].strip()[:WHO_LIMIT] if len(found) > 2 else WORD
