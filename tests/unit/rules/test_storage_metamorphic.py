"""Relations between clusters that findings on durability, retention, compaction and KRaft must keep."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.lint.decide.pieces import AssemblyOptions, BrokerPiece, ClusterPiece, Pieces, TopicPiece, assemble
from kafkakit.rules.catalogue import rules_of
from kafkakit.rules.effective import DeclaredValue, ValueSource
from kafkakit.rules.engine import RuleFinding, check_estate
from kafkakit.rules.families import (
    compaction,
    durability,
    durability_brokers,
    kraft,
    retention,
    retention_segments,
    tiering,
)
from kafkakit.rules.rule import Limits, LintRule, Subject
from kafkakit.rules.subjects import GroupFacts, PartitionFacts, TopicFacts
from tests.unit.rules import test_broker_rules as test_compaction
from tests.unit.rules import test_broker_rules as test_durability
from tests.unit.rules import test_broker_rules as test_retention_rules
from tests.unit.rules import test_kraft

FAMILIES = (compaction, durability, durability_brokers, kraft, retention, retention_segments, tiering)
# Brokers refuse what these find, so there is no effective configuration to compare.
REFUSED = frozenset({"KKT901", "KKT902", "KKT903", "KKT904", "KKT905", "KKQ859"})
RULES: tuple[LintRule, ...] = tuple(
    rule for family in FAMILIES for rule in rules_of(family) if rule.code not in REFUSED
)
STRICT = Limits(strict=True)
VALUES = {
    "cleanup.policy": ("delete", "compact", "compact,delete", ""),
    "retention.ms": ("-1", "0", "1000", "60000", "3600000", "86400000", "2592000000"),
    "retention.bytes": ("-1", "1048576", "1073741824", "107374182400"),
    "segment.ms": ("1000", "600000", "3600000", "43200000", "604800000"),
    "segment.bytes": ("1048576", "104857600", "1073741824"),
    "segment.jitter.ms": ("0", "1000", "3600000", "604800000"),
    "segment.index.bytes": ("12", "24", "1048576", "10485760"),
    "index.interval.bytes": ("0", "128", "4096"),
    "max.message.bytes": ("1048588", "10485760"),
    "file.delete.delay.ms": ("0", "60000", "86400000"),
    "max.compaction.lag.ms": ("3600000", "86400000", "9223372036854775807"),
    "delete.retention.ms": ("1000", "3600000", "86400000"),
    "min.cleanable.dirty.ratio": ("0.01", "0.5", "1"),
    "message.timestamp.after.max.ms": ("1000", "3600000", "9223372036854775807"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "min.insync.replicas": ("1", "2", "3"),
    "flush.ms": ("1000", "9223372036854775807"),
    "preallocate": ("true", "false"),
    "unclean.leader.election.enable": ("true", "false"),
    "remote.storage.enable": ("true", "false"),
    "local.retention.ms": ("-2", "1000", "3600000", "86400000"),
}
BROKER_VALUES = {
    "log.retention.hours": ("1", "24", "168"),
    "log.roll.hours": ("1", "168"),
    "log.retention.check.interval.ms": ("300000", "3600000"),
    "default.replication.factor": ("1", "3"),
    "offsets.topic.replication.factor": ("1", "3"),
    "min.insync.replicas": ("1", "2"),
    "unclean.leader.election.enable": ("true", "false"),
    "process.roles": ("broker", "broker,controller"),
    "log.cleaner.threads": ("0", "1"),
    "auto.create.topics.enable": ("true", "false"),
}


def some(values: Mapping[str, Sequence[str]], source: ValueSource) -> st.SearchStrategy[dict[str, DeclaredValue]]:
    pairs = st.sampled_from([(key, value) for key, of in values.items() for value in of])
    return st.lists(pairs, max_size=6).map(lambda chosen: {k: DeclaredValue(v, source) for k, v in chosen})


brokers_of = st.lists(
    st.builds(
        BrokerPiece,
        place=st.none(),
        id=st.integers(1, 6),
        rack=st.sampled_from(("a", "b", "c")),
        static=some(BROKER_VALUES, ValueSource.STATIC),
        is_alive=st.booleans(),
        is_known=st.just(True),
    ),
    min_size=2,
    max_size=6,
    unique_by=lambda b: b.id or 0,
)
partitions_of = st.one_of(
    st.none(),
    st.lists(
        st.builds(
            PartitionFacts,
            partition=st.just(0),
            replicas=st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True).map(tuple),
            isr=st.just((1,)),
            leader=st.sampled_from((-1, 1)),
            bytes_s=st.sampled_from((0.0, 1.0, 1e4, 1e6)),
        ),
        min_size=1,
        max_size=3,
    ).map(lambda found: tuple(replace(p, partition=n) for n, p in enumerate(found))),
)
topics_of = st.lists(
    st.builds(
        TopicPiece,
        name=st.sampled_from(("orders", "payments", "__consumer_offsets", "totals-changelog")),
        place=st.none(),
        configs=some(VALUES, ValueSource.TOPIC),
        partitions=st.just(6),
        replication_factor=st.integers(1, 4),
        partition_facts=partitions_of,
        facts=st.just(TopicFacts(age_s=1e6, keyless_records=1, dirty_unique_keys=10**7)),
        labels=st.sampled_from((frozenset(), frozenset(("state",)), frozenset(("loss_tolerant",)))),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda t: t.name,
)
GROUPS = (GroupFacts(name="g", topics=("orders",), time_lag_s={"orders": 80_000.0}),)
CLUSTER = ClusterPiece(
    place=None, name="prod", version="4.2", groups=GROUPS, metadata_behind_days=0, features={}, is_live=True
)


def lint(*files: Pieces, rules: Sequence[LintRule] = RULES) -> tuple[RuleFinding, ...]:
    return check_estate(assemble([Pieces(clusters=(CLUSTER,)), *files], AssemblyOptions()), rules, STRICT).checked


def told(checked: Sequence[RuleFinding]) -> Counter[tuple[object, ...]]:
    """The findings without where they stand: brokers have other names after relabelling."""
    return Counter((c.rule.code, c.finding.severity, c.finding.setting, c.edits) for c in checked)


few = settings(max_examples=60, deadline=None)


@few
@given(brokers_of, topics_of)
def test_another_broker_never_makes_replicas_too_many(brokers: list[BrokerPiece], topics: list[TopicPiece]) -> None:
    def too_many(found: Sequence[RuleFinding]) -> set[str]:
        return {c.finding.where for c in found if c.rule.code == "KKD111"}

    before = lint(Pieces(brokers=tuple(brokers), topics=tuple(topics)))
    more = (*brokers, BrokerPiece(place=None, id=99, rack="z", is_known=True))
    assert too_many(lint(Pieces(brokers=more, topics=tuple(topics)))) <= too_many(before)


@few
@given(brokers_of, topics_of)
def test_larger_segments_never_end_a_finding_of_overshoot(brokers: list[BrokerPiece], topics: list[TopicPiece]) -> None:
    def overshooting(size: str) -> set[str]:
        sized = [
            replace(t, configs={**t.configs, "segment.bytes": DeclaredValue(size, ValueSource.TOPIC)}) for t in topics
        ]
        found = lint(Pieces(brokers=tuple(brokers), topics=tuple(sized)))
        return {c.finding.where for c in found if c.rule.code == "KKR201"}

    assert overshooting("1048576") <= overshooting("1073741824")


@few
@given(brokers_of, topics_of, st.permutations(range(1, 7)))
def test_other_broker_ids_change_no_finding(
    brokers: list[BrokerPiece], topics: list[TopicPiece], ids: list[int]
) -> None:
    def new(old: int) -> int:
        return 100 + ids[old - 1]

    def relabelled(partitions: tuple[PartitionFacts, ...] | None) -> tuple[PartitionFacts, ...] | None:
        return partitions and tuple(
            replace(
                p,
                replicas=tuple(map(new, p.replicas)),
                isr=tuple(map(new, p.isr or ())),
                leader=new(p.leader) if p.leader and p.leader > 0 else p.leader,
            )
            for p in partitions
        )

    others = tuple(replace(b, id=new(b.id or 0)) for b in brokers)
    moved = tuple(replace(t, partition_facts=relabelled(t.partition_facts)) for t in topics)
    before = lint(Pieces(brokers=tuple(brokers), topics=tuple(topics)))
    assert told(lint(Pieces(brokers=others, topics=moved))) == told(before)


@few
@given(brokers_of, topics_of)
def test_splitting_a_file_changes_no_finding(brokers: list[BrokerPiece], topics: list[TopicPiece]) -> None:
    whole = lint(Pieces(brokers=tuple(brokers), topics=tuple(topics)))
    parts = [*(Pieces(brokers=(b,)) for b in brokers), *(Pieces(topics=(t,)) for t in topics)]
    assert lint(*parts) == whole


@few
@given(brokers_of, topics_of)
def test_the_edits_of_a_topic_remove_its_finding(brokers: list[BrokerPiece], topics: list[TopicPiece]) -> None:
    by_name = {f"topic {t.name} of prod": t for t in topics}
    for checked in lint(Pieces(brokers=tuple(brokers), topics=tuple(topics))):
        topic = by_name.get(checked.finding.where)
        if topic is None or not checked.edits:
            continue
        configs = dict(topic.configs)
        for edit in checked.edits:
            configs.pop(edit.key, None)
            if edit.value is not None:
                configs[edit.key] = DeclaredValue(edit.value, ValueSource.TOPIC)
        mended = [replace(topic, configs=configs) if t is topic else t for t in topics]
        after = lint(Pieces(brokers=tuple(brokers), topics=tuple(mended)), rules=(checked.rule,))
        same = [c for c in after if c.finding.fingerprint == checked.finding.fingerprint]
        assert not same, f"{checked.finding.message} -> {checked.edits} -> {same[0].finding.message}"


def test_each_rule_has_a_case_that_fires_and_one_that_does_not() -> None:
    cases = [
        *test_compaction.CASES_COMPACTION,
        *test_durability.CASES_DURABILITY,
        *test_kraft.CASES,
        *test_retention_rules.CASES,
    ]
    fires = {code for code, _, expected in cases if expected and set(expected) <= set("EWN")}
    silent = {code for code, _, expected in cases if expected == ""}
    codes = {rule.code for rule in RULES}
    assert codes <= fires
    assert codes <= silent
    assert all(rule.subject in (Subject.TOPIC, Subject.BROKER, Subject.CLUSTER) for rule in RULES)
