"""What `send` gives back: a future of the place where a record was written."""

import asyncio
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any, NamedTuple

from kafkakit.core.deliveries import OutgoingRecord


class WrittenRecord(NamedTuple):  # one is made for each record, as with OutgoingRecord
    """Where a record was acknowledged. `attempts` above 1: it may be on an older segment as well."""

    lane: str
    segment: int
    cluster_id: str
    topic: str
    partition: int
    offset: int
    at_ms: int
    attempts: int


class Delivery(Future[WrittenRecord]):
    """A record's acknowledgement: `result(timeout)` waits for it or raises why there is none, `await` does the same.

    It cannot be cancelled, as the record may be on its way. Callbacks of `add_done_callback` run in a thread of the
    producer or in that of a later `send`, and must not wait.
    """

    def __init__(self) -> None:
        super().__init__()
        self.set_running_or_notify_cancel()

    def __await__(self) -> Generator[Any, None, WrittenRecord]:
        return asyncio.wrap_future(self).__await__()


class Entry:
    """A record that a lane holds until it is acknowledged or given up; the lane's lock guards it."""

    __slots__ = ("attempts", "deadline_s", "delivery", "may_be_written", "number", "reason", "record", "refused_s",
                 "sent_s", "size", "writer")  # fmt: skip

    def __init__(self, record: OutgoingRecord, size: int, number: int, sent_s: float, deadline_s: float) -> None:
        self.record, self.size, self.number, self.sent_s, self.deadline_s = record, size, number, sent_s, deadline_s
        self.delivery = Delivery()
        self.attempts = 0
        self.may_be_written = False
        self.refused_s: float | None = None
        self.reason = ""
        self.writer: object | None = None
        """Who has it on its way now."""
