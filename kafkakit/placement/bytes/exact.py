"""Small clusters, solved to the end: an integer program in which every partition chooses its brokers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafkakit.placement.bytes.slots import Fleet
from kafkakit.placement.bytes.window import Limits

WORK = 4.0
"""CP-SAT's deterministic time; about as many seconds, and the same on every machine."""
LARGEST = 600
"""Choices (partition x broker) up to which a cluster counts as small."""
TINY = 100
"""Choices up to which it is searched to the end whatever there is to win."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallAnswer:
    """What the search found: an assignment or None, whether it is proven best, and the width of its loads."""

    at: Any | None
    proven: bool
    cost: int = 0
    moves: int = 0
    width: int = 0
    low: int = 0


def is_small(fleet: Fleet) -> bool:
    """True when the integer program is small enough to be solved to the end."""
    return choices(fleet) <= LARGEST


def choices(fleet: Fleet) -> int:
    """Partitions times brokers."""
    return len(fleet.size) * len(fleet.brokers)


def cheapest(fleet: Fleet, limits: Limits, width: int | None, *, by_moves: bool = False) -> SmallAnswer:
    """The fewest load (or copies) to copy so that loads keep the limits and, with a width, lie in one window."""
    model = _Model(fleet, limits, width=width, by_moves=by_moves)
    return model.solve(model.cost)


def tightest(fleet: Fleet, limits: Limits, load: int | None, moves: int | None, least: int) -> SmallAnswer:
    """The narrowest window that loads can reach with at most so much load and so many copies (None: any amount).

    `least` is a width that no plan goes below, or below which none is wanted.
    """
    model = _Model(fleet, limits, width=None, slides=True)
    if load is not None:
        model.program.add(model.cost <= load)
    if moves is not None:
        model.program.add(model.copies <= moves)
    model.program.add(model.high - model.low >= least)
    return model.solve(model.high - model.low)


class _Model:
    """Variables: partition p on broker b; the window's ends where it slides."""

    def __init__(
        self, fleet: Fleet, limits: Limits, *, width: int | None, slides: bool = False, by_moves: bool = False
    ) -> None:
        from ortools.sat.python import cp_model

        self.program = cp_model.CpModel()
        self.fleet, self.limits = fleet, limits
        self.choice: dict[tuple[int, int], Any] = {}
        self.broken: list[Any] = []
        current = self._slots()
        for part in range(len(fleet.size)):
            self._partition(part, current)
        if fleet.most_broken is not None:
            self.program.add(sum(self.broken) <= fleet.most_broken)
        loads = self._loads()
        largest = int(fleet.fixed.sum() + fleet.slot_size.sum())
        self.low: Any = 0
        self.high: Any = 0
        if slides or width is not None:
            reach = largest + int(abs(limits.offset).max(initial=0)) + 1
            self.low = self.program.new_int_var(-reach, reach, "low")
            self.high = self.program.new_int_var(-reach, reach, "high") if slides else self.low + width
        for b, number in enumerate(self._numbers() if fleet.counts else []):
            assert fleet.counts is not None
            self.program.add(number >= fleet.counts.floor[b])
            self.program.add(number <= fleet.counts.ceiling[b])
        for b, load in enumerate(loads):
            self.program.add(load >= int(limits.floor[b]))
            self.program.add(load <= int(limits.ceiling[b]))
            if limits.even[b] and (slides or width is not None):
                self.program.add(load - int(limits.offset[b]) >= self.low)
                self.program.add(load - int(limits.offset[b]) <= self.high)
        self.cost = sum(
            (1 if by_moves else int(fleet.size[p])) * x for (p, b), x in self.choice.items() if b not in current[p]
        )
        self.copies = sum(x for (p, b), x in self.choice.items() if b not in current[p])
        for (p, b), x in self.choice.items():
            self.program.add_hint(x, b in current[p])

    def _slots(self) -> list[dict[int, int]]:
        """Per partition: broker -> slot."""
        fleet = self.fleet
        return [
            {int(fleet.home[s]): s for s in range(int(fleet.first[p]), int(fleet.first[p + 1]))}
            for p in range(len(fleet.size))
        ]

    def _partition(self, part: int, current: list[dict[int, int]]) -> None:
        fleet, here = self.fleet, current[part]
        stays = [b for b, s in here.items() if not fleet.movable[s]]
        for b in range(len(fleet.brokers)):
            if b in here or (fleet.receiver[b] and len(stays) < len(here)):
                self.choice[part, b] = self.program.new_bool_var(f"p{part}b{b}")
        mine = {b: x for (p, b), x in self.choice.items() if p == part}
        self.program.add(sum(mine.values()) == len(here))
        for b in stays:
            self.program.add(mine[b] == 1)
        self._racks(mine, here)

    def _racks(self, mine: Mapping[int, Any], here: Mapping[int, int]) -> None:
        fleet, minimum = self.fleet, self.fleet.rule.min_rack_ids
        by_rack: dict[int, list[int]] = {}
        for b in mine:
            by_rack.setdefault(int(fleet.pool[b]), []).append(b)
        count = {r: sum(1 for b in here if fleet.pool[b] == r) for r in by_rack}
        real = [r for r in by_rack if r < fleet.racks]
        broken = self._may_break(here)
        if fleet.locality_scoped:
            for r, brokers in by_rack.items():
                self.program.add(sum(mine[b] for b in brokers) == count[r])
        elif fleet.rule.spread_over:
            self._spread(mine, by_rack, count, broken)
        elif not minimum:
            for r in real:
                self.program.add(sum(mine[b] for b in by_rack[r]) <= 1 + max(0, count[r] - 1) * broken)
        else:
            used = {r: self.program.new_bool_var("") for r in real}
            repeats = self.program.new_bool_var("")
            for r in real:
                inside = sum(mine[b] for b in by_rack[r])
                self.program.add(used[r] <= inside)
                self.program.add(inside <= 1).only_enforce_if(repeats.negated())
            self.program.add(sum(used.values()) >= minimum).only_enforce_if(repeats, broken.negated())
            self.program.add(sum(used.values()) >= sum(1 for r in real if count[r])).only_enforce_if(repeats, broken)

    def _spread(
        self, mine: Mapping[int, Any], by_rack: Mapping[int, list[int]], count: Mapping[int, int], broken: Any
    ) -> None:
        """Racks hold the least or one more, or, in a set that broke that before, no more than before or a share."""
        rule = self.fleet.rule
        least = self.program.new_int_var(0, sum(count.values()), "")
        for r in map(int, rule.spread_over):
            inside = sum(mine[b] for b in by_rack.get(r, ()))
            self.program.add(inside >= least).only_enforce_if(broken.negated())
            self.program.add(inside <= least + 1).only_enforce_if(broken.negated())
            if r in by_rack:
                self.program.add(inside <= max(rule.share(sum(count.values())), count.get(r, 0)))

    def _may_break(self, here: Mapping[int, int]) -> Any:
        """Whether this partition's set may go on breaking the rack rule; it counts against the most that may."""
        fleet = self.fleet
        racks = [str(r) if (r := int(fleet.pool[b])) < fleet.racks else None for b in here]
        broken = self.program.new_bool_var("")
        if fleet.rule.violates(racks, sum(1 for b in here if fleet.brokers[b] < 0)):
            self.broken.append(broken)
        else:
            self.program.add(broken == 0)
        return broken

    def _loads(self) -> list[Any]:
        fleet = self.fleet
        loads: list[Any] = [int(n) for n in fleet.fixed]
        for (p, b), x in self.choice.items():
            loads[b] = loads[b] + int(fleet.size[p]) * x
        return loads

    def _numbers(self) -> list[Any]:
        """How many replicas each broker ends with."""
        numbers: list[Any] = [0] * len(self.fleet.brokers)
        for (_, b), x in self.choice.items():
            numbers[b] = numbers[b] + x
        return numbers

    def solve(self, goal: Any) -> SmallAnswer:
        """Minimise, on one thread and with a fixed seed, so that the answer is always the same."""
        from ortools.sat.python import cp_model

        self.program.minimize(goal)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = 1
        # OR-Tools' presolve (9.15) multiplies loads with each other, overflows from some GiB on and calls programs
        # infeasible that are not; its probing narrows the window's ends byte by byte. Without it, these are solved
        # as well and sooner.
        solver.parameters.cp_model_presolve = False
        solver.parameters.catch_sigint_signal = False  # else Ctrl-C ends this search alone, and the next ends all
        solver.parameters.max_deterministic_time = WORK
        status = solver.solve(self.program)
        proven = status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return SmallAnswer(at=None, proven=proven)
        fleet = self.fleet
        at = fleet.home.copy()
        for part, here in enumerate(self._slots()):
            chosen = [b for (p, b), x in self.choice.items() if p == part and solver.value(x)]
            arriving = [b for b in chosen if b not in here]
            leaving = sorted(b for b in here if b not in chosen)
            for b, new in zip(leaving, self._paired(leaving, arriving), strict=True):
                at[here[b]] = new
        return SmallAnswer(
            at=at,
            proven=status == cp_model.OPTIMAL,
            cost=fleet.cost(at),
            moves=int((at != fleet.home).sum()),
            width=int(solver.value(self.high - self.low)) if not isinstance(self.high, int) else 0,
            low=int(solver.value(self.low)) if not isinstance(self.low, int) else 0,
        )

    def _paired(self, leaving: list[int], arriving: list[int]) -> list[int]:
        """Which new broker stands for which old one: same rack first, then by number."""
        left = sorted(arriving)
        answer: dict[int, int] = {}
        for old in leaving:
            same = next((b for b in left if self.fleet.pool[b] == self.fleet.pool[old]), None)
            if same is not None:
                answer[old] = same
                left.remove(same)
        for old in leaving:
            if old not in answer:
                answer[old] = left.pop(0)
        return [answer[old] for old in leaving]
