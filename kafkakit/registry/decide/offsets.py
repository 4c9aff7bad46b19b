"""Offsets of mirrored topics: MirrorMaker 2's checkpoints, and how far its translation may be from the true offset.

A checkpoint says which local offset of a group stands for which upstream one. Between two offset syncs MirrorMaker
translates to the record after the first one, which is too low. A sync at or after the offset is a proven end. A
nearer one often follows from the distance to the sync before: a copy without records of its own never numbers its
records faster than the source, whose gaps it closes.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from struct import Struct

from msgspec import UNSET

from kafkakit.core.errors import InputError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.registry.decide.tags import invalid_request
from kafkakit.registry.decide.v2_calls import TranslatedOffset, TranslatedOffsets
from kafkakit.streams.model.mirrormaker import OffsetSync, decode_offset_sync, syncs_by_partition

Syncs = Mapping[TopicPartition, tuple[OffsetSync, ...]]


def sync_topic(alias: str) -> str:
    """Where MirrorMaker keeps its syncs on this cluster, with `offset-syncs.topic.location` `target`."""
    return f"mm2-offset-syncs.{alias or DEFAULT_ALIAS}.internal"


def read_sync(record: Record) -> OffsetSync:
    """The sync of a record; `RpcError` for a damaged one."""
    try:
        return decode_offset_sync(record.key or b"", record.value)
    except InputError as error:
        damage = f"the offset sync at offset {record.offset} is damaged: {error.message}"
        raise RpcError(RpcCode.INTERNAL, damage) from None


def with_intervals(
    offsets: Mapping[str, tuple[int, int]], syncs: Iterable[OffsetSync], alias: str
) -> TranslatedOffsets:
    """The intervals of checkpoints, upstream and local offset by `topic:partition`; syncs in the order of their log."""
    known = syncs_by_partition(syncs)
    found = []
    for name, (upstream, local) in offsets.items():
        topic, _, number = name.rpartition(":")
        partition = TopicPartition(topic, int(number))
        end, is_assumed = end_of(upstream, local, _syncs_of(partition, alias or DEFAULT_ALIAS, known))
        found.append(
            TranslatedOffset(
                topic=topic,
                partition=partition.partition,
                upstream_offset=upstream,
                local_offset=local,
                local_end_offset=UNSET if end is None else end,
                exact=end == local,
                may_repeat=UNSET if end is None else end - local,
                assumes_no_own_records=is_assumed,
            )
        )
    return TranslatedOffsets(offsets=tuple(sorted(found, key=lambda o: (o.topic, o.partition))))


def end_of(upstream: int, local: int, syncs: Sequence[OffsetSync]) -> tuple[int | None, bool]:
    """Where the true place of an upstream offset is at most, None where unknown; and whether that is an assumption.

    `local` is MirrorMaker's translation, `syncs` are those of the partition, ascending. The assumption is that the
    copy has no records of its own; it is not made where two syncs show some. Syncs before a fall of the copy's offsets
    are of a copy that was made again, and do not count.
    """
    falls = [i + 1 for i, (one, two) in enumerate(pairwise(syncs)) if two.downstream_offset < one.downstream_offset]
    kept = syncs[falls[-1] if falls else 0 :]
    proven = next((s.downstream_offset for s in kept if s.upstream_offset >= upstream), None)
    before = [s for s in kept if s.upstream_offset <= upstream]
    end, is_assumed = proven, False
    if before and not any(_numbers_faster(one, two) for one, two in pairwise(kept)):
        reached = before[-1].downstream_offset + upstream - before[-1].upstream_offset
        if end is None or reached < end:
            end, is_assumed = reached, True
    # A checkpoint beyond what the syncs allow is of other syncs than these.
    return (None, False) if end is None or end < local else (end, is_assumed)


def _numbers_faster(one: OffsetSync, two: OffsetSync) -> bool:
    return two.downstream_offset - one.downstream_offset > two.upstream_offset - one.upstream_offset


def _syncs_of(partition: TopicPartition, alias: str, known: Syncs) -> tuple[OffsetSync, ...]:
    """The syncs of the source of a copy, which has its name or that behind the alias; none where both are possible."""
    names = {partition.topic, partition.topic.removeprefix(f"{alias}.")}
    found = [own for name in names if (own := known.get(TopicPartition(name, partition.partition)))]
    return found[0] if len(found) == 1 else ()


SUFFIX = ".checkpoints.internal"
DEFAULT_ALIAS = "source"
MAX_NAME = 249
_SHORT, _INT, _VALUE = Struct(">h"), Struct(">i"), Struct(">hqq")


def checkpoint_topic(alias: str) -> str:
    """The topic with the checkpoints of an upstream cluster; `RpcError` for an alias that is in no topic's name."""
    topic = f"{alias or DEFAULT_ALIAS}{SUFFIX}"
    if len(topic) > MAX_NAME or not all(char.isascii() and (char.isalnum() or char in "._-") for char in topic):
        raise invalid_request("the alias cannot be part of a topic's name")
    return topic


def fold_checkpoints(records: Iterable[Record], group: str, found: dict[str, tuple[int, int]]) -> None:
    """Enter the group's offsets by `topic:partition`; the last record of each wins, one without a value removes it."""
    for record in records:
        owner, entry = _read_key(record.key or b"", record.offset)
        if owner != group:
            continue
        if record.is_null:
            found.pop(entry, None)
            continue
        if len(record.value) < _VALUE.size:
            raise _damaged_error(record.offset)
        version, upstream, local = _VALUE.unpack_from(record.value)
        if version != 0:
            raise RpcError(RpcCode.INTERNAL, f"unknown header version on checkpoint record: {version}")
        found[entry] = (upstream, local)


def _read_key(key: bytes, offset: int) -> tuple[str, str]:
    group, rest = _text(key, offset)
    topic, rest = _text(rest, offset)
    if not group:
        raise RpcError(RpcCode.INTERNAL, "unexpected consumer group with empty name")
    if not topic:
        raise RpcError(RpcCode.INTERNAL, "unexpected topic with empty name")
    if len(rest) < _INT.size:
        raise _damaged_error(offset)
    return group, f"{topic}:{_INT.unpack_from(rest)[0]}"


def _text(data: bytes, offset: int) -> tuple[str, bytes]:
    if len(data) < _SHORT.size:
        raise _damaged_error(offset)
    length = _SHORT.unpack_from(data)[0]
    if length < 0 or len(data) < _SHORT.size + length:
        raise _damaged_error(offset)
    return data[_SHORT.size : _SHORT.size + length].decode("utf-8", "replace"), data[_SHORT.size + length :]


def _damaged_error(offset: int) -> RpcError:
    return RpcError(RpcCode.INTERNAL, f"the checkpoint record at offset {offset} is damaged")
