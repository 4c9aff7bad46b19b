"""The ledger of rejected records of one cluster, in a compacted topic with one partition.

Records of a batch count only once all of the batch was acknowledged.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.core.errors import OperationFailedError, RefusedError, TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import MOST_REPLICAS, replicas_of_new_topic
from kafkakit.ports.acting import Clock
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import DataPlane, DurableProducer, Headers
from kafkakit.streams.model.provenance import REJECTS_TOPIC, LedgerReject, decode_reject, encode_reject

PLACE = TopicPartition(REJECTS_TOPIC, 0)
MOST_ENTRIES = 1_000_000
_CONFIGS = {"cleanup.policy": "compact", "segment.ms": "86400000"}
_POLL_S = 0.1


class LedgerCluster(Protocol):
    """What is needed of the cluster."""

    @property
    def admin(self) -> ClusterAdmin:
        """The control side."""
        ...

    @property
    def data(self) -> DataPlane:
        """Records in and out."""
        ...


class RejectLedger:
    """Reads and writes entries; a write returns once all in-sync replicas have it, else raises
    `OperationFailedError`. The first write makes the topic. For one thread.
    """

    def __init__(self, ports: LedgerCluster, clock: Clock, *, wait_s: float) -> None:
        self._ports, self._clock, self._wait_s = ports, clock, wait_s
        self._writer, self._is_checked = BatchWriter(ports.data, wait_s=wait_s), False

    def read(self) -> tuple[Mapping[bytes, LedgerReject], int]:
        """The entries by key, and how many records of the topic are no entries. Cost: reading the topic."""
        values: dict[bytes, bytes] = {}
        strange = 0
        if not self._is_there():
            return {}, 0
        deadline = self._clock.monotonic() + self._wait_s
        with closing(self._ports.data.consumer([PLACE])) as consumer:
            while PLACE not in consumer.ended():
                for record in consumer.poll(_POLL_S):
                    deadline = self._clock.monotonic() + self._wait_s
                    if record.key is None:
                        strange += 1
                    elif record.value:
                        values[record.key] = record.value
                    else:
                        values.pop(record.key, None)
                if self._clock.monotonic() > deadline:
                    raise TryLaterError(f"topic {REJECTS_TOPIC} gave no records for {self._wait_s:g} s")
                if len(values) > MOST_ENTRIES:
                    raise RefusedError(f"topic {REJECTS_TOPIC} has more than {MOST_ENTRIES:,} entries")
        entries = {key: entry for key in sorted(values) if (entry := decode_reject(key, values[key]))}
        return entries, strange + len(values) - len(entries)

    def add(self, entries: Sequence[LedgerReject]) -> None:
        """Write entries, before a commit passes their offsets."""
        self._write([encode_reject(entry) for entry in entries])

    def remove(self, keys: Collection[bytes]) -> None:
        """Write tombstones, after the records were copied or given up."""
        self._write([(key, None) for key in sorted(keys)])

    def _write(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        if not records:
            return
        if not self._is_checked:
            if not self._is_there():
                self._make()
            self._is_checked = True
        written = [BatchRecord(place=PLACE, value=value, key=key) for key, value in records]
        self._writer.write(written, "nothing may pass these records before their entries are there: try again")

    def _is_there(self) -> bool:
        if not self._ports.admin.partition_states([REJECTS_TOPIC]):
            return False
        configs = self._ports.admin.dynamic_configs(ResourceKind.TOPIC, [REJECTS_TOPIC]).get(REJECTS_TOPIC, {})
        if configs.get("cleanup.policy") != "compact":
            raise RefusedError(
                f"topic {REJECTS_TOPIC} is not compacted: retention would delete what it holds",
                hint="set cleanup.policy=compact",
            )
        return True

    def _make(self) -> None:
        admin = self._ports.admin
        replicas = replicas_of_new_topic(admin.cluster().brokers, REJECTS_TOPIC)
        in_sync = "2" if len(replicas) == MOST_REPLICAS else "1"
        error = admin.create_topic(REJECTS_TOPIC, {0: replicas}, {**_CONFIGS, "min.insync.replicas": in_sync})
        if error is not None and error.name != "TopicAlreadyExistsError":
            raise OperationFailedError(f"cannot create topic {REJECTS_TOPIC}: {error}", hint="grant CREATE on it")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecord:
    """One record to write; a value of None is null."""

    place: TopicPartition
    value: bytes | None
    key: bytes | None
    headers: Headers = ()


class BatchWriter:
    """Writes batches to one cluster, through one producer while nothing fails. For one thread."""

    def __init__(self, data: DataPlane, *, wait_s: float) -> None:
        self._data, self._wait_s = data, wait_s
        self._producer: DurableProducer | None = None

    def write(self, records: Sequence[BatchRecord], hint: str) -> None:
        """Return once all in-sync replicas have every record.

        Raises `OperationFailedError` with the hint where they do not within `wait_s`, or a broker refuses: some of the
        records may be there then.
        """
        producer, self._producer = self._producer or self._data.producer(), None
        before = producer.acknowledged
        for record in records:
            producer.send(record.place, record.value, record.key, record.headers)
        producer.flush(self._wait_s)
        missing = len(records) - (producer.acknowledged - before)
        if missing:
            reason = f": {producer.last_error}" if producer.last_error else ""
            places = ", ".join(sorted({record.place.topic for record in records}))
            raise OperationFailedError(
                f"{places}: {missing} of {len(records)} records not acknowledged{reason}", hint=hint
            )
        self._producer = producer
