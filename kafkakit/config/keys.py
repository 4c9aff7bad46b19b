"""The table of configuration keys: names, kinds, environment variables; and layers merged into one value for each key.

For a wrong name the nearest known one is named. Layers are merged in order of precedence, and each value has its
origin.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from kafkakit.config.security import Mechanism, Protocol, Secret
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.quantities import parse_duration


class ValueKind(StrEnum):
    """What a value must look like."""

    TEXT = "text"
    DURATION = "duration"
    SWITCH = "true or false"
    FILE = "file"
    LIST = "list"
    PROTOCOL = "protocol"
    MECHANISM = "mechanism"
    CONTROL_STORE = "control store"
    SECRET = "secret"


class ControlStoreKind(StrEnum):
    """Where the lease and control requests are kept: in files for one host, else for all hosts of the cluster."""

    FILE = "file"
    ZOOKEEPER = "zookeeper"
    KAFKA = "kafka"


class ClientFileKind(StrEnum):
    """Whose configuration a file is."""

    KCL = "kcl"
    KAFKACTL = "kafkactl"
    LIBRDKAFKA = "librdkafka"
    JAVA = "java"
    KUBERNETES = "kubernetes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of a profile, by its dotted name; `env` are the variables that set it.

    `properties` are the names that Kafka's clients use for it. `secret_of` names the secret that a key
    is one way to obtain. `is_connection` keys say where to connect and as whom: they come from one file together.
    """

    name: str
    kind: ValueKind = ValueKind.TEXT
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
            kind=ValueKind.SECRET,
            about=f"{what} itself; only from the environment or a properties file",
            env=(env,),
            properties=properties,
            secret_of=secret,
        ),
        Key(
            name=f"{secret}_file",
            kind=ValueKind.FILE,
            about=f"file that holds {what}",
            env=(f"{env}_FILE",),
            secret_of=secret,
        ),
        Key(name=f"{secret}_env", about=f"environment variable that holds {what}", secret_of=secret),
        Key(name=f"{secret}_credential", about=f"{what} in $CREDENTIALS_DIRECTORY, by this name", secret_of=secret),
        Key(name=f"{secret}_prompt", kind=ValueKind.SWITCH, about=f"ask for {what} on the terminal", secret_of=secret),
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
        kind=ValueKind.DURATION,
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
        kind=ValueKind.CONTROL_STORE,
        about="where runs on one cluster agree who may change it: file (this host only), zookeeper or kafka "
        "(for several hosts)",
        env=("KAFKAKIT_CONTROL_STORE",),
        default=ControlStoreKind.FILE.value,
    ),
    Key(
        name="status.ignore",
        kind=ValueKind.LIST,
        about="findings of `status` that are counted and not shown: KIND:GLOB with commas between, as group:billing*",
        env=("KAFKAKIT_STATUS_IGNORE",),
        is_connection=False,
    ),
    Key(
        name="status.limits",
        kind=ValueKind.FILE,
        about="limits of groups' lag that `status` judges by, a file as `streams lag check --limits` takes",
        env=("KAFKAKIT_STATUS_LIMITS",),
        is_connection=False,
    ),
    Key(
        name="security.protocol",
        kind=ValueKind.PROTOCOL,
        about=f"one of {', '.join(Protocol)}",
        env=("KAFKAKIT_SECURITY_PROTOCOL",),
        properties=("security.protocol",),
        default="PLAINTEXT",
    ),
    Key(
        name="security.tls.ca_file",
        kind=ValueKind.FILE,
        about="PEM file of the authorities that sign the brokers' certificates",
        env=("KAFKAKIT_TLS_CA_FILE",),
        properties=("ssl.ca.location",),
    ),
    Key(
        name="security.tls.cert_file",
        kind=ValueKind.FILE,
        about="PEM file of our own certificate (mutual TLS)",
        env=("KAFKAKIT_TLS_CERT_FILE",),
        properties=("ssl.certificate.location",),
    ),
    Key(
        name="security.tls.key_file",
        kind=ValueKind.FILE,
        about="PEM file of our own private key (mutual TLS)",
        env=("KAFKAKIT_TLS_KEY_FILE",),
        properties=("ssl.key.location",),
    ),
    *_ways_to_a_secret(KEY_PASSWORD, "the private key's password", "KAFKAKIT_TLS_KEY_PASSWORD", ("ssl.key.password",)),
    Key(
        name="security.tls.check_hostname",
        kind=ValueKind.SWITCH,
        about="whether a broker's certificate must be for the name we connect to",
        env=("KAFKAKIT_TLS_CHECK_HOSTNAME",),
        properties=("ssl.endpoint.identification.algorithm",),
        default="true",
    ),
    Key(
        name="security.sasl.mechanism",
        kind=ValueKind.MECHANISM,
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


def nearest_name(name: str, known: Iterable[str], closeness: float = 0.6) -> str | None:
    """The known name most like a wrong one, None when none is close."""
    from difflib import get_close_matches

    found = get_close_matches(name[:200], sorted(known), n=1, cutoff=closeness)
    return found[0] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A clause that names the nearest known name, or an empty text."""
    found = nearest_name(name, known)
    return f"; did you mean {found}?" if found else ""


PROFILE_NAME_HINT = "a profile name has letters, digits, '.', '_' and '-', and at most 100 of them"


def is_profile_name(name: str) -> bool:
    """True for a name that is safe as a file name and on a command line."""
    allowed = all(char.isalnum() or char in "._-" for char in name)
    return 0 < len(name) <= 100 and name.isascii() and name[0].isalnum() and allowed


TRUE_WORDS = ("true", "yes", "on", "1")
FALSE_WORDS = ("false", "no", "off", "0")


class Rank(IntEnum):
    """Precedence, strongest first."""

    FLAG = 0
    OVERRIDE = 1
    PROPERTIES = 2
    ENVIRONMENT = 3
    CONFIG = 4
    PROJECT = 5
    USER = 6
    SYSTEM = 7
    DEFAULT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedValue:
    """One value of one key; `origin` names its source."""

    value: str | Secret
    origin: str
    rank: Rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """The values of one source, by dotted key name."""

    rank: Rank
    entries: Mapping[str, SourcedValue] = field(default_factory=dict)


def defaults() -> Layer:
    """The layer of built-in values."""
    entries = {
        key.name: SourcedValue(value=key.default, origin="default", rank=Rank.DEFAULT)
        for key in KEYS
        if key.default is not None
    }
    return Layer(rank=Rank.DEFAULT, entries=entries)


def from_one_source(layers: Iterable[Layer]) -> tuple[list[Layer], tuple[SourcedValue, ...]]:
    """The files' layers with the keys of the connection kept in the strongest rank that has any, and what was left out.

    An address of one file never meets the credentials of another.
    """
    layers = list(layers)
    connection = [
        [name for name, entry in layer.entries.items() if entry.value != "" and KEY_BY_NAME[name].is_connection]
        for layer in layers
    ]
    strongest = min((layer.rank for layer, names in zip(layers, connection, strict=True) if names), default=None)
    kept: list[Layer] = []
    left_out: list[SourcedValue] = []
    for layer, names in zip(layers, connection, strict=True):
        dropped = [] if layer.rank is strongest else names
        left_out += [layer.entries[name] for name in dropped]
        entries = {name: entry for name, entry in layer.entries.items() if name not in dropped}
        kept.append(Layer(rank=layer.rank, entries=entries))
    return kept, tuple(left_out)


def merge(layers: Iterable[Layer]) -> dict[str, SourcedValue]:
    """The strongest value of each key, in the key table's order; layers of one rank keep their given order.

    The ways to one secret count as one key: the strongest layer that names any of them wins. Raises
    `UsageError` for two ways in one layer and for values of the wrong shape.
    """
    ordered = sorted(layers, key=lambda layer: layer.rank)
    merged: dict[str, SourcedValue] = {}
    settled: set[str] = set()
    for layer in ordered:
        given = {name: entry for name, entry in layer.entries.items() if entry.value != ""}
        secrets = _secrets_of(given)
        for name, entry in given.items():
            secret = KEY_BY_NAME[name].secret_of
            if name not in merged and (secret is None or secret not in settled):
                check_value(name, entry)
                merged[name] = entry
        settled |= secrets
    return {key.name: merged[key.name] for key in KEYS if key.name in merged}


def check_value(name: str, entry: SourcedValue) -> None:
    """Raise `UsageError`, naming key and origin, when a value does not have its key's shape."""
    value = entry.value
    if isinstance(value, Secret):
        return
    where = f"{name} (from {entry.origin})"
    kind = KEY_BY_NAME[name].kind
    if kind is ValueKind.DURATION:
        parse_duration(value, where)
    elif kind is ValueKind.SWITCH and value.lower() not in (*TRUE_WORDS, *FALSE_WORDS):
        raise UsageError(f"{where} must be true or false, found {value[:40]!r}")
    elif kind is ValueKind.PROTOCOL and value not in set(Protocol):
        raise UsageError(f"{where} must be one of {', '.join(Protocol)}, found {value[:40]!r}")
    elif kind is ValueKind.MECHANISM and value not in set(Mechanism):
        raise UsageError(f"{where} must be one of {', '.join(Mechanism)}, found {value[:40]!r}")
    elif kind is ValueKind.CONTROL_STORE and value not in set(ControlStoreKind):
        raise UsageError(f"{where} must be one of {', '.join(ControlStoreKind)}, found {value[:40]!r}")
    elif "\x00" in value or "\n" in value:
        raise UsageError(f"{where} contains a control character")


def is_secret_variable(name: str) -> bool:
    """True for a key that names the variable of a secret."""
    return KEY_BY_NAME[name].secret_of is not None and name.endswith("_env")


def is_true(value: str) -> bool:
    """Read a checked switch."""
    return value.lower() in TRUE_WORDS


def parse_overrides(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Read `-X key=value` items; keys may be kafkakit's or Kafka's property names.

    Raises `UsageError` for a missing `=`, an unknown key (the nearest is named) and for secrets, which
    do not belong on a command line.
    """

    found: list[tuple[str, str]] = []
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        key = KEY_BY_NAME.get(name) or KEY_BY_PROPERTY.get(name)
        if not equals:
            raise UsageError(f"-X {name[:60]!r} has no value", hint="write -X key=value; -X list names the keys")
        if key is None:
            guess = did_you_mean(name, (*KEY_BY_NAME, *KEY_BY_PROPERTY))
            raise UsageError(f"-X {name[:60]!r} is not a known key{guess}", hint="-X list names the keys")
        if key.kind is ValueKind.SECRET:
            raise UsageError(
                f"-X {name} would show a secret to everyone on this machine",
                hint=f"use -X {key.name}_file=PATH, or the environment variable {key.env[0]}",
            )
        found.append((key.name, _as_setting(name, key.kind, value)))
    return tuple(found)


def _as_setting(name: str, kind: ValueKind, value: str) -> str:
    if name == "request.timeout.ms":
        return f"{value}ms"
    if name == "ssl.endpoint.identification.algorithm":
        return hostname_check(value, f"-X {name}")
    return value.strip() if kind is not ValueKind.FILE else value


def hostname_check(value: str, where: str) -> str:
    """Read `ssl.endpoint.identification.algorithm`; `InputError`, since a slip of the pen must not turn it off."""
    found = {"https": "true", "": "false", "none": "false"}.get(value.strip().lower())
    if found is None:
        problem = f"ssl.endpoint.identification.algorithm must be https or empty, found {value.strip()[:40]!r}"
        raise InputError(where, problem)
    return found


def _secrets_of(entries: Mapping[str, SourcedValue]) -> set[str]:
    seen: dict[str, str] = {}
    for name, entry in entries.items():
        secret = KEY_BY_NAME[name].secret_of
        if secret is None:
            continue
        if secret in seen:
            raise UsageError(
                f"both {seen[secret]} and {name} are set (from {entry.origin})", hint="keep one of the two"
            )
        seen[secret] = name
    return set(seen)
