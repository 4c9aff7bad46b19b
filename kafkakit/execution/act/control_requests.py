"""Messages of a running executor: requests that it gets, its answers, and events that it sends.

Requests are read from the control store while the run works, and answered there. Events are sent from one thread, so
that nothing waits for the service that takes them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import Empty, Full, Queue
from threading import Event as Signal
from threading import Thread

from kafkakit.core.errors import ConflictError, KafkakitError, TryLaterError
from kafkakit.core.rpc import Event
from kafkakit.execution.decide.runs import (
    ANSWER_DOCUMENT,
    Answer,
    ControlRequest,
    change_request,
    decode_control_request,
    encode_control_request,
)
from kafkakit.execution.decide.schedule.work import BrokerRates
from kafkakit.ports.acting import Clock, Reporter, repeat_every
from kafkakit.ports.stores import ControlStore

_POLL_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedRequest:
    """A request and the version by which an answer names it."""

    request: ControlRequest
    version: int


class ControlRequests:
    """The requests for the run that changes one cluster, and its answers."""

    def __init__(self, store: ControlStore, clock: Clock, cluster_id: str) -> None:
        self._store, self._clock = store, clock
        self._request_path = f"clusters/{cluster_id}/wish"
        self._answer_path = f"clusters/{cluster_id}/wish-answer"

    def request(
        self,
        token: int,
        by: str,
        *,
        paused: bool | None = None,
        abort: bool | None = None,
        rates: BrokerRates | None = None,
    ) -> int:
        """Change the request for the run with that fencing token; None leaves a part as it is.

        Returns the version to wait for. A request of another process at the same time is kept, part by part.
        """
        while True:
            found = self._store.get(self._request_path)
            present = None if found is None else decode_control_request(found.value, self._source(self._request_path))
            request = change_request(present, token, by, self._clock.now(), paused=paused, abort=abort, rates=rates)
            try:
                return self._store.cas(
                    self._request_path, encode_control_request(request), None if found is None else found.version
                )
            except ConflictError:
                continue

    def read(self, token: int) -> VersionedRequest | None:
        """For the executor: what is requested of it now; None when nothing is. One read."""
        found = self._store.get(self._request_path)
        if found is None:
            return None
        request = decode_control_request(found.value, self._source(self._request_path))
        return VersionedRequest(request=request, version=found.version) if request.token == token else None

    def answer(self, token: int, version: int, refused: str = "") -> None:
        """For the executor: the request of that version is taken up, or refused for a reason.

        To be called once the request is in effect, not when it is read: the command that waits relies on that.
        """
        answer = Answer(token=token, version=version, at=self._clock.now(), refused=refused[:500])
        while True:
            found = self._store.get(self._answer_path)
            if found is not None:
                earlier = ANSWER_DOCUMENT.decode(found.value, self._source(self._answer_path))
                # An executor that lost its lease must not speak for the one that has it.
                if (earlier.token, earlier.version) >= (token, version):
                    return
            try:
                self._store.cas(
                    self._answer_path, ANSWER_DOCUMENT.encode(answer), None if found is None else found.version
                )
            except ConflictError:
                continue
            return

    def wait_for_answer(self, token: int, version: int, timeout_s: float) -> Answer | None:
        """The run's answer to the request of that version or a later one; None when none came in time."""
        for _ in repeat_every(self._clock, _POLL_S, timeout_s):
            found = self._store.get(self._answer_path)
            if found is not None:
                answer = ANSWER_DOCUMENT.decode(found.value, self._source(self._answer_path))
                if answer.token == token and answer.version >= version:
                    return answer
        return None

    def _source(self, path: str) -> str:
        return f"control document {path}"


class AbortRequestedError(Exception):
    """Another process asks a run to end, and to take back what it did; says by whom."""


class ReceivedRequests:
    """The requests for one run; `requests` None: a run that cannot receive any."""

    def __init__(self, requests: ControlRequests | None, token: int | None, reporter: Reporter) -> None:
        self._requests, self._token, self._reporter = requests, token, reporter
        self._request: ControlRequest | None = None
        self._version = self._answered = -1
        self._silent = False

    @property
    def token(self) -> int | None:
        """The run's fencing token."""
        return self._token

    def read(self) -> ControlRequest | None:
        """What is requested now; as before while the store does not answer or its document is damaged.

        The lease watches over the store.
        """
        if self._requests is None or self._token is None:
            return None
        try:
            requested = self._requests.read(self._token)
        except KafkakitError as error:
            if not self._silent:
                self._reporter.warn(f"control requests cannot be read: {error.message}; the run continues as before")
            self._silent = True
            return self._request
        self._silent = False
        if requested is not None:
            self._request, self._version = requested.request, requested.version
        return self._request

    def read_or_abort(self) -> ControlRequest | None:
        """As `read`; raises `AbortRequestedError` where an abort is requested, and answers that it is in effect."""
        request = self.read()
        if request is not None and request.abort:
            self.answer()
            raise AbortRequestedError(request.by)
        return request

    def answer(self, refused: str = "") -> None:
        """Answer that the request read last is in effect, or why it will not be followed; once for each."""
        if self._requests is None or self._token is None or self._answered == self._version:
            return
        try:
            self._requests.answer(self._token, self._version, refused)
        except (TryLaterError, ConflictError):
            return  # answered again at the next tick
        except KafkakitError as error:
            self._reporter.warn(f"a control request could not be answered: {error.message}")
        self._answered = self._version


MAX_WAITING = 100
END_S = 5.0
_EVENT_POLL_S = 0.2


class EventQueue:
    """Sends events in their order; those that do not fit are dropped, and every failure is a warning.

    Each event gets `tags` and those that it is queued with. `send` gets title, text and tags, and is called from one
    thread alone.
    """

    def __init__(
        self, send: Callable[[str, str, Sequence[str]], object], tags: Sequence[str], warn: Callable[[str], None]
    ) -> None:
        self._send, self._tags, self._warn = send, tags, warn
        self._waiting: Queue[tuple[Event, Sequence[str]]] = Queue(MAX_WAITING)
        self._ends, self._is_late = Signal(), False
        self._thread = Thread(target=self._work, name="events", daemon=True)
        self._thread.start()

    def put(self, events: Sequence[Event], tags: Sequence[str] = ()) -> None:
        """Queue events; returns at once."""
        try:
            for event in events:
                self._waiting.put_nowait((event, tags))
        except Full:
            self._warn(f"events are dropped: {MAX_WAITING} wait to be sent")

    def close(self) -> None:
        """Send what waits, for `END_S` at most; closing twice is harmless. What is left then is not sent."""
        self._ends.set()
        self._thread.join(END_S)
        if self._thread.is_alive() and not self._is_late:
            self._is_late = True
            self._warn(f"events are dropped: they could not be sent within {END_S:g} s")

    def _work(self) -> None:
        while not self._is_late:
            try:
                event, tags = self._waiting.get(timeout=_EVENT_POLL_S)
            except Empty:
                if self._ends.is_set():
                    return
                continue
            try:
                self._send(event.title, event.text, (*self._tags, *tags))
            except KafkakitError as error:
                self._warn(f"an event could not be sent: {error.message}")
            except Exception as error:  # a thread that ended would drop all later events, with the wrong reason
                self._warn(f"an event could not be sent: {type(error).__name__}: {error}")
