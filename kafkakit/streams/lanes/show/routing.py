"""Where sampled records would go."""

from collections.abc import Sequence

from kafkakit.core.printable import printable
from kafkakit.core.quantities import counted
from kafkakit.core.tables import text_table
from kafkakit.report.report import Report
from kafkakit.streams.lanes.decide.samples import LaneShare
from kafkakit.streams.model.route import Route

RULE_COLUMNS = ("rule", "lane", "where")
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


def rules_report(before: Route, route: Route) -> Report:
    """The rules of a route, and whether they are other ones than `before`; with the same epoch they are not written."""
    rows = tuple((number, rule.lane, rule.where) for number, rule in enumerate(route.rules, 1))
    is_changed, differs = route.epoch != before.epoch, route.rules != before.rules
    said = "replaced" if is_changed else "not replaced; these would be the rules" if differs else "as they are"
    shown = [(number, lane, printable(where)) for number, lane, where in rows]
    table = text_table(RULE_COLUMNS, shown) if rows else "No rules: every record goes to lane live.\n"
    return Report(
        command="streams lane rules",
        data={
            "stream": route.stream,
            "epoch": route.epoch,
            "changed": is_changed,
            "before": [{"lane": rule.lane, "where": rule.where} for rule in before.rules],
            "rules": [{"lane": rule.lane, "where": rule.where} for rule in route.rules],
        },
        text=f"stream {route.stream}, epoch {route.epoch}: {counted(len(rows), 'rule')}, {said}\n\n{table}",
        columns=RULE_COLUMNS,
        rows=rows,
    )
