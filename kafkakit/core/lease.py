"""A lease as a document, and when it may be taken: who holds the right to act, and a token that only grows.

A lease lives by its renewals, and not by its holder's process: one that hangs has its pid still. A holder writes the
document again, with `beats` one higher, more often than every `ttl_s`; a process that wants the lease watches the
document, and may take it when it has not changed for the holder's `ttl_s` by the watcher's own monotonic clock. Clocks
of two hosts are never compared. The holder counts its time from before the write that it made last, and stops a
`MARGIN` earlier. The write came before the watcher first saw its result, so the holder has stopped when the watcher's
time is over, as long as the two clocks run at one speed to within the margin. What is known of the process only makes
this faster: one that is certainly gone is not waited for.

What a lease cannot do: an effect that was sent in time and arrives late is not called back. Kafka does not know our
token; so the journal, and not the lease, is what makes the next holder look first.

For the stores that keep such documents: a value with the version that replacing it must name; what every control store
accepts as a path and as a value; ZooKeeper addresses and znode paths as people write them.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from fractions import Fraction
from typing import Annotated

from msgspec import Meta

from kafkakit.core.documents import DocumentKind
from kafkakit.core.errors import ConflictError, UsageError
from kafkakit.core.quantities import format_duration

DEFAULT_TTL_S = 15.0
MAX_TTL_S = 3600.0
MARGIN = Fraction(1, 5)
RENEW_AFTER = Fraction(1, 3)

_Text = Annotated[str, Meta(max_length=200)]
_Count = Annotated[int, Meta(ge=0, le=2**62)]
_Time = Annotated[datetime, Meta(tz=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that may hold a lease: `machine`, `pid` and `started_ticks` tell it from every other one.

    `machine` names one start of one kernel and its pid namespace; empty when unknown.
    """

    host: _Text
    user: _Text
    command: _Text
    pid: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    started_ticks: _Count = 0
    machine: _Text = ""

    def __str__(self) -> str:
        return (
            f"process {self.pid} of {_plain_text(self.user)} on {_plain_text(self.host)} ({_plain_text(self.command)})"
        )


class Life(StrEnum):
    """What is certain about a holder's process: only on its own host can anything be."""

    ALIVE = "alive"
    GONE = "gone"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """What the store holds; `holder` is None when the lease was given back.

    `token` grows by one with each taking, and is never reset. `taken_at` and `renewed_at` are by the holder's wall
    clock: for people, and never for taking a lease.
    """

    token: _Count
    beats: _Count
    ttl_s: Annotated[float, Meta(gt=0, le=MAX_TTL_S)]
    taken_at: _Time
    renewed_at: _Time
    holder: Holder | None = None

    def __str__(self) -> str:
        if self.holder is None:
            return "no process"
        taken, renewed = _second(self.taken_at), _second(self.renewed_at)
        day, _, time = renewed.partition(" ")
        return f"{self.holder}, since {taken}, last renewed {time if taken.startswith(day) else renewed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLease:
    """The cluster's lease as the control store has it, None when it has none, and what is certain of its holder.

    `locked_by` is the process of this host that has the lock of the cluster's changes, of any user and control store.
    `is_silent`: it was watched for its whole term, and was not renewed. `is_known` False: the store did not answer.
    """

    record: LeaseRecord | None = None
    life: Life = Life.UNKNOWN
    locked_by: str = ""
    is_silent: bool = False
    is_known: bool = True

    @property
    def is_in_use(self) -> bool:
        """True while a process may change the cluster, as far as is known."""
        return bool(self.locked_by) or (self.is_held and not self.is_silent)

    @property
    def is_held(self) -> bool:
        """True unless it was given back, or its holder ended."""
        return self.record is not None and self.record.holder is not None and self.life is not Life.GONE


def _second(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def _plain_text(text: str) -> str:
    """Text of another process, without anything that a terminal would obey."""
    return "".join(char if char.isprintable() else "?" for char in text)


LEASE_DOCUMENT = DocumentKind("lease", LeaseRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionedValue:
    """A value of a control store and the version that a `cas` must name to replace it."""

    value: bytes
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseWatch:
    """One state of the document, for how long the watcher saw it unchanged, and when it last asked for it."""

    seen: VersionedValue
    silent_s: float
    asked_s: float


@dataclass(frozen=True, slots=True)
class LeaseGrant:
    """The lease may be taken now, with this token; `expected` is what the write must find (None: nothing)."""

    token: int
    expected: int | None


@dataclass(frozen=True, slots=True)
class LeaseWait:
    """It is not known yet whether the holder lives; it may be taken after so many seconds without a change."""

    record: LeaseRecord
    seconds: float


@dataclass(frozen=True, slots=True)
class LeaseRefusal:
    """The holder lives, and renews its lease."""

    record: LeaseRecord


def watch(
    earlier: LeaseWatch | None, seen: VersionedValue, *, ttl_s: float, asked_s: float, now_s: float
) -> LeaseWatch:
    """Continue watching: a change of any kind starts the time again. The look was sent at `asked_s`.

    Of the time between two looks, no more counts than a holder lets pass between two renewals: the store may have been
    away, or the whole machine may have stood still, and then its holder could not renew either.
    """
    if earlier is None or earlier.seen != seen:
        return LeaseWatch(seen=seen, silent_s=0.0, asked_s=now_s)
    counted_s = min(max(0.0, asked_s - earlier.asked_s), ttl_s * RENEW_AFTER)
    return LeaseWatch(seen=seen, silent_s=earlier.silent_s + counted_s, asked_s=asked_s)


def decide(
    record: LeaseRecord | None, watching: LeaseWatch | None, first: LeaseWatch | None, now: datetime, life: Life
) -> LeaseGrant | LeaseWait | LeaseRefusal:
    """May we take the lease?

    `record` is what `watching` saw last, None when the store holds nothing. `first` is what was seen first: any
    change since then shows that its holder lives. `life` is what is known of the holder's process without watching. One
    that runs on this machine, whose wall clock `now` is, holds the lease for `ttl_s` after its last renewal.
    """
    if record is None or watching is None:
        return LeaseGrant(1, None)
    if record.holder is None or life is Life.GONE or watching.silent_s >= record.ttl_s:
        return LeaseGrant(record.token + 1, watching.seen.version)
    renewed_s = (now - record.renewed_at).total_seconds()
    if (life is Life.ALIVE and 0 <= renewed_s < record.ttl_s) or (first is not None and first.seen != watching.seen):
        return LeaseRefusal(record)
    return LeaseWait(record, record.ttl_s - watching.silent_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLease:
    """A lease that we hold: our last write, and both own clocks from just before it was sent."""

    record: LeaseRecord
    version: int
    sent_s: float
    sent_at: datetime

    def is_held(self, now_s: float, now: datetime) -> bool:
        """Whether we may still act without asking the store.

        The wall clock is asked too, ours against ours: a monotonic clock may stop while a machine sleeps.
        """
        return self._age_s(now_s, now) < self.record.ttl_s * (1 - MARGIN)

    def is_due(self, now_s: float, now: datetime) -> bool:
        """Whether it is time to renew."""
        return self._age_s(now_s, now) >= self.record.ttl_s * RENEW_AFTER

    def _age_s(self, now_s: float, now: datetime) -> float:
        return max(now_s - self.sent_s, (now - self.sent_at).total_seconds())


def held_words(what: str, record: LeaseRecord) -> str:
    """Who is in the way, in one line."""
    return f"{what} is locked: held by {record}"


def waiting_words(what: str, wait: LeaseWait) -> str:
    """Why nothing happens for a while."""
    return (
        f"{what} is locked: held by {wait.record}; waiting {format_duration(round(wait.seconds, 1))} at most to see "
        "whether it is still alive"
    )


VALUE_LIMIT_BYTES = 64 * 1024
MAX_PARTS = 8
_PART = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


def check_path(path: str) -> tuple[str, ...]:
    """The parts of a path: 1 to 8 names of at most 249 letters, digits, `.`, `_`, `-`; else `UsageError`.

    So a topic's name is one, and a path is safe as a path of files and of znodes, and leads nowhere else: neither `.`
    nor `..` is a name.
    """
    parts = tuple(path.split("/"))
    if len(parts) > MAX_PARTS or not all(_PART.fullmatch(part) for part in parts):
        raise UsageError(f"{path[:80]!r} is not a path of a control store")
    return parts


def check_folder(path: str) -> tuple[str, ...]:
    """The parts of a path whose children are asked for; the empty path is the root."""
    return check_path(path) if path else ()


def check_value(value: bytes) -> bytes:
    """The value itself; `UsageError` when it is empty or larger than 64 KiB."""
    if not 0 < len(value) <= VALUE_LIMIT_BYTES:
        raise UsageError(f"a control document of {len(value):,} bytes: it must have 1 to {VALUE_LIMIT_BYTES:,}")
    return value


def conflict(path: str, expected: int | None, found: int | None) -> ConflictError:
    """The error for a write that came too late; `found` is the version that is there."""
    wanted = "nothing" if expected is None else f"version {expected}"
    there = "nothing" if found is None else f"version {found}"
    return ConflictError(f"{path} was changed by another process (expected {wanted}, found {there})")


ASSIGNER_LEASE = "assigner/lease"
"""Where the lease of the Assigner in charge of all streams is kept."""


def pacer_lease(cluster_id: str) -> str:
    """Where the lead over the pacers of a cluster is kept."""
    return f"clusters/{cluster_id}/autothrottle/lease"


def stream_lease(stream: str) -> str:
    """Where the lease of the operations of a stream is kept."""
    return f"streams/{stream}/lease"


def monitor_lease(cluster_id: str) -> str:
    """Where the lease of monitoring the lag of a cluster is kept."""
    return f"lag/clusters/{cluster_id}"


def cleanup_lease(tags_root: str) -> str:
    """Where the lease of cleaning up the tags below a root is kept."""
    return f"{tags_root}/cleanup-lease"


DEFAULT_PORT = 2181
_HOST = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::([0-9]{1,5}))?")
_PATH_PART = re.compile(r"[^/\x00-\x1f\x7f-\x9f\ud800-\uf8ff]{1,255}")


def parse_zookeeper_address(address: str, name: str) -> tuple[str, str]:
    """Split `host:port,host:port/chroot` into hosts with ports (2181 where none is given) and the chroot's path.

    `name` is what the error calls it; `UsageError` names the part that is wrong.
    """
    hosts, slash, chroot = address.strip().partition("/")
    named = []
    for raw in hosts.split(","):
        entry = raw.strip()
        match = _HOST.fullmatch(entry)
        if match is None or not 0 < int(match[1] or DEFAULT_PORT) <= 65535:
            raise UsageError(
                f"{name}: {entry[:60]!r} is not HOST:PORT",
                hint="give addresses separated by commas: zk1:2181,zk2:2181",
            )
        named.append(entry if match[1] else f"{entry}:{DEFAULT_PORT}")
    return ",".join(named), znode_path(chroot, name) if slash else ""


def znode_path(text: str, name: str) -> str:
    """The path below the root with a slash in front, or nothing for an empty one; `UsageError` when it is none."""
    parts = [part for part in text.strip("/").split("/") if part]
    for part in parts:
        if not _PATH_PART.fullmatch(part) or part in (".", ".."):
            raise UsageError(f"{name}: {part[:60]!r} is not a part of a znode's path")
    return "".join(f"/{part}" for part in parts)
