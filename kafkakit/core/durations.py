"""Durations as people write them (`500ms`, `5s`, `2m`, `1h`), and moments as milliseconds."""

import re
from datetime import datetime

from kafkakit.core.errors import UsageError

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SHAPE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)(ms|s|m|h|d)")
_LONGEST_S = 365 * 86400.0


def parse_duration(text: str, name: str = "duration") -> float:
    """Read a duration in seconds, more than 0 and at most a year; `name` is what the error calls it."""
    match = _SHAPE.fullmatch(text.strip())
    if match is None:
        raise UsageError(
            f"{name} {text[:40]!r} is not a duration", hint="write a number with a unit: 500ms, 5s, 2m, 1h"
        )
    seconds = float(match[1]) * _SECONDS[match[2]]
    if not 0 < seconds <= _LONGEST_S:
        raise UsageError(f"{name} {text[:40]!r} must be more than 0 and at most 365d")
    return seconds


def parse_duration_or_zero(text: str, name: str = "duration") -> float:
    """Read a duration as `parse_duration` does, or `0` (`0s`) for none at all."""
    return 0.0 if text.strip() in ("0", "0s") else parse_duration(text, name)


def parse_seconds(text: str, name: str = "duration") -> float:
    """Read a duration as `parse_duration` does, or a bare number of seconds, as kafka-kit takes them."""
    bare = text.strip()
    return parse_duration(f"{bare}s" if bare.isascii() and bare.isdigit() else text, name)


def format_duration(seconds: float) -> str:
    """Write seconds in the largest unit that divides them; what it writes, `parse_duration` reads."""
    milliseconds = round(seconds * 1000)
    for unit in ("d", "h", "m", "s"):
        size = round(_SECONDS[unit] * 1000)
        if milliseconds and milliseconds % size == 0:
            return f"{milliseconds // size}{unit}"
    return f"{milliseconds}ms"


def format_span(seconds: float) -> str:
    """Write a span of time for a sentence, as exact as matters: `45 s`, `10 min`, `36 h 05 min`, `7 d`, `12 d 4 h`."""
    total = round(seconds)
    if total < 60:
        return f"{seconds:.3g} s"
    if total < 3600:
        return f"{total // 60} min" + (f" {total % 60} s" if total % 60 else "")
    if total > 86_400 and total % 86_400 == 0:
        return f"{total // 86_400} d"
    if total < 864_000:
        minutes = total % 3600 // 60
        return f"{total // 3600} h" + (f" {minutes:02d} min" if minutes else "")
    hours = total % 86_400 // 3600
    return f"{total // 86_400} d" + (f" {hours} h" if hours else "")


def epoch_ms(at: datetime) -> int:
    """A moment as milliseconds since the epoch, as Kafka's timestamps are."""
    return round(at.timestamp() * 1000)
