"""The log dirs of one broker as a small cluster for the byte balance: dirs are its brokers, without racks.

Arriving copies lie on a placeholder that must end empty, so what places them is a plan of the ordinary kind, and its
bound less what arrives is the least that has to change dirs inside the broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.placement.bytes import exact as small
from kafkakit.placement.bytes.attempt import attempt
from kafkakit.placement.bytes.balance_goal import BalanceProblem, BandGoal, shares
from kafkakit.placement.bytes.lp_relaxation import demand_groups_of
from kafkakit.placement.bytes.slots import SlotTable, make_table
from kafkakit.placement.bytes.tightening import tighten, tightest_relaxed
from kafkakit.placement.bytes.window import Limits, Window, fixed_window
from kafkakit.placement.group_rule import GroupRule
from kafkakit.placement.log_dirs_balance.broker_dir_state import BrokerDirState
from kafkakit.placement.watch import Watch

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Ints

Copy = tuple[int, int]
"""(bytes, partition index)"""
_TRIES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class BalancedDirs:
    """Where copies end when a broker's dirs are balanced.

    `chosen` is the dir of each arriving partition, `moved` holds (partition index, bytes, from, to), `bound` the
    least bytes that any plan moves. `reached` is the narrowest band, in millionths of a share, that was reached.
    """

    chosen: dict[int, int]
    moved: tuple[tuple[int, int, int, int], ...]
    used: list[int]
    bound: int
    reached: int


def pack(
    dir_state: BrokerDirState, arrivals: Sequence[Copy], room: Sequence[int], watch: Watch, *, search: bool
) -> list[int] | None:
    """A dir for each arrival so that no dir gets more than its room, or None when none is found."""
    table = _table(dir_state, arrivals, ())
    limits = _limits(dir_state, room)
    window = fixed_window(table, demand_groups_of(table), limits.floor, limits.ceiling)
    if not window.possible:
        return None
    found = attempt(table, demand_groups_of(table), window)
    at = found.at if not found.outside else None
    if at is None and search and small.is_small(table):
        at = small.cheapest(table, limits, None, watch=watch).at
    return None if at is None else _places(dir_state, at)


class DirBalancer:
    """Balances the dirs of one broker; `room` says how much may come to each dir."""

    def __init__(self, dir_state: BrokerDirState, room: Sequence[int], watch: Watch) -> None:
        import numpy as np

        self.dir_state, self.watch = dir_state, watch
        self.table = _table(dir_state, dir_state.arrivals, dir_state.standing)
        self.limits = _limits(dir_state, room)
        self.arriving = sum(size for size, _ in dir_state.arrivals)
        level = self.arriving + sum(k for k, takes in zip(dir_state.kept, dir_state.open, strict=True) if takes)
        self.share: Ints = shares(level, np.array([0, *dir_state.capacity]), self.limits.even)
        self.problem = BalanceProblem.of(self.table, BandGoal(self.limits, self.share))

    def measure(self, used: Sequence[int]) -> int:
        """The narrowest band, in millionths, that holds these used bytes."""
        import numpy as np

        return self.problem.balance.measure(np.array([0, *used], dtype=np.int64))

    def level(self, band: int, *, search: bool) -> BalancedDirs | None:
        """The fewest bytes found that bring every dir within the band (millionths); None where nothing does."""
        window = self.problem.window(band)
        return self._reach(window, search=search)

    def nearest(self, band: int, loosest: int) -> BalancedDirs | None:
        """The narrowest band found between one that cannot be had and one that can (both in millionths)."""
        best: BalancedDirs | None = None

        def trial(aim: int) -> tuple[bool, int]:
            nonlocal best
            found = self.level(aim, search=False)
            best = best if found is None else found
            return found is not None, loosest if found is None else min(aim, found.reached)

        low = max(band, tightest_relaxed(self.problem, loosest))
        tighten(trial, low, low, loosest, self.watch, steps=(2,) * _TRIES, close=lambda _: 0)
        return best

    def _reach(self, window: Window, *, search: bool) -> BalancedDirs | None:
        if not window.possible:
            return None
        found = attempt(self.table, self.problem.demand, window)
        if search and small.is_small(self.table) and (found.outside or found.cost > window.bound.value):
            fixed = Limits(floor=window.floor, ceiling=window.ceiling, even=self.limits.even, offset=self.limits.offset)
            answer = small.cheapest(self.table, fixed, None, watch=self.watch)
            if answer.at is not None:
                bound = answer.cost if answer.proven else window.bound.value
                return self._level(answer.at, bound)
        return None if found.outside else self._level(found.at, window.bound.value)

    def _level(self, at: Ints, bound: int) -> BalancedDirs:
        dir_state, count = self.dir_state, len(self.dir_state.arrivals)
        places = _places(dir_state, at)
        used = self.table.loads(at).tolist()[1:]
        moved = tuple(
            (partition, size, source, n)
            for (size, partition, source), n in zip(dir_state.standing, places[count:], strict=True)
            if n != source
        )
        return BalancedDirs(
            chosen={p: n for (_, p), n in zip(dir_state.arrivals, places, strict=False)},
            moved=moved,
            used=used,
            bound=bound - self.arriving,
            reached=self.measure(used),
        )


def _table(dir_state: BrokerDirState, arrivals: Sequence[Copy], standing: Sequence[tuple[int, int, int]]) -> SlotTable:
    """Dirs as brokers 1 and up; broker 0 is the placeholder that holds the arrivals."""
    fixed = dict(enumerate((0, *dir_state.kept)))
    for size, _, source in standing:
        fixed[source + 1] -= size
    return make_table(
        [[0] for _ in arrivals] + [[source + 1] for *_, source in standing],
        [size for size, *_ in (*arrivals, *standing)],
        {},
        GroupRule(1),  # dirs have no racks; a rule that never binds keeps the LP relaxation to one pool
        receivers=[n + 1 for n, takes in enumerate(dir_state.open) if takes],
        fixed=fixed,
    )


def _places(dir_state: BrokerDirState, at: Ints) -> list[int]:
    """Dirs by index; copies without a byte may be left on the placeholder, and any open dir does for them."""
    spare = dir_state.open.index(True)
    return [n - 1 if n else spare for n in at.tolist()]


def _limits(dir_state: BrokerDirState, room: Sequence[int]) -> Limits:
    import numpy as np

    kept = dir_state.kept
    ceiling = [k + (r if takes else 0) for k, r, takes in zip(kept, room, dir_state.open, strict=True)]
    return Limits(
        floor=np.zeros(len(kept) + 1, dtype=np.int64),
        ceiling=np.array([0, *ceiling], dtype=np.int64),
        even=np.array([False, *dir_state.open]),
        offset=np.zeros(len(kept) + 1, dtype=np.int64),
    )
