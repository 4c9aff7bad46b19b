"""Collecting sizes and free space from a source."""

from collections.abc import Sequence
from dataclasses import replace

from kafkakit.core.model import ClusterSnapshot
from kafkakit.metricsfetcher.decide import FetchResult, Queries, from_samples
from kafkakit.ports.acting import Clock
from kafkakit.ports.services import SampleQueries


def query_storage(
    service: SampleQueries,
    queries: Queries,
    clock: Clock,
    *,
    lacks: Sequence[str],
    cluster: ClusterSnapshot | None,
) -> FetchResult:
    """Send both queries for the same moment; `lacks` is where the service puts what its answers lack.

    `cluster` is what the answers are compared with, None for nothing. Raises what `ports.SampleQueries` does.
    """
    now = clock.now()
    now = now.replace(microsecond=now.microsecond // 1000 * 1000)  # services know no finer times
    sizes = service.query(queries.sizes, now)
    free = service.query(queries.free, now)
    found = from_samples(service.source, sizes, free, queries, now, cluster)
    return replace(found, problems=(*lacks, *found.problems))
