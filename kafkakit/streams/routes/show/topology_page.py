"""The graph of streams as a self-contained page: a picture from left to right, and the table below it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from kafkakit.core.quantities import counted
from kafkakit.report.chart import px, svg
from kafkakit.report.markup import Html, el, html_page, join, table, text
from kafkakit.streams.pathways.api import SeenEdges
from kafkakit.streams.routes.show.topology import COLUMNS, topology_rows
from kafkakit.streams.routes.show.topology_graph import (
    EdgeKind,
    GraphEdge,
    GraphNode,
    NodeKind,
    Observed,
    StreamGraph,
    stream_graph,
)

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
