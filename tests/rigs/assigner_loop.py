"""Assigners over a control store in memory, with workers that are documents or real sessions."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from kafkakit.core.errors import TryLaterError
from kafkakit.core.lease import ASSIGNER_LEASE, Holder, Life
from kafkakit.execution.act.leases import Lease
from kafkakit.ports.acting import Clock
from kafkakit.ports.data import ClusterClients
from kafkakit.ports.stores import ControlStore
from kafkakit.streams.assigner.act.leader import AssignerLoop, AssignerParts
from kafkakit.streams.assigner.act.watching import AutomaticFailovers, EmergencyFailover
from kafkakit.streams.assigner.health import AssignerOptions, AutomaticPolicy
from kafkakit.streams.client.api import (
    GRANT_DOCUMENT,
    WORKER_DOCUMENT,
    GrantDocument,
    WorkerDocument,
    grant_path,
    worker_path,
)
from kafkakit.streams.model.route import Route, encode_route, route_path


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeClients:
    """Implements `ClusterClients` with what a test gives."""

    admin: Any
    groups: Any = None
    log: Any = None
    data: Any = None


class NoFailover:
    """Implements `EmergencyFailover` where nothing is to be moved."""

    def emergency(self, stream: str, target: str) -> str:
        """See `EmergencyFailover`."""
        raise AssertionError(f"stream {stream} was to be moved to {target}")


def no_clients(profile: str) -> AbstractContextManager[ClusterClients]:
    """No cluster answers."""
    raise TryLaterError(f"{profile} is away")


def assigner(
    store: ControlStore,
    clock: Clock,
    name: str = "one",
    *,
    life_of: Callable[[Holder], Life] = lambda _: Life.UNKNOWN,
    open_cluster: Callable[[str], AbstractContextManager[ClusterClients]] = no_clients,
    options: AssignerOptions | None = None,
    policy: AutomaticPolicy | None = None,
    failover: EmergencyFailover | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> AssignerLoop:
    """An Assigner of the process `name`."""
    holder = Holder(host=name, user="u", command="assigner", pid=1)
    lease = Lease(store, clock, ASSIGNER_LEASE, holder, what="the Assigner", life_of=life_of, say=say)
    policy = policy or AutomaticPolicy(targets={})
    automatic = AutomaticFailovers(store, clock, policy.mode, failover or NoFailover(), lease.require_held, say)
    parts = AssignerParts(
        store=store,
        lease=lease,
        clock=clock,
        life_of=life_of,
        open_cluster=open_cluster,
        automatic=automatic,
        policy=policy,
        say=say,
    )
    return AssignerLoop(parts, options or AssignerOptions())


class Papers:
    """The documents of a control store: routes and workers that a test writes, grants that it reads."""

    def __init__(self, store: ControlStore) -> None:
        self.store = store

    def put_route(self, route: Route) -> None:
        self._put(route_path(route.stream), encode_route(route))

    def put_worker(self, slot: str, document: WorkerDocument) -> None:
        self._put(worker_path(slot), WORKER_DOCUMENT.encode(document))

    def beat(self, slot: str, document: WorkerDocument) -> WorkerDocument:
        """The worker writes again, and keeps to its grant."""
        found = self.grant(slot)
        document = replace(
            document,
            beat=document.beat + 1,
            round=found.round if found is not None and found.worker == document.id else 0,
        )
        self.put_worker(slot, document)
        return document

    def remove_worker(self, slot: str) -> None:
        found = self.store.get(worker_path(slot))
        if found is not None:
            self.store.delete(worker_path(slot), found.version)

    def grant(self, slot: str) -> GrantDocument | None:
        found = self.store.get(grant_path(slot))
        return None if found is None else GRANT_DOCUMENT.decode(found.value, slot)

    def count(self, slot: str) -> int:
        found = self.grant(slot)
        return 0 if found is None else sum(len(topic.partitions) for topic in found.topics)

    def _put(self, path: str, value: bytes) -> None:
        found = self.store.get(path)
        self.store.cas(path, value, None if found is None else found.version)
