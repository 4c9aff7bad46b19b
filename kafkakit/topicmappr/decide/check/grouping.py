"""What every rule looks at, and how partitions that break one become findings by topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.core.findings import Finding, shown
from kafkakit.core.model import Broker, ClusterSnapshot
from kafkakit.core.quantities import agreeing, counted
from kafkakit.topicmappr.decide.check.catalogue import CheckRequest, Hints, finding
from kafkakit.topicmappr.decide.check.table import Table

if TYPE_CHECKING:
    from kafkakit.topicmappr.decide.check.table import Bools

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
