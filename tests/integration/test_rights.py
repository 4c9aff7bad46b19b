"""`docs/acl.md` line by line: with the rights of a line its commands work, and without any one of them they do not."""

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import pytest

from kafkakit.adapters.control_kafka import KafkaControl
from kafkakit.adapters.host import SystemClock
from kafkakit.adapters.kafka.admin import KafkaAdmin
from kafkakit.adapters.kafka.admin_read import configs_of, states_of
from kafkakit.adapters.kafka.admin_write import ANY, RESOURCE_CODE
from kafkakit.adapters.kafka.data import KafkaData
from kafkakit.adapters.kafka.session import KafkaSession
from kafkakit.config.security import Secret, to_kafka_python
from kafkakit.core.cluster_facts import PartitionState, ResourceKind
from kafkakit.core.documents import encode_plan
from kafkakit.core.errors import KafkakitError
from kafkakit.core.model import OFFSETS_TOPIC, TopicPartition
from kafkakit.core.rights import CONTROL_TOPIC, DUTIES, CommandRights, Resource
from kafkakit.execution.act.retrier import Retrier, RetryingReader
from kafkakit.execution.act.run_journal import plan_journal
from kafkakit.execution.act.throttles import Throttles
from kafkakit.execution.decide.plan_state import apply_goals, assess
from kafkakit.execution.decide.schedule.work import BrokerRates
from kafkakit.sandbox.decide.processes import GUEST, client_security, password_file, principal_of
from kafkakit.streams.client.connect import connect
from tests.clusters.plans import make_plan
from tests.integration.conftest import SandboxCluster, SilentReporter, StartCluster
from tests.integration.stream_clients import commit_with_kafka_python, produce
from tests.rigs.command_line import Home, Ran
from tests.rigs.waiting import becomes, until

pytestmark = pytest.mark.kafka

T = TypeVar("T")
TOPIC, OTHER, GROUP = "granted", "other", "counters"
REFUSED = ("uthoriz", "no right to", "grant ", "not permitted", "may not", "the right to", "LAG UNKNOWN")
EVERYWHERE = ("snapshots and plans", "progress of moves, all settings", "emptying and refilling brokers",
              "removal of throttles", "streams and their readers", "failover of streams",
              "topics made and deleted by the registry")  # fmt: skip
"""The lines that are about all topics of the cluster."""


def told(resource: Resource, rights: set[tuple[Resource, str]]) -> set[str]:
    """What the brokers tell the user of its rights on a resource: nothing without DESCRIBE on it."""
    granted = {o for found, o in rights if found is resource}
    implied = {
        ("alter", "describe"),
        ("alter_configs", "describe_configs"),
        ("read", "describe"),
        ("delete", "describe"),
    }
    whole = granted | {i for o, i in implied if o in granted}
    return whole if "describe" in whole else set()


class Guest:
    """A user with the rights that a test grants, and no others; and the program as this user runs it."""

    def __init__(self, cluster: SandboxCluster, folder: Path) -> None:
        from kafka.admin import KafkaAdminClient

        state, root = cluster.state, str(cluster.store.root)
        password = Secret(Path(password_file(root, GUEST)).read_text(encoding="utf-8").strip())
        self.cluster, self.folder, self.number = cluster, folder, count()
        self.home = Home(cluster.home.folder)
        self.admin = cluster.open_admin()
        self.security = client_security(state.spec.secure, root, GUEST, password)
        self.own = KafkaAdmin(cluster.bootstrap_servers, self.security, request_timeout_s=60)
        self.brokers = KafkaSession(cluster.bootstrap_servers, cluster.security, 60, 60)
        self.acls = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers.split(","),
                                     **to_kafka_python(cluster.security))  # fmt: skip
        self.granted: set[tuple[Resource, str, str]] = set()
        self.has_all = False

    def close(self) -> None:
        self.acls.close()
        self.brokers.close()
        self.own.close()
        self.admin.close()

    def grant(self, duty: CommandRights, without: tuple[Resource, str] | None = None) -> None:
        """Exactly the rights of a line, but one, to every broker."""
        from kafka.protocol.admin import DescribeAclsRequest

        rights = {(resource, o) for resource, operations in duty.rights.items() for o in operations} - {without}
        wanted = {(*right, self._place(duty, right[0])) for right in rights}
        if gone := [self._acl(*one) for one in self.granted - wanted]:
            self.acls.delete_acls(gone)
        if new := [self._acl(*one) for one in wanted - self.granted]:
            self.acls.create_acls(new)
        self.granted, self.has_all = wanted, without is None
        user = principal_of(self.cluster.state.spec.secure, GUEST)
        request = DescribeAclsRequest(
            resource_type_filter=ANY, resource_name_filter=None, pattern_type_filter=ANY, principal_filter=user,
            host_filter=None, operation=ANY, permission_type=ANY,
        )  # fmt: skip
        keys = {_key(each.resource_pattern, each.operation) for each in (self._acl(*one) for one in wanted)}
        until(lambda: all(found == keys for found in self.everywhere(request, acls_of)))
        becomes(lambda: self.own.cluster().operations, told(Resource.CLUSTER, rights))
        becomes(lambda: self.own.topic_operations([TOPIC]), {TOPIC: told(Resource.TOPICS, rights)})

    @staticmethod
    def _place(duty: CommandRights, resource: Resource) -> str:
        return {
            Resource.CLUSTER: "kafka-cluster",
            Resource.TOPICS: "*" if duty.name in EVERYWHERE else TOPIC,
            Resource.GROUPS: GROUP,
            Resource.OFFSETS: OFFSETS_TOPIC,
            Resource.CONTROL: CONTROL_TOPIC,
        }[resource]

    def _acl(self, resource: Resource, operation: str, place: str) -> Any:
        from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

        kinds = {Resource.CLUSTER: ResourceType.CLUSTER, Resource.GROUPS: ResourceType.GROUP}
        return ACL(
            principal=principal_of(self.cluster.state.spec.secure, GUEST),
            host="*",
            operation=ACLOperation[operation.upper()],
            permission_type=ACLPermissionType.ALLOW,
            resource_pattern=ResourcePattern(kinds.get(resource, ResourceType.TOPIC), place),
        )

    def everywhere(self, request: Any, view: Callable[[Any], T]) -> list[T]:
        """What each broker answers, of which any may be the one that a command asks."""
        answers = self.brokers.request_brokers(dict.fromkeys(self.cluster.broker_ids, request))
        return [view(answer) for answer in answers.values()]

    def run(self, *words: str) -> Ran:
        return self.home.run("--profile", f"{self.cluster.name}-guest", *words)

    def be(self, profile: str, other: str) -> None:
        """Let a profile be the same as another one."""
        folder = self.home.config / "profiles.d"
        self.home.write_config((folder / f"{other}.yaml").read_text(), f"profiles.d/{profile}.yaml")

    def replicas(self) -> tuple[int, ...]:
        """The brokers that hold the topic, once no move is left and all brokers have heard of the last one."""
        from kafka.protocol.metadata import MetadataRequest

        topic = MetadataRequest.MetadataRequestTopic(name=TOPIC)
        request = MetadataRequest(topics=[topic], allow_auto_topic_creation=False)

        def shown() -> tuple[int, ...] | None:
            found = {each[TopicPartition(TOPIC, 0)].replicas for each in self.everywhere(request, states)}
            return found.pop() if len(found) == 1 and not self.admin.reassignments() else None

        replicas: tuple[int, ...] = until(shown)
        return replicas

    def plan(self) -> Path:
        """A plan that moves the topic to the other broker."""
        (there,) = self.replicas()
        target = next(b for b in self.cluster.broker_ids if b != there)
        path = self.folder / f"plan-{next(self.number)}.json"
        path.write_bytes(encode_plan(make_plan(self.admin, {(TOPIC, 0): (target,)})))
        return path


def _key(place: Any, operation: int) -> tuple[int, str, int]:
    return int(place.resource_type), place.resource_name, int(operation)


def acls_of(answer: Any) -> set[tuple[int, str, int]]:
    return {_key(place, acl.operation) for place in answer.resources for acl in place.acls}


def states(answer: Any) -> dict[TopicPartition, PartitionState]:
    return states_of(answer.topics)


def configs(answer: Any) -> dict[str, str]:
    return configs_of(ResourceKind.TOPIC, answer.results)[TOPIC]


def looks(guest: Guest) -> list[Ran]:
    plan = guest.folder / "rebalance.json"
    return [
        guest.run("snapshot", "-o", "json"),
        guest.run("topicmappr", "rebuild", "--topics", TOPIC, "--brokers", "-2", "--plan", str(plan)),
    ]


def lists(guest: Guest) -> list[Ran]:
    return [guest.run("reassign", "list")]


def reports(guest: Guest) -> list[Ran]:
    store = guest.folder / f"fleet-{next(guest.number)}"
    return [
        guest.run("reassign", "status", "--window", "0"),
        guest.run("lint", "--live", "--fail-on", "never"),
        guest.run("fleet", "collect", "--profiles", f"{guest.cluster.name}-guest", "--to", str(store), "--no-groups"),
    ]


def moves(guest: Guest) -> list[Ran]:
    plan, quick = str(guest.plan()), ("--yes", "--ingest-sample", "0")
    before = guest.replicas()
    ran = guest.run("reassign", "apply", plan, *quick)
    if ran.code:
        assert guest.replicas() == before, "refused after its first change"
        return [ran]
    return [ran, guest.run("reassign", "verify", plan), guest.run("reassign", "rollback", plan, *quick)]


def throttled_moves(guest: Guest) -> list[Ran]:
    before = guest.replicas(), throttles(guest)
    ran = guest.run("reassign", "apply", str(guest.plan()), "--yes", "--ingest-sample", "0", "--throttle", "10MB")
    becomes(lambda: throttles(guest), before[1])
    if ran.code:
        assert guest.replicas() == before[0], "refused after its first change"
    return [ran]


def throttles(guest: Guest) -> dict[str, Any]:
    """The rates of each broker, and the entries of the topic as each broker shows them."""
    from kafka.protocol.admin import DescribeConfigsRequest

    brokers = guest.admin.dynamic_configs(ResourceKind.BROKER, [str(b) for b in guest.cluster.broker_ids])
    request = DescribeConfigsRequest(resources=[(RESOURCE_CODE[ResourceKind.TOPIC], TOPIC, None)])
    return {**brokers, TOPIC: guest.everywhere(request, configs)}


def drains(guest: Guest) -> list[Ran]:
    (there,) = guest.replicas()
    ran = guest.run("broker", "drain", str(there), "--placement", "count", "--yes", "--ingest-sample", "0")
    if ran.code:
        assert guest.replicas() == (there,), "refused after its first change"
        return [ran]
    back = guest.run("broker", "rejoin", str(there), "--restore", "last", "--yes", "--ingest-sample", "0")
    assert guest.replicas() == (there,), back.stderr
    return [ran, back]


def cleanups(guest: Guest) -> list[Ran]:
    """Throttles that a killed run left: set with all rights, to be removed with those of the line."""
    plan = make_plan(guest.admin, {(TOPIC, 0): tuple(b for b in guest.cluster.broker_ids if b not in guest.replicas())})
    clock, reporter = SystemClock(), SilentReporter()
    journal, _ = plan_journal(plan, guest.home.state, clock)
    retrier = Retrier(clock, reporter, 30)
    live = RetryingReader(guest.admin, clock, retrier).live([TOPIC])
    goals = apply_goals(assess(plan, live))
    rates = BrokerRates(into=10_000_000, out=10_000_000)
    Throttles(guest.admin, clock, journal, reporter, retrier).impose(goals, rates, live)
    until(lambda: all(throttles(guest)[TOPIC]))
    ran = guest.run("reassign", "cleanup", "--yes")
    told = "refused after its first change"
    becomes(lambda: [bool(each) for each in throttles(guest)[TOPIC]], [bool(ran.code)] * 2, told)
    return [ran, *changes(guest)]


def changes(guest: Guest) -> list[Ran]:
    """A change of configuration, and its rollback."""
    path = str(guest.folder / f"config-{next(guest.number)}.json")
    planned = guest.run("config", "plan", "segment.ms=7200000", "--topic", TOPIC, "--plan", path)
    if planned.code:
        return [planned]
    quick = ("--baseline", "1s", "--window", "1s", "--every", "500ms")
    done = guest.run("config", "apply", path, "--yes", *quick)
    return [done] if done.code else [done, guest.run("config", "rollback", "--yes")]


def committed(guest: Guest) -> None:
    """A commit of the group, whose topic of offsets no broker could be emptied of."""
    if not guest.admin.partition_states([OFFSETS_TOPIC]):
        produce(guest.cluster, TopicPartition(TOPIC, 0), [b"x"])
        commit_with_kafka_python(guest.cluster, GROUP, {TopicPartition(TOPIC, 0): (1, "")})


def commits(guest: Guest) -> list[Ran]:
    committed(guest)
    words = [("show", GROUP, "-o", "json"), ("verify", GROUP), ("explain", GROUP, "--topic", TOPIC)]
    return [guest.run("streams", "commits", *one) for one in words]


def edits(guest: Guest) -> list[Ran]:
    committed(guest)
    words = ("streams", "commits", "reset", GROUP, "--topic", TOPIC, "--to", "0", "--allow-outside-log")
    ran = guest.run(*words, "--apply", "--yes")
    return [ran] if ran.code else [ran, guest.run("streams", "commits", "undo", "last", "--apply", "--yes")]


def lags(guest: Guest) -> list[Ran]:
    committed(guest)
    ran = guest.run("streams", "lag", "check", GROUP, "--wait", "2m" if guest.has_all else "4s", "--crit-lag", "100")
    return [ran]


def records(guest: Guest) -> list[Ran]:
    produce(guest.cluster, TopicPartition(TOPIC, 0), [b"x"])
    return [guest.run("streams", "records", "show", f"{TOPIC}/0@0")]


def streams(guest: Guest) -> list[Ran]:
    committed(guest)
    name = f"stream-{next(guest.number)}"
    ran = guest.run("streams", "link", name, "--topic", OTHER, "--yes")
    if ran.code:
        return [ran]
    shown = guest.run("streams", "show", name)
    tried = guest.run("streams", "delete", name, "--topics", "--dry-run")
    return [shown, tried, guest.run("streams", "delete", name, "--yes")]


def failovers(guest: Guest) -> list[Ran]:
    """The line's rights on the machine of failovers: a lane gets another topic, and the old one is deleted.

    A route names the profile, which is the owner's while the stream is made, and then the guest's.
    """
    name = f"moved-{next(guest.number)}"
    topic, own, wait = f"{name}.live.1", ("--profile", "moving", "streams"), "2m" if guest.has_all else "20s"
    guest.be("moving", guest.cluster.name)
    words = ("create", name, "--lanes", "live", "--partitions", "1", "--replication", "1", "--yes")
    made = guest.home.run(*own, *words)
    assert made.code == 0, made.stderr
    with (
        mock.patch.dict(os.environ, guest.home.environment({}), clear=True),
        connect("moving") as client,
        client.producer(name) as producer,  # its acknowledgement is what the time without a fence is short for
    ):
        producer.send(b"x").result(180)
        commit_with_kafka_python(guest.cluster, GROUP, {TopicPartition(topic, 0): (1, "")})
        guest.be("moving", f"{guest.cluster.name}-guest")
        options = ("--lane", "live", "--partitions", "2", "--fence", "none", "--wait", wait, "--yes")
        ran = guest.home.run(*own, "repartition", name, *options)
    return [ran] if ran.code else [ran, guest.home.run(*own, "failover", "reclaim", name, "--grace", "0", "--yes")]


def tags(guest: Guest) -> list[Ran]:
    tag = f"n:{next(guest.number)}"
    words = [("tag", "--topics", TOPIC, tag), ("tag", "--brokers", str(guest.cluster.broker_ids[0]), tag), ("topics",)]
    return [guest.run("registry", *one) for one in words]


def topics(guest: Guest) -> list[Ran]:
    name = f"made-{next(guest.number)}"
    made = guest.run("registry", "create", name, "--replication", "1")
    ran = [made] if made.code else [made, guest.run("registry", "delete", name, "--yes")]
    if guest.admin.partition_states([name]):
        guest.admin.delete_topic(name)
    return ran


def controls(guest: Guest) -> list[Ran]:
    from kafka.protocol.metadata import MetadataRequest

    if guest.admin.partition_states([CONTROL_TOPIC]):
        guest.admin.delete_topic(CONTROL_TOPIC)
        topic = MetadataRequest.MetadataRequestTopic(name=CONTROL_TOPIC)
        request = MetadataRequest(topics=[topic], allow_auto_topic_creation=False)
        until(lambda: all(answer.topics[0].error_code for answer in guest.everywhere(request, lambda found: found)))
    security = guest.security
    store = KafkaControl(
        KafkaData(guest.cluster.bootstrap_servers, security),
        lambda: KafkaAdmin(guest.cluster.bootstrap_servers, security),
        answer_limit_s=120 if guest.has_all else 3,
    )
    with closing(store):
        try:
            version = store.cas("clusters/x/lease", b"{}", None)
            found = store.get("clusters/x/lease")
            assert found is not None
            assert found.version == version
        except KafkakitError as error:
            return [Ran(1, "", f"{error.message} {error.hint}")]
    return [Ran(0, "", "")]


WORK: dict[str, Callable[[Guest], list[Ran]]] = {
    "snapshots and plans": looks,
    "running moves": lists,
    "progress of moves, all settings": reports,
    "moves without a throttle": moves,
    "moves with a throttle": throttled_moves,
    "emptying and refilling brokers": drains,
    "removal of throttles": cleanups,
    "commits of groups": commits,
    "changes of commits": edits,
    "failover of streams": failovers,
    "lag of groups": lags,
    "records": records,
    "streams and their readers": streams,
    "topics, brokers and tags of the registry": tags,
    "topics made and deleted by the registry": topics,
    "control store `kafka`": controls,
}


@pytest.fixture(scope="module")
def guest(sandbox_cluster: StartCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    cluster = sandbox_cluster(brokers=2, racks=1, log_dirs=(1,), secure="scram")
    found = Guest(cluster, tmp_path_factory.mktemp("guest"))
    with closing(found):
        a, b = cluster.broker_ids
        assert found.admin.create_topic(TOPIC, {0: (a,)}, {}) is None
        assert found.admin.create_topic(OTHER, {0: (b,)}, {}) is None
        yield found
    cluster.down()


def test_every_line_is_tried() -> None:
    assert sorted(WORK) == sorted(duty.name for duty in DUTIES)


@pytest.mark.parametrize("duty", DUTIES, ids=str)
def test_the_rights_of_a_line_are_enough_and_each_is_needed(guest: Guest, duty: CommandRights) -> None:
    for resource, operations in duty.rights.items():
        for operation in sorted(operations):
            guest.grant(duty, without=(resource, operation))
            refused = [ran for ran in WORK[duty.name](guest) if ran.code]
            texts = [ran.stderr + ran.stdout for ran in refused]
            assert texts, f"works without {operation} on {resource}"
            assert all(any(word in text for word in REFUSED) for text in texts), texts
    guest.grant(duty)
    for ran in WORK[duty.name](guest):
        assert ran.code == 0, ran.stderr + ran.stdout
