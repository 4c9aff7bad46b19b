"""Runs rules over an estate: every subject of every rule, findings in a stable order, skipped rules listed."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from kafkakit.core.findings import Finding, Place, Setting, Severity, fingerprint_of, shorten
from kafkakit.core.quantities import format_bytes, format_span
from kafkakit.core.text import sanitize
from kafkakit.rules.config_defs import ConfigDef, KeyScope
from kafkakit.rules.effective import (
    UNLIMITED,
    Anchor,
    BrokerConfig,
    Configs,
    DeclaredValue,
    InputMissing,
    TopicConfig,
    ValueSource,
    anchor_in,
    to_int,
)
from kafkakit.rules.rule import Edit, Limits, LintRule, Subject, Violation
from kafkakit.rules.subjects import Estate, LintAgent, LintBroker, LintCluster, LintConnector, LintTopic
from kafkakit.rules.values import HIDDEN, is_secret_key, looks_secret

OF_DEFAULTS = ("KKR2", "KKM4", "KKD101", "KKD102")
"""Rules of topics by the beginnings of their codes that also judge what a broker's defaults make of a new topic."""
AnySubject = LintTopic | LintBroker | LintCluster | LintAgent | LintConnector | Estate


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """A finding with the rule that made it, the edits that would fix it, and whether brokers refuse its subject.

    `anchor` is where the edits apply, None where no file holds a mapping for them. `home` is the setting of a broker
    that the finding is about, or where its file's settings begin: brokers of one home share them.
    """

    finding: Finding
    rule: LintRule
    edits: tuple[Edit, ...] = ()
    refused: bool = False
    anchor: Anchor | None = None
    home: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckOutcome:
    """All findings, by path, line, column and rule; and for each rule that was skipped, for want of what, how often."""

    checked: tuple[RuleFinding, ...]
    skipped: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def check_estate(estate: Estate, rules: Sequence[LintRule], limits: Limits) -> CheckOutcome:
    """Run every rule on each of its subjects; linear in rules x subjects."""
    found: list[RuleFinding] = []
    skipped: dict[str, Counter[str]] = {}
    assumed = estate.assumed if estate.assumed is not None else {}
    for rule in rules:
        for subject, arguments, cluster in _subjects(estate, rule.subject):
            assumed.clear()
            try:
                for violation in rule.check(*arguments, limits):
                    told = _as_assumed(rule, violation, assumed) if assumed else violation
                    found.append(make_finding(rule, told, subject, cluster))
            except InputMissing as missing:
                skipped.setdefault(rule.code, Counter())[missing.needed] += 1
        if rule.code.startswith(OF_DEFAULTS):
            for cluster in estate.clusters:
                found.extend(_of_defaults(rule, cluster, limits))
    return CheckOutcome(
        checked=in_file_order(found), skipped={code: dict(needs) for code, needs in sorted(skipped.items())}
    )


def merged_outcomes(outcomes: Sequence[CheckOutcome]) -> CheckOutcome:
    """Several outcomes as one; what was skipped is counted together."""
    if len(outcomes) == 1:
        return outcomes[0]
    skipped: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        for code, needs in outcome.skipped.items():
            skipped.setdefault(code, Counter()).update(needs)
    return CheckOutcome(
        checked=in_file_order(item for outcome in outcomes for item in outcome.checked),
        skipped={code: dict(needs) for code, needs in sorted(skipped.items())},
    )


def _as_assumed(rule: LintRule, violation: Violation, assumed: Mapping[str, str]) -> Violation:
    """What rests on defaults that nothing shows: at most a warning, which says so."""
    message, told = violation.message, []
    for key, text in sorted(assumed.items()):
        said = f"({key}, Kafka's default)"
        if said in message:
            message = message.replace(said, f"({key}, Kafka's default, assumed)")
        else:
            told.append(f"{key} {readable_setting(key, text)}")
    if told:
        message += f" (assumed: {', '.join(told)}, Kafka's default{'s' if len(told) > 1 else ''})"
    severity = violation.severity or rule.severity
    return replace(
        violation,
        message=message,
        severity=Severity.WARNING if severity is Severity.ERROR else severity,
        refused=False,
    )


def _of_defaults(rule: LintRule, cluster: LintCluster, limits: Limits) -> Iterator[RuleFinding]:
    """What a rule of topics holds against the topics that a broker's defaults make, but not against Kafka's own."""
    topics = cluster.default_topics if rule.subject is Subject.TOPIC else None
    if topics is None:
        return
    told: list[list[Violation]] = []
    # A value that is set to what Kafka has anyway says no more than its absence.
    for topic, allowed in zip(topics, (limits, replace(limits, strict=True)), strict=True):
        told.append([])
        with suppress(InputMissing):
            told[-1].extend(rule.check(topic, cluster, allowed))
    usual = {violation.message for violation in told[1]}
    for violation in told[0]:
        if violation.message not in usual:
            own = (violation.key,) if violation.key is not None else ()
            place = violation.place or topics[0].config.broker.written(*own, *rule.of_defaults)
            yield make_finding(rule, replace(violation, edits=(), hint="", place=place), topics[0], cluster)


def in_file_order(checked_: Iterable[RuleFinding]) -> tuple[RuleFinding, ...]:
    """By path, line, column, rule and place; findings without a file last."""
    return tuple(sorted(checked_, key=lambda c: _position(c.finding)))


def make_finding(rule: LintRule, violation: Violation, subject: AnySubject, cluster: LintCluster | None) -> RuleFinding:
    """A violation as a finding; values of secret settings are hidden."""
    subject = violation.about or subject
    declared, definition = _find_declared(subject, violation.key)
    key = violation.key or ""
    hidden = looks_secret(key) if definition is None else definition.is_sensitive or is_secret_key(key)
    observed = violation.observed if violation.observed is not None or declared is None else declared.text
    setting = None
    if violation.key is not None:
        setting = Setting(
            key=violation.key,
            observed=HIDDEN if hidden and observed else sanitize(observed) if observed else observed,
            source=declared.source.value if declared is not None else None,
            expected=violation.expected,
        )
    where = violation.where or (subject.where if not isinstance(subject, Estate) else "estate")
    if cluster is not None and not isinstance(subject, LintCluster):
        where = cluster.within(where)
    # A value that a topic inherits stands in another file than the topic, where its findings belong.
    inherited = isinstance(subject, LintTopic) and declared is not None and declared.source is not ValueSource.TOPIC
    inherited = inherited and not (isinstance(subject, LintTopic) and subject.is_default)
    place = violation.place or (declared.place if declared is not None and not inherited else None)
    if place is None and violation.key is not None and isinstance(subject, LintBroker):
        place = subject.home_of(violation.key)
    named = subject.role if isinstance(subject, LintBroker) and violation.where is None else None
    lasting = where if named is None else cluster.within(named) if cluster is not None else named
    return RuleFinding(
        Finding(
            rule=rule.code,
            name=rule.name,
            severity=violation.severity or rule.severity,
            message=sanitize(violation.message),
            where=sanitize(where),
            hint=violation.hint,
            fingerprint=fingerprint_of(rule.code, lasting, key, violation.subject),
            place=place or getattr(subject, "place", None),
            setting=setting,
            owner=getattr(subject, "owner", None),
        ),
        rule,
        violation.edits,
        violation.refused,
        _anchor(subject, violation) if violation.edits else None,
        _home_place(subject, violation.key) if isinstance(subject, LintBroker) else None,
    )


def _home_place(broker: LintBroker, key: str | None) -> Place | None:
    if key is None:
        return None
    declared = broker.config.declared(key)
    if declared is None and (shared := broker.home_of(key)) is not None:
        return shared
    found = anchor_in(broker.config.static, key) if declared is None else None
    return declared.place if declared is not None else found.place if found is not None else None


def merged_brokers(found: Iterable[RuleFinding]) -> tuple[RuleFinding, ...]:
    """The findings with those of brokers that share a setting as one: a mistake in one place is reported once.

    The first of them stays, with its place and fingerprint, and names the others. Linear in the findings.
    """
    groups: dict[object, list[RuleFinding]] = {}
    for number, item in enumerate(found):
        groups.setdefault(number if item.home is None else _shared_mistake(item), []).append(item)
    return tuple(_as_one(items) for items in groups.values())


def _shared_mistake(item: RuleFinding) -> tuple[object, ...]:
    f = item.finding
    key = f.setting.key if f.setting is not None else None
    return (f.rule, f.where.partition(" of ")[2], f.severity, f.message, key, item.edits, item.anchor, item.home)


def _as_one(items: Sequence[RuleFinding]) -> RuleFinding:
    first = items[0]
    if len(items) == 1:
        return first
    names = tuple(item.finding.where.partition(" of ")[0] for item in items)
    _, of, cluster = first.finding.where.partition(" of ")
    where = f"{_join_names(names)}{of}{cluster}"
    return replace(first, finding=replace(first.finding, where=where, count=len(items), subjects=names))


_POOL = "pool "
MOST_POOLS = 10


def _join_names(names: Sequence[str]) -> str:
    """Several brokers in a finding; pools by their names."""
    if len(names) > MOST_POOLS or not all(name.startswith(_POOL) for name in names):
        return shorten(names)
    return f"pools {', '.join(name.removeprefix(_POOL) for name in names)}"


def _anchor(subject: AnySubject, violation: Violation) -> Anchor | None:
    if violation.key is not None and violation.place is not None:
        return Anchor(violation.key, violation.place)
    key = violation.edits[0].key
    match subject:
        case LintBroker() if subject.config.declared(key) is None and subject.home_of(key) is not None:
            return None  # the settings that pools share are of another resource
        case LintTopic() | LintBroker():
            return subject.config.anchor(key)
        case LintConnector():
            return anchor_in(subject.config, key)
        case LintAgent():
            return anchor_in(subject.settings, key)
        case _:
            return None


def _subjects(estate: Estate, kind: Subject) -> Iterator[tuple[AnySubject, tuple[object, ...], LintCluster | None]]:
    match kind:
        case Subject.ESTATE:
            yield estate, (estate,), None
        case Subject.AGENT:
            yield from ((agent, (agent,), None) for agent in estate.agents)
        case Subject.CONNECTOR:
            yield from ((connector, (connector,), None) for connector in estate.connectors)
        case Subject.CLUSTER:
            yield from ((cluster, (cluster,), cluster) for cluster in estate.clusters)
        case Subject.BROKER:
            yield from ((b, (b, c), c) for c in estate.clusters for b in c.brokers)
        case Subject.TOPIC:
            yield from ((t, (t, c), c) for c in estate.clusters for t in c.topics)
        case Subject.CONFIG:
            yield from ((b, (b, c), c) for c in estate.clusters for b in c.brokers)
            yield from ((t, (t, c), c) for c in estate.clusters for t in c.topics)
        case Subject.FILE:
            return


def _find_declared(subject: AnySubject, key: str | None) -> tuple[DeclaredValue | None, ConfigDef | None]:
    if key is None:
        return None, None
    if isinstance(subject, LintTopic | LintBroker):
        config: TopicConfig | BrokerConfig = subject.config
        table = config.broker.table if isinstance(config, TopicConfig) else config.table
        scope = KeyScope.TOPIC if isinstance(config, TopicConfig) else KeyScope.BROKER
        set_here = config.overrides.get(key) if isinstance(config, TopicConfig) else config.declared(key)
        return set_here or config.value(key), table.find(scope, key)
    if isinstance(subject, LintConnector | LintAgent):
        values: Configs = subject.config if isinstance(subject, LintConnector) else subject.settings
        return values.get(key), None
    return None, None


def readable_setting(key: str, text: str) -> str:
    """A value as a reader takes it in: times and sizes with their units, "none" for no value."""
    number = to_int(text)
    if number is None or number <= 0:
        return text or "none"
    if number >= UNLIMITED:
        return "without limit"
    if key.endswith(".ms"):
        return format_span(number / 1000)
    return format_bytes(number) if key.endswith(".bytes") else text


def _position(finding: Finding) -> tuple[object, ...]:
    place = finding.place or Place("\U0010ffff", 0)
    return (*place, finding.rule, finding.where, finding.setting.key if finding.setting else "", finding.message)
