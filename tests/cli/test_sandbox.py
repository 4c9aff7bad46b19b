"""`kafkakit sandbox` where it refuses before anything is started."""

import pytest

from kafkakit.sandbox.decide.workload import demo_environment
from tests.rigs.command_line import Home


def test_up_refuses_the_name_of_a_profile_that_would_win_over_its_own(home: Home) -> None:
    path = home.write_config("profiles:\n  prod: {bootstrap_server: 'p:1'}\n")
    ran = home.run("sandbox", "up", "--name", "prod")
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr == f"error: profile prod is defined in {path} already\nhint: choose another --name\n"
    assert not home.state.exists()


@pytest.mark.parametrize(
    ("words", "name"), [("sandbox demo", "mine"), ("streams demo", "mine-a"), ("streams demo", "mine-b")]
)
def test_a_demo_refuses_a_sandbox_that_is_there_already(words: str, name: str, home: Home) -> None:
    folder = home.state / "sandbox" / name
    folder.mkdir(parents=True)
    (folder / "state.json").write_text("{}")
    ran = home.run(*words.split(), "--name", "mine")
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"error: there is a sandbox {name} already, and the demo would remove it\n")
    assert (folder / "state.json").exists()


def test_the_demo_leaves_addresses_of_other_clusters_out() -> None:
    given = dict.fromkeys(("KAFKAKIT_BOOTSTRAP_SERVER", "TOPICMAPPR_KAFKA_ADDR", "KAFKAKIT_STATE_DIR", "PATH"), "x")
    assert demo_environment(given) == {"KAFKAKIT_STATE_DIR": "x", "PATH": "x"}


def test_down_clears_the_default_profile_that_was_the_sandboxs(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.write_config("profiles:\n  prod: {bootstrap_server: 'p:1'}\n")
    names = {"box", "box-guest"}
    from kafkakit.config.read.settings import GivenSettings, open_profiles

    for name, value in home.environment({}).items():
        monkeypatch.setenv(name, value)
    profiles = open_profiles(GivenSettings(), lambda _: None)
    profiles.use("prod")
    assert profiles.forget(names) is None
    assert "prod" in home.run("profile", "list").stdout
    profiles.use("box")
    assert profiles.forget(names) == "box"
    assert home.run("profile", "show").code == 0
