"""What coarsening counts on: the size of a RANGES section is that of the section as it is written."""

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from kafkakit.streams.model.commit import CommitState, OffsetRanges
from kafkakit.streams.model.kkm1.encode import ranges_size
from kafkakit.streams.model.kkm1.sections import FEW_BYTES, body_of, pack_runs, pack_smallest, runs_of


def columns(done: OffsetRanges) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.array([start for start, _ in done], np.int64), np.array([end for _, end in done], np.int64)


@pytest.mark.parametrize("seed", range(16))
def test_the_size_is_that_of_the_section(seed: int) -> None:
    rng = random.Random(seed)
    base, at, pairs = rng.choice([0, 5, 127, 128, 10**9, 2**40]), 0, []
    for _ in range((1, 2, 40, 700)[seed % 4]):
        start = at + rng.choice([1, 2, 9, 200])
        at = start + rng.choice([1, 3, 130])
        pairs.append((base + start, base + at))
    done = OffsetRanges.of(pairs)
    runs = runs_of(base, done)
    section = len(body_of(CommitState(base=base, done=done), pack_smallest(runs)))
    assert ranges_size(base, *columns(done)) == section


def test_a_few_runs_stay_runs_where_a_bitmap_would_be_smaller() -> None:
    done = OffsetRanges.of([(1, 2), (3, 4)])
    runs = pack_runs(runs_of(0, done))
    assert len(runs.data) == 4 <= FEW_BYTES
    assert ranges_size(0, *columns(done)) == len(body_of(CommitState(base=0, done=done), runs))


def test_nothing_done_takes_nothing() -> None:
    none = np.empty(0, np.int64)
    assert ranges_size(7, none, none) == 0
