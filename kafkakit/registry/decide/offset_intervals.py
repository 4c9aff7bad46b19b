"""How far MirrorMaker 2's translation of an offset may be from the true one, by its offset syncs.

Between two syncs MirrorMaker translates to the record after the first one, which is too low. A sync at or after the
offset is a proven end. A nearer one often follows from the distance to the sync before: a copy without records of its
own never numbers its records faster than the source, whose gaps it closes.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from msgspec import UNSET

from kafkakit.core.errors import InputError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.registry.decide.checkpoints import DEFAULT_ALIAS
from kafkakit.registry.decide.v2.messages import TranslatedOffset, TranslatedOffsets
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
