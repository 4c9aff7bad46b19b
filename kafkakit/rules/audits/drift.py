"""The audit `drift`: lint's rules KKX001 to KKX007 on rows, and defaults that differ by version.

Here is decided which settings are compared between brokers, clusters and days, and what makes two of their texts one
value. Rows hold values in that form; each function of a rule gets one row and says what lint would.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple

from kafkakit.core.findings import AuditFinding, Place, Rule, Severity, audit_finding, shorten
from kafkakit.core.quantities import count_of
from kafkakit.core.text import quote, shell_command
from kafkakit.rules.config_defs import (
    MINORS,
    NEWEST,
    ConfigDef,
    ConfigTable,
    KeyScope,
    ValueType,
    config_table,
    minor_key,
    minor_or_none,
)
from kafkakit.rules.effective import TIME_FORMS, BrokerConfig, DeclaredValue, TopicConfig, ValueSource
from kafkakit.rules.engine import AnySubject, make_finding
from kafkakit.rules.families.drift import (
    ALWAYS_OWN,
    baseline_drift,
    intra_cluster_heterogeneity,
    mirror_pair_divergence,
    peer_outlier,
    stale_dynamic_override,
    unmanaged_or_missing_topic,
    version_skew,
)
from kafkakit.rules.rule import Limits, LintRule, Violation
from kafkakit.rules.subjects import Estate, LintBroker, LintCluster, LintTopic, PartitionFacts, TopicFacts
from kafkakit.rules.values import looks_secret

JOB = "drift"
LIMITS = Limits()
DAY_MS = 86_400_000
Row = Mapping[str, Any]

OTHER_DEFAULTS = Rule(
    "version-default-drift",
    Severity.NOTE,
    "settings that are not set have the same default as on the clusters that this one is compared with",
    risk="The version is enough to change behaviour: a test on a mirror of another version does not cover it, and an "
    "upgrade changes what no file mentions.",
    repair="set the keys to the wanted values before the versions are brought together",
    code="KKX010",
)
RULES: tuple[Rule, ...] = (OTHER_DEFAULTS,)


def cluster_minor(version: str | None, brokers: Iterable[str | None]) -> str | None:
    """The minor version of a cluster: its own, else the oldest of its brokers'; None where nothing tells."""
    found = minor_or_none(version) if version else None
    return found or min(filter(None, (minor_or_none(v) for v in brokers if v)), key=minor_key, default=None)


def differing_since_ms(minors_by_day: Mapping[str, Sequence[str]], today: str) -> int | None:
    """The first of the last days in a row on which brokers had more than one minor version; None where they have one.

    In ms of UTC at its midnight. Days on which the cluster was not seen are no break.
    """
    since = None
    for day in sorted(minors_by_day):
        if day <= today:
            since = None if len(minors_by_day[day]) < 2 else since or day
    moment = datetime.strptime(since, "%Y-%m-%d").replace(tzinfo=UTC) if since is not None else None
    return None if moment is None else int(moment.timestamp()) * 1000


def declared_drift(row: Row) -> Iterator[AuditFinding]:
    """KKX001 of one topic.

    `row` has cluster, topic, owner, blast, file, line, `settings` of (key, declared, live, line), and where they
    differ partitions, live_partitions, replication, live_replication.
    """
    table = config_table(NEWEST)
    settings = row["settings"] or ()
    overrides, current, undeclared = {}, {}, set()
    for s in sorted(settings, key=lambda s: str(s["key"])):
        key, declared, live = s["key"], s["declared"], s["live"]
        place = Place(row["file"] or "", s["line"] or row["line"] or 1) if row["file"] else None
        overrides[key] = DeclaredValue(live if declared is None else declared, ValueSource.TOPIC, place)
        if declared is None:
            undeclared.add(key)
        if live is not None:
            current[key] = live
    replicas = tuple(range(row["live_replication"] or 0))
    topic = LintTopic(
        name=row["topic"],
        config=TopicConfig(overrides, BrokerConfig(table, is_known=False)),
        partitions=row["partitions"],
        replication_factor=row["replication"],
        partition_facts=(PartitionFacts(partition=0, replicas=replicas),) * (row["live_partitions"] or 0),
        current=current,
        undeclared=frozenset(undeclared),
        place=Place(row["file"], row["line"] or 1) if row["file"] else None,
        owner=row["owner"],
    )
    cluster = LintCluster(name=row["cluster"], table=table, is_live=True)
    for violation in baseline_drift.check(topic, cluster, LIMITS):
        yield _finding_of(baseline_drift, violation, topic, cluster, row)


def find_undeclared(row: Row) -> Iterator[AuditFinding]:
    """KKX006 of one topic, by cluster, topic, owner, blast and is_declared: what is declared is not in the cluster."""
    other = LintTopic(name="", config=_no_settings(), partition_facts=())
    topic = LintTopic(
        name=row["topic"],
        config=_no_settings(),
        partition_facts=None if row["is_declared"] else (),
        is_declared=row["is_declared"],
        owner=row["owner"],
    )
    cluster = LintCluster(name=row["cluster"], table=config_table(NEWEST), is_live=True, topics=(topic, other))
    for violation in unmanaged_or_missing_topic.check(cluster, LIMITS):
        yield _finding_of(unmanaged_or_missing_topic, violation, cluster, cluster, row)


def stale_override(row: Row) -> Iterator[AuditFinding]:
    """KKX004 of one override, by cluster, topic or broker, key, value, age_ms, days, owner and blast."""
    table, ages = config_table(NEWEST), {row["key"]: row["age_ms"] / 1000}
    topics: tuple[LintTopic, ...] = ()
    brokers: tuple[LintBroker, ...] = ()
    if row["topic"] is not None:
        facts = TopicFacts(override_age_s=ages)
        current = {row["key"]: row["value"]}
        topics = (
            LintTopic(name=row["topic"], config=_no_settings(), facts=facts, current=current, is_declared=False,
                      owner=row["owner"]),
        )  # fmt: skip
    else:
        brokers = (LintBroker(id=row["broker"], config=BrokerConfig(table), override_age_s=ages),)
    cluster = LintCluster(name=row["cluster"], table=table, topics=topics, brokers=brokers)
    for violation in stale_dynamic_override.check(cluster, Limits(stale_override_days=row["days"])):
        yield _finding_of(stale_dynamic_override, violation, cluster, cluster, row)


def different_brokers(row: Row) -> Iterator[AuditFinding]:
    """KKX003 of a key, by cluster, key, minor, blast, ids of all brokers, and `groups` of (value, source, brokers)."""
    table = table_with(row["key"], row["minor"] or NEWEST)
    known = {
        b: _broker_config(table, row["key"], g["value"], g["source"] or "") for g in row["groups"] for b in g["brokers"]
    }
    brokers = tuple(LintBroker(id=b, config=known.get(b, BrokerConfig(table))) for b in sorted(row["ids"]))
    cluster = LintCluster(name=row["cluster"], table=table, brokers=brokers)
    hint, repair = _one_value(row, {b.id: b.config.text(row["key"]) for b in brokers if b.id is not None})
    for violation in intra_cluster_heterogeneity.check(cluster, LIMITS):
        found = _finding_of(intra_cluster_heterogeneity, violation, cluster, cluster, row)
        yield replace(found, hint=hint, repair=repair)


def _one_value(row: Row, values: Mapping[int, str]) -> tuple[str, str]:
    """What gives the brokers one value, and its command if more than half of them have the same; `values` by broker."""
    key, program = row["key"], f"kafkakit --profile {quote(row['cluster'])}"
    (usual, number), *_ = Counter(values.values()).most_common(1)
    if 2 * number <= len(values) or not usual:
        command = shell_command(
            "config plan", f"{key}=VALUE", cluster_default=True, plan="change.json", program=program
        )
        return f"no value is the usual one: give all brokers the one that is meant, {command}", ""
    odd = {b for b, value in values.items() if value != usual}
    own = {b for group in row["groups"] if group["source"] == "dynamic-broker" for b in group["brokers"]}
    ids = ",".join(map(str, sorted(odd)))
    if own == odd:
        words = f"remove the value of their own from brokers {ids}"
        command = shell_command("config plan", brokers=ids, delete=key, plan="change.json", program=program)
    else:
        command = shell_command("config plan", f"{key}={usual}", brokers=ids, plan="change.json", program=program)
        words = f"give brokers {ids} the value of the others, and write it into their configuration files"
    return f"{words}: {command}", str(command)


def different_peers(row: Row) -> Iterator[AuditFinding]:
    """KKX002 of one key, by cluster, key, value, minor, usual, `agree` of `peers` clusters, and blast."""
    table = table_with(row["key"], row["minor"] or NEWEST)
    broker = LintBroker(id=None, config=_broker_config(table, row["key"], row["value"], "static"))
    values = (row["usual"],) * row["agree"] + ("",) * (row["peers"] - row["agree"])
    cluster = LintCluster(name=row["cluster"], table=table, brokers=(broker,), peers={row["key"]: values})
    for violation in peer_outlier.check(cluster, LIMITS):
        yield _finding_of(peer_outlier, violation, cluster, cluster, row)


def different_mirror(row: Row) -> Iterator[AuditFinding]:
    """KKX005 of one key, by source and mirror cluster, topic (its name on the mirror; null for what topics inherit),
    key, ours, theirs, from_broker (the broker key that it is inherited from), owner and blast; `is_meant` where ours is
    what a file says of the source, which runs with another value."""
    table = table_with(row["key"], NEWEST)
    sides = []
    for name, value, labels in (
        (row["source"], row["ours"], frozenset[str]()),
        (row["cluster"], row["theirs"], frozenset({f"mirror:{row['source']}"})),
    ):
        topics: tuple[LintTopic, ...] = ()
        config = BrokerConfig(table)
        if row["topic"] is not None:
            own = {row["key"]: DeclaredValue(value, ValueSource.TOPIC)}
            topics = (LintTopic(name=row["topic"], config=TopicConfig(own, config), owner=row["owner"]),)
        else:
            config = _broker_config(table, row["from_broker"] or row["key"], value, "static")
        broker = LintBroker(id=None, config=config)
        sides.append(LintCluster(name=name, table=table, labels=labels, topics=topics, brokers=(broker,)))
    estate = Estate(clusters=tuple(sides))
    for violation in mirror_pair_divergence.check(estate, LIMITS):
        found = _finding_of(mirror_pair_divergence, violation, estate, None, row)
        on = f" on {row['source']}"
        if row.get("is_meant") and found.message.endswith(on):
            found = replace(found, message=f"{found.message.removesuffix(on)} in the files of {row['source']}")
        yield found


def version_skews(clusters: Sequence[Row], now_ms: int) -> Iterator[AuditFinding]:
    """KKX007 of a fleet; each row has cluster, minor, versions, since_ms and blast.

    `versions` are those of its brokers, `since_ms` when they were first seen to differ, without a day between on which
    they did not.
    """
    table = config_table(NEWEST)
    subjects, blast = [], {}
    for row in clusters:
        since = row["since_ms"] if row["since_ms"] is not None else now_ms
        blast[row["cluster"]] = row["blast"]
        subjects.append(
            LintCluster(
                name=row["cluster"],
                table=config_table(row["minor"]) if row["minor"] else table,
                is_version_known=row["minor"] is not None,
                brokers=tuple(LintBroker(config=BrokerConfig(table), version=v) for v in row["versions"]),
                versions_differ_days=(now_ms - since) / DAY_MS,
            )
        )
    estate = Estate(clusters=tuple(subjects))
    for violation in version_skew.check(estate, LIMITS):
        name = violation.subject
        finding = make_finding(version_skew, violation, estate, None).finding
        yield audit_finding(JOB, name, finding, blast=blast[name])


def other_defaults(row: Row) -> Iterator[AuditFinding]:
    """KKX010 of one cluster, by cluster, minor, other_minor, other (whom it is compared with), blast and `keys` of
    (key, ours, theirs)."""
    keys = sorted(row["keys"], key=lambda k: str(k["key"]))
    pairs = [f"{k['key']} {k['ours'] or 'not set'}, there {k['theirs'] or 'not set'}" for k in keys]
    finding = OTHER_DEFAULTS.finding(
        f"cluster {row['cluster']}",
        f"{count_of(len(keys), 'setting')} that no file sets {'has' if len(keys) == 1 else 'have'} another default in "
        f"Kafka {row['minor']} than in {row['other_minor']} of {row['other']}: {shorten(pairs)}",
        count=len(keys),
        subjects=tuple(str(k["key"]) for k in keys),
        parts=(str(row["other"]),),
    )
    yield audit_finding(JOB, row["cluster"], finding, blast=row["blast"] or 1.0)


def _finding_of(
    rule: LintRule, violation: Violation, subject: AnySubject, cluster: LintCluster | None, row: Row
) -> AuditFinding:
    finding = make_finding(rule, violation, subject, cluster).finding
    # Of topics alone: what a broker has set is changed in its file.
    is_topic = row.get("topic") is not None and violation.key is not None
    repair = f"{violation.key}={violation.expected}" if is_topic and violation.expected else ""
    return audit_finding(JOB, row["cluster"], finding, blast=row["blast"] or 1.0, repair=repair)


def _no_settings() -> TopicConfig:
    return TopicConfig({}, BrokerConfig(config_table(NEWEST), is_known=False))


def _broker_config(table: ConfigTable, key: str, value: str, source: str) -> BrokerConfig:
    """A broker with one setting in the layer that it comes from."""
    own = {key: DeclaredValue(value, ValueSource.DEFAULT if source == "default" else ValueSource.STATIC)}
    if source == "dynamic-broker":
        return BrokerConfig(table, dynamic=own)
    return BrokerConfig(table, dynamic_default=own) if source == "dynamic-default" else BrokerConfig(table, static=own)


PER_NODE = frozenset(
    {
        "node.id", "broker.id", "broker.id.generation.enable", "reserved.broker.max.id", "broker.rack", "process.roles",
        "listeners", "advertised.listeners", "host.name", "advertised.host.name", "port", "advertised.port", "log.dir",
        "log.dirs", "metadata.log.dir",
    }
)  # fmt: skip
"""Keys that every node has a value of its own for."""
PER_NODE_ENDINGS = (
    "keystore.location", "keystore.certificate.chain", "truststore.location", "truststore.certificates",
    ".replication.throttled.replicas", ".replication.throttled.rate",
)  # fmt: skip
PER_CLUSTER = frozenset(
    {
        "cluster.id", "zookeeper.connect", "controller.quorum.voters", "controller.quorum.bootstrap.servers",
        "early.start.listeners", "control.plane.listener.name",
    }
)  # fmt: skip
"""Keys that every cluster has a value of its own for; its brokers must agree on them."""
OWNED_BY = "owned-by:"
"""The label of a topic or cluster whose settings another program writes, before that program's name."""

_FORMS = {form: (name, rank, factor) for name, forms in TIME_FORMS.items() for rank, (form, factor) in enumerate(forms)}


class TextForm(StrEnum):
    """How the texts of one value may differ: in case, in how a number is written, in the order of a list."""

    BOOLEAN = "boolean"
    WHOLE = "whole"
    DOUBLE = "double"
    LIST = "list"
    TEXT = "text"


_FORM_OF = {
    ValueType.BOOLEAN: TextForm.BOOLEAN, ValueType.INT: TextForm.WHOLE, ValueType.SHORT: TextForm.WHOLE,
    ValueType.LONG: TextForm.WHOLE, ValueType.DOUBLE: TextForm.DOUBLE, ValueType.LIST: TextForm.LIST,
}  # fmt: skip


class ComparedKey(NamedTuple):
    """A key as it is compared.

    `name` is the key whose value it gives, `factor` what turns its number into that value; of several keys of one
    name the lowest `rank` decides. `is_per_node` keys are compared with other days alone.
    """

    key: str
    name: str
    form: TextForm
    rank: int = 0
    factor: int = 1
    is_per_node: bool = False
    is_per_cluster: bool = False


@cache
def compared_key(key: str) -> ComparedKey | None:
    """How a key is compared; None for one that may hold a secret, whose value is looked at nowhere."""
    definition = definition_of(key)
    if looks_secret(key) or (definition is not None and definition.is_sensitive):
        return None
    name, rank, factor = _FORMS.get(key, (key, 0, 1))
    return ComparedKey(
        key=key,
        name=name,
        form=TextForm.TEXT if definition is None else _FORM_OF.get(definition.type, TextForm.TEXT),
        rank=rank,
        factor=factor,
        is_per_node=key in PER_NODE or key in ALWAYS_OWN or key.endswith(PER_NODE_ENDINGS),
        is_per_cluster=key in PER_CLUSTER,
    )


@cache
def definition_of(key: str) -> ConfigDef | None:
    """The newest definition of a broker's or topic's key, without its listener's prefix; None for an unknown one."""
    if key.startswith("listener.name."):
        key = key.split(".", 3)[-1]
    for minor in reversed(MINORS):
        table = config_table(minor)
        found = table.find(KeyScope.BROKER, key) or table.find(KeyScope.TOPIC, key)
        if found is not None:
            return found
    return None


def table_with(key: str, minor: str) -> ConfigTable:
    """The table of a minor version, or the newest one that has the key where that one does not."""
    for name in (minor, *reversed(MINORS)):
        table = config_table(name)
        if key in table.broker or key in table.topic:
            return table
    return config_table(minor)


def broker_defaults() -> tuple[tuple[str, str, str | None], ...]:
    """(minor version, key, default in the key's own unit) of every key that clusters are compared in."""
    return tuple((minor, d.name, d.default) for minor in MINORS for d in _compared_definitions(minor))


def inherited_from() -> tuple[tuple[str, str, str, str], ...]:
    """(minor version, topic key, broker key that it inherits from or ``, default or ``) of every topic key."""
    return tuple(
        (minor, d.name, _FORMS.get(d.synonyms[0], (d.synonyms[0],))[0] if d.synonyms else "", d.default or "")
        for minor in MINORS
        for d in config_table(minor).topic.values()
    )


def default_changes(minor: str, other: str) -> Mapping[str, tuple[str, str]]:
    """The defaults that two minor versions have both and that differ between them, by key."""
    ours = {d.name: d.default or "" for d in _compared_definitions(minor)}
    theirs = {d.name: d.default or "" for d in _compared_definitions(other)}
    return {k: (v, theirs[k]) for k, v in sorted(ours.items()) if theirs.get(k, v) != v}


@cache
def _compared_definitions(minor: str) -> tuple[ConfigDef, ...]:
    found = []
    for definition in config_table(minor).broker.values():
        facts = compared_key(definition.name)
        if not definition.internal and facts is not None and not (facts.is_per_node or facts.is_per_cluster):
            found.append(definition)
    return tuple(found)
