"""A simulation that tests look into: copies of moving partitions, brokers and what runs over their lines, disks."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kafkakit.core.model import TopicPartition
from kafkakit.simulator.cluster import ABSENT, DiskSeen, SimCluster, State
from kafkakit.simulator.simulation import Simulation

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySeen:
    """One copy of a partition that moves."""

    key: TopicPartition
    broker: int
    log_dir: str
    bytes: int
    in_isr: bool
    adding: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSeen:
    """One broker; rates are bytes per second in the last tick.

    `moved_into` and `moved_out` are copying alone, `use_into` and `use_out` the share of the line that all traffic
    takes. `queue` stands for produce latency: how far the demand in the fuller direction is above the line
    (0: everything fits at once).
    """

    id: int
    alive: bool
    moved_into: float
    moved_out: float
    use_into: float
    use_out: float
    queue: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The cluster at `at_s`: copies of moving partitions, brokers by id, disks, and finish times of moves so far."""

    at_s: int
    copies: tuple[CopySeen, ...]
    brokers: tuple[BrokerSeen, ...]
    disks: tuple[DiskSeen, ...]
    finished: Mapping[TopicPartition, int]
    under_replicated: int
    under_min_isr: int
    offline: int


class ObservedSimulation(Simulation):
    """Keeps the rates of copying in the last tick by broker, and what quotas would have let through (into, out)."""

    def __init__(self, cluster: SimCluster) -> None:
        super().__init__(cluster)
        brokers = len(cluster.brokers)
        self.into, self.out, self.demand = np.zeros(brokers), np.zeros(brokers), np.zeros((2, brokers))

    def observe(self) -> Observation:
        """What can be seen now."""
        state = self._state
        return Observation(
            at_s=self.now_s,
            copies=_copies(state),
            brokers=_brokers(self),
            disks=self.disks,
            finished=dict(self.finished),
            under_replicated=state.under_replicated,
            under_min_isr=state.under_min_isr,
            offline=state.offline,
        )

    def _divided(self, wanted: Floats, line: tuple[Floats, Floats], quota: tuple[Floats, Floats]) -> Floats:
        flows = self._flows
        self.demand = np.vstack([np.where(flows.held_into, quota[1], 0), np.where(flows.held_out, quota[0], 0)])
        return super()._divided(wanted, line, quota)

    def _pass(self, seconds: int, factor: float, got: Floats) -> None:
        before = self.received.copy(), self.sent.copy()
        super()._pass(seconds, factor, got)
        self.into, self.out = (self.received - before[0]) / seconds, (self.sent - before[1]) / seconds


def _copies(state: State) -> tuple[CopySeen, ...]:
    seen = []
    for row in state.moving.nonzero()[0].tolist():
        end = float(state.log_end[row])
        for slot in (state.broker[row] != ABSENT).nonzero()[0].tolist():
            tracking = bool(state.tracking[row, slot])
            seen.append(
                CopySeen(
                    key=state.keys[row],
                    broker=state.broker_ids[state.broker[row, slot]],
                    log_dir=state.disk_path[state.disk[row, slot]],
                    bytes=round(end if tracking else float(state.have[row, slot])),
                    in_isr=bool(state.in_isr[row, slot]),
                    adding=bool(state.adding[row, slot]),
                )
            )
    return tuple(seen)


def _brokers(simulation: "ObservedSimulation") -> tuple[BrokerSeen, ...]:
    state, factor, into, out = simulation._state, simulation._factor(), simulation.into, simulation.out
    other_into = state.background_into + (state.produce_into + state.follow_into) * factor
    other_out = state.background_out + state.follow_out * factor
    use_into = (other_into + into) / state.line_into
    use_out = (other_out + out) / state.line_out
    # The demand of copying is what its quota lets through; without one it takes what others leave.
    demand = np.where(np.isfinite(simulation.demand), simulation.demand, np.vstack([into, out]))
    over_into = (other_into + demand[0]) / state.line_into - 1
    over_out = (other_out + demand[1]) / state.line_out - 1
    queue = np.maximum(0.0, np.maximum(over_into, over_out))
    return tuple(
        BrokerSeen(
            id=broker,
            alive=bool(state.alive[k]),
            moved_into=float(into[k]),
            moved_out=float(out[k]),
            use_into=float(use_into[k]),
            use_out=float(use_out[k]),
            queue=float(queue[k]),
        )
        for k, broker in enumerate(state.broker_ids)
    )
