"""What the simulated controller does: takes, cancels and ends moves, elects leaders, follows starts and stops."""

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkakit.core.errors import UsageError
from kafkakit.core.model import TopicPartition
from kafkakit.simulator.cluster import SimCluster, SimMove
from kafkakit.simulator.state import ABSENT, State

if TYPE_CHECKING:
    from kafkakit.simulator.state import Ints

_NOTHING = 0.5  # bytes that are no difference
_ROUNDED_S = 5


class Controller:
    """Changes who holds what in a `State`; `changed` means that the flows must be worked out again.

    `finished` holds the second in which each move ended, a later move of the same partition included.
    """

    def __init__(self, state: State, cluster: SimCluster) -> None:
        self.changed = True
        self.finished: dict[TopicPartition, int] = {}
        self._state = state
        self._cluster = cluster
        self._ready: deque[int] = deque()
        self._deletions: deque[tuple[int, int, float]] = deque()
        self._expiries: list[tuple[int, int]] = []
        self._now_s = 0

    @property
    def next_event_s(self) -> float:
        """When something happens by itself: a move ends, space becomes free, a dead broker is noticed."""
        if self._ready:
            return 0
        # Space that is freed a few seconds late changes nothing; a tick for each of thousands of deletions costs.
        soonest = [-(-self._deletions[0][0] // _ROUNDED_S) * _ROUNDED_S] if self._deletions else []
        return min([*soonest, *(at for at, _ in self._expiries)], default=float("inf"))

    @property
    def waiting_bytes(self) -> float:
        """Bytes of deleted copies whose space is not free yet."""
        return sum(size for _, _, size in self._deletions)

    def submit(self, move: SimMove) -> None:
        """Start a move, or replace the partition's running one; its copies stay until the new one ends."""
        state, row = self._state, self._row(move.key)
        unknown = [b for b in move.target if b not in state.index_of]
        if unknown or not move.target or len(set(move.target)) != len(move.target):
            raise UsageError(f"{move.key} cannot move to {list(move.target)}", hint="name brokers of the cluster, once")
        state.wanted[row] = False
        for broker in move.target:
            where = state.index_of[broker]
            slot = state.slot_of(row, where)
            if slot == ABSENT:
                slot = self._new_copy(row, where, move.dirs.get(broker))
            state.wanted[row, slot] = True
        holders = [state.broker_ids[b] for b in state.broker[row].tolist() if b != ABSENT]
        state.order[row] = (*move.target, *(b for b in holders if b not in move.target))
        state.moving[row] = True
        self.changed = True
        self.finished.pop(move.key, None)
        self.joined([row])

    def _new_copy(self, row: int, broker: int, path: str | None) -> int:
        state = self._state
        slot = state.slot_of(row, ABSENT)
        if slot == ABSENT:
            state.widen()
            slot = state.broker.shape[1] - 1
        state.broker[row, slot] = broker
        state.disk[row, slot] = state.dir_of(broker, path)
        state.have[row, slot] = 0.0
        state.adding[row, slot] = True
        return slot

    def cancel(self, key: TopicPartition) -> None:
        """Stop a running move: new copies go, the old set stays in the order that Kafka leaves; nothing else."""
        state, row = self._state, self._row(key)
        if not state.moving[row]:
            return
        state.untally([row])
        for slot in state.adding[row].nonzero()[0].tolist():
            self._drop(row, slot)
        left = {state.broker_ids[b] for b in state.broker[row].tolist() if b != ABSENT}
        state.order[row] = tuple(b for b in state.order[row] if b in left)
        state.wanted[row] = state.broker[row] != ABSENT
        state.moving[row] = False
        state.elect(row, state.order[row])
        state.tally([row])
        self.changed = True

    def _row(self, key: TopicPartition) -> int:
        row = self._state.row_of.get(key)
        if row is None:
            raise UsageError(f"{key} is not in the simulated cluster", hint="give its partition to the cluster first")
        return row

    def _drop(self, row: int, slot: int) -> None:
        state = self._state
        full = state.log_end if state.tracking[row, slot] else state.have[:, slot]
        self.delete_later(int(state.disk[row, slot]), float(full[row]))
        state.broker[row, slot] = state.disk[row, slot] = ABSENT
        state.have[row, slot] = 0.0
        for marks in (state.tracking, state.in_isr, state.adding, state.wanted):
            marks[row, slot] = False

    def delete_later(self, disk: int, size: float) -> None:
        """Free the bytes of a copy that is given up, after the deletion delay."""
        self._deletions.append((self._now_s + self._cluster.deletion_delay_s, disk, size))

    def change_dir(self, row: int, slot: int, disk: int, size: float) -> None:
        """Let a whole copy of `size` in another dir take the place of the old one."""
        state = self._state
        state.untally([row])
        self.delete_later(int(state.disk[row, slot]), size)
        state.disk[row, slot] = disk
        state.tally([row])
        self.changed = True

    def joined(self, rows: "Ints | list[int]") -> None:
        """Note rows of which a copy has come into sync; complete moves wait for their turn."""
        state = self._state
        for row in sorted({int(r) for r in rows}):
            if state.moving[row] and bool((state.in_isr[row] | ~state.wanted[row]).all()):
                self._ready.append(row)

    def work(self, now_s: int, seconds: int) -> None:
        """Do what is due by `now_s`, with `seconds` of the controller's time for moves that are complete."""
        self._now_s = now_s
        while self._deletions and self._deletions[0][0] <= now_s:
            _, disk, size = self._deletions.popleft()
            self._state.disk_used[disk] -= size
        for at, broker in [e for e in self._expiries if e[0] <= now_s]:
            self._expiries.remove((at, broker))
            self._expire(broker)
        for _ in range(min(len(self._ready), self._cluster.finishes_per_s * seconds)):
            self._finish(self._ready.popleft())

    def _finish(self, row: int) -> None:
        state = self._state
        if not state.moving[row] or not bool((state.in_isr[row] | ~state.wanted[row]).all()):
            return
        state.untally([row])
        target = tuple(b for b in state.order[row] if state.wanted[row, state.slot_of(row, state.index_of[b])])
        leaving = ((state.broker[row] != ABSENT) & ~state.wanted[row]).nonzero()[0].tolist()
        for slot in leaving:
            if state.leader[row] == slot:
                state.leader[row] = ABSENT
            if not state.tracking[row, slot]:  # a copy of the move before this one, still on its way
                self.changed = True
            self._drop(row, slot)
        state.order[row] = target
        state.adding[row] = False
        state.moving[row] = False
        state.factor[row] = len(target)
        state.elect(row, target)
        state.tally([row])
        if state.leader[row] == ABSENT or not bool((state.tracking[row] | (state.broker[row] == ABSENT)).all()):
            self.changed = True
        self.finished[state.keys[row]] = self._now_s

    def kill(self, broker: int) -> None:
        """Take a broker's process away; the ISR shrinks only after the session timeout."""
        state = self._state
        if not state.alive[broker]:
            return
        rows, slots = (state.broker == broker).nonzero()
        state.untally(rows)
        state.alive[broker] = False
        synced = state.tracking[rows, slots]
        state.have[rows[synced], slots[synced]] = state.log_end[rows[synced]]
        state.tracking[rows, slots] = False
        state.leader[rows[state.leader[rows] == slots]] = ABSENT
        state.tally(rows)
        self._expiries.append((self._now_s + self._cluster.session_timeout_s, broker))
        self.changed = True

    def _expire(self, broker: int) -> None:
        state = self._state
        if state.alive[broker]:
            return
        rows, slots = (state.broker == broker).nonzero()
        self._leave_isr(rows, slots)

    def _leave_isr(self, rows: "Ints", slots: "Ints") -> None:
        state = self._state
        state.untally(rows)
        for row, slot in zip(rows.tolist(), slots.tolist(), strict=True):
            if state.in_isr[row].sum() > 1:  # the last member stays, so that nothing acknowledged is lost
                state.in_isr[row, slot] = False
            state.elect(row, state.order[row])
        state.tally(rows)
        self.changed = True

    def revive(self, broker: int) -> None:
        """Give a dead broker back; copies that missed something fetch it first."""
        state = self._state
        if state.alive[broker]:
            return
        rows, slots = (state.broker == broker).nonzero()
        state.untally(rows)
        state.alive[broker] = True
        self._expiries = [e for e in self._expiries if e[1] != broker]
        works = ~state.disk_failed[state.disk[rows, slots]]
        whole = works & (state.have[rows, slots] >= state.log_end[rows] - _NOTHING)
        state.tracking[rows[whole], slots[whole]] = True
        state.in_isr[rows[whole], slots[whole]] = True
        for row in rows.tolist():
            state.elect(row, state.order[row])
        state.tally(rows)
        self.changed = True
        self.joined(rows)

    def fail_disk(self, disk: int) -> None:
        """Take a whole log dir offline: its copies leave the ISR, and whatever moves to it hangs."""
        state = self._state
        rows, slots = (state.disk == disk).nonzero()
        state.untally(rows)
        synced = state.tracking[rows, slots]
        state.have[rows[synced], slots[synced]] = state.log_end[rows[synced]]
        state.tracking[rows, slots] = False
        state.leader[rows[state.leader[rows] == slots]] = ABSENT
        state.tally(rows)
        state.disk_failed[disk] = True
        state.disk_other[disk] = 0.0
        self._leave_isr(rows, slots)

    def lists(self) -> Mapping[TopicPartition, tuple[int, ...]]:
        """Every partition's replica list as Kafka shows it now."""
        return dict(zip(self._state.keys, self._state.order, strict=True))
