"""The sources of sizes beside the brokers: the word of each on the command line, and what opens it."""

from collections.abc import Callable, Mapping

from kafkakit.core.storage_reading import FROM_FILE
from kafkakit.ports.metrics import StorageMetrics

ReadFile = Callable[[str, int], bytes]


def _zookeeper(addresses: str, prefix: str, read_file: ReadFile) -> StorageMetrics:
    del read_file
    from kafkakit.adapters.metrics.znodes import ZooKeeperMetrics

    return ZooKeeperMetrics(addresses, prefix)


def _file(path: str, prefix: str, read_file: ReadFile) -> StorageMetrics:
    del prefix
    from kafkakit.adapters.metrics.storage_file import StorageFile

    return StorageFile(path, read_file)


SOURCES: Mapping[str, Callable[[str, str, ReadFile], StorageMetrics]] = {"zookeeper": _zookeeper, FROM_FILE: _file}
"""Each takes addresses (or a path), a prefix and what reads files, and connects on the first read."""
