"""Which copies fetch what they miss, from whom, and whether a throttle holds them."""

from typing import TYPE_CHECKING, Self

from kafkakit.simulator.state import ABSENT, State

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.intp]
    Bools = NDArray[np.bool_]


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
        """The same flows without some; the old object must not be used any more."""
        kept = ~done
        for name in ("rows", "slots", "target", "disk", "source", "throttled"):
            setattr(self, name, getattr(self, name)[kept])
        self._tell()
        return self

    def distinct(self, rows: "Ints") -> "Ints":
        """Each row once."""
        import numpy as np

        return np.unique(rows)
