"""What a schedule is made of: tasks, disks and limits on one side, steps with their times on the other.

A *task* is what is left to do for one partition. The scheduler cuts tasks into *steps*: one request to Kafka
each (or one copy that changes its log dir inside a broker). Most tasks are one step; a task is several where one
new replica at a time is wanted, or where a cycle of full disks is broken by a detour over a spare.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Annotated

from msgspec import Meta

from kafkakit.core.model import TopicPartition

# What a control request may hold.
_Rate = Annotated[int, Meta(ge=1, le=2**62)]
_RateOf = Annotated[Mapping[Annotated[int, Meta(ge=0, le=2**31 - 1)], _Rate], Meta(max_length=2000)]


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """One log dir of one broker; `log_dir` is empty where the broker does not tell its dirs."""

    broker: int
    log_dir: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """What a log dir holds at the start, in bytes; `total_bytes` None: unknown, and then not limited.

    `usable_bytes` is what the broker reports now (files waiting for deletion still count as used).
    `growth_bytes_per_s` is what all copies in it together take in. A closed dir (cordoned, broken) gets nothing new.
    """

    place: Place
    total_bytes: int | None
    usable_bytes: int | None
    growth_bytes_per_s: float = 0.0
    closed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is left for one partition: from the full copies in `holders` to the list `target`.

    `dirs` says where each copy of `holders` is (by broker), `wanted_dirs` where new copies are to go, as far as the
    plan says. `leader` serves all new copies (None: no broker can now). `size_bytes` is one copy's, 0 when unknown;
    `ingest_bytes_per_s` what the log takes in meanwhile. Urgent ones (under min ISR) go first. `running` is on the
    cluster already, with `copied_bytes` of all its new copies there.
    """

    key: TopicPartition
    holders: tuple[int, ...]
    target: tuple[int, ...]
    leader: int | None
    size_bytes: int
    dirs: Mapping[int, str] = field(default_factory=dict)
    wanted_dirs: Mapping[int, str] = field(default_factory=dict)
    ingest_bytes_per_s: float = 0.0
    urgent: bool = False
    running: bool = False
    copied_bytes: int = 0

    @property
    def adding(self) -> tuple[int, ...]:
        """Brokers that get a copy."""
        return tuple(b for b in self.target if b not in self.holders)

    @property
    def removing(self) -> tuple[int, ...]:
        """Brokers that lose theirs."""
        return tuple(b for b in self.holders if b not in self.target)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirTask:
    """One copy that is to change its log dir inside its broker."""

    key: TopicPartition
    broker: int
    source_dir: str
    target_dir: str
    size_bytes: int
    ingest_bytes_per_s: float = 0.0
    running: bool = False
    copied_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Bytes per second of a broker: what it may send (`out`), take in (`into`), and copy between its own dirs.

    None: not limited by a throttle. The mappings hold what differs from the default, by broker.
    """

    into: _Rate | None = None
    out: _Rate | None = None
    inside: _Rate | None = None
    into_of: _RateOf = field(default_factory=dict)
    out_of: _RateOf = field(default_factory=dict)

    def into_broker(self, broker: int) -> int | None:
        """What the broker may take in."""
        return self.into_of.get(broker, self.into)

    def out_of_broker(self, broker: int) -> int | None:
        """What the broker may send."""
        return self.out_of.get(broker, self.out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a schedule must keep.

    At most `into_each` new copies arrive at a broker at a time, `out_each` leave a leader, `inside_each` change dir
    inside a broker, `cluster` partitions are in flight. No log dir is ever filled above `max_use` of its size, nor
    closer to full than `headroom_bytes`. Space of a removed copy is free only `deletion_delay_s` after the step.
    With `one_replica_at_a_time` a partition never has two new copies in flight.
    """

    into_each: int = 5
    out_each: int = 5
    inside_each: int = 1
    cluster: int = 1000
    max_use: Fraction = Fraction(95, 100)
    headroom_bytes: int = 0
    deletion_delay_s: float = 60.0
    one_replica_at_a_time: bool = False

    def limit_of(self, total_bytes: int) -> int:
        """The most bytes that a log dir of that size may hold."""
        return min(int(total_bytes * self.max_use), total_bytes - self.headroom_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """How fast things go, for times only: bytes per second of a link that no throttle limits (`is_measured`: earlier
    copies reached it), and the share of a throttle that brokers really reach (`efficiency`; see
    `simulator.efficiency_of`).

    The controller ends `steps_per_s` reassignments a second (measured with empty partitions on 4.1). A step keeps its
    places for `step_s` beside its copying: until the new copies fetch, are back in the ISR, and the next look finds it.
    """

    line_bytes_per_s: float = 200e6
    is_measured: bool = False
    disk_bytes_per_s: float = 200e6
    efficiency: float = 0.8
    steps_per_s: float = 100.0
    step_s: float = 0.5


class StepKind(StrEnum):
    """`move`: straight to the task's target. `part`: one of several requests of a task on its way there.
    `detour`: to a spare place that is not in the target. `inside`: a copy changes dir inside its broker."""

    MOVE = "move"
    PART = "part"
    DETOUR = "detour"
    INSIDE = "inside"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request, with its predicted times in seconds from the start of the run.

    `target` is the list to send (empty for `inside`). `adding` and `removing` are the log dirs of copies that come
    and go; dirs are named where the broker tells them. `size_bytes` is one copy's. `after` is the index of the same
    partition's step that must be finished first (None: none). `why` says why it is not a plain move, for people.
    """

    key: TopicPartition
    kind: StepKind
    target: tuple[int, ...]
    leader: int | None
    adding: tuple[Place, ...]
    removing: tuple[Place, ...]
    size_bytes: int
    start_s: float
    end_s: float
    running: bool = False
    after: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bottleneck:
    """What keeps a run from being faster: a broker's direction (`into`, `out`, `inside`) and its bytes and rate."""

    broker: int
    direction: str
    bytes: int
    bytes_per_s: float

    @property
    def seconds(self) -> float:
        """How long this alone takes."""
        return self.bytes / self.bytes_per_s if self.bytes_per_s else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Steps in the order of their start, how long they take, and why no order is faster.

    `bound_s` is the busiest broker's bytes over its rate, or what so many requests take: no schedule of these tasks
    ends earlier. It is never above `makespan_s`; `bottleneck` is None where requests and not bytes make it.
    Sending steps in this order, each log dir's arrivals in the order of the list, never fills a disk.
    `immovable` names partitions that no order serves, with the reason: then `steps` brings all others.
    """

    steps: tuple[Step, ...]
    makespan_s: float
    bound_s: float
    bottleneck: Bottleneck | None = None
    immovable: Mapping[TopicPartition, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def detours(self) -> tuple[Step, ...]:
        """The steps to spare places."""
        return tuple(s for s in self.steps if s.kind is StepKind.DETOUR)
