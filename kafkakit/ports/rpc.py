"""Listeners that hand calls of gRPC and HTTP on, and the codec of their messages."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kafkakit.core.rpc import RpcAnswer, RpcCall, RpcStream

Answer = Callable[[RpcCall], Awaitable[RpcAnswer | RpcStream]]
"""Answers one call, in the event loop of the listener; raises nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcService:
    """A service by its full name, with its methods; those of `streams` may be answered by an `RpcStream`."""

    name: str
    methods: Collection[str]
    answer: Answer
    streams: Collection[str] = ()


class MessageCodec(Protocol):
    """Messages of one protocol as mappings: field names as declared, repeated fields tuples, unset fields present."""

    def decode(self, message: str, data: bytes) -> Mapping[str, Any]:
        """Read the binary form; `RpcError` for what is none."""
        ...

    def decode_json(self, message: str, data: bytes) -> Mapping[str, Any]:
        """Read JSON with names of either style, unknown ones ignored; `RpcError` for what cannot be read."""
        ...

    def encode(self, message: str, fields: Mapping[str, Any]) -> bytes:
        """The binary form, the same bytes for the same fields."""
        ...


class RpcListener(Protocol):
    """One address that is listened on; started and stopped in one event loop."""

    async def start(self) -> str:
        """Listen; the address with the real port. Raises `UsageError` where that is impossible."""
        ...

    async def stop(self, grace_s: float) -> None:
        """Take no more calls, and wait so long for those in progress."""
        ...
