"""The report of a check as text and data."""

from kafkakit.core.findings import findings_data, findings_text
from kafkakit.core.quantities import counted, format_rough_time
from kafkakit.topicmappr.decide.check.catalogue import BY_NAME
from kafkakit.topicmappr.decide.check.decision import CheckReport


def report_text(report: CheckReport) -> str:
    """The findings as a table, what they were looked for in, and which rules could not be checked."""
    head = (
        f"cluster {report.cluster_id}: {counted(len(report.brokers), 'broker')}, "
        f"{counted(len(report.selection.selected), 'topic')}, {counted(report.partitions, 'partition')}, "
        f"{counted(report.replicas, 'replica')}; sizes from {report.storage.source}"
    )
    age = f", {format_rough_time(report.storage.age_s)} old" if report.storage.age_s else ""
    lines = [head + age, "", findings_text(report.findings).rstrip("\n")]
    if report.unchecked:
        lines += ["", f"not checked, for want of data or of an option: {', '.join(report.unchecked)}"]
    lines += [f"note: {note}" for note in report.notes]
    return "\n".join(lines) + "\n"


def report_data(report: CheckReport) -> dict[str, object]:
    """The report for JSON and YAML; `rules` are those that were checked, each with what it asks for."""
    unchecked = set(report.unchecked)
    return {
        "cluster_id": report.cluster_id,
        "brokers": report.brokers,
        "topics": len(report.selection.selected),
        "topics_excluded": report.selection.excluded,
        "partitions": report.partitions,
        "replicas": report.replicas,
        "sizes": report.storage,
        **findings_data(report.findings),
        "rules": [{"rule": r.name, "severity": r.severity, "about": r.about, "checked": r.name not in unchecked}
                  for r in BY_NAME.values()],
        "notes": report.notes,
    }  # fmt: skip
