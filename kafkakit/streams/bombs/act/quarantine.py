"""Batches in quarantine: each in a file as it was fetched, with a file beside it that says where it is from."""

from collections.abc import Callable, Mapping
from pathlib import Path

from kafkakit.core.errors import OperationFailedError, RefusedError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.bombs.decide import FoundBatch, KeptBatch, encode_provenance, folder_names, provenance
from kafkakit.streams.model.commit import OffsetRanges

FILE_MODE, FOLDER_MODE = 0o600, 0o700
Write = Callable[[Path, bytes, int], None]
"""Replaces a file as a whole, and returns once it is on disk."""


class Quarantine:
    """A folder of batches: `CLUSTER/TOPIC-PARTITION/OFFSET.log`, and `OFFSET.json` once that is whole.

    It takes batches with offsets in `wanted`. With `is_planned` nothing is written.
    """

    def __init__(
        self,
        folder: Path,
        write: Write,
        *,
        cluster_id: str,
        topic_ids: Mapping[TopicPartition, bytes],
        wanted: OffsetRanges,
        limit_bytes: int,
        is_planned: bool,
    ) -> None:
        self._folder, self._write, self._cluster_id, self._topic_ids = folder, write, cluster_id, topic_ids
        self._wanted, self._limit_bytes, self._is_planned = wanted, limit_bytes, is_planned
        self.kept: list[KeptBatch] = []

    def keep(self, found: FoundBatch, raw: bytes) -> None:
        """Write a batch that has a wanted offset; one that is there already is written again.

        Raises `RefusedError` where another batch is there, `OperationFailedError` where the disk takes no more.
        """
        if not self._wanted.within(found.verdict.start, found.verdict.end):
            return
        if self._is_planned:
            self.kept.append(KeptBatch(found=found))
            return
        *folders, name = folder_names(self._cluster_id, found)
        folder = self._folder.joinpath(*folders)
        batch, beside = folder / f"{name}.log", folder / f"{name}.json"
        document = encode_provenance(
            provenance(self._cluster_id, self._topic_ids[found.key], found, raw, self._limit_bytes)
        )
        try:
            folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            if beside.exists() and batch.read_bytes() != raw:
                raise RefusedError(
                    f"{batch} holds another batch, of an earlier topic of that name",
                    hint="move it away, or name another folder with --out-path",
                )
        except OSError as error:
            raise OperationFailedError(f"cannot write below {self._folder}: {error.strerror}") from None
        self._write(batch, raw, FILE_MODE)
        self._write(beside, document, FILE_MODE)
        self.kept.append(KeptBatch(found=found, path=str(batch)))
