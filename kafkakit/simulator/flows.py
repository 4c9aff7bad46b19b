"""Copies that flow between brokers under replication quotas, also beside client traffic.

Flows say which copies fetch what they miss, from whom, and whether a throttle holds them. A quota is worked out for
all brokers at once: what each may pass in the next second, from what it passed before. A broker compares the average
of its last samples with its setting, so a raise lets (new - old) x window through at line speed, a cut stops it until
the average has come down, and a start from nothing shows neither.

Client load changes by the second; laws of rates are played against it. Flows are fluid, from one broker to another;
brokers take both directions of clients from outside. Every second is worked out, with the quota windows of
`QuotaWindows`. Many clusters that share no broker may be played as one.
"""

from typing import TYPE_CHECKING, Self

from kafkakit.simulator.cluster import ABSENT, QuotaModel, State

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from kafkakit.simulator.cluster import Bools, Floats, Ints

    LoadFloats = NDArray[np.float64]
    LoadInts = NDArray[np.intp]
    LoadBools = NDArray[np.bool_]


ROUNDS = 6
_ENOUGH = 1e-6


def share(wanted: "Floats", source: "Ints", target: "Ints", out: "Floats", into: "Floats") -> "Floats":
    """What each flow gets: at most `wanted`, summed at most `out` by source and `into` by target broker.

    Progressive filling in a few rounds, so the last per cent of a capacity may stay unused; never more than there is.
    O(rounds x (flows + brokers)).
    """
    import numpy as np

    brokers = len(out)
    got = np.zeros(len(wanted))
    left_out, left_into = out.astype(float), into.astype(float)
    live = np.flatnonzero(wanted > 0)
    for _ in range(ROUNDS):
        if not len(live):
            break
        s, t = source[live], target[live]
        part_out = left_out / np.maximum(1, np.bincount(s, minlength=brokers))
        part_into = left_into / np.maximum(1, np.bincount(t, minlength=brokers))
        more = np.minimum(np.minimum(part_out[s], part_into[t]), wanted[live] - got[live])
        got[live] += more
        left_out = np.maximum(0.0, left_out - np.bincount(s, more, brokers))
        left_into = np.maximum(0.0, left_into - np.bincount(t, more, brokers))
        spare = np.minimum(left_out[s], left_into[t])
        live = live[(spare > _ENOUGH * (1 + got[live])) & (wanted[live] - got[live] > _ENOUGH)]
    return got


class Flows:
    """Arrays by flow: the copy's row and slot, source and target broker, log dir, and whether it is throttled.

    A flow is a copy that does not track its leader while both brokers live and the dir works. Exact throttle lists
    hold new copies only, `*` holds every copy that is out of sync. `held_into`, `held_out` count throttled flows by
    broker; `intake` is what each partition's log takes in per second, nothing without a leader. O(copies) to build.
    """

    def __init__(self, state: State, *, wildcard: bool) -> None:
        self._state = state
        behind = (state.broker != ABSENT) & ~state.tracking
        behind[state.leader == ABSENT] = False
        rows, slots = behind.nonzero()
        target = state.broker[rows, slots]
        disk = state.disk[rows, slots]
        works = state.alive[target] & ~state.disk_failed[disk]
        self.rows: Ints = rows[works]
        self.slots: Ints = slots[works]
        self.target: Ints = target[works]
        self.disk: Ints = disk[works]
        self.source: Ints = state.broker[self.rows, state.leader[self.rows]]
        self.throttled: Bools = state.adding[self.rows, self.slots] | wildcard
        self.intake: Floats = state.ingest * (state.leader != ABSENT)
        self._tell()

    def _tell(self) -> None:
        import numpy as np

        brokers = len(self._state.broker_ids)
        self.all_throttled = bool(self.throttled.all())
        self.held_into: Ints = np.bincount(self.target[self.throttled], minlength=brokers)
        self.held_out: Ints = np.bincount(self.source[self.throttled], minlength=brokers)

    def without(self, done: "Bools") -> Self:
        """Leave out the flows that are done; the old object must not be used any more."""
        kept = ~done
        for name in ("rows", "slots", "target", "disk", "source", "throttled"):
            setattr(self, name, getattr(self, name)[kept])
        self._tell()
        return self

    def distinct(self, rows: "Ints") -> "Ints":
        """Each row once."""
        import numpy as np

        return np.unique(rows)


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


_DONE = 0.5
_LEAST_LINE = 0.05  # of a line is always left for copying, however much clients take


class LoadedCopies:
    """Flows by number, brokers by number; rows of pairs are (out, into), bytes and bytes/s.

    `rates` is what the throttles are set to. After `second`, `moved` holds what copies took, and `demand` what the
    quotas let through, lines aside: where clients and `demand` are above the line, clients wait.
    """

    def __init__(
        self,
        source: "LoadInts",
        target: "LoadInts",
        left: "LoadFloats",
        ingest: "LoadFloats",
        brokers: int,
        quota: QuotaModel,
    ) -> None:
        import numpy as np

        self.now_s = 0
        self.source, self.target, self.left, self.ingest = source, target, left.astype(float), ingest
        self.partitions: LoadInts = np.ones(len(source), dtype=np.intp)
        self.moved: LoadFloats = np.zeros((2, brokers))
        self.demand: LoadFloats = np.zeros((2, brokers))
        self._quotas = QuotaWindows(brokers, quota), QuotaWindows(brokers, quota)

    @property
    def rates(self) -> "tuple[LoadFloats, LoadFloats]":
        """The settings (out, into), to be written in place; infinite for none."""
        return self._quotas[0].rate, self._quotas[1].rate

    def second(self, clients: "LoadFloats", line: "LoadFloats", alive: "LoadBools") -> None:
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
