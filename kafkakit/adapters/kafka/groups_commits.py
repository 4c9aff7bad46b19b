"""What many groups have committed, from their coordinators (KIP-709, Kafka 3.0 and later)."""

import time
from collections.abc import Collection, Iterator
from typing import Any

from kafkakit.adapters.kafka.errors import error_from, error_of
from kafkakit.adapters.kafka.groups_coordinators import KEYS_PER_REQUEST, MOVED, PAUSE_S, Coordinators
from kafkakit.adapters.kafka.groups_read import commits_of
from kafkakit.adapters.kafka.groups_requests import fetch_many_request
from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.group_facts import CommittedOffset
from kafkakit.core.model import TopicPartition

Found = dict[TopicPartition, CommittedOffset | ItemError] | ItemError
ANSWERED = 20_000
"""Commits that one answer may hold: with metadata of 4 KB each, the most that brokers take, 80 MB."""


def read_commits(
    session: Coordinators, groups: Collection[str], partitions: Collection[TopicPartition], *, stable: bool
) -> dict[str, Found]:
    """One request to each coordinator for up to 500 groups; those that move are followed up to the session's limit."""
    wanted = sorted(set(groups))
    at_once = max(1, min(KEYS_PER_REQUEST, ANSWERED // len(partitions)))
    found: dict[str, Found] = {}
    for at in range(0, len(wanted), at_once):
        left = wanted[at : at + at_once]
        deadline = time.monotonic() + session.request_timeout_s
        while left:
            found |= _asked(session, left, partitions, stable=stable)
            left = [name for name in left if isinstance(error := found[name], ItemError) and error.retriable]
            if not left or time.monotonic() > deadline:
                break
            session.forget(left)
            time.sleep(PAUSE_S)
    return found


def _asked(
    session: Coordinators, groups: Collection[str], partitions: Collection[TopicPartition], *, stable: bool
) -> dict[str, Found]:
    found: dict[str, Found] = {}
    by_broker: dict[int, list[str]] = {}
    for name, place in session.find(groups).items():
        if isinstance(place, ItemError):
            found[name] = place
        else:
            by_broker.setdefault(place, []).append(name)
    requests = {broker: fetch_many_request(names, partitions, stable=stable) for broker, names in by_broker.items()}
    for broker, answer in session.request_brokers(requests).items() if requests else ():
        if isinstance(answer, Exception):
            found |= dict.fromkeys(by_broker[broker], error_from(answer))
        else:
            found |= {one.group_id: _commits_of(one) for one in answer.groups}
    silent = ItemError(name="UnknownServerError", message="the broker left the group out", retriable=True)
    return {name: found.get(name, silent) for name in groups}


def _commits_of(group: Any) -> Found:
    """A group's commits; a coordinator that moved answers with its error for the group, or for each partition."""
    moved = next((error_of(code) for code in _codes(group) if code in MOVED), None)
    return moved or error_of(group.error_code) or commits_of(group.topics)


def _codes(group: Any) -> Iterator[int]:
    yield group.error_code
    yield from (place.error_code for topic in group.topics for place in topic.partitions)
