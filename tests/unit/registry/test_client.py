"""The client of a registry; the client and the commands over real TLS."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kafkakit import wiring
from kafkakit.core.errors import ConflictError, InputError, KafkakitError, TryLaterError, UsageError
from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.registry import client as module
from kafkakit.registry.client import RegistryClient, connect
from kafkakit.registry.decide.access import Access, read_access
from kafkakit.registry.decide.desired_tags import BrokerEntry, OffsetPair, ReplicaList, TopicEntry
from kafkakit.registry.decide.requests import CreateRequest
from kafkakit.registry.decide.tags import CallRole, ObjectKind, etag_of
from kafkakit.registry.decide.v2_calls import TranslatedOffset
from tests.places import ROOT
from tests.rigs.command_line import Home
from tests.rigs.registry import Registry, serving, tls_files
from tests.unit.registry.test_parts import CALLERS

Answer = tuple[int, Any]
"""Status and body; 0: no answer at all, and below 0 the body ends before what is announced."""
TOPIC = {"tags": {"team": "a"}, "name": "t", "partitions": 1, "replication": 2, "configs": {}, "replicas": {}}
BROKER = {
    "tags": {}, "id": 1001, "host": "h", "port": 9092, "rack": "a", "interbrokerprotocolversion": "3.9",
    "logmessageformat": "3.0",
}  # fmt: skip
NOT_THERE = (404, {"code": 5, "message": "Not Found", "details": []})


@dataclass
class Rig:
    """A server that answers `METHOD PATH?QUERY BODY` by a table, or by a function."""

    answers: Callable[[str], Answer]
    got: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    url: str = ""


@contextmanager
def answering(answers: dict[str, Answer] | Callable[[str], Answer]) -> Iterator[Rig]:
    rig = Rig(answers if callable(answers) else lambda request: answers.get(request, NOT_THERE))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            request = f"{self.command} {self.path} {body}".strip()
            rig.got.append(request)
            rig.headers.append(dict(self.headers))
            status, reply = rig.answers(request)
            data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            self.close_connection = status <= 0
            if status == 0:
                return
            self.send_response(abs(status))
            self.send_header("Content-Length", str(len(data) + (5 if status < 0 else 0)))
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - the base class's words

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's word
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads, server.block_on_close = True, False
        threading.Thread(target=lambda: server.serve_forever(poll_interval=0.02), daemon=True).start()
        rig.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield rig
        finally:
            server.shutdown()


CALLS: list[tuple[str, Answer, Callable[[RegistryClient], Any], Any]] = [
    (
        "GET /v1/topics?tag=team%3Aa&tag=x%3A1&with_replicas=true",
        (200, {"topics": {"t": {**TOPIC, "replicas": {"0": {"ids": [1, 2]}}}}, "names": []}),
        lambda c: c.topics(["team:a", "x:1"], with_replicas=True),
        {
            "t": TopicEntry(
                name="t", partitions=1, replication=2, tags={"team": "a"}, replicas={0: ReplicaList(ids=(1, 2))}
            )
        },
    ),
    ("GET /v1/topics/list", (200, {"topics": {}, "names": ["b", "a"]}), lambda c: c.topic_names(), ("a", "b")),
    (
        "GET /v1/brokers?tag=tier%3Ahot",
        (200, {"brokers": {"1001": BROKER}, "ids": []}),
        lambda c: c.brokers(["tier:hot"]),
        {
            1001: BrokerEntry(
                id=1001, host="h", port=9092, rack="a", interbrokerprotocolversion="3.9", logmessageformat="3.0"
            )
        },
    ),
    ("GET /v1/mappings/topic/a%2Fb", (200, {"ids": [2, 1]}), lambda c: c.brokers_of_topic("a/b"), (1, 2)),
    ("GET /v1/mappings/broker/7", (200, {"names": ["t"]}), lambda c: c.topics_of_broker(7), ("t",)),
    ("GET /v1/brokers/unmapped?exclude=t", (200, {"ids": [7]}), lambda c: c.unmapped_brokers(["t"]), (7,)),
    (
        "GET /v1/translate-offsets/prod/g",
        (200, {"offsets": {"t:0": {"upstreamOffset": "9007199254740993", "localOffset": "2"}}}),
        lambda c: c.translate_offsets("g", "prod"),
        {"t:0": OffsetPair(upstreamOffset=9007199254740993, localOffset=2)},
    ),
    ("PUT /v1/topics/tag/t?tag=a%3A1", (200, {}), lambda c: c.tag(ObjectKind.TOPIC, "t", {"a": "1"}), None),
    ("PUT /v1/brokers/tag/7?tag=a%3A1", (200, {}), lambda c: c.tag(ObjectKind.BROKER, "7", {"a": "1"}), None),
    (
        'POST /v1/topics/create {"topic":{"name":"n"},"target_broker_ids":[1]}',
        (200, {}),
        lambda c: c.create_topic(CreateRequest(topic={"name": "n"}, target_broker_ids=(1,))),
        None,
    ),
    ("DELETE /v1/topics/t", (200, {}), lambda c: c.delete_topic("t"), None),
]


@pytest.mark.parametrize(("request_", "answer", "call", "result"), CALLS, ids=[row[0].split("?")[0] for row in CALLS])
def test_a_call_is_kafka_kits_request(
    request_: str, answer: Answer, call: Callable[[RegistryClient], Any], result: Any
) -> None:
    with answering({request_: answer}) as rig, connect(rig.url) as client:
        assert call(client) == result
    assert rig.got == [request_]


def test_tags_are_changed_by_etag_in_version_2() -> None:
    def result(code: int) -> Answer:
        return 200, {"results": [{"kind": "topic", "name": "t", "code": code, "message": "m"}], "dry_run": False}

    codes = iter([0, RpcCode.ABORTED, RpcCode.PERMISSION_DENIED, RpcCode.UNAVAILABLE])
    with answering(lambda _: result(next(codes))) as rig, connect(rig.url) as client:

        def change() -> None:
            client.change_tags(ObjectKind.TOPIC, "t", {"a": "1", "b": "1"}, {"a": "2"})

        change()
        sent = json.loads(rig.got[0].removeprefix("POST /v2/tags "))["changes"]
        assert sent == [
            {"kind": "topic", "name": "t", "set": {"a": "2"}, "delete": ["b"], "etag": etag_of({"a": "1", "b": "1"})}
        ]
        for kind in (ConflictError, RpcError, TryLaterError):
            with pytest.raises(kind):
                change()


def test_intervals_are_those_of_version_2_and_unknown_to_kafka_kit() -> None:
    row: Any = {"topic": "t", "partition": 0, "upstream_offset": 9, "local_offset": 2}
    known = {**row, "local_end_offset": 4, "exact": False, "may_repeat": 2, "assumes_no_own_records": True}
    with (
        answering({"GET /v2/translate-offsets/prod/g%2Fh": (200, {"offsets": [known]})}) as rig,
        connect(rig.url) as client,
    ):
        assert [msgspec.to_builtins(o) for o in client.offset_intervals("g/h", "prod")] == [known]
    answers = {
        "GET /v2/translate-offsets/prod/g": (404, {"code": 5, "message": "Not Found"}),
        "GET /v1/translate-offsets/prod/g": (200, {"offsets": {"t:0": {"upstreamOffset": "9", "localOffset": "2"}}}),
    }
    with answering(answers) as rig, connect(rig.url) as client:
        assert client.offset_intervals("g", "prod") == (TranslatedOffset(**row),)
    refusals: dict[str, Answer] = {"GET /v2/translate-offsets/prod/g": (403, {"code": 7, "message": "no"})}
    with answering(refusals) as rig, connect(rig.url) as client, pytest.raises(RpcError, match="no"):
        client.offset_intervals("g", "prod")


def test_a_server_without_version_2_gets_version_1_after_another_look() -> None:
    topics = {"topics": {"t": TOPIC}, "names": []}
    answers = {
        "GET /v1/topics?name=t": (200, topics),
        "PUT /v1/topics/tag/t?tag=x%3A1": (200, {}),
        "DELETE /v1/topics/tag/t?tag=team": (200, {}),
    }
    with answering(answers) as rig, connect(rig.url) as client:
        client.change_tags(ObjectKind.TOPIC, "t", {"team": "a"}, {"x": "1"})
        assert [line.split(" {")[0] for line in rig.got] == ["POST /v2/tags", *answers]
        with pytest.raises(ConflictError):
            client.change_tags(ObjectKind.TOPIC, "t", {"team": "b"}, {"x": "1"})
        assert rig.got[len(answers) + 1 :] == ["GET /v1/topics?name=t"]
        with pytest.raises(RpcError, match="Not Found"):
            client.history()


def test_brokers_that_are_down_are_known_to_version_2_alone() -> None:
    results: list[dict[str, Any]] = [
        {"kind": "broker", "name": "7", "tags": {"a": "1"}},
        {"kind": "broker", "name": "8", "code": 5, "message": "broker 8 does not exist"},
    ]
    with answering(lambda _: (200, {"results": results, "dry_run": True})) as rig, connect(rig.url) as client:
        assert client.down_brokers([]) == {}
        assert client.down_brokers({8, 7}) == {7: BrokerEntry(id=7, tags={"a": "1"})}
        assert len(rig.got) == 1
        assert '"dry_run":true' in rig.got[0]
        client.down_brokers(range(1, 2002))
        assert len(rig.got) == 4
    results[1]["code"] = 7
    with (
        answering(lambda _: (200, {"results": results})) as rig,
        connect(rig.url) as client,
        pytest.raises(RpcError, match="does not exist"),
    ):
        client.down_brokers([8])
    with answering(lambda _: NOT_THERE) as rig, connect(rig.url) as client:
        assert client.down_brokers([7]) == {}
        assert client.down_brokers([7]) == {}
        assert len(rig.got) == 1


def test_history_is_read_page_by_page() -> None:
    def page(request: str) -> Answer:
        entry = {"kind": "topic", "name": "t", "number": 1, "at": "", "by": "", "changes": []}
        return 200, {"entries": [entry, entry], "next_page_token": "" if "page_token=b" in request else "b"}

    with answering(page) as rig, connect(rig.url) as client:
        assert len(client.history(ObjectKind.TOPIC, "t")) == 4
        assert len(client.history(most=2)) == 2
    assert rig.got[0] == "GET /v2/history?kind=topic&name=t&page_size=1000"
    assert rig.got[2] == "GET /v2/history?page_size=2"


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        ((400, {"code": 3, "message": "bad\x1b[2J"}), RpcError, r"bad\\x1b\[2J"),
        ((403, b"no"), RpcError, "the registry answers with HTTP 403"),
        ((301, b""), RpcError, "the registry answers with HTTP 301"),
        ((200, b"{"), InputError, "gives an answer that is not a registry response"),
        ((200, {"names": [[]]}), InputError, "gives an answer that is not a registry response"),
        ((200, b"[" * 100_000), InputError, "gives an answer that is not a registry response"),
        ((500, {"code": 2, "message": "wait time exceeded"}), TryLaterError, "wait time exceeded"),
        ((503, {"code": 14, "message": "store away"}), TryLaterError, "store away"),
        ((0, b""), TryLaterError, "gives no answer"),
        ((-200, {"names": ["a"]}), TryLaterError, "the answer ends early"),
    ],
)
def test_an_answer_that_is_none_is_an_error(
    answer: Answer, kind: type[KafkakitError], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0)
    with answering(lambda _: answer) as rig, connect(rig.url) as client:
        with pytest.raises(kind, match=text):
            client.topic_names()
        assert len(rig.got) == (3 if kind is TryLaterError else 1)


def test_reads_are_repeated_and_changes_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0)
    refused = (503, {"code": 14, "message": "store away"})
    answers = iter([(0, b""), (503, b""), (200, {"names": ["a"]}), (0, b""), refused])
    with answering(lambda _: next(answers)) as rig, connect(rig.url) as client:
        assert client.topic_names() == ("a",)
        with pytest.raises(TryLaterError) as caught:
            client.delete_topic("t")
        assert caught.value.hint == "whether the change was made is not known: read before repeating it"
        with pytest.raises(TryLaterError, match="store away") as caught:
            client.delete_topic("t")
        assert caught.value.hint is None  # nothing was done
    assert len(rig.got) == 5


def test_too_large_an_answer_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    with (
        answering(lambda _: (200, b" " * 1001)) as rig,
        connect(rig.url) as client,
        pytest.raises(InputError, match="more than 1,000 bytes"),
    ):
        client.topic_names()


def test_the_token_goes_in_a_header_and_never_unencrypted_elsewhere(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    with answering(lambda _: (200, {"names": []})) as rig, connect(rig.url, token_file=token) as client:
        client.topic_names()
    assert rig.headers[0]["Authorization"] == "Bearer s3cret"
    far = "http://registry.example:80"
    with pytest.raises(UsageError, match=r"to registry\.example unencrypted"), connect(far, token_file=token):
        pass
    token.write_text("two\nlines")
    with pytest.raises(InputError, match="holds no token"), connect(rig.url, token_file=token):
        pass
    with pytest.raises(InputError, match="cannot be read"), connect(rig.url, token_file=tmp_path / "none"):
        pass


@pytest.mark.parametrize("server", ["", "ftp://h", "http://", "http://h:x", "http://u:p@h", "http://h?q"])
def test_what_is_no_address_is_refused(server: str) -> None:
    with pytest.raises(UsageError), connect(server):
        pass


def test_files_that_tls_cannot_use_are_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(InputError, match=r"ca\.pem: cannot be used for TLS"), connect("h", ca_file=tmp_path / "ca.pem"):
        pass


def test_type_checkers_of_applications_use_the_annotations() -> None:
    assert (ROOT / "kafkakit/py.typed").is_file()


ANYTHING = Access(by_digest=read_access(CALLERS.encode(), "tokens"), anonymous=frozenset(CallRole), names=None)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tls_files(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module", params=["tls", "mtls"])
def secured(
    request: pytest.FixtureRequest, files: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Registry, bool]]:
    needs_one = request.param == "mtls"
    tls = wiring.server_tls(files / "server.key", files / "server.pem", files / "ca.pem" if needs_one else None)
    with serving(tmp_path_factory.mktemp("served"), tls=tls, access=ANYTHING) as registry:
        yield registry, needs_one


def ours(files: Path) -> dict[str, Any]:
    return {"cert_file": files / "client.pem", "key_file": files / "client.key"}


def test_the_client_reads_and_changes(secured: tuple[Registry, bool], files: Path, tmp_path: Path) -> None:
    registry, needs_one = secured
    token = tmp_path / "token"
    token.write_text("root-token\n")
    given: dict[str, Any] = {"ca_file": files / "ca.pem", "token_file": token, **(ours(files) if needs_one else {})}
    for host in ("127.0.0.1", "localhost"):
        server = f"https://{host}:{registry.addresses['HTTP'].rpartition(':')[2]}"
        with connect(server, **given) as client:
            before = client.topics()["test1"].tags
            client.change_tags(ObjectKind.TOPIC, "test1", before, {"from": host})
            client.tag(ObjectKind.BROKER, "1001", {"from": host})
            assert client.topics(["from:" + host]).keys() == {"test1"}
            assert client.brokers()[1001].tags == {"from": host}
            assert client.history(ObjectKind.TOPIC, "test1")[0].by == "root"


def test_another_side_than_the_one_that_is_meant_is_refused(
    secured: tuple[Registry, bool], files: Path, tmp_path: Path
) -> None:
    registry, needs_one = secured
    server, other = f"https://{registry.addresses['HTTP']}", tls_files(tmp_path)
    with connect(server, ca_file=other / "ca.pem") as client, pytest.raises(UsageError, match="TLS fails"):
        client.topic_names()
    with connect(server) as client, pytest.raises(UsageError, match="TLS fails"):
        client.topic_names()  # the system knows no such authority
    with connect(server.replace("https", "http")) as client, pytest.raises(KafkakitError):
        client.topic_names()
    for given in ({}, ours(other)):
        with connect(server, ca_file=files / "ca.pem", **given) as client:
            if needs_one:
                with pytest.raises(KafkakitError) as caught:
                    client.topic_names()
                # In TLS 1.3 the refusal comes after the handshake, and some servers end the connection without it.
                assert "TLS fails" in caught.value.message or (not given) == ("--cert-file" in str(caught.value.hint))
            else:
                assert client.topic_names()


def test_a_certificate_for_another_use_is_none_of_a_server(files: Path, tmp_path: Path) -> None:
    tls = wiring.server_tls(files / "client.key", files / "client.pem", None)
    with (
        serving(tmp_path, tls=tls) as registry,
        connect(f"https://{registry.addresses['HTTP']}", ca_file=files / "ca.pem") as client,
        pytest.raises(UsageError, match="TLS fails"),
    ):
        client.topic_names()


def test_a_key_that_does_not_fit_is_named(files: Path) -> None:
    given: dict[str, Any] = {"cert_file": files / "client.pem", "key_file": files / "server.key"}
    with pytest.raises(InputError, match=r"client\.pem, .*server\.key: cannot be used for TLS"), connect("h", **given):
        pass


def test_the_commands_take_the_same_files(secured: tuple[Registry, bool], files: Path, tmp_path: Path) -> None:
    registry, needs_one = secured
    home = Home(tmp_path)
    server = ("--server", f"https://{registry.addresses['HTTP']}", "--ca-file", str(files / "ca.pem"))
    mine = ("--cert-file", str(files / "client.pem"), "--key-file", str(files / "client.key"))

    ran = home.run("registry", "tag", "--topics", "test2", "over:tls", *server, *mine)
    assert (ran.code, ran.stdout.splitlines()[-1]) == (0, "1 of 1 topic changed")
    ran = home.run("registry", "topics", "where over = tls", "-o", "tsv", *server, *mine)
    assert (ran.code, ran.stdout.split("\t")[0]) == (0, "test2")
    assert home.run("registry", "untag", "--topics", "test2", "over", *server, *mine).code == 0

    without = home.run("registry", "topics", *server)
    if needs_one:
        assert without.code in (2, 75)
        assert "TLS fails" in without.stderr or "hint: the server may need a certificate" in without.stderr
        assert len([line for line in without.stderr.splitlines() if line.startswith("error: ")]) == 1
    else:
        assert without.code == 0
    assert "belong together" in home.run("registry", "topics", *server, *mine[:2]).stderr


def test_a_refusal_comes_over_tls_as_it_does_without(files: Path, tmp_path: Path) -> None:
    tls = wiring.server_tls(files / "server.key", files / "server.pem", None)
    with (
        serving(tmp_path, tls=tls, access=Access(by_digest={})) as registry,
        connect(f"https://{registry.addresses['HTTP']}", ca_file=files / "ca.pem") as client,
        pytest.raises(RpcError, match="needs the header Authorization"),
    ):
        client.topic_names()
