"""The state of a schedule that is being made: all jobs side by side as arrays, and how a deadlock is broken.

The arrays say what each job asks for next, which may start now, and which is most pressing.

In a deadlock nothing moves, and all that is left waits for free space. First choice: one new copy of a task that asks
for several. Otherwise a copy leaves a full dir for a spare place, in its own broker or over another one, and
continues to its target later. Its bytes are copied twice, so the smallest copy whose space lets another task go is
taken. If no request breaks the deadlock, the reason is given.
"""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.core.quantities import format_bytes
from kafkakit.execution.decide.schedule.model import Ends, FreeSpace, Job, PartitionRequest

if TYPE_CHECKING:
    import numpy as np


class ScheduleState:
    """Rows are jobs, each with its next request (`legs`) and whether it is `waiting` to be sent.

    A row has its source end, how many copies, and for each copy (up to the most of any job) the end and the ledger's
    slot it goes to. `load` is the bytes that are still to pass each end.
    """

    def __init__(self, jobs: Sequence[Job], ends: Ends, space: FreeSpace) -> None:
        import numpy as np

        self.jobs, self.space, self._ends = jobs, space, ends
        self.rate = np.array(ends.rate)
        self.load = np.zeros(ends.count)
        self._limit = np.array(ends.slots)
        self._used = np.zeros(ends.count, dtype=np.int64)
        self.legs = [j.next_leg() for j in jobs]
        width = max([1, *(len(leg.adds) for leg in self.legs)])
        count = len(jobs)
        self._copies = np.zeros(count, dtype=np.int64)
        self._source = np.full(count, ends.nowhere)
        self._sink = np.full((width, count), ends.nowhere)
        self._slot = np.full((width, count), space.anywhere)
        self._weight = np.zeros(count)
        self._frees = np.full(count, space.anywhere)
        self._asked = np.zeros(len(space.free))
        self._slot_rate = np.ones(len(space.free))
        for slot, disk in enumerate(space.disks):
            self._slot_rate[slot] = max(1.0, ends.rate[ends.into(disk.place.broker)])
        self._urgent = np.array([j.urgent for j in jobs], dtype=bool)
        self.waiting = np.array([not j.is_done or j.running for j in jobs], dtype=bool)
        for index, job in enumerate(jobs):
            self._set_row(index, self.legs[index])
            self._book_load(job)

    def set_next(self, index: int) -> None:
        """A job's request is carried out and more is to come."""
        self.legs[index] = self.jobs[index].next_leg()
        self._set_row(index, self.legs[index])

    def replace_leg(self, index: int, leg: PartitionRequest) -> None:
        """Let a job send this instead of what it waits with."""
        self._ask(index, int(self._copies[index]), -1.0)
        self._set_row(index, leg)

    def occupy(self, index: int, leg: PartitionRequest) -> tuple[int, list[int], list[int]]:
        """A request starts: its source end, and for each copy the end and the dir's slot it goes to."""
        count = len(leg.adds)
        self._ask(index, count, -1.0)
        source = int(self._source[index])
        sinks: list[int] = self._sink[:count, index].tolist()
        self._used[source] += count
        for sink in sinks:
            self._used[sink] += 1
        return source, sinks, [self.space.settle(s) for s in self._slot[:count, index].tolist()]

    def vacate(self, index: int, leg: PartitionRequest) -> None:
        """A request has ended."""
        self._used[self._source[index]] -= len(leg.adds)
        for sink in self._sink[: len(leg.adds), index]:
            self._used[sink] -= 1

    def slots_of(self, index: int, leg: PartitionRequest) -> tuple[int, ...]:
        """Where a request's copies would go."""
        job = self.jobs[index]
        if leg.to_dir is not None:
            return (self.space.slot_for(leg.adds[0], leg.to_dir),)
        return tuple(self.space.slot_for(b, job.wanted.get(b)) for b in leg.adds)

    def weight_of(self, index: int) -> float:
        """What one copy of a job books in a dir."""
        return self.space.weight(self.jobs[index].size, self.jobs[index].ingest)

    def all_startable(self) -> "np.ndarray":
        """The rows that could start now, each by itself."""
        import numpy as np

        free = self._used < self._limit
        rows = np.flatnonzero(self.waiting & free.take(self._sink[0]))
        return self.startable(rows)

    def startable(self, rows: "np.ndarray") -> "np.ndarray":
        """Those of the rows that could start now, each by itself; the order stays."""
        used, free_bytes, free = self._used, self.space.free, self._used < self._limit
        rows = rows[self.waiting.take(rows)]
        for sinks, slots in zip(self._sink, self._slot, strict=True):  # the first test leaves few for the others
            rows = rows[free.take(sinks.take(rows))]
            rows = rows[free_bytes.take(slots.take(rows)) >= self._weight.take(rows)]
        source = self._source.take(rows)
        requested = used.take(source)
        found: np.ndarray = rows[(requested + self._copies.take(rows) <= self._limit.take(source)) | (requested == 0)]
        return found

    def first_for_brokers(self, rows: "np.ndarray") -> "np.ndarray":
        """Which of these rows have none before them that goes to the same broker: True or False for each."""
        import numpy as np

        nowhere, at = self._ends.nowhere, np.arange(len(rows))
        end = self._sink[0, rows]
        end = np.where(end == nowhere, self._source[rows], end)  # inside a broker
        first = np.zeros(len(self.load), dtype=np.int64)
        first[end[::-1]] = at[::-1]  # of several the last one stays, which is the first row
        found: np.ndarray = (first[end] == at) | (end == nowhere)
        return found

    def fits(self, index: int) -> bool:
        """True when a row may start after all that started before it in this look."""
        if not self.waiting[index]:
            return False
        source, count = self._source[index], self._copies[index]
        used = self._used[source]
        if used and used + count > self._limit[source]:
            return False
        weight, free_bytes = self._weight[index], self.space.free
        return all(
            self._used[self._sink[n, index]] < self._limit[self._sink[n, index]]
            and free_bytes[self._slot[n, index]] >= weight
            for n in range(count)
        )

    def has_places(self, index: int, leg: PartitionRequest) -> bool:
        """True when the brokers may carry one more request, free space aside."""
        source, sinks = self._ends_of(self.jobs[index], leg)
        used, limit = self._used, self._limit
        alone = not used[source] or used[source] + len(sinks) <= limit[source]
        return bool(alone) and all(used[sink] < limit[sink] for sink in sinks)

    def book_extra(self, index: int, leg: PartitionRequest) -> None:
        """Count a copy that is on top of what the task asks for."""
        source, sinks = self._ends_of(self.jobs[index], leg)
        self.load[[source, *sinks]] += self.jobs[index].size
        self.load[self._ends.nowhere] = 0.0

    def idle_and_full(self) -> list[int]:
        """Dirs without space for copies that wait for it, of brokers that carry nothing now though they are among
        those with most left; the most pressing first.
        """
        import numpy as np

        seconds = self.load / self.rate
        left = seconds[:-1].reshape(3, -1).max(axis=0)  # of each broker: what it sends, takes in, copies inside
        idle = (left >= seconds.max() / 2) & ~self._used[:-1].reshape(3, -1).any(axis=0)
        if not idle.any():
            return []
        rows = np.flatnonzero(self.waiting)
        lacking = [s[self.space.free.take(s) < self._weight.take(rows)] for s in self._slot[:, rows]]
        found = []
        for slot in {n for s in np.unique(np.concatenate(lacking)).tolist() for n in self.space.choices(s)}:
            end = self._ends.out(self.space.disks[slot].place.broker)
            if idle[end]:
                found.append((-float(left[end]), slot))
        return [slot for _, slot in sorted(found)]

    def open_spares(self, brokers: Collection[int]) -> list[int]:
        """The brokers that may take in one copy more now, and have space for the smallest that waits at least."""
        least = float(self._weight[self.waiting].min(initial=float("inf")))
        into, free_bytes, slot_for = self._ends.into, self.space.free, self.space.slot_for
        free = self._used < self._limit
        return [b for b in sorted(brokers) if free[into(b)] and free_bytes[slot_for(b, None)] >= least]

    def rows_leaving(self, slot: int) -> list[int]:
        """The waiting jobs that give up a copy in a dir."""
        found: list[int] = (self.waiting & (self._frees == slot)).nonzero()[0].tolist()
        return found

    def rows_wanting(self, slots: Set[int]) -> list[int]:
        """The waiting jobs that may want space in one of these dirs."""
        import numpy as np

        requested = [n for n in range(self.space.anywhere) if n in slots]
        requested += [
            s for s in range(self.space.anywhere + 1, len(self.space.free)) if slots & set(self.space.choices(s))
        ]
        found: list[int] = (self.waiting & np.isin(self._slot, requested).any(axis=0)).nonzero()[0].tolist()
        return found

    def frees_of(self, index: int) -> int:
        """The dir that a job's request frees, or `space.anywhere`."""
        return int(self._frees[index])

    def pressing(self, rows: "np.ndarray") -> "np.ndarray":
        """Sort keys, least first: seconds of the busier end, and of what waits for space that it frees; urgent ones
        before all. Then the seconds of the other end, and the copy's bytes. One line of the answer for each key.
        """
        import numpy as np

        seconds = self.load / self.rate
        at, to = seconds[self._source[rows]], seconds[self._sink[0, rows]]
        for sinks in self._sink[1:]:
            to = np.maximum(to, seconds[sinks[rows]])
        first = -(np.maximum(at, to) + self._waited_for()[self._frees[rows]])
        first[self._urgent[rows]] -= 1 + float(first.max() - first.min())
        return np.stack([first, -np.minimum(at, to), -self._weight[rows]])

    def _waited_for(self) -> "np.ndarray":
        """Seconds of copies that find no space in a dir as it is, by slot."""
        import numpy as np

        lacking = np.maximum(self._asked - np.maximum(self.space.free, 0.0), 0.0)
        short: np.ndarray = lacking / self._slot_rate
        short[self.space.anywhere :] = 0.0
        return short

    def _set_row(self, index: int, leg: PartitionRequest) -> None:
        job = self.jobs[index]
        self._sink[:, index] = self._ends.nowhere
        self._slot[:, index] = self.space.anywhere
        count = len(leg.adds)
        self._copies[index] = count
        gone = next(iter(leg.adds if leg.to_dir is not None else leg.removes), None)
        left = None if gone is None else self.space.slot_of_copy(gone, job.where.get(gone))
        self._frees[index] = self.space.anywhere if left is None else left
        self._slot[:count, index] = self.slots_of(index, leg)
        self._source[index], self._sink[:count, index] = self._ends_of(job, leg)
        self._weight[index] = self.weight_of(index)
        self._ask(index, count, 1.0)

    def _ends_of(self, job: Job, leg: PartitionRequest) -> tuple[int, list[int]]:
        """Where a request's copies come from, and where each goes."""
        ends = self._ends
        if leg.to_dir is not None:
            return ends.inside(leg.adds[0]), [ends.nowhere]
        if not leg.adds or job.leader is None:
            return ends.nowhere, [ends.nowhere] * len(leg.adds)
        return ends.out(job.leader), [ends.into(b) for b in leg.adds]

    def _ask(self, index: int, count: int, sign: float) -> None:
        """Count a row's bytes among those that its dirs are asked for, or no longer."""
        for n in range(count):
            self._asked[self._slot[n, index]] += sign * self._weight[index]

    def _book_load(self, job: Job) -> None:
        """Count a job's bytes at both ends; the requests that it may be cut into later change nothing in that."""
        adds = [b for b in job.target if b not in job.current]
        if job.dir_broker is not None:
            self.load[self._ends.inside(job.dir_broker)] += bytes_left(job, 1)
        elif job.leader is not None:
            left = bytes_left(job, len(adds))
            self.load[self._ends.out(job.leader)] += left * len(adds)
            for broker in adds:
                self.load[self._ends.into(broker)] += left


def bytes_left(job: Job, copies: int) -> float:
    """What each of a request's copies still has to bring."""
    return max(0.0, job.size - job.copied / copies) if copies else 0.0


@dataclass(frozen=True, slots=True)
class _Copy:
    """A copy in a full dir that its job would give up."""

    job: int
    broker: int
    slot: int
    weight: float


def break_deadlock(
    state: ScheduleState, spares: Collection[int], racks: Mapping[int, str | None]
) -> tuple[int, PartitionRequest] | None:
    """The request to send now, with its job; None when no request helps. O(blocked jobs x their copies)."""
    blocked = [int(i) for i in state.waiting.nonzero()[0]]
    wanted = _wanted_bytes(state, blocked)
    single = _single_copy(state, blocked, wanted)
    if single is not None:
        return single
    copies = [c for c in _copies_in_full_dirs(state, blocked, wanted) if not state.jobs[c.job].detoured]
    unlocking = [c for c in copies if _unlocks(state, c, wanted)]
    for choice in (
        sorted(unlocking, key=lambda c: (c.weight, c.job, c.broker)),
        sorted(copies, key=lambda c: (-c.weight, c.job, c.broker)),
    ):
        for copy in choice:
            leg = _inside_request(state, copy) or _over_spare(state, copy, spares, racks)
            if leg is not None:
                state.jobs[copy.job].detoured = True
                return copy.job, leg
    return None


def free_full_dir(
    state: ScheduleState, slot: int, spares: Collection[int], racks: Mapping[int, str | None]
) -> tuple[int, PartitionRequest] | None:
    """A request that takes a copy out of this full dir although elsewhere things continue, or None.

    As `break_deadlock`, but only where it lets another job in and the brokers may carry it now. O(jobs of the dir).
    """
    if not spares and not state.space.others(slot):
        return None
    wanted = _wanted_bytes(state, state.rows_wanting({slot}))
    if slot not in wanted:
        return None
    rows = [i for i in state.rows_leaving(slot) if not (state.jobs[i].indivisible or state.jobs[i].detoured)]
    for index in sorted(rows, key=lambda i: (state.weight_of(i), i)):
        job, leg = state.jobs[index], state.legs[index]
        gone = leg.adds[0] if leg.to_dir is not None else leg.removes[0]
        copy = _Copy(index, gone, slot, state.weight_of(index))
        if not _unlocks(state, copy, wanted):
            continue
        way = _inside_request(state, copy) or _over_spare(state, copy, spares, racks)
        if way is not None and state.has_places(index, way):
            job.detoured = True
            return index, way
    return None


def why_immovable(state: ScheduleState, index: int) -> str:
    """What a job that no order serves lacks, in words."""
    job, leg, space = state.jobs[index], state.legs[index], state.space
    weight = state.weight_of(index)
    lacks = []
    for broker, slot in zip(leg.adds, state.slots_of(index, leg), strict=True):
        free_bytes = float(space.free[slot])
        if free_bytes >= weight:
            continue
        place = space.place(space.settle(slot), broker, leg.to_dir or job.wanted.get(broker))
        name = f"{broker}:{place.log_dir}" if place.log_dir else f"the disk of broker {broker}"
        if free_bytes == -float("inf"):
            lacks.append(f"{name} is closed")
        else:
            grown = " with what it grows by meanwhile" if weight > job.size else ""
            lacks.append(
                f"{name} lacks {format_bytes(int(weight - free_bytes))} under its limit for a copy of "
                f"{format_bytes(int(weight))}{grown}"
            )
    if not lacks:
        return "its partition has another change that cannot be made"
    words = "; ".join(lacks)
    return words if "is closed" in words else f"{words}; moving a copy that the plan does not name might free space"


def _wanted_bytes(state: ScheduleState, blocked: list[int]) -> dict[int, list[tuple[int, float]]]:
    """The jobs that wait for each full dir, with what their copy needs there."""
    wanted: dict[int, list[tuple[int, float]]] = {}
    for index in blocked:
        weight = state.weight_of(index)
        for choices in map(state.space.choices, state.slots_of(index, state.legs[index])):
            if all(slot < state.space.anywhere and state.space.free[slot] < weight for slot in choices):
                for slot in choices:
                    wanted.setdefault(slot, []).append((index, weight))
    return wanted


def _single_copy(
    state: ScheduleState, blocked: list[int], wanted: Mapping[int, list[tuple[int, float]]]
) -> tuple[int, PartitionRequest] | None:
    """One new copy of the smallest job that asks for several and has space for one."""
    space = state.space
    for index in sorted(blocked, key=lambda i: (state.weight_of(i), i)):
        job, leg = state.jobs[index], state.legs[index]
        if job.indivisible or job.dir_broker is not None or len(leg.adds) < 2:
            continue

        def pressed(broker: int, job: Job = job) -> float:
            slot = space.slot_of_copy(broker, job.where.get(broker))
            return float(slot in wanted)

        for broker, slot in zip(leg.adds, state.slots_of(index, leg), strict=True):
            if space.free[slot] >= state.weight_of(index):
                full = _names(state, [s for s in state.slots_of(index, leg) if s != slot])
                why = f"{full} has no free space yet: the copy on broker {broker} goes first"
                return index, job.part_leg(broker, pressed, why)
    return None


def _copies_in_full_dirs(
    state: ScheduleState, blocked: list[int], wanted: Mapping[int, list[tuple[int, float]]]
) -> list[_Copy]:
    found = []
    for index in blocked:
        job, leg = state.jobs[index], state.legs[index]
        if job.indivisible:
            continue
        for broker in leg.adds if leg.to_dir is not None else leg.removes:
            slot = state.space.slot_of_copy(broker, job.where.get(broker))
            if slot is not None and slot in wanted:
                found.append(_Copy(index, broker, slot, state.weight_of(index)))
    return found


def _unlocks(state: ScheduleState, copy: _Copy, wanted: Mapping[int, list[tuple[int, float]]]) -> bool:
    """True when another job could go once this copy has left its dir."""
    space = state.space
    for index, weight in wanted[copy.slot]:
        if index == copy.job:
            continue
        ways = [space.choices(s) for s in state.slots_of(index, state.legs[index])]
        if all(any(space.free[s] + (copy.weight if s == copy.slot else 0.0) >= weight for s in way) for way in ways):
            return True
    return False


def _inside_request(state: ScheduleState, copy: _Copy) -> PartitionRequest | None:
    """To another dir of the same broker: costs no network."""
    job, space = state.jobs[copy.job], state.space
    fits = [n for n in space.others(copy.slot) if space.free[n] >= copy.weight and _dir(state, n) != job.dir_target]
    if not fits:
        return None
    best = max(fits, key=lambda n: (space.free[n], -n))
    why = f"{_full_dirs(state, copy)}; {job.key} goes to {_dir(state, best)} of broker {copy.broker} first"
    return job.inside_leg(copy.broker, _dir(state, best), why)


def _over_spare(
    state: ScheduleState, copy: _Copy, spares: Collection[int], racks: Mapping[int, str | None]
) -> PartitionRequest | None:
    """Over another broker that keeps the copies in as many racks as they are in before or after."""
    job, space = state.jobs[copy.job], state.space
    if job.dir_broker is not None:
        return None
    least = min(_racks(job.current, racks), _racks(job.target, racks))
    best: tuple[float, int] | None = None
    for spare in sorted(spares):
        free_bytes = float(space.free[space.slot_for(spare, None)])
        if spare in job.current or spare in job.target or free_bytes < copy.weight:
            continue
        after = tuple(spare if b == copy.broker else b for b in job.current)
        if _racks(after, racks) >= least and (best is None or free_bytes > best[0]):
            best = (free_bytes, spare)
    if best is None:
        return None
    why = f"{_full_dirs(state, copy)}; {job.key} goes over broker {best[1]} first"
    return job.detour_leg(copy.broker, best[1], why)


def _full_dirs(state: ScheduleState, copy: _Copy) -> str:
    """Which dirs are full of copies that wait for each other."""
    aims = state.slots_of(copy.job, state.legs[copy.job])
    full = [s for s in map(state.space.settle, aims) if s < state.space.anywhere and s != copy.slot]
    names = _names(state, [copy.slot, *full])
    return f"dirs {names} are full of copies that wait for each other" if full else f"dir {names} is full"


def _names(state: ScheduleState, slots: list[int]) -> str:
    places = [state.space.disks[s].place for s in map(state.space.settle, slots) if s < state.space.anywhere]
    return " and ".join(f"{p.broker}:{p.log_dir}" if p.log_dir else f"of broker {p.broker}" for p in places)


def _dir(state: ScheduleState, slot: int) -> str:
    return state.space.disks[slot].place.log_dir


def _racks(brokers: tuple[int, ...], racks: Mapping[int, str | None]) -> int:
    """In how many racks brokers are; one without a rack counts as one of its own."""
    return len({racks.get(b) or b for b in brokers})
