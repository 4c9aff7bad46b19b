"""Upkeep of the store of tags: cleaning up tags of what does not exist any more, and copying all to another store.

Cleanup is one run, or runs again and again beside the service. Migration takes the history along; the source is only
read.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Event, Thread

from kafkakit.core.errors import InputError, KafkakitError, RefusedError, TryLaterError
from kafkakit.core.plan_rules import topic_problem
from kafkakit.core.text import ToldOnce
from kafkakit.execution.act.leases import Lease
from kafkakit.ports.acting import Clock, ProgressBar
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.registry.act.tag_store import TagStore
from kafkakit.registry.decide.tags import (
    MARK,
    CleanupPlan,
    CleanupRules,
    MigrationPlan,
    ObjectKind,
    StoreContent,
    Tags,
    TagTables,
    content_of,
    is_due,
    needs_mark,
    plan_cleanup,
    plan_migration,
    remove_tags,
    with_mark,
)

POLL_S = 5.0
CLEANUP_CALLER = "cleanup"


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPorts:
    """What a cleanup looks at and changes."""

    admin: ClusterAdmin
    tags: TagStore
    clock: Clock


def plan_cleanups(ports: CleanupPorts, rules: CleanupRules) -> tuple[CleanupPlan, ...]:
    """What is to be done now. Raises `TryLaterError` where the cluster or the store does not answer.

    Tags are read before the cluster, so that an object that came meanwhile is not taken for one that is gone. Brokers
    that are fenced, or away with replicas of theirs, exist; so do topics that this user may not see. Records that
    hold no tags are left alone.
    """
    tables = {kind: ports.tags.all(kind, []) for kind in ObjectKind}
    snapshot = ports.admin.snapshot(now=ports.clock.now(), sizes=False)
    if not any(broker.is_alive for broker in snapshot.brokers):
        raise TryLaterError("the cluster lists no live broker: nothing is cleaned up")
    topics = {topic.name for topic in snapshot.topics}
    if topics:
        unseen = {name for name in tables[ObjectKind.TOPIC].keys() - topics if not topic_problem(name)}
        topics |= ports.admin.topic_operations(unseen).keys()
    existing = {ObjectKind.BROKER: {str(broker.id) for broker in snapshot.brokers}, ObjectKind.TOPIC: topics}
    now_s = ports.clock.now().timestamp()
    return tuple(plan_cleanup(kind, tables[kind], existing[kind], now_s, rules) for kind in ObjectKind)


def clean_up(
    ports: CleanupPorts, rules: CleanupRules, plans: Sequence[CleanupPlan], require_held: Callable[[], None]
) -> Iterator[tuple[str, ObjectKind, str]]:
    """Carry plans out: what was done, the kind and the name, one after the other.

    `require_held` is called before each change, and raises where the right to it is not ours any more.
    """
    tags, now_s = ports.tags.acting_for(CLEANUP_CALLER), ports.clock.now().timestamp()

    def mark(present: Tags) -> Tags:
        return with_mark(present, now_s) if present and needs_mark(present, now_s) else present

    for plan in plans:
        steps = (("marked", plan.marks), ("unmarked", plan.unmarks), ("deleted", plan.drops))
        for what, name in ((what, name) for what, names in steps for name in names):
            require_held()
            if what == "deleted":
                if not tags.drop(plan.kind, name, lambda present: is_due(present, now_s, rules.staleness_s)):
                    continue
            else:
                tags.change(plan.kind, name, mark if what == "marked" else lambda p: remove_tags(p, {MARK}))
            yield what, plan.kind, name


class PeriodicCleanup:
    """Cleans up each `every_s` while it has the lease; several processes share it, and one of them works.

    `open_ports` makes clients for the thread of this, `open_lease` the lease in the store of the tags. `report` gets
    lines for the operator, the same failure once.
    """

    def __init__(
        self,
        open_ports: Callable[[], CleanupPorts],
        open_lease: Callable[[], Lease],
        rules: CleanupRules,
        every_s: float,
        report: Callable[[str], None],
    ) -> None:
        self._open_ports, self._open_lease = open_ports, open_lease
        self._rules, self._every_s, self._report = rules, every_s, report
        self._faults = ToldOnce(lambda line: report(f"tags of vanished objects are not cleaned up: {line}"))
        self._stopped = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._thread = Thread(target=self._run, name="cleanup", daemon=True)
        self._thread.start()

    def stop(self, limit_s: float = 5.0) -> None:
        """End it after the change that it makes, and give the lease back; harmless before the start."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(limit_s)

    def _run(self) -> None:
        ports: CleanupPorts | None = None
        lease: Lease | None = None
        due_s = 0.0
        while not self._stopped.is_set():
            try:
                ports, lease = ports or self._open_ports(), lease or self._open_lease()
                if lease.hold_or_attempt() and ports.clock.monotonic() >= due_s:
                    due_s = ports.clock.monotonic() + self._every_s
                    self._once(ports, lease)
            except KafkakitError as error:
                self._faults.tell(error.message)
            except Exception as error:  # a thread that ended would keep the lease, and nobody would be told
                self._faults.tell(f"{type(error).__name__}: {error}")
            self._stopped.wait(POLL_S)
        if lease is not None:
            lease.release()

    def _once(self, ports: CleanupPorts, lease: Lease) -> None:
        plans = plan_cleanups(ports, self._rules)
        for what, kind, name in clean_up(ports, self._rules, plans, lease.require_held):
            self._report(f"cleanup: {what} the tags of {kind} {name}")
        refused = [plan.refused for plan in plans if plan.refused]
        if refused:
            self._faults.tell("; ".join(refused))
        else:
            self._faults.clear()


MIGRATION_CALLER = "migration"


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """What was copied, and what both stores hold after it; `is_done` is False for a dry run.

    `histories` is of how many objects the target lacked changes.
    """

    plan: MigrationPlan
    source: StoreContent
    target: StoreContent
    histories: int
    is_done: bool


def read_tables(store: TagStore) -> TagTables:
    """All tags of a store; raises `InputError` for a record that holds something else, which would be lost."""
    unreadable: list[str] = []
    tables = {kind: store.all(kind, unreadable) for kind in ObjectKind}
    if unreadable:
        raise InputError(unreadable[0], f"holds no tags, one of {len(unreadable)} such records", hint="remove them")
    return tables


def migrate(source: TagStore, target: TagStore, bar: ProgressBar, *, merge: bool, dry_run: bool) -> Migration:
    """Copy what the target lacks, then compare both: a run that was cut short is continued by the same call.

    Raises `RefusedError` where the target has tags that the source has not, unless `merge`; `TryLaterError` where the
    source changed meanwhile, or the target does not hold the same afterwards. The changes of both histories are put in
    the order of time; of too many the oldest go.
    """
    tables = read_tables(source)
    plan, before = plan_migration(tables, read_tables(target)), content_of(tables)
    if plan.others and not merge:
        raise RefusedError(
            f"the target has other tags already: {', '.join(plan.others[:3])}"
            + (f" and {len(plan.others) - 3} more" if len(plan.others) > 3 else ""),
            hint="--merge overrides them with the source's tags and keeps the rest",
        )
    if dry_run:
        histories = _copy_histories(source, target, dry_run=True)
        after = content_of(read_tables(target))
        return Migration(plan=plan, source=before, target=after, histories=histories, is_done=False)
    writer = target.acting_for(MIGRATION_CALLER)
    for number, (kind, name, tags) in enumerate(plan.writes, 1):
        writer.change(kind, name, lambda present, tags=tags: {**present, **tags})  # type: ignore[misc]
        bar.update(number, len(plan.writes))
    histories = _copy_histories(source, target, dry_run=False)
    now, held = read_tables(source), read_tables(target)
    left = plan_migration(now, held)
    if content_of(now) != before:
        raise TryLaterError("the source was changed meanwhile", hint="give the same command again to copy the rest")
    if left.writes or (left.others and not merge):
        raise TryLaterError(f"the target was changed meanwhile: {len(left.writes)} objects differ", hint="run it again")
    if lacking := _copy_histories(source, target, dry_run=True):
        raise TryLaterError(f"the histories of {lacking} objects were changed meanwhile", hint="run it again")
    return Migration(plan=plan, source=before, target=content_of(held), histories=histories, is_done=True)


def _copy_histories(source: TagStore, target: TagStore, *, dry_run: bool) -> int:
    """Of how many objects the target lacked changes."""
    found = [target.history.adopt(kind, name, made, dry_run=dry_run) for kind, name, made in source.history.made()]
    return sum(found)
