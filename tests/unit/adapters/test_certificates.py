"""Certificates that do not serve: what is wrong is named, with what to check, and it is not tried again and again."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from kafkakit.adapters.kafka import session as connect
from kafkakit.adapters.kafka.admin import KafkaAdmin
from kafkakit.config.security import Protocol, Security
from kafkakit.core.errors import TryLaterError
from tests.unit.doctor.test_doctor import make_certificate


@contextmanager
def tls_listener(certificate: Path, key: Path, *, clients: Path | None = None) -> Iterator[str]:
    """An address that does the TLS handshake, with client certificates that `clients` signed where it is given."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients)

    def serve(server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                plain, _ = server.accept()
                with suppress(OSError), context.wrap_socket(plain, server_side=True) as stream:
                    stream.recv(1000)

    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def refusal(address: str, security: Security) -> tuple[TryLaterError, list[str]]:
    """Why no connection is made, and what came of each look of 2 s; on a slow machine, one may see nothing."""
    look, looks = connect._new_client, list[str]()

    def noted(*given: Any) -> Any:
        try:
            return look(*given)
        finally:
            looks.append(connect._listen().reason)

    admin = KafkaAdmin(address, security, bootstrap_timeout_s=6)
    with mock.patch.object(connect, "_new_client", noted), closing(admin), pytest.raises(TryLaterError) as caught:
        admin.cluster()
    return caught.value, looks


@pytest.mark.parametrize(
    ("address", "days", "reason"),
    [("127.0.0.1", 10, "certificate has expired"), ("127.0.0.9", 36500, "certificate is not valid for '127.0.0.1")],
)
def test_a_certificate_that_expired_or_has_another_name_is_told_as_such(
    tmp_path: Path, address: str, days: int, reason: str
) -> None:
    certificate, key = make_certificate(tmp_path, address=address, days=days)
    with tls_listener(certificate, key) as listener:
        error, looks = refusal(listener, Security(protocol=Protocol.SSL, ca_file=str(certificate)))
    assert reason in error.message
    assert "_ssl.c" not in error.message
    assert len(looks) == 1 or reason not in looks[0], "not tried again once it is known"
    assert error.hint == (
        "check address, protocol, credentials; here the dates and names of the broker's certificate, "
        "and security.tls.ca_file"
    )


def test_a_broker_that_wants_another_client_certificate_or_one_at_all(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    (tmp_path / "other").mkdir()
    strange, strange_key = make_certificate(tmp_path / "other")
    for own, own_key in ((None, None), (str(strange), str(strange_key))):
        with tls_listener(certificate, key, clients=certificate) as listener:
            security = Security(protocol=Protocol.SSL, ca_file=str(certificate), cert_file=own, key_file=own_key)
            error, _ = refusal(listener, security)
        assert "security.tls.cert_file" in (error.hint or ""), error
