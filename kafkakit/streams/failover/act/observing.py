"""One look at everything that an operation needs to know, in the order that makes its conclusions safe. Writes nothing.

Commits are read before ends, so that an end which did not grow was the end when the commits were read. Read are topics
with their ends and groups, writers, last records, how fast groups read old topics and how old the unread records are.

Clients of a stream register themselves. Clocks of hosts are never compared: a registration is silent when it has not
changed for its delivery timeout by the clock of this process.

A drain certificate is checked against the clusters that it is about.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import MappingProxyType

from kafkakit.core.cluster_facts import (
    AclResourceKind,
    CommittedOffset,
    GroupDescription,
    GroupType,
    ItemError,
    LogSpan,
    Quotas,
    ResourceKind,
)
from kafkakit.core.errors import InputError, KafkakitError, OperationFailedError, TryLaterError
from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import epoch_ms
from kafkakit.core.rights import lacking_rights
from kafkakit.ports.acting import Clock, pause
from kafkakit.ports.data import ClusterClients, LogReader
from kafkakit.streams.client.api import ClientKind, ClientRegistration
from kafkakit.streams.failover.decide.drain_proof import (
    CommitPace,
    late_partitions,
    late_words,
    left_in,
    recovered_partitions,
    unread_places,
)
from kafkakit.streams.failover.decide.evidence import (
    ClientFacts,
    EndWalk,
    Evidence,
    GroupStanding,
    QuietWatch,
    References,
    TopicStanding,
    WriterFacts,
    basis_of,
    empty_topic,
    ends_of,
    group_facts,
    has_read,
    quiet_of,
    references_in,
    unreachable_topics,
    watch_ends,
)
from kafkakit.streams.failover.decide.history import CertificateCheck, DrainCertificate, SegmentEvidence
from kafkakit.streams.failover.decide.operation import (
    Failover,
    FailoverRequest,
    FenceChoice,
    FenceKind,
    LaneMove,
    OldCopies,
    OperationRecord,
    Step,
    step_by_route,
)
from kafkakit.streams.failover.decide.plan import is_in_place
from kafkakit.streams.model.log_batches import RecordTime, record_at
from kafkakit.streams.model.provenance import REPLAY_GROUPS
from kafkakit.streams.model.route import DLQ, GONE, Route, Segment, SegmentState, partitions_of, segment_problem
from kafkakit.streams.routes.api_act import OpenCluster, find_topics, own_settings

ReadReferences = Callable[[Sequence[Segment]], Mapping[int, Sequence[tuple[int, int]]]]
"""Partition and offset of the records that are rejected by reference and not copied yet, by segment id."""

RELOOKED = (FenceChoice.CONFIG, FenceChoice.QUOTA)
"""Fences whose look at a cluster is whole each time; for an ACL the bindings are enough."""


class ClientWatch:
    """Reads registrations again and again; one request to the store a look."""

    def __init__(self, read: Callable[[], Iterable[ClientRegistration]], clock: Clock) -> None:
        self._read, self._clock = read, clock
        self._seen: dict[str, tuple[int, float]] = {}

    def look(self) -> tuple[ClientFacts, ...]:
        """Every registration, by id; raises `TryLaterError` while the store is away."""
        found = []
        for each in self._read():
            now_s, timeout_s = self._clock.monotonic(), each.delivery_timeout_ms / 1000
            beat, since_s = self._seen.get(each.id, (each.beat, now_s))
            if beat != each.beat:
                since_s = now_s
            self._seen[each.id] = (each.beat, since_s)
            found.append(
                ClientFacts(
                    id=each.id,
                    is_producer=each.kind is ClientKind.PRODUCER,
                    group=each.group,
                    epoch=each.epoch,
                    delivery_timeout_s=timeout_s,
                    is_silent=now_s - since_s > timeout_s + MARGIN_S,
                    lanes=each.lanes,
                )
            )
        return tuple(sorted(found, key=lambda client: client.id))


class OperationObserver:
    """The looks of one process at one operation; what is quiet and what is fenced is in its memory alone."""

    def __init__(
        self, open_cluster: OpenCluster, clients: ClientWatch, clock: Clock, read_references: ReadReferences
    ) -> None:
        self._open, self._clients, self._clock, self._read_references = open_cluster, clients, clock, read_references
        self._quiet: QuietWatch | None = None
        self._writers: dict[int, WriterFacts] = {}
        self._routed_s: float | None = None

    def plan_look(self, operation: Failover, route: Route) -> Evidence:
        """Everything a plan judges; in an emergency the old clusters are left alone: they may hang."""
        evidence = self._base(operation, route)
        segments = [segment for _, segment in operation.old_segments(route)]
        if operation.request.is_emergency:
            groups = {client.group for client in evidence.clients if client.group} | set(operation.groups)
            return replace(evidence, targets=self._targets(operation, groups))
        old = self._old_of(operation, route, every_group=True, effective=False)
        groups = {name for facts in old.values() for name in facts.groups} | set(operation.groups)
        return replace(
            self._with_references(replace(evidence, old=old), segments),
            targets=self._targets(operation, groups),
            writers={each.id: self.writers_of(each, operation.request) for each in segments},
        )

    def look(self, record: OperationRecord, route: Route, *, retiring: bool) -> Evidence:
        """What the next step of an operation depends on, and no more. `retiring`: every group is listed, too."""
        operation, step = record.operation, step_by_route(record.operation, route)
        evidence = self._base(operation, route)
        if step in (Step.PLANNED, Step.OPENED):
            names = (*operation.groups, *operation.letter_groups)
            evidence = replace(evidence, targets=self._targets(operation, names))
            if step is Step.OPENED and not operation.request.is_emergency:
                old = self._old_of(operation, route, every_group=False, effective=False)
                evidence = replace(evidence, old=old)
            return evidence
        if step is None:
            return evidence
        return self._look_at_old(record, evidence, step, retiring=retiring)

    def _look_at_old(self, record: OperationRecord, evidence: Evidence, step: Step, *, retiring: bool) -> Evidence:
        operation, route = record.operation, evidence.route
        segments = _old_of(operation, route)
        now_s = self._clock.monotonic()
        self._routed_s = now_s if self._routed_s is None else self._routed_s
        is_sealed = step is Step.SEALED
        every_group = is_sealed and retiring and bool(record.certificate)
        old = self._old_of(operation, route, every_group=every_group, effective=not is_sealed)
        evidence = replace(evidence, old=old, routed_for_s=now_s - self._routed_s)
        if is_sealed:
            evidence = replace(evidence, unknown_groups=_unknown(operation, old) if every_group else None)
            return self._with_references(evidence, segments) if _is_read(record, segments, old) else evidence
        evidence = replace(evidence, writers=self._look_at_writers(record, segments, old))
        in_place = {each.id: _kinds_in_place(record, each, evidence) for each in segments}
        fenced = frozenset(n for n, kinds in in_place.items() if kinds - {FenceKind.QUOTA} or old[n].is_gone)
        delayed = frozenset(number for number, kinds in in_place.items() if FenceKind.QUOTA in kinds)
        evidence = replace(evidence, fenced=fenced, delayed=delayed)
        basis = basis_of(evidence, [each.id for each in segments], record.routed_epoch or route.epoch)
        ends = ends_of(operation, route, old)
        self._quiet = watch_ends(self._quiet, basis, ends, now_s, self._clock.monotonic())
        kind = next((each.kind for each in record.fences if each.segment in fenced), FenceKind.NONE)
        return replace(evidence, quiet=quiet_of(self._quiet, kind))

    def writers_of(self, segment: Segment, request: FailoverRequest) -> WriterFacts:
        """Who wrote to a topic, read now."""
        return read_writers(self._open(segment.cluster), segment, request.is_open_by_default)

    def references(self, segments: Sequence[Segment], old: Mapping[int, TopicStanding]) -> dict[int, References]:
        """What references lead to in each of these segments; raises where a ledger cannot be read."""
        found = self._read_references(segments)
        spans = {each.id: old[each.id].whole_spans or {} if each.id in old else {} for each in segments}
        return {each.id: references_in(found.get(each.id, ()), spans[each.id]) for each in segments}

    def forget_quiet(self) -> None:
        """Begin the window again, as after a late writer."""
        self._quiet = None

    def _base(self, operation: Failover, route: Route) -> Evidence:
        """The clients first: what they acknowledged was so before anything else is read.

        A registration that cannot be read may be of a newer client, and stops a failover that is not an emergency.
        """
        try:
            clients = self._clients.look()
        except InputError:
            if not operation.request.is_emergency:
                raise
            clients = ()
        return Evidence(route=route, now_ms=epoch_ms(self._clock.now()), clients=clients)

    def _targets(self, operation: Failover, groups: Iterable[str]) -> dict[str, TopicStanding]:
        profile = operation.request.to
        return read_targets(self._open(profile), profile, operation.moves, sorted(set(groups)))

    def _old(
        self, segments: list[Segment], groups: Iterable[str], *, every_group: bool, effective: bool
    ) -> dict[int, TopicStanding]:
        """Clusters side by side: one that hangs delays no other."""
        profiles = sorted({segment.cluster for segment in segments})
        names = tuple(groups)

        def read(profile: str) -> dict[int, TopicStanding]:
            mine = [segment for segment in segments if segment.cluster == profile]
            return read_segments(self._open(profile), mine, names, every_group=every_group, effective=effective)

        if len(profiles) < 2:
            return read(profiles[0]) if profiles else {}
        with ThreadPoolExecutor(len(profiles)) as pool:
            return {number: facts for found in pool.map(read, profiles) for number, facts in found.items()}

    def _old_of(
        self, operation: Failover, route: Route, *, every_group: bool, effective: bool
    ) -> dict[int, TopicStanding]:
        """The old topics; one of lane `dlq` that was deleted holds nothing, and keeps nothing from being done."""
        segments = _old_of(operation, route)
        names = (*operation.groups, *operation.letter_groups)
        found = self._old(segments, names, every_group=every_group, effective=effective)
        return found | {
            each.id: empty_topic(each, found[each.id])
            for each in segments
            if operation.lane_of(each.id) == DLQ and found[each.id].problem == GONE
        }

    def _look_at_writers(
        self, record: OperationRecord, segments: list[Segment], old: Mapping[int, TopicStanding]
    ) -> dict[int, WriterFacts]:
        """Once for each topic, and the ACLs at each look; nothing where no fence is wanted or the cluster is away."""
        if record.request.fence is FenceChoice.NONE:
            return {}
        found: dict[int, WriterFacts] = {}
        for each in segments:
            if not old[each.id].is_reachable:
                continue
            cluster, known = self._open(each.cluster), self._writers.get(each.id)
            needs_all = known is None or known.problem or record.request.fence in RELOOKED
            found[each.id] = self.writers_of(each, record.request) if needs_all or known is None else known
            if not needs_all and known is not None and known.bindings is not None:
                found[each.id] = read_bindings(cluster, each, known)
        self._writers |= found
        return found

    def _with_references(self, evidence: Evidence, segments: list[Segment]) -> Evidence:
        """The evidence with what is rejected by reference; one ledger that cannot be read leaves all uncounted."""
        try:
            return replace(evidence, rejects=self.references(segments, evidence.old))
        except KafkakitError as error:
            return replace(evidence, rejects_problem=error.message)


def _old_of(operation: Failover, route: Route) -> list[Segment]:
    return [segment for _, segment in operation.old_segments(route)]


def _is_read(record: OperationRecord, segments: list[Segment], old: Mapping[int, TopicStanding]) -> bool:
    """Whether every group is at the ends; until then it does not matter what is rejected by reference."""
    return not any(
        left_in(old[each.id].groups[name].commits.get(seal.partition), seal.effective_end, spans[seal.partition].start)
        for each in segments
        if (spans := old[each.id].whole_spans)
        for name in record.operation.readers_of(each.id)
        if name in old[each.id].groups
        for seal in each.seal
    )


def _kinds_in_place(record: OperationRecord, segment: Segment, evidence: Evidence) -> frozenset[FenceKind]:
    """The fences that the topic has now, by its cluster's own word; only those of this operation count."""
    facts, writers = evidence.old[segment.id], evidence.writers.get(segment.id)
    fences = [fence for fence in record.fences if fence.segment == segment.id]
    return frozenset(f.kind for f in fences if writers is not None and is_in_place(f, segment.topic, facts, writers))


def _unknown(operation: Failover, old: Mapping[int, TopicStanding]) -> tuple[str, ...] | None:
    """Groups with commits that the operation does not wait for; None where a cluster was not read."""
    if any(facts.problem for facts in old.values()):
        return None
    found = set[str]()
    for number, facts in old.items():
        readers = operation.readers_of(number)
        for name, group in facts.groups.items() if operation.lane_of(number) != DLQ else ():  # what stays is not lost
            # Earlier failovers committed the beginning of each lane for every group.
            if name not in readers and (has_read(group) if name in operation.groups else group.commits):
                found.add(name)
    found -= set(operation.request.ignored)
    return tuple(sorted(name for name in found if not name.startswith(REPLAY_GROUPS)))


OPEN_TO_EVERYONE = "allow.everyone.if.no.acl.found"
FETCH_BYTES, ANSWER_BYTES = 1 << 20, 8 << 20


def read_segments(
    cluster: ClusterClients, segments: Sequence[Segment], groups: Collection[str], *, every_group: bool, effective: bool
) -> dict[int, TopicStanding]:
    """The topics of segments of one profile. A cluster that is not reached is a fact, and no error.

    With `every_group` all groups of the cluster are read. Cost: four requests for the topics, three to each leader, and
    for groups three to each coordinator, and one more for each 500 of them.
    """
    try:
        return _read_segments(cluster, segments, groups, every_group=every_group, effective=effective)
    except KafkakitError as error:
        return unreachable_topics(tuple(segments), error.message)


def read_targets(
    cluster: ClusterClients, profile: str, moves: Sequence[LaneMove], groups: Collection[str]
) -> dict[str, TopicStanding]:
    """The topics of a target by lane, whether they are there or not."""
    try:
        cluster_id = cluster.admin.cluster().cluster_id
        found = find_topics(cluster.admin, {move.topic for move in moves})
        segments = {
            move.lane: Segment(
                id=0, cluster=profile, cluster_id=cluster_id, topic=move.topic, topic_id=there.topic_id or "",
                partitions=there.partitions, state=SegmentState.OPENED,
            )
            for move in moves
            if (there := found.get(move.topic)) is not None
        }  # fmt: skip
        facts = _facts_of(cluster, list(segments.values()), groups, cluster_id, every_group=False)
        by_topic = {segments[lane].topic: lane for lane in segments}
        known = {by_topic[topic]: each for topic, each in facts.items()}
        return {move.lane: known.get(move.lane, TopicStanding(cluster_id=cluster_id)) for move in moves}
    except KafkakitError as error:
        why = TopicStanding(problem=f"profile {profile}: {error.message}", is_reachable=False)
        return {move.lane: why for move in moves}


def read_writers(cluster: ClusterClients, segment: Segment, is_open_by_default: bool | None = None) -> WriterFacts:
    """Who writes to a topic and what its cluster offers as fences: one request to each leader, two to each broker.

    `is_open_by_default` is what an operator states of topics without ACLs; KRaft brokers do not tell.
    """
    try:
        keys = partitions_of(segment)
        described = cluster.admin.describe_producers(keys)
        transactions = cluster.admin.list_transactions()
        return WriterFacts(
            producers={key.partition: each for key, each in described.items() if not isinstance(each, ItemError)},
            transactions=tuple(each for each in transactions if not each.partitions.isdisjoint(keys)),
            bindings=cluster.admin.describe_acls(AclResourceKind.TOPIC, segment.topic),
            allows_everyone=_allows_everyone(cluster) if is_open_by_default is None else is_open_by_default,
            quotas=_quotas(cluster),
        )
    except KafkakitError as error:
        return WriterFacts(problem=error.message)


def read_bindings(cluster: ClusterClients, segment: Segment, known: WriterFacts) -> WriterFacts:
    """The ACLs of a topic anew, with the rest as it was."""
    try:
        bindings = cluster.admin.describe_acls(AclResourceKind.TOPIC, segment.topic)
    except KafkakitError as error:
        return WriterFacts(problem=error.message)
    return WriterFacts(
        producers=known.producers,
        transactions=known.transactions,
        bindings=bindings,
        allows_everyone=known.allows_everyone,
        quotas=known.quotas,
    )


def effective_ends(log: LogReader, spans: Mapping[TopicPartition, LogSpan]) -> dict[TopicPartition, int]:
    """The offset after the last record that readers get, of logs without an open transaction; absent where a read
    failed. Cost: as a rule one read of each leader, for a log that ends with markers one more."""
    from kafkakit.execution.act.retrier import fetch_answers

    walks = {key: EndWalk.of(span.start, span.end) for key, span in spans.items()}
    failed: set[TopicPartition] = set()
    while wanted := {k: w.offset for k, w in walks.items() if w.found is None and k not in failed}:
        answers = fetch_answers(log, wanted, max_bytes=ANSWER_BYTES, partition_bytes=FETCH_BYTES)
        is_moving = False
        for key in wanted:
            answer = answers[key]
            if answer.error is not None:
                failed.add(key)
            elif answer.records:
                walks[key] = walks[key].after(answer.records)
                is_moving = True
        if not is_moving:
            break
    return {key: walk.found for key, walk in walks.items() if walk.found is not None}


def _read_segments(
    cluster: ClusterClients, segments: Sequence[Segment], groups: Collection[str], *, every_group: bool, effective: bool
) -> dict[int, TopicStanding]:
    cluster_id = cluster.admin.cluster().cluster_id
    found = find_topics(cluster.admin, {segment.topic for segment in segments})
    problems = {each.id: segment_problem(each, cluster_id, found.get(each.topic)) for each in segments}
    sound = [each for each in segments if not problems[each.id]]
    facts = _facts_of(cluster, sound, groups, cluster_id, every_group=every_group, effective=effective)
    return {
        each.id: facts[each.topic]
        if each.topic in facts
        else TopicStanding(
            cluster_id=cluster_id,
            topic_id=found[each.topic].topic_id if each.topic in found else None,
            problem=problems[each.id],
        )
        for each in segments
    }


def _facts_of(
    cluster: ClusterClients,
    segments: Sequence[Segment],
    groups: Collection[str],
    cluster_id: str,
    *,
    every_group: bool,
    effective: bool = False,
) -> dict[str, TopicStanding]:
    """By topic."""
    if not segments:
        return {}
    configs = cluster.admin.dynamic_configs(ResourceKind.TOPIC, {segment.topic for segment in segments})
    read = _read_groups(cluster, segments, groups, every_group=every_group)
    keys = [key for segment in segments for key in partitions_of(segment)]
    spans = cluster.log.spans(keys)
    stable = {k: s for k, s in spans.items() if isinstance(s, LogSpan) and s.stable == s.end}
    ends = effective_ends(cluster.log, stable) if effective else {}
    return {
        segment.topic: TopicStanding(
            cluster_id=cluster_id,
            topic_id=segment.topic_id,
            partitions=segment.partitions,
            configs=dict(own_settings(configs.get(segment.topic, {}))),
            spans={key.partition: spans[key] for key in partitions_of(segment) if key in spans},
            effective={key.partition: ends[key] for key in partitions_of(segment) if key in ends},
            groups=read[segment.topic],
        )
        for segment in segments
    }


def _read_groups(
    cluster: ClusterClients, segments: Sequence[Segment], groups: Collection[str], *, every_group: bool
) -> dict[str, dict[str, GroupStanding]]:
    if every_group and lacking_rights({"describe"}, cluster.admin.cluster().operations):
        # Brokers leave out groups that may not be seen, and do not say that there are any.
        raise OperationFailedError("no right to list all groups", hint="grant DESCRIBE on the cluster")
    names = {listed.group for listed in cluster.groups.groups()} | set(groups) if every_group else set(groups)
    described = cluster.groups.describe(sorted(names)) if names else {}
    keys = [key for segment in segments for key in partitions_of(segment)]
    found: dict[str, dict[str, GroupStanding]] = {segment.topic: {} for segment in segments}
    sharing = [name for name, about in described.items() if getattr(about, "type", None) is GroupType.SHARE]
    commits = {
        **cluster.groups.committed_by(sorted(names - set(sharing)), keys),
        **_read_share_groups(cluster, sharing),
    }
    for name in sorted(names):
        about, own = described.get(name), commits[name]
        if not isinstance(about, GroupDescription):
            raise OperationFailedError(f"group {name} is not described: {about or 'no answer'}")
        if isinstance(own, ItemError):
            words = f"group {name} is not read: {own}"
            raise TryLaterError(words) if own.retriable else OperationFailedError(words)
        for segment in segments:
            facts = group_facts(segment, about, own)
            if name in groups or facts.commits or any(facts.held):
                found[segment.topic][name] = facts
    return found


def _read_share_groups(
    cluster: ClusterClients, groups: Sequence[str]
) -> dict[str, Mapping[TopicPartition, CommittedOffset | ItemError] | ItemError]:
    """Where share groups stand, as commits: they have none, and asking for them is an error."""
    found = cluster.groups.share_offsets(groups) if groups else {}
    return {
        name: each
        if isinstance(each, ItemError)
        else {one.place: one.error or CommittedOffset(offset=one.start or 0) for one in each}
        for name, each in found.items()
    }


def _quotas(cluster: ClusterClients) -> Quotas | None:
    """The cluster's quotas; None where it has none to tell, or not to this user."""
    try:
        return cluster.admin.describe_client_quotas()
    except KafkakitError:
        return None


def _allows_everyone(cluster: ClusterClients) -> bool | None:
    """The brokers' setting, False where the alive ones differ; None where none of them says."""
    ids = [broker.id for broker in cluster.admin.cluster().brokers if broker.is_alive]
    found = cluster.admin.broker_settings(ids, (OPEN_TO_EVERYONE,))
    values = {settings[OPEN_TO_EVERYONE].lower() for settings in found.values() if OPEN_TO_EVERYONE in settings}
    return None if not values else values == {"true"}


MARGIN_S = 10.0
"""Registrations are written every 5 s."""

BETWEEN_S = 6.0
"""Clients commit every 5 s by default."""
MOST_PLACES, PLACES_AT_ONCE = 1_000, 200
PARTITION_BYTES, PACE_ANSWER_BYTES = 32 << 10, 8 << 20


def measure_pace(
    open_cluster: OpenCluster, clock: Clock, operation: Failover, old: Mapping[int, tuple[Segment, TopicStanding]]
) -> CommitPace:
    """Read the commits of old topics once more after 6 s, and the records where groups stand, 1,000 at most.

    Nothing is read and no time passes where every group has read everything.
    """
    places = {n: unread_places(operation.readers_of(n), facts, segment.topic) for n, (segment, facts) in old.items()}
    if not any(places.values()):
        return CommitPace()
    began_s = clock.monotonic()
    first_ms: dict[tuple[int, int, int], int] = {}
    for number, wanted in places.items():
        if wanted:
            log = open_cluster(old[number][0].cluster).log
            found = _first_times(log, sorted(wanted)[: MOST_PLACES - len(first_ms)])
            first_ms |= {(number, key.partition, offset): at_ms for (key, offset), at_ms in found.items()}
    pause(clock, max(0.0, BETWEEN_S - (clock.monotonic() - began_s)))
    later: dict[int, TopicStanding] = {}
    for profile in sorted({segment.cluster for segment, _ in old.values()}):
        mine = [segment for segment, _ in old.values() if segment.cluster == profile]
        later |= read_segments(open_cluster(profile), mine, operation.groups, every_group=False, effective=False)
    return CommitPace(seconds=clock.monotonic() - began_s, later=later, first_ms=first_ms)


def _first_times(
    log: LogReader, wanted: Collection[tuple[TopicPartition, int]]
) -> dict[tuple[TopicPartition, int], int]:
    """The times of the first records at or above these offsets; absent where a read failed, or a record has none."""
    from kafkakit.execution.act.retrier import fetch_answers

    found: dict[tuple[TopicPartition, int], int] = {}
    left = list(wanted)
    while left:
        # One offset of each partition at a time.
        now = dict(list(dict(reversed(left)).items())[:PLACES_AT_ONCE])
        left = [place for place in left if now.get(place[0]) != place[1]]
        answers = fetch_answers(log, now, max_bytes=PACE_ANSWER_BYTES, partition_bytes=PARTITION_BYTES)
        for key, offset in now.items():
            answer = answers[key]
            record = None if answer.error is not None else record_at(answer.records, offset)
            if isinstance(record, RecordTime) and record.low_ms >= 0:
                found[key, offset] = record.low_ms
    return found


def check_certificate(
    certificate: DrainCertificate,
    open_cluster: OpenCluster,
    journal_hash: str | None,
    copies: Mapping[int, OldCopies] = MappingProxyType({}),
) -> CertificateCheck:
    """Read ends and commits again where the topics are still there; a cluster that is away is a fact, and no error.

    What came after a seal and is among the `copies` is not late any more.
    """
    late: list[str] = []
    recovered: list[str] = []
    short: list[str] = []
    unread: list[str] = []
    gone: list[str] = []
    for each in certificate.segments:
        segment = each.as_segment()
        facts = read_old(segment, [group.group for group in each.groups], open_cluster)
        if facts.problem or facts.whole_spans is None:
            is_gone = facts.cluster_id == each.cluster_id and facts.topic_id != each.topic_id
            (gone if is_gone else unread).append(f"{each.topic}: {facts.problem or 'a leader does not answer'}")
            continue
        late += [late_words(segment, n, more) for n, more in late_partitions(segment, facts, copies.get(segment.id))]
        recovered += [late_words(segment, n, more) for n, more in recovered_partitions(segment, copies.get(segment.id))]
        short += _groups_short_of(each, facts)
    return CertificateCheck(
        certificate=certificate,
        late=tuple(late),
        recovered=tuple(recovered),
        short=tuple(short),
        unread=tuple(unread),
        gone=tuple(gone),
        is_anchored=None if journal_hash is None else journal_hash == certificate.sha256,
    )


def _groups_short_of(each: SegmentEvidence, facts: TopicStanding) -> list[str]:
    """Groups whose offsets went back below the end; one whose offsets expired since has none, which says nothing."""
    found = []
    for group in each.groups:
        commits = facts.groups[group.group].commits if group.group in facts.groups else {}
        for seal in each.partitions:
            commit = commits.get(seal.partition)
            if commit is not None and not isinstance(commit, ItemError) and commit.offset < seal.effective_end:
                found.append(f"group {group.group} is at {commit.offset} of {seal.effective_end} in {each.topic}")
    return found


def read_old(segment: Segment, groups: Sequence[str], open_cluster: OpenCluster) -> TopicStanding:
    """The topic of an old segment and these groups; a profile that is not known any more is a fact, and no error."""
    try:
        cluster = open_cluster(segment.cluster)
    except KafkakitError as error:
        return TopicStanding(problem=error.message, is_reachable=False)
    return read_segments(cluster, (segment,), groups, every_group=False, effective=False)[segment.id]
