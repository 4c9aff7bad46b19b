"""What is known of several clusters at one moment, how their monitors are doing, and who monitors and owns what.

A monitor's condition says what it knows, until when, and what it does not know. A look is what a command shows and what
the service publishes.

Each instance decides for itself which clusters it monitors, from what all can read: each publishes in a small document
what it monitors and what it can reach. Leases, and not these documents, keep two from monitoring one cluster; a wrong
view costs balance for a moment, never doubled figures.

`lag check` holds a look against the file of limits: who owns which groups, and an ordered list of rules, of which the
first that fits counts. Lag of topics that runs of kafkakit move now can be silenced.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated
from zlib import crc32

from msgspec import Meta

from kafkakit.config.keys import did_you_mean
from kafkakit.core.documents import DocumentKind
from kafkakit.core.errors import ConnectRefusedError, InputError, TryLaterError
from kafkakit.core.lease import Holder
from kafkakit.core.quantities import count_of
from kafkakit.core.text import quote, shell_command
from kafkakit.core.yaml_json import Document, Node, list_of, sound_document
from kafkakit.execution.decide.journal import RunState
from kafkakit.streams.lag.decide.limits import (
    LIMIT_KEYS,
    JudgedBound,
    LimitRule,
    LimitRules,
    option_of,
    parse_thresholds,
)
from kafkakit.streams.lag.decide.measure.table import LagTable
from kafkakit.streams.lag.decide.saved_state import LogCursor, ReadTotals
from kafkakit.streams.model.offsets_log.commits import PendingTransaction

MAX_LISTED = 20
BLIND_AFTER_MS = 10_000
"""Commits that were not known for so long make a monitor blind; an election of leaders takes less."""
ENDS_LIMIT_MS = 15_000
"""So old may the end of a partition be; longer where a round over all of them takes longer."""


BUSY_SHARE = 4
"""After a round over all ends that took long, the next one waits so many times as long: a quarter of the time."""
_CHUNK_S = 1.0


def busy_round_s(took_s: float, before_s: float, chunks: int) -> float:
    """How long rounds take because there is much to ask for; `chunks` is how many requests that is.

    One that waited for a broker which hung was not busy: two in a row must be slow, and each request counts for a
    second at most. Else the ends would be asked for minutes later, and all the while be called as new as may be.
    """
    return min(took_s, before_s, chunks * _CHUNK_S)


class MonitorPhase(StrEnum):
    """What the monitor is at.

    CONNECTING: no answer yet. READING: the past of the commit log, so that commits may be missing. LIVE: all commits up
    to the as-of. BLIND: as LIVE, but some commits or ends could not be read for a while. UNREACHABLE: no broker
    answers; what was known is shown with its age. REFUSED: not allowed to read.
    """

    CONNECTING = "connecting"
    READING = "reading"
    LIVE = "live"
    BLIND = "blind"
    UNREACHABLE = "unreachable"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class BlindSpot:
    """A partition of the offsets topic that cannot be read now: commits of its groups since `as_of_ms` are unknown."""

    partition: int
    reason: str
    as_of_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """An open transaction that holds commits back, in a partition of the offsets topic."""

    partition: int
    transaction: PendingTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorCondition:
    """One monitor at `at_ms`, by its own clock like all times here.

    `as_of_ms` is until when all commits of all partitions are known, -1 while they are not; `ends_as_of_ms` the same
    of the logs' ends, and `ends_known_ms` until when the end of every partition was known, which may be up to
    `ends_limit_ms` ago before the monitor counts as blind. `done` and `total` are offsets of the past of the commit
    log. `end_errors` counts partitions without an answer about their end, by reason; `missing_topics` have commits, yet
    do not exist or are hidden.

    Beyond the limits: `refused_rows` commits of more group-partitions than are held, `refused_metadata` commits whose
    metadata is too large (the offsets that it names as done count as pending), `refused_partitions` group-partitions
    of more partitions than are sampled (their end stays unknown). `record_reads` and `record_failures` count reads of
    records for their times. `owned_problem` is why it is not known what members own.
    `warm_since_ms` is when the state that the monitor began with was saved, -1 for none.
    """

    cluster: str
    cluster_id: str = ""
    at_ms: int
    phase: MonitorPhase
    reason: str = ""
    since_ms: int = -1
    as_of_ms: int = -1
    ends_as_of_ms: int = -1
    ends_known_ms: int = -1
    ends_limit_ms: int = ENDS_LIMIT_MS
    done: int = 0
    total: int = 0
    partitions: int = 0
    blind: tuple[BlindSpot, ...] = ()
    blind_count: int = 0
    held_back: tuple[HeldBack, ...] = ()
    held_back_count: int = 0
    held_back_commits: int = 0
    missing_topics: tuple[str, ...] = ()
    missing_topics_count: int = 0
    end_errors: Mapping[str, int] = field(default_factory=dict)
    group_partitions: int = 0
    refused_rows: int = 0
    refused_metadata: int = 0
    refused_partitions: int = 0
    record_reads: int = 0
    record_failures: int = 0
    clock_steps: int = 0
    warm_since_ms: int = -1
    owned_problem: str = ""
    totals: ReadTotals = field(default_factory=ReadTotals)

    @property
    def left_out(self) -> int:
        """How many commits are of keys beyond what may be held."""
        return self.refused_rows + self.totals.keys_left_out

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know, a sentence each, the gravest first; empty when all is well."""
        return (*_reading_notes(self), *_log_notes(self), *_limit_notes(self))


def blindness(c: MonitorCondition) -> str:
    """What a monitor that reads does not see now, empty while it sees all: commits and ends older than may be."""
    found = []
    if c.partitions and c.at_ms - (c.as_of_ms if c.as_of_ms >= 0 else c.since_ms) > BLIND_AFTER_MS:
        spot = f" (partition {c.blind[0].partition}: {c.blind[0].reason})" if c.blind else ""
        found.append(f"commits{_since_text(c.as_of_ms)} are not known{spot}")
    if c.ends_known_ms >= 0 and c.at_ms - c.ends_known_ms > c.ends_limit_ms:
        names = f" ({_reasons(c.end_errors)})" if c.end_errors else ""
        found.append(f"ends of logs{_since_text(c.ends_known_ms)} are not known{names}")
    return "; ".join(found)


def _since_text(ms: int) -> str:
    return "" if ms < 0 else f" since {datetime.fromtimestamp(ms // 1000, UTC):%H:%M:%SZ}"


def _reasons(errors: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(errors.items()))


def _reading_notes(c: MonitorCondition) -> list[str]:
    found: list[str] = []
    if c.phase is MonitorPhase.READING and c.total:
        found.append(
            f"reading the past: {c.done * 100 // max(1, c.total)} % of {c.total:,} offsets; commits may be missing"
        )
    elif c.phase in (MonitorPhase.BLIND, MonitorPhase.UNREACHABLE, MonitorPhase.REFUSED, MonitorPhase.CONNECTING):
        found.append(f"{c.phase}: {c.reason or 'no answer yet'}")
    if c.blind_count:
        first = c.blind[0]
        found.append(
            f"{c.blind_count} of {c.partitions} partitions of the commit log cannot be read "
            f"(partition {first.partition}: {first.reason})"
        )
    return found


def _log_notes(c: MonitorCondition) -> list[str]:
    found: list[str] = []
    if c.held_back_count:
        commits = f"{c.held_back_commits:,} commit{'s' * (c.held_back_commits != 1)}"
        groups = sorted({g for h in c.held_back for g in h.transaction.groups})
        named = f" of {', '.join(groups[:3])}{' and others' if len(groups) > 3 else ''}" if groups else ""
        number = c.held_back_count
        found.append(f"{number} open transaction{'s hold' if number != 1 else ' holds'} back {commits}{named}")
    if c.missing_topics_count:
        some = ", ".join(c.missing_topics[:3])
        one, many = "topic that does not exist or is hidden", "topics that do not exist or are hidden"
        found.append(f"commits for {count_of(c.missing_topics_count, one, many)}: {some}")
    if c.owned_problem:
        found.append(f"partitions that members own without a commit are not all known: {c.owned_problem}")
    if c.end_errors:
        found.append(f"no end offset of {count_of(sum(c.end_errors.values()), 'partition')}: {_reasons(c.end_errors)}")
    return found


def _limit_notes(c: MonitorCondition) -> list[str]:
    found: list[str] = []
    unread = c.totals.undecodable + c.totals.unreadable_batches
    if unread:
        found.append(f"{unread:,} records or batches could not be read; the first: {c.totals.first_reason}")
    if c.totals.skipped_offsets:
        found.append(f"{c.totals.skipped_offsets:,} offsets of the commit log were passed over as unreadable")
    if c.left_out:
        found.append(f"{c.left_out:,} commits are beyond what may be held and were left out")
    if c.refused_metadata:
        number = f"{c.refused_metadata:,}"
        found.append(f"commits with too much metadata to be kept: {number}; all of their records count as pending")
    if c.refused_partitions:
        found.append(f"group-partitions beyond what may be sampled: {c.refused_partitions:,}; their lag is not known")
    if c.clock_steps:
        found.append(
            f"this machine's clock was set {count_of(c.clock_steps, 'time')}; samples from before were dropped"
        )
    return found


def blind_spots(cursors: Collection[LogCursor]) -> list[BlindSpot]:
    """The partitions that cannot be read now."""
    return [
        BlindSpot(
            partition=c.partition,
            reason="its ends are not known" if c.error is None else str(c.error),
            as_of_ms=c.as_of_ms,
        )
        for c in cursors
        if c.next is None or c.error is not None
    ]


def held_back(cursors: Collection[LogCursor]) -> list[HeldBack]:
    """The open transactions in all partitions, the oldest first."""
    found = [HeldBack(partition=c.partition, transaction=t) for c in cursors for t in c.open_transactions]
    return sorted(found, key=lambda h: (h.transaction.since_ms, h.partition, h.transaction.producer_id))


WITHOUT_ANSWER = (MonitorPhase.CONNECTING, MonitorPhase.REFUSED, MonitorPhase.UNREACHABLE, MonitorPhase.BLIND)


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorsLook:
    """All clusters at one moment: tables of those that have a monitor, conditions of all."""

    at_ms: int
    tables: tuple[LagTable, ...]
    conditions: tuple[MonitorCondition, ...]

    @property
    def missing(self) -> tuple[tuple[str, str], ...]:
        """The clusters whose lag is not known, by name and reason."""
        return tuple(
            (c.cluster, c.reason or c.phase.value)
            for c in self.conditions
            if c.phase in WITHOUT_ANSWER or (c.as_of_ms < 0 and c.partitions)
        )

    @property
    def failure(self) -> TryLaterError | None:
        """The error for a command that needs all clusters, None where none is missing."""
        return self.failure_of(are_profiles=False)

    def failure_of(self, *, are_profiles: bool) -> TryLaterError | None:
        """The error, with the command that checks the cluster; `are_profiles`: by its name, as several always are."""
        if not self.missing:
            return None
        name, reason = self.gravest_missing
        message = f"the lag of {name} is not known: {reason}"
        if len(self.conditions) > 1:
            message = f"{len(self.missing)} of {len(self.conditions)} clusters are not known; {name}: {reason}"
        is_profile = are_profiles or len(self.conditions) > 1
        program = f"kafkakit --profile {quote(name)}" if is_profile else "kafkakit"
        hint = f"check each step with: {shell_command('doctor', program=program)}"
        return ConnectRefusedError(message, hint=hint) if name in self._refused else TryLaterError(message, hint=hint)

    @property
    def gravest_missing(self) -> tuple[str, str]:
        """The first of the missing clusters, of those that refuse us if there are any."""
        return next((each for each in self.missing if each[0] in self._refused), self.missing[0])

    @property
    def _refused(self) -> frozenset[str]:
        return frozenset(c.cluster for c in self.conditions if c.phase is MonitorPhase.REFUSED)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedState:
    """What this instance may publish at `at_ms`: the clusters that are certainly its own, and its own condition."""

    at_ms: int
    tables: tuple[LagTable, ...]
    conditions: tuple[MonitorCondition, ...]
    others: tuple[str, ...]
    instances: int

    @property
    def carried(self) -> tuple[str, ...]:
        """The names of the clusters that this instance monitors."""
        return tuple(sorted(c.cluster for c in self.conditions))


MAX_CLUSTERS = 1000

_Ids = Annotated[tuple[Annotated[str, Meta(max_length=100)], ...], Meta(max_length=MAX_CLUSTERS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorInstance:
    """What one instance publishes: the clusters it monitors, and those it reaches, by id and sorted."""

    holder: Holder
    beats: Annotated[int, Meta(ge=0, le=2**62)]
    carries: _Ids = ()
    reaches: _Ids = ()


INSTANCE_DOCUMENT = DocumentKind("lag-instance", MonitorInstance)


def instance_name(holder: Holder) -> str:
    """A name for an instance's document that no other process ever has: host, pid, when the process began, and where.

    Containers may have one host name and one pid.
    """
    host = "".join(char if char.isascii() and (char.isalnum() or char == "-") else "-" for char in holder.host)
    return f"i-{host[:60]}-{holder.pid}-{holder.started_ticks}-{crc32(holder.machine.encode()):08x}"


def fair_share(clusters: int, instances: int) -> int:
    """The most clusters that one instance monitors while all are monitored: the quotient, rounded up."""
    return -(-clusters // max(1, instances))


def in_own_order(name: str, clusters: Collection[str]) -> tuple[str, ...]:
    """The clusters in an order that differs from instance to instance, so that two that start together do not
    try the same ones first."""
    return tuple(sorted(clusters, key=lambda c: (crc32(f"{name}/{c}".encode()), c)))


def to_give(carried: Sequence[str], others: Mapping[str, MonitorInstance]) -> str | None:
    """The cluster to hand over, if any: one that an instance reaches which monitors at least two fewer.

    Such a step always brings the two nearer to each other, so handing over comes to an end.
    """
    for other in sorted(others.values(), key=lambda o: (len(o.carries), o.holder.host, o.holder.pid)):
        if len(carried) - len(other.carries) < 2:
            return None
        able = sorted(set(carried) & set(other.reaches))
        if able:
            return able[0]
    return None


def moved_topics(cluster: str, states: Iterable[RunState], now: datetime, limit_s: float) -> dict[tuple[str, str], str]:
    """The topics of which unfinished runs sent moves, with the cluster's name, and the id of the run.

    A run counts for `limit_s` after it began, a journal that does not tell when not at all. Where two runs moved a
    topic, the one that began last is named.
    """
    limit = timedelta(seconds=limit_s)
    active = [(s.began_at, s) for s in states if s.unsettled and s.began_at is not None and now < s.began_at + limit]
    found: dict[tuple[str, str], str] = {}
    for _, state in sorted(active, key=lambda one: one[0]):
        topics = {key.topic for key in state.trail} | {key.topic for key in state.dirs_sent}
        found |= {(cluster, topic): state.run_id for topic in topics}
    return found


LIMIT_BYTES = 1 << 20
_TOP = ("owners", "rules")
_MATCHED = ("group", "topic", "owner")
_RULE = (*_MATCHED, *LIMIT_KEYS)
Owners = dict[str, tuple[str, ...]]


def read_limit_rules(data: bytes, source: str, words: Mapping[str, str | None], judge: JudgedBound) -> LimitRules:
    """The rules of a limits file; `words` are the limits (by `LIMIT_KEYS`) of what no rule fits.

    A limit that a rule does not name is that of `words`, too; `none` is no limit. Raises `InputError`, or `UsageError`
    for a limit that cannot be read, each with the line.
    """
    document = sound_document(data, source)
    found = {name: (line, node) for name, line, node in document.items(document.root, "")}
    for name, (line, _) in found.items():
        _require_known(name, _TOP, f"{source}:{line}")
    if not found:
        raise InputError(source, "holds no limits", hint=_known_keys_text(_TOP))
    owners = _owners(found["owners"][1], document) if "owners" in found else {}
    nodes = list_of(found["rules"][1]) if "rules" in found else []
    return LimitRules(
        default=parse_thresholds(words, judge, option_of),
        rules=tuple(_rule(node, document, words, judge, owners) for node in nodes),
        owners=owners,
    )


def _rule(
    node: Node, document: Document, words: Mapping[str, str | None], judge: JudgedBound, owners: Owners
) -> LimitRule:
    source = document.path
    texts: dict[str, str] = {}
    lines: dict[str, int] = {}
    for key, line, child in document.items(node, "a rule"):
        _require_known(key, _RULE, f"{source}:{line}")
        texts[key], lines[key] = document.scalar_text(child, key), line
    if not texts:
        raise InputError(document.line_of(node), "a rule is empty", hint=_known_keys_text(_RULE))
    for key, text in texts.items():
        if not text.strip():
            raise InputError(f"{source}:{lines[key]}", f"{key} is empty", hint="write none for no limit")
    owner = texts.get("owner", "")
    if owner and owner not in owners:
        known = ", ".join(owners) or "none"
        raise InputError(f"{source}:{lines['owner']}", f"no owner is called {owner!r:.60}", hint=f"owners: {known}")

    def named(key: str) -> str:
        return f"{source}:{lines[key]}: {key}" if key in lines else option_of(key)

    own = {key: None if texts[key] == "none" else texts[key] for key in LIMIT_KEYS if key in texts}
    matched = {key: texts[key] for key in _MATCHED if key in texts}
    return LimitRule(thresholds=parse_thresholds({**words, **own}, judge, named), **matched)


def _owners(node: Node, document: Document) -> Owners:
    owners: Owners = {}
    for name, line, child in document.items(node, "owners"):
        globs = tuple(document.scalar_text(item, f"owner {name:.60}") for item in list_of(child))
        if not globs or not all(glob.strip() for glob in globs):
            raise InputError(
                f"{document.path}:{line}", f"owner {name:.60} names no group", hint="give globs of group names"
            )
        owners[name] = globs
    return owners


def _require_known(key: str, known: tuple[str, ...], place: str) -> None:
    if key not in known:
        raise InputError(place, f"unknown key {key!r:.60}{did_you_mean(key, known)}", hint=_known_keys_text(known))


def _known_keys_text(keys: tuple[str, ...]) -> str:
    return f"known keys are {', '.join(keys)}"
