"""Rules of security at their boundaries; secrets that are in no finding; what counts as a secret."""

import pytest

from kafkakit.rules.cluster_facts import inter_broker_protocol, listeners_of
from kafkakit.rules.config_defs import MINORS, ValueType, config_table
from kafkakit.rules.effective import BrokerConfig, Declared, Source
from kafkakit.rules.values import holds_literal_secret, is_reference, is_secret_key, literal_jaas_options
from tests.rigs.rule_cases import SKIPPED, findings, verdict


def broker(config: str, roles: str = "[broker]") -> str:
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
        ("KKS801", broker(""), 1),
        ("KKS801", "env: staging\n" + broker(""), 0),
        ("KKS801", broker("listeners: 'PLAINTEXT://127.0.0.1:9092,SSL://:9093'"), 0),
        ("KKS801", broker("listeners: 'PLAINTEXT://[::1]:9092,SSL://:9093'"), 0),
        ("KKS801", broker(OWN_MAP), 1),
        ("KKS801", broker("listeners: 'CONTROLLER://:9093', controller.listener.names: CONTROLLER", "[controller]"), 1),
        ("KKS801", "brokers: [{id: 1}]", SKIPPED),
        ("KKS802", broker(""), 1),
        ("KKS802", broker(OWN_MAP + ", inter.broker.listener.name: PEERS"), 0),
        ("KKS802", broker(OWN_MAP + ", inter.broker.listener.name: CLIENTS"), 1),
        ("KKS803", broker(OWN_MAP + ", sasl.enabled.mechanisms: 'SCRAM-SHA-512,PLAIN'"), 1),
        ("KKS803", broker(OWN_MAP + ", sasl.enabled.mechanisms: SCRAM-SHA-512"), 0),
        (
            "KKS803",
            broker(
                OWN_MAP
                + ", sasl.enabled.mechanisms: PLAIN, listener.name.clients.sasl.enabled.mechanisms: SCRAM-SHA-512"
            ),
            0,
        ),
        ("KKS804", broker(SASL + "sasl.enabled.mechanisms: PLAIN"), 0),
        ("KKS804", broker(SASL + "sasl.enabled.mechanisms: GSSAPI"), 1),
        ("KKS804", broker("sasl.mechanism.inter.broker.protocol: PLAIN"), 0),
        ("KKS805", broker(""), 1),
        ("KKS805", "env: dev\n" + broker(""), 0),
        ("KKS806", broker(""), 0),
        ("KKS807", broker("ssl.endpoint.identification.algorithm: ''"), 1),
        ("KKS807", broker("listener.name.clients.ssl.endpoint.identification.algorithm: ''"), 1),
        ("KKS807", broker(""), 0),
        ("KKS808", broker("ssl.key.password: '${env:KEY}'"), 0),
        ("KKS808", broker("listener.name.clients.ssl.keystore.password: x"), 1),
        ("KKS808", broker("ssl.truststore.certificates: '-----BEGIN CERTIFICATE-----'"), 0),
        ("KKS808", broker(f"sasl.jaas.config: '{JAAS}'"), 1),
        ("KKS808", broker(f"listener.name.clients.plain.sasl.jaas.config: '{JAAS}'"), 1),
        ("KKS808", broker("sasl.jaas.config: 'x.PlainLoginModule required password=\"${env:PASSWORD}\";'"), 0),
        ("KKS808", "defaults: {ssl.key.password: x}\nbrokers: [{id: 1}]", 1),
        ("KKS809", broker("super.users: 'User:*'"), 1),
        ("KKS809", broker("super.users: 'User:ANONYMOUS2'"), 0),
        ("KKS810", broker("advertised.listeners: 'SSL://0.0.0.0:9093'"), 1),
        ("KKS810", broker("listeners: 'SSL://:9093'"), 0),
        (
            "KKS810",
            broker("listeners: 'SSL://:9093,CONTROLLER://0.0.0.0:9094', controller.listener.names: CONTROLLER"),
            0,
        ),
        ("KKS811", broker("ssl.enabled.protocols: TLSv1.2"), 0),
        ("KKS811", broker("ssl.enabled.protocols: TLSv1"), 1),
        ("KKS811", broker(""), 0),
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
    (found,) = findings("KKS808", broker(config))
    assert SECRET not in repr(found)
    assert found.setting is not None
    assert found.setting.observed == "[hidden]"


def test_the_options_of_jaas_that_hold_a_secret_are_named() -> None:
    (found,) = findings("KKS808", broker(f"sasl.jaas.config: '{JAAS}'"))
    assert found.message == "sasl.jaas.config holds a secret written out (password)"
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
        key: Declared(text, Source.STATIC)
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
