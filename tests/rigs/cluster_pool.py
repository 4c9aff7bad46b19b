"""The clusters that test files lease, in place of starting their own: one pool for all workers of a run.

The workers share one pool, because starts are what costs: with a pool each, every worker would start every shape that
its files need, and grouping the files of a shape on one worker leaves cores idle at the end. So any worker takes any
file, and a cluster goes from worker to worker through a folder of the run.

What always holds:

- A cluster has one lessee at a time: the process that holds the lock of its lease file. The kernel frees the locks of
  a process that dies, so nobody waits for a crashed worker.
- Who leases a cluster finds it as it was when it started: no topics (Kafka's own are deleted too, and with them groups,
  members and transactions; with ZooKeeper they stay, and groups are deleted), the same dynamic configurations, rules of
  access, users and quotas, no moves, all brokers alive and none stopped, no znodes but Kafka's. A lease ends with
  cleaning and a look at every broker; `dirty` is written when a lease begins and goes when it is clean. A cluster that
  is dirty at a lease's start is cleaned then.
- Between leases the processes of a cluster are stopped (SIGSTOP): forty idle JVMs take more than half a core. Whoever
  leases it wakes it, and has it only when a new topic is in sync on all its brokers, so that none is fenced any more
  for its sleep. One with ZooKeeper stays awake, as its sessions would end.
- One that cannot be cleaned is taken down, which is said; the next lessee starts another.
- There are at most as many of a shape as it says. Who needs one more waits for one, but never while it holds a lease:
  then it starts one, so nobody waits in a circle. Several are leased at once or not at all.
- The folder belongs to the processes of the run, each with a locked file in `members`. The last one to leave takes
  everything down. What a run leaves that was killed whole, the next run takes down.

The homes of lessees (profiles, plans, journals, routes, leases) are their own, and end with the lease.
"""

import contextlib
import fcntl
import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kafkakit.adapters.kafka.admin import KafkaAdmin
from kafkakit.config.security import to_confluent
from kafkakit.core.cluster_facts import CLUSTER_DEFAULT, ConfigChange, ConfigOp, ResourceKind
from kafkakit.core.model import TopicPartition
from kafkakit.ports.services import Machine
from kafkakit.sandbox import lifecycle
from kafkakit.sandbox.decide.spec import ClientSecurity, MetadataMode, SandboxSpec, SandboxState, build_spec
from kafkakit.sandbox.folders import Store
from tests.rigs.run_folder import RunFolder, locked
from tests.rigs.sandbox_cluster import Home, SandboxCluster, SettledAdmin
from tests.rigs.waiting import until

CLEAN_S = 120.0
STUCK_S = 20.0
POLL_S = 0.1
PROBE = "kafkakit-pool-probe"
KAFKAS_TOPICS = frozenset(("__consumer_offsets", "__transaction_state"))
"""They stay with ZooKeeper: a broker that led a partition of one at its first epoch does not load it again."""
KAFKAS_ZNODES = frozenset(
    ("admin", "brokers", "cluster", "config", "consumers", "controller", "controller_epoch", "feature", "zookeeper",
     "isr_change_notification", "latest_producer_id_block", "log_dir_event_notification", "kafka-acl",
     "kafka-acl-changes", "kafka-acl-extended", "kafka-acl-extended-changes", "delegation_token")
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a file may lease: `most` of them run at once, as long as nobody needs one more beside another."""

    name: str
    brokers: int
    racks: int
    most: int
    log_dirs: int = 2
    mode: MetadataMode = MetadataMode.KRAFT
    secure: ClientSecurity = ClientSecurity.NONE

    def spec(self, name: str) -> SandboxSpec:
        return build_spec(
            name=name, brokers=self.brokers, racks=self.racks, log_dirs=(self.log_dirs,), kafka=None, mode=self.mode,
            secure=self.secure,
        )  # fmt: skip


SINGLE = Shape(name="single", brokers=1, racks=1, log_dirs=1, most=4)
"""Files that move streams between clusters lease two."""
TRIO = Shape(name="trio", brokers=3, racks=3, most=3)
FOUR = Shape(name="four", brokers=4, racks=2, most=2)
SIX = Shape(name="six", brokers=6, racks=3, most=1)
ZOOKEEPER = Shape(name="keeper", brokers=4, racks=2, mode=MetadataMode.ZOOKEEPER, most=1)
SECURED = Shape(name="secured", brokers=3, racks=3, secure=ClientSecurity.SCRAM_TLS, most=1)


@dataclass(kw_only=True)
class Lease:
    """A cluster that this process has for itself."""

    name: str
    shape: Shape
    lock: int
    cluster: SandboxCluster | None = None


@dataclass(kw_only=True)
class Pool:
    """This process's way to the clusters of the run; `start` brings one up, and knows what it means when it cannot."""

    folder: RunFolder
    machine: Machine
    start: Callable[[Machine, Store, SandboxSpec], SandboxState]
    leases: list[Lease] = field(default_factory=list)

    def store(self, name: str, home: Home) -> Store:
        return Store(root=self.folder.path / "sandbox" / name, profiles=home.config_dir / "profiles.d")

    @contextlib.contextmanager
    def lease(self, home: Home, *shapes: Shape) -> Iterator[list[SandboxCluster]]:
        """Clusters of these shapes, for this process alone, with profiles in `home`."""
        taken = self._take(shapes)
        self.leases += taken
        try:
            yield [self._open(one, home) for one in taken]
        finally:
            for one in taken:
                self._end(one)
                self.leases.remove(one)

    def _take(self, shapes: Sequence[Shape]) -> list[Lease]:
        """Locks of clusters that run or are to be started: all of them or none."""
        while True:
            gate = os.open(self.folder.path / "gate", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(gate, fcntl.LOCK_EX)
                found: list[Lease] = []
                for shape in shapes:
                    one = self._free(shape, beyond=bool(self.leases))
                    if one is not None:
                        found.append(one)
                if len(found) == len(shapes):
                    return found
                for one in found:
                    os.close(one.lock)
            finally:
                os.close(gate)
            time.sleep(POLL_S)

    def _free(self, shape: Shape, *, beyond: bool) -> Lease | None:
        """A free cluster that runs, else the name for a new one; None while there are enough."""
        names = [f"{shape.name}{number}" for number in range(1, 50)]
        runs = [name for name in names if (self.folder.path / "sandbox" / name / "state.json").exists()]
        for name in (*runs, *(name for name in names if name not in runs)):
            if name not in runs and names.index(name) >= shape.most and not beyond:
                return None
            lock = locked(self.folder.path / "leases" / name)
            if lock is not None:
                return Lease(name=name, shape=shape, lock=lock)
        return None

    def _open(self, lease: Lease, home: Home) -> SandboxCluster:
        """The cluster as it was when it started: the one that runs, or a new one."""
        store = self.store(lease.name, home)
        state, dirty = store.load(), self._dirty(lease.name)
        if state is not None:
            lease.cluster = SandboxCluster(machine=self.machine, store=store, home=home, state=state)
            self.make_ready(lease, clean if dirty.exists() else wake)
        dirty.touch()
        if lease.cluster is None:
            state = self.start(self.machine, store, lease.shape.spec(lease.name))
            lease.cluster = SandboxCluster(machine=self.machine, store=store, home=home, state=state)
            with contextlib.closing(_admin(lease.cluster)) as admin:
                self._first(lease.name).write_text(json.dumps(Traits.of(lease.cluster, admin).__dict__), "utf-8")
        lifecycle.write_profiles(store, lease.cluster.state)
        link = home.state_dir / "sandbox" / lease.name
        link.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        link.symlink_to(store.root)
        return lease.cluster

    def _end(self, lease: Lease) -> None:
        try:
            if lease.cluster is not None:
                (lease.cluster.home.state_dir / "sandbox" / lease.name).unlink(missing_ok=True)
                self.make_ready(lease, clean)
            if lease.cluster is not None:
                put_to_sleep(lease.cluster)
        finally:
            os.close(lease.lock)

    def make_ready(self, lease: Lease, make: Callable[[SandboxCluster, "Traits"], None]) -> None:
        """Make the cluster as it was, or take it down."""
        cluster = lease.cluster
        assert cluster is not None
        try:
            if cluster.store.load() is None:
                raise AssertionError("it was taken down")
            make(cluster, Traits(**json.loads(self._first(lease.name).read_text("utf-8"))))
        except Exception as error:
            self.folder.say(f"cluster {lease.name} could not be cleaned and was taken down: {error!r:.2000}")
            lifecycle.stop_sandbox(self.machine, cluster.store)
            lease.cluster = None
        self._dirty(lease.name).unlink(missing_ok=True)

    def _dirty(self, name: str) -> Path:
        return self.folder.path / "leases" / f"{name}.dirty"

    def _first(self, name: str) -> Path:
        return self.folder.path / "leases" / f"{name}.first"


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What of a cluster outlives its topics, in words."""

    settings: Mapping[str, Mapping[str, str]]
    values: Mapping[str, Mapping[str, str | None]]
    """What each broker runs with: one that missed an undo while it slept may keep the old value."""
    rules: Sequence[str]
    users: Sequence[str]

    @classmethod
    def of(cls, cluster: SandboxCluster, admin: KafkaAdmin) -> "Traits":
        names = [*map(str, cluster.broker_ids), CLUSTER_DEFAULT]
        found = admin.dynamic_configs(ResourceKind.BROKER, names)
        client = _client(cluster)
        return cls(
            settings={name: dict(values) for name, values in found.items() if values},
            values={
                str(broker): {key: layered.value for key, layered in values.items()}
                for broker, values in admin.broker_configs(cluster.broker_ids).items()
            },
            rules=sorted(map(repr, _rules(cluster, client))),
            users=_users(cluster, client),
        )


def _admin(cluster: SandboxCluster) -> SettledAdmin:
    return SettledAdmin(cluster.bootstrap_servers, cluster.security, request_timeout_s=30)


def _client(cluster: SandboxCluster) -> Any:
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **to_confluent(cluster.security)})


def _rules(cluster: SandboxCluster, client: Any) -> list[Any]:
    """The rules of access; none without an authorizer."""
    from confluent_kafka.admin import (
        AclBindingFilter,
        AclOperation,
        AclPermissionType,
        ResourcePatternType,
        ResourceType,
    )

    if not cluster.state.spec.secure.uses_tls and not cluster.state.spec.secure.uses_scram:
        return []
    every = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    return list(client.describe_acls(every).result(30))


def _users(cluster: SandboxCluster, client: Any) -> list[str]:
    if not cluster.state.spec.secure.uses_scram:
        return []
    found = client.describe_user_scram_credentials().result(30)
    return sorted(f"{name} {info.mechanism}" for name, user in found.items() for info in user.scram_credential_infos)


def _await_all_alive(cluster: SandboxCluster, admin: SettledAdmin) -> None:
    until(lambda: admin.alive() == set(cluster.broker_ids), "all are alive", CLEAN_S, seen=admin.alive)


def put_to_sleep(cluster: SandboxCluster) -> None:
    """Stop its processes until somebody wakes it, the brokers before the controller."""
    if cluster.state.spec.mode is not MetadataMode.ZOOKEEPER:
        for record in reversed(lifecycle.load_state(cluster.store).nodes):
            if record.process is not None and cluster.machine.processes.is_alive(record.process):
                os.kill(record.process.pid, signal.SIGSTOP)


def wake(cluster: SandboxCluster, _: Traits) -> None:
    """Let its processes go on, and wait until a new topic is in sync on all brokers and gone again; else raise."""
    for record in lifecycle.load_state(cluster.store).nodes:
        if record.process is None or not cluster.machine.processes.is_alive(record.process):
            raise AssertionError(f"node {record.node.id} is dead")
        os.kill(record.process.pid, signal.SIGCONT)
    with contextlib.closing(_admin(cluster)) as admin:
        _await_all_alive(cluster, admin)
        # The controller's overdue timers, which may fence a broker, run before this request.
        error = admin.create_topic(PROBE, {0: tuple(sorted(cluster.broker_ids))}, {})
        assert error is None, error
        probe = TopicPartition(PROBE, 0)
        until(lambda: set((state := admin.states([PROBE])[probe]).isr) == set(state.replicas), "in sync", CLEAN_S)
        assert (error := admin.delete_topic(PROBE)) is None, error
        _await_all_alive(cluster, admin)


def clean(cluster: SandboxCluster, first: Traits) -> None:
    """Make a cluster as it was when it started; raises where it does not become so."""
    deadline = time.monotonic() + CLEAN_S
    state = lifecycle.load_state(cluster.store)
    for record in state.nodes:
        if record.process is not None and cluster.machine.processes.is_alive(record.process):
            os.kill(record.process.pid, signal.SIGCONT)
        elif record is state.nodes[0]:
            raise AssertionError("its keeper is dead")
    cluster.revive()
    with contextlib.closing(_admin(cluster)) as admin:
        _await_all_alive(cluster, admin)
        last, since = "", time.monotonic()
        while problem := _made_clean(cluster, admin, first):
            now = time.monotonic()
            if problem != last:
                last, since = problem, now
            # What a broker's file says, for one, stays as it is for as long as one waits.
            assert now < min(deadline, since + STUCK_S), problem
            time.sleep(POLL_S)


def _made_clean(cluster: SandboxCluster, admin: SettledAdmin, first: Traits) -> str:
    """Take away what is left; what was found, or "" where nothing was."""
    found: list[str] = []
    has_zookeeper = cluster.state.spec.mode is MetadataMode.ZOOKEEPER
    if moves := admin.reassignments():
        found.append(f"moves {moves}")
        admin.cancel([TopicPartition(one.topic, one.partition) for one in moves])
    if changes := _settings_to_undo(cluster, admin, first):
        found.append(f"settings {changes}")
        admin.alter_configs(changes)
    if has_zookeeper:
        found += _groups_deleted(cluster)
    if topics := sorted(set(admin.topic_names()) - (KAFKAS_TOPICS if has_zookeeper else set())):
        found.append(f"topics {topics}")
        for topic in topics:
            admin.delete_topic(topic)
    if quotas := admin.describe_client_quotas():
        found.append(f"quotas {quotas}")
        admin.alter_client_quotas({entity: dict.fromkeys(keys, None) for entity, keys in quotas.items()})
    found += _access_to_undo(cluster, first)
    if has_zookeeper:
        found += _znodes_deleted(cluster.state.layout.keeper.address)
    if not found and (now := Traits.of(cluster, admin)) != first:
        found.append(shown(now, first))
    return "; ".join(found)


def shown(now: Traits, first: Traits) -> str:
    """What differs, without the hundreds of values that do not."""
    ids = sorted({*now.values, *first.values})
    pairs = [
        f"{key} of broker {broker} is {is_now!r} in place of {was!r}"
        for broker in ids
        for key in sorted({*now.values.get(broker, {}), *first.values.get(broker, {})})
        if (is_now := now.values.get(broker, {}).get(key)) != (was := first.values.get(broker, {}).get(key))
    ]
    rest = [replace(one, values={}) for one in (now, first)]
    return "; ".join([*pairs, *([f"{rest[0]} in place of {rest[1]}"] if rest[0] != rest[1] else [])])


def _groups_deleted(cluster: SandboxCluster) -> list[str]:
    """The groups that there were; one that has members yet is deleted at a later look."""
    from confluent_kafka import KafkaException

    client = _client(cluster)
    found = sorted(group.group_id for group in client.list_consumer_groups(request_timeout=30).result(30).valid)
    for name in found:
        with contextlib.suppress(KafkaException):
            client.delete_consumer_groups([name], request_timeout=30)[name].result(30)
    return [f"group {name!r}" for name in found]


def _settings_to_undo(cluster: SandboxCluster, admin: SettledAdmin, first: Traits) -> list[ConfigChange]:
    names = [*map(str, cluster.broker_ids), CLUSTER_DEFAULT]
    changes = []
    for name, values in admin.dynamic_configs(ResourceKind.BROKER, names).items():
        before = first.settings.get(name, {})
        for key in {*values, *before}:
            if values.get(key) != before.get(key):
                op = ConfigOp.SET if key in before else ConfigOp.DELETE
                changes.append(ConfigChange(kind=ResourceKind.BROKER, name=name, key=key, op=op, value=before.get(key)))
    return changes


def _access_to_undo(cluster: SandboxCluster, first: Traits) -> list[str]:
    """Rules and users that came; one of the first that is gone stays gone, and the cluster is not clean."""
    from confluent_kafka.admin import AclBindingFilter, ScramMechanism, UserScramCredentialDeletion

    client, found = _client(cluster), []
    for rule in _rules(cluster, client):
        if repr(rule) not in first.rules:
            found.append(repr(rule))
            parts = (rule.restype, rule.name, rule.resource_pattern_type, rule.principal, rule.host)
            only = AclBindingFilter(*parts, rule.operation, rule.permission_type)
            client.delete_acls([only])[only].result(30)
    for user in _users(cluster, client):
        if user not in first.users:
            found.append(user)
            name, _, mechanism = user.rpartition(" ")
            kind = ScramMechanism.SCRAM_SHA_512 if "512" in mechanism else ScramMechanism.SCRAM_SHA_256
            client.alter_user_scram_credentials([UserScramCredentialDeletion(name, kind)])[name].result(30)
    return found


def _znodes_deleted(address: str) -> list[str]:
    from kazoo.client import KazooClient

    client = KazooClient(hosts=address, timeout=30)
    client.start(timeout=60)
    try:
        found = sorted(set(client.get_children("/")) - KAFKAS_ZNODES)
        for name in found:
            client.delete(f"/{name}", recursive=True)
        return found
    finally:
        client.stop()
        client.close()
