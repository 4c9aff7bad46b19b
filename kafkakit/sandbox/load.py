"""Fill a cluster with the topics of a workload."""

from collections.abc import Sequence

from kafkakit.core.errors import OperationFailedError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.ports.acting import Clock, ProgressBar
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import DataPlane, Producer
from kafkakit.sandbox.decide.workload import TopicLoad, chunk, chunk_sizes, filler

_LEADERS_LIMIT_S = 60.0
_FLUSH_LIMIT_S = 300.0
_POLL_S = 0.1
_REPORT_EVERY = 32


def load(
    admin: ClusterAdmin, data: DataPlane, clock: Clock, loads: Sequence[TopicLoad], seed: int, progress: ProgressBar
) -> int:
    """Make the topics and write their bytes; returns how many records all in-sync replicas acknowledged.

    Raises `OperationFailedError` when a record was not acknowledged.
    """
    _create(admin, clock, loads)
    producer = data.producer()
    block = filler(seed)
    total = sum(topic.total_bytes for topic in loads)
    sent, number = 0, 0
    for topic in loads:
        for partition, size in enumerate(topic.partition_bytes):
            for length in chunk_sizes(size):
                producer.send(TopicPartition(topic.name, partition), chunk(block, number, length))
                sent, number = sent + length, number + 1
                if number % _REPORT_EVERY == 0:
                    progress.update(sent, total, topic.name)
                    _check(producer)
    unanswered = producer.flush(_FLUSH_LIMIT_S)
    _check(producer)
    if unanswered:
        raise OperationFailedError(f"{unanswered} of {number} records were not acknowledged in {_FLUSH_LIMIT_S:.0f} s")
    progress.update(total, total, "acknowledged")
    return producer.acknowledged


def _create(admin: ClusterAdmin, clock: Clock, loads: Sequence[TopicLoad]) -> None:
    present = {partition.topic for partition in admin.partition_states([topic.name for topic in loads])}
    if present:
        raise UsageError(f"topic {min(present)} exists already", hint="choose another --prefix")
    for topic in loads:
        error = admin.create_topic(topic.name, topic.assignments, {})
        if error is not None:
            raise OperationFailedError(f"cannot create topic {topic.name}: {error}")
    names = [topic.name for topic in loads]
    wanted = sum(len(topic.assignments) for topic in loads)
    end = clock.monotonic() + _LEADERS_LIMIT_S
    led = 0
    while led < wanted:
        led = sum(state.leader is not None and state.leader >= 0 for state in admin.partition_states(names).values())
        if led < wanted:
            if clock.monotonic() > end:
                raise OperationFailedError(f"{wanted - led} partitions have no leader after {_LEADERS_LIMIT_S:.0f} s")
            clock.sleep(_POLL_S)


def _check(producer: Producer) -> None:
    if producer.failed:
        raise OperationFailedError(f"{producer.failed} records were refused: {producer.last_error}")
