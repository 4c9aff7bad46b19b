"""Processes that are killed together, clusters that die and hang, a store that is away: nothing is lost, and what is
handled again was foretold. `bench/streams_campaign.py` runs the same faults at random for as long as it is told to."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import SandboxCluster, StartCluster
from tests.rigs import stream_checker
from tests.rigs.stream_checker import Verdict
from tests.rigs.stream_process import is_rejected
from tests.rigs.stream_world import GROUP, World, becomes

pytestmark = pytest.mark.kafka
Clusters = dict[str, SandboxCluster]


@pytest.fixture(scope="module")
def clusters(sandbox_cluster: StartCluster) -> Iterator[Clusters]:
    """Two clusters of one broker."""
    found = {name: sandbox_cluster(brokers=1, racks=1, log_dirs=(1,)) for name in "ab"}
    yield found
    for cluster in found.values():
        cluster.down()


@pytest.fixture
def world(clusters: Clusters, tmp_path: Path) -> Iterator[World]:
    with World(clusters=clusters, folder=tmp_path / "world") as world:
        yield world


def kept(verdict: Verdict) -> Verdict:
    """Every promise was kept."""
    print(verdict)
    assert not verdict.problems
    assert min(verdict.acknowledged, verdict.handled, verdict.commits) > 0
    return verdict


def test_producers_and_consumers_killed_together_while_the_route_moves(world: World) -> None:
    chosen = random.Random(19)
    world.add("producer", 2, jumps=True)
    world.add("consumer", 2)
    world.add("consumer", jumps=True)
    for turn in range(3):
        before = world.handled()
        becomes("nothing is handled", lambda before=before: world.handled() > before + 300)  # type: ignore[misc]
        world.kill_some(chosen)
        world.move("ba"[turn % 2])
        world.revive()
    verdict = kept(world.finish())
    assert verdict.rejected > 10
    assert verdict.lives >= 8
