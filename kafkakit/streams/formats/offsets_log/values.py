"""Committed offsets as `__consumer_offsets` holds them: OffsetCommitValue v0 to v4."""

from dataclasses import dataclass

from kafkakit.streams.formats.identity import NO_TOPIC_ID, TOPIC_ID_BYTES
from kafkakit.streams.formats.offsets_log.fields import Fields, MalformedError
from kafkakit.streams.formats.offsets_log.keys import Undecodable

NEWEST_VERSION = 4
PLAUSIBLE_MS = range(1_000_000_000_000, 10_000_000_000_000)
"""2001 to 2286: what a commit time must be before an unknown version's fields are trusted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommit:
    """A committed offset. `metadata` is as stored, a NUL included; `committed_ms` is the coordinator's clock.

    `leader_epoch` is -1 and `topic_id` all zero where the record has none.
    """

    version: int
    offset: int
    committed_ms: int
    metadata: bytes = b""
    leader_epoch: int = -1
    expires_ms: int | None = None
    topic_id: bytes = NO_TOPIC_ID


def decode_offset_commit(value: bytes) -> OffsetCommit | Undecodable:
    """Read an OffsetCommitValue; never raises.

    A version above 4 is read as 4 and trusted only when every field is plausible and nothing is left over; by
    Kafka's own rule (KIP-915) such a version adds tagged fields alone.
    """
    fields = Fields(value)
    version = -1
    try:
        version = fields.integer(2, "value version")
        if version < 0:
            return Undecodable(f"value version {version}")
        commit = _commit(fields, version)
    except MalformedError as fault:
        return Undecodable(str(fault) if version <= NEWEST_VERSION else f"value version {version}")
    if version > NEWEST_VERSION and (fields.left or commit.committed_ms not in PLAUSIBLE_MS or commit.offset < 0):
        return Undecodable(f"value version {version}")
    return commit if commit.offset >= 0 else Undecodable("a negative offset")


def _commit(fields: Fields, version: int) -> OffsetCommit:
    offset = fields.integer(8, "offset")
    leader_epoch = fields.integer(4, "leader epoch") if version >= 3 else -1
    fields.flexible = version >= 4
    metadata = fields.raw("metadata") or b""
    committed_ms = fields.integer(8, "commit time")
    expires_ms = fields.integer(8, "expiry time") if version == 1 else None
    topic_id = fields.tagged().get(0, NO_TOPIC_ID)
    if len(topic_id) != TOPIC_ID_BYTES:
        raise MalformedError("a topic id that is not 16 bytes long")
    return OffsetCommit(
        version=version,
        offset=offset,
        committed_ms=committed_ms,
        metadata=metadata,
        leader_epoch=leader_epoch,
        expires_ms=expires_ms,
        topic_id=topic_id,
    )
