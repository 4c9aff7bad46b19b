"""Fetch and ListOffsets: requests built and answers read; nothing here sends anything."""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from kafkakit.adapters.kafka.errors import error_from, error_of
from kafkakit.adapters.kafka.log_routes import STALE
from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.log_reads import Fetched, LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.streams.model.commit import NO_TOPIC_ID

EARLIEST, LATEST = -2, -1
LAST_WITH_NAMES, NEWEST = 12, 17
"""Versions of Fetch: from 13 on a topic is named by its id only."""
UNTOLD = LogSpan(start=-1, stable=-1, end=-1)
UNANSWERED = Fetched(records=b"", span=UNTOLD)


def fetch_request(
    offsets: Mapping[TopicPartition, int],
    ids: Mapping[str, bytes],
    max_bytes: int,
    wait_ms: int,
    partition_bytes: int,
    *,
    committed: bool = False,
) -> Any:
    """One request without a session, for partitions in the order given: the broker fills its answer in that order."""
    from kafka.protocol.consumer.fetch import FetchRequest

    topic_of = FetchRequest.FetchTopic
    place_of = topic_of.FetchPartition
    grouped: dict[str, list[Any]] = {}
    for key, offset in offsets.items():
        place = place_of(
            partition=key.partition,
            current_leader_epoch=-1,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=partition_bytes,
        )
        grouped.setdefault(key.topic, []).append(place)
    named = any(ids.get(name, NO_TOPIC_ID) == NO_TOPIC_ID for name in grouped)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=int(committed),
        session_id=0,
        session_epoch=-1,
        rack_id="",
        topics=[
            topic_of(topic=name, topic_id=uuid.UUID(bytes=ids.get(name, NO_TOPIC_ID)), partitions=places)
            for name, places in grouped.items()
        ],
        forgotten_topics_data=[],
        max_version=LAST_WITH_NAMES if named else NEWEST,
    )


def fetched_of(
    answer: Any, requested: Iterable[TopicPartition], ids: Mapping[str, bytes]
) -> tuple[dict[TopicPartition, Fetched], set[str]]:
    """What an answer or an exception says of each partition, and the topics whose leaders are to be looked up."""
    keys = list(requested)
    if isinstance(answer, Exception):
        return _all_failed(keys, error_from(answer))
    whole = error_of(answer.error_code or 0)
    if whole is not None:
        return _all_failed(keys, whole)
    names = {value: name for name, value in ids.items()}
    found: dict[TopicPartition, Fetched] = {}
    stale: set[str] = set()
    for topic in answer.responses:
        name = topic.topic or names.get(topic.topic_id.bytes, "")
        for place in topic.partitions:
            found[TopicPartition(name, place.partition_index)] = Fetched(
                records=place.records or b"",
                span=LogSpan(start=place.log_start_offset, stable=place.last_stable_offset, end=place.high_watermark),
                error=error_of(place.error_code),
                aborted=tuple((one.producer_id, one.first_offset) for one in place.aborted_transactions or ()),
            )
            if place.error_code in STALE:
                stale.add(name)
    return {key: found.get(key, UNANSWERED) for key in keys}, stale


def list_offsets_request(times: Mapping[TopicPartition, int], *, committed: bool, timeout_ms: int) -> Any:
    """One request; a time is in ms, or `EARLIEST` or `LATEST`, which with `committed` is the last stable offset."""
    from kafka.protocol.consumer.offsets import ListOffsetsRequest

    topic_of = ListOffsetsRequest.ListOffsetsTopic
    place_of = topic_of.ListOffsetsPartition
    grouped: dict[str, list[Any]] = {}
    for key, time_ms in times.items():
        place = place_of(partition_index=key.partition, current_leader_epoch=-1, timestamp=time_ms)
        grouped.setdefault(key.topic, []).append(place)
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(committed),
        topics=[topic_of(name=name, partitions=places) for name, places in grouped.items()],
        timeout_ms=timeout_ms,
    )


def offsets_of(
    answer: Any, requested: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, int | ItemError], set[str]]:
    """The offset of each partition (-1: none) or its error, and the topics whose leaders are to be looked up."""
    keys = list(requested)
    if isinstance(answer, Exception):
        error = error_from(answer)
        return dict.fromkeys(keys, error), {key.topic for key in keys}
    found: dict[TopicPartition, int | ItemError] = {}
    stale: set[str] = set()
    for topic in answer.topics:
        for place in topic.partitions:
            error_here = error_of(place.error_code)
            found[TopicPartition(topic.name, place.partition_index)] = error_here or int(place.offset)
            if place.error_code in STALE:
                stale.add(topic.name)
    missing = ItemError(name="UnknownServerError", message="the broker left the partition out", retriable=True)
    return {key: found.get(key, missing) for key in keys}, stale


def _all_failed(keys: list[TopicPartition], error: ItemError) -> tuple[dict[TopicPartition, Fetched], set[str]]:
    failed = Fetched(records=b"", span=UNTOLD, error=error)
    return dict.fromkeys(keys, failed), {key.topic for key in keys}
