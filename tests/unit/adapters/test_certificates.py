"""Settings that a cluster refuses: each client names what is wrong, every time, and what to check.

The brokers here answer what comes before a login, and end all other connections without a word.
"""

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafkakit.adapters.kafka.admin import KafkaAdmin
from kafkakit.adapters.kafka.data import KafkaData
from kafkakit.adapters.kafka.group_consumer import KafkaAssignedConsumer, KafkaGroupConsumer
from kafkakit.adapters.kafka.groups import KafkaGroups
from kafkakit.adapters.kafka.listener_probe import explain
from kafkakit.adapters.kafka.log import KafkaLog
from kafkakit.adapters.kafka.stream_producer import KafkaStreamCluster
from kafkakit.config.security import Mechanism, Protocol, Secret, Security
from kafkakit.core.errors import ConnectRefusedError, ExitCode, TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.ports.data import Consumer
from tests.unit.doctor.test_doctor import make_certificate

TP = TopicPartition("t", 0)


@contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """An address on which each connection is answered by a thread of its own."""

    def talk(stream: socket.socket) -> None:
        with suppress(OSError, EOFError, struct.error), stream:
            stream.settimeout(60)
            answer(stream)

    def serve(server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=talk, args=(server.accept()[0],), daemon=True).start()

    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def broker(
    *,
    tls: tuple[Path, Path] | None = None,
    clients: Path | None = None,
    mechanisms: Sequence[str] = (),
    words: str = "Authentication failed: Invalid username or password",
) -> AbstractContextManager[str]:
    """An address that answers SaslHandshake and refuses logins; with client certificates that `clients` signed."""
    context = None
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        if clients is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(clients)

    def answer(plain: socket.socket) -> None:
        with context.wrap_socket(plain, server_side=True) if context else plain as stream:
            while True:
                size, key, _, correlation = struct.unpack(">ihhi", exactly(stream, 12))
                exactly(stream, size - 8)
                if key == 17:
                    body = struct.pack(">hi", 0 if mechanisms else 34, len(mechanisms))
                    body += b"".join(struct.pack(">h", len(name)) + name.encode() for name in mechanisms)
                elif key == 36:
                    body = struct.pack(">hh", 58, len(words)) + words.encode() + struct.pack(">i", 0)
                else:
                    return
                stream.sendall(struct.pack(">ii", 4 + len(body), correlation) + body)

    return listening(answer)


def exactly(stream: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = stream.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def refusal(address: str, security: Security) -> ConnectRefusedError:
    admin = KafkaAdmin(address, security, bootstrap_timeout_s=6)
    with closing(admin), pytest.raises(ConnectRefusedError) as caught:
        admin.cluster()
    return caught.value


@pytest.mark.parametrize(
    ("address", "days", "reason", "hint"),
    [
        ("127.0.0.1", 10, "certificate has expired", "renew the broker's certificate"),
        ("127.0.0.9", 36500, "certificate is not valid for '127.0.0.1", "connect by a name of its certificate"),
    ],
)
def test_a_certificate_that_expired_or_has_another_name_is_told_as_such(
    tmp_path: Path, address: str, days: int, reason: str, hint: str
) -> None:
    certificate, key = make_certificate(tmp_path, address=address, days=days)
    with broker(tls=(certificate, key)) as listener:
        error = refusal(listener, Security(protocol=Protocol.SSL, ca_file=str(certificate)))
    assert f"the certificate of {listener} is not trusted" in error.message
    assert reason in error.message
    assert "_ssl.c" not in error.message
    assert (error.hint or "").startswith(hint)
    assert error.exit_code == ExitCode.USAGE


def test_a_broker_that_wants_another_client_certificate_or_one_at_all(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    (tmp_path / "other").mkdir()
    strange, strange_key = make_certificate(tmp_path / "other")
    for own, own_key, words in (
        (None, None, "wants a client certificate, the settings have none"),
        (str(strange), str(strange_key), f"client certificate {strange} refused by"),
    ):
        with broker(tls=(certificate, key), clients=certificate) as listener:
            security = Security(protocol=Protocol.SSL, ca_file=str(certificate), cert_file=own, key_file=own_key)
            error = refusal(listener, security)
        assert words in error.message
        assert "security.tls.cert_file" in (error.hint or ""), error


def sasl(mechanism: Mechanism, user: str = "x", password: str = "hunter2") -> Security:
    return Security(
        protocol=Protocol.SASL_PLAINTEXT, sasl_mechanism=mechanism, username=user, password=Secret(password)
    )


CLIENTS: dict[str, Callable[[str, Security], object]] = {
    "admin": lambda address, security: KafkaAdmin(address, security, bootstrap_timeout_s=6).cluster(),
    "log": lambda address, security: KafkaLog(address, security, bootstrap_timeout_s=6).cluster_id(),
    "groups": lambda address, security: KafkaGroups(address, security, lambda _: {}, bootstrap_timeout_s=6).groups(),
    "data": lambda address, security: KafkaData(address, security).reach(3),
    "stream": lambda address, security: KafkaStreamCluster(address, security).identify("t", 3),
    "commits": lambda address, security: KafkaAssignedConsumer(address, security, "g").committed([TP], 3),
    "member": lambda address, security: polled(KafkaGroupConsumer(address, security, "g")),
    "reader": lambda address, security: consumed(KafkaData(address, security).consumer([TP])),
}
"""Each way into a cluster that kafkakit has, and one call."""


def polled(member: KafkaGroupConsumer) -> None:
    member.subscribe(["t"], mock.Mock())
    deadline = time.monotonic() + 120
    try:
        while time.monotonic() < deadline:
            member.poll(10, 0.5)
    finally:
        member.close(0)


def consumed(reader: Consumer) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        reader.poll(0.5)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mechanism", [Mechanism.PLAIN, Mechanism.SCRAM_SHA_512])
def test_every_client_calls_a_refused_login_so(client: str, mechanism: Mechanism) -> None:
    with broker(mechanisms=[*Mechanism]) as listener, pytest.raises(ConnectRefusedError) as caught:
        CLIENTS[client](listener, sasl(mechanism))
    assert caught.value.message == f"cannot connect: login refused ({mechanism}, user x) by {listener}"
    assert caught.value.exit_code == ExitCode.USAGE
    assert "kafkakit doctor" in (caught.value.hint or "")


@pytest.mark.parametrize("client", ["admin", "data", "member"])
def test_every_client_names_the_protocol_and_the_mechanism(client: str, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    with broker(tls=(certificate, key)) as listener, pytest.raises(ConnectRefusedError) as caught:
        CLIENTS[client](listener, Security())
    assert caught.value.message == f"cannot connect: {listener} speaks SSL, the settings say PLAINTEXT"
    with broker(mechanisms=["GSSAPI"]) as listener, pytest.raises(ConnectRefusedError) as caught:
        CLIENTS[client](listener, sasl(Mechanism.PLAIN))
    assert caught.value.message == f"cannot connect: {listener} takes GSSAPI, the settings say PLAIN"


def test_a_reason_of_the_broker_for_a_refused_login_is_passed_on() -> None:
    with broker(mechanisms=["PLAIN"], words="account locked until 9:00") as listener:
        error = refusal(listener, sasl(Mechanism.PLAIN))
    assert error.message.endswith(f"login refused (PLAIN, user x) by {listener}: account locked until 9:00")


def test_one_address_that_takes_the_settings_is_enough() -> None:
    with broker(mechanisms=["PLAIN"]) as refusing, broker() as plain:
        assert explain(f"{refusing},{plain}", Security()) is None
        assert explain(refusing, Security()) is not None


def test_a_program_that_is_not_kafka_is_not_a_refusal() -> None:
    with listening(lambda stream: stream.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")) as listener:
        assert explain(listener, Security()) is None
        admin = KafkaAdmin(listener, Security(), bootstrap_timeout_s=1)
        with closing(admin), pytest.raises(TryLaterError) as caught:
            admin.cluster()
    assert not isinstance(caught.value, ConnectRefusedError)


class _Admin:
    """Its first request fails at once, and the answer to the second one comes later."""

    def __init__(self, settings: object) -> None:
        del settings
        self.cluster, self.topic = Future[Any](), Future[Any]()
        self.cluster.set_exception(KafkaException(KafkaError(KafkaError._PARTIAL)))
        threading.Timer(0.2, self.topic.set_result, [SimpleNamespace(topic_id="x", partitions=[0])]).start()

    def describe_cluster(self, **more: object) -> Future[Any]:
        return self.cluster

    def describe_topics(self, topics: object, **more: object) -> dict[str, Future[Any]]:
        return {"t": self.topic}


def test_no_client_is_let_go_of_while_it_waits_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka ends the process if metadata come while their client is destroyed, as after a pause of a broker."""
    made = list[_Admin]()

    def admin(settings: object) -> _Admin:
        made.append(_Admin(settings))
        return made[-1]

    monkeypatch.setattr("confluent_kafka.admin.AdminClient", admin)
    cluster = KafkaStreamCluster("127.0.0.1:1", Security(protocol=Protocol.PLAINTEXT))
    with pytest.raises(TryLaterError):
        cluster.identify("t", 30)
    assert made[0].topic.done()
