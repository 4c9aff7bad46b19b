"""Version 2 beside kafka-kit's calls: the same callers, limits, inventory and audit log."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote

import msgspec

from kafkakit.core.rpc import HTTP_STATUS, RpcAnswer, RpcCall, RpcCode, RpcError, RpcStream
from kafkakit.ports.rpc import MessageCodec
from kafkakit.registry.act.kept_replies import Claim, KeptReplies
from kafkakit.registry.act.service import RegistryService, retry_headers
from kafkakit.registry.act.tag_history import TagHistory
from kafkakit.registry.act.v2.tag_writes import PreparedTags, TagsWritten, TagWrites
from kafkakit.registry.act.v2.watches import Watches
from kafkakit.registry.decide.access import Caller
from kafkakit.registry.decide.faults import invalid
from kafkakit.registry.decide.http_routes import MAX_QUERY, parse_timeout
from kafkakit.registry.decide.inventory import Inventory
from kafkakit.registry.decide.replies import error_json
from kafkakit.registry.decide.tags import Kind
from kafkakit.registry.decide.v2.calls import (
    CALL_V2_BY_NAME,
    CallV2,
    methods_of,
    read_body,
    read_message,
    read_query,
    route_v2,
)
from kafkakit.registry.decide.v2.history_pages import check_history, history_page, shows_in
from kafkakit.registry.decide.v2.messages import (
    AnyV2Reply,
    AnyV2Request,
    ChangeTagsReply,
    ChangeTagsRequest,
    HistoryPage,
    HistoryRequest,
    TranslatedOffsets,
    TranslateOffsetsRequest,
    WatchEvent,
    WatchRequest,
)
from kafkakit.registry.decide.v2.openapi import openapi_document
from kafkakit.registry.decide.v2.reads import ReadsV2
from kafkakit.registry.decide.v2.streams import to_sse
from kafkakit.registry.decide.v2.tag_changes import check_request

_SSE = (("Content-Type", "text/event-stream"), ("Cache-Control", "no-store"), ("X-Accel-Buffering", "no"))
LOOK_S = 0.1
"""Between two looks for the reply to a request that is being carried out elsewhere."""
TranslateV2 = Callable[[TranslateOffsetsRequest, float], TranslatedOffsets]
Parse = Callable[[], AnyV2Request]
Batches = AsyncIterator[Sequence[WatchEvent]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PortsV2:
    """What version 2 acts through."""

    codec: MessageCodec
    writes: TagWrites
    history: TagHistory
    replies: KeptReplies
    watches: Watches
    translate: TranslateV2
    page: Callable[[str], RpcAnswer]
    """For a browser, by cluster id; empty before the first reading."""


class ServiceV2:
    """Answers version 2's calls, and hands on to version 1 what is not one of them."""

    def __init__(self, first: RegistryService, inventory: Inventory, reads: ReadsV2, ports: PortsV2) -> None:
        self._first, self._inventory, self._reads, self._ports = first, inventory, reads, ports
        self._openapi = msgspec.json.encode(openapi_document())

    async def http(self, call: RpcCall) -> RpcAnswer | RpcStream:
        """Answer an HTTP request."""
        if call.method in ("GET", "HEAD") and call.path in ("/healthz", "/v2/openapi.json", "/", "/ui"):
            return self._unprotected(call.path)
        segments = tuple(unquote(part) for part in call.path.split("/")[1:])
        found = route_v2(call.method, segments) if len(call.path) + len(call.query) <= MAX_QUERY else None
        if found is None:
            return await self._elsewhere(call, segments)
        of, in_path = found
        try:
            given = call.headers.get("grpc-timeout")
            deadline_s = None if given is None else parse_timeout(given)
            reply = await self._answer(of, call, lambda: _parse_http(of, in_path, call), deadline_s)
        except Exception as error:
            return _refusal(self._first.refusal(error))
        if isinstance(reply, AsyncIterator):
            return RpcStream(parts=_sse(reply), headers=(*_SSE, *self._first.freshness()))
        etag = getattr(reply, "etag", None)
        tagged = (("ETag", f'"{etag}"'),) if isinstance(etag, str) else ()
        return RpcAnswer(body=msgspec.json.encode(reply), headers=(*tagged, *self._first.freshness()))

    async def grpc(self, call: RpcCall) -> RpcAnswer | RpcStream:
        """Answer a gRPC call."""
        of = CALL_V2_BY_NAME[call.method]
        codec = self._ports.codec

        def parse() -> AnyV2Request:
            return read_message(of, codec.decode(of.request.__name__, call.body))

        def encode(reply: AnyV2Reply) -> bytes:
            return codec.encode(of.reply.__name__, msgspec.to_builtins(reply))

        try:
            reply = await self._answer(of, call, parse, call.deadline_s)
        except Exception as error:
            refused = self._first.refusal(error)
            headers = (*retry_headers(refused), *_etag_header(refused))
            return RpcAnswer(body=b"", code=refused.code, message=refused.message, headers=headers)
        if isinstance(reply, AsyncIterator):
            return RpcStream(parts=_messages(reply, encode))
        return RpcAnswer(body=encode(reply), headers=self._first.freshness())

    async def _answer(self, of: CallV2, call: RpcCall, parse: Parse, deadline_s: float | None) -> AnyV2Reply | Batches:
        caller, end_s = await self._first.admit(call, of.role, deadline_s)
        request = parse()
        if isinstance(request, ChangeTagsRequest):
            return await self._change_tags(request, call, caller, end_s)
        if isinstance(request, HistoryRequest):
            return await self._history(request, end_s)
        if isinstance(request, TranslateOffsetsRequest):
            translate = self._ports.translate
            return await self._first.read_in_thread(
                end_s, lambda: translate(request, max(0.1, end_s - time.monotonic()))
            )
        if not self._first.is_fresh:
            detail = self._inventory.failure or "nothing was read yet"
            raise RpcError(RpcCode.UNAVAILABLE, f"the cluster cannot be read: {detail}", retry_after_s=5)
        if isinstance(request, WatchRequest):
            last_id = call.headers.get("last-event-id", "")
            wanted = msgspec.structs.replace(request, after=request.after or last_id)
            return self._ports.watches.open(wanted, caller)
        return self._reads.answer(of.name, request)

    async def _change_tags(
        self, given: ChangeTagsRequest, call: RpcCall, caller: Caller, end_s: float
    ) -> ChangeTagsReply:
        if_match = call.headers.get("if-match")
        request = check_request(given, if_match)
        prepared = self._ports.writes.prepare(request, caller)
        params = msgspec.to_builtins(request)
        line = {"caller": caller.name, "remote": call.remote, "call": "ChangeTags", "params": params}

        key = call.headers.get("idempotency-key", "")
        if request.dry_run:
            reply = (await self._first.read_in_thread(end_s, lambda: prepared(end_s))).results
        elif key:
            reply = await self._change_once(key, request, prepared, line, end_s)
        else:
            reply = (await self._first.write(prepared, end_s, line)).results
        if if_match is not None and len(reply.results) == 1 and reply.results[0].code:
            result = reply.results[0]
            raise TagsRefusedError(RpcCode(result.code), result.message, result.etag)
        return reply

    async def _change_once(
        self, key: str, request: ChangeTagsRequest, prepared: PreparedTags, line: Mapping[str, object], end_s: float
    ) -> ChangeTagsReply:
        replies, caller = self._ports.replies, str(line["caller"])

        def claim() -> ChangeTagsReply | Claim | None:
            return replies.claim(caller, key, request, max(0.0, end_s - time.monotonic()))

        while (claimed := await self._first.read_in_thread(end_s, claim)) is None:
            if time.monotonic() + LOOK_S > end_s:
                message = "a request with this Idempotency-Key is being carried out"
                raise RpcError(RpcCode.UNAVAILABLE, message, retry_after_s=1)
            await asyncio.sleep(LOOK_S)
        if isinstance(claimed, ChangeTagsReply):
            return claimed
        own = claimed

        def carry_out(until_s: float) -> TagsWritten:
            written = None
            try:
                written = prepared(until_s)
            finally:
                replies.settle(own, None if written is None else written.results)
            return written

        return (await self._first.write(carry_out, end_s, line)).results

    async def _history(self, request: HistoryRequest, end_s: float) -> HistoryPage:
        check_history(request)
        history, is_made = self._ports.history, shows_in(self._inventory)

        def read() -> HistoryPage:
            if not request.kind:
                return history_page(request, history.all(), is_made, history.now_s())
            kind = Kind(request.kind)
            objects = [(kind, request.name, history.of(kind, request.name))]
            return history_page(request, objects, lambda *_: False, history.now_s())

        return await self._first.read_in_thread(end_s, read)

    async def _elsewhere(self, call: RpcCall, segments: tuple[str, ...]) -> RpcAnswer:
        answer = await self._first.http(call)
        allowed = methods_of(segments)
        if answer.code is not RpcCode.NOT_FOUND or not allowed:
            return answer
        refused = _refusal(RpcError(RpcCode.UNIMPLEMENTED, "Method Not Allowed"))
        return RpcAnswer(body=refused.body, status=405, headers=(("Allow", ", ".join(allowed)),))

    def _unprotected(self, path: str) -> RpcAnswer:
        if path in ("/", "/ui"):
            return self._ports.page(self._inventory.cluster_id or "")
        if path != "/healthz":
            return RpcAnswer(body=self._openapi)
        is_fresh = self._first.is_fresh
        body = msgspec.json.encode({"status": "SERVING" if is_fresh else "NOT_SERVING"})
        return RpcAnswer(body=body, status=200 if is_fresh else 503, headers=self._first.freshness())


class TagsRefusedError(RpcError):
    """The refusal of a request with If-Match; `etag` is the present one, empty where there is none."""

    def __init__(self, code: RpcCode, message: str, etag: str) -> None:
        super().__init__(code, message)
        self.etag = etag


def _parse_http(of: CallV2, in_path: Mapping[str, str], call: RpcCall) -> AnyV2Request:
    if of.http_method == "POST":
        return read_body(of, call.body)
    try:
        query = parse_qsl(call.query, keep_blank_values=True, max_num_fields=2000, errors="strict")
    except ValueError:
        raise invalid("the query cannot be read") from None
    return read_query(of, in_path, query)


def _refusal(refused: RpcError) -> RpcAnswer:
    return RpcAnswer(
        body=error_json(refused.code, refused.message),
        code=refused.code,
        status=HTTP_STATUS[refused.code],
        headers=(*retry_headers(refused), *_etag_header(refused)),
    )


def _etag_header(refused: RpcError) -> tuple[tuple[str, str], ...]:
    etag = refused.etag if isinstance(refused, TagsRefusedError) else ""
    return (("ETag", f'"{etag}"'),) if etag else ()


async def _sse(batches: Batches) -> AsyncIterator[bytes]:
    async for batch in batches:
        yield b"".join(map(to_sse, batch))


async def _messages(batches: Batches, encode: Callable[[AnyV2Reply], bytes]) -> AsyncIterator[bytes]:
    async for batch in batches:
        for event in batch:
            yield encode(event)
