"""The two headers that each record of a producer gets: its id and its time of ingestion."""

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kafkakit.core.deliveries import Headers
from kafkakit.core.durations import epoch_ms
from kafkakit.ports.clock import Clock
from kafkakit.streams.client.decide.outgoing import INGESTED_HEADER
from kafkakit.streams.model.record_identity import HEADER, identity_prefix, session_of

STAMP_S = 0.001
"""For how long records get the same time, whose making takes a microsecond."""


class _Moment(NamedTuple):
    until_s: float
    at_ms: int
    header: tuple[str, bytes]
    prefix: bytes
    numbers: Iterator[int]


class RecordStamps:
    """Thread-safe. Records are numbered from 0 in a session; one that has used its numbers is followed by another."""

    def __init__(self, clock: Clock, random_bytes: Callable[[int], bytes]) -> None:
        self._clock, self._random, self._monotonic = clock, random_bytes, clock.monotonic
        self._lock = threading.Lock()
        self._session = session_of(random_bytes(6)), itertools.count()
        self._moment = self._made(self._monotonic())

    def now_ms(self) -> int:
        """The time in ms of UTC, a millisecond old at most."""
        return self._now().at_ms

    def headers(self) -> Headers:
        """Those of the next record."""
        moment = self._now()
        while True:
            try:  # counting is atomic
                return (HEADER, moment.prefix + next(moment.numbers).to_bytes(4, "big")), moment.header
            except OverflowError:
                moment = self._next_session(moment)

    def _next_session(self, moment: _Moment) -> _Moment:
        with self._lock:
            if self._session[1] is moment.numbers:
                self._session = session_of(self._random(6)), itertools.count()
            self._moment = self._made(self._monotonic())
            return self._moment

    def _now(self) -> _Moment:
        moment, now_s = self._moment, self._monotonic()
        if now_s >= moment.until_s:
            moment = self._moment = self._made(now_s)
        return moment

    def _made(self, now_s: float) -> _Moment:
        at_ms = max(0, epoch_ms(self._clock.now()))  # ids have no space for times before 1970
        session, numbers = self._session
        header = INGESTED_HEADER, b"%d" % at_ms
        return _Moment(now_s + STAMP_S, at_ms, header, identity_prefix(at_ms, session), numbers)
