"""Where share groups stand, from their coordinators (KIP-932, with the lag of KIP-1226)."""

import time
from collections.abc import Collection
from typing import Any

from kafkakit.adapters.kafka.errors import error_from, error_of
from kafkakit.adapters.kafka.groups_coordinators import PAUSE_S, Coordinators
from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.group_facts import ShareOffset
from kafkakit.core.model import TopicPartition

Found = tuple[ShareOffset, ...] | ItemError


def read_share_offsets(session: Coordinators, groups: Collection[str]) -> dict[str, Found]:
    """One request to each coordinator; coordinators that move are followed for up to the session's limit."""
    wanted = sorted(set(groups))
    deadline = time.monotonic() + session.request_timeout_s
    found: dict[str, Found] = {}
    left = wanted
    while left:
        found |= _asked(session, left)
        left = [name for name in left if isinstance(error := found[name], ItemError) and error.retriable]
        if not left or time.monotonic() > deadline:
            break
        session.forget(left)
        time.sleep(PAUSE_S)
    return {name: found[name] for name in wanted}


def _asked(session: Coordinators, groups: Collection[str]) -> dict[str, Found]:
    from kafkakit.adapters.kafka.newer_messages import DescribeShareGroupOffsets

    found: dict[str, Found] = {}
    by_broker: dict[int, list[str]] = {}
    for name, place in session.find(groups).items():
        if isinstance(place, ItemError):
            found[name] = place
        else:
            by_broker.setdefault(place, []).append(name)
    named = DescribeShareGroupOffsets.ShareGroupAsked
    requests = {
        broker: DescribeShareGroupOffsets(groups=[named(group_id=name, topics=None) for name in names])
        for broker, names in by_broker.items()
    }
    for broker, answer in session.request_brokers(requests).items() if requests else ():
        if isinstance(answer, Exception):
            found |= dict.fromkeys(by_broker[broker], error_from(answer))
        else:
            found |= {one.group_id: _offsets_of(one) for one in answer.groups}
    silent = ItemError(name="UnknownServerError", message="the broker left the group out", retriable=True)
    return {name: found.get(name, silent) for name in groups}


def _offsets_of(group: Any) -> Found:
    error = error_of(group.error_code, group.error_message)
    if error is not None:
        return error
    return tuple(
        sorted(
            (
                ShareOffset(
                    place=TopicPartition(topic.topic_name, one.partition_index),
                    start=one.start_offset if one.start_offset >= 0 else None,
                    lag=one.lag if one.lag >= 0 else None,
                    error=error_of(one.error_code, one.error_message),
                )
                for topic in group.topics
                for one in topic.partitions
            ),
            key=lambda one: one.place,
        )
    )
