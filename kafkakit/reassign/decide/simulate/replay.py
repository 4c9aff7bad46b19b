"""Playing one case: start moves as they may start, let time and faults pass, note rates, disks and ISR."""

from collections.abc import Mapping
from dataclasses import dataclass

from kafkakit.core.model import TopicPartition
from kafkakit.execution.decide.schedule.scheduler import plan_schedule
from kafkakit.execution.decide.schedule.work import Bottleneck, Place, Rates, Schedule, Speeds
from kafkakit.reassign.decide.simulate.request import Fault, FaultKind, Order, SimulateRequest
from kafkakit.reassign.decide.simulate.scene import Scene
from kafkakit.reassign.decide.simulate.starting import Starter
from kafkakit.simulator.disks import DiskSeen
from kafkakit.simulator.simulation import Simulation

LOOKS = 600  # about so many looks at a case
LONGEST_LOOK_S = 60
HANG_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One look: bytes per second copied since the last one, and the fullest log dir with its share in use."""

    at_s: int
    bytes_per_s: float
    fullest: Place | None
    use: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DirPeak:
    """The most that a log dir held at any look, and when it went offline because it was full (None: never)."""

    place: Place
    peak_bytes: int
    total_bytes: int | None
    filled_at_s: int | None = None

    @property
    def use(self) -> float:
        """Share of the dir at its peak; 0 when its size is unknown."""
        return self.peak_bytes / self.total_bytes if self.total_bytes else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What came of one order under one throttle; `eta_s` and `bound_s` are the scheduler's, before the first byte.

    `duration_s` is None when it did not end: `hanging` then names partitions that still move or never could.
    """

    order: Order
    throttle: int | None
    duration_s: int | None
    eta_s: float
    bound_s: float
    bottleneck: Bottleneck | None
    copied_bytes: int
    peaks: tuple[DirPeak, ...]
    under_replicated_s: int
    under_min_isr_s: int
    offline_s: int
    hanging: tuple[TopicPartition, ...]
    immovable: Mapping[TopicPartition, str]
    detours: int
    samples: tuple[Sample, ...]

    @property
    def filled(self) -> tuple[DirPeak, ...]:
        """Log dirs that went offline."""
        return tuple(p for p in self.peaks if p.filled_at_s is not None)


def play(scene: Scene, request: SimulateRequest, order: Order, throttle: int | None) -> Case:
    """Simulate one case to its end, until nothing has moved for an hour, or until `most_s`.

    Cost: the schedule's, then about a millisecond a tick (see `Simulation.advance`).
    """
    schedule = plan_schedule(
        scene.tasks,
        scene.dir_tasks,
        scene.disks,
        request.limits,
        Rates(into=throttle, out=throttle, inside=throttle),
        Speeds(line_bytes_per_s=float(request.line_rate), efficiency=float(request.efficiency)),
        racks=scene.racks,
    )
    player = _Player(scene, request, schedule, order, throttle)
    duration = player.run()
    return Case(
        order=order,
        throttle=throttle,
        duration_s=duration,
        eta_s=schedule.makespan_s,
        bound_s=schedule.bound_s,
        bottleneck=schedule.bottleneck,
        copied_bytes=round(player.simulation.copied_bytes),
        peaks=tuple(player.peaks[place] for place in sorted(player.peaks)),
        under_replicated_s=player.simulation.under_replicated_s,
        under_min_isr_s=player.simulation.under_min_isr_s,
        offline_s=player.simulation.offline_s,
        hanging=() if duration is not None else tuple(sorted(player.unfinished)),
        immovable=schedule.immovable if order is Order.SCHEDULE else {},
        detours=len(schedule.detours) if order is Order.SCHEDULE else 0,
        samples=tuple(player.samples),
    )


class _Player:
    def __init__(
        self, scene: Scene, request: SimulateRequest, schedule: Schedule, order: Order, throttle: int | None
    ) -> None:
        self.simulation = Simulation(scene.cluster)
        for broker in scene.cluster.brokers:
            self.simulation.set_rates(broker.id, into=throttle, out=throttle)
            self.simulation.set_inside_rate(broker.id, throttle)
        self.samples: list[Sample] = []
        self.peaks: dict[Place, DirPeak] = {}
        self._starter = Starter(schedule, scene, order, request.limits)
        self._targets = {t.key: t.target for t in scene.tasks}
        self._faults: list[Fault] = list(request.faults)
        self._most_s = request.most_s
        self._look_s = max(1, min(LONGEST_LOOK_S, round(schedule.bound_s / LOOKS)))
        self._failed_before = {Place(d.broker, d.path) for d in self.simulation.disks if d.failed}

    @property
    def unfinished(self) -> list[TopicPartition]:
        """Partitions that are not where the plan wants them."""
        lists = self.simulation.lists
        moving = set(self.simulation.in_flight)
        lists_left = [k for k, target in self._targets.items() if k in moving or lists[k] != target]
        return lists_left or self._starter.waiting_keys

    def run(self) -> int | None:
        """Seconds until all was done; None when it was not."""
        simulation = self.simulation
        moved_at = 0
        while simulation.now_s < self._most_s:
            self._break_things()
            going = self._starter.next_steps(simulation)
            simulation.submit(going.moves)
            for replica, path in going.dir_moves:
                simulation.move_dir(replica, path)
            if self._starter.is_done:
                break
            before = self._progress()
            seconds = self._look_s
            if self._faults:
                seconds = max(1, min(seconds, self._faults[0].at_s - simulation.now_s))
            simulation.advance(seconds)
            self._note((simulation.copied_bytes - before[0]) / seconds)
            if self._progress() != before or self._faults:
                moved_at = simulation.now_s
            if simulation.now_s - moved_at >= HANG_S:
                break
        if self.unfinished:
            return None
        return max([*simulation.finished.values(), *simulation.finished_dirs.values()], default=0)

    def _progress(self) -> tuple[float, float, int]:
        simulation = self.simulation
        ended = len(simulation.finished) + len(simulation.finished_dirs)
        return simulation.copied_bytes, simulation.copied_inside_bytes, ended

    def _break_things(self) -> None:
        while self._faults and self._faults[0].at_s <= self.simulation.now_s:
            fault = self._faults.pop(0)
            (self.simulation.kill if fault.kind is FaultKind.KILL else self.simulation.revive)(fault.broker)

    def _note(self, rate: float) -> None:
        fullest: tuple[float, Place | None] = (0.0, None)
        for disk in self.simulation.disks:
            place = Place(disk.broker, disk.path)
            use = disk.used_bytes / disk.total_bytes if disk.total_bytes else 0.0
            if use > fullest[0]:
                fullest = (use, place)
            self._peak(place, disk)
        self.samples.append(Sample(at_s=self.simulation.now_s, bytes_per_s=rate, fullest=fullest[1], use=fullest[0]))

    def _peak(self, place: Place, disk: DiskSeen) -> None:
        old = self.peaks.get(place)
        newly = disk.failed and place not in self._failed_before
        if old is not None and old.peak_bytes >= disk.used_bytes and not (newly and old.filled_at_s is None):
            return
        filled = old.filled_at_s if old is not None else None
        self.peaks[place] = DirPeak(
            place=place,
            peak_bytes=max(disk.used_bytes, old.peak_bytes if old is not None else 0),
            total_bytes=disk.total_bytes,
            filled_at_s=self.simulation.now_s if newly and filled is None else filled,
        )
