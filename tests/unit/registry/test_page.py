"""The page of the service as a document: nothing from elsewhere, hashes that fit, names for all that is used."""

import re
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest

from kafkakit.core.rpc import RpcAnswer
from kafkakit.registry.decide.access import Access, read_access
from kafkakit.registry.report import registry_page
from kafkakit.report.pages import package_text
from tests.rigs.registry import Registry, curl, serving
from tests.unit.registry.test_parts import CALLERS

EVIL = "</title><script>alert(1)</script>\u202e"


class Document(HTMLParser):
    """Elements in their order, with the text that stands in each; void ones have none."""

    def __init__(self, answer: RpcAnswer) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self._open: list[int] = []
        self.feed(answer.body.decode())
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs)
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        self.texts.append("")
        if tag not in ("meta", "link", "input"):
            self._open.append(len(self.texts) - 1)

    def handle_endtag(self, tag: str) -> None:
        assert self.elements[self._open.pop()][0] == tag

    def handle_data(self, data: str) -> None:
        for number in self._open:
            self.texts[number] += data

    def of(self, *tags: str) -> Iterator[tuple[dict[str, str], str]]:
        for (tag, attributes), text in zip(self.elements, self.texts, strict=True):
            if tag in tags:
                yield attributes, text


@pytest.fixture(scope="module")
def page() -> Document:
    return Document(registry_page("prod"))


def policy() -> dict[str, str]:
    found = dict(registry_page().headers)["Content-Security-Policy"]
    return dict(part.split(" ", 1) for part in found.split("; "))


def test_only_the_style_and_the_script_of_the_document_have_the_hashes_of_its_policy(page: Document) -> None:
    found = policy()
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        [(attributes, text)] = page.of(tag)
        assert attributes == {}
        assert found[directive] == f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
    assert found["default-src"] == found["base-uri"] == found["form-action"] == found["frame-ancestors"] == "'none'"
    assert (found["connect-src"], found["require-trusted-types-for"]) == ("'self'", "'script'")


def test_nothing_comes_from_elsewhere_and_no_attribute_is_a_script(page: Document) -> None:
    for _, attributes in page.elements:
        assert not any(name.startswith("on") or name in ("style", "src", "action") for name in attributes)
        assert attributes.get("href", "data:,") == "data:,"
    [(_, script)], [(_, style)] = page.of("script"), page.of("style")
    assert not re.search(r"url\(|@import|transition|animation", style), "no requests, and nothing moves"
    forbidden = r"(inner|outer)HTML|insertAdjacent|document\.write|\beval|Function\(|Storage|cookie|indexedDB|//[a-z]"
    assert not re.search(forbidden, script)
    assert re.findall(r"fetch\(`(.*?)/", script) == ["v2"]


def test_the_name_is_text() -> None:
    found = Document(registry_page(EVIL, "c1"))
    assert len(list(found.of("script"))) == 1
    [(_, title)], [(_, heading)] = found.of("title"), found.of("h1")
    assert title == heading == "Registry </title><script>alert(1)</script>\ufffd (cluster c1)"


def test_all_that_is_used_has_a_name(page: Document) -> None:
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    labelled = {attributes["for"] for attributes, text in page.of("label") if text.strip()}
    assert {attributes["id"] for attributes, _ in page.of("input")} == labelled
    assert all(text.strip() for _, text in page.of("button", "summary", "h1"))
    for _, attributes in page.elements:
        for name in ("aria-labelledby", "aria-describedby", "aria-controls"):
            assert set(attributes.get(name, "").split()) <= set(ids), attributes
    assert dict(page.elements)["html"] == {"lang": "en"}
    roles = [attributes["role"] for _, attributes in page.elements if "role" in attributes]
    assert roles.count("tab") == 2
    assert {"tablist", "tabpanel", "search", "alert", "status"} <= set(roles)
    [(_, script)] = page.of("script")
    assert set(re.findall(r'\bat\("([^"]+)"\)', script)) <= set(ids), "what the script looks up is there"


def variables(style: str) -> tuple[dict[str, str], dict[str, str]]:
    """The colours in light and in dark mode."""
    light: dict[str, str] = {}
    dark: dict[str, str] = {}
    for mode, text in re.findall(r"(@media\(prefers-color-scheme:dark\)\{)?:root\{([^}]*)\}", style):
        (dark if mode else light).update(re.findall(r"--([a-z]+):(#[0-9a-f]{3,6})", text))
    return light, {**light, **dark}


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("mode", [0, 1])
def test_the_contrast_is_enough_in_light_and_dark(page: Document, mode: int) -> None:
    [(_, style)] = page.of("style")
    base = package_text("base.css")
    # What is printed comes later, and in black and white.
    assert style.startswith(base)
    colours = variables(base.partition("@media print")[0] + style.removeprefix(base))[mode]
    assert len(colours) >= 17
    texts = [("fg", "bg"), ("fg", "card"), ("fg", "code"), ("fg", "mark"), ("fg", "warnbg"), ("soft", "bg")]
    texts += [(name, ground) for name in ("warn", "error", "note") for ground in ("bg", f"{name}bg")]
    for text, ground in [*texts, ("soft", "card"), ("good", "bg")]:
        assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    parts = [(name, ground) for name in ("edge", "note") for ground in ("bg", "card")]
    for part, ground in [*parts, ("before", "bg"), ("after", "bg")]:
        assert contrast(colours[part], colours[ground]) >= 3, (part, ground)
    assert round(contrast("#000", "#ffffff"), 1) == 21
    assert round(contrast("#777777", "#fff"), 2) == 4.48


def test_headings_follow_one_another(page: Document) -> None:
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def head(registry: Registry, *words: str) -> tuple[str, str]:
    address = f"http://{registry.addresses['HTTP']}{words[0]}"
    ran = subprocess.run(["curl", "-sSi", "--max-time", "30", *words[1:], address], capture_output=True, check=True)
    first, _, body = ran.stdout.decode().partition("\r\n\r\n")
    return first.lower(), body


def test_it_is_served_to_everyone_with_its_headers_and_the_calls_remain_json(tmp_path: Path) -> None:
    access = Access(by_digest=read_access(CALLERS.encode(), "tokens"))
    with serving(tmp_path, access=access) as registry:
        for path in ("/", "/ui"):
            first, body = head(registry, path)
            assert first.startswith("http/1.1 200")
            assert first.count("content-type: ") == 1
            assert "content-type: text/html; charset=utf-8" in first
            assert "content-security-policy: default-src 'none'; script-src 'sha256-" in first
            assert "<h1>Registry test &lt;cluster&gt; (cluster " in body
            first, body = head(registry, path, "-I")
            assert first.startswith("http/1.1 200")
            assert body == ""
        assert len(registry_page().body) < 32_000
        refused = registry.curl("GET", "/v2/topics")
        assert (refused.status, refused.headers["content-type"]) == (401, "application/json")
        assert registry.curl("POST", "/").status in (404, 405, 501)


def test_a_page_of_another_server_gets_nothing_from_either_version(tmp_path: Path) -> None:
    with serving(tmp_path) as registry:
        address = registry.addresses["HTTP"]
        own = ("-H", f"Origin: http://{address}", "-H", "Sec-Fetch-Site: same-origin")
        rebound = ("-H", "Host: evil.example", "-H", "Sec-Fetch-Site: same-origin")
        for path in ("/v1/topics/list", "/v2/topics", "/v2/watch"):
            assert curl(address, "GET", path, *rebound).status == 403
            assert curl(address, "GET", path, "-H", "Sec-Fetch-Site: cross-site").status == 401
            assert curl(address, "GET", path, "-H", "Origin: http://localhost:1").status == 401
        for path in ("/v1/topics/list", "/v2/topics"):
            assert curl(address, "GET", path, *own).status == 200
        assert curl(address, "PUT", "/v1/topics/tag/test1?tag=a:b", *rebound).status == 403
        assert registry.audited() == []
