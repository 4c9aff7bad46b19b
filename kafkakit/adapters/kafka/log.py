"""`ports.data.LogReader` over kafka-python's protocol: raw batches, never decompressed here.

An answer is waited for no longer than the caller allows. kafka-python's public calls wait for each answer; its
connection manager, used here as in `KafkaSession`, does not. An answer that comes late is kept in its `PendingRequest`.
Fetch and ListOffsets are built and read here. Which broker leads a partition, and under which topic id, is remembered
between requests and corrected by errors.
"""

import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from kafkakit.adapters.kafka.session import (
    INVALID_TOPIC,
    TOPIC_DENIED,
    UNKNOWN_TOPIC,
    Errors,
    KafkaSession,
    error_from,
    error_of,
    receive_whole_answers,
    refused_error,
    require_expected,
)
from kafkakit.config.security import Security
from kafkakit.core.cluster_facts import FetchedBatches, ItemError, LogSpan, TopicPlaces
from kafkakit.core.errors import TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.ports.acting import pause
from kafkakit.streams.model.commit import NO_TOPIC_ID

MARGIN_S = 0.05
"""How long an answer that is due may be on its way before its partitions come back empty."""
GRACE_S = 0.005
"""How long the answers of other leaders are waited for when one has brought records."""
KEPT_S = 5.0
"""An answer that no fetch took for this long is requested again: its end offsets are too old."""
ANSWER_LIMIT = 64 * 1024 * 1024
PARTITIONS_PER_REQUEST = 20_000


class PendingRequest:
    """A request on its way to one broker; `answer` is the response or the exception, None while there is neither."""

    __slots__ = ("answer", "answered", "broker", "due", "request", "sent")

    def __init__(self, broker: int, request: Any, allowed_s: float = 0.0) -> None:
        self.broker = broker
        self.request = request
        self.sent = time.monotonic()
        self.due = self.sent + allowed_s + SILENT_AFTER_S
        self.answer: Any = None
        self.answered = 0.0

    @property
    def age_s(self) -> float:
        """Seconds since the answer came, 0 while there is none."""
        return time.monotonic() - self.answered if self.answer is not None else 0.0

    @property
    def overdue(self) -> bool:
        """Whether the broker has owed the answer for longer than is usual."""
        return self.answer is None and time.monotonic() > self.due


class _PendingFetch:
    """A fetch under way: what was requested of one leader, and its answer once that is decoded."""

    __slots__ = ("ids", "offsets", "parts", "pending")

    def __init__(self, pending: PendingRequest, offsets: dict[TopicPartition, int], ids: Mapping[str, bytes]) -> None:
        self.pending = pending
        self.offsets = offsets
        self.ids = ids
        self.parts: dict[TopicPartition, FetchedBatches] | None = None


class KafkaLog:
    """Raw reads of one cluster; connects on first use, not for use by two threads at once.

    A fetch whose answer is late stays on its way: its partitions come back empty and unanswered, and the next
    fetch from the same offsets takes what has come. So a leader that is slow or gone costs the others nothing.
    `committed` makes it a reader of committed data.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        security: Security,
        *,
        request_timeout_s: float = 30,
        bootstrap_timeout_s: float = 10,
        committed: bool = False,
    ) -> None:
        self._committed = committed
        self._connections = FetchConnections(
            bootstrap_servers, security, request_timeout_s, bootstrap_timeout_s, with_views=committed
        )
        self._routes = Routes(self._connections)
        self._fetches: dict[TopicPartition, _PendingFetch] = {}
        self._served: dict[TopicPartition, int] = {}
        self._round = 0

    def close(self) -> None:
        self._fetches.clear()
        self._connections.close()

    def cluster_id(self) -> str:
        from kafka.protocol.metadata import MetadataRequest

        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        return str(self._connections.request("describe the cluster", request).cluster_id)

    def places(self, topics: Collection[str] | None = None) -> Mapping[str, TopicPlaces]:
        """See `ports.LogReader`; one request for each 500 names."""
        return self._routes.look_up(topics)

    def spans(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogSpan | ItemError]:
        # In this order on one connection: an end requested after the stable offset is never below it.
        order = [(EARLIEST, False), (LATEST, True), (LATEST, False)]
        rounds = [(dict.fromkeys(sorted(set(partitions)), when), committed) for when, committed in order]
        found = self._offsets(rounds)
        return {key: _span(*values) for key, values in found.items()}

    def offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | ItemError | None]:
        # Negative times have a meaning of their own in the protocol.
        wanted = {key: max(0, times_ms[key]) for key in sorted(times_ms)}
        found = self._offsets([(wanted, False)])
        return {key: None if value == -1 else value for key, (value,) in found.items()}

    def fetch(
        self, offsets: Mapping[TopicPartition, int], *, max_bytes: int, wait_ms: int, partition_bytes: int | None = None
    ) -> Mapping[TopicPartition, FetchedBatches]:
        found = self._send(offsets, max_bytes, wait_ms, partition_bytes)
        for key, failed in found.items():
            if failed.error is RECREATED:
                self._routes.accept(key)
        fetches = {id(fetch): fetch for fetch in (self._fetches[key] for key in offsets if key not in found)}
        limit_s = wait_ms / 1000 + MARGIN_S
        if fetches:
            self._connections.wait([fetch.pending for fetch in fetches.values()], limit_s, _has_records, GRACE_S)
        for fetch in fetches.values():
            self._read(fetch)
        for key in offsets:
            if key not in found:
                found[key] = self._claim(key)
        if found and all(answer.error is not None for answer in found.values()):
            # Nothing else limits how often a caller fetches again.
            pause(time, min(limit_s, 0.1))
        return dict(sorted(found.items()))

    def request_ahead(
        self, offsets: Mapping[TopicPartition, int], *, max_bytes: int, wait_ms: int, partition_bytes: int | None = None
    ) -> None:
        self._send(offsets, max_bytes, wait_ms, partition_bytes)

    def _send(
        self, offsets: Mapping[TopicPartition, int], max_bytes: int, wait_ms: int, partition_bytes: int | None
    ) -> dict[TopicPartition, FetchedBatches]:
        """Send what is not under way yet; returns the partitions that cannot be requested, with the reason."""
        left = [key for key, fetch in self._fetches.items() if key not in offsets and fetch.pending.age_s >= KEPT_S]
        for key in left:  # its reader has lost the partition, or has no memory for more
            del self._fetches[key]
        missing = [key for key, offset in offsets.items() if not self._is_under_way(key, offset)]
        refused: dict[TopicPartition, FetchedBatches] = {}
        wanted: dict[int, list[TopicPartition]] = {}
        for key, leader in self._routes.leaders(missing).items():
            if isinstance(leader, ItemError):
                refused[key] = _failed_fetch(leader)
            elif self._routes.recreated(key):
                refused[key] = _failed_fetch(RECREATED)
            elif self._connections.silent(leader):
                refused[key] = _failed_fetch(_silence(leader))
                self._routes.forget([key.topic])
            else:
                wanted.setdefault(leader, []).append(key)
        limit = min(max_bytes, ANSWER_LIMIT)
        fetches = []
        for leader, keys in sorted(wanted.items()):
            # The partition served last comes last, or one busy partition could starve the others.
            keys.sort(key=lambda key: (self._served.get(key, 0), key))
            part = {key: offsets[key] for key in keys}
            ids = self._routes.ids({key.topic for key in keys})
            request = fetch_request(
                part, ids, limit, wait_ms, min(partition_bytes or limit, limit), committed=self._committed
            )
            fetches.append(_PendingFetch(PendingRequest(leader, request, wait_ms / 1000), part, ids))
        self._connections.send([fetch.pending for fetch in fetches])
        for fetch in fetches:
            self._fetches |= dict.fromkeys(fetch.offsets, fetch)
        return refused

    def _is_under_way(self, key: TopicPartition, offset: int) -> bool:
        fetch = self._fetches.get(key)
        return fetch is not None and fetch.offsets[key] == offset and fetch.pending.age_s < KEPT_S

    def _read(self, fetch: _PendingFetch) -> None:
        if fetch.parts is None and fetch.pending.answer is not None:
            fetch.parts, stale = fetched_of(fetch.pending.answer, fetch.offsets, fetch.ids)
            self._routes.forget(stale)

    def _claim(self, key: TopicPartition) -> FetchedBatches:
        fetch = self._fetches[key]
        if fetch.parts is None:
            return _failed_fetch(_silence(fetch.pending.broker)) if fetch.pending.overdue else UNANSWERED
        del self._fetches[key]
        answer = fetch.parts.pop(key)
        if answer.records:
            self._round += 1
            self._served[key] = self._round
        return answer

    def _offsets(
        self, rounds: list[tuple[dict[TopicPartition, int], bool]]
    ) -> dict[TopicPartition, tuple[int | ItemError, ...]]:
        """Request each round's partitions of their leaders; the answers of a partition in the order of the rounds."""
        keys = list(rounds[0][0])
        leaders = self._routes.leaders(keys)
        found: dict[TopicPartition, list[int | ItemError]] = {key: [] for key in keys}
        placed: dict[int, list[TopicPartition]] = {}
        for key, leader in leaders.items():
            if isinstance(leader, ItemError):
                found[key] = [leader] * len(rounds)
            elif self._connections.silent(leader):
                found[key] = [_silence(leader)] * len(rounds)
                self._routes.forget([key.topic])
            else:
                placed.setdefault(leader, []).append(key)
        timeout_ms = int(self._connections.request_timeout_s * 800)
        sent: list[tuple[PendingRequest, list[TopicPartition]]] = []
        for times, committed in rounds:
            for leader, here in sorted(placed.items()):
                for at in range(0, len(here), PARTITIONS_PER_REQUEST):
                    part = here[at : at + PARTITIONS_PER_REQUEST]
                    request = list_offsets_request(
                        {key: times[key] for key in part}, committed=committed, timeout_ms=timeout_ms
                    )
                    sent.append((PendingRequest(leader, request), part))
        self._connections.send([pending for pending, _ in sent])
        limit_s = max((pending.due - pending.sent for pending, _ in sent), default=0.0)
        self._connections.wait([pending for pending, _ in sent], limit_s, _is_never)
        for pending, part in sent:
            answer = pending.answer
            if answer is None:
                answer = TryLaterError(f"broker {pending.broker} does not answer")
            values, stale = offsets_of(answer, part)
            self._routes.forget(stale)
            for key, value in values.items():
                found[key].append(value)
        return {key: tuple(values) for key, values in found.items()}


def _span(start: int | ItemError, stable: int | ItemError, end: int | ItemError) -> LogSpan | ItemError:
    if isinstance(start, ItemError):
        return start
    if isinstance(stable, ItemError):
        return stable
    return end if isinstance(end, ItemError) else LogSpan(start=start, stable=stable, end=end)


def _has_records(pending: PendingRequest) -> bool:
    answer: Any = pending.answer
    if isinstance(answer, Exception):
        return True
    return any(place.records or place.error_code for topic in answer.responses for place in topic.partitions)


def _is_never(pending: PendingRequest) -> bool:
    del pending
    return False


def _failed_fetch(error: ItemError) -> FetchedBatches:
    return FetchedBatches(records=b"", span=UNTOLD, error=error)


def _silence(broker: int) -> ItemError:
    return ItemError(name="KafkaTimeoutError", message=f"broker {broker} does not answer", retriable=True)


SILENT_AFTER_S = 3.0
"""A broker that owes an answer for this long counts as silent: it gets no more requests until it answers."""
REQUEST_LIMIT_S = 30.0
"""After this long a connection is closed: an answer of many megabytes may take a while on a slow line."""


class FetchConnections(KafkaSession):
    """A session that also sends requests without waiting; its client receives large answers at little cost."""

    def __init__(self, *args: Any, with_views: bool = False) -> None:
        super().__init__(*args)
        self._with_views = with_views
        self._answered = threading.Condition()
        self._owed: dict[int, list[PendingRequest]] = {}
        self._prepared: Any = None

    def silent(self, broker: int) -> bool:
        """Whether the broker owes an answer for too long."""
        with self._answered:
            return any(pending.overdue for pending in self._owed.get(broker, ()))

    def send(self, requests: Collection[PendingRequest]) -> None:
        """Send requests, side by side and to each broker in order; `TryLaterError` when no broker can be reached."""
        if not requests:
            return
        manager = self._manager()
        with self._answered:
            for pending in requests:
                self._owed.setdefault(pending.broker, []).append(pending)
        try:
            manager.run(self._sending_all, manager, requests)
        except Exception as error:
            self.close()
            require_expected(error)
            raise TryLaterError(f"the connection to the cluster broke ({error})") from None

    def request(self, what: str, request: Any, *, errors: Errors | None = None, repeat: bool = True) -> Any:
        """See `KafkaSession`; a broker that is known to be silent gets no request."""
        if self._home is not None and self.silent(self._home):
            connections = self._manager()._conns
            answering = [b for b, one in sorted(connections.items()) if one.connected and not self.silent(b)]
            self._home = next(iter(answering), None)
        return super().request(what, request, errors=errors, repeat=repeat)

    def wait(
        self,
        requests: Iterable[PendingRequest],
        limit_s: float,
        enough: Callable[[PendingRequest], bool],
        grace_s: float = 0.0,
    ) -> None:
        """Wait until all requests are answered, `limit_s` has passed, or `grace_s` after one that is `enough`."""
        deadline = time.monotonic() + limit_s
        waiting = list(requests)
        cut = False
        with self._answered:
            while True:
                answered = [pending for pending in waiting if pending.answer is not None]
                waiting = [pending for pending in waiting if pending.answer is None]
                if not cut and any(enough(pending) for pending in answered):
                    deadline, cut = min(deadline, time.monotonic() + grace_s), True
                left = deadline - time.monotonic()
                if not waiting or left <= 0:
                    return
                self._answered.wait(left)

    def close(self) -> None:
        """Drop the client and fail the requests under way."""
        super().close()
        self._prepared = None
        for pending in [pending for owed in self._owed.values() for pending in owed]:
            self._settle(pending, ConnectionError("the connection was closed"))

    def _manager(self) -> Any:
        manager = self._connected()._manager
        if manager is not self._prepared:
            receive_whole_answers(manager, with_views=self._with_views)
            self._prepared = manager
        return manager

    async def _sending_all(self, manager: Any, requests: Collection[PendingRequest]) -> None:
        for pending in requests:
            limit_ms = (pending.due - pending.sent + max(REQUEST_LIMIT_S, self.request_timeout_s)) * 1000
            try:
                future = manager.send(pending.request, node_id=pending.broker, request_timeout_ms=limit_ms)
            except Exception as error:
                self._settle(pending, require_expected(error))
                continue
            # Both see the same end of a future: one of them is called, and only once.
            future.add_callback(lambda answer, pending=pending: self._settle(pending, answer))
            future.add_errback(lambda error, pending=pending: self._settle(pending, error))

    def _settle(self, pending: PendingRequest, answer: Any) -> None:
        with self._answered:
            owed = self._owed.get(pending.broker, [])
            if pending in owed:
                owed.remove(pending)
                pending.answer, pending.answered = answer, time.monotonic()
                self._answered.notify_all()


EARLIEST, LATEST = -2, -1
LAST_WITH_NAMES, NEWEST = 12, 17
"""Versions of Fetch: from 13 on a topic is named by its id only."""
UNTOLD = LogSpan(start=-1, stable=-1, end=-1)
UNANSWERED = FetchedBatches(records=b"", span=UNTOLD)


def fetch_request(
    offsets: Mapping[TopicPartition, int],
    ids: Mapping[str, bytes],
    max_bytes: int,
    wait_ms: int,
    partition_bytes: int,
    *,
    committed: bool = False,
) -> Any:
    """One request without a session, for partitions in the order given: the broker fills its answer in that order."""
    from kafka.protocol.consumer.fetch import FetchRequest

    topic_of = FetchRequest.FetchTopic
    place_of = topic_of.FetchPartition
    grouped: dict[str, list[Any]] = {}
    for key, offset in offsets.items():
        place = place_of(
            partition=key.partition,
            current_leader_epoch=-1,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=partition_bytes,
        )
        grouped.setdefault(key.topic, []).append(place)
    named = any(ids.get(name, NO_TOPIC_ID) == NO_TOPIC_ID for name in grouped)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=int(committed),
        session_id=0,
        session_epoch=-1,
        rack_id="",
        topics=[
            topic_of(topic=name, topic_id=uuid.UUID(bytes=ids.get(name, NO_TOPIC_ID)), partitions=places)
            for name, places in grouped.items()
        ],
        forgotten_topics_data=[],
        max_version=LAST_WITH_NAMES if named else NEWEST,
    )


def fetched_of(
    answer: Any, requested: Iterable[TopicPartition], ids: Mapping[str, bytes]
) -> tuple[dict[TopicPartition, FetchedBatches], set[str]]:
    """What an answer or an exception says of each partition, and the topics whose leaders are to be looked up."""
    keys = list(requested)
    if isinstance(answer, Exception):
        return _all_failed(keys, error_from(answer))
    whole = error_of(answer.error_code or 0)
    if whole is not None:
        return _all_failed(keys, whole)
    names = {value: name for name, value in ids.items()}
    found: dict[TopicPartition, FetchedBatches] = {}
    stale: set[str] = set()
    for topic in answer.responses:
        name = topic.topic or names.get(topic.topic_id.bytes, "")
        for place in topic.partitions:
            found[TopicPartition(name, place.partition_index)] = FetchedBatches(
                records=place.records or b"",
                span=LogSpan(start=place.log_start_offset, stable=place.last_stable_offset, end=place.high_watermark),
                error=error_of(place.error_code),
                aborted=tuple((one.producer_id, one.first_offset) for one in place.aborted_transactions or ()),
            )
            if place.error_code in STALE:
                stale.add(name)
    return {key: found.get(key, UNANSWERED) for key in keys}, stale


def list_offsets_request(times: Mapping[TopicPartition, int], *, committed: bool, timeout_ms: int) -> Any:
    """One request; a time is in ms, or `EARLIEST` or `LATEST`, which with `committed` is the last stable offset."""
    from kafka.protocol.consumer.offsets import ListOffsetsRequest

    topic_of = ListOffsetsRequest.ListOffsetsTopic
    place_of = topic_of.ListOffsetsPartition
    grouped: dict[str, list[Any]] = {}
    for key, time_ms in times.items():
        place = place_of(partition_index=key.partition, current_leader_epoch=-1, timestamp=time_ms)
        grouped.setdefault(key.topic, []).append(place)
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(committed),
        topics=[topic_of(name=name, partitions=places) for name, places in grouped.items()],
        timeout_ms=timeout_ms,
    )


def offsets_of(
    answer: Any, requested: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, int | ItemError], set[str]]:
    """The offset of each partition (-1: none) or its error, and the topics whose leaders are to be looked up."""
    keys = list(requested)
    if isinstance(answer, Exception):
        error = error_from(answer)
        return dict.fromkeys(keys, error), {key.topic for key in keys}
    found: dict[TopicPartition, int | ItemError] = {}
    stale: set[str] = set()
    for topic in answer.topics:
        for place in topic.partitions:
            error_here = error_of(place.error_code)
            found[TopicPartition(topic.name, place.partition_index)] = error_here or int(place.offset)
            if place.error_code in STALE:
                stale.add(topic.name)
    missing = ItemError(name="UnknownServerError", message="the broker left the partition out", retriable=True)
    return {key: found.get(key, missing) for key in keys}, stale


def _all_failed(keys: list[TopicPartition], error: ItemError) -> tuple[dict[TopicPartition, FetchedBatches], set[str]]:
    failed = FetchedBatches(records=b"", span=UNTOLD, error=error)
    return dict.fromkeys(keys, failed), {key.topic for key in keys}


NAMES_PER_REQUEST = 500
STALE = frozenset({3, 5, 6, 9, 56, 74, 75, 78, 100, 103})
"""Kafka's errors for a leader or a topic that is another one now (Errors.java)."""
UNKNOWN = ItemError(name="UnknownTopicOrPartitionError", retriable=True)
HIDDEN = ItemError(name="TopicAuthorizationFailedError", message="grant DESCRIBE on the topic to this user")
LEADERLESS = ItemError(name="LeaderNotAvailableError", retriable=True)
RECREATED = ItemError(name="UnknownTopicIdError", message="the topic was deleted and created again", retriable=True)


class Routes:
    """The leaders of the partitions that were requested.

    Topics that are not remembered are looked up with one request before they are used. Of a topic whose id
    changed every partition that was in use answers once with `RECREATED`, so that no caller reads on without
    noticing.
    """

    def __init__(self, session: KafkaSession) -> None:
        self._session = session
        self._known: dict[str, TopicPlaces] = {}
        self._ids: dict[str, bytes] = {}
        self._hidden: set[str] = set()
        self._used: set[TopicPartition] = set()
        self._recreated: set[TopicPartition] = set()

    def look_up(self, topics: Collection[str] | None) -> dict[str, TopicPlaces]:
        """Request topics (None: all), remember and return them, sorted; absent: those that do not exist or are hidden.

        Raises `OperationFailedError` when all that there is of them is hidden.
        """
        found = self._ask(topics)
        if self._hidden and not found and topics is not None:
            raise refused_error(f"describe topic {min(self._hidden)}", "DESCRIBE on the topic")
        return found

    def _ask(self, topics: Collection[str] | None) -> dict[str, TopicPlaces]:
        from kafka.protocol.metadata import MetadataRequest

        batches: list[list[str] | None] = [None]
        if topics is not None:
            names = sorted(set(topics))
            batches = [names[i : i + NAMES_PER_REQUEST] for i in range(0, len(names), NAMES_PER_REQUEST)]
        found: dict[str, TopicPlaces] = {}
        hidden: set[str] = set()
        for batch in batches:
            wanted = None if batch is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in batch]
            request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
            for topic in self._session.request("describe topics", request).topics:
                if topic.error_code == TOPIC_DENIED:
                    hidden.add(topic.name)
                elif topic.error_code not in (UNKNOWN_TOPIC, INVALID_TOPIC):
                    found[topic.name] = _places(topic)
        for name in self._known.keys() if topics is None else set(topics):
            if name not in found:
                self._known.pop(name, None)
        self._hidden = hidden
        for name, places in found.items():
            self._remember(name, places)
        return dict(sorted(found.items()))

    def leaders(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int | ItemError]:
        """The leader of each partition, or why there is none; requests topics that are not remembered."""
        missing = {key.topic for key in partitions} - self._known.keys()
        if missing:
            self._ask(missing)
        found = {key: self._leader(key) for key in sorted(set(partitions))}
        self.forget({key.topic for key, leader in found.items() if isinstance(leader, ItemError)})
        return found

    def ids(self, topics: Iterable[str]) -> Mapping[str, bytes]:
        """The ids of topics as they were last seen."""
        return {name: self._ids[name] for name in topics if name in self._ids}

    def recreated(self, partition: TopicPartition) -> bool:
        """Whether the partition's topic is another one than it was when it was last read, until `accept`."""
        self._used.add(partition)
        return partition in self._recreated

    def accept(self, partition: TopicPartition) -> None:
        """Read the new topic: its error was returned once."""
        self._recreated.discard(partition)

    def forget(self, topics: Iterable[str]) -> None:
        """Request these topics again before the next use."""
        for name in topics:
            self._known.pop(name, None)

    def _leader(self, key: TopicPartition) -> int | ItemError:
        places = self._known.get(key.topic)
        if places is None or key.partition not in places.leaders:
            return HIDDEN if key.topic in self._hidden else UNKNOWN
        leader = places.leaders[key.partition]
        return LEADERLESS if leader is None else leader

    def _remember(self, name: str, places: TopicPlaces) -> None:
        before = self._ids.get(name)
        if before is not None and before != places.topic_id:
            self._recreated |= {key for key in self._used if key.topic == name}
        self._known[name] = places
        self._ids[name] = places.topic_id


def _places(topic: Any) -> TopicPlaces:
    topic_id = getattr(topic, "topic_id", None)
    leaders = {p.partition_index: p.leader_id if p.leader_id >= 0 else None for p in topic.partitions}
    return TopicPlaces(
        topic_id=NO_TOPIC_ID if topic_id is None else topic_id.bytes, leaders=dict(sorted(leaders.items()))
    )
