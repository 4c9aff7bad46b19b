"""What one look at a stream and its clusters found, as values; what could not be read is absent or says why."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kafkakit.core.acls import AclBinding
from kafkakit.core.client_quotas import Quotas
from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.group_facts import CommittedOffset, GroupState, GroupType
from kafkakit.core.log_reads import LogSpan
from kafkakit.core.transactions import OpenTransaction, ProducerState
from kafkakit.streams.failover.decide.operation import FenceKind
from kafkakit.streams.model.route import Route, Segment

Commits = Mapping[int, CommittedOffset | ItemError]
"""What a group committed for a topic, by partition; a partition without a commit is absent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """A group on one cluster, as far as one topic concerns it.

    `epochs` are the route epochs in its commits' metadata by partition; `held` are the partitions that each member
    holds. `has_stream_time` is true for commits that only Kafka Streams makes.
    """

    group: str
    type: GroupType
    state: GroupState
    commits: Commits = field(default_factory=dict)
    epochs: Mapping[int, int] = field(default_factory=dict)
    held: tuple[frozenset[int], ...] = ()
    has_stream_time: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """The topic of a segment, or of one that is to be made, on its live cluster.

    `problem` says why it is not the one that is meant, or why nothing is known of it; `is_reachable` is false in the
    latter case. `spans` hold an error where a leader did not answer. `effective` are the offsets after the last record
    that a reader gets, by partition, where the stable end was the end. `topic_id` is None where there is no topic.
    """

    cluster_id: str = ""
    topic_id: str | None = None
    partitions: int = 0
    problem: str = ""
    is_reachable: bool = True
    configs: Mapping[str, str] = field(default_factory=dict)
    spans: Mapping[int, LogSpan | ItemError] = field(default_factory=dict)
    effective: Mapping[int, int] = field(default_factory=dict)
    groups: Mapping[str, GroupFacts] = field(default_factory=dict)

    @property
    def whole_spans(self) -> Mapping[int, LogSpan] | None:
        """The spans, where every partition was read; None otherwise: an error proves nothing."""
        found = {number: span for number, span in self.spans.items() if isinstance(span, LogSpan)}
        return found if self.partitions and len(found) == self.partitions else None

    @property
    def records(self) -> int | None:
        """How many offsets the logs hold; None where one is not known."""
        spans = self.whole_spans
        return None if spans is None else sum(span.end - span.start for span in spans.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterFacts:
    """Who writes to a topic, what keeps writers away, and what fences its cluster offers.

    `bindings` None: the cluster has no authorizer. `allows_everyone` is `allow.everyone.if.no.acl.found`, None where
    the brokers do not say. `quotas` are all of the cluster's, None where they cannot be read. `problem` says why the
    rest is not known.
    """

    producers: Mapping[int, tuple[ProducerState, ...]] = field(default_factory=dict)
    transactions: tuple[OpenTransaction, ...] = ()
    bindings: tuple[AclBinding, ...] | None = None
    allows_everyone: bool | None = None
    quotas: Quotas | None = None
    problem: str = ""

    @property
    def open_transactions(self) -> tuple[str, ...]:
        """Transactions that wait for their markers: their ids, or producer ids where no coordinator names one."""
        named = {each.producer_id: each.transactional_id for each in self.transactions}
        found = {
            named.get(state.producer_id, f"producer {state.producer_id}")
            for states in self.producers.values()
            for state in states
            if state.transaction_start is not None
        }
        return tuple(sorted(found | set(named.values())))

    def words_of(self, partitions: Iterable[int]) -> tuple[str, ...]:
        """The producers that partitions remember, in words: Kafka keeps neither client ids nor hosts of them."""
        return tuple(
            f"partition {number}: producer {state.producer_id}, epoch {state.producer_epoch}, last at {state.last_ms}"
            for number in partitions
            for state in self.producers.get(number, ())
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFacts:
    """A client of the stream as it registered itself; `is_silent` once it has not written for its delivery timeout."""

    id: str
    is_producer: bool
    group: str
    epoch: int
    delivery_timeout_s: float
    is_silent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """How long the ends of all old logs have been the same, by this process's looks alone, and on what basis."""

    basis: str
    seconds: float
    fence: FenceKind = FenceKind.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One look. `old` are topics by segment id, `targets` by lane, `writers` by segment id.

    `rejects` counts records that are rejected by reference, by segment id: absent where not read. `unknown_groups` are
    those with commits for an old topic that the operation neither requires nor ignores, None where not listed.
    `fenced` are the old segments whose fence was seen in place by this look, `delayed` those whose quota was.
    """

    route: Route
    now_ms: int
    old: Mapping[int, TopicFacts] = field(default_factory=dict)
    targets: Mapping[str, TopicFacts] = field(default_factory=dict)
    writers: Mapping[int, WriterFacts] = field(default_factory=dict)
    clients: tuple[ClientFacts, ...] = ()
    rejects: Mapping[int, int] = field(default_factory=dict)
    unknown_groups: tuple[str, ...] | None = None
    fenced: frozenset[int] = frozenset()
    delayed: frozenset[int] = frozenset()
    quiet: Quiet | None = None
    routed_for_s: float = 0.0

    def producers(self) -> tuple[ClientFacts, ...]:
        """The producers that registered themselves and are not silent."""
        return tuple(client for client in self.clients if client.is_producer and not client.is_silent)

    def consumers(self, group: str) -> tuple[ClientFacts, ...]:
        """The consumers of a group that registered themselves and are not silent."""
        found = (client for client in self.clients if not client.is_producer and client.group == group)
        return tuple(client for client in found if not client.is_silent)


def unreachable(segments: tuple[Segment, ...], why: str) -> dict[int, TopicFacts]:
    """The facts of segments whose cluster does not answer."""
    return {segment.id: TopicFacts(problem=why, is_reachable=False) for segment in segments}
