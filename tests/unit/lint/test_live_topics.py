"""Which topics of a live cluster are linted: by name, by query, and by query over tags."""

from datetime import UTC, datetime

import pytest

from kafkakit.core.errors import UsageError
from kafkakit.core.model import TagSet
from kafkakit.lint.act import read_live
from tests.fakes.admin import FakeCluster

TAGS = TagSet(brokers={}, topics={"orders": {"tier": "hot"}})


def linted(topics: str | None, tags: TagSet | None = None) -> list[str]:
    cluster = FakeCluster({1: "a", 2: "b"})
    cluster.add_topic("orders", {0: (1, 2)})
    cluster.add_topic("users", {0: (1, 2), 1: (2, 1)})

    def read_tags() -> TagSet:
        assert tags is not None, "tags are read although no query looks at them"
        return tags

    found = read_live(cluster, None, datetime(2026, 1, 1, tzinfo=UTC), topics, read_tags)
    assert len(found.brokers) == 2
    return sorted(piece.name for piece in found.topics)


def test_topics_are_chosen_by_name_query_and_tag() -> None:
    assert linted(None) == ["orders", "users"]
    assert linted("users") == ["users"]
    assert linted("where partitions > 1") == ["users"]
    assert linted("where tier = hot", TAGS) == ["orders"]


def test_what_matches_nothing_is_refused_with_the_reason() -> None:
    with pytest.raises(UsageError, match="no topic matches") as caught:
        linted("where tier = cold", TAGS)
    assert any("orders" in line for line in caught.value.lines)
    with pytest.raises(UsageError, match="no topic matches"):
        linted("nothing")
