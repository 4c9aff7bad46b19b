"""The page about a run: what is on it, that names from outside are text, that its size is bounded."""

import re
from html.parser import HTMLParser

from kafkakit.audit.decide.runs import RunResults, compare, with_since
from kafkakit.audit.report.page import DISTRIBUTIONS, audit_page, counts_by_range
from kafkakit.audit.report.results import AuditView
from kafkakit.core.fleet_tables import JobResult
from tests.unit.audit.made import EVIL, KINDS, a_finding, a_run


class Structure(HTMLParser):
    """Tags that are open, the headings, and the elements seen."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.headings: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)
        if tag not in ("meta", "link", "br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)


def read(page: bytes) -> Structure:
    found = Structure()
    found.feed(page.decode())
    found.close()
    assert found.open == []
    return found


def history(days: int = 3) -> tuple[RunResults, ...]:
    return tuple(
        a_run(a_finding("old"), a_finding("fixed"), date=f"2026-11-{20 - k:02}", facts={"rows": 10 - k, "word": "x"})
        for k in range(days, 0, -1)
    )


def a_view(evil: str = "") -> AuditView:
    findings = (
        *with_since((a_finding(f"old{evil}", owner=f"team-a{evil}"), a_finding("old")), {}, "2026-11-18"),
        a_finding(f"new{evil}", severity="error", repair=f"a.b=1{evil}", message=f"bad{evil}", blast=7),
        a_finding("x", cluster=f"c9{evil}"),
    )
    run = a_run(
        *findings,
        jobs=("drift", "lag", "retention"),
        failed={"lag": f"boom{evil}"},
        skipped=(f"cluster c3: not collected{evil}",),
        facts={f"rows{evil}": 12, "rows": 12, "note": f"n{evil}"},
        clusters={"c1": KINDS, f"c2{evil}": KINDS, f"c9{evil}": KINDS},
    )
    past = history()
    tables = {("retention", "partitions"): {"overshoot": [0.05, 0.3, None, float("nan"), 3.0, 40.0, "x"]}}
    return AuditView(run=run, comparison=compare(past[-1], run), history=past, tables=tables)


def test_what_is_new_stands_before_the_rest() -> None:
    headings = read(audit_page(a_view())).headings
    assert headings == [
        "Failed jobs: what they would have found is missing here",
        "The runs differ",
        "New since 2026-11-19",
        "New because the run before did not look there",
        "Gone",
        "Owners",
        "Clusters",
        "Worst first",
        "Distributions",
        "Over the days",
        "Jobs",
        "What the codes mean",
        "Not looked at",
    ]


def test_the_numbers_are_those_of_the_run() -> None:
    page = audit_page(a_view()).decode()
    cards = re.findall(r"<b>([^<]*)</b><span>([^<]*)</span>", page)
    assert cards == [
        ("3", "clusters"), ("1", "errors"), ("3", "warnings"), ("0", "notes"), ("1", "new"), ("1", "gone"),
        ("1", "failed jobs"), ("6s", "run time"),
    ]  # fmt: skip
    new = page[page.index("New since") : page.index("New because")]
    assert re.findall(r"topic (\w+) of c1", new) == ["new"], "what is still there is left out"
    assert "<code>a.b=1</code>" in new
    assert page.count("<svg") == 3, "one distribution, the findings, and the rows of drift over the days"
    assert "2026-11-18" in page


def test_names_from_outside_are_text() -> None:
    page = audit_page(a_view(EVIL))
    plain, evil = read(audit_page(a_view())), read(page)
    assert set(evil.seen) == set(plain.seen)
    assert b"<script" not in page
    assert b"&lt;script&gt;" in page
    assert "\u202e" not in page.decode()
    assert b"\x1b" not in page


def test_the_same_run_gives_the_same_bytes() -> None:
    assert audit_page(a_view()) == audit_page(a_view())


def test_a_first_run_and_an_empty_one_have_pages() -> None:
    first = read(audit_page(AuditView(run=a_run(a_finding("a")))))
    assert first.headings == ["Clusters", "Worst first", "Jobs", "What the codes mean"]
    assert read(audit_page(AuditView(run=a_run(clusters={})))).headings == ["Jobs"]


def test_a_day_without_news_says_so() -> None:
    before, run = a_run(a_finding("a"), date="2026-11-19"), a_run(a_finding("a"))
    page = audit_page(AuditView(run=run, comparison=compare(before, run), history=(before,))).decode()
    assert '<h2>New since 2026-11-19</h2>\n<p class="good">Nothing.</p>' in page


def test_the_size_is_bounded() -> None:
    findings = tuple(
        a_finding(f"t{n}", cluster=f"c{n % 900}", code=f"KKR{n % 60:03}", message="m" * 900, owner=f"o{n % 700}")
        for n in range(9_000)
    )
    run = a_run(*findings, clusters={f"c{n}": KINDS for n in range(900)}, skipped=tuple(map(str, range(5_000))))
    before = a_run(date="2026-11-19", clusters=dict(run.results[0].clusters))
    page = audit_page(AuditView(run=run, comparison=compare(before, run), history=(before,)))
    assert len(page) < 2_000_000
    assert b"and 4800 more" in page
    assert b"the first 300 of 900" in page


def test_values_are_counted_by_ranges() -> None:
    wanted = DISTRIBUTIONS[0]
    assert wanted.edges[:3] == (0, 0.1, 0.25)
    assert counts_by_range([-1, 0, 0.09, 0.1, 10, 99.0, None, True, "7"], wanted) == [2, 1, 0, 0, 1, 0, 0, 2]
    assert counts_by_range([1500, 90_000_000], DISTRIBUTIONS[2]) == [0, 1, 0, 0, 0, 0, 1], "milliseconds as seconds"
    assert counts_by_range([float("inf")], wanted)[-1] == 1


def test_a_table_that_was_not_read_whole_is_said_to_be_a_part() -> None:
    result = JobResult(job="capacity", tables={"dirs": 3_000})
    run = RunResults(spec=a_run().spec, results=(result,))
    page = audit_page(AuditView(run=run, tables={("capacity", "dirs"): {"days_to_full": [5.0, 8.0]}})).decode()
    assert page.count("Log dirs by days until 85 % is used (the first 2 of 3,000)") == 3
    assert ">7 to 14<" in page
