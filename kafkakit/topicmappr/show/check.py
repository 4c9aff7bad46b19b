"""The report of a check."""

from kafkakit.core.findings import COLUMNS, FailOn, exit_code_of, finding_rows, findings_data, findings_text
from kafkakit.core.quantities import counted
from kafkakit.report.blocks import text_of
from kafkakit.report.report import Report
from kafkakit.topicmappr.decide.check.catalogue import BY_NAME
from kafkakit.topicmappr.decide.check.decision import CheckReport
from kafkakit.topicmappr.show.plan_blocks import sizes_words


def check_report(report: CheckReport, fail_on: FailOn) -> Report:
    """The findings, what they were looked for in, and which rules could not be checked."""
    unchecked = set(report.unchecked)
    return Report(
        command="topicmappr check",
        data={
            "cluster_id": report.cluster_id,
            "brokers": report.brokers,
            "topics": len(report.selection.selected),
            "topics_excluded": report.selection.excluded,
            "partitions": report.partitions,
            "replicas": report.replicas,
            "sizes": report.storage,
            **findings_data(report.findings),
            "rules": [
                {"rule": r.name, "severity": r.severity, "about": r.about, "checked": r.name not in unchecked}
                for r in BY_NAME.values()
            ],
            "notes": report.notes,
        },
        text=text_of(_lines(report)),
        columns=COLUMNS,
        rows=finding_rows(report.findings),
        code=exit_code_of(report.findings, fail_on),
    )


def _lines(report: CheckReport) -> list[str]:
    head = (
        f"cluster {report.cluster_id}: {counted(len(report.brokers), 'broker')}, "
        f"{counted(len(report.selection.selected), 'topic')}, {counted(report.partitions, 'partition')}, "
        f"{counted(report.replicas, 'replica')}; {sizes_words(report.storage)}"
    )
    lines = [head, "", findings_text(report.findings).rstrip("\n")]
    if report.unchecked:
        lines += ["", f"not checked, since data or an option is missing: {', '.join(report.unchecked)}"]
    return lines + [f"note: {note}" for note in report.notes]
