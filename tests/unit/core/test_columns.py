from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kafkakit.core.columns import Columns


@dataclass(frozen=True, slots=True)
class Inner(Columns):
    offset: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer(Columns):
    names: tuple[str, ...]
    lag: NDArray[np.int64]
    rates: NDArray[np.float64]
    inner: Inner


def outer(name: str, *lags: int) -> Outer:
    lag = np.array(lags, np.int64)
    return Outer(names=(name,), lag=lag, rates=lag / 2, inner=Inner(lag * 10))


def rows(value: Outer) -> list[tuple[int, float, int]]:
    return list(zip(value.lag.tolist(), value.rates.tolist(), value.inner.offset.tolist(), strict=True))


def test_rows_are_taken_in_the_order_asked_for_and_what_is_of_the_whole_stays() -> None:
    whole = outer("a", 1, 2, 3)
    assert rows(whole.taken(np.array([2, 0]))) == [(3, 1.5, 30), (1, 0.5, 10)]
    assert rows(whole.taken(whole.lag > 1)) == [(2, 1.0, 20), (3, 1.5, 30)]
    assert whole.taken(np.array([0])).names == ("a",)


def test_parts_are_stacked_below_one_another_an_empty_one_too() -> None:
    stacked = Outer.stacked([outer("a", 1), outer("b"), outer("c", 2, 3)])
    assert rows(stacked) == [(1, 0.5, 10), (2, 1.0, 20), (3, 1.5, 30)]
    assert stacked.names == ("a",)
    assert stacked.rates.dtype == np.dtype(np.float64)
