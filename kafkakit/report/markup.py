"""HTML as text that is escaped unless it is known to be markup already; the page's only way to make tags."""

import re
from collections.abc import Iterable
from html import escape

from kafkakit.report.style import CSS

# Control and direction-changing characters could hide or reorder what a person reads.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
_VOID = frozenset({"meta", "link", "br", "hr"})


class Html(str):
    """Text that is markup: every part of it was escaped when it was made."""

    __slots__ = ()


# Nothing from the network, no script.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
Child = Html | str | int | None


def text(value: object, most: int = 400) -> Html:
    """Any value as escaped text; longer than `most` characters it is cut, and says so."""
    raw = str(value)
    shown = raw if len(raw) <= most else f"{raw[:most]}\u2026 ({len(raw)} characters)"
    return Html(escape(_UNSEEN.sub("\ufffd", shown), quote=True))


def el(name: str, /, *children: Child, **attributes: object) -> Html:
    """One element; children that are not `Html` are escaped, and so are attribute values.

    A trailing underscore in an attribute's name is dropped (`class_`), other underscores become hyphens;
    None leaves the attribute out.
    """
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{value if isinstance(value, Html) else text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Html(f"<{name}{words}>")
    return Html(f"<{name}{words}>{join(children)}</{name}>")


def join(children: Iterable[Child]) -> Html:
    """Children one after another; None is nothing."""
    return Html("".join(c if isinstance(c, Html) else text(c) for c in children if c is not None))


def table(caption: str, head: Iterable[tuple[str, bool]], rows: Iterable[Iterable[Child]]) -> Html:
    """A table with a caption; `head` is (title, numeric?) by column, numbers stand to the right."""
    columns = list(head)
    numeric = ["n" if right else None for _, right in columns]
    top = join(el("th", title, scope="col", class_=mark) for (title, _), mark in zip(columns, numeric, strict=True))
    body = join(
        el("tr", *(el("td", cell, class_=mark) for cell, mark in zip(row, numeric, strict=True))) for row in rows
    )
    return el("div", el("table", el("caption", caption), el("thead", el("tr", top)), el("tbody", body)), class_="wide")


def card_row(cards: Iterable[tuple[str, str]]) -> Html:
    """Figures that matter most, each a value over its label."""
    return el(
        "div", *(el("div", el("b", value), el("span", label), class_="card") for value, label in cards), class_="cards"
    )


def html_page(title: str, body: Iterable[Child]) -> bytes:
    """A self-contained page as UTF-8, in the one style that all pages have."""
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", title),
        Html(f"<style>{CSS}</style>"),
    )
    page = el("html", head, el("body", el("main", join(body))), lang="en")
    return f"<!doctype html>\n{page}\n".encode("utf-8", "replace")
