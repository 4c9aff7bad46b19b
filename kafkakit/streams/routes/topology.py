"""The graph of streams: which topics of which clusters carry their lanes, and which groups read them.

Nodes and edges stand in the order in which charts name them. The graph is shown as text, rows and Mermaid lines, or as
a self-contained page with a picture from left to right and the table below it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from typing import TypeAlias

from kafkakit.core.quantities import counted
from kafkakit.core.text import printable
from kafkakit.report.pages import Html, el, html_page, join, px, svg, table, text
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
            yield f"{printable(stream)}: {counted(unnamed, 'record')} with a pathway of services that are not named"


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
    return "".join(f"#{ord(char)};" if char in '"&<>#;`' else char for char in printable(name))


NODE_PX, GAP_PX, BETWEEN_PX, EDGE_PX = 26, 12, 150, 20
"""Height of a node, the least space below it, the space between columns for arrows, and that around the drawing."""
CHAR_PX, MOST_CHARS = 7, 44
_ROUND = {NodeKind.STREAM: 13, NodeKind.TOPIC: 2, NodeKind.GROUP: 6, NodeKind.SERVICE: 13}
_LINES = {
    EdgeKind.WRITTEN: "stroke:var(--fg);stroke-width:1.5",
    EdgeKind.KEPT: "stroke:var(--soft);stroke-width:1.5;stroke-dasharray:4 4",
    EdgeKind.READ: "stroke:var(--soft);stroke-width:1.5",
    EdgeKind.PROVED: "stroke:var(--after);stroke-width:3",
}
_WORDS = {
    EdgeKind.WRITTEN: "dark: records of the lane go to this topic",
    EdgeKind.KEPT: "dashed: a topic of the lane that takes no records now",
    EdgeKind.READ: "grey: the group reads this topic",
    EdgeKind.PROVED: "thick: records prove that the service writes the stream",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeBox:
    """Where a node is drawn, in pixels."""

    node: GraphNode
    x: float
    y: float
    width: float

    @property
    def middle(self) -> float:
        """Half of its height."""
        return self.y + NODE_PX / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphLayout:
    """Every node's box by id, and each cluster's name with its frame: x, y, width and height."""

    boxes: Mapping[str, NodeBox]
    frames: tuple[tuple[str, tuple[float, float, float, float]], ...]
    width: int
    height: int


def topology_page(observed: Observed, seen: SeenEdges | None = None) -> bytes:
    """The page as UTF-8; the same routes and findings give the same bytes."""
    graph = stream_graph(observed, seen)
    kinds = [kind for kind in EdgeKind if any(edge.kind is kind for edge in graph.edges)]
    body = [
        el("h1", "kafkakit streams topology"),
        el("p", f"{counted(len(observed), 'stream')} on {counted(len(graph.clusters), 'cluster')}", class_="soft"),
        el("div", topology_svg(graph), class_="wide"),
        el("p", "; ".join(_WORDS[kind] for kind in kinds), class_="soft"),
        table("Topics and the groups that read them", [(name, False) for name in COLUMNS], _cells(observed)),
    ]
    return html_page("topology of streams", body)


def topology_svg(graph: StreamGraph) -> Html:
    """The picture: services, streams, topics in frames of clusters, and groups, from left to right."""
    layout = graph_layout(graph)
    marker = el("path", d="M0 0L8 4L0 8z", style="fill:var(--soft)")
    shapes = [
        el("defs", el("marker", marker, id="end", markerWidth=8, markerHeight=8, refX=8, refY=4, orient="auto",
                      markerUnits="userSpaceOnUse")),
        *(_frame(name, *place) for name, place in layout.frames),
        *(part for edge in graph.edges for part in _arrow(edge, layout)),
        *(_box(box) for box in layout.boxes.values()),
    ]  # fmt: skip
    return svg(layout.width, layout.height, "streams, their topics and the groups that read them", shapes)


def graph_layout(graph: StreamGraph) -> GraphLayout:
    """Columns of boxes that do not overlap, each near the middle of those that it has arrows with. O(nodes + edges)."""
    columns = [graph.nodes(NodeKind.SERVICE), graph.nodes(NodeKind.STREAM)]
    topics = [node for _, nodes in graph.clusters for node in nodes]
    left: dict[str, float] = {}
    x = float(EDGE_PX)
    for column in (*columns, topics, graph.nodes(NodeKind.GROUP)):
        left |= {node.id: x for node in column}
        x += max((_width(node) for node in column), default=-BETWEEN_PX) + BETWEEN_PX
    boxes: dict[str, NodeBox] = {}
    frames = []
    y = float(EDGE_PX)
    for name, nodes in graph.clusters:
        top, y = y, y + NODE_PX
        for node in nodes:
            boxes[node.id] = NodeBox(node=node, x=left[node.id], y=y, width=_width(node))
            y += NODE_PX + GAP_PX
        width = max(_width(node) for node in (*nodes, GraphNode(id="", kind=NodeKind.TOPIC, name=name)))
        frames.append((name, (left[nodes[0].id] - GAP_PX, top, width + 2 * GAP_PX, y - top)))
        y += GAP_PX
    for column in (columns[1], graph.nodes(NodeKind.GROUP), columns[0]):
        boxes |= _beside(column, boxes, graph.edges, left)
    lowest = max((box.y for box in boxes.values()), default=0) + NODE_PX
    # Arrows back to the left pass below all boxes.
    margin_px = 3 * NODE_PX if any(edge.kind is EdgeKind.PROVED for edge in graph.edges) else 0
    height = max(lowest, y) + EDGE_PX + margin_px
    return GraphLayout(boxes=boxes, frames=tuple(frames), width=round(x - BETWEEN_PX + EDGE_PX), height=round(height))


def _beside(
    column: Iterable[GraphNode], boxes: Mapping[str, NodeBox], edges: Iterable[GraphEdge], left: Mapping[str, float]
) -> Iterator[tuple[str, NodeBox]]:
    """A column beside boxes that are placed."""
    near: dict[str, list[float]] = {}
    for edge in edges:
        for mine, other in ((edge.start, edge.end), (edge.end, edge.start)):
            if other in boxes:
                near.setdefault(mine, []).append(boxes[other].y)
    order = count()
    wanted = sorted((sum(ys) / len(ys) if (ys := near.get(node.id)) else EDGE_PX, next(order), node) for node in column)
    free = float(EDGE_PX)
    for y, _, node in wanted:
        free = max(free, y)
        yield node.id, NodeBox(node=node, x=left[node.id], y=free, width=_width(node))
        free += NODE_PX + GAP_PX


def _arrow(edge: GraphEdge, layout: GraphLayout) -> Iterator[Html]:
    start, end = layout.boxes[edge.start], layout.boxes[edge.end]
    style = f"fill:none;{_LINES[edge.kind]}"
    x, y = start.x + start.width, start.middle
    if end.x > x:
        half = (end.x - x) / 2
        path = (
            f"M{px(x)} {px(y)}C{px(x + half)} {px(y)} {px(end.x - half)} {px(end.middle)} {px(end.x)} {px(end.middle)}"
        )
        at, below = end.x - GAP_PX, end.middle - 5
    else:
        low, into = layout.height - EDGE_PX, end.x + end.width / 2
        x, y = start.x + start.width / 2, start.y + NODE_PX
        path = f"M{px(x)} {px(y)}C{px(x)} {px(low)} {px(into)} {px(low)} {px(into)} {px(end.y + NODE_PX)}"
        at, below = into + GAP_PX + CHAR_PX * len(_shown(edge.name)), end.y + NODE_PX + 14
    yield el("path", d=path, style=style, marker_end="url(#end)")
    if edge.name:
        yield el("text", _shown(edge.name), x=px(at), y=px(below), text_anchor="end", class_="axis")


def _frame(name: str, x: float, y: float, width: float, height: float) -> Html:
    shape = el("rect", x=px(x), y=px(y), width=px(width), height=px(height), rx=6,
               style="fill:none;stroke:var(--line)")  # fmt: skip
    return join([shape, el("text", _shown(name), x=px(x + GAP_PX), y=px(y + 17), class_="axis")])


def _box(box: NodeBox) -> Html:
    shape = el("rect", x=px(box.x), y=px(box.y), width=px(box.width), height=NODE_PX, rx=_ROUND[box.node.kind],
               style="fill:var(--card);stroke:var(--soft)")  # fmt: skip
    words = el("text", _shown(box.node.name), x=px(box.x + box.width / 2), y=px(box.middle + 4), text_anchor="middle")
    return el("g", el("title", f"{box.node.kind} {box.node.name}"), shape, words, class_="node")


def _width(node: GraphNode) -> float:
    return CHAR_PX * len(_shown(node.name)) + 2 * GAP_PX


def _shown(name: str) -> str:
    return name if len(name) <= MOST_CHARS else f"{name[: MOST_CHARS - 1]}…"


def _cells(observed: Observed) -> Iterator[list[Html]]:
    return ([text("-" if value in (None, "") else value) for value in row] for row in topology_rows(observed))
