"""A folder of results or snapshots, on a disk or below a URI that pyarrow knows (s3, gs, abfs, hdfs)."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from kafkakit.adapters.arrow.places import open_place
from kafkakit.core.errors import OperationFailedError

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
