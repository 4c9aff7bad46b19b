"""Checking a drain certificate against the clusters that it is about."""

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import KafkakitError
from kafkakit.streams.failover.act.reading import read_segments
from kafkakit.streams.failover.decide.certificate import DrainCertificate, SegmentEvidence
from kafkakit.streams.failover.decide.drained import late_partitions, late_words
from kafkakit.streams.failover.decide.evidence import TopicFacts
from kafkakit.streams.failover.decide.outcome import CertificateCheck
from kafkakit.streams.model.route import Segment
from kafkakit.streams.routes.api_act import OpenCluster


def check_certificate(
    certificate: DrainCertificate, open_cluster: OpenCluster, journal_hash: str | None
) -> CertificateCheck:
    """Read ends and commits again where the topics are still there; a cluster that is away is a fact, and no error."""
    late: list[str] = []
    short: list[str] = []
    unread: list[str] = []
    gone: list[str] = []
    for each in certificate.segments:
        segment = each.as_segment()
        facts = _read(segment, [group.group for group in each.groups], open_cluster)
        if facts.problem or facts.whole_spans is None:
            is_gone = facts.cluster_id == each.cluster_id and facts.topic_id != each.topic_id
            (gone if is_gone else unread).append(f"{each.topic}: {facts.problem or 'a leader does not answer'}")
            continue
        late += [late_words(segment, n, more) for n, more in late_partitions(segment, facts)]
        short += _short(each, facts)
    return CertificateCheck(
        certificate=certificate,
        late=tuple(late),
        short=tuple(short),
        unread=tuple(unread),
        gone=tuple(gone),
        is_anchored=None if journal_hash is None else journal_hash == certificate.sha256,
    )


def _short(each: SegmentEvidence, facts: TopicFacts) -> list[str]:
    """Groups whose offsets went back below the end; one whose offsets expired since has none, which says nothing."""
    found = []
    for group in each.groups:
        commits = facts.groups[group.group].commits if group.group in facts.groups else {}
        for seal in each.partitions:
            commit = commits.get(seal.partition)
            if commit is not None and not isinstance(commit, ItemError) and commit.offset < seal.effective_end:
                found.append(f"group {group.group} is at {commit.offset} of {seal.effective_end} in {each.topic}")
    return found


def _read(segment: Segment, groups: list[str], open_cluster: OpenCluster) -> TopicFacts:
    try:
        cluster = open_cluster(segment.cluster)
    except KafkakitError as error:
        return TopicFacts(problem=error.message, is_reachable=False)
    return read_segments(cluster, (segment,), groups, every_group=False, effective=False)[segment.id]
