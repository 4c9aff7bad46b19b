"""How the monitor of one cluster is doing: what it knows, until when, and what it does not know."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from kafkakit.streams.lag.decide.cursors import LogCursor, ReadTotals
from kafkakit.streams.model.offsets_log.commits import OpenTransaction

MAX_LISTED = 20
BLIND_AFTER_MS = 10_000
"""Commits that were not known for so long make a monitor blind; an election of leaders takes less."""
ENDS_LIMIT_MS = 15_000
"""So old may the end of a partition be; longer where a round over all of them takes longer."""


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
    transaction: OpenTransaction


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
    records for their times. `warm_since_ms` is when the state that the monitor began with was saved, -1 for none.
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
        found.append(f"commits{_since(c.as_of_ms)} are not known{spot}")
    if c.ends_known_ms >= 0 and c.at_ms - c.ends_known_ms > c.ends_limit_ms:
        names = f" ({_reasons(c.end_errors)})" if c.end_errors else ""
        found.append(f"ends of logs{_since(c.ends_known_ms)} are not known{names}")
    return "; ".join(found)


def _since(ms: int) -> str:
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
        found.append(f"commits for {c.missing_topics_count} topics that do not exist or are hidden: {some}")
    if c.end_errors:
        found.append(f"no end offset of {sum(c.end_errors.values())} partitions: {_reasons(c.end_errors)}")
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
        found.append(f"this machine's clock was set {c.clock_steps} times; samples from before were dropped")
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
