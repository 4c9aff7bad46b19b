"""Whatever stands in a configuration or properties file, the answer is a value or one clear sentence."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkakit.config.client_properties import parse_properties, read_client_file, translate_properties
from kafkakit.config.keys import (
    KEY_BY_NAME,
    KEY_BY_PROPERTY,
    ClientFileKind,
    Layer,
    Rank,
    SourcedValue,
    ValueKind,
    defaults,
    merge,
    parse_overrides,
)
from kafkakit.config.security import Secret
from kafkakit.config.yaml_text import ConfigFile, parse_config, parse_profile, with_profile
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


VALUES = st.dictionaries(
    st.sampled_from([name for name, key in KEY_BY_NAME.items() if key.kind is not ValueKind.SECRET]),
    TEXT,
    min_size=1,
    max_size=5,
)
NAMES = st.from_regex(r"[a-z0-9][A-Za-z0-9._-]{0,6}", fullmatch=True)
COMMENTS = st.sampled_from(["", "# text\n", "  # deeper: {\n", "\n", "      # deepest\n"])


def nested(values: dict[str, str]) -> dict[str, object]:
    tree: dict[str, object] = {}
    for name, value in values.items():
        *sections, key = name.split(".")
        inner: dict[str, object] = tree
        for section in sections:
            inner = inner.setdefault(section, {})  # type: ignore[assignment]
        inner[key] = value
    return tree


def plain(parsed: ConfigFile) -> dict[str, dict[str, str]]:
    return {name: {key: at.value for key, at in values.items()} for name, values in parsed.profiles.items()}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data(), before=st.dictionaries(NAMES, VALUES, max_size=3), name=NAMES, values=VALUES)
def test_a_profile_that_is_added_reads_back_and_nothing_else_changes(
    data: st.DataObject, before: dict[str, dict[str, str]], name: str, values: dict[str, str]
) -> None:
    document: dict[str, object] = {"profile": "x", "unknown": [1, {"a": "b"}]}
    has_profiles: bool = data.draw(st.booleans())
    if before or has_profiles:
        document["profiles"] = {key: nested(own) for key, own in before.items()}
    dumped = yaml.safe_dump(
        {key: document[key] for key in data.draw(st.permutations(list(document)))},
        default_flow_style=data.draw(st.sampled_from([True, False, None])),
        allow_unicode=data.draw(st.booleans()),
        sort_keys=False,
        width=1 << 20,
    )
    # A comment may stand between all lines, but inside of a text that takes several.
    lines = dumped.splitlines(keepends=True)
    between = st.just("") if any('"' in line or "'" in line for line in lines) else COMMENTS
    text = "".join(f"{line}{data.draw(between)}" for line in lines)
    changed = with_profile(text.encode(), "f", name, values).decode()
    assert plain(parse_config(changed.encode(), "f")) == {**plain(parse_config(text.encode(), "f")), name: values}
    assert yaml.safe_load(changed)["unknown"] == document["unknown"]
    if name not in before:
        kept = iter(changed)
        assert all(char in kept for char in text.replace("profiles: {}", "profiles:")), "all that stood there stands"
    again = with_profile(changed.encode(), "f", name, values).decode()
    assert plain(parse_config(again.encode(), "f")) == plain(parse_config(changed.encode(), "f"))


PASSWORD = "hunter2-of-production"
CLIENT_TEXTS = {
    ClientFileKind.KCL: 'seed_brokers = ["a:1"]\n[tls]\n[sasl]\nmethod = "plain"\nuser = "u"\npass = "PW"\n',
    ClientFileKind.KAFKACTL: "contexts:\n  a:\n    brokers: [a:1]\n    sasl: {enabled: true, password: PW}\n",
    ClientFileKind.LIBRDKAFKA: "bootstrap.servers=a:1\nsasl.mechanisms=PLAIN\nsasl.username=u\nsasl.password=PW\n",
    ClientFileKind.JAVA: "bootstrap.servers=a:1\nsasl.jaas.config=PlainLoginModule required username=u password=PW;\n",
}


@settings(max_examples=200, deadline=None, derandomize=True)
@given(data=st.data(), kind=st.sampled_from(sorted(CLIENT_TEXTS)))
def test_any_text_as_the_file_of_another_client(data: st.DataObject, kind: ClientFileKind) -> None:
    """A password in it is neither in what was read nor in what is said of the file."""
    text = CLIENT_TEXTS[kind].replace("PW", PASSWORD)
    at = data.draw(st.integers(0, text.index(PASSWORD)))
    cut = data.draw(st.integers(0, min(3, text.index(PASSWORD) - at)))
    planted = data.draw(YAML_LIKE | TEXT)
    broken = f"{text[:at]}{planted}{text[at + cut :]}"
    given_kind = data.draw(st.sampled_from([kind, None]))
    said, values = "", list[str]()
    try:
        found = read_client_file(broken.encode("utf-8", "surrogatepass"), "f", "stem", kind=given_kind)
    except InputError as error:
        check_message(error)
        said = str(error)
    else:
        assert found.profiles
        values = [value for one in found.profiles for key, (value, _) in one.values.items() if "password" in key]
    assert not any(PASSWORD in text for text in (said, *values))


@pytest.mark.parametrize("sign", ["*", "!", "&", "%", "@", "`", "'", '"', "{", "[", "|", ">", "? ", "- ", ": "])
@pytest.mark.parametrize("aliases", [True, False])
def test_a_password_without_quotes_is_in_no_message(sign: str, aliases: bool) -> None:
    """As people write them, with what YAML takes for something else before it."""
    from msgspec import Struct

    from kafkakit.core.documents import decode_tree
    from kafkakit.core.yaml_json import ANY_FILE, SETTINGS_FILE, sound_document

    class Login(Struct):
        password: str

    text, said = f"password: {sign}{PASSWORD}\n".encode(), ""
    try:
        decode_tree(sound_document(text, "f", ANY_FILE if aliases else SETTINGS_FILE), Login)
    except InputError as error:
        check_message(error)
        said = f"{error} {error.hint}"
    assert PASSWORD not in said


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.binary(max_size=60), st.sampled_from(ClientFileKind))
def test_any_bytes_as_the_file_of_another_client(data: bytes, kind: ClientFileKind) -> None:
    try:
        read_client_file(data, "f", "stem", kind=kind)
    except InputError as error:
        check_message(error)


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
