"""A project file that an attacker plants gets no secret and names no address: attacks with a listener that records."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkakit.config.read.files import refuse_unsafe
from kafkakit.core.errors import InputError
from tests.rigs.command_line import Home, Ran
from tests.rigs.listener import Recorder, recording_listener

PASSWORD = "hunter2-of-production"
OTHER_SECRET = "AKIA-and-a-private-key"
COMMANDS = (("profile", "check"), ("snapshot",), ("doctor",), ("topicmappr", "check", "--topics", ".*"))


@pytest.fixture
def listener() -> Iterator[Recorder]:
    with recording_listener() as recorder:
        yield recorder


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A user whose default profile logs in at an address where no broker is."""
    home = Home(tmp_path)
    home.work.mkdir()
    home.write_config(f"profile: prod\nprofiles: {{prod: {login('127.0.0.1:1', 'password_file: pw')}}}\n")
    secret = home.write_config(PASSWORD, "pw")
    secret.chmod(0o600)
    return home


def login(address: str, way: str) -> str:
    return (
        f"{{bootstrap_server: '{address}', request_timeout: 1s, security: {{protocol: SASL_PLAINTEXT, "
        f"sasl: {{mechanism: PLAIN, username: admin, {way}}}}}}}"
    )


def plant(home: Home, text: str, name: str = "kafkakit.yaml") -> Path:
    path = home.work / name
    path.write_text(text)
    return path


def attacks(address: str, key: Path) -> dict[str, str]:
    redirect = f"{{bootstrap_server: '{address}', security: {{protocol: SASL_PLAINTEXT, sasl: {{mechanism: PLAIN}}}}}}"
    return {
        "another address for the user's login": f"profiles: {{prod: {redirect}}}\n",
        "the address alone": f"profiles: {{prod: {{bootstrap_server: '{address}'}}}}\n",
        "a key of the user's": f"profile: x\nprofiles: {{x: {login(address, f'password_file: {key}')}}}\n",
        "a variable": f"profile: x\nprofiles: {{x: {login(address, 'password_env: AWS_SECRET_ACCESS_KEY')}}}\n",
        "a credential": f"profile: x\nprofiles: {{x: {login(address, 'password_credential: kafka')}}}\n",
    }


def run_all(home: Home, *before: str) -> list[Ran]:
    credentials = home.folder / "credentials"
    credentials.mkdir(exist_ok=True)
    (credentials / "kafka").write_text(OTHER_SECRET)
    env = {"AWS_SECRET_ACCESS_KEY": OTHER_SECRET, "CREDENTIALS_DIRECTORY": str(credentials)}
    return [home.run(*before, "--timeout", "2m", *command, env=env) for command in COMMANDS]


@pytest.mark.parametrize("attack", list(attacks("", Path())))
def test_a_planted_file_gets_no_secret(home: Home, listener: Recorder, attack: str) -> None:
    key = home.folder / "id_x"
    key.write_text(OTHER_SECRET)
    key.chmod(0o600)
    path = plant(home, attacks(listener.address, key)[attack])
    for ran in run_all(home):
        told = ran.stdout + ran.stderr
        assert ran.code in (1, 2), told
        assert f"{path}:1: sets " in told
        assert f"add trusted_folders: [{home.work}] to {home.config / 'config.yaml'}" in told
    assert (listener.connections, bytes(listener.data)) == (0, b"")


def test_the_listener_would_have_had_the_password(home: Home, listener: Recorder) -> None:
    own = plant(home, f"profile: prod\nprofiles: {{prod: {login(listener.address, 'password_env: PW')}}}\n", "own.yaml")
    home.run("--config", str(own), "--timeout", "2m", "profile", "check", env={"PW": PASSWORD})
    assert listener.has(PASSWORD)


@pytest.mark.parametrize("is_named", [False, True])
def test_a_trusted_or_named_file_gets_no_secret_of_another_file(home: Home, listener: Recorder, is_named: bool) -> None:
    user = home.config / "config.yaml"
    (home.config / "profiles.d").mkdir()
    user.rename(home.config / "profiles.d" / "prod.yaml")
    (home.config / "profiles.d" / "prod.yaml").write_text(login("127.0.0.1:1", f"password_file: {home.config / 'pw'}"))
    home.write_config(f"trusted_folders: ['{home.work}']\n")
    redirect = attacks(listener.address, Path())["another address for the user's login"]
    path = plant(home, f"profile: prod\n{redirect}")
    for ran in run_all(home, *(("--config", str(path)) if is_named else ())):
        assert ran.code in (1, 2), ran.stderr
        assert "needs sasl.username; protocol SASL_PLAINTEXT needs a password" in ran.stderr + ran.stdout
        assert f"takes its address and credentials from one file, {'config' if is_named else 'project'} {path}:2" in (
            ran.stderr
        )
    assert not listener.has(PASSWORD, "admin")


def test_a_trusted_folder_s_file_is_used_whole(home: Home) -> None:
    home.write_config(f"trusted_folders: [/elsewhere, '{home.work}']\nprofiles: {{p: {{request_timeout: 7s}}}}\n")
    path = plant(home, "profile: p\nprofiles: {p: {bootstrap_server: 'a:1'}}\n")
    shown = home.run("profile", "show", "-o", "json").json
    assert shown["profile_origin"] == f"project {path}:1"
    assert shown["values"]["bootstrap_server"] == {"value": "a:1", "origin": f"project {path}:2"}
    assert shown["values"]["request_timeout"]["value"] == "7s"


def test_trust_is_for_one_folder_and_only_the_user_s_file_gives_it(home: Home) -> None:
    deep = home.work / "checkout"
    deep.mkdir()
    (deep / "kafkakit.yaml").write_text(f"trusted_folders: ['{deep}']\nprofile: p\n")
    home.write_config(f"trusted_folders: ['{home.work}']\n")
    ran = home.at(deep).run("profile", "show")
    assert ran.code == 2
    assert "sets the default profile, which a project file may do only in a folder that you trust" in ran.stderr


def test_a_link_to_a_trusted_folder_is_that_folder(home: Home) -> None:
    link = home.folder / "link"
    link.symlink_to(home.work)
    home.write_config(f"trusted_folders: ['{link}']\n")
    plant(home, "profile: p\nprofiles: {p: {bootstrap_server: 'a:1'}}\n")
    assert home.run("profile", "show").code == 0


def test_what_is_no_part_of_the_connection_may_stand_in_a_project_file(home: Home) -> None:
    plant(home, "profiles: {prod: {request_timeout: 3s}}\n")
    values = home.run("profile", "show", "-o", "json").json["values"]
    assert values["request_timeout"]["value"] == "3s"
    assert values["bootstrap_server"]["value"] == "127.0.0.1:1"


@pytest.mark.parametrize(("text", "words"), [
    ("trusted_folders: [work]\n", "config.yaml:1: trusted_folders must hold absolute paths, found 'work'"),
    ("trusted_folders: {a: b}\n", "config.yaml:1: trusted_folders must be a text, found a mapping"),
    ("trusted_folder: [/a]\n", "unknown key 'trusted_folder'; did you mean trusted_folders?"),
])  # fmt: skip
def test_bad_trust_is_told(home: Home, text: str, words: str) -> None:
    home.write_config(text)
    assert words in home.run("profile", "list").stderr


@pytest.mark.parametrize("which", ["project", "user", "named", "properties"])
@pytest.mark.parametrize("mode", [0o666, 0o646])
def test_a_file_that_others_can_write_is_refused(home: Home, listener: Recorder, which: str, mode: int) -> None:
    text = f"profile: prod\nprofiles: {{prod: {login(listener.address, 'password_env: PW')}}}\n"
    path = home.write_config(text) if which == "user" else plant(home, text)
    if which == "properties":
        path.write_text(f"bootstrap.servers={listener.address}\n")
    path.chmod(mode)
    before = {"named": ("--config", str(path)), "properties": ("--command-config", str(path))}.get(which, ())
    ran = home.at(home.folder / "other").run(*before, "profile", "check") if before else home.run("profile", "check")
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == (
        f"error: {path}: can be written by other users (mode {mode:o}), who could redirect your credentials\n"
        f"hint: chmod go-w {path}\n"
    )
    assert listener.connections == 0


def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    def status(mode: int, uid: int, gid: int) -> os.stat_result:
        return os.stat_result((0o100000 | mode, 0, 0, 1, uid, gid, 0, 0, 0, 0))

    me, other = os.geteuid(), os.geteuid() + 1
    for uid in (0, me):
        refuse_unsafe(tmp_path, status(0o644, uid, 12345))
    refuse_unsafe(tmp_path, status(0o664, me, 0))
    refuse_unsafe(tmp_path, status(0o644, other, 12345), any_owner=True)
    with pytest.raises(InputError, match=f"belongs to another user \\(uid {other}\\)"):
        refuse_unsafe(tmp_path, status(0o600, other, 0))
    for any_owner in (False, True):
        with pytest.raises(InputError, match="can be written by other users"):
            refuse_unsafe(tmp_path, status(0o664, me, 12345), any_owner=any_owner)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file of another user")
def test_a_project_file_of_another_user_is_refused(home: Home) -> None:
    path = plant(home, "profiles: {}\n")
    os.chown(path, 4242, 4242)
    ran = home.run("profile", "list")
    assert (ran.code, ran.stdout) == (2, "")
    assert f"error: {path}: belongs to another user (uid 4242)" in ran.stderr
