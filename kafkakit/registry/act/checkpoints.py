"""Reading the checkpoints of one group, and offset syncs: each call has consumers of its own."""

import time
from collections.abc import Callable, Sequence
from contextlib import closing

from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.ports.data import DataPlane
from kafkakit.registry.decide.checkpoints import checkpoint_topic, fold_checkpoints
from kafkakit.registry.decide.faults import fault
from kafkakit.registry.decide.offset_intervals import read_sync, sync_topic, with_intervals
from kafkakit.registry.decide.replies import OffsetsReply
from kafkakit.registry.decide.requests import TranslateRequest
from kafkakit.registry.decide.v2.messages import TranslatedOffsets, TranslateOffsetsRequest
from kafkakit.streams.model.mirrormaker import OffsetSync

POLL_S = 0.2
MAX_RECORDS = 5_000_000


def translate_offsets(data: DataPlane, request: TranslateRequest, deadline_s: float) -> OffsetsReply:
    """The group's offsets in partition 0 of the checkpoint topic, up to the end it has now; blocks.

    Raises `RpcError`: the topic is missing, a record is damaged, or the deadline has passed.
    """
    if not request.group_id:
        raise fault("GroupId field must be specified")
    topic = checkpoint_topic(request.remote_cluster_alias)
    found: dict[str, tuple[int, int]] = {}

    def take(records: Sequence[Record]) -> None:
        fold_checkpoints(records, request.group_id, found)

    if not _read_topic(data, topic, time.monotonic() + deadline_s, take):
        raise RpcError(
            RpcCode.NOT_FOUND, f"failed to retrieve the log end offset for {topic}:0: there is no such topic"
        )
    return OffsetsReply(offsets=dict(sorted(found.items())))


def translate_with_intervals(data: DataPlane, request: TranslateOffsetsRequest, deadline_s: float) -> TranslatedOffsets:
    """Translated offsets with the intervals that offset syncs allow, if MirrorMaker keeps these here; blocks.

    Raises as `translate_offsets`.
    """
    end_s = time.monotonic() + deadline_s
    asked = TranslateRequest(remote_cluster_alias=request.alias, group_id=request.group)
    offsets = translate_offsets(data, asked, deadline_s).offsets
    # Syncs come after the checkpoints, so that a checkpoint is never newer than they are.
    syncs = read_syncs(data, sync_topic(request.alias), end_s - time.monotonic()) if offsets else None
    return with_intervals(offsets, syncs or (), request.alias)


def read_syncs(data: DataPlane, topic: str, deadline_s: float) -> list[OffsetSync] | None:
    """The offset syncs of a topic in the order of their log, None where there is no such topic; blocks."""
    syncs: list[OffsetSync] = []

    def take(records: Sequence[Record]) -> None:
        syncs.extend(read_sync(record) for record in records if not record.is_null)

    return syncs if _read_topic(data, topic, time.monotonic() + deadline_s, take) else None


def _read_topic(data: DataPlane, topic: str, end_s: float, take: Callable[[Sequence[Record]], None]) -> bool:
    """Hand on what partition 0 holds, up to the end it has now; False where there is no such topic."""
    partition = TopicPartition(topic, 0)
    held = data.offsets([partition], max(0.1, end_s - time.monotonic())).get(partition)
    if not held:
        return held is not None
    with closing(data.consumer([partition])) as consumer:
        seen = 0
        while True:
            records = consumer.poll(POLL_S)
            take([record for record in records if record.offset < held.stop])
            seen += len(records)
            # A compacted end has no record: then the consumer alone knows that it is there.
            if (records and records[-1].offset >= held.stop - 1) or partition in consumer.ended():
                return True
            if time.monotonic() > end_s or seen > MAX_RECORDS:
                raise fault("deadline exceeded", detail=f"after {seen} records of {topic}")
