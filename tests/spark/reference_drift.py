"""The audit `drift` in plain Python: whole clusters through lint's own rules, and days one after another."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from itertools import pairwise
from typing import Any

from kafkakit.rules.config_defs import NEWEST, config_table, minor_or_none
from kafkakit.rules.effective import BrokerConfig, DeclaredValue, InputMissing, TopicConfig, ValueSource
from kafkakit.rules.families.drift import (
    LEAST_PEERS,
    SHARE_OF_PEERS,
    UNIFORM,
    baseline_drift,
    intra_cluster_heterogeneity,
    unmanaged_or_missing_topic,
    version_skew,
)
from kafkakit.rules.rule import Limits
from kafkakit.rules.subjects import Estate, LintBroker, LintCluster, LintTopic, PartitionFacts

LISTS = {"cleanup.policy", "log.cleanup.policy", "sasl.enabled.mechanisms"}
NODES_OWN = {"node.id", "advertised.listeners", "leader.replication.throttled.replicas"}
HOURS = {"log.retention.hours": ("log.retention.ms", 3_600_000), "log.retention.ms": ("log.retention.ms", 1)}
LAYERS = {
    "default": ValueSource.DEFAULT, "static": ValueSource.STATIC, "dynamic-broker": ValueSource.DYNAMIC_BROKER,
    "dynamic-default": ValueSource.DYNAMIC_DEFAULT,
}  # fmt: skip
Row = Mapping[str, Any]
Found = tuple[str, str, str]


def plain(key: str, text: str) -> str:
    text = text.strip()
    if key in LISTS:
        return ",".join(sorted(item.strip() for item in text.split(",")))
    if text.lower() in ("true", "false"):
        return text.lower()
    return str(int(text)) if text.lstrip("+-").isdigit() else text


class Fleet:
    """Rows by kind, with `cluster` and `date` in each."""

    def __init__(self, rows: Mapping[str, Sequence[Row]], dates: Sequence[str], now_ms: int) -> None:
        self.rows, self.dates, self.now_ms = rows, sorted(dates), now_ms
        self.today = self.dates[-1]

    def of(self, kind: str, cluster: str, day: str | None = None) -> list[Row]:
        day = day or self.today
        return [r for r in self.rows.get(kind, ()) if r["cluster"] == cluster and r["date"] == day]

    @property
    def clusters(self) -> list[str]:
        return sorted({r["cluster"] for r in self.rows["clusters"] if r["date"] == self.today})

    def labels(self, cluster: str) -> set[str]:
        return set(self.of("clusters", cluster)[0]["labels"])

    def table(self, cluster: str) -> Any:
        return config_table(minor_or_none(self.of("clusters", cluster)[0]["kafka_version"]) or NEWEST)

    def brokers(self, cluster: str) -> list[LintBroker]:
        found: dict[int, dict[str, DeclaredValue]] = {}
        ranks: dict[tuple[int, str], tuple[bool, int]] = {}
        for row in self.of("broker_configs", cluster):
            own = found.setdefault(row["broker"], {})
            if row["is_sensitive"] or row["value"] is None or row["key"] in NODES_OWN:
                continue
            name, factor = HOURS.get(row["key"], (row["key"], 1))
            text = plain(name, row["value"])
            if factor > 1:
                text = str(int(text) * factor) if int(text) >= 0 else "-1"
            rank = (row["source"] == "default", factor)
            if rank < ranks.get((row["broker"], name), (True, 10**9)):
                ranks[row["broker"], name] = rank
                own[name] = DeclaredValue(text, LAYERS[row["source"]])
        table = self.table(cluster)
        return [LintBroker(id=b, config=BrokerConfig(table, static=own)) for b, own in sorted(found.items())]

    def usual(self, cluster: str, key: str) -> tuple[str, bool]:
        """The value of most brokers (of the lower id where two are as frequent), and whether it is the default."""
        values = [b.config.declared(key) for b in self.brokers(cluster)]
        given = [v for v in values if v is not None]
        if not given:
            return self.table(cluster) and BrokerConfig(self.table(cluster)).value(key).text, True
        text = Counter(v.text for v in given).most_common(1)[0][0]
        return text, all(v.source is ValueSource.DEFAULT for v in given if v.text == text)


def uniform(fleet: Fleet) -> Iterable[Found]:
    for name in fleet.clusters:
        allowed = {x.removeprefix("may_differ:") for x in fleet.labels(name)}
        cluster = LintCluster(name=name, table=fleet.table(name), brokers=tuple(fleet.brokers(name)))
        for v in intra_cluster_heterogeneity.check(cluster, Limits()):
            if v.key not in allowed:
                yield "KKX003", f"cluster {name}", v.message


def peers(fleet: Fleet) -> Iterable[Found]:
    groups: dict[str, list[str]] = {}
    for name in fleet.clusters:
        for label in fleet.labels(name):
            if ":" not in label and fleet.brokers(name):
                groups.setdefault(label, []).append(name)
    found: dict[tuple[str, str], tuple[int, str, str]] = {}
    for label, names in groups.items():
        for name in names:
            others = [n for n in names if n != name]
            if len(others) < LEAST_PEERS:
                continue
            for key in set(UNIFORM) | {"num.io.threads"}:
                if key not in fleet.table(name).broker or f"may_differ:{key}" in fleet.labels(name):
                    continue
                ours, default = fleet.usual(name, key)
                theirs = [fleet.usual(n, key) for n in others if key in fleet.table(n).broker]
                counts = Counter(text for text, _ in theirs)
                text, number = counts.most_common(1)[0] if counts else ("", 0)
                if text == ours or number / len(others) < SHARE_OF_PEERS:
                    continue
                if default and all(d for t, d in theirs if t == text):
                    continue
                message = (
                    f"{key} is {ours or 'not set'} here and {text or 'not set'} in {number} of {len(others)} peers"
                )
                found[name, key] = max(found.get((name, key), (0, "", "")), (number, label, message))
    for (name, _), (_, _, message) in found.items():
        yield "KKX002", f"cluster {name}", message


def declared(fleet: Fleet) -> Iterable[Found]:
    for name in fleet.clusters:
        rows = fleet.of("declared", name)
        if not rows or any(x.startswith("owned-by:") for x in fleet.labels(name)):
            continue
        live = {t["topic"]: t for t in fleet.of("topics", name)}
        allowed = {x.removeprefix("may_differ:") for x in fleet.labels(name)}
        topics = []
        for topic in sorted({r["topic"] for r in rows} | set(live)):
            own = [r for r in rows if r["topic"] == topic]
            labels = set(live[topic]["labels"] or ()) if topic in live else set()
            if any(x.startswith("owned-by:") for x in labels):
                continue
            skip = NODES_OWN | allowed | {x.removeprefix("may_differ:") for x in labels}
            wanted = {
                r["key"]: plain(r["key"], r["value"]) for r in own if r["key"] not in ("", "partitions", "replication")
            }
            now = {
                r["key"]: plain(r["key"], r["value"])
                for r in fleet.of("topic_configs", name)
                if r["topic"] == topic and not r["is_sensitive"] and r["value"] is not None
            }
            wanted = {k: v for k, v in wanted.items() if k not in skip}
            now = {k: v for k, v in now.items() if k not in skip}
            both = {k: DeclaredValue(wanted.get(k, now.get(k, "")), ValueSource.TOPIC) for k in sorted({*wanted, *now})}
            shape = {r["key"]: int(r["value"]) for r in own if r["key"] in ("partitions", "replication")}
            facts = None
            if topic in live:
                replicas = tuple(range(live[topic]["replication"]))
                facts = tuple(PartitionFacts(partition=p, replicas=replicas) for p in range(live[topic]["partitions"]))
            topics.append(
                LintTopic(
                    name=topic, config=TopicConfig(both, BrokerConfig(fleet.table(name))),
                    partitions=shape.get("partitions"), replication_factor=shape.get("replication"),
                    partition_facts=facts, current=now if topic in live else None, is_declared=bool(own),
                    undeclared=frozenset(now.keys() - wanted.keys()),
                )
            )  # fmt: skip
        cluster = LintCluster(name=name, table=fleet.table(name), is_live=True, topics=tuple(topics))
        for t in topics:
            for v in baseline_drift.check(t, cluster, Limits()):
                yield "KKX001", f"topic {t.name} of {name}", v.message
        for v in unmanaged_or_missing_topic.check(cluster, Limits()):
            assert isinstance(v.about, LintTopic)
            yield "KKX006", f"topic {v.about.name} of {name}", v.message


def mirrors(fleet: Fleet) -> Iterable[Found]:
    for mirror in fleet.clusters:
        labels = fleet.labels(mirror)
        allowed = NODES_OWN | {x.removeprefix("may_differ:") for x in labels}
        sources = {x.removeprefix("mirror:") for x in labels if x.startswith("mirror:")}
        sources |= {str(fleet.of("clusters", mirror)[0]["mirror_of"] or mirror)}
        for source in sorted(sources & set(fleet.clusters) - {mirror}):
            ours, theirs = ({r["topic"]: r for r in fleet.of("topics", n)} for n in (source, mirror))
            for topic in ours:
                copy = topic if topic in theirs else f"{source}.{topic}"
                if copy not in theirs or topic.startswith("__"):
                    continue
                here, there = _own(fleet, source, topic), _own(fleet, mirror, copy)
                files = {k: v for k, v in _of_files(fleet, source, topic).items() if here.get(k) != v}
                here |= files
                free = allowed | {x.removeprefix("may_differ:") for x in theirs[copy]["labels"] or ()}
                for key in {*here, *there} - free:
                    a = here.get(key, _inherited(fleet, source, key)[0])
                    b = there.get(key, _inherited(fleet, mirror, key)[0])
                    if a != b:
                        where = f"in the files of {source}" if key in files else f"on {source}"
                        message = f"{key} is {b or 'not set'} on the mirror and {a or 'not set'} {where}"
                        yield "KKX005", f"topic {copy} of {mirror}", message
            for key in fleet.table(source).topic.keys() & fleet.table(mirror).topic.keys() - allowed:
                (a, a_default), (b, b_default) = _inherited(fleet, source, key), _inherited(fleet, mirror, key)
                if a != b and not (a_default and b_default):
                    message = f"topics inherit {key} {b or 'not set'} on the mirror and {a or 'not set'} on {source}"
                    yield "KKX005", f"cluster {mirror}", message


def _own(fleet: Fleet, cluster: str, topic: str) -> dict[str, str]:
    rows = (r for r in fleet.of("topic_configs", cluster) if r["topic"] == topic and not r["is_sensitive"])
    return {r["key"]: plain(r["key"], r["value"]) for r in rows if r["value"] is not None}


def _of_files(fleet: Fleet, cluster: str, topic: str) -> dict[str, str]:
    """What files say of a topic that they govern, without what may differ."""
    (live,) = (t for t in fleet.of("topics", cluster) if t["topic"] == topic)
    labels = {*fleet.labels(cluster), *(live["labels"] or ())}
    if any(x.startswith("owned-by:") for x in labels):
        return {}
    free = NODES_OWN | {x.removeprefix("may_differ:") for x in labels} | {"", "partitions", "replication"}
    rows = (r for r in fleet.of("declared", cluster) if r["topic"] == topic)
    return {r["key"]: plain(r["key"], r["value"]) for r in rows if r["key"] not in free}


def _inherited(fleet: Fleet, cluster: str, key: str) -> tuple[str, bool]:
    definition = fleet.table(cluster).topic[key]
    text, default = fleet.usual(cluster, definition.synonyms[0]) if definition.synonyms else ("", True)
    return (definition.default or "", True) if default else (text, False)


def skews(fleet: Fleet) -> Iterable[Found]:
    clusters = []
    for name in fleet.clusters:
        since = None
        for day in fleet.dates:
            rows = fleet.of("brokers", name, day)
            if rows:
                many = len({minor_or_none(r["version"]) for r in rows if r["version"]}) > 1
                since = (since or day) if many else None
        age = (fleet.now_ms - _ms(since)) / 86_400_000 if since else 0.0
        clusters.append(
            LintCluster(
                name=name, table=fleet.table(name), versions_differ_days=age,
                brokers=tuple(LintBroker(config=BrokerConfig(fleet.table(name)), version=r["version"])
                              for r in fleet.of("brokers", name)),
            )
        )  # fmt: skip
    try:
        for v in version_skew.check(Estate(clusters=tuple(clusters)), Limits()):
            yield "KKX007", f"cluster {v.subject}", v.message
    except InputMissing:
        raise AssertionError("the reference lacks an input") from None


def changes(fleet: Fleet) -> Iterable[tuple[Any, ...]]:
    """(cluster, place, key, old, new, old source, new source, last old day, first day, last day) of each change."""
    for kind, name, presence in (("topic_configs", "topic", "topics"), ("broker_configs", "broker", "broker_configs")):
        for cluster in sorted({r["cluster"] for r in fleet.rows.get(kind, ())}):
            days = [d for d in fleet.dates if fleet.of(kind, cluster, d)]
            seen: dict[tuple[Any, str], dict[str, tuple[str | None, str | None]]] = {}
            for day in days:
                for r in fleet.of(kind, cluster, day):
                    if r["source"] != "default" and not r["is_sensitive"] and r["value"] is not None:
                        seen.setdefault((r[name], r["key"]), {})[day] = (plain(r["key"], r["value"]), r["source"])
            for (place, key), by_day in seen.items():
                found = []
                for before, day in pairwise(days):
                    there = all(any(r[name] == place for r in fleet.of(presence, cluster, d)) for d in (before, day))
                    old, new = by_day.get(before, (None, None)), by_day.get(day, (None, None))
                    if there and old != new:
                        found.append((before, day, old, new))
                for number, (before, day, old, new) in enumerate(found):
                    last = found[number + 1][0] if number + 1 < len(found) else days[-1]
                    yield cluster, place, key, old[0], new[0], old[1], new[1], before, day, last


def stale(fleet: Fleet, days: float) -> Iterable[tuple[str, str]]:
    """(where, key) of overrides that are older than some days and in no file."""
    for kind, name in (("topic_configs", "topic"), ("broker_configs", "broker")):
        for cluster in fleet.clusters:
            files = fleet.of("declared", cluster)
            if any(x.startswith("owned-by:") for x in fleet.labels(cluster)):
                files = []
            own = {(r["topic"], r["key"]) for r in files}
            labels = {t["topic"]: t["labels"] or () for t in fleet.of("topics", cluster)}
            known = [d for d in fleet.dates if fleet.of(kind, cluster, d)]
            for r in fleet.of(kind, cluster):
                if r["is_sensitive"] or r["value"] is None or r["source"] == "default":
                    continue
                if name == "broker" and r["source"] != "dynamic-broker":
                    continue
                if name == "topic" and (not files or (r["topic"], r["key"]) in own):
                    continue
                if name == "topic" and any(x.startswith("owned-by:") for x in labels.get(r["topic"], ())):
                    continue
                since = fleet.today
                for day in reversed(known):
                    same = (
                        (x["source"], plain(x["key"], x["value"]))
                        for x in fleet.of(kind, cluster, day)
                        if (x[name], x["key"]) == (r[name], r["key"]) and x["value"] is not None
                    )
                    if (r["source"], plain(r["key"], r["value"])) not in same:
                        break
                    since = day
                if fleet.now_ms - _ms(since) > days * 86_400_000:
                    yield f"{name} {r[name]} of {cluster}", r["key"]


def _ms(day: str) -> int:
    return (date.fromisoformat(day) - date(1970, 1, 1)).days * 86_400_000
