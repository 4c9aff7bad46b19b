"""Reports on the Assigner: where it stands, its workers, and why a partition is where it is."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from kafkakit.core.lease import LeaseRecord
from kafkakit.core.tables import plain_value, text_table
from kafkakit.report.blocks import capped, optional_section, records, section, text_of
from kafkakit.report.report import Report
from kafkakit.streams.assigner.decide.explaining import ExplainedPartition
from kafkakit.streams.assigner.decide.policy import AutomaticHistory
from kafkakit.streams.assigner.decide.standing import AssignerStanding
from kafkakit.streams.client.api import GrantDocument, WorkerDocument

WORKER_COLUMNS = ("worker", "id", "host", "zone", "capacity", "partitions", "cpu", "memory", "records/s", "state")
CLUSTER_COLUMNS = ("cluster", "profile", "state", "latency ms", "answering", "silent")
EXPLAIN_COLUMNS = ("lane", "segment", "cluster", "partition", "worker", "epoch", "why")
_MOST_LINES = 200


def standing_report(
    standing: AssignerStanding | None,
    lease: LeaseRecord | None,
    workers: Mapping[str, WorkerDocument],
    grants: Mapping[str, GrantDocument],
    draining: AbstractSet[str],
    history: AutomaticHistory,
) -> Report:
    """Where the Assigner stands; what is shown of workers is what they wrote last."""
    rows = tuple(_worker_row(slot, document, grants.get(slot), draining) for slot, document in sorted(workers.items()))
    held = "no Assigner was ever in charge" if lease is None else f"in charge: {lease}"
    lines = [held]
    if standing is not None:
        lines.append(
            f"token {standing.token}: {standing.partitions:,} partitions on {standing.workers:,} workers, "
            f"{standing.waiting:,} wait for their last worker, {standing.unserved:,} have none"
        )
        clusters = [
            (each.cluster_id, each.profile, ", ".join(each.reasons) or "healthy", each.latency_ms, each.answering,
             each.silent)
            for each in standing.clusters
        ]  # fmt: skip
        lines += section("Clusters:", text_table(CLUSTER_COLUMNS, clusters).splitlines())
        lags = [f"group {group} on cluster {cluster_id}: {lag:,} records" for cluster_id, group, lag in standing.lags]
        lines += optional_section("Not committed yet:", lags)
        lines += optional_section("Automatic failover:", list(standing.automatic))
        lines += optional_section("Problems:", list(standing.problems))
    lines += section("Workers:", text_table(WORKER_COLUMNS, rows).splitlines())
    starts = [f"stream {each.stream} from {each.source} to {each.target}" for each in history.starts]
    lines += optional_section("Moved by itself in the last day:", starts)
    return Report(
        command="streams assigner show",
        data={
            "holder": None if lease is None or lease.holder is None else str(lease.holder),
            "standing": plain_value(standing),
            "workers": records(WORKER_COLUMNS, rows),
            "automatic": plain_value(history.starts),
        },
        text=text_of(lines),
        columns=WORKER_COLUMNS,
        rows=rows,
    )


def drain_report(worker: WorkerDocument, left: int, code: int, *, is_undone: bool) -> Report:
    """How far a drain came."""
    state = "not drained any more" if is_undone else "drained" if not left else f"{left:,} partitions left"
    return Report(
        command="streams assigner drain",
        data={"worker": worker.id, "partitions": left, "drains": not is_undone},
        text=f"worker {worker.id} ({worker.holder}): {state}\n",
        columns=("worker", "partitions"),
        rows=((worker.id, left),),
        code=code,
    )


def explain_report(stream: str, group: str, found: Sequence[ExplainedPartition]) -> Report:
    """Which worker reads each partition, and why."""
    rows = tuple(
        (each.lane, each.segment, each.key.cluster_id, each.key.partition, each.slot or "-", each.epoch, each.why)
        for each in found
    )
    lines = [f"stream {stream}, group {group}: {sum(bool(each.slot) for each in found)} of {len(found)} partitions"]
    table = text_table(EXPLAIN_COLUMNS, rows).splitlines()
    lines += section("Partitions:", capped(table, str, _MOST_LINES))
    return Report(
        command="streams assigner explain",
        data={"stream": stream, "group": group, "partitions": records(EXPLAIN_COLUMNS, rows)},
        text=text_of(lines),
        columns=EXPLAIN_COLUMNS,
        rows=rows,
    )


def _worker_row(
    slot: str, document: WorkerDocument, grant: GrantDocument | None, draining: AbstractSet[str]
) -> tuple[object, ...]:
    count = sum(len(topic.partitions) for topic in grant.topics) if grant is not None else 0
    state = "ready"
    if any(each.is_grouped for each in document.subscriptions):
        state = "member of Kafka's groups"
    if document.id in draining:
        state = "draining"
    if document.is_leaving:
        state = "leaving"
    if grant is not None and document.round < grant.round:
        state += ", behind its grant"
    reading = document.reading
    return (slot, document.id, document.holder.host, document.zone or "-", document.capacity, count, reading.cpu,
            reading.memory_bytes, reading.records_per_s, state)  # fmt: skip
