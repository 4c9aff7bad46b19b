"""Which workers live, by their documents and the clock of the process that watches them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafkakit.core.lease import Holder, Life
from kafkakit.streams.client.api import WorkerDocument


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenWorker:
    """A worker's document as it was found, and since when (own monotonic clock) it has not changed."""

    document: WorkerDocument
    version: int
    since_s: float
    is_dead: bool = False


Roster = Mapping[str, SeenWorker]
"""The workers by their slots."""


def observed(
    earlier: Roster,
    found: Mapping[str, tuple[int, WorkerDocument]],
    looked_s: float,
    now_s: float,
    life_of: Callable[[Holder], Life],
) -> dict[str, SeenWorker]:
    """The workers now: dead is who was silent for its `ttl_s`, or whose process is certainly gone.

    Silence since the look of `looked_s` does not count where that is `ttl_s` ago, or minus infinity: the store may have
    been away, and workers could not write either.

    A worker stops by its own clock before this does (`core.lease` has the reasons), and what it must not do after its
    process is gone it cannot.
    """
    roster: dict[str, SeenWorker] = {}
    for slot, (version, document) in found.items():
        before = earlier.get(slot)
        is_same = before is not None and before.version == version and now_s - looked_s < document.ttl_s
        since_s = before.since_s if before is not None and is_same else now_s
        is_dead = now_s - since_s >= document.ttl_s or life_of(document.holder) is Life.GONE
        roster[slot] = SeenWorker(document=document, version=version, since_s=since_s, is_dead=is_dead)
    return roster


def living(roster: Roster) -> dict[str, WorkerDocument]:
    """The documents of those that are not dead, by slot, sorted."""
    return {slot: seen.document for slot, seen in sorted(roster.items()) if not seen.is_dead}


def witnesses(workers: Mapping[str, WorkerDocument]) -> dict[str, tuple[int, int]]:
    """For each cluster that workers read: how many of them it answered lately, and how many it did not."""
    found: dict[str, tuple[int, int]] = {}
    for document in workers.values():
        for cluster_id in document.answering:
            answered, silent = found.get(cluster_id, (0, 0))
            found[cluster_id] = (answered + 1, silent)
        for cluster_id in document.silent:
            answered, silent = found.get(cluster_id, (0, 0))
            found[cluster_id] = (answered, silent + 1)
    return found
