"""Cleaning up tags of what does not exist any more: one run, and runs again and again beside the service."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from threading import Event, Thread

from kafkakit.core.errors import KafkakitError, TryLaterError
from kafkakit.core.plan_rules import topic_problem
from kafkakit.execution.act.leases import Lease
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.registry.act.tag_store import TagStore
from kafkakit.registry.decide.cleanup import CleanupPlan, CleanupRules, is_due, needs_mark, plan_cleanup, with_mark
from kafkakit.registry.decide.tags import MARK, Kind, Tags, without

POLL_S = 5.0
BY = "cleanup"


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
    tables = {kind: ports.tags.all(kind, []) for kind in Kind}
    snapshot = ports.admin.snapshot(now=ports.clock.now(), sizes=False)
    if not any(broker.is_alive for broker in snapshot.brokers):
        raise TryLaterError("the cluster lists no live broker: nothing is cleaned up")
    topics = {topic.name for topic in snapshot.topics}
    if topics:
        unseen = {name for name in tables[Kind.TOPIC].keys() - topics if not topic_problem(name)}
        topics |= ports.admin.topic_operations(unseen).keys()
    existing = {Kind.BROKER: {str(broker.id) for broker in snapshot.brokers}, Kind.TOPIC: topics}
    now_s = ports.clock.now().timestamp()
    return tuple(plan_cleanup(kind, tables[kind], existing[kind], now_s, rules) for kind in Kind)


def clean_up(
    ports: CleanupPorts, rules: CleanupRules, plans: Sequence[CleanupPlan], require_held: Callable[[], None]
) -> Iterator[tuple[str, Kind, str]]:
    """Carry plans out: what was done, the kind and the name, one after the other.

    `require_held` is called before each change, and raises where the right to it is not ours any more.
    """
    tags, now_s = ports.tags.acting_for(BY), ports.clock.now().timestamp()

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
                tags.change(plan.kind, name, mark if what == "marked" else lambda p: without(p, {MARK}))
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
        self._stopped = Event()
        self._told = ""
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
                if _leads(lease) and ports.clock.monotonic() >= due_s:
                    due_s = ports.clock.monotonic() + self._every_s
                    self._once(ports, lease)
                    self._told = ""
            except KafkakitError as error:
                self._tell(f"tags of vanished objects are not cleaned up: {error.message}")
            self._stopped.wait(POLL_S)
        if lease is not None:
            lease.release()

    def _once(self, ports: CleanupPorts, lease: Lease) -> None:
        plans = plan_cleanups(ports, self._rules)
        for what, kind, name in clean_up(ports, self._rules, plans, lease.require_held):
            self._report(f"cleanup: {what} the tags of {kind} {name}")
        refused = [plan.refused for plan in plans if plan.refused]
        if refused:
            self._tell(f"tags of vanished objects are not cleaned up: {'; '.join(refused)}")

    def _tell(self, line: str) -> None:
        if line != self._told:
            self._report(line)
        self._told = line


def _leads(lease: Lease) -> bool:
    """Whether the lease is ours; one that we hold is renewed when it is time to."""
    if lease.is_held():
        lease.require_held()
        return True
    return lease.attempt()
