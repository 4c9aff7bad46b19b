"""Failovers that the Assigner starts by its policy; each is noted in the control store before it begins."""

import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from kafkakit.core.durations import epoch_ms
from kafkakit.core.errors import KafkakitError
from kafkakit.ports.clock import Clock
from kafkakit.ports.control import ControlStore
from kafkakit.streams.assigner.decide.policy import (
    HISTORY_DOCUMENT,
    HISTORY_PATH,
    AutomaticHistory,
    AutomaticMode,
    AutomaticStart,
    Verdict,
)

AGAIN_S = 30.0
MOST_AT_ONCE = 4


class EmergencyFailover(Protocol):
    """Moves a stream away from a cluster that is not reached, as `streams failover run --emergency` does."""

    def emergency(self, stream: str, target: str) -> str:
        """Begin it, or continue it where it was begun; how it ended, in words. `KafkakitError` where it cannot be."""
        ...


class AutomaticFailovers:
    """Carries out verdicts, a few at once in threads; `require_held` is asked before each is noted and begun."""

    def __init__(
        self,
        store: ControlStore,
        clock: Clock,
        mode: AutomaticMode,
        failover: EmergencyFailover,
        require_held: Callable[[], None],
        say: Callable[[str], None],
    ) -> None:
        self._store, self._clock, self._mode, self._failover = store, clock, mode, failover
        self._require_held, self._say = require_held, say
        self._lock = threading.Lock()
        self._running: set[str] = set()
        self._tried_s: dict[str, float] = {}
        self._said: dict[str, str] = {}

    def history(self) -> AutomaticHistory:
        """Those of the last day, of all Assigners; one read."""
        found = self._store.get(HISTORY_PATH)
        return AutomaticHistory() if found is None else HISTORY_DOCUMENT.stored(found.value, HISTORY_PATH)

    def carry_out(self, verdicts: Iterable[Verdict]) -> tuple[str, ...]:
        """Start what is to be started; a line about each verdict."""
        lines = []
        for verdict in verdicts:
            move = f"stream {verdict.stream} from {verdict.source} to {verdict.target}"
            line = f"not moved: {move}: {verdict.why_not}" if verdict.why_not else f"moved: {move}"
            if not verdict.why_not and self._mode is AutomaticMode.DRY_RUN:
                line = f"would be moved (dry run): {move}"
            elif not verdict.why_not and self._may_begin(verdict.stream):
                self._begin(verdict)
            lines.append(line)
            kind = line.partition(":")[0]
            if self._said.get(verdict.stream) != kind:
                self._said[verdict.stream] = kind
                self._say(line)
        return tuple(lines)

    def _may_begin(self, stream: str) -> bool:
        with self._lock:
            waited_s = self._clock.monotonic() - self._tried_s.get(stream, float("-inf"))
            return stream not in self._running and len(self._running) < MOST_AT_ONCE and waited_s >= AGAIN_S

    def _begin(self, verdict: Verdict) -> None:
        self._require_held()
        if not verdict.continues:
            self._note(verdict)
        self._require_held()
        with self._lock:
            self._running.add(verdict.stream)
            self._tried_s[verdict.stream] = self._clock.monotonic()
        threading.Thread(
            target=self._run, args=(verdict,), name=f"kafkakit-failover-{verdict.stream}", daemon=True
        ).start()

    def _note(self, verdict: Verdict) -> None:
        """Count it before it begins, so that no crash makes the budget larger; `ConflictError`: another process did."""
        found = self._store.get(HISTORY_PATH)
        history = self.history() if found is not None else AutomaticHistory()
        start = AutomaticStart(
            stream=verdict.stream, source=verdict.source, target=verdict.target, at_ms=epoch_ms(self._clock.now())
        )
        self._store.cas(
            HISTORY_PATH, HISTORY_DOCUMENT.encode(history.with_start(start)), found.version if found else None
        )

    def _run(self, verdict: Verdict) -> None:
        try:
            end = self._failover.emergency(verdict.stream, verdict.target)
        except Exception as error:  # a thread's error must be seen
            end = str(error) if isinstance(error, KafkakitError) else f"{type(error).__name__}: {error}"
        self._say(f"stream {verdict.stream} to {verdict.target}: {end}")
        with self._lock:
            self._running.discard(verdict.stream)
