"""The options of a consumer, and the hooks it calls."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from kafkakit.core.errors import UsageError
from kafkakit.ports.stream_consumer import ReadRecord
from kafkakit.streams.client.dead_letters import RejectSink
from kafkakit.streams.client.decide.commits import CommitRule
from kafkakit.streams.client.decide.rules import WorkRules
from kafkakit.streams.client.records import RecordOrigin
from kafkakit.streams.client.workers import Checkpoint
from kafkakit.streams.model.guarded_reads import BatchVerdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerOptions:
    """How a consumer reads and handles; the defaults suit handlers that wait for other services.

    `lanes` None are all but `dlq`; `strict_live` serves `live` before all others. `revoke_s` and `close_s` bound what
    a partition that goes elsewhere, and a close, wait for handlers. `strict_guard` judges each batch before any decoder
    gets it, as docs/bombs.md describes, for about twice the CPU time. `adopt_newer` commits over metadata of a newer
    version of this client, whose acknowledgements are then lost.
    """

    concurrency: int = 16
    work: WorkRules = field(default_factory=WorkRules)
    commit: CommitRule = field(default_factory=CommitRule)
    lanes: Collection[str] | None = None
    strict_live: bool = False
    commit_every_s: float = 1.0
    poll_records: int = 2_000
    revoke_s: float = 5.0
    close_s: float = 10.0
    adopt_newer: bool = False
    strict_guard: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.concurrency <= 1_000 or self.poll_records < 1:
            raise UsageError("concurrency is 1 to 1000, and a poll brings 1 record or more")
        if self.lanes is not None and not self.lanes:
            raise UsageError("lanes names no lane, so nothing would be read", hint="None reads all lanes but dlq")
        if self.commit_every_s <= 0 or min(self.revoke_s, self.close_s) < 0:
            raise UsageError("commit_every_s is above 0, revoke_s and close_s are 0 or more")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A batch that the client must not decode: reading continues at `next_offset`, and what is before is durable."""

    next_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerHooks:
    """What a consumer calls.

    `reject` writes rejected records (none: they stay references in commits, which base does not pass before
    `StreamConsumer.rejections_are_durable`); `spare` writes those that `reject` could not while their partition is
    full of what waits. `guard` gets the origin and the offset of a batch that the client cannot decode, the route's
    epoch, and the verdict that kept the client from decoding it (None where it tried): it makes a note that lasts, or
    returns None to leave the batch. `filter` sees records before they are handled, by their key and headers: those for
    which it is false are done at once (an error counts as true). `checkpoint` is called before each record is handled.
    """

    reject: RejectSink | None = None
    spare: RejectSink | None = None
    guard: Callable[[RecordOrigin, int, int, BatchVerdict | None], LeftOut | None] | None = None
    filter: Callable[[ReadRecord], bool] | None = None
    checkpoint: Checkpoint | None = None
