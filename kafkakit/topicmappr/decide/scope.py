"""Which topics a request is about, their partitions in a snapshot, and those that are pinned."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import itemgetter

from kafkakit.core.errors import InputError, TryLaterError, UsageError
from kafkakit.core.model import ClusterSnapshot, Partition, PartitionMap, TopicPartition
from kafkakit.core.topic_selection import TopicSelection, select_topics
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicScope:
    """The topics that a request names, by patterns or by a partition `map`.

    `replication` is the factor wanted, 0 leaves it as it is. With `sized` every partition must have a known size.
    """

    topics: tuple[str, ...] = ()
    topics_exclude: tuple[str, ...] = ()
    map: PartitionMap | None = None
    replication: int = 0
    sized: bool = False

    def __post_init__(self) -> None:
        if self.map is None and not self.topics:
            raise UsageError("must specify either --topics or --map-string")


@dataclass(frozen=True, slots=True)
class Scope:
    """Partitions sorted by key with the topic ids they belong to, and the topics chosen and excluded."""

    partitions: tuple[PlannedPartition, ...]
    topic_ids: dict[str, str | None]
    selection: TopicSelection


def scope_of(snapshot: ClusterSnapshot, requested: TopicScope) -> Scope:
    """Select the partitions that are asked for, with the replicas wanted of each.

    Raises `TryLaterError` when a selected partition is being reassigned, `UsageError` when nothing is left
    or when a size that is needed is unknown. O(partitions).
    """
    if requested.map is not None:
        known = {p.topic for p in requested.map.partitions}
        selection = select_topics(known, sorted(known), requested.topics_exclude) if known else None
    else:
        names = [t.name for t in snapshot.topics]
        selection = select_topics(names, requested.topics, requested.topics_exclude)
    if selection is None or not selection.selected:
        raise UsageError("no partitions left to place", hint="check --topics, --topics-exclude and --map-string")
    chosen = frozenset(selection.selected)
    listed = [
        (TopicPartition(topic.name, p.partition), p)
        for topic in snapshot.topics
        if topic.name in chosen
        for p in topic.partitions
    ]
    _refuse_moving(snapshot, listed)
    if requested.map is None:
        listed.sort(key=itemgetter(0))
        partitions = tuple(_planned(key, p.replicas, p, requested.replication) for key, p in listed)
    else:
        facts = dict(listed)
        lists = sorted(
            (TopicPartition(e.topic, e.partition), e.replicas) for e in requested.map.partitions if e.topic in chosen
        )
        partitions = tuple(_planned(key, replicas, facts.get(key), requested.replication) for key, replicas in lists)
    if requested.sized:
        _refuse_unknown_sizes(partitions)
    ids = {t.name: t.topic_id for t in snapshot.topics if t.name in chosen}
    return Scope(partitions, ids, selection)


def _planned(
    key: TopicPartition, replicas: tuple[int, ...], fact: Partition | None, replication: int
) -> PlannedPartition:
    if len(set(replicas)) != len(replicas):
        raise InputError(str(key), f"names a broker twice: {list(replicas)}")
    return PlannedPartition(
        key=key,
        current=replicas,
        wanted=replication or len(replicas),
        size_bytes=fact.known_bytes if fact else None,
        in_sync=frozenset(fact.isr) if fact and fact.isr is not None else None,
    )


def _refuse_moving(snapshot: ClusterSnapshot, listed: Sequence[tuple[TopicPartition, Partition]]) -> None:
    running = {TopicPartition(r.topic, r.partition) for r in snapshot.reassignments}
    moving = sorted(key for key, p in listed if key in running or p.adding or p.removing)
    if moving:
        more = f" and {len(moving) - 3} more" if len(moving) > 3 else ""
        raise TryLaterError(
            f"{', '.join(map(str, moving[:3]))}{more} are being reassigned, so their replica lists are transitional",
            hint="wait for them (kafkakit reassign status --watch) and plan again, or exclude these topics",
        )


def _refuse_unknown_sizes(partitions: tuple[PlannedPartition, ...]) -> None:
    unknown = [str(p.key) for p in partitions if p.size_bytes is None]
    if unknown:
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        raise UsageError(
            f"--minimize bytes needs every size, and {', '.join(unknown[:3])}{more} have none",
            hint="take a snapshot with sizes, or use --minimize moves",
        )
