"""Version 2's calls, the same over HTTP and gRPC."""

import hashlib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import jsonschema
import pytest

from kafkakit.core.rpc import RpcCode, RpcError
from kafkakit.registry.decide.access import Access, Caller
from kafkakit.registry.decide.tags import CallRole, ObjectKind, etag_of
from kafkakit.registry.decide.v2_calls import (
    CALLS_V2,
    SERVICE_V2,
    TranslatedOffset,
    TranslatedOffsets,
    TranslateOffsetsRequest,
    openapi_document,
)
from kafkakit.wiring import registry_codec
from tests.fakes.admin import FakeCluster
from tests.fakes.control import FakeControlStore
from tests.rigs.registry import RATES, Registry, curl, grpc_call, serving, small_cluster
from tests.rigs.registry_v2 import BOTH, AnsweredV2, grpc_v2, http_v2, one

Call = Callable[..., AnsweredV2]
NONE = etag_of(None)


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with serving(tmp_path) as running:
        yield running


@pytest.fixture(params=BOTH)
def call(request: pytest.FixtureRequest) -> Call:
    return BOTH[request.param]


def names(answered: AnsweredV2) -> list[Any]:
    rows = answered.body.get("topics", answered.body.get("brokers"))
    return [row.get("name", row.get("id")) for row in rows]


def test_topics_and_brokers_by_query(registry: Registry, call: Call) -> None:
    call(registry, "ChangeTags", one("topic", "test2", set={"team": "a"}))
    assert names(call(registry, "ListTopics", {})) == ["test1", "test2"]
    assert names(call(registry, "ListTopics", {"query": "team = a"})) == ["test2"]
    assert names(call(registry, "ListTopics", {"query": "exists(config.retention.ms)"})) == ["test1"]
    assert names(call(registry, "ListTopics", {"query": "replication > 1 and not under_replicated = true"}))
    assert names(call(registry, "ListBrokers", {"query": "rack in (a, b) and id < 1004"})) == [1001, 1002]
    found = call(registry, "ListBrokers", {"query": "rack = a"})
    assert (found.body["total"], found.body["next_page_token"]) == (2, "")
    assert int(found.headers["age"]) >= 0


def test_a_topic_and_its_fields(registry: Registry, call: Call) -> None:
    call(registry, "ChangeTags", one("topic", "test1", set={"team": "a", "tier": "hot"}))
    whole = call(registry, "GetTopic", {"name": "test1"}).body
    assert whole["tags"] == {"team": "a", "tier": "hot"}
    assert whole["etag"] == etag_of(whole["tags"])
    assert whole["configs"] == {"retention.ms": "1000"}
    assert not whole.get("replicas")
    cut = call(registry, "GetTopic", {"name": "test1", "fields": ["tags.team", "replicas"]}).body
    assert cut["tags"] == {"team": "a"}
    assert cut["replicas"] == [{"partition": 0, "brokers": [1001, 1002]}, {"partition": 1, "brokers": [1002]}]
    assert not cut.get("name")
    assert call(registry, "GetTopic", {"name": "nope"}).code == RpcCode.NOT_FOUND
    assert call(registry, "GetBroker", {"id": 9}).code == RpcCode.NOT_FOUND
    assert call(registry, "GetBroker", {"id": 1001, "fields": ["host", "tags"]}).body["host"] == "127.0.0.1"


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("ListTopics", {"query": "team ="}, "query, column"),
    ("ListTopics", {"query": "partition = 1"}, "did you mean partitions"),
    ("ListTopics", {"query": "bytes > 1"}, "no topic here has bytes"),
    ("ListTopics", {"fields": ["nope"]}, "a topic has no field 'nope'"),
    ("ListTopics", {"fields": ["name.x"]}, "no field 'name.x'"),
    ("ListTopics", {"page_token": "AAAA"}, "page_token is not from"),
    ("ListHistory", {"kind": "topic"}, "kind and name belong together"),
    ("ListHistory", {"since": "yesterday"}, "is not a time such as"),
    ("ListHistory", {"since": "2026-01-01"}, "is not a time such as"),
    ("ChangeTags", {"changes": []}, "0 changes are given"),
    ("ChangeTags", {"changes": [{"kind": "topic", "name": "a"}] * 2}, "an object is named twice"),
    ("ChangeTags", {"changes": [{"kind": "rack", "name": "a"}]}, "rack"),
    ("Explain", {"kind": "topic", "name": "test1", "query": "("}, "query, column"),
]


@pytest.mark.parametrize(("name", "fields", "message"), REFUSED)
def test_what_is_refused(registry: Registry, call: Call, name: str, fields: dict[str, Any], message: str) -> None:
    answered = call(registry, name, fields)
    assert answered.code == RpcCode.INVALID_ARGUMENT
    assert message in answered.body["message"]


def test_a_token_of_another_query_is_refused(registry: Registry, call: Call) -> None:
    first = call(registry, "ListTopics", {"page_size": 1})
    assert names(first) == ["test1"]
    token = first.body["next_page_token"]
    assert names(call(registry, "ListTopics", {"page_size": 1, "page_token": token})) == ["test2"]
    assert call(registry, "ListTopics", {"page_token": token, "query": "name like t*"}).code == 3
    assert call(registry, "ListBrokers", {"page_token": token}).code == 3


# -- changes ----------------------------------------------------------------------------------------


def test_many_objects_in_one_request(registry: Registry, call: Call) -> None:
    registry.curl("PUT", "/v1/brokers/tag/1001?tag=old:1")
    changes = [
        {"kind": "topic", "name": "test1", "set": {"team": "a"}},
        {"kind": "broker", "name": "1001", "set": {"team": "a"}, "delete": ["old"]},
        {"kind": "topic", "name": "nope", "set": {"team": "a"}},
        {"kind": "broker", "name": "1002", "set": {"rack": "x"}},
        {"kind": "broker", "name": "1003", "delete": ["never"]},
        {"kind": "broker", "name": "1004"},
        {"kind": "broker", "name": "01004", "set": {"a": "b"}},
    ]
    results = call(registry, "ChangeTags", {"changes": changes}).body["results"]
    assert [result["code"] for result in results] == [0, 0, 5, 3, 0, 3, 5]
    assert [result["changed"] for result in results] == [True, True, False, False, False, False, False]
    assert results[1]["tags"] == {"team": "a"}
    assert results[1]["etag"] == etag_of({"team": "a"})
    assert "reserved" in results[3]["message"]
    assert registry.inventory.tags[ObjectKind.BROKER]["1001"] == {"team": "a"}
    assert names(call(registry, "ListBrokers", {"query": "team = a"})) == [1001]
    assert [line["outcome"] for line in registry.audited()[-2:]] == ["begun", "done"]


def test_ten_thousand_tags_are_refused_and_a_thousand_in_all_are_the_most(registry: Registry, call: Call) -> None:
    def code(count: int, first: int = 0) -> int:
        tags = {f"k{n}": "v" for n in range(first, first + count)}
        reply = call(registry, "ChangeTags", {"changes": [{"kind": "topic", "name": "test1", "set": tags}]})
        return int(reply.body["results"][0]["code"] if "results" in reply.body else reply.body["code"])

    assert (code(10_000), registry.inventory.tags[ObjectKind.TOPIC].get("test1")) == (3, None)
    assert (code(1_000), code(1, first=1_000)) == (0, 3)
    assert len(registry.inventory.tags[ObjectKind.TOPIC]["test1"]) == 1_000


def test_brokers_are_known_by_their_ids_alone(tmp_path: Path, call: Call) -> None:
    with serving(tmp_path, FakeCluster({0: "a", 7: "b"})) as registry:
        registry.store.cas("registry/broker/07", b'{"old":"1"}', None)
        registry.refresh()
        results = [
            call(registry, "ChangeTags", one("broker", name, set={"a": "1"})).body["results"][0]["code"]
            for name in ("0", "7", "07", "8")
        ]
        assert results == [0, 0, 5, 5]
        assert names(call(registry, "ListBrokers", {"query": "a = 1 and not exists(old)"})) == [0, 7]
        assert registry.curl("GET", "/v1/brokers/list?tag=old:1").body["ids"] == []


def test_nothing_is_written_by_a_dry_run(registry: Registry, call: Call) -> None:
    store = registry.store
    assert isinstance(store, FakeControlStore)
    before = store.writes
    answered = call(registry, "ChangeTags", {**one("topic", "test1", set={"team": "a"}), "dry_run": True}).body
    assert answered["dry_run"]
    assert answered["results"][0]["tags"] == {"team": "a"}
    assert answered["results"][0]["changed"]
    assert store.writes == before
    assert registry.audited() == []


def test_an_etag_keeps_the_change_of_another_caller(registry: Registry, call: Call) -> None:
    seen = call(registry, "GetTopic", {"name": "test1"}).body["etag"]
    assert seen == NONE
    made = call(registry, "ChangeTags", one("topic", "test1", set={"a": "1"}), {"If-Match": f'"{seen}"'})
    assert made.code == 0
    late = call(registry, "ChangeTags", one("topic", "test1", set={"a": "2"}), {"If-Match": f'"{seen}"'})
    assert late.code == RpcCode.ABORTED
    assert late.headers["etag"] == f'"{etag_of({"a": "1"})}"'
    inside = call(registry, "ChangeTags", one("topic", "test1", set={"a": "2"}, etag=seen))
    assert inside.body["results"][0]["code"] == RpcCode.ABORTED
    assert inside.body["results"][0]["etag"] == etag_of({"a": "1"})
    assert inside.body["results"][0]["tags"] == {"a": "1"}
    anyway = call(registry, "ChangeTags", one("topic", "test1", set={"a": "3"}), {"If-Match": "*"})
    assert anyway.body["results"][0]["tags"] == {"a": "3"}
    both = {"changes": [*one("topic", "test1", set={"a": "1"})["changes"], *one("broker", "1001")["changes"]]}
    assert call(registry, "ChangeTags", both, {"If-Match": '"x"'}).code == RpcCode.INVALID_ARGUMENT


def test_a_request_with_a_key_is_carried_out_once(registry: Registry, call: Call) -> None:
    key, request = {"Idempotency-Key": "k1"}, one("topic", "test1", set={"a": "1"})
    first = call(registry, "ChangeTags", request, key).body
    assert first["results"][0]["changed"]
    call(registry, "ChangeTags", one("topic", "test1", set={"a": "2"}))
    assert call(registry, "ChangeTags", request, key).body == first
    assert registry.inventory.tags[ObjectKind.TOPIC]["test1"] == {"a": "2"}
    other = call(registry, "ChangeTags", one("topic", "test1", set={"a": "3"}), key)
    assert other.code == RpcCode.INVALID_ARGUMENT
    assert "came with another request" in other.body["message"]


def test_what_failed_is_carried_out_when_it_comes_again(registry: Registry, call: Call) -> None:
    store, key = registry.store, {"Idempotency-Key": "k2"}
    assert isinstance(store, FakeControlStore)
    request = one("topic", "test1", set={"a": "1"})
    store.away = True
    assert call(registry, "ChangeTags", request, key).code == RpcCode.UNAVAILABLE
    store.away = False
    assert call(registry, "ChangeTags", request, key).body["results"][0]["code"] == 0


def test_another_server_and_one_that_starts_later_give_the_first_reply(tmp_path: Path, call: Call) -> None:
    cluster, store = small_cluster(), FakeControlStore()
    key, request = {"Idempotency-Key": "k3"}, one("topic", "test1", set={"a": "1"})
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    with serving(folders[0], cluster, store) as first, serving(folders[1], cluster, store) as second:
        reply = call(first, "ChangeTags", request, key).body
        assert reply["results"][0]["changed"]
        call(first, "ChangeTags", one("topic", "test1", set={"a": "2"}))
        assert call(second, "ChangeTags", request, key).body == reply
        assert call(second, "ChangeTags", one("topic", "test1", delete=["a"]), key).code == RpcCode.INVALID_ARGUMENT
        dry = {**one("topic", "test1", set={"a": "3"}), "dry_run": True}
        assert call(second, "ChangeTags", dry, key).body["results"][0]["changed"], "a dry run needs no key"
        assert len(second.audited()) == 0
    with serving(folders[2], cluster, store) as third:
        assert call(third, "ChangeTags", request, key).body == reply
        assert third.inventory.tags[ObjectKind.TOPIC]["test1"] == {"a": "2"}


def test_requests_that_come_together_with_one_key_are_carried_out_once(registry: Registry, call: Call) -> None:
    request = one("topic", "test1", set={"a": "1"})
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(call, registry, "ChangeTags", request, {"Idempotency-Key": "k4"}) for _ in range(8)]
        results = [each.result().body["results"][0] for each in asked]
    assert results == [results[0]] * 8
    assert results[0]["changed"]
    assert [line["outcome"] for line in registry.audited()] == ["begun", "done"]


def test_rights_are_those_of_the_names(tmp_path: Path, call: Call) -> None:
    caller = Caller(name="ci", roles=frozenset({CallRole.READ, CallRole.TAG}), topics=("test1",), brokers=())
    digest = hashlib.sha256(b"alice").hexdigest()
    with serving(tmp_path, access=Access(by_digest={digest: caller})) as registry:
        assert call(registry, "ListTopics", {}).code == RpcCode.UNAUTHENTICATED
        token = {"Authorization": "Bearer alice"}
        changes = [
            {"kind": kind, "name": name, "set": {"a": "b"}}
            for kind, name in (("topic", "test1"), ("topic", "test2"), ("broker", "1001"))
        ]
        results = call(registry, "ChangeTags", {"changes": changes}, token).body["results"]
        assert [result["code"] for result in results] == [0, 7, 7]
        assert call(registry, "ListHistory", {}, token).body["entries"][0]["by"] == "ci"


# -- history, explanations --------------------------------------------------------------------------


def test_the_history_of_one_object_and_of_all(registry: Registry, call: Call) -> None:
    call(registry, "ChangeTags", one("topic", "test1", set={"a": "1"}))
    registry.curl("PUT", "/v1/topics/tag/test1?tag=a:2")
    registry.curl("DELETE", "/v1/topics/tag/test1?tag=a")
    registry.curl("PUT", "/v1/brokers/tag/1001?tag=b:1")
    found = call(registry, "ListHistory", {"kind": "topic", "name": "test1"}).body["entries"]
    assert [entry["number"] for entry in found] == [3, 2, 1]
    assert [entry["changes"] for entry in found] == [
        [{"key": "a", "old": "2"}],
        [{"key": "a", "old": "1", "new": "2"}],
        [{"key": "a", "new": "1"}],
    ]
    assert {entry["by"] for entry in found} == {"127.0.0.1"}
    everything = call(registry, "ListHistory", {}).body["entries"]
    assert [(entry["kind"], entry["number"]) for entry in everything] == [
        ("broker", 1), ("topic", 3), ("topic", 2), ("topic", 1),
    ]  # fmt: skip
    paged, token = [], ""
    while True:
        page = call(registry, "ListHistory", {"page_size": 3, "page_token": token}).body
        paged += page["entries"]
        token = page["next_page_token"]
        if not token:
            break
    assert paged == everything
    assert call(registry, "ListHistory", {"since": everything[0]["at"]}).body["entries"][:1] == everything[:1]
    assert call(registry, "ListHistory", {"since": "2100-01-01T00:00:00Z"}).body["entries"] == []


def test_why_an_object_is_not_among_the_answers(registry: Registry, call: Call) -> None:
    fields = {"kind": "topic", "name": "test1", "query": "exists(team) and partitions = 2"}
    found = call(registry, "Explain", fields).body
    assert not found["matches"]
    assert found["reasons"] == ["exists(team): team is not set"]
    assert call(registry, "Explain", {**fields, "query": "partitions = 2"}).body["matches"]
    assert call(registry, "Explain", {**fields, "name": "nope"}).code == RpcCode.NOT_FOUND


# -- beside version 1 -------------------------------------------------------------------------------


def test_offsets_are_translated_with_their_intervals(tmp_path: Path, call: Call) -> None:
    at: Any = {"topic": "t", "partition": 0, "upstream_offset": 2**40, "local_offset": 7}
    known = TranslatedOffset(**at, local_end_offset=9, may_repeat=2, assumes_no_own_records=True)

    def translated(request: TranslateOffsetsRequest, deadline_s: float) -> TranslatedOffsets:
        assert 0 < deadline_s <= 3 * RATES.timeout_s  # as the server cuts what a client gives
        if request.alias != "west":
            raise RpcError(RpcCode.NOT_FOUND, "there is no such topic")
        return TranslatedOffsets(offsets=(known, TranslatedOffset(**at)) if request.group == "g/h" else ())

    with serving(tmp_path, translate_v2=translated) as registry:
        answered = call(registry, "TranslateOffsets", {"alias": "west", "group": "g/h"})
        assert answered.code == RpcCode.OK
        # JSON of gRPC has numbers of 64 bits as texts.
        rows = [{k: int(v) if str(v).isdecimal() else v for k, v in row.items()} for row in answered.body["offsets"]]
        assert [{name: row.get(name) for name in known.__struct_fields__} for row in rows] == [
            {**at, "local_end_offset": 9, "exact": False, "may_repeat": 2, "assumes_no_own_records": True},
            {**at, "local_end_offset": None, "exact": False, "may_repeat": None, "assumes_no_own_records": False},
        ]
        assert call(registry, "TranslateOffsets", {"alias": "east", "group": "g"}).code == RpcCode.NOT_FOUND


def test_kafka_kits_own_call_below_v2_stays(registry: Registry) -> None:
    answered = registry.curl("POST", "/v2/brokers/tag", "-d", '{"tags":["a:b"],"ids":[1001]}')
    assert (answered.status, answered.body) == (200, {})
    assert registry.inventory.tags[ObjectKind.BROKER]["1001"] == {"a": "b"}


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("PUT", "/v2/topics", 405, "GET"),
        ("GET", "/v2/tags", 405, "POST"),
        ("POST", "/v2/history", 405, "GET"),
        ("GET", "/v2/nope", 404, None),
        ("GET", "/v2/topics/a/b", 404, None),
        ("PUT", "/v1/topics", 501, None),
        ("GET", "/v2/brokers/tag", 400, None),
        ("GET", "/v2/topics?nope=1", 400, None),
        ("GET", "/v2/topics?page_size=-1", 400, None),
        ("GET", "/v2/topics?page_size=1&page_size=2", 400, None),
    ],
)
def test_paths_and_methods(registry: Registry, method: str, path: str, status: int, allow: str | None) -> None:
    answered = registry.curl(method, path)
    assert answered.status == status
    assert answered.headers.get("allow") == allow
    assert set(answered.body) == {"code", "message", "details"}


def test_health_over_both(registry: Registry, tmp_path: Path) -> None:
    assert registry.curl("GET", "/healthz").body == {"status": "SERVING"}
    assert health(registry, "") == 1
    assert health(registry, SERVICE_V2) == 1
    with pytest.raises(grpc.RpcError) as refused:
        health(registry, "nope")
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    with serving(tmp_path, max_age_s=-1) as stale:
        assert stale.curl("GET", "/healthz").status == 503
        assert health(stale, "") == 2
        assert http_v2(stale, "ListTopics", {}).code == RpcCode.UNAVAILABLE


def health(registry: Registry, service: str) -> int:
    codec = registry_codec("grpc.health.v1")
    with grpc.insecure_channel(registry.addresses["gRPC"]) as channel:
        stub = channel.unary_unary("/grpc.health.v1.Health/Check")
        body = stub(codec.encode("HealthCheckRequest", {"service": service}), timeout=120)
    return int(codec.decode("HealthCheckResponse", body)["status"])


def test_reflection_knows_every_service(registry: Registry) -> None:
    from google.protobuf.descriptor_pool import DescriptorPool
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

    with grpc.insecure_channel(registry.addresses["gRPC"]) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        assert {"registry.Registry", SERVICE_V2, "grpc.health.v1.Health"} <= set(database.get_services())
        methods = DescriptorPool(database).FindServiceByName(SERVICE_V2).methods_by_name
    assert set(methods) == {call.name for call in CALLS_V2}


def test_v1_is_not_changed_by_v2(registry: Registry) -> None:
    assert grpc_call(registry.addresses["gRPC"], "ListTopics", {})[0]["names"] == ("test1", "test2")


# -- the documents ----------------------------------------------------------------------------------


def test_messages_have_the_fields_of_the_protocol() -> None:
    codec = registry_codec("registry.v2")
    for each in CALLS_V2:
        for kind in (each.request, each.reply):
            fields = codec.message_class(kind.__name__).DESCRIPTOR.fields_by_name
            assert list(fields) == list(kind.__struct_fields__), kind.__name__


def test_the_openapi_document_is_sound(registry: Registry) -> None:
    document = registry.curl("GET", "/v2/openapi.json").body
    assert document == json.loads(json.dumps(openapi_document()))
    assert document["openapi"] == "3.1.0"
    operations = {
        (method.upper(), path): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    assert {(each.http_method, each.http_path) for each in CALLS_V2} <= set(operations)
    assert len({operation["operationId"] for operation in operations.values()}) == len(operations)
    for (_, path), operation in operations.items():
        in_path = {part[1:-1] for part in path.split("/") if part.startswith("{")}
        shown = [p["name"] for p in operation.get("parameters", ()) if p["in"] == "path"]
        assert set(shown) == in_path
        assert all(p["required"] for p in operation.get("parameters", ()) if p["in"] == "path")
        assert operation["responses"]
    schemas = document["components"]["schemas"]
    references = {value for key, value in walk(document) if key == "$ref"}
    assert references == {f"#/components/schemas/{name}" for name in schemas}
    for schema in schemas.values():
        jsonschema.Draft202012Validator.check_schema(schema)


def walk(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key, inner
            yield from walk(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from walk(inner)


def test_replies_are_as_the_openapi_document_has_them(registry: Registry) -> None:
    http_v2(registry, "ChangeTags", one("topic", "test1", set={"a": "1"}))
    document = openapi_document()
    asked: list[tuple[str, dict[str, Any]]] = [
        ("ListTopics", {}), ("GetTopic", {"name": "test1", "fields": ["replicas"]}), ("ListBrokers", {}),
        ("GetBroker", {"id": 1001}), ("ChangeTags", one("topic", "test1", set={"a": "2"})), ("ListHistory", {}),
        ("Explain", {"kind": "topic", "name": "test1", "query": "a = 1"}),
        ("TranslateOffsets", {"alias": "west", "group": "g"}),
    ]  # fmt: skip
    for each in CALLS_V2:
        for name, fields in asked:
            if name == each.name:
                schema = {"$ref": f"#/components/schemas/{each.reply.__name__}", "components": document["components"]}
                jsonschema.validate(http_v2(registry, name, fields).body, schema)
    assert {name for name, _ in asked} | {"Watch"} == {each.name for each in CALLS_V2}
    assert grpc_v2(registry, "GetTopic", {"name": "test1"}).body["tags"] == {"a": "2"}


def test_curl_needs_no_content_type(registry: Registry) -> None:
    answered = curl(
        registry.addresses["HTTP"], "POST", "/v2/tags", "-d", json.dumps(one("broker", "1001", set={"a": "b"}))
    )
    assert answered.body["results"][0]["changed"]
