"""Which partition of the offsets topic the newest commit of each key came from."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkakit.streams.lag.decide.measure.arrays import grown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


class CommitOrigins:
    """By key number: `partition` of the offsets topic, -1 for none, and the pass over it in which the key was seen."""

    def __init__(self) -> None:
        import numpy as np

        self.partition: NDArray[np.int32] = np.full(64, -1, np.int32)
        self._pass: NDArray[np.int32] = np.full(64, -1, np.int32)

    def note(self, keys: "Ints", partition: int, number: int) -> None:
        """Keys that were seen in a partition, in the pass over it of this number."""
        self._reserve(int(keys.max(initial=-1)) + 1)
        self.partition[keys], self._pass[keys] = partition, number

    def restore(self, keys: "Ints", partitions: "NDArray[np.int32]") -> None:
        """Keys of a saved state: of no pass yet."""
        self._reserve(int(keys.max(initial=-1)) + 1)
        self.partition[keys] = partitions

    def drop(self, keys: "Ints") -> None:
        """Keys that were released."""
        self.partition[keys] = -1

    def earlier(self, partition: int, number: int) -> "Ints":
        """The keys of a partition that were last seen in a pass before this one."""
        import numpy as np

        return np.flatnonzero((self.partition == partition) & (self._pass < number))

    def known(self) -> "Ints":
        """All keys that came from a partition."""
        import numpy as np

        return np.flatnonzero(self.partition >= 0)

    def by_key(self, values: Mapping[int, int]) -> "Ints":
        """Values by partition as an array by key number, -1 for keys and partitions without one."""
        import numpy as np

        by_partition = np.full(max(max(values, default=-1), int(self.partition.max())) + 2, -1, np.int64)
        for partition, value in values.items():
            by_partition[partition] = value
        return by_partition[self.partition]  # -1 selects the last place, which is -1

    def _reserve(self, rows: int) -> None:
        self.partition, self._pass = grown(self.partition, rows, -1), grown(self._pass, rows, -1)


def commits_as_of(read_ms: "Ints", is_whole: "NDArray[np.bool_]", seen_ms: "Ints", rows: int) -> "Ints":
    """By row, until when its commits are known: a commit that came in an answer is newer than the request.

    `read_ms` is by key number until when all commits were read, `is_whole` whether that answer went to the end of the
    log: while it does not, newer commits than those at hand are still to be read. `seen_ms` is by row when its newest
    commit came. Rows without a value get -1.
    """
    import numpy as np

    rows = max(rows, len(read_ms))
    found, seen, whole = np.full(rows, -1, np.int64), np.full(rows, -1, np.int64), np.zeros(rows, bool)
    found[: len(read_ms)], seen[: len(seen_ms)], whole[: len(is_whole)] = read_ms, seen_ms, is_whole
    return np.where((found >= 0) & whole, np.maximum(found, seen), found)
