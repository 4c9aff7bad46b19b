"""`topicmappr check` as a pure function: snapshot and rules in, findings out.

Every rule looks at one table, partitions as arrays, built once. There are rules on the state of brokers and copies
(alive, in sync, led by the first replica, not moving), on where replicas are (sound lists, racks, replication factor,
the wanted brokers) and on shares (used space by broker and log dir, leaders by broker, how full disks are).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from itertools import chain
from math import ceil, floor
from typing import TYPE_CHECKING

from kafkakit.core.findings import Finding, in_order, min_isr_of, shorten, stops_above_replicas, usual_min_isr_words
from kafkakit.core.model import Broker, ClusterSnapshot, Partition
from kafkakit.core.plan import StorageFacts
from kafkakit.core.quantities import agree, count_of, format_bytes, format_percent
from kafkakit.core.selection import TopicSelection, select_topics
from kafkakit.core.text import few_of
from kafkakit.placement.broker_disks import BrokerDisks, DirStorage, broker_disks
from kafkakit.placement.group_rule import SpreadRule
from kafkakit.topicmappr.decide.check_rules import RULES, CheckRequest, HandRepair, Hints, make_finding
from kafkakit.topicmappr.decide.storage import storage_facts

if TYPE_CHECKING:
    from kafkakit.core.columns import Bools, Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What was found, worst first, and what it was looked for in; `notes` say what to keep in mind."""

    findings: tuple[Finding, ...]
    cluster_id: str
    selection: TopicSelection
    brokers: tuple[int, ...]
    partitions: int
    replicas: int
    storage: StorageFacts
    unchecked: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def check_cluster(snapshot: ClusterSnapshot, request: CheckRequest, facts: StorageFacts | None = None) -> CheckReport:
    """Hold a cluster against its rules.

    Raises `UsageError` when no topic matches. Sizes that are not known are findings, not errors.
    O(replicas), about 2 s for 600,000.
    """
    snapshot = snapshot.in_order()
    names = [t.name for t in snapshot.topics]
    if request.topics or request.topics_exclude:
        selection = select_topics(names, request.topics or (".*",), request.topics_exclude)
    else:
        selection = TopicSelection(tuple(sorted(names)), ())
    table = table_of(snapshot, frozenset(selection.selected))
    live = {b.id: b for b in snapshot.brokers if b.is_alive}
    judged = {b: broker for b, broker in live.items() if b not in snapshot.leaving}
    if request.brokers is not None:
        holding = frozenset(table.broker.tolist())
        request.require_broker({b.id for b in snapshot.brokers} | holding)
        chosen = request.brokers.resolve(holding, frozenset(live), snapshot.leaving)
        judged = {b: live[b] for b in chosen if b in live}
    disks = broker_disks(snapshot)
    unsized = frozenset(b for b, s in disks.brokers.items() if s.used_bytes is None or s.capacity_bytes is None)
    subject = CheckInput(snapshot=snapshot, table=table, request=request, live=live, judged=judged, unsized=unsized)
    health = (rule(subject) for rule in (dead_brokers, copies_in_sync, preferred_leaders, moves))
    found = [*placement_findings(subject), *chain.from_iterable(health), *balance_findings(subject, disks)]
    return CheckReport(
        findings=in_order(found),
        cluster_id=snapshot.cluster_id,
        selection=selection,
        brokers=tuple(judged),
        partitions=table.partitions,
        replicas=len(table.part),
        storage=facts or storage_facts(snapshot),
        unchecked=_unchecked_rules(subject, any(s.capacity_bytes for s in disks.brokers.values())),
        notes=(*disks.notes_on(judged), *filter(None, [usual_min_isr_words(snapshot.min_isr)])),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Partitions by index, by topic and number, and their replicas and in-sync copies as slots.

    `topic` indexes `topics`. `part` and `broker` are the slots of the replica lists (of a moving partition: of
    the list it is to have), `length` their number by partition, `first_slot` where they begin. `isr_part` and
    `isr_broker` are the in-sync copies where `isr_known`. `leader` is -1 when unknown. `lagging` counts replicas
    that should be in sync and are not. `sized` says whether a size is known.
    """

    topics: tuple[str, ...]
    topic: Ints
    number: Ints
    length: Ints
    first_slot: Ints
    part: Ints
    broker: Ints
    isr_known: Bools
    isr_part: Ints
    isr_broker: Ints
    leader: Ints
    lagging: Ints
    moving: Bools
    sized: Bools
    min_isr: Ints

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return len(self.number)

    def among(self, brokers: Collection[int], ids: Ints) -> Bools:
        """Which of these broker ids are in the set."""
        import numpy as np

        return np.isin(ids, np.array(sorted(brokers), dtype=np.int64))

    def counted(self, part: Ints) -> Ints:
        """How often each partition stands in `part`."""
        import numpy as np

        return np.bincount(part, minlength=self.partitions)

    def name(self, p: int) -> str:
        """A partition's name, `topic-number`."""
        return f"{self.topics[self.topic[p]]}-{self.number[p]}"


@dataclass(frozen=True, kw_only=True)
class CheckInput:
    """A cluster to be judged: `live` and `judged` brokers by id (`judged` are those that should carry replicas).

    `unsized` are brokers whose used or free space is not known.
    """

    snapshot: ClusterSnapshot
    table: Table
    request: CheckRequest
    live: Mapping[int, Broker]
    judged: Mapping[int, Broker]
    unsized: frozenset[int]

    @cached_property
    def hints(self) -> Hints:
        """The commands that repair things."""
        held = set(self.table.broker.tolist())
        dead = sorted(b for b in held if b not in self.live)
        unsized = sorted(b for b in self.judged if b in self.unsized)
        before = [f"empty broker {few_of(dead)} or start it"] if dead else []
        before += [f"bring log dirs of broker {few_of(unsized)} back"] if unsized else []
        return Hints(self.request, self.live, tuple(before))

    @property
    def racks(self) -> dict[int, str]:
        """The rack of each broker that has one."""
        return {b.id: b.group for b in self.snapshot.brokers if b.group}


def _unchecked_rules(subject: CheckInput, disks_known: bool) -> tuple[str, ...]:
    """The rules that could not be checked with what was given, in the catalogue's order."""
    missing = set()
    if not subject.request.replication:
        missing |= {"low-replication", "high-replication"}
    if subject.request.brokers is None:
        missing.add("broker-set")
    if not disks_known:
        missing |= {"broker-share", "disk-use"}
    if not any(len(b.log_dirs) > 1 for b in subject.judged.values()):
        missing.add("dir-share")
    if not any(b.log_dirs for b in subject.judged.values()):
        missing |= {"failed-dir", "cordoned-dir"}
    if not subject.table.isr_known.any():
        missing |= {"below-min-isr", "under-replicated"}
    if not (subject.table.leader >= 0).any():
        missing.add("preferred-leader")
    if not subject.racks:
        missing |= {"rack-rule", "rack-spread"}
    return tuple(rule.name for rule in RULES if rule.name in missing)


def balance_findings(subject: CheckInput, disks: BrokerDisks) -> Iterator[Finding]:
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


def unknown_sizes(subject: CheckInput, disks: BrokerDisks) -> Iterator[Finding]:
    """Brokers that gave no sizes, disks of unknown size, and partitions without any known copy."""
    snapshot, hint = subject.snapshot, str(subject.hints.snapshot())
    if not snapshot.sizes_taken and not subject.table.sized.any():
        yield make_finding("unknown-size", "snapshot", "was taken without sizes", hint)
        return
    for broker in subject.judged.values():
        storage = disks.brokers[broker.id]
        if broker.id in snapshot.unanswered_brokers:
            reason = snapshot.unanswered_brokers[broker.id]
            yield make_finding("unknown-size", f"broker {broker.id}", f"gave no sizes: {reason}", hint)
        elif storage.capacity_bytes is None:
            yield make_finding("unknown-size", f"broker {broker.id}", "the size of its disks is not known", hint)
    yield from by_topic(
        subject, "unknown-size", ~subject.table.sized, "have no known size", lambda _: subject.hints.snapshot()
    )


def broker_shares(subject: CheckInput, disks: BrokerDisks) -> Iterator[Finding]:
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
        what = f"{format_bytes(used[broker])} used of {format_bytes(capacity[broker])}"
        text = _outside_text(used[broker], low, high, what, subject.request.band)
        if text:
            yield make_finding("broker-share", f"broker {broker}", text, subject.hints.balance())


def dir_shares(subject: CheckInput, broker: int, dirs: tuple[DirStorage, ...]) -> Iterator[Finding]:
    """Log dirs that hold more or less than their share of what is in the broker's open dirs."""
    counted_dirs = {n: d for n, d in enumerate(dirs) if d.is_open and d.total_bytes}
    if len(counted_dirs) < 2:
        return
    total = sum(d.replica_bytes for d in counted_dirs.values())
    limits = share_limits(total, {n: d.total_bytes or 0 for n, d in counted_dirs.items()}, subject.request.band)
    for n, d in counted_dirs.items():
        what = f"{format_bytes(d.replica_bytes)} in {count_of(d.replicas, 'replica')}"
        text = _outside_text(d.replica_bytes, *limits[n], what, subject.request.band)
        if text:
            yield make_finding("dir-share", f"broker {broker} {d.path}", text, str(subject.hints.level_dirs(broker)))


def _distance(amount: int, low: int, high: int) -> int:
    return max(amount - high, low - amount)


def _outside_text(amount: int, low: int, high: int, what: str, band: Fraction) -> str | None:
    if amount > high:
        return f"{what}: {format_bytes(amount - high)} over the +{format_percent(band)} limit"
    if amount < low:
        return f"{what}: {format_bytes(low - amount)} under the -{format_percent(band)} limit"
    return None


def _span(low: int, high: int) -> str:
    return str(low) if low == high else f"{low} or {high}" if high == low + 1 else f"{low} to {high}"


def disk_use(subject: CheckInput, broker: int, dirs: tuple[DirStorage, ...], disks: BrokerDisks) -> Iterator[Finding]:
    """Disks that are fuller than allowed, by what is left on them; without log dirs by what the broker holds."""
    limit = subject.request.max_disk_use
    uses = [(f"broker {broker} {d.path}", d.total_bytes, d.usable_bytes) for d in dirs if d.error is None]
    if not any(usable is not None for _, _, usable in uses):
        s = disks.brokers[broker]
        uses = [(f"broker {broker}", s.capacity_bytes, s.free_bytes)]
    within = _total_use((total, free) for _, total, free in uses)
    across = _total_use((s.capacity_bytes, s.free_bytes) for s in (disks.brokers[b] for b in subject.judged))
    for where, total, free in uses:
        if total and free is not None and (use := Fraction(total - free, total)) > limit:
            text = f"{format_percent(use)} of {format_bytes(total)} in use, more than {format_percent(limit)}"
            hint = subject.hints.make_room(broker, within if len(uses) > 1 else use, across)
            yield make_finding("disk-use", where, text, hint)


def _total_use(sizes: Iterable[tuple[int | None, int | None]]) -> Fraction:
    known = [(total, free) for total, free in sizes if total and free is not None]
    return Fraction(sum(t - f for t, f in known), sum(t for t, _ in known) or 1)


def dir_states(subject: CheckInput, broker: int, dirs: tuple[DirStorage, ...]) -> Iterator[Finding]:
    """Log dirs that are offline, and cordoned ones that still hold replicas."""
    for d in dirs:
        where = f"broker {broker} {d.path}"
        if d.error is not None:
            replaced = subject.hints.repair(broker)
            hint = f"repair the disk and restart broker {broker}; to replace what is in it meanwhile: {replaced}"
            yield make_finding("failed-dir", where, f"is offline: {d.error}", hint)
        elif d.cordoned and d.replicas and broker not in subject.snapshot.cordoned:  # a cordoned broker keeps its own
            text = f"is cordoned and holds {count_of(d.replicas, 'replica')} ({format_bytes(d.replica_bytes)})"
            yield make_finding("cordoned-dir", where, text, str(subject.hints.empty_dir(broker, d.path)), d.replicas)


def leader_shares(subject: CheckInput) -> Iterator[Finding]:
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
    hint = str(subject.hints.leaders())
    held = Counter(table.broker.tolist())
    if few := [b for b in leads if held[b] < low]:
        hint = f"broker {few_of(few)} has too few replicas to lead its share: move some to it, then: {hint}"
    for broker, count in sorted(leads.items(), key=lambda item: (-_distance(item[1], low, high), item[0])):
        if not low <= count <= high:
            text = f"is preferred leader of {count_of(count, 'partition')}; an even share is {_span(low, high)}"
            yield make_finding("leader-share", f"broker {broker}", text, hint)


def dead_brokers(subject: CheckInput) -> Iterator[Finding]:
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
        message = f"is {state} and holds {count_of(count, 'replica')}"
        if not count:
            others = ",".join(str(b) for b in named if b != broker and b in subject.live)
            hint = f"start broker {broker}, or leave it out: {subject.hints.check(brokers=others)}"
        elif broker in known:
            hint = f"start broker {broker} again, or: {subject.hints.drain(broker)}"
        else:
            hint = subject.hints.read_again()
        yield make_finding("dead-broker", f"broker {broker}", message, hint, max(1, count))


def copies_in_sync(subject: CheckInput) -> Iterator[Finding]:
    """Partitions without a live copy in sync, with too few for writing, and with replicas that lag."""
    import numpy as np

    table = subject.table
    live = table.among(subject.live, table.broker)
    live_in_sync = table.counted(table.isr_part[table.among(subject.live, table.isr_broker)])
    live_copies: Ints = np.where(table.isr_known, live_in_sync, table.counted(table.part[live]))
    lost = np.logical_and(live_copies == 0, table.length > 0)
    hints = subject.hints
    anew = ", take the snapshot again" if subject.request.snapshot else ""
    again = HandRepair("start the brokers that hold the copies again" + anew, hints.check)
    yield from by_topic(subject, "no-live-copy", lost, "have no live copy in sync", again, list_of(table))
    stops = stops_above_replicas(subject.snapshot.kafka_version)
    least = table.min_isr if stops else np.minimum(table.min_isr, table.length)
    few = table.isr_known & ~lost & (live_in_sync < least)
    above = np.flatnonzero(few & (table.length < table.min_isr))
    raised = {table.topics[table.topic[p]]: hints.meet_min_isr(int(table.min_isr[p])) for p in above}
    what = "have fewer live copies in sync than min.insync.replicas"
    again = HandRepair("start the brokers that lag or are dead again, or wait for them to catch up" + anew, hints.check)
    yield from by_topic(subject, "below-min-isr", few, what, lambda t: raised.get(t, again)(t), list_of(table))
    behind = ~lost & ~few & (table.lagging > 0)
    again = HandRepair("start dead brokers again or wait for them to catch up" + anew, hints.check)
    what = "have replicas that are not in sync"
    yield from by_topic(subject, "under-replicated", behind, what, again, list_of(table))


def preferred_leaders(subject: CheckInput) -> Iterator[Finding]:
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
    brokers: dict[str, list[int]] = {}
    for topic, broker in sorted({(int(table.topic[p]), int(first[p])) for p in np.flatnonzero(bad)}):
        brokers.setdefault(table.topics[topic], []).append(broker)

    yield from by_topic(subject, "preferred-leader", bad, what, lambda t: subject.hints.elect(brokers[t]))


def moves(subject: CheckInput) -> Iterator[Finding]:
    """Partitions that are being reassigned: their lists are about to change."""
    yield from by_topic(
        subject, "moving", subject.table.moving, "are being reassigned", lambda _: subject.hints.watch()
    )


def placement_findings(subject: CheckInput) -> Iterator[Finding]:
    """All rules of this module."""
    yield from replica_lists(subject)
    yield from replication(subject)
    yield from racks(subject)
    yield from rackless_brokers(subject)
    yield from broker_set(subject)
    yield from constraints(subject)


def constraints(subject: CheckInput) -> Iterator[Finding]:
    """Replicas that constraints by tags forbid, as if every copy were new."""
    import numpy as np

    table, topics = subject.table, subject.table.topics
    tags = subject.request.constraints.on(subject.snapshot, set(topics))
    if tags is None:
        return
    faults = [tags.faults(topics[t], (), replicas_of(table, p)) for p, t in enumerate(table.topic.tolist())]
    for text in dict.fromkeys(found for row in faults for found in row):
        bad = np.array([text in row for row in faults], dtype=bool)
        hint = subject.hints.fix_constraints
        yield from by_topic(subject, "constraint", bad, f"break {text}", hint, list_of(table))


def replica_lists(subject: CheckInput) -> Iterator[Finding]:
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
    yield from by_topic(
        subject, "replica-list", bad, what, lambda _: subject.hints.read_again(), list_of(subject.table)
    )


def replication(subject: CheckInput) -> Iterator[Finding]:
    """Fewer or more replicas than `--replication` asks for; without it, a topic whose partitions differ."""
    import numpy as np

    table, hints, wanted = subject.table, subject.hints, subject.request.replication
    listed = table.length > 0
    if wanted:
        repair = partial(hints.replicate, wanted)
        what = f"have fewer than {wanted} replicas"
        yield from by_topic(subject, "low-replication", listed & (table.length < wanted), what, repair, list_of(table))
        what = f"have more than {wanted} replicas"
        yield from by_topic(subject, "high-replication", listed & (table.length > wanted), what, repair, list_of(table))
        return
    # The most frequent length of each topic, the greater one of several: the last write to an index counts.
    width = int(table.length.max(initial=0)) + 1
    cells, often = np.unique(table.topic[listed] * width + table.length[listed], return_counts=True)
    of_topic = np.zeros(len(table.topics), dtype=np.int64)
    cells = cells[np.lexsort((cells % width, often, cells // width))]
    of_topic[cells // width] = cells % width
    factor = dict(zip(table.topics, of_topic.tolist(), strict=True))
    bad = listed & (table.length != of_topic[table.topic])
    what = "have another number of replicas than the rest of the topic"
    yield from by_topic(
        subject,
        "uneven-replication",
        bad,
        what,
        lambda topic: hints.replicate(factor[topic], topic),
        list_of(table),
    )


def racks(subject: CheckInput) -> Iterator[Finding]:
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
    broken = SpreadRule(minimum).broken_sets(table.part[racked], rack_by_id[at[racked]], table.partitions)
    asks = "put replicas on the same rack" if minimum == 0 else f"span fewer than {minimum} racks"
    usable = len({b.group for b in subject.judged.values() if b.group})
    needed = np.where(broken, np.minimum(table.length, minimum or table.length), 0)
    lacking = {table.topics[t] for t in np.unique(table.topic[needed > usable]).tolist()}

    def repair(topic: str) -> str:
        made = str(subject.hints.fix_racks(topic))
        few = f"live brokers are on {count_of(usable, 'rack')}: add brokers in other racks, or ask for fewer"
        return f"{few} (--min-rack-ids), then: {made}" if topic in lacking else made

    yield from by_topic(subject, "rack-rule", broken, asks, repair, _racks_of(subject))
    sizes = Counter(numbers[b.group] for b in subject.judged.values() if b.group)
    uneven = ~broken & _find_uneven(
        table.partitions, cell_part, cell_rack, in_cell, [sizes[n] for n in range(len(names))]
    )
    yield from by_topic(
        subject,
        "rack-spread",
        uneven,
        "put too many replicas on one rack",
        partial(subject.hints.fix_racks, spread=True),
        _racks_of(subject),
    )


def _find_uneven(partitions: int, cell_part: Ints, cell_rack: Ints, in_cell: Ints, sizes: Sequence[int]) -> Bools:
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


def rackless_brokers(subject: CheckInput) -> Iterator[Finding]:
    """Brokers without a rack beside brokers with one: the rack rule cannot see them."""
    without = [b for b in subject.judged.values() if not b.rack]
    if len(without) in (0, len(subject.judged)):
        return
    for broker in without:
        hint = f"set broker.rack on broker {broker.id}, restart it, then: {subject.hints.fix_racks()}"
        yield make_finding("rackless-broker", f"broker {broker.id}", "has no rack, while others have one", hint)


def broker_set(subject: CheckInput) -> Iterator[Finding]:
    """Replicas outside of the brokers that were named."""
    import numpy as np

    if subject.request.brokers is None:
        return
    table = subject.table
    outside = ~table.among(subject.judged, table.broker)
    bad = np.zeros(table.partitions, dtype=bool)
    bad[table.part[outside]] = True
    what = "have replicas outside of --brokers"
    yield from by_topic(subject, "broker-set", bad, what, subject.hints.onto, list_of(subject.table))


Describe = Callable[[int], str]


def _racks_of(subject: CheckInput) -> Describe:
    racks, table = subject.racks, subject.table
    return lambda p: f" (racks {', '.join(racks.get(b) or '-' for b in replicas_of(table, p)[:10])})"


UNKNOWN = -1


def table_of(snapshot: ClusterSnapshot, chosen: Collection[str]) -> Table:
    """Build the arrays of the chosen topics; O(replicas), 0.5 s for 600,000."""
    import numpy as np

    topics, usual = [t for t in snapshot.topics if t.name in chosen], snapshot.usual_min_isr
    rows = [p for t in topics for p in t.partitions]
    counts = [len(t.partitions) for t in topics]
    running = {(r.topic, r.partition) for r in snapshot.reassignments}
    moving = np.fromiter((bool(p.adding or p.removing) for p in rows), dtype=bool, count=len(rows))
    if running:
        names = (t.name for t in topics for _ in t.partitions)
        moving |= np.fromiter(
            ((name, p.partition) in running for name, p in zip(names, rows, strict=True)), dtype=bool, count=len(rows)
        )
    lists = [_target(p) for p in rows]
    length = _lengths(lists)
    synced = [p.isr or () for p in rows]
    isr_known = np.fromiter((p.isr is not None for p in rows), dtype=bool, count=len(rows))
    return Table(
        topics=tuple(t.name for t in topics),
        topic=np.repeat(np.arange(len(topics)), counts) if topics else _flatten_lists([]),
        number=np.fromiter((p.partition for p in rows), dtype=np.int64, count=len(rows)),
        length=length,
        first_slot=np.concatenate([[0], np.cumsum(length)])[:-1].astype(np.int64),
        part=np.repeat(np.arange(len(rows)), length),
        broker=_flatten_lists(lists),
        isr_known=isr_known,
        isr_part=np.repeat(np.arange(len(rows)), _lengths(synced)),
        isr_broker=_flatten_lists(synced),
        leader=np.fromiter((UNKNOWN if p.leader is None else p.leader for p in rows), dtype=np.int64, count=len(rows)),
        lagging=np.fromiter(map(_count_lagging, rows), dtype=np.int64, count=len(rows)),
        moving=moving,
        sized=np.fromiter((p.known_bytes is not None for p in rows), dtype=bool, count=len(rows)),
        min_isr=np.repeat(np.array([min_isr_of(t.configs, usual) for t in topics], dtype=np.int64), counts),
    )


def _target(p: Partition) -> tuple[int, ...]:
    return tuple(b for b in p.replicas if b not in p.removing) if p.removing else p.replicas


def _count_lagging(p: Partition) -> int:
    if p.isr is None:
        return 0
    if not p.adding and not p.removing:
        return max(0, len(p.replicas) - len(p.isr))
    # What is being added is not in sync yet, and what leaves need not be.
    return sum(1 for b in p.replicas if b not in p.isr and b not in p.adding and b not in p.removing)


def _lengths(lists: list[tuple[int, ...]]) -> Ints:
    import numpy as np

    return np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))


def _flatten_lists(lists: list[tuple[int, ...]]) -> Ints:
    import numpy as np

    return np.fromiter(chain.from_iterable(lists), dtype=np.int64, count=sum(map(len, lists)))


Remedy = Callable[[str], object]


MAX_SUBJECTS = 10_000  # names of partitions that all findings of one rule carry together


def by_topic(
    subject: CheckInput, rule: str, bad: Bools, what: str, repair: Remedy, describe: Describe | None = None
) -> Iterator[Finding]:
    """One finding for each topic with partitions in `bad`; `what` completes "3 of 12 partitions ...".

    `repair` makes the command for a topic; `describe` says more of the first three. All findings of a rule together
    carry up to `MAX_SUBJECTS` names.
    """
    import numpy as np

    table = subject.table
    indices = np.flatnonzero(bad)
    if not len(indices):
        return
    sizes = np.bincount(table.topic, minlength=len(table.topics))
    cuts = np.flatnonzero(np.diff(table.topic[indices])) + 1
    room = MAX_SUBJECTS
    for group in np.split(indices, cuts):
        topic = int(table.topic[group[0]])
        names = tuple(table.name(p) for p in group[:room].tolist())
        room -= len(names)
        first = [table.name(p) + (describe(p) if describe else "") for p in group[:3].tolist()]
        total = count_of(int(sizes[topic]), "partition")
        yield make_finding(
            rule,
            f"topic {table.topics[topic]}",
            f"{len(group)} of {total} {agree(len(group), what)}: {shorten(first, len(group))}",
            str(repair(table.topics[topic])),
            len(group),
            names,
        )


def replicas_of(table: Table, p: int) -> list[int]:
    """The replica list of a partition."""
    start = int(table.first_slot[p])
    found: list[int] = table.broker[start : start + int(table.length[p])].tolist()
    return found


def list_of(table: Table) -> Describe:
    """Show a partition's replica list behind its name."""
    return lambda p: f" [{' '.join(map(str, replicas_of(table, p)[:10]))}]"
