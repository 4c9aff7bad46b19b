"""Rules of placement at their boundaries, and the rule of racks against the kit's own."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.placement.group_rule import GroupRule
from kafkakit.rules.catalogue import all_rules
from kafkakit.rules.cluster_facts import shares_rack
from kafkakit.rules.config_defs import config_table
from kafkakit.rules.effective import BrokerConfig, TopicConfig
from kafkakit.rules.engine import check_estate
from kafkakit.rules.rule import Limits
from kafkakit.rules.subjects import Estate, LintBroker, LintCluster, LintTopic, PartitionFacts
from tests.rigs.rule_cases import SKIPPED, findings, verdict

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
    assert shares_rack(range(len(groups)), racks) is GroupRule().violates(groups)


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
