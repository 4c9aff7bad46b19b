"""Rules of an organisation; what docs/lint.md says is true."""

import json
import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from kafkakit.core.errors import InputError, UsageError
from kafkakit.lint import act as rules_module
from kafkakit.lint.commands import LintFormat
from kafkakit.lint.decide.lint_config import LintSettings, TemplateRule, read_lint_config, template_rule
from kafkakit.rules.catalogue import all_rules
from tests.places import ROOT
from tests.rigs.command_line import Home
from tests.rigs.lint_runs import RULES, linted, no_zero_retention, read

TOPICS = """kafkakit: cluster
topics:
- {name: small, config: {retention.ms: '1000', segment.ms: '500', cleanup.policy: delete}}
- {name: large, config: {retention.ms: '9000', segment.ms: '9000', cleanup.policy: compact}}
- {name: bare}
"""


def found(**given: Any) -> list[str]:
    rule = template_rule(
        TemplateRule(**({"code": "ORG001", "name": "a-rule", "key": "retention.ms"} | given)), "config"
    )
    run = linted(TOPICS, rules=(rule,), known=(rule,))
    return [c.finding.where.removeprefix("topic ") for c in run.result.checked]


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"template": "range", "max": 5000}, ["large", "bare"]),
        ({"template": "range", "max": 9000}, ["bare"]),
        ({"template": "range", "min": 1001, "names": "s.*"}, ["small"]),
        ({"template": "one-of", "key": "cleanup.policy", "values": ("delete",)}, ["large"]),
        ({"template": "regex", "key": "cleanup.policy", "pattern": "comp.*"}, ["small", "bare"]),
        ({"template": "required"}, ["bare"]),
        ({"template": "forbidden"}, ["small", "large"]),
        ({"template": "ratio", "peer": "segment.ms", "min": 2}, ["large", "bare"]),
        ({"template": "ratio", "peer": "segment.ms", "max": 1.5}, ["small"]),
        ({"template": "equals-peer", "peer": "segment.ms"}, ["small"]),
    ],
)
def test_a_template_reports_what_breaks_it(given: dict[str, Any], wrong: list[str]) -> None:
    assert sorted(found(**given)) == sorted(wrong)


def test_a_template_prints_no_secret() -> None:
    rule = template_rule(
        TemplateRule(
            code="ORG001", name="a-rule", template="regex", key="ssl.key.password", pattern="x", subject="broker"
        ),
        "config",
    )
    text = "kafkakit: cluster\nbrokers:\n- {id: 1, config: {ssl.key.password: s3cr3t-9}}\n"
    (checked,) = linted(text, rules=(rule,), known=(rule,)).result.checked
    assert "s3cr3t-9" not in str(checked.finding)


def plugins(monkeypatch: pytest.MonkeyPatch, *loaded: object) -> None:
    def entry_points(group: str, name: str) -> list[object]:
        assert group == "kafkakit.lint_rules"
        if name != "mine":
            return []
        return [SimpleNamespace(value=f"mine:{item!r:.10}", load=lambda item=item: _loaded(item)) for item in loaded]

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)


def _loaded(item: object) -> object:
    if isinstance(item, Exception):
        raise item
    return item


def config(text: str) -> Any:
    return read_lint_config(read({"k.yaml": text})[0].document, RULES[:2], rules_module._of_packages)


def test_a_package_adds_its_rules_where_the_configuration_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    plugins(monkeypatch, [no_zero_retention])
    assert no_zero_retention in config("plugins: [mine]").rules
    assert no_zero_retention not in config("rules: core").rules


@pytest.mark.parametrize("loaded", [ImportError("gone"), ["no rule"], 5])
def test_a_package_that_cannot_be_used_is_an_error_of_input(monkeypatch: pytest.MonkeyPatch, loaded: object) -> None:
    plugins(monkeypatch, loaded)
    with pytest.raises(InputError):
        config("plugins: [mine]")
    with pytest.raises(UsageError, match="no installed package"):
        config("plugins: [other]")


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


BY_CONTENT = {
    "nothing": TOPIC.replace("}", ", config: {min.insync.replicas: '2'}}"),
    "notes": TOPIC.replace("3}\n", "3, config: {min.insync.replicas: '2', max.message.bytes: '5000000'}}\n"),
    "warnings": TOPIC.replace("}", ", config: {min.insync.replicas: '3'}}"),
    "errors": TOPIC.replace("}", ", config: {retention.ms: 7d}}"),
    "not read": "env: {KAFKA_BOOTSTRAP_SERVERS: k}\n",
}


def jobs_of_the_page() -> list[tuple[str, list[str]]]:
    rows = re.findall(r"^\|[^|]*\| `(kafkakit lint [^`|]* FILE)` \|((?: \d \|)+)$", PAGE, re.MULTILINE)
    return [(str(command), re.findall(r"\d", codes)) for command, codes in rows]


@pytest.mark.parametrize(("command", "codes"), jobs_of_the_page())
def test_a_job_of_ci_ends_with_the_code_of_the_page(tmp_path: Path, command: str, codes: list[str]) -> None:
    home = Home(tmp_path)
    assert len(codes) == len(BY_CONTENT)
    ended = []
    for text in BY_CONTENT.values():
        home.work.mkdir(parents=True, exist_ok=True)
        (home.work / "file.yaml").write_text(text)
        home.run("lint", "--fail-on", "never", "--write-baseline", "lint-baseline.json", "file.yaml")
        ended.append(str(home.run(*shlex.split(command.replace("FILE", "file.yaml"))[1:]).code))
    assert ended == codes


def test_the_page_has_a_job_for_each_format() -> None:
    commands = " ".join(command for command, _ in jobs_of_the_page())
    assert set(re.findall(r"-o (\w+)", commands)) == {form.value for form in LintFormat}
    assert f"| {' | '.join(BY_CONTENT)} |" in PAGE


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


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tsconfig.json", '{\n  // strict\n  "compilerOptions": {}\n}\n'),
        ("service.yaml", "apiVersion: v1\nmetadata:\n  name: {{ .Release.Name }}\n"),
        ("ci.yaml", "name: x\nstep: 1\nstep: 2\n"),
        ("messages.properties", "a=1\na=2\n"),
        ("app.yaml", "env: {KAFKA_BOOTSTRAP_SERVERS: k}\n"),
    ],
)
def test_the_hook_for_changed_files_passes_over_those_of_other_tools(tmp_path: Path, name: str, text: str) -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    (entry,) = (hook["entry"] for hook in hooks if hook.get("pass_filenames", True))
    home = Home(tmp_path)
    home.work.mkdir(parents=True)
    (home.work / name).write_text(text)
    ran = home.run(*shlex.split(entry)[1:], name)
    assert ran.code == 0, ran.stdout
    assert ran.stdout.splitlines()[0].startswith(f"{name}:")
    assert "KKL007" in ran.stdout.splitlines()[0]
    assert home.run("lint", name).code == 2


def test_the_hook_for_changed_files_judges_each_on_its_own(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.work.mkdir(parents=True)
    for number, value in ((1, "true"), (2, "false")):
        text = f"process.roles=broker\nnode.id={number}\nauto.create.topics.enable={value}\n"
        (home.work / f"server-{number}.properties").write_text(text)
    words = ("lint", "--select", "KKX003", ".")
    assert (home.run(*words).code, home.run(*words, "--each").code) == (1, 0)


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
