"""Each rule's page says why and whence, and its examples trigger the rule and do not."""

import pytest

from kafkakit.rules.catalogue import all_rules
from kafkakit.rules.engine import OF_DEFAULTS
from kafkakit.rules.rule import Limits, LintRule
from tests.rigs.lint_examples import codes_of, files_of, outcome_of, page_parts

EACH_RULE = pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
STRICT = Limits(strict=True)


@EACH_RULE
def test_a_page_tells_what_why_and_whence(rule: LintRule) -> None:
    parts = page_parts(rule.page)
    assert parts[""], f"{rule.code} has no first sentence"
    assert parts[""].splitlines()[0].endswith("."), f"{rule.code}: the first line is no sentence"
    for title in ("Why", "Source", "Bad", "Good"):
        assert parts.get(title), f"{rule.code} has no part {title}:"


@EACH_RULE
def test_the_bad_example_triggers_the_rule(rule: LintRule) -> None:
    found = outcome_of(files_of(page_parts(rule.page)["Bad"]), limits=STRICT)
    assert rule.code in codes_of(found), f"{rule.code}: found only {codes_of(found)}, skipped {found.skipped}"


@EACH_RULE
def test_the_good_example_does_not_trigger_the_rule(rule: LintRule) -> None:
    found = outcome_of(files_of(page_parts(rule.page)["Good"]), limits=STRICT)
    assert rule.code not in codes_of(found)
    assert rule.code not in found.skipped, f"{rule.code} could not check its good example: {found.skipped[rule.code]}"


def test_a_rule_that_places_findings_about_defaults_is_asked_about_them() -> None:
    placing = {rule.code for rule in all_rules() if rule.of_defaults}
    assert placing
    assert placing == {code for code in placing if code.startswith(OF_DEFAULTS)}
