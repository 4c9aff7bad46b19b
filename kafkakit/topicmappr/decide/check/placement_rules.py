"""Rules on where replicas are: sound lists, racks, replication factor, the wanted brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kafkakit.core.findings import Finding
from kafkakit.placement.group_rule import GroupRule
from kafkakit.topicmappr.decide.check.catalogue import finding
from kafkakit.topicmappr.decide.check.table import Describe, Subject, by_topic, list_of, replicas_of

if TYPE_CHECKING:
    from kafkakit.placement.problem import Bools, Ints


def placement_findings(subject: Subject) -> Iterator[Finding]:
    """All rules of this module."""
    yield from replica_lists(subject)
    yield from replication(subject)
    yield from racks(subject)
    yield from rackless_brokers(subject)
    yield from broker_set(subject)
    yield from constraints(subject)


def constraints(subject: Subject) -> Iterator[Finding]:
    """Replicas that constraints by tags forbid, as if every copy were new."""
    import numpy as np

    table, topics = subject.table, subject.table.topics
    tags = subject.request.constraints.on(subject.snapshot, set(topics))
    if tags is None:
        return
    faults = [tags.faults(topics[t], (), replicas_of(table, p)) for p, t in enumerate(table.topic.tolist())]
    for text in dict.fromkeys(found for row in faults for found in row):
        bad = np.array([text in row for row in faults], dtype=bool)
        hint = subject.hints.fix_constraints()
        yield from by_topic(subject, "constraint", bad, f"break {text}", hint, list_of(table))


def replica_lists(subject: Subject) -> Iterator[Finding]:
    """Lists that are empty, name a broker twice, or name one that the snapshot does not know."""
    import numpy as np

    table = subject.table
    bad = table.length == 0
    order = np.lexsort((table.broker, table.part))
    part, broker = table.part[order], table.broker[order]
    twice = (part[1:] == part[:-1]) & (broker[1:] == broker[:-1])
    bad[part[1:][twice]] = True
    known = table.among([b.id for b in subject.snapshot.brokers], table.broker)
    bad[table.part[~known]] = True
    what = "have a list that is empty, or names a broker twice or one that is unknown"
    yield from by_topic(subject, "replica-list", bad, what, subject.hints.onto(), list_of(subject.table))


def replication(subject: Subject) -> Iterator[Finding]:
    """Fewer replicas than `--replication` asks for."""
    wanted = subject.request.replication
    bad = (subject.table.length > 0) & (subject.table.length < wanted)
    what = f"have fewer than {wanted} replicas"
    yield from by_topic(subject, "low-replication", bad, what, subject.hints.replicate(), list_of(subject.table))


def racks(subject: Subject) -> Iterator[Finding]:
    """Replica sets that break the rack rule, and those that keep it but crowd a rack more than they need."""
    import numpy as np

    table, minimum, rack_of = subject.table, subject.request.min_rack_ids, subject.racks
    names = sorted(set(rack_of.values()))
    if not names or not table.partitions:
        return
    numbers = {name: n for n, name in enumerate(names)}
    ids = np.array(sorted(rack_of), dtype=np.int64)
    rack_by_id = np.array([numbers[rack_of[b]] for b in ids.tolist()], dtype=np.int64)
    at = np.minimum(np.searchsorted(ids, table.broker), len(ids) - 1)
    racked = ids[at] == table.broker
    cells, in_cell = np.unique(table.part[racked] * len(names) + rack_by_id[at[racked]], return_counts=True)
    cell_part, cell_rack = cells // len(names), cells % len(names)
    broken = GroupRule(minimum).broken_sets(table.part[racked], rack_by_id[at[racked]], table.partitions)
    asks = "put replicas on the same rack" if minimum == 0 else f"span fewer than {minimum} racks"
    hint = subject.hints.fix_racks()
    yield from by_topic(subject, "rack-rule", broken, asks, hint, _racks_of(subject))
    sizes = Counter(numbers[b.group] for b in subject.judged.values() if b.group)
    uneven = ~broken & _uneven(table.partitions, cell_part, cell_rack, in_cell, [sizes[n] for n in range(len(names))])
    yield from by_topic(
        subject,
        "rack-spread",
        uneven,
        "put too many replicas on one rack",
        subject.hints.fix_racks(spread=True),
        _racks_of(subject),
    )


def _uneven(partitions: int, cell_part: Ints, cell_rack: Ints, in_cell: Ints, sizes: Sequence[int]) -> Bools:
    """Partitions where a replica could go from one rack to another and leave them more even.

    A cell is a rack that a partition uses, with that many replicas; `sizes` is how many brokers a rack has.
    """
    import numpy as np

    size_of = np.array(sizes, dtype=np.int64)
    most = np.zeros(partitions, dtype=np.int64)
    np.maximum.at(most, cell_part, in_cell)
    roomy = in_cell < size_of[cell_rack]
    least = np.full(partitions, np.iinfo(np.int64).max)
    np.minimum.at(least, cell_part[roomy], in_cell[roomy])
    used = np.bincount(cell_part[size_of[cell_rack] > 0], minlength=partitions)
    least[used < np.count_nonzero(size_of)] = 0
    return np.asarray(most - 1 > least)


def rackless_brokers(subject: Subject) -> Iterator[Finding]:
    """Brokers without a rack beside brokers with one: the rack rule cannot see them."""
    without = [b for b in subject.judged.values() if not b.rack]
    if len(without) in (0, len(subject.judged)):
        return
    for broker in without:
        hint = f"set broker.rack on broker {broker.id}, restart it, then: {subject.hints.fix_racks()}"
        yield finding("rackless-broker", f"broker {broker.id}", "has no rack, while others have one", hint)


def broker_set(subject: Subject) -> Iterator[Finding]:
    """Replicas outside of the brokers that were named."""
    import numpy as np

    if subject.request.brokers is None:
        return
    table = subject.table
    outside = ~table.among(subject.judged, table.broker)
    bad = np.zeros(table.partitions, dtype=bool)
    bad[table.part[outside]] = True
    what = "have replicas outside of --brokers"
    yield from by_topic(subject, "broker-set", bad, what, subject.hints.onto(), list_of(subject.table))


def _racks_of(subject: Subject) -> Describe:
    racks, table = subject.racks, subject.table
    return lambda p: f" (racks {', '.join(racks.get(b) or '-' for b in replicas_of(table, p)[:10])})"
