"""ZooKeeper through kazoo: clients and their errors, a control store, kafka-kit's lock and its two znodes of metrics.

The control store has one znode for each path, below `/kafkakit`. A version is the znode's own plus one. A deleted
document leaves an empty znode behind, as do the folders above a document, so that versions never begin again. A read
makes the server catch up with the leader first (`sync`): without it, ZooKeeper may answer from the past.

kafka-kit's lock is a queue of ephemeral sequential znodes, of which the lowest number holds the lock. Each claim is
`<path>/_c_<guid>-lock-<number>` and holds JSON with the time from which others may delete it. The znode goes with the
session, so a process that dies holds nothing for longer than its session lasts.

The two znodes are those of kafka-kit's metricsfetcher.
"""

import json
import logging
import secrets
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, KazooException, NoAuthError, NodeExistsError, NoNodeError, RolledBackError

from kafkakit.core.cluster_facts import FreeStorage, PartitionSizes, StorageReading
from kafkakit.core.errors import InputError, OperationFailedError, TryLaterError, UsageError
from kafkakit.core.lease import (
    VersionedValue,
    check_folder,
    check_path,
    check_value,
    conflict,
    parse_zookeeper_address,
    znode_path,
)
from kafkakit.core.storage_documents import (
    BROKER_STORAGE,
    PARTITION_SIZES,
    Compression,
    decode_broker_storage,
    decode_partition_sizes,
    encode_parts,
)
from kafkakit.ports.acting import pace


def start_client(hosts: str, *, session_s: float, wait_s: float, hint: str, read_only: bool = False) -> Any:
    """A connected client; raises `TryLaterError` with the hint where no server answers within `wait_s`.

    A `read_only` one also reads from a server without a majority.
    """
    # kazoo logs each failed attempt; the one line at the end is enough.
    logger = logging.getLogger("kafkakit.zookeeper")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    client = KazooClient(hosts=hosts, timeout=session_s, read_only=read_only, logger=logger)
    try:
        with warnings.catch_warnings(action="ignore"):
            client.start(timeout=wait_s)
    except (KazooException, client.handler.timeout_exception, OSError) as error:
        raise TryLaterError(
            f"Failed to connect to ZooKeeper {hosts} within {wait_s:g} s ({error_text(error)})", hint=hint
        ) from None
    return client


def error_text(error: BaseException) -> str:
    """An error of kazoo in one line, which may have no text of its own."""
    return " ".join(str(error).split())[:200] or type(error).__name__


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

    def get(self, path: str) -> VersionedValue | None:
        """Two requests."""
        znode = self._znode(check_path(path))
        with self._lock:
            version, value = self._read(znode)
        return VersionedValue(value=value, version=version) if value else None

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

    def values(self, path: str) -> Mapping[str, VersionedValue]:
        """Two requests, and one for each znode below, of which 500 are on their way at a time."""
        parts = check_folder(path)
        found: dict[str, VersionedValue] = {}
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

    def get(self, timeout: float) -> dict[str, VersionedValue]:
        """The values; raises what one of the reads raises."""
        end = time.monotonic() + timeout
        found: dict[str, VersionedValue] = {}
        for name, answer in self._waiting.items():
            with suppress(NoNodeError):
                data, stat = answer.get(timeout=max(0.001, end - time.monotonic()))
                if data:
                    found[name] = VersionedValue(value=bytes(data), version=int(stat.version) + 1)
        return found


PATH = "/registry/locks"
SESSION_S = 10.0
RELEASE_TRIES = 3
LOOK_EVERY_S = 1.0
"""How often it is looked whether the time of the claim ahead is over."""
RELEASE_PAUSE_S = 0.125
_LOCK_HINT = "check zookeeper.addr, and which program holds the lock"


class ZooKeeperLock:
    """Holds the lock for one block at a time and thread; connects on first use.

    `wait_s` bounds the wait for it, `ttl_s` how long other programs respect a claim. Raises `TryLaterError`.
    """

    def __init__(self, address: str, now: Callable[[], datetime], *, wait_s: float, ttl_s: float) -> None:
        self._hosts, _ = parse_zookeeper_address(address, "zookeeper.addr")
        self._now, self._wait_s, self._ttl = now, wait_s, timedelta(seconds=ttl_s)
        self._client: Any = None
        self._opening = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock for the block."""
        client = self._connected()
        try:
            claim = self._claim(client)
        except KazooException as error:
            self.close()  # with the session goes a claim whose answer was lost
            raise _failure(f"attempt to acquire lock failed: {error_text(error)}") from None
        try:
            yield
        finally:
            self._release(client, claim)

    def close(self) -> None:
        """End the session, and with it every claim; closing twice is harmless."""
        with self._opening:
            client, self._client = self._client, None
        if client is not None:
            client.stop()
            client.close()

    def _claim(self, client: Any) -> str:
        now = self._now().astimezone(UTC)
        times = {"timestamp": now, "ttl_deadline": now + self._ttl}
        document = {key: at.strftime("%Y-%m-%dT%H:%M:%SZ") for key, at in times.items()}
        data = json.dumps({**document, "owner_id": "kafkakit"}, separators=(",", ":")).encode()
        name = f"{PATH}/_c_{secrets.token_hex(16)}-lock-"
        made: str = client.create(name, data, ephemeral=True, sequence=True, makepath=True)
        claim, end_s = made.rpartition("/")[2], time.monotonic() + self._wait_s
        try:
            while (ahead := _ahead_of(claim, client.get_children(PATH))) is not None:
                if not self._is_expired(client, ahead):
                    _wait_for(client, ahead, min(LOOK_EVERY_S, end_s - time.monotonic()))
                if time.monotonic() >= end_s:
                    raise _failure("attempt to acquire lock timed out")
        except BaseException:
            self._release(client, claim)
            raise
        return claim

    def _is_expired(self, client: Any, claim: str) -> bool:
        """Whether a claim's time is over; then it is deleted."""
        with suppress(NoNodeError):
            data, _ = client.get(f"{PATH}/{claim}")
            if (deadline := _deadline_of(data)) is None or self._now() <= deadline:
                return False
            client.delete(f"{PATH}/{claim}")
        return True

    def _release(self, client: Any, claim: str) -> None:
        for tries_left in pace(time, reversed(range(RELEASE_TRIES)), RELEASE_PAUSE_S):
            try:
                client.delete(f"{PATH}/{claim}")
            except NoNodeError:
                return
            except KazooException:
                if not tries_left:
                    self.close()
                    return
            else:
                return

    def _connected(self) -> Any:
        with self._opening:
            if self._client is None:
                client = start_client(self._hosts, session_s=SESSION_S, wait_s=self._wait_s, hint=_LOCK_HINT)
                try:
                    with suppress(NodeExistsError):
                        client.ensure_path(PATH)
                except (KazooException, client.handler.timeout_exception, OSError) as error:
                    client.stop()
                    raise _failure(f"cannot use {PATH} in ZooKeeper {self._hosts} ({error_text(error)})") from None
                self._client = client
            return self._client


def _ahead_of(claim: str, names: list[str]) -> str | None:
    """The claim just before ours; None where ours is the first. Names that end with no number are none."""
    numbers = {name: int(number) for name in names if (number := name.rpartition("-")[2]).isdigit()}
    if claim not in numbers:
        raise _failure("attempt to acquire lock failed: the claim was deleted by another program")
    earlier = [name for name, number in numbers.items() if number < numbers[claim]]
    return max(earlier, key=lambda name: numbers[name], default=None)


def _wait_for(client: Any, claim: str, limit_s: float) -> None:
    """Wait until a claim is gone, or so long."""
    gone = threading.Event()
    if client.exists(f"{PATH}/{claim}", watch=lambda _: gone.set()) is not None:
        gone.wait(max(0.0, limit_s))


def _deadline_of(data: bytes) -> datetime | None:
    try:
        found = datetime.fromisoformat(json.loads(data)["ttl_deadline"])
    except (ValueError, KeyError, TypeError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _failure(text: str) -> TryLaterError:
    return TryLaterError(text, hint=_LOCK_HINT)


TIMEOUT_S = 10.0  # kafka-kit stops after 0.25 s, which a busy ensemble does not meet
MOST_WRITTEN = 0xFFFFF - 4096
"""Bytes: ZooKeeper closes the connection on a request larger than jute.maxbuffer, by default 0xfffff."""


class ZooKeeperMetrics:
    """`ports.StorageStore` over kafka-kit's znodes below `/<prefix>`; a `read_only` one also reads without a majority.

    `address` is `host:port,host:port/chroot`; ports default to 2181, the chroot may be missing. Connects on
    the first read; waits `timeout_s` for that, and for each answer.
    """

    def __init__(
        self,
        address: str,
        prefix: str,
        *,
        named_by: str = "--zk-addr",
        prefix_option: str = "--zk-metrics-prefix",
        alternative: str = "",
        compression: Compression = Compression.GZIP,
        read_only: bool = True,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._compression, self._read_only = compression, read_only
        self._hosts, self._chroot = parse_zookeeper_address(address, named_by)
        self._hint = f"check {named_by} and that a server is up{alternative}"
        self._prefix, self._prefix_option = znode_path(prefix, prefix_option), prefix_option
        self._timeout_s = timeout_s
        self._client: Any = None

    @property
    def source(self) -> str:
        """The place in words."""
        return f"ZooKeeper {self._hosts}{self._chroot}{self._prefix}"

    def read(self) -> StorageReading:
        """Read both znodes; their ages are their modification times, as they hold no time themselves.

        Raises `TryLaterError` when no server answers or a znode does not exist yet, `InputError` when one
        holds something else, `OperationFailedError` when reading it is not allowed.
        """
        sizes, sizes_time = self._get(PARTITION_SIZES, decode_partition_sizes)
        free, free_time = self._get(BROKER_STORAGE, decode_broker_storage)
        return StorageReading(
            source=self.source,
            sizes=PartitionSizes(bytes_of=sizes, taken_at=sizes_time),
            free=FreeStorage(bytes_of=free, taken_at=free_time),
        )

    def write(self, reading: StorageReading) -> Mapping[str, int]:
        """Replace both znodes in one transaction, so that readers never see halves of two readings."""
        parts = encode_parts(reading, self._compression)
        folder = f"{self._chroot}{self._prefix}"
        size = sum(map(len, parts.values()))
        if size > MOST_WRITTEN:
            raise UsageError(
                f"{size:,} bytes do not fit below znode {folder or '/'}: the limit is {MOST_WRITTEN:,}",
                hint="use --compression zstd, which kafkakit reads, or --to file:PATH",
            )
        self._ask(lambda client: client.ensure_path_async(folder or "/"), folder)
        there = self._ask(lambda client: client.get_children_async(folder or "/"), folder)

        def commit(client: Any) -> Any:
            transaction = client.transaction()
            for name, data in parts.items():
                (transaction.set_data if name in there else transaction.create)(f"{folder}/{name}", data)
            return transaction.commit_async()

        for error in self._ask(commit, folder):
            if isinstance(error, NoAuthError):
                raise _not_allowed(folder)
            if isinstance(error, Exception) and not isinstance(error, RolledBackError):
                raise TryLaterError(f"ZooKeeper {self._hosts} refuses to write below {folder} ({error_text(error)})")
        return {f"znode {folder}/{name}": len(data) for name, data in parts.items()}

    def close(self) -> None:
        """Let go of the connection; closing twice is harmless."""
        client, self._client = self._client, None
        if client is not None:
            client.stop()
            client.close()

    def _get(self, name: str, decode: Callable[[bytes, str], Any]) -> tuple[Any, datetime]:
        path = f"{self._chroot}{self._prefix}/{name}"
        source = f"znode {path}"
        try:
            data, stat = self._ask(lambda client: client.get_async(path), path)
        except NoNodeError:
            raise TryLaterError(
                f"there is no {source} in ZooKeeper {self._hosts}",
                hint=f"run metricsfetcher first, or name its place with {self._prefix_option}",
            ) from None
        return decode(data, source), _time(stat.mtime, source)

    def _ask(self, call: Callable[[Any], Any], path: str) -> Any:
        """Send one request and wait; lets through that a znode is missing."""
        client = self._connected()
        try:
            return call(client).get(timeout=self._timeout_s)
        except NoNodeError:
            raise
        except NoAuthError:
            raise _not_allowed(path) from None
        except (KazooException, client.handler.timeout_exception) as error:
            raise TryLaterError(
                f"ZooKeeper {self._hosts} gave no answer ({error_text(error)})", hint=self._hint
            ) from None

    def _connected(self) -> Any:
        if self._client is None:
            self._client = start_client(
                self._hosts,
                session_s=self._timeout_s,
                wait_s=self._timeout_s,
                hint=self._hint,
                read_only=self._read_only,
            )
        return self._client


def _not_allowed(path: str) -> OperationFailedError:
    return OperationFailedError(f"not allowed to read or write znode {path}", hint="its ACL must let anyone do so")


def _time(milliseconds: int, source: str) -> datetime:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        raise InputError(source, f"was changed at {milliseconds} ms, which is not a date") from None
