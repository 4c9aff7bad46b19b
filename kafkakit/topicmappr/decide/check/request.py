"""What the operator asked `topicmappr check` for, validated."""

from dataclasses import dataclass
from fractions import Fraction

from kafkakit.core.broker_list import BrokerList
from kafkakit.core.errors import UsageError

MAX_REPLICATION = 32_767


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest:
    """The rules to hold a cluster against.

    No `topics` means all; no `brokers` means all live ones. `band`, `leader_band` and `max_disk_use` are parts
    of one. `program` is how kafkakit is called, `context` is put into the commands that hints name
    (` --snapshot prod.json`), `topic_words` are the topics as given.
    """

    topics: tuple[str, ...] = ()
    topics_exclude: tuple[str, ...] = ()
    brokers: BrokerList | None = None
    replication: int = 0
    min_rack_ids: int = 0
    band: Fraction = Fraction(1, 10)
    leader_band: Fraction = Fraction(1, 10)
    max_disk_use: Fraction = Fraction(85, 100)
    topic_words: str = ".*"
    program: str = "kafkakit"
    context: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.replication <= MAX_REPLICATION:
            raise UsageError(f"--replication: {self.replication} is not between 0 and {MAX_REPLICATION}")
        if not 0 <= self.min_rack_ids <= MAX_REPLICATION:
            raise UsageError(f"--min-rack-ids: {self.min_rack_ids} is not between 0 and {MAX_REPLICATION}")
