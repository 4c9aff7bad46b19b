"""What this host saw of a cluster before: since when a finding stands, and how fast disks fill.

Kept as one file a cluster: at most `MOST_SAMPLES` samples of the disks, one in `EVERY_S` seconds, and when each finding
that still stands was seen first. With many log dirs there are fewer samples of the same day, so that all of them take
no more than `MOST_BYTES`. It is no more than a memory: without it all is shown but for how long.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from kafkakit.core.cluster_facts import BrokerLogDirs
from kafkakit.core.documents import decode_json
from kafkakit.core.errors import InputError
from kafkakit.core.findings import Finding
from kafkakit.core.model import LogDir

MOST_SAMPLES, EVERY_S = 288, 300.0
MOST_BYTES = 3 << 20
SPAN_S = 1800.0
"""So long readings must lie apart before a rate is told: segments are deleted in lumps."""
SCHEMA = 1


class DiskSample(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes in use of each `BROKER DIR` at a time."""

    at_s: float
    used: Mapping[str, int]


class StatusHistory(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of one cluster; `since` is by fingerprint, in seconds since 1970."""

    schema: int = SCHEMA
    since: Mapping[str, float] = {}
    disks: tuple[DiskSample, ...] = ()


NO_HISTORY = StatusHistory()


def read_history(data: bytes | None) -> StatusHistory:
    """The file's content; empty for none, for a damaged one and for one of a later version."""
    try:
        found = decode_json(data or b"{}", StatusHistory, "history")
    except InputError:
        return StatusHistory()
    return found if found.schema == SCHEMA else StatusHistory()


def encode_history(history: StatusHistory) -> bytes:
    """The file's content."""
    return msgspec.json.encode(history) + b"\n"


def with_reading(
    history: StatusHistory, at: datetime, findings: Iterable[Finding], disks: Mapping[int, BrokerLogDirs] | None
) -> StatusHistory:
    """What is kept after one more reading: findings that ended are forgotten, disks are sampled every five minutes."""
    at_s = at.timestamp()
    since = {f.fingerprint: min(history.since.get(f.fingerprint, at_s), at_s) for f in findings}
    kept = tuple(sample for sample in history.disks if sample.at_s <= at_s)
    if disks is not None and (not kept or at_s - kept[-1].at_s >= EVERY_S):
        kept = _thin((*kept, DiskSample(at_s=at_s, used=dict(_shares_of(disks))))[-MOST_SAMPLES:])
    return StatusHistory(since=since, disks=kept)


def _thin(samples: tuple[DiskSample, ...]) -> tuple[DiskSample, ...]:
    """As many of them as fit, evenly over the time: the first and the last, and those between far enough apart."""
    sizes = [len(msgspec.json.encode(sample)) + 1 for sample in samples]
    most = max(2, MOST_BYTES // max(sizes))
    if sum(sizes) <= MOST_BYTES:
        return samples
    apart_s = MOST_SAMPLES * EVERY_S / most
    kept = [samples[-1]]
    for sample in reversed(samples[:-1]):
        if kept[-1].at_s - sample.at_s >= apart_s:
            kept.append(sample)
    return tuple(reversed(kept[:most]))


def age_s(history: StatusHistory, fingerprint: str, at: datetime) -> float | None:
    """How long a finding has stood, in seconds; None when it is seen for the first time."""
    first = history.since.get(fingerprint)
    return None if first is None else max(0.0, at.timestamp() - first)


def disk_left_s(history: StatusHistory, broker: int, place: LogDir, at: datetime) -> float | None:
    """After how many seconds the dir is full at its rate of the last day; None where it does not grow or is not known.

    The rate is that of the oldest sample in which the dir is: a time in which files were deleted counts as well.
    """
    used, name = _used_of(place), f"{broker} {place.path}"
    if used is None or place.usable_bytes is None:
        return None
    for sample in history.disks:
        seconds = at.timestamp() - sample.at_s
        if seconds < SPAN_S:
            return None
        if name in sample.used:
            grown = used - sample.used[name]
            return place.usable_bytes / (grown / seconds) if grown > 0 else None
    return None


def _shares_of(disks: Mapping[int, BrokerLogDirs]) -> Iterable[tuple[str, int]]:
    for broker, answer in sorted(disks.items()):
        for place in answer.log_dirs:
            used = _used_of(place)
            if used is not None and not answer.error:
                yield f"{broker} {place.path}", used


def _used_of(place: LogDir) -> int | None:
    if place.total_bytes is None or place.usable_bytes is None or place.error:
        return None
    return place.total_bytes - place.usable_bytes


def used_share(place: LogDir) -> float | None:
    """The part of a log dir's disk that is in use; None where its broker does not tell."""
    if place.total_bytes is None or place.usable_bytes is None or place.total_bytes <= 0:
        return None
    return 1 - place.usable_bytes / place.total_bytes


def disk_use(dirs: Iterable[LogDir]) -> tuple[int | None, int | None, tuple[float, str] | None]:
    """The bytes in use and in all of a broker's disks, and the fullest one by share and path; None if not known."""
    known = [(share, place) for place in dirs if (share := used_share(place)) is not None]
    if not known:
        return None, None, None
    total = sum(place.total_bytes or 0 for _, place in known)
    used = total - sum(place.usable_bytes or 0 for _, place in known)
    share, place = max(known, key=lambda pair: pair[0])
    return used, total, (share, place.path)
