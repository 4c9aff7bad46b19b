"""A result of lint as SARIF."""

from kafkakit.lint.decide.result import LintResult
from kafkakit.lint.show.rule_pages import page_of, rule_url
from kafkakit.report import MOST_RESULTS, SarifResult, SarifRule, grouped, sarif_log
from kafkakit.rules.engine import Checked
from kafkakit.rules.rule import LintRule


def sarif(result: LintResult, version: str) -> str:
    """The result as a SARIF log with one run; above 5,000 findings those of one rule and file become one."""
    rules = sorted({c.rule for c in result.checked}, key=lambda rule: rule.code)
    groups = grouped(result.checked, _rule_and_file, MOST_RESULTS)
    return sarif_log(version, [_rule(rule, result.docs_url) for rule in rules], [_result(*group) for group in groups])


def _rule_and_file(checked: Checked) -> tuple[str, str]:
    f = checked.finding
    return f.rule, f.place.path if f.place else f.where


def _rule(rule: LintRule, docs_url: str) -> SarifRule:
    page = page_of(rule)
    return SarifRule(
        code=rule.code,
        name=rule.name,
        severity=rule.severity,
        summary=page.summary,
        why=page.why,
        text=page.text,
        markdown=page.markdown,
        family=rule.family,
        url=rule_url(rule, docs_url),
    )


def _result(checked: Checked, number: int) -> SarifResult:
    f = checked.finding
    return SarifResult(
        code=f.rule,
        severity=f.severity,
        message=f.message,
        where=f.where,
        fingerprint=f.fingerprint,
        number=number,
        place=f.place,
    )
