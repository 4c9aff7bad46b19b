"""What runs on a cluster now, as values: moves with their copies, runs, throttles, counts; made from looks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from kafkakit.core.model import Reassignment, TopicPartitionReplica
from kafkakit.execution.decide.status.looks import Health, HeldLease, Throttled, without_moves
from kafkakit.execution.decide.status.runs import RunView
from kafkakit.execution.decide.status.stall import Stall
from kafkakit.execution.decide.throttle import split_list


class CopyState(StrEnum):
    """How a new copy is doing. `waits` is silence that is still normal: others under the same throttle come first."""

    COPIES = "copies"
    IN_SYNC = "in sync"
    WAITS = "waits"
    STALLED = "stalled"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyView:
    """One new copy of a moving partition; bytes and rates are None where they are not known (yet)."""

    broker: int
    state: CopyState
    copied_bytes: int | None = None
    total_bytes: int | None = None
    bytes_per_s: float | None = None
    stall: Stall | None = None

    @property
    def missing_bytes(self) -> int | None:
        """What is still to come."""
        if self.copied_bytes is None or self.total_bytes is None:
            return self.total_bytes
        return max(0, self.total_bytes - self.copied_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveView:
    """One running move. `run` names the run that sent it (empty: none of this host).

    `leader` is None when no living broker leads: then nothing is copied.
    """

    move: Reassignment
    copies: tuple[CopyView, ...]
    leader: int | None = None
    run: str = ""

    @property
    def copied_bytes(self) -> int | None:
        """Bytes in all new copies; None when the partition's size is not known."""
        known = [c for c in self.copies if c.total_bytes is not None]
        return sum(c.copied_bytes or 0 for c in known) if len(known) == len(self.copies) else None

    @property
    def total_bytes(self) -> int | None:
        """Bytes that all new copies will have."""
        sizes = [c.total_bytes for c in self.copies if c.total_bytes is not None]
        return sum(sizes) if len(sizes) == len(self.copies) else None

    @property
    def missing_bytes(self) -> int | None:
        """What is still to come."""
        left = [m for c in self.copies if (m := c.missing_bytes) is not None]
        return sum(left) if len(left) == len(self.copies) else None

    @property
    def bytes_per_s(self) -> float | None:
        """The rate of all its copies together."""
        rates = [c.bytes_per_s for c in self.copies if c.bytes_per_s is not None]
        return sum(rates) if rates else None

    @property
    def stalled(self) -> bool:
        """True when none of its copies makes progress and one is stalled."""
        states = {c.state for c in self.copies}
        return CopyState.STALLED in states and states <= {CopyState.STALLED, CopyState.IN_SYNC}


@dataclass(frozen=True, slots=True, kw_only=True)
class InsideView:
    """One copy on its way to another log dir of its broker; `offset_lag` counts records behind, `run`: as of moves."""

    replica: TopicPartitionReplica
    source_dir: str
    target_dir: str
    copied_bytes: int
    total_bytes: int
    offset_lag: int
    bytes_per_s: float | None = None
    run: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusView:
    """One look at all that moves; rates are over `window_s` seconds (0: there was one look only).

    `bytes_per_s` counts moves that ended meanwhile, too.

    `health` and what `inside` names come from the last look at the whole cluster. `damaged` are journals that
    cannot be read. `program` is how kafkakit is called for this cluster.
    """

    cluster_id: str
    at: datetime
    window_s: float
    bytes_per_s: float | None = None
    moves: tuple[MoveView, ...] = ()
    inside: tuple[InsideView, ...] = ()
    runs: tuple[RunView, ...] = ()
    throttled: Throttled = field(default_factory=Throttled)
    health: Health | None = None
    lease: HeldLease | None = None
    damaged: tuple[str, ...] = ()
    program: str = "kafkakit"

    @property
    def is_idle(self) -> bool:
        """True when nothing moves between brokers or inside them, and no run is active."""
        return not self.moves and not self.inside and not any(r.working for r in self.runs)

    @property
    def idle_throttles(self) -> str:
        """Throttles that no running move needs, in words; a run at work may be about to move something under them."""
        if any(r.working for r in self.runs):
            return ""
        return without_moves(self.throttled, (m.move for m in self.moves), {i.replica.broker for i in self.inside})

    @property
    def copied_bytes(self) -> int:
        """Bytes copied by the running moves, as far as known."""
        return sum(m.copied_bytes or 0 for m in self.moves)

    @property
    def total_bytes(self) -> int:
        """Bytes the running moves copy in all, as far as known."""
        return sum(m.total_bytes or 0 for m in self.moves)

    @property
    def slowest(self) -> tuple[MoveView, CopyView] | None:
        """The copy with the most still to come; None when nothing is known to be missing."""
        behind = [(m, c) for m in self.moves for c in m.copies if c.missing_bytes and c.state is not CopyState.IN_SYNC]
        return max(behind, key=lambda pair: pair[1].missing_bytes or 0, default=None)

    @property
    def stalled(self) -> tuple[tuple[MoveView, CopyView], ...]:
        """The stalled copies, with their moves."""
        return tuple((m, c) for m in self.moves for c in m.copies if c.state is CopyState.STALLED)


def list_sizes(throttled: Throttled) -> dict[str, Mapping[str, int]]:
    """How many entries each throttle list has, by topic and key."""
    return {t: {k: len(split_list(v)) for k, v in sorted(values.items())} for t, values in throttled.topics.items()}
