"""What pages of `kafkakit ui` are made of: sections with tables, facts and pictures, and the address of a list."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from kafkakit.core.errors import UsageError
from kafkakit.core.findings import Finding
from kafkakit.core.model import TagSet
from kafkakit.core.quantities import format_bytes, format_rough_time
from kafkakit.core.query import CONFIG, ObjectTable, explain, names_matching, unknown_keys
from kafkakit.core.query_text import Node, QueryError, QueryLiteral, key_text, keys_of, parse_query
from kafkakit.core.selection import query_of
from kafkakit.report.exports import uri_part
from kafkakit.report.pages import Chart, Curve, Label, px
from kafkakit.status.decide.judgement import BrokerStatus, ClusterStatus, Health, PartName
from kafkakit.status.decide.objects import TopicRow, is_read

ROWS_OF_A_PAGE, FINDINGS_OF_A_PAGE = 50, 25
MOST_QUERY = 1_000
"""Characters of a filter: each link of a list repeats it."""
MOST_LINK = 1_000
"""Characters of an address: what has a longer one is shown without a link, so that a page of them stays small."""
MOST_TAGS_OF_ROW, MOST_TAGS = 3, 60
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TagList:
    """The tags of one object, those with an address lead to the list of all that have it; `more` are left out."""

    tags: Sequence[Link]
    more: int = 0


Cell = str | int | Link | PageMark | Meter | TagList | None
Rows = list[Sequence[Cell]]


@dataclass(frozen=True, slots=True)
class PageColumn:
    """A column; `priority` 1 is always shown, 2 from 420 pixels on and 3 from 640; `sort` is its key in the address."""

    title: str
    numeric: bool = False
    priority: int = 1
    sort: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UiTable:
    """Rows; `address` is what its headings keep of the list's own when they sort it."""

    caption: str
    columns: Sequence[PageColumn]
    rows: Sequence[Sequence[Cell]]
    empty: str = ""
    address: "Address | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pager:
    """Where one is in a list that is longer than a page."""

    first: int
    last: int
    total: int
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProblem:
    """Why a query has no answer: in words, and the part of its text that is meant between what is around it."""

    message: str
    hint: str = ""
    before: str = ""
    bad: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Whether one object matches a query and which parts decide it; before a name was asked for it is empty."""

    label: str
    name: str = ""
    answer: str = ""
    reasons: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The filters of a list: the text, and words to choose from, each with its address; `kept` goes with a new text.

    `example` and `keys` are of a list that takes queries.
    """

    text: str
    choices: Sequence[tuple[str, str, bool]]
    kept: Sequence[tuple[str, str]] = ()
    example: str = ""
    keys: Sequence[str] = ()
    problem: QueryProblem | None = None
    notes: Sequence[str] = ()
    explanation: Explanation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSection:
    """One part of a page; what is empty is not shown."""

    id: str
    title: str = ""
    words: Sequence[str] = ()
    tiles: Sequence[tuple[str, str, str]] = ()
    facts: Sequence[tuple[str, Cell]] = ()
    findings: Sequence[tuple[Finding, str]] = ()
    choices: Sequence[tuple[str, str, bool]] = ()
    search: Search | None = None
    table: UiTable | None = None
    pager: Pager | None = None
    chart: Chart | None = None
    grid: Sequence[tuple[str, str, str]] = ()
    more: Link | None = None
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
    """The lag of each group at a time, in seconds if `is_time`, else in records; None or left out: not known then."""

    at: datetime
    lag: Mapping[str, float | None]
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
    short: Sequence[int | None] = ()

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
    explain: str = ""

    def query(self, **changes: str | int) -> str:
        """The query of this address with other values; defaults are left out."""
        values = {**dict(self.kept()), "page": self.page, "explain": self.explain, **changes}
        return "&".join(f"{k}={uri_part(str(v))}" for k, v in values.items() if v not in ("", 1))

    def kept(self, *without: str) -> list[tuple[str, str]]:
        """The fields of a form that leads to this list again, but those that it asks for itself."""
        values = {"q": self.text, "state": self.state, "sort": self.sort}
        return [(name, value) for name, value in values.items() if value and name not in without]


START = Address()


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFrame:
    """What stands around a page: the links to others, and whether a login just failed.

    `version` is the number of readings that were there before the page was made.
    """

    nav: Sequence[tuple[str, str]] = ()
    is_fleet: bool = False
    failed: bool = False
    version: int = 0


def read_address(query: Mapping[str, str]) -> Address:
    """The address of a list; what cannot be meant is left out."""
    page = query.get("page", "1")
    number = int(page) if page.isascii() and page.isdigit() and len(page) < 8 else 1
    return Address(
        text=query.get("q", "")[:MOST_QUERY],
        state=query.get("state", "")[:40],
        sort=query.get("sort", "")[:40],
        page=max(1, number),
        explain=query.get("explain", "").strip()[:249],
    )


def rows_of_page(
    rows: Sequence[object], address: Address, kept: str = "", most: int = ROWS_OF_A_PAGE
) -> tuple[slice, Pager | None]:
    """The rows of a page, and the way to the pages beside it, as addresses from this one, which have `kept` too."""
    total = len(rows)
    if total <= most:
        return slice(0, total), None
    pages = -(-total // most)
    page = min(address.page, pages)
    first = (page - 1) * most
    last = min(total, first + most)
    before = f"?{kept}{address.query(page=page - 1)}" if page > 1 else ""
    after = f"?{kept}{address.query(page=page + 1)}" if page < pages else ""
    return slice(first, last), Pager(first=first + 1, last=last, total=total, before=before, after=after)


def cut_words(total: int, shown: int) -> Sequence[str]:
    """That a list is cut; nothing for one that is not."""
    return [f"The first {shown:,} of {total:,} are shown."] if total > shown else ()


# -- pictures


def sparkline(title: str, values: Sequence[float | None], *, width: int = 600, height: int = 120) -> Chart:
    """A line over time that begins at zero, with its last and its largest value; what is not known is a gap in it."""
    top = max((v for v in values if v is not None), default=0.0) or 1.0
    step = (width - 80) / max(1, len(values) - 1)
    places = [
        (8 + step * i, None if v is None else height - 20 - v * (height - 40) / top) for i, v in enumerate(values)
    ]
    parts = [[(px(x), px(y)) for x, y in part if y is not None]
             for is_known, part in groupby(places, lambda place: place[1] is not None) if is_known]  # fmt: skip
    last, at = values[-1] if values else None, places[-1][1] if places else None
    labels = [Label(UNKNOWN if last is None else f"{last:,.6g}", px(width - 66), px((at or height - 20) + 4)),
              Label(f"max {top:,.6g}", px(8), px(14), "start", "axis")]  # fmt: skip
    has_gaps = any(v is None for v in values)
    return Chart(
        title=title,
        width=width,
        height=height,
        curves=[Curve(part, "la", "a" if len(part) == 1 else "") for part in parts],
        labels=labels,
        note="A gap in the line: it was not known then." if has_gaps else "",
    )


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


def cell_link(text: str, href: str) -> Cell:
    """A link, or only the text where its address would be too long."""
    return Link(text, href) if len(href) <= MOST_LINK else text


def partition_link(view: ClusterView, topic: str, partition: int) -> Cell:
    """A partition with the way to its page."""
    return cell_link(f"{topic}/{partition}", link_to(view, "topics", topic, str(partition)))


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


def throttle_words(status: ClusterStatus | None, row: BrokerStatus, none: str) -> str:
    """The rates of a broker; none only where it was asked."""
    is_known = status is not None and is_read(status.reading, row, PartName.THROTTLES)
    return row.throttle or (none if is_known else UNKNOWN)


def disk_meter(row: BrokerStatus) -> Meter:
    """How full a broker's fullest log dir is."""
    share = row.fullest
    if share is None:
        return Meter(share=None, words=UNKNOWN, severity="unknown")
    severity = "error" if share >= 0.9 else "warning" if share >= 0.85 else "ok"
    return Meter(share=share, words=f"{share:.0%}", severity=severity)


# -- queries and tags

NOT_READ = "not read yet"
TAGS_COLUMN = PageColumn("Tags", False, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryFacts:
    """What lists and queries look at beside a reading, each None where it is not known, with the reason.

    `rows` have settings and, where a query looks at them, sizes; they are read only for queries.
    """

    tags: TagSet | None = None
    tags_error: str = NOT_READ
    rows: Mapping[str, TopicRow] | None = None
    rows_error: str = NOT_READ

    @property
    def tags_words(self) -> Sequence[str]:
        """That tags are not known, and why."""
        return () if self.tags is not None else [f"Tags are not known: {self.tags_error}."]

    def topic_tags(self, name: str) -> Mapping[str, str] | None:
        """The tags of a topic."""
        return None if self.tags is None else self.tags.topics.get(name, {})

    def broker_tags(self, number: int) -> Mapping[str, str] | None:
        """The tags of a broker."""
        return None if self.tags is None else self.tags.brokers.get(number, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAnswer:
    """The names that a query finds, or why it has no answer."""

    names: frozenset[str] = frozenset()
    problem: QueryProblem | None = None
    notes: Sequence[str] = ()
    explanation: Explanation | None = None


_MARKS = re.compile(r"[\s=<>~!()\"']")


def query_in(text: str) -> str | None:
    """The query that the filter of a list holds, None for a part of a name, which has no spaces and operators."""
    found = query_of(text)
    return found if found is not None else text if _MARKS.search(text.strip()) else None


def query_needs(text: str) -> tuple[bool, bool]:
    """Whether a query looks at settings or sizes of topics, which a reading does not have: (any of these, sizes)."""
    query = query_in(text)
    try:
        keys = keys_of(parse_query(query)) if query is not None else frozenset[str]()
    except UsageError:
        return False, False
    has_sizes = "bytes" in keys
    return has_sizes or any(key.startswith(CONFIG) for key in keys), has_sizes


def answer_query(
    query: str, noun: str, table: ObjectTable, own: Collection[str], missing: Mapping[str, str], asked: str = ""
) -> QueryAnswer:
    """What a query finds among the objects of a table, and why the one that is `asked` for is found or not.

    `missing` says of keys why nothing is known of them now, under "" of tags: a query that looks at one has no answer.
    """
    label = f"{'Id' if 'id' in own else 'Name'} of a {noun}"
    try:
        node = parse_query(query)
        for key in sorted(keys_of(node)):
            why = missing.get("" if is_tag_key(key, own) else CONFIG if key.startswith(CONFIG) else key)
            if why:
                return QueryAnswer(problem=QueryProblem(message=f"{key} is not known now: {why}"))
        unknown = unknown_keys(node, table, own)
        for key, near in unknown:
            if near is not None:
                return QueryAnswer(
                    problem=_at_key(query, key, f"no {noun} here has {key}", f"did you mean {near}?"),
                )
        return QueryAnswer(
            names=frozenset(names_matching(node, table)),
            notes=[f"No {noun} has the tag {key}." for key, _ in unknown],
            explanation=_explain_one(node, noun, table, asked, label),
        )
    except QueryError as error:
        return QueryAnswer(problem=_problem_at(query, error.column - 1, 1, error.message, error.hint or ""))
    except UsageError as error:
        return QueryAnswer(problem=QueryProblem(message=error.message, hint=error.hint or ""))


def is_tag_key(key: str, own: Collection[str]) -> bool:
    """Whether a key can only be a tag."""
    return key not in own and not key.startswith(CONFIG)


def _at_key(query: str, key: str, message: str, hint: str) -> QueryProblem:
    text = key_text(key)
    at = query.find(text)
    return _problem_at(query, at, len(text), message, hint) if at >= 0 else QueryProblem(message=message, hint=hint)


def _problem_at(query: str, at: int, length: int, message: str, hint: str) -> QueryProblem:
    before, bad, after = query[max(0, at - 60) : at], query[at : at + length] or " ", query[at + length : at + 60]
    return QueryProblem(message=message, hint=hint, before=before, bad=bad, after=after)


def _explain_one(node: Node, noun: str, table: ObjectTable, asked: str, label: str) -> Explanation:
    if not asked:
        return Explanation(label=label)
    if asked not in table.names:
        return Explanation(label=label, name=asked, answer=f"There is no {noun} {asked}.")
    matches, reasons = explain(node, table, table.names.index(asked))
    verb = "matches" if matches else "does not match"
    return Explanation(label=label, name=asked, answer=f"{noun.capitalize()} {asked} {verb}:", reasons=reasons)


def tag_cell(tags: Mapping[str, str] | None, path: str = "") -> Cell:
    """The tags of one object: of a row the first few, and with the `path` of a list each with its address there."""
    if tags is None:
        return UNKNOWN
    most, longest = (MOST_TAGS, 120) if path else (MOST_TAGS_OF_ROW, 40)
    links = []
    for key, value in list(tags.items())[:most]:
        href = f"{path}?{Address(text=f'{key_text(key)} = {QueryLiteral(value)}').query()}" if path else ""
        text = f"{key}={value}"
        shown = text if len(text) <= longest else f"{text[: longest - 1]}\u2026"
        links.append(Link(shown, href if len(href) <= MOST_LINK else ""))
    return TagList(tags=links, more=max(0, len(tags) - most)) if links else "-"


def search_of(
    address: Address,
    choices: Sequence[tuple[str, str, bool]],
    example: str,
    keys: Sequence[str],
    answer: QueryAnswer | None,
) -> Search:
    """The filter of a list that takes queries, with what came of the query in it."""
    return Search(
        text=address.text,
        choices=choices,
        kept=address.kept("q"),
        example=example,
        keys=keys,
        problem=answer.problem if answer else None,
        notes=answer.notes if answer else (),
        explanation=answer.explanation if answer else None,
    )


def more_findings(view: ClusterView, count: int) -> Link | None:
    """Where the findings are that a page leaves out."""
    return Link(f"{count:,} more", link_to(view, "findings")) if count > 0 else None
