"""What pages of `kafkakit ui` are made of: sections with tables, facts and pictures, and the address of a list."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kafkakit.core.findings import Finding
from kafkakit.core.quantities import format_bytes, format_rough_time
from kafkakit.report.exports import uri_part
from kafkakit.report.pages import Chart, Curve, Label, px
from kafkakit.status.decide.judgement import BrokerStatus, ClusterStatus, Health

ROWS_OF_A_PAGE = 50
NAV = (
    ("", "Overview"),
    ("brokers", "Brokers"),
    ("topics", "Topics"),
    ("groups", "Groups"),
    ("moves", "Moves"),
    ("streams", "Streams"),
    ("findings", "Findings"),
    ("plans", "Plans"),
)
"""The pages of a cluster, in the order of their digit keys."""


@dataclass(frozen=True, slots=True)
class Link:
    """A text that leads to another page."""

    text: str
    href: str


@dataclass(frozen=True, slots=True)
class PageMark:
    """A word in the colour of a severity or health."""

    word: str
    severity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """A bar of how full something is, between 0 and 1; None where that is not known."""

    share: float | None
    words: str
    severity: str = "ok"


Cell = str | int | Link | PageMark | Meter | None
Rows = list[tuple[str, Sequence[Cell]]]


@dataclass(frozen=True, slots=True)
class PageColumn:
    """A column; `priority` 1 is always shown, 2 from 420 pixels on and 3 from 640; `sort` is its key in the address."""

    title: str
    numeric: bool = False
    priority: int = 1
    sort: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UiTable:
    """Rows, each with a key that stays the same from one reading to the next."""

    caption: str
    columns: Sequence[PageColumn]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    empty: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pager:
    """Where one is in a list that is longer than a page."""

    first: int
    last: int
    total: int
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The filters of a list: the text, and words to choose from, each with its address."""

    text: str
    choices: Sequence[tuple[str, str, bool]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSection:
    """One part of a page; what is empty is not shown."""

    id: str
    title: str = ""
    words: Sequence[str] = ()
    tiles: Sequence[tuple[str, str, str]] = ()
    facts: Sequence[tuple[str, Cell]] = ()
    findings: Sequence[tuple[Finding, str]] = ()
    search: Search | None = None
    table: UiTable | None = None
    pager: Pager | None = None
    chart: Chart | None = None
    grid: Sequence[tuple[str, str, str]] = ()
    commands: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UiPage:
    """A page: `active` is its name in the navigation, `base` the address of the cluster, `at` its reading's time."""

    title: str
    active: str
    sections: Sequence[PageSection]
    base: str = ""
    health: Health | None = None
    at: datetime | None = None
    status: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSample:
    """The lag of each group at a time, in seconds if `is_time`, else in records."""

    at: datetime
    lag: Mapping[str, float]
    is_time: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """What is known of one cluster now: its status, why it may be old, and what was seen in the last hour."""

    name: str
    base: str
    status: ClusterStatus | None = None
    failure: str = ""
    is_stale: bool = False
    age_s: float = 0.0
    lag: Sequence[LagSample] = ()
    short: Sequence[int] = ()

    @property
    def health(self) -> Health:
        """The health as far as the last reading knows it: unknown where that failed, or is too old."""
        return Health.UNKNOWN if self.status is None or self.is_stale or self.failure else self.status.health


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """What stands in the address of a list."""

    text: str = ""
    state: str = ""
    sort: str = ""
    page: int = 1

    def query(self, **changes: str | int) -> str:
        """The query of this address with other values; defaults are left out."""
        values = {"q": self.text, "state": self.state, "sort": self.sort, "page": self.page, **changes}
        return "&".join(f"{k}={uri_part(str(v))}" for k, v in values.items() if v not in ("", 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFrame:
    """What stands around a page: the links to others, and whether a login just failed."""

    nav: Sequence[tuple[str, str]] = ()
    is_fleet: bool = False
    failed: bool = False


def read_address(query: Mapping[str, str]) -> Address:
    """The address of a list; what cannot be meant is left out."""
    page = query.get("page", "1")
    number = int(page) if page.isascii() and page.isdigit() and len(page) < 8 else 1
    return Address(
        text=query.get("q", "")[:249], state=query.get("state", ""), sort=query.get("sort", ""), page=max(1, number)
    )


def rows_of_page(rows: Sequence[object], address: Address, path: str) -> tuple[slice, Pager | None]:
    """The rows of a page, and the way to the pages beside it."""
    total = len(rows)
    if total <= ROWS_OF_A_PAGE:
        return slice(0, total), None
    pages = -(-total // ROWS_OF_A_PAGE)
    page = min(address.page, pages)
    first = (page - 1) * ROWS_OF_A_PAGE
    last = min(total, first + ROWS_OF_A_PAGE)
    before = f"{path}?{address.query(page=page - 1)}" if page > 1 else ""
    after = f"{path}?{address.query(page=page + 1)}" if page < pages else ""
    return slice(first, last), Pager(first=first + 1, last=last, total=total, before=before, after=after)


def cut_words(total: int, shown: int) -> Sequence[str]:
    """That a list is cut; nothing for one that is not."""
    return [f"The first {shown:,} of {total:,} are shown."] if total > shown else ()


# -- pictures


def sparkline(title: str, values: Sequence[float], *, width: int = 600, height: int = 120) -> Chart:
    """A line over time that begins at zero, with its last and its largest value beside it."""
    top = max(values, default=0.0) or 1.0
    step = (width - 80) / max(1, len(values) - 1)
    places = [(px(8 + step * i), px(height - 20 - v * (height - 40) / top)) for i, v in enumerate(values)]
    labels = [Label(f"{values[-1]:,.6g}", px(width - 66), px(height - 20 - values[-1] * (height - 40) / top + 4)),
              Label(f"max {top:,.6g}", px(8), px(14), "start", "axis")]  # fmt: skip
    return Chart(title=title, width=width, height=height, curves=[Curve(places, "la")], labels=labels)


UNKNOWN = "?"


def page_of(view: ClusterView, title: str, active: str, sections: Iterable[PageSection], status: int = 200) -> UiPage:
    """A page of one cluster: first what is old or not known of it."""
    state = view.status
    return UiPage(
        title=title,
        active=active,
        sections=[*_state_sections(view), *sections],
        base=view.base,
        health=None if state is None else view.health,
        at=None if state is None else state.reading.at,
        status=status,
    )


def _state_sections(view: ClusterView) -> Iterator[PageSection]:
    if view.status is None:
        words = [f"Nothing of {view.name} was read yet."]
        yield PageSection(id="state", words=[*words, view.failure] if view.failure else words)
    elif view.is_stale or view.failure:
        why = view.failure or "the cluster does not answer"
        yield PageSection(id="state", words=[f"These figures are {format_rough_time(view.age_s)} old: {why}."])


def link_to(view: ClusterView, *parts: str) -> str:
    """The address of a page of the cluster."""
    return "/".join((view.base, *(uri_part(part) for part in parts)))


def number_text(value: int | None) -> str:
    """A number, or the sign for what is not known."""
    return UNKNOWN if value is None else f"{value:,}"


def size_text(value: int | None) -> str:
    """Bytes in words, or the sign for what is not known."""
    return UNKNOWN if value is None else format_bytes(value)


def with_ages(status: ClusterStatus, findings: Iterable[Finding]) -> list[tuple[Finding, str]]:
    """Findings with how long each has stood, empty below a minute."""
    found = []
    for finding in findings:
        age = status.since.get(finding.fingerprint)
        found.append((finding, format_rough_time(age) if age is not None and age >= 60 else ""))
    return found


def broker_severity(row: BrokerStatus) -> str:
    """In which colour a broker's state is shown."""
    return {"alive": "ok", "?": "unknown"}.get(row.state, "error")


def disk_meter(row: BrokerStatus) -> Meter:
    """How full a broker's fullest log dir is."""
    share = row.fullest
    if share is None:
        return Meter(share=None, words=UNKNOWN, severity="unknown")
    severity = "error" if share >= 0.9 else "warning" if share >= 0.85 else "ok"
    return Meter(share=share, words=f"{share:.0%}", severity=severity)
