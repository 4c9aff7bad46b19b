"""When each of several things is due again, and whether the wall clock was set meanwhile."""

from kafkakit.ports.clock import Clock

CLOCK_STEP_S = 1.0


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


class WallClockSteps:
    """Notices that the wall clock was set, by its distance from the monotonic one. For one thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._distance_s = self._measured()
        self.count = 0

    def was_set(self) -> bool:
        """True when the wall clock moved by more than `CLOCK_STEP_S` against the monotonic one since the last call."""
        before_s, self._distance_s = self._distance_s, self._measured()
        is_step = abs(self._distance_s - before_s) > CLOCK_STEP_S
        self.count += is_step
        return is_step

    def _measured(self) -> float:
        return self._clock.monotonic() - self._clock.now().timestamp()
