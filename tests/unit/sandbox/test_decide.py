import json
from dataclasses import replace

import pytest
import yaml

from kafkakit.config.security import Secret, problems_of
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.programs import ProcessRecord
from kafkakit.sandbox.decide import processes as jvm
from kafkakit.sandbox.decide.processes import (
    Passwords,
    broker_properties,
    client_security,
    controller_properties,
    environment,
    meta_properties,
    principal_of,
    profile_tree,
    profile_users,
    render_profile,
    render_properties,
    zookeeper_properties,
)
from kafkakit.sandbox.decide.spec import (
    ClientSecurity,
    MetadataMode,
    NodeRole,
    SandboxLayout,
    SandboxSpec,
    build_spec,
    decode_state,
    describe,
    directories_needed,
    encode_state,
    lay_out,
    new_state,
    parse_log_dirs,
    ports_needed,
)

PASSWORDS = Passwords(admin=Secret("a-secret"), guest=Secret("g-secret"), broker=Secret("b-secret"))


def make_spec(
    brokers: int = 4,
    racks: int = 3,
    log_dirs: tuple[int, ...] = (2,),
    mode: MetadataMode = MetadataMode.KRAFT,
    secure: ClientSecurity = ClientSecurity.NONE,
) -> SandboxSpec:
    return build_spec(name="box", brokers=brokers, racks=racks, log_dirs=log_dirs, kafka=None, mode=mode, secure=secure)


def make_layout(spec: SandboxSpec) -> SandboxLayout:
    ports = range(20_000, 20_000 + ports_needed(spec))
    return lay_out(spec, "/box", ports, [f"dir{n}" for n in range(directories_needed(spec))])


def test_brokers_are_numbered_and_spread_over_racks_in_turn() -> None:
    layout = make_layout(make_spec())
    assert [(node.id, node.rack) for node in layout.brokers] == [(1001, "a"), (1002, "b"), (1003, "c"), (1004, "a")]
    assert [len(node.log_dirs) for node in layout.brokers] == [2, 2, 2, 2]


@pytest.mark.parametrize("secure", list(ClientSecurity))
def test_no_two_nodes_share_a_port_a_folder_or_a_directory_id(secure: ClientSecurity) -> None:
    layout = make_layout(make_spec(secure=secure))
    ports = [port for node in layout.nodes for port in node.ports.values()]
    folders = [folder for node in layout.nodes for folder in (node.folder, *node.log_dirs)]
    ids = [directory for node in layout.nodes for directory in node.directory_ids]
    assert len(set(ports)) == len(ports) == ports_needed(make_spec(secure=secure))
    assert len(set(folders)) == len(folders)
    assert len(set(ids)) == len(ids) == 8


def test_brokers_have_unlike_numbers_of_log_dirs_in_turn() -> None:
    spec = make_spec(log_dirs=parse_log_dirs("1, 2,3"))
    assert directories_needed(spec) == 7
    layout = lay_out(spec, "/box", range(20000, 20020), [f"id-{n}" for n in range(7)])
    assert [len(node.log_dirs) for node in layout.brokers] == [1, 2, 3, 1]
    assert [i for node in layout.brokers for i in node.directory_ids] == [f"id-{n}" for n in range(7)]
    assert "1, 2, 3 log dirs in turn" in describe(spec)


@pytest.mark.parametrize("text", ["", "two", "1,", "-1", "1;2", "\u0661", "99999"])
def test_log_dirs_that_are_no_numbers_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--log-dirs"):
        parse_log_dirs(text)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"brokers": 0}, "--brokers 0"),
        ({"brokers": 51}, "--brokers 51"),
        ({"racks": 5}, "--racks 5"),
        ({"racks": 0}, "--racks 0"),
        ({"log_dirs": (21,)}, "--log-dirs 21"),
        ({"log_dirs": (1, 0)}, "--log-dirs 0"),
        ({"name": "../up"}, "cannot name a sandbox"),
        ({"name": ""}, "cannot name a sandbox"),
        ({"name": "x" * 41}, "cannot name a sandbox"),
        ({"kafka": "latest"}, "not a Kafka version"),
        ({"kafka": "4.4.0; rm"}, "not a Kafka version"),
        ({"kafka": "2.8.0"}, "too old"),
        ({"kafka": "3.6.2"}, "too old"),
        ({"kafka": "2.3.1", "mode": MetadataMode.ZOOKEEPER}, "too old"),
        ({"mode": MetadataMode.ZOOKEEPER, "kafka": "4.4.0"}, "no ZooKeeper mode"),
        ({"mode": MetadataMode.ZOOKEEPER, "secure": ClientSecurity.TLS}, "kraft only"),
    ],
)
def test_a_request_out_of_range_is_refused_with_its_reason(wrong: dict[str, object], said: str) -> None:
    request: dict[str, object] = {
        "name": "box",
        "brokers": 4,
        "racks": 3,
        "log_dirs": (1,),
        "kafka": None,
        "mode": MetadataMode.KRAFT,
        "secure": ClientSecurity.NONE,
    }
    with pytest.raises(UsageError) as caught:
        build_spec(**(request | wrong))  # type: ignore[arg-type]
    assert said in str(caught.value)


def test_each_mode_has_its_own_default_version() -> None:
    assert make_spec().kafka.startswith("4.")
    assert make_spec(mode=MetadataMode.ZOOKEEPER).kafka.startswith("3.9.")


def test_an_open_broker_has_no_authorizer_and_one_listener() -> None:
    spec = make_spec()
    layout = make_layout(spec)
    settings = broker_properties(spec, layout, layout.brokers[1], "/box", None)
    assert settings["listeners"] == f"CLIENT://{layout.brokers[1].address}"
    assert settings["broker.rack"] == "b"
    assert settings["log.dirs"] == "/box/broker-1002/data-0,/box/broker-1002/data-1"
    assert "authorizer.class.name" not in settings
    assert settings["offsets.topic.num.partitions"] == "1"
    more = broker_properties(replace(spec, offsets_partitions=4), layout, layout.brokers[1], "/box", None)
    assert more["offsets.topic.num.partitions"] == "4"


@pytest.mark.parametrize(
    ("secure", "protocol", "administrator"),
    [
        (ClientSecurity.TLS, "CLIENT:SSL", "User:CN=admin"),
        (ClientSecurity.SCRAM, "CLIENT:SASL_PLAINTEXT", "User:admin"),
        (ClientSecurity.SCRAM_TLS, "CLIENT:SASL_SSL", "User:admin"),
    ],
)
def test_a_secured_broker_keeps_clients_off_the_inner_listener(
    secure: ClientSecurity, protocol: str, administrator: str
) -> None:
    spec = make_spec(secure=secure)
    layout = make_layout(spec)
    settings = broker_properties(spec, layout, layout.brokers[0], "/box", PASSWORDS)
    assert protocol in settings["listener.security.protocol.map"].split(",")
    assert settings["inter.broker.listener.name"] == "INTERNAL"
    assert settings["super.users"].split(";") == ["User:broker", administrator]
    assert ("ssl.keystore.location" in settings) == secure.uses_tls
    controller = controller_properties(spec, layout, PASSWORDS)
    assert controller["super.users"] == settings["super.users"]


def test_zookeeper_brokers_name_their_zookeeper_and_no_controller() -> None:
    spec = make_spec(mode=MetadataMode.ZOOKEEPER)
    layout = make_layout(spec)
    settings = broker_properties(spec, layout, layout.brokers[0], "/box", None)
    assert settings["zookeeper.connect"] == f"127.0.0.1:{zookeeper_properties(layout)['clientPort']}"
    assert "process.roles" not in settings
    assert "CONTROLLER" not in settings["listener.security.protocol.map"]


def test_properties_double_their_backslashes() -> None:
    assert render_properties({"a": "b\\c", "d": ""}) == "a=b\\\\c\nd=\n"
    assert render_properties(meta_properties("cid", 7, "did")).splitlines() == [
        "version=1",
        "cluster.id=cid",
        "node.id=7",
        "directory.id=did",
    ]


def test_the_process_list_shows_the_marker_and_no_secret() -> None:
    layout = make_layout(make_spec(secure=ClientSecurity.SCRAM))
    node = layout.keeper
    assert jvm.command("/j/java", node) == (
        "/j/java",
        "-Dkafkakit.sandbox.node=/box/controller",
        "@/box/controller/java.args",
    )
    text = jvm.format_arguments(
        node, "cid", jvm.JavaLaunch(java="/j/java", class_path=("/a b.jar",)), {"admin": "a-secret"}
    )
    assert '"SCRAM-SHA-256=[name=admin,password=a-secret]"' in text.splitlines()
    assert '"/a b.jar"' in text.splitlines()


def test_java_argument_files_escape_quotes_and_backslashes() -> None:
    node = make_layout(make_spec()).brokers[0]
    assert (
        '"/a\\"b\\\\c.jar"'
        in jvm.node_arguments(node, jvm.JavaLaunch(java="/j", class_path=('/a"b\\c.jar',))).splitlines()
    )


def test_state_survives_a_round_trip() -> None:
    spec = make_spec(secure=ClientSecurity.TLS)
    state = new_state(spec, make_layout(spec), "cid", "/j/java")
    record = ProcessRecord(pid=7, started_ticks=8, marker="m")
    state = state.with_process(state.layout.brokers[2], record)
    again = decode_state(encode_state(state), "file")
    assert again == state
    found = again.broker(1003)
    assert found is not None
    assert found.process == record
    assert again.broker(1) is None, "the controller is no broker"
    assert again.layout.keeper.role is NodeRole.CONTROLLER


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"\xff",
        b'{"kafkakit":{"kind":"plan","schema":1}}',
        b'{"kafkakit":{"kind":"sandbox-state","schema":2}}',
        b"[" * 10_000,
    ],
)
def test_a_damaged_state_file_is_one_clear_error(data: bytes) -> None:
    with pytest.raises(InputError) as caught:
        decode_state(data, "state.json")
    assert "state.json" in str(caught.value)


@pytest.mark.parametrize("secure", list(ClientSecurity))
@pytest.mark.parametrize("mode", list(MetadataMode))
def test_the_profile_is_yaml_without_secrets(secure: ClientSecurity, mode: MetadataMode) -> None:
    if mode is MetadataMode.ZOOKEEPER:
        secure = ClientSecurity.NONE
    spec = make_spec(secure=secure, mode=mode)
    state = new_state(spec, make_layout(spec), "cid", "java")
    for user in profile_users(secure):
        tree = profile_tree(state, "/box", user)
        text = render_profile(tree, "box")
        assert yaml.safe_load(text) == json.loads(json.dumps(tree))
        assert "-secret" not in text
    assert ("zookeeper" in tree) == (mode is MetadataMode.ZOOKEEPER)
    assert ("ZOOKEEPER" in environment(state)) == (mode is MetadataMode.ZOOKEEPER)


@pytest.mark.parametrize("secure", list(ClientSecurity))
def test_the_clients_way_in_is_complete(secure: ClientSecurity) -> None:
    assert problems_of(client_security(secure, "/box", "admin", PASSWORDS.of("admin"))) == ()
    assert principal_of(ClientSecurity.TLS, "guest") == "User:CN=guest"
