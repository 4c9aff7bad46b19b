"""Folders of results and stores of snapshots, on disks or below URIs that pyarrow knows (s3, gs, abfs, hdfs).

A store keeps each snapshot as Parquet files.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from kafkakit.core.errors import OperationFailedError, StoreFailedError, UsageError
from kafkakit.core.fleet_tables import MANIFESTS, TABLES, VERSION_COLUMN, Manifest, manifest_data, manifest_of

READ_LIMIT_BYTES = 64 * 2**20


class RunFolder:
    """Implements `ports.RunStore`."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._files, self._base = open_place(location, "cannot be opened")

    @property
    def location(self) -> str:
        """The folder as it was given."""
        return self._location

    def names(self, folder: str = "") -> tuple[str, ...]:
        """One listing."""
        with self._failures(folder):
            selector = pafs.FileSelector(self._path(folder), allow_not_found=True)
            return tuple(sorted(info.base_name for info in self._files.get_file_info(selector)))

    def read(self, path: str) -> bytes | None:
        """At most 64 MiB of each file."""
        with self._failures(path):
            kind = self._files.get_file_info(self._path(path)).type
            if kind == pafs.FileType.NotFound:
                return None
            if kind == pafs.FileType.File:
                with self._files.open_input_stream(self._path(path)) as stream:
                    return bytes(stream.read(READ_LIMIT_BYTES))
        return b"".join(self.read(f"{path}/{name}") or b"" for name in self.names(path) if name.startswith("part-"))

    def write(self, path: str, data: bytes) -> None:
        """Written under another name and renamed."""
        full = self._path(path)
        folder, _, name = full.rpartition("/")
        with self._failures(path):
            self._files.create_dir(folder, recursive=True)
            with self._files.open_output_stream(f"{folder}/.{name}.part") as stream:
                stream.write(data)
            self._files.move(f"{folder}/.{name}.part", full)

    def delete(self, path: str) -> None:
        """One look, one request."""
        with self._failures(path):
            kind = self._files.get_file_info(self._path(path)).type
            if kind == pafs.FileType.Directory:
                self._files.delete_dir(self._path(path))
            elif kind == pafs.FileType.File:
                self._files.delete_file(self._path(path))

    def columns(self, path: str, limit: int | None = None, only: tuple[str, ...] = ()) -> Mapping[str, list[Any]]:
        """Reads whole row groups until there are enough rows."""
        found: dict[str, list[Any]] = {}
        with self._failures(path):
            info = self._files.get_file_info(self._path(path))
            names = self.names(path) if info.type == pafs.FileType.Directory else ()
            parts = [f"{path}/{name}" for name in names if name.endswith(".parquet")] if names else [path]
            for part in parts if info.type != pafs.FileType.NotFound else ():
                file = pq.ParquetFile(self._files.open_input_file(self._path(part)))
                wanted = [name for name in file.schema_arrow.names if not only or name in only]
                for name in wanted:
                    found.setdefault(name, [])
                for batch in file.iter_batches(columns=wanted):
                    left = None if limit is None else limit - len(next(iter(found.values())))
                    for name, values in batch.slice(0, left).to_pydict().items():
                        found[name] += values
        return found

    def copy_to(self, folder: str) -> tuple[str, ...]:
        """One file after another."""
        with self._failures(""):
            infos = self._files.get_file_info(pafs.FileSelector(self._base, recursive=True, allow_not_found=True))
            paths = [PurePosixPath(i.path).relative_to(self._base) for i in infos if i.type == pafs.FileType.File]
            kept = sorted(str(path) for path in paths if not any(part.startswith(".") for part in path.parts))
            for path in kept:
                (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
                pafs.copy_files(
                    self._path(path), str((Path(folder) / path).absolute()),
                    source_filesystem=self._files, destination_filesystem=pafs.LocalFileSystem(),
                )  # fmt: skip
        return tuple(kept)

    def _path(self, path: str) -> str:
        return f"{self._base}/{path}".rstrip("/")

    @contextmanager
    def _failures(self, path: str) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            raise OperationFailedError(f"{self._location}/{path}".rstrip("/") + f": {error}") from None


_TYPES = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "array<int>": pa.list_(pa.int32()),
    "array<string>": pa.list_(pa.string()),
}
ROWS_OF_GROUP = 256 * 1024
_DATE = "snapshot_date="


class ParquetStore:
    """Implements `ports.TableStore`; safe for several threads that write different clusters."""

    def __init__(self, location: str) -> None:
        self._files, self._base = open_place(location, "is not a place for a store")

    def begin(self, snapshot_date: str, cluster: str, source: str = "") -> None:
        """One listing for each kind, one request for each file."""
        self._delete(self._manifest_path(snapshot_date, cluster, source))
        name = re.compile(rf"\.?part-{re.escape(_prefix(source))}[0-9]+\.parquet")
        for kind in TABLES:
            for path in self._names(self._folder(kind, snapshot_date, cluster)):
                if name.fullmatch(path.rpartition("/")[2]):
                    self._delete(path)

    def write(
        self,
        kind: str,
        snapshot_date: str,
        cluster: str,
        columns: Mapping[str, Sequence[Any]],
        part: int = 0,
        source: str = "",
    ) -> int:
        """Compressed with zstd, with checksums of pages, in row groups of 262,144 rows."""
        table = _arrow_table(kind, columns)
        if table.num_rows == 0:
            return 0
        folder = self._folder(kind, snapshot_date, cluster)
        # Readers leave out files whose names begin with a dot.
        name = f"part-{_prefix(source)}{part:05d}.parquet"
        hidden, shown = f"{folder}/.{name}", f"{folder}/{name}"
        try:
            self._files.create_dir(folder, recursive=True)
            with self._files.open_output_stream(hidden) as stream:
                pq.write_table(
                    table, stream, compression="zstd", row_group_size=ROWS_OF_GROUP, write_page_checksum=True
                )
            self._files.move(hidden, shown)
        except (pa.ArrowException, OSError) as error:
            with suppress(StoreFailedError):
                self._delete(hidden)  # a full disk needs the room
            raise StoreFailedError(f"{folder}: {kind} cannot be written: {error}") from None
        return int(table.num_rows)

    def finish(self, manifest: Manifest) -> None:
        """Written under another name and renamed."""
        path = self._manifest_path(manifest.snapshot_date, manifest.cluster, manifest.source)
        folder, _, name = path.rpartition("/")
        hidden = f"{folder}/.{name}"
        text = json.dumps(manifest_data(manifest), indent=1) + "\n"
        try:
            self._files.create_dir(folder, recursive=True)
            with self._files.open_output_stream(hidden) as stream:
                stream.write(text.encode())
            self._files.move(hidden, path)
        except (pa.ArrowException, OSError) as error:
            raise StoreFailedError(f"{path}: the manifest cannot be written: {error}") from None

    def manifest(self, snapshot_date: str, cluster: str, source: str = "") -> Manifest | None:
        """One read."""
        try:
            with self._files.open_input_stream(self._manifest_path(snapshot_date, cluster, source)) as stream:
                return manifest_of(json.loads(stream.read(2**20)))
        except (OSError, pa.ArrowException, ValueError):
            return None

    def dates(self) -> tuple[str, ...]:
        """One listing."""
        names = (path.rpartition("/")[2] for path in self._names(f"{self._base}/{MANIFESTS}"))
        return tuple(sorted(name.removeprefix(_DATE) for name in names if name.startswith(_DATE)))

    def _folder(self, kind: str, snapshot_date: str, cluster: str) -> str:
        return f"{self._base}/{kind}/snapshot_date={snapshot_date}/cluster={quote(cluster, safe='')}"

    def _manifest_path(self, snapshot_date: str, cluster: str, source: str) -> str:
        # A quoted name holds no @ of its own.
        mark = f"@{quote(source, safe='')}" if source else ""
        return f"{self._folder(MANIFESTS, snapshot_date, cluster)}{mark}.json"

    def _names(self, folder: str) -> list[str]:
        try:
            found = self._files.get_file_info(pafs.FileSelector(folder, allow_not_found=True))
        except (pa.ArrowException, OSError) as error:
            raise StoreFailedError(f"{folder} cannot be listed: {error}") from None
        return [info.path for info in found]

    def _delete(self, path: str) -> None:
        try:
            if self._files.get_file_info(path).type != pafs.FileType.NotFound:
                self._files.delete_file(path)
        except (pa.ArrowException, OSError) as error:
            raise StoreFailedError(f"{path} cannot be deleted: {error}") from None


def _prefix(source: str) -> str:
    return f"{quote(source, safe='')}-" if source else ""


def _arrow_table(kind: str, columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    table = TABLES[kind]
    unknown = sorted(columns.keys() - set(table.names))
    if unknown:
        raise ValueError(f"{kind} has no columns {', '.join(unknown)}")
    length = len(next(iter(columns.values()), ()))
    arrays = [
        pa.array(columns[c.name], type=_TYPES[c.type]) if c.name in columns else pa.nulls(length, _TYPES[c.type])
        for c in table.columns
    ]
    version = pa.array([table.version], pa.int32()).take(pa.array([0] * length, pa.int32()))
    return pa.Table.from_arrays([*arrays, version], names=[*table.names, VERSION_COLUMN])


def open_place(location: str, refusal: str) -> tuple[pafs.FileSystem, str]:
    """The file system of a location and the path of the folder there, without a slash at its end.

    `UsageError` for a location that cannot be opened, with the words of `refusal`.
    """
    # Hadoop's name for S3, which Spark needs and Arrow does not know.
    address = f"s3://{location.removeprefix('s3a://')}" if location.startswith("s3a://") else location
    try:
        if "://" in address:
            files, base = pafs.FileSystem.from_uri(address)
        else:
            files, base = pafs.LocalFileSystem(), str(Path(location).absolute())
    except (pa.ArrowException, OSError) as error:
        raise UsageError(f"{location} {refusal}: {error}") from None
    return files, base.rstrip("/")
