"""Looking at the cluster patiently, and the loop that waits for a batch."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from kafkakit.errors import OperationFailedError, TryLaterError
from kafkakit.model import TopicPartition
from kafkakit.ports import BrokerLogDirs, Clock, ClusterAdmin
from kafkakit.quantities import format_bytes, format_rate, format_rough_time
from kafkakit.reassign.goals import Goal
from kafkakit.reassign.outcome import ProgressBar, Voice
from kafkakit.reassign.precheck import Live, listed
from kafkakit.reassign.progress import (
    Decision,
    Look,
    Watch,
    follow,
    look,
    offline_dirs,
    poll_interval_s,
    source_bytes,
    sources_told,
)

R = TypeVar("R")


class Patient:
    """Repeats calls that fail for the moment: a broker or the controller may be changing.

    Every call that the kit makes may be repeated without harm. `patience_s` limits the time from the
    first failure; then the last `TryLaterError` is raised.
    """

    def __init__(self, clock: Clock, voice: Voice, patience_s: float) -> None:
        self._clock, self._voice, self._patience_s = clock, voice, patience_s

    def call(self, what: str, action: Callable[[], R]) -> R:
        """Run `action`, and again after a growing pause while it raises `TryLaterError`."""
        first_failure, pause = None, 0.5
        while True:
            try:
                answer = action()
            except TryLaterError as error:
                now = self._clock.monotonic()
                if first_failure is None:
                    first_failure = now
                    self._voice.warn(f"{what}: {error.message}; trying again")
                if now - first_failure + pause > self._patience_s:
                    raise
                self._clock.sleep(pause)
                pause = min(pause * 2, 8.0)
            else:
                return answer


class Lookout:
    """Reads of the live cluster, patient."""

    def __init__(self, admin: ClusterAdmin, clock: Clock, patient: Patient) -> None:
        self._admin, self._clock, self._patient = admin, clock, patient

    def live(self, topics: Collection[str]) -> Live:
        """Brokers, running moves, then the named topics' partitions, in that order (see `Live`)."""

        def read() -> Live:
            info = self._admin.cluster()
            running = {TopicPartition(r.topic, r.partition): r for r in self._admin.reassignments()}
            return Live(
                cluster_id=info.cluster_id,
                brokers={b.id: b for b in info.brokers},
                states=self._admin.partition_states(topics),
                running=running,
                operations=info.operations,
            )

        return self._patient.call("reading the cluster", read)

    def dirs(self, goals: Sequence[Goal], live: Live) -> Mapping[int, BrokerLogDirs]:
        """Log dirs of the brokers that the goals' data passes through, as far as they are alive."""
        brokers = sorted({b for g in goals if g.adding for b in (*g.holders, *g.adding) if live.is_alive(b)})
        if not brokers:
            return {}
        keys = [g.key for g in goals if g.adding]
        return self._patient.call("reading log dirs", lambda: self._admin.log_dirs(brokers, keys))

    def sized(self, goals: Sequence[Goal], live: Live) -> tuple[Goal, ...]:
        """The goals with their live sizes, where brokers tell them."""
        dirs = self.dirs(goals, live)
        return tuple(replace(g, size_bytes=source_bytes(g, dirs) or None) for g in goals)


class BatchWatch:
    """Waits until a batch is through, telling progress; raises when waiting has no end."""

    def __init__(self, lookout: Lookout, clock: Clock, voice: Voice, *, stall_timeout_s: float) -> None:
        self._lookout, self._clock, self._voice = lookout, clock, voice
        self._stall_timeout_s = stall_timeout_s
        self.copied_bytes = 0
        self._told: set[int] = set()
        self._told_sourceless: set[TopicPartition] = set()

    def wait(self, goals: Sequence[Goal], label: str, on_look: Callable[[Live], None]) -> tuple[Look, Watch]:
        """Poll until each goal is done, gone or withdrawn by somebody else; `on_look` sees every observation.

        `copied_bytes` is kept up to date, also for a wait that fails.
        Raises `OperationFailedError` when what is left waits for a dead broker or has no source, makes no
        progress for the stall timeout, or a destination's log dir goes offline. The moves stay on the cluster then.
        """
        self.copied_bytes = 0
        topics = {g.key.topic for g in goals}
        live = self._lookout.live(topics)
        offline = offline_dirs(goals, self._lookout.dirs(goals, live))
        started = self._clock.monotonic()
        watch = Watch(changed_at_s=started)
        with self._voice.progress(label) as bar:
            while True:
                on_look(live)
                seen = look(goals, live, self._lookout.dirs(goals, live), offline_before=offline)
                self.copied_bytes = seen.copied_bytes
                now = self._clock.monotonic()
                watch = follow(watch, seen, now, stall_timeout_s=self._stall_timeout_s)
                _show(bar, seen, watch, len(goals))
                self._tell_blocked(seen, watch)
                if watch.decision is Decision.DONE:
                    return seen, watch
                if watch.decision is not Decision.WAIT:
                    raise OperationFailedError(_why(seen, watch, self._stall_timeout_s))
                self._clock.sleep(poll_interval_s(now - started))
                live = self._lookout.live(topics)

    def _tell_blocked(self, seen: Look, watch: Watch) -> None:
        for broker in sorted(set(seen.blocked.values()) - self._told):
            self._told.add(broker)
            keys = [str(k) for k, b in sorted(seen.blocked.items()) if b == broker]
            self._voice.warn(f"broker {broker} is not alive; waiting on it: {listed(keys)}")
        lasting = {k: v for k, v in seen.sourceless.items() if k in watch.sourceless_before}
        if lasting.keys() - self._told_sourceless:
            self._told_sourceless |= lasting.keys()
            self._voice.warn(f"no live source, waiting for one: {sources_told(lasting)}")


def _show(bar: ProgressBar, seen: Look, watch: Watch, partitions: int) -> None:
    finished = partitions - len(seen.pending) - len(seen.idle)
    words = [f"{finished}/{partitions} partitions"]
    if seen.total_bytes:
        words.append(f"{format_bytes(seen.copied_bytes)} of {format_bytes(seen.total_bytes)}")
        rate = watch.bytes_per_s
        if rate:
            left = (seen.total_bytes - seen.copied_bytes) / rate
            words.append(f"{format_rate(rate)}, {format_rough_time(left)} left")
        bar.update(seen.copied_bytes, seen.total_bytes, ", ".join(words))
    else:
        bar.update(finished, partitions, words[0])


def _why(seen: Look, watch: Watch, stall_timeout_s: float) -> str:
    waiting = [str(k) for k in sorted(seen.pending)]
    if watch.decision is Decision.DISK:
        return f"a log dir went offline on a destination: {', '.join(seen.offline_dirs)}"
    if watch.decision is Decision.BLOCKED:
        words = []
        if seen.blocked:
            dead = ", ".join(str(b) for b in sorted(set(seen.blocked.values())))
            keys = [str(k) for k in sorted(seen.blocked)]
            words.append(f"broker {dead} is not alive and {len(keys)} moves wait for it: {listed(keys)}")
        if seen.sourceless:
            words.append(f"no live source, nothing is copied: {sources_told(seen.sourceless)}")
        return "; ".join(words)
    still = waiting or [str(k) for k in sorted(seen.idle)]
    return f"no progress for {format_rough_time(stall_timeout_s)} on {len(still)} moves: {listed(still)}"
