"""Segments, descriptors and maps of brokers."""

import pytest

from kafkakit.rules.effective import InputMissing
from kafkakit.rules.retention import SegmentSettings, descriptors, maps, mean_replicas, segments_of
from kafkakit.rules.subjects import LintCluster, PartitionFacts
from tests.rigs.lint_examples import estate_of

TOPIC = 'name: t, config: {retention.ms: "86400000", segment.ms: "43200000"}'


def cluster(text: str) -> LintCluster:
    return estate_of({"x.yaml": text}).clusters[0]


def facts(**of: object) -> PartitionFacts:
    return PartitionFacts(partition=0, replicas=(1,), **of)  # type: ignore[arg-type]


def test_counted_segments_are_taken_before_estimates() -> None:
    settings = SegmentSettings(retention_ms=86_400_000, segment_ms=43_200_000)
    assert segments_of(settings, facts(segments=7)) == 7
    assert segments_of(settings, facts()) == 4
    assert segments_of(settings) == 4
    assert segments_of(settings, facts(bytes_s=2**30 / 3600)) == 2 + 24


def test_without_a_limit_the_size_tells() -> None:
    settings = SegmentSettings(retention_ms=-1)
    assert segments_of(settings, facts(replica_bytes={1: 5 * 2**30})) == 6
    assert segments_of(settings, facts()) is None


def test_replicas_of_declared_topics_are_spread_evenly() -> None:
    text = f"brokers: [{{id: 1}}, {{id: 2}}]\ntopics: [{{{TOPIC}, partitions: 3, replication_factor: 2}}]"
    known = cluster(text)
    assert mean_replicas(known.topics[0], known) == 3
    unknown = cluster(f"brokers: [{{id: 1}}, {{id: 2}}]\ntopics: [{{{TOPIC}}}]")
    with pytest.raises(InputMissing):
        mean_replicas(unknown.topics[0], unknown)


def test_descriptors_and_maps_have_a_reserve() -> None:
    assert descriptors(10, connections=5, transaction_indexes=2) == 1017
    assert maps(8) == 1016
