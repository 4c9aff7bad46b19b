"""Writing records that count only once all of their batch was acknowledged."""

from collections.abc import Sequence
from dataclasses import dataclass

from kafkakit.core.errors import OperationFailedError
from kafkakit.core.model import TopicPartition
from kafkakit.ports.data import DataPlane, Headers, Producer


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
        self._producer: Producer | None = None

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
