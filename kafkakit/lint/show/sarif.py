"""SARIF 2.1.0, as code scanning services read it."""

import json
from collections import Counter

from kafkakit.core.findings import Severity
from kafkakit.lint.decide.result import LintResult
from kafkakit.lint.show.rule_pages import page_of, rule_url
from kafkakit.rules.engine import Checked
from kafkakit.rules.rule import LintRule

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
MOST_RESULTS = 5_000
"""GitHub shows the first 5,000 results of a run; above it, those of one rule and file become one."""
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def sarif(result: LintResult, version: str) -> str:
    """The result as a SARIF log with one run."""
    groups = _groups(result)
    rules = sorted({c.rule for c in result.checked}, key=lambda rule: rule.code)
    index = {rule.code: number for number, rule in enumerate(rules)}
    log = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "kafkakit",
                        "version": version,
                        "rules": [_rule(rule, result.docs_url) for rule in rules],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(group, index) for group in groups],
            }
        ],
    }
    return json.dumps(log, indent=2, ensure_ascii=False) + "\n"


def _groups(result: LintResult) -> list[tuple[Checked, int]]:
    if len(result.checked) <= MOST_RESULTS:
        return [(checked, 1) for checked in result.checked]
    first: dict[tuple[str, str], Checked] = {}
    numbers: Counter[tuple[str, str]] = Counter()
    for checked in result.checked:
        f = checked.finding
        key = (f.rule, f.place.path if f.place else f.where)
        first.setdefault(key, checked)
        numbers[key] += 1
    return [(checked, numbers[key]) for key, checked in first.items()]


def _rule(rule: LintRule, docs_url: str) -> dict[str, object]:
    page = page_of(rule)
    return {
        "id": f"kafkakit/{rule.code}",
        "name": rule.name,
        "shortDescription": {"text": page.summary},
        "fullDescription": {"text": page.why or page.summary},
        **({"helpUri": rule_url(rule, docs_url)} if docs_url else {}),
        "help": {"text": page.text, "markdown": page.markdown},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": ["kafka", rule.family]},
    }


def _result(group: tuple[Checked, int], index: dict[str, int]) -> dict[str, object]:
    checked, number = group
    f = checked.finding
    more = f" (and {number - 1} more of this rule here)" if number > 1 else ""
    found: dict[str, object] = {
        "ruleId": f"kafkakit/{f.rule}",
        "ruleIndex": index[checked.rule.code],
        "level": _LEVELS[f.severity],
        "message": {"text": f"{f.message} ({f.where}){more}"},
        "partialFingerprints": {"kafkakit/v1": f.fingerprint},
    }
    if f.place is not None:
        found["locations"] = [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": f.place.path},
                    "region": {"startLine": f.place.line, "startColumn": f.place.column},
                },
                "logicalLocations": [{"name": f.where}],
            }
        ]
    else:
        found["locations"] = [{"logicalLocations": [{"name": f.where}]}]
    return found
