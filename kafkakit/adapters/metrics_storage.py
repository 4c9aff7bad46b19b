"""Where a reading of metrics is stored: a file, or a compacted topic for clusters without ZooKeeper.

The topic holds kafka-kit's two documents as the last records of two keys.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from kafkakit.core.cluster_facts import FreeStorage, PartitionSizes, ResourceKind, StorageReading
from kafkakit.core.errors import InputError, OperationFailedError, RefusedError, TryLaterError, UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record, replicas_of_new_topic
from kafkakit.core.storage_documents import (
    BROKER_STORAGE,
    DOCUMENT_LIMIT_BYTES,
    PARTITION_SIZES,
    Compression,
    decode_broker_storage,
    decode_partition_sizes,
    decode_reading,
    encode_parts,
    encode_reading,
)
from kafkakit.ports.acting import wait_until
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import DataPlane

ANSWER_LIMIT_S = 30.0
MOST_WRITTEN = 1_000_000 - 4096
"""Bytes of a value: brokers and clients take records of about 1 MB by default."""
_CONFIGS = {"cleanup.policy": "compact", "segment.ms": "86400000"}
_POLL_S = 0.2


class StorageTopic:
    """`ports.StorageStore` in partition 0 of a topic, which the first write makes."""

    def __init__(
        self,
        topic: str,
        data: DataPlane,
        admin: ClusterAdmin,
        *,
        compression: Compression = Compression.GZIP,
        answer_limit_s: float = ANSWER_LIMIT_S,
    ) -> None:
        self._partition, self._data, self._admin = TopicPartition(topic, 0), data, admin
        self._compression, self._answer_limit_s = compression, answer_limit_s

    def read(self) -> StorageReading:
        """Read the topic to its end; ages are the times of its records."""
        topic = self._partition.topic
        last: dict[bytes, Record] = {}
        end = time.monotonic() + self._answer_limit_s
        if self._is_there():
            with closing(self._data.consumer([self._partition])) as consumer:
                while self._partition not in consumer.ended():
                    if time.monotonic() > end:
                        raise TryLaterError(f"topic {topic} could not be read within {self._answer_limit_s:g} s")
                    last |= {record.key: record for record in consumer.poll(_POLL_S) if record.key is not None}
        found = {name: record for name in (PARTITION_SIZES, BROKER_STORAGE) if (record := last.get(name.encode()))}
        if len(found) < 2:
            raise TryLaterError(f"topic {topic} holds no sizes and free storage", hint="run metricsfetcher fetch first")
        sizes, free = found[PARTITION_SIZES], found[BROKER_STORAGE]
        source = f"topic {topic}"
        return StorageReading(
            source=source,
            sizes=PartitionSizes(
                bytes_of=decode_partition_sizes(sizes.value, f"{source}, {PARTITION_SIZES}"),
                taken_at=_time(sizes, source),
            ),
            free=FreeStorage(
                bytes_of=decode_broker_storage(free.value, f"{source}, {BROKER_STORAGE}"),
                taken_at=_time(free, source),
            ),
        )

    def write(self, reading: StorageReading) -> Mapping[str, int]:
        """Append both records, and wait until all in-sync replicas have them."""
        topic = self._partition.topic
        parts = encode_parts(reading, self._compression)
        for name, value in parts.items():
            if len(value) > MOST_WRITTEN:
                raise UsageError(
                    f"{name} of {len(value):,} bytes does not fit into a record: the limit is {MOST_WRITTEN:,}",
                    hint="use --compression zstd, which kafkakit reads, or --to file:PATH",
                )
        if not self._is_there():
            self._make()
        done: list[Record] = []
        producer = self._data.producer(done.append)
        for name, value in parts.items():
            producer.send(self._partition, value, name.encode())
        producer.flush(self._answer_limit_s)
        if len(done) < len(parts):
            reason = f": {producer.last_error}" if producer.last_error else ""
            raise TryLaterError(
                f"topic {topic} took {len(done)} of {len(parts)} records within {self._answer_limit_s:g} s{reason}"
            )
        return {f"topic {topic}, {name}": len(value) for name, value in parts.items()}

    def close(self) -> None:
        """The clients are those of the session."""

    def _is_there(self) -> bool:
        topic = self._partition.topic
        there = bool(self._admin.partition_states([topic]))
        if there:
            configs = self._admin.dynamic_configs(ResourceKind.TOPIC, [topic]).get(topic, {})
            if configs.get("cleanup.policy") != "compact":
                raise UsageError(f"topic {topic} is not compacted: retention would delete what it holds",
                                 hint="set cleanup.policy=compact, or name another topic")  # fmt: skip
        return there

    def _make(self) -> None:
        topic = self._partition.topic
        replicas = replicas_of_new_topic(self._admin.cluster().brokers, topic)
        error = self._admin.create_topic(topic, {0: replicas}, _CONFIGS)
        if error is not None and error.name != "TopicAlreadyExistsError":
            raise OperationFailedError(f"cannot create topic {topic}: {error}", hint="grant CREATE on it, or create it")
        if not wait_until(time, self._answer_limit_s, self._is_there, _POLL_S):
            raise TryLaterError(f"topic {topic} was created but is not visible yet")


def _time(record: Record, source: str) -> datetime:
    try:
        return datetime.fromtimestamp((record.at_ms or 0) / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        raise InputError(source, f"a record was written at {record.at_ms} ms, which is not a date") from None


class StorageFile:
    """`ports.StorageStore` in the file `path`, read and replaced whole; without `write_file` it is read only."""

    def __init__(
        self,
        path: str,
        read_file: Callable[[str, int], bytes],
        write_file: Callable[[Path, bytes], None] | None = None,
    ) -> None:
        self._path, self._read_file, self._write_file = path, read_file, write_file

    def read(self) -> StorageReading:
        """Read the file; `InputError` when it is missing."""
        return decode_reading(self._read_file(self._path, DOCUMENT_LIMIT_BYTES), self._path)

    def write(self, reading: StorageReading) -> Mapping[str, int]:
        """Write the file under another name and rename it."""
        if self._write_file is None:
            raise RefusedError(f"{self._path} was opened for reading")
        data = encode_reading(reading)
        self._write_file(Path(self._path), data)
        return {f"file {self._path}": len(data)}

    def close(self) -> None:
        """Nothing is open."""
