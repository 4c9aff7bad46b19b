"""Parts of a whole as people write them: `5%`, `2.5 %`."""

import re
from fractions import Fraction

from kafkakit.core.errors import UsageError

_PERCENT = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,6})?)\s*%", re.ASCII)


def parse_percent(text: str, flag: str, *, most: int = 100) -> Fraction:
    """Read `5%` as 1/20, exactly; `UsageError` naming the flag for anything else and above `most` percent."""
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
