"""Reads a cluster and its tags again and again, and gives what changed; for a process of its own."""

from collections.abc import Callable

from kafkakit.core.cycle_collector import without_collector
from kafkakit.core.errors import KafkakitError
from kafkakit.ports.admin import ClusterAdmin
from kafkakit.ports.clock import Clock
from kafkakit.registry.act.tag_store import TagStore
from kafkakit.registry.decide.facts import (
    VERSION_KEYS,
    Change,
    Facts,
    TopicFacts,
    broker_facts,
    change_between,
    topic_facts,
)
from kafkakit.registry.decide.tags import Kind

OpenReader = Callable[[], "ClusterReader"]


class ClusterReader:
    """One reading after the other; a failed one is a change that says so, and the next begins where the last ended."""

    def __init__(self, admin: ClusterAdmin, tags: TagStore, clock: Clock) -> None:
        self._admin, self._tags, self._clock = admin, tags, clock
        self._last: Facts | None = None

    @without_collector()
    def read(self) -> Change:
        """Brokers, topics, configurations and tags, in a few requests for each 500 topics."""
        try:
            facts = self.facts()
        except KafkakitError as error:
            return Change(failure=error.message)
        change = change_between(self._last, facts)
        self._last = facts
        return change

    def facts(self) -> Facts:
        """One reading as a whole; raises what the cluster or the store of tags raises."""
        began_s, began_at = self._clock.monotonic(), self._clock.now()
        snapshot = self._admin.snapshot(now=began_at, sizes=False)
        brokers = [broker.id for broker in snapshot.brokers if broker.is_alive]
        reassigning = {move.topic for move in snapshot.reassignments}
        unreadable: list[str] = []
        topics = (topic_facts(topic, is_reassigning=topic.name in reassigning) for topic in snapshot.topics)
        return Facts(
            cluster_id=snapshot.cluster_id,
            began_s=began_s,
            began_at=began_at,
            brokers=broker_facts(snapshot, self._admin.broker_settings(brokers, VERSION_KEYS)),
            topics={facts.name: facts for facts in topics},
            tags={kind: self._tags.all(kind, unreadable) for kind in Kind},
            unreadable=tuple(unreadable),
        )


def read_topic(admin: ClusterAdmin, clock: Clock, name: str) -> TopicFacts | None:
    """One topic as it is now; None where it does not exist. A few requests."""
    snapshot = admin.snapshot(now=clock.now(), topics=[name], sizes=False)
    is_reassigning = any(move.topic == name for move in snapshot.reassignments)
    return next((topic_facts(topic, is_reassigning=is_reassigning) for topic in snapshot.topics), None)
