"""What clients register in the control store: the epoch that they have moved to, and nothing that holds them up."""

import threading
import time
from collections.abc import Collection, Iterator
from dataclasses import replace

import pytest

from kafkakit.adapters.host import SystemClock
from kafkakit.core.errors import InputError, TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.client import cluster_reader
from kafkakit.streams.client import control_store as registrar
from kafkakit.streams.client.api import ClientKind, ClientRegistration
from kafkakit.streams.client.api_act import read_clients
from kafkakit.streams.client.client import StreamClient
from kafkakit.streams.client.consumer import StreamConsumer
from kafkakit.streams.client.control_store import BEAT_S, FORGET_S, ClientRegistrar
from kafkakit.streams.client.dead_letters import ConsumerOptions
from kafkakit.streams.client.decide.client_documents import ClientEntry
from kafkakit.streams.client.decide.outgoing import ProducerLimits
from kafkakit.streams.model.route import Lane, Route, Segment, SegmentState
from tests.fakes.admin import FakeClock
from tests.fakes.control import FakeControlStore
from tests.fakes.group_consumer import FakeGroups
from tests.rigs.stream_routes import HOLDER, FakeClusters
from tests.rigs.waiting import until

LIMIT_S = 120.0
PATIENT = ProducerLimits(delivery_s=LIMIT_S, drain_s=60)
ME, OTHER, DEAD = "0e" * 8, "0a" * 8, "0d" * 8
PATH = "streams/orders/clients/0001"
ONE = ClientEntry(kind=ClientKind.PRODUCER, epoch=3, delivery_timeout_ms=1_000)


class Client:
    """A registered client that is what a test says."""

    def __init__(self, entry: ClientEntry | None = ONE) -> None:
        self.entry = entry

    def registration(self) -> ClientEntry | None:
        return self.entry


class Harness:
    """A registrar over a store in memory, and how often the route was read again, with what was registered then."""

    def __init__(self) -> None:
        self.store, self.clock = FakeControlStore(), FakeClock()
        self.seen: list[int] = []
        self.registrar = self.new(ME, b"\0\1")

    def new(self, name: str, *places: bytes) -> ClientRegistrar:
        """The random bytes are those of its id, then of the names that it takes for its document."""
        found = iter([bytes.fromhex(name), *places])
        return ClientRegistrar(self.store, "orders", HOLDER, self.clock, lambda _: next(found), self.refresh)

    def refresh(self) -> None:
        self.seen.append(len(self.clients()))

    def clients(self) -> tuple[ClientRegistration, ...]:
        return read_clients(self.store, "orders")


@pytest.fixture
def desk() -> Iterator[Harness]:
    desk = Harness()
    yield desk
    desk.store.away = False
    desk.clock.advance(10)
    desk.registrar.close()


def test_a_client_is_registered_and_the_route_is_read_after_it_before_it_may_begin(desk: Harness) -> None:
    desk.registrar.add(Client())
    (found,) = desk.clients()
    assert (found.kind, found.group, found.epoch, found.delivery_timeout_ms) == (ClientKind.PRODUCER, "", 3, 1_000)
    assert (found.id, found.beat, found.holder) == (f"{ME} producer", 1, HOLDER)
    assert desk.seen == [1]
    assert read_clients(desk.store, "other") == ()


def test_a_change_is_written_at_once_and_else_every_five_seconds(desk: Harness) -> None:
    client = Client()
    desk.registrar.add(client)
    client.entry = replace(ONE, epoch=4)
    until(lambda: desk.clients()[0].epoch == 4)
    before = desk.clients()[0].beat
    time.sleep(3 * registrar.LOOK_S)
    assert desk.clients()[0].beat == before
    desk.clock.advance(BEAT_S)
    until(lambda: desk.clients()[0].beat == before + 1)


def test_one_document_holds_all_clients_of_a_process_and_goes_with_the_last(desk: Harness) -> None:
    entry = ClientEntry(kind=ClientKind.CONSUMER, group="billing", epoch=7)
    clients = [Client(), Client(replace(ONE, epoch=2, delivery_timeout_ms=9_000)), Client(entry), Client(None)]
    for client in clients:
        desk.registrar.add(client)
    assert [(c.id, c.epoch, c.delivery_timeout_ms) for c in desk.clients()] == [
        (f"{ME} consumer billing", 7, 0),
        (f"{ME} producer", 2, 9_000),
    ]
    assert desk.store.children("streams/orders/clients") == ("0001",)
    for client in clients:
        client.entry = None
    until(lambda: desk.clients() == ())
    clients[3].entry = entry
    until(lambda: [c.group for c in desk.clients()] == ["billing"])
    clients[3].entry = None
    desk.registrar.close()
    assert desk.clients() == ()


def test_a_client_that_has_not_ended_stays_registered_after_a_close(desk: Harness) -> None:
    desk.registrar.add(Client())
    desk.clock.advance(1)
    closer = threading.Thread(target=desk.registrar.close)
    closer.start()
    desk.clock.advance(10)
    closer.join()
    assert [c.epoch for c in desk.clients()] == [3]


def test_a_store_that_hangs_holds_up_a_new_client_for_a_moment(desk: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registrar, "ANNOUNCE_S", 0.1)
    answer, cas = threading.Event(), desk.store.cas
    monkeypatch.setattr(desk.store, "cas", lambda *given: (answer.wait(LIMIT_S), cas(*given))[1])
    desk.registrar.add(Client())
    assert desk.clients() == ()
    answer.set()
    until(desk.clients)


def test_a_store_that_is_away_holds_up_nothing_and_gets_the_registration_later(desk: Harness) -> None:
    desk.store.away = True
    desk.registrar.add(Client())
    assert desk.seen == []
    desk.store.away = False
    desk.clock.advance(BEAT_S)
    until(desk.clients)


def test_a_store_that_raises_anything_ends_no_thread(desk: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(desk.store, "cas", lambda *_: 1 / 0)
        desk.registrar.add(Client())
    desk.clock.advance(BEAT_S)
    until(desk.clients)


@pytest.mark.parametrize("lost", [1, 2])
def test_lost_answers_leave_one_document_that_is_removed(desk: Harness, lost: int) -> None:
    desk.store.lose_answers = lost
    client = Client()
    desk.registrar.add(client)
    desk.clock.advance(BEAT_S)
    until(lambda: desk.store.lose_answers == 0)
    desk.clock.advance(BEAT_S)
    until(lambda: desk.clients()[0].beat > lost)
    desk.store.lose_answers = 1
    client.entry = None
    until(lambda: desk.clients() == ())


def test_a_first_write_whose_answer_was_lost_is_removed_too(desk: Harness) -> None:
    desk.store.lose_answers = 1
    client = Client()
    desk.registrar.add(client)
    assert len(desk.clients()) == 1
    client.entry = None
    desk.clock.advance(BEAT_S)
    until(lambda: desk.clients() == ())


def test_a_document_that_another_process_removed_is_written_again(desk: Harness) -> None:
    desk.registrar.add(Client())
    found = desk.store.get(PATH)
    assert found is not None
    desk.store.delete(PATH, found.version)
    desk.clock.advance(BEAT_S)
    until(desk.clients)


def test_a_name_that_another_process_has_is_left_to_it(desk: Harness) -> None:
    other = desk.new(OTHER, b"\0\1", b"\0\1", b"\0\2")
    desk.registrar.add(Client())
    client = Client()
    other.add(client)
    desk.clock.advance(BEAT_S)
    until(lambda: {c.id for c in desk.clients()} == {f"{OTHER} producer", f"{ME} producer"})
    client.entry = None
    other.close()
    assert [c.id for c in desk.clients()] == [f"{ME} producer"]
    assert desk.store.children("streams/orders/clients") == ("0001",)


def test_what_other_processes_left_behind_is_forgotten_and_who_beats_is_not(desk: Harness) -> None:
    other = desk.new(OTHER, b"\0\2")
    desk.registrar.add(Client())
    other.add(Client())
    lives = desk.store.get("streams/orders/clients/0002")
    assert lives is not None
    desk.store.cas("streams/orders/clients/0003", lives.value.replace(OTHER.encode(), DEAD.encode()), None)

    def pass_time() -> None:
        """Until the next look around, before which both have beaten again, whichever of them is slow."""
        beats = {c.id: c.beat for c in desk.clients()}
        desk.clock.advance(FORGET_S - BEAT_S)
        until(lambda: all(c.beat > beats[c.id] for c in desk.clients() if DEAD not in c.id))
        desk.clock.advance(BEAT_S)

    pass_time()
    until(lambda: len(desk.registrar._others) == len(other._others) == 2)
    # Both have looked around once, and one look alone tells nothing.
    assert {c.id for c in desk.clients()} == {f"{DEAD} producer", f"{OTHER} producer", f"{ME} producer"}
    pass_time()
    until(lambda: {c.id for c in desk.clients()} == {f"{OTHER} producer", f"{ME} producer"})
    desk.clock.advance(10)
    other.close()


def test_a_document_that_cannot_be_read_is_not_overlooked() -> None:
    store = FakeControlStore()
    store.cas("streams/orders/clients/x", b'{"kafkakit":{"kind":"stream-client","schema":2}}', None)
    with pytest.raises(InputError, match="control document streams/orders/clients/x: has schema 2"):
        read_clients(store, "orders")
    store.away = True
    with pytest.raises(TryLaterError):
        read_clients(store, "orders")


@pytest.fixture
def fakes() -> FakeClusters:
    fakes = FakeClusters()
    fakes.routes.create(fakes.segment("a"))
    return fakes


@pytest.fixture
def client(fakes: FakeClusters) -> Iterator[StreamClient]:
    client = fakes.client()
    yield client
    client.close(0)


def epochs(fakes: FakeClusters) -> list[int]:
    return [each.epoch for each in read_clients(fakes.store, "orders")]


def test_a_producer_has_moved_once_its_records_for_the_old_segment_are_answered(
    fakes: FakeClusters, client: StreamClient
) -> None:
    producer = client.producer("orders", limits=PATIENT)
    producer.send(b"before").result(LIMIT_S)
    assert epochs(fakes) == [1]
    fakes.clusters["a"].is_away = True
    late = producer.send(b"late")
    fakes.routes.move(fakes.segment("b"))
    until(lambda: producer.metrics().route.epoch == 2)
    assert producer.send(b"new").result(LIMIT_S).cluster_id == "cluster-b"
    time.sleep(3 * registrar.LOOK_S)
    assert epochs(fakes) == [1]
    fakes.clusters["a"].is_away = False
    assert late.result(LIMIT_S).cluster_id == "cluster-a"
    until(lambda: epochs(fakes) == [2])


def test_a_producer_that_gives_up_the_old_segment_has_moved_once_that_connection_is_gone(
    fakes: FakeClusters, client: StreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = client.producer("orders", limits=replace(PATIENT, drain_s=0.05))
    producer.send(b"before").result(LIMIT_S)
    (old,) = fakes.clusters["a"].producers
    may_close, close = threading.Event(), old.close
    monkeypatch.setattr(old, "close", lambda: (may_close.wait(LIMIT_S), close()))
    fakes.clusters["a"].is_away = True
    late = producer.send(b"late")
    fakes.routes.move(fakes.segment("b"))
    assert late.result(LIMIT_S).cluster_id == "cluster-b"
    time.sleep(3 * registrar.LOOK_S)
    assert epochs(fakes) == [1]  # what it holds may still be written
    may_close.set()
    until(lambda: epochs(fakes) == [2])


def test_a_producer_that_sent_nothing_follows_at_once_and_goes_at_its_close(
    fakes: FakeClusters, client: StreamClient
) -> None:
    with client.producer("orders"), client.producer("orders", limits=PATIENT):
        (found,) = read_clients(fakes.store, "orders")
        assert found.delivery_timeout_ms == 120_000
        fakes.routes.move(fakes.segment("b"))
        until(lambda: epochs(fakes) == [2])
    until(lambda: epochs(fakes) == [])


def test_a_closed_producer_stays_registered_until_its_connection_is_gone(
    fakes: FakeClusters, client: StreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = client.producer("orders", limits=PATIENT)
    producer.send(b"x").result(LIMIT_S)
    (connection,) = fakes.clusters["a"].producers
    may_close, close = threading.Event(), connection.close
    monkeypatch.setattr(connection, "close", lambda: (may_close.wait(LIMIT_S), close()))
    producer.close()
    time.sleep(3 * registrar.LOOK_S)
    assert epochs(fakes) == [1]
    may_close.set()
    until(lambda: epochs(fakes) == [])


def test_closing_a_client_removes_what_it_registered(fakes: FakeClusters) -> None:
    client = fakes.client()
    client.producer("orders", limits=PATIENT).send(b"x").result(LIMIT_S)
    assert epochs(fakes) == [1]
    client.close(LIMIT_S)
    assert epochs(fakes) == []


def test_a_producer_works_while_the_store_is_away(fakes: FakeClusters, client: StreamClient) -> None:
    client.follower("orders")
    fakes.store.away = True
    producer = client.producer("orders", limits=PATIENT)
    assert producer.send(b"x").result(LIMIT_S).segment == 1
    assert not producer.flush(LIMIT_S)
    client.close(LIMIT_S)


def segment(number: int, cluster_id: str = "c1") -> Segment:
    return Segment(
        id=number,
        cluster=cluster_id,
        cluster_id=cluster_id,
        topic=f"t{number}",
        topic_id=f"{number:032x}",
        partitions=1,
        state=SegmentState.ACTIVE if number == 1 else SegmentState.OPENED,
    )


def route(*segments: Segment) -> Route:
    lane = Lane(name="live", segments=segments)
    return Route(stream="orders", epoch=len(segments), next_segment=9, lanes=(lane,))


def member(groups: FakeGroups, routes: list[Route], options: ConsumerOptions | None = None) -> StreamConsumer:
    return StreamConsumer(
        options=options,
        group="billing",
        route=lambda: routes[-1],
        open_member=lambda _, group: groups.open(group),
        clock=SystemClock(),
        handler=lambda _: None,
    )


def registered(consumer: StreamConsumer) -> int:
    found = consumer.registration()
    return 0 if found is None else found.epoch


@pytest.mark.parametrize("cluster_id", ["c1", "c2"])
def test_a_consumer_has_moved_once_it_reads_every_segment(cluster_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_reader, "_NO_SHARE_S", 1e9)
    groups, routes = FakeGroups(), [route(segment(1))]
    groups.make_topic("t1", 1)
    consumer = member(groups, routes)
    assert consumer.registration() is None
    with consumer:
        until(lambda: registered(consumer) == 1)
        routes.append(route(segment(1), segment(2, cluster_id)))
        until(lambda: consumer.figures().epoch == 2)
        time.sleep(0.1)
        assert registered(consumer) == 1
        groups.make_topic("t2", 1)
        until(lambda: registered(consumer) == 2)
        assert ("billing", TopicPartition("t2", 0)) in groups.owners
    assert consumer.registration() is None


@pytest.mark.parametrize(("lanes", "told"), [(None, ()), (["live"], ("live",)), ({"live", "dlq"}, ("dlq", "live"))])
def test_a_consumer_tells_which_lanes_it_reads(lanes: Collection[str] | None, told: tuple[str, ...]) -> None:
    groups = FakeGroups()
    found = route(segment(1))
    found = replace(found, lanes=(*found.lanes, Lane(name="dlq", segments=())))
    groups.make_topic("t1", 1)
    with member(groups, [found], ConsumerOptions(lanes=lanes)) as consumer:
        until(lambda: registered(consumer) == 1)
        entry = consumer.registration()
        assert entry is not None
        assert entry.lanes == told


def test_a_consumer_that_is_about_to_read_another_cluster_has_not_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    groups, routes, seen = FakeGroups(), [route(segment(1))], list[int]()
    groups.make_topic("t1", 1)
    groups.make_topic("t2", 1)
    consumer = member(groups, routes)
    with consumer:
        until(lambda: registered(consumer) == 1)
        make = consumer._reader

        def late(*place: str) -> cluster_reader.ClusterReader:
            until(lambda: consumer._readers["c1"].epoch_read == 2)
            seen.append(registered(consumer))
            return make(*place)

        monkeypatch.setattr(consumer, "_reader", late)
        routes.append(route(segment(1), segment(2, "c2")))
        until(lambda: registered(consumer) == 2)
    assert seen == [1]


def test_a_consumer_that_gets_no_share_has_moved_after_a_while_in_its_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_reader, "_NO_SHARE_S", 0.2)
    groups, routes = FakeGroups(), [route(segment(1))]
    groups.make_topic("t1", 1)
    with member(groups, routes) as first, member(groups, routes) as second:
        until(lambda: registered(first) == registered(second) == 1)
        with monkeypatch.context() as patched:
            patched.setattr("tests.fakes.group_consumer.FakeGroupConsumer.member_id", lambda _: "")
            routes.append(route(segment(1), segment(2)))
            until(lambda: first.figures().epoch == second.figures().epoch == 2)
            time.sleep(0.5)
            assert registered(first) == registered(second) == 1
        until(lambda: registered(first) == registered(second) == 2)
