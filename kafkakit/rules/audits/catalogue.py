"""All rules that only audits of a fleet have; those that lint has too keep its codes, pages and thresholds."""

from collections.abc import Mapping

from kafkakit.core.findings import Rule
from kafkakit.rules.audits import capacity, delivery, drift, segments

RULES: tuple[tuple[Rule, ...], ...] = (
    capacity.CAPACITY_RULES, drift.RULES, capacity.HOTSPOT_RULES, delivery.LAG_RULES, delivery.MIRROR_RULES,
    segments.RULES,
)  # fmt: skip
"""The `RULES` of each module of this package."""


def audit_rules() -> Mapping[str, Rule]:
    """The rules by code."""
    return {rule.code: rule for rules in RULES for rule in rules}
