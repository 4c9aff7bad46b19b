"""A control store in a compacted Kafka topic of one partition: no ZooKeeper, no file that hosts would share.

A write appends a change and reads up to it. A read appends a mark first, so that it sees everything that was
acknowledged before, also when a broker that was deposed still acts as leader; so reading also needs the right to write
to the topic. Who only shows what is there reads without a mark (`only_looks`): it writes nothing, and what was
acknowledged in the last moment may be missing. The rest of this text is what the records mean (compare-and-set),
whatever was compacted away.

**Records.** A *change* is written under a key of its own: path, *parent* (the version that its writer expects, or -1
for a path that never was) and the new value, empty for a deletion. The offset that it gets is its *version*. A
*confirmation* is written later under the key of its change: that change with its version spelled out, for a change that
won. A *tombstone* of that key ends both.

**Meaning.** The first change of each parent wins: from -1 on, the next version of a path is the lowest offset among the
changes whose parent is the present version (and lower than the offset). This chain depends only on the set of changes
and not on who reads them; a record that is appended later has a higher offset, so what has won stays won. The
partition's leader puts all changes in one order, a writer knows the outcome once it has read up to its own change, and
that is the compare-and-set: its change is the head of the chain exactly there, or never.

**Compaction** drops a record only when a later one has its key. Losers have keys of their own, so they never hide a
winner. A confirmation holds everything that its change held, so nothing is lost with the change. Confirmed versions are
in the chain for certain, so the chain may be followed from the highest confirmed one, and what is below it is not
needed. Hence the rule for tombstones: a key may be ended only by a process that has *read* the confirmation of a higher
version of its path. That confirmation is earlier in the log than the tombstone, so a reader that misses the ended
record (it is compacted away only with the tombstone written) finds the confirmation, or, if that was ended in turn, a
higher one. By induction every reader that has read up to some offset follows one chain to one head, compacted or not. A
crash between these steps only leaves records that are not needed.

**Reading takes time**, and compaction may work meanwhile: the topic's `min.compaction.lag.ms` is far longer than any
reading may take, so only records written before the reading began can hide others from it.
"""

import secrets
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.core.documents import decode_document, encode_document
from kafkakit.core.errors import KafkakitError, OperationFailedError, RefusedError, TryLaterError, UsageError
from kafkakit.core.lease import VersionedValue, check_folder, check_path, check_value, conflict
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import MOST_REPLICAS, Record, replicas_of_new_topic
from kafkakit.ports.acting import pause, wait_until
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import Consumer, DataPlane, DurableProducer

TOPIC = "__kafkakit_control"
ANSWER_LIMIT_S = 10.0
READ_LIMIT_S = 60.0
# Far longer than any reading takes: see control/log.py.
COMPACTION_LAG_MS = 1_800_000
_SOURCE = f"topic {TOPIC}"
_POLL_S = 0.2
_WATCH_S = 0.1
_FAR = 1000
_AT_ONCE = 500
_CLOSE_LIMIT_S = 1.0
_CONFIGS = {
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": str(COMPACTION_LAG_MS),
    "unclean.leader.election.enable": "false",
    "segment.ms": "21600000",
    "segment.bytes": str(16 * 2**20),
}


class KafkaControl:
    """Implements `ports.ControlStore`; safe for several threads, which wait for one another.

    The first write makes the topic: three copies where there are three brokers, of which two must have a record
    before it counts. Opens its clients when needed, and again after every failure.
    """

    def __init__(
        self,
        data: DataPlane,
        open_admin: Callable[[], ClusterAdmin],
        *,
        answer_limit_s: float = ANSWER_LIMIT_S,
        only_looks: bool = False,
    ) -> None:
        self._data, self._open_admin, self._answer_limit_s = data, open_admin, answer_limit_s
        self._only_looks = only_looks
        self._partition = TopicPartition(TOPIC, 0)
        self._name = secrets.token_hex(8)
        self._sent = 0
        self._lock = threading.Lock()
        self._topic_is_there = False
        self._acknowledged: Record | None = None
        self._wanted: tuple[bytes, bytes] = (b"", b"")
        self._consumer: Consumer | None = None
        self._producer: DurableProducer | None = None
        self._view, self._next_offset = LogView(_SOURCE), 0

    def get(self, path: str) -> VersionedValue | None:
        """One small write, and a read up to it; the first read goes through the whole topic."""
        check_path(path)
        with self._lock:
            return self._view.document(path) if self._is_up_to_date() else None

    def cas(self, path: str, value: bytes, expected: int | None) -> int:
        """One write and a read up to it; one more where a path is to be made."""
        check_path(path)
        check_value(value)
        with self._lock:
            return self._change(path, value, expected)

    def delete(self, path: str, expected: int) -> None:
        """A change to nothing; the path's record stays in the topic."""
        check_path(path)
        with self._lock:
            self._change(path, b"", expected)

    def children(self, path: str) -> tuple[str, ...]:
        """As costly as `get`."""
        folder = check_folder(path)
        with self._lock:
            paths = self._view.paths() if self._is_up_to_date() else ()
        below = [parts for name in paths if (parts := tuple(name.split("/")))[: len(folder)] == folder]
        return tuple(sorted({parts[len(folder)] for parts in below if len(parts) > len(folder)}))

    def values(self, path: str) -> Mapping[str, VersionedValue]:
        """As costly as `get`."""
        folder = check_folder(path)
        with self._lock:
            paths = self._view.paths() if self._is_up_to_date() else ()
            found = {name: self._view.document(name) for name in sorted(paths)}
        below = {tuple(name.split("/")): document for name, document in found.items() if document is not None}
        return {parts[-1]: document for parts, document in below.items() if parts[:-1] == folder}

    def await_change(self, path: str, known: int | None, timeout_s: float) -> bool:
        """One small write, and then reads only; other calls wait for a tenth of a second at most."""
        end = time.monotonic() + timeout_s
        if _version(self.get(path)) != known:
            return True
        while time.monotonic() < end:
            with self._lock:
                consumer = self._consumer
                if consumer is not None:
                    self._take_in(consumer, min(_WATCH_S, max(0.0, end - time.monotonic())))
                    if _version(self._view.document(path)) != known:
                        return True
            if consumer is None:  # no topic yet, or the clients were dropped after a failure
                pause(time, min(_POLL_S, max(0.0, end - time.monotonic())))
                if _version(self.get(path)) != known:
                    return True
        return False

    def close(self) -> None:
        """Gives what is still to be written a second."""
        with self._lock:
            if self._producer is not None:
                self._producer.flush(_CLOSE_LIMIT_S)
            self._forget()

    def _change(self, path: str, value: bytes, expected: int | None) -> int:
        if self._only_looks:
            raise RefusedError("this control store is read-only")
        self._make_topic()
        while True:
            if expected is None:
                self._is_up_to_date()
            elif expected < 0 or self._view.head(path) > expected:
                self._is_up_to_date()  # only to report what is there now
                raise conflict(path, expected, _version(self._view.document(path)))
            present = self._view.document(path)
            if expected is None and present is not None:
                raise conflict(path, expected, present.version)
            parent = self._view.head(path) if expected is None else expected
            self._sent += 1
            key = f"change/{self._name}/{self._sent}".encode()
            version = self._append(key, encode_change(path, parent, value))
            if self._read_up_to(version, path):
                self._tidy(path, version)
                return version
            found = self._view.document(path)
            if expected is not None or found is not None:
                raise conflict(path, expected, _version(found))
            # Made and removed by others in between: it still holds nothing, as the caller expects.

    def _is_up_to_date(self) -> bool:
        """Read everything acknowledged so far; False when there is no topic yet."""
        if not self._topic_is_there and not self._find_topic():
            return False
        if self._only_looks:
            self._look()
            return True
        self._sent += 1
        self._read_up_to(self._append(f"mark/{self._name}".encode(), str(self._sent).encode()), None)
        return True

    def _look(self) -> None:
        """Take in what has come: the first time all that is there, later what was fetched meanwhile."""
        end = time.monotonic() + READ_LIMIT_S
        try:
            consumer = self._consumer = self._consumer or self._data.consumer([self._partition])
            while True:
                is_behind = self._partition not in consumer.ended()
                records = consumer.poll(_POLL_S if is_behind else 0.0, _AT_ONCE)
                if records and records[0].offset < self._next_offset:  # the topic was deleted and recreated
                    self._view, self._next_offset = LogView(_SOURCE), 0
                for record in records:
                    self._add(record)
                if not records and not is_behind:
                    return
                if time.monotonic() > end:
                    raise TryLaterError(f"topic {TOPIC} could not be read to its end within {READ_LIMIT_S:g} s")
        except BaseException:
            self._forget()
            raise

    def _append(self, key: bytes, value: bytes) -> int:
        """Write one record and return its offset; `TryLaterError` when it is not known to be written."""
        if self._producer is None:
            self._producer = self._data.producer(self._take_note)
        self._wanted, self._acknowledged = (key, value), None
        try:
            self._producer.send(self._partition, value, key)
            self._producer.flush(self._answer_limit_s)
        except BaseException:
            self._forget()  # interrupted, too: records that were fetched and not taken in would be missed for ever
            raise
        done, trouble = self._acknowledged, self._producer.last_error
        if done is None:
            self._forget()
            reason = f": {trouble}" if trouble else ""
            raise TryLaterError(
                f"topic {TOPIC} took no record within {self._answer_limit_s:g} s{reason}",
                hint="check that two of its replicas are in sync, and the right to write to it",
            )
        return done.offset

    def _take_note(self, record: Record) -> None:
        if (record.key, record.value) == self._wanted:
            self._acknowledged = record

    def _read_up_to(self, offset: int, path: str | None) -> bool:
        """Read until `offset` is in the view; True when the change there is the head of `path` at that point."""
        if offset < self._next_offset:
            self._forget()  # the topic was deleted and recreated, the view is of no use any more
        if self._consumer is None:
            self._consumer = self._data.consumer([self._partition])
        won = False
        end = time.monotonic() + READ_LIMIT_S
        try:
            while self._next_offset <= offset:
                if time.monotonic() > end:
                    raise TryLaterError(f"topic {TOPIC} could not be read to its end within {READ_LIMIT_S:g} s")
                # A poll for many waits until it has them all; near the end that is time lost.
                many = offset - self._next_offset > _FAR
                for record in self._consumer.poll(_POLL_S, _AT_ONCE if many else 1):
                    self._add(record)
                    if record.offset == offset and path is not None:
                        won = self._view.head(path) == offset
        except BaseException:
            self._forget()  # interrupted, too: records that were fetched and not taken in would be missed for ever
            raise
        return won

    def _take_in(self, consumer: Consumer, timeout_s: float) -> None:
        try:
            for record in consumer.poll(timeout_s, 1):  # a poll for many waits until it has them all
                self._add(record)
        except BaseException:
            self._forget()
            raise

    def _add(self, record: Record) -> None:
        self._view.add(record.offset, record.key or b"", record.value)
        self._next_offset = record.offset + 1

    def _tidy(self, path: str, version: int) -> None:
        """Confirm our change and end those that are not needed; where this is lost, a later write does it."""
        producer, change = self._producer, self._view.change(path, version)
        if producer is None:
            return
        with suppress(KafkakitError):
            producer.send(self._partition, encode_confirmation(change), change.key)
            for key in self._view.ended(path):
                producer.send(self._partition, None, key)

    def _find_topic(self) -> bool:
        with closing(self._open_admin()) as admin:
            partitions = [key.partition for key in admin.partition_states([TOPIC])]
            if partitions:
                _check_topic(partitions, dict(admin.dynamic_configs(ResourceKind.TOPIC, [TOPIC]).get(TOPIC, {})))
        self._topic_is_there = bool(partitions)
        return self._topic_is_there

    def _make_topic(self) -> None:
        if self._topic_is_there or self._find_topic():
            return
        with closing(self._open_admin()) as admin:
            brokers = replicas_of_new_topic(admin.cluster().brokers, TOPIC)
            in_sync = "2" if len(brokers) == MOST_REPLICAS else "1"
            error = admin.create_topic(TOPIC, {0: brokers}, {**_CONFIGS, "min.insync.replicas": in_sync})
        if error is not None and error.name != "TopicAlreadyExistsError":
            raise OperationFailedError(
                f"cannot create topic {TOPIC}: {error}", hint="grant CREATE on it, or keep control_store elsewhere"
            )
        if not wait_until(time, self._answer_limit_s, self._find_topic, _POLL_S):
            raise TryLaterError(f"topic {TOPIC} was created but is not visible yet")

    def _forget(self) -> None:
        """Drop the clients and all that was read, so that the next call begins again."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = self._producer = None
        self._view, self._next_offset = LogView(_SOURCE), 0
        self._topic_is_there = False


def _version(found: VersionedValue | None) -> int | None:
    return None if found is None else found.version


def _check_topic(partitions: Collection[int], configs: dict[str, str]) -> None:
    """Refuse a topic in which documents could get lost."""
    faults = []
    if len(partitions) != 1:
        faults.append(f"it has {len(partitions)} partitions")
    if configs.get("cleanup.policy") != "compact":
        faults.append(f"cleanup.policy is {configs.get('cleanup.policy', 'not set')}, not compact")
    lag = configs.get("min.compaction.lag.ms", "0")
    if not lag.isdecimal() or int(lag) < COMPACTION_LAG_MS:
        faults.append(f"min.compaction.lag.ms is below {COMPACTION_LAG_MS}")
    if faults:
        raise UsageError(
            f"topic {TOPIC} cannot be a control store: {'; '.join(faults)}",
            hint="correct its configuration, or delete it while no kafkakit runs",
        )


RECORD_KIND = "control-change"
KEY_PREFIX = b"change/"
NEVER = -1

_Offset = Annotated[int, Meta(ge=0, le=2**62)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Header:
    path: Annotated[str, Meta(max_length=1000)]
    parent: Annotated[int, Meta(ge=NEVER, le=2**62)]
    version: _Offset | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PathChange:
    """One change of one path: `version` is its offset, `parent` the version that it replaces if it wins."""

    key: bytes
    path: str
    parent: int
    version: int
    value: bytes


def encode_change(path: str, parent: int, value: bytes) -> bytes:
    """The record of a change that is to be decided; an empty value deletes."""
    return encode_document(RECORD_KIND, _Header(path=path, parent=parent)) + value


def encode_confirmation(change: PathChange) -> bytes:
    """The record that a change has won, to be written under the change's key."""
    header = _Header(path=change.path, parent=change.parent, version=change.version)
    return encode_document(RECORD_KIND, header) + change.value


class LogView:
    """What the records of the partition's log mean, read in order from its beginning up to some offset.

    Memory is that of the documents and of the changes that are not ended yet.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._changes: dict[str, dict[int, PathChange]] = {}
        self._by_key: dict[bytes, PathChange] = {}
        self._confirmed: dict[str, int] = {}

    def add(self, offset: int, key: bytes, value: bytes) -> None:
        """Take in one record, empty for a tombstone; foreign keys are passed over.

        Raises `InputError` for one of ours that cannot be read, such as one of a newer kafkakit.
        """
        if not key.startswith(KEY_PREFIX):
            return
        earlier = self._by_key.pop(key, None)
        if earlier is not None:
            del self._changes[earlier.path][earlier.version]
        if not value:
            return
        head, _, body = value.partition(b"\n")
        header = decode_document(head, RECORD_KIND, _Header, f"{self._source}, offset {offset}")
        version = offset if header.version is None else header.version
        change = PathChange(key=key, path=header.path, parent=header.parent, version=version, value=body)
        self._by_key[key] = change
        self._changes.setdefault(change.path, {})[version] = change
        if header.version is not None:
            self._confirmed[change.path] = max(version, self._confirmed.get(change.path, NEVER))

    def head(self, path: str) -> int:
        """The present version of a path, of a deletion too; -1 for one that never was."""
        first: dict[int, int] = {}
        for change in self._changes.get(path, {}).values():
            if change.version > change.parent:
                first[change.parent] = min(change.version, first.get(change.parent, change.version))
        version = self._confirmed.get(path, NEVER)
        while version in first:
            version = first[version]
        return version

    def document(self, path: str) -> VersionedValue | None:
        """What the path holds."""
        version = self.head(path)
        change = self._changes.get(path, {}).get(version)
        return VersionedValue(value=change.value, version=version) if change is not None and change.value else None

    def change(self, path: str, version: int) -> PathChange:
        """A change that is in the view."""
        return self._changes[path][version]

    def paths(self) -> tuple[str, ...]:
        """All paths that hold something, sorted."""
        return tuple(sorted(path for path in self._changes if self.document(path) is not None))

    def ended(self, path: str) -> tuple[bytes, ...]:
        """Keys that are not needed any more: those of changes below the highest confirmed version, oldest first."""
        confirmed = self._confirmed.get(path, NEVER)
        changes = self._changes.get(path, {})
        return tuple(changes[version].key for version in sorted(changes) if version < confirmed)
