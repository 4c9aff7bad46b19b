"""Sampling the ends of the logs that groups read, a part at a time, so that commits never wait long."""

from collections import Counter
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING

from kafkakit.core.errors import OperationFailedError
from kafkakit.core.log_reads import LogSpan, TopicPlaces
from kafkakit.core.model import TopicPartition
from kafkakit.ports.log import LogReader
from kafkakit.streams.lag.decide.measure.book import LagBook

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

CHUNK = 2_000
TOPICS_PER_REQUEST = 2_000


class EndSampler:
    """Rounds over all partitions that groups have committed to: topic ids first, then ends in chunks.

    `now_ms` is the monitor's wall clock, read before and after each request; `guard` is entered while shared state
    changes. After a round, `as_of_ms` is when it began, `topics` are those that exist, `missing` those that do not
    although groups have commits for them, and `errors` counts the partitions without an answer by Kafka's name for
    the reason. Until `known_ms` the end of every partition was known, as of the last round.
    """

    def __init__(
        self, reader: LogReader, book: LagBook, now_ms: "Callable[[], int]", guard: AbstractContextManager[object]
    ) -> None:
        self._guard = guard
        self._reader, self._book, self._ends, self._now_ms = reader, book, book.ends, now_ms
        self._places: dict[int, TopicPartition] = {}
        self._todo: list[int] = []
        self._errors: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.missing: tuple[str, ...] = ()
        self.topics: tuple[str, ...] = ()
        self.rounds = 0
        self.as_of_ms = self.known_ms = -1
        self._began_ms = -1
        self._slots = self._ends.topics.topic_of[:0]
        self._unknown_since: dict[int, int] = {}

    @property
    def is_idle(self) -> bool:
        """True between two rounds."""
        return not self._todo

    def begin(self) -> None:
        """Begin a round: see which topics there are, and drop the samples of those recreated or gone."""
        import numpy as np

        book, table = self._book, self._ends.topics
        with self._guard:
            book.refresh_slots()
            slots = np.unique(book.slot[book.rows()])
            slots = slots[slots >= 0]
            numbers = np.unique(table.topic_of[slots]).tolist() if len(slots) else []
            names = [table.names[n] for n in numbers]
        found: dict[str, TopicPlaces] = {}
        for at in range(0, len(names), TOPICS_PER_REQUEST):
            # A request is refused when none of its topics may be described; others have their figures.
            with suppress(OperationFailedError):
                found.update(self._reader.places(names[at : at + TOPICS_PER_REQUEST]))
        seen_ms = self._now_ms()
        gone = [number for number, name in zip(numbers, names, strict=True) if name not in found]
        with self._guard:
            for name, place in sorted(found.items()):
                self._ends.see_topic(name, place.topic_id, seen_ms)
            is_gone = np.isin(table.topic_of[slots], gone) if len(slots) else np.zeros(0, bool)
            self._ends.forget(slots[is_gone])
        self.topics = tuple(sorted(found))
        self.missing = tuple(table.names[n] for n in gone)
        self._slots = slots[~is_gone]
        self._todo = self._slots[::-1].tolist()
        self._errors = Counter()
        self._began_ms = seen_ms
        if not self._todo:
            self._end()

    def step(self) -> int:
        """Sample one chunk; returns how many partitions it covered, 0 when the round is over."""
        if not self._todo:
            return 0
        chunk, self._todo = self._todo[-CHUNK:], self._todo[:-CHUNK]
        keys = {self._place(slot): slot for slot in chunk}
        before_ms = self._now_ms()
        spans = self._reader.spans(keys)
        after_ms = max(before_ms, self._now_ms())
        answered = [(keys[key], span) for key, span in spans.items() if isinstance(span, LogSpan)]
        self._errors.update(span.name for span in spans.values() if not isinstance(span, LogSpan))
        with self._guard:
            self._record(answered, before_ms, after_ms)
        if not self._todo:
            self._end()
        return len(chunk)

    def drop(self) -> None:
        """Forget all samples and the round at hand, for times that a clock which went back has made useless."""
        with self._guard:
            self._ends.forget(list(range(self._ends.topics.slot_count)))
        self._todo = []
        self._unknown_since = {}
        self.as_of_ms = self.known_ms = -1

    def _record(self, answered: list[tuple[int, LogSpan]], before_ms: int, after_ms: int) -> None:
        import numpy as np

        count = len(answered)
        self._ends.record(
            np.fromiter((slot for slot, _ in answered), np.int64, count),
            before_ms=np.full(count, before_ms, np.int64),
            after_ms=np.full(count, after_ms, np.int64),
            end=np.fromiter((span.end for _, span in answered), np.int64, count),
            stable=np.fromiter((span.stable for _, span in answered), np.int64, count),
            start=np.fromiter((span.start for _, span in answered), np.int64, count),
        )

    def _end(self) -> None:
        with self._guard:
            self._book.note_round()
            self._note_known()
        self.errors, self.rounds, self.as_of_ms = self._errors, self.rounds + 1, self._began_ms

    def _note_known(self) -> None:
        """The oldest of the newest samples; a partition that never had one counts from when it was first asked for."""
        known = self._ends.after_ms[self._slots]
        never = self._slots[known < 0].tolist()
        self._unknown_since = {slot: self._unknown_since.get(slot, self._began_ms) for slot in never}
        oldest = int(known[known >= 0].min(initial=self._began_ms))
        self.known_ms = min([oldest, *self._unknown_since.values()])

    def _place(self, slot: int) -> TopicPartition:
        place = self._places.get(slot)
        if place is None:
            table = self._ends.topics
            place = TopicPartition(table.names[int(table.topic_of[slot])], int(table.partition_of[slot]))
            self._places[slot] = place
        return place
