"""What a store of snapshots must offer to those that write it."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from kafkakit.core.fleet_tables import Manifest


class TableStore(Protocol):
    """Tables of `core.fleet_tables` by kind, date and cluster; rows count only once a manifest names them.

    Every change raises `StoreFailedError` when the store takes no more.
    """

    def begin(self, snapshot_date: str, cluster: str, source: str = "") -> None:
        """Forget what the store holds of that date, cluster and source: first its manifest, then its rows."""
        ...

    def write(
        self,
        kind: str,
        snapshot_date: str,
        cluster: str,
        columns: Mapping[str, Sequence[Any]],
        part: int = 0,
        source: str = "",
    ) -> int:
        """Write rows as columns of one length, absent ones as null; returns how many. `part` tells files apart."""
        ...

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest, which makes the rows count."""
        ...

    def manifest(self, snapshot_date: str, cluster: str, source: str = "") -> Manifest | None:
        """The manifest of that date, cluster and source; None where there is none, or a damaged one."""
        ...

    def dates(self) -> tuple[str, ...]:
        """The dates that the store holds manifests of, oldest first."""
        ...
