"""Two nearly full brokers that swap what they hold: all at once fills a disk, in the schedule's order none.

On a cluster in memory always; on real brokers with small disks of their own where these can be mounted (root).
"""

import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from kafkakit.core.cluster_facts import BrokerLogDirs
from kafkakit.core.model import TopicPartition
from kafkakit.core.programs import ProcessRecord
from kafkakit.ports.services import Machine, Processes
from kafkakit.sandbox import lifecycle as sandbox
from kafkakit.sandbox.decide.spec import ClientSecurity, MetadataMode, build_spec
from tests.clusters.plans import make_plan
from tests.fakes.admin import FakeCluster
from tests.integration.conftest import Home, SandboxCluster, SilentReporter
from tests.integration.test_reassign import MB, A, B, C, alive, journal, kit, kit_running, make_topic, save
from tests.integration.test_reassign_faults import QUICK, end_of, finished, in_place
from tests.integration.writers import traffic
from tests.invariants.journal import verify_journal
from tests.rigs.reassign import Harness
from tests.rigs.waiting import becomes, until

DISK = 120 * MB
PARTITIONS = 4  # on each of the two
SIZE = 25 * MB  # 100 of 120 MB are used; one more copy is over 95 %
DELETION_S = 60.0


class SmallDisks(FakeCluster):
    """Disks that fill: what is above their size takes the dir away. Deleted copies keep their room for a minute."""

    def __init__(self) -> None:
        super().__init__({1: "a", 2: "b", 3: "c"}, dir_bytes=DISK, line_rate=10 * MB)
        self.filled: set[int] = set()
        self.peak: dict[int, int] = {}
        self._now_s = 0.0
        self._held: dict[tuple[TopicPartition, int], int] = {}
        self._leaving: list[tuple[float, int, int]] = []

    def advance(self, seconds: float) -> None:
        """In small pieces, with a look at every disk after each."""
        while seconds > 0:
            piece = min(seconds, 0.25)
            super().advance(piece)
            self._now_s += piece
            seconds -= piece
            self._look()

    def log_dirs(
        self, brokers: Collection[int], partitions: Collection[TopicPartition] | None = None
    ) -> Mapping[int, BrokerLogDirs]:
        """What waits for its deletion is not listed, and takes room."""
        found = super().log_dirs(brokers, partitions)
        return {
            b: replace(
                answer,
                log_dirs=tuple(
                    d if d.usable_bytes is None else replace(d, usable_bytes=max(0, d.usable_bytes - self._waiting(b)))
                    for d in answer.log_dirs
                ),
            )
            for b, answer in found.items()
        }

    def _waiting(self, broker: int) -> int:
        return sum(size for end, b, size in self._leaving if b == broker and end > self._now_s)

    def _look(self) -> None:
        held = {(k, b): size for k, p in self.replication.partitions() for b, size in p.copied.items()}
        for (key, broker), size in self._held.items():
            if (key, broker) not in held:
                self._leaving.append((self._now_s + DELETION_S, broker, size))
        self._held = held
        for broker in self.brokers:
            used = sum(size for (_, b), size in held.items() if b == broker) + self._waiting(broker)
            self.peak[broker] = max(used, self.peak.get(broker, 0))
            if used > DISK and broker not in self.filled:
                self.filled.add(broker)
                self.fail_dir(broker, f"/data/{broker}/0")


@pytest.fixture
def full() -> SmallDisks:
    cluster = SmallDisks()
    cluster.add_topic("left", dict.fromkeys(range(PARTITIONS), (1,)), size_bytes=SIZE)
    cluster.add_topic("right", dict.fromkeys(range(PARTITIONS), (2,)), size_bytes=SIZE)
    return cluster


def swapped(left: int, right: int) -> dict[tuple[str, int], tuple[int, ...]]:
    return {(t, n): (b,) for t, b in (("left", right), ("right", left)) for n in range(PARTITIONS)}


def test_in_memory_the_schedule_swaps_two_full_brokers(full: SmallDisks) -> None:
    bench = Harness(full, make_plan(full, targets := swapped(1, 2)))
    outcome = bench.apply()
    assert outcome.ok, outcome.problems
    assert bench.lists() == targets
    assert not full.filled
    assert max(full.peak.values()) <= DISK * 95 // 100
    assert outcome.submitted > len(targets)  # one had to go round
    verify_journal(bench.file.data)


@pytest.mark.parametrize("at_once", [2 * PARTITIONS, 1])
def test_in_memory_the_naive_order_fills_a_disk(full: SmallDisks, at_once: int) -> None:
    """All moves at once, and one after another in the order of the plan, which waits only for the end of each."""
    targets = {TopicPartition(t, n): r for (t, n), r in sorted(swapped(1, 2).items())}
    keys = list(targets)
    for start in range(0, len(keys), at_once):
        full.reassign({k: targets[k] for k in keys[start : start + at_once]})
        for _ in range(100):
            full.advance(1.0)
            if full.filled or not full.reassignments():
                break
    assert full.filled
    assert full.reassignments()


@dataclass(kw_only=True)
class SmallDiskProcesses:
    """Starts brokers on disks of `DISK` bytes, mounted before their first start, which free deleted copies soon."""

    inner: Processes
    mounted: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def start(self, command: Sequence[str], log_file: str, remember: Callable[[ProcessRecord], None]) -> ProcessRecord:
        folder = Path(log_file).parent
        disk = folder / "data-0"
        if disk.exists() and str(disk) not in self.mounted:
            self._mount(disk)
            with (folder / "node.properties").open("a") as settings:
                settings.write("log.segment.delete.delay.ms=1000\nlog.initial.task.delay.ms=500\n")
        return self.inner.start(command, log_file, remember)

    def _mount(self, disk: Path) -> None:
        identity = (disk / "meta.properties").read_bytes()
        made = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(disk)], capture_output=True, check=False
        )
        if made.returncode:
            pytest.skip("small disks: only root can mount them here")
        self.mounted.append(str(disk))
        (disk / "meta.properties").write_bytes(identity)

    def unmount(self) -> None:
        for disk in self.mounted:
            subprocess.run(["umount", "-l", disk], check=False)


@pytest.fixture
def tight(home: Home, machine: Machine) -> Iterator[SandboxCluster]:
    """Three brokers on small disks; two are nearly full."""
    disks = SmallDiskProcesses(inner=machine.processes)
    small = replace(machine, processes=disks)  # type: ignore[arg-type]
    spec = build_spec(
        name="tight", brokers=3, racks=3, log_dirs=(1,), kafka=None, mode=MetadataMode.KRAFT, secure=ClientSecurity.NONE
    )
    store = home.store(spec.name)
    try:
        state, _ = sandbox.start_sandbox(small, store, spec, SilentReporter())
        cluster = SandboxCluster(machine=small, store=store, home=home, state=state)
        yield cluster
        for broker in cluster.broker_ids:
            sandbox.kill(small, store, broker)
    finally:
        disks.unmount()
        sandbox.stop_sandbox(small, store)


@pytest.mark.kafka
def test_on_real_disks_the_schedule_swaps_two_full_brokers_and_the_naive_order_loses_one(
    tight: SandboxCluster, tmp_path: Path
) -> None:
    with closing(tight.open_admin()) as admin:
        make_topic(tight, admin, "left", dict.fromkeys(range(PARTITIONS), (A,)), SIZE)
        make_topic(tight, admin, "right", dict.fromkeys(range(PARTITIONS), (B,)), SIZE)
        plan = make_plan(admin, swapped(A, B))
        path = save(plan, tmp_path)
        lowest = DISK
        with traffic(tight, "left", PARTITIONS, gap_s=0.1) as flow:
            with kit_running(tight, "apply", path, *QUICK) as process:
                while process.poll() is None:
                    answers = admin.log_dirs([A, B, C], ())
                    assert not [d for a in answers.values() for d in a.log_dirs if d.error]
                    lowest = min([lowest, *(d.usable_bytes or 0 for a in answers.values() for d in a.log_dirs)])
                    time.sleep(0.2)
                code, told = finished(process)
            assert code == 0, told
            assert "detour" in told
            until(lambda: in_place(admin, plan))
            becomes(lambda: end_of(admin, "left")[2:], ({}, ()))
            assert lowest > 0
        verify_journal(journal(tight, plan))
        assert flow.check() > 100
        until(lambda: sum(d.usable_bytes or 0 for a in admin.log_dirs([A, B], ()).values() for d in a.log_dirs) > 0)
        back = {TopicPartition(m.topic, m.partition): m.before for m in plan.moves}
        assert admin.reassign(back) == dict.fromkeys(back)
        until(lambda: not {A, B} <= alive(admin))  # a broker whose only dir is full ends
        assert kit(tight, "list").stdout
