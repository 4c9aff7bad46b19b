"""TLS files that cannot be used are named before any client meets them."""

from dataclasses import replace
from pathlib import Path

import pytest

from kafkakit.adapters.tls import CertificateMaker, check_tls_files
from kafkakit.config.security import Protocol, Secret, Security
from kafkakit.core.errors import InputError, UsageError


@pytest.fixture
def good(tmp_path: Path) -> Security:
    for name, data in CertificateMaker().make([], ["admin", "guest"]).items():
        (tmp_path / name).write_bytes(data)
    return Security(
        protocol=Protocol.SSL,
        ca_file=str(tmp_path / "ca.pem"),
        cert_file=str(tmp_path / "admin.pem"),
        key_file=str(tmp_path / "admin.key"),
    )


def encrypted(key_file: Path) -> None:
    from cryptography.hazmat.primitives import serialization as s

    key = s.load_pem_private_key(key_file.read_bytes(), None)
    key_file.write_bytes(key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.BestAvailableEncryption(b"sesame")))


def test_good_files_pass_and_without_tls_nothing_is_read(good: Security) -> None:
    check_tls_files(good)
    check_tls_files(Security(ca_file="/nowhere"))


@pytest.mark.parametrize("content", [b"", b"junk\n", b"\xff\x00", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
@pytest.mark.parametrize("part", ["ca_file", "cert_file", "key_file"])
def test_a_damaged_file_is_named(good: Security, part: str, content: bytes) -> None:
    path = Path(getattr(good, part))
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        check_tls_files(good)
    assert caught.value.source == str(path)


@pytest.mark.parametrize("part", ["ca_file", "cert_file", "key_file"])
def test_a_folder_or_a_missing_file_is_named(good: Security, part: str, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(InputError) as caught:
            check_tls_files(replace(good, **{part: str(path)}))  # type: ignore[arg-type]
        assert caught.value.source == str(path)


def test_a_key_of_another_certificate_is_told(good: Security, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"guest\.key: is not the key of the certificate .*admin\.pem"):
        check_tls_files(replace(good, key_file=str(tmp_path / "guest.key")))


def test_an_encrypted_key_needs_its_password_and_nobody_is_asked(good: Security, tmp_path: Path) -> None:
    encrypted(tmp_path / "admin.key")
    with pytest.raises(UsageError, match="is encrypted, and no password is configured"):
        check_tls_files(good)
    with pytest.raises(UsageError, match="does not open the key") as caught:
        check_tls_files(replace(good, key_password=Secret("wrong")))
    assert "wrong" not in str(caught.value)
    check_tls_files(replace(good, key_password=Secret("sesame")))
