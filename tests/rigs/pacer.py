"""A bench for pacers: a fake cluster on which another tool moves a partition, and as many instances as a test wants."""

from collections.abc import Iterator
from contextlib import contextmanager

from kafkakit.autothrottle.act.pacer import ControlOverrides, Measure, OverrideStore, Pacer, PacerOptions, PacerPorts
from kafkakit.autothrottle.act.service import LEAD_TTL_S, PacerService
from kafkakit.autothrottle.decide.law import Law, fixed_law
from kafkakit.autothrottle.report import tick_line
from kafkakit.core.lease import Holder, Life, pacer_lease
from kafkakit.core.model import TopicPartition
from kafkakit.execution.act.leases import ClusterAccess, GuardedAdmin, HeldClock, Lease, lease_path
from tests.fakes.admin import FakeClock, FakeCluster
from tests.fakes.control import FakeControlStore

KB, MB = 1000, 1_000_000
CLUSTER = "fake-cluster"
RATE = 100 * KB


class PacerRig:
    """Four brokers; partition 0 of topic `t` moves from brokers 1 and 2 to 3 and 2 for another tool."""

    def __init__(self) -> None:
        self.cluster = FakeCluster(dict.fromkeys((1, 2, 3, 4), "a"), line_rate=MB)
        for name in ("t", "u"):
            self.cluster.add_topic(name, {0: (1, 2), 1: (2, 1)}, size_bytes=20 * MB)
        self.clock = FakeClock()
        self.clock.on_sleep.append(self.cluster.advance)
        self.store = FakeControlStore()
        self.before = self.configs()

    def begin(self, topic: str = "t", partition: int = 0, target: tuple[int, ...] = (3, 2)) -> None:
        """Another tool begins a move."""
        self.cluster.reassign({TopicPartition(topic, partition): target})
        self.cluster.calls.clear()

    def configs(self) -> dict[str, dict[str, str]]:
        """All that is set, by broker or topic."""
        return {name: values for name, values in self.cluster.configs().items() if values}

    def lease(self, path: str, pid: int, command: str = "autothrottle run") -> Lease:
        """A claim of a process on a host that nothing is known of."""
        holder = Holder(host=f"h{pid}", user="op", command=command, pid=pid)
        return Lease(
            self.store, self.clock, path, holder, what="it", life_of=lambda _: Life.UNKNOWN, say=lambda _: None
        )

    @contextmanager
    def access(self, pid: int) -> Iterator[ClusterAccess]:
        """The right to change the cluster for a moment."""
        lease = self.lease(lease_path(CLUSTER), pid, "autothrottle")
        token = lease.acquire()
        try:
            yield ClusterAccess(
                cluster_id=CLUSTER,
                admin=GuardedAdmin(self.cluster, lease.require_held),
                clock=HeldClock(self.clock, lease, 1.0),
                token=token,
                control=self.store,
            )
        finally:
            lease.release()

    def pacer(
        self,
        pid: int = 1,
        law: Law | None = None,
        overrides: OverrideStore | None = None,
        measure: Measure | None = None,
        *,
        leads: bool = True,
        take_over: bool = False,
    ) -> "tuple[Pacer, Lease]":
        """An instance; with `leads` it has the lead."""
        lead = self.lease(pacer_lease(CLUSTER), pid)
        if leads:
            lead.acquire(LEAD_TTL_S)
        ports = PacerPorts(
            admin=self.cluster,
            clock=self.clock,
            store=self.store,
            overrides=overrides or ControlOverrides(self.store, CLUSTER),
            open_access=lambda: self.access(pid),
            measure=measure,
        )
        options = PacerOptions(
            law=law or fixed_law(RATE), law_name="fixed", by=f"op on h{pid}", answer_s=1.0, take_over=take_over
        )
        return Pacer(CLUSTER, ports, lead, options), lead

    def service(self, pid: int) -> "tuple[PacerService, list[str]]":
        """An instance as a service that does not lead yet, and what it reports."""
        pacer, lead = self.pacer(pid, leads=False)
        said: list[str] = []
        overrides = ControlOverrides(self.store, CLUSTER)
        service = PacerService(
            pacer,
            lead,
            overrides,
            self.clock,
            interval_s=60.0,
            report=said.append,
            told=lambda tick: said.append(tick_line(tick)),
        )
        return service, said
