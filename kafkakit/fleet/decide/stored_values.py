"""Which values of settings may be stored: never a secret."""

from kafkakit.rules.secrets import HIDDEN, holds_secret_in_address, is_secret_key, literal_jaas_options, looks_secret


def storable(key: str, value: str | None, *, is_known: bool) -> str | None:
    """The value of a setting, or None where it is a secret or holds one.

    `is_known` is True for settings that a broker knows: of others those are left out whose name only looks like that
    of a secret.
    """
    if value is None or value == HIDDEN or is_secret_key(key) or (not is_known and looks_secret(key)):
        return None
    return None if holds_secret_in_address(value) or literal_jaas_options(value) else value
