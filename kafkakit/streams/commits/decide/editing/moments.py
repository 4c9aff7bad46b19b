"""Moments as people write them: `14:00` (today), `2026-11-22T14:00`, `2026-11-22T14:00:00Z`, `-2h` (so long ago)."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, time, timedelta

from kafkakit.core.durations import epoch_ms, parse_duration
from kafkakit.core.errors import UsageError

ToLocal = Callable[[datetime], datetime]
"""Gives a time the zone of the machine: a time without a zone is taken as local."""

_CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")
_AGO = re.compile(r"-([0-9.]+(?:ms|s|m|h|d))")
_HINT = "write 14:00 or 14:00:30 for today, -2h for two hours ago, or 2026-11-22T14:00 with an optional Z or +01:00"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A point in time, and how it was understood: `was_local` when no zone was written."""

    text: str
    at: datetime
    was_local: bool

    @property
    def ms(self) -> int:
        """Milliseconds since 1970."""
        return epoch_ms(self.at)

    @property
    def words(self) -> str:
        """The moment with its zone, for people."""
        return f"{self.at.isoformat()}{' (local time)' if self.was_local else ''}"


def parse_moment(text: str, flag: str, now: datetime, to_local: ToLocal) -> Moment:
    """Read a moment; a time without a date is today's by the machine's own clock, and must not lie ahead of `now`.

    Raises `UsageError` for anything else.
    """
    plain = text.strip()
    clock, ago = _CLOCK.fullmatch(plain), _AGO.fullmatch(plain)
    if ago is not None:
        return Moment(text=plain, at=now - timedelta(seconds=parse_duration(ago[1], flag)), was_local=False)
    try:
        if clock is not None:
            bare = datetime.combine(to_local(now).date(), time(int(clock[1]), int(clock[2]), int(clock[3] or 0)))
            moment = Moment(text=plain, at=to_local(bare), was_local=True)
        else:
            read = datetime.fromisoformat(plain)
            local = read.tzinfo is None
            moment = Moment(text=plain, at=to_local(read) if local else read, was_local=local)
        ahead = moment.at > now
        ms = moment.ms
    except (ValueError, OverflowError):
        raise UsageError(f"{flag}: {plain!r:.40} is no time", hint=_HINT) from None
    if len(plain) <= len("2026-11-22") and clock is None:
        raise UsageError(f"{flag}: {plain} has no time of day", hint=_HINT)
    if ms < 0:
        raise UsageError(f"{flag}: {plain} is before 1970")
    if ahead:
        raise UsageError(f"{flag}: {moment.words} is still to come", hint="write the date too, if another day is meant")
    return moment
