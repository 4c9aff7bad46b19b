"""`kafkakit registry serve` on real brokers and a real ZooKeeper, beside what kafka-kit left there."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from kafkakit.adapters.kafka.data import KafkaData
from kafkakit.adapters.zookeeper import PATH, ZooKeeperLock
from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.core.errors import TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.ports.admin import ClusterAdmin
from tests.integration.conftest import LeaseClusters, SandboxCluster
from tests.rigs.cluster_pool import ZOOKEEPER
from tests.rigs.registry import Answered, curl, grpc_call
from tests.rigs.waiting import until

pytestmark = pytest.mark.zookeeper

# Recorded from kafka-kit: what its registry left in ZooKeeper.
RECORDED = {
    "/registry/broker/1001": b'{"pool":"tests","tier":"a \\u0026 b"}',
    "/registry/topic/recorded": b'{"team":"stream-processing"}',
    "/registry/topic/emptied": b"{}",
}


@pytest.fixture(scope="module")
def brokers(lease: LeaseClusters) -> SandboxCluster:
    return lease(ZOOKEEPER)[0]


@pytest.fixture(scope="module")
def admin(brokers: SandboxCluster) -> Iterator[ClusterAdmin]:
    admin = brokers.open_admin()
    yield admin
    admin.close()


@pytest.fixture(scope="module")
def keeper(brokers: SandboxCluster) -> Iterator[Any]:
    """kafka-kit's side of ZooKeeper."""
    from kazoo.client import KazooClient

    client = KazooClient(hosts=brokers.state.layout.keeper.address)
    client.start(timeout=120)
    for path, data in RECORDED.items():
        client.create(path, data, makepath=True)
    yield client
    client.stop()
    client.close()


def make(admin: ClusterAdmin, name: str, configs: Mapping[str, str] | None = None) -> None:
    """A topic on broker 1001; where the machine is slow, Kafka's answer comes after its time limit."""
    error = admin.create_topic(name, {0: (1001,)}, configs or {})
    assert error is None or error.retriable, error
    until(lambda: any(state.leader is not None for state in admin.partition_states([name]).values()))


class Served:
    """A `registry serve` in a process of its own."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process, self.addresses = process, dict[str, str]()
        assert process.stderr is not None
        while len(self.addresses) < 2:
            line = process.stderr.readline()
            assert line, "the service has ended"
            if " up: " in line:
                name, _, address = line.strip().partition(" up: ")
                self.addresses[name[-4:].strip()] = address

    def curl(self, method: str, path: str, *words: str) -> Answered:
        return curl(self.addresses["HTTP"], method, path, *words)

    def becomes(self, path: str, is_met: Callable[[Any], bool]) -> Any:
        """Read until the reply is as wanted."""
        answered = self.curl("GET", path)

        def is_wanted() -> bool:
            nonlocal answered
            answered = self.curl("GET", path)
            return answered.status == 200 and is_met(answered.body)

        until(is_wanted, path, seen=lambda: answered)
        return answered.body


@contextmanager
def serving(brokers: SandboxCluster, *given: str) -> Iterator[Served]:
    # Without cleanups: tags of topics that are yet to be made would be marked.
    words = ["--http-listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--refresh", "1s"]
    words += ["--default-request-timeout", "60000"]
    words += [] if "--token-file" in given else ["--no-token"]
    words += ["--tag-cleanup-frequency", "0", *given]
    command = [sys.executable, "-m", "kafkakit", "--profile", brokers.name, "registry", "serve", *words]
    process = subprocess.Popen(command, env=brokers.env, stderr=subprocess.PIPE, text=True)
    try:
        served = Served(process)
        served.becomes("/v1/brokers/list", lambda body: len(body["ids"]) == len(brokers.broker_ids))
        yield served
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def served(brokers: SandboxCluster, keeper: Any) -> Iterator[Served]:
    with serving(brokers, "--zk-addr", brokers.state.layout.keeper.address, "--enable-locking") as served:
        yield served


def test_what_kafka_kit_left_is_read_and_what_is_written_is_as_it_writes(
    served: Served, admin: ClusterAdmin, keeper: Any
) -> None:
    for name in ("recorded", "emptied"):
        make(admin, name)
    found = served.becomes("/v1/topics", lambda body: {"recorded", "emptied"} <= body["topics"].keys())
    assert found["topics"]["recorded"]["tags"] == {"team": "stream-processing"}
    assert found["topics"]["emptied"]["tags"] == {}
    assert served.curl("GET", "/v1/brokers/list?tag=tier:a+%26+b").body["ids"] == [1001]
    assert served.curl("PUT", "/v1/topics/tag/recorded?tag=b:%3C1%3E&tag=a:2").body == {"message": "success"}
    assert keeper.get("/registry/topic/recorded")[0] == b'{"a":"2","b":"\\u003c1\\u003e","team":"stream-processing"}'
    assert served.curl("GET", "/v1/topics/list?tag=a:2").body["names"] == ["recorded"]
    assert served.curl("DELETE", "/v1/topics/tag/recorded?tag=a&tag=b&tag=team").status == 200
    assert keeper.get("/registry/topic/recorded")[0] == b"{}"
    assert keeper.get_children(PATH) == []


def test_a_topic_is_created_on_its_targets_and_deleted(served: Served, admin: ClusterAdmin) -> None:
    body = {
        "topic": {
            "name": "made",
            "partitions": 3,
            "replication": 1,
            "configs": {"retention.ms": "5000"},
            "tags": {"x": "y"},
        },
        "targetBrokerTags": ["pool:tests"],
    }
    created = served.curl("POST", "/v1/topics/create", "-d", json.dumps(body))
    assert (created.status, created.body) == (200, {})
    # The brokers that the test and the service's reader ask may hear of the topic later than the one that made it.
    states = until(lambda: admin.partition_states(["made"]))
    assert [states[TopicPartition("made", n)].replicas for n in range(3)] == [(1001,)] * 3
    assert admin.dynamic_configs(ResourceKind.TOPIC, ["made"])["made"] == {"retention.ms": "5000"}
    served.becomes("/v1/topics/list", lambda body: "made" in body["names"])
    reply, trailing = grpc_call(served.addresses["gRPC"], "GetTopics", {"name": "made", "with_replicas": True})
    assert (reply["topics"]["made"]["tags"], reply["topics"]["made"]["replicas"][2]["ids"]) == ({"x": "y"}, (1001,))
    assert int(trailing["age"]) < 60
    assert served.curl("POST", "/v1/topics/create", "-d", json.dumps(body)).status == 409
    assert served.curl("DELETE", "/v1/topics/made").status == 200
    until(lambda: served.curl("GET", "/v1/mappings/topic/made").status == 404)
    until(lambda: not admin.partition_states(["made"]))


def test_what_kafka_refuses_is_refused(served: Served, admin: ClusterAdmin) -> None:
    topic = {"name": "refused", "partitions": 1, "replication": 1, "configs": {"no.such.config": "1"}}
    answered = served.curl("POST", "/v1/topics/create", "-d", json.dumps({"topic": topic}))
    assert answered.status == 400
    assert "no.such.config" in answered.body["message"]
    assert admin.partition_states(["refused"]) == {}


def test_a_form_posted_to_a_topic_does_not_delete_it(served: Served, admin: ClusterAdmin) -> None:
    make(admin, "kept")
    served.becomes("/v1/topics/list", lambda body: "kept" in body["names"])
    assert served.curl("POST", "/v1/topics/kept", "-d", "x").status == 501
    assert admin.partition_states(["kept"])


def key(group: str, topic: str, partition: int) -> bytes:
    return b"".join(pack(">h", len(t)) + t.encode() for t in (group, topic)) + pack(">i", partition)


def value(upstream: int, local: int) -> bytes:
    return pack(">hqqh", 0, upstream, local, 0)


def write(brokers: SandboxCluster, topic: str, records: Sequence[tuple[bytes, bytes | None]]) -> None:
    producer = KafkaData(brokers.bootstrap_servers, brokers.security).producer()
    for record_key, value in records:
        producer.send(TopicPartition(topic, 0), value, record_key)
    assert producer.flush(120) == 0


def test_offsets_of_mirror_maker_are_translated_for_several_callers_at_once(
    served: Served, brokers: SandboxCluster, admin: ClusterAdmin
) -> None:
    topic = "west.checkpoints.internal"
    make(admin, topic, {"cleanup.policy": "compact"})
    write(
        brokers,
        topic,
        [
            (key("g", "orders", 0), value(10, 5)),
            (key("other", "orders", 0), value(99, 98)),
            (key("g", "orders", 0), value(2**40, 7)),
            (key("g", "orders", 1), value(3, 2)),
            (key("g", "gone", 0), value(1, 1)),
            (key("g", "gone", 0), None),
        ],
    )
    wanted = {
        "orders:0": {"upstreamOffset": str(2**40), "localOffset": "7"},
        "orders:1": {"upstreamOffset": "3", "localOffset": "2"},
    }
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: served.curl("GET", "/v1/translate-offsets/west/g"), range(6)))
    assert [(answered.status, answered.body) for answered in found] == [(200, {"offsets": wanted})] * 6
    assert served.curl("GET", "/v1/translate-offsets/nowhere/g").status == 404


def test_intervals_of_translated_offsets_come_from_the_syncs(
    served: Served, brokers: SandboxCluster, admin: ClusterAdmin
) -> None:
    """As MirrorMaker 2 keeps them here with `offset-syncs.topic.location=target`."""
    make(admin, "north.checkpoints.internal", {"cleanup.policy": "compact"})
    make(admin, "mm2-offset-syncs.north.internal", {"cleanup.policy": "compact"})
    write(brokers, "north.checkpoints.internal", [(key("g", "north.orders", 0), value(130, 91))])
    place = pack(">h", 6) + b"orders" + pack(">i", 0)
    syncs = [(place, pack(">qq", 100, 90)), (place, pack(">qq", 200, 110))]
    write(brokers, "mm2-offset-syncs.north.internal", syncs)
    answered = served.curl("GET", "/v2/translate-offsets/north/g")
    assert (answered.status, answered.body["offsets"]) == (200, [
        {"topic": "north.orders", "partition": 0, "upstream_offset": 130, "local_offset": 91, "local_end_offset": 110,
         "exact": False, "may_repeat": 19, "assumes_no_own_records": False}
    ])  # fmt: skip
    assert served.curl("GET", "/v2/translate-offsets/nowhere/g").status == 404


def test_an_empty_topic_of_checkpoints_and_one_whose_end_is_gone_have_an_answer(
    served: Served, brokers: SandboxCluster, admin: ClusterAdmin
) -> None:
    make(admin, "empty.checkpoints.internal")
    answered = served.curl("GET", "/v1/translate-offsets/empty/g")
    assert (answered.status, answered.body) == (200, {"offsets": {}})
    make(admin, "source.checkpoints.internal")
    data = KafkaData(brokers.bootstrap_servers, brokers.security)
    write(brokers, "source.checkpoints.internal", [(key("g", "t", 0), value(8, 4))])
    # An aborted transaction leaves an end that no reader ever gets: as compaction of the last record does.
    from confluent_kafka import Producer

    settings = {"transactional.id": "registry-test", "transaction.timeout.ms": 600_000}
    producer = Producer({"bootstrap.servers": brokers.bootstrap_servers, **settings})
    producer.init_transactions(120)
    producer.begin_transaction()
    producer.produce("source.checkpoints.internal", b"x", b"y")
    assert producer.flush(120) == 0
    producer.abort_transaction(120)
    partition = TopicPartition("source.checkpoints.internal", 0)
    until(lambda: data.offsets([partition], 60)[partition].stop > 2)  # the marker is written after the answer
    reply, _ = grpc_call(served.addresses["gRPC"], "TranslateOffsets", {"group_id": "g"})
    assert reply["offsets"] == {"t:0": {"upstream_offset": 8, "local_offset": 4}}


def test_two_servers_that_write_at_once_lose_no_tag(served: Served, brokers: SandboxCluster, keeper: Any) -> None:
    with (
        serving(brokers, "--zk-addr", brokers.state.layout.keeper.address, "--write-rate-limit", "1000") as other,
        ThreadPoolExecutor(8) as pool,
    ):
        both = [served, other]
        calls = [(both[n % 2], f"/v1/brokers/tag/1002?tag=k{n}:v") for n in range(24)]
        answered = list(pool.map(lambda call: call[0].curl("PUT", call[1]), calls))
        assert [a.body for a in answered if a.status != 200] == []
        assert json.loads(keeper.get("/registry/broker/1002")[0]) == {f"k{n}": "v" for n in range(24)}
        for one in both:
            one.becomes("/v1/brokers", lambda body: len(body["brokers"]["1002"]["tags"]) == 24)


def test_version_2_keeps_a_history_beside_what_kafka_kit_writes(
    served: Served, admin: ClusterAdmin, keeper: Any
) -> None:
    make(admin, "followed")
    served.becomes("/v2/topics/followed", lambda body: body["tags"] == {})
    change = {"changes": [{"kind": "topic", "name": "followed", "set": {"a": "1"}}]}
    assert served.curl("POST", "/v2/tags", "-d", json.dumps(change)).body["results"][0]["changed"]
    keeper.set("/registry/topic/followed", b'{"a":"2"}')
    path, both = "/v2/history?kind=topic&name=followed", ["another program", "127.0.0.1"]
    found = served.becomes(path, lambda body: [entry["by"] for entry in body["entries"]] == both)
    assert found["entries"][0]["changes"] == [{"key": "a", "old": "1", "new": "2"}]
    entry = found["entries"][0]["changes"]
    served.becomes("/v2/history", lambda body: entry in [each["changes"] for each in body["entries"]])
    served.becomes("/v2/topics?query=a%3D2", lambda body: body["total"] == 1)
    assert sorted(keeper.get_children("/registry")) == ["broker", "history", "locks", "topic"]


def claim(keeper: Any, ends: datetime) -> str:
    """A claim as kafka-kit's lock makes it."""
    text = {"timestamp": "2026-01-01T00:00:00Z", "ttl_deadline": ends.isoformat(), "owner_id": "7"}
    made: str = keeper.create(
        f"{PATH}/_c_0123456789abcdef0123456789abcdef-lock-", json.dumps(text).encode(), ephemeral=True, sequence=True,
        makepath=True,
    )  # fmt: skip
    return made


def test_a_write_waits_for_the_lock_of_kafka_kit(served: Served, keeper: Any) -> None:
    held = claim(keeper, datetime.now(UTC) + timedelta(minutes=5))
    try:
        answered = served.curl("PUT", "/v1/brokers/tag/1001?tag=locked:yes", "-H", "Grpc-Timeout: 1S")
        assert answered.status in (503, 504)
    finally:
        keeper.delete(held)
    served.becomes("/v1/brokers", lambda body: True)
    assert served.curl("PUT", "/v1/brokers/tag/1001?tag=locked:no").status == 200
    assert json.loads(keeper.get("/registry/broker/1001")[0])["locked"] == "no"


def test_a_claim_whose_time_is_over_holds_nothing(brokers: SandboxCluster, keeper: Any) -> None:
    stale = claim(keeper, datetime.now(UTC) - timedelta(seconds=1))
    lock = ZooKeeperLock(brokers.state.layout.keeper.address, lambda: datetime.now(UTC), wait_s=120, ttl_s=600)
    with lock.held():
        assert keeper.exists(stale) is None
        (ours,) = keeper.get_children(PATH)
        document = json.loads(keeper.get(f"{PATH}/{ours}")[0])
        assert set(document) == {"timestamp", "ttl_deadline", "owner_id"}
        assert ours.startswith("_c_")
        second = ZooKeeperLock(brokers.state.layout.keeper.address, lambda: datetime.now(UTC), wait_s=2, ttl_s=600)
        with pytest.raises(TryLaterError, match="attempt to acquire lock timed out"), second.held():
            pass
        second.close()
    assert keeper.get_children(PATH) == []
    lock.close()


def test_sigterm_ends_it_in_order(brokers: SandboxCluster) -> None:
    with serving(brokers) as served:
        assert served.curl("PUT", "/v1/brokers/tag/1001?tag=a:b").status == 200
        assert served.curl("GET", "/v1/brokers/list?tag=a:b").body["ids"] == [1001]
        served.process.terminate()
        _, words = served.process.communicate(timeout=180)
    assert (served.process.returncode, words.splitlines()[-1]) == (143, "stopped (SIGTERM)")
    assert "error:" not in words
    audit = (brokers.home.state_dir / "registry" / "audit.jsonl").read_text().splitlines()
    assert [json.loads(line)["outcome"] for line in audit[-2:]] == ["begun", "done"]
    assert json.loads(audit[-1])["call"] == "TagBroker"


def kafkakit(brokers: SandboxCluster, *words: str, code: int = 0) -> Any:
    """The data that a command of the registry ends with."""
    command = [sys.executable, "-m", "kafkakit", "--profile", brokers.name, *words, "-o", "json"]
    ran = subprocess.run(command, env=brokers.env, capture_output=True, text=True, timeout=400, check=False)
    assert ran.returncode == code, ran.stdout + ran.stderr
    return json.loads(ran.stdout)


def test_commands_without_a_server_on_kafka_kits_znodes(
    brokers: SandboxCluster, admin: ClusterAdmin, keeper: Any
) -> None:
    place = ("--zk-addr", brokers.state.layout.keeper.address, "--zk-tags-prefix", "/commands")
    make(admin, "by-hand")
    keeper.create("/commands/topic/by-hand", b'{"team":"a \\u0026 b"}', makepath=True)
    kafkakit(brokers, "registry", "tag", "--topics", "where team = 'a & b'", "n:1", "--yes", *place)
    assert keeper.get("/commands/topic/by-hand")[0] == b'{"n":"1","team":"a \\u0026 b"}'
    (found,) = kafkakit(brokers, "registry", "topics", "where n = 1", *place)["topics"]
    assert (found["name"], found["partitions"]) == ("by-hand", 1)
    entries = kafkakit(brokers, "registry", "history", "--topic", "by-hand", *place)["entries"]
    assert [entry["changes"] for entry in entries] == [[{"key": "n", "new": "1"}]]
    kafkakit(brokers, "registry", "tag", "--topics", "by-hnad", "n:1", *place, code=2)


def test_cleanup_beside_what_kafka_kits_cleaner_left(brokers: SandboxCluster, admin: ClusterAdmin, keeper: Any) -> None:
    make(admin, "back")
    recorded = {
        "topic/swept": b"{}",
        "topic/marked": b'{"tagMarkedForDeletionTime":"1700000000","team":"x"}',
        "topic/back": b'{"tagMarkedForDeletionTime":"1700000000","team":"y"}',
        "broker/1009": b'{"tier":"hot"}',
        "broker/1001": b'{"tier":"hot"}',
    }
    for path, data in recorded.items():
        keeper.create(f"/cleaned/{path}", data, makepath=True)
    place = ("--zk-addr", brokers.state.layout.keeper.address, "--zk-tags-prefix", "cleaned")
    planned = kafkakit(brokers, "registry", "cleanup", "--dry-run", *place)["actions"]
    assert {path: keeper.get(f"/cleaned/{path}")[0] for path in recorded} == recorded
    done = kafkakit(brokers, "registry", "cleanup", *place)["actions"]
    actions = [("mark", "1009"), ("unmark", "back"), ("delete", "marked"), ("delete", "swept")]
    assert [(each["action"], each["name"]) for each in planned] == actions
    assert len(done) == 4
    assert keeper.get_children("/cleaned/topic") == ["back"]
    assert keeper.get("/cleaned/topic/back")[0] == b'{"team":"y"}'
    mark = json.loads(keeper.get("/cleaned/broker/1009")[0])["tagMarkedForDeletionTime"]
    assert abs(int(mark) - time.time()) < 600
    assert kafkakit(brokers, "registry", "cleanup", *place)["actions"] == []


def test_tags_move_from_kafka_kits_znodes_into_kafka(brokers: SandboxCluster, keeper: Any) -> None:
    held = {f"topic/t{n}": f'{{"n":"{n}"}}'.encode() for n in range(20)} | {"broker/1001": b'{"tier":"hot"}'}
    for path, data in held.items():
        keeper.create(f"/moved/{path}", data, makepath=True)
    words = ("--zk-addr", brokers.state.layout.keeper.address, "--zk-tags-prefix", "moved", "--from", "zookeeper")
    assert kafkakit(brokers, "registry", "migrate", *words, "--to", "kafka", "--dry-run")["to_copy"] == 21
    done = kafkakit(brokers, "registry", "migrate", *words, "--to", "kafka", "--yes")
    (ours, theirs) = done["stores"]
    assert (done["copied"], ours["brokers"], ours["topics"]) == (21, 1, 20)
    assert ours["sha256"] == theirs["sha256"]
    assert kafkakit(brokers, "registry", "migrate", *words, "--to", "kafka")["already_there"] == 21
    stats = {path: keeper.get(f"/moved/{path}") for path in held}
    assert {path: (data, stat.version) for path, (data, stat) in stats.items()} == {p: (d, 0) for p, d in held.items()}
    found = kafkakit(brokers, "-X", "control_store=kafka", "registry", "brokers", "where tier = hot")["brokers"]
    assert [broker["id"] for broker in found] == [1001]


def test_a_token_is_revoked_and_a_repeated_request_answered_by_the_next_process(
    brokers: SandboxCluster, admin: ClusterAdmin, keeper: Any, tmp_path: Path
) -> None:
    make(admin, "repeated")
    file, digest = tmp_path / "callers.yaml", sha256(b"ci-token").hexdigest()
    caller = f"{{name: ci, sha256: {digest}, roles: [read, tag]}}"
    file.write_text(f"callers: [{caller}]")
    words = ("--zk-addr", brokers.state.layout.keeper.address, "--token-file", str(file))
    body = json.dumps({"changes": [{"kind": "topic", "name": "repeated", "set": {"a": "1"}}]})
    given = ("-H", "Authorization: Bearer ci-token", "-H", "Idempotency-Key: k", "-d", body)
    with serving(brokers, *words) as served:
        served.becomes("/v1/topics/list", lambda found: "repeated" in found["names"])
        first = served.curl("POST", "/v2/tags", *given)
        assert (first.status, first.body["results"][0]["changed"]) == (200, True)
        served.process.kill()
    with serving(brokers, *words) as served:
        assert served.curl("POST", "/v2/tags", *given).body == first.body
        file.write_text("callers: []")
        refused = until(lambda: reply if (reply := served.curl("POST", "/v2/tags", *given)).status != 200 else None)
        assert (refused.status, refused.body["message"]) == (401, "the token is not known")
    assert json.loads(keeper.get("/registry/topic/repeated")[0]) == {"a": "1"}


def test_a_service_that_is_killed_while_it_writes_leaves_old_or_new(
    brokers: SandboxCluster, admin: ClusterAdmin, keeper: Any
) -> None:
    make(admin, "killed")
    store = ("--zk-addr", brokers.state.layout.keeper.address)
    for wait_s in (0.1, 0.4):
        with serving(brokers, *store) as served:
            written = threading.Event()

            def put(number: int, served: Served = served, written: threading.Event = written) -> None:
                with suppress(subprocess.CalledProcessError):  # the connection ends with the service
                    path = f"/v1/topics/tag/killed?tag=one:{number}&tag=other:{number}"
                    if served.curl("PUT", path).status == 200:
                        written.set()

            with ThreadPoolExecutor(4) as pool:
                puts = pool.map(put, range(60))
                try:
                    assert written.wait(180)
                    time.sleep(wait_s)
                finally:
                    served.process.kill()
                list(puts)
        tags = json.loads(keeper.get("/registry/topic/killed")[0])
        assert tags["one"] == tags["other"]
    with serving(brokers, *store) as served:
        assert served.curl("GET", "/v1/topics?name=killed").body["topics"]["killed"]["tags"] == tags
        assert served.curl("PUT", "/v1/topics/tag/killed?tag=one:x&tag=other:x").status == 200
        assert served.curl("GET", "/v2/history?kind=topic&name=killed").body["entries"]


def test_the_registry_puts_no_topic_on_a_cordoned_broker(brokers: SandboxCluster, admin: ClusterAdmin) -> None:
    """Kafka before 4.3 knows nothing of it: the mark is all."""
    first, *others = brokers.broker_ids

    def call(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "kafkakit", "--profile", brokers.name, *words]
        return subprocess.run(command, env=brokers.env, capture_output=True, text=True, timeout=200, check=False)

    done = call("broker", "cordon", str(first), "--reason", "disk swap", "--yes")
    assert (done.returncode, "Kafka before 4.3 is not told" in done.stdout) == (0, True), done.stderr
    assert f"{first}  a     alive,cordoned" in call("broker", "list").stdout
    named = call("registry", "create", "cordoned", "--replication", "1", "--target-brokers", str(first))
    assert (named.returncode == 0, f"cordoned: {first}" in named.stderr) == (False, True), named.stderr
    made = call("registry", "create", "cordoned", "--partitions", "8", "--replication", "1")
    assert made.returncode == 0, made.stderr
    until(lambda: len(admin.partition_states(["cordoned"])) == 8)
    assert {b for state in admin.partition_states(["cordoned"]).values() for b in state.replicas} == {*others}
    assert admin.delete_topic("cordoned") is None
    assert call("broker", "uncordon", str(first), "--yes").returncode == 0
