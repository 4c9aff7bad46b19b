"""What is known of several clusters at one moment, as a command shows it and as the service publishes it."""

from dataclasses import dataclass

from kafkakit.core.errors import TryLaterError
from kafkakit.streams.lag.decide.condition import MonitorCondition, MonitorPhase
from kafkakit.streams.lag.decide.measure.table import LagTable

WITHOUT_ANSWER = (MonitorPhase.CONNECTING, MonitorPhase.REFUSED, MonitorPhase.UNREACHABLE, MonitorPhase.BLIND)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """All clusters at one moment: tables of those that have a monitor, conditions of all."""

    at_ms: int
    tables: tuple[LagTable, ...]
    conditions: tuple[MonitorCondition, ...]

    @property
    def missing(self) -> tuple[tuple[str, str], ...]:
        """The clusters whose lag is not known, by name and reason."""
        return tuple(
            (c.cluster, c.reason or c.phase.value)
            for c in self.conditions
            if c.phase in WITHOUT_ANSWER or (c.as_of_ms < 0 and c.partitions)
        )

    @property
    def failure(self) -> TryLaterError | None:
        """The error for a command that needs all clusters, None where none is missing."""
        if not self.missing:
            return None
        name, reason = self.missing[0]
        count = f"{len(self.missing)} of {len(self.conditions)}"
        return TryLaterError(f"{count} clusters are not known; {name}: {reason}")


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
        """The names of the clusters that this instance monitors."""
        return tuple(sorted(c.cluster for c in self.conditions))
