"""Consumers with confluent-kafka: a member of a group, and a reader of chosen partitions that commits for a group.

The reader commits without being a member. Both hand records over by partition. Settings are named in librdkafka's
CONFIGURATION.md.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import Any

from kafkakit.adapters.kafka.data import (
    AccessWatch,
    Explain,
    client_settings,
    code_of,
    make_client,
    reason,
    unanswered_error,
)
from kafkakit.adapters.kafka.listener_probe import explain
from kafkakit.adapters.kafka.stream_producer import producer_settings
from kafkakit.config.security import Security, to_confluent
from kafkakit.core.cluster_facts import CommittedOffset
from kafkakit.core.errors import OperationFailedError, TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import OutgoingRecord
from kafkakit.ports.streams import (
    NO_LEASE,
    TRANSACTION_S,
    AssignmentListener,
    MemberLease,
    MemberRule,
    ReadBatch,
    TransactionRule,
)

_LOG = logging.getLogger(__name__)
_COMMITTED_S = 20.0
EXPLAIN_EVERY_S = 30.0
"""A look at why brokers are gone takes seconds, in which nothing is read."""
TIMED_OUT = "TIMED_OUT"
RECEIVE_LIMIT_BYTES = 64 << 20
"""The limit of an answer. librdkafka gives up a zstd batch that becomes more than about a third of it, and the member
reports it as unreadable; gzip, lz4 and snappy it decodes whole."""

READ_AHEAD_KB = 32 * 1024
"""The limit of what is held unread."""


LONG_SESSION_MS = 45_000
_POLL_MS = 300_000
_HEARTBEAT_MS = 1_000
"""Members learn of a rebalance with an answer to a heartbeat; with Kafka's 3 s, two rounds take 5 s."""
_CLOSE_S = 5.0


class KafkaGroupConsumer:
    """Implements `ports.streams.GroupConsumer`.

    Brokers that refuse the session as too short are asked for `LONG_SESSION_MS`, Kafka's own default. `instance` is
    `group.instance.id`, and `own` are settings that passed `own_settings`. Without `fetches` it is a member that reads
    nothing: librdkafka is given no partitions, and so sends no fetch.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        security: Security,
        group: str,
        *,
        session_timeout_ms: int = LONG_SESSION_MS,
        instance: str = "",
        fetches: bool = True,
        own: Mapping[str, Any] | None = None,
    ) -> None:
        self._listener: AssignmentListener | None = None
        self._broken: str | None = None
        self._asked: Mapping[TopicPartition, CommittedOffset] = {}
        self._is_revoking = False
        self._fetches = fetches
        self._explain: Explain = partial(explain, bootstrap_servers, security)
        self._access = AccessWatch(self._explain, EXPLAIN_EVERY_S)
        logger = logging.Logger("kafkakit.librdkafka")  # not from the tree of loggers: nothing comes to stderr
        logger.addHandler(logging.NullHandler())
        self._topics: tuple[str, ...] = ()
        self._settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "client.id": "kafkakit",
            "group.id": group,
            "log_level": 2,
            "logger": logger,
            "partition.assignment.strategy": "cooperative-sticky",
            **_session(session_timeout_ms),
            **({"group.instance.id": instance} if instance else {}),
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.message.max.bytes": 1 << 20,
            "fetch.max.bytes": RECEIVE_LIMIT_BYTES // 4,
            "receive.message.max.bytes": RECEIVE_LIMIT_BYTES,
            "queued.max.messages.kbytes": READ_AHEAD_KB,
            "queued.min.messages": 100_000,
            "fetch.queue.backoff.ms": 10,  # by default a full queue stops a fetch for a second
            "fetch.wait.max.ms": 100,
            "fetch.error.backoff.ms": 100,
            "socket.timeout.ms": 10_000,
            "socket.connection.setup.timeout.ms": 5_000,
            "reconnect.backoff.max.ms": 1_000,
            "topic.metadata.refresh.interval.ms": 5_000,
            "on_commit": self._on_commit,
            "error_cb": self._access.note,
            **to_confluent(security),
            **(own or {}),
        }
        self._client = self._opened()

    def _opened(self) -> Any:
        from confluent_kafka import Consumer

        return make_client(Consumer, self._settings)

    def subscribe(self, topics: Collection[str], listener: AssignmentListener) -> None:
        self._listener, self._topics = listener, tuple(sorted(topics))
        if topics:
            self._client.subscribe(
                list(self._topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
            )
        else:
            self._client.unsubscribe()

    def poll(self, limit: int, timeout_s: float) -> Sequence[ReadBatch]:
        """See the port. `consume` alone would wait for all of `limit`, so the first record is waited for."""
        from confluent_kafka import KafkaException

        try:
            first = self._client.poll(timeout_s)
            messages = [] if first is None else [first, *self._client.consume(limit - 1, 0)]
        except KafkaException as error:
            raise unanswered_error("cannot read as a member of the group", error, self._explain) from None
        if self._broken is not None:
            raise TryLaterError(self._broken)
        self._access.require()
        records, events = _without_events(messages)
        if any(_is_refused_session(event) for event in events):
            self._lengthen_session()
            return []
        return read_batches(records, events)

    def _lengthen_session(self) -> None:
        """Join again with a session that brokers take by default; nothing was assigned before it."""
        refused_ms = self._settings["session.timeout.ms"]
        if refused_ms >= LONG_SESSION_MS:
            raise OperationFailedError(
                f"the group coordinator refuses a session.timeout.ms of {refused_ms:,}",
                hint="set MemberRule.session_s to a time between group.min.session.timeout.ms and "
                "group.max.session.timeout.ms of the brokers",
            )
        client, listener = self._client, self._listener
        self._settings |= _session(LONG_SESSION_MS)
        self._client = self._opened()
        _call_within(partial(_close, client, leaves=False), _CLOSE_S)
        if listener is not None:
            self.subscribe(self._topics, listener)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self._client.pause(_places(partitions))

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        self._client.resume(_places(partitions))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """See the port; a partition that was assigned just now cannot seek, so its assignment is made again."""
        from confluent_kafka import KafkaException
        from confluent_kafka import TopicPartition as Place

        try:
            self._client.seek(Place(*partition, offset))
        except KafkaException:
            place = Place(*partition, offset)
            self._client.incremental_unassign([place])
            self._client.incremental_assign([place])

    def commit(
        self, commits: Mapping[TopicPartition, CommittedOffset], timeout_s: float
    ) -> Mapping[TopicPartition, str]:
        """See the port. librdkafka waits 45 s and more for a cluster that is gone, so a thread waits in its place.

        Not while partitions are revoked: then librdkafka lets only the thread that polls commit, and the cluster just
        answered.
        """
        answers: dict[TopicPartition, str] = {}

        def work() -> None:
            answers.update(
                _answers(commits, lambda: self._client.commit(offsets=_commits(commits), asynchronous=False))
            )

        if self._is_revoking:
            work()
        else:
            _call_within(work, timeout_s)
        return dict(answers) or dict.fromkeys(commits, TIMED_OUT)

    def commit_later(self, commits: Mapping[TopicPartition, CommittedOffset]) -> None:
        from confluent_kafka import KafkaException

        self._asked = commits
        try:
            self._client.commit(offsets=_commits(commits), asynchronous=True)
        except KafkaException as error:
            if self._listener is not None:
                self._listener.committed(dict.fromkeys(commits, _name(error.args[0])))

    def end_offset(self, partition: TopicPartition) -> int | None:
        from confluent_kafka import KafkaException
        from confluent_kafka import TopicPartition as Place

        try:
            _, high = self._client.get_watermark_offsets(Place(*partition), cached=True)
        except KafkaException:
            return None
        return int(high) if high >= 0 else None

    def member_id(self) -> str:
        return str(self._client.memberid() or "")

    def lease(self, partition: TopicPartition) -> MemberLease:
        """See the port: the group fences."""
        del partition
        return NO_LEASE

    def close(self, timeout_s: float) -> None:
        """See the port: a close takes 29 s and more on a cluster that is gone."""
        if not timeout_s:
            self._listener = None
        leaves = bool(self._topics) and "group.instance.id" not in self._settings
        try:
            _call_within(partial(_close, self._client, leaves=leaves), timeout_s)
        except Exception as error:  # the caller is at its end: what follows it must still be closed
            _LOG.error("closing a member of a group failed: %r", error)

    def _on_assign(self, client: Any, places: list[Any]) -> None:
        from confluent_kafka import OFFSET_BEGINNING, KafkaException

        if not places:
            return
        try:
            found = client.committed(places, timeout=_COMMITTED_S)
        except KafkaException as error:
            # Without them nothing may be read; a new member asks again.
            self._broken = f"cannot read what the group committed: {reason(error)}"
            return
        failed = next((place for place in found if place.error is not None), None)
        if failed is not None:
            self._broken = f"cannot read what the group committed for {failed.topic}: {failed.error.str()}"
            return
        committed: dict[TopicPartition, CommittedOffset | None] = {}
        for place in found:
            is_there = place.offset >= 0
            committed[TopicPartition(place.topic, place.partition)] = (
                CommittedOffset(offset=place.offset, metadata=metadata_of(place)) if is_there else None
            )
            place.offset = place.offset if is_there else OFFSET_BEGINNING
        client.incremental_assign(found if self._fetches else [])
        if self._fetches:
            client.resume(found)  # librdkafka keeps a pause of before, and nothing would ever be read
        if self._listener is not None:
            self._listener.assigned(committed)

    def _on_revoke(self, client: Any, places: list[Any]) -> None:
        self._is_revoking = True
        try:
            if self._listener is not None:
                self._listener.revoked(_keys(places))
        finally:
            self._is_revoking = False
        client.incremental_unassign(places if self._fetches else [])

    def _on_lost(self, client: Any, places: list[Any]) -> None:
        if self._listener is not None:
            self._listener.lost(_keys(places))
        client.incremental_unassign(places if self._fetches else [])

    def _on_commit(self, error: Any, places: list[Any]) -> None:
        # librdkafka tells of each commit, those that were waited for too.
        told = {(place.topic, place.partition): (place.offset, place.metadata or "") for place in places}
        asked = {tuple(key): (commit.offset, commit.metadata) for key, commit in self._asked.items()}
        if self._listener is not None and told == asked:
            self._listener.committed(_results(error, places))


def _session(timeout_ms: int) -> dict[str, Any]:
    """A member may miss two heartbeats or more; librdkafka wants polls to be allowed as long as the session."""
    return {
        "session.timeout.ms": timeout_ms,
        "heartbeat.interval.ms": min(_HEARTBEAT_MS, timeout_ms // 3),
        "max.poll.interval.ms": max(_POLL_MS, timeout_ms),
    }


def _is_refused_session(message: Any) -> bool:
    error = message.error()
    return error is not None and error.name() == "INVALID_SESSION_TIMEOUT"


def _answers(
    commits: Mapping[TopicPartition, CommittedOffset], call: Callable[[], list[Any]]
) -> dict[TopicPartition, str]:
    from confluent_kafka import KafkaException

    try:
        return _results(None, call())
    except KafkaException as error:
        return dict.fromkeys(commits, _name(error.args[0]))
    except RuntimeError:  # closed meanwhile
        return dict.fromkeys(commits, TIMED_OUT)


def _results(error: Any, places: list[Any]) -> dict[TopicPartition, str]:
    whole = "" if error is None else _name(error)
    return {
        TopicPartition(place.topic, place.partition): _name(place.error) if place.error is not None else whole
        for place in places
    }


_QUIET_POLLS, _QUIET_S = 2, 0.03


def _close(client: Any, *, leaves: bool) -> None:
    """Serve what is under way in the group, and close; with `leaves` the member leaves the group before.

    An assignment or a revocation that `close` itself finds waiting is answered to a group that librdkafka has ended
    already: the call never returns, and holds the lock of Python's interpreter meanwhile. A member with a name does not
    leave, as it would lose its partitions.
    """
    until_s, quiet = time.monotonic() + _CLOSE_S, 0
    try:
        if leaves:
            client.unsubscribe()
        while quiet < _QUIET_POLLS and time.monotonic() < until_s:
            found = client.poll(_QUIET_S)
            quiet = quiet + 1 if not leaves or (found is None and not client.assignment()) else 0
    finally:
        client.close()


def _call_within(call: Callable[[], object], timeout_s: float) -> None:
    """Wait so long for a call, and raise what it raises; what takes longer goes on, and what it raises is logged."""
    ended: Future[object] = Future()

    def run() -> None:
        try:
            ended.set_result(call())
        except BaseException as error:
            ended.set_exception(error)

    threading.Thread(target=run, name="kafkakit-client-call", daemon=True).start()
    if wait([ended], max(0.0, timeout_s)).done:
        ended.result()
    else:
        ended.add_done_callback(_log_failure)


def _log_failure(ended: "Future[object]") -> None:
    if (error := ended.exception()) is not None:
        _LOG.error("a call that took too long failed: %r", error)


def _commits(commits: Mapping[TopicPartition, CommittedOffset]) -> list[Any]:
    from confluent_kafka import TopicPartition as Place

    return [
        Place(*key, commit.offset, commit.metadata) if commit.metadata else Place(*key, commit.offset)
        for key, commit in sorted(commits.items())
    ]


def _places(partitions: Collection[TopicPartition]) -> list[Any]:
    from confluent_kafka import TopicPartition as Place

    return [Place(*partition) for partition in sorted(partitions)]


def metadata_of(place: Any) -> str:
    """What is committed beside the offset. confluent-kafka reads on behind a text that was stored without a NUL at its
    end, as other clients do; where that is not Unicode, nothing of it is known, and offsets are handled again."""
    try:
        return str(place.metadata or "")
    except UnicodeDecodeError:
        return ""


def _keys(places: list[Any]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(TopicPartition(place.topic, place.partition) for place in places))


def _name(error: Any) -> str:
    return str(error.name()) if hasattr(error, "name") else str(error)


def _without_events(messages: list[Any]) -> tuple[list[Any], list[Any]]:
    """Records, and messages that tell of an error or of the end of a partition.

    A consumer handles a record in about a microsecond, so what is done for each of them is done by `map`.
    """
    from confluent_kafka import Message

    if not any(map(Message.error, messages)):
        return messages, []
    events = [message for message in messages if message.error() is not None]
    return [message for message in messages if message.error() is None], events


def read_batches(messages: list[Any], events: list[Any]) -> list[ReadBatch]:
    """Records by partition; the end of a partition tells how far the read went."""
    from confluent_kafka import Message

    found: dict[tuple[str, int], ReadBatch] = {}
    topics, partitions = list(map(Message.topic, messages)), list(map(Message.partition, messages))
    offsets = list(map(Message.offset, messages))
    has_one_topic = not topics or topics.count(topics[0]) == len(topics)
    at = 0
    while at < len(messages):
        end = _end_of_run(partitions, at)
        if not has_one_topic:
            end = min(end, _end_of_run(topics, at))
        batch = _batch(found, topics[at], partitions[at])
        if batch.records:
            batch.records += messages[at:end]
            batch.offsets += offsets[at:end]
        else:
            batch.records, batch.offsets = messages[at:end], offsets[at:end]
        batch.next_offset = offsets[end - 1] + 1
        at = end
    for event in events:
        _note_event(found, event)
    return list(found.values())


def _end_of_run(values: Sequence[object], at: int) -> int:
    """Where another value begins; messages of a partition come in runs of what one fetch brought."""
    value, step, end = values[at], 256, at + 1
    while end < len(values):
        stop = min(end + step, len(values))
        same = values[end:stop].count(value)
        if same < stop - end:
            while values[end] == value:
                end += 1
            return end
        end = stop
    return end


def _note_event(found: dict[tuple[str, int], ReadBatch], event: Any) -> None:
    from confluent_kafka import KafkaError

    error = event.error()
    if error.code() == KafkaError._PARTITION_EOF:
        batch = _batch(found, event.topic(), event.partition())
        batch.next_offset = max(batch.next_offset, event.offset())
    elif error.code() in (
        KafkaError._BAD_COMPRESSION,
        KafkaError._BAD_MSG,
        KafkaError._NOT_IMPLEMENTED,  # a damaged header names a format that is none
        KafkaError.MSG_SIZE_TOO_LARGE,
    ):
        _batch(found, event.topic(), event.partition()).unreadable = error.name()
    elif error.fatal():
        raise TryLaterError(f"cannot read as a member of the group: {error.str()}")
    elif error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED):
        raise OperationFailedError(f"cannot read {event.topic() or 'as a member of the group'}: {error.str()}")


def _batch(found: dict[tuple[str, int], ReadBatch], topic: str, partition: int) -> ReadBatch:
    batch = found.get((topic, partition))
    if batch is None:
        batch = ReadBatch(partition=TopicPartition(topic, partition), records=[], offsets=[], next_offset=-1)
        found[topic, partition] = batch
    return batch


_METADATA, _GENERATION = b"CGMDv", slice(7, 11)
"""How librdkafka writes the metadata of a group: a version, the generation, the group and the member."""


class KafkaTransactionalConsumer(KafkaGroupConsumer):
    """Implements `ports.streams.TransactionalConsumer`. Making one ends what others left open under its id."""

    def __init__(
        self,
        bootstrap_servers: str,
        security: Security,
        group: str,
        rule: MemberRule,
        writing: TransactionRule,
        own: Mapping[str, Any] | None = None,
    ) -> None:
        from confluent_kafka import KafkaException, Producer

        transactional_id, session_ms = writing.transactional_id, round(rule.session_s * 1000)
        settings = {**producer_settings(writing.limits), "client.id": writing.client_id}
        needed = {"transactional.id": transactional_id, "transaction.timeout.ms": round(TRANSACTION_S * 1000)}
        needed["delivery.timeout.ms"] = needed["transaction.timeout.ms"]
        base = {**client_settings(bootstrap_servers, security), **(own or {})}
        self._producer: Any = make_client(Producer, {**base, **settings, **needed})
        try:
            self._producer.init_transactions(_COMMITTED_S)
        except KafkaException as error:
            failed = partial(explain, bootstrap_servers, security)
            if code_of(error) in _NO_TRANSACTIONS:
                raise OperationFailedError(
                    f"cannot begin transactions as {transactional_id}: {reason(error)}",
                    hint="the user needs the right WRITE on this transactional id",
                ) from None
            raise unanswered_error("cannot begin transactions", error, failed) from None
        super().__init__(
            bootstrap_servers, security, group, session_timeout_ms=session_ms, instance=rule.instance, own=own
        )

    def write_and_commit(
        self,
        topic: str,
        records: Sequence[OutgoingRecord],
        commits: Mapping[TopicPartition, CommittedOffset],
        timeout_s: float,
    ) -> str:
        from confluent_kafka import KafkaException

        if self._broken is not None:
            return self._broken
        member = self._client.consumer_group_metadata()
        # A member without a generation would commit as a process that is none, which brokers do not fence.
        if not member.startswith(_METADATA) or int.from_bytes(member[_GENERATION], sys.byteorder, signed=True) < 0:
            return "this member has no generation of the group"
        deadline_s, producer, is_ending = time.monotonic() + timeout_s, self._producer, False
        try:
            producer.begin_transaction()
            for record in records:
                self._produce(topic, record, deadline_s)
            _insist(lambda left_s: producer.send_offsets_to_transaction(_commits(commits), member, left_s), deadline_s)
            is_ending = True
            _insist(producer.commit_transaction, deadline_s)
        except KafkaException as error:
            return self._aborted(error, is_ending)
        return ""

    def _produce(self, topic: str, record: OutgoingRecord, deadline_s: float) -> None:
        value, key, headers, at_ms, partition = record
        while True:
            try:
                self._producer.produce(
                    topic,
                    value,
                    key,
                    -1 if partition is None else partition,
                    headers=list(headers),
                    timestamp=at_ms or 0,
                )
                self._producer.poll(0)
                return
            except BufferError:
                if time.monotonic() >= deadline_s:
                    raise _timed_out() from None
                self._producer.poll(0.05)

    def _aborted(self, failure: Exception, is_ending: bool) -> str:
        """Take a transaction back; where that fails, or its end is not known, this member is used no more."""
        from confluent_kafka import KafkaException

        error = failure.args[0]
        too_large = code_of(failure) == _METADATA_TOO_LARGE
        words = _name(error) if too_large else f"the transaction failed: {reason(failure)}"
        try:
            if error.fatal() or (is_ending and not error.txn_requires_abort()):
                raise failure
            _insist(self._producer.abort_transaction, time.monotonic() + _ABORT_S)
        except KafkaException as last:
            self._broken = words if last is failure else f"{words}; and it could not be taken back: {reason(last)}"
            self._producer.purge(in_queue=True, in_flight=True, blocking=False)
        return words

    def close(self, timeout_s: float) -> None:
        super().close(timeout_s)
        self._producer = None


def _insist(call: Callable[[float], object], deadline_s: float) -> None:
    """Call until it is done, as librdkafka wants it for errors that pass; each call continues the one before."""
    from confluent_kafka import KafkaException

    while True:
        try:
            call(max(0.1, deadline_s - time.monotonic()))
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() >= deadline_s:
                raise


def _timed_out() -> Exception:
    from confluent_kafka import KafkaError, KafkaException

    found: Exception = KafkaException(KafkaError(KafkaError._TIMED_OUT))
    return found


_ABORT_S = 10.0
# TRANSACTIONAL_ID_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED
_NO_TRANSACTIONS = frozenset({53, 31})
_METADATA_TOO_LARGE = 12


class KafkaAssignedConsumer(KafkaGroupConsumer):
    """Implements `ports.streams.AssignedConsumer`: librdkafka joins no group unless it subscribes."""

    def listen(self, listener: AssignmentListener) -> None:
        self._listener = listener

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        from confluent_kafka import TopicPartition as Place

        places = [Place(*key, offset) for key, offset in sorted(offsets.items())]
        self._client.incremental_assign(places)
        self._client.resume(places)  # see `_on_assign`

    def unassign(self, partitions: Collection[TopicPartition]) -> None:
        from confluent_kafka import TopicPartition as Place

        self._client.incremental_unassign([Place(*key) for key in sorted(partitions)])

    def committed(
        self, partitions: Collection[TopicPartition], timeout_s: float
    ) -> Mapping[TopicPartition, CommittedOffset | None]:
        """See the port; one request."""
        from confluent_kafka import KafkaException
        from confluent_kafka import TopicPartition as Place

        try:
            places = self._client.committed([Place(*key) for key in sorted(partitions)], timeout=timeout_s)
        except KafkaException as error:
            raise unanswered_error("cannot read what the group committed", error, self._explain) from None
        found: dict[TopicPartition, CommittedOffset | None] = {}
        for place in places:
            if place.error is not None:
                raise TryLaterError(f"cannot read what the group committed for {place.topic}: {place.error.str()}")
            commit = CommittedOffset(offset=place.offset, metadata=metadata_of(place)) if place.offset >= 0 else None
            found[TopicPartition(place.topic, place.partition)] = commit
        return found

    def start_offset(self, partition: TopicPartition, timeout_s: float) -> int:
        """See the port; one request."""
        from confluent_kafka import KafkaException
        from confluent_kafka import TopicPartition as Place

        try:
            low, _ = self._client.get_watermark_offsets(Place(*partition), timeout=timeout_s)
        except KafkaException as error:
            raise unanswered_error(f"cannot read where {partition} begins", error, self._explain) from None
        return int(low)
