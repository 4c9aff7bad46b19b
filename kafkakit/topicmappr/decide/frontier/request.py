"""What the operator asked `topicmappr frontier` for, validated."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TypeVar

from kafkakit.core.errors import UsageError
from kafkakit.core.quantities import parse_percent, parse_size
from kafkakit.topicmappr.decide.rebalance.request import Goal, RebalanceRequest

DEFAULT_BANDS = tuple(Fraction(n, 100) for n in (20, 15, 10, 7, 5, 3, 2, 1))
MAX_POINTS = 50
T = TypeVar("T")


class Metric(StrEnum):
    """How deviation is measured: part of a broker's share of used space, or the range of free bytes."""

    BAND = "band"
    FREE_RANGE = "free-range"


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierRequest:
    """The points to work out: `bands`, or for the other metric `free_ranges` in bytes (empty: parts of today's).

    `base` holds selection and rules; its goal names the metric.
    """

    base: RebalanceRequest
    metric: Metric
    bands: tuple[Fraction, ...] = DEFAULT_BANDS
    free_ranges: tuple[int, ...] = ()


def metric_of(metric: Metric | None, bands: str, free_ranges: str) -> Metric:
    """The metric that the flags mean; raises `UsageError` where they contradict each other."""
    if bands and free_ranges:
        raise UsageError("--bands and --free-ranges contradict each other", hint="give one of them")
    if metric is None:
        return Metric.FREE_RANGE if free_ranges else Metric.BAND
    if (bands and metric is Metric.FREE_RANGE) or (free_ranges and metric is Metric.BAND):
        raise UsageError(f"--metric {metric.value} contradicts the points given", hint="leave one of them out")
    return metric


def parse_bands(text: str) -> tuple[Fraction, ...]:
    """Read `20%,10%,5%`; the usual ones when empty."""
    if not text.strip():
        return DEFAULT_BANDS
    return tuple(_few([parse_percent(part, "--bands", most=1000) for part in _parts(text, "--bands")], "--bands"))


def parse_ranges(text: str) -> tuple[int, ...]:
    """Read `500GiB,100GiB` as bytes."""
    return (
        tuple(_few([parse_size(part, "--free-ranges") for part in _parts(text, "--free-ranges")], "--free-ranges"))
        if text
        else ()
    )


def goal_of(metric: Metric) -> Goal:
    """A goal of the metric's balance; how tight it is does not matter."""
    return Goal(band=Fraction(1)) if metric is Metric.BAND else Goal(free_range_bytes=0)


def _parts(text: str, flag: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise UsageError(f"{flag}: {text[:60]!r} has an empty entry")
    return parts


def _few(points: Sequence[T], flag: str) -> Sequence[T]:
    if len(points) > MAX_POINTS:
        raise UsageError(f"{flag}: {len(points)} points are more than {MAX_POINTS}")
    return points
