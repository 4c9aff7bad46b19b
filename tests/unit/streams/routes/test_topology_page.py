"""The picture of streams: every node once, nothing over another, an arrow for each edge."""

from itertools import pairwise
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from kafkakit.core.cluster_facts import GroupState
from kafkakit.streams.model.route import Lane, Route
from kafkakit.streams.routes.decide import RouteFacts, SegmentFacts, SegmentReader
from kafkakit.streams.routes.pathways import SeenEdge, SeenEdges
from kafkakit.streams.routes.topology import (
    NODE_PX,
    NodeKind,
    Observed,
    graph_layout,
    stream_graph,
    topology_page,
    topology_svg,
)
from tests.rigs.routes import segment

NAMES = st.text("ab<&-_. ", min_size=1, max_size=60)
STREAMS = st.lists(
    st.tuples(st.lists(st.tuples(NAMES, st.sampled_from("pq")), min_size=1, max_size=4), st.sets(NAMES, max_size=3)),
    max_size=4,
)


def observed(streams: list[tuple[list[tuple[str, str]], set[str]]]) -> Observed:
    """A route for each, whose topics are all read by its groups."""
    made = []
    for number, (topics, groups) in enumerate(streams):
        segments = tuple(segment(n, topic=f"{name}{number}", cluster=at) for n, (name, at) in enumerate(topics, 1))
        lanes = tuple(Lane(name=f"l{each.id}", segments=(each,)) for each in segments)
        readers = tuple(
            SegmentReader(segment=each.id, group=group, state=GroupState.STABLE, members=1, unread=0)
            for each in segments
            for group in sorted(groups)
        )
        found = RouteFacts(segments={each.id: SegmentFacts(records=1) for each in segments}, readers=readers)
        made.append((Route(stream=f"s{number}", epoch=1, next_segment=9, lanes=lanes), found))
    return made


@given(streams=STREAMS)
def test_no_box_lies_over_another_and_all_are_inside(
    streams: list[tuple[list[tuple[str, str]], set[str]]],
) -> None:
    found = observed(streams)
    edges = [SeenEdge(source="", group="", service="shop", target=route.stream, records=1) for route, _ in found]
    for (route, facts), (following, _) in pairwise(found):
        groups = sorted({reader.group for reader in facts.readers})
        edges += [SeenEdge(source=route.stream, group=g, service=g, target=following.stream, records=1) for g in groups]
    graph = stream_graph(found, SeenEdges(edges=tuple(edges), unexplained={}))
    layout = graph_layout(graph)
    topics = sum(len(nodes) for _, nodes in graph.clusters)
    assert len(layout.boxes) == topics + sum(len(graph.nodes(kind)) for kind in NodeKind)
    boxes = list(layout.boxes.values())
    for place, one in enumerate(boxes):
        assert 0 <= one.x <= one.x + one.width <= layout.width
        assert 0 <= one.y <= one.y + NODE_PX <= layout.height
        for other in boxes[:place]:
            apart = abs(one.y - other.y) >= NODE_PX
            assert apart or one.x + one.width <= other.x or other.x + other.width <= one.x
    for number, (_, (x, y, width, height)) in enumerate(layout.frames):
        inside = [box for box in boxes if x <= box.x and box.x + box.width <= x + width and y < box.y < y + height]
        assert [box.node for box in inside] == list(graph.clusters[number][1])
    drawing = ElementTree.fromstring(topology_svg(graph))
    arrows = [path for path in drawing.findall("path") if path.get("marker-end")]
    assert len(arrows) == len(graph.edges)
    titles = [each.findtext("title") for each in drawing.findall("g")]
    assert titles == [f"{box.node.kind} {box.node.name}" for box in boxes]


def test_without_streams_there_is_a_page_all_the_same() -> None:
    assert b"0 streams on 0 clusters" in topology_page([])
