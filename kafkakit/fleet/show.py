"""Reports of collecting, and of reading log dirs."""

from collections.abc import Sequence

from kafkakit.core.quantities import counted, format_bytes
from kafkakit.core.text import text_table
from kafkakit.fleet.decide.outcomes import ClusterOutcome, OutcomeStatus, failure_of
from kafkakit.fleet.decide.scan_tasks import ScannedBroker
from kafkakit.report import Report, text_of

COLUMNS = ("cluster", "status", "rows", "seconds", "error")
SCAN_COLUMNS = ("broker", "partitions", "segments", "batches", "size", "seconds")


def collect_report(outcomes: Sequence[ClusterOutcome], store: str, snapshot_date: str) -> Report:
    """A row for each cluster, and the totals; it fails where a cluster could not be collected."""
    rows = tuple((o.cluster, o.status.value, o.row_count, round(o.seconds, 1), o.error or None) for o in outcomes)
    numbers = [f"{sum(o.status is status for o in outcomes)} {status.value}" for status in OutcomeStatus]
    total = counted(sum(o.row_count for o in outcomes), "row")
    closing = f"{snapshot_date}: {', '.join(numbers)}; {total} in {store}"
    return Report(
        command="fleet collect",
        data={
            "store": store,
            "snapshot_date": snapshot_date,
            "clusters": [_data(outcome) for outcome in outcomes],
        },
        text=text_of([text_table(COLUMNS, rows), "", closing]),
        columns=COLUMNS,
        rows=rows,
        warnings=tuple(f"cluster {o.cluster}: {note}" for o in outcomes for note in o.notes),
        failure=failure_of(outcomes),
    )


def _data(outcome: ClusterOutcome) -> dict[str, object]:
    return {
        "cluster": outcome.cluster,
        "status": outcome.status,
        "rows": dict(outcome.rows),
        "seconds": round(outcome.seconds, 3),
        "error": outcome.error or None,
        "notes": list(outcome.notes),
    }


def segments_report(scanned: Sequence[ScannedBroker], cluster: str, store: str, snapshot_date: str) -> Report:
    """A row for each broker; files with faults are warnings."""
    rows = tuple(
        (s.broker, s.partitions, *(s.rows.get(kind, 0) for kind in ("segments", "batches")), format_bytes(s.size_bytes),
         round(s.seconds, 1))
        for s in scanned
    )  # fmt: skip
    return Report(
        command="fleet segments",
        data={"store": store, "cluster": cluster, "snapshot_date": snapshot_date, "brokers": list(scanned)},
        text=text_of([text_table(SCAN_COLUMNS, rows), "", f"{snapshot_date}: cluster {cluster} in {store}"]),
        columns=SCAN_COLUMNS,
        rows=rows,
        warnings=tuple(fault for s in scanned for fault in s.faults),
    )
