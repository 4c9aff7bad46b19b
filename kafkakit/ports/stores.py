"""What stores must offer: compare-and-set for leases and routes, folders of results, and snapshots of a fleet."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from kafkakit.core.fleet_tables import Manifest
from kafkakit.core.lease import VersionedValue


class ControlStore(Protocol):
    """Small documents that several processes read and replace, one at a time; linearisable for each path.

    A path is `name/name/...` (`core.lease.check_path` has the rules); a value has 1 byte to 64 KiB. Versions
    of a path grow with every change, also over a deletion; they are not consecutive. Calls raise `TryLaterError`
    when the store cannot be reached: a write may then have happened or not (read before repeating it).
    """

    def get(self, path: str) -> VersionedValue | None:
        """Read a path, with everything that was written before the call; None when it holds nothing."""
        ...

    def cas(self, path: str, value: bytes, expected: int | None) -> int:
        """Replace the value if its version is still `expected` (None: it holds nothing); returns the new version.

        Raises `ConflictError` when it is not: then nothing was written. At most one of several callers that
        expect the same version succeeds.
        """
        ...

    def delete(self, path: str, expected: int) -> None:
        """Remove the value if its version is still `expected`; raises `ConflictError` when it is not."""
        ...

    def children(self, path: str) -> tuple[str, ...]:
        """The names directly below a path (the root is the empty path) that hold a value or lead to one, sorted."""
        ...

    def values(self, path: str) -> Mapping[str, VersionedValue]:
        """What stands directly below a path, by name, sorted; each read with everything written before the call."""
        ...

    def await_change(self, path: str, known: int | None, timeout_s: float) -> bool:
        """Wait until a path holds another version than `known` (None: nothing); False when `timeout_s` ended first.

        True comes within half a second of the change while the store can be reached. A change is never missed: a path
        that differs already returns at once.
        """
        ...

    def close(self) -> None:
        """Let go of connections; closing twice is harmless."""
        ...


class RunStore(Protocol):
    """A folder; paths are relative to it, with `/` between their parts."""

    @property
    def location(self) -> str:
        """The folder as it was given."""
        ...

    def names(self, folder: str = "") -> tuple[str, ...]:
        """The names in a folder, sorted; empty where there is none. One listing."""
        ...

    def read(self, path: str) -> bytes | None:
        """The content of a small file; None where there is none. A folder of text parts, as Spark writes, is one file.

        Raises `OperationFailedError` when the store does not answer.
        """
        ...

    def write(self, path: str, data: bytes) -> None:
        """Replace a file as a whole. Raises `OperationFailedError` when the store takes no more."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with all in it; nothing where there is none."""
        ...

    def columns(self, path: str, limit: int | None = None, only: tuple[str, ...] = ()) -> Mapping[str, list[Any]]:
        """The columns of a Parquet file, or of a folder of such, in order of the files; at most `limit` rows.

        With `only` those of these names that it has are read, and no others.

        Empty where there is none. Raises `OperationFailedError` when it cannot be read.
        """
        ...

    def copy_to(self, folder: str) -> tuple[str, ...]:
        """Copy all files to a local folder; returns their paths, sorted. Hidden files are left out."""
        ...


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
