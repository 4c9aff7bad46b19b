"""`--report`: one self-contained page about a plan, for people who did not make it.

No script, nothing from the network (a content security policy says so), nothing but text that was escaped:
topic names, racks and notes come from outside. The page is bounded in size whatever the plan's.
"""

from collections.abc import Sequence

from kafkakit.core.plan import Plan
from kafkakit.report.markup import html_page
from kafkakit.topicmappr.decide.frontier.trace import FrontierPoint
from kafkakit.topicmappr.show.page.figures import broker_rows, rack_rows, totals_of
from kafkakit.topicmappr.show.page.sections import certificate_section, foot, head, next_section, remarks_section
from kafkakit.topicmappr.show.page.tables import (
    brokers_section,
    dir_moves_section,
    frontier_section,
    moves_section,
    racks_section,
)


def report_page(plan: Plan, *, next_command: str | None = None, frontier: Sequence[FrontierPoint] = ()) -> bytes:
    """The page as UTF-8; the same plan gives the same bytes. O(moves + brokers), below 2 MB.

    `next_command` is the line that carries the plan out, None when the plan was not saved.
    """
    rows = broker_rows(plan)
    body = [
        head(plan, totals_of(plan)),
        remarks_section(plan),
        certificate_section(plan),
        brokers_section(rows, frozenset(b.id for b in plan.brokers)),
        racks_section(rack_rows(rows)),
        frontier_section(frontier),
        moves_section(plan),
        dir_moves_section(plan),
        next_section(plan, next_command),
        foot(plan),
    ]
    title = f"{plan.request.get('command', 'plan')} on {plan.cluster_id}"
    return html_page(title, body)
