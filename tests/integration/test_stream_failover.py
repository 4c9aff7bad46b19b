"""Failovers on two real clusters, with the client's producers and consumers at work: planned, and after kill -9."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafkakit.config.security import Secret, Security, to_confluent
from kafkakit.core.cluster_facts import AclBinding, AclOperation, AclPermission, AclResourceKind
from kafkakit.core.errors import KafkakitError
from kafkakit.sandbox.decide.processes import GUEST, client_security, password_file
from kafkakit.streams.client.client import StreamClient
from kafkakit.streams.client.connect import RejectError, connect
from kafkakit.streams.client.dead_letters import ConsumerOptions
from kafkakit.streams.client.decide.outgoing import ProducerLimits
from kafkakit.streams.client.workers import StreamRecord
from kafkakit.streams.failover.act.observing import read_writers
from kafkakit.streams.model.route import Segment, SegmentState
from tests.integration.conftest import LeaseClusters, SandboxCluster, StartCluster
from tests.rigs.cluster_pool import SINGLE
from tests.rigs.waiting import until

pytestmark = pytest.mark.kafka
LIMIT_S = 240.0
PARTITIONS = 4


def took_s(ended: Any, first: str, last: str) -> float:
    """The time between two steps of a run."""
    return float(ended["reached_ms"][last] - ended["reached_ms"][first]) / 1000


class Traffic:
    """A producer and a consumer of one stream: what was acknowledged, and how often each record was handled."""

    def __init__(self, client: StreamClient, stream: str, limits: ProducerLimits | None = None) -> None:
        self.acknowledged: dict[bytes, float] = {}
        self.handled: Counter[bytes] = Counter()
        self.latest_s: dict[str, float] = {}
        self._client, self._stream, self._limits = client, stream, limits
        self._lock, self._stop, self._end = threading.Lock(), threading.Event(), threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "Traffic":
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._produce, self._consume)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for event, thread in zip((self._stop, self._end), self._threads, strict=True):
            event.set()
            thread.join(LIMIT_S)

    def handle(self, record: StreamRecord) -> None:
        with self._lock:
            self.handled[record.value or b""] += 1

    def _produce(self) -> None:
        number = 0
        with self._client.producer(self._stream, limits=self._limits) as producer:
            while not self._stop.is_set():
                value = b"%d" % number
                number += 1
                delivery = producer.send(value, key=b"%d" % (number % 50))
                self._await(delivery, value)

    def _await(self, delivery: Any, value: bytes) -> None:
        try:
            done = delivery.result(LIMIT_S)
        except KafkakitError:
            return
        with self._lock:
            self.acknowledged[value] = time.monotonic()
            self.latest_s[done.cluster_id] = time.monotonic()

    def _consume(self) -> None:
        options = ConsumerOptions(concurrency=4, commit_every_s=0.2)
        with self._client.consumer(self._stream, "billing", handler=self.handle, options=options):
            self._end.wait()
            # What was acknowledged is handled before the consumer closes.
            until(lambda: not self.missing(), "all is handled")

    def missing(self) -> set[bytes]:
        """Records that were acknowledged and not handled."""
        with self._lock:
            return set(self.acknowledged) - set(self.handled)


class Clusters:
    """Two clusters; routes are in files of this host, which neither cluster takes with it."""

    def __init__(self, old: SandboxCluster, new: SandboxCluster) -> None:
        self.old, self.new = old, new

    def run(self, *words: str, code: int = 0) -> Any:
        done = self._run(*words)
        assert done.returncode == code, f"{done.returncode}: {done.stderr}{done.stdout}"
        return json.loads(done.stdout) if done.stdout else None

    def run_until(self, reason: str, *words: str, code: int = 75) -> Any:
        """Run a command again while it ends with 75 for another reason, as on brokers that do not answer in time."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            done = self._run(*words)
            found = json.loads(done.stdout) if done.stdout else {}
            if (done.returncode, found.get("reason")) == (code, reason):
                return found
            assert done.returncode == 75, f"{done.returncode}: {done.stderr}{done.stdout}"
            assert time.monotonic() < deadline, f"{done.stderr}{done.stdout}"

    def _run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "kafkakit", "--profile", self.new.name, "-o", "json", "streams", *words],
            env=self.old.env, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip

    def die(self, when: str, effect: str, *words: str, number: signal.Signals = signal.SIGKILL, code: int = 0) -> str:
        """Run a command that gets a signal at an effect, and ends with a code, that of SIGKILL if none is given."""
        done = subprocess.run(
            [sys.executable, "-m", "tests.rigs.stream_killed", number.name, when, effect, "--profile", self.new.name,
             "streams", *words],
            env=self.old.env, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )  # fmt: skip
        said = f"{when} {effect}: {done.returncode} {done.stderr}{done.stdout}"
        assert done.returncode == (code or -signal.SIGKILL), said
        return said

    def make(self, stream: str) -> None:
        self.run("create", stream, "--cluster", self.old.name, "--lanes", "live", "--partitions", "4", "--yes")


@pytest.fixture(scope="module")
def clusters(lease: LeaseClusters) -> Iterator[Clusters]:
    old, new = lease(SINGLE, SINGLE)
    with pytest.MonkeyPatch.context() as patched:
        for name, value in old.env.items():
            patched.setenv(name, value)
        yield Clusters(old, new)


@pytest.fixture(scope="module")
def secured(sandbox_cluster: StartCluster, clusters: Clusters) -> Iterator[SandboxCluster]:
    """A cluster with an authorizer beside the others."""
    cluster = sandbox_cluster(brokers=1, racks=1, log_dirs=(1,), secure="scram")
    yield cluster
    cluster.down()


@pytest.fixture(scope="module")
def figures() -> Iterator[list[str]]:
    """What runs took, for the log of the test."""
    lines: list[str] = []
    yield lines
    sys.stderr.write("\n".join(lines) + "\n")


@pytest.fixture
def client(clusters: Clusters) -> Iterator[StreamClient]:
    with connect(clusters.new.name) as client:
        yield client


def test_a_planned_failover_loses_nothing_and_is_certified(
    clusters: Clusters, client: StreamClient, figures: list[str], tmp_path: Path
) -> None:
    clusters.make("orders")
    with ExitStack() as stack:
        # A record that the old cluster has not answered after `drain_s` is sent to the new one, too.
        traffic = stack.enter_context(Traffic(client, "orders", ProducerLimits(drain_s=60)))
        until(lambda: len(traffic.handled) > 50, "records flow")
        ended = clusters.run("failover", "run", "orders", "--to", clusters.new.name, "--yes")
        assert (ended["step"], ended["basis"], ended["lost"]) == ("retired", "acknowledged", [])
        figures.append(f"planned: {took_s(ended, 'planned', 'retired'):.1f} s, {ended['reached_ms']}")
        before = len(traffic.acknowledged)
        until(lambda: len(traffic.acknowledged) > before + 50, "records flow to the new cluster")
        assert clusters.new.cluster_id in traffic.latest_s
    assert traffic.missing() == set()
    assert [value for value, count in traffic.handled.items() if count > 1] == []
    printed = subprocess.run(
        [sys.executable, "-m", "kafkakit", "--profile", clusters.new.name, "streams", "failover", "certify", "orders",
         "--print"], env=clusters.old.env, capture_output=True, timeout=LIMIT_S, check=True,
    ).stdout  # fmt: skip
    file = tmp_path / "orders.cert"
    file.write_bytes(printed)
    assert clusters.run("verify-drain", str(file))["result"] == "verified"
    for place in range(7, len(printed), len(printed) // 5):
        file.write_bytes(printed[:place] + bytes([printed[place] ^ 1]) + printed[place + 1 :])
        clusters.run("verify-drain", "--offline", str(file), code=2)
    gone = clusters.run("failover", "reclaim", "orders", "--grace", "0", "--yes")
    assert [each["result"] for each in gone["topics"]] == ["deleted"]
    file.write_bytes(printed)
    until(lambda: clusters.run("verify-drain", str(file))["gone"], "the topic is gone")


@contextmanager
def killed(cluster: SandboxCluster) -> Iterator[None]:
    """SIGKILL every broker, and start them again."""
    for broker in cluster.broker_ids:
        cluster.kill(broker)
    try:
        yield
    finally:
        cluster.revive()


@pytest.mark.parametrize("lost", [killed, SandboxCluster.hung])
def test_a_cluster_that_is_lost_strands_nothing_that_is_not_counted(
    clusters: Clusters, client: StreamClient, figures: list[str], lost: Callable[[SandboxCluster], Any]
) -> None:
    stream = f"payments-{lost.__name__}"
    clusters.make(stream)
    with ExitStack() as stack:
        traffic = stack.enter_context(Traffic(client, stream))
        until(lambda: len(traffic.handled) > 50, "records flow")
        with lost(clusters.old):
            ended = clusters.run("failover", "run", stream, "--to", clusters.new.name, "--emergency", "--yes", code=75)
            assert (ended["step"], ended["reason"]) == ("stranded", "stranded")
            figures.append(f"{stream}: {took_s(ended, 'planned', 'routed'):.1f} s to routed, {ended['reached_ms']}")
            before = len(traffic.acknowledged)
            until(lambda: len(traffic.acknowledged) > before + 50, "records flow to the new cluster")
        # Brokers that are back may not lead their partitions or have their groups yet; then it ends at once.
        ended = clusters.run_until("", "failover", "resume", stream, "--yes", code=0)
        assert (ended["step"], ended["lost"]) == ("retired", [])
    assert traffic.missing() == set()


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_same_command_finishes_after_kill_9_at_each_effect(
    clusters: Clusters, client: StreamClient, when: str
) -> None:
    """One process after the other is killed at the effects of a failover; the records that flow meanwhile are all
    handled, and the certificate holds."""
    stream = f"killed-{when}"
    clusters.make(stream)
    words = ("failover", "run", stream, "--to", clusters.new.name, "--yes")
    reclaim = ("failover", "reclaim", stream, "--grace", "0", "--yes")
    with ExitStack() as stack:
        traffic = stack.enter_context(Traffic(client, stream))
        until(lambda: len(traffic.handled) > 50, "records flow")
        for effect in ("create", "open", "route", "seal", "certificate", "retire"):
            clusters.die(when, effect, *words)
        ended = clusters.run(*words)
        assert (ended["step"], ended["lost"]) == ("retired", [])
        topics = {each["topic"]: each["cluster"] for each in clusters.run("show", stream)["segments"]}
        assert set(topics.values()) == {clusters.new.name}
        clusters.die(when, "delete", *reclaim)
        clusters.run(*reclaim)
        before = len(traffic.acknowledged)
        until(lambda: len(traffic.acknowledged) > before + 50, "records flow to the new cluster")
    assert traffic.missing() == set()


class PlainClients:
    """A producer and a group of confluent-kafka, as a user with rights of its own, that know nothing of routes."""

    def __init__(self, cluster: SandboxCluster, topic: str, user: Security) -> None:
        self.topic, self.refused, self.written = topic, 0, 0
        self._settings = {"bootstrap.servers": cluster.bootstrap_servers, **to_confluent(user)}

    def write(self, count: int) -> None:
        """Send records one after the other; counts those that were written and those that were refused."""
        from confluent_kafka import KafkaException, Producer

        client = Producer({**self._settings, "acks": "all"})

        def note(error: object, _: object) -> None:
            self.refused += error is not None
            self.written += error is None

        for number in range(count):
            try:
                client.produce(self.topic, value=b"%d" % number, on_delivery=note)
            except KafkaException as error:  # what the client remembers of the topic
                note(error, None)
            assert client.flush(LIMIT_S) == 0

    def read(self, group: str) -> int:
        """Read to the end as a group, and commit the last record of each partition; returns how many were read."""
        from confluent_kafka import Consumer, KafkaError

        client = Consumer(
            {**self._settings, "group.id": group, "auto.offset.reset": "earliest", "enable.partition.eof": True,
             "enable.auto.commit": False}
        )  # fmt: skip
        found, ended, problem = 0, set[int | None](), ""
        client.subscribe([self.topic])
        deadline = time.monotonic() + LIMIT_S
        try:
            while len(ended) < PARTITIONS:
                assert time.monotonic() < deadline, problem
                message = client.poll(0.2)
                if message is None:
                    continue
                if message.error() is None:
                    found += 1
                    client.commit(message=message, asynchronous=False)
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition())
                else:
                    problem = str(message.error())
        finally:
            client.close()
        return found


def test_plain_clients_are_fenced_by_an_acl_and_their_group_is_drained(
    clusters: Clusters, secured: SandboxCluster, figures: list[str]
) -> None:
    root = str(secured.store.root)
    password = Secret(Path(password_file(root, GUEST)).read_text(encoding="utf-8").strip())
    guest = client_security(secured.state.spec.secure, root, GUEST, password)
    stream = "plain"
    clusters.run("create", stream, "--cluster", secured.name, "--lanes", "live", "--partitions", "4", "--yes")
    topic = clusters.run("show", stream)["segments"][0]["topic"]
    with closing(secured.open_admin()) as admin:
        writers = read_writers(SimpleNamespace(admin=admin), segment_of(topic, secured))
        figures.append(f"allow.everyone.if.no.acl.found as brokers say it: {writers.allows_everyone}")
        grants = [
            AclBinding(kind=kind, name=name, principal=f"User:{GUEST}", operation=AclOperation.ALL,
                       permission=AclPermission.ALLOW)
            for kind, name in ((AclResourceKind.TOPIC, topic), (AclResourceKind.GROUP, "billing"))
        ]  # fmt: skip
        assert set(admin.create_acls(grants).values()) == {None}
    plain = PlainClients(secured, topic, guest)
    deadline = time.monotonic() + LIMIT_S
    while not plain.written and time.monotonic() < deadline:  # until the grants are in force
        plain.write(1)
    plain.write(20)
    assert plain.read("billing") == plain.written
    refused = plain.refused
    words = ("failover", "run", stream, "--to", clusters.new.name, "--yes", "--wait", "2m")
    ended = clusters.run(*words)
    assert (ended["step"], ended["basis"]) == ("retired", "fence")
    figures.append(f"plain clients, ACL fence: {took_s(ended, 'planned', 'retired'):.1f} s, {ended['reached_ms']}")
    plain.write(2)
    assert plain.refused == refused + 2
    assert plain.read("billing") == 0, "readers are not cut off"
    clusters.run("failover", "reclaim", stream, "--grace", "0", "--yes")
    with closing(secured.open_admin()) as admin:
        left = admin.describe_acls(AclResourceKind.TOPIC, topic)
        assert left is not None
        assert {each.permission for each in left} == {AclPermission.ALLOW}


def segment_of(topic: str, cluster: SandboxCluster) -> Segment:
    return Segment(
        id=1, cluster=cluster.name, cluster_id=cluster.cluster_id, topic=topic, topic_id="", partitions=PARTITIONS,
        state=SegmentState.ACTIVE,
    )  # fmt: skip


def test_a_size_fence_refuses_plain_producers_where_there_is_no_authorizer(
    clusters: Clusters, figures: list[str]
) -> None:
    clusters.make("sized")
    topic = clusters.run("show", "sized")["segments"][0]["topic"]
    plain = PlainClients(clusters.old, topic, clusters.old.security)
    plain.write(10)
    assert (plain.read("billing"), plain.refused) == (10, 0)
    words = ("failover", "run", "sized", "--to", clusters.new.name, "--yes", "--wait", "2m")
    looked = clusters.run("failover", "plan", "sized", "--to", clusters.new.name)
    assert {(v["kind"], not v["reasons"]) for v in looked["fences"]["1"]} == {
        ("acl", False), ("config", True), ("quota", True), ("none", True)
    }  # fmt: skip
    ended = clusters.run(*words, "--fence", "config")
    assert (ended["step"], ended["basis"]) == ("retired", "fence")
    figures.append(f"size fence: {took_s(ended, 'planned', 'retired'):.1f} s, {ended['reached_ms']}")
    plain.write(2)
    assert (plain.refused, plain.read("billing")) == (2, 0)
    clusters.run("failover", "reclaim", "sized", "--grace", "0", "--yes")


BURIED = 40
HANDLED = 200


def bury(client: StreamClient, stream: str, count: int = BURIED) -> None:
    """Records of a stream, so many of which a group rejects: they are dead letters then. It handles all others."""
    handled = Counter[bytes]()

    def handle(record: StreamRecord) -> None:
        if count and (record.value or b"").startswith(b"bad"):
            raise RejectError("no order")
        handled[record.value or b""] += 1

    with client.consumer(stream, "billing", handler=handle, options=ConsumerOptions(commit_every_s=0.2)) as consumer:
        with client.producer(stream) as producer:
            for number in range(HANDLED):
                producer.send(b"%s%d" % (b"bad" if number < count else b"ok", number), key=b"%d" % number)
            producer.flush(LIMIT_S)
        until(lambda: consumer.figures().dead_letters_written >= count, "all are rejected")
        until(lambda: len(handled) >= HANDLED - count, "all others are handled")


def make_with_letters(clusters: Clusters, client: StreamClient, stream: str) -> None:
    words = ("--lanes", "live,dlq", "--partitions", "2,dlq=1")
    clusters.run("create", stream, "--cluster", clusters.old.name, *words, "--yes")
    bury(client, stream)


def values_of(clusters: Clusters, stream: str, *words: str) -> list[str]:
    found = clusters.run("dlq", "list", stream, *words)["records"]
    assert all(each["provenance"]["reason"] for each in found)
    return sorted(each["provenance"]["topic"] + str(each["provenance"]["offset"]) for each in found)


def test_dead_letters_stay_readable_until_they_are_copied(
    clusters: Clusters, client: StreamClient, figures: list[str]
) -> None:
    """A failover ends with dead letters in the lane `dlq`, which no group reads; they are listed and replayed after it,
    and `reclaim` deletes their topic once they are copied."""
    stream = "letters"
    make_with_letters(clusters, client, stream)
    before = values_of(clusters, stream)
    assert len(before) == BURIED
    assert clusters.run("dlq", "replay", stream, "--limit", "5", "--yes")["replayed"] == 5
    plan = clusters.run("failover", "plan", stream, "--to", clusters.new.name)
    (row,) = plan["dead_letters"]
    assert (row["cluster"], row["letters"], row["then"]) == (clusters.old.name, BURIED, "stay readable")
    assert row["groups"] == [f"kafkakit-dlq-replay.{stream} (what was replayed)"]
    bury(client, stream, 0)  # the replayed ones are handled
    ended = clusters.run("failover", "run", stream, "--to", clusters.new.name, "--yes")
    assert (ended["step"], ended["dead_letters"], len(ended["left"])) == ("retired", "leave", 1)
    figures.append(f"dead letters left: {took_s(ended, 'planned', 'retired'):.1f} s, {ended['reached_ms']}")
    assert values_of(clusters, stream) == before
    assert clusters.run("dlq", "replay", stream, "--limit", "5", "--yes")["replayed"] == 5
    kept = clusters.run("failover", "reclaim", stream, "--grace", "0", "--yes", code=75)
    assert (kept["reason"], [each["result"].split(":")[0] for each in kept["topics"]]) == (
        "dead-letters", ["deleted", "kept"]
    )  # fmt: skip
    done = clusters.run("failover", "reclaim", stream, "--grace", "0", "--recover", "--yes")
    assert (done["copied"], done["step"]) == (BURIED - 10, "reclaimed")
    assert set(values_of(clusters, stream)) <= set(before)
    outcomes = [each["outcome"] for each in clusters.run("failover", "history", stream)["commands"]]
    assert outcomes == ["done", "waiting", "done"]
    assert {each["cluster"] for each in clusters.run("show", stream)["segments"]} == {clusters.new.name}


@pytest.mark.parametrize("when", ["before", "after"])
def test_dead_letters_are_copied_whatever_process_is_killed(
    clusters: Clusters, client: StreamClient, when: str
) -> None:
    stream = f"copied-{when}"
    make_with_letters(clusters, client, stream)
    before = values_of(clusters, stream)
    words = ("failover", "run", stream, "--to", clusters.new.name, "--dead-letters", "copy", "--yes")
    for effect in ("letters", "certificate", "retire"):
        clusters.die(when, effect, *words)
    ended = clusters.run(*words)
    assert (ended["step"], ended["left"]) == ("retired", [])
    assert set(values_of(clusters, stream)) == set(before)
    printed = subprocess.run(
        [sys.executable, "-m", "kafkakit", "--profile", clusters.new.name, "streams", "failover", "certify", stream,
         "--print"], env=clusters.old.env, capture_output=True, timeout=LIMIT_S, check=True,
    ).stdout  # fmt: skip
    certificate = json.loads(printed)
    (letters,) = certificate["letters"]
    assert (letters["letters"], letters["is_left"], letters["copied"] >= BURIED) == (BURIED, False, True)
    gone = clusters.run("failover", "reclaim", stream, "--grace", "0", "--yes")
    assert [each["result"] for each in gone["topics"]] == ["deleted", "deleted"]


def test_records_that_came_late_are_copied_to_the_current_topic(clusters: Clusters, client: StreamClient) -> None:
    stream = "late"
    clusters.make(stream)
    bury(client, stream, 0)
    topic = clusters.run("show", stream)["segments"][0]["topic"]
    clusters.run("failover", "run", stream, "--to", clusters.new.name, "--quiet-for", "2s", "--yes")
    PlainClients(clusters.old, topic, clusters.old.security).write(3)
    late = clusters.run("failover", "reclaim", stream, "--grace", "0", "--yes", code=1)
    assert (late["reason"], late["topics"]) == ("late-writer", [])
    shown = clusters.run("failover", "history", stream)["commands"]
    assert [each["outcome"] for each in shown] == ["done", "late-writer"]
    handled = Counter[bytes]()
    with client.consumer(stream, "billing", handler=lambda record: handled.update([record.value or b""])):
        done = clusters.run("failover", "reclaim", stream, "--grace", "0", "--recover", "--yes")
        assert (done["copied"], done["step"]) == (3, "reclaimed")
        until(lambda: handled == Counter({b"0": 1, b"1": 1, b"2": 1}), "the late records are handled")
