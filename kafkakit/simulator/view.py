"""From the arrays of a simulation to what an observer sees."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.core.model import TopicPartition
from kafkakit.simulator.observation import BrokerSeen, CopySeen, DiskSeen, Observation
from kafkakit.simulator.state import ABSENT, State

if TYPE_CHECKING:
    from kafkakit.simulator.state import Floats


@dataclass(slots=True, kw_only=True)
class Traffic:
    """Bytes per second of copying in the last tick, by broker, and what quotas would have let through (into, out)."""

    into: "Floats"
    out: "Floats"
    demand: "Floats"


def observe(
    state: State,
    traffic: Traffic,
    factor: float,
    disks: tuple[DiskSeen, ...],
    finished: Mapping[TopicPartition, int],
    now_s: int,
) -> Observation:
    """Make an `Observation` out of the arrays; `factor` is the day's curve now."""
    return Observation(
        at_s=now_s,
        copies=_copies(state),
        brokers=_brokers(state, traffic, factor),
        disks=disks,
        finished=dict(finished),
        under_replicated=state.under_replicated,
        under_min_isr=state.under_min_isr,
        offline=state.offline,
    )


def disks_of(state: State, inside: Mapping[int, float]) -> tuple[DiskSeen, ...]:
    """Every log dir, by broker; `inside` is what comes from other dirs of its broker. O(dirs + copies)."""
    import numpy as np

    behind = (state.broker != ABSENT) & ~state.tracking
    missing = (state.log_end[:, None] - state.have)[behind]
    arriving = np.bincount(state.disk[behind], missing, len(state.disk_used))
    for disk, left in inside.items():
        arriving[disk] += left
    return tuple(
        DiskSeen(
            broker=state.broker_ids[broker],
            path=path,
            used_bytes=round(min(used, total)),
            arriving_bytes=round(left),
            total_bytes=None if total == float("inf") else round(total),
            failed=failed,
        )
        for broker, path, used, left, total, failed in zip(
            state.disk_broker.tolist(),
            state.disk_path,
            state.disk_used.tolist(),
            arriving.tolist(),
            state.disk_total.tolist(),
            state.disk_failed.tolist(),
            strict=True,
        )
    )


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


def _brokers(state: State, traffic: Traffic, factor: float) -> tuple[BrokerSeen, ...]:
    import numpy as np

    other_into = state.background_into + (state.produce_into + state.follow_into) * factor
    other_out = state.background_out + state.follow_out * factor
    use_into = (other_into + traffic.into) / state.line_into
    use_out = (other_out + traffic.out) / state.line_out
    # The demand of copying is what its quota lets through; without one it takes what others leave.
    demand = np.where(np.isfinite(traffic.demand), traffic.demand, np.vstack([traffic.into, traffic.out]))
    over_into = (other_into + demand[0]) / state.line_into - 1
    over_out = (other_out + demand[1]) / state.line_out - 1
    queue = np.maximum(0.0, np.maximum(over_into, over_out))
    return tuple(
        BrokerSeen(
            id=broker,
            alive=bool(state.alive[k]),
            moved_into=float(traffic.into[k]),
            moved_out=float(traffic.out[k]),
            use_into=float(use_into[k]),
            use_out=float(use_out[k]),
            queue=float(queue[k]),
        )
        for k, broker in enumerate(state.broker_ids)
    )
