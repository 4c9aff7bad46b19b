"""Laws of wanted tags, cleanups and migrations, on random tags."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from kafkakit.core.errors import InputError
from kafkakit.registry.act.tag_store import TagStore
from kafkakit.registry.act.upkeep import migrate, read_tables
from kafkakit.registry.decide.desired import BrokerEntry, DesiredTags, TagRule, plan_desired
from kafkakit.registry.decide.tags import MARK, CleanupRules, Kind, content_of, plan_cleanup
from tests.fakes.control import FakeControlStore
from tests.integration.conftest import SilentReporter
from tests.unit.registry.test_cleanup import Rig

KEYS = st.sampled_from(["a", "b", "own.x", "own.y"])
TAGS = st.dictionaries(KEYS, st.sampled_from(["1", "2", ""]), max_size=3)
BROKERS = st.dictionaries(st.integers(1, 5), TAGS, min_size=1)
NAMES = st.sampled_from(["t1", "t2", "t3", "t4"])


@given(
    brokers=BROKERS,
    rules=st.lists(st.tuples(st.sets(st.integers(1, 5), min_size=1), TAGS), min_size=1),
    prune=st.booleans(),
)
def test_wanted_tags_are_there_afterwards_and_nothing_else_is_touched(
    brokers: Mapping[int, Mapping[str, str]], rules: list[tuple[set[int], dict[str, str]]], prune: bool
) -> None:
    entries = {broker: BrokerEntry(id=broker, tags=tags) for broker, tags in brokers.items()}
    made = tuple(
        TagRule(names=tuple(ids & brokers.keys()), tags=dict(tags)) for ids, tags in rules if ids & brokers.keys()
    )
    desired = DesiredTags(source="f", rules={Kind.BROKER: made})
    prefixes = ("own.",) if prune else ()
    wanted: dict[int, dict[str, str]] = {broker: {} for broker in brokers}
    is_sound = True
    for rule in made:
        for broker in rule.names:
            own = wanted[int(broker)]
            is_sound &= all(own.get(key, value) == value for key, value in rule.tags.items())
            own.update({key: str(value) for key, value in rule.tags.items()})
    try:
        changes = plan_desired(desired, {}, entries, {}, prefixes).changes
    except InputError:
        assert not is_sound
        return
    assert is_sound
    after = {broker: dict(tags) for broker, tags in brokers.items()}
    for change in changes:
        assert change.before == brokers[int(change.name)] != change.after
        after[int(change.name)] = dict(change.after)
    for broker, tags in after.items():
        kept = {k: v for k, v in brokers[broker].items() if not (prune and k.startswith("own."))}
        assert tags == {**kept, **wanted[broker]}
    now = {broker: BrokerEntry(id=broker, tags=tags) for broker, tags in after.items()}
    assert plan_desired(desired, {}, now, {}, prefixes).changes == ()


@given(
    table=st.dictionaries(
        NAMES, st.dictionaries(st.sampled_from(["a", MARK]), st.sampled_from(["1", "990000", "999000", "x"]))
    ),
    existing=st.sets(NAMES),
    force=st.booleans(),
)
def test_a_cleanup_never_marks_or_deletes_what_exists(
    table: dict[str, dict[str, str]], existing: set[str], force: bool
) -> None:
    plan = plan_cleanup(Kind.TOPIC, table, existing, 1e6, CleanupRules(force=force))
    assert not {*plan.marks, *plan.drops, *plan.waiting} & existing
    assert set(plan.unmarks) <= existing
    if not plan.refused:
        assert {*plan.marks, *plan.drops, *plan.waiting} == table.keys() - existing
    assert all(
        not table[n] or (table[n].get(MARK, "x").isdigit() and int(table[n][MARK]) < 996_400) for n in plan.drops
    )


STEPS = st.sampled_from(
    ["ours", "kafka-kit", "later", "delete t1", "create t1", "delete t2", "create t2", "tag t1", "tag t2"]
)


@given(st.lists(STEPS, max_size=25))
def test_two_cleaners_in_any_order_lose_no_tag_of_what_exists_all_along(steps: list[str]) -> None:
    rig = Rig()
    for name in ("t1", "t2", "stays"):
        rig.cluster.add_topic(name, {0: (1001,)})
        rig.put("topic", name, '{"team":"a"}')
    rules = CleanupRules(force=True)
    for step in [*steps, "ours"]:
        what, _, name = step.partition(" ")
        if what == "ours":
            rig.ours(rules)
            present = rig.records("topic")
            assert not [n for n in rig.cluster.topics if MARK in present.get(n, {})]
        elif what == "kafka-kit":
            rig.kafka_kits()
        elif what == "later":
            rig.clock.advance(2000)
        elif what == "delete" and name in rig.cluster.topics:
            rig.cluster.delete_topic(name)
        elif what == "create" and name not in rig.cluster.topics:
            rig.cluster.add_topic(name, {0: (1001,)})
        elif what == "tag":
            rig.ports.tags.put(Kind.TOPIC, name, {"team": "b"})
        assert rig.records("topic")["stays"] == {"team": "a"}
    for _ in range(3):
        rig.clock.advance(4000)
        rig.ours(rules)
    assert rig.records("topic").keys() <= rig.cluster.topics.keys()


@given(
    source=st.dictionaries(NAMES, TAGS), target=st.dictionaries(NAMES, TAGS), brokers=BROKERS, done=st.integers(0, 10)
)
def test_a_migration_leaves_the_source_and_can_be_continued_anywhere(
    source: dict[str, dict[str, str]], target: dict[str, dict[str, str]], brokers: dict[int, dict[str, str]], done: int
) -> None:
    ours, theirs = TagStore(FakeControlStore(), "registry"), TagStore(FakeControlStore(), "x/registry")
    for name, tags in source.items():
        ours.put(Kind.TOPIC, name, tags)
    for broker, tags in brokers.items():
        ours.put(Kind.BROKER, str(broker), tags)
    for name, tags in target.items():
        theirs.put(Kind.TOPIC, name, tags)
    before, reporter = read_tables(ours), SilentReporter()
    for name, tags in list(source.items())[:done]:  # what an interrupted run had copied
        theirs.put(Kind.TOPIC, name, tags)
    result = migrate(ours, theirs, reporter, merge=True, dry_run=False)
    assert read_tables(ours) == before
    assert result.source == content_of(before)
    for name in {*source, *target}:
        assert theirs.get(Kind.TOPIC, name) in ({**target.get(name, {}), **source.get(name, {})}, None)
    if all(source.get(name) == tags for name, tags in target.items() if tags):
        assert result.target == result.source
    again = migrate(ours, theirs, reporter, merge=True, dry_run=False)
    assert (again.plan.writes, again.histories) == ((), 0)
    for kind, name, made in ours.history.made():
        copied = [(entry.at, entry.by, entry.changes) for entry in theirs.history.of(kind, name).made]
        assert copied == sorted(copied, key=lambda entry: entry[0])
        assert all((entry.at, entry.by, entry.changes) in copied for entry in made)


def test_the_digest_tells_stores_apart() -> None:
    tables = [
        {Kind.TOPIC: {"a": {"k": "v"}}, Kind.BROKER: {}},
        {Kind.TOPIC: {}, Kind.BROKER: {"a": {"k": "v"}}},
        {Kind.TOPIC: {"a": {"k": "w"}}, Kind.BROKER: {}},
        {Kind.TOPIC: {"a": {"k": "v"}, "b": {"k": "v"}}, Kind.BROKER: {}},
    ]
    assert len({content_of(table).digest for table in tables}) == 4
    empty = {Kind.TOPIC: {"a": {"k": "v"}, "z": {}}, Kind.BROKER: {}}
    assert content_of(empty) == content_of(tables[0])
