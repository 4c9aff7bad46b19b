"""All rules of the kit, by code."""

from functools import cache
from types import ModuleType

from kafkakit.rules.families import (
    agent,
    brokers,
    compaction,
    connectors,
    connectors_data,
    drift,
    durability,
    durability_brokers,
    groups,
    kraft,
    linter,
    messages,
    placement,
    refused_settings,
    retention,
    retention_segments,
    security,
    tiering,
    validity,
    validity_versions,
)
from kafkakit.rules.rule import LintRule

FAMILIES: tuple[ModuleType, ...] = (
    agent, brokers, compaction, connectors, connectors_data, drift, durability, durability_brokers, groups, kraft,
    linter, messages, placement, refused_settings, retention, retention_segments, security, tiering, validity,
    validity_versions,
)  # fmt: skip


@cache
def all_rules() -> tuple[LintRule, ...]:
    """Every rule, sorted by code; `ValueError` when two have one code or one name."""
    rules = sorted((r for family in FAMILIES for r in rules_of(family)), key=lambda rule: rule.code)
    for part in ("code", "name"):
        names = [getattr(rule, part) for rule in rules]
        if len(set(names)) < len(names):
            raise ValueError(f"two rules have one {part}")
    return tuple(rules)


def rules_of(family: ModuleType) -> tuple[LintRule, ...]:
    """The rules of a module, in the order they stand there."""
    return tuple(value for value in vars(family).values() if isinstance(value, LintRule))
