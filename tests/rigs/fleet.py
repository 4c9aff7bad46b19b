"""Clusters in memory by the address that their profiles name, and the rows of a store."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq

from kafkakit.core.errors import TryLaterError
from tests.fakes.admin import FakeCluster
from tests.fakes.groups import FakeGroups
from tests.fakes.log import FakeLog
from tests.fakes.log_reader import FakeLogReader


@dataclass(kw_only=True)
class FleetMember:
    """One cluster of the fleet."""

    admin: FakeCluster
    groups: FakeGroups
    log: FakeLogReader
    data: FakeLog = field(default_factory=FakeLog)


@dataclass
class FakeFleet:
    """Clusters by name; a cluster that is not there cannot be connected to. `opened` are the addresses asked for."""

    members: dict[str, FleetMember] = field(default_factory=dict)
    opened: list[str] = field(default_factory=list)

    def add(self, name: str, topics: int = 1) -> FleetMember:
        """A cluster of three brokers, a to c, with topics of two partitions."""
        admin = FakeCluster({1: "a", 2: "b", 3: "c"}, cluster_id=f"id-{name}")
        log = FakeLogReader(f"id-{name}")
        for number in range(topics):
            admin.add_topic(f"t{number}", {0: (1, 2), 1: (2, 3)}, size_bytes=1000, configs={"retention.ms": "1000"})
            log.add_topic(f"t{number}", 2)
        member = self.members[f"{name}:9092"] = FleetMember(admin=admin, groups=FakeGroups(), log=log)
        return member

    def find(self, settings: Any, **_: Any) -> FleetMember:
        """What a profile's address leads to."""
        self.opened.append(settings.bootstrap_servers)
        try:
            return self.members[settings.bootstrap_servers]
        except KeyError:
            raise TryLaterError(f"cannot connect to {settings.bootstrap_servers}") from None


@contextmanager
def wired(fleet: FakeFleet) -> Iterator[None]:
    """Commands get the clusters of the fleet."""
    with (
        mock.patch("kafkakit.wiring.open_admin", lambda s, **more: fleet.find(s, **more).admin),
        mock.patch("kafkakit.wiring.open_groups", lambda s, **more: fleet.find(s, **more).groups),
        mock.patch("kafkakit.wiring.open_data", lambda s: fleet.find(s).data),
        mock.patch("kafkakit.wiring.open_log", lambda s, **more: fleet.find(s, **more).log),
    ):
        yield


def rows_of(store: Path, kind: str, cluster: str, date: str | None = None) -> list[dict[str, Any]]:
    """The rows of one kind in a store, files in the order of their names."""
    files = sorted(store.glob(f"{kind}/snapshot_date={date or '*'}/cluster={cluster}/part-*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
