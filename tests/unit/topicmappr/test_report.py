"""The report page: everything escaped, nothing from outside, bounded, the same bytes, tables beside charts."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from kafkakit.core.model import PartitionMap
from kafkakit.core.plan import (
    BrokerLimit,
    BrokerLoad,
    Certificate,
    DirMove,
    GroupLimit,
    Move,
    PlacementStats,
    Plan,
    PlanBroker,
    Proof,
    ProofKind,
    SolverStatus,
    StorageFacts,
)
from kafkakit.topicmappr.decide.frontier import FrontierPoint
from kafkakit.topicmappr.report.page import largest_moves, report_page

MADE_AT = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>&amp;\u202egnp\x00\ud800"
VOID = {"meta", "br", "hr", "link", "img"}


class Reader(HTMLParser):
    """Tags in order, checked to be closed in order, and the text of the page."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page.decode())
        self.close()
        assert self.open == [], f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def load(broker: int, replicas: int, rack: str | None = "a", **known: int) -> BrokerLoad:
    return BrokerLoad(broker=broker, rack=rack, replicas=replicas, leaders=replicas // 3, bytes=replicas * 10, **known)


def stats(loads: Sequence[BrokerLoad]) -> PlacementStats:
    counts = [row.replicas for row in loads]
    leaders = [row.leaders for row in loads]
    return PlacementStats(
        brokers=tuple(loads),
        replicas_min=min(counts, default=0),
        replicas_max=max(counts, default=0),
        leaders_min=min(leaders, default=0),
        leaders_max=max(leaders, default=0),
    )


def make(moves: Sequence[Move] = (), brokers: int = 3, **changes: object) -> Plan:
    plan = Plan(
        cluster_id="c1",
        created_at=MADE_AT,
        snapshot_taken_at=MADE_AT,
        snapshot_source="test",
        fingerprint="sha256:0",
        request={"command": "topicmappr drain", "brokers": "1"},
        certificate=Certificate(
            unit="replicas", objective=4, lower_bound=3, gap=0.25, status=SolverStatus.FEASIBLE, argument="counted"
        ),
        before=stats([load(b, 10 + b) for b in range(brokers)]),
        after=stats([load(b, 12) for b in range(brokers)]),
        brokers=tuple(PlanBroker(id=b, rack="a") for b in range(brokers)),
        scope=(),
        moves=tuple(moves),
        reassignment=PartitionMap(),
        rollback=PartitionMap(),
    )
    return replace(plan, **changes)  # type: ignore[arg-type]


def move(n: int, size: int | None = 5, topic: str = "t", after: tuple[int, ...] = (2, 1)) -> Move:
    return Move(topic=topic, partition=n, before=(0, 1), after=after, size_bytes=size, bytes_moved=size)


def words(page: bytes) -> str:
    return " ".join(" ".join(Reader(page).words).split())


def test_hostile_text_stays_text() -> None:
    plan = make(
        [move(0, topic=EVIL)],
        cluster_id=EVIL,
        snapshot_source=EVIL,
        request={"command": EVIL, EVIL: EVIL},
        certificate=replace(make().certificate, argument=EVIL),
        notes=(EVIL,),
        warnings=(EVIL,),
        before=stats([load(0, 3, rack=EVIL)]),
        after=stats([load(0, 3, rack=EVIL)]),
        dir_moves=(DirMove(topic=EVIL, partition=0, broker=1, source_dir=EVIL, target_dir=EVIL),),
        storage=StorageFacts(source=EVIL, taken_at=MADE_AT, age_s=1),
    )
    page = report_page(plan, next_command=f"kafkakit reassign apply {EVIL}")
    seen = Reader(page)
    assert not {"script", "img", "iframe", "object", "form", "a"} & {tag for tag, _ in seen.tags}
    assert not [name for _, attributes in seen.tags for name in attributes if name.startswith("on")]
    assert "<script>alert(1)</script>" in "".join(seen.words), "shown as text"
    assert b"\xe2\x80\xae" not in page, "no direction overrides"
    assert b"\x00" not in page
    page.decode("utf-8")


def test_nothing_is_fetched_and_the_policy_says_so() -> None:
    page = report_page(make([move(0)]), next_command="kafkakit reassign apply p.json")
    seen = Reader(page)
    assert not [a for _, attributes in seen.tags for a in attributes if a in ("src", "href", "srcset", "data")]
    assert b"url(" not in page
    assert b"@import" not in page
    policies = [a["content"] for tag, a in seen.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policies
    assert (policies[0] or "").startswith("default-src 'none'")


def test_the_page_says_what_the_plan_says() -> None:
    plan = make(
        [move(0, 1 << 30), move(1, None), move(2, 5, after=(1, 0))],
        warnings=("something is odd",),
        notes=("and noted",),
        certificate=replace(
            make().certificate,
            proof=Proof(
                kind=ProofKind.PRICES,
                load="bytes",
                price_unit=2,
                limits=(BrokerLimit(broker=17, ceiling=2048, price=3), BrokerLimit(broker=18, floor=1024, price=-1)),
                groups=(GroupLimit(brokers=(1, 2), ceiling=4096, price=1),),
            ),
        ),
    )
    shown = words(report_page(plan, next_command="kafkakit reassign apply p.json"))
    for part in (
        "kafkakit topicmappr drain",
        "3 partitions change",
        "2 replicas to copy",
        "unknown bytes to copy",
        "3 replicas proven lower bound",
        "The gap is 25 %.",
        "something is odd",
        "and noted",
        "17 at most 2 KiB 1.5",
        "18 at least 1 KiB -0.5",
        "1, 2 at most 4 KiB 0.5",
        "1 GiB",
        "kafkakit reassign apply p.json",
        "kafkakit reassign rollback p.json",
    ):
        assert part in shown, part


def test_an_optimal_plan_and_an_empty_one() -> None:
    proven = replace(make().certificate, objective=3, gap=0.0, status=SolverStatus.OPTIMAL)
    shown = words(report_page(make(certificate=proven, request={})))
    assert "0 (optimal)" in shown
    assert "Nothing cheaper exists." in shown
    assert "No replica list changes." in shown
    assert "There is nothing to carry out" in shown
    assert "Warnings" not in shown
    nothing = make(brokers=0, before=stats([]), after=stats([]))
    assert "Brokers" in words(report_page(nothing))


def test_a_plan_that_was_not_saved_says_how_to_save_it() -> None:
    assert "--plan FILE" in words(report_page(make([move(0)])))


@pytest.mark.parametrize("brokers", [3, 40, 41, 600])
def test_every_chart_has_a_name_and_a_table_with_all_brokers(brokers: int) -> None:
    page = report_page(make([move(0)], brokers))
    seen = Reader(page)
    charts = [attributes for tag, attributes in seen.tags if tag == "svg"]
    assert charts
    assert all(a.get("role") == "img" and a.get("aria-label") for a in charts)
    rows = re.findall(r'<tr><td class="n">(\d+)</td><td>a</td>', page.decode())
    assert rows == [str(b) for b in range(brokers)]
    assert [tag for tag, _ in seen.tags].count("caption") == [tag for tag, _ in seen.tags].count("table")


def test_the_frontier_is_plotted_and_listed() -> None:
    points = [
        FrontierPoint(band_percent=p, moved_bytes=int(1e12 / p), bound_bytes=int(9e11 / p), moves=9) for p in (5, 1, 3)
    ]
    page = report_page(make(), frontier=points)
    assert "What other bands cost" not in words(report_page(make()))
    listed = re.findall(r'<td class="n">(\d) %</td>', page.decode())
    assert listed == ["1", "3", "5"]
    assert page.count(b"<circle") == 6
    single = report_page(make(), frontier=points[:1])
    assert single.count(b"<circle") == 0  # a chart of one dot
    assert "What each band costs" in words(single)


def test_disk_shares_are_shown_where_they_are_known() -> None:
    known = stats([load(b, 9, used_bytes=75, capacity_bytes=100) for b in range(2)])
    shown = words(report_page(make(before=known, after=known)))
    assert "Disk used, share of capacity" in shown
    assert "75.0 %" in shown


def test_the_page_is_bounded_whatever_the_plan() -> None:
    long = "x" * 249
    moves = [move(n, n, topic=long, after=tuple(range(1, 30))) for n in range(100_000)]
    plan = make(
        moves,
        brokers=5000,
        request={"command": "topicmappr rebuild", "map-string": "y" * 10_000_000},
        warnings=tuple(f"{long} {n}" * 5 for n in range(50_000)),
        before=stats([load(b, 10 + b, rack=f"{long}{b}") for b in range(5000)]),
        after=stats([load(b, 12, rack=f"{long}{b}") for b in range(5000)]),
        dir_moves=tuple(
            DirMove(topic=long, partition=n, broker=1, source_dir="/" + long * 9, target_dir="/b", size_bytes=n)
            for n in range(20_000)
        ),
    )
    page = report_page(plan, next_command="kafkakit reassign apply " + "z" * 100_000)
    assert len(page) < 2_000_000
    shown = words(page)
    assert "500 partitions of 100,000, the largest first; 99,500 smaller not shown" in shown
    assert "(10000000 characters)" in shown
    assert "and 49900 warnings more" in shown
    assert report_page(plan, next_command="kafkakit reassign apply " + "z" * 100_000) == page


def test_the_largest_moves_come_first_and_unknown_sizes_before_none() -> None:
    moves = [move(0, 5), move(1, None), move(2, 7), move(3, 9, after=(1, 0)), move(4, 7)]
    assert [m.partition for m in largest_moves(moves, 10)] == [2, 4, 0, 1, 3]
    assert [m.partition for m in largest_moves(moves, 2)] == [2, 4]


def test_what_is_not_nothing_can_be_seen_in_a_bar() -> None:
    page = report_page(make()).decode()
    widths = [float(w) for w in re.findall(r'<rect [^>]*width="([0-9.]+)"', page)]
    assert widths
    assert all(width == 0 or width >= 3 for width in widths)


def test_notes_come_last_words_are_explained_and_good_news_is_not_orange() -> None:
    plan = make()
    proof = replace(plan.certificate, status=SolverStatus.FEASIBLE, gap=0.00014)
    near = replace(plan, notes=("a note",), warnings=("a warning",), certificate=proof)
    page = report_page(near).decode()
    places = [page.index(f"<h2>{title}</h2>") for title in ("Warnings", "Proof", "Brokers", "Next", "Words", "Notes")]
    assert places == sorted(places)
    for word in ("lower bound", "gap", "preferred leader", "cost per unit"):
        assert f"<dt>{word}</dt>" in page
    assert 'class="good">The gap is' in page
    assert 'class="warn"' not in page
