"""The one value that a command ends with, and the forms of results that several tools print.

`Report` is rendered as text, rows or data, and decides the exit code. Beside it: blocks of text and plots for
terminals; HTML that is escaped unless it is known to be markup already, and charts as inline SVG; metrics as Prometheus
text exposition (format 0.0.4) and as DogStatsD's plain datagrams; SARIF 2.1.0; the files by which systemd and cron
start a command.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from html import escape
from typing import TypeVar

from kafkakit.core.errors import ExitCode, KafkakitError
from kafkakit.core.findings import Place, Severity
from kafkakit.core.text import plain_value

_FIRST_LINES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a command found or did.

    `command` is the command's words (`reassign verify`); `data` is for JSON and YAML, `text` for people, `rows`
    (with `columns`) for TSV. A `failure` is raised after the report was written; without one the command exits
    with `code`. `warnings` go to stderr before it. With `refused` the text says what was not done: programs
    get the failure alone. With `is_document` the text is in a format of its own, which programs read.
    """

    command: str
    data: Mapping[str, object]
    text: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[object, ...], ...] = ()
    warnings: tuple[str, ...] = ()
    failure: KafkakitError | None = None
    refused: bool = False
    is_document: bool = False
    code: int = ExitCode.DONE

    def naming(self, cluster_id: str, profile: str | None) -> "Report":
        """Name the cluster and the profile in use in the first lines of the text, unless it is a document."""
        if self.is_document or not self.text:
            return self
        used = cluster_words(cluster_id, profile)
        end = sum(len(line) for line in self.text.splitlines(keepends=True)[:_FIRST_LINES])
        first, rest = self.text[:end], self.text[end:]
        if f"cluster {cluster_id}" in first:
            return replace(self, text=first.replace(f"cluster {cluster_id}", used, 1) + rest)
        return replace(self, text=f"{used}\n{self.text}")


def cluster_words(cluster_id: str, profile: str | None) -> str:
    """`cluster X (profile prod)`, how a text names the cluster that it is about."""
    return f"cluster {cluster_id} (profile {profile})" if profile else f"cluster {cluster_id}"


T = TypeVar("T")
INDENT = "  "


def text_of(lines: Iterable[str]) -> str:
    """Lines as text; the last one is ended, too."""
    return "\n".join(lines) + "\n"


def section(title: str, lines: Iterable[str]) -> list[str]:
    """An empty line, a title, and the lines below it."""
    return ["", title, *(INDENT + line for line in lines)]


def optional_section(title: str, lines: Sequence[str]) -> list[str]:
    """A section; nothing without lines."""
    return section(title, lines) if lines else []


def capped(
    items: Sequence[T], line: Callable[[T], str], most: int, rest: str = "... and {} more (all of them with -o tsv)"
) -> list[str]:
    """A line for each item, `most` of them; `rest` is the last line then, with how many more there are in its `{}`."""
    lines = [line(item) for item in items[:most]]
    return [*lines, rest.format(len(items) - most)] if len(items) > most else lines


def gap_text(gap: float | None) -> str:
    """A relative gap: `0` only when it is exactly nothing, `-` when there is none."""
    if gap is None:
        return "-"
    return "0" if gap == 0 else f"{gap * 100:.3g} %"


def attributes(value: object, *names: str) -> dict[str, object]:
    """Attributes of a value as plain data under their own names; each of `names` may hold several, blanks between."""
    return {name: plain_value(getattr(value, name)) for name in " ".join(names).split()}


class Deferred(Iterable[object]):
    """Items of a report's data that are made when JSON or YAML is written: most reports are printed as text alone."""

    __slots__ = ("_items",)

    def __init__(self, items: Callable[[], Iterable[object]]) -> None:
        self._items = items

    def __iter__(self) -> Iterator[object]:
        return iter(self._items())


def records(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> list[dict[str, object]]:
    """The rows of a report as data, each cell under its column."""
    return [dict(zip(columns, row, strict=True)) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One line of the plot: a label, the bound and the value above it (None: no plan), and words behind it."""

    label: str
    bound: int
    value: int | None
    words: str


def text_plot(bars: Sequence[Bar], *, width: int = 48, plain: bool = False) -> list[str]:
    """Lines of bars, all on one scale that ends at the largest value; `plain` uses ASCII only.

    A value that is not nothing shows at least the thinnest mark, so that nothing looks free that is not.
    """
    top = max((b.value if b.value is not None else b.bound for b in bars), default=0) or 1
    labels = max((len(b.label) for b in bars), default=0)
    return [f"{b.label.rjust(labels)} {_axis(plain)}{_bar(b, top, width, plain)} {b.words}".rstrip() for b in bars]


def _axis(plain: bool) -> str:
    return "|" if plain else "\u2502"


def _bar(bar: Bar, top: int, width: int, plain: bool) -> str:
    solid, shade, none = ("#", "+", ".") if plain else ("\u2588", "\u2591", "\u00b7")
    if bar.value is None:
        return none * min(width, 3)
    if plain:
        low, high = (_cells(v, top, width, 1) for v in (bar.bound, bar.value))
        return solid * low + shade * (high - low)
    low, high = (_cells(v, top, width, 8) for v in (bar.bound, bar.value))
    full, part = divmod(low, 8)
    # A cell that is partly solid cannot be shaded too, so the shade begins in the next one.
    rest = -(-high // 8) - full - bool(part)
    return solid * full + (chr(0x2590 - part) if part else "") + shade * max(0, rest)


def _cells(value: int, top: int, width: int, steps: int) -> int:
    return max(1, value * width * steps // top) if value > 0 else 0


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


Labels = tuple[tuple[str, str], ...]
DATAGRAM_BYTES = 1_400
"""What fits into one packet on any network, for metrics that leave the machine."""
TAG_CHARS = 200
_UNSAFE = re.compile(r"[|,#%\s\x00-\x1f]")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")
"""Characters of names that end a scrape (NUL, in Prometheus' lexer) or a line in some readers; a newline has its
escape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFamily:
    """A gauge: its name without the prefix, its help, and its samples; one without samples is left out.

    With `totals` it is a summary: its samples are quantiles, and each total is a count and a sum since the start.
    """

    name: str
    help: str
    samples: tuple[tuple[Labels, float], ...]
    totals: tuple[tuple[Labels, int, float], ...] = ()


def gauge(name: str, about: str, *samples: tuple[Labels, float]) -> MetricFamily:
    """A gauge with these samples."""
    return MetricFamily(name=name, help=about, samples=samples)


def single(name: str, about: str, value: float) -> MetricFamily:
    """A gauge of one value without labels."""
    return MetricFamily(name=name, help=about, samples=(((), float(value)),))


def exposition(found: Iterable[MetricFamily], prefix: str, labels: Labels = ()) -> str:
    """Families as Prometheus reads them, each sample with `labels` before its own; empty without samples."""
    lines: list[str] = []
    for family in found:
        if family.samples or family.totals:
            name = prefix + family.name
            kind = "summary" if family.totals else "gauge"
            lines += [f"# HELP {name} {_help(family.help)}", f"# TYPE {name} {kind}"]
            lines += [
                f"{name}{more}{_labels((*labels, *own))} {number(value)}" for more, own, value in _samples(family)
            ]
    return "\n".join([*lines, ""])


def datagrams(
    found: Iterable[MetricFamily], prefix: str, *, tags: Sequence[str] = (), max_bytes: int = DATAGRAM_BYTES
) -> list[bytes]:
    """Families as DogStatsD gauges, named with dots for the first two underscores, as many to a datagram as fit.

    A line that alone is longer than `max_bytes` is left out; tags are at most 200 characters long, so none is.
    """
    packets: list[bytes] = []
    packet = b""
    for family in found:
        name = (prefix + family.name).replace("_", ".", 2)
        for more, labels, value in _samples(family):
            joined = ",".join([*tags, *(tag(key, word) for key, word in labels)])
            line = f"{name}{more}:{number(value)}|g{'|#' + joined if joined else ''}".encode()
            if len(line) > max_bytes:
                continue
            if packet and len(packet) + 1 + len(line) > max_bytes:
                packets.append(packet)
                packet = b""
            packet = packet + b"\n" + line if packet else line
    return [*packets, packet] if packet else packets


def tag(key: str, value: str) -> str:
    """A tag whose value no other name has: what may not stand in one is percent-encoded, what is too long is hashed."""
    safe = _UNSAFE.sub(lambda found: "".join(f"%{b:02X}" for b in found[0].encode("utf-8", "surrogatepass")), value)
    if len(f"{key}:{safe}") > TAG_CHARS:
        digest = sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        safe = f"{safe[: TAG_CHARS - len(key) - len(digest) - 2]}~{digest}"
    return f"{key}:{safe}"


def number(value: float) -> str:
    """A sample's value: a whole number, or three decimals."""
    return str(int(value)) if value == int(value) else repr(round(value, 3))


def _samples(family: MetricFamily) -> Iterator[tuple[str, Labels, float]]:
    """Every line of a family: what follows its name, labels and value."""
    for labels, value in family.samples:
        yield "", labels, value
    for labels, count, total in family.totals:
        yield "_sum", labels, total
        yield "_count", labels, count


def _labels(labels: Labels) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    visible = _CONTROL.sub(lambda m: f"\\x{ord(m[0]):02x}", value)
    return visible.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
MOST_RESULTS = 5_000
"""GitHub shows the first 5,000 results of a run."""
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SarifRule:
    """A rule as its service shows it; without `url` it has no link."""

    code: str
    name: str
    severity: Severity
    summary: str
    why: str
    text: str
    markdown: str
    family: str
    url: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SarifResult:
    """One finding, or `number` findings of one rule in one place, of which this is the first."""

    code: str
    severity: Severity
    message: str
    where: str
    fingerprint: str
    number: int = 1
    place: Place | None = None


def grouped(items: Sequence[T], key: Callable[[T], Hashable], most: int) -> list[tuple[T, int]]:
    """Each item with the number 1; where there are more than `most`, the first of each key and how many there are."""
    if len(items) <= most:
        return [(item, 1) for item in items]
    first: dict[Hashable, T] = {}
    numbers: Counter[Hashable] = Counter()
    for item in items:
        first.setdefault(key(item), item)
        numbers[key(item)] += 1
    return [(item, numbers[found]) for found, item in first.items()]


def sarif_log(version: str, rules: Sequence[SarifRule], results: Iterable[SarifResult]) -> str:
    """A SARIF log with one run; `rules` has the rule of each result."""
    index = {rule.code: number for number, rule in enumerate(rules)}
    driver = {"name": "kafkakit", "version": version, "rules": [_rule(rule) for rule in rules]}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(result, index[result.code]) for result in results],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def _rule(rule: SarifRule) -> dict[str, object]:
    return {
        "id": f"kafkakit/{rule.code}",
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.why or rule.summary},
        **({"helpUri": rule.url} if rule.url else {}),
        "help": {"text": rule.text, "markdown": rule.markdown},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": ["kafka", rule.family]},
    }


_URI = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")


def uri_of(path: str) -> str:
    """A path as a URI reference; blanks, `#`, `%`, `?` and what is not ASCII are escaped."""
    return "".join(chr(byte) if byte in _URI else f"%{byte:02X}" for byte in path.encode("utf-8", "surrogateescape"))


def _result(result: SarifResult, rule_index: int) -> dict[str, object]:
    more = f" (and {result.number - 1} more of this rule here)" if result.number > 1 else ""
    location: dict[str, object] = {"logicalLocations": [{"name": result.where}]}
    if result.place is not None:
        physical = {
            "artifactLocation": {"uri": uri_of(result.place.path)},
            "region": {"startLine": result.place.line, "startColumn": result.place.column},
        }
        location = {"physicalLocation": physical, **location}
    return {
        "ruleId": f"kafkakit/{result.code}",
        "ruleIndex": rule_index,
        "level": _LEVELS[result.severity],
        "message": {"text": f"{result.message} ({result.where}){more}"},
        "partialFingerprints": {"kafkakit/v1": result.fingerprint},
        "locations": [location],
    }


_SERVICE = """\
[Unit]
Description={what}
Wants=network-online.target
After=network-online.target

[Service]
Type=oneshot
ExecStart=/bin/sh -c {script}
TimeoutStartSec={timeout}
{environment}# A user that may write to the places below, which must exist.
User=kafkakit
StateDirectory=kafkakit
Environment=XDG_STATE_HOME=/var/lib
{writes}NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
CapabilityBoundingSet=
UMask=0022
"""
_TIMER = """\
[Unit]
Description={what}

[Timer]
OnCalendar={when}
RandomizedDelaySec={delay}
Persistent=true

[Install]
WantedBy=timers.target
"""


def files_report(command: str, form: str, files: Mapping[str, str]) -> Report:
    """The files by name as a report; with several of them each begins with a comment that names it."""
    parts = [f"# {name}\n{text}" if len(files) > 1 else text for name, text in files.items()]
    return Report(
        command=command,
        data={"format": form, "files": dict(files)},
        text="\n".join(parts),
        columns=("file", "line"),
        rows=tuple((name, line) for name, text in files.items() for line in text.splitlines()),
    )


def service_text(what: str, script: str, places: Iterable[str], *, timeout: str, environment: str = "") -> str:
    """A service that runs `script` once; it may write to those `places` that are absolute paths.

    `environment` is the path of a file with variables, which may be missing.
    """
    local = dict.fromkeys(place for place in places if place.startswith("/"))
    return _SERVICE.format(
        what=what,
        script=systemd_word(script, dollars=True),
        timeout=timeout,
        environment=f"EnvironmentFile=-{environment}\n" if environment else "",
        writes="".join(f"ReadWritePaths={systemd_word(place)}\n" for place in local),
    )


def timer_text(what: str, when: str, *, delay: str) -> str:
    """The timer of the service with the same name; `when` as in systemd.time(7)."""
    return _TIMER.format(what=what, when=when, delay=delay)


def cron_line(when: str, script: str) -> str:
    """A line for a user's crontab; cron ends a command at a bare %, and has one line for it."""
    return f"{when} {script.replace('%', chr(92) + '%')}\n"


def folder_of(path: str) -> str:
    """The folder of a file with an absolute path."""
    return path.rpartition("/")[0] or "/"


def systemd_word(text: str, *, dollars: bool = False) -> str:
    """One word of a unit file in quotes: specifiers, escapes and, in command lines, variables are plain text in it."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{quoted.replace("$", "$$") if dollars else quoted}"'
