"""No rule fails, whatever files and facts hold.

Rules of placement at their boundaries, and the rule of racks against the kit's own.
"""

import random
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.core.findings import Place
from kafkakit.placement.group_rule import SpreadRule
from kafkakit.rules.catalogue import all_rules
from kafkakit.rules.cluster_facts import shares_rack
from kafkakit.rules.config_defs import MINORS, ConfigTable, config_table
from kafkakit.rules.effective import BrokerConfig, Configs, DeclaredValue, TopicConfig, ValueSource
from kafkakit.rules.engine import check_estate
from kafkakit.rules.rule import Limits
from kafkakit.rules.subjects import (
    BatchFacts,
    Estate,
    GroupFacts,
    HostFacts,
    LintAgent,
    LintBroker,
    LintCluster,
    LintConnector,
    LintTopic,
    LogDirFacts,
    PartitionFacts,
    RolloutFacts,
    TopicFacts,
)
from tests.rigs.rule_cases import SKIPPED, findings, verdict

SEEDS = range(60)
TEXTS = (
    "", "0", "-1", "1", "2", "x", "9" * 22, "9" * 15, "1e5", "true", "false", ",", "a,b", "PLAINTEXT://", "://:",
    "SSL://0.0.0.0:1,X://h", "${x:y}", "User:*;;", "lz4", "zstd", "gzip", "PLAIN", "delete", "compact", "/tmp",
    "compact,delete", "LogAppendTime", 'a required password="x";', "filtered", "required", "UPDATE x SET", "[", "*",
    "INSERT INTO (", "connector_and_driver", "all", "org.apache.kafka.connect.json.JsonConverter", "connect-offsets",
)  # fmt: skip
POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"
CONNECTOR_KEYS = (
    "slot.name", "publication.name", "topic.prefix", "database.hostname", "heartbeat.interval.ms", "group.id",
    "heartbeat.action.query", "publication.autocreate.mode", "table.include.list", "lsn.flush.mode", "topics",
    "unavailable.value.placeholder", "signal.enabled.channels", "tombstones.on.delete", "bootstrap.servers",
    "topic.creation.default.cleanup.policy", "topic.creation.default.replication.factor", "value.converter",
    "topic.creation.default.retention.ms", "decimal.handling.mode", "errors.tolerance", "exactly.once.support",
    "transaction.boundary", "database.password", "producer.override.acks", "offset.storage.topic",
    "offset.storage.replication.factor",
)  # fmt: skip
AGENT_KEYS = (
    "kafka_connect_str", "consumer_groups", "consumer_groups_regex", "monitor_unlisted_consumer_groups",
    "enable_cluster_monitoring", "monitor_all_broker_highwatermarks", "max_partition_contexts",
)  # fmt: skip


class Maker:
    """Estates of odd values, the same for a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.pick = self.random.choice
        self.table: ConfigTable = config_table(self.pick(MINORS))

    def number(self) -> int | None:
        return self.pick((None, 0, 0, 1, 5, 10**12, -1))

    def configs(self, keys: Iterable[str], source: ValueSource, most: int) -> Configs:
        names = list(keys)
        chosen = self.random.sample(names, min(self.random.randint(0, most), len(names)))
        return {key: DeclaredValue(self.pick(TEXTS), source, self.pick((None, Place("f", 1, 2)))) for key in chosen}

    def broker(self, number: int) -> LintBroker:
        keys = self.table.broker
        days = (None, (), (1,) * 7, tuple(self.random.randrange(10) for _ in range(20)))
        return LintBroker(
            config=BrokerConfig(
                self.table,
                static=self.configs(keys, ValueSource.STATIC, 200),
                dynamic_default=self.configs(keys, ValueSource.DYNAMIC_DEFAULT, 20),
                dynamic=self.configs(keys, ValueSource.DYNAMIC_BROKER, 20),
                is_known=self.random.random() < 0.9,
            ),
            id=self.pick((None, number)),
            rack=self.pick((None, "a", "b")),
            roles=self.pick((("broker",), ("controller",), ("broker", "controller"))),
            host=HostFacts(
                open_files=self.number(),
                max_map_count=self.number(),
                memory_bytes=self.number(),
                heap_bytes=self.number(),
                connections=self.number(),
                write_bytes_s=self.number(),
                platform=self.pick((None, "msk:x", "msk:kafka.t3.small", "z")),
            ),
            log_dirs=tuple(
                LogDirFacts(path="/d", total_bytes=self.number(), daily_used_bytes=self.pick(days))
                for _ in range(self.random.randrange(3))
            ),
            version=self.pick((None, "4.0", "3.9")),
            count=self.pick((0, 1, 3)),
            override_age_s=self.pick((None, {}, {"x": 1e9})),
        )

    def partition(self, number: int) -> PartitionFacts:
        return PartitionFacts(
            partition=number,
            replicas=tuple(self.random.sample(range(4), self.random.randrange(4))),
            isr=self.pick((None, (0,))),
            leader=self.pick((None, -1, 0, 1)),
            replica_bytes=self.pick(({}, {0: 0}, {0: 5, 1: 9})),
            bytes_s=self.pick((None, 0.0, 5e6)),
            segments=self.pick((None, 0, 5)),
        )

    def topic(self, number: int, broker: BrokerConfig) -> LintTopic:
        batch = BatchFacts(partition=0, offset=0, compressed_bytes=0, decompressed_bytes=10**9)
        return LintTopic(
            name=self.pick(("__consumer_offsets", "p.s.t", f"t{number}", "connect-offsets")),
            config=TopicConfig(self.configs(self.table.topic, ValueSource.TOPIC, 30), broker),
            partitions=self.pick((None, 1, 300)),
            replication_factor=self.pick((None, 1, 3)),
            partition_facts=self.pick((None, tuple(self.partition(n) for n in range(self.random.randrange(3))))),
            facts=TopicFacts(
                age_s=self.number(),
                idle_s=self.number(),
                codec=self.pick((None, "none", "lz4")),
                compression_ratio=self.number(),
                keyless_records=self.number(),
                dirty_unique_keys=self.number(),
                timestamp_skew_s=self.number(),
                batches=self.pick((None, (), (batch,))),
                override_age_s=self.pick((None, {}, {"retention.ms": 1e9})),
            ),
            labels=frozenset(self.random.sample(["event_time", "changelog", "loss_tolerant"], 2)),
            current=self.pick((None, {}, {key: self.pick(TEXTS) for key in list(self.table.topic)[::5]})),
            is_declared=self.pick((True, False)),
        )

    def cluster(self, name: str) -> LintCluster:
        brokers = tuple(self.broker(n) for n in range(self.random.randrange(4)))
        shared = brokers[0].config if brokers else BrokerConfig(self.table, is_known=False)
        members, size = self.pick((None, 0, 9)), self.pick((None, 0, 9999))
        group = GroupFacts(name="g", topics=("t1", "p.s.t"), members=members, metadata_p99_bytes=size)
        rollout = RolloutFacts(isr_changes_per_min=1, baseline_mean=0, baseline_deviation=0, unclean_elections=1)
        labels = ["multi_tenant", "mirror:a", "mirror:", "may_differ:"]
        return LintCluster(
            name=name,
            table=self.table,
            target=self.pick((None, config_table(MINORS[-1]))),
            brokers=brokers,
            topics=tuple(self.topic(n, shared) for n in range(self.random.randrange(4))),
            groups=self.pick((None, (), (group,))),
            features=self.pick((None, {})),
            moves_running=self.pick((None, True, False)),
            is_live=self.pick((True, False)),
            broker_count=self.pick((None, 1, 3)),
            rack_count=self.pick((None, 1, 3)),
            labels=frozenset(self.random.sample(labels, self.random.randrange(4))),
            rollout=self.pick((None, rollout)),
            versions_differ_days=self.number(),
            peers=self.pick((None, {}, {"retention.ms": ("1", "1", "1"), "zzz": ("",) * 3})),
        )

    def estate(self) -> Estate:
        clusters = tuple(self.cluster(name) for name in ("a", "b", ""))
        groups: tuple[dict[str, dict[str, tuple[int, ...]]] | None, ...]
        groups = (None, {}, {"g": {}}, {"g": {"t1": (0, 99), "q": ()}, "h": {}})
        kind = {"connector.class": DeclaredValue(POSTGRES, ValueSource.STATIC)}
        return Estate(
            clusters=clusters,
            agents=tuple(
                LintAgent(
                    settings=self.configs(AGENT_KEYS, ValueSource.STATIC, len(AGENT_KEYS)),
                    groups=self.pick(groups),
                    cluster=self.pick((None, *clusters)),
                )
                for _ in range(3)
            ),
            connectors=tuple(
                LintConnector(
                    name=self.pick(("x", "y")),
                    config={**kind, **self.configs(CONNECTOR_KEYS, ValueSource.STATIC, len(CONNECTOR_KEYS))},
                    is_worker=self.pick((True, False)),
                    cluster=self.pick((None, *clusters)),
                )
                for _ in range(5)
            ),
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_no_rule_fails(seed: int) -> None:
    estate = Maker(seed).estate()
    found = check_estate(estate, all_rules(), Limits(strict=bool(seed % 2)))
    assert all(c.finding.message and not c.finding.message.endswith(".") for c in found.checked)


RACKS = "brokers: [{id: 1, rack: a}, {id: 2, rack: a}, {id: 3, rack: b}, {id: 4}, {id: 5}]\n"


def partitions(*parts: str) -> str:
    listed = ", ".join(f"{{partition: {n}, {part}}}" for n, part in enumerate(parts))
    return f"topics: [{{name: t, observed: {{partitions: [{listed}]}}}}]"


def rates(*bytes_s: float) -> str:
    return partitions(*(f"replicas: [1], bytes_s: {rate}" for rate in bytes_s))


ON_7 = partitions("replicas: [1, 7], leader: 1")


def leaders(*brokers: int) -> str:
    return "brokers: [{id: 1}, {id: 2}]\n" + partitions(*(f"replicas: [1, 2], leader: {b}" for b in brokers))


def stored(one: int, two: int) -> str:
    return "brokers: [{id: 1}, {id: 2}]\n" + partitions(f"replicas: [1, 2], bytes: {{1: {one}, 2: {two}}}")


GROUP = "observed: {groups: [{name: g, topics: [t], members: %s}]}\n"


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        ("KKP601", rates(1_000_000), 0),
        ("KKP601", rates(1_000_001), 1),
        ("KKP601", rates(9_000_000, 9_000_000), 0),
        ("KKP601", "topics: [{name: t, partitions: 1}]", SKIPPED),
        ("KKP601", "topics: [{name: t, partitions: 2}]", 0),
        ("KKP601", "topics: [{name: t}]", SKIPPED),
        ("KKP602", "rack_count: 3\ntopics: [{name: t, partitions: 2}]", 0),
        ("KKP602", "rack_count: 3\ntopics: [{name: t, partitions: 3}]", 0),
        ("KKP602", "rack_count: 3\ntopics: [{name: t, partitions: 4}]", 1),
        ("KKP602", "rack_count: 3\ntopics: [{name: __consumer_offsets, partitions: 50}]", 0),
        ("KKP602", "rack_count: 3\nbroker_count: 12\ntopics: [{name: t, partitions: 99}]", 0),
        ("KKP602", "rack_count: 3\nbroker_count: 12\ntopics: [{name: t, partitions: 102}]", 1),
        ("KKP602", "rack_count: 3\nbroker_count: 12\ntopics: [{name: t, partitions: 108}]", 0),
        ("KKP602", "topics: [{name: t, partitions: 4}]", SKIPPED),
        ("KKP603", RACKS + partitions("replicas: [1, 3]"), 0),
        ("KKP603", RACKS + partitions("replicas: [1, 2]"), 1),
        ("KKP603", RACKS + partitions("replicas: [4, 5]"), 0),
        ("KKP603", RACKS + partitions("replicas: [1, 2, 3]"), 0),
        ("KKP603", partitions("replicas: [1, 2]"), SKIPPED),
        ("KKP603", RACKS + "topics: [{name: t, partitions: 1}]", SKIPPED),
        ("KKP604", "brokers: [{id: 1}, {id: 2}]", 0),
        ("KKP604", "brokers: [{id: 1, rack: a}, {id: 2, rack: b}, {id: 9, roles: [controller]}]", 0),
        ("KKP604", "brokers: [{id: 1, rack: a}, {id: 2}]", 1),
        ("KKP604", "brokers: [{id: 1, rack: a}, {id: 2, config: {broker.rack: b}}]", 0),
        ("KKP605", leaders(1, 2), 0),
        ("KKP605", leaders(1, 1, 2), 0),
        ("KKP605", leaders(1, 1, 1, 2), 1),
        ("KKP605", partitions("replicas: [1]"), SKIPPED),
        ("KKP606", leaders(*([1] * 9 + [2])), 0),
        ("KKP606", leaders(*([1] * 8 + [2])), 1),
        ("KKP606", leaders(-1), 0),
        ("KKP607", rates(1_000_000, 1), 0),
        ("KKP607", rates(1_000_000, 1_000_000, 4_000_000), 0),
        ("KKP607", rates(1_000_000, 1_000_000, 4_000_001), 1),
        ("KKP607", rates(0, 0, 4_000_001), 1),
        ("KKP607", "topics: [{name: t}]", SKIPPED),
        ("KKP608", stored(120, 80), 0),
        ("KKP608", stored(121, 79), 1),
        ("KKP608", "brokers: [{id: 1}]\n" + partitions("replicas: [1]"), SKIPPED),
        ("KKP609", "topics: [{name: t, observed: {idle_s: 2592000}}]\nobserved: {groups: []}", 1),
        ("KKP609", "topics: [{name: t, observed: {idle_s: 2591999}}]\nobserved: {groups: []}", 0),
        ("KKP609", GROUP % 0 + "topics: [{name: t, observed: {idle_s: 2592000}}]", 1),
        ("KKP609", "topics: [{name: t, observed: {idle_s: 2592000}}]", SKIPPED),
        ("KKP610", partitions("replicas: [1], bytes: {1: 720000000000}"), 0),
        ("KKP610", partitions("replicas: [1], bytes: {1: 720000000001}"), 1),
        (
            "KKP610",
            "brokers: [{id: 1, dynamic: {follower.replication.throttled.rate: '1000'}}]\n"
            + partitions("replicas: [1], bytes: {1: 7200001}"),
            1,
        ),
        ("KKP610", partitions("replicas: [1]"), SKIPPED),
        ("KKP611", GROUP % 3 + "topics: [{name: t, partitions: 3}]", 0),
        ("KKP611", GROUP % 4 + "topics: [{name: t, partitions: 3}]", 1),
        ("KKP611", GROUP % 4 + "topics: [{name: other, partitions: 3}]", 0),
        ("KKP611", "topics: [{name: t, partitions: 3}]", SKIPPED),
        ("KKP612", "brokers: [{id: 1, rack: a, config: {}}, {id: 2, rack: a, config: {}}]", 0),
        ("KKP612", "brokers: [{id: 1, rack: a, config: {}}, {id: 2, rack: b, config: {}}]", 2),
        ("KKP612", "brokers: [{id: 1, rack: a}, {id: 2, rack: b}]", SKIPPED),
        ("KKP613", "brokers: [{id: 1}, {id: 2}]\n" + ON_7, 1),
        ("KKP613", "brokers: [{id: 1}, {id: 7}]\n" + ON_7, 0),
        ("KKP613", "brokers: [{id: 1}, {id: 7, roles: [controller]}]\n" + ON_7, 1),
        ("KKP613", "brokers: [{id: 1}]\nbroker_count: 3\n" + ON_7, SKIPPED),
        ("KKP613", ON_7, SKIPPED),
        ("KKP613", "brokers: [{id: 1}]\nobserved: {live: true}\n" + ON_7, 1),
        ("KKP613", "brokers: [{id: 1}]\nobserved: {live: true}\n" + ON_7.replace("leader", "isr: [1], leader"), 0),
    ],
)
def test_boundaries(code: str, text: str, expected: int | str) -> None:
    assert verdict(code, text) == expected


@given(st.lists(st.sampled_from(["a", "b", "c", "", None]), max_size=6))
def test_racks_are_judged_as_the_kit_does(groups: list[str | None]) -> None:
    racks = {broker: group or "" for broker, group in enumerate(groups)}
    assert shares_rack(range(len(groups)), racks) is SpreadRule().violates(groups)


def test_a_rack_violation_names_brokers_and_racks() -> None:
    (found,) = findings("KKP603", RACKS + partitions("replicas: [1, 3]", "replicas: [2, 1]"))
    assert found.message == (
        "1 partition of 2 has two replicas in one rack, though there are 2 racks: 1 (partition 1: 2 in a, 1 in a)"
    )


REPLICAS = st.lists(st.permutations([1, 2, 3, 4]).map(lambda ids: tuple(ids[:3])), min_size=1, max_size=8)
RELABELLED = [rule for rule in all_rules() if rule.code.startswith("KKP") or rule.code in ("KKB504", "KKX003")]


def cluster_of(replicas: list[tuple[int, ...]], racks: list[str], ids: dict[int, int], leaders: int) -> Estate:
    table = config_table("4.3")
    facts = tuple(
        PartitionFacts(
            partition=number,
            replicas=tuple(ids[b] for b in brokers),
            leader=ids[brokers[leaders % 3]],
            replica_bytes={ids[b]: 1000 * b for b in brokers},
            bytes_s=900_000.0 * (number + 1) ** 2,
        )
        for number, brokers in enumerate(replicas)
    )
    brokers = tuple(LintBroker(id=ids[b], rack=racks[b - 1], config=BrokerConfig(table)) for b in sorted(ids))
    topic = LintTopic(name="t", config=TopicConfig({}, brokers[0].config), partition_facts=facts)
    return Estate(clusters=(LintCluster(name="c", table=table, brokers=brokers, topics=(topic,), groups=()),))


@given(
    REPLICAS,
    st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=4, max_size=4),
    st.permutations([11, 12, 13, 14]),
    st.integers(0, 2),
)
def test_new_ids_of_brokers_leave_the_findings_as_they_are(
    replicas: list[tuple[int, ...]], racks: list[str], ids: list[int], leader: int
) -> None:
    def found(new: dict[int, int]) -> tuple[Counter[tuple[str, str]], object]:
        outcome = check_estate(cluster_of(replicas, racks, new, leader), RELABELLED, Limits(partitions_per_broker=3))
        return Counter((c.finding.rule, c.finding.severity.value) for c in outcome.checked), outcome.skipped

    assert found({b: b for b in (1, 2, 3, 4)}) == found(dict(zip((1, 2, 3, 4), ids, strict=True)))
