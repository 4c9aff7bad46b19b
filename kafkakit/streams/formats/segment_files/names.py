"""Names in a log dir: what each directory and each file of a partition is."""

import re
from dataclasses import dataclass
from enum import StrEnum

_PARTITION = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,9})")
_RENAMED = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,9})\.[0-9a-zA-Z_-]{1,36}-(delete|future|stray)")
_SEGMENT_FILE = re.compile(r"(\d{20})\.(log|index|timeindex|txnindex|snapshot)(?:\.(deleted|swap|cleaned))?")
_OTHERS = re.compile(
    r"leader-epoch-checkpoint|partition\.metadata|quorum-state|\.kafka_cleanshutdown|\d{20}-\d{10}\.checkpoint"
    r"|\d{20}-[0-9a-zA-Z_-]+\.(?:deleted|snapshot|checkpoint)(?:\.deleted)?"
)
LEADER_EPOCHS = "leader-epoch-checkpoint"
META_PROPERTIES = "meta.properties"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
LOCK = ".lock"


class DirState(StrEnum):
    """What a broker does with a partition's directory; its name ends with all but the first."""

    LIVE = "live"
    FUTURE = "future"
    """Being filled, to replace the one in another log dir."""
    DELETE = "delete"
    """Of a deleted topic, until `file.delete.delay.ms` has passed."""
    STRAY = "stray"
    """Left behind: its broker is no replica of the partition any more."""


@dataclass(frozen=True, slots=True)
class PartitionName:
    """The partition that a directory is of."""

    topic: str
    partition: int
    state: DirState = DirState.LIVE


def partition_name(name: str) -> PartitionName | None:
    """What a directory's name says; None for one that is no partition's."""
    found = _RENAMED.fullmatch(name)
    if found is not None:
        return PartitionName(found[1], int(found[2]), DirState(found[3]))
    found = _PARTITION.fullmatch(name)
    return PartitionName(found[1], int(found[2])) if found is not None else None


@dataclass(frozen=True, slots=True)
class SegmentFileName:
    """A file of a segment: its kind is the extension, `mark` is `deleted`, `swap`, `cleaned` or empty."""

    base_offset: int
    kind: str
    mark: str = ""


def segment_file_name(name: str) -> SegmentFileName | None:
    """What a file's name in a partition's directory says; None for one that is of no segment."""
    found = _SEGMENT_FILE.fullmatch(name)
    if found is None or int(found[1]) >= 1 << 63:
        return None
    return SegmentFileName(int(found[1]), found[2], found[3] or "")


def is_foreign(name: str) -> bool:
    """True for a file that Kafka does not put into a partition's directory."""
    return segment_file_name(name) is None and _OTHERS.fullmatch(name.removesuffix(".tmp")) is None
