"""SARIF 2.1.0, as code scanning services read it: rules and results of any check as one log."""

import json
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kafkakit.core.findings import Place, Severity

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
MOST_RESULTS = 5_000
"""GitHub shows the first 5,000 results of a run."""
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SarifRule:
    """A rule as its service shows it; without `url` it has no link."""

    code: str
    name: str
    severity: Severity
    summary: str
    why: str
    text: str
    markdown: str
    family: str
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SarifResult:
    """One finding, or `number` findings of one rule in one place, of which this is the first."""

    code: str
    severity: Severity
    message: str
    where: str
    fingerprint: str
    number: int = 1
    place: Place | None = None


def grouped(items: Sequence[T], key: Callable[[T], Hashable], most: int) -> list[tuple[T, int]]:
    """Each item with the number 1; where there are more than `most`, the first of each key and how many there are."""
    if len(items) <= most:
        return [(item, 1) for item in items]
    first: dict[Hashable, T] = {}
    numbers: Counter[Hashable] = Counter()
    for item in items:
        first.setdefault(key(item), item)
        numbers[key(item)] += 1
    return [(item, numbers[found]) for found, item in first.items()]


def sarif_log(version: str, rules: Sequence[SarifRule], results: Iterable[SarifResult]) -> str:
    """A SARIF log with one run; `rules` has the rule of each result."""
    index = {rule.code: number for number, rule in enumerate(rules)}
    driver = {"name": "kafkakit", "version": version, "rules": [_rule(rule) for rule in rules]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(result, index[result.code]) for result in results],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def _rule(rule: SarifRule) -> dict[str, object]:
    return {
        "id": f"kafkakit/{rule.code}",
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why or rule.summary},
        **({"helpUri": rule.url} if rule.url else {}),
        "help": {"text": rule.text, "markdown": rule.markdown},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": ["kafka", rule.family]},
    }


def _result(result: SarifResult, rule_index: int) -> dict[str, object]:
    more = f" (and {result.number - 1} more of this rule here)" if result.number > 1 else ""
    location: dict[str, object] = {"logicalLocations": [{"name": result.where}]}
    if result.place is not None:
        physical = {
            "artifactLocation": {"uri": result.place.path},
            "region": {"startLine": result.place.line, "startColumn": result.place.column},
        }
        location = {"physicalLocation": physical, **location}
    return {
        "ruleId": f"kafkakit/{result.code}",
        "ruleIndex": rule_index,
        "level": _LEVELS[result.severity],
        "message": {"text": f"{result.message} ({result.where}){more}"},
        "partialFingerprints": {"kafkakit/v1": result.fingerprint},
        "locations": [location],
    }
