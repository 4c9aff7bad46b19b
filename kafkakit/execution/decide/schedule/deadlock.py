"""Nothing moves and nothing will: which one request breaks the deadlock at the least cost, and why none does.

All that is left waits for free space. First choice: one new copy of a task that asks for several. Else a copy leaves a
full dir for a spare place, in its own broker or over another one, and continues to its target later. Its bytes are
copied twice, so the smallest copy whose space lets another task go is taken.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from kafkakit.core.quantities import format_bytes
from kafkakit.execution.decide.schedule.partition_steps import Job, Leg
from kafkakit.execution.decide.schedule.schedule_state import ScheduleState


@dataclass(frozen=True, slots=True)
class _Copy:
    """A copy in a full dir that its job would give up."""

    job: int
    broker: int
    slot: int
    weight: float


def break_deadlock(
    state: ScheduleState, spares: Collection[int], racks: Mapping[int, str | None]
) -> tuple[int, Leg] | None:
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
            leg = _inside(state, copy) or _over_spare(state, copy, spares, racks)
            if leg is not None:
                state.jobs[copy.job].detoured = True
                return copy.job, leg
    return None


def free_full_dir(
    state: ScheduleState, slot: int, spares: Collection[int], racks: Mapping[int, str | None]
) -> tuple[int, Leg] | None:
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
        way = _inside(state, copy) or _over_spare(state, copy, spares, racks)
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
) -> tuple[int, Leg] | None:
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


def _inside(state: ScheduleState, copy: _Copy) -> Leg | None:
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
) -> Leg | None:
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
