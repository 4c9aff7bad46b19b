"""`ports.LogReader` over kafka-python's protocol: raw batches, never decompressed here."""

import time
from collections.abc import Collection, Mapping
from typing import Any

from kafkakit.adapters.kafka import log_requests as requests
from kafkakit.adapters.kafka.log_fetch_connection import FetchConnections, PendingRequest
from kafkakit.adapters.kafka.log_routes import RECREATED, Routes
from kafkakit.config.security import Security
from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import TryLaterError
from kafkakit.core.log_reads import Fetched, LogSpan, TopicPlaces
from kafkakit.core.model import TopicPartition

MARGIN_S = 0.05
"""How long an answer that is due may be on its way before its partitions come back empty."""
GRACE_S = 0.005
"""How long the answers of other leaders are waited for when one has brought records."""
KEPT_S = 5.0
"""An answer that no fetch took for this long is requested again: its end offsets are too old."""
ANSWER_LIMIT = 64 * 1024 * 1024
PARTITIONS_PER_REQUEST = 20_000


class _PendingFetch:
    """A fetch under way: what was requested of one leader, and its answer once that is decoded."""

    __slots__ = ("ids", "offsets", "parts", "pending")

    def __init__(self, pending: PendingRequest, offsets: dict[TopicPartition, int], ids: Mapping[str, bytes]) -> None:
        self.pending = pending
        self.offsets = offsets
        self.ids = ids
        self.parts: dict[TopicPartition, Fetched] | None = None


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
        self._connections = FetchConnections(bootstrap_servers, security, request_timeout_s, bootstrap_timeout_s)
        self._routes = Routes(self._connections)
        self._fetches: dict[TopicPartition, _PendingFetch] = {}
        self._served: dict[TopicPartition, int] = {}
        self._round = 0

    def close(self) -> None:
        """See `ports.LogReader`."""
        self._fetches.clear()
        self._connections.close()

    def cluster_id(self) -> str:
        """See `ports.LogReader`."""
        from kafka.protocol.metadata import MetadataRequest

        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        return str(self._connections.request("describe the cluster", request).cluster_id)

    def places(self, topics: Collection[str] | None = None) -> Mapping[str, TopicPlaces]:
        """See `ports.LogReader`; one request for each 500 names."""
        return self._routes.look_up(topics)

    def spans(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, LogSpan | ItemError]:
        """See `ports.LogReader`."""
        # In this order on one connection: an end requested after the stable offset is never below it.
        order = [(requests.EARLIEST, False), (requests.LATEST, True), (requests.LATEST, False)]
        rounds = [(dict.fromkeys(sorted(set(partitions)), when), committed) for when, committed in order]
        found = self._offsets(rounds)
        return {key: _span(*values) for key, values in found.items()}

    def offsets_at(self, times_ms: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int | ItemError | None]:
        """See `ports.LogReader`."""
        # Negative times have a meaning of their own in the protocol.
        wanted = {key: max(0, times_ms[key]) for key in sorted(times_ms)}
        found = self._offsets([(wanted, False)])
        return {key: None if value == -1 else value for key, (value,) in found.items()}

    def fetch(
        self, offsets: Mapping[TopicPartition, int], *, max_bytes: int, wait_ms: int, partition_bytes: int | None = None
    ) -> Mapping[TopicPartition, Fetched]:
        """See `ports.LogReader`."""
        found = self._send(offsets, max_bytes, wait_ms, partition_bytes)
        for key, refused in found.items():
            if refused.error is RECREATED:
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
            time.sleep(min(limit_s, 0.1))
        return dict(sorted(found.items()))

    def request_ahead(
        self, offsets: Mapping[TopicPartition, int], *, max_bytes: int, wait_ms: int, partition_bytes: int | None = None
    ) -> None:
        """See `ports.LogReader`."""
        self._send(offsets, max_bytes, wait_ms, partition_bytes)

    def _send(
        self, offsets: Mapping[TopicPartition, int], max_bytes: int, wait_ms: int, partition_bytes: int | None
    ) -> dict[TopicPartition, Fetched]:
        """Send what is not under way yet; returns the partitions that cannot be requested, with the reason."""
        left = [key for key, fetch in self._fetches.items() if key not in offsets and fetch.pending.age_s >= KEPT_S]
        for key in left:  # its reader has lost the partition, or has no memory for more
            del self._fetches[key]
        missing = [key for key, offset in offsets.items() if not self._is_under_way(key, offset)]
        refused: dict[TopicPartition, Fetched] = {}
        wanted: dict[int, list[TopicPartition]] = {}
        for key, leader in self._routes.leaders(missing).items():
            if isinstance(leader, ItemError):
                refused[key] = _failed(leader)
            elif self._routes.recreated(key):
                refused[key] = _failed(RECREATED)
            elif self._connections.silent(leader):
                refused[key] = _failed(_silence(leader))
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
            request = requests.fetch_request(
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
            fetch.parts, stale = requests.fetched_of(fetch.pending.answer, fetch.offsets, fetch.ids)
            self._routes.forget(stale)

    def _claim(self, key: TopicPartition) -> Fetched:
        fetch = self._fetches[key]
        if fetch.parts is None:
            return _failed(_silence(fetch.pending.broker)) if fetch.pending.overdue else requests.UNANSWERED
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
                    request = requests.list_offsets_request(
                        {key: times[key] for key in part}, committed=committed, timeout_ms=timeout_ms
                    )
                    sent.append((PendingRequest(leader, request), part))
        self._connections.send([pending for pending, _ in sent])
        limit_s = max((pending.due - pending.sent for pending, _ in sent), default=0.0)
        self._connections.wait([pending for pending, _ in sent], limit_s, _never)
        for pending, part in sent:
            answer = pending.answer
            if answer is None:
                answer = TryLaterError(f"broker {pending.broker} does not answer")
            values, stale = requests.offsets_of(answer, part)
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


def _never(pending: PendingRequest) -> bool:
    del pending
    return False


def _failed(error: ItemError) -> Fetched:
    return Fetched(records=b"", span=requests.UNTOLD, error=error)


def _silence(broker: int) -> ItemError:
    return ItemError(name="KafkaTimeoutError", message=f"broker {broker} does not answer", retriable=True)
