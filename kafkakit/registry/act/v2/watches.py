"""Watches: each is a place in the log of events, and gets what comes after it as fast as it takes it."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress

from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.registry.decide.access import Caller
from kafkakit.registry.decide.inventory import Inventory, Touched
from kafkakit.registry.decide.v2.events import EventLog, LostPlaceError
from kafkakit.registry.decide.v2.messages import WatchEvent, WatchRequest
from kafkakit.registry.decide.v2.selection import Selection
from kafkakit.registry.decide.v2.watched import Watched

MAX_WATCHES, MAX_OF_CALLER = 200, 50
HEARTBEAT_S = 15.0
LONGEST_S = 3600.0
"""After it a client comes again, and its token is looked at again."""
_AT_ONCE = 200


class Watches:
    """Hands events on to many clients; in the thread that also changes the inventory."""

    def __init__(
        self, inventory: Inventory, events: EventLog, selection: Selection, *, heartbeat_s: float = HEARTBEAT_S
    ) -> None:
        self._inventory, self._events, self._selection = inventory, events, selection
        self._heartbeat_s = heartbeat_s
        self._news = asyncio.Event()
        self._is_closed, self._renewals = False, 0
        self._open: Counter[str] = Counter()
        inventory.followers.append(self._take)

    def close(self) -> None:
        """Every watch ends with an event that says so."""
        self._is_closed = True
        self._wake()

    def renew(self) -> None:
        """Every watch that is open ends in the same way; its client comes again, and its token is looked at again."""
        self._renewals += 1
        self._wake()

    def open(self, request: WatchRequest, caller: Caller) -> AsyncIterator[Sequence[WatchEvent]]:
        """The events of one client in batches, the last one of type `end`; `RpcError` for what cannot be meant."""
        watched = Watched(request, self._inventory, self._selection)
        if self._open.total() >= MAX_WATCHES or self._open[caller.name] >= MAX_OF_CALLER:
            raise RpcError(RpcCode.RESOURCE_EXHAUSTED, "too many watches are open", retry_after_s=30)
        return self._follow(request, watched, caller)

    async def _follow(
        self, request: WatchRequest, watched: Watched, caller: Caller
    ) -> AsyncIterator[Sequence[WatchEvent]]:
        events, place = self._events, self._events.last
        with self._counted(caller.name):
            try:
                place = events.number_of(request.after) if request.after else place
                yield (WatchEvent(type="start", event_id=events.id_of(place)),)
                end_s, renewals = time.monotonic() + LONGEST_S, self._renewals
                while time.monotonic() < end_s and not caller.has_expired(time.time()):
                    if self._is_closed or self._renewals != renewals:
                        break
                    found = events.after(place, _AT_ONCE)
                    if found:
                        place = found[-1][0]
                        if shown := watched.shown(found, events.id_of):
                            yield shown
                        await asyncio.sleep(0)  # other calls are answered between two batches
                    elif not await self._wait():
                        yield (WatchEvent(type="heartbeat", event_id=events.id_of(place)),)
                lasted = "watched for long enough" if self._renewals == renewals else "the callers changed"
                reason = "the server stops" if self._is_closed else lasted
                ended = WatchEvent(
                    type="end", event_id=events.id_of(place), message=f"{reason}: watch again after this"
                )
            except LostPlaceError as error:
                ended = WatchEvent(type="end", event_id="", message=str(error))
            yield (ended,)

    async def _wait(self) -> bool:
        """Wait for an event; False where none came before a heartbeat is due."""
        news = self._news
        with suppress(TimeoutError):
            await asyncio.wait_for(news.wait(), self._heartbeat_s)
        return news.is_set()

    @contextmanager
    def _counted(self, name: str) -> Iterator[None]:
        self._open[name] += 1
        try:
            yield
        finally:
            self._open[name] -= 1
            if not self._open[name]:
                del self._open[name]

    def _take(self, touched: Sequence[Touched]) -> None:
        self._events.add(touched)
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()
