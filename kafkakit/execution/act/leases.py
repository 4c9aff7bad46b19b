"""Leases in the control store: nothing is changed on a cluster without its lease.

A lease is taken, kept and given back; who holds it can be read. Clients and clocks of an action ask for the lease
before each change. An action is given what it may use of one cluster, and what came of the attempt to become the one
process that may change it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Protocol, TypeAlias

from kafkakit.core.cluster_facts import AclBinding, ConfigChange, ItemError, QuotaChanges, QuotaEntity
from kafkakit.core.errors import (
    ConflictError,
    KafkakitError,
    LeaseHeldError,
    LeaseLostError,
    LeaseUnknownError,
    OperationFailedError,
    TryLaterError,
)
from kafkakit.core.lease import (
    DEFAULT_TTL_S,
    LEASE_DOCUMENT,
    HeldLease,
    Holder,
    LeaseGrant,
    LeaseRecord,
    LeaseRefusal,
    LeaseWait,
    LeaseWatch,
    Life,
    OwnLease,
    VersionedValue,
    decide,
    held_words,
    waiting_words,
    watch,
)
from kafkakit.core.model import TopicPartition, TopicPartitionReplica
from kafkakit.core.quantities import format_duration
from kafkakit.ports.acting import Clock, Reporter, pause, repeat_every
from kafkakit.ports.admin import AdminReads, ClusterAdmin
from kafkakit.ports.stores import ControlStore

_LOOKS_PER_TTL = 20
_LONGEST_NAP_S = 0.5
_AWAY_NAP_S = 0.5


class Lease:
    """One process's claim to a lease; for one thread.

    `what` names the thing for people ("cluster X"). `life_of` tells what is certain of a holder's process
    (`wiring.life_of`); `say` gets a line when there is something to wait for.
    """

    def __init__(
        self,
        store: ControlStore,
        clock: Clock,
        path: str,
        holder: Holder,
        *,
        what: str,
        life_of: Callable[[Holder], Life],
        say: Callable[[str], None],
    ) -> None:
        self._store, self._clock, self._path, self._holder = store, clock, path, holder
        self._what, self._life_of, self._say = what, life_of, say
        self._tenure: OwnLease | None = None
        self._watching: LeaseWatch | None = None

    @property
    def token(self) -> int:
        """The fencing token; raises `LeaseLostError` when the lease is not ours."""
        return self._held().record.token

    def acquire(self, ttl_s: float = DEFAULT_TTL_S) -> int:
        """Take the lease and return its fencing token, greater than every earlier one.

        A holder that renews its lease is not disturbed: `TryLaterError` says who it is, for one on this host whose
        lease has not run out at once. A holder that ended here is replaced at once. Any other one is watched until it
        renews the lease, or until that has run (15 s by default) without; then it is replaced. `ttl_s` should be longer
        than the longest single request to the cluster.
        """
        self._watching = None
        first: LeaseWatch | None = None
        announced = False
        while True:
            record = self._watch()
            first = first or self._watching
            match decide(record, self._watching, first, self._clock.now(), self._life(record)):
                case LeaseGrant(token, expected):
                    if self._take(token, expected, ttl_s):
                        return token
                case LeaseRefusal(holder):
                    raise LeaseHeldError(
                        held_words(self._what, holder),
                        hint="run the same command again once that one has ended, or stop that one with Ctrl-C",
                    )
                case LeaseWait() as wait:
                    if not announced:
                        self._say(waiting_words(self._what, wait))
                        announced = True
                    pause(self._clock, min(wait.seconds, _LONGEST_NAP_S, wait.record.ttl_s / _LOOKS_PER_TTL))

    def look(self) -> bool:
        """One look without waiting; True when the lease could be taken now.

        For loops that look again and again: a holder is silent once its lease has run from look to look without a
        change (`core.lease.watch`).
        """
        return isinstance(self._decision(), LeaseGrant)

    def attempt(self, ttl_s: float = DEFAULT_TTL_S) -> bool:
        """As `look`, and take the lease where it can be taken; True when it is ours from now on.

        Our own lease whose time ran out is taken up again with its token, unless another process had it in between.
        """
        if self._tenure is not None:
            with suppress(LeaseLostError):
                self.renew()
                return True
        decision = self._decision()
        return isinstance(decision, LeaseGrant) and self._take(decision.token, decision.expected, ttl_s)

    def hold_or_attempt(self, ttl_s: float = DEFAULT_TTL_S) -> bool:
        """For one of several that lead in turn: whether the lease is ours; renewed when it is time to, or taken.

        Raises `LeaseLostError` when another process had it since, and what the store raises.
        """
        if self.is_held():
            self.require_held()
            return True
        return self.attempt(ttl_s)

    def is_held(self) -> bool:
        """Whether the lease is certainly ours at this moment; without a request to the store; any thread may ask."""
        tenure = self._tenure
        return tenure is not None and tenure.is_held(self._clock.monotonic(), self._clock.now())

    def renew(self) -> None:
        """Write the lease again; `LeaseLostError` when another process has it, `TryLaterError` when that is unknown."""
        tenure = self._held()
        beaten = _next_beat(tenure.record, self._clock)
        try:
            self._write(beaten, tenure.version)
        except ConflictError:
            self._adopt_own_write()

    def require_held(self) -> None:
        """To be called before each effect: returns only while the lease is certainly ours.

        Renews when it is time to, and after a long pause finds out whether another process came in between. Raises
        `LeaseLostError` when one did, or when the store is away for longer than the lease runs.
        """
        problem = self._renew_if_due()
        if not self.is_held():
            hint = None if problem is None else problem.hint
            raise LeaseLostError(f"{self._what}: the lease could not be renewed in time{_in_words(problem)}", hint=hint)

    def keep(self, retry_limit_s: float) -> None:
        """Renew when it is time to, and while the store is away wait for it, `retry_limit_s` at most, doing nothing.

        Renewing is compare-and-set, so a lease whose time ran out meanwhile is ours again only if no other process had
        it in between. Raises `LeaseLostError` when one had, or when the store stays away.
        """
        if (problem := self._renew_if_due()) is None:
            return
        limit = format_duration(retry_limit_s)
        self._say(f"{self._what}: {problem.message}; nothing new is begun until it answers, for {limit} at most")
        for _ in islice(repeat_every(self._clock, _AWAY_NAP_S, retry_limit_s), 1, None):
            if (latest := self._renew_if_due()) is None:
                self._say(f"{self._what}: the control store answers again, and the lease is still ours")
                return
            problem = latest
        raise LeaseLostError(f"{self._what}: the lease could not be renewed in time{_in_words(problem)}")

    def _renew_if_due(self) -> TryLaterError | None:
        """Renew when a third of the time is over; the error says why that could not be done, None: ours for a while."""
        if not self._held().is_due(self._clock.monotonic(), self._clock.now()):
            return None
        try:
            self.renew()
        except LeaseLostError:
            raise
        except TryLaterError as error:
            return error
        return None if self.is_held() else TryLaterError("it answers too slowly")

    def release(self) -> None:
        """Give the lease back; when that fails, the others wait until its time is over. Harmless when not held."""
        tenure, self._tenure = self._tenure, None
        if tenure is None:
            return
        try:
            self._give_back(tenure)
        except KafkakitError as error:
            self._say(f"{self._what}: the lease could not be released ({error.message}); it expires by itself")

    def _decision(self) -> LeaseGrant | LeaseWait | LeaseRefusal:
        record = self._watch()
        return decide(record, self._watching, None, self._clock.now(), self._life(record))

    def _watch(self) -> LeaseRecord | None:
        """Look once, and count for how long the lease was not renewed."""
        asked_s = self._clock.monotonic()
        found = self._store.get(self._path)
        now_s = self._clock.monotonic()
        record = decoded_lease(found, self._path)
        if found is None or record is None:
            self._watching = None
        else:
            self._watching = watch(self._watching, found, ttl_s=record.ttl_s, asked_s=asked_s, now_s=now_s)
        return record

    def _give_back(self, tenure: OwnLease) -> None:
        free = LEASE_DOCUMENT.encode(_next_beat(tenure.record, self._clock, keep_holder=False))
        try:
            self._store.cas(self._path, free, tenure.version)
        except ConflictError:
            # A renewal that was cut short may have arrived; a lease of another process is left alone.
            found = self._store.get(self._path)
            if found is not None and self._is_ours(decoded_lease(found, self._path), tenure):
                with suppress(ConflictError):
                    self._store.cas(self._path, free, found.version)

    def _is_ours(self, record: LeaseRecord | None, tenure: OwnLease) -> bool:
        return record is not None and (record.token, record.holder) == (tenure.record.token, self._holder)

    def _take(self, token: int, expected: int | None, ttl_s: float) -> bool:
        now = self._clock.now()
        record = LeaseRecord(token=token, beats=0, ttl_s=ttl_s, taken_at=now, renewed_at=now, holder=self._holder)
        try:
            self._write(record, expected)
        except ConflictError:
            return False
        return True

    def _write(self, record: LeaseRecord, expected: int | None) -> None:
        sent_s, sent_at = self._clock.monotonic(), self._clock.now()
        version = self._store.cas(self._path, LEASE_DOCUMENT.encode(record), expected)
        self._tenure = OwnLease(record=record, version=version, sent_s=sent_s, sent_at=sent_at)

    def _adopt_own_write(self) -> None:
        """After a conflict: a renewal that seemed to fail may have arrived, then the document is still ours."""
        tenure = self._held()
        found = self._store.get(self._path)
        record = decoded_lease(found, self._path)
        if found is None or record is None or not self._is_ours(record, tenure):
            self._tenure = None
            by = "no process" if record is None else str(record)
            raise LeaseLostError(f"{self._what}: the lease was taken over, it is held by {by}")
        try:
            self._write(_next_beat(record, self._clock), found.version)
        except ConflictError:
            self._tenure = None
            raise LeaseLostError(f"{self._what}: the lease was taken over just now") from None

    def _held(self) -> OwnLease:
        if self._tenure is None:
            raise LeaseLostError(f"{self._what}: the lease is not held")
        return self._tenure

    def _life(self, record: LeaseRecord | None) -> Life:
        return Life.UNKNOWN if record is None or record.holder is None else self._life_of(record.holder)


def _in_words(problem: TryLaterError | None) -> str:
    return "" if problem is None else f" ({problem.message})"


def _next_beat(record: LeaseRecord, clock: Clock, *, keep_holder: bool = True) -> LeaseRecord:
    return LeaseRecord(
        token=record.token,
        beats=record.beats + 1,
        ttl_s=record.ttl_s,
        taken_at=record.taken_at,
        renewed_at=clock.now(),
        holder=record.holder if keep_holder else None,
    )


def lease_path(cluster_id: str) -> str:
    """Where the lease of one cluster's changes is kept."""
    return f"clusters/{cluster_id}/lease"


def read_lease(store: ControlStore, path: str) -> LeaseRecord | None:
    """The lease as it stands, None when no process ever held it; one read."""
    return decoded_lease(store.get(path), path)


def held_lease(store: ControlStore, cluster_id: str) -> LeaseRecord | None:
    """The lease of one cluster's changes, None while no process holds it; one read.

    Raises `LeaseUnknownError` when the store does not answer.
    """
    try:
        record = read_lease(store, lease_path(cluster_id))
    except (TryLaterError, OperationFailedError) as error:
        raise lease_unknown(cluster_id, error) from None
    return None if record is None or record.holder is None else record


def lease_unknown(cluster_id: str, error: KafkakitError) -> LeaseUnknownError:
    """What is said where the control store does not answer; every command that takes the lease has the option."""
    return LeaseUnknownError(
        f"the lease of cluster {cluster_id} cannot be read or taken: {error.message}",
        hint=f"{error.hint or 'bring the control store back'}; to repair the cluster without it: --without-lease",
    )


def decoded_lease(found: VersionedValue | None, path: str) -> LeaseRecord | None:
    """The lease in a document of the store."""
    return None if found is None else LEASE_DOCUMENT.stored(found.value, path)


class LeaseReader:
    """Reads which process may change a cluster; a control store that does not answer is warned of once.

    `store` opens the control store; `life_of` tells what is certain of a holder's process (`wiring.life_of`);
    `locked_by` names the process of this host that has the lock of the cluster's changes, empty when none has.
    `is_known` tells whether the store answered the last read.
    """

    def __init__(
        self,
        store: Callable[[], ControlStore],
        cluster_id: str,
        life_of: Callable[[Holder], Life],
        locked_by: Callable[[], str],
        reporter: Reporter,
    ) -> None:
        self._locked_by = locked_by
        self._store, self._path, self._life_of, self._reporter = store, lease_path(cluster_id), life_of, reporter
        self._has_warned = False
        self.is_known = True

    def read(self) -> HeldLease | None:
        """The lease and what is known of its holder; None when neither it nor the lock of the host is known."""
        try:
            record, self.is_known = read_lease(self._store(), self._path), True
        except KafkakitError as error:
            self.is_known = False
            if not self._has_warned:
                self._reporter.warn(f"which process may change the cluster cannot be read: {error.message}")
            self._has_warned = True
            record = None
        host = self._locked_by()
        if record is None:
            return HeldLease(locked_by=host) if host else None
        life = Life.UNKNOWN if record.holder is None else self._life_of(record.holder)
        return HeldLease(record=record, life=life, locked_by=host)


AWAY_S = 300.0
"""How long a run waits for a control store that is away: moves continue by themselves meanwhile, throttles stay set."""


class RenewableLease(Protocol):
    """The right to act on a cluster."""

    def require_held(self) -> None:
        """Keep the right, when it is time to; return only while it is certainly ours, else raise `LeaseLostError`."""
        ...

    def keep(self, retry_limit_s: float) -> None:
        """Keep the right while nothing is done, and wait so long for a store that does not answer."""
        ...


class HeldClock:
    """A clock that keeps the lease while a run sleeps; longer sleeps are cut into pieces of `piece_s`.

    A sleep lasts until the control store answers, `away_s` at most: a run that slept looks at the cluster again before
    it acts, so that is where a run waits, and not between a look and its effect.
    """

    def __init__(self, inner: Clock, held: RenewableLease, piece_s: float, away_s: float = AWAY_S) -> None:
        self._inner, self._held, self._piece_s, self._away_s = inner, held, piece_s, away_s

    def now(self) -> datetime:
        return self._inner.now()

    def monotonic(self) -> float:
        return self._inner.monotonic()

    def sleep(self, seconds: float) -> None:
        """Sleep; raises `LeaseLostError` when the lease was lost or could not be kept meanwhile."""
        left = seconds
        while left > 0:
            piece = min(left, self._piece_s)
            pause(self._inner, piece)
            self._held.keep(self._away_s)
            left -= piece


class GuardedAdmin(AdminReads):
    """A `ClusterAdmin` that calls `guard` before every change; reads go straight to `inner`."""

    def __init__(self, inner: ClusterAdmin, guard: Callable[[], None]) -> None:
        super().__init__(inner)
        self._guard = guard

    def reassign(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> Mapping[TopicPartition, ItemError | None]:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.reassign(targets)

    def cancel(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, ItemError | None]:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.cancel(partitions)

    def alter_configs(self, changes: Sequence[ConfigChange]) -> Mapping[ConfigChange, ItemError | None]:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.alter_configs(changes)

    def elect_preferred_leaders(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, ItemError | None]:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.elect_preferred_leaders(partitions)

    def move_log_dirs(
        self, moves: Mapping[TopicPartitionReplica, str]
    ) -> Mapping[TopicPartitionReplica, ItemError | None]:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.move_log_dirs(moves)

    def create_topic(
        self, name: str, assignments: Mapping[int, tuple[int, ...]], configs: Mapping[str, str]
    ) -> ItemError | None:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.create_topic(name, assignments, configs)

    def create_partitions(self, topic: str, assignments: Mapping[int, tuple[int, ...]]) -> ItemError | None:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.create_partitions(topic, assignments)

    def delete_topic(self, name: str) -> ItemError | None:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.delete_topic(name)

    def delete_topic_by_id(self, topic_id: str) -> ItemError | None:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.delete_topic_by_id(topic_id)

    def create_acls(self, bindings: Collection[AclBinding]) -> Mapping[AclBinding, ItemError | None]:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.create_acls(bindings)

    def delete_acls(self, bindings: Collection[AclBinding]) -> Mapping[AclBinding, ItemError | None]:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.delete_acls(bindings)

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, ItemError | None]:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.delete_records(offsets)

    def alter_client_quotas(self, changes: QuotaChanges) -> Mapping[QuotaEntity, ItemError | None]:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.alter_client_quotas(changes)

    def unregister_broker(self, broker: int) -> ItemError | None:
        """See `ports.ClusterAdmin`; guarded."""
        self._guard()
        return self._inner.unregister_broker(broker)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """The clients of one cluster.

    With a `token` this process alone may change the cluster: `admin` and `clock` keep its lease, and `control` is the
    store that the lease is in. Without one nothing may be changed.
    """

    cluster_id: str
    admin: ClusterAdmin
    clock: Clock
    token: int | None = None
    control: ControlStore | None = None


OpenAccess: TypeAlias = Callable[[], AbstractContextManager[ClusterAccess]]
"""Connects and takes the lease until the context ends; `TryLaterError` names the process that has it."""


def access_or_busy(stack: ExitStack, open_access: OpenAccess) -> ClusterAccess | TryLaterError:
    """The access, kept until `stack` ends, or the error that names the process that has the lease.

    Raises `LeaseUnknownError` when the control store does not answer.
    """
    try:
        return stack.enter_context(open_access())
    except LeaseUnknownError:
        raise
    except TryLaterError as busy:
        return busy
