"""The clients of a stream as they registered themselves, and for how long each has been silent.

Clocks of hosts are never compared: a registration is silent when it has not changed for its delivery timeout by the
clock of this process.
"""

from collections.abc import Callable, Iterable

from kafkakit.ports.clock import Clock
from kafkakit.streams.client.api import ClientKind, ClientRegistration
from kafkakit.streams.failover.decide.evidence import ClientFacts

MARGIN_S = 10.0
"""Registrations are written every 5 s."""


class ClientWatch:
    """Reads registrations again and again; one request to the store a look."""

    def __init__(self, read: Callable[[], Iterable[ClientRegistration]], clock: Clock) -> None:
        self._read, self._clock = read, clock
        self._seen: dict[str, tuple[int, float]] = {}

    def look(self) -> tuple[ClientFacts, ...]:
        """Every registration, by id; raises `TryLaterError` while the store is away."""
        found = []
        for each in self._read():
            now_s, timeout_s = self._clock.monotonic(), each.delivery_timeout_ms / 1000
            beat, since_s = self._seen.get(each.id, (each.beat, now_s))
            if beat != each.beat:
                since_s = now_s
            self._seen[each.id] = (each.beat, since_s)
            found.append(
                ClientFacts(
                    id=each.id,
                    is_producer=each.kind is ClientKind.PRODUCER,
                    group=each.group,
                    epoch=each.epoch,
                    delivery_timeout_s=timeout_s,
                    is_silent=now_s - since_s > timeout_s + MARGIN_S,
                )
            )
        return tuple(sorted(found, key=lambda client: client.id))
