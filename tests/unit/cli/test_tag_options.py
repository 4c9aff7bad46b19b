"""Where commands read tags: the profile's control store, or kafka-kit's znodes."""

from types import SimpleNamespace
from typing import Any

from kafkakit.cli.common_options import TagSource
from kafkakit.core.model import TagSet
from tests.fakes.control import FakeControlStore


def session() -> Any:
    control, znodes = FakeControlStore(), FakeControlStore()
    control.cas("clusters/c/registry/broker/1", b'{"feed":"x"}', None)
    znodes.cas("tags/broker/1", b'{"feed":"y"}', None)
    return SimpleNamespace(control=control, znodes=znodes, cluster_id="c")


def test_the_control_store_of_the_profile() -> None:
    assert TagSource().read(session()) == TagSet(brokers={1: {"feed": "x"}})


def test_the_znodes_of_kafka_kit() -> None:
    assert TagSource(zk_tags_prefix="/tags").read(session()) == TagSet(brokers={1: {"feed": "y"}})
