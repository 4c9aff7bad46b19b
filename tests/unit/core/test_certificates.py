import ssl
from pathlib import Path

from kafkakit.adapters.tls import CertificateMaker


def test_a_broker_and_a_client_trust_each_other_and_nobody_else(tmp_path: Path) -> None:
    made = CertificateMaker().make(["broker-1001"], ["admin"])
    other = CertificateMaker().make([], ["admin"])
    assert sorted(made) == ["admin.key", "admin.pem", "broker-1001.keystore.pem", "ca.pem"]
    for name, data in made.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "stranger.pem").write_bytes(other["admin.pem"] + other["admin.key"])

    assert shake_hands(tmp_path, "admin.pem", "admin.key") is None
    assert shake_hands(tmp_path, "stranger.pem", "stranger.pem") is not None


def shake_hands(folder: Path, certificate: str, key: str) -> str | None:
    """A TLS handshake in memory; returns why it failed."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "broker-1001.keystore.pem")
    server.load_verify_locations(folder / "ca.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    client.load_cert_chain(folder / certificate, folder / key)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    there = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(6):
        for side in (here, there):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                return str(error)
    return None
