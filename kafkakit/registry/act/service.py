"""The service: each call is admitted, answered from the inventory or carried out, and encoded for its protocol.

Listeners run in an event loop of their own, with the reader's changes and an orderly end. Callers of signed tokens are
verified in threads and then known for a minute; files name other callers.
"""

import asyncio
import gc
import itertools
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import TimeoutError as LateError
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from threading import Event, Lock, Thread
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qsl, unquote

from kafkakit.core.errors import (
    KafkakitError,
    OperationFailedError,
    ended_by_stop,
)
from kafkakit.core.quantities import count_of
from kafkakit.core.rpc import HTTP_STATUS, RpcAnswer, RpcCall, RpcCode, RpcError
from kafkakit.core.text import ToldOnce, few_of
from kafkakit.execution.act.journal_files import AuditLog
from kafkakit.ports.acting import Clock, repeat_every
from kafkakit.ports.services import MessageCodec, RpcListener, TokenVerifier
from kafkakit.registry.act.cluster import ChangeResult, Writes
from kafkakit.registry.decide.access import Access, Admission, Caller, JwtRules, caller_of, jwt_in
from kafkakit.registry.decide.inventory import Inventory, InventoryChange
from kafkakit.registry.decide.requests import (
    MAX_FIELDS,
    MAX_QUERY,
    RPC_BY_NAME,
    AnyRequest,
    CallRoute,
    Reply,
    TranslateRequest,
    answer_read,
    error_json,
    given_fields,
    join_json,
    names_in,
    parse_timeout,
    read_fields,
    route,
    to_fields,
    to_json,
)
from kafkakit.registry.decide.tags import CallRole, code_of, fault, invalid_request

MAX_KEPT_REPLIES = 5000
MAX_KEPT_BYTES = 32 << 20
"""Of all replies together; what has no place is made anew each time."""
WRITES_AT_ONCE = 4
SLOW_READS_AT_ONCE = 4
MAX_WAITING_CALLS = 500
TRANSLATE = "TranslateOffsets"
Translate = Callable[[TranslateRequest, float], Reply]
Parsed = Callable[[], AnyRequest]
T = TypeVar("T")
W = TypeVar("W", bound=ChangeResult)
InThread = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs what blocks in a thread that keeps no process from its end."""


class SignedTokens:
    """Identifies callers by the claims of their tokens."""

    def __init__(
        self,
        verifier: TokenVerifier,
        rules: JwtRules,
        in_thread: InThread,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        self._in_thread, self._clock_s = in_thread, clock_s
        self.use(verifier, rules)
        self._places = asyncio.Semaphore(TOKENS_AT_ONCE)
        self._waiting = 0

    def use(self, verifier: TokenVerifier, rules: JwtRules) -> None:
        """Identify by these from now on; from any thread."""
        known: OrderedDict[bytes, tuple[float, Caller]] = OrderedDict()
        self._parts = verifier, rules, known

    async def identify(self, token: str) -> Caller:
        """The caller; `RpcError` 401 for a token that does not hold, 403 for one without rights."""
        digest, now_s = sha256(token.encode("utf-8", "replace")).digest(), self._clock_s()
        verifier, rules, known = self._parts
        until_s, caller = known.get(digest, (0.0, None))
        if caller is not None and now_s < until_s and not caller.has_expired(now_s):
            return caller
        if self._waiting >= MAX_WAITING_TOKENS:
            raise RpcError(RpcCode.RESOURCE_EXHAUSTED, "too many tokens are being verified", retry_after_s=1)
        self._waiting += 1
        try:
            async with self._places:
                claims = await self._in_thread(partial(verifier.verify, token))
        finally:
            self._waiting -= 1
        caller = caller_of(claims, rules)
        known[digest] = (now_s + KNOWN_S, caller)
        known.move_to_end(digest)
        if len(known) > MAX_KNOWN:
            known.popitem(last=False)
        return caller


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePorts:
    """What the service acts through."""

    codec: MessageCodec
    writes: Writes
    translate: Translate
    audit: AuditLog
    clock: Clock
    report: Callable[[str], None]
    in_thread: InThread
    tokens: SignedTokens | None = None


class RegistryService:
    """Answers calls in one event loop, which also brings changes into the inventory.

    Replies to reads are kept in both forms until the inventory changes, so a repeated read costs a look-up.
    """

    def __init__(
        self, inventory: Inventory, ports: ServicePorts, access: Access, admission: Admission, *, max_age_s: float
    ) -> None:
        self.access = access
        self.at_stop: list[Callable[[], None]] = []
        self.at_new_callers: list[Callable[[], None]] = []
        self._inventory, self._ports, self._admission = inventory, ports, admission
        self._max_age_s = max_age_s
        self._kept: dict[tuple[Any, ...], bytes] = {}
        self._kept_generation, self._kept_bytes = -1, 0
        self._numbers = itertools.count(1)
        self._writing, self._reading = asyncio.Semaphore(WRITES_AT_ONCE), asyncio.Semaphore(SLOW_READS_AT_ONCE)
        self._waiting = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    async def grpc(self, call: RpcCall) -> RpcAnswer:
        """Answer a gRPC call."""
        rpc = RPC_BY_NAME[call.method]

        def parse() -> AnyRequest:
            return rpc.request(**self._ports.codec.decode(rpc.message, call.body))

        def encode(reply: Reply) -> bytes:
            return self._ports.codec.encode(rpc.reply, to_fields(reply))

        try:
            body = await self._answer(rpc, call, parse, encode, (rpc.name, call.body), call.deadline_s)
        except Exception as error:
            return refused_message(self.refusal(error))
        return RpcAnswer(body=body, headers=self.freshness())

    async def http(self, call: RpcCall) -> RpcAnswer:
        """Answer an HTTP request as grpc-gateway would."""
        try:
            if len(call.path) + len(call.query) > MAX_QUERY:
                raise invalid_request("the path and query are too long")
            rpc, in_path = route(call.method, tuple(unquote(part) for part in call.path.split("/")[1:]))
            key, deadline_s = (call.path, call.query), deadline_of(call)
            body = await self._answer(rpc, call, lambda: self._parse_http(rpc, in_path, call), to_json, key, deadline_s)
        except Exception as error:
            return refused_answer(self.refusal(error))
        return RpcAnswer(body=body, headers=self.freshness())

    def begin_stop(self) -> None:
        """End what would continue: it is called before the listeners stop."""
        for stop in self.at_stop:
            stop()

    def renew_callers(self) -> None:
        """End what lasts, so that its callers come again: who may call has changed."""
        for renew in self.at_new_callers:
            renew()

    async def drain(self, limit_s: float) -> None:
        """Wait so long for what is being carried out, and tell of the rest, which ends with the process."""
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=limit_s)
            if left:
                given_up = count_of(len(left), "request")
                self.report(f"stops while {given_up} still waited for the cluster; the audit log has no outcome")

    def refusal(self, error: Exception) -> RpcError:
        """What a call is answered that ended with an error; a defect is reported and not shown. For any thread."""
        if isinstance(error, RpcError):
            return error
        if isinstance(error, KafkakitError):
            return RpcError(code_of(error), error.message)
        self._ports.report(f"this is a bug in kafkakit: {type(error).__name__}: {error}")
        return RpcError(RpcCode.INTERNAL, "internal error")

    def _parse_http(self, rpc: CallRoute, in_path: Mapping[str, str], call: RpcCall) -> AnyRequest:
        if rpc.http_method == "POST":
            return rpc.request(**self._ports.codec.decode_json(rpc.message, call.body))
        return rpc.request(**read_fields(rpc, in_path, query_of(call.query)))

    async def _answer(
        self,
        rpc: CallRoute,
        call: RpcCall,
        parse: Parsed,
        encode: Callable[[Reply], bytes],
        key: tuple[Any, ...],
        given_deadline_s: float | None,
    ) -> bytes:
        caller, end_s = await self.admit(call, rpc.role, given_deadline_s)
        if rpc.is_read and rpc.name != TRANSLATE:
            return await self._read(rpc, parse, encode, key)
        request = parse()
        if isinstance(request, TranslateRequest):
            return encode(await self.read_in_thread(end_s, lambda: self._translate(request, end_s)))
        kind, names = names_in(request)
        caller.require(rpc.role, kind, names)
        prepared = self._ports.writes.prepare(rpc.name, request, caller.name)
        line = {"caller": caller.name, "remote": call.remote, "call": rpc.name, "params": given_fields(request)}
        return encode((await self.write(prepared, end_s, line)).reply)

    async def admit(self, call: RpcCall, role: CallRole, given_deadline_s: float | None) -> tuple[Caller, float]:
        """The caller, who may make the call now, and when it must end (monotonic seconds); `RpcError` otherwise."""
        caller = await self._identify(call)
        caller.require(role)
        now_s = time.monotonic()
        deadline_s = self._admission.deadline_s(given_deadline_s)
        wait_s = self._admission.take(caller.name, now_s, deadline_s, is_read=role is CallRole.READ)
        if wait_s > 0:
            await self._wait(wait_s)
        return caller, now_s + deadline_s

    async def _identify(self, call: RpcCall) -> Caller:
        authorization = call.headers.get("authorization", "")
        token = jwt_in(authorization) if self._ports.tokens is not None else None
        if self._ports.tokens is not None and token is not None:
            return await self._ports.tokens.identify(token)
        return self.access.identify(call.headers, call.remote)

    async def _read(
        self, rpc: CallRoute, parse: Parsed, encode: Callable[[Reply], bytes], key: tuple[Any, ...]
    ) -> bytes:
        inventory = self._inventory
        if not self.is_fresh:
            what = "brokers" if "Broker" in rpc.name else "topics"
            raise fault(f"error fetching {what}", detail=inventory.failure or "nothing was read yet")
        if self._kept_generation != inventory.generation:
            self._kept.clear()
            self._kept_bytes = 0
            self._kept_generation = inventory.generation
        kept = self._kept.get(key)
        if kept is not None:
            return kept
        generation, parts = inventory.generation, list[bytes]()
        for reply in answer_read(rpc.name, parse(), inventory):
            if parts:
                await asyncio.sleep(0)  # other calls are answered between the parts of a long one
            parts.append(encode(reply))
        # Messages that follow one another are one, by the rules of the encoding; JSON is not.
        made = join_json(parts) if encode is to_json else b"".join(parts)
        is_current = generation == inventory.generation == self._kept_generation
        if is_current and len(self._kept) < MAX_KEPT_REPLIES and self._kept_bytes + len(made) <= MAX_KEPT_BYTES:
            self._kept[key] = made
            self._kept_bytes += len(made)
        return made

    def report(self, line: str) -> None:
        """Tell the operator; for any thread."""
        self._ports.report(line)

    @property
    def is_fresh(self) -> bool:
        """Whether reads are answered: the last reading of the cluster is not too old."""
        return self._inventory.began_at is not None and self._age_s() <= self._max_age_s

    async def write(self, prepared: Callable[[float], W], end_s: float, given: Mapping[str, object]) -> W:
        """Carry a change out; one that began is carried out to its end even where the caller does not wait for it."""
        line = {"request": next(self._numbers), **given}

        def perform() -> W:
            with self._ports.audit.around(line, self._ports.report):
                return prepared(end_s)

        def note(written: W) -> W:
            now_s = time.monotonic()
            for name, facts in written.topics:
                self._inventory.note_topic(name, facts, now_s)
            for kind, name, tags in written.tags:
                self._inventory.note_tags(kind, name, tags, now_s)
            return written

        return note(await self._in_thread(self._writing, end_s, perform, note))

    async def read_in_thread(self, end_s: float, work: Callable[[], T]) -> T:
        """Run what waits for the cluster or the store, four at once; `RpcError` at the deadline."""
        found: T = await self._in_thread(self._reading, end_s, work)
        return found

    async def _in_thread(
        self, places: asyncio.Semaphore, end_s: float, work: Callable[[], Any], late: Callable[[Any], Any] | None = None
    ) -> Any:
        """Run in a thread until the deadline; what ends after it is given to `late`."""
        if self._waiting >= MAX_WAITING_CALLS:
            raise RpcError(RpcCode.RESOURCE_EXHAUSTED, "too many requests are waiting", retry_after_s=1)
        began = False

        async def run() -> Any:
            nonlocal began
            async with places:
                began = True
                return await self._ports.in_thread(work)

        task = asyncio.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._waiting += 1
        try:
            await asyncio.wait({task}, timeout=max(0.0, end_s - time.monotonic()))
        finally:
            self._waiting -= 1
            if not task.done():
                if not began:
                    task.cancel()
                else:
                    task.add_done_callback(lambda ended: self._hand_on(ended, late))
        if not task.done():
            raise fault("deadline exceeded", detail="the change may still be made" if began and late else "")
        return task.result()

    def _hand_on(self, ended: "asyncio.Task[Any]", late: Callable[[Any], Any] | None) -> None:
        """Take what came after its deadline: nobody waits for it, so that a defect would show nowhere else."""
        if ended.cancelled():
            return
        error = ended.exception()
        if isinstance(error, Exception):
            self.refusal(error)
        elif error is None and late is not None:
            late(ended.result())

    async def _wait(self, seconds: float) -> None:
        if self._waiting >= MAX_WAITING_CALLS:
            raise RpcError(RpcCode.RESOURCE_EXHAUSTED, "too many requests are waiting", retry_after_s=1)
        self._waiting += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self._waiting -= 1

    def _translate(self, request: TranslateRequest, end_s: float) -> Reply:
        return self._ports.translate(request, max(0.1, end_s - time.monotonic()))

    def _age_s(self) -> float:
        return max(0.0, self._ports.clock.monotonic() - self._inventory.began_s)

    def freshness(self) -> tuple[tuple[str, str], ...]:
        """Headers with the age of the last reading."""
        began_at = self._inventory.began_at
        if began_at is None:
            return ()
        return (("Age", str(int(self._age_s()))), ("Kafkakit-As-Of", began_at.strftime("%Y-%m-%dT%H:%M:%SZ")))


class TagsRefusedError(RpcError):
    """The refusal of a request with If-Match; `etag` is the present one, empty where there is none."""

    def __init__(self, code: RpcCode, message: str, etag: str) -> None:
        super().__init__(code, message)
        self.etag = etag


def refused_answer(error: RpcError) -> RpcAnswer:
    """A refusal over HTTP, as grpc-gateway writes it."""
    return RpcAnswer(
        body=error_json(error.code, error.message),
        code=error.code,
        status=HTTP_STATUS[error.code],
        headers=_headers_of(error),
    )


def refused_message(error: RpcError) -> RpcAnswer:
    """A refusal over gRPC."""
    return RpcAnswer(body=b"", code=error.code, message=error.message, headers=_headers_of(error))


def query_of(text: str) -> list[tuple[str, str]]:
    """The parameters of a query; `RpcError` for one that cannot be read or has too many."""
    try:
        query = parse_qsl(text, keep_blank_values=True, max_num_fields=2000, errors="strict")
    except ValueError:
        raise invalid_request("the query cannot be read") from None
    if len(query) > MAX_FIELDS:
        raise invalid_request(f"the query has {len(query)} parameters: at most {MAX_FIELDS}")
    return query


def deadline_of(call: RpcCall) -> float | None:
    """The seconds that a caller over HTTP gives; None without."""
    given = call.headers.get("grpc-timeout")
    return None if given is None else parse_timeout(given)


def _headers_of(error: RpcError) -> tuple[tuple[str, str], ...]:
    headers: list[tuple[str, str]] = []
    if error.retry_after_s is not None:
        headers.append(("Retry-After", str(max(1, round(error.retry_after_s + 0.5)))))
    if error.code is RpcCode.UNAUTHENTICATED:
        headers.append(("WWW-Authenticate", "Bearer"))
    if isinstance(error, TagsRefusedError) and error.etag:
        headers.append(("ETag", f'"{error.etag}"'))
    return tuple(headers)


KNOWN_S = 60.0
MAX_KNOWN, MAX_WAITING_TOKENS, TOKENS_AT_ONCE = 10_000, 200, 2


class CallerFile:
    """A file that says who may call, which is looked at again and again while the service runs.

    `read` gives its content, and `take` puts what it says into use; either may raise `KafkakitError`: then what was in
    use stays, and one line goes to `report`.
    """

    def __init__(
        self, name: str, read: Callable[[], bytes], take: Callable[[], None], report: Callable[[str], None]
    ) -> None:
        self._name, self._read, self._take, self._report = name, read, take, report
        self._faults = ToldOnce(report)
        self._last: bytes | None = None

    def check(self) -> bool:
        """Take it in where it changed since the last time; tells whether. The first time it always is."""
        try:
            content = self._read()
            self._faults.clear()
            if content == self._last:
                return False
            is_first, self._last = self._last is None, content
            self._take()
        except KafkakitError as error:
            self._faults.tell(f"{self._name} changed and cannot be used, the callers from before stay: {error.message}")
            return False
        if not is_first:
            self._report(f"{self._name} changed: its callers count from now on")
        return True


POLL_S = 1.0
START_LIMIT_S = 30.0
ALIVE_LIMIT_S = 5.0
GRACE_S = 5.0
MANY_TOPICS = 1000


class ChangeReader(Protocol):
    """What reads the cluster elsewhere and hands on what changed."""

    def start(self, receive: Callable[[InventoryChange], None], ended: Callable[[], None]) -> None:
        """Call `receive` with each change, from any thread, and `ended` where there will be none any more."""
        ...

    def stop(self) -> None:
        """End it."""
        ...


class RegistryServer:
    """Serves until it is stopped. `report` gets lines for the operator."""

    def __init__(
        self,
        service: RegistryService,
        inventory: Inventory,
        listeners: Sequence[tuple[str, RpcListener]],
        report: Callable[[str], None],
    ) -> None:
        self._service, self._inventory, self._listeners, self._report = service, inventory, listeners, report
        self._loop = asyncio.new_event_loop()
        self._thread: Thread | None = None
        self._stopping = Lock()
        self._failures, self._unreadable = ToldOnce(report), ToldOnce(report)
        self.reader_ended = Event()
        self.defect = ""
        """Why no more readings are taken in, although the reader sends them."""

    def start(self, reader: ChangeReader) -> None:
        """Listen, and take in what the reader sends; raises `UsageError` for an address that cannot be used."""
        self._thread = Thread(target=self._loop.run_forever, name="registry", daemon=True)
        self._thread.start()
        for name, listener in self._listeners:
            self._report(f"{name} up: {self._run(listener.start(), START_LIMIT_S)}")
        reader.start(lambda change: self._call(self._take, change), self.reader_ended.set)

    def stop(self) -> None:
        """Take no more calls, let those in progress end, and end the loop; harmless before the start and twice."""
        with self._stopping:
            thread, self._thread = self._thread, None
            if thread is not None:
                with suppress(LateError):  # the loop ends below, whatever is still in progress
                    self._run(self._stop(), 3 * GRACE_S)
                self._loop.call_soon_threadsafe(self._loop.stop)
                thread.join(GRACE_S)

    def renew_callers(self) -> None:
        """End what callers have open that may not call any more; from any thread."""
        self._loop.call_soon_threadsafe(self._service.renew_callers)

    @property
    def is_ready(self) -> bool:
        """Whether reads are answered."""
        return self._inventory.began_at is not None

    def require_listening(self) -> None:
        """Raise `OperationFailedError` if a listener has ended by itself."""
        for name, listener in self._listeners:
            if listener.failure:
                raise OperationFailedError(f"{name}: {listener.failure}")

    def is_alive(self) -> bool:
        """Whether the loop gets round to what it is given."""
        try:
            self._run(asyncio.sleep(0), ALIVE_LIMIT_S)
        except LateError:
            return False
        return True

    async def _stop(self) -> None:
        self._service.begin_stop()
        await asyncio.gather(*(listener.stop(GRACE_S) for _, listener in self._listeners), return_exceptions=True)
        await self._service.drain(GRACE_S)

    def _run(self, work: Coroutine[Any, Any, T], limit_s: float) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(limit_s)

    def _call(self, work: Callable[[InventoryChange], None], change: InventoryChange) -> None:
        self._loop.call_soon_threadsafe(work, change)

    def _take(self, change: InventoryChange) -> None:
        if self.defect:
            return
        try:
            self._inventory.apply(change)
        except Exception as error:  # half taken in, and what comes next is a difference to it: only a restart helps
            self.defect = f"a reading cannot be taken in ({type(error).__name__}: {error}); this is a bug in kafkakit"
            return
        if change.failure:
            self._failures.tell(f"cannot read the cluster, replies grow old: {change.failure}")
        else:
            self._failures.clear("reads the cluster again")
            if change.unreadable:
                self._unreadable.tell(f"records without readable tags are passed over: {few_of(change.unreadable)}")
            else:
                self._unreadable.clear()
        if len(change.topics) > MANY_TOPICS:
            # The cycle collector would walk all of them again and again, while calls wait.
            gc.collect()
            gc.freeze()


def run_server(
    server: RegistryServer, reader: ChangeReader, clock: Clock, notify: Callable[..., bool], files: Sequence[CallerFile]
) -> None:
    """Run until a stop is requested, looking at `files` each second.

    Raises `ServiceStoppedError` for SIGTERM and Ctrl-C, and `OperationFailedError` if the reader has ended, or sends
    what cannot be taken in.
    """
    with ExitStack() as ends, ended_by_stop(notify=notify):
        ends.callback(reader.stop)
        ends.callback(server.stop)
        server.start(reader)
        is_said = False
        for _ in repeat_every(clock, POLL_S):
            if server.reader_ended.is_set():
                raise OperationFailedError("the process that reads the cluster has ended")
            if server.defect:
                raise OperationFailedError(server.defect)
            server.require_listening()
            if server.is_ready and not is_said:
                is_said = notify("READY=1") or True
            if server.is_alive():
                notify("WATCHDOG=1")
            changed = [file.check() for file in files]
            if any(changed):
                server.renew_callers()
