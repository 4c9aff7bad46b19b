"""An edit of commits as values: the request and how people write it, the plan, the journal, and how it came out.

* Moments: `14:00` (today), `2026-11-22T14:00`, `2026-11-22T14:00:00Z`, `-2h` (so long ago).
* Targets of a reset: `earliest`, `latest`, an offset, a time, `-N` or `+N`.
* Offsets: `102,200-210`, both ends of a range included.
* Files of offsets: the CSV that `kafka-consumer-groups.sh --reset-offsets --export` writes. A row is
  `topic,partition,offset`, or `group,topic,partition,offset` if several groups were exported. There is no header; long
  names are quoted.

The plan says what each commit is and what it is to become. The journal's lines are chained by SHA-256 and written
before and after each effect. `open` says whose edit of what it is, an intent to `write` holds every old and new commit
to the last character, its effect the brokers' answers, `found` what was read afterwards, `end` how it came out,
partition by partition.
"""

import csv
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, time, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkakit.core.cluster_facts import CommittedOffset
from kafkakit.core.errors import InputError, UsageError
from kafkakit.core.journal_lines import Grammar, RecordKind
from kafkakit.core.journal_lines import Line as JournalLine
from kafkakit.core.model import TopicPartition
from kafkakit.core.options import option, parsed_option
from kafkakit.core.quantities import epoch_ms, parse_duration
from kafkakit.core.text import few_of, sanitize
from kafkakit.streams.model.commit import CommitState, OffsetRanges
from kafkakit.streams.model.dialects.registry import WORDS, dialect_of_word

if TYPE_CHECKING:
    DialectWord: TypeAlias = str
else:
    DialectWord = StrEnum("DialectWord", {word: word for word in WORDS})

OUTSIDE_LOG_HELP = "Allow offsets that the log does not hold."


class ResetTarget(StrEnum):
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

    landing: ResetTarget
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
    """Delete commits; with `whole_group` also the group itself."""

    whole_group: bool = False


Verb = Reset | Skip | Unack | Reject | Replay | Translate | Delete


@dataclass(frozen=True, slots=True, kw_only=True)
class EditAllowances:
    """What an edit may do: `dialect` is the one to write ("": the group's), `adopt` writes over a newer format,
    `outside_log` allows offsets that the log does not hold, `coarsen` allows to forget acknowledgements so that a
    payload fits."""

    dialect: str = parsed_option(
        None,
        "--dialect",
        typed=DialectWord | None,
        parse=lambda word: dialect_of_word(word).name if word else "",
        help="Write this kind of metadata; if not given, the kind that the group uses. kkm1 and pc hold many offsets, "
        "if the application reads them.",
        show_default=False,
    )
    adopt: bool = option(False, "--adopt", help="Overwrite a commit of a newer format; its acknowledgements are lost.")
    outside_log: bool = option(False, "--allow-outside-log", help=OUTSIDE_LOG_HELP)
    coarsen: bool = option(
        False, "--allow-coarsening", help="Drop acknowledgements if the metadata exceeds the brokers' limit."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRequest:
    """A verb and what it may do."""

    verb: Verb
    allows: EditAllowances = EditAllowances()


def verb_name(verb: Verb) -> str:
    """The command's word."""
    return type(verb).__name__.lower()


def times_of(verb: Verb) -> tuple[int, ...]:
    """The record times, in ms, whose offsets have to be known before such an edit can be decided."""
    if isinstance(verb, Reset) and verb.landing is ResetTarget.TIME:
        return (verb.value,)
    if isinstance(verb, Replay) and verb.offsets is None:
        return (verb.from_ms, verb.to_ms)
    return ()


FINGERPRINT_CHARS = 12
DELETE = verb_name(Delete())


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEdit:
    """One partition's change; `before` and `after` are commits as the broker stores them, None for none.

    `reopened` are offsets that were done and will be pending, `passed` those that were pending and will be done, both
    as far as the log holds them. `forgotten` counts acknowledgements lost because the payload would not fit. `is_gone`:
    the topic or the partition does not exist any more.
    """

    partition: TopicPartition
    topic_id: bytes
    before: CommittedOffset | None
    after: CommittedOffset | None
    dialect_before: str
    dialect_after: str
    state_before: CommitState | None = None
    state_after: CommitState | None = None
    reopened: OffsetRanges = field(default_factory=OffsetRanges)
    passed: OffsetRanges = field(default_factory=OffsetRanges)
    forgotten: int = 0
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    is_gone: bool = False

    @property
    def is_change(self) -> bool:
        """False when the commit stays as it is."""
        return not same_commit(self.before, self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditPlan:
    """An edit of one group, decided from what was seen at `taken_at`; nothing of it has happened.

    `verb` is the command's word, `words` say how the request was understood, `request_id` tags a replay, `undoes`
    names the journal that an undo takes back. With `removes_group` the group is deleted after its commits.
    """

    verb: str
    cluster_id: str
    group: str
    taken_at: datetime
    limit_chars: int
    edits: tuple[PartitionEdit, ...]
    words: tuple[str, ...] = ()
    request_id: int | None = None
    undoes: str | None = None
    removes_group: bool = False

    @property
    def changes(self) -> tuple[PartitionEdit, ...]:
        """The partitions whose commit becomes another one."""
        return tuple(edit for edit in self.edits if edit.is_change)

    @property
    def is_empty(self) -> bool:
        """Nothing is to be written, and no group to be deleted."""
        return not self.changes and not self.removes_group

    @property
    def allows_members(self) -> bool:
        """The group may be live: brokers delete its commits for topics that no member is subscribed to (KIP-496)."""
        return self.verb == DELETE and not self.removes_group

    @property
    def fingerprint(self) -> str:
        """A short hash over cluster, group and every change: equal for plans that write the same over the same.

        The id of a replay's request and the watermark follow the time of planning or of records, so payloads are
        told apart by their states, not by their bytes.
        """
        head = [self.cluster_id, self.group, self.verb, *(["group"] if self.removes_group else [])]
        rows = [
            [*edit.partition, _commit(edit.before), edit.after and edit.after.offset, *_state(edit)]
            for edit in self.changes
        ]
        text = json.dumps([head, rows], separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:FINGERPRINT_CHARS]

    @property
    def reopened(self) -> int:
        """How many offsets will be delivered again, at most: not every offset has a record."""
        return sum(edit.reopened.count for edit in self.edits)

    @property
    def passed(self) -> int:
        """How many offsets that were pending count as done, and will not be delivered."""
        return sum(edit.passed.count for edit in self.edits)


def same_commit(one: CommittedOffset | None, other: CommittedOffset | None) -> bool:
    """True when offset and metadata are equal to the last character, or neither exists."""
    if one is None or other is None:
        return one is other
    return (one.offset, one.metadata) == (other.offset, other.metadata)


def _commit(commit: CommittedOffset | None) -> list[object] | None:
    return None if commit is None else [commit.offset, commit.metadata]


def _state(edit: PartitionEdit) -> list[object]:
    state = edit.state_after
    if state is None:
        return [edit.dialect_after]
    marks = [[mark.start, mark.end, mark.state.value] for mark in state.marks]
    return [edit.dialect_after, state.base, [list(pair) for pair in state.done], marks]


HEADER = {"kind": "commit-edit", "schema": 1}
DAMAGED_HINT = "the journal was changed; compare the commits by hand: kafkakit streams commits show GROUP"


class EditSubject(StrEnum):
    """What a line is about; `write` alone is an effect."""

    OPEN = "open"
    WRITE = "write"
    FOUND = "found"
    END = "end"


class CommitStanding(StrEnum):
    """Which commit stands: the edit's, the one before it, or another process's."""

    NEW = "new"
    OLD = "old"
    OTHER = "other"


class EditVerdict(StrEnum):
    """How an edit came out; OPEN means that it was interrupted, or is running."""

    OPEN = "open"
    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    NOTHING = "nothing written"
    UNDONE = "undone"


Line: TypeAlias = JournalLine[EditSubject]

GRAMMAR = Grammar(header=HEADER, words=EditSubject, damaged_hint=DAMAGED_HINT)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitChange:
    """One partition's old and new commit; None for none."""

    partition: TopicPartition
    topic_id: bytes
    old: CommittedOffset | None
    new: CommittedOffset | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EditOpening:
    """Whose edit it is, and why; `undoes` names the journal that it takes back."""

    cluster_id: str
    group: str
    verb: str
    who: str
    words: tuple[str, ...] = ()
    reason: str = ""
    fingerprint: str = ""
    request_id: int | None = None
    undoes: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRecord:
    """A journal folded up.

    `changes` are those that were intended, `answers` the brokers' (None: accepted) of those that were answered, and
    `found` which commit stood when it was last looked.
    """

    opening: EditOpening
    at: datetime
    changes: Mapping[TopicPartition, CommitChange] = field(default_factory=dict)
    answers: Mapping[TopicPartition, str | None] = field(default_factory=dict)
    found: Mapping[TopicPartition, CommitStanding] = field(default_factory=dict)
    verdict: EditVerdict = EditVerdict.OPEN

    @property
    def is_open(self) -> bool:
        """True when something may have been written, and it was not looked whether it stands."""
        return self.verdict is EditVerdict.OPEN and bool(self.changes)

    @property
    def story(self) -> str:
        """What happened, in words."""
        if self.verdict is not EditVerdict.OPEN:
            return f"{self.opening.verb} ended: {self.verdict}"
        if not self.changes:
            return f"{self.opening.verb} was stopped before anything was written"
        if not self.answers:
            return f"{self.opening.verb} was stopped while it wrote: the commits may be old or new"
        return f"{self.opening.verb} was stopped after it wrote, before it verified the commits"


def fold(record: EditRecord | None, line: Line) -> EditRecord:
    """Take one more line into account."""
    data = line.data
    if (record is None) != (line.what is EditSubject.OPEN):
        raise ValueError("a journal opens once, with its first line")
    if record is None:
        words = tuple(str(word) for word in data["words"])
        return EditRecord(opening=EditOpening(**{**data, "words": words}), at=line.time)
    if line.what is EditSubject.WRITE and line.kind is RecordKind.INTENT:
        changes = [change_from(item) for item in data["changes"]]
        return replace(
            record, changes={**record.changes, **{c.partition: c for c in changes}}, verdict=EditVerdict.OPEN
        )
    if line.what is EditSubject.WRITE:
        answers = {TopicPartition(t, p): error for t, p, error in data["answers"]}
        return replace(record, answers={**record.answers, **answers})
    if line.what is EditSubject.FOUND:
        found = {TopicPartition(t, p): CommitStanding(standing) for t, p, standing in data["partitions"]}
        return replace(record, found={**record.found, **found})
    return replace(record, verdict=EditVerdict(data["verdict"]))


def opening_for(plan: EditPlan, *, who: str, reason: str) -> EditOpening:
    """The first line of a plan's journal."""
    return EditOpening(
        cluster_id=plan.cluster_id,
        group=plan.group,
        verb=plan.verb,
        who=who,
        words=plan.words,
        reason=reason,
        fingerprint=plan.fingerprint,
        request_id=plan.request_id,
        undoes=plan.undoes,
    )


def change_data(change: CommitChange) -> dict[str, Any]:
    """A change as journal data."""
    return {
        "topic": change.partition.topic,
        "partition": change.partition.partition,
        "topic_id": change.topic_id.hex(),
        "old": _commit_data(change.old),
        "new": _commit_data(change.new),
    }


def change_from(data: Mapping[str, Any]) -> CommitChange:
    """Read `change_data` back."""
    return CommitChange(
        partition=TopicPartition(str(data["topic"]), int(data["partition"])),
        topic_id=bytes.fromhex(data["topic_id"]),
        old=_commit_from(data["old"]),
        new=_commit_from(data["new"]),
    )


def _commit_data(commit: CommittedOffset | None) -> dict[str, Any] | None:
    if commit is None:
        return None
    return {"offset": commit.offset, "metadata": commit.metadata, "leader_epoch": commit.leader_epoch}


def _commit_from(data: Mapping[str, Any] | None) -> CommittedOffset | None:
    if data is None:
        return None
    offset, metadata, epoch = data["offset"], data["metadata"], data["leader_epoch"]
    if not isinstance(offset, int) or not isinstance(metadata, str) or not isinstance(epoch, int | None):
        raise TypeError
    return CommittedOffset(offset=offset, metadata=metadata, leader_epoch=epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """What stands for one partition now; `problem` is empty where it is what the plan said."""

    partition: TopicPartition
    standing: CommitStanding | None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditOutcome:
    """A plan carried out; `journal` is None where there was nothing to do, or where it was not confirmed.

    `group_problem` says why a group that was to be deleted is still there, "" where it is gone.
    """

    plan: EditPlan
    results: tuple[PartitionResult, ...] = ()
    journal: str | None = None
    verdict: EditVerdict = EditVerdict.NOTHING
    declined: bool = False
    group_problem: str = ""

    @property
    def failed(self) -> tuple[PartitionResult, ...]:
        """The partitions whose commit is not what the plan said."""
        return tuple(result for result in self.results if result.problem)


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
        raise UsageError(f"{flag}: {plain!r:.40} is not a time", hint=_HINT) from None
    if len(plain) <= len("2026-11-22") and clock is None:
        raise UsageError(f"{flag}: {plain} has no time of day", hint=_HINT)
    if ms < 0:
        raise UsageError(f"{flag}: {plain} is before 1970")
    if ahead:
        raise UsageError(f"{flag}: {moment.words} is in the future", hint="add the date if another day is meant")
    return moment


_ENDS = {"earliest": ResetTarget.EARLIEST, "latest": ResetTarget.LATEST}
_NUMBER = re.compile(r"([+-]?)([0-9]{1,19})")


def parse_target(text: str, now: datetime, to_local: ToLocal) -> tuple[ResetTarget, int, str]:
    """The landing, its number, and how it was understood; `UsageError` for anything else."""
    plain = text.strip()
    if plain in _ENDS:
        return _ENDS[plain], 0, plain
    match = _NUMBER.fullmatch(plain)
    if match is None:
        moment = parse_moment(plain, "--to", now, to_local)
        return ResetTarget.TIME, moment.ms, f"the first record at or after {moment.words}"
    number = int(match[2])
    if number > MAX_OFFSET:
        raise UsageError(f"--to: {plain} is above the highest offset there can be")
    if not match[1]:
        return ResetTarget.OFFSET, number, f"offset {number}"
    way = "back" if match[1] == "-" else "forth"
    return ResetTarget.SHIFT, -number if match[1] == "-" else number, f"{number} offsets {way}"


MAX_OFFSET = (1 << 62) - 1
MAX_PARTS = 10_000
_PART = re.compile(r"([0-9]{1,19})(?:-([0-9]{1,19}))?")


MOST_PARTITIONS = 1_000_000


def parse_partitions(text: str) -> tuple[int, ...]:
    """The partitions of `--partition`, such as `3,7-9`; none for an empty text. Raises `UsageError`."""
    if not text:
        return ()
    ranges = parse_offsets(text, "--partition")
    if (ranges.end or 0) > MOST_PARTITIONS:
        raise UsageError(f"--partition: {text!r:.40} is above the highest partition there can be")
    return tuple(number for start, end in ranges for number in range(start, end))


def parse_offsets(text: str, flag: str = "--offsets") -> OffsetRanges:
    """Read a comma list of offsets and ranges; raises `UsageError` for anything else, and for nothing at all."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > MAX_PARTS:
        raise UsageError(f"{flag}: {len(parts)} ranges are named, at most {MAX_PARTS} can be")
    return OffsetRanges.of(_range(part, flag) for part in parts)


def _range(part: str, flag: str) -> tuple[int, int]:
    match = _PART.fullmatch(part)
    if match is None:
        raise UsageError(f"{flag}: {part!r:.40} is not a number or range", hint="write them like 102,200-210")
    first, last = int(match[1]), int(match[2] or match[1])
    if first > last:
        raise UsageError(f"{flag}: {part} ends before it begins")
    if last > MAX_OFFSET:
        raise UsageError(f"{flag}: {part} is above the highest offset there can be")
    return first, last + 1


MAX_BYTES = 16 << 20
MAX_PARTITION = (1 << 31) - 1
FORM = "a row is topic,partition,offset or group,topic,partition,offset, without a header line"


def read_offset_file(data: bytes, source: str, group: str, topic: str = "") -> dict[TopicPartition, FileTarget]:
    """The offsets of one group; with `topic` a row of another topic is refused.

    Raises `InputError` with the line for a row that cannot be used, and where the group has none.
    """
    targets: dict[TopicPartition, FileTarget] = {}
    others: set[str] = set()
    for where, row in _rows(data, source):
        if len(row) == 4 and row[0] != group:
            others.add(sanitize(row[0]))
            continue
        name = row[-3]
        key = TopicPartition(name, _number(row[-2], "partition", MAX_PARTITION, where))
        if topic and name != topic:
            raise InputError(where, f"topic {sanitize(name)} is not {sanitize(topic)}, the one of --topic")
        if key in targets:
            raise InputError(where, f"{sanitize(str(key))} is named before, in {targets[key].where}")
        targets[key] = FileTarget(offset=_number(row[-1], "offset", MAX_OFFSET, where), where=where)
    if not targets:
        held = f"no row of group {sanitize(group)}, only of {few_of(sorted(others))}" if others else "no rows"
        raise InputError(source, f"it has {held}", hint=FORM)
    return targets


def _rows(data: bytes, source: str) -> Iterator[tuple[str, list[str]]]:
    """Each row with its place; all have as many fields as the first one."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{source} line {data.count(10, 0, error.start) + 1}", "it is not UTF-8") from None
    width = 0
    for number, line in enumerate(text.split("\n"), 1):
        where = f"{source} line {number}"
        if not line.strip():
            continue
        try:
            row = next(csv.reader([line.removesuffix("\r")], strict=True))
        except csv.Error as error:
            raise InputError(where, f"it is not CSV ({error})", hint=FORM) from None
        if len(row) not in (3, 4) or len(row) != (width or len(row)):
            raise InputError(where, f"it has {len(row)} fields" + (f", not {width}" if width else ""), hint=FORM)
        width = len(row)
        yield where, row


def _number(text: str, what: str, most: int, where: str) -> int:
    plain = text.strip()
    if not plain.removeprefix("-").isdecimal() or not plain.isascii():
        raise InputError(where, f"{plain!r:.40} is not a valid {what}", hint=FORM)
    if plain.startswith("-"):
        raise InputError(where, f"{what} {plain:.40} is negative")
    if len(plain) > 19 or int(plain) > most:
        raise InputError(where, f"{plain:.40} is above the highest {what} there can be")
    return int(plain)
