"""The producer for asyncio: the same records, deliveries that are awaited, and no call that holds up the event loop."""

import asyncio
import time
from typing import Unpack

from kafkakit.streams.client.decide.figures import ProducerMetrics
from kafkakit.streams.client.decide.send_errors import BackPressureError
from kafkakit.streams.client.delivery import Delivery
from kafkakit.streams.client.dual import DualProducer
from kafkakit.streams.client.producer import SEND_WAIT_S, Producer, RecordParts, Unacknowledged

_AGAIN_S = (0.001, 0.05)


class AsyncProducer:
    """Wraps a producer; for one event loop or several. `async with` closes it."""

    def __init__(self, producer: Producer | DualProducer) -> None:
        self._producer = producer

    async def send(
        self,
        value: bytes | None,
        key: bytes | None = None,
        *,
        lane: str | None = None,
        wait_s: float = SEND_WAIT_S,
        **parts: Unpack[RecordParts],
    ) -> Delivery:
        """Hand over a record; `await` the result for its acknowledgement. Raises as `Producer.send`."""
        record = self._producer.prepared(value, key, **parts)
        until_s, pause_s = time.monotonic() + wait_s, _AGAIN_S[0]
        while True:
            try:
                return self._producer.send_record(record, lane=lane, wait_s=0)
            except BackPressureError:
                if time.monotonic() >= until_s:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _AGAIN_S[1])

    async def flush(self, timeout_s: float) -> Unacknowledged:
        """Wait for the answers to all that was sent before."""
        return await asyncio.to_thread(self._producer.flush, timeout_s)

    async def close(self, timeout_s: float = 30.0) -> Unacknowledged:
        """Flush, then give up what has no answer."""
        return await asyncio.to_thread(self._producer.close, timeout_s)

    def metrics(self) -> ProducerMetrics:
        """What was counted since the start; of a dual producer the primary's."""
        return self._producer.metrics()

    async def __aenter__(self) -> "AsyncProducer":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
