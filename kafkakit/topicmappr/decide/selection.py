"""Queries in requests: `where ...` in the place of names, answered on the cluster that was read."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from kafkakit.core.broker_list import BrokerList
from kafkakit.core.errors import UsageError
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.query.clusters import (
    BROKER_KEYS,
    TOPIC_KEYS,
    broker_table,
    brokers_where,
    topic_table,
    topics_where,
    why_none,
)
from kafkakit.core.query.columns import tag_keys
from kafkakit.core.query.parser import parse_query
from kafkakit.core.topic_selection import query_of
from kafkakit.topicmappr.decide.constraints import TagConstraints

R = TypeVar("R")


def tags_needed(request: object) -> bool:
    """True where the request has a query or a constraint that looks at tags."""
    for _, value in _values(request):
        if isinstance(value, TagConstraints) and value.tag_keys:
            return True
        if _is_request(value) and tags_needed(value):
            return True
        if isinstance(value, BrokerList) and value.where is not None and tag_keys(value.where, BROKER_KEYS):
            return True
        if isinstance(value, tuple) and any(tag_keys(parse_query(q), TOPIC_KEYS) for q in _queries(value)):
            return True
    return False


def answered(request: R, snapshot: ClusterSnapshot) -> R:
    """The request with the names that match in the place of its queries; as it is without any.

    Recorded words keep the ids of brokers, since a plan is replanned by them, with the query beside. Raises
    `UsageError` where nothing matches, or where tags are needed and not known.
    """
    changes: dict[str, Any] = {}
    words: dict[str, str] = {}
    for name, value in _values(request):
        if isinstance(value, BrokerList) and value.where is not None:
            ids = tuple(sorted(brokers_where(snapshot, value.where)))
            if not ids:
                raise _nothing("broker", value.text, why_none(value.where, broker_table(snapshot)))
            changes[name] = BrokerList(ids=ids)
            words[value.text] = ",".join(map(str, ids))
        elif isinstance(value, tuple) and any(_queries(value)):
            changes[name] = tuple(_expanded(snapshot, value, may_be_empty=name in ("topics_exclude", "pinned")))
        elif _is_request(value):
            inner = answered(value, snapshot)
            if inner is not value:
                changes[name] = inner
    if words and isinstance(recorded := getattr(request, "words", None), dict):
        changes["words"] = {
            key: found
            for name, text in recorded.items()
            for key, found in (((name, words[text]), (f"{name}-query", text)) if text in words else ((name, text),))
        }
    return replace(request, **changes) if changes else request  # type: ignore[type-var]


def _nothing(noun: str, text: str, lines: tuple[str, ...]) -> UsageError:
    error = UsageError(f"no {noun} matches {text!r:.200}")
    error.lines = lines
    return error


def _values(request: object) -> Iterator[tuple[str, Any]]:
    for each in fields(request) if is_dataclass(request) else ():
        yield each.name, getattr(request, each.name)


def _is_request(value: object) -> bool:
    """True for a request inside a request."""
    return is_dataclass(value) and not isinstance(value, type) and hasattr(value, "topics")


def _queries(patterns: tuple[object, ...]) -> list[str]:
    return [found for p in patterns if isinstance(p, str) and (found := query_of(p)) is not None]


def _expanded(snapshot: ClusterSnapshot, patterns: tuple[str, ...], *, may_be_empty: bool) -> Iterator[str]:
    for pattern in patterns:
        query = query_of(pattern)
        if query is None:
            yield pattern
            continue
        found = topics_where(snapshot, parse_query(query))
        if not found and not may_be_empty:
            raise _nothing("topic", pattern, why_none(parse_query(query), topic_table(snapshot)))
        yield from found
