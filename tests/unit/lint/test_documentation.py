"""What docs/lint.md says is true: its commands run, its CI jobs parse, its configuration is read."""

import json
import re
import shlex

import pytest
import yaml

from kafkakit.lint.decide.lint_config import LintSettings, read_lint_config
from kafkakit.rules.catalogue import all_rules
from tests.places import ROOT
from tests.rigs.command_line import Home
from tests.rigs.lint_runs import read

PAGE = (ROOT / "docs/lint.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL)
TOPIC = "kafkakit: cluster\ntopics:\n- {name: a, partitions: 3, replication_factor: 3}\n"


def block(start: str) -> str:
    return next(str(text) for _, text in BLOCKS if text.startswith(start))


def lint_commands() -> list[str]:
    commands = [line for _, text in BLOCKS for line in text.splitlines()]
    found = [re.sub(r"^\s*-?\s*(?:run:)?\s*", "", line) for line in commands if "kafkakit lint" in line]
    return [re.sub(r"\s+#.*", "", line) for line in found if line.startswith("kafkakit lint")]


@pytest.mark.parametrize("command", lint_commands())
def test_the_commands_of_the_page_run(command: str, tmp_path: object) -> None:
    home = Home(tmp_path)  # type: ignore[arg-type]
    for folder in ("clusters", "topics"):
        (home.work / folder).mkdir(parents=True)
        (home.work / folder / "a.yaml").write_text(TOPIC)
    (home.work / "server.properties").write_text("process.roles=broker\nnode.id=1\n")
    ran = home.run(*shlex.split(command)[1:])
    assert ran.code in (0, 1), ran.stderr
    assert ran.stderr == "" or ran.code == 0


def test_the_jobs_of_ci_parse_and_keep_the_report_when_lint_fails() -> None:
    job = yaml.safe_load(block("jobs:"))["jobs"]["lint"]
    upload = job["steps"][-1]
    assert upload["if"] == "always()"
    assert upload["with"]["sarif_file"] == "lint.sarif"
    gitlab = yaml.safe_load(block("lint-kafka:"))["lint-kafka"]
    assert gitlab["artifacts"]["when"] == "always"
    assert set(gitlab["artifacts"]["reports"]) == {"codequality", "junit"}


def test_the_hooks_are_those_of_the_repository() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    named = {hook["id"] for repo in yaml.safe_load(block("repos:"))["repos"] for hook in repo["hooks"]}
    assert named == {hook["id"] for hook in hooks}
    assert all(shlex.split(hook["entry"])[:2] == ["kafkakit", "lint"] for hook in hooks)


def test_the_configuration_of_the_page_is_read_and_names_only_rules_that_exist() -> None:
    config = read_lint_config(read({"k.yaml": block("kafkakit: lint")})[0].document, all_rules(), lambda names: ())
    assert config.problems == ()
    assert config.settings != LintSettings()
    assert json.dumps(sorted(config.severities()))


def test_the_output_in_the_page_is_real() -> None:
    blocks = re.findall(
        r"```console\n\$ (kafkakit lint [^\n]*)\n(.*?)```", (ROOT / "docs/lint.md").read_text(), re.DOTALL
    )
    assert blocks
    home = Home(ROOT).at(ROOT / "tests/cases/lint/readme")
    for command, text in blocks:
        assert home.run(*shlex.split(command)[1:]).stdout == text
