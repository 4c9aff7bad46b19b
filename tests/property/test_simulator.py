"""Whatever happens to a simulated cluster, no byte appears or vanishes, and no quota or line is exceeded."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafkakit.core.model import TopicPartition
from kafkakit.simulator.cluster import DiskSeen, SimBroker, SimCluster, SimDisk, SimMove, SimPartition
from tests.rigs.observed_simulation import ObservedSimulation

MB = 1_000_000
BROKERS = (1, 2, 3, 4, 5)
BASE = 700 * MB

lists = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True).map(tuple)
partitions = st.lists(st.tuples(lists, st.integers(0, 80), st.sampled_from([0, 0, 0.1, 1.0])), min_size=1, max_size=6)
events = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), st.integers(0, 5), lists),
        st.tuples(st.just("cancel"), st.integers(0, 5), st.just(())),
        st.tuples(st.just("rate"), st.sampled_from(BROKERS), st.tuples(st.sampled_from([0, 1, 5, 20, None]))),
        st.tuples(st.sampled_from(["kill", "revive"]), st.sampled_from(BROKERS), st.just(())),
        st.tuples(st.just("wait"), st.integers(1, 40), st.just(())),
    ),
    max_size=25,
)


def build(found: Sequence[tuple[tuple[int, ...], int, float]]) -> SimCluster:
    return SimCluster(
        brokers=tuple(
            SimBroker(id=b, disks=(SimDisk(path="/a", used_bytes=BASE),), line_into=50 * MB, line_out=50 * MB)
            for b in BROKERS
        ),
        partitions=tuple(
            SimPartition(
                key=TopicPartition("t", n), replicas=replicas, size_bytes=size * MB, ingest_bytes_per_s=ingest * MB
            )
            for n, (replicas, size, ingest) in enumerate(found)
        ),
    )


def play(simulation: ObservedSimulation, kind: str, number: int, rest: tuple[int | None, ...], count: int) -> None:
    key = TopicPartition("t", number % count)
    match kind:
        case "submit":
            simulation.submit([SimMove(key=key, target=tuple(b for b in rest if b is not None))])
        case "cancel":
            simulation.cancel([key])
        case "rate":
            rate = None if rest[0] is None else rest[0] * MB
            simulation.set_rates(number, into=rate, out=rate)
        case "kill":
            simulation.kill(number)
        case "revive":
            simulation.revive(number)
        case "wait":
            before = simulation.received.copy(), simulation.sent.copy()
            simulation.advance(number)
            for old, new in zip(before, (simulation.received, simulation.sent), strict=True):
                assert ((new - old) <= 50 * MB * number + 1).all()


@settings(deadline=None)
@example([((3,), 26, 0)], [("submit", 0, (1, 2)), ("submit", 0, (3,))])
@given(partitions, events)
def test_bytes_are_conserved_and_lists_stay_sound(
    found: list[tuple[tuple[int, ...], int, float]],
    story: list[tuple[str, int, tuple[int | None, ...]]],
) -> None:
    simulation = ObservedSimulation(build(found))
    for kind, number, rest in story:
        play(simulation, kind, number, rest, len(found))
    assert simulation.sent.sum() == pytest.approx(simulation.received.sum())
    if not any(ingest for _, _, ingest in found):
        # What was there, and what was copied, less what was deleted: each copy is counted once.
        used = sum(d.used_bytes for d in finish(simulation, found))
        held = sum(len(simulation.lists[TopicPartition("t", n)]) * size * MB for n, (_, size, _) in enumerate(found))
        started = sum(len(replicas) * size * MB for replicas, size, _ in found)
        assert used == pytest.approx(len(BROKERS) * BASE + held - started, abs=100)
    assert all(d.used_bytes >= 0 for d in simulation.disks)
    for replicas in simulation.lists.values():
        assert len(set(replicas)) == len(replicas) >= 1
    assert simulation.under_min_isr_s <= simulation.under_replicated_s + simulation.now_s * len(found)


def finish(simulation: ObservedSimulation, found: Sequence[object]) -> tuple[DiskSeen, ...]:
    """Let everything that can end, end: all brokers back, no throttle, time for deletions."""
    for broker in BROKERS:
        simulation.revive(broker)
        simulation.set_rates(broker, into=None, out=None)
    simulation.advance(400)
    assert simulation.in_flight == ()
    assert simulation.waiting_bytes == 0
    assert simulation.observe().under_replicated == 0
    return simulation.disks
