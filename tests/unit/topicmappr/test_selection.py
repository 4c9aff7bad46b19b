"""Requests with queries on a live cluster: tags are read where one looks at some, and only there."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kafkakit.cli.common_options import TagSource
from kafkakit.core.selection import parse_broker_list, parse_patterns
from kafkakit.topicmappr.commands.options import _answered
from kafkakit.topicmappr.decide.drain import DrainRequest
from kafkakit.topicmappr.decide.requests import FrontierRequest, Metric, RebalanceRequest
from kafkakit.topicmappr.decide.scope import TagConstraints, answered, parse_topic_rules, tags_needed
from tests.cli.test_tags_in_plans import CLUSTER
from tests.fakes.control import FakeControlStore

BARE = replace(CLUSTER, tags=None)


def drain(brokers: str = "1", topics: str = ".*", **more: Any) -> DrainRequest:
    words = {"command": "topicmappr drain", "brokers": brokers}
    return DrainRequest(leaving=parse_broker_list(brokers), topics=parse_patterns(topics), words=words, **more)


@pytest.mark.parametrize(
    ("request_", "needed"),
    [
        (drain(), False),
        (drain("where rack = a", "where partitions > 3 and not exists(config.x)"), False),
        (drain("where feed = x"), True),
        (drain(topics="where tier = hot"), True),
        (drain(topics_exclude=("where tier = hot",)), True),
        (drain(constraints=TagConstraints(spread_by=("rack",))), False),
        (drain(constraints=TagConstraints(spread_by=("feed",))), True),
        (drain(constraints=TagConstraints(rules=parse_topic_rules(
            "topics where name = a: brokers where disk = b", "--affinity"))), True),
        (None, False),
    ],
)  # fmt: skip
def test_tags_are_read_where_they_are_needed(request_: Any, needed: bool) -> None:
    assert tags_needed(request_) == needed
    store = FakeControlStore()
    store.cas("clusters/c/registry/broker/2", b'{"feed":"x"}', None)
    store.cas("clusters/c/registry/topic/clicks", b'{"tier":"hot"}', None)
    store.away = not needed
    session: Any = SimpleNamespace(control=store, cluster_id="c")
    context: Any = None
    state, found = _answered(context, session, BARE, request_, TagSource(), is_live=True)
    assert (state.tags is not None) == needed
    if request_ is not None and request_.leaving.where is not None and needed:
        assert found.leaving.ids == (2,)


def test_a_request_inside_a_request_is_answered() -> None:
    base = RebalanceRequest(
        brokers=parse_broker_list("where id < 3"), topics=parse_patterns("where name ~ o*"), words={"brokers": "1"}
    )
    frontier = FrontierRequest(base=base, metric=Metric.BAND)
    found = answered(frontier, BARE)
    assert (found.base.brokers.ids, found.base.topics) == ((1, 2), ("orders",))
    plain = replace(frontier, base=replace(base, brokers=parse_broker_list("1"), topics=("o.*",)))
    assert answered(plain, BARE) is plain
