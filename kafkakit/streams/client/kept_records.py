"""The records of a lane that have no answer yet, within the lane's budget."""

import threading
from collections.abc import Callable, Iterable, Iterator

from kafkakit.core.deliveries import OutgoingRecord
from kafkakit.ports.clock import Clock
from kafkakit.streams.client.decide.figures import LaneCounters
from kafkakit.streams.client.decide.outgoing import ProducerLimits
from kafkakit.streams.client.decide.send_errors import BackPressureError, ProducerClosedError
from kafkakit.streams.client.delivery import Entry, WrittenRecord

_WAIT_S = 1.0
Outcome = tuple[Entry, WrittenRecord | BaseException]


class KeptRecords:
    """In the order of sending, which is that of their time limits. Every call needs `changed` to be held."""

    def __init__(self, limits: ProducerLimits, clock: Clock) -> None:
        self.changed = threading.Condition()
        self.counters = LaneCounters()
        self.bytes = 0
        self.is_closed = False
        self._limits, self._clock = limits, clock
        self._entries: dict[int, Entry] = {}
        self._number = self._sleepers = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(tuple(self._entries.values()))

    def __contains__(self, entry: Entry) -> bool:
        return entry.number in self._entries

    @property
    def taken(self) -> int:
        """How many records were taken since the start."""
        return self._number

    @property
    def oldest_s(self) -> float:
        """For how long the oldest record has no answer; 0 without any."""
        oldest = next(iter(self._entries.values()), None)
        return 0.0 if oldest is None else self._clock.monotonic() - oldest.sent_s

    def take(self, record: OutgoingRecord, size: int, wait_s: float, lane: str, reason: Callable[[], str]) -> Entry:
        """Keep a record; waits while there is no space for it. `BackPressureError` when `wait_s` ended,
        `ProducerClosedError` after `close`."""
        until_s = self._clock.monotonic() + wait_s
        if self._is_full(size) and not self._sleep_while(lambda: self._is_full(size), until_s):
            raise self._full(lane, reason)
        if self.is_closed:
            raise ProducerClosedError("the producer is closed")
        self._number += 1
        now_s = self._clock.monotonic()
        entry = Entry(record, size, self._number, now_s, now_s + self._limits.delivery_s)
        self._entries[entry.number] = entry
        self.bytes += size
        self.counters.records += 1
        self.counters.bytes += size
        return entry

    def check_space(self, size: int, lane: str, reason: Callable[[], str]) -> None:
        """`BackPressureError` where a record would have to wait now."""
        if not self.is_closed and self._is_full(size):
            raise self._full(lane, reason)

    def settled(self, entry: Entry, result: WrittenRecord | BaseException) -> Outcome:
        """Forget a record; resolve its future with `settle` after the lock is let go, as callbacks may send."""
        del self._entries[entry.number]
        self.bytes -= entry.size
        if isinstance(result, WrittenRecord):
            self.counters.acknowledged += 1
        else:
            self.counters.failed += 1
        if self._sleepers:
            self.changed.notify_all()
        return entry, result

    def expired(self) -> list[Entry]:
        """The records whose time is over."""
        now_s, found = self._clock.monotonic(), list[Entry]()
        for entry in self._entries.values():
            if entry.deadline_s > now_s:
                break
            found.append(entry)
        return found

    def wait_until_answered(self, until_s: float) -> int:
        """Wait for what was taken before this call; how many records have no answer at `until_s`."""
        upto = self._number
        self._sleep_while(lambda: next(iter(self._entries), upto + 1) <= upto, until_s)
        return sum(number <= upto for number in self._entries)

    def close(self) -> list[Outcome]:
        """Take nothing more, and give up what has no answer."""
        self.is_closed = True
        error = ProducerClosedError("the producer was closed before the record was acknowledged")
        outcomes = [self.settled(entry, error) for entry in self]
        self.changed.notify_all()
        return outcomes

    def _full(self, lane: str, reason: Callable[[], str]) -> BackPressureError:
        why = reason()
        return BackPressureError(
            f"lane {lane} holds {len(self):,} records and {self.bytes:,} bytes without an answer"
            f"{f' ({why})' if why else ''}",
            hint="send less, or raise lane_records and lane_bytes",
        )

    def _is_full(self, size: int) -> bool:
        limits = self._limits
        return len(self) >= limits.lane_records or self.bytes + size > limits.lane_bytes

    def _sleep_while(self, holds: Callable[[], bool], until_s: float) -> bool:
        """Wait, with the lock let go; True once the condition does not hold, or all is closed."""
        self._sleepers += 1
        try:
            while not self.is_closed and holds():
                left_s = until_s - self._clock.monotonic()
                if left_s <= 0:
                    return False
                self.changed.wait(min(left_s, _WAIT_S))
            return True
        finally:
            self._sleepers -= 1


def settle(outcomes: Iterable[Outcome]) -> None:
    """Resolve the futures of records that were settled."""
    for entry, result in outcomes:
        if isinstance(result, WrittenRecord):
            entry.delivery.set_result(result)
        else:
            entry.delivery.set_exception(result)
