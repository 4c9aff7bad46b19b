"""The graph of streams as nodes and edges, in the order in which charts name them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from kafkakit.streams.model.route import Lane, Route, Segment, SegmentState
from kafkakit.streams.pathways.api import SeenEdges
from kafkakit.streams.routes.decide.observed import RouteFacts

Observed: TypeAlias = Sequence[tuple[Route, RouteFacts]]


class NodeKind(StrEnum):
    """What a node stands for; a service is one that begins a pathway."""

    STREAM = "stream"
    TOPIC = "topic"
    GROUP = "group"
    SERVICE = "service"


class EdgeKind(StrEnum):
    """What an edge says: a lane's records go there now, or do not; a group reads a topic; records prove the way."""

    WRITTEN = "written"
    KEPT = "kept"
    READ = "read"
    PROVED = "proved"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """A node; `id` is of letters and digits, unique in its graph."""

    id: str
    kind: NodeKind
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphEdge:
    """An edge between two nodes by their ids; `name` is a lane or a service, empty for a group that reads."""

    start: str
    end: str
    kind: EdgeKind
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamGraph:
    """`clusters` are names with the topics that lie there; `items` are all other nodes, and the edges."""

    clusters: tuple[tuple[str, tuple[GraphNode, ...]], ...]
    items: tuple[GraphNode | GraphEdge, ...]

    @property
    def edges(self) -> tuple[GraphEdge, ...]:
        """The edges, in order."""
        return tuple(each for each in self.items if isinstance(each, GraphEdge))

    def nodes(self, kind: NodeKind) -> tuple[GraphNode, ...]:
        """The nodes of a kind that lie in no cluster, in order."""
        return tuple(each for each in self.items if isinstance(each, GraphNode) and each.kind is kind)


def stream_graph(observed: Observed, seen: SeenEdges | None = None) -> StreamGraph:
    """The graph of routes and what was found behind them; `seen` are edges between streams that records prove."""
    places = sorted({(segment.cluster_id, segment.cluster) for route, _ in observed for _, segment in route.segments()})
    clusters = tuple(
        (
            name,
            tuple(
                GraphNode(id=_topic_id(number, segment), kind=NodeKind.TOPIC, name=segment.topic)
                for number, (route, _) in enumerate(observed, 1)
                for _, segment in route.segments()
                if (segment.cluster_id, segment.cluster) == (cluster_id, name)
            ),
        )
        for cluster_id, name in places
    )
    return StreamGraph(clusters=clusters, items=tuple(_items(observed, seen)))


def _items(observed: Observed, seen: SeenEdges | None) -> Iterator[GraphNode | GraphEdge]:
    groups: dict[str, str] = {}
    for number, (route, facts) in enumerate(observed, 1):
        yield GraphNode(id=f"r{number}", kind=NodeKind.STREAM, name=route.stream)
        for lane, segment in route.segments():
            kind = EdgeKind.WRITTEN if _is_written(lane, segment) else EdgeKind.KEPT
            yield GraphEdge(start=f"r{number}", end=_topic_id(number, segment), kind=kind, name=lane.name)
        for reader in facts.readers:
            if reader.group not in groups:
                groups[reader.group] = f"g{len(groups) + 1}"
                yield GraphNode(id=groups[reader.group], kind=NodeKind.GROUP, name=reader.group)
            yield GraphEdge(start=f"t{number}s{reader.segment}", end=groups[reader.group], kind=EdgeKind.READ)
    streams = {route.stream: f"r{number}" for number, (route, _) in enumerate(observed, 1)}
    for number, edge in enumerate(() if seen is None else seen.edges, 1):
        start = groups[edge.group] if edge.source else f"w{number}"
        if not edge.source:
            yield GraphNode(id=start, kind=NodeKind.SERVICE, name=edge.service)
        yield GraphEdge(start=start, end=streams[edge.target], kind=EdgeKind.PROVED, name=edge.service)


def _topic_id(number: int, segment: Segment) -> str:
    return f"t{number}s{segment.id}"


def _is_written(lane: Lane, segment: Segment) -> bool:
    return segment.state is SegmentState.ACTIVE and not lane.is_paused
