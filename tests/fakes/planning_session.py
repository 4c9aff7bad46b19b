"""A session for `topicmappr.act.observation`: one clock, one cluster or snapshot, one collector."""

from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from kafkakit.core.documents import encode_snapshot
from kafkakit.core.model import ClusterSnapshot
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.services import StorageMetrics
from tests.fakes.admin import FakeClock


class FakePlanningSession:
    """Reads `snapshot` from any file and, without an `admin`, from the cluster."""

    def __init__(
        self,
        clock: FakeClock,
        *,
        snapshot: ClusterSnapshot | None = None,
        admin: Any = None,
        metrics: StorageMetrics | None = None,
    ) -> None:
        self.clock = clock
        self.admin = cast(ClusterAdmin, admin or _Still(snapshot))
        self._snapshot, self._metrics = snapshot, metrics

    def storage_metrics(self, source: str, addresses: str, prefix: str) -> StorageMetrics:
        assert self._metrics is not None
        return self._metrics

    def read_input(self, path: Path | str, limit_bytes: int) -> bytes:
        assert self._snapshot is not None
        return encode_snapshot(self._snapshot)


class _Still:
    def __init__(self, snapshot: ClusterSnapshot | None) -> None:
        self._snapshot = snapshot

    def snapshot(self, *, now: datetime, sizes: bool) -> ClusterSnapshot:
        assert self._snapshot is not None
        return self._snapshot

    def broker_settings(self, brokers: Collection[int], keys: Collection[str]) -> dict[int, dict[str, str]]:
        return {}
