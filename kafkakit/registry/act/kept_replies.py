"""Replies kept for an hour beside the tags, by the key of their request: `<root>/replies/<digest of caller and key>`.

Whichever server gets a request again, also after a restart, gives the first reply to it.
"""

import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b

import msgspec

from kafkakit.core.documents import decoded_json
from kafkakit.core.errors import ConflictError, InputError, KafkakitError, TryLaterError
from kafkakit.ports.control import ControlStore
from kafkakit.registry.decide.faults import invalid
from kafkakit.registry.decide.v2.messages import ChangeTagsReply, ChangeTagsRequest
from kafkakit.registry.decide.v2.tag_changes import is_final

KEPT_S = 3600.0
GRACE_S = 10.0
"""So long after its deadline a request that is not finished is taken for one whose server has ended."""
MAX_KEPT, MAX_BYTES, MAX_KEY, MAX_TRIES = 1000, 60_000, 255, 10
MOST_REPLY_BYTES = 64 << 20
PRUNE_AFTER = 100
"""Requests between two looks for what is too old or too much: one reading of all that is kept."""


class _Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request until a time in Unix seconds; `reply` is compressed JSON, None while it is carried out."""

    request: str
    until_s: float
    reply: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The right to carry a request out, and the place for its reply."""

    path: str
    version: int
    request: str


class KeptReplies:
    """For several threads. Raises `TryLaterError` where the store does not answer."""

    def __init__(self, store: ControlStore, root: str, now_s: Callable[[], float]) -> None:
        self._store, self._folder, self._now_s = store, f"{root.strip('/')}/replies", now_s
        self._until_prune = 0

    def claim(
        self, caller: str, key: str, request: ChangeTagsRequest, limit_s: float
    ) -> ChangeTagsReply | Claim | None:
        """The reply to the first request with this key, the right to be it, or None while it is carried out.

        It has `limit_s` for that. `RpcError` where the key came with another request.
        """
        if len(key) > MAX_KEY or not key.isprintable():
            raise invalid(f"Idempotency-Key must have at most {MAX_KEY} characters, all printable")
        self._prune()
        digest = blake2b(msgspec.json.encode(request), digest_size=16).hexdigest()
        place = blake2b(f"{caller}\0{key}".encode("utf-8", "replace"), digest_size=16).hexdigest()
        path = f"{self._folder}/{place}"
        for _ in range(MAX_TRIES):
            found = self._store.get(path)
            kept = None if found is None else _decoded(found.value)
            if kept is not None and kept.until_s > self._now_s():
                if kept.request != digest:
                    raise invalid("the Idempotency-Key came with another request before")
                return None if kept.reply is None else _reply(kept.reply, path)
            mine = _Kept(request=digest, until_s=self._now_s() + limit_s + GRACE_S)
            with suppress(ConflictError):
                version = self._store.cas(path, msgspec.json.encode(mine), None if found is None else found.version)
                return Claim(path=path, version=version, request=digest)
        raise TryLaterError("other processes took up the same Idempotency-Key again and again")

    def settle(self, claim: Claim, reply: ChangeTagsReply | None) -> None:
        """Keep the reply; one that could be another the next time, is too large, or None, gives the claim back."""
        data = b"" if reply is None or not is_final(reply) else zlib.compress(msgspec.json.encode(reply))
        kept = _Kept(request=claim.request, until_s=self._now_s() + KEPT_S, reply=data)
        encoded = msgspec.json.encode(kept)
        with suppress(KafkakitError):  # what was changed stays changed
            if data and len(encoded) <= MAX_BYTES:
                self._store.cas(claim.path, encoded, claim.version)
            else:
                self._store.delete(claim.path, claim.version)

    def _prune(self) -> None:
        self._until_prune -= 1
        if self._until_prune >= 0:
            return
        self._until_prune = PRUNE_AFTER
        found = {name: (record, _decoded(record.value)) for name, record in self._store.values(self._folder).items()}
        by_age = sorted(found, key=lambda name: found[name][1].until_s, reverse=True)
        for number, name in enumerate(by_age):
            record, kept = found[name]
            if number >= MAX_KEPT or kept.until_s <= self._now_s():
                with suppress(ConflictError):
                    self._store.delete(f"{self._folder}/{name}", record.version)


def _decoded(data: bytes) -> _Kept:
    try:
        return decoded_json(data, _Kept)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return _Kept(request="", until_s=0)  # no record of ours: the next one replaces it


def _reply(data: bytes, path: str) -> ChangeTagsReply:
    try:
        return decoded_json(zlib.decompressobj().decompress(data, MOST_REPLY_BYTES), ChangeTagsReply)
    except (zlib.error, msgspec.DecodeError, ValueError):
        raise InputError(path, "holds no reply") from None
