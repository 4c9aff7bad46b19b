"""A made fleet: what is to be made, and the tables of its clusters by date."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice

from kafkakit.core.quantities import epoch_ms
from kafkakit.fleet.decide import synth_cluster as healthy
from kafkakit.fleet.decide.synth_load import load_tables
from kafkakit.fleet.decide.synth_segments import batch_rows, segment_parts
from kafkakit.fleet.decide.synth_shape import REPLICAS, ClusterShape, FleetSize, cluster_shapes


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthRequest:
    """What fleet is to be made: the same request makes the same bytes.

    `days` dates up to `last_day` are written, with all tables on the last one and those that drift is found in on the
    others. `defects` are counts by name.
    """

    size: FleetSize
    seed: int
    last_day: date
    days: int = 2
    is_skewed: bool = False
    defects: Mapping[str, int] = field(default_factory=dict)

    @property
    def end_ms(self) -> int:
        """The end of the last day, which is when the fleet is looked at."""
        return epoch_ms(datetime.combine(self.last_day, time(), UTC)) + healthy.DAY_MS

    def dates(self) -> tuple[str, ...]:
        """The dates, oldest first."""
        return tuple((self.last_day - timedelta(days=i)).isoformat() for i in range(self.days - 1, -1, -1))

    def shapes(self) -> tuple[ClusterShape, ...]:
        """The clusters."""
        return cluster_shapes(self.size, self.seed, skew=self.is_skewed)

    @property
    def segment_share(self) -> float:
        """Of how many of the partitions there are rows of segments."""
        return self.size.segment_rows / (self.size.partitions * REPLICAS * healthy.SEGMENTS)


def model_of(request: SynthRequest, shape: ClusterShape) -> healthy.ClusterModel:
    """The layout of a cluster."""
    return healthy.cluster_model(shape, request.seed, request.end_ms)


def tables_of(request: SynthRequest, model: healthy.ClusterModel, days_ago: int) -> healthy.Tables:
    """The tables of one date: all on the last one, of `segments` the first part; identities alone on others."""
    if days_ago:
        return healthy.identity_tables(model)
    tables = {**healthy.state_tables(model), **load_tables(model, request.size.hours), "batches": batch_rows(model)}
    first = next(segment_parts(model, request.segment_share), None)
    return tables if first is None else {**tables, "segments": first}


def more_segments(request: SynthRequest, model: healthy.ClusterModel) -> Iterator[healthy.Columns]:
    """The other parts of `segments` on the last date."""
    return islice(segment_parts(model, request.segment_share), 1, None)
