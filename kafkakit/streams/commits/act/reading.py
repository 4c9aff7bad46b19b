"""Reading groups on a live cluster: looks, once or again and again, and what an edit needs to know. Writes nothing.

A look reads commits, then logs, then the records that hold the commits up. Its cost, whatever the number of
partitions: one request to each coordinator for members, one a group for commits, three to each leader for the ends of
logs, a few to each leader for record times, and once an inspector the brokers' limits. Copies of MirrorMaker are
looked for only if a commit holds a map of parallel-consumer, and owners of foreign payloads only if there is such a
payload.

Before an edit: one request to the coordinator for the members and one for the commits, three to each leader for the
ends of logs, one a leader for each time that is looked up, and one a leader for the records at the new offsets.

Times of records are cheap for many partitions at once. A broker gives each partition of a fetch whole batches within
its bytes, and nothing at all if the first batch is larger, save for the first partition of the answer. So many
partitions are asked at once with a small limit of bytes each, and those that gave nothing again with more, in the end
one by one.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from kafkakit.core.cluster_facts import (
    ClusterInfo,
    CommittedOffset,
    GroupDescription,
    GroupState,
    GroupType,
    ItemError,
    LogSpan,
    TopicPlaces,
)
from kafkakit.core.errors import (
    KafkakitError,
    OperationFailedError,
    RefusedError,
    TryLaterError,
    UsageError,
    stopped_run,
)
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import epoch_ms
from kafkakit.core.text import few_of, sanitize, shell_command, shown_name
from kafkakit.execution.act.retrier import fetch_answers
from kafkakit.ports.acting import Clock, Reporter, Screen, repeat_every
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.data import ClusterClients, GroupAdmin, LogReader
from kafkakit.streams.commits.decide.editing.changes import GroupObservation, SeenPartition
from kafkakit.streams.commits.decide.editing.decision import check_left, check_quiet, check_removable, require_settled
from kafkakit.streams.commits.decide.group_look import (
    ALL,
    LIMIT_KEY,
    CommitScope,
    GroupLook,
    MetadataLimits,
    bare_look,
    failed_look,
    foreign_commits,
    is_unstable,
    no_such_group,
    nothing_in_scope,
    offsets_to_date,
    read_limits,
    refused_group,
    shifted_by_copies,
    time_at,
    with_findings,
    with_logs,
    with_times,
)
from kafkakit.streams.commits.decide.hazards import (
    Checkpoints,
    checkpoint_topics,
    copied_from,
    next_offset,
    read_checkpoints,
    read_syncs,
    sync_topics,
)
from kafkakit.streams.commits.report.groups import StateChange, change_line, screen_text
from kafkakit.streams.model.commit import CommitIdentity, utc_text
from kafkakit.streams.model.dialects.dialect import CommitFacts, CopiedFrom, TimeSpan
from kafkakit.streams.model.dialects.registry import KnownTopic, find_origin, read_metadata
from kafkakit.streams.model.mirrormaker import OffsetSync

FETCH_BYTES = 8 << 20
COPY_BYTES = 64 << 20  # what is read of one of MirrorMaker's topics at most
MOST_OWNERS = 20  # foreign payloads of a group whose owner is looked for
GROUPS_AT_ONCE = 500

Known = tuple[Sequence[KnownTopic], Sequence[str]]


class Inspector:
    """One reader of one cluster's commits; keeps what does not change from look to look.

    `known` gives topics and groups of other clusters, to tell whose a foreign payload is; `program` is how to call
    kafkakit for this cluster. Calls raise `TryLaterError` when the cluster cannot be reached.
    """

    def __init__(
        self,
        groups: GroupAdmin,
        log: LogReader,
        admin: ClusterAdmin,
        clock: Clock,
        known: Callable[[], Known] = lambda: ((), ()),
        program: str = "kafkakit",
    ) -> None:
        self._groups, self._log, self._admin, self._clock, self._known = groups, log, admin, clock, known
        self._times, self._program = RecordTimes(log), program
        self._limits: MetadataLimits | None = None
        self._version: str | None = None
        self._cluster_id = ""
        self._copies: tuple[list[Checkpoints], tuple[OffsetSync, ...]] | None = None
        self._everything: Known | None = None

    def group_names(self) -> tuple[str, ...]:
        """All groups that can commit, sorted: share groups keep their state elsewhere."""
        return tuple(listing.group for listing in self._groups.groups() if listing.type is not GroupType.SHARE)

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        self.limits()
        return self._cluster_id

    def limits(self) -> MetadataLimits:
        """The brokers' limits, read once; without the right to read them nothing is known of them."""
        if self._limits is None:
            info = self._admin.cluster()
            self._version, self._cluster_id = info.kafka_version, info.cluster_id
            self._limits = read_broker_limits(self._admin, info)
        return self._limits

    def look(self, group: str, scope: CommitScope = ALL) -> GroupLook:
        """One group; one that does not exist has nothing in it (`exists`). Raises where it cannot be read."""
        look = self.look_at((group,), scope)[0]
        if look.fault is not None:
            raise look.fault
        return look

    def look_existing(self, group: str, scope: CommitScope) -> GroupLook:
        """One group with commits in scope; raises the failure that names similar groups or topics."""
        look = self.look(group, scope)
        if not look.exists:
            raise no_such_group(group, self.group_names(), self._program)
        if not look.commits and not look.refused and not look.uncommitted:
            raise nothing_in_scope(self.look(group), scope)
        return look

    def chosen_names(self, given: Sequence[str], *, all_groups: bool) -> tuple[str, ...]:
        """The groups to look at, sorted; `UsageError` for none, and a failure for a name that does not exist."""
        if bool(given) == all_groups:
            raise UsageError("give either groups or --all")
        if all_groups:
            return self.group_names()
        known = set(self.group_names())
        for name in given:
            if name not in known and not self.commits_of([name])[0].exists:
                raise no_such_group(name, known, self._program)
        return tuple(sorted(set(given)))

    def look_at(self, groups: Sequence[str], scope: CommitScope = ALL, *, dates: bool = True) -> tuple[GroupLook, ...]:
        """Several groups, in the order given; one that cannot be read says so in its `fault`.

        `dates` False reads no records, so that times are known from payloads alone.
        """
        self._copies = self._everything = None  # true for one look
        looks = list(self.commits_of(groups, scope))
        keys = sorted(
            {facts.key for look in looks for facts in look.commits if facts.key is not None}.union(
                *(look.uncommitted for look in looks)
            )
        )
        if not keys:
            return tuple(looks)
        places = self._log.places(sorted({key.topic for key in keys}))
        spans = self._log.spans(keys)  # also tells a topic that is gone from one that is hidden
        looks = [with_logs(look, places, spans) for look in looks]
        return tuple(self._explained(look) for look in (self._dated(looks) if dates else looks))

    def commits_of(self, groups: Sequence[str], scope: CommitScope = ALL) -> tuple[GroupLook, ...]:
        """What groups committed, and nothing of the logs: identities are not known, so nothing is bound or foreign."""
        return tuple(
            look
            for first in range(0, len(groups), GROUPS_AT_ONCE)
            for look in self._bare(groups[first : first + GROUPS_AT_ONCE], scope)
        )

    def written(self, key: TopicPartition, offset: int) -> TimeSpan | None:
        """When the record at this offset was written, as the log has it."""
        return self._times.at([(key, offset)]).get((key, offset))

    def _bare(self, groups: Sequence[str], scope: CommitScope) -> Iterator[GroupLook]:
        limits = self.limits()
        described = self._groups.describe(groups)
        for group in groups:
            try:
                yield self._committed(group, described.get(group), scope, limits)
            except KafkakitError as error:
                yield failed_look(group, self._cluster_id, self._now_ms(), limits, error)

    def _committed(
        self, group: str, described: GroupDescription | ItemError | None, scope: CommitScope, limits: MetadataLimits
    ) -> GroupLook:
        if not isinstance(described, GroupDescription):
            raise refused_group(group, described)
        answers = self._groups.committed(group)
        waiting = [key for key, answer in answers.items() if is_unstable(answer)]
        earlier = self._groups.committed(group, waiting, stable=False) if waiting else {}
        return bare_look(
            described,
            answers,
            earlier,
            scope,
            cluster_id=self._cluster_id,
            at_ms=self._now_ms(),
            limits=limits,
            version=self._version,
            program=self._program,
        )

    def _dated(self, looks: Sequence[GroupLook]) -> list[GroupLook]:
        wanted = {place for look in looks for place in offsets_to_date(look).items()}
        times = self._times.at(wanted)
        return [with_times(look, times) for look in looks]

    def _explained(self, look: GroupLook) -> GroupLook:
        owners: dict[TopicPartition, str] = {}
        copies: dict[TopicPartition, CopiedFrom] = {}
        for facts in foreign_commits(look)[:MOST_OWNERS]:
            origin = None if facts.identity is None else find_origin(facts.metadata, facts.identity, *self._all_known())
            if origin is not None and facts.key is not None:
                owners[facts.key] = origin.sentence
        for facts in shifted_by_copies(look):
            copy = copied_from(facts, *self._mirrored())
            if copy is not None and facts.key is not None:
                copies[facts.key] = copy
        return with_findings(look, owners, copies)

    def _all_known(self) -> Known:
        if self._everything is None:
            topics, groups = self._known()
            here = known_topics(self._log, self._cluster_id)
            self._everything = (*here, *topics), (*self.group_names(), *groups)
        return self._everything

    def _mirrored(self) -> tuple[list[Checkpoints], tuple[OffsetSync, ...]]:
        if self._copies is None:
            topics = self._log.places()
            checkpoints = [
                read_checkpoints(source, self._whole(name, len(topics[name].leaders)))
                for source, name in checkpoint_topics(topics).items()
            ]
            names = sync_topics(topics) if checkpoints else ()
            syncs = tuple(s for name in names for s in read_syncs(self._whole(name, len(topics[name].leaders))))
            self._copies = checkpoints, syncs
        return self._copies

    def _whole(self, topic: str, partitions: int) -> Iterator[bytes]:
        """Raw chunks of a small topic, from its start to the end it has now, or to a limit."""
        keys = [TopicPartition(topic, number) for number in range(partitions)]
        for key, span in self._log.spans(keys).items():
            at, left = (span.start, COPY_BYTES) if isinstance(span, LogSpan) else (0, 0)
            while isinstance(span, LogSpan) and at < span.end and left > 0:
                fetched = fetch_answers(self._log, {key: at}, max_bytes=FETCH_BYTES)[key]
                after = next_offset(fetched.records, at)
                if fetched.error is not None or after <= at:
                    break
                yield fetched.records
                at, left = after, left - len(fetched.records)

    def _now_ms(self) -> int:
        return epoch_ms(self._clock.now())


def read_broker_limits(admin: ClusterAdmin, info: ClusterInfo) -> MetadataLimits:
    """The brokers' limits of metadata; without the right to read configurations none of them is known."""
    ids = sorted(broker.id for broker in info.brokers)
    try:
        answers = admin.broker_settings(ids, [LIMIT_KEY])
    except OperationFailedError:
        answers = {}
    return read_limits(answers, ids)


def known_elsewhere(clusters: Iterable[AbstractContextManager[ClusterClients]]) -> Known:
    """Topics and groups of other clusters, each of which is opened for as long as it is read."""
    topics: list[KnownTopic] = []
    names: list[str] = []
    for opening in clusters:
        with opening as cluster:
            topics += known_topics(cluster.log, cluster.log.cluster_id())
            names += [listing.group for listing in cluster.groups.groups()]
    return topics, names


def known_topics(log: LogReader, cluster_id: str) -> list[KnownTopic]:
    """All topics of a cluster."""
    return [
        KnownTopic(cluster_id=cluster_id, topic=name, topic_id=place.topic_id, partitions=len(place.leaders))
        for name, place in sorted(log.places().items())
    ]


ROUNDS = ((200, 32 << 10), (8, 1 << 20), (1, 1 << 20))  # partitions at once, bytes for each
MOST_ALONE = 100  # partitions that are asked one by one
MOST = 2_000  # partitions that one call dates

Place = tuple[TopicPartition, int]


class RecordTimes:
    """When records were written, by the log; of one cluster."""

    def __init__(self, log: LogReader) -> None:
        self._log = log

    def at(self, places: Collection[Place]) -> dict[Place, TimeSpan]:
        """The times of the records at these offsets, or the next that the log has; one that cannot be told is absent.

        At most `MOST` are asked for, in order of partition.
        """
        found: dict[Place, TimeSpan] = {}
        left = sorted(set(places))[:MOST]
        for at_once, limit_bytes in ROUNDS:
            if at_once == 1:
                left = left[:MOST_ALONE]
            requested, left = left, []
            while requested:
                batch, requested = _one_a_partition(requested, at_once)
                left += self._ask(batch, limit_bytes, found)
        return found

    def _ask(self, batch: list[Place], limit_bytes: int, found: dict[Place, TimeSpan]) -> list[Place]:
        """Ask once; returns those that may tell when they are given more bytes."""
        answers = fetch_answers(self._log, dict(batch), max_bytes=limit_bytes * len(batch), partition_bytes=limit_bytes)
        again: list[Place] = []
        for place in batch:
            fetched = answers[place[0]]
            if fetched.error is not None:
                continue
            span = time_at(fetched.records, place[1])
            if span is not None:
                found[place] = span
            else:
                again.append(place)
        return again


def _one_a_partition(places: list[Place], most: int) -> tuple[list[Place], list[Place]]:
    """The next places to ask at once, no partition twice, and the rest."""
    batch: dict[TopicPartition, int] = {}
    rest: list[Place] = []
    for key, offset in places:
        if key in batch or len(batch) == most:
            rest.append((key, offset))
        else:
            batch[key] = offset
    return list(batch.items()), rest


class GroupDisplay:
    """Looks on a terminal as a table in place, elsewhere as one line a change."""

    def __init__(self, screen: Screen, *, rows: int, in_place: bool) -> None:
        self._screen, self._rows, self._in_place = screen, rows, in_place

    def show(self, before: GroupLook | None, look: GroupLook) -> None:
        """Show a look, or what is different from the one before."""
        if self._in_place:
            self._screen.show(screen_text(look, rows=self._rows), "")
            return
        for change in changes_between(before, look):
            self._screen.show("", f"{utc_text(look.at_ms)} {change_line(change)}")


def changes_between(before: GroupLook | None, look: GroupLook) -> tuple[StateChange, ...]:
    """What changed, partition by partition; nothing before the first look."""
    if before is None:
        return ()
    old, new = _states(before), _states(look)
    changes = [
        StateChange(
            where=str(key), before=old[key].state if key in old else None, after=new[key].state if key in new else None
        )
        for key in sorted(old.keys() | new.keys())
    ]
    return tuple(change for change in changes if not change.is_empty)


def watch_group(
    look: Callable[[], GroupLook],
    clock: Clock,
    reporter: Reporter,
    shown: GroupDisplay,
    *,
    first: GroupLook,
    every_s: float,
    count: int,
) -> GroupLook:
    """Look every `every_s` seconds, `count` times or without end (0); returns the last look.

    A cluster that cannot be reached is waited for, and told once each time. Raises `InterruptedRunError` on Ctrl-C.
    """
    now, done, is_away = first, 1, False
    shown.show(None, now)
    try:
        for _ in islice(repeat_every(clock, every_s), 1, None):
            if done == count:
                break
            try:
                before, now = now, look()
            except TryLaterError as error:
                if not is_away:
                    reporter.warn(f"{error.message}; the figures shown are of {utc_text(now.at_ms)}; trying again")
                is_away = True
                continue
            if is_away:
                reporter.warn("the cluster answers again")
            is_away = False
            shown.show(before, now)
            done += 1
    except KeyboardInterrupt as stop:
        raise stopped_run(stop, "nothing was changed") from None
    return now


def _states(look: GroupLook) -> dict[TopicPartition, CommitFacts]:
    return {facts.key: facts for facts in look.commits if facts.key is not None}


PARTITION_BYTES = 1 << 20
FETCH_AT_ONCE = 100
NO_TOPIC_ID = bytes(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionScope:
    """Which partitions are edited: `topic` ("": every topic that the group committed for), and its `partitions`.

    No partitions named means: those that the group committed for, or with `uncommitted` all that there are. `single`:
    it has to be one partition. `named`: just these, of any topic, each with the place that names it. `deletes`: commits
    are only deleted, of a group that may be live; `with_group`: with the group, which may have none.
    """

    topic: str = ""
    partitions: tuple[int, ...] = ()
    uncommitted: bool = False
    single: bool = False
    named: Mapping[TopicPartition, str] = field(default_factory=dict)
    deletes: bool = False
    with_group: bool = False


class GroupObserver:
    """Looks at one group of one cluster; `limit_chars` is what its brokers accept as metadata."""

    def __init__(self, groups: GroupAdmin, log: LogReader, *, cluster_id: str, limit_chars: int) -> None:
        self._groups, self._log = groups, log
        self._cluster_id, self._limit_chars = cluster_id, limit_chars

    def look(self, group: str, scope: PartitionScope, times_ms: Collection[int], now: datetime) -> GroupObservation:
        """The group and the partitions in scope; raises `RefusedError` for a live group, `UsageError` for names that
        do not exist, and `TryLaterError` for an open transaction or an answer that did not come."""
        description = self._checked(group, scope.with_group, (scope.topic,) if scope.deletes else ())
        answers = self._groups.committed(group)
        if scope.deletes and not scope.with_group:
            answers = {key: answer for key, answer in answers.items() if key.topic == scope.topic}
        commits = require_settled(group, answers)
        if scope.with_group:
            if description.state is GroupState.DEAD and not commits:
                raise UsageError(f"group {shown_name(group)} does not exist")
            keys = sorted(commits)
        else:
            keys = self._keys(group, scope, commits)
        if scope.single and len(keys) != 1:
            count = f"group {shown_name(group)} committed for {len(keys)}: {few_of(keys)}"
            hint = "name it: --topic NAME --partition N"
            raise UsageError(f"offsets belong to one partition, and {count}", hint=hint)
        return self._observed(group, keys, commits, times_ms, now, description, scope)

    def look_at(
        self, group: str, keys: Collection[TopicPartition], now: datetime, *, deletes: bool = False
    ) -> GroupObservation:
        """The group and just these partitions, without those of topics that are not there any more.

        With `deletes` their commits are only deleted, and the group may be live.
        """
        description = self._checked(group, False, {key.topic for key in keys} if deletes else ())
        commits = require_settled(
            group, self._groups.committed(group, keys) if deletes else self._groups.committed(group)
        )
        there = self._log.places(sorted({key.topic for key in keys}))
        return self._observed(group, sorted(k for k in keys if k.topic in there), commits, (), now, description)

    def _checked(self, group: str, with_group: bool, left_topics: Collection[str]) -> GroupDescription:
        """The group, which may be deleted as a whole, must have left these topics, or has no members."""
        reported = self._groups.describe([group])[group]
        if with_group:
            return check_removable(group, reported)
        return check_left(group, reported, left_topics) if left_topics else check_quiet(group, reported)

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
            return self._named(scope.named)
        committed = [key for key in commits if scope.topic in ("", key.topic)]
        if not scope.topic:
            if not committed:
                raise UsageError(f"group {shown_name(group)} committed nothing, so there is nothing to edit")
            return committed
        places = self._log.places([scope.topic]).get(scope.topic)
        if scope.deletes:
            self._check_deletable(group, scope.topic, places, committed)
        if places is None:
            raise UsageError(f"topic {sanitize(scope.topic)} does not exist")
        if unknown := sorted(set(scope.partitions) - set(places.leaders)):
            raise UsageError(f"topic {sanitize(scope.topic)} has no partition {unknown[0]}")
        if scope.partitions:
            return [TopicPartition(scope.topic, number) for number in sorted(set(scope.partitions))]
        if scope.uncommitted:
            return [TopicPartition(scope.topic, number) for number in sorted(places.leaders)]
        if not committed:
            raise UsageError(f"group {shown_name(group)} committed nothing for topic {sanitize(scope.topic)}")
        return [key for key in committed if not scope.deletes or places is None or key.partition in places.leaders]

    def _named(self, named: Mapping[TopicPartition, str]) -> list[TopicPartition]:
        there = self._log.places(sorted({key.topic for key in named}))
        for key, where in named.items():
            if key.topic not in there:
                raise UsageError(f"{where}: topic {sanitize(key.topic)} does not exist")
            if key.partition not in there[key.topic].leaders:
                raise UsageError(f"{where}: topic {sanitize(key.topic)} has no partition {key.partition}")
        return sorted(named)

    def _check_deletable(
        self, group: str, topic: str, places: TopicPlaces | None, committed: Sequence[TopicPartition]
    ) -> None:
        """Refuse where none of the commits is for a partition that exists: brokers delete no single ones of those."""
        leaders = places.leaders if places is not None else {}
        if committed and all(key.partition not in leaders for key in committed):
            do = "does" if len(committed) == 1 else "do"
            what = (
                f"topic {sanitize(topic)} does not exist" if places is None else f"{few_of(committed)} {do} not exist"
            )
            raise RefusedError(
                f"{what} any more, and brokers delete single commits only for partitions that exist",
                hint="delete them with the group, which must have no members: "
                + str(shell_command("streams commits delete", group, all=True)),
            )

    def _observed(
        self,
        group: str,
        keys: Collection[TopicPartition],
        commits: Mapping[TopicPartition, CommittedOffset],
        times_ms: Collection[int],
        now: datetime,
        description: GroupDescription,
        scope: PartitionScope | None = None,
    ) -> GroupObservation:
        places = self._log.places(sorted({key.topic for key in keys})) if keys else {}
        with_group = scope is not None and scope.with_group
        gone = [key for key in keys if key.topic not in places or key.partition not in places[key.topic].leaders]
        if gone and not with_group:
            raise UsageError(
                f"topic {sanitize(gone[0].topic)} does not exist any more, though the group has commits for it",
                hint="give the topic with --topic",
            )
        spans = self._log.spans(keys) if keys else {}
        for key in gone:
            error = spans[key]
            if isinstance(error, ItemError) and error.is_denied:
                raise OperationFailedError(
                    f"topic {sanitize(key.topic)} cannot be read: {error}", hint="it needs the right DESCRIBE on it"
                )
        at = {ms: self._log.offsets_at(dict.fromkeys(keys, ms)) for ms in sorted(set(times_ms))}
        return GroupObservation(
            cluster_id=self._cluster_id,
            taken_at=now,
            group=description,
            partitions=tuple(
                self._seen(group, key, commits.get(key), places[key.topic], spans[key], {ms: at[ms][key] for ms in at})
                if key not in gone
                else self._gone(group, key, commits.get(key))
                for key in keys
            ),
            dialects=frozenset(read_metadata(held.metadata, held.offset).dialect for held in commits.values()),
            limit_chars=self._limit_chars,
            shared=self._shared(description) if with_group else 0,
        )

    def _shared(self, described: GroupDescription) -> int:
        if described.type is not GroupType.SHARE:
            return 0
        answer = self._groups.share_offsets([described.group])[described.group]
        return 0 if isinstance(answer, ItemError) else len(answer)

    def _gone(self, group: str, key: TopicPartition, commit: CommittedOffset | None) -> SeenPartition:
        identity = CommitIdentity(
            cluster_id=self._cluster_id, topic_id=NO_TOPIC_ID, partition=key.partition, group=group
        )
        return SeenPartition(
            partition=key,
            identity=identity,
            span=LogSpan(start=0, stable=0, end=0),
            committed=commit,
            reading=None if commit is None else read_metadata(commit.metadata, commit.offset),
            is_gone=True,
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
            hint = "start one of the brokers that hold its replicas" if span.is_leaderless else None
            raise TryLaterError(f"the ends of {key} cannot be read: {span}", hint=hint)
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
