"""Reading what an edit needs to know of a group and its logs. Writes nothing.

Cost: one request to the coordinator for the members and one for the commits, three to each leader for the ends of
logs, one a leader for each time that is looked up, and one a leader for the records at the new offsets.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import TryLaterError, UsageError
from kafkakit.core.group_facts import CommittedOffset, GroupDescription
from kafkakit.core.lists_in_words import some
from kafkakit.core.log_reads import LogSpan, TopicPlaces
from kafkakit.core.model import TopicPartition
from kafkakit.core.printable import printable
from kafkakit.execution.act.log_answers import fetch_answers
from kafkakit.ports.groups import GroupAdmin
from kafkakit.ports.log import LogReader
from kafkakit.streams.commits.decide.editing.gate import check_quiet, settled
from kafkakit.streams.commits.decide.editing.observed import Observed, SeenPartition
from kafkakit.streams.commits.decide.record_time import time_at
from kafkakit.streams.model.commit import CommitIdentity
from kafkakit.streams.model.dialects.registry import read_metadata

FETCH_BYTES = 8 << 20
PARTITION_BYTES = 1 << 20
FETCH_AT_ONCE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionScope:
    """Which partitions are edited: `topic` ("": every topic that the group committed for), and its `partitions`.

    No partitions named means: those that the group committed for, or with `uncommitted` all that there are. `single`:
    it has to be one partition. `named`: just these, of any topic, each with the place that names it.
    """

    topic: str = ""
    partitions: tuple[int, ...] = ()
    uncommitted: bool = False
    single: bool = False
    named: Mapping[TopicPartition, str] = field(default_factory=dict)


class Observer:
    """Looks at one group of one cluster; `limit_chars` is what its brokers accept as metadata."""

    def __init__(self, groups: GroupAdmin, log: LogReader, *, cluster_id: str, limit_chars: int) -> None:
        self._groups, self._log = groups, log
        self._cluster_id, self._limit_chars = cluster_id, limit_chars

    def look(self, group: str, scope: PartitionScope, times_ms: Collection[int], now: datetime) -> Observed:
        """The group and the partitions in scope; raises `RefusedError` for a live group, `UsageError` for names that
        do not exist, and `TryLaterError` for an open transaction or an answer that did not come."""
        description = check_quiet(group, self._groups.describe([group])[group])
        commits = settled(group, self._groups.committed(group))
        keys = self._keys(group, scope, commits)
        if scope.single and len(keys) != 1:
            count = f"group {printable(group)} committed for {len(keys)}: {some(keys)}"
            hint = "name it: --topic NAME --partition N"
            raise UsageError(f"offsets belong to one partition, and {count}", hint=hint)
        return self._observed(group, keys, commits, times_ms, now, description)

    def look_at(self, group: str, keys: Collection[TopicPartition], now: datetime) -> Observed:
        """The group and just these partitions, without those of topics that are not there any more."""
        description = check_quiet(group, self._groups.describe([group])[group])
        commits = settled(group, self._groups.committed(group))
        there = self._log.places(sorted({key.topic for key in keys}))
        return self._observed(group, sorted(k for k in keys if k.topic in there), commits, (), now, description)

    def record_times(self, offsets: Mapping[TopicPartition, Collection[int]]) -> dict[TopicPartition, dict[int, int]]:
        """The times in ms of the records at these offsets; what is not there, or has no exact time, is left out."""
        found: dict[TopicPartition, dict[int, int]] = {}
        wanted = [(key, offset) for key, held in sorted(offsets.items()) for offset in sorted(held)]
        rounds: list[dict[TopicPartition, int]] = []
        for key, offset in wanted:
            place = next((r for r in rounds if key not in r and len(r) < FETCH_AT_ONCE), None)
            if place is None:
                rounds.append({key: offset})
            else:
                place[key] = offset
        for requested in rounds:
            reported = fetch_answers(self._log, requested, max_bytes=FETCH_BYTES, partition_bytes=PARTITION_BYTES)
            for key, fetched in reported.items():
                span = time_at(fetched.records, requested[key]) if fetched.error is None else None
                # The next record that the log has may be pending, and so later than anything that is done.
                if span is not None and span.is_exact and span.record_offset == requested[key]:
                    found.setdefault(key, {})[requested[key]] = span.low_ms
        return found

    def _keys(
        self, group: str, scope: PartitionScope, commits: Mapping[TopicPartition, CommittedOffset]
    ) -> list[TopicPartition]:
        if scope.named:
            there = self._log.places(sorted({key.topic for key in scope.named}))
            for key, where in scope.named.items():
                if key.topic not in there:
                    raise UsageError(f"{where}: topic {printable(key.topic)} does not exist")
                if key.partition not in there[key.topic].leaders:
                    raise UsageError(f"{where}: topic {printable(key.topic)} has no partition {key.partition}")
            return sorted(scope.named)
        committed = [key for key in commits if scope.topic in ("", key.topic)]
        if not scope.topic:
            if not committed:
                raise UsageError(f"group {printable(group)} committed nothing, so there is nothing to edit")
            return committed
        places = self._log.places([scope.topic]).get(scope.topic)
        if places is None:
            raise UsageError(f"topic {printable(scope.topic)} does not exist")
        if unknown := sorted(set(scope.partitions) - set(places.leaders)):
            raise UsageError(f"topic {printable(scope.topic)} has no partition {unknown[0]}")
        if scope.partitions:
            return [TopicPartition(scope.topic, number) for number in sorted(set(scope.partitions))]
        if scope.uncommitted:
            return [TopicPartition(scope.topic, number) for number in sorted(places.leaders)]
        if not committed:
            raise UsageError(f"group {printable(group)} committed nothing for topic {printable(scope.topic)}")
        return committed

    def _observed(
        self,
        group: str,
        keys: Collection[TopicPartition],
        commits: Mapping[TopicPartition, CommittedOffset],
        times_ms: Collection[int],
        now: datetime,
        description: GroupDescription,
    ) -> Observed:
        places = self._log.places(sorted({key.topic for key in keys}))
        if gone := sorted({key.topic for key in keys} - set(places)):
            raise UsageError(
                f"topic {printable(gone[0])} does not exist any more, though the group has commits for it",
                hint="name the topic that is meant with --topic",
            )
        spans = self._log.spans(keys)
        at = {ms: self._log.offsets_at(dict.fromkeys(keys, ms)) for ms in sorted(set(times_ms))}
        return Observed(
            cluster_id=self._cluster_id,
            taken_at=now,
            group=description,
            partitions=tuple(
                self._seen(group, key, commits.get(key), places[key.topic], spans[key], {ms: at[ms][key] for ms in at})
                for key in keys
            ),
            dialects=frozenset(read_metadata(held.metadata, held.offset).dialect for held in commits.values()),
            limit_chars=self._limit_chars,
        )

    def _seen(
        self,
        group: str,
        key: TopicPartition,
        commit: CommittedOffset | None,
        places: TopicPlaces,
        span: LogSpan | ItemError,
        at: Mapping[int, int | ItemError | None],
    ) -> SeenPartition:
        if isinstance(span, ItemError):
            raise TryLaterError(f"the ends of {key} cannot be read: {span}")
        offset_at: dict[int, int | None] = {}
        for ms, answer in at.items():
            if isinstance(answer, ItemError):
                raise TryLaterError(f"the offset of a time cannot be found in {key}: {answer}")
            offset_at[ms] = answer
        identity = CommitIdentity(
            cluster_id=self._cluster_id, topic_id=places.topic_id, partition=key.partition, group=group
        )
        return SeenPartition(
            partition=key,
            identity=identity,
            span=span,
            committed=commit,
            reading=None if commit is None else read_metadata(commit.metadata, commit.offset, identity),
            offset_at=offset_at,
        )
