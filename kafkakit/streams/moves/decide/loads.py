"""The load of a topic from two readings of its ends."""

from dataclasses import dataclass
from enum import StrEnum


class LoadUnit(StrEnum):
    """What loads and capacities are measured in, each a second; bytes are those of one copy."""

    BYTES = "bytes"
    RECORDS = "records"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReading:
    """Sums over partitions: first offsets, the ends of two readings so many `seconds` apart, and one copy's size."""

    before: int
    after: int
    seconds: float
    starts: int
    size_bytes: int


def load_of(reading: TopicReading, unit: LoadUnit) -> int:
    """Records or bytes a second, rounded up; a record counts as many bytes as the log holds for one on average.

    A topic that was cut or made again between the readings counts as without load.
    """
    grown = max(0, reading.after - reading.before)
    if grown == 0 or reading.seconds <= 0:
        return 0
    rate = grown / reading.seconds
    if unit is LoadUnit.BYTES:
        rate *= reading.size_bytes / max(1, reading.after - reading.starts)
    return -int(-rate // 1)
