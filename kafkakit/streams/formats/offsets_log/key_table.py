"""Numbers for the keys of committed offsets, so that everything about them can live in arrays.

One table serves all partitions of one cluster's `__consumer_offsets`, in one thread. A key of 40 bytes costs 180: its
bytes object, a dict entry, a number, and its place in a list and three arrays; 100,000 such keys take 18 MB. A table
without keys is false, as any container is.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from kafkakit.streams.formats.offsets_log.keys import LogKey, Undecodable, decode_key

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_KEYS = 1_000_000
MAX_KEY_BYTES = 1_024
"""Longer keys are left out: topics have at most 249 characters, and no sane group id has hundreds."""


class CommitKey(NamedTuple):
    """Whose offset it is: a group's, for one partition of a topic."""

    group: str
    topic: str
    partition: int


class KeysFull(NamedTuple):
    """A key was left out because the table holds as many as it may, or because the key is too long."""

    reason: str


class KeyTable:
    """Key bytes (those of key type 1) to numbers from 0 and back; released numbers are given out again.

    `group_index` and `topic_index` hold, for every number below `capacity`, the place of its name in `groups` and
    `topics`, and `partition` its partition; of released numbers they hold -1. The arrays are replaced as they grow.
    """

    def __init__(self, *, max_keys: int = MAX_KEYS, max_key_bytes: int = MAX_KEY_BYTES) -> None:
        import numpy as np

        self.max_keys = max_keys
        self.max_key_bytes = max_key_bytes
        self.groups = Names()
        self.topics = Names()
        self._numbers: dict[bytes, int] = {}
        self._keys: list[bytes | None] = []
        self._free: list[int] = []
        self.group_index: NDArray[np.int32] = np.full(64, -1, np.int32)
        self.topic_index: NDArray[np.int32] = np.full(64, -1, np.int32)
        self.partition: NDArray[np.int32] = np.full(64, -1, np.int32)

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def capacity(self) -> int:
        """One past the highest number given out so far: the length that arrays by key need."""
        return len(self._keys)

    def number_of(self, key: bytes) -> int | None:
        """The number of a key, None for one that the table does not hold."""
        return self._numbers.get(key)

    def bytes_of(self, number: int) -> bytes:
        """The key of a number in use."""
        key = self._keys[number]
        if key is None:
            raise KeyError(number)
        return key

    def key_of(self, number: int) -> CommitKey:
        """The group, topic and partition of a number in use."""
        self.bytes_of(number)
        group = self.groups[int(self.group_index[number])]
        return CommitKey(group, self.topics[int(self.topic_index[number])], int(self.partition[number]))

    def intern(self, key: bytes) -> int | Undecodable | KeysFull:
        """The number of a key, a new one where the table does not hold it; the value says why it cannot."""
        number = self._numbers.get(key)
        if number is not None:
            return number
        if len(key) > self.max_key_bytes:
            return KeysFull(f"a key of {len(key)} bytes")
        decoded = decode_key(key)
        if isinstance(decoded, Undecodable):
            return decoded
        if not isinstance(decoded, LogKey):
            return Undecodable("a key of something else than an offset")
        if len(self._numbers) >= self.max_keys:
            return KeysFull(f"{self.max_keys} keys are held")
        return self._add(key, decoded)

    def _add(self, key: bytes, decoded: LogKey) -> int:
        if self._free:
            number = self._free.pop()
            self._keys[number] = key
        else:
            number = len(self._keys)
            self._keys.append(key)
            if number >= len(self.partition):
                self._grow()
        self._numbers[key] = number
        self.group_index[number] = self.groups.hold(decoded.group)
        self.topic_index[number] = self.topics.hold(decoded.topic)
        self.partition[number] = decoded.partition
        return number

    def _grow(self) -> None:
        import numpy as np

        more = np.full(len(self.partition), -1, np.int32)
        self.group_index = np.concatenate((self.group_index, more))
        self.topic_index = np.concatenate((self.topic_index, more))
        self.partition = np.concatenate((self.partition, more))

    def release(self, numbers: Iterable[int]) -> None:
        """Forget keys, say after their tombstones; their numbers will name other keys. Unknown ones are let be."""
        for number in numbers:
            key = self._keys[number] if 0 <= number < len(self._keys) else None
            if key is None:
                continue
            del self._numbers[key]
            self._keys[number] = None
            self.groups.let_go(int(self.group_index[number]))
            self.topics.let_go(int(self.topic_index[number]))
            self.group_index[number] = self.topic_index[number] = self.partition[number] = -1
            self._free.append(number)

    def lookup(self, data: bytes, starts: "NDArray[np.int64]", ends: "NDArray[np.int64]") -> "NDArray[np.int64]":
        """The numbers of many keys that lie in `data`, -1 for those not held. Cost: about 150 ns each."""
        import numpy as np

        get = self._numbers.get
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        return np.fromiter([get(data[a:b], -1) for a, b in spans], np.int64, len(starts))


class Names:
    """Strings held once, with numbers that are reused when no row holds a string any longer."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._holders: list[int] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, number: int) -> str:
        return self._names[number]

    @property
    def capacity(self) -> int:
        """One past the highest number given out so far."""
        return len(self._names)

    def hold(self, name: str) -> int:
        """The number of a string, held once more."""
        number = self._numbers.get(name)
        if number is not None:
            self._holders[number] += 1
            return number
        if self._free:
            number = self._free.pop()
            self._names[number] = name
            self._holders[number] = 1
        else:
            number = len(self._names)
            self._names.append(name)
            self._holders.append(1)
        self._numbers[name] = number
        return number

    def let_go(self, number: int) -> None:
        """Undo one `hold`; the last one frees the string."""
        self._holders[number] -= 1
        if not self._holders[number]:
            del self._numbers[self._names[number]]
            self._names[number] = ""
            self._free.append(number)
