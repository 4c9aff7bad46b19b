"""A forced placement's question as arrays: what stands where, what each partition may take, what a copy costs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.placement.group_rooms import Room
from kafkakit.placement.group_tags import kinds_of
from kafkakit.placement.problem import Minimize, PlacementProblem

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Bools, Ints

_MAX_COST = 1 << 62


@dataclass(frozen=True, slots=True)
class ForcedInputs:
    """The problem as arrays: replicas that may stay (`part`, `broker`), and per partition its rules.

    Partitions of one `kind` may use the same brokers: `open` has a row for each kind.
    """

    part: "Ints"
    broker: "Ints"
    rack: "Ints"
    rack_names: list[str]
    units: "Ints"
    repeats: "Ints"
    charged: "Bools"
    weight: "Ints"
    kind: "Ints"
    open: "Bools"

    @property
    def pools(self) -> int:
        """How many pools a kind has: one a rack, and one for brokers without a rack."""
        return len(self.rack_names) + 1

    @property
    def pool_of(self) -> "Ints":
        """The pool of each broker, counted from the first of a kind."""
        import numpy as np

        found: Ints = np.where(self.rack < 0, len(self.rack_names), self.rack)
        return found

    @property
    def rack_sizes(self) -> "Ints":
        """How many brokers of each rack each kind may use."""
        import numpy as np

        racks = np.arange(len(self.rack_names))
        found: Ints = (self.open[:, :, None] & (self.rack[:, None] == racks)).sum(axis=1)
        return found


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of a problem's partitions, what each may use, and its room for a partition that wants so many."""

    kinds: list[int]
    open: list[list[bool]]
    rooms: Mapping[tuple[int, int], Room]

    @classmethod
    def of(cls, problem: PlacementProblem) -> "Kinds":
        """Look at each kind once."""
        grouping, targets = problem.grouping, problem.targets
        kinds, open_to = kinds_of(problem.rule.tags, (p.key.topic for p in problem.partitions), targets)
        among = [frozenset(b for b, is_open in zip(targets, row, strict=True) if is_open) for row in open_to]
        wanted = sorted({(kind, p.wanted) for kind, p in zip(kinds, problem.partitions, strict=True)})
        return cls(kinds, open_to, {(k, w): grouping.narrowed(among[k]).room_beside((), w) for k, w in wanted})


def inputs_of(problem: PlacementProblem, kinds: Kinds) -> ForcedInputs:
    """The arrays of a problem."""
    import numpy as np

    racks = [problem.rack_of(b) for b in problem.targets]

    place = {b: k for k, b in enumerate(problem.targets)}
    names = sorted({r for r in racks if r})
    number = {r: k for k, r in enumerate(names)}
    pairs = [
        (i, place[b])
        for i, (p, kind) in enumerate(zip(problem.partitions, kinds.kinds, strict=True))
        for b in p.current
        if b in place and kinds.open[kind][place[b]]
    ]
    part, broker = (np.array([x[k] for x in pairs], dtype=np.int64) for k in (0, 1))
    room = [kinds.rooms[kind, p.wanted] for kind, p in zip(kinds.kinds, problem.partitions, strict=True)]
    return ForcedInputs(
        part=part,
        broker=broker,
        rack=np.array([number[r] if r else -1 for r in racks], dtype=np.int64),
        rack_names=names,
        units=np.array([r.units for r in room], dtype=np.int64),
        repeats=np.array([r.repeats for r in room], dtype=np.int64),
        charged=np.array([None in r.charged for r in room], dtype=bool),
        weight=_weights(problem),
        kind=np.array(kinds.kinds, dtype=np.int64),
        open=np.array(kinds.open, dtype=bool).reshape(len(kinds.open), len(racks)),
    )


def _weights(problem: PlacementProblem) -> "Ints":
    import numpy as np

    if problem.minimize is Minimize.MOVES:
        return np.ones(len(problem.partitions), dtype=np.int64)
    return np.array([p.size_bytes or 0 for p in problem.partitions], dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyCosts:
    """What a new copy of each partition costs in the flow; prices times `scale`, over `price_unit`, are in weights."""

    cost: "Ints"
    price_unit: int = 1
    scale: int = 1


def copy_costs(a: ForcedInputs, nodes: int, *, by_bytes: bool) -> CopyCosts:
    """Costs that the exact arithmetic of a flow over `nodes` nodes can hold.

    Bytes weigh so much, plus one a copy, that equal bytes are settled by fewer copies. Sizes too large for that
    count alone, and those too large even for that (beyond 5 TiB at 200,000 partitions) lose their lowest bits.
    """
    heaviest = int(a.weight.max(initial=0))
    step = len(a.part) + int(a.units.sum()) + 1
    if by_bytes and (heaviest * step + 1) * (nodes + 1) < _MAX_COST:
        return CopyCosts(cost=a.weight * step + 1, price_unit=step)
    shift = 0
    while (heaviest >> shift) * (nodes + 1) >= _MAX_COST:
        shift += 1
    return CopyCosts(cost=a.weight >> shift, scale=1 << shift)
