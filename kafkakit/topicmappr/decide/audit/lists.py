"""What is wrong with the map's entries and lists: unreadable, unknown, unsafe."""

from collections.abc import Iterator

from kafkakit.core.model import Broker
from kafkakit.placement.group_rule import GroupRule
from kafkakit.topicmappr.decide.audit.case import AuditCase, AuditedPartition
from kafkakit.topicmappr.decide.audit.catalogue import Issue
from kafkakit.topicmappr.decide.audit.reading import MapReading

_SHOWN_IDS = 8


def map_issues(reading: MapReading, case: AuditCase) -> Iterator[Issue]:
    """Faults of the file itself, and entries for partitions that are not there."""
    if reading.version != 1:
        yield Issue("version", "map", f"version {reading.version}")
    for line in reading.unread:
        yield Issue("unreadable", "map", line)
    for key in reading.twice:
        yield Issue("listed-twice", f"topic {key.topic}", str(key))
    for entry in case.strangers:
        yield Issue("unknown-partition", f"topic {entry.key.topic}", str(entry.key))


def list_issues(case: AuditCase, rule: GroupRule) -> Iterator[Issue]:
    """Faults of the lists, partition by partition. O(replicas)."""
    closed = frozenset(b.id for b in case.live.values() if _is_closed(b))
    for row in case.rows:
        if row.entry is not None:
            yield from _entry_issues(row, case)
            yield from _dir_issues(row, case)
        if row.after != row.before:
            yield from _move_issues(row, case, closed)
        yield from _rack_issues(row, case, rule)
        if rule.tags is not None and row.entry is not None:
            for text in rule.tags.faults(row.topic.name, row.before, row.after):
                yield Issue("constraint-broken", f"topic {row.topic.name}", row.name, f" ({text})")


def _entry_issues(row: AuditedPartition, case: AuditCase) -> Iterator[Issue]:
    """What Kafka refuses."""
    replicas = row.entry.replicas if row.entry else ()
    if not replicas:
        yield _issue("empty-list", row)
    if len(set(replicas)) != len(replicas):
        yield _issue("repeated-broker", row, replicas)
    if any(b not in case.known and b not in row.before for b in replicas):
        yield _issue("unknown-broker", row, replicas)
    if any(b not in case.live and b in row.before for b in replicas):
        yield _issue("dead-broker-stays", row, replicas)


def _dir_issues(row: AuditedPartition, case: AuditCase) -> Iterator[Issue]:
    entry = row.entry
    if entry is None or entry.dirs is None:
        return
    if len(entry.dirs) != len(entry.replicas):
        yield _issue("log-dirs", row)
        return
    for broker, path in zip(entry.replicas, entry.dirs, strict=True):
        known = case.live[broker].log_dirs if broker in case.live else ()
        if path != "any" and known and not any(d.path == path and not d.cordoned and not d.error for d in known):
            yield _issue("unknown-log-dir", row)
            return


def _move_issues(row: AuditedPartition, case: AuditCase, closed: frozenset[int]) -> Iterator[Issue]:
    """What a list that changes puts at risk."""
    p, after = row.partition, row.after
    adding = row.adding
    if any(b not in case.live for b in adding):
        yield _issue("dead-broker", row, after)
    if any(b in closed for b in adding):
        yield _issue("closed-broker", row, after)
    in_sync = p.replicas if p.isr is None else p.isr
    if not any(b in case.live for b in in_sync):
        yield _issue("no-source", row, after)
    elif p.isr and not any(b in p.isr for b in after):
        yield _issue("loses-in-sync", row, after)
    if len(after) < len(row.before):
        yield _issue("fewer-replicas", row, after)
        if len(after) < _min_isr(row):
            yield _issue("below-min-isr", row, after)
    elif len(after) > len(row.before):
        yield _issue("more-replicas", row, after)
    if row.moving:
        yield _issue("being-moved", row, after)
    if row.before[:1] != after[:1]:
        yield Issue("leader-moves", "map", row.name)


def _rack_issues(row: AuditedPartition, case: AuditCase, rule: GroupRule) -> Iterator[Issue]:
    if row.entry is None:
        return
    before, after = ([case.racks.get(b) for b in lists] for lists in (row.before, row.after))
    if rule.violates(after):
        old = rule.violates(before) and not rule.worsens(before, after)
        yield _issue("rack-rule-stays" if old else "rack-rule-broken", row, row.after)


def _min_isr(row: AuditedPartition) -> int:
    text = row.topic.configs.get("min.insync.replicas", "1")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 1


def _is_closed(broker: Broker) -> bool:
    return bool(broker.log_dirs) and all(d.cordoned or d.error for d in broker.log_dirs)


def _issue(rule: str, row: AuditedPartition, replicas: tuple[int, ...] | None = None) -> Issue:
    detail = ""
    if replicas is not None:
        more = " ..." if len(replicas) > _SHOWN_IDS else ""
        detail = (
            f" [{' '.join(map(str, row.before[:_SHOWN_IDS]))}] -> [{' '.join(map(str, replicas[:_SHOWN_IDS]))}{more}]"
        )
    return Issue(rule, f"topic {row.topic.name}", row.name, detail)
