"""Replication quotas of all brokers at once: what each may pass in the next second, from what it passed before.

A broker compares the average of its last samples with its setting, so a raise lets (new - old) x window through at
line speed, a cut stops it until the average has come down, and a start from nothing shows neither.
"""

from typing import TYPE_CHECKING

from kafkakit.simulator.cluster import QuotaModel

if TYPE_CHECKING:
    from kafkakit.simulator.state import Floats, Ints

UNLIMITED = float("inf")


class QuotaWindows:
    """Samples of one direction (into or out of brokers); arrays are by broker, bytes and seconds.

    `rate[b]` is the setting, infinite where none is set.
    """

    def __init__(self, brokers: int, model: QuotaModel) -> None:
        import numpy as np

        self.rate: Floats = np.full(brokers, UNLIMITED)
        self._model = model
        self._samples: Floats = np.zeros((max(2, model.window_num), brokers))
        self._began: Floats = np.zeros(brokers)
        self._next = 0

    @property
    def length_s(self) -> int:
        """Seconds that the average runs over."""
        return len(self._samples)

    def allowance(self, now_s: float, flows: "Ints") -> "Floats":
        """Bytes that each broker may pass in the second from `now_s`, with so many throttled flows each.

        Quantised in lumps: a broker looks at its quota, then fetches a piece of every partition. O(brokers).
        """
        import numpy as np

        # The sample that is about to be overwritten has left the window.
        held = self._samples.sum(axis=0) - self._samples[self._next]
        idle = held <= 0
        self._began = np.where(idle, now_s, self._began)
        window = np.minimum(self.length_s, now_s - self._began + 1)
        free = self.rate * self._model.efficiency * window - held
        lump = np.maximum(1.0, np.minimum(self._model.response_bytes, flows * float(self._model.lump_bytes)))
        with np.errstate(invalid="ignore"):
            pieces = np.rint(free / lump)
        pieces = np.where(idle & (free > 0), np.maximum(pieces, 1.0), pieces)
        return np.where(np.isfinite(self.rate), np.maximum(0.0, pieces * lump), UNLIMITED)

    def steady(self, flows: "Ints") -> "Floats":
        """Bytes per second that each broker passes in the long run. O(brokers)."""
        import numpy as np

        # A window that has run empty always lets one lump through.
        lump = np.minimum(self._model.response_bytes, flows * float(self._model.lump_bytes)) / self.length_s
        reached = self.rate * self._model.efficiency
        return np.where(self.rate > 0, np.maximum(reached, np.minimum(lump, self.rate)), 0.0)

    def record(self, passed: "Floats", seconds: int) -> None:
        """Count bytes that passed evenly in the last whole `seconds`. O(brokers x min(seconds, window))."""
        each = passed / seconds
        for _ in range(min(seconds, self.length_s)):
            self._samples[self._next] = each
            self._next = (self._next + 1) % self.length_s
