"""`topicmappr check` as a pure function: snapshot and rules in, findings out."""

from dataclasses import dataclass

from kafkakit.core.findings import Finding, in_order
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan import StorageFacts
from kafkakit.core.topic_selection import TopicSelection, select_topics
from kafkakit.placement.broker_disks import broker_disks
from kafkakit.topicmappr.decide.check.balance_rules import balance_findings
from kafkakit.topicmappr.decide.check.catalogue import RULES, CheckRequest
from kafkakit.topicmappr.decide.check.health_rules import health_findings
from kafkakit.topicmappr.decide.check.placement_rules import placement_findings
from kafkakit.topicmappr.decide.check.table import Subject, table_of
from kafkakit.topicmappr.decide.size_source import storage_facts


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What was found, worst first, and what it was looked for in; `notes` say what to keep in mind."""

    findings: tuple[Finding, ...]
    cluster_id: str
    selection: TopicSelection
    brokers: tuple[int, ...]
    partitions: int
    replicas: int
    storage: StorageFacts
    unchecked: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def check_cluster(snapshot: ClusterSnapshot, request: CheckRequest, facts: StorageFacts | None = None) -> CheckReport:
    """Hold a cluster against its rules.

    Raises `UsageError` when no topic matches. Sizes that are not known are findings, not errors.
    O(replicas), about 2 s for 600,000.
    """
    names = [t.name for t in snapshot.topics]
    if request.topics or request.topics_exclude:
        selection = select_topics(names, request.topics or (".*",), request.topics_exclude)
    else:
        selection = TopicSelection(tuple(sorted(names)), ())
    table = table_of(snapshot, frozenset(selection.selected))
    live = {b.id: b for b in snapshot.brokers if b.is_alive}
    judged = {b: broker for b, broker in live.items() if b not in snapshot.leaving}
    if request.brokers is not None:
        chosen = request.brokers.resolve(frozenset(table.broker.tolist()), frozenset(live), snapshot.leaving)
        judged = {b: live[b] for b in chosen if b in live}
    subject = Subject(snapshot=snapshot, table=table, request=request, live=live, judged=judged)
    disks = broker_disks(snapshot)
    found = [*placement_findings(subject), *health_findings(subject), *balance_findings(subject, disks)]
    return CheckReport(
        findings=in_order(found),
        cluster_id=snapshot.cluster_id,
        selection=selection,
        brokers=tuple(judged),
        partitions=table.partitions,
        replicas=len(table.part),
        storage=facts or storage_facts(snapshot),
        unchecked=_unchecked(subject, any(s.capacity_bytes for s in disks.brokers.values())),
        notes=disks.notes_on(judged),
    )


def _unchecked(subject: Subject, disks_known: bool) -> tuple[str, ...]:
    """The rules that could not be checked with what was given, in the catalogue's order."""
    missing = set()
    if not subject.request.replication:
        missing.add("low-replication")
    if subject.request.brokers is None:
        missing.add("broker-set")
    if not disks_known:
        missing |= {"broker-share", "disk-use"}
    if not any(len(b.log_dirs) > 1 for b in subject.judged.values()):
        missing.add("dir-share")
    if not any(b.log_dirs for b in subject.judged.values()):
        missing |= {"failed-dir", "cordoned-dir"}
    if not subject.table.isr_known.any():
        missing |= {"below-min-isr", "under-replicated"}
    if not (subject.table.leader >= 0).any():
        missing.add("preferred-leader")
    if not subject.racks:
        missing |= {"rack-rule", "rack-spread"}
    return tuple(rule.name for rule in RULES if rule.name in missing)
