"""`kafkakit profile`: stdout, stderr and exit code of each command."""

from pathlib import Path

import pytest

from tests.rigs.command_line import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.write_config("profiles:\n  prod: {bootstrap_server: 'p:1'}\n")
    home.write_config("bootstrap_server: s:1\n", "profiles.d/staging.yaml")
    return home


def test_list_marks_the_one_in_use(home: Home) -> None:
    assert home.run("profile", "use", "staging").code == 0
    ran = home.run("profile", "list")
    assert (ran.code, ran.stderr) == (0, "")
    assert [line.split()[:3] for line in ran.stdout.splitlines()] == [
        ["CURRENT", "NAME", "BOOTSTRAP-SERVER"],
        ["-", "prod", "p:1"],
        ["*", "staging", "s:1"],
    ]
    assert [(p["name"], p["current"]) for p in home.run("profile", "list", "-o", "json").json["profiles"]] == [
        ("prod", False),
        ("staging", True),
    ]


def test_list_survives_one_bad_file(home: Home) -> None:
    home.write_config("[", "profiles.d/broken.yaml")
    ran = home.run("profile", "list", "-o", "tsv")
    assert ran.code == 0
    assert [line.split("\t")[1] for line in ran.stdout.splitlines()] == ["broken", "prod", "staging"]
    assert "broken.yaml:1:2: not valid YAML" in ran.stderr
    assert home.run("profile", "show", "prod").code == 0


def test_list_without_profiles_says_so(tmp_path: Path) -> None:
    ran = Home(tmp_path).run("profile", "list")
    assert (ran.code, ran.stdout) == (0, "no profiles are configured; make one with: kafkakit sandbox up\n")
    assert Home(tmp_path).run("profile", "list", "-o", "tsv").stdout == ""


def test_show_in_text_names_values_and_origins(home: Home) -> None:
    ran = home.run("profile", "show", "prod")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.stdout.startswith("profile: prod (from argument)\n")
    assert f"p:1        user {home.config}/config.yaml:2\n" in ran.stdout


def test_show_without_a_profile_gives_the_defaults(home: Home) -> None:
    ran = home.run("profile", "show", "-o", "json")
    assert ran.json["profile"] is None
    assert ran.json["values"]["security.protocol"] == {"value": "PLAINTEXT", "origin": "default"}


def test_an_unknown_name_is_refused_with_the_nearest(home: Home) -> None:
    for words in (("use", "stagign"), ("show", "stagign"), ("check", "stagign")):
        ran = home.run("profile", *words)
        assert (ran.code, ran.stdout) == (2, "")
        assert ran.stderr.startswith("error: there is no profile 'stagign'; did you mean staging?\n")


def test_a_noted_profile_that_is_gone_is_told(home: Home) -> None:
    home.run("profile", "use", "staging")
    (home.config / "profiles.d" / "staging.yaml").unlink()
    ran = home.run("profile", "show")
    assert ran.code == 2
    assert "there is no profile 'staging'" in ran.stderr
    assert home.run("profile", "list").code == 0
    assert home.run("profile", "use", "prod").code == 0


@pytest.mark.parametrize("name", ["../evil", "", "a/b", "x" * 300])
def test_a_name_that_is_no_name_is_refused(home: Home, name: str) -> None:
    ran = home.run("profile", "use", name)
    assert (ran.code, ran.stdout) == (2, "")


def test_check_tells_that_nothing_answers(home: Home) -> None:
    ran = home.run("profile", "check", "prod", "-X", "bootstrap_server=127.0.0.1:1", "-X", "request_timeout=100ms")
    assert (ran.code, ran.stdout) == (75, "")
    assert ran.stderr.startswith("error: ")
    assert "127.0.0.1:1" in ran.stderr
