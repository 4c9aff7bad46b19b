"""Which worker reads which partition, as a problem on arrays, and its answer."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Bools, Ints

NONE = -1
TOLERANCE = 0.1
"""How far a worker's load may be from its share before partitions move because of it."""
MOST_PARTITIONS = 1000
"""Of a worker: what fits into its grant document, unless names are long."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlacementProblem:
    """Partitions with loads (positive, any unit), and workers with capacities (any unit; 0: takes nothing).

    `level` is 0 for the most important lanes. `kind` chooses the column of `serves` (workers by kinds) that tells
    which workers can handle the partition. Zones are numbers, `NONE` for unknown; `owner` is the worker now or `NONE`.
    """

    load: "Ints"
    level: "Ints"
    kind: "Ints"
    zone: "Ints"
    owner: "Ints"
    capacity: "Ints"
    worker_zone: "Ints"
    serves: "Bools"
    most: int = MOST_PARTITIONS

    @property
    def size(self) -> tuple[int, int]:
        """How many partitions and workers there are."""
        return len(self.load), len(self.capacity)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlacementAnswer:
    """The worker of each partition (`NONE`: no worker may take it), and how many had to move or were moved for balance.

    `orphans` had no worker that may keep them; `moves` left a worker that could have kept them.
    """

    owner: "Ints"
    orphans: int
    moves: int


def shares_of(problem: PlacementProblem, level: int) -> "Ints":
    """Each worker's share of the load of lanes down to a level: of each kind, by capacity among those that serve it.

    In units of load, rounded up.
    """
    import numpy as np

    counted = problem.level <= level
    kinds = problem.serves.shape[1]
    loads = np.bincount(problem.kind[counted], weights=problem.load[counted], minlength=kinds)
    able = np.where(problem.serves, problem.capacity[:, None], 0).astype(np.float64)
    total = np.maximum(able.sum(axis=0), 1.0)
    shares: Ints = np.ceil(able @ (loads / total)).astype(np.int64)
    return shares


def loads_of(problem: PlacementProblem, owner: "Ints", level: int) -> "Ints":
    """The load of lanes down to a level that each worker has."""
    import numpy as np

    counted = (problem.level <= level) & (owner >= 0)
    sums = np.bincount(owner[counted], weights=problem.load[counted], minlength=len(problem.capacity))
    return sums.astype(np.int64)
