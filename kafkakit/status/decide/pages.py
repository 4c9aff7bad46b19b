"""What each page of `kafkakit ui` shows: a title that is a sentence, and sections, from readings that do not change.

A page shows the command that would make a change, and makes none. Lists are filtered, sorted and paged here, so that a
page stays small however large the cluster is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kafkakit.core.findings import Finding, Severity
from kafkakit.core.model import Broker
from kafkakit.core.quantities import count_of, format_bytes, format_rough_time
from kafkakit.core.query import Column, flag_column, number_column, object_table, text_column
from kafkakit.core.text import shell_command
from kafkakit.execution.decide.status import StatusView
from kafkakit.report.pages import cut_text
from kafkakit.status.decide.judgement import BrokerStatus, ClusterStatus, Health, PartName, overall
from kafkakit.status.decide.objects import is_read
from kafkakit.status.decide.page_parts import (
    FINDINGS_OF_A_PAGE,
    NOT_READ,
    START,
    TAGS_COLUMN,
    UNKNOWN,
    Address,
    Cell,
    ClusterView,
    Link,
    Meter,
    PageColumn,
    PageMark,
    PageSection,
    QueryAnswer,
    QueryFacts,
    Rows,
    UiPage,
    UiTable,
    answer_query,
    broker_severity,
    cell_link,
    cut_words,
    disk_meter,
    link_to,
    more_findings,
    number_text,
    page_of,
    partition_link,
    query_in,
    rows_of_page,
    search_of,
    size_text,
    sparkline,
    tag_cell,
    throttle_words,
    with_ages,
)
from kafkakit.status.decide.surroundings import moves_words
from kafkakit.streams.model.route import Route

MOST_IN_RACKS, MOST_FINDINGS, MOST_NOTES, MOST_TITLE, MOST_RACK = 100, 10, 5, 120, 60
BrokerFacts = tuple[BrokerStatus, Broker | None]
"""What a query on brokers looks at: a row, and the broker as the cluster lists it."""


def fleet_page(views: Sequence[ClusterView], address: Address = START) -> UiPage:
    """All clusters, worst first."""
    order = list(Health)
    known = [(v, v.health) for v in views]
    known.sort(key=lambda pair: (-order.index(pair[1]), pair[0].name))
    bad, unread = (sum(health is each for _, health in known) for each in (Health.ERROR, Health.UNKNOWN))
    told = [f"{bad} with errors"] if bad else []
    told += [f"{unread} not known"] if unread else []
    title = f"{count_of(len(views), 'cluster')}: {', '.join(told) or 'no errors'}"
    columns = [
        PageColumn("Cluster"),
        PageColumn("Health"),
        PageColumn("Brokers", True, 2),
        PageColumn("Offline", True),
        PageColumn("Under min ISR", True, 2),
        PageColumn("Under-replicated", True, 3),
        PageColumn("Fullest disk", True, 3),
        PageColumn("Worst", False, 2),
    ]
    rows: Rows = []
    part, pager = rows_of_page(known, address)
    for view, health in known[part]:
        counts = view.status.counts if view.status else None
        rows.append(
            [
                cell_link(view.name, view.base or "/"),
                PageMark(health.value, health.value),
                _alive(view.status),
                UNKNOWN if counts is None else counts.offline,
                UNKNOWN if counts is None else counts.under_min_isr,
                UNKNOWN if counts is None else counts.under_replicated,
                _fullest(view.status),
                view.failure or (view.status.worst if view.status else ""),
            ]
        )
    worst = overall([v.status for v in views if v.status is not None]) if views else Health.OK
    health = Health.UNKNOWN if any(h is Health.UNKNOWN for _, h in known) and worst is not Health.ERROR else worst
    table = UiTable(caption="Clusters, worst first", columns=columns, rows=rows, empty="No cluster is watched.")
    return UiPage(
        title=title, active="fleet", sections=[PageSection(id="clusters", table=table, pager=pager)], health=health
    )


def _alive(status: ClusterStatus | None) -> str:
    if status is None or status.reading.info is None:
        return UNKNOWN
    return f"{sum(row.state == 'alive' for row in status.brokers)}/{len(status.brokers)}"


def _fullest(status: ClusterStatus | None) -> str:
    known = [row.fullest for row in (status.brokers if status else ()) if row.fullest is not None]
    return f"{max(known):.0%}" if known else UNKNOWN


def overview_page(view: ClusterView) -> UiPage:
    """What is wrong, the figures of each part, and the brokers by rack."""
    status = view.status
    if status is None:
        return page_of(view, f"{view.name}: not read yet", "", ())
    told = [f for f in status.findings if f.severity is not Severity.NOTE]
    notes = [f for f in status.findings if f.severity is Severity.NOTE]
    sections = [
        PageSection(
            id="findings",
            title="What is wrong" if told else "",
            findings=with_ages(status, told[:MOST_FINDINGS]),
            more=more_findings(view, len(told) - MOST_FINDINGS),
            words=() if told or status.unread or view.health is Health.UNKNOWN else ["Nothing is wrong."],
        ),
        PageSection(id="figures", tiles=_tiles(view, status)),
        PageSection(
            id="racks",
            title="Brokers by rack",
            words=cut_words(len(status.brokers), MOST_IN_RACKS),
            table=_rack_table(view, status),
        ),
    ]
    if any(view.short) or None in view.short:
        sections.append(
            PageSection(
                id="trend",
                title="Under-replicated partitions lately",
                chart=sparkline("Under-replicated partitions, oldest reading first", view.short),
            )
        )
    if status.unread:
        unread = [f"{part.name.value}: {part.error}" for part in status.unread]
        sections.append(PageSection(id="unread", title="Not known", words=unread))
    if notes:
        sections.append(
            PageSection(
                id="notes",
                title="Worth knowing",
                findings=with_ages(status, notes[:MOST_NOTES]),
                more=more_findings(view, len(notes) - MOST_NOTES),
            )
        )
    services = [one.words(status.reading.at) for one in status.reading.services or ()]
    if services:
        sections.append(PageSection(id="services", title="Services of kafkakit", words=services))
    if status.ignored:
        sections.append(PageSection(id="ignored", words=[f"Findings: {status.ignored_words}."]))
    return page_of(view, overview_title(view, status), "", sections)


def overview_title(view: ClusterView, status: ClusterStatus) -> str:
    """The worst that is true, in a sentence; what an earlier reading found is not what is true now."""
    name = view.name
    if view.health is Health.UNKNOWN and status.health is not Health.UNKNOWN:
        return f"{name}: not known; {view.failure or 'the cluster does not answer'}"
    errors = [f for f in status.findings if f.severity is Severity.ERROR]
    warnings = [f for f in status.findings if f.severity is Severity.WARNING]
    if errors:
        return f"{name}: {count_of(len(errors), 'error')}; {_brief(errors[0])}"
    if status.health is Health.UNKNOWN:
        return f"{name}: not known; {status.worst}"
    if warnings:
        return f"{name}: {count_of(len(warnings), 'warning')}; {_brief(warnings[0])}"
    return f"{name}: {status.unread_words}" if status.unread else f"{name} is healthy"


def _brief(finding: Finding) -> str:
    """A finding in a title: with its rule, which says what the message is about, and without long names."""
    text = f"{finding.rule}: {finding.message}"
    return text if len(text) <= MOST_TITLE else f"{text[:MOST_TITLE]}\u2026"


def _tiles(view: ClusterView, status: ClusterStatus) -> list[tuple[str, str, str]]:
    """Figures as (value, label, address)."""
    counts, reading = status.counts, status.reading
    moves = reading.moves
    lease = moves.around.lease if moves else None
    is_known = moves is not None and (lease is None or lease.is_known)
    lock = UNKNOWN if not is_known else "held" if lease is not None and lease.is_in_use else "free"
    return [
        (_alive(status), "brokers alive", link_to(view, "brokers")),
        (UNKNOWN if counts is None else number_text(counts.total), "partitions", link_to(view, "topics")),
        (
            UNKNOWN if counts is None else number_text(counts.offline),
            "offline",
            link_to(view, "topics") + "?state=offline",
        ),
        (
            UNKNOWN if counts is None else number_text(counts.under_min_isr),
            "under min ISR",
            link_to(view, "topics") + "?state=short",
        ),
        (
            UNKNOWN if counts is None else number_text(counts.under_replicated),
            "under-replicated",
            link_to(view, "topics") + "?state=short",
        ),
        (_fullest(status), "fullest disk", link_to(view, "brokers") + "?sort=disk"),
        (
            UNKNOWN if moves is None else number_text(len(moves.moves) + len(moves.inside)),
            "moves",
            link_to(view, "moves"),
        ),
        (UNKNOWN if reading.groups is None else number_text(len(reading.groups)), "groups", link_to(view, "groups")),
        (lock, "lock", link_to(view, "moves")),
    ]


def _rack_table(view: ClusterView, status: ClusterStatus) -> UiTable:
    columns = [
        PageColumn("Rack"),
        PageColumn("Broker", True),
        PageColumn("State"),
        PageColumn("Leaders", True, 3),
        PageColumn("Disk", False, 2),
    ]
    rows: Rows = []
    for row in sorted(status.brokers, key=lambda row: (row.rack or "", row.id)):
        state = PageMark(row.state, broker_severity(row))
        rows.append(
            [
                cut_text(row.rack or "-", MOST_RACK),
                Link(str(row.id), link_to(view, "brokers", str(row.id))),
                state,
                number_text(row.leaders),
                disk_meter(row),
            ]
        )
    return UiTable(caption="Brokers by rack", columns=columns, rows=rows[:MOST_IN_RACKS], empty="No broker is known.")


_BROKER_SORTS: Mapping[str, Callable[[BrokerStatus], tuple[float, int]]] = {
    "disk": lambda row: (-(row.fullest or 0.0), row.id),
    "leaders": lambda row: (-float(row.leaders or 0), row.id),
    "replicas": lambda row: (-float(row.replicas or 0), row.id),
    "state": lambda row: (0.0 if row.state != "alive" else 1.0, row.id),
}


BROKER_COLUMNS = (
    PageColumn("Broker", True),
    PageColumn("Rack", False, 2),
    PageColumn("State", sort="state"),
    PageColumn("Leaders", True, 2, "leaders"),
    PageColumn("Replicas", True, 3, "replicas"),
    PageColumn("Not in sync", True, 2),
    PageColumn("Fullest disk", False, 1, "disk"),
    PageColumn("Used", True, 3),
    PageColumn("Throttle", False, 3),
    PageColumn("Certificate", False, 3),
)
_BROKER_KEYS: Mapping[str, Callable[[Sequence[BrokerFacts]], Column]] = {
    "id": lambda brokers: number_column([row.id for row, _ in brokers]),
    "host": lambda brokers: text_column([(listed and listed.host) or None for _, listed in brokers]),
    "port": lambda brokers: number_column([(listed and listed.port) or None for _, listed in brokers]),
    "rack": lambda brokers: text_column([row.rack or None for row, _ in brokers]),
    "state": lambda brokers: text_column([None if row.state == UNKNOWN else row.state for row, _ in brokers]),
    "is_alive": lambda brokers: flag_column([None if b is None else b.is_alive for _, b in brokers]),
    "free_bytes": lambda brokers: number_column([_free_bytes(row) for row, _ in brokers]),
    "total_bytes": lambda brokers: number_column([row.total_bytes for row, _ in brokers]),
    "replicas": lambda brokers: number_column([row.replicas for row, _ in brokers]),
    "leaders": lambda brokers: number_column([row.leaders for row, _ in brokers]),
}
_VERSION = "interbrokerprotocolversion"
BROKER_EXAMPLE = "rack = a and free_bytes < 100GiB"


def _free_bytes(row: BrokerStatus) -> int | None:
    known = row.total_bytes is not None and row.used_bytes is not None
    return (row.total_bytes or 0) - (row.used_bytes or 0) if known else None


def _broker_answer(status: ClusterStatus, facts: QueryFacts, address: Address) -> QueryAnswer | None:
    """What the query of the filter finds; None where it is a part of an id or rack."""
    query, reading = query_in(address.text), status.reading
    if query is None:
        return None
    info = {b.id: b for b in reading.info.brokers} if reading.info else {}
    brokers = [(row, info.get(row.id)) for row in status.brokers]
    own = {**_BROKER_KEYS, _VERSION: lambda _: text_column([(reading.versions or {}).get(r.id) for r, _ in brokers])}
    tags = facts.tags.brokers if facts.tags else {}
    table = object_table([str(row.id) for row, _ in brokers], brokers, own, lambda b: tags.get(b[0].id, {}))
    missing = {"": facts.tags_error if facts.tags is None else ""}
    if reading.partitions is None:
        missing |= dict.fromkeys(("replicas", "leaders"), reading.failure_of(PartName.PARTITIONS) or NOT_READ)
    if reading.disks is None:
        missing |= dict.fromkeys(("free_bytes", "total_bytes"), reading.failure_of(PartName.DISK) or NOT_READ)
    if reading.versions is None:
        missing[_VERSION] = reading.failure_of(PartName.VERSIONS) or NOT_READ
    return answer_query(query, "broker", table, own, missing, address.explain)


def brokers_page(view: ClusterView, address: Address, facts: QueryFacts) -> UiPage:
    """All brokers: racks, disks, leaders, throttles and tags."""
    if view.status is None:
        return page_of(view, f"Brokers of {view.name}", "brokers", ())
    status, text = view.status, address.text.strip()
    answer = _broker_answer(status, facts, address)
    rows = list(status.brokers)
    if answer is not None:
        rows = [row for row in rows if str(row.id) in answer.names]
    elif text:
        rows = [row for row in rows if text in str(row.id) or (row.rack and text in row.rack)]
    key = _BROKER_SORTS.get(address.sort)
    rows = sorted(rows, key=key) if key else rows
    part, pager = rows_of_page(rows, address)
    has_tags = facts.tags is None or bool(facts.tags.brokers)
    made: Rows = []
    for row in rows[part]:
        until = row.certificate_until
        none = "-" if is_read(status.reading, row, PartName.CERTIFICATES) else UNKNOWN
        left = none if until is None else f"{(until - status.reading.at).days} d"
        cells: list[Cell] = [
            Link(str(row.id), link_to(view, "brokers", str(row.id))),
            row.rack or "-",
            PageMark(row.state, broker_severity(row)),
            number_text(row.leaders),
            number_text(row.replicas),
            number_text(row.short),
            disk_meter(row),
            size_text(row.used_bytes),
            throttle_words(status, row, "-"),
            left,
        ]
        if has_tags:
            cells.append(tag_cell(facts.broker_tags(row.id)))
        made.append(cells)
    down = sum(row.state != "alive" for row in status.brokers)
    title = f"{count_of(len(status.brokers), 'broker')} of {view.name}: {f'{down} not alive' if down else 'all alive'}"
    table = UiTable(
        caption=count_of(len(rows), "broker"),
        columns=[*BROKER_COLUMNS, TAGS_COLUMN] if has_tags else BROKER_COLUMNS,
        rows=made,
        empty="" if answer and answer.problem else "No broker fits.",
        address=address,
    )
    search = search_of(address, (), BROKER_EXAMPLE, (*_BROKER_KEYS, _VERSION), answer)
    return page_of(
        view,
        title,
        "brokers",
        [PageSection(id="list", words=facts.tags_words, search=search, table=table, pager=pager)],
    )


def moves_page(view: ClusterView, address: Address = START) -> UiPage:
    """The moves that run, with how much is copied, whose they are, and the throttles that are set."""
    status = view.status
    moves = status.reading.moves if status else None
    if status is None or moves is None:
        return page_of(
            view, f"Moves of {view.name}", "moves", [PageSection(id="list", words=["The moves are not known."])]
        )
    program = status.reading.program
    commands = [
        str(shell_command("reassign status", program=program, watch=True)),
        str(shell_command("reassign cleanup", program=program, all=True)),
    ]
    sections = [
        _copies_section(view, moves, address),
        _runs_section(moves),
        _throttles_section(view, status.reading.rates),
        PageSection(id="next", title="Commands", commands=commands),
    ]
    is_running = bool(moves.moves or moves.inside)
    return page_of(view, f"{view.name}: {moves_words(moves) if is_running else 'nothing moves'}", "moves", sections)


def _copies_section(view: ClusterView, moves: StatusView, address: Address) -> PageSection:
    columns = [
        PageColumn("Partition"),
        PageColumn("To", True),
        PageColumn("State"),
        PageColumn("Copied"),
        PageColumn("Rate", True, 2),
        PageColumn("Run", False, 3),
    ]
    rows: Rows = []
    copies = [(move, copy) for move in moves.moves for copy in move.copies]
    part, pager = rows_of_page(copies, address)
    for move, copy in copies[part]:
        share = copy.copied_bytes / copy.total_bytes if copy.total_bytes and copy.copied_bytes is not None else None
        words = UNKNOWN if share is None else f"{share:.0%} of {size_text(copy.total_bytes)}"
        rows.append(
            [
                partition_link(view, move.move.topic, move.move.partition),
                str(copy.broker),
                PageMark(copy.state.words, "warning" if copy.state.value == "stalled" else "note"),
                Meter(share=share, words=words, severity="ok"),
                "-" if copy.bytes_per_s is None else f"{format_bytes(round(copy.bytes_per_s))}/s",
                move.run or "another tool or host",
            ]
        )
    table = UiTable(caption="Copies that are being made", columns=columns, rows=rows, empty="Nothing moves.")
    return PageSection(id="moves", table=table, pager=pager)


def _runs_section(moves: StatusView) -> PageSection:
    if not moves.runs:
        return PageSection(id="runs")
    columns = [
        PageColumn("Run"),
        PageColumn("State"),
        PageColumn("Moves", True),
        PageColumn("ETA", True),
        PageColumn("Left", True, 2),
    ]
    rows: Rows = []
    for run in moves.runs:
        eta = "-" if run.eta_s is None else format_rough_time(run.eta_s)
        word = "working" if run.working else "paused" if run.paused else "not finished"
        rows.append([run.name, word, str(run.moves), eta, size_text(run.left_bytes)])
    return PageSection(id="runs", title="Runs of this host", table=UiTable(caption="Runs", columns=columns, rows=rows))


def _throttles_section(view: ClusterView, rates: Mapping[int, Mapping[str, str]] | None) -> PageSection:
    if not rates:
        return PageSection(id="throttles", title="Throttles", words=["Not known." if rates is None else "None is set."])
    columns = [PageColumn("Broker", True), PageColumn("Rates")]
    rows: Rows = [
        [Link(str(b), link_to(view, "brokers", str(b))), ", ".join(f"{k}={v}" for k, v in values.items())]
        for b, values in sorted(rates.items())[:MOST_IN_RACKS]
    ]
    return PageSection(
        id="throttles",
        title="Throttles",
        words=cut_words(len(rates), MOST_IN_RACKS),
        table=UiTable(caption="Throttles", columns=columns, rows=rows),
    )


def findings_page(view: ClusterView, severity: str, address: Address = START) -> UiPage:
    """Everything that was found, with the command of each."""
    status = view.status
    if status is None:
        return page_of(view, f"Findings of {view.name}", "findings", ())
    found = [f for f in status.findings if severity in ("", f.severity.value)]
    choices = [("all", link_to(view, "findings"), not severity)]
    choices += [(s.value, f"?severity={s.value}", s.value == severity) for s in Severity]
    part, pager = rows_of_page(found, address, f"severity={severity}&" if severity else "", FINDINGS_OF_A_PAGE)
    sections = [
        PageSection(
            id="list",
            choices=choices,
            findings=with_ages(status, found[part]),
            words=[] if found else ["No finding."],
            pager=pager,
        )
    ]
    if status.ignored:
        ignored = with_ages(status, [f for f in status.ignored if severity in ("", f.severity.value)])
        sections.append(PageSection(id="ignored", title=status.ignored_words, findings=ignored[:FINDINGS_OF_A_PAGE]))
    if status.reading.lint is None:
        live = str(shell_command("lint", program=status.reading.program, live=True))
        sections.append(
            PageSection(id="lint", title="Configuration", words=["It has not been linted from here."], commands=[live])
        )
    return page_of(view, f"{count_of(len(status.findings), 'finding')} in {view.name}", "findings", sections)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEntry:
    """A plan file of the folder that is shown."""

    name: str
    title: str
    made_at: datetime
    partitions: int


def plans_page(view: ClusterView, plans: Sequence[PlanEntry], folder: str, address: Address = START) -> UiPage:
    """The plan files of a folder, newest first; each opens with its proof."""
    if not folder:
        words = ["No folder of plans was given. To show one: kafkakit ui --plans FOLDER"]
        return page_of(view, "No plans are shown", "plans", [PageSection(id="list", words=words)])
    columns = [
        PageColumn("Plan"),
        PageColumn("What it does"),
        PageColumn("Partitions", True, 2),
        PageColumn("Made", False, 3),
    ]
    part, pager = rows_of_page(plans, address)
    rows: Rows = [
        [
            cell_link(p.name, link_to(view, "plans", p.name)),
            p.title,
            number_text(p.partitions),
            f"{p.made_at:%F %H:%M}Z",
        ]
        for p in plans[part]
    ]
    table = UiTable(caption="Plans, newest first", columns=columns, rows=rows, empty="The folder holds no plan.")
    title = f"{count_of(len(plans), 'plan')} in {folder}"
    return page_of(view, title, "plans", [PageSection(id="list", table=table, pager=pager)])


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEntry:
    """A stream: each of its lanes with where it is written now."""

    name: str
    lanes: Sequence[tuple[str, str]]
    operation: str = ""


def stream_entry(route: Route) -> StreamEntry:
    """A stream of the control store."""
    lanes = []
    for lane in route.lanes:
        active = lane.active
        place = "nowhere: it is paused" if active is None else f"{active.topic} on {active.cluster}"
        lanes.append((lane.name, place))
    return StreamEntry(name=route.stream, lanes=lanes, operation=route.operation.kind if route.operation else "")


def streams_page(
    view: ClusterView, streams: Sequence[StreamEntry] | None, error: str = "", address: Address = START
) -> UiPage:
    """The streams that the profile's control store knows, with their lanes and clusters."""
    if streams is None:
        return page_of(
            view, f"Streams of {view.name}", "streams", [PageSection(id="list", words=[error or "Not known."])]
        )
    rows: Rows = [
        [s.name, lane, place, PageMark(s.operation, "note") if s.operation else "-"]
        for s in streams
        for lane, place in s.lanes
    ]
    part, pager = rows_of_page(rows, address)
    table = UiTable(
        caption="Lanes of streams",
        columns=[PageColumn("Stream"), PageColumn("Lane"), PageColumn("Written to"), PageColumn("Under way", False, 2)],
        rows=rows[part],
        empty="There is no stream. To make one: kafkakit streams create NAME",
    )
    return page_of(
        view,
        f"{count_of(len(streams), 'stream')} of {view.name}" if streams else f"{view.name} has no streams",
        "streams",
        [PageSection(id="list", table=table, pager=pager)],
    )


def missing_page(view: ClusterView | None, words: str) -> UiPage:
    """What there is not, with the way back."""
    section = PageSection(id="missing", words=[words])
    if view is None:
        return UiPage(title="There is no such page", active="", sections=[section], status=404)
    return page_of(view, "There is no such page", "missing", [section], status=404)


def failed_page(view: ClusterView, words: str, active: str) -> UiPage:
    """A page that could not be read now."""
    return page_of(
        view, f"{view.name}: this could not be read", active, [PageSection(id="failed", words=[words])], status=503
    )
