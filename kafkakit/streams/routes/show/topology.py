"""The graph of streams: which topics of which clusters carry their lanes, and which groups read them."""

from collections.abc import Iterator, Sequence

from kafkakit.core.printable import printable
from kafkakit.core.quantities import counted
from kafkakit.core.tables import text_table
from kafkakit.report.blocks import attributes, records, section, text_of
from kafkakit.report.report import Report
from kafkakit.streams.model.route import Route
from kafkakit.streams.pathways.api import SeenEdges
from kafkakit.streams.routes.decide.observed import RouteFacts
from kafkakit.streams.routes.show.topology_graph import (
    EdgeKind,
    GraphEdge,
    GraphNode,
    NodeKind,
    Observed,
    StreamGraph,
    stream_graph,
)

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
    lines = text_table(COLUMNS, rows).splitlines() if rows else ["no streams"]
    if seen is not None:
        lines += section("Pathways:", _pathway_lines(seen))
    return Report(
        command="streams topology",
        data={
            "edges": records(COLUMNS, rows),
            "pathways": None if seen is None else [attributes(edge, *EDGE_COLUMNS) for edge in seen.edges],
            "unexplained_records": None if seen is None else dict(seen.unexplained),
        },
        text=text_of(mermaid_lines(stream_graph(observed, seen)) if as_mermaid else lines),
        columns=COLUMNS,
        rows=rows,
        warnings=tuple(
            f"stream {route.stream}: the groups are not known: {why}"
            for route, facts in observed
            for why in facts.unknown
        )
        + tuple(problems),
        is_document=as_mermaid,
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


def _pathway_lines(seen: SeenEdges) -> Iterator[str]:
    table = ((e.source or "(begins)", e.group, e.service, e.target, e.records) for e in seen.edges)
    yield from text_table(EDGE_COLUMNS, table).splitlines() if seen.edges else ["no edge is proved"]
    for stream, count in seen.unexplained.items():
        if count:
            yield f"{printable(stream)}: {counted(count, 'record')} with a pathway of services that are not named"


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
