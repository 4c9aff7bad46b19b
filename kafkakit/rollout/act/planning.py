"""Making a plan of a change of configuration from what an operator asks for and what the cluster has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kafkakit.core.errors import UsageError
from kafkakit.lint.api import LintRequest, Pieces, lint
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.rollout.act.reading import ClusterSettings
from kafkakit.rollout.decide.findings import findings_change
from kafkakit.rollout.decide.plan import ConfigPlan, make_plan
from kafkakit.rollout.decide.settings import WantedSetting, resolve
from kafkakit.rollout.decide.steps import StepSize
from kafkakit.rollout.decide.wanted import (
    ChangeScope,
    unmet,
    wanted_of_files,
    wanted_of_findings,
    wanted_of_live,
    wanted_of_words,
)

NO_SCOPE = ChangeScope()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTask:
    """What is asked for: words with their scope, files, findings of the live cluster, or a file of findings.

    `core` are the usual rules, whose findings are compared; `every` are all, among which findings are looked up.
    """

    words: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    scope: ChangeScope = NO_SCOPE
    files: tuple[Pieces, ...] = ()
    cluster_name: str | None = None
    findings: tuple[str, ...] = ()
    findings_file: tuple[str, bytes] | None = None
    size: StepSize = StepSize.GROW
    request: Mapping[str, str]
    profile: str | None = None
    core: LintRequest
    every: LintRequest


def plan_change(task: PlanTask, admin: ClusterAdmin, clock: Clock) -> ConfigPlan:
    """Read the cluster and make the plan; nothing is written. Raises `UsageError` for what cannot be asked for."""
    if not (task.words or task.deleted or task.files or task.findings or task.findings_file):
        raise UsageError("nothing is asked for", hint="give KEY=VALUE with a scope, --file, or --finding")
    read = ClusterSettings(admin, clock)
    live = read.pieces()
    wanted: list[WantedSetting] = [*wanted_of_words(task.words, task.deleted, task.scope, read.configs)]
    wanted += wanted_of_files(task.files, task.cluster_name, read.configs)
    if task.findings_file is not None:
        source, data = task.findings_file
        wanted += wanted_of_findings(data, source, task.findings, task.cluster_name)
    elif task.findings:
        usual, every = (lint((), [live], rules).unaccepted for rules in (task.core, task.every))
        wanted += wanted_of_live(usual, every, task.findings)
    resolved = resolve(wanted, read.configs)
    plan = make_plan(
        resolved,
        read.configs,
        findings_change(live, resolved, task.core),
        created_at=clock.now(),
        request=task.request,
        size=task.size,
        profile=task.profile,
    )
    return _with_warnings(plan, unmet(task.files, read.configs))


def _with_warnings(plan: ConfigPlan, warnings: Sequence[str]) -> ConfigPlan:
    return replace(plan, warnings=(*plan.warnings, *warnings)) if warnings else plan
