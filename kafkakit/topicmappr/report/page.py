"""The page of a plan (`--report`), self-contained, for people who did not make the plan.

No script, nothing from the network (a content security policy says so), nothing but text that was escaped: topic names,
racks and notes come from outside. It is bounded in size, however large the plan is.

Its parts: head, proof, warnings and what to do next; figures worked out of the plan (loads per broker and rack before
and after, copies in and out); lists and drawings of brokers, racks, moves, moves between log dirs, loads, the frontier.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kafkakit.core.plan import BrokerLimit, BrokerLoad, Certificate, GroupLimit, Move, Plan, SolverStatus
from kafkakit.core.quantities import counted, format_bytes
from kafkakit.core.text import some
from kafkakit.report.pages import Area, Html, card_row, el, html_page, join, px, round_top, svg, table, text
from kafkakit.topicmappr.decide.frontier import FrontierPoint

_MOST_LINES = 100
_MOST_LIMITS = 30
_TIME = "%Y-%m-%d %H:%M:%S UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What the plan moves: bytes are None when a size is unknown, `reordered` lists change without a copy."""

    partitions: int
    copies: int
    bytes_moved: int | None
    reordered: int
    dir_moves: int


def head(plan: Plan, totals: Totals) -> Html:
    """What was asked of which cluster, when, and the figures that matter most."""
    command, flags = request_words(plan.request)
    words = [(f"--{name}", el("code", text(value, 300))) for name, value in flags[:_MOST_LINES]]
    size = format_bytes(totals.bytes_moved)
    proof = plan.certificate
    cards = [
        (f"{totals.partitions:,}", "partitions change"),
        (f"{totals.copies:,}", "replicas to copy"),
        (size if totals.bytes_moved is not None else "unknown", "bytes to copy"),
        (_unit_amount(proof, proof.lower_bound), "proven lower bound"),
        (_gap_words(proof), "gap to the bound"),
    ]
    if totals.dir_moves:
        cards.append((f"{totals.dir_moves:,}", "moves between log dirs"))
    return join(
        [
            el("h1", f"kafkakit {command}"),
            el("p", "Cluster ", el("code", plan.cluster_id), f", planned from {plan.snapshot_source} ",
               f"as of {plan.snapshot_taken_at.strftime(_TIME)}", class_="soft"),
            card_row(cards),
            el("dl", *(part for name, value in words for part in (el("dt", name), el("dd", value)))) if words else None,
        ]
    )  # fmt: skip


def _unit_amount(proof: Certificate, value: int) -> str:
    return (
        format_bytes(value)
        if proof.unit == "bytes"
        else f"{value:,} {proof.unit if value != 1 else proof.unit.removesuffix('s')}"
    )


_SMALL_GAP = 0.01
_WORDS = (
    ("lower bound", "the least that any plan can cost within the same limits; it is proven, not estimated"),
    ("gap", "by how much the plan costs more than the lower bound, in percent of its own cost"),
    ("band", "how far a broker may be from its share of the used space, in percent of that share"),
    ("share", "what a broker would use if all were equally full: by capacity, if disk sizes differ"),
    ("preferred leader", "the first replica of a partition's list, which Kafka makes its leader"),
    ("cost per unit", "by how much the lower bound falls when the limit is relaxed by one unit"),
)


def words_section() -> Html:
    """What the words of the page mean."""
    return el(
        "section",
        el("h2", "Words"),
        el("dl", *(part for word, meaning in _WORDS for part in (el("dt", word), el("dd", meaning)))),
    )


def _gap_words(proof: Certificate) -> str:
    return "0 (optimal)" if proof.status is SolverStatus.OPTIMAL else f"{proof.gap * 100:.3g} %"


def certificate_section(plan: Plan) -> Html:
    """Why no plan can cost less, with the brokers whose limits carry the proof."""
    proof = plan.certificate
    optimal = proof.status is SolverStatus.OPTIMAL
    line = (
        f"The plan costs {_unit_amount(proof, proof.objective)}; no plan can cost less than "
        f"{_unit_amount(proof, proof.lower_bound)}."
    )
    return el(
        "section",
        el("h2", "Proof"),
        el("p", line, " ", el("b", "Nothing cheaper exists." if optimal else f"The gap is {_gap_words(proof)}.",
                              class_="good" if optimal or proof.gap <= _SMALL_GAP else None)),
        el("p", "Why: ", text(proof.argument, 3000)),
        _limits(proof),
    )  # fmt: skip


def _limits(proof: Certificate) -> Html | None:
    """The limits with a price, of single brokers and of groups."""
    shown = proof.proof
    if shown is None:
        return None
    priced: list[tuple[str, BrokerLimit | GroupLimit]] = [(str(item.broker), item) for item in shown.limits]
    priced += [(some(item.brokers), item) for item in shown.groups]
    priced = sorted((row for row in priced if row[1].price), key=lambda row: -abs(row[1].price))
    if not priced:
        return None
    rows = []
    for name, item in priced[:_MOST_LIMITS]:
        bound = item.ceiling if item.price > 0 else item.floor
        size = "none" if bound is None else format_bytes(bound) if shown.load == "bytes" else f"{bound:,}"
        rows.append((name, "at most" if item.price > 0 else "at least", size, f"{item.price / shown.price_unit:.3g}"))
    moving = ", all shifting together" if shown.slides else ""
    caption = f"Constraints that determine the lower bound{moving}, most expensive first ({len(rows)} of {len(priced)})"
    return table(caption, (("Brokers", True), ("Limit", False), (shown.load, True), ("Cost per unit", True)), rows)


def warnings_section(plan: Plan) -> Html | None:
    """What must be known before the plan is carried out; None when there is nothing."""
    if not plan.warnings:
        return None
    return el("section", el("h2", "Warnings"), el("div", _lines(plan.warnings, "warning"), class_="box"))


def notes_section(plan: Plan) -> Html | None:
    """What may be of interest; None when there is nothing."""
    return el("section", el("h2", "Notes"), _lines(plan.notes, "note")) if plan.notes else None


def _lines(lines: Sequence[str], what: str) -> Html:
    more = len(lines) - _MOST_LINES
    return el(
        "ul",
        *(el("li", text(line)) for line in lines[:_MOST_LINES]),
        el("li", f"and {counted(more, what)} more") if more > 0 else None,
    )


def next_section(plan: Plan, next_command: str | None) -> Html:
    """How to carry the plan out, and how to take it back."""
    nothing = not plan.moves and not plan.dir_moves
    rollback = next_command.replace(" reassign apply ", " reassign rollback ", 1) if next_command else None
    if nothing:
        body = el("p", "There is nothing to carry out: the cluster is as the plan wants it.")
    elif next_command is None:
        body = el(
            "p", "The plan was not saved. Run the command again with --plan FILE to get a file that can be applied."
        )
    else:
        body = join(
            [
                el("p", "Carry the plan out. The cluster is read again first, and one that has changed is refused:"),
                el("pre", text(next_command, 2000)),
                el("p", "Take it back, at any time, also in the middle: the plan file holds every old replica list."),
                el("pre", text(rollback, 2000)),
            ]
        )  # fmt: skip
    return el("section", el("h2", "Next"), body)


def foot(plan: Plan) -> Html:
    """What a reader needs to find the plan again."""
    storage = plan.storage
    sizes = f" Sizes: {storage.source}, {storage.age_s} s old." if storage else ""
    return el("footer", el("p", "Fingerprint ", el("code", plan.fingerprint), f".{sizes}", class_="soft"))


def report_page(plan: Plan, *, next_command: str | None = None, frontier: Sequence[FrontierPoint] = ()) -> bytes:
    """The page as UTF-8; the same plan gives the same bytes. O(moves + brokers), below 2 MB.

    `next_command` is the line that carries the plan out, None when the plan was not saved.
    """
    rows = broker_rows(plan)
    body = [
        head(plan, totals_of(plan)),
        warnings_section(plan),
        certificate_section(plan),
        brokers_section(rows, frozenset(b.id for b in plan.brokers)),
        racks_section(rack_rows(rows)),
        frontier_section(frontier),
        moves_section(plan),
        dir_moves_section(plan),
        next_section(plan, next_command),
        words_section(),
        notes_section(plan),
        foot(plan),
    ]
    title = f"{plan.request.get('command', 'plan')} on {plan.cluster_id}"
    return html_page(title, body)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRow:
    """One broker before and after; None for a side on which it has no row, `copies_in` counts new copies."""

    broker: int
    rack: str | None
    before: BrokerLoad
    after: BrokerLoad
    copies_in: int
    copies_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RackRow:
    """One rack before and after: (replicas, leaders, bytes); bytes are None when one of them is unknown."""

    rack: str | None
    brokers: int
    before: tuple[int, int, int | None]
    after: tuple[int, int, int | None]


@dataclass(frozen=True, slots=True)
class Measure:
    """A load to show: its title, its values before and after in the order of the rows, its unit.

    `over` are the positions that the range is told of; None: all.
    """

    title: str
    before: tuple[int, ...]
    after: tuple[int, ...]
    unit: str
    over: frozenset[int] | None = None


def broker_rows(plan: Plan) -> tuple[BrokerRow, ...]:
    """Every broker of the plan, by id. O(brokers + moves)."""
    before = {load.broker: load for load in plan.before.brokers}
    after = {load.broker: load for load in plan.after.brokers}
    into: Counter[int] = Counter()
    out: Counter[int] = Counter()
    for move in plan.moves:
        into.update(move.adding)
        out.update(move.removing)
    rows = []
    for broker in sorted({*before, *after}):
        old = before.get(broker) or _empty(after[broker])
        new = after.get(broker) or _empty(before[broker])
        rows.append(
            BrokerRow(
                broker=broker,
                rack=new.rack or old.rack,
                before=old,
                after=new,
                copies_in=into[broker],
                copies_out=out[broker],
            )
        )
    return tuple(rows)


def _empty(like: BrokerLoad) -> BrokerLoad:
    return BrokerLoad(broker=like.broker, rack=like.rack, replicas=0, leaders=0, bytes=0)


def rack_rows(rows: Sequence[BrokerRow]) -> tuple[RackRow, ...]:
    """Brokers summed up by rack; those without one come last."""
    members: dict[str | None, list[BrokerRow]] = defaultdict(list)
    for row in rows:
        members[row.rack].append(row)
    ordered = sorted(members, key=lambda rack: (rack is None, rack or ""))
    return tuple(
        RackRow(
            rack=rack,
            brokers=len(members[rack]),
            before=_sum([row.before for row in members[rack]]),
            after=_sum([row.after for row in members[rack]]),
        )
        for rack in ordered
    )


def _sum(loads: Sequence[BrokerLoad]) -> tuple[int, int, int | None]:
    sizes = [load.bytes for load in loads]
    known = None if None in sizes else sum(s for s in sizes if s is not None)
    return sum(load.replicas for load in loads), sum(load.leaders for load in loads), known


def totals_of(plan: Plan) -> Totals:
    """Count what moves. O(moves)."""
    copies = reordered = 0
    size: int | None = 0
    for move in plan.moves:
        adding = len(move.adding)
        copies += adding
        reordered += not adding and not move.removing
        if adding:
            size = None if size is None or move.bytes_moved is None else size + move.bytes_moved
    return Totals(
        partitions=len(plan.moves),
        copies=copies,
        bytes_moved=size,
        reordered=reordered,
        dir_moves=len(plan.dir_moves),
    )


def largest_moves(moves: Sequence[Move], most: int) -> list[Move]:
    """The moves that copy the most bytes, then those of unknown size, then those that copy nothing."""

    def rank(move: Move) -> tuple[bool, int, str, int]:
        size = -1 if move.bytes_moved is None else move.bytes_moved
        return (not move.adding, -size, move.topic, move.partition)

    return sorted(moves, key=rank)[:most]


def measures_of(rows: Sequence[BrokerRow], targets: frozenset[int]) -> tuple[Measure, ...]:
    """Replicas, leaders, and the best that is known of bytes: share of disk used, bytes used, or bytes in scope.

    Ranges are told of the `targets`, since brokers that are emptied would hide how even the others are.
    """
    over = frozenset(k for k, row in enumerate(rows) if row.broker in targets)
    found = [
        _measure("Replicas", rows, lambda load: load.replicas, "count", over),
        _measure("Preferred leaders", rows, lambda load: load.leaders, "count", over),
    ]
    loads = [load for row in rows for load in (row.before, row.after)]
    if loads and all(load.used_bytes is not None and load.capacity_bytes for load in loads):
        found.append(_measure("Disk used, share of capacity", rows, _share, "permille", over))
    elif loads and all(load.used_bytes is not None for load in loads):
        found.append(_measure("Disk used", rows, lambda load: load.used_bytes or 0, "bytes", over))
    elif any(load.bytes for load in loads) and all(load.bytes is not None for load in loads):
        found.append(_measure("Bytes of these topics", rows, lambda load: load.bytes or 0, "bytes", over))
    return tuple(found)


def _measure(
    title: str, rows: Sequence[BrokerRow], value: Callable[[BrokerLoad], int], unit: str, over: frozenset[int]
) -> Measure:
    return Measure(title, tuple(value(row.before) for row in rows), tuple(value(row.after) for row in rows), unit, over)


def _share(load: BrokerLoad) -> int:
    return (load.used_bytes or 0) * 1000 // (load.capacity_bytes or 1)


def request_words(request: Mapping[str, str]) -> tuple[str, list[tuple[str, str]]]:
    """The command and its flags, sorted."""
    return request.get("command", "plan"), sorted((k, v) for k, v in request.items() if k != "command")


MOST_BARS = 40
_MOST_POINTS = 1000
_WIDTH, _HEIGHT = 440, 230
_GAP = 5
_LEAST_BAR = 3


def amount(value: int, unit: str) -> str:
    """A value in its unit: a count, bytes, or tenths of a percent."""
    if unit == "bytes":
        return format_bytes(value)
    return f"{value / 10:.1f} %" if unit == "permille" else f"{value:,}"


def load_chart(measure: Measure, names: Sequence[str]) -> Html:
    """Before and after for each broker or rack: bars for up to forty of them, else the loads in falling order."""
    drawn = _bars(measure, names) if len(names) <= MOST_BARS else _curves(measure)
    return el("figure", el("figcaption", measure.title), drawn, el("p", _range_words(measure), class_="soft"))


def _range_words(measure: Measure) -> str:
    """The ranges before and after; where it is measured over some brokers only, it says so."""

    def span(values: Sequence[int]) -> str:
        inside = [v for k, v in enumerate(values) if measure.over is None or k in measure.over]
        low, high = (amount(f(inside, default=0), measure.unit) for f in (min, max))
        return f"{low} to {high}"

    partly = measure.over is not None and len(measure.over) < len(measure.before)
    where = f" (the {len(measure.over or ())} brokers that remain targets)" if partly else ""
    return f"before {span(measure.before)}, after {span(measure.after)}{where}"


def _bars(measure: Measure, names: Sequence[str]) -> Html:
    top = max((*measure.before, *measure.after, 1))
    labels = [
        f"{amount(old, measure.unit)} \u2192 {amount(new, measure.unit)}" if old != new else amount(new, measure.unit)
        for old, new in zip(measure.before, measure.after, strict=True)
    ]
    # Digits are about six and a half units wide at this font size.
    room = _WIDTH - 96 - 8 - 6.5 * max((len(label) for label in labels), default=0)
    parts = []
    for k, (name, old, new) in enumerate(zip(names, measure.before, measure.after, strict=True)):
        y = 22 * k + 2
        parts += [
            el("text", _short(name), x=90, y=y + 13, text_anchor="end"),
            el("rect", x=96, y=y + 1, width=_bar(old, room / top), height=7, class_="b"),
            el("rect", x=96, y=y + 9, width=_bar(new, room / top), height=9, class_="a"),
            el("text", labels[k], x=px(100 + max(old, new) * room / top), y=y + 14),
        ]
    return svg(_WIDTH, 22 * max(1, len(names)) + 4, f"{measure.title}, before and after", parts)


def _bar(value: int, scale: float) -> str:
    """The width of a bar; what is not nothing can be seen."""
    return px(max(value * scale, _LEAST_BAR) if value > 0 else 0)


def _short(name: str) -> str:
    return name if len(name) <= 14 else f"{name[:13]}\u2026"


def _curves(measure: Measure) -> Html:
    area = _area(
        max(1, min(len(measure.before), _MOST_POINTS) - 1), max((*measure.before, *measure.after, 1)), measure.unit
    )
    shapes = area.grid(lambda value: amount(value, measure.unit), _GAP)
    for values, mark in ((measure.before, "lb"), (measure.after, "la")):
        shapes += area.line(list(enumerate(_falling(values))), mark)
    shapes += area.ends("fullest broker", "emptiest")
    return svg(_WIDTH, _HEIGHT, f"{measure.title} in falling order, before and after", shapes)


def _area(reach: float, most: int, unit: str) -> Area:
    top = round_top(most, unit)
    return Area(width=_WIDTH, height=_HEIGHT, left=58, right=10, top=10, bottom=26, reach=reach, most=top)


def _falling(values: Sequence[int]) -> list[int]:
    """At most a thousand of the values, the largest first."""
    ordered = sorted(values, reverse=True)
    count = min(len(ordered), _MOST_POINTS)
    return [ordered[k * (len(ordered) - 1) // max(1, count - 1)] for k in range(count)]


def frontier_plot(points: Sequence[FrontierPoint]) -> Html:
    """Bytes to move against the band, and below it the proven bound."""
    low, high = min(p.band_percent for p in points), max(p.band_percent for p in points)
    area = _area(high - low or 1.0, max((*(p.moved_bytes for p in points), 1)), "bytes")
    shapes = [
        *area.grid(lambda value: amount(value, "bytes"), _GAP),
        *area.line([(p.band_percent - low, p.bound_bytes) for p in points], "lb dash", "b"),
        *area.line([(p.band_percent - low, p.moved_bytes) for p in points], "la", "a"),
        *area.ends(f"band {low:g} %", f"{high:g} %"),
    ]
    return svg(_WIDTH, _HEIGHT, "Bytes to move for each band, with the proven lower bound", shapes)


SHOWN_MOVES = 500
_SHOWN_BROKERS = 2000
_SHOWN_IDS = 12
_KEY = el(
    "p",
    el("span", Html('<i class="kb"></i>'), "before"),
    el("span", Html('<i class="ka"></i>'), "after"),
    class_="key",
)


def brokers_section(rows: Sequence[BrokerRow], targets: frozenset[int]) -> Html:
    """Charts of what every broker carries, and the same as a table."""
    names = [str(row.broker) for row in rows]
    charts = [load_chart(measure, names) for measure in measures_of(rows, targets)]
    listed = _broker_table(rows)
    if len(rows) > MOST_BARS:
        listed = el("details", el("summary", f"All {len(rows)} brokers as a table"), listed)
    return el("section", el("h2", "Brokers"), _KEY, el("div", *charts, class_="charts"), listed)


def _broker_table(rows: Sequence[BrokerRow]) -> Html:
    used = any(row.before.used_bytes is not None for row in rows)
    head = [("Broker", True), ("Rack", False), ("Replicas", True), ("after", True), ("Leaders", True), ("after", True),
            ("Copies in", True), ("out", True), ("Bytes of these topics", True), ("after", True)]  # fmt: skip
    if used:
        head += [("Disk used", True), ("after", True), ("Capacity", True)]
    body = []
    for row in rows[:_SHOWN_BROKERS]:
        old, new = row.before, row.after
        counts = (old.replicas, new.replicas, old.leaders, new.leaders, row.copies_in, row.copies_out)
        cells: list[str] = [str(row.broker), text(row.rack or "none", 60), *(f"{n:,}" for n in counts)]
        cells += [_size(old.bytes), _size(new.bytes)]
        if used:
            cells += [_size(old.used_bytes), _size(new.used_bytes), _size(new.capacity_bytes)]
        body.append(cells)
    more = f", the first {_SHOWN_BROKERS}" if len(rows) > _SHOWN_BROKERS else ""
    return table(f"Each broker before and after, within the plan's topics{more}", head, body)


def _size(value: int | None) -> str:
    return "unknown" if value is None else format_bytes(value)


def racks_section(rows: Sequence[RackRow]) -> Html:
    """What every rack carries."""
    shown = rows[:200]
    names = [row.rack or "none" for row in shown]
    replicas = (tuple(r.before[0] for r in shown), tuple(r.after[0] for r in shown))
    leaders = (tuple(r.before[1] for r in shown), tuple(r.after[1] for r in shown))
    measures = [
        Measure("Replicas by rack", *replicas, "count"),
        Measure("Preferred leaders by rack", *leaders, "count"),
    ]
    if all(r.before[2] is not None and r.after[2] is not None for r in shown):
        pair = (tuple(r.before[2] or 0 for r in shown), tuple(r.after[2] or 0 for r in shown))
        measures.append(Measure("Bytes by rack", *pair, "bytes"))
    head = (("Rack", False), ("Brokers", True), ("Replicas", True), ("after", True), ("Leaders", True), ("after", True),
            ("Bytes", True), ("after", True))  # fmt: skip
    body = [
        (text(r.rack or "none", 60), str(r.brokers), f"{r.before[0]:,}", f"{r.after[0]:,}", f"{r.before[1]:,}",
         f"{r.after[1]:,}", _size(r.before[2]), _size(r.after[2]))
        for r in shown
    ]  # fmt: skip
    more = f", the first {len(shown)} of {len(rows)}" if len(rows) > len(shown) else ""
    charts = el("div", *(load_chart(m, names) for m in measures), class_="charts")
    return el("section", el("h2", "Racks"), _KEY, charts, table(f"Each rack before and after{more}", head, body))


def moves_section(plan: Plan) -> Html:
    """The partitions that change, those with the most bytes first."""
    if not plan.moves:
        return el("section", el("h2", "Moves"), el("p", "No replica list changes."))
    shown = largest_moves(plan.moves, SHOWN_MOVES)
    rest = len(plan.moves) - len(shown)
    head = (("Topic", False), ("Partition", True), ("Before", False), ("After", False), ("To copy", True),
            ("Bytes", True))  # fmt: skip
    body = [
        (text(m.topic, 120), str(m.partition), _ids(m.before), _ids(m.after), str(len(m.adding)),
         _size(m.bytes_moved) if m.adding else "0 B")
        for m in shown
    ]  # fmt: skip
    more = f"; {rest:,} smaller not shown, they are in the plan file" if rest else ""
    caption = f"{counted(len(shown), 'partition')} of {len(plan.moves):,}, the largest first{more}"
    return el("section", el("h2", "Moves"), table(caption, head, body))


def _ids(replicas: Sequence[int]) -> str:
    more = f", \u2026 ({len(replicas)})" if len(replicas) > _SHOWN_IDS else ""
    return ", ".join(map(str, replicas[:_SHOWN_IDS])) + more


def dir_moves_section(plan: Plan) -> Html | None:
    """Copies that change their log dir inside a broker; None when there are none."""
    if not plan.dir_moves:
        return None
    shown = sorted(plan.dir_moves, key=lambda d: (-(d.size_bytes or 0), d.topic, d.partition, d.broker))[:SHOWN_MOVES]
    rest = len(plan.dir_moves) - len(shown)
    head = (("Broker", True), ("Topic", False), ("Partition", True), ("From", False), ("To", False), ("Bytes", True))
    body = [
        (str(d.broker), text(d.topic, 120), str(d.partition), text(d.source_dir, 120), text(d.target_dir, 120),
         _size(d.size_bytes))
        for d in shown
    ]  # fmt: skip
    more = f"; {rest} smaller ones not shown" if rest else ""
    caption = f"{counted(len(shown), 'copy', 'copies')} of {len(plan.dir_moves)}, the largest first{more}"
    return el("section", el("h2", "Moves between log dirs"), table(caption, head, body))


def frontier_section(points: Sequence[FrontierPoint]) -> Html | None:
    """What other bands would cost; None when they were not worked out."""
    if not points:
        return None
    ordered = sorted(points, key=lambda p: p.band_percent)
    head = (("Band", True), ("Bytes to move", True), ("Lower bound", True), ("Partitions", True))
    body = [
        (f"{p.band_percent:g} %", format_bytes(p.moved_bytes), format_bytes(p.bound_bytes), str(p.moves))
        for p in ordered[:SHOWN_MOVES]
    ]
    key = el(
        "p",
        el("span", Html('<i class="ka"></i>'), "bytes to move"),
        el("span", Html('<i class="kb"></i>'), "no plan needs less"),
        class_="key",
    )
    drawn = len({point.band_percent for point in ordered}) > 1  # one dot shows nothing that the table does not
    chart = el(
        "div", el("figure", el("figcaption", "Bytes to move for each band"), frontier_plot(ordered)), class_="charts"
    )
    plot = (key, chart) if drawn else ()
    return el("section", el("h2", "What other bands cost"), *plot, table("What each band costs", head, body))
