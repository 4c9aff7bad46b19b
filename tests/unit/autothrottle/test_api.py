"""kafka-kit's HTTP API.

Events in kafka-kit's words, and the thread that sends them. What a law remembers comes back from the control store as
it was.
"""

import http.client
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.adapters.metrics_services import DatadogApi
from kafkakit.adapters.rpc.http_listener import PAGE_LIMITS, PageServer
from kafkakit.autothrottle.act.pacer import ControlOverrides, ZnodeOverrides
from kafkakit.autothrottle.act.service import EventSender, PacerApi
from kafkakit.autothrottle.decide.law import Memory, RateDecision, RateMemory, Side
from kafkakit.autothrottle.decide.pacer import (
    LIMIT_BYTES,
    MB,
    Override,
    Overrides,
    SavedTick,
    Tick,
    decode_tick,
    encode_tick,
    event_tags,
    events_of,
    memory_of,
    memory_rest,
    memory_rows,
)
from kafkakit.config.security import Secret
from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.core.errors import TryLaterError
from kafkakit.core.rpc import HttpPage, HttpRequest
from kafkakit.execution.act import control_requests as event_queue
from kafkakit.execution.act.control_requests import MAX_WAITING
from kafkakit.execution.decide.journal import ConfigKey
from kafkakit.execution.decide.throttle import FOLLOWER_RATE, LEADER_RATE
from tests.fakes.control import FakeControlStore
from tests.rigs.metrics_http import Datadog, Reply, serving
from tests.rigs.pacer import CLUSTER, PacerRig
from tests.rigs.pacer import MB as PACER_MB


def told(before: Tick | None, now: Tick) -> list[tuple[str, str]]:
    return [(e.title, e.text) for e in events_of(before, now)]


SET = "throttle successfully set to {}MB/s, autoremove=={}\n"
NO_BROKER = "broker param must be provided as integer or the string 'all'\n"
CASES: list[tuple[str, str, int, str]] = [
    ("GET", "/throttle", 200, "no throttle override is set\n"),
    ("GET", "/throttle/1001", 200, "broker 1001: no throttle override is set\n"),
    ("POST", "/throttle?rate=40", 200, SET.format(40, "false")),
    ("GET", "/throttle", 200, "a throttle override is configured at 40MB/s, autoremove==false\n"),
    ("GET", "/throttle/", 200, "a throttle override is configured at 40MB/s, autoremove==false\n"),
    ("POST", "/throttle?rate=50&autoremove=T", 200, SET.format(50, "true")),
    ("POST", "/throttle/1001?rate=5&autoremove=1", 200, "broker 1001: " + SET.format(5, "true")),
    ("POST", "/throttle/9?rate=7", 200, "broker 9: " + SET.format(7, "false")),
    ("GET", "/throttle/9/", 200, "broker 9: a throttle override is configured at 7MB/s, autoremove==false\n"),
    *(
        ("POST", f"/throttle?rate=50&autoremove={word}", 200, SET.format(50, told))
        for told, words in (("true", "1 t T TRUE true True"), ("false", "0 f F FALSE false False"))
        for word in words.split()
    ),
    ("POST", "/throttle?rate=50&autoremove=", 200, SET.format(50, "false")),
    ("POST", "/throttle?autoremove=1", 200, "rate param must be specified\n"),
    ("POST", "/throttle?rate=5&autoremove=TrUe", 200, "autoremove param must be a bool\n"),
    ("POST", "/throttle?rate=5&autoremove=2", 200, "autoremove param must be a bool\n"),
    ("POST", "/throttle/abc?rate=0&autoremove=yes", 200, "rate param must be >0\n"),
    ("GET", "/throttle/abc", 200, NO_BROKER),
    ("GET", "/throttle/1001", 200, "broker 1001: a throttle override is configured at 5MB/s, autoremove==true\n"),
    ("POST", "/throttle", 200, "rate param must be specified\n"),
    ("POST", "/throttle?rate=", 200, "rate param must be specified\n"),
    ("POST", "/throttle?rate=0", 200, "rate param must be >0\n"),
    ("POST", "/throttle?rate=x", 200, "rate param must be supplied as an integer\n"),
    ("POST", "/throttle?rate=1.5", 200, "rate param must be supplied as an integer\n"),
    ("POST", "/throttle?rate=5&autoremove=yes", 200, "autoremove param must be a bool\n"),
    ("POST", "/throttle/abc", 200, "rate param must be specified\n"),
    ("POST", "/throttle/abc?rate=5&autoremove=yes", 200, "autoremove param must be a bool\n"),
    ("POST", "/throttle/abc?rate=5", 200, NO_BROKER),
    ("POST", "/throttle/remove/abc", 200, NO_BROKER),
    ("POST", "/throttle/remove/all", 200, "broker 1001: throttle removed\nbroker 9: throttle removed\n"),
    ("POST", "/throttle/remove/all", 200, ""),
    ("GET", "/throttle/1001", 200, "broker 1001: no throttle override is set\n"),
    ("POST", "/throttle/remove/1001", 200, "broker 1001: throttle removed\n"),
    ("POST", "/throttle/remove", 200, "throttle removed\n"),
    ("POST", "/throttle/remove/", 200, "throttle removed\n"),
    ("POST", "/throttle/remove/77/", 200, "broker 77: throttle removed\n"),
    # A path without an id is that for all, so kafka-kit's "broker ID not provided" is no answer to any request.
    ("GET", "/throttle", 200, "no throttle override is set\n"),
    ("GET", "/throttle/remove", 405, "disallowed method\n"),
    ("GET", "/throttle/remove/all", 405, "disallowed method\n"),
    ("GET", "/throttle/remove/1001", 405, "disallowed method\n"),
    ("PUT", "/throttle/abc?rate=x", 405, "disallowed method\n"),
    ("DELETE", "/throttle/remove", 405, "disallowed method\n"),
    ("PUT", "/throttle", 405, "disallowed method\n"),
    ("DELETE", "/throttle/1001", 405, "disallowed method\n"),
    ("GET", "/other", 404, "404 page not found\n"),
    # What kafka-kit takes, and what breaks it, is refused.
    ("POST", "/throttle/all?rate=5", 200, NO_BROKER),
    ("POST", "/throttle?rate=-5", 200, "rate param must be >0\n"),
    ("POST", "/throttle?rate=00", 200, "rate param must be >0\n"),
]


def ask(
    server: PageServer,
    method: str,
    uri: str,
    headers: dict[str, str] | None = None,
    body: bytes | Iterator[bytes] | None = None,
) -> tuple[int, str]:
    with closing(http.client.HTTPConnection(server.address, timeout=120)) as connection:
        connection.request(method, uri, body=body, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@pytest.fixture(params=["control store", "znodes"])
def store(request: pytest.FixtureRequest) -> ControlOverrides | ZnodeOverrides:
    inner = FakeControlStore()
    return (
        ControlOverrides(inner, CLUSTER) if request.param == "control store" else ZnodeOverrides(inner, "autothrottle")
    )


@pytest.fixture
def server(store: ControlOverrides | ZnodeOverrides) -> Iterator[PageServer]:
    made = PageServer("127.0.0.1:0", PacerApi(store, {}, "", lambda: None).answer)
    yield made
    made.close()


def test_the_recorded_requests_get_their_replies(server: PageServer) -> None:
    assert [(m, u, *ask(server, m, u)) for m, u, _, _ in CASES] == CASES


def test_each_request_is_logged_as_kafka_kit_does_and_pages_are_not() -> None:
    said: list[str] = []
    health = {"/healthz": lambda _: HttpPage(body=b"", media="text/plain")}
    api = PacerApi(ControlOverrides(FakeControlStore(), CLUSTER), health, "", lambda: None, said.append)
    with closing(PageServer("127.0.0.1:0", api.answer)) as server:
        for method, uri in (("GET", "/healthz"), ("POST", "/throttle/7/?rate=5&x=%0a"), ("DELETE", "/none")):
            ask(server, method, uri)
    assert [line.rpartition(":")[0] for line in said] == [
        "[API] POST /throttle/7/?rate=5&x=%0a 127.0.0.1",
        "[API] DELETE /none 127.0.0.1",
    ]
    assert all(line.rpartition(":")[2].isdigit() for line in said)


def test_json_has_the_statuses_that_plain_text_lacks(server: PageServer) -> None:
    accept = {"Accept": "application/json"}
    assert ask(server, "POST", "/throttle?rate=x", accept)[0] == 400
    status, body = ask(server, "POST", "/throttle/3?rate=5", accept)
    assert status == 200
    assert msgspec.json.decode(body)["override"] == {"in": 5 * MB, "out": 5 * MB, "autoremove": False}
    assert msgspec.json.decode(ask(server, "GET", "/throttle/3", accept)[1])["override"]["in"] == 5 * MB


def test_bodies_and_addresses_have_limits(server: PageServer) -> None:
    assert ask(server, "POST", "/throttle?rate=5", body=b"x" * 100)[0] == 200
    assert ask(server, "POST", "/throttle?rate=5", body=b"x" * (PAGE_LIMITS.body_bytes + 1))[0] == 413
    assert ask(server, "POST", "/throttle?rate=5", body=iter([b"x" * 70_000]))[0] == 413
    assert ask(server, "GET", "/throttle?x=" + "y" * 3000)[0] == 414


def test_the_service_is_woken_by_a_change_alone() -> None:
    woken: list[int] = []
    overrides = ControlOverrides(FakeControlStore(), CLUSTER)
    api = PacerApi(overrides, {}, "", lambda: woken.append(1))
    for method, path in (("GET", "/throttle"), ("POST", "/throttle"), ("POST", "/throttle/remove")):
        api.answer(request(method, path))
    assert woken == [1]


def request(method: str, path: str = "/throttle/remove", *, local: bool = True, token: str = "") -> HttpRequest:
    return HttpRequest(
        method=method, path=path, query={}, remote="-", is_local=local, authorization=f"Bearer {token}" if token else ""
    )


@pytest.mark.parametrize(
    ("token", "asked", "status"),
    [
        ("s3cret", request("GET", "/throttle"), 200),
        ("s3cret", request("POST"), 401),
        ("s3cret", request("POST", token="wrong"), 401),
        ("s3cret", request("POST", token="s3cret"), 200),
        ("s3cret", request("GET", "/throttle", local=False), 401),
        ("s3cret", request("GET", "/healthz", local=False), 401),
        ("s3cret", request("GET", "/throttle", local=False, token="s3cret"), 200),
        ("", request("POST"), 200),
        ("", request("GET", "/throttle", local=False), 403),
        (None, request("GET", "/throttle"), 200),
        (None, request("POST"), 403),
        (None, request("POST", local=False, token="None"), 403),
    ],
)
def test_all_but_local_reads_need_the_token(token: str | None, asked: HttpRequest, status: int) -> None:
    health = {"/healthz": lambda _: HttpPage(body=b"", media="text/plain")}
    api = PacerApi(ControlOverrides(FakeControlStore(), CLUSTER), health, token, lambda: None)
    assert api.answer(asked).status == status


def test_a_store_that_is_away_is_said_and_ends_nothing() -> None:
    inner = FakeControlStore()
    inner.away = True
    api = PacerApi(ControlOverrides(inner, CLUSTER), {}, "", lambda: None)
    assert (api.answer(request("GET", "/throttle")).status, api.answer(request("GET", "/throttle")).body[:4]) == (
        200,
        b"the ",
    )


def test_znodes_are_those_of_kafka_kit() -> None:
    inner = FakeControlStore()
    store = ZnodeOverrides(inner, "/autothrottle/")
    store.put(None, Override(into=40 * MB, out=40 * MB, autoremove=True))
    store.put(1001, Override(into=5 * MB, out=5 * MB))
    found = {p: inner.get(p) for p in ("autothrottle/override_rate", "autothrottle/override_rate/1001")}
    assert [v.value for v in found.values() if v] == [
        b'{"rate":40,"autoremove":true}',
        b'{"rate":5,"autoremove":false}',
    ]
    inner.cas("autothrottle/override_rate/all", b'{"rate":5,"autoremove":false}', None)
    store.put(1001, None)
    gone = inner.get("autothrottle/override_rate/1001")
    assert gone is not None
    assert gone.value == b'{"rate":0,"autoremove":false}'
    assert store.read() == Overrides(every=Override(into=40 * MB, out=40 * MB, autoremove=True))
    store.settle()
    assert inner.children("autothrottle/override_rate") == ("all",)


def test_the_plain_number_of_its_first_versions_is_read() -> None:
    inner = FakeControlStore()
    inner.cas("autothrottle/override_rate", b"70", None)
    assert ZnodeOverrides(inner, "autothrottle").read().every == Override(into=70 * MB, out=70 * MB)


NOTHING = RateDecision(rates=None, memory=Memory())
OUT_1 = ConfigKey(ResourceKind.BROKER, "1", LEADER_RATE)
IN_2 = ConfigKey(ResourceKind.BROKER, "2", FOLLOWER_RATE)
IN_9 = ConfigKey(ResourceKind.BROKER, "9", FOLLOWER_RATE)


def tick(topics: Sequence[str] = (), run: str = "", **rates: int) -> Tick:
    applied = {{"out_1": OUT_1, "in_2": IN_2, "in_9": IN_9}[name]: rate for name, rate in rates.items()}
    brokers = (1, 2) if topics else ()
    return Tick(
        moves=len(topics), decision=NOTHING, topics=tuple(topics), brokers=brokers, applied=applied, requested_from=run
    )


MOVING = tick(["a", "b"], out_1=24 * PACER_MB, in_2=18_500_000)
SET_EVENTS = (
    "[kafka-autothrottle] Broker replication throttle set",
    "Replication throttles changes for brokers [ID, role, rate]: [1, leader, 24.00], [2, follower, 18.50], \n"
    "Topics currently undergoing replication: [a b]",
)


def test_what_changed_is_told_in_kafka_kits_words() -> None:
    assert told(None, MOVING) == [SET_EVENTS]
    assert told(MOVING, MOVING) == []
    assert told(MOVING, tick(["b"], out_1=24 * PACER_MB, in_2=5 * PACER_MB)) == [
        ("[kafka-autothrottle] Topics done reassigning", "Topics done reassigning: [a]"),
        (
            SET_EVENTS[0],
            "Replication throttles changes for brokers [ID, role, rate]: [2, follower, 5.00], \n"
            "Topics currently undergoing replication: [b]",
        ),
    ]
    assert told(MOVING, tick()) == [
        ("[kafka-autothrottle] Topics done reassigning", "Topics done reassigning: [a b]"),
        (
            "[kafka-autothrottle] Broker replication throttle removed",
            "Replication throttle removed on the following brokers: [1 2]",
        ),
    ]


def test_an_override_of_a_broker_without_moves_has_an_event_of_its_own() -> None:
    assert told(MOVING, tick(["a", "b"], out_1=24 * PACER_MB, in_2=18_500_000, in_9=PACER_MB)) == [
        (
            "[kafka-autothrottle] Broker level throttle override(s) configured",
            "Replication throttles changes for brokers [ID, role, rate]: [9, follower, 1.00], \n",
        )
    ]


def test_rates_that_a_run_has_are_not_told() -> None:
    assert told(MOVING, tick(["a", "b"], run="op on h")) == []


def test_while_a_run_has_the_rates_each_topic_that_ends_is_told_once() -> None:
    sent: list[str] = []
    sender = EventSender(lambda title, text, tags: sent.append(title.partition("] ")[2]), (), pytest.fail)
    busy = tick(["b"], run="op on h")
    for now in (MOVING, busy, busy, tick(["b"], out_1=24 * PACER_MB, in_2=18_500_000)):
        sender.see(now)
    sender.close()
    assert sent == ["Broker replication throttle set", "Topics done reassigning"]


def test_tags_are_the_name_and_those_given() -> None:
    assert event_tags("") == ("name:kafka-autothrottle",)
    assert event_tags("a:b, c,,") == ("name:kafka-autothrottle", "a:b", "c")


def test_ticks_of_a_pacer_are_told_to_datadog_and_keys_stand_in_headers_alone() -> None:
    rig, datadog, warned = PacerRig(), Datadog(lambda: 0.0), list[str]()
    rig.cluster.add_topic("v", {0: (4,)})
    overrides = ControlOverrides(rig.store, CLUSTER)
    pacer, _ = rig.pacer(overrides=overrides)
    with serving(datadog) as server:
        sender = EventSender(DatadogApi(Secret("k3y"), server.url).send_event, event_tags("x:y"), warned.append)
        for begins in (False, True):
            if begins:
                rig.begin()
            sender.see(pacer.tick())
        overrides.put(4, Override(into=PACER_MB, out=PACER_MB))
        sender.see(pacer.tick())
        rig.clock.sleep(1000)
        sender.see(pacer.tick())
        sender.close()
        sender.close()
    assert [(title.partition("] ")[2], tags) for title, _, tags in datadog.events] == [
        (name, ["name:kafka-autothrottle", "x:y"])
        for name in (
            "Broker replication throttle set",
            "Broker level throttle override(s) configured",
            "Topics done reassigning",
            "Broker replication throttle removed",
        )
    ]
    assert "[3, follower, 0.10], \nTopics currently undergoing replication: [t]" in datadog.events[0][1]
    assert "[4, follower, 1.00]" in datadog.events[1][1]
    assert datadog.events[3][1].endswith("brokers: [1 2 3]")
    assert warned == []
    assert {(got.headers["Dd-Api-Key"], "k3y" in got.path, "k3y" in str(got.words)) for got in server.got} == {
        ("k3y", False, False)
    }


def test_a_throttle_that_could_not_be_removed_is_not_told_as_removed() -> None:
    rig, sent = PacerRig(), list[str]()
    pacer, _ = rig.pacer()
    rig.begin()
    sender = EventSender(lambda title, text, tags: sent.append(text), (), pytest.fail)
    sender.see(pacer.tick())
    rig.clock.sleep(1000)
    rig.cluster.kill(3)
    for _ in range(2):
        sender.see(pacer.tick())
    rig.cluster.revive(3)
    sender.see(pacer.tick())
    sender.close()
    assert [text.rpartition(": ")[2] for text in sent if "removed on" in text] == ["[1 2]", "[3]"]


def test_a_failure_is_a_warning_and_the_next_event_is_sent() -> None:
    sent, warned = list[str](), list[str]()

    def send(title: str, text: str, tags: Sequence[str]) -> None:
        sent.append(text)
        if len(sent) == 1:
            raise TryLaterError("HTTP 503")

    sender = EventSender(send, (), warned.append)
    sender.see(MOVING)
    sender.see(tick())
    sender.close()
    assert len(sent) == 3
    assert warned == ["an event could not be sent: HTTP 503"]


def test_a_service_that_hangs_holds_no_tick_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_queue, "END_S", 0.05)
    go, warned = threading.Event(), list[str]()
    sender = EventSender(lambda *_: go.wait(180), (), warned.append)
    for number in range(MAX_WAITING + 5):
        sender.see(tick(["a"], out_1=number + 1))
    sender.close()
    assert set(warned[:-1]) == {f"events are dropped: {MAX_WAITING} wait to be sent"}
    assert warned[-1] == "events are dropped: they could not be sent within 0.05 s"
    assert 2 <= len(warned) <= 6
    go.set()


def test_a_refused_event_is_told_without_its_key() -> None:
    warned: list[str] = []
    datadog = Datadog(lambda: 0.0)
    datadog.faults["/events"] = Reply({"errors": ["Forbidden k3y"]}, 403)
    with serving(datadog) as server:
        sender = EventSender(DatadogApi(Secret("k3y"), server.url).send_event, (), warned.append)
        sender.see(MOVING)
        sender.close()
    assert "403" in warned[0]
    assert "k3y" not in warned[0]


NUMBER = st.integers(0, 2**50)
RATES = st.dictionaries(
    st.tuples(st.integers(0, 9000), st.sampled_from(Side)),
    st.builds(RateMemory, rate=NUMBER, changed_ms=NUMBER, calm_since_ms=NUMBER, learnt=st.floats(0, 1e12)),
    max_size=20,
)


def saved(memory: Memory, **more: object) -> SavedTick:
    tick = SavedTick(
        at=datetime(2026, 1, 1, tzinfo=UTC),
        by="op on h",
        law="slo",
        token=3,
        learnt=memory_rest(memory),
        memory=memory_rows(memory),
        **more,  # type: ignore[arg-type]
    )
    return decode_tick(encode_tick(tick), "it")


@given(st.builds(Memory, rates=RATES, failures=st.integers(0, 9)))
def test_a_memory_comes_back(memory: Memory) -> None:
    assert memory_of(saved(memory)) == memory


def test_what_another_version_saved_is_forgotten_and_not_an_error() -> None:
    tick = saved(Memory())
    object.__setattr__(tick, "memory", ([1, "in", "x"],))
    assert memory_of(tick) == Memory()


def test_a_document_stays_below_the_limit_of_the_store() -> None:
    memory = Memory(rates={(1, Side.INTO): RateMemory(rate=1, changed_ms=2, calm_since_ms=3)})
    found = saved(memory, reasons=tuple((b, "in", 1, "floor", "x" * 100) for b in range(1000)))
    assert found.reasons == ()
    assert memory_of(found) == memory
    huge = Memory(rates={(b, Side.INTO): RateMemory(rate=1, changed_ms=2, calm_since_ms=3) for b in range(9000)})
    assert memory_of(saved(huge)).rates == {}
    assert LIMIT_BYTES < 65536
