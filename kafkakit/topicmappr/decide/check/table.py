"""What every rule looks at: partitions as arrays, built once; and how those that break a rule become findings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from kafkakit.core.findings import Finding, shown
from kafkakit.core.model import Broker, ClusterSnapshot, Partition
from kafkakit.core.quantities import agreeing, counted
from kafkakit.topicmappr.decide.check.catalogue import CheckRequest, Hints, finding

if TYPE_CHECKING:
    from kafkakit.placement.problem import Bools, Ints

UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Partitions by index, in the snapshot's order, and their replicas and in-sync copies as slots.

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


def table_of(snapshot: ClusterSnapshot, chosen: Collection[str]) -> Table:
    """Build the arrays of the chosen topics; O(replicas), 0.5 s for 600,000."""
    import numpy as np

    topics = [t for t in snapshot.topics if t.name in chosen]
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
        topic=np.repeat(np.arange(len(topics)), counts) if topics else _flat([]),
        number=np.fromiter((p.partition for p in rows), dtype=np.int64, count=len(rows)),
        length=length,
        first_slot=np.concatenate([[0], np.cumsum(length)])[:-1].astype(np.int64),
        part=np.repeat(np.arange(len(rows)), length),
        broker=_flat(lists),
        isr_known=isr_known,
        isr_part=np.repeat(np.arange(len(rows)), _lengths(synced)),
        isr_broker=_flat(synced),
        leader=np.fromiter((UNKNOWN if p.leader is None else p.leader for p in rows), dtype=np.int64, count=len(rows)),
        lagging=np.fromiter(map(_lagging, rows), dtype=np.int64, count=len(rows)),
        moving=moving,
        sized=np.fromiter((p.known_bytes is not None for p in rows), dtype=bool, count=len(rows)),
        min_isr=np.repeat(np.array([_min_isr(t.configs) for t in topics], dtype=np.int64), counts),
    )


def _target(p: Partition) -> tuple[int, ...]:
    return tuple(b for b in p.replicas if b not in p.removing) if p.removing else p.replicas


def _lagging(p: Partition) -> int:
    if p.isr is None:
        return 0
    if not p.adding and not p.removing:
        return max(0, len(p.replicas) - len(p.isr))
    # What is being added is not in sync yet, and what leaves need not be.
    return sum(1 for b in p.replicas if b not in p.isr and b not in p.adding and b not in p.removing)


def _min_isr(configs: Mapping[str, str]) -> int:
    text = configs.get("min.insync.replicas", "1")
    return min(int(text), 32_767) if text.isascii() and text.isdigit() and len(text) < 10 else 1


def _lengths(lists: list[tuple[int, ...]]) -> Ints:
    import numpy as np

    return np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))


def _flat(lists: list[tuple[int, ...]]) -> Ints:
    import numpy as np

    return np.fromiter(chain.from_iterable(lists), dtype=np.int64, count=sum(map(len, lists)))


MAX_SUBJECTS = 10_000  # names of partitions that all findings of one rule carry together


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A cluster to be judged: `live` and `judged` brokers by id (`judged` are those that should carry replicas)."""

    snapshot: ClusterSnapshot
    table: Table
    request: CheckRequest
    live: Mapping[int, Broker]
    judged: Mapping[int, Broker]

    @property
    def hints(self) -> Hints:
        """The commands that repair things."""
        return Hints(self.request)

    @property
    def racks(self) -> dict[int, str]:
        """The rack of each broker that has one."""
        return {b.id: b.group for b in self.snapshot.brokers if b.group}


Describe = Callable[[int], str]


def by_topic(
    subject: Subject, rule: str, bad: Bools, what: str, hint: str, describe: Describe | None = None
) -> Iterator[Finding]:
    """One finding for each topic with partitions in `bad`; `what` completes "3 of 12 partitions ...".

    `describe` says more of the first three. All findings of a rule together carry up to `MAX_SUBJECTS` names.
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
        total = counted(int(sizes[topic]), "partition")
        yield finding(
            rule,
            f"topic {table.topics[topic]}",
            f"{len(group)} of {total} {agreeing(len(group), what)}: {shown(first, len(group))}",
            hint,
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
