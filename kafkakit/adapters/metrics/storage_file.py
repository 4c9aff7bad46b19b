"""A reading in a file."""

from collections.abc import Callable, Mapping
from pathlib import Path

from kafkakit.core.errors import RefusedError
from kafkakit.core.storage_document import DOCUMENT_LIMIT_BYTES, decode_reading, encode_reading
from kafkakit.core.storage_reading import StorageReading


class StorageFile:
    """`ports.StorageStore` in the file `path`, read and replaced whole; without `write_file` it is read only."""

    def __init__(
        self,
        path: str,
        read_file: Callable[[str, int], bytes],
        write_file: Callable[[Path, bytes], None] | None = None,
    ) -> None:
        self._path, self._read_file, self._write_file = path, read_file, write_file

    def read(self) -> StorageReading:
        """Read the file; `InputError` when it is missing."""
        return decode_reading(self._read_file(self._path, DOCUMENT_LIMIT_BYTES), self._path)

    def write(self, reading: StorageReading) -> Mapping[str, int]:
        """Write the file under another name and rename it."""
        if self._write_file is None:
            raise RefusedError(f"{self._path} was opened for reading")
        data = encode_reading(reading)
        self._write_file(Path(self._path), data)
        return {f"file {self._path}": len(data)}

    def close(self) -> None:
        """Nothing is open."""
