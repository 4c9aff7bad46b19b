"""P: rules of partitions: where their replicas and leaders are, and how topics are used.

Use is idle topics and consumers, slow recovery, reads across racks, and replicas on unknown brokers.
"""

from kafkakit.core.findings import shorten
from kafkakit.core.quantities import count_of, format_bytes, format_rate, format_span
from kafkakit.core.text import shell_command
from kafkakit.rules.cluster_facts import (
    all_partitions,
    bytes_by_broker,
    leaders_by_broker,
    median,
    rack_count,
    rack_of,
    racks_by_id,
    shares_rack,
    with_brokers,
)
from kafkakit.rules.effective import InputMissing, to_int
from kafkakit.rules.rule import (
    CORE,
    ERROR,
    NOTE,
    STRICT,
    WARNING,
    Fix,
    Limits,
    Needs,
    Violation,
    Violations,
    broker_rule,
    cluster_rule,
    file_rule,
    set_to,
    topic_rule,
)
from kafkakit.rules.subjects import LintBroker, LintCluster, LintTopic, require_known

HOT_BYTES_S = 1e6
HOT_FACTOR = 4.0
LARGE_PARTITIONS = 100
LEADER_SKEW = 1.1
STORAGE_SKEW = 1.2
NOT_PREFERRED = 0.1


@topic_rule("KKP601", WARNING, STRICT, Needs.LIVE, Needs.METRICS)
def single_partition_hot_topic(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A topic of one partition takes more than 1 MB/s.

    Why: one broker leads it, one consumer of each group reads it, and adding partitions later changes the partition
    of every key.
    Source: superstream Kafka analyzer; Lenses audit rules.

    Bad:
        topics:
          - {name: clicks, observed: {partitions: [{partition: 0, replicas: [1], bytes_s: 4000000.0}]}}

    Good:
        topics:
          - {name: clicks, observed: {partitions: [{partition: 0, replicas: [1], bytes_s: 40000.0}]}}
    """
    facts = topic.partition_facts
    if require_known(len(facts) if facts is not None else topic.partitions, "partitions of topics") != 1:
        return
    rate = require_known(topic.rates_bytes_s(), "append rates")[1]
    if rate > HOT_BYTES_S:
        yield Violation(f"the only partition takes {format_rate(rate)}: one broker and one consumer bear it all")


@topic_rule("KKP602", NOTE, CORE, Needs.FILE, Needs.LIVE)
def partitions_not_multiple(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """The number of partitions is not a multiple of the racks (or, for 100 partitions and more, of the brokers).

    Why: leaders cannot be spread evenly: with 4 partitions over 3 racks one rack leads twice as much as the others.
    Topics with fewer partitions than racks, and Kafka's own, are not reported.
    Source: topicctl, "leaders correct".

    Bad:
        rack_count: 3
        topics: [{name: orders, partitions: 4}]

    Good:
        rack_count: 3
        topics: [{name: orders, partitions: 6}]
    """
    if topic.is_internal:
        return
    facts = topic.partition_facts
    number = require_known(len(facts) if facts is not None else topic.partitions, "partitions of topics")
    racks = cluster.rack_number
    if number < racks:
        return
    if number % racks:
        over, what = racks, "racks"
    elif number >= LARGE_PARTITIONS and number % cluster.broker_number:
        over, what = cluster.broker_number, "brokers"
    else:
        return
    yield Violation(
        message=f"{count_of(number, 'partition')} over {over} {what}: some lead {-(-number // over)}, "
        f"others {number // over}",
        expected=f"{-(-number // over) * over} partitions",
    )


@topic_rule("KKP603", ERROR, CORE, Needs.LIVE)
def rack_violation(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """Two replicas of a partition are in one rack, though there are racks enough for all.

    Why: racks stand for what fails together, such as a zone; a rack that holds two of three replicas takes the
    partition below min.insync.replicas by itself. Brokers without a rack never conflict (see KKP604).
    Source: Kafka, KIP-36.

    Bad:
        brokers: [{id: 1, rack: a}, {id: 2, rack: a}, {id: 3, rack: b}]
        topics: [{name: orders, observed: {partitions: [{partition: 0, replicas: [1, 2]}]}}]

    Good:
        brokers: [{id: 1, rack: a}, {id: 2, rack: a}, {id: 3, rack: b}]
        topics: [{name: orders, observed: {partitions: [{partition: 0, replicas: [1, 3]}]}}]
    """
    partitions = require_known(topic.partition_facts, "the live cluster's partitions")
    racks = cluster.derive(racks_by_id)
    number = cluster.derive(rack_count)
    if not number:
        raise InputMissing("racks of brokers")
    found = [p for p in partitions if number >= len(p.replicas) and shares_rack(p.replicas, racks)]
    if found:
        first = found[0]
        names = ", ".join(f"{b} in {racks.get(b) or 'no rack'}" for b in first.replicas)
        yield Violation(
            message=f"{count_of(len(found), 'partition')} of {len(partitions)} "
            f"{'has' if len(found) == 1 else 'have'} two replicas in one rack, though there are {number} racks: "
            f"{shorten([p.partition for p in found])} (partition {first.partition}: {names})",
            hint=f"plan the moves with `{shell_command('topicmappr fix-racks', topics=topic.name)}`",
        )


@cluster_rule("KKP604", ERROR, CORE, Needs.FILE, Needs.LIVE)
def partial_rack_labels(cluster: LintCluster, limits: Limits) -> Violations:
    """`broker.rack` is set on some brokers and missing on others.

    Why: placement by racks counts a broker without one as safe beside any other, Kafka refuses to create topics
    rack-aware, and consumers that fetch from the nearest replica never choose it.
    Source: Kafka, KIP-36 and KIP-392.

    Bad:
        brokers: [{id: 1, rack: a}, {id: 2, rack: b}, {id: 3}]

    Good:
        brokers: [{id: 1, rack: a}, {id: 2, rack: b}, {id: 3, rack: c}]
    """
    bare = [b for b in cluster.data_brokers if not rack_of(b)]
    total = len(cluster.data_brokers)
    if bare and len(bare) < total:
        yield Violation(
            message=f"{len(bare)} of {total} brokers {'has' if len(bare) == 1 else 'have'} no rack: "
            f"{shorten([b.id if b.id is not None else 'without an id' for b in bare])}",
            key="broker.rack",
            place=bare[0].place,
        )


@cluster_rule("KKP605", WARNING, STRICT, Needs.LIVE)
def leader_skew(cluster: LintCluster, limits: Limits) -> Violations:
    """A broker leads more than 1.1 times the mean number of partitions.

    Why: leaders do the work of producers and consumers; a broker that leads more saturates first.
    Source: Cruise Control, `LeaderReplicaDistributionGoal`.

    Bad:
        brokers: [{id: 1}, {id: 2}]
        topics:
          - name: orders
            observed:
              partitions:
                - {partition: 0, replicas: [1, 2], leader: 1}
                - {partition: 1, replicas: [2, 1], leader: 1}

    Good:
        brokers: [{id: 1}, {id: 2}]
        topics:
          - name: orders
            observed:
              partitions:
                - {partition: 0, replicas: [1, 2], leader: 1}
                - {partition: 1, replicas: [2, 1], leader: 2}
    """
    leaders = with_brokers(leaders_by_broker(cluster), cluster)
    if len(leaders) < 2:
        return
    mean = sum(number for _, number in leaders) / len(leaders)
    broker, most = max(leaders, key=lambda pair: pair[1])
    # One partition more than the mean rounded up is the least that another choice of leaders can repair.
    if most > LEADER_SKEW * mean and most > -(-sum(n for _, n in leaders) // len(leaders)):
        yield Violation(
            message=f"broker {broker.id} leads {count_of(most, 'partition')}, {most / mean:.2f} times the mean "
            f"of {mean:.1f}",
            place=broker.place,
            hint="spread leaders with `kafkakit topicmappr leaders`",
        )


@cluster_rule("KKP606", WARNING, STRICT, Needs.LIVE)
def not_preferred_leader(cluster: LintCluster, limits: Limits) -> Violations:
    """More than a tenth of the partitions are not led by their first replica.

    Why: the first replicas are the spread of leaders that was planned; after restarts the load stays on the others
    until leaders are elected again.
    Source: topicctl, "leaders correct".

    Bad:
        topics:
          - {name: orders, observed: {partitions: [{partition: 0, replicas: [1, 2], leader: 2}]}}

    Good:
        topics:
          - {name: orders, observed: {partitions: [{partition: 0, replicas: [1, 2], leader: 1}]}}
    """
    led = other = 0
    for _, partition in all_partitions(cluster):
        leader = require_known(partition.leader, "the live cluster's leaders")
        if leader >= 0:
            led += 1
            other += partition.replicas[:1] != (leader,)
    if led and other / led > NOT_PREFERRED:
        yield Violation(
            message=f"{other} of {count_of(led, 'partition')} ({other / led:.0%}) "
            f"{'is' if other == 1 else 'are'} not led by the first replica",
            hint="set auto.leader.rebalance.enable, or run "
            "`kafka-leader-election.sh --bootstrap-server HOST:PORT --election-type preferred --all-topic-partitions`",
        )


@topic_rule("KKP607", WARNING, CORE, Needs.METRICS)
def hot_partition(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """One partition of a topic takes more than 4 times the median of its partitions, and more than 1 MB/s.

    Why: the hottest partition decides how fast its leader's disk and the slowest consumer must be; a skewed key is
    the usual cause, and more partitions do not help.
    Source: Datadog, hot spots in Kafka.

    Bad:
        topics:
          - name: clicks
            observed:
              partitions:
                - {partition: 0, replicas: [1], bytes_s: 200000.0}
                - {partition: 1, replicas: [2], bytes_s: 200000.0}
                - {partition: 2, replicas: [3], bytes_s: 5000000.0}

    Good:
        topics:
          - name: clicks
            observed:
              partitions:
                - {partition: 0, replicas: [1], bytes_s: 2000000.0}
                - {partition: 1, replicas: [2], bytes_s: 3000000.0}
    """
    rates = [(p.bytes_s, p.partition) for p in topic.partition_facts or () if p.bytes_s is not None]
    if not rates:
        raise InputMissing("append rates")
    hottest, number = max(rates)
    if hottest <= HOT_BYTES_S:
        return
    middle = median(rate for rate, _ in rates)
    if hottest > HOT_FACTOR * middle:
        times = f"{hottest / middle:.1f} times the median of {format_rate(middle)}" if middle else "the others nothing"
        yield Violation(
            message=f"partition {number} takes {format_rate(hottest)}, {times}", hint="look for a key that dominates"
        )


@cluster_rule("KKP608", WARNING, CORE, Needs.LIVE)
def storage_skew(cluster: LintCluster, limits: Limits) -> Violations:
    """A broker stores more than 1.2 times the mean of all brokers.

    Why: the fullest broker's disk decides when the whole cluster needs another one.
    Source: Cruise Control, `DiskUsageDistributionGoal`.

    Bad:
        brokers: [{id: 1}, {id: 2}]
        topics:
          - name: orders
            observed: {partitions: [{partition: 0, replicas: [1, 2], bytes: {1: 9000000, 2: 3000000}}]}

    Good:
        brokers: [{id: 1}, {id: 2}]
        topics:
          - name: orders
            observed: {partitions: [{partition: 0, replicas: [1, 2], bytes: {1: 9000000, 2: 9000000}}]}
    """
    sizes = with_brokers(bytes_by_broker(cluster), cluster)
    if len(sizes) < 2:
        return
    mean = sum(size for _, size in sizes) / len(sizes)
    broker, most = max(sizes, key=lambda pair: pair[1])
    if most > STORAGE_SKEW * mean:
        yield Violation(
            message=f"broker {broker.id} stores {format_bytes(most)}, {most / mean:.2f} times the mean of "
            f"{format_bytes(int(mean))}",
            place=broker.place,
            hint="plan the moves with "
            "`kafkakit topicmappr rebalance --topics '.*' --brokers -2 --band 10% --best-effort`",
        )


IDLE_S = 30 * 86_400.0
RACK_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@topic_rule("KKP609", NOTE, STRICT, Needs.LIVE, Needs.METRICS)
def idle_topic(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """Nothing was written to a topic for 30 days, and no active group reads it.

    Why: its partitions still cost files, memory maps, metadata and time at every restart.
    Source: superstream Kafka analyzer.

    Bad:
        topics: [{name: old-orders, observed: {idle_s: 5184000.0}}]
        observed: {groups: []}

    Good:
        topics: [{name: old-orders, observed: {idle_s: 5184000.0}}]
        observed: {groups: [{name: archive, topics: [old-orders], members: 1}]}
    """
    if topic.is_internal:
        return
    idle = require_known(topic.facts.idle_s, "the last writes of topics")
    if idle < IDLE_S or topic.name in cluster.derive(_topics_read):
        return
    yield Violation(message=f"nothing was written for {format_span(idle)}, and no active group reads the topic")


@topic_rule("KKP610", WARNING, STRICT, Needs.LIVE)
def slow_to_recover_replica(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """The copy of one replica takes longer than a broker's replacement may take.

    Why: a replica is copied by one fetcher from one leader, so the largest replica bounds how soon a replaced broker
    is complete, whatever is moved beside it.
    Source: Kafka, KIP-73.
    Options: recovery_s (7200), recovery_bytes_s (100000000, if the brokers have no throttle set).

    Bad:
        topics:
          - {name: events, observed: {partitions: [{partition: 0, replicas: [1], bytes: {1: 2000000000000}}]}}

    Good:
        topics:
          - {name: events, observed: {partitions: [{partition: 0, replicas: [1], bytes: {1: 20000000000}}]}}
    """
    facts = require_known(topic.partition_facts, "the live cluster's partitions")
    size = require_known(
        max((max(p.replica_bytes.values()) for p in facts if p.replica_bytes), default=None), "replica sizes"
    )
    throttle = topic.config.broker.declared("follower.replication.throttled.rate")
    rate = to_int(throttle.text) if throttle is not None else None
    speed = float(rate) if rate else limits.recovery_bytes_s
    if size / speed > limits.recovery_s:
        partition = next(p.partition for p in facts if size in p.replica_bytes.values())
        yield Violation(
            message=f"partition {partition} holds {format_bytes(size)}: copying it at {format_rate(speed)} takes "
            f"{format_span(size / speed)}, longer than {format_span(limits.recovery_s)}",
            hint="use more partitions, shorter retention or tiered storage",
        )


@cluster_rule("KKP611", NOTE, STRICT, Needs.LIVE)
def idle_consumers(cluster: LintCluster, limits: Limits) -> Violations:
    """A group has more members than its topics have partitions.

    Why: a partition is read by one member of a group, so the others only hold connections and take part in
    rebalances.
    Source: Kafka documentation, "Consumers".

    Bad:
        topics: [{name: orders, partitions: 3}]
        observed: {groups: [{name: billing, topics: [orders], members: 5}]}

    Good:
        topics: [{name: orders, partitions: 6}]
        observed: {groups: [{name: billing, topics: [orders], members: 5}]}
    """
    partitions = {t.name: t.partitions if t.partition_facts is None else len(t.partition_facts) for t in cluster.topics}
    for group in require_known(cluster.groups, "consumer groups"):
        numbers = [partitions.get(name) for name in group.topics]
        total = sum(number for number in numbers if number is not None)
        if group.members is None or None in numbers or not numbers or group.members <= total:
            continue
        yield Violation(
            message=f"{count_of(group.members, 'member')} for {count_of(total, 'partition')}: "
            f"{group.members - total} never {'gets' if group.members - total == 1 else 'get'} one",
            where=cluster.within(f"group {group.name}"),
        )


@broker_rule("KKP612", NOTE, STRICT, fix=Fix.UNSAFE)
def replica_selector_unset(broker: LintBroker, cluster: LintCluster, limits: Limits) -> Violations:
    """Brokers in several racks do not let consumers read from the nearest replica.

    Why: without replica.selector.class each consumer reads from the leader: with 3 racks two thirds of the traffic
    of consumers crosses racks, which clouds charge for.
    Source: KIP-392.

    Bad:
        brokers: [{id: 1, rack: a, config: {num.io.threads: "8"}}, {id: 2, rack: b, config: {num.io.threads: "8"}}]

    Good:
        config: {replica.selector.class: org.apache.kafka.common.replica.RackAwareReplicaSelector}
        brokers: [{id: 1, rack: a}, {id: 2, rack: b}]
    """
    key = "replica.selector.class"
    if not broker.is_broker or cluster.rack_number < 2 or broker.config.given().text(key):
        return
    yield set_to(
        key,
        RACK_SELECTOR,
        f"consumers read from leaders only, so of {cluster.rack_number} racks' traffic about "
        f"{1 - 1 / cluster.rack_number:.0%} crosses racks",
    )


def _topics_read(cluster: LintCluster) -> frozenset[str]:
    """The topics that a group with members reads."""
    groups = require_known(cluster.groups, "consumer groups")
    return frozenset(name for g in groups if g.members is None or g.members > 0 for name in g.topics)


@topic_rule("KKP613", ERROR, CORE, Needs.FILE, Needs.LIVE)
def replica_on_unknown_broker(topic: LintTopic, cluster: LintCluster, limits: Limits) -> Violations:
    """A partition is to have a replica on a broker that the cluster does not have.

    Why: Kafka refuses such a reassignment, and topicctl such a placement, often in the middle of a change. Brokers that
    a running cluster has lost are left out.
    Source: Kafka, `ReassignPartitionsCommand`, `ReplicationControlManager.validateManualPartitionAssignment`.

    Bad:
        brokers: [{id: 1}, {id: 2}, {id: 3}]
        topics: [{name: orders, observed: {partitions: [{partition: 0, replicas: [1, 2, 7]}]}}]

    Good:
        brokers: [{id: 1}, {id: 2}, {id: 3}]
        topics: [{name: orders, observed: {partitions: [{partition: 0, replicas: [1, 2, 3]}]}}]
    """
    listed = cluster.derive(_listed_ids)
    for_move = [p for p in require_known(topic.partition_facts, "partitions") if p.isr is None or not cluster.is_live]
    if not for_move:
        return
    if len(listed) != cluster.broker_number:
        raise InputMissing("ids of brokers")
    wrong = [p for p in for_move if not listed.issuperset(p.replicas)]
    if wrong:
        ids = sorted({broker for p in wrong for broker in p.replicas} - listed)
        yield Violation(
            message=f"{count_of(len(wrong), 'partition')} ({shorten([p.partition for p in wrong])}) would have "
            f"replicas on brokers that the cluster does not have: {shorten(ids)}",
            expected="ids of the cluster's brokers",
        )


def _listed_ids(cluster: LintCluster) -> frozenset[int]:
    return frozenset(broker.id for broker in cluster.data_brokers if broker.id is not None)


@file_rule("KKP614", ERROR, CORE)
def refused_assignment() -> Violations:
    """A reassignment file says of a partition what Kafka's tool refuses.

    Why: kafka-reassign-partitions refuses the whole file if a partition is listed twice, a broker is twice among its
    replicas, or it has another number of log dirs than of replicas.
    Source: Kafka, `ReassignPartitionsCommand`.

    Bad:
        --- plan.json
        {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 1, 2]}]}

    Good:
        --- plan.json
        {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [3, 1, 2]}]}
    """
    yield from ()
