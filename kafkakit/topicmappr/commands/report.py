"""`--report FILE`: the plan as one page for a browser."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkakit.core.plan import Plan
    from kafkakit.topicmappr.show.page.charts import FrontierPoint


def write_report(
    plan: "Plan", path: Path | None, next_command: str | None = None, frontier: "Sequence[FrontierPoint]" = ()
) -> None:
    """Write the page to `path`; nothing when that is None. `frontier` adds what other bands would cost."""
    if path is None:
        return
    from kafkakit.topicmappr.show.page.page import report_page
    from kafkakit.wiring import write_file

    write_file(path, report_page(plan, next_command=next_command, frontier=frontier))
