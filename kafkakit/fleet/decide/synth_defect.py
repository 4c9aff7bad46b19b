"""What a defect of a made fleet is, where one is placed, and what audits are expected to say of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count

from kafkakit.core.errors import UsageError
from kafkakit.core.quantities import counted
from kafkakit.fleet.decide.synth_edit import TableEdit
from kafkakit.fleet.decide.synth_load import GROUPS_OF_CLUSTER, MIRRORED_TOPICS
from kafkakit.fleet.decide.synth_shape import ClusterShape

TRUTH_KIND = {"kind": "fleet-truth", "schema": 1}


class Scope(StrEnum):
    """What a defect takes for itself, so that no two meet: one of these of a cluster."""

    CLUSTER = "cluster"
    MIRRORED = "mirrored topic"
    GROUP = "group"
    DECLARED = "declared topic"
    TOPIC = "topic"
    BROKER = "broker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """One kind of defect.

    `edit(tables, subject)` makes it: subject is the number of a topic (of a group, its topic), or a broker's id, or 0.
    `where` are the places that the rule's findings name, with `{topic}`, `{broker}` and `{cluster}` filled in.
    """

    name: str
    scope: Scope
    job: str
    rule: str
    where: tuple[str, ...]
    edit: Callable[[TableEdit, int], None]
    least_brokers: int = 3
    least_clusters: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedDefect:
    """A defect of a cluster and its subject."""

    defect: Defect
    cluster: int
    subject: int


def placed(
    defects: Mapping[str, Defect], wanted: Mapping[str, int], shapes: Sequence[ClusterShape]
) -> tuple[PlacedDefect, ...]:
    """Give each defect a subject of its own, clusters in turn; `UsageError` for too many."""
    found = []
    for defect, spot in _spots(defects, wanted, shapes):
        if spot is None:
            raise UsageError(
                f"the fleet has no place for {counted(wanted[defect.name], 'defect')} {defect.name}: "
                f"each needs a {defect.scope.value} of its own",
                hint="make a larger tier, or ask for fewer defects",
            )
        found.append(PlacedDefect(defect=defect, cluster=spot[0], subject=spot[1]))
    return tuple(found)


def one_of_each(defects: Mapping[str, Defect], shapes: Sequence[ClusterShape]) -> Mapping[str, int]:
    """A count of one for each defect that the clusters have a place for."""
    spots = _spots(defects, dict.fromkeys(defects, 1), shapes)
    return {defect.name: 1 for defect, spot in spots if spot is not None}


def _spots(
    defects: Mapping[str, Defect], wanted: Mapping[str, int], shapes: Sequence[ClusterShape]
) -> Iterator[tuple[Defect, tuple[int, int] | None]]:
    """Each defect that is wanted with its cluster and subject; those first that fewest subjects will do for."""
    spots = _Spots(shapes)
    for defect in sorted(defects.values(), key=lambda d: (list(Scope).index(d.scope), -d.least_brokers, d.name)):
        for _ in range(wanted.get(defect.name, 0)):
            yield defect, spots.take(defect)


class _Spots:
    """Which topics and brokers of each cluster are still healthy; the first brokers stay so."""

    def __init__(self, shapes: Sequence[ClusterShape]) -> None:
        self._shapes = shapes
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
        limit = {Scope.MIRRORED: MIRRORED_TOPICS, Scope.GROUP: GROUPS_OF_CLUSTER}.get(scope, shape.topics)
        if scope is Scope.MIRRORED and shape.mirror_of is None:
            return None
        if scope is Scope.DECLARED and not shape.is_declared:
            return None
        if scope is not Scope.MIRRORED and self._is_mirrored(cluster):
            return None
        if self._topic[cluster] >= min(limit, shape.topics):
            return None
        self._topic[cluster] += 1
        return self._topic[cluster] - 1

    def _is_mirrored(self, cluster: int) -> bool:
        """True for both sides of a pair, whose topics must stay alike."""
        names = {s.mirror_of for s in self._shapes}
        return self._shapes[cluster].name in names or self._shapes[cluster].mirror_of is not None


def truth_data(
    found: Sequence[PlacedDefect],
    names: Mapping[int, tuple[ClusterShape, Sequence[str]]],
    dates: Sequence[str],
    seed: int,
) -> dict[str, object]:
    """What audits are expected to find: of each defect the job and rule that find it, and the places they name."""
    rows = []
    for one in found:
        shape, topics = names[one.cluster]
        topic = topics[one.subject] if one.defect.scope not in (Scope.CLUSTER, Scope.BROKER) else ""
        for where in one.defect.where:
            text = where.format(topic=topic, broker=one.subject, cluster=shape.name, primary=shape.mirror_of)
            rows.append(
                {
                    "defect": one.defect.name,
                    "job": one.defect.job,
                    "rule": one.defect.rule,
                    "cluster": shape.name,
                    "where": f"{text} of {shape.name}" if text else f"cluster {shape.name}",
                }
            )
    return truth_document(rows, dates, seed)


def truth_document(rows: Sequence[Mapping[str, object]], dates: Sequence[str], seed: int) -> dict[str, object]:
    """The document `truth.json`; each row has defect, job, rule, cluster and where."""
    return {"kafkakit": TRUTH_KIND, "seed": seed, "dates": list(dates), "defects": list(rows)}
