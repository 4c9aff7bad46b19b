"""The registry against models; laws of wanted tags, cleanups and migrations, on random tags."""

import asyncio
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkakit.adapters.host import SystemClock
from kafkakit.core.errors import InputError, KafkakitError, TryLaterError
from kafkakit.core.model import decode_tags
from kafkakit.core.rpc import RpcAnswer, RpcCall, RpcError
from kafkakit.registry.act.cluster import InventoryReader
from kafkakit.registry.act.tag_store import TagStore
from kafkakit.registry.act.upkeep import migrate, read_tables
from kafkakit.registry.decide.access import BURST, Admission, CallRates, read_access
from kafkakit.registry.decide.desired_tags import BrokerEntry, DesiredTags, TagRule, plan_desired
from kafkakit.registry.decide.inventory import (
    Facts,
    Inventory,
    InventoryChange,
    RegisteredBroker,
    RegisteredTopic,
    TagTable,
    change_between,
)
from kafkakit.registry.decide.offsets import fold_checkpoints
from kafkakit.registry.decide.requests import RPC_BY_NAME, RPCS
from kafkakit.registry.decide.tags import MARK, CleanupRules, ObjectKind, content_of, encode_tags, plan_cleanup
from kafkakit.wiring import registry_codec
from tests.fakes.control import FakeControlStore
from tests.integration.conftest import SilentReporter
from tests.rigs.registry import service_on, small_cluster
from tests.unit.registry.test_tags import Rig

AT = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = st.sampled_from(["a", "b", "a.b", "a-b", "c"])
KEYS = st.sampled_from(["team", "pool", "name", "partitions"])
VALUES = st.sampled_from(["", "x", "y", "1", "a"])
TAGS = st.dictionaries(KEYS, VALUES, max_size=3)
FEW_TAGS = st.dictionaries(st.sampled_from(["team", "pool"]), st.sampled_from(["", "x"]), max_size=2)


# -- tags written at once ---------------------------------------------------------------------------
class Interrupted(FakeControlStore):
    """Lets another program act between the reading and the writing of one."""

    def __init__(self) -> None:
        super().__init__()
        self.before_write: list[Callable[[], object]] = []

    def cas(self, path: str, value: bytes, expected: int | None) -> int:
        if self.before_write:
            self.before_write.pop(0)()
        return super().cas(path, value, expected)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(["set", "remove"])), min_size=1, max_size=9))
def test_no_tag_is_lost_whatever_others_write_meanwhile(others: list[tuple[str, str]]) -> None:
    store = Interrupted()
    ours, theirs = TagStore(store, "r"), TagStore(store, "r")
    theirs.put(ObjectKind.TOPIC, "t", {"z": "1"})
    model = {"z": "1"}

    def act(key: str, what: str) -> None:
        if what == "set":
            theirs.put(ObjectKind.TOPIC, "t", {key: "theirs"})
            model[key] = "theirs"
        else:
            theirs.remove(ObjectKind.TOPIC, "t", frozenset(key))
            model.pop(key, None)

    waiting = list(others)

    def step() -> None:
        key, what = waiting.pop(0)
        before, store.before_write = store.before_write, []
        act(key, what)
        store.before_write = before

    store.before_write = [step] * len(others)
    try:
        ours.put(ObjectKind.TOPIC, "t", {"ours": "1"})
        model["ours"] = "1"
    except TryLaterError:
        assert len(others) >= 9
    assert ours.get(ObjectKind.TOPIC, "t") == model
    assert ours.all(ObjectKind.TOPIC, []) == {"t": model}


def test_a_tag_that_is_written_too_often_by_others_is_given_up() -> None:
    store = Interrupted()
    ours, theirs, written = TagStore(store, "r"), TagStore(store, "r"), iter(range(100))

    def step() -> None:
        before, store.before_write = store.before_write, []
        theirs.put(ObjectKind.TOPIC, "t", {"k": str(next(written))})
        store.before_write = before

    store.before_write = [step] * 10
    with pytest.raises(TryLaterError, match="10 times"):
        ours.put(ObjectKind.TOPIC, "t", {"ours": "1"})


# -- the inventory ----------------------------------------------------------------------------------
TOPICS = st.builds(
    lambda name, rows, configs: RegisteredTopic(name=name, replicas=tuple(enumerate(rows)), configs=configs),
    NAMES,
    st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=3, unique=True).map(tuple), min_size=1, max_size=3),
    st.dictionaries(KEYS, VALUES, max_size=1),
)
BROKERS = st.lists(st.integers(1, 3), unique=True).map(
    lambda ids: tuple(RegisteredBroker(id=n, rack="abc"[n % 3]) for n in sorted(ids))
)
READINGS = st.lists(
    st.builds(
        lambda brokers, topics, topic_tags, broker_tags: Facts(
            cluster_id="c",
            began_s=0,
            began_at=AT,
            brokers=brokers,
            topics={topic.name: topic for topic in topics},
            tags={"topic": topic_tags, "broker": broker_tags},
        ),
        BROKERS,
        st.lists(TOPICS, max_size=4),
        st.dictionaries(NAMES, TAGS, max_size=3),
        st.dictionaries(st.sampled_from(["1", "2", "9"]), FEW_TAGS, max_size=3),
    ),
    min_size=1,
    max_size=4,
)


def reading(*brokers: int) -> Facts:
    found = tuple(RegisteredBroker(id=broker) for broker in brokers)
    return Facts(cluster_id="c", began_s=0, began_at=AT, brokers=found, topics={}, tags={})


@example([reading(1, 2), reading(2)], {"id": "1"})
@given(READINGS, TAGS | FEW_TAGS | st.sampled_from([{"id": "1"}, {"id": "2"}, {"rack": "b"}, {"replication": "1"}]))
def test_the_inventory_is_what_was_read_last(readings: list[Facts], wanted: dict[str, str]) -> None:
    from msgspec import msgpack

    inventory, last = Inventory(), None
    for facts in readings:
        change = change_between(last, facts)
        inventory.apply(msgpack.decode(msgpack.encode(change), type=InventoryChange))
        last = facts
    assert last is not None
    assert dict(sorted(inventory.topics.items())) == dict(sorted(last.topics.items()))
    assert tuple(inventory.brokers.values()) == last.brokers
    assert {kind: table for kind, table in inventory.tags.items() if table} == {k: t for k, t in last.tags.items() if t}
    for broker in range(5):
        assert inventory.topics_on(broker) == sorted(n for n, t in last.topics.items() if broker in t.brokers)
    assert inventory.topic_names == sorted(last.topics)
    for kind, names in ((ObjectKind.TOPIC, set(last.topics)), (ObjectKind.BROKER, {str(b.id) for b in last.brokers})):
        plain = {
            name
            for name in names
            if all(inventory.attributes(kind, name).get(key, "") == value for key, value in wanted.items())
        }
        found = inventory.select(kind, wanted)
        assert (names if found is None else found) == plain


@given(TOPICS, TAGS, st.booleans())
def test_a_reading_that_began_before_a_write_does_not_undo_it(
    topic: RegisteredTopic, tags: dict[str, str], late: bool
) -> None:
    inventory = Inventory()
    inventory.apply(
        InventoryChange(began_at=AT, began_s=1, topics=(topic,), tags={"topic": {topic.name: {"old": "1"}}})
    )
    inventory.note_tags(ObjectKind.TOPIC, topic.name, tags, 5.0)
    inventory.note_topic(topic.name, None, 5.0)
    began_s = 6.0 if late else 4.0
    inventory.apply(
        InventoryChange(began_at=AT, began_s=began_s, topics=(topic,), tags={"topic": {topic.name: {"old": "2"}}})
    )
    assert (topic.name in inventory.topics) is late
    assert inventory.tags[ObjectKind.TOPIC][topic.name] == ({"old": "2"} if late else tags)


@given(st.lists(st.sampled_from(["ours", "theirs", "begin", "end"]) | st.sampled_from(["ours", "end"])))
@example(["begin", "ours", "theirs", "end"])
@example(["ours", "theirs"])
def test_what_others_write_beside_a_write_of_ours_is_seen_in_the_end(steps: list[str]) -> None:
    """Each write turns one tag over, so that others may also restore what was there before ours."""
    inventory, last, is_set, began_s = Inventory(), None, False, 0.5
    for now_s, what in enumerate(["end", *steps, "begin", "end"]):
        if what == "begin":
            began_s = now_s + 0.5
        elif what == "end":
            tags: TagTable = {ObjectKind.TOPIC: {"t": {"a": "1"}} if is_set else {}}
            facts = Facts(cluster_id="", began_s=began_s, began_at=AT, brokers=(), topics={}, tags=tags)
            inventory.apply(change_between(last, facts))
            last = facts
        else:
            is_set = not is_set
            if what == "ours":
                inventory.note_tags(ObjectKind.TOPIC, "t", {"a": "1"} if is_set else None, now_s)
    assert inventory.tags[ObjectKind.TOPIC] == ({"t": {"a": "1"}} if is_set else {})


def test_a_topic_that_changed_since_it_was_made_is_seen_by_the_next_reading() -> None:
    made, grown = (RegisteredTopic(name="t", replicas=((0, (1,)),) * count) for count in (1, 2))
    inventory = Inventory()
    inventory.apply(InventoryChange(began_at=AT, began_s=1))
    inventory.note_topic("t", made, 2.0)
    inventory.apply(InventoryChange(began_at=AT, began_s=1.5, topics=(grown,)))
    assert inventory.topics == {"t": made}
    inventory.apply(InventoryChange(began_at=AT, began_s=3))
    assert inventory.topics == {"t": grown}


# -- admission --------------------------------------------------------------------------------------
@given(st.lists(st.tuples(st.floats(0, 0.3), st.floats(0, 3)), min_size=30, max_size=60))
def test_no_window_of_time_holds_more_calls_than_the_rate_lets_through(steps: list[tuple[float, float]]) -> None:
    admission, now_s, begun = Admission(CallRates(reads_per_s=4, writes_per_s=1, timeout_s=5)), 0.0, list[float]()
    for pause_s, deadline_s in steps:
        now_s += pause_s
        try:
            wait_s = admission.take("a", now_s, deadline_s, is_read=True)
        except RpcError:
            continue
        assert wait_s <= deadline_s
        begun.append(now_s + wait_s)
    for at, first in enumerate(begun):
        for count, last in enumerate(begun[at:], start=1):
            assert count <= BURST + 4 * (last - first) + 1e-6 + 1


# -- input of any kind ------------------------------------------------------------------------------
WORDS = st.text(max_size=20) | st.sampled_from(["a:b", "1001", "test1", "true", "0", "4294967296", "%", "..", "\0"])
FIELDS = st.sampled_from(["tag", "name", "id", "spanning", "with_replicas", "withReplicas", "exclude", "x", ""])
PATHS = st.sampled_from([rpc.http_path for rpc in RPCS]) | st.text(max_size=30).map("/".__add__)
BODIES = st.binary(max_size=60) | st.recursive(
    st.none() | st.booleans() | st.integers(-(2**33), 2**33) | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["topic", "tags", "ids", "name", "partitions", "replication", "configs"]), inner
        )
    ),
    max_leaves=8,
).map(lambda value: __import__("json").dumps(value).encode())


@pytest.fixture(scope="module")
def answering() -> Iterator[tuple[Any, list[str], Callable[[Any], RpcAnswer]]]:
    loop = asyncio.new_event_loop()
    with tempfile.TemporaryDirectory() as folder:
        cluster, store = small_cluster(), FakeControlStore()
        service, inventory, lines = service_on(Path(folder), cluster, store)
        inventory.apply(InventoryReader(cluster, TagStore(store, "registry"), SystemClock()).read())
        yield service, lines, loop.run_until_complete
        loop.run_until_complete(service.drain(1))
    loop.close()


@settings(deadline=None)
@given(
    st.sampled_from(["GET", "PUT", "POST", "DELETE", "HEAD", "X"]),
    PATHS,
    WORDS,
    st.lists(st.tuples(FIELDS, WORDS), max_size=4),
    BODIES,
    WORDS,
)
def test_no_request_over_http_breaks_it(
    answering: Any, method: str, path: str, word: str, query: list[tuple[str, str]], body: bytes, timeout: str
) -> None:
    from urllib.parse import quote, urlencode

    service, lines, run = answering
    for name in ("{name}", "{id}", "{remote_cluster_alias}", "{group_id}"):
        path = path.replace(name, quote(word, safe=""))
    headers = {"grpc-timeout": timeout} if len(timeout) > 12 else {}
    raw = path.encode("utf-8", "replace").decode("latin-1")
    call = RpcCall(
        method=method,
        path=raw,
        query=urlencode(query, errors="replace"),
        body=body,
        remote="127.0.0.1",
        headers=headers,
    )
    answered = run(service.http(call))
    assert answered.status in (200, 400, 404, 409, 501), answered
    assert answered.body.startswith(b"{")
    assert lines == []


@settings(deadline=None)
@given(st.sampled_from(sorted(RPC_BY_NAME)), st.binary(max_size=80))
def test_no_message_over_grpc_breaks_it(answering: Any, name: str, body: bytes) -> None:
    service, lines, run = answering
    answered = run(service.grpc(RpcCall(method=name, body=body, remote="127.0.0.1")))
    assert answered.code in (0, 3, 5, 6, 9), answered
    assert lines == []
    if answered.code == 0:
        registry_codec().decode(RPC_BY_NAME[name].reply, answered.body)


@given(st.binary(max_size=60), st.binary(max_size=40))
def test_no_checkpoint_breaks_the_reader(key: bytes, value: bytes) -> None:
    from kafkakit.core.model import TopicPartition
    from kafkakit.core.records import Record

    record = Record(partition=TopicPartition("c", 0), offset=0, key=key, value=value)
    with suppress(RpcError):
        fold_checkpoints([record], "g", {})


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_file_of_tokens_breaks_the_reader(data: bytes) -> None:
    with suppress(InputError):
        read_access(data, "tokens")


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)


@given(st.dictionaries(TEXTS, TEXTS, max_size=5))
def test_tags_come_back_from_their_znode(tags: dict[str, str]) -> None:
    safe = {
        key.encode("utf-8", "replace").decode(): value.encode("utf-8", "replace").decode()
        for key, value in tags.items()
    }
    data = encode_tags(safe)
    assert decode_tags(data, "znode") == safe
    assert not set(data) & set(b"<>&")


def test_errors_of_the_store_are_no_defects() -> None:
    store = FakeControlStore()
    store.away = True
    with pytest.raises(KafkakitError):
        TagStore(store, "r").put(ObjectKind.TOPIC, "t", {"a": "b"})


KEYS_REGISTRY_UPKEEP = st.sampled_from(["a", "b", "own.x", "own.y"])
TAGS_REGISTRY_UPKEEP = st.dictionaries(KEYS_REGISTRY_UPKEEP, st.sampled_from(["1", "2", ""]), max_size=3)
BROKERS_REGISTRY_UPKEEP = st.dictionaries(st.integers(1, 5), TAGS_REGISTRY_UPKEEP, min_size=1)
NAMES_REGISTRY_UPKEEP = st.sampled_from(["t1", "t2", "t3", "t4"])


@given(
    brokers=BROKERS_REGISTRY_UPKEEP,
    rules=st.lists(st.tuples(st.sets(st.integers(1, 5), min_size=1), TAGS_REGISTRY_UPKEEP), min_size=1),
    prune=st.booleans(),
)
def test_wanted_tags_are_there_afterwards_and_nothing_else_is_touched(
    brokers: Mapping[int, Mapping[str, str]], rules: list[tuple[set[int], dict[str, str]]], prune: bool
) -> None:
    entries = {broker: BrokerEntry(id=broker, tags=tags) for broker, tags in brokers.items()}
    made = tuple(
        TagRule(names=tuple(ids & brokers.keys()), tags=dict(tags)) for ids, tags in rules if ids & brokers.keys()
    )
    desired = DesiredTags(source="f", rules={ObjectKind.BROKER: made})
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
        NAMES_REGISTRY_UPKEEP,
        st.dictionaries(st.sampled_from(["a", MARK]), st.sampled_from(["1", "990000", "999000", "x"])),
    ),
    existing=st.sets(NAMES_REGISTRY_UPKEEP),
    force=st.booleans(),
)
def test_a_cleanup_never_marks_or_deletes_what_exists(
    table: dict[str, dict[str, str]], existing: set[str], force: bool
) -> None:
    plan = plan_cleanup(ObjectKind.TOPIC, table, existing, 1e6, CleanupRules(force=force))
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
            rig.ports.tags.put(ObjectKind.TOPIC, name, {"team": "b"})
        assert rig.records("topic")["stays"] == {"team": "a"}
    for _ in range(3):
        rig.clock.advance(4000)
        rig.ours(rules)
    assert rig.records("topic").keys() <= rig.cluster.topics.keys()


@given(
    source=st.dictionaries(NAMES_REGISTRY_UPKEEP, TAGS_REGISTRY_UPKEEP),
    target=st.dictionaries(NAMES_REGISTRY_UPKEEP, TAGS_REGISTRY_UPKEEP),
    brokers=BROKERS_REGISTRY_UPKEEP,
    done=st.integers(0, 10),
)
def test_a_migration_leaves_the_source_and_can_be_continued_anywhere(
    source: dict[str, dict[str, str]], target: dict[str, dict[str, str]], brokers: dict[int, dict[str, str]], done: int
) -> None:
    ours, theirs = TagStore(FakeControlStore(), "registry"), TagStore(FakeControlStore(), "x/registry")
    for name, tags in source.items():
        ours.put(ObjectKind.TOPIC, name, tags)
    for broker, tags in brokers.items():
        ours.put(ObjectKind.BROKER, str(broker), tags)
    for name, tags in target.items():
        theirs.put(ObjectKind.TOPIC, name, tags)
    before, reporter = read_tables(ours), SilentReporter()
    for name, tags in list(source.items())[:done]:  # what an interrupted run had copied
        theirs.put(ObjectKind.TOPIC, name, tags)
    result = migrate(ours, theirs, reporter, merge=True, dry_run=False)
    assert read_tables(ours) == before
    assert result.source == content_of(before)
    for name in {*source, *target}:
        assert theirs.get(ObjectKind.TOPIC, name) in ({**target.get(name, {}), **source.get(name, {})}, None)
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
        {ObjectKind.TOPIC: {"a": {"k": "v"}}, ObjectKind.BROKER: {}},
        {ObjectKind.TOPIC: {}, ObjectKind.BROKER: {"a": {"k": "v"}}},
        {ObjectKind.TOPIC: {"a": {"k": "w"}}, ObjectKind.BROKER: {}},
        {ObjectKind.TOPIC: {"a": {"k": "v"}, "b": {"k": "v"}}, ObjectKind.BROKER: {}},
    ]
    assert len({content_of(table).digest for table in tables}) == 4
    empty = {ObjectKind.TOPIC: {"a": {"k": "v"}, "z": {}}, ObjectKind.BROKER: {}}
    assert content_of(empty) == content_of(tables[0])
