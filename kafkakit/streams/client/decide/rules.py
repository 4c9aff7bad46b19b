"""What an application chooses for a consumer: order, retries, limits and when a failing record may be moved away."""

from dataclasses import dataclass
from enum import StrEnum

from kafkakit.core.errors import UsageError


class Mode(StrEnum):
    """Which records of a partition may be handled at the same time.

    UNORDERED: any. KEY: those of different keys; records without a key have no order. PARTITION: one after another. A
    record that fails holds up the later ones of its key, or of its partition, until it is done or rejected.
    """

    UNORDERED = "unordered"
    KEY = "key"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRule:
    """When a record that failed is tried again: after `first_ms`, then `factor` times later each time up to `max_ms`.

    After `max_tries` tries it is rejected (0: never), if the `MoveRule` allows it.
    """

    first_ms: int = 1_000
    factor: float = 2.0
    max_ms: int = 60_000
    max_tries: int = 5

    def __post_init__(self) -> None:
        if not (0 <= self.first_ms <= self.max_ms and self.factor >= 1 and self.max_tries >= 0):
            raise UsageError(
                f"{self} is no rule of retries", hint="0 <= first_ms <= max_ms, factor >= 1, max_tries >= 0"
            )

    def delay_ms(self, tries: int) -> int:
        """The wait after so many tries. The exponent is bounded, so that no count overflows."""
        return min(self.max_ms, round(self.first_ms * self.factor ** min(tries - 1, 64))) if tries > 0 else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRule:
    """When a record that keeps failing may leave its partition without having been handled.

    Each move costs a token, and `acks_per_move` records done earn one, so that an outage, in which none is done, moves
    none: 50, or 2 where a lane of its own handles what is moved. A consumer holds `first_tokens` at first and
    `max_tokens` at most, for all its partitions: one that only fails is told from an outage by the others. While
    `outage_share` or more of the latest tries failed, records wait instead. A record that has tries left is moved only
    where the partition is at `nearly_full` of a limit and `acked_share` of what lies between its oldest and its newest
    record is done: then this record alone holds the partition up.
    """

    acks_per_move: int = 50
    first_tokens: float = 1.0
    max_tokens: float = 200.0
    outage_share: float = 0.5
    nearly_full: float = 0.9
    acked_share: float = 0.98

    def __post_init__(self) -> None:
        shares = (self.outage_share, self.nearly_full, self.acked_share)
        if self.acks_per_move < 1 or min(self.first_tokens, self.max_tokens) < 0 or not all(0 < s <= 1 for s in shares):
            raise UsageError(f"{self} is no rule of moves", hint="acks_per_move >= 1, tokens >= 0, shares in (0, 1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkLimits:
    """How much of one partition is held at a time; a partition at a limit is not fetched.

    `records` and `size_bytes` are read and not done. `span` are the offsets from the oldest record that is not done to
    the newest one: at most so many are read again after a restart.
    """

    records: int = 5_000
    size_bytes: int = 16 << 20
    span: int = 500_000

    def __post_init__(self) -> None:
        if min(self.records, self.size_bytes, self.span) < 1:
            raise UsageError(f"{self} are no limits", hint="each is 1 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkRules:
    """All that decides about the work on a partition."""

    mode: Mode = Mode.KEY
    retry: RetryRule = RetryRule()
    moves: MoveRule = MoveRule()
    limits: WorkLimits = WorkLimits()
