"""The simulator keeps a replication quota as real brokers do: figures are those measured on Kafka 4.1."""

import pytest

from kafkakit.core.model import TopicPartition
from kafkakit.simulator.cluster import QuotaModel, SimBroker, SimCluster, SimMove, SimPartition, efficiency_of
from kafkakit.simulator.simulation import Simulation
from tests.rigs.observed_simulation import ObservedSimulation

MB = 1_000_000
KAFKAS = QuotaModel()
FAST = QuotaModel(window_num=3, efficiency=efficiency_of(3, 100, 16_000))


def cluster(
    quota: QuotaModel = KAFKAS, *, wildcard: bool = False, ingest: float = 0.0, follower: int = 2
) -> SimCluster:
    """Four partitions of 600 MB on brokers 1 and 2, led by 1; broker 3 is empty, lines are of 200 MB/s."""
    return SimCluster(
        brokers=tuple(SimBroker(id=b, line_into=200 * MB, line_out=200 * MB) for b in (1, 2, 3)),
        partitions=(
            *(SimPartition(key=TopicPartition("t", n), replicas=(1, 2), size_bytes=600 * MB) for n in range(4)),
            SimPartition(
                key=TopicPartition("busy", 0), replicas=(1, follower), size_bytes=MB, ingest_bytes_per_s=ingest
            ),
        ),
        quota=quota,
        wildcard=wildcard,
    )


def moving(given: SimCluster, rate: float | None, *, into: bool = True, out: bool = True) -> Simulation:
    """The four partitions on their way from broker 1 to 3 under a throttle."""
    simulation = Simulation(given)
    set_rate(simulation, rate, into=into, out=out)
    simulation.submit(SimMove(key=TopicPartition("t", n), target=(3, 2)) for n in range(4))
    return simulation


def set_rate(simulation: Simulation, rate: float | None, *, into: bool = True, out: bool = True) -> None:
    simulation.set_rates(1, into=None, out=rate if out else None)
    simulation.set_rates(3, into=rate if into else None, out=None)


def seconds(simulation: Simulation, count: int) -> list[float]:
    """MB that were copied in each of the next seconds."""
    found = []
    for _ in range(count):
        before = simulation.copied_bytes
        simulation.advance(1)
        found.append((simulation.copied_bytes - before) / MB)
    return found


@pytest.mark.parametrize(("into", "out"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("rate", [2, 3, 4])
def test_either_side_alone_limits_to_four_fifths_from_the_first_second(rate: int, into: bool, out: bool) -> None:
    found = seconds(moving(cluster(), rate * MB, into=into, out=out), 40)
    assert sum(found) / 40 == pytest.approx(0.8 * rate, rel=0.02)
    assert found[0] <= rate


def test_nothing_is_limited_without_a_rate() -> None:
    assert sum(seconds(moving(cluster(), None), 5)) == pytest.approx(1000)


def test_raising_a_rate_lets_ten_seconds_of_the_difference_through_at_once() -> None:
    simulation = moving(cluster(), 4 * MB)
    seconds(simulation, 15)
    set_rate(simulation, 12 * MB)
    found = seconds(simulation, 8)
    assert 60 <= found[0] <= 85
    assert max(found[1:]) < 12


def test_raising_from_a_low_rate_bursts_then_stalls() -> None:
    simulation = moving(cluster(), 1 * MB)
    seconds(simulation, 15)
    set_rate(simulation, 6 * MB)
    found = seconds(simulation, 6)
    assert 40 <= found[0] <= 50
    assert found.count(0.0) >= 3


def test_lowering_a_rate_stops_the_move_until_the_average_is_below() -> None:
    simulation = moving(cluster(), 12 * MB)
    seconds(simulation, 15)
    set_rate(simulation, 1 * MB)
    found = seconds(simulation, 40)
    still = next(k for k, passed in enumerate(found) if passed)
    assert 8 <= still <= 11
    assert sum(found[still:]) / (40 - still) == pytest.approx(0.8, rel=0.25)


def test_a_short_window_neither_bursts_nor_stalls_for_long() -> None:
    simulation = moving(cluster(FAST), 12 * MB)
    seconds(simulation, 15)
    set_rate(simulation, 1 * MB)
    assert sum(seconds(simulation, 6)) > 0
    seconds(simulation, 30)
    set_rate(simulation, 12 * MB)
    assert seconds(simulation, 1)[0] < 45


def test_a_rate_of_nothing_moves_nothing_and_removing_it_frees_the_move() -> None:
    simulation = moving(cluster(), 0)
    assert sum(seconds(simulation, 20)) == 0
    set_rate(simulation, None)
    assert seconds(simulation, 1)[0] == pytest.approx(200)


def test_bytes_come_in_lumps_of_one_piece_of_each_partition() -> None:
    simulation = moving(cluster(), 12 * MB)
    seconds(simulation, 15)
    set_rate(simulation, 8 * MB)
    found = seconds(simulation, 12)
    assert all(passed % 4 == pytest.approx(0, abs=1e-6) for passed in found)
    assert 0.0 in found


def test_in_sync_traffic_counts_only_with_a_wildcard_list() -> None:
    exact = moving(cluster(ingest=5 * MB), 4 * MB)
    starved = moving(cluster(ingest=5 * MB, wildcard=True), 4 * MB)
    assert sum(seconds(exact, 30)) / 30 == pytest.approx(3.2, rel=0.02)
    assert sum(seconds(starved, 30)) == 0


@pytest.mark.parametrize(("into", "out", "follower"), [(False, True, 2), (True, False, 3)])
def test_either_side_of_a_wildcard_list_counts_in_sync_traffic_also_after_a_change(
    into: bool, out: bool, follower: int
) -> None:
    starved = moving(cluster(ingest=5 * MB, wildcard=True, follower=follower), 4 * MB, into=into, out=out)
    assert sum(seconds(starved, 20)) == 0
    set_rate(starved, 4.4 * MB, into=into, out=out)
    assert sum(seconds(starved, 20)) == 0
    set_rate(starved, 40 * MB, into=into, out=out)
    assert sum(seconds(starved, 20)) > 0


def test_a_wildcard_list_slows_the_recovery_of_other_followers() -> None:
    found = {}
    for wildcard in (False, True):
        given = cluster(ingest=3 * MB, wildcard=wildcard)
        simulation = ObservedSimulation(given)
        for broker in (1, 2):
            simulation.set_rates(broker, into=4 * MB, out=4 * MB)
        simulation.kill(2)
        simulation.advance(10)
        simulation.revive(2)
        simulation.advance(3)
        found[wildcard] = simulation.observe().under_replicated
    assert found == {False: 0, True: 1}


def test_efficiency_meets_the_measured_points() -> None:
    small, large = 16_000, 900_000
    assert efficiency_of(11, 1000, large) == pytest.approx(0.80, abs=0.01)
    assert efficiency_of(11, 1000, small) == pytest.approx(0.93, abs=0.02)
    assert 0.70 <= efficiency_of(3, 1000, small) <= 0.75
    assert 0.95 <= efficiency_of(3, 100, small) <= 1.0
    assert efficiency_of(3, 100, large) == pytest.approx(0.85, abs=0.02)
    assert efficiency_of(3, 100, 5_000_000) > 0.95, "a batch above the limit comes whole"
