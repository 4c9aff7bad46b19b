"""The page of the registry in a real browser: browsing, queries, errors, details, hostile values, keys, screens."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkakit.registry.decide.access import Access, read_access
from tests.fakes.admin import FakeCluster
from tests.fakes.control import FakeControlStore
from tests.rigs.browser import Tab, browsing
from tests.rigs.registry import Registry, serving
from tests.unit.registry.test_parts import CALLERS

TOPICS = 123
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"
TURNED = "a\u202eb\u0000c\u200bd"
BUSY = "document.getElementById('found').ariaBusy = 'true'"
READY = "document.getElementById('found').ariaBusy === 'false'"
ROWS = "[...document.querySelectorAll('#rows tr')]"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    cluster, store = FakeCluster({1: "a", 2: "b", 10: None}), FakeControlStore()
    for number in range(TOPICS):
        cluster.add_topic(f"topic-{number}", dict.fromkeys(range(1 + number % 7), (1, 2)))
    cluster.add_topic("hostile", {0: (1,)}, configs={HOSTILE: TURNED})
    tags = {HOSTILE: HOSTILE, "turned": TURNED, 'quo"ted\\': "it's"}
    store.cas("registry/topic/hostile", json.dumps(tags).encode(), None)
    store.cas("registry/topic/topic-7", b'{"team": "payments"}', None)
    with serving(tmp_path_factory.mktemp("registry"), cluster, store) as registry:
        yield registry


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browsing(tmp_path_factory.mktemp("browser")) as tab:
        yield tab


@pytest.fixture
def tab(shared: Tab) -> Tab:
    shared.call("Emulation.setDeviceMetricsOverride", width=1000, height=900, deviceScaleFactor=1, mobile=False)
    return shared


def opened(tab: Tab, registry: Registry, fragment: str = "") -> None:
    tab.console, tab.requests = [], []
    tab.open(f"http://{registry.addresses['HTTP']}/{fragment}")
    tab.wait(READY)


def names(tab: Tab) -> list[str]:
    found: list[str] = tab.run(f"{ROWS}.map(row => row.querySelector('th').textContent)")
    return found


def text(tab: Tab, name: str) -> str:
    return str(tab.run(f"document.getElementById('{name}').innerText")).strip()


def focused(tab: Tab) -> str:
    return str(tab.run("document.activeElement.id || document.activeElement.textContent"))


def search(tab: Tab, query: str) -> None:
    tab.run(f"{BUSY}; document.getElementById('query').focus(); document.getElementById('query').select()")
    tab.type(query)
    tab.press("Enter")
    tab.wait(READY)


def named_nodes(tab: Tab) -> dict[str, set[str]]:
    """The names of what assistive programs see, by role."""
    found: dict[str, set[str]] = {}
    for node in tab.call("Accessibility.getFullAXTree")["nodes"]:
        if not node.get("ignored"):
            found.setdefault(node["role"]["value"], set()).add(node.get("name", {}).get("value", ""))
    return found


def test_topics_are_listed_by_page_and_sorted_by_column(tab: Tab, registry: Registry) -> None:
    opened(tab, registry)
    assert text(tab, "count") == f"{TOPICS + 1} topics."
    assert text(tab, "place") == f"1–50 of {TOPICS + 1}"
    assert names(tab)[:4] == ["hostile", "topic-0", "topic-1", "topic-2"]
    assert text(tab, "fresh").startswith("Read from the cluster ")
    tab.run("document.getElementById('next').click(), document.getElementById('next').click()")
    assert text(tab, "place") == f"101–124 of {TOPICS + 1}"
    assert tab.run("document.getElementById('next').disabled")
    for wanted, order in (("ascending", [0, 7, 14]), ("descending", [6, 13, 20])):
        tab.run("document.querySelector('th[data-column=partitions] button').click()")
        assert tab.run("document.querySelector('th[data-column=partitions]').ariaSort") == wanted
        assert [name for name in names(tab) if name != "hostile"][:3] == [f"topic-{number}" for number in order]
    assert tab.console == []
    root = f"http://{registry.addresses['HTTP']}/"
    urls = [request["url"] for request in tab.requests if request["url"] != "about:blank"]
    assert urls[0] == root
    assert all(url.startswith((f"{root}v2/", "data:,")) for url in urls[1:])
    assert not any("Authorization" in request["headers"] for request in tab.requests)


def test_a_query_is_answered_shown_in_the_address_and_its_errors_are_placed(tab: Tab, registry: Registry) -> None:
    opened(tab, registry)
    search(tab, "team = payments")
    assert (names(tab), text(tab, "count")) == (["topic-7"], "1 topic found.")
    search(tab, "partitions > 1 and nix %")
    assert text(tab, "error").startswith("query, column 24: found '%'")
    assert tab.run("document.querySelector('#error mark').textContent") == "%"
    place = "(input => input.ariaInvalid + input.selectionStart)(document.getElementById('query'))"
    assert tab.run(place) == "true23"
    assert (names(tab), text(tab, "count"), text(tab, "place")) == ([], "", "none")
    tab.run("history.back()")
    tab.wait("document.querySelectorAll('#rows tr').length === 1")
    assert (tab.run("document.getElementById('query').value"), text(tab, "error")) == ("team = payments", "")
    opened(tab, registry, "#kind=broker&query=rack+%3D+a")
    assert (names(tab), tab.run("document.getElementById('tab-broker').ariaSelected")) == (["1"], "true")


def test_it_is_explained_why_an_object_is_left_out(tab: Tab, registry: Registry) -> None:
    opened(tab, registry, "#query=team+%3D+orders+and+partitions+%3E+0")
    tab.run("document.querySelector('#panel details').open = true; document.getElementById('which').focus()")
    tab.type("topic-7")
    tab.press("Enter")
    tab.wait("document.getElementById('reasons').textContent")
    said = text(tab, "reasons")
    assert said.startswith("topic-7 does not match:")
    assert "team is payments" in said
    assert "partitions" not in said


def test_hostile_values_are_text_and_unseen_characters_are_seen(tab: Tab, registry: Registry) -> None:
    opened(tab, registry, "#query=name+%3D+hostile")
    assert f"{HOSTILE}={HOSTILE}"[:80] in tab.run("document.getElementById('rows').textContent")
    tab.run("document.querySelector('#rows a').click()")
    tab.wait("document.getElementById('facts').textContent.includes('History')")
    shown = tab.run("document.getElementById('facts').textContent")
    assert HOSTILE in shown
    assert shown.count("a\\u{202e}b\\u{0}c\\u{200b}d") == 2
    assert not set(TURNED) & set(shown) - set("abcd")
    assert tab.run("document.querySelectorAll('#facts img, #rows img, #facts script, #rows script').length") == 0
    assert tab.console == []
    # Any tag can be searched for, however it is written.
    for key in (HOSTILE, "turned", 'quo"ted\\'):
        opened(tab, registry, "#open=hostile")
        tab.wait("document.getElementById('facts').textContent.includes('History')")
        rows = "[...document.querySelectorAll('#facts tr')]"
        row = f"{rows}.find(row => row.cells[0].textContent === {json.dumps(key)})"
        tab.run(f"{BUSY}; {row}.querySelector('button').click()")
        tab.wait("!document.getElementById('details').open && location.hash.includes('query=')")
        tab.wait(READY)
        assert (names(tab), text(tab, "error")) == (["hostile"], "")


def test_details_have_replicas_configurations_tags_and_their_history(tab: Tab, registry: Registry) -> None:
    opened(tab, registry)
    assert registry.curl("PUT", "/v1/topics/tag/topic-3?tag=owner:ann").status == 200
    opened(tab, registry, "#open=topic-3")
    tab.wait("document.getElementById('facts').textContent.includes('History')")
    shown = text(tab, "facts")
    for part in ("partitions\n4", "owner\tann", "3\t1, 2", "127.0.0.1\towner\t(not set)\tann", "Configurations: none"):
        assert part in shown
    assert focused(tab) == "details-name"
    opened(tab, registry, "#open=nowhere")
    tab.wait("document.querySelector('#facts [role=alert]')")
    assert text(tab, "facts") == "topic nowhere does not exist"


def test_it_is_used_with_the_keyboard_alone(tab: Tab, registry: Registry) -> None:
    opened(tab, registry)
    tab.press("Tab")
    assert focused(tab) == "reload"
    tab.press("Tab", "ArrowRight")
    tab.wait("document.getElementById('count').textContent === '3 brokers.'")
    assert focused(tab) == "tab-broker"
    assert names(tab) == ["1", "2", "10"]
    tab.press("Home")
    tab.wait(f"document.getElementById('count').textContent === '{TOPICS + 1} topics.'")
    tab.press("Tab")
    assert focused(tab) == "query"
    tab.type("name like 'topic-1?'")
    tab.press("Enter")
    tab.wait("document.querySelectorAll('#rows tr').length === 10")
    outline = tab.run("getComputedStyle(document.activeElement).outlineWidth")
    assert outline == "3px", "the focus is seen"
    # To Find, the table's own scrolling, the five columns, and the first row.
    tab.press(*["Tab"] * 8)
    assert focused(tab) == "topic-10"
    tab.press("Enter")
    tab.wait("document.getElementById('details').open")
    assert focused(tab) == "details-name"
    tab.press("Escape")
    tab.wait("!document.getElementById('details').open && !location.hash.includes('open')")
    assert focused(tab) == "topic-10"
    tab.press("Shift+Tab", "Enter")
    assert tab.run("document.querySelector('th[data-column=tags]').ariaSort") == "ascending"


def test_assistive_programs_get_roles_and_names(tab: Tab, registry: Registry) -> None:
    opened(tab, registry)
    tab.run("for (const each of document.querySelectorAll('details')) each.open = true")
    found = named_nodes(tab)
    assert found["tab"] == {"Topics", "Brokers"}
    assert found["tabpanel"] == {"Topics"}
    assert {"Query", "Name of a topic", "Token"} == found.get("searchbox", set()) | found["textbox"]
    assert {"Name", "Partitions", "Replicas", "State", "Tags"} <= found["columnheader"]
    assert {"hostile", "topic-0"} <= found["rowheader"]
    assert found["table"] == {"Topics"}
    for role in ("button", "link", "tab", "region", "navigation", "heading", "tabpanel"):
        assert "" not in found[role], role
    assert {"main", "search", "alert", "status"} <= found.keys()
    tab.run("location.hash = '#open=hostile'")
    tab.wait("document.getElementById('facts').textContent.includes('History')")
    found = named_nodes(tab)
    assert found["dialog"] == {"Topic hostile"}
    assert "tab" not in found, "what is behind the dialog is out of reach"
    assert {"Tags", "Replicas", "Configurations"} <= found["region"]
    assert "Find topics with quo\"ted\\=it's" in found["button"]


def test_it_fits_narrow_screens_and_follows_the_dark_mode(tab: Tab, registry: Registry) -> None:
    tab.call("Emulation.setDeviceMetricsOverride", width=320, height=800, deviceScaleFactor=1, mobile=False)
    for fragment in ("", "#open=hostile", f"#open={'n' * 249}", "#kind=broker"):
        opened(tab, registry, fragment)
        tab.wait("!document.getElementById('facts').textContent.startsWith('Loading')")
        assert tab.run("document.documentElement.scrollWidth <= innerWidth")
        assert tab.run("(dialog => dialog.scrollWidth <= dialog.clientWidth)(document.getElementById('details'))")
    heights = "[...document.querySelectorAll('button')].map(e => e.getBoundingClientRect().height).filter(h => h)"
    assert min(tab.run(heights)) >= 24
    grounds = []
    for mode in ("light", "dark"):
        tab.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": mode}])
        grounds.append(tab.run("getComputedStyle(document.body).backgroundColor"))
    assert grounds == ["rgb(255, 255, 255)", "rgb(15, 19, 23)"]
    tab.call("Emulation.setEmulatedMedia", features=[])


def test_a_token_is_sent_and_never_stored(tmp_path: Path, tab: Tab) -> None:
    with serving(tmp_path, access=Access(by_digest=read_access(CALLERS.encode(), "tokens"))) as protected:
        opened(tab, protected)
        assert text(tab, "error") == "needs the header Authorization: Bearer TOKEN"
        assert tab.run("document.getElementById('access').open")
        tab.run("document.getElementById('token').focus()")
        tab.type("root-token")
        tab.press("Enter")
        tab.wait("document.querySelectorAll('#rows tr').length === 2")
        assert text(tab, "token-state") == "A token is used."
        assert tab.requests[-1]["headers"]["Authorization"] == "Bearer root-token"
        kept = "JSON.stringify([localStorage, sessionStorage, document.cookie, location.href, history.state])"
        assert "root-token" not in tab.run(f"{kept} + document.documentElement.outerHTML")
        assert tab.run("document.getElementById('token').value") == ""
        opened(tab, protected)
        assert text(tab, "error") == "needs the header Authorization: Bearer TOKEN"


def test_the_policy_stops_what_is_not_of_the_page(tab: Tab, registry: Registry) -> None:
    opened(tab, registry)
    blocked: list[Any] = [
        tab.run(script)
        for script in (
            "fetch('http://127.0.0.1:9/x').then(() => 'sent', () => 'stopped')",
            "(() => { try { document.body.innerHTML = '<p>'; return 'set' } catch { return 'stopped' } })()",
            "(() => { try { document.createElement('script').text = ''; return 1 } catch { return 'stopped' } })()",
        )
    ]
    assert blocked == ["stopped"] * 3
    assert any("Content Security Policy" in line for line in tab.console)
