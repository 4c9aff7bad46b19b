"""The report of an audit: what the map does, what it reaches, what that must cost, what is wrong."""

from collections.abc import Iterator

from kafkakit.core.findings import COLUMNS, FailOn, exit_code_of, finding_rows, findings_data, findings_text
from kafkakit.core.quantities import counted, format_bytes
from kafkakit.core.tables import text_table
from kafkakit.report.blocks import attributes, gap_text, section, text_of
from kafkakit.report.report import Report
from kafkakit.topicmappr.decide.audit.catalogue import BY_NAME, RULES
from kafkakit.topicmappr.decide.audit.cost import Yardstick, as_band
from kafkakit.topicmappr.decide.audit.decision import Audit
from kafkakit.topicmappr.show.plan_blocks import sizes_words

Line = tuple[object, ...]


def audit_report(audit: Audit, source: str, fail_on: FailOn) -> Report:
    """What the map does, what it reaches and must cost, and what is wrong with it."""
    return Report(
        command="topicmappr audit",
        data=audit_data(audit, source),
        text=audit_text(audit, source),
        columns=COLUMNS,
        rows=finding_rows(audit.findings),
        code=exit_code_of(audit.findings, fail_on),
    )


def audit_text(audit: Audit, source: str) -> str:
    """Everything for people, worst findings first, and what each of them risks."""
    lines = [*_head(audit, source), "", text_table(("measure", "before", "after", "best"), _measures(audit))]
    costs = _costs(audit)
    if costs:
        lines += section("The same balance at the least cost:", ())
        lines.append(text_table(("unit", "this map", "our plan", "lower bound", "gap"), costs))
        lines += [f"  {name}: {y.argument}" for name, y in _yardsticks(audit)]
    lines += ["", findings_text(audit.findings).rstrip("\n")]
    risks = dict.fromkeys(f.rule for f in audit.findings)
    if risks:
        lines += section("if it is applied:", (f"{name}: {BY_NAME[name].risk}" for name in risks))
    lines += [f"note: {note}" for note in audit.notes]
    return text_of(lines)


def _head(audit: Audit, source: str) -> list[str]:
    t = audit.tally
    size = "" if not t.copies else ", of unknown size" if t.bytes_moved is None else f", {format_bytes(t.bytes_moved)}"
    return [
        f"Audit of {source} for cluster {audit.cluster_id}",
        f"  {counted(t.entries, 'entry', 'entries')}: {t.changed} move replicas, {t.reordered} change the order only, "
        f"{t.unchanged} change nothing",
        f"  {counted(t.copies, 'copy', 'copies')} to make{size}; {counted(t.removed, 'replica')} to remove; "
        f"{counted(t.leaders_moved, 'preferred leader')} to change",
        f"  judged over {counted(len(audit.brokers), 'broker')}, {counted(audit.topics, 'topic')}, "
        f"{counted(audit.partitions, 'partition')}; {sizes_words(audit.storage)}",
    ]


def _measures(audit: Audit) -> list[Line]:
    rows: list[Line] = []
    best = audit.by_bytes.finest if audit.by_bytes else None
    if audit.free_range:
        shown = "-" if best is None or audit.banded else format_bytes(best)
        rows.append(("range of free bytes", *map(format_bytes, audit.free_range), shown))
    if audit.used_range:
        rows.append(("range of used bytes", *map(format_bytes, audit.used_range), "-"))
    if audit.band:
        shown = "-" if best is None or not audit.banded else f"{as_band(best):.4g}%"
        rows.append(("band of used bytes", *(f"{as_band(b):.4g}%" for b in audit.band), shown))
    old, new = audit.before, audit.after
    rows.append(("replicas a broker", f"{old.replicas_min} to {old.replicas_max}",
                 f"{new.replicas_min} to {new.replicas_max}", "-"))  # fmt: skip
    rows.append(("leaders a broker", f"{old.leaders_min} to {old.leaders_max}",
                 f"{new.leaders_min} to {new.leaders_max}", "-"))  # fmt: skip
    return rows


def _yardsticks(audit: Audit) -> Iterator[tuple[str, Yardstick]]:
    if audit.by_bytes is not None:
        yield "bytes", audit.by_bytes
    if audit.by_count is not None:
        yield "copies", audit.by_count


def _costs(audit: Audit) -> list[Line]:
    rows: list[Line] = []
    for name, y in _yardsticks(audit):
        best = None if y.best is None else _amount(name, y.best)
        bound = _amount(name, y.bound) if y.possible else "-"
        rows.append((name, _amount(name, y.spent), best, bound, gap_text(y.gap)))
    return rows


def _amount(unit: str, value: int) -> str:
    return format_bytes(value) if unit == "bytes" else str(value)


def audit_data(audit: Audit, source: str) -> dict[str, object]:
    """The audit for JSON and YAML."""
    return {
        "cluster_id": audit.cluster_id,
        "map": source,
        **attributes(audit, "brokers topics partitions"),
        "sizes": audit.storage,
        "tally": audit.tally,
        "free_range_bytes": _pair(audit.free_range),
        "used_range_bytes": _pair(audit.used_range),
        "band_millionths": _pair(audit.band),
        "replicas": _pair((audit.before.replicas_max - audit.before.replicas_min,
                           audit.after.replicas_max - audit.after.replicas_min)),
        "leaders": _pair((audit.before.leaders_max - audit.before.leaders_min,
                          audit.after.leaders_max - audit.after.leaders_min)),
        "bytes": _yardstick(audit.by_bytes),
        "copies": _yardstick(audit.by_count),
        **findings_data(audit.findings),
        "rules": [{"rule": r.name, "severity": r.severity, "risk": r.risk, "mend": r.repair} for r in RULES],
        "notes": audit.notes,
    }  # fmt: skip


def _pair(values: tuple[int, int] | None) -> dict[str, int] | None:
    return None if values is None else {"before": values[0], "after": values[1]}


def _yardstick(y: Yardstick | None) -> dict[str, object] | None:
    if y is None:
        return None
    return {
        "spent": y.spent,
        "lower_bound": y.bound if y.possible else None,
        "gap": y.gap,
        "best_plan": y.best,
        "tightness_before": y.before,
        "tightness_reached": y.reached,
        "tightness_compared": y.goal,
        "tightest_for_the_same": y.finest,
        "possible": y.possible,
        "argument": y.argument,
    }
