"""Settings of other Kafka clients translated to kafkakit's keys, and the text format of Java properties.

Of properties (`--command-config`) both dialects are read: the Java client's (`sasl.jaas.config`, `ssl.truststore.*`,
`ssl.keystore.*`) and librdkafka's (`sasl.username`, `ssl.ca.location`). The format is that of java.util.Properties,
method load: keys and values with the lines where they stand.

Whole files become profiles, those of kcl (TOML) and kafkactl (YAML) too. The keys of kcl are those of `Cfg` in its
`client/client.go`, those of kafkactl of `CreateClientContext` in its `internal/common-operation.go`. A password that
stands in such a file is not taken: the profile names a variable.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kafkakit.config.keys import (
    KEY_BY_PROPERTY,
    KEY_PASSWORD,
    SASL_PASSWORD,
    ClientFileKind,
    ValueKind,
    did_you_mean,
    hostname_check,
    is_profile_name,
)
from kafkakit.config.security import Mechanism, Protocol, Secret, parse_addresses
from kafkakit.core.errors import InputError, UsageError

if TYPE_CHECKING:
    from kafkakit.core.yaml_json import Document, Node

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


def without_effect(properties: Iterable[Property]) -> tuple[Property, ...]:
    """The entries that `translate_properties` makes no setting of, known and unknown ones."""
    stores = {"ssl.truststore.type", "ssl.keystore.type"}
    used = KEY_BY_PROPERTY.keys() | _READ | _REFUSED.keys() | stores
    return tuple(item for item in properties if item.name not in used)


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


DEFAULT_PORT = 9092
_VARIABLE_OF = {SASL_PASSWORD: "KAFKA_PASSWORD", KEY_PASSWORD: "KAFKA_KEY_PASSWORD"}
_MECHANISMS = {
    "plain": Mechanism.PLAIN,
    "plaintext": Mechanism.PLAIN,
    "scramsha256": Mechanism.SCRAM_SHA_256,
    "scramsha512": Mechanism.SCRAM_SHA_512,
}
_ALWAYS_VERIFIED = "certificates are always verified"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretPlace:
    """A secret that stands in the file, and the variable that the profile names in its place."""

    key: str
    variable: str
    place: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutKey:
    """A key of the file that the profile has nothing of; `why` is empty for one that kafkakit does not know."""

    name: str
    place: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.name}{f' ({self.why})' if self.why else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientProfile:
    """One profile: values by dotted key, with their lines."""

    name: str
    values: dict[str, tuple[str, int]] = field(default_factory=dict)
    secrets: tuple[SecretPlace, ...] = ()
    left_out: tuple[LeftOutKey, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFile:
    """What a file holds: at least one profile, and what was not taken over from it."""

    kind: ClientFileKind
    profiles: tuple[ClientProfile, ...]
    left_out: tuple[LeftOutKey, ...] = ()


def read_client_file(
    data: bytes, source: str, stem: str, *, kind: ClientFileKind | None = None, name: str | None = None
) -> ClientFile:
    """Read a file; its kind is seen from the content when not given.

    Of a file with one profile, `name` is its name; when not given, what the file calls it, else `stem`.

    `InputError` for a file that cannot be read, and for a login that kafkakit does not have (Kerberos, OAuth).
    """
    from kafkakit.config.yaml_text import read_toml
    from kafkakit.core.yaml_json import sound_document

    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(source, f"not valid UTF-8 text (byte {error.start})") from None
    kind = kind or _kind_of(text, source)
    if kind in (ClientFileKind.KCL, ClientFileKind.KAFKACTL):
        document = read_toml(text, source) if kind is ClientFileKind.KCL else sound_document(data, source)
        return _of_document(document, kind, stem, name)
    properties = parse_properties(data, source) if kind is ClientFileKind.JAVA else _parse_lines(text, source)
    draft = _of_properties(properties, source, name or _profile_name(stem, source))
    return ClientFile(kind=kind, profiles=(draft.finished(),))


_KCL_LINE = re.compile(r"(?m)^[ \t]*(seed_brokers[ \t]*=|current_profile[ \t]*=|\[[ \t]*(tls|sasl|profiles)\b)")
_KAFKACTL_LINE = re.compile(r"""^["']?contexts["']?\s*:""", re.MULTILINE)
_PROPERTY_LINE = re.compile(r"^[ \t]*([a-z]+(?:\.[a-z]+)+)[ \t]*[=: \t]", re.MULTILINE)
# Names that the Java client does not have.
_OF_LIBRDKAFKA = re.compile(
    r"metadata\.broker\.list|sasl\.(username|password|mechanisms)|ssl\.(ca|certificate|key)\.(location|pem)"
    r"|enable\.ssl\.certificate\.verification"
)


def _kind_of(text: str, source: str) -> ClientFileKind:
    if _KCL_LINE.search(text):
        return ClientFileKind.KCL
    if _KAFKACTL_LINE.search(text):
        return ClientFileKind.KAFKACTL
    names = [found[1] for found in _PROPERTY_LINE.finditer(text)]
    if not names:
        kinds = ", ".join(ClientFileKind)
        raise InputError(source, "its kind cannot be seen from its content", hint=f"pass --from with one of {kinds}")
    return ClientFileKind.LIBRDKAFKA if any(map(_OF_LIBRDKAFKA.fullmatch, names)) else ClientFileKind.JAVA


def _profile_name(name: str, place: str) -> str:
    """The name with what a profile's name may not have replaced."""
    found = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("._-")[:100]
    if not is_profile_name(found):
        raise InputError(place, f"{name[:60]!r} cannot name a profile", hint="pass --name NAME")
    return found


class _Draft:
    """A profile while its file is read."""

    def __init__(self, name: str, source: str) -> None:
        self.name, self.source = name, source
        self.values: dict[str, tuple[str, int]] = {}
        self.secrets: list[SecretPlace] = []
        self.left_out: list[LeftOutKey] = []

    def place(self, line: int) -> str:
        return f"{self.source}:{line}"

    def take(self, key: str, value: str, line: int) -> None:
        self.values[key] = (value, line)

    def take_addresses(self, addresses: Sequence[str], line: int) -> None:
        """Addresses, each with the usual port where it has none."""
        listed = [part.strip().rpartition("://")[2] for text in addresses for part in re.split(r"[,\s]", text)]
        found = ",".join(_with_port(address) for address in listed if address)
        try:
            parse_addresses(found)
        except UsageError as error:
            raise InputError(self.place(line), error.message, hint=error.hint) from None
        if found:
            self.take("bootstrap_server", found, line)

    def take_secret(self, key: str, text: str, line: int, variable: str | None = None) -> None:
        """Name a variable in place of a secret: the one that the file itself names, else one of this profile."""
        if not text:
            return
        if variable is None:
            variable = f"{_VARIABLE_OF[key]}_{re.sub(r'[^A-Za-z0-9]', '_', self.name).upper()}"
            self.secrets.append(SecretPlace(key=key, variable=variable, place=self.place(line)))
        self.take(f"{key}_env", variable, line)

    def leave(self, name: str, line: int, why: str = "") -> None:
        self.left_out.append(LeftOutKey(name=name, place=self.place(line), why=why))

    def finished(self) -> ClientProfile:
        left_out = tuple(self.left_out)
        return ClientProfile(name=self.name, values=self.values, secrets=tuple(self.secrets), left_out=left_out)


def _with_port(address: str) -> str:
    has_port = re.search(r":\d+$", address) if "[" not in address else re.search(r"\]:\d+$", address)
    return address if has_port else f"{address}:{DEFAULT_PORT}"


def _parse_lines(text: str, source: str) -> tuple[Property, ...]:
    """The lines of librdkafka's and kcat's files, which know no escapes; of a repeated key the last one counts."""
    found: dict[str, Property] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        name, equals, value = (part.strip() for part in line.partition("="))
        if (not name and not equals) or name.startswith("#"):
            continue
        if not equals or not name:
            raise InputError(f"{source}:{number}", "is not a line of the form key=value")
        name = "bootstrap.servers" if name == "metadata.broker.list" else name
        found.pop(name, None)
        found[name] = Property(name=name, value=value, line=number)
    return tuple(found.values())


def _of_properties(properties: Sequence[Property], source: str, name: str) -> _Draft:
    draft = _Draft(name, source)
    left_out = without_effect(properties)
    for item in left_out:
        verifies = item.name != "enable.ssl.certificate.verification" or item.value.lower() != "false"
        draft.leave(item.name, item.line, "" if verifies else _ALWAYS_VERIFIED)
    used = [item for item in properties if item not in left_out]
    for key, (value, line) in translate_properties(used, source).values.items():
        if isinstance(value, Secret):
            draft.take_secret(key, value.reveal(), line)
        elif key == "bootstrap_server":
            draft.take_addresses([value], line)
        else:
            # Both clients take these in small letters too.
            is_word = key in ("security.protocol", "security.sasl.mechanism")
            draft.take(key, value.upper() if is_word else value, line)
    return draft


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """What a tool calls the parts of a profile; without a switch a section that is there is in use.

    `folds_case` is True where small and capital letters of a key are the same; names are in small letters then.
    """

    profiles: str
    addresses: str
    files: Mapping[str, str]
    mechanism: str
    username: str
    password: str
    switch: str | None = None
    folds_case: bool = False


_NAMES = {
    ClientFileKind.KCL: _Names(
        profiles="profiles",
        addresses="seed_brokers",
        files={"ca_cert_path": "ca_file", "client_cert_path": "cert_file", "client_key_path": "key_file"},
        mechanism="method",
        username="user",
        password="pass",
    ),
    ClientFileKind.KAFKACTL: _Names(
        profiles="contexts",
        addresses="brokers",
        files={"ca": "ca_file", "cert": "cert_file", "certkey": "key_file"},
        mechanism="mechanism",
        username="username",
        password="password",
        switch="enabled",
        folds_case=True,
    ),
}


class _OtherLoginError(InputError):
    """A login that kafkakit does not have: of many profiles, only this one is left out."""


def _of_document(document: Document, kind: ClientFileKind, stem: str, wanted: str | None) -> ClientFile:
    names, source = _NAMES[kind], document.path
    content = _entries(document, names, document.root, "")
    profiles_at = content.pop(names.profiles, None)
    listed = tuple(document.items(profiles_at[1], names.profiles)) if profiles_at else ()
    if not listed:
        if kind is ClientFileKind.KAFKACTL:
            raise InputError(source, "holds no contexts")
        stem = kind.value if stem == "config" else stem  # as kcl itself calls its file
        draft = _Draft(wanted or _profile_name(stem, source), source)
        _take_section(draft, document, names, content)
        return ClientFile(kind=kind, profiles=(draft.finished(),))
    outer = _Draft("", source)
    for key, (line, _) in content.items():
        outer.leave(key, line)
    profiles: dict[str, ClientProfile] = {}
    for title, line, section in listed:
        is_renamed = wanted is not None and len(listed) == 1
        name = str(wanted) if is_renamed else _profile_name(title, outer.place(line))
        where = f"{names.profiles}.{title}"
        if name in profiles:
            problem = f"{where} and another one would both be profile {name}"
            raise InputError(outer.place(line), problem, hint="rename one of them")
        draft = _Draft(name, source)
        try:
            _take_section(draft, document, names, _entries(document, names, section, where))
        except _OtherLoginError as error:
            if len(listed) == 1:
                raise
            outer.leave(where, line, error.problem)
        else:
            profiles[name] = draft.finished()
    if not profiles:
        raise InputError(source, f"no login in its {names.profiles} is supported", hint=_USE)
    return ClientFile(kind=kind, profiles=tuple(profiles.values()), left_out=tuple(outer.left_out))


_USE = "use PLAIN or SCRAM"
_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}", re.ASCII)
_Entries: TypeAlias = "dict[str, tuple[int, Node]]"


def _entries(document: Document, names: _Names, node: Node, where: str) -> _Entries:
    """The lines and values of a mapping by key, in small letters where the tool does not tell them apart."""
    found = document.items(node, where)
    return {key.lower() if names.folds_case else key: (line, value) for key, line, value in found}


def _take_section(draft: _Draft, document: Document, names: _Names, section: _Entries) -> None:
    """A profile of one section of the file."""
    from kafkakit.core.yaml_json import list_of

    used: dict[str, int] = {}
    for key, (line, node) in section.items():
        if key == names.addresses:
            draft.take_addresses([document.scalar_text(item, key) for item in list_of(node)], line)
        elif key in ("tls", "sasl"):
            held = _entries(document, names, node, key)
            if _is_in_use(document, names, key, held):
                used[key] = line
                if key == "tls":
                    _take_tls(draft, document, names, held)
                else:
                    _take_sasl(draft, document, names, held, line)
            elif held:
                draft.leave(key, line, "not in use")
        else:
            draft.leave(key, line)
    if used:
        found = Protocol.SASL_SSL if len(used) == 2 else Protocol.SSL if "tls" in used else Protocol.SASL_PLAINTEXT
        draft.take("security.protocol", found, used.get("tls") or used["sasl"])


def _is_in_use(document: Document, names: _Names, key: str, held: _Entries) -> bool:
    if names.switch is not None:
        return _text(document, held, names.switch).lower() in ("true", "t", "1")
    return key == "tls" or _text(document, held, names.mechanism) != ""


def _text(document: Document, held: _Entries, key: str) -> str:
    return document.scalar_text(held[key][1], key) if key in held else ""


def _take_tls(draft: _Draft, document: Document, names: _Names, held: _Entries) -> None:
    for key, (line, node) in held.items():
        if key in names.files:
            _take_text(draft, f"security.tls.{names.files[key]}", f"tls.{key}", document.scalar_text(node, key), line)
        elif key == "insecure" and _text(document, held, key) != "false":
            draft.leave("tls.insecure", line, _ALWAYS_VERIFIED)
        elif key not in ("insecure", names.switch):
            draft.leave(f"tls.{key}", line)


def _take_sasl(draft: _Draft, document: Document, names: _Names, held: _Entries, line: int) -> None:
    """`line` is that of the section."""
    word = _text(document, held, names.mechanism) or "plain"
    mechanism = _MECHANISMS.get(re.sub("[-_ ]", "", word.lower()))
    if names.mechanism in held:
        line = held[names.mechanism][0]
    if mechanism is None:
        raise _OtherLoginError(draft.place(line), f"SASL mechanism {word[:60]} is not supported", hint=_USE)
    draft.take("security.sasl.mechanism", mechanism, line)
    for key, (line, node) in held.items():
        if key == names.username:
            _take_text(draft, "security.sasl.username", f"sasl.{key}", document.scalar_text(node, key), line)
        elif key == names.password:
            text = document.scalar_text(node, key)
            named = _VARIABLE.fullmatch(text) if names.switch is None else None
            draft.take_secret(SASL_PASSWORD, text, line, named[1] if named else None)
        elif key not in (names.mechanism, names.switch):
            draft.leave(f"sasl.{key}", line)


def _take_text(draft: _Draft, key: str, name: str, text: str, line: int) -> None:
    """A text, unless kcl would put variables of the environment into it."""
    if "${" in text:
        draft.leave(name, line, "names a variable of the environment")
    elif text:
        draft.take(key, text, line)
