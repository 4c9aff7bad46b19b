"""Where the one partition of a topic of kafkakit's own goes."""

from collections.abc import Collection

from kafkakit.core.errors import TryLaterError
from kafkakit.core.model import Broker

MOST_REPLICAS = 3


def replicas_of_new_topic(brokers: Collection[Broker], topic: str) -> tuple[int, ...]:
    """Up to three live brokers, of different racks as far as there are any, lowest ids first; else `TryLaterError`."""
    alive = sorted((broker for broker in brokers if broker.is_alive), key=lambda broker: broker.id)
    chosen: list[Broker] = []
    for fresh_rack in (True, False):
        for broker in alive:
            seen = {other.rack for other in chosen}
            if broker not in chosen and len(chosen) < MOST_REPLICAS and (broker.rack not in seen or not fresh_rack):
                chosen.append(broker)
    if not chosen:
        raise TryLaterError(f"there is no live broker for topic {topic}")
    return tuple(broker.id for broker in chosen)
