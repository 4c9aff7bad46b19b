import pytest

from kafkakit.streams.client import control_store as route_follower


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake store raises only at the start of a wait."""
    monkeypatch.setattr(route_follower, "WAIT_S", 0.1)
