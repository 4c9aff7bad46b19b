"""Reading the checkpoints of one group: each call has a consumer of its own."""

import time
from contextlib import closing

from kafkakit.core.model import TopicPartition
from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.ports.data import DataPlane
from kafkakit.registry.decide.checkpoints import checkpoint_topic, fold_checkpoints
from kafkakit.registry.decide.faults import fault
from kafkakit.registry.decide.replies import OffsetsReply
from kafkakit.registry.decide.requests import TranslateRequest

POLL_S = 0.2
MAX_RECORDS = 5_000_000


def translate_offsets(data: DataPlane, request: TranslateRequest, deadline_s: float) -> OffsetsReply:
    """The group's offsets in partition 0 of the checkpoint topic, up to the end it has now; blocks.

    Raises `RpcError`: the topic is missing, a record is damaged, or the deadline has passed.
    """
    if not request.group_id:
        raise fault("GroupId field must be specified")
    end_s = time.monotonic() + deadline_s
    topic = checkpoint_topic(request.remote_cluster_alias)
    partition = TopicPartition(topic, 0)
    held = data.offsets([partition], deadline_s).get(partition)
    if held is None:
        raise RpcError(
            RpcCode.NOT_FOUND, f"failed to retrieve the log end offset for {topic}:0: there is no such topic"
        )
    found: dict[str, tuple[int, int]] = {}
    if not held:
        return OffsetsReply()
    with closing(data.consumer([partition])) as consumer:
        seen = 0
        while True:
            records = consumer.poll(POLL_S)
            fold_checkpoints((record for record in records if record.offset < held.stop), request.group_id, found)
            seen += len(records)
            # A compacted end has no record: then the consumer alone knows that it is there.
            if (records and records[-1].offset >= held.stop - 1) or partition in consumer.ended():
                return OffsetsReply(offsets=dict(sorted(found.items())))
            if time.monotonic() > end_s or seen > MAX_RECORDS:
                raise fault("deadline exceeded", detail=f"after {seen} records of {topic}")
