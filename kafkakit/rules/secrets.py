"""Which settings hold secrets, and which of their values are secrets written out.

No value of such a setting is printed anywhere.
"""

import re
from functools import lru_cache

HIDDEN = "[hidden]"
_SECRET_NAME = re.compile(
    r"(?:^|[._-])(?:password|passwd|passphrase|secret|(?:secret|master)[._]key|api[._]key|api[._]secret|access[._]key|token"
    r"|credentials?|private[._]key|basic\.auth\.user\.info|sasl\.jaas\.config|keystore\.key|storepass|keypass)$",
    re.IGNORECASE,
)
_LOOKS_SECRET = re.compile(r"pas+w|pwd|secret|token|credential|jaas", re.IGNORECASE)
_CAMEL_SECRET = re.compile(r"(?:Password|Secret|Token|Passphrase|ApiKey|StorePass|KeyPass)$")
_REFERENCE = re.compile(r"\$\{[^{}]+\}|\{\{.+\}\}|\$\([^()]+\)|\$[A-Z_][A-Z0-9_]*|%%env_[^%]+%%|ENC\[.+\]", re.DOTALL)
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
