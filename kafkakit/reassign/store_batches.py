"""Batches of moves on the cluster: throttle, send, wait, and lift the throttle of what arrived."""

from collections.abc import Sequence

from kafkakit.errors import OperationFailedError
from kafkakit.ports import Clock, ClusterAdmin, ResourceKind
from kafkakit.reassign.goals import Goal, batches
from kafkakit.reassign.outcome import Request, Voice
from kafkakit.reassign.precheck import Live, listed
from kafkakit.reassign.progress import DEAD_GRACE_S, sources_told, without_source
from kafkakit.reassign.service import BatchWatch, Lookout, Patient
from kafkakit.reassign.store_dirs import LogDirs
from kafkakit.reassign.store_moves import Moves
from kafkakit.reassign.store_throttle import Throttles
from kafkakit.reassign.throttle import LIST_KEYS, taken_bytes


class Batches:
    """Carries goals out, one batch after the other; `problems` collects what went wrong with single partitions."""

    def __init__(
        self,
        admin: ClusterAdmin,
        clock: Clock,
        voice: Voice,
        patient: Patient,
        lookout: Lookout,
        moves: Moves,
        throttles: Throttles,
        dirs: LogDirs,
        request: Request,
    ) -> None:
        self._admin, self._clock, self._patient, self._lookout = admin, clock, patient, lookout
        self._moves, self._throttles, self._dirs, self._size = moves, throttles, dirs, request.batch_size
        self._watch = BatchWatch(lookout, clock, voice, stall_timeout_s=request.stall_timeout_s)
        self.problems: list[str] = []
        self.submitted = 0
        self._grace_used = False
        self.copied_bytes = 0

    def carry(self, goals: Sequence[Goal], verb: str, rate: int | None) -> None:
        """Do all batches; raises `OperationFailedError` when one has no end (see `BatchWatch.wait`)."""
        cut = list(batches(goals, self._size, self._taken(goals), LIST_KEYS))
        for number, batch in enumerate(cut, 1):
            self._do(batch, f"{verb}: batch {number} of {len(cut)}, {len(batch)} partitions", rate)

    def _do(self, batch: Sequence[Goal], label: str, rate: int | None) -> None:
        batch, live = self._ready(batch)
        if rate is not None:
            self._throttles.impose(batch, rate, live)
        unsent = [g for g in batch if not g.running]
        self._dirs.wish(unsent)
        refused = self._moves.submit(unsent)
        self.submitted += len(unsent) - len(refused)
        self.problems += [f"{key} was not accepted: {error}" for key, error in sorted(refused.items())]

        def keep_throttled(now: Live) -> None:
            # A broker that came back since gets its rate, too.
            if rate is not None:
                self._throttles.impose_rates(batch, rate, now)

        try:
            seen, memory = self._watch.wait([g for g in batch if g.key not in refused], label, keep_throttled)
        finally:
            self.copied_bytes += self._watch.copied_bytes
        if seen.gone:
            self.problems.append(f"deleted during the run: {listed([str(k) for k in sorted(seen.gone)])}")
        if memory.withdrawn:
            names = listed([str(k) for k in sorted(memory.withdrawn)])
            self.problems.append(f"cancelled or changed by somebody else during the run: {names}")
        self._throttles.lift_entries(batch)

    def _ready(self, batch: Sequence[Goal]) -> tuple[tuple[Goal, ...], Live]:
        """The batch without partitions whose topic went since the run began; its destinations are alive.

        Waits a moment for a destination that may be restarting, and for a leader that may be being elected.
        Partitions that no living broker can serve are left out: they would hold up all the others.
        """
        deadline = self._clock.monotonic() + DEAD_GRACE_S
        while True:
            live = self._lookout.live({g.key.topic for g in batch})
            lost = sorted({b for g in batch if not g.running for b in g.adding if not live.is_alive(b)})
            sourceless = without_source(batch, live)
            waiting = lost or (sourceless and not self._grace_used)
            if not waiting or self._clock.monotonic() >= deadline:
                break
            self._clock.sleep(1.0)
        if lost:
            names = ", ".join(str(b) for b in lost)
            raise OperationFailedError(f"broker {names} is not alive; no more moves are sent to it")
        if sourceless:
            self._grace_used = True  # one wait a run: the next batches may have partitions of the same dead broker
            self.problems.append(f"no live source, nothing can be copied: {sources_told(sourceless)}")
        kept: list[Goal] = []
        for goal in batch:
            state = live.states.get(goal.key)
            if goal.key in sourceless:
                continue
            if state is None or (goal.topic_id and state.topic_id and goal.topic_id != state.topic_id):
                self.problems.append(f"deleted during the run: {goal.key}")
            else:
                kept.append(goal)
        return tuple(kept), live

    def _taken(self, goals: Sequence[Goal]) -> dict[tuple[str, str], int]:
        """Bytes that the goals' throttle lists hold already."""
        names = sorted({g.key.topic for g in goals})
        if not names:
            return {}
        read = self._patient.call("reading throttles", lambda: self._admin.dynamic_configs(ResourceKind.TOPIC, names))
        return taken_bytes(goals, read)
