"""The maps of a rebuild: one as a rule, two for a phased one, one a chunk for a chunked one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kafkakit.placement.group_rule import GroupRule
from kafkakit.topicmappr.decide.rebuild.chunks import chunk_changes, windows_of

Lists = Sequence[tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One map of a series as what it changes against the map before it: new lists by partition index.

    `brokers` are the window of a chunk; a chunk without changes makes no map.
    """

    changes: Mapping[int, tuple[int, ...]]
    brokers: tuple[int, ...] = ()


def single(before: Lists, after: Lists) -> tuple[Step, ...]:
    """One map for everything."""
    return (Step(changes=_differences(before, after)),)


def phased(before: Lists, balanced: Lists, after: Lists, live: frozenset[int]) -> tuple[Step, ...]:
    """First all new copies with the old leader still in front, then the final lists.

    Where the old leader would be lost and is alive, the first map keeps it at the front: one replica more for the
    time being. `balanced` are the new lists before leaders are evacuated, which is left to the second map.
    """
    first = [
        (old[0], *new) if old and new and old[0] not in new and old[0] in live else new
        for old, new in zip(before, balanced, strict=True)
    ]
    return Step(changes=_differences(before, first)), Step(changes=_differences(first, after))


def chunked(
    before: Lists, after: Lists, brokers: frozenset[int], step: int, racks: Mapping[int, str | None], rule: GroupRule
) -> tuple[Step, ...]:
    """One map for each window of `step` brokers, highest ids first; see `chunks.py`."""
    windows = windows_of(brokers, step)
    changes = chunk_changes(before, after, windows, racks, rule)
    return tuple(Step(changes=c, brokers=w) for c, w in zip(changes, windows, strict=True))


def walk(before: Lists, steps: Sequence[Step]) -> Iterator[tuple[Step, list[tuple[int, ...]]]]:
    """Each step that makes a map, with every partition's list after it; the list is reused for the next step."""
    now = list(before)
    for step in steps:
        for i, replicas in step.changes.items():
            now[i] = replicas
        if step.changes or not step.brokers:
            yield step, now


def _differences(before: Lists, after: Lists) -> dict[int, tuple[int, ...]]:
    return {i: new for i, (old, new) in enumerate(zip(before, after, strict=True)) if old != new}
