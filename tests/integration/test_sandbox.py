import pytest

from tests.integration.conftest import SandboxCluster

pytestmark = pytest.mark.kafka


def test_every_broker_is_registered_and_unfenced(cluster: SandboxCluster) -> None:
    admin = cluster.open_admin()
    try:
        info = admin.cluster()
    finally:
        admin.close()
    assert info.cluster_id == cluster.cluster_id
    assert [broker.id for broker in info.brokers if broker.is_alive] == [1001, 1002, 1003]
