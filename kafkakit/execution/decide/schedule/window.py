"""Which steps of a schedule may be sent now, from what brokers really report and not from what was predicted."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkakit.execution.decide.schedule.work import Limits, Place, Schedule, Step, StepKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a run stands: steps by index, and what log dirs report, in bytes.

    `usable` is the broker's figure now, `arriving_bytes_left` what copies on their way into a dir still have to
    bring. Steps dropped for good (their topic is gone, say) count as finished.
    """

    finished: frozenset[int] = frozenset()
    in_flight: frozenset[int] = frozenset()
    usable: Mapping[Place, int] = field(default_factory=dict)
    arriving_bytes_left: Mapping[Place, int] = field(default_factory=dict)


def startable(
    schedule: Schedule, standing: Standing, limits: Limits, totals: Mapping[Place, int | None]
) -> tuple[int, ...]:
    """Indexes of the steps to send now, in schedule order; O(steps not finished).

    A step may go when the step before it of its partition is finished, the limits on copies at a time allow it, and
    each dir it arrives in has its bytes free below `limits.limit_of` (`totals` are the dirs' sizes; a dir without a
    known size or use is not limited). No step overtakes an earlier one that arrives in the same dir; a step that
    waits for places at its leader or brokers keeps them from later ones, so that big ones are not starved.

    Why a run never hangs: look at the first step that is not sent. Every earlier one is sent and ends; then nothing
    of them is on its way, and their old copies are deleted in time. In the schedule's own account the same steps had
    at least been started when this one was, and a step that ends only frees space. Later steps that were sent already
    cannot have taken space in its dirs, for they would have overtaken it there; elsewhere they do not matter. So the
    space that the schedule counted on is there, nothing else uses its places, and it goes. What brokers take in beyond
    the prediction can still keep it waiting: that is a full disk, and the caller's to tell.
    """
    gate = _Gate(schedule, standing, limits, totals)
    for index in sorted(standing.in_flight):
        gate.occupy(schedule.steps[index])
    found = []
    for index, step in enumerate(schedule.steps):
        if index in standing.finished or index in standing.in_flight:
            continue
        if gate.is_full:
            break
        if gate.passes(step):
            gate.occupy(step)
            gate.reserve(step)
            found.append(index)
        else:
            gate.hold(step)
    return tuple(found)


class _Gate:
    """What is taken already in one call: slots at brokers, bytes and turns in dirs."""

    def __init__(
        self, schedule: Schedule, standing: Standing, limits: Limits, totals: Mapping[Place, int | None]
    ) -> None:
        self._standing, self._limits, self._totals = standing, limits, totals
        self._used: Counter[tuple[str, int]] = Counter()
        self._count = 0
        self._reserved: Counter[Place] = Counter()
        self._blocked: set[Place] = set()
        self._kept: set[tuple[str, int]] = set()
        self._keys = {schedule.steps[i].key for i in standing.in_flight}

    @property
    def is_full(self) -> bool:
        """True when no more partitions may be in flight."""
        return self._count >= self._limits.cluster

    def occupy(self, step: Step) -> None:
        """Count a step that is on its way."""
        self._count += 1
        self._used.update(_ends(step))
        self._keys.add(step.key)

    def reserve(self, step: Step) -> None:
        """Count the bytes of a step that is sent now: no report knows of them yet."""
        self._reserved.update(dict.fromkeys(step.adding, step.size_bytes))

    def hold(self, step: Step) -> None:
        """Let no later step take the turn of this one, nor places that it waits for."""
        behind = not self._blocked.isdisjoint(step.adding)
        self._blocked.update(step.adding)
        if not behind and self._ready(step) and all(self._has_space(p, step.size_bytes) for p in step.adding):
            self._kept.update(end for end in _ends(step) if not self._has_slot(end, _ends(step)[end]))

    def passes(self, step: Step) -> bool:
        """True when nothing is in the way of a step."""
        if not self._blocked.isdisjoint(step.adding) or not self._ready(step):
            return False
        if not all(self._has_space(p, step.size_bytes) for p in step.adding):
            return False
        return all(end not in self._kept and self._has_slot(end, need) for end, need in _ends(step).items())

    def _ready(self, step: Step) -> bool:
        return step.key not in self._keys and (step.after is None or step.after in self._standing.finished)

    def _has_slot(self, end: tuple[str, int], need: int) -> bool:
        most = {"into": self._limits.into_each, "out": self._limits.out_each, "inside": self._limits.inside_each}
        used = self._used[end]
        # One that asks for more than there is goes alone.
        return used + need <= most[end[0]] or not used

    def _has_space(self, place: Place, size: int) -> bool:
        total, usable = self._totals.get(place), self._standing.usable.get(place)
        if total is None or usable is None:
            return True
        used = total - usable + self._standing.arriving_bytes_left.get(place, 0) + self._reserved[place]
        return used + size <= self._limits.limit_of(total)


def _ends(step: Step) -> dict[tuple[str, int], int]:
    """The places at brokers that a step uses, and how many at each."""
    if step.kind is StepKind.INSIDE:
        return {("inside", p.broker): 1 for p in step.adding}
    ends = {("into", p.broker): 1 for p in step.adding}
    if step.adding and step.leader is not None:
        ends["out", step.leader] = len(step.adding)
    return ends
