"""Where sampled records would go."""

from collections.abc import Sequence

from kafkakit.core.printable import printable
from kafkakit.core.quantities import counted
from kafkakit.core.tables import text_table
from kafkakit.report.report import Report
from kafkakit.streams.lanes.decide.samples import LaneShare

COLUMNS = ("lane", "rule", "records", "share", "where")


def routing_report(shares: Sequence[LaneShare], source: str) -> Report:
    """The records of each rule, and of those that no rule matches; `source` names the rules."""
    total = sum(share.records for share in shares)
    lanes: dict[str, int] = {}
    for share in shares:
        lanes[share.lane] = lanes.get(share.lane, 0) + share.records
    rows = [
        (
            share.lane,
            "none" if share.rule is None else str(share.rule),
            f"{share.records:,}",
            f"{100 * share.records / total:.1f}%" if total else "-",
            printable(share.where),
        )
        for share in shares
    ]
    return Report(
        command="streams lane route",
        data={
            "rules": source,
            "records": total,
            "lanes": lanes,
            "by_rule": [
                {"lane": s.lane, "rule": s.rule, "where": s.where or None, "records": s.records} for s in shares
            ],
        },
        text=f"{counted(total, 'record')} by the rules of {printable(source)}\n\n{text_table(COLUMNS, rows)}",
        columns=("lane", "rule", "records", "where"),
        rows=tuple((s.lane, s.rule, s.records, s.where or None) for s in shares),
    )
