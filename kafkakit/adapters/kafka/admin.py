"""`ports.ClusterAdmin` over kafka-python 3.0: control of Kafka 3.9 (KRaft and ZooKeeper) and 4.x.

Of configurations of topics and brokers, what is set on the resource itself is read, and changed key by key.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from kafkakit import __version__
from kafkakit.adapters.kafka import admin_read as read
from kafkakit.adapters.kafka import admin_write
from kafkakit.adapters.kafka import admin_write as write
from kafkakit.adapters.kafka.admin_read import assemble
from kafkakit.adapters.kafka.admin_write import (
    change_request,
    change_results,
    deletion_requests,
    deletion_results,
    quotas_of,
    quotas_request,
)
from kafkakit.adapters.kafka.session import UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID, KafkaSession, error_from, error_of
from kafkakit.config.security import Security
from kafkakit.core.cluster_facts import (
    CLUSTER_DEFAULT,
    AclBinding,
    AclResourceKind,
    BrokerLogDirs,
    ClusterInfo,
    ConfigChange,
    ConfigOp,
    ItemError,
    LayeredValue,
    MetadataVersion,
    OpenTransaction,
    PartitionHealth,
    PartitionState,
    ProducerState,
    Quorum,
    QuotaChanges,
    QuotaEntity,
    Quotas,
    ResourceKind,
)
from kafkakit.core.errors import TooOldError
from kafkakit.core.model import ClusterSnapshot, Reassignment, TopicPartition, TopicPartitionReplica
from kafkakit.ports.acting import wait_until

NAMES_PER_REQUEST = 500
CREATION_WAIT_S = 10.0
NEWEST_KNOWN = (4, 3)
"""The newest release kafka-python 3.0 can tell from its protocol; a later one looks the same."""

ItemResult = ItemError | None


class KafkaAdmin:
    """Admin client of one cluster; connects on first use.

    `request_timeout_s` bounds each request to one broker; `bootstrap_timeout_s` the first contact, after
    which `TryLaterError` is raised. Every call survives the loss of the broker it was connected to: it continues
    with another one. Not for use by two threads at once. `old_moves` reads the znode of moves where Kafka has no
    request for them (before 2.4).
    """

    def __init__(
        self,
        bootstrap_servers: str,
        security: Security,
        *,
        request_timeout_s: float = 30,
        bootstrap_timeout_s: float = 10,
        old_moves: Callable[[], bytes] | None = None,
    ) -> None:
        self._old_moves = old_moves
        self._session = KafkaSession(bootstrap_servers, security, request_timeout_s, bootstrap_timeout_s)
        self._source = bootstrap_servers
        # Brokers get a little less, so that their answer to a slow request still arrives.
        self._timeout_ms = int(request_timeout_s * 800)

    def close(self) -> None:
        """Drop all connections; harmless when there are none."""
        self._session.close()

    def cluster(self) -> ClusterInfo:
        """See `ports.ClusterAdmin`; `operations` are lower-case names such as `alter_configs`."""
        from kafka.protocol.admin import DescribeClusterRequest

        request = DescribeClusterRequest(include_cluster_authorized_operations=True, include_fenced_brokers=True)
        try:
            return read.cluster_info(self._session.request("describe cluster", request), self._version())
        except TooOldError:
            return read.old_cluster_info(self._request_metadata([]), self._version())

    def snapshot(self, *, now: datetime, topics: Collection[str] | None = None, sizes: bool = True) -> ClusterSnapshot:
        """See `ports.ClusterAdmin`; raises `OperationFailedError` where rights are missing, never shows less."""
        info = self.cluster()
        found = self._metadata(topics)
        answers: Mapping[int, BrokerLogDirs] = {}
        if sizes:
            wanted = None
            if topics is not None:
                wanted = [TopicPartition(t.name, p.partition_index) for t in found for p in t.partitions]
            answers = self.log_dirs([b.id for b in info.brokers if b.is_alive], wanted)
            if topics is None:
                found += self._hidden_topics(answers, {t.name for t in found})
        names = sorted(t.name for t in found)
        return assemble(
            info=info,
            now=now,
            source=self._source,
            topics=found,
            configs=self.dynamic_configs(ResourceKind.TOPIC, names),
            reassignments=self.reassignments(),
            answers=answers if sizes else None,
        )

    def partition_states(self, topics: Collection[str]) -> Mapping[TopicPartition, PartitionState]:
        return read.states_of(self._metadata(topics))

    def partition_health(self) -> PartitionHealth:
        return read.health_of(self._metadata(None))

    def topic_settings(self, topics: Collection[str], keys: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        return read_topic_settings(self._session, topics, keys)

    def topic_names(self) -> frozenset[str]:
        """See `ports.ClusterAdmin`; names alone from Kafka 4.1 on (KIP-1142), else the metadata of all partitions."""
        from kafka.protocol.admin import ListConfigResourcesRequest

        try:
            kinds = [write.RESOURCE_CODE[ResourceKind.TOPIC]]
            request = ListConfigResourcesRequest(resource_types=kinds, min_version=1)
            names = read.listed_topics(self._session.request("list topics", request))
        except TooOldError:
            names = frozenset()
        return names or frozenset(topic.name for topic in self._metadata(None))

    def topic_operations(self, topics: Collection[str] | None = None) -> Mapping[str, frozenset[str] | None]:
        return read.topic_operations_of(self._metadata(topics, operations=True))

    def log_dirs(
        self, brokers: Collection[int], partitions: Collection[TopicPartition] | None = None
    ) -> Mapping[int, BrokerLogDirs]:
        """See `ports.ClusterAdmin`; one request to each broker, within `request_timeout_s` together."""
        from kafka.protocol.admin import DescribeLogDirsRequest

        topics: list[tuple[str, list[int]]] | None = None
        if partitions is not None:
            grouped: dict[str, list[int]] = {}
            for key in partitions:
                grouped.setdefault(key.topic, []).append(key.partition)
            topics = list(grouped.items())
        requests = {broker: DescribeLogDirsRequest(topics=topics) for broker in sorted(set(brokers))}
        answers = self._session.request_brokers(requests)
        return {broker: read.log_dirs_of(broker, answers[broker]) for broker in requests}

    def reassignments(self) -> tuple[Reassignment, ...]:
        from kafka.protocol.admin import ListPartitionReassignmentsRequest

        request = ListPartitionReassignmentsRequest(timeout_ms=self._timeout_ms, topics=None)
        try:
            return read.reassignments_of(self._session.request("list reassignments", request, errors=_top_code))
        except TooOldError:
            if self._old_moves is None:
                raise
            return read.old_reassignments(self._old_moves(), self.partition_states)

    def reassign(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> Mapping[TopicPartition, ItemResult]:
        """See `ports.ClusterAdmin`; above 10,000 changes Kafka takes the first and refuses the rest one by one."""
        return self._reassign(dict(targets))

    def cancel(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, ItemResult]:
        """See `ports.ClusterAdmin`; the set of replicas comes back, their order does not."""
        return self._reassign(dict.fromkeys(partitions, None))

    def dynamic_configs(self, kind: ResourceKind, names: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """See `ports.ClusterAdmin`; a broker that does not answer is absent. A write may show up late: poll."""
        return read_configs(self._session, kind, names)

    def broker_settings(self, brokers: Collection[int], keys: Collection[str]) -> Mapping[int, Mapping[str, str]]:
        """See `ports.ClusterAdmin`; side by side."""
        return read_settings(self._session, brokers, keys)

    def metadata_versions(self, brokers: Collection[int]) -> Mapping[int, MetadataVersion]:
        """See `ports.ClusterAdmin`; one request a broker, side by side (Kafka 2.7 on)."""
        from kafka.protocol.metadata import ApiVersionsRequest

        request = ApiVersionsRequest(client_software_name="kafkakit", client_software_version=__version__)
        answers = self._session.request_brokers(dict.fromkeys(brokers, request))
        found = {b: read.metadata_version(answer) for b, answer in sorted(answers.items())}
        return {b: version for b, version in found.items() if version is not None}

    def broker_configs(
        self, brokers: Collection[int], *, defaults: bool = False
    ) -> Mapping[int, Mapping[str, LayeredValue]]:
        """See `ports.ClusterAdmin`; one request a broker, side by side."""
        return read_layers(self._session, brokers, defaults=defaults)

    def alter_configs(self, changes: Sequence[ConfigChange]) -> Mapping[ConfigChange, ItemResult]:
        """See `ports.ClusterAdmin`; changes of one resource succeed or fail together within a request."""
        return alter_configs(self._session, changes)

    def check_configs(self, changes: Sequence[ConfigChange]) -> Mapping[ConfigChange, ItemResult]:
        """See `ports.ClusterAdmin`; changes of one resource are judged together."""
        return check_configs(self._session, changes)

    def elect_preferred_leaders(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, ItemResult]:
        if not partitions:
            return {}
        request = write.elect_request(partitions, self._timeout_ms)
        return write.elect_results(
            self._session.request("elect leaders", request, errors=write.elect_codes), partitions
        )

    def move_log_dirs(self, moves: Mapping[TopicPartitionReplica, str]) -> Mapping[TopicPartitionReplica, ItemResult]:
        """See `ports.ClusterAdmin`; one request to each broker, side by side."""
        reported: dict[TopicPartitionReplica, ItemResult] = {}
        answers = self._session.request_brokers(write.dir_requests(moves)) if moves else {}
        for broker, answer in answers.items():
            if isinstance(answer, Exception):
                reported |= dict.fromkeys([k for k in moves if k.broker == broker], error_from(answer))
            else:
                reported |= dict(write.dir_results(broker, answer))
        return {key: reported.get(key, write.UNANSWERED) for key in moves}

    def create_topic(
        self, name: str, assignments: Mapping[int, tuple[int, ...]], configs: Mapping[str, str]
    ) -> ItemResult:
        """See `ports.ClusterAdmin`; waits up to 10 s for the leaders, so that the topic can be used at once."""
        request = write.create_request(name, assignments, configs, self._timeout_ms)
        response = self._session.request("create topic", request, errors=_topic_codes, repeat=False)
        error = error_of(response.topics[0].error_code, response.topics[0].error_message)

        def is_led() -> bool:
            states = self.partition_states([name])
            return len(states) == len(assignments) and all(s.leader is not None for s in states.values())

        if error is None:
            wait_until(time, CREATION_WAIT_S, is_led, 0.05)
        return error

    def create_partitions(self, topic: str, assignments: Mapping[int, tuple[int, ...]]) -> ItemResult:
        request = write.partitions_request(topic, assignments, self._timeout_ms)
        response = self._session.request("create partitions", request, errors=_result_codes, repeat=False)
        return error_of(response.results[0].error_code, response.results[0].error_message)

    def delete_topic(self, name: str) -> ItemResult:
        """See `ports.ClusterAdmin`; metadata may show the topic for a moment more."""
        request = write.delete_request(name, self._timeout_ms)
        response = self._session.request("delete topic", request, errors=_response_codes, repeat=False)
        answer = response.responses[0]
        return error_of(answer.error_code, getattr(answer, "error_message", None))

    def delete_topic_by_id(self, topic_id: str) -> ItemResult:
        """See `ports.ClusterAdmin`; metadata may show the topic for a moment more. Kafka 2.8 and later."""
        request = write.delete_by_id_request(topic_id, self._timeout_ms)
        answer = self._session.request("delete topic", request, errors=_response_codes).responses[0]
        return None if answer.error_code == UNKNOWN_TOPIC_ID else error_of(answer.error_code, answer.error_message)

    def describe_acls(self, kind: AclResourceKind | None, name: str | None) -> tuple[AclBinding, ...] | None:
        """See `ports.ClusterAdmin`. A write may show up late: poll."""
        return admin_write.acls_of(self._session.request("describe ACLs", admin_write.acls_request(kind, name)))

    def create_acls(self, bindings: Collection[AclBinding]) -> Mapping[AclBinding, ItemResult]:
        """See `ports.ClusterAdmin`; one request, which is repeated where no answer came."""
        if not bindings:
            return {}
        response = self._session.request("create ACLs", admin_write.creation_request(bindings))
        return admin_write.acl_results(response.results, bindings)

    def delete_acls(self, bindings: Collection[AclBinding]) -> Mapping[AclBinding, ItemResult]:
        """See `ports.ClusterAdmin`; one request, which is repeated where no answer came."""
        if not bindings:
            return {}
        response = self._session.request("delete ACLs", admin_write.removal_request(bindings))
        return admin_write.acl_results(response.filter_results, bindings)

    def describe_producers(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[ProducerState, ...] | ItemError]:
        """See `ports.ClusterAdmin`; side by side, after one request for the leaders."""
        leaders = {key: state.leader for key, state in self.partition_states({key.topic for key in partitions}).items()}
        requests = admin_write.producers_requests(partitions, leaders)
        answers = self._session.request_brokers(requests) if requests else {}
        return admin_write.producers_of(partitions, leaders, answers)

    def list_transactions(self) -> tuple[OpenTransaction, ...]:
        """See `ports.ClusterAdmin`; brokers side by side. Kafka 3.0 and later."""
        brokers = [broker.id for broker in self.cluster().brokers if broker.is_alive]
        listed = self._session.request_brokers(dict.fromkeys(brokers, admin_write.listing_request()))
        found: list[OpenTransaction] = []
        for broker, answer in listed.items():
            for request in admin_write.description_requests(broker, answer):
                described = self._session.request_brokers({broker: request})
                found += admin_write.transactions_of(broker, described[broker])
        return tuple(sorted(found, key=lambda each: each.transactional_id))

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, ItemResult]:
        """See `ports.ClusterAdmin`; side by side, after one request for the leaders."""
        leaders = {key: state.leader for key, state in self.partition_states({key.topic for key in offsets}).items()}
        requests = deletion_requests(offsets, leaders, self._timeout_ms)
        answers = self._session.request_brokers(requests) if requests else {}
        return deletion_results(offsets, leaders, answers)

    def describe_client_quotas(self) -> Quotas:
        """See `ports.ClusterAdmin`; one request. A write may show up late: poll."""
        return quotas_of(self._session.request("read client quotas", quotas_request()))

    def alter_client_quotas(self, changes: QuotaChanges) -> Mapping[QuotaEntity, ItemResult]:
        """See `ports.ClusterAdmin`; one request."""
        if not changes:
            return {}
        return change_results(self._session.request("change client quotas", change_request(changes)), changes)

    def quorum(self) -> Quorum | None:
        with suppress(TooOldError):
            return read.quorum_of(self._session.request("describe quorum", read.quorum_request()))
        return None

    def unregister_broker(self, broker: int) -> ItemResult:
        from kafkakit.adapters.kafka.session import UnregisterBroker

        response = self._session.request("unregister broker", UnregisterBroker(broker_id=broker))
        error = error_of(response.error_code, response.error_message)
        return None if error is not None and error.name == write.NOT_REGISTERED else error

    def _metadata(self, topics: Collection[str] | None, *, operations: bool = False) -> list[Any]:
        batches: list[list[str] | None] = [None]
        if topics is not None:
            names = sorted(set(topics))
            batches = [names[i : i + NAMES_PER_REQUEST] for i in range(0, len(names), NAMES_PER_REQUEST)]
        found: list[Any] = []
        for batch in batches:
            found += self._request_metadata(batch, operations=operations).topics
        return [t for t in found if t.error_code != UNKNOWN_TOPIC]

    def _request_metadata(self, topics: list[str] | None, *, operations: bool = False) -> Any:
        from kafka.protocol.metadata import MetadataRequest

        wanted = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=n) for n in topics]
        request = MetadataRequest(
            topics=wanted, allow_auto_topic_creation=False, include_topic_authorized_operations=operations
        )
        return self._session.request("describe topics", request)

    def _hidden_topics(self, answers: Mapping[int, BrokerLogDirs], seen: set[str]) -> list[Any]:
        # The list of all topics silently lacks those that the user may not see; the log dirs do not.
        # Asked for by name they answer with the missing right, which raises where they are read.
        on_disk = {key.topic for answer in answers.values() for key in answer.replicas}
        late = self._metadata(on_disk - seen) if on_disk - seen else []
        read.states_of(late)
        return late

    def _reassign(
        self, targets: Mapping[TopicPartition, tuple[int, ...] | None]
    ) -> Mapping[TopicPartition, ItemResult]:
        if not targets:
            return {}
        request = write.reassign_request(targets, self._timeout_ms)
        return write.reassign_results(self._session.request("move replicas", request, errors=_top_code), targets)

    def _version(self) -> str | None:
        version = self._session.version
        if version is None:
            return None
        return ".".join(map(str, version)) + (" or later" if version >= NEWEST_KNOWN else "")


def _top_code(response: Any) -> set[int]:
    return {response.error_code}


def _topic_codes(response: Any) -> set[int]:
    return {t.error_code for t in response.topics}


def _result_codes(response: Any) -> set[int]:
    return {result.error_code for result in response.results}


def _response_codes(response: Any) -> set[int]:
    return {r.error_code for r in response.responses}


REFUSES_OVERGROWN = (4,)
"""From this release on a broker refuses to let a list grow above 32,767 bytes."""


def read_configs(session: KafkaSession, kind: ResourceKind, names: Collection[str]) -> dict[str, dict[str, str]]:
    """Values set on each named resource; absent: what does not exist and brokers that do not answer."""
    from kafka.protocol.admin import DescribeConfigsRequest

    code = write.RESOURCE_CODE[kind]
    wanted = sorted(set(names))
    results: list[Any] = []
    if kind is ResourceKind.BROKER:
        requests = {int(n): DescribeConfigsRequest(resources=[(code, n, None)]) for n in wanted if n.isdigit()}
        for answer in (session.request_brokers(requests) if requests else {}).values():
            results += [] if isinstance(answer, Exception) else answer.results
        if CLUSTER_DEFAULT in wanted:
            request = DescribeConfigsRequest(resources=[(code, CLUSTER_DEFAULT, None)])
            results += session.request("read configurations", request).results
    else:
        for start in range(0, len(wanted), NAMES_PER_REQUEST):
            results += _topic_results(session, wanted[start : start + NAMES_PER_REQUEST])
    return dict(sorted(read.configs_of(kind, results).items()))


def read_settings(session: KafkaSession, brokers: Collection[int], keys: Collection[str]) -> dict[int, dict[str, str]]:
    """The values in force of the named keys, wherever they were set; absent: silent brokers and unset keys."""
    from kafka.protocol.admin import DescribeConfigsRequest

    code = write.RESOURCE_CODE[ResourceKind.BROKER]
    names = sorted(set(keys))
    requests = {b: DescribeConfigsRequest(resources=[(code, str(b), names)]) for b in sorted(set(brokers))}
    found: dict[int, dict[str, str]] = {}
    for broker, answer in (session.request_brokers(requests) if requests and names else {}).items():
        if not isinstance(answer, Exception):
            found[broker] = {
                entry.name: entry.value
                for result in answer.results
                if result.error_code == 0
                for entry in result.configs
                if entry.name in names and entry.value is not None
            }
    return found


def read_topic_settings(
    session: KafkaSession, topics: Collection[str], keys: Collection[str]
) -> dict[str, dict[str, str]]:
    """The values in force of the named keys of topics; absent: topics that do not exist, and unset keys."""
    wanted, names = sorted(set(topics)), sorted(set(keys))
    found: dict[str, dict[str, str]] = {}
    for start in range(0, len(wanted), NAMES_PER_REQUEST):
        results = _topic_results(session, wanted[start : start + NAMES_PER_REQUEST], names)
        for result in read.existing(ResourceKind.TOPIC, results):
            found[result.resource_name] = {c.name: c.value for c in result.configs if c.value is not None}
    return found


def read_layers(
    session: KafkaSession, brokers: Collection[int], *, defaults: bool
) -> dict[int, dict[str, LayeredValue]]:
    """Every value of each broker, `defaults` too where wanted, with where it was set; absent: silent brokers."""
    from kafka.protocol.admin import DescribeConfigsRequest

    code = write.RESOURCE_CODE[ResourceKind.BROKER]
    requests = {b: DescribeConfigsRequest(resources=[(code, str(b), None)]) for b in sorted(set(brokers))}
    found: dict[int, dict[str, LayeredValue]] = {}
    for broker, answer in (session.request_brokers(requests) if requests else {}).items():
        if not isinstance(answer, Exception):
            found[broker] = read.layers_of(answer.results, defaults=defaults)
    return found


def alter_configs(session: KafkaSession, changes: Sequence[ConfigChange]) -> dict[ConfigChange, ItemResult]:
    """Apply changes in order; one answer each. Changes of one resource in a request succeed or fail together."""
    reported: dict[ConfigChange, ItemResult] = {c: error for c in changes if (error := write.too_long(c))}
    for wanted in write.config_rounds([c for c in changes if c not in reported]):
        overgrown = _overgrown(session, wanted)
        reported |= overgrown
        reported |= _send_changes(session, [c for c in wanted if c not in overgrown], validate_only=False)
    return {change: reported[change] for change in changes}


def check_configs(session: KafkaSession, changes: Sequence[ConfigChange]) -> dict[ConfigChange, ItemResult]:
    """One answer for each change, by the broker that would make it; nothing is changed."""
    reported: dict[ConfigChange, ItemResult] = {c: error for c in changes if (error := write.too_long(c))}
    reported |= _send_changes(session, [c for c in changes if c not in reported], validate_only=True)
    return {change: reported[change] for change in changes}


def _send_changes(
    session: KafkaSession, changes: Sequence[ConfigChange], *, validate_only: bool
) -> dict[ConfigChange, ItemResult]:
    reported: dict[ConfigChange, ItemResult] = {}
    to_brokers: dict[int, tuple[Any, dict[tuple[int, str], write.Changes]]] = {}
    for broker, request, groups in write.config_batches(list(changes), validate_only=validate_only):
        if broker is None:
            response = session.request("check configurations" if validate_only else "change configurations", request)
            reported |= write.config_results(response, groups)
        else:
            to_brokers[broker] = (request, groups)
    return reported | _alter_brokers(session, to_brokers)


def _alter_brokers(
    session: KafkaSession, batches: Mapping[int, tuple[Any, dict[tuple[int, str], write.Changes]]]
) -> dict[ConfigChange, ItemResult]:
    reported: dict[ConfigChange, ItemResult] = {}
    answers = session.request_brokers({b: request for b, (request, _) in batches.items()}) if batches else {}
    for broker, answer in answers.items():
        groups = batches[broker][1]
        if isinstance(answer, Exception):
            reported |= dict.fromkeys([c for group in groups.values() for c in group], error_from(answer))
        else:
            reported |= write.config_results(answer, groups)
    return reported


def _topic_results(session: KafkaSession, names: list[str], keys: list[str] | None = None) -> list[Any]:
    from kafka.protocol.admin import DescribeConfigsRequest

    code = write.RESOURCE_CODE[ResourceKind.TOPIC]
    request = DescribeConfigsRequest(resources=[(code, name, keys) for name in names])
    results = list(session.request("read configurations", request).results)
    if len(names) > 1 and any(result.error_code == read.UNKNOWN_FAULT for result in results):
        # On Kafka 3.9 one topic with a value above 32,767 bytes spoils the answer for all of them.
        middle = len(names) // 2
        return _topic_results(session, names[:middle], keys) + _topic_results(session, names[middle:], keys)
    return results


def _overgrown(session: KafkaSession, changes: Sequence[ConfigChange]) -> dict[ConfigChange, ItemResult]:
    # Kafka 3.9 lets a list grow above the limit and then cannot read the topic's configuration any more.
    growing = [c for c in changes if c.kind is ResourceKind.TOPIC and c.op is ConfigOp.APPEND]
    if not growing or (session.version or (0,)) >= REFUSES_OVERGROWN:
        return {}
    now = read_configs(session, ResourceKind.TOPIC, {change.name for change in growing})
    refusals = {c: write.too_long(c, now.get(c.name, {}).get(c.key, "")) for c in growing}
    return {change: refusal for change, refusal in refusals.items() if refusal}
