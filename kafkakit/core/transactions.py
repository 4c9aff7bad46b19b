"""Who wrote to a partition last, and which transactions are not complete, as brokers report them."""

from dataclasses import dataclass

from kafkakit.core.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerState:
    """An idempotent or transactional producer that a partition's leader remembers; Kafka keeps no client id or host.

    `transaction_start` is the first offset of its open transaction there, None without one. `last_ms` is the timestamp
    of its latest batch, by the producer's own clock, None where it is not known. A producer that wrote nothing for
    `producer.id.expiration.ms` (a day by default) is forgotten, and one that is not idempotent is never there.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_ms: int | None
    transaction_start: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """A transaction that is not complete.

    `state` is Kafka's: `Ongoing`, or `PrepareCommit`, `PrepareAbort` and `PrepareEpochFence` while markers are written.
    `started_ms` is by the coordinator's clock. `partitions` are those that have no marker yet, those of
    `__consumer_offsets` too.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_ms: int
    partitions: frozenset[TopicPartition]
