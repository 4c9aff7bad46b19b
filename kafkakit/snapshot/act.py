"""Takes a snapshot and says what a person should know about it."""

from collections import Counter
from dataclasses import dataclass

from kafkakit.core.documents import encode_snapshot
from kafkakit.core.model import Broker, ClusterSnapshot
from kafkakit.core.quantities import format_bytes
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock

COLUMNS = ("id", "rack", "state", "replicas", "leaders", "bytes", "free_bytes", "problem")


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenSnapshot:
    """A snapshot as a file's bytes, with a row for each broker (`COLUMNS`), warnings and a line of summary."""

    snapshot: ClusterSnapshot
    document: bytes
    rows: tuple[tuple[object, ...], ...]
    warnings: tuple[str, ...]
    summary: str


def take_snapshot(admin: ClusterAdmin, clock: Clock, *, sizes: bool) -> TakenSnapshot:
    """Read the whole cluster once; O(replicas). A silent broker is a warning, its sizes are absent."""
    snapshot = admin.snapshot(now=clock.now(), sizes=sizes)
    return TakenSnapshot(
        snapshot=snapshot,
        document=encode_snapshot(snapshot),
        rows=broker_rows(snapshot),
        warnings=warnings_of(snapshot),
        summary=summary_of(snapshot),
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
    told = {b.id for b in snapshot.brokers if snapshot.sizes_taken and b.id not in snapshot.unanswered_brokers}
    return tuple(
        (
            broker.id,
            broker.rack,
            str(broker.state),
            replicas[broker.id],
            leaders[broker.id],
            held[broker.id] if broker.id in told else None,
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
        f"cluster {snapshot.cluster_id}: {len(snapshot.brokers)} brokers ({brokers}), "
        f"{len(snapshot.topics)} topics, {len(partitions)} partitions, {replicas} replicas"
    )
    if snapshot.sizes_taken:
        sized = [size for p in partitions for size in p.replica_bytes.values()]
        text += f", {format_bytes(sum(sized))} in {len(sized)} copies of known size"
    if snapshot.reassignments:
        text += f", {len(snapshot.reassignments)} moves running"
    return text


def _free_bytes(broker: Broker) -> int | None:
    free = [directory.usable_bytes for directory in broker.log_dirs]
    known = [size for size in free if size is not None]
    return sum(known) if known and len(known) == len(free) else None
