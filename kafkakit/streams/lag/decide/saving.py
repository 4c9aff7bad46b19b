"""Between a book of commits and the state file: what is saved over a restart, and what is read again.

Saved: each key's newest commit with the times at which it was made and seen, the window of its last commits, and the
newest sample of each log's end. Records read are not saved: they are read again within seconds.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkakit.core.errors import InputError
from kafkakit.streams.lag.decide.cursors import Resume, ResumePoint
from kafkakit.streams.lag.decide.measure.book import LagBook
from kafkakit.streams.lag.decide.saved_state import SavedState
from kafkakit.streams.model.offsets_log.commits import CommitColumns

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

COMMIT_COLUMNS = ("offset", "committed_ms", "seen_ms")
WINDOW_COLUMNS = ("offset", "at_ms", "lag", "count", "head")
END_COLUMNS = ("end", "stable", "start", "before_ms", "after_ms")
POINT_COLUMNS = ("partition", "at", "known_to", "as_of_ms")


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
        **{f"commit.{name}": getattr(book, name)[rows] for name in COMMIT_COLUMNS},
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
