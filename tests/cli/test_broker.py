"""`kafkakit broker` over a cluster in memory: stdout, stderr and exit code of each command."""

import json
from pathlib import Path
from typing import Any

import pytest

from kafkakit import wiring
from kafkakit.adapters.lock import FileLock
from kafkakit.adapters.read_only import ReadOnlyAdmin
from kafkakit.ports import ClusterAdmin
from tests.command_line import Home, Ran
from tests.fakes import FakeClock, FakeCluster
from tests.journal_invariants import verify_journal

MB = 1_000_000


class Desk:
    """An operator's host, and a cluster of five brokers in three racks behind profile `p`."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder)
        self.home.write_config("bootstrap_server: fake:1\n", "profiles.d/p.yaml")
        self.cluster = FakeCluster({1: "a", 2: "b", 3: "c", 4: "a", 5: "b"}, line_rate=10 * MB)
        self.cluster.add_topic("t", {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2), 3: (1, 3, 5)}, size_bytes=20 * MB)
        self.clock = FakeClock()
        self.clock.on_sleep.append(self.cluster.advance)

    def open_admin(self, settings: Any, *, read_only: bool = False) -> ClusterAdmin:
        assert settings.bootstrap_servers == "fake:1"
        return ReadOnlyAdmin(self.cluster) if read_only else self.cluster

    def run(self, *words: str, stdin: str = "") -> Ran:
        return self.home.run("--profile", "p", "broker", *words, "--ingest-sample", "0", stdin=stdin)

    def lists(self) -> dict[int, tuple[int, ...]]:
        return {n: tuple(p.replicas) for n, p in self.cluster.topics["t"].partitions.items()}

    def leaders(self) -> list[int | None]:
        return [p.leader for p in self.cluster.topics["t"].partitions.values()]

    def records(self) -> list[Path]:
        return sorted(p for p in self.home.state.rglob("operations/*/*.json") if ".plan." not in p.name)

    def touched(self) -> list[str]:
        return [name for name, _ in self.cluster.calls]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    desk = Desk(tmp_path)
    monkeypatch.setattr(wiring, "open_admin", desk.open_admin)
    monkeypatch.setattr(wiring, "system_clock", lambda: desk.clock)
    return desk


def test_drain_empties_a_broker_and_names_the_way_back(desk: Desk) -> None:
    ran = desk.run("drain", "1", "--yes", "--throttle", "5MB")
    assert ran.code == 0, ran.stderr
    assert all(1 not in replicas for replicas in desk.lists().values())
    assert 1 not in desk.leaders()
    assert ran.stdout.startswith("done: drain of broker 1\nbroker 1: alive, 0 replicas, 0 leaderships\n")
    print(ran.stdout, ran.stderr)
