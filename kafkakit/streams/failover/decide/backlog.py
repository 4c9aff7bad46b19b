"""What groups still have to read of old topics: how many offsets, since when, and how long it takes at their pace."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.failover.decide.drained import left_in
from kafkakit.streams.failover.decide.evidence import TopicFacts
from kafkakit.streams.failover.decide.operation import Operation
from kafkakit.streams.model.route import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogRow:
    """What a group still has to read of an old segment; None where it is not known.

    `size_bytes` is its share of one copy, by offsets. `time_lag_s` is the age of the oldest record that is not read,
    `eta_s` how long reading takes at the measured pace, both None unless they were measured.
    """

    group: str
    topic: str
    offsets: int | None
    size_bytes: int | None = None
    time_lag_s: float | None = None
    eta_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Two readings of commits `seconds` apart; `later` has the second one by segment id.

    `first_ms` are the times of the records where groups stand, by segment id, partition and offset.
    """

    seconds: float = 0.0
    later: Mapping[int, TopicFacts] = field(default_factory=dict)
    first_ms: Mapping[tuple[int, int, int], int] = field(default_factory=dict)


def unread_places(operation: Operation, facts: TopicFacts, topic: str) -> frozenset[tuple[TopicPartition, int]]:
    """Where required groups stand that have not read everything."""
    return frozenset(
        (TopicPartition(topic, number), offset)
        for name in operation.groups
        for number, offset in _positions(name, facts).items()
    )


def backlog_rows(
    operation: Operation,
    old: Iterable[tuple[Segment, TopicFacts]],
    sizes: Mapping[int, int | None],
    pace: Pace,
    now_ms: int,
) -> Iterator[BacklogRow]:
    """A row for each required group and old segment; `sizes` are the bytes of one copy by segment id."""
    for segment, facts in old:
        for name in operation.groups:
            offsets = _left(name, facts)
            held, size = facts.records, sizes.get(segment.id)
            share = None if offsets is None or size is None else size * offsets // held if held else 0
            yield BacklogRow(
                group=name,
                topic=segment.topic,
                offsets=offsets,
                size_bytes=share,
                time_lag_s=_time_lag_s(name, segment, facts, pace, now_ms),
                eta_s=_eta_s(name, offsets, facts, pace.later.get(segment.id), pace.seconds),
            )


def _left(group: str, facts: TopicFacts) -> int | None:
    commits = facts.groups[group].commits if group in facts.groups else {}
    spans = facts.whole_spans
    if spans is None or any(isinstance(each, ItemError) for each in commits.values()):
        return None
    return sum(left_in(commits.get(number), span.end, span.start) for number, span in spans.items())


def _positions(group: str, facts: TopicFacts) -> dict[int, int]:
    """The next offset of each partition that a group has not read to its end."""
    commits = facts.groups[group].commits if group in facts.groups else {}
    found: dict[int, int] = {}
    for number, span in (facts.whole_spans or {}).items():
        commit = commits.get(number)
        if not isinstance(commit, ItemError):
            found[number] = max(span.start, span.start if commit is None else commit.offset)
    return {number: offset for number, offset in found.items() if offset < (facts.whole_spans or {})[number].end}


def _time_lag_s(group: str, segment: Segment, facts: TopicFacts, pace: Pace, now_ms: int) -> float | None:
    """None unless the record of each place was read; clocks of producers may be ahead, then 0."""
    places = [(segment.id, number, offset) for number, offset in _positions(group, facts).items()]
    if not pace.seconds or facts.whole_spans is None or any(place not in pace.first_ms for place in places):
        return None
    return max(0.0, max((now_ms - pace.first_ms[place] for place in places), default=0) / 1000)


def _eta_s(
    group: str, offsets: int | None, facts: TopicFacts, later: TopicFacts | None, seconds: float
) -> float | None:
    """None where nothing was read between the two readings."""
    if not seconds or later is None or offsets is None:
        return None
    if offsets == 0:
        return 0.0
    before, after = (each.groups[group].commits if group in each.groups else {} for each in (facts, later))
    spans = facts.whole_spans or {}
    moved = 0
    for number, commit in after.items():
        was = before.get(number)
        if isinstance(commit, ItemError) or isinstance(was, ItemError) or number not in spans:
            continue
        moved += max(0, commit.offset - (spans[number].start if was is None else was.offset))
    return round(offsets * seconds / moved, 1) if moved else None
