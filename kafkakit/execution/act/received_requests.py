"""What is requested of a run while it works: read from the control store, and answered there."""

from kafkakit.core.errors import ConflictError, KafkakitError, TryLaterError
from kafkakit.execution.act.control_requests import ControlRequests
from kafkakit.execution.decide.control_request import ControlRequest
from kafkakit.ports.reporter import Reporter


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
