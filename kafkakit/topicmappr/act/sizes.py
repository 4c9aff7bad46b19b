"""Looks at a cluster together with the sizes that planning needs, from whichever source they come."""

from dataclasses import dataclass

from kafkakit.core.model import ClusterSnapshot
from kafkakit.core.plan import StorageFacts
from kafkakit.core.storage_reading import StorageReading
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.ports.metrics import StorageMetrics
from kafkakit.topicmappr.decide.size_source import DEFAULT_AGE_MINUTES, refuse_old, storage_facts, with_metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A cluster with sizes in it, and where those come from."""

    snapshot: ClusterSnapshot
    facts: StorageFacts


def observe_own_sizes(
    snapshot: ClusterSnapshot, clock: Clock, *, from_file: bool, max_age_minutes: int | None
) -> Observed:
    """Take the sizes that are in the snapshot.

    A live one is new by nature; a file was named on purpose, so its age counts only when a limit is given.
    Raises `TryLaterError` for a file older than that.
    """
    facts = storage_facts(snapshot)
    if from_file and max_age_minutes is not None:
        refuse_old(facts.taken_at, now=clock.now(), max_age_minutes=max_age_minutes)
    return Observed(snapshot=snapshot, facts=facts)


def read_metrics(metrics: StorageMetrics, clock: Clock, *, max_age_minutes: int | None) -> StorageReading:
    """Read collected sizes; raises `TryLaterError` when they are too old (60 minutes unless told)."""
    reading = metrics.read()
    limit = DEFAULT_AGE_MINUTES if max_age_minutes is None else max_age_minutes
    refuse_old(reading.taken_at, now=clock.now(), max_age_minutes=limit)
    return reading


def observe_with(snapshot: ClusterSnapshot, reading: StorageReading) -> Observed:
    """Put the collected sizes into a snapshot, in place of its own."""
    return Observed(snapshot=with_metrics(snapshot, reading), facts=storage_facts(snapshot, reading))


def observe_without_sizes(admin: ClusterAdmin, clock: Clock) -> ClusterSnapshot:
    """Read the cluster now without asking brokers for their log dirs."""
    return admin.snapshot(now=clock.now(), sizes=False)
