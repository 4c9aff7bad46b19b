import contextlib

from hypothesis import given
from hypothesis import strategies as st

from kafkakit.core.errors import UsageError
from kafkakit.core.quantities import parse_size
from kafkakit.sandbox.decide.workload import (
    CHUNK_BYTES,
    Dice,
    LoadRequest,
    chunk,
    chunk_sizes,
    filler,
    plan_load,
    split_bytes,
)

seeds = st.integers(0, 2**64 - 1)


@given(st.integers(0, 2**40), st.lists(st.integers(1, 10**6), min_size=1, max_size=50))
def test_shares_add_up_and_follow_their_weights(total: int, weights: list[int]) -> None:
    parts = split_bytes(total, weights)
    assert sum(parts) == total
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part - total * weight / sum(weights)) <= 1


@given(st.integers(1, 12), st.integers(1, 10), st.integers(0, 10**9), seeds, st.data())
def test_a_workload_keeps_its_promises(topics: int, partitions: int, size: int, seed: int, data: st.DataObject) -> None:
    brokers = data.draw(st.integers(1, 7))
    rack_count = data.draw(st.integers(1, 3))
    racks = {1001 + n: "abc"[n % rack_count] for n in range(brokers)}
    factor = data.draw(st.integers(1, brokers))
    request = LoadRequest(topics=topics, partitions=partitions, data_bytes=size, seed=seed, replication=factor)
    loads = plan_load(request, racks)
    assert loads == plan_load(request, racks)
    assert sum(load.total_bytes for load in loads) == size
    assert len({load.name for load in loads}) == topics
    for load in loads:
        assert sorted(load.assignments) == list(range(partitions))
        assert len(load.partition_bytes) == partitions
        for replicas in load.assignments.values():
            assert len(set(replicas)) == len(replicas) == factor
            assert len({racks[b] for b in replicas}) == min(factor, len(set(racks.values())))


def test_topics_differ_in_size_and_seeds_differ_in_result() -> None:
    racks = {1001: "a", 1002: "b", 1003: "c"}

    def sizes(seed: int) -> list[int]:
        request = LoadRequest(topics=10, partitions=4, data_bytes=10**9, seed=seed, replication=2)
        return [load.total_bytes for load in plan_load(request, racks)]

    assert max(sizes(1)) > 5 * min(sizes(1))
    assert sizes(1) != sizes(2)


@given(st.integers(0, 5 * CHUNK_BYTES), seeds)
def test_values_have_the_sizes_asked_for(total: int, seed: int) -> None:
    block = filler(seed)
    values = [chunk(block, number, size) for number, size in enumerate(chunk_sizes(total))]
    assert sum(map(len, values)) == total
    assert len(set(values)) == len(values)


@given(seeds, st.lists(st.integers(), max_size=20))
def test_shuffling_keeps_the_items(seed: int, items: list[int]) -> None:
    assert sorted(Dice(seed).shuffled(items)) == sorted(items)


@given(st.text(max_size=20))
def test_any_text_is_a_size_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert parse_size(text) >= 0
