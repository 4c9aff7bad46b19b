"""The repairs of findings as one change: settings by cluster and resource, and command lines."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from kafkakit.core.findings import AuditFinding

_SETTING = re.compile(r"([a-z][a-z0-9.]*)=(.*)")
_COMMAND = "kafkakit "
TOPIC, BROKER, CLUSTER = "topic", "broker", "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repairs:
    """What the repairs of findings change.

    `settings` are by cluster, then by resource (its kind and its name, empty for the cluster's defaults), then by key;
    `rules` names by the same resource the rules that ask for it. `commands` are command lines, worst first. `left_out`
    says in sentences which repairs are not part of it.
    """

    settings: dict[str, dict[tuple[str, str], dict[str, str]]] = field(default_factory=dict)
    rules: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)
    commands: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def collect_repairs(findings: Iterable[AuditFinding], cluster: str | None = None) -> Repairs:
    """The repairs of findings, worst first, of one cluster or of all; where two ask for different values, the first."""
    made = Repairs()
    commands: dict[str, None] = {}
    left_out: dict[str, None] = {}
    for f in findings:
        if not f.repair or (cluster is not None and f.cluster != cluster):
            continue
        lines = [line.strip() for line in f.repair.splitlines() if line.strip()]
        if all(line.startswith(_COMMAND) for line in lines):
            commands.update(dict.fromkeys(lines))
            continue
        resource, found = _resource(f), [_SETTING.fullmatch(line) for line in lines]
        if resource is None or not all(found):
            left_out[f"{f.rule} at {f.where}: {' '.join(lines)} is no change of a topic, a broker or a cluster"] = None
            continue
        settings = made.settings.setdefault(f.cluster, {}).setdefault(resource, {})
        for key, value in (match.groups() for match in found if match):
            if settings.setdefault(key, value) != value:
                left_out[f"{f.rule} at {f.where}: {key}={value} is not taken, a worse finding asks for "
                         f"{settings[key]}"] = None  # fmt: skip
        rules = made.rules.setdefault((f.cluster, *resource), [])
        if f.rule not in rules:
            rules.append(f.rule)
    return Repairs(settings=made.settings, rules=made.rules, commands=tuple(commands), left_out=tuple(left_out))


def _resource(finding: AuditFinding) -> tuple[str, str] | None:
    """The resource whose setting a finding is about; a partition's are those of its topic."""
    kind, _, name = finding.where.removesuffix(f" of {finding.cluster}").partition(" ")
    if kind == "partition":
        return TOPIC, name.rpartition("-")[0]
    if kind == CLUSTER:
        return CLUSTER, ""
    if kind == BROKER and name.isdecimal():
        return BROKER, name
    return (TOPIC, name) if kind == TOPIC else None
