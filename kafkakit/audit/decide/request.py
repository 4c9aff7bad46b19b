"""What audits are asked for: the job spec, and its scope.

A scope stands for clusters, topics and brokers of a store: names, or queries over what was collected.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from math import isfinite
from typing import Any, NoReturn

from kafkakit.audit.decide.launch import ALL, JOBS
from kafkakit.core.errors import UsageError
from kafkakit.core.fleet_tables import JobSpec
from kafkakit.core.model import Broker, BrokerState, ClusterSnapshot, LogDir, Partition, TagSet, Topic
from kafkakit.core.options import REPEATED, Completion, not_typed, option, parsed_option, required_option, texts
from kafkakit.core.quantities import count_of
from kafkakit.core.query import (
    BROKER_KEYS,
    CONFIG,
    TOPIC_KEYS,
    Column,
    ObjectTable,
    broker_table,
    names_matching,
    object_table,
    tag_keys,
    text_column,
    topic_table,
    why_none,
)
from kafkakit.core.query_text import keys_of, parse_query
from kafkakit.core.selection import parse_broker_list, parse_patterns, query_of, select_topics
from kafkakit.core.text import shell_command

DEFAULT_DAYS = 30
_DAY = timedelta(days=1)


def parse_jobs(text: str) -> tuple[str, ...]:
    """The audits; `UsageError` for a name that none has."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in (*JOBS, ALL)]
    if unknown or not names:
        raise UsageError(f"there is no audit {', '.join(unknown)!r:.40}", hint=f"of {', '.join(JOBS)}, or {ALL}")
    return tuple(JOBS) if ALL in names else names


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeRequest:
    """What a run is limited to, as typed: names or `where QUERY`; None for all."""

    clusters: str | None = option(
        None,
        "--clusters",
        metavar="NAME,...|where QUERY",
        help="Audit only these clusters of the store, such as 'where env = prod'.",
    )
    topics: str | None = option(
        None,
        "--topics",
        completion=Completion.TOPICS,
        metavar="TOPICS",
        help="Limit findings about topics to these, such as 'where tier = hot'.",
    )
    brokers: str | None = option(
        None,
        "--brokers",
        completion=Completion.BROKERS,
        metavar="BROKERS",
        help="Limit findings about brokers to these, such as 'where rack = a'.",
    )

    @property
    def texts(self) -> dict[str, str] | None:
        """What is limited, as typed; None where nothing is."""
        given = {name: text for name, text in asdict(self).items() if text is not None}
        return given or None


EVERYTHING = ScopeRequest()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditParts:
    """What audits look at beside a store, and their thresholds as `JOB.PARAMETER=VALUE`."""

    segments: tuple[str, ...] = parsed_option(
        None,
        "--segments",
        parse=texts,
        typed=REPEATED,
        metavar="DIR",
        help="Also scan this tree of log segments. Repeatable.",
    )
    parameters: tuple[str, ...] = parsed_option(
        None,
        "--set",
        parse=texts,
        typed=REPEATED,
        metavar="JOB.PARAMETER=VALUE",
        help="Set a threshold of a job. Repeatable.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest(AuditParts):
    """One command line: `jobs` are names; `date` is ISO 8601, None for the newest."""

    jobs: tuple[str, ...] = not_typed(())
    input: str = required_option("--input", metavar="DIR|URI", help="The store of snapshots.")
    output: str = required_option("--output", metavar="DIR|URI", help="Folder in which the run's folder is created.")
    date: str | None = option(None, "--date", metavar="DATE", help="Date of the snapshots; the newest if not given.")
    days: int = option(
        DEFAULT_DAYS,
        "--days",
        min=1,
        max=3660,
        metavar="N",
        help="Days of history, including the day of the snapshots.",
    )
    scope: ScopeRequest = EVERYTHING


@dataclass(frozen=True, slots=True, kw_only=True)
class HereRequest(AuditParts):
    """What is read of one live cluster, what is audited, and where snapshots and results are kept (None: usual)."""

    jobs: tuple[str, ...] = parsed_option(
        ALL, "--jobs", parse=parse_jobs, metavar="NAME,...", help="The audits to run."
    )
    commits: bool = option(
        False, "--commits", help="Also read the history of commits from __consumer_offsets, for the audit lag."
    )
    keep: str | None = option(
        None,
        "--keep",
        metavar="DIR",
        help="Keep snapshots and results here; when not given, in a folder of the cluster below the state folder.",
    )

    def of_store(self, folder: str) -> AuditRequest:
        """What is audited of the store below a folder."""
        return AuditRequest(
            jobs=self.jobs,
            input=f"{folder}/store",
            output=f"{folder}/results",
            segments=self.segments,
            parameters=self.parameters,
        )


def _collect(store: str) -> str:
    return str(shell_command("fleet collect", profiles="NAME", to=store))


def snapshot_date(request: AuditRequest, known: Collection[str], today: str) -> str:
    """The day that is looked at; `known` are the dates of which the store has manifests.

    Trees of segments alone need no snapshot: then it is `today`. `UsageError` where there is nothing to look at.
    """
    if request.date is not None:
        try:
            wanted = date.fromisoformat(request.date).isoformat()
        except ValueError:
            raise UsageError(f"--date {request.date!r:.40} is not a date", hint="write it as 2026-11-20") from None
        if wanted not in known and not request.segments:
            newest = f"the newest is {max(known)}" if known else "it has none"
            raise UsageError(
                f"{request.input} has no snapshot of {wanted}; {newest}",
                hint=f"choose another --date, or collect the clusters of today: {_collect(request.input)}",
            )
        return wanted
    if not known and not request.segments:
        raise UsageError(f"{request.input} has no snapshot", hint=f"collect some: {_collect(request.input)}")
    return max(known, default=today)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditScope:
    """The names that a scope stands for, those of topics and brokers by cluster; None for all."""

    clusters: tuple[str, ...] | None = None
    topics: Mapping[str, tuple[str, ...]] | None = None
    brokers: Mapping[str, tuple[str, ...]] | None = None


def spec_of_request(
    request: AuditRequest,
    *,
    known: Collection[str],
    wanted: str,
    taken_ms: int | None,
    now_ms: int,
    version: str,
    scope: AuditScope | None = None,
) -> JobSpec:
    """The spec: the same one for the same request and store.

    `wanted` is the snapshot's date and `taken_ms` when the last cluster of it was read. Without one, the end of
    that day, or `now_ms` while the day lasts. `scope` are the names that the request's scope stands for.
    """
    scope = scope or AuditScope()
    first = (date.fromisoformat(wanted) - (request.days - 1) * _DAY).isoformat()
    end = datetime.fromisoformat(wanted).replace(tzinfo=UTC) + _DAY
    return JobSpec(
        jobs=request.jobs,
        input=request.input,
        output=request.output,
        snapshot_date=wanted,
        dates=tuple(sorted({day for day in known if first <= day <= wanted} | {wanted})),
        now_ms=taken_ms if taken_ms is not None else min(now_ms, int(end.timestamp() * 1000)),
        parameters=parameters_of(request.parameters, request.jobs),
        segments=request.segments,
        version=version,
        scope=request.scope.texts,
        clusters=scope.clusters,
        topics=scope.topics,
        brokers=scope.brokers,
    )


NUMBERS: Mapping[str, tuple[str, ...]] = {
    "segments": ("open_transaction_ms", "overshoot_ratio", "backlog_ms", "crc"),
    "retention": ("tolerance",),
    "drift": ("stale_days",),
    "bombs": ("memory_bytes",),
    "lag": ("slo_s", "slo_share", "z", "silent_s"),
    "mirror": ("window_s", "round_ms", "clock_s"),
}
"""The thresholds of each job, which are numbers from 0 on."""
TEXTS: Mapping[str, tuple[str, ...]] = {
    "bombs": ("receive_message_max_bytes",),
    "lag": ("kafka", "kafka_properties"),
}


def parameters_of(texts: Collection[str], jobs: Collection[str]) -> dict[str, str | int | float]:
    """Thresholds by `job.name`; `UsageError` for what is none, or for a job that does not run."""
    found: dict[str, str | int | float] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        job, dot, parameter = name.partition(".")
        if not (equals and dot and parameter and value):
            raise UsageError(f"--set {text!r:.80} is not JOB.PARAMETER=VALUE")
        if job not in jobs:
            raise UsageError(f"--set {text!r:.80}: {job} is not among the jobs of this run ({', '.join(jobs)})")
        numbers, own = NUMBERS.get(job, ()), TEXTS.get(job, ())
        if parameter not in (*numbers, *own):
            known = ", ".join(f"{job}.{one}" for one in (*numbers, *own)) or "none"
            raise UsageError(f"--set {text!r:.80}: the job {job} has no {parameter}", hint=f"it has {known}")
        found[name] = _number(text, value) if parameter in numbers else value
    return found


def _number(text: str, value: str) -> int | float:
    for kind in (int, float):
        with suppress(ValueError):
            number = kind(value)
            if number >= 0 and isfinite(number):
                return number
    raise UsageError(f"--set {text!r:.80}: {value:.40} is not a number from 0 on")


MAX_NAMES = 200_000
_FROM_TOPICS = frozenset({"name", "internal"})
_FROM_BROKERS = frozenset({"id", "host", "rack", "state", "is_alive"})
_CLUSTER_KEYS = ("cluster_id", "env", "kafka_version", "mirror_of")
Rows = Mapping[str, Sequence[Any]]
"""The columns of a table of one cluster; those that its files lack are absent."""
Tables = Mapping[str, Rows]


def tables_for_topics(text: str) -> tuple[str, ...]:
    """The tables of each cluster that choosing topics needs; `QueryError` for a query that cannot be read."""
    keys = _keys(text)
    own = () if keys & TOPIC_KEYS <= _FROM_TOPICS else ("partitions", "replicas")
    return ("topics", *own, *(("topic_configs",) if any(key.startswith(CONFIG) for key in keys) else ()))


def tables_for_brokers(text: str) -> tuple[str, ...]:
    """The tables of each cluster that choosing brokers needs; `QueryError` for a query that cannot be read."""
    own = () if _keys(text) & BROKER_KEYS <= _FROM_BROKERS else ("topics", "partitions", "log_dirs")
    return ("brokers", *own)


def chosen_clusters(text: str, tables: Mapping[str, Rows]) -> tuple[str, ...]:
    """The clusters that are named or match, sorted; `tables` are their tables `clusters`.

    Labels of the fleet file are keys: `exists(tier-1)`, and `team = x` for the label `team=x`. Raises `UsageError`
    where a name is not in the store, or none matches.
    """
    query = query_of(text)
    if query is not None:
        node, table = parse_query(query), _cluster_table(tables)
        return tuple(names_matching(node, table)) or _refuse(text, "cluster", why_none(node, table))
    names = {name.strip() for name in text.split(",") if name.strip()}
    unknown = sorted(names - tables.keys())
    if unknown or not names:
        have = ", ".join(sorted(tables)[:10]) or "none"
        raise UsageError(f"--clusters names {', '.join(unknown) or 'no cluster'}; the clusters of that day are {have}")
    return tuple(sorted(names))


def chosen_topics(text: str, tables: Mapping[str, Tables]) -> dict[str, tuple[str, ...]]:
    """The topics of each cluster that are named or match; `tables` are those of `tables_for_topics` by cluster.

    Raises `UsageError` where none matches, where a query looks at tags that were not collected, and for more than
    `MAX_NAMES` names.
    """
    if query_of(text) is None:
        every = {name for own in tables.values() for name in own["topics"].get("topic", ())}
        named = set(select_topics(every, parse_patterns(text)).selected)
        return _limit_names({c: [t for t in own["topics"].get("topic", ()) if t in named] for c, own in tables.items()})
    return _matching_names(text, tables, "topic", TOPIC_KEYS, topic_table)


def chosen_brokers(text: str, tables: Mapping[str, Tables]) -> dict[str, tuple[str, ...]]:
    """The ids of brokers, as texts, of each cluster; otherwise like `chosen_topics`."""
    listed = parse_broker_list(text)
    if listed.where is not None:
        return _matching_names(text, tables, "broker", BROKER_KEYS, broker_table)
    if listed.existing:
        raise UsageError("-1 is not taken here: which brokers hold replicas is not known", hint="-2: all brokers")
    found = {
        c: [str(b) for b in own["brokers"].get("broker", ()) if listed.everything or b in listed.ids]
        for c, own in tables.items()
    }
    return _limit_names(found) if any(found.values()) else _refuse(text, "broker", ())


def _matching_names(
    text: str,
    tables: Mapping[str, Tables],
    kind: str,
    own_keys: frozenset[str],
    table_of: Callable[[ClusterSnapshot], ObjectTable],
) -> dict[str, tuple[str, ...]]:
    node = parse_query(query_of(text) or "")
    snapshots = {cluster: _snapshot(cluster, own) for cluster, own in tables.items()}
    tags = tag_keys(node, own_keys)
    without = sorted(cluster for cluster, snapshot in snapshots.items() if snapshot.tags is None)
    if tags and without:
        shown = ", ".join(without[:10]) + (", ..." if len(without) > 10 else "")
        raise UsageError(
            f"{', '.join(tags)} can only be tags, and the snapshots of {shown} have none on record",
            hint="collect them again with tags, or choose others with --clusters: "
            "kafkakit fleet collect --tags --again --profiles NAME --to DIR",
        )
    found = {cluster: names_matching(node, table_of(snapshot)) for cluster, snapshot in snapshots.items()}
    if not any(found.values()):
        lines = [line for snapshot in snapshots.values() for line in why_none(node, table_of(snapshot))]
        _refuse(text, kind, lines[:10])
    return _limit_names(found)


def _limit_names(found: Mapping[str, Collection[str]]) -> dict[str, tuple[str, ...]]:
    number = sum(map(len, found.values()))
    if number > MAX_NAMES:
        raise UsageError(
            f"the scope has {count_of(number, 'name')}, at most {MAX_NAMES:,} are handed to a job",
            hint="choose clusters with --clusters, or run without the scope",
        )
    return {cluster: tuple(sorted(names)) for cluster, names in sorted(found.items()) if names}


def _refuse(text: str, kind: str, lines: Sequence[str]) -> NoReturn:
    error = UsageError(f"no {kind} of the store matches {text!r:.200}")
    error.lines = tuple(lines)
    raise error


def _keys(text: str) -> frozenset[str]:
    query = query_of(text)
    return frozenset() if query is None else keys_of(parse_query(query))


def _cluster_table(tables: Mapping[str, Rows]) -> ObjectTable:
    def first(cluster: str, column: str) -> Any:
        return next(iter(tables[cluster].get(column, ())), None)

    def attribute(key: str) -> Callable[[Sequence[str]], Column]:
        return lambda clusters: text_column([first(cluster, key) for cluster in clusters])

    own = {"name": text_column, **{key: attribute(key) for key in _CLUSTER_KEYS}}
    names = sorted(tables)
    return object_table(names, names, own, lambda name: dict(map(_label, first(name, "labels") or ())))


def _label(label: str) -> tuple[str, str]:
    key, equals, value = label.partition("=")
    return key, value if equals else "true"


def _snapshot(cluster: str, tables: Tables) -> ClusterSnapshot:
    """What queries look at of a cluster; parts whose tables were not read are empty."""
    brokers, topics = tables.get("brokers", {}), tables.get("topics", {})
    broker_tags, topic_tags = _tags(brokers, "broker"), _tags(topics, "topic")
    dirs: dict[int, list[LogDir]] = {}
    for broker, path, total, usable in _rows(tables, "log_dirs", "broker", "path", "total_bytes", "usable_bytes"):
        dirs.setdefault(broker, []).append(LogDir(path=path, total_bytes=total, usable_bytes=usable))
    configs: dict[str, dict[str, str]] = {}
    for topic, key, value in _rows(tables, "topic_configs", "topic", "key", "value"):
        if value is not None:
            configs.setdefault(topic, {})[key] = value
    partitions = _partitions(tables)
    return ClusterSnapshot(
        cluster_id=cluster,
        taken_at=datetime.fromtimestamp(0, UTC),
        source="store",
        brokers=tuple(
            Broker(
                id=broker,
                rack=rack,
                host=host or "",
                state=BrokerState.ALIVE if is_alive else BrokerState.FENCED,
                log_dirs=tuple(dirs.get(broker, ())),
            )
            for broker, rack, host, is_alive in _rows(tables, "brokers", "broker", "rack", "host", "is_alive")
        ),
        topics=tuple(
            Topic(name=name, partitions=tuple(partitions.get(name, ())), configs=configs.get(name, {}))
            for (name,) in _rows(tables, "topics", "topic")
        ),
        tags=None
        if broker_tags is None or topic_tags is None
        else TagSet(brokers={int(b): own for b, own in broker_tags.items()}, topics=topic_tags),
    )


def _partitions(tables: Tables) -> dict[str, list[Partition]]:
    sizes: dict[tuple[str, int], dict[int, int]] = {}
    copies = _rows(tables, "replicas", "topic", "partition", "broker", "size_bytes", "is_future")
    for topic, number, broker, size, is_future in copies:
        if not is_future and size is not None:
            sizes.setdefault((topic, number), {})[broker] = size
    found: dict[str, list[Partition]] = {}
    for topic, number, replicas, isr, size in _rows(
        tables, "partitions", "topic", "partition", "replicas", "isr", "size_bytes"
    ):
        held = sizes.get((topic, number), {})
        one = Partition(
            partition=number,
            replicas=tuple(replicas or ()),
            isr=None if isr is None else tuple(isr),
            size_bytes=size,
            replica_bytes=held,
        )
        found.setdefault(topic, []).append(one)
    return found


def _tags(rows: Rows, name: str) -> dict[Any, dict[str, str]] | None:
    """The tags of each object that has some; None where they were not read for one of them."""
    names = rows.get(name, ())
    keys, values = (rows.get(column, [None] * len(names)) for column in ("tag_keys", "tag_values"))
    if any(own is None for own in keys):
        return None
    pairs = zip(names, keys, values, strict=True)
    return {name: dict(zip(own, texts, strict=True)) for name, own, texts in pairs if own}


def _rows(tables: Tables, kind: str, *columns: str) -> list[tuple[Any, ...]]:
    rows = tables.get(kind, {})
    length = len(next(iter(rows.values()), ()))
    return list(zip(*(rows.get(column, [None] * length) for column in columns), strict=True))
