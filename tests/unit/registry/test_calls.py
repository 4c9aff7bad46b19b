"""Requests of kafka-kit's clients and the replies of its registry, over HTTP and over gRPC, on its own fake cluster."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kafkakit.core.rpc import RpcCode
from kafkakit.registry.decide.requests import RPC_BY_NAME, SERVICE
from kafkakit.wiring import registry_codec
from tests.rigs.registry import Registry, grpc_call, serving

ALL = [1001, 1002, 1003, 1004, 1005, 1007]
OK = {"message": "success"}
DONE: dict[str, Any] = {}


def broker(number: int, rack: str, tags: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "tags": tags or {},
        "id": number,
        "host": "127.0.0.1",
        "port": 9092,
        "rack": rack,
        "interbrokerprotocolversion": "",
        "logmessageformat": "",
    }


def topic(name: str, *, tags: dict[str, str] | None = None, replicas: Any = None, **more: Any) -> dict[str, Any]:
    configs = {"retention.ms": "1000"} if name == "test1" else {}
    shown = {"tags": tags or {}, "name": name, "partitions": 2, "replication": 2, "configs": configs}
    return {**shown, "replicas": replicas or {}, **more}


def ids(*found: int) -> dict[str, Any]:
    return {"brokers": {}, "ids": list(found)}


def names(*found: str) -> dict[str, Any]:
    return {"topics": {}, "names": list(found)}


def failed(code: RpcCode, message: str) -> dict[str, Any]:
    return {"code": int(code), "message": message, "details": []}


REPLICAS = {"0": {"ids": [1001, 1002]}, "1": {"ids": [1002]}}
INVALID, MISSING, REFUSED = RpcCode.INVALID_ARGUMENT, RpcCode.NOT_FOUND, RpcCode.FAILED_PRECONDITION
NO_TAGS = failed(INVALID, "must provide a non-nil or non-empty tags")
NEW = {"name": "new", "partitions": 2, "replication": 2}

# A call, its fields, its HTTP request (with the body, where there is one), the status, and the reply's JSON.
CALLS: list[tuple[str, dict[str, Any], str, int, dict[str, Any]]] = [
    ("ListBrokers", {}, "GET /v1/brokers/list", 200, ids(*ALL)),
    ("ListBrokers", {"tag": ["rack:a"]}, "GET /v1/brokers/list?tag=rack:a", 200, ids(1001, 1004)),
    ("ListBrokers", {"tag": ["rack:a", "id:1004"]}, "GET /v1/brokers/list?tag=rack:a&tag=id:1004", 200, ids(1004)),
    ("ListBrokers", {"tag": ["rack:"]}, "GET /v1/brokers/list?tag=rack:", 200, ids(1003, 1007)),
    ("ListBrokers", {"tag": ["pool:"]}, "GET /v1/brokers/list?tag=pool:", 200, ids(*ALL)),
    (
        "ListBrokers",
        {"tag": ["x:y", "bad"]},
        "GET /v1/brokers/list?tag=x:y&tag=bad",
        400,
        failed(INVALID, "invalid tag '[x:y bad]': must be formatted as key:value"),
    ),
    ("GetBrokers", {"id": 1001}, "GET /v1/brokers?id=1001", 200, {"brokers": {"1001": broker(1001, "a")}, "ids": []}),
    ("GetBrokers", {"id": 9}, "GET /v1/brokers?id=9", 200, ids()),
    (
        "GetBrokers",
        {"tag": ["rack:b"]},
        "GET /v1/brokers?tag=rack:b",
        200,
        {"brokers": {"1002": broker(1002, "b"), "1005": broker(1005, "b")}, "ids": []},
    ),
    ("UnmappedBrokers", {}, "GET /v1/brokers/unmapped", 200, ids(1004, 1005, 1007)),
    (
        "UnmappedBrokers",
        {"exclude": ["test2"]},
        "GET /v1/brokers/unmapped?exclude=test2",
        200,
        ids(1003, 1004, 1005, 1007),
    ),
    ("ListTopics", {}, "GET /v1/topics/list", 200, names("test1", "test2")),
    ("ListTopics", {"name": "test1"}, "GET /v1/topics/list?name=test1", 200, names("test1")),
    ("ListTopics", {"name": "test."}, "GET /v1/topics/list?name=test.", 200, names()),
    ("ListTopics", {"tag": ["partitions:2"]}, "GET /v1/topics/list?tag=partitions:2", 200, names("test1", "test2")),
    ("ListTopics", {"spanning": True}, "GET /v1/topics/list?spanning=true", 200, names()),
    (
        "GetTopics",
        {"name": "test1"},
        "GET /v1/topics?name=test1",
        200,
        {"topics": {"test1": topic("test1")}, "names": []},
    ),
    (
        "GetTopics",
        {"name": "test1", "with_replicas": True},
        "GET /v1/topics?name=test1&with_replicas=true",
        200,
        {"topics": {"test1": topic("test1", replicas=REPLICAS)}, "names": []},
    ),
    (
        "GetTopics",
        {"name": "test1", "with_replicas": True},
        "GET /v1/topics?name=test1&withReplicas=1&unknown=x",
        200,
        {"topics": {"test1": topic("test1", replicas=REPLICAS)}, "names": []},
    ),
    ("GetTopics", {"name": "nope"}, "GET /v1/topics?name=nope", 200, names()),
    ("ReassigningTopics", {}, "GET /v1/topics/reassigning", 200, names()),
    ("UnderReplicatedTopics", {}, "GET /v1/topics/underreplicated", 200, names()),
    ("TopicMappings", {"name": "test2"}, "GET /v1/mappings/topic/test2", 200, ids(1002, 1003)),
    ("TopicMappings", {"name": "t"}, "GET /v1/mappings/topic/t", 404, failed(MISSING, "topic does not exist")),
    ("BrokerMappings", {"id": 1002}, "GET /v1/mappings/broker/1002", 200, names("test1", "test2")),
    ("BrokerMappings", {"id": 1004}, "GET /v1/mappings/broker/1004", 200, names()),
    ("BrokerMappings", {"id": 77}, "GET /v1/mappings/broker/77", 400, failed(REFUSED, "broker does not exist")),
    (
        "BrokerMappings",
        {"id": 0},
        "GET /v1/mappings/broker/0",
        400,
        failed(INVALID, "broker Id field must be specified"),
    ),
    (
        "TranslateOffsets",
        {"remote_cluster_alias": "west", "group_id": "g"},
        "GET /v1/translate-offsets/west/g",
        200,
        {"offsets": {"t:0": {"upstreamOffset": "1099511627776", "localOffset": "7"}}},
    ),
    ("TagTopic", {"name": "test1", "tag": ["team:a", "k:v"]}, "PUT /v1/topics/tag/test1?tag=team:a&tag=k:v", 200, OK),
    (
        "GetTopics",
        {"tag": ["team:a"]},
        "GET /v1/topics?tag=team:a",
        200,
        {"topics": {"test1": topic("test1", tags={"k": "v", "team": "a"})}, "names": []},
    ),
    ("ListTopics", {"tag": ["team:"]}, "GET /v1/topics/list?tag=team:", 200, names("test2")),
    ("DeleteTopicTags", {"name": "test1", "tag": ["k"]}, "DELETE /v1/topics/tag/test1?tag=k", 200, OK),
    ("DeleteTopicTags", {"name": "test1", "tag": ["team:b"]}, "DELETE /v1/topics/tag/test1?tag=team:b", 200, OK),
    (
        "DeleteTopicTags",
        {"name": "test2", "tag": ["k"]},
        "DELETE /v1/topics/tag/test2?tag=k",
        404,
        failed(MISSING, "requested Kafka object does not exist"),
    ),
    ("TagTopic", {"name": "test1"}, "PUT /v1/topics/tag/test1", 400, NO_TAGS),
    (
        "TagTopic",
        {"name": "test1", "tag": ["name:x"]},
        "PUT /v1/topics/tag/test1?tag=name:x",
        400,
        failed(INVALID, "tag 'name' is a reserved tag"),
    ),
    (
        "TagTopic",
        {"name": "test.", "tag": ["a:b"]},
        "PUT /v1/topics/tag/test.?tag=a:b",
        404,
        failed(MISSING, "topic does not exist"),
    ),
    ("TagBroker", {"id": 1001, "tag": ["pool:x"]}, "PUT /v1/brokers/tag/1001?tag=pool:x", 200, OK),
    (
        "TagBrokers",
        {"tags": ["pool:x"], "ids": [1002, 1005]},
        'POST /v2/brokers/tag {"tags":["pool:x"],"ids":[1002,1005]}',
        200,
        DONE,
    ),
    ("ListBrokers", {"tag": ["pool:x"]}, "GET /v1/brokers/list?tag=pool:x", 200, ids(1001, 1002, 1005)),
    (
        "TagBrokers",
        {"tags": ["pool:x"]},
        'POST /v2/brokers/tag {"tags":["pool:x"]}',
        400,
        failed(INVALID, "broker Ids field must be specified"),
    ),
    ("DeleteBrokerTags", {"id": 1005, "tag": ["pool"]}, "DELETE /v1/brokers/tag/1005?tag=pool", 200, OK),
    (
        "DeleteBrokerTags",
        {"id": 9, "tag": ["pool"]},
        "DELETE /v1/brokers/tag/9?tag=pool",
        400,
        failed(REFUSED, "broker does not exist"),
    ),
    (
        "CreateTopic",
        {},
        "POST /v1/topics/create {}",
        400,
        failed(INVALID, "topic field missing in request body"),
    ),
    (
        "CreateTopic",
        {"topic": {"partitions": 1}},
        'POST /v1/topics/create {"topic":{"partitions":1}}',
        400,
        failed(INVALID, "topic Name field must be specified"),
    ),
    (
        "CreateTopic",
        {"topic": {**NEW, "name": "test1"}},
        'POST /v1/topics/create {"topic":{"name":"test1","partitions":2,"replication":2}}',
        409,
        failed(RpcCode.ALREADY_EXISTS, "topic already exists"),
    ),
    (
        "CreateTopic",
        {"topic": {**NEW, "replication": 3}, "target_broker_tags": ["pool:x"]},
        'POST /v1/topics/create {"topic":{"name":"new","partitions":2,"replication":3},'
        '"target_broker_tags":["pool:x"]}',
        400,
        failed(REFUSED, "insufficient number of brokers: 2 for 3 replicas"),
    ),
    (
        "CreateTopic",
        {"topic": NEW, "target_broker_tags": ["pool:x"], "target_broker_ids": [1001, 1005]},
        'POST /v1/topics/create {"topic":{"name":"new","partitions":2,"replication":2},"targetBrokerTags":["pool:x"],'
        '"targetBrokerIds":[1001,1005]}',
        400,
        failed(REFUSED, "invalid broker id: 1005"),
    ),
    ("DeleteTopic", {"name": "test"}, "DELETE /v1/topics/test", 404, failed(MISSING, "topic does not exist")),
]  # fmt: skip

# What only HTTP has.
HTTP: list[tuple[str, int, dict[str, Any]]] = [
    ("GET /v1", 404, failed(MISSING, "Not Found")),
    ("GET /v1/topics/", 404, failed(MISSING, "Not Found")),
    ("GET /v1/nothing", 404, failed(MISSING, "Not Found")),
    ("POST /v1/topics/test1 x=y", 501, failed(RpcCode.UNIMPLEMENTED, "Method Not Allowed")),
    ("POST /v1/brokers/list {}", 501, failed(RpcCode.UNIMPLEMENTED, "Method Not Allowed")),
    ("PATCH /v1/brokers", 501, failed(RpcCode.UNIMPLEMENTED, "Method Not Allowed")),
    ("POST /v1/topics/create {", 400, {}),
    ('POST /v1/topics/create {"topic":{"partitions":-1}}', 400, {}),
    ("GET /v1/mappings/broker/abc", 400, {}),
    ("GET /v1/mappings/broker/4294967296", 400, {}),
    ("GET /v1/topics?spanning=maybe", 400, {}),
    ("GET /v1/topics?name=a&name=b", 400, failed(INVALID, 'too many values for field "name"')),
    ("GET /v1/topics?name=%ff", 400, failed(INVALID, "the query cannot be read")),
]


def translated(request: Any, deadline_s: float) -> Any:
    from kafkakit.registry.decide.requests import OffsetsReply

    return OffsetsReply(offsets={"t:0": (2**40, 7)})


@pytest.fixture(scope="module")
def over_http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with serving(tmp_path_factory.mktemp("http"), translate=translated) as registry:
        yield registry


@pytest.fixture(scope="module")
def over_grpc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with serving(tmp_path_factory.mktemp("grpc"), translate=translated) as registry:
        yield registry


def ask(registry: Registry, line: str) -> Any:
    method, path, *body = line.split(" ", 2)
    return registry.curl(method, path, *(["-d", body[0]] if body else []))


# The calls are made one after the other on one service: later ones see what earlier ones wrote.
def test_calls_over_http(over_http: Registry) -> None:
    for _, _, line, status, expected in CALLS:
        answered = ask(over_http, line)
        assert (answered.status, answered.body) == (status, expected), line
        assert list(answered.body) == list(expected), line
        assert over_http.lines[2:] == [], line


def test_calls_over_grpc(over_grpc: Registry) -> None:
    for name, fields, line, status, expected in CALLS:
        assert answer_of_grpc(over_grpc, name, fields) == grpc_expected(name, status, expected), line


def answer_of_grpc(registry: Registry, name: str, fields: dict[str, Any]) -> Any:
    """The reply's fields, or the code and the text of a refusal."""
    import grpc

    try:
        reply, trailing = grpc_call(registry.addresses["gRPC"], name, fields)
    except grpc.RpcError as error:
        return error.code().value[0], error.details()
    assert trailing.keys() >= {"age", "kafkakit-as-of"}
    return reply


def grpc_expected(name: str, status: int, expected: dict[str, Any]) -> Any:
    """The same of a row of the table."""
    if status != 200:
        return expected["code"], expected["message"]
    return registry_codec().decode_json(RPC_BY_NAME[name].reply, json.dumps(expected).encode())


@pytest.mark.parametrize(("line", "status", "expected"), HTTP)
def test_what_http_alone_has(over_http: Registry, line: str, status: int, expected: dict[str, Any]) -> None:
    answered = ask(over_http, line)
    assert answered.status == status
    assert not expected or answered.body == expected
    assert set(answered.body) == {"code", "message", "details"}
    assert "test1" in ask(over_http, "GET /v1/topics/list").body["names"]


def test_every_call_is_in_the_table() -> None:
    assert {name for name, *_ in CALLS} == set(RPC_BY_NAME)


def test_a_topic_is_made_tagged_seen_at_once_and_deleted(over_http: Registry) -> None:
    body = {"topic": {"name": "made", "partitions": 4, "replication": 2, "tags": {"a": "b"}, "configs": {"x": "1"}}}
    assert over_http.curl("POST", "/v1/topics/create", "-d", json.dumps(body)).body == {}
    made = over_http.curl("GET", "/v1/topics?tag=a:b&with_replicas=true").body["topics"]["made"]
    assert (made["partitions"], made["replication"], made["configs"]) == (4, 2, {"x": "1"})
    racks = {1001: "a", 1002: "b", 1003: "3", 1004: "a", 1005: "b", 1007: "7"}
    lists = [row["ids"] for row in made["replicas"].values()]
    assert all(len({racks[broker] for broker in row}) == 2 for row in lists)
    over_http.refresh()
    assert over_http.curl("DELETE", "/v1/topics/made").body == {}
    assert over_http.curl("GET", "/v1/topics?name=made").body == names()
    # The tags stay for the cleanup, as kafka-kit has it.
    assert over_http.store.get("registry/topic/made") is not None


async def with_grpclib(address: str) -> Any:
    from grpclib.client import Channel, UnaryUnaryMethod
    from grpclib.exceptions import GRPCError

    host, _, port = address.rpartition(":")
    codec = registry_codec()
    asked, replied, ids_replied = map(codec.message_class, ("TopicRequest", "TopicResponse", "BrokerResponse"))
    channel = Channel(host, int(port))
    try:
        listed: Any = UnaryUnaryMethod(channel, f"/{SERVICE}/ListTopics", asked, replied)
        mapped: Any = UnaryUnaryMethod(channel, f"/{SERVICE}/TopicMappings", asked, ids_replied)
        found = list((await listed(asked())).names)
        try:
            await mapped(asked(name="nope"))
        except GRPCError as error:
            return found, error.status.value, error.message
    finally:
        channel.close()


def test_a_client_of_another_make_is_answered(over_grpc: Registry) -> None:
    import asyncio

    found, code, message = asyncio.run(with_grpclib(over_grpc.addresses["gRPC"]))
    assert (found, code, message) == (["test1", "test2"], 5, "topic does not exist")


def test_the_service_describes_itself(over_grpc: Registry) -> None:
    import grpc
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

    with grpc.insecure_channel(over_grpc.addresses["gRPC"]) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        assert SERVICE in database.get_services()
        assert "CreateTopic" in str(database.FindFileContainingSymbol(SERVICE))
