"""What an instance of the service may publish at one moment."""

from dataclasses import dataclass

from kafkakit.streams.lag.decide.condition import MonitorCondition
from kafkakit.streams.lag.decide.measure.table import LagTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What this instance may publish at `at_ms`: the clusters that are certainly its own, and its own condition."""

    at_ms: int
    tables: tuple[LagTable, ...]
    conditions: tuple[MonitorCondition, ...]
    others: tuple[str, ...]
    instances: int

    @property
    def carried(self) -> tuple[str, ...]:
        """The names of the clusters that this instance carries."""
        return tuple(sorted(c.cluster for c in self.conditions))
