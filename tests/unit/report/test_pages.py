"""Pages of templates: every value is text, whatever a template does with it, and drawings of others are only shapes."""

import re
import subprocess
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from kafkakit.core.cluster_facts import GroupState
from kafkakit.report.pages import _environment, checked_drawing, round_top
from kafkakit.status.act.service import ASSETS
from kafkakit.streams.model.route import Lane, Route
from kafkakit.streams.routes.decide import ReadingGroup, RouteFacts, SegmentFacts
from kafkakit.streams.routes.pathways import SeenEdge, SeenEdges
from kafkakit.streams.routes.topology import NodeKind, Observed, picture_source, stream_graph, topology_page
from tests.places import ROOT
from tests.rigs.required import part
from tests.rigs.routes import segment

EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>&amp;\u202egnp\x00\ud800\\"
TEMPLATES = ROOT / "kafkakit/report/templates"
NAMES = st.text("ab<&-_. \\\"'\n", min_size=1, max_size=60)
STREAMS = st.lists(
    st.tuples(st.lists(st.tuples(NAMES, st.sampled_from("pq")), min_size=1, max_size=4), st.sets(NAMES, max_size=3)),
    max_size=4,
)


def made(template: str, **values: object) -> str:
    return _environment().from_string(template).render(values)


def test_every_value_is_text_that_can_be_seen() -> None:
    assert made('<p title="{{ x }}">{{ x }}</p>', x='<b> "') == '<p title="&lt;b&gt; &#34;">&lt;b&gt; &#34;</p>'
    assert made("{{ x }}", x="a\u202eb\x00\ud800\x1b") == "a\ufffdb\ufffd\ufffd\ufffd"
    assert made("{{ x }}|{{ y }}", x=None, y=7) == "|7"
    assert made("{% for x in xs %}{{ x }}{% endfor %}", xs=["&", 1]) == "&amp;1"


def test_what_is_long_is_cut_and_says_so() -> None:
    assert made("{{ x }}", x="x" * 401) == "x" * 400 + "\u2026 (401 characters)"
    assert made("{{ x }}", x="n" * 249) == "n" * 249, "the longest name of a topic"
    assert made("{{ x | cut(3) }}", x="<<<<") == "&lt;&lt;&lt;\u2026 (4 characters)"
    assert made("{{ x | cut(1000) }}", x="x" * 900) == "x" * 900
    assert made("{{ x | cut(9) }}", x="a\u202eb") == "a\ufffdb"


def test_macros_make_markup_of_values_that_are_text() -> None:
    macro = '{% import "parts.html" as parts %}'
    assert made(macro + "{{ parts.command(x) }}", x="<i>") == "<pre>&lt;i&gt;</pre>"
    assert "<dt>&lt;</dt><dd>&amp;</dd>" in made(macro + "{{ parts.facts(x) }}", x=[("<", "&")])
    assert "<li>and 2 notes more</li>" in made(macro + '{{ parts.lines(x, 1, "note") }}', x=["a", "b", "c"])


@pytest.mark.parametrize(
    "template", ["{{ x }}", "{{ y.z }}", "{% for each in x %}{% endfor %}", "{% if x %}{% endif %}"]
)
def test_a_name_that_is_not_given_is_an_error(template: str) -> None:
    with pytest.raises(UndefinedError):
        made(template, y={})


def test_no_template_has_a_way_around() -> None:
    ways = r"\|\s*safe\b|autoescape|\bMarkup\b|~|\{%-?\s*raw|\sstyle=|\son[a-z]+=|javascript:|https?:"
    paths = sorted(TEMPLATES.glob("*.html"))
    assert {path.name for path in paths} >= {"base.html", "parts.html", "plan.html", "registry.html"}
    found = [f"{path.name}: {match[0]}" for path in paths for match in re.finditer(ways, path.read_text("utf-8"))]
    assert found == []
    assert re.findall(ways, "{{ x | safe }} <p style='x'>") == ["| safe", " style="]
    # Text that is no markup of its own is only that of the package's files, or is served as a file.
    opened = {name for path in paths for name in re.findall(r"\bfile\((.*?)\)", path.read_text("utf-8"))}
    others = {path.name for path in TEMPLATES.iterdir()} - {path.name for path in paths}
    assert {name.strip('"') for name in opened} | set(ASSETS) == others


def test_pages_are_of_the_base_template() -> None:
    for path in TEMPLATES.glob("*.html"):
        is_own = path.name in ("base.html", "parts.html")
        assert path.read_text("utf-8").startswith('{% extends "base.html" %}') is not is_own, path.name


DRAWN = (
    '<svg width="9pt" height="8pt" viewBox="0 0 9 8" xmlns="http://www.w3.org/2000/svg">{}'
    '<g id="a" class="node"><title>t1</title><text x="1" y="2" font-size="3">&lt;b&gt; \u202e</text></g></svg>'
)


def test_of_a_drawing_shapes_places_and_text_remain() -> None:
    with_style = DRAWN.format('<path fill="red" style="x" onclick="y" d="M0 0"/>')
    assert checked_drawing(f'<?xml version="1.0"?><!DOCTYPE svg><!-- made -->{with_style}') == (
        '<svg height="8pt" viewBox="0 0 9 8" width="9pt"><path d="M0 0"></path>'
        '<g class="node"><text x="1" y="2">&lt;b&gt; \ufffd</text></g></svg>'
    )


@pytest.mark.parametrize(
    "svg",
    [
        "",
        "<svg",
        "<p/>",
        DRAWN.format("<script>alert(1)</script>"),
        DRAWN.format('<a href="x"><text>y</text></a>'),
        DRAWN.format('<image href="http://x/y.png"/>'),
        DRAWN.format('<p xmlns="http://www.w3.org/1999/xhtml"/>'),
    ],
)
def test_a_drawing_with_anything_else_is_not_shown(svg: str) -> None:
    assert checked_drawing(svg) is None
    if svg:
        assert b"<svg" not in topology_page([], drawing=svg)


@pytest.mark.parametrize(("most", "unit", "top"), [(7, "", 8), (100, "", 100), (3000, "bytes", 4096), (1, "bytes", 4)])
def test_the_quarters_of_an_axis_are_round(most: int, unit: str, top: int) -> None:
    assert round_top(most, unit) == top


def observed(streams: list[tuple[list[tuple[str, str]], set[str]]]) -> Observed:
    """A route for each, whose topics are all read by its groups."""
    made = []
    for number, (topics, groups) in enumerate(streams):
        segments = tuple(segment(n, topic=f"{name}{number}", cluster=at) for n, (name, at) in enumerate(topics, 1))
        lanes = tuple(Lane(name=f"l{each.id}", segments=(each,)) for each in segments)
        readers = tuple(
            ReadingGroup(segment=each.id, group=group, state=GroupState.STABLE, members=1, unread=0)
            for each in segments
            for group in sorted(groups)
        )
        found = RouteFacts(segments={each.id: SegmentFacts(records=1) for each in segments}, readers=readers)
        made.append((Route(stream=f"s{number}", epoch=1, next_segment=9, lanes=lanes), found))
    return made


def proved(found: Observed) -> SeenEdges:
    """An edge into each stream from a service, and from each of its groups into the next stream."""
    edges = [SeenEdge(source="", group="", service="shop", target=route.stream, records=1) for route, _ in found]
    for (route, facts), (following, _) in pairwise(found):
        groups = sorted({reader.group for reader in facts.readers})
        edges += [SeenEdge(source=route.stream, group=g, service=g, target=following.stream, records=1) for g in groups]
    return SeenEdges(edges=tuple(edges), unexplained={})


@given(streams=STREAMS)
def test_every_node_and_edge_of_the_graph_is_in_the_source_of_its_picture(
    streams: list[tuple[list[tuple[str, str]], set[str]]],
) -> None:
    found = observed(streams)
    graph, lines = stream_graph(found, proved(found)), picture_source(found, proved(found)).splitlines()
    label = r'label="(?:[^"\\]|\\["\\])*"'
    nodes = [line for line in lines if re.fullmatch(rf" +\w+ \[shape=\w+( style=\w+)? {label}\]", line)]
    edges = [line for line in lines if re.fullmatch(rf'  \w+ -> \w+ \[class="\w+" {label}\]', line)]
    clusters = [line for line in lines if re.fullmatch(rf"  subgraph cluster_\d+ \{{ {label}", line)]
    topics = sum(len(nodes) for _, nodes in graph.clusters)
    assert len(nodes) == topics + sum(len(graph.nodes(kind)) for kind in NodeKind)
    assert (len(edges), len(clusters)) == (len(graph.edges), len(graph.clusters))
    assert len(lines) == 5 + len(nodes) + len(edges) + 2 * len(clusters), "and nothing else"


def test_graphviz_draws_names_as_text() -> None:
    long = "n" * 249
    found = observed([([(EVIL, "p"), ("<b>x</b>", "q")], {long, "\\N\\", '"]; a -> b'}), ([("y", "q")], {"g"})])
    seen = proved(found)
    ran = subprocess.run(
        [part("dot"), "-Tsvg"],
        input=picture_source(found, seen).encode(), capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    page = topology_page(found, seen, ran.stdout.decode()).decode()
    drawing = ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    texts = {each.text or "" for each in drawing.iter("text")}
    assert {"<b>x</b>0", "\\N\\", '"]; a -> b', "s0", "s1", "p", "q", "shop", f"{long[:43]}\u2026"} <= texts
    assert any(text.startswith("<script>alert(1)</script>") for text in texts)
    groups = [each.get("class") for each in drawing.iter("g")]
    graph = stream_graph(found, seen)
    assert sum((name or "").startswith("edge ") for name in groups) == len(graph.edges)
    assert groups.count("node") == 3 + sum(len(graph.nodes(kind)) for kind in NodeKind)
    assert "<pre>" not in page
    assert page == topology_page(found, seen, ran.stdout.decode()).decode()


def test_without_a_drawing_the_page_has_the_lines_of_mermaid() -> None:
    page = topology_page(observed([([("<b>", "p")], {"g" * 249})])).decode()
    assert "<pre>flowchart LR\n" in page
    assert "&#60;" not in page, "a label of Mermaid is text of the page"
    assert '["#60;b#62;0"]' in page.replace("&#34;", '"')
    assert "g" * 249 in page
    assert b"0 streams on 0 clusters" in topology_page([])
