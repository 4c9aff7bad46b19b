"""A forced placement's question as arrays: what stands where, what each partition may take, what a copy costs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.placement.group_rooms import Room
from kafkakit.placement.problem import Minimize, PlacementProblem

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Bools, Ints

_MAX_COST = 1 << 62


@dataclass(frozen=True, slots=True)
class ForcedInputs:
    """The problem as arrays: present replicas on targets (`part`, `broker`), and per partition its rules."""

    part: "Ints"
    broker: "Ints"
    rack: "Ints"
    rack_names: list[str]
    units: "Ints"
    repeats: "Ints"
    charged: "Bools"
    weight: "Ints"


def inputs_of(problem: PlacementProblem, rooms: Mapping[int, Room]) -> ForcedInputs:
    """The arrays of a problem; `rooms[w]` is the room of a partition that wants w."""
    import numpy as np

    racks = [problem.rack_of(b) for b in problem.targets]

    place = {b: k for k, b in enumerate(problem.targets)}
    names = sorted({r for r in racks if r})
    number = {r: k for k, r in enumerate(names)}
    pairs = [(i, place[b]) for i, p in enumerate(problem.partitions) for b in p.current if b in place]
    part, broker = (np.array([x[k] for x in pairs], dtype=np.int64) for k in (0, 1))
    room = [rooms[p.wanted] for p in problem.partitions]
    return ForcedInputs(
        part=part,
        broker=broker,
        rack=np.array([number[r] if r else -1 for r in racks], dtype=np.int64),
        rack_names=names,
        units=np.array([r.units for r in room], dtype=np.int64),
        repeats=np.array([r.repeats for r in room], dtype=np.int64),
        charged=np.array([None in r.charged for r in room], dtype=bool),
        weight=_weights(problem),
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
