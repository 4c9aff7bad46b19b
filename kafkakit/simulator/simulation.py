"""A simulated cluster under reassignment: give it requests and faults, let time pass, look at it.

Time is whole seconds from 0. While a quota's average is still on its way after a change, every second is worked out;
else a tick reaches to the next thing that happens. Deterministic: the same calls give the same numbers.
"""

from collections.abc import Iterable, Mapping
from math import ceil
from typing import TYPE_CHECKING

from kafkakit.core.errors import UsageError
from kafkakit.core.model import TopicPartition, TopicPartitionReplica
from kafkakit.simulator.cluster import DAY_S, SimCluster, SimMove
from kafkakit.simulator.control import Controller
from kafkakit.simulator.disks import DiskSeen, disks_of
from kafkakit.simulator.flows import Flows, share
from kafkakit.simulator.inside import InsideMoves
from kafkakit.simulator.quota import UNLIMITED, QuotaWindows
from kafkakit.simulator.state import State

if TYPE_CHECKING:
    from kafkakit.simulator.state import Floats

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
