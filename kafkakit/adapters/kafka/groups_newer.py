"""Descriptions of KIP-848 groups, which kafka-python cannot request, through confluent-kafka's admin client."""

import logging
from collections.abc import Collection
from typing import Any

from kafkakit.config.security import Security, to_confluent
from kafkakit.core.cluster_facts import GroupDescription, GroupMember, GroupState, GroupType, ItemError
from kafkakit.core.model import TopicPartition

_STATES = {
    "STABLE": GroupState.STABLE,
    "EMPTY": GroupState.EMPTY,
    "DEAD": GroupState.DEAD,
    "PREPARING_REBALANCING": GroupState.PREPARING,
    "COMPLETING_REBALANCING": GroupState.COMPLETING,
    "ASSIGNING": GroupState.ASSIGNING,
    "RECONCILING": GroupState.RECONCILING,
}
"""The client's own names of states."""


class ConsumerGroupDescriber:
    """Describes groups of the protocol "consumer"; connects on the first question."""

    def __init__(self, bootstrap_servers: str, security: Security, *, timeout_s: float = 30) -> None:
        self._settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "client.id": "kafkakit",
            "log_level": 2,
            **to_confluent(security),
        }
        self._timeout_s = timeout_s
        self._client: Any = None

    def __call__(self, groups: Collection[str]) -> dict[str, GroupDescription | ItemError]:
        """One request to each coordinator."""
        if not groups:
            return {}
        if self._client is None:
            from confluent_kafka.admin import AdminClient

            logger = logging.getLogger("kafkakit.librdkafka")
            logger.addHandler(logging.NullHandler())
            logger.propagate = False
            self._client = AdminClient({**self._settings, "logger": logger})
        futures = self._client.describe_consumer_groups(sorted(set(groups)), request_timeout=self._timeout_s)
        return {name: self._described(name, future) for name, future in sorted(futures.items())}

    def close(self) -> None:
        """Let go of the client."""
        self._client = None

    def _described(self, name: str, future: Any) -> GroupDescription | ItemError:
        from confluent_kafka import KafkaException

        try:
            found = future.result(timeout=self._timeout_s + 5)
        except KafkaException as error:
            inner = error.args[0]
            return ItemError(name=inner.name(), message=inner.str(), retriable=bool(inner.retriable()))
        except TimeoutError:
            return ItemError(name="KafkaTimeoutError", message="the coordinator does not answer", retriable=True)
        return GroupDescription(
            group=name,
            type=GroupType.CONSUMER if found.type.name == "CONSUMER" else GroupType.CLASSIC,
            state=_STATES.get(found.state.name, GroupState.UNKNOWN),
            members=tuple(sorted((_member(m) for m in found.members), key=lambda m: m.member_id)),
            coordinator=found.coordinator.id if found.coordinator is not None else None,
            had_members=True,
        )


def _member(found: Any) -> GroupMember:
    held = found.assignment.topic_partitions if found.assignment is not None else ()
    return GroupMember(
        member_id=found.member_id,
        client_id=found.client_id,
        host=found.host,
        partitions=tuple(sorted(TopicPartition(place.topic, place.partition) for place in held)),
    )
