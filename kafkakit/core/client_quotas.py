"""Client quotas (KIP-546): limits that each broker keeps for itself, by user, client id or both."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE = "producer_byte_rate", "consumer_byte_rate"
"""Bytes a second that one broker takes from, or gives to, all clients of an entity together."""
REQUEST_PERCENTAGE = "request_percentage"
"""Share of the time of one broker's network and request threads, where 100 is one thread."""


class QuotaDefault(Enum):
    """In place of a name: every user or client id without a quota of its own."""

    DEFAULT = "default"


QuotaName = str | QuotaDefault | None
"""A name, the default, or None where the entity does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEntity:
    """What a quota is set on: a user, a client id, or a client id of a user; `ValueError` for neither."""

    user: QuotaName = None
    client_id: QuotaName = None

    def __post_init__(self) -> None:
        if self.user is None and self.client_id is None:
            raise ValueError("a quota is set on a user, a client id or both")

    def __str__(self) -> str:
        parts = (("user", self.user), ("client id", self.client_id))
        texts = (
            f"default {kind}" if name is QuotaDefault.DEFAULT else f"{kind} {name}" for kind, name in parts if name
        )
        return ", ".join(texts)


Quotas = Mapping[QuotaEntity, Mapping[str, float]]
QuotaChanges = Mapping[QuotaEntity, Mapping[str, float | None]]
"""New values by key; None removes what is set."""
