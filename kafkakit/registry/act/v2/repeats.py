"""Replies that are kept for an hour by the key that their request came with, so that it can be sent again."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import blake2b

import msgspec

from kafkakit.registry.decide.faults import invalid
from kafkakit.registry.decide.v2.messages import ChangeTagsReply, ChangeTagsRequest
from kafkakit.registry.decide.v2.tag_changes import is_final

KEPT_S = 3600.0
MAX_KEPT, MAX_BYTES, MAX_KEY = 10_000, 32 << 20, 255


@dataclass(slots=True, kw_only=True)
class _Kept:
    digest: bytes
    until_s: float
    task: asyncio.Future[ChangeTagsReply]
    size: int = 0


class Repeats:
    """One process's replies, in memory; where they take too much space the oldest go."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s, self._bytes = clock_s, 0
        self._kept: OrderedDict[tuple[str, str], _Kept] = OrderedDict()

    async def once(
        self, caller: str, key: str, request: ChangeTagsRequest, work: Callable[[], Awaitable[ChangeTagsReply]]
    ) -> ChangeTagsReply:
        """The reply to the first request with this key; `RpcError` where that was another one.

        What failed, or could end otherwise the next time, is not kept: then the request is carried out again.
        """
        if not key:
            return await work()
        if len(key) > MAX_KEY or not key.isprintable():
            raise invalid(f"Idempotency-Key must have at most {MAX_KEY} characters, all printable")
        self._forget()
        digest, place = blake2b(msgspec.json.encode(request)).digest(), (caller, key)
        kept = self._kept.get(place)
        if kept is None:
            task = asyncio.ensure_future(work())
            kept = self._kept[place] = _Kept(digest=digest, until_s=self._clock_s() + KEPT_S, task=task)
            task.add_done_callback(lambda _: self._end(place))
        elif kept.digest != digest:
            raise invalid("the Idempotency-Key came with another request before")
        return await asyncio.shield(kept.task)

    def _end(self, place: tuple[str, str]) -> None:
        kept = self._kept.get(place)
        if kept is None:
            return
        if kept.task.cancelled() or kept.task.exception() is not None or not is_final(kept.task.result()):
            self._drop(place)
            return
        kept.size = len(msgspec.json.encode(kept.task.result()))
        self._bytes += kept.size

    def _forget(self) -> None:
        now_s = self._clock_s()
        while self._kept:
            place, oldest = next(iter(self._kept.items()))
            if oldest.until_s > now_s and len(self._kept) < MAX_KEPT and self._bytes <= MAX_BYTES:
                return
            self._drop(place)

    def _drop(self, place: tuple[str, str]) -> None:
        self._bytes -= self._kept.pop(place).size
