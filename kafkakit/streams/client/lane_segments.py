"""The segments that one lane writes to: the one of the route, those that may come next, and those it leaves."""

from kafkakit.core.errors import KafkakitError, TryLaterError
from kafkakit.ports.clock import Clock
from kafkakit.streams.client.decide.outgoing import ProducerLimits
from kafkakit.streams.client.decide.targets import LaneTarget
from kafkakit.streams.client.segment_writer import OpenSegment, SegmentWriter, WriterEvents
from kafkakit.streams.model.route import Segment

AGAIN_S = 0.25


class LaneSegments:
    """Every call needs the lane's lock. `current` is None while no segment takes writes; `trouble` is why not."""

    def __init__(self, open_segment: OpenSegment, events: WriterEvents, limits: ProducerLimits, clock: Clock) -> None:
        self.target: LaneTarget | None = None
        self.current: SegmentWriter | None = None
        self.trouble: KafkakitError | None = None
        self._open, self._events, self._limits, self._clock = open_segment, events, limits, clock
        self._standby: dict[int, SegmentWriter] = {}
        self._retiring: list[SegmentWriter] = []
        self._reopen_s = 0.0
        self._last_segment = 0
        self._settled_epoch = 0

    @property
    def is_paused(self) -> bool:
        """True where the route has no segment for the lane."""
        return self.target is not None and self.target.segment is None

    def follow(self, target: LaneTarget) -> None:
        """Take up a newer route; `aim` acts on it."""
        self.settled_epoch()
        self.target, self.trouble, self._reopen_s = target, None, 0.0

    def aim(self) -> bool:
        """Have a writer for the segment of the route and for those that may come next; retire all others.

        True where the lane continues with another segment than before.
        """
        if self.target is None:
            return False
        segment, now_s, switches = self.target.segment, self._clock.monotonic(), False
        if self.current is not None and (segment is None or self.current.segment.id != segment.id):
            self._retire(self.current, self._limits.drain_s)
            self.current = None
        if segment is not None and self.current is None and now_s >= self._reopen_s:
            self.current = self._standby.pop(segment.id, None) or self._started(segment)
            switches = self._last_segment not in (0, segment.id)
            self._last_segment = segment.id
        wanted = {following.id: following for following in self.target.next_segments}
        for key in self._standby.keys() - wanted.keys():
            self._retire(self._standby.pop(key), 0)
        for key in wanted.keys() - self._standby.keys():
            self._standby[key] = self._started(wanted[key])
        return switches

    def replace(self, writer: SegmentWriter, reason: str) -> None:
        """Continue with a new producer after a moment."""
        if writer is self.current:
            self.trouble = TryLaterError(reason)
            self._retire(writer, 0)
            self.current, self._reopen_s = None, self._clock.monotonic() + AGAIN_S

    def settled_epoch(self) -> int:
        """The newest epoch that was moved to: no writer of a segment which it does not write can write any more."""
        target = self.target
        active = None if target is None or target.segment is None else target.segment.id
        if target is not None and all(each.is_gone or each.segment.id == active for each in self._retiring):
            self._settled_epoch = target.epoch
        return self._settled_epoch

    @property
    def are_gone(self) -> bool:
        """True where no writer that was retired can write any more."""
        return all(each.is_gone for each in self._retiring)

    def close(self) -> None:
        """Drop every connection, in its own thread."""
        self.settled_epoch()
        for writer in (*([self.current] if self.current else ()), *self._standby.values(), *self._retiring):
            self._retire(writer, 0)
        self.current = self.target = None
        self._standby.clear()

    def reason(self) -> str:
        """Why the lane cannot write now; empty where it can, as far as is known."""
        if self.target is not None and self.target.reason:
            return self.target.reason
        if self.trouble is not None:
            return str(self.trouble)
        producer = self.current.producer if self.current else None
        if producer is None:
            return "the connection is not there yet"
        return producer.last_error or ""

    def _started(self, segment: Segment) -> SegmentWriter:
        writer = SegmentWriter(segment, self._open, self._events, self._clock)
        writer.start()
        return writer

    def _retire(self, writer: SegmentWriter, drain_s: float) -> None:
        if not writer.is_retired:
            self._retiring = [*(each for each in self._retiring if not each.is_gone), writer]
        writer.retire(drain_s)
