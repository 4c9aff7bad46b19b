"""The topics of one cluster as numbers: names, ids, partitions, and what of their settings bears on time lag."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.streams.model.commit import NO_TOPIC_ID

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

NONE = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
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
        self.facts: list[TopicFacts] = []
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
        from kafkakit.streams.lag.decide.measure.arrays import grown

        found = self._numbers.get(topic)
        if found is not None:
            return found
        number = len(self.names)
        self._numbers[topic] = number
        self.names.append(topic)
        self.facts.append(TopicFacts())
        self.slots.append({})
        self.id_number = grown(self.id_number, number + 1, NONE)
        self.since_ms = grown(self.since_ms, number + 1, NONE)
        return number

    def find(self, topic: str, partition: int) -> int | None:
        """The slot of a partition, None if it has none yet."""
        number = self._numbers.get(topic)
        return None if number is None else self.slots[number].get(partition)

    def slot(self, topic: str, partition: int) -> int:
        """The slot of a partition, a new one if need be; NONE beyond `max_partitions`."""
        from kafkakit.streams.lag.decide.measure.arrays import grown

        found = self.find(topic, partition)
        if found is not None:
            return found
        if self.slot_count >= self.max_partitions:
            return NONE
        number = self.number(topic)
        slot = self.slots[number][partition] = self.slot_count
        self.slot_count += 1
        self.topic_of = grown(self.topic_of, self.slot_count, NONE)
        self.partition_of = grown(self.partition_of, self.slot_count, NONE)
        self.topic_of[slot], self.partition_of[slot] = number, partition
        return slot

    def set_facts(self, topic: str, facts: TopicFacts) -> None:
        """Take over a topic's settings."""
        self.facts[self.number(topic)] = facts

    def traits(self, slots: "Ints") -> "tuple[Bools, Bools, Bools]":
        """`is_log_append`, `is_dense` and `is_compacted` of the topics of these slots."""
        import numpy as np

        rows = [(f.is_log_append, f.is_dense, f.is_compacted) for f in (*self.facts, TopicFacts())]
        table = np.array(rows, dtype=bool)[self.topic_of[slots]]
        return table[:, 0], table[:, 1], table[:, 2]

    def retention_ms(self, slots: "Ints") -> "Ints":
        """`retention_ms` of the topics of these slots, NONE where unlimited or unknown."""
        import numpy as np

        known = [NONE if f.retention_ms is None else f.retention_ms for f in (*self.facts, TopicFacts())]
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
