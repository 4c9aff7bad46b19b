"""Calling a cluster, with retries: reading it, changing settings of topics and brokers, reporting how a run is doing.

A change of settings stands in a journal before it is made, and is read back. A whole answer has of every leader either
its answer or the error that it gives none. Tags of brokers and topics are read from a control store or from kafka-kit's
znodes.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import eq
from typing import Protocol, TypeAlias, TypeVar

from kafkakit.core.cluster_facts import BrokerLogDirs, ConfigChange, FetchedBatches, ItemError, ResourceKind
from kafkakit.core.documents import CORDON
from kafkakit.core.errors import (
    ConnectRefusedError,
    InputError,
    LeaseLostError,
    OperationFailedError,
    TryLaterError,
    UsageError,
)
from kafkakit.core.findings import MIN_ISR, min_isr_of
from kafkakit.core.model import (
    BROKER_TAGS,
    CORDONED_DIRS,
    MAX_REASON,
    TAGS_ROOT,
    TOPIC_TAGS,
    ClusterSnapshot,
    CordonMark,
    TagSet,
    TopicPartition,
    cordons_root,
    decode_tags,
)
from kafkakit.core.quantities import format_bytes, format_rate, format_rough_time
from kafkakit.core.rights import CommandRights
from kafkakit.execution.decide.journal import ConfigKey, key_of
from kafkakit.execution.decide.plan_state import LiveState, MoveGoal, list_items, require_rights
from kafkakit.execution.decide.progress import (
    BatchObservation,
    BatchWatch,
    NextAction,
    RoundState,
    source_bytes,
    sources_told,
)
from kafkakit.execution.decide.throttle import Configs, is_to_repeat, shows
from kafkakit.ports.acting import Clock, ProgressBar, Reporter, look_until, pause
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import LogReader
from kafkakit.ports.stores import ControlStore

R = TypeVar("R")


class Retrier:
    """Repeats calls that fail for the moment: a broker or the controller may be changing.

    It repeats an action as it is: one that may not be made twice looks first at what is there (see `ConfigWriter`).
    `retry_limit_s` limits the time from the first failure; then the last `TryLaterError` is raised. A cluster that
    refuses the settings before it gave any answer is not tried again: they are wrong, and nothing runs yet that could
    wait for a new password.
    """

    def __init__(self, clock: Clock, reporter: Reporter, retry_limit_s: float) -> None:
        self._clock, self._reporter, self._retry_limit_s = clock, reporter, retry_limit_s
        self._has_answered = False

    def call(self, what: str, action: Callable[[], R]) -> R:
        """Run `action`, and again after a growing pause while it raises `TryLaterError`."""
        first_failure, pause_s = None, 0.5
        while True:
            try:
                answer = action()
            except LeaseLostError:
                raise  # the process that has it now may be acting already
            except TryLaterError as error:
                if isinstance(error, ConnectRefusedError) and not self._has_answered:
                    raise
                now = self._clock.monotonic()
                if first_failure is None:
                    first_failure = now
                    self._reporter.warn(f"{what}: {error.message}; trying again")
                if now - first_failure + pause_s > self._retry_limit_s:
                    raise
                pause(self._clock, pause_s)
                pause_s = min(pause_s * 2, 8.0)
            else:
                self._has_answered = True
                return answer


CALL_SIZE = 200
"""Changes a call: far below the 10,000 that Kafka takes, so that a journal line stays readable."""
SHOW_TIMEOUT_S = 20.0
ConfigValues: TypeAlias = dict[ConfigKey, str | None]
"""What single keys are set to; those of topics that are gone and of brokers that do not answer are absent."""
ConfigChanges: TypeAlias = Mapping[ConfigChange, str | None]
"""Changes, each with the value that it replaces."""
NoteErrors: TypeAlias = Callable[[Mapping[ConfigChange, ItemError]], object]
"""Journals what came of changes: which were refused, and why."""
IsSame: TypeAlias = Callable[[str | None, str | None], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOutcome:
    """Which changes were refused and why, and which a read did not show in time, with what it showed; others are made.

    `gone` are accepted ones of a topic or broker that the last read does not show.
    """

    refused: Mapping[ConfigChange, ItemError] = field(default_factory=dict)
    unshown: Mapping[ConfigChange, str | None] = field(default_factory=dict)
    gone: tuple[ConfigChange, ...] = ()


class ConfigWriter:
    """Reads and changes what is set on topics and brokers; every change stands in a journal before it is made.

    `what` names the settings in warnings; `waits_for_gone` is for `wait_until_shown`. Kafka has no compare-and-set:
    what another process writes between a read and the write after it is overwritten. Where an answer is lost, a read
    comes before the next try, so that this stays a moment however long the cluster is away.
    """

    def __init__(
        self,
        admin: ClusterAdmin,
        clock: Clock,
        retrier: Retrier,
        what: str,
        is_same: IsSame = eq,
        *,
        waits_for_gone: bool = False,
    ) -> None:
        self._admin, self._clock, self._retrier, self._what, self._is_same = admin, clock, retrier, what, is_same
        self._waits_for_gone = waits_for_gone

    def configs(self, kind: ResourceKind, names: Collection[str]) -> Configs:
        """What is set on the topics that exist, or on the brokers that answer."""
        if not names:
            return {}
        return self._retrier.call(f"reading {self._what}", lambda: self._admin.dynamic_configs(kind, sorted(names)))

    def values(self, keys: Collection[ConfigKey]) -> ConfigValues:
        """What single keys are set to now."""
        return _values_of(keys, self.configs)

    def write(self, changes: ConfigChanges, intend: Callable[[ConfigChanges], NoteErrors]) -> WriteOutcome:
        """Make the changes, and wait until they show; `intend` journals those of a call before it is made.

        The values that they replace have to be true for SET and DELETE: where an answer is lost, and another value is
        there before the next try, it is another process's and stays; the change is among the unshown then.
        """
        refused: dict[ConfigChange, ItemError] = {}
        for call in _calls(changes):
            note_errors = intend(call)
            answers = self._alter(call)
            errors = {c: e for c in call if (e := answers.get(c)) is not None}
            note_errors(errors)
            refused |= errors
        accepted = [c for c in changes if c not in refused]
        shown = wait_until_shown(self._clock, accepted, self.values, self._is_same, waits_for_gone=self._waits_for_gone)
        return replace(shown, refused=refused)

    def _alter(self, call: ConfigChanges) -> Mapping[ConfigChange, ItemError | None]:
        """Make the changes of a call. From the second try on only those that a read finds still to be made.

        What no read shows is sent again: of what is gone the cluster refuses it.
        """
        is_first = True

        def alter() -> Mapping[ConfigChange, ItemError | None]:
            nonlocal is_first
            todo = list(call)
            if not is_first:
                found = _values_of({key_of(c) for c in call}, self._admin.dynamic_configs)
                todo = [
                    change
                    for change, replaced in call.items()
                    if (key := key_of(change)) not in found or is_to_repeat(change, replaced, found[key], self._is_same)
                ]
            is_first = False
            return self._admin.alter_configs(todo) if todo else {}

        return self._retrier.call(f"changing {self._what}", alter)


def _values_of(keys: Collection[ConfigKey], read: Callable[[ResourceKind, Collection[str]], Configs]) -> ConfigValues:
    names = {kind: sorted({k.name for k in keys if k.kind is kind}) for kind in ResourceKind}
    own = {kind: read(kind, wanted) for kind, wanted in names.items() if wanted}
    return {k: own[k.kind][k.name].get(k.key) for k in keys if k.name in own[k.kind]}


def noted_before(_: ConfigChanges) -> NoteErrors:
    """Journals nothing: for changes of which a journal has the intent, with those of other effects."""
    return lambda _: None


def _calls(changes: ConfigChanges) -> Iterator[ConfigChanges]:
    """Cut changes into calls; one key of one resource appears once in a call (Kafka refuses duplicates)."""
    call: dict[ConfigChange, str | None] = {}
    keys: set[ConfigKey] = set()
    for change, earlier in changes.items():
        if call and (key_of(change) in keys or len(call) >= CALL_SIZE):
            yield call
            call, keys = {}, set()
        call[change] = earlier
        keys.add(key_of(change))
    if call:
        yield call


def wait_until_shown(
    clock: Clock,
    changes: Iterable[ConfigChange],
    read: Callable[[Collection[ConfigKey]], ConfigValues],
    is_same: IsSame = eq,
    *,
    waits_for_gone: bool,
) -> WriteOutcome:
    """Read until the changes show, for `SHOW_TIMEOUT_S` at most; what another process wrote meanwhile is not shown.

    A topic or broker that a read does not show may come back: with `waits_for_gone` that is waited for as well.
    """
    waiting = list(changes)

    def look() -> ConfigValues:
        found = read({key_of(c) for c in waiting})
        waiting[:] = [c for c in waiting if key_of(c) not in found or not shows(c, found[key_of(c)], is_same)]
        return found

    def is_over(found: ConfigValues) -> bool:
        return not any(waits_for_gone or key_of(c) in found for c in waiting)

    last = look_until(clock, SHOW_TIMEOUT_S, look, is_over, every_s=0.2)
    unshown = {c: last[key_of(c)] for c in waiting if key_of(c) in last}
    return WriteOutcome(unshown=unshown, gone=tuple(c for c in waiting if c not in unshown))


def read_min_isr(admin: ClusterAdmin, alive: Collection[int]) -> dict[int, int]:
    """What each of these brokers uses for topics without a `min.insync.replicas` of their own; silent ones are absent.

    One request to each, side by side.
    """
    found = admin.broker_settings(alive, [MIN_ISR]) if alive else {}
    return {broker: min_isr_of(values) for broker, values in found.items() if values.get(MIN_ISR)}


def read_usual_min_isr(admin: ClusterAdmin, alive: Collection[int]) -> int:
    """The largest that one of these brokers uses for topics without a minimum of their own; 1 if none answers."""
    return max(read_min_isr(admin, alive).values(), default=1)


def with_usual_min_isr(admin: ClusterAdmin, snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """The snapshot with `min_isr`; a broker that did not answer before is not asked again."""
    asked = [b.id for b in snapshot.brokers if b.is_alive and b.id not in snapshot.unanswered_brokers]
    return replace(snapshot, min_isr=read_min_isr(admin, asked))


class RetryingReader:
    """Reads of the live cluster, with retries."""

    def __init__(self, admin: ClusterAdmin, clock: Clock, retrier: Retrier) -> None:
        self._admin, self._clock, self._retrier = admin, clock, retrier

    def live(self, topics: Collection[str]) -> LiveState:
        """Brokers, running moves, then the named topics' partitions, in that order (see `LiveState`)."""

        def read() -> LiveState:
            info = self._admin.cluster()
            running = {TopicPartition(r.topic, r.partition): r for r in self._admin.reassignments()}
            return LiveState(
                cluster_id=info.cluster_id,
                brokers={b.id: b for b in info.brokers},
                states=self._admin.partition_states(topics),
                running=running,
                operations=info.operations,
            )

        return self._retrier.call("reading the cluster", read)

    def require_rights(self, duty: CommandRights, live: LiveState, topics: Collection[str] = ()) -> None:
        """Raise `RefusedError` unless the caller may do its duty, on each of these topics too; one request for 500."""
        told = self._retrier.call("reading rights", lambda: self._admin.topic_operations(topics)) if topics else {}
        require_rights(duty, live, told)

    def dirs(self, goals: Sequence[MoveGoal], live: LiveState) -> Mapping[int, BrokerLogDirs]:
        """Log dirs of the brokers that the goals' data passes through, as far as they are alive."""
        brokers = sorted({b for g in goals if g.adding for b in (*g.holders, *g.adding) if live.is_alive(b)})
        if not brokers:
            return {}
        keys = [g.key for g in goals if g.adding]
        return self._retrier.call("reading log dirs", lambda: self._admin.log_dirs(brokers, keys))

    def dirs_of(
        self, brokers: Collection[int], keys: Collection[TopicPartition], live: LiveState
    ) -> Mapping[int, BrokerLogDirs]:
        """Log dirs of those of the brokers that are alive, with the copies of the named partitions only."""
        alive = sorted(b for b in brokers if live.is_alive(b))
        if not alive:
            return {}
        return self._retrier.call("reading log dirs", lambda: self._admin.log_dirs(alive, keys))

    def offline(self, brokers: Collection[int]) -> frozenset[str]:
        """Log dirs of the brokers that are offline now, as `broker:path`."""
        if not brokers:
            return frozenset()
        wanted = sorted(brokers)
        found = self._retrier.call("reading log dirs", lambda: self._admin.log_dirs(wanted, ()))
        return frozenset(f"{b}:{d.path}" for b, answer in found.items() for d in answer.log_dirs if d.error)

    def with_states(self, live: LiveState, keys: Collection[TopicPartition]) -> LiveState:
        """Add the states of more partitions' topics; only those that are missing are read."""
        missing = sorted({k.topic for k in keys if k not in live.states})
        if not missing:
            return live
        more = self._retrier.call("reading topics", lambda: self._admin.partition_states(missing))
        return replace(live, states={**live.states, **more})

    def sized(self, goals: Sequence[MoveGoal], live: LiveState) -> tuple[MoveGoal, ...]:
        """The goals with their live sizes, where brokers tell them."""
        dirs = self.dirs(goals, live)
        return tuple(replace(g, size_bytes=source_bytes(g, dirs) or None) for g in goals)


class RunReporter:
    """Reports how a run is doing: the bar, and once for each broker or partition what holds it up."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._told: set[int] = set()
        self._warned_sourceless: set[TopicPartition] = set()

    def show(
        self,
        bar: ProgressBar,
        round_state: RoundState,
        seen: BatchObservation,
        watch: BatchWatch,
        *,
        done: int,
        total: int,
    ) -> None:
        """Move the bar: bytes where there are any, else steps."""
        steps, over = len(round_state.schedule.steps), len(round_state.done) + len(round_state.dropped)
        words = [f"{over}/{steps} steps, {len(round_state.flying)} in flight"]
        if not total:
            bar.update(over, steps, words[0])
            return
        words.append(f"{format_bytes(done)} of {format_bytes(total)}")
        if rate := watch.bytes_per_s:
            words.append(f"{format_rate(rate)}, {format_rough_time(max(0, total - done) / rate)} left")
        bar.update(min(done, total), total, ", ".join(words))

    def tell(self, seen: BatchObservation, watch: BatchWatch) -> None:
        """Warn of what waits for a dead broker or has no source."""
        for broker in sorted(set(seen.blocked.values()) - self._told):
            self._told.add(broker)
            keys = [str(k) for k, b in sorted(seen.blocked.items()) if b == broker]
            self._reporter.warn(f"broker {broker} is not alive; waiting on it: {list_items(keys)}")
        lasting = {k: v for k, v in seen.sourceless.items() if k in watch.sourceless_before}
        if lasting.keys() - self._warned_sourceless:
            self._warned_sourceless |= lasting.keys()
            self._reporter.warn(f"no live source, waiting for one: {sources_told(lasting)}")


def stop_reason(seen: BatchObservation, watch: BatchWatch, stall_timeout_s: float) -> str:
    """Why a run ends although moves are in flight, in one line."""
    waiting = [str(k) for k in sorted(seen.pending)]
    if watch.decision is NextAction.DISK:
        keys = [str(k) for k in sorted(seen.broken)]
        lost = f"; copies that were to come into it: {list_items(keys)}" if keys else ""
        return (
            f"a log dir went offline on a destination: {', '.join(seen.offline_dirs)}{lost}; nothing more is sent. "
            "Repair the dir and restart its broker, then continue, or undo the run"
        )
    if watch.decision is NextAction.BLOCKED:
        words = []
        if seen.blocked:
            dead = ", ".join(str(b) for b in sorted(set(seen.blocked.values())))
            keys = [str(k) for k in sorted(seen.blocked)]
            words.append(f"broker {dead} is not alive and {len(keys)} moves wait for it: {list_items(keys)}")
        if seen.sourceless:
            words.append(f"no live source, nothing is copied: {sources_told(seen.sourceless)}")
        return "; ".join(words)
    waiting += [f"{r.topic}-{r.partition} inside broker {r.broker}" for r in sorted(seen.inside)]
    still = waiting or [str(k) for k in sorted(seen.idle)]
    return f"no progress for {format_rough_time(stall_timeout_s)} on {len(still)} moves: {list_items(still)}"


def fetch_answers(
    log: LogReader, offsets: Mapping[TopicPartition, int], *, max_bytes: int, partition_bytes: int | None = None
) -> dict[TopicPartition, FetchedBatches]:
    """Fetch what the logs hold now until each partition has an answer: one fetch may end before slow leaders answer.

    A leader that is silent is an error after 3 s. Cost: as a rule one request to each leader.
    """
    found: dict[TopicPartition, FetchedBatches] = {}
    while left := {key: offset for key, offset in offsets.items() if key not in found}:
        answers = log.fetch(left, max_bytes=max_bytes, wait_ms=0, partition_bytes=partition_bytes)
        found |= {key: answer for key, answer in answers.items() if answer.answered}
    return dict(sorted(found.items()))


class TagPlaces(Protocol):
    """Where the tags of a cluster may lie; each store is opened on first use."""

    @property
    def control(self) -> ControlStore:
        """The control store of the profile."""
        ...

    @property
    def znodes(self) -> ControlStore:
        """All of ZooKeeper's tree."""
        ...

    @property
    def cluster_id(self) -> str:
        """The id of the cluster."""
        ...


def read_tags(store: ControlStore, root: str = TAGS_ROOT) -> TagSet:
    """All tags below `root`: `<root>/broker/<id>` and `<root>/topic/<name>`, each `{"key": "value"}` as in kafka-kit.

    Raises `InputError` for a record that holds something else, `TryLaterError` where the store does not answer.
    """
    brokers = _kind(store, f"{root}/{BROKER_TAGS}")
    return TagSet(
        brokers={int(name): tags for name, tags in brokers.items() if name.isdecimal() and name.isascii()},
        topics=_kind(store, f"{root}/{TOPIC_TAGS}"),
    )


def read_cordons(store: ControlStore, cluster_id: str) -> dict[int, tuple[CordonMark, int]]:
    """The marks of `broker cordon` by broker, each with the version of its document. One read of a folder.

    Raises `InputError` for a document that holds something else, `TryLaterError` where the store does not answer.
    """
    root, found = cordons_root(cluster_id), {}
    for name, record in store.values(root).items():
        mark = CORDON.stored(record.value, f"{root}/{name}")
        if name != str(mark.broker) or len(mark.reason) > MAX_REASON:
            raise InputError(f"control document {root}/{name}", "does not hold the mark of this broker")
        found[mark.broker] = (mark, record.version)
    return dict(sorted(found.items()))


def cordon_reasons(store: ControlStore, cluster_id: str) -> dict[int, str]:
    """Why brokers are cordoned, by id."""
    return {broker: mark.reason for broker, (mark, _) in read_cordons(store, cluster_id).items()}


def cordons_or_warning(
    open_store: Callable[[], ControlStore], cluster_id: str, warn: Callable[[str], object]
) -> dict[int, str]:
    """Why brokers are cordoned, by id; none, and a warning, where that cannot be read."""
    try:
        return cordon_reasons(open_store(), cluster_id)
    except (OperationFailedError, TryLaterError, UsageError) as error:
        warn(f"it is not known which brokers are cordoned, plans may use them: {error.message}")
        return {}


def mark_cordoned(
    snapshot: ClusterSnapshot,
    open_store: Callable[[], ControlStore] | None,
    warn: Callable[[str], object],
    admin: ClusterAdmin | None = None,
) -> ClusterSnapshot:
    """The cluster with the marks of `broker cordon`, for planners.

    Where the store cannot be read `warn` gets a line that says so: no mark is known then. With `admin` brokers count as
    well whose log dirs Kafka has all cordoned: for snapshots without log dirs. One request a broker.
    """
    marked: dict[int, str] = {}
    if admin is not None:
        marked = _cordoned_by_kafka(admin, [b.id for b in snapshot.brokers if b.is_alive])
    if open_store is not None:
        marked |= cordons_or_warning(open_store, snapshot.cluster_id, warn)
    known = {b.id for b in snapshot.brokers}
    cordoned = {b: reason for b, reason in sorted(marked.items()) if b in known}
    return replace(snapshot, cordoned=cordoned) if cordoned else snapshot


def _cordoned_by_kafka(admin: ClusterAdmin, alive: Collection[int]) -> dict[int, str]:
    """The brokers that use a `cordoned.log.dirs` which names all their log dirs; silent ones are absent."""
    found = {}
    keys = [CORDONED_DIRS, "log.dirs", "log.dir"]
    for broker, values in (admin.broker_settings(alive, keys) if alive else {}).items():
        shut = set(filter(None, values.get(CORDONED_DIRS, "").split(",")))
        dirs = set(filter(None, (values.get("log.dirs") or values.get("log.dir") or "").split(",")))
        if "*" in shut or (dirs and dirs <= shut):
            found[broker] = CORDONED_DIRS
    return found


def _kind(store: ControlStore, folder: str) -> dict[str, dict[str, str]]:
    found = {name: decode_tags(record.value, f"{folder}/{name}") for name, record in store.values(folder).items()}
    return {name: tags for name, tags in found.items() if tags}
