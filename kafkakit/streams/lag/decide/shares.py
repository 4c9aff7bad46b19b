"""Which instance monitors which cluster: each decides for itself, from what all can read.

Each instance publishes in a small document what it monitors and what it can reach. Leases, and not these
documents, keep two from monitoring the same cluster; a wrong view costs balance for a moment, never doubled figures.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated
from zlib import crc32

from msgspec import Meta

from kafkakit.core.documents import DocumentKind
from kafkakit.core.lease import Holder

MAX_CLUSTERS = 1000

_Ids = Annotated[tuple[Annotated[str, Meta(max_length=100)], ...], Meta(max_length=MAX_CLUSTERS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorInstance:
    """What one instance publishes: the clusters it monitors, and those it reaches, by id and sorted."""

    holder: Holder
    beats: Annotated[int, Meta(ge=0, le=2**62)]
    carries: _Ids = ()
    reaches: _Ids = ()


INSTANCE_DOCUMENT = DocumentKind("lag-instance", MonitorInstance)


def instance_name(holder: Holder) -> str:
    """A name for an instance's document that no other process ever has: host, pid and when the process began."""
    host = "".join(char if char.isascii() and (char.isalnum() or char == "-") else "-" for char in holder.host)
    return f"i-{host[:60]}-{holder.pid}-{holder.started_ticks}"


def fair_share(clusters: int, instances: int) -> int:
    """The most clusters that one instance monitors while all are monitored: the quotient, rounded up."""
    return -(-clusters // max(1, instances))


def in_own_order(name: str, clusters: Collection[str]) -> tuple[str, ...]:
    """The clusters in an order that differs from instance to instance, so that two that start together do not
    try the same ones first."""
    return tuple(sorted(clusters, key=lambda c: (crc32(f"{name}/{c}".encode()), c)))


def to_give(carried: Sequence[str], others: Mapping[str, MonitorInstance]) -> str | None:
    """The cluster to hand over, if any: one that an instance reaches which monitors at least two fewer.

    Such a step always brings the two nearer to each other, so handing over comes to an end.
    """
    for other in sorted(others.values(), key=lambda o: (len(o.carries), o.holder.host, o.holder.pid)):
        if len(carried) - len(other.carries) < 2:
            return None
        able = sorted(set(carried) & set(other.reaches))
        if able:
            return able[0]
    return None
