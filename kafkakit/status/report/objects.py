"""Topics, partitions, brokers and groups as tables, as facts about one of them, and as data."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from kafkakit.core.cluster_facts import AclBinding, ClusterInfo, ItemError, LogSpan, MetadataVersion, Quotas
from kafkakit.core.findings import Severity
from kafkakit.core.quantities import count_of, format_bytes, format_percent
from kafkakit.core.text import few_of, sanitize, shell_command
from kafkakit.report.report import NextCommands, Part, Remarks, Report, ResultTable, Section, attributes, records
from kafkakit.status.decide.judgement import BrokerStatus, ClusterReading, ClusterStatus, PartName
from kafkakit.status.decide.objects import (
    BrokerDetail,
    CommitOfGroup,
    GroupDetail,
    GroupRow,
    PartitionDetail,
    PartitionRow,
    PartitionWord,
    TopicChange,
    TopicDetail,
    TopicRow,
    in_order,
    is_read,
)
from kafkakit.status.decide.surroundings import POD_CHECKS

if TYPE_CHECKING:
    from kafkakit.kubernetes.brokers import BrokerPod, ClusterPods

_TOPICS = ("topic", "partitions", "replication", "min_isr", "state", "not_preferred", "bytes")
_PARTITIONS = ("topic", "partition", "state", "leader", "replicas", "isr", "adding", "bytes")
_BROKERS = (
    "broker", "rack", "state", "leaders", "replicas", "short", "used_bytes", "total_bytes", "fullest_dir", "fullest",
    "throttle", "certificate_until",
)  # fmt: skip
_GROUPS = ("group", "type", "state", "members", "topics", "lag")
_COMMITS = ("topic", "partition", "committed", "end", "lag", "reader", "error")
_REPLICAS = ("broker", "rack", "is_alive", "in_sync", "bytes", "offset_lag", "log_dir")
_SHOWN_PARTITIONS, _SHOWN_REPLICAS = 50, 20
_UNKNOWN = "?"


def _size(value: int | None) -> str:
    return _UNKNOWN if value is None else format_bytes(value)


def _number(value: int | None) -> str:
    return _UNKNOWN if value is None else f"{value:,}"


def _brokers(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids)) or "-"


def topics_report(rows: Sequence[TopicRow], *, wide: bool) -> Report:
    """A table of topics; `wide` adds ids and the settings that are set on them."""
    head: tuple[str, ...] = ("topic", "partitions", "replication", "min isr", "state", "preferred", "size")
    cells = [_topic_cells(row) for row in rows]
    if wide:
        head = (*head, "id", "set on it")
        cells = [
            (*cell, row.topic_id or "-", ", ".join(f"{k}={v}" for k, v in (row.configs or {}).items()) or "-")
            for cell, row in zip(cells, rows, strict=True)
        ]
    return Report(
        command="topic list",
        data={"topics": [_topic_data(row) for row in rows]},
        sections=(ResultTable(head, cells, empty="no topic"),),
        table=ResultTable(_TOPICS, tuple(_topic_line(row) for row in rows)),
        names=tuple(row.name for row in rows),
    )


def _replication(row: TopicRow) -> str:
    low, high = row.replication
    return str(low) if low == high else f"{low} to {high}"


def _topic_cells(row: TopicRow) -> tuple[object, ...]:
    preferred = f"{row.not_preferred} not" if row.not_preferred else "all"
    return (
        sanitize(row.name), row.partitions, _replication(row), _number(row.min_isr), row.state, preferred,
        _size(row.bytes),
    )  # fmt: skip


def _topic_line(row: TopicRow) -> tuple[object, ...]:
    return (row.name, row.partitions, row.replication[0], row.min_isr, row.state, row.not_preferred, row.bytes)


def _topic_data(row: TopicRow) -> dict[str, object]:
    return {
        "topic": row.name,
        "topic_id": row.topic_id,
        "partitions": row.partitions,
        "replication": {"min": row.replication[0], "max": row.replication[1]},
        "min_isr": row.min_isr,
        "state": row.worst.value,
        "not_ok": {word.value: number for word, number in row.words.items()},
        "not_preferred": row.not_preferred,
        "bytes": row.bytes,
        "configs": dict(row.configs or {}),
    }


def topic_report(facts: TopicDetail, program: str) -> Report:
    """One topic: what is set on it, its partitions worst first, and who has read it."""
    row, rows = facts.row, in_order(facts.partitions)
    sections: list[Part] = [
        f"topic {sanitize(row.name)}: {count_of(row.partitions, 'partition')}, replication {_replication(row)}, "
        f"min ISR {_number(row.min_isr)}, {_size(row.bytes)} in all copies; {row.state}",
        f"id {row.topic_id}" if row.topic_id else "no id (Kafka before 2.8)",
    ]
    settings = [f"{key} = {sanitize(value)}" for key, value in (row.configs or {}).items()]
    sections += [Section("set on it:", settings)] if settings else ["", "nothing is set on it"]
    more = shell_command("partition list", row.name, program=program)
    cells = [_partition_cells(each)[1:] for each in rows]
    sections += ["", ResultTable(_PARTITION_HEAD[1:], cells, most=_SHOWN_PARTITIONS, rest=f"and {{}} more: {more}"), ""]
    if facts.groups is None:
        sections.append("groups with commits on it: not known")
    else:
        groups = few_of(map(sanitize, facts.groups)) if facts.groups else "none"
        sections.append(f"groups with commits on it: {groups}")
    lag = shell_command("streams lag once", program=program, topic=row.name)
    change = shell_command("config plan", "KEY=VALUE", program=program, topics=row.name, plan="plan.json")
    sections += ["", NextCommands([str(lag), str(change)])]
    return Report(
        command="topic describe",
        data={**_topic_data(row), "partition_list": [_partition_data(each) for each in rows],
              "groups": None if facts.groups is None else list(facts.groups)},
        sections=sections,
        table=ResultTable(_PARTITIONS, tuple(_partition_line(each) for each in rows)),
    )  # fmt: skip


_PARTITION_HEAD = ("topic", "partition", "state", "leader", "replicas", "in sync", "size")


def partitions_report(rows: Sequence[PartitionRow]) -> Report:
    """A table of partitions, worst first."""
    ordered = in_order(rows)
    words = Counter(row.word for row in ordered)
    head = ", ".join(f"{words[word]} {word.value}" for word in PartitionWord if words[word])
    table = ResultTable(_PARTITION_HEAD, [_partition_cells(row) for row in ordered], empty="no partition")
    return Report(
        command="partition list",
        data={"partitions": [_partition_data(row) for row in ordered]},
        sections=(table, *([head] if head else [])),
        table=ResultTable(_PARTITIONS, tuple(_partition_line(row) for row in ordered)),
        names=tuple(f"{row.key.topic}/{row.key.partition}" for row in ordered),
    )


def _partition_cells(row: PartitionRow) -> tuple[object, ...]:
    leader = "none" if row.leader is None else str(row.leader) if row.is_preferred else f"{row.leader} (not first)"
    replicas = ",".join(f"{b}{' (new)' if b in row.adding else ''}" for b in row.replicas)
    return (
        sanitize(row.key.topic), row.key.partition, row.word.value, leader, replicas, _brokers(row.isr),
        _size(row.bytes),
    )  # fmt: skip


def _partition_line(row: PartitionRow) -> tuple[object, ...]:
    return (
        row.key.topic, row.key.partition, row.word.value, row.leader, _brokers(row.replicas), _brokers(row.isr),
        _brokers(row.adding), row.bytes,
    )  # fmt: skip


def _partition_data(row: PartitionRow) -> dict[str, object]:
    return {
        "topic": row.key.topic,
        "partition": row.key.partition,
        "state": row.word.value,
        "leader": row.leader,
        "is_preferred_leader": row.is_preferred,
        "replicas": list(row.replicas),
        "isr": list(row.isr),
        "adding": list(row.adding),
        "bytes": row.bytes,
    }


def partition_report(facts: PartitionDetail, program: str) -> Report:
    """One partition: each replica, the ends of its log, who writes, and what throttles it."""
    row = facts.row
    name = f"{row.key.topic}/{row.key.partition}"
    leader = "no leader" if row.leader is None else f"led by {row.leader}"
    minimum = "" if facts.needed is None else f", acks=all needs {facts.needed}"
    sections: list[Part] = [f"partition {sanitize(name)}: {row.word.value}; {leader}; {len(row.isr)} in sync{minimum}"]
    if isinstance(facts.span, LogSpan):
        span = facts.span
        held = f"; readers of committed data wait at {span.stable:,}" if span.stable < span.end else ""
        sections.append(f"offsets {span.start:,} to {span.end:,}{held}")
    elif isinstance(facts.span, ItemError):
        sections.append(f"offsets not known: {facts.span}")
    head = ("broker", "rack", "state", "in sync", "size", "behind", "log dir")
    cells = []
    for each in facts.replicas:
        copy = each.copy
        cells.append(
            (
                f"{each.broker}{' (new)' if each.is_added else ''}",
                each.rack or "-",
                "alive" if each.is_alive else "down",
                "yes" if each.in_sync else "no",
                _size(copy.size_bytes if copy else None),
                _UNKNOWN if copy is None else f"{copy.offset_lag:,}",
                sanitize(copy.log_dir) if copy else _UNKNOWN,
            )
        )
    sections += ["", ResultTable(head, cells)]
    if facts.throttled:
        sections += ["", f"throttled by: {', '.join(facts.throttled)}"]
    if facts.producers:
        open_ones = sum(p.transaction_start is not None for p in facts.producers)
        sections += ["", f"{count_of(len(facts.producers), 'producer')} with an id" + (
            f", {open_ones} in an open transaction" if open_ones else ""
        )]  # fmt: skip
    following = [str(shell_command("topic describe", row.key.topic, program=program))]
    if row.word is PartitionWord.OFFLINE or row.word is PartitionWord.UNDER_MIN_ISR:
        repair = shell_command("topicmappr repair", program=program, topics=row.key.topic, plan="plan.json")
        following.insert(0, str(repair))
    sections += ["", NextCommands(following)]
    replicas = [
        {
            **attributes(each, "broker rack is_alive in_sync is_added"),
            "bytes": each.copy.size_bytes if each.copy else None,
            "offset_lag": each.copy.offset_lag if each.copy else None,
            "log_dir": each.copy.log_dir if each.copy else None,
        }
        for each in facts.replicas
    ]
    ends = facts.span if isinstance(facts.span, LogSpan) else None
    return Report(
        command="partition describe",
        data={
            **_partition_data(row),
            "min_isr": facts.minimum,
            "replica_list": replicas,
            "offsets": None if ends is None else attributes(ends, "start stable end"),
            "producers": None if facts.producers is None else len(facts.producers),
            "throttled_by": list(facts.throttled),
        },
        sections=sections,
        table=ResultTable(_REPLICAS, tuple(tuple(r[name] for name in _REPLICAS) for r in replicas)),
    )


def topic_change_report(change: TopicChange, command: str) -> Report:
    """What was made of a topic, or would be."""
    word = change.what if change.done else f"would be {change.what}" if change.lists else f"not {change.what}"
    cells = [(number, _brokers(replicas)) for number, replicas in sorted(change.lists.items())]
    return Report(
        command=command,
        data={
            "topic": change.topic,
            "done": change.done,
            "partitions": [{"partition": n, "replicas": list(r)} for n, r in sorted(change.lists.items())],
            "configs": dict(change.configs),
            "notes": list(change.notes),
        },
        sections=(
            f"topic {sanitize(change.topic)}: {word}",
            ResultTable(("partition", "replicas"), cells, empty=""),
            *(f"{key} = {sanitize(value)}" for key, value in change.configs.items()),
            Remarks("note", change.notes),
        ),
        table=ResultTable(("topic", "partition", "replicas"), tuple((change.topic, *cell) for cell in cells)),
    )


def acls_report(bindings: Sequence[AclBinding] | None) -> Report:
    """A table of access control lists; without an authorizer everything is allowed, which is said."""
    columns = ("principal", "permission", "operation", "kind", "name", "pattern", "host")
    rows = tuple(
        (b.principal, b.permission.value, b.operation.value, b.kind.value, b.name, b.pattern.value, b.host)
        for b in bindings or ()
    )
    text = "the cluster has no authorizer: everything is allowed" if bindings is None else "no ACL"
    return Report(
        command="acl list",
        data={"has_authorizer": bindings is not None, "acls": records(columns, rows)},
        sections=(ResultTable(columns, [tuple(map(sanitize, row)) for row in rows], empty=text),),
        table=ResultTable(columns, rows),
    )


def quotas_report(quotas: Quotas) -> Report:
    """A table of client quotas, which each broker keeps for itself."""
    columns = ("entity", "key", "value")
    rows = tuple(
        (str(entity), key, value) for entity, values in quotas.items() for key, value in sorted(values.items())
    )
    rows = tuple(sorted(rows))
    return Report(
        command="quota list",
        data={"quotas": records(columns, rows)},
        sections=(ResultTable(columns, [(sanitize(e), k, f"{v:,g}") for e, k, v in rows], empty="no quota"),),
        table=ResultTable(columns, rows),
    )


# -- brokers


def brokers_report(status: ClusterStatus) -> Report:
    """A table of brokers, with their pods if those are known."""
    head = ("broker", "rack", "state", "leaders", "replicas", "short", "disk", "free", "throttle", "certificate")
    more = () if status.reading.pods is None else _PODS
    found = {} if status.reading.pods is None else status.reading.pods.pods
    of_pods = {row.id: _pod_cells(found.get(row.id)) if more else () for row in status.brokers}
    return Report(
        command="broker list",
        data={
            "brokers": [
                {**_broker_data(status, row), **({"pod": _pod_data(found.get(row.id))} if more else {})}
                for row in status.brokers
            ]
        },
        sections=(
            ResultTable((*head, *more), [(*broker_cells(status, row), *of_pods[row.id]) for row in status.brokers]),
            Remarks("note", () if status.reading.cordoned is not None else [_CORDONS_UNKNOWN]),
            *_pod_remarks(status),
        ),
        table=ResultTable(
            (*_BROKERS, "cordoned", *more),
            tuple((*_broker_line(status, row), *of_pods[row.id]) for row in status.brokers),
        ),
        names=tuple(str(row.id) for row in status.brokers),
    )


_PODS = ("pod", "node", "zone", "pod state", "volumes")


def _pod_cells(pod: BrokerPod | None) -> tuple[object, ...]:
    if pod is None:
        return ("-",) * len(_PODS)
    sizes = ", ".join(_size(volume.size_bytes) for volume in pod.volumes)
    node = sanitize(pod.pod.node) if pod.pod.node else "-"
    return sanitize(pod.pod.name), node, sanitize(pod.zone or _UNKNOWN), pod.state, sizes or "-"


def _pod_data(pod: BrokerPod | None) -> dict[str, object] | None:
    if pod is None:
        return None
    return {
        **attributes(pod.pod, "name namespace node phase is_ready"),
        "zone": pod.zone,
        "volumes": [
            {"claim": v.name, "storage_class": v.claim.storage_class if v.claim is not None else None,
             **attributes(v, "paths state size_bytes requested_bytes allows_expansion")}
            for v in pod.volumes
        ],
    }  # fmt: skip


def pods_data(pods: ClusterPods) -> dict[str, object]:
    """The pods of a cluster for programs."""
    return {
        **attributes(pods, "source namespace name written_at"),
        "pods": {str(broker): _pod_data(pod) for broker, pod in pods.pods.items()},
        "missing": [attributes(each, "name owner broker") for each in pods.missing],
        "notes": list(pods.notes),
    }


def pod_lines(pods: ClusterPods, now: datetime) -> Iterator[str]:
    """The pods of a cluster in a line, and what is to be said about the file."""
    ready = sum(pod.state == "ready" for pod in pods.pods.values())
    zones = sorted({pod.zone for pod in pods.pods.values() if pod.zone})
    within = f" in {count_of(len(zones), 'zone')}" if zones else ", zones not known"
    yield f"{ready} of {count_of(len(pods.pods) + len(pods.missing), 'pod')} of {pods.title} ready{within}"
    yield from filter(None, (pods.age_words(now), *pods.notes))


def _pod_remarks(status: ClusterStatus) -> list[str]:
    pods = status.reading.pods
    if pods is None:
        error = status.reading.failure_of(PartName.PODS)
        return [f"pods are not known: {error}"] if error else []
    own = [f for f in status.findings if f.rule in {check.name for check in POD_CHECKS}]
    return [*(f"{f.severity.value}: {f.message}" for f in own), *list(pod_lines(pods, status.reading.at))[1:]]


def _pod_sections(status: ClusterStatus, broker: int) -> Iterator[Part]:
    """A broker's pod and its volumes, if a file tells of them."""
    pods = status.reading.pods
    if pods is None:
        return
    pod = pods.pods.get(broker)
    if pod is None:
        yield from ("", f"no pod in {sanitize(pods.source)}")
        return
    where = f" on node {sanitize(pod.pod.node)}" if pod.pod.node else ", on no node"
    zone = f", zone {sanitize(pod.zone)}" if pod.zone else ", zone not known"
    yield from ("", f"pod {sanitize(pod.pod.namespace or '-')}/{sanitize(pod.pod.name)}: {pod.state}{where}{zone}")
    expands = {True: "yes", False: "no", None: _UNKNOWN}
    cells = [
        (sanitize(v.name), sanitize(v.state or _UNKNOWN), _size(v.size_bytes), _size(v.requested_bytes),
         sanitize((v.claim.storage_class if v.claim is not None else None) or _UNKNOWN), expands[v.allows_expansion],
         sanitize(", ".join(v.paths)) or "-")
        for v in pod.volumes
    ]  # fmt: skip
    if cells:
        yield ResultTable(("claim", "state", "size", "asked for", "class", "may grow", "paths"), cells)
    if pod.pod.owner is not None and pod.pod.owner[0] == "StatefulSet" and cells:
        yield "claims of new pods have the size of the StatefulSet's volumeClaimTemplates, which cannot be changed"
    yield from filter(None, [pods.age_words(status.reading.at)])


_BROKER_FIELDS = ("id", *_BROKERS[1:])


_CORDONS_UNKNOWN = "the control store was not read: it is not known which brokers are cordoned"


def _broker_line(status: ClusterStatus, row: BrokerStatus) -> tuple[object, ...]:
    return (*(getattr(row, name) for name in _BROKER_FIELDS), _cordon_of(status, row))


def _broker_data(status: ClusterStatus, row: BrokerStatus) -> dict[str, object]:
    return {**attributes(row, *_BROKER_FIELDS), "cordoned": _cordon_of(status, row)}


def _cordon_of(status: ClusterStatus, row: BrokerStatus) -> str | None:
    """Why the broker is cordoned, by its mark or by Kafka's own setting; None if it is not, or not known to be."""
    reading = status.reading
    dirs = reading.disks[row.id].log_dirs if reading.disks and row.id in reading.disks else ()
    if row.id in (reading.cordoned or {}):
        return (reading.cordoned or {})[row.id]
    return "cordoned.log.dirs" if dirs and all(d.cordoned for d in dirs) else None


def _state_cell(status: ClusterStatus, row: BrokerStatus) -> str:
    return row.state if _cordon_of(status, row) is None else f"{row.state},cordoned"


def broker_cells(status: ClusterStatus, row: BrokerStatus) -> tuple[object, ...]:
    """What a table shows of a broker."""
    free = None if row.total_bytes is None or row.used_bytes is None else row.total_bytes - row.used_bytes
    until, reading = row.certificate_until, status.reading
    no_throttle = "-" if is_read(reading, row, PartName.THROTTLES) else _UNKNOWN
    no_end = "-" if is_read(reading, row, PartName.CERTIFICATES) else _UNKNOWN
    return (
        row.id, row.rack or "-", _state_cell(status, row),
        _number(row.leaders), _number(row.replicas), _number(row.short),
        _UNKNOWN if row.fullest is None else format_percent(row.fullest), _size(free),
        row.throttle or no_throttle, no_end if until is None else f"{max(0, (until - reading.at).days)} d",
    )  # fmt: skip


def broker_report(status: ClusterStatus, row: BrokerStatus, facts: BrokerDetail | None) -> Report:
    """One broker: findings about it, its log dirs, its largest replicas, and what is set on it."""
    program = status.reading.program
    rack = f" in rack {sanitize(row.rack)}" if row.rack else ""
    sections: list[Part] = [
        f"broker {row.id}{rack}: {row.state}; leads {_number(row.leaders)} of {_number(row.replicas)} replicas, "
        f"{_number(row.short)} not in sync"
    ]
    reason = _cordon_of(status, row)
    if reason is not None:
        sections.append(f"cordoned{f' ({sanitize(reason)})' if reason else ''}: gets no new replica")
    elif status.reading.cordoned is None:
        sections.append(Remarks("note", [_CORDONS_UNKNOWN]))
    own = [f for f in status.findings if f.where.split()[:2] == ["broker", str(row.id)]]
    sections += [f"{f.severity.value}: {f.message}" for f in own if f.severity is not Severity.NOTE]
    if facts is None or facts.dirs.error:
        sections += ["", f"log dirs not known: {facts.dirs.error if facts else 'the broker is down'}"]
    else:
        dirs = facts.dirs
        sizes = Counter[str]()
        numbers = Counter(copy.log_dir for copy in dirs.replicas.values())
        for copy in dirs.replicas.values():
            sizes[copy.log_dir] += copy.size_bytes
        cells = [
            (sanitize(d.path), d.error or ("cordoned" if d.cordoned else "online"), numbers[d.path],
             format_bytes(sizes[d.path]), _size(d.usable_bytes), _size(d.total_bytes))
            for d in dirs.log_dirs
        ]  # fmt: skip
        sections += ["", ResultTable(("log dir", "state", "replicas", "kafka", "free", "size"), cells)]
        largest = sorted(dirs.replicas.items(), key=lambda item: (-item[1].size_bytes, item[0]))[:_SHOWN_REPLICAS]
        shown = [f"{sanitize(key.topic)}/{key.partition} {format_bytes(copy.size_bytes)}" for key, copy in largest]
        sections.append(Section(f"largest of {count_of(len(dirs.replicas), 'replica')}:", shown))
    changed = {
        key: value
        for key, value in ((facts.settings if facts else None) or {}).items()
        if "dynamic" in value.layer.value
    }
    if changed:
        settings = [f"{k} = {sanitize(str(v.value))}" for k, v in changed.items()]
        sections.append(Section("set while it runs:", settings))
    sections += _pod_sections(status, row.id)
    following = shell_command("broker rejoin", str(row.id), program=program)
    if reason is not None and row.id in (status.reading.cordoned or {}):
        following = shell_command("broker uncordon", str(row.id), program=program)
    elif row.state == "alive":
        following = shell_command("broker drain", str(row.id), program=program, dry_run=True)
    sections += ["", NextCommands([str(following)])]
    return Report(
        command="broker describe",
        data={
            **_broker_data(status, row),
            "findings": [attributes(f, "rule severity message") for f in own],
            "log_dirs": None if facts is None or facts.dirs.error
            else [attributes(d, "path total_bytes usable_bytes cordoned error") for d in facts.dirs.log_dirs],
            "dynamic_settings": {k: v.value for k, v in changed.items()},
            **({} if status.reading.pods is None else {"pod": _pod_data(status.reading.pods.pods.get(row.id))}),
        },
        sections=sections,
        table=ResultTable((*_BROKERS, "cordoned"), (_broker_line(status, row),)),
    )  # fmt: skip


def cluster_report(status: ClusterStatus) -> Report:
    """The cluster: who it is, its controllers and racks, and which rights the caller has."""
    reading = status.reading
    info, quorum = reading.info, reading.quorum
    sections: list[Part] = [
        f"cluster {info.cluster_id if info else _UNKNOWN}, Kafka {(info.kafka_version if info else None) or '?'}"
    ]
    racks: dict[str, list[int]] = {}
    for row in status.brokers:
        racks.setdefault(row.rack or "no rack", []).append(row.id)
    sections.append(Section("brokers:", [f"{sanitize(rack)}: {few_of(ids)}" for rack, ids in sorted(racks.items())]))
    if quorum is not None:
        sections += ["", f"controllers: {'none leads' if quorum.leader is None else f'{quorum.leader} leads'}"]
        cells = [
            (v.id, "leader" if v.id == quorum.leader else "voter",
             _UNKNOWN if v.behind_ms is None else f"{v.behind_ms:,} ms", _number(v.behind_records))
            for v in quorum.voters
        ]  # fmt: skip
        sections.append(ResultTable(("controller", "role", "behind", "records"), cells))
    metadata = _metadata_version(reading)
    if info is not None and metadata is not None:
        sections += ["", *_metadata_lines(info, metadata)]
    rights = sorted(info.operations) if info and info.operations is not None else None
    sections += ["", f"rights on the cluster: {', '.join(rights) if rights else 'not told'}"]
    return Report(
        command="cluster describe",
        data={
            "id": info.cluster_id if info else None,
            "kafka_version": info.kafka_version if info else None,
            "racks": dict(sorted(racks.items())),
            "controller": None if quorum is None else {
                "leader": quorum.leader, "voters": [attributes(v, "id behind_ms behind_records") for v in quorum.voters]
            },
            "metadata_version": None if metadata is None else attributes(metadata, "in_force newest"),
            "operations": rights,
        },
        sections=sections,
        table=ResultTable(("broker", "rack", "state"), tuple((r.id, r.rack, r.state) for r in status.brokers)),
    )  # fmt: skip


def _metadata_version(reading: ClusterReading) -> MetadataVersion | None:
    """The level in force, and the newest that all brokers know."""
    known = (reading.metadata or {}).values()
    if not known:
        return None
    return MetadataVersion(in_force=min(v.in_force for v in known), newest=min(v.newest for v in known))


def _metadata_lines(info: ClusterInfo, version: MetadataVersion) -> Iterator[str]:
    if version.newest <= version.in_force:
        yield f"metadata.version: level {version.in_force}"
        return
    yield f"metadata.version: level {version.in_force}; all brokers know {version.newest}"
    address = next((f"{b.host}:{b.port}" for b in info.brokers if b.is_alive), "HOST:PORT")
    feature = f"metadata.version={version.newest}"
    command = shlex.join(("kafka-features.sh", "--bootstrap-server", address, "upgrade", "--feature", feature))
    yield f"when no broker will go back to an earlier version of Kafka: {command}"


# -- groups


def groups_report(rows: Sequence[GroupRow]) -> Report:
    """A table of groups, furthest behind first."""
    ordered = sorted(rows, key=lambda row: (-(row.lag if row.lag is not None else -1), row.listing.group))
    cells = [
        (sanitize(r.listing.group), r.listing.type.value, r.listing.state.value.replace("_", " "), _number(r.members),
         _number(r.topics), _number(r.lag))
        for r in ordered
    ]  # fmt: skip
    return Report(
        command="group list",
        data={"groups": [_group_data(row) for row in ordered]},
        sections=(ResultTable(_GROUPS, cells, empty="no group"),),
        table=ResultTable(_GROUPS, tuple(tuple(_group_data(row).values()) for row in ordered)),
        names=tuple(row.listing.group for row in ordered),
    )


def _group_data(row: GroupRow) -> dict[str, object]:
    listing = row.listing
    values = (listing.group, listing.type.value, listing.state.value, row.members, row.topics, row.lag)
    return dict(zip(_GROUPS, values, strict=True))


def group_report(facts: GroupDetail, program: str) -> Report:
    """One group: its members with their partitions, and where it stands in each."""
    about = facts.description
    name = sanitize(facts.group)
    lag = [row.lag for row in facts.commits if row.lag is not None]
    what = f"{about.type.value}, {about.state.value.replace('_', ' ')}" if about else f"not described: {facts.error}"
    behind = f"{sum(lag):,} records behind" if lag else "lag not known"
    sections: list[Part] = [f"group {name}: {what}; {behind}"]
    if about is not None:
        members = [
            f"{sanitize(m.client_id)} {sanitize(m.host)}: {count_of(len(m.partitions), 'partition')}"
            for m in about.members
        ]
        sections.append(Section(f"{count_of(len(about.members), 'member')}:", members))
    if facts.commits:
        sections += ["", ResultTable(_COMMITS[:-1], [_commit_cells(row) for row in facts.commits])]
    following = shell_command("streams lag once", facts.group, program=program, by="partition")
    sections += ["", NextCommands([str(following)])]
    return Report(
        command="group describe",
        data={
            "group": facts.group,
            "type": about.type.value if about else None,
            "state": about.state.value if about else None,
            "coordinator": about.coordinator if about else None,
            "members": None
            if about is None
            else [
                {
                    **attributes(m, "member_id client_id host"),
                    "partitions": [f"{k.topic}/{k.partition}" for k in m.partitions],
                }
                for m in about.members
            ],
            "lag": sum(lag) if lag else None,
            "partitions": [dict(zip(_COMMITS, _commit_line(row), strict=True)) for row in facts.commits],
        },
        sections=sections,
        table=ResultTable(_COMMITS, tuple(map(_commit_line, facts.commits))),
    )


def _commit_line(row: CommitOfGroup) -> tuple[object, ...]:
    return (row.key.topic, row.key.partition, row.committed, row.end, row.lag, row.reader or None, row.error or None)


def _commit_cells(row: CommitOfGroup) -> Sequence[object]:
    reader = sanitize(row.reader) if row.reader else "-"
    return (
        sanitize(row.key.topic), row.key.partition, _number(row.committed), _number(row.end),
        _number(row.lag), row.error or reader,
    )  # fmt: skip
