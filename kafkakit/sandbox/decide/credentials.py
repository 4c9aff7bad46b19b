"""Who may enter a secured sandbox: names, files and passwords."""

from dataclasses import dataclass

from kafkakit.config.security import Mechanism, Protocol, Secret, Security
from kafkakit.sandbox.decide.spec import Secure

ADMIN = "admin"
GUEST = "guest"
BROKER = "broker"
CLIENT_USERS = (ADMIN, GUEST)

_PROTOCOL = {
    Secure.NONE: Protocol.PLAINTEXT,
    Secure.TLS: Protocol.SSL,
    Secure.SCRAM: Protocol.SASL_PLAINTEXT,
    Secure.SCRAM_TLS: Protocol.SASL_SSL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Passwords:
    """Random passwords of one sandbox: `broker` is what the processes use among themselves."""

    admin: Secret
    guest: Secret
    broker: Secret

    def of(self, user: str) -> Secret:
        """The password of `admin` or `guest`."""
        return self.admin if user == ADMIN else self.guest


def secrets_folder(root: str) -> str:
    """Where keys, certificates and password files live (0700)."""
    return f"{root}/secrets"


def password_file(root: str, user: str) -> str:
    """The 0600 file that holds the user's password."""
    return f"{secrets_folder(root)}/{user}.password"


def client_security(secure: Secure, root: str, user: str, password: Secret | None) -> Security:
    """How the user connects: `admin` may do everything, `guest` has no rights at all.

    In `tls` mode the user is known by a client certificate, in the SCRAM modes by a password.
    """
    folder = secrets_folder(root)
    return Security(
        protocol=_PROTOCOL[secure],
        ca_file=f"{folder}/ca.pem" if secure.uses_tls else None,
        cert_file=f"{folder}/{user}.pem" if secure is Secure.TLS else None,
        key_file=f"{folder}/{user}.key" if secure is Secure.TLS else None,
        sasl_mechanism=Mechanism.SCRAM_SHA_256 if secure.uses_scram else None,
        username=user if secure.uses_scram else None,
        password=password if secure.uses_scram else None,
    )


def principal(secure: Secure, user: str) -> str:
    """The name that the brokers give the user (a certificate's subject, or the SCRAM name)."""
    return f"User:CN={user}" if secure is Secure.TLS else f"User:{user}"
