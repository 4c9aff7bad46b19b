"""What the operator asked `topicmappr place` for, validated."""

from dataclasses import dataclass

from kafkakit.core.broker_list import BrokerList
from kafkakit.core.errors import UsageError
from kafkakit.core.plan_rules import topic_problem
from kafkakit.topicmappr.decide.rebuild.request import MAX_REPLICATION

MAX_PARTITIONS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRequest:
    """A new topic; what is None is taken from the topics `like`, and `brokers` None means all live ones.

    `partition_bytes` is the expected size of one partition: then brokers are filled by bytes, not by counts.
    """

    topic: str
    partitions: int | None = None
    replication: int | None = None
    partition_bytes: int | None = None
    like: tuple[str, ...] = ()
    brokers: BrokerList | None = None
    min_rack_ids: int = 0

    def __post_init__(self) -> None:
        problem = topic_problem(self.topic)
        if problem:
            raise UsageError(f"{self.topic!r:.80} is {problem}", hint="letters, digits, '.', '_' and '-', at most 249")
        for flag, value, most in (
            ("--partitions", self.partitions, MAX_PARTITIONS),
            ("--replication", self.replication, MAX_REPLICATION),
        ):
            if value is not None and not 1 <= value <= most:
                raise UsageError(f"{flag}: {value} is not between 1 and {most}")
            if value is None and not self.like:
                raise UsageError(f"{flag} is missing", hint="give it, or name a topic to imitate with --topics-like")
        if self.partition_bytes is not None and self.partition_bytes < 1:
            raise UsageError("--partition-bytes must be at least 1 byte")
        if self.min_rack_ids < 0:
            raise UsageError(f"--min-rack-ids: {self.min_rack_ids} is below 0")
