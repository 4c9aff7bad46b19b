"""Keeping secrets out of what is read: no value of a secret setting goes further than the text of its file."""

import re

from kafkakit.rules.engine import HIDDEN

_ENDS = tuple(
    word.replace(" ", sign)
    for sign in "._"
    for word in (
        *("password", "passwd", "pwd", "passphrase", "secret", "token", "credentials", "user info"),
        *("jaas config", "keystore key", "secret key", "master key", "private key", "api key", "app key", "access key"),
    )
)
_REFERENCE = re.compile(r"\$\{[^}]+\}|ENC\[[^\]]*\]|%%[^%]+%%")
_QUOTED = re.compile(r"""((?:password|secret)\w*\s*=\s*)("[^"$]*"|'[^'$]*')""", re.IGNORECASE)
_IN_ADDRESS = re.compile(r"(://[^/@:\s]*:)(?!\$\{)[^/@\s]+(@)")


def without_secret(key: str, text: str) -> str:
    """The value, hidden where its key names a secret and it is no reference to one kept elsewhere.

    References are those of Kafka's configuration providers (`${file:...}`) and the Datadog agent (`ENC[...]`).
    Passwords in addresses are hidden under every key.
    """
    if "://" in text:
        text = _IN_ADDRESS.sub(rf"\1{HIDDEN}\2", text)
    if not text.strip() or not key.lower().endswith(_ENDS):
        return text
    return _QUOTED.sub(rf'\1"{HIDDEN}"', text) if _REFERENCE.search(text) else HIDDEN
