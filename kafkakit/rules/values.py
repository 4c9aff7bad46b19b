"""Values of settings: how brokers parse and check them, and which are secrets.

Parsing and checking is a port of Kafka's `ConfigDef.parseType` and of its validators. Java's numbers are not Python's:
blanks up to U+0020 are cut off, a plus sign is allowed, underscores are not, and a double may end in `d` or be `NaN`,
which no range refuses.

No value of a setting that holds secrets is printed anywhere. Keys are recognised by their names; values that are
secrets written out are told from references to secrets kept elsewhere.
"""

import math
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import NamedTuple

from kafkakit.rules.config_defs import ConfigDef, KeyScope, ValueType

_TRIMMED = "".join(map(chr, range(33)))
_INTEGER = re.compile(r"[+-]?\d+")
_DOUBLE = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?"
    r"|0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?)"
)
_COMMA = re.compile(r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*")
_THROTTLED = re.compile(r"(?:[0-9]+:[0-9]+)?")
_VOTER = re.compile(r"[+-]?\d+@[^@]+:\d+")
_ADDRESS = re.compile(r"(?:.*://)?\[?[0-9a-zA-Z\-%._:]*\]?:\d+")
_MARKS = frozenset("${%[<#_@")
_PROVIDER_REFERENCE = re.compile(r"\$\{[^}]*?:[^}]*?\}")
_BITS = {ValueType.SHORT: 16, ValueType.INT: 32, ValueType.LONG: 64}
_NUMBERS = {
    ValueType.SHORT: "a whole number of 16 bits",
    ValueType.INT: "a whole number of 32 bits",
    ValueType.LONG: "a whole number of 64 bits",
    ValueType.DOUBLE: "a number",
}
_SHOWN_CHOICES = 12


class ParsedValue(NamedTuple):
    """A parsed value, or why the text is none of its type: `problem` completes "is"."""

    value: bool | int | float | str | tuple[str, ...] | None
    problem: str | None = None


def problem_of(definition: ConfigDef, text: str) -> str | None:
    """Why a broker refuses this text for this key, or None; it completes "KEY is TEXT, which"."""
    wrong = type_problem(definition, text)
    return f"is {wrong}" if wrong is not None else range_problem(definition, text)


def type_problem(definition: ConfigDef, text: str) -> str | None:
    """What the text is not, such as "not a whole number of 32 bits"; None when it parses as the key's type."""
    if is_unresolved(definition, text):
        return None
    return parse_value(definition.type, text).problem


def range_problem(definition: ConfigDef, text: str) -> str | None:
    """Why the key's validator refuses a text that parses, or None; it completes "which"."""
    if is_unresolved(definition, text):
        return None
    value = parse_value(definition.type, text)
    if value.problem is not None:
        return None
    if isinstance(value.value, bool):
        return None
    if isinstance(value.value, int | float):
        return _number_problem(definition, value.value)
    if isinstance(value.value, tuple):
        return _list_problem(definition, value.value)
    return _text_problem(definition, value.value or "")


def is_unresolved(definition: ConfigDef, text: str) -> bool:
    """True for a value that a config provider or a template fills in, so that nothing is known of it."""
    if not _MARKS & set(text):
        return False
    provided = definition.scope is KeyScope.BROKER and _PROVIDER_REFERENCE.search(text) is not None
    return provided or is_reference(text) or holds_placeholder(text)


def parse_value(kind: ValueType, text: str) -> ParsedValue:
    """The text as Kafka parses it for a type."""
    trimmed = text.strip(_TRIMMED)
    if kind in _BITS:
        return _parse_whole(kind, trimmed)
    if kind is ValueType.BOOLEAN:
        lowered = trimmed.lower()
        return (
            ParsedValue(lowered == "true")
            if lowered in ("true", "false")
            else ParsedValue(None, "neither true nor false")
        )
    if kind is ValueType.DOUBLE:
        return _double(trimmed)
    if kind is ValueType.LIST:
        return ParsedValue(tuple(_COMMA.split(trimmed)) if trimmed else ())
    if kind is ValueType.CLASS and (not trimmed or any(c.isspace() for c in trimmed)):
        return ParsedValue(None, "not the name of a class")
    return ParsedValue(trimmed)


def duplicates(items: Sequence[str]) -> tuple[str, ...]:
    """The items that stand in a list more than once, each once, in the order of their second appearance."""
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for item in items:
        if item in seen:
            twice[item] = None
        seen.add(item)
    return tuple(twice)


def is_throttled_replicas(items: Sequence[str]) -> bool:
    """True for `*` or a list of `partition:broker`, as Kafka's `ThrottledReplicaListValidator` reads it."""
    trimmed = [item.strip(_TRIMMED) for item in items]
    return "".join(trimmed) == "*" or all(_THROTTLED.fullmatch(item) for item in trimmed)


def describe_accepted(definition: ConfigDef) -> str:
    """What the key accepts, in words: "at least 1", "1 to 9", "compact or delete"; empty where everything."""
    least, most = definition.minimum, definition.maximum
    parts = []
    if least is not None and most is not None:
        parts.append(f"{_number_text(least)} to {_number_text(most)}")
    elif least is not None:
        parts.append(f"at least {_number_text(least)}")
    elif most is not None:
        parts.append(f"at most {_number_text(most)}")
    elif definition.one_of:
        more = len(definition.one_of) - _SHOWN_CHOICES
        parts.append(", ".join(definition.one_of[:_SHOWN_CHOICES]) + (f" and {more} more" if more > 0 else ""))
    if "or-minus-one" in definition.rules:
        parts.append("-1")
    return " or ".join(parts)


def _parse_whole(kind: ValueType, text: str) -> ParsedValue:
    if not _INTEGER.fullmatch(text) or len(text) > 200:
        return ParsedValue(None, f"not {_NUMBERS[kind]}")
    number, bound = int(text), 1 << (_BITS[kind] - 1)
    return ParsedValue(number) if -bound <= number < bound else ParsedValue(None, f"not {_NUMBERS[kind]}")


def _double(text: str) -> ParsedValue:
    if not _DOUBLE.fullmatch(text):
        return ParsedValue(None, f"not {_NUMBERS[ValueType.DOUBLE]}")
    plain = text.replace("Infinity", "inf")
    if "x" in plain.lower():
        return ParsedValue(_hexadecimal(plain.rstrip("fFdD") if "p" in plain.lower() else plain))
    return ParsedValue(float(plain if plain.endswith(("inf", "NaN")) else plain.rstrip("fFdD")))


def _hexadecimal(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return math.copysign(math.inf, -1 if text.startswith("-") else 1)


def _number_problem(definition: ConfigDef, number: float) -> str | None:
    if "or-minus-one" in definition.rules and number == -1:
        return None
    # Java compares as doubles, so that NaN is in every range.
    below = definition.minimum is not None and number < definition.minimum
    above = definition.maximum is not None and number > definition.maximum
    return f"is outside of the accepted range ({describe_accepted(definition)})" if below or above else None


def _text_problem(definition: ConfigDef, text: str) -> str | None:
    rules = definition.rules
    if "non-empty" in rules and not text:
        return "must not be empty"
    if "metadata-version" in rules:
        return None if _is_metadata_version(text, definition.one_of) else "is not a metadata version that it knows"
    if not definition.one_of:
        return None
    fits = text.upper() in definition.one_of if "any-case" in rules else text in definition.one_of
    return None if fits else f"is not one of the accepted values ({describe_accepted(definition)})"


def _list_problem(definition: ConfigDef, items: tuple[str, ...]) -> str | None:
    rules = definition.rules
    if "throttled-replicas" in rules:
        return None if is_throttled_replicas(items) else "is neither * nor a list of partition:broker"
    if "non-empty-list" in rules and not items:
        return "must not be empty"
    if "no-duplicates" in rules and "" in items:
        return "has an empty item"
    wrong = _first_wrong(definition, items)
    return None if wrong is None else wrong


def _first_wrong(definition: ConfigDef, items: tuple[str, ...]) -> str | None:
    if definition.one_of:
        for item in items:
            if item not in definition.one_of:
                values = describe_accepted(definition)
                return f"has the item {item!r:.60}, which is not one of the accepted values ({values})"
    pattern = {"quorum-voters": _VOTER, "quorum-bootstrap-servers": _ADDRESS}
    for rule in definition.rules:
        if rule in pattern:
            for item in items:
                if not pattern[rule].fullmatch(item):
                    shown = f"{HIDDEN}@{item.rpartition('@')[2]}" if "@" in item else item  # a login may stand there
                    return f"has the item {shown!r:.60}, which is not an address"
    return None


@cache
def _known_versions(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(names) | {name.split("-")[0] for name in names}


def _is_metadata_version(text: str, names: tuple[str, ...]) -> bool:
    parts = text.split(".")
    kept = 3 if text.startswith("0.") else 2
    return ".".join(parts[:kept]) in _known_versions(names) if len(parts) > kept else text in _known_versions(names)


def _number_text(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)


HIDDEN = "[hidden]"
_SECRET_NAME = re.compile(
    r"(?:^|[._-])(?:password|passwd|passphrase|secret|(?:secret|master)[._]key|api[._]key|api[._]secret|access[._]key|token"
    r"|credentials?|private[._]key|basic\.auth\.user\.info|sasl\.jaas\.config|keystore\.key|storepass|keypass)$",
    re.IGNORECASE,
)
_LOOKS_SECRET = re.compile(r"pas+w|pwd|secret|token|credential|jaas", re.IGNORECASE)
_CAMEL_SECRET = re.compile(r"(?:Password|Secret|Token|Passphrase|ApiKey|StorePass|KeyPass)$")
_PLACEHOLDER = re.compile(
    r"\$\{[^{}]+\}|\{\{(?:(?!\{\{|\}\}).)+\}\}|\{%(?:(?!\{%|%\}).)+%\}|<%(?:(?!<%|%>).)+%>"
    r"|\$\([^()]+\)|\$[A-Z_][A-Z0-9_]*|%%env_[^%]+%%|#\{[^{}]+\}#?"
    r"|(?<![A-Za-z0-9])__[A-Z_.][A-Z0-9_.-]{0,200}?__(?![A-Za-z0-9])|@[A-Z][A-Z0-9_.]*@",
    re.DOTALL,
)
_REFERENCE = re.compile(
    rf"{_PLACEHOLDER.pattern}|\{{\{{.+\}}\}}|ENC\[.+\]|<[A-Za-z][\w .:/-]*>|\[\[[^\[\]]+\]\]|%[A-Z][A-Z0-9_]*%"
    r"|%\(\w+\)s"
    # Secret stores: Vault, vals, 1Password, AWS, Google, Azure, Berglas; and what tools print instead of a secret.
    r"|(?:vault|ref\+\w+|op|berglas|sm|ssm|awssm|gcpsm|azurekeyvault|secretsmanager|keyvault|doppler|bws)://?\S+"
    r"|(?:vault|secretsmanager|ssm|env|keyring):[\w./-]+(?:#[\w.-]+)?|arn:aws[\w-]*:(?:secretsmanager|ssm):\S+"
    r"|projects/[^/\s]+/secrets/\S+|@Microsoft\.KeyVault\(.+\)|\$ANSIBLE_VAULT;.+"
    r"|\*{3,}|\[(?:hidden|redacted|masked)\]",
    re.DOTALL,
)
_PLACEHOLDER_MARKS = frozenset("$%{<#_@")
_JAAS_OPTION = re.compile(r"""([A-Za-z_][\w.]*)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s;"']+))""")
_JAAS_USER = "user_"
_IN_ADDRESS = re.compile(r"(://[^/@:\s]*:)(?!\$\{)[^/@]+(@)")
# As in jdbc:postgresql://host/db?user=x&password=y.
_IN_QUERY = re.compile(r"([?&;](?:password|passwd|pwd|secret|token|api_key)=)(?!\$\{)[^&;]+()", re.IGNORECASE)


@lru_cache(maxsize=10_000)
def is_secret_key(key: str) -> bool:
    """True when a setting holds a secret by its name: Kafka's PASSWORD keys and those of connectors and agents."""
    return _SECRET_NAME.search(key) is not None or _CAMEL_SECRET.search(key) is not None


def looks_secret(key: str) -> bool:
    """True also for keys that no version knows but whose name, perhaps mistyped, is like that of a secret."""
    return _LOOKS_SECRET.search(key) is not None or is_secret_key(key)


def is_reference(value: str) -> bool:
    """True when a value only names where the secret is: `${provider:path:key}`, a template, a variable."""
    return _REFERENCE.fullmatch(value.strip()) is not None


def holds_placeholder(text: str) -> bool:
    """True when a template or the environment fills in the value, or a part of it."""
    return not _PLACEHOLDER_MARKS.isdisjoint(text) and _PLACEHOLDER.search(text) is not None


def split_at_commas(text: str) -> list[str]:
    """The parts of a text between its commas; those within a placeholder, `{{ dirs | join(',') }}`, part nothing."""
    if "," not in text or not holds_placeholder(text):
        return text.split(",")
    whole = _PLACEHOLDER.sub(lambda found: found.group().replace(",", "\0"), text)
    return [part.replace("\0", ",") for part in whole.split(",")]


def holds_literal_secret(key: str, value: str) -> bool:
    """True when a secret setting's value is the secret itself, or, for JAAS, has one among its options."""
    if not value.strip() or value.strip() == HIDDEN or is_reference(value):
        return False
    if key.endswith("sasl.jaas.config"):
        return bool(literal_jaas_options(value))
    return True


def holds_secret_in_address(value: str) -> bool:
    """True when an address in the value has a password, hidden or not, before its host or among its parameters."""
    return "://" in value and (_IN_ADDRESS.search(value) or _IN_QUERY.search(value)) is not None


def without_secret_in_address(value: str, instead: str) -> str:
    """The value with another text in place of passwords in addresses."""
    if "://" not in value:
        return value
    return _IN_QUERY.sub(rf"\1{instead}\2", _IN_ADDRESS.sub(rf"\1{instead}\2", value))


def literal_jaas_options(value: str) -> tuple[str, ...]:
    """The names of the options of a JAAS configuration that hold a secret written out."""
    return tuple(
        name
        for name, double, single, bare in _JAAS_OPTION.findall(value)
        if (is_secret_key(name) or name.startswith(_JAAS_USER))
        and (secret := double or single or bare)
        and not is_reference(secret)
    )


def without_jaas_secrets(value: str, instead: str) -> str:
    """A JAAS configuration with another text in place of each secret written out."""

    def replaced(found: re.Match[str]) -> str:
        name = found.group(1)
        secret = found.group(2) or found.group(3) or found.group(4)
        is_literal = bool(secret) and (is_secret_key(name) or name.startswith(_JAAS_USER)) and not is_reference(secret)
        return f'{name}="{instead}"' if is_literal else found.group()

    return _JAAS_OPTION.sub(replaced, value)
