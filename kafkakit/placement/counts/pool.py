"""Dealing a rack pool out: which partition gets which of the pool's brokers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkakit.placement.arrays import Ints


def deal_pool(takers: Sequence[int], brokers: "Ints", quota: "Ints", held: Sequence[Sequence[int]]) -> list[int]:
    """Give each taker one broker so that broker i is given `quota[i]` times.

    `takers` are partition numbers (repeated when they take several), `held[p]` what partition p has
    already. A broker's turns are spread over the whole row, so that neighbouring partitions, which mostly
    belong to one topic, get different brokers. Clashes are resolved by swapping with the nearest row that
    suits both; where none does, the taker gets the least used broker it can hold.
    """
    turns = [
        ((2 * k + 1) / (2 * amount), broker)
        for broker, amount in zip(brokers.tolist(), quota.tolist(), strict=True)
        for k in range(amount)
    ]
    row = [broker for _, broker in sorted(turns)]
    taken: dict[int, set[int]] = {}
    for j, p in enumerate(takers):
        mine = taken.setdefault(p, set(held[p]))
        if row[j] in mine:
            _swap(row, j, takers, taken, held)
        mine.add(row[j])
    return row


def _swap(
    row: list[int], j: int, takers: Sequence[int], taken: dict[int, set[int]], held: Sequence[Sequence[int]]
) -> None:
    mine = taken[takers[j]]
    for k in range(j + 1, len(row)):
        if row[k] not in mine:
            row[j], row[k] = row[k], row[j]
            return
    for k in range(j - 1, -1, -1):
        other = taken[takers[k]]
        if takers[k] != takers[j] and row[k] not in mine and row[j] not in other:
            other.remove(row[k])
            other.add(row[j])
            row[j], row[k] = row[k], row[j]
            return
    free = [b for b in sorted(set(row)) if b not in mine]
    if free:
        row[j] = min(free, key=lambda b: (row.count(b), b))
