"""Free space in log dirs: what is promised to copies on their way, and what comes back when old copies are deleted.

Every copy is booked with what it will have grown to at the end of the run (`horizon_s`). So a dir that is within
its limit in this book is within it at every moment until then.
"""

from collections.abc import Sequence

from kafkakit.execution.decide.schedule.work import Disk, Limits, Place


class FreeSpace:
    """Free space by slot: the dirs first, then `anywhere` (never limited), then one for each broker's best open dir.

    `free` is an array of bytes, infinite where nothing is known; a closed dir has none (minus infinity).
    """

    def __init__(self, disks: Sequence[Disk], brokers: Sequence[int], limits: Limits, horizon_s: float) -> None:
        import numpy as np

        self._horizon_s = horizon_s
        self._brokers = tuple(brokers)
        self.disks = sorted(disks, key=lambda d: d.place)
        self._slot = {d.place: n for n, d in enumerate(self.disks)}
        self.anywhere = len(self.disks)
        self._best = {b: self.anywhere + 1 + n for n, b in enumerate(brokers)}
        self._of_broker: dict[int, list[int]] = {b: [] for b in brokers}
        for n, disk in enumerate(self.disks):
            self._of_broker[disk.place.broker].append(n)
        self._growth = [d.growth_bytes_per_s for d in self.disks]
        self.limit = [_limit(d, limits) for d in self.disks]
        free_bytes = [self._free_at_start(n, d) for n, d in enumerate(self.disks)]
        self.free: np.ndarray = np.array([*free_bytes, float("inf"), *[0.0] * len(brokers)])
        for broker in brokers:
            self._refresh(broker)

    def weight(self, size: float, ingest: float) -> float:
        """What a copy takes at the end of the run, in bytes."""
        return size + ingest * self._horizon_s

    def slot_for(self, broker: int, log_dir: str | None) -> int:
        """Where a new copy goes: the named dir, the only one, or the slot that stands for the best one."""
        if log_dir:
            return self._slot.get(Place(broker, log_dir), self.anywhere)
        own = self._of_broker.get(broker, ())
        if not own:
            return self.anywhere
        return own[0] if len(own) == 1 else self._best[broker]

    def slot_of_copy(self, broker: int, log_dir: str | None) -> int | None:
        """Where a copy lies that is there now; None when that is not known."""
        slot = self.slot_for(broker, log_dir)
        return slot if slot < self.anywhere else None

    def settle(self, slot: int) -> int:
        """The dir behind a slot: for a broker's best one the open dir with most free space (the first of equals)."""
        if slot <= self.anywhere:
            return slot
        own = self._of_broker[self._brokers[slot - self.anywhere - 1]]
        return max(own, key=lambda n: (self.free[n], -n))

    def choices(self, slot: int) -> list[int]:
        """The dirs that a slot may come to stand for: for a broker's best one all of its open dirs."""
        if slot <= self.anywhere:
            return [slot]
        own = self._of_broker[self._brokers[slot - self.anywhere - 1]]
        return [n for n in own if self.free[n] > -float("inf")]

    def place(self, slot: int, broker: int, log_dir: str | None) -> Place:
        """The log dir of a slot, named as far as it is known."""
        return self.disks[slot].place if slot < self.anywhere else Place(broker, log_dir or "")

    def others(self, slot: int) -> list[int]:
        """The broker's other dirs."""
        return [n for n in self._of_broker[self.disks[slot].place.broker] if n != slot]

    def take(self, slot: int, size: float, ingest: float) -> None:
        """Promise space to a new copy."""
        if slot < self.anywhere:
            self.free[slot] -= self.weight(size, ingest)
            self._growth[slot] += ingest
            self._refresh(self.disks[slot].place.broker)

    def give(self, slot: int, size: float, ingest: float) -> None:
        """An old copy is deleted: its bytes come back, and what it would have grown by."""
        if slot < self.anywhere:
            ingest = min(ingest, self._growth[slot])
            self._growth[slot] -= ingest
            self.free[slot] += self.weight(size, ingest)
            self._refresh(self.disks[slot].place.broker)

    def _free_at_start(self, slot: int, disk: Disk) -> float:
        if disk.closed:
            return -float("inf")
        used = (disk.total_bytes or 0) - (disk.usable_bytes or 0)
        return self.limit[slot] - used - disk.growth_bytes_per_s * self._horizon_s

    def _refresh(self, broker: int) -> None:
        own = self._of_broker[broker]
        self.free[self._best[broker]] = max((self.free[n] for n in own), default=float("inf"))


def _limit(disk: Disk, limits: Limits) -> float:
    if disk.total_bytes is None or disk.usable_bytes is None:
        return float("inf")
    return float(limits.limit_of(disk.total_bytes))
