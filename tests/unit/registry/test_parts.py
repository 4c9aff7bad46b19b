"""The parts of the registry by themselves, and its protocol file."""

import hashlib
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from struct import pack

import pytest

from kafkakit.adapters.rpc.messages import DESCRIPTORS
from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.errors import InputError
from kafkakit.core.model import TopicPartition, decode_tags
from kafkakit.core.records import Record
from kafkakit.core.rpc import RpcCode, RpcError, is_loopback
from kafkakit.registry.commands.serve import ListenChoice
from kafkakit.registry.decide.access import BURST, Access, Admission, Caller, CallRates, read_access
from kafkakit.registry.decide.inventory import Inventory, InventoryChange, RegisteredBroker, RegisteredTopic
from kafkakit.registry.decide.offsets import checkpoint_topic, fold_checkpoints
from kafkakit.registry.decide.requests import (
    RPC_BY_NAME,
    RPCS,
    CreateRequest,
    TopicsReply,
    candidates,
    join_json,
    parse_timeout,
    place,
    read_creation,
    read_fields,
    refusal,
    route,
    to_json,
)
from kafkakit.registry.decide.tags import (
    CallRole,
    ObjectKind,
    encode_tags,
    keys_to_delete,
    merge_tags,
    parse_tags,
    tags_to_set,
)
from kafkakit.wiring import registry_codec

AT = datetime(2026, 1, 1, tzinfo=UTC)
FIELDS = {
    "BrokerRequest": {"tag": 1, "id": 2},
    "BrokerResponse": {"brokers": 5, "ids": 6},
    "UnmappedBrokersRequest": {"exclude": 1},
    "TagBrokersRequest": {"tags": 1, "ids": 2},
    "TagBrokersResponse": {},
    "Empty": {},
    "TagResponse": {"message": 1},
    "Broker": {
        "tags": 1, "id": 5, "host": 6, "port": 7, "rack": 8, "interbrokerprotocolversion": 9, "logmessageformat": 10,
    },
    "TopicRequest": {"tag": 1, "name": 2, "spanning": 3, "with_replicas": 4},
    "TopicResponse": {"topics": 5, "names": 6},
    "CreateTopicRequest": {"topic": 1, "target_broker_tags": 2, "target_broker_ids": 3},
    "Topic": {"tags": 1, "name": 5, "partitions": 6, "replication": 7, "configs": 8, "replicas": 9},
    "Replicas": {"ids": 2},
    "OffsetMapping": {"upstream_offset": 1, "local_offset": 2},
    "TranslateOffsetRequest": {"remote_cluster_alias": 1, "group_id": 2},
    "TranslateOffsetResponse": {"offsets": 1},
}  # fmt: skip


def test_the_messages_have_kafka_kits_names_and_numbers() -> None:
    pool = registry_codec().pool
    found = {name: pool.FindMessageTypeByName(f"registry.{name}").fields for name in FIELDS}
    assert {name: {f.name: f.number for f in fields} for name, fields in found.items()} == FIELDS
    service = pool.FindServiceByName("registry.Registry")
    declared = {m.name: (m.input_type.name, m.output_type.name) for m in service.methods}
    assert declared == {rpc.name: (rpc.message, rpc.reply) for rpc in RPCS}


def test_the_compiled_protocol_is_that_of_the_text(tmp_path: Path) -> None:
    made = tmp_path / "made"
    command = [
        "-m",
        "grpc_tools.protoc",
        "-I.",
        f"--descriptor_set_out={made}",
        "registry.proto",
        "registry_v2.proto",
        "health.proto",
    ]
    subprocess.run([sys.executable, *command], cwd=DESCRIPTORS.parent, check=True, timeout=280)
    assert made.read_bytes() == DESCRIPTORS.read_bytes(), "make protos"


def test_requests_have_the_fields_of_their_messages() -> None:
    for rpc in RPCS:
        assert set(rpc.request.__dataclass_fields__) == set(FIELDS[rpc.message])


# -- access -----------------------------------------------------------------------------------------


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


CALLERS = f"""
callers:
  - {{name: ci, sha256: {digest("ci-token")}, roles: [read, tag, delete], topics: ["ci-*"], brokers: []}}
  - {{name: root, sha256: {digest("root-token")}, roles: [read, tag, create, delete]}}
"""


def code_of(call: object) -> RpcCode:
    assert callable(call)
    with pytest.raises(RpcError) as caught:
        call()
    return caught.value.code


def test_a_token_has_the_roles_and_names_of_its_caller() -> None:
    access = Access(by_digest=read_access(CALLERS.encode(), "tokens"), is_open_to_reads_from_here=True)
    away = {"host": "evil.example", "origin": "http://evil.example"}
    ci = access.identify({"authorization": "Bearer ci-token", **away}, "10.0.0.1")
    assert ci.name == "ci"
    ci.require(CallRole.TAG, "topic", ["ci-a"])
    ci.require(CallRole.READ, "topic", [])
    assert code_of(lambda: ci.require(CallRole.TAG, "topic", ["ci-a", "other"])) is RpcCode.PERMISSION_DENIED
    assert code_of(lambda: ci.require(CallRole.TAG, "broker", ["1"])) is RpcCode.PERMISSION_DENIED
    assert code_of(lambda: ci.require(CallRole.CREATE, "topic", ["ci-a"])) is RpcCode.PERMISSION_DENIED
    access.identify({"authorization": "bearer root-token"}, "10.0.0.1").require(CallRole.CREATE, "topic", ["x"])
    for wrong in ("Bearer nope", "Bearer ", "Basic ci-token", "ci-token", "Bearer ci-tokén"):
        given = {"authorization": wrong}
        assert code_of(lambda given=given: access.identify(given, "127.0.0.1")) is RpcCode.UNAUTHENTICATED
    assert access.identify({}, "127.0.0.1").roles == {CallRole.READ}
    assert code_of(lambda: access.identify({}, "10.0.0.1")) is RpcCode.UNAUTHENTICATED


HERE, HOST = "http://127.0.0.1:8080", "127.0.0.1:8080"


@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        ({}, None),
        ({"host": HOST}, None),
        ({"host": "LocalHost:8080"}, None),
        ({"host": "localhost."}, None),
        ({"host": "[::1]:8080"}, None),
        ({"host": "Registry.internal:8080"}, None),
        ({"host": HOST, "origin": HERE, "sec-fetch-site": "same-origin"}, None),
        ({"host": HOST, "sec-fetch-site": "none"}, None),
        ({"host": HOST, "origin": "http://127.0.0.1:3000"}, RpcCode.UNAUTHENTICATED),
        ({"host": HOST, "origin": "https://example.org"}, RpcCode.UNAUTHENTICATED),
        ({"host": HOST, "origin": "null"}, RpcCode.UNAUTHENTICATED),
        ({"host": HOST, "origin": ""}, RpcCode.UNAUTHENTICATED),
        ({"origin": HERE}, RpcCode.UNAUTHENTICATED),
        ({"host": HOST, "origin": HERE, "sec-fetch-site": "cross-site"}, RpcCode.UNAUTHENTICATED),
        ({"host": HOST, "sec-fetch-site": "same-site"}, RpcCode.UNAUTHENTICATED),
        # A name that its owner lets lead to this address.
        ({"host": "evil.example:8080"}, RpcCode.PERMISSION_DENIED),
        ({"host": "evil.example", "origin": "http://evil.example"}, RpcCode.PERMISSION_DENIED),
        ({"host": "127.0.0.1.evil.example"}, RpcCode.PERMISSION_DENIED),
        ({"host": "localhost.evil.example"}, RpcCode.PERMISSION_DENIED),
        ({"host": "evil.example:1:8080"}, RpcCode.PERMISSION_DENIED),
    ],
)
def test_pages_of_other_servers_get_nothing_without_a_token(headers: dict[str, str], refused: RpcCode | None) -> None:
    access = Access(by_digest={}, anonymous=frozenset({CallRole.READ}), names=frozenset({"registry.internal"}))
    if refused is None:
        assert access.identify(headers, "127.0.0.1").roles == {CallRole.READ}
    else:
        assert code_of(lambda: access.identify(headers, "127.0.0.1")) is refused


def test_the_names_of_a_server_are_where_it_listens_and_what_is_given() -> None:
    given = ListenChoice(http_listen="localhost:80", grpc_listen="none", http_name=["Registry.Internal", "b"])
    assert given.access().names == frozenset({"localhost", "registry.internal", "b"})
    assert ListenChoice(tls_key_file=Path("key.pem")).access().names is None


def test_with_tls_any_name_will_do_as_the_certificate_has_it() -> None:
    access = Access(by_digest={}, anonymous=frozenset({CallRole.READ}), names=None)
    access.identify({"host": "registry.internal", "origin": "https://registry.internal"}, "10.0.0.1")
    assert code_of(lambda: access.identify({"host": "a", "origin": "https://b"}, "::1")) is RpcCode.UNAUTHENTICATED


@pytest.mark.parametrize(
    "text",
    [
        "",
        "callers: 1",
        "callers: [{name: a}]",
        f"callers: [{{name: a, sha256: {digest('a')}, roles: [write]}}]",
        f"callers: [{{name: a, sha256: {digest('a')}, roles: [read], more: 1}}]",
        "callers: [{name: a, sha256: abc, roles: [read]}]",
        f"callers: [{{name: a, sha256: {digest('a')}, roles: []}}, {{name: b, sha256: {digest('a')}, roles: []}}]",
        "\x00",
        "[" * 5000,
    ],
)
def test_an_unsound_file_of_tokens_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="tokens"):
        read_access(text.encode(), "tokens")


def test_addresses_of_this_host_are_known() -> None:
    here = ["127.0.0.1", "::1", "::ffff:127.0.0.1", "localhost"]
    assert [address for address in (*here, "10.0.0.1", "", "::") if is_loopback(address)] == here


# -- admission --------------------------------------------------------------------------------------


def test_callers_wait_for_a_token_or_are_refused() -> None:
    admission = Admission(CallRates(reads_per_s=2, writes_per_s=1, timeout_s=5))
    waits = [admission.take("a", 0.0, 5.0, is_read=True) for _ in range(BURST + 3)]
    assert waits == [0.0] * BURST + [0.5, 1.0, 1.5]
    with pytest.raises(RpcError, match="wait time exceeded") as caught:
        admission.take("a", 0.0, 1.0, is_read=True)
    assert caught.value.code is RpcCode.RESOURCE_EXHAUSTED
    assert caught.value.retry_after_s == pytest.approx(1.0)
    assert admission.take("a", 0.0, 5.0, is_read=True) == 2.0  # the refused call took nothing
    assert admission.take("b", 0.0, 0.0, is_read=True) == 0.0
    assert admission.take("a", 0.0, 0.0, is_read=False) == 0.0
    assert admission.take("a", 100.0, 0.0, is_read=True) == 0.0


def test_deadlines_are_the_usual_one_or_at_most_three_times_that() -> None:
    admission = Admission(CallRates(reads_per_s=2, writes_per_s=1, timeout_s=5))
    assert [admission.deadline_s(given) for given in (None, 1.0, 14.0, 60.0)] == [5, 1, 14, 15]
    assert [parse_timeout(text) for text in ("5S", "100m", "1M", "2H", "10u", "7n")] == pytest.approx(
        [5, 0.1, 60, 7200, 1e-5, 7e-9]
    )
    for wrong in ("", "5", "S", "-1S", "123456789S", "5s", "٥S"):
        assert code_of(lambda text=wrong: parse_timeout(text)) is RpcCode.INVALID_ARGUMENT


# -- routes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rpc", RPCS, ids=[rpc.name for rpc in RPCS])
def test_each_call_has_its_path(rpc: object) -> None:
    from kafkakit.registry.decide.requests import CallRoute

    assert isinstance(rpc, CallRoute)
    segments = tuple("x" if part[0] == "{" else part for part in rpc.segments)
    found, fields = route(rpc.http_method, segments)
    assert (found, set(fields.values()) <= {"x"}) == (rpc, True)


def test_names_of_both_styles_are_read() -> None:
    rpc = RPC_BY_NAME["GetTopics"]
    for name in ("with_replicas", "withReplicas"):
        assert read_fields(rpc, {}, [(name, "t"), ("tag", "a:b"), ("tag", "c:d"), ("no", "1")]) == {
            "with_replicas": True,
            "tag": ("a:b", "c:d"),
        }
    assert read_fields(RPC_BY_NAME["TagBroker"], {"id": "7"}, [("id", "8")]) == {"id": 7}


# -- tags -------------------------------------------------------------------------------------------


def test_tags_are_read_and_checked() -> None:
    assert parse_tags(["a:b", "c:", "a:d"]) == {"a": "d", "c": ""}
    assert keys_to_delete(["a", "b:c"]) == {"a", "b"}
    for wrong in (["a"], ["a:b:c"], [":b"], [""], ["a:b"] * 1001):
        assert code_of(lambda given=wrong: parse_tags(given)) is RpcCode.INVALID_ARGUMENT
    for wrong in ([], ["id:1"], ["a\n:b"], ["a:b\x07"], ["k" * 129 + ":v"], ["k:" + "v" * 1025], ["\u202e:x"],
                  ["tagMarkedForDeletionTime:1"]):  # fmt: skip
        assert code_of(lambda given=wrong: tags_to_set(ObjectKind.BROKER, given)) is RpcCode.INVALID_ARGUMENT
    assert tags_to_set(ObjectKind.TOPIC, ["id:1"]) == {"id": "1"}
    full = {f"k{n}": "v" for n in range(1000)}
    assert code_of(lambda: merge_tags(ObjectKind.TOPIC, "t", full, {"one": "more"})) is RpcCode.INVALID_ARGUMENT


@pytest.mark.parametrize("number", [101, 150, 1000, 1500])
def test_many_tags_of_kafka_kit_can_be_changed(number: int) -> None:
    full = {f"k{n}": "v" for n in range(number)}
    assert merge_tags(ObjectKind.TOPIC, "t", full, {"k7": "new"}) == {**full, "k7": "new"}
    if number < 1000:
        assert len(merge_tags(ObjectKind.TOPIC, "t", full, {"one": "more"})) == number + 1
    large = {f"k{n}": "v" * 1000 for n in range(62)}
    assert merge_tags(ObjectKind.BROKER, "1", large, {"k7": "short"})["k7"] == "short"
    assert code_of(lambda: merge_tags(ObjectKind.BROKER, "1", large, {"k7": "v" * 1001})) is RpcCode.INVALID_ARGUMENT


@pytest.mark.parametrize("data", [b"{}", b'{"a":"1","b":"\\u003cx\\u003e \\u0026"}', '{"ä":"ö"}'.encode()])
def test_kafka_kits_znodes_come_back_byte_for_byte(data: bytes) -> None:
    assert encode_tags(decode_tags(data, "znode")) == data


@pytest.mark.parametrize("data", [b"", b"[]", b'{"a":1}', b"{", b"\xff", b"[" * 100_000])
def test_what_holds_no_tags_is_named(data: bytes) -> None:
    with pytest.raises(InputError, match="znode"):
        decode_tags(data, "znode")


# -- creation ---------------------------------------------------------------------------------------


def inventory() -> Inventory:
    made = Inventory()
    brokers = tuple(RegisteredBroker(id=n, rack=rack) for n, rack in ((1, "a"), (2, "a"), (3, "b"), (4, "b"), (5, "c")))
    topics = (RegisteredTopic(name="old", replicas=((0, (1, 3)), (1, (1, 5)))),)
    tags = {"broker": {"1": {"pool": "x"}, "3": {"pool": "x"}, "5": {"pool": "x"}, "9": {"pool": "x"}}}
    made.apply(InventoryChange(began_at=AT, brokers=brokers, topics=topics, tags=tags))
    return made


def request(
    partitions: int = 4, replication: int = 2, tags: tuple[str, ...] = (), ids: tuple[int, ...] = ()
) -> CreateRequest:
    topic = {"name": "t", "partitions": partitions, "replication": replication, "configs": {}, "tags": {}}
    return CreateRequest(topic=topic, target_broker_tags=tags, target_broker_ids=ids)


def placed(asked: CreateRequest) -> dict[int, tuple[int, ...]]:
    known, creation = inventory(), read_creation(asked)
    brokers = [known.brokers[b] for b in candidates(creation, known)]
    return place(creation, brokers, known.topics.values())


def test_replicas_are_spread_over_brokers_and_then_over_distinct_racks() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
    lists = placed(request(partitions=3))
    assert all(len({racks[b] for b in row}) == 2 for row in lists.values())
    counts = {b: sum(b in row for row in lists.values()) for b in racks}
    assert counts == {1: 1, 2: 1, 3: 1, 4: 1, 5: 2}
    assert len({row[0] for row in lists.values()}) == 3
    assert {b for row in placed(request(tags=("pool:x",))).values() for b in row} == {1, 3, 5}
    assert {b for row in placed(request(ids=(2, 4))).values() for b in row} == {2, 4}


def test_too_few_racks_are_refused_where_targets_are_given_and_repeated_where_none_are() -> None:
    assert {len(set(row)) for row in placed(request(replication=5)).values()} == {5}
    assert code_of(lambda: placed(request(ids=(1, 2)))) is RpcCode.FAILED_PRECONDITION
    assert code_of(lambda: placed(request(replication=6))) is RpcCode.FAILED_PRECONDITION
    assert code_of(lambda: placed(request(tags=("pool:y",)))) is RpcCode.FAILED_PRECONDITION
    assert code_of(lambda: placed(request(tags=("pool:x",), ids=(1, 9)))) is RpcCode.FAILED_PRECONDITION


@pytest.mark.parametrize(
    "change",
    [
        {"partitions": 0}, {"partitions": 10_001}, {"replication": 0}, {"name": "a/b"}, {"name": ".."},
        {"name": "x" * 250}, {"tags": {"name": "x"}}, {"tags": {"a": "b:c"}}, {"configs": {"k": "v" * 32_768}},
    ],
)  # fmt: skip
def test_a_creation_is_checked_before_anything_is_made(change: dict[str, object]) -> None:
    asked = request()
    assert asked.topic is not None
    wrong = CreateRequest(topic={**asked.topic, **change})
    assert code_of(lambda: read_creation(wrong)) is RpcCode.INVALID_ARGUMENT


def test_what_kafka_refuses_has_its_code() -> None:
    found = [
        refusal(ItemError(name=name, retriable=retriable)).code
        for name, retriable in (
            ("TopicAlreadyExistsError", False), ("UnknownTopicOrPartitionError", True), ("PolicyViolationError", False),
            ("NotControllerError", True), ("SomethingElse", False),
        )
    ]  # fmt: skip
    assert found == [
        RpcCode.ALREADY_EXISTS, RpcCode.NOT_FOUND, RpcCode.FAILED_PRECONDITION, RpcCode.UNAVAILABLE, RpcCode.INTERNAL,
    ]  # fmt: skip


# -- checkpoints ------------------------------------------------------------------------------------


def record(key: bytes, value: bytes, offset: int = 0) -> Record:
    return Record(partition=TopicPartition("c", 0), offset=offset, value=value, key=key)


def text(words: str) -> bytes:
    return pack(">h", len(words.encode())) + words.encode()


GOOD = text("g") + text("t") + pack(">i", 3)
VALUE = pack(">hqqh", 0, 7, 5, 2) + b"mm"


def test_the_last_checkpoint_of_a_partition_counts() -> None:
    found: dict[str, tuple[int, int]] = {}
    fold_checkpoints([record(GOOD, pack(">hqqh", 0, 1, 1, 0)), record(GOOD, VALUE)], "g", found)
    assert found == {"t:3": (7, 5)}
    fold_checkpoints([record(text("other") + text("t") + pack(">i", 3), VALUE)], "g", found)
    assert found == {"t:3": (7, 5)}
    gone = Record(partition=TopicPartition("c", 0), offset=3, value=b"", key=GOOD, is_null=True)
    fold_checkpoints([gone], "g", found)
    assert found == {}


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (b"", VALUE, "damaged"),
        (GOOD[:-1], VALUE, "damaged"),
        (pack(">h", -1) + GOOD, VALUE, "damaged"),
        (text("") + text("t") + pack(">i", 3), VALUE, "empty name"),
        (text("g") + text("") + pack(">i", 3), VALUE, "empty name"),
        (GOOD, VALUE[:17], "damaged"),
        (GOOD, pack(">hqqh", 1, 7, 5, 0), "unknown header version"),
    ],
)
def test_a_damaged_checkpoint_is_named(key: bytes, value: bytes, words: str) -> None:
    with pytest.raises(RpcError, match=words):
        fold_checkpoints([record(key, value)], "g", {})


def test_the_alias_makes_the_topic() -> None:
    assert checkpoint_topic("") == "source.checkpoints.internal"
    assert checkpoint_topic("west") == "west.checkpoints.internal"
    for wrong in ("a/b", "x" * 240, "é", "a b"):
        assert code_of(lambda alias=wrong: checkpoint_topic(alias)) is RpcCode.INVALID_ARGUMENT


def test_parts_of_a_reply_are_joined() -> None:
    one, two = {"a": {"name": "a"}}, {"b": {"name": "}"}, "c": {"name": '},"names":[]}'}}
    parts = [to_json(TopicsReply(topics=topics)) for topics in (one, two)]
    assert join_json(parts) == to_json(TopicsReply(topics={**one, **two}))


def test_a_caller_is_named_in_its_refusal() -> None:
    with pytest.raises(RpcError, match="ci has no right to delete topic x"):
        Caller(name="ci", roles=frozenset({CallRole.DELETE}), topics=("y",)).require(CallRole.DELETE, "topic", ["x"])
