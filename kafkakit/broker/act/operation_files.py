"""Records of operations on brokers with their plans, brokers that leave or are cordoned, and elections in groups.

Planning leaves a broker out while an operation empties it; at the end it is unregistered. Cordoned brokers have a mark.
Preferred leaderships are given in groups, each of which has to have happened before the next is asked for.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from kafkakit.broker.decide.cordons import CordonFacts, CordonStep, facts_of, require_brokers
from kafkakit.broker.decide.operation import (
    LIMIT_BYTES,
    BrokerOperation,
    BrokerOperationKind,
    ElectionPace,
    OperationPlan,
    OperationPlanKind,
    Stage,
    base_name,
    cordoned_words,
    decode_operation,
    emptied_by,
    encode_operation,
    leaving_words,
    mark_leaving,
)
from kafkakit.core.cluster_facts import ResourceKind, cluster_id_problem
from kafkakit.core.documents import CORDON, encode_plan
from kafkakit.core.errors import InputError, OperationFailedError, UsageError
from kafkakit.core.findings import MIN_ISR
from kafkakit.core.model import CORDONED_DIRS, ClusterSnapshot, TopicPartition, cordons_root
from kafkakit.core.plan import Plan, identity_of
from kafkakit.core.quantities import count_of
from kafkakit.core.text import few_of
from kafkakit.execution.act.leases import ClusterAccess, OpenAccess
from kafkakit.execution.act.retrier import ConfigWriter, Retrier, mark_cordoned, noted_before, read_cordons
from kafkakit.execution.decide.plan_state import wants_election
from kafkakit.ports.acting import Clock, Reporter, looks, pace
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.stores import ControlStore

WriteFile = Callable[[Path, bytes, int], None]
Legs = Sequence[tuple[OperationPlanKind, Plan]]


class Records:
    """One cluster's operations on this host; `write` replaces a file as a whole and returns once it is on disk.

    `open_store` gives the control store with the marks of cordoned brokers; without it there are none.
    """

    def __init__(
        self, folder: Path, write: WriteFile, clock: Clock, open_store: Callable[[], ControlStore] | None = None
    ) -> None:
        self._folder, self._write, self._clock, self.open_store = folder, write, clock, open_store

    @property
    def cluster_id(self) -> str:
        """The cluster, after which the folder is named."""
        return self._folder.name

    def path_of(self, operation: BrokerOperation) -> Path:
        """The record's file."""
        return self._folder / f"{operation.name}.json"

    def plan_path(self, leg: OperationPlan) -> Path:
        """The file of a plan."""
        return self._folder / leg.plan

    def newest(
        self, kind: BrokerOperationKind, brokers: tuple[int, ...], onto: int | None = None
    ) -> BrokerOperation | None:
        """The last operation of this kind on just these brokers."""
        numbers = self._numbers(base_name(kind, brokers, onto))
        if not numbers:
            return None
        return self.read(self._folder / f"{base_name(kind, brokers, onto)}.{max(numbers)}.json")

    def others_open(self, mine: BrokerOperation | None, brokers: Sequence[int]) -> tuple[Path, ...]:
        """Records of other operations that are not over and share a broker; damaged ones are passed over."""
        return tuple(
            self.path_of(other)
            for other in self._sound()
            if other.is_open and set(other.brokers) & set(brokers) and (mine is None or other.name != mine.name)
        )

    def last_on(self, brokers: Collection[int]) -> BrokerOperation:
        """The operation on just these brokers that was changed last; `UsageError` for none.

        One that is taken back already counts, too: a second run must not continue with the one before it.
        """
        found = [o for o in self._sound() if set(o.brokers) == set(brokers)]
        if not found:
            raise UsageError(
                f"no operation on broker {few_of(sorted(brokers))} is recorded on this host",
                hint=f"name its file; the records of this host are in {self._folder}",
            )
        return max(found, key=lambda o: (o.updated_at, o.number, o.name))

    def emptied(self) -> dict[int, BrokerOperation]:
        """Each broker that an operation of this host empties, or emptied, and that was not taken back in since."""
        return emptied_by(self._sound())

    def leaders_away(self, brokers: Collection[int]) -> tuple[BrokerOperation, ...]:
        """The drains of leaderships from any of these brokers that are not taken back."""
        return tuple(
            o
            for o in self._sound()
            if o.kind is BrokerOperationKind.LEADERS
            and o.legs
            and o.stage is not Stage.UNDONE
            and not set(brokers).isdisjoint(o.brokers)
        )

    def note_rejoined(self, brokers: Collection[int]) -> tuple[int, ...]:
        """Plans may use the brokers again; returns those that were left out until now."""
        back = {b: o for b, o in self.emptied().items() if b in brokers}
        for operation in {o.name: o for o in back.values()}.values():
            self.save(replace(operation, rejoined=tuple(sorted({*operation.rejoined, *back} & {*operation.brokers}))))
        return tuple(sorted(back))

    def _sound(self) -> Iterator[BrokerOperation]:
        """Every record that makes sense, by name."""
        for path in sorted(self._folder.glob("*.json")) if self._folder.is_dir() else ():
            if not path.name.endswith(".plan.json"):
                with suppress(InputError):
                    yield self.read(path)

    def to_restore(self, name: str, brokers: Collection[int]) -> BrokerOperation | None:
        """The operation that `--restore` names: a file, or `last` for the last one on just these brokers.

        `leaders` is the last one that moved only leaderships off them, None without one.
        """
        if not name:
            return None
        if name == "leaders":
            return self.newest(BrokerOperationKind.LEADERS, tuple(sorted(brokers)))
        return self.last_on(brokers) if name == "last" else self.named(Path(name))

    def named(self, path: Path) -> BrokerOperation:
        """The record of a file named by an operator; it must be one of these, since its plans are beside it."""
        found = self.read(path)
        if path.resolve() != self.path_of(found).resolve():
            raise InputError(
                str(path),
                "is not where this host keeps that record, its plans and journals",
                hint=f"run it on the host of the operation, with the file in {self._folder}",
            )
        return found

    def read(self, path: Path) -> BrokerOperation:
        """Read a record; raises `InputError` when it is missing, too large, or makes no sense."""
        try:
            if path.stat().st_size > LIMIT_BYTES:
                raise InputError(str(path), f"is larger than {LIMIT_BYTES} bytes, this is not a record of an operation")
            data = path.read_bytes()
        except OSError as error:
            raise InputError(str(path), f"cannot be read: {error.strerror}") from None
        return decode_operation(data, str(path))

    def begin(
        self,
        kind: BrokerOperationKind,
        cluster_id: str,
        brokers: tuple[int, ...],
        onto: int | None,
        words: dict[str, str],
    ) -> BrokerOperation:
        """A record with a number of its own, not written yet (`add` does that with its first plans)."""
        now = self._clock.now()
        return BrokerOperation(
            kind=kind,
            cluster_id=cluster_id,
            brokers=brokers,
            onto=onto,
            number=max(self._numbers(base_name(kind, brokers, onto)), default=0) + 1,
            created_at=now,
            updated_at=now,
            stage=Stage.MOVING,
            words=words,
        )

    def add(self, operation: BrokerOperation, plans: Legs) -> BrokerOperation:
        """Put plans behind those that are there: their files first, so that a record never names a missing one."""
        legs = list(operation.legs)
        for kind, plan in plans:
            name = f"{operation.name}.{len(legs) + 1}-{kind.value}.plan.json"
            self._write_file(self._folder / name, encode_plan(plan))
            legs.append(OperationPlan(kind=kind, plan=name, identity=identity_of(plan)))
        return self.save(replace(operation, legs=tuple(legs), stage=Stage.MOVING))

    def save(self, operation: BrokerOperation) -> BrokerOperation:
        """Write the record as it is now."""
        stamped = replace(operation, updated_at=self._clock.now())
        self._write_file(self.path_of(stamped), encode_operation(stamped))
        return stamped

    def _write_file(self, path: Path, data: bytes) -> None:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise OperationFailedError(f"the folder {path.parent} cannot be made: {error.strerror}") from None
        self._write(path, data, 0o600)

    def _numbers(self, base: str) -> list[int]:
        if not self._folder.is_dir():
            return []
        pattern = re.compile(re.escape(base) + r"\.([0-9]{1,9})\.json")
        return [int(m[1]) for p in self._folder.iterdir() if (m := pattern.fullmatch(p.name))]


def operations_folder(state_dir: Path, cluster_id: str) -> Path:
    """Where a cluster's records are; the cluster id was checked."""
    return state_dir / "operations" / cluster_id


def open_records(
    state_dir: Path,
    cluster_id: str,
    write: WriteFile,
    clock: Clock,
    open_store: Callable[[], ControlStore] | None = None,
) -> Records:
    """The operations on a cluster; raises `InputError` for an id that cannot be the name of a folder."""
    if problem := cluster_id_problem(cluster_id):
        raise InputError("the cluster", problem)
    return Records(operations_folder(state_dir, cluster_id), write, clock, open_store)


def operation_lock(state_dir: Path, cluster_id: str, name: str) -> tuple[Path, str, str]:
    """The lock that keeps other processes of this host off an operation: its file, what it is of, the command."""
    path = state_dir / "locks" / f"{cluster_id}.{name}.lock"
    return path, f"{name} on cluster {cluster_id}", f"broker {name.replace('-', ' ', 1)}"


class Unregister:
    """Has KRaft forget brokers; safe to repeat, so it needs no journal."""

    def __init__(self, open_access: OpenAccess, reporter: Reporter, retry_limit_s: float) -> None:
        self._open_access, self._reporter, self._retry_limit_s = open_access, reporter, retry_limit_s

    def forget(self, brokers: Sequence[int]) -> tuple[str, ...]:
        """Unregister the brokers in turn; returns what was refused, in words."""
        with self._open_access() as access:
            retrier = Retrier(access.clock, self._reporter, self._retry_limit_s)
            for broker in brokers:
                error = retrier.call("unregistering", partial(access.admin.unregister_broker, broker))
                if error is not None:
                    return (f"broker {broker} is not unregistered: {error}",)
        return ()


def without_leaving(
    snapshot: ClusterSnapshot,
    records: Records | None,
    reporter: Reporter,
    program: str,
    *,
    subject: Collection[int] = (),
    admin: ClusterAdmin | None = None,
) -> ClusterSnapshot:
    """The cluster with such brokers as draining and cordoned ones marked, and a warning of each.

    Without `records` it stays as it was read, and so do brokers that the request itself is about (`subject`). With
    `admin` brokers count as cordoned that Kafka has as such: for a snapshot without log dirs.
    """
    if records is not None and records.open_store is not None:
        snapshot = mark_cordoned(snapshot, records.open_store, reporter.warn, admin)
    emptied = {} if records is None else {b: o for b, o in records.emptied().items() if b not in subject}
    marked = mark_leaving(snapshot, emptied)
    for line in (*leaving_words(marked, emptied, program), *cordoned_words(marked, program)):
        reporter.warn(line)
    return marked


CORDON_LIMIT_S = 30.0
"""How long a call is tried again."""


class CordonWriter:
    """Reads and writes what cordons brokers: marks in the control store, then Kafka's own setting.

    Safe to repeat: a mark holds what Kafka's setting was before, and is written before that changes.
    """

    def __init__(
        self,
        admin: ClusterAdmin,
        clock: Clock,
        reporter: Reporter,
        store: ControlStore,
        cluster_id: str,
    ) -> None:
        self._admin, self._store, self._root = admin, store, cordons_root(cluster_id)
        self._retrier, self._cluster_id = Retrier(clock, reporter, CORDON_LIMIT_S), cluster_id
        self._writer = ConfigWriter(admin, clock, self._retrier, CORDONED_DIRS)
        self._versions: dict[int, int] = {}

    def facts(self, ids: Collection[int], *, marked: bool = False) -> dict[int, CordonFacts]:
        """What is there now; `UsageError` for brokers that the cluster does not have, unless they are `marked`."""
        marks = self._retrier.call("reading marks", lambda: read_cordons(self._store, self._cluster_id))
        self._versions = {broker: version for broker, (_, version) in marks.items()}
        brokers = self._retrier.call("reading the cluster", self._admin.cluster).brokers
        known = {b.id for b in brokers}
        if not known.issuperset(ids):  # a dead one may stand in replica lists alone
            replicas = self._retrier.call("reading the cluster", self._admin.partition_health).replicas
            known |= {*replicas}
        require_brokers(ids, known, marks if marked else ())
        alive = sorted({b.id for b in brokers if b.is_alive}.intersection(ids))
        settings: Mapping[int, Mapping[str, str]] = {}
        if alive:
            keys = [CORDONED_DIRS, MIN_ISR]  # each broker has the second: who tells neither does not answer
            settings = self._retrier.call("reading settings", lambda: self._admin.broker_settings(alive, keys))
        own = self._writer.configs(ResourceKind.BROKER, [str(b) for b in alive if settings.get(b)])
        answered = {b: values for b, values in settings.items() if values}
        return facts_of(ids, answered, own, {broker: mark for broker, (mark, _) in marks.items()})

    def cordon(self, steps: Sequence[CordonStep]) -> dict[int, str]:
        """Write the marks, then tell Kafka; returns what was refused, by broker."""
        for step in steps:
            if step.writes_mark and step.mark is not None:
                value = CORDON.encode(step.mark)
                self._store.cas(f"{self._root}/{step.broker}", value, self._versions.get(step.broker))
        return self._tell(steps)

    def uncordon(self, steps: Sequence[CordonStep]) -> dict[int, str]:
        """Restore what Kafka had, then remove the marks of those where it is restored; returns what was refused."""
        refused = self._tell(steps)
        for step in steps:
            if step.writes_mark and step.broker not in refused:
                self._store.delete(f"{self._root}/{step.broker}", self._versions[step.broker])
        return refused

    def _tell(self, steps: Sequence[CordonStep]) -> dict[int, str]:
        changes = {step.change: step.replaced for step in steps if step.change is not None}
        outcome = self._writer.write(changes, noted_before)  # the marks have the intent
        refused = {int(change.name): str(error) for change, error in outcome.refused.items()}
        late = {int(change.name): f"{CORDONED_DIRS} does not show" for change in (*outcome.unshown, *outcome.gone)}
        return late | refused


SETTLE_S = 15.0
LOOK_EVERY_S = 0.5


class Elections:
    """Lets first replicas lead; safe to repeat, so it needs no journal."""

    def __init__(self, open_access: OpenAccess, reporter: Reporter, pace: ElectionPace, retry_limit_s: float) -> None:
        self._open_access, self._reporter, self._pace, self._retry_limit_s = open_access, reporter, pace, retry_limit_s

    def give(self, keys: Sequence[TopicPartition]) -> tuple[str, ...]:
        """Elect the first replica of each partition; returns what did not come about, in words.

        Stops at the first group that has trouble: what hinders one hinders the others. `TryLaterError` when somebody
        else is changing the cluster.
        """
        if not keys:
            return ()
        with (
            self._open_access() as access,
            self._reporter.progress(f"electing {count_of(len(keys), 'preferred leader')}") as bar,
        ):
            retrier = Retrier(access.clock, self._reporter, self._retry_limit_s)
            for start in pace(access.clock, range(0, len(keys), self._pace.group), self._pace.pause_s):
                if problems := self._elect(access, retrier, keys[start : start + self._pace.group]):
                    return problems
                bar.update(min(start + self._pace.group, len(keys)), len(keys))
        return ()

    def _elect(self, access: ClusterAccess, retrier: Retrier, keys: Sequence[TopicPartition]) -> tuple[str, ...]:
        answers = retrier.call("electing leaders", lambda: access.admin.elect_preferred_leaders(keys))
        errors = {k: e for k, e in answers.items() if e is not None}
        topics = {k.topic for k in keys}
        for _ in looks(access.clock, SETTLE_S, LOOK_EVERY_S):
            states = retrier.call("reading topics", lambda: access.admin.partition_states(topics))
            open_ = [k for k in keys if k in states and wants_election(states[k])]
            if not open_:
                return ()
            if errors:
                break
        refused = [f"{k} ({errors[k]})" if k in errors else f"{k} (led by {states[k].leader})" for k in open_]
        return (f"{count_of(len(open_), 'leadership')} did not pass: {few_of(refused)}",)
