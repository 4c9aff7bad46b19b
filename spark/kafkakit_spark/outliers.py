"""Values far above those of their peers, hour by hour, for many groups of peers at once."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkakit.rules.audits.hotspots import NORMAL_MAD, Peers

Numbers = NDArray[np.float64]
Ids = NDArray[np.int64]


class Outliers(NamedTuple):
    """For each value: whether it is far above its peers, and their median."""

    is_hot: NDArray[np.bool_]
    median: Numbers


def outliers(cells: Ids, values: Numbers, peers: Peers) -> Outliers:
    """Compare each value with those of the same cell (a group of peers in an hour).

    Args:
        cells: the cell of each value, numbered from 0.
        values: NaN where unknown; these are not compared and are no peers.
        peers: what is far above.

    Sorts twice.
    """
    known = ~np.isnan(values)
    counts = np.bincount(cells[known], minlength=int(cells.max(initial=-1)) + 1)
    median = _medians(cells, values, counts)[cells]
    mad = _medians(cells, np.abs(values - median), counts)[cells]
    above = np.maximum(peers.factor * median, median + peers.deviations * NORMAL_MAD * mad)
    with np.errstate(invalid="ignore"):
        is_hot = known & (values > above) & (values >= peers.floor) & (counts[cells] >= peers.least)
    return Outliers(is_hot, median)


def _medians(cells: Ids, values: Numbers, counts: Ids) -> Numbers:
    """The median of each cell; NaN where it has no value."""
    known = ~np.isnan(values)
    ordered = values[known][np.lexsort((values[known], cells[known]))]
    if ordered.size == 0:
        return np.full(len(counts), np.nan)
    first = np.cumsum(counts) - counts
    low, high = (np.minimum(first + offset, ordered.size - 1) for offset in ((counts - 1).clip(0) // 2, counts // 2))
    found: Numbers = np.where(counts > 0, (ordered[low] + ordered[high]) / 2, np.nan)
    return found
