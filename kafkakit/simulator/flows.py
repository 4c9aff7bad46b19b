"""Which copies fetch what they miss, from whom, and whether a throttle holds them."""

from typing import TYPE_CHECKING, Self

from kafkakit.simulator.state import ABSENT, State

if TYPE_CHECKING:
    from kafkakit.simulator.state import Bools, Floats, Ints

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
