"""Copies that change their log dir inside a broker: a second copy grows beside the first and takes its place."""

from collections import Counter
from dataclasses import dataclass

from kafkakit.core.errors import UsageError
from kafkakit.core.model import TopicPartition, TopicPartitionReplica
from kafkakit.simulator.cluster import SimCluster
from kafkakit.simulator.control import Controller
from kafkakit.simulator.quota import UNLIMITED
from kafkakit.simulator.state import ABSENT, State

_NOTHING = 0.5


@dataclass(slots=True, kw_only=True)
class _DirMove:
    row: int
    broker: int
    disk: int
    have: float = 0.0


class InsideMoves:
    """Moves between the dirs of a broker; each broker's share its `rate` (bytes per second, reached in part).

    `finished` holds the second in which each ended. The averaging window of this quota is left out: its long run is
    what counts here.
    """

    def __init__(self, state: State, control: Controller, cluster: SimCluster) -> None:
        self.finished: dict[TopicPartitionReplica, int] = {}
        self.rate: list[float] = [UNLIMITED] * len(cluster.brokers)
        self.copied_bytes = 0.0
        self._state = state
        self._control = control
        self._efficiency = cluster.quota.efficiency
        self._disk_speed = cluster.disk_bytes_per_s
        self._moves: dict[TopicPartitionReplica, _DirMove] = {}

    def submit(self, replica: TopicPartitionReplica, path: str) -> None:
        """Start a move, or replace the running one of this copy."""
        state = self._state
        row = state.row_of.get(TopicPartition(replica.topic, replica.partition))
        broker = state.index_of.get(replica.broker, ABSENT)
        if row is None or broker == ABSENT or state.slot_of(row, broker) == ABSENT:
            raise UsageError(f"{replica.topic}-{replica.partition} has no copy on broker {replica.broker}")
        disk = next((d for d in state.disks_of[broker] if state.disk_path[d] == path), None)
        if disk is None:
            raise UsageError(f"broker {replica.broker} has no log dir {path}")
        old = self._moves.pop(replica, None)
        if old is not None:
            self._control.delete_later(old.disk, old.have)
        self.finished.pop(replica, None)
        self._moves[replica] = _DirMove(row=row, broker=broker, disk=disk)

    def _speeds(self) -> dict[TopicPartitionReplica, float]:
        state = self._state
        moving = {r: m for r, m in self._moves.items() if state.alive[m.broker] and not state.disk_failed[m.disk]}
        many = Counter(m.broker for m in moving.values())
        return {
            r: min(self._disk_speed, self.rate[m.broker] * self._efficiency) / many[m.broker] for r, m in moving.items()
        }

    def seconds_left(self) -> float:
        """Seconds until the first move may end; infinite when none comes nearer."""
        speeds = self._speeds()
        times = [self._missing(self._moves[r]) / speed for r, speed in speeds.items() if speed > 0]
        return min(times, default=float("inf"))

    def _missing(self, move: _DirMove) -> float:
        state = self._state
        slot = state.slot_of(move.row, move.broker)
        if slot == ABSENT:
            return 0.0
        whole = state.log_end[move.row] if state.tracking[move.row, slot] else state.have[move.row, slot]
        return float(whole - move.have)

    def arriving(self) -> dict[int, float]:
        """Bytes still to come into dirs, by the dir's number."""
        left: dict[int, float] = {}
        for move in self._moves.values():
            left[move.disk] = left.get(move.disk, 0.0) + self._missing(move)
        return left

    def advance(self, seconds: int, now_s: int) -> None:
        """Let `seconds` pass that end at `now_s`; whole copies change places."""
        for replica, speed in self._speeds().items():
            move = self._moves[replica]
            slot = self._state.slot_of(move.row, move.broker)
            if slot == ABSENT:  # the copy itself is gone
                del self._moves[replica]
                self._control.delete_later(move.disk, move.have)
                continue
            got = max(0.0, min(self._missing(move), speed * seconds))
            move.have += got
            self.copied_bytes += got
            self._state.disk_used[move.disk] += got
            if self._missing(move) <= _NOTHING:
                del self._moves[replica]
                self._control.change_dir(move.row, slot, move.disk, move.have)
                self.finished[replica] = now_s
