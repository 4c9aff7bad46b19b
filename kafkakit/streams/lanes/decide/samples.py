"""Sample records for lane rules: JSON, a line for each record as `streams records show -o json` has them, or its whole
results."""

from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from kafkakit.core.deliveries import OutgoingRecord
from kafkakit.core.documents import decode_json
from kafkakit.core.errors import InputError
from kafkakit.streams.model.route import LIVE, LaneChooser, LaneRule

LIMIT_BYTES = 64 << 20


class _Bytes(msgspec.Struct):
    text: str | None = None
    base64: str | None = None
    size: int | None = msgspec.field(name="bytes", default=None)

    def data(self, source: str) -> bytes:
        """The bytes; those that were cut are filled up with zeros, so that the size is right."""
        try:
            held = self.text.encode() if self.text is not None else b64decode(self.base64 or "", validate=True)
        except ValueError:
            raise InputError(source, "base64 that cannot be read, or text with half a surrogate pair") from None
        size = len(held) if self.size is None else self.size
        if not len(held) <= size <= LIMIT_BYTES:
            raise InputError(source, f"{size} bytes are named, {len(held)} are there")
        return held + bytes(size - len(held))


class _Header(msgspec.Struct):
    name: str
    value: _Bytes | None = None


class _Record(msgspec.Struct):
    key: _Bytes | None = None
    value: _Bytes | None = None
    headers: tuple[_Header, ...] = ()
    timestamp_ms: int | None = None


class _Line(_Record):
    records: tuple[_Record, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneShare:
    """How many of the sampled records a rule decides on; `rule` counts from 1, None where no rule matches."""

    lane: str
    rule: int | None
    where: str
    records: int


def read_samples(data: bytes, source: str) -> Iterator[OutgoingRecord]:
    """The records in order; raises `InputError` with the line where a record, or a result, begins."""
    for number, text in _pieces(data.splitlines()):
        place = f"{source}:{number}"
        read = decode_json(text, _Line, place)
        for record in (read,) if read.records is None else read.records:
            yield OutgoingRecord(
                key=record.key.data(place) if record.key else None,
                value=record.value.data(place) if record.value else None,
                headers=tuple((h.name, h.value.data(place) if h.value else None) for h in record.headers),
                at_ms=record.timestamp_ms,
            )


def _pieces(lines: list[bytes]) -> Iterator[tuple[int, bytes]]:
    """JSON texts with their first lines: lines, or what stands between a line `{` and a line `}` as results have it."""
    first, held = 0, list[bytes]()
    for number, line in enumerate(lines, 1):
        if held or line == b"{":
            first = first if held else number
            held.append(line)
            if line == b"}" or number == len(lines):
                yield first, b"\n".join(held)
                held = []
        elif line.strip():
            yield number, line


def lane_shares(rules: Sequence[LaneRule], records: Iterable[OutgoingRecord], now_ms: int) -> tuple[LaneShare, ...]:
    """How many records each rule decides on, in the rules' order, and last those that no rule matches.

    A rule may name any lane: one that the stream does not have yet, too.
    """
    chooser = LaneChooser(rules, {rule.lane for rule in rules})
    counts = Counter(chooser.deciding(record, now_ms) for record in records)
    found = [LaneShare(lane=r.lane, rule=n + 1, where=r.where, records=counts[n]) for n, r in enumerate(rules)]
    return (*found, LaneShare(lane=LIVE, rule=None, where="", records=counts[None]))
