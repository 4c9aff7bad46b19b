"""Facts that several rules work out of a cluster: partitions by broker and rack, replication, listeners, trends.

Replication is the factors and minimal in-sync replicas that are set, and what the cluster's brokers and racks make of
them. Listeners are names, addresses and security protocols, as `listeners` and its map give them.

A few odd days do not bend a trend: it is Theil-Sen over daily maxima, with the week as season.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from kafkakit.core.model import OFFSETS_TOPIC
from kafkakit.core.text import shell_command
from kafkakit.rules.config_defs import minor_key
from kafkakit.rules.effective import BrokerConfig, DeclaredValue, ValueSource, to_int, to_items
from kafkakit.rules.subjects import LintBroker, LintCluster, LintTopic, PartitionFacts, require_known


def rack_of(broker: LintBroker) -> str:
    """The broker's rack, by its record or its configuration; empty where it has none."""
    return broker.rack or broker.config.text("broker.rack")


def racks_by_id(cluster: LintCluster) -> Mapping[int, str]:
    """The rack of each broker that has an id."""
    return {b.id: rack_of(b) for b in cluster.brokers if b.id is not None}


def rack_count(cluster: LintCluster) -> int:
    """How many racks the listed brokers are in, 0 where none is named."""
    return len({rack for rack in racks_by_id(cluster).values() if rack})


def shares_rack(replicas: Iterable[int], racks: Mapping[int, str]) -> bool:
    """True when two replicas are in one rack; brokers without a rack never conflict (kafka-kit's rule of groups)."""
    named = [racks[b] for b in replicas if racks.get(b)]
    return len(named) > len(set(named))


def has_partitions(cluster: LintCluster) -> bool:
    """True when every topic's partitions are known, and there are topics."""
    return bool(cluster.topics) and all(t.partition_facts is not None for t in cluster.topics)


def declared_replicas(cluster: LintCluster) -> int:
    """The replicas that all topics have by their declarations; `InputMissing` where one does not tell."""
    return sum(
        require_known(t.partitions, "partitions of topics") * require_known(t.replication_factor, "replication factors")
        for t in require_known(cluster.topics or None, "topics")
    )


def all_partitions(cluster: LintCluster) -> Iterator[tuple[LintTopic, PartitionFacts]]:
    """Every partition with its topic; `InputMissing` before the first where a topic's partitions are not known."""
    require_known(has_partitions(cluster) or None, "the live cluster's partitions")
    for topic in cluster.topics:
        for partition in topic.partition_facts or ():
            yield topic, partition


def replicas_by_broker(cluster: LintCluster) -> Counter[int]:
    """How many replicas each broker holds."""
    return Counter(b for _, p in all_partitions(cluster) for b in p.replicas)


def leaders_by_broker(cluster: LintCluster) -> Counter[int]:
    """How many partitions each broker leads; partitions without a leader are not counted."""
    return Counter(
        leader
        for _, p in all_partitions(cluster)
        if (leader := require_known(p.leader, "the live cluster's leaders")) >= 0
    )


def bytes_by_broker(cluster: LintCluster) -> Counter[int]:
    """The bytes on each broker; `InputMissing` where no partition's size is known."""
    sizes: Counter[int] = Counter()
    seen = False
    for _, partition in all_partitions(cluster):
        seen = seen or bool(partition.replica_bytes)
        sizes.update(partition.replica_bytes)
    require_known(seen or None, "sizes of replicas")
    return sizes


def with_brokers(counts: Counter[int], cluster: LintCluster) -> list[tuple[LintBroker, int]]:
    """Each broker with its count, 0 included; brokers without an id are left out."""
    return [(b, counts[b.id]) for b in cluster.data_brokers if b.id is not None]


INTERNAL_TOPICS = (OFFSETS_TOPIC, "__transaction_state", "__share_group_state", "__remote_log_metadata")
LOSS_TOLERANT = "loss_tolerant"
ELR_FEATURE = "eligible.leader.replicas.version"


def replicas_of(topic: LintTopic) -> int:
    """The replication factor; of -1 the default of brokers. `InputMissing` where one of them is needed and unknown."""
    declared = require_known(topic.replication_factor, "the replication factor")
    if declared != -1:
        return declared
    default = to_int(topic.config.broker.given().text("default.replication.factor"))
    return require_known(default, "default.replication.factor")


def alive_brokers(cluster: LintCluster) -> int:
    """How many brokers can take a replica; `InputMissing` where no file tells how many there are."""
    return cluster.broker_number - cluster.derive(_count_dead)


def _count_dead(cluster: LintCluster) -> int:
    return sum(b.count for b in cluster.data_brokers if not b.is_alive)


def left_without_a_rack(replicas: int, racks: int) -> int:
    """Replicas that are left when the rack with the most of them fails, spread as evenly as can be."""
    return replicas + -replicas // racks


def set_replication(topic: LintTopic, wanted: int) -> str:
    """The command that plans other replicas for a topic."""
    return str(shell_command("topicmappr set-replication", str(wanted), topics=topic.name))


def has_eligible_leader_replicas(cluster: LintCluster) -> bool:
    """True when the cluster keeps eligible leader replicas, or is to be upgraded to a version that does."""
    if cluster.features is not None and cluster.features.get(ELR_FEATURE, 0) >= 1:
        return True
    if cluster.target is not None and minor_key(cluster.target.version) >= (4, 1):
        return True
    if minor_key(cluster.table.version) < (4, 1):
        return False
    require_known(cluster.features, "features of the cluster")
    return False


def set_values(
    cluster: LintCluster, topic_key: str, broker_keys: tuple[str, ...]
) -> Iterator[tuple[LintTopic | LintBroker, str, DeclaredValue]]:
    """Who sets a topic's key: brokers (one for each place where it is written) and topics that override it."""
    seen: set[object] = set()
    for broker in cluster.data_brokers:
        for key in broker_keys:
            declared = broker.config.declared(key)
            if declared is None:
                continue
            shared = declared.place or (key if declared.source is ValueSource.DYNAMIC_DEFAULT else (broker.id, key))
            if shared not in seen:
                seen.add(shared)
                yield broker, key, declared
    for topic in cluster.topics:
        override = topic.config.overrides.get(topic_key)
        if override is not None:
            yield topic, topic_key, override


PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
LOOPBACK = ("localhost", "::1", "0:0:0:0:0:0:0:1")


@dataclass(frozen=True, slots=True)
class Listener:
    """One listener; `host` is empty for all interfaces, `protocol` where neither map nor name tell it."""

    name: str
    host: str
    port: str
    protocol: str

    @property
    def is_loopback(self) -> bool:
        """True when only processes of the same machine can connect."""
        return self.host.lower() in LOOPBACK or self.host.startswith("127.")

    @property
    def is_plain(self) -> bool:
        """True when what passes is not encrypted."""
        return self.protocol in ("PLAINTEXT", "SASL_PLAINTEXT")


def listeners_of(config: BrokerConfig, key: str = "listeners") -> tuple[Listener, ...]:
    """The listeners in a key's value; entries that are none (KKV002) are left out."""
    protocols = protocol_map(config)
    found = []
    for item in config.items(key):
        name, separator, address = item.partition("://")
        if separator:
            host, _, port = address.rpartition(":")
            own = name.upper() if name.upper() in PROTOCOLS else ""
            found.append(Listener(name, host.strip("[]"), port, protocols.get(name.upper(), own)))
    return tuple(found)


def protocol_map(config: BrokerConfig) -> Mapping[str, str]:
    """The security protocol of each listener name, in capitals.

    If the map is not set, names that are protocols stand for themselves, and controller listeners are PLAINTEXT, unless
    a listener is called by a protocol with TLS or a login.
    """
    found: dict[str, str] = {}
    declared = config.declared("listener.security.protocol.map")
    if declared is None:
        found.update({name: name for name in PROTOCOLS})
        controllers = config.items("controller.listener.names")
        named = {item.partition("://")[0].upper() for item in (*config.items("listeners"), *controllers)}
        if named.isdisjoint(PROTOCOLS[1:]):
            found.update({name.upper(): "PLAINTEXT" for name in controllers})
    for item in to_items(declared.text) if declared is not None else ():
        name, separator, protocol = item.rpartition(":")
        if separator:
            found[name.strip().upper()] = protocol.strip().upper()
    return found


def inter_broker_protocol(config: BrokerConfig) -> str:
    """The security protocol between brokers."""
    name = config.text("inter.broker.listener.name")
    return protocol_map(config).get(name.upper(), "") if name else config.text("security.inter.broker.protocol")


def listener_text(config: BrokerConfig, listener: str, key: str) -> str:
    """A key's value for one listener: its `listener.name.` form, else the general one."""
    own = config.declared(f"listener.name.{listener.lower()}.{key}") or config.declared(key)
    return own.text if own is not None else config.text(key)


def listener_items(config: BrokerConfig, listener: str, key: str) -> tuple[str, ...]:
    """As `listener_text`, as a list."""
    return to_items(listener_text(config, listener, key))


WEEK = 7
LEAST_DAYS = WEEK
TWO_WEEKS = 2 * WEEK


def median(values: Iterable[float]) -> float:
    """The middle value, or the mean of the two in the middle; `ValueError` for none."""
    # The module statistics loads fractions, decimal and random, which lint of one file has no time for.
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no values")
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def daily_slope(values: Sequence[float | None]) -> float:
    """The growth a day of daily values, oldest first: the median of the slopes of all pairs.

    With two weeks and more only days of the same weekday are paired, so that quiet weekends do not count as decline.
    Days without a value (None) count as days only. Quadratic in the number of days. `ValueError` where no two days
    can be paired.
    """
    seen = [(day, value) for day, value in enumerate(values) if value is not None]
    seasonal = len(values) >= TWO_WEEKS
    pairs = ((one, other) for one, other in combinations(seen, 2) if not seasonal or (other[0] - one[0]) % WEEK == 0)
    return median((later - earlier) / (j - i) for (i, earlier), (j, later) in pairs)


def days_until(values: Sequence[float | None], limit: float) -> float | None:
    """In how many days the trend of daily values reaches a limit: 0 when it has, None when it never does.

    The trend goes through the median of the values less their growth; the highest day of a week counts, so the most
    that one of the last seven days lies above the trend is added.
    """
    slope = daily_slope(values)
    last = len(values) - 1
    rest = [(day, value - slope * day) for day, value in enumerate(values) if value is not None]
    base = median(value for _, value in rest)
    above = max(0.0, *(value - base for day, value in rest if day > last - WEEK))
    level = base + slope * last + above
    if level >= limit:
        return 0.0
    return (limit - level) / slope if slope > 0 else None
