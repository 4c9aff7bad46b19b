"""The rolling window: start what may start, let copies flow, and continue to the next end of a copy.

Time is taken in steps of at least `quantum_s`, so that a run of 50,000 moves costs some thousand looks at arrays.
Copies that end within one step end at their own time; what takes their place starts at the end of the step. A
request whose copies are all there ends a little later: see `Speeds.step_s` and `steps_per_s`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.schedule.deadlock import free_full_dir
from kafkakit.execution.decide.schedule.flow import fair_rates
from kafkakit.execution.decide.schedule.partition_steps import Job, Leg
from kafkakit.execution.decide.schedule.schedule_state import ScheduleState, bytes_left
from kafkakit.execution.decide.schedule.work import Limits, Place, Speeds, Step, StepKind

if TYPE_CHECKING:
    import numpy as np

EXTRA = 0.1  # the most bytes that are copied twice to keep brokers busy, as a share of all
LEAST_NET = 0.01  # share of its rate that a copy is taken to make even where its log grows faster


@dataclass(slots=True)
class SentRequest:
    """A request on its way: its index among the steps, the slots of its copies, and how many still flow."""

    job: int
    leg: Leg
    step: int
    slots: tuple[int, ...]
    flows: int
    end_s: float


class Rolling:
    """One run of the window over the state of jobs: what flows now, what is to be deleted, and the steps so far."""

    def __init__(
        self,
        state: ScheduleState,
        limits: Limits,
        speeds: Speeds,
        *,
        quantum_s: float,
        may_detour_early: bool,
        spares: Collection[int],
        racks: Mapping[int, str | None],
    ) -> None:
        import numpy as np

        self.state, self._limits, self._speeds, self._quantum_s = state, limits, speeds, quantum_s
        self._spares, self._racks = spares, racks
        self._extra_left = EXTRA * float(state.load.sum()) / 2 if may_detour_early else 0.0
        self.detoured_early = 0
        self.now_s = 0.0
        self.steps: list[Step] = []
        self._flow_left = np.zeros(0)
        self._flow_ends = np.zeros((2, 0), dtype=np.int64)
        self._flow_ingest = np.zeros(0)
        self._flow_flight = np.zeros(0, dtype=np.int64)
        self._new: list[tuple[float, int, int, float, int]] = []
        self._sent: dict[int, SentRequest] = {}
        self._ending: list[tuple[float, int]] = []
        self._controller_s = 0.0
        self._deletions: list[tuple[float, int, int, float, float]] = []
        self._siblings: dict[TopicPartition, list[int]] = {}
        for index, job in enumerate(state.jobs):
            self._siblings.setdefault(job.key, []).append(index)

    def run(self) -> None:
        """Carry out what can be; jobs that are left are blocked for good and still `waiting`.

        Ends when nothing flows and nothing is to be deleted; `start_now` and another call continue from there.
        """
        while True:
            self._catch_up()
            self._start()
            self._detour_early()
            if self._new or len(self._flow_left):
                self._flow()
            elif self._ending or self._deletions:
                pause = self._quantum_s if len(self._ending) > 1 else 0.0
                self.now_s = max(self.now_s + pause, self._next_event_s())
            else:
                return

    def _catch_up(self) -> None:
        """Take note of all that was due until now."""
        while self._next_event_s() <= self.now_s:
            if self._ending and self._ending[0][0] <= self.now_s:
                self._finish(self._sent[heappop(self._ending)[1]])
            else:
                _, _, slot, size, ingest = heappop(self._deletions)
                self.state.space.give(slot, size, ingest)

    def _next_event_s(self) -> float:
        """When the next request ends whose copies are there, or the next old copy is deleted."""
        ending = self._ending[0][0] if self._ending else float("inf")
        return min(ending, self._deletions[0][0]) if self._deletions else ending

    def start_running(self) -> None:
        """Take over what is on the cluster already, whatever the limits say."""
        for index, job in enumerate(self.state.jobs):
            if job.running:
                self._launch(index, self.state.legs[index])

    def start_now(self, index: int, leg: Leg) -> None:
        """Send this request of a blocked job instead of the one it waits with."""
        if leg.kind is not StepKind.PART:
            self.state.book_extra(index, leg)
        self.state.replace_leg(index, leg)
        self._launch(index, leg)

    def _detour_early(self) -> None:
        """Take a copy out of each full dir for which a broker with much to do idles.

        Few free places go round among many full dirs, and all wait for the next: some copies made twice pay.
        """
        idle = self.state.idle_and_full() if self._extra_left > 0 and self._sent else []
        if not idle:
            return
        freed = {slot for _, _, slot, _, _ in self._deletions}
        freed |= {self.state.frees_of(f.job) for f in self._sent.values()}
        spares = self.state.open_spares(self._spares)
        for slot in idle:
            if slot in freed or len(self._sent) >= self._limits.cluster:
                continue
            way = free_full_dir(self.state, slot, spares, self._racks)
            if way is not None:
                self._extra_left -= self.state.jobs[way[0]].size
                self.detoured_early += 1
                self.start_now(*way)
                spares = self.state.open_spares(spares)

    def _start(self) -> None:
        """Start all that may start now, the most pressing first.

        One after another would be 100 looks for one start, for most rows go to brokers that the first ones fill. So
        each broker's first row has its turn, and then the rest is held against the limits again.
        """
        state = self.state
        while len(self._sent) < self._limits.cluster:
            rows = state.all_startable()
            if not len(rows):
                return
            rows = _most_pressing(rows, state.pressing(rows), 16 * (self._limits.cluster - len(self._sent)))
            while len(rows):
                first = state.first_for_brokers(rows)
                for index in rows[first].tolist():
                    if len(self._sent) >= self._limits.cluster:
                        return
                    if state.fits(index):
                        self._launch(index, state.legs[index])
                rows = state.startable(rows[~first])
            if self._quantum_s:
                return  # who comes free by what has just started has the next look, a quantum later

    def _launch(self, index: int, leg: Leg) -> None:
        job = self.state.jobs[index]
        source, sinks, slots = self.state.occupy(index, leg)
        left = bytes_left(job, len(sinks))
        sent = SentRequest(index, leg, len(self.steps), tuple(slots), len(slots), self.now_s)
        for sink, slot in zip(sinks, slots, strict=True):
            self.state.space.take(slot, left, job.ingest)
            self._new.append((left, source, sink, job.ingest, sent.step))
        self._sent[sent.step] = sent
        self.steps.append(self._step(job, leg, slots))
        for other in self._siblings[job.key]:
            self.state.waiting[other] = False
        if not slots:
            self._arrived(sent)

    def _step(self, job: Job, leg: Leg, slots: list[int]) -> Step:
        place = self.state.space.place
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
        slot = self.state.space.slot_of_copy(broker, job.where.get(broker))
        path = job.where.get(broker)
        return Place(broker, path or "") if slot is None else self.state.space.place(slot, broker, path)

    def _flow(self) -> None:
        """Let time pass until the next copy ends, or longer by up to a quantum."""
        import numpy as np

        self._take_new()
        rates = fair_rates(self._flow_ends[0], self._flow_ends[1], self.state.rate)
        net = np.maximum(rates - self._flow_ingest, LEAST_NET * rates)
        wants = self._flow_left / net
        pause = float(wants.min())
        pause = min(pause, self._next_event_s() - self.now_s)
        pause = max(pause, self._quantum_s if len(wants) > 1 else 0.0)
        done = wants <= pause
        moved = np.where(done, self._flow_left, net * pause)
        count = len(self.state.load)
        self.state.load -= np.bincount(self._flow_ends[0], moved, minlength=count)
        self.state.load -= np.bincount(self._flow_ends[1], moved, minlength=count)
        np.maximum(self.state.load, 0.0, out=self.state.load)
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
            sent = self._sent[step]
            sent.flows -= 1
            sent.end_s = max(sent.end_s, end_s)
            if not sent.flows:
                self._arrived(sent)

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

    def _arrived(self, sent: SentRequest) -> None:
        """All copies of a request are there: it ends when that is seen, and when the controller comes to it."""
        sent.end_s += self._speeds.step_s
        if sent.leg.kind is not StepKind.INSIDE:
            sent.end_s = max(sent.end_s, self._controller_s + 1 / self._speeds.steps_per_s)
            self._controller_s = sent.end_s
        heappush(self._ending, (sent.end_s, sent.step))

    def _finish(self, sent: SentRequest) -> None:
        state, leg, index = self.state, sent.leg, sent.job
        job = state.jobs[index]
        self.steps[sent.step] = replace(self.steps[sent.step], end_s=sent.end_s)
        state.vacate(index, leg)
        del self._sent[sent.step]
        gone = leg.adds if leg.kind is StepKind.INSIDE else leg.removes
        for broker in gone:
            slot = self.state.space.slot_of_copy(broker, job.where.get(broker))
            if slot is not None:
                due = sent.end_s + self._limits.deletion_delay_s
                heappush(self._deletions, (due, sent.step, slot, float(job.size), job.ingest))
        job.arrive(leg, tuple(p.log_dir for p in self.steps[sent.step].adding))
        for other in self._siblings[job.key]:
            state.jobs[other].last_step = sent.step
            state.waiting[other] = not state.jobs[other].is_done
        if not job.is_done:
            state.set_next(index)


def _most_pressing(rows: "np.ndarray", keys: "np.ndarray", few: int) -> "np.ndarray":
    """The first rows by their keys, in order: as many as `few`, and those that the first key cannot tell from these."""
    import numpy as np

    if few < len(rows):
        among = np.flatnonzero(keys[0] <= np.partition(keys[0], few)[few])
        rows, keys = rows[among], keys[:, among]
    found: np.ndarray = rows[np.lexsort(keys[::-1])]
    return found
