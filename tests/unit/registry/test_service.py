"""The service as a whole: limits, rights, age, deadlines, the audit log, and the process that reads."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from kafkakit import wiring
from kafkakit.adapters.host import SystemClock
from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import MissingExtraError, OperationFailedError, TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.core.rpc import RpcAnswer, RpcCall, RpcError
from kafkakit.execution.act.journal_files import AuditLog
from kafkakit.registry.act import service as run
from kafkakit.registry.act.cluster import InventoryReader
from kafkakit.registry.act.service import RegistryServer
from kafkakit.registry.act.tag_store import TagStore
from kafkakit.registry.decide.access import Access, CallRates, read_access
from kafkakit.registry.decide.tags import CallRole
from tests.fakes.control import FakeControlStore
from tests.places import ROOT
from tests.rigs.command_line import Home
from tests.rigs.registry import (
    EVERYTHING,
    DirectReader,
    Registry,
    curl,
    grpc_call,
    service_on,
    serving,
    small_cluster,
    tls_files,
)
from tests.rigs.waiting import until
from tests.unit.registry.test_parts import CALLERS

TAG = "/v1/topics/tag/test1?tag=a:b"


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with serving(tmp_path) as registry:
        yield registry


def test_a_caller_above_its_rate_is_told_when_to_come_again(tmp_path: Path) -> None:
    import grpc

    with serving(tmp_path, rates=CallRates(reads_per_s=0.01, writes_per_s=1, timeout_s=0.01)) as registry:
        answered = [registry.curl("GET", "/v1/brokers/list") for _ in range(11)]
        assert [a.status for a in answered] == [200] * 10 + [429]
        assert answered[-1].body == {"code": 8, "message": "wait time exceeded", "details": []}
        assert int(answered[-1].headers["retry-after"]) >= 1
        with pytest.raises(grpc.RpcError) as caught:
            grpc_call(registry.addresses["gRPC"], "ListBrokers", {})
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "retry-after" in dict(caught.value.trailing_metadata())
        assert registry.curl("PUT", TAG).status != 429  # writes have a rate of their own


def test_without_a_token_only_local_reads_are_answered(tmp_path: Path) -> None:
    access = Access(by_digest=read_access(CALLERS.encode(), "tokens"), is_open_to_reads_from_here=True)
    with serving(tmp_path, access=access) as registry:
        assert registry.curl("GET", "/v1/brokers/list").status == 200
        assert registry.curl("GET", "/v1/brokers/list", "-H", "Origin: https://example.org").status == 401
        assert registry.curl("PUT", TAG).status == 403
        wrong = registry.curl("PUT", TAG, "-H", "Authorization: Bearer x")
        assert (wrong.status, wrong.headers["www-authenticate"]) == (401, "Bearer")
        assert registry.curl("PUT", TAG, "-H", "Authorization: Bearer ci-token").status == 403
        assert registry.audited() == []
        assert registry.curl("PUT", TAG, "-H", "Authorization: Bearer root-token").status == 200
        grpc_call(
            registry.addresses["gRPC"], "TagBroker", {"id": 1, "tag": ["a:b"]}, [("authorization", "Bearer root-token")]
        )
        assert [line["caller"] for line in registry.audited()] == ["root"] * 4
        assert "token" not in registry.audit.read_text().replace("tokens", "")


def test_every_change_is_in_the_audit_log_before_and_after_it(registry: Registry) -> None:
    registry.curl("PUT", TAG)
    registry.cluster.fail_next("delete_topic", TryLaterError("away"))  # type: ignore[attr-defined]
    assert registry.curl("DELETE", "/v1/topics/test1").status == 503
    lines = [(line["request"], line["call"], line["outcome"]) for line in registry.audited()]
    assert lines == [
        (1, "TagTopic", "begun"), (1, "TagTopic", "done"), (2, "DeleteTopic", "begun"), (2, "DeleteTopic", "failed"),
    ]  # fmt: skip
    assert registry.audited()[0]["params"] == {"tag": ["a:b"], "name": "test1"}
    assert "away" in registry.audited()[3]["error"]


def test_without_an_audit_log_nothing_is_changed(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").mkdir()
    with serving(tmp_path) as registry:
        assert registry.curl("PUT", TAG).status == 500
        assert registry.store.get("registry/topic/test1") is None


def test_a_change_that_was_made_is_answered_as_one_although_its_outcome_cannot_be_written(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = AuditLog.record

    def full(log: AuditLog, what: Mapping[str, object]) -> None:
        if what["outcome"] != "begun":
            raise OperationFailedError("cannot write audit.jsonl: no space left on device")
        write(log, what)

    monkeypatch.setattr(AuditLog, "record", full)
    assert registry.curl("PUT", TAG).status == 200
    assert registry.curl("GET", "/v1/topics/list?tag=a:b").body["names"] == ["test1"]


def test_a_refusal_of_kafka_is_no_success(registry: Registry) -> None:
    cluster: Any = registry.cluster
    cluster.create_topic = lambda *_: ItemError(name="PolicyViolationError", message="too many partitions")
    body = json.dumps({"topic": {"name": "new", "partitions": 1, "replication": 1, "tags": {"a": "b"}}})
    answered = registry.curl("POST", "/v1/topics/create", "-d", body)
    assert (answered.status, "too many partitions" in answered.body["message"]) == (400, True)
    assert registry.store.get("registry/topic/new") is None


def test_replies_state_their_age_and_are_refused_when_they_are_too_old(tmp_path: Path) -> None:
    cluster = small_cluster()
    with serving(tmp_path, cluster, max_age_s=7_200) as registry:
        assert int(registry.curl("GET", "/v1/brokers/list").headers["age"]) < 3_600
        registry.inventory.began_s -= 3_600
        assert 3_600 <= int(registry.curl("GET", "/v1/brokers/list").headers["age"]) < 7_200
        cluster.fail_next("snapshot", TryLaterError("the brokers are away"))
        registry.refresh()
        registry.inventory.began_s -= 3_600
        answered = registry.curl("GET", "/v1/topics/list")
        assert (answered.status, answered.body["code"]) == (500, 13)
        assert answered.body["message"] == "error fetching topics: the brokers are away"
        assert registry.curl("GET", "/v1/brokers/list").body["message"].startswith("error fetching brokers")
        registry.refresh()
        assert registry.curl("GET", "/v1/topics/list").status == 200
        assert registry.lines[2:] == [
            "cannot read the cluster, replies grow old: the brokers are away", "reads the cluster again",
        ]  # fmt: skip


def test_what_other_programs_change_is_in_the_next_reading(registry: Registry) -> None:
    cluster: Any = registry.cluster
    TagStore(registry.store, "registry").put(registry_kind("topic"), "test2", {"by": "another"})
    cluster.add_topic("test3", {0: (1001,)})
    assert registry.curl("GET", "/v1/topics/list").body["names"] == ["test1", "test2"]
    # A topic that the last reading lacks is looked up.
    assert registry.curl("PUT", "/v1/topics/tag/test3?tag=new:yes").status == 200
    registry.refresh()
    assert registry.curl("GET", "/v1/topics/list?tag=by:another").body["names"] == ["test2"]
    assert registry.curl("GET", "/v1/topics/list?tag=new:yes").body["names"] == ["test3"]
    assert registry.curl("GET", "/v1/topics/list").body["names"] == ["test1", "test2", "test3"]


def create(registry: Registry, name: str, **more: Any) -> tuple[int, str]:
    body = json.dumps({"topic": {"name": name, "partitions": 1, "replication": 1}, **more})
    answered = registry.curl("POST", "/v1/topics/create", "-d", body)
    return answered.status, answered.body.get("message", "")


def change_tags(registry: Registry, kind: str, name: str, **more: Any) -> str:
    body = json.dumps({"changes": [{"kind": kind, "name": name, **more}]})
    (result,) = registry.curl("POST", "/v2/tags", "-d", body).body["results"]
    return str(result["message"])


def test_a_topic_that_another_program_deleted_is_gone_for_every_write(registry: Registry) -> None:
    cluster: Any = registry.cluster
    assert cluster.delete_topic("test1") is None
    assert "test1" in registry.inventory.topics, "the reading is old"
    gone = (404, "topic does not exist")
    for method, path in (
        ("PUT", TAG),
        ("DELETE", "/v1/topics/tag/test1?tag=a"),
        ("DELETE", "/v1/topics/test1"),
    ):
        answered = registry.curl(method, path)
        assert (answered.status, answered.body["message"]) == gone
    assert change_tags(registry, "topic", "test1", set={"a": "b"}) == "topic test1 does not exist"
    assert registry.store.get("registry/topic/test1") is None
    assert create(registry, "test1") == (200, "")
    assert "test1" in cluster.topic_names()
    assert create(registry, "test1") == (409, "topic already exists")


def test_a_topic_that_another_program_made_is_there_for_every_write(registry: Registry) -> None:
    cluster: Any = registry.cluster
    cluster.add_topic("fresh", {0: (1001,)})
    assert create(registry, "fresh") == (409, "topic already exists")
    assert registry.curl("PUT", "/v1/topics/tag/fresh?tag=a:b").status == 200
    assert change_tags(registry, "topic", "fresh", set={"c": "d"}) == ""
    assert registry.curl("DELETE", "/v1/topics/tag/fresh?tag=a").status == 200
    assert registry.curl("DELETE", "/v1/topics/fresh").status == 200
    assert "fresh" not in cluster.topic_names()


def test_brokers_that_came_and_went_since_the_reading_count_for_a_write(registry: Registry) -> None:
    cluster: Any = registry.cluster
    cluster.add_broker(1009, "z")
    assert create(registry, "there", target_broker_ids=[1009]) == (200, "")
    assert create(registry, "in-rack", target_broker_tags=["rack:z"]) == (200, "")
    assert cluster.partition_states(["in-rack"])[TopicPartition("in-rack", 0)].replicas == (1009,)
    assert change_tags(registry, "broker", "1009", set={"a": "b"}) == ""
    assert registry.curl("DELETE", "/v1/brokers/tag/1009?tag=a").status == 200
    TagStore(registry.store, "registry").put(registry_kind("broker"), "1002", {"pool": "late"})
    assert create(registry, "tagged", target_broker_tags=["pool:late"]) == (200, "")
    cluster.kill(1004)
    assert create(registry, "dead", target_broker_ids=[1004]) == (400, "invalid broker id: 1004")


def test_a_record_without_tags_is_named_and_passed_over(registry: Registry) -> None:
    registry.store.cas("registry/topic/test1", b"[1]", None)
    registry.store.cas("registry/topic/test2", b'{"a":"b"}', None)
    for _ in range(2):
        registry.refresh()
    assert registry.curl("GET", "/v1/topics/list?tag=a:b").body["names"] == ["test2"]
    assert registry.lines[2:] == ["records without readable tags are passed over: registry/topic/test1"]
    assert registry.curl("PUT", TAG).status == 500


def registry_kind(name: str) -> Any:
    from kafkakit.registry.decide.tags import ObjectKind

    return ObjectKind(name)


def test_a_server_is_stopped_once_however_often_it_is_told(tmp_path: Path) -> None:
    service, inventory, _ = service_on(tmp_path, small_cluster(), FakeControlStore())
    server = RegistryServer(service, inventory, [], print)
    stops, together = list[int](), threading.Barrier(3, timeout=180)
    service.at_stop.append(lambda: stops.append(1))
    server.stop()
    assert stops == []
    server.start(
        DirectReader(InventoryReader(small_cluster(), TagStore(FakeControlStore(), "registry"), SystemClock()))
    )

    def stop(_: int) -> None:
        together.wait()
        server.stop()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(stop, range(3)))
    server.stop()
    assert stops == [1]
    assert not any(thread.name == "registry" for thread in threading.enumerate())


def test_a_call_that_does_not_end_keeps_no_server_from_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "GRACE_S", 0.1)
    service, inventory, _ = service_on(tmp_path, small_cluster(), FakeControlStore())
    monkeypatch.setattr(service, "drain", lambda _: asyncio.sleep(60))
    server = RegistryServer(service, inventory, [], print)
    server.start(
        DirectReader(InventoryReader(small_cluster(), TagStore(FakeControlStore(), "registry"), SystemClock()))
    )
    server.stop()
    assert not any(thread.name == "registry" for thread in threading.enumerate())


def test_a_request_that_hangs_outlives_no_stop_and_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "GRACE_S", 0.1)
    begun, go_on, before = threading.Event(), threading.Event(), set(threading.enumerate())

    def hang() -> None:
        begun.set()
        go_on.wait(180)

    service, inventory, lines = service_on(tmp_path, small_cluster(), FakeControlStore())
    server = RegistryServer(service, inventory, [], print)
    server.start(
        DirectReader(InventoryReader(small_cluster(), TagStore(FakeControlStore(), "registry"), SystemClock()))
    )
    asyncio.run_coroutine_threadsafe(service.read_in_thread(time.monotonic() + 600, hang), server._loop)
    assert begun.wait(120)
    server.stop()
    assert [thread for thread in set(threading.enumerate()) - before if not thread.daemon] == []
    go_on.set()
    assert lines == ["stops while 1 request still waited for the cluster; the audit log has no outcome"]


def test_a_defect_that_comes_after_its_deadline_is_reported(tmp_path: Path) -> None:
    service, _, lines = service_on(tmp_path, small_cluster(), FakeControlStore())

    async def late() -> None:
        begun, go_on = threading.Event(), threading.Event()

        def work() -> None:
            begun.set()
            go_on.wait(180)
            raise LookupError("no such replica")

        waiting = asyncio.create_task(service.read_in_thread(time.monotonic() + 0.2, work))
        with pytest.raises(RpcError, match="deadline exceeded"):
            await waiting
        assert lines == []
        if begun.is_set():  # else it was withdrawn in time
            go_on.set()
            while not lines:
                await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(late(), 180))
    assert lines == ["this is a bug in kafkakit: LookupError: no such replica"]


def test_a_service_whose_listener_has_ended_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkakit.adapters.rpc import http_listener

    def broken_check(connection: object) -> None:
        raise LookupError("no such state")

    monkeypatch.setattr(http_listener._Connection, "check", broken_check)
    with serving(tmp_path) as registry:
        host, _, port = registry.addresses["HTTP"].rpartition(":")
        service = registry.server
        monkeypatch.setattr(service, "start", lambda reader: None)
        with (
            socket.create_connection((host, int(port)), timeout=120),
            pytest.raises(OperationFailedError, match=r"HTTP: the HTTP server has ended \(LookupError"),
        ):
            run.run_server(service, registry.reader, SystemClock(), lambda *_: False, [])


def test_requests_that_are_too_large_are_refused(registry: Registry) -> None:
    address = registry.addresses["HTTP"]
    big = "x" * 2_000_000
    ran = subprocess.run(
        ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Expect:", "-d", "@-", f"http://{address}/v1/topics/create"],
        input=big, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert ran.stdout in ("413", "000")
    assert registry.curl("GET", "/v1/topics?name=" + "x" * 9000).status == 200
    import grpc

    with pytest.raises(grpc.RpcError) as caught:
        grpc_call(registry.addresses["gRPC"], "ListTopics", {"name": big})
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert curl(address, "GET", "/v1/brokers/list").status == 200


def test_bytes_that_are_no_request_end_their_connection_alone(registry: Registry) -> None:
    host, _, port = registry.addresses["HTTP"].rpartition(":")
    for data in (b"\x16\x03\x01", b"GET / HTTP/9\r\n\r\n", b"GET " + b"a" * 100_000, b"\0" * 1000):
        with socket.create_connection((host, int(port)), timeout=120) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
    assert registry.curl("GET", "/v1/brokers/list").status == 200


class Slow(FakeControlStore):
    """A store that answers reads of tags only when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.let = threading.Event()
        self.let.set()

    def get(self, path: str) -> Any:
        assert self.let.wait(180)
        return super().get(path)


def test_a_deadline_ends_the_waiting_and_a_change_that_began_is_taken_in(tmp_path: Path) -> None:
    store = Slow()
    with serving(tmp_path, store=store) as registry:
        store.let.clear()
        late = registry.curl("PUT", TAG, "-H", "Grpc-Timeout: 200m")
        assert (late.status, late.body["code"]) == (504, 4)
        assert registry.curl("PUT", TAG, "-H", "Grpc-Timeout: soon").status == 400
        assert registry.curl("GET", "/v1/topics/list?tag=a:b").body["names"] == []
        store.let.set()
        assert until(lambda: registry.curl("GET", "/v1/topics/list?tag=a:b").body["names"]) == ["test1"]


def test_a_change_whose_turn_never_came_is_not_made(tmp_path: Path) -> None:
    store = Slow()
    with serving(tmp_path, store=store) as registry, ThreadPoolExecutor(9) as pool:
        store.let.clear()
        words = ["-H", "Grpc-Timeout: 300m"]
        asked = [f"/v1/brokers/tag/{n}?tag=a:b" for n in range(1, 9)]
        answered = list(pool.map(lambda path: registry.curl("PUT", path, *words), asked))
        assert {a.status for a in answered} == {504}
        store.let.set()
        until(lambda: sum(line["outcome"] == "done" for line in registry.audited()) >= 4)
        assert len(registry.audited()) == 8
        assert len(TagStore(store, "registry").all(registry_kind("broker"), [])) == 4


def test_a_long_reply_does_not_hold_up_others(tmp_path: Path) -> None:
    cluster, store = small_cluster(), FakeControlStore()
    for number in range(1500):
        cluster.add_topic(f"t{number}", {0: (1001,)})

    async def both() -> list[str]:
        ended: list[str] = []
        service, inventory, _ = service_on(tmp_path, cluster, store)
        inventory.apply(InventoryReader(cluster, TagStore(store, "registry"), SystemClock()).read())

        async def ask(path: str) -> None:
            answered = await service.http(RpcCall(method="GET", path=path, body=b"", remote="127.0.0.1"))
            assert answered.status == 200
            if path == "/v1/topics":
                assert len(json.loads(answered.body)["topics"]) == 1502
            ended.append(path)

        await asyncio.gather(ask("/v1/topics"), ask("/v1/brokers/list"))
        await service.drain(1)
        return ended

    assert asyncio.run(both()) == ["/v1/brokers/list", "/v1/topics"]


# -- the process that reads -------------------------------------------------------------------------

# In a process of its own: the reader is to be made before there are threads, such as gRPC's.
READER = """
import os, signal, sys, threading, time
from kafkakit.adapters.host import SystemClock
from kafkakit.core.errors import OperationFailedError
from kafkakit.execution.act.journal_files import AuditLog
from kafkakit.registry.act import service as run
from kafkakit.registry.act.cluster import InventoryReader
from kafkakit.registry.act.cluster import ReaderProcess
from kafkakit.registry.act.service import RegistryServer
from kafkakit.registry.act.tag_store import TagStore
from tests.fakes.admin import FakeCluster
from tests.fakes.control import FakeControlStore

tries = [OperationFailedError("no way in")]
cluster = FakeCluster({1: "a"})
cluster.add_topic("t", {0: (1,)})

def open_reader():
    if tries:
        raise tries.pop()
    return InventoryReader(cluster, TagStore(FakeControlStore(), "r"), SystemClock())

changes, ended = [], threading.Event()
reader = ReaderProcess(open_reader, 0.02)
reader.start(changes.append, ended.set)
end = time.monotonic() + 120
while len(changes) < 3 and time.monotonic() < end:
    time.sleep(0.01)
print(changes[0].failure, changes[0].began_at, flush=True)
print([topic.name for topic in changes[1].topics], changes[2].topics, changes[2].brokers, changes[2].gone, flush=True)
if sys.argv[1] in ("child", "garbled"):
    if sys.argv[1] == "child":
        os.kill(reader.pid, signal.SIGKILL)
    else:
        from kafkakit.registry.act import cluster as module
        module._DECODER = __import__("msgspec").msgpack.Decoder(int)
    print(ended.wait(120), flush=True)
    reader.stop()
    reader.stop()
else:
    print(reader.pid, flush=True)
    os._exit(0)
"""


def run_reader(what: str) -> list[str]:
    ran = subprocess.run(
        [sys.executable, "-c", READER, what], cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_the_process_that_reads_says_what_fails_tries_again_and_is_missed() -> None:
    assert run_reader("child") == ["no way in None", "['t'] () None ()", "True"]


def test_a_reading_that_nobody_can_read_is_an_end_too() -> None:
    assert run_reader("garbled") == ["no way in None", "['t'] () None ()", "True"]


def test_a_service_that_cannot_take_readings_in_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service, inventory, _ = service_on(tmp_path, small_cluster(), FakeControlStore())
    server = RegistryServer(service, inventory, [], print)
    reader = DirectReader(InventoryReader(small_cluster(), TagStore(FakeControlStore(), "registry"), SystemClock()))

    def defect(_: object) -> None:
        raise RuntimeError("no such partition")

    monkeypatch.setattr(inventory, "apply", defect)
    with pytest.raises(OperationFailedError, match=r"a reading cannot be taken in \(RuntimeError: no such partition\)"):
        run.run_server(server, reader, SystemClock(), lambda *_: False, [])


def test_the_process_that_reads_ends_with_its_parent() -> None:
    child = Path("/proc") / run_reader("parent")[2]
    until(lambda: not child.exists(), "the child has ended")


def test_roles_are_what_files_name() -> None:
    assert sorted(CallRole) == ["create", "delete", "read", "tag"]
    assert EVERYTHING.identify({}, "10.0.0.1").roles == set(CallRole)


# -- TLS --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tls_files(tmp_path_factory.mktemp("tls"))


@pytest.mark.parametrize("must_have_one", [False, True])
def test_both_listeners_speak_tls_and_know_their_clients(
    tmp_path: Path, certificates: Path, must_have_one: bool
) -> None:
    import grpc

    tls = wiring.server_tls(
        certificates / "server.key", certificates / "server.pem", certificates / "ca.pem" if must_have_one else None
    )
    with serving(tmp_path, tls=tls) as registry:
        url = f"https://{registry.addresses['HTTP']}/v1/brokers/list"
        words = ["curl", "-sS", "--max-time", "120", "--cacert", str(certificates / "ca.pem")]
        mine = ["--cert", str(certificates / "client.pem"), "--key", str(certificates / "client.key")]
        with_one = subprocess.run([*words, *mine, url], capture_output=True, timeout=180, check=True)
        assert json.loads(with_one.stdout)["ids"]
        without = subprocess.run([*words, url], capture_output=True, timeout=180, check=False)
        assert (without.returncode != 0) is must_have_one
        plain = subprocess.run([*words, url.replace("https", "http")], capture_output=True, timeout=180, check=False)
        assert plain.returncode != 0
        authority = (certificates / "ca.pem").read_bytes()
        for own in (True, False):
            files = [(certificates / name).read_bytes() for name in ("client.key", "client.pem")] if own else [None] * 2
            credentials = grpc.ssl_channel_credentials(authority, *files)
            with grpc.secure_channel(registry.addresses["gRPC"], credentials) as channel:
                call = channel.unary_unary("/registry.Registry/ListBrokers")
                if own or not must_have_one:
                    assert call(b"", timeout=120)
                else:
                    with pytest.raises(grpc.RpcError):
                        call(b"", timeout=5)


# -- what the command refuses -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--http-listen", "0.0.0.0:1"], "is not encrypted"),
        (["--grpc-listen", "[::]:1", "--allow-plaintext"], "can be reached from other machines"),
        (["--http-listen", "none", "--grpc-listen", "none"], "are both none"),
        (["--http-listen", "here"], "is not an address to listen on"),
        (["--tls-key-file", "k"], "belong together"),
        (["--tls-client-ca-file", "k"], "belong together"),
        (["--token-file", "missing"], "missing"),
        (["--token-file", "tokens", "--no-token"], "exclude each other"),
        (["--kafka-sasl-password", "secret"], "passwords are not accepted on the command line"),
        (["--zk-tags-prefix", "/"], "--zk-tags-prefix is empty"),
        (["--enable-locking"], "--enable-locking needs --zk-addr"),
        (["--read-rate-limit", "0"], "read-rate-limit"),
        (["--refresh", "soon"], "--refresh"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_opened(
    tmp_path: Path, words: list[str], message: str
) -> None:
    home = Home(tmp_path)
    home.work.mkdir(parents=True)
    (home.work / "tokens").write_text(CALLERS)
    ran = home.run("registry", "serve", "--bootstrap-servers", "127.0.0.1:1", *words)
    assert (ran.code, ran.stdout) == (2, "")
    assert message in ran.stderr
    assert "secret" not in ran.stderr


def test_kafka_kits_variables_are_options(tmp_path: Path) -> None:
    env = {"REGISTRY_HTTP_LISTEN": "0.0.0.0:7", "REGISTRY_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    assert "0.0.0.0:7 can be reached" in Home(tmp_path).run("registry", "serve", env=env).stderr
    env = {"REGISTRY_ENABLE_LOCKING": "true", "REGISTRY_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    assert "--enable-locking needs" in Home(tmp_path).run("registry", "serve", env=env).stderr
    assert "--enable-locking needs" in Home(tmp_path).run("registry", "serve", "--enable-locking=true").stderr


@pytest.mark.parametrize("package", ["messages", "http_listener", "grpc_listener"])
def test_what_is_not_installed_is_named(package: str) -> None:
    def open_all() -> None:
        wiring.registry_codec()
        wiring.open_http_listener("127.0.0.1:0", unanswered, 1, None)
        wiring.open_grpc_listener("127.0.0.1:0", (), 1, None)

    without = mock.patch.dict(sys.modules, {f"kafkakit.adapters.rpc.{package}": None})
    with without, pytest.raises(MissingExtraError, match="the registry requires the package"):
        open_all()


async def unanswered(call: RpcCall) -> RpcAnswer:
    raise AssertionError(call)
