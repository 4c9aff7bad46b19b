"""A control store in ZooKeeper, through kazoo: one znode a path below `/kafkakit`.

A version is the znode's own plus one. A deleted document leaves an empty znode behind, as do the folders above a
document, so that versions never begin again. A read makes the server catch up with the leader first (`sync`):
without it, ZooKeeper may answer from the past.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from kazoo.exceptions import BadVersionError, KazooException, NoAuthError, NodeExistsError, NoNodeError

from kafkakit.adapters.zookeeper.client import error_text, start_client
from kafkakit.core.control_paths import check_folder, check_path, check_value, conflict
from kafkakit.core.errors import OperationFailedError, TryLaterError
from kafkakit.core.versioned import Versioned
from kafkakit.core.zookeeper_address import parse_zookeeper_address

ROOT = "/kafkakit"
CONNECT_TIMEOUT_S = 10.0
ANSWER_LIMIT_S = 10.0
_AT_ONCE = 500
_WATCH_S = 5.0
_HINT = "check zookeeper.addr and that a majority of the servers is up"


class ZooKeeperControl:
    """Implements `ports.ControlStore`; safe for several threads, which wait for one another.

    `address` is `host:port,host:port/chroot`. Connects on first use, and again after every failure: a request that
    was not answered is dropped with its connection and not sent again. With another `root` it is a tree of another
    program, outside the chroot of the address: what is deleted is gone, and versions begin again.
    """

    def __init__(self, address: str, *, answer_limit_s: float = ANSWER_LIMIT_S, root: str = ROOT) -> None:
        self._hosts, chroot = parse_zookeeper_address(address, "zookeeper.addr")
        self._is_own = root == ROOT
        self._root = f"{chroot}{root}" if self._is_own else root
        self._answer_limit_s = answer_limit_s
        self._client: Any = None
        self._lock = threading.Lock()

    def get(self, path: str) -> Versioned | None:
        """Two requests."""
        znode = self._znode(check_path(path))
        with self._lock:
            version, value = self._read(znode)
        return Versioned(value=value, version=version) if value else None

    def cas(self, path: str, value: bytes, expected: int | None) -> int:
        """One request, or a few where the path is to be made."""
        parts = check_path(path)
        check_value(value)
        with self._lock:
            return self._create(path, parts, value) if expected is None else self._set(path, parts, value, expected)

    def delete(self, path: str, expected: int) -> None:
        """Empties the znode, which goes in a tree of another program; one request."""
        parts = check_path(path)
        with self._lock:
            if self._is_own:
                self._set(path, parts, b"", expected)
                return
            znode = self._znode(parts)
            try:
                self._ask(lambda client: client.delete_async(znode, version=expected - 1), znode)
            except NoNodeError:
                raise conflict(path, expected, None) from None
            except BadVersionError:
                raise conflict(path, expected, self._read(znode)[0]) from None

    def children(self, path: str) -> tuple[str, ...]:
        """Two requests for each znode below."""
        parts = check_folder(path)
        with self._lock:
            names = self._names(self._znode(parts))
            return tuple(sorted(name for name in names if self._leads_to_a_value(self._znode((*parts, name)))))

    def values(self, path: str) -> Mapping[str, Versioned]:
        """Two requests, and one for each znode below, of which 500 are on their way at a time."""
        parts = check_folder(path)
        found: dict[str, Versioned] = {}
        with self._lock:
            names = sorted(self._names(self._znode(parts)))
            for start in range(0, len(names), _AT_ONCE):
                found |= self._ask(_Reads(self._znode(parts), names[start : start + _AT_ONCE]), self._znode(parts))
        return found

    def await_change(self, path: str, known: int | None, timeout_s: float) -> bool:
        """A watch of the znode; looks again every five seconds, since a watch may end with its session."""
        znode = self._znode(check_path(path))
        end = time.monotonic() + timeout_s
        while True:
            moved = threading.Event()
            with self._lock:
                self._ask(partial(_watch, znode, moved), znode)
                version, present = self._read(znode)
            if (version if present else None) != known:
                return True
            left = end - time.monotonic()
            if left <= 0:
                return False
            moved.wait(min(left, _WATCH_S))

    def close(self) -> None:
        """Ends the session; closing twice is harmless."""
        with self._lock:
            self._drop()

    def _set(self, path: str, parts: tuple[str, ...], value: bytes, expected: int) -> int:
        znode = self._znode(parts)
        # ZooKeeper takes -1 for any version.
        if expected >= 1:
            try:
                stat = self._ask(lambda client: client.set_async(znode, value, version=expected - 1), znode)
            except (BadVersionError, NoNodeError):
                pass
            else:
                return int(stat.version) + 1
        version, present = self._read(znode)
        raise conflict(path, expected, version if present else None)

    def _create(self, path: str, parts: tuple[str, ...], value: bytes) -> int:
        znode = self._znode(parts)
        try:
            self._ask(lambda client: client.create_async(znode, value, makepath=True), znode)
        except NodeExistsError:
            version, present = self._read(znode)
            if present:
                raise conflict(path, None, version) from None
            return self._set(path, parts, value, version)
        return 1

    def _read(self, znode: str) -> tuple[int, bytes]:
        """Version and data, 0 and nothing when there is no such znode."""
        self._ask(lambda client: client.sync_async(self._root or "/"), znode)
        try:
            data, stat = self._ask(lambda client: client.get_async(znode), znode)
        except NoNodeError:
            return 0, b""
        return int(stat.version) + 1, bytes(data)

    def _names(self, znode: str) -> list[str]:
        self._ask(lambda client: client.sync_async(self._root or "/"), znode)
        try:
            return list(self._ask(lambda client: client.get_children_async(znode), znode))
        except NoNodeError:
            return []

    def _leads_to_a_value(self, znode: str) -> bool:
        if self._read(znode)[1]:
            return True
        return any(self._leads_to_a_value(f"{znode}/{name}") for name in self._names(znode))

    def _znode(self, parts: tuple[str, ...]) -> str:
        return "/".join((self._root, *parts))

    def _ask(self, call: Callable[[Any], Any], znode: str) -> Any:
        """Send one request and wait; lets through the errors of a refused version or path."""
        client = self._connected()
        try:
            return call(client).get(timeout=self._answer_limit_s)
        except (BadVersionError, NoNodeError, NodeExistsError):
            raise
        except NoAuthError:
            raise OperationFailedError(
                f"not allowed to use znode {znode} in ZooKeeper {self._hosts}",
                hint=f"its ACL must let this user read, create and write below {self._root}",
            ) from None
        except (KazooException, client.handler.timeout_exception) as error:
            self._drop()
            raise TryLaterError(f"ZooKeeper {self._hosts} gave no answer ({error_text(error)})", hint=_HINT) from None
        except BaseException:
            self._drop()  # interrupted: what was sent must not be taken for what is sent next
            raise

    def _connected(self) -> Any:
        if self._client is None:
            self._client = start_client(
                self._hosts, session_s=CONNECT_TIMEOUT_S, wait_s=self._answer_limit_s, hint=_HINT
            )
        return self._client

    def _drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.stop()
            client.close()


def _watch(znode: str, moved: threading.Event, client: Any) -> Any:
    return client.exists_async(znode, watch=lambda _: moved.set())


class _Reads:
    """Several reads as one request of `_ask`, which waits for all of them; a znode that is gone by then has none."""

    def __init__(self, folder: str, names: Sequence[str]) -> None:
        self._folder, self._names = folder, names
        self._waiting: dict[str, Any] = {}

    def __call__(self, client: Any) -> "_Reads":
        self._waiting = {name: client.get_async(f"{self._folder}/{name}") for name in self._names}
        return self

    def get(self, timeout: float) -> dict[str, Versioned]:
        """The values; raises what one of the reads raises."""
        end = time.monotonic() + timeout
        found: dict[str, Versioned] = {}
        for name, answer in self._waiting.items():
            with suppress(NoNodeError):
                data, stat = answer.get(timeout=max(0.001, end - time.monotonic()))
                if data:
                    found[name] = Versioned(value=bytes(data), version=int(stat.version) + 1)
        return found
