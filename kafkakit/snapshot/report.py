"""What a person should know about a snapshot, and its report."""

import json
from collections import Counter

from kafkakit.core.model import Broker, ClusterSnapshot
from kafkakit.core.quantities import count_of, format_bytes
from kafkakit.report.report import RawDocument, Report, ResultTable

COLUMNS = ("id", "rack", "state", "replicas", "leaders", "bytes", "free_bytes", "problem")


def snapshot_report(snapshot: ClusterSnapshot, document: bytes, *, as_data: bool) -> Report:
    """The document as text, or where it is wanted as data, and a row for each broker.

    The document has the header of its own kind, so that planning reads what is printed.
    """
    return Report(
        command="snapshot",
        data=json.loads(document) if as_data else {},
        sections=(RawDocument("" if as_data else document.decode()),),
        table=ResultTable(COLUMNS, broker_rows(snapshot)),
    )


def broker_rows(snapshot: ClusterSnapshot) -> tuple[tuple[object, ...], ...]:
    """A row for each broker; sizes are None where the broker did not tell them."""
    replicas: Counter[int] = Counter()
    leaders: Counter[int] = Counter()
    held: Counter[int] = Counter()
    for _, partition in snapshot.partitions():
        replicas.update(partition.replicas)
        held.update(dict(partition.replica_bytes))
        if partition.leader is not None:
            leaders[partition.leader] += 1
    reported = {b.id for b in snapshot.brokers if snapshot.sizes_taken and b.id not in snapshot.unanswered_brokers}
    return tuple(
        (
            broker.id,
            broker.rack,
            str(broker.state),
            replicas[broker.id],
            leaders[broker.id],
            held[broker.id] if broker.id in reported else None,
            _free_bytes(broker),
            snapshot.unanswered_brokers.get(broker.id),
        )
        for broker in snapshot.brokers
    )


def warnings_of(snapshot: ClusterSnapshot) -> tuple[str, ...]:
    """One line for each broker without sizes and each log dir in trouble."""
    lines = [
        f"broker {broker} gave no sizes, they are absent from the snapshot: {problem}"
        for broker, problem in sorted(snapshot.unanswered_brokers.items())
    ]
    lines += [
        f"broker {broker.id}: log dir {directory.path} is offline ({directory.error}), its sizes are absent"
        for broker in snapshot.brokers
        for directory in broker.log_dirs
        if directory.error
    ]
    return tuple(lines)


def summary_of(snapshot: ClusterSnapshot) -> str:
    """One line: what was seen."""
    partitions = [p for _, p in snapshot.partitions()]
    replicas = sum(len(p.replicas) for p in partitions)
    states = Counter(str(b.state) for b in snapshot.brokers)
    brokers = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    text = (
        f"cluster {snapshot.cluster_id}: {count_of(len(snapshot.brokers), 'broker')} ({brokers}), "
        f"{count_of(len(snapshot.topics), 'topic')}, {count_of(len(partitions), 'partition')}, "
        f"{count_of(replicas, 'replica')}"
    )
    if snapshot.sizes_taken:
        sized = [size for p in partitions for size in p.replica_bytes.values()]
        text += f", {format_bytes(sum(sized))} in {count_of(len(sized), 'copy', 'copies')} of known size"
    if snapshot.reassignments:
        text += f", {count_of(len(snapshot.reassignments), 'move')} running"
    return text


def _free_bytes(broker: Broker) -> int | None:
    free = [directory.usable_bytes for directory in broker.log_dirs]
    known = [size for size in free if size is not None]
    return sum(known) if known and len(known) == len(free) else None
