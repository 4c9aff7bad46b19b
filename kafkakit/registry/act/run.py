"""The registry as a running service: listeners in an event loop of their own, the reader's changes, an orderly end."""

import asyncio
import gc
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import TimeoutError as LateError
from contextlib import suppress
from threading import Event, Lock, Thread
from typing import Any, Protocol, TypeVar

from kafkakit.core.errors import OperationFailedError, TerminatedRunError, TerminationRequested
from kafkakit.core.lists_in_words import some
from kafkakit.ports.clock import Clock
from kafkakit.ports.rpc import RpcListener
from kafkakit.registry.act.service import RegistryService
from kafkakit.registry.act.tokens import CallerFile
from kafkakit.registry.decide.facts import Change
from kafkakit.registry.decide.inventory import Inventory

POLL_S = 1.0
START_LIMIT_S = 30.0
ALIVE_LIMIT_S = 5.0
GRACE_S = 5.0
MANY_TOPICS = 1000
T = TypeVar("T")


class Reader(Protocol):
    """What reads the cluster elsewhere and hands on what changed."""

    def start(self, receive: Callable[[Change], None], ended: Callable[[], None]) -> None:
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
        self._failure, self._unreadable = "", tuple[str, ...]()
        self.reader_ended = Event()

    def start(self, reader: Reader) -> None:
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

    def _call(self, work: Callable[[Change], None], change: Change) -> None:
        self._loop.call_soon_threadsafe(work, change)

    def _take(self, change: Change) -> None:
        self._inventory.apply(change)
        if change.failure and change.failure != self._failure:
            self._report(f"cannot read the cluster, replies grow old: {change.failure}")
        elif self._failure and not change.failure:
            self._report("reads the cluster again")
        self._failure = change.failure
        if change.unreadable != self._unreadable and not change.failure:
            if change.unreadable:
                self._report(f"records without readable tags are passed over: {some(change.unreadable)}")
            self._unreadable = change.unreadable
        if len(change.topics) > MANY_TOPICS:
            # The cycle collector would walk all of them again and again, while calls wait.
            gc.collect()
            gc.freeze()


def run_server(
    server: RegistryServer, reader: Reader, clock: Clock, notify: Callable[..., bool], files: Sequence[CallerFile]
) -> None:
    """Run until a stop is requested, looking at `files` each second.

    Raises `TerminatedRunError` for SIGTERM, and `OperationFailedError` where the reader has ended.
    """
    try:
        server.start(reader)
        is_said = False
        while True:
            if server.reader_ended.is_set():
                raise OperationFailedError("the process that reads the cluster has ended")
            if server.is_ready and not is_said:
                is_said = notify("READY=1") or True
            if server.is_alive():
                notify("WATCHDOG=1")
            changed = [file.check() for file in files]
            if any(changed):
                server.renew_callers()
            clock.sleep(POLL_S)
    except TerminationRequested:
        notify("STOPPING=1")
        raise TerminatedRunError("stopped on request") from None
    finally:
        server.stop()
        reader.stop()
