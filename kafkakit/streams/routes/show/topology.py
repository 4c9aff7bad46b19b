"""The graph of streams: which topics of which clusters carry their lanes, and which groups read them."""

from collections.abc import Iterator, Sequence

from kafkakit.core.printable import printable
from kafkakit.core.quantities import counted
from kafkakit.core.tables import text_table
from kafkakit.report.blocks import attributes, records, section, text_of
from kafkakit.report.report import Report
from kafkakit.streams.pathways.api import SeenEdges
from kafkakit.streams.routes.decide.observed import RouteFacts
from kafkakit.streams.routes.decide.route import Route, SegmentState

EDGE_COLUMNS = ("source", "group", "service", "target", "records")
COLUMNS = ("stream", "lane", "cluster", "topic", "state", "problem", "group", "members", "unread")
Observed = Sequence[tuple[Route, RouteFacts]]


def topology_report(
    observed: Observed, seen: SeenEdges | None = None, problems: Sequence[str] = (), *, as_mermaid: bool
) -> Report:
    """A line for each segment and group that reads it, or a Mermaid flow chart of the same.

    `seen` are edges between streams that records prove, `problems` the topics whose records could not be read.
    """
    rows = tuple(row for route, facts in observed for row in _rows(route, facts))
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
        text=text_of(mermaid_lines(observed, seen) if as_mermaid else lines),
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


def mermaid_lines(observed: Observed, seen: SeenEdges | None = None) -> Iterator[str]:
    """The chart: clusters as boxes around topics, solid arrows where records are written, dotted ones elsewhere.

    Thick arrows are edges that records prove.
    """
    yield "flowchart LR"
    clusters = sorted({(s.cluster_id, s.cluster) for route, _ in observed for _, s in route.segments()})
    for number, (cluster_id, name) in enumerate(clusters, 1):
        yield f'  subgraph k{number}["{_text(name)}"]'
        for place, (route, _) in enumerate(observed, 1):
            for _, segment in route.segments():
                if segment.cluster_id == cluster_id and segment.cluster == name:
                    yield f'    t{place}s{segment.id}["{_text(segment.topic)}"]'
        yield "  end"
    groups: dict[str, str] = {}
    for place, (route, facts) in enumerate(observed, 1):
        yield f'  r{place}(["{_text(route.stream)}"])'
        for lane, segment in route.segments():
            arrow = "-->" if segment.state is SegmentState.ACTIVE and not lane.is_paused else "-.->"
            yield f'  r{place} {arrow}|"{_text(lane.name)}"| t{place}s{segment.id}'
        for reader in facts.readers:
            if reader.group not in groups:
                groups[reader.group] = f"g{len(groups) + 1}"
                yield f'  {groups[reader.group]}[/"{_text(reader.group)}"/]'
            yield f"  t{place}s{reader.segment} --> {groups[reader.group]}"
    places = {route.stream: place for place, (route, _) in enumerate(observed, 1)}
    for number, edge in enumerate(() if seen is None else seen.edges, 1):
        start = groups[edge.group] if edge.source else f'w{number}(("{_text(edge.service)}"))'
        yield f'  {start} ==>|"{_text(edge.service)}"| r{places[edge.target]}'


def _pathway_lines(seen: SeenEdges) -> Iterator[str]:
    table = ((e.source or "(begins)", e.group, e.service, e.target, e.records) for e in seen.edges)
    yield from text_table(EDGE_COLUMNS, table).splitlines() if seen.edges else ["no edge is proved"]
    for stream, count in seen.unexplained.items():
        if count:
            yield f"{printable(stream)}: {counted(count, 'record')} with a pathway of services that are not named"


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
