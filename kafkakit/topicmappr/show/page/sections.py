"""The page of a plan, and its parts on the plan as a whole: head, proof, warnings, what to do next.

The page (`--report`) is self-contained, for people who did not make the plan. No script, nothing from the network (a
content security policy says so), nothing but text that was escaped: topic names, racks and notes come from outside. It
is bounded in size whatever the plan's.
"""

from collections.abc import Sequence

from kafkakit.core.certificate import BrokerLimit, Certificate, GroupLimit, SolverStatus
from kafkakit.core.lists_in_words import some
from kafkakit.core.plan import Plan
from kafkakit.core.quantities import counted, format_bytes
from kafkakit.report.markup import Html, card_row, el, html_page, join, table, text
from kafkakit.topicmappr.decide.frontier.trace import FrontierPoint
from kafkakit.topicmappr.show.page.figures import Totals, broker_rows, rack_rows, request_words, totals_of
from kafkakit.topicmappr.show.page.tables import (
    brokers_section,
    dir_moves_section,
    frontier_section,
    moves_section,
    racks_section,
)

_MOST_LINES = 100
_MOST_LIMITS = 30
_TIME = "%Y-%m-%d %H:%M:%S UTC"


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
    ("share", "what a broker would use if all were equally full: by capacity, where disks are unlike"),
    ("preferred leader", "the first replica of a partition's list, which Kafka makes its leader"),
    ("price", "by how much the lower bound falls when the limit is relaxed by one unit"),
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
    caption = f"The limits that the bound rests on{moving}, dearest first ({len(rows)} of {len(priced)})"
    return table(caption, (("Brokers", True), ("Limit", False), (shown.load, True), ("Price", True)), rows)


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
