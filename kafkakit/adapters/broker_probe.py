"""Asks a starting cluster which brokers it has."""

import logging

from kafkakit.errors import TryLaterError
from kafkakit.model import Broker, BrokerState
from kafkakit.ports import ClusterInfo
from kafkakit.security import Security, to_kafka_python


class BrokerProbe:
    """The `cluster` and `close` of a `ClusterAdmin`."""

    def __init__(self, bootstrap_servers: str, security: Security) -> None:
        from kafka.admin import KafkaAdminClient

        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        try:
            self._client = KafkaAdminClient(
                bootstrap_servers=bootstrap_servers.split(","), bootstrap_timeout_ms=5000, **to_kafka_python(security)
            )
        except Exception as error:
            raise TryLaterError(f"cannot reach {bootstrap_servers}: {error}") from None

    def cluster(self) -> ClusterInfo:
        try:
            told = self._client.describe_cluster()
        except Exception as error:
            raise TryLaterError(str(error)) from None
        return ClusterInfo(
            cluster_id=told["cluster_id"],
            brokers=tuple(
                Broker(id=b["broker_id"], state=BrokerState.FENCED if b.get("is_fenced") else BrokerState.ALIVE)
                for b in told["brokers"]
            ),
        )

    def close(self) -> None:
        self._client.close()
