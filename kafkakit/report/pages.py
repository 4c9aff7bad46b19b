"""Pages: HTML that is escaped unless it is known to be markup already, and charts as inline SVG."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

CSS = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--soft:#5b6570;--line:#d9dee3;--card:#f5f7f9;
--before:#9aa5b1;--after:#1f6feb;--good:#1a7f37;--warn:#9a6700;--warnbg:#fff8e1;--code:#eef1f4}
@media(prefers-color-scheme:dark){:root{--bg:#0f1317;--fg:#e4e8ec;--soft:#98a3ae;--line:#2c343c;--card:#181e24;
--before:#68737f;--after:#58a6ff;--good:#56d364;--warn:#e3b341;--warnbg:#2b2410;--code:#1d242b}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:78rem;padding:1.5rem 1.25rem 3rem;background:var(--bg);color:var(--fg);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
h1{font-size:1.6rem;margin:0 0 .25rem}h2{font-size:1.2rem;margin:2.2rem 0 .7rem;padding-top:.7rem;
border-top:1px solid var(--line)}h3{font-size:1rem;margin:1.2rem 0 .4rem}
p{margin:.4rem 0}.soft{color:var(--soft)}
code,pre{font-family:ui-monospace,"SFMono-Regular",Menlo,"DejaVu Sans Mono",monospace;font-size:.9em}
pre{background:var(--code);padding:.7rem .9rem;border-radius:6px;overflow-x:auto;white-space:pre-wrap;
overflow-wrap:anywhere}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(10.5rem,1fr));gap:.7rem;margin:1rem 0}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.6rem .8rem}
.card b{display:block;font-size:1.35rem;line-height:1.3}.card span{color:var(--soft);font-size:.85rem}
.good{color:var(--good)}.warn{color:var(--warn)}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,23rem),1fr));gap:1.2rem}
figure{margin:0;max-width:38rem}figcaption{font-weight:600;margin-bottom:.2rem}
svg{width:100%;height:auto;display:block}svg text{fill:var(--fg);font-size:11px}svg .axis{fill:var(--soft)}
svg .grid{stroke:var(--line);stroke-width:1}.b{fill:var(--before)}.a{fill:var(--after)}
.lb{fill:none;stroke:var(--before);stroke-width:2}.la{fill:none;stroke:var(--after);stroke-width:2}
.dash{stroke-dasharray:5 4}.key i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin:0 .35em 0 0}
.key span{margin-right:1.2em}.key .kb{background:var(--before)}.key .ka{background:var(--after)}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;margin:.4rem 0;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--soft);padding:.2rem 0}
th,td{text-align:left;padding:.25rem .4rem;border-bottom:1px solid var(--line);vertical-align:top}
th{font-size:.85rem;color:var(--soft);font-weight:600}td{overflow-wrap:anywhere}.n{text-align:right;white-space:nowrap}th.n{white-space:normal}
table{font-size:.87rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem;margin:.6rem 0}dt{color:var(--soft)}
dd{margin:0;overflow-wrap:anywhere}
.box{border-left:4px solid var(--warn);background:var(--warnbg);padding:.5rem .9rem;border-radius:0 6px 6px 0}
.box ul{margin:.2rem 0;padding-left:1.2rem}summary{cursor:pointer;font-weight:600;padding:.3rem 0}
@media print{body{max-width:none;padding:0;font-size:11px}h2{break-after:avoid}figure,.card,tr{break-inside:avoid}
.wide{overflow:visible}details::details-content{content-visibility:visible;display:block;height:auto}
:root{--bg:#fff;--fg:#000;--soft:#444;--line:#bbb;--card:#fff;--code:#f3f3f3;--before:#999;--after:#1f6feb}}
"""

# Control and direction-changing characters could hide or reorder what a person reads.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
_VOID = frozenset({"meta", "link", "br", "hr", "input"})


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


QUARTERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """A drawing area in pixels with its margins; both axes begin at 0 and end at `reach` and `most`."""

    width: int
    height: int
    left: int
    right: int
    top: int
    bottom: int
    reach: float
    most: int

    def x(self, value: float) -> float:
        """Where a value lies from left to right."""
        return self.left + value * (self.width - self.left - self.right) / self.reach

    def y(self, value: float) -> float:
        """Where a value lies from the top down."""
        return self.height - self.bottom - value * (self.height - self.top - self.bottom) / self.most

    def grid(self, label: Callable[[int], str], gap: int) -> list[Html]:
        """Lines at the quarters of the value axis, each with its label `gap` pixels beside it."""
        shapes = []
        for quarter in range(QUARTERS + 1):
            value = self.most * quarter // QUARTERS
            y = self.y(value)
            shapes.append(el("line", x1=self.left, x2=self.width - self.right, y1=px(y), y2=px(y), class_="grid"))
            shapes.append(el("text", label(value), x=self.left - gap, y=px(y + 4), text_anchor="end", class_="axis"))
        return shapes

    def line(self, points: Sequence[tuple[float, float]], mark: str, dot: str = "") -> list[Html]:
        """A line through (x value, y value), drawn in the style `mark`; with `dot` each point has one."""
        places = [(px(self.x(x)), px(self.y(y))) for x, y in points]
        line = el("polyline", points=Html(" ".join(f"{x},{y}" for x, y in places)), class_=mark)
        return [line, *(el("circle", cx=x, cy=y, r=3, class_=dot) for x, y in places if dot)]

    def ends(self, left: str, right: str) -> list[Html]:
        """Labels at both ends of the horizontal axis."""
        y = self.height - 8
        end = self.width - self.right
        return [
            el("text", left, x=self.left, y=y, class_="axis"),
            el("text", right, x=end, y=y, text_anchor="end", class_="axis"),
        ]


def round_top(most: int, unit: str = "") -> int:
    """The first value from `most` on whose quarters are round in the unit: in bytes, or any number."""
    base = 1
    while unit == "bytes" and most >= 1024 * base:
        base *= 1024
    steps = [base // 4, base // 2] if base > 1 else []
    scale = base
    while True:
        steps += [scale * tenth // 10 for tenth in (10, 20, 25, 30, 40, 50, 60, 80) if scale * tenth % 10 == 0]
        scale *= 10
        for step in steps:
            if 4 * step >= most:
                return 4 * step


def px(value: float) -> str:
    """Pixels to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


def svg(width: int, height: int, title: str, shapes: Sequence[Html]) -> Html:
    """A drawing with a title that screen readers read."""
    return Html(
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{text(title)}">'
        f"<title>{text(title)}</title>{join(shapes)}</svg>"
    )
