"""A store with compare-and-set for leases, control requests and routes."""

from collections.abc import Mapping
from typing import Protocol

from kafkakit.core.lease import Versioned


class ControlStore(Protocol):
    """Small documents that several processes read and replace, one at a time; linearisable for each path.

    A path is `name/name/...` (`core.control_paths.check_path` has the rules); a value has 1 byte to 64 KiB. Versions
    of a path grow with every change, also over a deletion; they are not consecutive. Calls raise `TryLaterError`
    when the store cannot be reached: a write may then have happened or not (read before repeating it).
    """

    def get(self, path: str) -> Versioned | None:
        """Read a path, with everything that was written before the call; None when it holds nothing."""
        ...

    def cas(self, path: str, value: bytes, expected: int | None) -> int:
        """Replace the value if its version is still `expected` (None: it holds nothing); returns the new version.

        Raises `ConflictError` when it is not: then nothing was written. At most one of several callers that
        expect the same version succeeds.
        """
        ...

    def delete(self, path: str, expected: int) -> None:
        """Remove the value if its version is still `expected`; raises `ConflictError` when it is not."""
        ...

    def children(self, path: str) -> tuple[str, ...]:
        """The names directly below a path (the root is the empty path) that hold a value or lead to one, sorted."""
        ...

    def values(self, path: str) -> Mapping[str, Versioned]:
        """What stands directly below a path, by name, sorted; each read with everything written before the call."""
        ...

    def await_change(self, path: str, known: int | None, timeout_s: float) -> bool:
        """Wait until a path holds another version than `known` (None: nothing); False when `timeout_s` ended first.

        True comes within half a second of the change while the store can be reached. A change is never missed: a path
        that differs already returns at once.
        """
        ...

    def close(self) -> None:
        """Let go of connections; closing twice is harmless."""
        ...
