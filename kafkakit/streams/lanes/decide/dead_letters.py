"""Rejected records as values, and queries on them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kafkakit.core.deliveries import Headers
from kafkakit.core.model import TopicPartition
from kafkakit.core.query.parser import parse_query
from kafkakit.core.query.single import Field, NumberField, TextField, compiled, fields_of
from kafkakit.core.records import Record
from kafkakit.streams.model.provenance import Provenance, Reject, read_provenance
from kafkakit.streams.model.route import HEADER, Segment, header_text, text_of_bytes
from kafkakit.streams.records.api import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A rejected record: one of the DLQ lane, or with `entry` a reference to where it still lies.

    Of a reference only its place and provenance are known. `is_replayed`: a replay has written it again.
    """

    cluster_id: str
    place: TopicPartition
    offset: int
    provenance: Provenance | None
    at_ms: int | None = None
    key: bytes | None = None
    headers: Headers = ()
    size_bytes: int | None = None
    is_replayed: bool = False
    entry: Reject | None = None

    @property
    def name(self) -> str:
        """`TOPIC/PARTITION@OFFSET`, as `dlq show` takes it."""
        return f"{self.place.topic}/{self.place.partition}@{self.offset}"


def letter_of(record: Record, segment: Segment, *, is_replayed: bool) -> DeadLetter:
    """A record of the DLQ lane."""
    return DeadLetter(
        cluster_id=segment.cluster_id,
        place=record.partition,
        offset=record.offset,
        provenance=read_provenance(record.headers),
        at_ms=record.at_ms,
        key=record.key,
        headers=record.headers,
        size_bytes=None if record.is_null else len(record.value),
        is_replayed=is_replayed,
    )


def letter_of_entry(
    place: TopicPartition, offset: int, entry: Entry | None, cluster_id: str, *, is_replayed: bool
) -> DeadLetter:
    """A record of the DLQ lane as it was read at its offset; None where the log has none there."""
    held = entry is not None and entry.offset == offset
    return DeadLetter(
        cluster_id=cluster_id,
        place=place,
        offset=offset,
        provenance=read_provenance(entry.headers) if entry and held else None,
        at_ms=entry.at_ms if entry and held and entry.at_ms >= 0 else None,
        key=entry.key if entry and held else None,
        headers=entry.headers if entry and held else (),
        size_bytes=len(entry.value) if entry and held and entry.value is not None else None,
        is_replayed=is_replayed,
    )


def letter_of_reject(entry: Reject) -> DeadLetter:
    """A reference, whose provenance is that of the copy to come unless the record itself has an older origin."""
    place = entry.place
    return DeadLetter(
        cluster_id=place.cluster_id,
        place=TopicPartition(place.topic, place.partition),
        offset=place.offset,
        provenance=Provenance(origin=place, failure=entry.failure, hops=0),
        at_ms=place.at_ms,
        entry=entry,
    )


def letter_filter(where: str, now_ms: int) -> Callable[[DeadLetter], bool]:
    """The query as a function; "" is every record. `age_s` is how long ago it failed, the record's time without
    provenance. Raises `UsageError` for a query that cannot be read, or that names another attribute.
    """
    if not where:
        return lambda letter: True

    def age_s(letter: DeadLetter) -> int | None:
        at_ms = letter.provenance.failure.at_ms if letter.provenance else letter.at_ms
        return None if at_ms is None else (now_ms - at_ms) // 1000

    known = fields_of({**_KNOWN, "age_s": NumberField(age_s), HEADER + "NAME": _header("NAME")})

    def field(key: str) -> Field[DeadLetter] | None:
        return _header(key.removeprefix(HEADER)) if key.startswith(HEADER) else known(key)

    return compiled(parse_query(where), field)


def _header(name: str) -> Field[DeadLetter]:
    return TextField(lambda letter: header_text(letter.headers, name))


def _text(of: Callable[[Provenance], str]) -> Field[DeadLetter]:
    return TextField(lambda letter: of(letter.provenance) if letter.provenance else None)


def _number(of: Callable[[Provenance], int]) -> Field[DeadLetter]:
    return NumberField(lambda letter: of(letter.provenance) if letter.provenance else None)


_KNOWN: Mapping[str, Field[DeadLetter]] = MappingProxyType(
    {
        "key": TextField(lambda letter: text_of_bytes(letter.key)),
        "reason": _text(lambda found: found.failure.reason),
        "group": _text(lambda found: found.failure.group),
        "error_class": _text(lambda found: found.failure.error_class),
        "error_text": _text(lambda found: found.failure.error_text),
        "tries": _number(lambda found: found.failure.tries),
        "hops": _number(lambda found: found.hops),
        "lane": _text(lambda found: found.origin.lane),
        "origin_topic": _text(lambda found: found.origin.topic),
        "topic": TextField(lambda letter: letter.place.topic),
        "partition": NumberField(lambda letter: letter.place.partition),
        "offset": NumberField(lambda letter: letter.offset),
        "bytes": NumberField(lambda letter: letter.size_bytes),
        "replayed": TextField(lambda letter: "true" if letter.is_replayed else "false"),
        "held": TextField(lambda letter: "reference" if letter.entry else "copy"),
    }
)
