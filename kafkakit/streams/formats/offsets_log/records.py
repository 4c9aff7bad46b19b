"""One record of `__consumer_offsets`, read in full: the readable decoder that the fast path is tested against."""

from dataclasses import dataclass

from kafkakit.streams.formats.offsets_log.group_values import GroupValue, decode_group_value
from kafkakit.streams.formats.offsets_log.keys import OFFSET_TYPES, LogKey, Opaque, Undecodable, decode_key
from kafkakit.streams.formats.offsets_log.values import OffsetCommit, decode_offset_commit


@dataclass(frozen=True, slots=True)
class Entry:
    """A record with both halves decoded; `value` is None for a tombstone.

    A tombstone says that this one record is gone. Of an offset: it expired, was deleted, or its topic was. Of a
    group's own record (keys 2, 3, 11, 17): the group is gone only when no other of them is left, since a classic
    group that becomes a KIP-848 one loses its key 2 as well.
    """

    key: LogKey
    value: OffsetCommit | GroupValue | None


def decode_entry(key: bytes | None, value: bytes | None) -> Entry | Opaque | Undecodable:
    """Read a record of any type and version; never raises. Costs some microseconds."""
    decoded = decode_key(key)
    if not isinstance(decoded, LogKey):
        return decoded
    if value is None:
        return Entry(decoded, None)
    if decoded.type in OFFSET_TYPES:
        found: OffsetCommit | GroupValue | Undecodable = decode_offset_commit(value)
    else:
        found = decode_group_value(decoded.type, value)
    return found if isinstance(found, Undecodable) else Entry(decoded, found)
