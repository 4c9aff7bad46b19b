"""Which control store the settings lead to."""

from pathlib import Path

import pytest

from kafkakit.adapters.host import SystemClock
from kafkakit.config.read.settings import GivenSettings, Settings, load_settings
from kafkakit.core.errors import UsageError
from kafkakit.wiring import open_control, open_lease


def settings(tmp_path: Path, *overrides: str) -> Settings:
    environment = {"HOME": str(tmp_path), "KAFKAKIT_BOOTSTRAP_SERVER": "127.0.0.1:1"}
    return load_settings(GivenSettings(overrides=overrides), environment, warn=pytest.fail, input_allowed=False)


@pytest.mark.parametrize(
    ("overrides", "kind"),
    [
        ((), "FileControl"),
        (("control_store=file",), "FileControl"),
        (("control_store=kafka",), "KafkaControl"),
        (("control_store=zookeeper", "zookeeper.addr=zk1,zk2:2182/chroot"), "ZooKeeperControl"),
    ],
)
def test_each_name_has_its_store_and_none_connects_before_it_is_used(
    tmp_path: Path, overrides: tuple[str, ...], kind: str
) -> None:
    store = open_control(settings(tmp_path, *overrides))
    assert type(store).__name__ == kind
    store.close()


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (("control_store=etcd",), "control_store .* must be one of file, zookeeper, kafka, found 'etcd'"),
        (("control_store=zookeeper",), "no ZooKeeper address is configured"),
        (("control_store=zookeeper", "zookeeper.addr=zk1:x"), "zookeeper.addr: 'zk1:x' is not HOST:PORT"),
        (("control_store=zookeeper", "zookeeper.addr=zk1/a/.."), "is not a part of a znode's path"),
    ],
)
def test_what_does_not_fit_is_said(tmp_path: Path, overrides: tuple[str, ...], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        open_control(settings(tmp_path, *overrides))


def test_files_live_below_the_state_folder_and_a_lease_can_be_had(tmp_path: Path) -> None:
    found = settings(tmp_path)
    store = open_control(found)
    lease = open_lease(store, SystemClock(), "Abc-_1", "reassign apply", pytest.fail)
    assert lease.acquire() == 1
    assert (found.state_dir / "control" / "clusters" / "Abc-_1" / "lease" / "@value").exists()
    lease.release()
