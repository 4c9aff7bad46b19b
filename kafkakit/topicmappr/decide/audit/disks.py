"""Disks that the map would fill: in the end, and while a move holds both copies."""

from collections.abc import Iterator, Mapping
from fractions import Fraction

from kafkakit.core.placement_statistics import BrokerStorage
from kafkakit.core.quantities import format_bytes
from kafkakit.placement.broker_disks import DirStorage
from kafkakit.topicmappr.decide.audit.case import AuditCase
from kafkakit.topicmappr.decide.audit.catalogue import Issue


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
