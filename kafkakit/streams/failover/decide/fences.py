"""Which fence may be put on an old topic, and why another may not (Kafka's behaviour as measured on 3.9 and 4.1).

* An ACL denies writes alone. Where everyone is allowed as long as a topic has no binding, the denial also cuts off
  readers, unless a binding that allows everything stands beside it. Super users are denied nothing.
* A size limit of 1 rejects every produce request, and transaction markers too: a partition with an open transaction
  would be stuck, even after the limit is taken away. A producer of kafka-python with its defaults has to be made again.
* A quota delays writes and refuses none, so it proves nothing: the window by time counts. It is set on the client id of
  the lane's producers, and reaches no others. Brokers look for quotas of users first, so those must not be there.

No fence reports to a producer with acks=0: its records are lost without an error. So ends of logs are compared in any
case, a fence only makes the window short.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kafkakit.core.acls import AclBinding, AclOperation, AclPermission, AclResourceKind
from kafkakit.core.client_quotas import PRODUCER_BYTE_RATE, QuotaEntity
from kafkakit.core.errors import RefusedError
from kafkakit.streams.failover.decide.evidence import TopicFacts, WriterFacts
from kafkakit.streams.failover.decide.journal import FenceRecord
from kafkakit.streams.failover.decide.operation import FenceChoice, FenceKind, Operation
from kafkakit.streams.model.route import Route, Segment

EVERYONE = "User:*"
SIZE_KEY, SIZE_LIMIT = "max.message.bytes", "1"
FENCE_RATE = 1
"""Bytes/s of a quota fence: after its first request a producer waits for as long as its records would take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceVerdict:
    """Whether a fence can be used on a topic, with the reasons why not, and what it brings with it."""

    kind: FenceKind
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_usable(self) -> bool:
        """True where nothing speaks against it."""
        return not self.reasons


def judge_fences(
    operation: Operation, segment: Segment, topic: TopicFacts, writers: WriterFacts
) -> tuple[FenceVerdict, ...]:
    """What each kind of fence would do to the topic of a segment."""
    quota_notes = (
        "it delays writes and refuses none, so the ends must stay the same for the window by time",
        f"only producers with client id {operation.client_id_of(segment.id)} are delayed",
    )
    return (
        FenceVerdict(kind=FenceKind.ACL, reasons=tuple(_against_acl(topic, writers)), notes=_ACL_NOTES),
        FenceVerdict(kind=FenceKind.CONFIG, reasons=tuple(_against_config(topic, writers)), notes=_CONFIG_NOTES),
        FenceVerdict(
            kind=FenceKind.QUOTA, reasons=tuple(_against_quota(operation, segment, topic, writers)), notes=quota_notes
        ),
        FenceVerdict(kind=FenceKind.NONE),
    )


def choose_fence(choice: FenceChoice, verdicts: tuple[FenceVerdict, ...]) -> FenceKind:
    """The fence to use; raises `RefusedError` for one that is asked for and cannot be used."""
    usable = {verdict.kind: verdict for verdict in verdicts}
    if choice is FenceChoice.AUTO:
        return FenceKind.ACL if usable[FenceKind.ACL].is_usable else FenceKind.NONE
    chosen = usable[FenceKind(choice.value)]
    if not chosen.is_usable:
        raise RefusedError(
            f"fence {choice} cannot be used: {'; '.join(chosen.reasons)}",
            hint="--fence auto, acl, config, quota or none",
        )
    return chosen.kind


def fence_bindings(topic: str, writers: WriterFacts) -> tuple[AclBinding, ...]:
    """The bindings of an ACL fence in the order in which they are made: readers are allowed before writers are denied.

    Only those that are not there yet, so that taking the fence away removes what it brought and nothing else.
    """
    deny = _binding(topic, AclOperation.WRITE, AclPermission.DENY)
    allow = _binding(topic, AclOperation.ALL, AclPermission.ALLOW)
    there = frozenset(writers.bindings or ())
    wanted = (allow, deny) if needs_allowance(topic, writers) else (deny,)
    return tuple(binding for binding in wanted if binding not in there)


def needs_allowance(topic: str, writers: WriterFacts) -> bool:
    """True where readers live by the absence of bindings, which the denial ends; our own do not count as others."""
    own = {
        _binding(topic, AclOperation.WRITE, AclPermission.DENY),
        _binding(topic, AclOperation.ALL, AclPermission.ALLOW),
    }
    return bool(writers.allows_everyone) and not set(writers.bindings or ()) - own


def is_in_place(fence: FenceRecord, topic: str, facts: TopicFacts, writers: WriterFacts) -> bool:
    """Whether a fence is in place, as far as the cluster's metadata say."""
    match fence.kind:
        case FenceKind.ACL:
            return writers.bindings is not None and not fence_bindings(topic, writers)
        case FenceKind.QUOTA:
            found = (writers.quotas or {}).get(QuotaEntity(client_id=fence.client_id), {})
            return found.get(PRODUCER_BYTE_RATE) == FENCE_RATE
        case FenceKind.CONFIG:
            return facts.configs.get(SIZE_KEY) == SIZE_LIMIT
        case _:
            return False


def inherited(operation: Operation, route: Route, fences: tuple[FenceRecord, ...]) -> tuple[FenceRecord, ...]:
    """Fences of a superseded operation that this one has to take down, as its own.

    A quota on the cluster that producers go to is not among them: the lane's own is set there with its topic.
    """
    at = {segment.id: segment.cluster_id for _, segment in route.segments()}
    return tuple(
        each for each in fences if each.kind is not FenceKind.QUOTA or at.get(each.segment) != operation.cluster_id
    )


def _against_acl(topic: TopicFacts, writers: WriterFacts) -> Iterator[str]:
    if not topic.is_reachable or writers.problem:
        yield topic.problem or writers.problem
    elif writers.bindings is None:
        yield "the cluster has no authorizer"
    elif writers.allows_everyone is None and not writers.bindings:
        # Without a binding and without knowing the setting, a denial may cut off readers, an allowance open the topic.
        yield "brokers do not tell whether topics without ACLs are open: --open-by-default or --closed-by-default"


def _against_config(topic: TopicFacts, writers: WriterFacts) -> Iterator[str]:
    if not topic.is_reachable or writers.problem:
        yield topic.problem or writers.problem
        return
    spans = topic.whole_spans
    if spans is None or len(writers.producers) < topic.partitions:
        yield "not every partition was read, so an open transaction may be there"
    elif any(span.stable < span.end for span in spans.values()):
        yield "a transaction is open: its marker would be rejected, and the partition stuck"
    if writers.open_transactions:
        stuck = ", ".join(writers.open_transactions[:3])
        yield f"transactions are not complete ({stuck}): their markers would be rejected, and partitions stuck"


def _against_quota(operation: Operation, segment: Segment, topic: TopicFacts, writers: WriterFacts) -> Iterator[str]:
    if not topic.is_reachable or writers.problem:
        yield topic.problem or writers.problem
        return
    if operation.cluster_id == segment.cluster_id:
        yield "the lane's new topic is on the same cluster: its producers would be delayed, too"
    if writers.quotas is None:
        yield "the quotas of the cluster cannot be read"
    elif any(entity.user is not None and PRODUCER_BYTE_RATE in values for entity, values in writers.quotas.items()):
        yield "users have quotas, which come before those of client ids"


def _binding(topic: str, operation: AclOperation, permission: AclPermission) -> AclBinding:
    return AclBinding(
        kind=AclResourceKind.TOPIC, name=topic, principal=EVERYONE, operation=operation, permission=permission
    )


_ACL_NOTES = (
    "super users are not denied",
    "a producer with acks=0 loses its records without an error",
    "transactional producers that write under it must be made again",
)
_CONFIG_NOTES = (
    "a producer with acks=0 loses its records without an error",
    "producers of kafka-python must be made again",
    "a transaction that begins under it gets its partitions stuck",
)
