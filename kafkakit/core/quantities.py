"""Amounts as people write and read them: bytes, byte rates, percentages (`5%`), durations and moments.

Bytes and rates are whole numbers. Durations are read as `500ms`, `5s`, `2m` or `1h`; rough times and spans are only
written. A moment is milliseconds since the epoch, in UTC.
"""

from __future__ import annotations

import re
from datetime import datetime
from math import floor
from typing import TYPE_CHECKING

from kafkakit.core.errors import UsageError

if TYPE_CHECKING:
    from fractions import Fraction

_PERCENT = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)\s*%", re.ASCII)


def parse_percent(text: str, flag: str, *, most: int = 100) -> Fraction:
    """Read `5%` as 1/20, exactly; `UsageError` naming the flag for anything else and above `most` percent."""
    from fractions import Fraction

    match = _PERCENT.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{flag}: {text[:40]!r} is not a percentage", hint="write it like 5% or 2.5%")
    hundredths = Fraction(str(match[1]))
    if hundredths > most:
        raise UsageError(f"{flag}: {text.strip()} is more than {most}%")
    return hundredths / 100


def format_percent(part: Fraction | float) -> str:
    """Print a part of one with three digits: `5%`, `12.5%`."""
    return f"{float(part) * 100:.3g}%" if abs(float(part)) < 10 else f"{float(part) * 100:.0f}%"


def percent_word(part: Fraction) -> str:
    """A part of one as an option takes it, with up to six decimals and not rounded as for people: `12.345%`."""
    return f"{floor(part * 10**8) / 10**6:.6f}".rstrip("0").rstrip(".") + "%"


# No small b: 20Mb means megabits to many, and a throttle must not be eight times what was meant.
_AMOUNT = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,9}))?\s*([kKMGT]i?)?B?")
_SCALE = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
BARE_RATE_MIN = 1000
MAX_RATE = 2**63 - 1  # Kafka keeps rates as a signed 64-bit number


def parse_rate(text: str) -> int:
    """Read a rate such as `20MB`, `20MiB`, `500kB` or `10M` as bytes per second.

    `k`, `M`, `G`, `T` are powers of 1,000, with an `i` powers of 1,024; `/s` may follow. Raises `UsageError`
    for anything else, for zero (Kafka would move nothing at all), for more than 64 bits, and for a bare number below
    1,000: who writes 10 means 10MB, and 10 bytes a second would stop all copies.
    """
    bare = text.strip().removesuffix("/s")
    value = _amount(bare)
    if value is None:
        raise UsageError(f"{text!r:.60} is not a rate", hint="write it like 20MB, 20MiB or 500kB (per second)")
    if value <= 0:
        raise UsageError(f"the rate {text.strip()} is below 1 byte/s, nothing would ever move")
    if value < BARE_RATE_MIN and bare.isdigit():
        raise UsageError(
            f"the rate {bare} has no unit, and {bare} bytes a second would stop all copies",
            hint=f"write {bare}MB, or {bare}B if you mean bytes",
        )
    if value > MAX_RATE:
        raise UsageError(f"the rate {text.strip()} is above what Kafka can hold ({MAX_RATE} bytes/s)")
    return value


def parse_size(text: str, flag: str = "") -> int:
    """Read a size such as `500MB`, `1.5GiB` or `200k` as bytes, rounded down.

    Raises `UsageError`, naming the flag where there is one, for anything else.
    """
    value = _amount(text.strip())
    if value is None:
        where = f"{flag}: " if flag else ""
        raise UsageError(f"{where}{text!r:.60} is not a size", hint="write it like 500MB or 2GiB")
    return value


def _amount(text: str) -> int | None:
    match = _AMOUNT.fullmatch(text)
    if match is None:
        return None
    fraction = match[2] or ""
    divisor: int = 10 ** len(fraction)
    return int(match[1] + fraction) * _SCALE[(match[3] or "").lower()] // divisor


def format_bytes(count: int | None) -> str:
    """Print a byte count with a binary unit and three digits (`1.31 TiB`); `?` for unknown."""
    return "?" if count is None else _scale_text(count, 1024, ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))


def format_rate(bytes_per_s: float) -> str:
    """Print a rate with a decimal unit, the way it is given (`20 MB/s`)."""
    return _scale_text(bytes_per_s, 1000, ("B", "kB", "MB", "GB", "TB", "PB", "EB")) + "/s"


def rate_option(bytes_per_s: float) -> str:
    """A rate as options take it (`20MB`)."""
    return format_rate(bytes_per_s).removesuffix("/s").replace(" ", "")


def format_rough_time(seconds: float) -> str:
    """Print a span of time with its two largest units (`2h 5m`, `3m 20s`, `12s`)."""
    total = max(0, round(seconds))
    for name, size, small_name, small in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if total >= size:
            rest = total % size // small
            return f"{total // size}{name} {rest}{small_name}" if rest else f"{total // size}{name}"
    return f"{total}s"


def _scale_text(value: float, base: int, units: tuple[str, ...]) -> str:
    amount, step = float(value), 0
    # 999.5 would print as 1000 with three digits: go up one unit before that.
    while abs(amount) >= (999.5 if base == 1000 else 1023.5) and step < len(units) - 1:
        amount, step = amount / base, step + 1
    digits = 0 if step == 0 or abs(amount) >= 100 else 1 if abs(amount) >= 10 else 2
    text = f"{amount:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} {units[step]}"


def agree(number: int, what: str) -> str:
    """Words that start with a verb, so that the verb agrees with the number: `are lost` with 1 is `is lost`."""
    verb, space, rest = what.partition(" ")
    if number != 1 or verb in ("is", "cannot"):
        return what
    single = {"are": "is", "do": "does", "have": "has"}.get(verb, f"{verb}s")
    return f"{single}{space}{rest}"


def count_of(number: int, one: str, many: str | None = None) -> str:
    """A count with its noun: `1 move`, `2 moves`, `2 copies`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


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
