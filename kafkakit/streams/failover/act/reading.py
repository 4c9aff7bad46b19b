"""What one look reads of a cluster: topics with their ends and groups, writers, and last records.

Commits are read before ends, so that an end which did not grow was the end when the commits were read.
"""

from collections.abc import Collection, Mapping, Sequence

from kafkakit.core.acls import AclResourceKind
from kafkakit.core.client_quotas import Quotas
from kafkakit.core.cluster_facts import ItemError, ResourceKind
from kafkakit.core.errors import KafkakitError, OperationFailedError, TryLaterError
from kafkakit.core.group_facts import CommittedOffset, GroupDescription, GroupType
from kafkakit.core.log_reads import LogSpan
from kafkakit.core.model import TopicPartition
from kafkakit.core.rights import lacking
from kafkakit.execution.act.log_answers import fetch_answers
from kafkakit.ports.cluster_clients import ClusterClients
from kafkakit.ports.log import LogReader
from kafkakit.streams.failover.decide.commits import group_facts
from kafkakit.streams.failover.decide.effective_end import EndWalk
from kafkakit.streams.failover.decide.evidence import GroupFacts, TopicFacts, WriterFacts, unreachable
from kafkakit.streams.failover.decide.operation import LaneMove
from kafkakit.streams.model.route import Segment, SegmentState, partitions_of, segment_problem
from kafkakit.streams.routes.api_act import find_topics, own_settings

OPEN_TO_EVERYONE = "allow.everyone.if.no.acl.found"
FETCH_BYTES, ANSWER_BYTES = 1 << 20, 8 << 20


def read_segments(
    cluster: ClusterClients, segments: Sequence[Segment], groups: Collection[str], *, every_group: bool, effective: bool
) -> dict[int, TopicFacts]:
    """The topics of segments of one profile. A cluster that is not reached is a fact, and no error.

    With `every_group` all groups of the cluster are read. Cost: four requests for the topics, three to each leader, and
    for groups three to each coordinator, and one more for each 500 of them.
    """
    try:
        return _read_segments(cluster, segments, groups, every_group=every_group, effective=effective)
    except KafkakitError as error:
        return unreachable(tuple(segments), error.message)


def read_targets(
    cluster: ClusterClients, profile: str, moves: Sequence[LaneMove], groups: Collection[str]
) -> dict[str, TopicFacts]:
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
        return {move.lane: known.get(move.lane, TopicFacts(cluster_id=cluster_id)) for move in moves}
    except KafkakitError as error:
        why = TopicFacts(problem=f"profile {profile}: {error.message}", is_reachable=False)
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
) -> dict[int, TopicFacts]:
    cluster_id = cluster.admin.cluster().cluster_id
    found = find_topics(cluster.admin, {segment.topic for segment in segments})
    problems = {each.id: segment_problem(each, cluster_id, found.get(each.topic)) for each in segments}
    sound = [each for each in segments if not problems[each.id]]
    facts = _facts_of(cluster, sound, groups, cluster_id, every_group=every_group, effective=effective)
    return {
        each.id: facts[each.topic]
        if each.topic in facts
        else TopicFacts(
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
) -> dict[str, TopicFacts]:
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
        segment.topic: TopicFacts(
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
) -> dict[str, dict[str, GroupFacts]]:
    if every_group and lacking({"describe"}, cluster.admin.cluster().operations):
        # Brokers leave out groups that may not be seen, and do not say that there are any.
        raise OperationFailedError("no right to list all groups", hint="grant DESCRIBE on the cluster")
    names = {listed.group for listed in cluster.groups.groups()} | set(groups) if every_group else set(groups)
    described = cluster.groups.describe(sorted(names)) if names else {}
    keys = [key for segment in segments for key in partitions_of(segment)]
    found: dict[str, dict[str, GroupFacts]] = {segment.topic: {} for segment in segments}
    sharing = [name for name, about in described.items() if getattr(about, "type", None) is GroupType.SHARE]
    commits = {**cluster.groups.committed_by(sorted(names - set(sharing)), keys), **_shared(cluster, sharing)}
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


def _shared(
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
