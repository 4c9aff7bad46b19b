"""Rules of an organisation: templates, and packages that the configuration names."""

from types import SimpleNamespace
from typing import Any

import pytest

from kafkakit.core.errors import InputError, UsageError
from kafkakit.lint import act as rules_module
from kafkakit.lint.decide.lint_config import TemplateRule, read_lint_config, template_rule
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
