"""ISR, leaders, disks, dead brokers, cancels; the simulator keeps a replication quota as real brokers do."""

from collections.abc import Mapping

import pytest

from kafkakit.core.errors import UsageError
from kafkakit.core.model import TopicPartition, TopicPartitionReplica
from kafkakit.simulator.cluster import (
    DiskSeen,
    QuotaModel,
    SimBroker,
    SimCluster,
    SimDisk,
    SimMove,
    SimPartition,
    efficiency_of,
)
from kafkakit.simulator.simulation import Simulation
from tests.rigs.observed_simulation import CopySeen, ObservedSimulation

MB = 1_000_000
T0 = TopicPartition("t", 0)


def broker(number: int, *dirs: SimDisk, line: float = 100 * MB) -> SimBroker:
    return SimBroker(id=number, disks=dirs or (SimDisk(path="/a"),), line_into=line, line_out=line)


def one_partition(*brokers: SimBroker, ingest: float = 0.0, min_isr: int = 1) -> SimCluster:
    """`t-0` with 100 MB on brokers 1 and 2."""
    partition = SimPartition(key=T0, replicas=(1, 2), size_bytes=100 * MB, ingest_bytes_per_s=ingest, min_isr=min_isr)
    return SimCluster(brokers=brokers or tuple(broker(b) for b in (1, 2, 3, 4)), partitions=(partition,))


def copies(simulation: ObservedSimulation) -> Mapping[int, CopySeen]:
    return {c.broker: c for c in simulation.observe().copies}


def disk(simulation: ObservedSimulation, number: int, path: str = "/a") -> DiskSeen:
    return next(d for d in simulation.observe().disks if (d.broker, d.path) == (number, path))


def test_each_new_copy_joins_when_caught_up_and_the_move_ends_with_the_last() -> None:
    simulation = ObservedSimulation(one_partition())
    simulation.set_rates(3, into=20 * MB, out=None)
    simulation.set_rates(4, into=5 * MB, out=None)
    simulation.submit([SimMove(key=T0, target=(3, 4))])
    simulation.advance(10)
    seen = copies(simulation)
    assert [b for b, c in sorted(seen.items()) if c.in_isr] == [1, 2, 3]
    assert seen[4].bytes == pytest.approx(40 * MB)
    assert simulation.lists[T0] == (3, 4, 1, 2)
    simulation.advance(14)
    assert not simulation.finished
    simulation.advance(3)
    assert 24 < simulation.finished[T0] <= 27
    assert simulation.lists[T0] == (3, 4)
    assert simulation.in_flight == ()


def test_space_of_old_copies_comes_back_after_the_deletion_delay() -> None:
    start = SimDisk(path="/a", used_bytes=150 * MB, total_bytes=1000 * MB)
    simulation = ObservedSimulation(one_partition(broker(1, start), broker(2), broker(3), broker(4)))
    simulation.submit([SimMove(key=T0, target=(3, 2))])
    simulation.advance(3)
    assert T0 in simulation.finished
    assert disk(simulation, 1).used_bytes == 150 * MB
    assert disk(simulation, 3).used_bytes == 100 * MB
    simulation.advance(50)
    assert disk(simulation, 1).used_bytes == 150 * MB
    simulation.advance(15)
    assert disk(simulation, 1).used_bytes == 50 * MB


def test_a_full_dir_fails_as_a_whole_and_the_move_hangs_until_it_is_cancelled() -> None:
    small = (SimDisk(path="/a", total_bytes=60 * MB), SimDisk(path="/b", total_bytes=900 * MB))
    simulation = ObservedSimulation(one_partition(broker(1), broker(2), broker(3, *small)))
    simulation.set_rates(3, into=10 * MB, out=None)
    simulation.submit([SimMove(key=T0, target=(3, 2), dirs={3: "/a"})])
    simulation.advance(600)
    assert disk(simulation, 3).failed
    assert not disk(simulation, 3, "/b").failed
    assert simulation.in_flight == (T0,)
    assert copies(simulation)[1].in_isr
    assert copies(simulation)[2].in_isr
    simulation.cancel([T0])
    assert not list(simulation.in_flight)
    assert simulation.lists[T0] == (2, 1)


def test_ingest_and_other_partitions_fill_a_dir_too_and_leaders_leave_it() -> None:
    filling = SimDisk(path="/a", total_bytes=400 * MB, used_bytes=100 * MB, growth_bytes_per_s=2 * MB)
    simulation = ObservedSimulation(one_partition(broker(1, filling), broker(2), broker(3), ingest=1 * MB, min_isr=2))
    simulation.advance(90)
    assert disk(simulation, 1).used_bytes == pytest.approx(370 * MB)
    simulation.advance(60)
    seen = simulation.observe()
    assert disk(simulation, 1).failed
    assert (seen.under_replicated, seen.under_min_isr) == (1, 1)
    simulation.submit([SimMove(key=T0, target=(3, 2))])
    simulation.advance(30)
    assert simulation.lists[T0] == (3, 2)
    assert simulation.observe().under_replicated == 0


def test_a_copy_faster_than_its_throttle_never_catches_up() -> None:
    simulation = ObservedSimulation(one_partition(ingest=5 * MB))
    simulation.set_rates(3, into=6 * MB, out=None)
    simulation.submit([SimMove(key=T0, target=(3, 2))])
    simulation.advance(3600)
    assert simulation.in_flight == (T0,)
    simulation.set_rates(3, into=20 * MB, out=None)
    simulation.advance(3600)
    assert T0 in simulation.finished


def test_a_killed_destination_holds_the_move_up_and_goes_on_when_it_is_back() -> None:
    simulation = ObservedSimulation(one_partition())
    simulation.set_rates(3, into=5 * MB, out=None)
    simulation.submit([SimMove(key=T0, target=(3, 2))])
    simulation.advance(10)
    simulation.kill(3)
    simulation.advance(300)
    assert copies(simulation)[3].bytes == pytest.approx(40 * MB)
    assert simulation.observe().under_replicated == 0
    simulation.revive(3)
    simulation.advance(16)
    assert T0 in simulation.finished


def test_a_killed_leader_leaves_the_isr_after_the_session_timeout() -> None:
    simulation = ObservedSimulation(one_partition(ingest=1 * MB, min_isr=2))
    simulation.submit([SimMove(key=T0, target=(1, 2, 3))])
    simulation.set_rates(3, into=5 * MB, out=None)
    simulation.kill(1)
    simulation.advance(8)
    assert copies(simulation)[1].in_isr
    assert copies(simulation)[3].bytes == 0
    assert simulation.observe().offline == 1
    simulation.advance(5)
    assert not copies(simulation)[1].in_isr
    assert copies(simulation)[3].bytes > 0
    assert simulation.observe().under_min_isr == 1
    assert simulation.offline_s == 9
    simulation.revive(1)
    simulation.advance(3)
    assert simulation.observe().under_replicated == 0
    simulation.advance(60)
    assert simulation.lists[T0] == (1, 2, 3)
    assert T0 in simulation.finished


def test_the_last_member_stays_in_the_isr_and_leads_again() -> None:
    simulation = ObservedSimulation(one_partition(ingest=1 * MB))
    simulation.kill(1)
    simulation.advance(20)
    simulation.kill(2)
    simulation.advance(20)
    simulation.submit([SimMove(key=T0, target=(3, 2))])
    assert [b for b, c in copies(simulation).items() if c.in_isr] == [2]
    simulation.revive(1)
    simulation.advance(30)
    assert simulation.in_flight == (T0,), "only broker 2 has everything that was acknowledged"
    simulation.revive(2)
    simulation.advance(30)
    assert simulation.lists[T0] == (3, 2)


def test_cancel_leaves_the_old_set_in_kafkas_order_and_frees_the_partial_copy() -> None:
    simulation = ObservedSimulation(one_partition())
    simulation.set_rates(3, into=5 * MB, out=None)
    simulation.submit([SimMove(key=T0, target=(3, 2))])
    simulation.advance(10)
    simulation.cancel([T0])
    assert simulation.lists[T0] == (2, 1)
    assert disk(simulation, 3).used_bytes == pytest.approx(40 * MB)
    simulation.advance(66)
    assert disk(simulation, 3).used_bytes == pytest.approx(0, abs=1)
    assert not simulation.finished


def test_a_new_submission_replaces_the_running_one_and_the_given_up_copy_goes_at_the_end() -> None:
    simulation = ObservedSimulation(one_partition())
    for number in (3, 4):
        simulation.set_rates(number, into=5 * MB, out=None)
    simulation.submit([SimMove(key=T0, target=(3, 4))])
    simulation.advance(5)
    simulation.submit([SimMove(key=T0, target=(3, 1))])
    assert simulation.lists[T0] == (3, 1, 4, 2) or simulation.lists[T0] == (3, 1, 2, 4)
    simulation.advance(60)
    assert simulation.lists[T0] == (3, 1)


def test_a_move_without_a_new_copy_ends_at_once() -> None:
    simulation = ObservedSimulation(one_partition())
    simulation.submit([SimMove(key=T0, target=(2, 1))])
    simulation.advance(1)
    assert simulation.lists[T0] == (2, 1)
    assert simulation.copied_bytes == 0


def test_the_controller_ends_a_limited_number_of_moves_a_second() -> None:
    partitions = tuple(SimPartition(key=TopicPartition("e", n), replicas=(1,), size_bytes=0) for n in range(1000))
    simulation = ObservedSimulation(
        SimCluster(brokers=(broker(1), broker(2)), partitions=partitions, finishes_per_s=100)
    )
    simulation.submit(SimMove(key=p.key, target=(2,)) for p in partitions)
    simulation.advance(5)
    assert 400 <= len(simulation.finished) <= 500
    simulation.advance(10)
    assert len(simulation.finished) == 1000


def test_a_copy_changes_its_dir_inside_a_broker_and_the_old_one_is_deleted_later() -> None:
    dirs = (SimDisk(path="/a", used_bytes=100 * MB), SimDisk(path="/b"))
    simulation = ObservedSimulation(one_partition(broker(1, *dirs), broker(2), broker(3), ingest=1 * MB))
    replica = TopicPartitionReplica("t", 0, 1)
    simulation.set_inside_rate(1, 5 * MB)
    simulation.move_dir(replica, "/b")
    simulation.advance(30)
    assert not simulation.finished_dirs
    assert disk(simulation, 1, "/b").used_bytes == pytest.approx(120 * MB)
    simulation.advance(5)
    assert 32 <= simulation.finished_dirs[replica] <= 35
    assert disk(simulation, 1, "/b").used_bytes == pytest.approx(135 * MB, rel=0.03)
    assert disk(simulation, 1, "/a").used_bytes == pytest.approx(133 * MB, rel=0.03)
    simulation.advance(70)
    assert disk(simulation, 1, "/a").used_bytes == pytest.approx(0, abs=1)
    assert disk(simulation, 1, "/b").used_bytes == pytest.approx(205 * MB, rel=0.01)


def test_a_move_between_dirs_hangs_with_its_broker_and_is_given_up_with_its_copy() -> None:
    dirs = (SimDisk(path="/a", used_bytes=100 * MB), SimDisk(path="/b"))
    simulation = ObservedSimulation(one_partition(broker(1, *dirs), broker(2), broker(3)))
    simulation.set_inside_rate(1, 5 * MB)
    simulation.move_dir(TopicPartitionReplica("t", 0, 1), "/b")
    simulation.advance(5)
    simulation.kill(1)
    simulation.advance(50)
    assert disk(simulation, 1, "/b").used_bytes == pytest.approx(20 * MB)
    simulation.revive(1)
    simulation.submit([SimMove(key=T0, target=(3, 2))])
    simulation.advance(100)
    assert simulation.lists[T0] == (3, 2)
    assert not simulation.finished_dirs
    assert [disk(simulation, 1, path).used_bytes for path in ("/a", "/b")] == pytest.approx([0, 0], abs=1)


def test_clients_share_the_line_and_the_queue_shows_when_it_is_too_short() -> None:
    nodes = [SimBroker(id=b, background_into=60 * MB, line_into=100 * MB, line_out=100 * MB) for b in (1, 2, 3)]
    simulation = ObservedSimulation(one_partition(*nodes))
    simulation.set_rates(3, into=200 * MB, out=None)
    simulation.submit([SimMove(key=T0, target=(3, 2))])
    simulation.advance(1)
    seen = {b.id: b for b in simulation.observe().brokers}
    assert seen[3].moved_into == pytest.approx(40 * MB)
    assert seen[3].use_into == pytest.approx(1.0)
    assert seen[3].queue > 0
    assert seen[2].queue == 0


def test_producers_and_followers_use_the_line() -> None:
    simulation = ObservedSimulation(one_partition(ingest=10 * MB))
    simulation.advance(5)
    seen = {b.id: (round(b.use_into, 3), round(b.use_out, 3)) for b in simulation.observe().brokers}
    assert seen == {1: (0.1, 0.1), 2: (0.1, 0.0), 3: (0.0, 0.0), 4: (0.0, 0.0)}
    simulation.submit([SimMove(key=T0, target=(2, 3))])
    simulation.advance(60)
    seen = {b.id: (round(b.use_into, 3), round(b.use_out, 3)) for b in simulation.observe().brokers}
    assert seen == {1: (0.0, 0.0), 2: (0.1, 0.1), 3: (0.1, 0.0), 4: (0.0, 0.0)}


def test_the_day_curve_scales_ingest() -> None:
    given = one_partition(ingest=1 * MB)
    curve = SimCluster(brokers=given.brokers, partitions=given.partitions, day_curve=(0.0, 2.0))
    simulation = ObservedSimulation(curve)
    simulation.advance(43_200)
    assert disk(simulation, 1).used_bytes == 0
    simulation.advance(1000)
    assert disk(simulation, 1).used_bytes == pytest.approx(2000 * MB, rel=0.01)


def test_the_same_calls_give_the_same_numbers() -> None:
    def played() -> object:
        simulation = ObservedSimulation(one_partition(ingest=1 * MB))
        simulation.set_rates(3, into=6 * MB, out=None)
        simulation.submit([SimMove(key=T0, target=(3, 2))])
        simulation.advance(7)
        simulation.set_rates(3, into=9 * MB, out=None)
        simulation.advance(5)
        return simulation.observe()

    assert played() == played()


def test_a_long_tick_and_many_short_ones_come_to_the_same() -> None:
    found = []
    for step in (1, 7, 400):
        simulation = ObservedSimulation(one_partition(ingest=1 * MB))
        simulation.set_rates(3, into=2.5 * MB, out=None)
        simulation.submit([SimMove(key=T0, target=(3, 2))])
        while simulation.now_s < 400:
            simulation.advance(min(step, 400 - simulation.now_s))
        found.append((simulation.finished, simulation.observe().disks))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    "move",
    [
        SimMove(key=T0, target=(9,)),
        SimMove(key=T0, target=()),
        SimMove(key=T0, target=(1, 1)),
        SimMove(key=TopicPartition("no", 1), target=(1,)),
    ],
)
def test_moves_that_make_no_sense_are_refused(move: SimMove) -> None:
    with pytest.raises(UsageError):
        ObservedSimulation(one_partition()).submit([move])


def test_dir_moves_that_make_no_sense_are_refused() -> None:
    simulation = ObservedSimulation(one_partition())
    with pytest.raises(UsageError, match="no copy on broker 3"):
        simulation.move_dir(TopicPartitionReplica("t", 0, 3), "/a")
    with pytest.raises(UsageError, match="no log dir /z"):
        simulation.move_dir(TopicPartitionReplica("t", 0, 1), "/z")


def test_an_unknown_broker_is_refused() -> None:
    with pytest.raises(UsageError, match="broker 9"):
        ObservedSimulation(one_partition()).kill(9)


def test_quota_defaults_are_kafkas() -> None:
    assert QuotaModel().window_num == 11


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
