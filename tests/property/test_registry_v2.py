"""Version 2: pages, watches, histories and writers under any order of events, and requests of any form."""

import asyncio
import json
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.adapters.host import SystemClock
from kafkakit.core.errors import InputError
from kafkakit.core.rpc import RpcAnswer, RpcCall
from kafkakit.registry.act.cluster import InventoryReader
from kafkakit.registry.act.tag_store import TagStore
from kafkakit.registry.act.v2 import Endpoints
from kafkakit.registry.decide.access import read_jwt_rules
from kafkakit.registry.decide.inventory import Inventory, InventoryChange, RegisteredBroker, RegisteredTopic
from kafkakit.registry.decide.tags import ANOTHER_PROGRAM, ObjectKind, encode_tags
from kafkakit.registry.decide.v2_calls import (
    CALL_V2_BY_NAME,
    CALLS_V2,
    BrokerPage,
    ListRequest,
    TopicPage,
    WatchRequest,
)
from kafkakit.registry.decide.v2_views import EventLog, ReadsV2, WatchedSelection
from kafkakit.wiring import registry_codec
from tests.fakes.control import FakeControlStore
from tests.rigs.registry import served_on, serving, small_cluster
from tests.rigs.registry_v2 import http_v2, one

NAMES = [f"t{number}" for number in range(4)]
Step = tuple[str, str, str]
STEPS = st.tuples(
    st.sampled_from(["tag topic", "put topic", "drop topic", "tag broker", "brokers", "other tags", "tag topic"]),
    st.sampled_from(NAMES),
    st.sampled_from(["", "a", "b"]),
)


def step(inventory: Inventory, what: Step) -> None:
    """One change of the inventory: by a write of ours, or by a reading."""
    action, name, value = what
    broker = str(int(name[1:]) + 1)
    tags = {"k": value} if value else {}
    if action == "put topic":
        inventory.note_topic(name, RegisteredTopic(name=name, replicas=((0, (1,)),) * (1 + len(value))), 0)
    elif action == "drop topic":
        inventory.note_topic(name, None, 0)
    elif action == "tag topic":
        inventory.note_tags(ObjectKind.TOPIC, name, tags, 0)
    elif action == "tag broker":
        inventory.note_tags(ObjectKind.BROKER, broker, tags, 0)
    else:
        change: dict[str, Any] = {"tags": {ObjectKind.TOPIC: {name: tags}}}
        if action == "brokers":
            ids = {int(broker), *([] if value else [20])}
            change = {"brokers": tuple(RegisteredBroker(id=number, rack=value) for number in sorted(ids))}
        inventory.apply(InventoryChange(began_at=datetime.now(UTC), began_s=1.0, **change))


def begun(most: int = 10_000) -> tuple[Inventory, ReadsV2]:
    inventory = Inventory()
    reads = ReadsV2(inventory, EventLog("r", most=most))
    inventory.followers.append(reads.events.add)
    topics = tuple(RegisteredTopic(name=name, replicas=((0, (1,)),)) for name in NAMES[::2])
    brokers = tuple(RegisteredBroker(id=number) for number in (1, 2, 10, 20))
    inventory.apply(InventoryChange(began_at=datetime.now(UTC), brokers=brokers, topics=topics))
    return inventory, reads


def page_names(page: Any) -> list[Any]:
    return [t.name for t in page.topics] if isinstance(page, TopicPage) else [b.id for b in page.brokers]


QUERIES = st.sampled_from(["", "k = a", "not exists(k)", "k in (a, b)"])


@given(
    st.sampled_from(["ListTopics", "ListBrokers"]), QUERIES, st.integers(1, 4), st.lists(st.lists(STEPS, max_size=3))
)
def test_pages_neither_lose_nor_repeat_what_stays(name: str, query: str, size: int, between: list[list[Step]]) -> None:
    inventory, reads = begun()
    whole = ListRequest(query=query, page_size=1000)
    always = set(page_names(reads.answer(name, whole)))
    ever, seen, token = set(always), list[Any](), ""
    for turn in range(100):
        page = reads.answer(name, ListRequest(query=query, page_size=size, page_token=token))
        assert isinstance(page, TopicPage | BrokerPage)
        assert len(page_names(page)) <= size
        seen += page_names(page)
        token = page.next_page_token
        if not token:
            break
        for each in between[turn] if turn < len(between) else ():
            step(inventory, each)
            now = set(page_names(reads.answer(name, whole)))
            always &= now
            ever |= now
    assert not token
    assert seen == sorted(set(seen)), "in order, each once"
    assert always <= set(seen) <= ever


@given(QUERIES, st.lists(STEPS, max_size=12), st.lists(STEPS, max_size=25), st.integers(1, 5), st.data())
def test_a_list_and_the_events_after_it_give_the_present_state(
    query: str, before: list[Step], steps: list[Step], batch: int, data: st.DataObject
) -> None:
    inventory, reads = begun()
    for each in before:
        step(inventory, each)
    state, token, left = dict[str, Any](), "", list(steps)
    watched = WatchedSelection(WatchRequest(kind="topic", query=query), inventory, reads.selection)
    place: int | None = None
    while True:  # a list in pages, with changes between them, and the watch from its first page on
        page = reads.answer("ListTopics", ListRequest(query=query, page_size=2, page_token=token))
        assert isinstance(page, TopicPage)
        place = reads.events.number_of(page.event_id) if place is None else place
        state |= {str(topic.name): topic for topic in page.topics}
        token = page.next_page_token
        if not token:
            break
        for each in left[:2]:
            step(inventory, each)
        del left[:2]
    while left or place < reads.events.last:
        for each in left[: data.draw(st.integers(0, 3))]:
            step(inventory, each)
            left.pop(0)
        found = reads.events.after(place, batch)
        if not found and left:
            step(inventory, left.pop(0))
        for event in watched.shown(found, reads.events.id_of):
            if event.type == "put":
                state[str(event.name)] = event.topic
            else:
                state.pop(str(event.name), None)
        place = found[-1][0] if found else place
    final = reads.answer("ListTopics", ListRequest(query=query, page_size=1000))
    assert isinstance(final, TopicPage)
    assert state == {str(topic.name): topic for topic in final.topics}


# -- history ----------------------------------------------------------------------------------------


class _EndedError(Exception):
    pass


class _Ending(FakeControlStore):
    left = 10_000

    def cas(self, path: str, value: bytes, expected: int | None) -> int:
        self.left -= 1
        if self.left == 0:
            raise _EndedError
        return super().cas(path, value, expected)


WRITERS = st.lists(st.tuples(st.sampled_from(["a", "b", "foreign"]), st.integers(0, 4), st.integers(1, 5)), max_size=12)


@given(WRITERS)
def test_entries_follow_one_another_whatever_ends_and_whatever_others_write(
    writes: list[tuple[str, int, int]],
) -> None:
    """Each entry begins with what the one before left, and the last one leaves what is there."""
    store = _Ending()
    tags = TagStore(store, "r")
    TagStore(store, "r", by="first").put(ObjectKind.TOPIC, "t", {"k": "first"})
    made = ["first"]
    for number, (by, _, ends_at) in enumerate(writes):
        present = tags.get(ObjectKind.TOPIC, "t")
        if by == "foreign":
            found = store.get("r/topic/t")
            assert found is not None
            store.cas("r/topic/t", encode_tags({"k": f"f{number}"}), found.version)
            made.append(ANOTHER_PROGRAM)
            tags.history.of(ObjectKind.TOPIC, "t")
            continue
        store.left = ends_at
        with suppress(_EndedError):
            tags.acting_for(by).put(ObjectKind.TOPIC, "t", {"k": str(number)})
        store.left = 10_000
        if tags.get(ObjectKind.TOPIC, "t") != present:
            made.append(by)
    entries = tags.history.of(ObjectKind.TOPIC, "t").made
    value: str | None = None
    for entry in entries:
        (change,) = entry.changes
        assert change.old == value
        value = change.new
    assert {"k": value} == tags.get(ObjectKind.TOPIC, "t")
    # Changes by others that follow one another unseen, or on one that ended before it was confirmed, are one.
    wanted = iter(made)
    assert all(any(by == each for each in wanted) for by in (entry.by for entry in entries))
    if "foreign" not in {by for by, _, _ in writes}:
        assert [entry.by for entry in entries] == made


def test_two_servers_on_one_store_lose_no_change(tmp_path: Path) -> None:
    """Each counts up under an etag; every count that was answered with success is in the tags and in the history."""
    store, cluster = FakeControlStore(), small_cluster()
    lock, original = threading.Lock(), store._replace

    def one_at_a_time(path: str, value: bytes, expected: int | None) -> int:
        with lock:
            return original(path, value, expected)

    store._replace = one_at_a_time  # type: ignore[method-assign]
    succeeded: list[int] = []
    with ExitStack() as stack:
        folders = [tmp_path / name for name in ("one", "two")]
        for folder in folders:
            folder.mkdir()
        servers = [stack.enter_context(serving(folder, cluster, store)) for folder in folders]

        http_v2(servers[0], "ChangeTags", one("topic", "test1", set={"n": "100"}))
        seen = http_v2(servers[0], "ListHistory", {}).body["entries"][0]["changes"]
        assert seen == [{"key": "n", "new": "100"}]

        def counted(server: Any) -> None:
            etag, value, done = "0" * 16, 0, 0
            while done < 8:
                change = one("topic", "test1", set={"n": str(value + 1)}, etag=etag)
                result = http_v2(server, "ChangeTags", change).body["results"][0]
                assert result["code"] in (0, 10, 14), result
                if result["code"] == 0:
                    succeeded.append(value + 1)
                    done += 1
                if result["code"] != 14:
                    etag, value = result["etag"], int(result["tags"]["n"])

        threads = [threading.Thread(target=counted, args=(server,)) for server in servers for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        entries = http_v2(servers[1], "ListHistory", {"kind": "topic", "name": "test1"}).body["entries"]
    assert sorted(succeeded) == list(range(101, 101 + 32))
    assert [entry["changes"][0]["new"] for entry in reversed(entries)] == [str(n) for n in range(100, 101 + 32)]


# -- input of any form ------------------------------------------------------------------------------

WORDS = st.text(max_size=12) | st.sampled_from(
    ["topic", "broker", "test1", "1001", "0", "-1", "a = b", "name like t*", "tags.x", "99999999999", "\ud800", "\x00"]
)
FIELDS = st.sampled_from(sorted({name for each in CALLS_V2 for name in each.request.__struct_fields__})) | WORDS
PATHS = st.sampled_from([each.http_path for each in CALLS_V2] + ["/healthz", "/v2/openapi.json"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=8,
)
CHANGES = st.fixed_dictionaries(
    {"kind": st.sampled_from(["topic", "broker"]), "name": WORDS},
    optional={
        "set": st.dictionaries(WORDS, WORDS, max_size=3), "delete": st.lists(WORDS, max_size=3), "etag": WORDS
    },
)  # fmt: skip
BODIES = (
    st.binary(max_size=60)
    | JSON.map(lambda value: json.dumps(value).encode())
    | st.lists(CHANGES, max_size=4).map(lambda value: json.dumps({"changes": value}).encode())
)
HEADERS = st.dictionaries(
    st.sampled_from(["if-match", "idempotency-key", "last-event-id", "grpc-timeout", "authorization"]), WORDS
)


@pytest.fixture(scope="module")
def answering() -> Iterator[tuple[Endpoints, list[str], Callable[[Any], Any]]]:
    loop = asyncio.new_event_loop()
    with tempfile.TemporaryDirectory() as folder:
        cluster, store = small_cluster(), FakeControlStore()
        served, inventory, lines = served_on(Path(folder), cluster, store)
        inventory.apply(InventoryReader(cluster, TagStore(store, "registry"), SystemClock()).read())
        yield served, lines, loop.run_until_complete
        loop.run_until_complete(served.first.drain(1))
    loop.close()


@settings(deadline=None)
@given(
    st.sampled_from(["GET", "POST", "PUT"]),
    PATHS,
    WORDS,
    st.lists(st.tuples(FIELDS, WORDS), max_size=4),
    BODIES,
    HEADERS,
)
def test_no_request_over_http_breaks_it(
    answering: Any,
    method: str,
    path: str,
    word: str,
    query: list[tuple[str, str]],
    body: bytes,
    headers: dict[str, str],
) -> None:
    from urllib.parse import quote, urlencode

    served, lines, run = answering
    for name in ("{name}", "{id}"):
        path = path.replace(name, quote(word, safe="", errors="replace"))
    text = urlencode(query, errors="replace")
    call = RpcCall(method=method, path=path, query=text, body=body, remote="127.0.0.1", headers=headers)
    answered = run(served.http(call))
    if isinstance(answered, RpcAnswer):
        assert answered.status in (200, 400, 401, 404, 405, 409, 501, 504), answered
        assert isinstance(json.loads(answered.body), dict)
    assert lines == []


@settings(deadline=None)
@given(st.sampled_from(sorted(CALL_V2_BY_NAME)), st.binary(max_size=80), HEADERS)
def test_no_message_over_grpc_breaks_it(answering: Any, name: str, body: bytes, headers: dict[str, str]) -> None:
    served, lines, run = answering
    call = RpcCall(method=name, body=body, remote="127.0.0.1", headers={k: v for k, v in headers.items() if v})
    answered = run(served.grpc_services[1].answer(call))
    if isinstance(answered, RpcAnswer):
        assert answered.code in (0, 3, 4, 5, 10, 16), answered
        if answered.code == 0:
            registry_codec("registry.v2").decode(CALL_V2_BY_NAME[name].reply.__name__, answered.body)
    assert lines == []


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_file_of_rules_breaks_the_reader(data: bytes) -> None:
    with suppress(InputError):
        read_jwt_rules(data, "rules")
