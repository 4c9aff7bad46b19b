"""Version 2 beside kafka-kit's calls, with the same callers, limits, inventory and audit log; both as one for
listeners.

* A watch is a place in the log of events, and gets what comes after it as fast as it takes it.
* Tags of many objects can be changed in one request.
* Changes of tags by other programs are entered into the history when a reading of the cluster shows them.
* gRPC's health checks tell whether reads are answered.
"""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import Empty, Full, Queue
from threading import Thread
from urllib.parse import unquote

import msgspec

from kafkakit.core.errors import KafkakitError
from kafkakit.core.plan_rules import topic_problem
from kafkakit.core.rpc import RpcAnswer, RpcCall, RpcCode, RpcError, RpcStream
from kafkakit.core.text import ToldOnce, few_of
from kafkakit.ports.services import Answer, GrpcService, MessageCodec
from kafkakit.registry.act.cluster import ChangeResult, Writes
from kafkakit.registry.act.service import (
    RegistryService,
    TagsRefusedError,
    deadline_of,
    query_of,
    refused_answer,
    refused_message,
)
from kafkakit.registry.act.tag_store import Claim, KeptReplies, TagHistory, TagStore
from kafkakit.registry.decide.access import Caller
from kafkakit.registry.decide.inventory import NO_TAGS, ChangedObject, Inventory
from kafkakit.registry.decide.requests import EMPTY, MAX_QUERY, RPC_BY_NAME, SERVICE
from kafkakit.registry.decide.tags import CallRole, ObjectKind, Tags, is_broker_id
from kafkakit.registry.decide.v2_calls import (
    CALL_V2_BY_NAME,
    CALLS_V2,
    SERVICE_V2,
    AnyV2Reply,
    AnyV2Request,
    CallV2,
    ChangeTagsReply,
    ChangeTagsRequest,
    HistoryPage,
    HistoryRequest,
    ObjectChange,
    TagResult,
    TranslatedOffsets,
    TranslateOffsetsRequest,
    WatchEvent,
    WatchRequest,
    methods_of,
    openapi_document,
    read_body,
    read_message,
    read_query,
    route_v2,
    to_sse,
)
from kafkakit.registry.decide.v2_views import (
    MAX_EVENTS,
    EventLog,
    LostPlaceError,
    QueryIndex,
    ReadsV2,
    WatchedSelection,
    changed_result,
    check_history,
    check_request,
    history_page,
    missing_object,
    results_of,
    shows_in,
    tags_after,
)

_SSE = (("Content-Type", "text/event-stream"), ("Cache-Control", "no-store"), ("X-Accel-Buffering", "no"))
LOOK_S = 0.1
"""Between two looks for the reply to a request that is being carried out elsewhere."""
TranslateV2 = Callable[[TranslateOffsetsRequest, float], TranslatedOffsets]
Parse = Callable[[], AnyV2Request]
Batches = AsyncIterator[Sequence[WatchEvent]]

MAX_WATCHES, MAX_OF_CALLER = 200, 50
HEARTBEAT_S = 15.0
LONGEST_S = 3600.0
"""After it a client comes again, and its token is looked at again."""
_AT_ONCE = 200


class Watches:
    """Hands events on to many clients; in the thread that also changes the inventory."""

    def __init__(
        self, inventory: Inventory, events: EventLog, selection: QueryIndex, *, heartbeat_s: float = HEARTBEAT_S
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
        watched = WatchedSelection(request, self._inventory, self._selection)
        if self._open.total() >= MAX_WATCHES or self._open[caller.name] >= MAX_OF_CALLER:
            raise RpcError(RpcCode.RESOURCE_EXHAUSTED, "too many watches are open", retry_after_s=30)
        return self._follow(request, watched, caller)

    async def _follow(
        self, request: WatchRequest, watched: WatchedSelection, caller: Caller
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

    def _take(self, touched: Sequence[ChangedObject]) -> None:
        self._events.add(touched)
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class TagWrites:
    """Carries requests out in a thread; whether what they name exists is asked of the cluster."""

    def __init__(self, writes: Writes, tags: TagStore, inventory: Inventory) -> None:
        self._writes, self._tags, self._inventory = writes, tags, inventory

    def prepare(self, request: ChangeTagsRequest, caller: Caller) -> "PreparedTags":
        """What the request needs of the inventory, read in its thread: brokers that are down and hold replicas."""
        names = {change.name for change in request.changes if ObjectKind(change.kind) is ObjectKind.BROKER}
        holding = {name for name in names if is_broker_id(name) and self._inventory.topics_on(int(name))}
        return PreparedTags(request, caller, holding, self._tags.acting_for(caller.name), self._writes)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class TagsWritten(ChangeResult):
    """What came of a request, for the caller."""

    results: ChangeTagsReply


class PreparedTags:
    """One request, with what was known when it came."""

    def __init__(
        self, request: ChangeTagsRequest, caller: Caller, holding: set[str], tags: TagStore, writes: Writes
    ) -> None:
        self._request, self._caller, self._tags, self._writes = request, caller, tags, writes
        self._there: Mapping[ObjectKind, Collection[str]] = {ObjectKind.BROKER: holding, ObjectKind.TOPIC: ()}
        self._written = list[tuple[ObjectKind, str, Tags]]()

    def __call__(self, end_s: float) -> TagsWritten:
        """Carry it out until so many seconds of the monotonic clock."""
        named = {
            kind: sorted({c.name for c in self._request.changes if ObjectKind(c.kind) is kind}) for kind in ObjectKind
        }
        allowed = [name for name in named[ObjectKind.TOPIC] if not topic_problem(name)]
        brokers = map(str, self._writes.brokers_there()) if named[ObjectKind.BROKER] else ()
        self._there = {
            ObjectKind.BROKER: {*self._there[ObjectKind.BROKER], *brokers},
            ObjectKind.TOPIC: self._writes.topics_there(allowed),
        }
        results = results_of(self._request, self._change, lambda: time.monotonic() > end_s)
        return TagsWritten(reply=EMPTY, tags=tuple(self._written), results=results)

    def _change(self, change: ObjectChange) -> TagResult:
        kind = ObjectKind(change.kind)
        self._caller.require(CallRole.TAG, change.kind, (change.name,))
        if change.name not in self._there[kind] and self._tags.get(kind, change.name) is None:
            raise missing_object(kind, change.name)
        if self._request.dry_run:
            present = self._tags.get(kind, change.name) or NO_TAGS
            return changed_result(change, present, tags_after(change, present))
        seen = list[Tags]()

        def replace(present: Tags) -> Tags:
            seen.append(present)
            return tags_after(change, present)

        after = self._tags.change(kind, change.name, replace)
        self._written.append((kind, change.name, after))
        return changed_result(change, seen[-1], after)


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
            reply = await self._answer(of, call, lambda: _parse_http(of, in_path, call), deadline_of(call))
        except Exception as error:
            return refused_answer(self._first.refusal(error))
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
            return refused_message(self._first.refusal(error))
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
            kind = ObjectKind(request.kind)
            objects = [(kind, request.name, history.of(kind, request.name))]
            return history_page(request, objects, lambda *_: False, history.now_s())

        return await self._first.read_in_thread(end_s, read)

    async def _elsewhere(self, call: RpcCall, segments: tuple[str, ...]) -> RpcAnswer:
        answer = await self._first.http(call)
        allowed = methods_of(segments)
        if answer.code is not RpcCode.NOT_FOUND or not allowed:
            return answer
        refused = refused_answer(RpcError(RpcCode.UNIMPLEMENTED, "Method Not Allowed"))
        return RpcAnswer(body=refused.body, status=405, headers=(("Allow", ", ".join(allowed)),))

    def _unprotected(self, path: str) -> RpcAnswer:
        if path in ("/", "/ui"):
            return self._ports.page(self._inventory.cluster_id or "")
        if path != "/healthz":
            return RpcAnswer(body=self._openapi)
        is_fresh = self._first.is_fresh
        body = msgspec.json.encode({"status": "SERVING" if is_fresh else "NOT_SERVING"})
        return RpcAnswer(body=body, status=200 if is_fresh else 503, headers=self._first.freshness())


def _parse_http(of: CallV2, in_path: Mapping[str, str], call: RpcCall) -> AnyV2Request:
    if of.http_method == "POST":
        return read_body(of, call.body)
    return read_query(of, in_path, query_of(call.query))


async def _sse(batches: Batches) -> AsyncIterator[bytes]:
    async for batch in batches:
        yield b"".join(map(to_sse, batch))


async def _messages(batches: Batches, encode: Callable[[AnyV2Reply], bytes]) -> AsyncIterator[bytes]:
    async for batch in batches:
        for event in batch:
            yield encode(event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """What is listened for."""

    first: RegistryService
    http: Answer
    grpc_services: tuple[GrpcService, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsV2:
    """What version 2 shares with version 1, its codecs, and its limits."""

    inventory: Inventory
    writes: Writes
    tags: TagStore
    codec: MessageCodec
    health_codec: MessageCodec
    page: Callable[[str], RpcAnswer]
    translate: TranslateV2
    most_events: int = MAX_EVENTS
    heartbeat_s: float = HEARTBEAT_S


def serve_both(first: RegistryService, parts: PartsV2) -> Endpoints:
    """Version 2 beside version 1, and health checks of both."""
    inventory = parts.inventory
    reads = ReadsV2(inventory, EventLog(secrets.token_hex(4), most=parts.most_events))
    watches = Watches(inventory, reads.events, reads.selection, heartbeat_s=parts.heartbeat_s)
    notices = Notices(parts.tags.history, first.refusal, first.report)
    inventory.followers.append(notices.take)
    ports = PortsV2(
        codec=parts.codec,
        writes=TagWrites(parts.writes, parts.tags, inventory),
        history=parts.tags.history,
        replies=parts.tags.replies,
        watches=watches,
        translate=parts.translate,
        page=parts.page,
    )
    second = ServiceV2(first, inventory, reads, ports)
    health = HealthService(parts.health_codec, lambda: first.is_fresh)
    first.at_new_callers.append(watches.renew)
    first.at_stop += [watches.close, notices.stop, health.close]
    return Endpoints(
        first=first,
        http=second.http,
        grpc_services=(
            GrpcService(name=SERVICE, methods=RPC_BY_NAME, answer=first.grpc),
            GrpcService(
                name=SERVICE_V2,
                methods=CALL_V2_BY_NAME,
                answer=second.grpc,
                streams=[call.name for call in CALLS_V2 if call.is_stream],
            ),
            GrpcService(name=HEALTH, methods=("Check", "Watch"), answer=health.grpc, streams=("Watch",)),
        ),
    )


MAX_WAITING = 10_000
"""More are found when the object is changed or its history read the next time, without the earlier values."""
COMPACT_EVERY_S = 6 * 3600.0
_LOOK_S = 60.0


class Notices:
    """Follows an inventory, and enters what it shows from a thread of its own; also drops what is too old.

    `report_defect` gets what a store raised that is not a `KafkakitError`, and `report` a line when the reason changes
    why changes of others are not entered; the thread goes on.
    """

    def __init__(
        self,
        history: TagHistory,
        report_defect: Callable[[Exception], object],
        report: Callable[[str], object],
    ) -> None:
        self._history, self._report_defect = history, report_defect
        self._faults, self._unreadable = ToldOnce(report), ToldOnce(report)
        self._queue: Queue[ChangedObject | None] = Queue(MAX_WAITING)
        self._is_stopped = False
        self._thread: Thread | None = None

    def take(self, touched: Sequence[ChangedObject]) -> None:
        """Take note of tags that are not those that were known; returns at once."""
        if self._is_stopped:
            return
        if self._thread is None:
            self._thread = Thread(target=self._work, name="history", daemon=True)
            self._thread.start()
        with suppress(Full):
            for each in touched:
                if each.old_tags is not None:
                    self._queue.put_nowait(each)

    def stop(self) -> None:
        """End the thread after what it is at."""
        self._is_stopped = True
        with suppress(Full):  # the mark only wakes a thread that waits; beside a full queue none does
            self._queue.put_nowait(None)

    def _work(self) -> None:
        compact_at_s = time.monotonic() + COMPACT_EVERY_S
        while not self._is_stopped:
            with suppress(Empty), self._faults_reported():
                if each := self._queue.get(timeout=_LOOK_S):
                    # Where the store does not answer, the change shows again with the next one of the object.
                    self._history.notice(each.kind, each.name, each.old_tags or NO_TAGS)
                    self._faults.clear()
            if time.monotonic() >= compact_at_s:
                compact_at_s = time.monotonic() + COMPACT_EVERY_S
                with self._faults_reported():
                    self._compact()

    def _compact(self) -> None:
        unreadable = self._history.compact().unreadable
        if unreadable:
            self._unreadable.tell(f"histories of tags that cannot be read stay as they are: {few_of(unreadable)}")
        else:
            self._unreadable.clear()

    @contextmanager
    def _faults_reported(self) -> Iterator[None]:
        try:
            yield
        except Empty:
            raise
        except KafkakitError as error:
            self._faults.tell(f"the history of tags is not kept: {error.message}")
        except Exception as error:  # a thread that ended would leave the queue to fill up unseen
            self._report_defect(error)


HEALTH = "grpc.health.v1.Health"
SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3
MAX_HEALTH_WATCHES = 100
HEALTH_LOOK_S = 2.0
_KNOWN = frozenset({"", SERVICE, SERVICE_V2})


class HealthService:
    """Answers without a token, as load balancers ask; `MAX_WATCHES` at once are told of each change."""

    def __init__(self, codec: MessageCodec, is_fresh: Callable[[], bool]) -> None:
        self._codec, self._is_fresh = codec, is_fresh
        self._watches = 0
        self._is_closed = False

    def close(self) -> None:
        """End every watch at its next look."""
        self._is_closed = True

    async def grpc(self, call: RpcCall) -> RpcAnswer | RpcStream:
        """Answer `Check` and `Watch`."""
        try:
            service = str(self._codec.decode("HealthCheckRequest", call.body)["service"])
        except RpcError as error:
            return RpcAnswer(body=b"", code=error.code, message=error.message)
        if call.method == "Check":
            if service not in _KNOWN:
                return RpcAnswer(body=b"", code=RpcCode.NOT_FOUND, message="unknown service")
            return RpcAnswer(body=self._encoded(self._status(service)))
        if self._watches >= MAX_HEALTH_WATCHES:
            return RpcAnswer(body=b"", code=RpcCode.RESOURCE_EXHAUSTED, message="too many watches are open")
        return RpcStream(parts=self._changes(service))

    async def _changes(self, service: str) -> AsyncIterator[bytes]:
        self._watches += 1
        try:
            last = 0
            while not self._is_closed:
                status = self._status(service)
                if status != last:
                    last = status
                    yield self._encoded(status)
                await asyncio.sleep(HEALTH_LOOK_S)
        finally:
            self._watches -= 1

    def _status(self, service: str) -> int:
        if service not in _KNOWN:
            return SERVICE_UNKNOWN
        return SERVING if self._is_fresh() else NOT_SERVING

    def _encoded(self, status: int) -> bytes:
        return self._codec.encode("HealthCheckResponse", {"status": status})
