"""The report pages in a real browser: drawn, with nothing on the console and no request to the network."""

import re
import subprocess
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from kafkakit.audit.report.page import audit_page
from kafkakit.lint.rule_pages import site_files
from kafkakit.report.pages import sections_page
from kafkakit.report.report import Bar, BarChart, FactList, NextCommands, Remarks, Report, ResultTable, Section
from kafkakit.rules.catalogue import all_rules
from kafkakit.streams.routes.topology import topology_page
from kafkakit.topicmappr.decide.frontier import FrontierPoint
from kafkakit.topicmappr.report.page import report_page
from tests.rigs.browser import browsing, chromium
from tests.unit.audit.test_page import a_view
from tests.unit.report.test_pages import observed
from tests.unit.topicmappr.test_report import EVIL, make, move


@pytest.fixture
def browser(tmp_path: Path) -> list[str]:
    return chromium(tmp_path / "profile")


class Counting(BaseHTTPRequestHandler):
    """Serves the page, and remembers every path that was asked for."""

    page = b""
    requested: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.requested.append(self.path)
        found = self.path == "/plan.html"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.page if found else b"")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's word
        pass


def the_page() -> bytes:
    points = [FrontierPoint(band_percent=p, moved_bytes=900 // p, bound_bytes=800 // p, moves=p) for p in (1, 3, 9)]
    plan = make([move(n, n, topic=f"orders{EVIL}") for n in range(60)], brokers=60, warnings=(EVIL,))
    return report_page(plan, next_command="kafkakit reassign apply plan.json", frontier=points)


def the_page_of_audits() -> bytes:
    return audit_page(a_view(EVIL))


@pytest.mark.parametrize(("page", "charts", "rows"), [(the_page, 7, 60), (the_page_of_audits, 3, 10)])
def test_the_page_is_drawn_without_console_errors_or_requests(
    browser: list[str], tmp_path: Path, page: Callable[[], bytes], charts: int, rows: int
) -> None:
    Counting.page, Counting.requested = page(), []
    with ThreadingHTTPServer(("127.0.0.1", 0), Counting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/plan.html"
        try:
            done = subprocess.run(
                [*browser, "--dump-dom", address], capture_output=True, text=True, timeout=400, check=True
            )
        finally:
            server.shutdown()
    assert set(Counting.requested) <= {"/plan.html", "/favicon.ico"}, "the page asks for nothing else"
    assert "CONSOLE" not in done.stderr, done.stderr
    # The browser has parsed the page: charts are elements, hostile names are text.
    assert done.stdout.count("<svg") == charts
    assert "<script" not in done.stdout
    assert "&lt;script&gt;alert(1)" in done.stdout
    assert len(re.findall(r"<tr>", done.stdout)) > rows


def test_the_console_would_have_told(browser: list[str], tmp_path: Path) -> None:
    """A page that breaks its own policy is heard of, so that silence above means something."""
    page = the_page().replace(b"</main>", b'<img src="http://127.0.0.1:9/x.png"></main>')
    (tmp_path / "bad.html").write_bytes(page)
    done = subprocess.run(
        [*browser, "--dump-dom", f"file://{tmp_path / 'bad.html'}"],
        capture_output=True,
        text=True,
        timeout=400,
        check=True,
    )
    assert "CONSOLE" in done.stderr
    assert "Content Security Policy" in done.stderr


@pytest.mark.parametrize("width", [400, 1280])
def test_a_screenshot_has_the_page_on_it(browser: list[str], tmp_path: Path, width: int) -> None:
    (tmp_path / "plan.html").write_bytes(the_page())
    shot = tmp_path / "plan.png"
    command = [*browser, f"--window-size={width},1600", f"--screenshot={shot}", f"file://{tmp_path / 'plan.html'}"]
    subprocess.run(command, capture_output=True, timeout=400, check=True)
    blank = tmp_path / "blank.png"
    command = [*browser, f"--window-size={width},1600", f"--screenshot={blank}", "about:blank"]
    subprocess.run(command, capture_output=True, timeout=400, check=True)
    assert shot.stat().st_size > 5 * blank.stat().st_size


def a_result_page() -> bytes:
    """A page of every kind of section, with names as long as Kafka allows."""
    bars = BarChart((Bar(label="5%", bound=10, value=20, words="20 B"), Bar(label="1%", bound=1, value=1, words="1 B")))
    name = "t" * 249
    parts = (
        f"Topic {name}",
        *("plain", f"aligned  {name}"),
        Section("Some:", (Remarks("note", (name,)), NextCommands((f"kafkakit topic list {name}",)))),
        FactList(((name, name), ("size", 3)), 6),
        *(ResultTable(("severity", "topic", EVIL), (("error", name, EVIL),)), bars),
    )
    return sections_page(Report(command="x", data={}, sections=parts, warnings=(EVIL,)))


OVER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
SCROLLED = "[...document.querySelectorAll('.wide')].map(each => each.tabIndex)"


def test_no_page_scrolls_sideways_and_what_is_wide_can_be_reached_by_keys(tmp_path: Path) -> None:
    long = observed([([("t" * 249, "cluster" * 20)], {f"group<b>{EVIL}", "g" * 249})])
    pages = {"plan": the_page(), "audit": the_page_of_audits(), "topology": topology_page(long)}
    site = site_files(all_rules())
    pages |= {"rules": site["index.html"], "rule": site["KKR201.html"], "report": a_result_page()}
    for name, page in pages.items():
        (tmp_path / f"{name}.html").write_bytes(page)
    with browsing(tmp_path) as tab:
        for name in pages:
            for width in (1400, 500, 380):
                size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
                tab.call("Emulation.setDeviceMetricsOverride", **size)
                tab.open(f"file://{tmp_path}/{name}.html")
                assert tab.run(OVER) <= 0, (name, width)
                assert set(tab.run(SCROLLED)) <= {0}, (name, width)
        assert tab.console == []
        tab.run("document.querySelector('h1').style.width = '2000px'")
        assert tab.run(OVER) > 0, "it would be seen"
