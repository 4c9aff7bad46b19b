"""Where a reset goes, as people write it: `earliest`, `latest`, an offset, a time, `-N` or `+N`."""

import re
from datetime import datetime

from kafkakit.core.errors import UsageError
from kafkakit.streams.commits.decide.editing.moments import ToLocal, parse_moment
from kafkakit.streams.commits.decide.editing.offset_text import MAX_OFFSET
from kafkakit.streams.commits.decide.editing.request import Landing

_ENDS = {"earliest": Landing.EARLIEST, "latest": Landing.LATEST}
_NUMBER = re.compile(r"([+-]?)([0-9]{1,19})")


def parse_target(text: str, now: datetime, to_local: ToLocal) -> tuple[Landing, int, str]:
    """The landing, its number, and how it was understood; `UsageError` for anything else."""
    plain = text.strip()
    if plain in _ENDS:
        return _ENDS[plain], 0, plain
    match = _NUMBER.fullmatch(plain)
    if match is None:
        moment = parse_moment(plain, "--to", now, to_local)
        return Landing.TIME, moment.ms, f"the first record at or after {moment.words}"
    number = int(match[2])
    if number > MAX_OFFSET:
        raise UsageError(f"--to: {plain} is above the highest offset there can be")
    if not match[1]:
        return Landing.OFFSET, number, f"offset {number}"
    way = "back" if match[1] == "-" else "forth"
    return Landing.SHIFT, -number if match[1] == "-" else number, f"{number} offsets {way}"
