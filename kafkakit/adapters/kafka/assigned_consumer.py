"""A reader of chosen partitions that commits for a group without being its member, with confluent-kafka."""

from collections.abc import Collection, Mapping

from kafkakit.adapters.kafka.group_consumer import KafkaGroupConsumer, reason_of
from kafkakit.core.errors import TryLaterError
from kafkakit.core.group_facts import CommittedOffset
from kafkakit.core.model import TopicPartition
from kafkakit.ports.stream_consumer import AssignmentListener


class KafkaAssignedConsumer(KafkaGroupConsumer):
    """Implements `ports.stream_consumer.AssignedConsumer`: librdkafka joins no group unless it subscribes."""

    def listen(self, listener: AssignmentListener) -> None:
        """See the port."""
        self._listener = listener

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """See the port."""
        from confluent_kafka import TopicPartition as Place

        self._client.incremental_assign([Place(*key, offset) for key, offset in sorted(offsets.items())])

    def unassign(self, partitions: Collection[TopicPartition]) -> None:
        """See the port."""
        from confluent_kafka import TopicPartition as Place

        self._client.incremental_unassign([Place(*key) for key in sorted(partitions)])

    def committed(
        self, partitions: Collection[TopicPartition], timeout_s: float
    ) -> Mapping[TopicPartition, CommittedOffset | None]:
        """See the port; one request."""
        from confluent_kafka import KafkaException
        from confluent_kafka import TopicPartition as Place

        try:
            places = self._client.committed([Place(*key) for key in sorted(partitions)], timeout=timeout_s)
        except KafkaException as error:
            raise TryLaterError(f"cannot read what the group committed: {reason_of(error)}") from None
        found: dict[TopicPartition, CommittedOffset | None] = {}
        for place in places:
            if place.error is not None:
                raise TryLaterError(f"cannot read what the group committed for {place.topic}: {place.error.str()}")
            commit = CommittedOffset(offset=place.offset, metadata=place.metadata or "") if place.offset >= 0 else None
            found[TopicPartition(place.topic, place.partition)] = commit
        return found

    def start_offset(self, partition: TopicPartition, timeout_s: float) -> int:
        """See the port; one request."""
        from confluent_kafka import KafkaException
        from confluent_kafka import TopicPartition as Place

        try:
            low, _ = self._client.get_watermark_offsets(Place(*partition), timeout=timeout_s)
        except KafkaException as error:
            raise TryLaterError(f"cannot read where {partition} begins: {reason_of(error)}") from None
        return int(low)
