"""Handlers with a span around each call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafkakit.ports.spans import HandledRecords, Spans
from kafkakit.streams.client.records import StreamRecord, readable_headers
from kafkakit.streams.client.workers import AsyncHandler, BatchHandler, Handler


@dataclass(frozen=True, slots=True)
class TracedHandlers:
    """Puts spans around the handlers of a group; where there is no handler, there is none after it."""

    spans: Spans
    group: str

    def single(self, handler: Handler | None) -> Handler | None:
        """A handler of records, in a span that continues the trace of each."""

        def traced(record: StreamRecord) -> None:
            with self.spans.handling(self._handled([record])):
                handler(record)  # type: ignore[misc]

        return handler and traced

    def batch(self, handler: BatchHandler | None) -> BatchHandler | None:
        """A handler of batches, in a span with links to the traces of the records."""

        def traced(records: Sequence[StreamRecord]) -> Mapping[int, BaseException] | None:
            with self.spans.handling(self._handled(records, is_batch=True)):
                return handler(records)  # type: ignore[misc]

        return handler and traced

    def asynchronous(self, handler: AsyncHandler | None) -> AsyncHandler | None:
        """An asynchronous handler, as `single`."""

        async def traced(record: StreamRecord) -> None:
            with self.spans.handling(self._handled([record])):
                await handler(record)  # type: ignore[misc]

        return handler and traced

    def _handled(self, records: Sequence[StreamRecord], *, is_batch: bool = False) -> HandledRecords:
        first = records[0]
        return HandledRecords(
            stream=first.origin.stream,
            lane=first.lane,
            group=self.group,
            partition=first.origin.partition,
            offset=first.offset,
            tries=first.tries,
            headers=[readable_headers(record) for record in records],
            is_batch=is_batch,
        )
