"""TLS files: whether those that a configuration names can be used, and a throwaway authority for a secured sandbox.

Files are checked before a client meets them: the clients report a damaged file as a cluster that cannot be reached, and
a key with a password makes OpenSSL prompt on the terminal. The authority is made with `cryptography`.
"""

import datetime
import ipaddress
import ssl
from collections.abc import Collection, Mapping

from kafkakit.config.security import Security
from kafkakit.core.errors import InputError, MissingExtraError, UsageError


def check_tls_files(security: Security) -> None:
    """Load the authorities, our certificate and our key as a client will; cheap, and nothing is sent.

    Raises `InputError` naming the file that cannot be used, `UsageError` when the key's password is missing or wrong.
    """
    if not security.protocol.uses_tls:
        return
    if security.ca_file is not None:
        _load_certificates(security.ca_file)
    if security.cert_file is not None and security.key_file is not None:
        _load_certificates(security.cert_file)
        _load_key(security, security.cert_file, security.key_file)


def _load_certificates(path: str) -> None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except (ssl.SSLError, ValueError):
        hint = "it must be PEM text: -----BEGIN CERTIFICATE----- and what follows"
        raise InputError(path, "holds no certificate that can be read", hint=hint) from None
    except OSError as error:
        raise InputError(path, f"cannot be read: {error.strerror}") from None


def _load_key(security: Security, cert_file: str, key_file: str) -> None:
    requested = False

    def password() -> str:
        nonlocal requested
        requested = True
        return "" if security.key_password is None else security.key_password.reveal()

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(cert_file, key_file, password)
    except (ssl.SSLError, ValueError) as error:
        if "KEY_VALUES_MISMATCH" in str(error):
            raise InputError(key_file, f"is not the key of the certificate {cert_file}") from None
        if requested and security.key_password is None:
            hint = "set security.tls.key_password_file"
            raise UsageError(f"the key {key_file} is encrypted, and no password is configured", hint=hint) from None
        if requested:
            raise UsageError(f"the configured password does not open the key {key_file}") from None
        raise InputError(key_file, "holds no private key that can be read", hint="it must be PEM text") from None
    except OSError as error:
        raise InputError(key_file, f"cannot be read: {error.strerror}") from None


_LIFETIME = datetime.timedelta(days=30)
_CLOCK_SKEW = datetime.timedelta(minutes=5)


class CertificateMaker:
    """Implements `ports.Certificates` with P-256 keys (quick to make, supported by every Java)."""

    def make(self, brokers: Collection[str], users: Collection[str]) -> Mapping[str, bytes]:
        """PEM files by name; a broker's keystore holds its PKCS#8 key followed by its certificate."""
        try:
            from cryptography import x509
            from cryptography.hazmat.primitives import hashes, serialization
            from cryptography.hazmat.primitives.asymmetric import ec
            from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
        except ImportError:
            raise MissingExtraError("a sandbox with TLS", "sandbox", "cryptography") from None

        def named(name: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])

        def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
            return key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )

        now = datetime.datetime.now(datetime.UTC)
        ca_key = ec.generate_private_key(ec.SECP256R1())
        ca_name = named("kafkakit sandbox CA")

        def builder(subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
            return (
                x509.CertificateBuilder()
                .subject_name(subject)
                .issuer_name(ca_name)
                .public_key(key.public_key())
                .serial_number(x509.random_serial_number())
                .not_valid_before(now - _CLOCK_SKEW)
                .not_valid_after(now + _LIFETIME)
                .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
                .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
            )

        def usage(*, signs_certificates: bool) -> x509.KeyUsage:
            return x509.KeyUsage(
                digital_signature=not signs_certificates,
                key_cert_sign=signs_certificates,
                crl_sign=signs_certificates,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            )

        authority = (
            builder(ca_name, ca_key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage(signs_certificates=True), critical=True)
            .sign(ca_key, hashes.SHA256())
        )
        here = x509.SubjectAlternativeName(
            [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost")]
        )

        def leaf(name: str, purpose: x509.ObjectIdentifier) -> tuple[bytes, bytes]:
            key = ec.generate_private_key(ec.SECP256R1())
            certificate = (
                builder(named(name), key)
                .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
                .add_extension(usage(signs_certificates=False), critical=True)
                .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
                .add_extension(here, critical=False)
                .sign(ca_key, hashes.SHA256())
            )
            return key_pem(key), certificate.public_bytes(serialization.Encoding.PEM)

        files = {"ca.pem": authority.public_bytes(serialization.Encoding.PEM)}
        for broker in brokers:
            files[f"{broker}.keystore.pem"] = b"".join(leaf(broker, ExtendedKeyUsageOID.SERVER_AUTH))
        for user in users:
            files[f"{user}.key"], files[f"{user}.pem"] = leaf(user, ExtendedKeyUsageOID.CLIENT_AUTH)
        return files
