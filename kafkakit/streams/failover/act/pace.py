"""How fast groups read old topics, and how old the records are that they have not read."""

from collections.abc import Collection, Mapping

from kafkakit.core.model import TopicPartition
from kafkakit.execution.act.log_answers import fetch_answers
from kafkakit.ports.clock import Clock
from kafkakit.ports.log import LogReader
from kafkakit.streams.failover.act.reading import read_segments
from kafkakit.streams.failover.decide.backlog import Pace, unread_places
from kafkakit.streams.failover.decide.evidence import TopicFacts
from kafkakit.streams.failover.decide.operation import Operation
from kafkakit.streams.model.log_batches import RecordTime, record_at
from kafkakit.streams.model.route import Segment
from kafkakit.streams.routes.api_act import OpenCluster

BETWEEN_S = 6.0
"""Clients commit every 5 s by default."""
MOST_PLACES, PLACES_AT_ONCE = 1_000, 200
PARTITION_BYTES, ANSWER_BYTES = 32 << 10, 8 << 20


def measure_pace(
    open_cluster: OpenCluster, clock: Clock, operation: Operation, old: Mapping[int, tuple[Segment, TopicFacts]]
) -> Pace:
    """Read the commits of old topics once more after 6 s, and the records where groups stand, 1,000 at most.

    Nothing is read and no time passes where every group has read everything.
    """
    places = {number: unread_places(operation, facts, segment.topic) for number, (segment, facts) in old.items()}
    if not any(places.values()):
        return Pace()
    began_s = clock.monotonic()
    first_ms: dict[tuple[int, int, int], int] = {}
    for number, wanted in places.items():
        if wanted:
            log = open_cluster(old[number][0].cluster).log
            found = _first_times(log, sorted(wanted)[: MOST_PLACES - len(first_ms)])
            first_ms |= {(number, key.partition, offset): at_ms for (key, offset), at_ms in found.items()}
    clock.sleep(max(0.0, BETWEEN_S - (clock.monotonic() - began_s)))
    later: dict[int, TopicFacts] = {}
    for profile in sorted({segment.cluster for segment, _ in old.values()}):
        mine = [segment for segment, _ in old.values() if segment.cluster == profile]
        later |= read_segments(open_cluster(profile), mine, operation.groups, every_group=False, effective=False)
    return Pace(seconds=clock.monotonic() - began_s, later=later, first_ms=first_ms)


def _first_times(
    log: LogReader, wanted: Collection[tuple[TopicPartition, int]]
) -> dict[tuple[TopicPartition, int], int]:
    """The times of the first records at or above these offsets; absent where a read failed, or a record has none."""
    found: dict[tuple[TopicPartition, int], int] = {}
    left = list(wanted)
    while left:
        # One offset of each partition at a time.
        now = dict(list(dict(reversed(left)).items())[:PLACES_AT_ONCE])
        left = [place for place in left if now.get(place[0]) != place[1]]
        answers = fetch_answers(log, now, max_bytes=ANSWER_BYTES, partition_bytes=PARTITION_BYTES)
        for key, offset in now.items():
            answer = answers[key]
            record = None if answer.error is not None else record_at(answer.records, offset)
            if isinstance(record, RecordTime) and record.low_ms >= 0:
                found[key, offset] = record.low_ms
    return found
