"""Exact byte balance of small clusters, read off snapshot and request alone; shares no code with the planners.

`Balance` states the problem, `by_enumeration` tries every placement, `by_program` is an integer program of its own.
Both answer the least cost (bytes or copies) of loads inside fixed limits or inside a window of a given width that
may lie anywhere, and the narrowest window that a budget buys.

The rules: a partition keeps its number of copies; only receivers get copies, only givers lose them. Without
`min_rack_ids` no rack holds more copies of a partition than it did before, or one. With it a set that repeats a rack
spans that many racks, or, if it broke this before, no fewer than before. With locality each rack keeps its number
of copies (brokers without a rack count as one rack). With even spread the numbers of copies on the targets' racks
differ by one at most; a set that broke this before may be any that gives no rack more than a share, or than before.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from typing import Any

from ortools.sat.python import cp_model

from kafkakit.core.model import Broker, ClusterSnapshot
from kafkakit.topicmappr.decide.requests import RebalanceRequest

Set = frozenset[int]
Limits = Mapping[int, tuple[int, int]]


@dataclass(frozen=True, kw_only=True)
class Balance:
    """The problem in plain values; loads in bytes by broker. `room` is what each broker may gain at most."""

    lists: Sequence[Sequence[int]]
    sizes: Sequence[int]
    racks: Mapping[int, str | None]
    targets: Sequence[int]
    receivers: Set
    givers: Set
    still: Set
    load: Mapping[int, int]
    free: Mapping[int, int]
    capacity: Mapping[int, int]
    room: Mapping[int, int]
    min_rack_ids: int = 0
    locality: bool = False
    spread_over: Sequence[str] = ()

    def legal(self, part: int) -> list[Set]:
        """Every set that the partition may end on."""
        old = frozenset(self.lists[part])
        if part in self.still:
            return [old]
        may = sorted(old | self.receivers)
        return [s for new in combinations(may, len(old)) if self._may_be(old, s := frozenset(new))]

    def _may_be(self, old: Set, new: Set) -> bool:
        if new == old:
            return True
        if not old - new <= self.givers:
            return False
        before, now = (Counter(r for b in s if (r := self.racks[b])) for s in (old, new))
        if self.locality:
            return before == now
        if self.spread_over:
            share = -(-len(old) // len(self.spread_over))
            uneven = [max(n := [c[r] for r in self.spread_over]) - min(n) > 1 for c in (before, now)]
            return not uneven[1] or (uneven[0] and all(now[r] <= max(share, before[r]) for r in self.spread_over))
        if self.min_rack_ids == 0:
            return all(n <= max(1, before[r]) for r, n in now.items())
        broken = [sum(c.values()) > len(c) < self.min_rack_ids for c in (before, now)]
        return not broken[1] or (broken[0] and len(now) >= len(before))

    def hard(self) -> Limits:
        """What holds whatever the goal: nobody ends above today's load plus room."""
        return {b: (-(1 << 60), self.load[b] + self.room[b]) for b in self.load}

    def band(self, ppm: int) -> Limits:
        """Every target within so many millionths of its share by capacity."""
        total = sum(self.load[b] for b in self.targets)
        weight = {b: self.capacity[b] for b in self.targets}
        if not all(weight.values()):
            weight = dict.fromkeys(self.targets, 1)
        share = {b: total * w // sum(weight.values()) for b, w in weight.items()}
        rest = total - sum(share.values())
        for b in sorted(self.targets)[:rest]:
            share[b] += 1
        limits = dict(self.hard())
        for b, s in share.items():
            low, high = Fraction(s * (10**6 - ppm), 10**6), Fraction(s * (10**6 + ppm), 10**6)
            if s:  # a share of nothing has no band
                limits[b] = (max(0, -(-low.numerator // low.denominator)), min(int(high), limits[b][1]))
        return limits


def balance_of(snapshot: ClusterSnapshot, request: RebalanceRequest, givers: Sequence[int] | None = None) -> Balance:
    """Read the problem off the snapshot; all live brokers and all topics take part."""
    rows = [(name, p) for name, p in snapshot.partitions()]
    live = [b for b in snapshot.brokers if b.is_alive]
    ids = sorted({b.id for b in live} | {b for _, p in rows for b in p.replicas})
    takers = [b for b in live if not b.log_dirs or any(d.error is None and not d.cordoned for d in b.log_dirs)]
    used: Counter[int] = Counter()
    for _, p in rows:
        for b, size in (p.replica_bytes or dict.fromkeys(p.replicas, p.size_bytes or 0)).items():
            used[b] += size
    still = {
        i
        for i, (name, p) in enumerate(rows)
        if (p.known_bytes or 0) < request.smallest_bytes
        or (p.isr is not None and not {b.id for b in live} & set(p.isr))
        or name in request.pinned
        or f"{name}/{p.partition}" in request.pinned
    }
    disks = {b.id: _disk(b, used[b.id]) for b in live}
    room = {}
    for broker in live:
        free, capacity = disks[broker.id]
        working = [d for d in broker.log_dirs if d.error is None]
        opened = sum(d.usable_bytes or 0 for d in working if not d.cordoned) if broker.log_dirs else free
        unusable = capacity - int(capacity * request.max_disk_use)
        room[broker.id] = max(0, opened - request.head_room_bytes - unusable)
    return Balance(
        lists=[p.replicas for _, p in rows],
        sizes=[p.known_bytes or 0 for _, p in rows],
        racks={b: next((x.rack or None for x in snapshot.brokers if x.id == b), None) for b in ids},
        targets=[b.id for b in live],
        receivers=frozenset(b.id for b in takers if givers is None or b.id not in givers),
        givers=frozenset(ids if givers is None else givers),
        still=frozenset(still),
        load={b: used[b] for b in ids},
        free={b: disks[b][0] if b in disks else 0 for b in ids},
        capacity={b: disks[b][1] if b in disks else 0 for b in ids},
        room={b: room.get(b, 0) for b in ids},
        min_rack_ids=request.min_rack_ids,
        locality=request.locality_scoped,
        spread_over=sorted({b.rack for b in takers if b.rack}) if request.spread else (),
    )


def _disk(broker: Broker, used: int) -> tuple[int, int]:
    """(free, capacity) of a live broker."""
    if broker.storage_free_bytes is not None:
        return broker.storage_free_bytes, used + broker.storage_free_bytes
    working = [d for d in broker.log_dirs if d.error is None]
    return sum(d.usable_bytes or 0 for d in working), sum(d.total_bytes or 0 for d in working)


def by_enumeration(balance: Balance, cost_of: Callable[[int], int]) -> Iterator[tuple[int, dict[int, int]]]:
    """(cost, loads) of every placement; `cost_of` a partition's copy."""
    legal = [balance.legal(p) for p in range(len(balance.lists))]
    for sets in product(*legal):
        loads, cost = dict(balance.load), 0
        for part, new in enumerate(sets):
            old, size = set(balance.lists[part]), balance.sizes[part]
            for b in new - old:
                loads[b] += size
                cost += cost_of(part)
            for b in old - new:
                loads[b] -= size
        yield cost, loads


def inside(loads: Mapping[int, int], limits: Limits) -> bool:
    """True when every load is inside its limits."""
    return all(low <= loads[b] <= high for b, (low, high) in limits.items())


def free_range(balance: Balance, loads: Mapping[int, int]) -> int:
    """Largest less smallest free bytes of the targets, at these loads."""
    free = [balance.free[b] + balance.load[b] - loads[b] for b in balance.targets]
    return max(free) - min(free)


class Program:
    """The same by CP-SAT: one variable per partition and legal set."""

    def __init__(self, balance: Balance, *, copies: bool = False) -> None:
        self.balance, self.model = balance, cp_model.CpModel()
        change: dict[int, Any] = dict.fromkeys(balance.load, 0)
        self.cost: Any = 0
        self.copies: Any = 0
        for part, size in enumerate(balance.sizes):
            old = set(balance.lists[part])
            chosen = []
            for new in balance.legal(part):
                x = self.model.new_bool_var("")
                chosen.append(x)
                for b in new - old:
                    change[b] = change[b] + size * x
                for b in old - new:
                    change[b] = change[b] - size * x
                self.cost = self.cost + size * len(new - old) * x
                self.copies = self.copies + len(new - old) * x
            self.model.add_exactly_one(chosen)
        self.load = {b: balance.load[b] + change[b] for b in balance.load}
        self.goal = self.copies if copies else self.cost

    def keep(self, limits: Limits) -> None:
        """Hold every load inside its limits."""
        for b, (low, high) in limits.items():
            self.model.add(self.load[b] <= high)
            if low > -(1 << 60):
                self.model.add(self.load[b] >= low)

    def even(self, width: int | None) -> Any:
        """Hold the free bytes of the targets within `width`; None returns the width as a variable."""
        reach = 2 * (sum(map(abs, self.balance.load.values())) + sum(map(abs, self.balance.free.values()))) + 1
        low = self.model.new_int_var(-reach, reach, "low")
        span = self.model.new_int_var(0, 2 * reach, "span") if width is None else width
        for b in self.balance.targets:
            free = self.balance.free[b] + self.balance.load[b] - self.load[b]
            self.model.add(free >= low)
            self.model.add(free <= low + span)
        return span

    def least(self, goal: Any = None) -> int | None:
        """The least value of `goal` (default: the cost); None when there is no placement."""
        self.model.minimize(self.goal if goal is None else goal)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.presolve_inclusion_work_limit = 0  # overflows with sizes of some GiB
        solver.parameters.cp_model_probing_level = 0  # creeps byte by byte through large ranges
        solver.parameters.max_deterministic_time = 60
        status = solver.solve(self.model)
        assert status in (cp_model.OPTIMAL, cp_model.INFEASIBLE), "the exact model was not solved to the end"
        return int(solver.value(self.goal if goal is None else goal)) if status == cp_model.OPTIMAL else None


def cheapest_within(balance: Balance, limits: Limits, *, copies: bool = False) -> int | None:
    """The least cost of loads inside fixed limits; None when nothing fits."""
    program = Program(balance, copies=copies)
    program.keep(limits)
    return program.least()


def cheapest_in_range(balance: Balance, width: int, *, copies: bool = False) -> int | None:
    """The least cost of a range of free bytes of at most `width`; None when nothing fits."""
    program = Program(balance, copies=copies)
    program.keep(balance.hard())
    program.even(width)
    return program.least()


def narrowest(balance: Balance, *, moved_bytes: int | None = None, moves: int | None = None) -> int | None:
    """The smallest range of free bytes that the budgets buy."""
    program = Program(balance)
    program.keep(balance.hard())
    if moved_bytes is not None:
        program.model.add(program.cost <= moved_bytes)
    if moves is not None:
        program.model.add(program.copies <= moves)
    return program.least(program.even(None))
