"""What a folder of results, or of snapshots, must offer to those that read it: on a disk, or below a URI."""

from collections.abc import Mapping
from typing import Any, Protocol


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
