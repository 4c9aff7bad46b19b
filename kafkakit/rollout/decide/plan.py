"""The plan of a change of configuration: what changes from what, in which steps, and what that does to findings."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from kafkakit.core.cluster_facts import ResourceKind
from kafkakit.core.cluster_id import cluster_id_problem
from kafkakit.core.documents import decode_document, encode_document
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.findings import Finding
from kafkakit.core.plan import PlanBroker
from kafkakit.rollout.decide.settings import ClusterConfigs, Resolved, SettingChange
from kafkakit.rollout.decide.steps import PlannedStep, StepSize, plan_steps
from kafkakit.rules.secrets import is_secret_key

PLAN_KIND = "config-plan"
LIMIT_BYTES = 64 << 20
MOST_CHANGES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFinding:
    """A finding of lint that the change ends or brings."""

    rule: str
    severity: str
    where: str
    message: str
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigPlan:
    """A decided change of configuration.

    `changes` are those that brokers take while they run, `restarts` those in files of brokers that are read at start;
    `steps` have all of them, in order. `rollback` takes everything back. `fingerprint` is over what the plan relies on,
    `hash` over what it does.
    """

    cluster_id: str
    profile: str | None = None
    created_at: datetime
    kafka_version: str | None = None
    request: Mapping[str, str]
    fingerprint: str
    hash: str
    brokers: tuple[PlanBroker, ...]
    changes: tuple[SettingChange, ...]
    restarts: tuple[SettingChange, ...] = ()
    steps: tuple[PlannedStep, ...] = ()
    rollback: tuple[SettingChange, ...] = ()
    findings_gone: tuple[PlanFinding, ...] = ()
    findings_new: tuple[PlanFinding, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def all_changes(self) -> tuple[SettingChange, ...]:
        """The changes of both kinds."""
        return (*self.changes, *self.restarts)

    @property
    def run_id(self) -> str:
        """What a run of the plan is called."""
        return self.hash.removeprefix("sha256:")[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingsChange:
    """The findings that go and come."""

    gone: tuple[Finding, ...] = ()
    new: tuple[Finding, ...] = ()


def make_plan(
    resolved: Resolved,
    configs: ClusterConfigs,
    findings: FindingsChange,
    *,
    created_at: datetime,
    request: Mapping[str, str],
    size: StepSize,
    profile: str | None,
) -> ConfigPlan:
    """The plan of what was resolved; raises `UsageError` for more than 10,000 changes."""
    if len(resolved.changes) + len(resolved.restarts) > MOST_CHANGES:
        raise UsageError(f"more than {MOST_CHANGES:,} changes in one plan", hint="name fewer topics")
    steps = plan_steps(resolved.changes, resolved.restarts, configs, size)
    everything = (*resolved.changes, *resolved.restarts)
    fingerprint = fingerprint_of(configs.cluster_id, everything)
    return ConfigPlan(
        cluster_id=configs.cluster_id,
        profile=profile,
        created_at=created_at,
        kafka_version=configs.version,
        request=request,
        fingerprint=fingerprint,
        hash=hash_of(fingerprint, steps),
        brokers=configs.brokers,
        changes=resolved.changes,
        restarts=resolved.restarts,
        steps=steps,
        rollback=tuple(c.undone for c in reversed(everything)),
        findings_gone=tuple(_finding(f) for f in findings.gone),
        findings_new=tuple(_finding(f) for f in findings.new),
        warnings=resolved.warnings,
    )


def without_restarts(plan: ConfigPlan) -> ConfigPlan:
    """The plan's changes that brokers take while they run."""
    steps = tuple(step for step in plan.steps if not step.restart)
    return replace(plan, restarts=(), steps=steps, hash=hash_of(plan.fingerprint, steps))


def fingerprint_of(cluster_id: str, changes: Iterable[SettingChange]) -> str:
    """Hash what a plan relies on: the cluster, and the value before of each setting. SHA-256, prefixed `sha256:`."""
    rows = [json.dumps([c.kind.value, c.name, c.key, c.before]) for c in changes]
    return _sha256(cluster_id, *sorted(rows))


def hash_of(fingerprint: str, steps: Iterable[PlannedStep]) -> str:
    """Hash what a plan relies on and what it does, in which steps."""
    rows = [
        json.dumps([number, step.restart, c.kind.value, c.name, c.key, c.before, c.after])
        for number, step in enumerate(steps)
        for c in step.changes
    ]
    return _sha256(fingerprint, *rows)


def changed_since(plan: ConfigPlan, live: ClusterConfigs) -> tuple[str, ...]:
    """What is set otherwise than the plan relies on, in words; none for a plan that fits."""
    return tuple(
        f"{c.where} {c.key} is {shown(c.key, now)}, the plan was made with {shown(c.key, c.before)}"
        for c in plan.all_changes
        if (now := live_value(live, c)) != c.before
    )


def live_value(live: ClusterConfigs, change: SettingChange) -> str | None:
    """What is set now where a change is to be made."""
    gone = change.kind is ResourceKind.TOPIC and change.name not in live.topics
    return "no topic" if gone else live.value(change.kind, change.name, change.key)


def encode_config_plan(plan: ConfigPlan) -> bytes:
    """Encode a plan file."""
    return encode_document(PLAN_KIND, plan)


def decode_config_plan(data: bytes, source: str) -> ConfigPlan:
    """Decode a plan file; `InputError` for one that was changed by hand, holds secrets, or is none."""
    plan = decode_document(data, PLAN_KIND, ConfigPlan, source)
    if (problem := cluster_id_problem(plan.cluster_id)) is not None:
        raise InputError(source, problem)
    sound = plan.fingerprint == fingerprint_of(plan.cluster_id, plan.all_changes)
    if not sound or plan.hash != hash_of(plan.fingerprint, plan.steps):
        raise InputError(source, "its hash does not fit its changes", hint="make the plan again: kafkakit config plan")
    if any(is_secret_key(c.key) for c in plan.all_changes):
        raise InputError(source, "holds a setting that is a secret")
    return plan


def shown(key: str, value: str | None) -> str:
    """A value for people."""
    return "not set" if value is None else "[hidden]" if is_secret_key(key) else value if value else "empty"


def _finding(found: Finding) -> PlanFinding:
    return PlanFinding(
        rule=found.rule,
        severity=found.severity.value,
        where=found.where,
        message=found.message,
        fingerprint=found.fingerprint,
    )


def _sha256(*rows: str) -> str:
    return f"sha256:{hashlib.sha256(chr(10).join(rows).encode()).hexdigest()}"
