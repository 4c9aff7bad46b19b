"""The table of configuration keys: names, kinds, environment variables, and the nearest known name to a wrong one."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from kafkakit.config.security import Mechanism, Protocol


class Kind(StrEnum):
    """What a value must look like."""

    TEXT = "text"
    DURATION = "duration"
    SWITCH = "true or false"
    FILE = "file"
    PROTOCOL = "protocol"
    MECHANISM = "mechanism"
    CONTROL_STORE = "control store"
    SECRET = "secret"


class ControlStoreKind(StrEnum):
    """Where the lease and control requests are kept: in files for one host, else for all hosts of the cluster."""

    FILE = "file"
    ZOOKEEPER = "zookeeper"
    KAFKA = "kafka"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of a profile, by its dotted name; `env` are the variables that set it.

    `properties` are the names that Kafka's clients use for it. `secret_of` names the secret that a key
    is one way to obtain. `is_connection` keys say where to connect and as whom: they come from one file together.
    """

    name: str
    kind: Kind = Kind.TEXT
    about: str
    env: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()
    default: str | None = None
    secret_of: str | None = None
    is_connection: bool = True


SASL_PASSWORD = "security.sasl.password"
KEY_PASSWORD = "security.tls.key_password"


def _ways_to_a_secret(secret: str, what: str, env: str, properties: tuple[str, ...]) -> tuple[Key, ...]:
    return (
        Key(
            name=secret,
            kind=Kind.SECRET,
            about=f"{what} itself; only from the environment or a properties file",
            env=(env,),
            properties=properties,
            secret_of=secret,
        ),
        Key(
            name=f"{secret}_file",
            kind=Kind.FILE,
            about=f"file that holds {what}",
            env=(f"{env}_FILE",),
            secret_of=secret,
        ),
        Key(name=f"{secret}_env", about=f"environment variable that holds {what}", secret_of=secret),
        Key(name=f"{secret}_credential", about=f"{what} in $CREDENTIALS_DIRECTORY, by this name", secret_of=secret),
        Key(name=f"{secret}_prompt", kind=Kind.SWITCH, about=f"ask for {what} on the terminal", secret_of=secret),
    )


KEYS: tuple[Key, ...] = (
    Key(
        name="bootstrap_server",
        about="Kafka addresses, HOST:PORT with commas between",
        env=("KAFKAKIT_BOOTSTRAP_SERVER", "KAFKAKIT_BOOTSTRAP_SERVERS"),
        properties=("bootstrap.servers",),
    ),
    Key(name="cluster_id", about="refuse any cluster but this one", env=("KAFKAKIT_CLUSTER_ID",)),
    Key(
        name="request_timeout",
        kind=Kind.DURATION,
        about="time limit of one request to the cluster",
        env=("KAFKAKIT_REQUEST_TIMEOUT",),
        properties=("request.timeout.ms",),
        default="30s",
        is_connection=False,
    ),
    Key(
        name="zookeeper.addr",
        about="ZooKeeper addresses, HOST:PORT with commas between",
        env=("KAFKAKIT_ZOOKEEPER_ADDR",),
    ),
    Key(name="zookeeper.prefix", about="path under which Kafka lives in ZooKeeper", env=("KAFKAKIT_ZOOKEEPER_PREFIX",)),
    Key(
        name="control_store",
        kind=Kind.CONTROL_STORE,
        about="where runs on one cluster agree who may change it: file (this host only), zookeeper or kafka "
        "(for several hosts)",
        env=("KAFKAKIT_CONTROL_STORE",),
        default=ControlStoreKind.FILE.value,
    ),
    Key(
        name="security.protocol",
        kind=Kind.PROTOCOL,
        about=f"one of {', '.join(Protocol)}",
        env=("KAFKAKIT_SECURITY_PROTOCOL",),
        properties=("security.protocol",),
        default="PLAINTEXT",
    ),
    Key(
        name="security.tls.ca_file",
        kind=Kind.FILE,
        about="PEM file of the authorities that sign the brokers' certificates",
        env=("KAFKAKIT_TLS_CA_FILE",),
        properties=("ssl.ca.location",),
    ),
    Key(
        name="security.tls.cert_file",
        kind=Kind.FILE,
        about="PEM file of our own certificate (mutual TLS)",
        env=("KAFKAKIT_TLS_CERT_FILE",),
        properties=("ssl.certificate.location",),
    ),
    Key(
        name="security.tls.key_file",
        kind=Kind.FILE,
        about="PEM file of our own private key (mutual TLS)",
        env=("KAFKAKIT_TLS_KEY_FILE",),
        properties=("ssl.key.location",),
    ),
    *_ways_to_a_secret(KEY_PASSWORD, "the private key's password", "KAFKAKIT_TLS_KEY_PASSWORD", ("ssl.key.password",)),
    Key(
        name="security.tls.check_hostname",
        kind=Kind.SWITCH,
        about="whether a broker's certificate must be for the name we connect to",
        env=("KAFKAKIT_TLS_CHECK_HOSTNAME",),
        properties=("ssl.endpoint.identification.algorithm",),
        default="true",
    ),
    Key(
        name="security.sasl.mechanism",
        kind=Kind.MECHANISM,
        about=f"one of {', '.join(Mechanism)}",
        env=("KAFKAKIT_SASL_MECHANISM",),
        properties=("sasl.mechanism", "sasl.mechanisms"),
    ),
    Key(
        name="security.sasl.username",
        about="user name",
        env=("KAFKAKIT_SASL_USERNAME",),
        properties=("sasl.username",),
    ),
    *_ways_to_a_secret(SASL_PASSWORD, "the user's password", "KAFKAKIT_SASL_PASSWORD", ("sasl.password",)),
)

KEY_BY_NAME: dict[str, Key] = {key.name: key for key in KEYS}
KEY_BY_PROPERTY: dict[str, Key] = {name: key for key in KEYS for name in key.properties}

SHARED_VARIABLES = (
    "KAFKAKIT_OUTPUT", "KAFKAKIT_COLOR", "KAFKAKIT_TIMEOUT", "KAFKAKIT_NO_INPUT", "KAFKAKIT_PROFILE",
    "KAFKAKIT_CONFIG", "KAFKAKIT_COMMAND_CONFIG", "KAFKAKIT_STATE_DIR", "KAFKAKIT_LOCK_DIR",
)  # fmt: skip
VARIABLES: tuple[str, ...] = (*SHARED_VARIABLES, *(name for key in KEYS for name in key.env))


def nearest(name: str, known: Iterable[str], closeness: float = 0.6) -> str | None:
    """The known name most like a wrong one, None when none is close."""
    from difflib import get_close_matches

    found = get_close_matches(name[:200], sorted(known), n=1, cutoff=closeness)
    return found[0] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A clause that names the nearest known name, or an empty text."""
    found = nearest(name, known)
    return f"; did you mean {found}?" if found else ""


PROFILE_NAME_HINT = "a profile name has letters, digits, '.', '_' and '-', and at most 100 of them"


def is_profile_name(name: str) -> bool:
    """True for a name that is safe as a file name and on a command line."""
    allowed = all(char.isalnum() or char in "._-" for char in name)
    return 0 < len(name) <= 100 and name.isascii() and name[0].isalnum() and allowed
