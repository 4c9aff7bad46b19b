"""The rolling window: start what may start, let copies flow, and go on to the next end of a copy.

Time is taken in steps of at least `quantum_s`, so that a run of 50,000 moves costs some thousand looks at arrays.
Copies that end within one step end at their own time; what takes their place starts at the end of the step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from kafkakit.model import TopicPartition
from kafkakit.reassign.schedule.flow import Ends, fair_rates
from kafkakit.reassign.schedule.job import Job, Leg
from kafkakit.reassign.schedule.ledger import Ledger
from kafkakit.reassign.schedule.work import Limits, Place, Step, StepKind

if TYPE_CHECKING:
    import numpy as np

LEAST_NET = 0.01  # share of its rate that a copy is taken to make even where its log grows faster


@dataclass(slots=True)
class Flight:
    """A request on its way: its index among the steps, the slots of its copies, and how many still flow."""

    job: int
    leg: Leg
    step: int
    slots: tuple[int, ...]
    flows: int
    end_s: float


class Rolling:
    """One run of the window over jobs; made for a single call of `run`.

    Rows of the arrays are jobs, each with its next request: its source end, how many copies, and for each copy
    (up to the most of any job) the end and the ledger's slot it goes to.
    """

    def __init__(self, jobs: Sequence[Job], ends: Ends, ledger: Ledger, limits: Limits, *, quantum_s: float) -> None:
        import numpy as np

        self.jobs, self.ledger, self._ends, self._limits = jobs, ledger, ends, limits
        self._quantum_s = quantum_s
        self.now_s = 0.0
        self.steps: list[Step] = []
        self._rate = np.array(ends.rate)
        self._slots = np.array(ends.slots)
        self._used = np.zeros(ends.count, dtype=np.int64)
        self._in_flight = 0
        self._load = np.zeros(ends.count)
        width = max([1, *(len(j.next_leg().adds) for j in jobs)])
        count = len(jobs)
        self._copies = np.zeros(count, dtype=np.int64)
        self._source = np.full(count, ends.nowhere)
        self._sink = np.full((count, width), ends.nowhere)
        self._slot = np.full((count, width), ledger.anywhere)
        self._weight = np.zeros(count)
        self._frees = np.full(count, ledger.anywhere)
        self._asked = np.zeros(len(ledger.room))
        self._slot_rate = np.ones(len(ledger.room))
        for slot, disk in enumerate(ledger.disks):
            self._slot_rate[slot] = max(1.0, ends.rate[ends.into(disk.place.broker)])
        self._urgent = np.array([j.urgent for j in jobs], dtype=bool)
        self.waiting = np.zeros(count, dtype=bool)
        self._modest = np.zeros(count, dtype=bool)
        self.legs: list[Leg] = []
        self._flow_left = np.zeros(0)
        self._flow_ends = np.zeros((2, 0), dtype=np.int64)
        self._flow_ingest = np.zeros(0)
        self._flow_flight = np.zeros(0, dtype=np.int64)
        self._new: list[tuple[float, int, int, float, int]] = []
        self._flights: dict[int, Flight] = {}
        self._deletions: list[tuple[float, int, int, float, float]] = []
        self._siblings: dict[TopicPartition, list[int]] = {}
        for index, job in enumerate(jobs):
            self._siblings.setdefault(job.key, []).append(index)
            self.legs.append(job.next_leg())
            self._set_row(index, self.legs[index])
            self._book_load(job)
            self.waiting[index] = not job.is_done or job.running

    def run(self) -> None:
        """Carry out what can be; jobs that are left are blocked for good and still `waiting`.

        Calls itself to an end when nothing flows and nothing is to be deleted: `start_now` then goes on.
        """
        while True:
            while self._deletions and self._deletions[0][0] <= self.now_s:
                _, _, slot, size, ingest = heappop(self._deletions)
                self.ledger.give(slot, size, ingest)
            self._start()
            if self._flights:
                self._flow()
            elif self._deletions:
                self.now_s = max(self.now_s, self._deletions[0][0])
            elif self._modest.any():
                self._modest[:] = False  # nobody else can use the room
            else:
                return

    def start_running(self) -> None:
        """Take over what is on the cluster already, whatever the limits say."""
        for index, job in enumerate(self.jobs):
            if job.running:
                self._launch(index, self.legs[index])

    def start_now(self, index: int, leg: Leg) -> None:
        """Send this request of a blocked job instead of the one it waits with."""
        self.waiting[index] = True
        self._ask(index, int(self._copies[index]), -1.0)
        self._set_row(index, leg)
        self._launch(index, leg)

    def slots_of(self, index: int, leg: Leg) -> tuple[int, ...]:
        """Where a request's copies would go."""
        job = self.jobs[index]
        if leg.to_dir is not None:
            return (self.ledger.slot_for(leg.adds[0], leg.to_dir),)
        return tuple(self.ledger.slot_for(b, job.wanted.get(b)) for b in leg.adds)

    def weight_of(self, index: int) -> float:
        """What one copy of a job books in a dir."""
        return self.ledger.weight(self.jobs[index].size, self.jobs[index].ingest)

    def _set_row(self, index: int, leg: Leg) -> None:
        job, ends = self.jobs[index], self._ends
        self._sink[index] = ends.nowhere
        self._slot[index] = self.ledger.anywhere
        count = len(leg.adds)
        self._copies[index] = count
        gone = next(iter(leg.adds if leg.to_dir is not None else leg.removes), None)
        left = None if gone is None else self.ledger.slot_of_copy(gone, job.where.get(gone))
        self._frees[index] = self.ledger.anywhere if left is None else left
        self._slot[index, :count] = self.slots_of(index, leg)
        if leg.to_dir is not None:
            self._source[index] = ends.inside(leg.adds[0])
        elif count and job.leader is not None:
            self._source[index] = ends.out(job.leader)
            self._sink[index, :count] = [ends.into(b) for b in leg.adds]
        else:
            self._source[index] = ends.nowhere
        self._weight[index] = self.weight_of(index)
        self._ask(index, count, 1.0)

    def _ask(self, index: int, count: int, sign: float) -> None:
        """Count a row's bytes among those that its dirs are asked for, or no longer."""
        for n in range(count):
            self._asked[self._slot[index, n]] += sign * self._weight[index]

    def _book_load(self, job: Job) -> None:
        """Count a job's bytes at both ends; the requests that it may be cut into later change nothing in that."""
        adds = [b for b in job.target if b not in job.current]
        if job.dir_broker is not None:
            self._load[self._ends.inside(job.dir_broker)] += _left(job, 1)
        elif job.leader is not None:
            left = _left(job, len(adds))
            self._load[self._ends.out(job.leader)] += left * len(adds)
            for broker in adds:
                self._load[self._ends.into(broker)] += left

    def _start(self) -> None:
        """Start all that may start now, the most pressing first."""
        import numpy as np

        rows = np.flatnonzero(self.waiting)
        if not len(rows) or self._in_flight >= self._limits.cluster:
            return
        rows = rows[self._fits(rows) & ~self._yields(rows)]
        if not len(rows):
            return
        pressing = self._pressing(rows)
        while len(rows) and self._in_flight < self._limits.cluster:
            # Few of many candidates start at a time: sort only as many as may.
            few = 4 * (self._limits.cluster - self._in_flight) + 64
            chosen = np.argpartition(pressing[:, 0], few)[:few] if few < len(rows) else np.arange(len(rows))
            keys = pressing[chosen].T
            for index in rows[chosen[np.lexsort((keys[2], keys[1], keys[0]))]].tolist():
                if self._in_flight >= self._limits.cluster:
                    return
                if self.waiting[index] and self._fits_one(index):
                    self._launch(index, self.legs[index])
            if self._quantum_s:
                return  # who was passed over has the next look, a quantum later
            rest = np.ones(len(rows), dtype=bool)
            rest[chosen] = False
            rows, pressing = rows[rest], pressing[rest]
            fits = self._fits(rows) & self.waiting[rows] & ~self._yields(rows)
            rows, pressing = rows[fits], pressing[fits]

    def _waited_for(self) -> "np.ndarray":
        """Seconds of copies that find no room in a dir as it is, by slot."""
        import numpy as np

        lacking = np.maximum(self._asked - np.maximum(self.ledger.room, 0.0), 0.0)
        short: np.ndarray = lacking / self._slot_rate
        short[self.ledger.anywhere :] = 0.0
        return short

    def _yields(self, rows: "np.ndarray") -> "np.ndarray":
        """Which rows leave contested room to others: a copy on a detour frees nothing when it goes on."""
        import numpy as np

        modest: np.ndarray = self._modest[rows]
        if not modest.any():
            return modest
        contested = np.zeros(len(self.ledger.room), dtype=bool)
        contested[self._slot[self.waiting & ~self._modest]] = True
        contested[self.ledger.anywhere] = False
        yields: np.ndarray = modest & contested[self._slot[rows]].any(axis=1)
        return yields

    def _pressing(self, rows: "np.ndarray") -> "np.ndarray":
        """Sort keys, least first: seconds of the busier end, and of what waits for room that it frees; urgent ones
        before all. Then the seconds of the other end, and the copy's bytes.
        """
        import numpy as np

        seconds = self._load / self._rate
        at, to = seconds[self._source[rows]], seconds[self._sink[rows]].max(axis=1)
        first = -(np.maximum(at, to) + self._waited_for()[self._frees[rows]])
        first[self._urgent[rows]] -= 1 + float(first.max() - first.min())
        return np.stack([first, -np.minimum(at, to), -self._weight[rows]], axis=1)

    def _fits(self, rows: "np.ndarray") -> "np.ndarray":
        source, sink = self._source[rows], self._sink[rows]
        used = self._used[source]
        ok = (used + self._copies[rows] <= self._slots[source]) | (used == 0)
        ok &= (self._used[sink] < self._slots[sink]).all(axis=1)
        fits: np.ndarray = ok & (self.ledger.room[self._slot[rows]] >= self._weight[rows][:, None]).all(axis=1)
        return fits

    def _fits_one(self, index: int) -> bool:
        source, count = self._source[index], self._copies[index]
        used = self._used[source]
        if used and used + count > self._slots[source]:
            return False
        weight, room = self._weight[index], self.ledger.room
        return all(
            self._used[self._sink[index, n]] < self._slots[self._sink[index, n]]
            and room[self._slot[index, n]] >= weight
            for n in range(count)
        )

    def _launch(self, index: int, leg: Leg) -> None:
        job, ledger = self.jobs[index], self.ledger
        count = len(leg.adds)
        slots = tuple(ledger.settle(int(s)) for s in self._slot[index, :count])
        self._ask(index, count, -1.0)
        left = _left(job, count)
        flight = Flight(index, leg, len(self.steps), slots, count, self.now_s)
        source = int(self._source[index])
        for n, slot in enumerate(slots):
            ledger.take(slot, left, job.ingest)
            sink = int(self._sink[index, n])
            self._used[sink] += 1
            self._new.append((left, source, sink, job.ingest, flight.step))
        self._used[source] += count
        self._in_flight += 1
        self._flights[flight.step] = flight
        self.steps.append(self._step(job, leg, slots))
        for other in self._siblings[job.key]:
            self.waiting[other] = False
        if not count:
            self._finish(flight)

    def _step(self, job: Job, leg: Leg, slots: tuple[int, ...]) -> Step:
        place = self.ledger.place
        adding = [place(s, b, leg.to_dir or job.wanted.get(b)) for s, b in zip(slots, leg.adds, strict=True)]
        inside = leg.kind is StepKind.INSIDE
        gone = leg.adds if inside else leg.removes
        return Step(
            key=job.key,
            kind=leg.kind,
            target=() if inside else leg.target,
            leader=job.leader,
            adding=tuple(adding),
            removing=tuple(self._place_of_copy(job, b) for b in gone),
            size_bytes=job.size,
            start_s=self.now_s,
            end_s=self.now_s,
            running=job.running,
            after=job.last_step,
            why=leg.why,
        )

    def _place_of_copy(self, job: Job, broker: int) -> Place:
        slot = self.ledger.slot_of_copy(broker, job.where.get(broker))
        path = job.where.get(broker)
        return Place(broker, path or "") if slot is None else self.ledger.place(slot, broker, path)

    def _flow(self) -> None:
        """Let time pass until the next copy ends, or longer by up to a quantum."""
        import numpy as np

        self._take_new()
        rates = fair_rates(self._flow_ends[0], self._flow_ends[1], self._rate)
        net = np.maximum(rates - self._flow_ingest, LEAST_NET * rates)
        wants = self._flow_left / net
        pause = float(wants.min())
        if self._deletions:
            pause = min(pause, self._deletions[0][0] - self.now_s)
        pause = max(pause, self._quantum_s if len(wants) > 1 else 0.0)
        done = wants <= pause
        moved = np.where(done, self._flow_left, net * pause)
        count = len(self._load)
        self._load -= np.bincount(self._flow_ends[0], moved, minlength=count)
        self._load -= np.bincount(self._flow_ends[1], moved, minlength=count)
        np.maximum(self._load, 0.0, out=self._load)
        began = self.now_s
        ended = [
            (began + took, step)
            for took, step in zip(wants[done].tolist(), self._flow_flight[done].tolist(), strict=True)
        ]
        stay = ~done
        self._flow_left = (self._flow_left - moved)[stay]
        self._flow_ends = self._flow_ends[:, stay]
        self._flow_ingest, self._flow_flight = self._flow_ingest[stay], self._flow_flight[stay]
        self.now_s = began + pause
        for end_s, step in sorted(ended):
            flight = self._flights[step]
            flight.flows -= 1
            flight.end_s = max(flight.end_s, end_s)
            if not flight.flows:
                self._finish(flight)

    def _take_new(self) -> None:
        import numpy as np

        if not self._new:
            return
        left, source, sink, ingest, step = zip(*self._new, strict=True)
        self._flow_left = np.concatenate([self._flow_left, left])
        self._flow_ends = np.concatenate([self._flow_ends, np.array([source, sink])], axis=1)
        self._flow_ingest = np.concatenate([self._flow_ingest, ingest])
        self._flow_flight = np.concatenate([self._flow_flight, np.array(step)])
        self._new = []

    def _finish(self, flight: Flight) -> None:
        job, leg, index = self.jobs[flight.job], flight.leg, flight.job
        self.steps[flight.step] = replace(self.steps[flight.step], end_s=flight.end_s)
        self._used[self._source[index]] -= len(leg.adds)
        for sink in self._sink[index, : len(leg.adds)]:
            self._used[sink] -= 1
        self._in_flight -= 1
        del self._flights[flight.step]
        gone = leg.adds if leg.kind is StepKind.INSIDE else leg.removes
        for broker in gone:
            slot = self.ledger.slot_of_copy(broker, job.where.get(broker))
            if slot is not None:
                due = flight.end_s + self._limits.deletion_delay_s
                heappush(self._deletions, (due, flight.step, slot, float(job.size), job.ingest))
        dirs = tuple(
            self.ledger.place(s, b, leg.to_dir or job.wanted.get(b)).log_dir
            for s, b in zip(flight.slots, leg.adds, strict=True)
        )
        job.arrive(leg, dirs)
        siblings = self._siblings[job.key]
        for other in siblings:
            self.jobs[other].last_step = flight.step
            self.waiting[other] = not self.jobs[other].is_done
        if not job.is_done:
            self._modest[index] = job.detoured
            self.legs[index] = job.next_leg()
            self._set_row(index, self.legs[index])


def _left(job: Job, copies: int) -> float:
    return max(0.0, job.size - job.copied / copies) if copies else 0.0
