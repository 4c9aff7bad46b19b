"""Whatever stands in a configuration or properties file, the answer is a value or one clear sentence."""

from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.config.client_properties import parse_properties, translate_properties
from kafkakit.config.keys import (
    KEY_BY_NAME,
    KEY_BY_PROPERTY,
    Layer,
    Rank,
    SourcedValue,
    defaults,
    merge,
    parse_overrides,
)
from kafkakit.config.security import Secret
from kafkakit.config.yaml_text import parse_config, parse_profile
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.quantities import format_duration, parse_duration
from tests.rigs.command_line import Home

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
KEYS = st.sampled_from([*KEY_BY_NAME, "security", "sasl", "tls", "profiles", "profile"]) | TEXT
TREES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
YAML_LIKE = st.text("abkey:-[]{}&*!|>%@`'\"#, \n\t?~<0.\\\x00\ufeff", max_size=60)


def check_message(error: UsageError) -> None:
    assert error.message
    assert "\n" not in error.message
    assert len(error.message) < 1000


def check_config(data: bytes) -> None:
    for parse in (parse_config, lambda d, s: parse_profile(d, s, "p")):
        try:
            parsed = parse(data, "file.yaml")
        except InputError as error:
            check_message(error)
            continue
        for values in parsed.profiles.values():
            entries = {
                name: SourcedValue(value=located.value, origin="o", rank=Rank.USER) for name, located in values.items()
            }
            try:
                merge([Layer(rank=Rank.USER, entries=entries), defaults()])
            except UsageError as error:
                check_message(error)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.binary(max_size=60) | YAML_LIKE.map(str.encode))
def test_any_bytes_as_configuration(data: bytes) -> None:
    check_config(data)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.dictionaries(KEYS, TREES, max_size=4))
def test_any_tree_as_configuration(tree: dict[str, object]) -> None:
    check_config(yaml.safe_dump(tree, allow_unicode=True).encode("utf-8", "surrogatepass"))
    check_config(yaml.safe_dump({"profiles": {"p": tree}}, allow_unicode=True).encode("utf-8", "surrogatepass"))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.binary(max_size=80)
    | st.lists(st.tuples(st.sampled_from([*KEY_BY_PROPERTY, "sasl.jaas.config", "ssl.truststore.location"]), TEXT)).map(
        lambda pairs: "\n".join(f"{name}={value}" for name, value in pairs).encode()
    )
)
def test_any_bytes_as_properties(data: bytes) -> None:
    try:
        translate_properties(parse_properties(data, "f"), "f")
    except InputError as error:
        check_message(error)


def escaped(text: str) -> str:
    return "".join(f"\\u{unit:04x}" for unit in memoryview(text.encode("utf-16-le")).cast("H"))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.dictionaries(TEXT.filter(bool), TEXT, max_size=5))
def test_properties_read_back_what_was_escaped(pairs: dict[str, str]) -> None:
    text = "\n".join(f"{escaped(name)} = {escaped(value)}" for name, value in pairs.items())
    assert {p.name: p.value for p in parse_properties(text.encode(), "f")} == pairs


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.from_regex(r"[A-Za-z0-9 _.-]{0,10}", fullmatch=True),
    st.text(st.characters(codec="utf-8", exclude_characters="\x00\r\n"), min_size=1, max_size=20),
)
def test_a_quoted_password_survives_a_login_line(username: str, password: str) -> None:
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    line = f'sasl.jaas.config=x.PlainLoginModule required username="{username}u" password="{quoted}";'
    properties = parse_properties(line.replace("\\", "\\\\").encode(), "f")
    values = translate_properties(properties, "f").values
    assert values["security.sasl.username"][0] == f"{username}u"
    assert values["security.sasl.password"][0] == Secret(password)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(1, 365 * 86_400_000))
def test_a_duration_reads_back(milliseconds: int) -> None:
    assert round(parse_duration(format_duration(milliseconds / 1000)) * 1000) == milliseconds


@settings(max_examples=200, deadline=None, derandomize=True)
@given(TEXT)
def test_any_text_as_duration_or_override(text: str) -> None:
    for read in (parse_duration, lambda t: parse_overrides([t])):
        try:
            read(text)
        except UsageError as error:
            check_message(error)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.binary(max_size=200), st.sampled_from(["config.yaml", "profiles.d/p.yaml", "client.properties"]))
def test_the_command_line_never_shows_a_traceback(data: bytes, name: str) -> None:
    with TemporaryDirectory() as folder:
        check_command_line(Home(Path(folder)), data, name)


def check_command_line(home: Home, data: bytes, name: str) -> None:
    home.write_config("", name)
    path = home.config / name
    path.write_bytes(data)
    extra = ("--command-config", str(path)) if name.endswith("properties") else ()
    ran = home.run("profile", "show", *(("p",) if "profiles.d" in name else ()), *extra)
    assert ran.code in (0, 2), ran.stderr
    assert "Traceback" not in ran.stderr
    assert "error: unexpected" not in ran.stderr
    assert (ran.stdout == "") == (ran.code == 2)
