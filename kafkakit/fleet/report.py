"""What came of collecting each cluster, as values, and the reports of collecting and scanning."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kafkakit.core.errors import KafkakitError, OperationFailedError, TryLaterError
from kafkakit.core.fleet_tables import repeated_clusters
from kafkakit.core.quantities import count_of, format_bytes
from kafkakit.fleet.decide import ScannedBroker
from kafkakit.report.report import Report, ResultTable, attributes

SCAN_COLUMNS = ("broker", "partitions", "segments", "batches", "size", "seconds")


class OutcomeStatus(StrEnum):
    """COLLECTED: read now; KEPT: complete already, not read again; FAILED: not in the store for this date; BUSY: left
    alone, another process writes it."""

    COLLECTED = "collected"
    KEPT = "kept"
    FAILED = "failed"
    BUSY = "busy"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOutcome:
    """One cluster: its rows by kind, how long it took, why it failed, what its snapshot lacks, and Kafka's id of it."""

    cluster: str
    status: OutcomeStatus
    rows: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    error: str = ""
    notes: tuple[str, ...] = ()
    cluster_id: str = ""

    @property
    def row_count(self) -> int:
        """The rows of all kinds."""
        return sum(self.rows.values())


def collect_report(outcomes: Sequence[ClusterOutcome], store: str, snapshot_date: str) -> Report:
    """A row for each cluster, and the totals; it fails where a cluster could not be collected."""
    rows = tuple((o.cluster, o.status.value, o.row_count, round(o.seconds, 1), o.error or None) for o in outcomes)
    numbers = [f"{sum(o.status is status for o in outcomes)} {status.value}" for status in OutcomeStatus]
    total = count_of(sum(o.row_count for o in outcomes), "row")
    closing = f"{snapshot_date}: {', '.join(numbers)}; {total} in {store}"
    return Report(
        command="fleet collect",
        data={
            "store": store,
            "snapshot_date": snapshot_date,
            "clusters": [_data(outcome) for outcome in outcomes],
        },
        sections=(ResultTable(("cluster", "status", "rows", "seconds", "error"), rows), "", closing),
        warnings=(
            *(f"cluster {o.cluster}: {note}" for o in outcomes for note in o.notes),
            *(f"the store has {one}" for one in repeated_clusters({o.cluster: o.cluster_id for o in outcomes})),
        ),
        failure=failure_of(outcomes),
    )


def _data(outcome: ClusterOutcome) -> dict[str, object]:
    return {
        **attributes(outcome, "cluster status"),
        "rows": dict(outcome.rows),
        "seconds": round(outcome.seconds, 3),
        "error": outcome.error or None,
        "cluster_id": outcome.cluster_id or None,
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
        sections=(ResultTable(SCAN_COLUMNS, rows), "", f"{snapshot_date}: cluster {cluster} in {store}"),
        warnings=tuple(fault for s in scanned for fault in s.faults),
    )


def task_outcome(row: Mapping[str, object]) -> ClusterOutcome:
    """What a task of a Spark job printed for its cluster (`output` is JSON) as an outcome."""
    name = str(row["cluster"])
    try:
        found = json.loads(str(row["output"]))
    except ValueError:
        lines = str(row["errors"]).strip().splitlines() or [f"ended with code {row['code']}"]
        return ClusterOutcome(cluster=name, status=OutcomeStatus.FAILED, error=lines[-1])
    if "clusters" not in found:
        return ClusterOutcome(cluster=name, status=OutcomeStatus.FAILED, error=str(found["error"]["message"]))
    (one,) = found["clusters"]
    return ClusterOutcome(
        cluster=name,
        status=OutcomeStatus(one["status"]),
        rows=one["rows"],
        seconds=one["seconds"],
        error=one["error"] or "",
        notes=tuple(one["notes"]),
        cluster_id=one.get("cluster_id") or "",
    )


def failure_of(outcomes: Sequence[ClusterOutcome]) -> KafkakitError | None:
    """Why the command fails: some clusters are not in the store, or another process is writing them."""
    busy = [outcome for outcome in outcomes if outcome.status is OutcomeStatus.BUSY]
    failed = [outcome for outcome in outcomes if outcome.status is OutcomeStatus.FAILED]
    if busy and not failed:
        return TryLaterError(busy[0].error, hint="run the same command again once it has ended")
    if not failed:
        return None
    named = ", ".join(outcome.cluster for outcome in failed[:5]) + (", ..." if len(failed) > 5 else "")
    return OperationFailedError(
        f"{len(failed)} of {len(outcomes)} clusters could not be collected: {named}",
        hint="run the same command again: it reads only what is missing",
    )
