"""Control requests reach the run they are for, whole, and answers name them; events are sent or said to be dropped."""

import threading
from collections.abc import Sequence

import pytest

from kafkakit.core.errors import ConflictError, InputError, TryLaterError
from kafkakit.core.lease import VersionedValue
from kafkakit.core.rpc import Event
from kafkakit.execution.act import control_requests
from kafkakit.execution.act.control_requests import ControlRequests, EventQueue
from kafkakit.execution.decide.runs import ControlRequest, decode_control_request, encode_control_request
from kafkakit.execution.decide.schedule.work import BrokerRates
from tests.fakes.admin import FakeClock
from tests.fakes.control import FakeControlStore


class Harness:
    def __init__(self) -> None:
        self.store, self.clock = FakeControlStore(), FakeClock()
        self.requests = ControlRequests(self.store, self.clock, "c1")


@pytest.fixture
def desk() -> Harness:
    return Harness()


RATES = BrokerRates(into=5, out_of={9: 1, 2: 3})


def test_parts_of_a_wish_add_up_and_nothing_is_wished_at_first(desk: Harness) -> None:
    assert desk.requests.read(4) is None
    desk.requests.request(4, "ann", paused=True)
    desk.requests.request(4, "bob", rates=RATES)
    version = desk.requests.request(4, "cem", abort=True)
    requested = desk.requests.read(4)
    assert requested is not None
    assert requested.version == version
    assert requested.request == ControlRequest(
        token=4, by="cem", at=desk.clock.now(), paused=True, abort=True, rates=RATES
    )
    desk.requests.request(4, "ann", paused=False)
    requested = desk.requests.read(4)
    assert requested is not None
    assert (requested.request.paused, requested.request.abort) == (False, True)


def test_a_wish_does_not_outlive_its_run(desk: Harness) -> None:
    desk.requests.request(4, "ann", paused=True, abort=True)
    assert desk.requests.read(5) is None
    desk.requests.request(5, "ann", rates=BrokerRates())
    requested = desk.requests.read(5)
    assert requested is not None
    assert (requested.request.paused, requested.request.abort, requested.request.rates) == (False, False, BrokerRates())


def test_two_who_ask_at_once_are_both_heard(desk: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    inner, other = desk.store.get, [True]

    def get(path: str) -> VersionedValue | None:
        found = inner(path)
        if other and other.pop():
            desk.requests.request(4, "bob", paused=True)
        return found

    monkeypatch.setattr(desk.store, "get", get)
    desk.requests.request(4, "ann", rates=RATES)
    requested = desk.requests.read(4)
    assert requested is not None
    assert (requested.request.paused, requested.request.rates) == (True, RATES)


def test_the_answer_is_waited_for(desk: Harness) -> None:
    version = desk.requests.request(4, "ann", paused=True)
    assert desk.requests.wait_for_answer(4, version, 3) is None
    assert desk.clock.elapsed == pytest.approx(3)
    desk.clock.on_sleep.append(lambda _: desk.requests.answer(4, version, "too slow" * 200))
    answer = desk.requests.wait_for_answer(4, version, 3)
    assert answer is not None
    assert answer.refused.startswith("too slow")
    assert desk.requests.wait_for_answer(5, version, 0.1) is None
    assert desk.requests.wait_for_answer(4, version + 1, 0.1) is None


def test_a_late_answer_of_an_earlier_run_or_wish_is_dropped(desk: Harness) -> None:
    desk.requests.answer(5, 9)
    writes = desk.store.writes
    for token, version in ((4, 99), (5, 8), (5, 9)):
        desk.requests.answer(token, version, "old")
    assert desk.store.writes == writes
    assert desk.requests.wait_for_answer(5, 9, 0) is not None


def test_an_answer_is_written_whoever_writes_meanwhile(desk: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    inner, trouble = desk.store.cas, [1, 1]

    def cas(path: str, value: bytes, expected: int | None) -> int:
        if trouble:
            trouble.pop()
            raise ConflictError("not now")
        return inner(path, value, expected)

    monkeypatch.setattr(desk.store, "cas", cas)
    desk.requests.answer(4, 1)
    assert desk.requests.wait_for_answer(4, 1, 0) is not None


def test_the_same_wish_is_the_same_bytes(desk: Harness) -> None:
    at = desk.clock.now()
    turned = BrokerRates(into=5, out_of={2: 3, 9: 1})
    one, other = (
        encode_control_request(ControlRequest(token=1, by="a", at=at, rates=rates)) for rates in (RATES, turned)
    )
    assert one == other
    assert decode_control_request(one, "x").rates == RATES


@pytest.mark.parametrize(
    "rates",
    [
        BrokerRates(into=0),
        BrokerRates(out=-1),
        BrokerRates(into_of={-1: 5}),
        BrokerRates(out_of=dict.fromkeys(range(3000), 1)),
    ],
)
def test_what_the_reader_would_refuse_is_not_sent(desk: Harness, rates: BrokerRates) -> None:
    with pytest.raises(InputError, match="the control request: "):
        desk.requests.request(1, "ann", rates=rates)
    assert desk.store.writes == 0


def test_newer_schemas_are_refused_and_unknown_fields_passed_over(desk: Harness) -> None:
    data = encode_control_request(ControlRequest(token=1, by="a", at=desk.clock.now()))
    assert decode_control_request(data.replace(b'"token":1', b'"token":1,"more":{"a":[1]}'), "x").token == 1
    with pytest.raises(InputError, match="use a newer kafkakit"):
        decode_control_request(data.replace(b'"schema":1', b'"schema":2'), "x")


def test_a_request_needs_a_time_with_a_zone() -> None:
    request = ControlRequest(token=1, by="ann", at=FakeClock().now())
    data = encode_control_request(request)
    zone = b"Z" if b'Z"' in data else b"+00:00"
    assert data.count(zone + b'"') == 1
    with pytest.raises(InputError, match="at"):
        decode_control_request(data.replace(zone + b'"', b'"'), "r")
    assert decode_control_request(data, "r") == request


def test_no_failure_to_send_an_event_keeps_later_ones_back() -> None:
    faults, sent, warned = [TryLaterError("away"), RuntimeError("a defect")], list[str](), list[str]()

    def send(title: str, text: str, tags: Sequence[str]) -> None:
        if faults:
            raise faults.pop(0)
        sent.append(f"{title} {text} {tags}")

    queue = EventQueue(send, ("a",), warned.append)
    queue.put([Event(title=f"t{n}", text="x") for n in range(3)], ("b",))
    queue.close()
    assert sent == ["t2 x ('a', 'b')"]
    assert warned == ["an event could not be sent: away", "an event could not be sent: RuntimeError: a defect"]


def test_events_that_are_not_sent_by_the_end_are_dropped_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_requests, "END_S", 0.05)
    begun, goes_on, sent, warned = threading.Event(), threading.Event(), list[str](), list[str]()

    def send(title: str, text: str, tags: Sequence[str]) -> None:
        begun.set()
        assert goes_on.wait(120)
        sent.append(title)

    queue = EventQueue(send, (), warned.append)
    queue.put([Event(title=f"t{n}", text="x") for n in range(3)])
    assert begun.wait(120)
    queue.close()
    queue.close()
    goes_on.set()
    for thread in threading.enumerate():
        if thread.name == "events":
            thread.join(120)
            assert not thread.is_alive()
    assert sent == ["t0"]
    assert warned == ["events are dropped: they could not be sent within 0.05 s"]
