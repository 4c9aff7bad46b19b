"""What a pacer keeps between ticks and shows to other processes: one document of the control store."""

from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, fields, replace
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from kafkakit.autothrottle.decide.law import Memory, RateMemory, Reason, Side
from kafkakit.core.documents import decode_document, encode_document
from kafkakit.execution.decide.rates import rates_to_data
from kafkakit.execution.decide.schedule.work import Rates

KIND = "autothrottle-state"
LIMIT_BYTES = 60_000
_RATE_FIELDS = tuple(f.name for f in fields(RateMemory))


class _KeptRate(msgspec.Struct):
    broker: int
    side: Side
    memory: RateMemory


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedTick:
    """One tick: when, by which process, what it found and set. `memory` is what the law remembers."""

    at: Annotated[datetime, Meta(tz=True)]
    by: str
    law: str
    token: int
    moves: int = 0
    rates: Mapping[str, Any] | None = None
    reasons: tuple[tuple[int, str, int, str, str], ...] = ()
    notes: tuple[str, ...] = ()
    learnt: Mapping[str, Any] = field(default_factory=dict)
    memory: tuple[list[Any], ...] = ()


def encode_tick(tick: SavedTick) -> bytes:
    """The document; reasons, then the memory, are left out where they do not fit."""
    data = encode_document(KIND, tick)
    if len(data) > LIMIT_BYTES:
        data = encode_document(KIND, tick, leave_out=("reasons", "notes"))
    return data if len(data) <= LIMIT_BYTES else encode_document(KIND, tick, leave_out=("reasons", "notes", "memory"))


def decode_tick(data: bytes, source: str) -> SavedTick:
    """Read it; `InputError` when it is none."""
    return decode_document(data, KIND, SavedTick, source)


def reasons_data(reasons: tuple[Reason, ...]) -> tuple[tuple[int, str, int, str, str], ...]:
    """Reasons as rows: broker, direction, rate, what limits it, why."""
    return tuple((r.broker, r.side.value, r.rate, r.binding, r.text) for r in reasons)


def rates_data(rates: Rates | None) -> Mapping[str, Any] | None:
    """Rates as data, None for none."""
    return None if rates is None else rates_to_data(rates)


def memory_rows(memory: Memory) -> tuple[list[Any], ...]:
    """What a law remembers of single rates, as rows."""
    return tuple([b, s.value, *astuple(m)] for (b, s), m in sorted(memory.rates.items()))


def memory_rest(memory: Memory) -> Mapping[str, Any]:
    """What a law remembers beside that."""
    return {f.name: getattr(memory, f.name) for f in fields(Memory) if f.name != "rates"}


def memory_of(tick: SavedTick | None) -> Memory:
    """The law's memory as it was saved; an empty one where another version of kafkakit saved it."""
    if tick is None:
        return Memory()
    try:
        rates = [
            {"broker": b, "side": s, "memory": dict(zip(_RATE_FIELDS, values, strict=True))}
            for b, s, *values in tick.memory
        ]
        kept = msgspec.convert(rates, tuple[_KeptRate, ...])
        rest = msgspec.convert({"rates": {}, **tick.learnt}, Memory)
    except (ValueError, msgspec.ValidationError):
        return Memory()
    return replace(rest, rates={(k.broker, k.side): k.memory for k in kept})
