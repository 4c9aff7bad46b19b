"""Rejected records by reference: records of a compacted topic, one for each record that a group has given up.

The rules that keep every rejected record:

* A consumer writes the entry, and has it acknowledged, before it commits a base above the rejected offset. Above base
  the REJECTED mark in the commit is enough.
* Whatever copies the record to the DLQ lane has the copy acknowledged before it writes the entry's tombstone. So
  after a crash between both the record is copied again, and never lost.
"""

from dataclasses import dataclass

from kafkakit.core.documents import decode_document, encode_document
from kafkakit.core.errors import UsageError
from kafkakit.streams.formats.identity import topic_id_bytes, topic_id_text
from kafkakit.streams.model.provenance import MAX_NUMBER, RecordFailure, RecordOrigin, bounded

REJECTS_TOPIC = "__kafkakit_rejects"
REJECT_KIND = "stream-reject"
MAX_ENTRY_BYTES = 16 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """One entry: `place` is where the record lies now, in the topic with this id (16 bytes)."""

    topic_id: bytes
    place: RecordOrigin
    failure: RecordFailure

    @property
    def key(self) -> bytes:
        """The record's key: group, topic id, partition and offset, with slashes between."""
        place = f"{topic_id_text(self.topic_id)}/{self.place.partition}/{self.place.offset}"
        return f"{self.failure.group}/{place}".encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Body:
    place: RecordOrigin
    failure: RecordFailure


def encode_reject(entry: Reject) -> tuple[bytes, bytes]:
    """Key and value of the entry's record, with texts cut as in headers; `UsageError` above `MAX_ENTRY_BYTES`."""
    value = encode_document(REJECT_KIND, _Body(place=entry.place, failure=bounded(entry.failure)))
    if len(value) > MAX_ENTRY_BYTES:
        raise UsageError(f"a rejected record's entry has {len(value):,} bytes, at most {MAX_ENTRY_BYTES:,}")
    return entry.key, value


def decode_reject(key: bytes | None, value: bytes) -> Reject | None:
    """The entry in a record of the topic; None for anything else, also where key and value disagree. Never raises."""
    if key is None or len(value) > MAX_ENTRY_BYTES:
        return None
    try:
        body = decode_document(value, REJECT_KIND, _Body, REJECTS_TOPIC)
        topic_id = topic_id_bytes(key.decode("utf-8", "surrogatepass").rsplit("/", 3)[1])
        entry = Reject(topic_id=topic_id, place=body.place, failure=body.failure)
    except (UsageError, ValueError, IndexError):
        return None
    numbers = (body.place.partition, body.place.offset, body.place.segment)
    if any(not 0 <= number <= MAX_NUMBER for number in numbers) or entry.key != key:
        return None
    return entry
