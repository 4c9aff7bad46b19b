"""Watches: what they show, how they go on after a break, and how they end."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import grpc
import pytest

from kafkakit.core.rpc import RpcCode
from kafkakit.registry.act import v2 as watches
from kafkakit.registry.decide.inventory import InventoryChange
from kafkakit.registry.decide.tags import ANOTHER_PROGRAM, ObjectKind, encode_tags
from kafkakit.registry.decide.v2_calls import CALL_V2_BY_NAME, SERVICE_V2
from kafkakit.wiring import registry_codec
from tests.fakes.admin import FakeCluster
from tests.rigs.registry import Registry, serving
from tests.rigs.registry_v2 import SseClient, http_v2, one
from tests.rigs.waiting import until


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with serving(tmp_path, heartbeat_s=0.2) as running:
        yield running


def tag(registry: Registry, kind: str, name: str, **tags: str) -> None:
    assert http_v2(registry, "ChangeTags", one(kind, name, set=tags)).body["results"][0]["code"] == 0


def shown(events: Iterator[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    return list(islice((event for event in events if event["type"] not in ("start", "heartbeat")), count))


def test_changes_come_as_they_are_made(registry: Registry) -> None:
    client = SseClient(registry)
    events = iter(client)
    assert next(events)["type"] == "start"
    tag(registry, "topic", "test1", a="1")
    tag(registry, "broker", "1001", a="1")
    first, second = shown(events, 2)
    assert (first["type"], first["kind"], first["topic"]["tags"]) == ("put", "topic", {"a": "1"})
    assert (second["name"], second["broker"]["id"]) == ("1001", 1001)
    registry.curl("DELETE", "/v1/topics/test2")
    assert shown(events, 1)[0]["type"] == "delete"
    client.close()


def test_a_heartbeat_comes_where_nothing_changes(registry: Registry) -> None:
    client = SseClient(registry)
    assert [event["type"] for event in islice(client, 3)] == ["start", "heartbeat", "heartbeat"]
    assert client.response.getheader("content-type") == "text/event-stream"
    client.close()


def test_a_client_goes_on_where_it_was(registry: Registry) -> None:
    listed = http_v2(registry, "ListTopics", {}).body["event_id"]
    tag(registry, "topic", "test1", a="1")
    tag(registry, "topic", "test2", a="1")
    client = SseClient(registry, after=listed)
    seen = shown(iter(client), 2)
    client.close()
    assert [event["name"] for event in seen] == ["test1", "test2"]
    again = SseClient(registry, {"Last-Event-ID": seen[0]["event_id"]})
    assert [event["name"] for event in shown(iter(again), 1)] == ["test2"]
    again.close()


@pytest.mark.parametrize("after", ["nope", "0-0", "deadbeef-3", "-1", "x" * 200])
def test_a_place_of_another_server_ends_at_once(registry: Registry, after: str) -> None:
    (event,) = SseClient(registry, after=after)
    assert (event["type"], event["event_id"]) == ("end", "")
    assert "list again" in event["message"]


def test_a_client_that_is_too_far_behind_is_cut(tmp_path: Path) -> None:
    with serving(tmp_path, most_events=3) as registry:
        listed = http_v2(registry, "ListTopics", {}).body["event_id"]
        for number in range(5):
            tag(registry, "topic", "test1", a=str(number))
        events = list(SseClient(registry, after=listed))
        assert [event["type"] for event in events] == ["start", "end"]
        assert "too far behind" in events[1]["message"]


def test_a_client_that_does_not_read_holds_up_no_other(tmp_path: Path) -> None:
    """Its place falls out of the log while its connection is full; when it reads again it learns of that."""
    cluster = FakeCluster({1: "a"})
    for number in range(300):
        cluster.add_topic(f"t{number:03}", {0: (1,)}, configs={"x": "y" * 3000})
    with serving(tmp_path, cluster, most_events=400) as registry:
        slow = SseClient(registry)
        events = iter(slow)
        assert next(events)["type"] == "start"
        for number in range(40):
            tags = {f"t{i:03}": {"n": str(number)} for i in range(300)}
            now = InventoryChange(began_at=datetime.now(UTC), began_s=time.monotonic(), tags={ObjectKind.TOPIC: tags})
            registry.reader.receive(now)
            assert registry.server.is_alive()
        assert http_v2(registry, "GetTopic", {"name": "t000"}).body["tags"] == {"n": "39"}
        last = list(events)[-1]
        assert last["type"] == "end"
        assert "too far behind" in last["message"]


def test_a_watch_of_a_query_shows_what_leaves_it(registry: Registry) -> None:
    client = SseClient(registry, kind="topic", query="a = 1", fields="name")
    events = iter(client)
    next(events)
    tag(registry, "broker", "1001", a="1")
    tag(registry, "topic", "test2", b="1")
    tag(registry, "topic", "test2", b="2")
    tag(registry, "topic", "test1", a="1")
    tag(registry, "topic", "test1", a="2")
    found = shown(events, 3)
    assert [(event["type"], event["name"]) for event in found] == [
        ("delete", "test2"), ("put", "test1"), ("delete", "test1"),
    ]  # fmt: skip
    assert found[1]["topic"] == {"name": "test1"}
    for value, event_type in (("1", "put"), ("2", "delete")):
        tag(registry, "topic", "test1", a=value)
        assert shown(events, 1)[0]["type"] == event_type
    client.close()


def test_what_cannot_be_watched_is_refused(registry: Registry) -> None:
    for query in ("query=a%3D1", "kind=topic&query=(", "kind=topic&fields=nope", "kind=rack"):
        assert registry.curl("GET", f"/v2/watch?{query}").status == 400


def test_watches_are_counted(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watches, "MAX_OF_CALLER", 2)
    clients = [SseClient(registry) for _ in range(2)]
    assert [next(iter(client))["type"] for client in clients] == ["start", "start"]
    refused = registry.curl("GET", "/v2/watch")
    assert (refused.status, refused.body["message"]) == (429, "too many watches are open")
    clients[0].close()
    until(lambda: again if (again := SseClient(registry)).response.status != 429 else None).close()
    clients[1].close()


def test_the_end_of_the_server_ends_every_watch(tmp_path: Path) -> None:
    with serving(tmp_path) as registry:
        client = SseClient(registry)
        assert next(iter(client))["type"] == "start"
    (event,) = client
    assert event["type"] == "end"
    assert "the server stops" in event["message"]


def test_the_same_over_grpc(registry: Registry) -> None:
    codec, call = registry_codec("registry.v2"), CALL_V2_BY_NAME["Watch"]
    with grpc.insecure_channel(registry.addresses["gRPC"]) as channel:
        stub = channel.unary_stream(f"/{SERVICE_V2}/Watch")
        stream = stub(codec.encode(call.request.__name__, {"kind": "topic"}), timeout=120)
        events = (codec.decode("WatchEvent", body) for body in stream)
        assert next(events)["type"] == "start"
        tag(registry, "topic", "test1", a="1")
        found = next(event for event in events if event["type"] == "put")
        assert found["topic"]["tags"] == {"a": "1"}
        assert next(events)["type"] == "heartbeat"
        stream.cancel()
        refused = stub(codec.encode(call.request.__name__, {"query": "a = 1"}), timeout=120)
        with pytest.raises(grpc.RpcError) as error:
            next(refused)
        assert error.value.code().value[0] == RpcCode.INVALID_ARGUMENT
        ended = [codec.decode("WatchEvent", body) for body in stub(codec.encode("WatchRequest", {"after": "x-1"}))]
        assert [event["type"] for event in ended] == ["end"]


def test_health_is_watched_over_grpc(registry: Registry) -> None:
    codec = registry_codec("grpc.health.v1")
    with grpc.insecure_channel(registry.addresses["gRPC"]) as channel:
        stub = channel.unary_stream("/grpc.health.v1.Health/Watch")
        for service, status in (("", 1), ("nope", 3)):
            stream = stub(codec.encode("HealthCheckRequest", {"service": service}), timeout=120)
            assert codec.decode("HealthCheckResponse", next(stream)) == {"status": status}
            stream.cancel()


def test_a_change_by_another_program_is_shown_and_entered(registry: Registry) -> None:
    tag(registry, "topic", "test1", a="1")
    client = SseClient(registry)
    events = iter(client)
    next(events)
    found = registry.store.get("registry/topic/test1")
    assert found is not None
    registry.store.cas("registry/topic/test1", encode_tags({"a": "2"}), found.version)
    registry.store.cas("registry/topic/test2", encode_tags({"z": "1"}), None)
    registry.refresh()
    assert [event["name"] for event in shown(events, 2)] == ["test1", "test2"]
    client.close()
    entries = until(lambda: e if len(e := http_v2(registry, "ListHistory", {}).body["entries"]) == 3 else None)
    assert {(entry["by"], entry["name"]) for entry in entries} == {
        ("127.0.0.1", "test1"), (ANOTHER_PROGRAM, "test1"), (ANOTHER_PROGRAM, "test2"),
    }  # fmt: skip
