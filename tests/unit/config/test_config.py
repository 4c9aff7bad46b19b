"""Configuration files, properties files and merging, as pure functions."""

import json

import pytest
import yaml

from kafkakit.config.client_properties import (
    ClientFile,
    parse_properties,
    read_client_file,
    translate_properties,
)
from kafkakit.config.keys import (
    KEY_BY_NAME,
    KEYS,
    ClientFileKind,
    Layer,
    Rank,
    SourcedValue,
    defaults,
    is_profile_name,
    merge,
    nearest_name,
    parse_overrides,
)
from kafkakit.config.read.files import with_own_variables
from kafkakit.config.security import Secret, parse_addresses
from kafkakit.config.yaml_text import parse_config, parse_profile, with_profile
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


@pytest.mark.parametrize(
    "data", [b"", b"# nothing\n", b"profiles:\n", b"profiles: null\n", b"profiles: ~", b"\xef\xbb\xbfprofiles: {}\n"]
)
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
        (b"\x00", "a character '\\x00' that YAML does not allow"),
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
        (b"? [a]\n: b\n", "a key that is itself a mapping or a list"),
        (b"a: &x 1\nb: *x\n", "anchors and aliases"),
        (b"profiles: {p: {security: {sasl: {password: hunter2}}}}", "security.sasl.password holds a secret"),
        (b"[" * 100_000, "nested deeper than 16 levels"),
        (b"{a: " * 100_000, "nested deeper than 16 levels"),
        (b"- a\n" * 30_000, "more than 20,000 values"),
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


NEW = {"bootstrap_server": "c:1,d:2", "security.protocol": "SSL", "security.tls.ca_file": "/etc/a b.pem"}
NEW_LINES = """\
  new:
    bootstrap_server: "c:1,d:2"
    security:
      protocol: SSL
      tls:
        ca_file: "/etc/a b.pem"
"""
COMMENTED = """\
# clusters of the team
profile: prod  # the default

profiles:
  # the first one
  prod:
    bootstrap_server: 'a:1'  # of 2024
    # cluster_id: not yet

trusted_folders: [~/src]  # the end
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", f"profiles:\n{NEW_LINES}"),
        ("# none yet", f"# none yet\nprofiles:\n{NEW_LINES}"),
        ("profile: x", f"profile: x\nprofiles:\n{NEW_LINES}"),
        ("profiles:\n", f"profiles:\n{NEW_LINES}"),
        ("profiles: {}  # none\nprofile: x\n", f"profiles:   # none\n{NEW_LINES}profile: x\n"),
        ("profiles: {}\n", f"profiles:\n{NEW_LINES}"),
        (COMMENTED, COMMENTED.replace("not yet\n", f"not yet\n{NEW_LINES}")),
        ("profiles:\n  a: {bootstrap_server: a}", f"profiles:\n  a: {{bootstrap_server: a}}\n{NEW_LINES}"),
        ("profiles:\n  ? a\n  : {}\n", f"profiles:\n  ? a\n  : {{}}\n{NEW_LINES}"),
        ("profiles:\n  a:  # empty\n", f"profiles:\n  a:  # empty\n{NEW_LINES}"),
        (
            "profiles:\n    a:\n        cluster_id: x\n",
            "profiles:\n    a:\n        cluster_id: x\n" + NEW_LINES.replace("  ", "    "),
        ),
        ("profiles:\n  a:\n    cluster_id: |\n      x\n", f"profiles:\n  a:\n    cluster_id: |\n      x\n{NEW_LINES}"),
    ],
)
def test_a_new_profile_stands_behind_the_others(before: str, after: str) -> None:
    assert with_profile(before.encode(), "f", "new", NEW).decode() == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("profiles: {a: {cluster_id: x}}  # one\n", "profiles: {a: {cluster_id: x}, new: {cluster_id: y}}  # one\n"),
        ("{}\n", '{"profiles": {"new": {"cluster_id": "y"}}}\n'),
        ("{ # none\n}\n", "{profiles: {new: {cluster_id: y}} # none\n}\n"),
        ('{"profile": "x"}', '{"profile": "x", "profiles": {"new": {"cluster_id": "y"}}}'),
        ('{"profiles": {}}', '{"profiles":  {"new": {"cluster_id": "y"}}}'),
        (
            '{\n  "profiles": {\n    "a": {"cluster_id": "x"}\n  }\n}\n',
            '{\n  "profiles": {\n    "a": {"cluster_id": "x"}, "new": {"cluster_id": "y"}\n  }\n}\n',
        ),
    ],
)
def test_a_profile_among_those_in_braces_is_written_like_them(before: str, after: str) -> None:
    assert with_profile(before.encode(), "f", "new", {"cluster_id": "y"}).decode() == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            COMMENTED.replace("profiles:\n", "profiles:\n  old: {cluster_id: z}\n"),
            COMMENTED.replace("profiles:\n", "profiles:\n  old: {cluster_id: z}\n").replace(
                "    bootstrap_server: 'a:1'  # of 2024\n", "    cluster_id: y\n"
            ),
        ),
        (
            "profiles:\n  # on top\n  prod:  # inside\n    # inside\n    request_timeout: 5s  # inside\n"
            "    # below\n  # beside\n  b:\n",
            "profiles:\n  # on top\n  prod:\n    cluster_id: y\n    # below\n  # beside\n  b:\n",
        ),
        (
            "profiles: {prod: {cluster_id: x # inside\n }, # kept\n b: {}}\n",
            "profiles: {prod: {cluster_id: y}, # kept\n b: {}}\n",
        ),
        (
            "profiles: {prod: {cluster_id: x}, b: {cluster_id: z}}\n",
            "profiles: {prod: {cluster_id: y}, b: {cluster_id: z}}\n",
        ),
        ("profiles:\n  prod:\n  b:\n", "profiles:\n  prod:\n    cluster_id: y\n  b:\n"),
    ],
)
def test_a_profile_that_exists_is_replaced_at_its_place(before: str, after: str) -> None:
    assert with_profile(before.encode(), "f", "prod", {"cluster_id": "y"}).decode() == after


def test_line_ends_and_the_mark_of_the_encoding_stay() -> None:
    before = b"\xef\xbb\xbfprofiles:\r\n  a:\r\n    cluster_id: x\r\n"
    assert with_profile(before, "f", "b", {"cluster_id": "y"}) == before + b"  b:\r\n    cluster_id: y\r\n"


@pytest.mark.parametrize(
    "before",
    [
        *("profiles:\n  ? b\n  : {}\n  ? c\n  : {}\n", "[a]", "profiles: x", "a: [\n"),
        "profiles: {\n # keep me\n}\n",
        "profiles: [\n # keep me\n]\n",
        "profiles:\r  # keep me\r  a: {}\r",
        "profiles:\n  a: {}\r  # keep me\n",
        'profiles:\n  a: {cluster_id: "\r"}\n',
    ],
)
def test_a_file_that_cannot_take_a_profile_is_refused(before: str) -> None:
    with pytest.raises(InputError, match=r"^f"):
        with_profile(before.encode(), "f", "b", {"cluster_id": "y"})


def test_a_comment_that_stands_twice_is_kept_twice() -> None:
    before = "profiles: {a: {}, # same\n b: { # same\n}}\n"
    assert with_profile(before.encode(), "f", "b", {"cluster_id": "y"}).count(b"# same") == 1
    assert with_profile(before.encode(), "f", "c", {"cluster_id": "y"}).count(b"# same") == 2


def test_a_value_that_is_no_text_is_named() -> None:
    for before in (b"", b"{}", b"profiles: x"):
        with pytest.raises(UsageError, match="cluster_id of profile b is not valid UTF-8"):
            with_profile(before, "f", "b", {"cluster_id": "\udcff"})


@pytest.mark.parametrize("value", ["\x00\x1b\x7f", "\x85\u2028\u2029\ufeff", "\U0001f600 \xa0", '"\\\r\n\t'])
def test_a_file_of_json_stays_json(value: str) -> None:
    changed = with_profile(b'{"profile": "x"}', "f", "b", {"cluster_id": value})
    assert json.loads(changed)["profiles"]["b"] == {"cluster_id": value}
    for before in (b"", b"{profile: x}"):
        assert yaml.safe_load(with_profile(before, "f", "b", {"cluster_id": value}))["profiles"]["b"] == {
            "cluster_id": value
        }


KCL = """\
seed_brokers = ["a:1", "b"]
timeout_ms = 5000

[tls]
ca_cert_path = "ca.pem"
client_cert_path = "c.pem"
client_key_path = "k.pem"
server_name = "x"

[sasl]
method = "scram_sha_256"
user = "ops"
pass = "hunter2"
"""
KAFKACTL = """\
contexts:
  default:
    brokers:
      - a:1
      - b:2
  Remote One:
    brokers: [c:3]
    tls: {enabled: true, ca: ca.pem, cert: c.pem, certKey: k.pem, insecure: true}
    sasl:
      enabled: true
      username: ops
      password: hunter2
      mechanism: scram-sha512
    requestTimeout: 10s
  tokens:
    brokers: [d:4]
    sasl: {enabled: true, mechanism: oauth}
  off:
    brokers: [e:5]
    tls: {enabled: false, ca: ca.pem}
current-context: default
"""
LIBRDKAFKA = """\
# kcat
metadata.broker.list=SASL_SSL://a:1,b
security.protocol=sasl_ssl
sasl.mechanisms=PLAIN
sasl.username=DOMAIN\\user
sasl.password=hunter2=
ssl.ca.location=ca.pem
enable.ssl.certificate.verification=false
queue.buffering.max.ms=5
"""
JAVA = """\
bootstrap.servers: a:1, \\
  b:2
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="ops" password="hunter2";
ssl.truststore.type=PEM
ssl.truststore.location=/etc/ca.pem
ssl.keystore.type=PEM
ssl.keystore.location=/etc/client.pem
ssl.key.password=hunter2
client.id=x
"""


def client_file(text: str, **given: object) -> ClientFile:
    return read_client_file(text.encode(), "f", "stem", **given)  # type: ignore[arg-type]


def values_of(found: ClientFile) -> dict[str, dict[str, str]]:
    return {one.name: {key: value for key, (value, _) in one.values.items()} for one in found.profiles}


def left_out(found: ClientFile) -> list[str]:
    return [str(key) for key in (*found.left_out, *(key for one in found.profiles for key in one.left_out))]


LOGIN = {
    "security.tls.ca_file": "ca.pem",
    "security.tls.cert_file": "c.pem",
    "security.tls.key_file": "k.pem",
    "security.sasl.username": "ops",
    "security.protocol": "SASL_SSL",
}


def test_a_file_of_kcl_is_a_profile() -> None:
    found = client_file(KCL)
    assert (found.kind, values_of(found)) == (
        ClientFileKind.KCL,
        {
            "stem": {
                **LOGIN,
                "bootstrap_server": "a:1,b:9092",
                "security.sasl.mechanism": "SCRAM-SHA-256",
                "security.sasl.password_env": "KAFKA_PASSWORD_STEM",
            }
        },
    )
    assert [(one.key, one.place) for one in found.profiles[0].secrets] == [("security.sasl.password", "f:13")]
    assert left_out(found) == ["f:2: timeout_ms", "f:8: tls.server_name"]


def test_profiles_of_kcl_and_variables_of_it_are_taken() -> None:
    text = "[profiles.a]\n" + KCL.replace("hunter2", "${KAFKA_PW}").replace("[tls]", "[profiles.a.tls]").replace(
        "[sasl]", "[profiles.a.sasl]"
    )
    found = client_file(text + '[profiles.b]\nseed_brokers = ["c"]\n[profiles.b.sasl]\nuser = "no method"\n')
    assert values_of(found)["a"]["security.sasl.password_env"] == "KAFKA_PW"
    assert found.profiles[0].secrets == ()
    assert values_of(found)["b"] == {"bootstrap_server": "c:9092"}
    assert left_out(found)[-1] == "f:17: sasl (not in use)"


def test_contexts_of_kafkactl_are_profiles() -> None:
    found = client_file(KAFKACTL)
    assert values_of(found) == {
        "default": {"bootstrap_server": "a:1,b:2"},
        "Remote-One": {
            **LOGIN,
            "bootstrap_server": "c:3",
            "security.sasl.mechanism": "SCRAM-SHA-512",
            "security.sasl.password_env": "KAFKA_PASSWORD_REMOTE_ONE",
        },
        "off": {"bootstrap_server": "e:5"},
    }
    assert left_out(found) == [
        "f:21: current-context",
        "f:15: contexts.tokens (SASL mechanism oauth is not supported)",
        "f:8: tls.insecure (certificates are always verified)",
        "f:14: requesttimeout",
        "f:20: tls (not in use)",
    ]


def test_properties_of_librdkafka_know_no_escapes() -> None:
    found = client_file(LIBRDKAFKA)
    assert (found.kind, values_of(found)["stem"]) == (
        ClientFileKind.LIBRDKAFKA,
        {
            "bootstrap_server": "a:1,b:9092",
            "security.protocol": "SASL_SSL",
            "security.sasl.mechanism": "PLAIN",
            "security.sasl.username": "DOMAIN\\user",
            "security.sasl.password_env": "KAFKA_PASSWORD_STEM",
            "security.tls.ca_file": "ca.pem",
        },
    )
    assert left_out(found) == [
        "f:8: enable.ssl.certificate.verification (certificates are always verified)",
        "f:9: queue.buffering.max.ms",
    ]


def test_java_properties_are_a_profile() -> None:
    found = client_file(JAVA, name="eu-1")
    assert (found.kind, values_of(found)["eu-1"]) == (
        ClientFileKind.JAVA,
        {
            "bootstrap_server": "a:1,b:2",
            "security.protocol": "SASL_SSL",
            "security.sasl.mechanism": "SCRAM-SHA-512",
            "security.tls.key_password_env": "KAFKA_KEY_PASSWORD_EU_1",
            "security.tls.ca_file": "/etc/ca.pem",
            "security.tls.cert_file": "/etc/client.pem",
            "security.tls.key_file": "/etc/client.pem",
            "security.sasl.username": "ops",
            "security.sasl.password_env": "KAFKA_PASSWORD_EU_1",
        },
    )
    assert left_out(found) == ["f:11: client.id"]


def test_no_two_secrets_of_an_import_share_a_variable() -> None:
    login = "sasl: {enabled: true, username: u, password: p}"
    names = ("prod-eu", "prod_eu", "Prod.eu", "prod-eu-2", "own")
    found = client_file("contexts:\n" + "".join(f"  {name}: {{brokers: [a], {login}}}\n" for name in names))
    made = with_own_variables(found.profiles, {"KAFKA_PASSWORD_OWN"})
    variables = [one.values["security.sasl.password_env"][0] for one in made]
    assert variables == [
        f"KAFKA_PASSWORD_{end}" for end in ("PROD_EU", "PROD_EU_2", "PROD_EU_3", "PROD_EU_2_2", "OWN_2")
    ]
    assert [secret.variable for one in made for secret in one.secrets] == variables
    kcl = '[profiles.a]\n[profiles.a.sasl]\nmethod = "plain"\npass = "x"\n[profiles.b]\n[profiles.b.sasl]\n'
    found = client_file(kcl + 'method = "plain"\npass = "${KAFKA_PASSWORD_A}"\n')
    made = with_own_variables(found.profiles, ())
    assert [one.values["security.sasl.password_env"][0] for one in made] == ["KAFKA_PASSWORD_A_2", "KAFKA_PASSWORD_A"]


@pytest.mark.parametrize("password", ["hunter2", "hun,ter2", "hun ter2", "hunter2://x", "12", "h@unter2", "1,hunter2:"])
@pytest.mark.parametrize("login", ["user:{}@a:1", "{}@a", "SASL_SSL://user:{}@a:1", "b:2,user:{}@a:x"])
def test_a_password_in_an_address_is_not_shown(password: str, login: str) -> None:
    address = login.format(password)
    for text in (f"bootstrap.servers={address}\n", f"contexts:\n  a:\n    brokers: ['{address}']\n"):
        with pytest.raises(InputError, match="is not an address") as caught:
            client_file(text)
        assert not any(part in str(caught.value) for part in ("hun", "ter2", "user", "12"))
    with pytest.raises(UsageError, match=r"'\*\*\*.*is not an address"):
        parse_addresses(address)


@pytest.mark.parametrize("text", [KCL, KAFKACTL, LIBRDKAFKA, JAVA])
def test_no_password_of_a_file_is_in_what_was_read(text: str) -> None:
    assert "hunter2" in text
    assert "hunter2" not in repr(client_file(text))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("seed_brokers = [\n", "f:2"),
        ("[tls]\nseed_brokers = 5\nseed_brokers = 6\n", "f:3"),
        ("seed_brokers = [[1]]\n", "f:1"),
        ('seed_brokers = ["a:x"]\n', "f:1"),
        ("sasl = 5\nseed_brokers = []\n", "f:1"),
        ('[sasl]\nmethod = "aws-msk-iam"\n', "f:2"),
        ("contexts:\n  a: [\n", "f:3:1"),
        ("contexts: x\n", "f:1"),
        ("contexts:\n  a: {tls: yes}\n", "f:2"),
        ("contexts:\n  a:\n    sasl: {enabled: true, mechanism: oauth}\n", "f:3"),
        ("contexts:\n  a b: {}\n  a/b: {}\n", "f:3"),
        ("ssl.ca.location=x\nnonsense\n", "f:2"),
        ("a.b=c\nsasl.mechanism=GSSAPI\n", "f:2"),
        ("a.b=c\nssl.truststore.location=x.jks\n", "f:2"),
        ("a.b=\\u12\n", "f:1"),
        ("contexts:\n", "f"),
        ("hello\n", "f"),
    ],
)
def test_a_broken_file_is_refused_with_its_line(text: str, place: str) -> None:
    with pytest.raises(InputError) as caught:
        client_file(text)
    assert caught.value.source == place


def test_the_kind_that_is_given_decides() -> None:
    assert client_file("seed.brokers=x\n", kind=ClientFileKind.JAVA).kind is ClientFileKind.JAVA
    with pytest.raises(InputError, match="holds no contexts"):
        client_file("a: b\n", kind=ClientFileKind.KAFKACTL)
