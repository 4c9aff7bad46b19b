"""How the log reader shares out its requests and what becomes of answers that are late, wrong or for nobody.

Leaders are remembered, forgotten when they moved, and a topic created again is told to each of its readers once.
"""

import asyncio
import struct
import time
import uuid
from collections.abc import Callable, Collection, Iterable
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from kafka.errors import KafkaConnectionError

from kafkakit.adapters.kafka.log import (
    HIDDEN,
    KEPT_S,
    LEADERLESS,
    UNKNOWN,
    FetchConnections,
    KafkaLog,
    PendingRequest,
    Routes,
)
from kafkakit.adapters.kafka.session import KEPT_BYTES, AnswerReader, KafkaSession, error_from
from kafkakit.config.security import Security
from kafkakit.core.cluster_facts import FetchedBatches, ItemError, TopicPlaces
from kafkakit.core.errors import OperationFailedError, TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.model.commit import NO_TOPIC_ID

TP = TopicPartition
S = TypeVar("S", bound=KafkaSession)
A, B, C = (TP("t", number) for number in range(3))


class Fake:
    """Requests that a test answers itself; brokers 1 and 2 lead the partitions of topic `t` in turn."""

    request_timeout_s = 30.0

    def __init__(self) -> None:
        self.topic_id = 7
        self.leaders = [1, 2, 1]
        self.sent: list[PendingRequest] = []
        self.mute: set[int] = set()
        self.lookups = 0
        self.on_wait: Callable[[], object] = lambda: None

    def request(self, what: str, request: Any) -> Any:
        del what, request
        self.lookups += 1
        places = [SimpleNamespace(partition_index=p, leader_id=leader) for p, leader in enumerate(self.leaders)]
        topic = SimpleNamespace(name="t", error_code=0, topic_id=uuid.UUID(int=self.topic_id), partitions=places)
        return SimpleNamespace(topics=[topic])

    def silent(self, broker: int) -> bool:
        return broker in self.mute

    def send(self, requests: Collection[PendingRequest]) -> None:
        self.sent += requests

    def wait(
        self,
        requests: Iterable[PendingRequest],
        limit_s: float,
        enough: Callable[[PendingRequest], bool],
        grace_s: float = 0,
    ) -> None:
        del limit_s, enough, grace_s
        list(requests)
        self.on_wait()

    def close(self) -> None:
        self.sent.clear()

    def requested(self, pending: PendingRequest) -> dict[TopicPartition, int]:
        topics = pending.request.topics
        return {TP(topic.topic, p.partition): p.fetch_offset for topic in topics for p in topic.partitions}

    def answer(self, pending: PendingRequest, *, error: int = 0, whole: int = 0, **records: bytes) -> None:
        """Answer every partition of a request: `p0=b"..."` are the records of partition 0."""
        parts = [
            SimpleNamespace(
                partition_index=key.partition,
                error_code=error,
                high_watermark=9,
                last_stable_offset=8,
                log_start_offset=0,
                records=records.get(f"p{key.partition}"),
                aborted_transactions=None,
            )
            for key in self.requested(pending)
        ]
        topic = SimpleNamespace(topic="", topic_id=uuid.UUID(int=self.topic_id), partitions=parts)
        pending.answer, pending.answered = SimpleNamespace(error_code=whole, responses=[topic]), time.monotonic()

    def answer_all(self, *, error: int = 0, **records: bytes) -> None:
        for pending in self.sent:
            if pending.answer is None:
                self.answer(pending, error=error, whole=0, **records)


@pytest.fixture
def fake() -> Fake:
    return Fake()


@pytest.fixture
def log(fake: Fake) -> KafkaLog:
    reader: Any = KafkaLog("nowhere:1", Security())
    reader._connections, reader._routes = fake, Routes(fake)  # type: ignore[arg-type]
    assert isinstance(reader, KafkaLog)
    return reader


def fetch(log: KafkaLog, **offsets: int) -> dict[TopicPartition, FetchedBatches]:
    wanted = {TP("t", int(name[1:])): offset for name, offset in offsets.items()}
    return dict(log.fetch(wanted, max_bytes=1000, wait_ms=0))


def error_name(answer: FetchedBatches) -> str | None:
    return answer.error.name if isinstance(answer.error, ItemError) else None


def test_each_leader_gets_one_request(fake: Fake, log: KafkaLog) -> None:
    fake.on_wait = lambda: fake.answer_all(p0=b"a", p1=b"b")
    found = fetch(log, p0=4, p1=5, p2=6)
    assert [(one.broker, fake.requested(one)) for one in fake.sent] == [
        (1, {A: 4, C: 6}),
        (2, {B: 5}),
    ]
    assert [found[key].records for key in (A, B, C)] == [b"a", b"b", b""]
    assert all(answer.answered for answer in found.values())


def test_who_was_served_last_is_asked_for_last(fake: Fake, log: KafkaLog) -> None:
    fake.on_wait = lambda: fake.answer_all(p0=b"a")
    fetch(log, p0=0, p2=0)
    fetch(log, p0=1, p2=0)
    assert [list(fake.requested(one)) for one in fake.sent] == [[A, C], [C, A]]


def test_a_late_answer_is_taken_by_the_next_fetch_from_the_same_offset(fake: Fake, log: KafkaLog) -> None:
    fake.on_wait = lambda: fake.answer(fake.sent[0], p0=b"a")
    first = fetch(log, p0=0, p1=0)
    assert (first[A].answered, first[B].answered) == (True, False)
    fake.on_wait = lambda: fake.answer_all(p0=b"more", p1=b"late")
    second = fetch(log, p0=3, p1=0)
    assert (second[A].records, second[B].records) == (b"more", b"late")
    assert [(one.broker, fake.requested(one)) for one in fake.sent] == [
        (1, {A: 0}),
        (2, {B: 0}),
        (1, {A: 3}),
    ]


def test_an_answer_for_another_offset_is_not_used(fake: Fake, log: KafkaLog) -> None:
    assert not fetch(log, p0=0)[A].answered
    fake.on_wait = lambda: fake.answer_all(p0=b"x")
    fake.sent[0].answer = None
    found = fetch(log, p0=5)
    assert found[A].records == b"x"
    assert [fake.requested(one) for one in fake.sent] == [{A: 0}, {A: 5}]


def test_what_is_asked_ahead_is_not_asked_again(fake: Fake, log: KafkaLog) -> None:
    log.request_ahead({A: 0, C: 0}, max_bytes=1000, wait_ms=0)
    fake.answer_all(p0=b"a", p2=b"c")
    assert fetch(log, p0=0)[A].records == b"a"
    assert fetch(log, p2=0)[C].records == b"c"
    assert len(fake.sent) == 1


def test_an_answer_that_no_fetch_takes_is_let_go(fake: Fake, log: KafkaLog) -> None:
    log.request_ahead({A: 0, B: 0, C: 0}, max_bytes=1000, wait_ms=0)
    fake.answer_all(p0=b"a", p1=b"b", p2=b"c")
    fake.sent[0].answered -= KEPT_S
    assert fetch(log, p1=0)[B].records == b"b"
    assert log._fetches == {}, "A and C were answered long ago"
    log.request_ahead({A: 0, C: 0}, max_bytes=1000, wait_ms=0)
    fake.answer_all(p0=b"a", p2=b"c")
    assert fetch(log, p0=0)[A].records == b"a"
    assert list(log._fetches) == [C]


def test_a_moved_leader_is_looked_up_and_its_error_is_retriable(fake: Fake, log: KafkaLog) -> None:
    fake.on_wait = lambda: fake.answer_all(error=6)
    found = fetch(log, p0=0)
    assert error_name(found[A]) == "NotLeaderForPartitionError"
    error = found[A].error
    assert error is not None
    assert error.retriable
    fake.leaders[0] = 2
    fake.on_wait = lambda: fake.answer_all(p0=b"a")
    assert fetch(log, p0=0)[A].records == b"a"
    assert (fake.sent[-1].broker, fake.lookups) == (2, 2)


def test_a_broken_connection_and_an_error_of_the_whole_answer_reach_every_partition(fake: Fake, log: KafkaLog) -> None:
    def broken() -> None:
        fake.sent[-1].answer = ConnectionError("broke")

    fake.on_wait = broken
    assert [error_name(answer) for answer in fetch(log, p0=0, p2=0).values()] == ["ConnectionError"] * 2
    fake.on_wait = lambda: fake.answer(fake.sent[-1], whole=71)
    assert [error_name(answer) for answer in fetch(log, p0=0, p2=0).values()] == ["InvalidFetchSessionEpochError"] * 2


def test_a_silent_leader_is_not_asked(fake: Fake, log: KafkaLog) -> None:
    fake.mute.add(2)
    fake.on_wait = lambda: fake.answer_all(p0=b"a")
    found = fetch(log, p0=0, p1=0)
    assert (found[A].records, error_name(found[B])) == (b"a", "KafkaTimeoutError")
    assert [one.broker for one in fake.sent] == [1]
    spans = log.spans([B])
    assert isinstance(spans[B], ItemError)


def test_a_topic_created_again_is_told_though_it_was_asked_ahead(fake: Fake, log: KafkaLog) -> None:
    fake.on_wait = lambda: fake.answer_all(p0=b"a")
    fetch(log, p0=0)
    fake.topic_id = 8
    log.places(["t"])
    log.request_ahead({A: 1}, max_bytes=1000, wait_ms=0)
    assert error_name(fetch(log, p0=1)[A]) == "UnknownTopicIdError"
    assert fetch(log, p0=0)[A].records == b"a"


def test_a_partition_that_the_answer_leaves_out_is_unanswered(fake: Fake, log: KafkaLog) -> None:
    def nothing() -> None:
        fake.sent[-1].answer = SimpleNamespace(error_code=0, responses=[])

    fake.on_wait = nothing
    assert not fetch(log, p0=0)[A].answered
    fake.on_wait = lambda: fake.answer_all(p0=b"a")
    assert fetch(log, p0=0)[A].records == b"a"


class Cluster:
    """A session that answers MetadataRequest from a table, and counts."""

    def __init__(self) -> None:
        self.topics: dict[str, tuple[int, list[int]]] = {}
        self.denied: set[str] = set()
        self.requested: list[list[str] | None] = []

    def request(self, what: str, request: Any) -> Any:
        del what
        names = None if request.topics is None else [topic.name for topic in request.topics]
        self.requested.append(names)
        return SimpleNamespace(topics=[self._topic(name) for name in (self.topics if names is None else names)])

    def _topic(self, name: str) -> Any:
        if name in self.denied:
            return SimpleNamespace(name=name, error_code=29)
        if name not in self.topics:
            return SimpleNamespace(name=name, error_code=3)
        number, leaders = self.topics[name]
        places = [SimpleNamespace(partition_index=p, leader_id=leader) for p, leader in enumerate(leaders)]
        return SimpleNamespace(name=name, error_code=0, topic_id=uuid.UUID(int=number), partitions=places)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def routes(cluster: Cluster) -> Routes:
    session: Any = cluster
    return Routes(session)


def test_a_leader_is_asked_for_once_and_again_when_it_moved(cluster: Cluster, routes: Routes) -> None:
    cluster.topics["t"] = (1, [1, 2])
    assert routes.leaders([TP("t", 1), TP("t", 0)]) == {TP("t", 0): 1, TP("t", 1): 2}
    cluster.topics["t"] = (1, [3, 2])
    assert routes.leaders([TP("t", 0)]) == {TP("t", 0): 1}
    assert cluster.requested == [["t"]]
    routes.forget(["t"])
    assert routes.leaders([TP("t", 0)]) == {TP("t", 0): 3}


def test_what_has_no_leader_is_asked_for_every_time(cluster: Cluster, routes: Routes) -> None:
    cluster.topics["t"] = (1, [-1, 2])
    assert routes.leaders([TP("t", 0), TP("t", 1), TP("t", 5), TP("n", 0)]) == {
        TP("n", 0): UNKNOWN,
        TP("t", 0): LEADERLESS,
        TP("t", 1): 2,
        TP("t", 5): UNKNOWN,
    }
    cluster.topics |= {"t": (1, [4]), "n": (2, [5])}
    assert routes.leaders([TP("t", 0), TP("n", 0)]) == {TP("n", 0): 5, TP("t", 0): 4}


def test_a_topic_created_again_is_told_to_each_reader_until_it_accepts(cluster: Cluster, routes: Routes) -> None:
    cluster.topics["t"] = (1, [1, 1])
    routes.leaders([TP("t", 0)])
    assert not routes.recreated(TP("t", 0))
    cluster.topics["t"] = (2, [1, 1])
    routes.look_up(None)
    assert routes.ids(["t"])["t"] == uuid.UUID(int=2).bytes
    assert routes.recreated(TP("t", 0))
    assert routes.recreated(TP("t", 0))
    routes.accept(TP("t", 0))
    assert not routes.recreated(TP("t", 0))
    # Nobody read the other partition of the old topic.
    assert not routes.recreated(TP("t", 1))


def test_a_topic_gone_for_a_while_is_told_too(cluster: Cluster, routes: Routes) -> None:
    cluster.topics["t"] = (1, [1])
    routes.leaders([TP("t", 0)])
    assert not routes.recreated(TP("t", 0))
    del cluster.topics["t"]
    assert routes.look_up(["t"]) == {}
    assert routes.leaders([TP("t", 0)]) == {TP("t", 0): UNKNOWN}
    cluster.topics["t"] = (2, [1])
    assert routes.leaders([TP("t", 0)]) == {TP("t", 0): 1}
    assert routes.recreated(TP("t", 0))


def test_names_go_in_several_requests_and_no_right_is_no_empty_answer(cluster: Cluster, routes: Routes) -> None:
    names = [f"t{number:04}" for number in range(1100)]
    cluster.topics |= dict.fromkeys(names, (0, [1]))
    found = routes.look_up(names)
    assert list(found) == names
    assert found[names[0]] == TopicPlaces(topic_id=NO_TOPIC_ID, leaders={0: 1})
    assert [len(requested or ()) for requested in cluster.requested] == [500, 500, 100]
    cluster.denied.add("secret")
    assert list(routes.look_up(["secret", "t0000"])) == ["t0000"]
    with pytest.raises(OperationFailedError, match="secret"):
        routes.look_up(["secret"])
    assert routes.leaders([TP("secret", 0), TP("t0000", 0)]) == {TP("secret", 0): HIDDEN, TP("t0000", 0): 1}


# -- what is an answer, and what a fault of ours ------------------------------------------------------


class Manager:
    """Broker 1 answers; what is sent to or awaited of another one raises what the test says."""

    def __init__(self, on_send: Exception | None = None, on_answer: Exception | None = None) -> None:
        self.on_send, self.on_answer = on_send, on_answer

    def run(self, work: Callable[..., Any], *given: Any) -> Any:
        return asyncio.run(work(*given))

    def send(self, request: Any, *, node_id: int, request_timeout_ms: float) -> Any:
        del request, request_timeout_ms
        if node_id != 1 and self.on_send is not None:
            raise self.on_send
        return node_id

    async def wait_for(self, future: int, limit_ms: float) -> str:
        del limit_ms
        if future != 1 and self.on_answer is not None:
            raise self.on_answer
        return "answer"


def session_over(kind: type[S], **raised: Exception) -> S:
    session = kind("nowhere:1", Security(), 5.0, 1.0)
    session._client = SimpleNamespace(_manager=Manager(**raised), close=lambda: None)
    return session


OF_THE_NETWORK = [KafkaConnectionError("lost"), BrokenPipeError("pipe"), RuntimeError("Transport closed for writes")]
OURS = [TypeError("an int is required"), AttributeError("no such field"), RuntimeError("Recursive access to net.poll!")]


@pytest.mark.parametrize("when", ["on_send", "on_answer"])
def test_a_fault_of_ours_is_not_the_silence_of_a_broker(when: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for error in OF_THE_NETWORK:
        session = session_over(KafkaSession, **{when: error})
        monkeypatch.setattr(session, "close", lambda: None)  # a broken connection is asked once more
        assert session.request_brokers({1: "a", 2: "b"}) == {1: "answer", 2: error}
    for error in OURS:
        with pytest.raises(type(error), match=str(error)):
            session_over(KafkaSession, **{when: error}).request_brokers({1: "a", 2: "b"})


def test_a_fault_of_ours_is_no_broken_connection_of_a_reader() -> None:
    def pending() -> PendingRequest:
        return PendingRequest(2, SimpleNamespace(max_wait_ms=0, timeout_ms=0))

    for error in OF_THE_NETWORK:
        lost = pending()
        connections = session_over(FetchConnections, on_send=error)
        connections._prepared = connections._client._manager
        connections.send([lost])
        assert lost.answer is error
    for error in OURS:
        connections = session_over(FetchConnections, on_send=error)
        connections._prepared = connections._client._manager
        with pytest.raises(type(error), match=str(error)):
            connections.send([pending()])
        with pytest.raises(type(error), match=str(error)):
            error_from(error)
    assert error_from(TryLaterError("silent")).message == "silent"


class Line:
    """A socket that gives what came in pieces, and the parser of a connection with one fetch under way each."""

    def __init__(self, data: bytes, piece: int, requests: int) -> None:
        from kafka.protocol.consumer.fetch import FetchRequest
        from kafka.protocol.parser import KafkaProtocol

        self.left, self.piece, self.is_quiet = memoryview(data), piece, True
        self.parser = KafkaProtocol(client_id="c", receive_message_max_bytes=100_000_000)
        for number in range(requests):
            self.parser.send_request(FetchRequest[12](topics=[]), correlation_id=number)
        self._sock, self._protocol = self, self

    def recv_into(self, memory: memoryview) -> int:
        self.is_quiet = not self.is_quiet
        if not self.left or self.is_quiet:
            raise BlockingIOError
        size = min(len(memory), self.piece, len(self.left))
        memory[:size], self.left = self.left[:size], self.left[size:]
        return size


def fetch_answer(number: int, records: bytes) -> bytes:
    from kafka.protocol.consumer.fetch import FetchResponse

    topic = FetchResponse.FetchableTopicResponse
    place = topic.PartitionData(
        partition_index=3, error_code=0, high_watermark=9, last_stable_offset=8, log_start_offset=1,
        aborted_transactions=[], preferred_read_replica=-1, records=records,
    )  # fmt: skip
    answer = FetchResponse[12](
        throttle_time_ms=0, error_code=0, session_id=0, responses=[topic(topic="t", partitions=[place])]
    )
    body = struct.pack(">iB", number, 0) + answer.encode()
    return struct.pack(">i", len(body)) + bytes(body)


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
def test_answers_are_received_in_whatever_pieces_they_come(piece: int) -> None:
    made = [b"r" * size for size in (0, 40, 300)]
    line = Line(b"".join(fetch_answer(number, one) for number, one in enumerate(made)), piece, len(made))
    reader = AnswerReader(line, with_views=True)
    answers = []
    while line.left:
        found, error = reader.receive()
        assert error is None
        answers += line.parser.receive_bytes(found)
    assert [(number, one.responses[0].partitions[0].records) for number, one in answers] == list(enumerate(made))


@pytest.mark.parametrize("with_views", [False, True])
def test_records_of_a_large_fetch_are_not_copied_for_who_takes_views(*, with_views: bool) -> None:
    made = [b"large" * (KEPT_BYTES // 4), b"small"]
    line = Line(b"".join(fetch_answer(number, one) for number, one in enumerate(made)), 1 << 30, 2)
    reader = AnswerReader(line, with_views=with_views)
    answers: list[Any] = []
    while line.left:
        answers += reader.receive()[0]
    large, small = (one.responses[0].partitions[0] for _, one in answers)
    assert isinstance(large.records, memoryview if with_views else bytes)
    assert (large.records, small.records) == tuple(made)
    assert (large.partition_index, large.high_watermark, large.last_stable_offset, large.log_start_offset) == (
        3,
        9,
        8,
        1,
    )
    assert [number for number, _ in answers] == [0, 1]


def test_a_line_that_ends_or_sends_no_frame_is_an_error() -> None:
    line = Line(struct.pack(">i", -5), 4, 1)
    reader = AnswerReader(line, with_views=False)
    error = None
    while error is None:
        _, error = reader.receive()
    assert "Invalid frame length" in str(error)
    gone = SimpleNamespace(_protocol=Line(b"", 1, 0), _sock=SimpleNamespace(recv_into=lambda memory: 0))
    assert "disconnected" in str(AnswerReader(gone, with_views=False).receive()[1])
