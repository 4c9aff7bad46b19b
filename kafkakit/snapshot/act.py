"""Writing a snapshot: to a file as it is, or as the result of the command."""

from collections.abc import Callable
from pathlib import Path

from kafkakit.core.documents import encode_snapshot
from kafkakit.core.model import ClusterSnapshot
from kafkakit.ports.acting import Reporter
from kafkakit.report.report import Report
from kafkakit.snapshot.report import snapshot_report, summary_of, warnings_of


def write_snapshot(
    snapshot: ClusterSnapshot,
    path: Path | None,
    write_file: Callable[[Path, bytes], None],
    write_result: Callable[[Report], object],
    reporter: Reporter,
    *,
    as_data: bool,
) -> None:
    """Write the document to the file, or the report where there is none, between the warnings and the summary."""
    document = encode_snapshot(snapshot)
    for warning in warnings_of(snapshot):
        reporter.warn(warning)
    if path is not None:
        write_file(path, document)
    else:
        write_result(snapshot_report(snapshot, document, as_data=as_data))
    reporter.say(summary_of(snapshot))
