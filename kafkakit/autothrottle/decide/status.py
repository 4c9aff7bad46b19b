"""What is known of a cluster's pacers and throttles at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkakit.autothrottle.decide.overrides import Overrides
from kafkakit.autothrottle.decide.saved import SavedTick
from kafkakit.execution.decide.journal_state import ConfigKey


@dataclass(frozen=True, slots=True, kw_only=True)
class PacerStatus:
    """`own` are the values that the pacer's journal names and the cluster has, `others` all other throttles.

    `unreached` are brokers that do not answer; `leader` and `run` name the processes that hold the two leases.
    """

    cluster_id: str
    moves: int
    own: Mapping[ConfigKey, str] = field(default_factory=dict)
    others: Mapping[ConfigKey, str] = field(default_factory=dict)
    overrides: Overrides = field(default_factory=Overrides)
    tick: SavedTick | None = None
    unreached: tuple[int, ...] = ()
    leader: str = ""
    run: str = ""
