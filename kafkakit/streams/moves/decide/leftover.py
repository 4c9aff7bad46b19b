"""What is left of a series when a process ends: moves that are not done, and topics that a cluster still carries."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kafkakit.streams.failover.api import EndKind
from kafkakit.streams.model.route import Route
from kafkakit.streams.moves.decide.journal import SeriesRecord

NOT_BEGUN = "not begun"
NOT_PLANNED = "not part of the plan: the same command plans it once the rest is done, or with --replan"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOver:
    """A stream that is not where it should be: its topics on the cluster that is emptied, and why."""

    stream: str
    topics: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesEnd:
    """A series as a process leaves it."""

    record: SeriesRecord
    left: tuple[LeftOver, ...]

    @property
    def kind(self) -> EndKind:
        """The worst of what is left: a late writer, a refusal, something to wait for."""
        kinds = {end.kind for end in self.record.ends.values()}
        for kind in (EndKind.LATE, EndKind.REFUSED):
            if kind in kinds:
                return kind
        return EndKind.WAITING if self.left else EndKind.DONE


def left_over(record: SeriesRecord, routes: Sequence[Route]) -> Iterator[LeftOver]:
    """By stream: moves that are not done, and for an evacuation every topic of a route on the cluster."""
    series = record.series
    planned = {move.stream for move in series.moves}
    for route in sorted(routes, key=lambda each: each.stream):
        topics = tuple(s.topic for _, s in route.segments() if series.cluster_id and s.cluster_id == series.cluster_id)
        is_open = route.stream in planned and not record.is_done(route.stream)
        if not topics and not is_open:
            continue
        end = record.ends.get(route.stream)
        if is_open:
            why = NOT_BEGUN if end is None else "; ".join((end.reason, *end.lines[:2]))
        elif route.operation is not None:
            why = f"operation {route.operation.id} is open"
        else:
            why = NOT_PLANNED
        yield LeftOver(stream=route.stream, topics=topics, why=why)
