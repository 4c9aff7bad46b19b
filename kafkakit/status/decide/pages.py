"""What each page of `kafkakit ui` shows: a title that is a sentence, and sections, from readings that do not change.

A page shows the command that would make a change, and makes none. Lists are filtered, sorted and paged here, so that a
page stays small however large the cluster is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from kafkakit.core.findings import Severity
from kafkakit.core.quantities import count_of, format_bytes, format_rough_time
from kafkakit.core.text import shell_command
from kafkakit.execution.decide.status import StatusView
from kafkakit.status.decide.judgement import BrokerStatus, ClusterStatus, Health, overall
from kafkakit.status.decide.page_parts import (
    UNKNOWN,
    Address,
    Cell,
    ClusterView,
    Link,
    Meter,
    PageColumn,
    PageMark,
    PageSection,
    Rows,
    Search,
    UiPage,
    UiTable,
    broker_severity,
    cut_words,
    disk_meter,
    link_to,
    number_text,
    page_of,
    rows_of_page,
    size_text,
    sparkline,
    with_ages,
)
from kafkakit.status.decide.surroundings import moves_words
from kafkakit.streams.model.route import Route

MOST_IN_RACKS, MOST_ROWS = 200, 500


def fleet_page(views: Sequence[ClusterView]) -> UiPage:
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
    for view, health in known:
        counts = view.status.counts if view.status else None
        rows.append(
            (
                view.name,
                [
                    Link(view.name, view.base or "/"),
                    PageMark(health.value, health.value),
                    _alive(view.status),
                    UNKNOWN if counts is None else counts.offline,
                    UNKNOWN if counts is None else counts.under_min_isr,
                    UNKNOWN if counts is None else counts.under_replicated,
                    _fullest(view.status),
                    view.failure or (view.status.worst if view.status else ""),
                ],
            )
        )
    worst = overall([v.status for v in views if v.status is not None]) if views else Health.OK
    health = Health.UNKNOWN if any(h is Health.UNKNOWN for _, h in known) and worst is not Health.ERROR else worst
    table = UiTable(caption="Clusters, worst first", columns=columns, rows=rows, empty="No cluster is watched.")
    return UiPage(title=title, active="fleet", sections=[PageSection(id="clusters", table=table)], health=health)


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
            findings=with_ages(status, told),
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
    if any(view.short):
        sections.append(
            PageSection(
                id="trend",
                title="Under-replicated partitions lately",
                chart=sparkline("Under-replicated partitions, oldest reading first", [float(n) for n in view.short]),
            )
        )
    if status.unread:
        unread = [f"{part.name.value}: {part.error}" for part in status.unread]
        sections.append(PageSection(id="unread", title="Not known", words=unread))
    if notes:
        sections.append(PageSection(id="notes", title="Worth knowing", findings=with_ages(status, notes)))
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
        return f"{name}: {count_of(len(errors), 'error')}; {errors[0].message}"
    if status.health is Health.UNKNOWN:
        return f"{name}: not known; {status.worst}"
    if warnings:
        return f"{name}: {count_of(len(warnings), 'warning')}; {warnings[0].message}"
    return f"{name}: {status.unread_words}" if status.unread else f"{name} is healthy"


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
            (
                str(row.id),
                [
                    row.rack or "-",
                    Link(str(row.id), link_to(view, "brokers", str(row.id))),
                    state,
                    number_text(row.leaders),
                    disk_meter(row),
                ],
            )
        )
    return UiTable(caption="Brokers by rack", columns=columns, rows=rows[:MOST_IN_RACKS], empty="No broker is known.")


_BROKER_SORTS: Mapping[str, Callable[[BrokerStatus], tuple[float, int]]] = {
    "disk": lambda row: (-(row.fullest or 0.0), row.id),
    "leaders": lambda row: (-float(row.leaders or 0), row.id),
    "replicas": lambda row: (-float(row.replicas or 0), row.id),
    "state": lambda row: (0.0 if row.state != "alive" else 1.0, row.id),
}


def brokers_page(view: ClusterView, address: Address) -> UiPage:
    """All brokers: racks, disks, leaders and throttles."""
    if view.status is None:
        return page_of(view, f"Brokers of {view.name}", "brokers", ())
    status = view.status
    rows = [row for row in status.brokers if address.text in str(row.id) or (row.rack and address.text in row.rack)]
    key = _BROKER_SORTS.get(address.sort)
    rows = sorted(rows, key=key) if key else rows
    path = link_to(view, "brokers")
    part, pager = rows_of_page(rows, address, path)
    columns = [
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
    ]
    made: Rows = []
    for row in rows[part]:
        until = row.certificate_until
        left = "-" if until is None else f"{(until - status.reading.at).days} d"
        made.append(
            (
                str(row.id),
                [
                    Link(str(row.id), link_to(view, "brokers", str(row.id))),
                    row.rack or "-",
                    PageMark(row.state, broker_severity(row)),
                    number_text(row.leaders),
                    number_text(row.replicas),
                    number_text(row.short),
                    disk_meter(row),
                    size_text(row.used_bytes),
                    row.throttle or "-",
                    left,
                ],
            )
        )
    down = sum(row.state != "alive" for row in status.brokers)
    title = f"{count_of(len(status.brokers), 'broker')} of {view.name}: {f'{down} not alive' if down else 'all alive'}"
    table = UiTable(caption="Brokers", columns=columns, rows=made, empty="No broker is found.")
    search = Search(text=address.text, choices=())
    return page_of(view, title, "brokers", [PageSection(id="list", search=search, table=table, pager=pager)])


def moves_page(view: ClusterView) -> UiPage:
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
        _copies_section(view, moves),
        _runs_section(moves),
        _throttles_section(view, status.reading.rates),
        PageSection(id="next", title="Commands", commands=commands),
    ]
    is_running = bool(moves.moves or moves.inside)
    return page_of(view, f"{view.name}: {moves_words(moves) if is_running else 'nothing moves'}", "moves", sections)


def _copies_section(view: ClusterView, moves: StatusView) -> PageSection:
    columns = [
        PageColumn("Partition"),
        PageColumn("To", True),
        PageColumn("State"),
        PageColumn("Copied"),
        PageColumn("Rate", True, 2),
        PageColumn("Run", False, 3),
    ]
    rows: Rows = []
    for move in moves.moves[:MOST_ROWS]:
        name = f"{move.move.topic}/{move.move.partition}"
        for copy in move.copies:
            share = copy.copied_bytes / copy.total_bytes if copy.total_bytes and copy.copied_bytes is not None else None
            words = UNKNOWN if share is None else f"{share:.0%} of {size_text(copy.total_bytes)}"
            severity = "warning" if copy.state.value == "stalled" else "note"
            cells: list[Cell] = [
                Link(name, link_to(view, "topics", move.move.topic, str(move.move.partition))),
                str(copy.broker),
                PageMark(copy.state.words, severity),
                Meter(share=share, words=words, severity="ok"),
                "-" if copy.bytes_per_s is None else f"{format_bytes(round(copy.bytes_per_s))}/s",
                move.run or "another tool or host",
            ]
            rows.append((f"{name}-{copy.broker}", cells))
    table = UiTable(caption="Copies that are being made", columns=columns, rows=rows, empty="Nothing moves.")
    return PageSection(id="moves", words=cut_words(len(moves.moves), MOST_ROWS), table=table)


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
        rows.append((run.id, [run.name, word, str(run.moves), eta, size_text(run.left_bytes)]))
    return PageSection(id="runs", title="Runs of this host", table=UiTable(caption="Runs", columns=columns, rows=rows))


def _throttles_section(view: ClusterView, rates: Mapping[int, Mapping[str, str]] | None) -> PageSection:
    if not rates:
        return PageSection(id="throttles", title="Throttles", words=["Not known." if rates is None else "None is set."])
    columns = [PageColumn("Broker", True), PageColumn("Rates")]
    rows: Rows = [
        (str(b), [Link(str(b), link_to(view, "brokers", str(b))), ", ".join(f"{k}={v}" for k, v in values.items())])
        for b, values in rates.items()
    ]
    return PageSection(
        id="throttles", title="Throttles", table=UiTable(caption="Throttles", columns=columns, rows=rows)
    )


def findings_page(view: ClusterView, severity: str) -> UiPage:
    """Everything that was found, with the command of each."""
    status = view.status
    if status is None:
        return page_of(view, f"Findings of {view.name}", "findings", ())
    path = link_to(view, "findings")
    found = [f for f in status.findings if severity in ("", f.severity.value)]
    choices = [("all", path, not severity)]
    choices += [(s.value, f"{path}?severity={s.value}", s.value == severity) for s in Severity]
    sections = [
        PageSection(
            id="list",
            search=Search(text="", choices=choices),
            findings=with_ages(status, found),
            words=[] if found else ["No finding."],
        )
    ]
    if status.ignored:
        ignored = with_ages(status, [f for f in status.ignored if severity in ("", f.severity.value)])
        sections.append(PageSection(id="ignored", title=status.ignored_words, findings=ignored))
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


def plans_page(view: ClusterView, plans: Sequence[PlanEntry], folder: str) -> UiPage:
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
    rows: Rows = [
        (
            p.name,
            [
                Link(p.name, link_to(view, "plans", p.name)),
                p.title,
                number_text(p.partitions),
                f"{p.made_at:%F %H:%M}Z",
            ],
        )
        for p in plans
    ]
    table = UiTable(caption="Plans, newest first", columns=columns, rows=rows, empty="The folder holds no plan.")
    title = f"{count_of(len(plans), 'plan')} in {folder}"
    return page_of(view, title, "plans", [PageSection(id="list", table=table)])


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


def streams_page(view: ClusterView, streams: Sequence[StreamEntry] | None, error: str = "") -> UiPage:
    """The streams that the profile's control store knows, with their lanes and clusters."""
    if streams is None:
        return page_of(
            view, f"Streams of {view.name}", "streams", [PageSection(id="list", words=[error or "Not known."])]
        )
    rows: Rows = [
        (f"{s.name}/{lane}", [s.name, lane, place, PageMark(s.operation, "note") if s.operation else "-"])
        for s in streams
        for lane, place in s.lanes
    ]
    table = UiTable(
        caption="Lanes of streams",
        columns=[PageColumn("Stream"), PageColumn("Lane"), PageColumn("Written to"), PageColumn("Under way", False, 2)],
        rows=rows[:MOST_ROWS],
        empty="There is no stream. To make one: kafkakit streams create NAME",
    )
    return page_of(
        view,
        f"{count_of(len(streams), 'stream')} of {view.name}",
        "streams",
        [PageSection(id="list", words=cut_words(len(rows), MOST_ROWS), table=table)],
    )


def missing_page(view: ClusterView | None, words: str) -> UiPage:
    """What there is not, with the way back."""
    section = PageSection(id="missing", words=[words])
    if view is None:
        return UiPage(title="There is no such page", active="", sections=[section], status=404)
    return page_of(view, "There is no such page", "", [section], status=404)


def failed_page(view: ClusterView, words: str, active: str) -> UiPage:
    """A page that could not be read now."""
    return page_of(
        view, f"{view.name}: this could not be read", active, [PageSection(id="failed", words=[words])], status=503
    )
