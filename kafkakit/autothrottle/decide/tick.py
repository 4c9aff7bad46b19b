"""What one tick of the pacer found and did."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkakit.autothrottle.decide.law import Decision
from kafkakit.autothrottle.decide.overrides import Overrides
from kafkakit.execution.decide.journal_state import ConfigKey
from kafkakit.execution.decide.schedule.work import Rates


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """What one tick found and did; `requested_from` names the run that got the rates.

    `news` are those of the notes that the tick before did not have. `topics` and `brokers` are those of the moves, and
    `applied` the rates of brokers that are set now, where this tick set them.
    """

    moves: int
    decision: Decision
    rates: Rates | None = None
    left_bytes: int = 0
    writes: int = 0
    requested_from: str = ""
    notes: tuple[str, ...] = ()
    news: tuple[str, ...] = ()
    owed: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    brokers: tuple[int, ...] = ()
    applied: Mapping[ConfigKey, int] = field(default_factory=dict)
    overrides: Overrides = field(default_factory=Overrides)

    @property
    def is_quiet(self) -> bool:
        """True when nothing was changed and there is nothing new to say."""
        return not (self.writes or self.news or self.owed)
