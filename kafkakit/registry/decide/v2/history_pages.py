"""Pages of the history: the newest change first, of one object or of all."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from heapq import nsmallest
from typing import Any

import msgspec
from msgspec import UNSET

from kafkakit.core.documents import decoded_json
from kafkakit.core.printable import printable
from kafkakit.registry.decide.faults import invalid
from kafkakit.registry.decide.history import MAX_AGE_S, HistoryDocument, StoredEntry, etag_of
from kafkakit.registry.decide.inventory import NO_TAGS, Inventory
from kafkakit.registry.decide.tags import Kind
from kafkakit.registry.decide.v2.messages import HistoryEntry, HistoryPage, HistoryRequest, ValueChange
from kafkakit.registry.decide.v2.pages import next_token, page_size, read_token

Place = tuple[float, str, str, int]
Objects = Iterable[tuple[Kind, str, HistoryDocument]]
_PLACE: Any = tuple[float, str, str, int]


def check_history(request: HistoryRequest) -> None:
    """`RpcError` for a request that cannot be meant."""
    if bool(request.name) != bool(request.kind):
        raise invalid("kind and name belong together: an object, or none for all")
    _since(request)
    page_size(request.page_size)
    _last(request)


def history_page(
    request: HistoryRequest, objects: Objects, is_made: Callable[[Kind, str, StoredEntry], bool], now_s: float
) -> HistoryPage:
    """One page. `is_made` tells of a change whose outcome is not entered yet whether it shows in the tags."""
    size, last, since = page_size(request.page_size), _last(request), max(_since(request), now_s - MAX_AGE_S)
    found = (
        (_place(kind, name, entry), entry)
        for kind, name, document in objects
        for entry in document.entries
        if entry.at >= since and (not entry.is_pending or is_made(kind, name, entry))
    )
    later = nsmallest(
        size + 1, ((place, entry) for place, entry in found if last is None or place > last), key=lambda each: each[0]
    )
    shown = later[:size]
    token = ""
    if len(later) > size:
        token = next_token(_question(request), msgspec.json.encode(shown[-1][0]).decode())
    return HistoryPage(entries=tuple(_shown(place, entry) for place, entry in shown), next_page_token=token)


def shows_in(inventory: Inventory) -> Callable[[Kind, str, StoredEntry], bool]:
    """What tells from the last known tags whether a change was made."""
    return lambda kind, name, entry: entry.after == etag_of(inventory.tags[kind].get(name, NO_TAGS))


def _place(kind: Kind, name: str, entry: StoredEntry) -> Place:
    return -entry.at, str(kind), name, -entry.number


def _question(request: HistoryRequest) -> tuple[str, ...]:
    return "history", request.kind, request.name, request.since


def _last(request: HistoryRequest) -> Place | None:
    text = read_token(_question(request), request.page_token)
    try:
        return None if text is None else decoded_json(text.encode(), _PLACE)
    except (msgspec.DecodeError, ValueError):
        raise invalid("page_token is none of this service") from None


def _since(request: HistoryRequest) -> float:
    if not request.since:
        return 0.0
    try:
        found = datetime.fromisoformat(request.since)
        if found.tzinfo is not None:
            return found.timestamp()
    except (ValueError, OverflowError):
        pass
    raise invalid(f"since: {printable(request.since[:40])!r} is no time such as 2026-01-31T12:00:00Z")


def _shown(place: Place, entry: StoredEntry) -> HistoryEntry:
    _, kind, name, _ = place
    at = datetime.fromtimestamp(entry.at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    changes = tuple(
        ValueChange(
            key=each.key, old=UNSET if each.old is None else each.old, new=UNSET if each.new is None else each.new
        )
        for each in entry.changes
    )
    return HistoryEntry(kind=kind, name=name, number=entry.number, at=at, by=entry.by, changes=changes)
