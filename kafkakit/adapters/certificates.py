"""A throwaway certificate authority for a secured sandbox, made with `cryptography`."""

import datetime
import ipaddress
from collections.abc import Collection, Mapping

from kafkakit.core.errors import MissingExtraError

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
