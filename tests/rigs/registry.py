"""A registry that serves on free ports of this host, over a cluster and a control store in memory."""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from kafkakit.adapters.host import SystemClock
from kafkakit.adapters.tls import CertificateMaker
from kafkakit.config.security import Security
from kafkakit.execution.act.journal_files import AuditLog, DiskFile
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.stores import ControlStore
from kafkakit.registry.act.cluster import InventoryReader, Writes
from kafkakit.registry.act.service import RegistryServer, RegistryService, ServicePorts, SignedTokens
from kafkakit.registry.act.tag_store import TagStore
from kafkakit.registry.act.v2 import Endpoints, PartsV2, serve_both
from kafkakit.registry.decide.access import Access, Admission, CallRates
from kafkakit.registry.decide.inventory import Inventory, InventoryChange
from kafkakit.registry.decide.requests import RPC_BY_NAME, SERVICE, OffsetsReply
from kafkakit.registry.decide.tags import CallRole
from kafkakit.registry.decide.v2_calls import TranslatedOffsets
from kafkakit.registry.report import registry_page
from kafkakit.wiring import open_grpc_listener, open_http_listener, registry_codec, threads_of_requests
from tests.fakes.admin import FakeCluster
from tests.fakes.control import FakeControlStore

EVERYTHING = Access(by_digest={}, anonymous=frozenset(CallRole))
RATES = CallRates(reads_per_s=1e6, writes_per_s=1e6, timeout_s=60)


class DirectReader:
    """Reads where a test says so, and hands each change to the server before it returns."""

    def __init__(self, reader: InventoryReader) -> None:
        self.reader = reader
        self.receive: Callable[[InventoryChange], None] = lambda change: None

    def start(self, receive: Callable[[InventoryChange], None], ended: Callable[[], None]) -> None:
        self.receive = receive
        receive(self.reader.read())

    def stop(self) -> None:
        pass


@dataclass
class Answered:
    """One HTTP answer."""

    status: int
    body: Any
    headers: Mapping[str, str]


@dataclass
class Registry:
    """A running service with what it stands on."""

    cluster: ClusterAdmin
    store: ControlStore
    server: RegistryServer
    inventory: Inventory
    reader: DirectReader
    audit: Path
    lines: list[str]
    addresses: dict[str, str] = field(default_factory=dict)

    def refresh(self) -> None:
        """One more reading, taken in when this returns."""
        self.reader.receive(self.reader.reader.read())
        assert self.server.is_alive()

    def curl(self, method: str, path: str, *words: str) -> Answered:
        """One request with curl."""
        return curl(self.addresses["HTTP"], method, path, *words)

    def audited(self) -> list[dict[str, Any]]:
        """The lines of the audit log."""
        return [json.loads(line) for line in self.audit.read_text().splitlines()] if self.audit.exists() else []


def curl(address: str, method: str, path: str, *words: str) -> Answered:
    """One request with curl."""
    command = ["curl", "-sS", "-i", "--max-time", "120", "-X", method, *words, f"http://{address}{path}"]
    ran = subprocess.run(command, capture_output=True, timeout=180, check=True)
    head, _, body = ran.stdout.decode().partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    return Answered(int(first.split(" ")[1]), json.loads(body) if body else None, headers)


def served_on(
    folder: Path,
    cluster: ClusterAdmin,
    store: ControlStore,
    *,
    access: Access = EVERYTHING,
    rates: CallRates = RATES,
    translate: Callable[..., OffsetsReply] = lambda request, deadline_s: OffsetsReply(),
    translate_v2: Callable[..., TranslatedOffsets] = lambda request, deadline_s: TranslatedOffsets(offsets=()),
    max_age_s: float = 300,
    tokens: SignedTokens | None = None,
    **limits: Any,
) -> tuple[Endpoints, Inventory, list[str]]:
    """A service in both versions, its inventory and the lines that it will report; `limits` are of `PartsV2`."""
    clock, inventory, lines = SystemClock(), Inventory(), list[str]()
    tags, codec = TagStore(store, "registry"), registry_codec()
    writes = Writes(cluster, tags, clock, inventory)
    ports = ServicePorts(
        codec=codec,
        writes=writes,
        translate=translate,
        audit=AuditLog(DiskFile(folder / "audit.jsonl"), clock),
        clock=clock,
        report=lines.append,
        in_thread=threads_of_requests(),
        tokens=tokens,
    )
    service = RegistryService(inventory, ports, access, Admission(rates), max_age_s=max_age_s)
    parts = PartsV2(
        inventory=inventory,
        writes=writes,
        tags=tags,
        codec=registry_codec("registry.v2"),
        health_codec=registry_codec("grpc.health.v1"),
        page=partial(registry_page, "test <cluster>"),
        translate=translate_v2,
        **limits,
    )
    return serve_both(service, parts), inventory, lines


def service_on(
    folder: Path, cluster: ClusterAdmin, store: ControlStore, **given: Any
) -> tuple[RegistryService, Inventory, list[str]]:
    """Version 1 of a service alone."""
    served, inventory, lines = served_on(folder, cluster, store, **given)
    return served.first, inventory, lines


def running_service(
    folder: Path, cluster: ClusterAdmin, store: ControlStore, *, tls: Security | None = None, **given: Any
) -> tuple[RegistryServer, Inventory, list[str]]:
    """A server on free ports, not yet started, its inventory and the lines that it will report."""
    served, inventory, lines = served_on(folder, cluster, store, **given)
    http = open_http_listener("127.0.0.1:0", served.http, 1 << 20, tls)
    grpc = open_grpc_listener("127.0.0.1:0", served.grpc_services, 1 << 20, tls)
    return RegistryServer(served.first, inventory, [("HTTP", http), ("gRPC", grpc)], lines.append), inventory, lines


@contextmanager
def serving(
    folder: Path, cluster: ClusterAdmin | None = None, store: ControlStore | None = None, **given: Any
) -> Iterator[Registry]:
    """Serve until the block ends; `given` as for `running_service`."""
    cluster, store = cluster or small_cluster(), store or FakeControlStore()
    server, inventory, lines = running_service(folder, cluster, store, **given)
    reader = DirectReader(InventoryReader(cluster, TagStore(store, "registry"), SystemClock()))
    try:
        server.start(reader)
        addresses = dict(line.split(" up: ") for line in lines if " up: " in line)
        assert server.is_alive()
        yield Registry(cluster, store, server, inventory, reader, folder / "audit.jsonl", lines, addresses)
    finally:
        server.stop()


def tls_files(folder: Path) -> Path:
    """One authority (`ca.pem`), a server's certificate and key and a client's, as files of the folder."""
    for name, data in CertificateMaker().make(["server"], ["client"]).items():
        (folder / name).write_bytes(data)
    pem = (folder / "server.keystore.pem").read_bytes()
    key, begin, rest = pem.partition(b"-----BEGIN CERTIFICATE-----")
    (folder / "server.key").write_bytes(key)
    (folder / "server.pem").write_bytes(begin + rest)
    return folder


def small_cluster() -> FakeCluster:
    """kafka-kit's own fake: six brokers, two topics."""
    cluster = FakeCluster({1001: "a", 1002: "b", 1003: None, 1004: "a", 1005: "b", 1007: None})
    cluster.add_topic("test1", {0: (1001, 1002), 1: (1002,)}, configs={"retention.ms": "1000"})
    cluster.add_topic("test2", {0: (1003, 1002), 1: (1002, 1003)})
    return cluster


def grpc_call(address: str, name: str, fields: Mapping[str, Any], metadata: Sequence[tuple[str, str]] = ()) -> Any:
    """One call with grpcio's client: the reply's fields and the trailing metadata. Raises `grpc.RpcError`."""
    import grpc

    codec, rpc = registry_codec(), RPC_BY_NAME[name]
    with grpc.insecure_channel(address) as channel:
        call = channel.unary_unary(f"/{SERVICE}/{name}")
        body, state = call.with_call(codec.encode(rpc.message, fields), timeout=120, metadata=tuple(metadata))
        return codec.decode(rpc.reply, body), dict(state.trailing_metadata())
