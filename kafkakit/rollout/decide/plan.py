"""The plan of a change of configuration: what is asked for, what changes from what, in which steps, with which
findings.

* What is asked for comes from words of the command line, from files that lint reads, and from findings of lint.
* Which findings a change ends and which it brings is found by running the rules on the state before and after it.
* Two states of configuration can be compared: of clusters, of files, and of a cluster at an earlier time.
* A rehearsal has the plan for a mirrored cluster, and says in what that cluster is unlike.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import msgspec

from kafkakit.core.cluster_facts import CLUSTER_DEFAULT, ConfigLayer, ResourceKind, cluster_id_problem
from kafkakit.core.documents import decode_document, decode_json, encode_document
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.findings import NAMED_IN_WHERE, Finding, Severity
from kafkakit.core.findings import fingerprint_of as fingerprint_of_finding
from kafkakit.core.plan import PlanBroker
from kafkakit.execution.decide.journal import ConfigKey, run_id_of
from kafkakit.lint.api import LintRequest, Pieces, lint
from kafkakit.rollout.decide.settings import (
    ALL_BROKERS,
    FIXED,
    IDENTITY,
    ChangeScope,
    ClusterConfigs,
    PlannedStep,
    ResolvedSettings,
    SettingChange,
    StepChoice,
    StepSize,
    WantedSetting,
    is_same,
    parse_steps,
    plan_steps,
    pool_jumps,
    resolve,
    where_of,
)
from kafkakit.rules.config_defs import minor_or_none
from kafkakit.rules.effective import Configs, DeclaredValue, ValueSource
from kafkakit.rules.engine import RuleFinding
from kafkakit.rules.rule import Edit
from kafkakit.rules.values import HIDDEN, is_secret_key

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
    def errors(self) -> tuple[PlanFinding, ...]:
        """The findings of level error that the change brings, such as values that brokers refuse."""
        return tuple(f for f in self.findings_new if f.severity == Severity.ERROR)

    @property
    def run_id(self) -> str:
        """What a run of the plan is called."""
        return run_id_of(self.hash, 12)


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingsChange:
    """The findings that go and come."""

    gone: tuple[Finding, ...] = ()
    new: tuple[Finding, ...] = ()


def make_plan(
    resolved: ResolvedSettings,
    configs: ClusterConfigs,
    findings: FindingsChange,
    *,
    created_at: datetime,
    request: Mapping[str, str],
    size: StepChoice,
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
        findings_gone=tuple(_plan_finding(f) for f in findings.gone),
        findings_new=tuple(_plan_finding(f) for f in findings.new),
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
        f"{c.where} {c.key} is {show_value(c.key, now)}, the plan was made with {show_value(c.key, c.before)}"
        for c in plan.all_changes
        if (now := live_value(live, c)) != c.before
    )


def unanswering_brokers(plan: ConfigPlan, live: ClusterConfigs) -> tuple[int, ...]:
    """The brokers that take changes of the plan while they run, the cluster default included, and do not answer."""
    names = {c.name for c in plan.changes if c.kind is ResourceKind.BROKER}
    wanted = {b.id for b in plan.brokers if CLUSTER_DEFAULT in names or str(b.id) in names}
    return tuple(sorted(wanted - live.in_force.keys()))


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
    if fixed := [c.key for c in plan.all_changes if c.kind is ResourceKind.BROKER and c.key in FIXED]:
        raise InputError(source, f"holds {fixed[0]}, which is never changed on a broker")
    return plan


def show_value(key: str, value: str | None) -> str:
    """A value for people."""
    return "not set" if value is None else "[hidden]" if is_secret_key(key) else value if value else "empty"


def _plan_finding(found: Finding) -> PlanFinding:
    return PlanFinding(
        rule=found.rule,
        severity=found.severity.value,
        where=found.where,
        message=found.message,
        fingerprint=found.fingerprint,
    )


def _sha256(*rows: str) -> str:
    return f"sha256:{hashlib.sha256(chr(10).join(rows).encode()).hexdigest()}"


FINDINGS_LIMIT_BYTES = 64 << 20
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,200}")


def wanted_of_words(
    words: Sequence[str], deleted: Sequence[str], scope: ChangeScope, configs: ClusterConfigs
) -> tuple[WantedSetting, ...]:
    """`KEY=VALUE` words and keys to delete, for everything in scope; raises `UsageError` for what cannot be read."""
    values: dict[str, str | None] = {}
    pairs = [(*_pair(word), word) for word in words] + [(key, None, key) for key in deleted]
    for key, value, word in pairs:
        if not _KEY.fullmatch(key):
            raise UsageError(f"{word!r:.80} is not KEY=VALUE")
        if key in values:
            raise UsageError(f"{key} is given twice")
        values[key] = value
    if values and not scope.is_given:
        raise UsageError(
            "no scope is given", hint="add --topics NAME, --brokers ID, --all-brokers or --cluster-default"
        )
    if scope.is_given and not values:
        raise UsageError("a scope is given, but no KEY=VALUE")
    names: list[tuple[ResourceKind, str]] = []
    names += [(ResourceKind.TOPIC, name) for name in scope.topics]
    names += [(ResourceKind.BROKER, str(broker)) for broker in scope.brokers]
    names += [(ResourceKind.BROKER, ALL_BROKERS)] if scope.all_brokers else []
    names += [(ResourceKind.BROKER, CLUSTER_DEFAULT)] if scope.cluster_default else []
    return tuple(
        WantedSetting(kind=kind, name=name, key=key, value=value)
        for kind, name in names
        for key, value in values.items()
    )


def wanted_of_files(files: Iterable[Pieces], cluster: str | None, configs: ClusterConfigs) -> tuple[WantedSetting, ...]:
    """What files set; keys that only the cluster has are left alone, and so are topics that it does not have.

    Raises `UsageError` where the files are of several clusters and none is chosen.
    """
    pieces = tuple(files)
    names = {c.name for p in pieces for c in p.clusters if c.name}
    names |= {b.cluster for p in pieces for b in p.brokers if b.cluster}
    names |= {t.cluster for p in pieces for t in p.topics if t.cluster}
    if cluster is None and len(names) > 1:
        listed = ", ".join(sorted(map(str, names)))
        raise UsageError(f"the files are of several clusters: {listed:.300}", hint="choose one with --cluster-name")
    if cluster is not None and names and cluster not in names:
        raise UsageError(f"no file is of cluster {cluster!r:.80}")
    found = (w for p in pieces for w in _of_pieces(p, cluster, configs))
    return tuple(w for w in found if w.kind is ResourceKind.TOPIC or configs.is_defined(w.kind, w.key))


def unmet_warnings(files: Sequence[Pieces], cluster: str | None, configs: ClusterConfigs) -> tuple[str, ...]:
    """What of files is not planned, as warnings: topics that the cluster does not have, keys that brokers hide."""
    missing = sorted({t.name for p in files for t in p.topics} - configs.topics.keys())
    found = {w.key for p in files for w in _of_pieces(p, cluster, configs) if w.kind is ResourceKind.BROKER}
    hidden = sorted(key for key in found if not configs.is_defined(ResourceKind.BROKER, key))
    warnings = [f"not in the cluster, and left out: topic {', '.join(missing[:20])}"] if missing else []
    if hidden:
        warnings.append(f"not settings of Kafka {configs.version}, and left out: {', '.join(hidden[:20])}")
    return tuple(warnings)


def _of_pieces(pieces: Pieces, cluster: str | None, configs: ClusterConfigs) -> Iterator[WantedSetting]:
    def mine(name: str | None) -> bool:
        return cluster is None or name is None or name == cluster

    for each in pieces.clusters:
        if mine(each.name):
            yield from _of_configs(ResourceKind.BROKER, CLUSTER_DEFAULT, each.dynamic_default)
            yield from _of_configs(ResourceKind.BROKER, ALL_BROKERS, each.static or {})
    for broker in pieces.brokers:
        if mine(broker.cluster) and "broker" in broker.roles:
            name = ALL_BROKERS if broker.id is None else str(broker.id)
            yield from _of_configs(ResourceKind.BROKER, name, {**broker.static, **broker.dynamic})
    for topic in pieces.topics:
        if mine(topic.cluster) and topic.name in configs.topics:
            yield from _of_configs(ResourceKind.TOPIC, topic.name, topic.configs)


def _of_configs(kind: ResourceKind, name: str, values: Configs) -> Iterator[WantedSetting]:
    for key, declared in values.items():
        if key not in IDENTITY and declared.text != HIDDEN and "." in key:
            yield WantedSetting(kind=kind, name=name, key=key, value=declared.text)


def wanted_of_live(
    usual: Sequence[RuleFinding], every: Sequence[RuleFinding], chosen: Sequence[str]
) -> tuple[WantedSetting, ...]:
    """The edits that end findings of a live cluster: those of the named rules, or with the named fingerprints.

    A rule means the `usual` findings of it, those that `lint --live` prints; a fingerprint may be that of `every` one.
    Raises `UsageError` for a name that no finding has, and for findings without an edit.
    """
    found: list[WantedSetting] = []
    for name in chosen:
        fits = [c for c in usual if name in (c.finding.rule, c.finding.name)]
        fits += [c for c in every if name == c.finding.fingerprint]
        if not fits:
            raise UsageError(f"no finding of the cluster is {name!r:.60}", hint="list them with: kafkakit lint --live")
        edits = [w for c in fits for w in _of_edits(c)]
        if not edits:
            raise UsageError(f"finding {name} has no change of configuration that ends it: {fits[0].finding.message}")
        found += edits
    return tuple(found)


def _of_edits(checked: RuleFinding) -> Iterator[WantedSetting]:
    finding = checked.finding
    subject = subject_of(finding.where)
    if subject is None:
        return
    kind, name = subject
    setting = finding.setting
    if setting is not None and setting.source == ValueSource.DYNAMIC_DEFAULT.value:
        kind, name = ResourceKind.BROKER, CLUSTER_DEFAULT
    for edit in checked.edits:
        yield from _of_edit(kind, name, edit, setting.observed if setting is not None else None)


def _of_edit(kind: ResourceKind, name: str, edit: Edit, observed: str | None) -> Iterator[WantedSetting]:
    if edit.rename is not None:
        yield WantedSetting(kind=kind, name=name, key=edit.key, value=None)
        yield WantedSetting(kind=kind, name=name, key=edit.rename, value=edit.value or observed)
    else:
        yield WantedSetting(kind=kind, name=name, key=edit.key, value=edit.value)


class _FileFinding(msgspec.Struct):
    rule: str
    where: str
    message: str = ""
    fingerprint: str = ""
    cluster: str = ""
    key: str | None = None
    expected: str | None = None
    repair: str = ""


class _FindingsFile(msgspec.Struct):
    findings: list[_FileFinding]


def wanted_of_findings(
    data: bytes, source: str, chosen: Sequence[str], cluster: str | None
) -> tuple[WantedSetting, ...]:
    """The repairs of findings in a file that `lint -o json` or `audit results -o json` wrote.

    `chosen` are rules or fingerprints, all when empty; `cluster` chooses among those of a fleet. Raises `UsageError`
    where none of them has a value to set, and `InputError` for another file.
    """
    findings = decode_json(data, _FindingsFile, source).findings
    asked = [f for f in findings if not chosen or f.rule in chosen or f.fingerprint in chosen]
    clusters = {f.cluster for f in asked if f.cluster}
    if cluster is None and len(clusters) > 1:
        raise UsageError(f"the findings are of {len(clusters)} clusters", hint="choose one with --cluster-name")
    found = [w for f in asked if cluster is None or f.cluster in ("", cluster) for w in _of_finding(f)]
    if not found:
        raise InputError(source, "has no finding of the chosen ones with a value to set")
    return tuple(found)


def _of_finding(finding: _FileFinding) -> Iterator[WantedSetting]:
    subject = subject_of(finding.where)
    if subject is None:
        return
    lines = [line.strip() for line in finding.repair.splitlines()]
    pairs = [line.partition("=") for line in lines if "=" in line and _KEY.fullmatch(line.partition("=")[0])]
    if pairs:
        yield from (WantedSetting(kind=subject[0], name=subject[1], key=k, value=v) for k, _, v in pairs)
    elif finding.key is not None and finding.expected is not None:
        yield WantedSetting(kind=subject[0], name=subject[1], key=finding.key, value=finding.expected)


def subject_of(where: str) -> tuple[ResourceKind, str] | None:
    """The topic or broker that a finding is about, None for others."""
    for kind, named in ((ResourceKind.TOPIC, "topics"), (ResourceKind.BROKER, "brokers")):
        match = re.match(NAMED_IN_WHERE[named], f"{where} of ")
        if match is not None and not where.startswith("controller"):
            return kind, match[1] or match[2]
    return None


def _pair(word: str) -> tuple[str, str]:
    key, _, value = word.partition("=")
    return (key, value) if "=" in word else ("", "")


def findings_change(
    live: Pieces, resolved: ResolvedSettings, configs: ClusterConfigs, request: LintRequest, known: LintRequest
) -> FindingsChange:
    """Lint the cluster as it is and as it would be; findings are compared by fingerprint. Twice the cost of lint.

    What brokers refuse is among the new ones as an error, whatever a configuration of lint leaves out; for that the
    rules of `known` look at what changes.
    """
    changed = changed_pieces(live, resolved)
    before = {c.finding.fingerprint: c.finding for c in lint((), [live], request).unaccepted}
    after = {c.finding.fingerprint: c.finding for c in lint((), [changed], request).unaccepted}
    refused = {f.fingerprint: f for f in _refusals(live, changed, resolved, configs, known)}
    new = {print_: f for print_, f in after.items() if print_ not in before and print_ not in refused}
    return FindingsChange(
        gone=tuple(f for print_, f in before.items() if print_ not in after and print_ not in refused),
        new=(*new.values(), *refused.values()),
    )


def _refusals(
    live: Pieces, changed: Pieces, resolved: ResolvedSettings, configs: ClusterConfigs, known: LintRequest
) -> Iterator[Finding]:
    """What brokers refuse of the change, also where they would refuse the value of now: it is set already."""
    rules = replace(known, rules=known.known, severities={}, per_file_ignores=(), baseline=None)
    topics = {c.name for c in resolved.changes if c.kind is ResourceKind.TOPIC}

    def refused(pieces: Pieces) -> dict[tuple[str, str], Finding]:
        some = replace(pieces, topics=tuple(t for t in pieces.topics if t.name in topics))
        found = (c for c in lint((), [some], rules).unaccepted if c.refused)
        return {(c.finding.fingerprint, c.finding.message): c.finding for c in found}

    present = refused(live)
    yield from (f for key, f in refused(changed).items() if key not in present)
    for jump in pool_jumps(resolved.changes, configs):
        where = where_of(ResourceKind.BROKER, str(jump.broker))
        yield Finding(
            rule="KKV003",
            severity=Severity.ERROR,
            message=f"{jump.words}: brokers refuse the change",
            where=where,
            hint="",
            fingerprint=fingerprint_of_finding("KKV003", where, jump.key, "thread pool"),
        )


def changed_pieces(live: Pieces, resolved: ResolvedSettings) -> Pieces:
    """The cluster's pieces once everything is changed."""
    topics = _by_name(c for c in resolved.changes if c.kind is ResourceKind.TOPIC)
    dynamic = _by_name(c for c in resolved.changes if c.kind is ResourceKind.BROKER)
    static = _by_name(resolved.restarts)
    default = dynamic.get(CLUSTER_DEFAULT, {})
    return replace(
        live,
        clusters=tuple(
            replace(c, dynamic_default=_edit_configs(c.dynamic_default, default, ValueSource.DYNAMIC_DEFAULT))
            for c in live.clusters
        ),
        topics=tuple(
            replace(t, configs=_edit_configs(t.configs, topics[t.name], ValueSource.TOPIC)) if t.name in topics else t
            for t in live.topics
        ),
        brokers=tuple(
            replace(
                b,
                dynamic=_edit_configs(b.dynamic, dynamic.get(str(b.id), {}), ValueSource.DYNAMIC_BROKER),
                static=_edit_configs(b.static, static.get(str(b.id), {}), ValueSource.STATIC),
            )
            for b in live.brokers
        ),
    )


def _by_name(changes: Iterable[SettingChange]) -> dict[str, dict[str, str | None]]:
    found: dict[str, dict[str, str | None]] = {}
    for change in changes:
        found.setdefault(change.name, {})[change.key] = change.after
    return found


def _edit_configs(configs: Configs, changes: Mapping[str, str | None], source: ValueSource) -> Configs:
    kept = {key: value for key, value in configs.items() if key not in changes}
    return kept | {key: DeclaredValue(value, source) for key, value in changes.items() if value is not None}


Values = Mapping[ConfigKey, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSide:
    """One side: what is set, the ids of its brokers, and whether it is only a part, as files are."""

    name: str
    values: Values
    brokers: frozenset[str] = field(default_factory=frozenset)
    is_part: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDifference:
    """A setting that differs; None where a side does not set it."""

    where: str
    key: str
    one: str | None
    other: str | None


def side_of_cluster(name: str, configs: ClusterConfigs) -> ConfigSide:
    """What is set on a live cluster, in files of brokers and while they run; what tells brokers apart is left out."""
    values: dict[ConfigKey, str | None] = {}
    for topic, own in configs.topics.items():
        values |= {ConfigKey(ResourceKind.TOPIC, topic, key): value for key, value in own.items()}
    for key, value in configs.default.items():
        values[ConfigKey(ResourceKind.BROKER, CLUSTER_DEFAULT, key)] = value
    for broker, layers in configs.in_force.items():
        for key, layered in layers.items():
            if layered.layer in (ConfigLayer.DYNAMIC_BROKER, ConfigLayer.STATIC) and key not in IDENTITY:
                values[ConfigKey(ResourceKind.BROKER, str(broker), key)] = layered.value or "[hidden]"
    return ConfigSide(name=name, values=values, brokers=frozenset(map(str, configs.in_force)))


def side_of_files(name: str, files: Iterable[Pieces]) -> ConfigSide:
    """What files set."""
    values: dict[ConfigKey, str | None] = {}
    ids: set[str] = set()

    def take(kind: ResourceKind, resource: str, configs: Configs) -> None:
        named = {k: v for k, v in configs.items() if k not in IDENTITY and "." in k}
        values.update({ConfigKey(kind, resource, key): declared.text for key, declared in named.items()})

    for pieces in files:
        for cluster in pieces.clusters:
            take(ResourceKind.BROKER, CLUSTER_DEFAULT, cluster.dynamic_default)
            take(ResourceKind.BROKER, ALL_BROKERS, cluster.static or {})
        for broker in pieces.brokers:
            if "broker" in broker.roles:
                resource = ALL_BROKERS if broker.id is None else str(broker.id)
                ids |= {resource} - {ALL_BROKERS}
                take(ResourceKind.BROKER, resource, {**broker.static, **broker.dynamic})
        for topic in pieces.topics:
            take(ResourceKind.TOPIC, topic.name, topic.configs)
    return ConfigSide(name=name, values=values, brokers=frozenset(ids), is_part=True)


def at_time(live: ConfigSide, writes: Sequence[tuple[datetime, SettingChange]], at: datetime, name: str) -> ConfigSide:
    """What was set at an earlier time, as far as journals tell: their changes since then taken back, newest first."""
    values = dict(live.values)
    for moment, change in sorted(writes, key=lambda item: item[0], reverse=True):
        if moment > at:
            key = ConfigKey(change.kind, change.name, change.key)
            if change.before is None:
                values.pop(key, None)
            else:
                values[key] = change.before
    return replace(live, name=name, values=values)


def difference(one: ConfigSide, other: ConfigSide) -> tuple[ConfigDifference, ...]:
    """The settings that differ, sorted. Of a part only the resources that it names are compared.

    Where the sides have different brokers, values that all brokers of a side share are compared as one.
    """
    if one.brokers and other.brokers and one.brokers != other.brokers and not (one.is_part or other.is_part):
        first, second = _shared_values(one), _shared_values(other)
    else:
        ids = one.brokers | other.brokers
        first, second = _expand_values(one, ids), _expand_values(other, ids)
    keys = {k for k in first.keys() | second.keys() if not is_same(first.get(k), second.get(k))}
    for side, values in ((one, first), (other, second)):
        if side.is_part:
            named = {(k.kind, k.name) for k in values}
            keys = {k for k in keys if (k.kind, k.name) in named}
    rows = [(k, first.get(k), second.get(k)) for k in sorted(keys)]
    return tuple(_as_each(rows, one.brokers | other.brokers))


def _shared_values(side: ConfigSide) -> Values:
    found = {k: v for k, v in side.values.items() if k.kind is ResourceKind.TOPIC or k.name == CLUSTER_DEFAULT}
    for key in {k.key for k in side.values if k.kind is ResourceKind.BROKER and k.name != CLUSTER_DEFAULT}:
        of_brokers = {b: side.values.get(ConfigKey(ResourceKind.BROKER, b, key)) for b in side.brokers}
        if len(set(of_brokers.values())) == 1:
            found[ConfigKey(ResourceKind.BROKER, ALL_BROKERS, key)] = next(iter(of_brokers.values()))
        else:
            found |= {ConfigKey(ResourceKind.BROKER, b, key): v for b, v in of_brokers.items() if v is not None}
    return found


def _expand_values(side: ConfigSide, ids: frozenset[str]) -> Values:
    every = [(k, v) for k, v in side.values.items() if k.kind is ResourceKind.BROKER and k.name == ALL_BROKERS]
    found = {k._replace(name=broker): v for k, v in every for broker in ids}
    rest = {k: v for k, v in side.values.items() if k.kind is ResourceKind.TOPIC or k.name != ALL_BROKERS or not ids}
    return found | rest


def _as_each(
    rows: Iterable[tuple[ConfigKey, str | None, str | None]], ids: frozenset[str]
) -> Iterable[ConfigDifference]:
    """Rows that are the same for each broker are one."""
    groups: dict[object, list[tuple[ConfigKey, str | None, str | None]]] = {}
    for row in rows:
        key, one, other = row
        is_own = key.kind is ResourceKind.BROKER and key.name not in (CLUSTER_DEFAULT, ALL_BROKERS)
        groups.setdefault((key.key, one, other) if is_own else key, []).append(row)
    for group in groups.values():
        is_each = len(group) > 1 and {row[0].name for row in group} == ids
        for key, one, other in group[:1] if is_each else group:
            where = "each broker" if is_each or key.name == ALL_BROKERS else where_of(key.kind, key.name)
            yield ConfigDifference(where=where, key=key.key, one=one, other=other)


def row_of(found: ConfigDifference) -> tuple[str, str, str, str]:
    """A difference as cells."""
    return found.where, found.key, show_value(found.key, found.one), show_value(found.key, found.other)


@dataclass(frozen=True, slots=True, kw_only=True)
class RehearsalPlan:
    """The plan of the mirrored cluster, None where everything is set there already; `unlike` says what differs."""

    plan: ConfigPlan | None
    unlike: tuple[str, ...] = ()


def rehearsal_of(
    plan: ConfigPlan, here: ClusterConfigs, there: ClusterConfigs, *, created_at: datetime, profile: str
) -> RehearsalPlan:
    """The change as it is on the mirrored cluster: topics by name, brokers by their order among the sorted ids.

    What the mirror has already counts as alike, since a rehearsal that went well stays there. What it cannot have (a
    topic or a broker that is missing) is unlike, and left out.
    """
    unlike: list[str] = []
    if minor_or_none(here.version or "") != minor_or_none(there.version or ""):
        unlike.append(f"Kafka {there.version} there, {here.version} here")
    if len(here.brokers) != len(there.brokers):
        unlike.append(f"{len(there.brokers)} brokers there, {len(here.brokers)} here")
    elif (racks := _racks(there)) != _racks(here):
        unlike.append(f"{racks} racks there, {_racks(here)} here")
    ids = {str(a.id): str(b.id) for a, b in zip(_by_id(here), _by_id(there), strict=False)} | {CLUSTER_DEFAULT: ""}
    wanted: list[WantedSetting] = []
    for change in plan.all_changes:
        name = change.name if change.kind is ResourceKind.TOPIC else ids.get(change.name)
        if name is None or (change.kind is ResourceKind.TOPIC and name not in there.topics):
            unlike.append(f"{change.where} is not there")
            continue
        unlike += _differs(change, name, here, there)
        wanted.append(WantedSetting(kind=change.kind, name=name, key=change.key, value=change.after))
    resolved = resolve(wanted, there)
    if not resolved.changes and not resolved.restarts:
        return RehearsalPlan(plan=None, unlike=tuple(dict.fromkeys(unlike)))
    size = parse_steps(plan.request.get("steps", StepSize.GROW.value))
    made = make_plan(
        resolved, there, FindingsChange(), created_at=created_at, request=plan.request, size=size, profile=profile
    )
    return RehearsalPlan(plan=replace(made, warnings=()), unlike=tuple(dict.fromkeys(unlike)))


def _differs(change: SettingChange, name: str, here: ClusterConfigs, there: ClusterConfigs) -> list[str]:
    found = []
    if change.kind is ResourceKind.TOPIC and (one := here.shapes.get(name)) != (other := there.shapes[name]):
        partitions, replicas = one or (0, 0)
        found.append(f"topic {name} has {other[0]} partitions of {other[1]} there, {partitions} of {replicas} here")
    now = there.value(change.kind, name, change.key)
    if not is_same(now, change.before) and not is_same(now, change.after):
        found.append(
            f"{change.where} {change.key} is {show_value(change.key, now)} there, "
            f"{show_value(change.key, change.before)} here"
        )
    return found


def _by_id(configs: ClusterConfigs) -> list[PlanBroker]:
    return sorted(configs.brokers, key=lambda broker: broker.id)


def _racks(configs: ClusterConfigs) -> int:
    return len({b.rack for b in configs.brokers if b.rack is not None})
