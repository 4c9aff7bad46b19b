"""Carrying plans out on real brokers, with the faults that happen to real ones."""

import json
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import IO

import pytest

from kafkakit.adapters.kafka.data import KafkaData
from kafkakit.core.cluster_facts import ConfigChange, ConfigOp, ResourceKind
from kafkakit.core.documents import encode_plan
from kafkakit.core.model import TopicPartition
from kafkakit.core.plan import Plan, identity_of
from kafkakit.execution.act.run_journal import journal_path
from kafkakit.execution.decide.throttle import FOLLOWER_LIST, FOLLOWER_RATE, LEADER_LIST, LEADER_RATE
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.sandbox import lifecycle as sandbox
from tests.clusters.plans import make_plan, plan_of
from tests.integration.conftest import LeaseClusters, SandboxCluster, SettledAdmin
from tests.invariants.journal import verify_journal
from tests.rigs.cluster_pool import FOUR
from tests.rigs.waiting import becomes, until

pytestmark = pytest.mark.kafka

A, B, C, D = 1001, 1002, 1003, 1004
KB, MB = 1000, 1_000_000
PATIENCE_S = 180.0
HELD, LARGE = "100kB", 20 * MB
"""A throttle under which a copy of a `LARGE` partition lasts over a minute, as 1 MB comes every 3 s: a test that looks
at it, or stops it, has that long. `hasten` ends it."""


@pytest.fixture(scope="module")
def brokers(lease: LeaseClusters) -> SandboxCluster:
    return lease(FOUR)[0]


@pytest.fixture
def admin(brokers: SandboxCluster) -> Iterator[ClusterAdmin]:
    brokers.revive()
    found = brokers.open_admin()
    until(lambda: len(alive(found)) == 4)
    yield found
    brokers.revive()
    tidy(brokers, found)
    found.close()


def tidy(cluster: SandboxCluster, admin: ClusterAdmin) -> None:
    """Take away what a test left that failed: moves, throttles and journals, which the next one would meet."""
    admin.cancel([TopicPartition(r.topic, r.partition) for r in admin.reassignments()])
    keys = (LEADER_RATE, FOLLOWER_RATE, LEADER_LIST, FOLLOWER_LIST)
    names = {ResourceKind.BROKER: map(str, alive(admin)), ResourceKind.TOPIC: admin.topic_names()}
    admin.alter_configs(
        [
            ConfigChange(kind=kind, name=name, key=key, op=ConfigOp.DELETE, value=None)
            for kind, found in names.items()
            for name, values in admin.dynamic_configs(kind, list(found)).items()
            for key in keys
            if key in values
        ]
    )
    for folder in ("journals", "plans"):
        shutil.rmtree(cluster.home.state_dir / folder / cluster.cluster_id, ignore_errors=True)


def alive(admin: ClusterAdmin) -> set[int]:
    """The brokers that are alive to all brokers, whichever of them a command will ask."""
    return settled(admin).alive()


def arguments(cluster: SandboxCluster, words: Sequence[str]) -> list[str]:
    """A command line; runs do not measure for 5 s what the logs take in, unless the test asks for it."""
    sampled = words[0] not in ("apply", "resume", "rollback") or "--ingest-sample" in words
    unsampled = () if sampled else ("--ingest-sample", "0")
    return [sys.executable, "-m", "kafkakit", "--profile", cluster.name, "reassign", *words, *unsampled]


def kit(cluster: SandboxCluster, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        arguments(cluster, words), env=cluster.env, capture_output=True, text=True, timeout=400, check=False
    )


@contextmanager
def kit_running(
    cluster: SandboxCluster, *words: str, stderr: int | IO[str] = subprocess.PIPE
) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        arguments(cluster, words),
        env=cluster.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def hasten(cluster: SandboxCluster, path: str, process: subprocess.Popen[str]) -> None:
    """Request so high a rate from a run that its copies end soon; one that a fault ended meanwhile needs none."""
    until(lambda: process.poll() is not None or kit(cluster, "throttle", path, "80MB").returncode in (0, 1))


def make_topic(
    cluster: SandboxCluster, admin: ClusterAdmin, name: str, lists: Mapping[int, tuple[int, ...]], size: int = 0
) -> None:
    """A topic with `size` bytes in each partition."""
    assert admin.create_topic(name, lists, {"min.insync.replicas": "1"}) is None
    producer = KafkaData(cluster.bootstrap_servers, cluster.security).producer()
    value = bytes(100 * KB)
    for number in lists:
        for _ in range(size // len(value)):
            producer.send(TopicPartition(name, number), value)
    assert producer.flush(PATIENCE_S) == 0


def save(plan: Plan, folder: Path) -> str:
    path = folder / "plan.json"
    path.write_bytes(encode_plan(plan))
    return str(path)


def settled(admin: ClusterAdmin) -> SettledAdmin:
    assert isinstance(admin, SettledAdmin)
    return admin


def replicas(admin: ClusterAdmin, topic: str) -> dict[int, tuple[int, ...]]:
    return {k.partition: s.replicas for k, s in settled(admin).states([topic]).items()}


def leaders(admin: ClusterAdmin, topic: str) -> dict[int, int | None]:
    return {k.partition: s.leader for k, s in settled(admin).states([topic]).items()}


def throttles(admin: ClusterAdmin, topic: str) -> dict[str, dict[str, str]]:
    """What is set of throttles on living brokers and the topic."""
    ids = [str(b) for b in alive(admin)]
    found = dict(admin.dynamic_configs(ResourceKind.BROKER, ids)) | dict(
        admin.dynamic_configs(ResourceKind.TOPIC, [topic])
    )
    keys = (LEADER_RATE, FOLLOWER_RATE, LEADER_LIST, FOLLOWER_LIST)
    picked = {name: {k: v for k, v in values.items() if k in keys} for name, values in found.items()}
    return {name: values for name, values in picked.items() if values}


def journal(cluster: SandboxCluster, plan: Plan) -> bytes:
    return journal_path(cluster.home.state_dir, plan.cluster_id, identity_of(plan)).read_bytes()


def set_config(admin: ClusterAdmin, kind: ResourceKind, name: str, key: str, value: str | None) -> None:
    def now() -> str | None:
        found: Mapping[str, Mapping[str, str]] = until(lambda: admin.dynamic_configs(kind, [name]))
        return found[name].get(key)

    op = ConfigOp.DELETE if value is None else ConfigOp.SET
    change = ConfigChange(kind=kind, name=name, key=key, op=op, value=value)
    before = now()
    assert admin.alter_configs([change])[change] is None
    # A service may set a value of its own where one is taken away.
    until(lambda: (found := now()) == value or (value is None and found != before))


def test_apply_throttles_exactly_restores_and_a_second_apply_does_nothing(
    brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path
) -> None:
    make_topic(brokers, admin, "exact", {0: (A, B), 1: (B, A), 2: (A, B)}, LARGE)
    set_config(admin, ResourceKind.BROKER, str(A), LEADER_RATE, "123456789")
    set_config(admin, ResourceKind.TOPIC, "exact", FOLLOWER_LIST, "7:1002")
    before = throttles(admin, "exact")
    plan = make_plan(admin, {("exact", 0): (C, B), ("exact", 1): (D, A)}, topics=["exact"])
    path = save(plan, tmp_path)
    dry = kit(brokers, "apply", path, "--dry-run", "--throttle", "3MB", "--join")
    assert dry.returncode == 0, dry.stderr
    assert "exact-0: [1001,1002] -> [1003,1002]" in dry.stderr
    refused = kit(brokers, "apply", path, "--yes", "--throttle", "3MB")
    assert refused.returncode == 2
    assert "this run did not set: leader.replication.throttled.rate on broker 1001 is 123456789" in refused.stderr
    becomes(lambda: throttles(admin, "exact"), before)
    rate = "100000"
    during = {
        str(A): {LEADER_RATE: rate},
        str(B): {LEADER_RATE: rate},
        str(C): {FOLLOWER_RATE: rate},
        str(D): {FOLLOWER_RATE: rate},
        "exact": {LEADER_LIST: "0:1001,0:1002,1:1002,1:1001", FOLLOWER_LIST: "7:1002,0:1003,1:1004"},
    }
    with kit_running(brokers, "apply", path, "--yes", "--throttle", HELD, "--join", "-o", "json") as process:
        until(lambda: len(admin.reassignments()) == 2)
        becomes(lambda: throttles(admin, "exact"), during)
        faster = kit(brokers, "throttle", path, "50MB")
        assert faster.returncode == 0, faster.stderr
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    result = json.loads(out)
    assert result["verdict"] == "applied"
    assert result["bytes_copied"] >= 2 * LARGE
    becomes(lambda: throttles(admin, "exact"), before)
    becomes(lambda: replicas(admin, "exact"), {0: (C, B), 1: (D, A), 2: (A, B)})
    becomes(lambda: leaders(admin, "exact"), {0: C, 1: D, 2: A})
    verify_journal(written := journal(brokers, plan))
    again = kit(brokers, "apply", path, "--yes", "--throttle", "3MB")
    assert again.returncode == 0
    assert "already applied" in again.stdout
    assert journal(brokers, plan) == written
    assert kit(brokers, "verify", path).returncode == 0
    undone = kit(brokers, "rollback", path, "--yes")
    assert undone.returncode == 0, undone.stderr
    becomes(lambda: replicas(admin, "exact"), {0: (A, B), 1: (B, A), 2: (A, B)})
    becomes(lambda: leaders(admin, "exact"), {0: A, 1: B, 2: A})
    not_applied = kit(brokers, "verify", path, "-o", "tsv")
    assert not_applied.returncode == 1
    assert not_applied.stdout.splitlines()[0].split("\t")[:3] == ["exact", "0", "not-started"]
    becomes(lambda: throttles(admin, "exact"), before)
    set_config(admin, ResourceKind.BROKER, str(A), LEADER_RATE, None)


def test_a_map_of_kafkas_own_tool_is_carried_out_and_taken_back(
    brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path
) -> None:
    make_topic(brokers, admin, "mapped", {0: (A, B), 1: (B, A)}, 4 * MB)
    rows = [("mapped", 0, (C, B)), ("mapped", 1, (D, C))]
    entries = [{"topic": t, "partition": p, "replicas": to, "log_dirs": ["any"] * 2} for t, p, to in rows]
    (tmp_path / "map.json").write_text(json.dumps({"version": 1, "partitions": entries}))
    applied = kit(brokers, "apply", str(tmp_path / "map.json"), "--yes", "--throttle", "3MB")
    assert applied.returncode == 0, applied.stderr
    assert "2 move replicas" in applied.stderr
    becomes(lambda: replicas(admin, "mapped"), {0: (C, B), 1: (D, C)})
    back = next(line for line in applied.stderr.splitlines() if "to take it back: " in line)
    words = shlex.split(back.split("reassign rollback ", 1)[1])
    undone = kit(brokers, "rollback", *words, "--yes")
    assert undone.returncode == 0, undone.stderr
    becomes(lambda: replicas(admin, "mapped"), {0: (A, B), 1: (B, A)})
    becomes(lambda: throttles(admin, "mapped"), {})


def test_other_and_changed_clusters_are_refused(brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path) -> None:
    make_topic(brokers, admin, "changed", {0: (A, B), 1: (B, A)})
    plan = make_plan(admin, {("changed", 0): (C, B)}, topics=["changed"])
    other = plan_of("AAAAAAAAAAAAAAAAAAAAAA", plan.brokers, plan.scope, plan.moves)
    foreign = kit(brokers, "apply", save(other, tmp_path), "--yes")
    assert foreign.returncode == 2
    assert "the plan is for cluster AAAAAAAAAAAAAAAAAAAAAA" in foreign.stderr
    path = save(plan, tmp_path)
    unconfirmed = kit(brokers, "apply", path)
    assert unconfirmed.returncode == 2
    assert "--yes" in unconfirmed.stderr
    admin.reassign({TopicPartition("changed", 1): (B, D)})
    until(lambda: not admin.reassignments() and replicas(admin, "changed")[1] == (B, D))
    changed = kit(brokers, "apply", path, "--yes")
    assert changed.returncode == 2
    assert "changed-1 was [1002,1001], is [1002,1004]" in changed.stderr
    assert changed.stdout == ""
    drifted = kit(brokers, "apply", path, "--yes", "--allow-drift")
    assert drifted.returncode == 0, drifted.stderr
    becomes(lambda: replicas(admin, "changed"), {0: (C, B), 1: (B, D)})


def test_broker_lost_between_plan_and_apply_is_refused_by_name(
    brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path
) -> None:
    make_topic(brokers, admin, "lost", {0: (A, B)})
    path = save(make_plan(admin, {("lost", 0): (D, B)}), tmp_path)
    brokers.kill(D)
    until(lambda: D not in alive(admin))
    refused = kit(brokers, "apply", path, "--yes", "--throttle", "5MB")
    assert refused.returncode == 2
    assert "broker 1004, which is not alive" in refused.stderr
    becomes(lambda: throttles(admin, "lost"), {})
    becomes(lambda: replicas(admin, "lost"), {0: (A, B)})


def test_destination_killed_mid_move_is_told_and_rolled_back_without_losing_a_record(
    brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path
) -> None:
    make_topic(brokers, admin, "killed", {0: (A, B), 1: (B, A)}, LARGE)
    path = save(plan := make_plan(admin, {("killed", 0): (D, B), ("killed", 1): (D, A)}), tmp_path)
    acknowledged: list[bytes] = []
    with writing(brokers, "killed", acknowledged):
        with kit_running(brokers, "apply", path, "--yes", "--throttle", HELD) as process:
            until(lambda: len(admin.reassignments()) == 2)
            brokers.kill(D)
            out, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 1
        assert "broker 1004 is not alive and 2 moves wait for it" in out
        assert "throttle left: the replication rate on broker 1004, which is not alive" in out
        assert len(admin.reassignments()) == 2
        becomes(lambda: throttles(admin, "killed"), {})
        looked = kit(brokers, "status", "--window", "0", "-o", "json")
        assert [m["waits_for"] for m in json.loads(looked.stdout)["moves"]] == [[D], [D]]
        undone = kit(brokers, "rollback", path, "--yes")
        assert undone.returncode == 1  # the dead broker's rate is still owed
        assert "1004" in undone.stderr
        becomes(lambda: replicas(admin, "killed"), {0: (A, B), 1: (B, A)})
        assert not admin.reassignments()
    brokers.restart(D)
    until(lambda: D in alive(admin))
    last = kit(brokers, "rollback", path, "--yes")
    assert last.returncode == 0, last.stderr
    becomes(lambda: throttles(admin, "killed"), {})
    verify_journal(journal(brokers, plan))
    assert len(acknowledged) > 0
    assert not set(acknowledged) - set(read_all(brokers, "killed", 2))


def test_controller_restarted_during_apply(brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path) -> None:
    make_topic(brokers, admin, "ctrl", dict.fromkeys(range(6), (A, B)), LARGE)
    path = save(make_plan(admin, {("ctrl", n): (C, B) for n in range(6)}), tmp_path)
    options = ("--yes", "--throttle", HELD, "--batch-size", "2")
    with kit_running(brokers, "apply", path, *options) as process:
        until(admin.reassignments)
        controller = sandbox.load_state(brokers.store).nodes[0]
        assert controller.process is not None
        brokers.machine.processes.kill([controller.process])
        brokers.kill(D)
        time.sleep(2)
        sandbox.start_node(brokers.machine, brokers.store, sandbox.load_state(brokers.store), controller.node)
        hasten(brokers, path, process)
        _, err = process.communicate(timeout=PATIENCE_S * 2)
    assert process.returncode == 0, err
    becomes(lambda: set(replicas(admin, "ctrl").values()), {(C, B)})
    becomes(lambda: throttles(admin, "ctrl"), {})


def test_topic_deleted_during_apply(brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path) -> None:
    make_topic(brokers, admin, "stays", {0: (A, B)}, LARGE)
    make_topic(brokers, admin, "goes", {0: (A, B)}, LARGE)
    path = save(make_plan(admin, {("stays", 0): (C, B), ("goes", 0): (C, B)}), tmp_path)
    with kit_running(brokers, "apply", path, "--yes", "--throttle", HELD) as process:
        until(lambda: len(admin.reassignments()) == 2)
        assert admin.delete_topic("goes") is None
        hasten(brokers, path, process)
        _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    becomes(lambda: replicas(admin, "stays"), {0: (C, B)})
    becomes(lambda: throttles(admin, "stays"), {})
    for verb in (("apply", path, "--yes"), ("verify", path)):
        again = kit(brokers, *verb)
        assert again.returncode == 0, again.stderr
        assert "note: left out, 1 topic deleted since the plan was made: goes-0" in again.stdout


def test_kill_9_mid_apply_then_resume(brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path) -> None:
    make_topic(brokers, admin, "killed9", dict.fromkeys(range(4), (A, B)), LARGE)
    set_config(admin, ResourceKind.BROKER, str(B), LEADER_RATE, "99999999")
    path = save(plan := make_plan(admin, {("killed9", n): (C, B) for n in range(4)}), tmp_path)
    before = throttles(admin, "killed9")
    with kit_running(brokers, "apply", path, "--yes", "--throttle", HELD, "--batch-size", "2", "--join") as process:
        until(lambda: len(admin.reassignments()) == 2)
        process.kill()
        process.communicate()
    assert throttles(admin, "killed9") != before
    kept = kit(brokers, "apply", path, "--dry-run")
    assert "throttle: 100 kB/s" in kept.stderr
    faster = kit(brokers, "throttle", path, "80MB")
    assert faster.returncode == 0, faster.stderr
    resumed = kit(brokers, "apply", path, "--yes")
    assert resumed.returncode == 0, resumed.stderr
    assert "throttle: 80 MB/s" in resumed.stderr
    becomes(lambda: throttles(admin, "killed9"), before)
    becomes(lambda: set(replicas(admin, "killed9").values()), {(C, B)})
    verify_journal(journal(brokers, plan))
    set_config(admin, ResourceKind.BROKER, str(B), LEADER_RATE, None)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stop_says_what_still_runs_and_the_lock_keeps_others_out(
    brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    topic = f"stop{code}"
    make_topic(brokers, admin, topic, {0: (A, B)}, LARGE)
    path = save(make_plan(admin, {(topic, 0): (C, B)}), tmp_path)
    with kit_running(brokers, "apply", path, "--yes", "--throttle", HELD) as process:
        until(admin.reassignments)
        second = kit(brokers, "apply", path, "--yes")
        assert second.returncode == 75
        assert "another kafkakit process is running" in second.stderr
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code
    assert out == ""
    assert "1 of 1 moves still run on the cluster, the throttle of 100 kB/s stays set" in err
    assert f"kafkakit --profile {brokers.name} reassign apply {path} --yes" in err
    becomes(lambda: throttles(admin, topic).get(str(C)), {FOLLOWER_RATE: "100000"})
    undone = kit(brokers, "rollback", path, "--yes")
    assert undone.returncode == 0, undone.stderr
    becomes(lambda: throttles(admin, topic), {})
    becomes(lambda: replicas(admin, topic), {0: (A, B)})


@contextmanager
def writing(cluster: SandboxCluster, topic: str, acknowledged: list[bytes]) -> Iterator[None]:
    """A producer that keeps writing; what the brokers acknowledged is collected."""
    stop = Event()
    producer = KafkaData(cluster.bootstrap_servers, cluster.security).producer(
        on_acknowledged=lambda record: acknowledged.append(bytes(record.value))
    )

    def write() -> None:
        number = 0
        while not stop.is_set():
            producer.send(TopicPartition(topic, number % 2), f"record {number}".encode())
            number += 1
            time.sleep(0.005)
        assert producer.flush(PATIENCE_S) == 0

    writer = Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()


def read_all(cluster: SandboxCluster, topic: str, partitions: int) -> list[bytes]:
    data = KafkaData(cluster.bootstrap_servers, cluster.security)
    keys = [TopicPartition(topic, n) for n in range(partitions)]
    expected = sum(len(r) for r in data.offsets(keys, 10).values())
    consumer = data.consumer(keys)
    values: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(values) < expected and time.monotonic() < deadline:
        values += [bytes(r.value) for r in consumer.poll(1.0)]
    consumer.close()
    return values
