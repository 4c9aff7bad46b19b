"""Rules on shares: used space by broker and log dir, leaders by broker, and how full disks are."""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import ceil, floor

from kafkakit.core.findings import Finding
from kafkakit.core.quantities import counted, format_bytes, format_percent
from kafkakit.placement.broker_disks import BrokerDisks, DirStorage
from kafkakit.topicmappr.decide.check.catalogue import finding
from kafkakit.topicmappr.decide.check.table import Subject, by_topic


def balance_findings(subject: Subject, disks: BrokerDisks) -> Iterator[Finding]:
    """All rules of this module."""
    yield from unknown_sizes(subject, disks)
    yield from broker_shares(subject, disks)
    for broker in subject.judged:
        dirs = disks.log_dirs.get(broker, ())
        yield from dir_states(subject, broker, dirs)
        yield from disk_use(subject, broker, dirs, disks)
        yield from dir_shares(subject, broker, dirs)
    yield from leader_shares(subject)


def share_limits(total: int, weights: Mapping[int, int], band: Fraction) -> dict[int, tuple[int, int]]:
    """The least and the most that each broker may hold of `total`: its part by weight, give or take the band.

    Where the parts are no whole numbers, the one below and the one above both count as the broker's share: a plan
    has to deal the rest out somehow. Brokers without any weight may hold nothing.
    """
    whole = sum(weights.values())
    uneven = bool(whole) and any(total * weight % whole for weight in weights.values())
    limits = {}
    for broker, weight in weights.items():
        share = total * weight // whole if whole else 0
        limits[broker] = (ceil(share * (1 - band)), floor((share + (uneven and weight > 0)) * (1 + band)))
    return limits


def unknown_sizes(subject: Subject, disks: BrokerDisks) -> Iterator[Finding]:
    """Brokers that gave no sizes, disks of unknown size, and partitions without any known copy."""
    snapshot, hint = subject.snapshot, subject.hints.snapshot()
    if not snapshot.sizes_taken and not subject.table.sized.any():
        yield finding("unknown-size", "snapshot", "was taken without sizes", hint)
        return
    for broker in subject.judged.values():
        storage = disks.brokers[broker.id]
        if broker.id in snapshot.unanswered_brokers:
            reason = snapshot.unanswered_brokers[broker.id]
            yield finding("unknown-size", f"broker {broker.id}", f"gave no sizes: {reason}", hint)
        elif storage.capacity_bytes is None:
            yield finding("unknown-size", f"broker {broker.id}", "the size of its disks is not known", hint)
    yield from by_topic(subject, "unknown-size", ~subject.table.sized, "have no known size", hint)


def broker_shares(subject: Subject, disks: BrokerDisks) -> Iterator[Finding]:
    """Brokers that hold more or less than their share of the used space, by the size of their disks."""
    used: dict[int, int] = {}
    capacity: dict[int, int] = {}
    for broker in subject.judged:
        s = disks.brokers[broker]
        if s.used_bytes is not None and s.capacity_bytes is not None:
            used[broker], capacity[broker] = s.used_bytes, s.capacity_bytes
    limits = share_limits(sum(used.values()), capacity, subject.request.band)
    # Worst first, so that a report that shows some shows the right ones.
    for broker in sorted(limits, key=lambda b: (-_distance(used[b], *limits[b]), b)):
        low, high = limits[broker]
        text = _outside(
            used[broker], low, high, f"{format_bytes(used[broker])} used of {format_bytes(capacity[broker])}"
        )
        if text:
            yield finding("broker-share", f"broker {broker}", text, subject.hints.rebalance())


def dir_shares(subject: Subject, broker: int, dirs: tuple[DirStorage, ...]) -> Iterator[Finding]:
    """Log dirs that hold more or less than their share of what is in the broker's open dirs."""
    counted_dirs = {n: d for n, d in enumerate(dirs) if d.is_open and d.total_bytes}
    if len(counted_dirs) < 2:
        return
    total = sum(d.replica_bytes for d in counted_dirs.values())
    limits = share_limits(total, {n: d.total_bytes or 0 for n, d in counted_dirs.items()}, subject.request.band)
    for n, d in counted_dirs.items():
        text = _outside(
            d.replica_bytes, *limits[n], f"{format_bytes(d.replica_bytes)} in {counted(d.replicas, 'replica')}"
        )
        if text:
            yield finding("dir-share", f"broker {broker} {d.path}", text, subject.hints.level_dirs(broker))


def _distance(amount: int, low: int, high: int) -> int:
    return max(amount - high, low - amount)


def _outside(amount: int, low: int, high: int, what: str) -> str | None:
    if amount > high:
        return f"{what}, {format_bytes(amount - high)} above its share and band"
    if amount < low:
        return f"{what}, {format_bytes(low - amount)} below its share and band"
    return None


def disk_use(subject: Subject, broker: int, dirs: tuple[DirStorage, ...], disks: BrokerDisks) -> Iterator[Finding]:
    """Disks that are fuller than allowed, by what is left on them; without log dirs by what the broker holds."""
    limit = subject.request.max_disk_use
    uses = [(f"broker {broker} {d.path}", d.total_bytes, d.usable_bytes) for d in dirs if d.error is None]
    if not any(usable is not None for _, _, usable in uses):
        s = disks.brokers[broker]
        uses = [(f"broker {broker}", s.capacity_bytes, s.free_bytes)]
    for where, total, free in uses:
        if total and free is not None and (use := Fraction(total - free, total)) > limit:
            text = f"{format_percent(use)} of {format_bytes(total)} in use, more than {format_percent(limit)}"
            yield finding("disk-use", where, text, subject.hints.rebalance())


def dir_states(subject: Subject, broker: int, dirs: tuple[DirStorage, ...]) -> Iterator[Finding]:
    """Log dirs that are offline, and cordoned ones that still hold replicas."""
    for d in dirs:
        where = f"broker {broker} {d.path}"
        if d.error is not None:
            hint = f"repair the disk and restart broker {broker}, or: {subject.hints.drain(broker)}"
            yield finding("failed-dir", where, f"is offline: {d.error}", hint)
        elif d.cordoned and d.replicas:
            text = f"is cordoned and holds {counted(d.replicas, 'replica')} ({format_bytes(d.replica_bytes)})"
            yield finding("cordoned-dir", where, text, subject.hints.rebalance(), d.replicas)


def leader_shares(subject: Subject) -> Iterator[Finding]:
    """Brokers that are first replica, so leader when all is well, more or less often than an even part."""
    import numpy as np

    table = subject.table
    first = table.broker[table.first_slot[table.length > 0]]
    ids, counts = np.unique(first[table.among(subject.judged, first)], return_counts=True)
    leads = dict.fromkeys(subject.judged, 0) | dict(zip(ids.tolist(), counts.tolist(), strict=True))
    if not leads:
        return
    total, band = sum(leads.values()), subject.request.leader_band
    # Whole leaders cannot be cut: the nearest whole numbers around an even part always pass.
    even = Fraction(total, len(leads))
    low, high = min(floor(even), ceil(even * (1 - band))), max(ceil(even), floor(even * (1 + band)))
    for broker, count in sorted(leads.items(), key=lambda item: (-_distance(item[1], low, high), item[0])):
        if not low <= count <= high:
            text = f"is first replica of {counted(count, 'partition')}, an even part is {low} to {high}"
            yield finding("leader-share", f"broker {broker}", text, subject.hints.leaders())
