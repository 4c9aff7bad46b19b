"""What came of collecting each cluster, as values."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from kafkakit.core.errors import KafkakitError, OperationFailedError, TryLaterError


class OutcomeStatus(StrEnum):
    """COLLECTED: read now; KEPT: complete already, not read again; FAILED: not in the store for this date; BUSY: left
    alone, another process writes it."""

    COLLECTED = "collected"
    KEPT = "kept"
    FAILED = "failed"
    BUSY = "busy"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOutcome:
    """One cluster: its rows by kind, how long it took, why it failed, what its snapshot lacks."""

    cluster: str
    status: OutcomeStatus
    rows: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    error: str = ""
    notes: tuple[str, ...] = ()

    @property
    def row_count(self) -> int:
        """The rows of all kinds."""
        return sum(self.rows.values())


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
