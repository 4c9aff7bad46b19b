"""What goes out of the monitor as datagrams: metrics to an agent, notes to the service manager."""

import socket
from pathlib import Path

import pytest

from kafkakit.adapters.host import notify_service
from kafkakit.adapters.metrics_services import DogStatsd
from kafkakit.core.errors import UsageError


def test_datagrams_reach_the_agent_as_they_are() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as agent:
        agent.bind(("127.0.0.1", 0))
        agent.settimeout(5)
        sender = DogStatsd(f"127.0.0.1:{agent.getsockname()[1]}")
        sent = [b"kafkakit.lag.records:1|g|#group:a\nkafkakit.lag.records:2|g", b"x" * 1400]
        sender.send(sent)
        assert [agent.recv(65536) for _ in sent] == sent
        sender.send([b"x" * 100_000])
        assert sender.dropped == 1
        sender.close()
        sender.close()


@pytest.mark.parametrize("address", ["", "localhost", "localhost:0", "localhost:x", ":8125"])
def test_what_is_no_agent_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="not the address of an agent"):
        DogStatsd(address)


@pytest.mark.parametrize("abstract", [False, True])
def test_the_service_manager_hears_it(abstract: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"@kafkakit-test-{tmp_path.name}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name[1:] if abstract else name)
        manager.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        assert notify_service("READY=1", "STATUS=two clusters")
        assert manager.recv(4096) == b"READY=1\nSTATUS=two clusters"


def test_without_a_service_manager_nothing_happens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not notify_service("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    assert not notify_service("READY=1")
