"""Processes that are killed together, clusters that die and hang, a store that is away: nothing is lost, and what is
handled again was foretold. `bench/streams_campaign.py` runs the same faults at random for as long as it is told to."""

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from kafkakit.core.model import TopicPartition
from tests.clusters.streams_batches import Rec
from tests.integration.conftest import LeaseClusters, SandboxCluster
from tests.integration.stream_clients import produce
from tests.rigs import stream_checker
from tests.rigs.cluster_pool import SINGLE
from tests.rigs.stream_checker import Spot, Verdict
from tests.rigs.stream_process import FLAKY, REJECTED, is_rejected
from tests.rigs.stream_world import World
from tests.rigs.waiting import until

pytestmark = pytest.mark.kafka
Clusters = dict[str, SandboxCluster]
RECORDS_AT = 61
"""Where the records of a batch of format 2 begin: compressed ones with the bytes by which decoders know zstd."""


@pytest.fixture(scope="module")
def clusters(lease: LeaseClusters) -> Clusters:
    """Two clusters of one broker."""
    return dict(zip("ab", lease(SINGLE, SINGLE), strict=True))


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
        until(lambda before=before: world.handled() > before + 300, "nothing is handled")  # type: ignore[misc]
        until(world.at_work, "not all work")
        time.sleep(chosen.uniform(0.5, 1.5))  # commits were made, and none is the latest
        world.kill_some(chosen)
        world.move("ba"[turn % 2])
        world.revive()
    verdict = kept(world.finish())
    assert verdict.rejected > 10
    assert verdict.lives >= 8


def test_a_cluster_hangs_while_the_control_store_is_away(world: World) -> None:
    """Longer than sessions last: members are lost, their partitions go to others, and commits have no answer."""
    world.add("producer")
    consumers = world.add("consumer", 2, mode="unordered")
    until(lambda: world.handled() > 300, "nothing is handled")
    with world.hung("a"):
        with world.store_away():
            until(lambda: world.problems("route:"), "no process tells that the store is away")
            time.sleep(4)
        world.move("b")
        before = world.handled()
        until(lambda: world.handled() > before + 200, "the other cluster is not read")
        consumers[0].kill()
        time.sleep(3)
    world.revive()
    kept(world.finish())


def test_one_cluster_of_two_dies_with_the_dead_letters(world: World) -> None:
    """The dead letters are on the cluster that dies: nothing is committed past a record that is rejected meanwhile."""
    world.add("producer", per_s=300)
    consumers = world.add("consumer", 2)
    world.move("b")
    world.move("a")
    until(lambda: world.handled() > 300, "nothing is handled")
    with world.gone("b"):
        died_ms = time.time() * 1000
        until(lambda: world.problems("dead letters"), "no dead letter failed")
        consumers[0].kill()
        consumers[0].start()
        before = world.handled()
        until(lambda: world.handled() > before + 200, "the cluster that is left is not read")
        here = [topic for topic, name in world.topics.items() if name == "a"]
        bases = {topic: stream_checker.committed(world.servers["a"], world.group, topic) for topic in here}
        known = {
            (message.topic(), message.partition(), message.offset()): int(message.value())
            for message in stream_checker.read_log(world.servers["a"], here)
        }
    kept(world.finish())
    early = {spot for spot, at_ms in world.letters() if at_ms <= died_ms}
    rejected = {Spot(*place) for place, number in known.items() if is_rejected(number)}
    passed = {spot for spot in rejected if spot.offset < bases[spot.topic].get(spot.partition, 0)}
    assert passed <= early
    assert rejected - early, "none was rejected while the dead letters were away"


def test_a_topic_that_is_created_again_is_not_read_as_the_old_one(world: World) -> None:
    """The consumer stops with the command that puts the new topic in its place, and nothing of that is lost.

    Fewer records are written to the new topic than were read of the old one: then every client finds its log cut.
    """
    (producer,) = world.add("producer")
    (consumer,) = world.add("consumer")
    until(lambda: world.handled() > 300, "nothing is handled")
    producer.end()
    (topic,) = world.topics
    cluster = world.first
    with closing(cluster.open_admin()) as admin:
        assert admin.delete_topic(topic) is None
        replicas = dict.fromkeys(range(3), cluster.broker_ids[:1])
        until(lambda: admin.create_topic(topic, replicas, {}) is None, "it is not created again")
    for number in range(3):
        produce(cluster, TopicPartition(topic, number), [b"%d" % (100 * number + 1)])
    until(lambda: world.problems("the consumer failed: segment 1 is topic"), "the consumer reads on")
    words = ["streams", "link", world.group, "--topic", topic, "--lane", "live", "--cluster", cluster.name]
    assert world.problems(" ".join(["kafkakit", *words]))
    command = [sys.executable, "-m", "kafkakit", "--profile", cluster.name, *words, "--yes"]
    linked = subprocess.run(command, env=world.env, capture_output=True, text=True, timeout=120, check=True)
    assert f"segment 1 leaves the stream: its topic {topic} (" in linked.stderr
    assert [segment.id for lane, segment in world.routes.read().segments() if lane.name == "live"] == [3]
    consumer.kill()
    consumer.start()
    producer.start()
    until(lambda: producer.lines("acked") > 100, "nothing new is written")
    producer.end()
    until(world.drained, "not all is committed", seen=world.left)
    consumer.end()
    done = {number for life in stream_checker.lives(world.folder) for _, number in life.done}
    there = {int(message.value()) for message in stream_checker.read_log(cluster.bootstrap_servers, [topic])}
    assert len(there) > 100
    assert not {number for number in there - done if not is_rejected(number)}


def test_metadata_of_commits_come_to_the_brokers_limit(clusters: Clusters, tmp_path: Path) -> None:
    """A dependency is down for half of the records: brokers refuse commits, the client learns how much they take."""
    with World(clusters=clusters, folder=tmp_path / "world", partitions=1) as world:
        world.outage.touch()
        fill_metadata(world)


def fill_metadata(world: World) -> None:
    limits = {"records": 20_000, "span": 100_000}
    (producer,) = world.add("producer", per_s=8_000)
    (consumer,) = world.add("consumer", mode="unordered", limit_chars=60_000, handle_s=0, limits=limits)
    until(lambda: world.problems("commits failed"), "no commit was refused")
    producer.end()
    until(lambda: world.committed_chars() > 3_000, "no commit succeeds")
    consumer.kill()
    consumer.start()
    until(lambda: consumer.lines("figure") > 20, "it does not begin again")
    consumer.kill()
    world.outage.unlink()
    consumer.start()
    verdict = kept(world.finish())
    assert verdict.longest_chars > 3_000


def test_a_batch_that_is_damaged_on_disk_is_noted_among_the_dead_letters_and_holds_up_no_other(world: World) -> None:
    """Each record of it is told by its offset, each other one is handled.

    Damage that still decodes is not told: librdkafka (2.16) with `check.crcs` reads the rest of an answer wrong, other
    partitions' records too, so that it is off.
    """
    (producer,) = world.add("producer")
    until(lambda: producer.lines("acked") > 500, "too little is written")
    producer.end()
    (topic,) = world.topics
    with world.damaged(topic, 1, RECORDS_AT, 0x5A) as damaged:
        with world.hung("b"):  # reading stands there for as long as the note has no answer
            world.add("consumer", 2)
            until(lambda: world.problems(f"{topic}-1 at "), "the damage is not told")
        until(world.drained, "not all is committed")
    verdict = kept(world.finish())
    noted = stream_checker.notes(world.servers[world.dlq_on], world.dlq())
    assert sorted(set(noted)) == [Spot(topic, 1, at) for at in damaged]
    assert verdict.passed == len(damaged)


HOSTILE: dict[str, tuple[tuple[bytes, bytes | None], ...]] = {
    "NUL in a name": ((b"a\0b", b"x\0y"),),
    "not UTF-8": ((b"trace", b"1"), (b"\xff\xfe", b"\xff"), (b"tenant", None)),
    "empty": ((b"", b""), (b"", None)),
    "10,000": tuple((b"h%d" % number, b"v") for number in range(10_000)),
    "a name of 40,000 bytes": ((b"n" * 40_000, b"v"),),
    "a forged id": ((b"kafkakit-id", b"junk"), (b"kafkakit-ingested-ms", b"\xff" * 9)),
    "a forged provenance": tuple((name, b"9" * 600) for name in (b"kafkakit-offset", b"kafkakit-topic")),
    "a forged pathway": ((b"dd-pathway-ctx-base64", b"\xff\xff"), (b"dd-pathway-ctx", b"\0" * 400)),
}


def test_headers_that_no_producer_of_streams_writes(world: World) -> None:
    """Each record comes to the handler, or to the dead letters with its value and place, whatever its headers are."""
    (topic,) = world.topics
    for number in (REJECTED, FLAKY):
        for count, headers in enumerate(HOSTILE.values(), 1):
            world.append(topic, Rec(b"k", b"%d" % (number * count), headers=headers))
    world.append(topic, Rec(b"K" * 900_000, b"%d" % (REJECTED * 100)))
    world.add("consumer", reads_headers=True)
    verdict = world.finish()
    assert not verdict.problems
    assert verdict.rejected == len(HOSTILE) + 1
    assert verdict.handled == len(HOSTILE)
