"""Records of a partition as values."""

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

from kafkakit.core.model import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of a partition: at `offset` after the broker acknowledged it, or as it was read.

    Time and headers are those of records that were read; `at_ms` is None where the record has none. A tombstone that
    was read has an empty value and `is_null`.
    """

    partition: TopicPartition
    offset: int
    value: bytes
    key: bytes | None = None
    at_ms: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    is_null: bool = False


UNREADABLE_HEADER = "kafkakit-unreadable-header"
"""In place of a header's name that is not UTF-8."""
_headers = methodcaller("headers")
"""The interpreter's own fast calls do not look whether a method that returns has set an error; this one does."""


def headers_of(message: Any) -> Sequence[tuple[str, bytes | None]]:
    """The headers of a message of a client library.

    For a name that is not UTF-8, confluent-kafka (2.16) raises `SystemError` and keeps a list whose pairs lack their
    names: whatever reads such a pair later ends the process. Its parts are taken out without being read as pairs.
    """
    try:
        return _headers(message) or ()
    except SystemError:
        pairs = [gc.get_referents(pair)[::-1] for pair in gc.get_referents(_headers(message))[::-1]]
        message.set_headers([tuple(pair) if len(pair) == 2 else (UNREADABLE_HEADER, *pair) for pair in pairs])
        return _headers(message) or ()
