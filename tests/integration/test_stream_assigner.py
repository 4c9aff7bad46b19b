"""Three workers and two Assigners as processes on two clusters: SIGKILL of a worker and of the one in charge."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkakit.adapters.kafka.group_consumer import KafkaAssignedConsumer
from kafkakit.core.model import TopicPartition
from kafkakit.ports.streams import AssignedConsumer
from kafkakit.streams.assigner.act.leader import AssignerReader
from kafkakit.streams.client.decide.partition_work import restore_commit
from kafkakit.streams.model.commit import CommitIdentity, topic_id_bytes
from kafkakit.streams.model.route import Segment
from tests.contracts.assigned_consumer import AssignedConsumerContract
from tests.integration.stream_clients import produce
from tests.integration.test_group_consumer import KafkaRig
from tests.integration.test_streams_producer import Pair, files, pair, routes
from tests.places import ROOT
from tests.rigs.stream_routes import Routes
from tests.rigs.waiting import until

pytestmark = pytest.mark.kafka
__all__ = ["pair", "routes"]
LIMIT_S = 240.0
PARTITIONS = 6


class AssignedRig(KafkaRig):
    def open_assigned(self, group: str) -> AssignedConsumer:
        return KafkaAssignedConsumer(self.cluster.bootstrap_servers, self.cluster.security, group)


class TestKafka(AssignedConsumerContract):
    @pytest.fixture
    def rig(self, pair: Pair) -> AssignedRig:
        return AssignedRig(pair.clusters["a"])


class Fleet:
    """Processes, what they printed, and what workers handled."""

    def __init__(self, pair: Pair, routes: Routes, folder: Path) -> None:
        self.pair, self.routes, self.folder = pair, routes, folder
        self.store = files(pair)
        self.env = {**pair.clusters["a"].env, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.profile = pair.clusters["a"].name
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.written = 0

    def _start(self, name: str, *words: str) -> None:
        with (self.folder / f"{name}.out").open("ab") as output:
            self.processes[name] = subprocess.Popen(
                [sys.executable, *words], env=self.env, cwd=ROOT, stdout=output, stderr=output
            )

    def assigner(self, name: str, *more: str) -> None:
        words = ("-m", "kafkakit", "--profile", self.profile, "streams", "assigner", "run", "--balance-after", "3s")
        # The machine's disk may be fuller than a cluster's should be. A lease is long: an Assigner that is killed is
        # known to be gone, and one that this machine holds up for seconds stays in charge.
        self._start(name, *words, "--max-disk-use", "100%", "--lease-ttl", "30s", *more)

    def worker(self, name: str) -> None:
        given = {
            "profile": self.profile,
            "stream": self.routes.stream,
            "group": self.routes.stream,
            "trace": str(self.folder / f"{name}.trace"),
        }
        self._start(name, "-m", "tests.rigs.assigner_worker", json.dumps(given))

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        found = self.processes.pop(name)
        found.send_signal(number)
        found.wait(LIMIT_S)

    def command(self, *words: str) -> dict[str, Any]:
        ran = subprocess.run(
            [sys.executable, "-m", "kafkakit", "-o", "json", "--profile", self.profile, "streams", "assigner", *words],
            env=self.env, cwd=ROOT, capture_output=True, timeout=2 * LIMIT_S, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        found: dict[str, Any] = json.loads(ran.stdout)
        return found

    def lines(self, name: str) -> list[list[str]]:
        path = self.folder / f"{name}.trace"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def held(self) -> dict[str, int]:
        """What each living worker held last."""
        found = {}
        for name in self.processes:
            lines = [line for line in self.lines(name) if line[0] == "held"]
            if lines:
                found[name] = int(lines[-1][1])
        return found

    def write(self, segment: Segment, cluster: str, count: int) -> None:
        for partition in range(PARTITIONS):
            numbers = range(self.written + partition, self.written + count, PARTITIONS)
            place = TopicPartition(segment.topic, partition)
            produce(self.pair.clusters[cluster], place, [b"%d" % number for number in numbers])
        self.written += count

    def handled(self) -> Counter[int]:
        traces = self.folder.glob("*.trace")
        lines = (line.split() for trace in traces for line in trace.read_text().splitlines())
        return Counter(int(line[4]) for line in lines if line[0] == "done" and len(line) == 5)

    def all_handled(self) -> bool:
        return len(self.handled()) == self.written

    def token(self) -> int:
        found = AssignerReader(self.store).lease()
        return 0 if found is None else found.token

    def in_charge(self) -> str:
        """The name of the process that has the lease."""
        found = AssignerReader(self.store).lease()
        pid = 0 if found is None or found.holder is None else found.holder.pid
        return next((name for name, process in self.processes.items() if process.pid == pid), "")

    def epochs(self, segment: Segment, cluster: str) -> dict[int, int]:
        """The epoch in each partition's commit."""
        group, places = self.routes.stream, [TopicPartition(segment.topic, n) for n in range(PARTITIONS)]
        there = self.pair.clusters[cluster]
        client = KafkaAssignedConsumer(there.bootstrap_servers, there.security, group)
        found = client.committed(places, 30)
        client.close(1.0)
        epochs = {}
        for place, commit in found.items():
            identity = CommitIdentity(
                cluster_id=segment.cluster_id,
                topic_id=topic_id_bytes(segment.topic_id),
                partition=place.partition,
                group=group,
            )
            writer = restore_commit(commit, identity).state.writer if commit is not None else None
            epochs[place.partition] = writer.generation if writer is not None else 0
        return epochs


@pytest.fixture
def fleet(pair: Pair, routes: Routes, tmp_path: Path) -> Iterator[Fleet]:
    found = Fleet(pair, routes, tmp_path)
    try:
        yield found
    finally:
        for name in [*found.processes]:
            found.kill(name)
        # An Assigner works for all streams that it finds, those of another test, too.
        shutil.rmtree(pair.clusters["a"].home.state_dir / "control", ignore_errors=True)


def test_a_worker_and_the_assigner_in_charge_are_killed_and_no_record_is_lost(
    fleet: Fleet, pair: Pair, routes: Routes
) -> None:
    first = pair.segment("a", 1, PARTITIONS)
    routes.create(first)
    for name in ("one", "two"):
        fleet.assigner(name)
    for name in "xyz":
        fleet.worker(name)
    until(lambda: sorted(fleet.held().values()) == [2, 2, 2], "shares")
    fleet.write(first, "a", 600)
    until(fleet.all_handled, "all handled")
    until(lambda: all(fleet.epochs(first, "a").values()), "all partitions are committed")
    before = fleet.epochs(first, "a")

    fleet.kill("x")
    until(lambda: sorted(fleet.held().values()) == [3, 3], "the others have its partitions")
    fleet.write(first, "a", 600)
    until(fleet.all_handled, "all handled after a worker died")

    def compared() -> tuple[int, int]:
        """How many partitions were committed under a later epoch since then, and how many were not."""
        after = fleet.epochs(first, "a")
        return sum(after[n] > before[n] for n in before), sum(after[n] == before[n] for n in before)

    until(lambda: compared() == (2, 4), "the new owners committed")

    until(fleet.in_charge, "one is in charge")
    leader, token = fleet.in_charge(), fleet.token()
    fleet.kill(leader)
    fleet.write(first, "a", 300)
    until(fleet.all_handled, "all handled without an Assigner in charge")
    until(lambda: fleet.token() > token, "the other one is in charge")
    fleet.kill("y")
    until(lambda: fleet.held().get("z") == PARTITIONS, "one has all")

    second = pair.segment("b", 5, PARTITIONS)
    routes.move(second)
    until(lambda: fleet.held().get("z") == 2 * PARTITIONS, "both clusters are read")
    fleet.write(second, "b", 600)
    fleet.write(first, "a", 60)  # a late writer
    until(fleet.all_handled, "all handled on both clusters")
    until(lambda: {e >> 24 for e in fleet.epochs(second, "b").values()} == {fleet.token()}, "committed")

    fleet.worker("w")
    until(lambda: fleet.held().get("w", 0) >= 4, "a new worker gets its share")

    def explained() -> list[str]:
        return [row["worker"] for row in fleet.command("explain", routes.stream, routes.stream)["partitions"]]

    until(lambda: "-" not in explained(), "each has a worker")
    shown = fleet.command("show")["workers"]
    assert len(shown) == 2
    slot = max(shown, key=lambda row: row["partitions"])["worker"]
    assert fleet.command("drain", slot, "--wait", "3m", "--yes")["partitions"] == 0
    until(lambda: 2 * PARTITIONS in fleet.held().values() and 0 in fleet.held().values(), "the other one has all")
    fleet.write(second, "b", 300)
    until(fleet.all_handled, "all handled")
    fleet.kill("w", signal.SIGTERM)
    fleet.kill("z", signal.SIGTERM)
    assert all(fleet.lines(name)[-1] == ["end"] for name in "zw")
    until(lambda: not AssignerReader(fleet.store).grants(), "no worker is left")
    # What was handled twice is what a killed worker had not committed yet.
    twice = sum(count - 1 for count in fleet.handled().values())
    assert twice <= 600


def test_a_cluster_that_hangs_is_noticed_by_probes_and_workers_and_a_dry_run_moves_nothing(
    fleet: Fleet, pair: Pair, routes: Routes
) -> None:
    segment, profile = pair.segment("b", 1, PARTITIONS), pair.clusters["b"].name
    routes.create(segment)
    fleet.assigner(
        "one", "--auto-failover", "dry-run", "--failover-target", f"{profile}={fleet.profile}",
        "--confirm", "2s", "--witnesses", "1", "--healthy-after", "3s",
    )  # fmt: skip
    fleet.worker("x")
    until(lambda: fleet.held() == {"x": PARTITIONS}, "shares")
    fleet.write(segment, "b", 60)
    until(fleet.all_handled, "all handled")

    def seen() -> tuple[tuple[str, ...], int, int, tuple[str, ...]]:
        standing = AssignerReader(fleet.store).standing()
        clusters = () if standing is None else standing.clusters
        found = next((each for each in clusters if each.cluster_id == segment.cluster_id), None)
        if standing is None or found is None:
            return ("not seen yet",), 0, 0, ()
        return found.reasons, found.answering, found.silent, standing.automatic

    until(lambda: seen()[:3] == ((), 1, 0), "healthy")
    token = fleet.token()
    with pair.clusters["b"].hung():
        until(lambda: "unreachable" in seen()[0], "unreachable")
        until(lambda: seen()[1:3] == (0, 1), "the worker says so")
        until(lambda: "would be moved (dry run)" in "".join(seen()[3]), "would be moved")
        assert routes.read().epoch == 1
    until(lambda: seen() == ((), 1, 0, ()), "healthy again")
    fleet.write(segment, "b", 60)
    until(fleet.all_handled, "all handled again")
    assert fleet.token() == token


def test_a_stream_leaves_a_cluster_that_hangs_where_the_policy_says_so(
    fleet: Fleet, pair: Pair, routes: Routes
) -> None:
    segment, profile = pair.segment("b", 1, PARTITIONS), pair.clusters["b"].name
    routes.create(segment)
    fleet.assigner("one")
    fleet.worker("x")
    until(lambda: fleet.held() == {"x": PARTITIONS}, "shares")
    fleet.write(segment, "b", 60)
    until(fleet.all_handled, "all handled")

    def active() -> Segment:
        lane = routes.read().lane("live")
        assert lane is not None
        assert lane.active is not None
        return lane.active

    with pair.clusters["b"].hung():
        # Not before, as a broker that this machine holds up for 2 s is no less silent than one that hangs.
        fleet.kill("one")
        fleet.assigner(
            "two", "--auto-failover", "on", "--failover-target", f"{profile}={fleet.profile}",
            "--confirm", "2s", "--witnesses", "1", "--healthy-after", "3s",
        )  # fmt: skip
        until(lambda: active().cluster == fleet.profile, "producers are sent away")
        target = active()
        until(lambda: fleet.held() == {"x": 2 * PARTITIONS}, "the new topic is read, too")
        fleet.write(target, "a", 60)
        until(fleet.all_handled, "all handled")
        until(lambda: fleet.routes.stream in str(fleet.command("show")["automatic"]), "it is told")
    fleet.write(segment, "b", 60)  # a late writer, which is read, too
    until(fleet.all_handled, "all handled on both clusters")
    assert (active().id, active().cluster) == (target.id, fleet.profile)
