"""Looking at what moves on a cluster: once with a pause in between, or again and again until nothing is under way.

What is looked at continues without the watcher. Looks have a small price. A tick reads the list of brokers, the list
of running moves, the metadata of the moving topics only, and the log dirs of the brokers that take part, for the
moving partitions only. Everything that is read of the whole cluster (counts of partitions, copies that change dirs)
is read once a minute at most, and takes no more than a twentieth of the time. Throttles of those who take part are
read every 15 s.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from kafkakit.core.cluster_facts import BrokerLogDirs, ResourceKind
from kafkakit.core.errors import (
    stopped_run,
)
from kafkakit.core.lease import HeldLease
from kafkakit.core.model import TopicPartition, TopicPartitionReplica
from kafkakit.execution.act.retrier import Retrier, read_usual_min_isr
from kafkakit.execution.decide.journal import Promise
from kafkakit.execution.decide.plan_state import LiveState
from kafkakit.execution.decide.status import StatusContext, StatusView, judge
from kafkakit.execution.decide.status_looks import (
    CopySample,
    CurrentThrottles,
    HealthCounts,
    History,
    KnownRun,
    StatusLook,
    ended_between,
    health_of,
    landed_between,
    remember,
    sizes_in,
    throttled_of,
)
from kafkakit.ports.acting import Clock, pause, repeat_every
from kafkakit.ports.admin import ClusterAdmin

WHOLE_EVERY_S = 60.0
WHOLE_SHARE = 20  # the time between two looks at the whole cluster is at least that many times what one takes
THROTTLES_EVERY_S = 15.0
LEASE_EVERY_S = 15.0
MOVES_CONTINUE = "the moves continue by themselves on the brokers"


class RunSource(Protocol):
    """The runs of this host; see `KnownRuns`."""

    damaged: tuple[str, ...]

    def read(self) -> Sequence[KnownRun]:
        """All runs that can be read."""
        ...


@dataclass(slots=True)
class _DueTime:
    """When something that costs more is read again; None: at once."""

    every_s: float
    at_s: float | None = None

    def is_due(self, now_s: float) -> bool:
        return self.at_s is None or now_s >= self.at_s


class StatusObserver:
    """One watcher of one cluster; keeps what earlier looks found. `lease` reads who may change the cluster.

    `whole` False leaves out everything that is read of the whole cluster, and all throttles.
    """

    def __init__(
        self,
        admin: ClusterAdmin,
        clock: Clock,
        runs: RunSource,
        lease: Callable[[], HeldLease | None],
        *,
        window_s: float,
        program: str,
        whole: bool = True,
    ) -> None:
        self._admin, self._clock, self._runs, self._read_lease = admin, clock, runs, lease
        self._window_s, self._program, self._wants_whole = window_s, program, whole
        self._history = History()
        self._inside_history = History()
        self._throttled = CurrentThrottles()
        self._health: HealthCounts | None = None
        self._lease: HeldLease | None = None
        self._beat: tuple[tuple[int, int], float] | None = None
        self._inside: frozenset[TopicPartitionReplica] = frozenset()
        self._before: StatusLook | None = None
        self._landed = self._ended = 0
        self._left: dict[tuple[str, Promise | None], tuple[tuple[float, int], ...]] = {}
        self._whole_due = _DueTime(WHOLE_EVERY_S)
        self._throttles_due = _DueTime(THROTTLES_EVERY_S)
        self._lease_due = _DueTime(LEASE_EVERY_S)

    def look(self, *, refresh: bool = False) -> StatusView:
        """One tick; `refresh` reads everything again, whenever it was read last."""
        if refresh:
            self._whole_due.at_s = self._throttles_due.at_s = self._lease_due.at_s = None
        if self._wants_whole and self._whole_due.is_due(self._clock.monotonic()):
            self._look_at_all()
        look = self._read_look()
        self._landed += 0 if self._before is None else landed_between(self._before, look)
        self._ended += 0 if self._before is None else ended_between(self._before, look)
        self._before = look
        sample = CopySample(at_s=look.at_s, bytes_of=_sizes(look), landed_bytes=self._landed)
        self._history = remember(self._history, sample, self._window_s)
        futures = {
            TopicPartitionReplica(*key, broker): copy.size_bytes
            for broker, answer in look.dirs.items()
            for key, copy in answer.futures.items()
        }
        self._inside = frozenset(futures)
        self._inside_history = remember(
            self._inside_history, CopySample(at_s=look.at_s, bytes_of=futures), self._window_s
        )
        if self._wants_whole and self._throttles_due.is_due(look.at_s):
            self._look_at_throttles(look)
        if self._lease_due.is_due(look.at_s):
            self._lease = self._watched(self._read_lease(), look.at_s)
            self._lease_due.at_s = look.at_s + LEASE_EVERY_S
        around = StatusContext(
            runs=tuple(self._runs.read()),
            throttled=self._throttled,
            health=self._health,
            lease=self._lease,
            damaged=self._runs.damaged,
            program=self._program,
            ended_bytes=self._ended,
            left_before={journal: kept[0] for (journal, _), kept in self._left.items()},
        )
        view = judge(look, self._history, self._inside_history, around)
        self._note_left(view, look.at_s)
        return view

    def look_inside(self, brokers: Collection[int]) -> StatusView:
        """One more tick that sees copies between dirs of these brokers, which are looked for once a minute at most."""
        began_s = self._clock.monotonic()
        if self._whole_due.is_due(began_s):
            dirs = self._admin.log_dirs(brokers)
            self._inside = frozenset(TopicPartitionReplica(*k, b) for b, a in dirs.items() for k in a.futures)
            took_s = self._clock.monotonic() - began_s
            self._whole_due.at_s = began_s + max(WHOLE_EVERY_S, WHOLE_SHARE * took_s)
        return self.look()

    def _watched(self, lease: HeldLease | None, at_s: float) -> HeldLease | None:
        """The lease, silent if this watcher has seen the same state of it for its whole term."""
        record = None if lease is None else lease.record
        if lease is None or record is None:
            return lease
        if self._beat is None or self._beat[0] != (record.token, record.beats):
            self._beat = ((record.token, record.beats), at_s)
        return replace(lease, is_silent=at_s - self._beat[1] >= record.ttl_s)

    def _note_left(self, view: StatusView, at_s: float) -> None:
        """Remember what runs have left, from the beginning of the window on; another promise means another run."""
        noted: dict[tuple[str, Promise | None], tuple[tuple[float, int], ...]] = {}
        for run in view.runs:
            if run.left_bytes is not None:
                kept = [*self._left.get((run.journal, run.promise), ()), (at_s, run.left_bytes)]
                while len(kept) > 1 and at_s - kept[1][0] >= self._window_s:
                    kept.pop(0)
                noted[run.journal, run.promise] = tuple(kept)
        self._left = noted

    def _read_look(self) -> StatusLook:
        info = self._admin.cluster()
        # Moves before states, so that one that ends in between is seen as ended.
        running = {TopicPartition(m.topic, m.partition): m for m in self._admin.reassignments()}
        # The topics of the look before, too: that tells whether a move has ended in its target.
        earlier = self._before.live.running if self._before is not None else {}
        watched = running.keys() | earlier.keys()
        states = self._admin.partition_states({k.topic for k in watched}) if watched else {}
        alive = {b.id for b in info.brokers if b.is_alive}
        brokers = ({b for m in running.values() for b in m.replicas} | {r.broker for r in self._inside}) & alive
        keys = sorted({*running, *(TopicPartition(r.topic, r.partition) for r in self._inside)})
        dirs = self._admin.log_dirs(sorted(brokers), keys) if brokers and keys else {}
        live = LiveState(
            cluster_id=info.cluster_id,
            brokers={b.id: b for b in info.brokers},
            states={k: states[k] for k in sorted(watched) if k in states},
            running=running,
        )
        return StatusLook(live=live, dirs=dirs, at=self._clock.now(), at_s=self._clock.monotonic())

    def _look_at_all(self) -> None:
        began_s = self._clock.monotonic()
        snapshot = self._admin.snapshot(now=self._clock.now(), sizes=False)
        alive = sorted(b.id for b in snapshot.brokers if b.is_alive)
        self._health = health_of(snapshot, read_usual_min_isr(self._admin, alive))
        dirs: dict[int, BrokerLogDirs] = dict(self._admin.log_dirs(alive)) if alive else {}
        self._inside = frozenset(TopicPartitionReplica(*k, b) for b, a in dirs.items() for k in a.futures)
        brokers = self._admin.dynamic_configs(ResourceKind.BROKER, [str(b) for b in alive])
        self._throttled = throttled_of(brokers, {t.name: t.configs for t in snapshot.topics})
        ended_s = self._clock.monotonic()
        self._whole_due.at_s = ended_s + max(WHOLE_EVERY_S, WHOLE_SHARE * (ended_s - began_s))
        self._throttles_due.at_s = ended_s + THROTTLES_EVERY_S

    def _look_at_throttles(self, look: StatusLook) -> None:
        brokers, topics = sorted(look.dirs), sorted({k.topic for k in look.live.running})
        newer = throttled_of(
            self._admin.dynamic_configs(ResourceKind.BROKER, [str(b) for b in brokers]) if brokers else {},
            self._admin.dynamic_configs(ResourceKind.TOPIC, topics) if topics else {},
        )
        self._throttled = newer.over(self._throttled, brokers, topics)
        self._throttles_due.at_s = look.at_s + THROTTLES_EVERY_S


def look_once(observer: StatusObserver, clock: Clock, window_s: float) -> StatusView:
    """Two looks, `window_s` apart, so that there are rates; one where nothing moves. 0: one look, no rates."""
    view = observer.look()
    if window_s > 0 and (view.moves or view.inside):
        pause(clock, window_s)
        view = observer.look()
    return view


def watch(
    observer: StatusObserver,
    clock: Clock,
    retrier: Retrier,
    *,
    interval_s: float,
    after_look: Callable[[StatusView], None],
    show: Callable[[StatusView], None],
) -> StatusView:
    """Look every `interval_s` until nothing moves and no process holds the lease; the last look is not shown.

    Raises `InterruptedRunError` on Ctrl-C: the moves are not touched.
    """
    return watch_until_idle(
        observer.look,
        lambda: observer.look(refresh=True),
        clock,
        retrier,
        what="reading the cluster",
        interval_s=interval_s,
        after_look=after_look,
        show=show,
        stopped=MOVES_CONTINUE,
        hint="look again: kafkakit reassign status --watch",
    )


def _sizes(look: StatusLook) -> dict[TopicPartitionReplica, int]:
    """The bytes of all copies of what moves; a new copy that its broker does not show yet has none."""
    absent = {
        TopicPartitionReplica(*key, b): 0
        for key, move in look.live.running.items()
        for b in move.adding
        if b in look.dirs and not look.dirs[b].error
    }
    return {**absent, **sizes_in(look.dirs, look.live.running)}


READ_TIMEOUT_S = 90.0


class WatchedView(Protocol):
    """What a look gives."""

    @property
    def is_idle(self) -> bool:
        """True once there is nothing left to watch."""
        ...


V = TypeVar("V", bound=WatchedView)


def watch_until_idle(
    look: Callable[[], V],
    look_again: Callable[[], V],
    clock: Clock,
    retrier: Retrier,
    *,
    what: str,
    interval_s: float,
    after_look: Callable[[V], None],
    show: Callable[[V], None],
    stopped: str,
    hint: str,
    count: int | None = None,
) -> V:
    """Look every `interval_s` until a view is idle, and `look_again` finds it so; returns the last one, not shown.

    With `count` it ends after so many looks. On Ctrl-C it raises `InterruptedRunError` with the words of `stopped`.
    """
    try:
        for done, _ in enumerate(repeat_every(clock, interval_s), 1):
            view = retrier.call(what, look)
            after_look(view)
            if view.is_idle:
                view = retrier.call(what, look_again)
                after_look(view)
            if view.is_idle or done == count:
                break
            show(view)
    except KeyboardInterrupt as stop:
        raise stopped_run(stop, stopped, hint) from None
    return view
