"""Counting data in and out: every acknowledged record must be read back."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Records by sequence number: `repeated` were read more than once, `lost` acknowledged but never read."""

    acknowledged: int
    read: int
    repeated: int
    lost: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """True when nothing acknowledged was lost."""
        return not self.lost


def tally(acknowledged: Iterable[int], read: Iterable[int]) -> Tally:
    """Compare what producers were told with what consumers saw; O(records)."""
    confirmed = set(acknowledged)
    seen: set[int] = set()
    repeated = count = 0
    for number in read:
        count += 1
        repeated += number in seen
        seen.add(number)
    return Tally(acknowledged=len(confirmed), read=count, repeated=repeated, lost=tuple(sorted(confirmed - seen)))
