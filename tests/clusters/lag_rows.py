"""A book with few lines, for the tests of what is built on it."""

import struct

import numpy as np

from kafkakit.streams.lag.decide.measure.book import BookLimits, LagBook
from kafkakit.streams.lag.decide.measure.ends import EndSamples, TopicLogSettings
from kafkakit.streams.lag.decide.measure.table import LagTable, MeasureRules, measure
from kafkakit.streams.model.commit import NO_TOPIC_ID
from kafkakit.streams.model.offsets_log.commits import TOMBSTONE, CommitColumns, CommitRow, KeyTable

T0 = 1_700_000_000_000


def key_bytes(group: str, topic: str, partition: int) -> bytes:
    words = b"".join(struct.pack(">h", len(w.encode())) + w.encode() for w in (group, topic))
    return b"\0\1" + words + struct.pack(">i", partition)


class Harness:
    """A book that is told of commits and ends by name; times are ms after T0."""

    def __init__(self, *, step_ms: int = 10_000, limits: BookLimits | None = None) -> None:
        self.keys, self.ends = KeyTable(), EndSamples()
        self.book = LagBook(self.keys, self.ends, "cluster-1", window_step_ms=step_ms, limits=limits)
        self.count = 0

    def key(self, group: str, topic: str = "t", partition: int = 0) -> int:
        number = self.keys.intern(key_bytes(group, topic, partition))
        assert isinstance(number, int)
        return number

    def commit(
        self,
        group: str,
        offset: int,
        at: int,
        *,
        topic: str = "t",
        partition: int = 0,
        metadata: bytes = b"",
        topic_id: bytes = NO_TOPIC_ID,
        seen: int | None = None,
    ) -> list[int]:
        self.count += 1
        row = CommitRow(
            key=self.key(group, topic, partition),
            at=self.count,
            offset=offset,
            committed_ms=T0 + at,
            topic_id=topic_id,
            metadata=metadata,
        )
        freed: list[int] = self.book.apply(CommitColumns.of([row]), T0 + (at if seen is None else seen)).tolist()
        return freed

    def tombstone(self, group: str, *, topic: str = "t", partition: int = 0) -> list[int]:
        return self.commit(group, TOMBSTONE, 0, topic=topic, partition=partition)

    def end(
        self, end: int, at: int, *, topic: str = "t", partition: int = 0, start: int = 0, stable: int | None = None
    ) -> None:
        values = (self.ends.slot(topic, partition), T0 + at, T0 + at + 1, end, end if stable is None else stable, start)
        slot, before, after, last, safe, first = (np.array([v], dtype=np.int64) for v in values)
        self.ends.record(slot, before_ms=before, after_ms=after, end=last, stable=safe, start=first)

    def facts(self, facts: TopicLogSettings, topic: str = "t") -> None:
        self.ends.topics.set_facts(topic, facts)

    def table(self, at: int, cluster: str = "c1", rules: MeasureRules | None = None) -> LagTable:
        return measure(self.book, cluster=cluster, now_ms=T0 + at, commits_as_of_ms=T0 + at, rules=rules)
