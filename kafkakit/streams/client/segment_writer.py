"""One Kafka producer for one segment, with the thread that connects, serves and drops it.

A producer is used for one segment and one time: what a fence or a dead cluster did to it ends with it. Closing one may
take as long as its cluster hangs, so only this thread does it, and no other thread waits for it.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from kafkakit.core.errors import KafkakitError, TryLaterError
from kafkakit.ports.clock import Clock
from kafkakit.ports.stream_producer import StreamProducer
from kafkakit.streams.model.route import Segment

POLL_S = 0.05
BUSY_S = 0.005
CONNECT_AGAIN_S = 0.2
RECHECK_S = 5.0
_LOG = logging.getLogger("kafkakit.streams.client")

OpenSegment = Callable[[Segment], StreamProducer]


class WriterEvents(Protocol):
    """The lane of a writer; called from the writer's thread."""

    def connected(self, writer: "SegmentWriter") -> None:
        """Records may be sent now."""
        ...

    def not_connected(self, writer: "SegmentWriter", error: KafkakitError) -> None:
        """The place cannot be reached now, or is not the one the route means; it is tried again."""
        ...

    def broken(self, writer: "SegmentWriter", reason: str) -> None:
        """It writes nothing more."""
        ...

    def is_drained(self, writer: "SegmentWriter") -> bool:
        """True where no record waits for an answer of this writer."""
        ...

    def answered(self, writer: "SegmentWriter") -> None:
        """There may be answers to be taken from its producer."""
        ...

    def ended(self, writer: "SegmentWriter") -> None:
        """No answer of this writer is waited for any longer."""
        ...


class SegmentWriter:
    """`producer` is None until the connection is checked."""

    def __init__(self, segment: Segment, open_segment: OpenSegment, events: WriterEvents, clock: Clock) -> None:
        self.segment = segment
        self.producer: StreamProducer | None = None
        self.is_retired = False
        """True once it takes no more records."""
        self.place = segment.id, segment.cluster_id, segment.topic
        self.sent = self.answered = 0
        self.guests = 0
        """Senders that are in `poll` now; the producer is closed after them."""
        self.is_gone = False
        """True once nothing that was sent through it can be written any more, as far as this process can tell."""
        self.guest_polls = 0
        self._open, self._events, self._clock = open_segment, events, clock
        self._drain_until_s: float | None = None
        self._retired = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"kafkakit-segment-{segment.id}", daemon=True)

    def start(self) -> None:
        """Begin to connect."""
        self._thread.start()

    def retire(self, drain_s: float) -> None:
        """Take no more records; those on their way have `drain_s` to be acknowledged. The first call decides."""
        if not self.is_retired:
            self._drain_until_s = self._clock.monotonic() + drain_s
            self.is_retired = True
            self._retired.set()

    def _run(self) -> None:
        producer = self._connected()
        if producer is not None:
            self.producer = producer
            self._events.connected(self)
            self._serve(producer)
        self._events.ended(self)
        while self.guests:
            time.sleep(BUSY_S)
        if producer is not None:
            producer.close()
            self._events.answered(self)
        self.is_gone = True

    def _serve(self, producer: StreamProducer) -> None:
        seen = 0
        while not self._is_over():
            try:
                # librdkafka's binding lets go of the interpreter's lock after each answer, and a busy sender keeps it
                # for 5 ms each time: while senders poll, this thread does not.
                if self.guest_polls != seen:
                    seen = self.guest_polls
                    time.sleep(BUSY_S)
                    continue
                producer.poll(POLL_S)
                self._events.answered(self)
            except Exception as error:  # a fault of the library or of ours; a new producer continues
                _LOG.exception("segment %d on %s", self.segment.id, self.segment.cluster)
                self._events.broken(self, f"{type(error).__name__}: {error}")
                return

    def _is_over(self) -> bool:
        if self._drain_until_s is None:
            return False
        return self._clock.monotonic() >= self._drain_until_s or self._events.is_drained(self)

    def _connected(self) -> StreamProducer | None:
        while not self._retired.is_set():
            try:
                return self._open(self.segment)
            except KafkakitError as error:
                failure = error
            except Exception as error:  # a library's fault; the lane continues once it is corrected
                failure = TryLaterError(f"{type(error).__name__}: {error}")
            _LOG.warning("segment %d on %s: %s", self.segment.id, self.segment.cluster, failure)
            self._events.not_connected(self, failure)
            self._retired.wait(CONNECT_AGAIN_S if isinstance(failure, TryLaterError) else RECHECK_S)
        return None
