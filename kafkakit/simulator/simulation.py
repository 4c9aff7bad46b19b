"""A simulated cluster under reassignment: give it requests and faults, let time pass, look at it.

Time is whole seconds from 0. While a quota's average is still on its way after a change, every second is worked out;
else a tick reaches to the next thing that happens. Deterministic: the same calls give the same numbers.

The controller takes, cancels and ends moves, elects leaders, and follows starts and stops of brokers. A copy that
changes its log dir inside a broker grows as a second copy beside the first, and then takes its place.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from kafkakit.core.errors import UsageError
from kafkakit.core.model import TopicPartition, TopicPartitionReplica
from kafkakit.simulator.cluster import ABSENT, DAY_S, DiskSeen, SimCluster, SimMove, State, disks_of
from kafkakit.simulator.flows import UNLIMITED, Flows, QuotaWindows, share

if TYPE_CHECKING:
    from kafkakit.simulator.cluster import Floats, Ints


MAX_TICK_S = 60
"""The longest step where nothing changes."""
_LEAST_LINE = 0.05  # of a line is always left for copying, however much else runs over it
_NOTHING = 0.5


class Simulation:
    """One cluster in time."""

    def __init__(self, cluster: SimCluster) -> None:
        import numpy as np

        self.now_s = 0
        self._cluster = cluster
        widest = max((len(p.replicas) for p in cluster.partitions), default=0)
        self._state = State(cluster, widest + 1)
        self._control = Controller(self._state, cluster)
        self._inside = InsideMoves(self._state, self._control, cluster)
        brokers = len(cluster.brokers)
        self._into = QuotaWindows(brokers, cluster.quota)
        self._out = QuotaWindows(brokers, cluster.quota)
        self._unsettled_until = 0
        self._flows = Flows(self._state, wildcard=cluster.wildcard)
        self._speeds: tuple[float, Floats] | None = None
        self.received: Floats = np.zeros(brokers)
        self.sent: Floats = np.zeros(brokers)
        self.under_replicated_s = 0
        self.under_min_isr_s = 0
        self.offline_s = 0

    @property
    def finished(self) -> Mapping[TopicPartition, int]:
        """The second in which each move ended."""
        return self._control.finished

    @property
    def finished_dirs(self) -> Mapping[TopicPartitionReplica, int]:
        """The second in which each move between dirs ended."""
        return self._inside.finished

    @property
    def in_flight(self) -> tuple[TopicPartition, ...]:
        """Partitions that move now."""
        return tuple(self._state.keys[row] for row in self._state.moving.nonzero()[0].tolist())

    @property
    def copied_bytes(self) -> float:
        """Bytes that followers out of sync have fetched since the start."""
        return float(self.received.sum())

    @property
    def copied_inside_bytes(self) -> float:
        """Bytes copied between dirs of a broker since the start."""
        return self._inside.copied_bytes

    @property
    def waiting_bytes(self) -> float:
        """Bytes of deleted copies that still take space."""
        return self._control.waiting_bytes

    @property
    def disks(self) -> tuple[DiskSeen, ...]:
        """Every log dir as it is now."""
        return disks_of(self._state, self._inside.arriving())

    @property
    def lists(self) -> Mapping[TopicPartition, tuple[int, ...]]:
        """Every partition's replica list as Kafka shows it."""
        return self._control.lists()

    def submit(self, moves: Iterable[SimMove]) -> None:
        """Request moves; raises `UsageError` for an unknown partition or broker. What runs is replaced."""
        for move in moves:
            self._control.submit(move)

    def cancel(self, keys: Iterable[TopicPartition]) -> None:
        """Cancel running moves; partitions that do not move stay as they are."""
        for key in keys:
            self._control.cancel(key)

    def set_rates(self, broker: int, *, into: float | None, out: float | None) -> None:
        """Set a broker's throttle in bytes per second; None takes it away, 0 stops all copying."""
        where = self._index(broker)
        for windows, rate in ((self._into, into), (self._out, out)):
            new = UNLIMITED if rate is None else float(rate)
            if windows.rate[where] != new:
                windows.rate[where] = new
                if self.now_s:  # a start from nothing shows neither burst nor stall
                    self._unsettled_until = self.now_s + windows.length_s + 1
                self._speeds = None

    def move_dir(self, replica: TopicPartitionReplica, path: str) -> None:
        """Bring a copy to another dir of its broker; raises `UsageError` for a copy or dir that is not there."""
        self._inside.submit(replica, path)

    def set_inside_rate(self, broker: int, rate: float | None) -> None:
        """Set what a broker may copy between its own dirs, in bytes per second; None: as fast as its disks go."""
        self._inside.rate[self._index(broker)] = UNLIMITED if rate is None else float(rate)

    def kill(self, broker: int) -> None:
        """Kill a broker's process."""
        self._control.kill(self._index(broker))

    def revive(self, broker: int) -> None:
        """Start a dead broker again."""
        self._control.revive(self._index(broker))

    def _index(self, broker: int) -> int:
        if broker not in self._state.index_of:
            raise UsageError(f"broker {broker} is not in the simulated cluster")
        return self._state.index_of[broker]

    def advance(self, seconds: int) -> None:
        """Let whole seconds pass. Cost: about 1 ms a tick at 600 brokers and 3,000 copies under way."""
        end = self.now_s + seconds
        self._control.work(self.now_s, 0)
        while self.now_s < end:
            if self._control.changed:
                self._flows = Flows(self._state, wildcard=self._cluster.wildcard)
                self._control.changed = False
                self._speeds = None
            self._tick(end - self.now_s)

    def _factor(self) -> float:
        curve = self._cluster.day_curve
        return curve[int(self.now_s % DAY_S * len(curve) // DAY_S)]

    def _tick(self, most_s: int) -> None:
        factor = self._factor()
        state, flows = self._state, self._flows
        growing = state.ingest[flows.rows] * factor
        remaining = state.log_end[flows.rows] - state.have[flows.rows, flows.slots]
        if self.now_s < self._unsettled_until:
            seconds = 1
            got = self._shared(remaining + growing, factor, exact=True)
        else:
            if self._speeds is None or self._speeds[0] != factor:
                self._speeds = (factor, self._shared(None, factor, exact=False))
            speed = self._speeds[1]
            seconds = self._length(most_s, remaining, speed - growing)
            import numpy as np

            got = np.minimum(speed * seconds, remaining + growing * seconds)
        self._pass(seconds, factor, got)

    def _length(self, most_s: int, remaining: "Floats", closing: "Floats") -> int:
        """Seconds until the first flow catches up or something else happens."""
        longest = min(most_s, MAX_TICK_S, max(1.0, self._control.next_event_s - self.now_s))
        longest = min(longest, self._inside.seconds_left())
        coming = closing > 0
        if coming.any():
            longest = min(longest, float((remaining[coming] / closing[coming]).min()))
        return max(1, ceil(longest - 1e-6))

    def _shared(self, wanted: "Floats | None", factor: float, *, exact: bool) -> "Floats":
        """Bytes in one second for each flow: by the quotas' windows when `exact`, else as in the long run."""
        import numpy as np

        state, flows = self._state, self._flows
        line_into = state.line_into - state.background_into - (state.produce_into + state.follow_into) * factor
        line_out = state.line_out - state.background_out - state.follow_out * factor
        line_into = np.maximum(line_into, _LEAST_LINE * state.line_into)
        line_out = np.maximum(line_out, _LEAST_LINE * state.line_out)
        if exact:
            quota_into = self._into.allowance(self.now_s, flows.held_into)
            quota_out = self._out.allowance(self.now_s, flows.held_out)
        else:
            quota_into, quota_out = self._into.steady(flows.held_into), self._out.steady(flows.held_out)
            if self._cluster.wildcard:
                quota_into = np.maximum(0.0, quota_into - state.follow_into * factor)
                quota_out = np.maximum(0.0, quota_out - state.follow_out * factor)
        if wanted is None:
            wanted = np.minimum(state.line_out[flows.source], state.line_into[flows.target])
        return self._divided(wanted, (line_out, line_into), (quota_out, quota_into))

    def _divided(self, wanted: "Floats", line: "tuple[Floats, Floats]", quota: "tuple[Floats, Floats]") -> "Floats":
        """Share lines and quotas (out, into): throttled flows under both, the others under what is left of lines."""
        import numpy as np

        flows, brokers = self._flows, len(line[0])
        held = flows.throttled
        caps = np.minimum(line[0], quota[0]), np.minimum(line[1], quota[1])
        if flows.all_throttled:
            return share(wanted, flows.source, flows.target, *caps)
        got = np.zeros(len(wanted))
        got[held] = share(wanted[held], flows.source[held], flows.target[held], *caps)
        left_out = np.maximum(0.0, line[0] - np.bincount(flows.source, got, brokers))
        left_into = np.maximum(0.0, line[1] - np.bincount(flows.target, got, brokers))
        free = ~held
        got[free] = share(wanted[free], flows.source[free], flows.target[free], left_out, left_into)
        return got

    def _pass(self, seconds: int, factor: float, got: "Floats") -> None:
        """Let `seconds` pass in which each flow gets the bytes in `got`."""
        import numpy as np

        state, flows = self._state, self._flows
        state.log_end += flows.intake * (factor * seconds)
        state.have[flows.rows, flows.slots] += got
        state.disk_used += np.bincount(flows.disk, got, len(state.disk_used))
        state.disk_used += (state.disk_growth + state.disk_other) * (factor * seconds)
        into, out = self._by_broker(got)
        self.received += into
        self.sent += out
        self._record(seconds, factor, got, into, out)
        self.now_s += seconds
        self.under_replicated_s += state.under_replicated * seconds
        self.under_min_isr_s += state.under_min_isr * seconds
        self.offline_s += state.offline * seconds
        self._settle(seconds)

    def _by_broker(self, got: "Floats") -> "tuple[Floats, Floats]":
        """Sums (into, out) of what flows got."""
        import numpy as np

        brokers = len(self.sent)
        into: Floats = np.bincount(self._flows.target, got, brokers).astype(float)
        out: Floats = np.bincount(self._flows.source, got, brokers).astype(float)
        return into, out

    def _record(self, seconds: int, factor: float, got: "Floats", into: "Floats", out: "Floats") -> None:
        import numpy as np

        state, flows = self._state, self._flows
        if self._cluster.wildcard:
            into = into + state.follow_into * (factor * seconds)
            out = out + state.follow_out * (factor * seconds)
        elif not flows.all_throttled:
            counted = np.where(flows.throttled, got, 0.0)
            into, out = self._by_broker(counted)
        self._into.record(into, seconds)
        self._out.record(out, seconds)

    def _settle(self, seconds: int) -> None:
        """Let copies that have caught up join, full dirs fail, and the controller work."""
        state, flows, control = self._state, self._flows, self._control
        self._inside.advance(seconds, self.now_s)
        done = state.log_end[flows.rows] - state.have[flows.rows, flows.slots] <= _NOTHING
        if done.any():
            rows, slots = flows.rows[done], flows.slots[done]
            state.untally(flows.distinct(rows))
            state.have[rows, slots] = state.log_end[rows]
            state.tracking[rows, slots] = True
            state.in_isr[rows, slots] = True
            state.tally(flows.distinct(rows))
            control.joined(rows)
            self._flows = flows.without(done)
            self._speeds = None
        full = (state.disk_used >= state.disk_total) & ~state.disk_failed
        if full.any():
            for disk in full.nonzero()[0].tolist():
                control.fail_disk(disk)
        control.work(self.now_s, seconds)


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
