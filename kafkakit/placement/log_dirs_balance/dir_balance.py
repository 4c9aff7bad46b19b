"""The log dirs of one broker as a small cluster for the byte balance: dirs are its brokers, without racks.

Arriving copies stand on a stub that must end empty, so whatever places them is a plan of the ordinary kind, and its
bound less what arrives is the least that has to change dirs inside the broker.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kafkakit.placement.bytes import exact as small
from kafkakit.placement.bytes.attempt import attempt
from kafkakit.placement.bytes.balance_goal import BalanceProblem, Bands, shares
from kafkakit.placement.bytes.lp_relaxation import masses_of
from kafkakit.placement.bytes.slots import Fleet
from kafkakit.placement.bytes.tightening import Unwatched, tighten, tightest_split
from kafkakit.placement.bytes.window import Limits, Window, fixed_window
from kafkakit.placement.group_rule import RackRule
from kafkakit.placement.log_dirs_balance.broker_dir_state import Shelf

Ints = Any
Copy = tuple[int, int]
"""(bytes, partition index)"""
_TRIES = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """Where copies end when a broker's dirs are levelled.

    `chosen` is the dir of each arriving partition, `moved` holds (partition index, bytes, from, to), `bound` the
    least bytes that any plan moves. `reached` is the narrowest band, in millionths of a share, that was reached.
    """

    chosen: dict[int, int]
    moved: tuple[tuple[int, int, int, int], ...]
    used: list[int]
    bound: int
    reached: int


def pack(shelf: Shelf, arrivals: Sequence[Copy], room: Sequence[int], *, search: bool) -> list[int] | None:
    """A dir for each arrival so that no dir gets more than its room, or None when none is found."""
    fleet = _fleet(shelf, arrivals, ())
    limits = _limits(shelf, room)
    window = fixed_window(fleet, masses_of(fleet), limits.floor, limits.ceiling)
    if not window.possible:
        return None
    found = attempt(fleet, masses_of(fleet), window)
    at = found.at if not found.outside else None
    if at is None and search and small.is_small(fleet):
        at = small.cheapest(fleet, limits, None).at
    return None if at is None else _places(shelf, at)


class Leveller:
    """Levels the dirs of one broker; `room` says how much may come to each dir."""

    def __init__(self, shelf: Shelf, room: Sequence[int]) -> None:
        import numpy as np

        self.shelf = shelf
        self.fleet = _fleet(shelf, shelf.arrivals, shelf.standing)
        self.limits = _limits(shelf, room)
        self.arriving = sum(size for size, _ in shelf.arrivals)
        level = self.arriving + sum(k for k, takes in zip(shelf.kept, shelf.open, strict=True) if takes)
        self.share: Ints = shares(level, np.array([0, *shelf.capacity]), self.limits.even)
        self.problem = BalanceProblem.of(self.fleet, Bands(self.limits, self.share))

    def measure(self, used: Sequence[int]) -> int:
        """The narrowest band, in millionths, that holds these used bytes."""
        import numpy as np

        return self.problem.family.measure(np.array([0, *used], dtype=np.int64))

    def level(self, band: int, *, search: bool) -> Level | None:
        """The fewest bytes found that bring every dir within the band (millionths); None where nothing does."""
        window = self.problem.window(band)
        return self._reach(window, search=search)

    def nearest(self, band: int, loosest: int) -> Level | None:
        """The narrowest band found between one that cannot be had and one that can (both in millionths)."""
        best: Level | None = None

        def trial(aim: int) -> tuple[bool, int]:
            nonlocal best
            found = self.level(aim, search=False)
            best = best if found is None else found
            return found is not None, loosest if best is None else min(aim, best.reached)

        low = max(band, tightest_split(self.problem, loosest))
        tighten(trial, low, low, loosest, Unwatched(), steps=(2,) * _TRIES, close=lambda _: 0)
        return best

    def _reach(self, window: Window, *, search: bool) -> Level | None:
        if not window.possible:
            return None
        found = attempt(self.fleet, self.problem.masses, window)
        if search and small.is_small(self.fleet) and (found.outside or found.cost > window.bound.value):
            fixed = Limits(floor=window.floor, ceiling=window.ceiling, even=self.limits.even, offset=self.limits.offset)
            answer = small.cheapest(self.fleet, fixed, None)
            if answer.at is not None:
                bound = answer.cost if answer.proven else window.bound.value
                return self._level(answer.at, bound)
            return None
        return None if found.outside else self._level(found.at, window.bound.value)

    def _level(self, at: Ints, bound: int) -> Level:
        shelf, count = self.shelf, len(self.shelf.arrivals)
        places = _places(shelf, at)
        used = self.fleet.loads(at).tolist()[1:]
        moved = tuple(
            (partition, size, source, n)
            for (size, partition, source), n in zip(shelf.standing, places[count:], strict=True)
            if n != source
        )
        return Level(
            chosen={p: n for (_, p), n in zip(shelf.arrivals, places, strict=False)},
            moved=moved,
            used=used,
            bound=bound - self.arriving,
            reached=self.measure(used),
        )


def _fleet(shelf: Shelf, arrivals: Sequence[Copy], standing: Sequence[tuple[int, int, int]]) -> Fleet:
    """Dirs as brokers 1 and up; broker 0 is the stub that holds the arrivals."""
    import numpy as np

    count, slots = len(shelf.dirs) + 1, len(arrivals) + len(standing)
    size = np.array([a[0] for a in arrivals] + [s[0] for s in standing], dtype=np.int64)
    home = np.array([0] * len(arrivals) + [s[2] + 1 for s in standing], dtype=np.int64)
    fixed = np.array([0, *shelf.kept], dtype=np.int64)
    np.subtract.at(fixed, home[len(arrivals) :], size[len(arrivals) :])
    return Fleet(
        brokers=tuple(range(count)),
        rack=np.arange(count),
        racks=0,
        receiver=np.array([False, *shelf.open]),
        fixed=fixed,
        first=np.arange(slots + 1),
        part=np.arange(slots),
        home=home,
        movable=np.ones(slots, dtype=bool),
        still=np.zeros(slots, dtype=bool),
        size=size,
        # Dirs have no racks; a rule that never binds keeps the split plan to one pool.
        rule=RackRule(1),
    )


def _places(shelf: Shelf, at: Ints) -> list[int]:
    """Dirs by index; copies without a byte may be left on the stub, and any open dir does for them."""
    spare = shelf.open.index(True)
    return [n - 1 if n else spare for n in at.tolist()]


def _limits(shelf: Shelf, room: Sequence[int]) -> Limits:
    import numpy as np

    kept = shelf.kept
    ceiling = [k + (r if takes else 0) for k, r, takes in zip(kept, room, shelf.open, strict=True)]
    return Limits(
        floor=np.zeros(len(kept) + 1, dtype=np.int64),
        ceiling=np.array([0, *ceiling], dtype=np.int64),
        even=np.array([False, *shelf.open]),
        offset=np.zeros(len(kept) + 1, dtype=np.int64),
    )
