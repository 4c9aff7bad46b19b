"""Where settings come from and which one wins, through the command line that uses them."""

import stat
from pathlib import Path
from typing import NoReturn

import pytest

from kafkakit.config.read.environment import find_folders
from kafkakit.config.read.files import find_sources
from kafkakit.config.read.settings import GivenSettings, load_settings
from kafkakit.config.security import Secret
from tests.rigs.command_line import Home, Ran

PASSWORD = "hunter2-and-more"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def shown(ran: Ran, key: str) -> tuple[str, str]:
    assert ran.code == 0, ran.stderr
    value = ran.json["values"][key]
    return value["value"], value["origin"]


def profile(address: str, name: str = "p") -> str:
    return f"profiles:\n  {name}:\n    bootstrap_server: {address}\n"


def trust(*folders: Path) -> str:
    return f"trusted_folders: [{', '.join(map(str, folders))}]\n"


def test_each_source_beats_those_below_it(home: Home) -> None:
    key = "bootstrap_server"
    show: tuple[str, ...] = ("profile", "show", "p", "-o", "json")
    user = home.write_config(profile("user:1") + trust(home.work))
    assert shown(home.run(*show), key) == ("user:1", f"user {user}:3")

    home.work.mkdir(exist_ok=True)
    project = home.work / "kafkakit.yaml"
    project.write_text(profile("project:1"))
    assert shown(home.run(*show), key) == ("project:1", f"project {project}:3")

    env = {"KAFKAKIT_BOOTSTRAP_SERVER": "env:1"}
    assert shown(home.run(*show, env=env), key) == ("env:1", "env KAFKAKIT_BOOTSTRAP_SERVER")

    properties = home.work / "client.properties"
    properties.write_text("# first\nbootstrap.servers=properties:1\n")
    show += ("--command-config", str(properties))
    assert shown(home.run(*show, env=env), key) == ("properties:1", f"--command-config {properties}:2")

    show += ("-X", "bootstrap.servers=x:1")
    assert shown(home.run(*show, env=env), key) == ("x:1", "-X bootstrap_server")

    show += ("-B", "flag:1")
    assert shown(home.run(*show, env=env), key) == ("flag:1", "flag --bootstrap-server")


def test_a_profile_file_stands_below_the_users_file(home: Home) -> None:
    path = home.write_config("bootstrap_server: d:1\ncluster_id: fromd\n", "profiles.d/p.yaml")
    show = ("profile", "show", "p", "-o", "json")
    assert shown(home.run(*show), "bootstrap_server") == ("d:1", f"user {path}:1")
    home.write_config(profile("user:1"))
    ran = home.run(*show)
    assert shown(ran, "bootstrap_server")[0] == "user:1"
    assert shown(ran, "cluster_id")[0] == "fromd"


def test_the_system_file_is_the_weakest(tmp_path: Path) -> None:
    folders = find_folders({"HOME": str(tmp_path)})
    folders.config.mkdir(parents=True)
    system = tmp_path / "system.yaml"
    system.write_text("")
    (folders.config / "config.yaml").write_text("")
    assert [source.path for source in find_sources(folders, None, system)][-2:] == [
        folders.config / "config.yaml",
        system,
    ]
    assert [source.path for source in find_sources(folders, tmp_path / "own.yaml", system)] == [tmp_path / "own.yaml"]


def test_the_project_file_is_found_up_to_the_git_root_and_no_further(home: Home) -> None:
    deep = home.work / "repo" / "a" / "b"
    deep.mkdir(parents=True)
    (home.work / "repo" / ".git").mkdir()
    (home.work / "kafkakit.yaml").write_text(profile("outside:1"))
    home.write_config(trust(home.work, home.work / "repo", deep.parent))

    def run_in(folder: Path) -> Ran:
        return home.at(folder).run("profile", "show", "p", "-o", "json")

    assert run_in(deep).code == 2
    (home.work / "repo" / "kafkakit.yaml").write_text(profile("root:1"))
    assert shown(run_in(deep), "bootstrap_server")[0] == "root:1"
    (deep.parent / "kafkakit.yaml").write_text(profile("near:1"))
    assert shown(run_in(deep), "bootstrap_server")[0] == "near:1"


def test_outside_a_git_tree_a_parents_file_is_not_read(home: Home) -> None:
    folder = home.work / "sub"
    folder.mkdir(parents=True)
    (home.work / "kafkakit.yaml").write_text(profile("outside:1"))
    assert home.at(folder).run("profile", "show", "p").code == 2


def test_a_named_config_file_takes_the_place_of_those_looked_for(home: Home) -> None:
    home.write_config(profile("user:1", "other"))
    own = home.folder / "own.yaml"
    own.write_text("profile: p\n" + profile("own:1"))
    assert shown(home.run("--config", str(own), "profile", "show", "-o", "json"), "bootstrap_server")[0] == "own:1"
    assert home.run("--config", str(own), "profile", "show", "other").code == 2
    missing = home.run("--config", "/nowhere.yaml", "profile", "show")
    assert (missing.code, missing.stdout) == (2, "")
    assert missing.stderr == "error: /nowhere.yaml: cannot be opened: No such file or directory\n"


def test_the_profile_is_chosen_by_flag_env_project_note_user(home: Home) -> None:
    names = ("flag", "env", "project", "noted", "user")
    for name in names:
        home.write_config(f"bootstrap_server: {name}:1\n", f"profiles.d/{name}.yaml")
    home.write_config("profile: user\n" + trust(home.work))

    def current(*arguments: str, env: dict[str, str] | None = None) -> str:
        ran = home.run(*arguments, "profile", "show", "-o", "json", env=env)
        assert ran.code == 0, ran.stderr
        return str(ran.json["profile"])

    assert current() == "user"
    assert home.run("profile", "use", "noted").code == 0
    assert current() == "noted"
    (home.work / "kafkakit.yaml").write_text("profile: project\n")
    assert current() == "project"
    assert current(env={"KAFKAKIT_PROFILE": "env"}) == "env"
    assert current("--profile", "flag", env={"KAFKAKIT_PROFILE": "env"}) == "flag"


def test_files_named_in_a_file_are_relative_to_it(home: Home) -> None:
    home.write_config("security: {protocol: SSL, tls: {ca_file: ca.pem}}\n", "profiles.d/p.yaml")
    value, _ = shown(home.run("profile", "show", "p", "-o", "json"), "security.tls.ca_file")
    assert value == str(home.config / "profiles.d" / "ca.pem")


def sasl(way: str) -> str:
    return (
        "bootstrap_server: a:1\nsecurity:\n  protocol: SASL_PLAINTEXT\n"
        f"  sasl: {{mechanism: PLAIN, username: admin, {way}}}\n"
    )


def load(home: Home, warnings: list[str] | None = None, **environment: str) -> Secret | None:
    settings = load_settings(
        GivenSettings(profile="p"),
        home.environment(environment),
        warn=(warnings if warnings is not None else []).append,
        input_allowed=False,
    )
    return settings.security.password


def test_a_password_from_a_file_loses_its_line_end(home: Home) -> None:
    home.write_config(sasl("password_file: pw"), "profiles.d/p.yaml")
    path = home.config / "profiles.d" / "pw"
    path.write_text(f"{PASSWORD}\n")
    path.chmod(0o600)
    warnings: list[str] = []
    assert load(home, warnings) == Secret(PASSWORD)
    assert warnings == []
    path.chmod(0o644)
    assert load(home, warnings) == Secret(PASSWORD)
    assert warnings == [f"{path} holds a secret and every user can read it (mode 644); chmod 600 it"]


def test_a_password_from_the_environment(home: Home) -> None:
    home.write_config(sasl("password_env: PW"), "profiles.d/p.yaml")
    assert load(home, PW=PASSWORD) == Secret(PASSWORD)
    assert load(home, PW=PASSWORD, KAFKAKIT_SASL_PASSWORD="direct") == Secret("direct")


def test_a_password_from_systemds_credentials(home: Home) -> None:
    home.write_config(sasl("password_credential: kafka"), "profiles.d/p.yaml")
    folder = home.folder / "credentials"
    folder.mkdir()
    (folder / "kafka").write_text(PASSWORD)
    (folder / "kafka").chmod(0o400)
    assert load(home, CREDENTIALS_DIRECTORY=str(folder)) == Secret(PASSWORD)


def test_a_password_is_asked_for_where_someone_can_answer(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.write_config(sasl("password_prompt: true"), "profiles.d/p.yaml")
    requested: list[str] = []

    def answer(prompt: str) -> str:
        requested.append(prompt)
        return PASSWORD

    monkeypatch.setattr("getpass.getpass", answer)
    settings = load_settings(GivenSettings(profile="p"), home.environment(), warn=lambda _: None, input_allowed=True)
    assert requested == []
    assert settings.security.password == Secret(PASSWORD)
    assert settings.security.password == Secret(PASSWORD)
    assert requested == ["security.sasl.password: "]


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("password_file: missing", ("missing: cannot be opened", "profiles.d/p.yaml:4")),
        ("password_file: empty", ("the file is empty",)),
        ("password_file: latin", ("not valid UTF-8",)),
        ("password_env: NOT_SET", ("NOT_SET with security.sasl.password is not set",)),
        ("password_credential: kafka", ("CREDENTIALS_DIRECTORY is not set",)),
        ("password_prompt: yes", ("there is no terminal to prompt on", "password_file")),
        ("password_prompt: no", ("needs a password",)),
        ("password: hunter2-and-more", ("holds a secret; a config file must not", "password_file")),
    ],
)
def test_a_password_that_cannot_be_had_is_one_clear_error(home: Home, way: str, words: tuple[str, ...]) -> None:
    home.write_config(sasl(way), "profiles.d/p.yaml")
    (home.config / "profiles.d" / "empty").write_text("\n")
    (home.config / "profiles.d" / "empty").chmod(0o600)
    (home.config / "profiles.d" / "latin").write_bytes(b"\xff")
    ran = home.run("profile", "check", "p")
    assert (ran.code, ran.stdout) == (2, "")
    assert [word for word in words if word not in ran.stderr] == []
    assert ran.stderr.startswith("error: ")
    assert PASSWORD not in ran.stderr


def test_no_secret_is_shown_anywhere(home: Home) -> None:
    home.write_config(sasl("password_file: pw"), "profiles.d/p.yaml")
    (home.config / "profiles.d" / "pw").write_text(PASSWORD)
    properties = home.folder / "client.properties"
    properties.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config="
        f'PlainLoginModule required username="a" password="{PASSWORD}";\n'
    )
    quick = ("-X", "bootstrap_server=127.0.0.1:1", "-X", "request_timeout=100ms")
    for extra in ((), ("--command-config", str(properties))):
        for output in ("text", "json", "yaml", "tsv"):
            env = {"KAFKAKIT_TLS_KEY_PASSWORD": PASSWORD}
            ran = home.run("profile", "show", "p", "-o", output, *quick, *extra, env=env)
            assert PASSWORD not in ran.stdout + ran.stderr
        for words in (("profile", "check", "p"), ("doctor", "--profile", "p")):
            ran = home.run(*words, "-o", "json", *quick, *extra)
            assert ran.code == 75, ran.stderr
            assert PASSWORD not in ran.stdout + ran.stderr
    shown_values = home.run("profile", "show", "p", "-o", "json", "--command-config", str(properties)).json["values"]
    assert shown_values["security.sasl.password"]["value"] == "***"


def test_settings_do_not_show_their_secrets(home: Home) -> None:
    home.write_config(sasl("password_env: PW"), "profiles.d/p.yaml")
    environment = home.environment({"KAFKAKIT_SASL_PASSWORD": PASSWORD})
    settings = load_settings(GivenSettings(profile="p"), environment, warn=lambda _: None, input_allowed=False)
    assert settings.security.password == Secret(PASSWORD)
    assert settings.known_secrets() == (Secret(PASSWORD),)
    assert PASSWORD not in repr(settings.entries)
    assert PASSWORD not in repr(settings.security)


def test_an_unknown_variable_is_told_with_the_nearest(home: Home) -> None:
    foreign = {"KAFKAKIT_REQUIRE": "kafka", "TOPICMAPPR_BROKERS": "1", "KAFKAKIT": "x"}
    ran = home.run("profile", "show", env={"KAFKAKIT_BOOTSTRAP_SERVRE": "x", "KAFKAKIT_ZZZ": "y", **foreign})
    assert ran.code == 0
    assert ran.stderr == (
        "warning: the environment variable KAFKAKIT_BOOTSTRAP_SERVRE is not known; "
        "did you mean KAFKAKIT_BOOTSTRAP_SERVER?\n"
        "warning: the environment variable KAFKAKIT_ZZZ is not known\n"
    )


def test_a_named_certificate_must_be_there(home: Home) -> None:
    home.write_config("bootstrap_server: a:1\nsecurity: {protocol: SSL, tls: {ca_file: ca.pem}}\n", "profiles.d/p.yaml")
    ran = home.run("profile", "check", "p")
    assert ran.code == 2
    assert "ca.pem does not exist" in ran.stderr
    assert "profiles.d/p.yaml:2" in ran.stderr


def test_a_damaged_certificate_is_a_fault_of_the_configuration(home: Home) -> None:
    home.write_config(
        "bootstrap_server: 127.0.0.1:1\nsecurity: {protocol: SSL, tls: {ca_file: ca.pem}}\n", "profiles.d/p.yaml"
    )
    path = home.write_config("junk", "profiles.d/ca.pem")
    ran = home.run("profile", "check", "p")
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"error: {path}: holds no certificate that can be read\n")
    visit = home.run("doctor", "--profile", "p", "-o", "json")
    failed = [check["found"] for check in visit.json["checks"] if check["status"] == "fail"]
    assert (visit.code, len(failed)) == (1, 1)
    assert str(path) in failed[0]


def test_folders_follow_xdg_and_systemd(tmp_path: Path) -> None:
    plain = find_folders({"HOME": str(tmp_path), "XDG_STATE_HOME": "relative"})
    assert plain.state == tmp_path / ".local/state/kafkakit"
    assert plain.config == tmp_path / ".config/kafkakit"
    assert plain.runtime == plain.state / "run"
    unit = find_folders(
        {"HOME": str(tmp_path), "STATE_DIRECTORY": "/var/lib/kk:/other", "RUNTIME_DIRECTORY": "/run/kk"}
    )
    assert (unit.state, unit.runtime) == (Path("/var/lib/kk"), Path("/run/kk"))


def test_a_user_that_the_system_does_not_know_has_folders_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> NoReturn:
        raise KeyError(uid)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    assert find_folders({}).state == Path("/.local/state/kafkakit")


@pytest.mark.parametrize("size", [(1 << 20) + 1])
def test_a_config_file_that_is_too_large_is_refused(home: Home, size: int) -> None:
    home.write_config("#" * size)
    ran = home.run("profile", "list")
    assert (ran.code, ran.stdout) == (2, "")
    assert "is larger than 1,048,576 bytes" in ran.stderr


def test_the_note_of_the_current_profile_is_a_plain_file(home: Home) -> None:
    home.write_config("bootstrap_server: a:1\n", "profiles.d/p.yaml")
    assert home.run("profile", "use", "p").stdout == "profile in use: p\n"
    note = home.state / "current-profile"
    assert note.read_text() == "p\n"
    assert stat.S_IMODE(note.stat().st_mode) == 0o644
    assert home.run("profile", "use", "--none").code == 0
    assert not note.exists()


def test_an_address_of_this_invocation_is_not_that_of_other_profiles(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.write_config(profile("theirs:1", "other"))
    environment = home.environment({"KAFKAKIT_BOOTSTRAP_SERVER": "env:1"})
    given = GivenSettings(
        flags={"bootstrap_server": ("flag:1", "flag")}, overrides=("bootstrap.servers=x:1",), profile="mine"
    )
    for each in (given.for_profile("other"), GivenSettings().for_profile("other")):
        settings = load_settings(each, environment, warn=lambda _: None, input_allowed=False)
        assert settings.bootstrap_servers == "theirs:1"
    there = given.for_profile("other").for_address("named:1", None, "file")
    assert load_settings(there, environment, warn=lambda _: None, input_allowed=False).bootstrap_servers == "named:1"
