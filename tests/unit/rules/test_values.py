"""Values as Java parses them and as Kafka's validators take them.

Rules of security at their boundaries; secrets that are in no finding; what counts as a secret.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkakit.rules.cluster_facts import inter_broker_protocol, listeners_of
from kafkakit.rules.config_defs import MINORS, ConfigDef, KeyScope, ValueType, config_table
from kafkakit.rules.effective import BrokerConfig, DeclaredValue, ValueSource
from kafkakit.rules.values import (
    describe_accepted,
    duplicates,
    holds_literal_secret,
    is_reference,
    is_secret_key,
    is_throttled_replicas,
    literal_jaas_options,
    parse_value,
    problem_of,
)
from tests.rigs.rule_cases import SKIPPED, findings, verdict


def topic(key: str, minor: str = "4.3") -> ConfigDef:
    return config_table(minor).topic[key]


def broker(key: str, minor: str = "4.3") -> ConfigDef:
    return config_table(minor).broker[key]


@pytest.mark.parametrize(
    ("text", "number"),
    [("5", 5), ("+5", 5), ("-5", -5), (" 7 ", 7), ("\t7\n", 7), ("007", 7), ("１２", 12), ("2147483647", 2147483647)],
)
def test_whole_numbers(text: str, number: int) -> None:
    assert parse_value(ValueType.INT, text).value == number


@pytest.mark.parametrize(
    "text", ["", "7d", "1_000", "1e3", "0x10", "5.0", "--5", "+", "2147483648", "-2147483649", "\u00a07"]
)
def test_what_is_no_whole_number(text: str) -> None:
    assert parse_value(ValueType.INT, text).problem == "not a whole number of 32 bits"


def test_the_bounds_of_each_size() -> None:
    for kind, bits in ((ValueType.SHORT, 16), (ValueType.INT, 32), (ValueType.LONG, 64)):
        most = 2 ** (bits - 1) - 1
        assert parse_value(kind, str(most)).value == most
        assert parse_value(kind, str(most + 1)).problem
        assert parse_value(kind, str(-most - 1)).value == -most - 1
        assert parse_value(kind, str(-most - 2)).problem


@pytest.mark.parametrize(
    ("text", "number"),
    [("0.5", 0.5), ("1d", 1.0), ("1.5F", 1.5), (".5", 0.5), ("5.", 5.0), ("0x1p-2", 0.25), ("1e3", 1000)],
)
def test_doubles(text: str, number: float) -> None:
    assert parse_value(ValueType.DOUBLE, text).value == number


@pytest.mark.parametrize("text", ["", "inf", "nan", "0,5", "1_0.0", "x", "1dd", "0x1", "½"])
def test_what_is_no_double(text: str) -> None:
    assert parse_value(ValueType.DOUBLE, text).problem == "not a number"


def test_nan_is_in_every_range() -> None:
    assert problem_of(topic("min.cleanable.dirty.ratio"), "NaN") is None
    assert problem_of(topic("min.cleanable.dirty.ratio"), "-NaN") is None
    assert problem_of(topic("min.cleanable.dirty.ratio"), "Infinity") is not None


@pytest.mark.parametrize(("text", "value"), [("true", True), (" FALSE ", False), ("True", True)])
def test_booleans(text: str, value: bool) -> None:
    assert parse_value(ValueType.BOOLEAN, text).value is value


@pytest.mark.parametrize("text", ["yes", "1", "", "t rue"])
def test_what_is_no_boolean(text: str) -> None:
    assert parse_value(ValueType.BOOLEAN, text).problem == "neither true nor false"


@pytest.mark.parametrize(
    ("text", "items"), [("", ()), ("a", ("a",)), ("a , b", ("a", "b")), ("a,,b,", ("a", "", "b", "")), (" ", ())]
)
def test_lists(text: str, items: tuple[str, ...]) -> None:
    assert parse_value(ValueType.LIST, text).value == items


def test_items_that_stand_twice() -> None:
    assert duplicates(["a", "b", "a", "c", "b", "a"]) == ("a", "b")


@pytest.mark.parametrize("text", ["*", "0:1", "0:1,2:3", "", "0:1,", " 0:1 , 2:3", "*,", ",*"])
def test_throttled_replicas(text: str) -> None:
    assert is_throttled_replicas(text.split(","))


@pytest.mark.parametrize("text", ["0", "0:1,*", "0:-1", "a:b", "**", "0:1:2"])
def test_what_are_no_throttled_replicas(text: str) -> None:
    assert not is_throttled_replicas(text.split(","))


@pytest.mark.parametrize(
    ("key", "minor", "text", "is_refused"),
    [
        ("segment.bytes", "4.0", "14", False),
        ("segment.bytes", "4.0", "13", True),
        ("segment.bytes", "4.1", "1048575", True),
        ("segment.bytes", "4.1", "1048576", False),
        ("retention.ms", "4.3", "-1", False),
        ("retention.ms", "4.3", "-2", True),
        ("retention.bytes", "4.3", "-9", False),
        ("compression.gzip.level", "4.3", "-1", False),
        ("compression.gzip.level", "4.3", "0", True),
        ("compression.gzip.level", "4.3", "9", False),
        ("compression.gzip.level", "3.9", "10", True),
        ("cleanup.policy", "4.1", "", False),
        ("cleanup.policy", "4.2", "", False),
        ("cleanup.policy", "4.2", "delete,", True),
        ("cleanup.policy", "4.1", "delete,", True),
        ("cleanup.policy", "4.3", "Delete", True),
        ("cleanup.policy", "4.3", "compact , delete", False),
        ("compression.type", "4.3", "ZSTD", True),
        ("message.format.version", "3.9", "2.8", False),
        ("message.format.version", "3.9", "2.8-IV1", False),
        ("message.format.version", "3.9", "2.8.1", False),
        ("message.format.version", "3.9", "0.10.2", False),
        ("message.format.version", "3.9", "9.9", True),
    ],
)
def test_what_topics_accept(key: str, minor: str, text: str, is_refused: bool) -> None:
    assert (problem_of(topic(key, minor), text) is not None) is is_refused


@pytest.mark.parametrize(
    ("key", "minor", "text", "is_refused"),
    [
        ("group.consumer.migration.policy", "4.3", "Upgrade", False),
        ("group.consumer.migration.policy", "4.3", "sometimes", True),
        ("remote.log.manager.copier.thread.pool.size", "3.9", "-1", False),
        ("remote.log.manager.copier.thread.pool.size", "4.0", "-1", True),
        ("listeners", "4.2", "", True),
        ("listeners", "4.1", "", False),
        ("remote.log.storage.manager.class.name", "4.3", "", True),
        ("log.retention.ms", "4.3", "${file:/etc/kafka:retention}", False),
        ("log.retention.hours", "4.3", "{{ kafka_retention_hours }}", False),
        ("controller.quorum.voters", "4.3", "1@a:9093,2@b:9093", False),
        ("controller.quorum.voters", "4.3", "1@a", True),
        ("principal.builder.class", "4.3", "", True),
    ],
)
def test_what_brokers_accept(key: str, minor: str, text: str, is_refused: bool) -> None:
    assert (problem_of(broker(key, minor), text) is not None) is is_refused


@pytest.mark.parametrize("minor", MINORS)
def test_every_default_is_accepted(minor: str) -> None:
    table = config_table(minor)
    for definition in (*table.topic.values(), *table.broker.values()):
        if definition.default is not None:
            assert problem_of(definition, definition.default) is None, definition.name


def test_what_is_accepted_in_words() -> None:
    assert describe_accepted(topic("segment.bytes")) == "at least 1048576"
    assert describe_accepted(topic("compression.gzip.level")) == "1 to 9 or -1"
    assert describe_accepted(topic("cleanup.policy")) == "compact, delete"
    assert describe_accepted(topic("preallocate")) == ""


@given(st.text(), st.sampled_from(sorted(config_table("3.9").topic) + sorted(config_table("4.4").topic)))
def test_any_text_has_an_answer(text: str, key: str) -> None:
    for minor in ("3.9", "4.4"):
        definition = config_table(minor).find(KeyScope.TOPIC, key)
        if definition is not None:
            problem_of(definition, text)


@given(st.integers(-(2**70), 2**70))
def test_whole_numbers_within_bounds_and_range_are_accepted(number: int) -> None:
    definition = topic("retention.ms")
    assert (problem_of(definition, str(number)) is None) is (-1 <= number < 2**63)


def broker_security(config: str, roles: str = "[broker]") -> str:
    return f"brokers: [{{id: 1, roles: {roles}, config: {{{config}}}}}]\n"


OWN_MAP = (
    "listener.security.protocol.map: 'CLIENTS:SASL_PLAINTEXT,PEERS:SSL', listeners: 'CLIENTS://:9092,PEERS://:9093'"
)
SASL = "security.inter.broker.protocol: SASL_SSL, sasl.mechanism.inter.broker.protocol: PLAIN, "
SECRET = "hunter2-of-the-test"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="kafka" password="{SECRET}";'


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        ("KKS801", broker_security(""), 1),
        ("KKS801", "env: staging\n" + broker_security(""), 0),
        ("KKS801", broker_security("listeners: 'PLAINTEXT://127.0.0.1:9092,SSL://:9093'"), 0),
        ("KKS801", broker_security("listeners: 'PLAINTEXT://[::1]:9092,SSL://:9093'"), 0),
        ("KKS801", broker_security(OWN_MAP), 1),
        (
            "KKS801",
            broker_security("listeners: 'CONTROLLER://:9093', controller.listener.names: CONTROLLER", "[controller]"),
            1,
        ),
        ("KKS801", "brokers: [{id: 1}]", SKIPPED),
        ("KKS802", broker_security(""), 1),
        ("KKS802", broker_security(OWN_MAP + ", inter.broker.listener.name: PEERS"), 0),
        ("KKS802", broker_security(OWN_MAP + ", inter.broker.listener.name: CLIENTS"), 1),
        ("KKS803", broker_security(OWN_MAP + ", sasl.enabled.mechanisms: 'SCRAM-SHA-512,PLAIN'"), 1),
        ("KKS803", broker_security(OWN_MAP + ", sasl.enabled.mechanisms: SCRAM-SHA-512"), 0),
        (
            "KKS803",
            broker_security(
                OWN_MAP
                + ", sasl.enabled.mechanisms: PLAIN, listener.name.clients.sasl.enabled.mechanisms: SCRAM-SHA-512"
            ),
            0,
        ),
        ("KKS804", broker_security(SASL + "sasl.enabled.mechanisms: PLAIN"), 0),
        ("KKS804", broker_security(SASL + "sasl.enabled.mechanisms: GSSAPI"), 1),
        ("KKS804", broker_security("sasl.mechanism.inter.broker.protocol: PLAIN"), 0),
        ("KKS805", broker_security(""), 1),
        ("KKS805", "env: dev\n" + broker_security(""), 0),
        ("KKS806", broker_security(""), 0),
        ("KKS807", broker_security("ssl.endpoint.identification.algorithm: ''"), 1),
        ("KKS807", broker_security("listener.name.clients.ssl.endpoint.identification.algorithm: ''"), 1),
        ("KKS807", broker_security(""), 0),
        ("KKS808", broker_security("ssl.key.password: '${env:KEY}'"), 0),
        ("KKS808", broker_security("listener.name.clients.ssl.keystore.password: x"), 1),
        ("KKS808", broker_security("ssl.truststore.certificates: '-----BEGIN CERTIFICATE-----'"), 0),
        ("KKS808", broker_security(f"sasl.jaas.config: '{JAAS}'"), 1),
        ("KKS808", broker_security(f"listener.name.clients.plain.sasl.jaas.config: '{JAAS}'"), 1),
        ("KKS808", broker_security("sasl.jaas.config: 'x.PlainLoginModule required password=\"${env:PASSWORD}\";'"), 0),
        ("KKS808", "defaults: {ssl.key.password: x}\nbrokers: [{id: 1}]", 1),
        ("KKS809", broker_security("super.users: 'User:*'"), 1),
        ("KKS809", broker_security("super.users: 'User:ANONYMOUS2'"), 0),
        ("KKS810", broker_security("advertised.listeners: 'SSL://0.0.0.0:9093'"), 1),
        ("KKS810", broker_security("listeners: 'SSL://:9093'"), 0),
        ("KKB515", broker_security("listeners: 'SSL://:9092,B://:9092,C://:9092'"), 1),
        ("KKB515", broker_security("listeners: 'SSL://127.0.0.1:9092,B://127.0.0.2:9092'"), 1),
        ("KKB515", broker_security("listeners: 'SSL://127.0.0.1:9092,B://[::1]:9092'"), 0),
        ("KKB515", broker_security("listeners: 'SSL://127.0.0.1:9092,B://[::1]:9092,C://:9092'"), 1),
        ("KKB515", broker_security("listeners: 'SSL://:0,B://:0'"), 0),
        ("KKB515", broker_security("listeners: 'SSL://:9092,ssl://:9093'"), 1),
        ("KKB515", broker_security("listeners: 'SSL://:9092', advertised.listeners: 'SSL://a:9092,SSL://b:9092'"), 1),
        (
            "KKB515",
            broker_security("listeners: 'SSL://:1,B://:2', advertised.listeners: 'SSL://a:9092,B://a:9092'"),
            0,
        ),
        ("KKB515", broker_security("listeners: 'SSL://:9092', advertised.listeners: 'SSL://a'"), 1),
        (
            "KKS810",
            broker_security(
                "listeners: 'SSL://:9093,CONTROLLER://0.0.0.0:9094', controller.listener.names: CONTROLLER"
            ),
            0,
        ),
        ("KKS811", broker_security("ssl.enabled.protocols: TLSv1.2"), 0),
        ("KKS811", broker_security("ssl.enabled.protocols: TLSv1"), 1),
        ("KKS811", broker_security(""), 0),
    ],
)
def test_boundaries(code: str, text: str, expected: int | str) -> None:
    assert verdict(code, text) == expected


@pytest.mark.parametrize(
    "config",
    [
        f"ssl.keystore.password: {SECRET}",
        f"listener.name.clients.ssl.key.password: {SECRET}",
        f"sasl.jaas.config: '{JAAS}'",
        f"my.own.secret: {SECRET}",
    ],
)
def test_a_secret_is_in_no_part_of_a_finding(config: str) -> None:
    (found,) = findings("KKS808", broker_security(config))
    assert SECRET not in repr(found)
    assert found.setting is not None
    assert found.setting.observed == "[hidden]"


def test_the_options_of_jaas_that_hold_a_secret_are_named() -> None:
    (found,) = findings("KKS808", broker_security(f"sasl.jaas.config: '{JAAS}'"))
    assert found.message == "sasl.jaas.config holds a secret in plain text (password)"
    assert literal_jaas_options('x required user_admin="a" keyTab="/k" clientSecret=b password="${env:P}";') == (
        "user_admin",
        "clientSecret",
    )


@pytest.mark.parametrize("minor", MINORS)
def test_passwords_of_kafka_are_known_by_name(minor: str) -> None:
    # Certificates are of the same type, but public.
    for name, definition in config_table(minor).broker.items():
        if definition.type is ValueType.PASSWORD:
            assert is_secret_key(name) or "certificate" in name, name
        else:
            assert not is_secret_key(name), name


@pytest.mark.parametrize(
    ("key", "is_secret"),
    [
        ("database.password", True),
        ("sasl_plain_password", True),
        ("producer.override.sasl.jaas.config", True),
        ("value.converter.basic.auth.user.info", True),
        ("aws.secret.access.key", True),
        ("message.key.columns", False),
        ("sasl.oauthbearer.token.endpoint.url", False),
        ("delegation.token.max.lifetime.ms", False),
        ("key.converter", False),
    ],
)
def test_secrets_by_name(key: str, is_secret: bool) -> None:
    assert is_secret_key(key) is is_secret


@pytest.mark.parametrize(
    ("value", "is_named"),
    [
        ("${file:/run/secrets/x.properties:password}", True),
        (" ${env:PASSWORD} ", True),
        ("${PASSWORD}", True),
        ("{{ vault.password }}", True),
        ("$KAFKA_PASSWORD", True),
        ("ENC[k8s_secret@ns/name/key]", True),
        ("a${env:PASSWORD}", False),
        ("$ecret", False),
        ("hunter2", False),
    ],
)
def test_references_to_secrets(value: str, is_named: bool) -> None:
    assert is_reference(value) is is_named
    assert holds_literal_secret("ssl.key.password", value) is not is_named


def test_listeners() -> None:
    static = {
        key: DeclaredValue(text, ValueSource.STATIC)
        for key, text in {
            "listeners": "Clients://[::1]:9092, PEERS://:9093,nonsense,OTHER://h:1",
            "listener.security.protocol.map": "CLIENTS:SASL_SSL,PEERS:ssl",
            "inter.broker.listener.name": "peers",
        }.items()
    }
    config = BrokerConfig(config_table("4.3"), static)
    found = [(x.name, x.host, x.port, x.protocol, x.is_loopback) for x in listeners_of(config)]
    assert found == [
        ("Clients", "::1", "9092", "SASL_SSL", True),
        ("PEERS", "", "9093", "SSL", False),
        ("OTHER", "h", "1", "", False),
    ]
    assert inter_broker_protocol(config) == "SSL"
