"""`kafkakit config` on three real brokers: what passes, what is taken back, kills at each effect, and the runbook."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import Producer

from kafkakit.core.cluster_facts import CLUSTER_DEFAULT, ConfigLayer, ResourceKind
from kafkakit.core.model import TopicPartition
from tests.integration.conftest import LeaseClusters, SandboxCluster
from tests.integration.runbooks import blocks, run_blocks
from tests.integration.stream_clients import produce
from tests.rigs.cluster_pool import TRIO
from tests.rigs.waiting import becomes

pytestmark = pytest.mark.kafka
QUICK = ("--baseline", "1s", "--window", "1s", "--every", "500ms")
DAY = "86400000"
STARVED = "starved"


@pytest.fixture(scope="module")
def trio(lease: LeaseClusters) -> SandboxCluster:
    """Three brokers with three topics; the first broker leads all of `starved`."""
    (cluster,) = lease(TRIO)
    a, b, c = cluster.broker_ids
    with closing(cluster.open_admin()) as admin:
        for name in ("one", "two"):
            assert admin.create_topic(name, {0: (a, b, c), 1: (b, c, a)}, {}) is None
        assert admin.create_topic(STARVED, {0: (a, b, c), 1: (a, b, c), 2: (a, b, c)}, {}) is None
    return cluster


def words_of(cluster: SandboxCluster, *words: str) -> list[str]:
    return [sys.executable, "-m", "kafkakit", "--profile", cluster.name, "config", *words]


def kit(cluster: SandboxCluster, *words: str, code: int = 0) -> str:
    done = subprocess.run(
        words_of(cluster, *words), env=cluster.env, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def plan(cluster: SandboxCluster, folder: Path, *words: str) -> str:
    path = folder / "plan.json"
    kit(cluster, "plan", *words, "--force", "--plan", str(path))
    return str(path)


def settings(cluster: SandboxCluster) -> dict[str, dict[str, str]]:
    """What is set on topics and brokers while they run."""
    with closing(cluster.open_admin()) as admin:
        topics = admin.dynamic_configs(ResourceKind.TOPIC, ["one", "two", STARVED])
        brokers = admin.dynamic_configs(ResourceKind.BROKER, [*map(str, cluster.broker_ids), CLUSTER_DEFAULT])
    # With eligible leader replicas a new cluster has a default of its own.
    own = {
        name: {k: v for k, v in values.items() if name or k != "min.insync.replicas"}
        for name, values in brokers.items()
    }
    return {name: dict(values) for name, values in {**topics, **own}.items() if values}


def becomes_set(cluster: SandboxCluster, expected: dict[str, dict[str, str]]) -> None:
    """What another process set last shows on every broker after a moment."""
    becomes(f"other settings than {expected}", lambda: settings(cluster) == expected)


def journal_lines(cluster: SandboxCluster) -> int:
    """How many lines the open rollout's journal has; 0 while none is open."""
    folder = cluster.home.state_dir / "config-rollouts" / cluster.cluster_id
    for path in folder.glob("*.journal"):
        data = path.read_bytes()
        if b'"what":"end"' not in data:
            return data.count(b"\n")
    return 0


def test_a_good_change_passes_with_its_steps_and_a_trial(trio: SandboxCluster, tmp_path: Path) -> None:
    path = plan(trio, tmp_path, "message.max.bytes=2000000", "--cluster-default")
    said = kit(trio, "apply", path, "--yes", *QUICK)
    a = trio.broker_ids[0]
    assert f"step 1 of 2: for a trial broker {a}" in said
    assert "step 2 of 2: cluster default" in said
    assert f"  1. for a trial broker {a}\n  2. cluster default\n" in said
    becomes_set(trio, {CLUSTER_DEFAULT: {"message.max.bytes": "2000000"}})
    assert "nothing to do" in kit(trio, "apply", path, "--yes", *QUICK)
    kit(trio, "rollback", "--yes")
    becomes_set(trio, {})


def test_a_kill_at_each_effect_is_resumed_or_undone(trio: SandboxCluster, tmp_path: Path) -> None:
    path = plan(trio, tmp_path, f"retention.ms={DAY}", "--topic", "one,two")
    both = {"one": {"retention.ms": DAY}, "two": {"retention.ms": DAY}}
    # open, baseline, WRITE and its EFFECT, passed, WRITE and its EFFECT; the cluster in memory is killed at every line
    for number, lines in enumerate((3, 4, 6, 7)):
        killed = subprocess.run(
            [sys.executable, "-m", "tests.rigs.rollout_killed", str(lines), "--profile", trio.name, "config", "apply",
             path, "--yes", *QUICK],
            env=trio.env, capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert (killed.returncode, journal_lines(trio)) == (-signal.SIGKILL, lines), killed.stdout + killed.stderr
        if number % 2:
            kit(trio, "resume", "--yes")
            becomes_set(trio, both)
            kit(trio, "rollback", "--yes")
        else:
            kit(trio, "abort", "--yes")
        becomes_set(trio, {})
    runs = json.loads(kit(trio, "history", "-o", "json"))["runs"]
    assert {run["state"] for run in runs} == {"taken back"}


def test_a_min_isr_above_what_is_alive_is_taken_back(trio: SandboxCluster, tmp_path: Path) -> None:
    dead = trio.broker_ids[-1]

    def is_short() -> bool:
        return all(dead not in state.isr for state in admin.partition_states(["one"]).values())

    trio.kill(dead)
    try:
        with closing(trio.open_admin()) as admin:
            becomes("no partition in sync on the dead broker", is_short)
        path = plan(trio, tmp_path, "min.insync.replicas=3", "--topic", "one")
        said = kit(trio, "apply", path, "--yes", "--baseline", "2s", "--window", "2s", "--every", "500ms", code=1)
    finally:
        trio.revive()
    assert "partitions under min ISR: 2 (one-0, one-1), usual 0, limit 0" in said
    becomes_set(trio, {})


def test_a_min_isr_above_the_number_of_replicas_stops_no_writes(trio: SandboxCluster, tmp_path: Path) -> None:
    path = plan(trio, tmp_path, "min.insync.replicas=4", "--topic", "one")
    kit(trio, "apply", path, "--yes", *QUICK)
    produce(trio, TopicPartition("one", 0), [b"x"] * 5)
    kit(trio, "rollback", "--yes")
    becomes_set(trio, {})


def test_a_broker_that_refuses_has_everything_taken_back(trio: SandboxCluster, tmp_path: Path) -> None:
    path = plan(trio, tmp_path, "log.cleaner.threads=4", "--all-brokers", "--steps", "each")
    assert "at least 1MB per cleaner thread" in kit(trio, "apply", path, "--yes", *QUICK, code=1)
    becomes_set(trio, {})


RESTART = """#!/bin/sh
set -eu
broker=$1; shift
file={root}/broker-$broker/node.properties
for pair in "$@"; do
    grep -v "^${{pair%%=*}}=" "$file" > "$file.new" || :
    case $pair in *=*) echo "$pair" >> "$file.new" ;; esac
    mv "$file.new" "$file"
done
{env} exec {python} -m kafkakit sandbox restart --name {name} "$broker"
"""


@pytest.fixture(scope="module")
def restart_with(trio: SandboxCluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    names = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "KAFKAKIT_LOCK_DIR", "PYTHONPATH")
    env = " ".join(f"{name}='{value}'" for name in names if (value := trio.env.get(name)))
    path = tmp_path_factory.mktemp("restart") / "restart.sh"
    path.write_text(RESTART.format(root=trio.store.root, env=env, python=sys.executable, name=trio.name))
    path.chmod(0o755)
    return str(path)


def static(cluster: SandboxCluster, key: str) -> dict[int, str | None]:
    with closing(cluster.open_admin()) as admin:
        found = admin.broker_configs(cluster.broker_ids)
    return {b: v[key].value for b, v in found.items() if key in v and v[key].layer is ConfigLayer.STATIC}


@contextmanager
def writing(cluster: SandboxCluster, begin: Event) -> Iterator[None]:
    """Some 20 batches a second to each partition of `starved`, from when `begin` is set.

    With acks=all the writer would wait for the slow copy, which then stays in sync.
    """
    end = Event()

    def write() -> None:
        # A batch a record, however slowly brokers answer: the slow copy takes few batches, and not few bytes.
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "batch.num.messages": 1, "acks": 1})
        begin.wait()
        while not end.is_set():
            for number in range(3):
                with suppress(BufferError):
                    producer.produce(STARVED, b"x" * 2000, partition=number)
            producer.poll(0)
            time.sleep(0.04)
        producer.flush(20)

    thread = Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        end.set()
        begin.set()
        thread.join(60)


def test_restarts_pass_and_a_fetch_size_that_starves_a_topic_is_taken_back(
    trio: SandboxCluster, restart_with: str, tmp_path: Path
) -> None:
    a, _, c = trio.broker_ids
    path = plan(trio, tmp_path, "replica.lag.time.max.ms=2000", "--broker", str(a))
    assert "must restart for replica.lag.time.max.ms" in kit(trio, "apply", path, "--yes", code=2)
    said = kit(trio, "apply", path, "--yes", *QUICK, "--restart-with", restart_with)
    assert f"step 1 of 1: restart of broker {a}" in said
    assert static(trio, "replica.lag.time.max.ms") == {a: "2000"}
    with closing(trio.open_admin()) as admin:  # its leaderships went to others when it was stopped
        admin.elect_preferred_leaders([TopicPartition(STARVED, n) for n in range(3)])
        becomes(
            "the first broker does not lead",
            lambda: {state.leader for state in admin.partition_states([STARVED]).values()} == {a},
        )
    # Its fetches wait for bytes that never fit: one small batch each half second.
    values = ("replica.fetch.max.bytes=1", "replica.fetch.min.bytes=1000000000")
    path = plan(trio, tmp_path, *values, "--broker", str(c))
    watch = ("--baseline", "15s", "--window", "15s", "--every", "1s", "--settle", "240s")
    begin = Event()
    with (
        writing(trio, begin),
        subprocess.Popen(
            words_of(trio, "apply", path, "--yes", *watch, "--restart-with", restart_with),
            env=trio.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith("watching"):
                begin.set()
    said = "".join(lines)
    assert process.returncode == 1, said
    # Seen in its window, not while the broker came back.
    assert f"taken back: after restart of broker {c}: " in said
    assert static(trio, "replica.fetch.max.bytes") == {}


def test_the_runbook(trio: SandboxCluster, cluster: SandboxCluster, tmp_path: Path) -> None:
    with closing(cluster.open_admin()) as admin:
        a, b, c = cluster.broker_ids
        assert admin.create_topic("one", {0: (a, b, c), 1: (b, c, a)}, {}) is None
        env = {
            **trio.env,
            "KAFKAKIT_PROFILE": trio.name,
            "MIRROR": cluster.name,
            "TOPIC": "one",
            "WATCH": " ".join(QUICK),
        }
        steps = blocks("change-a-configuration.md", undo=False)
        assert len(steps) == 7
        try:
            done = run_blocks(steps, tmp_path, env)
            assert done.returncode == 0, done.stdout + done.stderr
            assert "rehearsing on profile" in done.stderr
            assert "nothing to change" in done.stdout
            assert done.stdout.count("applied") >= 1
            becomes_set(trio, {})
            becomes("still set", lambda: admin.dynamic_configs(ResourceKind.TOPIC, ["one"]) == {"one": {}})
        finally:
            assert admin.delete_topic("one") is None
