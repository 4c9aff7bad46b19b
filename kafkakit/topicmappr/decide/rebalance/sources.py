"""Which brokers give partitions away, by kafka-kit's thresholds on free storage, and the means it prints."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction

from kafkakit.topicmappr.decide.rebalance.request import GIB, RebalanceRequest

DEFAULT_THRESHOLD = 0.20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Brokers that give (None: every broker), sorted by free bytes and id, and how they were chosen in words.

    `mean` and `harmonic_mean` are of the free bytes before, over brokers with any.
    """

    brokers: tuple[int, ...] | None
    chosen_by: str
    mean: float
    harmonic_mean: float


def choose_sources(free: Mapping[int, int], new: Collection[int], request: RebalanceRequest) -> Sources:
    """Apply the thresholds to free bytes by broker; `new` brokers hold nothing of the selected topics yet."""
    positive = [f for _, f in sorted(free.items()) if f > 0]
    mean = sum(positive) / len(positive) if positive else 0.0
    harmonic = float(len(positive) / sum(Fraction(1, f) for f in positive)) if positive else 0.0
    gigabytes, fraction = _thresholds(request)
    if gigabytes is None and fraction is None:
        return Sources(brokers=None, chosen_by="", mean=mean, harmonic_mean=harmonic)
    if gigabytes:
        chosen = [b for b, f in free.items() if b not in new and f < gigabytes * GIB]
        words = f"(< {gigabytes:.2f}GB storage free)"
    elif fraction:
        chosen = [b for b, f in free.items() if harmonic and (harmonic - f) / harmonic > fraction]
        words = f"(>= {fraction * 100:.2f}% threshold below hmean)"
    else:
        chosen = [b for b in free if b not in new]
        words = ""
    return Sources(
        brokers=tuple(sorted(chosen, key=lambda b: (free[b], b))), chosen_by=words, mean=mean, harmonic_mean=harmonic
    )


def _thresholds(request: RebalanceRequest) -> tuple[float | None, float | None]:
    """(GiB free, part below the harmonic mean); both None where a goal is given and no threshold is."""
    if request.scale:
        return (None, None) if request.goal.given else (0.0, 0.0)
    if request.storage_threshold is None and request.storage_threshold_gb is None:
        return (None, None) if request.goal.given else (0.0, DEFAULT_THRESHOLD)
    fraction = DEFAULT_THRESHOLD if request.storage_threshold is None else request.storage_threshold
    return request.storage_threshold_gb or 0.0, fraction
