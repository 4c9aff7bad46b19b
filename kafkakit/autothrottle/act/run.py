"""The pacer as a service: one of several instances leads, the others wait for it to end."""

from collections.abc import Callable
from contextlib import suppress
from threading import Event

from kafkakit.autothrottle.act.overrides import OverrideStore
from kafkakit.autothrottle.act.pacer import Pacer
from kafkakit.autothrottle.decide.overrides import Overrides
from kafkakit.autothrottle.decide.tick import Tick
from kafkakit.core.errors import KafkakitError, LeaseLostError, TerminatedRunError, TerminationRequested
from kafkakit.execution.act.leases import Lease
from kafkakit.ports.clock import Clock

LEAD_TTL_S = 10.0
"""A leader that is silent for so long is replaced."""
POLL_S = 1.0
LOOK_EVERY_S = 5.0
"""How often overrides and the list of moves are read between ticks."""
RETRY_S = 15.0


def lead_path(cluster_id: str) -> str:
    """Where the lead over the pacers of a cluster is kept."""
    return f"clusters/{cluster_id}/autothrottle/lease"


class PacerService:
    """Ticks every `interval_s` while this instance leads, and soon after overrides or moves changed.

    `report` gets lines of what else happens, `told` every tick.
    """

    def __init__(
        self,
        pacer: Pacer,
        lead: Lease,
        overrides: OverrideStore,
        clock: Clock,
        *,
        interval_s: float,
        report: Callable[[str], None],
        told: Callable[[Tick], None],
    ) -> None:
        self._pacer, self._lead, self._overrides, self._clock = pacer, lead, overrides, clock
        self._interval_s, self._report, self._told = interval_s, report, told
        self._due_s = self._look_s = 0.0
        self._known: Overrides | None = None
        self._is_waiting = False
        self._woken = Event()
        self.last: Tick | None = None
        self.failure = ""

    @property
    def is_leader(self) -> bool:
        """Whether this instance certainly leads; for any thread."""
        return self._lead.is_held()

    def wake(self) -> None:
        """Tick at the next step; for any thread."""
        self._woken.set()

    def say(self, line: str) -> None:
        """Report a line."""
        self._report(line)

    def step(self) -> None:
        """What is due now; to be called about every second by one thread."""
        if not self._leads():
            return
        now_s = self._clock.monotonic()
        if now_s < self._due_s and not self._woken.is_set() and not self._has_changed(now_s):
            return
        self._woken.clear()
        try:
            tick = self._pacer.tick()
            self._known = tick.overrides
        except LeaseLostError as lost:
            self._report(f"stops: {lost.message}")
            self._due_s = 0.0
        except KafkakitError as error:
            self.failure = error.message
            self._report(f"this tick failed, throttles stay as they are: {error.message}")
            self._due_s = now_s + min(RETRY_S, self._interval_s)
        else:
            self.last, self.failure = tick, ""
            self._due_s = now_s + self._interval_s
            self._told(tick)

    def _leads(self) -> bool:
        try:
            if self._lead.is_held():
                self._lead.require_held()
                return True
            is_ours = self._lead.attempt(LEAD_TTL_S)
        except KafkakitError as error:
            self._tell_waiting(f"does not lead: {error.message}")
            return False
        if is_ours:
            self._is_waiting, self._due_s = False, 0.0
            self._report("leads from now on")
        else:
            self._tell_waiting("waits: another instance leads")
        return is_ours

    def _tell_waiting(self, line: str) -> None:
        if not self._is_waiting:
            self._report(line)
        self._is_waiting = True

    def _has_changed(self, now_s: float) -> bool:
        if self._known is None or now_s < self._look_s:
            return False
        self._look_s = now_s + LOOK_EVERY_S
        with suppress(KafkakitError):
            return self._overrides.read() != self._known or self._pacer.has_other_moves()
        return False


def run_service(
    service: PacerService, pacer: Pacer, lead: Lease, clock: Clock, notify: Callable[..., bool], *, remove_on_exit: bool
) -> None:
    """Run until a stop is requested; raises `TerminatedRunError` for SIGTERM.

    Rates stay set at the end while moves run under them: they slow copies down and stop nothing, and the next instance
    takes them over from the journal. `remove_on_exit` takes them away.
    """
    notify("READY=1")
    try:
        while True:
            service.step()
            notify("WATCHDOG=1")
            clock.sleep(POLL_S)
    except TerminationRequested:
        notify("STOPPING=1")
        if not (remove_on_exit and service.is_leader):
            raise TerminatedRunError("stopped on request; throttles of moves that run stay set") from None
        for line in (owed := pacer.remove_all()):
            service.say(line)
        left = "all but the above" if owed else "all"
        raise TerminatedRunError(f"stopped on request; {left} throttles of the pacer are removed") from None
    finally:
        lead.release()
