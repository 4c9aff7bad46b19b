"""Files of wanted tags, as commands use them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkakit.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkakit.registry.client import RegistryClient
    from kafkakit.registry.decide.changes import PlannedChanges
    from kafkakit.registry.decide.desired import DesiredTags


def read_prefixes(prune: Sequence[str] | None) -> tuple[str, ...]:
    """The prefixes of `--prune`; `UsageError` for an empty one, which all keys begin with."""
    if prune and not all(prune):
        raise UsageError("--prune: the prefix is empty, so every other tag would be deleted")
    return tuple(prune or ())


def desired_changes(client: RegistryClient, desired: DesiredTags, prefixes: Sequence[str]) -> PlannedChanges:
    """What has to change for the rules, on the objects as they are now."""
    from kafkakit.registry.decide.desired import brokers_named, plan_desired
    from kafkakit.registry.decide.tags import Kind

    topics = client.topics() if Kind.TOPIC in desired.rules else {}
    brokers = client.brokers() if Kind.BROKER in desired.rules else {}
    down = client.down_brokers(brokers_named(desired) - brokers.keys())
    return plan_desired(desired, topics, brokers, down, prefixes)
