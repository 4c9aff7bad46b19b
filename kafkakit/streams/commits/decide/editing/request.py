"""What an edit of commits is asked to do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kafkakit.core.model import TopicPartition
from kafkakit.streams.model.commit import OffsetRanges


class Landing(StrEnum):
    """Where a reset goes; OFFSET, TIME and SHIFT come with a number, FILE with one for each partition."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIME = "time"
    SHIFT = "shift"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTarget:
    """The offset that a file names for a partition; `where` is the file and its line."""

    offset: int
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Move the committed offset; `value` is an offset, a time in ms, or how many offsets to go back or forth."""

    landing: Landing
    value: int = 0
    keep_done: bool = False
    targets: Mapping[TopicPartition, FileTarget] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """Offsets that are not to be delivered any more."""

    offsets: OffsetRanges


@dataclass(frozen=True, slots=True, kw_only=True)
class Unack:
    """Offsets that are to be delivered again."""

    offsets: OffsetRanges


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    """Offsets that are given up, and stay on record as such."""

    offsets: OffsetRanges


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A window that is to be delivered again: offsets, or record times in ms (the second one not included)."""

    request_id: int
    offsets: OffsetRanges | None = None
    from_ms: int = 0
    to_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Translate:
    """Write the commits in another dialect, given by name."""

    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete commits; with `whole_group` the group itself, too."""

    whole_group: bool = False


Verb = Reset | Skip | Unack | Reject | Replay | Translate | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRequest:
    """A verb and what it may do: `dialect` is the one to write ("": the group's), `adopt` writes over a newer format,
    `outside_log` allows offsets that the log does not hold, `coarsen` allows to forget acknowledgements so that a
    payload fits."""

    verb: Verb
    dialect: str = ""
    adopt: bool = False
    outside_log: bool = False
    coarsen: bool = False


def verb_name(verb: Verb) -> str:
    """The command's word."""
    return type(verb).__name__.lower()


def times_of(verb: Verb) -> tuple[int, ...]:
    """The record times, in ms, whose offsets have to be known before such an edit can be decided."""
    if isinstance(verb, Reset) and verb.landing is Landing.TIME:
        return (verb.value,)
    if isinstance(verb, Replay) and verb.offsets is None:
        return (verb.from_ms, verb.to_ms)
    return ()
