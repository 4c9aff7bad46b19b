"""The sources of sizes beside the brokers: the word of each on the command line, and what opens it."""

from collections.abc import Callable, Mapping

from kafkakit.ports.metrics import StorageMetrics


def _zookeeper(addresses: str, prefix: str) -> StorageMetrics:
    from kafkakit.adapters.metrics.znodes import ZooKeeperMetrics

    return ZooKeeperMetrics(addresses, prefix)


SOURCES: Mapping[str, Callable[[str, str], StorageMetrics]] = {"zookeeper": _zookeeper}
"""Each takes addresses and a prefix, and connects on the first read."""
