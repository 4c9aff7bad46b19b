"""Kafka client properties (`--command-config`) translated to kafkakit's keys.

Both dialects are read: the Java client's (`sasl.jaas.config`, `ssl.truststore.*`, `ssl.keystore.*`)
and librdkafka's (`sasl.username`, `ssl.ca.location`).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from kafkakit.config.java_properties import Property
from kafkakit.config.keys import KEY_BY_PROPERTY, Kind, did_you_mean
from kafkakit.config.merge import hostname_check
from kafkakit.config.security import Secret
from kafkakit.core.errors import InputError

# Settings that are right in such a file and that kafkakit has no use for.
_UNUSED = frozenset(
    {
        "acks", "api.version.request", "auto.offset.reset", "bootstrap.controllers", "client.dns.lookup", "client.id",
        "connections.max.idle.ms", "default.api.timeout.ms", "enable.auto.commit", "group.id", "key.deserializer",
        "key.serializer", "metadata.max.age.ms", "metric.reporters", "metrics.num.samples", "receive.buffer.bytes",
        "reconnect.backoff.max.ms", "reconnect.backoff.ms", "retries", "retry.backoff.max.ms", "retry.backoff.ms",
        "send.buffer.bytes", "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms",
        "socket.timeout.ms", "ssl.enabled.protocols", "ssl.keystore.password", "ssl.keystore.type", "ssl.protocol",
        "ssl.provider", "ssl.truststore.password", "ssl.truststore.type", "value.deserializer", "value.serializer",
    }
)  # fmt: skip
_READ = frozenset({"sasl.jaas.config", "ssl.truststore.location", "ssl.keystore.location"})
_REFUSED = {
    "ssl.truststore.certificates": "put the certificates into a PEM file and name it in ssl.ca.location",
    "ssl.keystore.certificate.chain": "put the certificate into a PEM file and name it in ssl.certificate.location",
    "ssl.keystore.key": "put the key into a PEM file and name it in ssl.key.location",
    "sasl.client.callback.handler.class": "use sasl.username with sasl.password",
}
_JAAS = re.compile(r"\s*([\w.$]+)\s+(required|requisite|sufficient|optional)\s*(.*?)\s*;\s*", re.DOTALL)
_JAAS_OPTION = re.compile(r"""\s*([\w.]+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s"';]+)""")


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """Settings with their values (secrets as `Secret`) and lines, and warnings about unknown names."""

    values: dict[str, tuple[str | Secret, int]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def translate_properties(properties: Iterable[Property], source: str) -> Translated:
    """Translate a client's properties; `InputError` for what kafkakit cannot honour (JKS stores, Kerberos, OAuth)."""
    given = {item.name: item for item in properties}
    values: dict[str, tuple[str | Secret, int]] = {}
    warnings: list[str] = []
    for item in given.values():
        where = f"{source}:{item.line}"
        key = KEY_BY_PROPERTY.get(item.name)
        if item.name in _REFUSED:
            raise InputError(where, f"{item.name} is not supported", hint=_REFUSED[item.name])
        if key is not None:
            values[key.name] = (_setting_value(item, key.kind, where), item.line)
        elif item.name not in _UNUSED | _READ:
            known = (*KEY_BY_PROPERTY, *_UNUSED, *_READ)
            warnings.append(f"{where}: unknown key {item.name[:80]!r}{did_you_mean(item.name, known)}")
    _add_stores(given, values, source)
    jaas = given.get("sasl.jaas.config")
    if jaas is not None:
        username, password = _jaas_login(jaas.value, f"{source}:{jaas.line}")
        values.setdefault("security.sasl.username", (username, jaas.line))
        values.setdefault("security.sasl.password", (password, jaas.line))
    return Translated(values=values, warnings=tuple(warnings))


def _setting_value(item: Property, kind: Kind, where: str) -> str | Secret:
    if item.name == "request.timeout.ms":
        if not item.value.strip().isdecimal():
            raise InputError(where, f"{item.name} must be a number of milliseconds, found {item.value[:40]!r}")
        return f"{item.value.strip()}ms"
    if item.name == "ssl.endpoint.identification.algorithm":
        return hostname_check(item.value, where)
    if kind is Kind.MECHANISM and item.value.strip().upper() in ("GSSAPI", "OAUTHBEARER", "AWS_MSK_IAM"):
        raise InputError(where, f"sasl.mechanism {item.value.strip()} is not supported", hint="use PLAIN or SCRAM")
    return Secret(item.value) if kind is Kind.SECRET else item.value.strip()


def _add_stores(given: dict[str, Property], values: dict[str, tuple[str | Secret, int]], source: str) -> None:
    targets = {
        "ssl.truststore": ("security.tls.ca_file",),
        "ssl.keystore": ("security.tls.cert_file", "security.tls.key_file"),
    }
    for store, names in targets.items():
        location = given.get(f"{store}.location")
        if location is None or not location.value.strip():
            continue
        kind = given.get(f"{store}.type")
        found = kind.value.strip().upper() if kind is not None else "JKS (the default)"
        if found != "PEM":
            raise InputError(
                f"{source}:{location.line}",
                f"{store}.location is a {found} store, which kafkakit's clients cannot read",
                hint=_store_hint(store),
            )
        for name in names:
            values.setdefault(name, (location.value.strip(), location.line))


def _store_hint(store: str) -> str:
    if store == "ssl.truststore":
        return "export it: keytool -exportcert -rfc -keystore STORE -file ca.pem, then set ssl.ca.location=ca.pem"
    return "export it as PKCS12 with keytool -importkeystore, then openssl pkcs12 -nodes -in STORE.p12 -out client.pem"


def _jaas_login(text: str, where: str) -> tuple[str, Secret]:
    match = _JAAS.fullmatch(text)
    if match is None:
        raise InputError(where, "sasl.jaas.config cannot be read", hint="it must be: MODULE required username=... ;")
    module = match[1].rpartition(".")[2]
    if module not in ("PlainLoginModule", "ScramLoginModule"):
        raise InputError(where, f"login module {module[:60]} is not supported", hint="use PLAIN or SCRAM")
    options: dict[str, str] = {}
    rest = match[3]
    while rest.strip():
        option = _JAAS_OPTION.match(rest)
        if option is None:
            raise InputError(where, "the options in sasl.jaas.config cannot be read")
        options[option[1]] = _unquote(option[2])
        rest = rest[option.end() :]
    missing = [name for name in ("username", "password") if not options.get(name)]
    if missing:
        raise InputError(where, f"sasl.jaas.config names no {missing[0]}")
    return options["username"], Secret(options["password"])


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL) if text[0] in "\"'" else text
