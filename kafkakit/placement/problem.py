"""What a placement planner is asked and answers: plain values without file or client shapes.

Partitions without a live copy in sync are set apart, since nothing can copy them. `BrokerChange` is what a request does
to the set of brokers: who leaves, who is new, who is missing (kafka-kit's summary). The choices are what a rebuild or a
drain evens out.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from kafkakit.core.model import TopicPartition
from kafkakit.core.plan import Proof
from kafkakit.core.text import few_of
from kafkakit.placement.group_rooms import Grouping
from kafkakit.placement.group_rule import SpreadRule


class Minimize(StrEnum):
    """What a plan spends: copies of replicas, or the bytes in them."""

    MOVES = "moves"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """A partition to place: `current` in preference order, `wanted` replicas, size of one copy in bytes.

    `in_sync` are the brokers known to hold a full copy; None when unknown.
    """

    key: TopicPartition
    current: tuple[int, ...]
    wanted: int
    size_bytes: int | None = None
    in_sync: frozenset[int] | None = None


def words_of_closed(closed: Mapping[int, str]) -> str:
    """The brokers that take no copies, each with the reason, to stand behind a sentence; empty without any."""
    why: dict[str, list[int]] = {}
    for broker, reason in sorted(closed.items()):
        why.setdefault(reason, []).append(broker)
    parts = [f"{'broker' if len(ids) == 1 else 'brokers'} {few_of(ids)} ({reason})" for reason, ids in why.items()]
    return f"; no copies may go to {', '.join(parts)}" if parts else ""


@dataclass(frozen=True, slots=True)
class PlacementProblem:
    """Partitions sorted by key, usable target brokers sorted by id, and the rack of every known broker.

    `standing` counts replicas of other partitions by broker, where these are to come out even with the rest. Targets
    that are `closed`, each with the reason, keep their copies and take none.
    """

    partitions: tuple[PlannedPartition, ...]
    targets: tuple[int, ...]
    racks: Mapping[int, str | None]
    rule: SpreadRule
    minimize: Minimize = Minimize.MOVES
    standing: Mapping[int, int] = field(default_factory=dict)
    closed: Mapping[int, str] = field(default_factory=dict)

    @property
    def closed_words(self) -> str:
        """The closed targets with the reasons, to stand behind a sentence; empty without any."""
        return words_of_closed(self.closed)

    def closed_by_index(self) -> dict[int, frozenset[int]]:
        """The targets that a partition, by its index, must not use: closed ones without a copy, and full ones."""
        found = self.rule.closed.by_index([p.key for p in self.partitions])
        shut, none = frozenset(self.closed), frozenset[int]()
        if shut:
            for i, p in enumerate(self.partitions):
                if gone := shut.difference(p.current):
                    found[i] = found.get(i, none) | gone
        return found

    @property
    def taking(self) -> tuple[int, ...]:
        """The targets that take new copies."""
        return tuple(b for b in self.targets if b not in self.closed)

    def rack_of(self, broker: int) -> str | None:
        """The broker's rack; None for rackless and unknown brokers."""
        return self.racks.get(broker) or None

    @property
    def grouping(self) -> Grouping:
        """The rule on these racks, the targets that are not closed taking copies."""
        keys = [p.key for p in self.partitions]
        return Grouping.of(self.rule, self.racks, self.taking, [key.topic for key in keys], keys)

    @property
    def grouping_anew(self) -> Grouping:
        """The rule where every copy may be placed again: on a closed target only what has a copy there."""
        if not self.closed:
            return self.grouping
        found = Grouping.of(self.rule, self.racks, self.targets, [p.key.topic for p in self.partitions])
        return replace(found, closed=self.closed_by_index())

    def staying(self) -> list[tuple[int, ...]]:
        """Of each partition the replicas that may stay: those on targets that its tags leave to it."""
        tags, targets = self.rule.tags, frozenset(self.targets)
        return [
            tuple(b for b in p.current if b in targets and (tags is None or tags.may_hold(p.key.topic, b)))
            for p in self.partitions
        ]


@dataclass(frozen=True, slots=True)
class Placement:
    """Replica lists in the order of the problem's partitions.

    `unplaced[i]` is how many wanted replicas of partition i found no broker. `bound` is a proven lower
    bound on the new copies (or their bytes), `argument` says why and `proof` lets a program check it. `notes`
    are for the operator.
    """

    replicas: tuple[tuple[int, ...], ...]
    unplaced: tuple[int, ...]
    bound: int
    argument: str
    notes: tuple[str, ...] = ()
    proof: Proof | None = None


Partitions = tuple[PlannedPartition, ...]


def set_stranded_apart(partitions: Partitions, live: frozenset[int]) -> tuple[Partitions, Partitions]:
    """Split into (movable, stranded); stranded ones have replicas, and none of those in sync is on a live broker.

    Where the in-sync set is unknown, any live replica counts. A move of a stranded partition would wait for ever
    (Kafka accepts it and has no leader to copy from), and dropping its dead copies would lose the data.
    """
    stranded = tuple(p for p in partitions if p.current and not _sources(p) & live)
    if not stranded:
        return partitions, ()
    apart = {p.key for p in stranded}
    return tuple(p for p in partitions if p.key not in apart), stranded


def _sources(partition: PlannedPartition) -> frozenset[int]:
    return frozenset(partition.current) if partition.in_sync is None else partition.in_sync


def stranded_warning(partition: PlannedPartition) -> str:
    """The overridable warning about one of them."""
    sources = ", ".join(map(str, sorted(_sources(partition)))) or "none"
    key = partition.key
    return f"{key.topic} p{key.partition}: no live copy in sync (brokers {sources}), left where it is"


def with_stranded(placement: Placement, placed: Sequence[PlannedPartition], every: Partitions) -> Placement:
    """Put the stranded partitions back into a placement of the others, unchanged; `every` gives the order."""
    if len(placed) == len(every):
        return placement
    lists = {p.key: replicas for p, replicas in zip(placed, placement.replicas, strict=True)}
    missing = {p.key: n for p, n in zip(placed, placement.unplaced, strict=True)}
    return replace(
        placement,
        replicas=tuple(lists.get(p.key, p.current) for p in every),
        unplaced=tuple(missing.get(p.key, 0) for p in every),
    )


@dataclass(frozen=True, slots=True)
class BrokerChange:
    """Broker ids by kind, each sorted; a broker can be both `old_missing` and `replace`.

    `missing` are listed but not live, `old_missing` hold replicas, are not listed and not live, `replace`
    hold replicas and are not listed, `new` are listed and hold none, `rack_missing` are live without a rack.
    `previous_missing` are those of the missing that hold replicas. `targets` are listed and live.
    """

    targets: tuple[int, ...]
    replace: tuple[int, ...]
    new: tuple[int, ...]
    missing: tuple[int, ...]
    old_missing: tuple[int, ...]
    previous_missing: tuple[int, ...]
    rack_missing: tuple[int, ...]

    @property
    def count_change(self) -> int:
        """How many brokers more (or fewer) carry the partitions."""
        return len(self.new) - len(self.replace)

    def messages(self) -> list[str]:
        """The lines of "Broker change summary", grouped as kafka-kit groups them, each group by id."""
        return [
            *(f"Previous broker {b} missing" for b in self.previous_missing),
            *(f"Broker {b} marked for removal" for b in self.replace),
            *(f"Broker {b} is not in the cluster" for b in self.missing if b not in self.previous_missing),
            *(f"New broker {b}" for b in self.new),
            *(f"Broker {b} does not have a rack.id defined" for b in self.rack_missing),
        ]

    def summary(self) -> str:
        """The closing line of the summary."""
        return (
            f"Replacing {len(self.replace)}, added {len(self.new)}, "
            f"missing {len(self.missing) + len(self.old_missing)}, total count changed by {self.count_change}"
        )

    def actions(self, *, force_rebuild: bool, replication: int, optimize_leadership: bool) -> list[str]:
        """The lines under "Action:"; empty means no-op."""
        change, replaced = self.count_change, len(self.replace)
        lines = []
        if change >= 0 and replaced:
            lines.append(f"Rebuild topic with {replaced} broker(s) marked for replacement")
        if change > 0 and not replaced:
            lines.append(
                f"Expanding/rebalancing topic with {len(self.new)} additional broker(s) "
                "(this is a no-op unless --force-rebuild is specified)"
            )
        if change < 0:
            lines.append(f"Shrinking topic by {-change} broker(s)")
        if force_rebuild:
            lines.append("Force rebuilding map")
        if replication:
            lines.append(f"Setting replication factor to {replication}")
        if optimize_leadership:
            lines.append("Optimizing leader/follower ratios")
        return lines

    def warnings(self) -> list[str]:
        """The overridable warnings this change raises."""
        lines = []
        if self.missing:
            lines.append(f"{len(self.missing)} provided brokers are not in the cluster")
        if self.rack_missing:
            lines.append(f"{len(self.rack_missing)} provided broker(s) do(es) not have a rack.id defined")
        return lines


def classify_unseen(holding: Iterable[int], listed: Iterable[int]) -> BrokerChange:
    """Compare without knowing the cluster's brokers: all are taken as live, and none as lacking a rack."""
    held, wanted = set(holding), set(listed)
    return BrokerChange(
        targets=tuple(sorted(wanted)),
        replace=tuple(sorted(held - wanted)),
        new=tuple(sorted(wanted - held)),
        missing=(),
        old_missing=(),
        previous_missing=(),
        rack_missing=(),
    )


def classify(holding: Iterable[int], listed: Iterable[int], live: Mapping[int, str | None]) -> BrokerChange:
    """Compare the brokers that hold replicas with the listed ones; `live` maps each live broker to its rack."""
    held, wanted = set(holding), set(listed)
    present = {b for b in held | wanted if b in live}
    return BrokerChange(
        targets=tuple(sorted(wanted & present)),
        replace=tuple(sorted(held - wanted)),
        new=tuple(sorted((wanted - held) & present)),
        missing=tuple(sorted(wanted - present)),
        old_missing=tuple(sorted(held - wanted - present)),
        previous_missing=tuple(sorted(held - present)),
        rack_missing=tuple(sorted(b for b in present if not live[b])),
    )


def rackless_note(receivers: Collection[int], racks: Mapping[int, str | None]) -> tuple[str, ...]:
    """Names the brokers that may take copies and have no rack, if others of the cluster have one."""
    bare = sorted(b for b in receivers if not racks.get(b))
    if not bare or not any(racks.values()):
        return ()
    one = len(bare) == 1
    return (
        f"{'broker' if one else 'brokers'} {few_of(bare)} {'has' if one else 'have'} no rack, others have one: "
        "copies there may share a rack with any other; set broker.rack",
    )


class PlaceBy(StrEnum):
    """What a rebuild evens out: counts of replicas, or free bytes."""

    COUNT = "count"
    STORAGE = "storage"


class OptimizeFor(StrEnum):
    """What placement by bytes looks at: free bytes alone, or then leaders too, among the partitions that change."""

    DISTRIBUTION = "distribution"
    STORAGE = "storage"
