"""Configuration files, properties files and merging, as pure functions."""

import pytest

from kafkakit.config.client_properties import parse_properties, translate_properties
from kafkakit.config.keys import (
    KEY_BY_NAME,
    KEYS,
    Layer,
    Rank,
    SourcedValue,
    defaults,
    is_profile_name,
    merge,
    nearest_name,
    parse_overrides,
)
from kafkakit.config.security import Secret
from kafkakit.config.yaml_text import parse_config, parse_profile
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.quantities import format_duration, parse_duration

PROD = b"""\
profile: prod
profiles:
  prod:
    bootstrap_server: [a:1, b:2]
    request_timeout: 5s
    security:
      protocol: SASL_SSL
      tls: {ca_file: ca.pem}
      sasl: {mechanism: PLAIN, username: "admin", password_file: pw}
"""


def entry(value: str | Secret, rank: Rank, origin: str = "") -> SourcedValue:
    return SourcedValue(value=value, origin=origin or rank.name.lower(), rank=rank)


def layer(rank: Rank, **values: str) -> Layer:
    return Layer(rank=rank, entries={name.replace("__", "."): entry(value, rank) for name, value in values.items()})


def translated(text: str) -> dict[str, str]:
    values = translate_properties(parse_properties(text.encode(), "client.properties"), "client.properties").values
    return {name: value.reveal() if isinstance(value, Secret) else value for name, (value, _) in values.items()}


@pytest.mark.parametrize(
    ("value", "expected"), [("https", "true"), (" HTTPS ", "true"), ("", "false"), ("none", "false")]
)
def test_the_check_of_the_hostname_is_read_from_kafkas_word(value: str, expected: str) -> None:
    name, key = "ssl.endpoint.identification.algorithm", "security.tls.check_hostname"
    assert translated(f"{name}={value}\n") == {key: expected}
    assert parse_overrides([f"{name}={value}"]) == ((key, expected),)


def test_a_misspelt_word_does_not_turn_the_check_of_the_hostname_off() -> None:
    name = "ssl.endpoint.identification.algorithm"
    with pytest.raises(UsageError, match=r"client\.properties:1: .* must be https or empty, found 'htps'"):
        translated(f"{name}=htps\n")
    with pytest.raises(UsageError, match="must be https or empty"):
        parse_overrides([f"{name}=htps"])


def test_a_config_file_is_flattened_with_lines() -> None:
    parsed = parse_config(PROD, "config.yaml")
    assert parsed.default_profile is not None
    assert parsed.default_profile.value == "prod"
    values = {name: (located.value, located.line) for name, located in parsed.profiles["prod"].items()}
    assert values == {
        "bootstrap_server": ("a:1,b:2", 4),
        "request_timeout": ("5s", 5),
        "security.protocol": ("SASL_SSL", 7),
        "security.tls.ca_file": ("ca.pem", 8),
        "security.sasl.mechanism": ("PLAIN", 9),
        "security.sasl.username": ("admin", 9),
        "security.sasl.password_file": ("pw", 9),
    }
    assert parsed.warnings == ()


def test_scalars_stay_text() -> None:
    parsed = parse_profile(b"cluster_id: 0123\nbootstrap_server: no\n", "p.yaml", "p")
    assert [located.value for located in parsed.profiles["p"].values()] == ["0123", "no"]


@pytest.mark.parametrize("data", [b"", b"# nothing\n", b"profiles:\n", b"\xef\xbb\xbfprofiles: {}\n"])
def test_a_file_may_be_empty(data: bytes) -> None:
    assert parse_config(data, "config.yaml").profiles == {}


@pytest.mark.parametrize(
    ("data", "line", "wrong", "right"),
    [
        (b"profils: {}\n", 1, "profils", "profiles"),
        (b"profiles:\n  p:\n    bootstrap_servre: a\n", 3, "bootstrap_servre", "bootstrap_server"),
        (b"profiles:\n  p:\n    secruity: {protocol: SSL}\n", 3, "secruity", "security"),
        (b"profiles: {p: {security: {tls: {cafile: x}}}}\n", 1, "security.tls.cafile", "security.tls.ca_file"),
    ],
)
def test_an_unknown_key_is_told_with_the_nearest(data: bytes, line: int, wrong: str, right: str) -> None:
    expected = f"config.yaml:{line}: unknown key {wrong!r}; did you mean {right}?"
    assert parse_config(data, "config.yaml").warnings == (expected,)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\xff\xfe", "not valid UTF-8 text (byte 0)"),
        (b"a: [", "not valid YAML"),
        (b"a: b: c", "not valid YAML"),
        (b"\x00", "not valid YAML"),
        (b"- a\n", "must hold a mapping (key: value), found a list"),
        (b"text", "must hold a mapping (key: value), found a text"),
        (b"profiles: [a]", "profiles must be a mapping"),
        (b"profiles: {p: [a]}", "a profile must be a mapping"),
        (b"profiles: {p: {bootstrap_server: {a: b}}}", "bootstrap_server must be a text, found a mapping"),
        (b"profiles: {p: {cluster_id: [a]}}", "cluster_id must be a text, found a list"),
        (b"profiles: {p: {security: SSL}}", "security must be a mapping"),
        (b"profiles: {p: {}, p: {}}", "the key 'p' is given twice"),
        (b"profiles: {p: {cluster_id: a, cluster_id: b}}", "the key 'cluster_id' is given twice"),
        (b"profiles: {'../p': {}}", "cannot name a profile"),
        (b"? [a]\n: b\n", "a key must be a text, found a list"),
        (b"a: &x 1\nb: *x\n", "anchors and aliases"),
        (b"profiles: {p: {security: {sasl: {password: hunter2}}}}", "security.sasl.password holds a secret"),
        (b"[" * 100_000, "nested more than 16 levels deep"),
        (b"{a: " * 100_000, "nested more than 16 levels deep"),
        (b"- a\n" * 30_000, "holds more than 20000 values"),
        (b"a: !!python/object:os.system x\nprofiles: {p: []}", "a profile must be a mapping"),
        (b"--- a\n--- b\n", "not valid YAML"),
    ],
)
def test_a_bad_config_file_is_one_clear_sentence(data: bytes, problem: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_config(data, "config.yaml")
    assert problem in caught.value.problem
    assert caught.value.source.startswith("config.yaml")
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_strongest_layer_wins_and_order_of_layers_does_not_matter() -> None:
    layers = [
        defaults(),
        layer(Rank.USER, cluster_id="user", bootstrap_server="user:1"),
        layer(Rank.ENVIRONMENT, cluster_id="env"),
        layer(Rank.PROJECT, cluster_id="project", request_timeout="7s"),
    ]
    for ordered in (layers, layers[::-1]):
        merged = merge(ordered)
        assert {name: (e.value, e.origin) for name, e in merged.items()} == {
            "bootstrap_server": ("user:1", "user"),
            "cluster_id": ("env", "environment"),
            "request_timeout": ("7s", "project"),
            "security.protocol": ("PLAINTEXT", "default"),
            "control_store": ("file", "default"),
            "security.tls.check_hostname": ("true", "default"),
        }


def test_the_ways_to_one_secret_are_one_key() -> None:
    merged = merge(
        [
            layer(Rank.USER, security__sasl__password_file="/pw"),
            layer(Rank.FLAG, security__sasl__password_env="PW"),
            layer(Rank.SYSTEM, security__sasl__password_prompt="true", security__tls__key_password_file="/kp"),
        ]
    )
    assert list(merged) == ["security.tls.key_password_file", "security.sasl.password_env"]


def test_two_ways_in_one_layer_are_refused() -> None:
    with pytest.raises(UsageError, match=r"both security\.sasl\.password_file and"):
        merge([layer(Rank.USER, security__sasl__password_file="/a", security__sasl__password_env="B")])


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("request_timeout", "5", "is not a duration"),
        ("security__protocol", "ssl", "must be one of PLAINTEXT"),
        ("security__sasl__mechanism", "GSSAPI", "must be one of PLAIN"),
        ("security__tls__check_hostname", "maybe", "must be true or false"),
        ("bootstrap_server", "a\nb", "control character"),
    ],
)
def test_a_value_of_the_wrong_shape_names_its_origin(name: str, value: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as caught:
        merge([layer(Rank.PROJECT, **{name: value})])
    assert "from project" in str(caught.value)


def test_overrides_take_both_spellings() -> None:
    given = ["cluster_id=x=y", "bootstrap.servers=a:1", "request.timeout.ms=1500", "ssl.ca.location=/ca"]
    assert parse_overrides(given) == (
        ("cluster_id", "x=y"),
        ("bootstrap_server", "a:1"),
        ("request_timeout", "1500ms"),
        ("security.tls.ca_file", "/ca"),
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cluster_id", "has no value"),
        ("clutser_id=x", "did you mean cluster_id"),
        ("sasl.password=hunter2", "would show a secret"),
        ("security.sasl.password=hunter2", "would show a secret"),
    ],
)
def test_a_bad_override_is_refused(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem) as caught:
        parse_overrides([text])
    assert "hunter2" not in str(caught.value)


def test_every_key_of_the_table_is_described_and_unique() -> None:
    assert len(KEY_BY_NAME) == len(KEYS)
    variables = [variable for key in KEYS for variable in key.env]
    assert len(set(variables)) == len(variables)
    assert all(key.about for key in KEYS)


def test_nearest_is_silent_for_strangers() -> None:
    assert nearest_name("zzzzzz", KEY_BY_NAME) is None
    assert nearest_name("bootstrap_servers", KEY_BY_NAME) == "bootstrap_server"


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "..", "a b", "é", "x" * 101, "-x"])
def test_names_that_are_no_profile_names(name: str) -> None:
    assert not is_profile_name(name)


def test_properties_follow_javas_rules() -> None:
    text = (
        "# comment\n! also\n\n  key = value with blanks  \nother:x\nblank y\nempty\n"
        "long = one\\\n    two\nesc\\=aped\\ key=\\u0041\\tB\\\\\nkey=last\r\nhalf=\\uD83D\\uDE00\n"
    )
    assert {p.name: p.value for p in parse_properties(text.encode(), "f")} == {
        "key": "last",
        "other": "x",
        "blank": "y",
        "empty": "",
        "long": "onetwo",
        "esc=aped key": "A\tB\\",
        "half": "\U0001f600",
    }
    assert {p.name: p.line for p in parse_properties(text.encode(), "f")}["key"] == 11


@pytest.mark.parametrize(
    ("data", "problem"), [(b"\xff", "UTF-8"), (b"a\x00b", "zero byte"), (b"a=\\u12", "four hexadecimal")]
)
def test_bad_properties_are_one_sentence(data: bytes, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        parse_properties(data, "f")


def test_a_java_scram_file_is_translated() -> None:
    text = """
        bootstrap.servers=a:1,b:2
        security.protocol=SASL_SSL
        sasl.mechanism=SCRAM-SHA-512
        sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
            username="ad\\\\"min" password='s p;"x' ;
        ssl.truststore.type=PEM
        ssl.truststore.location=/etc/ca.pem
        ssl.endpoint.identification.algorithm=
        request.timeout.ms=20000
        client.id=x
    """
    assert translated(text) == {
        "bootstrap_server": "a:1,b:2",
        "security.protocol": "SASL_SSL",
        "security.sasl.mechanism": "SCRAM-SHA-512",
        "security.sasl.username": 'ad"min',
        "security.sasl.password": 's p;"x',
        "security.tls.ca_file": "/etc/ca.pem",
        "security.tls.check_hostname": "false",
        "request_timeout": "20000ms",
    }


def test_a_librdkafka_file_is_translated() -> None:
    text = (
        "ssl.ca.location=/ca\nssl.certificate.location=/c\nssl.key.location=/k\nssl.key.password=kp\nsasl.password=p\n"
    )
    assert translated(text) == {
        "security.tls.ca_file": "/ca",
        "security.tls.cert_file": "/c",
        "security.tls.key_file": "/k",
        "security.tls.key_password": "kp",
        "security.sasl.password": "p",
    }


def test_a_pem_keystore_is_certificate_and_key() -> None:
    assert translated("ssl.keystore.type=PEM\nssl.keystore.location=/both.pem\n") == {
        "security.tls.cert_file": "/both.pem",
        "security.tls.key_file": "/both.pem",
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ssl.truststore.location=/t.jks", r"is a JKS \(the default\) store"),
        ("ssl.truststore.location=/t.p12\nssl.truststore.type=PKCS12", "is a PKCS12 store"),
        ("ssl.keystore.location=/t.jks\nssl.keystore.type=JKS", "is a JKS store"),
        ("sasl.mechanism=OAUTHBEARER", "OAUTHBEARER is not supported"),
        ("sasl.jaas.config=x.Krb5LoginModule required;", "Krb5LoginModule is not supported"),
        ("sasl.jaas.config=nonsense", "cannot be read"),
        ("sasl.jaas.config=PlainLoginModule required username=a;", "names no password"),
        ("sasl.jaas.config=PlainLoginModule required password=hunter2 ==;", "options"),
        ("request.timeout.ms=soon", "number of milliseconds"),
        ("ssl.keystore.key=hunter2", "not supported"),
    ],
)
def test_what_cannot_be_honoured_is_refused(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        translated(text)
    assert "hunter2" not in str(caught.value)


def test_unknown_properties_are_told() -> None:
    properties = parse_properties(b"boostrap.servers=a:1\nclient.id=x\n", "f")
    assert translate_properties(properties, "f").warnings == (
        "f:1: unknown key 'boostrap.servers'; did you mean bootstrap.servers?",
    )


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("5s", 5.0), ("2m", 120.0), ("1h", 3600.0), ("1.5s", 1.5), (" 1d ", 86400.0)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds
    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize("text", ["", "5", "s", "-5s", "0s", "1e9s", "9999d", "5 s", "٥s", "1.s", "nan"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError):
        parse_duration(text)
