"""`ports.ControlStore` in memory, with faults on demand."""

import threading

from kafkakit.core.errors import TryLaterError
from kafkakit.core.lease import VersionedValue, check_folder, check_path, check_value, conflict


class FakeControlStore:
    """Keeps the contract (tests/control_contract.py runs against it).

    `away`: every call raises `TryLaterError`. `lose_answers`: the next writes happen, but their callers are told
    that the store did not answer. `writes` counts what was written.
    """

    def __init__(self) -> None:
        self.away = False
        self.lose_answers = 0
        self.writes = 0
        self._documents: dict[str, tuple[int, bytes]] = {}
        self._changed = threading.Condition()

    def get(self, path: str) -> VersionedValue | None:
        check_path(path)
        self._reach()
        version, value = self._documents.get(path, (0, b""))
        return VersionedValue(value=value, version=version) if value else None

    def cas(self, path: str, value: bytes, expected: int | None) -> int:
        check_path(path)
        return self._replace(path, check_value(value), expected)

    def delete(self, path: str, expected: int) -> None:
        check_path(path)
        self._replace(path, b"", expected)

    def children(self, path: str) -> tuple[str, ...]:
        folder = check_folder(path)
        self._reach()
        live = [tuple(name.split("/")) for name, (_, value) in self._documents.items() if value]
        below = [parts for parts in live if len(parts) > len(folder) and parts[: len(folder)] == folder]
        return tuple(sorted({parts[len(folder)] for parts in below}))

    def values(self, path: str) -> dict[str, VersionedValue]:
        below = {name: self.get("/".join((*check_folder(path), name))) for name in self.children(path)}
        return {name: found for name, found in below.items() if found is not None}

    def await_change(self, path: str, known: int | None, timeout_s: float) -> bool:
        def differs() -> bool:
            found = self.get(path)
            return (found.version if found else None) != known

        with self._changed:
            return self._changed.wait_for(differs, timeout_s)

    def close(self) -> None:
        pass

    def _replace(self, path: str, value: bytes, expected: int | None) -> int:
        self._reach()
        version, present = self._documents.get(path, (0, b""))
        found = version if present else None
        if found != expected:
            raise conflict(path, expected, found)
        with self._changed:
            self._documents[path] = (version + 1, value)
            self._changed.notify_all()
        self.writes += 1
        if self.lose_answers:
            self.lose_answers -= 1
            raise TryLaterError("the control store did not answer")
        return version + 1

    def _reach(self) -> None:
        if self.away:
            raise TryLaterError("the control store is away")
