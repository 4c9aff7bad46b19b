"""Copies under quotas beside client traffic that changes by the second: what a law of rates is played against.

Flows are fluid, from one broker to another; brokers take both directions of clients from outside. Every second is
worked out, with the quota windows of `QuotaWindows`. Many clusters that share no broker may be played as one.
"""

from typing import TYPE_CHECKING

from kafkakit.simulator.cluster import QuotaModel
from kafkakit.simulator.flows import share
from kafkakit.simulator.quota import QuotaWindows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]
    Bools = NDArray[np.bool_]

_DONE = 0.5
_LEAST_LINE = 0.05  # of a line is always left for copying, however much clients take


class LoadedCopies:
    """Flows by number, brokers by number; rows of pairs are (out, into), bytes and bytes/s.

    `rates` is what the throttles are set to. After `second`, `moved` holds what copies took, and `demand` what the
    quotas let through, lines aside: where clients and `demand` are above the line, clients wait.
    """

    def __init__(
        self, source: "Ints", target: "Ints", left: "Floats", ingest: "Floats", brokers: int, quota: QuotaModel
    ) -> None:
        import numpy as np

        self.now_s = 0
        self.source, self.target, self.left, self.ingest = source, target, left.astype(float), ingest
        self.partitions: Ints = np.ones(len(source), dtype=np.intp)
        self.moved: Floats = np.zeros((2, brokers))
        self.demand: Floats = np.zeros((2, brokers))
        self._quotas = QuotaWindows(brokers, quota), QuotaWindows(brokers, quota)

    @property
    def rates(self) -> "tuple[Floats, Floats]":
        """The settings (out, into), to be written in place; infinite for none."""
        return self._quotas[0].rate, self._quotas[1].rate

    def second(self, clients: "Floats", line: "Floats", alive: "Bools") -> None:
        """Let one second pass; flows that have caught up end. O(rounds x (flows + brokers))."""
        import numpy as np

        running = (self.left > _DONE) & alive[self.source] & alive[self.target]
        flows = np.flatnonzero(running)
        source, target = self.source[flows], self.target[flows]
        brokers = line.shape[1]
        wanted = np.minimum(self.left[flows] + self.ingest[flows], np.minimum(line[0][source], line[1][target]))
        counts = [np.bincount(ends, self.partitions[flows], brokers).astype(np.intp) for ends in (source, target)]
        quota = [q.allowance(self.now_s, c) for q, c in zip(self._quotas, counts, strict=True)]
        got = share(wanted, source, target, quota[0], quota[1])
        self.demand = np.vstack([np.bincount(source, got, brokers), np.bincount(target, got, brokers)])
        free = np.maximum(line - clients, _LEAST_LINE * line)
        if (self.demand > free).any():
            got = share(wanted, source, target, np.minimum(quota[0], free[0]), np.minimum(quota[1], free[1]))
            self.moved = np.vstack([np.bincount(source, got, brokers), np.bincount(target, got, brokers)])
        else:
            self.moved = self.demand.copy()
        self.left = np.where(self.left > _DONE, self.left + self.ingest, 0.0)
        self.left[flows] -= got
        for quotas, passed in zip(self._quotas, self.moved, strict=True):
            quotas.record(passed, 1)
        self.now_s += 1
