"""The spill ledger's records: the exact state of a partition where its commit metadata can only hold a part.

The order is the writer's duty: the ledger's record is acknowledged first, then the commit that points to it is made.
The coarsened done set stays in the commit, so a reader without the ledger is right too, and redelivers more.
"""

from dataclasses import dataclass, replace
from hashlib import sha256

from kafkakit.core.errors import UsageError
from kafkakit.streams.formats.commit import CommitState, Spill
from kafkakit.streams.formats.identity import CommitIdentity, topic_id_bytes, topic_id_text
from kafkakit.streams.formats.kkm1.envelope import UnknownVersionError, seal, unseal
from kafkakit.streams.formats.kkm1.json_text import flags_of
from kafkakit.streams.formats.kkm1.packing import pack_smallest, runs_of
from kafkakit.streams.formats.kkm1.parse import UnknownSectionError, parse
from kafkakit.streams.formats.kkm1.sections import body_of
from kafkakit.streams.formats.kkm1.varint import BadBodyError, TooLargeError
from kafkakit.streams.formats.kkm1.writable import DIGEST_BYTES, writable

# Below the default limit of a broker's message, with room for the key and the batch around it.
MAX_VALUE_BYTES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerKey:
    """Whose state a record holds; a newer record of the same key replaces it when the topic is compacted."""

    group: str
    topic_id: bytes
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRecord:
    """A record to write: `digest` goes into the commit, with the place that the broker gives the record."""

    key: bytes
    value: bytes
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What a consumer continues from: the exact state, or the one of the commit and why the ledger's was not used."""

    state: CommitState
    is_exact: bool
    reason: str = ""


def ledger_record(state: CommitState, identity: CommitIdentity) -> LedgerRecord | None:
    """The exact state as a record, bound as a commit's payload is; None where it exceeds `MAX_VALUE_BYTES`.

    Raises `ValueError` for a state that cannot be. Cost: the runs.
    """
    state = replace(writable(state), spill=None)
    runs = runs_of(state.base, state.done)
    # A run takes a bit at least, or an offset does.
    if min(len(runs), sum(runs)) > 8 * MAX_VALUE_BYTES:
        return None
    value = seal(identity, flags_of(state), body_of(state, pack_smallest(runs) if runs else None))
    if len(value) > MAX_VALUE_BYTES:
        return None
    return LedgerRecord(key=ledger_key(identity), value=value, digest=digest_of(value))


def spilled(state: CommitState, record: LedgerRecord, partition: int, offset: int) -> CommitState:
    """The state with a pointer to its record, where the ledger acknowledged it."""
    return replace(state, spill=Spill(partition=partition, offset=offset, digest=record.digest))


def restore(state: CommitState, value: bytes | None, identity: CommitIdentity) -> Restored:
    """The exact state that a commit points to; `value` is what stands at its pointer, None where nothing does.

    Never raises. The ledger's state is used only if its digest is the commit's, it is bound to the same identity and
    base, and it holds everything that the commit holds.
    """
    if state.spill is None:
        return Restored(state=state, is_exact=False, reason="the commit points to no ledger")
    if value is None:
        return Restored(state=state, is_exact=False, reason="the ledger has no record there")
    if digest_of(value) != state.spill.digest:
        return Restored(state=state, is_exact=False, reason="the ledger's record is another one")
    try:
        envelope = unseal(value, MAX_VALUE_BYTES)
        exact = parse(envelope, state.base).state
    except (BadBodyError, TooLargeError, UnknownSectionError, UnknownVersionError) as error:
        return Restored(state=state, is_exact=False, reason=f"the ledger's record cannot be read: {error}")
    if not envelope.is_bound_to(identity):
        return Restored(state=state, is_exact=False, reason="the ledger's record belongs to something else")
    if exact.base != state.base or not state.done.is_subset_of(exact.done):
        return Restored(state=state, is_exact=False, reason="the ledger's record does not go with the commit")
    return Restored(state=replace(state, done=exact.done, marks=exact.marks, forgotten=exact.forgotten), is_exact=True)


def ledger_key(identity: CommitIdentity) -> bytes:
    """The key as text: group, topic id and partition, with slashes between."""
    text = f"{identity.group}/{topic_id_text(identity.topic_id)}/{identity.partition}"
    return text.encode("utf-8", "surrogatepass")


def parse_ledger_key(key: bytes) -> LedgerKey | None:
    """The key taken apart, from its end since a group's name may have slashes; None for a key of something else."""
    try:
        group, topic_id, partition = key.decode("utf-8", "surrogatepass").rsplit("/", 2)
        return LedgerKey(group=group, topic_id=topic_id_bytes(topic_id), partition=int(partition))
    except (UsageError, ValueError):
        return None


def digest_of(value: bytes) -> bytes:
    """Which exact state it is, in eight bytes: the first of its SHA-256."""
    return sha256(value).digest()[:DIGEST_BYTES]
