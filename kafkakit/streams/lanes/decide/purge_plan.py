"""What a purge deletes: logs are cut at an offset, so only what matches from the first record on."""

from collections.abc import Iterable
from dataclasses import dataclass

from kafkakit.core.cluster_facts import ItemError
from kafkakit.core.model import TopicPartition
from kafkakit.streams.lanes.decide.dead_letters import DeadLetter


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCut:
    """`records` of a partition of the DLQ lane go, all below `offset`; `behind` more match and stay, since others
    that do not match lie before them."""

    cluster_id: str
    place: TopicPartition
    offset: int
    records: int
    behind: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgePlan:
    """Cuts of the DLQ lane, and the keys of references to remove, by cluster."""

    cuts: tuple[PartitionCut, ...]
    references: dict[str, tuple[bytes, ...]]

    @property
    def is_empty(self) -> bool:
        """Whether nothing would be deleted."""
        return not self.references and not any(cut.records for cut in self.cuts)


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeOutcome:
    """What a purge did; `errors` are of partitions that were not cut."""

    plan: PurgePlan
    errors: dict[str, ItemError]


def plan_purge(letters: Iterable[tuple[DeadLetter, bool]]) -> PurgePlan:
    """The plan for all rejected records, each with whether it matches; records of a partition in order."""
    open_cuts: dict[tuple[str, TopicPartition], PartitionCut] = {}
    closed: set[tuple[str, TopicPartition]] = set()
    references: dict[str, list[bytes]] = {}
    for letter, matches in letters:
        if letter.entry is not None:
            if matches:
                references.setdefault(letter.cluster_id, []).append(letter.entry.key)
            continue
        key = (letter.cluster_id, letter.place)
        cut = open_cuts.get(key) or PartitionCut(
            cluster_id=letter.cluster_id, place=letter.place, offset=letter.offset, records=0, behind=0
        )
        goes = matches and key not in closed
        if not goes:
            closed.add(key)
        open_cuts[key] = PartitionCut(
            cluster_id=cut.cluster_id,
            place=cut.place,
            offset=letter.offset + 1 if goes else cut.offset,
            records=cut.records + goes,
            behind=cut.behind + (matches and not goes),
        )
    return PurgePlan(
        cuts=tuple(open_cuts[key] for key in sorted(open_cuts)),
        references={cluster: tuple(sorted(keys)) for cluster, keys in sorted(references.items())},
    )
