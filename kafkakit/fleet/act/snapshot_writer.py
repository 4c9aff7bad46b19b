"""Writing one cluster's snapshot: tables first, the manifest last."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafkakit.core.errors import TryLaterError
from kafkakit.core.fleet_tables import Manifest
from kafkakit.core.quantities import epoch_ms
from kafkakit.ports.acting import Clock
from kafkakit.ports.stores import TableStore


class SnapshotWriter:
    """The rows of one cluster, date and source. `is_over` is asked before each write: then nothing is written.

    For one thread at a time. Raises `StoreFailedError` when the store takes no more, `TryLaterError` once it is over.
    """

    def __init__(
        self,
        store: TableStore,
        clock: Clock,
        *,
        cluster: str,
        snapshot_date: str,
        source: str = "",
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store, self._clock, self._is_over = store, clock, is_over
        self.cluster, self._date, self._source = cluster, snapshot_date, source
        self._parts: Counter[str] = Counter()
        self.rows: Counter[str] = Counter()
        self.started_ms = epoch_ms(clock.now())

    def before(self) -> Manifest | None:
        """The newest complete manifest of an earlier date."""
        earlier = (day for day in reversed(self._store.dates()) if day < self._date)
        found = (self._store.manifest(day, self.cluster, self._source) for day in earlier)
        return next((manifest for manifest in found if manifest is not None and manifest.is_complete), None)

    def begin(self) -> None:
        """Forget what an earlier run left."""
        self.check()
        self._store.begin(self._date, self.cluster, self._source)

    def add(self, kind: str, columns: Mapping[str, Sequence[Any]]) -> None:
        """Write rows of one kind; several calls make several files."""
        self.check()
        written = self._store.write(kind, self._date, self.cluster, columns, self._parts[kind], self._source)
        self._parts[kind] += 1
        self.rows[kind] += written

    def finish(self, *, positions: Mapping[str, int] | None = None, error: str = "") -> Manifest:
        """Write the manifest; with an `error` it says why the snapshot is not to be read."""
        manifest = Manifest(
            cluster=self.cluster,
            snapshot_date=self._date,
            started_ms=self.started_ms,
            ended_ms=epoch_ms(self._clock.now()),
            rows={kind: count for kind, count in self.rows.items() if count and not error},
            error=error,
            source=self._source,
            positions=positions or {},
        )
        self._store.finish(manifest)
        return manifest

    def check(self) -> None:
        """Raise where the time for this cluster is over."""
        if self._is_over():
            raise TryLaterError(f"the time for {self.cluster} is over")
