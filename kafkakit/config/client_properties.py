"""Kafka client properties (`--command-config`) translated to kafkakit's keys, and the text format of Java properties.

Both dialects are read: the Java client's (`sasl.jaas.config`, `ssl.truststore.*`, `ssl.keystore.*`) and librdkafka's
(`sasl.username`, `ssl.ca.location`). The format is that of java.util.Properties, method load: keys and values with the
lines where they stand.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from kafkakit.config.keys import KEY_BY_PROPERTY, ValueKind, did_you_mean, hostname_check
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
class TranslatedSettings:
    """Settings with their values (secrets as `Secret`) and lines, and warnings about unknown names."""

    values: dict[str, tuple[str | Secret, int]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """One entry and the line it begins on."""

    name: str
    value: str
    line: int


def translate_properties(properties: Iterable[Property], source: str) -> TranslatedSettings:
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
    return TranslatedSettings(values=values, warnings=tuple(warnings))


def _setting_value(item: Property, kind: ValueKind, where: str) -> str | Secret:
    if item.name == "request.timeout.ms":
        if not item.value.strip().isdecimal():
            raise InputError(where, f"{item.name} must be a number of milliseconds, found {item.value[:40]!r}")
        return f"{item.value.strip()}ms"
    if item.name == "ssl.endpoint.identification.algorithm":
        return hostname_check(item.value, where)
    if kind is ValueKind.MECHANISM and item.value.strip().upper() in ("GSSAPI", "OAUTHBEARER", "AWS_MSK_IAM"):
        raise InputError(where, f"sasl.mechanism {item.value.strip()} is not supported", hint="use PLAIN or SCRAM")
    return Secret(item.value) if kind is ValueKind.SECRET else item.value.strip()


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


_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"
_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_NAME = re.compile(r"((?:[^\\=: \t\f]|\\.)*+\\?)[ \t\f]*(?:[=:][ \t\f]*)?", re.DOTALL)
_BAD_ESCAPE = "\\u must be followed by four hexadecimal digits"


class Range(NamedTuple):
    """A half-open range of the text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedProperty:
    """One entry as written: its line, and where its name and its value stand; `problem` tells what is wrong with it."""

    name: str
    value: str
    line: int
    name_at: Range
    value_at: Range
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedProperties:
    """All entries of a text in order, repeated ones too, and its comments."""

    entries: tuple[LocatedProperty, ...]
    comments: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class _LogicalLine:
    """One entry's text, joined from natural lines, each piece with its offset in the file."""

    line: int
    text: str
    starts: tuple[int, ...]
    """Index in the text at which each piece begins."""
    offsets: tuple[int, ...]

    def offset(self, index: int) -> int:
        if len(self.starts) == 1:
            return self.offsets[0] + index
        piece = bisect_right(self.starts, index) - 1
        return self.offsets[piece] + index - self.starts[piece]

    def range(self, start: int, end: int) -> Range:
        first = self.offset(start)
        return Range(first, self.offset(end - 1) + 1 if end > start else first)


def parse_properties(data: bytes, source: str) -> tuple[Property, ...]:
    """Read a properties file in UTF-8; of a repeated key the last one counts, as in Java.

    Raises `InputError` for bytes that are not UTF-8, a bad escape and control characters.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(source, f"not valid UTF-8 text (byte {error.start})") from None
    if "\x00" in text:
        raise InputError(source, "contains a zero byte; is this a properties file?")
    found: dict[str, Property] = {}
    for entry in locate_properties(text).entries:
        if entry.problem is not None:
            raise InputError(f"{source}:{entry.line}", entry.problem)
        found.pop(entry.name, None)
        found[entry.name] = Property(name=entry.name, value=entry.value, line=entry.line)
    return tuple(found.values())


def locate_properties(text: str) -> LocatedProperties:
    """Every entry and comment of a text with its place; never raises."""
    comments: list[Range] = []
    entries = []
    for logical in _logical_lines(text, comments):
        name_end, value_start = _split_line(logical.text)
        name, name_is_good = _unescape(logical.text[:name_end])
        value, value_is_good = _unescape(logical.text[value_start:])
        entries.append(
            LocatedProperty(
                name=name,
                value=value,
                line=logical.line,
                name_at=logical.range(0, name_end),
                value_at=logical.range(value_start, len(logical.text)),
                problem=None if name_is_good and value_is_good else _BAD_ESCAPE,
            )
        )
    return LocatedProperties(entries=tuple(entries), comments=tuple(comments))


def _logical_lines(text: str, comments: list[Range]) -> Iterator[_LogicalLine]:
    pieces: list[str] = []
    offsets: list[int] = []
    first = 0
    for number, natural in enumerate(_LINE.finditer(text), start=1):
        content = natural.group(1).lstrip(_BLANKS)
        offset = natural.end(1) - len(content)
        if not offsets:
            if content[:1] in ("#", "!"):
                comments.append(Range(offset, natural.end(1)))
            if not content or content[0] in "#!":
                continue
            first = number
        continues = _ends_with_odd_backslash(content)
        pieces.append(content[:-1] if continues else content)
        offsets.append(offset)
        if not continues:
            yield _join_lines(first, pieces, offsets)
            pieces, offsets = [], []
    if offsets:
        yield _join_lines(first, pieces, offsets)


def _join_lines(line: int, pieces: list[str], offsets: list[int]) -> _LogicalLine:
    starts = (0, *accumulate(len(piece) for piece in pieces[:-1]))
    return _LogicalLine(line, "".join(pieces), starts, tuple(offsets))


def _ends_with_odd_backslash(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split_line(logical: str) -> tuple[int, int]:
    """Where the name ends and where the value begins."""
    found = _NAME.match(logical)
    return (found.end(1), found.end()) if found is not None else (0, 0)


def _unescape(text: str) -> tuple[str, bool]:
    """The text that is meant, and whether all of its escapes are right."""
    if "\\" not in text:
        return text, True
    out: list[str] = []
    position = 0
    is_good = True
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\":
            out.append(char)
            continue
        escaped = text[position : position + 1]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            if len(digits) == 4 and all(digit in "0123456789abcdefABCDEF" for digit in digits):
                out.append(chr(int(digits, 16)))
                position += 4
            else:
                is_good = False
        else:
            out.append(_ESCAPES.get(escaped, escaped))
    # Java writes characters beyond the basic plane as two escapes; join them, and keep a lone half out.
    joined = "".join(out)
    return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace"), is_good
