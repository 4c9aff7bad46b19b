"""Alphabet `j`: a payload as JSON, for people and tests; the same content, written in one way only.

The bind is that of the binary payload whose done set is packed as runs, so nothing can be changed by hand unseen.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from kafkakit.streams.formats.commit import (
    CommitState,
    Mark,
    MarkState,
    ReplayWindow,
    RouteMark,
    Spill,
    Watermark,
    Writer,
)
from kafkakit.streams.formats.identity import CommitIdentity
from kafkakit.streams.formats.kkm1.envelope import VERSION, Flag, UnknownVersionError, bind_of
from kafkakit.streams.formats.kkm1.packing import pack_runs, runs_of
from kafkakit.streams.formats.kkm1.sections import body_of
from kafkakit.streams.formats.kkm1.varint import BadBodyError
from kafkakit.streams.formats.kkm1.writable import writable
from kafkakit.streams.formats.offset_ranges import OffsetRanges


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonPayload:
    """What JSON text says, and the bytes that its bind covers beside the identity."""

    state: CommitState
    bind: int
    signed: bytes


def flags_of(state: CommitState) -> int:
    """The flags of an uncompressed payload."""
    return (Flag.LOSSY if state.forgotten else 0) | (Flag.SPILLED if state.spill else 0)


def to_json(state: CommitState, identity: CommitIdentity) -> str:
    """The text of a writable state: keys in fixed order, absent where there is nothing to say, no spaces."""
    facts: dict[str, object] = {"version": VERSION, "bind": f"{bind_of(identity, _signed(state)):08x}"}
    facts |= {"base": state.base, "done": [list(pair) for pair in state.done.ranges]}
    if state.watermark:
        facts["watermark"] = asdict(state.watermark)
    if state.route:
        facts["route"] = asdict(state.route)
    if state.marks:
        facts["marks"] = [asdict(mark) | {"state": mark.state.name.lower()} for mark in state.marks]
    if state.spill:
        facts["spill"] = asdict(state.spill) | {"digest": state.spill.digest.hex()}
    if state.writer:
        facts["writer"] = asdict(state.writer)
    if state.replay:
        facts["replay"] = asdict(state.replay)
    if state.forgotten:
        facts["forgotten"] = state.forgotten
    return "~j" + json.dumps(facts, separators=(",", ":"))


def from_json(text: str) -> JsonPayload:
    """Read the text without its first two characters; raises `BadBodyError` or `UnknownVersionError`."""
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadBodyError("it is not JSON") from error
    if not isinstance(facts, dict):
        raise BadBodyError("it is no JSON object")
    if facts.get("version") != VERSION:
        raise UnknownVersionError(f"its version is not {VERSION}")
    try:
        state = writable(_state(facts))
        bind = int(_text(facts, "bind"), 16)
    except (KeyError, TypeError, ValueError) as error:
        raise BadBodyError("its fields cannot be") from error
    return JsonPayload(state=state, bind=bind, signed=_signed(state))


def _signed(state: CommitState) -> bytes:
    packed = pack_runs(runs_of(state.base, state.done)) if state.done else None
    return bytes((VERSION << 4 | flags_of(state),)) + body_of(state, packed)


def _state(facts: Mapping[str, object]) -> CommitState:
    watermark, route, writer = _part(facts, "watermark"), _part(facts, "route"), _part(facts, "writer")
    spill, replay = _part(facts, "spill"), _part(facts, "replay")
    return CommitState(
        base=_int(facts, "base"),
        done=OffsetRanges(tuple(_pair(pair) for pair in _list(facts, "done"))),
        watermark=Watermark(**_ints(watermark, "oldest_ms", "newest_done_ms")) if watermark else None,
        route=RouteMark(**_ints(route, "epoch", "segment")) if route else None,
        marks=tuple(_mark(entry) for entry in _list(facts, "marks")) if "marks" in facts else (),
        spill=Spill(digest=bytes.fromhex(_text(spill, "digest")), **_ints(spill, "partition", "offset"))
        if spill
        else None,
        writer=Writer(**_ints(writer, "member_hash", "generation")) if writer else None,
        replay=ReplayWindow(**_ints(replay, "start", "end", "request_id")) if replay else None,
        forgotten=_int(facts, "forgotten") if "forgotten" in facts else 0,
    )


def _mark(entry: object) -> Mark:
    facts = _object(entry)
    numbers = _ints(facts, "start", "end", "count", "deferred_s")
    return Mark(state=MarkState[_text(facts, "state").upper()], **numbers)


def _part(facts: Mapping[str, object], name: str) -> Mapping[str, object] | None:
    return _object(facts[name]) if name in facts else None


def _object(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise TypeError("no object")
    return value


def _list(facts: Mapping[str, object], name: str) -> list[object]:
    value = facts[name]
    if not isinstance(value, list):
        raise TypeError(f"{name} is no list")
    return value


def _text(facts: Mapping[str, object], name: str) -> str:
    value = facts[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is no text")
    return value


def _int(facts: Mapping[str, object], name: str) -> int:
    return _number(facts[name])


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("no whole number")
    return value


def _pair(value: object) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2:
        raise TypeError("no pair of offsets")
    return _number(value[0]), _number(value[1])


def _ints(facts: Mapping[str, object], *names: str) -> dict[str, int]:
    return {name: _number(facts[name]) for name in names}
