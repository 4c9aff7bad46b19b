"""`kafkakit config` on three real brokers: what passes, what is taken back, kills at each effect, and the runbook."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as TopicOffset

from kafkakit.core.cluster_facts import CLUSTER_DEFAULT, ConfigChange, ConfigLayer, ConfigOp, ResourceKind
from kafkakit.core.model import TopicPartition
from tests.integration.conftest import LeaseClusters, SandboxCluster
from tests.integration.runbooks import blocks, run_blocks
from tests.rigs.cluster_pool import TRIO
from tests.rigs.waiting import until

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
    until(lambda: settings(cluster) == expected, f"other settings than {expected}")


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


def test_a_min_isr_above_the_replicas_passes_and_one_above_what_is_alive_is_taken_back(
    trio: SandboxCluster, tmp_path: Path
) -> None:
    watch = ("--baseline", "2s", "--window", "2s", "--every", "500ms")
    path = plan(trio, tmp_path, "min.insync.replicas=4", "--topic", "one")
    kit(trio, "apply", path, "--yes", *watch)  # Kafka 3.7 and later count the replicas that there are
    kit(trio, "rollback", "--yes")
    becomes_set(trio, {})
    trio.kill(trio.broker_ids[2])
    try:
        with closing(trio.open_admin()) as admin:
            until(
                lambda: all(len(s.isr) == 2 for s in admin.partition_states(["one", "two", STARVED]).values()),
                "the killed broker is in sync",
            )
        refused = kit(trio, "plan", "min.insync.replicas=3", "--topic", "one", code=4)
        assert "writes with acks=all fail" in refused
        path = plan(trio, tmp_path, "min.insync.replicas=3", "--topic", "one")
        said = kit(trio, "apply", path, "--yes", *watch, code=1)
        assert "partitions under min ISR: 2 (one-0, one-1), usual 0, limit 0" in said
    finally:
        trio.revive()
    becomes_set(trio, {})


@pytest.mark.parametrize(
    ("words", "planned", "said"),
    [
        (("log.cleaner.threads=4", "--all-brokers"), "log.cleaner.threads 4 is more than", "1MB per cleaner thread"),
        (("num.io.threads=9000000", "--all-brokers"), "goes to 1 to 4 (plan after plan: 2 -> 4", "greater than double"),
        (("num.io.threads=9", "--cluster-default"), "(plan after plan: 2 -> 4 -> 8 -> 9)", "greater than double"),
        (("retention.ms=1d", "--topic", "one"), "not a whole number", "Not a number of type LONG"),
        (("cleanup.policy=foo", "--topic", "one"), "not one of the accepted values", "cleanup.policy"),
    ],
)
def test_what_brokers_refuse_is_refused_by_plan_dry_run_and_apply(
    trio: SandboxCluster, tmp_path: Path, words: tuple[str, ...], planned: str, said: str
) -> None:
    """An apply asks before it measures the baseline: it leaves no journal."""
    before = kit(trio, "history")
    assert planned in kit(trio, "plan", *words, code=4)
    path = plan(trio, tmp_path, *words)
    assert said in kit(trio, "apply", path, "--dry-run", code=1)
    assert said in kit(trio, "apply", path, "--yes", "--baseline", "1h", code=1)
    assert kit(trio, "history") == before
    becomes_set(trio, {})


def test_what_a_broker_never_changes_is_wrong_usage(trio: SandboxCluster) -> None:
    for word in ("node.id=7", "broker.id=7", "process.roles=controller", "log.dirs=/tmp/x"):
        assert "is never changed" in kit(trio, "plan", word, "--all-brokers", "--force", code=2)


def test_values_that_brokers_write_otherwise_are_in_force(trio: SandboxCluster, tmp_path: Path) -> None:
    words = ("log.retention.ms=0086400000", "log.cleaner.min.cleanable.ratio=0.50", "log.preallocate=TRUE")
    path = plan(trio, tmp_path, *words, "--all-brokers", "--steps", "all")
    kit(trio, "apply", path, "--yes", *QUICK)
    assert "nothing to change" in kit(trio, "plan", *words, "--all-brokers")
    kit(trio, "rollback", "--yes")
    becomes_set(trio, {})


def test_the_default_in_force_is_not_a_brokers_own_value(trio: SandboxCluster) -> None:
    own = ConfigChange(
        kind=ResourceKind.BROKER, name=str(trio.broker_ids[1]), key="log.retention.ms", op=ConfigOp.SET, value="7200000"
    )
    with closing(trio.open_admin()) as admin:
        assert admin.alter_configs([own]) == {own: None}
        try:
            becomes_set(trio, {own.name: {own.key: "7200000"}})
            said = kit(trio, "plan", "log.retention.ms=86400000", "--cluster-default", "--force", "-o", "json")
            (change,) = json.loads(said[: said.rindex("}") + 1])["changes"]
            assert change["in_force"] == "604800000"
        finally:
            undo = replace(own, op=ConfigOp.DELETE, value=None)
            assert admin.alter_configs([undo]) == {undo: None}
    becomes_set(trio, {})


def fails_when(trio: SandboxCluster, begins: str, act: Callable[[], None], *words: str) -> str:
    """What a command says that ends with 1; `act` is called at each line that begins so."""
    with subprocess.Popen(
        words_of(trio, *words), env=trio.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if line.startswith(begins):
                act()
    said = "".join(lines)
    assert process.returncode == 1, said
    return said


def test_a_value_that_another_process_changes_meanwhile_is_not_applied(trio: SandboxCluster, tmp_path: Path) -> None:
    """The value of a step that passed, while the next one is watched."""
    a = str(trio.broker_ids[0])
    key = "message.max.bytes"
    path = plan(trio, tmp_path, f"{key}=2200000", "--all-brokers", "--steps", "each")
    # The change is seen at the end of the second step, or of the third.
    watch = ("--baseline", "10s", "--window", "10s", "--every", "1s")
    other = ConfigChange(kind=ResourceKind.BROKER, name=a, key=key, op=ConfigOp.SET, value="1500000")
    with closing(trio.open_admin()) as admin:

        def change() -> None:
            assert admin.alter_configs([other]) == {other: None}

        said = fails_when(trio, "step 2", change, "apply", path, "--yes", *watch)
    assert f"broker {a} {key} is 1500000, and was set to 2200000: another process changed it" in said
    assert f"broker {a} {key} is 1500000 by now, which is not of this rollout" in said
    assert ": incomplete" in said
    becomes_set(trio, {a: {key: "1500000"}})
    assert "is 1500000 by now" in kit(trio, "rollback", "--yes", code=1)
    becomes_set(trio, {a: {key: "1500000"}})
    with closing(trio.open_admin()) as admin:
        undo = replace(other, op=ConfigOp.DELETE, value=None)
        assert admin.alter_configs([undo]) == {undo: None}
    becomes_set(trio, {})


def write(cluster: SandboxCluster, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for _ in range(count):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(60) == 0


def test_a_rollout_by_shares_is_taken_back_when_the_lag_of_a_group_grows(trio: SandboxCluster, tmp_path: Path) -> None:
    write(trio, "two", 10)
    consumer = Consumer({"bootstrap.servers": trio.bootstrap_servers, "group.id": "late"})
    consumer.commit(offsets=[TopicOffset("two", 0, 4)], asynchronous=False)
    consumer.close()
    values = f"retention.ms={DAY}", "--topics", "where partitions >= 2", "--steps", "1,50%,rest"
    watch = ("--baseline", "10s", "--window", "10s", "--every", "1s", "--group", "late")
    path = plan(trio, tmp_path, *values)
    # Seen in the first window, or in the next one.
    said = fails_when(trio, "step 1 of 3: topic one", lambda: write(trio, "two", 5000), "apply", path, "--yes", *watch)
    assert re.search("consumer lag in records: [0-9]+, usual 6, limit 1006", said)
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
        until(
            lambda: {state.leader for state in admin.partition_states([STARVED]).values()} == {a},
            "the first broker does not lead",
        )
    # Its fetches wait for bytes that never fit: one small batch each half second.
    values = ("replica.fetch.max.bytes=1", "replica.fetch.min.bytes=1000000000")
    path = plan(trio, tmp_path, *values, "--broker", str(c))
    watch = ("--baseline", "15s", "--window", "15s", "--every", "1s", "--settle", "240s")
    begin = Event()
    words = ("apply", path, "--yes", *watch, "--restart-with", restart_with)
    with writing(trio, begin):
        said = fails_when(trio, "watching", begin.set, *words)
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
            until(lambda: admin.dynamic_configs(ResourceKind.TOPIC, ["one"]) == {"one": {}}, "still set")
        finally:
            assert admin.delete_topic("one") is None
