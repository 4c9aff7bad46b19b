"""The ZooKeeper adapter without a server: addresses and prefixes that cannot be meant, and nobody at home."""

import socket
from collections.abc import Iterator

import pytest

from kafkakit.adapters.zookeeper import ZooKeeperMetrics
from kafkakit.core.errors import TryLaterError, UsageError


@pytest.mark.parametrize(
    ("address", "prefix", "source"),
    [
        ("localhost", "topicmappr", "ZooKeeper localhost:2181/topicmappr"),
        ("zk1:2182, zk2", "/topicmappr/", "ZooKeeper zk1:2182,zk2:2181/topicmappr"),
        ("zk1,zk2:2183/kafka/east", "", "ZooKeeper zk1:2181,zk2:2183/kafka/east"),
        ("[::1]:2181", "a/b", "ZooKeeper [::1]:2181/a/b"),
    ],
)
def test_addresses_and_prefixes(address: str, prefix: str, source: str) -> None:
    metrics = ZooKeeperMetrics(address, prefix)
    assert metrics.source == source
    metrics.close()


@pytest.mark.parametrize(
    ("address", "prefix"),
    [
        ("", "p"),
        ("zk1:0", "p"),
        ("zk1:65536", "p"),
        ("zk1:x", "p"),
        ("zk1,,zk2", "p"),
        ("http://zk1", "p"),
        ("zk 1", "p"),
        ("zk1/../x", "p"),
        ("zk1", "a/../b"),
        ("zk1", "a\x00b"),
        ("zk1", "x" * 300),
    ],
)
def test_what_is_no_address_or_path_is_refused(address: str, prefix: str) -> None:
    with pytest.raises(UsageError, match="--zk-"):
        ZooKeeperMetrics(address, prefix)


@pytest.fixture
def silent_port() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(5)
        yield server.getsockname()[1]


def test_a_server_that_takes_connections_and_says_nothing(
    silent_port: int, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    metrics = ZooKeeperMetrics(f"127.0.0.1:{silent_port}", "topicmappr", timeout_s=0.3)
    with pytest.raises(TryLaterError, match=r"Failed to connect to ZooKeeper 127\.0\.0\.1:\d+ within 0\.3 s"):
        metrics.read()
    metrics.close()
    assert (capfd.readouterr(), caplog.records) == (("", ""), [])
