"""In-memory stand-ins of the ports: a clock that moves when told, and a cluster with Kafka's surprises.

`FakeCluster` keeps the contract of `ports.ClusterAdmin` (tests/admin_contract.py runs the same checks
against it and against real brokers). Moves progress only by `advance(seconds)`, at `line_rate` bytes a
second for each broker and direction unless a throttle that names the replica is lower.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from kafkakit.core.cluster_facts import (
    CLUSTER_DEFAULT,
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    AclBinding,
    AclPattern,
    AclResourceKind,
    BrokerLogDirs,
    ClusterInfo,
    ConfigChange,
    ConfigLayer,
    ConfigOp,
    FreeStorage,
    ItemError,
    LayeredValue,
    LiveReplica,
    MetadataVersion,
    OpenTransaction,
    PartitionHealth,
    PartitionSizes,
    PartitionState,
    ProducerState,
    Quorum,
    QuotaChanges,
    QuotaEntity,
    Quotas,
    ResourceKind,
    StorageReading,
    TopicCount,
    Voter,
)
from kafkakit.core.errors import TryLaterError
from kafkakit.core.model import (
    Broker,
    BrokerState,
    ClusterSnapshot,
    LogDir,
    Partition,
    Reassignment,
    Topic,
    TopicPartition,
    TopicPartitionReplica,
)
from tests.fakes.log_reader import FakeLogReader
from tests.fakes.state import (
    FOLLOWER_LIST,
    FOLLOWER_RATE,
    LEADER_LIST,
    LEADER_RATE,
    FakeBroker,
    FakePartition,
    FakeReplication,
    FakeTopic,
)

MAX_CHANGES = 10_000
MAX_CONFIG_BYTES = 32_767
LIST_KEYS = (LEADER_LIST, FOLLOWER_LIST)
RATE_KEYS = (LEADER_RATE, FOLLOWER_RATE)
DEFAULT_SETTINGS = {
    "min.insync.replicas": "1",
    "replica.fetch.backoff.ms": "1000",
    "replication.quota.window.num": "11",
}
TOPIC_DEFAULTS = {"retention.ms": "604800000"}
NO_AUTHORIZER = ItemError(name="SecurityDisabledError")
ItemResult = ItemError | None
R = TypeVar("R")


class FakeClock:
    """A clock that stands still until `sleep` or `advance`; `on_sleep` callbacks get the seconds slept."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self.start = start
        self.elapsed = 0.0
        self.on_sleep: list[Callable[[float], object]] = []

    def now(self) -> datetime:
        return self.start + timedelta(seconds=self.elapsed)

    def monotonic(self) -> float:
        return self.elapsed

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)
        for callback in list(self.on_sleep):
            callback(seconds)

    def advance(self, seconds: float) -> None:
        self.elapsed += max(0.0, seconds)


class FakeStorageMetrics:
    """`ports.StorageMetrics` in memory: holds nothing until a test puts something there, at the clock's time."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.sizes: PartitionSizes | None = None
        self.free: FreeStorage | None = None
        self.closed = False

    def put_sizes(self, sizes: Mapping[TopicPartition, int]) -> None:
        self.sizes = PartitionSizes(bytes_of=dict(sizes), taken_at=self.clock.now())

    def put_free(self, free: Mapping[int, int]) -> None:
        self.free = FreeStorage(bytes_of=dict(free), taken_at=self.clock.now())

    def read(self) -> StorageReading:
        if self.sizes is None or self.free is None:
            raise TryLaterError("nothing was collected yet", hint="run metricsfetcher first")
        return StorageReading(source="fake metrics", sizes=self.sizes, free=self.free)

    def close(self) -> None:
        self.closed = True


class FakeCluster:
    """A Kafka cluster in memory; see the module's text.

    `fenced_visible` False behaves like Kafka 3.9, where a dead broker vanishes from the broker list.
    `operations` and `topic_rights` are what the caller may do, None as from a cluster that does not tell.
    `calls` records every mutating call as (name, argument) before it takes effect.
    """

    def __init__(
        self,
        racks: Mapping[int, str | None],
        *,
        dirs_per_broker: int = 1,
        dir_bytes: int = 10**12,
        line_rate: float = 100e6,
        cluster_id: str = "fake-cluster",
        fenced_visible: bool = True,
    ) -> None:
        self.cluster_id = cluster_id
        self.fenced_visible = fenced_visible
        self.dirs_per_broker = dirs_per_broker
        self.dir_bytes = dir_bytes
        self.brokers: dict[int, FakeBroker] = {}
        self.topics: dict[str, FakeTopic] = {}
        self.replication = FakeReplication(self.brokers, self.topics, line_rate)
        self.calls: list[tuple[str, Any]] = []
        self.checked: list[tuple[ConfigChange, ...]] = []
        self.before_call: list[Callable[[str, Any], object]] = []
        self.log_dir_assignments: dict[TopicPartitionReplica, str] = {}
        self.static_settings: dict[str, str] = {}
        self.dynamic_default: dict[str, str] = {}
        self.own_static: dict[int, dict[str, str]] = {}
        self.metadata: dict[int, MetadataVersion] = {}
        self.closed = False
        self._failures: dict[str, list[tuple[BaseException, bool]]] = {}
        self._item_failures: dict[tuple[str, object], list[ItemError]] = {}
        self.voters: frozenset[int] | None = None
        self.operations: frozenset[str] | None = None
        self.topic_rights: dict[str, frozenset[str] | None] = {}
        self.logs: FakeLogReader | None = None
        """The logs that `delete_records` trims; without them every partition is empty."""
        self.acls: set[AclBinding] | None = None
        """None: there is no authorizer."""
        self.producers: dict[TopicPartition, tuple[ProducerState, ...]] = {}
        self.transactions: list[OpenTransaction] = []
        self.quotas: dict[QuotaEntity, dict[str, float]] = {}
        self._topics_made = 0
        for broker, rack in racks.items():
            self.add_broker(broker, rack)

    # -- what a test does to the cluster ------------------------------------------------------------

    def add_broker(self, broker: int, rack: str | None = None) -> None:
        """Register a new, empty broker."""
        dirs = {f"/data/{broker}/{n}": self.dir_bytes for n in range(self.dirs_per_broker)}
        self.brokers[broker] = FakeBroker(broker, rack, dirs)

    def unregister(self, broker: int) -> None:
        """Remove a broker for good; its ids stay in replica lists."""
        self.kill(broker)
        del self.brokers[broker]

    def kill(self, broker: int) -> None:
        """The broker dies: it leaves every ISR (but the last) and leads nothing; it stays registered."""
        self.brokers[broker].alive = False
        for _, partition in self.replication.partitions():
            self.replication.choose_leader(partition)

    def revive(self, broker: int) -> None:
        """The broker comes back with its copies; they join the ISR on the next `advance`."""
        self.brokers[broker].alive = True
        self.brokers[broker].hung = False

    def hang(self, broker: int) -> None:
        """The broker stops answering but keeps its session; `revive` ends it."""
        self.brokers[broker].hung = True

    def fail_dir(self, broker: int, path: str) -> None:
        """A log dir goes offline: its copies are no longer listed and moves into it stand still."""
        self.brokers[broker].offline_dirs.add(path)

    def cordon_dir(self, broker: int, path: str) -> None:
        """A log dir takes no new copies; what is in it stays and is listed."""
        self.brokers[broker].cordoned_dirs.add(path)

    def advance(self, seconds: float) -> None:
        """Let moves and recovery make progress."""
        self.replication.advance(seconds)
        if seconds > 0:
            for _, partition in self.replication.partitions():
                partition.dirs.update(partition.future_dirs)
                partition.future_dirs.clear()

    def write(self, topic: str, partition: int, size: int) -> None:
        """A producer adds bytes; in-sync copies have them at once."""
        entry = self.topics[topic].partitions[partition]
        for broker in entry.isr:
            entry.copied[broker] = entry.size + size
        entry.size += size

    def add_topic(
        self,
        name: str,
        assignments: Mapping[int, Sequence[int]],
        *,
        size_bytes: int = 0,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic with full copies on its replicas, past all checks and records."""
        self._topics_made += 1
        partitions = {}
        for number, replicas in assignments.items():
            live = [b for b in replicas if b in self.brokers and self.brokers[b].alive]
            partition = FakePartition(
                replicas=list(replicas),
                isr=live,
                leader=live[0] if live else None,
                size=size_bytes,
                copied=dict.fromkeys(replicas, size_bytes),
                dirs={b: self._dir_for(TopicPartitionReplica(name, number, b)) for b in replicas if b in self.brokers},
            )
            partitions[number] = partition
        self.topics[name] = FakeTopic(name, f"topic-id-{self._topics_made:06d}", partitions, dict(configs or {}))

    def fail_next(self, call: str, error: BaseException, times: int = 1, *, after_effect: bool = False) -> None:
        """Make the next calls of that name raise; `after_effect`: the answer is lost, the effect is not."""
        self._failures.setdefault(call, []).extend([(error, after_effect)] * times)

    def fail_item(self, call: str, item: object, error: ItemError, times: int = 1) -> None:
        """Make the next calls of that name refuse one item (a partition, a config change, ...)."""
        self._item_failures.setdefault((call, item), []).extend([error] * times)

    # -- ports.ClusterAdmin -------------------------------------------------------------------------

    def cluster(self) -> ClusterInfo:
        self._read("cluster")
        live = sorted(b.id for b in self.brokers.values() if b.alive)
        return ClusterInfo(
            cluster_id=self.cluster_id,
            brokers=tuple(self._broker(b) for b in self._listed()),
            controller_id=live[0] if live else None,
            kafka_version="fake",
            operations=self.operations,
        )

    def quorum(self) -> Quorum | None:
        self._read("quorum")
        if self.voters is None:
            return None
        voters = tuple(Voter(id=v, behind_ms=0, behind_records=0) for v in sorted(self.voters))
        return Quorum(leader=min(self.voters, default=None), voters=voters)

    def partition_health(self) -> PartitionHealth:
        self._read("partition_health")
        states = {TopicPartition(t, n): p for t, topic in self.topics.items() for n, p in topic.partitions.items()}
        unwell = {
            key: PartitionState(replicas=tuple(p.replicas), isr=tuple(p.isr), leader=p.leader)
            for key, p in sorted(states.items())
            if p.leader is None or len(p.isr) < len(p.replicas)
        }
        return PartitionHealth(
            topics=len(self.topics),
            partitions=len(states),
            leaders=Counter(sorted(p.leader for p in states.values() if p.leader is not None)),
            replicas=Counter(sorted(b for p in states.values() for b in p.replicas)),
            not_preferred=sum(p.leader not in (None, p.replicas[0]) for p in states.values()),
            unwell=unwell,
            of_topics={name: _counted(topic) for name, topic in sorted(self.topics.items())},
        )

    def topic_settings(self, topics: Collection[str], keys: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """As the first broker that answers has them, where the topic has none of its own."""
        self._read("topic_settings")
        answering = [b for b in sorted(self.brokers) if self.replication.serving(b)]
        usual = {**TOPIC_DEFAULTS, **(self._in_force(answering[0]) if answering else {})}
        found = {name: {**usual, **self.topics[name].configs} for name in sorted(set(topics) & set(self.topics))}
        return {name: {key: v[key] for key in sorted(set(keys)) if key in v} for name, v in found.items()}

    def unregister_broker(self, broker: int) -> ItemError | None:
        def effect() -> ItemResult:
            if broker in self.brokers and self.brokers[broker].alive:
                raise AssertionError("a live broker is not to be unregistered")
            self.brokers.pop(broker, None)
            return self._injected("unregister_broker", broker)

        return self._mutate("unregister_broker", broker, effect)

    def topic_names(self) -> frozenset[str]:
        self._read("topic_names")
        return frozenset(self.topics)

    def topic_operations(self, topics: Collection[str] | None = None) -> Mapping[str, frozenset[str] | None]:
        self._read("topic_operations")
        names = self.topics if topics is None else set(topics) & set(self.topics)
        return {name: self.topic_rights.get(name) for name in names}

    def configs(self) -> dict[str, dict[str, str]]:
        """All that is set on brokers and topics, to be compared before and after."""
        brokers = {f"broker {b.id}": dict(b.configs) for b in self.brokers.values()}
        return brokers | {f"topic {t.name}": dict(t.configs) for t in self.topics.values()}

    def lists(self) -> dict[tuple[str, int], tuple[int, ...]]:
        """The replicas of each partition."""
        return {
            (name, n): tuple(p.replicas) for name, topic in self.topics.items() for n, p in topic.partitions.items()
        }

    def snapshot(self, *, now: datetime, topics: Collection[str] | None = None, sizes: bool = True) -> ClusterSnapshot:
        self._read("snapshot")
        names = sorted(self.topics if topics is None else set(topics) & set(self.topics))
        answers = self._log_dir_answers(sorted(self.brokers), None) if sizes else {}
        known = {b.id: self._broker(b, answers.get(b.id)) for b in self._listed()}
        used = {b for n in names for p in self.topics[n].partitions.values() for b in p.replicas}
        for broker in used - set(known):
            known[broker] = Broker(id=broker, state=BrokerState.MISSING)
        silent = {b: a.error for b, a in answers.items() if a.error}
        if sizes:
            silent |= {b: "not registered" for b in known if b not in answers}
        return ClusterSnapshot(
            cluster_id=self.cluster_id,
            taken_at=now,
            source="fake",
            brokers=tuple(known[b] for b in sorted(known)),
            topics=tuple(self._topic(self.topics[n], answers) for n in names),
            kafka_version="fake",
            reassignments=self._reassignments(),
            sizes_taken=sizes,
            unanswered_brokers=dict(sorted(silent.items())),
        )

    def partition_states(self, topics: Collection[str]) -> Mapping[TopicPartition, PartitionState]:
        self._read("partition_states")
        return {
            TopicPartition(name, number): PartitionState(
                replicas=tuple(p.replicas), isr=tuple(p.isr), leader=p.leader, topic_id=self.topics[name].topic_id
            )
            for name in sorted(set(topics) & set(self.topics))
            for number, p in sorted(self.topics[name].partitions.items())
        }

    def log_dirs(
        self, brokers: Collection[int], partitions: Collection[TopicPartition] | None = None
    ) -> Mapping[int, BrokerLogDirs]:
        self._read("log_dirs")
        return self._log_dir_answers(brokers, partitions)

    def reassignments(self) -> tuple[Reassignment, ...]:
        self._read("reassignments")
        return self._reassignments()

    def reassign(self, targets: Mapping[TopicPartition, tuple[int, ...]]) -> Mapping[TopicPartition, ItemResult]:
        def effect() -> dict[TopicPartition, ItemResult]:
            changes, answers = 0, dict[TopicPartition, ItemResult]()
            for key, target in targets.items():
                refusal = self._injected("reassign", key) or self._refuse_target(key, target)
                if refusal is None:
                    changes += list(target) != self.topics[key.topic].partitions[key.partition].replicas
                    if changes > MAX_CHANGES:
                        refusal = ItemError(name="UnknownError")
                answers[key] = refusal
                if refusal is None:
                    self._start_move(key, list(target))
            return answers

        return self._mutate("reassign", dict(targets), effect)

    def cancel(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, ItemResult]:
        def effect() -> dict[TopicPartition, ItemResult]:
            return {key: self._injected("cancel", key) or self._cancel(key) for key in partitions}

        return self._mutate("cancel", tuple(partitions), effect)

    def dynamic_configs(self, kind: ResourceKind, names: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        self._read("dynamic_configs")
        if kind is ResourceKind.TOPIC:
            return {n: dict(self.topics[n].configs) for n in sorted(set(names) & set(self.topics))}
        serving = {str(b) for b in self.brokers if self.replication.serving(b)}
        found = {n: dict(self.brokers[int(n)].configs) for n in sorted(set(names) & serving)}
        return found | ({CLUSTER_DEFAULT: dict(self.dynamic_default)} if CLUSTER_DEFAULT in names else {})

    def broker_settings(self, brokers: Collection[int], keys: Collection[str]) -> Mapping[int, Mapping[str, str]]:
        self._read("broker_settings")
        found: dict[int, Mapping[str, str]] = {}
        for broker in sorted(b for b in set(brokers) if self.replication.serving(b)):
            values = self._in_force(broker)
            found[broker] = {k: values[k] for k in sorted(set(keys)) if k in values}
        return found

    def _is_cordoned(self, broker: int, path: str) -> bool:
        shut = self._in_force(broker).get("cordoned.log.dirs", "").split(",")
        return path in shut or shut == ["*"]

    def metadata_versions(self, brokers: Collection[int]) -> Mapping[int, MetadataVersion]:
        self._read("metadata_versions")
        return {b: self.metadata[b] for b in sorted(set(brokers) & self.metadata.keys()) if self.replication.serving(b)}

    def _in_force(self, broker: int) -> dict[str, str]:
        static = {**self.static_settings, **self.own_static.get(broker, {})}
        return {**DEFAULT_SETTINGS, **static, **self.dynamic_default, **self.brokers[broker].configs}

    def broker_configs(
        self, brokers: Collection[int], *, defaults: bool = False
    ) -> Mapping[int, Mapping[str, LayeredValue]]:
        self._read("broker_configs")
        usual = DEFAULT_SETTINGS if defaults else {}
        static = {k: LayeredValue(v, ConfigLayer.DEFAULT) for k, v in usual.items()}
        static |= {k: LayeredValue(v, ConfigLayer.STATIC, is_read_only=True) for k, v in self.static_settings.items()}
        shared = {k: LayeredValue(v, ConfigLayer.DYNAMIC_DEFAULT) for k, v in self.dynamic_default.items()}
        own = {
            b: {k: LayeredValue(v, ConfigLayer.STATIC, True) for k, v in self.own_static.get(b, {}).items()}
            | shared
            | {k: LayeredValue(v, ConfigLayer.DYNAMIC_BROKER) for k, v in self.brokers[b].configs.items()}
            for b in sorted(set(brokers))
            if self.replication.serving(b)
        }
        return {b: dict(sorted((static | values).items())) for b, values in own.items()}

    def alter_configs(self, changes: Sequence[ConfigChange]) -> Mapping[ConfigChange, ItemResult]:
        def effect() -> dict[ConfigChange, ItemResult]:
            answers: dict[ConfigChange, ItemResult] = {}
            groups: dict[tuple[ResourceKind, str], list[ConfigChange]] = {}
            for change in changes:
                groups.setdefault((change.kind, change.name), []).append(change)
            for group in groups.values():
                answers |= self._alter(group)
            return {change: answers[change] for change in changes}

        return self._mutate("alter_configs", tuple(changes), effect)

    def check_configs(self, changes: Sequence[ConfigChange]) -> Mapping[ConfigChange, ItemResult]:
        self._read("check_configs")
        self.checked.append(tuple(changes))
        groups: dict[tuple[ResourceKind, str], list[ConfigChange]] = {}
        for change in changes:
            groups.setdefault((change.kind, change.name), []).append(change)
        answers: dict[ConfigChange, ItemResult] = {}
        for group in groups.values():
            answers |= dict.fromkeys(group, self._altered(group, "check_configs")[2])
        return {change: answers[change] for change in changes}

    def elect_preferred_leaders(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, ItemResult]:
        def effect() -> dict[TopicPartition, ItemResult]:
            return {key: self._injected("elect_preferred_leaders", key) or self._elect(key) for key in partitions}

        return self._mutate("elect_preferred_leaders", tuple(partitions), effect)

    def move_log_dirs(self, moves: Mapping[TopicPartitionReplica, str]) -> Mapping[TopicPartitionReplica, ItemResult]:
        def effect() -> dict[TopicPartitionReplica, ItemResult]:
            return {key: self._injected("move_log_dirs", key) or self._move_dir(key, moves[key]) for key in moves}

        return self._mutate("move_log_dirs", dict(moves), effect)

    def create_topic(
        self, name: str, assignments: Mapping[int, tuple[int, ...]], configs: Mapping[str, str]
    ) -> ItemResult:
        def effect() -> ItemResult:
            if name in self.topics:
                return ItemError(name="TopicAlreadyExistsError")
            widths = {len(replicas) for replicas in assignments.values()}
            sound = sorted(assignments) == list(range(len(assignments))) and len(widths) == 1 and 0 not in widths
            if not sound or not all(self._valid_list(replicas) for replicas in assignments.values()):
                return ItemError(name="InvalidReplicationAssignmentError")
            self.add_topic(name, assignments, configs=configs)
            return None

        return self._mutate("create_topic", name, effect)

    def create_partitions(self, topic: str, assignments: Mapping[int, tuple[int, ...]]) -> ItemResult:
        def effect() -> ItemResult:
            found = self.topics.get(topic)
            if found is None:
                return ItemError(name="UnknownTopicOrPartitionError")
            first, more = len(found.partitions), len(assignments)
            if sorted(assignments) != list(range(first, first + more)):
                return ItemError(name="InvalidPartitionsError")
            if not all(self._valid_list(replicas) for replicas in assignments.values()):
                return ItemError(name="InvalidReplicationAssignmentError")
            made = FakeTopic(topic, found.topic_id, dict(found.partitions), dict(found.configs))
            self.add_topic(topic, assignments, configs=found.configs)
            made.partitions.update(self.topics[topic].partitions)
            self.topics[topic] = made
            return None

        return self._mutate("create_partitions", topic, effect)

    def delete_topic(self, name: str) -> ItemResult:
        def effect() -> ItemResult:
            gone = self.topics.pop(name, None)
            return None if gone else ItemError(name="UnknownTopicOrPartitionError", retriable=True)

        return self._mutate("delete_topic", name, effect)

    def delete_topic_by_id(self, topic_id: str) -> ItemResult:
        def effect() -> ItemResult:
            for name in [name for name, topic in self.topics.items() if topic.topic_id == topic_id]:
                del self.topics[name]
            return self._injected("delete_topic_by_id", topic_id)

        return self._mutate("delete_topic_by_id", topic_id, effect)

    def describe_acls(self, kind: AclResourceKind | None, name: str | None) -> tuple[AclBinding, ...] | None:
        self._read("describe_acls")
        if self.acls is None:
            return None
        same_kind = [each for each in self.acls if kind is None or each.kind is kind]
        return tuple(sorted(each for each in same_kind if name is None or _concerns(each, name)))

    def create_acls(self, bindings: Collection[AclBinding]) -> Mapping[AclBinding, ItemResult]:
        return self._mutate("create_acls", tuple(bindings), lambda: {each: self._add_acl(each) for each in bindings})

    def delete_acls(self, bindings: Collection[AclBinding]) -> Mapping[AclBinding, ItemResult]:
        return self._mutate("delete_acls", tuple(bindings), lambda: {each: self._drop_acl(each) for each in bindings})

    def describe_producers(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, tuple[ProducerState, ...] | ItemError]:
        self._read("describe_producers")
        unknown = ItemError(name="UnknownTopicOrPartitionError", retriable=True)
        return {key: self.producers.get(key, ()) if self._find(key) else unknown for key in partitions}

    def list_transactions(self) -> tuple[OpenTransaction, ...]:
        self._read("list_transactions")
        return tuple(sorted(self.transactions, key=lambda each: each.transactional_id))

    def describe_client_quotas(self) -> Quotas:
        self._read("describe_client_quotas")
        return {entity: dict(values) for entity, values in self.quotas.items()}

    def alter_client_quotas(self, changes: QuotaChanges) -> Mapping[QuotaEntity, ItemResult]:
        def effect() -> dict[QuotaEntity, ItemResult]:
            return {e: self._injected("alter_client_quotas", e) or self._set_quota(e, v) for e, v in changes.items()}

        return self._mutate("alter_client_quotas", dict(changes), effect)

    def delete_records(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, ItemResult]:
        return self._mutate("delete_records", dict(offsets), lambda: {k: self._trim(k, o) for k, o in offsets.items()})

    def close(self) -> None:
        self.closed = True

    # -- pieces -------------------------------------------------------------------------------------

    def _read(self, call: str) -> None:
        queue = self._failures.get(call)
        if queue:
            raise queue.pop(0)[0]

    def _mutate(self, call: str, argument: object, effect: Callable[[], R]) -> R:
        for hook in list(self.before_call):
            hook(call, argument)
        queue = self._failures.get(call)
        error, after = queue.pop(0) if queue else (None, False)
        if error is not None and not after:
            raise error
        self.calls.append((call, argument))
        answer = effect()
        if error is not None:
            raise error
        return answer

    def _injected(self, call: str, item: object) -> ItemResult:
        queue = self._item_failures.get((call, item))
        return queue.pop(0) if queue else None

    def _listed(self) -> list[FakeBroker]:
        return [b for _, b in sorted(self.brokers.items()) if b.alive or self.fenced_visible]

    def _broker(self, broker: FakeBroker, answer: BrokerLogDirs | None = None) -> Broker:
        return Broker(
            id=broker.id,
            rack=broker.rack,
            host="127.0.0.1",
            port=9092,
            state=BrokerState.ALIVE if broker.alive else BrokerState.FENCED,
            log_dirs=answer.log_dirs if answer else (),
            log_dirs_error=answer.error if answer else None,
        )

    def _topic(self, topic: FakeTopic, answers: Mapping[int, BrokerLogDirs]) -> Topic:
        partitions = []
        for number, p in sorted(topic.partitions.items()):
            key = TopicPartition(topic.name, number)
            copies = {b: a.replicas[key] for b, a in sorted(answers.items()) if b in p.replicas and key in a.replicas}
            partitions.append(
                Partition(
                    partition=number,
                    replicas=tuple(p.replicas),
                    isr=tuple(p.isr),
                    leader=p.leader,
                    replica_bytes={b: c.size_bytes for b, c in copies.items()},
                    replica_dirs={b: c.log_dir for b, c in copies.items()},
                    adding=tuple(p.adding),
                    removing=tuple(p.removing),
                )
            )
        return Topic(
            name=topic.name, partitions=tuple(partitions), topic_id=topic.topic_id, configs=dict(topic.configs)
        )

    def _log_dir_answers(
        self, brokers: Collection[int], wanted: Collection[TopicPartition] | None
    ) -> dict[int, BrokerLogDirs]:
        answers = {}
        for broker in sorted(set(brokers)):
            if not self.replication.serving(broker):
                answers[broker] = BrokerLogDirs(broker=broker, error="no answer")
                continue
            state = self.brokers[broker]
            held = {
                key: LiveReplica(size_bytes=p.copied[broker], log_dir=p.dirs[broker])
                for key, p in self.replication.partitions()
                if broker in p.copied and p.dirs[broker] not in state.offline_dirs
            }
            used: dict[str, int] = dict.fromkeys(state.dirs, 0)
            for replica in held.values():
                used[replica.log_dir] = used.get(replica.log_dir, 0) + replica.size_bytes
            answers[broker] = BrokerLogDirs(
                broker=broker,
                log_dirs=tuple(
                    LogDir(path=path, error="KafkaStorageError")
                    if path in state.offline_dirs
                    else LogDir(
                        path=path,
                        total_bytes=total,
                        usable_bytes=max(0, total - used[path]),
                        cordoned=path in state.cordoned_dirs or self._is_cordoned(broker, path),
                    )
                    for path, total in sorted(state.dirs.items())
                ),
                replicas={k: r for k, r in held.items() if wanted is None or k in wanted},
                futures={
                    key: LiveReplica(size_bytes=0, log_dir=p.future_dirs[broker], offset_lag=1, is_future=True)
                    for key, p in self.replication.partitions()
                    if broker in p.future_dirs and (wanted is None or key in wanted)
                },
            )
        return answers

    def _reassignments(self) -> tuple[Reassignment, ...]:
        return tuple(
            Reassignment(
                topic=key.topic,
                partition=key.partition,
                replicas=tuple(p.replicas),
                adding=tuple(p.adding),
                removing=tuple(p.removing),
            )
            for key, p in self.replication.partitions()
            if p.moving
        )

    def _find(self, key: TopicPartition) -> FakePartition | None:
        topic = self.topics.get(key.topic)
        return topic.partitions.get(key.partition) if topic else None

    def _valid_list(self, replicas: Iterable[int]) -> bool:
        listed = list(replicas)
        return bool(listed) and len(set(listed)) == len(listed) and all(b in self.brokers for b in listed)

    def _refuse_target(self, key: TopicPartition, target: tuple[int, ...]) -> ItemResult:
        if self._find(key) is None:
            return ItemError(name="UnknownTopicOrPartitionError", retriable=True)
        if not self._valid_list(target):
            return ItemError(name="InvalidReplicationAssignmentError")
        return None

    def _add_acl(self, binding: AclBinding) -> ItemResult:
        if self.acls is None:
            return NO_AUTHORIZER
        error = self._injected("create_acls", binding)
        if error is None:
            self.acls.add(binding)
        return error

    def _drop_acl(self, binding: AclBinding) -> ItemResult:
        if self.acls is None:
            return NO_AUTHORIZER
        error = self._injected("delete_acls", binding)
        if error is None:
            self.acls.discard(binding)
        return error

    def _trim(self, key: TopicPartition, offset: int) -> ItemResult:
        if self._find(key) is None:
            return ItemError(name="UnknownTopicOrPartitionError", retriable=True)
        if offset > (self.logs.log(key).end if self.logs else 0):
            return ItemError(name="OffsetOutOfRangeError")
        if self.logs:
            self.logs.trim(key, max(offset, self.logs.log(key).start))
        return None

    def _set_quota(self, entity: QuotaEntity, values: Mapping[str, float | None]) -> ItemResult:
        for key, value in values.items():
            is_rate = key in (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)
            if not is_rate and key != REQUEST_PERCENTAGE:
                return ItemError(name="InvalidRequestError", message=f"Invalid configuration key {key}")
            if is_rate and value is not None and value != int(value):
                return ItemError(name="InvalidRequestError", message=f"{key} cannot be represented as a Long.")
        kept = {k: v for k, v in {**self.quotas.pop(entity, {}), **values}.items() if v is not None}
        if kept:
            self.quotas[entity] = kept
        return None

    def _start_move(self, key: TopicPartition, target: list[int]) -> None:
        # As Kafka does it: the lists of an earlier move stay unless the new one has its own.
        partition = self.topics[key.topic].partitions[key.partition]
        current = partition.replicas
        adding = sorted(set(target) - set(current))
        removing = sorted(set(current) - set(target))
        partition.replicas = target + removing
        partition.adding = adding or partition.adding
        partition.removing = removing or partition.removing
        partition.removing = [b for b in partition.removing if b not in target]
        for broker in adding:
            partition.copied[broker] = 0
            partition.dirs[broker] = self._dir_for(TopicPartitionReplica(key.topic, key.partition, broker))
        if not partition.adding or not partition.moving:
            self.replication.settle(partition)

    def _dir_for(self, key: TopicPartitionReplica) -> str:
        assigned = self.log_dir_assignments.pop(key, None)
        if assigned:
            return assigned
        dirs = sorted(self.brokers[key.broker].dirs)
        return dirs[(key.partition + len(key.topic)) % len(dirs)]

    def _cancel(self, key: TopicPartition) -> ItemResult:
        partition = self._find(key)
        if partition is None:
            return ItemError(name="UnknownTopicOrPartitionError", retriable=True)
        if partition.moving:
            # The set comes back, the order does not: target order first, then those that were to leave.
            for broker in partition.adding:
                FakeReplication.drop_copy(partition, broker)
            partition.replicas = [b for b in partition.replicas if b not in partition.adding]
            partition.isr = [b for b in partition.isr if b in partition.replicas]
            partition.adding, partition.removing = [], []
            self.replication.choose_leader(partition)
        return None

    def _alter(self, group: Sequence[ConfigChange]) -> dict[ConfigChange, ItemResult]:
        # One resource is changed as a whole or not at all.
        configs, changed, refusal = self._altered(group, "alter_configs")
        if refusal is None:
            configs.clear()
            configs.update(changed)
        return dict.fromkeys(group, refusal)

    def _altered(self, group: Sequence[ConfigChange], call: str) -> tuple[dict[str, str], dict[str, str], ItemResult]:
        """A resource's values, what they would be, and why not."""
        kind, name = group[0].kind, group[0].name
        refusal: ItemResult = None
        configs: dict[str, str] = {}
        if kind is ResourceKind.TOPIC and name in self.topics:
            configs = self.topics[name].configs
        elif kind is ResourceKind.TOPIC:
            refusal = ItemError(name="UnknownTopicOrPartitionError", retriable=True)
        elif name == CLUSTER_DEFAULT:
            configs = self.dynamic_default
        elif name.isdigit() and self.replication.serving(int(name)):
            configs = self.brokers[int(name)].configs
        else:
            refusal = ItemError(name="BrokerNotAvailableError", message="the broker does not answer", retriable=True)
        changed = dict(configs)
        for change in group:
            refusal = self._injected(call, change) or refusal or _apply(changed, change)
        return configs, changed, refusal

    def _elect(self, key: TopicPartition) -> ItemResult:
        partition = self._find(key)
        if partition is None:
            return ItemError(name="UnknownTopicOrPartitionError", retriable=True)
        preferred = partition.replicas[0]
        alive = preferred in self.brokers and self.brokers[preferred].alive
        if preferred not in partition.isr or not alive:
            return ItemError(name="PreferredLeaderNotAvailableError", retriable=True)
        partition.leader = preferred
        return None

    def _move_dir(self, key: TopicPartitionReplica, path: str) -> ItemResult:
        partition = self._find(TopicPartition(key.topic, key.partition))
        if partition is None:
            return ItemError(name="UnknownTopicOrPartitionError", retriable=True)
        if not self.replication.serving(key.broker):
            return ItemError(name="BrokerNotAvailableError", message="the broker does not answer", retriable=True)
        if path not in self.brokers[key.broker].dirs:
            return ItemError(name="LogDirNotFoundError")
        if path in self.brokers[key.broker].offline_dirs:
            return ItemError(name="KafkaStorageError", retriable=True)
        if key.broker not in partition.copied:
            self.log_dir_assignments[key] = path
        elif partition.dirs[key.broker] == path:
            partition.future_dirs.pop(key.broker, None)
        else:
            partition.future_dirs[key.broker] = path
        return None


def _apply(configs: dict[str, str], change: ConfigChange) -> ItemResult:
    if change.op is ConfigOp.DELETE:
        configs.pop(change.key, None)
        return None
    value = _merged(configs.get(change.key), change)
    problem = _config_problem(change, value)
    if problem:
        return ItemError(name="InvalidConfigurationError", message=problem)
    configs[change.key] = value
    return None


def _merged(old: str | None, change: ConfigChange) -> str:
    value = change.value or ""
    if change.op is ConfigOp.SET:
        return value
    items = [item for item in (old or "").split(",") if item]
    given = [item.strip() for item in value.split(",") if item.strip()]
    if change.op is ConfigOp.APPEND:
        return ",".join(dict.fromkeys(items + given))
    return ",".join(item for item in items if item not in given)


def _config_problem(change: ConfigChange, value: str) -> str | None:
    if len(value.encode()) > MAX_CONFIG_BYTES:
        return f"value longer than {MAX_CONFIG_BYTES} bytes"
    if change.op in (ConfigOp.APPEND, ConfigOp.SUBTRACT) and change.key not in LIST_KEYS:
        return f"{change.key} is not a list"
    if change.key in LIST_KEYS and value not in ("", "*"):
        for item in value.split(","):
            partition, _, broker = item.partition(":")
            if not (partition.isdigit() and broker.isdigit()):
                return f"{item!r} is not partition:broker"
    if change.key in RATE_KEYS and not value.isdigit():
        return f"{value!r} is not a rate"
    return None


def _concerns(binding: AclBinding, name: str) -> bool:
    if binding.pattern is AclPattern.PREFIXED:
        return name.startswith(binding.name)
    return binding.name in (name, "*")


def _counted(topic: FakeTopic) -> TopicCount:
    found = list(topic.partitions.values())
    return TopicCount(
        partitions=len(found),
        replication=max((len(p.replicas) for p in found), default=0),
        offline=sum(p.leader is None for p in found),
        short=sum(len(p.isr) < len(p.replicas) for p in found),
        not_preferred=sum(p.leader not in (None, p.replicas[0]) for p in found),
    )
