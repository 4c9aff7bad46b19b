"""One record of `__consumer_offsets`, read in full: the readable decoder that the fast path is tested against."""

from dataclasses import dataclass

from kafkakit.streams.formats.offsets_log.keys import LogKey, Opaque, Undecodable, decode_key
from kafkakit.streams.formats.offsets_log.values import OffsetCommit, decode_offset_commit


@dataclass(frozen=True, slots=True)
class Entry:
    """An offset's record with both halves decoded; `value` is None for a tombstone.

    A tombstone says that this one offset expired or was deleted, or that its topic was.
    """

    key: LogKey
    value: OffsetCommit | None


def decode_entry(key: bytes | None, value: bytes | None) -> Entry | Opaque | Undecodable:
    """Read a record of any type and version; never raises. Costs some microseconds."""
    decoded = decode_key(key)
    if not isinstance(decoded, LogKey):
        return decoded
    found = None if value is None else decode_offset_commit(value)
    return found if isinstance(found, Undecodable) else Entry(decoded, found)
