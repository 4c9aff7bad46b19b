"""The pages of `kafkakit ui` in a real browser: sizes, colours, keys, hostile names, and what changes by itself."""

import base64
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from kafkakit.adapters.rpc.http_listener import PageServer
from kafkakit.core.model import TagSet
from kafkakit.core.rpc import HttpPage, HttpRequest, plain_page
from kafkakit.wiring import open_page_server
from tests.integration.conftest import LeaseClusters, SandboxCluster
from tests.integration.test_reassign import D
from tests.rigs.browser import Tab, browsing
from tests.rigs.cluster_pool import FOUR
from tests.rigs.waiting import until
from tests.unit.status.test_judgement import P7, down, health, healthy, state
from tests.unit.status.test_service import EVIL, PATHS, Ui, shown

OVER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
# The contrast of each text with what is behind it (WCAG 2.2, 1.4.3), as [ratio, text], least first.
CONTRASTS = """(() => {
  const parts = color => (color.match(/[\\d.]+/g) || []).map(Number);
  const bright = color => parts(color).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const color = getComputedStyle(e).backgroundColor, p = parts(color);
      if (p.length === 3 || p[3] > 0) return color;
    }
    return 'rgb(255, 255, 255)';
  };
  const texts = [...document.querySelectorAll('main *')].filter(e => !e.closest('svg') && e.offsetParent
    && [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()));
  return texts.map(e => {
    const [a, b] = [bright(getComputedStyle(e).color), bright(behind(e))].sort((x, y) => y - x);
    return [(a + 0.05) / (b + 0.05), e.textContent.slice(0, 40)];
  }).sort((x, y) => x[0] - y[0]).slice(0, 3);
})()"""
SIZE = "fetch(location.href).then(answer => answer.arrayBuffer()).then(body => body.byteLength)"


@contextmanager
def served(ui: Ui) -> Iterator[tuple[PageServer, str]]:
    with closing(open_page_server("127.0.0.1:0", ui.service.answer)) as server:
        yield server, f"http://{server.address}"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browsing(tmp_path_factory.mktemp("browser")) as tab:
        yield tab


@pytest.fixture
def ui() -> Ui:
    reading = down(healthy(partitions=health({P7: state((1,))}), min_isr={"payments": 2}), 3)
    return Ui(shown(reading))


def look_like(tab: Tab, width: int, mode: str) -> None:
    tab.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": mode}])


def test_every_page_fits_is_readable_and_writes_nothing_on_the_console(tab: Tab, ui: Ui) -> None:
    with served(ui) as (_, base):
        tab.console.clear()
        for width, mode in ((1400, "light"), (500, "dark"), (380, "light"), (1400, "dark")):
            look_like(tab, width, mode)
            for path in (*PATHS, "/topics?page=3", "/nowhere"):
                tab.open(base + path)
                assert tab.run(OVER) <= 0, (path, width)
                least, text = tab.run(CONTRASTS)[0]
                assert least >= 4.5, (path, mode, text, least)
                assert tab.run("document.title.trim().length") > 5, path
                assert tab.run(SIZE) < 200_000, path
        noise = [line for line in tab.console if "404" not in line]  # the browser itself tells of the page that is none
        assert noise == []
        assert all(request["url"].startswith(base) or request["url"] == "about:blank" for request in tab.requests[-40:])


def test_a_hostile_name_is_text_wherever_it_stands(tab: Tab, ui: Ui) -> None:
    look_like(tab, 380, "light")
    with served(ui) as (_, base):
        tab.open(f"{base}/topics?q=y")
        tab.wait("document.body.innerText.includes('<b>x</b>')")
        assert tab.run("document.querySelectorAll('main td b, main td script').length") == 0
        assert "\u202e" not in tab.run("document.documentElement.outerHTML")
        assert len(EVIL) > 240
        assert tab.run(OVER) <= 0


QUERIES = (
    "/topics?q=exists(team)&explain=topic-001",
    "/topics?q=partitions%20in%2012",
    "/topics?q=owner%20%3D%20a",
    "/brokers?q=rack%20%3D%20c&explain=1",
)


def test_queries_and_tags_fit_are_readable_and_need_no_script(tab: Tab, ui: Ui) -> None:
    names = {f"topic-{n:03d}": {EVIL: EVIL, "team": "<b>payments & orders</b>"} for n in range(40)}
    ui.sources[0].tag_set = TagSet(topics=names, brokers={1: {"pool": "hot"}})
    with served(ui) as (_, base):
        for width, mode in ((1400, "light"), (380, "dark")):
            look_like(tab, width, mode)
            for path in QUERIES:
                tab.open(base + path)
                assert tab.run(OVER) <= 0, (path, width)
                least, text = tab.run(CONTRASTS)[0]
                assert least >= 4.5, (path, mode, text, least)
        try:
            tab.call("Emulation.setScriptExecutionDisabled", value=True)
            tab.open(f"{base}/topics?q=topic-01&state=short")
            tab.run("document.querySelector('input[name=q]').value = 'team like *orders* and rf = 3'")
            tab.run("document.querySelector('form[role=search]').requestSubmit()")
            tab.wait("document.querySelector('input[name=explain]')")
            assert tab.run("document.querySelectorAll('tbody tr').length") == 2, "those that are not in sync"
            tab.run("document.querySelector('input[name=explain]').value = 'topic-077'")
            tab.run("document.querySelector('input[name=explain]').form.requestSubmit()")
            tab.wait("document.body?.innerText.includes('Topic topic-077 does not match')")
            assert "team is not set" in tab.run("document.body.innerText")
            assert "rf%20%3D%203" in tab.run("location.href").replace("+", "%20")
        finally:
            tab.call("Emulation.setScriptExecutionDisabled", value=False)


def test_a_row_that_was_chosen_stays_chosen_and_a_new_section_stands_in_its_place(tab: Tab, ui: Ui) -> None:
    look_like(tab, 1400, "light")
    with served(ui) as (_, base):
        tab.open(f"{base}/topics")
        key = "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'j', bubbles: true}))"
        for _ in range(3):
            tab.run(key)
        chosen = "document.querySelector('tr.chosen a').textContent"
        before = tab.run(chosen)
        ui.sources[0].failure = OSError("no answer")
        ui.clock.advance(600)
        ui.look()
        tab.wait("document.getElementById('s-state')")
        assert tab.run("document.getElementById('s-state').nextElementSibling.id") == "s-list"
        ui.sources[0].failure = None
        ui.sources[0].tag_set = TagSet(topics={"topic-000": {"team": "a"}})
        ui.clock.advance(60)
        ui.look()
        tab.wait("document.body.innerText.includes('team=a')")
        assert tab.run(chosen) == before


def test_links_are_reached_by_keys_in_the_order_in_which_they_stand(tab: Tab, ui: Ui) -> None:
    look_like(tab, 1400, "light")
    with served(ui) as (_, base):
        tab.open(base + "/")
        reached = []
        for _ in range(12):
            tab.press("Tab")
            reached.append(tab.run("[document.activeElement.textContent.trim(), "
                                   "[...document.querySelectorAll('*')].indexOf(document.activeElement)]"))  # fmt: skip
        places = [place for _, place in reached]
        assert places == sorted(places)
        assert {"Brokers", "Topics", "Groups"} <= {text for text, _ in reached}
        assert tab.run("getComputedStyle(document.activeElement).outlineStyle") != "none"
        heights = "[...document.querySelectorAll('nav a, button')].map(e => e.getBoundingClientRect().height)"
        assert min(tab.run(heights)) >= 24


def test_a_page_says_that_what_it_shows_is_old_or_that_nothing_is_known(tab: Tab, ui: Ui) -> None:
    with served(ui) as (_, base):
        ui.sources[0].failure = OSError("no answer")
        ui.clock.advance(600)
        ui.look()
        tab.open(base + "/")
        tab.wait("document.body.innerText.includes('no answer')")
        assert "These figures are 10m old" in tab.run("document.body.innerText")


def test_a_refusal_leaves_the_page_as_it_was_and_says_that_it_is_old(tab: Tab, ui: Ui) -> None:
    refused = [False]

    def answer(request: HttpRequest) -> HttpPage:
        return plain_page(503, "too many") if refused[0] and request.path == "/" else ui.service.answer(request)

    with closing(open_page_server("127.0.0.1:0", answer)) as server:
        tab.open(f"http://{server.address}/")
        tab.wait("document.querySelector('.tiles')")
        assert tab.run("document.getElementById('gone').hidden")
        refused[0] = True
        tab.run("document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'r', bubbles: true}))")
        tab.wait("!document.getElementById('gone').hidden")
        assert tab.run("!!document.querySelector('.tiles')")
        refused[0] = False
        ui.look()
        tab.wait("document.getElementById('gone').hidden")


@pytest.mark.kafka
def test_a_page_shows_a_broker_that_dies_and_that_comes_back_without_a_reload(
    lease: LeaseClusters, tab: Tab, tmp_path: Path
) -> None:
    cluster: SandboxCluster = lease(FOUR)[0]
    look_like(tab, 1400, "light")
    words = [sys.executable, "-m", "kafkakit", "--profile", cluster.name, "ui", "--listen", "127.0.0.1:0"]
    log = tmp_path / "ui.log"
    with open(log, "wb") as out:
        page = subprocess.Popen(words, env=cluster.env, stdout=out, stderr=out)
    try:
        until(lambda: "serving http" in log.read_text(), "the page is served", seen=log.read_text)
        address = log.read_text().partition("serving ")[2].split()[0]
        tab.open(address)
        tab.wait("document.querySelector('.tiles') && document.body.innerText.includes('4/4')")
        tab.run("window.isSame = true")
        cluster.kill(D)
        tab.wait("document.body.innerText.includes('broker-down') && document.body.innerText.includes('3/4')")
        cluster.revive()
        tab.wait("!document.body.innerText.includes('broker-down') && document.body.innerText.includes('4/4')")
        assert tab.run("window.isSame"), "the page was not loaded again"
        picture = base64.b64decode(tab.call("Page.captureScreenshot", format="png")["data"])
        assert len(picture) > 10_000
    finally:
        cluster.revive()
        page.terminate()
        page.wait(60)
