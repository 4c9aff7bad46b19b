"""The topics of one cluster as numbers, what their settings mean for lag, and where their logs end.

Topics have names, ids and partitions; of their settings count who stamps the records, whether the cleaner works, and
what retention takes. Ends of logs are sampled: the newest sample, and a ring of older ones at doubling distances.
Everything is kept in arrays that are indexed by ever higher numbers, and grow with them.

And the samples of a group-partition's commits that its status is judged by: Burrow's window. A reader may take a day of
the commit log in one answer or every commit as it comes; the window is the same. Only the lags of samples depend on
when ends were known: see `book.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkakit.streams.model.commit import NO_TOPIC_ID
from kafkakit.streams.model.offsets_log.feed import MOST_SAMPLES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]


SAMPLES = 16
MAX_PARTITIONS = 1_000_000
START_STEP_MS = 600_000
MAX_TOOK_MS = 3_600_000
_ROWS_AT_ONCE = 8192

NONE = -1

ColumnTypes = Mapping[str, tuple[str, object]]
"""Attributes of an object that are arrays of one length: by name the type of the elements, and what fills new rows."""

COLUMNS: ColumnTypes = {
    "end": ("i8", NONE), "stable": ("i8", NONE), "start": ("i8", NONE), "before_ms": ("i8", NONE),
    "after_ms": ("i8", NONE), "effective": ("i8", NONE), "effective_at": ("i8", NONE),
    "effective_is_data": ("?", False), "tail": ("i8", 0), "generation": ("i8", 0), "_count": ("i8", 0),
    "_start_then": ("i8", NONE), "_start_then_ms": ("i8", NONE), "_start_mid": ("i8", NONE),
    "_start_mid_ms": ("i8", NONE),
}  # fmt: skip
RING_COLUMNS: ColumnTypes = {"_ends": ("i8", None), "_before": ("i8", None), "_took": ("i4", None)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleBracket:
    """The two samples next to an offset, one row each; -1 where there is none.

    At `low_before_ms` the log ended at `low_end`, at or below the offset; at `high_after_ms` it ended at `high_end`,
    above it. So the record at the offset, if there is one, came between the two moments.
    """

    low_before_ms: "Ints"
    low_end: "Ints"
    high_after_ms: "Ints"
    high_end: "Ints"


class EndSamples:
    """End offsets by slot (see `TopicTable`), each sample with the monitor's time before and after its request.

    The newest sample stands in `end`, `stable`, `start`, `before_ms`, `after_ms`, all -1 while unknown. Older ones
    keep end and times alone; when a row is full, the sample goes whose neighbours lie closest for their age, so that
    distances grow with age. 430 bytes a slot. `generation` counts how often a slot's samples were dropped because its
    log is another one: what was read of the log before that does not hold any longer. `tail` is how many offsets
    without data stood at the end when that was last looked at: markers of transactions, which no group gets to.
    """

    end: "Ints"
    stable: "Ints"
    start: "Ints"
    before_ms: "Ints"
    after_ms: "Ints"
    effective: "Ints"
    effective_at: "Ints"
    effective_is_data: "Bools"
    tail: "Ints"
    generation: "Ints"
    _ends: "Ints"
    _before: "Ints"
    _took: "NDArray[np.int32]"
    _count: "Ints"
    _start_then: "Ints"
    _start_then_ms: "Ints"
    _start_mid: "Ints"
    _start_mid_ms: "Ints"

    def __init__(self, *, max_partitions: int = MAX_PARTITIONS) -> None:
        self.topics = TopicTable(max_partitions)
        add_columns(self, COLUMNS)
        add_columns(self, RING_COLUMNS, SAMPLES)
        self._grow(1)

    def slot(self, topic: str, partition: int) -> int:
        """The slot of a partition with space for its samples; NONE when the limit of partitions is reached."""
        slot = self.topics.slot(topic, partition)
        if slot >= len(self.end):
            self._grow(slot + 1)
        return slot

    def see_topic(self, topic: str, topic_id: bytes, seen_ms: int) -> bool:
        """Note a topic's id; a new one clears every sample of the topic, and then the answer is True."""
        if not self.topics.see_id(topic, topic_id, seen_ms):
            return False
        self.forget(sorted(self.topics.slots[self.topics.number(topic)].values()))
        return True

    def forget(self, slots: "Sequence[int] | Ints") -> None:
        """Drop all samples of these slots."""
        import numpy as np

        rows = np.asarray(slots, dtype=np.int64)
        self._count[rows] = 0
        self.generation[rows] += 1
        for array in (self.end, self.stable, self.start, self.before_ms, self.after_ms, self.effective):
            array[rows] = NONE
        self.tail[rows] = 0
        for array in (self.effective_at, self._start_then, self._start_then_ms, self._start_mid, self._start_mid_ms):
            array[rows] = NONE

    def record(
        self, slots: "Ints", *, before_ms: "Ints", after_ms: "Ints", end: "Ints", stable: "Ints", start: "Ints"
    ) -> None:
        """Take a sample of each slot (each once). One that began before the last, or took an hour, is ignored; an end
        or a start that went back means another log, and clears the slot first."""
        # Of an answer that took longer than that, the moment is too uncertain.
        fresh = (before_ms >= self.before_ms[slots]) & (end >= 0) & (after_ms - before_ms <= MAX_TOOK_MS)
        slots, before_ms, after_ms = slots[fresh], before_ms[fresh], after_ms[fresh]
        end, stable, start = end[fresh], stable[fresh], start[fresh]
        went_back = (end < self.end[slots]) | ((start >= 0) & (start < self.start[slots]))
        if went_back.any():
            self.forget(slots[went_back])
        self.end[slots], self.stable[slots], self.start[slots] = end, stable, start
        self.before_ms[slots], self.after_ms[slots] = before_ms, after_ms
        self._note_start(slots)
        for at in range(0, len(slots), _ROWS_AT_ONCE):
            cut = slice(at, at + _ROWS_AT_ONCE)
            rows = slots[cut]
            full = rows[self._count[rows] == SAMPLES]
            if len(full):
                self._thin(full, int(after_ms[cut].max()))
            place = self._count[rows]
            self._ends[rows, place], self._before[rows, place] = end[cut], before_ms[cut]
            self._took[rows, place] = after_ms[cut] - before_ms[cut]
            self._count[rows] = place + 1

    def note_effective_end(self, slot: int, effective_end: int, at_end: int, *, is_data: bool = False) -> None:
        """A raw read found no data that consumers get from `effective_end`, not below the log's start, to `at_end`.

        `is_data` when what stands right below it surely is data: of no transaction that is open or aborted.
        """
        self.effective[slot], self.effective_at[slot], self.effective_is_data[slot] = effective_end, at_end, is_data
        self.tail[slot] = at_end - effective_end

    def effective_end(self, slots: "Ints") -> "Ints":
        """The effective ends that hold for the newest samples, -1 where unknown."""
        import numpy as np

        known = (self.effective_at[slots] == self.end[slots]) & (self.end[slots] >= 0)
        return np.where(known, self.effective[slots], NONE)

    def note_record(self, slot: int, offset: int) -> None:
        """A record that consumers may get was found there: what stands at the end is more than markers."""
        if offset >= self.end[slot] - self.tail[slot]:
            self.tail[slot] = 0

    def readable_end(self, slots: "Ints", committed: "Ints", *, is_uncommitted: bool = False) -> "Ints":
        """Up to where a group that committed those offsets can read by the newest samples, -1 where unknown.

        That is the effective end, and the last stable offset for a group that was never seen beyond it: one that reads
        no uncommitted records gets no further, however far the log goes on. As many offsets as markers stood at the end
        when that was last looked at (`tail`) count as markers until a record is found there. With `is_uncommitted`
        groups read records of open transactions, as Java's consumers do by default.
        """
        import numpy as np

        effective, stable = self.effective_end(slots), self.stable[slots]
        limit = np.where(effective >= 0, effective, self.end[slots])
        if not is_uncommitted:
            limit = np.where((stable >= 0) & (committed <= stable), np.minimum(limit, stable), limit)
        beyond = limit - committed
        return np.where((beyond > 0) & (beyond <= self.tail[slots]), committed, limit)

    def bracket(self, slots: "Ints", offsets: "Ints") -> SampleBracket:
        """The samples next to an offset of each slot."""
        import numpy as np

        parts = [
            self._bracket(slots[at : at + _ROWS_AT_ONCE], offsets[at : at + _ROWS_AT_ONCE])
            for at in range(0, max(len(slots), 1), _ROWS_AT_ONCE)
        ]
        low_before, low_end, high_after, high_end = (np.concatenate(column) for column in zip(*parts, strict=True))
        return SampleBracket(low_before_ms=low_before, low_end=low_end, high_after_ms=high_after, high_end=high_end)

    def sample_since(self, slots: "Ints", since_ms: "Ints") -> "tuple[Ints, Ints]":
        """End and time of the oldest sample of each slot that is not older than `since_ms`; -1 where there is none."""
        import numpy as np

        count = self._count[slots]
        columns = np.arange(SAMPLES)
        fits = (columns < count[:, None]) & (self._before[slots] >= since_ms[:, None])
        first, has = np.argmax(fits, axis=1), fits.any(axis=1)
        return np.where(has, self._ends[slots, first], NONE), np.where(has, self._before[slots, first], NONE)

    def start_movement(self, slots: "Ints") -> "tuple[Ints, Ints]":
        """By how much the log's start rose over the last ten to twenty minutes, and over how many ms; 0 at first."""
        import numpy as np

        then, since = self._start_then[slots], self._start_then_ms[slots]
        known = (then >= 0) & (self.start[slots] >= 0)
        return np.where(known, self.start[slots] - then, 0), np.where(known, self.after_ms[slots] - since, 0)

    def _note_start(self, slots: "Ints") -> None:
        """Keep two older starts of each slot, ten minutes apart."""
        import numpy as np

        now, start = self.after_ms[slots], self.start[slots]
        is_due = (self._start_mid_ms[slots] < 0) | (now - self._start_mid_ms[slots] >= START_STEP_MS)
        for then, mid in ((self._start_then, self._start_mid), (self._start_then_ms, self._start_mid_ms)):
            older = np.where(self._start_mid_ms[slots] < 0, start if mid is self._start_mid else now, mid[slots])
            then[slots] = np.where(is_due, older, then[slots])
        self._start_mid[slots] = np.where(is_due, start, self._start_mid[slots])
        self._start_mid_ms[slots] = np.where(is_due, now, self._start_mid_ms[slots])

    def _bracket(self, slots: "Ints", offsets: "Ints") -> "tuple[Ints, Ints, Ints, Ints]":
        import numpy as np

        count = self._count[slots]
        valid = np.arange(SAMPLES) < count[:, None]
        below = np.count_nonzero(valid & (self._ends[slots] <= offsets[:, None]), axis=1)
        low, high = np.maximum(below - 1, 0), np.minimum(below, SAMPLES - 1)
        has_low, has_high = below > 0, below < count
        return (
            np.where(has_low, self._before[slots, low], NONE),
            np.where(has_low, self._ends[slots, low], NONE),
            np.where(has_high, self._before[slots, high] + self._took[slots, high], NONE),
            np.where(has_high, self._ends[slots, high], NONE),
        )

    def _thin(self, rows: "Ints", now_ms: int) -> None:
        """Take one sample out of each of these full rows, and close the gap; first and last sample stay.

        A sample between two of the same end adds nothing. Else the one whose neighbours lie closest together,
        measured by their age, is missed least.
        """
        import numpy as np

        times, ends = self._before[rows], self._ends[rows]
        age = np.maximum(1, now_ms - times[:, :-2]).astype(np.float64)
        score = (times[:, 2:] - times[:, :-2]) / age
        score[ends[:, 2:] == ends[:, :-2]] = -1.0
        gone = np.argmin(score, axis=1) + 1
        columns = np.arange(SAMPLES - 1)
        columns = columns + (columns >= gone[:, None])
        for array in (self._ends, self._before, self._took):
            array[rows, : SAMPLES - 1] = np.take_along_axis(array[rows], columns, axis=1)
        self._count[rows] = SAMPLES - 1

    def _grow(self, rows: int) -> None:
        grow_columns(self, COLUMNS, rows)
        grow_columns(self, RING_COLUMNS, rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLogSettings:
    """Settings of a topic; the defaults claim the least.

    `is_log_append`: brokers stamp the records (message.timestamp.type=LogAppendTime), so times rise with offsets.
    `is_dense`: every offset from log start to end is a record that is to be consumed: no compaction, and no
    transactional producer. `retention_ms` and `retention_bytes` are None where unlimited or unknown, or where nothing
    is deleted by age or size.
    """

    is_log_append: bool = False
    is_compacted: bool = False
    is_dense: bool = False
    retention_ms: int | None = None
    retention_bytes: int | None = None


class TopicTable:
    """Numbers for topics and for topic-partitions (slots), each given once and never again; O(1) to look up.

    `id_number` is the number of the topic's present id, NONE while unknown; `since_ms` the moment by which a second
    id had taken the place of the first, NONE while there was only one. `changes` counts ids that became known.
    """

    def __init__(self, max_partitions: int) -> None:
        import numpy as np

        self.max_partitions = max_partitions
        self.changes = 0
        self.names: list[str] = []
        self.facts: list[TopicLogSettings] = []
        self.slots: list[dict[int, int]] = []
        self._numbers: dict[str, int] = {}
        self._ids: dict[bytes, int] = {}
        self.ids: list[bytes] = []
        self.id_number: Ints = np.empty(0, dtype=np.int64)
        self.since_ms: Ints = np.empty(0, dtype=np.int64)
        self.topic_of: Ints = np.full(1, NONE, dtype=np.int64)
        self.partition_of: Ints = np.full(1, NONE, dtype=np.int64)
        self.slot_count = 0

    def number(self, topic: str) -> int:
        """The topic's number, a new one if need be."""

        found = self._numbers.get(topic)
        if found is not None:
            return found
        number = len(self.names)
        self._numbers[topic] = number
        self.names.append(topic)
        self.facts.append(TopicLogSettings())
        self.slots.append({})
        self.id_number = grow_array(self.id_number, number + 1, NONE)
        self.since_ms = grow_array(self.since_ms, number + 1, NONE)
        return number

    def find(self, topic: str, partition: int) -> int | None:
        """The slot of a partition, None if it has none yet."""
        number = self._numbers.get(topic)
        return None if number is None else self.slots[number].get(partition)

    def slot(self, topic: str, partition: int) -> int:
        """The slot of a partition, a new one if need be; NONE beyond `max_partitions`."""

        found = self.find(topic, partition)
        if found is not None:
            return found
        if self.slot_count >= self.max_partitions:
            return NONE
        number = self.number(topic)
        slot = self.slots[number][partition] = self.slot_count
        self.slot_count += 1
        self.topic_of = grow_array(self.topic_of, self.slot_count, NONE)
        self.partition_of = grow_array(self.partition_of, self.slot_count, NONE)
        self.topic_of[slot], self.partition_of[slot] = number, partition
        return slot

    def set_facts(self, topic: str, facts: TopicLogSettings) -> None:
        """Take over a topic's settings."""
        self.facts[self.number(topic)] = facts

    def traits(self, slots: "Ints") -> "tuple[Bools, Bools, Bools]":
        """`is_log_append`, `is_dense` and `is_compacted` of the topics of these slots."""
        import numpy as np

        rows = [(f.is_log_append, f.is_dense, f.is_compacted) for f in (*self.facts, TopicLogSettings())]
        table = np.array(rows, dtype=bool)[self.topic_of[slots]]
        return table[:, 0], table[:, 1], table[:, 2]

    def retention_ms(self, slots: "Ints") -> "Ints":
        """`retention_ms` of the topics of these slots, NONE where unlimited or unknown."""
        import numpy as np

        known = [NONE if f.retention_ms is None else f.retention_ms for f in (*self.facts, TopicLogSettings())]
        found: Ints = np.array(known, dtype=np.int64)[self.topic_of[slots]]
        return found

    def id_of(self, topic_id: bytes) -> int:
        """The number of a topic id, NONE for the id that stands for none."""
        if topic_id == NO_TOPIC_ID or not topic_id:
            return NONE
        number = self._ids.setdefault(topic_id, len(self.ids))
        if number == len(self.ids):
            self.ids.append(topic_id)
        return number

    def topic_id(self, number: int) -> bytes:
        """The present id of a topic by its number; sixteen zeros while unknown."""
        at = int(self.id_number[number])
        return NO_TOPIC_ID if at == NONE else self.ids[at]

    def see_id(self, topic: str, topic_id: bytes, seen_ms: int) -> bool:
        """Note the id that a topic has now; True when it is another than before: the topic was recreated."""
        number = self.number(topic)
        new, old = self.id_of(topic_id), int(self.id_number[number])
        if new in (NONE, old):
            return False
        self.id_number[number] = new
        self.changes += 1
        if old == NONE:
            return False
        self.since_ms[number] = seen_ms
        return True


HOUR_MS = 3_600_000
MINUTE_MS = 60_000
BROKER_KEYS = (
    "log.message.timestamp.type",
    "log.cleanup.policy",
    "log.retention.ms",
    "log.retention.minutes",
    "log.retention.hours",
    "log.retention.bytes",
)


def facts_of(configs: Mapping[str, Mapping[str, str]], defaults: Mapping[str, str]) -> "dict[str, TopicLogSettings]":
    """The facts of each topic from the values set on it and, for the rest, those in force on the brokers.

    A value that is no number counts as unknown. `is_dense` stays False: no setting states it.
    """
    return {topic: _facts(values, defaults) for topic, values in sorted(configs.items())}


def _facts(values: Mapping[str, str], defaults: Mapping[str, str]) -> TopicLogSettings:
    kind = values.get("message.timestamp.type") or defaults.get("log.message.timestamp.type", "CreateTime")
    policy = (values.get("cleanup.policy") or defaults.get("log.cleanup.policy", "delete")).split(",")
    is_deleting = "delete" in (word.strip() for word in policy)
    retention_ms = _number(values.get("retention.ms"))
    if retention_ms is None:
        retention_ms = _default_ms(defaults)
    retention_bytes = _number(values.get("retention.bytes", defaults.get("log.retention.bytes")))
    return TopicLogSettings(
        is_log_append=kind == "LogAppendTime",
        is_compacted="compact" in (word.strip() for word in policy),
        retention_ms=_limit(retention_ms) if is_deleting else None,
        retention_bytes=_limit(retention_bytes) if is_deleting else None,
    )


def _default_ms(defaults: Mapping[str, str]) -> int | None:
    """The brokers' retention: the finest unit that is set counts."""
    for key, unit in (("log.retention.ms", 1), ("log.retention.minutes", MINUTE_MS), ("log.retention.hours", HOUR_MS)):
        number = _number(defaults.get(key))
        if number is not None:
            return number * unit if number >= 0 else number
    return None


def _limit(number: int | None) -> int | None:
    return None if number is None or number < 0 else number


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def grow_array(array: "NDArray[Any]", rows: int, fill: object) -> "NDArray[Any]":
    """The array itself when it has `rows` rows, else a copy with space for an eighth more, new rows set to `fill`.

    With `fill` None they hold anything, and take no memory until they are written.
    """
    import numpy as np

    have = len(array)
    if have >= rows:
        return array
    bigger = np.empty((max(rows, have + have // 8, 64), *array.shape[1:]), dtype=array.dtype)
    bigger[:have] = array
    if fill is not None:
        bigger[have:] = fill
    return bigger


def add_columns(owner: object, columns: ColumnTypes, *shape: int) -> None:
    """Give an object its columns, empty; each row has `shape`."""
    import numpy as np

    for name, (dtype, _) in columns.items():
        setattr(owner, name, np.empty((0, *shape), dtype=dtype))


def grow_columns(owner: object, columns: ColumnTypes, rows: int) -> None:
    """Let the columns of an object have at least `rows` rows, see `grow_array`."""
    for name, (_, fill) in columns.items():
        setattr(owner, name, grow_array(getattr(owner, name), rows, fill))


WINDOW_SAMPLES = MOST_SAMPLES
UNKNOWN_LAG = -1
WINDOW_RING_COLUMNS: ColumnTypes = {"offset": ("i8", None), "at_ms": ("i8", None), "lag": ("i8", None)}
WINDOW_COLUMNS: ColumnTypes = {"count": ("i1", 0), "head": ("i1", 0)}


class CommitWindow:
    """Ten samples a row of (offset, commit time, lag), at most one in each stretch of `step_ms`; 241 bytes a row.

    Of the commits of a stretch (10:00:00 to 10:00:10) a sample has the first one's time and the last one's offset and
    lag, else a group that commits often would never fill its window (Burrow's `min-distance`). So a window depends on
    the commits only, not on when and how often they were read.
    """

    offset: "Ints"
    at_ms: "Ints"
    lag: "Ints"
    count: "NDArray[np.int8]"
    head: "NDArray[np.int8]"

    def __init__(self, step_ms: int) -> None:
        self.step_ms = step_ms
        add_columns(self, WINDOW_RING_COLUMNS, WINDOW_SAMPLES)
        add_columns(self, WINDOW_COLUMNS)

    def grow(self, rows: int) -> None:
        """Make space for rows below this number."""
        grow_columns(self, WINDOW_RING_COLUMNS, rows)
        grow_columns(self, WINDOW_COLUMNS, rows)

    def add(self, rows: "Ints", offset: "Ints", at_ms: "Ints", lag: "Ints") -> None:
        """Take one commit of each row (each row once); `lag` is UNKNOWN_LAG where no end was known."""
        import numpy as np

        head, count = self.head[rows], self.count[rows]
        is_soon = (count > 0) & (at_ms // self.step_ms <= self.at_ms[rows, head] // self.step_ms)
        head = np.where(is_soon | (count == 0), head, (head + 1) % WINDOW_SAMPLES)
        self.at_ms[rows, head] = np.where(is_soon, self.at_ms[rows, head], at_ms)
        self.offset[rows, head] = offset
        self.lag[rows, head] = lag
        self.head[rows] = head
        self.count[rows] = np.where(is_soon, count, np.minimum(count + 1, WINDOW_SAMPLES))

    def add_all(self, rows: "Ints", offset: "Ints", at_ms: "Ints", lag: "Ints") -> None:
        """Take commits of which a row may have several, in the order of the log. One round for each of a row's."""
        import numpy as np

        order = np.argsort(rows, kind="stable")
        places = np.arange(len(rows))
        begins = np.ones(len(rows), dtype=bool)
        begins[1:] = np.diff(rows[order]) != 0
        turn = places - np.maximum.accumulate(np.where(begins, places, 0))
        for number in range(int(turn.max(initial=-1)) + 1):
            pick = order[turn == number]
            self.add(rows[pick], offset[pick], at_ms[pick], lag[pick])

    def clear(self, rows: "Ints") -> None:
        """Forget what these rows held."""
        self.count[rows] = 0
        self.head[rows] = 0

    def saved(self, rows: "Ints") -> "dict[str, NDArray[Any]]":
        """Copies of all columns of these rows by name; places without a sample hold 0."""
        import numpy as np

        age = (self.head[rows, None] - np.arange(WINDOW_SAMPLES)) % WINDOW_SAMPLES
        is_sample = age < self.count[rows, None]
        found = {name: np.where(is_sample, getattr(self, name)[rows], 0) for name in WINDOW_RING_COLUMNS}
        return {**found, "count": self.count[rows], "head": self.head[rows]}

    def length_ms(self, rows: "Ints") -> "Ints":
        """How long the window of each row is: from its first commit to its last one, and nine steps at least."""
        import numpy as np

        span: Ints = self.at_ms[rows, self.head[rows]] - self._first_ms(rows)
        return np.maximum(np.where(self.count[rows] > 0, span, 0), self.step_ms * (WINDOW_SAMPLES - 1))

    def ordered(self, rows: "Ints") -> "tuple[Ints, Ints, Ints, Ints]":
        """Offsets, commit times and lags of the rows with the oldest first, and how many samples each row has.

        Shape (rows, 10); the valid samples of a row stand at its end.
        """
        import numpy as np

        columns = (self.head[rows, None].astype(np.int64) + 1 + np.arange(WINDOW_SAMPLES)) % WINDOW_SAMPLES
        pick = rows[:, None]
        return (
            self.offset[pick, columns],
            self.at_ms[pick, columns],
            self.lag[pick, columns],
            self.count[rows].astype(np.int64),
        )

    def is_full(self, rows: "Ints") -> "Bools":
        """True where the samples of a row go over ten stretches or more: fewer prove little."""
        stretches = self.at_ms[rows, self.head[rows]] // self.step_ms - self._first_ms(rows) // self.step_ms
        found: Bools = (self.count[rows] > 1) & (stretches >= WINDOW_SAMPLES - 1)
        return found

    def _first_ms(self, rows: "Ints") -> "Ints":
        """The time of each row's oldest sample."""
        found: Ints = self.at_ms[rows, (self.head[rows].astype("int64") + 1 - self.count[rows]) % WINDOW_SAMPLES]
        return found
