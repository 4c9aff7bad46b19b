"""Where the reading of the commit log stands, and what a monitor saves so that a restart need not read it all again.

Each partition of the offsets topic has a cursor; what the reading counted, and which partition the newest commit of
each key came from, is kept beside it.

The state is a cache of what the log and its ends showed: a monitor that begins with it finds the same statuses as one
that reads everything anew. Saved: each key's newest commit with the times at which it was made and seen and since when
there is something to do, the window of its last commits, and the newest sample of each log's end. Records that were
read are not saved: they are read again within seconds.

The file is one line of JSON (kind, schema, cluster, the sections with their shapes, the digest of the rest), then the
sections, compressed. The digest shows that a file was cut or changed; sizes are checked before anything is unpacked.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from msgspec import Meta

from kafkakit.core.cluster_facts import ItemError, LogSpan
from kafkakit.core.documents import decode_document, encode_document
from kafkakit.core.errors import InputError
from kafkakit.streams.lag.decide.measure.book import LagBook
from kafkakit.streams.lag.decide.measure.ends import NONE, grow_array
from kafkakit.streams.model.offsets_log.commits import CommitColumns, FeedCounts, KeyTable, PendingTransaction
from kafkakit.streams.model.offsets_log.feed import OffsetsFeed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]


class ResumePoint(NamedTuple):
    """Where an earlier run stopped in a partition: from `at` on it is to be read, everything visible below `known_to`
    is known already, and all commits until `as_of_ms` are."""

    at: int
    known_to: int
    as_of_ms: int


Resume = Mapping[int, ResumePoint]
NO_RESUME = ResumePoint(-1, -1, -1)


@dataclass(slots=True)
class LogCursor:
    """Where one partition is read: `next` None while its log's ends are not known.

    `first` is where reading began, `target` the end that was seen then: below it the past is read. `began` counts how
    often the partition was read from its start, `is_sweeping` is True while it is. `as_of_ms` is until when surely all
    commits have been seen, by our clock, -1 while unknown; `asked_ms` when the request on its way was sent. `error` is
    why the last fetch brought nothing; `is_whole` is True while the last answer went to the end of the log. `every`
    is the feed's.
    """

    partition: int
    feed: OffsetsFeed
    next: int | None = None
    first: int = 0
    target: int = -1
    end: int = -1
    began: int = 0
    is_sweeping: bool = False
    as_of_ms: int = -1
    asked_ms: int = -1
    error: ItemError | None = None
    is_whole: bool = False
    empty_tries: int = 0
    stopped_tries: int = 0
    open_transactions: tuple[PendingTransaction, ...] = ()
    open_transaction_count: int = 0
    held_back: int = 0
    every: bool = False
    sample_ms: int = 0

    @property
    def is_behind(self) -> bool:
        """True while the partition's past is being read."""
        return self.next is None or self.next < self.target

    def begin(self, keys: KeyTable, span: LogSpan, point: ResumePoint) -> None:
        """Read on from `point`, or from the log's start where the log no longer holds that place."""
        is_warm = span.start <= point.at <= point.known_to <= span.end and not self.began
        self.next = self.first = point.at if is_warm else span.start
        known_to = point.known_to if is_warm else 0
        self.feed = OffsetsFeed(
            self.partition, keys, next_offset=self.next, known_to=known_to, every=self.every, sample_ms=self.sample_ms
        )
        self.as_of_ms = point.as_of_ms if is_warm else -1
        self.target = self.end = span.end
        self.began += not is_warm
        self.is_sweeping = not is_warm
        self.error = None

    def start_over(self, keys: KeyTable) -> None:
        """Forget what was read; the log's ends are to be found again."""
        self.next, self.target, self.as_of_ms, self.asked_ms = None, -1, -1, -1
        self.feed = OffsetsFeed(self.partition, keys, every=self.every, sample_ms=self.sample_ms)
        self.is_whole = False
        self.open_transactions = ()
        self.open_transaction_count = self.held_back = 0

    def skip_to_end(self) -> int:
        """Continue behind all that is there now; returns how many offsets were passed over."""
        self.stopped_tries = 0
        at = self.next or 0
        self.next = max(at, self.end)
        return self.next - at


@dataclass(slots=True)
class ReadTotals(FeedCounts):
    """What was counted since the start.

    `started_over` counts partitions that had to be read again, `skipped_offsets` what lay behind bytes that are no
    batch.
    """

    started_over: int = 0
    skipped_offsets: int = 0


def progress_of(cursors: Collection[LogCursor]) -> tuple[int, int]:
    """How many offsets of the past were read in this pass over it, and how many there are."""
    located = [(c.first, c.next, c.target) for c in cursors if c.next is not None]
    return sum(min(now, to) - at for at, now, to in located), sum(to - at for at, _, to in located)


def resume_points_of(cursors: Collection[LogCursor]) -> dict[int, ResumePoint]:
    """From where another run can continue, for partitions whose past was read."""
    return {
        c.partition: ResumePoint(c.feed.resume_offset, c.next, c.as_of_ms)
        for c in sorted(cursors, key=lambda c: c.partition)
        if c.next is not None and not c.is_behind
    }


class CommitOrigins:
    """By key number: `partition` of the offsets topic, -1 for none, and the pass over it in which the key was seen."""

    def __init__(self) -> None:
        import numpy as np

        self.partition: NDArray[np.int32] = np.full(64, -1, np.int32)
        self._pass: NDArray[np.int32] = np.full(64, -1, np.int32)

    def note(self, keys: "Ints", partition: int, number: int) -> None:
        """Keys that were seen in a partition, in the pass over it of this number."""
        self._reserve(int(keys.max(initial=-1)) + 1)
        self.partition[keys], self._pass[keys] = partition, number

    def restore(self, keys: "Ints", partitions: "NDArray[np.int32]") -> None:
        """Keys of a saved state: of no pass yet."""
        self._reserve(int(keys.max(initial=-1)) + 1)
        self.partition[keys] = partitions

    def drop(self, keys: "Ints") -> None:
        """Keys that were released."""
        self.partition[keys] = -1

    def earlier(self, partition: int, number: int) -> "Ints":
        """The keys of a partition that were last seen in a pass before this one."""
        import numpy as np

        return np.flatnonzero((self.partition == partition) & (self._pass < number))

    def known(self) -> "Ints":
        """All keys that came from a partition."""
        import numpy as np

        return np.flatnonzero(self.partition >= 0)

    def by_key(self, values: Mapping[int, int]) -> "Ints":
        """Values by partition as an array by key number, -1 for keys and partitions without one."""
        import numpy as np

        by_partition = np.full(max(max(values, default=-1), int(self.partition.max())) + 2, -1, np.int64)
        for partition, value in values.items():
            by_partition[partition] = value
        return by_partition[self.partition]  # -1 selects the last place, which is -1

    def _reserve(self, rows: int) -> None:
        self.partition, self._pass = grow_array(self.partition, rows, -1), grow_array(self._pass, rows, -1)


def commits_as_of(read_ms: "Ints", is_whole: "NDArray[np.bool_]", seen_ms: "Ints", rows: int) -> "Ints":
    """By row, until when its commits are known: a commit that came in an answer is newer than the request.

    `read_ms` is by key number until when all commits were read, `is_whole` whether that answer went to the end of the
    log: while it does not, newer commits than those at hand are still to be read. `seen_ms` is by row when its newest
    commit came. Rows without a value get -1.
    """
    import numpy as np

    rows = max(rows, len(read_ms))
    found, seen, whole = np.full(rows, -1, np.int64), np.full(rows, -1, np.int64), np.zeros(rows, bool)
    found[: len(read_ms)], seen[: len(seen_ms)], whole[: len(is_whole)] = read_ms, seen_ms, is_whole
    return np.where((found >= 0) & whole, np.maximum(found, seen), found)


COMMIT_COLUMNS = ("offset", "committed_ms", "seen_ms")
SINCE_COLUMNS = ("behind_ms", "calm_ms")
"""Since when there was something to do; files of earlier versions do not have them."""
WINDOW_COLUMNS = ("offset", "at_ms", "lag", "count", "head")
END_COLUMNS = ("end", "stable", "start", "before_ms", "after_ms")
POINT_COLUMNS = ("partition", "at", "known_to", "as_of_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedState:
    """A cluster's commits and end offsets as they were at `saved_ms`.

    `topic_id` is that of the offsets topic. `texts` and `arrays` hold everything by name; see `state_of`.
    """

    cluster_id: str
    topic_id: bytes
    saved_ms: int
    texts: Mapping[str, Sequence[bytes]]
    arrays: "Mapping[str, NDArray[Any]]"


def state_of(
    book: LagBook,
    sources: "NDArray[np.int32]",
    *,
    cluster_id: str,
    topic_id: bytes,
    saved_ms: int,
    points: Resume,
) -> SavedState:
    """The book as a state; the arrays are copies."""
    import numpy as np

    rows = book.rows()
    table, ends = book.ends.topics, book.ends
    slots = np.flatnonzero(ends.end[: table.slot_count] >= 0)
    arrays = {
        **{f"commit.{name}": getattr(book, name)[rows] for name in (*COMMIT_COLUMNS, *SINCE_COLUMNS)},
        **{f"window.{name}": column for name, column in book.window.saved(rows).items()},
        **{f"end.{name}": getattr(ends, name)[slots] for name in END_COLUMNS},
        "commit.source": sources[rows],
        "commit.topic_id": np.array([_id_of(book, int(n)) for n in book.id_number[rows]], np.uint8).reshape(-1, 16),
        "end.topic": table.topic_of[slots],
        "end.partition": table.partition_of[slots],
        "topic.since_ms": table.since_ms[: len(table.names)],
        "topic.id": np.array([list(table.topic_id(n)) for n in range(len(table.names))], np.uint8).reshape(-1, 16),
        "points": np.array([(p, *point) for p, point in sorted(points.items())], np.int64).reshape(-1, 4),
    }
    return SavedState(
        cluster_id=cluster_id,
        topic_id=topic_id,
        saved_ms=saved_ms,
        texts={
            "commit.key": [book.keys.bytes_of(row) for row in rows.tolist()],
            "commit.metadata": [bytes(m) for m in book.metadata.text[rows]],
            "topic.name": [name.encode() for name in table.names],
        },
        arrays=arrays,
    )


def resume_of(state: SavedState) -> Resume:
    """Where to read on in each partition of the offsets topic."""
    return {int(p): ResumePoint(int(at), int(known), int(ms)) for p, at, known, ms in state.arrays["points"]}


def check_state(state: SavedState, source: str) -> None:
    """`InputError` where sections are missing or do not go together."""
    arrays, texts = state.arrays, state.texts
    try:
        rows, slots, topics = len(texts["commit.key"]), len(arrays["end.end"]), len(texts["topic.name"])
        aligned = [arrays[f"commit.{n}"] for n in (*COMMIT_COLUMNS, "source", "topic_id")]
        aligned += [arrays[f"window.{n}"] for n in WINDOW_COLUMNS]
        aligned += [arrays[f"commit.{n}"] for n in SINCE_COLUMNS if f"commit.{n}" in arrays]
        fits = len(texts["commit.metadata"]) == rows and all(len(column) == rows for column in aligned)
        fits &= all(len(arrays[f"end.{n}"]) == slots for n in (*END_COLUMNS, "topic", "partition"))
        fits &= arrays["topic.since_ms"].shape == (topics,)
        fits &= arrays["topic.id"].shape == (topics, 16) and arrays["commit.topic_id"].shape == (rows, 16)
        fits &= arrays["points"].shape[1] == len(POINT_COLUMNS)
        fits &= not slots or 0 <= int(arrays["end.topic"].min()) <= int(arrays["end.topic"].max()) < topics
    except (KeyError, IndexError):
        fits = False
    if not fits:
        raise InputError(source, "its sections do not go together")


def restore_into(book: LagBook, state: SavedState) -> "tuple[Ints, NDArray[np.int32]]":
    """Fill an empty book; returns the keys' numbers and the partitions of the offsets topic that they came from."""
    import numpy as np

    arrays, texts = state.arrays, state.texts
    names = [name.decode("utf-8", "replace") for name in texts["topic.name"]]
    for name, topic_id in zip(names, arrays["topic.id"], strict=True):
        book.ends.see_topic(name, topic_id.tobytes(), state.saved_ms)
    table = book.ends.topics
    for name, since_ms in zip(names, arrays["topic.since_ms"].tolist(), strict=True):
        # Commits of the topic that was there before are in the state, too.
        table.since_ms[table.number(name)] = since_ms
    _restore_ends(book, names, arrays)
    numbers = [book.keys.intern(key) for key in texts["commit.key"]]
    known = np.array([isinstance(n, int) for n in numbers], bool)
    keys = np.array([n for n in numbers if isinstance(n, int)], np.int64)
    book.apply(
        CommitColumns(
            key=keys,
            offset=arrays["commit.offset"][known],
            committed_ms=arrays["commit.committed_ms"][known],
            leader_epoch=np.full(len(keys), -1, np.int32),
            at=np.full(len(keys), -1, np.int64),
            topic_id=arrays["commit.topic_id"][known],
            metadata=[m for m, is_known in zip(texts["commit.metadata"], known.tolist(), strict=True) if is_known],
        ),
        state.saved_ms,
    )
    book.seen_ms[keys] = arrays["commit.seen_ms"][known]
    for name in SINCE_COLUMNS:
        # The moment of the saving is none at which anything began: without the column, nothing is known.
        column = arrays.get(f"commit.{name}")
        getattr(book, name)[keys] = NONE if column is None else column[known]
    for name in WINDOW_COLUMNS:
        getattr(book.window, name)[keys] = arrays[f"window.{name}"][known]
    return keys, arrays["commit.source"][known]


def _restore_ends(book: LagBook, names: "list[str]", arrays: "Mapping[str, NDArray[np.int64]]") -> None:
    import numpy as np

    places = zip(arrays["end.topic"].tolist(), arrays["end.partition"].tolist(), strict=True)
    slots = np.array([book.ends.slot(names[topic], partition) for topic, partition in places], np.int64)
    book.ends.record(slots, **{name: arrays[f"end.{name}"] for name in END_COLUMNS})


def _id_of(book: LagBook, number: int) -> "list[int]":
    return list(book.ends.topics.ids[number]) if number >= 0 else [0] * 16


STATE_KIND = "lag-state"
LIMIT_BYTES = 1 << 30
HEAD_LIMIT_BYTES = 1 << 20
DTYPES = ("<i8", "<i4", "|i1", "|u1", "|b1", "<f8")
TEXT = "text"
_LEVEL = 1

_Count = Annotated[int, Meta(ge=0, le=2**62)]
_Name = Annotated[str, Meta(max_length=100)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    name: _Name
    dtype: _Name
    shape: Annotated[tuple[_Count, ...], Meta(min_length=1, max_length=2)]
    bytes: _Count


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    cluster_id: Annotated[str, Meta(max_length=300)]
    topic_id: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    saved_ms: _Count
    sections: Annotated[tuple[_Section, ...], Meta(max_length=100)]
    packed_bytes: _Count
    digest: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


def encode_state(state: SavedState) -> bytes:
    """The file's bytes."""
    import zstandard

    sections: list[_Section] = []
    parts: list[bytes] = []
    for name, values in sorted(state.texts.items()):
        data = _packed_texts(values)
        sections.append(_Section(name=name, dtype=TEXT, shape=(len(values),), bytes=len(data)))
        parts.append(data)
    for name, array in sorted(state.arrays.items()):
        if array.dtype.str not in DTYPES:
            raise ValueError(f"{name} has type {array.dtype.str}")
        data = array.tobytes()
        sections.append(_Section(name=name, dtype=array.dtype.str, shape=array.shape, bytes=len(data)))
        parts.append(data)
    packed = zstandard.ZstdCompressor(level=_LEVEL).compress(b"".join(parts))
    head = _Head(
        cluster_id=state.cluster_id,
        topic_id=state.topic_id.hex(),
        saved_ms=state.saved_ms,
        sections=tuple(sections),
        packed_bytes=len(packed),
        digest=_digest(packed),
    )
    return encode_document(STATE_KIND, head) + packed


def decode_state(data: bytes, source: str) -> SavedState:
    """Read a state file; `InputError` when it is cut, changed, of another kind, or larger than it may be."""
    import zstandard

    line = data.find(b"\n", 0, HEAD_LIMIT_BYTES) + 1
    if not line:
        raise InputError(source, "has no header")
    head = decode_document(data[:line], STATE_KIND, _Head, source)
    packed = data[line:]
    if len(packed) != head.packed_bytes or _digest(packed) != head.digest:
        raise InputError(source, "is damaged: its digest does not match")
    size = sum(s.bytes for s in head.sections)
    if size > LIMIT_BYTES:
        raise InputError(source, f"holds more than {LIMIT_BYTES:,} bytes")
    try:
        if zstandard.frame_content_size(packed) != size:
            raise ValueError
        body = zstandard.ZstdDecompressor().decompress(packed) if size else b""
        texts, arrays = _unpack(head.sections, body)
    except (zstandard.ZstdError, ValueError):
        raise InputError(source, "is damaged: its sections do not fit together") from None
    return SavedState(
        cluster_id=head.cluster_id,
        topic_id=bytes.fromhex(head.topic_id),
        saved_ms=head.saved_ms,
        texts=texts,
        arrays=arrays,
    )


def _unpack(sections: Sequence[_Section], body: bytes) -> "tuple[dict[str, list[bytes]], dict[str, NDArray[Any]]]":
    import numpy as np

    texts: dict[str, list[bytes]] = {}
    arrays: dict[str, NDArray[Any]] = {}
    at = 0
    for section in sections:
        part = body[at : at + section.bytes]
        at += section.bytes
        if section.dtype == TEXT:
            texts[section.name] = _texts(part, section.shape[0])
        elif section.dtype not in DTYPES or prod(section.shape) * np.dtype(section.dtype).itemsize != len(part):
            raise ValueError
        else:
            # A copy, since arrays over bytes cannot be written to.
            arrays[section.name] = np.frombuffer(part, section.dtype).reshape(section.shape).copy()
    return texts, arrays


def _packed_texts(values: Sequence[bytes]) -> bytes:
    import numpy as np

    return np.array([len(v) for v in values], "<i8").tobytes() + b"".join(values)


def _texts(part: bytes, count: int) -> list[bytes]:
    import numpy as np

    sizes: list[int] = np.frombuffer(part[: 8 * count], "<i8").tolist()
    if len(sizes) != count or min(sizes, default=0) < 0 or 8 * count + sum(sizes) != len(part):
        raise ValueError
    return [part[8 * count + end - size : 8 * count + end] for size, end in zip(sizes, accumulate(sizes), strict=True)]


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=32).hexdigest()
