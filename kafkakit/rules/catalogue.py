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
    refused,
    retention,
    retention_segments,
    security,
    validity,
    validity_versions,
)
from kafkakit.rules.families import brokers as brokers_handles
from kafkakit.rules.families import connectors as connectors_worker
from kafkakit.rules.families import drift as drift_between
from kafkakit.rules.families import drift as drift_load
from kafkakit.rules.families import durability as durability_state
from kafkakit.rules.families import durability_brokers as durability_internal
from kafkakit.rules.families import linter as files
from kafkakit.rules.families import messages as messages_data
from kafkakit.rules.families import placement as placement_use
from kafkakit.rules.families import retention as retention_load
from kafkakit.rules.families import tiering as tiering_advice
from kafkakit.rules.families import tiering as tiering_refused
from kafkakit.rules.families import validity as validity_names
from kafkakit.rules.rule import LintRule

FAMILIES: tuple[ModuleType, ...] = (
    agent, brokers, brokers_handles, compaction, connectors, connectors_data, connectors_worker, drift, drift_between,
    drift_load, durability, durability_brokers, durability_internal, durability_state, files, groups, kraft, linter,
    messages, messages_data, placement, placement_use, refused, retention, retention_load, retention_segments,
    security, tiering_advice, tiering_refused, validity, validity_names, validity_versions,
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
