"""What replays, purges and copies did, or would do."""

from kafkakit.core.errors import OperationFailedError
from kafkakit.core.printable import printable
from kafkakit.core.quantities import counted
from kafkakit.report.report import Report
from kafkakit.streams.lanes.decide.copy_plan import CopyOutcome
from kafkakit.streams.lanes.decide.purge_plan import PurgeOutcome, PurgePlan
from kafkakit.streams.lanes.decide.replay_plan import ReplayOutcome
from kafkakit.streams.model.commit import utc_text

_SHOWN = 20


def replay_report(stream: str, outcome: ReplayOutcome) -> Report:
    """What a replay wrote, or with `is_plan` what it would write."""
    stayed = sum(outcome.stayed.values())
    lines = [f"stream {stream}: {counted(outcome.matching, 'matching record')} not replayed before"]
    if outcome.is_plan:
        lines.append(f"would replay {outcome.replayed:,}; every group that reads the lane gets them")
    else:
        lines.append(f"replayed {outcome.replayed:,}")
    if outcome.uncertain:
        lines.append(f"up to {outcome.uncertain:,} of them may be there twice: a replay was interrupted at them")
    lines += [f"stayed: {number:,} {reason}" for reason, number in outcome.stayed.items()]
    return Report(
        command="streams dlq replay",
        data={
            "stream": stream,
            "is_plan": outcome.is_plan,
            "matching": outcome.matching,
            "replayed": outcome.replayed,
            "may_be_twice": outcome.uncertain,
            "stayed": outcome.stayed,
        },
        text="\n".join(lines),
        columns=("matching", "replayed", "may_be_twice", "stayed"),
        rows=((outcome.matching, outcome.replayed, outcome.uncertain, stayed),),
    )


def purge_text(stream: str, plan: PurgePlan) -> str:
    """The plan of a purge."""
    references = sum(map(len, plan.references.values()))
    records = sum(cut.records for cut in plan.cuts)
    behind = sum(cut.behind for cut in plan.cuts)
    lines = [f"stream {stream}: purge {counted(records, 'record')} and {counted(references, 'reference')} for good"]
    lines += [
        f"  {cut.place} on {cut.cluster_id}: {cut.records:,} below {cut.offset}" for cut in plan.cuts if cut.records
    ]
    if behind:
        lines.append(f"{counted(behind, 'matching record')} stay: others that do not match lie before them")
    return "\n".join(lines)


def purge_report(stream: str, outcome: PurgeOutcome, *, is_plan: bool) -> Report:
    """What a purge deleted, or would delete."""
    plan, failure = outcome.plan, None
    lines = [purge_text(stream, plan)]
    if not is_plan:
        lines += [f"not deleted: {place}: {error}" for place, error in outcome.errors.items()]
        lines += [] if outcome.errors else ["deleted"]
    if outcome.errors:
        failure = OperationFailedError(f"{counted(len(outcome.errors), 'partition')} could not be cut")
    cuts = [
        {
            "cluster_id": cut.cluster_id,
            "topic": cut.place.topic,
            "partition": cut.place.partition,
            "offset": cut.offset,
            "records": cut.records,
            "matching_behind": cut.behind,
        }
        for cut in plan.cuts
    ]
    return Report(
        command="streams dlq purge",
        data={
            "stream": stream,
            "is_plan": is_plan,
            "partitions": cuts,
            "references": {cluster: len(keys) for cluster, keys in plan.references.items()},
            "errors": {place: str(error) for place, error in outcome.errors.items()},
        },
        text="\n".join(lines),
        columns=("cluster_id", "topic", "partition", "offset", "records", "matching_behind"),
        rows=tuple(tuple(cut.values()) for cut in cuts),
        failure=failure,
    )


def copy_report(stream: str, outcome: CopyOutcome) -> Report:
    """What a look at the ledgers came to; it fails where a record is gone, or cannot be read."""
    lines = [copy_line(stream, outcome)]
    for what, found in (("lost", outcome.lost), ("not copied", outcome.failed)):
        lines += [f"{what}: {printable(name)}: {printable(reason)}" for name, reason in list(found.items())[:_SHOWN]]
        lines += [f"{what}: {len(found) - _SHOWN:,} more"] if len(found) > _SHOWN else []
    failure = None
    if outcome.lost or outcome.failed:
        failure = OperationFailedError(
            f"{counted(len(outcome.lost), 'rejected record')} lost, {len(outcome.failed):,} not copied",
            hint="kafkakit streams dlq purge removes references that are given up",
        )
    return Report(
        command="streams dlq copy",
        data={
            "stream": stream,
            "copied": outcome.copied,
            "waiting": outcome.waiting,
            "next_ms": outcome.next_at_ms,
            "lost": outcome.lost,
            "failed": outcome.failed,
        },
        text="\n".join(lines),
        columns=("copied", "waiting", "next_ms", "lost", "failed"),
        rows=((outcome.copied, outcome.waiting, outcome.next_at_ms, len(outcome.lost), len(outcome.failed)),),
        failure=failure,
    )


def copy_line(stream: str, outcome: CopyOutcome) -> str:
    """One look in a line."""
    following = "" if outcome.next_at_ms is None else f", the first is due at {utc_text(outcome.next_at_ms)}"
    return (
        f"stream {stream}: copied {counted(outcome.copied, 'record')}, {outcome.waiting:,} waiting{following}, "
        f"{len(outcome.lost):,} lost, {len(outcome.failed):,} not readable"
    )
