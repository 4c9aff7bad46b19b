"""All that is known of many group-partitions at one moment, as columns: the input of the sources of time lag."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkakit.streams.lag.decide.measure.ends import Bracket

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Columns of one length, -1 for unknown; times in ms.

    Of the commit: `committed`, `committed_ms` (coordinator's clock), `seen_ms` and `commits_as_of_ms` (monitor's
    clock: when this commit arrived, and until when surely all commits had arrived), `quiet_ms` (the moment of the
    newest end sample that an older commit had reached before it), `position` (the first offset not done at or above
    the log's start), `done_end` (one past the highest done), and what the metadata holds: `oldest_ms`,
    `newest_done_ms`, `stream_ms`.

    Of the log: `start`, `stable`, `end` at a moment between `before_ms` and `after_ms` (monitor's clock),
    `effective_end` where it is known to hold for this `end`: no data that consumers get stands at or above it; and
    `effective_end_is_data` when such data surely stands right below it. `at_position`, `at_done_end` and
    `at_last_done` are the end samples around the position, around `done_end` (or the start, if that is higher), and
    around the offset below `done_end`.

    Of records read: `record_offset` is the first record at or after `position` (as it was when read), its time is
    about `record_ms` and surely in `record_low_ms` to `record_high_ms`, it was there at `record_read_ms`;
    `record_is_data` when it surely is visible data, neither marker nor part of a transaction that is open or aborted.
    `done_record_ms` is the time of any record that is done.

    Of the topic: `is_log_append`, `is_dense`, `is_compacted` (see `TopicFacts`). `is_other_topic`: the commit is not
    of this topic.
    """

    committed: "Ints"
    committed_ms: "Ints"
    seen_ms: "Ints"
    commits_as_of_ms: "Ints"
    quiet_ms: "Ints"
    position: "Ints"
    done_end: "Ints"
    oldest_ms: "Ints"
    newest_done_ms: "Ints"
    stream_ms: "Ints"
    start: "Ints"
    stable: "Ints"
    end: "Ints"
    effective_end: "Ints"
    effective_end_is_data: "Bools"
    before_ms: "Ints"
    after_ms: "Ints"
    at_position: Bracket
    at_done_end: Bracket
    at_last_done: Bracket
    record_offset: "Ints"
    record_ms: "Ints"
    record_low_ms: "Ints"
    record_high_ms: "Ints"
    record_read_ms: "Ints"
    record_is_data: "Bools"
    done_record_ms: "Ints"
    is_log_append: "Bools"
    is_dense: "Bools"
    is_compacted: "Bools"
    is_other_topic: "Bools"

    def __len__(self) -> int:
        return len(self.committed)
