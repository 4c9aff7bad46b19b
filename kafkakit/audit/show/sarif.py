"""The findings of a run as SARIF, for code scanning services."""

from inspect import cleandoc

from kafkakit.audit.show.view import worst_first
from kafkakit.core.findings import AuditFinding, Severity
from kafkakit.report import MOST_RESULTS, SarifResult, SarifRule, grouped, sarif_log
from kafkakit.rules.audits.catalogue import audit_rules
from kafkakit.rules.catalogue import all_rules


def audit_sarif(findings: tuple[AuditFinding, ...], version: str, most: int = MOST_RESULTS) -> str:
    """A SARIF log with one run, worst first; above `most` findings those of one rule and cluster become one."""
    groups = grouped(worst_first(findings), lambda f: (f.rule, f.cluster), most)
    first = {f.rule: f for f, _ in reversed(groups)}
    rules = [_rule(code, first[code]) for code in sorted(first)]
    return sarif_log(version, rules, [_result(*group) for group in groups])


def _result(f: AuditFinding, number: int) -> SarifResult:
    owner = f" [owner: {f.owner}]" if f.owner else ""
    return SarifResult(
        code=f.rule,
        severity=Severity(f.severity),
        message=f"{f.message}{owner}",
        where=f.where,
        fingerprint=f.fingerprint,
        number=number,
    )


def _rule(code: str, finding: AuditFinding) -> SarifRule:
    """The rule of an audit, or of lint, or what a finding tells of one that neither has."""
    own = audit_rules().get(code)
    if own is not None:
        parts = own.about or own.name, own.risk, own.repair
    else:
        page = next((cleandoc(rule.page) for rule in all_rules() if rule.code == code), finding.hint)
        parts = page.partition("\n")[0], "", page
    summary, why, text = (part.strip() for part in parts)
    summary = summary or finding.name or code
    return SarifRule(
        code=code,
        name=finding.name or code,
        severity=own.severity if own is not None else Severity(finding.severity),
        summary=summary,
        why=why,
        text=text or summary,
        markdown=text or summary,
        family=code[:3],
    )
