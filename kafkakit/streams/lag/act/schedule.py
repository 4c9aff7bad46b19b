"""When each of several things is due again."""

from kafkakit.ports.clock import Clock


class Schedule:
    """The next time of each thing by its name, on the monotonic clock; what was never named is due. For one thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due_s: dict[str, float] = {}

    def is_due(self, what: str, every_s: float) -> bool:
        """True when the time has come; then it is due again `every_s` from now."""
        now_s = self._clock.monotonic()
        if now_s < self._due_s.get(what, now_s):
            return False
        self._due_s[what] = now_s + every_s
        return True

    def set_due(self, what: str, in_s: float) -> None:
        """Make it due so long from now, whatever was planned."""
        self._due_s[what] = self._clock.monotonic() + in_s

    def bring_forward(self, what: str, in_s: float) -> None:
        """Make it due so long from now at the latest."""
        self._due_s[what] = min(self._due_s.get(what, float("inf")), self._clock.monotonic() + in_s)
