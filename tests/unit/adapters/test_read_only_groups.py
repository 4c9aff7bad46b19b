"""A read-only client of groups hands reads on and writes nothing."""

import pytest

from kafkakit.adapters.read_only import ReadOnlyGroups
from kafkakit.core.cluster_facts import CommittedOffset
from kafkakit.core.errors import RefusedError
from kafkakit.core.model import TopicPartition
from kafkakit.ports.data import GroupAdmin
from tests.fakes.groups import FakeGroups

KEY = TopicPartition("t", 0)


def test_reads_pass_and_writes_are_refused() -> None:
    inner = FakeGroups()
    inner.seed("g", KEY, 5)
    groups: GroupAdmin = ReadOnlyGroups(inner)
    assert groups.groups() == inner.groups()
    assert groups.describe(["g"]) == inner.describe(["g"])
    assert groups.committed("g", [KEY], stable=False) == {KEY: CommittedOffset(offset=5)}
    with pytest.raises(RefusedError):
        groups.commit("g", {KEY: CommittedOffset(offset=1)})
    with pytest.raises(RefusedError):
        groups.forget("g", [KEY])
    with pytest.raises(RefusedError):
        groups.delete("g")
    assert (inner.commits, inner.forgotten, inner.deleted) == ([], [], [])
    groups.close()
    assert inner.closed
