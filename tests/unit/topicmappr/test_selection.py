"""Patterns are RE2, as in Go; requests with queries on a live cluster read tags if one looks at some, and only then."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kafkakit.cli.common_options import TagSource
from kafkakit.core.errors import UsageError
from kafkakit.core.selection import matching_topics, parse_broker_list, parse_patterns, select_topics
from kafkakit.topicmappr.commands.options import _answer_queries
from kafkakit.topicmappr.decide.plain_requests import DrainRequest
from kafkakit.topicmappr.decide.requests import FrontierBase, FrontierRequest, Metric
from kafkakit.topicmappr.decide.scope import TagConstraints, parse_topic_rules, resolve_queries, tags_needed
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
        (drain(constraints=TagConstraints(affinity=parse_topic_rules(
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
    state, found = _answer_queries(context, session, BARE, request_, TagSource(), is_live=True)
    assert (state.tags is not None) == needed
    if request_ is not None and request_.leaving.where is not None and needed:
        assert found.leaving.ids == (2,)


def test_a_request_inside_a_request_is_answered() -> None:
    base = FrontierBase(
        brokers=parse_broker_list("where id < 3"), topics=parse_patterns("where name ~ o*"), words={"brokers": "1"}
    )
    frontier = FrontierRequest(base=base, metric=Metric.BAND)
    found = resolve_queries(frontier, BARE)
    assert (found.base.brokers.ids, found.base.topics) == ((1, 2), ("orders",))
    plain = replace(frontier, base=replace(base, brokers=parse_broker_list("1"), topics=("o.*",)))
    assert resolve_queries(plain, BARE) is plain


NAMES = frozenset(["a.b", "a-b", "xa-bz", "foo1", "foo2", "fooé", "orders", "t-2024.events"])


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("[[:digit:]]$", "foo1 foo2"),
        (r"^[[:alpha:]]+[[:punct:]][[:alpha:]]$", "a.b a-b"),
        (r"^\pL+$", "fooé orders"),
        (r".\pN\z", "foo1 foo2"),
        (r".b\z", "a.b a-b"),
        (r"orders\z", "orders"),  # a literal of kafka-kit: ^orders\z$
        (r"b\z", ""),
        ("(?U)^fo+", "foo1 foo2 fooé"),
        (r"\Qa.b\E", "a.b"),
        ("(?i:ORDERS)", "orders"),
        ("(?P<prefix>xa)", "xa-bz"),
        ("^(?:(?:a+)+)+.$", ""),
        (r"foo\d", "foo1 foo2"),
        (r"foo\w", "foo1 foo2"),
        ("a.b", "a.b"),
        ("a.b$", "a.b a-b"),
        (".*", " ".join(sorted(NAMES))),
        ("foo", ""),
        ("(^|-)b|events|^$", "a-b xa-bz t-2024.events"),
    ],
)
def test_patterns_mean_what_they_mean_in_go(pattern: str, matched: str) -> None:
    assert matching_topics(NAMES, (pattern,)) == set(matched.split())
    assert matching_topics(NAMES, ("orders", pattern, "none")) == {"orders", *matched.split()}


@pytest.mark.parametrize(
    ("include", "says"),
    [
        (("ordrs", "foo1"), "topic ordrs does not exist"),
        ((".*", "nope"), "topic nope does not exist"),
        (("orders", "a", "b"), "topics a, b do not exist"),
    ],
)
def test_a_plain_name_that_does_not_exist_is_refused_in_a_list(include: tuple[str, ...], says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        select_topics(NAMES, include)
    assert caught.value.hint
    assert select_topics(NAMES, ("orders", "no.such.*"), ("nope",)).selected == ("orders",)


@pytest.mark.parametrize(
    ("pattern", "why", "hint"),
    [
        ("^(?!a)", "invalid perl operator: (?!", "--topics-exclude"),
        ("a(?=.b)", "invalid perl operator: (?=", "look-ahead"),
        ("(?<!x)a", "invalid perl operator: (?<", "look-behind"),
        (r"(o)\1", r"invalid escape sequence: \1", "back-references"),
        (r"b\Z", r"invalid escape sequence: \Z", "github.com/google/re2"),
        (r"\C+", r"invalid escape sequence: \C", "RE2"),
        ("[[:nope:]]", "invalid character class range: [:nope:]", "RE2"),
        ("(", "missing )", "RE2"),
        ("a**", "bad repetition operator: **", "RE2"),
        ("a{1001}", "invalid repetition size", "RE2"),
        ("\udc80.", "not UTF-8", "RE2"),
        ("." * 10_001, "10001 characters", "RE2"),
    ],
)
def test_patterns_that_go_refuses_are_refused(pattern: str, why: str, hint: str) -> None:
    with pytest.raises(UsageError, match=r"^invalid regex pattern: ") as refused:
        matching_topics(NAMES, ("a.b", pattern))
    assert why in refused.value.message
    assert hint in str(refused.value.hint)
    assert refused.value.message.isprintable()


def test_many_patterns_are_asked_together_and_match_alike() -> None:
    names = frozenset(f"t{number}" for number in range(3000))
    patterns = tuple(f"^t{number}.$" for number in range(0, 300, 2))
    expected = {f"t{number}{digit}" for number in range(0, 300, 2) for digit in range(10)} & names
    assert matching_topics(names, patterns) == expected


def test_a_set_without_memory_is_asked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    import re2

    class Exhausted:
        def Add(self, pattern: str) -> None: ...  # noqa: N802

        def Compile(self) -> None: ...  # noqa: N802

        def Match(self, text: str) -> list[int]:  # noqa: N802
            return []

    monkeypatch.setattr(re2.Set, "SearchSet", lambda options: Exhausted())
    assert matching_topics(NAMES, ("o.$", "[12]$")) == {"foo1", "foo2", "fooé"}
