"""The sandbox itself, on real brokers and through the command line."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from kafkakit.adapters.kafka.data import KafkaData
from kafkakit.core.model import TopicPartition
from kafkakit.core.records import Record
from kafkakit.sandbox import lifecycle as run
from kafkakit.sandbox.decide.spec import KRAFT_VERSION
from tests.integration.conftest import Home, SandboxCluster, StartCluster
from tests.rigs.waiting import until

pytestmark = pytest.mark.kafka


def kafkakit(home: Home, *words: str, **extra: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kafkakit", *words],
        env=home.env | extra,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


def read_json(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def sandbox_processes(home: Home) -> list[str]:
    """Command lines of the processes that any sandbox of this test session started and that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"kafkakit.sandbox.node={home.state_dir}/" in line:
            found.append(line)
    return found


def test_every_broker_is_registered_and_unfenced(cluster: SandboxCluster) -> None:
    wanted = [(1001, "a"), (1002, "b"), (1003, "c")]
    with closing(cluster.open_admin()) as admin:
        assert admin.cluster().cluster_id == cluster.cluster_id
        until(lambda: [(b.id, b.rack) for b in admin.cluster().brokers if b.is_alive] == wanted)


def test_up_again_leaves_the_brokers_as_they_are(cluster: SandboxCluster) -> None:
    again = kafkakit(
        cluster.home, "sandbox", "up", "--brokers", "3", "--log-dirs", "2", "--name", cluster.name, "-o", "json"
    )
    answer = read_json(again)
    pids = [record.process.pid for record in cluster.state.nodes if record.process]
    assert [node["pid"] for node in answer["nodes"]] == pids
    assert "runs already" in again.stderr


def test_the_profile_works_at_once(cluster: SandboxCluster) -> None:
    answer = read_json(kafkakit(cluster.home, "--profile", cluster.name, "profile", "check", "-o", "json"))
    assert cluster.cluster_id in json.dumps(answer)
    lines = kafkakit(cluster.home, "sandbox", "env", "--name", cluster.name).stdout.splitlines()
    assert lines == [f"export KAFKAKIT_PROFILE={cluster.name}", f"export BOOTSTRAP={cluster.bootstrap_servers}"]


def test_a_killed_broker_is_fenced_and_comes_back_to_its_place(cluster: SandboxCluster) -> None:
    cluster.kill(1002)
    try:
        seen = read_json(kafkakit(cluster.home, "sandbox", "status", "--name", cluster.name, "-o", "json"))
        assert [node["state"] for node in seen["nodes"] if node["node"] == 1002] == ["dead"]
        up = kafkakit(cluster.home, "sandbox", "up", "--log-dirs", "2", "--name", cluster.name)
        assert up.returncode == 1
        assert "broker 1002 is dead" in up.stderr
        back = read_json(kafkakit(cluster.home, "sandbox", "restart", "1002", "--name", cluster.name, "-o", "json"))
    finally:
        cluster.revive()
    seen = read_json(kafkakit(cluster.home, "sandbox", "status", "--name", cluster.name, "-o", "json"))
    assert [(n["pid"], n["state"]) for n in seen["nodes"] if n["node"] == 1002] == [(back["pid"], "alive")]


def test_a_live_broker_can_be_restarted(cluster: SandboxCluster) -> None:
    before = run.load_state(cluster.store).broker(1003)
    cluster.restart(1003)
    after = cluster.state.broker(1003)
    assert before is not None
    assert after is not None
    assert before.process != after.process
    assert before.node == after.node


def test_a_second_sandbox_starts_from_the_class_archive(cluster: SandboxCluster, sandbox_cluster: StartCluster) -> None:
    """The first one wrote it, if none did before."""
    del cluster
    second = sandbox_cluster(brokers=1, racks=1, log_dirs=(1,))
    try:
        record = second.state.broker(1001)
        assert record is not None
        assert record.process is not None
        assert "/class-archives/kafka-" in Path(f"/proc/{record.process.pid}/maps").read_text()
    finally:
        second.down()


def test_load_makes_the_topics_and_bytes_it_says(cluster: SandboxCluster) -> None:
    done = kafkakit(
        cluster.home,
        *("sandbox", "load", "--name", cluster.name, "--topics", "4", "--partitions", "3"),
        *("--data", "20MB", "--seed", "7", "--prefix", "sized", "--replication", "2", "-o", "json"),
    )
    said = read_json(done)
    names = [t["topic"] for t in said["topics"]]
    with closing(cluster.open_admin()) as admin:
        until(lambda: len(admin.partition_states(names)) == 12)  # the broker that is asked may hear of them last
        snapshot = admin.snapshot(now=cluster.machine.clock.now(), topics=names)
    sizes = {}
    for topic in snapshot.topics:
        assert len(topic.partitions) == 3
        for partition in topic.partitions:
            assert len(partition.replicas) == 2
            assert len(set(partition.replica_bytes.values())) == 1, "followers must hold what was acknowledged"
        sizes[topic.name] = sum(partition.known_bytes or 0 for partition in topic.partitions)
    for row in said["topics"]:
        assert row["bytes"] <= sizes[row["topic"]] <= row["bytes"] * 1.02 + 1000
    assert max(sizes.values()) > 2 * min(sizes.values())
    again = kafkakit(
        cluster.home, "sandbox", "load", "--name", cluster.name, "--topics", "4", "--data", "1MB", "--prefix", "sized"
    )
    assert again.returncode == 2
    assert "sized-000 exists already" in again.stderr


def test_records_come_out_as_they_went_in(cluster: SandboxCluster) -> None:
    places = [TopicPartition("in-and-out", partition) for partition in range(2)]
    with closing(cluster.open_admin()) as admin:
        assert admin.create_topic("in-and-out", {0: (1001, 1002), 1: (1003, 1001)}, {}) is None
    data = KafkaData(cluster.bootstrap_servers, cluster.security)
    assert data.reach(60) == (1001, 1002, 1003)
    acknowledged: list[Record] = []
    producer = data.producer(acknowledged.append)
    for number in range(100):
        producer.send(places[number % 2], f"value {number}".encode(), key=b"k")
    assert producer.flush(120) == 0
    assert (producer.acknowledged, producer.failed) == (100, 0)
    assert data.offsets([*places, TopicPartition("nope", 0)], 60) == {place: range(50) for place in places}

    consumer = data.consumer(places)
    found: list[Record] = []
    end = time.monotonic() + 120
    while len(found) < 100 and time.monotonic() < end:
        found.extend(consumer.poll(0.5))
    consumer.close()
    consumer.close()
    assert {(r.partition, r.offset, r.value, r.key) for r in found} == {
        (r.partition, r.offset, r.value, r.key) for r in acknowledged
    }
    assert len(found) == 100


@pytest.mark.network
def test_kafkas_own_tools_reach_the_cluster(cluster: SandboxCluster) -> None:
    words = ("sandbox", "exec", "--name", cluster.name, "--")
    assert kafkakit(cluster.home, *words, "kafka-topics", "--version").stdout.split()[0] == KRAFT_VERSION
    made = kafkakit(cluster.home, *words, "kafka-topics", "--create", "--topic", "by-their-tool")
    assert made.returncode == 0, made.stderr
    until(lambda: "by-their-tool" in kafkakit(cluster.home, *words, "kafka-topics", "--list").stdout.split())
    assert kafkakit(cluster.home, *words, "kafka-topics", "--describe", "--topic", "none").returncode == 1
    deleted = kafkakit(cluster.home, *words, "kafka-topics.sh", "--delete", "--topic", "by-their-tool")
    assert deleted.returncode == 0, deleted.stderr


@pytest.mark.parametrize("secure", ["tls", "scram", "scram-tls"])
def test_a_secured_sandbox_lets_the_administrator_in_and_the_guest_do_nothing(
    sandbox_cluster: StartCluster, secure: str
) -> None:
    cluster = sandbox_cluster(brokers=1, racks=1, log_dirs=(1,), secure=secure)
    try:
        assert KafkaData(cluster.bootstrap_servers, cluster.security).reach(60) == (1001,)
        load = kafkakit(cluster.home, "sandbox", "load", "--name", cluster.name, "--topics", "1", "--data", "1MB")
        assert load.returncode == 0, load.stderr
        mine = read_json(kafkakit(cluster.home, "--profile", cluster.name, "snapshot", "-o", "json"))
        assert [topic["name"] for topic in mine["topics"]] == ["load-000"]
        theirs = kafkakit(cluster.home, "--profile", f"{cluster.name}-guest", "snapshot", "-o", "json")
        assert theirs.returncode == 1, theirs.stderr
        assert "error" in json.loads(theirs.stdout)
        assert "load-000" not in theirs.stdout + theirs.stderr
        visit = json.loads(kafkakit(cluster.home, "--profile", f"{cluster.name}-guest", "doctor", "-o", "json").stdout)
        assert [c["check"] for c in visit["checks"] if c["status"] == "fail"] == ["rights"]
        shown = "".join(sandbox_processes(cluster.home))
        passwords = [path.read_text().strip() for path in (cluster.store.root / "secrets").glob("*.password")]
        assert len(passwords) == (0 if secure == "tls" else 2)
        assert shown
        assert not any(password in shown for password in passwords)
    finally:
        cluster.down()


@pytest.mark.zookeeper
def test_zookeeper_mode_registers_and_survives_a_kill(sandbox_cluster: StartCluster) -> None:
    cluster = sandbox_cluster(brokers=2, racks=2, log_dirs=(1,), mode="zookeeper")
    try:
        shown = kafkakit(cluster.home, "--profile", cluster.name, "profile", "show").stdout
        assert cluster.state.layout.keeper.address in shown
        cluster.kill(1001)
        cluster.restart(1001)
        with closing(cluster.open_admin()) as admin:
            assert admin.cluster().cluster_id == cluster.cluster_id
            until(lambda: [broker.id for broker in admin.cluster().brokers] == [1001, 1002])
    finally:
        cluster.down()
    assert not cluster.store.root.exists()


@pytest.fixture
def spare(home: Home, cluster: SandboxCluster) -> Iterator[str]:
    """A sandbox name that is free before and after; `cluster` has made sure that sandboxes work here."""
    yield "spare"
    kafkakit(home, "sandbox", "down", "--name", "spare")


def test_a_broker_that_cannot_run_ends_up_with_its_last_words(home: Home, spare: str, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(
        '#!/bin/sh\nif [ "$1" = -version ]; then echo \'openjdk version "21"\' >&2; exit 0; fi\n'
        "echo no memory for you; exit 1\n"
    )
    java.chmod(0o755)
    before = sandbox_processes(home)
    done = kafkakit(home, "sandbox", "up", "--name", spare, "--brokers", "1", JAVA_HOME=str(tmp_path))
    assert done.returncode == 1
    assert done.stdout == ""
    assert "no memory for you" in done.stderr
    assert "Traceback" not in done.stderr
    assert sandbox_processes(home) == before
    assert kafkakit(home, "sandbox", "status", "--name", spare).returncode == 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_up_stops_what_it_started(
    home: Home, spare: str, cluster: SandboxCluster, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    """Its second broker never comes up, so that it waits for as long as this test needs."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    never = 'case "$1" in */broker-1002) while :; do sleep 1; done ;; esac'
    java.write_text(f'#!/bin/sh\n{never}\nexec {cluster.state.java} "$@"\n')
    java.chmod(0o755)
    before = sandbox_processes(home)
    up = subprocess.Popen(
        [sys.executable, "-m", "kafkakit", "sandbox", "up", "--name", spare, "--brokers", "2", "--racks", "1"],
        env=home.env | {"JAVA_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until(lambda: len(sandbox_processes(home)) >= len(before) + 3 or up.poll() is not None)
        up.send_signal(number)
        out, err = up.communicate(timeout=180)
    finally:
        up.kill()
    assert up.returncode == code, err
    assert out == ""
    assert sandbox_processes(home) == before


def test_an_up_killed_half_way_is_cleared_by_down(home: Home, spare: str) -> None:
    before = sandbox_processes(home)
    up = subprocess.Popen(
        [sys.executable, "-m", "kafkakit", "sandbox", "up", "--name", spare, "--brokers", "1"],
        env=home.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    state = home.store(spare).state_file
    until(lambda: state.exists() and '"pid"' in state.read_text())
    up.kill()
    up.wait()
    assert kafkakit(home, "sandbox", "down", "--name", spare).returncode == 0
    assert sandbox_processes(home) == before
    assert not home.store(spare).root.exists()


def test_down_signals_no_stranger(home: Home, spare: str, cluster: SandboxCluster) -> None:
    """A record whose pid belongs to another process by now, as after a reboot."""
    stranger = subprocess.Popen(["/bin/sleep", "600"])
    try:
        store = home.store(spare)
        store.make_root()
        text = cluster.store.state_file.read_text()
        record = cluster.state.nodes[1].process
        assert record is not None
        store.state_file.write_text(text.replace(f'"pid":{record.pid}', f'"pid":{stranger.pid}').replace(":1", ":1"))
        # The other records now point at live brokers of another sandbox, with wrong start times.
        damaged = json.loads(store.state_file.read_text())
        damaged["spec"]["name"] = spare
        for node in damaged["nodes"]:
            node["process"]["started_ticks"] += 1
        store.state_file.write_text(json.dumps(damaged))
        done = read_json(kafkakit(home, "sandbox", "down", "--name", spare, "-o", "json"))
        assert done["processes_stopped"] == 0
        assert stranger.poll() is None
        assert not kafkakit(home, "sandbox", "status", "--name", cluster.name).returncode
        assert all(
            r.process is not None and cluster.machine.processes.is_alive(r.process)
            for r in run.load_state(cluster.store).nodes
        )
    finally:
        stranger.kill()
        stranger.wait()


def test_a_port_that_is_taken_while_a_broker_is_dead_is_reported(cluster: SandboxCluster) -> None:
    node = cluster.state.layout.brokers[0]
    cluster.kill(node.id)
    try:
        with socket.socket() as squatter:
            # The broker's old connections linger on the port; a new listener may take it all the same.
            squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            squatter.bind(("127.0.0.1", node.ports["CLIENT"]))
            squatter.listen()
            done = kafkakit(cluster.home, "sandbox", "restart", str(node.id), "--name", cluster.name)
        assert done.returncode == 1
        assert f"port taken ({node.ports['CLIENT']})" in done.stderr
        assert "Traceback (most recent call last)" not in done.stderr
    finally:
        cluster.revive()


def test_names_and_options_that_cannot_be_used_exit_2(home: Home) -> None:
    for words in (
        ("up", "--name", "../x"),
        ("up", "--brokers", "0"),
        ("up", "--mode", "zookeeper", "--kafka", "4.4.0"),
        ("up", "--kafka", "latest"),
        ("status", "--name", "nobody"),
        ("kill", "1001", "--name", "nobody"),
        ("load", "--name", "nobody"),
        ("env", "--name", "nobody"),
    ):
        done = kafkakit(home, "sandbox", *words)
        assert done.returncode == 2, (words, done.stderr)
        assert done.stdout == ""
        assert done.stderr.startswith("error: ")
    done = kafkakit(home, "sandbox", "down", "--name", "nobody", "-o", "json")
    assert read_json(done)["existed"] is False
    assert os.path.isdir(home.folder)
