"""Pages: a token names the last entry of a page, so that objects that stay are neither lost nor repeated."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Callable, Sequence
from hashlib import blake2b

import msgspec

from kafkakit.core.documents import decoded_json
from kafkakit.registry.decide.faults import invalid
from kafkakit.registry.decide.tags import Kind

DEFAULT_SIZE, MAX_SIZE = 100, 1000
_MAX_TOKEN = 1024
Place = tuple[int, str]


class _Token(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    of: str
    last: str


def page_size(given: int) -> int:
    """The entries of a page: 100 for 0, at most 1000."""
    if given < 0:
        raise invalid("page_size is negative")
    return min(given or DEFAULT_SIZE, MAX_SIZE)


def page_after(names: Sequence[str], last: str | None, size: int, order: Callable[[str], Place]) -> Sequence[str]:
    """The names after one that need not be there any more; they are sorted by `order`. O(log names)."""
    try:
        start = 0 if last is None else bisect_right(names, order(last), key=order)
    except ValueError:
        raise invalid("page_token is none of this service") from None
    return names[start : start + size]


def order_of(kind: Kind) -> Callable[[str], Place]:
    """How the names of a kind are sorted: topics by name, brokers by id."""
    return (lambda name: (0, name)) if kind is Kind.TOPIC else (lambda name: (int(name), ""))


def next_token(question: Sequence[str], last: str) -> str:
    """The token of the page after `last`; `question` is what must be the same for it."""
    return urlsafe_b64encode(msgspec.json.encode(_Token(_digest(question), last))).decode().rstrip("=")


def read_token(question: Sequence[str], token: str) -> str | None:
    """The last entry of the page before, None for the first page; `RpcError` for a token of another question."""
    if not token:
        return None
    try:
        padded = token + "=" * (-len(token) % 4)
        found = decoded_json(urlsafe_b64decode(padded.encode("ascii")), _Token)
    except (ValueError, RecursionError):
        raise invalid("page_token is none of this service") from None
    if len(token) > _MAX_TOKEN or found.of != _digest(question):
        raise invalid("page_token belongs to another request: ask with the same query")
    return found.last


def _digest(question: Sequence[str]) -> str:
    return blake2b(msgspec.json.encode(list(question)), digest_size=6).hexdigest()
