"""Small clusters, solved exactly: an integer program in which every partition chooses its brokers, goal after goal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkakit.placement.by_size.lp_relaxation import LoadLimits
from kafkakit.placement.by_size.slots import SlotTable
from kafkakit.placement.group_numbers import add_group_rule
from kafkakit.placement.watch import SearchWatch

if TYPE_CHECKING:
    from kafkakit.core.columns import Ints

WORK = 4.0
"""CP-SAT's deterministic time for one goal; about as many seconds, and the same on every machine."""
LARGEST = 600
"""Choices (partition x broker) up to which a cluster counts as small."""
TINY = 100
"""Choices up to which it is searched to the end whatever there is to win."""

Sets = tuple[frozenset[int], ...]
"""The brokers of each partition, as indices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallAnswer:
    """What the search found: an assignment or None, whether it is proven best, and the width of its loads."""

    at: "Ints | None"
    proven: bool
    cost: int = 0
    moves: int = 0
    width: int = 0
    low: int = 0


LARGEST_BY_MOVES = 6000
"""Choices up to which the fewest copies are searched, and a plan where the flows found none."""
SHORT_WORK = 0.5
"""The work where a plan is known and more than `TINY` choices are searched for a cheaper one."""
_BUILD_WORK = 7e-6  # of one choice, to state the program


def is_small(table: SlotTable) -> bool:
    """True when the integer program is small enough to be solved to the end."""
    return choices(table) <= LARGEST


def choices(table: SlotTable) -> int:
    """Partitions times brokers."""
    return len(table.size) * len(table.brokers)


def cheapest(
    table: SlotTable,
    limits: LoadLimits,
    width: int | None,
    *,
    by_moves: bool = False,
    most_load: int | None = None,
    most_moves: int | None = None,
    work: float = WORK,
    start: "Ints | None" = None,
    least: int = 0,
    any_will_do: bool = False,
    watch: SearchWatch,
) -> SmallAnswer:
    """The fewest load (or copies) to copy so that loads keep the limits and, with a width, lie in one window.

    No more than `most_load` and `most_moves` are copied (None: any amount). The search begins at `start`, a plan that
    is known, and ends at a cost of `least`, which no plan goes below; with `any_will_do` it ends at the first plan.
    """
    if not watch.grant(work):
        return SmallAnswer(at=None, proven=False)
    model = ExactModel(table, limits, width=width, watch=watch)
    _limit_spending(model, most_load, most_moves)
    goal = model.copies if by_moves else model.cost
    if least > 0:
        model.program.add(goal >= least)
    if start is not None:
        model.begin_at(start)
    return _answer(model, goal, work, any_will_do=any_will_do)


def _limit_spending(model: "ExactModel", load: int | None, moves: int | None) -> None:
    if load is not None:
        model.program.add(model.cost <= load)
    if moves is not None:
        model.program.add(model.copies <= moves)


def tightest(
    table: SlotTable, limits: LoadLimits, load: int | None, moves: int | None, least: int, watch: SearchWatch
) -> SmallAnswer:
    """The narrowest window that loads can reach with at most so much load and so many copies (None: any amount).

    `least` is a width that no plan goes below, or below which none is wanted.
    """
    if not watch.grant(WORK):
        return SmallAnswer(at=None, proven=False)
    model = ExactModel(table, limits, slides=True, watch=watch)
    _limit_spending(model, load, moves)
    model.program.add(model.width >= least)
    return _answer(model, model.width)


class ExactModel:
    """Variables: partition p on broker b; the window's ends where it slides.

    `size[p]` is what a copy of p weighs where it is now, `reserve[p]` what a new one does; both are the table's
    unless given. Brokers with a negative id hold openings: they are no choice, and with openings partitions may end
    with fewer copies than slots, down to those that may not move. `best` are the sets found so far.
    """

    def __init__(
        self,
        table: SlotTable,
        limits: LoadLimits,
        *,
        size: Sequence[int] | None = None,
        reserve: Sequence[int] | None = None,
        width: int | None = None,
        slides: bool = False,
        has_openings: bool = False,
        watch: SearchWatch,
    ) -> None:
        from ortools.sat.python import cp_model

        self.program: Any = cp_model.CpModel()
        self.table, self.limits, self.watch = table, limits, watch
        self.choice: dict[tuple[int, int], Any] = {}
        self._size: list[int] = table.size.tolist() if size is None else list(size)
        self._reserve: list[int] = self._size if reserve is None else list(reserve)
        self._has_openings = has_openings
        self._current = [
            {int(table.home[s]): s for s in range(int(table.first[p]), int(table.first[p + 1]))}
            for p in range(len(table.size))
        ]
        self._pool: list[int] = table.pool.tolist()
        self._broken: list[Any] = []
        for part in range(len(table.size)):
            self._add_partition(part)
        self._limit_leaders()
        if table.most_broken is not None:
            self.program.add(sum(self._broken) <= table.most_broken)
        self.loads = self._loads()
        self.low: Any = 0
        self.width: Any = width or 0
        self.window_low = 0
        self._limit_loads(width, slides=slides)
        new = [(p, x) for (p, b), x in self.choice.items() if b not in self._current[p]]
        self.cost = sum(self._size[p] * x for p, x in new)
        self.copies = sum(x for _, x in new)
        self.best: Sets = tuple(frozenset(here) for here in self._current)
        watch.spend(_BUILD_WORK * len(self.choice))

    def begin_at(self, at: "Ints") -> None:
        """Begin the next search with slots on the brokers `at`."""
        self.best = tuple(frozenset(at[list(here.values())].tolist()) for here in self._current)

    def _add_partition(self, part: int) -> None:
        table, here = self.table, self._current[part]
        stays = [b for b, s in here.items() if not table.movable[s]]
        for b, takes in enumerate(table.receiver.tolist()):
            may = takes and len(stays) < len(here) and (table.tags is None or table.tags.may_hold(part, b))
            if table.brokers[b] >= 0 and (b in here or may):
                self.choice[part, b] = self.program.new_bool_var(f"p{part}b{b}")
        mine = {b: x for (p, b), x in self.choice.items() if p == part}
        copies = sum(mine.values())
        self.program.add(copies <= len(here) if self._has_openings else copies == len(here))
        if self._has_openings and any(table.brokers[b] >= 0 for b in here):
            self.program.add(copies >= 1)  # no placement may lose the last copy
        for b in stays:
            self.program.add(mine[b] == 1)
        for brokers, most in [] if table.tags is None else table.tags.limits(part, list(here)):
            self.program.add(sum(mine[b] for b in brokers if b in mine) <= most)
        inside: dict[int, Any] = {}
        for b, x in mine.items():
            inside[self._pool[b]] = inside.get(self._pool[b], 0) + x
        before = [self._pool[b] for b in here if table.brokers[b] >= 0]
        openings = len(here) - len(before)
        if table.locality_scoped:
            for rack, copies in inside.items():
                self.program.add(copies == before.count(rack))
            return
        broken = add_group_rule(
            self.program, table.groups, inside, before, openings=openings, may_leave_open=self._has_openings
        )
        if broken is not None:
            self._broken.append(broken)

    def _limit_leaders(self) -> None:
        """Every partition has a leader among its brokers, within the ceilings."""
        limits = self.table.leaders
        if limits is None:
            return
        topic, led = limits.topic.tolist(), dict[tuple[int, int], list[Any]]()
        for part, is_fixed in enumerate(limits.fixed.tolist()):
            if is_fixed:
                continue
            may = {b: self.program.new_bool_var(f"l{part}b{b}") for (p, b) in self.choice if p == part}
            self.program.add_exactly_one(may.values())
            for b, x in may.items():
                self.program.add(x <= self.choice[part, b])
                led.setdefault((topic[part], b), []).append(x)
        for b, most in enumerate(limits.most.tolist()):
            self.program.add(sum(sum(xs) for (_, at), xs in led.items() if at == b) <= max(0, most))
        for key, xs in led.items() if limits.of_topic is not None else ():
            self.program.add(sum(xs) <= limits.topic_most(*key))

    def _loads(self) -> list[Any]:
        loads: list[Any] = [int(n) for n in self.table.loads(self.table.home)]
        for (p, b), x in self.choice.items():
            loads[b] = loads[b] + (self._size[p] * (x - 1) if b in self._current[p] else self._reserve[p] * x)
        return loads

    def _limit_loads(self, width: int | None, *, slides: bool) -> None:
        """Every load inside its limits, every number of copies too, and even brokers inside the window."""
        table, limits = self.table, self.limits
        high: Any = 0
        if slides or width is not None:
            most = sum(max(self._size[p], self._reserve[p]) * len(here) for p, here in enumerate(self._current))
            reach = int(table.fixed.sum()) + most + int(abs(limits.offset).max(initial=0)) + 1
            self.low = self.program.new_int_var(-reach, reach, "low")
            high = self.program.new_int_var(-reach, reach, "high") if slides else self.low + width
            self.width = high - self.low if slides else width
        if table.counts is not None:
            for b in range(len(self.loads)):
                number = sum(x for (_, at), x in self.choice.items() if at == b)
                self.program.add(number >= table.counts.floor[b])
                self.program.add(number <= table.counts.ceiling[b])
        for b, load in enumerate(self.loads):
            if table.brokers[b] < 0:
                continue
            self.program.add(load >= int(limits.floor[b]))
            self.program.add(load <= int(limits.ceiling[b]))
            if limits.even[b] and (slides or width is not None):
                self.program.add(load - int(limits.offset[b]) >= self.low)
                self.program.add(load - int(limits.offset[b]) <= high)

    def placed(self) -> Any:
        """How many partitions have a copy at all, and above all how many copies there are, as one number."""
        weight, total = len(self.table.size) + 1, []
        for part, here in enumerate(self._current):
            mine = [x for (p, _), x in self.choice.items() if p == part]
            some: Any = 1
            if all(self.table.movable[s] for s in here.values()):
                some = self.program.new_bool_var("")
                self.program.add(some <= sum(mine))
            total += [weight * sum(mine), some]
        return sum(total)

    def loads_of_best(self) -> list[int]:
        """Each broker's load with the best sets."""
        loads: list[int] = self.table.loads(self.table.home).tolist()
        for part, (here, chosen) in enumerate(zip(self._current, self.best, strict=True)):
            for b in here.keys() - chosen:
                loads[b] -= self._size[part]
            for b in chosen - here.keys():
                loads[b] += self._reserve[part]
        return loads

    def distance(self, brokers: Sequence[int], load: int) -> Any:
        """How far the loads of these brokers are from one load, all together."""
        reach = 2 * (int(abs(self.table.fixed).sum()) + sum(self._reserve) * len(self.table.brokers)) + abs(load)
        away = []
        for b in brokers:
            away.append(self.program.new_int_var(0, reach, ""))
            self.program.add(away[-1] >= self.loads[b] - load)
            self.program.add(away[-1] >= load - self.loads[b])
        return sum(away)

    def minimize(
        self,
        goal: Any,
        *,
        known: int | None = None,
        least: int | None = None,
        work: float = WORK,
        any_will_do: bool = False,
    ) -> tuple[bool, int | None]:
        """Make a goal least, and keep it so for the goals that follow; returns whether that is proven, and its value.

        `known` is the goal's value for `best` (None: that is no answer), `least` a value that it cannot go below;
        `any_will_do` ends the search at the first answer. No more work is done than the watch grants. On one thread and
        with a fixed seed, so that the answer is always the same unless the watch ends the search.
        """
        from ortools.sat.python import cp_model

        proven, value = known is not None and known == least, known
        for again in (False, True) if known is not None else (False,):
            granted = self.watch.grant(work)
            if proven or not granted or self.watch.stopped():
                break
            self.program.clear_hints()
            for (p, b), x in self.choice.items():
                self.program.add_hint(x, b in self.best[p])
            self.program.minimize(goal)
            solver = cp_model.CpSolver()
            solver.parameters.num_workers = 1
            solver.parameters.random_seed = 1
            # OR-Tools' presolve (9.15) multiplies loads with each other, overflows from some GiB on and calls programs
            # infeasible that are not; its probing narrows the window's ends byte by byte. Without it, these are solved
            # as well and sooner. Where an answer is known, a second search with it, by neighbourhoods of the best, may
            # find a better one.
            solver.parameters.cp_model_presolve = solver.parameters.interleave_search = again
            solver.parameters.presolve_inclusion_work_limit = 0
            solver.parameters.catch_sigint_signal = False  # else Ctrl-C ends this search alone, and the next ends all
            solver.parameters.max_deterministic_time = granted
            solver.parameters.stop_after_first_solution = any_will_do
            self.watch.solving(solver.stop_search)
            status = solver.solve(self.program)
            self.watch.solving(None)
            self.watch.spend(solver.deterministic_time)
            proven = status == cp_model.OPTIMAL or (known is None and status == cp_model.INFEASIBLE)
            found = status in (cp_model.OPTIMAL, cp_model.FEASIBLE)
            if found and (value is None or round(solver.value(goal)) < value):
                value = round(solver.value(goal))
                chosen: list[set[int]] = [set() for _ in self.best]
                for (p, b), x in self.choice.items():
                    if solver.value(x):
                        chosen[p].add(b)
                self.best = tuple(map(frozenset, chosen))
                self.window_low = int(solver.value(self.low))
        if value is not None:
            self.program.add(goal <= value)
        # Brokers that a partition found no space on may be closed to it for the sake of the others' places.
        return proven and (self.table.tags is None or self.table.tags.proven), value

    def positions(self) -> "Ints":
        """Where every slot goes for the best sets to come about; each must have as many brokers as slots."""
        at: Ints = self.table.home.copy()
        for here, chosen in zip(self._current, self.best, strict=True):
            leaving = sorted(b for b in here if b not in chosen)
            arriving = sorted(b for b in chosen if b not in here)
            for b, new in zip(leaving, self._paired(leaving, arriving), strict=True):
                at[here[b]] = new
        return at

    def _paired(self, leaving: list[int], arriving: list[int]) -> list[int]:
        """Which new broker stands for which old one: same rack first, then by number."""
        left = sorted(arriving)
        answer: dict[int, int] = {}
        for old in leaving:
            same = next((b for b in left if self.table.pool[b] == self.table.pool[old]), None)
            if same is not None:
                answer[old] = same
                left.remove(same)
        for old in leaving:
            if old not in answer:
                answer[old] = left.pop(0)
        return [answer[old] for old in leaving]


def _answer(model: ExactModel, goal: Any, work: float = WORK, *, any_will_do: bool = False) -> SmallAnswer:
    proven, value = model.minimize(goal, work=work, any_will_do=any_will_do)
    if value is None:
        return SmallAnswer(at=None, proven=proven)
    at, table = model.positions(), model.table
    return SmallAnswer(
        at=at,
        proven=proven,
        cost=table.cost(at),
        moves=int((at != table.home).sum()),
        width=value if goal is model.width else 0,
        low=model.window_low,
    )
