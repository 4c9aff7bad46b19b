"""Two sides of a dual write compared by the ids of their records."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32

from kafkakit.core.deliveries import Headers
from kafkakit.core.errors import UsageError
from kafkakit.streams.formats.record_identity import HEADER, decode_record_id, format_record_id

EXAMPLES = 10


class SeenRecord(NamedTuple):
    """One record of a side: the value of its id's header, and a hash of its key."""

    identity: bytes
    key_hash: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SideCount:
    """What one side holds of the range: records, different ids, and records that are there again."""

    records: int
    identities: int
    duplicates: int
    without_identity: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """How the secondary differs from the primary; examples are ids as UUIDs, at most 10 of each, in order of time."""

    primary: SideCount
    secondary: SideCount
    missing: int
    extra: int
    other_key: int
    examples_missing: tuple[str, ...]
    examples_extra: tuple[str, ...]
    examples_other_key: tuple[str, ...]

    @property
    def both(self) -> int:
        """How many ids are on both sides."""
        return self.primary.identities - self.missing

    @property
    def is_equal(self) -> bool:
        """True where each record of either side is on the other; duplicates are no difference."""
        return not (self.missing or self.extra or self.other_key)


def seen_record(headers: Headers, key: bytes | None) -> SeenRecord | None:
    """A record as it is compared; None for one without an id that can be read."""
    value = next((value for name, value in headers if name == HEADER), None)
    if value is None or decode_record_id(value) is None:
        return None
    return SeenRecord(value, -1 if key is None else crc32(key))


def reconcile(
    primary: Iterable[SeenRecord | None], secondary: Iterable[SeenRecord | None], from_ms: int, to_ms: int
) -> Reconciliation:
    """Compare the records whose ids were made from `from_ms` to before `to_ms`; about 300 bytes of memory a record.

    Read both sides some time beyond the range: a record is written after its id is made. `UsageError` for no range.
    """
    if from_ms >= to_ms:
        raise UsageError(f"the range of {from_ms} to {to_ms} ms is empty")
    first, here = _side(primary, from_ms, to_ms)
    second, there = _side(secondary, from_ms, to_ms)
    missing, extra = here.keys() - there.keys(), there.keys() - here.keys()
    other = {identity for identity in here.keys() & there.keys() if here[identity] != there[identity]}
    return Reconciliation(
        primary=first,
        secondary=second,
        missing=len(missing),
        extra=len(extra),
        other_key=len(other),
        examples_missing=_examples(missing),
        examples_extra=_examples(extra),
        examples_other_key=_examples(other),
    )


def _side(records: Iterable[SeenRecord | None], from_ms: int, to_ms: int) -> tuple[SideCount, dict[bytes, int]]:
    keys: dict[bytes, int] = {}
    counts: Counter[str] = Counter()
    for record in records:
        identity = None if record is None else decode_record_id(record.identity)
        if record is None or identity is None:
            counts["without"] += 1
        elif from_ms <= identity.at_ms < to_ms:
            counts["records"] += 1
            keys.setdefault(record.identity, record.key_hash)
    count = SideCount(
        records=counts["records"],
        identities=len(keys),
        duplicates=counts["records"] - len(keys),
        without_identity=counts["without"],
    )
    return count, keys


def _examples(identities: set[bytes]) -> tuple[str, ...]:
    found = (decode_record_id(value) for value in sorted(identities)[:EXAMPLES])
    return tuple(format_record_id(identity) for identity in found if identity is not None)
