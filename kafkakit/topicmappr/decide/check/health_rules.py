"""Rules on the state of brokers and copies: alive, in sync, led by the first replica, not moving."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafkakit.core.findings import Finding
from kafkakit.core.quantities import counted
from kafkakit.topicmappr.decide.check.catalogue import finding
from kafkakit.topicmappr.decide.check.table import Subject, by_topic, list_of

if TYPE_CHECKING:
    from kafkakit.placement.problem import Ints


def health_findings(subject: Subject) -> Iterator[Finding]:
    """All rules of this module."""
    yield from dead_brokers(subject)
    yield from copies_in_sync(subject)
    yield from preferred_leaders(subject)
    yield from moves(subject)


def dead_brokers(subject: Subject) -> Iterator[Finding]:
    """Brokers that hold replicas, or were named, and are not alive."""
    import numpy as np

    table = subject.table
    known = {b.id: b for b in subject.snapshot.brokers}
    ids, copies = np.unique(table.broker, return_counts=True)
    held = dict(zip(ids.tolist(), copies.tolist(), strict=True))
    named = subject.request.brokers.ids if subject.request.brokers else ()
    for broker in sorted({*held, *named} - set(subject.live)):
        state = str(known[broker].state) if broker in known else "not among the brokers"
        count = held.get(broker, 0)
        message = f"is {state} and holds {counted(count, 'replica')}"
        hint = f"start broker {broker} again, or: {subject.hints.drain(broker)}"
        yield finding("dead-broker", f"broker {broker}", message, hint, max(1, count))


def copies_in_sync(subject: Subject) -> Iterator[Finding]:
    """Partitions without a live copy in sync, with too few for writing, and with replicas that lag."""
    import numpy as np

    table = subject.table
    live = table.among(subject.live, table.broker)
    live_in_sync = table.counted(table.isr_part[table.among(subject.live, table.isr_broker)])
    live_copies: Ints = np.where(table.isr_known, live_in_sync, table.counted(table.part[live]))
    lost = np.logical_and(live_copies == 0, table.length > 0)
    again = f"start the brokers that hold the copies again, then: {subject.hints.check()}"
    yield from by_topic(subject, "no-live-copy", lost, "have no live copy in sync", again, list_of(table))
    few = table.isr_known & ~lost & (live_in_sync < table.min_isr)
    what = "have fewer live copies in sync than min.insync.replicas"
    hint = f"restart the brokers that lag, or give the topic more replicas: {subject.hints.replicate()}"
    yield from by_topic(subject, "below-min-isr", few, what, hint, list_of(table))
    behind = ~lost & ~few & (table.lagging > 0)
    what = "have replicas that are not in sync"
    hint = f"start dead brokers again or wait for them to catch up, then: {subject.hints.check()}"
    yield from by_topic(subject, "under-replicated", behind, what, hint, list_of(table))


def preferred_leaders(subject: Subject) -> Iterator[Finding]:
    """Partitions led by another replica than the first, though that one could lead."""
    import numpy as np

    table = subject.table
    listed = np.flatnonzero(table.length > 0)
    first = np.full(table.partitions, -1, dtype=np.int64)
    first[listed] = table.broker[table.first_slot[listed]]
    able = table.among(subject.live, first)
    synced = table.isr_broker == first[table.isr_part]
    able &= ~table.isr_known | (table.counted(table.isr_part[synced]) > 0)
    bad = (table.leader >= 0) & (table.leader != first) & able & ~table.moving
    what = "are led by another replica than their first"
    yield from by_topic(subject, "preferred-leader", bad, what, subject.hints.leaders())


def moves(subject: Subject) -> Iterator[Finding]:
    """Partitions that are being reassigned: their lists are about to change."""
    yield from by_topic(subject, "moving", subject.table.moving, "are being reassigned", subject.hints.watch())
