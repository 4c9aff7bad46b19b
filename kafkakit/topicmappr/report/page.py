"""The page of a plan (`--report`), self-contained, for people who did not make the plan.

No script, nothing from the network (a content security policy says so), nothing but text that was escaped: topic names,
racks and notes come from outside. It is bounded in size, however large the plan is.

Its parts: head, proof, warnings and what to do next; figures worked out of the plan (loads per broker and rack before
and after, copies in and out); lists and drawings of brokers, racks, moves, moves between log dirs, loads, the frontier.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kafkakit.core.plan import BrokerLimit, BrokerLoad, Certificate, DirMove, GroupLimit, Move, Plan, SolverStatus
from kafkakit.core.quantities import count_of, format_bytes
from kafkakit.core.text import few_of
from kafkakit.report.pages import Area, Box, Chart, Label, PageTable, cut_text, html_page, px, round_top
from kafkakit.topicmappr.decide.frontier import FrontierPoint

_MOST_LINES = 100
_MOST_LIMITS = 30
_SMALL_GAP = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What the plan moves: bytes are None when a size is unknown, `reordered` lists change without a copy."""

    partitions: int
    copies: int
    bytes_moved: int | None
    reordered: int
    dir_moves: int


def report_page(plan: Plan, *, next_command: str | None = None, frontier: Sequence[FrontierPoint] = ()) -> bytes:
    """The page as UTF-8; the same plan gives the same bytes. O(moves + brokers), below 2 MB.

    `next_command` is the line that carries the plan out, None when the plan was not saved.
    """
    totals, rows, proof = totals_of(plan), broker_rows(plan), plan.certificate
    command, options = request_words(plan.request)
    racks = rack_rows(rows)
    names = [str(row.broker) for row in rows]
    targets = frozenset(broker.id for broker in plan.brokers)
    bands = sorted(frontier, key=lambda point: point.band_percent)
    is_optimal = proof.status is SolverStatus.OPTIMAL
    return html_page(
        "plan.html",
        title=_result(plan, totals),
        plan=plan,
        most_lines=_MOST_LINES,
        command=command,
        options=options[:_MOST_LINES],
        cards=_cards(proof, totals),
        cost=_unit_amount(proof, proof.objective),
        bound=_unit_amount(proof, proof.lower_bound),
        is_near=is_optimal or proof.gap <= _SMALL_GAP,
        verdict="Nothing cheaper exists." if is_optimal else f"The gap is {_gap_words(proof)}.",
        limits=_limits(proof),
        broker_charts=[load_chart(measure, names) for measure in measures_of(rows, targets)],
        brokers=_broker_table(rows),
        broker_count=len(rows),
        has_many_brokers=len(rows) > MOST_BARS,
        rack_charts=_rack_charts(racks[:_SHOWN_RACKS]),
        racks=_rack_table(racks),
        # One dot shows nothing that the table does not.
        band_chart=frontier_plot(bands) if len({point.band_percent for point in bands}) > 1 else None,
        bands=_band_table(bands) if bands else None,
        moves=_move_table(plan.moves) if plan.moves else None,
        dir_moves=_dir_move_table(plan.dir_moves) if plan.dir_moves else None,
        next_command=next_command,
        rollback=(next_command or "").replace(" reassign apply ", " reassign rollback ", 1),
    )


def _result(plan: Plan, totals: Totals) -> str:
    """What the plan does and whether less would do, in a sentence."""
    proof = plan.certificate
    is_least = proof.status is SolverStatus.OPTIMAL
    rest = "no plan costs less" if is_least else f"the least is {_unit_amount(proof, proof.lower_bound)}"
    if not totals.partitions and not totals.dir_moves:
        return f"Nothing has to change on {plan.cluster_id}"
    if not totals.partitions:
        return f"Moving {count_of(totals.dir_moves, 'replica')} between log dirs of {plan.cluster_id}; {rest}"
    is_known = proof.unit == "bytes" and totals.bytes_moved is not None
    copies = count_of(totals.copies, "copy", "copies")
    copied = f"copies {format_bytes(totals.bytes_moved)}" if is_known else f"makes {copies}"
    return f"Changing {count_of(totals.partitions, 'partition')} of {plan.cluster_id} {copied}; {rest}"


def _cards(proof: Certificate, totals: Totals) -> list[tuple[str, str]]:
    """The figures that matter most."""
    size = "unknown" if totals.bytes_moved is None else format_bytes(totals.bytes_moved)
    cards = [
        (f"{totals.partitions:,}", "partitions change"),
        (f"{totals.copies:,}", "replicas to copy"),
        (size, "bytes to copy"),
        (_unit_amount(proof, proof.lower_bound), "proven lower bound"),
        (_gap_words(proof), "gap to the bound"),
    ]
    return [*cards, (f"{totals.dir_moves:,}", "moves between log dirs")] if totals.dir_moves else cards


def _unit_amount(proof: Certificate, value: int) -> str:
    return (
        format_bytes(value)
        if proof.unit == "bytes"
        else f"{value:,} {proof.unit if value != 1 else proof.unit.removesuffix('s')}"
    )


def _gap_words(proof: Certificate) -> str:
    return "0 (optimal)" if proof.status is SolverStatus.OPTIMAL else f"{proof.gap * 100:.3g} %"


def _limits(proof: Certificate) -> PageTable | None:
    """The limits with a price, of single brokers and of groups."""
    shown = proof.proof
    if shown is None:
        return None
    priced: list[tuple[str, BrokerLimit | GroupLimit]] = [(str(item.broker), item) for item in shown.limits]
    priced += [(few_of(item.brokers), item) for item in shown.groups]
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
    columns = (("Brokers", True), ("Limit", False), (shown.load, True), ("Cost per unit", True))
    return PageTable(caption=caption, columns=columns, rows=rows)


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
        old = before.get(broker) or _empty_load(after[broker])
        new = after.get(broker) or _empty_load(before[broker])
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


def _empty_load(like: BrokerLoad) -> BrokerLoad:
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


def load_chart(measure: Measure, names: Sequence[str]) -> Chart:
    """Before and after for each broker or rack: bars for up to forty of them, else the loads in falling order."""
    drawn = _bars(measure, names) if len(names) <= MOST_BARS else _curves(measure)
    return replace(drawn, caption=measure.title, note=_range_words(measure))


def _range_words(measure: Measure) -> str:
    """The ranges before and after; where it is measured over some brokers only, it says so."""

    def span(values: Sequence[int]) -> str:
        inside = [v for k, v in enumerate(values) if measure.over is None or k in measure.over]
        low, high = (amount(f(inside, default=0), measure.unit) for f in (min, max))
        return f"{low} to {high}"

    partly = measure.over is not None and len(measure.over) < len(measure.before)
    where = f" (the {len(measure.over or ())} brokers that remain targets)" if partly else ""
    return f"before {span(measure.before)}, after {span(measure.after)}{where}"


def _bars(measure: Measure, names: Sequence[str]) -> Chart:
    top = max((*measure.before, *measure.after, 1))
    values = [
        f"{amount(old, measure.unit)} \u2192 {amount(new, measure.unit)}" if old != new else amount(new, measure.unit)
        for old, new in zip(measure.before, measure.after, strict=True)
    ]
    # Digits are about six and a half units wide at this font size.
    room = _WIDTH - 96 - 8 - 6.5 * max((len(value) for value in values), default=0)
    boxes, labels = [], []
    for k, (name, old, new) in enumerate(zip(names, measure.before, measure.after, strict=True)):
        y = 22 * k + 2
        boxes.append(Box("96", px(y + 1), _bar(old, room / top), "7", "b"))
        boxes.append(Box("96", px(y + 9), _bar(new, room / top), "9", "a"))
        labels.append(Label(_shorten_name(name), "90", px(y + 13), "end"))
        labels.append(Label(values[k], px(100 + max(old, new) * room / top), px(y + 14)))
    height = 22 * max(1, len(names)) + 4
    title = f"{measure.title}, before and after"
    return Chart(title=title, width=_WIDTH, height=height, boxes=boxes, labels=labels)


def _bar(value: int, scale: float) -> str:
    """The width of a bar; what is not nothing can be seen."""
    return px(max(value * scale, _LEAST_BAR) if value > 0 else 0)


def _shorten_name(name: str) -> str:
    return name if len(name) <= 14 else f"{name[:13]}\u2026"


def _curves(measure: Measure) -> Chart:
    area = _area(
        max(1, min(len(measure.before), _MOST_POINTS) - 1), max((*measure.before, *measure.after, 1)), measure.unit
    )
    return Chart(
        title=f"{measure.title} in falling order, before and after",
        width=_WIDTH,
        height=_HEIGHT,
        curves=[
            *area.grid(),
            area.line(enumerate(_largest_first(measure.before)), "lb"),
            area.line(enumerate(_largest_first(measure.after)), "la"),
        ],
        labels=[
            *area.scale(lambda value: amount(value, measure.unit), _GAP),
            *area.ends("fullest broker", "emptiest"),
        ],
    )


def _area(reach: float, most: int, unit: str) -> Area:
    top = round_top(most, unit)
    return Area(width=_WIDTH, height=_HEIGHT, left=58, right=10, top=10, bottom=26, reach=reach, most=top)


def _largest_first(values: Sequence[int]) -> list[int]:
    """At most a thousand of the values, the largest first."""
    ordered = sorted(values, reverse=True)
    count = min(len(ordered), _MOST_POINTS)
    return [ordered[k * (len(ordered) - 1) // max(1, count - 1)] for k in range(count)]


def frontier_plot(points: Sequence[FrontierPoint]) -> Chart:
    """Bytes to move against the band, and below it the proven bound."""
    low, high = min(p.band_percent for p in points), max(p.band_percent for p in points)
    area = _area(high - low or 1.0, max((*(p.moved_bytes for p in points), 1)), "bytes")
    return Chart(
        title="Bytes to move for each band, with the proven lower bound",
        caption="Bytes to move for each band",
        width=_WIDTH,
        height=_HEIGHT,
        curves=[
            *area.grid(),
            area.line([(p.band_percent - low, p.bound_bytes) for p in points], "lb dash", "b"),
            area.line([(p.band_percent - low, p.moved_bytes) for p in points], "la", "a"),
        ],
        labels=[
            *area.scale(lambda value: amount(value, "bytes"), _GAP),
            *area.ends(f"band {low:g} %", f"{high:g} %"),
        ],
    )


SHOWN_MOVES = 500
_SHOWN_BROKERS = 2000
_SHOWN_RACKS = 200
_SHOWN_IDS = 12


def _broker_table(rows: Sequence[BrokerRow]) -> PageTable:
    """What every broker carries."""
    used = any(row.before.used_bytes is not None for row in rows)
    columns = [("Broker", True), ("Rack", False), ("Replicas", True), ("after", True), ("Leaders", True),
               ("after", True), ("Copies in", True), ("out", True), ("Bytes of these topics", True),
               ("after", True)]  # fmt: skip
    if used:
        columns += [("Disk used", True), ("after", True), ("Capacity", True)]
    body = []
    for row in rows[:_SHOWN_BROKERS]:
        old, new = row.before, row.after
        counts = (old.replicas, new.replicas, old.leaders, new.leaders, row.copies_in, row.copies_out)
        cells = [str(row.broker), cut_text(row.rack or "none", 60), *(f"{n:,}" for n in counts)]
        cells += [_size(old.bytes), _size(new.bytes)]
        if used:
            cells += [_size(old.used_bytes), _size(new.used_bytes), _size(new.capacity_bytes)]
        body.append(cells)
    more = f", the first {_SHOWN_BROKERS}" if len(rows) > _SHOWN_BROKERS else ""
    caption = f"Each broker before and after, within the plan's topics{more}"
    return PageTable(caption=caption, columns=columns, rows=body)


def _size(value: int | None) -> str:
    return "unknown" if value is None else format_bytes(value)


def _rack_charts(rows: Sequence[RackRow]) -> list[Chart]:
    """What every rack carries."""
    replicas = (tuple(r.before[0] for r in rows), tuple(r.after[0] for r in rows))
    leaders = (tuple(r.before[1] for r in rows), tuple(r.after[1] for r in rows))
    measures = [
        Measure("Replicas by rack", *replicas, "count"),
        Measure("Preferred leaders by rack", *leaders, "count"),
    ]
    if all(r.before[2] is not None and r.after[2] is not None for r in rows):
        pair = (tuple(r.before[2] or 0 for r in rows), tuple(r.after[2] or 0 for r in rows))
        measures.append(Measure("Bytes by rack", *pair, "bytes"))
    names = [row.rack or "none" for row in rows]
    return [load_chart(measure, names) for measure in measures]


def _rack_table(rows: Sequence[RackRow]) -> PageTable:
    shown = rows[:_SHOWN_RACKS]
    columns = (("Rack", False), ("Brokers", True), ("Replicas", True), ("after", True), ("Leaders", True),
               ("after", True), ("Bytes", True), ("after", True))  # fmt: skip
    body = [
        (cut_text(r.rack or "none", 60), r.brokers, f"{r.before[0]:,}", f"{r.after[0]:,}", f"{r.before[1]:,}",
         f"{r.after[1]:,}", _size(r.before[2]), _size(r.after[2]))
        for r in shown
    ]  # fmt: skip
    more = f", the first {len(shown)} of {len(rows)}" if len(rows) > len(shown) else ""
    return PageTable(caption=f"Each rack before and after{more}", columns=columns, rows=body)


def _move_table(moves: Sequence[Move]) -> PageTable:
    """The partitions that change, those with the most bytes first."""
    shown = largest_moves(moves, SHOWN_MOVES)
    rest = len(moves) - len(shown)
    columns = (("Topic", False), ("Partition", True), ("Before", False), ("After", False), ("To copy", True),
               ("Bytes", True))  # fmt: skip
    body = [
        (cut_text(m.topic, 120), m.partition, _ids(m.before), _ids(m.after), len(m.adding),
         _size(m.bytes_moved) if m.adding else "0 B")
        for m in shown
    ]  # fmt: skip
    more = f"; {rest:,} smaller not shown, they are in the plan file" if rest else ""
    caption = f"{count_of(len(shown), 'partition')} of {len(moves):,}, the largest first{more}"
    return PageTable(caption=caption, columns=columns, rows=body)


def _ids(replicas: Sequence[int]) -> str:
    more = f", \u2026 ({len(replicas)})" if len(replicas) > _SHOWN_IDS else ""
    return ", ".join(map(str, replicas[:_SHOWN_IDS])) + more


def _dir_move_table(moves: Sequence[DirMove]) -> PageTable:
    """Copies that change their log dir inside a broker."""
    shown = sorted(moves, key=lambda d: (-(d.size_bytes or 0), d.topic, d.partition, d.broker))[:SHOWN_MOVES]
    rest = len(moves) - len(shown)
    columns = (("Broker", True), ("Topic", False), ("Partition", True), ("From", False), ("To", False), ("Bytes", True))
    body = [
        (d.broker, cut_text(d.topic, 120), d.partition, cut_text(d.source_dir, 120), cut_text(d.target_dir, 120),
         _size(d.size_bytes))
        for d in shown
    ]  # fmt: skip
    more = f"; {rest} smaller ones not shown" if rest else ""
    caption = f"{count_of(len(shown), 'copy', 'copies')} of {len(moves)}, the largest first{more}"
    return PageTable(caption=caption, columns=columns, rows=body)


def _band_table(points: Sequence[FrontierPoint]) -> PageTable:
    """What other bands would cost."""
    columns = (("Band", True), ("Bytes to move", True), ("Lower bound", True), ("Partitions", True))
    body = [
        (f"{p.band_percent:g} %", format_bytes(p.moved_bytes), format_bytes(p.bound_bytes), p.moves)
        for p in points[:SHOWN_MOVES]
    ]
    return PageTable(caption="What each band costs", columns=columns, rows=body)
