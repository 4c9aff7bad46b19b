"""Any tool's reassignment map beside its cluster, read entry by entry, and what is wrong with its lists.

What cannot be read becomes a fault, not a refusal; entries and lists may also be unknown or unsafe. Read are the
partitions in question, their lists before and after, who is who, and disks. Each rule of the catalogue has what it
means, what happens, and what helps.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from kafkakit.core.documents import decode_json
from kafkakit.core.errors import InputError
from kafkakit.core.findings import Finding, Rule, Severity, min_isr_above_replicas, min_isr_of, shorten
from kafkakit.core.model import Broker, ClusterSnapshot, Partition, Topic, TopicPartition
from kafkakit.core.placement_statistics import BrokerStorage
from kafkakit.core.plan_rules import MAX_INT32, topic_problem
from kafkakit.core.quantities import agree, count_of, format_bytes, percent_word
from kafkakit.core.selection import select_topics
from kafkakit.core.text import OptionValue, ShellCommand, few_of, shell_command
from kafkakit.placement.broker_disks import DirStorage
from kafkakit.placement.group_rule import SpreadRule
from kafkakit.topicmappr.decide.requests import MapAuditRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class MapEntry:
    """One partition of the map: its new list as written, and the log dirs that go with it (None: none named)."""

    key: TopicPartition
    replicas: tuple[int, ...]
    dirs: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedPartition:
    """One partition of the scope; `after` is `before` where the map says nothing that Kafka would take.

    `entry` is what the map says (None: nothing). `before` is the list that a running move leads to.
    """

    topic: Topic
    partition: Partition
    before: tuple[int, ...]
    after: tuple[int, ...]
    entry: MapEntry | None
    moving: bool

    @property
    def name(self) -> str:
        """The partition's name."""
        return f"{self.topic.name}-{self.partition.partition}"

    @property
    def key(self) -> TopicPartition:
        """The partition as a key."""
        return TopicPartition(self.topic.name, self.partition.partition)

    @property
    def adding(self) -> tuple[int, ...]:
        """Brokers that get a copy."""
        return tuple(b for b in self.after if b not in self.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditCase:
    """The scope's rows by topic and number, entries for partitions that do not exist, and the brokers.

    `live` are alive, `known` registered in any state; `even` should be balanced. `rules` are for the version.
    `usual_min_isr` is that of topics without their own. `cordoned` brokers have a mark.
    """

    rows: tuple[AuditedPartition, ...]
    unknown: tuple[MapEntry, ...]
    racks: Mapping[int, str | None]
    live: Mapping[int, Broker]
    known: frozenset[int]
    even: tuple[int, ...]
    rules: Mapping[str, Rule]
    usual_min_isr: int
    cordoned: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class MapReading:
    """What could be read: one entry a partition (the first of several), in the map's order.

    `unread` says of each entry that makes no sense what is wrong; `twice` are partitions listed again. `version`
    is None when it is not a whole number; a map without one counts as version 1.
    """

    entries: tuple[MapEntry, ...]
    unread: tuple[str, ...]
    twice: tuple[TopicPartition, ...]
    version: int | None


def case_of(snapshot: ClusterSnapshot, reading: MapReading, request: MapAuditRequest) -> AuditCase:
    """Hold map and cluster side by side; raises `UsageError` for topic patterns that match nothing. O(replicas)."""
    named = {entry.key.topic for entry in reading.entries}
    wanted: set[str] = set()
    if request.topics:
        wanted = set(select_topics([t.name for t in snapshot.topics], request.topics).selected)
    entries = {entry.key: entry for entry in reading.entries}
    known = frozenset(b.id for b in snapshot.brokers if b.state.value != "missing")
    targets = {(r.topic, r.partition): r.target for r in snapshot.reassignments}
    rows = []
    for topic in snapshot.topics:
        if topic.name in named or topic.name in wanted:
            for p in sorted(topic.partitions, key=lambda p: p.partition):
                entry = entries.pop(TopicPartition(topic.name, p.partition), None)
                rows.append(_row(topic, p, entry, known, targets.get((topic.name, p.partition))))
    live = {b.id: b for b in snapshot.brokers if b.is_alive}
    return AuditCase(
        rows=tuple(rows),
        unknown=tuple(entries.values()),
        racks={b.id: b.group for b in snapshot.brokers},
        live=live,
        known=known,
        even=_even_brokers(rows, live, request),
        rules=rules_for(snapshot.kafka_version),
        usual_min_isr=snapshot.usual_min_isr,
        cordoned=frozenset(snapshot.cordoned),
    )


def _row(
    topic: Topic, p: Partition, entry: MapEntry | None, known: frozenset[int], target: tuple[int, ...] | None
) -> AuditedPartition:
    before = target or tuple(b for b in p.replicas if b not in p.removing)
    after = before
    if entry is not None and _is_accepted(entry.replicas, before, known):
        after = entry.replicas
    moving = target is not None or bool(p.adding or p.removing)
    return AuditedPartition(topic=topic, partition=p, before=before, after=after, entry=entry, moving=moving)


def _is_accepted(replicas: tuple[int, ...], before: tuple[int, ...], known: frozenset[int]) -> bool:
    """True for a list that Kafka takes: it refuses unknown brokers, unless they are there already."""
    sound = bool(replicas) and len(set(replicas)) == len(replicas)
    return sound and all(b in known or b in before for b in replicas)


def _even_brokers(
    rows: list[AuditedPartition], live: Mapping[int, Broker], request: MapAuditRequest
) -> tuple[int, ...]:
    if request.brokers is not None:
        holding = frozenset(b for row in rows for b in row.before)
        return tuple(b for b in request.brokers.resolve(holding, frozenset(live)) if b in live)
    return tuple(sorted({b for row in rows for b in row.after if b in live}))


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing in the map that breaks a rule: where (a topic, a broker), its name there, and more words."""

    rule: str
    where: str
    subject: str
    detail: str = ""


def disk_issues(
    case: AuditCase,
    sizes: Mapping[int, int],
    storage: Mapping[int, BrokerStorage],
    log_dirs: Mapping[int, tuple[DirStorage, ...]],
    max_use: Fraction,
) -> Iterator[Issue]:
    """Brokers that get copies and end, or pass, above a limit; `sizes` by index of the case's rows.

    The peak is the worst one: every copy arrives before any leaves, as when a map is applied in one go.
    """
    coming: dict[int, int] = {}
    going: dict[int, int] = {}
    for i, row in enumerate(case.rows):
        size = sizes.get(i)
        if row.after == row.before or size is None:
            continue
        for b in row.adding:
            coming[b] = coming.get(b, 0) + size
        for b in row.before:
            if b not in row.after:
                going[b] = going.get(b, 0) + size
    for b, arriving in sorted(coming.items()):
        disk = storage.get(b)
        if not arriving or disk is None or disk.free_bytes is None or b not in case.live:
            continue
        room = sum(d.usable_bytes or 0 for d in log_dirs.get(b, ()) if d.is_open) if b in log_dirs else disk.free_bytes
        yield from _broker(b, arriving, going.get(b, 0), room, disk, max_use)


def _broker(b: int, arriving: int, leaving: int, room: int, disk: BrokerStorage, max_use: Fraction) -> Iterator[Issue]:
    where, coming = f"broker {b}", f"{format_bytes(arriving)} come"
    free, capacity = disk.free_bytes or 0, disk.capacity_bytes
    end = free - arriving + leaving
    if arriving > room:
        kept = " before others leave" if end >= 0 else ""
        yield Issue("disk-full", where, where, f": {coming}{kept}, and {format_bytes(room)} are free")
        return
    if not capacity:
        return
    least = capacity - int(capacity * max_use)
    limit = f"{float(max_use) * 100:.3g}% of {format_bytes(capacity)}"
    if end < least and end < free:
        yield Issue("disk-over-limit", where, where, f": {format_bytes(end)} stay free, above {limit} in use")
    elif free - arriving < least and end >= least:
        low = format_bytes(free - arriving)
        yield Issue("disk-peak", where, where, f": {coming} before others leave, down to {low} free, above {limit}")


MAX_SUBJECTS = 10_000

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE
_OUT = "take the entry out of the map, or correct it"
_REFUSED = "Kafka refuses the entry; the others are carried out, so the map is done in part"
_WHOLE = "Kafka's own tool refuses the whole file"
RULES = (
    Rule("unreadable", _E, "cannot be read", _WHOLE, _OUT),
    Rule("version", _E, "is not of version 1", _WHOLE, 'write "version": 1'),
    Rule("listed-twice", _E, "are listed again", _WHOLE, "keep one entry a partition"),
    Rule("unknown-partition", _E, "do not exist", _REFUSED, _OUT),
    Rule("empty-list", _E, "get an empty list", _REFUSED, _OUT),
    Rule("repeated-broker", _E, "name a broker twice", _REFUSED, _OUT),
    Rule("unknown-broker", _E, "name a broker that the cluster does not have", _REFUSED, _OUT),
    Rule("dead-broker", _E, "get a copy on a broker that is not alive",
         "Kafka refuses the entry, or starts a move that cannot end before the broker is back", _OUT),
    Rule("closed-broker", _E, "get a copy on a broker whose every log dir is cordoned or broken",
         "no log dir takes the copy, so the move does not end", _OUT),
    Rule("no-source", _E, "are to move, and no live copy is in sync",
         "there is nothing to copy from: the move never ends, and what only the dead copies hold is lost if they go",
         "bring a broker with a copy in sync back first"),
    Rule("below-min-isr", _E, "get fewer replicas than min.insync.replicas", min_isr_above_replicas(None)[1], _OUT),
    Rule("rack-rule-broken", _E, "break the rack rule, and did not before",
         "one rack that fails takes more copies with it than it must",
         "plan these topics instead"),
    Rule("constraint-broken", _E, "get a copy that a constraint by tags forbids",
         "the copy is on a broker that its topic may not use, or shares power, room or kind with another copy",
         "plan these topics with the constraints instead"),
    Rule("disk-full", _E, "", "the disk runs full and its log dir goes offline, with every copy in it",
         "make the map in parts, or choose other brokers"),
    Rule("disk-over-limit", _E, "", "little free space is left for new records",
         "choose other brokers"),
    Rule("log-dirs", _E, "name log dirs that do not fit the list", _WHOLE, "give one path, or any, for each broker"),
    Rule("unknown-log-dir", _W, "name a log dir that the broker does not have, or that takes nothing",
         "the copy goes to another dir, or waits", "name a log dir of the broker that takes copies, or any"),
    Rule("loses-in-sync", _W, "lose every copy that is in sync today",
         "nothing is lost while new copies are made, but no proven copy is left to go back to", "keep one old copy"),
    Rule("fewer-replicas", _W, "get fewer replicas", "fewer brokers may fail before data is lost",
         "list as many brokers as now"),
    Rule("being-moved", _W, "are being reassigned now",
         "Kafka drops the running move for this one; what was copied may be thrown away",
         "wait until the move is done"),
    Rule("disk-peak", _W, "", "while both copies are there, the disk is fuller than the limit",
         "make the map in parts"),
    Rule("goal-missed", _W, "", "the map does not reach the requested balance", "plan these topics instead"),
    Rule("rack-rule-stays", _N, "break the rack rule, as before", "a rack holds too many copies, as it did before",
         "move the replicas that are too many on a rack"),
    Rule("dead-broker-stays", _N, "keep a copy on a broker that is not alive", "that copy stays out of sync",
         "replace the copies of the topic there"),
    Rule("more-replicas", _N, "get more replicas", "every listed broker gets a full copy",
         "leave the new brokers out if this is not meant"),
    Rule("leader-moves", _N, "get another preferred leader",
         "leadership follows when preferred leaders are elected; clients reconnect",
         "keep the first broker of the list first if it is to stay leader"),
)  # fmt: skip
AUDIT_RULES = {rule.name: rule for rule in RULES}


def rules_for(version: str | None) -> dict[str, Rule]:
    """The catalogue for a version of Kafka (None: not known), by name."""
    severity, words = min_isr_above_replicas(version)
    below = replace(AUDIT_RULES["below-min-isr"], severity=severity, risk=words)
    return AUDIT_RULES | {below.name: below}


@dataclass(frozen=True, slots=True)
class AuditHints:
    """What helps against a finding, with its command: for this run's rules, brokers and map.

    `goal` are the options of the balance that the map is held against. Where sizes are missing (not `sized`), a
    balance would be refused.
    """

    request: MapAuditRequest
    case: AuditCase
    goal: tuple[tuple[str, str | None], ...] = ()
    sized: bool = True

    def of(self, rule: str, where: str) -> str:
        """The way to repair a rule in a place: what to do, then the command if there is one."""
        words = AUDIT_RULES[rule].repair
        made = self._command(rule, where.removeprefix("topic "))
        return f"{words}: {made}" if made else words

    def _command(self, rule: str, topic: str) -> ShellCommand | str | None:
        program = self.request.program
        if rule in ("rack-rule-broken", "constraint-broken", "disk-full", "disk-over-limit", "goal-missed"):
            return self._plan(rule)
        if rule == "disk-peak" and self.request.map_file:
            return shell_command("reassign apply", self.request.map_file, program=program)
        if rule == "being-moved":
            return shell_command("reassign status", program=program, watch=True)
        rows = [row for row in self.case.rows if row.topic.name == topic]
        if rule == "rack-rule-stays":
            return self._planning("topicmappr fix-racks", topic)
        if rule == "dead-broker-stays":
            dead = sorted({b for row in rows for b in row.after if row.entry and b not in self.case.live})
            return self._planning("topicmappr repair", topic, brokers=",".join(map(str, dead)))
        if rule == "fewer-replicas" and len(counts := {len(row.after) for row in rows}) == 1:
            racks = self.request.min_rack_ids or None
            made = shell_command(
                "topicmappr set-replication", str(*counts), program=program, topics=topic, min_rack_ids=racks
            )
            return f"to change the factor on purpose: {self._constrained(made)}"
        return None

    def _plan(self, rule: str) -> ShellCommand | None:
        """A plan of the topics of the map onto the same brokers: a balance, or a rebuild if some are to be left or
        sizes are missing.

        None are left to repair the rack rule if the others have fewer racks, unless brokers were given.
        """
        if not self.case.even:
            return None
        topics = ",".join(self.request.topics) or ",".join(sorted({row.topic.name for row in self.case.rows}))
        holding = {b for row in self.case.rows for b in row.before}
        targets, wider = set(self.case.even), {*self.case.even, *holding.intersection(self.case.live)}
        if rule == "rack-rule-broken" and self.request.brokers is None and self._racks(wider) > self._racks(targets):
            targets = wider
        brokers = ",".join(map(str, sorted(targets)))
        if holding <= targets and self.sized:
            disk = percent_word(self.request.max_disk_use)
            made = self._planning("topicmappr rebalance", topics, brokers=brokers, max_disk_use=disk)
            # What breaks a rule may have reached what no sound plan reaches.
            near = (("--best-effort", None),) if self.goal and rule != "goal-missed" else ()
            return replace(made, options=(*made.options, *self.goal, *near))
        racks = self.request.min_rack_ids or None
        return self._constrained(
            shell_command(
                "topicmappr rebuild", program=self.request.program, topics=topics, brokers=brokers, min_rack_ids=racks,
                placement="storage" if self.goal and self.sized else "",
            )
        )  # fmt: skip

    def _racks(self, brokers: Iterable[int]) -> int:
        return len({self.case.racks.get(b) for b in brokers} - {None})

    def _planning(self, verb: str, topics: str, **options: OptionValue) -> ShellCommand:
        r = self.request
        racks: dict[str, OptionValue] = {"min_rack_ids": r.min_rack_ids or None, "spread": r.spread}
        return self._constrained(shell_command(verb, program=r.program, topics=topics, **options, **racks))

    def _constrained(self, made: ShellCommand) -> ShellCommand:
        return replace(made, options=(*made.options, *self.request.constraints.given))


def findings_of(issues: Iterable[Issue], hints: AuditHints) -> list[Finding]:
    """One finding for each rule and place; all findings of a rule together carry up to 10,000 names."""
    groups: dict[tuple[str, str], list[Issue]] = {}
    for issue in issues:
        groups.setdefault((issue.rule, issue.where), []).append(issue)
    room = dict.fromkeys(AUDIT_RULES, MAX_SUBJECTS)
    found = []
    for (name, where), group in groups.items():
        rule = hints.case.rules[name]
        subjects = tuple(issue.subject for issue in group[: room[name]])
        room[name] -= len(subjects)
        first = shorten([f"{issue.subject}{issue.detail}" for issue in group[:3]], len(group))
        noun = "entry" if name == "unreadable" else "partition"
        entries = count_of(len(group), noun, "entries" if noun == "entry" else None)
        words = f"{entries} {agree(len(group), rule.about)}: {first}"
        found.append(rule.finding(where, words if rule.about else first, hints.of(name, where), len(group), subjects))
    return found


_SHOWN_IDS = 8


def map_issues(reading: MapReading, case: AuditCase) -> Iterator[Issue]:
    """Faults of the file itself, and entries for partitions that are not there."""
    if reading.version != 1:
        yield Issue("version", "map", f"version {reading.version}")
    for line in reading.unread:
        yield Issue("unreadable", "map", line)
    for key in reading.twice:
        yield Issue("listed-twice", f"topic {key.topic}", str(key))
    for entry in case.unknown:
        yield Issue("unknown-partition", f"topic {entry.key.topic}", str(entry.key))


def list_issues(case: AuditCase, rule: SpreadRule) -> Iterator[Issue]:
    """Faults of the lists, partition by partition. O(replicas)."""
    closed = frozenset(b.id for b in case.live.values() if b.id in case.cordoned or _is_closed(b))
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
        fit = [d.path for d in known if not d.cordoned and not d.error]
        if path != "any" and known and path not in fit:
            takes = f"has {few_of(fit)}" if fit else "takes no copies"
            yield Issue("unknown-log-dir", f"topic {row.topic.name}", row.name, f" ({path}: broker {broker} {takes})")
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
        if len(after) < min_isr_of(row.topic.configs, case.usual_min_isr):
            yield _issue("below-min-isr", row, after)
    elif len(after) > len(row.before):
        yield _issue("more-replicas", row, after)
    if row.moving:
        yield _issue("being-moved", row, after)
    if row.before[:1] != after[:1]:
        yield Issue("leader-moves", "map", row.name)


def _rack_issues(row: AuditedPartition, case: AuditCase, rule: SpreadRule) -> Iterator[Issue]:
    if row.entry is None:
        return
    before, after = ([case.racks.get(b) for b in lists] for lists in (row.before, row.after))
    if rule.violates(after):
        old = rule.violates(before) and not rule.worsens(before, after)
        yield _issue("rack-rule-stays" if old else "rack-rule-broken", row, row.after)


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


MAX_ENTRIES = 5_000_000
_UNSEEN = re.compile(r"[^ -~]")


def read_map(data: bytes, source: str) -> MapReading:
    """Read Kafka's reassignment JSON as far as it goes.

    Raises `InputError` for text that is no JSON object with a list `partitions`, and for more than five million
    entries. O(entries).
    """
    decoded = decode_json(data, dict[str, Any], source)
    rows = decoded.get("partitions")
    if not isinstance(rows, list):
        raise InputError(source, 'not a reassignment map (no list "partitions")')
    if len(rows) > MAX_ENTRIES:
        raise InputError(source, f"{len(rows)} entries are more than {MAX_ENTRIES}")
    entries: dict[TopicPartition, MapEntry] = {}
    unread: list[str] = []
    twice: list[TopicPartition] = []
    for number, row in enumerate(rows, start=1):
        entry = _entry(row)
        if isinstance(entry, str):
            unread.append(f"entry {number}: {entry}")
        elif entry.key in entries:
            twice.append(entry.key)
        else:
            entries[entry.key] = entry
    version = decoded.get("version", 1)
    return MapReading(
        entries=tuple(entries.values()),
        unread=tuple(unread),
        twice=tuple(twice),
        version=version if type(version) is int else None,
    )


def _entry(row: object) -> MapEntry | str:
    """The entry, or what is wrong with it."""
    if not isinstance(row, dict):
        return f"{plain_text(row)} is not an object"
    topic, partition, replicas, dirs = (row.get(k) for k in ("topic", "partition", "replicas", "log_dirs"))
    if not isinstance(topic, str) or topic_problem(topic):
        return f"topic {plain_text(topic)} is not a topic name"
    if type(partition) is not int or not 0 <= partition <= MAX_INT32:
        return f"partition {plain_text(partition)} of {topic} is not a partition number"
    where = f"{topic}-{partition}"
    if not isinstance(replicas, list):
        return f"{where}: replicas are {plain_text(replicas)}, not a list"
    for broker in replicas:
        if type(broker) is not int or not 0 <= broker <= MAX_INT32:
            return f"{where}: {plain_text(broker)} is not a broker id"
    if dirs is not None and not (isinstance(dirs, list) and all(isinstance(d, str) for d in dirs)):
        return f"{where}: log_dirs are not a list of paths"
    return MapEntry(
        key=TopicPartition(topic, partition), replicas=tuple(replicas), dirs=None if dirs is None else tuple(dirs)
    )


def plain_text(value: object) -> str:
    """Anything as short text that is safe to show."""
    return _UNSEEN.sub("?", repr(value)[:60])
