"""ZooKeeper through kazoo: the two znodes of kafka-kit's metricsfetcher."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from kazoo.exceptions import KazooException, NoAuthError, NoNodeError, RolledBackError

from kafkakit.adapters.zookeeper.client import error_text, start_client
from kafkakit.core.errors import InputError, OperationFailedError, TryLaterError, UsageError
from kafkakit.core.metrics_znodes import (
    BROKER_STORAGE,
    PARTITION_SIZES,
    Compression,
    decode_broker_storage,
    decode_partition_sizes,
    encode_parts,
)
from kafkakit.core.storage_reading import FreeStorage, PartitionSizes, StorageReading
from kafkakit.core.zookeeper_address import parse_zookeeper_address, znode_path

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
        compression: Compression = Compression.GZIP,
        read_only: bool = True,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._compression, self._read_only = compression, read_only
        self._hosts, self._chroot = parse_zookeeper_address(address, "--zk-addr")
        self._prefix = znode_path(prefix, "--zk-metrics-prefix")
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
                hint="run metricsfetcher first, or name its place with --zk-metrics-prefix",
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
            raise TryLaterError(f"ZooKeeper {self._hosts} gave no answer ({error_text(error)})", hint=_HINT) from None

    def _connected(self) -> Any:
        if self._client is None:
            self._client = start_client(
                self._hosts, session_s=self._timeout_s, wait_s=self._timeout_s, hint=_HINT, read_only=self._read_only
            )
        return self._client


_HINT = "check --zk-addr and that a server is up, or take sizes from the brokers (--sizes-from brokers)"


def _not_allowed(path: str) -> OperationFailedError:
    return OperationFailedError(f"not allowed to read or write znode {path}", hint="its ACL must let anyone do so")


def _time(milliseconds: int, source: str) -> datetime:
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        raise InputError(source, f"was changed at {milliseconds} ms, which is not a date") from None
