"""What the same balance costs at least, and what a plan of ours costs: the yardstick for a foreign map."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkakit.core.quantities import counted
from kafkakit.placement.by_size.layout import LoadsNow
from kafkakit.placement.by_size.lp_relaxation import PPM, BalanceGoal, BalanceProblem, RangeGoal, Window
from kafkakit.placement.by_size.proof import argument_of
from kafkakit.placement.by_size.slots import SlotTable, make_table
from kafkakit.placement.by_size.tightening import Budget, at_deviation, tightest, why_not
from kafkakit.placement.group_rule import GroupRule
from kafkakit.placement.problem import UNWATCHED, Watch

Lists = Sequence[tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Yardstick:
    """What the balance of a map costs by other means, in one unit (bytes or copies).

    `spent` is what the map costs, `bound` what every valid plan to that balance costs at least, `best` the
    cheapest plan known (None: none found). `reached` is how tight the map's loads are (bytes, replicas, or
    millionths), `goal` the deviation that plans are held to. `argument` says why the bound holds, or why no valid
    plan gets there (`possible` is False then). `finest` is the tightest that a plan of ours reaches with `spent`.
    """

    spent: int
    bound: int
    best: int | None
    before: int
    reached: int
    goal: int
    argument: str
    possible: bool = True
    finest: int | None = None

    @property
    def gap(self) -> float | None:
        """The part of what was spent that lies above the bound; None where the map goes below what is valid."""
        if not self.possible or self.spent < self.bound:
            return None
        return (self.spent - self.bound) / self.spent if self.spent else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditInputs:
    """The lists before and after, by partition, with the load of one copy, and who may do what.

    `settled` are indices whose list another plan must take over from the map as it is (their replication changes):
    their copies count on both sides. `immovable` ones cannot move at all.
    """

    before: Lists
    after: Lists
    weights: Sequence[int]
    racks: Mapping[int, str | None]
    rule: GroupRule
    receivers: frozenset[int]
    even: tuple[int, ...]
    settled: frozenset[int]
    immovable: frozenset[int]
    topics: tuple[str, ...] = ()

    @property
    def brokers(self) -> list[int]:
        """Every broker that anything is said of."""
        held = {b for lists in (self.before, self.after) for row in lists for b in row}
        return sorted(held | self.receivers | set(self.even))

    def table(self, lists: Lists, now: LoadsNow) -> SlotTable:
        """The arrays of these lists."""
        return make_table(
            lists,
            self.weights,
            self.racks,
            self.rule,
            receivers=self.receivers,
            pinned=sorted(self.settled | self.immovable),
            fixed=now.fixed,
            topics=self.topics,
        )

    def spent(self) -> tuple[int, int]:
        """What the map copies in all, and of that what settled partitions copy."""
        every = settled = 0
        for i, (old, new) in enumerate(zip(self.before, self.after, strict=True)):
            if old != new:
                cost = sum(1 for b in new if b not in old) * self.weights[i]
                every += cost
                settled += cost if i in self.settled else 0
        return every, settled


def measure(inputs: AuditInputs, now: LoadsNow, *, banded: bool) -> tuple[int, int]:
    """How tight the loads are before and after; with `banded` in millionths of each broker's share."""
    old, new = (inputs.table(lists, now) for lists in (inputs.before, inputs.after))
    balance = _balance(inputs, now, new, {}, banded=banded)
    return balance.measure(old.loads(old.home)), balance.measure(new.loads(new.home))


def compare(
    inputs: AuditInputs,
    now: LoadsNow,
    *,
    goal: int | None,
    banded: bool,
    valid: bool,
    by_bytes: bool,
    watch: Watch = UNWATCHED,
) -> Yardstick:
    """Hold the map against the bound and a plan of ours for the same balance.

    `goal` is the deviation that was wanted (None, or where the map misses it: the one it reaches). A `valid` map is
    a plan too, so the best is never above it. `by_bytes` the tightest that its cost buys is sought too. Cost: one
    plan, and by bytes up to seven more.
    """
    old, new = (inputs.table(lists, now) for lists in (inputs.before, inputs.after))
    loads_after = dict(zip(new.brokers, new.loads(new.home).tolist(), strict=True))
    even = set(inputs.even)
    caps = {b: load for b, load in loads_after.items() if b not in even and load < now.load.get(b, 0)}
    lists = [a if i in inputs.settled else b for i, (b, a) in enumerate(zip(inputs.before, inputs.after, strict=True))]
    table = inputs.table(lists, now)
    balance = _balance(inputs, now, new, caps, banded=banded)
    problem = BalanceProblem.of(table, balance)
    before, reached = balance.measure(old.loads(old.home)), balance.measure(new.loads(new.home))
    spent, settled = inputs.spent()
    wanted = reached if goal is None or reached > goal else goal
    found = at_deviation(problem, wanted)
    if not found.window.possible:
        reason = why_not(table, problem.demand, found.window, inputs.racks)
        return Yardstick(spent=spent, bound=0, best=None, before=before, reached=reached, goal=wanted,
                         argument=f"no valid plan gets there: {reason}", possible=False)  # fmt: skip
    bound = settled + (found.cost if found.proven and not found.outside else found.window.bound.value)
    options = [settled + found.cost] * (not found.outside) + [spent] * (valid and reached <= wanted)
    argument = argument_of(table, found.window) if by_bytes else _count_words(table, found.window)
    if settled:
        argument += f"; what partitions copy whose replication changes counts as it is ({settled})"
    finest_reached: int | None = None
    if by_bytes:
        finest_reached, _ = tightest(problem, Budget(moved_bytes=spent - settled), watch)
        finest_reached = min(finest_reached, reached) if valid else finest_reached
    return Yardstick(
        spent=spent,
        bound=bound,
        best=min(options, default=None),
        before=before,
        reached=reached,
        goal=wanted,
        argument=argument,
        finest=finest_reached,
    )


def _count_words(table: SlotTable, window: Window) -> str:
    """The bound on copies in words."""
    loads = table.loads(table.home)
    over, under = loads - window.ceiling, window.floor - loads
    words = []
    for amounts, side, text in (
        (over, window.prices > 0, "{} with {} above the window"),
        (under, window.prices < 0, "{} lacking {} to reach it"),
    ):
        chosen = side & (amounts > 0)
        if chosen.any():
            replicas = counted(int(amounts[chosen].sum()), "replica")
            words.append(text.format(counted(int(chosen.sum()), "broker"), replicas))
    if not words:
        return "every broker is inside its limits already, so nothing has to move"
    return f"{' and '.join(words)}: at least {counted(window.bound.value, 'copy', 'copies')}"


def _balance(
    inputs: AuditInputs, now: LoadsNow, table: SlotTable, caps: Mapping[int, int], *, banded: bool
) -> BalanceGoal:
    limits = now.limits(table, inputs.even, caps)
    if not banded:
        return RangeGoal(limits)
    return now.band(table, limits, int(table.loads(table.home)[limits.even].sum()))


def as_band(max_deviation: int) -> float:
    """Millionths as a percent."""
    return max_deviation / PPM * 100
