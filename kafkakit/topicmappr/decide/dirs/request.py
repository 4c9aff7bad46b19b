"""What the operator asked `topicmappr rebalance-dirs` for, validated."""

from collections.abc import Mapping
from dataclasses import dataclass

from kafkakit.core.broker_list import BrokerList
from kafkakit.core.errors import UsageError
from kafkakit.placement.log_dirs_balance.rules import DirRules


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceDirsRequest:
    """Balance the log dirs of the chosen brokers with copies of the chosen topics; no replica changes brokers.

    `rules.band` is required. `pinned` are topics or topic/partition that stay as they are. `words` are the flags as
    given, for the plan's record.
    """

    brokers: BrokerList
    rules: DirRules
    topics: tuple[str, ...]
    topics_exclude: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    words: Mapping[str, str]

    def __post_init__(self) -> None:
        if self.rules.band is None:
            raise UsageError("must specify --band", hint="write it like 10%")
        if not self.topics:
            raise UsageError("must specify --topics")
