"""Making a plan of a change of configuration from what an operator asks for and what the cluster has."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kafkakit.core.broker_list import parse_broker_list
from kafkakit.core.errors import UsageError
from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.query.clusters import BROKER_KEYS, broker_table, brokers_where, why_none
from kafkakit.core.query.columns import tag_keys
from kafkakit.core.tags import TagSet
from kafkakit.lint.api import LintRequest, Pieces, lint
from kafkakit.lint.api_act import with_topics
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


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPlaces:
    """Topics and brokers in the notation of the command line, a text for each time that the option is given."""

    topics: tuple[str, ...] = ()
    brokers: tuple[str, ...] = ()
    all_brokers: bool = False
    cluster_default: bool = False


NO_PLACES = NamedPlaces()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTask:
    """What is asked for: words with their scope, files, findings of the live cluster, or a file of findings.

    `core` are the usual rules, whose findings are compared; `every` are all, among which findings are looked up.
    """

    words: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    places: NamedPlaces = NO_PLACES
    files: tuple[Pieces, ...] = ()
    cluster_name: str | None = None
    findings: tuple[str, ...] = ()
    findings_file: tuple[str, bytes] | None = None
    size: StepSize = StepSize.GROW
    request: Mapping[str, str]
    profile: str | None = None
    core: LintRequest
    every: LintRequest


def plan_change(
    task: PlanTask, admin: ClusterAdmin, clock: Clock, read_tags: Callable[[], TagSet] = TagSet
) -> ConfigPlan:
    """Read the cluster and make the plan; nothing is written. Raises `UsageError` for what cannot be asked for.

    Tags are read where a query needs them.
    """
    if not (task.words or task.deleted or task.files or task.findings or task.findings_file):
        raise UsageError("nothing is asked for", hint="give KEY=VALUE with a scope, --file, or --finding")
    read = ClusterSettings(admin, clock)
    live = read.pieces()
    scope = scope_of(task.places, read.snapshot, read_tags)
    wanted: list[WantedSetting] = [*wanted_of_words(task.words, task.deleted, scope, read.configs)]
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


def scope_of(places: NamedPlaces, snapshot: ClusterSnapshot, read_tags: Callable[[], TagSet]) -> ChangeScope:
    """The topics and brokers that are meant; `UsageError` where a text means none."""
    if places.topics and not snapshot.topics:
        raise UsageError(
            f"cluster {snapshot.cluster_id} shows no topic: it has none, or this user may not see them",
            hint="it needs DESCRIBE on the topics",
        )
    topics = {t.name for text in places.topics for t in with_topics(snapshot, text, read_tags).topics}
    brokers = {broker for text in places.brokers for broker in _brokers(text, snapshot, read_tags)}
    return ChangeScope(
        topics=tuple(sorted(topics)),
        brokers=tuple(sorted(brokers)),
        all_brokers=places.all_brokers,
        cluster_default=places.cluster_default,
    )


def _brokers(text: str, snapshot: ClusterSnapshot, read_tags: Callable[[], TagSet]) -> Sequence[int]:
    wanted = parse_broker_list(text)
    if wanted.where is None:
        holding = frozenset(b for t in snapshot.topics for p in t.partitions for b in p.replicas)
        return wanted.resolve(holding, frozenset(b.id for b in snapshot.brokers if b.is_alive))
    if tag_keys(wanted.where, BROKER_KEYS):
        snapshot = replace(snapshot, tags=read_tags())
    found = brokers_where(snapshot, wanted.where)
    if not found:
        error = UsageError(f"no broker matches {text!r:.200}")
        error.lines = why_none(wanted.where, broker_table(snapshot))
        raise error
    return found


def _with_warnings(plan: ConfigPlan, warnings: Sequence[str]) -> ConfigPlan:
    return replace(plan, warnings=(*plan.warnings, *warnings)) if warnings else plan
