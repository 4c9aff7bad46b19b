"""The log dirs of a simulation at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass

from kafkakit.simulator.state import ABSENT, State


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSeen:
    """One log dir; `used_bytes` includes deleted copies whose space is not free yet, `arriving_bytes` is what copies
    in it still have to fetch."""

    broker: int
    path: str
    used_bytes: int
    arriving_bytes: int
    total_bytes: int | None
    failed: bool


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
