"""What a defect of a made fleet is, where one is placed, and what audits are expected to say of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from typing import NamedTuple

from kafkakit.core.errors import UsageError
from kafkakit.core.quantities import counted
from kafkakit.fleet.decide.synth_cluster import LOG_DIRS, ClusterModel
from kafkakit.fleet.decide.synth_edit import TableEdit
from kafkakit.fleet.decide.synth_load import GROUPS_OF_CLUSTER, MIRRORED_TOPICS
from kafkakit.fleet.decide.synth_shape import ClusterShape

TRUTH_KIND = {"kind": "fleet-truth", "schema": 1}


class Scope(StrEnum):
    """What a defect takes for itself, so that no two meet: one of these of a cluster."""

    CLUSTER = "cluster"
    MIRRORED = "mirrored topic"
    GROUP = "group"
    SEGMENTS = "topic with segments"
    HOT = "topic with several partitions"
    DECLARED = "declared topic"
    TOPIC = "topic"
    BROKER = "broker"


class Expected(NamedTuple):
    """A finding that is expected of a job: its rule, and its place without the ending that names the cluster.

    In the place are to be filled in `{topic}`, `{broker}`, and of the topic's first partition `{leader}` and the
    `{folder}` of its log there. An empty place is the cluster itself.
    """

    job: str
    rule: str
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """One kind of defect.

    `edit(tables, subject)` makes it: subject is the number of a topic (of a group, its topic), or a broker's id, or 0.
    """

    name: str
    scope: Scope
    expected: tuple[Expected, ...]
    edit: Callable[[TableEdit, int], None]
    is_lasting: bool = False
    """True for what is wrong on earlier dates too."""
    least_brokers: int = 3
    least_partitions: int = 1
    """Of a topic."""
    least_led: int = 1
    """Partitions that a broker leads."""
    least_clusters: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedDefect:
    """A defect of a cluster and its subject."""

    defect: Defect
    cluster: int
    subject: int


def placed(
    defects: Mapping[str, Defect], wanted: Mapping[str, int], shapes: Sequence[ClusterShape], share: float = 1.0
) -> tuple[PlacedDefect, ...]:
    """Give each defect a subject of its own, clusters in turn; `UsageError` for too many.

    `share` is the part of the topics that there are rows of segments of.
    """
    found = []
    for defect, spot in _spots(defects, wanted, shapes, share):
        if spot is None:
            raise UsageError(
                f"the fleet has no place for {counted(wanted[defect.name], 'defect')} {defect.name}: "
                f"each needs a {defect.scope.value} of its own",
                hint="make a larger tier, or ask for fewer defects",
            )
        found.append(PlacedDefect(defect=defect, cluster=spot[0], subject=spot[1]))
    return tuple(found)


def one_of_each(defects: Mapping[str, Defect], shapes: Sequence[ClusterShape], share: float = 1.0) -> Mapping[str, int]:
    """A count of one for each defect that the clusters have a place for."""
    spots = _spots(defects, dict.fromkeys(defects, 1), shapes, share)
    return {defect.name: 1 for defect, spot in spots if spot is not None}


def _spots(
    defects: Mapping[str, Defect], wanted: Mapping[str, int], shapes: Sequence[ClusterShape], share: float
) -> Iterator[tuple[Defect, tuple[int, int] | None]]:
    """Each defect that is wanted with its cluster and subject; those first that fewest subjects will do for."""
    spots = _Spots(shapes, share)
    for defect in sorted(defects.values(), key=lambda d: (list(Scope).index(d.scope), -d.least_brokers, d.name)):
        for _ in range(wanted.get(defect.name, 0)):
            yield defect, spots.take(defect)


class _Spots:
    """Which topics and brokers of each cluster are still healthy; the first brokers stay so."""

    def __init__(self, shapes: Sequence[ClusterShape], share: float) -> None:
        self._shapes, self._share = shapes, share
        self._topic = [0] * len(shapes)
        self._broker = [s.brokers for s in shapes]
        self._whole: set[tuple[int, str]] = set()
        self._turn = count()

    def take(self, defect: Defect) -> tuple[int, int] | None:
        start = next(self._turn)
        for step in range(len(self._shapes)):
            cluster = (start + step) % len(self._shapes)
            subject = self._subject(defect, cluster)
            if subject is not None:
                return cluster, subject
        return None

    def _subject(self, defect: Defect, cluster: int) -> int | None:
        shape = self._shapes[cluster]
        if shape.brokers < defect.least_brokers or len(self._shapes) < defect.least_clusters:
            return None
        if shape.partitions < max(defect.least_partitions * shape.topics, defect.least_led * shape.brokers):
            return None
        if defect.scope is Scope.CLUSTER:
            if (cluster, defect.name) in self._whole or self._is_mirrored(cluster):
                return None
            self._whole.add((cluster, defect.name))
            return 0
        if defect.scope is Scope.BROKER:
            # Half of the brokers at most, so that the others still tell what is usual.
            if self._broker[cluster] <= max(1, shape.brokers // 2):
                return None
            self._broker[cluster] -= 1
            return self._broker[cluster] + 1
        return self._topic_of(defect.scope, cluster)

    def _topic_of(self, scope: Scope, cluster: int) -> int | None:
        shape = self._shapes[cluster]
        scanned = int(shape.topics * min(1.0, self._share))
        limits = {Scope.MIRRORED: MIRRORED_TOPICS, Scope.GROUP: GROUPS_OF_CLUSTER, Scope.SEGMENTS: scanned}
        if scope is Scope.MIRRORED and shape.mirror_of is None:
            return None
        if scope is Scope.DECLARED and not shape.is_declared:
            return None
        if scope in (Scope.DECLARED, Scope.TOPIC) and self._is_mirrored(cluster):
            return None
        if self._topic[cluster] >= min(limits.get(scope, shape.topics), shape.topics):
            return None
        self._topic[cluster] += 1
        return self._topic[cluster] - 1

    def _is_mirrored(self, cluster: int) -> bool:
        """True for both sides of a pair, whose topics must stay alike."""
        names = {s.mirror_of for s in self._shapes}
        return self._shapes[cluster].name in names or self._shapes[cluster].mirror_of is not None


def cluster_truth(model: ClusterModel, found: Sequence[PlacedDefect]) -> list[dict[str, object]]:
    """The rows of `truth.json` for the defects of one cluster."""
    rows: list[dict[str, object]] = []
    for one in found:
        is_topic = one.defect.scope not in (Scope.CLUSTER, Scope.BROKER)
        topic = model.names[one.subject] if is_topic else ""
        first = int(model.first[one.subject]) if is_topic else 0
        leader, folder = int(model.replicas[first, 0]), LOG_DIRS[model.dirs[first, 0]]
        rows += expected_rows(
            one.defect.name, one.defect.expected, model.shape.name,
            topic=topic, broker=one.subject, leader=leader, folder=folder,
        )  # fmt: skip
    return rows


def expected_rows(name: str, expected: Sequence[Expected], cluster: str, **words: object) -> list[dict[str, object]]:
    """The rows of `truth.json` for one defect."""
    rows: list[dict[str, object]] = []
    for job, rule, place in expected:
        where = f"{place.format(**words)} of {cluster}" if place else f"cluster {cluster}"
        rows.append({"defect": name, "job": job, "rule": rule, "cluster": cluster, "where": where})
    return rows


def truth_document(rows: Sequence[Mapping[str, object]], dates: Sequence[str], seed: int) -> dict[str, object]:
    """The document `truth.json`; each row has defect, job, rule, cluster and where."""
    return {"kafkakit": TRUTH_KIND, "seed": seed, "dates": list(dates), "defects": list(rows)}
