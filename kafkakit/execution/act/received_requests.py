"""What people ask of a run while it works: read from the control store, and answered there."""

from kafkakit.core.errors import ConflictError, KafkakitError, TryLaterError
from kafkakit.execution.act.control_requests import Wishes
from kafkakit.execution.decide.control_request import Wish
from kafkakit.ports.reporter import Reporter


class Orders:
    """The wishes for one run; `wishes` None: a run that nobody can talk to."""

    def __init__(self, wishes: Wishes | None, token: int | None, voice: Reporter) -> None:
        self._wishes, self._token, self._voice = wishes, token, voice
        self._wish: Wish | None = None
        self._version = self._answered = -1
        self._silent = False

    @property
    def token(self) -> int | None:
        """The run's fencing token."""
        return self._token

    def read(self) -> Wish | None:
        """What is wished now; as before while the store does not answer or its document is damaged.

        The lease watches over the store.
        """
        if self._wishes is None or self._token is None:
            return None
        try:
            asked = self._wishes.read(self._token)
        except KafkakitError as error:
            if not self._silent:
                self._voice.warn(f"wishes cannot be read: {error.message}; going on as before")
            self._silent = True
            return self._wish
        self._silent = False
        if asked is not None:
            self._wish, self._version = asked.wish, asked.version
        return self._wish

    def answer(self, refused: str = "") -> None:
        """Say that the wish read last works now, or why it will not be followed; once for each."""
        if self._wishes is None or self._token is None or self._answered == self._version:
            return
        try:
            self._wishes.answer(self._token, self._version, refused)
        except (TryLaterError, ConflictError):
            return  # answered again at the next tick
        except KafkakitError as error:
            self._voice.warn(f"a wish could not be answered: {error.message}")
        self._answered = self._version
