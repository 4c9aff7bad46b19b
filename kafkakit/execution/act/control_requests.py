"""Requests to a running executor, and its answers."""

from dataclasses import dataclass

from kafkakit.core.errors import ConflictError
from kafkakit.execution.decide.control_request import (
    ANSWER_DOCUMENT,
    Answer,
    ControlRequest,
    changed,
    decode_control_request,
    encode_control_request,
)
from kafkakit.execution.decide.schedule.work import Rates
from kafkakit.ports.clock import Clock
from kafkakit.ports.control import ControlStore

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
        rates: Rates | None = None,
    ) -> int:
        """Change the request for the run with that fencing token; None leaves a part as it is.

        Returns the version to wait for. A request of another process at the same time is kept, part by part.
        """
        while True:
            found = self._store.get(self._request_path)
            present = None if found is None else decode_control_request(found.value, self._source(self._request_path))
            request = changed(present, token, by, self._clock.now(), paused=paused, abort=abort, rates=rates)
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
        end = self._clock.monotonic() + timeout_s
        while True:
            found = self._store.get(self._answer_path)
            if found is not None:
                answer = ANSWER_DOCUMENT.decode(found.value, self._source(self._answer_path))
                if answer.token == token and answer.version >= version:
                    return answer
            left = end - self._clock.monotonic()
            if left <= 0:
                return None
            self._clock.sleep(min(_POLL_S, left))

    def _source(self, path: str) -> str:
        return f"control document {path}"
