"""kafka-kit's HTTP API: every recorded request gets its reply, byte by byte, over a real socket."""

import http.client
from collections.abc import Iterator
from contextlib import closing

import msgspec
import pytest

from kafkakit.adapters.http_server import MAX_BODY, HttpServer
from kafkakit.autothrottle.act.pacer import ControlOverrides, ZnodeOverrides
from kafkakit.autothrottle.act.service import PacerApi
from kafkakit.autothrottle.decide.pacer import MB, Override, Overrides
from kafkakit.core.rpc import HttpPage, HttpRequest
from tests.fakes.control import FakeControlStore
from tests.rigs.pacer import CLUSTER

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
    server: HttpServer, method: str, uri: str, headers: dict[str, str] | None = None, body: bytes | None = None
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
def server(store: ControlOverrides | ZnodeOverrides) -> Iterator[HttpServer]:
    made = HttpServer("127.0.0.1:0", PacerApi(store, {}, "", lambda: None).answer)
    yield made
    made.close()


def test_the_recorded_requests_get_their_replies(server: HttpServer) -> None:
    assert [(m, u, *ask(server, m, u)) for m, u, _, _ in CASES] == CASES


def test_each_request_is_logged_as_kafka_kit_does_and_pages_are_not() -> None:
    said: list[str] = []
    health = {"/healthz": lambda _: HttpPage(body=b"", media="text/plain")}
    api = PacerApi(ControlOverrides(FakeControlStore(), CLUSTER), health, "", lambda: None, said.append)
    with closing(HttpServer("127.0.0.1:0", api.answer)) as server:
        for method, uri in (("GET", "/healthz"), ("POST", "/throttle/7/?rate=5&x=%0a"), ("DELETE", "/none")):
            ask(server, method, uri)
    assert [line.rpartition(":")[0] for line in said] == [
        "[API] POST /throttle/7/?rate=5&x=%0a 127.0.0.1",
        "[API] DELETE /none 127.0.0.1",
    ]
    assert all(line.rpartition(":")[2].isdigit() for line in said)


def test_json_has_the_statuses_that_plain_text_lacks(server: HttpServer) -> None:
    accept = {"Accept": "application/json"}
    assert ask(server, "POST", "/throttle?rate=x", accept)[0] == 400
    status, body = ask(server, "POST", "/throttle/3?rate=5", accept)
    assert status == 200
    assert msgspec.json.decode(body)["override"] == {"in": 5 * MB, "out": 5 * MB, "autoremove": False}
    assert msgspec.json.decode(ask(server, "GET", "/throttle/3", accept)[1])["override"]["in"] == 5 * MB


def test_bodies_and_addresses_have_limits(server: HttpServer) -> None:
    assert ask(server, "POST", "/throttle?rate=5", body=b"x" * 100)[0] == 200
    assert ask(server, "POST", "/throttle?rate=5", body=b"x" * (MAX_BODY + 1))[0] == 413
    assert ask(server, "POST", "/throttle?rate=5", {"Transfer-Encoding": "chunked"})[0] == 413
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
