"""Folders on disks and below URIs that pyarrow knows (s3, gs, abfs, hdfs)."""

from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs

from kafkakit.core.errors import UsageError


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
