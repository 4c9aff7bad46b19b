"""Runs on a cluster where a pacer has throttled the moves of another tool: no rate of either is left behind."""

import pytest

from kafkakit.core.errors import RefusedError
from kafkakit.core.model import TopicPartition
from kafkakit.execution.act.journal_files import pacer_lines
from kafkakit.execution.decide.throttle import LEADER_RATE
from kafkakit.reassign.act.cleanup import CleanupRequest, clean
from tests.clusters.plans import make_plan
from tests.rigs.pacer import CLUSTER, MB, RATE, PacerRig
from tests.rigs.reassign import Bench, Killed

OTHERS = TopicPartition("t", 0)


class Both(PacerRig):
    """A pacer that has throttled the move of another tool, and a plan for another topic."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster.add_topic("small", {0: (1, 2)}, size_bytes=MB)
        self.bench = Bench(self.cluster, make_plan(self.cluster, {("small", 0): (3, 2)}))
        self.bench.clock = self.clock
        self.bench.others = [pacer_lines(self.store, CLUSTER)]
        self.begin()
        self.tick()
        assert self.configs()["broker 1"] == {LEADER_RATE: str(RATE)}

    def tick(self) -> None:
        """One tick of an instance that takes the lead and gives it back."""
        pacer, lead = self.pacer()
        pacer.tick()
        lead.release()


def test_what_the_pacer_left_goes_before_a_run_begins_and_is_not_restored_after_it() -> None:
    both = Both()
    both.cluster.cancel([OTHERS])
    assert both.bench.apply(rate=9 * RATE).ok
    assert both.configs() == both.before
    both.tick()
    assert both.configs() == both.before


def test_a_run_is_refused_while_moves_of_others_run_under_the_pacer() -> None:
    both = Both()
    with pytest.raises(RefusedError, match="1 moves that are not of this run are in flight"):
        both.bench.apply()


def test_a_run_beside_these_moves_leaves_them_throttled_and_the_pacer_goes_on_after_it() -> None:
    both = Both()
    pacers = both.configs()
    assert both.bench.apply(rate=9 * RATE, join=True).ok
    assert OTHERS in {TopicPartition(r.topic, r.partition) for r in both.cluster.reassignments()}
    both.tick()
    assert both.configs() == pacers
    both.cluster.cancel([OTHERS])
    both.tick()
    assert both.configs() == both.before


def test_rates_over_the_pacers_are_not_left_when_both_are_gone() -> None:
    both = Both()
    both.bench.cluster.fail_next("reassign", Killed(), after_effect=True)
    with pytest.raises(Killed):
        both.bench.apply(rate=9 * RATE, join=True)
    assert both.configs()["broker 1"] == {LEADER_RATE: str(9 * RATE)}
    for move in both.cluster.reassignments():
        both.cluster.cancel([TopicPartition(move.topic, move.partition)])
    both.tick()
    files = [both.bench.file, *both.bench.others]
    assert clean(both.cluster, both.clock, files, both.bench.reporter, CleanupRequest(confirm=lambda: True)).ok
    assert both.configs() == both.before


def test_cleanup_takes_away_what_a_dead_pacer_left() -> None:
    both = Both()
    request = CleanupRequest(confirm=lambda: True)
    kept = clean(both.cluster, both.clock, both.bench.others, both.bench.reporter, request)
    assert kept.left == ("autothrottle: its throttles stay, 1 moves still run under them",)
    both.cluster.cancel([OTHERS])
    assert clean(both.cluster, both.clock, both.bench.others, both.bench.reporter, request).ok
    assert both.configs() == both.before
    both.tick()
    assert both.configs() == both.before
