"""Keeping secrets out of what is read: no value of a secret setting goes further than the text of its file."""

from functools import lru_cache

from kafkakit.rules.secrets import is_reference, is_secret_key, without_jaas_secrets, without_secret_in_address

LITERAL = "[hidden secret]"
"""Stands for a secret that a file holds: the text is gone, the fact that it was written out is not."""

_is_secret = lru_cache(maxsize=10_000)(is_secret_key)


def without_secret(key: str, text: str) -> str:
    """The value, hidden where its key names a secret and it is no reference to one kept elsewhere.

    Passwords in addresses are hidden under every key.
    """
    text = without_secret_in_address(text, LITERAL)
    if not _is_secret(key) or not text.strip() or is_reference(text):
        return text
    return without_jaas_secrets(text, LITERAL) if key.endswith("sasl.jaas.config") else LITERAL
