"""The catch-up test: a copy whose log takes in more than its throttle lets through never gets there."""

from collections.abc import Sequence
from dataclasses import dataclass

from kafkakit.core.model import TopicPartition
from kafkakit.core.quantities import counted, format_rate
from kafkakit.execution.decide.schedule.work import Limits, Rates, Speeds, Task

MARGIN = 1.1  # above what comes in, so that copies do not only keep up


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """A broker whose throttle is too low: bytes per second that come in, that get through, and that would do.

    `direction` is `into` or `out`; `partitions` are those that may be in flight together there, the busiest first.
    """

    broker: int
    direction: str
    ingest_bytes_per_s: float
    throttle: int
    reached_bytes_per_s: float
    smallest: int
    partitions: tuple[TopicPartition, ...]

    def __str__(self) -> str:
        verb = "take in" if self.direction == "into" else "send"
        names = ", ".join(map(str, self.partitions[:3])) + (" ..." if len(self.partitions) > 3 else "")
        together = counted(len(self.partitions), "partition")
        return (
            f"broker {self.broker} may {verb} {format_rate(self.throttle)} for moves, of which it reaches "
            f"{format_rate(self.reached_bytes_per_s)}, but the logs of {together} that may be in flight there at a "
            f"time grow by {format_rate(self.ingest_bytes_per_s)} ({names}): they would never catch up"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUp:
    """The answer: throttles that are too low, and the smallest rate for all brokers that works (None: all is well)."""

    shortfalls: tuple[Shortfall, ...] = ()
    smallest: int | None = None


def catch_up(tasks: Sequence[Task], limits: Limits, rates: Rates, speeds: Speeds) -> CatchUp:
    """Hold each broker's throttles against the growth of the copies that it may have in flight at a time.

    The worst case counts: the copies with most ingest that the limits on concurrency allow together. The smallest rate
    has a margin of 10 % and is rounded up to two digits. Directions without a throttle pass. O(copies log copies).
    """
    demands: dict[tuple[int, str], list[tuple[float, int, TopicPartition]]] = {}
    for task in tasks:
        adding = task.adding
        if not adding or task.leader is None or task.ingest_bytes_per_s <= 0:
            continue
        at_once = 1 if limits.one_replica_at_a_time and not task.running else len(adding)
        for broker in adding:
            demands.setdefault((broker, "into"), []).append((task.ingest_bytes_per_s, 1, task.key))
        demands.setdefault((task.leader, "out"), []).append((task.ingest_bytes_per_s, at_once, task.key))
    found = []
    for (broker, direction), copies in sorted(demands.items()):
        throttle = rates.into_broker(broker) if direction == "into" else rates.out_of_broker(broker)
        if throttle is None:
            continue
        ingest, keys = _together(copies, limits.into_each if direction == "into" else limits.out_each)
        reached = throttle * speeds.efficiency
        if reached <= ingest:
            smallest = readable_rate(ingest * MARGIN / speeds.efficiency)
            found.append(
                Shortfall(
                    broker=broker,
                    direction=direction,
                    ingest_bytes_per_s=ingest,
                    throttle=throttle,
                    reached_bytes_per_s=reached,
                    smallest=smallest,
                    partitions=keys,
                )
            )
    if not found:
        return CatchUp()
    found.sort(key=lambda s: (-s.smallest, s.broker, s.direction))
    return CatchUp(shortfalls=tuple(found), smallest=found[0].smallest)


def _together(copies: list[tuple[float, int, TopicPartition]], slots: int) -> tuple[float, tuple[TopicPartition, ...]]:
    """The most ingest that can be in flight at a time, and whose; one that fills more than the slots goes alone."""
    ordered = sorted(copies, key=lambda c: (-c[0] * c[1], c[2]))
    ingest, used, keys = 0.0, 0, []
    for each, count, key in sorted(copies, key=lambda c: (-c[0], c[2])):
        fits = min(count, slots - used)
        if fits <= 0:
            break
        ingest += each * fits
        used += fits
        keys.append(key)
    alone, count, key = ordered[0]
    if alone * count > ingest:
        return alone * count, (key,)
    return ingest, tuple(keys)


def readable_rate(rate: float) -> int:
    """The rate rounded up to two digits."""
    step = 1
    while rate / step > 100:
        step *= 10
    return -int(-rate // step) * step
