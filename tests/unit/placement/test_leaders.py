"""Leaders by the one flow: even first, then the documented tie-breaks, each against every choice there is."""

import random
from collections import Counter
from itertools import product

from kafkakit.placement.leaders import even_leaders, pass_leaders

Rows = list[tuple[int, ...]]


def drawn(seed: int, brokers: int, rows: int) -> Rows:
    rng = random.Random(seed)
    return [tuple(rng.sample(range(1, brokers + 1), rng.randint(1, min(3, brokers)))) for _ in range(rows)]


def levels(leaders: tuple[int, ...] | list[int], led: dict[int, int]) -> list[int]:
    return sorted((Counter(leaders) + Counter(led)).values(), reverse=True)


def squares(leaders: tuple[int, ...] | list[int], led: dict[int, int]) -> int:
    return sum(n * n for n in levels(leaders, led))


def test_passing_is_even_and_then_takes_the_earliest_candidates() -> None:
    for seed in range(60):
        rng = random.Random(1000 + seed)
        rows = drawn(seed, rng.randint(2, 4), rng.randint(1, 6))
        led = {b: rng.randint(0, 3) for b in (1, 2, 3, 4)}

        def price(leaders: tuple[int, ...], rows: Rows = rows, led: dict[int, int] = led) -> tuple[int, int]:
            places = sum(row.index(b) for row, b in zip(rows, leaders, strict=True))
            return squares(leaders, led), places

        chosen = tuple(pass_leaders(rows, led))
        assert price(chosen) == min(map(price, product(*rows))), f"seed {seed}: {rows} with {led} gave {chosen}"


def test_an_earlier_candidate_wins_whatever_its_number() -> None:
    assert pass_leaders([(2, 1)], {}) == [2]
    assert pass_leaders([(1, 2)], {}) == [1]
    # Both rows even out in two ways; one of them takes the first candidate of both.
    assert pass_leaders([(2, 1), (1, 2)], {}) == [2, 1]
    assert pass_leaders([(1, 2), (2, 1)], {}) == [1, 2]
    # The second candidate costs less than the third; the first is led to the level of both already.
    assert pass_leaders([(3, 2, 1)], {3: 1}) == [2]
    assert pass_leaders([(3, 1, 2)], {3: 1}) == [1]


def test_evenness_is_worth_any_number_of_places() -> None:
    row = (1, 2, 3, 4, 5, 6, 7, 8)
    assert sorted(pass_leaders([row] * 8, {})) == list(row)
    assert pass_leaders([row], dict.fromkeys(range(1, 8), 1)) == [8]


def test_even_leaders_change_the_fewest_lists() -> None:
    for seed in range(60):
        rng = random.Random(2000 + seed)
        lists = drawn(seed, rng.randint(2, 4), rng.randint(1, 6))
        brokers = sorted({b for row in lists for b in row})
        base = [rng.randint(0, 3) for _ in brokers]
        led = dict(zip(brokers, base, strict=True))

        def price(leaders: tuple[int, ...], rows: Rows = lists, led: dict[int, int] = led) -> tuple[int, int]:
            changes = sum(row[0] != b for row, b in zip(rows, leaders, strict=True))
            return squares(leaders, led), changes

        chosen = tuple(row[0] for row in even_leaders(lists, lists, brokers, base=base))
        assert price(chosen) == min(map(price, product(*lists))), f"seed {seed}: {lists} with {led} gave {chosen}"


def test_only_candidates_lead_and_the_others_keep_their_order() -> None:
    lists = [(1, 2, 3), (1, 2, 3), (1, 2, 3), (4,)]
    after = even_leaders(lists, lists, (1, 2, 3), candidates=[(3,), (1, 3), (), (4,)])
    assert after == [(3, 1, 2), (1, 2, 3), (1, 2, 3), (4,)]
