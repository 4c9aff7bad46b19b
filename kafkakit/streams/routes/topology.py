"""The graph of streams: which topics of which clusters carry their lanes, and which groups read them.

Nodes and edges stand in the order in which charts name them. The graph is shown as text, rows and lines of Mermaid, or
as a self-contained page with the table and the picture, where Graphviz draws one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from kafkakit.core.quantities import count_of
from kafkakit.core.text import sanitize
from kafkakit.report.pages import PageTable, checked_drawing, html_page
from kafkakit.report.report import Part, RawDocument, Report, ResultTable, Section, attributes, records, text_of
from kafkakit.streams.model.route import Lane, Route, Segment, SegmentState
from kafkakit.streams.routes.decide import RouteFacts
from kafkakit.streams.routes.pathways import SeenEdges

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


EDGE_COLUMNS = ("source", "group", "service", "target", "records")
COLUMNS = ("stream", "lane", "cluster", "topic", "state", "problem", "group", "members", "unread")
_SHAPES = {
    NodeKind.STREAM: ("([", "])"),
    NodeKind.TOPIC: ("[", "]"),
    NodeKind.GROUP: ("[/", "/]"),
    NodeKind.SERVICE: ("((", "))"),
}
_ARROWS = {EdgeKind.WRITTEN: "-->", EdgeKind.KEPT: "-.->", EdgeKind.READ: "-->", EdgeKind.PROVED: "==>"}


def topology_report(
    observed: Observed, seen: SeenEdges | None = None, problems: Sequence[str] = (), *, as_mermaid: bool
) -> Report:
    """A line for each segment and group that reads it, or a Mermaid flow chart of the same.

    `seen` are edges between streams that records prove, `problems` the topics whose records could not be read.
    """
    rows = topology_rows(observed)
    chart = RawDocument(text_of(mermaid_lines(stream_graph(observed, seen))))
    edges = Section("Pathways:", () if seen is None else _pathway_sections(seen))
    return Report(
        command="streams topology",
        data={
            "edges": records(COLUMNS, rows),
            "pathways": None if seen is None else [attributes(edge, *EDGE_COLUMNS) for edge in seen.edges],
            "unexplained_records": None if seen is None else dict(seen.unexplained),
        },
        sections=(chart,) if as_mermaid else (ResultTable(COLUMNS, rows, empty="no streams"), edges),
        table=ResultTable(COLUMNS, rows),
        warnings=tuple(
            f"stream {route.stream}: the groups are not known: {why}"
            for route, facts in observed
            for why in facts.unknown
        )
        + tuple(problems),
    )


def mermaid_lines(graph: StreamGraph) -> Iterator[str]:
    """The chart: clusters as boxes around topics, solid arrows where records are written, dotted ones elsewhere.

    Thick arrows are edges that records prove.
    """
    yield "flowchart LR"
    for number, (name, topics) in enumerate(graph.clusters, 1):
        yield f'  subgraph k{number}["{_text(name)}"]'
        for topic in topics:
            yield f"    {_shape(topic)}"
        yield "  end"
    # A service is named where it begins.
    services = {node.id: _shape(node) for node in graph.nodes(NodeKind.SERVICE)}
    for item in graph.items:
        if isinstance(item, GraphEdge):
            label = f'|"{_text(item.name)}"|' if item.name else ""
            yield f"  {services.get(item.start, item.start)} {_ARROWS[item.kind]}{label} {item.end}"
        elif item.kind is not NodeKind.SERVICE:
            yield f"  {_shape(item)}"


def _shape(node: GraphNode) -> str:
    opening, closing = _SHAPES[node.kind]
    return f'{node.id}{opening}"{_text(node.name)}"{closing}'


def _pathway_sections(seen: SeenEdges) -> Iterator[Part]:
    rows = [(e.source or "(begins)", e.group, e.service, e.target, e.records) for e in seen.edges]
    yield ResultTable(EDGE_COLUMNS, rows, empty="no edge is proved")
    for stream, unnamed in seen.unexplained.items():
        if unnamed:
            yield f"{sanitize(stream)}: {count_of(unnamed, 'record')} with a pathway of services that are not named"


def topology_rows(observed: Observed) -> tuple[tuple[object, ...], ...]:
    """The rows of the table, as `COLUMNS` names them."""
    return tuple(row for route, facts in observed for row in _rows(route, facts))


def _rows(route: Route, facts: RouteFacts) -> Iterator[tuple[object, ...]]:
    for lane, segment in route.segments():
        state = f"{segment.state}, paused" if lane.is_paused else segment.state
        start = (route.stream, lane.name, segment.cluster, segment.topic, state, facts.segments[segment.id].problem)
        readers = facts.readers_of(segment)
        for reader in readers:
            yield (*start, reader.group, reader.members, reader.unread)
        if not readers:
            yield (*start, None, None, None)


def _text(name: str) -> str:
    """A label: quotes, ampersands and angle brackets mean something to Mermaid, and `#` begins an entity there."""
    return "".join(f"#{ord(char)};" if char in '"&<>#;`' else char for char in sanitize(name))


MOST_CHARS = 44
MOST_CHART = 200_000
_DRAWN_AS = {
    NodeKind.STREAM: "shape=box style=rounded",
    NodeKind.TOPIC: "shape=box",
    NodeKind.GROUP: "shape=component",
    NodeKind.SERVICE: "shape=ellipse",
}
_WORDS = {
    EdgeKind.WRITTEN: "strong: records of the lane go to this topic",
    EdgeKind.KEPT: "dashed: a topic of the lane that takes no records now",
    EdgeKind.READ: "grey: the group reads this topic",
    EdgeKind.PROVED: "thick: records prove that the service writes the stream",
}


def topology_page(observed: Observed, seen: SeenEdges | None = None, drawing: str = "") -> bytes:
    """The page as UTF-8; the same routes, findings and drawing give the same bytes.

    `drawing` is the SVG that `dot` made of `picture_source`; without one the page shows the lines of Mermaid.
    """
    graph = stream_graph(observed, seen)
    kinds = [kind for kind in EdgeKind if any(edge.kind is kind for edge in graph.edges)]
    rows = [["-" if value in (None, "") else value for value in row] for row in topology_rows(observed)]
    return html_page(
        "topology.html",
        title=_result(observed, graph),
        drawing=checked_drawing(drawing) if drawing else None,
        chart=text_of(mermaid_lines(graph)),
        most_chart=MOST_CHART,
        meanings="; ".join(_WORDS[kind] for kind in kinds),
        topics=PageTable(
            caption="Topics and the groups that read them", columns=[(name, False) for name in COLUMNS], rows=rows
        ),
    )


def _result(observed: Observed, graph: StreamGraph) -> str:
    """How large the graph is and what stands still, in a sentence."""
    paused = sum(lane.is_paused for route, _ in observed for lane in route.lanes)
    still = f"; {count_of(paused, 'lane is', 'lanes are')} paused" if paused else ""
    return f"{count_of(len(observed), 'stream')} on {count_of(len(graph.clusters), 'cluster')}{still}"


def picture_source(observed: Observed, seen: SeenEdges | None = None) -> str:
    """The graph in the language of Graphviz: clusters as boxes around topics; classes say what an edge is."""
    return text_of(_dot_lines(stream_graph(observed, seen)))


def _dot_lines(graph: StreamGraph) -> Iterator[str]:
    yield "digraph streams {"
    # The limits halve the time that large graphs take.
    yield '  graph [rankdir=LR fontname="Helvetica" fontsize=11 nslimit=1 nslimit1=1 mclimit=0.1]'
    yield '  node [fontname="Helvetica" fontsize=11 height=0.35]'
    yield '  edge [fontname="Helvetica" fontsize=11 arrowsize=0.7]'
    for number, (name, topics) in enumerate(graph.clusters, 1):
        yield f"  subgraph cluster_{number} {{ label={_quote_name(name)}"
        for topic in topics:
            yield f"    {_dot_node(topic)}"
        yield "  }"
    for item in graph.items:
        if isinstance(item, GraphNode):
            yield f"  {_dot_node(item)}"
    for edge in graph.edges:
        yield f'  {edge.start} -> {edge.end} [class="{edge.kind}" label={_quote_name(edge.name)}]'
    yield "}"


def _dot_node(node: GraphNode) -> str:
    return f"{node.id} [{_DRAWN_AS[node.kind]} label={_quote_name(node.name)}]"


def _quote_name(name: str) -> str:
    """A label of Graphviz, where backslashes and quotes mean something."""
    shown = sanitize(name if len(name) <= MOST_CHARS else f"{name[: MOST_CHARS - 1]}\u2026")
    return '"' + shown.replace("\\", "\\\\").replace('"', '\\"') + '"'
