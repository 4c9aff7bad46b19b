"""Partitions that the operator wants left alone."""

from collections.abc import Collection, Sequence

from kafkakit.core.errors import UsageError
from kafkakit.core.topic_selection import select_topics
from kafkakit.placement.problem import PlannedPartition


def pinned_indices(
    partitions: Sequence[PlannedPartition], pinned: Sequence[str], stranded: Collection[PlannedPartition]
) -> list[int]:
    """Indices of partitions named by `topic`, a topic pattern or `topic/partition`, and of stranded ones.

    Raises `UsageError` for a name that fits nothing.
    """
    keys = {(p.key.topic, p.key.partition): i for i, p in enumerate(partitions)}
    chosen = {keys[p.key.topic, p.key.partition] for p in stranded}
    patterns = []
    for word in pinned:
        topic, slash, number = word.rpartition("/")
        if slash and number.isdecimal() and number.isascii():
            found = keys.get((topic, int(number)))
            if found is None:
                raise UsageError(f"--pin: there is no partition {word} among those selected")
            chosen.add(found)
        else:
            patterns.append(word)
    if patterns:
        names = sorted({p.key.topic for p in partitions})
        try:
            topics = frozenset(select_topics(names, tuple(patterns), ()).selected)
        except UsageError as error:
            raise UsageError(f"--pin: {error.message} among those selected", hint=error.hint) from None
        chosen.update(i for i, p in enumerate(partitions) if p.key.topic in topics)
    return sorted(chosen)
