"""What runs on a cluster now, as values and words: moves, throttles, and runs that left something behind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkakit.model import ClusterSnapshot, Reassignment, TopicPartition
from kafkakit.ports import BrokerLogDirs
from kafkakit.quantities import format_bytes, format_rate
from kafkakit.reassign.journal_state import RunState
from kafkakit.reassign.precheck import ids
from kafkakit.reassign.throttle import FOLLOWER_RATE, LEADER_RATE, LIST_KEYS, split_list

SHOWN = 30
MOVE_COLUMNS = ("topic", "partition", "replicas", "adding", "removing", "copied_bytes", "total_bytes", "waits_for")


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveView:
    """One running move; bytes are None where no broker tells them. `waits_for` are destinations not alive.

    Without a leader that is alive (`leader` None) nothing is copied.
    """

    move: Reassignment
    copied_bytes: int | None
    total_bytes: int | None
    waits_for: tuple[int, ...]
    leader: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusView:
    """The cluster's running moves and every replication throttle set on it."""

    cluster_id: str
    moves: tuple[MoveView, ...]
    rates: Mapping[int, Mapping[str, str]]
    lists: Mapping[str, Mapping[str, int]]
    unfinished: tuple[str, ...]

    @property
    def copied_bytes(self) -> int:
        """Bytes copied by the running moves, as far as known."""
        return sum(m.copied_bytes or 0 for m in self.moves)

    @property
    def total_bytes(self) -> int:
        """Bytes the running moves copy in all, as far as known."""
        return sum(m.total_bytes or 0 for m in self.moves)


def view_status(
    snapshot: ClusterSnapshot,
    dirs: Mapping[int, BrokerLogDirs],
    brokers: Mapping[str, Mapping[str, str]],
    journals: Sequence[RunState],
) -> StatusView:
    """Put together what was read; `brokers` are dynamic configs by broker id, `journals` this host's runs."""
    alive = {b.id for b in snapshot.brokers if b.is_alive}
    rates = {
        int(name): {k: configs[k] for k in (LEADER_RATE, FOLLOWER_RATE) if k in configs}
        for name, configs in brokers.items()
    }
    lists = {t.name: {k: len(split_list(t.configs[k])) for k in LIST_KEYS if k in t.configs} for t in snapshot.topics}
    leaders = {(n, p.partition): p.leader for n, p in snapshot.partitions() if p.leader in alive}
    left = [j for j in journals if j.throttled or j.unsettled]
    return StatusView(
        cluster_id=snapshot.cluster_id,
        moves=tuple(_view_move(m, dirs, alive, leaders.get((m.topic, m.partition))) for m in snapshot.reassignments),
        rates={b: r for b, r in sorted(rates.items()) if r},
        lists={t: v for t, v in sorted(lists.items()) if v},
        unfinished=tuple(f"{j.direction} of {j.plan_path}" for j in left),
    )


def _view_move(move: Reassignment, dirs: Mapping[int, BrokerLogDirs], alive: set[int], leader: int | None) -> MoveView:
    key = TopicPartition(move.topic, move.partition)
    copies = {b: a.replicas[key].size_bytes for b, a in dirs.items() if key in a.replicas}
    sizes = [s for b, s in copies.items() if b not in move.adding]
    size = max(sizes) if sizes else None
    return MoveView(
        move=move,
        copied_bytes=None if size is None else sum(min(size, copies.get(b, 0)) for b in move.adding),
        total_bytes=None if size is None else size * len(move.adding),
        waits_for=tuple(b for b in move.adding if b not in alive),
        leader=leader,
    )


def render_status(view: StatusView) -> str:
    """The status for people."""
    lines = [f"cluster {view.cluster_id}: {len(view.moves)} moves running"]
    unknown = sum(m.total_bytes is None for m in view.moves)
    if unknown < len(view.moves):
        lines[0] += f", {format_bytes(view.copied_bytes)} of {format_bytes(view.total_bytes)} copied"
    if unknown:
        lines[0] += f", size of {unknown} unknown"
    for item in view.moves[:SHOWN]:
        move = item.move
        waits = f", waits for broker {', '.join(map(str, item.waits_for))} (not alive)" if item.waits_for else ""
        waits += "" if item.leader is not None else ", no leader, nothing is copied"
        lines.append(
            f"  {move.topic}-{move.partition}: to {ids(move.target)}, adding {ids(move.adding)}, "
            f"{format_bytes(item.copied_bytes)} of {format_bytes(item.total_bytes)}{waits}"
        )
    if len(view.moves) > SHOWN:
        lines.append(f"  and {len(view.moves) - SHOWN} more")
    lines.append("throttles:" if view.rates or view.lists else "throttles: none set")
    lines += [
        f"  broker {b}: " + ", ".join(f"{k.split('.')[0]} {_rate(v)}" for k, v in sorted(rates.items()))
        for b, rates in view.rates.items()
    ]
    lines += [
        f"  topic {t}: " + ", ".join(f"{k.split('.')[0]} list of {n}" for k, n in sorted(counts.items()))
        for t, counts in view.lists.items()
    ]
    lines += [f"not finished on this host: {u}" for u in view.unfinished]
    return "\n".join(lines) + "\n"


def status_data(view: StatusView) -> dict[str, object]:
    """The status for programs."""
    return {
        "cluster_id": view.cluster_id,
        "moves": [
            {
                "topic": m.move.topic,
                "partition": m.move.partition,
                "target": list(m.move.target),
                "replicas": list(m.move.replicas),
                "adding": list(m.move.adding),
                "removing": list(m.move.removing),
                "copied_bytes": m.copied_bytes,
                "total_bytes": m.total_bytes,
                "waits_for": list(m.waits_for),
                "leader": m.leader,
            }
            for m in view.moves
        ],
        "broker_rates": {str(b): dict(r) for b, r in view.rates.items()},
        "topic_lists": {t: dict(c) for t, c in view.lists.items()},
        "unfinished": list(view.unfinished),
    }


def status_rows(view: StatusView) -> tuple[tuple[object, ...], ...]:
    """One row a running move, in `MOVE_COLUMNS`."""
    return tuple(
        (
            m.move.topic,
            m.move.partition,
            *(",".join(map(str, part)) for part in (m.move.replicas, m.move.adding, m.move.removing)),
            m.copied_bytes,
            m.total_bytes,
            ",".join(map(str, m.waits_for)),
        )
        for m in view.moves
    )


def _rate(value: str) -> str:
    return format_rate(int(value)) if value.isdigit() else value
