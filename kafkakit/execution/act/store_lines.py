"""Journal lines in the control store, so that a process on another host knows what the one before it has set.

A write that expects another version than the one that is there fails: a process that lost the lead writes nothing.
"""

from contextlib import suppress

from kafkakit.core.errors import ConflictError, LeaseLostError, OperationFailedError, TryLaterError
from kafkakit.ports.control import ControlStore

CHUNK_BYTES = 60_000
LIMIT_BYTES = 64 << 20
TRIES = 10
MOST_PIECES = 20


class MemoryLines:
    """Lines that are nowhere else yet."""

    def __init__(self, name: str) -> None:
        self.name, self.data = name, b""

    def read(self) -> bytes:
        """See `LineFile`."""
        return self.data

    def append(self, line: bytes) -> None:
        """See `LineFile`."""
        self.data += line

    def cut(self, size: int) -> None:
        """See `LineFile`."""
        self.data = self.data[:size]

    def set_aside(self) -> None:
        """See `LineFile`; there is nothing to keep."""


def pacer_lines(store: ControlStore, cluster_id: str) -> "StoreLines":
    """The journal of the pacers of a cluster (`kafkakit autothrottle`): the throttles that they have set."""
    return StoreLines(store, f"clusters/{cluster_id}/autothrottle/journal")


class StoreLines:
    """Implements `LineFile`: pieces of 60 kB below `root/GENERATION/N`; the newest generation with a piece 0 counts."""

    def __init__(self, store: ControlStore, root: str) -> None:
        self._store, self._root = store, root
        self.name = f"control document {self._root}"
        self._generation = 0
        self._tail = -1
        self._tail_version: int | None = None
        self._tail_bytes = b""

    def read(self) -> bytes:
        """All bytes; one request a piece. Raises `TryLaterError`, and `OperationFailedError` without a piece."""
        self._generation, self._tail, self._tail_version, self._tail_bytes = 0, -1, None, b""
        for generation in reversed(self._numbers(self._root)):
            numbers = self._numbers(f"{self._root}/{generation}")
            if numbers[:1] != [0]:
                continue  # cut while it was written
            if numbers != list(range(len(numbers))) or len(numbers) * CHUNK_BYTES > LIMIT_BYTES:
                raise OperationFailedError(f"{self.name} is damaged", hint="remove it, and the throttles by hand")
            data = b""
            for number in numbers:
                found = self._store.get(self._piece(generation, number))
                if found is None:
                    raise TryLaterError(f"{self.name} changed while it was read")
                self._tail, self._tail_version, self._tail_bytes = number, found.version, found.value
                data += found.value
            self._generation = generation
            return data
        return b""

    def append(self, line: bytes) -> None:
        """Write behind the last byte; raises `LeaseLostError` when another process wrote since `read`."""
        while line:
            free = CHUNK_BYTES - len(self._tail_bytes)
            if self._tail < 0 or free <= 0:
                self._tail, self._tail_version, self._tail_bytes, free = self._tail + 1, None, b"", CHUNK_BYTES
            path = self._piece(self._generation, self._tail)
            try:
                version = self._store.cas(path, self._tail_bytes + line[:free], self._tail_version)
            except ConflictError:
                raise LeaseLostError(f"{self.name} was written by another process") from None
            except TryLaterError as error:
                raise OperationFailedError(f"{self.name} cannot be written: {error.message}") from None
            self._tail_version, self._tail_bytes, line = version, self._tail_bytes + line[:free], line[free:]

    def cut(self, size: int) -> None:
        """Keep the first `size` bytes."""
        self.replace(self.read()[:size])

    def replace(self, data: bytes) -> None:
        """Other content in place of all; a process that is killed meanwhile leaves the old content or the new one."""
        old = self._numbers(self._root)
        new = max(old, default=0) + 1
        pieces = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
        try:
            for number in reversed(range(len(pieces))):
                self._store.cas(self._piece(new, number), pieces[number], None)
        except ConflictError:
            raise LeaseLostError(f"{self.name} was written by another process") from None
        for generation in old:
            self._forget(generation)
        self.read()

    def set_aside(self) -> None:
        """See `LineFile`; a damaged journal in the store is an error of its own, nothing is kept."""

    def _forget(self, generation: int) -> None:
        for number in reversed(self._numbers(f"{self._root}/{generation}")):
            path = self._piece(generation, number)
            found = self._store.get(path)
            if found is not None:
                with suppress(ConflictError):
                    self._store.delete(path, found.version)

    def _numbers(self, folder: str) -> list[int]:
        return sorted(int(n) for n in self._store.children(folder) if n.isascii() and n.isdigit())

    def _piece(self, generation: int, number: int) -> str:
        return f"{self._root}/{generation}/{number}"


class SharedStoreLines(StoreLines):
    """Lines of several processes at once: each comes whole behind those that are there.

    Of more than `MOST_PIECES` pieces the newer half is kept.
    """

    def append(self, line: bytes) -> None:
        """Write behind the last line of any process; raises `TryLaterError` after `TRIES` other writers in a row."""
        for _ in range(TRIES):
            data = self.read()
            if self._tail >= MOST_PIECES:
                with suppress(LeaseLostError):  # another process does it
                    self.replace(data[len(data) // 2 :].partition(b"\n")[2])
                continue
            is_in_tail = self._tail >= 0 and len(self._tail_bytes) + len(line) <= CHUNK_BYTES
            number = self._tail if is_in_tail else self._tail + 1
            before, version = (self._tail_bytes, self._tail_version) if is_in_tail else (b"", None)
            with suppress(ConflictError):
                self._store.cas(self._piece(self._generation, number), before + line, version)
                return
        raise TryLaterError(f"{self.name} is written by other processes again and again")
