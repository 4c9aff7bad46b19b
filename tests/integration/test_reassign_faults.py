"""Faults of real clusters while a plan is carried out, under a writer and a reader: nothing acknowledged is lost."""

import json
import random
import resource
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.core.model import Reassignment, TopicPartition
from kafkakit.core.plan import Plan, identity_of
from kafkakit.execution.act.run_journal import journal_path
from kafkakit.execution.decide.throttle import FOLLOWER_LIST, FOLLOWER_RATE, LEADER_LIST, LEADER_RATE
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.sandbox import lifecycle as sandbox
from tests.clusters.plans import make_plan
from tests.integration.conftest import LeaseClusters, SandboxCluster
from tests.integration.test_reassign import (
    HELD,
    LARGE,
    MB,
    PATIENCE_S,
    A,
    B,
    C,
    D,
    alive,
    hasten,
    journal,
    kit,
    kit_running,
    make_topic,
    replicas,
    save,
    set_config,
    settled,
    throttles,
    tidy,
)
from tests.integration.writers import traffic
from tests.invariants.journal import verify_journal
from tests.rigs.cluster_pool import FOUR
from tests.rigs.waiting import becomes, stop_process, until

pytestmark = pytest.mark.kafka

QUICK = ("--yes", "--ingest-sample", "0")
SEED = 20260911
KILLS = 10
WAYS = ("resume", "abort", "resume", "rollback", "resume")


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


class End(NamedTuple):
    """What a run leaves on the cluster, as far as an operator sees it."""

    replicas: Mapping[int, tuple[int, ...]]
    leaders: Mapping[int, int | None]
    throttles: Mapping[str, Mapping[str, str]]
    running: tuple[Reassignment, ...]


def end_of(admin: ClusterAdmin, topic: str) -> End:
    states = settled(admin).states([topic])
    return End(
        replicas={k.partition: s.replicas for k, s in states.items()},
        leaders={k.partition: s.leader for k, s in states.items()},
        throttles=throttles(admin, topic),
        running=admin.reassignments(),
    )


def lines_written(cluster: SandboxCluster, plan: Plan) -> int:
    path = journal_path(cluster.home.state_dir, plan.cluster_id, identity_of(plan))
    return path.read_bytes().count(b"\n") if path.exists() else 0


def kill_at(cluster: SandboxCluster, plan: Plan, path: str, point: int, *options: str) -> bool:
    """SIGKILL the executor once it has written so many lines of its journal; False when it ended before."""
    line = lines_written(cluster, plan) + point
    with kit_running(cluster, "apply", path, *QUICK, *options) as process:
        while process.poll() is None:
            if lines_written(cluster, plan) >= line:
                process.kill()
                process.communicate()
                return process.returncode == -signal.SIGKILL  # it may have ended between the two
            time.sleep(0.002)
        assert process.returncode == 0
        return False


def test_kill_9_at_ten_random_points_ends_as_an_undisturbed_run(
    brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path
) -> None:
    """Killed anywhere, then resumed, aborted and applied again, or rolled back: the end is that of a whole run."""
    here = dict.fromkeys(range(6), (A, B))
    there = {n: (C, B) if n % 2 else (D, C) for n in range(6)}
    options = ("--throttle", "5MB", "--max-in", "2", "--max-out", "2")
    make_topic(brokers, admin, "cut", here, 1 * MB)
    chance = random.Random(SEED)
    with traffic(brokers, "cut", 6) as flow:
        began = End(here, {n: r[0] for n, r in here.items()}, {}, ())
        becomes(lambda: end_of(admin, "cut"), began)
        plan = make_plan(admin, {("cut", n): r for n, r in there.items()})
        whole = kit(brokers, "apply", save(plan, tmp_path), *QUICK, *options)
        assert whole.returncode == 0, whole.stderr
        ended = End(there, {n: r[0] for n, r in there.items()}, {}, ())
        becomes(lambda: end_of(admin, "cut"), ended)
        lines = len(verify_journal(journal(brokers, plan)))
        kills = 0
        while kills < KILLS:
            way = WAYS[kills % len(WAYS)]
            point = chance.randrange(2, lines * 4 // 5)
            now = replicas(admin, "cut")
            wanted, back = (here, there) if now == there else (there, here)
            plan = make_plan(admin, {("cut", n): r for n, r in wanted.items()})
            path = save(plan, tmp_path)
            if not kill_at(brokers, plan, path, point, *options):
                continue  # steps that end together share lines: it was whole before it came that far
            kills += 1
            verify_journal(journal(brokers, plan), torn_ok=True, settled=False)
            again = kit(brokers, way, path, *(("--yes",) if way == "abort" else QUICK))
            told = f"killed after {point} lines, then {way}: {again.stdout} {again.stderr}"
            assert again.returncode == 0, told
            if way == "abort":
                becomes(lambda: throttles(admin, "cut"), {}, told)
                assert not admin.reassignments(), told
                last = kit(brokers, "apply", path, *QUICK)
                assert last.returncode == 0, f"{told}, then apply: {last.stderr}"
            aim = back if way == "rollback" else wanted
            becomes(lambda: end_of(admin, "cut"), began if aim == here else ended, told)
            verify_journal(journal(brokers, plan))
        listed = kit(brokers, "list")
        assert (listed.returncode, listed.stdout) == (0, "")
    assert flow.check() > 1000


def spread(topic: str) -> dict[tuple[str, int], tuple[int, ...]]:
    """Where the partitions of a `guarded` topic go: to D, each keeping two of its copies."""
    return {(topic, 0): (D, B, C), (topic, 1): (D, C, A), (topic, 2): (D, A, B)}


def make_guarded(cluster: SandboxCluster, admin: ClusterAdmin, topic: str, size: int) -> None:
    """Three copies each, of which two must be in sync for a write: no single death may lose a record."""
    make_topic(cluster, admin, topic, {0: (A, B, C), 1: (B, C, A), 2: (C, A, B)}, size)
    set_config(admin, ResourceKind.TOPIC, topic, "min.insync.replicas", "2")


def finished(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, err = process.communicate(timeout=PATIENCE_S * 2)
    return process.returncode, f"{out}\n{err}"


def in_place(admin: ClusterAdmin, plan: Plan) -> bool:
    states = settled(admin).states({m.topic for m in plan.moves})
    return all(states[m.key].replicas == m.after for m in plan.moves) and not admin.reassignments()


def go_on_if_it_ended(cluster: SandboxCluster, admin: ClusterAdmin, path: str, code: int, told: str) -> None:
    """A broker that is away for longer than a run waits ends it with 1, and by name; once it is back, it continues."""
    if code == 0:
        return
    assert code == 1, told
    assert "is not alive" in told or "out of sync" in told, told
    until(lambda: len(alive(admin)) == 4)
    resumed = kit(cluster, "resume", path, *QUICK, "--throttle", "80MB")
    assert resumed.returncode == 0, resumed.stderr


def test_destination_killed_mid_move_and_returned(brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path) -> None:
    make_guarded(brokers, admin, "returned", LARGE)
    path = save(plan := make_plan(admin, spread("returned")), tmp_path)
    with traffic(brokers, "returned", 3) as flow:
        with kit_running(brokers, "apply", path, *QUICK, "--throttle", HELD) as process:
            until(lambda: any(m.adding for m in admin.reassignments()))
            brokers.kill(D)
            until(lambda: D not in alive(admin))
            brokers.restart(D)
            hasten(brokers, path, process)
            code, told = finished(process)
        go_on_if_it_ended(brokers, admin, path, code, told)
        until(lambda: in_place(admin, plan))
        becomes(lambda: end_of(admin, "returned")[2:], ({}, ()))
    verify_journal(journal(brokers, plan))
    assert flow.check() > 100


def test_source_killed_mid_move(brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path) -> None:
    """Its partitions get another leader and are copied from there; only its own throttle waits for its return."""
    make_guarded(brokers, admin, "source", LARGE)
    path = save(plan := make_plan(admin, spread("source")), tmp_path)
    with traffic(brokers, "source", 3) as flow:
        with kit_running(brokers, "apply", path, *QUICK, "--throttle", HELD) as process:
            until(lambda: any(m.adding for m in admin.reassignments()))
            brokers.kill(A)
            until(lambda: A not in alive(admin))
            hasten(brokers, path, process)
            code, told = finished(process)
        assert code == 1, told
        assert "1001" in told
        assert not [m for m in admin.reassignments() if m.topic == "source" and m.partition == 0]
        brokers.restart(A)
        until(lambda: A in alive(admin))
        again = kit(brokers, "resume", path, *QUICK)
        assert again.returncode == 0, again.stderr
        until(lambda: in_place(admin, plan))
        becomes(lambda: end_of(admin, "source")[2:], ({}, ()))
        assert kit(brokers, "verify", path).returncode == 0
    verify_journal(journal(brokers, plan))
    assert flow.check() > 100


def test_controller_killed_and_returned(brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path) -> None:
    make_guarded(brokers, admin, "headless", LARGE)
    path = save(plan := make_plan(admin, spread("headless")), tmp_path)
    with traffic(brokers, "headless", 3) as flow:
        with kit_running(brokers, "apply", path, *QUICK, "--throttle", HELD, "--max-in", "1") as process:
            until(admin.reassignments)
            keeper = sandbox.load_state(brokers.store).nodes[0]
            assert keeper.process is not None
            brokers.machine.processes.kill([keeper.process])
            time.sleep(3)  # without a controller
            sandbox.start_node(brokers.machine, brokers.store, sandbox.load_state(brokers.store), keeper.node)
            hasten(brokers, path, process)
            code, told = finished(process)
        go_on_if_it_ended(brokers, admin, path, code, told)
        until(lambda: in_place(admin, plan))
        becomes(lambda: end_of(admin, "headless")[2:], ({}, ()))
    verify_journal(journal(brokers, plan))
    assert flow.check() > 100


def test_a_log_dir_takes_no_more(brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path) -> None:
    """Writes into the dir fail, as on a full disk: it is named, no more is sent; once repaired, the run continues.

    A limit of the broker's file sizes does it without a small disk, which only root could make.
    """
    make_guarded(brokers, admin, "full", 16 * MB)
    record = sandbox.load_state(brokers.store).broker(D)
    assert record is not None
    assert record.process is not None
    other = record.node.log_dirs[1]  # the first one holds the metadata log, without which the broker would halt
    plan = make_plan(admin, spread("full"))
    plan = replace(plan, moves=tuple(replace(m, dirs={D: other}) for m in plan.moves))
    path = save(plan, tmp_path)
    hard = resource.prlimit(record.process.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(record.process.pid, resource.RLIMIT_FSIZE, (12 * MB, hard))
    with traffic(brokers, "full", 3) as flow:
        try:
            with kit_running(brokers, "apply", path, *QUICK, "--max-in", "1") as process:
                code, told = finished(process)
            assert code == 1, told
            assert "a log dir went offline on a destination" in told
            assert other in told
            becomes(lambda: throttles(admin, "full"), {})
            assert len(admin.reassignments()) == 1
            becomes(lambda: sum(b == D for r in replicas(admin, "full").values() for b in r), 1)
        finally:
            brokers.restart(D)
        until(lambda: D in alive(admin))
        resumed = kit(brokers, "resume", path, *QUICK)
        assert resumed.returncode == 0, resumed.stderr
        until(lambda: in_place(admin, plan))
        becomes(lambda: end_of(admin, "full")[2:], ({}, ()))
    assert {admin.log_dirs([D])[D].replicas[m.key].log_dir for m in plan.moves} == {other}
    verify_journal(journal(brokers, plan))
    assert flow.check() > 100


def test_topic_deleted_mid_way(brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path) -> None:
    make_guarded(brokers, admin, "kept", 3 * MB)
    make_topic(brokers, admin, "goner", {0: (A, B), 1: (B, A)}, LARGE)
    plan = make_plan(admin, {**spread("kept"), ("goner", 0): (D, B), ("goner", 1): (C, A)})
    path = save(plan, tmp_path)
    with traffic(brokers, "kept", 3) as flow:
        with kit_running(brokers, "apply", path, *QUICK, "--throttle", HELD, "--max-in", "2") as process:
            until(lambda: any(m.topic == "goner" for m in admin.reassignments()))
            assert admin.delete_topic("goner") is None
            hasten(brokers, path, process)
            code, told = finished(process)
        assert code == 0, told
        assert "deleted during the run: goner-" in told
        becomes(lambda: replicas(admin, "kept"), {n: r for (_, n), r in spread("kept").items()})
        becomes(lambda: end_of(admin, "kept")[2:], ({}, ()))
    verify_journal(journal(brokers, plan))
    assert flow.check() > 100


def test_a_partition_that_another_tool_moves_is_never_overwritten(
    brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path
) -> None:
    """Before the run: refused, or waited for. During it: on a waiting partition, and on one in flight."""
    make_guarded(brokers, admin, "theirs", 2 * LARGE)
    path = save(plan := make_plan(admin, spread("theirs")), tmp_path)
    first, second = TopicPartition("theirs", 1), TopicPartition("theirs", 2)
    with traffic(brokers, "theirs", 3) as flow:
        with ExitStack() as slow:
            slow.enter_context(slow_follower(admin, second, D))
            assert admin.reassign({second: (C, D, B)}) == {second: None}
            refused = kit(brokers, "apply", path, *QUICK)
            assert refused.returncode == 2
            assert "other moves run on planned partitions: theirs-2 to [1003,1004,1002]" in refused.stderr
            said = tmp_path / "said"
            with (
                said.open("w") as stderr,
                kit_running(brokers, "apply", path, *QUICK, "--wait-for-others", stderr=stderr) as process,
            ):
                until(lambda: "waiting for the end of it: theirs-2" in said.read_text())
                assert process.poll() is None
                assert [m.target for m in admin.reassignments()] == [(C, D, B)]
                # A look between the two would meet a list that neither the plan nor another process is bringing about.
                stop_process(process.pid)
                assert admin.cancel([second]) == {second: None}
                assert admin.reassign({second: (C, A, B)}) == {second: None}
                until(lambda: replicas(admin, "theirs")[2] == (C, A, B) and not admin.reassignments())
                process.send_signal(signal.SIGCONT)
                slow.close()
                code, told = finished(process)
            assert code == 0, told + said.read_text()
            assert "another process moves planned partitions, waiting for the end of it: theirs-2" in said.read_text()
            assert "taken for this run's" not in said.read_text(), "nor is its throttle ours"
        until(lambda: in_place(admin, plan))
        back = kit(brokers, "rollback", path, *QUICK)
        assert back.returncode == 0, back.stderr
        # Slow enough that the first move still runs when the others are asked for.
        with kit_running(brokers, "apply", path, *QUICK, "--throttle", HELD, "--max-in", "1") as process:
            mine = until(admin.reassignments)[0]
            flying = TopicPartition(mine.topic, mine.partition)
            waiting = next(k for k in (second, first) if k != flying)
            # A list without D would never end: Kafka then has D both to come and to go, and waits for it for ever.
            ours = spread("theirs")[flying]
            kept = {TopicPartition("theirs", 1): (D, A, B), TopicPartition("theirs", 2): (D, B, C)}
            theirs = {waiting: kept[waiting], flying: (*ours[1:], ours[0])}
            assert admin.reassign(theirs) == dict.fromkeys(theirs)
            hasten(brokers, path, process)
            code, told = finished(process)
        assert code == 1, told
        assert str(flying) in told
        assert str(waiting) in told
        becomes(lambda: {k: replicas(admin, "theirs")[k.partition] for k in theirs}, theirs)
        becomes(lambda: end_of(admin, "theirs")[2:], ({}, ()))
    verify_journal(journal(brokers, plan))
    assert flow.check() > 100


def test_a_foreign_move_to_a_dead_broker_is_ended_with_its_throttles(
    brokers: SandboxCluster, admin: ClusterAdmin, tmp_path: Path
) -> None:
    make_topic(brokers, admin, "foreign", {0: (A, B)}, LARGE)
    set_config(admin, ResourceKind.TOPIC, "foreign", LEADER_LIST, f"0:{A},0:{B}")
    set_config(admin, ResourceKind.TOPIC, "foreign", FOLLOWER_LIST, f"0:{D}")
    for broker, rate in ((A, LEADER_RATE), (B, LEADER_RATE), (D, FOLLOWER_RATE)):
        set_config(admin, ResourceKind.BROKER, str(broker), rate, "20000")
    key = TopicPartition("foreign", 0)
    assert admin.reassign({key: (A, D)}) == {key: None}
    path = tmp_path / "map.json"
    entry = {"topic": "foreign", "partition": 0, "replicas": [A, D]}
    path.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    brokers.kill(D)
    until(lambda: D not in alive(admin))
    command = "reassign abort --partition foreign-0"
    refused = kit(brokers, "apply", str(path), *QUICK)
    assert (refused.returncode, command in refused.stderr) == (2, True), refused.stderr
    assert command in kit(brokers, "status", "--window", "0").stdout
    kept = kit(brokers, "cleanup", str(path), "--yes")
    assert (kept.returncode, len(throttles(admin, "foreign"))) == (1, 3), kept.stdout
    ended = kit(brokers, "abort", str(path), "--yes")
    assert ended.returncode == 0, ended.stderr
    becomes(lambda: (set(replicas(admin, "foreign")[0]), admin.reassignments()), ({A, B}, ()))
    assert f"reassign cleanup {path}" in ended.stdout
    cleaned = kit(brokers, "cleanup", str(path), "--yes")
    assert cleaned.returncode == 0, cleaned.stderr
    assert f"not read: rates of broker {D}" in cleaned.stdout
    becomes(lambda: throttles(admin, "foreign"), {})
    brokers.revive()
    until(lambda: D in alive(admin))
    becomes(lambda: throttles(admin, "foreign"), {str(D): {FOLLOWER_RATE: "20000"}})
    set_config(admin, ResourceKind.TOPIC, "foreign", LEADER_LIST, "*")
    every = kit(brokers, "cleanup", "--all", "--yes")
    assert every.returncode == 0, every.stderr
    becomes(lambda: throttles(admin, "foreign"), {})
    folder = brokers.home.state_dir / "foreign"
    (noted,) = folder.rglob("*.journal")
    lines = verify_journal(noted.read_bytes(), foreign=True)
    assert [line["data"]["moves"] for line in lines if line["what"] == "foreign"] == [
        [["foreign", 0, [A, D], [D], [B]]]
    ]


@contextmanager
def slow_follower(admin: ClusterAdmin, key: TopicPartition, broker: int) -> Iterator[None]:
    """Hold the copy that comes to a broker almost still, as another tool's throttle may: 1 MB comes each 3 s."""
    set_config(admin, ResourceKind.BROKER, str(broker), FOLLOWER_RATE, "1000")
    set_config(admin, ResourceKind.TOPIC, key.topic, FOLLOWER_LIST, f"{key.partition}:{broker}")
    try:
        yield
    finally:
        set_config(admin, ResourceKind.TOPIC, key.topic, FOLLOWER_LIST, None)
        set_config(admin, ResourceKind.BROKER, str(broker), FOLLOWER_RATE, None)
