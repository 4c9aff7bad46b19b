"""Looking at groups on a live cluster: commits, then logs, then the records that hold them up. Writes nothing.

A look costs, whatever the number of partitions: one request to each coordinator for members, one a group for
commits, three to each leader for the ends of logs, a few to each leader for record times, and once an inspector the
brokers' limits. Copies of MirrorMaker are looked for only where a commit holds a map of parallel-consumer, and owners
of foreign payloads only where there is one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

from kafkakit.core.cluster_facts import ClusterInfo, ItemError
from kafkakit.core.durations import epoch_ms
from kafkakit.core.errors import KafkakitError, OperationFailedError, UsageError
from kafkakit.core.group_facts import GroupDescription, GroupType
from kafkakit.core.log_reads import LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.execution.act.log_answers import fetch_answers
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.ports.cluster_clients import ClusterClients
from kafkakit.ports.groups import GroupAdmin
from kafkakit.ports.log import LogReader
from kafkakit.streams.commits.act.record_dates import RecordTimes
from kafkakit.streams.commits.decide.assembly import (
    bare_look,
    failed_look,
    foreign,
    is_unstable,
    offsets_to_date,
    shifted_by_copies,
    with_findings,
    with_logs,
    with_times,
)
from kafkakit.streams.commits.decide.group_look import (
    ALL,
    CommitScope,
    GroupLook,
    no_such_group,
    nothing_in_scope,
    refused_group,
)
from kafkakit.streams.commits.decide.hazards.copies import (
    Checkpoints,
    checkpoint_topics,
    copied_from,
    next_offset,
    read_checkpoints,
    read_syncs,
    sync_topics,
)
from kafkakit.streams.commits.decide.headroom import LIMIT_KEY, Limits, read_limits
from kafkakit.streams.model.dialects.dialect import CopiedFrom, TimeSpan
from kafkakit.streams.model.dialects.registry import KnownTopic, find_origin
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
        self._limits: Limits | None = None
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

    def limits(self) -> Limits:
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
        if not look.commits and not look.refused:
            raise nothing_in_scope(self.look(group), scope)
        return look

    def chosen_names(self, given: Sequence[str], *, all_groups: bool) -> tuple[str, ...]:
        """The groups to look at, sorted; `UsageError` for none, and a failure for a name that does not exist."""
        if bool(given) == all_groups:
            raise UsageError("name groups, or give --all", hint="one of the two")
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
        keys = sorted({facts.key for look in looks for facts in look.commits if facts.key is not None})
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
        self, group: str, described: GroupDescription | ItemError | None, scope: CommitScope, limits: Limits
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
        for facts in foreign(look)[:MOST_OWNERS]:
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


def read_broker_limits(admin: ClusterAdmin, info: ClusterInfo) -> Limits:
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
